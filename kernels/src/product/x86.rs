//! The loops over groups of codes in AVX2 and AVX-512.
//!
//! Sums of bytes are kept in pairs: one register adds words of two neighbouring bytes, another the high bytes alone; less the
//! second, moved up, the first has the sums of the low bytes. All wrap around, and the true sums fit 16 bits.

#![expect(unsafe_code, reason = "vector instructions and their loads")]

use std::arch::x86_64::*;

use super::codes::GROUP;

/// Whether this machine shuffles bytes within 512 bits.
pub(super) fn has_wide_shuffles() -> bool {
    is_x86_feature_detected!("avx512bw")
}

/// Whether this machine looks up bytes in tables of 128.
pub(super) fn has_wide_tables() -> bool {
    has_wide_shuffles() && is_x86_feature_detected!("avx512vbmi")
}

/// Whether it also sums products of bytes by fours.
pub(super) fn has_dot_tables() -> bool {
    has_wide_tables() && is_x86_feature_detected!("avx512vnni")
}

/// Bytes of a group for one part of 4 bits.
const PART_BYTES: usize = GROUP / 2;

/// The groups of 4-bit codes with rows whose sums of `tables` are at most their limits: those of one group for each group, or of one for
/// all.
pub(super) fn within_4_avx2(
    tables: &[u8],
    bytes: &[u8],
    limits: &[[u16; GROUP]],
    found: &mut Vec<(u32, u32)>,
) {
    #[target_feature(enable = "avx2")]
    fn entry(tables: &[u8], bytes: &[u8], limits: &[[u16; GROUP]], found: &mut Vec<(u32, u32)>) {
        let nibble = _mm256_set1_epi8(15);
        for (group, bytes) in bytes.chunks_exact(tables.len()).enumerate() {
            // For rows 0 to 15 and for rows 16 to 31: words, and their high bytes.
            let mut sums = [_mm256_setzero_si256(); 4];
            let (bytes, _) = bytes.as_chunks::<{ 2 * PART_BYTES }>();
            let (tables, _) = tables.as_chunks::<{ 2 * PART_BYTES }>();
            for (codes, table) in bytes.iter().zip(tables) {
                // SAFETY: both arrays have 32 readable bytes.
                let (codes, table) = unsafe {
                    (_mm256_loadu_si256(codes.as_ptr().cast()), _mm256_loadu_si256(table.as_ptr().cast()))
                };
                let low = _mm256_shuffle_epi8(table, _mm256_and_si256(codes, nibble));
                let high =
                    _mm256_shuffle_epi8(table, _mm256_and_si256(_mm256_srli_epi16::<4>(codes), nibble));
                sums[0] = _mm256_add_epi16(sums[0], low);
                sums[1] = _mm256_add_epi16(sums[1], _mm256_srli_epi16::<8>(low));
                sums[2] = _mm256_add_epi16(sums[2], high);
                sums[3] = _mm256_add_epi16(sums[3], _mm256_srli_epi16::<8>(high));
            }
            let mut rows = 0u32;
            let (of_group, _) = limits[group % limits.len()].as_chunks::<{ GROUP / 2 }>();
            for half in 0..2 {
                // SAFETY: the array has 16 readable numbers of 2 bytes.
                let limits = unsafe { _mm256_loadu_si256(of_group[half].as_ptr().cast()) };
                let odd = sums[2 * half + 1];
                let even = _mm256_sub_epi16(sums[2 * half], _mm256_slli_epi16::<8>(odd));
                // The two halves of a register hold different parts of the same rows.
                let even = _mm_add_epi16(_mm256_castsi256_si128(even), _mm256_extracti128_si256::<1>(even));
                let odd = _mm_add_epi16(_mm256_castsi256_si128(odd), _mm256_extracti128_si256::<1>(odd));
                let in_order = _mm256_set_m128i(_mm_unpackhi_epi16(even, odd), _mm_unpacklo_epi16(even, odd));
                let is_within = _mm256_cmpeq_epi16(_mm256_min_epu16(in_order, limits), in_order);
                // Words to bytes: rows 0 to 7 are in the low half, rows 8 to 15 in the high one.
                let packed = _mm_packs_epi16(
                    _mm256_castsi256_si128(is_within),
                    _mm256_extracti128_si256::<1>(is_within),
                );
                rows |= (_mm_movemask_epi8(packed) as u32) << (16 * half);
            }
            if rows != 0 {
                found.push((group as u32, rows));
            }
        }
    }
    assert!(is_x86_feature_detected!("avx2"));
    // SAFETY: the line above checked the feature.
    unsafe { entry(tables, bytes, limits, found) }
}

