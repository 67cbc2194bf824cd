//! What the device's kernel (`device.cl`) is given: its constants, a query's numbers, and what is taken off for
//! what a device may do beyond the loops of a processor.
//!
//! | bound | may go wrong on a device, and not here | taken off besides |
//! |---|---|---|
//! | simplex | a root: OpenCL allows 3 units in the last place, of at most twice the largest distance `M` | `2^-20 M` |
//! | all | numbers below the normal ones (1.2e-38) count as 0, in up to 129 squares under a root | `2^-58` |
//!
//! Differences, products and sums are rounded as here, or less often (`fma`).

use super::query::BoundQuery;
use super::{Bound, PACKED_OBJECTS};

/// The kernel's text.
pub const TEXT: &str = include_str!("device.cl");

/// Pivots whose distances a work item holds at once, and as many again, for the bounds by pairs.
const TILE: usize = 8;

/// Blocks that a group bounds at once: each number of the query is read once for so many objects, and so many columns
/// are under way from memory.
const HELD: usize = 2;

/// What flushing numbers below the normal ones to 0 may do to a bound.
const FLUSHED: f64 = 1.0 / (1u64 << 58) as f64;

/// How the kernel is compiled for a bound and a number of columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    bound: Bound,
    numbers: usize,
    held: usize,
}

impl Shape {
    /// The shape for the columns that a bound reads: one each pivot, or each number of an apex.
    pub fn new(bound: Bound, columns: usize) -> Self {
        Self { bound, numbers: columns, held: HELD }
    }

    /// The same with another number of blocks for a group: for measuring.
    ///
    /// # Panics
    /// When a group would have no block.
    #[must_use]
    pub fn split(self, held: usize) -> Self {
        assert!(held > 0, "a group that bounds something");
        Self { held, ..self }
    }

    /// The constants that the text is compiled with.
    pub fn constants(&self) -> Vec<(&'static str, String)> {
        let numbers =
            [("NUMBERS", self.numbers), ("ITEMS", PACKED_OBJECTS), ("HELD", self.held), ("TILE", TILE)];
        let name = match self.bound {
            Bound::Triangular => "TRIANGULAR",
            Bound::Ptolemaic => "PTOLEMAIC",
            Bound::Combined => "COMBINED",
            Bound::Simplex => "SIMPLEX",
        };
        numbers.into_iter().chain([(name, 1)]).map(|(name, value)| (name, value.to_string())).collect()
    }

    /// The bound.
    pub fn bound(&self) -> Bound {
        self.bound
    }

    /// Columns of a block.
    pub fn columns(&self) -> usize {
        self.numbers
    }

    /// Work items of a group, each of which bounds an object of each block.
    pub fn items(&self) -> usize {
        PACKED_OBJECTS
    }

    /// Groups for so many blocks.
    pub fn groups(&self, blocks: usize) -> usize {
        blocks.div_ceil(self.held)
    }

    /// Fours of numbers that pairs of pivots take, for each query.
    pub fn pairs(&self) -> usize {
        if matches!(self.bound, Bound::Triangular | Bound::Simplex) {
            return 0;
        }
        let tiles = self.numbers.div_ceil(TILE);
        tiles * (tiles + 1) / 2 * TILE * TILE
    }
}

/// What is taken off the bounds of one query on a device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DeviceSlack {
    /// Off lower bounds by triangles or apexes, on upper ones.
    pub slack: f32,
    /// Off lower bounds by pairs of pivots.
    pub pairs: f32,
}

impl BoundQuery {
    /// Appends the query's numbers and what its pairs say (four numbers each, [`Shape::pairs`] of them, tile after
    /// tile) as the kernel reads them.
    ///
    /// # Panics
    /// When the shape is of another bound or another number of columns.
    pub fn device_numbers(&self, shape: &Shape, numbers: &mut Vec<f32>, pairs: &mut Vec<f32>) {
        assert_eq!((shape.bound, shape.numbers), (self.bound, self.numbers.len()), "a query of the shape");
        numbers.extend_from_slice(&self.numbers);
        let first = pairs.len();
        // A pair that is not there says that a distance is at least 0.
        pairs.resize(first + 4 * shape.pairs(), 0.0);
        if shape.pairs() == 0 {
            return;
        }
        let tiles = shape.numbers.div_ceil(TILE);
        for pair in &self.pairs {
            let (p, s) = (pair.p as usize, pair.s as usize);
            let (row, column) = (p / TILE, s / TILE);
            // Rows of tiles above this one have one tile less each.
            let tile = row * tiles - row * row.saturating_sub(1) / 2 + column - row;
            let place = first + 4 * (tile * TILE * TILE + p % TILE * TILE + s % TILE);
            pairs[place..place + 3].copy_from_slice(&[pair.query_p, pair.query_s, pair.slack]);
        }
    }

