//! Regression by a Gaussian process over points: fit, append, predict (Rasmussen and Williams 2006, algorithm 2.1).
//!
//! The covariance of two samples is that of an [`Expression`]; a noise, and a jitter where the matrix needs one, are added to the
//! diagonal. The factor is a [`Cholesky`], as that of the marks of feedback: a batch is factorised by tiles, and appended
//! samples are rows, of the same bits if the tiles are those of [`Plain`](crate::cholesky::Plain).

use super::cholesky::Cholesky;
use super::fitting::{Likelihood, Prior, Stopped, TILE, Threads, closest, condition, is_pivot};
use crate::cholesky::{TileKernels, TiledMatrix, Usual};
use crate::covariance::{Expression, Points, Scratch};

/// The condition from which a fit warns: half of the digits of f64 are of no use then, and more.
pub const CONDITION_MAX: f64 = 1e12;
/// The first jitter that is tried and the last, in parts of the mean of the diagonal; each is this many times the one before.
const JITTERS: [f64; 5] = [1e-12, 1e-10, 1e-8, 1e-6, 1e-4];
/// Samples among which the closest pair is looked for.
const CLOSEST_AMONG: usize = 8192;
/// Points that are predicted at a time.
pub const BLOCK: usize = 256;

/// A number that is added to the diagonal so that the matrix is positive definite.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Jitter {
    /// None: a matrix that is not positive definite is an error.
    None,
    /// This number.
    Number(f64),
    /// The least of 1e-12, 1e-10, ... 1e-4 times the mean of the diagonal that suffices; none if none is needed.
    Auto,
}

/// How samples are fitted.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The covariance.
    pub expression: Expression,
    /// The variance of the noise of the targets, beside the `white` terms of the covariance.
    pub noise: f64,
    /// The term that a fit may add to the diagonal.
    pub jitter: Jitter,
    /// Whether targets are shifted and scaled to mean 0 and deviation 1; the likelihood is that of the scaled ones.
    pub normalize: bool,
}

/// Samples that cannot be fitted.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum FitError {
    /// There is no sample.
    #[error("there are no samples to fit")]
    Empty,
    /// All targets are equal.
    #[error("all targets are {0}, so they have no deviation to divide by: leave out `normalize`")]
    Constant(f64),
    /// The matrix of covariances is not positive definite.
    #[error("the covariances are not positive definite at sample {row} (the first is 0)")]
    NotPositiveDefinite {
        /// The sample.
        row: usize,
        /// The earlier sample that is nearest to it by the covariance.
        nearest: Option<usize>,
        /// The largest jitter that was tried.
        jitter: f64,
    },
    /// The caller cancelled the fit.
    #[error("the fit was cancelled")]
    Interrupted,
}

/// A Gaussian process fitted to samples.
#[derive(Clone, Debug, PartialEq)]
pub struct Regression {
    /// The covariance.
    pub expression: Expression,
    /// The variance of the noise.
    pub noise: f64,
    /// The jitter that was added to the diagonal, 0 for none.
    pub jitter: f64,
    /// The shift subtracted from targets, and the scale that they are divided by.
    pub scaling: (f64, f64),
    /// The points of the samples.
    pub points: Points,
    /// The targets, as they were given.
    pub targets: Vec<f64>,
    /// L with L L^T = K + (noise + jitter) I; without rows if only means are wanted.
    pub factor: Cholesky,
    /// The weights of the samples in a mean.
    pub weights: Vec<f64>,
    /// The logarithm of the marginal likelihood.
    pub log_likelihood: f64,
    /// An estimate of the condition of the matrix.
    pub condition: f64,
}

/// The shift and the scale of targets.
pub(super) fn scaling(targets: &[f64], normalize: bool) -> Result<(f64, f64), FitError> {
    let Some(first) = targets.first() else { return Err(FitError::Empty) };
    if !normalize {
        return Ok((0.0, 1.0));
    }
    let n = targets.len() as f64;
    let mean = targets.iter().sum::<f64>() / n;
    let variance = targets.iter().map(|y| (y - mean) * (y - mean)).sum::<f64>() / n;
    // One target has no deviation, and is shifted alone, as are targets that differ by rounding.
    match variance.sqrt() {
        _ if targets.len() == 1 => Ok((mean, 1.0)),
        deviation if deviation > 4.0 * f64::EPSILON * mean.abs() => Ok((mean, deviation)),
        _ => Err(FitError::Constant(*first)),
    }
}

