//! Codes of a few bits a number that bound distances with certainty.
//!
//! A row less the centre is coded by a vector `c` of small whole numbers, of which only the direction matters. With
//! `u = c / |c|`, the row is `a u + r` and the query `b u + s`, where `r` and `s` are orthogonal to `u`. Then
//!
//! ```text
//! d^2 = (b - a)^2 + |s - r|^2,   and   (|s| - |r|)^2 <= |s - r|^2 <= (|s| + |r|)^2
//! ```
//!
//! so three numbers of a row, `1/|c|`, `a` and `h = |r|`, bound its distance from below and above: the simplex bound of two
//! pivots, the centre and the code itself. A query is a vector of bytes, so that `<q, c>` is a whole number; its distance
//! from the true query widens both bounds.
//!
//! The inner product of a row and a query, both less the centre `m`, lies within `b a - |s| h` and `b a + |s| h`, and
//! `<q, x> = <q - m, x - m> + <q, m> + <x - m, m>`. A row keeps the last product, its shift. The cosine is half the squared
//! distance of normalised vectors.
//!
//! Invariant: the f64 distance lies within the bounds, for every row and query. The numbers of a row are f32, `h` rounded up,
//! and `SLACK` of the squared norms and of the shift covers all roundings but those of inner products in f64, which are
//! relative to the norms with the centre. Numbers that are not finite bound nothing, and neither do those whose squares would
//! leave f32: rows with a number beyond `LARGE`, and queries with none but below `SMALL` or one beyond `LARGE`.

#![expect(clippy::neg_cmp_op_on_partial_ord, reason = "a number that is no number excludes nothing")]

mod query;
mod nearest;
mod first_plane;
mod scan;
#[cfg(test)]
mod tests;

pub use nearest::CodeNearest;
pub use query::CodeQuery;
pub use scan::CodeQueries;

use std::str::FromStr;

use crate::vector::{VectorMeasure, inner_product};

/// Rows of a group, whose words lie side by side.
pub const GROUP: usize = 16;
/// Numbers of a row in a word of a plane, 4 bits each.
pub const NUMBERS_PER_WORD: usize = 8;
/// The relative error of squared bounds: 32 roundings of f32.
pub(super) const SLACK: f64 = 1.0 / (1 << 19) as f64;
/// Larger numbers, less the centre, are not bounded: 2^16 squares of this one fit f32.
pub(super) const LARGE: f64 = (1_u64 << 50) as f64;
/// Queries of smaller numbers, less the centre, are not bounded: of the square of this one `SLACK` is a normal number of f32.
pub(super) const SMALL: f64 = 1.0 / (1_u64 << 50) as f64;
/// Numbers of f32 below the normal ones are off by less than this.
pub(super) const TINY: f64 = 1.0 / (1_u128 << 127) as f64 / (1 << 16) as f64;
/// The whole number of a code of 8 bits that stands for zero.
pub(super) const ZERO_8: i32 = 128;
/// That of a code of 4 bits, doubled: between 7 and 8.
pub(super) const ZERO_4: i32 = 15;

/// Which bits of the codes there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Levels {
    /// 4 bits.
    Sq4,
    /// 8 bits.
    Sq8,
    /// 8 bits in two planes of 4: the first one bounds alone, both bound what it leaves.
    Planes,
}

impl Levels {
    /// The names of all levels.
    pub const NAMES: &[&str] = &["planes", "sq8", "sq4"];

    /// The name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sq4 => "sq4",
            Self::Sq8 => "sq8",
            Self::Planes => "planes",
        }
    }

    /// Whether codes of 4 bits bound by themselves.
    pub const fn has_4(self) -> bool {
        matches!(self, Self::Sq4 | Self::Planes)
    }

    /// Whether codes have 8 bits.
    pub const fn has_8(self) -> bool {
        matches!(self, Self::Sq8 | Self::Planes)
    }

    /// Planes of words, and triples of numbers, of a row.
    pub const fn counts(self) -> (usize, usize) {
        match self {
            Self::Sq4 => (1, 1),
            Self::Sq8 => (2, 1),
            Self::Planes => (2, 2),
        }
    }

    /// Words of a row of this many numbers: its planes, its triples, and its shift if the measure has one.
    pub const fn words(self, measure: VectorMeasure, dimensions: usize) -> usize {
        let (planes, triples) = self.counts();
        let shifts = has_shift(measure) as usize;
        planes * dimensions.div_ceil(NUMBERS_PER_WORD) + 3 * triples + shifts
    }
}

