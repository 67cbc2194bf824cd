//! What is where in a `*.signatures.arrow` file, and which checksum covers it.
//!
//! ```text
//! head    magic, schema message                                      checksum `head`
//! batch   message header, id, name, offsets of the signatures        checksum `front`   } one pair
//!         centroids, width, height                                   checksum `rest`    } a batch
//! tail    end of stream, footer, footer length, magic                checksum `tail`
//! ```
//!
//! These follow each other without a gap, so every byte is covered by one checksum. All checksums are in one text in the
//! footer's metadata. The tail's own is computed with its eight digits as zeros. Other readers of Arrow see metadata.

use std::fmt::Write;

use arrow_schema::{DataType, Field, Metadata, Schema};

use super::super::arrow_file::DIGITS;
pub(super) use super::super::arrow_file::{
    ALIGNMENT_MIN_BYTES, END_OF_STREAM_BYTES, MAGIC, MARKER, TRAILER_BYTES, read_header, tail_checksum,
    tail_digits,
};
use super::super::signature::signature_type;

/// The version of the layout; a file of another is refused.
pub(super) const VERSION: &str = "1";
/// The value of [`FORMAT_KEY`].
pub(super) const FORMAT: &str = "signatures";
/// The key in the schema's metadata that says what the file is.
pub(super) const FORMAT_KEY: &str = "boxwork.format";
/// The key of the layout's version.
pub(super) const VERSION_KEY: &str = "boxwork.version";
/// The key of the number of coordinates.
pub(super) const DIMENSIONS_KEY: &str = "boxwork.dimensions";
/// The key of the extraction's parameters, as JSON.
pub(super) const PARAMETERS_KEY: &str = "boxwork.parameters";
/// The key of the folder that the images lie in.
pub(super) const SOURCE_KEY: &str = "boxwork.source";
/// The key of the program that wrote the file.
pub(super) const CREATOR_KEY: &str = "boxwork.created_by";
/// The key of the checksums, in the footer's metadata.
pub(super) const CHECKSUMS_KEY: &str = "boxwork.checksums";

/// The checksums of one batch, and what they cover.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BatchEntry {
    /// Rows of the batch.
    pub(super) rows: usize,
    /// Bytes of the block under `front`; the others are under `rest`.
    pub(super) front_bytes: usize,
    /// Checksum of the header, ids, names and offsets.
    pub(super) front: u32,
    /// Checksum of the centroids and sizes.
    pub(super) rest: u32,
}

/// The text of all checksums, the tail's own as zeros.
pub(super) fn write_checksums(head: u32, batches: &[BatchEntry]) -> String {
    let mut text = format!("{MARKER}{:0DIGITS$x};head={head:08x}", 0);
    for BatchEntry { rows, front_bytes, front, rest } in batches {
        write!(text, ";{rows},{front_bytes},{front:08x},{rest:08x}").expect("a string takes any text");
    }
    text
}

/// Reads back what [`write_checksums`] wrote, or nothing when the text is another.
pub(super) fn read_checksums(text: &str) -> Option<(u32, Vec<BatchEntry>)> {
    let mut parts = text.split(';').skip(1);
    let head = u32::from_str_radix(parts.next()?.strip_prefix("head=")?, 16).ok()?;
    let entry = |part: &str| {
        let mut fields = part.split(',');
        let entry = BatchEntry {
            rows: fields.next()?.parse().ok()?,
            front_bytes: fields.next()?.parse().ok()?,
            front: u32::from_str_radix(fields.next()?, 16).ok()?,
            rest: u32::from_str_radix(fields.next()?, 16).ok()?,
        };
        fields.next().is_none().then_some(entry)
    };
    Some((head, parts.map(entry).collect::<Option<_>>()?))
}

/// The columns of a store.
pub(super) fn schema<S: AsRef<str>>(coordinates: &[S], metadata: Metadata) -> Schema {
    Schema::new(vec![
        Field::new("id", DataType::UInt64, false),
        Field::new("name", DataType::Utf8, false),
        Field::new("signature", signature_type(coordinates), false),
        Field::new("width", DataType::UInt32, false),
        Field::new("height", DataType::UInt32, false),
    ])
    .with_metadata(metadata)
}

/// Whether a buffer of a batch holds numbers: `id`, the offsets of `name` and `signature`, and from the centroids on
/// the second of each pair, which are a column's validity and values.
fn holds_numbers(buffer: usize) -> bool {
    matches!(buffer, 1 | 3 | 6) || (buffer > BUFFERS_BEFORE_CENTROIDS && buffer % 2 == 1)
}

/// Validity and values of `id`; validity, offsets and text of `name`; validity and offsets of `signature`.
const BUFFERS_BEFORE_CENTROIDS: usize = 7;

/// How many bytes of a block, its header included, come before the centroids; nothing when the header is not that
/// of a batch whose buffers lie inside the block as numbers must.
///
/// Arrow's reader panics on numbers that are cut or not aligned, so this is checked before it reads them.
pub(super) fn front_bytes(header: &[u8], body_bytes: usize) -> Option<usize> {
    let batch = read_header(header)?;
    if batch.compression().is_some() || !header.len().is_multiple_of(ALIGNMENT_MIN_BYTES) {
        return None;
    }
    let fits = |count: i64| usize::try_from(count).is_ok_and(|count| count <= body_bytes);
    if !batch.nodes()?.iter().all(|node| fits(node.length()) && node.null_count() == 0) {
        return None;
    }
    let buffers = batch.buffers()?;
    let inside = |offset: i64, length: i64| {
        let end = usize::try_from(offset).ok()?.checked_add(usize::try_from(length).ok()?)?;
        (end <= body_bytes).then_some(())
    };
    for idx in 0..buffers.len() {
        let buffer = buffers.get(idx);
        inside(buffer.offset(), buffer.length())?;
        let is_cut = holds_numbers(idx) && buffer.length() % size_of::<f32>() as i64 != 0;
        if is_cut || buffer.offset() % ALIGNMENT_MIN_BYTES as i64 != 0 {
            return None;
        }
    }
    if buffers.len() <= BUFFERS_BEFORE_CENTROIDS {
        return None;
    }
    Some(header.len() + buffers.get(BUFFERS_BEFORE_CENTROIDS).offset() as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_back_the_checksums() {
        let entries = [
            BatchEntry { rows: 4096, front_bytes: 640, front: 1, rest: u32::MAX },
            BatchEntry { rows: 1, front_bytes: 64, front: 0, rest: 7 },
        ];
        let text = write_checksums(0xabc, &entries);
        assert_eq!(read_checksums(&text), Some((0xabc, entries.to_vec())));
        assert_eq!(read_checksums("boxwork-crc32=00000000"), None);
        assert_eq!(read_checksums(&format!("{text},9")), None);
    }
}
