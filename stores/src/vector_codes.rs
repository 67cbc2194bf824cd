//! The codes of a store of vectors: a few bits a number, by which a search excludes most rows with certainty
//! (`boxwork_kernels::codes`).
//!
//! It is the content of a `*.codes.arrow` file, a packed file (`packed_file`):
//!
//! ```text
//! head    what was coded: the store's fingerprint, the measure, the levels
//! batch   4,096 rows: columns `w0`, `w1`, ... of 32 bits, the words of a row
//! tail    the centre, and the codebook of product codes or the principal directions, f32 by their bits, and all checksums
//! ```
//!
//! Files that follow it have the words of objects that were added, coded around the centre and by the codebook or directions of
//! the first file.
//!
//! All of it is in memory while it is open. Invariant: codes belong to one content of one store and to one measure, by the
//! fingerprint; any other file is refused with the command that makes it or brings it up. Words of objects that were removed
//! before a file was written are zeros.

mod error;
mod reader;
mod beside;

pub use beside::{Beside, beside};
pub use error::CodesError;
pub use reader::open;
pub(crate) use reader::{append, measure_of, write_compacted};

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{ArrayRef, UInt32Array};
use arrow_schema::{DataType, Field, Metadata, Schema};
use boxwork_kernels::CodePath;
use boxwork_kernels::chance::Random;
use boxwork_kernels::codes::{Codes, Encoder, Levels};
use boxwork_kernels::pieces::Pieces;
use boxwork_kernels::product::SAMPLE_MAX;
use boxwork_kernels::vector::{VectorMeasure, VectorRef, inner_product};

use super::kinds::{Kind, Vectors};
use super::object_store::{ObjectStore, real_path};
use super::packed_file::{
    CREATOR, CREATOR_KEY, FOLLOWS_KEY, FORMAT_KEY, Format, Last, MEASURE_KEY, PackedWriter, REPLACES_KEY,
    STORE_KEY, VERSION, VERSION_KEY, digits, next_part, next_path, remove_parts,
};
use super::space::Space;
use super::store::Store;
use super::store_error::StoreError;
use error::of;

/// The names of the format.
pub(crate) const FORMAT: Format = Format { whole: "codes", part: "codes.part", versions: &[VERSION] };
/// Rows of a batch.
pub const ROWS: usize = 4096;
const LEVELS_KEY: &str = "boxwork.codes.levels";
const CENTRE_KEY: &str = "boxwork.codes.centre";
const CODEBOOK_KEY: &str = "boxwork.codes.codebook";
const PRINCIPAL_KEY: &str = "boxwork.codes.principal";
/// The seed of the sample that trains a codebook, or finds principal directions.
const SAMPLE_SEED: u64 = 1234;

/// A space's vectors and their measure, if it has codes.
///
/// # Errors
/// When the distance is another one, or the objects are not vectors.
pub fn vectors_of(space: &dyn Space) -> Result<(Arc<ObjectStore<Vectors>>, VectorMeasure), CodesError> {
    let found = ObjectStore::<Vectors>::of(space.store()).zip(VectorMeasure::named(&space.measure()));
    found.ok_or_else(|| CodesError::NoCodes { measure: space.measure() })
}

/// The mean of all rows, or of their directions for the cosine.
///
/// # Errors
/// When a row cannot be read, or the caller cancels.
pub fn centre_of(
    store: &ObjectStore<Vectors>,
    measure: VectorMeasure,
    cancelled: &dyn Fn() -> bool,
) -> Result<Vec<f32>, CodesError> {
    let mut sums = vec![0.0_f64; store.kind().dimensions()];
    for batch in 0..store.batches() {
        if cancelled() {
            return Err(CodesError::Cancelled);
        }
        store.read::<_, StoreError>(|objects| {
            let of_batch = objects.batch(batch)?;
            for id in store.among(store.ids(batch)) {
                let row = Vectors::item(of_batch, (id - store.ids(batch).start) as usize).widened();
                let factor = match measure {
                    VectorMeasure::Cosine => 1.0 / inner_product(&row, &row).sqrt(),
                    _ => 1.0,
                };
                if factor.is_finite() {
                    sums.iter_mut().zip(&row).for_each(|(sum, x)| *sum += f64::from(*x) * factor);
                }
            }
            Ok(())
        })?;
    }
    let count = store.objects() as f64;
    Ok(sums.into_iter().map(|sum| (sum / count) as f32).collect())
}