/// Finds the likelihood with the least jitter that suffices. Returns the jitter too.
pub(super) fn with_jitter(
    prior: Prior<'_>,
    jitter: Jitter,
    targets: &[f64],
    threads: &mut dyn Threads,
) -> Result<(Likelihood, f64), FitError> {
    let points = prior.points;
    let diagonal = (0..points.len()).map(|at| prior.expression.diagonal(&points.point(at), true));
    let mean = diagonal.sum::<f64>() / points.len() as f64 + prior.added;
    let tries = match jitter {
        Jitter::None => vec![0.0],
        Jitter::Number(number) => vec![number],
        Jitter::Auto => std::iter::once(0.0).chain(JITTERS.map(|part| part * mean)).collect(),
    };
    let mut failed = None;
    for jitter in tries {
        let prior = Prior { added: prior.added + jitter, ..prior };
        match prior.likelihood(targets, threads) {
            Ok(found) => return Ok((found, jitter)),
            Err(Stopped::Interrupted) => return Err(FitError::Interrupted),
            Err(Stopped::NotPositiveDefinite { row }) => {
                failed = Some((failed.map_or(row, |(first, _)| first), jitter));
            }
        }
    }
    let (row, jitter) = failed.unwrap_or_default();
    Err(FitError::NotPositiveDefinite { row, nearest: nearest(prior.expression, points, row), jitter })
}

/// The earlier sample with the largest covariance.
fn nearest(expression: &Expression, points: &Points, row: usize) -> Option<usize> {
    let mut column = vec![0.0; row];
    expression.column((points, 0..row), &points.point(row), None, &mut Scratch::default(), &mut column);
    // The first of equal ones.
    (0..row).rev().max_by(|a, b| column[*a].total_cmp(&column[*b]))
}

impl Regression {
    /// Fits samples. The matrix of the covariances takes 8 n^2 bytes for n samples while it is factorised, and half of that stays.
    ///
    /// # Errors
    /// When there are no samples, the targets cannot be scaled, the covariances are not positive definite, or the caller cancels.
    ///
    /// # Panics
    /// When there is not a target for each point, a number is not finite, the noise is below 0, or dimensions differ.
    pub fn fit(
        points: Points,
        targets: Vec<f64>,
        settings: &Settings,
        threads: &mut dyn Threads,
    ) -> Result<Self, FitError> {
        assert_eq!(points.len(), targets.len(), "a target for each point");
        assert!(targets.iter().all(|y| y.is_finite()) && settings.noise >= 0.0, "finite numbers");
        let scaling = scaling(&targets, settings.normalize)?;
        let scaled = scaled(&targets, scaling);
        let expression = &settings.expression;
        let prior = Prior { expression, points: &points, added: settings.noise };
        let (fit, jitter) = with_jitter(prior, settings.jitter, &scaled, threads)?;
        let prior = Prior { added: settings.noise + jitter, ..prior };
        let condition = condition(&prior, &fit.factor, threads).map_err(|_| FitError::Interrupted)?;
        let factor = packed(&fit.factor);
        let Likelihood { weights, log_likelihood, .. } = fit;
        Ok(Self {
            expression: expression.clone(),
            noise: settings.noise,
            jitter,
            scaling,
            points,
            targets,
            factor,
            weights,
            log_likelihood,
            condition,
        })
    }

    /// The number of samples.
    pub fn len(&self) -> usize {
        self.targets.len()
    }

    /// Whether there is no sample.
    pub fn is_empty(&self) -> bool {
        self.targets.is_empty()
    }

    /// Whether deviations can be computed: the factor was kept.
    pub fn has_factor(&self) -> bool {
        self.factor.len() == self.len()
    }

    /// The two samples that are nearest to each other by the covariance, among the first 8192.
    pub fn closest(&self, threads: &mut dyn Threads) -> Option<(usize, usize)> {
        let prior = Prior { expression: &self.expression, points: &self.points, added: 0.0 };
        closest(&prior, CLOSEST_AMONG, threads)
    }

