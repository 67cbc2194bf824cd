//! Writes an index, or a file that follows one, block by block, as the distances come in.
//!
//! Nothing exists under the index's name until [`PivotTableWriter::finish`] has put all of it on disk; a dropped writer
//! leaves nothing.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{ArrayRef, Float32Array};
use arrow_schema::Metadata;
use boxwork_kernels::lower_bound::{PACKED_OBJECTS, PIVOTS_MAX};

use super::super::object_store::real_path;
use super::super::packed_file::{PackedWriter, next_part, next_path, remove_parts};
use super::error::IndexError;
use super::{Extremes, PivotTable, Pivots, layout};
use crate::space::Space;

/// An unfinished index.
pub struct PivotTableWriter {
    path: PathBuf,
    file: PackedWriter,
    space: Arc<dyn Space>,
    pivots: Pivots,
    /// Coordinates of an apex; 0 if there are no apexes.
    apex_columns: usize,
    extremes: Extremes,
    /// Distances, in units, of the objects of the unfinished block, object by object; zeros for removed ones.
    waiting: Vec<f64>,
    /// The id of the first object in `waiting`.
    first: u64,
    purpose: Purpose,
}

/// The purpose of a file.
pub(super) enum Purpose {
    /// An index, which replaces one of its name.
    Index,
    /// The index of a compacted store, beside the index with this fingerprint.
    Replacement { of: String },
    /// A file that follows an index.
    Part,
}

impl PivotTableWriter {
    /// Starts the index of a space with these objects as pivots; `between` holds their f64 distances, row by row.
    ///
    /// # Errors
    /// When there are more pivots than objects, a distance is invalid, or the file cannot be written.
    ///
    /// # Panics
    /// When there is no pivot or more than [`PIVOTS_MAX`], or `between` has another size.
    pub fn create(
        path: &Path,
        space: Arc<dyn Space>,
        pivots: &[u64],
        between: &[f64],
    ) -> Result<Self, IndexError> {
        // The target of a link is replaced, not the link.
        Self::new(&real_path(path), space, pivots, between, Purpose::Index)
    }

    /// Starts an index, or its replacement.
    pub(super) fn new(
        index: &Path,
        space: Arc<dyn Space>,
        pivots: &[u64],
        between: &[f64],
        purpose: Purpose,
    ) -> Result<Self, IndexError> {
        assert!((1..=PIVOTS_MAX).contains(&pivots.len()), "1 to {PIVOTS_MAX} pivots");
        let store = space.store();
        if pivots.len() as u64 > store.objects_count() {
            let (pivots, objects) = (pivots.len(), store.objects_count());
            return Err(IndexError::TooManyPivots { store: store.path().to_owned(), pivots, objects });
        }
        let (pivots, extremes) = Pivots::new(&*space, pivots, between, index)?;
        let apex_columns = if space.properties().hilbert { pivots.simplex.dimensions() } else { 0 };
        let mut metadata = head(&*space, &pivots);
        let mut path = index.to_owned();
        if let Purpose::Replacement { of } = &purpose {
            metadata.insert(layout::REPLACES_KEY, of.clone());
            path = next_path(index);
        }
        let schema = layout::schema(pivots.count(), apex_columns, metadata);
        Ok(Self {
            file: PackedWriter::create(index, &path, &schema)?,
            path,
            space,
            waiting: Vec::with_capacity(PACKED_OBJECTS * pivots.count()),
            pivots,
            apex_columns,
            extremes,
            first: 0,
            purpose,
        })
    }

    /// Starts the file that follows a table; the table covers the first objects of its space.
    pub(super) fn following(table: &PivotTable) -> Result<Self, IndexError> {
        let (path, space) = (next_part(&table.path, &table.last, layout::FORMAT), &table.space);
        let metadata = Metadata::from_iter(
            [
                (layout::FORMAT_KEY, layout::FORMAT.part.to_owned()),
                (layout::VERSION_KEY, layout::VERSION.to_owned()),
                (layout::STORE_KEY, space.store().fingerprint().to_owned()),
                (layout::MEASURE_KEY, space.measure()),
                (layout::FOLLOWS_KEY, table.last.fingerprint.clone()),
                (layout::CREATOR_KEY, layout::CREATOR.to_owned()),
            ]
            .map(|(key, value)| (key.to_owned(), value)),
        );
        let schema = layout::schema(table.pivots.count(), table.apex_columns, metadata);
        Ok(Self {
            file: PackedWriter::create(&table.path, &path, &schema)?,
            path,
            space: Arc::clone(space),
            pivots: table.pivots.clone(),
            apex_columns: table.apex_columns,
            extremes: table.extremes,
            waiting: Vec::new(),
            first: table.len,
            purpose: Purpose::Part,
        })
    }

    /// The smallest id that the next object may have: all before it are written.
    pub fn len(&self) -> u64 {
        self.first + (self.waiting.len() / self.pivots.count()) as u64
    }

