//! Search among many vectors on a device: constants and sizes for `device.cl`, and the queries as it takes them.
//!
//! A chunk of rows is searched in stages. The first keeps all values of some rows; the k-th least of them limits the next stage,
//! which has several times as many rows and appends few, and so on. So the whole search is one sequence of commands, and the
//! host waits once.
//!
//! Invariant: if no list has overflowed, the entries of a query hold every row whose value is at most the k-th least value of
//! the chunk and twice the error of a value.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use super::flat::{error_of, norm_of, row_terms};
pub use super::halves::halves;
use super::halves::{AT_ONCE, halved, halved_norms, widened};
use super::held::constants_of_units;
pub use super::held::{Held, padded};
use super::measure::{VectorMeasure, inner_product};
use super::tile;
pub use super::tile::{GROUP, ITEMS};
use crate::numbers::{Number, NumberType, VectorRef};
use crate::pieces::{Pieces, collect};
use crate::with_numbers;

/// The source of the kernels.
pub const TEXT: &str = concat!(include_str!("tile.cl"), include_str!("held.cl"), include_str!("device.cl"));

/// The most objects that a search on a device finds.
pub const K_MAX: usize = 2048;
/// The rows of a stage over the rows before it.
const GROWTH: u64 = 8;
/// Work groups that keep a device busy to the end.
pub const GROUPS_WANTED: usize = 2048;
/// The most times that a group takes rows.
const PASSES_MAX: usize = 16;
/// Queries that one piece of work takes.
const NUMBERS_OF_PIECE: usize = 1 << 15;
/// Entries of a list, at least.
const ENTRIES_MIN: usize = 1024;

/// How the products of rows and queries are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Products {
    /// In f32, of rows in their type of numbers.
    Single(NumberType),
    /// Of halves, by NVIDIA's matrix units (PTX `mma`, compute capability 8.0 and above), which other devices emulate slowly.
    Halves,
}

/// The constants to compile the source with, for vectors of so many numbers.
pub fn constants(products: Products, dimensions: usize) -> Vec<(&'static str, String)> {
    let Products::Single(numbers) = products else {
        return constants_of_units(dimensions);
    };
    let mut constants = tile::constants();
    constants.extend(number_constants(numbers));
    constants
}

/// The constants that name a type of numbers.
pub(super) fn number_constants(numbers: NumberType) -> Vec<(&'static str, String)> {
    let number = match numbers {
        NumberType::F32 => "float",
        NumberType::F16 => "half",
        NumberType::U8 => "uchar",
        NumberType::I8 => "char",
    };
    let mut constants = vec![("NUMBER", number.to_owned())];
    if numbers == NumberType::F16 {
        constants.push(("HALVES", "1".to_owned()));
    }
    constants
}

/// The work groups of `scan` for some rows and queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Groups {
    /// Their number.
    pub count: usize,
    /// Work items of each.
    pub items: usize,
    /// The rows that each goes through, if queries stay in its registers.
    pub rows: Option<usize>,
}

impl Groups {
    /// The groups for vectors of so many numbers; about `wanted` of them, if there are enough rows.
    pub fn new(
        products: Products,
        dimensions: usize,
        (rows, queries): (usize, usize),
        wanted: usize,
    ) -> Self {
        match Held::of(dimensions).filter(|_| products == Products::Halves) {
            None => {
                let count = rows.div_ceil(GROUP) * queries.div_ceil(GROUP);
                Self { count, items: ITEMS, rows: None }
            }
            Some(held) => {
                let of_queries = queries.div_ceil(held.vectors()).max(1);
                // Few rows are spread over all of a device; of many each group takes enough to forget how it began.
                let of_group = (rows * of_queries / wanted.max(1)).next_multiple_of(held.passing());
                let of_group = of_group.clamp(held.passing(), held.passing() * PASSES_MAX);
                Self {
                    count: rows.div_ceil(of_group) * of_queries,
                    items: held.items(),
                    rows: Some(of_group),
                }
            }
        }
    }
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

