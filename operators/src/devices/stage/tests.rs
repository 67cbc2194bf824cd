//! A task that squares numbers, on devices that work, that fail at each call of the driver, and on none.

use std::collections::BTreeSet;
use std::sync::Mutex;

use arrow_array::{ArrayRef, UInt32Array};
use arrow_schema::DataType;
use boxwork_runtime::descriptor::{Column, Descriptor};
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::feeding::faults::{Faulty, Plan, has_device};
use boxwork_runtime::feeding::{
    Argument, Back, DeviceError, Feed, Grid, KernelSpec, Options, ProgramSource, Value,
};
use boxwork_runtime::harness::Harness;
use boxwork_runtime::operator::{In, Kind, OperatorSpec, Out};
use boxwork_runtime::parameter::Arguments;

use super::*;

const TEXT: &str = "\
__kernel void square(__global const uint *numbers, uint count, __global uint *squares) {
    const size_t at = get_global_id(0);
    if (at < count) squares[at] = numbers[at] * numbers[at];
}
";

fn program() -> ProgramSource {
    const KERNELS: &[KernelSpec] = &[KernelSpec {
        name: "square",
        arguments: &[
            ("numbers", Argument::Buffer),
            ("count", Argument::Value(4)),
            ("squares", Argument::Buffer),
        ],
    }];
    ProgramSource { name: "squares", text: TEXT, constants: Vec::new(), kernels: KERNELS, exact: false }
}

fn numbers_column(_: &Arguments) -> Descriptor {
    Descriptor::new([Column::new("n", DataType::UInt32, "a number")])
}

const NUMBERS: In = In::stream(0, "numbers", numbers_column, "numbers");
const SQUARES: Out = Out::new(0, "squares", numbers_column, "their squares");

static SQUARE: OperatorSpec = OperatorSpec {
    inputs: &[NUMBERS],
    outputs: &[SQUARES],
    ..OperatorSpec::new("square", "Squares numbers.", Kind::Stateful, |_| unreachable!("a test makes it"))
};

/// A block of numbers, and their squares once a device has computed them.
struct Numbers {
    envelopes: Vec<Envelope>,
    numbers: Vec<u32>,
    squares: Vec<u32>,
    home: Option<usize>,
}

impl Block for Numbers {
    fn size(&self) -> u64 {
        self.numbers.len() as u64
    }

    fn feed(&mut self, feed: &mut Feed<'_>) -> Result<(), DeviceError> {
        let count = self.numbers.len();
        feed.write("numbers", count, |to: &mut [u32]| {
            to.copy_from_slice(&self.numbers);
            Ok(())
        })?;
        feed.output::<u32>("squares", count)?;
        let values = [("count", Value::of(count as u32))];
        feed.launch(&program(), "square", Grid::covering([count], [16]), &values)?;
        feed.read::<u32>("squares", count)
    }

    fn collect(&mut self, back: &Back<'_>) {
        self.squares = back.numbers("squares").to_vec();
    }
}

/// How the task behaves where devices compute.
#[derive(Clone, Copy, Default, PartialEq)]
enum Behaviour {
    #[default]
    Usual,
    /// Each envelope is a block of its own, for the last device.
    AtHome,
    /// Every block is submitted a second time.
    Twice,
    /// The task finds the second block wrong.
    Wrong,
    /// Every other envelope goes to the slots.
    ForSlots,
}

struct Square<const IS_ORDERED: bool> {
    behaviour: Behaviour,
    home: usize,
    taken: usize,
    finished: usize,
    again: BTreeSet<u32>,
    /// Numbers that the slots squared.
    on_slots: &'static Mutex<Vec<u32>>,
}

fn envelope(numbers: impl IntoIterator<Item = u32>) -> Envelope {
    let column: ArrayRef = Arc::new(UInt32Array::from_iter_values(numbers));
    Envelope::from_columns([("n", column)]).unwrap()
}

impl<const IS_ORDERED: bool> DeviceTask for Square<IS_ORDERED> {
    type Item = Envelope;
    type Block = Numbers;
    type Made = Envelope;

