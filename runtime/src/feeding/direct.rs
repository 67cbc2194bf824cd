//! A device that one thread drives itself: for work of many steps, whose data stay on the device from step to step.
//!
//! A block ([`Block`](super::Block)) comes back as a whole. A factorisation has hundreds of launches, and its thread looks after each
//! group of them whether to continue. Invariants:
//! - commands of a lane run one after the other, in the order of the calls; those of the second lane run beside those of the first,
//!   behind the commands that a launch names;
//! - memory that a command may use is neither freed nor used by the host before the command has ended: what a hanging device may
//!   still write to is leaked;
//! - memory of the host that was given to the device is one allocation, and comes back as the same one.

mod copies;

use std::any::Any;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::device::Device;
use super::direct_statistics::DirectStatistics;
use super::driver::{Driver, DriverError, DriverResult, Handle, Kind};
use super::error::DeviceError;
use super::launch::{Grid, Value};
use super::memory::Buffer;
use super::object::Object;
use super::plain::Plain;
use super::pool::Devices;
use super::program::{KernelSpec, ProgramSource, set_arguments};
use super::staging::Staging;

/// Queues at most.
const LANES: usize = 2;
/// Looks at a command without a pause between them.
const LOOKS: u32 = 200;
/// The time between two later looks: short beside a group of launches. The driver's own wait has no limit of time, so a device that does
/// not answer would hold its thread for ever.
const PAUSE: Duration = Duration::from_micros(50);

/// One device, driven by the calling thread through a queue or two, and the buffers that it uses.
pub struct Direct {
    devices: Arc<Devices>,
    device: Arc<Device>,
    /// A queue for each lane; the second one is made at its first use.
    queues: Vec<Arc<Object>>,
    kernels: Vec<Loaded>,
    buffers: HashMap<Part, Held>,
    staging: Staging,
    /// Commands that have perhaps not ended, the oldest first, with the names of kernels.
    sent: VecDeque<(Object, Option<&'static str>)>,
    /// Commands so far.
    count: u64,
    /// Copies that may use the staging memory, the oldest first.
    copies: VecDeque<u64>,
    statistics: DirectStatistics,
    times: BTreeMap<&'static str, u64>,
    failure: Option<DeviceError>,
    /// Whether commands may be under way that have not ended in time.
    is_lost: bool,
}

/// A buffer: its name, and its number among those of the name.
pub type Part = (&'static str, usize);

/// Where a kernel runs, and over which buffers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Placed<'a> {
    /// Arguments that stand for a buffer of another name, or of another number than 0.
    pub parts: &'a [(&'static str, Part)],
    /// The lane, 0 or 1.
    pub lane: usize,
    /// Commands of the other lane that end before the kernel begins, by their numbers.
    pub after: &'a [u64],
}

struct Loaded {
    source: ProgramSource,
    object: Object,
    spec: &'static KernelSpec,
    group_items_max: usize,
}

/// A buffer, with its bytes.
enum Held {
    OfDevice(Buffer),
    /// Over memory of the host, which nothing else uses.
    OfHost(Object, usize, Box<dyn Any + Send>),
}

impl Held {
    fn place(&self) -> (Handle, usize) {
        match self {
            Self::OfDevice(buffer) => (buffer.handle(), buffer.bytes()),
            Self::OfHost(object, bytes, _) => (object.handle(), *bytes),
        }
    }
}

impl Direct {
    /// A queue of a device.
    ///
    /// # Errors
    /// When the device takes no more work, or the driver refuses a queue.
    ///
    /// # Panics
    /// When there is no such device.
    pub fn open(devices: &Arc<Devices>, device: usize) -> Result<Self, DeviceError> {
        let own = Arc::clone(&devices.list()[device]);
        if own.is_retired() {
            return Err(DeviceError::NoneLeft);
        }
        let queue = own.queue().inspect_err(|error| {
            devices.count_direct(
                device,
                &DirectStatistics::default(),
                &BTreeMap::new(),
                Some(&error.clone().into()),
            );
        });
        let queue = Arc::new(queue?);
        Ok(Self {
            staging: Staging::new(own.driver(), own.context(), &queue),
            devices: Arc::clone(devices),
            device: own,
            queues: vec![queue],
            kernels: Vec::new(),
            buffers: HashMap::new(),
            sent: VecDeque::new(),
            count: 0,
            copies: VecDeque::new(),
            statistics: DirectStatistics::default(),
            times: BTreeMap::new(),
            failure: None,
            is_lost: false,
        })
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The counts so far; times are those of commands that were waited for.
    pub fn statistics(&self) -> DirectStatistics {
        self.statistics
    }

    /// The time that each kernel has taken so far, in nanoseconds.
    pub fn kernel_times(&self) -> &BTreeMap<&'static str, u64> {
        &self.times
    }

    /// Makes a buffer on the device for `len` numbers.
    ///
    /// # Errors
    /// When the device has no room.
    pub fn allocate<T: Plain>(&mut self, name: &'static str, len: usize) -> Result<(), DeviceError> {
        self.allocate_part::<T>((name, 0), len)
    }

