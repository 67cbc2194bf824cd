//! Two texts by the numbers of their letters, and the rows' numbers as planes of bits, 64 rows to a word.

use super::{Pattern, WORD};

/// The most bits of a number. Texts of more different letters are compared word by word.
pub(super) const PLANES_MAX: usize = 16;
/// Words of planes beyond the last row, so that a vector may begin at any word.
const PADDING: usize = 8;

/// Two texts by the numbers of their letters: the pattern's are the rows of the table, the other's the columns.
#[derive(Debug)]
pub(super) struct Numbered {
    pub(super) rows: Vec<u16>,
    /// Letters that the pattern does not have share a number that no row has.
    pub(super) columns: Vec<u16>,
    /// Bits of a number.
    pub(super) planes: usize,
    /// By plane and word: a bit of the numbers of 64 rows. Zeros follow the last row.
    bits: Vec<u64>,
}

impl Numbered {
    /// Numbers the letters; nothing if the pattern has too many different ones.
    pub(super) fn new(pattern: &Pattern, text: &[char]) -> Option<Self> {
        // Place 0 belongs to letters that the pattern does not have. It takes the last number, so that four letters need two bits.
        let different = pattern.masks.len() / pattern.words - 1;
        if different >= 1 << PLANES_MAX {
            return None;
        }
        let other = different as u16;
        let number = |letter: &char| (pattern.place(*letter) as u16).wrapping_sub(1).min(other);
        let (rows, columns): (Vec<u16>, Vec<u16>) =
            (pattern.text.iter().map(number).collect(), text.iter().map(number).collect());
        let numbers = different + usize::from(columns.contains(&other));
        let planes = numbers.next_power_of_two().ilog2().max(1) as usize;
        let stride = pattern.words + PADDING;
        let mut bits = vec![0; planes * stride];
        for (number, masks) in pattern.masks.chunks_exact(pattern.words).skip(1).enumerate() {
            for (plane, bits) in bits.chunks_exact_mut(stride).enumerate() {
                if number >> plane & 1 == 1 {
                    bits.iter_mut().zip(masks).for_each(|(bits, mask)| *bits |= mask);
                }
            }
        }
        Some(Self { rows, columns, planes, bits })
    }

    /// The numbers of rows and columns.
    pub(super) fn size(&self) -> [usize; 2] {
        [self.rows.len(), self.columns.len()]
    }

    /// A plane, from a word on.
    #[inline(always)]
    pub(super) fn plane(&self, plane: usize, word: usize) -> &[u64] {
        let stride = self.rows.len().div_ceil(WORD).max(1) + PADDING;
        &self.bits[plane * stride..(plane + 1) * stride][word..]
    }
}
