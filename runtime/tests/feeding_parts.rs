//! Parts that several blocks need, and values kept from block to block: filled once, without waiting threads, bounded.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use boxwork_runtime::feeding::faults::{Faulty, Plan, has_device};
use boxwork_runtime::feeding::{
    Argument, Back, Block, Blocks, DeviceError, Devices, Feed, Grid, KernelSpec, Options, ProgramSource,
    SharedKey, Value,
};
use boxwork_runtime::operator::Outside;

/// Far more than any step of a test takes: after this a thread waits for ever.
const LONG: Duration = Duration::from_secs(120);

fn options() -> Options {
    let cache = Some(concat!(env!("CARGO_TARGET_TMPDIR"), "/programs").into());
    Options { cache, pinned_bytes: Some(1 << 20), ..Options::default() }
}

fn program(constant: u32) -> ProgramSource {
    const KERNELS: &[KernelSpec] = &[KernelSpec {
        name: "take",
        arguments: &[("table", Argument::Buffer), ("place", Argument::Value(4)), ("taken", Argument::Buffer)],
    }];
    let text = "__kernel void take(__global const uint *table, uint place, __global uint *taken) {
        taken[0] = table[place] + CONSTANT;
    }";
    let constants = vec![("CONSTANT", constant.to_string())];
    ProgramSource { name: "take", text, constants, kernels: KERNELS, exact: true }
}

/// The way in which a block gets its table.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    /// Its own.
    Sent,
    Shared,
    Pinned,
}

/// The end of the filling of a table.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Well,
    Refused,
    Panicked,
}

/// Signals that it fills, and ends only when the test lets it.
struct Gate {
    begun: Sender<()>,
    may_end: Mutex<Receiver<()>>,
}

/// Takes a number of a table.
struct Taking {
    name: &'static str,
    way: Way,
    constant: u32,
    end: End,
    gate: Option<Gate>,
    filled: Arc<AtomicUsize>,
    taken: u32,
}

impl Taking {
    fn new(name: &'static str, way: Way, filled: &Arc<AtomicUsize>) -> Self {
        let filled = Arc::clone(filled);
        Self { name, way, constant: 0, end: End::Well, gate: None, filled, taken: 0 }
    }
}

impl Block for Taking {
    fn size(&self) -> u64 {
        1
    }

    fn feed(&mut self, feed: &mut Feed<'_>) -> Result<(), DeviceError> {
        let (gate, end, filled) = (self.gate.take(), self.end, Arc::clone(&self.filled));
        let fill = |_: usize, table: &mut [u32]| {
            filled.fetch_add(1, Ordering::SeqCst);
            if let Some(gate) = &gate {
                gate.begun.send(()).unwrap();
                let ended = gate.may_end.lock().unwrap().recv_timeout(LONG);
                ended.map_err(|_| DeviceError::Block("no other block was fed meanwhile".to_owned()))?;
            }
            match end {
                End::Well => table.iter_mut().zip(100..).for_each(|(to, number)| *to = number),
                End::Refused => return Err(DeviceError::Block("refused".to_owned())),
                End::Panicked => panic!("while a part is filled"),
            }
            Ok(())
        };
        let key = SharedKey { resource: 1, form: 0, part: 0 };
        match self.way {
            Way::Sent => feed.write("table", 8, |to| fill(0, to))?,
            Way::Shared => feed.shared("table", key, 8, |to| fill(0, to))?,
            Way::Pinned => feed.pinned_in_parts("table", key, 8, 8, fill)?,
        }
        feed.output::<u32>("taken", 1)?;
        feed.launch(&program(self.constant), "take", Grid::of([1], [1]), &[("place", Value::of(5u32))])?;
        feed.read::<u32>("taken", 1)
    }

    fn collect(&mut self, back: &Back<'_>) {
        self.taken = back.numbers::<u32>("taken")[0];
    }
}

/// Submits blocks, and waits for one after the other.
struct Station {
    driver: Arc<Faulty>,
    blocks: Blocks<Taking>,
    sender: Sender<()>,
    ended: Receiver<()>,
}

impl Station {
    fn new(options: Options) -> Self {
        let (driver, devices) = Faulty::devices(Plan { appears_as: 1, ..Plan::default() }, options);
        let (sender, ended) = channel();
        Self { driver, blocks: Blocks::new(devices.unwrap(), vec![0]), sender, ended }
    }

    fn submit(&mut self, block: Taking) {
        let sender = self.sender.clone();
        self.blocks.submit(block, Outside::new(move || sender.send(()).unwrap()));
    }

