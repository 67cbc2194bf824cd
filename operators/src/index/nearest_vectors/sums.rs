//! f64 distances that devices compute of the rows that a scan lists, with the bits of the processor's.
//!
//! They need rows without rounding. Halves are such where rounding to them has changed no number; else the rows lie on the device twice,
//! if it has room for both.

use std::ops::Range;

use boxwork_kernels::vector::device::{Products, padded};
use boxwork_kernels::vector::{NumberType, VectorMeasure, exact};
use boxwork_runtime::feeding::ProgramSource;

use super::numbers::Numbers;
use crate::devices::device_kernels::sums_program;

/// The rows whose distances a device computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExactRows {
    /// Those that the scan reads.
    Scanned,
    /// The store's own numbers, beside the halves that the scan reads.
    Beside,
}

impl ExactRows {
    /// The rows to compute with; nothing if the device has none that are exact. `is_halved` says that rounding to halves changes
    /// numbers, and `fits_both` that there is room for both forms.
    pub(super) fn of(products: Products, is_halved: bool, fits_both: bool) -> Option<Self> {
        match products {
            Products::Single(_) => Some(Self::Scanned),
            Products::Halves if !is_halved => Some(Self::Scanned),
            Products::Halves => fits_both.then_some(Self::Beside),
        }
    }
}

/// The sums that blocks of a group of queries compute.
pub(super) struct Sums {
    pub(super) program: ProgramSource,
    pub(super) rows: ExactRows,
    /// Numbers of a row in memory.
    pub(super) stride: usize,
    /// Sums of a row.
    pub(super) count: usize,
    /// Whether the device leaves the nearest by them alone.
    pub(super) are_ranked: bool,
    /// Query by query, as it was given, if devices take it otherwise.
    pub(super) queries: Option<Vec<f32>>,
}

impl Sums {
    pub(super) fn new(
        rows: ExactRows,
        products: Products,
        (measure, numbers): (VectorMeasure, NumberType),
        (numbers_of, queries): (&Numbers, Range<usize>),
    ) -> Self {
        let dimensions = numbers_of.dimensions();
        let (form, stride) = match (rows, products) {
            (ExactRows::Scanned, Products::Halves) => (NumberType::F16, padded(dimensions)),
            _ => (numbers, dimensions),
        };
        Self {
            program: sums_program(measure, form, rows == ExactRows::Beside),
            rows,
            stride,
            count: exact::sums(measure),
            are_ranked: exact::ranks(measure),
            queries: (measure == VectorMeasure::Cosine).then(|| numbers_of.part(queries).to_vec()),
        }
    }

    /// The names of the buffers of entries and of sums that come back.
    pub(super) fn come_back(&self) -> (&'static str, &'static str) {
        if self.are_ranked { ("nearest", "nearest_sums") } else { ("found", "sums") }
    }
}
