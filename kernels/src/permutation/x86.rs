//! Look-ups of a block's numbers in tables of bytes, in AVX2 and AVX-512.
//!
//! Sums of bytes are kept in pairs: one register adds words of two neighbouring bytes, another the high bytes alone; less the
//! second, moved up, the first has the sums of the low bytes. All wrap around, and the true sums fit 16 bits.

#![expect(unsafe_code, reason = "vector instructions and their loads")]

use std::arch::x86_64::*;

use super::lists::BLOCK;
use super::tables::ByteTables;

/// Whether this machine looks up bytes in tables of 128.
pub(super) fn has_wide_tables() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512vbmi")
}

/// Writes the sums of two neighbouring objects for each word.
#[inline(always)]
fn write(start: u16, even: &[u16], odd: &[u16], out: &mut [u32]) {
    for ((out, even), odd) in out.as_chunks_mut::<2>().0.iter_mut().zip(even).zip(odd) {
        *out = [u32::from(start.wrapping_add(*even)), u32::from(start.wrapping_add(*odd))];
    }
}

/// The measures of a block's objects. `numbers` are its numbers, [`BLOCK`] for each place.
///
/// # Panics
/// If this machine lacks the instructions, or the tables are not those of as many places.
pub(super) fn block_wide(tables: &ByteTables, numbers: &[u8], out: &mut [u32; BLOCK]) {
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    fn entry<const WIDTH: usize, const HIGH: bool>(
        tables: &ByteTables,
        numbers: &[u8],
        out: &mut [u32; BLOCK],
    ) {
        let zero = _mm512_setzero_si512();
        // For each 64 objects: words, their high bytes, and the sums of the tables of high bytes.
        let mut sums = [[zero; 3]; BLOCK / 64];
        let (numbers, _) = numbers.as_chunks::<BLOCK>();
        let (low, _) = tables.low.as_chunks::<WIDTH>();
        let (high, _) = tables.high.as_chunks::<WIDTH>();
        for (place, (numbers, low)) in numbers.iter().zip(low).enumerate() {
            let low = load::<WIDTH>(low);
            let high = if HIGH { load::<WIDTH>(&high[place]) } else { [zero; 4] };
            for (numbers, sums) in numbers.as_chunks::<64>().0.iter().zip(&mut sums) {
                // SAFETY: the array has 64 readable bytes.
                let numbers = unsafe { _mm512_loadu_si512(numbers.as_ptr().cast()) };
                let found = look_up::<WIDTH>(low, numbers);
                sums[0] = _mm512_add_epi16(sums[0], found);
                sums[1] = _mm512_add_epi16(sums[1], _mm512_srli_epi16::<8>(found));
                if HIGH {
                    sums[2] = _mm512_add_epi8(sums[2], look_up::<WIDTH>(high, numbers));
                }
            }
        }
        for ([words, odd, high], out) in sums.into_iter().zip(out.as_chunks_mut::<64>().0) {
            let even = _mm512_sub_epi16(words, _mm512_slli_epi16::<8>(odd));
            let even = _mm512_add_epi16(even, _mm512_slli_epi16::<8>(high));
            let odd =
                _mm512_add_epi16(odd, _mm512_and_si512(high, _mm512_set1_epi16(0xff00_u16.cast_signed())));
            let mut words = [[0_u16; 32]; 2];
            // SAFETY: each array has 64 writable bytes.
            unsafe {
                _mm512_storeu_si512(words[0].as_mut_ptr().cast(), even);
                _mm512_storeu_si512(words[1].as_mut_ptr().cast(), odd);
            }
            write(tables.start, &words[0], &words[1], out);
        }
    }
    /// A table of 128 or 256 bytes.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn load<const WIDTH: usize>(table: &[u8; WIDTH]) -> [__m512i; 4] {
        let mut loaded = [_mm512_setzero_si512(); 4];
        for (to, from) in loaded.iter_mut().zip(table.as_chunks::<64>().0) {
            // SAFETY: the array has 64 readable bytes.
            *to = unsafe { _mm512_loadu_si512(from.as_ptr().cast()) };
        }
        loaded
    }
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    fn look_up<const WIDTH: usize>(table: [__m512i; 4], numbers: __m512i) -> __m512i {
        let low = _mm512_permutex2var_epi8(table[0], numbers, table[1]);
        if WIDTH == 128 {
            return low;
        }
        let high = _mm512_permutex2var_epi8(table[2], numbers, table[3]);
        _mm512_mask_blend_epi8(_mm512_movepi8_mask(numbers), low, high)
    }
    assert!(has_wide_tables());
    check(tables, numbers);
    // SAFETY: the lines above checked the features.
    unsafe {
        match (tables.width, tables.high.is_empty()) {
            (128, true) => entry::<128, false>(tables, numbers, out),
            (128, false) => entry::<128, true>(tables, numbers, out),
            (_, true) => entry::<256, false>(tables, numbers, out),
            (_, false) => entry::<256, true>(tables, numbers, out),
        }
    }
}

