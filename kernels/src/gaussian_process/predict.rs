//! Means and variances of points under a fitted Gaussian process.
//!
//! Points are predicted in blocks of [`BLOCK`]: their covariances with the samples of each tile are a tile of as many rows, which loses products
//! and is solved as those of a factor are. Invariant: a point has the same numbers in any block.

use std::ops::Range;

use super::fitting::TILE;
use super::regression::Regression;
use crate::cholesky::{TileKernels, TiledMatrix, Usual};
use crate::covariance::{Points, Scratch};

/// Points that are predicted at a time.
pub const BLOCK: usize = 256;

/// The mean and the variance of points.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Predicted {
    /// The means, in the unit of the targets.
    pub means: Vec<f64>,
    /// The variances of the function, without noise; empty if they were not asked for.
    pub variances: Vec<f64>,
    /// The variances of observations: with the noise and the `white` terms.
    pub of_observations: Vec<f64>,
    /// Variances that rounding had made negative, which are 0.
    pub rounded: usize,
}

/// A variance is below 0 by more than rounding explains.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error(
    "the variance of point {point} is {variance:e}, which rounding does not explain: the factor of the model is not that of its \
     samples, or its condition is too bad; fit it again, with more noise or `jitter: auto`"
)]
pub struct NegativeVariance {
    /// The point, from 0.
    pub point: usize,
    /// The variance, over the scale of the targets.
    pub variance: f64,
}

/// A model with its factor by tiles, for predictions.
pub struct Predictor<'m> {
    model: &'m Regression,
    factor: Option<TiledMatrix>,
}

impl<'m> Predictor<'m> {
    /// A predictor; `deviations` says whether it computes variances, for which it needs the factor.
    ///
    /// # Panics
    /// When variances are wanted and the factor was not kept.
    pub fn new(model: &'m Regression, deviations: bool) -> Self {
        Self { model, factor: deviations.then(|| Self::tiles(model)) }
    }

    /// The factor of a model by tiles.
    ///
    /// # Panics
    /// When the factor was not kept.
    pub fn tiles(model: &Regression) -> TiledMatrix {
        assert!(model.has_factor(), "deviations need the factor");
        TiledMatrix::new(model.len(), TILE, |row, column| model.factor.row(row)[column])
    }

    /// Predicts points with a factor by tiles, or without deviations.
    ///
    /// # Errors
    /// When a variance is below 0 by more than rounding explains.
    ///
    /// # Panics
    /// When the dimensions are others.
    pub fn predict(&self, points: &Points) -> Result<Predicted, NegativeVariance> {
        predict(self.model, self.factor.as_ref(), points)
    }
}

/// Predicts points with a factor by tiles ([`Predictor::tiles`]), or without deviations.
///
/// # Errors
/// When a variance is below 0 by more than rounding explains.
///
/// # Panics
/// When the dimensions are others.
pub fn predict(
    model: &Regression,
    factor: Option<&TiledMatrix>,
    points: &Points,
) -> Result<Predicted, NegativeVariance> {
    let mut sums = Sums::default();
    for first in (0..points.len()).step_by(BLOCK) {
        block_of(model, factor, points, first..(first + BLOCK).min(points.len()), &mut sums);
    }
    predict_by(model, points, sums)
}

/// Sums over the samples, for each of some points.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sums {
    /// Covariances times weights.
    pub means: Vec<f64>,
    /// The part of the variances that the samples explain, the squares of L^-1 k; empty without deviations.
    pub explained: Vec<f64>,
}

/// Means and variances of points by their sums over the samples, which a device may have computed.
///
/// # Errors
/// When a variance is below 0 by more than rounding explains.
///
/// # Panics
/// When the dimensions are others, or there is not a sum for each point.
pub fn predict_by(model: &Regression, points: &Points, sums: Sums) -> Result<Predicted, NegativeVariance> {
    let Sums { means, explained: variances } = sums;
    assert!(means.len() == points.len() && [0, points.len()].contains(&variances.len()), "a sum a point");
    let (shift, scale) = model.scaling;
    let means = means.into_iter().map(|mean| shift + scale * mean).collect();
    let mut predicted = Predicted { means, variances, ..Predicted::default() };
    if predicted.variances.is_empty() {
        return Ok(predicted);
    }
    let own = model.expression.diagonals(points, false);
    let of_same = model.expression.diagonals(points, true);
    for (at, variance) in predicted.variances.iter_mut().enumerate() {
        // Until here it is what the samples explain.
        let left = own[at] - *variance;
        if left < -model.rounding() * own[at].max(f64::MIN_POSITIVE) {
            return Err(NegativeVariance { point: at, variance: left });
        }
        predicted.rounded += usize::from(left < 0.0);
        *variance = scale * scale * left.max(0.0);
        predicted.of_observations.push(*variance + scale * scale * (of_same[at] - own[at] + model.noise));
    }
    Ok(predicted)
}

/// Adds the sums of a block of points.
fn block_of(
    model: &Regression,
    factor: Option<&TiledMatrix>,
    points: &Points,
    rows: Range<usize>,
    sums: &mut Sums,
) {
    let Regression { expression, weights, .. } = model;
    let (n, count, kernels) = (model.len(), rows.len(), Usual::default());
    let (mut scratch, mut means) = (Scratch::default(), vec![0.0; count]);
    let mut explained = vec![0.0; count];
    // The covariances of the points with the samples of each tile, by columns, and solved: X L^T = K.
    let mut solved: Vec<Vec<f64>> = Vec::new();
    for (tile, first) in (0..n).step_by(TILE).enumerate() {
        let columns = first..(first + TILE).min(n);
        let of = (&model.points, columns.clone());
        let place = (points, rows.clone());
        let Some(factor) = factor else {
            expression.block(place, of, &weights[columns], &mut scratch, &mut means, &mut []);
            continue;
        };
        let mut own = vec![0.0; TILE * count];
        let filled = &mut own[..columns.len() * count];
        expression.block(place, of, &weights[columns], &mut scratch, &mut means, filled);
        for (k, before) in solved.iter().enumerate() {
            kernels.product(before, &factor.read(tile, k), &mut own, TILE);
        }
        kernels.solve(&factor.read(tile, tile), &mut own, TILE);
        for column in own.chunks_exact(count) {
            explained.iter_mut().zip(column).for_each(|(sum, v)| *sum += v * v);
        }
        solved.push(own);
    }
    sums.means.extend(means);
    if factor.is_some() {
        sums.explained.extend(explained);
    }
}
