//! Writes an index, or what follows one, block by block, while the distances come in.
//!
//! Nothing stands under the index's name until [`PivotTableWriter::finish`] has put all of it on disk; a writer that
//! is dropped leaves nothing.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_schema::Metadata;
use boxwork_kernels::lower_bound::{PACKED_OBJECTS, PIVOTS_MAX, Simplex};
use boxwork_kernels::sqfd::reference;

use super::super::signature_store::real_path;
use super::super::sqfd_space::SqfdSpace;
use super::chain::{self, remove_parts};
use super::error::IndexError;
use super::file::BlockFile;
use super::{Extremes, PivotTable, layout};

/// An index under way.
pub struct PivotTableWriter {
    path: PathBuf,
    file: BlockFile,
    space: Arc<SqfdSpace>,
    pivots: usize,
    simplex: Simplex,
    extremes: Extremes,
    /// Distances of the objects of a block under way, object by object; zeros where one was removed.
    waiting: Vec<f64>,
    /// The id of the first that waits.
    first: u64,
    purpose: Purpose,
}

/// What a file is written for.
pub(super) enum Purpose {
    /// An index, in the place of one that has its name.
    Index,
    /// The index of a compacted store, beside the one of this fingerprint.
    Replacement { of: String },
    /// A file that follows an index.
    Part,
}

impl PivotTableWriter {
    /// Starts the index of a space by these of its objects, whose f64 distances `between` stand row by row.
    ///
    /// # Errors
    /// When there are more pivots than objects, a distance is none, or the file cannot be written.
    ///
    /// # Panics
    /// When there is no pivot or more than [`PIVOTS_MAX`], or `between` is not of as many.
    pub fn create(
        path: &Path,
        space: Arc<SqfdSpace>,
        pivots: &[u64],
        between: &[f64],
    ) -> Result<Self, IndexError> {
        // The index that a link leads to is replaced, not the link.
        Self::new(&real_path(path), space, pivots, between, Purpose::Index)
    }

    /// Starts an index, or the one that is to take its place.
    pub(super) fn new(
        index: &Path,
        space: Arc<SqfdSpace>,
        pivots: &[u64],
        between: &[f64],
        purpose: Purpose,
    ) -> Result<Self, IndexError> {
        assert!((1..=PIVOTS_MAX).contains(&pivots.len()), "1 to {PIVOTS_MAX} pivots");
        let store = space.store();
        if pivots.len() as u64 > store.objects() {
            let (pivots, objects) = (pivots.len(), store.objects());
            return Err(IndexError::TooManyPivots { store: store.path().to_owned(), pivots, objects });
        }
        let distance_max = between.iter().fold(0.0, |largest: f64, distance| largest.max(*distance));
        let mut extremes = Extremes { distance_max, ..Extremes::default() };
        for &pivot in pivots {
            extremes.see(&space, pivot)?;
        }
        let simplex = Simplex::new(between, extremes.noise_squared(&space));
        let simplex = simplex.map_err(|source| {
            let id = pivots[0];
            IndexError::Bounds { path: index.to_owned(), id, source }
        })?;
        let mut metadata = head(&space, pivots, between, &simplex);
        let mut path = index.to_owned();
        if let Purpose::Replacement { of } = &purpose {
            metadata.insert(layout::REPLACES_KEY, of.clone());
            path = chain::next_path(index);
        }
        let schema = layout::schema(pivots.len(), simplex.dimensions(), metadata);
        Ok(Self {
            file: BlockFile::create(index, &path, &schema)?,
            path,
            space,
            pivots: pivots.len(),
            simplex,
            extremes,
            waiting: Vec::with_capacity(PACKED_OBJECTS * pivots.len()),
            first: 0,
            purpose,
        })
    }

    /// Starts the file that follows a table whose objects are the first of its space's.
    pub(super) fn following(table: &PivotTable) -> Result<Self, IndexError> {
        let (path, space) = (chain::next_part(table), &table.space);
        let metadata = Metadata::from_iter(
            [
                (layout::FORMAT_KEY, layout::PART_FORMAT.to_owned()),
                (layout::VERSION_KEY, layout::VERSION.to_owned()),
                (layout::STORE_KEY, space.store().fingerprint().to_owned()),
                (layout::MEASURE_KEY, layout::measure_text(&space.measure())),
                (layout::FOLLOWS_KEY, table.last.fingerprint.clone()),
                (layout::CREATOR_KEY, layout::CREATOR.to_owned()),
            ]
            .map(|(key, value)| (key.to_owned(), value)),
        );
        let schema = layout::schema(table.pivots.len(), table.simplex.dimensions(), metadata);
        Ok(Self {
            file: BlockFile::create(&table.path, &path, &schema)?,
            path,
            space: Arc::clone(space),
            pivots: table.pivots.len(),
            simplex: table.simplex.clone(),
            extremes: table.extremes,
            waiting: Vec::new(),
            first: table.len,
            purpose: Purpose::Part,
        })
    }

