//! The products of bytes in AVX-512 with VNNI, in AVX2 with VNNI, and in AVX2.

#![expect(unsafe_code, reason = "vector instructions and their loads and stores")]
#![expect(clippy::needless_range_loop, reason = "sums of constant places stay in registers")]

use std::arch::x86_64::*;
use std::ops::Range;

use super::{Coded, PANEL, QUERIES};
use crate::CodePath;

/// Numbers of a vector, and vectors of a panel.
const LANES: usize = 16;
const VECTORS: usize = PANEL / LANES;

/// Whether this machine has the products.
pub(super) fn has_products() -> bool {
    is_x86_feature_detected!("avx512vnni") && is_x86_feature_detected!("avx512bw")
}

/// Checks the lengths of a call of [`Coded::scores`].
fn check(coded: &Coded, panels: &Range<usize>, words: &[i32], scores: &[f32]) {
    let (per_row, stride) = (coded.dimensions.div_ceil(4), panels.len() * PANEL);
    assert!(words.len() == QUERIES * per_row && scores.len() >= QUERIES * stride);
    assert!(panels.end * PANEL * per_row <= coded.words.len() && panels.end * PANEL <= coded.halves.len());
    assert!(coded.halves.len() == coded.steps.len() && coded.halves.len() == coded.offsets.len());
}

/// As [`Coded::scores`], in AVX-512 with VNNI.
pub(super) fn scores_vnni(
    coded: &Coded,
    panels: Range<usize>,
    words: &[i32],
    steps: &[f32; QUERIES],
    scores: &mut [f32],
) -> [f32; QUERIES] {
    assert!(CodePath::Avx512.is_available() && has_products());
    check(coded, &panels, words, scores);
    // SAFETY: the lines above checked the instructions and all lengths.
    unsafe { vnni(coded, panels, words, steps, scores) }
}

/// As [`Coded::scores`], in AVX2 with VNNI.
pub(super) fn scores_avx_vnni(
    coded: &Coded,
    panels: Range<usize>,
    words: &[i32],
    steps: &[f32; QUERIES],
    scores: &mut [f32],
) -> [f32; QUERIES] {
    assert!(CodePath::AvxVnni.is_available());
    check(coded, &panels, words, scores);
    // SAFETY: the lines above checked the instructions and all lengths.
    unsafe { avx_vnni(coded, panels, words, steps, scores) }
}

/// As [`Coded::scores`], in AVX2.
pub(super) fn scores_avx2(
    coded: &Coded,
    panels: Range<usize>,
    words: &[i32],
    steps: &[f32; QUERIES],
    scores: &mut [f32],
) -> [f32; QUERIES] {
    assert!(CodePath::Avx2.is_available());
    check(coded, &panels, words, scores);
    // SAFETY: the lines above checked the instructions and all lengths.
    unsafe { avx2(coded, panels, words, steps, scores) }
}

/// # Safety
/// There are words of `QUERIES` queries, room for their scores, and all panels.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vnni")]
unsafe fn vnni(
    coded: &Coded,
    panels: Range<usize>,
    words: &[i32],
    steps: &[f32; QUERIES],
    scores: &mut [f32],
) -> [f32; QUERIES] {
    let (per_row, stride) = (coded.dimensions.div_ceil(4), panels.len() * PANEL);
    let mut least = [_mm512_set1_ps(f32::INFINITY); QUERIES];
    let own = words.as_ptr();
    for (place, panel) in panels.enumerate() {
        let first = panel * PANEL;
        let mut sums = [[_mm512_setzero_si512(); VECTORS]; QUERIES];
        for v in 0..VECTORS {
            // SAFETY: the panel has as many offsets.
            let offset = unsafe { _mm512_loadu_si512(coded.offsets.as_ptr().add(first + v * LANES).cast()) };
            for q in 0..QUERIES {
                sums[q][v] = offset;
            }
        }
        // SAFETY: the panel begins there.
        let mut rows = unsafe { coded.words.as_ptr().add(first * per_row) };
        for word in 0..per_row {
            let mut loaded = [_mm512_setzero_si512(); VECTORS];
            for (v, loaded) in loaded.iter_mut().enumerate() {
                // SAFETY: the panel has `per_row * PANEL` words.
                *loaded = unsafe { _mm512_loadu_si512(rows.add(v * LANES).cast()) };
            }
            // SAFETY: at most one past the panel's words.
            rows = unsafe { rows.add(PANEL) };
            for q in 0..QUERIES {
                // SAFETY: each query has `per_row` words.
                let number = _mm512_set1_epi32(unsafe { *own.add(q * per_row + word) });
                for v in 0..VECTORS {
                    sums[q][v] = _mm512_dpbusd_epi32(sums[q][v], number, loaded[v]);
                }
            }
        }
        for v in 0..VECTORS {
            let from = first + v * LANES;
            // SAFETY: the panel has as many steps and halves.
            let (step, half) = unsafe {
                (
                    _mm512_loadu_ps(coded.steps.as_ptr().add(from)),
                    _mm512_loadu_ps(coded.halves.as_ptr().add(from)),
                )
            };
            for q in 0..QUERIES {
                let product = _mm512_mul_ps(_mm512_cvtepi32_ps(sums[q][v]), step);
                let score = _mm512_fnmadd_ps(product, _mm512_set1_ps(steps[q]), half);
                least[q] = _mm512_min_ps(score, least[q]);
                // SAFETY: there is room for `QUERIES * stride` scores.
                unsafe {
                    _mm512_storeu_ps(scores.as_mut_ptr().add(q * stride + place * PANEL + v * LANES), score)
                };
            }
        }
    }
    let mut found = [0.0; QUERIES];
    for q in 0..QUERIES {
        found[q] = _mm512_reduce_min_ps(least[q]);
    }
    found
}

