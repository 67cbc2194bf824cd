//! Blocks on devices: results, ends, faults at every call of the driver; and work outside of firings without a device.

mod support;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use boxwork_runtime::feeding::faults::{Faulty, Plan, has_device};
use boxwork_runtime::feeding::{
    Argument, Back, Block, Blocks, DeviceError, Devices, Feed, Grid, KernelSpec, Options, ProgramSource,
    SharedKey, Value as Given,
};
use boxwork_runtime::operator::*;
use boxwork_runtime::parameter::{Default, Parameter, ParameterType, Value};
use boxwork_runtime::prepare::Prepared;
use boxwork_runtime::request::{RequestError, Submission};
use boxwork_runtime::{Config, Runtime};
use support::*;

/// Compiled programs are kept between the tests, and between runs of them.
fn options() -> Options {
    let cache = Some(concat!(env!("CARGO_TARGET_TMPDIR"), "/programs").into());
    Options { cache, pinned_bytes: Some(1 << 20), ..Options::default() }
}

const ADD_TEXT: &str = "\
__kernel void add(__global const uint *table, __global const uint *addend, __global const uint *given, uint count,
                  __global uint *sums) {
    const uint idx = get_global_id(0);
    if (idx < count) {
        sums[idx] = given[idx] + addend[0] + table[given[idx] % 7];
    }
}
";

fn program() -> ProgramSource {
    const KERNELS: &[KernelSpec] = &[KernelSpec {
        name: "add",
        arguments: &[
            ("table", Argument::Buffer),
            ("addend", Argument::Buffer),
            ("given", Argument::Buffer),
            ("count", Argument::Value(4)),
            ("sums", Argument::Buffer),
        ],
    }];
    ProgramSource { name: "add", text: ADD_TEXT, constants: Vec::new(), kernels: KERNELS, exact: false }
}

fn table(idx: u64) -> u64 {
    1000 * idx
}

fn sum(number: u64) -> u64 {
    number + 3 + table(number % 7)
}

/// Adds to numbers on a device, from a shared, a replicated and an anonymous buffer.
struct Adding {
    numbers: Vec<u64>,
    sums: Vec<u64>,
    panic_at: u64,
    refuse_at: u64,
}

impl Block for Adding {
    fn size(&self) -> u64 {
        self.numbers.len() as u64
    }

    fn feed(&mut self, feed: &mut Feed<'_>) -> Result<(), DeviceError> {
        let count = self.numbers.len();
        assert!(!self.numbers.contains(&self.panic_at), "a panic in a block");
        if self.numbers.contains(&self.refuse_at) {
            return Err(DeviceError::Block(format!("does not like {}", self.refuse_at)));
        }
        let key = SharedKey { resource: 1, form: 0, part: 0 };
        // The table stays on the device, or is sent from pinned memory.
        let fill = |first: usize, table_at: &mut [u32]| {
            table_at.iter_mut().zip(first..).for_each(|(to, idx)| *to = table(idx as u64) as u32);
            Ok(())
        };
        match self.numbers.first().is_some_and(|first| first / 6 % 2 == 1) {
            true => feed.pinned_in_parts("table", key, 7, 7, |_, to| fill(0, to))?,
            false => feed.shared("table", key, 7, |to| fill(0, to))?,
        }
        feed.replicated("addend", 1, 1, |addend: &mut [u32]| {
            addend[0] = 3;
            Ok(())
        })?;
        feed.write("given", count, |given: &mut [u32]| {
            given.iter_mut().zip(&self.numbers).for_each(|(to, number)| *to = *number as u32);
            Ok(())
        })?;
        feed.output::<u32>("sums", count)?;
        feed.launch(&program(), "add", Grid::covering([count], [16]), &[("count", Given::of(count as u32))])?;
        feed.read::<u32>("sums", count)
    }

    fn collect(&mut self, back: &Back<'_>) {
        self.sums = back.numbers::<u32>("sums").iter().map(|sum| u64::from(*sum)).collect();
    }
}

/// The devices of the tests that have their own; boxes name them by number.
static STATIONS: Mutex<Vec<Weak<Devices>>> = Mutex::new(Vec::new());

