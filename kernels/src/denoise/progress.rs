//! The work of a denoising, counted while threads do it.
//!
//! Invariant: the parts of a count add up to its whole, whatever their order.

use std::sync::atomic::{AtomicU64, Ordering};

use super::parameters::Phase;

/// The time of one patch of a stack, in displacements of a search: loaded, transformed, and transformed back.
const PATCH_WORK: u64 = 48;

/// The work for a reference patch of a phase, in displacements of a search.
pub(crate) fn patch_work(phase: &Phase, is_second: bool) -> u64 {
    let side = 2 * phase.half_window as u64 + 1;
    // Wiener's rule transforms the model too.
    side * side + PATCH_WORK * phase.stack as u64 * if is_second { 2 } else { 1 }
}

/// Counts work in the caller's units.
pub(crate) struct Progress<'a> {
    /// Units that all the work counts as.
    units: u64,
    work: u64,
    done: AtomicU64,
    tell: &'a (dyn Fn(u64) + Sync),
}

impl<'a> Progress<'a> {
    /// A count of `work` that tells parts of `units` while the work is done.
    pub fn new(units: u64, work: u64, tell: &'a (dyn Fn(u64) + Sync)) -> Self {
        Self { units, work, done: AtomicU64::new(0), tell }
    }

    /// Adds work that is done.
    pub fn add(&self, work: u64) {
        let before = self.done.fetch_add(work, Ordering::Relaxed);
        let units = |done: u64| (u128::from(done) * u128::from(self.units) / u128::from(self.work)) as u64;
        debug_assert!(before + work <= self.work, "more work was done than there is");
        (self.tell)(units(before + work) - units(before));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_add_up_to_the_whole_in_any_order() {
        for (units, parts) in [(100, [7, 1, 25]), (5, [900, 3, 3]), (1 << 40, [1 << 50, 1 << 50, 1])] {
            let told = AtomicU64::new(0);
            let tell = |part| {
                told.fetch_add(part, Ordering::Relaxed);
            };
            let progress = Progress::new(units, parts.iter().sum(), &tell);
            for part in parts.iter().rev() {
                progress.add(*part);
            }
            assert_eq!(told.load(Ordering::Relaxed), units);
        }
    }
}
