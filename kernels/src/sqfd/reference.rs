//! The distance that Boxwork reports: f64 throughout, summed in one fixed order.
//!
//! Results are ranked by these numbers, so the order of summation is a contract: for each centroid of the second signature
//! in order, over the first signature's centroids in order, over the dimensions in order, without fused multiply-adds. Two
//! signatures with the same centroids in the same order therefore have distance 0 exactly. Each lane of a vector adds up
//! its own centroid of the second signature, so one loop gives the same bits for every width of vectors.

use std::ops::Range;

use super::columns::SignatureRef;
use crate::CodePath;
use crate::elementary::exp;
use crate::interrupt::{Interrupt, Interrupted, Patience, finished, never};
use crate::similarity::{Ground, Measure, Similarity};

/// Centroids of the second signature that the inner loop processes together: two vectors of the widest kind, so that the
/// operations of one hide the latency of the other.
const LANES: usize = 16;

/// Pairs of centroids that are computed before the caller is asked again whether to stop: a few milliseconds' work. For
/// signatures of up to a thousand centroids it is never asked.
const PAIRS_PER_BLOCK: usize = 1 << 20;

/// Weighted similarity of two signatures, `sum_j w_j (sum_i w_i f_s(c_i, c_j))`.
pub fn sigma(measure: &Measure, a: SignatureRef<'_>, b: SignatureRef<'_>) -> f64 {
    finished(sigma_until(measure, a, b, &never))
}

/// As [`sigma`], but the caller can interrupt it: two signatures of 180,000 centroids take minutes.
///
/// # Errors
/// If the caller interrupts.
pub fn sigma_until(
    measure: &Measure,
    a: SignatureRef<'_>,
    b: SignatureRef<'_>,
    interrupt: Interrupt<'_>,
) -> Result<f64, Interrupted> {
    sigma_on(CodePath::detect(), measure, a, b, interrupt)
}

/// `sigma(measure, a, a)`.
pub fn sigma_self(measure: &Measure, a: SignatureRef<'_>) -> f64 {
    sigma(measure, a, a)
}

/// Distance of two signatures.
pub fn sqfd(measure: &Measure, a: SignatureRef<'_>, b: SignatureRef<'_>) -> f64 {
    distance(sigma_self(measure, a), sigma_self(measure, b), sigma(measure, a, b))
}

/// The distance from the three sums. If rounding leaves its square below 0, the distance is 0.
#[inline]
pub fn distance(sigma_a: f64, sigma_b: f64, sigma_cross: f64) -> f64 {
    (sigma_a + sigma_b - 2.0 * sigma_cross).max(0.0).sqrt()
}

/// The largest error of the square of a distance against real arithmetic, for signatures of at most `centroids_max`
/// centroids whose absolute self-similarities are at most `sigma_max`, and for distances of at most `distance_max`.
///
/// The proofs of an index hold for real numbers, so the index allows for this error. A sum of `n` terms has an error of at
/// most `n` roundings. With `minus` the weights matter too: distances are Hilbert distances only among signatures with the
/// same sum of weights, and rounding each stored weight to f32 changes every sum by at most one rounding of f32.
pub fn error_squared(
    measure: &Measure,
    sigma_max: f64,
    distance_max: f64,
    centroids_max: usize,
    dimensions: usize,
) -> f64 {
    /// Largest product of an exponent and its exponential: how a relative error of one changes the other.
    const EXPONENT_PART: f64 = 0.4;
    let roundings = 2.0 * centroids_max as f64 + 2.0 * dimensions as f64 + 16.0;
    let (unit, least) = match measure.similarity() {
        Similarity::Gaussian => (f64::EPSILON / 2.0 * roundings, EXPONENT_PART),
        Similarity::Heuristic => (f64::EPSILON / 2.0 * roundings, 0.0),
        Similarity::Minus => (f64::from(f32::EPSILON), 0.0),
    };
    // Four sums. The cross sum is at most half the sum of the other two and the square of the distance.
    unit * (4.0 * (sigma_max.abs() + least) + distance_max * distance_max)
}

