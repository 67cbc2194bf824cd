//! The vector operations that the inner loop uses, and their portable implementation.
//!
//! Invariant: lanes never mix. Lane `j` of a result depends only on lane `j` of the operands, so the sum of a centroid does
//! not depend on the lane that the centroid is in.

/// Smaller exponents are replaced by this one. The error is below 1e-30, and no operation meets a subnormal number.
pub(super) const EXPONENT_MIN: f32 = -100.0;

/// Bound on the relative error of [`Lanes::exp2`] on every path: 1.6e-7 from the polynomial and 2e-7 from rounding. A
/// device's `native_exp2` stays within it: its error is 3 units in the last place if it is the plain `exp2`, and 2^-22.5
/// in NVIDIA's special-function unit.
pub(super) const EXP2_RELATIVE_ERROR: f64 = 4.0e-7;

/// Minimax polynomial of 2^f for f in -1/2..1/2, lowest power first.
pub(super) const EXP2_NEAREST: [f32; 6] =
    [1.000_000_1, 0.693_146_94, 0.240_221_2, 0.055_507_13, 0.009_675_541, 0.001_327_647_2];

/// Adding this rounds to an integer and leaves it in the low bits of the sum.
pub(super) const ROUND: f32 = 12_582_912.0;
const _: () = assert!(ROUND == 1.5 * (1 << 23) as f32);

/// The vector operations of one instruction set. A value proves that the machine has the instructions.
pub(super) trait Lanes: Copy {
    /// Numbers in a vector.
    const COUNT: usize;
    /// A vector.
    type V: Copy;

    fn splat(self, x: f32) -> Self::V;
    /// Returns the numbers so that the compiler does not know that it has loaded them before. Otherwise it would load the
    /// numbers that a loop needs in every round before the loop, and move them to the stack when registers run out.
    fn reload(self, from: &[f32]) -> &[f32];
    /// The first `COUNT` numbers of a slice, which must have as many.
    fn load(self, from: &[f32]) -> Self::V;
    fn store(self, x: Self::V, to: &mut [f32]);
    fn add(self, a: Self::V, b: Self::V) -> Self::V;
    fn sub(self, a: Self::V, b: Self::V) -> Self::V;
    fn mul(self, a: Self::V, b: Self::V) -> Self::V;
    fn div(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a * b + c`, rounded once or twice.
    fn mul_add(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    fn abs(self, a: Self::V) -> Self::V;
    fn sqrt(self, a: Self::V) -> Self::V;
    /// 2 to the power of the larger of `a` and [`EXPONENT_MIN`], for `a < 127`. A NaN counts as [`EXPONENT_MIN`].
    ///
    /// Takes four vectors at once, step by step. One vector after the other would fill the processor's instruction window
    /// with a chain of dependent operations, and leave its units idle.
    fn exp2(self, a: [Self::V; 4]) -> [Self::V; 4];
}

/// Work that is compiled separately for the instructions of each code path. To be compiled so, `run` and everything that
/// it calls must be `#[inline(always)]`.
pub(super) trait Work {
    /// The result.
    type Done;

    /// Does the work with these operations.
    fn run<L: Lanes>(self, lanes: L) -> Self::Done;
}

/// Four lanes in plain Rust: the width of the smallest vector unit on both x86-64 and AArch64.
#[derive(Clone, Copy)]
pub(super) struct Portable;

const COUNT: usize = 4;

#[inline(always)]
fn zip(a: [f32; COUNT], b: [f32; COUNT], f: impl Fn(f32, f32) -> f32) -> [f32; COUNT] {
    std::array::from_fn(|lane| f(a[lane], b[lane]))
}

impl Lanes for Portable {
    const COUNT: usize = COUNT;
    type V = [f32; COUNT];

    #[inline(always)]
    fn splat(self, x: f32) -> Self::V {
        [x; COUNT]
    }
    #[inline(always)]
    fn reload(self, from: &[f32]) -> &[f32] {
        from
    }
    #[inline(always)]
    fn load(self, from: &[f32]) -> Self::V {
        *from.first_chunk().expect("a whole vector")
    }
    #[inline(always)]
    fn store(self, x: Self::V, to: &mut [f32]) {
        *to.first_chunk_mut().expect("a whole vector") = x;
    }
    #[inline(always)]
    fn add(self, a: Self::V, b: Self::V) -> Self::V {
        zip(a, b, |a, b| a + b)
    }
    #[inline(always)]
    fn sub(self, a: Self::V, b: Self::V) -> Self::V {
        zip(a, b, |a, b| a - b)
    }
    #[inline(always)]
    fn mul(self, a: Self::V, b: Self::V) -> Self::V {
        zip(a, b, |a, b| a * b)
    }
    #[inline(always)]
    fn div(self, a: Self::V, b: Self::V) -> Self::V {
        zip(a, b, |a, b| a / b)
    }
    // Not f32::mul_add, which is a function call on machines without the instruction.
    #[inline(always)]
    fn mul_add(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V {
        self.add(self.mul(a, b), c)
    }
    #[inline(always)]
    fn abs(self, a: Self::V) -> Self::V {
        a.map(f32::abs)
    }
    #[inline(always)]
    fn sqrt(self, a: Self::V) -> Self::V {
        a.map(f32::sqrt)
    }
    #[inline(always)]
    fn exp2(self, mut a: [Self::V; 4]) -> [Self::V; 4] {
        for a in &mut a {
            *a = self.exp2_one(*a);
        }
        a
    }
}

impl Portable {
    #[inline(always)]
    fn exp2_one(self, a: [f32; COUNT]) -> [f32; COUNT] {
        let a = a.map(|a| if a > EXPONENT_MIN { a } else { EXPONENT_MIN });
        let rounded = self.add(a, self.splat(ROUND));
        let fraction = self.sub(a, self.sub(rounded, self.splat(ROUND)));
        let mut power = self.splat(EXP2_NEAREST[5]);
        for &coefficient in EXP2_NEAREST[..5].iter().rev() {
            power = self.mul_add(power, fraction, self.splat(coefficient));
        }
        std::array::from_fn(|lane| {
            f32::from_bits(power[lane].to_bits().wrapping_add(rounded[lane].to_bits() << 23))
        })
    }
}