    const IS_ORDERED: bool = IS_ORDERED;

    fn take(&mut self, cx: &mut Context<'_>, device: bool) -> Result<Option<Taken<Envelope>>, BoxError> {
        let Some(numbers) = cx.take(NUMBERS) else { return Ok(None) };
        self.taken += 1;
        Ok(Some(match self.behaviour {
            Behaviour::AtHome if device => Taken::Whole(numbers),
            Behaviour::ForSlots if device && self.taken.is_multiple_of(2) => Taken::ForSlots(numbers),
            _ => {
                let weight = [numbers.rows() as u64, 0];
                Taken::Piece(numbers, weight)
            }
        }))
    }

    fn is_ended(&self, cx: &Context<'_>) -> bool {
        cx.is_ended(NUMBERS)
    }

    fn block(&mut self, _: &mut Context<'_>, envelopes: Vec<Envelope>) -> Result<Numbers, BoxError> {
        let mut numbers = Vec::new();
        for envelope in &envelopes {
            numbers.extend_from_slice(envelope.u32s("n")?);
        }
        let home = (self.behaviour == Behaviour::AtHome).then_some(self.home);
        Ok(Numbers { envelopes, numbers, squares: Vec::new(), home })
    }

    fn home(&self, block: &Numbers) -> Option<usize> {
        block.home
    }

    fn finish(&mut self, _: &mut Context<'_>, mut block: Numbers) -> Result<BlockOutcome<Self>, BoxError> {
        self.finished += 1;
        if self.behaviour == Behaviour::Wrong && self.finished == 2 {
            return Ok(BlockOutcome::Untrusted(block.envelopes));
        }
        if self.behaviour == Behaviour::Twice && self.again.insert(block.numbers[0]) {
            block.squares.clear();
            return Ok(BlockOutcome::Retry(block));
        }
        let mut squares = block.squares.into_iter();
        let made = block.envelopes.iter().map(|of| envelope(squares.by_ref().take(of.rows())));
        Ok(BlockOutcome::Made(made.collect()))
    }

    fn failed(&mut self, mut block: Numbers, is_served: bool) -> BlockOutcome<Self> {
        match block.home.take() {
            Some(_) if is_served => BlockOutcome::Retry(block),
            _ => BlockOutcome::Fallback(block.envelopes),
        }
    }

    fn compute(
        &mut self,
        cx: &mut Context<'_>,
        left: &mut VecDeque<Envelope>,
    ) -> Result<Vec<Envelope>, BoxError> {
        cx.announce();
        let Some(numbers) = left.pop_front() else { return Ok(Vec::new()) };
        let numbers = numbers.u32s("n")?;
        self.on_slots.lock().unwrap().extend_from_slice(numbers);
        Ok(vec![envelope(numbers.iter().map(|number| number * number))])
    }

    fn has_room(&self, cx: &Context<'_>) -> bool {
        cx.has_room(SQUARES)
    }

    fn push(&mut self, cx: &mut Context<'_>, made: Envelope) -> Result<Pushed, BoxError> {
        cx.push(SQUARES, made)
    }
}

const SIZES: Sizes =
    Sizes { block: [10, u64::MAX], block_min: [0; 2], slots: [1, u64::MAX], blocks_per_device: 2 };

/// Results and counts of a run of a stage.
struct Ran {
    /// By envelope, in the order in which they left.
    squares: Vec<Vec<u32>>,
    on_slots: Vec<u32>,
    statistics: StageStatistics,
}

/// A stage that shows its statistics to the test after each firing.
struct Seen<T: DeviceTask>(DeviceStage<T>, Arc<Mutex<StageStatistics>>);

impl<T: DeviceTask> Operator for Seen<T> {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        let flow = self.0.process(cx)?;
        *self.1.lock().unwrap() = self.0.statistics();
        Ok(flow)
    }
}

