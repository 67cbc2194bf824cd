//! One store file, of objects of any kind: a whole store that was never changed, or a part of a changed one.
//!
//! Opening checks the head and the tail; each batch is checked by its checksums when it is read.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{Array, RecordBatch, StringArray};
use arrow_buffer::Buffer;
use arrow_ipc::convert::try_fb_to_schema;
use arrow_ipc::reader::{RecordBatchDecoder, read_footer_length};
use arrow_ipc::{Block, Footer, MetadataVersion};
use arrow_schema::{Schema, SchemaRef};

use super::columns;
use super::layout::{self, BatchEntry};
use super::map::{Access, Map};
use super::writer::is_alpha;
use super::{StoreError, StoreInfo};
use crate::kinds::Kind;

/// Smaller additions are read into memory: a store may have many of them, and each map would take an open file too.
pub(crate) const MAPPED_BYTES_MIN: u64 = 4 << 20;

/// An open store file.
pub(super) struct Part {
    pub(super) path: PathBuf,
    pub(super) map: Arc<Map>,
    pub(super) schema: SchemaRef,
    /// The name of its objects' kind, from the file's metadata.
    pub(super) kind: String,
    /// For each buffer of a batch, the bytes of a number in it.
    numbers: Vec<usize>,
    pub(super) info: StoreInfo,
    pub(super) fingerprint: String,
    pub(super) batches: Vec<PartBatch>,
    /// Number of objects.
    pub(super) len: u64,
}

/// The place of a batch in its file, and its first row there.
#[derive(Clone, Copy)]
pub(super) struct PartBatch {
    pub(super) block: Block,
    pub(super) entry: BatchEntry,
    pub(super) first: u64,
}

impl Part {
    /// Opens a store file, of which the caller knows that it is no record of changes.
    pub(super) fn of_file(path: &Path, file: File, access: Access) -> Result<Self, StoreError> {
        let io = |source| StoreError::Io { path: path.to_owned(), action: "open", source };
        Self::new(path, Map::new(file, access).map_err(io)?)
    }

    /// Opens a part of a store that was changed.
    pub(super) fn open(path: &Path, access: Access) -> Result<Self, StoreError> {
        let io = |source| StoreError::Io { path: path.to_owned(), action: "open", source };
        let file = File::open(path).map_err(io)?;
        let metadata = file.metadata().map_err(io)?;
        if !metadata.is_file() {
            let reason = "it is no regular file".to_owned();
            return Err(StoreError::NotAStore { path: path.to_owned(), reason, is_foreign: false });
        }
        let is_small = metadata.len() < MAPPED_BYTES_MIN;
        let map = if is_small { Map::copied(file) } else { Map::new(file, access) };
        Self::new(path, map.map_err(io)?)
    }

    fn new(path: &Path, map: Map) -> Result<Self, StoreError> {
        let map = Arc::new(map);
        let part = Self::read_ends(path, Arc::clone(&map));
        match map.is_whole() {
            true => part,
            false => Err(StoreError::Changed { path: path.to_owned() }),
        }
    }

    /// Checks the head and the tail.
    fn read_ends(path: &Path, map: Arc<Map>) -> Result<Self, StoreError> {
        let not_of = |reason: &str, is_foreign| StoreError::NotAStore {
            path: path.to_owned(),
            reason: reason.to_owned(),
            is_foreign,
        };
        let not = |reason: &str| not_of(reason, false);
        let damaged = |place: &str, reason: String| StoreError::Damaged {
            path: path.to_owned(),
            place: place.to_owned(),
            reason,
        };
        let bytes = |range| map.slice(range).map_err(|source| unread(path, source));
        if !bytes(0..map.len().min(layout::MAGIC.len()))?.starts_with(layout::MAGIC) {
            return Err(not_of("it does not begin as an Arrow file", true));
        }
        let truncated = || StoreError::Truncated { path: path.to_owned() };
        let trailer = bytes(map.len().saturating_sub(layout::TRAILER_BYTES)..map.len())?;
        let trailer = trailer.last_chunk::<{ layout::TRAILER_BYTES }>().ok_or_else(truncated)?;
        if !trailer.ends_with(layout::MAGIC) {
            return Err(truncated());
        }
        let footer_bytes =
            read_footer_length(*trailer).map_err(|error| damaged("its tail", error.to_string()))?;
        let footer_end = map.len() - layout::TRAILER_BYTES;
        let tail_start = footer_end
            .checked_sub(footer_bytes)
            .and_then(|footer_start| footer_start.checked_sub(layout::END_OF_STREAM_BYTES))
            .ok_or_else(|| damaged("its tail", "the footer is longer than the file".to_owned()))?;

        // A copy: the footer steers its parser, so it must not change after its checksum was compared.
        let tail = bytes(tail_start..map.len())?.to_vec();
        let digits =
            layout::tail_digits(&tail).ok_or_else(|| not_of("it carries no checksum of Boxwork's", true))?;
        let checksum = layout::tail_checksum(&tail, &digits);
        if tail[digits] != *checksum.as_bytes() {
            return Err(damaged("its tail", CHECKSUM_DIFFERS.to_owned()));
        }
        let footer = arrow_ipc::root_as_footer(&tail[layout::END_OF_STREAM_BYTES..][..footer_bytes])
            .map_err(|error| damaged("its footer", error.to_string()))?;
        let schema = footer.schema().ok_or_else(|| not("it has no schema"))?;
        let schema = try_fb_to_schema(schema).map_err(|error| damaged("its schema", error.to_string()))?;
        let said = |key: &str| schema.metadata().get(key).cloned();
        let kind =
            said(layout::FORMAT_KEY).ok_or_else(|| not("its metadata does not name its kind of objects"))?;
        match said(layout::VERSION_KEY).unwrap_or_default() {
            version if version == layout::VERSION => {}
            found => return Err(StoreError::Version { path: path.to_owned(), found }),
        }
        let numbers = layout::numbers(&schema)
            .ok_or_else(|| not(&format!("its columns are not id, name and the columns of {kind}")))?;

        let (head, entries) = checksums(&footer)
            .ok_or_else(|| damaged("its footer", "the checksums cannot be read".to_owned()))?;
        let blocks: Vec<Block> = footer.recordBatches().into_iter().flatten().copied().collect();
        let (batches, head_end, len) = lay_out(&blocks, &entries, tail_start)
            .ok_or_else(|| damaged("its footer", "the batches do not fill the file".to_owned()))?;
        if crc32fast::hash(&bytes(0..head_end)?) != head {
            return Err(damaged("its head", CHECKSUM_DIFFERS.to_owned()));
        }
        let info = info(&schema).map_err(|reason| not(&reason))?;
        Ok(Self {
            path: path.to_owned(),
            schema: SchemaRef::new(schema),
            kind,
            numbers,
            info,
            // The tail contains all other checksums.
            fingerprint: format!("{:x}-{checksum}", map.len()),
            map,
            batches,
            len,
        })
    }

