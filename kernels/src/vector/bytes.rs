//! Distances of a block of queries from rows of bytes, in integers: no error at all.
//!
//! Queries of whole numbers from 0 to 255 have 128 taken off, so that they are signed bytes; the sum of a row's bytes, times
//! 128, is added back in the row's base.

use super::integer::{BLOCK_ROWS, IntegerPath, NUMBERS_MAX, Panel, Rows, Sink, UNIT, Weights, panels, scan};
use super::measure::VectorMeasure;
use super::nearest::Nearest;
use crate::CodePath;

/// Taken off a query's numbers.
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
    count: usize,
    panels: Vec<Panel>,
}

impl ByteQueries {
    /// Packs queries; `None` if a number of one is no byte, or the measure has no integers.
    ///
    /// # Panics
    /// If a query has other than `dimensions` numbers.
    pub fn new(
        path: CodePath,
        measure: VectorMeasure,
        dimensions: usize,
        queries: &[&[f32]],
    ) -> Option<Self> {
        if measure == VectorMeasure::Cosine || dimensions > NUMBERS_MAX / 2 {
            return None;
        }
        let mut all = Vec::new();
        for query in queries {
            assert_eq!(query.len(), dimensions, "numbers of a query");
            let byte = |number: &f32| {
                let byte = *number as u8;
                (f32::from(byte) == *number).then_some((i32::from(byte) - SHIFT) as i8)
            };
            all.push(query.iter().map(byte).collect::<Option<Vec<i8>>>()?);
        }
        let weights: Vec<Weights<'_>> =
            all.iter().map(|weights| Weights { weights, offset: 0, scale: 1.0, reach: 0.0 }).collect();
        let path = IntegerPath::of(path);
        let panels = panels(path, dimensions, &weights);
        Some(Self { path, measure, dimensions, count: queries.len(), panels })
    }

    /// Adds rows to the nearest of each query, with values as those of [`FlatQueries`](super::FlatQueries), but without an
    /// error. The first row is element `first`; rows that `skips` names are left out.
    ///
    /// # Panics
    /// If the bytes are not whole rows, or there are not as many lists as queries.
    pub fn scan(
        &self,
        bytes: &[u8],
        first: u32,
        skips: Option<&dyn Fn(u32) -> bool>,
        nearest: &mut [Nearest],
    ) {
        assert_eq!(nearest.len(), self.count, "a list for each query");
        assert!(bytes.len().is_multiple_of(self.dimensions), "whole rows");
        let slack = match self.dimensions <= EXACT_DIMENSIONS_MAX {
            true => 0.0,
            false => 16.0 * UNIT * 4.0 * 65_025.0 * self.dimensions as f64,
        };
        let (mut rows, mut limits) = (Rows::default(), Vec::new());
        let mut bases: Vec<i64> = Vec::new();
        for (block, bytes) in bytes.chunks(BLOCK_ROWS * self.dimensions).enumerate() {
            rows.clear();
            bases.clear();
            for row in bytes.chunks_exact(self.dimensions) {
                let sum: i64 = row.iter().map(|byte| u32::from(*byte)).sum::<u32>().into();
                let mut base = -2 * i64::from(SHIFT) * sum;
                if self.measure == VectorMeasure::L2 {
                    base += i64::from(row.iter().map(|byte| u32::from(*byte).pow(2)).sum::<u32>());
                }
                bases.push(base);
                rows.bases.push(base as f32);
                rows.factors.push(2.0);
                rows.heights.push(0.0);
                self.path.pack(row, &mut rows.words);
            }
            let first = first + (block * BLOCK_ROWS) as u32;
            for panel in &self.panels {
                let nearest = &mut nearest[panel.first..panel.first + panel.count];
                limits.clear();
                limits.extend(nearest.iter().map(|nearest| limit(nearest, slack)));
                let mut sink = Bytes { first, skips, bases: &bases, slack, nearest };
                scan(self.path, panel, &rows, &mut limits, &mut sink);
            }
        }
    }
}

fn limit(nearest: &Nearest, slack: f64) -> f32 {
    let limit = nearest.limit() + slack;
    let near = limit as f32;
    if f64::from(near) < limit { near.next_up() } else { near }
}

struct Bytes<'a> {
    first: u32,
    skips: Option<&'a dyn Fn(u32) -> bool>,
    bases: &'a [i64],
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
        let value = (self.bases[row] - 2 * i64::from(sum)) as f64;
        if self.nearest[query].push(value, element) {
            limits[query] = limit(&self.nearest[query], self.slack);
        }
    }
}
