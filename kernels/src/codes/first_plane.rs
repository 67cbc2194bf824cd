//! Sums of one fine query with the first plane of many rows: rows are the lanes, and a word holds eight numbers of a row, or the
//! fields of sixteen.
//!
//! A row passes unless its lower bound, in f32 from the sum alone, is beyond the range. What passes is given out with its sum
//! in whole numbers.

#![cfg_attr(
    target_arch = "x86_64",
    expect(unsafe_code, reason = "vector instructions and their loads and stores")
)]

#[cfg(target_arch = "x86_64")]
mod avx2;

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;
use std::ops::Range;

use super::nearest::CodeNearest;
use super::principal::{FIELDS, Principal};
use super::query::{CodeQuery, HIGH};
use super::{Codes, GROUP, NUMBERS_PER_WORD, SLACK, WORD_BYTES};
use crate::CodePath;
use crate::vector::VectorMeasure;
use crate::vector::integer::IntegerPath;

/// Gives out a row with its sum.
pub(super) type Give<'a> = dyn FnMut(usize, i64, &mut CodeNearest) + 'a;

/// Words of a query for the bytes of a plane's words: four weights each.
struct Words {
    high: Vec<i32>,
    low: Vec<i32>,
    /// For each word of rows in fields, and each place in its bytes: the bits of the fields, and the words of high and low weights;
    /// nothing for numbers of 4 bits.
    fields: Vec<[[i32; 3]; FIELDS]>,
}

/// Scans rows, from the first of a group on.
pub(super) fn scan(
    path: CodePath,
    codes: &Codes,
    query: &CodeQuery,
    rows: Range<usize>,
    give: &mut Give<'_>,
    nearest: &mut CodeNearest,
) {
    let word = |bytes: &[i8], place: usize| {
        let at = |idx: usize| bytes.get(idx).copied().unwrap_or_default().cast_unsigned();
        i32::from_le_bytes([0, 1, 2, 3].map(|byte| at(4 * place + byte)))
    };
    let masks = codes.encoder().principal().map_or(&[][..], Principal::masks);
    let count = match masks.len() {
        0 => query.high.len().div_ceil(NUMBERS_PER_WORD) * (NUMBERS_PER_WORD / WORD_BYTES),
        count => count,
    };
    let high: Vec<i32> = (0..count).map(|place| word(&query.high, place)).collect();
    let low: Vec<i32> = (0..count).map(|place| word(&query.low, place)).collect();
    let plane_words = masks.len() / FIELDS;
    let of_word = |word: usize| {
        std::array::from_fn(|place| {
            let at = place * plane_words + word;
            [i32::from_le_bytes(masks[at]), high[at], low[at]]
        })
    };
    let fields = (0..plane_words).map(of_word).collect();
    let words = Words { high, low, fields };
    let integer = IntegerPath::of(path);
    for group in rows.start / GROUP..rows.end.div_ceil(GROUP) {
        let mut sums = [[0_i32; GROUP]; 2];
        let mut mask = u32::MAX >> (32 - GROUP);
        match integer {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the path says that the machine has the instructions.
            IntegerPath::Vnni => mask = unsafe { vnni(codes, query, &words, group, nearest, &mut sums) },
            #[cfg(target_arch = "x86_64")]
            IntegerPath::Avx2 if words.fields.is_empty() => {
                // SAFETY: as above.
                mask = unsafe { avx2::pass(codes, query, &words, group, nearest, &mut sums) };
            }
            #[cfg(target_arch = "x86_64")]
            IntegerPath::AvxVnni => {
                // SAFETY: as above.
                mask = unsafe { avx2::pass_vnni(codes, query, &words, group, nearest, &mut sums) }
            }
            _ if words.fields.is_empty() => plain(codes.group(group), &words, &mut sums),
            _ => plain_fields(codes.group(group), &words, &mut sums),
        }
        let upto = rows.end - group * GROUP;
        if upto < GROUP {
            mask &= (1 << upto) - 1;
        }
        while mask != 0 {
            let lane = mask.trailing_zeros() as usize;
            mask &= mask - 1;
            let sum = i64::from(HIGH) * i64::from(sums[0][lane]) + i64::from(sums[1][lane]);
            give(group * GROUP + lane, sum, nearest);
        }
    }
}

