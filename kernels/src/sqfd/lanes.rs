//! The few vector operations that the inner loop is written over, and their portable twin.
//!
//! Lanes never mix: lane `j` of a result depends on lane `j` of the operands alone, so a sum does not depend on
//! where in a vector its centroid happened to lie.

/// Exponents below this count as this: what is lost is less than 1e-30, and no operation meets a subnormal.
pub(super) const EXPONENT_MIN: f32 = -100.0;

/// Bound on the relative error of [`Lanes::exp2`] on every path: 1.6e-7 of the polynomial, 2e-7 of rounding. A device's
/// `native_exp2` is within it: 3 units in the last place, where it is the plain one, and 2^-22.5 by NVIDIA's unit.
pub(super) const EXP2_RELATIVE_ERROR: f64 = 4.0e-7;

/// Minimax polynomial of 2^f for f in -1/2..1/2, lowest power first.
pub(super) const EXP2_NEAREST: [f32; 6] =
    [1.000_000_1, 0.693_146_94, 0.240_221_2, 0.055_507_13, 0.009_675_541, 0.001_327_647_2];

/// Adding it rounds to an integer, which then stands in the low bits of the sum.
pub(super) const ROUND: f32 = 12_582_912.0;
const _: () = assert!(ROUND == 1.5 * (1 << 23) as f32);

/// Vector operations of one instruction set; the value is the proof that the instructions exist.
pub(super) trait Lanes: Copy {
    /// Numbers in a vector.
    const COUNT: usize;
    /// A vector.
    type V: Copy;

    fn splat(self, x: f32) -> Self::V;
    /// The first `COUNT` numbers of a slice that has as many.
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
    /// 2 to the power of the larger of `a` and [`EXPONENT_MIN`]; a NaN counts as the latter. `a < 127`.
    ///
    /// Of four vectors step by step: one after the other their chains of dependent operations would fill the
    /// processor's window, and it would find too little to do at a time.
    fn exp2(self, a: [Self::V; 4]) -> [Self::V; 4];
}

/// What is compiled for the instructions of each code path. Its loops are inlined whole, so `run` and all that it calls
/// are `#[inline(always)]`.
pub(super) trait Work {
    /// What comes of it.
    type Done;

    /// Does it by these operations.
    fn run<L: Lanes>(self, lanes: L) -> Self::Done;
}

/// Four lanes in plain Rust, the width of the least vector unit on both x86-64 and AArch64.
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
    // Not f32::mul_add: without the instruction that is a call for every number.
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