/// As [`within_4_avx2`], with sums of bytes that stay at 255 where they are beyond: a limit of 255 is one that all rows keep.
pub(super) fn within_4_in_bytes(
    tables: &[u8],
    bytes: &[u8],
    limits: &[[u16; GROUP]],
    found: &mut Vec<(u32, u32)>,
) {
    #[target_feature(enable = "avx2")]
    fn entry(tables: &[u8], bytes: &[u8], limits: &[[u16; GROUP]], found: &mut Vec<(u32, u32)>) {
        let (nibble, most) = (_mm256_set1_epi8(15), _mm256_set1_epi16(255));
        let mut of_rows = _mm256_setzero_si256();
        for (group, bytes) in bytes.chunks_exact(tables.len()).enumerate() {
            // For rows 0 to 15 and for rows 16 to 31; the halves of a register hold different parts of the same rows.
            let mut sums = [_mm256_setzero_si256(); 2];
            let (bytes, _) = bytes.as_chunks::<{ 2 * PART_BYTES }>();
            let (tables, _) = tables.as_chunks::<{ 2 * PART_BYTES }>();
            for (codes, table) in bytes.iter().zip(tables) {
                // SAFETY: both arrays have 32 readable bytes.
                let (codes, table) = unsafe {
                    (_mm256_loadu_si256(codes.as_ptr().cast()), _mm256_loadu_si256(table.as_ptr().cast()))
                };
                let low = _mm256_shuffle_epi8(table, _mm256_and_si256(codes, nibble));
                let high =
                    _mm256_shuffle_epi8(table, _mm256_and_si256(_mm256_srli_epi16::<4>(codes), nibble));
                sums[0] = _mm256_adds_epu8(sums[0], low);
                sums[1] = _mm256_adds_epu8(sums[1], high);
            }
            if group < limits.len() {
                let (of_group, _) = limits[group].as_chunks::<{ GROUP / 2 }>();
                // SAFETY: the arrays have 16 readable numbers of 2 bytes.
                let words = [0, 1].map(|half: usize| unsafe {
                    _mm256_min_epu16(_mm256_loadu_si256(of_group[half].as_ptr().cast()), most)
                });
                // Packing takes 8 numbers of each half in turns.
                of_rows = _mm256_permute4x64_epi64::<0xd8>(_mm256_packus_epi16(words[0], words[1]));
            }
            let halves = [
                _mm256_permute2x128_si256::<0x20>(sums[0], sums[1]),
                _mm256_permute2x128_si256::<0x31>(sums[0], sums[1]),
            ];
            let sums = _mm256_adds_epu8(halves[0], halves[1]);
            let is_within = _mm256_cmpeq_epi8(_mm256_min_epu8(sums, of_rows), sums);
            let rows = _mm256_movemask_epi8(is_within).cast_unsigned();
            if rows != 0 {
                found.push((group as u32, rows));
            }
        }
    }
    assert!(is_x86_feature_detected!("avx2"));
    // SAFETY: the line above checked the feature.
    unsafe { entry(tables, bytes, limits, found) }
}

