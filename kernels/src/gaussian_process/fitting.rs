//! The likelihood of samples under a covariance: factor, weights, logarithm of the marginal likelihood, and its gradient.
//!
//! Invariant: the numbers do not depend on the threads: tiles have the bits of their graph, and sums over tiles are taken in the
//! order of the tiles.

use std::sync::{Mutex, PoisonError};

use super::device::{FactorDevice, Outcome, Sloped, SlopedOutcome, Stopped, Wanted};
use super::precision::Real;
use super::triangle::{pivots, solve, solve_transposed};
use crate::CodePath;
use crate::cholesky::{Factorisation, Packed, Tasks, TileKernels, TiledMatrix};
use crate::covariance::{Expression, Points, Scratch};
use crate::lanes::{Lanes, Work, run};
use crate::pieces::collect;

/// Rows of a tile.
pub const TILE: usize = 128;
/// Partial sums of a sum of amounts.
const SUMS: usize = 16;

/// Threads that compute for a fit.
pub trait Threads {
    /// Runs all tasks of a factorisation, in an order that they allow.
    ///
    /// # Errors
    /// When the matrix is not positive definite, or the caller cancelled the work.
    fn factorise(&mut self, work: &dyn Tasks) -> Result<(), Stopped>;

    /// Calls the closure once for each number below the first argument, as [`Pieces`](crate::pieces::Pieces) do.
    fn pieces(&mut self, count: usize, f: &(dyn Fn(usize) + Sync)) -> bool;

    /// A device that makes factors, if there is one.
    fn device(&mut self) -> Option<&mut dyn FactorDevice> {
        None
    }
}

/// The calling thread alone.
#[derive(Clone, Copy, Debug, Default)]
pub struct ThisThread;

