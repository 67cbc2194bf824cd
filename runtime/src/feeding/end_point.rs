//! An end point: one command queue of a device, with two lanes for blocks in flight.
//!
//! A lane is what one block uses: its staging memory, its buffers, its commands. Invariants: a lane is given to the
//! next block only when all commands of the last one have ended; commands of one end point run in the order in which
//! they were enqueued, so a replicated buffer may be written anew while an earlier block still reads it. A lane whose
//! commands do not end is *lost*: all that it uses is kept as it is, for whatever they may yet do, until they have
//! ended.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::device::Device;
use super::driver::{Handle, Kind, OnComplete, Set};
use super::error::DeviceError;
use super::gather::Gatherers;
use super::memory::{Buffer, Filled, Shared, SharedKey};
use super::object::Object;
use super::program::{Argument, KernelSpec, ProgramSource};
pub use super::staging::Number;
use super::staging::{Region, Staging};

/// Blocks in flight for each end point: one is gathered and transferred while the other one computes.
pub(super) const LANES: usize = 2;

/// A driver that fails to say that it has finished is asked once more before its memory is given up.
const FINISH_TRIES: usize = 2;

/// How often it is looked whether the commands of a block that failed have ended.
const LOOK_PAUSE: Duration = Duration::from_millis(1);

/// A kernel's argument that is no buffer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// `uint`.
    U32(u32),
    /// `float`.
    F32(f32),
    /// Local memory of so many bytes.
    Local(usize),
}

/// One command queue and what belongs to it.
pub(super) struct EndPoint {
    // Dropped in this order: staging memory is unmapped on the queue.
    lanes: [Lane; LANES],
    kernels: Vec<Kernel>,
    replicated: HashMap<&'static str, (u64, Buffer)>,
    queue: Arc<Object>,
    device: Arc<Device>,
    /// How long commands may take.
    limit: Duration,
    gathered: Gathered,
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

/// What a block in flight uses.
struct Lane {
    staging: Staging,
    busy: bool,
    /// Its commands have not ended in time.
    lost: bool,
    /// The last command; its event is among those kept here.
    last: Option<Handle>,
    events: Vec<Object>,
    /// Which of them are kernels'.
    launches: Vec<usize>,
    buffers: Vec<(&'static str, Buffer)>,
    shared: Vec<Arc<Shared>>,
    /// What each name stands for, the latest last: by its place among the buffers, or the shared ones.
    names: Vec<(&'static str, Bound)>,
    reads: Vec<(&'static str, Region)>,
}

/// What a name stands for.
#[derive(Clone, Copy)]
enum Bound {
    Own(usize),
    Shared(usize),
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
            launches: Vec::new(),
            buffers: Vec::new(),
            shared: Vec::new(),
            names: Vec::new(),
            reads: Vec::new(),
        };
        let (lanes, kernels, replicated) = ([lane(), lane()], Vec::new(), HashMap::new());
        Ok(Self {
            lanes,
            kernels,
            replicated,
            queue,
            device: Arc::clone(device),
            limit,
            gathered: Gathered::default(),
        })
    }

    /// What was gathered since this was asked last.
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
    ) -> Result<(), DeviceError> {
        self.lanes[lane].busy = true;
        let fed = f(&mut Feed { end_point: self, lane, gatherers }).and_then(|()| self.send(lane, told));
        fed.inspect_err(|_| self.clear(lane))
    }

    /// Sends off what a block has enqueued.
    fn send(&mut self, lane: usize, told: OnComplete) -> Result<(), DeviceError> {
        let driver = self.device.driver();
        let Some(last) = self.lanes[lane].last else {
            // It had nothing to do.
            told(0);
            return Ok(());
        };
        driver.flush(self.queue.handle())?;
        driver.on_complete(last, told)?;
        Ok(())
    }

    /// Whether the last command of a lane has ended, and with what.
    pub(super) fn status(&self, lane: usize) -> Option<i32> {
        let last = self.lanes[lane].last?;
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
        let lane = &self.lanes[lane];
        let times = lane.launches.iter().map(|idx| self.device.driver().times(lane.events[*idx].handle()));
        times.flatten().map(|(begun, ended)| ended.saturating_sub(begun)).sum()
    }

