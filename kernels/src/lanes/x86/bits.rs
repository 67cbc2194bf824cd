//! The operations on bits in AVX2 and AVX-512.

use std::arch::x86_64::*;

use super::{Avx2, Avx512};
use crate::bits::Bits;

/// The truth tables of three operands, whose columns are 0xf0, 0xcc and 0xaa.
const A: i32 = 0xf0;
const B: i32 = 0xcc;
const C: i32 = 0xaa;

/// Bits of eight lanes.
const LANE_BITS: [i32; 8] = [1, 2, 4, 8, 16, 32, 64, 128];

impl Bits for Avx2 {
    const BIT_WORDS: usize = 4;
    const BIT_ROWS: usize = 4;
    type B = __m256i;

    #[inline(always)]
    fn bits(self, from: &[u64]) -> __m256i {
        let from: &[u64; 4] = from.first_chunk().expect("a whole vector");
        // SAFETY: self proves AVX, and the reference four readable words.
        unsafe { _mm256_loadu_si256(from.as_ptr().cast()) }
    }
    #[inline(always)]
    fn store_bits(self, x: __m256i, to: &mut [u64]) {
        let to: &mut [u64; 4] = to.first_chunk_mut().expect("a whole vector");
        // SAFETY: self proves AVX, and the reference four writable words.
        unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), x) }
    }
    #[inline(always)]
    fn and(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: self proves AVX2.
        unsafe { _mm256_and_si256(a, b) }
    }
    #[inline(always)]
    fn or(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: self proves AVX2.
        unsafe { _mm256_or_si256(a, b) }
    }
    #[inline(always)]
    fn xor(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: self proves AVX2.
        unsafe { _mm256_xor_si256(a, b) }
    }
    #[inline(always)]
    fn and_not(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: self proves AVX2.
        unsafe { _mm256_andnot_si256(a, b) }
    }
    #[inline(always)]
    fn add_words(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: self proves AVX2.
        unsafe { _mm256_add_epi64(a, b) }
    }
    #[inline(always)]
    fn top_bits(self, a: __m256i) -> __m256i {
        // SAFETY: self proves AVX2.
        unsafe { _mm256_srli_epi64::<63>(a) }
    }
    #[inline(always)]
    fn tops(self, a: __m256i) -> u32 {
        // SAFETY: self proves AVX.
        unsafe { _mm256_movemask_pd(_mm256_castsi256_pd(a)).cast_unsigned() }
    }
    #[inline(always)]
    fn next_lane(self, a: __m256i, before: __m256i) -> __m256i {
        // SAFETY: self proves AVX2.
        unsafe { _mm256_alignr_epi8::<8>(a, _mm256_permute2x128_si256::<0x21>(before, a)) }
    }
    #[inline(always)]
    fn word(self, word: &u64) -> __m256i {
        // SAFETY: self proves AVX.
        unsafe { _mm256_set1_epi64x(word.cast_signed()) }
    }
    #[inline(always)]
    fn equal(self, bytes: &[u8; 64], code: u8) -> u64 {
        equal(bytes, code)
    }
    #[inline(always)]
    fn add_planes(self, planes: &[u64], to: &mut [u32; 64]) {
        for (eight, to) in to.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            // SAFETY: self proves AVX2, and the reference eight readable numbers.
            let mut sum = unsafe { _mm256_loadu_si256(to.as_ptr().cast()) };
            for (plane, bits) in planes.iter().enumerate() {
                let byte = (bits >> (8 * eight)) as i32 & 0xff;
                // SAFETY: self proves AVX2, and the reference eight readable numbers.
                unsafe {
                    let lane = _mm256_loadu_si256(LANE_BITS.as_ptr().cast());
                    let is_set = _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32(byte), lane), lane);
                    sum = _mm256_add_epi32(sum, _mm256_and_si256(is_set, _mm256_set1_epi32(1 << plane)));
                }
            }
            // SAFETY: self proves AVX2, and the reference eight writable numbers.
            unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), sum) }
        }
    }
}

/// A bit for each byte that is `code`.
#[inline(always)]
fn equal(bytes: &[u8; 64], code: u8) -> u64 {
    // SAFETY: every caller's self proves AVX2, and the reference 64 readable bytes.
    unsafe {
        let code = _mm256_set1_epi8(code.cast_signed());
        let low = _mm256_cmpeq_epi8(_mm256_loadu_si256(bytes.as_ptr().cast()), code);
        let high = _mm256_cmpeq_epi8(_mm256_loadu_si256(bytes.as_ptr().add(32).cast()), code);
        let [low, high] = [low, high].map(|half| u64::from(_mm256_movemask_epi8(half).cast_unsigned()));
        low | high << 32
    }
}

