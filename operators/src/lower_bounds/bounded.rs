//! One query of `lower_bounds`, and what the bounds seen so far say for it.

use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};

use boxwork_kernels::lower_bound::{BoundQuery, Bounds};

/// One query, and what is known of the objects so far.
pub(super) struct Bounded {
    pub(super) number: u32,
    pub(super) query: Option<BoundQuery>,
    /// The bits of the range as an f32: those of positive numbers are in the numbers' order. Whoever reads an old one
    /// leaves out less.
    range: AtomicU32,
    pub(super) found: Found,
}

/// What the bounds of some blocks say for one query.
#[derive(Default)]
pub(super) struct Found {
    /// The smallest upper bounds, at least k of them where there are as many.
    pub(super) uppers: Vec<f32>,
    /// Objects not ruled out, by id, with their lower bounds.
    pub(super) left: Vec<(u64, f32)>,
}

impl Bounded {
    pub(super) fn new(number: u32, query: Option<BoundQuery>, limit: f32) -> Self {
        Self { number, query, range: AtomicU32::new(limit.to_bits()), found: Found::default() }
    }

    pub(super) fn range(&self) -> f32 {
        f32::from_bits(self.range.load(Ordering::Relaxed))
    }

    /// Learns of a range that holds all answers.
    pub(super) fn lower_range(&self, range: f32) {
        self.range.fetch_min(range.to_bits(), Ordering::Relaxed);
    }

    /// Takes the bounds of a block's objects into account; called by many threads, each with its own `found`.
    pub(super) fn see(
        &self,
        ids: Range<u64>,
        bounds: &Bounds,
        k: Option<usize>,
        keeps: bool,
        found: &mut Found,
    ) {
        let rows = (ids.end - ids.start) as usize;
        if let Some(k) = k {
            let range = self.range();
            found.uppers.extend(bounds.upper[..rows].iter().copied().filter(|upper| *upper <= range));
            if found.uppers.len() >= 2 * k + bounds.upper.len()
                && let Some(kth) = cut(&mut found.uppers, k)
            {
                self.lower_range(kth);
            }
        }
        if keeps {
            let range = self.range();
            let left = ids.zip(bounds.lower.iter().copied()).filter(|(_, lower)| *lower <= range);
            found.left.extend(left);
        }
    }

    /// Learns the k-th smallest upper bound of all seen, and forgets what it rules out.
    pub(super) fn narrow(&mut self, k: Option<usize>) {
        if let Some(kth) = k.and_then(|k| cut(&mut self.found.uppers, k)) {
            self.lower_range(kth);
        }
        let range = self.range();
        self.found.left.retain(|(_, lower)| *lower <= range);
    }
}

/// Keeps the k smallest and gives the largest of them, where there are as many.
fn cut(uppers: &mut Vec<f32>, k: usize) -> Option<f32> {
    if uppers.len() < k {
        return None;
    }
    let (_, kth, _) = uppers.select_nth_unstable_by(k - 1, f32::total_cmp);
    let kth = *kth;
    uppers.truncate(k);
    Some(kth)
}

/// The f32 at or above a number that is not negative.
pub(super) fn above(number: f64) -> f32 {
    let near = number as f32;
    if f64::from(near) < number { near.next_up() } else { near }
}
