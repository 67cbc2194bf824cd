//! Writes a store, batch by batch.
//!
//! Every object is checked and normalised on its way in (for example the weights of signatures). Nothing exists under
//! the store's name until [`StoreWriter::finish`] has put all of it on disk; a dropped writer leaves nothing.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, StringArray, UInt64Array};
use arrow_ipc::MetadataVersion;
use arrow_ipc::writer::{FileWriter, IpcWriteOptions};
use arrow_schema::{ArrowError, Metadata};
use boxwork_runtime::envelope::ENVELOPE_ROWS_MAX;

use super::StoreError;
use super::layout::{self, BatchEntry};
use super::lock::StoreLock;
use super::temporary::TemporaryFile;
use crate::kinds::Kind;
use crate::steps::step;

/// Rows of a batch: about 10 MiB at 75 centroids per signature, so that a first use checks little.
pub(super) const BATCH_ROWS: usize = 4096;
/// Every buffer begins at a multiple of this in the file, and thus in memory.
const ALIGNMENT_BYTES: usize = 64;

const _: () = assert!(BATCH_ROWS <= ENVELOPE_ROWS_MAX);

/// A store's metadata.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StoreInfo {
    /// The parameters of the extraction, as JSON.
    pub parameters: Option<String>,
    /// The alpha of searches that name none, for signatures; finite and above 0.
    pub alpha: Option<f64>,
    /// The folder that contains the images, if there are images; names are paths in it.
    pub source: Option<PathBuf>,
}

/// Whether a number can be an alpha.
pub(super) fn is_alpha(alpha: f64) -> bool {
    alpha.is_finite() && alpha > 0.0
}

/// An unfinished store.
pub struct StoreWriter<K: Kind> {
    path: PathBuf,
    file: TemporaryFile,
    // Its sink holds one piece of the file at a time: the checksum is computed before the piece is written.
    arrow: FileWriter<Vec<u8>>,
    head: u32,
    batches: Vec<BatchEntry>,
    hashers: [RandomState; 2],
    // Two hashes represent a name, which may be long; a collision by chance has a probability of 2^-128 per pair.
    names_seen: HashSet<[u64; 2]>,
    names: Vec<String>,
    kind: K,
    builder: K::Builder,
    /// For each buffer of a batch, the bytes of a number in it.
    numbers: Vec<usize>,
    written: u64,
    /// Bytes of the file so far.
    bytes: u64,
}

impl<K: Kind> StoreWriter<K> {
    /// Starts a store of a kind with the final name `path`.
    ///
    /// # Errors
    /// When the folder cannot be written to.
    pub fn of(path: &Path, kind: &K, info: &StoreInfo) -> Result<Self, StoreError> {
        Self::of_part(path, path, kind, info)
    }

    /// As [`StoreWriter::of`], for a part of the store `file`, after which the temporary file is named. Messages name
    /// the store `path`.
    pub(super) fn of_part(path: &Path, file: &Path, kind: &K, info: &StoreInfo) -> Result<Self, StoreError> {
        let refuse = |reason: String| StoreError::Metadata { path: path.to_owned(), reason };
        let mut metadata = Metadata::default();
        let mut note = |key: &str, value: String| match value.contains(layout::MARKER) {
            true => Err(refuse(format!("its {key} contains `{}`, which marks a checksum", layout::MARKER))),
            false => {
                metadata.insert(key, value);
                Ok(())
            }
        };
        note(layout::FORMAT_KEY, K::NAME.to_owned())?;
        note(layout::VERSION_KEY, layout::VERSION.to_owned())?;
        kind.metadata().into_iter().try_for_each(|(key, value)| note(key, value))?;
        note(layout::CREATOR_KEY, concat!("boxwork ", env!("CARGO_PKG_VERSION")).to_owned())?;
        if let Some(parameters) = &info.parameters {
            note(layout::PARAMETERS_KEY, parameters.clone())?;
        }
        if let Some(alpha) = info.alpha {
            if !is_alpha(alpha) {
                return Err(refuse(format!("its alpha is {alpha}, which is not a number above zero")));
            }
            // With the fewest digits that read back as this number.
            note(layout::ALPHA_KEY, format!("{alpha:?}"))?;
        }
        if let Some(source) = &info.source {
            note(layout::SOURCE_KEY, source.to_string_lossy().into_owned())?;
        }
        // Names of coordinates, for example.
        if kind.shape().contains(layout::MARKER) {
            return Err(refuse(format!("a name in its columns contains `{}`", layout::MARKER)));
        }
        let schema = layout::schema(kind, metadata);
        let options =
            IpcWriteOptions::try_new(ALIGNMENT_BYTES, false, MetadataVersion::V5).map_err(encoding(path))?;
        let mut arrow =
            FileWriter::try_new_with_options(Vec::new(), &schema, options).map_err(encoding(path))?;
        let file = TemporaryFile::create(file).map_err(|source| StoreError::Io {
            path: path.to_owned(),
            action: "write",
            source,
        })?;
        let head = std::mem::take(arrow.get_mut());
        let mut writer = Self {
            path: path.to_owned(),
            file,
            arrow,
            head: crc32fast::hash(&head),
            batches: Vec::new(),
            hashers: [RandomState::new(), RandomState::new()],
            names_seen: HashSet::new(),
            names: Vec::new(),
            kind: kind.clone(),
            builder: kind.builder(),
            numbers: layout::numbers(&schema).expect("each kind has columns of known types"),
            written: 0,
            bytes: 0,
        };
        writer.write_piece(&head)?;
        Ok(writer)
    }

