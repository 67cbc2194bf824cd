//! The exact distances that blocks bring back, query by query.

use boxwork_kernels::vector::{VectorMeasure, exact, inner_product};

use super::super::block::VectorBlock;

/// How sums become distances of some queries.
pub(super) struct Rule {
    measure: VectorMeasure,
    /// The inner product of each query with itself, for the cosine.
    squares: Vec<f64>,
}

/// The distances that are known so far, query by query.
pub(super) struct Known {
    rule: Rule,
    /// Rows and distances.
    of_query: Vec<Vec<(u32, f64)>>,
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
    pub(super) fn new(measure: VectorMeasure, queries: &[Vec<f32>]) -> Self {
        let square = |query: &Vec<f32>| match measure {
            VectorMeasure::Cosine => inner_product(query, query),
            _ => 0.0,
        };
        let squares = queries.iter().map(square).collect();
        Self { rule: Rule { measure, squares }, of_query: vec![Vec::new(); queries.len()] }
    }

    /// The distance of the first entry of a query in a block, if it was computed.
    pub(super) fn first_of(&self, block: &VectorBlock, place: usize, query: usize) -> Option<f64> {
        let (_, sums) = block.sums(place).next()?;
        exact::distance(self.rule.measure, self.rule.squares[query], sums)
    }

    /// The rule, and the distances of all queries.
    pub(super) fn parts(&mut self) -> (&Rule, &mut [Vec<(u32, f64)>]) {
        (&self.rule, &mut self.of_query)
    }

    /// Takes the distances of a query.
    pub(super) fn take(&mut self, query: usize) -> Vec<(u32, f64)> {
        std::mem::take(&mut self.of_query[query])
    }
}
