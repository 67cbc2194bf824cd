//! The exact distances that blocks bring back, query by query.

use boxwork_kernels::vector::{Nearest, VectorMeasure, exact, inner_product};

use super::super::block::VectorBlock;
use super::super::candidates::Candidates;
use super::super::numbers::Numbers;

/// How sums become distances of some queries.
pub(super) struct Rule {
    measure: VectorMeasure,
    /// The inner product of each query with itself, for the cosine.
    squares: Vec<f64>,
}

/// The distances that are known so far, query by query.
pub(super) struct Known {
    rule: Rule,
    of_query: Vec<OfQuery>,
}

/// The distances of a query that are known so far.
#[derive(Clone, Default)]
pub(super) struct OfQuery {
    /// Rows and distances. Of each block they are the nearest, if the device ranks.
    rows: Vec<(u32, f64)>,
    /// Distances that devices have computed.
    computed: u64,
    /// Whether rows were listed without a distance.
    has_gaps: bool,
}

impl OfQuery {
    /// Takes those of a block, of which so many rows came back.
    pub(super) fn take_over(&mut self, came: usize, computed: u64, known: impl Iterator<Item = (u32, f64)>) {
        let before = self.rows.len();
        self.rows.reserve_exact(came);
        self.rows.extend(known);
        let has_gaps = self.rows.len() - before < came;
        self.computed += if has_gaps { (self.rows.len() - before) as u64 } else { computed };
        self.has_gaps |= has_gaps;
    }

    /// Whether rows were listed without a distance.
    pub(super) fn has_gaps(&self) -> bool {
        self.has_gaps
    }
}

impl Rule {
    /// The rows and distances of a query at a place in a block.
    pub(super) fn distances(
        &self,
        block: &VectorBlock,
        place: usize,
        query: usize,
    ) -> impl Iterator<Item = (u32, f64)> {
        let (measure, square) = (self.measure, self.squares[query]);
        block.sums(place).filter_map(move |(row, sums)| {
            exact::distance(measure, square, sums).map(|distance| (row as u32, distance))
        })
    }
}

impl Known {
    pub(super) fn new(measure: VectorMeasure, queries: &Numbers) -> Self {
        let square = |query: usize| match measure {
            VectorMeasure::Cosine => inner_product(queries.of(query), queries.of(query)),
            _ => 0.0,
        };
        let squares = (0..queries.len()).map(square).collect();
        Self { rule: Rule { measure, squares }, of_query: vec![OfQuery::default(); queries.len()] }
    }

    /// The distance of the first entry of a query in a block, if it was computed.
    pub(super) fn first_of(&self, block: &VectorBlock, place: usize, query: usize) -> Option<f64> {
        let (_, sums) = block.sums(place).next()?;
        exact::distance(self.rule.measure, self.rule.squares[query], sums)
    }

    /// The rule, and the distances of all queries.
    pub(super) fn parts(&mut self) -> (&Rule, &mut [OfQuery]) {
        (&self.rule, &mut self.of_query)
    }

    /// Slots have listed rows of a query, without their distances.
    pub(super) fn has_gaps(&mut self, query: usize) {
        self.of_query[query].has_gaps = true;
    }

    /// The candidates of a query, given those by values; takes its distances.
    pub(super) fn candidates(&mut self, query: usize, nearest: Nearest) -> Candidates {
        let OfQuery { rows, computed, has_gaps } = std::mem::take(&mut self.of_query[query]);
        match has_gaps {
            true => Candidates::new(nearest, rows),
            false => Candidates::known(Some(nearest), rows, computed),
        }
    }
}
