//! The pivot table of a space: distances of all objects to a few pivots, from which distances are bounded.
//!
//! It is the content of `*.pivots.arrow`, by blocks of [`PACKED_OBJECTS`] objects and by columns: the distances to the
//! pivots, rounded to f32, and the apexes over the pivots' simplex, computed from the unrounded distances (section
//! 4.5.2 of the source; section 3 of the n-simplex paper). If the distance is no Hilbert distance, a simplex is not
//! sound and there are no apexes. The whole table is in memory, 4 bytes per object for each pivot and each coordinate
//! of an apex, so a request keeps its snapshot whatever happens to the file. A table may also exist in memory only.
//!
//! Distances are stored in multiples of the table's unit, a power of two, so that f32 can hold their squares whatever
//! the scale of the objects.
//!
//! Invariant: a table belongs to the store and the measure of its space, by their fingerprints; any other file is
//! refused by name.

mod error;
mod layout;
mod reader;
mod unit;
mod pivots;
mod writer;
mod chain;
mod compacted;
mod memory;

#[cfg(test)]
mod tests;

pub use chain::{Piece, SideBySide, in_threads, in_threads_until};
pub(crate) use chain::{each_side_by_side, measure};
pub use error::IndexError;
pub(crate) use pivots::Pivots;
pub use writer::PivotTableWriter;

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use boxwork_kernels::distance::Unsound;
use boxwork_kernels::lower_bound::{
    Bound, BoundError, BoundQuery, Bounds, PACKED_OBJECTS, PackedBlock, Simplex, TableErrors,
};

use super::packed_file::{self, Last};
use super::space::{Extent, Prepared, Space};
use super::store::Store;

/// Distances of all objects of a space to its pivots.
#[derive(Debug)]
pub struct PivotTable {
    path: PathBuf,
    number: u64,
    space: Arc<dyn Space>,
    pivots: Pivots,
    /// Coordinates of an apex; 0 if there are no apexes.
    apex_columns: usize,
    extremes: Extremes,
    len: u64,
    distances: Vec<f32>,
    apexes: Vec<f32>,
    /// The fingerprint of the first file.
    fingerprint: String,
    last: Last,
}

/// The largest values among a table's objects, which bound the rounding errors.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Extremes {
    /// Distance of an object from a pivot, in units.
    distance_max: f64,
    /// Spread of an apex.
    spread_max: f64,
    /// Extent of an object.
    pub(crate) extent: Extent,
}

/// Gives the index of a compacted store its final name, if it exists and fits the store; otherwise removes it. The caller
/// holds the lock of the store.
pub(crate) fn settle(path: &Path, store: &dyn Store) -> Result<(), IndexError> {
    Ok(packed_file::settle(path, layout::FORMAT, store)?)
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

    /// The file; the store's, if the table exists in memory only.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Unique in this process, also over time.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The objects and their distance.
    pub fn space(&self) -> &Arc<dyn Space> {
        &self.space
    }

    /// The pivots, as objects of the store.
    pub fn pivots(&self) -> &[u64] {
        &self.pivots.ids
    }

    /// The table's unit: a distance or a bound is its stored number times this.
    pub fn unit(&self) -> f64 {
        self.pivots.unit
    }

    /// The pivots' distances among themselves, row by row, in units.
    pub fn between(&self) -> &[f64] {
        &self.pivots.between
    }

    /// The simplex that the pivots span.
    pub fn simplex(&self) -> &Simplex {
        &self.pivots.simplex
    }

    /// Number of ids, at least 1; rows of removed objects mean nothing.
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
            distances: &self.distances[of(self.pivots.count())],
            apexes: &self.apexes[of(self.apex_columns)],
        }
    }

    /// The pivots and their simplex.
    pub(crate) fn spanned(&self) -> &Pivots {
        &self.pivots
    }

    /// The apex of an object, in units; empty if the table has no apexes.
    pub(crate) fn apex(&self, id: u64) -> impl Iterator<Item = f32> {
        let (block, row) = (id as usize / PACKED_OBJECTS, id as usize % PACKED_OBJECTS);
        let width = self.apex_columns;
        (0..width).map(move |column| self.apexes[(block * width + column) * PACKED_OBJECTS + row])
    }

    /// Replaces the bounds of a block's removed objects by NaN, which is smaller than nothing.
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
    /// Names the property that the distance lacks, and the bound to use instead.
    pub fn allow(&self, bound: Bound) -> Result<(), Unsound> {
        self.space.properties().allow(bound)
    }

    /// A query at these f64 distances from the pivots, prepared for bounds in units. A query so far away that f32
    /// cannot hold its distances is not bounded.
    ///
    /// # Errors
    /// When the distances cannot be those of a point: the table was made for another space.
    ///
    /// # Panics
    /// When the bound is not sound ([`PivotTable::allow`]), or a pivot lacks its distance.
    pub fn query(
        &self,
        bound: Bound,
        distances: &[f64],
        query: &dyn Prepared,
    ) -> Result<BoundQuery, BoundError> {
        assert_eq!(self.allow(bound), Ok(()), "a sound bound");
        let Pivots { ids, unit, between, simplex } = &self.pivots;
        assert_eq!(distances.len(), ids.len(), "a distance for each pivot");
        let distances: Vec<f64> = distances.iter().map(|distance| distance / unit).collect();
        let Extremes { distance_max, spread_max, extent } = self.extremes;
        let largest = distances.iter().fold(distance_max, |largest: f64, distance| largest.max(*distance));
        if largest.is_finite() && largest > unit::FAR {
            let columns = if bound == Bound::Simplex { self.apex_columns } else { ids.len() };
            return Ok(BoundQuery::of_nothing(bound, columns));
        }
        let noise_squared = query.noise_squared(extent, largest * unit) / (unit * unit);
        let errors = TableErrors { distance_max, noise_squared, spread_max };
        BoundQuery::new(bound, &distances, between, simplex, &errors)
    }

    /// Stores the numbers of an object: its distances, then its apex.
    fn place(&mut self, id: u64, numbers: impl Iterator<Item = f32>) {
        let (block, row) = (id as usize / PACKED_OBJECTS, id as usize % PACKED_OBJECTS);
        let pivots = self.pivots.count();
        for (column, number) in numbers.enumerate() {
            let (table, width, column) = match column.checked_sub(pivots) {
                None => (&mut self.distances, pivots, column),
                Some(coordinate) => (&mut self.apexes, self.apex_columns, coordinate),
            };
            table[(block * width + column) * PACKED_OBJECTS + row] = number;
        }
    }
}
