//! Memory of the host for a device that one thread drives: lent to it, or copied through pinned memory.
#![expect(unsafe_code, reason = "a device uses memory of the host")]

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use super::super::driver::Kind;
use super::super::error::DeviceError;
use super::super::object::Object;
use super::super::plain::Plain;
use super::super::staging::Region;
use super::{Direct, Held, Part};

/// Bytes of a copy through pinned memory; two are under way.
const COPY_BYTES: usize = 32 << 20;

impl Direct {
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
        self.release((name, 0))?;
        let mut memory = Box::new(memory);
        let numbers = &mut memory[range];
        assert!(!numbers.is_empty(), "a buffer of no numbers");
        let (at, bytes) = (numbers.as_mut_ptr().cast::<u8>(), size_of_val(numbers));
        let (driver, context) = (Arc::clone(self.device.driver()), self.device.context());
        // SAFETY: the vector is kept with the buffer, untouched, until the buffer is released; see `take_back` and `drop`.
        let own =
            Object::own(&driver, Kind::Buffer, |driver| unsafe { driver.buffer_over(context, at, bytes) });
        let object = self.noted(own.map_err(DeviceError::from))?;
        self.buffers.insert((name, 0), Held::OfHost(object, bytes, memory));
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
        let Some(Held::OfHost(object, bytes, _)) = self.buffers.get(&(name, 0)) else {
            panic!("no memory was given as `{name}`")
        };
        let (driver, queue, begun) =
            (Arc::clone(self.device.driver()), self.queues[0].handle(), Instant::now());
        let mapped = driver.map(queue, object.handle(), *bytes);
        let unmapped = mapped.and_then(|at| driver.unmap(queue, object.handle(), at));
        let ended = unmapped.and_then(|()| driver.finish(queue));
        self.statistics.maps += 1;
        self.statistics.unmaps += 1;
        self.statistics.map_ns += begun.elapsed().as_nanos() as u64;
        self.noted(ended.map_err(DeviceError::from))?;
        let Some(Held::OfHost(object, _, memory)) = self.buffers.remove(&(name, 0)) else {
            unreachable!("it was found")
        };
        drop(object);
        let memory = memory.downcast::<Vec<T>>();
        Ok(*memory.unwrap_or_else(|_| panic!("`{name}` was given as numbers of another type")))
    }

    /// Copies numbers to a buffer, from a place on, through pinned memory, behind the commands of the first lane.
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
        self.write_part((name, 0), first, numbers)
    }

    /// [`Direct::write`] to a part of a buffer.
    ///
    /// # Errors
    /// As there.
    ///
    /// # Panics
    /// As there.
    pub fn write_part<T: Plain>(
        &mut self,
        part: Part,
        first: usize,
        numbers: &[T],
    ) -> Result<(), DeviceError> {
        self.write_part_by(part, first, numbers.len(), &mut |at, to: &mut [T]| {
            to.copy_from_slice(&numbers[at..][..to.len()]);
        })
    }

    /// [`Direct::write_part`] of so many numbers that a closure writes to the pinned memory: it takes the place of the first of them, from 0, and must
    /// write all.
    ///
    /// # Errors
    /// As there.
    ///
    /// # Panics
    /// As there.
    pub fn write_part_by<T: Plain>(
        &mut self,
        part: Part,
        first: usize,
        len: usize,
        fill: &mut dyn FnMut(usize, &mut [T]),
    ) -> Result<(), DeviceError> {
        let at_once = COPY_BYTES / size_of::<T>();
        let regions = self.regions::<T>(len)?;
        for (nth, begin) in (0..len).step_by(at_once).enumerate() {
            // The copy before the last has ended, so its region is free.
            self.wait_for_copies(1)?;
            let (count, region) = (at_once.min(len - begin), regions[nth % 2]);
            let (at, bytes) = ((first + begin) * size_of::<T>(), count * size_of::<T>());
            let to = self.place(part, at + bytes);
            // SAFETY: no command uses the region, and this is its only slice.
            let numbers = unsafe { region.numbers_mut::<T>() };
            fill(begin, &mut numbers[..count]);
            // SAFETY: the region is of the staging memory, which lives until all commands have ended.
            let sent = self.enqueue(0, None, |driver, queue| unsafe {
                driver.write(queue, (to, at), region.at, bytes, &[])
            })?;
            self.copies.push_back(sent);
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
        self.wait(0)?;
        self.read_part((name, 0), first, to)
    }

    /// Copies numbers of a part of a buffer to the host once the commands of the first lane have ended, while others may compute.
    ///
    /// # Errors
    /// As [`Direct::read`].
    ///
    /// # Panics
    /// As there.
    pub fn read_part<T: Plain>(&mut self, part: Part, first: usize, to: &mut [T]) -> Result<(), DeviceError> {
        self.read_part_by(part, first, to.len(), &mut |at, numbers: &[T]| {
            to[at..][..numbers.len()].copy_from_slice(numbers);
        })
    }

    /// [`Direct::read_part`] of so many numbers that a closure takes from the pinned memory, with the place of the first of them, from 0.
    ///
    /// # Errors
    /// As [`Direct::read`].
    ///
    /// # Panics
    /// As there.
    pub fn read_part_by<T: Plain>(
        &mut self,
        part: Part,
        first: usize,
        len: usize,
        take: &mut dyn FnMut(usize, &[T]),
    ) -> Result<(), DeviceError> {
        let at_once = COPY_BYTES / size_of::<T>();
        let regions = self.regions::<T>(len)?;
        let chunks = len.div_ceil(at_once);
        let count_of = |nth: usize| at_once.min(len - nth * at_once);
        for nth in 0..=chunks {
            if nth < chunks {
                let (region, at) = (regions[nth % 2], (first + nth * at_once) * size_of::<T>());
                let bytes = count_of(nth) * size_of::<T>();
                let from = self.place(part, at + bytes);
                // SAFETY: the region is of the staging memory, and its numbers were taken out when the copy before had ended.
                let sent = self.enqueue(0, None, |driver, queue| unsafe {
                    driver.read(queue, (from, at), region.at, bytes, &[])
                })?;
                self.copies.push_back(sent);
                self.statistics.copied_bytes += bytes as u64;
            }
            if nth > 0 {
                self.wait_for_copies(usize::from(nth < chunks))?;
                // SAFETY: the command that wrote to the region has ended.
                let numbers = unsafe { regions[(nth - 1) % 2].numbers::<T>() };
                take((nth - 1) * at_once, &numbers[..count_of(nth - 1)]);
            }
        }
        Ok(())
    }

    /// Waits until at most the last `left` copies have not ended.
    fn wait_for_copies(&mut self, left: usize) -> Result<(), DeviceError> {
        while self.copies.len() > left
            && let Some(oldest) = self.copies.pop_front()
        {
            self.wait_for(oldest)?;
        }
        Ok(())
    }

    /// Two regions for copies of so many numbers. Waits for earlier copies.
    fn regions<T: Plain>(&mut self, len: usize) -> Result<[Region; 2], DeviceError> {
        self.wait_for_copies(0)?;
        self.staging.reset();
        let bytes = (len * size_of::<T>()).min(COPY_BYTES);
        let first = self.staging.region(bytes).map_err(DeviceError::from);
        let first = self.noted(first)?;
        let second = self.staging.region(bytes).map_err(DeviceError::from);
        Ok([first, self.noted(second)?])
    }
}
