//! The extraction as the specification defines it, step by step and without tricks.
//!
//! The fast path must agree with it in every bit, and tests compare them.

use super::colour;
use super::parameters::{ExtractParameters, GroundDistance};
use super::points;
use super::texture::{EntropyTable, Window};
use super::transform::{self, FEATURES};
use super::{ImageRef, ParameterError, Signature};

type Point = [f32; FEATURES];

/// The signature of `image`, as [`Extractor::extract`](super::Extractor::extract) gives it, but slowly.
///
/// # Errors
///
/// The first parameter outside its range.
pub fn extract(parameters: &ExtractParameters, image: ImageRef<'_>) -> Result<Signature, ParameterError> {
    parameters.validate()?;
    let points = points::draw(parameters.points_count as usize, parameters.distribution, parameters.seed);
    let table = EntropyTable::new(parameters.window_radius as usize);
    let samples: Vec<[i32; FEATURES]> = points
        .iter()
        .map(|&[sx, sy]| {
            let (x, y) = (points::pixel(sx, image.width()), points::pixel(sy, image.height()));
            let [l, a, b] = colour::lab(colour::xyz(image.pixel(x, y)));
            let [contrast, entropy] = texture(parameters, &table, image, x, y);
            let (x, y) = (x as f64 / image.width() as f64, y as f64 / image.height() as f64);
            parameters.transform.apply([x, y, l, a, b, contrast, entropy])
        })
        .collect();
    Ok(cluster(parameters, &samples))
}

/// Contrast and entropy about a pixel, from the whole co-occurrence matrix.
fn texture(
    parameters: &ExtractParameters,
    table: &EntropyTable,
    image: ImageRef<'_>,
    x: usize,
    y: usize,
) -> [f64; 2] {
    let window = Window::about(x, y, parameters.window_radius as usize, image.width(), image.height());
    let levels = usize::from(parameters.grey_max) + 1;
    let grey = |x, y| usize::from(colour::grey(image.pixel(x, y), parameters.grey_max));
    let mut matrix = vec![0_usize; levels * levels];
    for y in window.top..window.bottom {
        for x in window.left..window.right {
            let pairs = [
                (grey(x, y), grey(x + 1, y)),
                (grey(x, y), grey(x, y + 1)),
                (grey(x, y), grey(x + 1, y + 1)),
                (grey(x + 1, y), grey(x, y + 1)),
            ];
            for (i, j) in pairs {
                matrix[i.max(j) * levels + i.min(j)] += 1;
            }
        }
    }
    let (mut squares, mut terms) = (0, 0);
    for i in 0..levels {
        for j in 0..=i {
            squares += (i - j) * (i - j) * matrix[i * levels + j];
            terms += table.term(matrix[i * levels + j]);
        }
    }
    table.features(window.pairs_count(), squares as u32, terms)
}

/// The distance in its fixed order; for L2 its square.
fn distance(metric: GroundDistance, x: &Point, m: &Point) -> f32 {
    x.iter().zip(m).fold(0.0, |sum, (x, m)| {
        let t = x - m;
        match metric {
            GroundDistance::L1 => sum + t.abs(),
            GroundDistance::L2 => t.mul_add(t, sum),
            GroundDistance::LInf => sum.max(t.abs()),
        }
    })
}

/// Two means are joined if their [`distance`] is below this.
pub(super) fn join_threshold(parameters: &ExtractParameters) -> f32 {
    match parameters.distance {
        GroundDistance::L2 => parameters.join_distance * parameters.join_distance,
        GroundDistance::L1 | GroundDistance::LInf => parameters.join_distance,
    }
}

/// Algorithm 5.2 over fixed-point samples in the order of the point set; the steps are numbered as in the specification.
pub(super) fn cluster(parameters: &ExtractParameters, samples: &[[i32; FEATURES]]) -> Signature {
    let metric = parameters.distance;
    let points: Vec<Point> = samples.iter().map(|sample| sample.map(transform::coordinate)).collect();
    let join = |means: &mut Vec<(Point, u32)>| {
        let near =
            |i: usize, j: usize| distance(metric, &means[i].0, &means[j].0) < join_threshold(parameters);
        let kept = (0..means.len()).filter(|&i| !(i + 1..means.len()).any(|j| near(i, j)));
        *means = kept.map(|i| means[i]).collect();
    };
    // 1 and 2
    let mut means: Vec<(Point, u32)> =
        points.iter().take(parameters.seeds_count as usize).map(|&point| (point, 1)).collect();
    join(&mut means);
    // 3
    for iteration in 1..=parameters.iterations_count {
        // 4 and 5
        let mut sums = vec![([0_i64; FEATURES], 0_u32); means.len()];
        for (sample, point) in samples.iter().zip(&points) {
            let mut nearest = (f32::INFINITY, 0);
            for (i, (mean, _)) in means.iter().enumerate() {
                let distance = distance(metric, point, mean);
                if distance < nearest.0 {
                    nearest = (distance, i);
                }
            }
            let (sum, weight) = &mut sums[nearest.1];
            (0..FEATURES).for_each(|d| sum[d] += i64::from(sample[d]));
            *weight += 1;
        }
        // 6 and 7
        let weight_min = u64::from(parameters.cluster_weight_min) * u64::from(iteration);
        means = sums
            .iter()
            .filter(|(_, weight)| *weight > 0 && u64::from(*weight) >= weight_min)
            .map(|&(sum, weight)| (sum.map(|sum| transform::mean(sum, weight)), weight))
            .collect();
        // 8
        if means.is_empty() {
            let total = |d: usize| samples.iter().map(|sample| i64::from(sample[d])).sum();
            let mean = std::array::from_fn(|d| transform::mean(total(d), samples.len() as u32));
            return Signature::from_means(&[(mean, 1)]);
        }
        // 9
        join(&mut means);
    }
    // 10 and 11
    keep_heaviest(&mut means, parameters.centroids_count_max as usize);
    Signature::from_means(&means)
}

