//! Permutations of pivots: the pivots nearest to an object, in order, and measures of how much two such orders differ.
//!
//! Objects that are near each other see the pivots in nearly one order (E. Chávez, K. Figueroa, G. Navarro, "Effective proximity
//! retrieval by ordering permutations", IEEE TPAMI 30(9), 2008; lists of the first pivots only: G. Amato, P. Savino, "Approximate
//! similarity search in metric spaces using inverted files", InfoScale 2008). So the objects with the most similar orders are
//! candidates for the nearest ones; nothing proves that all of these are among them.
//!
//! A list has the numbers of the first pivots, by (distance, number). A pivot's position is its place in the list, from 0; pivots that
//! are not in it have the list's length. [`Measure::Footrule`] is the sum over all pivots of the differences of positions,
//! [`Measure::Rho`] that of their squares.
//!
//! Invariant: lists, measures and candidates have the same bits on every path: distances are compared as f64 numbers, all else
//! is whole numbers.

//!
//! Modules in reading order: `lists` (the lists of many objects), `tables` (what a look-up adds), `x86` (look-ups in vector
//! instructions), `scan` (measures and candidates), `inverted` (candidates by the objects of each pivot), `network` (the least numbers of many lists), `order` (lists of many objects by
//! their distances), `vectors` (lists of vectors), `device` (the same on a device), `measures` (measures of all lists on a device).

#![expect(clippy::neg_cmp_op_on_partial_ord, reason = "a number that is no number is not small")]

mod lists;
mod tables;
#[cfg(target_arch = "x86_64")]
mod x86;
mod scan;
mod inverted;
mod network;
mod order;
mod vectors;
pub mod device;
pub mod measures;
#[cfg(test)]
mod tests;

pub use inverted::Inverted;
pub use lists::Lists;
pub use order::nearest_of_each;
pub use vectors::VectorPivots;

use std::ops::Range;
use std::str::FromStr;

/// The most pivots.
pub const PIVOTS_MAX: usize = 4096;
/// The longest list: with it a sum of squares is below 2^32.
pub const LENGTH_MAX: usize = 1024;
// At most all pivots of both lists are apart by the length.
const _: () = assert!(2 * LENGTH_MAX as u64 * (LENGTH_MAX as u64 * LENGTH_MAX as u64) < 1 << 32);

/// How lists are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Spearman's footrule: absolute differences of positions.
    Footrule,
    /// Spearman's rho: their squares.
    Rho,
}

impl Measure {
    /// Their names.
    pub const NAMES: &'static [&'static str] = &["footrule", "rho"];

    fn of(self, difference: usize) -> u64 {
        let difference = difference as u64;
        match self {
            Self::Footrule => difference,
            Self::Rho => difference * difference,
        }
    }
}

/// How a query's list is compared with the lists of objects. A pivot that both lists have counts only if it is among the first of the
/// query and its places are near each other; otherwise it adds to the measure as if each list had it and the other one did not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Comparison {
    /// The measure: how much a difference of positions adds.
    pub measure: Measure,
    /// The first pivots of the query that count.
    pub query_pivots: usize,
    /// The largest difference of the positions of a pivot that counts.
    pub max_shift: usize,
}

impl From<Measure> for Comparison {
    /// All pivots of both lists count.
    fn from(measure: Measure) -> Self {
        Self { measure, query_pivots: usize::MAX, max_shift: usize::MAX }
    }
}

impl Comparison {
    /// The places of lists of this length at which the pivot of a query's position counts.
    fn places(self, position: usize, length: usize) -> Range<usize> {
        if position >= self.query_pivots {
            return 0..0;
        }
        position.saturating_sub(self.max_shift)
            ..length.min(position.saturating_add(self.max_shift).saturating_add(1))
    }
}

impl FromStr for Measure {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "footrule" => Ok(Self::Footrule),
            "rho" => Ok(Self::Rho),
            other => Err(format!("there is no measure of permutations `{other}`: take footrule or rho")),
        }
    }
}

/// The first pivots by (distance, number), as many as `list` is long. Only some of the distances are sorted: the nearest so far are
/// kept in a buffer of twice the length, which is cut whenever it is full.
///
/// # Panics
/// When there are fewer distances than `list` is long, or more than [`PIVOTS_MAX`].
pub fn nearest_pivots(distances: &[f64], list: &mut [u16]) {
    let length = list.len();
    assert!(length <= distances.len() && distances.len() <= PIVOTS_MAX, "a list of {length} pivots");
    if length == 0 {
        return;
    }
    let order = |a: &(f64, u16), b: &(f64, u16)| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1));
    let mut kept: Vec<(f64, u16)> = Vec::with_capacity(2 * length);
    let mut limit = f64::INFINITY;
    for (distance, pivot) in distances.iter().zip(0..) {
        // A later pivot at the limit has a larger number than those kept. Infinity is total_cmp's largest but a NaN.
        if *distance >= limit {
            continue;
        }
        kept.push((*distance, pivot));
        if kept.len() == 2 * length {
            kept.select_nth_unstable_by(length - 1, order);
            kept.truncate(length);
            limit = kept[length - 1].0;
        }
    }
    if kept.len() < length {
        // Infinite distances, or ones that are no numbers.
        kept = distances.iter().copied().zip(0..).collect();
    }
    kept.sort_unstable_by(order);
    for (place, (_, pivot)) in list.iter_mut().zip(kept) {
        *place = pivot;
    }
}

/// A measure by its definition: over all pivots, from the positions in the lists of a query and of an object.
///
/// # Panics
/// When the lists differ in length, or have a pivot that is not below `pivots`.
pub fn reference(comparison: impl Into<Comparison>, pivots: usize, query: &[u16], object: &[u16]) -> u64 {
    assert_eq!(query.len(), object.len(), "lists of one length");
    let (Comparison { measure, query_pivots, max_shift }, length) = (comparison.into(), query.len());
    let positions = |list: &[u16]| {
        let mut positions = vec![length; pivots];
        for (place, pivot) in list.iter().enumerate() {
            positions[usize::from(*pivot)] = place;
        }
        positions
    };
    let of_pivot = |(of_query, of_object): (usize, usize)| {
        let counts = of_query < query_pivots && of_query.abs_diff(of_object) <= max_shift;
        if counts && of_query < length && of_object < length {
            measure.of(of_query.abs_diff(of_object))
        } else {
            measure.of(length - of_query) + measure.of(length - of_object)
        }
    };
    positions(query).into_iter().zip(positions(object)).map(of_pivot).sum()
}

/// Why there are no such lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ListsError {
    /// A list has a length that it cannot have.
    #[error("a list of {length} of {pivots} pivots: take a length from 1 to {pivots}")]
    Length {
        /// Pivots of a list.
        length: usize,
        /// All pivots.
        pivots: usize,
    },
    /// There are too many pivots.
    #[error(
        "lists of {length} of {pivots} pivots: take at most {PIVOTS_MAX} pivots and lists of at most {LENGTH_MAX}"
    )]
    TooMany {
        /// Pivots of a list.
        length: usize,
        /// All pivots.
        pivots: usize,
    },
}
