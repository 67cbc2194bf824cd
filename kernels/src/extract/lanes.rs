//! Vectors of `f32`: one inner loop for every instruction set, with the same bits on each.
//!
//! A value of an instruction set's type is a proof that the machine has it: it comes from `detect` only. `vectorize`
//! compiles a task for that set, and every method of the task that is inlined into it. No path contracts anything:
//! `add_square` is the one fused operation, exact everywhere (through `f64` where the hardware has none).
#![expect(unsafe_code, reason = "vector instructions, behind types that prove that the machine has them")]

/// A computation that runs on the vectors of any instruction set.
pub(super) trait Task {
    type Output;

    /// Must be `#[inline(always)]`, and so must all that it calls with vectors, or it is compiled without the
    /// instruction set, several times slower. A closure cannot be marked so: use a function.
    fn run<S: Simd>(self, simd: S) -> Self::Output;
}

/// An instruction set that this machine has.
pub(super) trait Simd: Copy {
    /// Numbers in a vector: 8 or 16.
    const LANES: usize;
    type Vector: Copy;

    /// Runs `task` compiled for this instruction set.
    fn vectorize<T: Task>(self, task: T) -> T::Output;
    fn splat(self, value: f32) -> Self::Vector;
    /// The first `LANES` numbers of `from`.
    fn load(self, from: &[f32]) -> Self::Vector;
    /// Into the first `LANES` numbers of `to`.
    fn store(self, vector: Self::Vector, to: &mut [f32]);
    fn add(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    fn subtract(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// `t * t + sum`, rounded once.
    fn add_square(self, sum: Self::Vector, t: Self::Vector) -> Self::Vector;
    fn abs(self, a: Self::Vector) -> Self::Vector;
    fn min(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    fn max(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// Per lane `then` where a < b, else `otherwise`.
    fn select_less(
        self,
        a: Self::Vector,
        b: Self::Vector,
        then: Self::Vector,
        otherwise: Self::Vector,
    ) -> Self::Vector;
    /// One bit per lane, set where a < b.
    fn less(self, a: Self::Vector, b: Self::Vector) -> u32;
    /// One bit per lane, set where a <= b.
    fn less_equal(self, a: Self::Vector, b: Self::Vector) -> u32;
}

/// Plain Rust, for every machine.
#[derive(Clone, Copy, Debug)]
pub(super) struct Portable;

impl Simd for Portable {
    const LANES: usize = 8;
    type Vector = [f32; 8];

    #[inline(always)]
    fn vectorize<T: Task>(self, task: T) -> T::Output {
        task.run(self)
    }

    #[inline(always)]
    fn splat(self, value: f32) -> [f32; 8] {
        [value; 8]
    }

    #[inline(always)]
    fn load(self, from: &[f32]) -> [f32; 8] {
        *from.first_chunk().expect("eight numbers")
    }

    #[inline(always)]
    fn store(self, vector: [f32; 8], to: &mut [f32]) {
        to[..8].copy_from_slice(&vector);
    }

    #[inline(always)]
    fn add(self, a: [f32; 8], b: [f32; 8]) -> [f32; 8] {
        std::array::from_fn(|i| a[i] + b[i])
    }

    #[inline(always)]
    fn subtract(self, a: [f32; 8], b: [f32; 8]) -> [f32; 8] {
        std::array::from_fn(|i| a[i] - b[i])
    }

    #[inline(always)]
    fn add_square(self, sum: [f32; 8], t: [f32; 8]) -> [f32; 8] {
        std::array::from_fn(|i| add_square(sum[i], t[i]))
    }

    #[inline(always)]
    fn abs(self, a: [f32; 8]) -> [f32; 8] {
        a.map(f32::abs)
    }

    #[inline(always)]
    fn min(self, a: [f32; 8], b: [f32; 8]) -> [f32; 8] {
        std::array::from_fn(|i| if a[i] < b[i] { a[i] } else { b[i] })
    }

    #[inline(always)]
    fn max(self, a: [f32; 8], b: [f32; 8]) -> [f32; 8] {
        std::array::from_fn(|i| if a[i] > b[i] { a[i] } else { b[i] })
    }

    #[inline(always)]
    fn select_less(self, a: [f32; 8], b: [f32; 8], then: [f32; 8], otherwise: [f32; 8]) -> [f32; 8] {
        std::array::from_fn(|i| if a[i] < b[i] { then[i] } else { otherwise[i] })
    }

    #[inline(always)]
    fn less(self, a: [f32; 8], b: [f32; 8]) -> u32 {
        (0..8).fold(0, |bits, i| bits | u32::from(a[i] < b[i]) << i)
    }

    #[inline(always)]
    fn less_equal(self, a: [f32; 8], b: [f32; 8]) -> u32 {
        (0..8).fold(0, |bits, i| bits | u32::from(a[i] <= b[i]) << i)
    }
}

/// `t * t + sum` rounded once, for `sum` of 0 or more: `t.mul_add(t, sum)`, which without hardware is a slow call.
#[inline(always)]
fn add_square(sum: f32, t: f32) -> f32 {
    if cfg!(any(target_feature = "fma", target_arch = "aarch64")) {
        return t.mul_add(t, sum);
    }
    // The square is exact in an f64, and `error` is exactly what the rounded sum lacks (Knuth's two-sum). A sum rounded
    // to odd instead of to nearest keeps enough of what was cut off for the second rounding to be the right one
    // (Boldo and Melquiond 2008); infinities give no comparable error and stay as they are.
    let (square, sum) = (f64::from(t) * f64::from(t), f64::from(sum));
    let total = square + sum;
    let part = total - square;
    let error = (square - (total - part)) + (sum - part);
    let bits = total.to_bits();
    let even = 1 - (bits & 1);
    let odd = bits + if error > 0.0 { even } else { 0 } - if error < 0.0 { even } else { 0 };
    f64::from_bits(odd) as f32
}

#[cfg(target_arch = "x86_64")]
pub(super) use x86::{Avx2, Avx512};

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::{Simd, Task};

    /// AVX2 with FMA.
    #[derive(Clone, Copy, Debug)]
    pub(in super::super) struct Avx2(());

    /// The foundation of AVX-512, above AVX2 and FMA.
    #[derive(Clone, Copy, Debug)]
    pub(in super::super) struct Avx512(());

    impl Avx2 {
        pub(in super::super) fn detect() -> Option<Self> {
            let found = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
            found.then_some(Self(()))
        }
    }

    impl Avx512 {
        pub(in super::super) fn detect() -> Option<Self> {
            (Avx2::detect().is_some() && is_x86_feature_detected!("avx512f")).then_some(Self(()))
        }
    }

    #[target_feature(enable = "avx2,fma")]
    fn run_avx2<T: Task>(simd: Avx2, task: T) -> T::Output {
        task.run(simd)
    }

    #[target_feature(enable = "avx512f,avx2,fma")]
    fn run_avx512<T: Task>(simd: Avx512, task: T) -> T::Output {
        task.run(simd)
    }

    /// One intrinsic, of a set that `self` proves.
    macro_rules! intrinsic {
        ($call:expr) => {{
            // SAFETY: a value of this type exists only where `detect` found every feature that the intrinsic needs.
            unsafe { $call }
        }};
    }

    impl Simd for Avx2 {
        const LANES: usize = 8;
        type Vector = __m256;

        #[inline(always)]
        fn vectorize<T: Task>(self, task: T) -> T::Output {
            intrinsic!(run_avx2(self, task))
        }

        #[inline(always)]
        fn splat(self, value: f32) -> __m256 {
            intrinsic!(_mm256_set1_ps(value))
        }

        #[inline(always)]
        fn load(self, from: &[f32]) -> __m256 {
            let from: &[f32; 8] = from.first_chunk().expect("eight numbers");
            // SAFETY: as above, and `from` has the eight numbers that are read.
            unsafe { _mm256_loadu_ps(from.as_ptr()) }
        }

        #[inline(always)]
        fn store(self, vector: __m256, to: &mut [f32]) {
            let to: &mut [f32; 8] = to.first_chunk_mut().expect("eight numbers");
            // SAFETY: as above, and `to` has the eight numbers that are written.
            unsafe { _mm256_storeu_ps(to.as_mut_ptr(), vector) }
        }

        #[inline(always)]
        fn add(self, a: __m256, b: __m256) -> __m256 {
            intrinsic!(_mm256_add_ps(a, b))
        }

        #[inline(always)]
        fn subtract(self, a: __m256, b: __m256) -> __m256 {
            intrinsic!(_mm256_sub_ps(a, b))
        }

        #[inline(always)]
        fn add_square(self, sum: __m256, t: __m256) -> __m256 {
            intrinsic!(_mm256_fmadd_ps(t, t, sum))
        }

        #[inline(always)]
        fn abs(self, a: __m256) -> __m256 {
            intrinsic!(_mm256_andnot_ps(_mm256_set1_ps(-0.0), a))
        }

        #[inline(always)]
        fn min(self, a: __m256, b: __m256) -> __m256 {
            intrinsic!(_mm256_min_ps(a, b))
        }

        #[inline(always)]
        fn max(self, a: __m256, b: __m256) -> __m256 {
            intrinsic!(_mm256_max_ps(a, b))
        }

        #[inline(always)]
        fn select_less(self, a: __m256, b: __m256, then: __m256, otherwise: __m256) -> __m256 {
            intrinsic!(_mm256_blendv_ps(otherwise, then, _mm256_cmp_ps::<_CMP_LT_OQ>(a, b)))
        }

        #[inline(always)]
        fn less(self, a: __m256, b: __m256) -> u32 {
            intrinsic!(_mm256_movemask_ps(_mm256_cmp_ps::<_CMP_LT_OQ>(a, b))) as u32
        }

        #[inline(always)]
        fn less_equal(self, a: __m256, b: __m256) -> u32 {
            intrinsic!(_mm256_movemask_ps(_mm256_cmp_ps::<_CMP_LE_OQ>(a, b))) as u32
        }
    }

    impl Simd for Avx512 {
        const LANES: usize = 16;
        type Vector = __m512;

        #[inline(always)]
        fn vectorize<T: Task>(self, task: T) -> T::Output {
            intrinsic!(run_avx512(self, task))
        }

        #[inline(always)]
        fn splat(self, value: f32) -> __m512 {
            intrinsic!(_mm512_set1_ps(value))
        }

        #[inline(always)]
        fn load(self, from: &[f32]) -> __m512 {
            let from: &[f32; 16] = from.first_chunk().expect("sixteen numbers");
            // SAFETY: as above, and `from` has the sixteen numbers that are read.
            unsafe { _mm512_loadu_ps(from.as_ptr()) }
        }

        #[inline(always)]
        fn store(self, vector: __m512, to: &mut [f32]) {
            let to: &mut [f32; 16] = to.first_chunk_mut().expect("sixteen numbers");
            // SAFETY: as above, and `to` has the sixteen numbers that are written.
            unsafe { _mm512_storeu_ps(to.as_mut_ptr(), vector) }
        }

        #[inline(always)]
        fn add(self, a: __m512, b: __m512) -> __m512 {
            intrinsic!(_mm512_add_ps(a, b))
        }

        #[inline(always)]
        fn subtract(self, a: __m512, b: __m512) -> __m512 {
            intrinsic!(_mm512_sub_ps(a, b))
        }

        #[inline(always)]
        fn add_square(self, sum: __m512, t: __m512) -> __m512 {
            intrinsic!(_mm512_fmadd_ps(t, t, sum))
        }

        #[inline(always)]
        fn abs(self, a: __m512) -> __m512 {
            intrinsic!(_mm512_abs_ps(a))
        }

        #[inline(always)]
        fn min(self, a: __m512, b: __m512) -> __m512 {
            intrinsic!(_mm512_min_ps(a, b))
        }

        #[inline(always)]
        fn max(self, a: __m512, b: __m512) -> __m512 {
            intrinsic!(_mm512_max_ps(a, b))
        }

        #[inline(always)]
        fn select_less(self, a: __m512, b: __m512, then: __m512, otherwise: __m512) -> __m512 {
            intrinsic!(_mm512_mask_blend_ps(_mm512_cmp_ps_mask::<_CMP_LT_OQ>(a, b), otherwise, then))
        }

        #[inline(always)]
        fn less(self, a: __m512, b: __m512) -> u32 {
            u32::from(intrinsic!(_mm512_cmp_ps_mask::<_CMP_LT_OQ>(a, b)))
        }

        #[inline(always)]
        fn less_equal(self, a: __m512, b: __m512) -> u32 {
            u32::from(intrinsic!(_mm512_cmp_ps_mask::<_CMP_LE_OQ>(a, b)))
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(sum: f32, t: f32) {
        assert_eq!(add_square(sum, t).to_bits(), t.mul_add(t, sum).to_bits(), "{sum} + {t}^2");
    }

    #[test]
    fn halves_and_infinities_round_once() {
        // The square is the middle of two f32, and the sum is lost in an f64: rounding twice would go to even.
        let (sum, t) = (f32::from_bits(0x2180_0000), f32::from_bits(0x3f80_0800));
        assert_ne!((f64::from(t) * f64::from(t) + f64::from(sum)) as f32, t.mul_add(t, sum));
        check(sum, t);
        check(0.0, f32::INFINITY);
        check(f32::INFINITY, f32::INFINITY);
        check(f32::INFINITY, 1.0);
        check(0.0, 0.0);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 20 } else { 20_000 }))]

        #[test]
        fn the_sum_of_a_square_rounds_once(sum in 0_u32..0x7f80_0000, t in any::<u32>(), shift in 0_u32..64) {
            let t = f32::from_bits(t);
            if !t.is_nan() {
                check(f32::from_bits(sum), t);
                // Sums of like size, where most bits overlap.
                let near = (t * t).to_bits().saturating_sub(shift << 22);
                check(f32::from_bits(near), t);
            }
        }
    }
}
