//! The earth mover's distance of signatures: the least work that moves the weights of one onto those of the other.
//!
//! It is a metric when the ground distance is one and all signatures have one sum of weights (Y. Rubner, C. Tomasi,
//! L. J. Guibas, "The earth mover's distance as a metric for image retrieval", IJCV 40(2), 2000, appendix A). Both are
//! enforced: the ground distance is an [`Lp`], and [`Emd::check`] refuses sums other than 1. f32 weights sum to 1 only within
//! rounding. So each weight is first rounded to a whole number of 2^-40 parts of the sum. Then all signatures have exactly
//! the same sum, the solver moves whole numbers without rounding, and the result is the distance of the rounded signatures.
//!
//! The two signatures are put into an order that depends only on their numbers, so the distance is the same in either order.

mod transport;

use std::cmp::Ordering;

use super::hausdorff::{check_centroids, ground, powers};
use super::{Distance, DistanceError, Lp, Properties, Slack};
use crate::sqfd::SignatureRef;

/// The sum of the weights of a signature, in parts.
const TOTAL: i64 = 1 << 40;
/// The largest difference of a sum of weights from 1: the rounding to f32 of a million weights.
const SUM_TOLERANCE: f64 = 1e-3;
/// The most centroids of a signature. The ground distances of two such signatures take 512 MiB.
const CENTROIDS_MAX: usize = 1 << 13;

/// The earth mover's distance with a ground distance of centroids.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Emd {
    ground: Lp,
}

impl Emd {
    /// The earth mover's distance with this distance of two centroids.
    pub fn new(ground: Lp) -> Self {
        Self { ground }
    }

    fn solved(&self, a: SignatureRef<'_>, b: SignatureRef<'_>, costs: Vec<f64>) -> f64 {
        transport::least_work(&parts(a.weights()), &parts(b.weights()), costs) / TOTAL as f64
    }
}

impl Distance for Emd {
    type Object<'a> = SignatureRef<'a>;

    fn properties(&self) -> Properties {
        Properties::metric("emd")
    }

    fn slack(&self, dimensions: usize, extent: f64) -> Slack {
        let ground = self.ground.slack(dimensions, extent);
        // The error of the solver, and the sums over the moves, of which there are fewer than 2^20.
        Slack {
            relative: ground.relative + 1e-10,
            absolute: transport::TOLERANCE * 2.0 * extent,
            ..Slack::EXACT
        }
    }

    fn check(&self, object: SignatureRef<'_>) -> Result<(), DistanceError> {
        check_centroids(object)?;
        if object.len() > CENTROIDS_MAX {
            return Err(DistanceError::TooManyCentroids { centroids: object.len(), most: CENTROIDS_MAX });
        }
        let weights = object.weights();
        if let Some(place) = weights.iter().position(|weight| !(weight.is_finite() && *weight > 0.0)) {
            return Err(DistanceError::Weight { place, value: weights[place] });
        }
        let sum: f64 = weights.iter().map(|weight| f64::from(*weight)).sum();
        if (sum - 1.0).abs() <= SUM_TOLERANCE { Ok(()) } else { Err(DistanceError::WeightSum(sum)) }
    }

    fn distance(&self, a: SignatureRef<'_>, b: SignatureRef<'_>) -> f64 {
        assert_eq!(a.dimensions(), b.dimensions(), "signatures of one space");
        let (a, b) = match order(a, b) {
            Ordering::Less => (a, b),
            Ordering::Equal => return 0.0,
            Ordering::Greater => (b, a),
        };
        let mut costs = vec![0.0; a.len() * b.len()];
        for (i, row) in costs.chunks_exact_mut(b.len()).enumerate() {
            powers(self.ground, a, i, b, row);
            row.iter_mut().for_each(|cost| *cost = self.ground.of_power(*cost));
        }
        self.solved(a, b, costs)
    }

    fn reference(&self, a: SignatureRef<'_>, b: SignatureRef<'_>) -> f64 {
        // A simple algorithm for the same optimum: successive shortest paths (`transport::reference`).
        let places = (0..a.len()).flat_map(|i| (0..b.len()).map(move |j| (i, j)));
        let costs: Vec<f64> = places.map(|(i, j)| ground(self.ground, a, i, b, j)).collect();
        transport::reference(&parts(a.weights()), &parts(b.weights()), &costs) / TOTAL as f64
    }
}

/// Weights in whole parts that sum to [`TOTAL`], at least one part each. The other parts of a weight end at the rounded sum
/// of the weights up to it.
fn parts(weights: &[f32]) -> Vec<i64> {
    let rest = TOTAL - weights.len() as i64;
    let sum: f64 = weights.iter().map(|weight| f64::from(*weight)).sum();
    let (mut so_far, mut end) = (0.0, 0);
    let mut parts: Vec<i64> = weights
        .iter()
        .map(|weight| {
            so_far += f64::from(*weight);
            let start = end;
            end = ((so_far / sum * rest as f64).round() as i64).min(rest);
            1 + end - start
        })
        .collect();
    // Both sums are computed in the same order, so nothing should be left. If something were, the last weight would get it.
    if let Some(last) = parts.last_mut() {
        *last += rest - end;
    }
    parts
}

/// An order of signatures that depends on their numbers alone.
fn order(a: SignatureRef<'_>, b: SignatureRef<'_>) -> Ordering {
    let columns = |a: &[f32], b: &[f32]| {
        let mut pairs = a.iter().zip(b);
        pairs.find_map(|(a, b)| Some(a.total_cmp(b)).filter(|order| order.is_ne())).unwrap_or(Ordering::Equal)
    };
    let by_coordinates = || {
        let mut dimensions = 0..a.dimensions();
        dimensions.find_map(|d| Some(columns(a.coordinate(d), b.coordinate(d))).filter(|order| order.is_ne()))
    };
    a.len()
        .cmp(&b.len())
        .then_with(|| columns(a.weights(), b.weights()))
        .then_with(|| by_coordinates().unwrap_or(Ordering::Equal))
}