    /// What the kernel takes off.
    pub fn device_slack(&self) -> DeviceSlack {
        let root = if self.bound == Bound::Simplex { 2f64.powi(-20) * self.largest } else { 0.0 };
        let up = |number: f64| (number * (1.0 + 2f64.powi(-20))) as f32;
        DeviceSlack {
            slack: up(f64::from(self.slack) + root + FLUSHED),
            pairs: up(f64::from(self.pairs_slack) + FLUSHED),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Simplex, TableErrors};
    use super::*;

    /// Pivots on a line, one apart.
    fn query(bound: Bound, pivots: usize) -> BoundQuery {
        let between: Vec<f64> =
            (0..pivots * pivots).map(|at| (at / pivots).abs_diff(at % pivots) as f64).collect();
        let distances: Vec<f64> = (0..pivots).map(|pivot| pivot as f64 + 0.5).collect();
        let errors =
            TableErrors { distance_max: 2.0 * pivots as f64, noise_squared: 1e-14, spread_max: 10.0 };
        let simplex = Simplex::new(&between, 1e-14).unwrap();
        BoundQuery::new(bound, &distances, &between, &simplex, &errors).unwrap()
    }

    #[test]
    fn every_pair_lies_where_the_kernel_reads_it() {
        for pivots in [1, 2, 7, 8, 9, 16, 17, 32, 33] {
            let query = query(Bound::Combined, pivots);
            let shape = Shape::new(Bound::Combined, pivots);
            let (mut numbers, mut pairs) = (Vec::new(), vec![7.0; 4]);
            query.device_numbers(&shape, &mut numbers, &mut pairs);
            assert_eq!(numbers, query.numbers);
            assert_eq!(pairs.len(), 4 + 4 * shape.pairs());
            // As the kernel goes through them.
            let (mut tile, mut seen) = (4, 0);
            for p_first in (0..pivots).step_by(TILE) {
                for s_first in (p_first..pivots).step_by(TILE) {
                    for (i, j) in (0..TILE).flat_map(|i| (0..TILE).map(move |j| (i, j))) {
                        let found = &pairs[tile + 4 * (i * TILE + j)..][..4];
                        let is_it = |pair: &&super::super::query::Pair| {
                            (pair.p as usize, pair.s as usize) == (p_first + i, s_first + j)
                        };
                        match query.pairs.iter().find(is_it) {
                            Some(pair) => {
                                assert_eq!(found, [pair.query_p, pair.query_s, pair.slack, 0.0]);
                                seen += 1;
                            }
                            None => assert_eq!(found, [0.0; 4]),
                        }
                    }
                    tile += 4 * TILE * TILE;
                }
            }
            assert_eq!((tile, seen), (pairs.len(), query.pairs.len()));
        }
    }

    #[test]
    fn a_device_gives_away_more_and_little() {
        for bound in Bound::ALL {
            let query = query(bound, 12);
            let device = query.device_slack();
            assert!(device.slack > query.slack && device.slack < query.slack + 1e-4, "{bound}: {device:?}");
            assert!(device.pairs >= query.pairs_slack && device.pairs <= query.pairs_slack * 1.001 + 1e-12);
        }
    }

    #[test]
    fn a_group_bounds_some_blocks() {
        let shape = Shape::new(Bound::Simplex, 33);
        assert_eq!([0, 1, 2, 3].map(|blocks| shape.groups(blocks)), [0, 1, 1, 2]);
        assert_eq!(shape.clone().split(4).groups(9), 3);
        assert_eq!((shape.pairs(), shape.columns(), shape.items()), (0, 33, PACKED_OBJECTS));
    }
}
