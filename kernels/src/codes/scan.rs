//! Bounds of many rows for a block of queries, and the rows that may be among the nearest.
//!
//! Several queries: the codes of most bits, in integers, by the loops of `integer`; a row that passes there is bounded again
//! in f64. Few queries: the first plane, as its bytes are fewest, with rows in the lanes; a row that passes is
//! bounded by all bits at once. Product codes have loops of their own (`product`).

use super::first_plane;
use super::nearest::CodeNearest;
use super::principal::SECOND_BITS;
use super::product::ProductQueries;
use super::query::{CodeQuery, WORDS};
use super::{Codes, GROUP, Levels, SLACK};
use crate::CodePath;
use crate::lanes::{Lanes, Work, run};
use crate::vector::VectorMeasure;
use crate::vector::integer::{
    BLOCK_ROWS, IntegerPath, NUMBERS_MAX, Panel, Rows, Sink, Weights, panels, scan,
};

/// Up to this many queries are bounded one by one, if there is a plane that bounds by itself.
const SINGLE_MAX: usize = 3;

/// Rows that the first plane bounds before the second one bounds any of them, if no range is known. More of them would take longer
/// than the second plane's bounds that they spare.
const FIRST_ROWS: usize = 1024;
const _: () = assert!(FIRST_ROWS.is_multiple_of(GROUP));

/// The largest number of a plane.
const NUMBER_4_MAX: u8 = 15;

/// Some queries over codes, packed for the instructions of one path.
#[derive(Debug)]
pub struct CodeQueries {
    path: CodePath,
    integer: IntegerPath,
    queries: Vec<CodeQuery>,
    /// Empty if the queries are bounded one by one.
    panels: Vec<Panel>,
    /// Whether queries are bounded by both planes at once.
    is_8: bool,
    levels: Levels,
    /// The tables of queries for product codes.
    product: Option<ProductQueries>,
}

impl CodeQueries {
    /// Packs queries for some codes.
    ///
    /// # Panics
    /// If this machine lacks the instructions, a query has another number of dimensions than the codes, or these have more than
    /// 65,536: sums of their products would not fit 32 bits.
    pub fn new(path: CodePath, codes: &Codes, queries: &[&[f32]]) -> Self {
        assert!(path.is_available(), "this machine has no {path} instructions");
        let encoder = codes.encoder();
        let (levels, dimensions) = (encoder.levels(), encoder.centre().len());
        assert!(
            dimensions <= NUMBERS_MAX,
            "{dimensions} numbers of a row, of which there may be {NUMBERS_MAX}"
        );
        let is_single = levels.has_first() && queries.len() <= SINGLE_MAX;
        let is_8 = levels.has_both() && !is_single;
        // The fields of codes along principal directions have few bits where there is little to lose.
        let integer = match encoder.principal() {
            Some(_) => IntegerPath::of(path),
            None => IntegerPath::of_bytes(path, if is_8 { u8::MAX } else { 2 * NUMBER_4_MAX }),
        };
        if let Some(codebook) = encoder.codebook() {
            let each = queries.iter().map(|query| CodeQuery::of_numbers(encoder, query));
            let (queries, moved) = each.unzip();
            let product = Some(ProductQueries::new(path, codebook, moved));
            return Self { path, integer, queries, panels: Vec::new(), is_8, levels, product };
        }
        let queries: Vec<CodeQuery> =
            queries.iter().map(|query| CodeQuery::new(encoder, path, query, is_single)).collect();
        let fields = queries.first().map_or(dimensions, |query| query.high.len());
        let weights: Vec<Weights<'_>> = queries
            .iter()
            .map(|query| Weights {
                weights: &query.high,
                offset: query.offset(is_8),
                scale: query.scale as f32,
                reach: query.reach(),
            })
            .collect();
        let panels = if is_single { Vec::new() } else { panels(integer, fields, &weights) };
        Self { path, integer, queries, panels, is_8, levels, product: None }
    }

    /// Number of queries.
    pub fn len(&self) -> usize {
        self.queries.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.queries.is_empty()
    }

    /// Whether the first plane bounds rows alone, before all bits do.
    pub fn has_two_levels(&self) -> bool {
        self.panels.is_empty() && self.levels.has_both()
    }

