//! The sampling points: drawn once from a seed, and the same for every image of a store.
//!
//! The points are in (0, 1)^2 and always shuffled, since the first ones seed the clusters.

use crate::chance::Random;
use crate::elementary::ln;

/// How the sampling points lie in the image.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum PointDistribution {
    /// Normal about the middle with this standard deviation per axis, in image sides. Points outside are drawn again.
    Gaussian {
        /// Standard deviation as a share of the image's side, 0.01 to 10.
        sigma: f64,
    },
    /// Every place equally likely.
    Uniform,
    /// The middles of the cells of the smallest square grid with enough cells, in shuffled order. Surplus cells are left out.
    Grid,
}

/// Uniform in (0, 1), on the middles of 2^23 cells: never 0 or 1, and exact in an `f32`.
fn unit(random: &mut Random) -> f64 {
    ((random.bits() >> 41) as f64 + 0.5) / (1 << 23) as f64
}

/// Two independent standard normals: Box-Muller in its polar form, which needs no sine or cosine.
fn normals(random: &mut Random) -> [f64; 2] {
    loop {
        let (u, v) = (2.0 * unit(random) - 1.0, 2.0 * unit(random) - 1.0);
        let s = u * u + v * v;
        if s > 0.0 && s < 1.0 {
            let scale = (-2.0 * ln(s) / s).sqrt();
            return [u * scale, v * scale];
        }
    }
}

/// `count` points of (0, 1)^2, the same for the same arguments on every machine.
pub(super) fn draw(count: usize, distribution: PointDistribution, seed: u64) -> Vec<[f32; 2]> {
    let mut random = Random::new(seed);
    let mut points: Vec<[f32; 2]> = match distribution {
        PointDistribution::Gaussian { sigma } => {
            std::iter::repeat_with(|| normals(&mut random).map(|normal| (0.5 + sigma * normal) as f32))
                .filter(|point| point.iter().all(|&s| s > 0.0 && s < 1.0))
                .take(count)
                .collect()
        }
        PointDistribution::Uniform => {
            std::iter::repeat_with(|| [unit(&mut random) as f32, unit(&mut random) as f32])
                .take(count)
                .collect()
        }
        PointDistribution::Grid => {
            let side = (1..).find(|side| side * side >= count).unwrap_or(1);
            let middle = |cell: usize| ((cell as f64 + 0.5) / side as f64) as f32;
            (0..side * side).map(|cell| [middle(cell % side), middle(cell / side)]).collect()
        }
    };
    random.shuffle(&mut points);
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
    fn a_seed_gives_the_points_that_stores_were_made_with() {
        let points = draw(4, PointDistribution::Uniform, 7);
        let found: Vec<[u32; 2]> =
            points.iter().map(|point| point.map(|s| (s * 16_777_216.0) as u32)).collect();
        let expected =
            [[7_590_715, 4_184_767], [7_850_949, 5_504_215], [15_112_257, 9_779_947], [6_540_257, 281_661]];
        assert_eq!(found, expected);
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
