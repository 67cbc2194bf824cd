//! Adaptive k-means over the samples of an image (Algorithm 5.2), with its scratch space.

use super::Signature;
use super::assignment::{Assign, Join, L1, L2, LInf, Means, Metric};
use super::lanes::Simd;
use super::parameters::{ExtractParameters, GroundDistance};
use super::reference::{join_threshold, keep_heaviest};
use super::sampling::Samples;
use super::sites::BLOCK;
use super::transform::{FEATURES, mean};

/// Scratch space for clustering one image after the other.
#[derive(Debug, Default)]
pub(super) struct Clustering {
    means: Means,
    weights: Vec<u32>,
    sums: Vec<[i64; FEATURES + 1]>,
    bounds: Vec<[f32; BLOCK]>,
    kept: Vec<bool>,
}

impl Clustering {
    /// The signature of `samples`, of which `seeds` are the sites of the first points.
    pub(super) fn compute<S: Simd>(
        &mut self,
        simd: S,
        parameters: &ExtractParameters,
        samples: &Samples,
        seeds: &[u32],
    ) -> Signature {
        match parameters.distance {
            GroundDistance::L1 => self.compute_by(simd, L1, parameters, samples, seeds),
            GroundDistance::L2 => self.compute_by(simd, L2, parameters, samples, seeds),
            GroundDistance::LInf => self.compute_by(simd, LInf, parameters, samples, seeds),
        }
    }

    fn compute_by<S: Simd, M: Metric>(
        &mut self,
        simd: S,
        metric: M,
        parameters: &ExtractParameters,
        samples: &Samples,
        seeds: &[u32],
    ) -> Signature {
        let threshold = join_threshold(parameters);
        self.means.fill(seeds.iter().map(|&site| samples.point(site as usize)));
        self.weights.clear();
        self.weights.resize(seeds.len(), 1);
        self.join(simd, metric, threshold);
        for iteration in 1..=parameters.iterations_count {
            self.assign(simd, metric, samples);
            let weight_min = u64::from(parameters.cluster_weight_min) * u64::from(iteration);
            self.sums.retain(|sum| sum[FEATURES] > 0 && sum[FEATURES] as u64 >= weight_min);
            if self.sums.is_empty() {
                return mean_of_all(samples);
            }
            self.weights.clear();
            self.weights.extend(self.sums.iter().map(|sum| sum[FEATURES] as u32));
            self.means.fill(self.sums.iter().map(mean_of));
            self.join(simd, metric, threshold);
        }
        let mut means: Vec<_> = self.means.rows().iter().copied().zip(self.weights.iter().copied()).collect();
        keep_heaviest(&mut means, parameters.centroids_count_max as usize);
        Signature::from_means(&means)
    }

    fn assign<S: Simd, M: Metric>(&mut self, simd: S, metric: M, samples: &Samples) {
        let Self { means, sums, bounds, .. } = self;
        sums.clear();
        sums.resize(means.rows().len(), [0; FEATURES + 1]);
        bounds.resize(means.groups_count(), [0.0; BLOCK]);
        simd.vectorize(Assign { metric, samples, means, sums, bounds });
    }

    fn join<S: Simd, M: Metric>(&mut self, simd: S, metric: M, threshold: f32) {
        let Self { means, weights, kept, .. } = self;
        simd.vectorize(Join { metric, means, threshold, kept });
        let mut flags = kept.iter();
        weights.retain(|_| *flags.next().unwrap_or(&false));
        means.retain(kept);
    }
}

fn mean_of(sum: &[i64; FEATURES + 1]) -> [f32; FEATURES] {
    std::array::from_fn(|d| mean(sum[d], sum[FEATURES] as u32))
}

/// The signature if no cluster is heavy enough: one centroid.
fn mean_of_all(samples: &Samples) -> Signature {
    let total = samples.totals.iter().fold([0; FEATURES + 1], |mut sum, total| {
        (0..=FEATURES).for_each(|d| sum[d] += total[d]);
        sum
    });
    Signature::from_means(&[(mean_of(&total), 1)])
}
