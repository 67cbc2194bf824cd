//! Reads a packed file: checks the checksum of every part before its first use.

use std::collections::HashMap;
use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use arrow_ipc::Block;
use arrow_ipc::convert::try_fb_to_schema;
use arrow_ipc::reader::read_footer_length;
use arrow_schema::{Fields, Schema};

use super::super::object_store::{Access, MAPPED_BYTES_MIN, Map, read_at};
use super::PackedError;
use super::layout::{self, CHECKSUM_DIFFERS, Place, ranges_of};
use super::mapped::MappedBatches;

/// A file whose tail is read: its metadata, and the places of its batches.
pub(crate) struct PackedFile {
    path: PathBuf,
    file: File,
    schema: Schema,
    /// The metadata of the footer.
    footer: HashMap<String, String>,
    blocks: Vec<Block>,
    tail_start: u64,
    length: u64,
    /// A text unique to this content.
    pub(crate) fingerprint: String,
}

impl PackedFile {
    /// Opens a file of a format in one of these versions, and checks its tail.
    pub(super) fn open(path: &Path, format: &str, versions: &[&str]) -> Result<Self, PackedError> {
        let file = File::open(path).map_err(|source| PackedError::Io {
            path: path.to_owned(),
            action: "open",
            source,
        })?;
        let mut index = Self {
            path: path.to_owned(),
            file,
            schema: Schema::empty(),
            footer: HashMap::new(),
            blocks: Vec::new(),
            tail_start: 0,
            length: 0,
            fingerprint: String::new(),
        };
        index.read_tail()?;
        if index.said(layout::FORMAT_KEY) != format {
            return Err(index.not(&format!("its metadata lacks `boxwork.format = {format}`")));
        }
        if !versions.contains(&index.said(layout::VERSION_KEY)) {
            let found = index.said(layout::VERSION_KEY).to_owned();
            return Err(PackedError::Version { path: path.to_owned(), found });
        }
        Ok(index)
    }

    fn read_tail(&mut self) -> Result<(), PackedError> {
        let length = self.file.seek(SeekFrom::End(0)).map_err(|source| self.io(source))?;
        let magic = self.bytes(0, (layout::MAGIC.len() as u64).min(length))?;
        if magic != layout::MAGIC || length < (layout::MAGIC.len() + layout::TRAILER_BYTES) as u64 {
            return Err(self.not("it does not begin as an Arrow file"));
        }
        let trailer = self.bytes(length - layout::TRAILER_BYTES as u64, layout::TRAILER_BYTES as u64)?;
        let trailer: [u8; layout::TRAILER_BYTES] = trailer.try_into().expect("as many as asked for");
        if !trailer.ends_with(layout::MAGIC) {
            return Err(self.damaged("its tail", "it is cut short"));
        }
        let footer_bytes =
            read_footer_length(trailer).map_err(|error| self.damaged("its tail", &error.to_string()))?;
        let tail_bytes = footer_bytes + layout::END_OF_STREAM_BYTES + layout::TRAILER_BYTES;
        self.tail_start = length
            .checked_sub(tail_bytes as u64)
            .ok_or_else(|| self.damaged("its tail", "the footer is longer than the file"))?;
        let tail = self.bytes(self.tail_start, tail_bytes as u64)?;
        let digits =
            layout::tail_digits(&tail).ok_or_else(|| self.not("it carries no checksum of Boxwork's"))?;
        let checksum = layout::tail_checksum(&tail, &digits);
        if tail[digits] != *checksum.as_bytes() {
            return Err(self.damaged("its tail", CHECKSUM_DIFFERS));
        }
        (self.length, self.fingerprint) = (length, format!("{length:x}-{checksum}"));
        let footer = arrow_ipc::root_as_footer(&tail[layout::END_OF_STREAM_BYTES..][..footer_bytes])
            .map_err(|error| self.damaged("its footer", &error.to_string()))?;
        let schema = footer.schema().ok_or_else(|| self.not("it has no schema"))?;
        self.schema =
            try_fb_to_schema(schema).map_err(|error| self.damaged("its schema", &error.to_string()))?;
        self.blocks = footer.recordBatches().into_iter().flatten().copied().collect();
        if let Some(metadata) = footer.custom_metadata() {
            let entries = (0..metadata.len()).map(|idx| metadata.get(idx));
            let texts = entries.filter_map(|entry| Some((entry.key()?, entry.value()?)));
            self.footer = texts.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        }
        Ok(())
    }

    /// A value of the head's metadata; empty if it is missing.
    pub(crate) fn said(&self, key: &str) -> &str {
        self.schema.metadata().get(key).map_or("", String::as_str)
    }

    /// A value of the footer's metadata; empty if it is missing.
    pub(crate) fn noted(&self, key: &str) -> &str {
        self.footer.get(key).map_or("", String::as_str)
    }

    /// The columns with their metadata.
    pub(crate) fn schema(&self) -> &Schema {
        &self.schema
    }

    /// The columns.
    pub(crate) fn fields(&self) -> &Fields {
        self.schema.fields()
    }

