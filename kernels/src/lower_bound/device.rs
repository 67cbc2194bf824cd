//! Inputs of the kernel `device.cl`: its constants, a query's numbers, and the additional slack for a device.
//!
//! | bound | additional error on a device | additional slack |
//! |---|---|---|
//! | simplex | the root: OpenCL allows 3 units in the last place, of at most twice the largest distance `M` | `2^-20 M` |
//! | all | subnormal numbers (below 1.2e-38) count as 0, in up to 129 squares under a root | `2^-58` |
//!
//! Differences, products and sums are rounded as on the processor, or less often (`fma`).

use super::query::BoundQuery;
use super::{Bound, PACKED_OBJECTS};

/// The kernel's source.
pub const TEXT: &str = include_str!("device.cl");

/// Bounds by pairs: a work item holds the distances of two times this many pivots.
const TILE: usize = 8;

/// Blocks that a work group bounds together: it reads each number of the query once for this many objects, and has this many
/// columns in flight from memory.
const HELD: usize = 2;

/// The largest error of a bound when subnormal numbers count as 0.
const FLUSHED: f64 = 1.0 / (1u64 << 58) as f64;

/// How the kernel is compiled, for a rule and a number of columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    bound: Bound,
    numbers: usize,
    held: usize,
}

impl Shape {
    /// The shape for the columns that a rule reads: one per pivot, or one per number of an apex.
    pub fn new(bound: Bound, columns: usize) -> Self {
        Self { bound, numbers: columns, held: HELD }
    }

    /// Changes the number of blocks per work group, for benchmarks.
    ///
    /// # Panics
    /// If a work group would have no block.
    #[must_use]
    pub fn split(self, held: usize) -> Self {
        assert!(held > 0, "a group that bounds something");
        Self { held, ..self }
    }

    /// The constants to compile the source with.
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

    /// The rule.
    pub fn bound(&self) -> Bound {
        self.bound
    }

    /// Columns of a block.
    pub fn columns(&self) -> usize {
        self.numbers
    }

    /// Work items of a group. Each bounds one object of each block.
    pub fn items(&self) -> usize {
        PACKED_OBJECTS
    }

    /// Work groups for this many blocks.
    pub fn groups(&self, blocks: usize) -> usize {
        blocks.div_ceil(self.held)
    }

    /// Pairs of pivots in the kernel's layout, for each query. Each has four numbers.
    pub fn pairs(&self) -> usize {
        if matches!(self.bound, Bound::Triangular | Bound::Simplex) {
            return 0;
        }
        let tiles = self.numbers.div_ceil(TILE);
        tiles * (tiles + 1) / 2 * TILE * TILE
    }
}

/// The slack of one query on a device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DeviceSlack {
    /// Subtracted from lower bounds by triangles or apexes, and added to upper bounds.
    pub slack: f32,
    /// Subtracted from lower bounds by pairs of pivots.
    pub pairs: f32,
}

impl BoundQuery {
    /// Appends the query's numbers and its [`Shape::pairs`] pairs in the layout of the kernel (tile after tile, four numbers
    /// each).
    ///
    /// # Panics
    /// If the shape has another rule or another number of columns.
    pub fn device_numbers(&self, shape: &Shape, numbers: &mut Vec<f32>, pairs: &mut Vec<f32>) {
        assert_eq!((shape.bound, shape.numbers), (self.bound, self.numbers.len()), "a query of the shape");
        numbers.extend_from_slice(&self.numbers);
        let first = pairs.len();
        // The numbers of a missing pair give the lower bound 0.
        pairs.resize(first + 4 * shape.pairs(), 0.0);
        if shape.pairs() == 0 {
            return;
        }
        let tiles = shape.numbers.div_ceil(TILE);
        for pair in &self.pairs {
            let (p, s) = (pair.p as usize, pair.s as usize);
            let (row, column) = (p / TILE, s / TILE);
            // Each row of tiles has one tile less than the row above it.
            let tile = row * tiles - row * row.saturating_sub(1) / 2 + column - row;
            let place = first + 4 * (tile * TILE * TILE + p % TILE * TILE + s % TILE);
            pairs[place..place + 3].copy_from_slice(&[pair.query_p, pair.query_s, pair.slack]);
        }
    }

    /// The slack on a device.
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
