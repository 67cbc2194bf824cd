//! The Canberra distance of vectors: the sum of `|a - b| / (|a| + |b|)`, a pair of zeros adds 0.
//!
//! Source: G. N. Lance, W. T. Williams, "Computer programs for hierarchical polythetic classification", 1966.

use boxwork_kernels::distance::{Distance, DistanceError, Lp, Properties, Slack};
use boxwork_kernels::vector::{Number, VectorRef};
use boxwork_kernels::with_numbers;

use crate::kinds::Vectors;
use crate::spaces::Constants;
use crate::spaces::column_space::{ColumnDistance, ColumnDistanceSpec};

/// Partial sums, so that vector units of any width give equal bits.
const LANES: usize = 8;

/// A distance that weighs each difference by the size of its numbers.
pub(in crate::spaces) static CANBERRA: ColumnDistanceSpec<Canberra> =
    ColumnDistanceSpec { name: "canberra", constants: Constants::None, make: |_| Ok(Canberra) };

/// The Canberra distance.
#[derive(Clone, Copy, Debug)]
pub(in crate::spaces) struct Canberra;

impl ColumnDistance for Canberra {
    type Kind = Vectors;
    type Query = Vec<f32>;

    fn properties(&self) -> Properties {
        Properties::metric("canberra")
    }

    fn slack(&self, dimensions: usize) -> Slack {
        // Three roundings for each term and one for each addition. All terms have one sign.
        Slack::roundings(dimensions as f64 + 8.0)
    }

    fn query(&self, object: VectorRef<'_>) -> Result<Vec<f32>, DistanceError> {
        let object = object.widened();
        Lp::L1.check(&object)?;
        Ok(object)
    }

    fn to(&self, query: &Vec<f32>, object: VectorRef<'_>) -> f64 {
        with_numbers!(object, numbers => sum_of(query, numbers))
    }

    fn between(&self, a: VectorRef<'_>, b: VectorRef<'_>) -> f64 {
        with_numbers!(a, a => with_numbers!(b, b => sum_of(a, b)))
    }
}

fn sum_of<A: Number, B: Number>(a: &[A], b: &[B]) -> f64 {
    assert_eq!(a.len(), b.len(), "vectors of one dimension");
    let mut sums = [0.0; LANES];
    let (a_lanes, a_rest) = a.as_chunks::<LANES>();
    let (b_lanes, b_rest) = b.as_chunks::<LANES>();
    for (a, b) in a_lanes.iter().zip(b_lanes) {
        for lane in 0..LANES {
            sums[lane] += term(a[lane].wide(), b[lane].wide());
        }
    }
    for (lane, (a, b)) in a_rest.iter().zip(b_rest).enumerate() {
        sums[lane] += term(a.wide(), b.wide());
    }
    let [a, b, c, d, e, f, g, h] = sums;
    ((a + e) + (c + g)) + ((b + f) + (d + h))
}

#[inline(always)]
fn term(a: f64, b: f64) -> f64 {
    let size = a.abs() + b.abs();
    // A pair of zeros gives 0 / 1 instead of 0 / 0.
    (a - b).abs() / if size > 0.0 { size } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use boxwork_kernels::chance::Random;

    use super::*;

    fn reference(a: &[f32], b: &[f32]) -> f64 {
        let pairs = a.iter().zip(b).map(|(a, b)| (f64::from(*a), f64::from(*b)));
        pairs.filter(|(a, b)| *a != 0.0 || *b != 0.0).map(|(a, b)| (a - b).abs() / (a.abs() + b.abs())).sum()
    }

    #[test]
    fn the_fast_path_is_the_definition_within_its_slack_and_a_metric() {
        let mut random = Random::new(7);
        for dimensions in [1, 3, 8, 13, 100] {
            let mut number = || match random.below(5) {
                0 => 0.0,
                _ => (random.below(2001) as f32 - 1000.0) / 7.0,
            };
            let objects: Vec<Vec<f32>> =
                (0..12).map(|_| (0..dimensions).map(|_| number()).collect()).collect();
            let slack = Canberra.slack(dimensions);
            let of = |a: usize, b: usize| sum_of(&objects[a], &objects[b]);
            for a in 0..12 {
                assert_eq!(of(a, a), 0.0);
                for b in 0..12 {
                    let (fast, slow) = (of(a, b), reference(&objects[a], &objects[b]));
                    assert!((fast - slow).abs() <= 2.0 * slack.relative * slow, "{fast} is not {slow}");
                    assert_eq!(fast.to_bits(), of(b, a).to_bits());
                    assert!((0..12).all(|c| slack.apart(of(a, c), of(b, c)) <= fast), "a triangle");
                }
            }
        }
        assert_eq!(sum_of(&[1.0_f32, 0.0, -2.0], &[3.0_f32, 0.0, 2.0]), 1.5);
    }
}