/// Squares 0 to 99, four in an envelope, where at most two envelopes leave at a time.
fn run<const IS_ORDERED: bool>(devices: Option<&Arc<Devices>>, behaviour: Behaviour, sizes: Sizes) -> Ran {
    let picked = devices.map(|devices| (Arc::clone(devices), (0..devices.list().len()).collect()));
    let on_slots: &'static Mutex<Vec<u32>> = Box::leak(Box::default());
    let task = Square::<IS_ORDERED> {
        behaviour,
        home: devices.map_or(0, |devices| devices.list().len() - 1),
        taken: 0,
        finished: 0,
        again: BTreeSet::new(),
        on_slots,
    };
    let seen = Arc::new(Mutex::default());
    let stage = DeviceStage::new(task, sizes, picked);
    let mut harness = Harness::of(&SQUARE, Box::new(Seen(stage, Arc::clone(&seen))));
    harness.room(2);
    for first in (0..100).step_by(4) {
        harness.give(NUMBERS, envelope(first..first + 4));
    }
    harness.end(NUMBERS);
    let mut squares: Vec<Vec<u32>> = Vec::new();
    while !harness.is_done() {
        harness.run().unwrap();
        let left = harness.taken(SQUARES);
        assert!(left.len() <= 2 || squares.is_empty(), "no more leave than there is room for");
        squares.extend(left.iter().map(|envelope| envelope.u32s("n").unwrap().to_vec()));
    }
    let statistics = *seen.lock().unwrap();
    assert_eq!(statistics.submitted, statistics.computed + statistics.again + statistics.failed);
    let on_slots = on_slots.lock().unwrap().clone();
    assert_eq!(statistics.left, on_slots.len() as u64 / 4);
    Ran { squares, on_slots, statistics }
}

/// Asserts that all squares left, each once, and in order if the task is ordered.
fn check(ran: &Ran, is_ordered: bool) {
    let mut squares = ran.squares.clone();
    if !is_ordered {
        squares.sort();
    }
    let expected: Vec<Vec<u32>> =
        (0..100).step_by(4).map(|first| (first..first + 4).map(|number| number * number).collect()).collect();
    assert_eq!(squares, expected);
}

fn options() -> Options {
    let cache = Some(std::env::temp_dir().join("boxwork-test-programs"));
    Options { cache, ..Options::default() }
}

#[test]
fn without_devices_the_slots_compute_everything_in_order() {
    for sizes in [SIZES, Sizes { slots: [9, 0], ..SIZES }] {
        let ran = run::<true>(None, Behaviour::Usual, sizes);
        check(&ran, true);
        assert_eq!(ran.on_slots, (0..100).collect::<Vec<_>>());
        assert_eq!(ran.statistics, StageStatistics { left: 25, ..StageStatistics::default() });
    }
}

#[test]
fn devices_compute_blocks_of_the_size_that_is_worth_it() {
    if !has_device("devices_compute_blocks_of_the_size_that_is_worth_it") {
        return;
    }
    for appears_as in [1, 2] {
        let (driver, devices) = Faulty::devices(Plan { appears_as, ..Plan::default() }, options());
        let devices = devices.unwrap();
        let ran = run::<true>(Some(&devices), Behaviour::Usual, SIZES);
        check(&ran, true);
        // Three envelopes have ten numbers.
        let all_on_devices = StageStatistics { submitted: 9, computed: 9, ..StageStatistics::default() };
        assert_eq!(ran.statistics, all_on_devices);
        let ran = run::<false>(Some(&devices), Behaviour::Usual, SIZES);
        check(&ran, false);
        assert_eq!(ran.statistics, all_on_devices);
        let ran = run::<true>(Some(&devices), Behaviour::AtHome, SIZES);
        check(&ran, true);
        assert_eq!(ran.statistics.computed, 25);
        assert_eq!(devices.take_warnings(), [""; 0]);
        let of_last = devices.statistics()[appears_as - 1].blocks;
        assert!(of_last >= 25, "{of_last} blocks of 25 that are to go there");
        drop(devices);
        assert_eq!(driver.left(), []);
    }
}

