//! The likelihood of samples under a covariance: factor, weights, logarithm of the marginal likelihood, and its gradient.
//!
//! Invariant: the numbers do not depend on the threads: tiles have the bits of their graph, and sums over tiles are taken in the
//! order of the tiles.

use std::sync::Mutex;

use crate::cholesky::{Factorisation, TileKernels, TiledMatrix, Usual};
use crate::covariance::{Expression, Points, Scratch};
use crate::interrupt::Interrupted;
use crate::pieces::collect;

/// Rows of a tile.
pub const TILE: usize = 128;

/// Threads that compute for a fit.
pub trait Threads {
    /// Runs all tasks of a factorisation, in an order that they allow.
    ///
    /// # Errors
    /// When the matrix is not positive definite, or the caller cancelled the work.
    fn factorise(&mut self, work: &Factorisation<'_, Usual>) -> Result<(), Stopped>;

    /// Calls the closure once for each number below the first argument, as [`Pieces`](crate::pieces::Pieces) do.
    fn pieces(&mut self, count: usize, f: &(dyn Fn(usize) + Sync)) -> bool;
}

/// Why a factorisation has no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// The pivot of this row is not a positive number.
    NotPositiveDefinite {
        /// The row, from 0.
        row: usize,
    },
    /// The caller cancelled the work.
    Interrupted,
}

impl From<Interrupted> for Stopped {
    fn from(_: Interrupted) -> Self {
        Self::Interrupted
    }
}

/// The calling thread alone.
#[derive(Clone, Copy, Debug, Default)]
pub struct ThisThread;

impl Threads for ThisThread {
    fn factorise(&mut self, work: &Factorisation<'_, Usual>) -> Result<(), Stopped> {
        work.run_all().map_err(|fault| Stopped::NotPositiveDefinite { row: fault.row })
    }

    fn pieces(&mut self, count: usize, f: &(dyn Fn(usize) + Sync)) -> bool {
        (0..count).for_each(f);
        true
    }
}

/// The prior of a fit: points with the covariance of the process, and the terms added to the diagonal.
#[derive(Clone, Copy, Debug)]
pub(super) struct Prior<'a> {
    pub(super) expression: &'a Expression,
    pub(super) points: &'a Points,
    /// The variance of the noise, and the jitter.
    pub(super) added: f64,
}

/// A factor with what follows from it for some targets.
pub(super) struct Likelihood {
    /// L with L L^T = K + s I.
    pub(super) factor: TiledMatrix,
    /// L^T \ (L \ y).
    pub(super) weights: Vec<f64>,
    /// -1/2 y . alpha - sum ln L_ii - n/2 ln 2 pi.
    pub(super) log_likelihood: f64,
}

