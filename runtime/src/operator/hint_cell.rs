//! Hint cells: one monotone value per query, written by joins and read without locks.
//!
//! Invariant: a cell only moves away from its bottom; a reader may see an old value, which must stay correct.

use std::sync::Arc;

use super::Join;
use crate::sync::{AtomicU64, Ordering};

/// The values of one written hint, shared by the copies of its writer.
pub(crate) struct HintCell {
    pub(crate) join: Join,
    /// The boxes that read it: a firing that changes a value notifies them.
    pub(crate) readers: Arc<[usize]>,
    values: Vec<AtomicU64>,
}

impl HintCell {
    /// A hint of a request with at most this many queries.
    pub(crate) fn new(join: Join, readers: Arc<[usize]>, queries: usize) -> Self {
        let bottom = join.bottom().to_bits();
        Self { join, readers, values: (0..queries).map(|_| AtomicU64::new(bottom)).collect() }
    }

    /// The value for a query; nothing if the request has no query of this number.
    pub(crate) fn get(&self, query: u32) -> Option<f64> {
        Some(f64::from_bits(self.values.get(query as usize)?.load(Ordering::Relaxed)))
    }

    /// Joins a value in. Returns whether that changed the hint; nothing if the request has no query of this number.
    pub(crate) fn join(&self, query: u32, value: f64) -> Option<bool> {
        let cell = self.values.get(query as usize)?;
        let mut before = cell.load(Ordering::Relaxed);
        loop {
            let after = self.join.join(f64::from_bits(before), value).to_bits();
            if after == before {
                return Some(false);
            }
            // Relaxed: a hint carries a number only, no memory depends on it.
            match cell.compare_exchange_weak(before, after, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Some(true),
                Err(now) => before = now,
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn only_lesser_values_change_a_minimum() {
        let cell = HintCell::new(Join::Minimum, Arc::from([]), 4);
        assert_eq!(cell.get(3), Some(f64::INFINITY));
        assert_eq!(cell.join(3, 2.0), Some(true));
        assert_eq!(cell.join(3, 2.5), Some(false));
        assert_eq!(cell.join(3, f64::NAN), Some(false), "not a number must not win");
        assert_eq!(cell.get(3), Some(2.0));
        assert_eq!((cell.get(4), cell.join(u32::MAX, 2.0)), (None, None));
    }
}
