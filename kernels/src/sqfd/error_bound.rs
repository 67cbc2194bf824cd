//! The largest error of the fast paths against the reference: proved, not measured.
//!
//! `eps` is 2^-24, the relative error of one f32 operation, and `D` is the number of dimensions. Weights sum to 1.
//!
//! # Gaussian
//! With scaled centroids `a` and `b` and `delta = |a - b|`, the true term of a pair is `w_i w_j 2^-delta^2`. The error of
//! the computed exponent is at most `eps` times the sum of
//!
//! | source | at most |
//! |---|---|
//! | the chain: D additions to partial sums, and D products if they are rounded | `D (B + 2P) + 2P` |
//! | the chain if it begins with the query's number (a device, candidates near the centre) | `D (A + l + 2P) + 2P` |
//! | the addition of the query's number, and the rounding of that number | `delta^2 + 2 l + A` |
//! | the candidate's norm | `(D + 1) B` |
//! | moving and scaling: each centroid shifts by a few eps of its own length | `2 delta (2 b + a) + 2 delta^2` |
//!
//! Matrix units compute exponents as products of matrices. The query's number is then one of the factors, and each number
//! is split into two parts of 11 bits. The first three lines become
//!
//! | source | at most |
//! |---|---|
//! | the split: lower parts, and the upper parts beside them, are rounded to halves; the product of two lower parts is left out | `40 P + 4 (A + l)` |
//! | halves below their normal numbers: an error of half an eps each, times the other factor | `4 sqrt(D) (a + delta)` |
//! | sums of 17 and of 9 numbers, each cut off two bits below the largest (two eps; measured, not documented), for `S` steps of eight numbers | `60 S (B + 2P + A + l)` |
//! | the rounding of the query's number | `delta^2 + 2 l + A` |
//!
//! Here `a` and `b` are lengths, `A = a^2`, `B = b^2`, `P = a b` (Cauchy's inequality bounds the products), and `l` is the
//! absolute logarithm of the query centroid's weight. We have `b <= a + delta`, `delta 2^-delta^2 <= 0.516` and
//! `delta^2 2^-delta^2 <= 0.531`. So the exponent's error times the term is bounded by numbers of the query alone: a far
//! candidate has a large error in a term that is nearly 0. The relative errors of `exp2` and of adding positive terms are
//! added to this.
//!
//! # A tighter bound near a given distance
//! The distance is that of a Hilbert space in which sigma is the inner product. So a candidate within `r` of the query has
//! `sigma <= |q| (|q| + r)`, where `|q|^2 = sigma(q,q)`. The terms sum to sigma, and `t log2(1/t)` is concave in a term
//! `t = 2^-delta^2`. By Jensen's inequality the errors sum to at most what they would be if every term were sigma. That
//! gives the same table with `sigma`, `sigma log2(1/sigma)^(1/2)` (by Cauchy's inequality) and `sigma log2(1/sigma)` in
//! place of 1 and the two constants, and with the query's longest centroid for `a`. Both bounds hold, so the smaller one
//! is used.
//!
//! # Heuristic and minus
//! Differences are computed before anything is squared, so all errors are relative: to `1 / alpha` at most for the
//! heuristic, and to sigma itself for minus, where the distance and the two self-similarities determine sigma.
//!
//! This needs f32 to hold every term. A sum of minus that overflows is infinite or NaN, and
//! [`PreparedQuery::distance`](super::PreparedQuery::distance) computes it in f64 instead. A term of the heuristic whose
//! ground distance overflows is 0 here, and its true value is below 6e-20.

use super::device;
use super::stream::{GROUPS_PER_PARTIAL_SUM, ROWS};
use crate::lanes::EXP2_RELATIVE_ERROR;
use crate::similarity::{Measure, Similarity};

const EPS: f64 = 1.0 / (1 << 24) as f64;

/// Covers errors of second order, and weights whose sum is only nearly 1.
const SAFETY: f64 = 1.25;

/// The analysis is of first order. If the exponent's error is larger than this, the bound becomes infinite.
const EXPONENT_ERROR_MAX: f64 = 0.05;

/// Largest value of `x 2^-x^2` and of `x^2 2^-x^2`.
const LINEAR_MAX: f64 = 0.516;
const SQUARE_MAX: f64 = 0.531;

/// Covers underflow of squared differences, terms cut off at the least exponent, and the reference's own rounding.
const ABSOLUTE: f64 = 1e-14;

/// A bound on the error of squared distances from one query.
#[derive(Clone, Copy, Debug)]
pub(super) struct ErrorBound {
    similarity: Similarity,
    dimensions: f64,
    /// Relative error of a term and of summing, for every pair.
    relative: f64,
    /// Relative error on matrix units.
    relative_of_matrices: f64,
    /// Largest value of a similarity; infinite for minus.
    similarity_max: f64,
    /// The bound that holds at every distance. For minus, the part that is not relative to sigma.
    fixed: f64,
    /// The bound at every distance on matrix units.
    fixed_of_matrices: f64,
    /// Length of the longest query centroid, and the largest absolute logarithm of a weight.
    length_max: f64,
    logarithm_max: f64,
}

/// The arithmetic that computes the exponents of pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arithmetic {
    /// Single precision.
    Single,
    /// Matrix units, which multiply numbers of 11 bits and add in single precision.
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
    /// For any terms.
    const LARGEST: Self = Self { zeroth: 1.0, first: LINEAR_MAX, second: SQUARE_MAX };

    /// For terms whose sum is at most `sigma`.
    fn of_sigma(sigma: f64) -> Self {
        // Both functions increase up to their maxima, at e^-1/2 and e^-1.
        let logarithm = -sigma.log2();
        let first = if sigma < 0.6 { sigma * logarithm.sqrt() } else { LINEAR_MAX };
        let second = if sigma < 0.36 { sigma * logarithm } else { SQUARE_MAX };
        Self { zeroth: sigma.min(1.0), first, second }
    }
}

impl ErrorBound {
    /// The bound without the part of the query's centroids.
    pub(super) fn new(measure: &Measure, dimensions: usize, centroids: usize) -> Self {
        let groups = centroids.div_ceil(ROWS);
        let depth = 2 + groups.min(GROUPS_PER_PARTIAL_SUM) + groups.div_ceil(GROUPS_PER_PARTIAL_SUM) + 1;
        let depth = depth.max(device::depth(centroids));
        let dimensions = dimensions as f64;
        let (term, similarity_max) = match measure.similarity() {
            // A device may multiply by a second power, that of the candidate's norm.
            Similarity::Gaussian => (2.0 * EXP2_RELATIVE_ERROR + EPS, 1.0),
            // A difference, its square, D additions and a root; rounding and adding alpha, a division, and the weight. On a
            // device the root may have an error of 3 units in the last place and the division one of 2.5, each of two eps.
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
        // f32 cannot hold every alpha.
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

    /// Adds the part of a query centroid with this weight, at distance `length` from the centre in scaled coordinates.
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
            // A is among the norms, so one sum bounds both kinds of chain.
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

    /// The bound near distance `range`, given the query's similarity to itself and the least one of the candidates.
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
            // Minus twice the cross sum is d^2 - sigma(q,q) - sigma(o,o).
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