    /// The rows of each stage if not all are searched: `count` says how many of some rows are, and `seen` of them were searched
    /// before. A stage that no limit narrows appends no more than a list holds, wherever these rows lie. Stages begin and end with
    /// groups that have some of them.
    pub fn stages_among(
        &self,
        rows: usize,
        seen: u64,
        count: impl Fn(Range<usize>) -> u64,
    ) -> Vec<Range<usize>> {
        let (mut stages, mut before, mut stage, mut of_stage) = (Vec::new(), seen, 0..0, 0);
        for first in (0..rows).step_by(GROUP) {
            let group = first..rows.min(first + GROUP);
            let of_group = count(group.clone());
            if of_group == 0 {
                continue;
            }
            let is_full = match before {
                // Nothing limits this stage, which keeps every row.
                0 => group.end - stage.start > self.first,
                _ => of_stage >= (before * (GROWTH - 1)).max(self.first.saturating_sub(GROUP) as u64),
            };
            if is_full && of_stage > 0 {
                stages.push(stage.clone());
                (before, of_stage) = (before + of_stage, 0);
            }
            if of_stage == 0 {
                stage.start = group.start;
            }
            stage.end = group.end;
            of_stage += of_group;
        }
        if of_stage > 0 {
            stages.push(stage);
        }
        stages
    }
}

/// Some queries as the device takes them.
#[derive(Debug)]
pub struct DeviceQueries {
    /// Norms; for the cosine, for which queries are normalised, 1, or 0 for a query of zeros.
    norms: Vec<f64>,
    measure: VectorMeasure,
    dimensions: usize,
    /// Query by query; normalised for the cosine.
    pub numbers: Vec<f32>,
    /// By query: its norm, and the norm of what rounding to halves takes from it.
    halved: Vec<(f64, f64)>,
}

/// What rounding to halves takes from the rows of a chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HalfError {
    /// The largest norm of a difference.
    pub norm: f64,
    /// The largest norm of a difference over that of its row.
    pub relative: f64,
}

impl HalfError {
    /// The larger of both numbers; a number that is none is the largest.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        let larger = |a: f64, b: f64| if a > b || a.is_nan() { a } else { b };
        Self { norm: larger(other.norm, self.norm), relative: larger(other.relative, self.relative) }
    }
}

/// The largest part of a product of norms that halves may take, so that they exclude enough.
pub(crate) const HALVES_WORTH: f64 = 1.0 / 256.0;
/// The error of a sum of products on matrix units for each product, as a part of the product of the norms: they cut off bits
/// below the largest part of a sum, eight units of f32 at most.
const UNIT_OF_SUM: f64 = 8.0 / (1 << 24) as f64;

/// The error of a sum of products of halves on matrix units, as a part of the product of the vectors' norms.
pub(crate) fn sum_error_of_units(dimensions: usize) -> f64 {
    (dimensions as f64 + 16.0) * UNIT_OF_SUM * (1.0 + HALVES_WORTH).powi(2)
}

impl DeviceQueries {
    /// Takes queries; `None` if the caller cancelled it.
    ///
    /// # Panics
    /// If a query has other than `dimensions` numbers.
    pub fn new<Q: AsRef<[f32]> + Sync>(
        measure: VectorMeasure,
        dimensions: usize,
        queries: &[Q],
        pieces: &mut Pieces<'_>,
    ) -> Option<Self> {
        let mut numbers = vec![0.0; queries.len() * dimensions];
        let of_piece = NUMBERS_OF_PIECE.div_ceil(dimensions.max(1));
        let parts = numbers.chunks_mut((of_piece * dimensions).max(1)).map(Mutex::new);
        let parts: Vec<_> = parts.zip(queries.chunks(of_piece)).collect();
        let of_parts = collect(pieces, parts.len(), |piece| {
            let (part, queries) = &parts[piece];
            // A part belongs to one thread.
            let mut part = part.lock().unwrap_or_else(PoisonError::into_inner);
            let of_query = |(to, query): (&mut [f32], &Q)| {
                let query = query.as_ref();
                assert_eq!(query.len(), dimensions, "numbers of a query");
                let norm = inner_product(query, query).sqrt();
                match measure == VectorMeasure::Cosine && norm > 0.0 {
                    true => to.iter_mut().zip(query).for_each(|(to, x)| *to = (f64::from(*x) / norm) as f32),
                    false => to.copy_from_slice(query),
                }
                (norm_of(measure, norm), halved_norms(to))
            };
            part.chunks_exact_mut(dimensions.max(1)).zip(*queries).map(of_query).collect::<Vec<_>>()
        })?;
        drop(parts);
        let (norms, halved) = of_parts.into_iter().flatten().unzip();
        Some(Self { norms, measure, dimensions, numbers, halved })
    }