fn sigma_on(
    path: CodePath,
    measure: &Measure,
    a: SignatureRef<'_>,
    b: SignatureRef<'_>,
    interrupt: Interrupt<'_>,
) -> Result<f64, Interrupted> {
    let pairs = Pairs::new(a, b);
    let mut patience = Patience::new(interrupt, PAIRS_PER_BLOCK);
    let mut sums = vec![[0.0; LANES]; b.len().div_ceil(LANES)];
    let first_step = PAIRS_PER_BLOCK / LANES;
    let second_step = (first_step / a.len().clamp(1, first_step)).max(1);
    for (idx, sums) in sums.chunks_mut(second_step).enumerate() {
        // The first signature's centroids in order, so that the sums have the bits of a single loop.
        for first in (0..a.len()).step_by(first_step) {
            let block = PairBlock {
                first: first..a.len().min(first + first_step),
                second: idx * second_step..idx * second_step + sums.len(),
            };
            patience.spend(block.first.len() * block.second.len() * LANES)?;
            match path {
                CodePath::Portable => pairs.add(measure, block, sums),
                #[cfg(target_arch = "x86_64")]
                CodePath::Avx2 | CodePath::AvxVnni => x86::add_avx2(&pairs, measure, block, sums),
                #[cfg(target_arch = "x86_64")]
                CodePath::Avx512 => x86::add_avx512(&pairs, measure, block, sums),
                #[cfg(not(target_arch = "x86_64"))]
                CodePath::Avx2 | CodePath::AvxVnni | CodePath::Avx512 => {
                    unreachable!("the portable path is the only one here")
                }
            }
        }
    }
    let inner = sums.iter().flatten().zip(b.weights());
    Ok(inner.fold(0.0, |sum, (inner, &w)| sum + f64::from(w) * inner))
}

/// Pairs of centroids that are computed without asking the caller.
struct PairBlock {
    /// Centroids of the first signature.
    first: Range<usize>,
    /// Groups of [`LANES`] centroids of the second signature.
    second: Range<usize>,
}

/// Two signatures in f64, laid out in the order in which the loops read them.
struct Pairs {
    dimensions: usize,
    /// The first signature, centroid by centroid: coordinates, then weight.
    first: Vec<f64>,
    /// The second signature in groups of [`LANES`] centroids: one array per dimension. Zeros fill the last group.
    second: Vec<[f64; LANES]>,
}

impl Pairs {
    fn new(a: SignatureRef<'_>, b: SignatureRef<'_>) -> Self {
        let dimensions = a.dimensions();
        let mut first = vec![0.0; a.len() * (dimensions + 1)];
        let mut second = vec![[0.0; LANES]; b.len().div_ceil(LANES) * dimensions];
        for d in 0..=dimensions {
            let column = if d < dimensions { a.coordinate(d) } else { a.weights() };
            for (to, &x) in first.iter_mut().skip(d).step_by(dimensions + 1).zip(column) {
                *to = f64::from(x);
            }
        }
        for d in 0..dimensions {
            let lanes = second.iter_mut().skip(d).step_by(dimensions);
            for (to, from) in lanes.zip(b.coordinate(d).chunks(LANES)) {
                for (to, &x) in to.iter_mut().zip(from) {
                    *to = f64::from(x);
                }
            }
        }
        Self { dimensions, first, second }
    }