impl Bits for Avx512 {
    const BIT_WORDS: usize = 8;
    const BIT_ROWS: usize = 8;
    type B = __m512i;

    #[inline(always)]
    fn bits(self, from: &[u64]) -> __m512i {
        let from: &[u64; 8] = from.first_chunk().expect("a whole vector");
        // SAFETY: self proves AVX-512 F, and the reference eight readable words.
        unsafe { _mm512_loadu_si512(from.as_ptr().cast()) }
    }
    #[inline(always)]
    fn store_bits(self, x: __m512i, to: &mut [u64]) {
        let to: &mut [u64; 8] = to.first_chunk_mut().expect("a whole vector");
        // SAFETY: self proves AVX-512 F, and the reference eight writable words.
        unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), x) }
    }
    #[inline(always)]
    fn and(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: self proves AVX-512 F.
        unsafe { _mm512_and_si512(a, b) }
    }
    #[inline(always)]
    fn or(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: self proves AVX-512 F.
        unsafe { _mm512_or_si512(a, b) }
    }
    #[inline(always)]
    fn xor(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: self proves AVX-512 F.
        unsafe { _mm512_xor_si512(a, b) }
    }
    #[inline(always)]
    fn and_not(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: self proves AVX-512 F.
        unsafe { _mm512_andnot_si512(a, b) }
    }
    #[inline(always)]
    fn add_words(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: self proves AVX-512 F.
        unsafe { _mm512_add_epi64(a, b) }
    }
    #[inline(always)]
    fn top_bits(self, a: __m512i) -> __m512i {
        // SAFETY: self proves AVX-512 F.
        unsafe { _mm512_srli_epi64::<63>(a) }
    }
    #[inline(always)]
    fn tops(self, a: __m512i) -> u32 {
        // SAFETY: self proves AVX-512 DQ.
        unsafe { u32::from(_mm512_movepi64_mask(a)) }
    }
    #[inline(always)]
    fn next_lane(self, a: __m512i, before: __m512i) -> __m512i {
        // SAFETY: self proves AVX-512 F.
        unsafe { _mm512_alignr_epi64::<7>(a, before) }
    }
    #[inline(always)]
    fn word(self, word: &u64) -> __m512i {
        // SAFETY: self proves AVX-512 F.
        unsafe { _mm512_set1_epi64(word.cast_signed()) }
    }
    #[inline(always)]
    fn equal(self, bytes: &[u8; 64], code: u8) -> u64 {
        equal(bytes, code)
    }
    #[inline(always)]
    fn add_planes(self, planes: &[u64], to: &mut [u32; 64]) {
        for (part, to) in to.as_chunks_mut::<16>().0.iter_mut().enumerate() {
            // SAFETY: self proves AVX-512 F, and the reference sixteen readable numbers.
            let mut sum = unsafe { _mm512_loadu_si512(to.as_ptr().cast()) };
            for (plane, bits) in planes.iter().enumerate() {
                let lanes = (bits >> (16 * part)) as u16;
                // SAFETY: self proves AVX-512 F.
                sum = unsafe { _mm512_mask_add_epi32(sum, lanes, sum, _mm512_set1_epi32(1 << plane)) };
            }
            // SAFETY: self proves AVX-512 F, and the reference sixteen writable numbers.
            unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), sum) }
        }
    }
    #[inline(always)]
    fn full_add(self, a: __m512i, b: __m512i, c: __m512i) -> [__m512i; 2] {
        // SAFETY: self proves AVX-512 F.
        unsafe {
            [
                _mm512_ternarylogic_epi64::<{ A ^ B ^ C }>(a, b, c),
                _mm512_ternarylogic_epi64::<{ A & B | A & C | B & C }>(a, b, c),
            ]
        }
    }
    #[inline(always)]
    fn cell(
        self,
        differ: __m512i,
        [rise, fall]: [__m512i; 2],
        [right, back]: [__m512i; 2],
    ) -> ([__m512i; 2], [__m512i; 2]) {
        // SAFETY: self proves AVX-512 F.
        unsafe {
            let costly = _mm512_ternarylogic_epi64::<{ A & !(B | C) & 0xff }>(differ, fall, back);
            let vertical = [
                _mm512_ternarylogic_epi64::<{ (A | B & !C) & 0xff }>(back, costly, right),
                _mm512_andnot_si512(costly, right),
            ];
            let horizontal = [
                _mm512_ternarylogic_epi64::<{ (A | B & !C) & 0xff }>(fall, costly, rise),
                _mm512_andnot_si512(costly, rise),
            ];
            (vertical, horizontal)
        }
    }
}