    /// The id that the next object's must not be below: those before it are told.
    pub fn len(&self) -> u64 {
        self.first + (self.waiting.len() / self.pivots) as u64
    }

    /// Whether there is none yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends the next object of the store by its f64 distances to the pivots. Ids of objects that were removed are
    /// passed over.
    ///
    /// # Errors
    /// When they are the distances of no point, or the file cannot be written.
    ///
    /// # Panics
    /// When there is not a distance each pivot.
    pub fn push(&mut self, distances: &[f64]) -> Result<(), IndexError> {
        assert_eq!(distances.len(), self.pivots, "a distance each pivot");
        self.pass_over_removed()?;
        self.waiting.extend_from_slice(distances);
        self.write_full_block()
    }

    /// Puts the index on disk under its name and gives the number of its ids.
    ///
    /// # Errors
    /// When not all objects of the store have come, or the file cannot be written.
    pub fn finish(mut self) -> Result<u64, IndexError> {
        self.pass_over_removed()?;
        self.write_block()?;
        let (written, store) = (self.first, self.space.store());
        if written != store.len() {
            let (found, objects) = (store.count(0..written.min(store.len())), store.objects());
            return Err(IndexError::Incomplete { path: self.path, found, objects });
        }
        // What was computed from a file that is being cut short must not outlive the run.
        store.read(|_| Ok::<_, IndexError>(()))?;
        self.file.finish(&self.extremes)?;
        if matches!(self.purpose, Purpose::Index) {
            remove_parts(&self.path);
        }
        Ok(written)
    }

    fn pass_over_removed(&mut self) -> Result<(), IndexError> {
        while self.len() < self.space.store().len() && !self.space.store().has(self.len()) {
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
        let dimensions = self.simplex.dimensions();
        let mut columns = vec![vec![0f32; rows]; self.pivots + dimensions];
        for (row, distances) in self.waiting.chunks_exact(self.pivots).enumerate() {
            let id = self.first + row as u64;
            // More objects than there are come only of a wrong plan, and `finish` says so.
            if id < self.space.store().len() && !self.space.store().has(id) {
                continue;
            }
            self.extremes.see(&self.space, id)?;
            for (column, distance) in columns.iter_mut().zip(distances) {
                self.extremes.distance_max = self.extremes.distance_max.max(*distance);
                column[row] = *distance as f32;
            }
            let apex = self.simplex.apex(distances, self.extremes.noise_squared(&self.space));
            let apex = apex.map_err(|source| IndexError::Bounds { path: self.path.clone(), id, source })?;
            self.extremes.spread_max = self.extremes.spread_max.max(apex.spread);
            for (column, number) in columns[self.pivots..].iter_mut().zip(&apex.coordinates) {
                column[row] = *number as f32;
            }
        }
        self.file.write(columns)?;
        self.first += rows as u64;
        self.waiting.clear();
        Ok(())
    }
}

/// What the head of the index of a space says.
pub(super) fn head(space: &SqfdSpace, pivots: &[u64], between: &[f64], simplex: &Simplex) -> Metadata {
    let list = |numbers: &[f64]| serde_json::to_string(numbers).expect("numbers are JSON");
    Metadata::from_iter(
        [
            (layout::FORMAT_KEY, layout::FORMAT.to_owned()),
            (layout::VERSION_KEY, layout::VERSION.to_owned()),
            (layout::STORE_KEY, space.store().fingerprint().to_owned()),
            (layout::MEASURE_KEY, layout::measure_text(&space.measure())),
            (layout::PIVOTS_KEY, serde_json::to_string(pivots).expect("numbers are JSON")),
            (layout::BETWEEN_KEY, list(between)),
            (layout::KEPT_KEY, serde_json::to_string(simplex.kept()).expect("numbers are JSON")),
            (layout::ROWS_KEY, list(simplex.rows())),
            (layout::TAU_KEY, list(&[simplex.tau()])),
            (layout::CREATOR_KEY, layout::CREATOR.to_owned()),
        ]
        .map(|(key, value)| (key.to_owned(), value)),
    )
}

impl Extremes {
    /// Takes an object into account.
    fn see(&mut self, space: &SqfdSpace, id: u64) -> Result<(), IndexError> {
        let (sigma, centroids) = space.store().read(|objects| {
            Ok::<_, IndexError>((space.sigma_self(objects, id)?, objects.signature(id)?.len()))
        })?;
        self.sigma_max = self.sigma_max.max(sigma.abs());
        self.centroids_max = self.centroids_max.max(centroids);
        Ok(())
    }

    fn noise_squared(&self, space: &SqfdSpace) -> f64 {
        let (measure, dimensions) = (space.measure(), space.store().dimensions());
        reference::error_squared(&measure, self.sigma_max, self.distance_max, self.centroids_max, dimensions)
    }
}
