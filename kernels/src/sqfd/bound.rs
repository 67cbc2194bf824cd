//! How far the fast paths may be from the reference, proved rather than measured.
//!
//! Write `eps` for 2^-24, the relative error of one f32 operation, `D` for the dimensions. Weights sum to 1.
//!
//! # Gaussian
//! With `a`, `b` the scaled centroids and `delta = |a - b|` a pair's true term is `w_i w_j 2^-delta^2`. The computed
//! exponent is off by at most `eps` times the sum of
//!
//! | where | at most |
//! |---|---|
//! | the chain: D additions to partial sums, and D products where they are rounded | `D (B + 2P) + 2P` |
//! | where it begins with the query's number instead (a device, candidates near the centre) | `D (A + l + 2P) + 2P` |
//! | adding the query's number, and that number's own rounding | `delta^2 + 2 l + A` |
//! | the candidate's norm | `(D + 1) B` |
//! | coordinates moved and scaled: each centroid shifts by its own length times a few eps | `2 delta (2 b + a) + 2 delta^2` |
//!
//! Where the exponents are products of matrices, with a query's number among what is multiplied, and the numbers in two
//! parts of 11 bits, the first three lines are instead
//!
//! | where | at most |
//! |---|---|
//! | what the parts leave out: rounding of lower parts, and of upper ones beside them, to halves; the product of both lower ones | `40 P + 4 (A + l)` |
//! | halves below their normal numbers, off by half an eps each, times the other factor | `4 sqrt(D) (a + delta)` |
//! | sums of 17 and of 9 numbers, each cut off two bits below the largest (two eps; measured, not documented), by the steps `S` of eight numbers | `60 S (B + 2P + A + l)` |
//! | the query's number's own rounding | `delta^2 + 2 l + A` |
//!
//! where `a`, `b` are now lengths, `A = a^2`, `B = b^2`, `P = a b` (Cauchy bounds the products) and `l` is the size
//! of the query weight's logarithm. Since `b <= a + delta`, and `delta 2^-delta^2 <= 0.516`,
//! `delta^2 2^-delta^2 <= 0.531`, the exponent's error times the term is bounded by numbers of the query alone,
//! whatever the candidate: far centroids have large errors in terms that are nearly nothing. To that comes the
//! relative error of `exp2`, and of adding positive terms.
//!
//! # Closer, for a given distance
//! The distance is that of a Hilbert space in which sigma is the inner product, so for a candidate within `r` of the
//! query `sigma <= |q| (|q| + r)`, where `|q|^2 = sigma(q,q)`. The terms sum to sigma, and `t log2(1/t)` is concave in
//! a term `t = 2^-delta^2`, so by Jensen the errors sum to what they would be if every term were sigma: the same
//! table, with `sigma`, `sigma log2(1/sigma)^(1/2)` and `sigma log2(1/sigma)` for 1 and the two constants (the root by
//! Cauchy), and the query's longest centroid for each. The smaller of both bounds holds.
//!
//! # Heuristic and minus
//! Differences are taken before anything is squared, so all errors are relative: to `1 / alpha` at most for the
//! heuristic, to sigma itself for minus, which the distance and the two own sigmas determine. That holds as long as f32
//! holds every term. A sum of minus that overflows is no finite number, and is computed in f64 instead
//! ([`PreparedQuery::distance`](super::PreparedQuery::distance)); a term of the heuristic whose ground distance
//! overflows is 0 here and below 6e-20 in truth.

use super::block::{GROUPS_PER_PARTIAL_SUM, ROWS};
use super::device;
use super::lanes::EXP2_RELATIVE_ERROR;
use crate::similarity::{Measure, Similarity};

const EPS: f64 = 1.0 / (1 << 24) as f64;

/// Covers the second order: errors of errors, and weights that sum to 1 only nearly.
const SAFETY: f64 = 1.25;