/// The words of consecutive rows of a store.
///
/// # Errors
/// When a row cannot be read.
pub fn words_of(
    store: &ObjectStore<Vectors>,
    encoder: &Encoder,
    ids: std::ops::Range<u64>,
) -> Result<Vec<u32>, CodesError> {
    let per_row = encoder.words();
    let (mut words, mut rows) = (Vec::with_capacity(per_row * (ids.end - ids.start) as usize), Vec::new());
    let end = |rows: &mut Vec<f32>, words: &mut Vec<u32>| {
        if !rows.is_empty() {
            encoder.encode(CodePath::detect(), rows, words);
            rows.clear();
        }
    };
    store.read::<_, StoreError>(|objects| {
        for id in ids {
            match store.has(id) {
                true => match objects.item(id)? {
                    VectorRef::F32(row) => rows.extend_from_slice(row),
                    row => rows.extend(row.widened()),
                },
                false => {
                    end(&mut rows, &mut words);
                    words.extend(std::iter::repeat_n(0, per_row));
                }
            }
        }
        end(&mut rows, &mut words);
        Ok(())
    })?;
    Ok(words)
}

/// An encoder for the codes of a store around a centre. Product codes, and codes along principal directions, are trained on a sample of
/// 65,536 vectors, with the same bits on every machine.
///
/// # Errors
/// When the vectors have too many numbers for these codes, a row cannot be read, the system has no memory, or the caller cancels.
pub fn encoder_of(
    levels: Levels,
    store: &ObjectStore<Vectors>,
    measure: VectorMeasure,
    centre: Vec<f32>,
    pieces: &mut Pieces<'_>,
) -> Result<Encoder, CodesError> {
    let (dimensions, mut sample) = (centre.len(), Vec::new());
    if levels.dimensions_max().is_some_and(|most| dimensions > most) {
        return Err(CodesError::TooLong { store: store.path().to_owned(), dimensions, levels });
    }
    if levels.is_trained() {
        let mut nths = Random::mixed(SAMPLE_SEED).distinct(store.objects(), SAMPLE_MAX);
        // In the order of the store, so that the order of sums does not depend on the choice.
        nths.sort_unstable();
        store.read::<_, StoreError>(|objects| {
            for nth in nths {
                sample.extend(objects.item(store.nth(nth))?.widened());
            }
            Ok(())
        })?;
    }
    let trained = Encoder::trained(measure, levels, centre, &sample, CodePath::detect(), pieces)?;
    trained.ok_or(CodesError::Cancelled)
}

/// The codes of a space, made in memory: those that a file of these levels would have.
///
/// # Errors
/// When the distance has no codes, a row cannot be read, or the caller cancels.
pub fn in_memory(
    levels: Levels,
    space: &dyn Space,
    cancelled: &dyn Fn() -> bool,
) -> Result<Codes, CodesError> {
    let (store, measure) = vectors_of(space)?;
    let centre = centre_of(&store, measure, cancelled)?;
    let mut pieces = |count: usize, f: &(dyn Fn(usize) + Sync)| {
        (0..count).take_while(|_| !cancelled()).for_each(f);
        !cancelled()
    };
    let encoder = encoder_of(levels, &store, measure, centre, &mut pieces)?;
    let mut codes = Codes::new(encoder, store.len() as usize);
    for first in (0..store.len()).step_by(ROWS) {
        if cancelled() {
            return Err(CodesError::Cancelled);
        }
        let words = words_of(&store, codes.encoder(), first..store.len().min(first + ROWS as u64))?;
        for row in words.chunks_exact(codes.encoder().words()) {
            codes.push(row.iter().copied());
        }
    }
    Ok(codes)
}

/// An unfinished file of codes; dropping it leaves nothing.
pub struct CodesWriter {
    path: PathBuf,
    file: PackedWriter,
    store: Arc<dyn Store>,
    encoder: Encoder,
    /// Whether the file takes the place of another, with its parts.
    is_whole: bool,
    /// Whether the file has the centre.
    has_centre: bool,
}

