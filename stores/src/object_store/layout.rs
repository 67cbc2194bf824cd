//! The layout of a store file, and the checksum of each part.
//!
//! ```text
//! head    magic, schema message                                      checksum `head`
//! batch   message header, id, name, offsets of the objects           checksum `front`   } one pair
//!         their numbers or letters, and what else a kind has         checksum `rest`    } a batch
//! tail    end of stream, footer, footer length, magic                checksum `tail`
//! ```
//!
//! The parts follow each other without a gap, so one checksum covers each byte. All checksums are in one text in the
//! footer's metadata. The tail's own is computed with zeros for its eight digits. Other readers of Arrow see metadata.

use std::fmt::Write;

use arrow_schema::{DataType, Field, FieldRef, Metadata, Schema};

use crate::arrow_file::DIGITS;
pub(super) use crate::arrow_file::{
    ALIGNMENT_MIN_BYTES, END_OF_STREAM_BYTES, MAGIC, MARKER, TRAILER_BYTES, read_header, tail_checksum,
    tail_digits,
};
use crate::kinds::Kind;
pub(super) use crate::store_error::LAYOUT_VERSION as VERSION;

/// The key of the objects' kind, in the schema's metadata.
pub(super) const FORMAT_KEY: &str = "boxwork.format";
/// The key of the layout's version.
pub(super) const VERSION_KEY: &str = "boxwork.version";
/// The key of the extraction's parameters, as JSON.
pub(super) const PARAMETERS_KEY: &str = "boxwork.parameters";
/// The key of the alpha of searches, as a decimal number.
pub(super) const ALPHA_KEY: &str = "boxwork.alpha";
/// The key of the folder that contains the images.
pub(super) const SOURCE_KEY: &str = "boxwork.source";
/// The key of the program that wrote the file.
pub(super) const CREATOR_KEY: &str = "boxwork.created_by";
/// The key of the checksums, in the footer's metadata.
pub(super) const CHECKSUMS_KEY: &str = "boxwork.checksums";

/// The checksums of one batch, and their ranges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BatchEntry {
    /// Rows of the batch.
    pub(super) rows: usize,
    /// Bytes of the block that `front` covers; `rest` covers the others.
    pub(super) front_bytes: usize,
    /// Checksum of the header, ids, names and offsets.
    pub(super) front: u32,
    /// Checksum of the other bytes.
    pub(super) rest: u32,
}

/// The text of all checksums, with zeros for the tail's own.
pub(super) fn write_checksums(head: u32, batches: &[BatchEntry]) -> String {
    let mut text = format!("{MARKER}{:0DIGITS$x};head={head:08x}", 0);
    for BatchEntry { rows, front_bytes, front, rest } in batches {
        write!(text, ";{rows},{front_bytes},{front:08x},{rest:08x}").expect("a string takes any text");
    }
    text
}

/// Reads the text of [`write_checksums`]; `None` for any other text.
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

/// The columns of a store of a kind.
pub(super) fn schema<K: Kind>(kind: &K, metadata: Metadata) -> Schema {
    let mut fields = front_columns().to_vec();
    fields.extend(kind.columns().into_iter().map(FieldRef::new));
    Schema::new(fields).with_metadata(metadata)
}

/// The columns that every store has.
fn front_columns() -> [FieldRef; 2] {
    [Field::new("id", DataType::UInt64, false), Field::new("name", DataType::Utf8, false)].map(FieldRef::new)
}

/// For each buffer of a batch with this schema, the bytes of a number in it; 1 for texts and nulls. `None` if the first columns
/// are not ids and names, or no kind has a column's type.
pub(super) fn numbers(schema: &Schema) -> Option<Vec<usize>> {
    if *schema.fields().get(..2)? != front_columns() {
        return None;
    }
    let mut numbers = Vec::new();
    schema.fields().iter().try_for_each(|field| add_buffers(field.data_type(), &mut numbers))?;
    Some(numbers)
}

fn add_buffers(kind: &DataType, numbers: &mut Vec<usize>) -> Option<()> {
    numbers.push(1);
    match kind {
        DataType::Float32
        | DataType::Float16
        | DataType::UInt8
        | DataType::Int8
        | DataType::UInt32
        | DataType::UInt64 => numbers.push(kind.primitive_width()?),
        DataType::Utf8 => numbers.extend([size_of::<i32>(), 1]),
        DataType::List(item) => {
            numbers.push(size_of::<i32>());
            add_buffers(item.data_type(), numbers)?;
        }
        DataType::Struct(fields) => {
            fields.iter().try_for_each(|field| add_buffers(field.data_type(), numbers))?;
        }
        _ => return None,
    }
    Some(())
}

/// Validity and values of `id`; validity, offsets and text of `name`; validity and offsets of the objects.
const BUFFERS_IN_FRONT: usize = 7;

/// The bytes of a block, its header included, before the objects' numbers or letters. `None` if the header does not
/// describe a batch whose buffers lie inside the block as [numbers](numbers()) must.
///
/// Arrow's reader panics on truncated or unaligned numbers, so this check comes first.
pub(super) fn front_bytes(numbers: &[usize], header: &[u8], body_bytes: usize) -> Option<usize> {
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
    if buffers.len() <= BUFFERS_IN_FRONT {
        return None;
    }
    let front_end = buffers.get(BUFFERS_IN_FRONT).offset();
    for idx in 0..buffers.len() {
        let buffer = buffers.get(idx);
        inside(buffer.offset(), buffer.length())?;
        // Names are decoded from the bytes before the objects alone.
        if idx < BUFFERS_IN_FRONT && buffer.offset() + buffer.length() > front_end {
            return None;
        }
        let is_cut = buffer.length() % *numbers.get(idx)? as i64 != 0;
        if is_cut || buffer.offset() % ALIGNMENT_MIN_BYTES as i64 != 0 {
            return None;
        }
    }
    Some(header.len() + front_end as usize)
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
