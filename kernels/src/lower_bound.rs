//! Lower and upper bounds of a distance, proved from distances to a few pivots.
//!
//! A pivot table stores each object's distances to the pivots, and its *apex*: its place over the simplex that the pivots
//! span (`simplex`). It stores them column by column in blocks of [`PACKED_OBJECTS`] objects. A query's distances to the
//! pivots make a [`BoundQuery`], and a [`BoundEvaluator`] bounds its distances to all objects of a block in f32.
//!
//! Invariant: a bound is never on the wrong side of the f64 distance that a search reports. Each bound is widened by its
//! *slack*, which covers the error of the distances that went in (`noise_squared`) and of the f32 arithmetic here. So if an
//! object's lower bound exceeds the range, its reported distance exceeds the range.
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

pub use block::{BoundEvaluator, Bounds, PackedBlock};
pub use query::{BoundQuery, TableErrors, exact_bounds};
pub use simplex::{Apex, Simplex};

/// Objects of a block: one for each work item of a group on a device, and few enough that the columns of 32 pivots and the
/// apexes fit a processor's second-level cache.
pub const PACKED_OBJECTS: usize = 256;

/// The most pivots of a table. The Ptolemaic bound looks at all pairs of them, which stay a few thousand.
pub const PIVOTS_MAX: usize = 128;

/// The largest distance of a table or a query for which bounds are computed. The loops square sums of two distances in f32,
/// which holds numbers up to 3.4e38. With larger distances every lower bound is 0 and every upper bound is infinite.
pub const DISTANCE_MAX: f64 = (1u64 << 62) as f64;
const _: () = assert!(4.0 * DISTANCE_MAX * DISTANCE_MAX < f32::MAX as f64 / 2.0);

/// A rule that bounds a distance by distances to pivots. All rules are sound for the distances of every
/// [`Measure`](crate::similarity::Measure), because these embed in a Hilbert space.
///
/// ```
/// use boxwork_kernels::lower_bound::Bound;
/// assert_eq!("simplex".parse(), Ok(Bound::Simplex));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bound {
    /// Uses the triangle of query, object and one pivot. Needs a metric.
    Triangular,
    /// Uses the quadrilateral of query, object and two pivots. Needs Ptolemy's inequality.
    Ptolemaic,
    /// The larger of these two.
    Combined,
    /// Uses the simplexes of all pivots with the query and with the object. Needs the n-point property of Hilbert spaces.
    Simplex,
}

impl Bound {
    /// All rules, the loosest first.
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

/// Why bounds cannot be computed.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum BoundError {
    /// No bound has this name.
    #[error("unknown bound `{0}`; use triangular, ptolemaic, combined or simplex")]
    UnknownBound(String),
    /// A distance is negative, infinite or NaN.
    #[error("the distance {0} is no distance: it must be finite and not negative")]
    NotADistance(f64),
    /// No point of a Hilbert space can have an object's distances to the pivots.
    #[error(
        "distances to the pivots are those of no point (the squared altitude is {altitude_squared:e}, which rounding \
         cannot explain): the distance is no Hilbert distance, or the index is of another store"
    )]
    NotHilbert {
        /// The square of the distance from the pivots' span, which must not be negative.
        altitude_squared: f64,
    },
}