fn station(devices: &Arc<Devices>) -> i64 {
    let mut stations = STATIONS.lock().unwrap();
    stations.push(Arc::downgrade(devices));
    stations.len() as i64 - 1
}

struct OnDevice {
    blocks: Blocks<Adding>,
    in_flight_max: usize,
    panic_at: u64,
    refuse_at: u64,
}

impl Operator for OnDevice {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        while cx.has_room(OUT)
            && let Some((block, result)) = self.blocks.take()
        {
            match result {
                Ok(()) => cx.push(OUT, envelope(block.sums))?,
                Err(error) if error.is_of_device() => {
                    cx.push(OUT, envelope(block.numbers.iter().map(|number| sum(*number))))?
                }
                Err(error) => return Err(error.into()),
            };
        }
        while self.blocks.in_flight() < self.in_flight_max
            && let Some(envelope) = cx.take(IN)
        {
            let (panic_at, refuse_at) = (self.panic_at, self.refuse_at);
            let numbers = envelope.u64s("n")?.to_vec();
            let block = Adding { numbers, sums: Vec::new(), panic_at, refuse_at };
            self.blocks.submit(block, cx.outside());
        }
        Ok(if cx.is_ended(IN) && self.blocks.in_flight() == 0 { Flow::Done } else { Flow::Wait })
    }
}

const IN: In = In::stream(0, "in", numbers, "numbers");
const OUT: Out = Out::new(0, "out", numbers, "their sums");

static ON_DEVICE: OperatorSpec = OperatorSpec {
    parameters: &[
        Parameter::new("station", ParameterType::integer_from(0), Default::Required, "which devices"),
        Parameter::new("in_flight", ParameterType::integer_from(1), Default::Integer(4), "blocks at once"),
        Parameter::new(
            "panic_at",
            ParameterType::integer_from(0),
            Default::Integer(i64::MAX),
            "a number that panics",
        ),
        Parameter::new(
            "refuse_at",
            ParameterType::integer_from(0),
            Default::Integer(i64::MAX),
            "one that is refused",
        ),
    ],
    inputs: &[IN],
    outputs: &[OUT],
    ..OperatorSpec::new("on_device", "adds on a device", Kind::Stateless, |bind| {
        let devices =
            STATIONS.lock().unwrap()[bind.count("station")].upgrade().expect("the test keeps its devices");
        let all: Vec<usize> = (0..devices.list().len()).collect();
        Ok(Box::new(OnDevice {
            blocks: Blocks::new(devices, all),
            in_flight_max: bind.count("in_flight"),
            panic_at: bind.count("panic_at") as u64,
            refuse_at: bind.count("refuse_at") as u64,
        }))
    })
};

fn on_device(count: i64, rows: i64, devices: &Arc<Devices>, settings: &[(&str, Value)]) -> Arc<Prepared> {
    let mut own = vec![("station", int(station(devices)))];
    own.extend(settings.iter().cloned());
    Graph::new()
        .add("s", "source", &[("count", int(count)), ("rows", int(rows))])
        .add("d", "on_device", &own)
        .add("c", "collect", &[])
        .chain("s -> d -> c")
        .prepare_with(&catalog().with(&ON_DEVICE))
}

fn run(runtime: &Runtime, prepared: &Arc<Prepared>) -> Result<Vec<u64>, RequestError> {
    let outcome = wait(&runtime.submit(prepared, &Submission::default()).unwrap());
    outcome.result.map(|()| sorted(&basket(prepared)))
}

fn sums(count: u64) -> Vec<u64> {
    let mut sums: Vec<u64> = (0..count).map(sum).collect();
    sums.sort_unstable();
    sums
}

