//! An end point: one command queue of a device, with two lanes for blocks in flight.
//!
//! A lane holds the resources of one block: its staging memory, its buffers, its commands. Invariants: the next block
//! gets a lane only when all commands of the last one have ended; commands of one end point run in the order in which
//! they were enqueued, so a write to a replicated buffer may be enqueued while an earlier block still reads it. A lane
//! whose commands do not end is *lost*: everything that they may use stays as it is until they have ended.

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

/// Blocks in flight for each end point: one is gathered and transferred while the other computes.
pub(super) const LANES: usize = 2;

/// Calls of a failing `finish` before the block's memory is given up.
const FINISH_TRIES: usize = 2;

/// The time between two checks whether the commands of a failed block have ended.
const LOOK_PAUSE: Duration = Duration::from_millis(1);

/// One command queue with its lanes, kernels and replicated buffers.
pub(super) struct EndPoint {
    // The order of drops: staging memory is unmapped on the queue.
    lanes: [Lane; LANES],
    kernels: Recent<Kernel>,
    replicated: HashMap<&'static str, (u64, Buffer)>,
    queue: Arc<Object>,
    device: Arc<Device>,
    /// The most time that commands may take.
    limit: Duration,
    gathered: Gathered,
    /// The part that the last fed block waits for, if it must be fed again.
    held_back: Option<Arc<dyn HoldsBack>>,
}

/// The amount gathered, and the time.
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
    /// The kernels' events, by place, and their names.
    launches: Vec<(usize, &'static str)>,
    buffers: Vec<Buffer>,
    shared: Vec<Arc<Shared>>,
    residents: Vec<Arc<Buffer>>,
    /// Host memory that outlives the block.
    pinned: Vec<Arc<PinnedPart>>,
    /// The buffer of each name, the latest last: by its place among the buffers of its kind.
    names: Vec<(&'static str, Place)>,
    reads: Vec<(&'static str, Region)>,
}

/// The place of the buffer of a name.
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
    /// The command that fills it, if another queue may run that command.
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

    /// Lets a block enqueue its commands, and asks the driver to call `on_ended` after the last. After an error nothing
    /// of the block is left behind.
    pub(super) fn feed(
        &mut self,
        lane: usize,
        gatherers: Gatherers,
        f: impl FnOnce(&mut Feed<'_>) -> Result<(), DeviceError>,
        on_ended: OnComplete,
        (turns, on_filled): (&[Turn], &dyn Fn()),
    ) -> Result<(), DeviceError> {
        debug_assert!(
            self.lanes[lane].is_empty(),
            "a lane is given to a block before the last one has ended"
        );
        debug_assert!(
            self.lanes[lane].names.is_empty() && self.lanes[lane].reads.is_empty(),
            "a lane knows names of its last block: the next block would find a buffer of the last"
        );
        debug_assert!(
            self.lanes[lane].residents.is_empty() && self.lanes[lane].pinned.is_empty(),
            "a lane holds memory of its last block"
        );
        self.lanes[lane].busy = true;
        self.lanes[lane].after = turns.iter().flat_map(Turn::after).collect();
        self.held_back = None;
        let fed = f(&mut Feed { end_point: self, lane, gatherers, turns, on_filled });
        let fed = fed.and_then(|()| self.send(lane, on_ended));
        fed.inspect_err(|_| self.clear(lane))
    }

    /// The part that the last fed block waits for, if it came back with [`DeviceError::HeldBack`].
    pub(super) fn take_held_back(&mut self) -> Option<Arc<dyn HoldsBack>> {
        self.held_back.take()
    }

    /// Sends the commands of a block to the device.
    fn send(&mut self, lane: usize, on_ended: OnComplete) -> Result<(), DeviceError> {
        let driver = self.device.driver();
        let Some(last) = &self.lanes[lane].last else {
            // The block has no commands.
            on_ended(0);
            return Ok(());
        };
        driver.flush(self.queue.handle())?;
        driver.on_complete(last.handle(), on_ended)?;
        Ok(())
    }

    /// The last command of the block in a lane.
    pub(super) fn last(&self, lane: usize) -> Option<&Arc<Object>> {
        self.lanes[lane].last.as_ref()
    }

    /// The status with which the last command of a lane has ended.
    pub(super) fn status(&self, lane: usize) -> Option<i32> {
        let last = self.lanes[lane].last.as_ref()?.handle();
        // If the driver fails to answer, its callback still comes.
        self.device.driver().status(last).ok().flatten()
    }

    /// Passes the results of a block to `f`; `status` is that of its last command.
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
            0 => Ok(f(&Back { lane: &self.lanes[lane], kernels: self.kernels(lane) })),
            code => Err(super::driver::DriverError { call: "a command", code }.into()),
        };
        if result.is_ok() {
            // The commands have ended: there is nothing to wait for.
            self.lanes[lane].release(&self.device);
        } else {
            self.clear(lane);
        }
        result
    }

    /// The kernels of a lane, and the time that each took, in nanoseconds; nothing if the driver gives no times.
    fn kernels(&self, lane: usize) -> Vec<(&'static str, u64)> {
        debug_assert!(
            self.lanes[lane].launches.iter().all(|(idx, _)| *idx < self.lanes[lane].events.len()),
            "a launch is noted down for a command that was not kept"
        );
        let lane = &self.lanes[lane];
        let time = |(idx, name): &(usize, &'static str)| {
            let (begun, ended) = self.device.driver().times(lane.events[*idx].handle()).ok()?;
            Some((*name, ended.saturating_sub(begun)))
        };
        lane.launches.iter().filter_map(time).collect()
    }

    /// Waits for the commands of a lane, and takes its resources back; a lane whose commands do not end is lost.
    fn clear(&mut self, lane: usize) {
        debug_assert!(self.lanes[lane].busy, "a thread waits for a lane without a block");
        let last = self.lanes[lane].last.as_ref().map(|last| last.handle());
        let finished = last.map_or(Some(true), |last| self.finishes(last));
        let lane = &mut self.lanes[lane];
        match finished {
            Some(true) => lane.release(&self.device),
            Some(false) => {
                // Commands may still be under way: no other block may get their buffers.
                lane.staging.leak();
                std::mem::forget(std::mem::take(&mut lane.pinned));
                lane.buffers.clear();
                lane.release(&self.device);
            }
            None => lane.lost = true,
        }
    }

    /// Whether a command ends, according to the driver; nothing if it has not ended in time.
    fn finishes(&self, last: Handle) -> Option<bool> {
        let driver = self.device.driver();
        // The driver's own wait has no limit: it is for drivers that fail to give a status.
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

    /// Gives up a lane whose commands do not end. Their memory stays as it is.
    pub(super) fn lose(&mut self, lane: usize) {
        debug_assert!(self.lanes[lane].busy, "a lane is given up that has no block");
        self.lanes[lane].lost = true;
    }

    /// Whether any lane is lost and its commands have not ended since.
    pub(super) fn is_lost(&self) -> bool {
        self.lanes.iter().any(|lane| lane.lost)
    }

    /// Takes back lost lanes whose commands have ended since.
    pub(super) fn recover(&mut self) {
        for idx in 0..LANES {
            if self.lanes[idx].lost && self.status(idx).is_some() {
                self.lanes[idx].release(&self.device);
            }
        }
    }

    /// Ends the end point. Memory that unfinished commands may use is not released, and the driver is not asked to wait
    /// for them: that wait might never end.
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
            // An evicted kernel is released; the driver keeps it for commands that were enqueued with it.
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
        // No lane has a block any more, or is lost; the driver's own commands remain.
        let _ = self.device.driver().finish(self.queue.handle());
    }
}