    /// The batches' rows and checksums, and the head's checksum; all batches but the last have `rows_each` rows.
    fn batches(&self, rows_each: usize) -> Result<(u32, Vec<(usize, u32)>), PackedError> {
        let (head, batches) = self
            .footer
            .get(layout::CHECKSUMS_KEY)
            .and_then(|text| layout::read_checksums(text))
            .ok_or_else(|| self.damaged("its footer", "the checksums cannot be read"))?;
        let (last, full) = batches.split_last().ok_or_else(|| self.not("it holds no objects"))?;
        let packed = full.iter().all(|(rows, _)| *rows == rows_each)
            && (1..=rows_each).contains(&last.0)
            && self.blocks.len() == batches.len();
        match packed {
            true => Ok((head, batches)),
            false => Err(self.not_blocks()),
        }
    }

    /// Number of rows, of which all batches but the last have `rows_each`.
    pub(crate) fn rows(&self, rows_each: usize) -> Result<u64, PackedError> {
        Ok(self.batches(rows_each)?.1.iter().map(|(rows, _)| *rows as u64).sum())
    }

    /// Calls `f` with each batch; it returns `None` if these are not the columns that the file should have.
    pub(crate) fn each_batch(
        self,
        rows_each: usize,
        f: &mut dyn FnMut(PackedBatch<'_>) -> Option<()>,
    ) -> Result<(), PackedError> {
        let batches = self.into_batches(rows_each)?;
        (0..batches.len()).try_for_each(|idx| batches.batch(idx, &mut *f))
    }

    /// The batches, of which all but the last have `rows_each` rows. Checks the head, and that the batches fill the file.
    pub(crate) fn into_batches(mut self, rows_each: usize) -> Result<PackedBatches, PackedError> {
        let places = self.places(rows_each)?;
        Ok(PackedBatches { path: self.path, file: self.file, rows_each, places })
    }

    /// As [`PackedFile::into_batches`], with bytes that stay in the file: mapped, if `access` says so and the system allows it. A
    /// small file that follows another is read now, as those of stores are.
    pub(crate) fn into_mapped(
        mut self,
        rows_each: usize,
        access: Access,
        follows: bool,
    ) -> Result<MappedBatches, PackedError> {
        let places = self.places(rows_each)?;
        let io = |source| PackedError::Io { path: self.path.clone(), action: "read", source };
        let mut file = self.file;
        let bytes = file.metadata().map_err(io)?.len();
        let mapped = || Map::new(file.try_clone().ok()?, Access::Map).ok();
        let map = if follows && bytes < MAPPED_BYTES_MIN {
            file.rewind().map_err(io)?;
            Map::copied(file).map_err(io)?
        } else if let Some(map) = (access == Access::Map).then(mapped).flatten() {
            map
        } else {
            Map::new(file, Access::Read).map_err(io)?
        };
        let batches = MappedBatches::new(self.path, map, rows_each, places);
        match batches.len_bytes() == self.length {
            true => Ok(batches),
            false => Err(batches.lost()),
        }
    }

    /// The places of the batches, of which all but the last have `rows_each` rows.
    fn places(&mut self, rows_each: usize) -> Result<Vec<Place>, PackedError> {
        let (head, batches) = self.batches(rows_each)?;
        let head_end = u64::try_from(self.blocks[0].offset()).unwrap_or(u64::MAX).min(self.tail_start);
        if crc32fast::hash(&self.bytes(0, head_end)?) != head {
            return Err(self.damaged("its head", CHECKSUM_DIFFERS));
        }
        let (mut end, mut places) = (head_end, Vec::with_capacity(batches.len()));
        for (idx, (rows, checksum)) in batches.into_iter().enumerate() {
            let block = self.blocks[idx];
            let wrong =
                |reason: &str| self.damaged(&format!("block {} of {}", idx + 1, self.blocks.len()), reason);
            let header_bytes =
                u64::try_from(block.metaDataLength()).map_err(|_| wrong("it has no header"))?;
            let bytes =
                u64::try_from(block.bodyLength()).ok().and_then(|body| body.checked_add(header_bytes));
            let bytes = bytes.filter(|bytes| *bytes <= self.tail_start.saturating_sub(end));
            let Some(bytes) = bytes.filter(|_| u64::try_from(block.offset()) == Ok(end)) else {
                return Err(wrong("the blocks do not fill the file"));
            };
            places.push(Place { rows, checksum, start: end, header_bytes, bytes });
            end += bytes;
        }
        match end == self.tail_start {
            true => Ok(places),
            false => Err(self.damaged("its footer", "the blocks do not fill the file")),
        }
    }

    fn bytes(&mut self, start: u64, count: u64) -> Result<Vec<u8>, PackedError> {
        let path = &self.path;
        let io = |source| PackedError::Io { path: path.clone(), action: "read", source };
        self.file.seek(SeekFrom::Start(start)).map_err(io)?;
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(count as usize).map_err(|refused| io(refused.into()))?;
        (&self.file).take(count).read_to_end(&mut bytes).map_err(io)?;
        match bytes.len() as u64 == count {
            true => Ok(bytes),
            false => Err(self.damaged("its end", "it was cut short while it was read")),
        }
    }

    /// A list of numbers in JSON.
    pub(crate) fn numbers(&self, text: &str) -> Result<Vec<f64>, PackedError> {
        serde_json::from_str(text).map_err(|error| self.damaged("its metadata", &error.to_string()))
    }

    /// A list of whole numbers in JSON.
    pub(crate) fn counts(&self, text: &str) -> Result<Vec<u64>, PackedError> {
        serde_json::from_str(text).map_err(|error| self.damaged("its metadata", &error.to_string()))
    }

    fn io(&self, source: std::io::Error) -> PackedError {
        PackedError::Io { path: self.path.clone(), action: "read", source }
    }

    pub(crate) fn not(&self, reason: &str) -> PackedError {
        PackedError::Foreign { path: self.path.clone(), reason: reason.to_owned() }
    }

    pub(crate) fn not_blocks(&self) -> PackedError {
        self.damaged("its footer", "its batches are not blocks of consecutive objects")
    }

    pub(crate) fn damaged(&self, place: &str, reason: &str) -> PackedError {
        let (place, reason) = (place.to_owned(), reason.to_owned());
        PackedError::Damaged { path: self.path.clone(), place, reason }
    }
}

/// The batches of a file, each of which is read when it is asked for.
#[derive(Debug)]
pub(crate) struct PackedBatches {
    path: PathBuf,
    file: File,
    rows_each: usize,
    places: Vec<Place>,
}

impl PackedBatches {
    /// Number of batches.
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// Reads a batch, checks its checksum, and calls `f` with it, which returns `None` if it does not hold the columns that
    /// the file should have.
    pub(crate) fn batch<R>(
        &self,
        idx: usize,
        f: impl FnOnce(PackedBatch<'_>) -> Option<R>,
    ) -> Result<R, PackedError> {
        let Place { rows, checksum, start, header_bytes, bytes } = self.places[idx];
        let content = self.bytes(start, bytes)?;
        if crc32fast::hash(&content) != checksum {
            return Err(self.damaged(idx, CHECKSUM_DIFFERS));
        }
        let (header, body) = content.split_at(header_bytes as usize);
        f(PackedBatch { first: idx * self.rows_each, rows, header, body })
            .ok_or_else(|| self.damaged(idx, "they are not the columns of a block"))
    }

    fn bytes(&self, start: u64, count: u64) -> Result<Vec<u8>, PackedError> {
        let io = |source| PackedError::Io { path: self.path.clone(), action: "read", source };
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(count as usize).map_err(|refused| io(refused.into()))?;
        bytes.resize(count as usize, 0);
        read_at(&self.file, &mut bytes, start).map_err(|error| match error.kind() {
            ErrorKind::UnexpectedEof => PackedError::Damaged {
                path: self.path.clone(),
                place: "its end".to_owned(),
                reason: "it was cut short while it was read".to_owned(),
            },
            _ => io(error),
        })?;
        Ok(bytes)
    }

    /// A fault of a batch.
    pub(crate) fn damaged(&self, idx: usize, reason: &str) -> PackedError {
        let place = format!("block {} of {}", idx + 1, self.places.len());
        PackedError::Damaged { path: self.path.clone(), place, reason: reason.to_owned() }
    }
}

/// A batch as it lies in the file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PackedBatch<'a> {
    /// The file's row that is the batch's first.
    pub(crate) first: usize,
    /// Number of rows.
    pub(crate) rows: usize,
    header: &'a [u8],
    body: &'a [u8],
}

impl<'a> PackedBatch<'a> {
    /// The bytes of each column's numbers, of `width` bytes each; `None` if there are not so many columns, or one has other
    /// than a number for each row.
    pub(crate) fn columns(&self, count: usize, width: usize) -> Option<Vec<&'a [u8]>> {
        self.columns_of(&vec![width; count])
    }

    /// As [`PackedBatch::columns`], for columns of these widths.
    pub(crate) fn columns_of(&self, widths: &[usize]) -> Option<Vec<&'a [u8]>> {
        let ranges = ranges_of(self.header, self.rows, widths)?;
        ranges.into_iter().map(|range| self.body.get(range)).collect()
    }
}

impl PackedBatch<'_> {
    /// The batch in Arrow's form, of any columns; `None` if it is not of this schema.
    pub(crate) fn decoded(&self, schema: &Schema) -> Option<arrow_array::RecordBatch> {
        let (body, schema) = (arrow_buffer::Buffer::from(self.body), std::sync::Arc::new(schema.clone()));
        // Arrow's reader panics if numbers of bytes and rows contradict each other, which only a forged checksum allows.
        let read = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let header = layout::read_header(self.header)?;
            let version = arrow_ipc::MetadataVersion::V5;
            let none = HashMap::new();
            arrow_ipc::reader::read_record_batch(&body, header, schema, &none, None, &version).ok()
        }));
        read.ok().flatten().filter(|batch| batch.num_rows() == self.rows)
    }
}