impl FromStr for Levels {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = [Self::Sq4, Self::Sq8, Self::Planes].into_iter().find(|levels| levels.name() == name);
        found.ok_or_else(|| format!("there are no codes `{name}`; there are {}", Self::NAMES.join(", ")))
    }
}

/// Whether the rows of a measure have shifts.
const fn has_shift(measure: VectorMeasure) -> bool {
    matches!(measure, VectorMeasure::InnerProduct)
}

/// The numbers of a row for one number of bits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Triple {
    /// `1/|c|`; 0 for a code of zeros.
    pub inverse: f32,
    /// The row's part along the code.
    pub along: f32,
    /// The norm of the rest, from above.
    pub height: f32,
}

/// Codes rows of a store.
#[derive(Clone, Debug)]
pub struct Encoder {
    measure: VectorMeasure,
    levels: Levels,
    centre: Vec<f32>,
}

impl Encoder {
    /// An encoder. `centre` is the mean of the rows, or of the normalised rows for the cosine; any other bounds as surely, and
    /// not as tightly.
    pub fn new(measure: VectorMeasure, levels: Levels, centre: Vec<f32>) -> Self {
        Self { measure, levels, centre }
    }

    /// Words of a row.
    pub fn words(&self) -> usize {
        self.levels.words(self.measure, self.centre.len())
    }

    /// The measure.
    pub fn measure(&self) -> VectorMeasure {
        self.measure
    }

    /// The bits.
    pub fn levels(&self) -> Levels {
        self.levels
    }

    /// The centre.
    pub fn centre(&self) -> &[f32] {
        &self.centre
    }

    /// A row less the centre, in f64; NaN if it has no direction that the cosine needs.
    pub(super) fn moved(&self, row: &[f32]) -> Vec<f64> {
        let factor = match self.measure {
            VectorMeasure::Cosine => 1.0 / inner_product(row, row).sqrt(),
            _ => 1.0,
        };
        let pairs = row.iter().zip(&self.centre);
        pairs.map(|(number, centre)| f64::from(*number) * factor - f64::from(*centre)).collect()
    }

    /// Appends the words of a row: the planes, then its triples by their bits, then its shift.
    ///
    /// # Panics
    /// If the row has another number of dimensions than the centre.
    pub fn encode(&self, row: &[f32], words: &mut Vec<u32>) {
        assert_eq!(row.len(), self.centre.len(), "numbers of a row");
        let moved = self.moved(row);
        let largest =
            moved.iter().fold(0.0_f64, |largest, x| if x.abs() <= largest { largest } else { x.abs() });
        let step = largest / 127.5;
        // A row that is not bounded has numbers that are none.
        let moved = if largest <= LARGE { moved } else { vec![f64::NAN; moved.len()] };
        let byte = |x: f64| match step > 0.0 && largest <= LARGE {
            true => (x / step + f64::from(ZERO_8)).round().clamp(0.0, 255.0) as u8,
            false => ZERO_8 as u8,
        };
        let bytes: Vec<u8> = moved.iter().map(|x| byte(*x)).collect();
        for shift in [4, 0].into_iter().take(self.levels.counts().0) {
            words.extend(bytes.chunks(NUMBERS_PER_WORD).map(|bytes| {
                let at =
                    |place: usize| u32::from(bytes.get(place).copied().unwrap_or_default() >> shift & 15);
                (0..4).fold(0, |word, place| word | (at(place) | at(place + 4) << 4) << (8 * place))
            }));
        }
        let mut add = |code: &dyn Fn(u8) -> i32| {
            let triple = triple(&moved, bytes.iter().map(|byte| code(*byte)));
            words.extend([triple.inverse, triple.along, triple.height].map(f32::to_bits));
        };
        if self.levels.has_4() {
            add(&|byte| 2 * i32::from(byte >> 4) - ZERO_4);
        }
        if self.levels.has_8() {
            add(&|byte| i32::from(byte) - ZERO_8);
        }
        if has_shift(self.measure) {
            let pairs = moved.iter().zip(&self.centre);
            let shift: f64 = pairs.map(|(x, centre)| x * f64::from(*centre)).sum();
            words.push((shift as f32).to_bits());
        }
    }
}

