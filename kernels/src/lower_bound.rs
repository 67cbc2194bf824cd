//! What the distances to a few pivots prove of a distance that was not computed: bounds below and above it.
//!
//! A pivot table holds, for blocks of [`PACKED_OBJECTS`] objects column by column, each object's distances to the
//! pivots and its *apex*: where it stands over the simplex that the pivots span (`simplex`). A query's own distances
//! give a [`BoundQuery`], and an [`Evaluator`] bounds its distance to all objects of a block at a time, in f32.
//!
//! Invariant: a bound is never on the wrong side of the f64 distance that a search reports. What rounding could do,
//! in the distances that went in (`noise_squared`) and in the f32 arithmetic here, is taken off each bound as its
//! *slack*; so an object whose lower bound exceeds the range has a reported distance beyond the range, strictly.
//!
//! Modules in reading order: `reference` (the formulas in f64), `simplex`, `query` (slack), `block` (the loops),
//! `device` (the same loops in OpenCL).

pub mod reference;
mod simplex;
mod query;
mod block;
pub mod device;

#[cfg(test)]
mod exactness;
#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

pub use block::{Block, Bounds, Evaluator};
pub use query::{BoundQuery, TableErrors, exact_bounds};
pub use simplex::{Apex, Simplex};

/// Objects of a block: one work item each of the group of threads that a graphics processor runs together, and small
/// enough that the columns of 32 pivots and the apexes lie in the second level of a processor's cache.
pub const PACKED_OBJECTS: usize = 256;

/// Pivots of a table at most: pairs of them, which the Ptolemaic bound goes through, stay a few thousand.
pub const PIVOTS_MAX: usize = 128;

/// Distances of a table and a query that are bounded at most. The loops square sums of two distances in f32, which holds
/// numbers up to 3.4e38; a bound by larger distances says nothing: 0 from below, infinity from above.
pub const DISTANCE_MAX: f64 = (1u64 << 62) as f64;
const _: () = assert!(4.0 * DISTANCE_MAX * DISTANCE_MAX < f32::MAX as f64 / 2.0);

/// A rule that bounds a distance by the distances to pivots. All are sound for the distances of every
/// [`Measure`](crate::similarity::Measure), which embed in a Hilbert space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bound {
    /// By the triangle of query, object and one pivot; needs a metric.
    Triangular,
    /// By the quadrilateral of query, object and two pivots; needs Ptolemy's inequality.
    Ptolemaic,
    /// The larger of the two.
    Combined,
    /// By the simplex of all pivots and each of the two; needs the n-point property of Hilbert spaces.
    Simplex,
}

impl Bound {
    /// All of them, the loosest first.
    pub const ALL: [Self; 4] = [Self::Triangular, Self::Ptolemaic, Self::Combined, Self::Simplex];
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Triangular => "triangular",
            Self::Ptolemaic => "ptolemaic",
            Self::Combined => "combined",
            Self::Simplex => "simplex",
        })
    }
}

impl FromStr for Bound {
    type Err = BoundError;

    fn from_str(name: &str) -> Result<Self, BoundError> {
        let named = Self::ALL.into_iter().find(|bound| bound.to_string() == name);
        named.ok_or_else(|| BoundError::UnknownBound(name.to_owned()))
    }
}

/// Why bounds cannot be made.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum BoundError {
    /// No bound has this name.
    #[error("unknown bound `{0}`; use triangular, ptolemaic, combined or simplex")]
    UnknownBound(String),
    /// A distance is negative, infinite or not a number.
    #[error("the distance {0} is no distance: it must be finite and not negative")]
    NotADistance(f64),
    /// An object lies where no point of a Hilbert space can lie with these distances to the pivots.
    #[error(
        "distances to the pivots are those of no point (the squared altitude is {altitude_squared:e}, which rounding \
         cannot explain): the distance is no Hilbert distance, or the index is of another store"
    )]
    NotHilbert {
        /// The square of the distance from the pivots' span, which cannot be negative.
        altitude_squared: f64,
    },
}