/// Exponents off by more than this are beyond the first-order analysis, and the bound becomes infinite.
const EXPONENT_ERROR_MAX: f64 = 0.05;

/// Largest value of `x 2^-x^2` and of `x^2 2^-x^2`.
const LINEAR_MAX: f64 = 0.516;
const SQUARE_MAX: f64 = 0.531;

/// Underflow of squared differences, terms cut off at the least exponent, and the reference's own rounding.
const ABSOLUTE: f64 = 1e-14;

/// Bound on the error in d^2 against one query.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bound {
    similarity: Similarity,
    dimensions: f64,
    /// Relative error of a term and of summing, for every pair.
    relative: f64,
    /// The same where matrix units multiply.
    relative_of_matrices: f64,
    /// Largest value of a similarity; infinite for minus.
    similarity_max: f64,
    /// Bound that holds at every distance; for minus what is not relative to sigma.
    fixed: f64,
    /// The same for products of matrices.
    fixed_of_matrices: f64,
    /// Length of the longest query centroid, and the largest logarithm of a weight.
    length_max: f64,
    logarithm_max: f64,
}

/// What computes the exponents of pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arithmetic {
    /// Single precision, number by number.
    Single,
    /// Matrix units that multiply numbers of 11 bits and add in single precision.
    Matrices,
}

/// The sums over all pairs of the terms, of `delta` times the terms, and of `delta^2` times the terms.
#[derive(Clone, Copy, Debug)]
struct Moments {
    zeroth: f64,
    first: f64,
    second: f64,
}

impl Moments {
    /// Whatever the terms are.
    const LARGEST: Self = Self { zeroth: 1.0, first: LINEAR_MAX, second: SQUARE_MAX };

    /// When the terms sum to at most `sigma`.
    fn of_sigma(sigma: f64) -> Self {
        // Both functions grow up to their maxima, at e^-1/2 and e^-1.
        let logarithm = -sigma.log2();
        let first = if sigma < 0.6 { sigma * logarithm.sqrt() } else { LINEAR_MAX };
        let second = if sigma < 0.36 { sigma * logarithm } else { SQUARE_MAX };
        Self { zeroth: sigma.min(1.0), first, second }
    }
}

impl Bound {
    /// The bound of a query without its centroids' own part.
    pub(super) fn new(measure: &Measure, dimensions: usize, centroids: usize) -> Self {
        let groups = centroids.div_ceil(ROWS);
        let depth = 2 + groups.min(GROUPS_PER_PARTIAL_SUM) + groups.div_ceil(GROUPS_PER_PARTIAL_SUM) + 1;
        let depth = depth.max(device::depth(centroids));
        let dimensions = dimensions as f64;
        let (term, similarity_max) = match measure.similarity() {
            // A device may multiply a second power in, that of the candidate's norm.
            Similarity::Gaussian => (2.0 * EXP2_RELATIVE_ERROR + EPS, 1.0),
            // A difference, its square, D additions, a root; alpha rounded and added, a division; the weight. A device's
            // root may be off by 3 units in the last place and its division by 2.5, of two eps each.
            Similarity::Heuristic => (EPS * (dimensions + 20.0), 1.0 / measure.alpha()),
            Similarity::Minus => (EPS * (dimensions + 12.0), f64::INFINITY),
        };
        let relative = term + EPS * depth as f64;
        let depth_of_matrices = depth.max(device::depth_of_matrices(centroids));
        let relative_of_matrices = term + EPS * depth_of_matrices as f64;
        let fixed_of = |relative: f64| match similarity_max.is_finite() {
            true => ABSOLUTE + 2.0 * relative * similarity_max * SAFETY,
            false => ABSOLUTE,
        };
        let (mut fixed, mut fixed_of_matrices) = (fixed_of(relative), fixed_of(relative_of_matrices));
        // f32 does not hold every alpha.
        if measure.similarity() == Similarity::Heuristic && !(1e-30..1e30).contains(&measure.alpha()) {
            (fixed, fixed_of_matrices) = (f64::INFINITY, f64::INFINITY);
        }
        let similarity = measure.similarity();
        Self {
            similarity,
            dimensions,
            relative,
            relative_of_matrices,
            similarity_max,
            fixed,
            fixed_of_matrices,
            length_max: 0.0,
            logarithm_max: 0.0,
        }
    }

