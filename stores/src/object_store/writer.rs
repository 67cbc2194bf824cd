//! Writes a store, batch by batch.
//!
//! Every object is checked and its weights normalised on the way in. Nothing stands under the store's name until
//! [`StoreWriter::finish`] has put all of it on disk; a writer that is dropped leaves nothing.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, StringArray, UInt32Array, UInt64Array};
use arrow_ipc::MetadataVersion;
use arrow_ipc::writer::{FileWriter, IpcWriteOptions};
use arrow_schema::{ArrowError, Metadata};
use boxwork_kernels::sqfd::SignatureRef;
use boxwork_runtime::envelope::ENVELOPE_ROWS_MAX;

use super::error::StoreError;
use super::layout::{self, BatchEntry};
use super::lock::StoreLock;
use super::temporary::TemporaryFile;
use crate::signature::{CENTROIDS_MAX, SignatureBuilder};
use crate::steps::step;

/// Rows of a batch: about 10 MiB at 75 centroids a signature, so that a first use has little to check.
const BATCH_ROWS: usize = 4096;
/// Centroids after which a batch is full, whatever its rows: 32 MiB at seven coordinates.
const BATCH_CENTROIDS: usize = 1 << 20;
/// Every buffer begins at a multiple of this in the file, and so in memory.
const ALIGNMENT_BYTES: usize = 64;

const _: () = assert!(BATCH_ROWS <= ENVELOPE_ROWS_MAX);
// A signature joins a batch that is not full, so a batch may hold both; their sum stays an `i32` offset.
const _: () = assert!(BATCH_CENTROIDS + CENTROIDS_MAX <= i32::MAX as usize);

/// What a store's metadata holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreInfo {
    /// The parameters of the extraction, as JSON.
    pub parameters: Option<String>,
    /// The folder that the names are paths in, where there are images.
    pub source: Option<PathBuf>,
}

/// A store under way.
pub struct StoreWriter {
    path: PathBuf,
    file: TemporaryFile,
    // Its sink holds one piece of the file at a time: the checksum is taken before the piece goes to the file.
    arrow: FileWriter<Vec<u8>>,
    head: u32,
    batches: Vec<BatchEntry>,
    hashers: [RandomState; 2],
    // Two hashes stand for a name, which may be long. Two names have the same hashes by chance once in 2^128 pairs.
    names_seen: HashSet<[u64; 2]>,
    names: Vec<String>,
    signatures: SignatureBuilder,
    sizes: Vec<(u32, u32)>,
    written: u64,
    /// Bytes of the file so far.
    bytes: u64,
}

impl StoreWriter {
    /// Starts a store that will be named `path`, of signatures with these coordinates.
    ///
    /// # Errors
    /// When the folder cannot be written to, or the coordinates are none or too many.
    pub fn create<S: AsRef<str>>(
        path: &Path,
        coordinates: &[S],
        info: &StoreInfo,
    ) -> Result<Self, StoreError> {
        Self::create_part(path, path, coordinates, info)
    }

