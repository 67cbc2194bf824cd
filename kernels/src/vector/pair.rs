//! One vector beside another, in f32: for graphs of neighbours, which compare vectors that lie in memory far apart.
//!
//! The result orders vectors and proves nothing: sums of f32 and f16 have other roundings on each path. The references are
//! [`squared_l2`](crate::distance::squared_l2) and [`inner_product`](super::inner_product) in f64; the relative error of a sum of `d`
//! terms is below `(d + 4) 2^-24` of the sum of their absolute values. Sums of bytes are whole numbers, rounded once.

use half::f16;

use crate::CodePath;
use crate::lanes::{Lanes, Work, run};

/// Vectors whose sums are under way together: as many additions as a unit has in flight.
const SUMS: usize = 4;
/// Bytes that the compiler takes at once.
const BYTES: usize = 32;

/// A number that is compared; the least is the nearest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PairValue {
    /// The square of the Euclidean distance.
    SquaredL2,
    /// The inner product with the opposite sign.
    Product,
}

/// Compares two vectors of f32.
///
/// # Panics
/// If they differ in length, or this machine lacks the instructions of the path.
pub fn pair_f32(path: CodePath, value: PairValue, a: &[f32], b: &[f32]) -> f32 {
    match value {
        PairValue::SquaredL2 => run(path, Pair::<_, false> { a, b }),
        PairValue::Product => run(path, Pair::<_, true> { a, b }),
    }
}

/// Compares two vectors of half-precision numbers by their bits; each is finite.
///
/// # Panics
/// As [`pair_f32`].
pub fn pair_halves(path: CodePath, value: PairValue, a: &[u16], b: &[u16]) -> f32 {
    match value {
        PairValue::SquaredL2 => run(path, Pair::<_, false> { a, b }),
        PairValue::Product => run(path, Pair::<_, true> { a, b }),
    }
}

/// Compares two vectors of bytes. They have at most 2^17 numbers.
///
/// # Panics
/// As [`pair_f32`].
pub fn pair_bytes(path: CodePath, value: PairValue, a: &[i8], b: &[i8]) -> f32 {
    match value {
        PairValue::SquaredL2 => run(path, Bytes::<false> { a, b }),
        PairValue::Product => run(path, Bytes::<true> { a, b }),
    }
}

/// Numbers that vector units widen to f32.
trait Loaded: Copy {
    fn load<L: Lanes>(lanes: L, from: &[Self]) -> L::V;
    fn widened(self) -> f32;
}

impl Loaded for f32 {
    #[inline(always)]
    fn load<L: Lanes>(lanes: L, from: &[Self]) -> L::V {
        lanes.load(from)
    }

    #[inline(always)]
    fn widened(self) -> f32 {
        self
    }
}

impl Loaded for u16 {
    #[inline(always)]
    fn load<L: Lanes>(lanes: L, from: &[Self]) -> L::V {
        lanes.load_halves(from)
    }

    #[inline(always)]
    fn widened(self) -> f32 {
        f16::from_bits(self).to_f32_const()
    }
}

struct Pair<'a, N, const IS_PRODUCT: bool> {
    a: &'a [N],
    b: &'a [N],
}

impl<N: Loaded, const IS_PRODUCT: bool> Pair<'_, N, IS_PRODUCT> {
    /// Adds the terms of one vector of numbers.
    #[inline(always)]
    fn add<L: Lanes>(&self, lanes: L, from: usize, sum: L::V) -> L::V {
        let (a, b) = (N::load(lanes, &self.a[from..]), N::load(lanes, &self.b[from..]));
        if IS_PRODUCT {
            return lanes.mul_add(a, b, sum);
        }
        let apart = lanes.sub(a, b);
        lanes.mul_add(apart, apart, sum)
    }
}

impl<N: Loaded, const IS_PRODUCT: bool> Work for Pair<'_, N, IS_PRODUCT> {
    type Done = f32;

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) -> f32 {
        assert_eq!(self.a.len(), self.b.len(), "vectors of one dimension");
        let length = self.a.len();
        let (mut sums, mut from) = ([lanes.splat(0.0); SUMS], 0);
        while from + SUMS * L::COUNT <= length {
            for (part, sum) in sums.iter_mut().enumerate() {
                *sum = self.add(lanes, from + part * L::COUNT, *sum);
            }
            from += SUMS * L::COUNT;
        }
        while from + L::COUNT <= length {
            sums[0] = self.add(lanes, from, sums[0]);
            from += L::COUNT;
        }
        let sum = lanes.add(lanes.add(sums[0], sums[1]), lanes.add(sums[2], sums[3]));
        let mut parts = [0.0; WIDEST];
        lanes.store(sum, &mut parts);
        let mut sum = 0.0;
        for part in parts {
            sum += part;
        }
        while from < length {
            let (a, b) = (self.a[from].widened(), self.b[from].widened());
            sum += if IS_PRODUCT { a * b } else { (a - b) * (a - b) };
            from += 1;
        }
        if IS_PRODUCT { -sum } else { sum }
    }
}