impl CodesWriter {
    /// Starts the codes of a space.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn create(path: &Path, space: &dyn Space, encoder: Encoder) -> Result<Self, CodesError> {
        let path = real_path(path);
        Self::new(&path, path.clone(), space, encoder, FORMAT.whole, None)
    }

    /// Starts the codes of a compacted store, which replace those of this fingerprint.
    fn replacing(
        path: &Path,
        fingerprint: &str,
        space: &dyn Space,
        encoder: Encoder,
    ) -> Result<Self, CodesError> {
        let whole = real_path(path);
        let next = next_path(&whole);
        if next.symlink_metadata().is_ok() {
            return Err(CodesError::InTheWay { path: next, codes: whole });
        }
        let replaces = (REPLACES_KEY, fingerprint.to_owned());
        let mut writer = Self::new(&whole, next, space, encoder, FORMAT.whole, Some(replaces))?;
        writer.is_whole = false;
        Ok(writer)
    }

    /// Starts the file that follows the last one of a chain that begins with `whole`.
    fn following(whole: &Path, last: &Last, space: &dyn Space, encoder: Encoder) -> Result<Self, CodesError> {
        let follows = (FOLLOWS_KEY, last.fingerprint.clone());
        let path = next_part(whole, last, FORMAT);
        let mut writer = Self::new(whole, path, space, encoder, FORMAT.part, Some(follows))?;
        (writer.is_whole, writer.has_centre) = (false, false);
        Ok(writer)
    }

    fn new(
        whole: &Path,
        path: PathBuf,
        space: &dyn Space,
        encoder: Encoder,
        format: &str,
        link: Option<(&'static str, String)>,
    ) -> Result<Self, CodesError> {
        let store = Arc::clone(space.store());
        let head = [
            (FORMAT_KEY, format.to_owned()),
            (VERSION_KEY, VERSION.to_owned()),
            (STORE_KEY, store.fingerprint().to_owned()),
            (MEASURE_KEY, space.measure()),
            (LEVELS_KEY, encoder.levels().name().to_owned()),
            (CREATOR_KEY, CREATOR.to_owned()),
        ];
        let metadata =
            Metadata::from_iter(head.into_iter().chain(link).map(|(key, value)| (key.to_owned(), value)));
        let schema = schema(&encoder).with_metadata(metadata);
        let file = PackedWriter::create(whole, &path, &schema);
        let file = file.map_err(|error| of(error, &*store, whole, &encoder))?;
        Ok(Self { path, file, store, encoder, is_whole: true, has_centre: true })
    }

    /// Appends the words of the next [`ROWS`] rows, or of the last ones.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn push(&mut self, words: &[u32]) -> Result<(), CodesError> {
        let per_row = self.encoder.words();
        let column = |place: usize| -> ArrayRef {
            Arc::new(UInt32Array::from_iter_values(words.iter().skip(place).step_by(per_row).copied()))
        };
        let written = self.file.write((0..per_row).map(column).collect());
        written.map_err(|error| of(error, &*self.store, &self.path, &self.encoder))
    }

    /// Puts the codes on disk under their name.
    ///
    /// # Errors
    /// When the file cannot be written, or the store has changed meanwhile.
    pub fn finish(self) -> Result<(), CodesError> {
        self.store.confirm()?;
        let codebook = self.encoder.codebook().map(|codebook| (CODEBOOK_KEY, digits(codebook.numbers())));
        let principal = self.encoder.principal().map(|found| (PRINCIPAL_KEY, digits(&found.numbers())));
        let notes =
            [(CENTRE_KEY, digits(self.encoder.centre()))].into_iter().chain(codebook).chain(principal);
        let finished = self.file.finish(notes.filter(|_| self.has_centre));
        finished.map_err(|error| of(error, &*self.store, &self.path, &self.encoder))?;
        if self.is_whole {
            remove_parts(&self.path, FORMAT);
        }
        Ok(())
    }
}

fn schema(encoder: &Encoder) -> Schema {
    let field = |place: usize| Field::new(format!("w{place}"), DataType::UInt32, false);
    Schema::new((0..encoder.words()).map(field).collect::<Vec<_>>())
}
