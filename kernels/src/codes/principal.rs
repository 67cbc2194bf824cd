//! Codes along principal directions, with bits by variance.
//!
//! Rows less the centre are turned to the principal directions of a sample of them, each of norm 1. A direction of a larger
//! variance has more bits, two a number on average in the first plane, and two more each in the second one. A byte of a plane
//! has the fields of up to four directions: of one with a large variance, one with a small one and two between, which share the
//! 8 bits of the first plane. The quantizers are uniform, their steps those of normal distributions (J. Max, "Quantizing for
//! minimum distortion", 1960, table II).
//!
//! Bounds are those of turned rows and turned queries. Their distance differs from the true one by the rounding of the matrix: a
//! squared norm changes by at most [`Rotation::defect`] of it, and `stretch` is twice that. Sums of a turned vector are in f64, and off
//! by less than 2^-36 of its norm, which the slack of the bounds covers.
//!
//! Invariant: training gives the same bits on every code path and for any number of workers.

use super::WORD_BYTES;
use crate::CodePath;
use crate::pieces::{Pieces, collect};
use crate::rotation::{DIMENSIONS_MAX, Rotation, directions};

/// Directions that share a byte of a plane.
pub(super) const FIELDS: usize = 4;
/// Directions of a word of a plane.
pub(super) const FIELDS_PER_WORD: usize = FIELDS * WORD_BYTES;
/// Bits of a direction in the second plane.
pub(super) const SECOND_BITS: usize = 2;
/// Most bits of a direction in the first plane: with those of the second one and a half step, a byte.
const FIRST_BITS_MAX: usize = 5;
/// A direction whose deviation is a smaller part of the largest one has no code.
const DEVIATION_MIN: f64 = 1.0 / 64.0;
/// Most bytes of a plane.
pub(super) const BYTES_MAX: usize = WORD_BYTES * plane_words(DIMENSIONS_MAX);
/// No rotation has a larger defect.
const DEFECT_MAX: f64 = 1.0 / 1024.0;
/// Rows that one piece of work turns.
const ROWS_PER_PIECE: usize = 1024;
/// The least mean squared errors of uniform quantizers of 0 bits and more for a normal distribution of variance 1.
const ERRORS: [f64; FIRST_BITS_MAX + 1] = [1.0, 0.3634, 0.1188, 0.037_44, 0.011_54, 0.003_495];
/// The ranges of these quantizers: their steps times the number of steps. None for 0 bits.
const RANGES: [f64; FIRST_BITS_MAX + SECOND_BITS + 1] = [
    0.0,
    2.0 * 1.596,
    4.0 * 0.9957,
    8.0 * 0.586,
    16.0 * 0.3352,
    32.0 * 0.1881,
    64.0 * 0.1041,
    128.0 * 0.0569,
];

/// The place of a direction's bits, in the order of the fields: all first ones of a byte, then all second ones, and so on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Field {
    /// The direction; `None` of a field that no direction has.
    pub(super) direction: Option<usize>,
    /// The step of all bits, as a part of a row's norm; 0 of a field without a code.
    pub(super) step: f64,
    /// Bits in the first plane.
    pub(super) bits: u32,
    /// Bits below them in the byte.
    pub(super) shift: u32,
}

/// Principal directions, and a quantizer for each.
#[derive(Clone, Debug)]
pub struct Principal {
    /// The directions of the largest variances come first.
    rotation: Rotation,
    fields: Vec<Field>,
    /// The bits of each field in a byte of the first plane.
    masks: Vec<u8>,
    /// Factors that bring these bits to the place that they have in a byte of all bits, 8 bits higher.
    factors: Vec<u16>,
    /// More than a squared distance of turned vectors differs from the true one, as a part of it.
    stretch: f64,
}

/// Words of a plane.
pub(super) const fn plane_words(dimensions: usize) -> usize {
    dimensions.div_ceil(FIELDS_PER_WORD)
}

/// The direction of a field, by its byte and its place there.
fn direction_of(byte: usize, place: usize, bytes: usize) -> usize {
    // The largest variances meet the smallest ones of the middle.
    if place.is_multiple_of(2) { place * bytes + byte } else { (place + 1) * bytes - 1 - byte }
}