fn check(tables: &ByteTables, numbers: &[u8]) {
    let places = numbers.len() / BLOCK;
    assert!(tables.low.len() == places * tables.width, "a table for each place");
    assert!(tables.high.is_empty() || tables.high.len() == tables.low.len(), "a second one for each place");
}

/// As [`block_wide`], for tables of at most 128 numbers, by shuffles of 16.
///
/// # Panics
/// As [`block_wide`], and if there are more pivots.
pub(super) fn block_avx2(tables: &ByteTables, numbers: &[u8], out: &mut [u32; BLOCK]) {
    /// Objects whose sums stay in registers.
    const AT_ONCE: usize = 64;
    #[target_feature(enable = "avx2")]
    fn entry<const HIGH: bool>(tables: &ByteTables, numbers: &[u8], out: &mut [u32; BLOCK]) {
        let zero = _mm256_setzero_si256();
        let (low, _) = tables.low.as_chunks::<128>();
        let (high, _) = tables.high.as_chunks::<128>();
        for (part, out) in out.as_chunks_mut::<AT_ONCE>().0.iter_mut().enumerate() {
            let mut sums = [[zero; 3]; AT_ONCE / 32];
            for (place, (numbers, low)) in numbers.as_chunks::<BLOCK>().0.iter().zip(low).enumerate() {
                let numbers = &numbers.as_chunks::<AT_ONCE>().0[part];
                for (numbers, sums) in numbers.as_chunks::<32>().0.iter().zip(&mut sums) {
                    // SAFETY: the array has 32 readable bytes.
                    let numbers = unsafe { _mm256_loadu_si256(numbers.as_ptr().cast()) };
                    let found = look_up(low, numbers);
                    sums[0] = _mm256_add_epi16(sums[0], found);
                    sums[1] = _mm256_add_epi16(sums[1], _mm256_srli_epi16::<8>(found));
                    if HIGH {
                        sums[2] = _mm256_add_epi8(sums[2], look_up(&high[place], numbers));
                    }
                }
            }
            for ([words, odd, high], out) in sums.into_iter().zip(out.as_chunks_mut::<32>().0) {
                let even = _mm256_sub_epi16(words, _mm256_slli_epi16::<8>(odd));
                let even = _mm256_add_epi16(even, _mm256_slli_epi16::<8>(high));
                let odd = _mm256_add_epi16(
                    odd,
                    _mm256_and_si256(high, _mm256_set1_epi16(0xff00_u16.cast_signed())),
                );
                let mut words = [[0_u16; 16]; 2];
                // SAFETY: each array has 32 writable bytes.
                unsafe {
                    _mm256_storeu_si256(words[0].as_mut_ptr().cast(), even);
                    _mm256_storeu_si256(words[1].as_mut_ptr().cast(), odd);
                }
                write(tables.start, &words[0], &words[1], out);
            }
        }
    }
    /// Each of the eight shuffles finds the number of its own 16; bits 4, 5 and 6 choose among them.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn look_up(table: &[u8; 128], numbers: __m256i) -> __m256i {
        let mut found = [_mm256_setzero_si256(); 8];
        for (found, table) in found.iter_mut().zip(table.as_chunks::<16>().0) {
            // SAFETY: the array has 16 readable bytes.
            let table = unsafe { _mm_loadu_si128(table.as_ptr().cast()) };
            *found = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(table), numbers);
        }
        let bits = [
            _mm256_slli_epi16::<3>(numbers),
            _mm256_slli_epi16::<2>(numbers),
            _mm256_slli_epi16::<1>(numbers),
        ];
        let by_four = [0, 2, 4, 6].map(|i| _mm256_blendv_epi8(found[i], found[i + 1], bits[0]));
        let low = _mm256_blendv_epi8(by_four[0], by_four[1], bits[1]);
        let high = _mm256_blendv_epi8(by_four[2], by_four[3], bits[1]);
        _mm256_blendv_epi8(low, high, bits[2])
    }
    assert!(is_x86_feature_detected!("avx2"));
    assert_eq!(tables.width, 128, "at most 128 pivots");
    check(tables, numbers);
    // SAFETY: the lines above checked the feature.
    unsafe {
        match tables.high.is_empty() {
            true => entry::<false>(tables, numbers, out),
            false => entry::<true>(tables, numbers, out),
        }
    }
}
