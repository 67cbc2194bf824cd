//! Writes an index, or a file that follows one, block by block, as the distances come in.
//!
//! Nothing exists under the index's name until [`PivotTableWriter::finish`] has put all of it on disk; a dropped writer
//! leaves nothing.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{ArrayRef, Float32Array};
use arrow_schema::Metadata;
use boxwork_kernels::lower_bound::{PACKED_OBJECTS, PIVOTS_MAX, Simplex};

use super::super::object_store::real_path;
use super::super::packed_file::{PackedWriter, next_part, next_path, remove_parts};
use super::error::IndexError;
use super::unit::{FAR, unit};
use super::{Extremes, PivotTable, layout};
use crate::space::Space;

/// Objects whose distances from a single pivot determine the unit.
const PROBED: usize = 64;

/// An unfinished index.
pub struct PivotTableWriter {
    path: PathBuf,
    file: PackedWriter,
    space: Arc<dyn Space>,
    pivots: usize,
    unit: f64,
    simplex: Simplex,
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
        let unit = unit(scale(&*space, pivots[0], between)?);
        let between: Vec<f64> = between.iter().map(|distance| distance / unit).collect();
        let distance_max = between.iter().fold(0.0, |largest: f64, distance| largest.max(*distance));
        let mut extremes = Extremes { distance_max, ..Extremes::default() };
        for &pivot in pivots {
            extremes.extent = extremes.extent.max(space.extent(pivot)?);
        }
        let is_hilbert = space.properties().hilbert;
        // An unsound simplex is not used.
        let simplex =
            Simplex::new(if is_hilbert { &between } else { &[0.0] }, extremes.noise_squared(&*space, unit));
        let simplex = simplex.map_err(|source| {
            let id = pivots[0];
            IndexError::Bounds { path: index.to_owned(), id, source }
        })?;
        let apex_columns = if is_hilbert { simplex.dimensions() } else { 0 };
        let mut metadata = head(&*space, pivots, unit, &between, &simplex);
        let mut path = index.to_owned();
        if let Purpose::Replacement { of } = &purpose {
            metadata.insert(layout::REPLACES_KEY, of.clone());
            path = next_path(index);
        }
        let schema = layout::schema(pivots.len(), apex_columns, metadata);
        Ok(Self {
            file: PackedWriter::create(index, &path, &schema)?,
            path,
            space,
            pivots: pivots.len(),
            unit,
            simplex,
            apex_columns,
            extremes,
            waiting: Vec::with_capacity(PACKED_OBJECTS * pivots.len()),
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
        let schema = layout::schema(table.pivots.len(), table.apex_columns, metadata);
        Ok(Self {
            file: PackedWriter::create(&table.path, &path, &schema)?,
            path,
            space: Arc::clone(space),
            pivots: table.pivots.len(),
            unit: table.unit,
            simplex: table.simplex.clone(),
            apex_columns: table.apex_columns,
            extremes: table.extremes,
            waiting: Vec::new(),
            first: table.len,
            purpose: Purpose::Part,
        })
    }

    /// The smallest id that the next object may have: all before it are written.
    pub fn len(&self) -> u64 {
        self.first + (self.waiting.len() / self.pivots) as u64
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
        assert_eq!(distances.len(), self.pivots, "a distance for each pivot");
        self.pass_over_removed()?;
        if let Some(&distance) = distances.iter().find(|distance| **distance / self.unit > FAR) {
            let store = self.space.store().path().to_owned();
            return Err(IndexError::TooFar { store, id: self.len(), distance });
        }
        self.waiting.extend(distances.iter().map(|distance| distance / self.unit));
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
            self.waiting.resize(self.waiting.len() + self.pivots, 0.0);
            self.write_full_block()?;
        }
        Ok(())
    }

    fn write_full_block(&mut self) -> Result<(), IndexError> {
        if self.waiting.len() == PACKED_OBJECTS * self.pivots { self.write_block() } else { Ok(()) }
    }

    fn write_block(&mut self) -> Result<(), IndexError> {
        let rows = self.waiting.len() / self.pivots;
        if rows == 0 {
            return Ok(());
        }
        let mut columns = vec![vec![0f32; rows]; self.pivots + self.apex_columns];
        for (row, distances) in self.waiting.chunks_exact(self.pivots).enumerate() {
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
            let noise_squared = self.extremes.noise_squared(&*self.space, self.unit);
            let apex = self.simplex.apex(distances, noise_squared);
            let apex = apex.map_err(|source| IndexError::Bounds { path: self.path.clone(), id, source })?;
            self.extremes.spread_max = self.extremes.spread_max.max(apex.spread);
            for (column, number) in columns[self.pivots..].iter_mut().zip(&apex.coordinates) {
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
pub(super) fn head(
    space: &dyn Space,
    pivots: &[u64],
    unit: f64,
    between: &[f64],
    simplex: &Simplex,
) -> Metadata {
    let list = |numbers: &[f64]| serde_json::to_string(numbers).expect("numbers are JSON");
    let mut head = Metadata::from_iter(
        [
            (layout::FORMAT_KEY, layout::FORMAT.whole.to_owned()),
            (layout::VERSION_KEY, layout::VERSION.to_owned()),
            (layout::STORE_KEY, space.store().fingerprint().to_owned()),
            (layout::MEASURE_KEY, space.measure()),
            (layout::PIVOTS_KEY, serde_json::to_string(pivots).expect("numbers are JSON")),
            (layout::BETWEEN_KEY, list(between)),
            (layout::KEPT_KEY, serde_json::to_string(simplex.kept()).expect("numbers are JSON")),
            (layout::ROWS_KEY, list(simplex.rows())),
            (layout::TAU_KEY, list(&[simplex.tau()])),
            (layout::CREATOR_KEY, layout::CREATOR.to_owned()),
        ]
        .map(|(key, value)| (key.to_owned(), value)),
    );
    if unit != 1.0 {
        head.insert(layout::UNIT_KEY.to_owned(), format!("{unit:?}"));
    }
    head
}

/// The approximate scale of the distances: those among the pivots, or for a single pivot those of some objects.
fn scale(space: &dyn Space, pivot: u64, between: &[f64]) -> Result<f64, IndexError> {
    let largest = |distances: &[f64]| distances.iter().fold(0.0, |largest: f64, next| largest.max(*next));
    let store = space.store();
    if largest(between) > 0.0 {
        return Ok(largest(between));
    }
    let batch = store.batch_ids(store.locate(pivot)?.0);
    let step = (batch.end - batch.start).div_ceil(PROBED as u64) as usize;
    let pairs: Vec<[u64; 2]> = store.among(batch).step_by(step).map(|id| [pivot, id]).collect();
    let mut distances = vec![0.0; pairs.len()];
    space.between(&pairs, &mut distances)?;
    Ok(largest(&distances))
}

impl Extremes {
    /// The largest error of the squared distances so far, in squared units.
    fn noise_squared(&self, space: &dyn Space, unit: f64) -> f64 {
        space.noise_squared(self.extent, self.distance_max * unit) / (unit * unit)
    }
    /// The extremes as a note in the footer.
    pub(super) fn note(&self) -> (&'static str, String) {
        let extremes = [self.distance_max, self.spread_max, self.extent.sigma, self.extent.len as f64];
        (layout::EXTREMES_KEY, serde_json::to_string(&extremes).expect("numbers are JSON"))
    }
}
