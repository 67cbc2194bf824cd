//! The loops of integer products in AVX2, in AVX2 with VNNI, and in AVX-512 with VNNI.

#![expect(unsafe_code, reason = "vector instructions and their loads and stores")]
#![expect(clippy::needless_range_loop, reason = "sums of constant places stay in registers")]

use std::arch::x86_64::*;

use super::{IntegerPath, Panel, Rows, Sink, give};
use crate::CodePath;

/// Scans with AVX-512 and VNNI.
pub(super) fn scan_vnni(panel: &Panel, rows: &Rows, limits: &mut [f32], sink: &mut dyn Sink) {
    assert_eq!(IntegerPath::of(CodePath::Avx512), IntegerPath::Vnni, "this machine has VNNI");
    match panel.width {
        // SAFETY: the line above checked the instructions.
        64 => unsafe { vnni::<4, 6>(panel, rows, limits, sink) },
        // SAFETY: as above.
        _ => unsafe { vnni::<1, 12>(panel, rows, limits, sink) },
    }
}

/// Scans with AVX2.
pub(super) fn scan_avx2(panel: &Panel, rows: &Rows, limits: &mut [f32], sink: &mut dyn Sink) {
    assert!(CodePath::Avx2.is_available());
    match panel.width {
        // SAFETY: the line above checked the instructions.
        16 => unsafe { avx2::<2, 6>(panel, rows, limits, sink) },
        // SAFETY: as above.
        _ => unsafe { avx2::<1, 8>(panel, rows, limits, sink) },
    }
}

