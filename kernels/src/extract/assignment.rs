//! The nearest mean of every sample, exactly, without looking at most means.
//!
//! A distance is a chain of roundings that each keep order: |x - m| rounded grows with |x - m|, and a sum rounded
//! grows with its parts. So the same chain over the gap between a mean and a block's box is a lower bound of the
//! *rounded* distance of every sample in the block, with no margin; and stopping after some of the coordinates
//! gives a smaller bound still. A mean whose bound exceeds a sample's distance to some other mean cannot be its
//! nearest, nor tie with it. The means that remain are tried in ascending order and replace only when strictly
//! nearer: ties stay with the lower index, as the specification wants.
#![allow(
    clippy::needless_range_loop,
    reason = "closures over vectors may miss the instruction set, see lanes.rs"
)]

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

/// The means in two layouts: in rows, to compare one mean with many samples, and in groups, to compare many means with one
/// box. Infinities, which are near nothing, fill the last group.
#[derive(Debug, Default)]
pub(super) struct Means {
    rows: Vec<[f32; FEATURES]>,
    groups: Vec<[[f32; BLOCK]; FEATURES]>,
}

impl Means {
    pub(super) fn rows(&self) -> &[[f32; FEATURES]] {
        &self.rows
    }

    /// Lower bounds that an assignment needs space for.
    pub(super) fn groups_count(&self) -> usize {
        self.groups.len()
    }

    /// Replaces all means.
    pub(super) fn fill(&mut self, means: impl Iterator<Item = [f32; FEATURES]>) {
        self.rows.clear();
        self.rows.extend(means);
        self.group();
    }

    /// Drops the means whose flag is false, and keeps the order of the others.
    pub(super) fn retain(&mut self, kept: &[bool]) {
        let mut flags = kept.iter();
        self.rows.retain(|_| *flags.next().unwrap_or(&false));
        self.group();
    }

    fn group(&mut self) {
        self.groups.clear();
        self.groups.extend(self.rows.chunks(BLOCK).map(|rows| {
            let mut group = [[f32::INFINITY; BLOCK]; FEATURES];
            for (i, row) in rows.iter().enumerate() {
                (0..FEATURES).for_each(|d| group[d][i] = row[d]);
            }
            group
        }));
    }
}

/// Adds every sample to the sum of its nearest mean.
pub(super) struct Assign<'a, M> {
    pub(super) metric: M,
    pub(super) samples: &'a Samples,
    pub(super) means: &'a Means,
    /// One per mean, all zeros; like the samples' totals.
    pub(super) sums: &'a mut [[i64; FEATURES + 1]],
    /// Scratch: a lower bound for each mean, by group.
    pub(super) bounds: &'a mut [[f32; BLOCK]],
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
                for d in 0..=FEATURES {
                    sum[d] += total[d];
                }
            }
        }
    }
}

/// Coordinates that the bound of a box uses. Most of the distance is in the plane.
const BOUND_FEATURES: usize = 2;

/// Fills `bounds` with a lower bound of the distance from each mean to any sample in the box. Returns a mean that is near the
/// whole box.
#[inline(always)]
fn lower_bounds<S: Simd, M: Metric>(
    simd: S,
    metric: M,
    limits: &[[f32; FEATURES]; 2],
    means: &Means,
    bounds: &mut [[f32; BLOCK]],
) -> usize {
    let zero = simd.splat(0.0);
    let low: [S::Vector; BOUND_FEATURES] = std::array::from_fn(|d| simd.splat(limits[0][d]));
    let high: [S::Vector; BOUND_FEATURES] = std::array::from_fn(|d| simd.splat(limits[1][d]));
    let mut least = simd.splat(f32::INFINITY);
    let mut least_start = zero;
    let mut start = 0.0;
    for (group, bounds) in means.groups.iter().zip(bounds) {
        for v in 0..BLOCK / S::LANES {
            let (mut near, mut far) = (zero, zero);
            for d in 0..BOUND_FEATURES {
                let mean = simd.load(&group[d][v * S::LANES..]);
                let (below, above) = (simd.subtract(low[d], mean), simd.subtract(mean, high[d]));
                near = metric.step(simd, near, simd.max(simd.max(below, above), zero));
                far = metric.step(simd, far, simd.min(below, above));
            }
            simd.store(near, &mut bounds[v * S::LANES..]);
            least_start = simd.select_less(far, least, simd.splat(start), least_start);
            least = simd.min(far, least);
            start += S::LANES as f32;
        }
    }
    let (mut values, mut starts) = ([f32::INFINITY; BLOCK], [0.0; BLOCK]);
    simd.store(least, &mut values);
    simd.store(least_start, &mut starts);
    let lane = (1..S::LANES).fold(0, |best, lane| if values[lane] < values[best] { lane } else { best });
    starts[lane] as usize + lane
}

