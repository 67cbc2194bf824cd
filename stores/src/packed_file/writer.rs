//! A packed file that is being written: batches of columns, under checksums.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_ipc::MetadataVersion;
use arrow_ipc::writer::{FileWriter, IpcWriteOptions};
use arrow_schema::{ArrowError, Schema};

use super::super::object_store::TemporaryFile;
use super::super::steps::step;
use super::{PackedError, layout};

/// Every buffer begins at a multiple of this in the file, and thus in memory.
const ALIGNMENT_BYTES: usize = 64;

/// An unfinished file; dropping it removes it.
pub(crate) struct PackedWriter {
    /// Its final name.
    path: PathBuf,
    file: TemporaryFile,
    // Its sink holds one part of the file at a time, whose checksum is taken before it goes to the file.
    arrow: FileWriter<Vec<u8>>,
    head: u32,
    batches: Vec<(usize, u32)>,
}

impl PackedWriter {
    /// Starts a file with the final name `path`; its temporary file is named after `whole`, the first file of its chain.
    pub(crate) fn create(whole: &Path, path: &Path, schema: &Schema) -> Result<Self, PackedError> {
        let options =
            IpcWriteOptions::try_new(ALIGNMENT_BYTES, false, MetadataVersion::V5).map_err(encoding(path))?;
        let mut arrow =
            FileWriter::try_new_with_options(Vec::new(), schema, options).map_err(encoding(path))?;
        let file = TemporaryFile::create(whole).map_err(|source| PackedError::Io {
            path: path.to_owned(),
            action: "write",
            source,
        })?;
        let head = std::mem::take(arrow.get_mut());
        let checksum = crc32fast::hash(&head);
        let mut file = Self { path: path.to_owned(), file, arrow, head: checksum, batches: Vec::new() };
        file.write_part(&head)?;
        Ok(file)
    }

    /// Writes a batch.
    pub(crate) fn write(&mut self, columns: Vec<ArrayRef>) -> Result<(), PackedError> {
        let rows = columns.first().map_or(0, |column| column.len());
        let batch =
            RecordBatch::try_new(Arc::clone(self.arrow.schema()), columns).map_err(encoding(&self.path))?;
        self.arrow.write(&batch).map_err(encoding(&self.path))?;
        let block = std::mem::take(self.arrow.get_mut());
        self.batches.push((rows, crc32fast::hash(&block)));
        self.write_part(&block)?;
        // The next block reuses the memory.
        *self.arrow.get_mut() = block;
        self.arrow.get_mut().clear();
        Ok(())
    }

    /// Puts the file on disk under its name, with notes in the footer's metadata.
    pub(crate) fn finish(
        mut self,
        notes: impl IntoIterator<Item = (&'static str, String)>,
    ) -> Result<(), PackedError> {
        for (key, note) in notes {
            self.arrow.write_metadata(key, note);
        }
        self.arrow.write_metadata(layout::CHECKSUMS_KEY, layout::write_checksums(self.head, &self.batches));
        self.arrow.finish().map_err(encoding(&self.path))?;
        let mut tail = std::mem::take(self.arrow.get_mut());
        let digits = layout::tail_digits(&tail).expect("no other text of a file has the marker");
        let checksum = layout::tail_checksum(&tail, &digits);
        tail[digits].copy_from_slice(checksum.as_bytes());
        self.write_part(&tail)?;
        let Self { file, path, .. } = self;
        file.keep_as(&path).map_err(|source| PackedError::Io { path, action: "write", source })?;
        step("index file kept");
        Ok(())
    }

    fn write_part(&mut self, bytes: &[u8]) -> Result<(), PackedError> {
        let path = &self.path;
        let io = |source| PackedError::Io { path: path.clone(), action: "write", source };
        self.file.write_all(bytes).map_err(io)?;
        step("part of an index written");
        Ok(())
    }
}

fn encoding(path: &Path) -> impl FnOnce(ArrowError) -> PackedError {
    let path = path.to_owned();
    move |error| PackedError::Foreign { path, reason: format!("it cannot be written ({error})") }
}
