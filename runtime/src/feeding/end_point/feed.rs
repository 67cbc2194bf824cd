//! What a block enqueues its commands with.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::super::device::Device;
use super::super::driver::{Handle, Kind, Set};
use super::super::error::DeviceError;
use super::super::fill_once::{Fill, Filler, Found, HoldsBack};
use super::super::gather::Gatherers;
use super::super::memory::{Buffer, Filled, SharedKey};
use super::super::object::Object;
use super::super::program::{Argument, ProgramSource};
use super::super::staging::{Number, Region, Staging};
use super::{Bound, EndPoint, Lane};

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

/// What a block enqueues its commands with.
///
/// Buffers are known by name, and a kernel's arguments of these names are bound to them.
pub struct Feed<'a> {
    pub(super) end_point: &'a mut EndPoint,
    pub(super) lane: usize,
    pub(super) gatherers: Gatherers,
    /// Called when a part was filled that other blocks may have been held back for.
    pub(super) on_filled: &'a dyn Fn(),
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
    /// Blocks of one end point run one after the other, so kernels may change what is there for those that come later. How
    /// many blocks each end point gets is left to chance; and a block that another device takes over is computed again.
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
        if let Some(filler) = self.claim(&shared)? {
            match self.bring(len, fill) {
                Ok(filled) => filler.fill(filled),
                Err(error) => {
                    self.end_point.device.memory.forget(key);
                    return Err(error);
                }
            }
            (self.on_filled)();
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

    /// Sends numbers to a buffer of the block's own, from pinned host memory where they stay: `fill` gathers them, as in
    /// [`Feed::write_in_parts`], where they are not there yet. For what is sent again and again; where no more memory can
    /// be pinned it is gathered each time.
    ///
    /// # Errors
    /// As [`Feed::write`].
    #[expect(unsafe_code, reason = "pinned memory is filled")]
    pub fn pinned_in_parts<T: Number>(
        &mut self,
        name: &'static str,
        key: SharedKey,
        len: usize,
        part: usize,
        fill: impl Fn(usize, &mut [T]) -> Result<(), DeviceError> + Sync,
    ) -> Result<(), DeviceError> {
        let (device, bytes) = (Arc::clone(&self.end_point.device), len * size_of::<T>());
        let Some(pinned) = device.pinned.part(key, bytes) else {
            return self.write_in_parts(name, len, part, fill);
        };
        if let Some(filler) = self.claim(&pinned)? {
            let mut staging = Staging::new(device.driver(), device.context(), &self.end_point.queue);
            let Ok(region) = staging.region_of_own(bytes) else {
                // The system pins no more.
                device.pinned.forget(key);
                drop(filler);
                return self.write_in_parts(name, len, part, fill);
            };
            // SAFETY: the region is new, and nobody else knows of it before it is handed to the filler.
            match unsafe { gather(region, |to| self.gatherers.fill(to, part, &fill)) } {
                Ok(time) => self.end_point.gathered.add(bytes as u64, time),
                Err(error) => {
                    device.pinned.forget(key);
                    return Err(error);
                }
            }
            filler.fill((staging, region));
            (self.on_filled)();
        }
        let Some(region) = pinned.memory.with(|(_, region)| *region) else { unreachable!("it is filled") };
        assert!(region.bytes >= bytes, "a part of {} bytes, not {bytes}", region.bytes);
        let buffer = device.buffer(bytes)?;
        let handle = buffer.handle();
        self.keep(name, buffer);
        self.lane().pinned.push(pinned);
        let event = self.send(handle, region, bytes)?;
        self.lane().events.push(event);
        Ok(())
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

    /// Brings `len` numbers of a buffer back, for [`Back::numbers`](super::Back::numbers): of one of the block's own, or of
    /// the end point's, which blocks may add to one after the other.
    ///
    /// # Errors
    /// When a call of the driver fails.
    ///
    /// # Panics
    /// When there is no such buffer, or it is smaller.
    #[expect(unsafe_code, reason = "the device writes into staging memory")]
    pub fn read<T: Number>(&mut self, name: &'static str, len: usize) -> Result<(), DeviceError> {
        let bytes = len * size_of::<T>();
        let own = self.end_point.lanes[self.lane]
            .buffers
            .iter()
            .rev()
            .find(|(own, _)| *own == name)
            .map(|(_, buffer)| buffer);
        let replicated = || self.end_point.replicated.get(name).map(|(_, buffer)| buffer);
        let found = own.or_else(replicated).map(|buffer| (buffer.handle(), buffer.bytes()));
        let Some((handle, held)) = found else { panic!("the block has no buffer `{name}`") };
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

    /// Sends numbers to a new buffer that outlives the block.
    fn bring<T: Number>(
        &mut self,
        len: usize,
        fill: impl FnOnce(&mut [T]) -> Result<(), DeviceError>,
    ) -> Result<Filled, DeviceError> {
        let buffer = self.end_point.device.buffer(len * size_of::<T>())?;
        match self.send_numbers(buffer.handle(), len, fill) {
            Ok(ready) => Ok(Filled { buffer, ready }),
            Err(error) => {
                // A command may use it.
                self.keep("", buffer);
                Err(error)
            }
        }
    }

    /// The right to fill a part that several blocks use; nothing where it is filled. While another thread fills it, a block
    /// that has nothing under way yet goes back to the queue, and its thread takes another one; any other block waits.
    fn claim<'p, P: Fill>(&mut self, part: &'p Arc<P>) -> Result<Option<Filler<'p, P::Value>>, DeviceError> {
        loop {
            match part.place().find() {
                Found::Filled => return Ok(None),
                Found::Empty(filler) => return Ok(Some(filler)),
                Found::Filling if self.lane().last.is_none() => {
                    self.end_point.held_back = Some(Arc::clone(part) as Arc<dyn HoldsBack>);
                    return Err(DeviceError::HeldBack);
                }
                // A thread that waits here fills nothing itself, so no two wait for each other.
                Found::Filling => part.place().wait(),
            }
        }
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
    #[expect(unsafe_code, reason = "staging memory is filled")]
    fn send_numbers<T: Number>(
        &mut self,
        to: Handle,
        len: usize,
        fill: impl FnOnce(&mut [T]) -> Result<(), DeviceError>,
    ) -> Result<Object, DeviceError> {
        let bytes = len * size_of::<T>();
        let region = self.lane().staging.region(bytes)?;
        // SAFETY: the region is new.
        let gathered = unsafe { gather(region, fill) }?;
        self.end_point.gathered.add(bytes as u64, gathered);
        self.send(to, region, bytes)
    }

    /// Sends the first bytes of a region off.
    #[expect(unsafe_code, reason = "host memory is read by the device")]
    fn send(&mut self, to: Handle, region: Region, bytes: usize) -> Result<Object, DeviceError> {
        let queue = self.end_point.queue.handle();
        let driver = Arc::clone(self.end_point.device.driver());
        let event = Object::own(&driver, Kind::Event, |driver| {
            // SAFETY: the region is the lane's, or of pinned memory that the lane holds. The lane keeps either until this
            // command has ended, and nobody writes to them before.
            unsafe { driver.write(queue, to, region.at, bytes) }
        })?;
        self.lane().last = Some(event.handle());
        Ok(event)
    }
}

/// Has a region filled, and gives the time that it took.
///
/// # Safety
/// The region was just made: its staging area lives, no command uses it, and nobody else knows of it.
#[expect(unsafe_code, reason = "staging memory is filled")]
unsafe fn gather<T: Number>(
    region: Region,
    fill: impl FnOnce(&mut [T]) -> Result<(), DeviceError>,
) -> Result<Duration, DeviceError> {
    let begun = Instant::now();
    // SAFETY: as the caller says.
    fill(unsafe { region.numbers_mut::<T>() })?;
    Ok(begun.elapsed())
}
