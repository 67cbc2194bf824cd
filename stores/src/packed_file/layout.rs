//! The keys of a head, the text of the checksums, and the places of batches and columns. The checksums are those of `arrow_file`: one for the head, one per
//! batch, one for the tail.

use std::fmt::Write;
use std::ops::Range;

pub(super) use super::super::arrow_file::{
    ALIGNMENT_MIN_BYTES, DIGITS, END_OF_STREAM_BYTES, MAGIC, MARKER, TRAILER_BYTES, read_header,
    tail_checksum, tail_digits,
};

/// The first version of the layout of a format.
pub(crate) const VERSION: &str = "1";
/// The key of the file's format, in the schema's metadata.
pub(crate) const FORMAT_KEY: &str = "boxwork.format";
/// The key of the layout's version.
pub(crate) const VERSION_KEY: &str = "boxwork.version";
/// The key of the store's fingerprint.
pub(crate) const STORE_KEY: &str = "boxwork.store";
/// The key of the fingerprint of the file that a part follows.
pub(crate) const FOLLOWS_KEY: &str = "boxwork.follows";
/// The key of the fingerprint of the file that a compacted store's file replaces.
pub(crate) const REPLACES_KEY: &str = "boxwork.replaces";
/// The key of the measure with its constants.
pub(crate) const MEASURE_KEY: &str = "boxwork.measure";
/// The key of the program that wrote the file.
pub(crate) const CREATOR_KEY: &str = "boxwork.created_by";
/// The program that writes files.
pub(crate) const CREATOR: &str = concat!("boxwork ", env!("CARGO_PKG_VERSION"));
/// The key of the checksums, in the footer's metadata.
pub(super) const CHECKSUMS_KEY: &str = "boxwork.checksums";

/// The reason of a refusal.
pub(crate) const CHECKSUM_DIFFERS: &str = "the checksum differs from the one written";

/// The text of all checksums, with zeros for the tail's own; for each batch also its rows.
pub(super) fn write_checksums(head: u32, batches: &[(usize, u32)]) -> String {
    let mut text = format!("{MARKER}{:0DIGITS$x};head={head:08x}", 0);
    for (rows, checksum) in batches {
        write!(text, ";{rows},{checksum:08x}").expect("a string takes any text");
    }
    text
}

/// Reads the text of [`write_checksums`]; `None` for any other text.
pub(super) fn read_checksums(text: &str) -> Option<(u32, Vec<(usize, u32)>)> {
    let mut parts = text.split(';').skip(1);
    let head = u32::from_str_radix(parts.next()?.strip_prefix("head=")?, 16).ok()?;
    let entry = |part: &str| {
        let (rows, checksum) = part.split_once(',')?;
        Some((rows.parse().ok()?, u32::from_str_radix(checksum, 16).ok()?))
    };
    Some((head, parts.map(entry).collect::<Option<_>>()?))
}

/// Hexadecimal digits of a number in a note.
const NUMBER_DIGITS: usize = 8;

/// Numbers as the text of a note: f32 by their bits.
pub(crate) fn digits(numbers: &[f32]) -> String {
    let mut text = String::with_capacity(numbers.len() * NUMBER_DIGITS);
    for number in numbers {
        write!(text, "{:0NUMBER_DIGITS$x}", number.to_bits()).expect("a string takes any text");
    }
    text
}

/// The numbers of [`digits`]; `None` for any other text.
pub(crate) fn numbers_of(text: &str) -> Option<Vec<f32>> {
    let (digits, rest) = text.as_bytes().as_chunks::<NUMBER_DIGITS>();
    let number = |digits: &[u8; NUMBER_DIGITS]| {
        let digits = std::str::from_utf8(digits).ok()?;
        Some(f32::from_bits(u32::from_str_radix(digits, 16).ok()?))
    };
    if rest.is_empty() { digits.iter().map(number).collect() } else { None }
}

/// The place of a batch in its file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) rows: usize,
    pub(super) checksum: u32,
    pub(super) start: u64,
    pub(super) header_bytes: u64,
    pub(super) bytes: u64,
}

/// The places of columns of these widths in the body of a batch.
pub(super) fn ranges_of(header: &[u8], rows: usize, widths: &[usize]) -> Option<Vec<Range<usize>>> {
    let batch = read_header(header)?;
    let (nodes, buffers) = (batch.nodes()?, batch.buffers()?);
    // A column has two buffers: validity, which is ignored as nothing is null, and values.
    if batch.compression().is_some() || nodes.len() != widths.len() || buffers.len() != 2 * widths.len() {
        return None;
    }
    let range = |(idx, width): (usize, &usize)| {
        let (node, buffer) = (nodes.get(idx), buffers.get(2 * idx + 1));
        if usize::try_from(node.length()) != Ok(rows) || node.null_count() != 0 {
            return None;
        }
        let from = usize::try_from(buffer.offset()).ok().filter(|from| from % ALIGNMENT_MIN_BYTES == 0)?;
        Some(from..from.checked_add(width * rows)?)
    };
    widths.iter().enumerate().map(range).collect()
}
