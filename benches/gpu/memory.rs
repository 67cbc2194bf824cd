//! The rates at which a device copies and reads its memory: what other kernels are measured against.

use std::sync::Arc;

use boxwork_runtime::feeding::{
    Argument, Back, Block, DeviceError, Devices, Feed, Grid, KernelSpec, ProgramSource, Value,
};

use super::bounds::run_block;
use super::support::Spread;

const MEMORY_TEXT: &str = "\
__kernel void copy(__global const float4 *given, __global float4 *copied) {
    copied[get_global_id(0)] = given[get_global_id(0)];
}
__kernel void scan(__global const float4 *given, uint count, __global float4 *copied) {
    float4 sum = 0.0f;
    for (uint i = get_global_id(0); i < count; i += get_global_size(0)) {
        sum += given[i];
    }
    copied[get_global_id(0)] = sum;
}
";

static MEMORY: [KernelSpec; 2] = [
    KernelSpec { name: "copy", arguments: &[("given", Argument::Buffer), ("copied", Argument::Buffer)] },
    KernelSpec {
        name: "scan",
        arguments: &[
            ("given", Argument::Buffer),
            ("count", Argument::Value(4)),
            ("copied", Argument::Buffer),
        ],
    },
];

/// Copies, or reads, some fours of numbers within the device.
struct Memory {
    fours: usize,
    reads: bool,
}

impl Block for Memory {
    fn size(&self) -> u64 {
        self.fours as u64
    }

    fn feed(&mut self, feed: &mut Feed<'_>) -> Result<(), DeviceError> {
        let program = ProgramSource {
            name: "memory",
            text: MEMORY_TEXT,
            constants: Vec::new(),
            kernels: &MEMORY,
            exact: false,
        };
        feed.output::<[u32; 4]>("given", self.fours)?;
        feed.output::<[u32; 4]>("copied", self.fours)?;
        match self.reads {
            false => feed.launch(&program, "copy", Grid::of([self.fours / 256], [256]), &[])?,
            true => {
                // Sixteen fours an item.
                let values = [("count", Value::of(self.fours as u32))];
                feed.launch(&program, "scan", Grid::of([self.fours / 256 / 16], [256]), &values)?;
            }
        }
        feed.read::<[u32; 4]>("copied", 1)
    }

    fn collect(&mut self, _: &Back<'_>) {}
}

/// The rates of a device's memory in GB/s.
pub(super) struct Rates {
    /// Bytes read and written.
    pub(super) copied: f64,
    pub(super) read: f64,
}

/// Measures and prints what the device's memory can do, with a buffer of so many bytes.
pub(super) fn rates(devices: &Arc<Devices>, device: usize, table_bytes: usize, rounds: usize) -> Rates {
    // As much as the table, and no more than a buffer holds; whole groups of both kernels.
    let most = devices.list()[device].info().buffer_bytes_max.min(2 << 30) as usize;
    let fours = (table_bytes.min(most) / 16 / 4096).max(1) * 4096;
    let rate = |reads: bool| {
        let bytes = (16 * fours * if reads { 1 } else { 2 }) as f64;
        run_block(devices, device, Memory { fours, reads });
        Spread::of(
            (0..rounds)
                .map(|_| bytes / run_block(devices, device, Memory { fours, reads }).1.max(1e-9) / 1e9),
        )
    };
    let (copied, read) = (rate(false), rate(true));
    println!(
        "memory      {copied:.0} GB/s copied (read and written), {read:.0} GB/s read, {} MB",
        (16 * fours) >> 20
    );
    Rates { copied: copied.median, read: read.median }
}
