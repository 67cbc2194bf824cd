//! The vector operations in AVX2 and AVX-512, and the entry points to code compiled for them.
//!
//! Invariant: a value of [`Avx2`] or [`Avx512`] is made only inside an entry point (`run_avx2`, `run_avx512`), which first
//! checks that the machine has the instructions. So every operation below may use them.

#![expect(unsafe_code, reason = "vector instructions, their loads and stores, and prefetches")]

mod bits;
mod fused;
mod steps;

#[cfg(not(miri))]
use std::arch::asm;
use std::arch::x86_64::*;

use super::{EXP2_NEAREST, EXPONENT_MIN, Lanes, ROUND, Work};
use crate::CodePath;

/// Does some work with AVX2.
pub(crate) fn run_avx2<W: Work>(work: W) -> W::Done {
    #[target_feature(enable = "avx2,fma,f16c")]
    fn entry<W: Work>(work: W) -> W::Done {
        work.run(Avx2 { constants: std::hint::black_box(&CONSTANTS) })
    }
    assert!(CodePath::Avx2.is_available());
    // SAFETY: the line above checked all three features.
    unsafe { entry(work) }
}

/// Does some work with AVX-512.
pub(crate) fn run_avx512<W: Work>(work: W) -> W::Done {
    #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512dq")]
    fn entry<W: Work>(work: W) -> W::Done {
        work.run(Avx512(()))
    }
    assert!(CodePath::Avx512.is_available());
    // SAFETY: the line above checked all five features.
    unsafe { entry(work) }
}

/// Prefetches the slice into the second-level cache.
#[inline(always)]
pub(crate) fn prefetch(numbers: &[f32]) {
    for line in numbers.chunks(16) {
        // SAFETY: a prefetch may name any address, and this one lies in a slice.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(line.as_ptr().cast()) }
    }
}

/// Prefetches the slice into the nearest cache.
#[inline(always)]
pub(crate) fn prefetch_near<T>(numbers: &[T]) {
    for line in numbers.chunks(64 / size_of::<T>()) {
        // SAFETY: a prefetch may name any address, and this one lies in a slice.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast()) }
    }
}

/// The slice at an address that the compiler does not know. Emits no instruction.
#[inline(always)]
fn unseen(numbers: &[f32]) -> &[f32] {
    #[cfg_attr(miri, expect(unused_mut, reason = "Miri runs no assembly, and there is none to run"))]
    let mut start = numbers.as_ptr();
    #[cfg(not(miri))]
    #[expect(
        clippy::pointers_in_nomem_asm_block,
        reason = "there is no instruction that could read the numbers"
    )]
    // SAFETY: there is no instruction, so the register keeps its value.
    unsafe {
        asm!("/* {0} */", inout(reg) start, options(nomem, nostack, preserves_flags));
    }
    // SAFETY: the pointer and the length are still those of the slice.
    unsafe { std::slice::from_raw_parts(start, numbers.len()) }
}

/// Keeps four chains of dependent operations in step: the compiler may not move an instruction of the next step before all
/// four of this one. Without this it finishes one chain after the other to save registers, and the processor's instruction
/// window is too short to reach the second chain. Emits no instruction.
macro_rules! in_step {
    ($name:ident, $vector:ident, $class:ident, $feature:literal) => {
        #[inline]
        #[target_feature(enable = $feature)]
        #[cfg_attr(
            miri,
            expect(unused_variables, reason = "Miri runs no assembly, and there is none to run")
        )]
        fn $name([a, b, c, d]: &mut [$vector; 4]) {
            #[cfg(not(miri))]
            // SAFETY: there is no instruction, so the registers keep their values.
            unsafe {
                asm!(
                    "/* {0} {1} {2} {3} */",
                    inout($class) * a,
                    inout($class) * b,
                    inout($class) * c,
                    inout($class) * d,
                    options(nomem, nostack, preserves_flags)
                );
            }
        }
    };
}
in_step!(in_step_avx2, __m256, ymm_reg, "avx2");
in_step!(in_step_avx512, __m512, zmm_reg, "avx512f");

