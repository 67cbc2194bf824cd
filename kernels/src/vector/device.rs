//! Search among many vectors on a device: constants and sizes for `device.cl`, and the queries as it takes them.
//!
//! A chunk of rows is searched in stages. The first keeps all values of some rows; the k-th least of them limits the next stage,
//! which has several times as many rows and appends few, and so on. So the whole search is one sequence of commands, and the
//! host waits once.
//!
//! Invariant: if no list has overflowed, the entries of a query hold every row whose value is at most the k-th least value of
//! the chunk and twice the error of a value.

use std::ops::Range;

use super::flat::{FlatQueries, row_terms};
use super::measure::{VectorMeasure, inner_product};
use crate::CodePath;
use crate::numbers::{Number, NumberType, VectorRef};
use crate::with_numbers;

/// The source of the kernels.
pub const TEXT: &str = include_str!("device.cl");

/// Work items of a group.
pub const ITEMS: usize = SIDE * SIDE;
/// Rows and queries of a work group.
pub const GROUP: usize = 4 * QUADS * SIDE;
/// Rows and queries of an item, in quadruples.
const QUADS: usize = 2;
/// Items of a group that share a row, and those that share a query.
const SIDE: usize = 16;
/// Numbers of each vector that lie in local memory.
const DEPTH: usize = 16;

/// The most objects that a search on a device finds.
pub const K_MAX: usize = 2048;
/// The rows of a stage over the rows before it.
const GROWTH: u64 = 8;
/// Entries of a list, at least.
const ENTRIES_MIN: usize = 1024;

/// The constants to compile the source with, for rows of a type of numbers.
pub fn constants(numbers: NumberType) -> Vec<(&'static str, String)> {
    let number = match numbers {
        NumberType::F32 => "float",
        NumberType::F16 => "half",
        NumberType::U8 => "uchar",
        NumberType::I8 => "char",
    };
    let sizes = [("GROUP", GROUP), ("QUADS", QUADS), ("SIDE", SIDE), ("DEPTH", DEPTH)];
    let mut constants: Vec<_> = sizes.map(|(name, size)| (name, size.to_string())).into();
    constants.push(("NUMBER", number.to_owned()));
    if numbers == NumberType::F16 {
        constants.push(("HALVES", "1".to_owned()));
    }
    constants
}

/// Work groups of `scan` for some rows and queries.
pub fn groups(rows: usize, queries: usize) -> usize {
    rows.div_ceil(GROUP) * queries.div_ceil(GROUP)
}

/// The sizes of a search for the k nearest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The rows of the first stage.
    pub first: usize,
    /// Entries of a query's list.
    pub capacity: usize,
    /// Entries that come back for a query.
    pub found: usize,
}

impl Plan {
    /// The sizes for `k` objects.
    pub fn new(k: usize) -> Self {
        let first = (4 * k).max(ENTRIES_MIN).next_multiple_of(GROUP);
        // A stage appends about (GROWTH - 1) k entries to the k that it begins with.
        let capacity = (2 * GROWTH as usize * k + ENTRIES_MIN).max(first);
        Self { first, capacity, found: k + k / 2 + 64 }
    }

    /// The rows of each stage. `seen` rows were searched before, and the limits are theirs.
    pub fn stages(&self, rows: usize, seen: u64) -> Vec<Range<usize>> {
        let (mut stages, mut end) = (Vec::new(), 0);
        while end < rows {
            let before = seen + end as u64;
            let size = match before {
                0 => self.first as u64,
                _ => before * (GROWTH - 1),
            };
            let upto = (end as u64 + size.next_multiple_of(GROUP as u64)).min(rows as u64) as usize;
            stages.push(end..upto);
            end = upto;
        }
        stages
    }
}

/// Some queries as the device takes them.
#[derive(Debug)]
pub struct DeviceQueries {
    flat: FlatQueries,
    /// Query by query; normalised for the cosine.
    pub numbers: Vec<f32>,
}