    /// Adds the block's part of `sum_i w_i f_s(c_i, c_j)` to the sum of each centroid `j` of the second signature. The sums
    /// of missing centroids are unspecified.
    #[inline(always)]
    fn add(&self, measure: &Measure, block: PairBlock, sums: &mut [[f64; LANES]]) {
        let alpha = measure.alpha();
        let (absolute, square) = (|x: f64| x.abs(), |x: f64| x * x);
        match (measure.similarity(), measure.ground()) {
            (Similarity::Gaussian, _) => self.add_of(block, sums, square, |d| exp(-alpha * d)),
            (Similarity::Heuristic, Ground::L2) => {
                self.add_of(block, sums, square, |d| 1.0 / (alpha + d.sqrt()))
            }
            (Similarity::Heuristic, Ground::SquaredL2) => {
                self.add_of(block, sums, square, |d| 1.0 / (alpha + d))
            }
            (Similarity::Heuristic, _) => self.add_of(block, sums, absolute, |d| 1.0 / (alpha + d)),
            (Similarity::Minus, Ground::L2) => self.add_of(block, sums, square, |d| -d.sqrt()),
            (Similarity::Minus, Ground::SquaredL2) => self.add_of(block, sums, square, |d| -d),
            (Similarity::Minus, _) => self.add_of(block, sums, absolute, |d| -d),
        }
    }

    /// As [`Pairs::add`]. Sums `part` of the differences over the dimensions, and applies `similarity` to the sum.
    #[inline(always)]
    fn add_of(
        &self,
        PairBlock { first, second }: PairBlock,
        all: &mut [[f64; LANES]],
        part: impl Fn(f64) -> f64,
        similarity: impl Fn(f64) -> f64,
    ) {
        let first = &self.first[first.start * (self.dimensions + 1)..first.end * (self.dimensions + 1)];
        let second = &self.second[second.start * self.dimensions..second.end * self.dimensions];
        for (columns, all) in second.chunks_exact(self.dimensions).zip(all) {
            let mut sums = *all;
            for centroid in first.chunks_exact(self.dimensions + 1) {
                let mut ground = [0.0; LANES];
                for (d, column) in columns.iter().enumerate() {
                    let x = centroid[d];
                    for lane in 0..LANES {
                        ground[lane] += part(x - column[lane]);
                    }
                }
                let weight = centroid[self.dimensions];
                for lane in 0..LANES {
                    sums[lane] += weight * similarity(ground[lane]);
                }
            }
            *all = sums;
        }
    }
}

/// The loop above, compiled for wider vectors.
#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "instructions beyond the target's are called where the machine has them")]
mod x86 {
    use super::{CodePath, LANES, Measure, PairBlock, Pairs};

    pub(super) fn add_avx2(pairs: &Pairs, measure: &Measure, block: PairBlock, sums: &mut [[f64; LANES]]) {
        #[target_feature(enable = "avx2")]
        fn entry(pairs: &Pairs, measure: &Measure, block: PairBlock, sums: &mut [[f64; LANES]]) {
            pairs.add(measure, block, sums);
        }
        assert!(CodePath::Avx2.is_available());
        // SAFETY: the line above checked the feature.
        unsafe { entry(pairs, measure, block, sums) }
    }

