//! The samples of a measurement, and their covariance.

use boxwork_kernels::chance::Random;
use boxwork_kernels::covariance::Points;
use boxwork_kernels::gaussian_process::{Jitter, Precision, Settings};

/// Numbers of a point.
pub(super) const DIMENSIONS: usize = 4;
/// The covariance of both sides.
pub(super) const COVARIANCE: &str = "1.5 * rbf(l=[0.9, 1, 1.1, 1.2]) + white(0.1)";
/// The covariance from which both sides look for the greatest likelihood.
pub(super) const START: &str = "1 * rbf(l=[1, 1, 1, 1]) + white(0.1)";

/// Samples, and points to predict, row after row.
pub(super) struct World {
    pub(super) x: Vec<f64>,
    pub(super) y: Vec<f64>,
    pub(super) new: Vec<f64>,
}

impl World {
    pub(super) fn new(samples: usize, new: usize) -> Self {
        let mut random = Random::mixed(1);
        let mut places =
            |count: usize| -> Vec<f64> { (0..count * DIMENSIONS).map(|_| 4.0 * random.unit()).collect() };
        let (x, new) = (places(samples), places(new));
        let target = |point: &[f64]| point.iter().map(|x| x.sin()).sum::<f64>() + 0.3 * random.normal();
        let y = x.chunks_exact(DIMENSIONS).map(target).collect();
        Self { x, y, new }
    }

    /// The first samples.
    pub(super) fn points(&self, count: usize) -> Points {
        Points::of_rows(DIMENSIONS, &self.x[..count * DIMENSIONS])
    }
}

/// Settings without more than the covariance.
pub(super) fn settings(covariance: &str) -> Settings {
    let expression = covariance.parse().unwrap_or_else(|error| panic!("{error}"));
    Settings { expression, noise: 0.0, jitter: Jitter::None, normalize: false, precision: Precision::F64 }
}