/// As [`within_4_avx2`], with four parts in a register.
pub(super) fn within_4_avx512(
    tables: &[u8],
    bytes: &[u8],
    limits: &[[u16; GROUP]],
    found: &mut Vec<(u32, u32)>,
) {
    #[target_feature(enable = "avx2,avx512f,avx512bw")]
    fn entry(tables: &[u8], bytes: &[u8], limits: &[[u16; GROUP]], found: &mut Vec<(u32, u32)>) {
        let nibble = _mm512_set1_epi8(15);
        for (group, bytes) in bytes.chunks_exact(tables.len()).enumerate() {
            let mut sums = [_mm512_setzero_si512(); 4];
            let (bytes, _) = bytes.as_chunks::<{ 4 * PART_BYTES }>();
            let (tables, _) = tables.as_chunks::<{ 4 * PART_BYTES }>();
            for (codes, table) in bytes.iter().zip(tables) {
                // SAFETY: both arrays have 64 readable bytes.
                let (codes, table) = unsafe {
                    (_mm512_loadu_si512(codes.as_ptr().cast()), _mm512_loadu_si512(table.as_ptr().cast()))
                };
                let low = _mm512_shuffle_epi8(table, _mm512_and_si512(codes, nibble));
                let high =
                    _mm512_shuffle_epi8(table, _mm512_and_si512(_mm512_srli_epi16::<4>(codes), nibble));
                sums[0] = _mm512_add_epi16(sums[0], low);
                sums[1] = _mm512_add_epi16(sums[1], _mm512_srli_epi16::<8>(low));
                sums[2] = _mm512_add_epi16(sums[2], high);
                sums[3] = _mm512_add_epi16(sums[3], _mm512_srli_epi16::<8>(high));
            }
            let mut rows = 0u32;
            let (of_group, _) = limits[group % limits.len()].as_chunks::<{ GROUP / 2 }>();
            for half in 0..2 {
                // SAFETY: the array has 16 readable numbers of 2 bytes.
                let limits = unsafe { _mm256_loadu_si256(of_group[half].as_ptr().cast()) };
                let odd = sums[2 * half + 1];
                let even = _mm512_sub_epi16(sums[2 * half], _mm512_slli_epi16::<8>(odd));
                let fold = |x| {
                    let x = _mm256_add_epi16(_mm512_castsi512_si256(x), _mm512_extracti64x4_epi64::<1>(x));
                    _mm_add_epi16(_mm256_castsi256_si128(x), _mm256_extracti128_si256::<1>(x))
                };
                let (even, odd) = (fold(even), fold(odd));
                let in_order = _mm256_set_m128i(_mm_unpackhi_epi16(even, odd), _mm_unpacklo_epi16(even, odd));
                let is_within = _mm256_cmpeq_epi16(_mm256_min_epu16(in_order, limits), in_order);
                let packed = _mm_packs_epi16(
                    _mm256_castsi256_si128(is_within),
                    _mm256_extracti128_si256::<1>(is_within),
                );
                rows |= (_mm_movemask_epi8(packed) as u32) << (16 * half);
            }
            if rows != 0 {
                found.push((group as u32, rows));
            }
        }
    }
    assert!(is_x86_feature_detected!("avx2") && has_wide_shuffles());
    // SAFETY: the line above checked the features; AVX-512 BW is there only with F.
    unsafe { entry(tables, bytes, limits, found) }
}

