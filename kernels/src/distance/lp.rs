//! Lp distances of vectors of f32: the p-th root of the sum of the p-th powers of the differences. For an infinite p, the
//! largest difference.
//!
//! Differences and sums are f64. The fast path computes [`LANES`] partial sums in one fixed order, so that vector units of any
//! width give the same bits. Powers come from [`crate::elementary`].

use super::{Distance, DistanceError, Properties, Slack};
use crate::CodePath;
use crate::elementary::{exp, ln};
#[cfg(target_arch = "x86_64")]
use crate::lanes::prefetch;
use crate::lanes::{Lanes, Work, run};
use crate::numbers::Number;

/// Partial sums: two vectors of the widest kind.
const LANES: usize = 16;

/// The Lp distance for one p.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lp(f64);

impl Lp {
    /// The sum of absolute differences.
    pub const L1: Self = Self(1.0);
    /// The Euclidean distance.
    pub const L2: Self = Self(2.0);
    /// The largest absolute difference.
    pub const LINF: Self = Self(f64::INFINITY);

    /// The distance for an exponent from 1 to infinity.
    ///
    /// # Errors
    /// For every other exponent, because the result would be no metric.
    pub fn new(p: f64) -> Result<Self, DistanceError> {
        if p >= 1.0 { Ok(Self(p)) } else { Err(DistanceError::Exponent(p)) }
    }

    /// The exponent.
    pub fn p(self) -> f64 {
        self.0
    }

    /// The distance of vectors whose numbers are of any type; for f32 it is [`Distance::distance`].
    ///
    /// # Panics
    /// If the vectors have different dimensions.
    pub fn between<A: Number, B: Number>(self, a: &[A], b: &[B]) -> f64 {
        assert_eq!(a.len(), b.len(), "vectors of one dimension");
        match self.0 {
            1.0 => sum_of(a, b, |x| x.abs()),
            2.0 => sum_of(a, b, |x| x * x).sqrt(),
            f64::INFINITY => largest_of(a, b),
            p => scaled(p, a, b, |scale| sum_of(a, b, |x| power(p, x.abs() / scale))),
        }
    }

    /// The distance from its sum. For p of 1 or 2 the sum is the p-th power of the distance.
    #[inline]
    pub(super) fn of_power(self, power: f64) -> f64 {
        if self.0 == 2.0 { power.sqrt() } else { power }
    }
}

impl Distance for Lp {
    type Object<'a> = &'a [f32];

    fn properties(&self) -> Properties {
        match self.0 {
            2.0 => Properties::hilbert("l2"),
            1.0 => Properties { negative_type: true, ..Properties::metric("l1") },
            f64::INFINITY => Properties::metric("linf"),
            // For p up to 2, Lp embeds isometrically into L1, and the root of L1 is a Hilbert distance.
            p => Properties { negative_type: p < 2.0, ..Properties::metric("lp") },
        }
    }

    fn slack(&self, dimensions: usize, _extent: f64) -> Slack {
        // A difference, its power, and one addition per number. All terms have one sign.
        let sums = Slack::roundings(2.0 * dimensions as f64 + 8.0);
        match self.0 {
            1.0 | 2.0 | f64::INFINITY => sums,
            // The logarithm and the exponential have relative errors of 1e-15, and powers fall as logarithms grow.
            _ => Slack { relative: sums.relative + 1e-13, ..sums },
        }
    }

    fn check(&self, object: &[f32]) -> Result<(), DistanceError> {
        match object.iter().position(|x| !x.is_finite()) {
            Some(place) => Err(DistanceError::NotFinite { place, value: object[place] }),
            None => Ok(()),
        }
    }

    fn distance(&self, a: &[f32], b: &[f32]) -> f64 {
        self.between(a, b)
    }

    fn reference(&self, a: &[f32], b: &[f32]) -> f64 {
        assert_eq!(a.len(), b.len(), "vectors of one dimension");
        let differences = a.iter().zip(b).map(|(a, b)| (f64::from(*a) - f64::from(*b)).abs());
        match self.0 {
            1.0 => differences.sum(),
            2.0 => differences.map(|x| x * x).sum::<f64>().sqrt(),
            f64::INFINITY => differences.fold(0.0, f64::max),
            p => scaled(p, a, b, |scale| differences.map(|x| power(p, x / scale)).sum()),
        }
    }
}

/// The square of the Euclidean distance, of which [`Lp::L2`] takes the root: equal bits on every machine.
///
/// # Panics
/// If the vectors differ in length.
#[inline(always)]
pub fn squared_l2(a: &[f32], b: &[f32]) -> f64 {
    assert_eq!(a.len(), b.len(), "vectors of one dimension");
    sum_of(a, b, |x| x * x)
}

/// As [`squared_l2`], with the vector units of a path, and the same bits.
///
/// # Panics
/// If the vectors differ in length, or this machine lacks the instructions.
pub fn squared_l2_on(path: CodePath, a: &[f32], b: &[f32]) -> f64 {
    run(path, SquaredL2 { a, b })
}

