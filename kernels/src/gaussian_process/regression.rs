//! Regression by a Gaussian process over points: fit, append, predict (Rasmussen and Williams 2006, algorithm 2.1).
//!
//! The covariance of two samples is that of an [`Expression`]; a noise, and a jitter where the matrix needs one, are added to the
//! diagonal. The factor is a [`Cholesky`], as that of the marks of feedback: a batch is factorised by tiles, and appended
//! samples are rows, of the same bits if the tiles are those of [`Plain`](crate::cholesky::Plain).

use super::cholesky::Cholesky;
use super::device::Stopped;
use super::fitting::{Likelihood, Prior, ThisThread, Threads, closest, condition, is_pivot};
use super::precision::{Precision, Real, Solved, error_of_single};
use super::refinement::refine;
use crate::cholesky::TiledMatrix;
use crate::covariance::{Expression, Points, Scratch};

/// The condition from which a fit warns: half of the digits of f64 are of no use then, and more.
pub const CONDITION_MAX: f64 = 1e12;
/// The condition from which a fit with a factor in f32 warns.
pub const CONDITION_MAX_SINGLE: f64 = 1e6;
/// Samples among which the closest pair is looked for.
const CLOSEST_AMONG: usize = 8192;

/// A number that is added to the diagonal so that the matrix is positive definite.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Jitter {
    /// None: a matrix that is not positive definite is an error.
    None,
    /// This number.
    Number(f64),
    /// The least of 1e-12, 1e-10, ... 1e-4 times the mean of the diagonal that suffices (in f32 from 1e-7); none if none is needed.
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
    /// The numbers in which the matrix is factorised.
    pub precision: Precision,
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
    /// The error of a likelihood in f32 is not small beside what an optimiser gained.
    #[error(
        "with a factor in f32 the error of the log likelihood is about {error:.1e}, more than a thousandth of the {gained:.1e} that \
         the search for parameters gained: take `precision: f64`"
    )]
    Imprecise {
        /// The estimated error.
        error: f64,
        /// The difference of the likelihoods of the end and the start.
        gained: f64,
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
    /// The numbers of the factor, and whether weights were refined: [`Precision::F64`] also where a fit in mixed precision fell back to it.
    pub precision: Precision,
    /// How the weights were found.
    pub solved: Solved,
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
pub(super) fn with_jitter<T: Real>(
    prior: Prior<'_>,
    jitter: Jitter,
    targets: &[f64],
    threads: &mut dyn Threads,
) -> Result<(Likelihood<T>, f64), FitError> {
    let points = prior.points;
    let diagonal = prior.expression.diagonals(points, true);
    let mean = diagonal.iter().sum::<f64>() / points.len() as f64 + prior.added;
    let tries = match jitter {
        Jitter::None => vec![0.0],
        Jitter::Number(number) => vec![number],
        Jitter::Auto => std::iter::once(0.0).chain(T::JITTERS.iter().map(|part| part * mean)).collect(),
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

/// The likelihood with the factor in f32 and refined weights; nothing if there is no such factor, or no convergence.
pub(super) fn refined(
    prior: &Prior<'_>,
    targets: &[f64],
    threads: &mut dyn Threads,
) -> Result<Result<(Likelihood<f32>, Solved), Solved>, FitError> {
    let mut fit = match prior.likelihood::<f32>(targets, threads) {
        Ok(fit) => fit,
        Err(Stopped::NotPositiveDefinite { .. }) => return Ok(Err(Solved::AgainNotPositiveDefinite)),
        Err(Stopped::Interrupted) => return Err(FitError::Interrupted),
    };
    let mut weights = std::mem::take(&mut fit.weights);
    let solved = refine(prior, &|b| fit.solve(b), (targets, &mut weights), threads);
    let solved = solved.map_err(|_| FitError::Interrupted)?;
    fit.reweigh(targets, weights);
    Ok(solved.map(|solved| (fit, solved)).ok_or(Solved::AgainNotConverged))
}

impl Regression {
    /// Fits samples. The matrix of the covariances takes 4 n^2 bytes for n samples while it is factorised, half of that in f32; the
    /// model takes 4 n^2.
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
        let mut model = Self {
            expression: settings.expression.clone(),
            noise: settings.noise,
            jitter: 0.0,
            scaling,
            points,
            targets,
            factor: Cholesky::default(),
            weights: Vec::new(),
            log_likelihood: 0.0,
            condition: 0.0,
            precision: settings.precision,
            solved: Solved::Directly,
        };
        match settings.precision {
            Precision::F64 => model.fit_in::<f64>(settings.jitter, &scaled, threads)?,
            Precision::F32 => model.fit_in::<f32>(settings.jitter, &scaled, threads)?,
            Precision::Mixed => model.fit_refined(settings.jitter, &scaled, threads)?,
        }
        Ok(model)
    }

    /// The prior of this model.
    fn prior(&self) -> Prior<'_> {
        Prior { expression: &self.expression, points: &self.points, added: self.noise + self.jitter }
    }

    fn fit_in<T: Real>(
        &mut self,
        jitter: Jitter,
        scaled: &[f64],
        threads: &mut dyn Threads,
    ) -> Result<(), FitError> {
        let (fit, jitter) = with_jitter::<T>(self.prior(), jitter, scaled, threads)?;
        self.jitter = jitter;
        self.take(fit, threads)
    }

    fn fit_refined(
        &mut self,
        jitter: Jitter,
        scaled: &[f64],
        threads: &mut dyn Threads,
    ) -> Result<(), FitError> {
        if let Jitter::Number(number) = jitter {
            self.jitter = number;
        }
        match refined(&self.prior(), scaled, threads)? {
            Ok((fit, solved)) => {
                self.solved = solved;
                self.take(fit, threads)
            }
            Err(solved) => {
                (self.solved, self.jitter, self.precision) = (solved, 0.0, Precision::F64);
                self.fit_in::<f64>(jitter, scaled, threads)
            }
        }
    }

    /// Takes the factor, and what follows from it.
    fn take<T: Real>(&mut self, fit: Likelihood<T>, threads: &mut dyn Threads) -> Result<(), FitError> {
        let condition = condition(&self.prior(), &|b| fit.solve(b), threads);
        self.condition = condition.map_err(|_| FitError::Interrupted)?;
        self.factor = packed(&fit.factor);
        (self.weights, self.log_likelihood) = (fit.weights, fit.log_likelihood);
        Ok(())
    }

    /// An estimate of the error of the logarithm of the likelihood that comes from a factor in f32; 0 for one in f64.
    pub fn likelihood_error(&self) -> f64 {
        match self.precision {
            Precision::F64 => 0.0,
            Precision::Mixed | Precision::F32 => error_of_single(self.len(), self.condition),
        }
    }

    /// The condition from which half of the digits of the factor are of no use, and more.
    pub fn condition_max(&self) -> f64 {
        match self.precision {
            Precision::F64 => CONDITION_MAX,
            Precision::Mixed | Precision::F32 => CONDITION_MAX_SINGLE,
        }
    }

    /// The part of a variance by which rounding may bring it below 0.
    pub(super) fn rounding(&self) -> f64 {
        match self.precision {
            Precision::F64 => 1e-6,
            Precision::Mixed | Precision::F32 => (self.len() as f64 * f64::from(f32::EPSILON)).max(1e-6),
        }
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
            is_pivot::<f64>(pivot * pivot, rows[row - known][*row])
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
        let solve = |b: &mut [f64]| {
            self.factor.solve(b);
            self.factor.solve_transposed(b);
        };
        if let Ok(condition) = condition(&self.prior(), &solve, &mut ThisThread) {
            self.condition = condition;
        }
        self.refine_weights(&scaled);
        let fitted: f64 = scaled.iter().zip(&self.weights).map(|(y, alpha)| y * alpha).sum();
        let pivots = (0..self.len()).map(|row| self.factor.row(row)[row]);
        let constant = 0.5 * self.len() as f64 * (2.0 * std::f64::consts::PI).ln();
        self.log_likelihood = -0.5 * fitted - pivots.map(f64::ln).sum::<f64>() - constant;
        Ok(())
    }

    /// Refines the weights of a model in mixed precision. They stay if nothing converges: they are those of the factor.
    fn refine_weights(&mut self, scaled: &[f64]) {
        if self.precision != Precision::Mixed {
            return;
        }
        let mut weights = self.weights.clone();
        let solve = |b: &mut [f64]| {
            self.factor.solve(b);
            self.factor.solve_transposed(b);
        };
        if let Ok(Some(solved)) = refine(&self.prior(), &solve, (scaled, &mut weights), &mut ThisThread) {
            (self.solved, self.weights) = (solved, weights);
        }
    }
}

/// Targets shifted and scaled.
pub(super) fn scaled(targets: &[f64], (shift, scale): (f64, f64)) -> Vec<f64> {
    targets.iter().map(|y| (y - shift) / scale).collect()
}

/// The rows of a factor by tiles. A few columns of a tile at a time, so that both sides are read and written in whole cache lines.
fn packed<T: Real>(factor: &TiledMatrix<T>) -> Cholesky {
    const TOGETHER: usize = 8;
    let (n, size) = (factor.rows(), factor.tile_size());
    let mut rows = vec![0.0; n * (n + 1) / 2];
    for i in 0..factor.tile_rows() {
        for j in 0..=i {
            let tile = factor.read(i, j);
            for first in (0..size).step_by(TOGETHER) {
                let columns = j * size + first..(j * size + first + TOGETHER).min((j + 1) * size);
                for row in (i * size).max(columns.start)..((i + 1) * size).min(n) {
                    let columns = columns.start..columns.end.min(row + 1);
                    let to = &mut rows[row * (row + 1) / 2..][columns];
                    let from = tile[first * size + (row - i * size)..].iter().step_by(size);
                    to.iter_mut().zip(from).for_each(|(to, from)| *to = from.wide());
                }
            }
        }
    }
    Cholesky::of_rows(rows)
}