/// The nearest mean of each sample of a block, given lower bounds and any mean to start from.
#[inline(always)]
fn nearest_means<S: Simd, M: Metric>(
    simd: S,
    metric: M,
    block: &[[f32; BLOCK]; FEATURES],
    means: &Means,
    bounds: &[[f32; BLOCK]],
    first: usize,
) -> [f32; BLOCK] {
    // With LANES = 16 only the first of two vectors is used.
    let vectors = BLOCK / S::LANES;
    // The limit is a distance at which each sample has a mean. Only the best mean so far decides.
    let mut limit = distances(simd, metric, block, &means.rows[first]);
    let mut best = [simd.splat(f32::INFINITY); 2];
    let mut nearest = [simd.splat(0.0); 2];
    let mut limits = [0.0; BLOCK];
    for v in 0..vectors {
        simd.store(limit[v], &mut limits[v * S::LANES..]);
    }
    let largest = simd.splat(limits.into_iter().fold(0.0, |a, b| if a > b { a } else { b }));
    for (start, bounds) in (0..).step_by(BLOCK).zip(bounds) {
        let mut candidates = 0;
        for v in 0..vectors {
            candidates |= simd.less_equal(simd.load(&bounds[v * S::LANES..]), largest) << (v * S::LANES);
        }
        while candidates != 0 {
            let lane = candidates.trailing_zeros() as usize;
            candidates &= candidates - 1;
            let bound = simd.splat(bounds[lane % BLOCK]);
            let mut reached = 0;
            for limit in &limit[..vectors] {
                reached |= simd.less_equal(bound, *limit);
            }
            if reached == 0 {
                continue;
            }
            let found = distances(simd, metric, block, &means.rows[start + lane]);
            let index = simd.splat((start + lane) as f32);
            for v in 0..vectors {
                nearest[v] = simd.select_less(found[v], best[v], index, nearest[v]);
                best[v] = simd.min(found[v], best[v]);
                limit[v] = simd.min(found[v], limit[v]);
            }
        }
    }
    let mut indices = [0.0; BLOCK];
    for v in 0..vectors {
        simd.store(nearest[v], &mut indices[v * S::LANES..]);
    }
    indices
}

/// The distance of each sample of a block to one mean.
#[inline(always)]
fn distances<S: Simd, M: Metric>(
    simd: S,
    metric: M,
    block: &[[f32; BLOCK]; FEATURES],
    mean: &[f32; FEATURES],
) -> [S::Vector; 2] {
    let mut sums = [simd.splat(0.0); 2];
    for d in 0..FEATURES {
        let value = simd.splat(mean[d]);
        for v in 0..BLOCK / S::LANES {
            sums[v] = metric.step(simd, sums[v], simd.subtract(value, simd.load(&block[d][v * S::LANES..])));
        }
    }
    sums
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
        for (i, row) in means.rows.iter().enumerate() {
            // In the mean's own group, only the lanes after it count.
            let mut later = u32::MAX << (i % BLOCK) << 1;
            let mut near = false;
            for group in &means.groups[i / BLOCK..] {
                if near_lanes(simd, metric, row, group, threshold) & later != 0 {
                    near = true;
                    break;
                }
                later = u32::MAX;
            }
            kept.push(!near);
        }
    }
}

/// One bit per mean of the group, set where it is nearer to `mean` than the threshold.
#[inline(always)]
fn near_lanes<S: Simd, M: Metric>(
    simd: S,
    metric: M,
    mean: &[f32; FEATURES],
    group: &[[f32; BLOCK]; FEATURES],
    threshold: S::Vector,
) -> u32 {
    let mut sums = [simd.splat(0.0); 2];
    let mut lanes = 0;
    for d in 0..FEATURES {
        let value = simd.splat(mean[d]);
        lanes = 0;
        for v in 0..BLOCK / S::LANES {
            let other = simd.load(&group[d][v * S::LANES..]);
            sums[v] = metric.step(simd, sums[v], simd.subtract(value, other));
            lanes |= simd.less(sums[v], threshold) << (v * S::LANES);
        }
        // Each step keeps or raises the sum, so most groups are out after the plane.
        if d == 1 && lanes == 0 {
            return 0;
        }
    }
    lanes
}
