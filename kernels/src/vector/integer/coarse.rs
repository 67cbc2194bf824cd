//! Products of bytes in AVX2 alone, in two steps.
//!
//! `maddubs` multiplies 32 bytes with signed bytes and adds pairs of products in 16 bits, where they fit if bytes are below 32: so do
//! the sums of eight. A row's bytes lose as many of their lowest bits as that takes. What is lost changes a sum by no more than
//! the norm of the query's weights times the norm of what was lost (Cauchy and Schwarz), less its middle: a row that does not pass
//! by that much would not pass by all bits. For the others, halves of bytes are multiplied, which lose nothing.
//!
//! Invariant: a row that passes by all bits in f32 passes the first step, roundings included. So both steps give out the same sums
//! as the loops of other paths.
//!
//! Roundings: for `n` numbers, weights `q` and a step `s`, a product is at most `p = 255 sqrt(n) s |q|`, the sum of a row of zeros at
//! most half of it, and each is rounded four times at most; [`LOST_LEAST`] takes `2^-12 sqrt(n) s |q|`, which is more than
//! 16 roundings of `p`. The row's base and height are moved by 16 roundings of their own.

#![expect(unsafe_code, reason = "vector instructions and their loads and stores")]
#![expect(clippy::needless_range_loop, reason = "sums of constant places stay in registers")]

use std::arch::x86_64::*;

use super::{NUMBERS_MAX, Panel, Rows, Sink, give};
use crate::CodePath;

/// Words whose products are added in 16 bits.
pub(crate) const WORDS_AT_ONCE: usize = 4;
/// Bits of a byte that remain.
const BITS: u32 = 5;
const _: () = assert!(2 * WORDS_AT_ONCE * ((1 << BITS) - 1) * 128 < 1 << 15);
/// Twice what is lost, squared and summed up, fits 32 bits.
const _: () = assert!(NUMBERS_MAX << (2 * (u8::BITS - BITS)) < 1 << 31);
/// Halves of bytes fit as well.
const _: () = assert!(2 * WORDS_AT_ONCE * 15 * 128 < 1 << 15);
/// The norm of what was lost, by the root of the numbers, is at least this.
const LOST_LEAST: f64 = 1.0 / 4096.0;
/// Sixteen roundings of f32.
const SLACK: f64 = 1.0 / (1 << 20) as f64;
/// Above every product that f32 has no normal numbers for.
const TINY: f64 = 1e-36;
/// Rows of which more than one in [`PASSES_MAX`] passes the first step are cheaper without it.
const ROWS_MIN: usize = 24;
const PASSES_MAX: usize = 4;
/// Queries of a panel: one vector, as more of them would leave registers for fewer rows, whose sums are held there.
pub(crate) const LANES: usize = 8;
/// Rows of the inner loop.
const ROWS: usize = 8;

/// A row without its lowest bits.
#[derive(Debug, Default)]
pub(crate) struct CoarseRows {
    words: Vec<i32>,
    bases: Vec<f32>,
    heights: Vec<f32>,
    /// The norm of what was lost, times the row's factor.
    lost: Vec<f32>,
}

/// The numbers of a panel for rows without their lowest bits.
#[derive(Debug, Default)]
pub(crate) struct CoarsePanel {
    /// The value of a sum of zero, and of each unit of one.
    starts: Vec<f32>,
    units: Vec<f32>,
    /// The norms of the weights, times their step.
    norms: Vec<f32>,
}

impl CoarsePanel {
    /// Adds a query, from its weights, offset and step.
    pub(crate) fn push(&mut self, dropped: u32, weights: &[i8], offset: i32, scale: f32) {
        let (mut sum, mut square) = (0_i64, 0_i64);
        for weight in weights {
            sum += i64::from(*weight);
            square += i64::from(*weight).pow(2);
        }
        let scale = f64::from(scale);
        self.starts.push((scale * (middle(dropped) * sum as f64 - f64::from(offset))) as f32);
        self.units.push((scale * f64::from(1_u32 << dropped)) as f32);
        self.norms.push(((square as f64).sqrt() * scale * (1.0 + SLACK)) as f32);
    }

    /// Fills the panel.
    pub(crate) fn resize(&mut self, width: usize) {
        for numbers in [&mut self.starts, &mut self.units, &mut self.norms] {
            numbers.resize(width, 0.0);
        }
    }
}

impl CoarseRows {
    pub(crate) fn clear(&mut self) {
        self.words.clear();
        self.bases.clear();
        self.heights.clear();
        self.lost.clear();
    }

