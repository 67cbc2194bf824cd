//! The pivot table of a store in a space: what `*.pivots.arrow` holds, ready to bound distances.
//!
//! For blocks of [`PACKED_OBJECTS`] objects, column by column: the distances to the pivots, rounded to f32, and the
//! apexes over the pivots' simplex, computed from the unrounded distances (section 4.5.2 of the source; section 3 of
//! the n-simplex paper). All of it is read into memory at once: 4 bytes for each pivot and each coordinate of an apex
//! and object. So a request keeps its snapshot, whatever becomes of the file.
//!
//! Invariant: a table belongs to the store and the measure of its space, by their fingerprints; every other file is
//! refused by name.

mod error;
mod layout;
mod file;
mod reader;
mod writer;
mod chain;
mod compacted;
mod resource;

#[cfg(test)]
mod tests;

pub use chain::{Piece, SideBySide, in_threads};
pub(crate) use compacted::settle;
pub use error::IndexError;
pub use resource::PIVOT_TABLE;
pub use writer::PivotTableWriter;

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use boxwork_kernels::lower_bound::{
    Block, Bound, BoundError, BoundQuery, Bounds, PACKED_OBJECTS, Simplex, TableErrors,
};
use boxwork_kernels::sqfd::reference;

use super::sqfd_space::SqfdSpace;

/// Distances of all objects of a store to a few of them.
#[derive(Debug)]
pub struct PivotTable {
    path: PathBuf,
    number: u64,
    space: Arc<SqfdSpace>,
    pivots: Vec<u64>,
    between: Vec<f64>,
    simplex: Simplex,
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
pub struct Extremes {
    /// Distance of an object from a pivot.
    pub distance_max: f64,
    /// Spread of an apex.
    pub spread_max: f64,
    /// Absolute similarity of an object to itself.
    pub sigma_max: f64,
    /// Centroids of an object.
    pub centroids_max: usize,
}

impl PivotTable {
    /// Reads the table of a space.
    ///
    /// # Errors
    /// When the file cannot be read, is no index, is cut short, damaged, of another version, of another store or of
    /// another measure.
    pub fn open(path: impl AsRef<Path>, space: Arc<SqfdSpace>) -> Result<Self, IndexError> {
        chain::read(path.as_ref(), space, chain::Depth::All)
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A number that no other open table of this process has, or had.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The measure and the store.
    pub fn space(&self) -> &Arc<SqfdSpace> {
        &self.space
    }

    /// The pivots, as objects of the store.
    pub fn pivots(&self) -> &[u64] {
        &self.pivots
    }

    /// The pivots' distances among themselves, row by row.
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
    pub fn block(&self, block: usize) -> Block<'_> {
        let of = |numbers: usize| block * numbers * PACKED_OBJECTS..(block + 1) * numbers * PACKED_OBJECTS;
        Block {
            distances: &self.distances[of(self.pivots.len())],
            apexes: &self.apexes[of(self.simplex.dimensions())],
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

    /// How wrong what the table says may be, for distances from a query with this self-similarity and so many
    /// centroids, at most `distance_max` away from a pivot.
    pub fn errors(&self, sigma_self: f64, centroids: usize, distance_max: f64) -> TableErrors {
        let Extremes { distance_max: largest, spread_max, sigma_max, centroids_max } = self.extremes;
        let noise_squared = reference::error_squared(
            &self.space.measure(),
            sigma_max.max(sigma_self.abs()),
            largest.max(distance_max),
            centroids_max.max(centroids),
            self.space.store().dimensions(),
        );
        TableErrors { distance_max: largest, noise_squared, spread_max }
    }

    /// A query at these f64 distances from the pivots, made ready to be bounded; `sigma_self` and `centroids` are its
    /// own.
    ///
    /// # Errors
    /// When the distances cannot be those of a point: the space is not what the table was made for.
    pub fn query(
        &self,
        bound: Bound,
        distances: &[f64],
        sigma_self: f64,
        centroids: usize,
    ) -> Result<BoundQuery, BoundError> {
        let largest = distances.iter().fold(0.0, |largest: f64, distance| largest.max(*distance));
        let errors = self.errors(sigma_self, centroids, largest);
        BoundQuery::new(bound, distances, &self.between, &self.simplex, &errors)
    }
}
