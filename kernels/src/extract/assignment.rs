//! The nearest mean of every sample, exactly, without looking at most means.
//!
//! A distance is a chain of roundings that each keep order: |x - m| rounded grows with |x - m|, and a sum rounded
//! grows with its parts. So the same chain over the gap between a mean and a block's box is a lower bound of the
//! *rounded* distance of every sample in the block, with no margin; and stopping after some of the coordinates
//! gives a smaller bound still. A mean whose bound exceeds a sample's distance to some other mean cannot be its
//! nearest, nor tie with it. The means that remain are tried in ascending order and replace only when strictly
//! nearer: ties stay with the lower index, as the specification wants.

use super::lanes::{Simd, Task};
use super::sampling::Samples;
use super::sites::BLOCK;
use super::transform::FEATURES;

/// A distance, as the steps that build it coordinate by coordinate.
pub(super) trait Metric: Copy {
    /// `sum` grown by the difference `t` of one coordinate.
    fn step<S: Simd>(self, simd: S, sum: S::Vector, t: S::Vector) -> S::Vector;
}

#[derive(Clone, Copy)]
pub(super) struct L1;
#[derive(Clone, Copy)]
pub(super) struct L2;
#[derive(Clone, Copy)]
pub(super) struct LInf;

impl Metric for L1 {
    #[inline(always)]
    fn step<S: Simd>(self, simd: S, sum: S::Vector, t: S::Vector) -> S::Vector {
        simd.add(sum, simd.abs(t))
    }
}

impl Metric for L2 {
    #[inline(always)]
    fn step<S: Simd>(self, simd: S, sum: S::Vector, t: S::Vector) -> S::Vector {
        simd.add_square(sum, t)
    }
}

impl Metric for LInf {
    #[inline(always)]
    fn step<S: Simd>(self, simd: S, sum: S::Vector, t: S::Vector) -> S::Vector {
        simd.max(sum, simd.abs(t))
    }
}

/// Means in columns, each filled up to a whole number of blocks, and one more, with infinity: never near anything.
#[derive(Debug, Default)]
pub(super) struct Means {
    pub(super) columns: [Vec<f32>; FEATURES],
    count: usize,
}

impl Means {
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Replaces all means.
    pub(super) fn fill(&mut self, means: impl ExactSizeIterator<Item = [f32; FEATURES]>) {
        self.count = means.len();
        let padded = self.count.next_multiple_of(BLOCK) + BLOCK;
        for column in &mut self.columns {
            column.clear();
            column.resize(padded, f32::INFINITY);
        }
        for (i, mean) in means.enumerate() {
            for (column, value) in self.columns.iter_mut().zip(mean) {
                column[i] = value;
            }
        }
    }

    /// Drops the means whose flag is false, and keeps the order of the others.
    pub(super) fn retain(&mut self, kept: &[bool]) {
        let left = kept.iter().filter(|&&kept| kept).count();
        for column in &mut self.columns {
            let mut flags = kept.iter();
            column.truncate(self.count);
            column.retain(|_| *flags.next().unwrap_or(&false));
            column.resize(left.next_multiple_of(BLOCK) + BLOCK, f32::INFINITY);
        }
        self.count = left;
    }
}

/// Adds every sample to the sum of its nearest mean.
pub(super) struct Assign<'a, M> {
    pub(super) metric: M,
    pub(super) samples: &'a Samples,
    pub(super) means: &'a Means,
    /// One per mean, all zeros; like the samples' totals.
    pub(super) sums: &'a mut [[i64; FEATURES + 1]],
    /// Scratch, of the means' padded length.
    pub(super) bounds: &'a mut [f32],
}

impl<M: Metric> Task for Assign<'_, M> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { metric, samples, means, sums, bounds } = self;
        for ((block, limits), totals) in
            samples.blocks.iter().zip(&samples.bounds).zip(samples.totals.chunks(BLOCK))
        {
            let first = lower_bounds(simd, metric, limits, means, bounds);
            let nearest = nearest_means(simd, metric, block, means, bounds, first);
            for (total, nearest) in totals.iter().zip(nearest) {
                let sum = &mut sums[nearest as usize];
                (0..=FEATURES).for_each(|d| sum[d] += total[d]);
            }
        }
    }
}

/// Coordinates that the bound of a box looks at: by far the most of the distance is in the plane.
const BOUND_FEATURES: usize = 3;

