//! Weights in f64 by a factor that has fewer digits: corrections, and conjugate gradients where these do not converge.
//!
//! No matrix of f64 is kept: covariances are computed again, tile by tile, for each product. Carson and Higham 2018 (SIAM J. Sci. Comput.
//! 40) analyse the corrections, Golub and Van Loan (4th ed., algorithm 11.5.1) have the preconditioned gradients.

use super::device::Stopped;
use super::fitting::{Prior, TILE, Threads, norm, over_tiles};
use super::precision::Solved;

/// Corrections at most.
const ROUNDS_MAX: usize = 10;
/// Steps of conjugate gradients at most.
const STEPS_MAX: usize = 200;

/// A system K x = y that is solved approximately.
struct System<'a> {
    prior: &'a Prior<'a>,
    targets: &'a [f64],
    /// The greatest sum of a column of K.
    norm: f64,
    threads: &'a mut dyn Threads,
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn length(x: &[f64]) -> f64 {
    dot(x, x).sqrt()
}

/// K x, from the lower half of K.
pub(super) fn times(prior: &Prior<'_>, x: &[f64], threads: &mut dyn Threads) -> Result<Vec<f64>, Stopped> {
    let n = x.len();
    over_tiles(prior, threads, |(i, j), tile, sums| {
        let (columns, rows) = sums.split_at_mut(i * TILE);
        let of_rows = &x[i * TILE..][..rows.len()];
        for column in 0..TILE.min(n - j * TILE) {
            let numbers = &tile[column * TILE..][..rows.len()];
            let factor = x[j * TILE + column];
            rows.iter_mut().zip(numbers).for_each(|(sum, k)| *sum += k * factor);
            match i == j {
                // The half above the diagonal.
                true => rows[column] += dot(&numbers[column + 1..], &of_rows[column + 1..]),
                false => columns[j * TILE + column] += dot(numbers, of_rows),
            }
        }
    })
}

impl System<'_> {
    /// The length of a residual that rounding alone explains: n^(1/2) 2^-52 (|K| |x| + |y|).
    fn limit(&self, x: &[f64]) -> f64 {
        let n = x.len() as f64;
        n.sqrt() * f64::EPSILON * (self.norm * length(x) + length(self.targets))
    }

    fn residual(&mut self, x: &[f64]) -> Result<Vec<f64>, Stopped> {
        let product = times(self.prior, x, self.threads)?;
        Ok(self.targets.iter().zip(product).map(|(y, p)| y - p).collect())
    }

    /// Corrects weights as long as each correction halves the residual; the number of corrections, if it vanished.
    fn correct(&mut self, solve: &dyn Fn(&mut [f64]), x: &mut Vec<f64>) -> Result<Option<usize>, Stopped> {
        let mut residual = self.residual(x)?;
        for round in 0..=ROUNDS_MAX {
            if length(&residual) <= self.limit(x) {
                return Ok(Some(round));
            }
            if round == ROUNDS_MAX {
                break;
            }
            let mut correction = residual.clone();
            solve(&mut correction);
            let corrected: Vec<f64> = x.iter().zip(correction).map(|(x, d)| x + d).collect();
            let next = self.residual(&corrected)?;
            let (before, after) = (length(&residual), length(&next));
            if after < before {
                *x = corrected;
                residual = next;
            }
            if !(after <= 0.5 * before || after <= self.limit(x)) {
                break;
            }
        }
        Ok(None)
    }

    /// Conjugate gradients with the factor as preconditioner, from given weights; the number of steps, if the residual vanished.
    fn descend(&mut self, solve: &dyn Fn(&mut [f64]), x: &mut [f64]) -> Result<Option<usize>, Stopped> {
        let mut residual = self.residual(x)?;
        let mut steps = 0;
        while steps < STEPS_MAX {
            if length(&residual) <= self.limit(x) {
                return Ok(Some(steps));
            }
            let mut solved = residual.clone();
            solve(&mut solved);
            let (mut direction, mut product) = (solved.clone(), dot(&residual, &solved));
            while steps < STEPS_MAX && length(&residual) > self.limit(x) {
                steps += 1;
                let image = times(self.prior, &direction, self.threads)?;
                let curvature = dot(&direction, &image);
                if !(curvature > 0.0 && product > 0.0 && product.is_finite()) {
                    return Ok(None);
                }
                let step = product / curvature;
                x.iter_mut().zip(&direction).for_each(|(x, d)| *x += step * d);
                residual.iter_mut().zip(&image).for_each(|(r, q)| *r -= step * q);
                solved.clone_from(&residual);
                solve(&mut solved);
                let next = dot(&residual, &solved);
                let kept = next / product;
                direction.iter_mut().zip(&solved).for_each(|(d, z)| *d = z + kept * *d);
                product = next;
            }
            // The residual of the recursion drifts from the true one.
            residual = self.residual(x)?;
        }
        Ok((length(&residual) <= self.limit(x)).then_some(steps))
    }
}

/// Refines weights until their residual is what rounding explains; `solve` multiplies by the inverse of an approximation of the
/// matrix. Returns how they were found, or nothing if nothing converges.
pub(super) fn refine(
    prior: &Prior<'_>,
    solve: &dyn Fn(&mut [f64]),
    (targets, weights): (&[f64], &mut Vec<f64>),
    threads: &mut dyn Threads,
) -> Result<Option<Solved>, Stopped> {
    let norm = norm(prior, threads)?;
    let mut system = System { prior, targets, norm, threads };
    if let Some(rounds) = system.correct(solve, weights)? {
        return Ok(Some(Solved::Refined(rounds)));
    }
    if !weights.iter().all(|weight| weight.is_finite()) {
        weights.fill(0.0);
    }
    Ok(system.descend(solve, weights)?.map(Solved::ByGradients))
}