    /// Number of batches.
    pub(super) fn batches(&self) -> usize {
        self.batches.len()
    }

    /// Decodes and checks the names of a batch.
    pub(super) fn names(&self, idx: usize) -> Result<StringArray, StoreError> {
        let batch = &self.batches[idx];
        // The numbers behind the names may not be in memory yet, and are not needed.
        let block = self.bytes(idx, batch.entry.front_bytes)?;
        let table = self.decode(&block, &self.check_front(&block, idx)?, idx, Some(&FRONT))?;
        let damaged = |reason| self.damaged(idx, reason);
        columns::check_ids(&table, batch.first).map_err(damaged)?;
        let names = columns::own_names(&table).map_err(damaged)?;
        if names.len() != batch.entry.rows {
            return Err(self.damaged(idx, "it has another number of rows than the footer says".to_owned()));
        }
        Ok(names)
    }

    /// Decodes and checks a whole batch, given its bytes, mapped or copied.
    pub(super) fn whole<K: Kind>(
        &self,
        kind: &K,
        idx: usize,
        block: &Buffer,
    ) -> Result<K::Batch, StoreError> {
        let batch = &self.batches[idx];
        let header = self.check_front(block, idx)?;
        if crc32fast::hash(&block[batch.entry.front_bytes..]) != batch.entry.rest {
            return Err(self.damaged(idx, CHECKSUM_DIFFERS.to_owned()));
        }
        let table = self.decode(block, &header, idx, None)?;
        if table.num_rows() != batch.entry.rows {
            return Err(self.damaged(idx, "it has another number of rows than the footer says".to_owned()));
        }
        let damaged = |reason| self.damaged(idx, reason);
        columns::check_ids(&table, batch.first).map_err(damaged)?;
        kind.batch(&table.columns()[FRONT.len()..]).map_err(damaged)
    }

    /// Checks the bytes before the objects, and returns the header: a copy, since the header steers the reader of the
    /// batch and must not change after its checksum was compared.
    fn check_front(&self, block: &Buffer, idx: usize) -> Result<Vec<u8>, StoreError> {
        let batch = &self.batches[idx];
        let header = block[..batch.block.metaDataLength() as usize].to_vec();
        let mut front = crc32fast::Hasher::new();
        front.update(&header);
        front.update(&block[header.len()..batch.entry.front_bytes]);
        if front.finalize() != batch.entry.front {
            return Err(self.damaged(idx, CHECKSUM_DIFFERS.to_owned()));
        }
        let body_bytes = block_bytes(&batch.block) - header.len();
        if layout::front_bytes(&self.numbers, &header, body_bytes) != Some(batch.entry.front_bytes) {
            return Err(self.damaged(idx, format!("it has no header of a batch of {}", self.kind)));
        }
        Ok(header)
    }

