//! The products of bytes in AVX-512 with VNNI.

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

/// As [`Coded::scores`].
pub(super) fn scores(
    coded: &Coded,
    panels: Range<usize>,
    words: &[i32],
    steps: &[f32; QUERIES],
    scores: &mut [f32],
) -> [f32; QUERIES] {
    let (per_row, stride) = (coded.dimensions.div_ceil(4), panels.len() * PANEL);
    assert!(CodePath::Avx512.is_available() && has_products());
    assert!(words.len() == QUERIES * per_row && scores.len() >= QUERIES * stride);
    assert!(panels.end * PANEL * per_row <= coded.words.len() && panels.end * PANEL <= coded.halves.len());
    assert!(coded.halves.len() == coded.steps.len() && coded.halves.len() == coded.offsets.len());
    // SAFETY: the lines above checked the instructions and all lengths.
    unsafe { entry(coded, panels, words, steps, scores) }
}

/// # Safety
/// There are words of `QUERIES` queries, room for their scores, and all panels.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vnni")]
unsafe fn entry(
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