    /// Waits for what a lane has enqueued, and takes it back; a lane whose commands do not end is lost.
    fn clear(&mut self, lane: usize) {
        let finished = self.lanes[lane].last.map_or(Some(true), |last| self.finishes(last));
        let lane = &mut self.lanes[lane];
        match finished {
            Some(true) => lane.release(&self.device),
            Some(false) => {
                // Commands may still be under way, and no buffer of theirs may serve others.
                lane.staging.leak();
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
        // There are few, and most launches are of the same one.
        let is_it = |kernel: &Kernel| kernel.name == name && kernel.source.is_same(source);
        let place = match self.kernels.iter().position(is_it) {
            Some(place) => place,
            None => {
                let (object, spec) = self.device.program(source)?.kernel(name)?;
                let group_items_max = self.device.group_items_max(object.handle())?;
                self.kernels.push(Kernel { source: source.clone(), name, object, spec, group_items_max });
                self.kernels.len() - 1
            }
        };
        Ok(&self.kernels[place])
    }
}

impl Drop for EndPoint {
    fn drop(&mut self) {
        // No lane has a block any more, or is lost; what is left is the driver's own business.
        let _ = self.device.driver().finish(self.queue.handle());
    }
}

impl Lane {
    /// Everything goes back; no command uses it.
    fn release(&mut self, device: &Device) {
        self.busy = false;
        self.lost = false;
        self.last = None;
        self.events.clear();
        self.launches.clear();
        self.shared.clear();
        self.names.clear();
        self.reads.clear();
        for (_, buffer) in self.buffers.drain(..) {
            device.memory.give_back(buffer);
        }
        self.staging.reset();
    }
}

/// What a block enqueues its commands with.
///
/// Buffers are known by name, and a kernel's arguments of these names are bound to them.
pub struct Feed<'a> {
    end_point: &'a mut EndPoint,
    lane: usize,
    gatherers: Gatherers,
}

impl Feed<'_> {
    /// The device.
    pub fn device(&self) -> &Device {
        &self.end_point.device
    }

    /// Sends `len` numbers, which `fill` gathers, to a buffer of the block's own.
    ///
    /// # Errors
    /// When the device has no room, a call of the driver fails, or `fill` does.
    pub fn write<T: Number>(
        &mut self,
        name: &'static str,
        len: usize,
        fill: impl FnOnce(&mut [T]) -> Result<(), DeviceError>,
    ) -> Result<(), DeviceError> {
        let bytes = len * size_of::<T>();
        let buffer = self.end_point.device.buffer(bytes)?;
        // Kept from here on, whatever comes: a command may use it.
        self.keep(name, buffer);
        let Some((_, buffer)) = self.lane().buffers.last() else { unreachable!("it was just kept") };
        let handle = buffer.handle();
        let event = self.send_numbers(handle, len, fill)?;
        self.lane().events.push(event);
        Ok(())
    }

    /// [`Feed::write`] of numbers that several threads gather, as many as there are cores for: `fill` is called for parts
    /// of `part` numbers (the last may have fewer), with the place of each.
    ///
    /// # Errors
    /// As [`Feed::write`].
    pub fn write_in_parts<T: Number>(
        &mut self,
        name: &'static str,
        len: usize,
        part: usize,
        fill: impl Fn(usize, &mut [T]) -> Result<(), DeviceError> + Sync,
    ) -> Result<(), DeviceError> {
        let gatherers = self.gatherers.clone();
        self.write(name, len, |to| gatherers.fill(to, part, &fill))
    }

    /// Makes a buffer of the block's own for `len` numbers, which a kernel will write.
    ///
    /// # Errors
    /// When the device has no room, or a call of the driver fails.
    pub fn output<T: Number>(&mut self, name: &'static str, len: usize) -> Result<(), DeviceError> {
        let buffer = self.end_point.device.buffer(len * size_of::<T>())?;
        self.keep(name, buffer);
        Ok(())
    }

    /// Sends numbers to the end point's own buffer, where it does not hold this version of them.
    ///
    /// # Errors
    /// As [`Feed::write`].
    pub fn replicated<T: Number>(
        &mut self,
        name: &'static str,
        version: u64,
        len: usize,
        fill: impl FnOnce(&mut [T]) -> Result<(), DeviceError>,
    ) -> Result<(), DeviceError> {
        if self.end_point.replicated.get(name).is_some_and(|(held, _)| *held == version) {
            return Ok(());
        }
        let bytes = len * size_of::<T>();
        let held = self.end_point.replicated.remove(name);
        let buffer = match held {
            Some((_, buffer)) if buffer.bytes() >= bytes => buffer,
            too_small => {
                // Earlier blocks may read it yet: it goes back with this one, which ends later.
                if let Some((_, buffer)) = too_small {
                    self.keep("", buffer);
                }
                self.end_point.device.buffer(bytes)?
            }
        };
        let handle = buffer.handle();
        // Without a version until all of it is on its way.
        let event = self.send_numbers(handle, len, fill);
        match event {
            Ok(event) => {
                self.end_point.replicated.insert(name, (version, buffer));
                self.lane().events.push(event);
                Ok(())
            }
            Err(error) => {
                self.keep("", buffer);
                Err(error)
            }
        }
    }