    /// As [`StoreWriter::create`], for a part of the store `file`, whose temporary file is named after the store.
    /// Messages name the store `path`.
    pub(super) fn create_part<S: AsRef<str>>(
        path: &Path,
        file: &Path,
        coordinates: &[S],
        info: &StoreInfo,
    ) -> Result<Self, StoreError> {
        let refuse = |reason: String| StoreError::Metadata { path: path.to_owned(), reason };
        let signatures = SignatureBuilder::new(coordinates).map_err(|error| refuse(error.to_string()))?;
        let mut metadata = Metadata::default();
        let mut note = |key: &str, value: String| match value.contains(layout::MARKER) {
            true => Err(refuse(format!("its {key} contains `{}`, which marks a checksum", layout::MARKER))),
            false => {
                metadata.insert(key, value);
                Ok(())
            }
        };
        note(layout::FORMAT_KEY, layout::FORMAT.to_owned())?;
        note(layout::VERSION_KEY, layout::VERSION.to_owned())?;
        note(layout::DIMENSIONS_KEY, coordinates.len().to_string())?;
        note(layout::CREATOR_KEY, concat!("boxwork ", env!("CARGO_PKG_VERSION")).to_owned())?;
        if let Some(parameters) = &info.parameters {
            note(layout::PARAMETERS_KEY, parameters.clone())?;
        }
        if let Some(source) = &info.source {
            note(layout::SOURCE_KEY, source.to_string_lossy().into_owned())?;
        }
        if coordinates.iter().any(|name| name.as_ref().contains(layout::MARKER)) {
            return Err(refuse(format!("a coordinate's name contains `{}`", layout::MARKER)));
        }
        let schema = layout::schema(coordinates, metadata);
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
            signatures,
            sizes: Vec::new(),
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

    /// Whether there is none yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Refuses signatures of other coordinates than the store's.
    ///
    /// # Errors
    /// Names both.
    pub fn check_coordinates<S: AsRef<str>>(&self, found: &[S]) -> Result<(), StoreError> {
        let (wanted, found) =
            (self.signatures.coordinates(), found.iter().map(|name| name.as_ref().to_owned()));
        let found: Vec<String> = found.collect();
        if wanted == found {
            return Ok(());
        }
        Err(StoreError::OtherSignatures { path: self.path.clone(), found, wanted })
    }

    /// Appends an object; its id is its place. A size of 0 x 0 says that there is no image.
    ///
    /// # Errors
    /// When the signature is not sound, the name is there already, or the file cannot be written.
    ///
    /// # Panics
    /// When the signature has another number of coordinates than the store.
    pub fn push(
        &mut self,
        name: &str,
        signature: SignatureRef<'_>,
        width: u32,
        height: u32,
    ) -> Result<(), StoreError> {
        if !self.names_seen.insert([0, 1].map(|idx: usize| self.hashers[idx].hash_one(name))) {
            return Err(StoreError::DuplicateName { path: self.path.clone(), name: name.to_owned() });
        }
        let refused = |source| StoreError::Object { path: self.path.clone(), name: name.to_owned(), source };
        self.signatures.push_signature(signature).map_err(refused)?;
        self.names.push(name.to_owned());
        self.sizes.push((width, height));
        if self.names.len() == BATCH_ROWS || self.signatures.centroids() >= BATCH_CENTROIDS {
            self.write_batch()?;
        }
        Ok(())
    }

    /// Puts the store on disk under its name, and returns the number of its objects. It replaces a store of that name
    /// with all its changes, once a change under way has ended.
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

    /// Writes the rest, and returns the file, which has no name yet, the number of its objects and its fingerprint.
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
        let columns: Vec<ArrayRef> = vec![
            Arc::new(UInt64Array::from_iter_values(first..first + rows as u64)),
            Arc::new(StringArray::from_iter_values(self.names.drain(..))),
            Arc::new(self.signatures.finish()),
            Arc::new(UInt32Array::from_iter_values(self.sizes.iter().map(|size| size.0))),
            Arc::new(UInt32Array::from_iter_values(self.sizes.iter().map(|size| size.1))),
        ];
        self.sizes.clear();
        let batch =
            RecordBatch::try_new(Arc::clone(self.arrow.schema()), columns).map_err(encoding(&self.path))?;
        self.arrow.write(&batch).map_err(encoding(&self.path))?;
        let block = std::mem::take(self.arrow.get_mut());
        // The first eight bytes, a continuation marker and the header's length, are not counted in that length.
        let header_bytes = 8 + u32::from_le_bytes([block[4], block[5], block[6], block[7]]) as usize;
        let (header, body) = block.split_at(header_bytes);
        let front_bytes = layout::front_bytes(header, body.len()).expect("the header of a batch just made");
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