/// Numbers of the widest vector.
const WIDEST: usize = 16;

struct Bytes<'a, const IS_PRODUCT: bool> {
    a: &'a [i8],
    b: &'a [i8],
}

impl<const IS_PRODUCT: bool> Work for Bytes<'_, IS_PRODUCT> {
    type Done = f32;

    #[inline(always)]
    fn run<L: Lanes>(self, _: L) -> f32 {
        assert_eq!(self.a.len(), self.b.len(), "vectors of one dimension");
        let term = |a: i8, b: i8| {
            let (a, b) = (i32::from(a), i32::from(b));
            if IS_PRODUCT { a * b } else { (a - b) * (a - b) }
        };
        let mut sums = [0_i32; BYTES];
        let (a_lanes, a_rest) = self.a.as_chunks::<BYTES>();
        let (b_lanes, b_rest) = self.b.as_chunks::<BYTES>();
        for (a, b) in a_lanes.iter().zip(b_lanes) {
            for lane in 0..BYTES {
                sums[lane] += term(a[lane], b[lane]);
            }
        }
        let mut sum = 0_i64;
        for part in sums {
            sum += i64::from(part);
        }
        for (a, b) in a_rest.iter().zip(b_rest) {
            sum += i64::from(term(*a, *b));
        }
        if IS_PRODUCT { -(sum as f32) } else { sum as f32 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::Random;
    use crate::distance::squared_l2;
    use crate::vector::inner_product;

    #[test]
    fn a_few_pairs_are_those_of_the_reference_within_the_error() {
        let mut random = Random::new(5);
        for length in [0, 1, 3, 15, 16, 17, 31, 64, 100, 127, 128, 960] {
            let mut vector = || -> Vec<f32> { (0..length).map(|_| 3.0 * random.normal_f32()).collect() };
            let (a, b) = (vector(), vector());
            let halves = |x: &[f32]| -> Vec<f16> { x.iter().map(|x| f16::from_f32(*x)).collect() };
            let (a16, b16) = (halves(&a), halves(&b));
            let bits = |x: &[f16]| -> Vec<u16> { x.iter().map(|x| x.to_bits()).collect() };
            let wide = |x: &[f16]| -> Vec<f32> { x.iter().map(|x| x.to_f32()).collect() };
            let bytes = |x: &[f32]| -> Vec<i8> { x.iter().map(|x| (x * 14.0) as i8).collect() };
            let (a8, b8) = (bytes(&a), bytes(&b));
            for path in CodePath::available() {
                let near = |found: f32, wanted: f64, a: &[f32], b: &[f32]| {
                    let size: f64 = a.iter().zip(b).map(|(a, b)| f64::from(a.abs() + b.abs()).powi(2)).sum();
                    let error = (length as f64 + 4.0) * 2f64.powi(-24) * size;
                    assert!((f64::from(found) - wanted).abs() <= error, "{path} {length}: {found}, {wanted}");
                };
                let (l2, product) = (PairValue::SquaredL2, PairValue::Product);
                near(pair_f32(path, l2, &a, &b), squared_l2(&a, &b), &a, &b);
                near(pair_f32(path, product, &a, &b), -inner_product(&a, &b), &a, &b);
                let (wide_a, wide_b) = (wide(&a16), wide(&b16));
                let of = |value| pair_halves(path, value, &bits(&a16), &bits(&b16));
                near(of(l2), squared_l2(&wide_a, &wide_b), &wide_a, &wide_b);
                near(of(product), -inner_product(&wide_a, &wide_b), &wide_a, &wide_b);
                let whole = |f: &dyn Fn(i64, i64) -> i64| -> i64 {
                    a8.iter().zip(&b8).map(|(a, b)| f(i64::from(*a), i64::from(*b))).sum()
                };
                assert_eq!(pair_bytes(path, l2, &a8, &b8), whole(&|a, b| (a - b) * (a - b)) as f32);
                assert_eq!(pair_bytes(path, product, &a8, &b8), -(whole(&|a, b| a * b) as f32));
            }
        }
    }

    #[test]
    fn the_largest_sums_of_bytes_do_not_overflow() {
        let (a, b) = (vec![-127_i8; 65_536], vec![127_i8; 65_536]);
        for path in CodePath::available() {
            assert_eq!(pair_bytes(path, PairValue::SquaredL2, &a, &b), (254_i64.pow(2) * 65_536) as f32);
            assert_eq!(pair_bytes(path, PairValue::Product, &a, &b), (127_i64.pow(2) * 65_536) as f32);
        }
    }
}
