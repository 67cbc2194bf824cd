//! The codes of a store of vectors: a few bits a number, by which a search excludes most rows with certainty
//! (`boxwork_kernels::vector::codes`).
//!
//! It is the content of a `*.codes.arrow` file, a packed file (`packed_file`):
//!
//! ```text
//! head    what was coded: the store's fingerprint, the measure, the levels
//! batch   4,096 rows: columns `w0`, `w1`, ... of 32 bits, the words of a row
//! tail    the centre, f32 by their bits, and all checksums
//! ```
//!
//! All of it is in memory while it is open. Invariant: codes belong to one content of one store and to one measure, by the
//! fingerprint; any other file is refused with the command that makes it. Words of removed objects are zeros.

use std::fmt::Write;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{ArrayRef, UInt32Array};
use arrow_schema::{DataType, Field, Metadata, Schema};
use boxwork_kernels::vector::codes::{Codes, Encoder, Levels};
use boxwork_kernels::vector::{VectorMeasure, VectorRef, inner_product};

use super::kinds::{Kind, Vectors};
use super::object_store::{ObjectStore, real_path};
use super::packed_file::{
    CREATOR, CREATOR_KEY, FORMAT_KEY, Format, MEASURE_KEY, PackedError, PackedFile, PackedWriter, STORE_KEY,
    VERSION, VERSION_KEY,
};
use super::space::Space;
use super::store::Store;
use super::store_error::{StoreError, way_out};

const FORMAT: Format = Format { whole: "codes", part: "codes.part" };
/// Rows of a batch.
pub const ROWS: usize = 4096;
const LEVELS_KEY: &str = "boxwork.codes.levels";
const CENTRE_KEY: &str = "boxwork.codes.centre";
/// Hexadecimal digits of a number.
const DIGITS: usize = 8;

/// Codes cannot be made, read or used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CodesError {
    /// The system refused.
    #[error("cannot {action} `{}`: {source}{}", path.display(), way_out(source))]
    Io {
        /// The file.
        path: PathBuf,
        /// The attempted action.
        action: &'static str,
        /// The system's reason.
        source: io::Error,
    },
    /// The file is something else, of another version, damaged, or of another content of the store or measure.
    #[error("`{}` {fault}; make it with `{command}`", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The fault, as the rest of a sentence.
        fault: String,
        /// The command that makes the file.
        command: String,
    },
    /// The distance or the objects have no codes.
    #[error(
        "codes exist for vectors by l2, ip and cosine, and the distance here is {measure}: use an index of pivots"
    )]
    NoCodes {
        /// The measure of the space.
        measure: String,
    },
    /// The store cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The caller cancelled it.
    #[error("the codes were not finished: they were cancelled")]
    Cancelled,
}

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
    let mut words = Vec::with_capacity(per_row * (ids.end - ids.start) as usize);
    store.read::<_, StoreError>(|objects| {
        for id in ids {
            match store.has(id) {
                true => match objects.item(id)? {
                    VectorRef::F32(row) => encoder.encode(row, &mut words),
                    row => encoder.encode(&row.widened(), &mut words),
                },
                false => words.extend(std::iter::repeat_n(0, per_row)),
            }
        }
        Ok(())
    })?;
    Ok(words)
}

/// An unfinished file of codes; dropping it leaves nothing.
pub struct CodesWriter {
    file: PackedWriter,
    store: Arc<dyn Store>,
    encoder: Encoder,
}

impl CodesWriter {
    /// Starts the codes of a space.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn create(path: &Path, space: &dyn Space, encoder: Encoder) -> Result<Self, CodesError> {
        let path = &real_path(path);
        let store = Arc::clone(space.store());
        let head = [
            (FORMAT_KEY, FORMAT.whole.to_owned()),
            (VERSION_KEY, VERSION.to_owned()),
            (STORE_KEY, store.fingerprint().to_owned()),
            (MEASURE_KEY, space.measure()),
            (LEVELS_KEY, encoder.levels().name().to_owned()),
            (CREATOR_KEY, CREATOR.to_owned()),
        ];
        let metadata = Metadata::from_iter(head.map(|(key, value)| (key.to_owned(), value)));
        let schema = schema(&encoder).with_metadata(metadata);
        let of = |error| of(error, &*store, path, &encoder);
        let file = PackedWriter::create(path, path, &schema).map_err(of)?;
        Ok(Self { file, store, encoder })
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
        written.map_err(|error| of(error, &*self.store, self.store.path(), &self.encoder))
    }

    /// Puts the codes on disk under their name.
    ///
    /// # Errors
    /// When the file cannot be written, or the store has changed meanwhile.
    pub fn finish(self) -> Result<(), CodesError> {
        self.store.confirm()?;
        let mut text = String::with_capacity(DIGITS * self.encoder.centre().len());
        for number in self.encoder.centre() {
            write!(text, "{:0DIGITS$x}", number.to_bits()).expect("a string takes any text");
        }
        let finished = self.file.finish([(CENTRE_KEY, text)]);
        finished.map_err(|error| of(error, &*self.store, self.store.path(), &self.encoder))
    }
}

