//! The commands of a block after its transfers to the device: its kernels and reads.

use std::sync::Arc;

use super::super::error::DeviceError;
use super::super::launch::{Grid, Value};
use super::super::plain::Plain;
use super::super::program::{ProgramSource, set_arguments};
use super::Feed;

impl Feed<'_> {
    /// Runs a kernel over a range. `values` are the arguments other than buffers; buffers are bound by their names.
    ///
    /// Commands of a block run one after the other: a kernel reads the results of the kernels before it. A range
    /// without work items launches nothing.
    ///
    /// # Errors
    /// When the program does not compile, an argument has no value of its kind, the group is larger than the device
    /// takes, or a call of the driver fails.
    pub fn launch(
        &mut self,
        source: &ProgramSource,
        kernel: &'static str,
        grid: Grid,
        values: &[(&str, Value)],
    ) -> Result<(), DeviceError> {
        let wrong = |reason: String| DeviceError::Arguments { program: source.name, kernel, reason };
        let (object, spec) = {
            let found = self.end_point.kernel(source, kernel)?;
            let (items, most) = (grid.group_items(), found.group_items_max);
            if items > most {
                return Err(wrong(format!("a group of {items} work items; the device takes {most}")));
            }
            (found.object.handle(), found.spec)
        };
        let mut ready = Vec::new();
        let driver = Arc::clone(self.end_point.device.driver());
        set_arguments(&*driver, source.name, (object, spec), values, |name| {
            let bound = self.end_point.bound(self.lane, name)?;
            ready.extend(bound.ready);
            Some(bound.handle)
        })?;
        if grid.is_empty() {
            return Ok(());
        }
        let event = self.enqueue(|driver, queue, after| {
            ready.extend_from_slice(after);
            driver.launch(queue, object, &grid, &ready)
        })?;
        let lane = self.lane();
        lane.launches.push((lane.events.len(), spec.name));
        lane.events.push(event);
        Ok(())
    }

    /// Reads `len` numbers of a buffer back, for [`Back::numbers`](super::Back::numbers). The name may be of any kind
    /// of buffer.
    ///
    /// # Errors
    /// When a call of the driver fails.
    ///
    /// # Panics
    /// When there is no such buffer, or it is smaller.
    #[expect(unsafe_code, reason = "the device writes into staging memory")]
    pub fn read<T: Plain>(&mut self, name: &'static str, len: usize) -> Result<(), DeviceError> {
        let bytes = len * size_of::<T>();
        let Some(bound) = self.end_point.bound(self.lane, name) else {
            panic!("the block has no buffer `{name}`")
        };
        assert!(bytes <= bound.bytes, "the buffer `{name}` has {} bytes, not {bytes}", bound.bytes);
        let region = self.lane().staging.region(bytes)?;
        debug_assert!(region.bytes >= bytes, "what comes back has no room in its region");
        let mut ready = Vec::from_iter(bound.ready);
        let event = self.enqueue(|driver, queue, after| {
            ready.extend_from_slice(after);
            // SAFETY: the region is the lane's, which is not reset before this command has ended.
            unsafe { driver.read(queue, (bound.handle, 0), region.at, bytes, &ready) }
        })?;
        let lane = self.lane();
        lane.events.push(event);
        lane.reads.push((name, region));
        Ok(())
    }
}