/// As [`within_4_avx2`], with the numbers of four parts of a row side by side: their products with ones are summed in one step,
/// and the sums lie in the order of the rows.
pub(super) fn within_4_dot(
    tables: &[u8],
    bytes: &[u8],
    limits: &[[u16; GROUP]],
    found: &mut Vec<(u32, u32)>,
) {
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi,avx512vnni")]
    fn entry(tables: &[u8], bytes: &[u8], limits: &[[u16; GROUP]], found: &mut Vec<(u32, u32)>) {
        let (nibble, ones) = (_mm512_set1_epi8(15), _mm512_set1_epi8(1));
        // Byte `4 row + part` of what is looked up is byte `16 part + row` of the codes; the table of a part has 16 bytes.
        let by_row: [u8; 64] = std::array::from_fn(|at| (at % 4 * 16 + at / 4) as u8);
        let tables_of = _mm512_set1_epi32(0x3020_1000);
        // SAFETY: the array has 64 readable bytes.
        let by_row = unsafe { _mm512_loadu_si512(by_row.as_ptr().cast()) };
        let (tables, _) = tables.as_chunks::<{ 4 * PART_BYTES }>();
        let mut limits_of = [_mm512_setzero_si512(); 2];
        for (group, bytes) in bytes.chunks_exact(tables.len() * 4 * PART_BYTES).enumerate() {
            let (bytes, _) = bytes.as_chunks::<{ 4 * PART_BYTES }>();
            let mut sums = [_mm512_setzero_si512(); 2];
            for (codes, table) in bytes.iter().zip(tables) {
                // SAFETY: both arrays have 64 readable bytes.
                let (codes, table) = unsafe {
                    (_mm512_loadu_si512(codes.as_ptr().cast()), _mm512_loadu_si512(table.as_ptr().cast()))
                };
                let codes = _mm512_permutexvar_epi8(by_row, codes);
                // The bits of the first that are in the second, and those of the third.
                let low = _mm512_ternarylogic_epi32::<0xea>(codes, nibble, tables_of);
                let high =
                    _mm512_ternarylogic_epi32::<0xea>(_mm512_srli_epi16::<4>(codes), nibble, tables_of);
                sums[0] = _mm512_dpbusd_epi32(sums[0], _mm512_permutexvar_epi8(low, table), ones);
                sums[1] = _mm512_dpbusd_epi32(sums[1], _mm512_permutexvar_epi8(high, table), ones);
            }
            if group < limits.len() {
                let (of_group, _) = limits[group].as_chunks::<{ GROUP / 2 }>();
                for (to, of_half) in limits_of.iter_mut().zip(of_group) {
                    // SAFETY: the array has 16 readable numbers of 2 bytes.
                    *to = _mm512_cvtepu16_epi32(unsafe { _mm256_loadu_si256(of_half.as_ptr().cast()) });
                }
            }
            let low = _mm512_cmple_epu32_mask(sums[0], limits_of[0]);
            let high = _mm512_cmple_epu32_mask(sums[1], limits_of[1]);
            let rows = u32::from(low) | u32::from(high) << (GROUP / 2);
            if rows != 0 {
                found.push((group as u32, rows));
            }
        }
    }
    assert!(has_dot_tables());
    // SAFETY: the line above checked the features; AVX-512 BW is there only with F.
    unsafe { entry(tables, bytes, limits, found) }
}

/// Adds the numbers of 4-bit codes to the sums of a group, in the order of the parts: the table of a part is one register.
pub(super) fn sum_4_avx512(tables: &[f32], bytes: &[u8], sums: &mut [f32; GROUP]) {
    #[target_feature(enable = "avx512f")]
    fn entry(tables: &[f32], bytes: &[u8], sums: &mut [f32; GROUP]) {
        let (low, high) = sums.split_at_mut(PART_BYTES);
        // SAFETY: both halves have 16 readable numbers.
        let (mut low_sums, mut high_sums) =
            unsafe { (_mm512_loadu_ps(low.as_ptr()), _mm512_loadu_ps(high.as_ptr())) };
        for (codes, table) in bytes.as_chunks::<PART_BYTES>().0.iter().zip(tables.as_chunks::<16>().0) {
            // SAFETY: the arrays have 16 readable bytes and 16 readable numbers.
            let (codes, table) =
                unsafe { (_mm_loadu_si128(codes.as_ptr().cast()), _mm512_loadu_ps(table.as_ptr())) };
            // The look-up reads the low four bits of each number.
            let codes = _mm512_cvtepu8_epi32(codes);
            low_sums = _mm512_add_ps(low_sums, _mm512_permutexvar_ps(codes, table));
            let codes = _mm512_srli_epi32::<4>(codes);
            high_sums = _mm512_add_ps(high_sums, _mm512_permutexvar_ps(codes, table));
        }
        // SAFETY: both halves have 16 writable numbers.
        unsafe {
            _mm512_storeu_ps(low.as_mut_ptr(), low_sums);
            _mm512_storeu_ps(high.as_mut_ptr(), high_sums);
        }
    }
    assert!(is_x86_feature_detected!("avx512f"));
    // SAFETY: the line above checked the feature.
    unsafe { entry(tables, bytes, sums) }
}