    /// The queries as halves, for matrix units.
    pub fn halves(&self, to: &mut [u16]) {
        halves(self.dimensions, &self.numbers, to);
    }

    /// The queries, each filled up with zeros to so many numbers.
    pub fn filled_up(&self, dimensions: usize, to: &mut [f32]) {
        for (to, from) in to.chunks_exact_mut(dimensions).zip(self.numbers.chunks_exact(self.dimensions)) {
            let (of_numbers, rest) = to.split_at_mut(from.len());
            of_numbers.copy_from_slice(from);
            rest.fill(0.0);
        }
    }

    /// The largest error that halves and matrix units add to that of a value; nothing if it would exclude too little.
    pub fn error_of_halves(&self, query: usize, norm_max: f64, rows: HalfError) -> Option<f64> {
        let (norm, lost) = self.halved[query];
        // By the norms of the query and of the row, which the cosine divides by.
        let relative = rows.relative + lost / norm.max(f64::MIN_POSITIVE) * (1.0 + rows.relative);
        let is_worth = relative <= HALVES_WORTH || norm == 0.0 && rows.relative <= HALVES_WORTH;
        let of_sum = sum_error_of_units(self.dimensions);
        let error = match self.measure {
            VectorMeasure::Cosine => 1.01 * (relative.min(1.0) + of_sum),
            _ => {
                let of_rounding = norm * rows.norm + lost * (norm_max + rows.norm);
                2.0 * 1.01 * (of_rounding + of_sum * norm * norm_max)
            }
        };
        // Products of subnormal halves may count as nothing.
        let tiny = 2.0_f64.powi(-23) * self.dimensions as f64;
        let tiny = if self.measure == VectorMeasure::Cosine { 0.0 } else { tiny.min(error) };
        (is_worth && error.is_finite()).then_some(error + tiny)
    }

    /// Numbers of a query.
    pub fn dimensions(&self) -> usize {
        self.dimensions
    }

    /// Number of queries.
    pub fn len(&self) -> usize {
        self.norms.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.norms.is_empty()
    }

    /// As [`FlatQueries::value_of`](super::FlatQueries::value_of).
    pub fn value_of(&self, query: usize, distance: f64) -> f64 {
        self.measure.value_of(self.norms[query], distance)
    }

    /// As [`FlatQueries::error`](super::FlatQueries::error), whose values a device computes in another order.
    pub fn error(&self, query: usize, norm_max: f64) -> f64 {
        error_of(self.measure, self.dimensions, self.norms[query], norm_max)
    }
}

/// The terms of some rows, `base - factor * product` being the value of a row; the largest norm; and what halves take.
pub fn terms(
    measure: VectorMeasure,
    dimensions: usize,
    rows: VectorRef<'_>,
) -> (Vec<[f32; 2]>, f64, HalfError) {
    fn of<N: Number>(
        measure: VectorMeasure,
        dimensions: usize,
        rows: &[N],
    ) -> (Vec<[f32; 2]>, f64, HalfError) {
        let (mut norm_max, mut error) = (0.0_f64, HalfError::default());
        let terms = rows.chunks_exact(dimensions).map(|row| {
            let square = inner_product(row, row);
            let norm = square.sqrt();
            norm_max = if norm <= norm_max { norm_max } else { norm };
            // Whole numbers of bytes are halves.
            if !matches!(N::TYPE, NumberType::U8 | NumberType::I8) {
                let mut lost = 0.0;
                for numbers in row.chunks(AT_ONCE) {
                    let widened = widened(numbers);
                    let each = widened.iter().zip(halved(&widened)).take(numbers.len());
                    lost +=
                        each.map(|(x, rounded)| (f64::from(*x) - f64::from(rounded)).powi(2)).sum::<f64>();
                }
                let lost = lost.sqrt();
                let relative = if lost == 0.0 { 0.0 } else { lost / norm };
                error = error.max(HalfError { norm: lost, relative });
            }
            let (base, factor) = row_terms(measure, square);
            [base, factor]
        });
        (terms.collect(), norm_max, error)
    }
    with_numbers!(rows, rows => of(measure, dimensions, rows))
}

