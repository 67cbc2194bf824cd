//! The nearest rows of blocks of vectors, by Euclidean distance: rows lie in panels of [`PANEL`], number by number, so that
//! vector units compute the distances of one query from many rows at once.
//!
//! The fast path computes scores in f32, `|y|^2 / 2 - <x, y>`: half the squared distance but for a part that depends on the
//! query alone. Without the halves a score is `-<x, y>`, by which the largest inner products are the nearest
//! ([`Panels::of_products`]); the bound of its error is the same one. A [`Shortlist`] keeps the rows whose scores may be among the k least within the declared error, and its caller
//! ranks these in f64.
//!
//! Invariant: a shortlist has each of the k rows that are nearest by (f64 distance, number), on every code path.
//!
//! Modules in reading order: `shortlist`, `block` (the loop), `nearest` (the loop for the one nearest row),
//! `pairs` (the loop for rows that are queries too), `coded` (the one nearest row by whole numbers), `widen` (panels of fewer bits).

mod shortlist;
mod block;
mod nearest;
mod pairs;
mod coded;
mod widen;
#[cfg(test)]
mod tests;

pub(crate) use block::{QUERIES as TILE_QUERIES, scores, tiles};
pub(crate) use coded::{Coded, CodedQueries};
pub(crate) use nearest::Candidate;
pub use shortlist::Shortlist;
pub use widen::widen;

use crate::CodePath;
use crate::lanes::run;

/// Rows of a panel: two vectors of the widest kind.
pub const PANEL: usize = 32;

/// Queries whose tiles stay in the second-level cache while all panels pass.
const QUERIES_AT_ONCE: usize = 768;

/// Unit roundoff of f32.
const UNIT: f64 = 1.0 / (1u64 << 24) as f64;

/// Beyond this square of norms, scores could overflow, and every row is a candidate.
const SQUARE_MAX: f64 = 1e37;

/// Vectors of one dimension, in panels.
#[derive(Clone, Debug)]
pub struct Panels {
    dimensions: usize,
    rows: usize,
    centre: Option<Vec<f32>>,
    numbers: Vec<f32>,
    halves: Vec<f32>,
    norm_max: f64,
}

/// Panels that lie elsewhere, such as those of a file.
#[derive(Clone, Copy, Debug)]
pub struct PanelsRef<'a> {
    /// Numbers of a row.
    pub dimensions: usize,
    /// Rows; the last panel may have fewer than [`PANEL`].
    pub rows: usize,
    /// Taken off each query; the rows' numbers are without it already.
    pub centre: Option<&'a [f32]>,
    /// Number `j` of row `r` of panel `p` is at `(p * dimensions + j) * PANEL + r`; zeros where there is no row.
    pub numbers: &'a [f32],
    /// Half the squared norm of each row: see [`halves_of`]; or 0, for inner products.
    pub halves: &'a [f32],
    /// The largest norm.
    pub norm_max: f64,
}

impl Panels {
    /// Arranges rows, `dimensions` numbers each, which are finite. With a centre, it is taken off rows and queries, which
    /// makes their norms and so the error smaller.
    ///
    /// # Panics
    /// If these are no whole rows, or the centre has another number of dimensions.
    pub fn new(rows: &[f32], dimensions: usize, centre: Option<&[f32]>) -> Self {
        assert!(dimensions > 0 && rows.len().is_multiple_of(dimensions), "whole rows");
        assert!(centre.is_none_or(|centre| centre.len() == dimensions), "a centre of the rows' dimensions");
        let count = rows.len() / dimensions;
        let mut numbers = vec![0.0; count.div_ceil(PANEL) * PANEL * dimensions];
        for (row, from) in rows.chunks_exact(dimensions).enumerate() {
            let to = &mut numbers[row / PANEL * PANEL * dimensions + row % PANEL..];
            for (j, x) in from.iter().enumerate() {
                to[j * PANEL] = x - centre.map_or(0.0, |centre| centre[j]);
            }
        }
        let (halves, norm_max) = halves_of(&numbers, dimensions, count);
        Self { dimensions, rows: count, centre: centre.map(<[f32]>::to_vec), numbers, halves, norm_max }
    }

    /// Arranges rows, whose nearest are those of the largest inner products.
    ///
    /// # Panics
    /// As [`Panels::new`].
    pub fn of_products(rows: &[f32], dimensions: usize) -> Self {
        let mut panels = Self::new(rows, dimensions, None);
        panels.halves[..panels.rows].fill(0.0);
        panels
    }