    /// The next block that comes back.
    fn next(&mut self) -> (Taking, Result<(), DeviceError>) {
        self.ended.recv_timeout(LONG).expect("a block came back");
        self.blocks.take().expect("it is there")
    }

    /// All blocks have come back, and nothing is left of them.
    fn close(self) {
        assert_eq!(self.blocks.in_flight(), 0);
        drop(self.blocks);
        assert_eq!(self.driver.left(), []);
    }
}

/// A block fills a part, and the filling waits for a block that does not need the part. It never ended when a second
/// block that needs the part made the other feeding thread wait.
#[test]
fn a_block_that_needs_a_part_being_filled_lets_others_go_first() {
    if !has_device("a_block_that_needs_a_part_being_filled_lets_others_go_first") {
        return;
    }
    for way in [Way::Shared, Way::Pinned] {
        for end in [End::Well, End::Refused, End::Panicked] {
            let mut station = Station::new(Options { end_points: 2, ..options() });
            let filled = Arc::new(AtomicUsize::new(0));
            if way == Way::Pinned {
                // A part that is requested once is not pinned.
                station.submit(Taking::new("early", way, &filled));
                station.next().1.unwrap();
                filled.store(0, Ordering::SeqCst);
            }
            let ((begun, is_begun), (end_it, may_end)) = (channel(), channel());
            let gate = Some(Gate { begun, may_end: Mutex::new(may_end) });
            station.submit(Taking { gate, end, ..Taking::new("first", way, &filled) });
            is_begun.recv_timeout(LONG).unwrap();
            station.submit(Taking::new("second", way, &filled));
            station.submit(Taking::new("other", Way::Sent, &Arc::default()));
            let (other, result) = station.next();
            assert_eq!((other.name, result, other.taken), ("other", Ok(()), 105), "{way:?}, {end:?}");
            end_it.send(()).unwrap();
            let mut ended = [station.next(), station.next()];
            ended.sort_by_key(|(block, _)| block.name);
            let [(first, result), (second, of_second)] = ended;
            assert_eq!((second.name, of_second, second.taken), ("second", Ok(()), 105), "{way:?}, {end:?}");
            match end {
                End::Well => assert_eq!((result, first.taken), (Ok(()), 105)),
                End::Refused => assert_eq!(result, Err(DeviceError::Block("refused".to_owned()))),
                End::Panicked => assert!(matches!(result, Err(DeviceError::Panicked(_))), "{result:?}"),
            }
            let fillings = if end == End::Well { 1 } else { 2 };
            assert_eq!(filled.load(Ordering::SeqCst), fillings, "{way:?}, {end:?}: filled for each block");
            station.close();
        }
    }
}

#[test]
fn programs_and_kernels_do_not_pile_up() {
    if !has_device("programs_and_kernels_do_not_pile_up") {
        return;
    }
    let mut station = Station::new(Options { end_points: 1, programs_max: 3, ..options() });
    // The first program is used each time, with another one, and stays.
    let constants = (1..8).flat_map(|constant| [0, constant]);
    for constant in constants {
        station.submit(Taking { constant, ..Taking::new("one", Way::Sent, &Arc::default()) });
        let (block, result) = station.next();
        assert_eq!((result, block.taken), (Ok(()), 105 + constant));
        let left = station.driver.left();
        let of = |wanted: &str| left.iter().find(|(kind, _)| kind == wanted).map_or(0, |(_, count)| *count);
        assert!(of("Kernel") <= 3 && of("Program") <= 3, "{left:?}");
    }
    station.close();
}

#[test]
fn devices_are_dropped_while_a_block_is_held_back() {
    if !has_device("devices_are_dropped_while_a_block_is_held_back") {
        return;
    }
    let mut station = Station::new(Options { end_points: 2, ..options() });
    let filled = Arc::new(AtomicUsize::new(0));
    let ((begun, is_begun), (end_it, may_end)) = (channel(), channel());
    let gate = Some(Gate { begun, may_end: Mutex::new(may_end) });
    station.submit(Taking { gate, ..Taking::new("first", Way::Shared, &filled) });
    is_begun.recv_timeout(LONG).unwrap();
    station.submit(Taking::new("second", Way::Shared, &filled));
    let Station { driver, blocks, ended, .. } = station;
    let devices: Arc<Devices> = Arc::clone(blocks.devices());
    drop(blocks);
    let closing = std::thread::spawn(move || drop(devices));
    end_it.send(()).unwrap();
    closing.join().unwrap();
    assert_eq!(ended.try_iter().count(), 2, "both came to an end");
    assert_eq!(driver.left(), []);
}