impl Prior<'_> {
    /// The factor and the likelihood of targets.
    pub(super) fn likelihood(
        &self,
        targets: &[f64],
        threads: &mut dyn Threads,
    ) -> Result<Likelihood, Stopped> {
        let factor = TiledMatrix::zeros(self.points.len(), TILE);
        let fill = |i: usize, j: usize, tile: &mut [f64]| {
            self.expression.tile(self.points, TILE, (i, j), self.added, tile);
        };
        threads.factorise(&Factorisation::filled(&factor, Usual::default(), &fill))?;
        let sound = |(row, pivot): (usize, &f64)| {
            is_pivot(pivot * pivot, self.expression.diagonal(&self.points.point(row), true) + self.added)
        };
        if let Some(row) = pivots(&factor).iter().enumerate().position(|pivot| !sound(pivot)) {
            return Err(Stopped::NotPositiveDefinite { row });
        }
        let mut weights = targets.to_vec();
        solve(&factor, &mut weights);
        solve_transposed(&factor, &mut weights);
        let fitted: f64 = targets.iter().zip(&weights).map(|(y, alpha)| y * alpha).sum();
        let logs: f64 = pivots(&factor).iter().map(|pivot| pivot.ln()).sum();
        let constant = 0.5 * targets.len() as f64 * (2.0 * std::f64::consts::PI).ln();
        Ok(Likelihood { factor, weights, log_likelihood: -0.5 * fitted - logs - constant })
    }

    /// The derivatives of the likelihood by the logarithms of all parameters:
    /// 1/2 sum_ij (alpha_i alpha_j - (K^-1)_ij) dK_ij.
    pub(super) fn gradient(&self, fit: &Likelihood, threads: &mut dyn Threads) -> Result<Vec<f64>, Stopped> {
        let rows = fit.factor.tile_rows();
        let inverse = inverse_of_factor(&fit.factor, threads)?;
        let pairs: Vec<(usize, usize)> = (0..rows).flat_map(|i| (0..=i).map(move |j| (i, j))).collect();
        let of_tile = |at: usize| self.gradient_of_tile(fit, &inverse, pairs[at]);
        let sums = collect(&mut |count, f| threads.pieces(count, f), pairs.len(), of_tile);
        let mut gradient = vec![0.0; self.expression.parameters().len()];
        for sum in sums.ok_or(Stopped::Interrupted)? {
            gradient.iter_mut().zip(sum).for_each(|(total, part)| *total += part);
        }
        Ok(gradient)
    }

    fn gradient_of_tile(&self, fit: &Likelihood, inverse: &TiledMatrix, (i, j): (usize, usize)) -> Vec<f64> {
        // Tile (i, j) of K^-1 = W^T W, W = L^-1.
        let mut of_inverse = vec![0.0; TILE * TILE];
        for k in i..inverse.tile_rows() {
            let (left, right) = (inverse.read(k, i), inverse.read(k, j));
            Usual::default().add_transposed_product(&left, &right, &mut of_inverse, TILE);
        }
        let (n, alpha, mut scratch) = (self.points.len(), &fit.weights, Scratch::default());
        let (rows, columns) = (i * TILE..((i + 1) * TILE).min(n), j * TILE..((j + 1) * TILE).min(n));
        let mut gradient = vec![0.0; self.expression.parameters().len()];
        for column in columns {
            let rows = rows.start.max(column)..rows.end;
            let first = (column - j * TILE) * TILE + (rows.start - i * TILE);
            let entries = of_inverse[first..].iter().zip(&alpha[rows.clone()]);
            // Each entry below the diagonal stands for two.
            let mut weights: Vec<f64> =
                entries.map(|(entry, of_row)| of_row * alpha[column] - entry).take(rows.len()).collect();
            if i == j {
                weights[0] *= 0.5;
            }
            let with = self.points.point(column);
            let of = (self.points, rows);
            self.expression.add_gradient(of, &with, Some(column), &weights, &mut scratch, &mut gradient);
        }
        gradient
    }
}

/// Whether the square of a pivot is more than what rounding leaves of a diagonal entry. A duplicate without noise leaves less.
pub(super) fn is_pivot(square: f64, diagonal: f64) -> bool {
    square > 8.0 * f64::EPSILON * diagonal && square.is_finite()
}

/// W = L^-1 by tiles: its columns of tiles are independent.
fn inverse_of_factor(factor: &TiledMatrix, threads: &mut dyn Threads) -> Result<TiledMatrix, Stopped> {
    let rows = factor.tile_rows();
    let inverse = TiledMatrix::zeros(factor.rows(), TILE);
    let done = threads.pieces(rows, &|j| {
        for i in j..rows {
            let mut tile = inverse.write(i, j);
            if i == j {
                (0..TILE).for_each(|row| tile[row * TILE + row] = 1.0);
            }
            for k in j..i {
                Usual::default().subtract_product(&factor.read(i, k), &inverse.read(k, j), &mut tile, TILE);
            }
            Usual::default().solve_columns(&factor.read(i, i), &mut tile, TILE);
        }
    });
    if done { Ok(inverse) } else { Err(Stopped::Interrupted) }
}

/// The numbers of L's diagonal.
pub(super) fn pivots(factor: &TiledMatrix) -> Vec<f64> {
    let size = factor.tile_size();
    let pivot = |row: usize| factor.read(row / size, row / size)[(row % size) * (size + 1)];
    (0..factor.rows()).map(pivot).collect()
}

/// Solves L x = b in place.
pub(super) fn solve(factor: &TiledMatrix, b: &mut [f64]) {
    let (n, size) = (factor.rows(), factor.tile_size());
    for j in 0..factor.tile_rows() {
        for i in j..factor.tile_rows() {
            let tile = factor.read(i, j);
            for column in j * size..((j + 1) * size).min(n) {
                let numbers = &tile[(column - j * size) * size..][..size];
                let from = (i * size).max(column + 1);
                if i == j {
                    b[column] /= numbers[column - i * size];
                }
                let x = b[column];
                let rest = from..((i + 1) * size).min(n);
                let below = &numbers[from.min(rest.end) - i * size..];
                b[from.min(rest.end)..rest.end].iter_mut().zip(below).for_each(|(b, l)| *b -= l * x);
            }
        }
    }
}

