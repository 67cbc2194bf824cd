//! The earth mover's distance of signatures: the least work that moves the weights of one onto those of the other.
//!
//! It is a metric when the ground distance is one and all signatures have one sum of weights (Y. Rubner, C. Tomasi,
//! L. J. Guibas, "The earth mover's distance as a metric for image retrieval", IJCV 40(2), 2000, appendix A). Both are
//! enforced: the ground is an [`Lp`], and [`Emd::check`] refuses other sums than 1. Weights of f32 sum to 1 only within
//! rounding, so each is first rounded to a whole number of 2^-40 parts of the sum: all signatures then have one sum
//! exactly, no rounding is left in what is moved, and the distance is that of the rounded signatures.
//!
//! The signatures are solved in an order of their own, whichever comes first: so the distance is the same in either.

mod transport;

use std::cmp::Ordering;

use super::hausdorff::{check_centroids, ground, powers};
use super::{Distance, DistanceError, Lp, Properties, Slack};
use crate::sqfd::SignatureRef;

/// The sum of all weights, in parts.
const TOTAL: i64 = 1 << 40;
/// How far the sum of weights may be from 1: what rounding to f32 leaves of a million of them.
const SUM_TOLERANCE: f64 = 1e-3;
/// Centroids of a signature at most: the distances of two such then take 512 MiB.
const CENTROIDS_MAX: usize = 1 << 13;

/// The earth mover's distance over a ground distance of centroids.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Emd {
    ground: Lp,
}

impl Emd {
    /// Over this distance of two centroids.
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
        // What the solver leaves, and the sums over the moves, of which there are fewer than 2^20.
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
        // A straight way to the same optimum: along ever longer paths (`transport::reference`).
        let places = (0..a.len()).flat_map(|i| (0..b.len()).map(move |j| (i, j)));
        let costs: Vec<f64> = places.map(|(i, j)| ground(self.ground, a, i, b, j)).collect();
        transport::reference(&parts(a.weights()), &parts(b.weights()), &costs) / TOTAL as f64
    }
}

/// Weights in whole parts that sum to [`TOTAL`], at least one each: the rest ends where the sum up to it does, rounded.
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
    // Both sums are made in one order, so there is nothing left, whatever their rounding; were there, it is not lost.
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
