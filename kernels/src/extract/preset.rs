//! The presets of an extraction: the only table of usual settings. A preset decides every setting that a user does not
//! give, and the alpha of searches, since the values were chosen together.

use super::parameters::{ExtractParameters, GroundDistance};
use super::points::PointDistribution;
use super::transform::{FEATURES, FeatureTransform};

/// Settings of an extraction that belong together, and the alpha that suits their signatures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Preset {
    /// The name.
    pub name: &'static str,
    /// Factors of x, y, L, a, b, contrast and entropy.
    pub multiplier: [f64; FEATURES],
    /// Standard deviation of the gaussian points, in image sides.
    pub sigma: f64,
    /// Sampling points per image.
    pub points_count: u32,
    /// Samples that seed the clusters.
    pub seeds_count: u32,
    /// Grey levels that texture distinguishes.
    pub grey_levels: u32,
    /// A cluster must hold this many samples times the round's number.
    pub cluster_weight_min: u32,
    /// Rounds of clustering.
    pub iterations_count: u32,
    /// The steepness of the gaussian similarity over l2, for searches of these signatures.
    pub alpha: f64,
}

impl Preset {
    /// The default: a good order of photographs for short signatures, chosen by cross-validation (decision 059).
    pub const BALANCED: Self = Self {
        name: "balanced",
        multiplier: [1.0, 1.0, 0.01, 0.02, 0.02, 0.04, 0.85],
        sigma: 0.375,
        points_count: 1500,
        seeds_count: 200,
        grey_levels: 24,
        cluster_weight_min: 3,
        iterations_count: 15,
        alpha: 1.28,
    };

    /// The weights that index best in the thesis, with its usual settings.
    pub const PRACTICAL: Self = Self {
        name: "practical",
        multiplier: [8.0, 8.0, 0.01, 0.02, 0.02, 0.04, 0.25],
        sigma: 0.2,
        points_count: 2500,
        seeds_count: 400,
        grey_levels: 16,
        cluster_weight_min: 2,
        iterations_count: 10,
        alpha: 0.2,
    };

    /// The weights with the best precision in the thesis, with its usual settings.
    pub const BEST: Self =
        Self { name: "best", multiplier: [8.0, 8.0, 0.02, 0.02, 0.02, 0.08, 0.5], ..Self::PRACTICAL };

    /// Every preset; the first is the default.
    pub const ALL: [Self; 3] = [Self::BALANCED, Self::PRACTICAL, Self::BEST];

    /// The names of [`Preset::ALL`].
    pub const NAMES: [&'static str; 3] = [Self::ALL[0].name, Self::ALL[1].name, Self::ALL[2].name];

    /// The preset of a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|preset| preset.name == name)
    }

    /// The scaling of the feature space.
    pub const fn transform(&self) -> FeatureTransform {
        FeatureTransform::scaling(self.multiplier)
    }

    /// The parameters of the extraction. Settings that are equal in all presets are here.
    pub const fn parameters(&self) -> ExtractParameters {
        ExtractParameters {
            points_count: self.points_count,
            distribution: PointDistribution::Gaussian { sigma: self.sigma },
            seed: 1,
            grey_max: (self.grey_levels - 1) as u8,
            window_radius: 3,
            transform: self.transform(),
            seeds_count: self.seeds_count,
            iterations_count: self.iterations_count,
            cluster_weight_min: self.cluster_weight_min,
            join_distance: 0.2,
            centroids_count_max: 768,
            distance: GroundDistance::L2,
        }
    }
}

impl Default for ExtractParameters {
    fn default() -> Self {
        Preset::ALL[0].parameters()
    }
}

// `grey_max` is a byte.
const _: () = {
    let mut idx = 0;
    while idx < Preset::ALL.len() {
        assert!(2 <= Preset::ALL[idx].grey_levels && Preset::ALL[idx].grey_levels <= 256);
        idx += 1;
    }
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_is_sound_and_found_by_its_name() {
        for (preset, name) in Preset::ALL.into_iter().zip(Preset::NAMES) {
            assert_eq!(preset.parameters().validate(), Ok(()), "{name}");
            assert_eq!((Preset::named(name), preset.name), (Some(preset), name));
            assert!(preset.alpha > 0.0);
        }
        assert_eq!(Preset::named("Balanced"), None);
        assert_eq!(ExtractParameters::default(), Preset::ALL[0].parameters());
    }

    /// Stores that were extracted before there was a third preset have these parameters.
    #[test]
    fn the_former_presets_keep_their_values() {
        let practical = ExtractParameters {
            points_count: 2500,
            distribution: PointDistribution::Gaussian { sigma: 0.2 },
            seed: 1,
            grey_max: 15,
            window_radius: 3,
            transform: FeatureTransform::scaling([8.0, 8.0, 0.01, 0.02, 0.02, 0.04, 0.25]),
            seeds_count: 400,
            iterations_count: 10,
            cluster_weight_min: 2,
            join_distance: 0.2,
            centroids_count_max: 768,
            distance: GroundDistance::L2,
        };
        assert_eq!(Preset::PRACTICAL.parameters(), practical);
        let transform = FeatureTransform::scaling([8.0, 8.0, 0.02, 0.02, 0.02, 0.08, 0.5]);
        assert_eq!(Preset::BEST.parameters(), ExtractParameters { transform, ..practical });
        assert_eq!([Preset::PRACTICAL.alpha, Preset::BEST.alpha], [0.2; 2]);
    }
}
