//! Blocks that use residents have the effect of running one after the other: random ones, against plain code.

use std::sync::Arc;

use boxwork_runtime::feeding::faults::{Faulty, Plan, has_device};
use boxwork_runtime::feeding::{
    Access, Argument, Back, Block, DeviceError, Devices, Feed, Grid, KernelSpec, Options, ProgramSource,
    Resident, Value,
};

use super::{Random, Station, on_all_devices, options};

const NUMBERS: usize = 100;
const RESIDENTS: usize = 5;
const STEPS: usize = 60;

const TEXT: &str = "\
// Slow enough that the next command would overtake it if it could.
__kernel void stir(__global const uint *one, __global const uint *other, uint addend, __global uint *to) {
    const uint idx = get_global_id(0);
    uint mixed = to[idx];
    for (uint round = 0; round < 200; ++round) mixed = mixed * 1664525 + one[idx] + 3 * other[idx] + addend;
    to[idx] = mixed;
}
";

fn program() -> ProgramSource {
    const KERNELS: &[KernelSpec] = &[KernelSpec {
        name: "stir",
        arguments: &[
            ("one", Argument::Buffer),
            ("other", Argument::Buffer),
            ("addend", Argument::Value(4)),
            ("to", Argument::Buffer),
        ],
    }];
    ProgramSource { name: "stir", text: TEXT, constants: Vec::new(), kernels: KERNELS, exact: true }
}

fn mix(one: u32, other: u32, addend: u32, mut to: u32) -> u32 {
    for _ in 0..200 {
        let more = one.wrapping_add(other.wrapping_mul(3)).wrapping_add(addend);
        to = to.wrapping_mul(1_664_525).wrapping_add(more);
    }
    to
}

/// The action of a step, by the places of the residents.
#[derive(Clone, Copy, Debug)]
enum Step {
    Set { to: usize, number: u32 },
    Mix { one: usize, other: usize, addend: u32, to: usize },
    Look { at: usize },
}

struct Mixing {
    residents: Arc<[Resident<u32>]>,
    step: Step,
    /// The result of a look by plain code, and its result on the device.
    expected: u32,
    found: Vec<u32>,
}

impl Block for Mixing {
    fn size(&self) -> u64 {
        1
    }

    fn residents(&self) -> Vec<Access> {
        let of = |at: usize| &self.residents[at];
        match self.step {
            Step::Set { to, .. } => vec![of(to).writes()],
            // A resident may be read and written by one block.
            Step::Mix { one, other, to, .. } => vec![of(one).reads(), of(other).reads(), of(to).writes()],
            Step::Look { at } => vec![of(at).reads()],
        }
    }

    fn feed(&mut self, feed: &mut Feed<'_>) -> Result<(), DeviceError> {
        let of = |at: usize| &self.residents[at];
        match self.step {
            Step::Set { to, number } => feed.write_resident("to", of(to), |to| {
                to.fill(number);
                Ok(())
            }),
            Step::Mix { one, other, addend, to } => {
                feed.resident("one", of(one))?;
                feed.resident("other", of(other))?;
                feed.resident("to", of(to))?;
                feed.launch(&program(), "stir", Grid::of([NUMBERS], [1]), &[("addend", Value::of(addend))])
            }
            Step::Look { at } => {
                feed.resident("at", of(at))?;
                feed.read::<u32>("at", NUMBERS)
            }
        }
    }

    fn collect(&mut self, back: &Back<'_>) {
        if let Step::Look { .. } = self.step {
            self.found = back.numbers("at").to_vec();
        }
    }
}