    /// The levels of the codes.
    pub fn levels(&self) -> Levels {
        self.levels
    }

    /// Adds some rows of the codes to the nearest of each query, in whole groups; rows that `skips` names are left out.
    ///
    /// # Panics
    /// If the first row begins no group, or there are not as many lists as queries.
    pub fn scan(
        &self,
        codes: &Codes,
        rows: std::ops::Range<usize>,
        skips: Option<&dyn Fn(u32) -> bool>,
        nearest: &mut [CodeNearest],
    ) {
        assert!(rows.start.is_multiple_of(GROUP) && rows.end <= codes.len(), "whole groups");
        assert_eq!(nearest.len(), self.len(), "a list for each query");
        if let Some(product) = &self.product {
            return product.scan(self.path, codes, &self.queries, rows, skips, nearest);
        }
        if self.panels.is_empty() {
            for (query, nearest) in self.queries.iter().zip(nearest) {
                let mut rows = rows.clone();
                if self.has_two_levels() && nearest.range() == f64::INFINITY {
                    let first = rows.start..rows.end.min(rows.start + FIRST_ROWS);
                    rows.start = first.end;
                    begin(self.path, codes, query, first, skips, nearest);
                }
                // Rows are taken by whole groups, of which the first rows may have been the last one.
                if rows.is_empty() {
                    continue;
                }
                first_plane::scan(
                    self.path,
                    codes,
                    query,
                    rows,
                    &mut |row, sum, nearest| {
                        if skips.is_some_and(|skips| skips(row as u32)) {
                            return;
                        }
                        bound(self.path, codes, query, row, sum, nearest);
                    },
                    nearest,
                );
            }
            return;
        }
        self.blocks(codes, rows, skips, nearest);
    }

    fn blocks(
        &self,
        codes: &Codes,
        rows: std::ops::Range<usize>,
        skips: Option<&dyn Fn(u32) -> bool>,
        nearest: &mut [CodeNearest],
    ) {
        let (mut block, mut limits, mut bytes) = (Rows::default(), Vec::new(), Vec::new());
        let fields = self.queries.first().map_or(0, |query| query.high.len());
        let has_norms = codes.encoder().measure() != VectorMeasure::InnerProduct;
        let mut first = rows.start;
        while first < rows.end {
            let upto = rows.end.min(first + BLOCK_ROWS);
            block.clear();
            for row in first..upto {
                let triple = codes.triple(row, self.is_8);
                let norm = f64::from(triple.along).powi(2) + f64::from(triple.height).powi(2);
                let base = match has_norms {
                    true => (norm * (1.0 - SLACK)) as f32,
                    false => base_of_shift(codes.shift(row)),
                };
                let factor = (2.0 * f64::from(triple.inverse) * f64::from(triple.along)) as f32;
                codes.bytes(row, self.is_8, &mut bytes);
                block.push(self.integer, &bytes[..fields], [base, factor, triple.height]);
            }
            for panel in &self.panels {
                let of_panel = panel.first..panel.first + panel.count;
                let (queries, nearest) = (&self.queries[of_panel.clone()], &mut nearest[of_panel]);
                limits.clear();
                let limit = |(query, nearest): (&CodeQuery, &CodeNearest)| {
                    query.limit(nearest.range(), codes.norm_max())
                };
                limits.extend(queries.iter().zip(&*nearest).map(limit));
                let mut sink = Bounds { codes, queries, skips, first, is_8: self.is_8, nearest };
                scan(self.integer, panel, &block, &mut limits, &mut sink);
            }
            first = upto;
        }
    }
}

/// The part of a comparison that a row's shift makes, from below.
pub(super) fn base_of_shift(shift: f32) -> f32 {
    -2.0 * (shift + SLACK as f32 * shift.abs())
}