fn plain(group: &[u32], words: &Words, sums: &mut [[i32; GROUP]; 2]) {
    for (place, rows) in group.as_chunks::<GROUP>().0.iter().enumerate() {
        for (half, shifted) in
            [rows.map(|word| word << 1), rows.map(|word| word >> 3)].into_iter().enumerate()
        {
            let pair = [&words.high, &words.low].map(|words| words[2 * place + half].to_le_bytes());
            for byte in 0..4 {
                let weights = pair.map(|bytes| i32::from(bytes[byte].cast_signed()));
                for lane in 0..GROUP {
                    let number = (shifted[lane] >> (8 * byte) & 0x1e) as i32;
                    sums[0][lane] += number * weights[0];
                    sums[1][lane] += number * weights[1];
                }
            }
        }
    }
}

fn plain_fields(group: &[u32], words: &Words, sums: &mut [[i32; GROUP]; 2]) {
    let all = group.as_chunks::<GROUP>().0.iter().zip(&words.fields);
    for (rows, [mask, high, low]) in
        all.flat_map(|(rows, fields)| fields.iter().map(move |field| (rows, *field)))
    {
        let masked = rows.map(|word| word & mask.cast_unsigned());
        let pair = [high, low].map(i32::to_le_bytes);
        for byte in 0..WORD_BYTES {
            let weights = pair.map(|bytes| i32::from(bytes[byte].cast_signed()));
            for lane in 0..GROUP {
                let number = (masked[lane] >> (8 * byte) & 0xff) as i32;
                sums[0][lane] += number * weights[0];
                sums[1][lane] += number * weights[1];
            }
        }
    }
}

/// The sums of the high and of the low bytes of weights with the numbers of 4 bits of a group, doubled.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
fn numbers_vnni(group: &[u32], words: &Words) -> (__m512i, __m512i) {
    let mask = _mm512_set1_epi32(0x1e1e_1e1e);
    let zero = _mm512_setzero_si512();
    let (mut high, mut low) = ([zero; 2], [zero; 2]);
    for (place, rows) in group.as_chunks::<GROUP>().0.iter().enumerate() {
        // SAFETY: the words are as many as a vector has.
        let rows = unsafe { _mm512_loadu_si512(rows.as_ptr().cast()) };
        let halves = [
            _mm512_and_si512(_mm512_slli_epi32::<1>(rows), mask),
            _mm512_and_si512(_mm512_srli_epi32::<3>(rows), mask),
        ];
        for half in 0..2 {
            let (upper, lower) = (words.high[2 * place + half], words.low[2 * place + half]);
            high[half] = _mm512_dpbusd_epi32(high[half], halves[half], _mm512_set1_epi32(upper));
            low[half] = _mm512_dpbusd_epi32(low[half], halves[half], _mm512_set1_epi32(lower));
        }
    }
    (_mm512_add_epi32(high[0], high[1]), _mm512_add_epi32(low[0], low[1]))
}