/// As [`sum_4_avx512`], with a table in two registers and eight rows in each.
pub(super) fn sum_4_avx2(tables: &[f32], bytes: &[u8], sums: &mut [f32; GROUP]) {
    #[target_feature(enable = "avx2")]
    fn entry(tables: &[f32], bytes: &[u8], sums: &mut [f32; GROUP]) {
        let (eights, _) = sums.as_chunks_mut::<8>();
        // SAFETY: each chunk has 8 readable numbers.
        let mut of_rows = [0, 1, 2, 3].map(|at: usize| unsafe { _mm256_loadu_ps(eights[at].as_ptr()) });
        for (codes, table) in bytes.as_chunks::<PART_BYTES>().0.iter().zip(tables.as_chunks::<16>().0) {
            let (halves, _) = codes.as_chunks::<8>();
            // SAFETY: the table has 16 readable numbers.
            let (below, above) =
                unsafe { (_mm256_loadu_ps(table.as_ptr()), _mm256_loadu_ps(table.as_ptr().add(8))) };
            for (at, half) in halves.iter().enumerate() {
                // SAFETY: the chunk has 8 readable bytes.
                let codes = _mm256_cvtepu8_epi32(unsafe { _mm_loadl_epi64(half.as_ptr().cast()) });
                for (at, codes) in [(at, codes), (at + 2, _mm256_srli_epi32::<4>(codes))] {
                    // The look-up reads the low three bits of each number; the fourth, moved to the sign, says which half.
                    let is_above = _mm256_castsi256_ps(_mm256_slli_epi32::<28>(codes));
                    let below = _mm256_permutevar8x32_ps(below, codes);
                    let above = _mm256_permutevar8x32_ps(above, codes);
                    of_rows[at] = _mm256_add_ps(of_rows[at], _mm256_blendv_ps(below, above, is_above));
                }
            }
        }
        for (to, sums) in eights.iter_mut().zip(of_rows) {
            // SAFETY: each chunk has 8 writable numbers.
            unsafe { _mm256_storeu_ps(to.as_mut_ptr(), sums) };
        }
    }
    assert!(is_x86_feature_detected!("avx2"));
    // SAFETY: the line above checked the feature.
    unsafe { entry(tables, bytes, sums) }
}

