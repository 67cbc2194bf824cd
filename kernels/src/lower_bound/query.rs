//! A query prepared for the loops over blocks: its numbers in f32, and the slack that makes each bound sound.
//!
//! The slack, with `u` the largest error of a squared distance and `M` the largest distance of the table and the query:
//!
//! | bound | for rounding in f32, here | for errors of the f64 distances that went in |
//! |---|---|---|
//! | triangular | `2^-21 M` | `3 sqrt(u)`: both distances to the pivot, and the distance that is bounded |
//! | Ptolemaic | `2^-21` of both products, over `d(p,s)` | `eps = max(1e-7 M, sqrt(u))` in each of the five distances |
//! | simplex | `2^-23 (numbers + 8) M` | `sqrt(1.5 u)` times each spread, the solution's error, and `sqrt(u)` |

use super::reference;
use super::{Apex, Bound, BoundError, DISTANCE_MAX, Simplex};

/// A pair of pivots. Its bound for an object is `|query_p o_s - query_s o_p| - slack`, where all are divided by the distance
/// of the two pivots.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Pair {
    pub(super) p: u32,
    pub(super) s: u32,
    pub(super) query_p: f32,
    pub(super) query_s: f32,
    pub(super) slack: f32,
}

/// A query, prepared for one rule and one pivot table.
#[derive(Clone, Debug)]
pub struct BoundQuery {
    pub(super) bound: Bound,
    /// Its distances to the pivots, or its apex.
    pub(super) numbers: Vec<f32>,
    pub(super) pairs: Vec<Pair>,
    /// Subtracted from lower bounds by triangles or apexes, and added to upper bounds.
    pub(super) slack: f32,
    /// Subtracted from lower bounds by pairs of pivots.
    pub(super) pairs_slack: f32,
    /// The largest distance of the table and the query.
    pub(super) largest: f64,
}

/// Numbers of a whole table that the slack depends on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TableErrors {
    /// The largest distance in the table.
    pub distance_max: f64,
    /// The largest error of a squared distance.
    pub noise_squared: f64,
    /// The largest [`Apex::spread`] of an object.
    pub spread_max: f64,
}

impl BoundQuery {
    /// A query with these f64 distances to the pivots, for a table with these errors. If a distance is above
    /// [`DISTANCE_MAX`](super::DISTANCE_MAX), every lower bound is 0 and every upper bound is infinite.
    ///
    /// # Errors
    /// As [`Simplex::apex`].
    ///
    /// # Panics
    /// If `distances` and `between` have different numbers of pivots.
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
            let columns = if bound == Bound::Simplex { simplex.dimensions() } else { distances.len() };
            return Ok(Self::of_nothing(bound, columns));
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

    /// A query of which nothing is known, for a table with this many columns. Every lower bound is 0 and every upper bound is
    /// infinite.
    pub fn of_nothing(bound: Bound, columns: usize) -> Self {
        let (numbers, pairs, slack) = (vec![0.0; columns], Vec::new(), f32::INFINITY);
        Self { bound, numbers, pairs, slack, pairs_slack: slack, largest: 0.0 }
    }

    /// The rule.
    pub fn bound(&self) -> Bound {
        self.bound
    }

    /// The largest slack of the query's bounds, in the unit of distances.
    pub fn slack(&self) -> f64 {
        f64::from(self.slack.max(self.pairs_slack))
    }
}

/// The slack of bounds by apexes.
fn apex_slack(apex: &Apex, simplex: &Simplex, errors: &TableErrors, largest: f64) -> f64 {
    let noise = errors.noise_squared.max(0.0);
    let spreads = apex.spread + errors.spread_max;
    let altitudes = (1.5 * noise).sqrt() * spreads;
    let coordinates = 3.0 * simplex.growth() * noise * spreads;
    let rounding = 2f64.powi(-23) * (simplex.dimensions() as f64 + 8.0) * largest;
    rounding + altitudes + coordinates + noise.sqrt()
}

/// The pairs of pivots, with `eps` added to their distances, so that two equal pivots give no infinite bound.
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
            // The bound of a pair is at most this. A pair with more slack never helps.
            if apart > 0.0 && slack < a.max(c) * object_max / apart {
                let (query_p, query_s) = ((a / apart) as f32, (c / apart) as f32);
                pairs.push(Pair { p: p as u32, s: s as u32, query_p, query_s, slack: up(slack) });
            }
        }
    }
    pairs
}

/// An f32 at or above a number. The factor is a little more than rounding to the nearest f32 needs.
fn up(number: f64) -> f32 {
    (number * (1.0 + 2f64.powi(-20))) as f32
}

/// The reference for the bounds of an object, lower and upper: the same formulas in f64 without slack.
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
