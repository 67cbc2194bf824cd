//! A device that one thread drives itself: for work of many steps, whose data stay on the device from step to step.
//!
//! A block ([`Block`](super::Block)) comes back as a whole. A factorisation has hundreds of launches, and its thread looks after each
//! group of them whether to continue. Invariants:
//! - commands run one after the other, in the order of the calls;
//! - memory that a command may use is neither freed nor used by the host before the command has ended: what a hanging device may
//!   still write to is leaked;
//! - memory of the host that was given to the device is one allocation, and comes back as the same one.
#![expect(unsafe_code, reason = "a device uses memory of the host")]

use std::any::Any;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Range;
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

/// Bytes of a copy through pinned memory; two are under way.
const COPY_BYTES: usize = 32 << 20;
/// Looks at a command without a pause between them.
const LOOKS: u32 = 200;
/// The time between two later looks: short beside a group of launches. The driver's own wait has no limit of time, so a device that does
/// not answer would hold its thread for ever.
const PAUSE: Duration = Duration::from_micros(50);

/// A queue of one device, driven by the calling thread, and the buffers that it uses.
pub struct Direct {
    devices: Arc<Devices>,
    device: Arc<Device>,
    queue: Arc<Object>,
    kernels: Vec<Loaded>,
    buffers: HashMap<&'static str, Held>,
    staging: Staging,
    /// Commands that have perhaps not ended, the oldest first, with the names of kernels.
    sent: VecDeque<(Object, Option<&'static str>)>,
    statistics: DirectStatistics,
    times: BTreeMap<&'static str, u64>,
    failure: Option<DeviceError>,
    /// Whether commands may be under way that have not ended in time.
    is_lost: bool,
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
            queue,
            kernels: Vec::new(),
            buffers: HashMap::new(),
            sent: VecDeque::new(),
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
        self.release(name)?;
        let buffer = self.device.buffer(len * size_of::<T>());
        let buffer = self.noted(buffer)?;
        self.buffers.insert(name, Held::OfDevice(buffer));
        Ok(())
    }

    /// Gives up a buffer, if there is one of this name, once all commands have ended.
    fn release(&mut self, name: &str) -> Result<(), DeviceError> {
        if self.buffers.contains_key(name) {
            self.wait(0)?;
        }
        if let Some(Held::OfDevice(buffer)) = self.buffers.remove(name) {
            self.device.memory.give_back(buffer);
        }
        Ok(())
    }

    /// Gives memory of the host to the device, which computes in it: the numbers of a range of a vector. A device that does not share
    /// the host's memory copies it, in its own way and uncounted.
    ///
    /// # Errors
    /// When the driver refuses the memory; the vector is lost then.
    ///
    /// # Panics
    /// When the range is empty or reaches beyond the vector.
    pub fn give<T: Plain>(
        &mut self,
        name: &'static str,
        memory: Vec<T>,
        range: Range<usize>,
    ) -> Result<(), DeviceError> {
        self.release(name)?;
        let mut memory = Box::new(memory);
        let numbers = &mut memory[range];
        assert!(!numbers.is_empty(), "a buffer of no numbers");
        let (at, bytes) = (numbers.as_mut_ptr().cast::<u8>(), size_of_val(numbers));
        let (driver, context) = (Arc::clone(self.device.driver()), self.device.context());
        // SAFETY: the vector is kept with the buffer, untouched, until the buffer is released; see `take_back` and `drop`.
        let own =
            Object::own(&driver, Kind::Buffer, |driver| unsafe { driver.buffer_over(context, at, bytes) });
        let object = self.noted(own.map_err(DeviceError::from))?;
        self.buffers.insert(name, Held::OfHost(object, bytes, memory));
        Ok(())
    }

    /// Takes memory back that was given to the device, once all commands have ended.
    ///
    /// # Errors
    /// When a command fails, or does not end in time; the vector is lost then.
    ///
    /// # Panics
    /// When no such memory was given.
    pub fn take_back<T: Plain>(&mut self, name: &'static str) -> Result<Vec<T>, DeviceError> {
        self.wait(0)?;
        let Some(Held::OfHost(object, bytes, _)) = self.buffers.get(name) else {
            panic!("no memory was given as `{name}`")
        };
        let (driver, queue, begun) = (Arc::clone(self.device.driver()), self.queue.handle(), Instant::now());
        let mapped = driver.map(queue, object.handle(), *bytes);
        let unmapped = mapped.and_then(|at| driver.unmap(queue, object.handle(), at));
        let ended = unmapped.and_then(|()| driver.finish(queue));
        self.statistics.maps += 1;
        self.statistics.unmaps += 1;
        self.statistics.map_ns += begun.elapsed().as_nanos() as u64;
        self.noted(ended.map_err(DeviceError::from))?;
        let Some(Held::OfHost(object, _, memory)) = self.buffers.remove(name) else {
            unreachable!("it was found")
        };
        drop(object);
        let memory = memory.downcast::<Vec<T>>();
        Ok(*memory.unwrap_or_else(|_| panic!("`{name}` was given as numbers of another type")))
    }