/// The numbers of a row for a code.
fn triple(moved: &[f64], code: impl Iterator<Item = i32>) -> Triple {
    let (mut product, mut square, mut norm) = (0.0, 0_i64, 0.0);
    for (x, c) in moved.iter().zip(code) {
        product += x * f64::from(c);
        square += i64::from(c) * i64::from(c);
        norm += x * x;
    }
    let inverse = if square > 0 { 1.0 / (square as f64).sqrt() } else { 0.0 };
    let along = product * inverse;
    // The f32 of `along` is what a bound uses; 2^-40 covers the sums in f64.
    let rest = (norm - along * along).max(0.0) + norm * 2.0_f64.powi(-40);
    let height = rest.sqrt();
    let near = height as f32;
    let height = if f64::from(near) < height { near.next_up() } else { near };
    Triple { inverse: inverse as f32, along: along as f32, height }
}

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
        let plane_words = encoder.centre.len().div_ceil(NUMBERS_PER_WORD);
        let (planes, triples) = encoder.levels.counts();
        let groups = rows.div_ceil(GROUP);
        let list = || vec![0.0; groups * GROUP];
        Self {
            len: 0,
            plane_words,
            high: vec![0; groups * GROUP * plane_words],
            low: vec![0; if planes == 2 { groups * GROUP * plane_words } else { 0 }],
            triples: (0..triples).map(|_| [list(), list(), list()]).collect(),
            shifts: if has_shift(encoder.measure) { list() } else { Vec::new() },
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
        let (planes, plane_words) = (self.encoder.levels.counts().0, self.plane_words);
        for (place, word) in words.into_iter().enumerate() {
            if place < plane_words {
                self.high[(row / GROUP * plane_words + place) * GROUP + row % GROUP] = word;
            } else if place < planes * plane_words {
                self.low[row * plane_words + place - plane_words] = word;
            } else {
                let place = place - planes * plane_words;
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

    /// The numbers of a row for 8 bits, if `is_8`, or for 4.
    pub(super) fn triple(&self, row: usize, is_8: bool) -> Triple {
        let lists = if is_8 { &self.triples[self.triples.len() - 1] } else { &self.triples[0] };
        Triple { inverse: lists[0][row], along: lists[1][row], height: lists[2][row] }
    }

    /// The inner product of a row less the centre with the centre; 0 for measures without.
    pub(super) fn shift(&self, row: usize) -> f32 {
        self.shifts.get(row).copied().unwrap_or_default()
    }

    /// The bytes of a row: codes of 8 bits, or of 4 bits doubled.
    pub(super) fn bytes(&self, row: usize, is_8: bool, bytes: &mut Vec<u8>) {
        let high =
            self.high[row / GROUP * self.plane_words * GROUP..].iter().skip(row % GROUP).step_by(GROUP);
        bytes.clear();
        for (place, high) in high.take(self.plane_words).enumerate() {
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

    /// The words of a row's second plane.
    pub(super) fn low(&self, row: usize) -> &[u32] {
        &self.low[row * self.plane_words..][..self.plane_words]
    }

    /// The first bits of a group: word by word, a row each.
    pub(super) fn group(&self, group: usize) -> &[u32] {
        &self.high[group * self.plane_words * GROUP..][..self.plane_words * GROUP]
    }
}
