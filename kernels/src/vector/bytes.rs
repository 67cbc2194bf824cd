//! Inner products of a block of queries with rows of bytes, in integers: no error at all.
//!
//! The instructions multiply bytes with signed bytes. Rows of u8 are bytes, and 128 is taken off the numbers of their
//! queries; the sum of a row's bytes, times 128, is added back in the row's base. Rows of i8 get 128 added; the sum of the
//! query's numbers, times 128, is taken off as its offset.
//!
//! Invariant: a value of l2 and ip is a whole number without an error; one of the cosine has the error of some roundings of
//! f64.

use super::integer::{BLOCK_ROWS, IntegerPath, NUMBERS_MAX, Panel, Rows, Sink, UNIT, Weights, panels, scan};
use super::measure::VectorMeasure;
use super::nearest::Nearest;
use crate::CodePath;
use crate::numbers::{NumberType, VectorRef};

/// Between a byte and a signed byte.
const SHIFT: i32 = 128;
/// Up to this many dimensions every number of a comparison is a whole one below 2^24, which f32 holds without an error.
const EXACT_DIMENSIONS_MAX: usize = 258;
const _: () = assert!(EXACT_DIMENSIONS_MAX * 255 * 255 < 1 << 24);

/// Some queries of bytes, packed for the instructions of one path.
#[derive(Debug)]
pub struct ByteQueries {
    path: IntegerPath,
    measure: VectorMeasure,
    dimensions: usize,
    is_signed: bool,
    /// Norms, by which cosines have errors.
    norms: Vec<f64>,
    panels: Vec<Panel>,
}

impl ByteQueries {
    /// Packs queries for rows of a type; `None` if that is none of bytes, or a number of a query is not of it.
    ///
    /// # Panics
    /// If a query has other than `dimensions` numbers.
    pub fn new(
        path: CodePath,
        measure: VectorMeasure,
        rows: NumberType,
        dimensions: usize,
        queries: &[&[f32]],
    ) -> Option<Self> {
        let is_signed = rows == NumberType::I8;
        if !is_signed && rows != NumberType::U8 || dimensions > NUMBERS_MAX / 2 {
            return None;
        }
        let byte = |number: &f32| match is_signed {
            true => (f32::from(*number as i8) == *number).then_some(*number as i8),
            false => {
                let byte = *number as u8;
                (f32::from(byte) == *number).then_some((i32::from(byte) - SHIFT) as i8)
            }
        };
        let (mut all, mut norms) = (Vec::new(), Vec::new());
        for query in queries {
            assert_eq!(query.len(), dimensions, "numbers of a query");
            all.push(query.iter().map(byte).collect::<Option<Vec<i8>>>()?);
            norms.push(query.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt());
        }
        let offset = |weights: &[i8]| match is_signed {
            true => SHIFT * weights.iter().map(|weight| i32::from(*weight)).sum::<i32>(),
            false => 0,
        };
        let weights = |weights| Weights { weights, offset: offset(weights), scale: 1.0, reach: 0.0 };
        let weights: Vec<Weights<'_>> = all.iter().map(|query| weights(query.as_slice())).collect();
        let path = IntegerPath::of_bytes(path, u8::MAX);
        let panels = panels(path, dimensions, &weights);
        Some(Self { path, measure, dimensions, is_signed, norms, panels })
    }

    /// The value of a row at a distance from a query, from above: [`Nearest`] begins with it where farther rows do not matter.
    pub fn value_of(&self, query: usize, distance: f64) -> f64 {
        self.measure.value_of(self.norms[query], distance)
    }

    /// Adds rows to the nearest of each query. A value is the squared distance less the query's squared norm, twice the
    /// opposite of the inner product, or the opposite of the cosine times the query's norm. The first row is element
    /// `first`; rows that `skips` names are left out.
    ///
    /// # Panics
    /// If the numbers are not whole rows or not of the type of the queries' rows, or there are not as many lists as queries.
    pub fn scan(
        &self,
        rows: VectorRef<'_>,
        first: u32,
        skips: Option<&dyn Fn(u32) -> bool>,
        nearest: &mut [Nearest],
    ) {
        assert_eq!(nearest.len(), self.norms.len(), "a list for each query");
        assert!(rows.len().is_multiple_of(self.dimensions), "whole rows");
        if self.measure == VectorMeasure::Cosine {
            // Roundings of the value, and of the f64 distance that ranks it.
            let errors = nearest.iter_mut().zip(&self.norms);
            errors.for_each(|(nearest, norm)| nearest.raise_error(8.0 * f64::EPSILON * norm));
        }
        let mut bytes = Vec::new();
        match rows {
            VectorRef::U8(rows) if !self.is_signed => {
                for (block, rows) in rows.chunks(BLOCK_ROWS * self.dimensions).enumerate() {
                    self.block(rows, first + (block * BLOCK_ROWS) as u32, skips, nearest);
                }
            }
            VectorRef::I8(rows) if self.is_signed => {
                for (block, rows) in rows.chunks(BLOCK_ROWS * self.dimensions).enumerate() {
                    bytes.clear();
                    bytes.extend(rows.iter().map(|number| number.cast_unsigned() ^ SHIFT as u8));
                    self.block(&bytes, first + (block * BLOCK_ROWS) as u32, skips, nearest);
                }
            }
            _ => panic!("rows of the type of the queries"),
        }
    }

