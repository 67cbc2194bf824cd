//! f64 distances of a few rows of each query on a device, and the nearest of these: constants for `exact.cl`, and the distance from
//! what it sums up.
//!
//! Invariant: the kernels compute only sums, products and roots of doubles, sums in the order of the reference, and a device rounds
//! these as IEEE 754 does. So a distance has the bits of [`VectorMeasure::between`], and rows are in the order of their distances.

use super::device::number_constants;
use super::measure::{LANES, VectorMeasure};
use crate::numbers::NumberType;

/// The source of the kernel.
pub const TEXT: &str = include_str!("exact.cl");

/// The kernel that computes sums.
pub const KERNEL: &str = "exact_sums";

/// The kernel that leaves the nearest of the rows whose sums are known.
pub const RANKS: &str = "exact_ranks";

/// Work items of a group, which has one query.
pub const ITEMS: usize = 256;

/// The constants to compile the source with, for rows of a type of numbers in a buffer.
pub fn constants(measure: VectorMeasure, numbers: NumberType, rows: &str) -> Vec<(&'static str, String)> {
    let mut constants = vec![
        ("ITEMS", ITEMS.to_string()),
        ("SHARING", LANES.to_string()),
        ("SUMS", sums(measure).to_string()),
        ("ROWS", rows.to_owned()),
    ];
    constants.extend(number_constants(numbers));
    if measure == VectorMeasure::L2 {
        constants.push(("DIFFERENCES", "1".to_owned()));
    }
    constants
}

/// How many sums the kernel computes for a row.
pub fn sums(measure: VectorMeasure) -> usize {
    match measure {
        VectorMeasure::L2 | VectorMeasure::InnerProduct => 1,
        VectorMeasure::Cosine => 2,
    }
}

/// Whether there is a kernel that ranks: a cosine takes a quotient, and has a rule for vectors without a direction.
pub fn ranks(measure: VectorMeasure) -> bool {
    sums(measure) == 1
}

/// The distance of a row from the kernel's sums; `square` is the inner product of the query with itself. Nothing for a cosine of a
/// vector without a direction, for which [`VectorMeasure::between`] has a rule.
pub fn distance(measure: VectorMeasure, square: f64, sums: &[f64]) -> Option<f64> {
    match measure {
        VectorMeasure::L2 => Some(sums[0].sqrt()),
        VectorMeasure::InnerProduct => Some(0.0 - sums[0]),
        VectorMeasure::Cosine => VectorMeasure::cosine_distance(sums[0], square * sums[1]),
    }
}
