//! Reads an index: judges every part by its checksum before it is used, and copies the columns into packed blocks.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow_ipc::Block;
use arrow_ipc::convert::try_fb_to_schema;
use arrow_ipc::reader::read_footer_length;
use boxwork_kernels::lower_bound::{PACKED_OBJECTS, PIVOTS_MAX, Simplex};

use super::super::space::SqfdSpace;
use super::error::IndexError;
use super::{Extremes, NEXT_NUMBER, PivotTable, layout};

const CHECKSUM_DIFFERS: &str = "the checksum differs from the one written";

/// A file, and the errors that name it.
struct Reader<'a> {
    path: &'a Path,
    file: File,
}

pub(super) fn read(path: &Path, space: Arc<SqfdSpace>) -> Result<PivotTable, IndexError> {
    let file = File::open(path).map_err(|source| IndexError::Io {
        path: path.to_owned(),
        action: "open",
        source,
    })?;
    Reader { path, file }.table(space)
}

impl Reader<'_> {
    fn table(mut self, space: Arc<SqfdSpace>) -> Result<PivotTable, IndexError> {
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
        let tail_start = length
            .checked_sub(tail_bytes as u64)
            .ok_or_else(|| self.damaged("its tail", "the footer is longer than the file"))?;
        let tail = self.bytes(tail_start, tail_bytes as u64)?;
        let digits =
            layout::tail_digits(&tail).ok_or_else(|| self.not("it carries no checksum of Boxwork's"))?;
        if tail[digits.clone()] != *layout::tail_checksum(&tail, &digits).as_bytes() {
            return Err(self.damaged("its tail", CHECKSUM_DIFFERS));
        }
        let footer = arrow_ipc::root_as_footer(&tail[layout::END_OF_STREAM_BYTES..][..footer_bytes])
            .map_err(|error| self.damaged("its footer", &error.to_string()))?;
        let schema = footer.schema().ok_or_else(|| self.not("it has no schema"))?;
        let schema =
            try_fb_to_schema(schema).map_err(|error| self.damaged("its schema", &error.to_string()))?;
        let said = |key: &str| schema.metadata().get(key).map_or("", String::as_str);
        if said(layout::FORMAT_KEY) != layout::FORMAT {
            return Err(self.not("its metadata does not say `boxwork.format = pivots`"));
        }
        if said(layout::VERSION_KEY) != layout::VERSION {
            let found = said(layout::VERSION_KEY).to_owned();
            return Err(IndexError::Version { path: self.path.to_owned(), found });
        }
        // Before all else that the file says: an index of something else may well be sound.
        let store = space.store();
        if said(layout::STORE_KEY) != store.fingerprint() {
            let store = store.path().to_owned();
            return Err(IndexError::OtherStore { path: self.path.to_owned(), store });
        }
        let (found, wanted) = (said(layout::MEASURE_KEY), layout::measure_text(&space.measure()));
        if found != wanted {
            let found = found.to_owned();
            return Err(IndexError::OtherMeasure { path: self.path.to_owned(), found, wanted });
        }

        let pivots = self.counts(said(layout::PIVOTS_KEY))?;
        let kept: Vec<usize> =
            self.counts(said(layout::KEPT_KEY))?.into_iter().map(|pivot| pivot as usize).collect();
        let (between, rows) =
            (self.numbers(said(layout::BETWEEN_KEY))?, self.numbers(said(layout::ROWS_KEY))?);
        let tau = self.numbers(said(layout::TAU_KEY))?;
        let unclear = || self.damaged("its metadata", "the pivots do not fit together");
        if !(1..=PIVOTS_MAX).contains(&pivots.len()) || pivots.iter().any(|pivot| *pivot >= store.len()) {
            return Err(unclear());
        }
        let tau = tau.first().copied().ok_or_else(unclear)?;
        let simplex = Simplex::from_parts(kept, rows, &between, pivots.len(), tau).ok_or_else(unclear)?;
        if *schema.fields()
            != *layout::schema(pivots.len(), simplex.dimensions(), Default::default()).fields()
        {
            return Err(self.not("its columns are not those of its pivots"));
        }

        let in_footer = |key: &str| {
            let metadata = footer.custom_metadata()?;
            let entry =
                (0..metadata.len()).map(|idx| metadata.get(idx)).find(|entry| entry.key() == Some(key));
            entry.and_then(|entry| entry.value())
        };
        let extremes = self.numbers(in_footer(layout::EXTREMES_KEY).unwrap_or_default())?;
        let [distance_max, spread_max, sigma_max, centroids_max] = extremes[..] else {
            return Err(unclear());
        };
        let extremes =
            Extremes { distance_max, spread_max, sigma_max, centroids_max: centroids_max as usize };
        let (head, batches) = in_footer(layout::CHECKSUMS_KEY)
            .and_then(layout::read_checksums)
            .ok_or_else(|| self.damaged("its footer", "the checksums cannot be read"))?;
        let blocks: Vec<Block> = footer.recordBatches().into_iter().flatten().copied().collect();
        let objects: u64 = batches.iter().map(|(rows, _)| *rows as u64).sum();
        let (last, full) = batches.split_last().ok_or_else(|| self.not("it holds no objects"))?;
        let packed = full.iter().all(|(rows, _)| *rows == PACKED_OBJECTS)
            && (1..=PACKED_OBJECTS).contains(&last.0)
            && objects == store.len()
            && blocks.len() == batches.len();
        if !packed {
            return Err(self.damaged("its footer", "its batches are not blocks of all objects"));
        }
        let head_end = u64::try_from(blocks[0].offset()).unwrap_or(u64::MAX).min(tail_start);
        if crc32fast::hash(&self.bytes(0, head_end)?) != head {
            return Err(self.damaged("its head", CHECKSUM_DIFFERS));
        }
        let mut table = PivotTable {
            path: self.path.to_owned(),
            number: NEXT_NUMBER.fetch_add(1, Ordering::Relaxed),
            distances: vec![0.0; blocks.len() * pivots.len() * PACKED_OBJECTS],
            apexes: vec![0.0; blocks.len() * simplex.dimensions() * PACKED_OBJECTS],
            space,
            pivots,
            between,
            simplex,
            extremes,
            len: objects,
        };
        let mut end = head_end;
        for (idx, (block, (rows, checksum))) in blocks.iter().zip(&batches).enumerate() {
            let place = format!("block {} of {}", idx + 1, blocks.len());
            let wrong = |reason: &str| self.damaged(&place, reason);
            let header_bytes =
                u64::try_from(block.metaDataLength()).map_err(|_| wrong("it has no header"))?;
            let bytes =
                u64::try_from(block.bodyLength()).ok().and_then(|body| body.checked_add(header_bytes));
            let bytes = bytes.filter(|bytes| *bytes <= tail_start.saturating_sub(end));
            let Some(bytes) = bytes.filter(|_| u64::try_from(block.offset()) == Ok(end)) else {
                return Err(wrong("the blocks do not fill the file"));
            };
            let content = Self::bytes_of(self.path, &mut self.file, end, bytes)?;
            if crc32fast::hash(&content) != *checksum {
                return Err(self.damaged(&place, CHECKSUM_DIFFERS));
            }
            let (header, body) = content.split_at(header_bytes as usize);
            table
                .fill(idx, *rows, header, body)
                .ok_or_else(|| self.damaged(&place, "its columns are not those of a block"))?;
            end += bytes;
        }
        if end != tail_start {
            return Err(self.damaged("its footer", "the blocks do not fill the file"));
        }
        Ok(table)
    }

    fn bytes(&mut self, start: u64, count: u64) -> Result<Vec<u8>, IndexError> {
        Self::bytes_of(self.path, &mut self.file, start, count)
    }

    fn bytes_of(path: &Path, file: &mut File, start: u64, count: u64) -> Result<Vec<u8>, IndexError> {
        let io = |source| IndexError::Io { path: path.to_owned(), action: "read", source };
        file.seek(SeekFrom::Start(start)).map_err(io)?;
        let mut bytes = Vec::with_capacity(count as usize);
        file.take(count).read_to_end(&mut bytes).map_err(io)?;
        if bytes.len() as u64 == count {
            return Ok(bytes);
        }
        let reason = "it was cut short while it was read".to_owned();
        Err(IndexError::Damaged { path: path.to_owned(), place: "its end".to_owned(), reason })
    }

    fn numbers(&self, text: &str) -> Result<Vec<f64>, IndexError> {
        serde_json::from_str(text).map_err(|error| self.damaged("its metadata", &error.to_string()))
    }

    fn counts(&self, text: &str) -> Result<Vec<u64>, IndexError> {
        serde_json::from_str(text).map_err(|error| self.damaged("its metadata", &error.to_string()))
    }

    fn io(&self, source: std::io::Error) -> IndexError {
        IndexError::Io { path: self.path.to_owned(), action: "read", source }
    }

    fn not(&self, reason: &str) -> IndexError {
        IndexError::NotAnIndex { path: self.path.to_owned(), reason: reason.to_owned() }
    }

    fn damaged(&self, place: &str, reason: &str) -> IndexError {
        let (place, reason) = (place.to_owned(), reason.to_owned());
        IndexError::Damaged { path: self.path.to_owned(), place, reason }
    }
}

