//! The interface through which a block enqueues its commands.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::super::device::Device;
use super::super::driver::{Driver, DriverResult, Handle, Kind};
use super::super::error::DeviceError;
use super::super::fill_once::{Fill, Filler, Found, HoldsBack};
use super::super::gather::Gatherers;
use super::super::memory::{Buffer, Filled, SharedKey};
use super::super::object::Object;
use super::super::plain::Plain;
use super::super::resident::{Resident, Turn};
use super::super::staging::{Region, Staging};
use super::{EndPoint, Lane, Place};

/// The interface through which a block enqueues its commands.
///
/// A buffer has a name, and a kernel's argument of this name is bound to it.
pub struct Feed<'a> {
    pub(super) end_point: &'a mut EndPoint,
    pub(super) lane: usize,
    pub(super) gatherers: Gatherers,
    /// The block's turns with the residents that it uses.
    pub(super) turns: &'a [Turn],
    /// Called when a part was filled: other blocks may wait for it.
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
    pub fn write<T: Plain>(
        &mut self,
        name: &'static str,
        len: usize,
        fill: impl FnOnce(&mut [T]) -> Result<(), DeviceError>,
    ) -> Result<(), DeviceError> {
        let bytes = len * size_of::<T>();
        let buffer = self.end_point.device.buffer(bytes)?;
        // The lane keeps it from here on: a command may use it.
        self.keep(name, buffer);
        let Some(buffer) = self.lane().buffers.last() else { unreachable!("it was just kept") };
        debug_assert!(buffer.bytes() >= bytes, "a buffer is smaller than the numbers sent to it");
        let handle = buffer.handle();
        let event = self.send_numbers(handle, len, fill)?;
        self.lane().events.push(event);
        Ok(())
    }

    /// [`Feed::write`] of numbers that several threads gather, at most one for each lent slot: `fill` is called for
    /// parts of `part` numbers (the last may have fewer), with the place of each.
    ///
    /// # Errors
    /// As [`Feed::write`].
    pub fn write_in_parts<T: Plain>(
        &mut self,
        name: &'static str,
        len: usize,
        part: usize,
        fill: impl Fn(usize, &mut [T]) -> Result<(), DeviceError> + Sync,
    ) -> Result<(), DeviceError> {
        let gatherers = self.gatherers.clone();
        self.write(name, len, |to| gatherers.fill(to, part, &fill))
    }

    /// Makes a buffer of the block's own for `len` numbers that a kernel will write.
    ///
    /// # Errors
    /// When the device has no room, or a call of the driver fails.
    pub fn output<T: Plain>(&mut self, name: &'static str, len: usize) -> Result<(), DeviceError> {
        let buffer = self.end_point.device.buffer(len * size_of::<T>())?;
        self.keep(name, buffer);
        Ok(())
    }

    /// Sends numbers to the end point's own buffer, unless it holds this version of them. Blocks of all kinds share
    /// the end point, so a version with this name must stand for these numbers in the whole process.
    ///
    /// Blocks of one end point run one after the other, so kernels may change these numbers for later blocks. The
    /// number of blocks that each end point gets is left to chance, and a block that another device takes over is
    /// computed again.
    ///
    /// # Errors
    /// As [`Feed::write`].
    pub fn replicated<T: Plain>(
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
                // Earlier blocks may still read it: it goes back with this block, which ends later.
                if let Some((_, buffer)) = too_small {
                    self.keep("", buffer);
                }
                self.end_point.device.buffer(bytes)?
            }
        };
        debug_assert!(buffer.bytes() >= bytes, "a replicated buffer is smaller than the numbers sent to it");
        let handle = buffer.handle();
        // The buffer has no version until all numbers are on their way.
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

    /// Binds a buffer that all blocks of the device share; `fill` gathers its numbers if the device does not have them.
    ///
    /// # Errors
    /// As [`Feed::write`].
    pub fn shared<T: Plain>(
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
        debug_assert!(
            shared.with(|filled| filled.buffer.bytes() >= len * size_of::<T>()).is_some_and(|fits| fits),
            "a shared buffer is bound that is empty, or smaller than the block asks for"
        );
        // Buffers that the name was bound to before stay: kernels that were launched read them.
        let lane = self.lane();
        lane.names.push((name, Place::Shared(lane.shared.len())));
        lane.shared.push(shared);
        Ok(())
    }

    /// [`Feed::shared`] of numbers that several threads gather, as in [`Feed::write_in_parts`].
    ///
    /// # Errors
    /// As [`Feed::write`].
    pub fn shared_in_parts<T: Plain>(
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

    /// Sends numbers to a buffer of the block's own from pinned host memory, where they stay: `fill` gathers them, as
    /// in [`Feed::write_in_parts`], if they are not there yet. For numbers that are sent repeatedly; if no more memory
    /// can be pinned, they are gathered each time.
    ///
    /// # Errors
    /// As [`Feed::write`].
    #[expect(unsafe_code, reason = "pinned memory is filled")]
    pub fn pinned_in_parts<T: Plain>(
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
                // The system pins no more memory.
                device.pinned.forget(key);
                drop(filler);
                return self.write_in_parts(name, len, part, fill);
            };
            // SAFETY: the region is new, and no other thread knows of it before the filler gets it.
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

    /// [`Feed::shared_in_parts`] for a part that stays on the device, [`Feed::pinned_in_parts`] for a part that passes
    /// through: see [`Residence`](super::super::Residence).
    ///
    /// # Errors
    /// As [`Feed::write`].
    pub fn part<T: Plain>(
        &mut self,
        name: &'static str,
        (key, is_kept): (SharedKey, bool),
        len: usize,
        part: usize,
        fill: impl Fn(usize, &mut [T]) -> Result<(), DeviceError> + Sync,
    ) -> Result<(), DeviceError> {
        if is_kept {
            self.shared_in_parts(name, key, len, part, fill)
        } else {
            self.pinned_in_parts(name, key, len, part, fill)
        }
    }

    /// Binds a resident. Kernels read it, and write it if the block has declared that.
    ///
    /// # Errors
    /// When no block has written it before and this one does not, or the device has no room.
    ///
    /// # Panics
    /// When the block has not declared that it uses the resident.
    pub fn resident<T: Plain>(
        &mut self,
        name: &'static str,
        resident: &Resident<T>,
    ) -> Result<(), DeviceError> {
        let Some(turn) = resident.turn(self.turns) else {
            panic!("the block uses the resident `{name}` without declaring it")
        };
        let buffer = match turn.buffer() {
            Some(buffer) => buffer,
            None if turn.writes() => {
                let buffer = Arc::new(self.end_point.device.buffer(turn.bytes())?);
                turn.set_buffer(Arc::clone(&buffer));
                buffer
            }
            None => {
                let reason = format!("the resident `{name}` is read before any block has written it");
                return Err(DeviceError::Block(reason));
            }
        };
        debug_assert!(
            buffer.bytes() >= turn.bytes(),
            "the memory of a resident is smaller than the resident"
        );
        let lane = self.lane();
        lane.names.push((name, Place::Resident(lane.residents.len())));
        lane.residents.push(buffer);
        Ok(())
    }

    /// Binds a resident and sends all its numbers, which `fill` gathers.
    ///
    /// # Errors
    /// As [`Feed::write`].
    ///
    /// # Panics
    /// When the block has not declared that it writes the resident.
    pub fn write_resident<T: Plain>(
        &mut self,
        name: &'static str,
        resident: &Resident<T>,
        fill: impl FnOnce(&mut [T]) -> Result<(), DeviceError>,
    ) -> Result<(), DeviceError> {
        self.resident(name, resident)?;
        let writes = resident.turn(self.turns).is_some_and(Turn::writes);
        assert!(writes, "the block writes the resident `{name}` without declaring it");
        let Some(buffer) = self.lane().residents.last() else { unreachable!("it was just bound") };
        let handle = buffer.handle();
        let event = self.send_numbers(handle, resident.len(), fill)?;
        self.lane().events.push(event);
        Ok(())
    }

    /// Sends numbers to a new buffer that outlives the block.
    fn bring<T: Plain>(
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

    /// The right to fill a part that several blocks use; nothing if it is filled. While another thread fills it, a
    /// block with no command yet goes back to the queue, and its thread takes another block; any other block waits.
    fn claim<'p, P: Fill>(&mut self, part: &'p Arc<P>) -> Result<Option<Filler<'p, P::Value>>, DeviceError> {
        loop {
            match part.place().find() {
                Found::Filled => return Ok(None),
                Found::Empty(filler) => return Ok(Some(filler)),
                Found::Filling if self.lane().last.is_none() => {
                    self.end_point.held_back = Some(Arc::clone(part) as Arc<dyn HoldsBack>);
                    return Err(DeviceError::HeldBack);
                }
                // A thread that waits here fills nothing itself, so no two threads wait for each other.
                Found::Filling => part.place().wait(),
            }
        }
    }

    pub(super) fn lane(&mut self) -> &mut Lane {
        &mut self.end_point.lanes[self.lane]
    }

    fn keep(&mut self, name: &'static str, buffer: Buffer) {
        let lane = self.lane();
        lane.names.push((name, Place::Own(lane.buffers.len())));
        debug_assert!(lane.busy, "a buffer is left on a lane that has no block: it would never go back");
        lane.buffers.push(buffer);
    }

    /// Gathers numbers into staging memory and sends them to the device.
    #[expect(unsafe_code, reason = "staging memory is filled")]
    fn send_numbers<T: Plain>(
        &mut self,
        to: Handle,
        len: usize,
        fill: impl FnOnce(&mut [T]) -> Result<(), DeviceError>,
    ) -> Result<Arc<Object>, DeviceError> {
        let bytes = len * size_of::<T>();
        let region = self.lane().staging.region(bytes)?;
        // SAFETY: the region is new.
        let gathered = unsafe { gather(region, fill) }?;
        self.end_point.gathered.add(bytes as u64, gathered);
        self.send(to, region, bytes)
    }

    /// Sends the first bytes of a region to the device.
    #[expect(unsafe_code, reason = "host memory is read by the device")]
    fn send(&mut self, to: Handle, region: Region, bytes: usize) -> Result<Arc<Object>, DeviceError> {
        debug_assert!(bytes <= region.bytes, "more is sent than was gathered");
        self.enqueue(|driver, queue, after| {
            // SAFETY: the region is the lane's, or of pinned memory that the lane holds. The lane keeps either until this
            // command has ended, and no thread writes to them before.
            unsafe { driver.write(queue, (to, 0), region.at, bytes, after) }
        })
    }

    /// Enqueues a command of the block, which comes after the commands of other blocks that the block depends on.
    pub(super) fn enqueue(
        &mut self,
        command: impl FnOnce(&dyn Driver, Handle, &[Handle]) -> DriverResult<Handle>,
    ) -> Result<Arc<Object>, DeviceError> {
        debug_assert!(
            self.end_point.lanes[self.lane].busy,
            "a command is enqueued on a lane that has no block: nothing would wait for it"
        );
        let queue = self.end_point.queue.handle();
        let driver = Arc::clone(self.end_point.device.driver());
        let after: Vec<Handle> = self.lane().after.iter().map(|event| event.handle()).collect();
        let event = Object::own(&driver, Kind::Event, |driver| command(driver, queue, &after))?;
        let event = Arc::new(event);
        self.lane().last = Some(Arc::clone(&event));
        Ok(event)
    }
}

/// Fills a region, and returns the time that it took.
///
/// # Safety
/// The region is new: its staging area lives, no command uses it, and no other thread knows of it.
#[expect(unsafe_code, reason = "staging memory is filled")]
unsafe fn gather<T: Plain>(
    region: Region,
    fill: impl FnOnce(&mut [T]) -> Result<(), DeviceError>,
) -> Result<Duration, DeviceError> {
    let begun = Instant::now();
    // SAFETY: the caller's contract.
    fill(unsafe { region.numbers_mut::<T>() })?;
    Ok(begun.elapsed())
}
