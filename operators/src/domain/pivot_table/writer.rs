//! Writes an index, block by block, while the distances come in.
//!
//! Nothing stands under the index's name until [`PivotTableWriter::finish`] has put all of it on disk; a writer that
//! is dropped leaves nothing.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{ArrayRef, Float32Array, RecordBatch};
use arrow_ipc::MetadataVersion;
use arrow_ipc::writer::{FileWriter, IpcWriteOptions};
use arrow_schema::{ArrowError, Metadata};
use boxwork_kernels::lower_bound::{PACKED_OBJECTS, PIVOTS_MAX, Simplex};
use boxwork_kernels::sqfd::reference;

use super::super::signature_store::TemporaryFile;
use super::super::space::SqfdSpace;
use super::error::IndexError;
use super::{Extremes, layout};

/// Every buffer begins at a multiple of this in the file, and so in memory.
const ALIGNMENT_BYTES: usize = 64;

/// An index under way.
pub struct PivotTableWriter {
    path: PathBuf,
    file: TemporaryFile,
    space: Arc<SqfdSpace>,
    pivots: usize,
    simplex: Simplex,
    // Its sink holds one part of the file at a time, whose checksum is taken before it goes to the file.
    arrow: FileWriter<Vec<u8>>,
    head: u32,
    batches: Vec<(usize, u32)>,
    extremes: Extremes,
    /// Distances of the objects of a block under way, object by object.
    waiting: Vec<f64>,
    written: u64,
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
        assert!((1..=PIVOTS_MAX).contains(&pivots.len()), "1 to {PIVOTS_MAX} pivots");
        let store = space.store();
        if pivots.len() as u64 > store.len() {
            let (pivots, objects) = (pivots.len(), store.len());
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
            IndexError::Bounds { path: path.to_owned(), id, source }
        })?;

        let list = |numbers: &[f64]| serde_json::to_string(numbers).expect("numbers are JSON");
        let metadata = Metadata::from_iter(
            [
                (layout::FORMAT_KEY, layout::FORMAT.to_owned()),
                (layout::VERSION_KEY, layout::VERSION.to_owned()),
                (layout::STORE_KEY, store.fingerprint().to_owned()),
                (layout::MEASURE_KEY, layout::measure_text(&space.measure())),
                (layout::PIVOTS_KEY, serde_json::to_string(pivots).expect("numbers are JSON")),
                (layout::BETWEEN_KEY, list(between)),
                (layout::KEPT_KEY, serde_json::to_string(simplex.kept()).expect("numbers are JSON")),
                (layout::ROWS_KEY, list(simplex.rows())),
                (layout::TAU_KEY, list(&[simplex.tau()])),
                (layout::CREATOR_KEY, concat!("boxwork ", env!("CARGO_PKG_VERSION")).to_owned()),
            ]
            .map(|(key, value)| (key.to_owned(), value)),
        );
        let schema = layout::schema(pivots.len(), simplex.dimensions(), metadata);
        let options =
            IpcWriteOptions::try_new(ALIGNMENT_BYTES, false, MetadataVersion::V5).map_err(encoding(path))?;
        let mut arrow =
            FileWriter::try_new_with_options(Vec::new(), &schema, options).map_err(encoding(path))?;
        let file = TemporaryFile::create(path).map_err(|source| IndexError::Io {
            path: path.to_owned(),
            action: "write",
            source,
        })?;
        let head = std::mem::take(arrow.get_mut());
        let mut writer = Self {
            path: path.to_owned(),
            file,
            space,
            pivots: pivots.len(),
            simplex,
            arrow,
            head: crc32fast::hash(&head),
            batches: Vec::new(),
            extremes,
            waiting: Vec::with_capacity(PACKED_OBJECTS * pivots.len()),
            written: 0,
        };
        writer.write_part(&head)?;
        Ok(writer)
    }

    /// Number of objects so far.
    pub fn len(&self) -> u64 {
        self.written + (self.waiting.len() / self.pivots) as u64
    }

    /// Whether there is none yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends the next object of the store by its f64 distances to the pivots.
    ///
    /// # Errors
    /// When they are the distances of no point, or the file cannot be written.
    ///
    /// # Panics
    /// When there is not a distance each pivot.
    pub fn push(&mut self, distances: &[f64]) -> Result<(), IndexError> {
        assert_eq!(distances.len(), self.pivots, "a distance each pivot");
        self.waiting.extend_from_slice(distances);
        if self.waiting.len() == PACKED_OBJECTS * self.pivots { self.write_block() } else { Ok(()) }
    }

    /// Puts the index on disk under its name and gives the number of its objects.
    ///
    /// # Errors
    /// When not all objects of the store have come, or the file cannot be written.
    pub fn finish(mut self) -> Result<u64, IndexError> {
        self.write_block()?;
        let (written, objects) = (self.written, self.space.store().len());
        if written != objects {
            return Err(IndexError::Incomplete { path: self.path, found: written, objects });
        }
        // What was computed from a file that is being cut short must not outlive the run.
        self.space.store().read(|_| Ok::<_, IndexError>(()))?;
        let Extremes { distance_max, spread_max, sigma_max, centroids_max } = self.extremes;
        let extremes = [distance_max, spread_max, sigma_max, centroids_max as f64];
        let extremes = serde_json::to_string(&extremes).expect("numbers are JSON");
        self.arrow.write_metadata(layout::EXTREMES_KEY, extremes);
        self.arrow.write_metadata(layout::CHECKSUMS_KEY, layout::write_checksums(self.head, &self.batches));
        self.arrow.finish().map_err(encoding(&self.path))?;
        let mut tail = std::mem::take(self.arrow.get_mut());
        let digits = layout::tail_digits(&tail).expect("no other text of an index has the marker");
        let checksum = layout::tail_checksum(&tail, &digits);
        tail[digits].copy_from_slice(checksum.as_bytes());
        self.write_part(&tail)?;
        let Self { file, path, .. } = self;
        file.keep().map_err(|source| IndexError::Io { path, action: "write", source })?;
        Ok(written)
    }

    fn write_block(&mut self) -> Result<(), IndexError> {
        let rows = self.waiting.len() / self.pivots;
        if rows == 0 {
            return Ok(());
        }
        let dimensions = self.simplex.dimensions();
        let mut columns = vec![vec![0f32; rows]; self.pivots + dimensions];
        for (row, distances) in self.waiting.chunks_exact(self.pivots).enumerate() {
            let id = self.written + row as u64;
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
        let columns: Vec<ArrayRef> =
            columns.into_iter().map(|column| Arc::new(Float32Array::from(column)) as ArrayRef).collect();
        let batch =
            RecordBatch::try_new(Arc::clone(self.arrow.schema()), columns).map_err(encoding(&self.path))?;
        self.arrow.write(&batch).map_err(encoding(&self.path))?;
        let block = std::mem::take(self.arrow.get_mut());
        self.batches.push((rows, crc32fast::hash(&block)));
        self.written += rows as u64;
        self.waiting.clear();
        self.write_part(&block)?;
        // The memory serves the next block.
        *self.arrow.get_mut() = block;
        self.arrow.get_mut().clear();
        Ok(())
    }

    fn write_part(&mut self, bytes: &[u8]) -> Result<(), IndexError> {
        let path = &self.path;
        let io = |source| IndexError::Io { path: path.clone(), action: "write", source };
        self.file.write_all(bytes).map_err(io)
    }
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

fn encoding(path: &Path) -> impl FnOnce(ArrowError) -> IndexError {
    let path = path.to_owned();
    move |error| IndexError::NotAnIndex { path, reason: format!("it cannot be written ({error})") }
}