    /// [`Direct::allocate`] for one of several buffers of a name.
    ///
    /// # Errors
    /// As there.
    pub fn allocate_part<T: Plain>(&mut self, part: Part, len: usize) -> Result<(), DeviceError> {
        self.release(part)?;
        let buffer = self.device.buffer(len * size_of::<T>());
        let buffer = self.noted(buffer)?;
        self.buffers.insert(part, Held::OfDevice(buffer));
        Ok(())
    }

    /// Gives up a buffer, if there is one of this name, once all commands have ended.
    fn release(&mut self, part: Part) -> Result<(), DeviceError> {
        if self.buffers.contains_key(&part) {
            self.wait(0)?;
        }
        if let Some(Held::OfDevice(buffer)) = self.buffers.remove(&part) {
            self.device.memory.give_back(buffer);
        }
        Ok(())
    }

    /// The buffer of a name, which must have some bytes.
    fn place(&self, part: Part, bytes: usize) -> Handle {
        let Some(held) = self.buffers.get(&part) else { panic!("there is no buffer `{}`", part.0) };
        let (handle, most) = held.place();
        assert!(bytes <= most, "the buffer `{}` has {most} bytes, not {bytes}", part.0);
        handle
    }

    /// Runs a kernel over a range, as [`Feed::launch`](super::Feed::launch).
    ///
    /// # Errors
    /// As there.
    pub fn launch(
        &mut self,
        source: &ProgramSource,
        kernel: &'static str,
        grid: Grid,
        values: &[(&str, Value)],
    ) -> Result<(), DeviceError> {
        self.launch_placed(source, kernel, grid, values, Placed::default())
    }

    /// [`Direct::launch`] on a lane, over buffers of other names. [`Direct::sent`] is the number of the command then.
    ///
    /// # Errors
    /// As there.
    ///
    /// # Panics
    /// When there is no such lane, or no such command.
    pub fn launch_placed(
        &mut self,
        source: &ProgramSource,
        kernel: &'static str,
        grid: Grid,
        values: &[(&str, Value)],
        placed: Placed<'_>,
    ) -> Result<(), DeviceError> {
        let at = self.load(source, kernel);
        let at = self.noted(at)?;
        let (items, most) = (grid.group_items(), self.kernels[at].group_items_max);
        if items > most {
            let reason = format!("a group of {items} work items; the device takes {most}");
            return Err(DeviceError::Arguments { program: source.name, kernel, reason });
        }
        if grid.is_empty() {
            return Ok(());
        }
        let (driver, object) = (Arc::clone(self.device.driver()), self.kernels[at].object.handle());
        let of_kernel = (object, self.kernels[at].spec);
        let set = set_arguments(&*driver, source.name, of_kernel, values, |name| {
            let held = match placed.parts.iter().find(|(argument, _)| *argument == name) {
                Some((_, part)) => self.buffers.get(part),
                None => self
                    .buffers
                    .iter()
                    .find(|((own, nth), _)| *own == name && *nth == 0)
                    .map(|(_, held)| held),
            };
            held.map(|held| held.place().0)
        });
        self.noted(set)?;
        self.statistics.launches += 1;
        let first = self.count - self.sent.len() as u64;
        // Commands before these have ended.
        let left = placed.after.iter().filter_map(|number| number.checked_sub(first + 1));
        let after: Vec<Handle> = left.map(|place| self.sent[place as usize].0.handle()).collect();
        self.enqueue(placed.lane, Some(kernel), |driver, queue| driver.launch(queue, object, &grid, &after))?;
        Ok(())
    }

    /// The number of the last command, from 1; 0 before the first.
    pub fn sent(&self) -> u64 {
        self.count
    }

    fn load(&mut self, source: &ProgramSource, kernel: &'static str) -> Result<usize, DeviceError> {
        let is_it = |loaded: &Loaded| loaded.spec.name == kernel && loaded.source.is_same(source);
        if let Some(at) = self.kernels.iter().position(is_it) {
            return Ok(at);
        }
        let (object, spec) = self.device.program(source)?.kernel(kernel)?;
        let group_items_max = self.device.group_items_max(object.handle())?;
        self.kernels.push(Loaded { source: source.clone(), object, spec, group_items_max });
        Ok(self.kernels.len() - 1)
    }

    /// Enqueues a command, and returns its number.
    fn enqueue(
        &mut self,
        lane: usize,
        name: Option<&'static str>,
        command: impl FnOnce(&dyn Driver, Handle) -> DriverResult<Handle>,
    ) -> Result<u64, DeviceError> {
        assert!(lane < LANES, "there is no lane {lane}");
        while self.queues.len() <= lane {
            let queue = self.device.queue().map_err(DeviceError::from);
            let queue = Arc::new(self.noted(queue)?);
            self.queues.push(queue);
        }
        let (driver, queue) = (Arc::clone(self.device.driver()), self.queues[lane].handle());
        let event = Object::own(&driver, Kind::Event, |driver| command(driver, queue));
        let event = self.noted(event.map_err(DeviceError::from))?;
        self.sent.push_back((event, name));
        self.count += 1;
        Ok(self.count)
    }