/// Random steps on a device. Each look that comes back must find the result of plain code; returns the number of such
/// looks.
fn check(devices: &Arc<Devices>, seed: u64) -> (usize, Vec<DeviceError>) {
    let mut random = Random(seed);
    let mut station = Station::new(devices);
    let Some(device) = station.blocks.roomiest() else { return (0, Vec::new()) };
    let residents: Arc<[Resident<u32>]> =
        (0..RESIDENTS).map(|_| station.blocks.resident(device, NUMBERS)).collect();
    let mut plain = [0; RESIDENTS];
    for step in 0..STEPS {
        let [one, other, to] = [(); 3].map(|()| random.below(RESIDENTS as u64) as usize);
        let number = random.below(1 << 20) as u32;
        let step = match random.below(4) {
            _ if step < RESIDENTS => Step::Set { to: step, number },
            0 => Step::Look { at: one },
            1 if number.is_multiple_of(4) => Step::Set { to, number },
            // A kernel gets each buffer once: otherwise its reads would be undefined.
            _ if one != to && other != to => Step::Mix { one, other, addend: number, to },
            _ => Step::Look { at: to },
        };
        let mut expected = 0;
        match step {
            Step::Set { to, number } => plain[to] = number,
            Step::Mix { one, other, addend, to } => {
                plain[to] = mix(plain[one], plain[other], addend, plain[to]);
            }
            Step::Look { at } => expected = plain[at],
        }
        station.submit(Mixing { residents: Arc::clone(&residents), step, expected, found: Vec::new() });
    }
    let (mut looks, mut errors) = (0, Vec::new());
    for (block, result) in station.take_all() {
        match (result, block.step) {
            (Ok(()), Step::Look { .. }) => {
                looks += 1;
                assert!(
                    block.found.iter().all(|found| *found == block.expected),
                    "seed {seed}: {:?}",
                    block.step
                );
            }
            (Ok(()), _) => {}
            (Err(error), _) => errors.push(error),
        }
    }
    assert!(errors.iter().all(DeviceError::is_of_device), "{errors:?}");
    (looks, errors)
}

#[test]
fn blocks_that_use_residents_seem_to_run_one_after_the_other() {
    if !has_device("blocks_that_use_residents_seem_to_run_one_after_the_other") {
        return;
    }
    for (end_points, thread_per_end_point) in [(1, true), (3, true), (3, false)] {
        let options = Options { end_points, thread_per_end_point, ..options() };
        let (driver, devices) = Faulty::devices(Plan { appears_as: 2, ..Plan::default() }, options);
        let devices = devices.unwrap();
        for seed in 0..20 {
            let (looks, errors) = check(&devices, seed);
            assert!(looks > 3 && errors.is_empty(), "{looks} looks, {errors:?}");
        }
        let statistics = devices.statistics();
        assert!(statistics.iter().filter(|device| device.blocks > 0).count() >= 1);
        drop(devices);
        assert_eq!(driver.left(), [], "residents are left");
    }
}

/// If a block fails, all blocks that depend on it fail; no result lacks a step.
#[test]
fn no_block_computes_with_a_state_that_lacks_a_step() {
    if !has_device("no_block_computes_with_a_state_that_lacks_a_step") {
        return;
    }
    on_all_devices(|devices: &Arc<Devices>, works| {
        let (looks, errors) = check(devices, 7);
        assert!(!works || (looks > 3 && errors.is_empty()), "{looks} looks, {errors:?}");
    });
}

#[test]
fn a_resident_is_lost_with_its_device_and_read_only_after_it_was_written() {
    if !has_device("a_resident_is_lost_with_its_device_and_read_only_after_it_was_written") {
        return;
    }
    // The second block hangs, and all later blocks.
    let plan = Plan { hangs: 2..u64::MAX, appears_as: 1, ..Plan::default() };
    let limit = std::time::Duration::from_millis(200);
    let (driver, devices) = Faulty::devices(plan, Options { limit, end_points: 1, ..options() });
    let devices = devices.unwrap();
    let mut station = Station::new(&devices);
    let residents: Arc<[Resident<u32>]> = (0..2).map(|_| station.blocks.resident(0, NUMBERS)).collect();
    let block = |step| Mixing { residents: Arc::clone(&residents), step, expected: 0, found: Vec::new() };
    station.submit(block(Step::Look { at: 0 }));
    let (_, early) = station.take_all().pop().unwrap();
    assert!(early.unwrap_err().to_string().contains("read before any block has written it"));
    station.submit(block(Step::Set { to: 0, number: 1 }));
    assert_eq!(station.take_all().pop().unwrap().1, Ok(()));
    assert!(residents.iter().all(|resident| !resident.is_lost() && resident.device() == 0));
    station.submit(block(Step::Set { to: 1, number: 1 }));
    station.submit(block(Step::Look { at: 1 }));
    for (_, result) in station.take_all() {
        assert!(matches!(result, Err(DeviceError::Hung { .. } | DeviceError::Lost)), "{result:?}");
    }
    assert!(residents.iter().all(Resident::is_lost), "the device is given up");
    station.submit(block(Step::Look { at: 0 }));
    assert_eq!(station.take_all().pop().unwrap().1, Err(DeviceError::NoneLeft));
    driver.let_go();
    drop((station, devices, residents));
    assert_eq!(driver.left(), []);
}