    /// Binds a buffer that all blocks of the device share; `fill` gathers it where it is not there yet.
    ///
    /// # Errors
    /// As [`Feed::write`].
    pub fn shared<T: Number>(
        &mut self,
        name: &'static str,
        key: SharedKey,
        len: usize,
        fill: impl FnOnce(&mut [T]) -> Result<(), DeviceError>,
    ) -> Result<(), DeviceError> {
        let shared = self.end_point.device.memory.shared(key);
        {
            let mut filled = shared.filled.lock();
            if filled.is_none() {
                let buffer = self.end_point.device.buffer(len * size_of::<T>())?;
                let handle = buffer.handle();
                match self.send_numbers(handle, len, fill) {
                    Ok(ready) => *filled = Some(Filled { buffer, ready }),
                    Err(error) => {
                        drop(filled);
                        self.keep("", buffer);
                        return Err(error);
                    }
                }
            }
        }
        // Those that the name was bound to before stay: kernels that were launched read them.
        let lane = self.lane();
        lane.names.push((name, Bound::Shared(lane.shared.len())));
        lane.shared.push(shared);
        Ok(())
    }

    /// [`Feed::shared`] of numbers that several threads gather, as in [`Feed::write_in_parts`].
    ///
    /// # Errors
    /// As [`Feed::write`].
    pub fn shared_in_parts<T: Number>(
        &mut self,
        name: &'static str,
        key: SharedKey,
        len: usize,
        part: usize,
        fill: impl Fn(usize, &mut [T]) -> Result<(), DeviceError> + Sync,
    ) -> Result<(), DeviceError> {
        let gatherers = self.gatherers.clone();
        self.shared(name, key, len, |to| gatherers.fill(to, part, &fill))
    }

    /// Runs a kernel over `groups` groups of `group` work items each. `values` are the arguments that are no buffers.
    ///
    /// # Errors
    /// When the program does not compile, an argument has no value of its kind, the group is larger than the device
    /// takes, or a call of the driver fails.
    pub fn launch(
        &mut self,
        source: &ProgramSource,
        kernel: &'static str,
        groups: usize,
        group: usize,
        values: &[(&str, Value)],
    ) -> Result<(), DeviceError> {
        let (object, spec) = {
            let found = self.end_point.kernel(source, kernel)?;
            if group > found.group_items_max {
                let most = found.group_items_max;
                let reason = format!("a group of {group} work items; the device takes {most}");
                return Err(DeviceError::Arguments { program: source.name, kernel, reason });
            }
            (found.object.handle(), found.spec)
        };
        let mut after = Vec::new();
        for (idx, (name, argument)) in spec.arguments.iter().enumerate() {
            let missing = || DeviceError::Arguments {
                program: source.name,
                kernel,
                reason: format!("nothing of its kind is given for `{name}`"),
            };
            let value = values.iter().find(|(given, _)| given == name).map(|(_, value)| *value);
            let (word, set);
            let set = match (argument, value) {
                (Argument::Buffer, None) => {
                    Set::Buffer(self.end_point.bound(self.lane, name, &mut after).ok_or_else(missing)?)
                }
                (Argument::Value(4), Some(Value::U32(value))) => {
                    word = value.to_ne_bytes();
                    set = &word;
                    Set::Value(set)
                }
                (Argument::Value(4), Some(Value::F32(value))) => {
                    word = value.to_ne_bytes();
                    set = &word;
                    Set::Value(set)
                }
                (Argument::Local, Some(Value::Local(bytes))) => Set::Local(bytes),
                _ => return Err(missing()),
            };
            self.end_point.device.driver().set(object, idx as u32, set)?;
        }
        let queue = self.end_point.queue.handle();
        let driver = Arc::clone(self.end_point.device.driver());
        let event = Object::own(&driver, Kind::Event, |driver| {
            driver.launch(queue, object, groups * group, group, &after)
        })?;
        let lane = self.lane();
        lane.last = Some(event.handle());
        lane.launches.push(lane.events.len());
        lane.events.push(event);
        Ok(())
    }

