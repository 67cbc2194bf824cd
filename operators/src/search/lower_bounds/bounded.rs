//! One query of `lower_bounds`, and the objects that remain for it.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};

use boxwork_kernels::lower_bound::{BoundQuery, Bounds};

/// A query and its state during bounding.
pub(super) struct Bounded {
    pub(super) number: u32,
    pub(super) query: Option<BoundQuery>,
    /// The bits of the range as an f32; bits of positive numbers sort like the numbers. A thread that reads an old
    /// range only excludes less.
    range: AtomicU32,
    /// The smallest upper bounds: at least k of them, once there have been as many.
    pub(super) uppers: Vec<f32>,
    /// Remaining objects, piece by piece.
    pub(super) left: VecDeque<Left>,
}

/// The result of some blocks for one query.
#[derive(Default)]
pub(super) struct Found {
    pub(super) uppers: Vec<f32>,
    pub(super) left: Left,
}

/// Remaining objects with their lower bounds: the columns of an envelope, made without a copy.
#[derive(Default)]
pub(super) struct Left {
    pub(super) ids: Vec<u64>,
    pub(super) lowers: Vec<f64>,
    /// No lower bound is larger.
    most: f64,
}

impl Left {
    pub(super) fn len(&self) -> usize {
        self.ids.len()
    }

    /// Adds the objects of a block that are within the range.
    fn add(&mut self, ids: Range<u64>, lowers: &[f32], range: f32) {
        let (first, rows) = (self.len(), (ids.end - ids.start) as usize);
        self.ids.resize(first + rows, 0);
        self.lowers.resize(first + rows, 0.0);
        // Branch-free compaction: always write, advance only for survivors, since survival cannot be predicted.
        let mut count = first;
        for (id, lower) in ids.zip(lowers) {
            self.ids[count] = id;
            self.lowers[count] = f64::from(*lower);
            count += usize::from(*lower <= range);
        }
        self.ids.truncate(count);
        self.lowers.truncate(count);
        self.most = self.most.max(f64::from(range));
    }

    /// Adds one object, whatever the range.
    pub(super) fn push(&mut self, id: u64, lower: f32) {
        self.ids.push(id);
        self.lowers.push(f64::from(lower));
        self.most = self.most.max(f64::from(lower));
    }

    /// Adds all objects of another piece.
    pub(super) fn append(&mut self, mut other: Self) {
        self.ids.append(&mut other.ids);
        self.lowers.append(&mut other.lowers);
        self.most = self.most.max(other.most);
    }

    /// Drops objects beyond a range.
    pub(super) fn narrow(&mut self, range: f32) {
        let range = f64::from(range);
        if self.most <= range {
            return;
        }
        let mut count = 0;
        for row in 0..self.len() {
            (self.ids[count], self.lowers[count]) = (self.ids[row], self.lowers[row]);
            count += usize::from(self.lowers[count] <= range);
        }
        self.ids.truncate(count);
        self.lowers.truncate(count);
        self.most = range;
    }
}

impl Bounded {
    pub(super) fn new(number: u32, query: Option<BoundQuery>, limit: f32) -> Self {
        let (uppers, left) = (Vec::new(), VecDeque::new());
        Self { number, query, range: AtomicU32::new(limit.to_bits()), uppers, left }
    }

    pub(super) fn range(&self) -> f32 {
        f32::from_bits(self.range.load(Ordering::Relaxed))
    }

    /// Takes over a range that contains all answers, if it is smaller.
    pub(super) fn lower_range(&self, range: f32) {
        self.range.fetch_min(range.to_bits(), Ordering::Relaxed);
    }

    /// Adds the bounds of a block's objects to `found`; many threads call this, each with its own `found`.
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
            found.left.add(ids, &bounds.lower[..rows], self.range());
        }
    }

    /// Takes over the result of some blocks.
    pub(super) fn learn(&mut self, found: Found) {
        self.uppers.extend(found.uppers);
        if found.left.len() > 0 {
            self.left.push_back(found.left);
        }
    }

    /// Lowers the range to the k-th smallest upper bound, and drops objects beyond it. Returns the number that remains.
    pub(super) fn narrow(&mut self, k: Option<usize>) -> usize {
        if let Some(kth) = k.and_then(|k| cut(&mut self.uppers, k)) {
            self.lower_range(kth);
        }
        let range = self.range();
        self.left.iter_mut().for_each(|left| left.narrow(range));
        self.left.retain(|left| left.len() > 0);
        self.left.iter().map(Left::len).sum()
    }

    /// Sorts the remaining objects by id, in pieces of `rows`.
    pub(super) fn sort(&mut self, rows: usize) {
        let all = self.left.iter().flat_map(|left| left.ids.iter().zip(&left.lowers));
        let mut all: Vec<(u64, f64)> = all.map(|(id, lower)| (*id, *lower)).collect();
        all.sort_unstable_by_key(|(id, _)| *id);
        let most = self.left.iter().map(|left| left.most).fold(0.0, f64::max);
        let piece = |rows: &[(u64, f64)]| {
            let (ids, lowers) = rows.iter().copied().unzip();
            Left { ids, lowers, most }
        };
        self.left = all.chunks(rows).map(piece).collect();
    }
}

/// Keeps the k smallest and returns the largest of these; `None` if there are fewer.
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
