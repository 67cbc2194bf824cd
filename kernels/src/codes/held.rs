//! The codes of many rows, in memory.

use std::ops::Range;

use super::parts;
use super::principal::BYTES_MAX;
use super::{Encoder, GROUP, PARTS_PER_WORD, SLACK, Triple, WORD_BYTES, has_shift};
use crate::product::{self, Bits};

/// The codes of many rows, in memory.
#[derive(Debug)]
pub struct Codes {
    encoder: Encoder,
    len: usize,
    plane_words: usize,
    /// Group by group, word by word, a row each.
    high: Vec<u32>,
    /// Row by row.
    low: Vec<u32>,
    /// Product codes, in groups of `product`.
    product: Vec<u8>,
    /// Parts of such a code.
    parts: usize,
    /// A list of all rows for each number of a triple.
    triples: Vec<[Vec<f32>; 3]>,
    /// Those of all rows; empty for measures without.
    shifts: Vec<f32>,
    /// The largest norm of a row less the centre, from above.
    norm_max: f64,
}

impl Codes {
    /// No rows, with room for `rows`.
    pub fn new(encoder: Encoder, rows: usize) -> Self {
        let dimensions = encoder.centre().len();
        let (planes, triples) = encoder.levels().counts();
        let plane_words = encoder.levels().plane_words(dimensions);
        let parts = encoder.levels().parts(dimensions).unwrap_or_default();
        let groups = rows.div_ceil(GROUP);
        // Groups of product codes are larger.
        let padded = rows.next_multiple_of(GROUP.max(product::GROUP));
        let list = || vec![0.0; padded];
        Self {
            len: 0,
            plane_words,
            high: vec![0; groups * GROUP * plane_words],
            low: vec![0; if planes == 2 { groups * GROUP * plane_words } else { 0 }],
            product: vec![0; product::group_bytes(parts, Bits::Eight) * padded / product::GROUP],
            parts,
            triples: (0..triples).map(|_| [list(), list(), list()]).collect(),
            shifts: if has_shift(encoder.measure()) { list() } else { Vec::new() },
            norm_max: 0.0,
            encoder,
        }
    }

    /// Appends a row by its words, as [`Encoder::encode`] gives them.
    ///
    /// # Panics
    /// If there are more rows than there is room for, or other than all words of a row.
    pub fn push(&mut self, words: impl IntoIterator<Item = u32>) {
        let (row, mut count) = (self.len, 0);
        let (planes, plane_words) = (self.encoder.levels().counts().0, self.plane_words);
        let of_code = planes * plane_words + self.parts.div_ceil(PARTS_PER_WORD);
        for (place, word) in words.into_iter().enumerate() {
            if place < plane_words {
                self.high[(row / GROUP * plane_words + place) * GROUP + row % GROUP] = word;
            } else if place < planes * plane_words {
                self.low[row * plane_words + place - plane_words] = word;
            } else if place < of_code {
                parts::put(&mut self.product, self.parts, row, place, word);
            } else {
                let place = place - of_code;
                match self.triples.get_mut(place / 3) {
                    Some(triple) => triple[place % 3][row] = f32::from_bits(word),
                    None => self.shifts[row] = f32::from_bits(word),
                }
            }
            count += 1;
        }
        assert_eq!(count, self.encoder.words(), "the words of a row");
        let last = &self.triples[self.triples.len() - 1];
        let norm = f64::from(last[1][row]).hypot(f64::from(last[2][row])) * (1.0 + SLACK);
        // A row of no numbers passes whatever the largest norm is.
        self.norm_max = if norm > self.norm_max { norm } else { self.norm_max };
        self.len += 1;
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The encoder of its rows.
    pub fn encoder(&self) -> &Encoder {
        &self.encoder
    }

    /// The largest norm of a row less the centre, from above.
    pub(super) fn norm_max(&self) -> f64 {
        self.norm_max
    }

    /// The numbers of the first triple, those of all rows in a list each.
    pub(super) fn first_triples(&self) -> &[Vec<f32>; 3] {
        &self.triples[0]
    }

    /// The shifts of all rows; none for measures without.
    pub(super) fn shifts(&self) -> &[f32] {
        &self.shifts
    }

    /// The numbers of a row for 8 bits, if `is_8`, or for 4.
    pub(super) fn triple(&self, row: usize, is_8: bool) -> Triple {
        let lists = if is_8 { &self.triples[self.triples.len() - 1] } else { &self.triples[0] };
        Triple { inverse: lists[0][row], along: lists[1][row], height: lists[2][row] }
    }

    /// The inner product of a row less the centre with the centre; 0 for measures without.
    pub(super) fn shift(&self, row: usize) -> f32 {
        self.shifts.get(row).copied().unwrap_or_default()
    }

    /// The bytes of a row, one for each field: codes of 8 bits, or of 4 bits doubled.
    pub(super) fn bytes(&self, row: usize, is_8: bool, bytes: &mut Vec<u8>) {
        let high =
            self.high[row / GROUP * self.plane_words * GROUP..].iter().skip(row % GROUP).step_by(GROUP);
        let high = high.take(self.plane_words);
        if let Some(principal) = self.encoder.principal() {
            let (mut first, mut second) = ([0; BYTES_MAX], [0; BYTES_MAX]);
            let pairs = high.zip(self.low(row));
            let places = first.as_chunks_mut().0.iter_mut().zip(second.as_chunks_mut().0);
            for ((first, second), (high, low)) in places.zip(pairs) {
                (*first, *second) = (high.to_le_bytes(), low.to_le_bytes());
            }
            let count = WORD_BYTES * self.plane_words;
            principal.bytes(&first[..count], &second[..count], bytes);
            return;
        }
        bytes.clear();
        for (place, high) in high.enumerate() {
            let words = match is_8 {
                true => {
                    let low = self.low[row * self.plane_words + place];
                    [
                        (high & 0x0f0f_0f0f) << 4 | low & 0x0f0f_0f0f,
                        high & 0xf0f0_f0f0 | low >> 4 & 0x0f0f_0f0f,
                    ]
                }
                false => [high << 1 & 0x1e1e_1e1e, high >> 3 & 0x1e1e_1e1e],
            };
            words.iter().for_each(|word| bytes.extend(word.to_le_bytes()));
        }
    }

    /// The product codes of some groups, with those of rows that fill the last one.
    pub(super) fn product(&self, groups: Range<usize>) -> product::Codes<'_> {
        let size = product::group_bytes(self.parts, Bits::Eight);
        let rows = (groups.end - groups.start) * product::GROUP;
        let bytes = &self.product[groups.start * size..groups.end * size];
        product::Codes { parts: self.parts, bits: Bits::Eight, rows, bytes }
    }

    /// The words of a row's second plane.
    pub(super) fn low(&self, row: usize) -> &[u32] {
        &self.low[row * self.plane_words..][..self.plane_words]
    }

    /// The first bits of a group: word by word, a row each.
    pub(super) fn group(&self, group: usize) -> &[u32] {
        &self.high[group * self.plane_words * GROUP..][..self.plane_words * GROUP]
    }
}