    fn decode(
        &self,
        block: &Buffer,
        header: &[u8],
        idx: usize,
        columns: Option<&[usize]>,
    ) -> Result<RecordBatch, StoreError> {
        let body = block.slice(header.len());
        let batch = layout::read_header(header)
            .ok_or_else(|| self.damaged(idx, "it has no header of a batch".to_owned()))?;
        let (schema, no_dictionaries) = (SchemaRef::clone(&self.schema), HashMap::new());
        RecordBatchDecoder::try_new(&body, batch, schema, &no_dictionaries, &MetadataVersion::V5)
            .and_then(|decoder| {
                decoder.with_projection(columns).with_require_alignment(true).read_record_batch()
            })
            .map_err(|error| self.damaged(idx, error.to_string()))
    }

    /// A batch's bytes in the file; reads them unless the file is mapped.
    pub(super) fn block(&self, idx: usize) -> Result<Buffer, StoreError> {
        self.bytes(idx, block_bytes(&self.batches[idx].block))
    }

    /// Asks the system to read a batch, as [`Map::read_ahead`].
    pub(super) fn read_ahead(&self, idx: usize) {
        self.map.read_ahead(self.range(idx));
    }

    /// Takes a batch out of the process's memory, as [`Map::let_go`].
    pub(super) fn let_go(&self, idx: usize) {
        self.map.let_go(self.range(idx));
    }

    /// The place of a batch in the file.
    fn range(&self, idx: usize) -> Range<usize> {
        let block = &self.batches[idx].block;
        let start = block.offset() as usize;
        start..start + block_bytes(block)
    }

    /// The first bytes of a batch.
    fn bytes(&self, idx: usize, count: usize) -> Result<Buffer, StoreError> {
        let start = self.batches[idx].block.offset() as usize;
        self.map.slice(start..start + count).map_err(|source| unread(&self.path, source))
    }

    pub(super) fn damaged(&self, idx: usize, reason: String) -> StoreError {
        let place = format!("batch {} of {}", idx + 1, self.batches());
        StoreError::Damaged { path: self.path.clone(), place, reason }
    }
}

/// Reads the facts of a file about its objects as a whole.
fn info(schema: &Schema) -> Result<StoreInfo, String> {
    let said = |key: &str| schema.metadata().get(key).cloned();
    let alpha = said(layout::ALPHA_KEY).map(|text| {
        let alpha = text.parse().ok().filter(|alpha| is_alpha(*alpha));
        alpha.ok_or_else(|| format!("its alpha is `{text}`, which is not a number above zero"))
    });
    let source = said(layout::SOURCE_KEY).map(PathBuf::from);
    Ok(StoreInfo { parameters: said(layout::PARAMETERS_KEY), alpha: alpha.transpose()?, source })
}

/// The error for unreadable bytes of an open file.
fn unread(path: &Path, source: io::Error) -> StoreError {
    let path = path.to_owned();
    match source.kind() {
        // The file had these bytes when it was opened.
        io::ErrorKind::UnexpectedEof => StoreError::Changed { path },
        _ => StoreError::Io { path, action: "read", source },
    }
}

/// The columns id and name.
const FRONT: [usize; 2] = [0, 1];
const CHECKSUM_DIFFERS: &str = "the checksum differs from the one written";

/// The checksums of the head and of the batches; `None` if the footer has none.
fn checksums(footer: &Footer<'_>) -> Option<(u32, Vec<BatchEntry>)> {
    let metadata = footer.custom_metadata()?;
    let mut entries = (0..metadata.len()).map(|idx| metadata.get(idx));
    let entry = entries.find(|entry| entry.key() == Some(layout::CHECKSUMS_KEY))?;
    layout::read_checksums(entry.value()?)
}

/// The batches, the place of the first, and the number of objects. `None` unless the blocks fill the file from head to
/// tail without a gap and each has its entry.
pub(super) fn lay_out(
    blocks: &[Block],
    entries: &[BatchEntry],
    tail_start: usize,
) -> Option<(Vec<PartBatch>, usize, u64)> {
    if blocks.is_empty() || blocks.len() != entries.len() {
        return None;
    }
    let head_end = usize::try_from(blocks[0].offset()).ok()?;
    let (mut end, mut first) = (head_end, 0u64);
    let mut batches = Vec::with_capacity(blocks.len());
    for (block, entry) in blocks.iter().zip(entries) {
        let header_bytes = usize::try_from(block.metaDataLength()).ok()?;
        let body_bytes = usize::try_from(block.bodyLength()).ok()?;
        let bytes = header_bytes.checked_add(body_bytes)?;
        // Eight bytes precede the header's own table.
        if usize::try_from(block.offset()).ok()? != end
            || header_bytes <= 8
            || !end.is_multiple_of(layout::ALIGNMENT_MIN_BYTES)
            || !(header_bytes..=bytes).contains(&entry.front_bytes)
            || entry.rows == 0
            // Bounds the memory allocated for the rows: each has an id of eight bytes in the file.
            || entry.rows > body_bytes / size_of::<u64>()
        {
            return None;
        }
        batches.push(PartBatch { block: *block, entry: *entry, first });
        end = end.checked_add(bytes)?;
        first = first.checked_add(entry.rows as u64)?;
    }
    (end == tail_start).then_some((batches, head_end, first))
}

pub(super) fn block_bytes(block: &Block) -> usize {
    block.metaDataLength() as usize + block.bodyLength() as usize
}
