//! The sketches of a store: 64 half-precision numbers for each object, whose Euclidean distances are about the distances of
//! the space, or lower bounds of them (`boxwork_kernels::sketch`).
//!
//! Signatures under the Gaussian similarity over L2 are sketched by random frequencies. Objects of any Hilbert distance are
//! sketched by an index: by their apexes over the simplex of its pivots, which become part of the sketch.
//!
//! It is the content of `*.sketch.arrow` and of the files that follow it (`packed_file`). All of it is in memory, 128 bytes an
//! object, so a request keeps its snapshot whatever happens to the file. New objects are sketched by the directions or pivots in
//! the first file; these never change, also when the store is compacted, unless a pivot was removed.
//!
//! Invariant: a sketch belongs to the store and the measure of its space, by their fingerprints; any other file is refused
//! with the command that makes it.

mod error;
mod layout;
mod features;
mod apexes;
mod maker;
mod writer;
mod compacted;
#[cfg(test)]
mod tests;

pub use error::SketchError;
pub use features::SketchSample;
pub use maker::SketchMaker;

pub(crate) use layout::FORMAT;
pub use writer::SketchWriter;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use boxwork_kernels::gaussian_process::pass::{self, TILE, TILE_NUMBERS};
use boxwork_kernels::memory::filled;
use boxwork_kernels::sketch::COORDINATES;

use super::packed_file::{self, Last, PackedBatch, PackedError};
use super::pivot_table::SideBySide;
use super::space::Space;
use super::spaces::{DistanceOptions, allow_apexes};
use crate::new_number;

/// Objects that are sketched before they are written.
const OBJECTS_AT_ONCE: usize = 4096;
/// Objects that one piece of work sketches: some milliseconds.
const OBJECTS_PER_PIECE: usize = 64;

/// The sketches of all objects of a store.
#[derive(Debug)]
pub struct Sketch {
    path: PathBuf,
    number: u64,
    maker: Arc<SketchMaker>,
    len: u64,
    /// The largest norm of a sketch.
    norm_max: f64,
    /// In tiles of [`TILE`] objects; zeros for removed ones.
    tiles: Vec<u16>,
    /// The fingerprint of the first file.
    fingerprint: String,
    last: Last,
}

/// How much of the files is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Depth {
    /// All sketches of all objects.
    All,
    /// The ends only, for writing a further file: no sketches, and perhaps of fewer objects.
    Ends,
}

