//! Host memory that a device copies from and to directly.
//!
//! Invariants: a region is given out once between two calls of [`Staging::reset`], and that is called only when no
//! command uses any region. Segments stay mapped, so regions do not move.
#![expect(unsafe_code, reason = "memory of the driver, reached through pointers")]

use std::slice;
use std::sync::Arc;

use super::driver::{Driver, DriverResult, Handle, Kind, Use};
use super::object::Object;
use super::plain::Plain;

/// The first segment of a staging area; a block that needs more gets more.
const SEGMENT_BYTES_MIN: usize = 1 << 20;
/// The alignment of regions: no two share a cache line, and it suits any number.
const REGION_ALIGNMENT: usize = 128;

/// The staging memory of one lane.
pub(super) struct Staging {
    driver: Arc<dyn Driver>,
    context: Handle,
    /// Maps and unmaps.
    queue: Arc<Object>,
    segments: Vec<Segment>,
}

struct Segment {
    object: Object,
    at: *mut u8,
    bytes: usize,
    used: usize,
}

/// A part of the staging memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Region {
    pub(super) at: *mut u8,
    pub(super) bytes: usize,
}

// SAFETY: the pointers lead to memory that belongs to the staging area, and one thread at a time uses it.
unsafe impl Send for Staging {}
// SAFETY: a region is an address; the thread that reads or writes it holds its staging area.
unsafe impl Send for Region {}

impl Staging {
    pub(super) fn new(driver: &Arc<dyn Driver>, context: Handle, queue: &Arc<Object>) -> Self {
        Self { driver: Arc::clone(driver), context, queue: Arc::clone(queue), segments: Vec::new() }
    }

    /// A region of this many bytes, all of them written before (zeros at first).
    pub(super) fn region(&mut self, bytes: usize) -> DriverResult<Region> {
        let wanted = bytes.next_multiple_of(REGION_ALIGNMENT).max(REGION_ALIGNMENT);
        let fits = |segment: &Segment| segment.bytes - segment.used >= wanted;
        if !self.segments.iter().any(fits) {
            self.add_segment(wanted.next_power_of_two().max(SEGMENT_BYTES_MIN))?;
        }
        let Some(segment) = self.segments.iter_mut().find(|segment| segment.bytes - segment.used >= wanted)
        else {
            unreachable!("a segment was added for it")
        };
        // SAFETY: within the segment, by the search above.
        let at = unsafe { segment.at.add(segment.used) };
        segment.used += wanted;
        debug_assert!(segment.used <= segment.bytes, "a region reaches beyond its segment");
        debug_assert!(
            bytes <= wanted && segment.used >= wanted,
            "two regions overlap: one block would overwrite another block's data"
        );
        Ok(Region { at, bytes })
    }

    /// A region in a segment of its own, no larger than needed.
    pub(super) fn region_of_own(&mut self, bytes: usize) -> DriverResult<Region> {
        let wanted = bytes.next_multiple_of(REGION_ALIGNMENT).max(REGION_ALIGNMENT);
        self.add_segment(wanted)?;
        let Some(segment) = self.segments.last_mut() else { unreachable!("it was just added") };
        segment.used = wanted;
        Ok(Region { at: segment.at, bytes })
    }

    fn add_segment(&mut self, bytes: usize) -> DriverResult<()> {
        let context = self.context;
        let object =
            Object::own(&self.driver, Kind::Buffer, |driver| driver.buffer(context, bytes, Use::Staging))?;
        let at = self.driver.map(self.queue.handle(), object.handle(), bytes)?;
        debug_assert!(!at.is_null(), "the driver has mapped a buffer to nowhere");
        debug_assert!(
            at.addr().is_multiple_of(align_of::<u64>()),
            "the driver has mapped a buffer to an address that is not aligned for numbers"
        );
        debug_assert!(
            self.segments.iter().all(|other| {
                at.addr() + bytes <= other.at.addr() || other.at.addr() + other.bytes <= at.addr()
            }),
            "two segments overlap: the driver has mapped one place twice"
        );
        // SAFETY: the map is `bytes` long, and no other thread has it. Zeroed, so that no region is ever read
        // unwritten.
        unsafe { at.write_bytes(0, bytes) };
        self.segments.push(Segment { object, at, bytes, used: 0 });
        Ok(())
    }

    /// Takes all regions back. No command uses one any more.
    pub(super) fn reset(&mut self) {
        self.segments.iter_mut().for_each(|segment| segment.used = 0);
    }

    /// Leaks memory that a command may still use: no other block must write to it.
    pub(super) fn leak(&mut self) {
        std::mem::forget(std::mem::take(&mut self.segments));
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        for segment in &self.segments {
            // The buffer is released next in any case.
            let _ = self.driver.unmap(self.queue.handle(), segment.object.handle(), segment.at);
        }
    }
}

impl Region {
    /// The region as numbers to read.
    ///
    /// # Safety
    /// While the slice lives, its staging area does, and neither a command nor a thread writes to the region.
    pub(super) unsafe fn numbers<'a, T: Plain>(self) -> &'a [T] {
        const { assert!(align_of::<T>() <= REGION_ALIGNMENT && size_of::<T>() > 0) };
        debug_assert!(self.at.cast::<T>().is_aligned(), "a region is not aligned for this type");
        debug_assert!(self.bytes.is_multiple_of(size_of::<T>()), "a region ends within a number");
        // SAFETY: the region is aligned for any number, was written to when its segment was made, and the caller
        // vouches for the rest.
        unsafe { slice::from_raw_parts(self.at.cast(), self.bytes / size_of::<T>()) }
    }

    /// The region as numbers to write.
    ///
    /// # Safety
    /// While the slice lives, its staging area does, no command uses the region, and there is no other slice of it.
    pub(super) unsafe fn numbers_mut<'a, T: Plain>(self) -> &'a mut [T] {
        const { assert!(align_of::<T>() <= REGION_ALIGNMENT && size_of::<T>() > 0) };
        debug_assert!(self.at.cast::<T>().is_aligned(), "a region is not aligned for this type");
        debug_assert!(self.bytes.is_multiple_of(size_of::<T>()), "a region ends within a number");
        // SAFETY: as for `numbers`.
        unsafe { slice::from_raw_parts_mut(self.at.cast(), self.bytes / size_of::<T>()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// This failed under Miri: each call made a mutable slice of the region, and the second invalidated the first.
    #[test]
    fn two_slices_of_one_region_may_overlap() {
        let mut memory = [[7u32; 4], [9u32; 4]];
        let region = Region { at: memory.as_mut_ptr().cast(), bytes: size_of_val(&memory) };
        // SAFETY: the memory outlives the slices, and no thread writes to it.
        let (one, other) = unsafe { (region.numbers::<u32>(), region.numbers::<[u32; 4]>()) };
        assert_eq!((one[0], one[7], other[1], one.len()), (7, 9, [9; 4], 8));
    }
}
