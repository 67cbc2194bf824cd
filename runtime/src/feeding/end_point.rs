//! An end point: one command queue of a device, with two lanes for blocks in flight.
//!
//! A lane is what one block uses: its staging memory, its buffers, its commands. Invariants: a lane is given to the
//! next block only when all commands of the last one have ended; commands of one end point run in the order in which
//! they were enqueued, so a replicated buffer may be written anew while an earlier block still reads it. A lane whose
//! commands do not end is *lost*: all that it uses is kept as it is, for whatever they may yet do, until they have
//! ended.

mod feed;
mod commands;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use self::feed::Feed;
use super::device::Device;
use super::driver::{Handle, OnComplete};
use super::error::DeviceError;
use super::fill_once::HoldsBack;
use super::gather::Gatherers;
use super::memory::{Buffer, Shared};
use super::object::Object;
use super::pinned::PinnedPart;
use super::plain::Plain;
use super::program::{KernelSpec, ProgramSource};
use super::recent::Recent;
use super::resident::Turn;
use super::staging::{Region, Staging};

/// Blocks in flight for each end point: one is gathered and transferred while the other one computes.
pub(super) const LANES: usize = 2;

/// A driver that fails to say that it has finished is asked once more before its memory is given up.
const FINISH_TRIES: usize = 2;

/// How often it is looked whether the commands of a block that failed have ended.
const LOOK_PAUSE: Duration = Duration::from_millis(1);

/// One command queue and what belongs to it.
pub(super) struct EndPoint {
    // Dropped in this order: staging memory is unmapped on the queue.
    lanes: [Lane; LANES],
    kernels: Recent<Kernel>,
    replicated: HashMap<&'static str, (u64, Buffer)>,
    queue: Arc<Object>,
    device: Arc<Device>,
    /// How long commands may take.
    limit: Duration,
    gathered: Gathered,
    /// What the last block that was fed waits for, where it is to be fed again.
    held_back: Option<Arc<dyn HoldsBack>>,
}

/// What was gathered, and how long that took.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Gathered {
    pub(super) bytes: u64,
    pub(super) ns: u64,
}

impl Gathered {
    fn add(&mut self, bytes: u64, time: Duration) {
        self.bytes += bytes;
        self.ns += time.as_nanos() as u64;
    }
}

struct Kernel {
    source: ProgramSource,
    name: &'static str,
    object: Object,
    spec: &'static KernelSpec,
    group_items_max: usize,
}

