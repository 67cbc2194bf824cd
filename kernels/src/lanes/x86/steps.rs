//! The operations of tables of costs in AVX2 and AVX-512.
//!
//! Numbers of 16 bits take 256-bit vectors on both paths: wider ones need instructions beyond AVX-512 F.

use std::arch::x86_64::*;

use super::{Avx2, Avx512};
use crate::lanes::steps::Steps;

/// Implements the operations for vectors of 256 bits that hold whole numbers.
macro_rules! whole {
    (
        $path:ty, $number:ty, $width:literal, $signed:ty, $every:ident, $plus:ident, $minus:expr, $lesser:ident,
        $greater:ident, $equal:ident, $bytes:literal, $last:ident, [$($shift:literal),*], $repeat:expr
    ) => {
        impl Steps<$number> for $path {
            const WIDTH: usize = $width;
            type T = __m256i;

            #[inline(always)]
            fn every(self, x: $number) -> __m256i {
                // SAFETY: self proves AVX2.
                unsafe { $every(x as $signed) }
            }
            #[inline(always)]
            fn take(self, from: &[$number]) -> __m256i {
                let from: &[$number; $width] = from.first_chunk().expect("a whole vector");
                // SAFETY: self proves AVX2, and the reference as many readable numbers.
                unsafe { _mm256_loadu_si256(from.as_ptr().cast()) }
            }
            #[inline(always)]
            fn put(self, x: __m256i, to: &mut [$number]) {
                let to: &mut [$number; $width] = to.first_chunk_mut().expect("a whole vector");
                // SAFETY: self proves AVX2, and the reference as many writable numbers.
                unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), x) }
            }
            #[inline(always)]
            fn plus(self, a: __m256i, b: __m256i) -> __m256i {
                // SAFETY: self proves AVX2.
                unsafe { $plus(a, b) }
            }
            #[inline(always)]
            fn minus(self, a: __m256i, b: __m256i) -> __m256i {
                // SAFETY: self proves AVX2.
                unsafe { $minus(a, b) }
            }
            #[inline(always)]
            fn lesser(self, a: __m256i, b: __m256i) -> __m256i {
                // SAFETY: self proves AVX2.
                unsafe { $lesser(a, b) }
            }
            #[inline(always)]
            fn greater(self, a: __m256i, b: __m256i) -> __m256i {
                // SAFETY: self proves AVX2.
                unsafe { $greater(a, b) }
            }
            #[inline(always)]
            fn unequal(self, a: __m256i, b: __m256i, x: __m256i) -> __m256i {
                // SAFETY: self proves AVX2.
                unsafe { _mm256_andnot_si256($equal(a, b), x) }
            }
            #[inline(always)]
            fn choose(self, mask: __m256i, a: __m256i, b: __m256i) -> __m256i {
                // SAFETY: self proves AVX2.
                unsafe { _mm256_blendv_epi8(b, a, mask) }
            }
            #[inline(always)]
            fn shifted(self, a: __m256i, first: $number) -> __m256i {
                let first = self.every(first);
                // The low half of each, so that each half of `a` has its predecessor beside it.
                // SAFETY: self proves AVX2.
                unsafe { _mm256_alignr_epi8::<$bytes>(a, _mm256_permute2x128_si256::<0x20>(first, a)) }
            }
            #[inline(always)]
            fn greatest_so_far(self, mut a: __m256i) -> __m256i {
                // SAFETY: self proves AVX2.
                unsafe {
                    $(a = $greater(a, _mm256_slli_si256::<$shift>(a));)*
                    // The largest number of the low half, in all places of the high one.
                    let low = _mm256_permute2x128_si256::<0x08>(a, a);
                    $greater(a, _mm256_shuffle_epi8(low, $repeat))
                }
            }
            #[inline(always)]
            fn last(self, a: __m256i) -> $number {
                // SAFETY: self proves AVX2.
                unsafe { $last::<{ $width - 1 }>(a) as $number }
            }
        }
    };
}

macro_rules! halves {
    ($path:ty) => {
        whole!(
            $path,
            u16,
            16,
            i16,
            _mm256_set1_epi16,
            _mm256_adds_epu16,
            _mm256_subs_epu16,
            _mm256_min_epu16,
            _mm256_max_epu16,
            _mm256_cmpeq_epi16,
            14,
            _mm256_extract_epi16,
            [2, 4, 8],
            _mm256_set1_epi16(0x0f0e)
        );
    };
}
halves!(Avx2);
halves!(Avx512);

whole!(
    Avx2,
    u32,
    8,
    i32,
    _mm256_set1_epi32,
    _mm256_add_epi32,
    |a, b| _mm256_sub_epi32(_mm256_max_epu32(a, b), b),
    _mm256_min_epu32,
    _mm256_max_epu32,
    _mm256_cmpeq_epi32,
    12,
    _mm256_extract_epi32,
    [4, 8],
    _mm256_set1_epi32(0x0f0e_0d0c)
);