impl PivotTable {
    /// Copies the columns of a batch; nothing when they are not as many numbers as there should be.
    fn fill(&mut self, block: usize, rows: usize, header: &[u8], body: &[u8]) -> Option<()> {
        let batch = layout::read_header(header)?;
        let (nodes, buffers) = (batch.nodes()?, batch.buffers()?);
        let (pivots, dimensions) = (self.pivots.len(), self.simplex.dimensions());
        let columns = pivots + dimensions;
        // A column has a buffer of validity, which is not looked at as nothing is null, and one of values.
        if batch.compression().is_some() || nodes.len() != columns || buffers.len() != 2 * columns {
            return None;
        }
        let start = block * pivots * PACKED_OBJECTS;
        let distances =
            self.distances[start..start + pivots * PACKED_OBJECTS].chunks_exact_mut(PACKED_OBJECTS);
        let start = block * dimensions * PACKED_OBJECTS;
        let apexes = self.apexes[start..start + dimensions * PACKED_OBJECTS].chunks_exact_mut(PACKED_OBJECTS);
        for (idx, column) in distances.chain(apexes).enumerate() {
            let (node, buffer) = (nodes.get(idx), buffers.get(2 * idx + 1));
            if usize::try_from(node.length()) != Ok(rows) || node.null_count() != 0 {
                return None;
            }
            let from = usize::try_from(buffer.offset())
                .ok()
                .filter(|from| from % layout::ALIGNMENT_MIN_BYTES == 0)?;
            let bytes = body.get(from..from.checked_add(4 * rows)?)?;
            let (words, _) = bytes.as_chunks::<4>();
            for (to, word) in column.iter_mut().zip(words) {
                *to = f32::from_le_bytes(*word);
            }
            let is_sound = |number: &f32| number.is_finite() && (idx >= pivots || *number >= 0.0);
            if !column.iter().all(is_sound) {
                return None;
            }
        }
        Some(())
    }
}
