//! The vector operations that inner loops use, their portable implementation, and the entry to code compiled for each path.
//!
//! Invariant: lanes never mix. Lane `j` of a result depends only on lane `j` of the operands, so a sum does not depend on
//! the lane that it is in. `add`, `sub`, `mul`, `div`, `max` and `min` are one IEEE operation each, so a loop of these has
//! the same bits on every path; `mul_add`, `exp2` and `inverse_root` have their own rounding on each path.

mod bits;
pub(crate) mod fused;
pub(crate) mod steps;
#[cfg(target_arch = "x86_64")]
mod x86;

use half::f16;

use self::fused::Fused;
use self::steps::Steps;
use crate::CodePath;
use crate::bits::Bits;

#[cfg(target_arch = "x86_64")]
pub(crate) use x86::{prefetch, prefetch_near};

/// Prefetches the slice into the nearest cache, where there is an instruction for it.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn prefetch_near<T>(_: &[T]) {}

/// Does some work with the instructions of a path.
///
/// # Panics
/// If this machine lacks them.
pub(crate) fn run<W: Work>(path: CodePath, work: W) -> W::Done {
    match path {
        CodePath::Portable => work.run(Portable),
        #[cfg(target_arch = "x86_64")]
        CodePath::Avx2 | CodePath::AvxVnni => x86::run_avx2(work),
        #[cfg(target_arch = "x86_64")]
        CodePath::Avx512 => x86::run_avx512(work),
        #[cfg(not(target_arch = "x86_64"))]
        CodePath::Avx2 | CodePath::AvxVnni | CodePath::Avx512 => {
            panic!("this machine has no {path} instructions")
        }
    }
}

/// Bound on the relative error of [`Lanes::inverse_root`] on every path: 2e-7 from the estimate of AVX2 after one step of
/// Newton's method, and the roundings of that step. OpenCL allows a device 2 units in the last place.
pub(crate) const INVERSE_ROOT_RELATIVE_ERROR: f64 = 5.0e-7;

/// Smaller exponents are replaced by this one. The error is below 1e-30, and no operation meets a subnormal number.
pub(crate) const EXPONENT_MIN: f32 = -100.0;

/// Bound on the relative error of [`Lanes::exp2`] on every path: 1.6e-7 from the polynomial and 2e-7 from rounding. A
/// device's `native_exp2` stays within it: its error is 3 units in the last place if it is the plain `exp2`, and 2^-22.5
/// in NVIDIA's special-function unit.
pub(crate) const EXP2_RELATIVE_ERROR: f64 = 4.0e-7;

/// Minimax polynomial of 2^f for f in -1/2..1/2, lowest power first.
pub(crate) const EXP2_NEAREST: [f32; 6] =
    [1.000_000_1, 0.693_146_94, 0.240_221_2, 0.055_507_13, 0.009_675_541, 0.001_327_647_2];

/// Adding this rounds to an integer and leaves it in the low bits of the sum.
pub(crate) const ROUND: f32 = 12_582_912.0;
const _: () = assert!(ROUND == 1.5 * (1 << 23) as f32);

