//! The rows that may be among the nearest of a query, by lower and upper bounds.
//!
//! Invariant: the range is at least the k-th true distance: it is an upper bound of k different rows, or was given.

/// Upper bounds beyond k that are held before the k-th is looked for: a few, and a quarter of k. The range falls with each look, and
/// fewer rows are bounded by all their bits.
const ROOM: usize = 8;

/// The rows that may be among the k nearest of a query, by their bounds.
#[derive(Clone, Debug)]
pub struct CodeNearest {
    k: usize,
    /// Rows and their lower bounds.
    kept: Vec<(f64, u32)>,
    /// The least upper bounds of different rows.
    uppers: Vec<f64>,
    /// No farther row is an answer.
    range: f64,
    cut_at: usize,
    /// Rows that the first of two planes has left.
    left: u64,
}

impl CodeNearest {
    /// No rows yet; `range` is a distance beyond which nothing matters, or infinity.
    pub fn new(k: usize, range: f64) -> Self {
        Self { k, kept: Vec::new(), uppers: Vec::new(), range, cut_at: 1024, left: 0 }
    }

    /// No farther row is an answer.
    pub fn range(&self) -> f64 {
        self.range
    }

    /// The rows that the first of two planes has left when it met them; 0 if no plane bounds alone.
    pub fn left_by_first_plane(&self) -> u64 {
        self.left
    }

    /// Lowers the range to the k-th of the upper bounds of different rows.
    pub(super) fn limit(&mut self, mut uppers: Vec<f64>) {
        // A bound that is no number may come first in the order.
        uppers.retain(|upper| !upper.is_nan());
        if self.k > 0 && uppers.len() >= self.k {
            let (_, kth, _) = uppers.select_nth_unstable_by(self.k - 1, f64::total_cmp);
            self.range = self.range.min(*kth);
        }
    }

    /// Counts a row that the first of two planes has left.
    pub(super) fn pass(&mut self) {
        self.left += 1;
    }

    /// Adds a row; returns whether the range may have fallen.
    pub(super) fn push(&mut self, lower: f64, upper: f64, row: u32) -> bool {
        if lower > self.range {
            return false;
        }
        self.kept.push((lower, row));
        if self.kept.len() >= self.cut_at {
            let range = self.range;
            self.kept.retain(|(lower, _)| *lower <= range);
            self.cut_at = 2 * self.kept.len() + 1024;
        }
        if !(upper < self.range) {
            return false;
        }
        self.uppers.push(upper);
        let is_full = self.uppers.len() >= self.k + self.k / 4 + ROOM;
        if is_full {
            self.cut();
        }
        is_full
    }

    fn cut(&mut self) {
        if self.k > 0 && self.uppers.len() >= self.k {
            let (_, kth, _) = self.uppers.select_nth_unstable_by(self.k - 1, f64::total_cmp);
            self.range = self.range.min(*kth);
            self.uppers.truncate(self.k);
        }
    }

    /// Takes over the rows of another part.
    pub fn join(&mut self, other: Self) {
        self.left += other.left;
        self.range = self.range.min(other.range);
        self.uppers.extend(other.uppers);
        self.cut();
        let range = self.range;
        self.kept.extend(other.kept.into_iter().filter(|(lower, _)| *lower <= range));
    }

    /// The rows that remain, the least lower bounds first.
    pub fn finish(mut self) -> Vec<(f64, u32)> {
        self.cut();
        let range = self.range;
        self.kept.retain(|(lower, _)| *lower <= range);
        self.kept.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        self.kept
    }
}
