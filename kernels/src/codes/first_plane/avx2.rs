//! The sums of a group in AVX2, alone and with VNNI, and the rows that pass: two vectors of eight rows.

use std::arch::x86_64::*;

use super::super::nearest::CodeNearest;
use super::super::query::{CodeQuery, HIGH};
use super::super::{Codes, GROUP, SLACK};
use super::Words;
use crate::vector::VectorMeasure;

/// Rows of a vector, and vectors of a group.
const LANES: usize = 8;
const VECTORS: usize = GROUP / LANES;
/// Words of a plane whose products are summed in 16 bits: two products of a number below 31 and a weight of eight bits are below
/// 2^13, and two halves of two words add four such sums.
const WORDS_AT_ONCE: usize = 2;
const _: () = assert!(30 * 128 * 2 * 2 * WORDS_AT_ONCE < 1 << 15);

/// The sums of the high and of the low bytes of weights, in lanes of rows.
type Totals = [[__m256i; VECTORS]; 2];

/// The sums of a group of numbers of 4 bits, and the rows that pass.
#[target_feature(enable = "avx2,fma")]
pub(super) fn pass(
    codes: &Codes,
    query: &CodeQuery,
    words: &Words,
    group: usize,
    nearest: &CodeNearest,
    sums: &mut [[i32; GROUP]; 2],
) -> u32 {
    let totals = numbers(codes.group(group), words);
    passes(codes, query, group, nearest, totals, sums)
}

/// The sums of a group, and the rows that pass.
#[target_feature(enable = "avx2,fma,avxvnni")]
pub(super) fn pass_vnni(
    codes: &Codes,
    query: &CodeQuery,
    words: &Words,
    group: usize,
    nearest: &CodeNearest,
    sums: &mut [[i32; GROUP]; 2],
) -> u32 {
    let totals = match words.fields.is_empty() {
        true => numbers_vnni(codes.group(group), words),
        false => fields_vnni(codes.group(group), words),
    };
    passes(codes, query, group, nearest, totals, sums)
}

/// The totals of numbers of 4 bits, doubled.
#[target_feature(enable = "avx2,fma")]
fn numbers(group: &[u32], words: &Words) -> Totals {
    let (mask, ones) = (_mm256_set1_epi8(0x1e), _mm256_set1_epi16(1));
    let mut totals = [[_mm256_setzero_si256(); VECTORS]; 2];
    let (rows, _) = group.as_chunks::<GROUP>();
    for (first, rows) in (0..).step_by(WORDS_AT_ONCE).zip(rows.chunks(WORDS_AT_ONCE)) {
        let mut parts = [[_mm256_setzero_si256(); VECTORS]; 2];
        for (place, rows) in (first..).zip(rows) {
            for (vector, eight) in rows.as_chunks::<LANES>().0.iter().enumerate() {
                // SAFETY: the words are as many as a vector has.
                let rows = unsafe { _mm256_loadu_si256(eight.as_ptr().cast()) };
                let halves = [
                    _mm256_and_si256(_mm256_slli_epi32::<1>(rows), mask),
                    _mm256_and_si256(_mm256_srli_epi32::<3>(rows), mask),
                ];
                for (half, numbers) in halves.into_iter().enumerate() {
                    for (part, weights) in parts.iter_mut().zip([&words.high, &words.low]) {
                        let weights = _mm256_set1_epi32(weights[2 * place + half]);
                        let products = _mm256_maddubs_epi16(numbers, weights);
                        part[vector] = _mm256_add_epi16(part[vector], products);
                    }
                }
            }
        }
        for (totals, parts) in totals.iter_mut().zip(parts) {
            for (total, part) in totals.iter_mut().zip(parts) {
                *total = _mm256_add_epi32(*total, _mm256_madd_epi16(part, ones));
            }
        }
    }
    totals
}

/// As [`numbers`]. Halves of words have sums of their own, as a product waits for the sum that it is added to.
#[target_feature(enable = "avx2,fma,avxvnni")]
fn numbers_vnni(group: &[u32], words: &Words) -> Totals {
    let mask = _mm256_set1_epi8(0x1e);
    let mut parts = [[[_mm256_setzero_si256(); VECTORS]; 2]; 2];
    for (place, rows) in group.as_chunks::<GROUP>().0.iter().enumerate() {
        for (vector, eight) in rows.as_chunks::<LANES>().0.iter().enumerate() {
            // SAFETY: the words are as many as a vector has.
            let rows = unsafe { _mm256_loadu_si256(eight.as_ptr().cast()) };
            let halves = [
                _mm256_and_si256(_mm256_slli_epi32::<1>(rows), mask),
                _mm256_and_si256(_mm256_srli_epi32::<3>(rows), mask),
            ];
            for (half, numbers) in halves.into_iter().enumerate() {
                for (sums, weights) in parts[half].iter_mut().zip([&words.high, &words.low]) {
                    let weights = _mm256_set1_epi32(weights[2 * place + half]);
                    sums[vector] = _mm256_dpbusd_avx_epi32(sums[vector], numbers, weights);
                }
            }
        }
    }
    joined(parts)
}