impl Steps<f32> for Avx2 {
    const WIDTH: usize = 8;
    type T = __m256;

    #[inline(always)]
    fn every(self, x: f32) -> __m256 {
        // SAFETY: self proves AVX.
        unsafe { _mm256_set1_ps(x) }
    }
    #[inline(always)]
    fn take(self, from: &[f32]) -> __m256 {
        let from: &[f32; 8] = from.first_chunk().expect("a whole vector");
        // SAFETY: self proves AVX, and the reference eight readable numbers.
        unsafe { _mm256_loadu_ps(from.as_ptr()) }
    }
    #[inline(always)]
    fn put(self, x: __m256, to: &mut [f32]) {
        let to: &mut [f32; 8] = to.first_chunk_mut().expect("a whole vector");
        // SAFETY: self proves AVX, and the reference eight writable numbers.
        unsafe { _mm256_storeu_ps(to.as_mut_ptr(), x) }
    }
    #[inline(always)]
    fn plus(self, a: __m256, b: __m256) -> __m256 {
        // SAFETY: self proves AVX.
        unsafe { _mm256_add_ps(a, b) }
    }
    #[inline(always)]
    fn minus(self, a: __m256, b: __m256) -> __m256 {
        // SAFETY: self proves AVX.
        unsafe { _mm256_sub_ps(a, b) }
    }
    #[inline(always)]
    fn lesser(self, a: __m256, b: __m256) -> __m256 {
        // SAFETY: self proves AVX.
        unsafe { _mm256_min_ps(a, b) }
    }
    #[inline(always)]
    fn greater(self, a: __m256, b: __m256) -> __m256 {
        // SAFETY: self proves AVX.
        unsafe { _mm256_max_ps(a, b) }
    }
    #[inline(always)]
    fn unequal(self, a: __m256, b: __m256, x: __m256) -> __m256 {
        // SAFETY: self proves AVX2.
        unsafe {
            let is_equal = _mm256_cmpeq_epi32(_mm256_castps_si256(a), _mm256_castps_si256(b));
            _mm256_andnot_ps(_mm256_castsi256_ps(is_equal), x)
        }
    }
    #[inline(always)]
    fn choose(self, mask: __m256, a: __m256, b: __m256) -> __m256 {
        // SAFETY: self proves AVX.
        unsafe { _mm256_blendv_ps(b, a, mask) }
    }
    #[inline(always)]
    fn shifted(self, a: __m256, first: f32) -> __m256 {
        // SAFETY: self proves AVX2.
        unsafe {
            let (a, first) = (_mm256_castps_si256(a), _mm256_castps_si256(_mm256_set1_ps(first)));
            let before = _mm256_permute2x128_si256::<0x20>(first, a);
            _mm256_castsi256_ps(_mm256_alignr_epi8::<12>(a, before))
        }
    }
    #[inline(always)]
    fn last(self, a: __m256) -> f32 {
        // SAFETY: self proves AVX2.
        f32::from_bits(unsafe { _mm256_extract_epi32::<7>(_mm256_castps_si256(a)) } as u32)
    }
}

/// The choice of bits: those of the second operand where the first one is set, else those of the third.
const CHOICE: i32 = 0xca;

impl Steps<u32> for Avx512 {
    const WIDTH: usize = 16;
    type T = __m512i;

    #[inline(always)]
    fn every(self, x: u32) -> __m512i {
        // SAFETY: self proves AVX-512 F.
        unsafe { _mm512_set1_epi32(x as i32) }
    }
    #[inline(always)]
    fn take(self, from: &[u32]) -> __m512i {
        let from: &[u32; 16] = from.first_chunk().expect("a whole vector");
        // SAFETY: self proves AVX-512 F, and the reference sixteen readable numbers.
        unsafe { _mm512_loadu_si512(from.as_ptr().cast()) }
    }
    #[inline(always)]
    fn put(self, x: __m512i, to: &mut [u32]) {
        let to: &mut [u32; 16] = to.first_chunk_mut().expect("a whole vector");
        // SAFETY: self proves AVX-512 F, and the reference sixteen writable numbers.
        unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), x) }
    }
    #[inline(always)]
    fn plus(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: self proves AVX-512 F.
        unsafe { _mm512_add_epi32(a, b) }
    }
    #[inline(always)]
    fn minus(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: self proves AVX-512 F.
        unsafe { _mm512_sub_epi32(_mm512_max_epu32(a, b), b) }
    }
    #[inline(always)]
    fn lesser(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: self proves AVX-512 F.
        unsafe { _mm512_min_epu32(a, b) }
    }
    #[inline(always)]
    fn greater(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: self proves AVX-512 F.
        unsafe { _mm512_max_epu32(a, b) }
    }
    #[inline(always)]
    fn unequal(self, a: __m512i, b: __m512i, x: __m512i) -> __m512i {
        // SAFETY: self proves AVX-512 F.
        unsafe { _mm512_maskz_mov_epi32(_mm512_cmpneq_epi32_mask(a, b), x) }
    }
    #[inline(always)]
    fn choose(self, mask: __m512i, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: self proves AVX-512 F.
        unsafe { _mm512_ternarylogic_epi32::<CHOICE>(mask, a, b) }
    }
    #[inline(always)]
    fn shifted(self, a: __m512i, first: u32) -> __m512i {
        // SAFETY: self proves AVX-512 F.
        unsafe { _mm512_alignr_epi32::<15>(a, _mm512_set1_epi32(first as i32)) }
    }
    #[inline(always)]
    fn greatest_so_far(self, a: __m512i) -> __m512i {
        // SAFETY: self proves AVX-512 F.
        unsafe {
            let none = _mm512_setzero_si512();
            let a = _mm512_max_epu32(a, _mm512_alignr_epi32::<15>(a, none));
            let a = _mm512_max_epu32(a, _mm512_alignr_epi32::<14>(a, none));
            let a = _mm512_max_epu32(a, _mm512_alignr_epi32::<12>(a, none));
            _mm512_max_epu32(a, _mm512_alignr_epi32::<8>(a, none))
        }
    }
    #[inline(always)]
    fn last(self, a: __m512i) -> u32 {
        // SAFETY: self proves AVX-512 F and AVX2.
        unsafe { _mm256_extract_epi32::<7>(_mm512_extracti64x4_epi64::<1>(a)) as u32 }
    }
}