#[test]
fn blocks_come_back_with_their_results_and_nothing_is_left() {
    if !has_device("blocks_come_back_with_their_results_and_nothing_is_left") {
        return;
    }
    for (thread_per_end_point, appears_as) in [(true, 2), (false, 2), (true, 4)] {
        let options = Options { thread_per_end_point, ..options() };
        let (driver, devices) = Faulty::devices(Plan { appears_as, ..Plan::default() }, options);
        let devices = devices.unwrap();
        assert_eq!(devices.self_check(0), Ok(()));
        assert_eq!(devices.self_check(1), Ok(()));
        let runtime = Runtime::start(Config::flat(2)).unwrap();
        for (count, rows, copies) in [(0, 1, 1), (1, 1, 1), (500, 7, 1), (2000, 100, 3)] {
            let prepared = on_device(count, rows, &devices, &[("copies", int(copies))]);
            assert_eq!(run(&runtime, &prepared).unwrap(), sums(count as u64));
        }
        assert_eq!(devices.take_warnings(), [""; 0]);
        let statistics = devices.statistics();
        assert_eq!(statistics.iter().map(|device| device.size).sum::<u64>(), 2501 + 2000);
        drop(devices);
        assert_eq!(driver.left(), []);
    }
}

/// Adds its numbers to the sums that the blocks before it have left on the end point.
struct Running {
    version: u64,
    numbers: Range<u32>,
    total: u32,
}

impl Block for Running {
    fn size(&self) -> u64 {
        1
    }

    fn feed(&mut self, feed: &mut Feed<'_>) -> Result<(), DeviceError> {
        static KERNELS: &[KernelSpec] = &[KernelSpec {
            name: "run",
            arguments: &[
                ("given", Argument::Buffer),
                ("count", Argument::Value(4)),
                ("total", Argument::Buffer),
            ],
        }];
        let text = "__kernel void run(__global const uint *given, uint count, __global uint *total) {
            for (uint idx = 0; idx < count; ++idx) total[0] += given[idx];
        }";
        let program =
            ProgramSource { name: "run", text, constants: Vec::new(), kernels: KERNELS, exact: true };
        feed.replicated("total", self.version, 1, |total: &mut [u32]| {
            total[0] = 0;
            Ok(())
        })?;
        feed.write("given", self.numbers.len(), |given: &mut [u32]| {
            given.iter_mut().zip(self.numbers.clone()).for_each(|(to, number)| *to = number);
            Ok(())
        })?;
        feed.launch(&program, "run", Grid::of([1], [1]), &[("count", Given::of(self.numbers.len() as u32))])?;
        feed.read::<u32>("total", 1)
    }

    fn collect(&mut self, back: &Back<'_>) {
        self.total = back.numbers::<u32>("total")[0];
    }
}

/// The incremental case of the source's section 3.4.2; the tests above are its simple and its iterative case.
#[test]
fn blocks_add_to_numbers_that_stay_on_their_end_point() {
    if !has_device("blocks_add_to_numbers_that_stay_on_their_end_point") {
        return;
    }
    let (driver, devices) =
        Faulty::devices(Plan { appears_as: 1, ..Plan::default() }, Options { end_points: 1, ..options() });
    let mut blocks = Blocks::new(devices.unwrap(), vec![0]);
    let (tell, told) = std::sync::mpsc::channel();
    // A new version replaces the numbers.
    for version in [1, 2] {
        for nth in 0..20 {
            let tell = tell.clone();
            let outside = Outside::new(move || tell.send(()).unwrap());
            blocks.submit(Running { version, numbers: nth * 5..nth * 5 + 5, total: 0 }, outside);
        }
        let mut ended = BTreeMap::new();
        for _ in 0..20 {
            told.recv().unwrap();
            let (block, result) = blocks.take().unwrap();
            result.unwrap();
            ended.insert(block.numbers.end, block.total);
        }
        assert!(ended.iter().all(|(end, total)| *total == (0..*end).sum::<u32>()), "{ended:?}");
    }
    drop(blocks);
    assert_eq!(driver.left(), []);
}

#[test]
fn errors_and_panics_of_a_block_are_its_requests_alone() {
    if !has_device("errors_and_panics_of_a_block_are_its_requests_alone") {
        return;
    }
    let devices = Devices::open(options()).unwrap();
    let runtime = Runtime::start(Config::flat(2)).unwrap();
    for (setting, words) in [("panic_at", "a panic in a block"), ("refuse_at", "does not like 66")] {
        let bad = on_device(600, 50, &devices, &[(setting, int(66))]);
        let error = run(&runtime, &bad).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
        assert_eq!(run(&runtime, &on_device(600, 50, &devices, &[])).unwrap(), sums(600));
    }
    assert_eq!(devices.take_warnings(), [""; 0], "the device is not at fault");
}