    /// Copies numbers to a buffer, from a place on, through pinned memory.
    ///
    /// # Errors
    /// When a command fails.
    ///
    /// # Panics
    /// When there is no such buffer, or it is too small.
    pub fn write<T: Plain>(
        &mut self,
        name: &'static str,
        first: usize,
        numbers: &[T],
    ) -> Result<(), DeviceError> {
        let part = COPY_BYTES / size_of::<T>();
        let regions = self.regions::<T>(numbers.len())?;
        for (nth, chunk) in numbers.chunks(part).enumerate() {
            // The copy before the last has ended, so its region is free.
            self.wait(1)?;
            let (region, at) = (regions[nth % 2], (first + nth * part) * size_of::<T>());
            let bytes = size_of_val(chunk);
            let to = self.place(name, at + bytes);
            // SAFETY: no command uses the region, and this is its only slice.
            let numbers = unsafe { region.numbers_mut::<T>() };
            numbers[..chunk.len()].copy_from_slice(chunk);
            // SAFETY: the region is of the staging memory, which lives until all commands have ended.
            self.enqueue(None, |driver, queue| unsafe {
                driver.write(queue, (to, at), region.at, bytes, &[])
            })?;
            self.statistics.copied_bytes += bytes as u64;
        }
        Ok(())
    }

    /// Copies numbers of a buffer to the host, from a place on, once all commands have ended.
    ///
    /// # Errors
    /// When a command fails.
    ///
    /// # Panics
    /// When there is no such buffer, or it is too small.
    pub fn read<T: Plain>(
        &mut self,
        name: &'static str,
        first: usize,
        to: &mut [T],
    ) -> Result<(), DeviceError> {
        let part = COPY_BYTES / size_of::<T>();
        let regions = self.regions::<T>(to.len())?;
        let mut chunks: Vec<&mut [T]> = to.chunks_mut(part).collect();
        for nth in 0..=chunks.len() {
            if let Some(chunk) = chunks.get(nth) {
                let (region, at) = (regions[nth % 2], (first + nth * part) * size_of::<T>());
                let bytes = size_of_val(&**chunk);
                let from = self.place(name, at + bytes);
                // SAFETY: the region is of the staging memory, and its numbers were taken out when the copy before had ended.
                self.enqueue(None, |driver, queue| unsafe {
                    driver.read(queue, (from, at), region.at, bytes, &[])
                })?;
                self.statistics.copied_bytes += bytes as u64;
            }
            if nth > 0 {
                self.wait(usize::from(nth < chunks.len()))?;
                let chunk = &mut chunks[nth - 1];
                // SAFETY: the command that wrote to the region has ended.
                chunk.copy_from_slice(unsafe { &regions[(nth - 1) % 2].numbers::<T>()[..chunk.len()] });
            }
        }
        Ok(())
    }

    /// Two regions for copies of so many numbers. Waits for earlier copies.
    fn regions<T: Plain>(&mut self, len: usize) -> Result<[super::staging::Region; 2], DeviceError> {
        self.wait(0)?;
        self.staging.reset();
        let bytes = (len * size_of::<T>()).min(COPY_BYTES);
        let first = self.staging.region(bytes).map_err(DeviceError::from);
        let first = self.noted(first)?;
        let second = self.staging.region(bytes).map_err(DeviceError::from);
        Ok([first, self.noted(second)?])
    }

    /// The buffer of a name, which must have some bytes.
    fn place(&self, name: &str, bytes: usize) -> Handle {
        let Some(held) = self.buffers.get(name) else { panic!("there is no buffer `{name}`") };
        let (handle, most) = held.place();
        assert!(bytes <= most, "the buffer `{name}` has {most} bytes, not {bytes}");
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
            self.buffers.get(name).map(|held| held.place().0)
        });
        self.noted(set)?;
        self.statistics.launches += 1;
        self.enqueue(Some(kernel), |driver, queue| driver.launch(queue, object, &grid, &[]))
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

    fn enqueue(
        &mut self,
        name: Option<&'static str>,
        command: impl FnOnce(&dyn Driver, Handle) -> DriverResult<Handle>,
    ) -> Result<(), DeviceError> {
        let (driver, queue) = (Arc::clone(self.device.driver()), self.queue.handle());
        let event = Object::own(&driver, Kind::Event, |driver| command(driver, queue));
        let event = self.noted(event.map_err(DeviceError::from))?;
        self.sent.push_back((event, name));
        Ok(())
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
        let (driver, limit) = (Arc::clone(self.device.driver()), self.devices.limit());
        self.noted(driver.flush(self.queue.handle()).map_err(DeviceError::from))?;
        while self.sent.len() > left {
            let event = self.sent[0].0.handle();
            let (begun, mut looks) = (Instant::now(), 0);
            let status = loop {
                match self.noted(driver.status(event).map_err(DeviceError::from))? {
                    Some(status) => break status,
                    None if begun.elapsed() >= limit => {
                        self.is_lost = true;
                        return self.noted(Err(DeviceError::Hung { seconds: limit.as_secs_f64() }));
                    }
                    None if looks < LOOKS => std::thread::yield_now(),
                    None => std::thread::sleep(PAUSE),
                }
                looks += 1;
            };
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
            self.is_lost = self.device.driver().finish(self.queue.handle()).is_err();
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