/// Appends the squared distances of a vector from some of many rows: as [`squared_l2`], and faster than one by one where the rows
/// lie in memory far apart.
///
/// # Panics
/// If there is no such row, or this machine lacks the instructions.
pub fn squared_l2_of(path: CodePath, query: &[f32], rows: &[f32], numbers: &[u32], out: &mut Vec<f64>) {
    let row = |place: usize| &rows[numbers[place] as usize * query.len()..][..query.len()];
    let first = out.len();
    out.resize(first + numbers.len(), 0.0);
    run(path, SquaredL2Of { query, row, out: &mut out[first..] });
}

/// Writes the Euclidean distances of a vector from some rows, which may lie in memory far apart: as [`Lp::L2`], to the bit.
///
/// # Panics
/// If there is not a place for each distance, a row has another length, or this machine lacks the instructions.
pub fn l2_of_each(path: CodePath, query: &[f32], rows: &[&[f32]], out: &mut [f64]) {
    assert_eq!(rows.len(), out.len(), "a place for each distance");
    run(path, SquaredL2Of { query, row: |place: usize| rows[place], out });
    out.iter_mut().for_each(|square| *square = square.sqrt());
}

/// A squared distance for each place of `out`, from the row that belongs to the place.
struct SquaredL2Of<'a, R> {
    query: &'a [f32],
    row: R,
    out: &'a mut [f64],
}

/// Rows that are on their way from memory while one is computed.
const AHEAD: usize = 6;

impl<'a, R: Fn(usize) -> &'a [f32]> Work for SquaredL2Of<'a, R> {
    type Done = ();

    #[inline(always)]
    fn run<L: Lanes>(self, _: L) {
        let Self { query, row, out } = self;
        let count = out.len();
        for (place, out) in out.iter_mut().enumerate() {
            #[cfg(target_arch = "x86_64")]
            {
                let from = if place == 0 { 0 } else { place + AHEAD };
                (from..count.min(place + AHEAD + 1)).for_each(|ahead| prefetch(row(ahead)));
            }
            #[cfg(not(target_arch = "x86_64"))]
            let _ = count;
            *out = squared_l2(query, row(place));
        }
    }
}

struct SquaredL2<'a> {
    a: &'a [f32],
    b: &'a [f32],
}

impl Work for SquaredL2<'_> {
    type Done = f64;

    // The partial sums have a fixed order, and nothing is fused: the compiler vectorises them without changing a bit.
    #[inline(always)]
    fn run<L: Lanes>(self, _: L) -> f64 {
        squared_l2(self.a, self.b)
    }
}

/// `x^p` for x from 0 to 1.
fn power(p: f64, x: f64) -> f64 {
    // The power of so small a number vanishes beside the largest power, which is 1.
    if x < f64::MIN_POSITIVE { 0.0 } else { exp(p * ln(x).min(0.0)) }
}

/// `scale sum^(1/p)`. The sum is of powers of differences divided by `scale`, so no power overflows.
fn scaled<A: Number, B: Number>(p: f64, a: &[A], b: &[B], sum: impl FnOnce(f64) -> f64) -> f64 {
    let scale = largest_of(a, b);
    if scale == 0.0 {
        return 0.0;
    }
    // The sum is at least 1, and the exponential takes numbers of at most 0.
    scale / exp(-ln(sum(scale).max(1.0)) / p)
}

#[inline(always)]
fn sum_of<A: Number, B: Number>(a: &[A], b: &[B], term: impl Fn(f64) -> f64) -> f64 {
    let mut sums = [0.0; LANES];
    let (a_lanes, a_rest) = a.as_chunks::<LANES>();
    let (b_lanes, b_rest) = b.as_chunks::<LANES>();
    for (a, b) in a_lanes.iter().zip(b_lanes) {
        for lane in 0..LANES {
            sums[lane] += term(a[lane].wide() - b[lane].wide());
        }
    }
    for (lane, (a, b)) in a_rest.iter().zip(b_rest).enumerate() {
        sums[lane] += term(a.wide() - b.wide());
    }
    let mut width = LANES / 2;
    while width > 0 {
        for lane in 0..width {
            sums[lane] += sums[lane + width];
        }
        width /= 2;
    }
    sums[0]
}

fn largest_of<A: Number, B: Number>(a: &[A], b: &[B]) -> f64 {
    let mut largest = [0.0_f64; LANES];
    let mut see = |lane: usize, a: A, b: B| {
        let difference = (a.wide() - b.wide()).abs();
        // One vector instruction, unlike `f64::max`, which handles NaNs. There are none.
        largest[lane] = if difference > largest[lane] { difference } else { largest[lane] };
    };
    let (a_lanes, a_rest) = a.as_chunks::<LANES>();
    let (b_lanes, b_rest) = b.as_chunks::<LANES>();
    for (a, b) in a_lanes.iter().zip(b_lanes) {
        for lane in 0..LANES {
            see(lane, a[lane], b[lane]);
        }
    }
    for (lane, (a, b)) in a_rest.iter().zip(b_rest).enumerate() {
        see(lane, *a, *b);
    }
    largest.into_iter().fold(0.0, f64::max)
}