impl Sketch {
    /// Reads the sketches of a space.
    ///
    /// # Errors
    /// When the file cannot be read, is no sketch, is cut short, damaged, of another version, of another store or of another
    /// measure, or lacks objects.
    pub fn open(path: impl AsRef<Path>, space: &Arc<dyn Space>) -> Result<Self, SketchError> {
        Self::read(path.as_ref(), space, Depth::All)
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Unique in this process, also over time.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Makes further sketches by the same frequencies and directions, or pivots.
    pub fn maker(&self) -> &Arc<SketchMaker> {
        &self.maker
    }

    /// Number of ids, at least 1; sketches of removed objects mean nothing.
    #[expect(clippy::len_without_is_empty, reason = "a store is never empty")]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// The unit of the sketches, a power of two: the distance of two sketches times this is about that of their objects.
    pub fn unit(&self) -> f64 {
        self.maker.unit()
    }

    /// The largest Euclidean norm of a sketch.
    pub fn norm_max(&self) -> f64 {
        self.norm_max
    }

    /// All sketches, in the tiles of the pass; objects that only fill the last tile are zeros.
    pub fn tiles(&self) -> &[u16] {
        &self.tiles
    }

    /// The sketch of an object.
    ///
    /// # Panics
    /// When there is no such id.
    pub fn at(&self, id: u64) -> [u16; COORDINATES] {
        assert!(id < self.len, "object {id} of {}", self.len);
        pass::at(&self.tiles, id as usize)
    }

    /// The command, or the two, that make the sketch of a space, as a user writes them between backquotes.
    pub fn command(space: &Arc<dyn Space>, out: &Path) -> String {
        error::command(&**space, out, !features::has_features(space))
    }

    /// The distance for which a sketch was made.
    ///
    /// # Errors
    /// When the file cannot be read, is no sketch, or is of another version.
    pub(crate) fn measure_of(path: &Path) -> Result<DistanceOptions, SketchError> {
        let file = FORMAT.open(path)?;
        let measure = DistanceOptions::parse(file.said(layout::MEASURE_KEY));
        Ok(measure.ok_or_else(|| file.not("it names no measure that this program knows"))?)
    }

    fn read(path: &Path, space: &Arc<dyn Space>, depth: Depth) -> Result<Self, SketchError> {
        let store = space.store();
        let of = |error: PackedError| {
            let is_of_pivots = !features::has_features(space) || layout::seems_of_pivots(path);
            SketchError::of(error, &**space, path, is_of_pivots)
        };
        let (file, name, ids) = packed_file::first(path, FORMAT, &**store).map_err(of)?;
        let Some(ids) = ids else {
            let command = error::command(&**space, path, layout::is_of_pivots(&file));
            let store = store.path().to_owned();
            return Err(SketchError::OtherStore { path: path.to_owned(), store, command });
        };
        let (found, wanted) = (file.said(layout::MEASURE_KEY), space.measure());
        if found != wanted {
            allow_apexes(&space.properties()).map_err(SketchError::NoApexes)?;
            let is_of_pivots = layout::is_of_pivots(&file) || !features::has_features(space);
            return Err(SketchError::OtherMeasure {
                path: path.to_owned(),
                found: found.to_owned(),
                wanted,
                command: error::command(&**space, path, is_of_pivots),
            });
        }
        let maker = Arc::new(SketchMaker::of_file(space, &file, ids, path)?);
        let (mut len, mut norm_max) = (ids, layout::norm(&file).map_err(of)?);
        let fingerprint = file.fingerprint.clone();
        let mut last = Last { part: 0, fingerprint: fingerprint.clone() };
        layout::check(&file, ids).map_err(of)?;
        let mut files = vec![(0, file)];
        while len < store.ids_count() {
            let next = packed_file::following(&name, FORMAT, &last, len, &**store).map_err(of)?;
            let Some((part, file, ids)) = next else { break };
            layout::check(&file, ids - len).map_err(of)?;
            norm_max = layout::norm(&file).map_err(of)?;
            last = Last { part, fingerprint: file.fingerprint.clone() };
            files.push((len, file));
            len = ids;
        }
        if depth == Depth::All && len < store.ids_count() {
            let (store, objects) = (store.path().to_owned(), store.ids_count());
            return Err(SketchError::Behind { path: path.to_owned(), store, found: len, objects });
        }
        let tiles = if depth == Depth::All { len.div_ceil(TILE as u64) as usize } else { 0 };
        let what = || format!("the sketch `{}` of {len} objects", path.display());
        let mut tiles = filled(tiles.saturating_mul(TILE_NUMBERS), 0, what, "free memory")?;
        if depth == Depth::All {
            for (first, file) in files {
                let fill = &mut |batch: PackedBatch<'_>| fill(&mut tiles, first as usize, batch);
                file.each_batch(layout::ROWS, fill).map_err(of)?;
            }
        }
        let number = new_number();
        Ok(Self { path: name, number, maker, len, norm_max, tiles, fingerprint, last })
    }

    /// Brings the sketches up to date with their space: sketches the objects added since they were written, and returns their
    /// number. Writes nothing if there are none.
    ///
    /// The store may be one that is not in effect yet. The caller holds its lock.
    ///
    /// # Errors
    /// As [`Sketch::open`], except that the store may have grown; and when a file cannot be written, or `side_by_side` was
    /// cancelled.
    pub(crate) fn append(
        path: &Path,
        space: &Arc<dyn Space>,
        side_by_side: &mut SideBySide<'_>,
    ) -> Result<u64, SketchError> {
        let sketch = Self::read(path, space, Depth::Ends)?;
        let store = space.store();
        if sketch.len == store.ids_count() {
            return Ok(0);
        }
        let mut writer = SketchWriter::following(&sketch)?;
        let ids: Vec<u64> = store.among(sketch.len..store.ids_count()).collect();
        for ids in ids.chunks(OBJECTS_AT_ONCE) {
            writer.push(&sketch.maker.sketches(ids, side_by_side)?)?;
        }
        writer.finish()?;
        Ok(ids.len() as u64)
    }
}

/// Copies the columns of a batch into tiles; `None` if it has others, or a number is not finite.
fn fill(tiles: &mut [u16], first: usize, batch: PackedBatch<'_>) -> Option<()> {
    for (number, bytes) in batch.columns(COORDINATES, size_of::<u16>())?.into_iter().enumerate() {
        for (id, bits) in (first + batch.first..).zip(bytes.as_chunks::<2>().0) {
            let bits = u16::from_le_bytes(*bits);
            if bits & 0x7c00 == 0x7c00 {
                return None;
            }
            tiles[id / TILE * TILE_NUMBERS + number * TILE + id % TILE] = bits;
        }
    }
    Some(())
}