    /// Adds a block of rows, of which those of i8 have 128 added.
    fn block(&self, bytes: &[u8], first: u32, skips: Option<&dyn Fn(u32) -> bool>, nearest: &mut [Nearest]) {
        let (mut rows, mut limits, mut bases) = (Rows::default(), Vec::new(), Vec::new());
        for row in bytes.chunks_exact(self.dimensions) {
            let base = self.base(row);
            let of_row = (base.of_sum as f64 * base.factor + base.square as f64) as f32;
            rows.push(self.path, row, [of_row, -base.factor as f32, 0.0]);
            bases.push(base);
        }
        let slack = self.slack();
        for panel in &self.panels {
            let nearest = &mut nearest[panel.first..panel.first + panel.count];
            limits.clear();
            limits.extend(nearest.iter().map(|nearest| limit(nearest, slack)));
            let mut sink = Bytes { first, skips, bases: &bases, slack, nearest };
            scan(self.path, panel, &rows, &mut limits, &mut sink);
        }
    }

    fn base(&self, row: &[u8]) -> Base {
        let sum: i64 = row.iter().map(|byte| u32::from(*byte)).sum::<u32>().into();
        let square = || -> i64 {
            match self.is_signed {
                true => row.iter().map(|byte| (i32::from(*byte) - SHIFT).pow(2)).sum::<i32>().into(),
                false => row.iter().map(|byte| u32::from(*byte).pow(2)).sum::<u32>().into(),
            }
        };
        let of_sum = if self.is_signed { 0 } else { i64::from(SHIFT) * sum };
        match self.measure {
            VectorMeasure::L2 => Base { of_sum, factor: -2.0, square: square() },
            VectorMeasure::InnerProduct => Base { of_sum, factor: -2.0, square: 0 },
            // By a vector of zeros the cosine is 0.
            VectorMeasure::Cosine => match square() {
                0 => Base { of_sum, factor: 0.0, square: 0 },
                square => Base { of_sum, factor: -1.0 / (square as f64).sqrt(), square: 0 },
            },
        }
    }

    /// The largest error of a comparison in f32.
    fn slack(&self) -> f64 {
        let dimensions = self.dimensions as f64;
        match self.measure {
            // The parts of a cosine are at most 255 times the root of the dimensions.
            VectorMeasure::Cosine => 16.0 * UNIT * 2.0 * 255.0 * dimensions.sqrt(),
            _ if self.dimensions <= EXACT_DIMENSIONS_MAX => 0.0,
            _ => 16.0 * UNIT * 4.0 * 65_025.0 * dimensions,
        }
    }
}

/// A row's part of a value, which is `factor (of_sum + sum) + square`.
#[derive(Clone, Copy, Debug)]
struct Base {
    of_sum: i64,
    factor: f64,
    square: i64,
}

fn limit(nearest: &Nearest, slack: f64) -> f32 {
    let limit = nearest.limit() + slack;
    let near = limit as f32;
    if f64::from(near) < limit { near.next_up() } else { near }
}

struct Bytes<'a> {
    first: u32,
    skips: Option<&'a dyn Fn(u32) -> bool>,
    bases: &'a [Base],
    slack: f64,
    nearest: &'a mut [Nearest],
}

impl Sink for Bytes<'_> {
    #[cold]
    fn take(&mut self, query: usize, row: usize, sum: i32, limits: &mut [f32]) {
        let element = self.first + row as u32;
        if self.skips.is_some_and(|skips| skips(element)) {
            return;
        }
        let Base { of_sum, factor, square } = self.bases[row];
        let value = factor * (of_sum + i64::from(sum)) as f64 + square as f64;
        if self.nearest[query].push(value, element) {
            limits[query] = limit(&self.nearest[query], self.slack);
        }
    }
}