/// The resources of a block in flight.
struct Lane {
    staging: Staging,
    busy: bool,
    /// Its commands have not ended in time.
    lost: bool,
    /// The last command.
    last: Option<Arc<Object>>,
    events: Vec<Arc<Object>>,
    /// Commands of other blocks that this block's commands come after.
    after: Vec<Arc<Object>>,
    /// Which of them are kernels'.
    launches: Vec<usize>,
    buffers: Vec<Buffer>,
    shared: Vec<Arc<Shared>>,
    residents: Vec<Arc<Buffer>>,
    /// Host memory that outlives the block.
    pinned: Vec<Arc<PinnedPart>>,
    /// What each name stands for, the latest last: by its place among the buffers of its kind.
    names: Vec<(&'static str, Place)>,
    reads: Vec<(&'static str, Region)>,
}

/// Where the buffer of a name is.
#[derive(Clone, Copy)]
enum Place {
    Own(usize),
    Shared(usize),
    Resident(usize),
}

/// The buffer that a name stands for.
struct Bound {
    handle: Handle,
    bytes: usize,
    /// The command that fills it, where that may be another queue's.
    ready: Option<Handle>,
}

impl EndPoint {
    pub(super) fn new(device: &Arc<Device>, limit: Duration) -> Result<Self, DeviceError> {
        let queue = Arc::new(device.queue()?);
        let lane = || Lane {
            staging: Staging::new(device.driver(), device.context(), &queue),
            busy: false,
            lost: false,
            last: None,
            events: Vec::new(),
            after: Vec::new(),
            residents: Vec::new(),
            launches: Vec::new(),
            buffers: Vec::new(),
            shared: Vec::new(),
            pinned: Vec::new(),
            names: Vec::new(),
            reads: Vec::new(),
        };
        let (lanes, kernels, replicated) =
            ([lane(), lane()], Recent::new(device.programs_max), HashMap::new());
        Ok(Self {
            lanes,
            kernels,
            replicated,
            queue,
            device: Arc::clone(device),
            limit,
            gathered: Gathered::default(),
            held_back: None,
        })
    }

    /// The bytes gathered and the time, since the last call.
    pub(super) fn take_gathered(&mut self) -> Gathered {
        std::mem::take(&mut self.gathered)
    }

    /// A lane with no block.
    pub(super) fn free_lane(&self) -> Option<usize> {
        self.lanes.iter().position(|lane| !lane.busy)
    }

    /// Lets a block enqueue its commands, and asks to be told when the last has ended. After an error nothing of the
    /// block is left behind.
    pub(super) fn feed(
        &mut self,
        lane: usize,
        gatherers: Gatherers,
        f: impl FnOnce(&mut Feed<'_>) -> Result<(), DeviceError>,
        told: OnComplete,
        (turns, on_filled): (&[Turn], &dyn Fn()),
    ) -> Result<(), DeviceError> {
        debug_assert!(
            self.lanes[lane].is_empty(),
            "a lane is given to a block before the last one has ended"
        );
        debug_assert!(
            self.lanes[lane].names.is_empty() && self.lanes[lane].reads.is_empty(),
            "a lane knows names of its last block: the next one would find what is not its own"
        );
        debug_assert!(
            self.lanes[lane].residents.is_empty() && self.lanes[lane].pinned.is_empty(),
            "a lane holds memory of its last block"
        );
        self.lanes[lane].busy = true;
        self.lanes[lane].after = turns.iter().flat_map(Turn::after).collect();
        self.held_back = None;
        let fed = f(&mut Feed { end_point: self, lane, gatherers, turns, on_filled });
        let fed = fed.and_then(|()| self.send(lane, told));
        fed.inspect_err(|_| self.clear(lane))
    }

    /// What the block waits for that was fed last and came back with [`DeviceError::HeldBack`].
    pub(super) fn take_held_back(&mut self) -> Option<Arc<dyn HoldsBack>> {
        self.held_back.take()
    }

    /// Sends off what a block has enqueued.
    fn send(&mut self, lane: usize, told: OnComplete) -> Result<(), DeviceError> {
        let driver = self.device.driver();
        let Some(last) = &self.lanes[lane].last else {
            // It had nothing to do.
            told(0);
            return Ok(());
        };
        driver.flush(self.queue.handle())?;
        driver.on_complete(last.handle(), told)?;
        Ok(())
    }

    /// The last command of the block in a lane.
    pub(super) fn last(&self, lane: usize) -> Option<&Arc<Object>> {
        self.lanes[lane].last.as_ref()
    }

    /// Whether the last command of a lane has ended, and with what.
    pub(super) fn status(&self, lane: usize) -> Option<i32> {
        let last = self.lanes[lane].last.as_ref()?.handle();
        // A driver that cannot say has been asked for a call.
        self.device.driver().status(last).ok().flatten()
    }

    /// Hands the results of a block to `f`; `status` is what the driver said of its last command.
    pub(super) fn collect<R>(
        &mut self,
        lane: usize,
        status: i32,
        f: impl FnOnce(&Back<'_>) -> R,
    ) -> Result<R, DeviceError> {
        debug_assert!(self.lanes[lane].busy, "the results of a lane are taken that has no block");
        debug_assert!(
            !self.lanes[lane].lost,
            "the results of a lane are taken whose commands have not ended"
        );
        let result = match status {
            0 => Ok(f(&Back { lane: &self.lanes[lane], kernel_ns: self.kernel_ns(lane) })),
            code => Err(super::driver::DriverError { call: "a command", code }.into()),
        };
        if result.is_ok() {
            // The commands have ended, so nothing is waited for.
            self.lanes[lane].release(&self.device);
        } else {
            self.clear(lane);
        }
        result
    }

    /// Time that the kernels of a lane took; 0 where the driver does not say.
    fn kernel_ns(&self, lane: usize) -> u64 {
        debug_assert!(
            self.lanes[lane].launches.iter().all(|idx| *idx < self.lanes[lane].events.len()),
            "a launch is noted down for a command that was not kept"
        );
        let lane = &self.lanes[lane];
        let times = lane.launches.iter().map(|idx| self.device.driver().times(lane.events[*idx].handle()));
        times.flatten().map(|(begun, ended)| ended.saturating_sub(begun)).sum()
    }

    /// Waits for what a lane has enqueued, and takes it back; a lane whose commands do not end is lost.
    fn clear(&mut self, lane: usize) {
        debug_assert!(self.lanes[lane].busy, "a lane without a block is waited for");
        let last = self.lanes[lane].last.as_ref().map(|last| last.handle());
        let finished = last.map_or(Some(true), |last| self.finishes(last));
        let lane = &mut self.lanes[lane];
        match finished {
            Some(true) => lane.release(&self.device),
            Some(false) => {
                // Commands may still be under way, and no buffer of theirs may serve others.
                lane.staging.leak();
                std::mem::forget(std::mem::take(&mut lane.pinned));
                lane.buffers.clear();
                lane.release(&self.device);
            }
            None => lane.lost = true,
        }
    }

    /// Whether a command ends, by what the driver says; nothing when it has not in time.
    fn finishes(&self, last: Handle) -> Option<bool> {
        let driver = self.device.driver();
        // The driver's own wait knows no limit: it is for drivers that cannot say.
        let waits = || (0..FINISH_TRIES).any(|_| driver.finish(self.queue.handle()).is_ok());
        if driver.flush(self.queue.handle()).is_err() {
            return Some(waits());
        }
        let begun = Instant::now();
        loop {
            match driver.status(last) {
                Ok(Some(_)) => return Some(true),
                Ok(None) if begun.elapsed() >= self.limit => return None,
                Ok(None) => std::thread::sleep(LOOK_PAUSE),
                Err(_) => return Some(waits()),
            }
        }
    }

    /// Gives a lane up whose commands do not end. What they use stays as it is.
    pub(super) fn lose(&mut self, lane: usize) {
        debug_assert!(self.lanes[lane].busy, "a lane is given up that has no block");
        self.lanes[lane].lost = true;
    }

    /// Whether the commands of any lane have not ended in time, nor since.
    pub(super) fn is_lost(&self) -> bool {
        self.lanes.iter().any(|lane| lane.lost)
    }

    /// Takes lost lanes back whose commands have ended at last.
    pub(super) fn recover(&mut self) {
        for idx in 0..LANES {
            if self.lanes[idx].lost && self.status(idx).is_some() {
                self.lanes[idx].release(&self.device);
            }
        }
    }

    /// Ends it. Nothing of it is released while commands that have not ended may use it, nor is the driver asked to
    /// wait for them: that would never end either.
    pub(super) fn close(mut self) {
        self.recover();
        if self.is_lost() {
            std::mem::forget(self);
        }
    }

    fn kernel(&mut self, source: &ProgramSource, name: &'static str) -> Result<&Kernel, DeviceError> {
        let is_it = |kernel: &Kernel| kernel.name == name && kernel.source.is_same(source);
        if self.kernels.find(is_it).is_none() {
            let (object, spec) = self.device.program(source)?.kernel(name)?;
            let group_items_max = self.device.group_items_max(object.handle())?;
            // A kernel that makes room is released; the driver keeps it for commands that were enqueued with it.
            self.kernels.add(Kernel { source: source.clone(), name, object, spec, group_items_max });
        }
        let found = self.kernels.find(is_it);
        Ok(found.unwrap_or_else(|| unreachable!("it was just added")))
    }
}

impl Drop for EndPoint {
    fn drop(&mut self) {
        debug_assert!(
            std::thread::panicking() || self.lanes.iter().all(|lane| !lane.busy && !lane.lost),
            "an end point is dropped while commands of a block may be under way"
        );
        // No lane has a block any more, or is lost; what is left is the driver's own business.
        let _ = self.device.driver().finish(self.queue.handle());
    }
}

impl Lane {
    /// Whether nothing of a block is left in it.
    fn is_empty(&self) -> bool {
        let is_unused = !self.busy && !self.lost && self.last.is_none();
        is_unused && self.events.is_empty() && self.buffers.is_empty() && self.shared.is_empty()
    }

    /// Everything goes back; no command uses it.
    fn release(&mut self, device: &Device) {
        self.busy = false;
        self.lost = false;
        self.last = None;
        self.events.clear();
        self.after.clear();
        self.residents.clear();
        self.launches.clear();
        self.shared.clear();
        self.pinned.clear();
        self.names.clear();
        self.reads.clear();
        for buffer in self.buffers.drain(..) {
            device.memory.give_back(buffer);
        }
        self.staging.reset();
    }
}

impl EndPoint {
    /// The buffer of a name: the block's own, a shared one or a resident, whichever was bound last, or the end point's.
    fn bound(&self, lane: usize, name: &str) -> Option<Bound> {
        let lane = &self.lanes[lane];
        let of = |buffer: &Buffer, ready| Bound { handle: buffer.handle(), bytes: buffer.bytes(), ready };
        match lane.names.iter().rev().find(|(known, _)| *known == name) {
            Some((_, Place::Own(idx))) => Some(of(&lane.buffers[*idx], None)),
            Some((_, Place::Resident(idx))) => Some(of(&lane.residents[*idx], None)),
            Some((_, Place::Shared(idx))) => {
                lane.shared[*idx].with(|filled| of(&filled.buffer, Some(filled.ready.handle())))
            }
            None => self.replicated.get(name).map(|(_, buffer)| of(buffer, None)),
        }
    }
}

/// The results of a block.
pub struct Back<'a> {
    lane: &'a Lane,
    kernel_ns: u64,
}

impl Back<'_> {
    /// The numbers that [`Feed::read`] has brought back from a buffer, the last time.
    ///
    /// # Panics
    /// When none were.
    #[expect(unsafe_code, reason = "the device has written into staging memory")]
    pub fn numbers<T: Plain>(&self, name: &str) -> &[T] {
        let found = self.lane.reads.iter().rev().find(|(read, _)| *read == name);
        let (_, region) = found.unwrap_or_else(|| panic!("nothing was read from `{name}`"));
        // SAFETY: the command has ended, the lane is borrowed for as long as the slice, and no thread writes to it before the
        // lane is given to the next block.
        unsafe { region.numbers::<T>() }
    }

    /// Time that the block's kernels took on the device, in nanoseconds; 0 where the driver does not say.
    pub fn kernel_ns(&self) -> u64 {
        self.kernel_ns
    }
}
