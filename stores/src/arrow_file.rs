//! The common parts of Boxwork's Arrow IPC files: their ends, and one text of checksums that covers every byte.
//!
//! The checksums stand in the footer's metadata. The tail's own checksum is among them; it is computed with zeros in
//! place of its eight digits. Other readers of Arrow see metadata and nothing else.

use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;

use arrow_ipc::reader::read_footer_length;

/// The bytes with which an Arrow file begins and ends.
pub(super) const MAGIC: &[u8] = b"ARROW1";
/// The end of the stream of messages: a continuation marker and a zero.
pub(super) const END_OF_STREAM_BYTES: usize = 8;
/// The footer's length and the magic, at the very end.
pub(super) const TRAILER_BYTES: usize = 10;
/// Every buffer begins at a multiple of this, so that numbers are read where they lie.
pub(super) const ALIGNMENT_MIN_BYTES: usize = 8;

/// The text before the tail's own checksum; it occurs once in the whole tail.
pub(super) const MARKER: &str = "boxwork-crc32=";
/// Digits of a checksum.
pub(super) const DIGITS: usize = 8;

/// The place of the tail's own checksum, if the tail has exactly one.
pub(super) fn tail_digits(tail: &[u8]) -> Option<Range<usize>> {
    let mut places = tail.windows(MARKER.len()).enumerate().filter(|(_, text)| *text == MARKER.as_bytes());
    let start = places.next()?.0 + MARKER.len();
    (places.next().is_none() && start + DIGITS <= tail.len()).then_some(start..start + DIGITS)
}

/// The checksum of a tail, as the digits that must stand in it.
pub(super) fn tail_checksum(tail: &[u8], digits: &Range<usize>) -> String {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&tail[..digits.start]);
    hasher.update(&[b'0'; DIGITS]);
    hasher.update(&tail[digits.end..]);
    format!("{:0DIGITS$x}", hasher.finalize())
}

/// Identifies the content of a file of Boxwork: the file's length and its tail's checksum, as text. `None` if the file
/// is of another program, or damaged at its ends.
pub(super) fn fingerprint<F: Read + Seek>(file: &mut F) -> io::Result<Option<String>> {
    let length = file.seek(SeekFrom::End(0))?;
    let mut bytes = |start: u64, count: u64| {
        file.seek(SeekFrom::Start(start))?;
        let mut bytes = Vec::new();
        file.by_ref().take(count).read_to_end(&mut bytes).map(|_| bytes)
    };
    let trailer_start = length.saturating_sub(TRAILER_BYTES as u64);
    let (head, trailer) = (bytes(0, MAGIC.len() as u64)?, bytes(trailer_start, TRAILER_BYTES as u64)?);
    let Ok(trailer) = <[u8; TRAILER_BYTES]>::try_from(trailer) else { return Ok(None) };
    let (true, Ok(footer_bytes)) = (head == MAGIC, read_footer_length(trailer)) else { return Ok(None) };
    let Some(start) = trailer_start.checked_sub(footer_bytes as u64 + END_OF_STREAM_BYTES as u64) else {
        return Ok(None);
    };
    let tail = bytes(start, length - start)?;
    let Some(digits) = tail_digits(&tail) else { return Ok(None) };
    let checksum = tail_checksum(&tail, &digits);
    Ok((tail[digits] == *checksum.as_bytes()).then(|| format!("{length:x}-{checksum}")))
}

/// The batch that a block's header describes; nothing when it describes something else.
pub(super) fn read_header(header: &[u8]) -> Option<arrow_ipc::RecordBatch<'_>> {
    // A continuation marker and the length precede the header's own table.
    arrow_ipc::root_as_message(header.get(8..)?).ok()?.header_as_record_batch()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tails_checksum_covers_all_but_itself() {
        let mut tail = format!("before {MARKER}00000000;after").into_bytes();
        let digits = tail_digits(&tail).unwrap();
        let sum = tail_checksum(&tail, &digits);
        tail[digits.clone()].copy_from_slice(sum.as_bytes());
        assert_eq!(tail_checksum(&tail, &digits), sum);
        tail[0] ^= 1;
        assert_ne!(tail_checksum(&tail, &digits), sum);
        assert_eq!(tail_digits(format!("{MARKER}0").as_bytes()), None);
        assert_eq!(tail_digits(format!("{MARKER}00000000{MARKER}00000000").as_bytes()), None);
    }
}
