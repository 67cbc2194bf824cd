//! A self-check of a device: a small program is compiled and run, and its results are compared.

use super::block::Block;
use super::driver::DeviceInfo;
use super::end_point::{Back, Feed};
use super::error::DeviceError;
use super::launch::{Grid, Value};
use super::pool::{Devices, Work};
use super::program::{Argument, KernelSpec, ProgramSource};

/// Work items of a group, and numbers of a block; not a multiple, so that the last group is not full.
const GROUP: usize = 64;
const NUMBERS: usize = 1000;

const TEXT: &str = "\
__kernel void scale(__global const float *values, float factor, uint count, __local float *shelf,
                    __global float *scaled) {
    const uint item = get_local_id(0);
    const uint idx = get_global_id(0);
    // Through the neighbour's place, so that local memory and barriers are checked too.
    shelf[GROUP - 1 - item] = idx < count ? values[idx] : 0.0f;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (idx < count) {
        scaled[idx] = factor * shelf[GROUP - 1 - item] + native_exp2(-values[idx]);
    }
}
";

fn program() -> ProgramSource {
    const KERNELS: &[KernelSpec] = &[KernelSpec {
        name: "scale",
        arguments: &[
            ("values", Argument::Buffer),
            ("factor", Argument::Value(4)),
            ("count", Argument::Value(4)),
            ("shelf", Argument::Local),
            ("scaled", Argument::Buffer),
        ],
    }];
    ProgramSource {
        name: "self_check",
        text: TEXT,
        constants: vec![("GROUP", GROUP.to_string())],
        kernels: KERNELS,
        exact: false,
    }
}

/// The block of the check. It keeps only its results, because its input is known.
#[derive(Default)]
struct Check {
    scaled: Vec<f32>,
}

fn value(idx: usize) -> f32 {
    idx as f32 / 64.0
}

impl Block for Check {
    fn size(&self) -> u64 {
        NUMBERS as u64
    }

    fn kind(&self) -> &'static str {
        "check"
    }

    fn feed(&mut self, feed: &mut Feed<'_>) -> Result<(), DeviceError> {
        feed.write("values", NUMBERS, |values: &mut [f32]| {
            values.iter_mut().enumerate().for_each(|(idx, to)| *to = value(idx));
            Ok(())
        })?;
        feed.output::<f32>("scaled", NUMBERS)?;
        let values = [
            ("factor", Value::of(3f32)),
            ("count", Value::of(NUMBERS as u32)),
            ("shelf", Value::local(GROUP * size_of::<f32>())),
        ];
        feed.launch(&program(), "scale", Grid::covering([NUMBERS], [GROUP]), &values)?;
        feed.read::<f32>("scaled", NUMBERS)
    }

    fn collect(&mut self, back: &Back<'_>) {
        self.scaled = back.numbers("scaled").to_vec();
    }
}

impl Check {
    fn verdict(&self) -> Result<(), String> {
        for (idx, found) in self.scaled.iter().enumerate() {
            let expected = 3.0 * f64::from(value(idx)) + (-f64::from(value(idx))).exp2();
            if (f64::from(*found) - expected).abs() > 1e-6 * expected.max(1.0) {
                return Err(format!("it computes {found}, not {expected}"));
            }
        }
        if self.scaled.len() == NUMBERS { Ok(()) } else { Err("it returns nothing".to_owned()) }
    }
}

impl Devices {
    /// Compiles and runs a small program on a device, and compares its results.
    ///
    /// Blocks the calling thread.
    ///
    /// # Errors
    /// The fault, as text for the user.
    pub fn self_check(&self, device: usize) -> Result<(), String> {
        let (sender, verdict) = std::sync::mpsc::channel();
        self.submit(Box::new(CheckWork { check: Check::default(), sender }), [device].into());
        // The block owns the sender, and ends in any case.
        verdict.recv().unwrap_or_else(|_| Err("the check was lost".to_owned()))
    }
}

/// A check, and the channel to the waiting thread.
struct CheckWork {
    check: Check,
    sender: std::sync::mpsc::Sender<Result<(), String>>,
}

impl Work for CheckWork {
    fn block(&self) -> &dyn Block {
        &self.check
    }

    fn block_mut(&mut self) -> &mut dyn Block {
        &mut self.check
    }

    fn end(self: Box<Self>, result: Result<(), DeviceError>) {
        let verdict = result.map_err(|error| error.to_string()).and_then(|()| self.check.verdict());
        // The receiver may be gone.
        let _ = self.sender.send(verdict);
    }
}

/// A device in one line: its name and properties.
impl std::fmt::Display for DeviceInfo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let gib = self.memory_bytes as f64 / f64::from(1 << 30);
        write!(f, "{} ({}, {} compute units, {gib:.1} GiB)", self.name, self.class, self.compute_units)
    }
}