impl Lane {
    /// Whether it holds nothing of a block.
    fn is_empty(&self) -> bool {
        let is_unused = !self.busy && !self.lost && self.last.is_none();
        is_unused && self.events.is_empty() && self.buffers.is_empty() && self.shared.is_empty()
    }

    /// Gives all resources back; no command uses them.
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
    /// The buffer of a name: the last that the block bound (its own, a shared one or a resident), or the end point's.
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
    kernels: Vec<(&'static str, u64)>,
}

impl Back<'_> {
    /// The numbers of the last [`Feed::read`] of a buffer.
    ///
    /// # Panics
    /// When the block has not read the buffer.
    #[expect(unsafe_code, reason = "the device has written into staging memory")]
    pub fn numbers<T: Plain>(&self, name: &str) -> &[T] {
        let found = self.lane.reads.iter().rev().find(|(read, _)| *read == name);
        let (_, region) = found.unwrap_or_else(|| panic!("nothing was read from `{name}`"));
        // SAFETY: the command has ended, the lane is borrowed for as long as the slice, and no thread writes to it before the
        // lane is given to the next block.
        unsafe { region.numbers::<T>() }
    }

    /// Time that the block's kernels took on the device, in nanoseconds; 0 if the driver gives no times.
    pub fn kernel_ns(&self) -> u64 {
        self.kernels.iter().map(|(_, ns)| ns).sum()
    }

    /// The block's kernels in the order of their launches, and the time that each took in nanoseconds; nothing if the driver gives
    /// no times.
    pub fn kernels(&self) -> &[(&'static str, u64)] {
        &self.kernels
    }
}