/// The term of a row that is not searched: its value is infinite, as no other is.
pub const ABSENT: [f32; 2] = [f32::INFINITY, 0.0];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pieces::one_by_one;

    #[test]
    fn groups_go_through_every_row_for_every_query() {
        for (rows, queries) in
            [(1, 1), (64, 128), (1024, 2048), (8192, 2048), (875_000, 2048), (1 << 22, 4096)]
        {
            for dimensions in [1, 128, 129, 256] {
                let groups = Groups::new(Products::Halves, dimensions, (rows, queries), GROUPS_WANTED);
                let (held, of_group) = (Held::of(dimensions).unwrap(), groups.rows.unwrap());
                assert_eq!(groups.count, rows.div_ceil(of_group) * queries.div_ceil(held.vectors()));
                assert!(of_group.is_multiple_of(held.passing()) && of_group <= PASSES_MAX * held.passing());
                assert_eq!(groups.items, held.items());
            }
            let tiles =
                Groups { count: rows.div_ceil(GROUP) * queries.div_ceil(GROUP), items: ITEMS, rows: None };
            assert_eq!(Groups::new(Products::Halves, 300, (rows, queries), GROUPS_WANTED), tiles);
            assert_eq!(
                Groups::new(Products::Single(NumberType::F32), 16, (rows, queries), GROUPS_WANTED),
                tiles
            );
        }
    }

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
    fn stages_among_some_rows_hold_each_of_them_once_and_append_no_more_than_lists_hold() {
        let rows = 200_000;
        let kinds: [fn(usize) -> bool; 5] = [
            |row| row.is_multiple_of(97),
            |row| (70_000..130_000).contains(&row),
            |row| row < 3 || row == 199_999,
            |_| false,
            |_| true,
        ];
        for (has, (k, seen)) in
            kinds.into_iter().flat_map(|has| [(1, 0), (10, 0), (10, 500), (2048, 0)].map(|of| (has, of)))
        {
            let plan = Plan::new(k);
            let count = |rows: Range<usize>| rows.filter(|row| has(*row)).count() as u64;
            let stages = plan.stages_among(rows, seen, count);
            let (mut end, mut before) = (0, seen);
            for stage in &stages {
                assert!(stage.start.is_multiple_of(GROUP) && stage.start >= end && stage.end > stage.start);
                assert_eq!(count(end..stage.start), 0, "{stages:?}");
                let of_stage = count(stage.clone());
                if before == 0 {
                    assert!(stage.len() <= plan.first, "{stages:?}");
                } else if before < k as u64 {
                    assert!(k as u64 + of_stage <= plan.capacity as u64, "{stages:?}");
                }
                (end, before) = (stage.end, before + of_stage);
            }
            assert_eq!(before, seen + count(0..rows));
            assert!(stages.len() < 12, "{stages:?}");
        }
    }

    #[test]
    fn terms_are_those_of_rows() {
        let rows = [3.0_f32, 4.0, 0.0, 0.0];
        let (found, norm, error) = terms(VectorMeasure::L2, 2, VectorRef::F32(&rows));
        assert_eq!((found, norm, error), (vec![[25.0, 2.0], [0.0, 2.0]], 5.0, HalfError::default()));
        let (.., error) = terms(VectorMeasure::L2, 2, VectorRef::F32(&[1.0, 2049.0]));
        assert!(error.norm == 1.0 && error.relative < 1.0 / 2048.0);
        let (found, ..) = terms(VectorMeasure::Cosine, 2, VectorRef::F32(&rows));
        assert_eq!(found, [[0.0, 0.2], [0.0, 0.0]]);
        let queries =
            DeviceQueries::new(VectorMeasure::Cosine, 2, &[[3.0, 4.0], [0.0, 0.0]], &mut one_by_one());
        let queries = queries.expect("no one cancels it");
        assert_eq!(queries.numbers, [0.6, 0.8, 0.0, 0.0]);
        assert!(queries.len() == 2 && !queries.is_empty());
    }
}