    /// Adds the part of one query centroid of the given weight, at `length` from the centre in scaled coordinates.
    pub(super) fn add_centroid(&mut self, weight: f64, length: f64) {
        if self.similarity != Similarity::Gaussian || weight <= 0.0 {
            return;
        }
        let logarithm = weight.log2().abs();
        let of = |arithmetic| {
            let error = self.exponent_error(arithmetic, length, logarithm, Moments::LARGEST);
            match error <= EXPONENT_ERROR_MAX {
                true => 2.0 * weight * std::f64::consts::LN_2 * error * SAFETY,
                false => f64::INFINITY,
            }
        };
        let (single, matrices) = (of(Arithmetic::Single), of(Arithmetic::Matrices));
        self.fixed += single;
        self.fixed_of_matrices += matrices;
        self.length_max = self.length_max.max(length);
        self.logarithm_max = self.logarithm_max.max(logarithm);
    }

    /// Sum over pairs of the exponent's error times the term: the table above.
    fn exponent_error(&self, arithmetic: Arithmetic, a: f64, logarithm: f64, moments: Moments) -> f64 {
        let Moments { zeroth, first, second } = moments;
        let norms = a * a * zeroth + 2.0 * a * first + second;
        let products = a * a * zeroth + a * first;
        let chain = match arithmetic {
            // A is among the norms, so one sum bounds both ways to begin.
            Arithmetic::Single => {
                self.dimensions * (norms + logarithm * zeroth + 2.0 * products) + 2.0 * products
            }
            Arithmetic::Matrices => {
                let steps = ((self.dimensions + 1.0) / 8.0).ceil();
                let query = (a * a + logarithm) * zeroth;
                let small = 4.0 * self.dimensions.sqrt() * (a * zeroth + first);
                40.0 * products + 4.0 * query + small + 60.0 * steps * (norms + 2.0 * products + query)
            }
        };
        let ends = second + (2.0 * logarithm + a * a) * zeroth;
        let own_norm = (self.dimensions + 1.0) * norms;
        let moved = 2.0 * (3.0 * a * first + 2.0 * second) + 2.0 * second;
        EPS * (chain + ends + own_norm + moved)
    }

    /// Bound in d^2 near distance `range`, given the query's own sigma and the least of the candidates'.
    pub(super) fn squared(
        &self,
        arithmetic: Arithmetic,
        range: f64,
        sigma_query: f64,
        sigma_self_min: f64,
    ) -> f64 {
        let (fixed, relative) = match arithmetic {
            Arithmetic::Single => (self.fixed, self.relative),
            Arithmetic::Matrices => (self.fixed_of_matrices, self.relative_of_matrices),
        };
        if self.similarity == Similarity::Minus {
            // d^2 - sigma(q,q) - sigma(o,o) is twice the cross sum.
            let spread = range * range - sigma_query - sigma_self_min;
            return fixed + relative * spread.max(0.0) * SAFETY;
        }
        // Not zero, whose logarithm is infinite.
        let query_length = sigma_query.max(f64::MIN_POSITIVE).sqrt();
        let sigma = (query_length * (query_length + range)).min(self.similarity_max);
        let mut closer = relative * sigma;
        if self.similarity == Similarity::Gaussian {
            let moments = Moments::of_sigma(sigma);
            let error = self.exponent_error(arithmetic, self.length_max, self.logarithm_max, moments);
            closer += std::f64::consts::LN_2 * error;
        }
        if fixed.is_finite() { fixed.min(ABSOLUTE + 2.0 * closer * SAFETY) } else { fixed }
    }
}
