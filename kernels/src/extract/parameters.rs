//! The parameters of an extraction, with their ranges.
//!
//! Parameters that pass `validate` cannot fail on any image: the widest sample still fits its fixed point.

use super::points::PointDistribution;
use super::transform::{COORDINATE_MAX, FEATURES, FeatureTransform};
use crate::elementary::ln;

/// The distance that assigns samples to clusters and joins clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GroundDistance {
    /// Sum of absolute differences.
    L1,
    /// Euclidean distance.
    L2,
    /// Largest absolute difference.
    LInf,
}

/// Parameters of an extraction; `default()` is the first preset's. A [preset](super::Preset) decides what a user does not
/// give.
#[derive(Clone, Debug, PartialEq)]
pub struct ExtractParameters {
    /// Sampling points per image, 1 to 65,536.
    pub points_count: u32,
    /// How the points lie in the image.
    pub distribution: PointDistribution,
    /// Seed of the points' generator.
    pub seed: u64,
    /// Largest grey value (G_s), 1 to 255; 15 means four bits.
    pub grey_max: u8,
    /// Pixels from the middle to the border of a texture window (r_ce), 0 to 32; 0 switches texture off.
    pub window_radius: u32,
    /// Scaling of the feature space.
    pub transform: FeatureTransform,
    /// Samples that seed the clusters (k), 1 to 65,536; at most `points_count` are used.
    pub seeds_count: u32,
    /// Rounds of assignment (I_max), 1 to 1,000.
    pub iterations_count: u32,
    /// A cluster must hold this many samples times the round's number (C_min), 0 to 65,536.
    pub cluster_weight_min: u32,
    /// Means nearer than this are joined (d_min), 0 to 128.
    pub join_distance: f32,
    /// Centroids of a signature at most, the heaviest (cap), 1 to 65,536.
    pub centroids_count_max: u32,
    /// Distance of the clustering.
    pub distance: GroundDistance,
}

/// The largest coordinate of a sample: one less than the fixed-point format holds, so that rounding cannot overflow.
const REACH_MAX: f64 = COORDINATE_MAX - 1.0;

/// A parameter outside its range.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ParameterError {
    /// A number that is too small, too large or not a number.
    #[error("{name} is {value}, but must be {min} to {max}: {fix}")]
    OutOfRange {
        /// The field.
        name: &'static str,
        /// The value.
        value: f64,
        /// Smallest value accepted.
        min: f64,
        /// Largest value accepted.
        max: f64,
        /// The advice.
        fix: &'static str,
    },
    /// A scaling that would push samples out of the fixed point's range.
    #[error(
        "transform scales {feature} by {multiplier} and adds {offset}, so a sample can reach {reach:.1}, but must \
         stay below {REACH_MAX}: use a multiplier of at most {multiplier_max:.6} with no offset"
    )]
    Transform {
        /// The feature, as in the signature.
        feature: &'static str,
        /// Its factor.
        multiplier: f64,
        /// Its offset.
        offset: f64,
        /// Largest absolute value of a sample.
        reach: f64,
        /// The largest factor that fits.
        multiplier_max: f64,
    },
}

impl ExtractParameters {
    /// Checks every parameter against its range.
    ///
    /// # Errors
    ///
    /// The first parameter outside its range, with the range and what to do.
    pub fn validate(&self) -> Result<(), ParameterError> {
        let count = 65_536.0;
        in_range(
            "points_count",
            self.points_count,
            1.0,
            count,
            "a preset has a usual number, and time grows with it",
        )?;
        if let PointDistribution::Gaussian { sigma } = self.distribution {
            in_range(
                "sigma",
                sigma,
                0.01,
                10.0,
                "a preset has a usual value; for even points take the uniform distribution",
            )?;
        }
        in_range("grey_max", self.grey_max, 1.0, 255.0, "a preset has a usual number")?;
        in_range("window_radius", self.window_radius, 0.0, 32.0, "3 is usual, and 0 switches texture off")?;
        in_range("seeds_count", self.seeds_count, 1.0, count, "a preset has a usual number")?;
        in_range("iterations_count", self.iterations_count, 1.0, 1000.0, "a preset has a usual number")?;
        in_range(
            "cluster_weight_min",
            self.cluster_weight_min,
            0.0,
            count,
            "a preset has a usual number; 0 keeps all but the empty",
        )?;
        in_range("join_distance", self.join_distance, 0.0, COORDINATE_MAX, "0.2 is usual; 0 joins nothing")?;
        in_range("centroids_count_max", self.centroids_count_max, 1.0, count, "768 is usual")?;
        self.validate_transform()
    }

    fn validate_transform(&self) -> Result<(), ParameterError> {
        const NAMES: [&str; FEATURES] = ["x", "y", "L", "a", "b", "contrast", "entropy"];
        let grey = f64::from(self.grey_max);
        let entropy_max = ln((grey + 1.0) * (grey + 2.0) / 2.0);
        let largest = [1.0, 1.0, 100.0, 110.0, 110.0, grey * grey, entropy_max];
        for d in 0..FEATURES {
            let (multiplier, offset) = (self.transform.multiplier[d], self.transform.offset[d]);
            let reach = multiplier.abs() * largest[d] + offset.abs();
            if reach.is_nan() || reach > REACH_MAX {
                let multiplier_max = REACH_MAX / largest[d];
                return Err(ParameterError::Transform {
                    feature: NAMES[d],
                    multiplier,
                    offset,
                    reach,
                    multiplier_max,
                });
            }
        }
        Ok(())
    }
}

fn in_range(
    name: &'static str,
    value: impl Into<f64>,
    min: f64,
    max: f64,
    fix: &'static str,
) -> Result<(), ParameterError> {
    let value = value.into();
    if (min..=max).contains(&value) {
        Ok(())
    } else {
        Err(ParameterError::OutOfRange { name, value, min, max, fix })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(change: impl FnOnce(&mut ExtractParameters), words: &[&str]) {
        let mut parameters = ExtractParameters::default();
        change(&mut parameters);
        let message = parameters.validate().expect_err("out of range").to_string();
        assert!(words.iter().all(|word| message.contains(word)), "{message}");
    }

    #[test]
    fn refusals_name_the_parameter_its_range_and_the_fix() {
        assert_eq!(ExtractParameters::default().validate(), Ok(()));
        check(|p| p.points_count = 0, &["points_count is 0", "1 to 65536", "usual number"]);
        check(
            |p| p.distribution = PointDistribution::Gaussian { sigma: f64::NAN },
            &["sigma is NaN", "0.01 to 10"],
        );
        check(|p| p.iterations_count = 0, &["iterations_count", "1 to 1000"]);
        check(|p| p.join_distance = -1.0, &["join_distance is -1", "0 to 128"]);
        check(|p| p.window_radius = 33, &["window_radius is 33", "0 to 32"]);
        check(|p| p.grey_max = 255, &["contrast", "0.04", "at most 0.001953"]);
        check(|p| p.transform.offset[0] = f64::NAN, &["scales x"]);
    }
}