/// The constants of `exp2`, one vector each.
#[repr(align(32))]
struct Constants {
    exponent_min: [f32; 8],
    round: [f32; 8],
    polynomial: [[f32; 8]; 6],
}

static CONSTANTS: Constants = Constants {
    exponent_min: [EXPONENT_MIN; 8],
    round: [ROUND; 8],
    polynomial: {
        let mut polynomial = [[0.0; 8]; 6];
        let mut power = 0;
        while power < 6 {
            polynomial[power] = [EXP2_NEAREST[power]; 8];
            power += 1;
        }
        polynomial
    },
};

/// Eight lanes.
///
/// The constants are read from memory the compiler cannot see through: there are too few registers for them, and a
/// constant it knows it broadcasts anew at every use, an instruction each, instead of naming it as an operand.
#[derive(Clone, Copy)]
pub(crate) struct Avx2 {
    constants: &'static Constants,
}

impl Lanes for Avx2 {
    const COUNT: usize = 8;
    type V = __m256;

    #[inline(always)]
    fn splat(self, x: f32) -> __m256 {
        // SAFETY: self proves AVX.
        unsafe { _mm256_set1_ps(x) }
    }
    #[inline(always)]
    fn reload(self, from: &[f32]) -> &[f32] {
        unseen(from)
    }
    #[inline(always)]
    fn load(self, from: &[f32]) -> __m256 {
        let from: &[f32; 8] = from.first_chunk().expect("a whole vector");
        // SAFETY: self proves AVX, and the reference eight readable numbers.
        unsafe { _mm256_loadu_ps(from.as_ptr()) }
    }
    #[inline(always)]
    fn store(self, x: __m256, to: &mut [f32]) {
        let to: &mut [f32; 8] = to.first_chunk_mut().expect("a whole vector");
        // SAFETY: self proves AVX, and the reference eight writable numbers.
        unsafe { _mm256_storeu_ps(to.as_mut_ptr(), x) }
    }
    #[inline(always)]
    fn add(self, a: __m256, b: __m256) -> __m256 {
        // SAFETY: self proves AVX.
        unsafe { _mm256_add_ps(a, b) }
    }
    #[inline(always)]
    fn sub(self, a: __m256, b: __m256) -> __m256 {
        // SAFETY: self proves AVX.
        unsafe { _mm256_sub_ps(a, b) }
    }
    #[inline(always)]
    fn mul(self, a: __m256, b: __m256) -> __m256 {
        // SAFETY: self proves AVX.
        unsafe { _mm256_mul_ps(a, b) }
    }
    #[inline(always)]
    fn div(self, a: __m256, b: __m256) -> __m256 {
        // SAFETY: self proves AVX.
        unsafe { _mm256_div_ps(a, b) }
    }
    #[inline(always)]
    fn mul_add(self, a: __m256, b: __m256, c: __m256) -> __m256 {
        // SAFETY: self proves FMA.
        unsafe { _mm256_fmadd_ps(a, b, c) }
    }
    #[inline(always)]
    fn fused(self, a: f64, b: f64, c: f64) -> f64 {
        a.mul_add(b, c)
    }
    #[inline(always)]
    fn abs(self, a: __m256) -> __m256 {
        // SAFETY: self proves AVX.
        unsafe { _mm256_andnot_ps(_mm256_set1_ps(-0.0), a) }
    }
    #[inline(always)]
    fn sqrt(self, a: __m256) -> __m256 {
        // SAFETY: self proves AVX.
        unsafe { _mm256_sqrt_ps(a) }
    }
    #[inline(always)]
    fn max(self, a: __m256, b: __m256) -> __m256 {
        // SAFETY: self proves AVX.
        unsafe { _mm256_max_ps(a, b) }
    }
    #[inline(always)]
    fn min(self, a: __m256, b: __m256) -> __m256 {
        // SAFETY: self proves AVX.
        unsafe { _mm256_min_ps(a, b) }
    }
    #[inline(always)]
    fn least(self, a: __m256) -> f32 {
        // SAFETY: self proves AVX.
        unsafe {
            let a = _mm_min_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps::<1>(a));
            let a = _mm_min_ps(a, _mm_movehl_ps(a, a));
            _mm_cvtss_f32(_mm_min_ss(a, _mm_movehdup_ps(a)))
        }
    }
    #[inline(always)]
    fn largest(self, a: __m256) -> f32 {
        // SAFETY: self proves AVX.
        unsafe {
            let a = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps::<1>(a));
            let a = _mm_max_ps(a, _mm_movehl_ps(a, a));
            _mm_cvtss_f32(_mm_max_ss(a, _mm_movehdup_ps(a)))
        }
    }
    #[inline(always)]
    fn at_most(self, a: __m256, b: __m256) -> u32 {
        // SAFETY: self proves AVX.
        unsafe { _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_LE_OQ>(a, b)) as u32 }
    }
    #[inline(always)]
    fn not_above(self, a: __m256, b: __m256) -> u32 {
        // SAFETY: self proves AVX.
        unsafe { _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_NGT_UQ>(a, b)).cast_unsigned() }
    }
    #[inline(always)]
    fn tagged(self, a: __m256, kept: u32, tag: u32) -> __m256 {
        // SAFETY: self proves AVX2.
        unsafe {
            _mm256_castsi256_ps(_mm256_or_si256(
                _mm256_and_si256(_mm256_castps_si256(a), _mm256_set1_epi32(kept.cast_signed())),
                _mm256_set1_epi32(tag.cast_signed()),
            ))
        }
    }
    #[inline(always)]
    fn inverse_root(self, a: __m256) -> __m256 {
        // SAFETY: self proves AVX.
        let estimate = unsafe { _mm256_rsqrt_ps(a) };
        newton_step(self, a, estimate)
    }
    #[inline(always)]
    fn load_halves(self, from: &[u16]) -> __m256 {
        let from: &[u16; 8] = from.first_chunk().expect("a whole vector");
        // SAFETY: self proves F16C, and the reference eight readable numbers.
        unsafe { _mm256_cvtph_ps(_mm_loadu_si128(from.as_ptr().cast())) }
    }
    #[inline(always)]
    fn load_counts(self, from: &[u16]) -> __m256 {
        let from: &[u16; 8] = from.first_chunk().expect("a whole vector");
        // SAFETY: self proves AVX2, and the reference eight readable numbers.
        unsafe { _mm256_cvtepi32_ps(_mm256_cvtepu16_epi32(_mm_loadu_si128(from.as_ptr().cast()))) }
    }
    #[inline(always)]
    fn store_counts(self, x: __m256, to: &mut [u16]) {
        let to: &mut [u16; 8] = to.first_chunk_mut().expect("a whole vector");
        // SAFETY: self proves AVX2, and the reference eight writable numbers.
        unsafe {
            let counts = _mm256_cvtps_epi32(x);
            let packed =
                _mm_packus_epi32(_mm256_castsi256_si128(counts), _mm256_extracti128_si256::<1>(counts));
            _mm_storeu_si128(to.as_mut_ptr().cast(), packed);
        }
    }
    #[inline(always)]
    fn exp2(self, mut a: [__m256; 4]) -> [__m256; 4] {
        let Constants { exponent_min, round, polynomial } = self.constants;
        for a in &mut a {
            // The second operand is what a NaN in the first becomes.
            // SAFETY: self proves AVX.
            *a = unsafe { _mm256_max_ps(*a, self.load(exponent_min)) };
        }
        let mut rounded = a;
        for rounded in &mut rounded {
            *rounded = self.add(*rounded, self.load(round));
        }
        let mut fraction = a;
        for (fraction, rounded) in fraction.iter_mut().zip(rounded) {
            *fraction = self.sub(*fraction, self.sub(rounded, self.load(round)));
        }
        // SAFETY: self proves AVX2.
        unsafe { in_step_avx2(&mut fraction) };
        let mut power = [self.load(&polynomial[5]); 4];
        for coefficient in polynomial[..5].iter().rev() {
            for (power, fraction) in power.iter_mut().zip(fraction) {
                *power = self.mul_add(*power, fraction, self.load(coefficient));
            }
            // SAFETY: self proves AVX2.
            unsafe { in_step_avx2(&mut power) };
        }
        for (power, rounded) in power.iter_mut().zip(rounded) {
            // SAFETY: self proves AVX2.
            let exponent = unsafe { _mm256_slli_epi32::<23>(_mm256_castps_si256(rounded)) };
            // SAFETY: self proves AVX2.
            *power = unsafe { _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(*power), exponent)) };
        }
        power
    }
}