/// Bounds the first rows, of which nothing is known: their upper bounds by the first plane limit the range before the first row
/// is bounded by all its bits.
fn begin(
    path: CodePath,
    codes: &Codes,
    query: &CodeQuery,
    rows: std::ops::Range<usize>,
    skips: Option<&dyn Fn(u32) -> bool>,
    nearest: &mut CodeNearest,
) {
    let mut sums = Vec::with_capacity(rows.len());
    let mut give = |row: usize, sum: i64, _: &mut CodeNearest| {
        if !skips.is_some_and(|skips| skips(row as u32)) {
            sums.push((row, sum));
        }
    };
    first_plane::scan(path, codes, query, rows, &mut give, nearest);
    let upper = |(row, sum): &(usize, i64)| {
        let triple = codes.triple(*row, false);
        query.bounds(query.along(*sum, false, triple.inverse), triple, codes.shift(*row)).1
    };
    nearest.limit(sums.iter().map(upper).collect());
    for (row, sum) in sums {
        bound(path, codes, query, row, sum, nearest);
    }
}

/// Bounds a row by all its bits, given the sum of its first plane.
fn bound(path: CodePath, codes: &Codes, query: &CodeQuery, row: usize, sum: i64, nearest: &mut CodeNearest) {
    let (triple, shift) = (codes.triple(row, false), codes.shift(row));
    let (lower, upper) = query.bounds(query.along(sum, false, triple.inverse), triple, shift);
    if lower > nearest.range() {
        return;
    }
    if !codes.encoder().levels().has_both() {
        nearest.push(lower, upper, row as u32);
        return;
    }
    nearest.pass();
    // 8 bits are 16 times the first plane plus the second; the first one's sum is of its numbers doubled.
    // Along directions, 2 bits and a half likewise.
    let (words, weights) = (codes.low(row), &query.by_place[..]);
    let second = match codes.encoder().principal() {
        None => run(path, SecondPlane::<4> { words, weights }),
        Some(_) => run(path, SecondPlane::<SECOND_BITS> { words, weights }),
    };
    let sum = 8 * sum + second;
    let triple = codes.triple(row, true);
    let (lower_8, upper_8) = query.bounds(query.along(sum, true, triple.inverse), triple, shift);
    nearest.push(lower.max(lower_8), upper.min(upper_8), row as u32);
}

/// The sum of products of a row's second plane, of so many bits a number, with the whole numbers of a query.
struct SecondPlane<'a, const BITS: usize> {
    words: &'a [u32],
    /// For each place of a word, a number for each word.
    weights: &'a [Vec<i32>],
}

impl<const BITS: usize> Work for SecondPlane<'_, BITS> {
    type Done = i64;

    // In plain loops, which the compiler vectorises for the path.
    #[inline(always)]
    fn run<L: Lanes>(self, _: L) -> i64 {
        let mut total = 0;
        let mut first = 0;
        while first < self.words.len() {
            let mut words = [0; WORDS];
            let known = WORDS.min(self.words.len() - first);
            match self.words[first..].first_chunk() {
                Some(all) => words = *all,
                None => words[..known].copy_from_slice(&self.words[first..]),
            }
            let mut sums = [0_i32; WORDS];
            for (place, weights) in self.weights.iter().enumerate() {
                let weights = &weights[first..first + WORDS];
                for lane in 0..WORDS {
                    sums[lane] += (words[lane] >> (BITS * place) & ((1 << BITS) - 1)) as i32 * weights[lane];
                }
            }
            for sum in sums {
                total += i64::from(sum);
            }
            first += WORDS;
        }
        total
    }
}

struct Bounds<'a> {
    codes: &'a Codes,
    queries: &'a [CodeQuery],
    skips: Option<&'a dyn Fn(u32) -> bool>,
    first: usize,
    is_8: bool,
    nearest: &'a mut [CodeNearest],
}

impl Sink for Bounds<'_> {
    #[cold]
    fn take(&mut self, query: usize, row: usize, sum: i32, limits: &mut [f32]) {
        let (row, query_idx) = (self.first + row, query);
        if self.skips.is_some_and(|skips| skips(row as u32)) {
            return;
        }
        let (query, triple) = (&self.queries[query_idx], self.codes.triple(row, self.is_8));
        // The offset was taken off the sum already.
        let along = f64::from(sum) * query.scale * f64::from(triple.inverse);
        let (lower, upper) = query.bounds(along, triple, self.codes.shift(row));
        let nearest = &mut self.nearest[query_idx];
        if nearest.push(lower, upper, row as u32) {
            limits[query_idx] = query.limit(nearest.range(), self.codes.norm_max());
        }
    }
}