impl Threads for ThisThread {
    fn factorise(&mut self, work: &dyn Tasks) -> Result<(), Stopped> {
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
pub(super) struct Likelihood<T = f64> {
    /// L with L L^T = K + s I.
    pub(super) factor: TiledMatrix<T>,
    /// L^T \ (L \ y).
    pub(super) weights: Vec<f64>,
    /// -1/2 y . alpha - sum ln L_ii - n/2 ln 2 pi.
    pub(super) log_likelihood: f64,
}

impl<T: Real> Likelihood<T> {
    /// Solves L L^T x = b in place.
    pub(super) fn solve(&self, b: &mut [f64]) {
        solve(&self.factor, b);
        solve_transposed(&self.factor, b);
    }

    /// Takes other weights, and the likelihood that they give.
    pub(super) fn reweigh(&mut self, targets: &[f64], weights: Vec<f64>) {
        self.log_likelihood = log_likelihood(targets, &weights, &pivots(&self.factor));
        self.weights = weights;
    }
}

/// -1/2 y . alpha - sum ln L_ii - n/2 ln 2 pi.
fn log_likelihood(targets: &[f64], weights: &[f64], pivots: &[f64]) -> f64 {
    let fitted: f64 = targets.iter().zip(weights).map(|(y, alpha)| y * alpha).sum();
    let logs: f64 = pivots.iter().map(|pivot| pivot.ln()).sum();
    let constant = 0.5 * targets.len() as f64 * (2.0 * std::f64::consts::PI).ln();
    -0.5 * fitted - logs - constant
}

impl Prior<'_> {
    /// The factor and the likelihood of targets.
    pub(super) fn likelihood<T: Real>(
        &self,
        targets: &[f64],
        threads: &mut dyn Threads,
    ) -> Result<Likelihood<T>, Stopped> {
        let (factor, weights) = match self.by_device::<T>(targets, threads) {
            Some(made) => made.map(|made| (made.factor, made.weights))?,
            None => (self.by_threads(threads)?, None),
        };
        self.must_be_sound::<T>(&pivots(&factor))?;
        let mut fit = Likelihood { factor, weights: Vec::new(), log_likelihood: 0.0 };
        let weights = weights.unwrap_or_else(|| {
            let mut weights = targets.to_vec();
            fit.solve(&mut weights);
            weights
        });
        fit.reweigh(targets, weights);
        Ok(fit)
    }

    /// The likelihood of targets, and its derivatives by the logarithms of all parameters.
    pub(super) fn with_slopes<T: Real>(
        &self,
        targets: &[f64],
        threads: &mut dyn Threads,
    ) -> Result<(f64, Vec<f64>), Stopped> {
        if let Some(found) = self.slopes_by_device::<T>(targets, None, threads) {
            let Sloped { pivots, weights, slopes } = found?;
            self.must_be_sound::<T>(&pivots)?;
            return Ok((log_likelihood(targets, &weights, &pivots), slopes));
        }
        let fit = self.likelihood::<T>(targets, threads)?;
        Ok((fit.log_likelihood, self.gradient(&fit, threads)?))
    }

    /// The derivatives of a likelihood, by its weights.
    pub(super) fn slopes_of<T: Real>(
        &self,
        fit: &Likelihood<T>,
        targets: &[f64],
        threads: &mut dyn Threads,
    ) -> Result<Vec<f64>, Stopped> {
        match self.slopes_by_device::<T>(targets, Some(&fit.weights), threads) {
            Some(found) => Ok(found?.slopes),
            None => self.gradient(fit, threads),
        }
    }

    fn slopes_by_device<T: Real>(
        &self,
        targets: &[f64],
        weights: Option<&[f64]>,
        threads: &mut dyn Threads,
    ) -> SlopedOutcome {
        let (n, device) = (self.points.len(), threads.device()?);
        if n == 0 || !device.can_fill(self.points.dimensions()) || !device.takes_slopes(n, size_of::<T>()) {
            return None;
        }
        let (expression, points) = (self.expression, self.points);
        let wanted = Wanted { expression, points, added: self.added, targets, is_filled: false };
        T::slopes_on_device(device, &wanted, weights)
    }

    /// Fails at the first pivot that rounding explains.
    fn must_be_sound<T: Real>(&self, pivots: &[f64]) -> Result<(), Stopped> {
        let diagonal = self.expression.diagonals(self.points, true);
        let sound = |(pivot, own): (&f64, &f64)| is_pivot::<T>(pivot * pivot, own + self.added);
        match pivots.iter().zip(&diagonal).position(|pair| !sound(pair)) {
            Some(row) => Err(Stopped::NotPositiveDefinite { row }),
            None => Ok(()),
        }
    }

    /// The factor by tasks.
    fn by_threads<T: Real>(&self, threads: &mut dyn Threads) -> Result<TiledMatrix<T>, Stopped> {
        let factor = TiledMatrix::zeros(self.points.len(), TILE);
        let fill = |i: usize, j: usize, tile: &mut [T]| self.fill((i, j), tile);
        threads.factorise(&Factorisation::filled(&factor, T::Kernels::default(), &fill))?;
        Ok(factor)
    }

    fn fill<T: Real>(&self, place: (usize, usize), tile: &mut [T]) {
        T::filled(tile, |tile| self.expression.tile(self.points, TILE, place, self.added, tile));
    }

    /// The factor by a device; nothing if there is none that takes the matrix, or it fails.
    fn by_device<T: Real>(&self, targets: &[f64], threads: &mut dyn Threads) -> Outcome<T> {
        let n = self.points.len();
        let device = threads.device()?;
        if n == 0 || !device.takes(n, size_of::<T>()) {
            return None;
        }
        let is_filled = !device.can_fill(self.points.dimensions());
        let mut tiles = Packed::<T>::zeros(n.div_ceil(TILE), TILE);
        if is_filled && !self.fill_all(&mut tiles, threads) {
            return Some(Err(Stopped::Interrupted));
        }
        let (expression, points) = (self.expression, self.points);
        let wanted = Wanted { expression, points, added: self.added, targets, is_filled };
        T::on_device(threads.device()?, &wanted, tiles)
    }

    /// Fills all tiles on threads, for a device that cannot.
    fn fill_all<T: Real>(&self, tiles: &mut Packed<T>, threads: &mut dyn Threads) -> bool {
        let rows = self.points.len().div_ceil(TILE);
        let places = (0..rows).flat_map(|i| (0..=i).map(move |j| (i, j)));
        let chunks = tiles.numbers_mut().chunks_exact_mut(TILE * TILE);
        let all: Vec<_> = places.zip(chunks).map(Mutex::new).collect();
        threads.pieces(all.len(), &|at| {
            // Each number comes once, so nobody waits.
            let (place, tile) = &mut *all[at].lock().unwrap_or_else(PoisonError::into_inner);
            self.fill(*place, tile);
            if place.0 == place.1 {
                let filled = self.points.len().saturating_sub(place.0 * TILE).min(TILE);
                (filled..TILE).for_each(|row| tile[row * TILE + row] = T::ONE);
            }
        })
    }

    /// The derivatives of the likelihood by the logarithms of all parameters:
    /// 1/2 sum_ij (alpha_i alpha_j - (K^-1)_ij) dK_ij.
    pub(super) fn gradient<T: Real>(
        &self,
        fit: &Likelihood<T>,
        threads: &mut dyn Threads,
    ) -> Result<Vec<f64>, Stopped> {
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

    fn gradient_of_tile<T: Real>(
        &self,
        fit: &Likelihood<T>,
        inverse: &TiledMatrix<T>,
        (i, j): (usize, usize),
    ) -> Vec<f64> {
        // Minus tile (i, j) of K^-1 = U U^T, U = L^-T, of which tile (i, k) lies at (k, i).
        let (kernels, mut of_inverse) = (T::Kernels::default(), vec![T::ZERO; TILE * TILE]);
        for k in i..inverse.tile_rows() {
            let left = inverse.read(k, i);
            match i == j {
                true => kernels.square(&left, &mut of_inverse, TILE),
                false => kernels.product(&left, &inverse.read(k, j), &mut of_inverse, TILE),
            }
        }
        let (n, alpha, mut scratch) = (self.points.len(), &fit.weights, Scratch::default());
        let (rows, columns) = (i * TILE..((i + 1) * TILE).min(n), j * TILE..((j + 1) * TILE).min(n));
        let mut gradient = vec![0.0; self.expression.parameters().len()];
        let (mut with, mut weights) = (vec![0.0; self.points.dimensions()], Vec::with_capacity(TILE));
        for column in columns {
            let rows = rows.start.max(column)..rows.end;
            let first = (column - j * TILE) * TILE + (rows.start - i * TILE);
            let entries = of_inverse[first..].iter().zip(&alpha[rows.clone()]);
            // Each entry below the diagonal stands for two.
            weights.clear();
            weights.extend(entries.map(|(entry, of_row)| of_row * alpha[column] + entry.wide()));
            if i == j {
                weights[0] *= 0.5;
            }
            self.points.copy_point(column, &mut with);
            let of = (self.points, rows);
            self.expression.add_gradient(of, &with, Some(column), &weights, &mut scratch, &mut gradient);
        }
        gradient
    }
}

/// Whether the square of a pivot is more than what rounding leaves of a diagonal entry. A duplicate without noise leaves less.
pub(super) fn is_pivot<T: Real>(square: f64, diagonal: f64) -> bool {
    square > 8.0 * T::EPSILON * diagonal && square.is_finite()
}

/// U = L^-T by tiles: its rows of tiles are independent. Tile (i, k), k >= i, lies at (k, i).
fn inverse_of_factor<T: Real>(
    factor: &TiledMatrix<T>,
    threads: &mut dyn Threads,
) -> Result<TiledMatrix<T>, Stopped> {
    let rows = factor.tile_rows();
    let inverse = TiledMatrix::zeros(factor.rows(), TILE);
    let done = threads.pieces(rows, &|i| {
        let kernels = T::Kernels::default();
        for k in i..rows {
            let mut tile = inverse.write(k, i);
            if k == i {
                (0..TILE).for_each(|row| tile[row * TILE + row] = T::ONE);
            }
            for p in i..k {
                kernels.product(&inverse.read(p, i), &factor.read(k, p), &mut tile, TILE);
            }
            kernels.solve(&factor.read(k, k), &mut tile, TILE);
        }
    });
    if done { Ok(inverse) } else { Err(Stopped::Interrupted) }
}

/// Sums over the rows and columns of K + s I by its lower half: the closure adds what tile (i, j), whose upper half is 0 if i = j, gives to
/// the sums of all rows up to the end of row i of tiles.
pub(super) fn over_tiles(
    prior: &Prior<'_>,
    threads: &mut dyn Threads,
    add: impl Fn((usize, usize), &[f64], &mut [f64]) + Sync,
) -> Result<Vec<f64>, Stopped> {
    let n = prior.points.len();
    let parts = collect(&mut |count, f| threads.pieces(count, f), n.div_ceil(TILE), |i| {
        let (mut tile, mut sums) = (vec![0.0; TILE * TILE], vec![0.0; ((i + 1) * TILE).min(n)]);
        for j in 0..=i {
            tile.fill(0.0);
            prior.expression.tile(prior.points, TILE, (i, j), prior.added, &mut tile);
            add((i, j), &tile, &mut sums);
        }
        sums
    });
    let mut sums = vec![0.0; n];
    for part in parts.ok_or(Stopped::Interrupted)? {
        sums.iter_mut().zip(part).for_each(|(sum, more)| *sum += more);
    }
    Ok(sums)
}

/// Adds the amounts of the numbers of a column to the sums of their rows; the sum of those from row `below` on.
struct Amounts<'a> {
    numbers: &'a [f64],
    below: usize,
    sums: &'a mut [f64],
}

impl Work for Amounts<'_> {
    type Done = f64;