/// Every call of the driver fails once, and then with all later calls.
#[test]
fn a_driver_that_fails_at_any_call_costs_nothing_but_time() {
    if !has_device("a_driver_that_fails_at_any_call_costs_nothing_but_time") {
        return;
    }
    let runtime = Runtime::start(Config::flat(2)).unwrap();
    for for_good in [false, true] {
        for call in 1.. {
            let plan = Plan { call, for_good, appears_as: 1, ..Plan::default() };
            let (driver, devices) = Faulty::devices(plan, Options { end_points: 1, ..options() });
            if let Ok(devices) = devices {
                let prepared = on_device(24, 6, &devices, &[("in_flight", int(2))]);
                assert_eq!(run(&runtime, &prepared).unwrap(), sums(24), "call {call} fails");
                assert!(
                    devices.take_warnings().len() <= 2,
                    "call {call}: more than one warning for a device"
                );
            }
            let left = driver.left();
            // A device that no longer reports whether it has finished keeps the staging memory that it may write to,
            // and the pinned memory with the queue of its map.
            let is_given_up = |(kind, count): &(String, i64)| {
                for_good && (kind == "Buffer" && *count <= 4 || kind == "Queue" && *count <= 1)
            };
            assert!(left.iter().all(is_given_up), "call {call} fails: {left:?} are left");
            if !driver.has_failed() {
                assert!(call > 30, "only {call} calls were tried");
                break;
            }
        }
    }
}

#[test]
fn one_device_takes_over_blocks_that_the_other_cannot_compile_or_hold() {
    if !has_device("one_device_takes_over_blocks_that_the_other_cannot_compile_or_hold") {
        return;
    }
    let runtime = Runtime::start(Config::flat(2)).unwrap();
    let refuses = Plan { appears_as: 2, compiles_not_on: Some(0), ..Plan::default() };
    let (driver, devices) = Faulty::devices(refuses, Options { cache: None, ..options() });
    let devices = devices.unwrap();
    assert!(devices.self_check(0).unwrap_err().contains("made to refuse"));
    assert_eq!(devices.self_check(1), Ok(()));
    assert_eq!(run(&runtime, &on_device(300, 10, &devices, &[])).unwrap(), sums(300));
    let warnings = devices.take_warnings();
    assert!(
        !warnings.is_empty() && warnings.iter().all(|warning| warning.starts_with("device 0")),
        "{warnings:?}"
    );
    drop(devices);
    assert_eq!(driver.left(), []);

    // 16 KiB of device memory: enough for the smallest buffers of a block, not for large ones.
    let (driver, devices) =
        Faulty::devices(Plan::default(), Options { memory_bytes: Some(16 << 10), ..options() });
    let devices = devices.unwrap();
    assert_eq!(run(&runtime, &on_device(20_000, 10_000, &devices, &[])).unwrap(), sums(20_000));
    assert!(devices.statistics()[0].failures > 0 && devices.list()[0].memory_used_bytes() <= 16 << 10);
    drop(devices);
    assert_eq!(driver.left(), []);
}

#[test]
fn a_cancelled_request_leaves_nothing_on_the_device() {
    if !has_device("a_cancelled_request_leaves_nothing_on_the_device") {
        return;
    }
    let (driver, devices) = Faulty::devices(Plan::default(), options());
    let devices = devices.unwrap();
    let runtime = Runtime::start(Config::flat(2)).unwrap();
    for round in 0..20 {
        let prepared = on_device(100_000, 10, &devices, &[("in_flight", int(1 + round % 7))]);
        let request = runtime.submit(&prepared, &Submission::default()).unwrap();
        let far_enough = || basket(&prepared).got.lock().len() >= 10 * round as usize;
        while !far_enough() && request.wait_timeout(Duration::ZERO).is_none() {
            std::thread::yield_now();
        }
        assert!(far_enough(), "it ended before it was cancelled");
        request.cancel();
        assert!(matches!(wait(&request).result, Err(RequestError::Cancelled) | Ok(())));
    }
    assert_eq!(run(&runtime, &on_device(100, 10, &devices, &[])).unwrap(), sums(100));
    drop(devices);
    assert_eq!(driver.left(), []);
}