/// The sums of the high and of the low bytes of weights with the fields of a group.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
fn fields_vnni(group: &[u32], words: &Words) -> (__m512i, __m512i) {
    let zero = _mm512_setzero_si512();
    let (mut high, mut low) = ([zero; FIELDS], [zero; FIELDS]);
    for (rows, fields) in group.as_chunks::<GROUP>().0.iter().zip(&words.fields) {
        // SAFETY: the words are as many as a vector has.
        let rows = unsafe { _mm512_loadu_si512(rows.as_ptr().cast()) };
        for place in 0..FIELDS {
            let [mask, upper, lower] = fields[place];
            let numbers = _mm512_and_si512(rows, _mm512_set1_epi32(mask));
            high[place] = _mm512_dpbusd_epi32(high[place], numbers, _mm512_set1_epi32(upper));
            low[place] = _mm512_dpbusd_epi32(low[place], numbers, _mm512_set1_epi32(lower));
        }
    }
    let high = [_mm512_add_epi32(high[0], high[1]), _mm512_add_epi32(high[2], high[3])];
    let low = [_mm512_add_epi32(low[0], low[1]), _mm512_add_epi32(low[2], low[3])];
    (_mm512_add_epi32(high[0], high[1]), _mm512_add_epi32(low[0], low[1]))
}

/// The sums of a group, and the rows that pass.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
fn vnni(
    codes: &Codes,
    query: &CodeQuery,
    words: &Words,
    group: usize,
    nearest: &CodeNearest,
    sums: &mut [[i32; GROUP]; 2],
) -> u32 {
    let (high, low) = match words.fields.is_empty() {
        true => numbers_vnni(codes.group(group), words),
        false => fields_vnni(codes.group(group), words),
    };
    // SAFETY: each list has as many numbers as a vector.
    unsafe {
        _mm512_storeu_si512(sums[0].as_mut_ptr().cast(), high);
        _mm512_storeu_si512(sums[1].as_mut_ptr().cast(), low);
    }
    let zeros = query.first_zeros;
    let part =
        |sum: __m512i, zero: i64| _mm512_cvtepi32_ps(_mm512_sub_epi32(sum, _mm512_set1_epi32(zero as i32)));
    let low = _mm512_sub_ps(part(low, zeros[1]), _mm512_set1_ps(query.first_rest));
    let sum = _mm512_fmadd_ps(part(high, zeros[0]), _mm512_set1_ps(HIGH as f32), low);
    let from = group * GROUP;
    let lists = codes.first_triples();
    // SAFETY: the lists have a number for each row of each group.
    let [inverse, along, height] =
        unsafe { [0, 1, 2].map(|list| _mm512_loadu_ps(lists[list][from..from + GROUP].as_ptr())) };
    let b = _mm512_mul_ps(_mm512_mul_ps(sum, _mm512_set1_ps(query.scale as f32)), inverse);
    let square = query.square as f32;
    // From above, as the sum may be off by some roundings of the norm.
    let rest = _mm512_fnmadd_ps(b, b, _mm512_set1_ps(square));
    let rest = _mm512_sqrt_ps(_mm512_add_ps(
        _mm512_max_ps(rest, _mm512_setzero_ps()),
        _mm512_set1_ps(2.0 * SLACK as f32 * square),
    ));
    let twice = _mm512_set1_ps(2.0);
    let base = match query.measure {
        VectorMeasure::InnerProduct => {
            // SAFETY: there is a shift for each row of each group.
            let shift = unsafe { _mm512_loadu_ps(codes.shifts()[from..from + GROUP].as_ptr()) };
            let slack = _mm512_mul_ps(_mm512_abs_ps(shift), _mm512_set1_ps(SLACK as f32));
            _mm512_mul_ps(_mm512_add_ps(shift, slack), _mm512_set1_ps(-2.0))
        }
        _ => {
            let norm = _mm512_fmadd_ps(along, along, _mm512_mul_ps(height, height));
            _mm512_mul_ps(norm, _mm512_set1_ps(1.0 - SLACK as f32))
        }
    };
    let parts = _mm512_fmadd_ps(b, along, _mm512_mul_ps(rest, height));
    let value = _mm512_fnmadd_ps(twice, parts, base);
    let limit = query.limit(nearest.range(), codes.norm_max());
    u32::from(_mm512_cmp_ps_mask::<_CMP_NGT_UQ>(value, _mm512_set1_ps(limit)))
}
