//! The numbers of queries, query after query: thousands of queries are one piece of memory.

use std::ops::Range;
use std::sync::Arc;

/// Queries of equal length, which may be some rows of others.
pub(in crate::index) struct Numbers {
    dimensions: usize,
    all: Arc<Vec<f32>>,
    rows: Range<usize>,
}

impl Numbers {
    /// Queries of so many numbers each.
    pub(in crate::index) fn new(dimensions: usize, all: Arc<Vec<f32>>) -> Self {
        let rows = 0..all.len() / dimensions.max(1);
        Self::of_rows(dimensions, all, rows)
    }

    /// Some rows, of so many numbers each, as queries.
    pub(in crate::index) fn of_rows(dimensions: usize, all: Arc<Vec<f32>>, rows: Range<usize>) -> Self {
        Self { dimensions, all, rows }
    }

    /// Numbers of a query.
    pub(super) fn dimensions(&self) -> usize {
        self.dimensions
    }

    /// The number of queries.
    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The numbers of a query.
    pub(super) fn of(&self, query: usize) -> &[f32] {
        self.part(query..query + 1)
    }

    /// The numbers of some queries, query after query.
    pub(super) fn part(&self, queries: Range<usize>) -> &[f32] {
        let (first, end) = (self.rows.start + queries.start, self.rows.start + queries.end);
        &self.all[first * self.dimensions..end * self.dimensions]
    }

    /// The numbers of each of some queries.
    pub(super) fn each(&self, queries: Range<usize>) -> Vec<&[f32]> {
        queries.map(|query| self.of(query)).collect()
    }
}