impl Principal {
    /// Learns directions and quantizers from rows less the centre; `None` if the caller cancelled it.
    ///
    /// # Panics
    /// If there is no row, these are no whole rows, or there are more than 1024 numbers.
    pub(super) fn train(
        rows: &[f32],
        dimensions: usize,
        path: CodePath,
        pieces: &mut Pieces<'_>,
    ) -> Option<Self> {
        let mut units = Vec::with_capacity(rows.len());
        for row in rows.chunks_exact(dimensions) {
            let norm = row.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt();
            let factor = if norm > 0.0 { 1.0 / norm } else { 0.0 };
            units.extend(row.iter().map(|x| (f64::from(*x) * factor) as f32));
        }
        let rotation = directions(&units, dimensions, path, pieces)?;
        let size = ROWS_PER_PIECE * dimensions;
        let turned = collect(pieces, units.len().div_ceil(size), |piece| {
            rotation.turn(path, &units[piece * size..units.len().min((piece + 1) * size)])
        })?;
        let mut variances = vec![0.0_f64; dimensions];
        for row in turned.iter().flat_map(|turned| turned.chunks_exact(dimensions)) {
            variances.iter_mut().zip(row).for_each(|(sum, x)| *sum += f64::from(*x).powi(2));
        }
        let count = (units.len() / dimensions) as f64;
        variances.iter_mut().for_each(|sum| *sum /= count);
        let largest = variances.iter().copied().fold(0.0, f64::max);
        let least = largest * DEVIATION_MIN * DEVIATION_MIN;
        variances.iter_mut().filter(|variance| **variance < least).for_each(|variance| *variance = 0.0);
        let bits = bits_of(&variances);
        let steps = variances.iter().zip(&bits).map(|(variance, bits)| step_of(*variance, *bits));
        let numbers = rotation.numbers().iter().copied().chain(steps);
        let numbers = numbers.chain(bits.iter().map(|bits| *bits as f32)).collect();
        Some(Self::of_numbers(dimensions, numbers).expect("a trained rotation is one"))
    }

    /// The directions of [`Principal::numbers`]; `None` if these are none.
    pub(super) fn of_numbers(dimensions: usize, mut numbers: Vec<f32>) -> Option<Self> {
        let fits =
            (1..=DIMENSIONS_MAX).contains(&dimensions) && numbers.len() == dimensions * (dimensions + 2);
        if !fits {
            return None;
        }
        let bits = numbers.split_off(dimensions * (dimensions + 1));
        let steps = numbers.split_off(dimensions * dimensions);
        let is_bits = |bits: &f32| (0..=FIRST_BITS_MAX).any(|whole| whole as f32 == *bits);
        if !bits.iter().all(is_bits) || !steps.iter().all(|step| (0.0..1e6).contains(step)) {
            return None;
        }
        let rotation = Rotation::of_numbers(dimensions, dimensions, numbers)?;
        let stretch = 2.0 * rotation.defect(CodePath::detect());
        let bytes = WORD_BYTES * plane_words(dimensions);
        let empty = Field { direction: None, step: 0.0, bits: 0, shift: 0 };
        let mut fields = vec![empty; FIELDS * bytes];
        for byte in 0..bytes {
            let mut below = u8::BITS;
            for place in 0..FIELDS {
                let direction = direction_of(byte, place, bytes);
                let Some(step) = steps.get(direction) else { continue };
                let bits = bits[direction] as u32;
                below = below.checked_sub(bits)?;
                let shift = if bits > 0 { below } else { 0 };
                let (direction, step) = (Some(direction), f64::from(*step));
                fields[place * bytes + byte] = Field { direction, step, bits, shift };
            }
        }
        let masks = fields.iter().map(|field| (((1_u32 << field.bits) - 1) << field.shift) as u8).collect();
        let factors = fields.iter().map(|field| 1 << (u8::BITS + 1 + SECOND_BITS as u32 - field.shift));
        let (factors, is_rotation) = (factors.collect(), stretch <= DEFECT_MAX);
        is_rotation.then_some(Self { rotation, fields, masks, factors, stretch })
    }

    /// The numbers of the directions, one after the other, then their steps, then their bits in the first plane.
    pub fn numbers(&self) -> Vec<f32> {
        let dimensions = self.rotation.from();
        let (mut steps, mut bits) = (vec![0.0; dimensions], vec![0.0; dimensions]);
        for field in &self.fields {
            if let Some(direction) = field.direction {
                (steps[direction], bits[direction]) = (field.step as f32, field.bits as f32);
            }
        }
        [self.rotation.numbers(), &steps, &bits].concat()
    }