/// The groups of 8-bit codes with rows whose sums of `tables` are at most their limits, as in [`within_4_avx2`].
///
/// A table lies in sixteen pieces of sixteen bytes: the low four bits of a code look into each of them, and the high four choose
/// among the pieces bit by bit.
pub(super) fn within_8_avx2(
    tables: &[u8],
    parts: usize,
    bytes: &[u8],
    limits: &[[u16; GROUP]],
    found: &mut Vec<(u32, u32)>,
) {
    #[target_feature(enable = "avx2")]
    fn entry(
        tables: &[u8],
        parts: usize,
        bytes: &[u8],
        limits: &[[u16; GROUP]],
        found: &mut Vec<(u32, u32)>,
    ) {
        let nibble = _mm256_set1_epi8(15);
        // Comparisons are of signed numbers.
        let top = _mm256_set1_epi16(i16::MIN);
        let (tables, _) = tables.as_chunks::<256>();
        for (group, bytes) in bytes.chunks_exact(parts * GROUP).enumerate() {
            let (mut pairs, mut odd) = (_mm256_setzero_si256(), _mm256_setzero_si256());
            for (codes, table) in bytes.as_chunks::<GROUP>().0.iter().zip(tables) {
                // SAFETY: the array has 32 readable bytes.
                let codes = unsafe { _mm256_loadu_si256(codes.as_ptr().cast()) };
                let low = _mm256_and_si256(codes, nibble);
                let (pieces, _) = table.as_chunks::<16>();
                let look_up = |piece: usize| {
                    // SAFETY: the piece has 16 readable bytes.
                    let piece = unsafe { _mm_loadu_si128(pieces[piece].as_ptr().cast()) };
                    _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(piece), low)
                };
                // The highest bit of a byte chooses, so the other bits are moved there.
                let bits = [_mm256_slli_epi16::<3>(codes), _mm256_slli_epi16::<2>(codes)];
                let bit_6 = _mm256_slli_epi16::<1>(codes);
                let two = |at: usize| _mm256_blendv_epi8(look_up(at), look_up(at + 1), bits[0]);
                let four = |at: usize| _mm256_blendv_epi8(two(at), two(at + 2), bits[1]);
                let eight = |at: usize| _mm256_blendv_epi8(four(at), four(at + 4), bit_6);
                let numbers = _mm256_blendv_epi8(eight(0), eight(8), codes);
                pairs = _mm256_add_epi16(pairs, numbers);
                odd = _mm256_add_epi16(odd, _mm256_srli_epi16::<8>(numbers));
            }
            let even = _mm256_sub_epi16(pairs, _mm256_slli_epi16::<8>(odd));
            let limits = limits[group % limits.len()].as_chunks::<16>().0;
            // SAFETY: both halves have 32 readable bytes.
            let limits =
                [0, 1].map(|half: usize| unsafe { _mm256_loadu_si256(limits[half].as_ptr().cast()) });
            // Limits by row are parted into those of even and of odd rows, as sums are.
            let [even_limits, odd_limits] = parted(limits);
            let beyond = |sums: __m256i, limits: __m256i| {
                _mm256_cmpgt_epi16(_mm256_xor_si256(sums, top), _mm256_xor_si256(limits, top))
            };
            let odd_places = _mm256_set1_epi16(!0xff);
            let beyond = _mm256_blendv_epi8(beyond(even, even_limits), beyond(odd, odd_limits), odd_places);
            let rows = !_mm256_movemask_epi8(beyond).cast_unsigned();
            if rows != 0 {
                found.push((group as u32, rows));
            }
        }
    }
    #[target_feature(enable = "avx2")]
    fn parted(limits: [__m256i; 2]) -> [__m256i; 2] {
        // Even words of 16 bits to the lower half of each 128 bits, odd ones to the upper half.
        let places = _mm256_setr_epi8(
            0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15, 0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10,
            11, 14, 15,
        );
        let [first, second] = limits
            .map(|limits| _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_shuffle_epi8(limits, places)));
        [_mm256_permute2x128_si256::<0x20>(first, second), _mm256_permute2x128_si256::<0x31>(first, second)]
    }
    assert!(is_x86_feature_detected!("avx2"));
    // SAFETY: the line above checked the feature.
    unsafe { entry(tables, parts, bytes, limits, found) }
}

