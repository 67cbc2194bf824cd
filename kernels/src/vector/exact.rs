//! f64 distances of a few rows of each query on a device: constants for `exact.cl`, and the distance from what it sums up.
//!
//! Invariant: the kernel computes only sums and products of doubles, in the order of the reference, and a device rounds these as
//! IEEE 754 does. So a distance has the bits of [`VectorMeasure::between`].

use super::device::number_constants;
use super::measure::{LANES, VectorMeasure};
use crate::numbers::NumberType;

/// The source of the kernel.
pub const TEXT: &str = include_str!("exact.cl");

/// The kernel's name.
pub const KERNEL: &str = "exact_sums";

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

/// The distance of a row from the kernel's sums; `square` is the inner product of the query with itself. Nothing for a cosine of a
/// vector without a direction, for which [`VectorMeasure::between`] has a rule.
pub fn distance(measure: VectorMeasure, square: f64, sums: &[f64]) -> Option<f64> {
    match measure {
        VectorMeasure::L2 => Some(sums[0].sqrt()),
        VectorMeasure::InnerProduct => Some(0.0 - sums[0]),
        VectorMeasure::Cosine => VectorMeasure::cosine_distance(sums[0], square * sums[1]),
    }
}