    /// Commands that have perhaps not ended.
    pub fn under_way(&self) -> usize {
        self.sent.len()
    }

    /// Waits until at most the last `left` commands have not ended.
    ///
    /// # Errors
    /// When a command fails, or does not end within the limit of a block's time.
    pub fn wait(&mut self, left: usize) -> Result<(), DeviceError> {
        if self.sent.len() <= left {
            return Ok(());
        }
        self.flush()?;
        let driver = Arc::clone(self.device.driver());
        while self.sent.len() > left {
            let status = self.status_of(0)?;
            let Some((event, name)) = self.sent.pop_front() else { unreachable!("it was the first") };
            if status != 0 {
                return self.noted(Err(DriverError { call: "a command", code: status }.into()));
            }
            // A driver that gives no times costs only the figures.
            if let (Some(name), Ok((begun, ended))) = (name, driver.times(event.handle())) {
                let (queued, submitted) = driver.sent(event.handle()).unwrap_or((begun, begun));
                self.statistics.queued_ns += submitted.saturating_sub(queued);
                self.statistics.submitted_ns += begun.saturating_sub(submitted);
                self.statistics.running_ns += ended.saturating_sub(begun);
                *self.times.entry(name).or_default() += ended.saturating_sub(begun);
            }
        }
        Ok(())
    }

    /// Waits until a command has ended, whichever others have.
    ///
    /// # Errors
    /// As [`Direct::wait`].
    pub fn wait_for(&mut self, number: u64) -> Result<(), DeviceError> {
        let first = self.count - self.sent.len() as u64;
        let Some(place) = number.checked_sub(first + 1) else { return Ok(()) };
        self.flush()?;
        match self.status_of(place as usize)? {
            0 => Ok(()),
            code => self.noted(Err(DriverError { call: "a command", code }.into())),
        }
    }

    /// Hands all commands to the device, which may otherwise keep them until the host waits.
    ///
    /// # Errors
    /// When the driver refuses it.
    pub fn flush(&mut self) -> Result<(), DeviceError> {
        let driver = Arc::clone(self.device.driver());
        for queue in self.queues.clone() {
            self.noted(driver.flush(queue.handle()).map_err(DeviceError::from))?;
        }
        Ok(())
    }

    /// The status of a command that may not have ended, by its place among these, once it has ended.
    fn status_of(&mut self, place: usize) -> Result<i32, DeviceError> {
        let (driver, limit) = (Arc::clone(self.device.driver()), self.devices.limit());
        let event = self.sent[place].0.handle();
        let (begun, mut looks) = (Instant::now(), 0);
        loop {
            match self.noted(driver.status(event).map_err(DeviceError::from))? {
                Some(status) => return Ok(status),
                None if begun.elapsed() >= limit => {
                    self.is_lost = true;
                    return self.noted(Err(DeviceError::Hung { seconds: limit.as_secs_f64() }));
                }
                None if looks < LOOKS => std::thread::yield_now(),
                None => std::thread::sleep(PAUSE),
            }
            looks += 1;
        }
    }

    /// Remembers the first error that is the device's fault.
    fn noted<T>(&mut self, result: Result<T, DeviceError>) -> Result<T, DeviceError> {
        result.inspect_err(|error| {
            if error.is_of_device() && self.failure.is_none() {
                self.failure = Some(error.clone());
            }
        })
    }
}

impl Drop for Direct {
    fn drop(&mut self) {
        let has_ended = self.is_lost || self.wait(0).is_ok();
        if !has_ended && !self.is_lost {
            // A command has failed, and others may be behind it.
            // A lane may wait for commands of the other one that were not handed over.
            let (_, driver) = (self.flush(), Arc::clone(self.device.driver()));
            self.is_lost = self.queues.iter().any(|queue| driver.finish(queue.handle()).is_err());
        }
        let lost = self.is_lost;
        for (_, held) in self.buffers.drain() {
            // The driver keeps a buffer that is released until its commands have ended, but not memory of the host.
            match held {
                Held::OfDevice(buffer) if lost => drop(buffer),
                Held::OfDevice(buffer) => self.device.memory.give_back(buffer),
                Held::OfHost(object, _, memory) if lost => {
                    std::mem::forget(memory);
                    drop(object);
                }
                Held::OfHost(object, ..) => drop(object),
            }
        }
        if lost {
            self.staging.leak();
        }
        let (device, failure) = (self.device.idx(), self.failure.take());
        self.devices.count_direct(device, &self.statistics, &self.times, failure.as_ref());
    }
}

impl std::fmt::Debug for Direct {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Direct").field("device", &self.device).finish_non_exhaustive()
    }
}