    /// Number of objects so far.
    pub fn len(&self) -> u64 {
        self.written + self.names.len() as u64
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The store's final name.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The common properties of all objects.
    pub fn kind(&self) -> &K {
        &self.kind
    }

    /// Refuses objects whose dimension or coordinates differ from the store's.
    ///
    /// # Errors
    /// Names both.
    pub fn check_kind(&self, found: &K) -> Result<(), StoreError> {
        if self.kind == *found {
            return Ok(());
        }
        let (path, found, wanted) = (self.path.clone(), found.shape(), self.kind.shape());
        Err(StoreError::OtherObjects { path, kind: K::NAME, found, wanted })
    }

    /// Appends an object; its id is its index.
    ///
    /// # Errors
    /// When the object is invalid, its name is taken, or the file cannot be written.
    ///
    /// # Panics
    /// When a signature has another number of coordinates than the store.
    pub fn push_item(&mut self, name: &str, item: K::Item<'_>) -> Result<(), StoreError> {
        self.push_with(name, |builder| K::push(builder, item))
    }

    /// Appends the object in a row of [columns](Kind::columns); otherwise as [`StoreWriter::push_item`].
    pub(crate) fn push_row(
        &mut self,
        name: &str,
        columns: &[ArrayRef],
        row: usize,
    ) -> Result<(), StoreError> {
        self.push_with(name, |builder| K::push_row(builder, columns, row))
    }

    fn push_with(
        &mut self,
        name: &str,
        push: impl FnOnce(&mut K::Builder) -> Result<(), String>,
    ) -> Result<(), StoreError> {
        if !self.names_seen.insert([0, 1].map(|idx: usize| self.hashers[idx].hash_one(name))) {
            return Err(StoreError::DuplicateName { path: self.path.clone(), name: name.to_owned() });
        }
        let refused = |reason| StoreError::Object { path: self.path.clone(), name: name.to_owned(), reason };
        push(&mut self.builder).map_err(refused)?;
        self.names.push(name.to_owned());
        if self.names.len() == BATCH_ROWS || K::is_full(&self.builder) {
            self.write_batch()?;
        }
        Ok(())
    }

    /// Puts the store on disk under its name, and returns the number of its objects. It waits for a change in progress,
    /// then replaces the store of that name with all its changes.
    ///
    /// # Errors
    /// When there is no object, or the file cannot be written.
    pub fn finish(self) -> Result<u64, StoreError> {
        let given = self.path.clone();
        let (file, written, _) = self.finish_file()?;
        let path = file.path().to_owned();
        let kept = match StoreLock::wait(&path) {
            Ok(lock) => lock.replacing(&path, || file.keep()),
            // A file system without locks holds no changed stores.
            Err(_) => file.keep(),
        };
        kept.map_err(|source| StoreError::Io { path: given, action: "write", source })?;
        Ok(written)
    }

    /// Writes the rest, and returns the still unnamed file, its number of objects and its fingerprint.
    pub(super) fn finish_file(mut self) -> Result<(TemporaryFile, u64, String), StoreError> {
        if self.is_empty() {
            return Err(StoreError::Empty { path: self.path });
        }
        self.write_batch()?;
        debug_assert_eq!(self.batches.iter().map(|batch| batch.rows as u64).sum::<u64>(), self.written);
        self.arrow.write_metadata(layout::CHECKSUMS_KEY, layout::write_checksums(self.head, &self.batches));
        self.arrow.finish().map_err(encoding(&self.path))?;
        let mut tail = std::mem::take(self.arrow.get_mut());
        let digits = layout::tail_digits(&tail).expect("the marker is refused in all other texts");
        let checksum = layout::tail_checksum(&tail, &digits);
        tail[digits].copy_from_slice(checksum.as_bytes());
        self.write_piece(&tail)?;
        Ok((self.file, self.written, format!("{:x}-{checksum}", self.bytes)))
    }

    fn write_batch(&mut self) -> Result<(), StoreError> {
        let rows = self.names.len();
        if rows == 0 {
            return Ok(());
        }
        let first = self.written;
        let mut columns: Vec<ArrayRef> = vec![
            Arc::new(UInt64Array::from_iter_values(first..first + rows as u64)),
            Arc::new(StringArray::from_iter_values(self.names.drain(..))),
        ];
        columns.extend(K::finish(&mut self.builder));
        let batch =
            RecordBatch::try_new(Arc::clone(self.arrow.schema()), columns).map_err(encoding(&self.path))?;
        self.arrow.write(&batch).map_err(encoding(&self.path))?;
        let block = std::mem::take(self.arrow.get_mut());
        // The header's length excludes the first eight bytes: a continuation marker and the length itself.
        let header_bytes = 8 + u32::from_le_bytes([block[4], block[5], block[6], block[7]]) as usize;
        let (header, body) = block.split_at(header_bytes);
        let front_bytes =
            layout::front_bytes(&self.numbers, header, body.len()).expect("the header of a batch just made");
        let (front, rest) = block.split_at(front_bytes);
        let (front, rest) = (crc32fast::hash(front), crc32fast::hash(rest));
        self.batches.push(BatchEntry { rows, front_bytes, front, rest });
        self.written += rows as u64;
        self.write_piece(&block)?;
        // The next batch reuses the memory.
        *self.arrow.get_mut() = block;
        self.arrow.get_mut().clear();
        Ok(())
    }

    fn write_piece(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        self.bytes += bytes.len() as u64;
        let path = &self.path;
        let written = self.file.write_all(bytes);
        step("piece of a store written");
        written.map_err(|source| StoreError::Io { path: path.clone(), action: "write", source })
    }
}

fn encoding(path: &Path) -> impl FnOnce(ArrowError) -> StoreError {
    let path = path.to_owned();
    move |error| StoreError::Metadata { path, reason: error.to_string() }
}
