//! The sampling points: drawn once from a named generator, and the same for every image of a store.
//!
//! The generator is SplitMix64 (Steele, Lea and Flood 2014). The points are in (0, 1)^2 and always shuffled,
//! since the first ones seed the clusters.

use crate::elementary::ln;

/// How the sampling points lie in the image.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum PointDistribution {
    /// Normal about the middle with this standard deviation per axis, in image sides; what falls outside is drawn again.
    Gaussian {
        /// Standard deviation as a share of the image's side, 0.01 to 10.
        sigma: f64,
    },
    /// Every place equally likely.
    Uniform,
    /// The middles of the smallest square grid with enough cells, in shuffled order; what is too many is left out.
    Grid,
}

/// SplitMix64: one addition and a mixing of 64 bits per number.
struct SplitMix64(u64);

impl SplitMix64 {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform in (0, 1), on the middles of 2^23 cells: never 0 or 1, and exact in an `f32`.
    fn unit(&mut self) -> f64 {
        ((self.next() >> 41) as f64 + 0.5) / (1 << 23) as f64
    }

    fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }

    /// Two independent standard normals: Box-Muller in its polar form, which needs no sine or cosine.
    fn normals(&mut self) -> [f64; 2] {
        loop {
            let (u, v) = (2.0 * self.unit() - 1.0, 2.0 * self.unit() - 1.0);
            let s = u * u + v * v;
            if s > 0.0 && s < 1.0 {
                let scale = (-2.0 * ln(s) / s).sqrt();
                return [u * scale, v * scale];
            }
        }
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}

/// `count` points of (0, 1)^2, the same for the same arguments on every machine.
pub(super) fn draw(count: usize, distribution: PointDistribution, seed: u64) -> Vec<[f32; 2]> {
    let mut generator = SplitMix64(seed);
    let mut points: Vec<[f32; 2]> = match distribution {
        PointDistribution::Gaussian { sigma } => {
            std::iter::repeat_with(|| generator.normals().map(|normal| (0.5 + sigma * normal) as f32))
                .filter(|point| point.iter().all(|&s| s > 0.0 && s < 1.0))
                .take(count)
                .collect()
        }
        PointDistribution::Uniform => {
            std::iter::repeat_with(|| [generator.unit() as f32, generator.unit() as f32])
                .take(count)
                .collect()
        }
        PointDistribution::Grid => {
            let side = (1..).find(|side| side * side >= count).unwrap_or(1);
            let middle = |cell: usize| ((cell as f64 + 0.5) / side as f64) as f32;
            (0..side * side).map(|cell| [middle(cell % side), middle(cell / side)]).collect()
        }
    };
    generator.shuffle(&mut points);
    points.truncate(count);
    points
}

/// The pixel of a point: s (side - 1), halves away from zero.
pub(super) fn pixel(s: f32, side: usize) -> usize {
    (f64::from(s) * (side - 1) as f64 + 0.5) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_is_split_mix_64() {
        let mut generator = SplitMix64(1_234_567);
        let numbers: Vec<u64> = (0..3).map(|_| generator.next()).collect();
        assert_eq!(
            numbers,
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
    }

    #[test]
    fn every_distribution_fills_the_open_square() {
        for distribution in
            [PointDistribution::Gaussian { sigma: 0.2 }, PointDistribution::Uniform, PointDistribution::Grid]
        {
            for count in [1, 2, 97, 2500] {
                let points = draw(count, distribution, 7);
                assert_eq!(points.len(), count);
                assert!(points.iter().flatten().all(|&s| s > 0.0 && s < 1.0));
                assert_eq!(points, draw(count, distribution, 7));
            }
        }
    }

    #[test]
    fn gaussian_points_have_the_stated_spread() {
        let points = draw(50_000, PointDistribution::Gaussian { sigma: 0.1 }, 1);
        let mean = points.iter().map(|p| f64::from(p[0])).sum::<f64>() / 50_000.0;
        let variance = points.iter().map(|p| (f64::from(p[0]) - mean).powi(2)).sum::<f64>() / 50_000.0;
        assert!((mean - 0.5).abs() < 0.002 && (variance.sqrt() - 0.1).abs() < 0.002, "{mean} {variance}");
    }

    #[test]
    fn pixels_stay_inside() {
        assert_eq!(pixel(0.999_999_94, 150), 149);
        assert_eq!(pixel(1e-9, 150), 0);
        assert_eq!(pixel(0.5, 2), 1);
        assert_eq!(pixel(0.5, 1), 0);
    }
}