/// The vector operations of one instruction set. A value proves that the machine has the instructions.
pub(crate) trait Lanes: Bits + Fused<f64> + Fused<f32> + Steps<u16> + Steps<u32> + Steps<f32> {
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
    /// `a * b + c` of single numbers, for loops that the compiler turns into vectors; rounded once in AVX2 and AVX-512, twice in
    /// plain Rust, where a fused operation may be a function.
    fn fused(self, a: f64, b: f64, c: f64) -> f64;
    fn abs(self, a: Self::V) -> Self::V;
    fn sqrt(self, a: Self::V) -> Self::V;
    /// `a` where it is larger than `b`, else `b`; so `b` where `a` is a NaN.
    fn max(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a` where it is smaller than `b`, else `b`; so `b` where `a` is a NaN.
    fn min(self, a: Self::V, b: Self::V) -> Self::V;
    /// The least number of a vector without NaNs.
    fn least(self, a: Self::V) -> f32;
    /// The largest number of a vector without NaNs.
    fn largest(self, a: Self::V) -> f32;
    /// Which lanes of `a` are at most those of `b`, a bit each, the first lane in the lowest; a NaN is in none.
    fn at_most(self, a: Self::V, b: Self::V) -> u32;
    /// A bit for each lane in which `a` is not above `b`; also where one of them is a NaN.
    fn not_above(self, a: Self::V, b: Self::V) -> u32;
    /// The bits of `a` that `kept` has, and those of `tag`.
    fn tagged(self, a: Self::V, kept: u32, tag: u32) -> Self::V;
    /// `1 / sqrt(a)` for a normal positive `a`, within [`INVERSE_ROOT_RELATIVE_ERROR`].
    fn inverse_root(self, a: Self::V) -> Self::V;
    /// The first `COUNT` half-precision numbers of a slice, by their bits; each is finite.
    fn load_halves(self, from: &[u16]) -> Self::V;
    /// The first `COUNT` whole numbers of a slice.
    fn load_counts(self, from: &[u16]) -> Self::V;
    /// Stores numbers from 0 to 65,535, rounded to whole ones.
    fn store_counts(self, x: Self::V, to: &mut [u16]);
    /// 2 to the power of the larger of `a` and [`EXPONENT_MIN`], for `a < 127`. A NaN counts as [`EXPONENT_MIN`].
    ///
    /// Takes four vectors at once, step by step. One vector after the other would fill the processor's instruction window
    /// with a chain of dependent operations, and leave its units idle.
    fn exp2(self, a: [Self::V; 4]) -> [Self::V; 4];
}

/// Two vectors of consecutive numbers.
#[inline(always)]
pub(crate) fn load_two<L: Lanes>(lanes: L, from: &[f32]) -> [L::V; 2] {
    [lanes.load(from), lanes.load(&from[L::COUNT..])]
}

/// Work that is compiled separately for the instructions of each code path. To be compiled so, `run` and everything that
/// it calls must be `#[inline(always)]`. A closure that the standard library calls (`map`, `from_fn`, `fold`) is not: each
/// vector operation in it becomes a call.
pub(crate) trait Work {
    /// The result.
    type Done;

    /// Does the work with these operations.
    fn run<L: Lanes>(self, lanes: L) -> Self::Done;
}

/// Four lanes in plain Rust: the width of the smallest vector unit on both x86-64 and AArch64.
#[derive(Clone, Copy)]
pub(crate) struct Portable;

const COUNT: usize = 4;

#[inline(always)]
fn zip(a: [f32; COUNT], b: [f32; COUNT], f: impl Fn(f32, f32) -> f32) -> [f32; COUNT] {
    // A loop: `from_fn` would call its closure in large functions.
    let mut zipped = [0.0; COUNT];
    for lane in 0..COUNT {
        zipped[lane] = f(a[lane], b[lane]);
    }
    zipped
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
    fn fused(self, a: f64, b: f64, c: f64) -> f64 {
        a * b + c
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
    fn max(self, a: Self::V, b: Self::V) -> Self::V {
        zip(a, b, |a, b| if a > b { a } else { b })
    }
    #[inline(always)]
    fn min(self, a: Self::V, b: Self::V) -> Self::V {
        zip(a, b, |a, b| if a < b { a } else { b })
    }
    #[inline(always)]
    fn least(self, [a, b, c, d]: Self::V) -> f32 {
        a.min(b).min(c.min(d))
    }
    #[inline(always)]
    fn largest(self, [a, b, c, d]: Self::V) -> f32 {
        a.max(b).max(c.max(d))
    }
    #[inline(always)]
    fn at_most(self, a: Self::V, b: Self::V) -> u32 {
        let mut bits = 0;
        for lane in 0..COUNT {
            bits |= u32::from(a[lane] <= b[lane]) << lane;
        }
        bits
    }
    #[inline(always)]
    #[expect(clippy::neg_cmp_op_on_partial_ord, reason = "a NaN is above nothing")]
    fn not_above(self, a: Self::V, b: Self::V) -> u32 {
        (0..COUNT).fold(0, |mask, lane| mask | (u32::from(!(a[lane] > b[lane])) << lane))
    }
    #[inline(always)]
    fn tagged(self, mut a: Self::V, kept: u32, tag: u32) -> Self::V {
        for a in &mut a {
            *a = f32::from_bits(a.to_bits() & kept | tag);
        }
        a
    }
    #[inline(always)]
    fn inverse_root(self, a: Self::V) -> Self::V {
        a.map(|a| 1.0 / a.sqrt())
    }
    #[inline(always)]
    fn load_halves(self, from: &[u16]) -> Self::V {
        let from: &[u16; COUNT] = from.first_chunk().expect("a whole vector");
        from.map(|bits| f16::from_bits(bits).to_f32_const())
    }
    #[inline(always)]
    fn load_counts(self, from: &[u16]) -> Self::V {
        let from: &[u16; COUNT] = from.first_chunk().expect("a whole vector");
        from.map(f32::from)
    }
    #[inline(always)]
    fn store_counts(self, x: Self::V, to: &mut [u16]) {
        let to: &mut [u16; COUNT] = to.first_chunk_mut().expect("a whole vector");
        // Adding this leaves the whole number in the lowest bits.
        *to = x.map(|x| (x + ROUND).to_bits() as u16);
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Applies each operation that has no test of its own elsewhere to the first numbers.
    struct Operations<'a> {
        numbers: &'a [f32],
        halves: &'a [u16],
    }

    impl Work for Operations<'_> {
        type Done = [Vec<f32>; 5];

        #[inline(always)]
        fn run<L: Lanes>(self, lanes: L) -> Self::Done {
            let mut done = [const { Vec::new() }; 5];
            for first in (0..self.numbers.len()).step_by(L::COUNT) {
                let (x, one) = (lanes.load(&self.numbers[first..]), lanes.splat(1.0));
                let mut counts = vec![0; L::COUNT];
                let bits = lanes.at_most(x, one);
                let part = &self.numbers[first..][..L::COUNT];
                let mut tagged = vec![0.0; L::COUNT];
                lanes.store(lanes.tagged(x, !0x1ff, 0x155), &mut tagged);
                for (lane, x) in part.iter().enumerate() {
                    assert_eq!(bits >> lane & 1 == 1, *x <= 1.0, "{x}");
                    assert_eq!(tagged[lane].to_bits(), x.to_bits() >> 9 << 9 | 0x155, "{x}");
                }
                if part.iter().all(|x| !x.is_nan()) {
                    assert_eq!(lanes.least(x), part.iter().copied().fold(f32::INFINITY, f32::min));
                    assert_eq!(lanes.largest(x), part.iter().copied().fold(f32::NEG_INFINITY, f32::max));
                }
                lanes.store_counts(
                    lanes.min(lanes.max(x, lanes.splat(0.0)), lanes.splat(65_535.0)),
                    &mut counts,
                );
                let found = [
                    lanes.inverse_root(lanes.max(x, one)),
                    lanes.max(x, one),
                    lanes.min(x, one),
                    lanes.load_halves(&self.halves[first..]),
                    lanes.load_counts(&counts),
                ];
                for (done, found) in done.iter_mut().zip(found) {
                    let mut numbers = vec![0.0; L::COUNT];
                    lanes.store(found, &mut numbers);
                    done.extend(numbers);
                }
            }
            done
        }
    }

    #[test]
    fn operations_agree_on_all_paths() {
        let special = [f32::NAN, 0.0, 0.4, 0.5, 0.6, 1.5, 2.5, 65_534.5, 65_535.0, 1e9, -3.0, f32::INFINITY];
        let mut numbers: Vec<f32> =
            (0..4096 - special.len()).map(|i| 1.001_f32.powi(i as i32 - 100)).collect();
        numbers.extend(special);
        // All finite halves of either sign, a sixteenth of them at a time.
        let halves: Vec<u16> = (0..4096u16).map(|i| (i * 16 + i % 13) & 0xfbff).collect();
        let (numbers, halves) = (&numbers[..], &halves[..]);
        let expected = run(CodePath::Portable, Operations { numbers, halves });
        for path in CodePath::available() {
            let found = run(path, Operations { numbers, halves });
            for (operation, (found, expected)) in found.iter().zip(&expected).enumerate() {
                for (place, (found, expected)) in found.iter().zip(expected).enumerate() {
                    let x = numbers[place];
                    if operation > 0 {
                        assert!(found == expected || x.is_nan(), "{path}, {operation} of {x}: {found}");
                    } else if x < 1e30 {
                        let root = 1.0 / f64::from(x.max(1.0)).sqrt();
                        let error = (f64::from(*found) / root - 1.0).abs();
                        assert!(error < INVERSE_ROOT_RELATIVE_ERROR, "{path}, root of {x}: {error:e}");
                    }
                }
            }
            let nan = 4096 - special.len();
            assert_eq!([found[1][nan], found[2][nan], found[4][nan]], [1.0, 1.0, 0.0]);
        }
    }
}
