//! A query signature, prepared once for many candidates, with the largest error of the fast paths.

use super::columns::{Columns, SignatureRef};
use super::device::{HALVES_END_MIN, HALVES_NUMBER_MAX, Shape};
use super::error_bound::{Arithmetic, ErrorBound};
use super::reference;
use super::stream::ROWS;
use crate::interrupt::{Interrupt, Interrupted, finished, never};
use crate::similarity::{Measure, Similarity};

/// A query signature in the layout of the inner loop, which is the same for every code path.
///
/// For the Gaussian, coordinates are moved by the query's mean and scaled by sqrt(alpha log2 e). The exponent of two then is
/// an expanded square around a centre near the data.
#[derive(Clone, Debug)]
pub struct PreparedQuery {
    measure: Measure,
    centre: Vec<f32>,
    scale: f32,
    /// `dimensions + 1` entries for each [`ROWS`] centroids: their coordinates, then their `query_end` (`terms.rs`).
    /// Missing centroids of the last group have weight 0.
    groups: Vec<[f32; ROWS]>,
    sigma_self: f64,
    error: ErrorBound,
}

impl PreparedQuery {
    /// Prepares a query of at least one centroid. Computes the query's similarity to itself in f64.
    pub fn new(measure: Measure, signature: SignatureRef<'_>) -> Self {
        finished(Self::new_until(measure, signature, &never))
    }

    /// As [`PreparedQuery::new`], but the caller can interrupt it.
    ///
    /// # Errors
    /// If the caller interrupts.
    pub fn new_until(
        measure: Measure,
        signature: SignatureRef<'_>,
        interrupt: Interrupt<'_>,
    ) -> Result<Self, Interrupted> {
        let dimensions = signature.dimensions();
        let gaussian = measure.similarity() == Similarity::Gaussian;
        let (centre, scale) = if gaussian {
            let scale = (measure.alpha() * std::f64::consts::LOG2_E).sqrt() as f32;
            ((0..dimensions).map(|d| mean(signature.coordinate(d), signature.weights())).collect(), scale)
        } else {
            (vec![0.0; dimensions], 1.0)
        };
        let mut groups = vec![[0.0; ROWS]; signature.len().div_ceil(ROWS) * (dimensions + 1)];
        for ends in groups.iter_mut().skip(dimensions).step_by(dimensions + 1) {
            *ends = [if gaussian { f32::NEG_INFINITY } else { 0.0 }; ROWS];
        }
        let mut error = ErrorBound::new(&measure, dimensions, signature.len());
        for (i, &weight) in signature.weights().iter().enumerate() {
            let group = &mut groups[i / ROWS * (dimensions + 1)..][..=dimensions];
            let mut norm = 0.0;
            for (d, &centre) in centre.iter().enumerate() {
                let moved = (f64::from(signature.coordinate(d)[i]) - f64::from(centre)) * f64::from(scale);
                // The norm of the rounded coordinates: so rounding moves the centroid, and adds no error to its exponent.
                norm += f64::from(moved as f32).powi(2);
                group[d][i % ROWS] = if gaussian { 2.0 * moved as f32 } else { moved as f32 };
            }
            let weight = f64::from(weight);
            group[dimensions][i % ROWS] =
                if gaussian { (weight.log2() - norm) as f32 } else { weight as f32 };
            error.add_centroid(weight, norm.sqrt());
        }
        let sigma_self = reference::sigma_until(&measure, signature, signature, interrupt)?;
        Ok(Self { measure, centre, scale, groups, sigma_self, error })
    }

    /// The measure that the query was prepared for.
    pub fn measure(&self) -> Measure {
        self.measure
    }

    /// Number of coordinates of a centroid.
    pub fn dimensions(&self) -> usize {
        self.centre.len()
    }

    /// The query's similarity to itself, as in [`reference::sigma_self`].
    pub fn sigma_self(&self) -> f64 {
        self.sigma_self
    }

    /// The largest difference of the squares of a fast distance and the reference's distance, near distance `range`.
    ///
    /// `sigma_self_min` is the least similarity of a candidate to itself. Only `minus`, whose sums have no bound of their
    /// own, depends on it. The result is infinite if f32 cannot hold these coordinates at this alpha.
    pub fn error_squared(&self, range: f64, sigma_self_min: f64) -> f64 {
        self.error_squared_of(Arithmetic::Single, range, sigma_self_min)
    }

    /// [`PreparedQuery::error_squared`] of distances that were computed in the given arithmetic.
    pub fn error_squared_of(&self, arithmetic: Arithmetic, range: f64, sigma_self_min: f64) -> f64 {
        self.error.squared(arithmetic, range, self.sigma_self, sigma_self_min)
    }

    /// The largest error of a fast distance near `range`; see [`distance_error`](super::distance_error).
    pub fn distance_error(&self, range: f64, sigma_self_min: f64) -> f64 {
        super::distance_error(self.error_squared(range, sigma_self_min), range)
    }

