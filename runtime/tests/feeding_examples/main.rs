//! Examples of the contract of blocks, one of each kind: rounds of k-means, tables of a product quantiser, tiles of a
//! matrix, strips of an image. Each is compared with plain code, on devices that work and on devices that fail.

mod k_means;
mod order;
mod product_quantiser;
mod strips;
mod tiles;

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use boxwork_runtime::feeding::faults::{Faulty, Plan};
use boxwork_runtime::feeding::{Block, Blocks, DeviceError, Devices, Options};
use boxwork_runtime::operator::Outside;

/// Far more than any step takes: after this a test waits for ever.
const LONG: Duration = Duration::from_secs(120);

fn options() -> Options {
    let cache = Some(concat!(env!("CARGO_TARGET_TMPDIR"), "/programs").into());
    Options { cache, ..Options::default() }
}

/// The part of a box that handles blocks: submits them, and takes them back in order of submission.
struct Station<B> {
    blocks: Blocks<B>,
    sender: Sender<()>,
    ended: Receiver<()>,
}

impl<B: Block> Station<B> {
    fn new(devices: &Arc<Devices>) -> Self {
        let all: Vec<usize> = (0..devices.list().len()).collect();
        let (sender, ended) = channel();
        Self { blocks: Blocks::new(Arc::clone(devices), all), sender, ended }
    }

    fn submit(&mut self, block: B) {
        let sender = self.sender.clone();
        self.blocks.submit(block, Outside::new(move || sender.send(()).unwrap()));
    }

    /// All blocks, in the order in which they came back.
    fn take_all(&mut self) -> Vec<(B, Result<(), DeviceError>)> {
        let mut all = Vec::new();
        while self.blocks.in_flight() > 0 {
            self.ended.recv_timeout(LONG).expect("a block came back");
            all.push(self.blocks.take().expect("it is there"));
        }
        all
    }
}

/// Runs an example on one and on several devices that work (the flag says so), then on a device that fails at each call
/// of the driver, once and for good. Each time the example gives the right answer, on a device or on the slots, and
/// leaves nothing behind.
fn on_all_devices(example: impl Fn(&Arc<Devices>, bool)) {
    for (appears_as, thread_per_end_point) in [(1, true), (2, true), (2, false)] {
        let plan = Plan { appears_as, ..Plan::default() };
        let (driver, devices) = Faulty::devices(plan, Options { thread_per_end_point, ..options() });
        let devices = devices.unwrap();
        example(&devices, true);
        assert_eq!(devices.take_warnings(), [""; 0]);
        assert!(
            devices.statistics().iter().any(|device| device.blocks > 0),
            "no device has computed anything"
        );
        drop(devices);
        assert_eq!(driver.left(), []);
    }
    for for_good in [false, true] {
        // Each call fails once; with all later calls, only some are tried.
        for call in (1..).step_by(if for_good { 7 } else { 1 }) {
            let plan = Plan { call, for_good, appears_as: 1, ..Plan::default() };
            let (driver, devices) = Faulty::devices(plan, Options { end_points: 2, ..options() });
            if let Ok(devices) = devices {
                example(&devices, false);
            }
            // See `a_driver_that_fails_at_any_call_costs_nothing_but_time`.
            let is_given_up = |(kind, count): &(String, i64)| {
                for_good && (kind == "Buffer" && *count <= 8 || kind == "Queue" && *count <= 2)
            };
            let left = driver.left();
            assert!(left.iter().all(is_given_up), "call {call} fails: {left:?} are left");
            if !driver.has_failed() {
                assert!(call > 30, "only {call} calls were tried");
                break;
            }
        }
        let plan = Plan { question: 1, for_good, appears_as: 1, ..Plan::default() };
        let (_, devices) = Faulty::devices(plan, Options { end_points: 2, ..options() });
        example(&devices.expect("the device opens"), false);
    }
}

/// Seeded random numbers.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// Between -1 and 1.
    fn number(&mut self) -> f64 {
        self.below(1 << 20) as f64 / f64::from(1 << 19) - 1.0
    }
}