    /// The largest norm of some rows without a centre.
    pub(crate) fn norm_max_of(rows: &[f32], dimensions: usize, centre: &[f32]) -> f64 {
        let mut square_max = 0.0f64;
        for row in rows.chunks_exact(dimensions) {
            let mut square = 0.0;
            for (x, y) in row.iter().zip(centre) {
                let x = f64::from(x - y);
                square += x * x;
            }
            square_max = square_max.max(square);
        }
        square_max.sqrt()
    }

    /// Borrows the panels.
    pub fn borrow(&self) -> PanelsRef<'_> {
        PanelsRef {
            dimensions: self.dimensions,
            rows: self.rows,
            centre: self.centre.as_deref(),
            numbers: &self.numbers,
            halves: &self.halves,
            norm_max: self.norm_max,
        }
    }
}

/// Half the squared norm of each row of some panels, infinite where there is no row, and the largest norm.
pub fn halves_of(numbers: &[f32], dimensions: usize, rows: usize) -> (Vec<f32>, f64) {
    let mut halves = vec![f32::INFINITY; numbers.len() / dimensions];
    let mut square_max = 0.0f64;
    for (panel, numbers) in numbers.chunks_exact(PANEL * dimensions).enumerate() {
        let mut squares = [0.0f64; PANEL];
        for numbers in numbers.as_chunks::<PANEL>().0 {
            for (square, x) in squares.iter_mut().zip(numbers) {
                *square += f64::from(*x) * f64::from(*x);
            }
        }
        for (row, square) in squares.iter().enumerate().take(rows.saturating_sub(panel * PANEL)) {
            halves[panel * PANEL + row] = (square * 0.5) as f32;
            square_max = square_max.max(*square);
        }
    }
    (halves, square_max.sqrt())
}

