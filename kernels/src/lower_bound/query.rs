//! A query made ready for the loops over blocks: its numbers in f32, and the slack that makes each bound sound.
//!
//! What is taken off, with `u` the noise of squared distances, `M` the largest distance of the table and the query:
//!
//! | bound | rounding in f32, here | noise in f64, in what came in |
//! |---|---|---|
//! | triangular | `2^-21 M` | `3 sqrt(u)`: both distances to the pivot, and the one that is bounded |
//! | Ptolemaic | `2^-21` of both products, over `d(p,s)` | `eps = max(1e-7 M, sqrt(u))` in each of the five distances |
//! | simplex | `2^-23 (numbers + 8) M` | `sqrt(1.5 u)` times each spread, and the solution's error, and `sqrt(u)` |

use super::reference;
use super::{Apex, Bound, BoundError, DISTANCE_MAX, Simplex};

/// What a pair of pivots says of an object: `|query_p o_s - query_s o_p| - slack`, all divided by their distance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Pair {
    pub(super) p: u32,
    pub(super) s: u32,
    pub(super) query_p: f32,
    pub(super) query_s: f32,
    pub(super) slack: f32,
}

/// A query's side of a bound.
#[derive(Clone, Debug)]
pub struct BoundQuery {
    pub(super) bound: Bound,
    /// Distances to the pivots, or the apex.
    pub(super) numbers: Vec<f32>,
    pub(super) pairs: Vec<Pair>,
    /// Taken off the lower bounds of triangles or apexes, added to the upper ones.
    pub(super) slack: f32,
    /// Taken off the bounds of pairs.
    pub(super) pairs_slack: f32,
    /// No distance of the table or the query is larger.
    pub(super) largest: f64,
}

/// What a table says of all its objects, for the slack.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TableErrors {
    /// The largest distance in the table.
    pub distance_max: f64,
    /// How wrong the square of a distance may be.
    pub noise_squared: f64,
    /// The largest [`Apex::spread`] of an object.
    pub spread_max: f64,
}

impl BoundQuery {
    /// A query at these f64 distances from the pivots, for a table with these errors. Where one of the distances is
    /// above [`DISTANCE_MAX`](super::DISTANCE_MAX), its bounds say nothing.
    ///
    /// # Errors
    /// As [`Simplex::apex`].
    ///
    /// # Panics
    /// When `distances` and `between` are not of as many pivots.
    pub fn new(
        bound: Bound,
        distances: &[f64],
        between: &[f64],
        simplex: &Simplex,
        errors: &TableErrors,
    ) -> Result<Self, BoundError> {
        assert_eq!(distances.len() * distances.len(), between.len(), "distances to each of the pivots");
        if let Some(wrong) = distances.iter().find(|distance| !(distance.is_finite() && **distance >= 0.0)) {
            return Err(BoundError::NotADistance(*wrong));
        }
        let largest = distances.iter().fold(errors.distance_max, |largest, distance| largest.max(*distance));
        let noise = errors.noise_squared.max(0.0).sqrt();
        let (numbers, pairs_of_pivots) = (Vec::new(), Vec::new());
        let mut query =
            Self { bound, numbers, pairs: pairs_of_pivots, slack: 0.0, pairs_slack: 0.0, largest };
        if largest > DISTANCE_MAX {
            let numbers = if bound == Bound::Simplex { simplex.dimensions() } else { distances.len() };
            query.numbers.resize(numbers, 0.0);
            (query.slack, query.pairs_slack) = (f32::INFINITY, f32::INFINITY);
            return Ok(query);
        }
        if bound == Bound::Simplex {
            let apex = simplex.apex(distances, errors.noise_squared)?;
            query.slack = up(apex_slack(&apex, simplex, errors, largest));
            query.numbers = apex.coordinates.iter().map(|number| *number as f32).collect();
            return Ok(query);
        }
        query.slack = up(2f64.powi(-21) * largest + 3.0 * noise);
        query.numbers = distances.iter().map(|number| *number as f32).collect();
        if bound != Bound::Triangular {
            let eps = (1e-7 * largest).max(noise);
            query.pairs = pairs(distances, between, errors.distance_max, eps);
            query.pairs_slack = up(3.0 * eps + noise);
        }
        Ok(query)
    }

    /// A query of which nothing is known, for a table of so many columns: bounds by it are 0 and infinity.
    pub fn of_nothing(bound: Bound, columns: usize) -> Self {
        let (numbers, pairs, slack) = (vec![0.0; columns], Vec::new(), f32::INFINITY);
        Self { bound, numbers, pairs, slack, pairs_slack: slack, largest: 0.0 }
    }

    /// The bound.
    pub fn bound(&self) -> Bound {
        self.bound
    }

    /// What is taken off for rounding, in the unit of distances.
    pub fn slack(&self) -> f64 {
        f64::from(self.slack.max(self.pairs_slack))
    }
}

/// Rounding and noise of a lower bound by apexes.
fn apex_slack(apex: &Apex, simplex: &Simplex, errors: &TableErrors, largest: f64) -> f64 {
    let noise = errors.noise_squared.max(0.0);
    let spreads = apex.spread + errors.spread_max;
    let altitudes = (1.5 * noise).sqrt() * spreads;
    let coordinates = 3.0 * simplex.growth() * noise * spreads;
    let rounding = 2f64.powi(-23) * (simplex.dimensions() as f64 + 8.0) * largest;
    rounding + altitudes + coordinates + noise.sqrt()
}

/// The pairs of pivots, with `eps` added to their distance: so duplicate pivots say nothing instead of infinity.
fn pairs(query: &[f64], between: &[f64], object_max: f64, eps: f64) -> Vec<Pair> {
    let count = query.len();
    let mut pairs = Vec::with_capacity(count * count.saturating_sub(1) / 2);
    for p in 0..count {
        for s in p + 1..count {
            let apart = between[p * count + s] + eps;
            let (a, c) = (query[p], query[s]);
            let rounding = 2f64.powi(-21) * (a + c) * object_max;
            let noise = eps * (a + c + 2.0 * object_max);
            let slack = (rounding + noise) / apart;
            // The bound of a pair is at most this, so a pair with more slack never says anything.
            if apart > 0.0 && slack < a.max(c) * object_max / apart {
                let (query_p, query_s) = ((a / apart) as f32, (c / apart) as f32);
                pairs.push(Pair { p: p as u32, s: s as u32, query_p, query_s, slack: up(slack) });
            }
        }
    }
    pairs
}

/// The f32 at or above a number: a little more than rounding to the nearest needs.
fn up(number: f64) -> f32 {
    (number * (1.0 + 2f64.powi(-20))) as f32
}

/// The reference for a query's bound: the same formula in f64 with no slack, lower and upper.
///
/// # Errors
/// As [`Simplex::apex`].
pub fn exact_bounds(
    bound: Bound,
    query: &[f64],
    object: &[f64],
    between: &[f64],
    simplex: &Simplex,
    noise_squared: f64,
) -> Result<(f64, f64), BoundError> {
    let upper = reference::triangular_upper(query, object);
    Ok(match bound {
        Bound::Triangular => (reference::triangular(query, object), upper),
        Bound::Ptolemaic => (reference::ptolemaic(query, object, between), upper),
        Bound::Combined => (reference::combined(query, object, between), upper),
        Bound::Simplex => {
            let (query, object) = (simplex.apex(query, noise_squared)?, simplex.apex(object, noise_squared)?);
            reference::simplex(&query.coordinates, &object.coordinates)
        }
    })
}