/// Reads the codes of a space.
///
/// # Errors
/// When the file cannot be read, is no file of codes, is damaged, or of another content of the store, or measure.
pub fn open(path: &Path, space: &dyn Space) -> Result<Codes, CodesError> {
    let (vectors, measure) = vectors_of(space)?;
    let (store, dimensions) = (space.store(), vectors.kind().dimensions());
    let any = Encoder::new(measure, Levels::Planes, Vec::new());
    let of = |error| of(error, &**store, path, &any);
    let file = PackedFile::open(path, FORMAT.whole).map_err(of)?;
    let refused = |fault: String| {
        let command = command(&**store, path, &any);
        CodesError::File { path: path.to_owned(), fault, command }
    };
    if file.said(STORE_KEY) != store.fingerprint() {
        let store = store.path().display();
        return Err(refused(format!(
            "has the codes of another store, or `{store}` has changed since they were made"
        )));
    }
    if file.said(MEASURE_KEY) != space.measure() {
        let (found, wanted) = (file.said(MEASURE_KEY), space.measure());
        return Err(refused(format!("has codes for {found}, and the distance here is {wanted}")));
    }
    let levels: Levels =
        file.said(LEVELS_KEY).parse().map_err(|reason| refused(format!("is damaged: {reason}")))?;
    let (digits, rest) = file.noted(CENTRE_KEY).as_bytes().as_chunks::<DIGITS>();
    let number = |digits: &[u8; DIGITS]| {
        let digits = std::str::from_utf8(digits).ok()?;
        Some(f32::from_bits(u32::from_str_radix(digits, 16).ok()?)).filter(|number| number.is_finite())
    };
    let centre: Option<Vec<f32>> = digits.iter().map(number).collect();
    let centre = centre.filter(|centre| rest.is_empty() && centre.len() == dimensions);
    let centre = centre.ok_or_else(|| refused("is damaged: its centre does not fit the store".to_owned()))?;
    let encoder = Encoder::new(measure, levels, centre);
    if *file.fields() != *schema(&encoder).fields() || file.rows(ROWS).map_err(of)? != store.ids_count() {
        return Err(refused("is damaged: its columns do not fit the store".to_owned()));
    }
    let words = encoder.words();
    let mut codes = Codes::new(encoder, store.ids_count() as usize);
    file.each_batch(ROWS, &mut |batch| {
        let columns = batch.columns(words, size_of::<u32>())?;
        let columns: Vec<&[[u8; 4]]> = columns.iter().map(|column| column.as_chunks::<4>().0).collect();
        for row in 0..batch.rows {
            codes.push(columns.iter().map(|column| u32::from_le_bytes(column[row])));
        }
        Some(())
    })
    .map_err(of)?;
    Ok(codes)
}

fn schema(encoder: &Encoder) -> Schema {
    let field = |place: usize| Field::new(format!("w{place}"), DataType::UInt32, false);
    Schema::new((0..encoder.words()).map(field).collect::<Vec<_>>())
}

/// The command that makes the codes.
fn command(store: &dyn Store, path: &Path, encoder: &Encoder) -> String {
    let (store_path, levels) = (store.path().display(), encoder.levels().name());
    let distance = match encoder.measure().name() {
        usual if usual == store.usual_distance() => String::new(),
        other => format!(" --distance {other}"),
    };
    format!("boxwork index --store {store_path} --codes {levels}{distance} --out {} --force", path.display())
}

fn of(error: PackedError, store: &dyn Store, path: &Path, encoder: &Encoder) -> CodesError {
    let make = |found: PathBuf, fault: String| CodesError::File {
        path: found,
        fault,
        command: command(store, path, encoder),
    };
    match error {
        PackedError::Io { path, action, source } => CodesError::Io { path, action, source },
        PackedError::Foreign { path, reason } => make(path, format!("is no file of codes: {reason}")),
        PackedError::Version { path, found } => {
            make(path, format!("has version {found} of the layout, which this program does not read"))
        }
        PackedError::Damaged { path, place, reason } => {
            make(path, format!("is damaged in {place}: {reason}"))
        }
    }
}
