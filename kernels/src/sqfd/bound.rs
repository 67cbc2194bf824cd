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
//! heuristic, to sigma itself for minus, which the distance and the two own sigmas determine.

use super::block::GROUPS_PER_PARTIAL_SUM;
use super::device;
use super::lanes::EXP2_RELATIVE_ERROR;
use super::query::ROWS;
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
    /// Largest value of a similarity; infinite for minus.
    similarity_max: f64,
    /// Bound that holds at every distance; for minus what is not relative to sigma.
    fixed: f64,
    /// Length of the longest query centroid, and the largest logarithm of a weight.
    length_max: f64,
    logarithm_max: f64,
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
        let mut fixed = ABSOLUTE;
        if similarity_max.is_finite() {
            fixed += 2.0 * relative * similarity_max * SAFETY;
        }
        // f32 does not hold every alpha.
        if measure.similarity() == Similarity::Heuristic && !(1e-30..1e30).contains(&measure.alpha()) {
            fixed = f64::INFINITY;
        }
        let similarity = measure.similarity();
        Self { similarity, dimensions, relative, similarity_max, fixed, length_max: 0.0, logarithm_max: 0.0 }
    }

    /// Adds the part of one query centroid of the given weight, at `length` from the centre in scaled coordinates.
    pub(super) fn add_centroid(&mut self, weight: f64, length: f64) {
        if self.similarity != Similarity::Gaussian || weight <= 0.0 {
            return;
        }
        let logarithm = weight.log2().abs();
        let error = self.exponent_error(length, logarithm, Moments::LARGEST);
        self.fixed += if error <= EXPONENT_ERROR_MAX {
            2.0 * weight * std::f64::consts::LN_2 * error * SAFETY
        } else {
            f64::INFINITY
        };
        self.length_max = self.length_max.max(length);
        self.logarithm_max = self.logarithm_max.max(logarithm);
    }

    /// Sum over pairs of the exponent's error times the term: the table above.
    fn exponent_error(&self, a: f64, logarithm: f64, moments: Moments) -> f64 {
        let Moments { zeroth, first, second } = moments;
        let norms = a * a * zeroth + 2.0 * a * first + second;
        let products = a * a * zeroth + a * first;
        // A is among the norms, so one sum bounds both ways to begin.
        let chain = self.dimensions * (norms + logarithm * zeroth + 2.0 * products) + 2.0 * products;
        let ends = second + (2.0 * logarithm + a * a) * zeroth;
        let own_norm = (self.dimensions + 1.0) * norms;
        let moved = 2.0 * (3.0 * a * first + 2.0 * second) + 2.0 * second;
        EPS * (chain + ends + own_norm + moved)
    }

    /// Bound in d^2 near distance `range`, given the query's own sigma and the least of the candidates'.
    pub(super) fn squared(&self, range: f64, sigma_query: f64, sigma_self_min: f64) -> f64 {
        if self.similarity == Similarity::Minus {
            // d^2 - sigma(q,q) - sigma(o,o) is twice the cross sum.
            let spread = range * range - sigma_query - sigma_self_min;
            return self.fixed + self.relative * spread.max(0.0) * SAFETY;
        }
        // Not zero, whose logarithm is infinite.
        let query_length = sigma_query.max(f64::MIN_POSITIVE).sqrt();
        let sigma = (query_length * (query_length + range)).min(self.similarity_max);
        let mut closer = self.relative * sigma;
        if self.similarity == Similarity::Gaussian {
            let error = self.exponent_error(self.length_max, self.logarithm_max, Moments::of_sigma(sigma));
            closer += std::f64::consts::LN_2 * error;
        }
        if self.fixed.is_finite() { self.fixed.min(ABSOLUTE + 2.0 * closer * SAFETY) } else { self.fixed }
    }
}
