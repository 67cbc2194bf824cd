//! Vectors of one kind of number for products of tiles.
//!
//! Invariant: a lane of a result depends on that lane of the operands alone.

use super::Portable;

/// The vector operations of a product of tiles. A value proves that the machine has the instructions.
pub(crate) trait Fused<T>: Copy {
    /// Numbers in a vector.
    const WIDTH: usize;
    /// Whether 16 sums stay in registers beside their operands; else 8 do.
    const MANY: bool;
    /// A vector.
    type W: Copy;

    /// The number in every lane.
    fn fill(self, x: T) -> Self::W;
    /// The first `WIDTH` numbers of a slice, which must have as many.
    fn read(self, from: &[T]) -> Self::W;
    /// Writes the first `WIDTH` numbers of a slice, which must have as many.
    fn write(self, x: Self::W, to: &mut [T]);
    /// `a * b`.
    fn times(self, a: Self::W, b: Self::W) -> Self::W;
    /// `c - a * b`, rounded once in AVX2 and AVX-512, twice in plain Rust, where a fused operation may be a function.
    fn lose(self, c: Self::W, a: Self::W, b: Self::W) -> Self::W;
}

macro_rules! portable {
    ($number:ty) => {
        impl Fused<$number> for Portable {
            const WIDTH: usize = 4;
            const MANY: bool = false;
            type W = [$number; 4];

            #[inline(always)]
            fn fill(self, x: $number) -> Self::W {
                [x; 4]
            }
            #[inline(always)]
            fn read(self, from: &[$number]) -> Self::W {
                *from.first_chunk().expect("a whole vector")
            }
            #[inline(always)]
            fn write(self, x: Self::W, to: &mut [$number]) {
                *to.first_chunk_mut().expect("a whole vector") = x;
            }
            #[inline(always)]
            fn times(self, mut a: Self::W, b: Self::W) -> Self::W {
                for lane in 0..4 {
                    a[lane] *= b[lane];
                }
                a
            }
            #[inline(always)]
            fn lose(self, mut c: Self::W, a: Self::W, b: Self::W) -> Self::W {
                for lane in 0..4 {
                    c[lane] -= a[lane] * b[lane];
                }
                c
            }
        }
    };
}
portable!(f64);
portable!(f32);