/// Scans with AVX2 and VNNI.
pub(super) fn scan_avx_vnni(panel: &Panel, rows: &Rows, limits: &mut [f32], sink: &mut dyn Sink) {
    assert!(CodePath::AvxVnni.is_available());
    match panel.width {
        // SAFETY: the line above checked the instructions.
        16 => unsafe { avx_vnni::<2, 6>(panel, rows, limits, sink) },
        // SAFETY: as above.
        _ => unsafe { avx_vnni::<1, 12>(panel, rows, limits, sink) },
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
fn vnni<const V: usize, const R: usize>(panel: &Panel, rows: &Rows, limits: &mut [f32], sink: &mut dyn Sink) {
    const LANES: usize = 16;
    let (count, per_row) = (rows.bases.len(), rows.words.len() / rows.bases.len());
    let width = V * LANES;
    assert!(panel.words.len() == per_row * width && limits.len() == width, "one length");
    let mut first = 0;
    while first < count {
        let mut sums = [[_mm512_setzero_si512(); V]; R];
        // The last row stands for those that are missing.
        let mut starts = [rows.words.as_ptr(); R];
        for (r, start) in starts.iter_mut().enumerate() {
            // SAFETY: the row is one of the block.
            *start = unsafe { rows.words.as_ptr().add((first + r).min(count - 1) * per_row) };
        }
        let mut queries = panel.words.as_ptr();
        for word in 0..per_row {
            let mut loaded = [_mm512_setzero_si512(); V];
            for (v, loaded) in loaded.iter_mut().enumerate() {
                // SAFETY: the panel has `per_row * width` words, as asserted above.
                *loaded = unsafe { _mm512_loadu_si512(queries.add(v * LANES).cast()) };
            }
            // SAFETY: at most one past the panel's words.
            queries = unsafe { queries.add(width) };
            for r in 0..R {
                // SAFETY: each row has `per_row` words.
                let number = _mm512_set1_epi32(unsafe { *starts[r].add(word) });
                for v in 0..V {
                    sums[r][v] = _mm512_dpbusd_epi32(sums[r][v], number, loaded[v]);
                }
            }
        }
        for r in 0..R {
            let row = first + r;
            if row >= count {
                break;
            }
            let base = _mm512_set1_ps(rows.bases[row]);
            let factor = _mm512_set1_ps(rows.factors[row]);
            let height = _mm512_set1_ps(rows.heights[row]);
            for v in 0..V {
                let from = v * LANES;
                // SAFETY: each list has a number for each of the `width` lanes.
                let (offset, scale, reach, limit) = unsafe {
                    (
                        _mm512_loadu_si512(panel.offsets[from..from + LANES].as_ptr().cast()),
                        _mm512_loadu_ps(panel.scales[from..from + LANES].as_ptr()),
                        _mm512_loadu_ps(panel.reaches[from..from + LANES].as_ptr()),
                        _mm512_loadu_ps(limits[from..from + LANES].as_ptr()),
                    )
                };
                let sum = _mm512_sub_epi32(sums[r][v], offset);
                let product = _mm512_mul_ps(_mm512_cvtepi32_ps(sum), scale);
                let value = _mm512_fnmadd_ps(product, factor, _mm512_fnmadd_ps(reach, height, base));
                let mask = u32::from(_mm512_cmp_ps_mask::<_CMP_NGT_UQ>(value, limit));
                if mask != 0 {
                    let mut kept = [0_i32; LANES];
                    // SAFETY: the list has as many numbers as the vector.
                    unsafe { _mm512_storeu_si512(kept.as_mut_ptr().cast(), sum) };
                    give(panel, from, row, mask, &kept, limits, sink);
                }
            }
        }
        first += R;
    }
}

/// A loop over vectors of eight queries, with a step that adds the products of a word of a row to the sums.
macro_rules! scan_by_eights {
    ($name:ident, $features:literal, $add:expr) => {
        #[target_feature(enable = $features)]
        fn $name<const V: usize, const R: usize>(
            panel: &Panel,
            rows: &Rows,
            limits: &mut [f32],
            sink: &mut dyn Sink,
        ) {
            const LANES: usize = 8;
            let (count, per_row) = (rows.bases.len(), rows.words.len() / rows.bases.len());
            let width = V * LANES;
            assert!(panel.words.len() == per_row * width && limits.len() == width, "one length");
            let mut first = 0;
            while first < count {
                let mut sums = [[_mm256_setzero_si256(); V]; R];
                let mut starts = [rows.words.as_ptr(); R];
                for (r, start) in starts.iter_mut().enumerate() {
                    // SAFETY: the row is one of the block.
                    *start = unsafe { rows.words.as_ptr().add((first + r).min(count - 1) * per_row) };
                }
                let mut queries = panel.words.as_ptr();
                for word in 0..per_row {
                    let mut loaded = [_mm256_setzero_si256(); V];
                    for (v, loaded) in loaded.iter_mut().enumerate() {
                        // SAFETY: the panel has `per_row * width` words, as asserted above.
                        *loaded = unsafe { _mm256_loadu_si256(queries.add(v * LANES).cast()) };
                    }
                    // SAFETY: at most one past the panel's words.
                    queries = unsafe { queries.add(width) };
                    for r in 0..R {
                        // SAFETY: each row has `per_row` words.
                        let number = _mm256_set1_epi32(unsafe { *starts[r].add(word) });
                        for v in 0..V {
                            sums[r][v] = $add(sums[r][v], number, loaded[v]);
                        }
                    }
                }
                for r in 0..R {
                    let row = first + r;
                    if row >= count {
                        break;
                    }
                    let base = _mm256_set1_ps(rows.bases[row]);
                    let factor = _mm256_set1_ps(rows.factors[row]);
                    let height = _mm256_set1_ps(rows.heights[row]);
                    for v in 0..V {
                        let from = v * LANES;
                        // SAFETY: each list has a number for each of the `width` lanes.
                        let (offset, scale, reach, limit) = unsafe {
                            (
                                _mm256_loadu_si256(panel.offsets[from..from + LANES].as_ptr().cast()),
                                _mm256_loadu_ps(panel.scales[from..from + LANES].as_ptr()),
                                _mm256_loadu_ps(panel.reaches[from..from + LANES].as_ptr()),
                                _mm256_loadu_ps(limits[from..from + LANES].as_ptr()),
                            )
                        };
                        let sum = _mm256_sub_epi32(sums[r][v], offset);
                        let product = _mm256_mul_ps(_mm256_cvtepi32_ps(sum), scale);
                        let value = _mm256_fnmadd_ps(product, factor, _mm256_fnmadd_ps(reach, height, base));
                        let mask =
                            _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_NGT_UQ>(value, limit)).cast_unsigned();
                        if mask != 0 {
                            let mut kept = [0_i32; LANES];
                            // SAFETY: the list has as many numbers as the vector.
                            unsafe { _mm256_storeu_si256(kept.as_mut_ptr().cast(), sum) };
                            give(panel, from, row, mask, &kept, limits, sink);
                        }
                    }
                }
                first += R;
            }
        }
    };
}

scan_by_eights!(avx2, "avx2,fma", |sums, row, queries| _mm256_add_epi32(
    sums,
    _mm256_madd_epi16(row, queries)
));
scan_by_eights!(avx_vnni, "avx2,fma,avxvnni", |sums, row, queries| _mm256_dpbusd_avx_epi32(
    sums, row, queries
));