/// Sixteen lanes.
#[derive(Clone, Copy)]
pub(crate) struct Avx512(());

/// Minimax polynomial of 2^f for f in 0..1, lowest power first: `vscalefps` takes the integer below.
const EXP2_BELOW: [f32; 6] =
    [0.999_999_94, 0.693_153_1, 0.240_153_61, 0.055_826_317, 0.008_989_34, 0.001_877_576_7];

/// Rounds towards minus infinity, keeps no bits of the fraction, raises no exception.
const BELOW: i32 = _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC;

impl Lanes for Avx512 {
    const COUNT: usize = 16;
    type V = __m512;

    #[inline(always)]
    fn splat(self, x: f32) -> __m512 {
        // SAFETY: self proves AVX-512 F.
        unsafe { _mm512_set1_ps(x) }
    }
    #[inline(always)]
    fn reload(self, from: &[f32]) -> &[f32] {
        unseen(from)
    }
    #[inline(always)]
    fn load(self, from: &[f32]) -> __m512 {
        let from: &[f32; 16] = from.first_chunk().expect("a whole vector");
        // SAFETY: self proves AVX-512 F, and the reference sixteen readable numbers.
        unsafe { _mm512_loadu_ps(from.as_ptr()) }
    }
    #[inline(always)]
    fn store(self, x: __m512, to: &mut [f32]) {
        let to: &mut [f32; 16] = to.first_chunk_mut().expect("a whole vector");
        // SAFETY: self proves AVX-512 F, and the reference sixteen writable numbers.
        unsafe { _mm512_storeu_ps(to.as_mut_ptr(), x) }
    }
    #[inline(always)]
    fn add(self, a: __m512, b: __m512) -> __m512 {
        // SAFETY: self proves AVX-512 F.
        unsafe { _mm512_add_ps(a, b) }
    }
    #[inline(always)]
    fn sub(self, a: __m512, b: __m512) -> __m512 {
        // SAFETY: self proves AVX-512 F.
        unsafe { _mm512_sub_ps(a, b) }
    }
    #[inline(always)]
    fn mul(self, a: __m512, b: __m512) -> __m512 {
        // SAFETY: self proves AVX-512 F.
        unsafe { _mm512_mul_ps(a, b) }
    }
    #[inline(always)]
    fn div(self, a: __m512, b: __m512) -> __m512 {
        // SAFETY: self proves AVX-512 F.
        unsafe { _mm512_div_ps(a, b) }
    }
    #[inline(always)]
    fn mul_add(self, a: __m512, b: __m512, c: __m512) -> __m512 {
        // SAFETY: self proves AVX-512 F.
        unsafe { _mm512_fmadd_ps(a, b, c) }
    }
    #[inline(always)]
    fn fused(self, a: f64, b: f64, c: f64) -> f64 {
        a.mul_add(b, c)
    }
    #[inline(always)]
    fn abs(self, a: __m512) -> __m512 {
        // SAFETY: self proves AVX-512 F.
        unsafe { _mm512_abs_ps(a) }
    }
    #[inline(always)]
    fn sqrt(self, a: __m512) -> __m512 {
        // SAFETY: self proves AVX-512 F.
        unsafe { _mm512_sqrt_ps(a) }
    }
    #[inline(always)]
    fn max(self, a: __m512, b: __m512) -> __m512 {
        // SAFETY: self proves AVX-512 F.
        unsafe { _mm512_max_ps(a, b) }
    }
    #[inline(always)]
    fn min(self, a: __m512, b: __m512) -> __m512 {
        // SAFETY: self proves AVX-512 F.
        unsafe { _mm512_min_ps(a, b) }
    }
    #[inline(always)]
    fn least(self, a: __m512) -> f32 {
        // SAFETY: self proves AVX-512 F.
        unsafe { _mm512_reduce_min_ps(a) }
    }
    #[inline(always)]
    fn largest(self, a: __m512) -> f32 {
        // SAFETY: self proves AVX-512 F.
        unsafe { _mm512_reduce_max_ps(a) }
    }
    #[inline(always)]
    fn at_most(self, a: __m512, b: __m512) -> u32 {
        // SAFETY: self proves AVX-512 F.
        unsafe { u32::from(_mm512_cmp_ps_mask::<_CMP_LE_OQ>(a, b)) }
    }
    #[inline(always)]
    fn not_above(self, a: __m512, b: __m512) -> u32 {
        // SAFETY: self proves AVX-512 F.
        unsafe { u32::from(_mm512_cmp_ps_mask::<_CMP_NGT_UQ>(a, b)) }
    }
    #[inline(always)]
    fn tagged(self, a: __m512, kept: u32, tag: u32) -> __m512 {
        // SAFETY: self proves AVX-512 F.
        unsafe {
            _mm512_castsi512_ps(_mm512_or_si512(
                _mm512_and_si512(_mm512_castps_si512(a), _mm512_set1_epi32(kept.cast_signed())),
                _mm512_set1_epi32(tag.cast_signed()),
            ))
        }
    }
    #[inline(always)]
    fn inverse_root(self, a: __m512) -> __m512 {
        // SAFETY: self proves AVX-512 F.
        let estimate = unsafe { _mm512_rsqrt14_ps(a) };
        newton_step(self, a, estimate)
    }
    #[inline(always)]
    fn load_halves(self, from: &[u16]) -> __m512 {
        let from: &[u16; 16] = from.first_chunk().expect("a whole vector");
        // SAFETY: self proves AVX-512 F, and the reference sixteen readable numbers.
        unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(from.as_ptr().cast())) }
    }
    #[inline(always)]
    fn load_counts(self, from: &[u16]) -> __m512 {
        let from: &[u16; 16] = from.first_chunk().expect("a whole vector");
        // SAFETY: self proves AVX-512 F, and the reference sixteen readable numbers.
        unsafe { _mm512_cvtepi32_ps(_mm512_cvtepu16_epi32(_mm256_loadu_si256(from.as_ptr().cast()))) }
    }
    #[inline(always)]
    fn store_counts(self, x: __m512, to: &mut [u16]) {
        let to: &mut [u16; 16] = to.first_chunk_mut().expect("a whole vector");
        // SAFETY: self proves AVX-512 F, and the reference sixteen writable numbers.
        unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), _mm512_cvtepi32_epi16(_mm512_cvtps_epi32(x))) }
    }
    #[inline(always)]
    fn exp2(self, mut a: [__m512; 4]) -> [__m512; 4] {
        for a in &mut a {
            // The second operand is what a NaN in the first becomes.
            // SAFETY: self proves AVX-512 F.
            *a = unsafe { _mm512_max_ps(*a, _mm512_set1_ps(EXPONENT_MIN)) };
        }
        let mut fraction = a;
        for fraction in &mut fraction {
            // SAFETY: self proves AVX-512 DQ.
            *fraction = unsafe { _mm512_reduce_ps::<BELOW>(*fraction) };
        }
        // SAFETY: self proves AVX-512 F.
        unsafe { in_step_avx512(&mut fraction) };
        let mut power = [self.splat(EXP2_BELOW[5]); 4];
        for &coefficient in EXP2_BELOW[..5].iter().rev() {
            for (power, fraction) in power.iter_mut().zip(fraction) {
                *power = self.mul_add(*power, fraction, self.splat(coefficient));
            }
            // SAFETY: self proves AVX-512 F.
            unsafe { in_step_avx512(&mut power) };
        }
        for (power, a) in power.iter_mut().zip(a) {
            // SAFETY: self proves AVX-512 F.
            *power = unsafe { _mm512_scalef_ps(*power, a) };
        }
        power
    }
}

/// A step of Newton's method for `1 / sqrt(a)`, which squares the error of an estimate.
#[inline(always)]
fn newton_step<L: Lanes>(lanes: L, a: L::V, estimate: L::V) -> L::V {
    let half = lanes.mul(lanes.mul(a, lanes.splat(-0.5)), estimate);
    let factor = lanes.mul_add(half, estimate, lanes.splat(1.5));
    lanes.mul(estimate, factor)
}