impl Steps<f32> for Avx512 {
    const WIDTH: usize = 16;
    type T = __m512;

    #[inline(always)]
    fn every(self, x: f32) -> __m512 {
        // SAFETY: self proves AVX-512 F.
        unsafe { _mm512_set1_ps(x) }
    }
    #[inline(always)]
    fn take(self, from: &[f32]) -> __m512 {
        let from: &[f32; 16] = from.first_chunk().expect("a whole vector");
        // SAFETY: self proves AVX-512 F, and the reference sixteen readable numbers.
        unsafe { _mm512_loadu_ps(from.as_ptr()) }
    }
    #[inline(always)]
    fn put(self, x: __m512, to: &mut [f32]) {
        let to: &mut [f32; 16] = to.first_chunk_mut().expect("a whole vector");
        // SAFETY: self proves AVX-512 F, and the reference sixteen writable numbers.
        unsafe { _mm512_storeu_ps(to.as_mut_ptr(), x) }
    }
    #[inline(always)]
    fn plus(self, a: __m512, b: __m512) -> __m512 {
        // SAFETY: self proves AVX-512 F.
        unsafe { _mm512_add_ps(a, b) }
    }
    #[inline(always)]
    fn minus(self, a: __m512, b: __m512) -> __m512 {
        // SAFETY: self proves AVX-512 F.
        unsafe { _mm512_sub_ps(a, b) }
    }
    #[inline(always)]
    fn lesser(self, a: __m512, b: __m512) -> __m512 {
        // SAFETY: self proves AVX-512 F.
        unsafe { _mm512_min_ps(a, b) }
    }
    #[inline(always)]
    fn greater(self, a: __m512, b: __m512) -> __m512 {
        // SAFETY: self proves AVX-512 F.
        unsafe { _mm512_max_ps(a, b) }
    }
    #[inline(always)]
    fn unequal(self, a: __m512, b: __m512, x: __m512) -> __m512 {
        // SAFETY: self proves AVX-512 F.
        unsafe {
            let differ = _mm512_cmpneq_epi32_mask(_mm512_castps_si512(a), _mm512_castps_si512(b));
            _mm512_maskz_mov_ps(differ, x)
        }
    }
    #[inline(always)]
    fn choose(self, mask: __m512, a: __m512, b: __m512) -> __m512 {
        // SAFETY: self proves AVX-512 F.
        unsafe {
            let [mask, a, b] = [_mm512_castps_si512(mask), _mm512_castps_si512(a), _mm512_castps_si512(b)];
            _mm512_castsi512_ps(_mm512_ternarylogic_epi32::<CHOICE>(mask, a, b))
        }
    }
    #[inline(always)]
    fn shifted(self, a: __m512, first: f32) -> __m512 {
        // SAFETY: self proves AVX-512 F.
        unsafe {
            let first = _mm512_castps_si512(_mm512_set1_ps(first));
            _mm512_castsi512_ps(_mm512_alignr_epi32::<15>(_mm512_castps_si512(a), first))
        }
    }
    #[inline(always)]
    fn last(self, a: __m512) -> f32 {
        // SAFETY: self proves AVX-512 F and AVX2.
        unsafe {
            let high = _mm512_extracti64x4_epi64::<1>(_mm512_castps_si512(a));
            f32::from_bits(_mm256_extract_epi32::<7>(high) as u32)
        }
    }
}
