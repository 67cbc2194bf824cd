//! The operations of products of tiles in AVX2 and AVX-512.

use std::arch::x86_64::*;

use super::{Avx2, Avx512};
use crate::lanes::fused::Fused;

macro_rules! fused {
    (
        $path:ty, $number:ty, $width:literal, $many:literal, $vector:ty,
        $fill:ident, $read:ident, $write:ident, $times:ident, $lose:ident
    ) => {
        impl Fused<$number> for $path {
            const WIDTH: usize = $width;
            const MANY: bool = $many;
            type W = $vector;

            #[inline(always)]
            fn fill(self, x: $number) -> $vector {
                // SAFETY: self proves the vectors.
                unsafe { $fill(x) }
            }
            #[inline(always)]
            fn read(self, from: &[$number]) -> $vector {
                let from: &[$number; $width] = from.first_chunk().expect("a whole vector");
                // SAFETY: self proves the vectors, and the reference as many readable numbers.
                unsafe { $read(from.as_ptr()) }
            }
            #[inline(always)]
            fn write(self, x: $vector, to: &mut [$number]) {
                let to: &mut [$number; $width] = to.first_chunk_mut().expect("a whole vector");
                // SAFETY: self proves the vectors, and the reference as many writable numbers.
                unsafe { $write(to.as_mut_ptr(), x) }
            }
            #[inline(always)]
            fn times(self, a: $vector, b: $vector) -> $vector {
                // SAFETY: self proves the vectors.
                unsafe { $times(a, b) }
            }
            #[inline(always)]
            fn lose(self, c: $vector, a: $vector, b: $vector) -> $vector {
                // SAFETY: self proves the vectors, and FMA.
                unsafe { $lose(a, b, c) }
            }
        }
    };
}

fused!(
    Avx2,
    f64,
    4,
    false,
    __m256d,
    _mm256_set1_pd,
    _mm256_loadu_pd,
    _mm256_storeu_pd,
    _mm256_mul_pd,
    _mm256_fnmadd_pd
);
fused!(
    Avx2,
    f32,
    8,
    false,
    __m256,
    _mm256_set1_ps,
    _mm256_loadu_ps,
    _mm256_storeu_ps,
    _mm256_mul_ps,
    _mm256_fnmadd_ps
);
fused!(
    Avx512,
    f64,
    8,
    true,
    __m512d,
    _mm512_set1_pd,
    _mm512_loadu_pd,
    _mm512_storeu_pd,
    _mm512_mul_pd,
    _mm512_fnmadd_pd
);
fused!(
    Avx512,
    f32,
    16,
    true,
    __m512,
    _mm512_set1_ps,
    _mm512_loadu_ps,
    _mm512_storeu_ps,
    _mm512_mul_ps,
    _mm512_fnmadd_ps
);