    /// The distance of an object with this cross sum and self-similarity. If f32 could not hold the cross sum, this calls
    /// `object` and computes the sum in f64.
    ///
    /// Use it for the cross sums of devices. [`Evaluator`](super::Evaluator) does the same by itself.
    ///
    /// # Errors
    /// The error of `object`.
    pub fn distance<'a, E>(
        &self,
        cross: f64,
        sigma_self: f64,
        object: impl FnOnce() -> Result<SignatureRef<'a>, E>,
    ) -> Result<f64, E> {
        let cross = match self.is_overflow(cross) {
            true => finished(self.cross_in_f64(object()?, &never)),
            false => cross,
        };
        Ok(reference::distance(self.sigma_self, sigma_self, cross))
    }

    /// Whether f32 could not hold the terms of a cross sum.
    ///
    /// All terms of `minus` have one sign, so a term that overflows makes the sum infinite, or NaN if its weight is 0. With
    /// the other similarities, the term of centroids so far apart is nearly 0, as it should be.
    pub(super) fn is_overflow(&self, cross: f64) -> bool {
        !cross.is_finite() && self.measure.similarity() == Similarity::Minus
    }

    /// The cross sum with an object, with the bits of [`reference::sigma`]. Only for measures that neither move nor scale
    /// the query.
    pub(super) fn cross_in_f64(
        &self,
        object: SignatureRef<'_>,
        interrupt: Interrupt<'_>,
    ) -> Result<f64, Interrupted> {
        debug_assert!(self.measure.similarity() != Similarity::Gaussian, "the query's own coordinates");
        let groups = self.groups.chunks_exact(self.dimensions() + 1);
        let columns: Vec<Vec<f32>> =
            (0..=self.dimensions()).map(|d| groups.clone().flat_map(|group| group[d]).collect()).collect();
        let coordinates: Vec<&[f32]> = columns[..self.dimensions()].iter().map(Vec::as_slice).collect();
        let columns = Columns::new(&coordinates, &columns[self.dimensions()]);
        // Centroids that only fill the last group have weight 0 and add nothing.
        let query = columns.signature(0, columns.weights().len());
        reference::sigma_until(&self.measure, query, object, interrupt)
    }

    pub(super) fn centre(&self) -> &[f32] {
        &self.centre
    }

    pub(super) fn scale(&self) -> f32 {
        self.scale
    }

    pub(super) fn groups(&self) -> &[[f32; ROWS]] {
        &self.groups
    }
}

impl PreparedQuery {
    /// Appends the rows of the query in the layout of the kernel. Returns their number.
    ///
    /// # Panics
    /// If the shape has another number of dimensions.
    pub fn device_rows(&self, shape: &Shape, to: &mut Vec<f32>) -> usize {
        assert_eq!(shape.dimensions(), self.dimensions(), "a query of the shape's dimensions");
        let groups = self.groups().chunks_exact(self.dimensions() + 1);
        let rows = groups.len() * ROWS;
        for group in groups {
            for row in 0..ROWS {
                to.extend(group.iter().map(|numbers| numbers[row]));
                to.extend(std::iter::repeat_n(0.0, shape.row() - group.len()));
            }
        }
        rows
    }

    /// Whether matrix units ([`Shape::matrices`]) can multiply the query's numbers.
    pub fn fits_matrices(&self) -> bool {
        self.groups().chunks_exact(self.dimensions() + 1).all(|group| {
            let (ends, numbers) = (group[self.dimensions()], &group[..self.dimensions()]);
            numbers.iter().flatten().all(|number| number.abs() <= HALVES_NUMBER_MAX)
                && ends.iter().all(|end| *end == f32::NEG_INFINITY || *end >= HALVES_END_MIN)
        })
    }

    /// The centre that the kernel subtracts from a candidate's coordinates, and the factor that it multiplies them by.
    pub fn device_frame(&self) -> (&[f32], f32) {
        (self.centre(), self.scale())
    }
}

fn mean(coordinates: &[f32], weights: &[f32]) -> f32 {
    let (sum, total) = coordinates
        .iter()
        .zip(weights)
        .fold((0.0, 0.0), |(sum, total), (&x, &w)| (sum + f64::from(w) * f64::from(x), total + f64::from(w)));
    if total > 0.0 { (sum / total) as f32 } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::similarity::Ground;

    #[test]
    fn numbers_that_halves_do_not_hold_are_refused_to_matrix_units() {
        let fits = |spread: f32| {
            let columns: [&[f32]; 1] = [&[-spread, spread]];
            let columns = Columns::new(&columns, &[0.5, 0.5]);
            let measure = Measure::new(Similarity::Gaussian, Ground::L2, 1.0).unwrap();
            PreparedQuery::new(measure, columns.signature(0, 2)).fits_matrices()
        };
        assert!(fits(1.0) && fits(4000.0) && !fits(6000.0) && !fits(1e30));
    }
}