/// Whether something becomes true within seconds.
fn becomes(mut what: impl FnMut() -> bool) -> bool {
    let begun = std::time::Instant::now();
    while !what() {
        if begun.elapsed() > Duration::from_secs(20) {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    true
}

#[test]
fn a_device_that_hangs_is_given_up_and_its_memory_is_kept_until_it_ends() {
    if !has_device("a_device_that_hangs_is_given_up_and_its_memory_is_kept_until_it_ends") {
        return;
    }
    let runtime = Runtime::start(Config::flat(2)).unwrap();
    for thread_per_end_point in [true, false] {
        // Blocks on both lanes are gone; a later one finds the device retired.
        let plan = Plan { hangs: 3..u64::MAX, appears_as: 1, ..Plan::default() };
        let limit = Duration::from_millis(200);
        let options = Options { limit, thread_per_end_point, ..options() };
        let (driver, devices) = Faulty::devices(plan, options);
        let devices = devices.unwrap();
        for _ in 0..2 {
            let prepared = on_device(400, 20, &devices, &[("in_flight", int(4))]);
            assert_eq!(run(&runtime, &prepared).unwrap(), sums(400));
        }
        assert!(devices.list()[0].is_retired());
        let warnings = devices.take_warnings();
        assert_eq!(warnings.len(), 1, "one warning: {warnings:?}");
        assert!(warnings[0].contains("did not come back within 0.2 s"), "{warnings:?}");
        assert!(driver.hung() > 0 && devices.statistics()[0].failures > 0);
        // They end after all: no box is notified, and the memory kept for them goes back.
        let held = |driver: &Faulty| driver.left().iter().any(|(kind, _)| kind == "Event");
        assert!(held(&driver), "the memory of a lost block was released");
        driver.let_go();
        let is_read = |driver: &Faulty| {
            // The event that filled the shared buffer stays with it.
            driver.left().iter().all(|(kind, count)| kind != "Event" || *count == 1)
        };
        assert!(becomes(|| is_read(&driver)), "{:?} are left", driver.left());
        assert_eq!(run(&runtime, &on_device(40, 20, &devices, &[])).unwrap(), sums(40));
        drop(devices);
        assert_eq!(driver.left(), []);
    }
}

#[test]
fn a_block_that_hangs_goes_to_the_other_device() {
    if !has_device("a_block_that_hangs_goes_to_the_other_device") {
        return;
    }
    let runtime = Runtime::start(Config::flat(2)).unwrap();
    let plan = Plan { hangs: 1..2, appears_as: 2, ..Plan::default() };
    // Long enough for the other device on a busy machine.
    let limit = Duration::from_secs(2);
    let (driver, devices) = Faulty::devices(plan, Options { limit, end_points: 1, ..options() });
    let devices = devices.unwrap();
    let prepared = on_device(400, 20, &devices, &[("in_flight", int(4))]);
    assert_eq!(run(&runtime, &prepared).unwrap(), sums(400));
    let retired: Vec<bool> = devices.list().iter().map(|device| device.is_retired()).collect();
    assert_eq!(retired.iter().filter(|retired| **retired).count(), 1);
    let blocks: u64 = devices.statistics().iter().map(|device| device.blocks).sum();
    assert_eq!((blocks, devices.take_warnings().len()), (20, 1), "every block was computed on a device");
    // No block waits for a device that never answers, and its threads end.
    let begun = std::time::Instant::now();
    drop(devices);
    assert!(begun.elapsed() < Duration::from_secs(10));
    assert!(!driver.left().is_empty(), "a device may still write to released memory");
    driver.let_go();
    assert_eq!(driver.hung(), 0);
}