    /// Adds a row, whose words are given too.
    pub(crate) fn push(&mut self, dropped: u32, bytes: &[u8], words: &[i32], row: [f32; 3]) {
        let [base, factor, height] = row.map(f64::from);
        let mask = i32::from_ne_bytes([u8::MAX >> dropped; 4]);
        self.words.extend(words.iter().map(|word| word >> dropped & mask));
        // Twice the parts that were lost, less their middle, are whole numbers.
        let low = (1_i32 << dropped) - 1;
        let lost = |byte: &u8| (2 * (i32::from(*byte) & low) - low).pow(2);
        let square = f64::from(bytes.iter().map(lost).sum::<i32>()) / 4.0;
        let norm = (square.sqrt() + LOST_LEAST * (bytes.len() as f64).sqrt()) * (1.0 + SLACK);
        self.lost.push((factor.abs() * norm * (1.0 + SLACK)) as f32);
        self.bases.push((base - SLACK * base.abs() - TINY) as f32);
        self.heights.push((height * (1.0 + SLACK)) as f32);
    }
}

/// The middle of the numbers of so many bits.
fn middle(bits: u32) -> f64 {
    f64::from((1_u32 << bits) - 1) / 2.0
}

/// The bits that bytes up to this one lose.
pub(crate) fn dropped(most: u8) -> u32 {
    (u8::BITS - most.leading_zeros()).saturating_sub(BITS)
}

/// Scans with AVX2.
pub(crate) fn scan(panel: &Panel, rows: &Rows, limits: &mut [f32], sink: &mut dyn Sink) {
    let (count, per_row) = (rows.bases.len(), rows.words.len() / rows.bases.len());
    assert!(CodePath::Avx2.is_available());
    assert!(panel.width == LANES && limits.len() == LANES && panel.words.len() == per_row * LANES);
    assert!(per_row.is_multiple_of(WORDS_AT_ONCE), "whole steps");
    assert!(rows.coarse.words.len() == rows.words.len() && rows.coarse.lost.len() == count);
    assert!(panel.coarse.norms.len() == LANES);
    // SAFETY: the lines above checked the instructions and the lengths.
    unsafe { steps(panel, rows, limits, sink) }
}

/// Both steps.
///
/// # Safety
/// The panel and the limits are of one vector, the rows of its words, and both have what belongs to the first step.
#[target_feature(enable = "avx2,fma")]
unsafe fn steps(panel: &Panel, rows: &Rows, limits: &mut [f32], sink: &mut dyn Sink) {
    let count = rows.bases.len();
    // Without a limit all rows pass.
    let is_open = |limit: &f32| *limit == f32::INFINITY;
    let (mut first, mut passed) = (0, 0);
    while first < count {
        let upto = count.min(first + ROWS);
        let few = first < ROWS_MIN || passed * PASSES_MAX < first;
        let mut left = u32::MAX;
        if few && !limits[..panel.count].iter().any(is_open) {
            // SAFETY: the caller keeps the promise, and the first row is one of the block.
            left = unsafe { first_step(panel, rows, first, limits) };
        }
        left &= u32::MAX >> (32 - (upto - first));
        passed += left.count_ones() as usize;
        while left != 0 {
            let row = first + left.trailing_zeros() as usize;
            left &= left - 1;
            // SAFETY: it is one of the rows.
            unsafe { second_step(panel, rows, row, limits, sink) };
        }
        first = upto;
    }
}

