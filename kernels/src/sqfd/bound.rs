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
//! # Heuristic and minus
//! Differences are taken before anything is squared, so all errors are relative: to `1 / alpha` at most for the
//! heuristic, to sigma itself for minus, which the distance and the two own sigmas determine.

use super::block::GROUPS_PER_PARTIAL_SUM;
use super::lanes::{EXP2_RELATIVE_ERROR, EXPONENT_MIN};
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

/// Bound on the error in d^2: a fixed part, and a part relative to `d^2 - sigma(q,q) - sigma(o,o)`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bound {
    similarity: Similarity,
    dimensions: f64,
    /// Relative error of a term and of summing, for every pair.
    relative: f64,
    /// Largest value of a similarity; infinite for minus.
    similarity_max: f64,
    fixed: f64,
}

impl Bound {
    /// The bound of a query without its centroids' own part.
    pub(super) fn new(measure: &Measure, dimensions: usize, centroids: usize) -> Self {
        let groups = centroids.div_ceil(ROWS);
        let depth = 2 + groups.min(GROUPS_PER_PARTIAL_SUM) + groups.div_ceil(GROUPS_PER_PARTIAL_SUM) + 1;
        let dimensions = dimensions as f64;
        let (term, similarity_max) = match measure.similarity() {
            Similarity::Gaussian => (EXP2_RELATIVE_ERROR, 1.0),
            // A difference, its square, D additions, a root; alpha rounded and added, a division; the weight.
            Similarity::Heuristic => (EPS * (dimensions + 9.0), 1.0 / measure.alpha()),
            Similarity::Minus => (EPS * (dimensions + 6.0), f64::INFINITY),
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
        Self { similarity: measure.similarity(), dimensions, relative, similarity_max, fixed }
    }

    /// Adds the part of one query centroid of the given weight, at `a` from the centre in scaled coordinates.
    pub(super) fn add_centroid(&mut self, weight: f64, a: f64) {
        if self.similarity != Similarity::Gaussian || weight <= 0.0 {
            return;
        }
        let norms = a * a + 2.0 * a * LINEAR_MAX + SQUARE_MAX;
        let products = a * a + a * LINEAR_MAX;
        let chain = self.dimensions * (norms + 2.0 * products) + 2.0 * products;
        let ends = SQUARE_MAX + 2.0 * weight.log2().abs() + a * a;
        let own_norm = (self.dimensions + 1.0) * norms;
        let moved = 2.0 * (3.0 * a * LINEAR_MAX + 2.0 * SQUARE_MAX) + 2.0 * SQUARE_MAX;
        let exponent_error = EPS * (chain + ends + own_norm + moved);
        self.fixed += if exponent_error <= EXPONENT_ERROR_MAX {
            2.0 * weight * (std::f64::consts::LN_2 * exponent_error + f64::from(EXPONENT_MIN).exp2()) * SAFETY
        } else {
            f64::INFINITY
        };
    }

    /// Bound in d^2, where `spread` is `d^2 - sigma(q,q) - sigma(o,o)`, which is twice the cross sum of minus.
    pub(super) fn squared(&self, spread: f64) -> f64 {
        if self.similarity_max.is_finite() {
            self.fixed
        } else {
            self.fixed + self.relative * spread.max(0.0) * SAFETY
        }
    }
}