/// Keeps the `count` heaviest means in their old order. Among equally heavy means it keeps the earlier.
pub(super) fn keep_heaviest(means: &mut Vec<(Point, u32)>, count: usize) {
    let mut order: Vec<usize> = (0..means.len()).collect();
    order.sort_by_key(|&i| (std::cmp::Reverse(means[i].1), i));
    order.truncate(count);
    order.sort_unstable();
    *means = order.iter().map(|&i| means[i]).collect();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extract::Preset;

    fn sample(x: f64, y: f64) -> [i32; FEATURES] {
        Preset::PRACTICAL.transform().apply([x / 8.0, y / 8.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    }

    fn check(
        change: impl FnOnce(&mut ExtractParameters),
        samples: &[[i32; FEATURES]],
        expected: &[[f32; 3]],
    ) {
        let mut parameters = ExtractParameters { cluster_weight_min: 0, ..Preset::PRACTICAL.parameters() };
        change(&mut parameters);
        let signature = cluster(&parameters, samples);
        let found: Vec<[f32; 3]> = (0..signature.weights.len())
            .map(|i| [signature.centroids[0][i], signature.centroids[1][i], signature.weights[i]])
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn two_far_groups_become_two_centroids() {
        let samples = [sample(1.0, 1.0), sample(5.0, 5.0), sample(1.125, 1.0), sample(5.0, 5.125)];
        // Joining keeps the later of two near seeds: the third and fourth sample, so left before right.
        check(|_| (), &samples, &[[1.0625, 1.0, 0.5], [5.0, 5.0625, 0.5]]);
    }

    #[test]
    fn a_tie_goes_to_the_lower_index() {
        let samples = [sample(1.0, 0.0), sample(3.0, 0.0), sample(2.0, 0.0)];
        check(
            |p| (p.seeds_count, p.iterations_count) = (2, 1),
            &samples,
            &[[1.5, 0.0, 2.0 / 3.0], [3.0, 0.0, 1.0 / 3.0]],
        );
    }

    #[test]
    fn joining_is_strict_and_drops_the_earlier() {
        let samples = [sample(1.0, 0.0), sample(1.5, 0.0), sample(1.75, 0.0)];
        check(
            |p| (p.join_distance, p.iterations_count) = (0.25, 1),
            &samples,
            &[[1.0, 0.0, 1.0 / 3.0], [1.5, 0.0, 1.0 / 3.0], [1.75, 0.0, 1.0 / 3.0]],
        );
        check(
            |p| (p.join_distance, p.iterations_count) = (0.3, 1),
            &samples,
            &[[1.0, 0.0, 1.0 / 3.0], [1.625, 0.0, 2.0 / 3.0]],
        );
    }

    #[test]
    fn no_cluster_left_gives_the_mean_of_all() {
        let samples = [sample(1.0, 0.0), sample(3.0, 2.0)];
        check(|p| p.cluster_weight_min = 2, &samples, &[[2.0, 1.0, 1.0]]);
    }

    #[test]
    fn the_cap_keeps_the_heaviest_in_order() {
        let samples =
            [sample(1.0, 0.0), sample(3.0, 0.0), sample(5.0, 0.0), sample(5.0, 0.0), sample(7.0, 0.0)];
        check(
            |p| (p.centroids_count_max, p.iterations_count) = (2, 1),
            &samples,
            &[[1.0, 0.0, 1.0 / 3.0], [5.0, 0.0, 2.0 / 3.0]],
        );
    }

    #[test]
    fn texture_of_hand_made_windows() {
        let parameters = ExtractParameters { grey_max: 1, window_radius: 1, ..ExtractParameters::default() };
        let check = |grey: &[u8], width: usize, x: usize, y: usize, contrast: f64, entropy: f64| {
            let rgb: Vec<u8> = grey.iter().flat_map(|&g| [g * 255; 3]).collect();
            let image = ImageRef::new(width, grey.len() / width, &rgb).expect("sizes agree");
            let found = texture(&parameters, &EntropyTable::new(1), image, x, y);
            assert!((found[0] - contrast).abs() < 1e-12 && (found[1] - entropy).abs() < 1e-9, "{found:?}");
        };
        check(&[1; 9], 3, 1, 1, 0.0, 0.0);
        check(&[1, 0, 1], 3, 1, 0, 0.0, 0.0);
        // A single sub-window 0 1 / 1 1: three pairs differ less one: 01, 01, 01, 11.
        check(&[0, 1, 1, 1], 2, 0, 0, 0.75, -(0.75 * 0.75_f64.ln() + 0.25 * 0.25_f64.ln()));
        // A chessboard: straight pairs differ, diagonal pairs are 00 or 11.
        check(&[0, 1, 0, 1, 0, 1, 0, 1, 0], 3, 1, 1, 0.5, 0.5 * 2_f64.ln() + 0.5 * 4_f64.ln());
        // Cut at a corner: only the upper left sub-window of the chessboard.
        check(&[0, 1, 0, 1, 0, 1, 0, 1, 0], 3, 0, 0, 0.5, 0.5 * 2_f64.ln() + 0.5 * 4_f64.ln());
    }
}
