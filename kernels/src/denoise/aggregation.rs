//! Sums of overlapping estimates.
//!
//! Invariant: both sums are whole numbers, so they do not depend on the order in which estimates are added.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::picture::rows_at_once;
use crate::pieces::{Pieces, fill};

/// Units of a grey level in which weighted estimates are summed.
pub(crate) const ESTIMATE_UNITS: f64 = (1 << 20) as f64;
/// Units in which weights are summed: a weight may be as small as 1e-4, so its units are finer than an estimate's.
pub(crate) const WEIGHT_UNITS: f64 = (1 << 30) as f64;

/// The sums of some rows of one plane.
#[derive(Clone, Default)]
pub(crate) struct Sums {
    /// The first row.
    pub top: usize,
    pub width: usize,
    pub estimates: Vec<i64>,
    pub weights: Vec<i64>,
}

impl Sums {
    /// Sums of nothing for `rows` rows from `top` on.
    pub fn new(top: usize, rows: usize, width: usize) -> Self {
        Self { top, width, estimates: vec![0; rows * width], weights: vec![0; rows * width] }
    }

    /// Becomes sums of nothing for other rows, in the same memory.
    pub fn reset(&mut self, top: usize, rows: usize, width: usize) {
        (self.top, self.width) = (top, width);
        for sums in [&mut self.estimates, &mut self.weights] {
            sums.clear();
            sums.resize(rows * width, 0);
        }
    }

    /// The row after the last one.
    pub fn bottom(&self) -> usize {
        self.top + self.estimates.len() / self.width
    }

    /// Adds the rows of another that both have.
    pub fn add(&mut self, other: &Self) {
        let (from, upto) = (self.top.max(other.top), self.bottom().min(other.bottom()));
        if from >= upto {
            return;
        }
        let own = (from - self.top) * self.width..(upto - self.top) * self.width;
        let theirs = (from - other.top) * self.width..(upto - other.top) * self.width;
        for (sums, added) in [(&mut self.estimates, &other.estimates), (&mut self.weights, &other.weights)] {
            sums[own.clone()].iter_mut().zip(&added[theirs.clone()]).for_each(|(sum, term)| *sum += term);
        }
    }

    /// Adds sums of a part of the rows, `width` of each from a column on.
    fn add_part(&mut self, (top, left): (usize, usize), width: usize, estimates: &[i64], weights: &[i64]) {
        for (sums, added) in [(&mut self.estimates, estimates), (&mut self.weights, weights)] {
            let rows = sums[(top - self.top) * self.width..].chunks_mut(self.width);
            for (sums, added) in rows.zip(added.chunks(width)) {
                sums[left..][..width].iter_mut().zip(added).for_each(|(sum, term)| *sum += term);
            }
        }
    }

    /// Writes the weighted means.
    fn write_means(&self, means: &mut [f32]) {
        for ((mean, estimate), weight) in means.iter_mut().zip(&self.estimates).zip(&self.weights) {
            let units = WEIGHT_UNITS / ESTIMATE_UNITS;
            *mean = (*estimate as f64 * units / (*weight).max(1) as f64) as f32;
        }
    }
}

/// Rows of sums that one lock protects: fewer than a band of reference patches adds to.
const BLOCK_ROWS: usize = 32;

/// The sums of some rows of one plane that threads add to at the same time.
pub(crate) struct SharedSums {
    /// The first row.
    top: usize,
    width: usize,
    rows: usize,
    blocks: Vec<Mutex<Sums>>,
}

impl SharedSums {
    /// Sums of nothing for `rows` rows from `top` on.
    pub fn new(top: usize, rows: usize, width: usize) -> Self {
        let of_block = |first: usize| Sums::new(top + first, BLOCK_ROWS.min(rows - first), width);
        let blocks = (0..rows).step_by(BLOCK_ROWS).map(|first| Mutex::new(of_block(first))).collect();
        Self { top, width, rows, blocks }
    }

    /// Adds the rows of some sums that these have too.
    pub fn add(&self, added: &Sums) {
        let block = |row: usize| row.saturating_sub(self.top) / BLOCK_ROWS;
        let blocks = block(added.top)..(block(added.bottom()) + 1).min(self.blocks.len());
        for block in self.blocks.get(blocks).unwrap_or_default() {
            lock(block).add(added);
        }
    }

