//! The words of product codes, and their places in groups.

use super::PARTS_PER_WORD;
use crate::product::GROUP;

/// The words of a code: four parts in each, the first in the low byte.
pub(super) fn words(code: &[u8]) -> impl Iterator<Item = u32> {
    code.chunks(PARTS_PER_WORD).map(|bytes| {
        (0..).zip(bytes).fold(0, |word, (place, byte): (u32, _)| word | u32::from(*byte) << (8 * place))
    })
}

/// Puts a word of a row's code into its group.
pub(super) fn put(bytes: &mut [u8], parts: usize, row: usize, place: usize, word: u32) {
    let group = &mut bytes[row / GROUP * parts * GROUP..][..parts * GROUP];
    for (part, byte) in (PARTS_PER_WORD * place..parts).zip(word.to_le_bytes()) {
        group[part * GROUP + row % GROUP] = byte;
    }
}