/// Fills `bounds` with a lower bound of the distance from each mean to anything in the box, and returns a mean that
/// is near the whole of it.
#[inline(always)]
fn lower_bounds<S: Simd, M: Metric>(
    simd: S,
    metric: M,
    limits: &[[f32; FEATURES]; 2],
    means: &Means,
    bounds: &mut [f32],
) -> usize {
    let zero = simd.splat(0.0);
    let low: [S::Vector; BOUND_FEATURES] = std::array::from_fn(|d| simd.splat(limits[0][d]));
    let high: [S::Vector; BOUND_FEATURES] = std::array::from_fn(|d| simd.splat(limits[1][d]));
    let mut least = simd.splat(f32::INFINITY);
    let mut least_group = zero;
    for start in (0..means.count).step_by(S::LANES) {
        let (mut near, mut far) = (zero, zero);
        for d in 0..BOUND_FEATURES {
            let mean = simd.load(&means.columns[d][start..]);
            let (below, above) = (simd.subtract(low[d], mean), simd.subtract(mean, high[d]));
            near = metric.step(simd, near, simd.max(simd.max(below, above), zero));
            far = metric.step(simd, far, simd.min(below, above));
        }
        simd.store(near, &mut bounds[start..]);
        least_group = simd.select_less(far, least, simd.splat(start as f32), least_group);
        least = simd.min(far, least);
    }
    let (mut values, mut groups) = ([f32::INFINITY; BLOCK], [0.0; BLOCK]);
    simd.store(least, &mut values);
    simd.store(least_group, &mut groups);
    let lane = (1..S::LANES).fold(0, |best, lane| if values[lane] < values[best] { lane } else { best });
    groups[lane] as usize + lane
}

/// The nearest mean of each sample of a block, given lower bounds and any mean to start from.
#[inline(always)]
fn nearest_means<S: Simd, M: Metric>(
    simd: S,
    metric: M,
    block: &[[f32; BLOCK]; FEATURES],
    means: &Means,
    bounds: &[f32],
    first: usize,
) -> [f32; BLOCK] {
    // With LANES = 16 only the first of two vectors is used.
    let vectors = BLOCK / S::LANES;
    let distances = |mean: usize| {
        let mut sums = [simd.splat(0.0); 2];
        for (column, block) in means.columns.iter().zip(block) {
            let mean = simd.splat(column[mean]);
            for v in 0..vectors {
                let x = simd.load(&block[v * S::LANES..]);
                sums[v] = metric.step(simd, sums[v], simd.subtract(mean, x));
            }
        }
        sums
    };
    // The limit is a distance that each sample is known to reach; only the running best decides.
    let mut limit = distances(first);
    let mut best = [simd.splat(f32::INFINITY); 2];
    let mut nearest = [simd.splat(0.0); 2];
    let mut limits = [0.0; BLOCK];
    (0..vectors).for_each(|v| simd.store(limit[v], &mut limits[v * S::LANES..]));
    let largest = simd.splat(limits.into_iter().fold(0.0, |a, b| if a > b { a } else { b }));
    for start in (0..means.count).step_by(S::LANES) {
        let mut candidates = simd.less_equal(simd.load(&bounds[start..]), largest);
        while candidates != 0 {
            let mean = start + candidates.trailing_zeros() as usize;
            candidates &= candidates - 1;
            let bound = simd.splat(bounds[mean]);
            if (0..vectors).all(|v| simd.less_equal(bound, limit[v]) == 0) {
                continue;
            }
            let found = distances(mean);
            let index = simd.splat(mean as f32);
            for v in 0..vectors {
                nearest[v] = simd.select_less(found[v], best[v], index, nearest[v]);
                best[v] = simd.min(found[v], best[v]);
                limit[v] = simd.min(found[v], limit[v]);
            }
        }
    }
    let mut indices = [0.0; BLOCK];
    (0..vectors).for_each(|v| simd.store(nearest[v], &mut indices[v * S::LANES..]));
    indices
}

/// Flags each mean that has no later mean nearer than `threshold`.
pub(super) struct Join<'a, M> {
    pub(super) metric: M,
    pub(super) means: &'a Means,
    pub(super) threshold: f32,
    pub(super) kept: &'a mut Vec<bool>,
}

impl<M: Metric> Task for Join<'_, M> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { metric, means, kept, .. } = self;
        let threshold = simd.splat(self.threshold);
        kept.clear();
        for i in 0..means.count {
            let mean: [S::Vector; FEATURES] = std::array::from_fn(|d| simd.splat(means.columns[d][i]));
            let step = |sum, d: usize, start: usize| {
                metric.step(simd, sum, simd.subtract(mean[d], simd.load(&means.columns[d][start..])))
            };
            // Each step keeps or raises the sum, so most groups are out after the plane.
            let near = (i + 1..means.count).step_by(S::LANES).any(|start| {
                let plane = (0..2).fold(simd.splat(0.0), |sum, d| step(sum, d, start));
                simd.less(plane, threshold) != 0 && {
                    let whole = (2..FEATURES).fold(plane, |sum, d| step(sum, d, start));
                    simd.less(whole, threshold) != 0
                }
            });
            kept.push(!near);
        }
    }
}
