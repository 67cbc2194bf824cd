//! The progress of the box, as progress bars read it.

use super::Harness;
use crate::sync::Ordering;

impl Harness {
    /// The progress that the box has reported: done and total.
    pub fn progress(&self) -> (u64, u64) {
        (self.at.progress_done.load(Ordering::Relaxed), self.at.progress_total.load(Ordering::Relaxed))
    }

    /// The units of work that the box has done, and those that it has begun: see
    /// [`Context::work`](crate::operator::Context::work).
    pub fn work(&self) -> (u64, u64) {
        (self.at.work_done.load(Ordering::Relaxed), self.at.work_expected.load(Ordering::Relaxed))
    }
}