    #[inline(always)]
    fn run<L: Lanes>(self, _: L) -> f64 {
        let Self { numbers, below, sums } = self;
        let numbers = &numbers[..sums.len()];
        for i in 0..sums.len() {
            sums[i] += numbers[i].abs();
        }
        let mut parts = [0.0; SUMS];
        let (whole, rest) = numbers[below.min(numbers.len())..].as_chunks::<SUMS>();
        for numbers in whole {
            for lane in 0..SUMS {
                parts[lane] += numbers[lane].abs();
            }
        }
        for lane in 0..rest.len() {
            parts[lane] += rest[lane].abs();
        }
        let mut sum = 0.0;
        for part in parts {
            sum += part;
        }
        sum
    }
}

/// The greatest sum of a column of K + s I, by amounts.
pub(super) fn norm(prior: &Prior<'_>, threads: &mut dyn Threads) -> Result<f64, Stopped> {
    let sums = over_tiles(prior, threads, |(i, j), tile, sums| {
        let (of_columns, of_rows) = sums.split_at_mut(i * TILE);
        let columns = tile.chunks_exact(TILE).take(prior.points.len() - j * TILE);
        for (column, numbers) in columns.enumerate() {
            let (place, below) = if i == j { (column, column + 1) } else { (j * TILE + column, 0) };
            let sum = run(CodePath::detect(), Amounts { numbers, below, sums: &mut *of_rows });
            if i == j { of_rows[place] += sum } else { of_columns[place] += sum }
        }
    })?;
    Ok(sums.into_iter().fold(0.0, f64::max))
}

/// An estimate of the condition of K + s I in the norm of the greatest sum of a column: Hager 1984, Higham 1988 (ACM TOMS 14, algorithm
/// 674); `solve` multiplies by the inverse. It is a lower bound that is seldom below a third.
pub(super) fn condition(
    prior: &Prior<'_>,
    solve: &dyn Fn(&mut [f64]),
    threads: &mut dyn Threads,
) -> Result<f64, Stopped> {
    let n = prior.points.len();
    let norm = norm(prior, threads)?;
    let size_of = |x: &[f64]| x.iter().map(|x| x.abs()).sum::<f64>();
    let mut x = vec![1.0 / n as f64; n];
    let (mut estimate, mut tried) = (0.0, usize::MAX);
    // The matrix is symmetric, so one solve stands for both of a round.
    for _ in 0..5 {
        solve(&mut x);
        let found = size_of(&x);
        if found <= estimate {
            break;
        }
        estimate = found;
        let mut signs: Vec<f64> = x.iter().map(|x| x.signum()).collect();
        solve(&mut signs);
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
    let diagonal = prior.expression.diagonals(prior.points, false);
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
