//! Blocks that wait for a device that was retired or became slow, and threads that wait for a last block.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use super::super::end_point::{Back, Feed};
use super::super::faults::{Faulty, Plan, has_device};
use super::super::fill_once::FillOnce;
use super::*;

/// The time after which a test fails that would wait for ever.
const LIMIT: Duration = Duration::from_secs(60);

/// One device that appears as two, each with one thread.
fn two_devices() -> Arc<Devices> {
    let plan = Plan { appears_as: 2, ..Plan::default() };
    Faulty::devices(plan, Options { end_points: 1, ..Options::default() }).1.unwrap()
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < LIMIT, "it does not happen that {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A block that sends its result, once its gate opens.
struct Ends {
    gate: Option<mpsc::Receiver<()>>,
    fails: bool,
    /// The time that its results take.
    collects: Duration,
    result: mpsc::Sender<Result<(), DeviceError>>,
}

impl Ends {
    fn new() -> (Box<Self>, mpsc::Receiver<Result<(), DeviceError>>) {
        let (result, ended) = mpsc::channel();
        (Box::new(Self { gate: None, fails: false, collects: Duration::ZERO, result }), ended)
    }
}

impl Block for Ends {
    fn size(&self) -> u64 {
        1
    }

    fn feed(&mut self, _: &mut Feed<'_>) -> Result<(), DeviceError> {
        if let Some(gate) = &self.gate {
            gate.recv().unwrap();
        }
        if self.fails { Err(DeviceError::Block("for the test".to_owned())) } else { Ok(()) }
    }

    fn collect(&mut self, _: &Back<'_>) {
        std::thread::sleep(self.collects);
    }
}

impl Work for Ends {
    fn block(&self) -> &dyn Block {
        self
    }

    fn block_mut(&mut self) -> &mut dyn Block {
        self
    }

    fn end(self: Box<Self>, result: Result<(), DeviceError>) {
        self.result.send(result).unwrap();
    }
}

#[test]
fn a_block_that_was_held_back_comes_back_when_its_device_was_retired_meanwhile() {
    if !has_device("a block that was held back") {
        return;
    }
    let devices = Devices::open(Options::default()).unwrap();
    let (work, ended) = Ends::new();
    let (failed, turns) = (Vec::new(), Vec::new());
    let queued = Queued { work, allowed: [0].into(), failed, turns, held_back: None, error: None };
    let device = &devices.list()[0];
    assert!(device.retire());
    devices.pool.retire(device, "for the test");
    devices.pool.put_back(queued, device, Arc::new(FillOnce::<()>::default()));
    assert_eq!(
        ended.try_recv(),
        Ok(Err(DeviceError::NoneLeft)),
        "it waits for a device that takes no blocks"
    );
}

#[test]
fn a_block_left_to_a_device_that_became_slow_is_taken_by_the_other() {
    if !has_device("a block left to a device that became slow") {
        return;
    }
    let devices = two_devices();
    let (mut slow, slow_ended) = Ends::new();
    let (open, gate) = mpsc::channel();
    slow.gate = Some(gate);
    let kind = slow.kind();
    for (device, seconds) in [(0, 1e-5), (1, 1e-6)] {
        devices.pool.shared.state.lock().rates[device].measure(kind, 1, seconds);
    }
    devices.submit(slow, [1].into());
    let (left, left_ended) = Ends::new();
    devices.submit(left, [0, 1].into());
    // Device 0 leaves the block to device 1, whose only thread feeds.
    wait_until("device 0 leaves the block to device 1", || devices.pool.shared.state.lock().has_declined);
    // The time that the block takes: it makes device 1 the slower one by far.
    std::thread::sleep(Duration::from_millis(20));
    open.send(()).unwrap();
    assert_eq!(slow_ended.recv_timeout(LIMIT), Ok(Ok(())));
    assert_eq!(left_ended.recv_timeout(LIMIT), Ok(Ok(())), "each device leaves the block to the other");
}

#[test]
fn threads_that_had_nothing_to_do_end_after_a_last_block_that_fails() {
    if !has_device("threads that had nothing to do") {
        return;
    }
    let devices = two_devices();
    let (mut first, first_ended) = Ends::new();
    let (open, gate) = mpsc::channel();
    first.gate = Some(gate);
    first.collects = Duration::from_millis(20);
    devices.submit(first, [1].into());
    let (mut last, last_ended) = Ends::new();
    last.fails = true;
    devices.submit(last, [1].into());
    let (dropped, has_dropped) = mpsc::channel();
    let shared = Arc::clone(&devices.pool.shared);
    let drops = std::thread::spawn(move || {
        drop(devices);
        dropped.send(()).unwrap();
    });
    wait_until("the devices are dropped", || shared.state.lock().closing);
    // While the results of the first are taken, the thread of device 0 looks, and sleeps again: a block waits for device 1.
    open.send(()).unwrap();
    assert_eq!(first_ended.recv_timeout(LIMIT), Ok(Ok(())));
    assert!(last_ended.recv_timeout(LIMIT).unwrap().is_err());
    has_dropped.recv_timeout(LIMIT).expect("the thread of device 0 waits for ever");
    drops.join().unwrap();
}