    /// Adds sums of a part of the plane, in rows of `width` from a row and a column on.
    pub fn add_part(&self, (top, left): (usize, usize), width: usize, estimates: &[i64], weights: &[i64]) {
        let bottom = top + estimates.len() / width;
        for (number, block) in self.blocks.iter().enumerate() {
            let first = self.top + number * BLOCK_ROWS;
            let (from, upto) = (top.max(first), bottom.min(first + BLOCK_ROWS));
            if from < upto {
                let part = (from - top) * width..(upto - top) * width;
                lock(block).add_part((from, left), width, &estimates[part.clone()], &weights[part]);
            }
        }
    }

    /// Becomes sums of nothing.
    pub fn clear(&mut self) {
        for block in &mut self.blocks {
            let sums = block.get_mut().unwrap_or_else(PoisonError::into_inner);
            sums.estimates.fill(0);
            sums.weights.fill(0);
        }
    }

    /// The weighted means of all rows; nothing if `pieces` was cancelled.
    pub fn means(&self, pieces: &mut Pieces<'_>) -> Option<Vec<f32>> {
        let mut means = vec![0.0; self.rows * self.width];
        let blocks_at_once = rows_at_once(self.width).div_ceil(BLOCK_ROWS);
        let write = |part: usize, means: &mut [&mut [f32]]| {
            let blocks = &self.blocks[part * blocks_at_once..];
            for (block, means) in blocks.iter().zip(means[0].chunks_mut(BLOCK_ROWS * self.width)) {
                lock(block).write_means(means);
            }
        };
        fill(pieces, &mut [&mut means], blocks_at_once * BLOCK_ROWS * self.width, write).then_some(means)
    }
}

/// Sums stay whole numbers wherever a thread panics, and the panic ends the request.
fn lock(sums: &Mutex<Sums>) -> MutexGuard<'_, Sums> {
    sums.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pieces::one_by_one;

    #[test]
    fn blocks_add_up_to_the_sums_of_all_rows() {
        // Means are computed in one part and in several.
        for width in [3, 5_000] {
            let (top, rows) = (5, 70);
            let (shared, mut whole) = (SharedSums::new(top, rows, width), Sums::new(top, rows, width));
            let added = [(1, 0, 5), (2, 0, 6), (3, 4, 40), (4, 36, 2), (5, 30, 45), (6, 74, 9), (7, 75, 4)];
            for (number, first, count) in added {
                let mut added = Sums::new(first, count, width);
                let estimates = added.estimates.iter_mut().enumerate();
                estimates.for_each(|(at, sum)| *sum = (number * (at as i64 + 1)) << 9);
                added.weights.iter_mut().for_each(|sum| *sum = number);
                shared.add(&added);
                whole.add(&added);
            }
            let mut expected = vec![0.0; rows * width];
            whole.write_means(&mut expected);
            assert!(expected[0] > 0.0 && expected[width * rows - 1] > 0.0);
            assert!(shared.means(&mut one_by_one()) == Some(expected), "{width} pixels a row");
            assert_eq!(shared.means(&mut |_, _| false), None);
        }
    }

    #[test]
    fn parts_of_rows_add_up_to_whole_rows() {
        let (rows, width) = (70, 9);
        let (mut parts, whole) = (SharedSums::new(0, rows, width), SharedSums::new(0, rows, width));
        for (top, count, left, columns) in [(0, 70, 2, 4), (30, 3, 0, 9), (31, 39, 5, 1), (64, 6, 8, 1)] {
            let numbers: Vec<i64> = (1..=(count * columns) as i64).collect();
            parts.add_part((top, left), columns, &numbers, &numbers[..]);
            let mut added = Sums::new(top, count, width);
            for (at, number) in numbers.into_iter().enumerate() {
                let to = at / columns * width + left + at % columns;
                (added.estimates[to], added.weights[to]) = (number, number);
            }
            whole.add(&added);
        }
        let means = parts.means(&mut one_by_one());
        assert!(means.is_some() && means == whole.means(&mut one_by_one()));
        parts.clear();
        assert_eq!(parts.means(&mut one_by_one()), Some(vec![0.0; rows * width]));
    }
}