/// The groups of 8-bit codes with rows whose sums of `tables` are at most their limits, as in [`within_4_avx2`]. Two groups share
/// each look-up.
pub(super) fn within_8_avx512(
    tables: &[u8],
    parts: usize,
    bytes: &[u8],
    limits: &[[u16; GROUP]],
    found: &mut Vec<(u32, u32)>,
) {
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    fn entry(
        tables: &[u8],
        parts: usize,
        bytes: &[u8],
        limits: &[[u16; GROUP]],
        found: &mut Vec<(u32, u32)>,
    ) {
        // Number `i` of the sums of even rows is that of row `2 i` of both groups, one after the other.
        let places: [[u16; GROUP]; 2] = [0, 1].map(|odd| std::array::from_fn(|at| (2 * at + odd) as u16));
        // SAFETY: the arrays have 64 readable bytes.
        let places = places.map(|places| unsafe { _mm512_loadu_si512(places.as_ptr().cast()) });
        let mut of_rows = [_mm512_setzero_si512(); 2];
        let (tables, _) = tables.as_chunks::<256>();
        let size = parts * GROUP;
        for (pair, bytes) in bytes.chunks(2 * size).enumerate() {
            // A last group alone is looked up twice.
            let (first, second) = bytes.split_at(size);
            let second = if second.is_empty() { first } else { second };
            let (first, _) = first.as_chunks::<GROUP>();
            let (second, _) = second.as_chunks::<GROUP>();
            let mut sums = [_mm512_setzero_si512(); 2];
            for ((first, second), table) in first.iter().zip(second).zip(tables) {
                // SAFETY: the arrays have 32 and 256 readable bytes.
                let (codes, table) = unsafe {
                    let first = _mm256_loadu_si256(first.as_ptr().cast());
                    let second = _mm256_loadu_si256(second.as_ptr().cast());
                    let table: *const __m512i = table.as_ptr().cast();
                    let table = [
                        _mm512_loadu_si512(table),
                        _mm512_loadu_si512(table.add(1)),
                        _mm512_loadu_si512(table.add(2)),
                        _mm512_loadu_si512(table.add(3)),
                    ];
                    (_mm512_inserti64x4::<1>(_mm512_castsi256_si512(first), second), table)
                };
                let low = _mm512_permutex2var_epi8(table[0], codes, table[1]);
                let high = _mm512_permutex2var_epi8(table[2], codes, table[3]);
                let numbers = _mm512_mask_blend_epi8(_mm512_movepi8_mask(codes), low, high);
                sums[0] = _mm512_add_epi16(sums[0], numbers);
                sums[1] = _mm512_add_epi16(sums[1], _mm512_srli_epi16::<8>(numbers));
            }
            if 2 * pair < limits.len() {
                let of_groups = [0, 1].map(|place| {
                    let limits = &limits[(2 * pair + place) % limits.len()];
                    // SAFETY: the array has 64 readable bytes.
                    unsafe { _mm512_loadu_si512(limits.as_ptr().cast()) }
                });
                of_rows = places.map(|places| _mm512_permutex2var_epi16(of_groups[0], places, of_groups[1]));
            }
            let even = _mm512_sub_epi16(sums[0], _mm512_slli_epi16::<8>(sums[1]));
            let even = u64::from(_mm512_cmple_epu16_mask(even, of_rows[0]));
            let odd = u64::from(_mm512_cmple_epu16_mask(sums[1], of_rows[1]));
            let rows = spread(even) | spread(odd) << 1;
            for (place, rows) in [rows as u32, (rows >> GROUP) as u32].into_iter().enumerate() {
                if rows != 0 && place * size < bytes.len() {
                    found.push((2 * pair as u32 + place as u32, rows));
                }
            }
        }
    }
    assert!(has_wide_tables());
    // SAFETY: the line above checked the features; AVX-512 BW is there only with F.
    unsafe { entry(tables, parts, bytes, limits, found) }
}

/// Moves bit `i` of the low half to bit `2 i`.
fn spread(bits: u64) -> u64 {
    let mut bits = bits & 0xffff_ffff;
    bits = (bits | bits << 16) & 0x0000_ffff_0000_ffff;
    bits = (bits | bits << 8) & 0x00ff_00ff_00ff_00ff;
    bits = (bits | bits << 4) & 0x0f0f_0f0f_0f0f_0f0f;
    bits = (bits | bits << 2) & 0x3333_3333_3333_3333;
    (bits | bits << 1) & 0x5555_5555_5555_5555
}