impl DeviceQueries {
    /// Takes queries.
    ///
    /// # Panics
    /// If a query has other than `dimensions` numbers.
    pub fn new(measure: VectorMeasure, dimensions: usize, queries: &[&[f32]]) -> Self {
        let mut numbers = Vec::with_capacity(queries.len() * dimensions);
        for query in queries {
            let norm = inner_product(query, query).sqrt();
            let is_scaled = measure == VectorMeasure::Cosine && norm > 0.0;
            let scaled = |number: &f32| (f64::from(*number) / norm) as f32;
            numbers.extend(query.iter().map(|number| if is_scaled { scaled(number) } else { *number }));
        }
        Self { flat: FlatQueries::new(CodePath::Portable, measure, dimensions, queries), numbers }
    }

    /// Number of queries.
    pub fn len(&self) -> usize {
        self.flat.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.flat.is_empty()
    }

    /// As [`FlatQueries::value_of`].
    pub fn value_of(&self, query: usize, distance: f64) -> f64 {
        self.flat.value_of(query, distance)
    }

    /// As [`FlatQueries::error`], whose values a device computes in another order.
    pub fn error(&self, query: usize, norm_max: f64) -> f64 {
        self.flat.error(query, norm_max)
    }
}

/// The terms of some rows, and the largest norm: `base - factor * product` is the value of a row.
pub fn terms(measure: VectorMeasure, dimensions: usize, rows: VectorRef<'_>) -> (Vec<[f32; 2]>, f64) {
    fn of<N: Number>(measure: VectorMeasure, dimensions: usize, rows: &[N]) -> (Vec<[f32; 2]>, f64) {
        let mut norm_max = 0.0_f64;
        let terms = rows.chunks_exact(dimensions).map(|row| {
            let square = inner_product(row, row);
            norm_max = if square.sqrt() <= norm_max { norm_max } else { square.sqrt() };
            let (base, factor) = row_terms(measure, square);
            [base, factor]
        });
        (terms.collect(), norm_max)
    }
    with_numbers!(rows, rows => of(measure, dimensions, rows))
}

/// The term of a row that is not searched: its value is infinite, as no other is.
pub const ABSENT: [f32; 2] = [f32::INFINITY, 0.0];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_grow_and_hold_every_row_once() {
        for (k, rows, seen) in
            [(1, 0, 0), (10, 1, 0), (10, 1_000_000, 0), (2048, 300_000, 0), (100, 5000, 9000)]
        {
            let plan = Plan::new(k);
            let stages = plan.stages(rows, seen);
            let mut end = 0;
            for stage in &stages {
                assert!(
                    stage.start == end && stage.end > end && stage.start.is_multiple_of(GROUP),
                    "{stages:?}"
                );
                end = stage.end;
            }
            assert_eq!(end, rows);
            assert!(stages.len() < 6, "{stages:?}");
            assert!(plan.first >= 4 * k && plan.capacity >= plan.first && plan.found >= k);
        }
    }

    #[test]
    fn terms_are_those_of_rows() {
        let rows = [3.0_f32, 4.0, 0.0, 0.0];
        let (found, norm) = terms(VectorMeasure::L2, 2, VectorRef::F32(&rows));
        assert_eq!((found, norm), (vec![[25.0, 2.0], [0.0, 2.0]], 5.0));
        let (found, _) = terms(VectorMeasure::Cosine, 2, VectorRef::F32(&rows));
        assert_eq!(found, [[0.0, 0.2], [0.0, 0.0]]);
        let queries = DeviceQueries::new(VectorMeasure::Cosine, 2, &[&[3.0, 4.0], &[0.0, 0.0]]);
        assert_eq!(queries.numbers, [0.6, 0.8, 0.0, 0.0]);
        assert!(queries.len() == 2 && !queries.is_empty());
    }
}
