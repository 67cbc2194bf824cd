//! The batches of a packed file whose bytes stay in the file: mapped, or read at their first use.
//!
//! Invariant: a batch is checked by its checksum before its columns leave, which are slices of the map. A file may be cut short or
//! overwritten under an open map, whose lost pages then read as zeros: what was computed from columns counts only after
//! [`MappedBatches::confirm`], and nothing unsound may follow from other numbers in them.

use std::io::ErrorKind;
use std::ops::Range;
use std::path::PathBuf;

use arrow_buffer::Buffer;

use super::super::object_store::Map;
use super::PackedError;
use super::layout::{CHECKSUM_DIFFERS, Place, ranges_of};

/// The batches of a file.
pub(crate) struct MappedBatches {
    path: PathBuf,
    map: Map,
    rows_each: usize,
    places: Vec<Place>,
}

impl MappedBatches {
    pub(super) fn new(path: PathBuf, map: Map, rows_each: usize, places: Vec<Place>) -> Self {
        Self { path, map, rows_each, places }
    }

    /// Number of batches.
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// Bytes of the file.
    pub(super) fn len_bytes(&self) -> u64 {
        self.map.len() as u64
    }

    /// Rows of each batch but the last, which may have fewer.
    pub(crate) fn rows_each(&self) -> usize {
        self.rows_each
    }

    /// Rows of a batch.
    pub(crate) fn rows(&self, idx: usize) -> usize {
        self.places[idx].rows
    }

    /// Bytes that the file takes in memory before a batch is used: those of a copy.
    pub(crate) fn copied_bytes(&self) -> usize {
        self.map.copied_bytes()
    }

    /// Bytes that the columns of a batch take in memory: none if they are slices of a map or of a copy.
    pub(crate) fn read_bytes(&self, idx: usize) -> usize {
        if self.map.is_read() { self.places[idx].bytes as usize } else { 0 }
    }

    /// The columns of a batch, of these widths, after its checksum. Blocks on the disk.
    pub(crate) fn batch(&self, idx: usize, widths: &[usize]) -> Result<Vec<Buffer>, PackedError> {
        let Place { rows, checksum, start, header_bytes, bytes } = self.places[idx];
        let block = self.bytes(start, bytes)?;
        // A copy: the header says where columns are, so it must not change after its checksum was compared.
        let header = block[..header_bytes as usize].to_vec();
        let mut found = crc32fast::Hasher::new();
        found.update(&header);
        found.update(&block[header.len()..]);
        if found.finalize() != checksum {
            self.confirm()?;
            return Err(self.damaged(idx, CHECKSUM_DIFFERS));
        }
        let ranges = self.ranges(idx, &header, rows, widths)?;
        let column = |range: Range<usize>| block.slice_with_length(header.len() + range.start, range.len());
        Ok(ranges.into_iter().map(column).collect())
    }

    /// The first of a batch's columns of these widths, which are copied alone: no checksum covers them. Blocks on the disk.
    pub(crate) fn first_columns<const N: usize>(
        &self,
        idx: usize,
        widths: &[usize],
    ) -> Result<[Vec<u8>; N], PackedError> {
        let Place { rows, start, header_bytes, .. } = self.places[idx];
        let header = self.bytes(start, header_bytes)?.to_vec();
        let ranges = self.ranges(idx, &header, rows, widths)?;
        let mut columns = [const { Vec::new() }; N];
        for (column, range) in columns.iter_mut().zip(ranges) {
            let from = start + header_bytes + range.start as u64;
            *column = self.bytes(from, range.len() as u64)?.to_vec();
        }
        Ok(columns)
    }

    /// The places of columns of these widths, which are within the batch.
    fn ranges(
        &self,
        idx: usize,
        header: &[u8],
        rows: usize,
        widths: &[usize],
    ) -> Result<Vec<Range<usize>>, PackedError> {
        let body = (self.places[idx].bytes - header.len() as u64) as usize;
        ranges_of(header, rows, widths)
            .filter(|ranges| ranges.iter().all(|range| range.end <= body))
            .ok_or_else(|| self.damaged(idx, "they are not the columns of a block"))
    }

    /// Confirms that all that was used is that of the file that was opened.
    ///
    /// # Errors
    /// When the file was cut short or overwritten since.
    pub(crate) fn confirm(&self) -> Result<(), PackedError> {
        if self.map.is_whole() { Ok(()) } else { Err(self.lost()) }
    }

    pub(super) fn lost(&self) -> PackedError {
        PackedError::Damaged {
            path: self.path.clone(),
            place: "its content".to_owned(),
            reason: "it was cut short or overwritten while it was open".to_owned(),
        }
    }

    fn bytes(&self, start: u64, count: u64) -> Result<Buffer, PackedError> {
        let range = start as usize..(start + count) as usize;
        self.map.slice(range).map_err(|source| match source.kind() {
            // The file had these bytes when it was opened.
            ErrorKind::UnexpectedEof => self.lost(),
            _ => PackedError::Io { path: self.path.clone(), action: "read", source },
        })
    }

    /// A fault of a batch.
    pub(crate) fn damaged(&self, idx: usize, reason: &str) -> PackedError {
        let place = format!("block {} of {}", idx + 1, self.places.len());
        PackedError::Damaged { path: self.path.clone(), place, reason: reason.to_owned() }
    }
}

impl std::fmt::Debug for MappedBatches {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MappedBatches")
            .field("path", &self.path)
            .field("batches", &self.places.len())
            .finish_non_exhaustive()
    }
}
