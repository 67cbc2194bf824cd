//! The pivot table of a space: distances of all objects to a few of them, ready to bound distances.
//!
//! It is what `*.pivots.arrow` holds. For blocks of [`PACKED_OBJECTS`] objects, column by column: the distances to the pivots, rounded to f32, and the
//! apexes over the pivots' simplex, computed from the unrounded distances (section 4.5.2 of the source; section 3 of
//! the n-simplex paper); no apexes where the distance is no Hilbert distance, as no simplex is sound there. All of it
//! is in memory: 4 bytes for each pivot and each coordinate of an apex and object. So a request keeps its snapshot,
//! whatever becomes of the file. A table may also be made in memory alone.
//!
//! Distances are kept in parts of the table's unit, a power of two: f32 holds their squares, whatever the objects are
//! measured in.
//!
//! Invariant: a table belongs to the store and the measure of its space, by their fingerprints; every other file is
//! refused by name.

mod error;
mod layout;
mod file;
mod reader;
mod names;
mod unit;
mod writer;
mod chain;
mod compacted;
mod memory;

#[cfg(test)]
mod tests;

pub use chain::{Piece, SideBySide, in_threads, in_threads_until};
pub(crate) use compacted::settle;
pub use error::IndexError;
pub use writer::PivotTableWriter;

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use boxwork_kernels::distance::Unsound;
use boxwork_kernels::lower_bound::{
    Bound, BoundError, BoundQuery, Bounds, PACKED_OBJECTS, PackedBlock, Simplex, TableErrors,
};

use super::space::{Extent, Prepared, Space};

/// Distances of all objects of a space to a few of them.
#[derive(Debug)]
pub struct PivotTable {
    path: PathBuf,
    number: u64,
    space: Arc<dyn Space>,
    pivots: Vec<u64>,
    /// All distances are in parts of it: a power of two.
    unit: f64,
    between: Vec<f64>,
    simplex: Simplex,
    /// Coordinates of an apex; 0 where there are no apexes.
    apex_columns: usize,
    extremes: Extremes,
    len: u64,
    distances: Vec<f32>,
    apexes: Vec<f32>,
    /// Of the first file.
    fingerprint: String,
    last: Last,
}

/// The last file of a table.
#[derive(Debug)]
struct Last {
    /// 0 for the one that nothing follows.
    part: u64,
    fingerprint: String,
}

/// What is largest among a table's objects: it decides how far rounding can have gone.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Extremes {
    /// Distance of an object from a pivot, in parts of the unit.
    distance_max: f64,
    /// Spread of an apex.
    spread_max: f64,
    /// Extent of an object.
    extent: Extent,
}

impl PivotTable {
    /// Reads the table of a space.
    ///
    /// # Errors
    /// When the file cannot be read, is no index, is cut short, damaged, of another version, of another store or of
    /// another measure.
    pub fn open(path: impl AsRef<Path>, space: Arc<dyn Space>) -> Result<Self, IndexError> {
        chain::read(path.as_ref(), space, chain::Depth::All)
    }

    /// The file, or the store's where the table was made in memory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A number that no other open table of this process has, or had.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The objects and their distance.
    pub fn space(&self) -> &Arc<dyn Space> {
        &self.space
    }

    /// The pivots, as objects of the store.
    pub fn pivots(&self) -> &[u64] {
        &self.pivots
    }

    /// What the table's numbers are parts of: a distance, or a bound of one, is as many times its number.
    pub fn unit(&self) -> f64 {
        self.unit
    }

    /// The pivots' distances among themselves, row by row, in parts of the unit.
    pub fn between(&self) -> &[f64] {
        &self.between
    }

    /// The simplex that the pivots span.
    pub fn simplex(&self) -> &Simplex {
        &self.simplex
    }

    /// Number of ids, at least 1; of those of objects that were removed, the table says nothing.
    #[expect(clippy::len_without_is_empty, reason = "a table is never empty")]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Number of blocks.
    pub fn blocks(&self) -> usize {
        self.len.div_ceil(PACKED_OBJECTS as u64) as usize
    }

    /// The objects of a block.
    pub fn ids(&self, block: usize) -> Range<u64> {
        let first = block as u64 * PACKED_OBJECTS as u64;
        first..self.len.min(first + PACKED_OBJECTS as u64)
    }

    /// The columns of a block.
    ///
    /// # Panics
    /// When there is no such block.
    pub fn block(&self, block: usize) -> PackedBlock<'_> {
        let of = |numbers: usize| block * numbers * PACKED_OBJECTS..(block + 1) * numbers * PACKED_OBJECTS;
        PackedBlock {
            distances: &self.distances[of(self.pivots.len())],
            apexes: &self.apexes[of(self.apex_columns)],
        }
    }

    /// Takes the objects of a block that were removed out of its bounds: they are no numbers then, which nothing is
    /// smaller than.
    pub fn hide_removed(&self, block: usize, bounds: &mut Bounds) {
        let (ids, store) = (self.ids(block), self.space.store());
        if store.count(ids.clone()) == ids.end - ids.start {
            return;
        }
        for (row, _) in ids.enumerate().filter(|(_, id)| !store.has(*id)) {
            (bounds.lower[row], bounds.upper[row]) = (f32::NAN, f32::NAN);
        }
    }

    /// Whether a bound is sound for the distance of the space.
    ///
    /// # Errors
    /// What the distance does not obey, and the bound to use instead.
    pub fn allow(&self, bound: Bound) -> Result<(), Unsound> {
        self.space.properties().allow(bound)
    }

    /// A query at these f64 distances from the pivots, made ready to be bounded by numbers in parts of the unit. One
    /// that is so far away that f32 does not hold its distances is bounded by nothing.
    ///
    /// # Errors
    /// When the distances cannot be those of a point: the space is not what the table was made for.
    ///
    /// # Panics
    /// When the bound is not sound ([`PivotTable::allow`]), or there is not a distance for each pivot.
    pub fn query(
        &self,
        bound: Bound,
        distances: &[f64],
        query: &dyn Prepared,
    ) -> Result<BoundQuery, BoundError> {
        assert_eq!(self.allow(bound), Ok(()), "a bound that is sound");
        assert_eq!(distances.len(), self.pivots.len(), "a distance for each pivot");
        let distances: Vec<f64> = distances.iter().map(|distance| distance / self.unit).collect();
        let Extremes { distance_max, spread_max, extent } = self.extremes;
        let largest = distances.iter().fold(distance_max, |largest: f64, distance| largest.max(*distance));
        if largest.is_finite() && largest > unit::FAR {
            let columns = if bound == Bound::Simplex { self.apex_columns } else { self.pivots.len() };
            return Ok(BoundQuery::of_nothing(bound, columns));
        }
        let noise_squared = query.noise_squared(extent, largest * self.unit) / (self.unit * self.unit);
        let errors = TableErrors { distance_max, noise_squared, spread_max };
        BoundQuery::new(bound, &distances, &self.between, &self.simplex, &errors)
    }

    /// Puts the numbers of an object, its distances and then its apex, in their places.
    fn place(&mut self, id: u64, numbers: impl Iterator<Item = f32>) {
        let (block, row) = (id as usize / PACKED_OBJECTS, id as usize % PACKED_OBJECTS);
        let pivots = self.pivots.len();
        for (column, number) in numbers.enumerate() {
            let (table, width, column) = match column.checked_sub(pivots) {
                None => (&mut self.distances, pivots, column),
                Some(coordinate) => (&mut self.apexes, self.apex_columns, coordinate),
            };
            table[(block * width + column) * PACKED_OBJECTS + row] = number;
        }
    }
}