/// Numbers of a narrow vector.
const EIGHT: usize = 8;

/// A loop over some vectors of eight rows, whose sums with all queries of a tile are in registers, with a step that adds the products
/// of some words of a query to them.
macro_rules! scores_by_eights {
    ($name:ident, $features:literal, $vectors:literal, $words:literal, $add:expr) => {
        const _: () = assert!(PANEL.is_multiple_of($vectors * EIGHT));

        /// # Safety
        /// There are words of `QUERIES` queries, room for their scores, and all panels.
        #[target_feature(enable = $features)]
        unsafe fn $name(
            coded: &Coded,
            panels: Range<usize>,
            words: &[i32],
            steps: &[f32; QUERIES],
            scores: &mut [f32],
        ) -> [f32; QUERIES] {
            let (per_row, stride) = (coded.dimensions.div_ceil(4), panels.len() * PANEL);
            let mut least = [[f32::INFINITY; EIGHT]; QUERIES];
            let own = words.as_ptr();
            for (place, first) in
                (panels.start * PANEL..panels.end * PANEL).step_by($vectors * EIGHT).enumerate()
            {
                let mut sums = [[_mm256_setzero_si256(); $vectors]; QUERIES];
                let start = first / PANEL * PANEL * per_row + first % PANEL;
                // SAFETY: the rows lie in this panel.
                let rows = unsafe { coded.words.as_ptr().add(start) };
                for word in (0..per_row).step_by($words) {
                    let mut loaded = [[_mm256_setzero_si256(); $vectors]; $words];
                    // A word that is missing is the last one, with rows of zeros.
                    for (at, loaded) in (word..per_row).zip(&mut loaded) {
                        for (v, loaded) in loaded.iter_mut().enumerate() {
                            // SAFETY: the panel has `per_row * PANEL` words.
                            *loaded = unsafe { _mm256_loadu_si256(rows.add(at * PANEL + v * EIGHT).cast()) };
                        }
                    }
                    for q in 0..QUERIES {
                        let mut numbers = [_mm256_setzero_si256(); $words];
                        for (at, numbers) in (word..).zip(&mut numbers) {
                            // SAFETY: each query has `per_row` words.
                            let number = unsafe { *own.add(q * per_row + at.min(per_row - 1)) };
                            *numbers = _mm256_set1_epi32(number);
                        }
                        for v in 0..$vectors {
                            sums[q][v] = $add(sums[q][v], numbers, loaded.map(|loaded| loaded[v]));
                        }
                    }
                }
                for v in 0..$vectors {
                    let from = first + v * EIGHT;
                    // SAFETY: the panel has as many offsets, steps and halves.
                    let (offset, step, half) = unsafe {
                        (
                            _mm256_loadu_si256(coded.offsets.as_ptr().add(from).cast()),
                            _mm256_loadu_ps(coded.steps.as_ptr().add(from)),
                            _mm256_loadu_ps(coded.halves.as_ptr().add(from)),
                        )
                    };
                    for q in 0..QUERIES {
                        let sum = _mm256_cvtepi32_ps(_mm256_add_epi32(sums[q][v], offset));
                        let score =
                            _mm256_fnmadd_ps(_mm256_mul_ps(sum, step), _mm256_set1_ps(steps[q]), half);
                        // SAFETY: there is room for `QUERIES * stride` scores, and the list has as many as a vector.
                        unsafe {
                            let least = least[q].as_mut_ptr();
                            _mm256_storeu_ps(least, _mm256_min_ps(score, _mm256_loadu_ps(least)));
                            let to = q * stride + (place * $vectors + v) * EIGHT;
                            _mm256_storeu_ps(scores.as_mut_ptr().add(to), score);
                        }
                    }
                }
            }
            least.map(|least| least.into_iter().fold(f32::INFINITY, f32::min))
        }
    };
}

scores_by_eights!(avx2, "avx2,fma", 2, 2, |sums, queries: [__m256i; 2], rows: [__m256i; 2]| {
    // Four products of numbers up to 63 and 127 fit 16 bits.
    let pairs = _mm256_add_epi16(
        _mm256_maddubs_epi16(queries[0], rows[0]),
        _mm256_maddubs_epi16(queries[1], rows[1]),
    );
    _mm256_add_epi32(sums, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)))
});
scores_by_eights!(avx_vnni, "avx2,fma,avxvnni", 2, 1, |sums, [query]: [__m256i; 1], [row]: [__m256i; 1]| {
    _mm256_dpbusd_avx_epi32(sums, query, row)
});