/// Solves L^T x = b in place.
pub(super) fn solve_transposed(factor: &TiledMatrix, b: &mut [f64]) {
    let (n, size) = (factor.rows(), factor.tile_size());
    for j in (0..factor.tile_rows()).rev() {
        for i in (j..factor.tile_rows()).rev() {
            let tile = factor.read(i, j);
            for column in (j * size..((j + 1) * size).min(n)).rev() {
                let numbers = &tile[(column - j * size) * size..][..size];
                let end = ((i + 1) * size).min(n);
                let from = (i * size).max(column + 1).min(end);
                let below = b[from..end].iter().zip(&numbers[from - i * size..]);
                let sum: f64 = below.map(|(b, l)| b * l).sum();
                b[column] -= sum;
                if i == j {
                    b[column] /= numbers[column - i * size];
                }
            }
        }
    }
}

/// An estimate of the condition of K + s I in the norm of the greatest sum of a column: Hager 1984, Higham 1988 (ACM TOMS 14, algorithm
/// 674), with the factor. It is a lower bound that is seldom below a third.
pub(super) fn condition(
    prior: &Prior<'_>,
    factor: &TiledMatrix,
    threads: &mut dyn Threads,
) -> Result<f64, Stopped> {
    let (n, points) = (factor.rows(), prior.points);
    let norms = collect(&mut |count, f| threads.pieces(count, f), n.div_ceil(TILE), |block| {
        let (mut scratch, mut column) = (Scratch::default(), vec![0.0; n]);
        let sums = (block * TILE..((block + 1) * TILE).min(n)).map(|at| {
            prior.expression.column((points, 0..n), &points.point(at), Some(at), &mut scratch, &mut column);
            column.iter().map(|x| x.abs()).sum::<f64>() + prior.added
        });
        sums.fold(0.0, f64::max)
    });
    let norm = norms.ok_or(Stopped::Interrupted)?.into_iter().fold(0.0, f64::max);
    let inverse = |x: &mut [f64]| {
        solve(factor, x);
        solve_transposed(factor, x);
    };
    let size_of = |x: &[f64]| x.iter().map(|x| x.abs()).sum::<f64>();
    let mut x = vec![1.0 / n as f64; n];
    let (mut estimate, mut tried) = (0.0, usize::MAX);
    // The matrix is symmetric, so one solve stands for both of a round.
    for _ in 0..5 {
        inverse(&mut x);
        let found = size_of(&x);
        if found <= estimate {
            break;
        }
        estimate = found;
        let mut signs: Vec<f64> = x.iter().map(|x| x.signum()).collect();
        inverse(&mut signs);
        let largest = (0..n).max_by(|a, b| signs[*a].abs().total_cmp(&signs[*b].abs())).unwrap_or(0);
        if largest == tried {
            break;
        }
        tried = largest;
        x.fill(0.0);
        x[largest] = 1.0;
    }
    Ok(norm * estimate)
}

/// The two points of which the covariance is the largest part of their variances: those that a bad condition comes from. Looks at
/// pairs of the first `limit` points.
pub(super) fn closest(prior: &Prior<'_>, limit: usize, threads: &mut dyn Threads) -> Option<(usize, usize)> {
    let n = prior.points.len().min(limit);
    let diagonal: Vec<f64> =
        (0..n).map(|at| prior.expression.diagonal(&prior.points.point(at), false)).collect();
    let best: Mutex<Option<(f64, usize, usize)>> = Mutex::new(None);
    let done = threads.pieces(n, &|at| {
        let (mut scratch, mut column) = (Scratch::default(), vec![0.0; at]);
        let of = (prior.points, 0..at);
        prior.expression.column(of, &prior.points.point(at), None, &mut scratch, &mut column);
        let shares = column.iter().enumerate().map(|(other, k)| {
            (k / (diagonal[at] * diagonal[other]).sqrt().max(f64::MIN_POSITIVE), other, at)
        });
        let order = |a: &(f64, usize, usize), b: &(f64, usize, usize)| {
            a.0.total_cmp(&b.0).then(b.2.cmp(&a.2)).then(b.1.cmp(&a.1))
        };
        if let (Some(found), Ok(mut best)) = (shares.max_by(order), best.lock())
            && best.as_ref().is_none_or(|best| order(best, &found).is_lt())
        {
            *best = Some(found);
        }
    });
    let best = best.into_inner().ok().flatten().filter(|_| done);
    best.map(|(_, first, second)| (first, second))
}