impl PanelsRef<'_> {
    /// Bound on the error of a score: of half the squared distance of a query of this norm from any row, but for the part that
    /// depends on the query alone.
    pub fn error_bound(&self, norm: f64) -> f64 {
        // The products and their sums, the rounding of half the square, and of rows and query when the centre is taken off.
        let roundings = (self.dimensions + 6) as f64 * UNIT;
        let sizes = (norm + self.norm_max) * (norm + self.norm_max);
        1.01 * (roundings / (1.0 - roundings).max(0.5) * sizes) + self.dimensions as f64 * 1e-37
    }

    /// An empty shortlist of the `k` nearest rows to a query.
    ///
    /// # Panics
    /// If the query has another number of dimensions.
    pub fn shortlist(&self, query: &[f32], k: usize) -> Shortlist {
        assert_eq!(query.len(), self.dimensions, "a query of the rows' dimensions");
        let norm = self.norm(query);
        let is_small = (norm + self.norm_max).powi(2) < SQUARE_MAX && self.dimensions < 1 << 22;
        Shortlist::new(k, if is_small { self.error_bound(norm) } else { f64::INFINITY })
    }

    /// As [`PanelsRef::shortlist`], for rows with true scores of at most `limit` only: half the squared distance less half the
    /// squared norm of the query, both without the centre, or the inner product with the opposite sign.
    ///
    /// # Panics
    /// As [`PanelsRef::shortlist`].
    pub fn shortlist_within(&self, query: &[f32], k: usize, limit: f64) -> Shortlist {
        let list = self.shortlist(query, k);
        // The slack is twice the error of a score, and the next number covers the rounding to f32.
        let limit = (limit + f64::from(list.slack())) as f32;
        if limit.is_nan() { list } else { list.within(limit.next_up()) }
    }

    fn norm(&self, query: &[f32]) -> f64 {
        // Partial sums side by side: one sum would wait for itself.
        let mut squares = [0.0f64; 8];
        for (first, numbers) in query.chunks(8).enumerate() {
            for (lane, x) in numbers.iter().enumerate() {
                let x = f64::from(x - self.centre.map_or(0.0, |centre| centre[first * 8 + lane]));
                squares[lane] += x * x;
            }
        }
        squares.iter().sum::<f64>().sqrt()
    }

    /// Offers all rows to the shortlists of some queries, with numbers from `first` on. The shortlists are those that
    /// [`PanelsRef::shortlist`] makes, of these panels or of panels whose norms are no smaller.
    ///
    /// # Panics
    /// If there is not a shortlist for each query, or this machine lacks the instructions.
    pub fn scan(&self, path: CodePath, queries: &[f32], lists: &mut [Shortlist], first: u32) {
        assert_eq!(queries.len(), lists.len() * self.dimensions, "a shortlist for each query");
        let blocks = queries.chunks(QUERIES_AT_ONCE * self.dimensions);
        for (queries, lists) in blocks.zip(lists.chunks_mut(QUERIES_AT_ONCE)) {
            let tiles = tiles(queries, self.dimensions, self.centre);
            let mut limits: Vec<f32> = lists.iter().map(Shortlist::limit).collect();
            limits.resize(lists.len().next_multiple_of(block::QUERIES), f32::NEG_INFINITY);
            run(path, block::Scan { panels: *self, tiles: &tiles, limits: &mut limits, lists, first });
            for list in lists.iter_mut().filter(|list| list.takes_all()) {
                (0..self.rows as u32).for_each(|row| list.offer(0.0, first + row));
            }
        }
    }

    /// The rows that may be nearest to each query, query by query, each with ascending rows; at least one for each if there
    /// is a row.
    pub(crate) fn nearest(&self, path: CodePath, queries: &[f32], found: &mut Vec<Candidate>) {
        found.clear();
        let mut slacks: Vec<f32> =
            queries.chunks_exact(self.dimensions).map(|query| self.shortlist(query, 1).slack()).collect();
        let count = slacks.len();
        slacks.resize(count.next_multiple_of(block::QUERIES), f32::NAN);
        slacks.iter_mut().filter(|slack| **slack == f32::INFINITY).for_each(|slack| *slack = f32::NAN);
        // Nothing is within a NaN.
        let mut limits: Vec<f32> =
            slacks.iter().map(|slack| if slack.is_nan() { *slack } else { f32::INFINITY }).collect();
        let tiles = tiles(queries, self.dimensions, self.centre);
        let work =
            nearest::Nearest { panels: *self, tiles: &tiles, slacks: &slacks, limits: &mut limits, found };
        run(path, work);
        found.retain(|candidate| candidate.score <= limits[candidate.query as usize]);
        for query in (0..count as u32).filter(|query| slacks[*query as usize].is_nan()) {
            found.extend((0..self.rows as u32).map(|row| Candidate { query, row, score: 0.0 }));
        }
        if !found.is_sorted_by_key(|candidate| (candidate.query, candidate.row)) {
            found.sort_unstable_by_key(|candidate| (candidate.query, candidate.row));
        }
    }

    /// The same rows, as part of more rows of this largest norm.
    pub(crate) fn with_norm_max(self, norm_max: f64) -> Self {
        Self { norm_max: self.norm_max.max(norm_max), ..self }
    }

    /// As [`PanelsRef::scan`], with the scores of [`PanelsRef::scan_both`], for the rows themselves as queries. A row is offered to
    /// its own shortlist too.
    pub(crate) fn scan_within(&self, path: CodePath, rows: &[f32], lists: &mut [Shortlist], first: u32) {
        let mut ignored: Vec<Shortlist> = lists.iter().map(|_| Shortlist::new(0, 0.0)).collect();
        self.scan_both(path, rows, [lists, &mut ignored], [first; 2]);
    }

    /// Offers all rows to the shortlists of some queries, and all queries to the shortlists of the rows, by half the squared
    /// distance. `first` are the numbers of the first query and of the first row.
    pub(crate) fn scan_both(
        &self,
        path: CodePath,
        queries: &[f32],
        [query_lists, row_lists]: [&mut [Shortlist]; 2],
        first: [u32; 2],
    ) {
        assert_eq!(queries.len(), query_lists.len() * self.dimensions, "a shortlist for each query");
        assert_eq!(row_lists.len(), self.rows, "a shortlist for each row");
        if query_lists.iter().chain(row_lists.iter()).any(Shortlist::takes_all) {
            for (query, query_list) in (first[0]..).zip(query_lists.iter_mut()) {
                for (row, row_list) in (first[1]..).zip(row_lists.iter_mut()) {
                    query_list.offer(0.0, row);
                    row_list.offer(0.0, query);
                }
            }
            return;
        }
        let tiles = tiles(queries, self.dimensions, self.centre);
        let padded = query_lists.len().next_multiple_of(block::QUERIES);
        let mut halves: Vec<f32> = queries
            .chunks_exact(self.dimensions)
            .map(|query| (self.norm(query).powi(2) * 0.5) as f32)
            .collect();
        halves.resize(padded, f32::INFINITY);
        let limits = |lists: &[Shortlist], count: usize| {
            let mut limits: Vec<f32> = lists.iter().map(Shortlist::limit).collect();
            limits.resize(count, f32::NEG_INFINITY);
            limits
        };
        let (mut of_queries, mut of_rows) =
            (limits(query_lists, padded), limits(row_lists, self.halves.len()));
        let work = pairs::Pairs {
            panels: *self,
            tiles: &tiles,
            halves: &halves,
            limits: [&mut of_queries, &mut of_rows],
            lists: [query_lists, row_lists],
            first,
        };
        run(path, work);
    }
}