    /// The fields of a row.
    pub(super) fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// More than a squared distance of turned vectors differs from the true one, as a part of it.
    pub(super) fn stretch(&self) -> f64 {
        self.stretch
    }

    /// A vector less the centre along the directions, the largest variances first.
    pub(super) fn turn(&self, path: CodePath, moved: &[f64]) -> Vec<f64> {
        self.rotation.turn_wide(path, moved)
    }

    /// The masks of the bits of fields in the words of the first plane: for each place in a byte, one for each word.
    pub(super) fn masks(&self) -> &[[u8; WORD_BYTES]] {
        self.masks.as_chunks().0
    }

    /// Appends the words of both planes of a turned row, and returns what its codes stand for along the directions: that of the first
    /// plane, and that of both.
    pub(super) fn encode(&self, turned: &[f64], words: &mut Vec<u32>) -> [Vec<f64>; 2] {
        let bytes = self.fields.len() / FIELDS;
        let norm = turned.iter().map(|x| x * x).sum::<f64>().sqrt();
        let (mut first, mut second) = (vec![0_u8; bytes], vec![0_u8; bytes]);
        let mut values = [vec![0.0; turned.len()], vec![0.0; turned.len()]];
        for (place, field) in self.fields.iter().enumerate() {
            let Some(direction) = field.direction else { continue };
            let Field { step, bits, shift, .. } = *field;
            let half = f64::from(2_u32 << bits);
            let number = match step > 0.0 && norm > 0.0 {
                // A number that is none becomes 0.
                true => (turned[direction] / (norm * step)).floor().max(-half).min(half - 1.0) + half,
                false => half,
            };
            let number = number as u8;
            let (byte, place) = (place % bytes, place / bytes);
            first[byte] |= number >> SECOND_BITS << shift;
            second[byte] |= (number & 3) << (SECOND_BITS * place);
            let middle = f64::from(number & !3) + 2.0 - half;
            values[0][direction] = step * middle;
            values[1][direction] = step * (f64::from(number) + 0.5 - half);
        }
        for plane in [first, second] {
            words.extend(plane.as_chunks().0.iter().map(|bytes| u32::from_le_bytes(*bytes)));
        }
        values
    }

    /// The bytes of a row, one for each field: twice the number of all its bits, and one.
    pub(super) fn bytes(&self, first: &[u8], second: &[u8], out: &mut Vec<u8>) {
        let count = first.len();
        let second = &second[..count];
        out.clear();
        out.resize(self.fields.len(), 0);
        let each = self.masks.chunks_exact(count).zip(self.factors.chunks_exact(count));
        let each = each.zip(out.chunks_exact_mut(count));
        for (place, ((masks, factors), out)) in each.enumerate() {
            for byte in 0..count {
                let high = ((u16::from(first[byte] & masks[byte]) * factors[byte]) >> 8) as u8;
                out[byte] = high | (((second[byte] >> (SECOND_BITS * place)) & 3) << 1) | 1;
            }
        }
    }
}

/// Bits of the directions in the first plane: each next bit of a byte goes where it takes most off the error.
fn bits_of(variances: &[f64]) -> Vec<usize> {
    let bytes = WORD_BYTES * plane_words(variances.len());
    let mut bits = vec![0; variances.len()];
    for byte in 0..bytes {
        for _ in 0..u8::BITS {
            let (mut best, mut most) = (None, 0.0);
            for direction in (0..FIELDS).map(|place| direction_of(byte, place, bytes)) {
                let Some(now) = bits.get(direction).copied().filter(|now| *now < FIRST_BITS_MAX) else {
                    continue;
                };
                let gain = variances[direction] * (ERRORS[now] - ERRORS[now + 1]);
                if gain > most {
                    (best, most) = (Some(direction), gain);
                }
            }
            let Some(direction) = best else { break };
            bits[direction] += 1;
        }
    }
    bits
}

/// The step of a direction's quantizer of all bits, whose range serves those of the first plane as well.
fn step_of(variance: f64, bits: usize) -> f32 {
    let all = RANGES[bits + SECOND_BITS];
    let range = if bits == 0 { all } else { (RANGES[bits] * all).sqrt() };
    (range * variance.sqrt() / f64::from(1_u32 << (bits + SECOND_BITS))) as f32
}