    pub(super) fn add_avx512(pairs: &Pairs, measure: &Measure, block: PairBlock, sums: &mut [[f64; LANES]]) {
        #[target_feature(enable = "avx512f")]
        fn entry(pairs: &Pairs, measure: &Measure, block: PairBlock, sums: &mut [[f64; LANES]]) {
            pairs.add(measure, block, sums);
        }
        assert!(CodePath::Avx512.is_available());
        // SAFETY: the line above checked the feature.
        unsafe { entry(pairs, measure, block, sums) }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::similarity::Similarity;
    use crate::sqfd::testing::{Store, every_measure};

    #[test]
    fn a_distance_by_hand() {
        let (x, weights) = ([0.0, 1.0, 0.0], [0.5, 0.5, 1.0]);
        let coordinates: [&[f32]; 1] = [&x];
        let columns = crate::sqfd::Columns::new(&coordinates, &weights);
        let (a, b) = (columns.signature(0, 2), columns.signature(2, 1));
        let measure = Measure::new(Similarity::Gaussian, Ground::L2, 1.0).unwrap();
        let e = (-1f64).exp();
        // sigma(a, a) = (1 + e) / 2, sigma(b, b) = 1, sigma(a, b) = (1 + e) / 2.
        assert!((sqfd(&measure, a, b) - (1.0 - (1.0 + e) / 2.0).sqrt()).abs() < 1e-15);
    }

    #[test]
    fn every_path_gives_the_same_bits() {
        let store = Store::random(7, 7, &[1, 2, 3, 15, 16, 17, 50, 81], 4.0);
        for measure in every_measure(0.3) {
            store.with(|columns| {
                for row in 0..columns.rows() {
                    let (first, second) = (columns.signature(0), columns.signature(row));
                    for (a, b) in [(first, second), (second, first), (second, second)] {
                        let on = |path| sigma_on(path, &measure, a, b, &never).unwrap();
                        let portable = on(CodePath::Portable);
                        for path in CodePath::available() {
                            assert_eq!(on(path).to_bits(), portable.to_bits(), "{path}");
                        }
                    }
                    assert_eq!(sqfd(&measure, second, second), 0.0);
                }
            });
        }
    }

    #[test]
    fn a_sum_over_giant_signatures_stops_when_asked_to_and_keeps_its_bits() {
        // The first signature is longer than a block, the second takes several.
        let store = Store::random(19, 2, &[PAIRS_PER_BLOCK / LANES + 5, 40, 3 * LANES], 3.0);
        store.with(|columns| {
            let measure = Measure::new(Similarity::Minus, Ground::L1, 1.0).unwrap();
            let (giant, small) = (columns.signature(0), columns.signature(1));
            for (a, b) in [(giant, small), (small, giant)] {
                let asked = Cell::new(0);
                let stop_at = |limit: u32| {
                    asked.set(0);
                    let interrupt = || {
                        asked.set(asked.get() + 1);
                        asked.get() >= limit
                    };
                    sigma_until(&measure, a, b, &interrupt)
                };
                assert_eq!((stop_at(2), asked.get()), (Err(Interrupted), 2));
                let (sigma, pairs) = (stop_at(u32::MAX).unwrap(), a.len() * b.len());
                assert!(asked.get() as usize >= pairs / PAIRS_PER_BLOCK, "{} questions", asked.get());
                let mut expected = 0.0;
                for j in 0..b.len() {
                    let inner = (0..a.len()).fold(0.0, |inner, i| {
                        let part = |d| (f64::from(a.coordinate(d)[i]) - f64::from(b.coordinate(d)[j])).abs();
                        inner + f64::from(a.weights()[i]) * -(part(0) + part(1))
                    });
                    expected += f64::from(b.weights()[j]) * inner;
                }
                assert_eq!(sigma.to_bits(), expected.to_bits());
            }
            let panics = || panic!("so few pairs are computed without a question");
            assert!(sigma_until(&measure, small, columns.signature(2), &panics).is_ok());
        });
    }

    #[test]
    fn columns_agree_with_the_definition_on_points() {
        let store = Store::random(11, 5, &[4, 9], 2.0);
        for measure in every_measure(0.7) {
            store.with(|columns| {
                let (a, b) = (columns.signature(0), columns.signature(1));
                let point = |s: SignatureRef<'_>, i: usize| -> Vec<f64> {
                    (0..s.dimensions()).map(|d| f64::from(s.coordinate(d)[i])).collect()
                };
                let mut sum = 0.0;
                for j in 0..b.len() {
                    let inner = (0..a.len()).fold(0.0, |inner, i| {
                        inner + f64::from(a.weights()[i]) * measure.f_s(&point(a, i), &point(b, j))
                    });
                    sum += f64::from(b.weights()[j]) * inner;
                }
                assert_eq!(sigma(&measure, a, b).to_bits(), sum.to_bits());
            });
        }
    }
}
