//! Random frequencies of a sketch.

use super::{FREQUENCIES_MAX, FREQUENCIES_MIN, FREQUENCIES_STEP};
use crate::chance::Random;

/// Frequencies `w ~ N(0, 2 alpha I)`, each a vector in the dimensions of a centroid, in turns (1 is a full angle).
///
/// A seed gives the same frequencies for ever; fewer frequencies of a seed are the first of more.
#[derive(Clone, Debug, PartialEq)]
pub struct Frequencies {
    dimensions: usize,
    count: usize,
    /// Group after group of [`FREQUENCIES_STEP`] frequencies; in a group, dimension after dimension.
    numbers: Vec<f32>,
}

impl Frequencies {
    /// `count` frequencies for a Gaussian similarity with this alpha over L2.
    ///
    /// # Panics
    /// If the count is not a multiple of [`FREQUENCIES_STEP`] from [`FREQUENCIES_MIN`] to [`FREQUENCIES_MAX`], or there are
    /// no dimensions.
    pub fn new(seed: u64, alpha: f64, dimensions: usize, count: usize) -> Self {
        assert!(Self::is_count(count), "{count} frequencies");
        assert!(dimensions > 0, "centroids have dimensions");
        let mut random = Random::mixed(seed);
        let scale = (2.0 * alpha).sqrt() / std::f64::consts::TAU;
        let mut numbers = vec![0.0; count * dimensions];
        for frequency in 0..count {
            for dimension in 0..dimensions {
                let group = frequency / FREQUENCIES_STEP * dimensions * FREQUENCIES_STEP;
                numbers[group + dimension * FREQUENCIES_STEP + frequency % FREQUENCIES_STEP] =
                    (random.normal() * scale) as f32;
            }
        }
        Self { dimensions, count, numbers }
    }

    /// Whether a sketch may have so many frequencies.
    pub fn is_count(count: usize) -> bool {
        count.is_multiple_of(FREQUENCIES_STEP) && (FREQUENCIES_MIN..=FREQUENCIES_MAX).contains(&count)
    }

    /// Coordinates of a centroid.
    pub fn dimensions(&self) -> usize {
        self.dimensions
    }

    /// Number of frequencies.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Number of features: a cosine and a sine for each frequency.
    pub fn features(&self) -> usize {
        2 * self.count
    }

    /// Each frequency in turn.
    pub fn turns(&self) -> impl Iterator<Item = Vec<f32>> {
        (0..self.count).map(|frequency| {
            let group = self.group(frequency / FREQUENCIES_STEP);
            group.iter().skip(frequency % FREQUENCIES_STEP).step_by(FREQUENCIES_STEP).copied().collect()
        })
    }

    /// The numbers of a group, dimension after dimension.
    #[inline(always)]
    pub(super) fn group(&self, group: usize) -> &[f32] {
        let size = self.dimensions * FREQUENCIES_STEP;
        &self.numbers[group * size..(group + 1) * size]
    }
}
