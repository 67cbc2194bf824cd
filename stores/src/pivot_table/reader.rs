//! Reads an index file: checks the checksum of every part before its first use.

use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use arrow_ipc::Block;
use arrow_ipc::convert::try_fb_to_schema;
use arrow_ipc::reader::read_footer_length;
use arrow_schema::Schema;
use boxwork_kernels::lower_bound::PACKED_OBJECTS;

use super::error::IndexError;
use super::{Extremes, PivotTable, layout};
use crate::space::Extent;

const CHECKSUM_DIFFERS: &str = "the checksum differs from the one written";

/// An index file whose tail is read: its metadata, and the places of its blocks.
pub(super) struct IndexFile {
    path: PathBuf,
    file: File,
    schema: Schema,
    /// The metadata of the footer.
    footer: HashMap<String, String>,
    blocks: Vec<Block>,
    tail_start: u64,
    /// A text unique to this content.
    pub(super) fingerprint: String,
}

impl IndexFile {
    /// Opens a file of a format, and checks its tail.
    pub(super) fn open(path: &Path, format: &str) -> Result<Self, IndexError> {
        let file = File::open(path).map_err(|source| IndexError::Io {
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
            fingerprint: String::new(),
        };
        index.read_tail()?;
        if index.said(layout::FORMAT_KEY) != format {
            return Err(index.not(&format!("its metadata lacks `boxwork.format = {format}`")));
        }
        if index.said(layout::VERSION_KEY) != layout::VERSION {
            let found = index.said(layout::VERSION_KEY).to_owned();
            return Err(IndexError::Version { path: path.to_owned(), found });
        }
        Ok(index)
    }

    fn read_tail(&mut self) -> Result<(), IndexError> {
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
        self.fingerprint = format!("{length:x}-{checksum}");
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
    pub(super) fn said(&self, key: &str) -> &str {
        self.schema.metadata().get(key).map_or("", String::as_str)
    }

    /// Whether the columns fit this number of pivots and coordinates.
    pub(super) fn has_columns(&self, pivots: usize, apex_columns: usize) -> bool {
        *self.schema.fields() == *layout::schema(pivots, apex_columns, Default::default()).fields()
    }

    /// The extremes of the objects so far.
    pub(super) fn extremes(&self) -> Result<Extremes, IndexError> {
        let extremes = self.numbers(self.footer.get(layout::EXTREMES_KEY).map_or("", String::as_str))?;
        let [distance_max, spread_max, sigma, len] = extremes[..] else {
            return Err(self.unclear());
        };
        Ok(Extremes { distance_max, spread_max, extent: Extent { sigma, len: len as usize } })
    }

    /// The unit of the distances.
    pub(super) fn unit(&self) -> Result<f64, IndexError> {
        match self.said(layout::UNIT_KEY) {
            "" => Ok(1.0),
            text => {
                let unit = text.parse().ok().filter(|unit: &f64| unit.is_finite() && *unit > 0.0);
                unit.ok_or_else(|| self.unclear())
            }
        }
    }

    /// The batches' rows and checksums, and the head's checksum; all batches but the last are full.
    pub(super) fn batches(&self) -> Result<(u32, Vec<(usize, u32)>), IndexError> {
        let (head, batches) = self
            .footer
            .get(layout::CHECKSUMS_KEY)
            .and_then(|text| layout::read_checksums(text))
            .ok_or_else(|| self.damaged("its footer", "the checksums cannot be read"))?;
        let (last, full) = batches.split_last().ok_or_else(|| self.not("it holds no objects"))?;
        let packed = full.iter().all(|(rows, _)| *rows == PACKED_OBJECTS)
            && (1..=PACKED_OBJECTS).contains(&last.0)
            && self.blocks.len() == batches.len();
        match packed {
            true => Ok((head, batches)),
            false => Err(self.not_blocks()),
        }
    }

    /// Number of rows.
    pub(super) fn rows(&self) -> Result<u64, IndexError> {
        Ok(self.batches()?.1.iter().map(|(rows, _)| *rows as u64).sum())
    }

    /// Copies all rows into a table, from row `first` on; the table has room for them.
    pub(super) fn fill(mut self, table: &mut PivotTable, first: u64) -> Result<(), IndexError> {
        let (head, batches) = self.batches()?;
        let head_end = u64::try_from(self.blocks[0].offset()).unwrap_or(u64::MAX).min(self.tail_start);
        if crc32fast::hash(&self.bytes(0, head_end)?) != head {
            return Err(self.damaged("its head", CHECKSUM_DIFFERS));
        }
        let (mut end, mut first) = (head_end, first as usize);
        for (idx, (rows, checksum)) in batches.into_iter().enumerate() {
            let block = self.blocks[idx];
            let place = format!("block {} of {}", idx + 1, self.blocks.len());
            let wrong = |reason: &str| self.damaged(&place, reason);
            let header_bytes =
                u64::try_from(block.metaDataLength()).map_err(|_| wrong("it has no header"))?;
            let bytes =
                u64::try_from(block.bodyLength()).ok().and_then(|body| body.checked_add(header_bytes));
            let bytes = bytes.filter(|bytes| *bytes <= self.tail_start.saturating_sub(end));
            let Some(bytes) = bytes.filter(|_| u64::try_from(block.offset()) == Ok(end)) else {
                return Err(wrong("the blocks do not fill the file"));
            };
            let content = self.bytes(end, bytes)?;
            if crc32fast::hash(&content) != checksum {
                return Err(self.damaged(&place, CHECKSUM_DIFFERS));
            }
            let (header, body) = content.split_at(header_bytes as usize);
            table
                .fill(first, rows, header, body)
                .ok_or_else(|| self.damaged(&place, "they are not the columns of a block"))?;
            first += rows;
            end += bytes;
        }
        match end == self.tail_start {
            true => Ok(()),
            false => Err(self.damaged("its footer", "the blocks do not fill the file")),
        }
    }

    fn bytes(&mut self, start: u64, count: u64) -> Result<Vec<u8>, IndexError> {
        let path = &self.path;
        let io = |source| IndexError::Io { path: path.clone(), action: "read", source };
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
    pub(super) fn numbers(&self, text: &str) -> Result<Vec<f64>, IndexError> {
        serde_json::from_str(text).map_err(|error| self.damaged("its metadata", &error.to_string()))
    }

    /// A list of whole numbers in JSON.
    pub(super) fn counts(&self, text: &str) -> Result<Vec<u64>, IndexError> {
        serde_json::from_str(text).map_err(|error| self.damaged("its metadata", &error.to_string()))
    }

    fn io(&self, source: std::io::Error) -> IndexError {
        IndexError::Io { path: self.path.clone(), action: "read", source }
    }

    pub(super) fn not(&self, reason: &str) -> IndexError {
        IndexError::NotAnIndex { path: self.path.clone(), reason: reason.to_owned() }
    }

    pub(super) fn unclear(&self) -> IndexError {
        self.damaged("its metadata", "the pivots do not fit together")
    }

    pub(super) fn not_blocks(&self) -> IndexError {
        self.damaged("its footer", "its batches are not blocks of consecutive objects")
    }

    fn damaged(&self, place: &str, reason: &str) -> IndexError {
        let (place, reason) = (place.to_owned(), reason.to_owned());
        IndexError::Damaged { path: self.path.clone(), place, reason }
    }
}

impl PivotTable {
    /// Copies the columns of a batch; `None` if it has too few or too many numbers.
    fn fill(&mut self, first: usize, rows: usize, header: &[u8], body: &[u8]) -> Option<()> {
        let batch = layout::read_header(header)?;
        let (nodes, buffers) = (batch.nodes()?, batch.buffers()?);
        let (pivots, apex_columns) = (self.pivots.len(), self.apex_columns);
        let columns = pivots + apex_columns;
        // A column has two buffers: validity, which is ignored as nothing is null, and values.
        if batch.compression().is_some() || nodes.len() != columns || buffers.len() != 2 * columns {
            return None;
        }
        for idx in 0..columns {
            let (node, buffer) = (nodes.get(idx), buffers.get(2 * idx + 1));
            if usize::try_from(node.length()) != Ok(rows) || node.null_count() != 0 {
                return None;
            }
            let from = usize::try_from(buffer.offset())
                .ok()
                .filter(|from| from % layout::ALIGNMENT_MIN_BYTES == 0)?;
            let bytes = body.get(from..from.checked_add(4 * rows)?)?;
            // The offset of a block's column in the table.
            let (table, of_block, column) = match idx.checked_sub(pivots) {
                None => (&mut self.distances, pivots, idx),
                Some(coordinate) => (&mut self.apexes, apex_columns, coordinate),
            };
            for (id, word) in (first..).zip(bytes.as_chunks::<4>().0) {
                let number = f32::from_le_bytes(*word);
                if !number.is_finite() || (idx < pivots && number < 0.0) {
                    return None;
                }
                let (block, row) = (id / PACKED_OBJECTS, id % PACKED_OBJECTS);
                table[(block * of_block + column) * PACKED_OBJECTS + row] = number;
            }
        }
        Some(())
    }
}