#[test]
fn a_block_that_is_too_small_is_computed_on_slots() {
    if !has_device("a_block_that_is_too_small_is_computed_on_slots") {
        return;
    }
    let (_, devices) = Faulty::devices(Plan::default(), options());
    let devices = devices.unwrap();
    // 96 numbers are eight blocks, and four are left.
    let ran = run::<true>(Some(&devices), Behaviour::Usual, Sizes { block_min: [5, u64::MAX], ..SIZES });
    check(&ran, true);
    assert_eq!((ran.statistics.computed, ran.on_slots), (8, (96..100).collect()));
    // All are too few.
    let sizes = Sizes { block: [1000, u64::MAX], block_min: [101, u64::MAX], ..SIZES };
    let ran = run::<true>(Some(&devices), Behaviour::Usual, sizes);
    check(&ran, true);
    assert_eq!((ran.statistics.submitted, ran.on_slots.len()), (0, 100));
}

#[test]
fn blocks_are_submitted_again_left_to_slots_or_found_wrong() {
    if !has_device("blocks_are_submitted_again_left_to_slots_or_found_wrong") {
        return;
    }
    let (_, devices) = Faulty::devices(Plan::default(), options());
    let devices = devices.unwrap();
    let ran = run::<true>(Some(&devices), Behaviour::Twice, SIZES);
    check(&ran, true);
    assert_eq!((ran.statistics.submitted, ran.statistics.again, ran.statistics.computed), (18, 9, 9));
    let ran = run::<true>(Some(&devices), Behaviour::Wrong, SIZES);
    check(&ran, true);
    let StageStatistics { submitted, computed, failed, .. } = ran.statistics;
    assert_eq!((computed, failed), (1, submitted - 1), "no result is used from the wrong one on");
    assert!(
        ran.on_slots.starts_with(&[12, 13, 14, 15]),
        "the second block is the slots': {:?}",
        ran.on_slots
    );
    let ran = run::<false>(Some(&devices), Behaviour::ForSlots, SIZES);
    check(&ran, false);
    let expected: Vec<u32> = (0..100).filter(|number| (number / 4) % 2 == 1).collect();
    assert_eq!(ran.on_slots, expected);
}

#[test]
fn what_a_device_fails_at_leaves_all_the_same() {
    if !has_device("what_a_device_fails_at_leaves_all_the_same") {
        return;
    }
    for for_good in [false, true] {
        for call in (1..).step_by(if for_good { 5 } else { 2 }) {
            let plan = Plan { call, for_good, appears_as: 2, ..Plan::default() };
            let (driver, devices) = Faulty::devices(plan, options());
            if let Ok(devices) = devices {
                check(&run::<true>(Some(&devices), Behaviour::Usual, SIZES), true);
                check(&run::<false>(Some(&devices), Behaviour::Usual, SIZES), false);
                check(&run::<true>(Some(&devices), Behaviour::AtHome, SIZES), true);
                drop(devices);
            }
            assert!(for_good || driver.left().is_empty(), "call {call}: {:?} are left", driver.left());
            if !driver.has_failed() {
                assert!(call > 30, "only {call} calls were tried");
                break;
            }
        }
    }
}

#[test]
fn a_cancelled_stage_ends_with_what_it_has_begun() {
    let task = Square::<true> {
        behaviour: Behaviour::Usual,
        home: 0,
        taken: 0,
        finished: 0,
        again: BTreeSet::new(),
        on_slots: Box::leak(Box::default()),
    };
    let on_slots = task.on_slots;
    let mut harness = Harness::of(&SQUARE, Box::new(DeviceStage::new(task, SIZES, None)));
    harness.give(NUMBERS, envelope(0..4));
    harness.run().unwrap();
    assert_eq!(harness.taken(SQUARES).len(), 1);
    harness.give(NUMBERS, envelope(4..8));
    harness.give(NUMBERS, envelope(8..12));
    harness.cancel();
    harness.run().unwrap();
    assert!(harness.is_done() && on_slots.lock().unwrap().len() == 8, "it ends with what it has begun");
}