    /// Whether no object has come yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends the next object of the store by its f64 distances to the pivots. Skips ids of removed objects.
    ///
    /// # Errors
    /// When no point has these distances, they are too large, or the file cannot be written.
    ///
    /// # Panics
    /// When a pivot lacks its distance.
    pub fn push(&mut self, distances: &[f64]) -> Result<(), IndexError> {
        assert_eq!(distances.len(), self.pivots.count(), "a distance for each pivot");
        self.pass_over_removed()?;
        if let Some(distance) = self.pivots.too_far(distances) {
            let store = self.space.store().path().to_owned();
            return Err(IndexError::TooFar { store, id: self.len(), distance });
        }
        self.waiting.extend(distances.iter().map(|distance| distance / self.pivots.unit));
        self.write_full_block()
    }

    /// Puts the index on disk under its name and returns the number of its ids.
    ///
    /// # Errors
    /// When not all objects of the store have come, or the file cannot be written.
    pub fn finish(mut self) -> Result<u64, IndexError> {
        self.pass_over_removed()?;
        self.write_block()?;
        let (written, store) = (self.first, self.space.store());
        if written != store.ids_count() {
            let (found, objects) = (store.count(0..written.min(store.ids_count())), store.objects_count());
            return Err(IndexError::Incomplete { path: self.path, found, objects });
        }
        // Results computed from a file that is being truncated must not outlive the run.
        store.confirm()?;
        self.file.finish([self.extremes.note()])?;
        if matches!(self.purpose, Purpose::Index) {
            remove_parts(&self.path, layout::FORMAT);
        }
        Ok(written)
    }

    fn pass_over_removed(&mut self) -> Result<(), IndexError> {
        while self.len() < self.space.store().ids_count() && !self.space.store().has(self.len()) {
            self.waiting.resize(self.waiting.len() + self.pivots.count(), 0.0);
            self.write_full_block()?;
        }
        Ok(())
    }

    fn write_full_block(&mut self) -> Result<(), IndexError> {
        if self.waiting.len() == PACKED_OBJECTS * self.pivots.count() { self.write_block() } else { Ok(()) }
    }

    fn write_block(&mut self) -> Result<(), IndexError> {
        let pivots = self.pivots.count();
        let rows = self.waiting.len() / pivots;
        if rows == 0 {
            return Ok(());
        }
        let mut columns = vec![vec![0f32; rows]; pivots + self.apex_columns];
        for (row, distances) in self.waiting.chunks_exact(pivots).enumerate() {
            let id = self.first + row as u64;
            // More objects than the store has come only from a wrong plan; `finish` reports that.
            if id < self.space.store().ids_count() && !self.space.store().has(id) {
                continue;
            }
            self.extremes.extent = self.extremes.extent.max(self.space.extent(id)?);
            for (column, distance) in columns.iter_mut().zip(distances) {
                self.extremes.distance_max = self.extremes.distance_max.max(*distance);
                column[row] = *distance as f32;
            }
            if self.apex_columns == 0 {
                continue;
            }
            let noise_squared = self.extremes.noise_squared(&*self.space, self.pivots.unit);
            let apex = self.pivots.simplex.apex(distances, noise_squared);
            let apex = apex.map_err(|source| IndexError::Bounds { path: self.path.clone(), id, source })?;
            self.extremes.spread_max = self.extremes.spread_max.max(apex.spread);
            for (column, number) in columns[pivots..].iter_mut().zip(&apex.coordinates) {
                column[row] = *number as f32;
            }
        }
        let columns = columns.into_iter().map(|column| Arc::new(Float32Array::from(column)) as ArrayRef);
        self.file.write(columns.collect())?;
        self.first += rows as u64;
        self.waiting.clear();
        Ok(())
    }
}

/// The metadata of a space's index.
pub(super) fn head(space: &dyn Space, pivots: &Pivots) -> Metadata {
    let head = [
        (layout::FORMAT_KEY, layout::FORMAT.whole.to_owned()),
        (layout::VERSION_KEY, layout::VERSION.to_owned()),
        (layout::STORE_KEY, space.store().fingerprint().to_owned()),
        (layout::MEASURE_KEY, space.measure()),
        (layout::CREATOR_KEY, layout::CREATOR.to_owned()),
    ];
    Metadata::from_iter(head.into_iter().chain(pivots.head()).map(|(key, value)| (key.to_owned(), value)))
}

impl Extremes {
    /// The largest error of the squared distances so far, in squared units.
    pub(super) fn noise_squared(&self, space: &dyn Space, unit: f64) -> f64 {
        space.noise_squared(self.extent, self.distance_max * unit) / (unit * unit)
    }
    /// The extremes as a note in the footer.
    pub(super) fn note(&self) -> (&'static str, String) {
        let extremes = [self.distance_max, self.spread_max, self.extent.sigma, self.extent.len as f64];
        (layout::EXTREMES_KEY, serde_json::to_string(&extremes).expect("numbers are JSON"))
    }
}