    /// Appends samples, in O(n^2) for each: their rows of the factor are made, all earlier ones stay. Shift, scale and jitter stay
    /// too.
    ///
    /// # Errors
    /// When the covariances are not positive definite; the model is as before.
    ///
    /// # Panics
    /// When the factor was not kept, there is not a target for each point, or dimensions differ.
    pub fn append(&mut self, points: &Points, targets: &[f64]) -> Result<(), FitError> {
        assert!(self.has_factor() && points.len() == targets.len(), "a factor, and a target for each point");
        let (known, mut all) = (self.len(), self.points.clone());
        (0..points.len()).for_each(|at| all.push(&points.point(at)));
        let mut scratch = Scratch::default();
        let rows: Vec<Vec<f64>> = (known..all.len())
            .map(|row| {
                let mut covariances = vec![0.0; row + 1];
                let of = (&all, 0..row + 1);
                self.expression.column(of, &all.point(row), Some(row), &mut scratch, &mut covariances);
                covariances[row] += self.noise + self.jitter;
                covariances
            })
            .collect();
        let rows: Vec<&[f64]> = rows.iter().map(Vec::as_slice).collect();
        let extended = self.factor.try_extend(&rows);
        let sound = |row: &usize| {
            let pivot = self.factor.row(*row)[*row];
            is_pivot(pivot * pivot, rows[row - known][*row])
        };
        let unsound = (known..self.factor.len()).find(|row| !sound(row));
        if let Some(row) = unsound.or(extended.err()) {
            self.factor.truncate(known);
            let nearest = nearest(&self.expression, &all, row);
            return Err(FitError::NotPositiveDefinite { row, nearest, jitter: self.jitter });
        }
        self.points = all;
        self.targets.extend_from_slice(targets);
        let scaled = scaled(&self.targets, self.scaling);
        self.weights.clone_from(&scaled);
        self.factor.solve(&mut self.weights);
        self.factor.solve_transposed(&mut self.weights);
        let fitted: f64 = scaled.iter().zip(&self.weights).map(|(y, alpha)| y * alpha).sum();
        let pivots = (0..self.len()).map(|row| self.factor.row(row)[row]);
        let constant = 0.5 * self.len() as f64 * (2.0 * std::f64::consts::PI).ln();
        self.log_likelihood = -0.5 * fitted - pivots.map(f64::ln).sum::<f64>() - constant;
        Ok(())
    }
}

/// Targets shifted and scaled.
pub(super) fn scaled(targets: &[f64], (shift, scale): (f64, f64)) -> Vec<f64> {
    targets.iter().map(|y| (y - shift) / scale).collect()
}

/// The rows of a factor by tiles.
fn packed(factor: &TiledMatrix) -> Cholesky {
    let (n, size) = (factor.rows(), factor.tile_size());
    let mut rows = vec![0.0; n * (n + 1) / 2];
    for i in 0..factor.tile_rows() {
        for j in 0..=i {
            let tile = factor.read(i, j);
            for row in i * size..((i + 1) * size).min(n) {
                let first = row * (row + 1) / 2;
                for column in j * size..((j + 1) * size).min(row + 1) {
                    rows[first + column] = tile[(column - j * size) * size + (row - i * size)];
                }
            }
        }
    }
    Cholesky::of_rows(rows)
}

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
    let mut predicted = Predicted::default();
    for first in (0..points.len()).step_by(BLOCK) {
        let block = first..(first + BLOCK).min(points.len());
        let all = block.map(|at| points.point(at)).collect::<Vec<_>>();
        block_of(model, factor, &all, first, &mut predicted)?;
    }
    Ok(predicted)
}

fn block_of(
    model: &Regression,
    factor: Option<&TiledMatrix>,
    points: &[Vec<f64>],
    first: usize,
    predicted: &mut Predicted,
) -> Result<(), NegativeVariance> {
    let Regression { expression, scaling: (shift, scale), weights, .. } = model;
    let n = model.len();
    // Row tile after row tile, each by columns; the last is filled up with zeros.
    let mut covariances = vec![vec![0.0; TILE * points.len()]; n.div_ceil(TILE)];
    let (mut scratch, mut column) = (Scratch::default(), vec![0.0; n]);
    for (at, point) in points.iter().enumerate() {
        expression.column((&model.points, 0..n), point, None, &mut scratch, &mut column);
        let mean: f64 = column.iter().zip(weights).map(|(k, alpha)| k * alpha).sum();
        predicted.means.push(shift + scale * mean);
        for (tile, rows) in covariances.iter_mut().zip(column.chunks(TILE)) {
            tile[at * TILE..][..rows.len()].copy_from_slice(rows);
        }
    }
    let Some(factor) = factor else { return Ok(()) };
    let kernels = Usual::default();
    for i in 0..covariances.len() {
        let (before, rest) = covariances.split_at_mut(i);
        for (k, solved) in before.iter().enumerate() {
            kernels.subtract_product(&factor.read(i, k), solved, &mut rest[0], TILE);
        }
        kernels.solve_columns(&factor.read(i, i), &mut rest[0], TILE);
    }
    for (at, point) in points.iter().enumerate() {
        let own = expression.diagonal(point, false);
        let of_noise = expression.diagonal(point, true) - own + model.noise;
        let squares = covariances.iter().flat_map(|tile| &tile[at * TILE..][..TILE]);
        let variance = own - squares.map(|v| v * v).sum::<f64>();
        if variance < -1e-6 * own.max(f64::MIN_POSITIVE) {
            return Err(NegativeVariance { point: first + at, variance });
        }
        predicted.rounded += usize::from(variance < 0.0);
        let variance = variance.max(0.0);
        predicted.variances.push(scale * scale * variance);
        predicted.of_observations.push(scale * scale * (variance + of_noise));
    }
    Ok(())
}
