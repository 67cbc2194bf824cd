//! Checksums put right in a damaged store: without this no input gets past them to the code behind.

use arrow_ipc::Block;

/// The bytes before the tail's own checksum.
const MARKER: &[u8] = b"boxwork-crc32=";
/// Hexadecimal digits of a checksum.
const DIGITS: usize = 8;
/// The footer's length and the magic, at the very end.
const TRAILER_BYTES: usize = 10;
/// A continuation marker and a zero, before the footer.
const END_OF_STREAM_BYTES: usize = 8;

/// The tail's own checksum in the file, if there is one.
pub fn tail_digits(file: &[u8]) -> Option<&[u8]> {
    let at = file.windows(MARKER.len()).rposition(|text| text == MARKER)? + MARKER.len();
    file.get(at..at + DIGITS)
}

/// Writes the checksums that a writer would have written; nothing where the footer cannot be read.
pub fn seal(file: &mut [u8]) -> Option<()> {
    let footer_end = file.len().checked_sub(TRAILER_BYTES)?;
    let footer_bytes = u32::from_le_bytes(*file.get(footer_end..)?.first_chunk()?);
    let footer_start = footer_end.checked_sub(usize::try_from(footer_bytes).ok()?)?;
    let tail_start = footer_start.checked_sub(END_OF_STREAM_BYTES)?;
    let digits = digits(file, footer_start, footer_end)?;
    for (at, sum) in digits {
        file.get_mut(at..at + DIGITS)?.copy_from_slice(format!("{sum:08x}").as_bytes());
    }
    let tail = &mut file[tail_start..];
    let at = tail.windows(MARKER.len()).position(|text| text == MARKER)? + MARKER.len();
    tail.get_mut(at..at + DIGITS)?.fill(b'0');
    let sum = crc32fast::hash(tail);
    tail[at..at + DIGITS].copy_from_slice(format!("{sum:08x}").as_bytes());
    Some(())
}

/// For the record of a store's changes: the last line.
pub fn seal_record(file: &mut [u8]) -> Option<()> {
    let at = file.windows(7).rposition(|text| text == b"\ncrc32 ")? + 1;
    let sum = crc32fast::hash(&file[..at]);
    file.get_mut(at + 6..at + 6 + DIGITS)?.copy_from_slice(format!("{sum:08x}").as_bytes());
    Some(())
}

/// For a list of removed objects: the last four bytes.
pub fn seal_removed(file: &mut [u8]) -> Option<()> {
    let (content, checksum) = file.split_last_chunk_mut::<4>()?;
    *checksum = crc32fast::hash(content).to_le_bytes();
    Some(())
}

/// The places of the checksums of head and batches, and what they should be.
fn digits(file: &[u8], footer_start: usize, footer_end: usize) -> Option<Vec<(usize, u32)>> {
    let footer = arrow_ipc::root_as_footer(&file[footer_start..footer_end]).ok()?;
    let metadata = footer.custom_metadata()?;
    let entry = (0..metadata.len())
        .map(|idx| metadata.get(idx))
        .find(|entry| entry.key() == Some("boxwork.checksums"))?;
    let text = entry.value()?;
    let start = text.as_ptr().addr() - file.as_ptr().addr();
    let place = |part: &str| start + (part.as_ptr().addr() - text.as_ptr().addr());
    let sum = |from: usize, to: usize| file.get(from..to).map(crc32fast::hash);

    let blocks: Vec<Block> = footer.recordBatches().into_iter().flatten().copied().collect();
    let mut parts = text.split(';').skip(1);
    let head = parts.next()?.strip_prefix("head=")?;
    let head_end = usize::try_from(blocks.first()?.offset()).ok()?;
    let mut digits = vec![(place(head), sum(0, head_end)?)];
    for (part, block) in parts.zip(&blocks) {
        let mut fields = part.split(',').skip(1);
        let from = usize::try_from(block.offset()).ok()?;
        let bytes = usize::try_from(block.metaDataLength())
            .ok()?
            .checked_add(usize::try_from(block.bodyLength()).ok()?)?;
        let first = fields.next()?;
        let Some(front) = fields.next() else {
            // An index has one checksum a batch.
            if first.len() == DIGITS {
                digits.push((place(first), sum(from, from.checked_add(bytes)?)?));
            }
            continue;
        };
        let middle = from.checked_add(first.parse().ok()?)?;
        let rest = fields.next()?;
        if front.len() == DIGITS && rest.len() == DIGITS {
            digits.push((place(front), sum(from, middle)?));
            digits.push((place(rest), sum(middle, from.checked_add(bytes)?)?));
        }
    }
    (head.len() == DIGITS).then_some(digits)
}