/// The totals of fields.
#[target_feature(enable = "avx2,fma,avxvnni")]
fn fields_vnni(group: &[u32], words: &Words) -> Totals {
    let mut parts = [[[_mm256_setzero_si256(); VECTORS]; 2]; 2];
    for (rows, fields) in group.as_chunks::<GROUP>().0.iter().zip(&words.fields) {
        for (vector, eight) in rows.as_chunks::<LANES>().0.iter().enumerate() {
            // SAFETY: the words are as many as a vector has.
            let rows = unsafe { _mm256_loadu_si256(eight.as_ptr().cast()) };
            for (place, [mask, upper, lower]) in fields.iter().enumerate() {
                let numbers = _mm256_and_si256(rows, _mm256_set1_epi32(*mask));
                for (sums, weights) in parts[place % 2].iter_mut().zip([upper, lower]) {
                    let weights = _mm256_set1_epi32(*weights);
                    sums[vector] = _mm256_dpbusd_avx_epi32(sums[vector], numbers, weights);
                }
            }
        }
    }
    joined(parts)
}

#[target_feature(enable = "avx2")]
fn joined([first, second]: [Totals; 2]) -> Totals {
    let mut totals = first;
    for (totals, parts) in totals.iter_mut().zip(second) {
        for (total, part) in totals.iter_mut().zip(parts) {
            *total = _mm256_add_epi32(*total, part);
        }
    }
    totals
}

/// Stores the totals of a group as its sums, and finds the rows that pass.
#[target_feature(enable = "avx2,fma")]
fn passes(
    codes: &Codes,
    query: &CodeQuery,
    group: usize,
    nearest: &CodeNearest,
    totals: Totals,
    sums: &mut [[i32; GROUP]; 2],
) -> u32 {
    for (sums, totals) in sums.iter_mut().zip(totals) {
        for (sums, total) in sums.as_chunks_mut::<LANES>().0.iter_mut().zip(totals) {
            // SAFETY: the list has as many numbers as a vector.
            unsafe { _mm256_storeu_si256(sums.as_mut_ptr().cast(), total) };
        }
    }
    let limit = query.limit(nearest.range(), codes.norm_max());
    let mut passes = 0;
    let [high, low] = totals;
    for (first, sums) in (0..).step_by(LANES).zip(high.into_iter().zip(low)) {
        passes |= within(codes, query, sums.into(), group * GROUP + first, limit) << first;
    }
    passes
}

/// Those of eight rows whose lower bounds are not beyond the limit.
#[target_feature(enable = "avx2,fma")]
fn within(codes: &Codes, query: &CodeQuery, sums: [__m256i; 2], from: usize, limit: f32) -> u32 {
    let of = _mm256_set1_ps;
    let zeros = query.first_zeros;
    let part =
        |sum: __m256i, zero: i64| _mm256_cvtepi32_ps(_mm256_sub_epi32(sum, _mm256_set1_epi32(zero as i32)));
    let low = _mm256_sub_ps(part(sums[1], zeros[1]), of(query.first_rest));
    let sum = _mm256_fmadd_ps(part(sums[0], zeros[0]), of(HIGH as f32), low);
    let lists = codes.first_triples();
    // SAFETY: the lists have a number for each row of each group.
    let [inverse, along, height] =
        [0, 1, 2].map(|list| unsafe { _mm256_loadu_ps(lists[list][from..from + LANES].as_ptr()) });
    let b = _mm256_mul_ps(_mm256_mul_ps(sum, of(query.scale as f32)), inverse);
    let square = query.square as f32;
    // From above, as the sum may be off by some roundings of the norm.
    let rest = _mm256_max_ps(_mm256_fnmadd_ps(b, b, of(square)), _mm256_setzero_ps());
    let rest = _mm256_sqrt_ps(_mm256_add_ps(rest, of(2.0 * SLACK as f32 * square)));
    let base = match query.measure {
        VectorMeasure::InnerProduct => {
            // SAFETY: there is a shift for each row of each group.
            let shift = unsafe { _mm256_loadu_ps(codes.shifts()[from..from + LANES].as_ptr()) };
            let size = _mm256_andnot_ps(of(-0.0), shift);
            _mm256_mul_ps(_mm256_add_ps(shift, _mm256_mul_ps(size, of(SLACK as f32))), of(-2.0))
        }
        _ => {
            let norm = _mm256_fmadd_ps(along, along, _mm256_mul_ps(height, height));
            _mm256_mul_ps(norm, of(1.0 - SLACK as f32))
        }
    };
    let parts = _mm256_fmadd_ps(b, along, _mm256_mul_ps(rest, height));
    let value = _mm256_fnmadd_ps(of(2.0), parts, base);
    _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_NGT_UQ>(value, of(limit))).cast_unsigned()
}