    /// Brings `len` numbers of a buffer of the block's own back, for [`Back::numbers`].
    ///
    /// # Errors
    /// When a call of the driver fails.
    ///
    /// # Panics
    /// When the block has no such buffer, or a smaller one.
    #[expect(unsafe_code, reason = "the device writes into staging memory")]
    pub fn read<T: Number>(&mut self, name: &'static str, len: usize) -> Result<(), DeviceError> {
        let bytes = len * size_of::<T>();
        let found = self.lane().buffers.iter().rev().find(|(own, _)| *own == name);
        let (handle, held) = match found {
            Some((_, buffer)) => (buffer.handle(), buffer.bytes()),
            None => panic!("the block has no buffer `{name}`"),
        };
        assert!(bytes <= held, "the buffer `{name}` has {held} bytes, not {bytes}");
        let region = self.lane().staging.region(bytes)?;
        let queue = self.end_point.queue.handle();
        let driver = Arc::clone(self.end_point.device.driver());
        let event = Object::own(&driver, Kind::Event, |driver| {
            // SAFETY: the region is the lane's, which is not reset before this command has ended.
            unsafe { driver.read(queue, handle, region.at, bytes) }
        })?;
        let lane = self.lane();
        lane.last = Some(event.handle());
        lane.events.push(event);
        lane.reads.push((name, region));
        Ok(())
    }

    fn lane(&mut self) -> &mut Lane {
        &mut self.end_point.lanes[self.lane]
    }

    fn keep(&mut self, name: &'static str, buffer: Buffer) {
        let lane = self.lane();
        lane.names.push((name, Bound::Own(lane.buffers.len())));
        lane.buffers.push((name, buffer));
    }

    /// Gathers numbers into staging memory and sends them off.
    #[expect(unsafe_code, reason = "staging memory is filled, and read by the device")]
    fn send_numbers<T: Number>(
        &mut self,
        to: Handle,
        len: usize,
        fill: impl FnOnce(&mut [T]) -> Result<(), DeviceError>,
    ) -> Result<Object, DeviceError> {
        let bytes = len * size_of::<T>();
        let region = self.lane().staging.region(bytes)?;
        let begun = Instant::now();
        // SAFETY: the region is new, and the slice ends before the command begins.
        fill(unsafe { region.numbers::<T>() })?;
        self.end_point.gathered.add(bytes as u64, begun.elapsed());
        let queue = self.end_point.queue.handle();
        let driver = Arc::clone(self.end_point.device.driver());
        let event = Object::own(&driver, Kind::Event, |driver| {
            // SAFETY: the region is the lane's, which is not reset before this command has ended, nor written to.
            unsafe { driver.write(queue, to, region.at, bytes) }
        })?;
        self.lane().last = Some(event.handle());
        Ok(event)
    }
}

impl EndPoint {
    /// The buffer of a name: the block's own or a shared one, whichever was given last, or the end point's; what fills it
    /// goes to `after`.
    fn bound(&self, lane: usize, name: &str, after: &mut Vec<Handle>) -> Option<Handle> {
        let lane = &self.lanes[lane];
        match lane.names.iter().rev().find(|(known, _)| *known == name) {
            Some((_, Bound::Own(idx))) => Some(lane.buffers[*idx].1.handle()),
            Some((_, Bound::Shared(idx))) => {
                let filled = lane.shared[*idx].filled.lock();
                let filled = filled.as_ref()?;
                after.push(filled.ready.handle());
                Some(filled.buffer.handle())
            }
            None => self.replicated.get(name).map(|(_, buffer)| buffer.handle()),
        }
    }
}

/// What came back of a block.
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
    pub fn numbers<T: Number>(&self, name: &str) -> &[T] {
        let found = self.lane.reads.iter().rev().find(|(read, _)| *read == name);
        let (_, region) = found.unwrap_or_else(|| panic!("nothing was read from `{name}`"));
        // SAFETY: the command has ended, the lane is borrowed for as long as the slice, and nobody writes to it.
        unsafe { region.numbers::<T>() }
    }

    /// Time that the block's kernels took on the device, in nanoseconds; 0 where the driver does not say.
    pub fn kernel_ns(&self) -> u64 {
        self.kernel_ns
    }
}