/// Those of some rows that pass for any query by the bits that remain.
///
/// # Safety
/// As [`steps`], and the first row is one of the block.
#[inline]
#[target_feature(enable = "avx2,fma")]
unsafe fn first_step(panel: &Panel, rows: &Rows, first: usize, limits: &[f32]) -> u32 {
    let (count, per_row) = (rows.bases.len(), rows.words.len() / rows.bases.len());
    let ones = _mm256_set1_epi16(1);
    let mut sums = [_mm256_setzero_si256(); ROWS];
    let mut starts = [rows.coarse.words.as_ptr(); ROWS];
    for (r, start) in starts.iter_mut().enumerate() {
        // SAFETY: the row is one of the block; the last one stands for those that are missing.
        *start = unsafe { start.add((first + r).min(count - 1) * per_row) };
    }
    for word in (0..per_row).step_by(WORDS_AT_ONCE) {
        let mut weights = [_mm256_setzero_si256(); WORDS_AT_ONCE];
        for (at, weights) in (word..).zip(&mut weights) {
            // SAFETY: the panel has `per_row * LANES` words.
            *weights = unsafe { _mm256_loadu_si256(panel.words.as_ptr().add(at * LANES).cast()) };
        }
        for r in 0..ROWS {
            let mut part = _mm256_setzero_si256();
            for (at, weights) in (word..).zip(weights) {
                // SAFETY: each row has `per_row` words.
                let numbers = _mm256_set1_epi32(unsafe { *starts[r].add(at) });
                part = _mm256_add_epi16(part, _mm256_maddubs_epi16(numbers, weights));
            }
            sums[r] = _mm256_add_epi32(sums[r], _mm256_madd_epi16(part, ones));
        }
    }
    let coarse = &panel.coarse;
    let load = |numbers: &[f32]| {
        // SAFETY: each list has a number for each of the lanes.
        unsafe { _mm256_loadu_ps(numbers[..LANES].as_ptr()) }
    };
    let (units, starts, norms) = (load(&coarse.units), load(&coarse.starts), load(&coarse.norms));
    let (reaches, limits) = (load(&panel.reaches), load(limits));
    let mut left = 0;
    for r in 0..ROWS {
        let row = (first + r).min(count - 1);
        let base = _mm256_set1_ps(rows.coarse.bases[row]);
        let product = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sums[r]), units, starts);
        let nearest = _mm256_fnmadd_ps(reaches, _mm256_set1_ps(rows.coarse.heights[row]), base);
        let nearest = _mm256_fnmadd_ps(norms, _mm256_set1_ps(rows.coarse.lost[row]), nearest);
        let value = _mm256_fnmadd_ps(product, _mm256_set1_ps(rows.factors[row]), nearest);
        let passes = _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_NGT_UQ>(value, limits));
        left |= u32::from(passes != 0) << r;
    }
    left
}

/// Gives out the sums of a row that pass by all bits.
///
/// # Safety
/// As [`steps`], and the row is one of the block.
#[target_feature(enable = "avx2,fma")]
unsafe fn second_step(panel: &Panel, rows: &Rows, row: usize, limits: &mut [f32], sink: &mut dyn Sink) {
    let per_row = rows.words.len() / rows.bases.len();
    let (ones, half) = (_mm256_set1_epi16(1), _mm256_set1_epi8(15));
    let mut sums = [_mm256_setzero_si256(); 2];
    for word in (0..per_row).step_by(WORDS_AT_ONCE) {
        let mut parts = [_mm256_setzero_si256(); 2];
        for at in word..word + WORDS_AT_ONCE {
            // SAFETY: each row has `per_row` words, and the panel `per_row * LANES`.
            let (number, weights) = unsafe {
                (
                    *rows.words.as_ptr().add(row * per_row + at),
                    _mm256_loadu_si256(panel.words.as_ptr().add(at * LANES).cast()),
                )
            };
            let numbers = _mm256_set1_epi32(number);
            let high = _mm256_and_si256(_mm256_srli_epi32::<4>(numbers), half);
            for (part, half) in parts.iter_mut().zip([_mm256_and_si256(numbers, half), high]) {
                *part = _mm256_add_epi16(*part, _mm256_maddubs_epi16(half, weights));
            }
        }
        for (sum, part) in sums.iter_mut().zip(parts) {
            *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(part, ones));
        }
    }
    // SAFETY: each list has a number for each of the lanes.
    let (offset, scale, reach, limit) = unsafe {
        (
            _mm256_loadu_si256(panel.offsets[..LANES].as_ptr().cast()),
            _mm256_loadu_ps(panel.scales[..LANES].as_ptr()),
            _mm256_loadu_ps(panel.reaches[..LANES].as_ptr()),
            _mm256_loadu_ps(limits[..LANES].as_ptr()),
        )
    };
    let sum = _mm256_add_epi32(sums[0], _mm256_slli_epi32::<4>(sums[1]));
    let sum = _mm256_sub_epi32(sum, offset);
    let product = _mm256_mul_ps(_mm256_cvtepi32_ps(sum), scale);
    let (base, height) = (_mm256_set1_ps(rows.bases[row]), _mm256_set1_ps(rows.heights[row]));
    let value =
        _mm256_fnmadd_ps(product, _mm256_set1_ps(rows.factors[row]), _mm256_fnmadd_ps(reach, height, base));
    let mask = _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_NGT_UQ>(value, limit)).cast_unsigned();
    if mask != 0 {
        let mut kept = [0_i32; LANES];
        // SAFETY: the list has as many numbers as the vector.
        unsafe { _mm256_storeu_si256(kept.as_mut_ptr().cast(), sum) };
        give(panel, 0, row, mask, &kept, limits, sink);
    }
}
