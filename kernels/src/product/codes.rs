//! Codes in groups of rows.

use std::ops::Range;

use super::{Bits, PARTS_MAX};

/// Rows of a group.
pub const GROUP: usize = 32;

/// Parts that a vector of 64 bytes has of a group of 4-bit codes: groups have a multiple of as many, with zeros.
pub(super) const PARTS_STEP: usize = 4;

/// Bytes of a group.
///
/// Of 8 bits: byte `p * 32 + r` is part `p` of row `r`. Of 4 bits: the low half of byte `p * 16 + r` is part `p` of row `r`,
/// the high half that of row `r + 16`; there are parts up to the next multiple of 4.
pub const fn group_bytes(parts: usize, bits: Bits) -> usize {
    match bits {
        Bits::Eight => parts * GROUP,
        Bits::Four => parts.next_multiple_of(PARTS_STEP) * GROUP / 2,
    }
}

/// Codes of some rows, borrowed.
#[derive(Clone, Copy, Debug)]
pub struct Codes<'a> {
    /// Parts of a code.
    pub parts: usize,
    /// How many bits name a centroid.
    pub bits: Bits,
    /// Rows; the last group may have fewer than [`GROUP`].
    pub rows: usize,
    /// Groups of [`group_bytes`] each.
    pub bytes: &'a [u8],
}

impl<'a> Codes<'a> {
    /// The codes of some of the rows: whole groups, or the last ones.
    ///
    /// # Panics
    /// If the range does not begin with a group, or ends within one that is not the last.
    pub fn part(self, rows: Range<usize>) -> Codes<'a> {
        assert!(
            rows.start.is_multiple_of(GROUP) && (rows.end.is_multiple_of(GROUP) || rows.end == self.rows),
            "rows {rows:?} of {} are no whole groups",
            self.rows
        );
        let size = group_bytes(self.parts, self.bits);
        let bytes = &self.bytes[rows.start / GROUP * size..rows.end.div_ceil(GROUP) * size];
        Codes { rows: rows.len(), bytes, ..self }
    }

    /// Checks that the bytes are those of as many rows.
    ///
    /// # Panics
    /// If they are not.
    pub(super) fn check(&self) {
        assert!((1..=PARTS_MAX).contains(&self.parts), "{} parts", self.parts);
        let bytes = self.rows.div_ceil(GROUP) * group_bytes(self.parts, self.bits);
        assert_eq!(self.bytes.len(), bytes, "whole groups of codes");
    }

    /// The sum of a row's numbers in tables, in f64 and in the order of the parts.
    pub(crate) fn sum_of(&self, row: usize, tables: &[f32]) -> f64 {
        let parts = tables.chunks_exact(self.bits.centroids()).take(self.parts).enumerate();
        parts.map(|(part, table)| f64::from(table[self.at(row, part)])).sum()
    }

    /// The bytes of a group.
    #[inline(always)]
    pub(super) fn group(&self, group: usize) -> &[u8] {
        let size = group_bytes(self.parts, self.bits);
        &self.bytes[group * size..][..size]
    }

    /// The centroid of a part of a row.
    #[inline(always)]
    pub(super) fn at(&self, row: usize, part: usize) -> usize {
        let group = &self.bytes[row / GROUP * group_bytes(self.parts, self.bits)..];
        let row = row % GROUP;
        match self.bits {
            Bits::Eight => usize::from(group[part * GROUP + row]),
            Bits::Four => usize::from(group[part * (GROUP / 2) + row % 16] >> (row / 16 * 4) & 15),
        }
    }
}

/// Arranges codes, a byte for each part, in groups.
///
/// # Panics
/// If these are no whole codes.
pub fn pack(codes: &[u8], parts: usize, bits: Bits) -> Vec<u8> {
    assert!(codes.len().is_multiple_of(parts), "whole codes");
    let size = group_bytes(parts, bits);
    let mut bytes = vec![0; (codes.len() / parts).div_ceil(GROUP) * size];
    for (row, code) in codes.chunks_exact(parts).enumerate() {
        let (group, row) = (&mut bytes[row / GROUP * size..][..size], row % GROUP);
        for (part, centroid) in code.iter().enumerate() {
            match bits {
                Bits::Eight => group[part * GROUP + row] = *centroid,
                Bits::Four => group[part * (GROUP / 2) + row % 16] |= (centroid & 15) << (row / 16 * 4),
            }
        }
    }
    bytes
}

/// The codes of groups, row after row: the inverse of [`pack`].
///
/// # Panics
/// If the bytes are not those of as many rows.
pub fn unpack(codes: Codes<'_>) -> Vec<u8> {
    codes.check();
    let each_row = |row| (0..codes.parts).map(move |part| codes.at(row, part) as u8);
    (0..codes.rows).flat_map(each_row).collect()
}
