//! Singular value decomposition by one-sided Jacobi rotations: columns are turned in pairs until all are orthogonal.

use crate::CodePath;
use crate::lanes::{Lanes, Work, run};

/// Sweeps over all pairs of columns, at most; ten are many.
const SWEEPS_MAX: usize = 40;
/// Columns whose cosine is smaller are orthogonal.
const ORTHOGONAL: f64 = 1e-13;
/// Smaller singular values, as parts of the largest one, have directions of rounding errors only.
const NOTHING: f64 = 1e-13;
/// A direction of which less is left, after the others are taken off, is no direction of its own.
const LEFT_MIN: f64 = 1e-3;

/// The directions and singular values of a matrix, the largest first: it is the sum of `value * left * right^T`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Singular {
    pub(super) values: Vec<f64>,
    /// Orthonormal, one after the other: as many as there are columns, with a number for each row.
    pub(super) left: Vec<f64>,
    /// Orthonormal, one after the other, with a number for each column.
    pub(super) right: Vec<f64>,
}

/// Decomposes a matrix, given column after column, with no more columns than rows. The right directions of a matrix that is near
/// it make it faster.
pub(super) fn decompose(
    path: CodePath,
    columns: Vec<f64>,
    rows: usize,
    count: usize,
    near: Option<&[f64]>,
) -> Singular {
    run(path, Decompose { columns, rows, count, near })
}

struct Decompose<'a> {
    columns: Vec<f64>,
    rows: usize,
    count: usize,
    near: Option<&'a [f64]>,
}

impl Work for Decompose<'_> {
    type Done = Singular;

    #[inline(always)]
    fn run<L: Lanes>(self, _: L) -> Singular {
        let Self { mut columns, rows, count, near } = self;
        let mut right = vec![0.0; count * count];
        match near {
            None => (0..count).for_each(|i| right[i * count + i] = 1.0),
            Some(near) => {
                // Orthonormal to the last bits again, after many turns.
                right.copy_from_slice(near);
                complete(&mut right, count, &vec![true; count]);
                let mut turned = vec![0.0; columns.len()];
                for (direction, turned) in right.chunks_exact(count).zip(turned.chunks_exact_mut(rows)) {
                    for (x, column) in direction.iter().zip(columns.chunks_exact(rows)) {
                        turned.iter_mut().zip(column).for_each(|(sum, y)| *sum += x * y);
                    }
                }
                columns = turned;
            }
        }
        for _ in 0..SWEEPS_MAX {
            if !sweep(&mut columns, &mut right, rows, count) {
                break;
            }
        }
        let norms: Vec<f64> = columns.chunks_exact(rows).map(|column| dot(column, column).sqrt()).collect();
        let mut order: Vec<usize> = (0..count).collect();
        order.sort_by(|a, b| norms[*b].total_cmp(&norms[*a]));
        let values: Vec<f64> = order.iter().map(|column| norms[*column]).collect();
        let least = values.first().map_or(0.0, |largest| largest * NOTHING);
        let mut left = Vec::with_capacity(columns.len());
        for column in &order {
            let scale = if norms[*column] > least { 1.0 / norms[*column] } else { 0.0 };
            left.extend(columns[column * rows..][..rows].iter().map(|x| x * scale));
        }
        let is_known: Vec<bool> = values.iter().map(|value| *value > least).collect();
        complete(&mut left, rows, &is_known);
        let right =
            order.iter().flat_map(|column| right[column * count..][..count].iter().copied()).collect();
        Singular { values, left, right }
    }
}

/// Turns each pair of columns until it is orthogonal; returns whether one was not.
#[inline(always)]
fn sweep(columns: &mut [f64], right: &mut [f64], rows: usize, count: usize) -> bool {
    let mut has_turned = false;
    for p in 0..count {
        for q in p + 1..count {
            let (a, b) = pair(columns, p, q, rows);
            let (alpha, beta, gamma) = (dot(a, a), dot(b, b), dot(a, b));
            // Columns of nothing have products of nothing, whose cosines are none.
            let least = (ORTHOGONAL * (alpha * beta).sqrt()).max(f64::MIN_POSITIVE);
            if gamma.abs() <= least {
                continue;
            }
            has_turned = true;
            let zeta = (beta - alpha) / (2.0 * gamma);
            let t = zeta.signum() / (zeta.abs() + (1.0 + zeta * zeta).sqrt());
            let cosine = 1.0 / (1.0 + t * t).sqrt();
            turn(a, b, cosine, cosine * t);
            let (a, b) = pair(right, p, q, count);
            turn(a, b, cosine, cosine * t);
        }
    }
    has_turned
}

#[inline(always)]
fn pair(columns: &mut [f64], p: usize, q: usize, rows: usize) -> (&mut [f64], &mut [f64]) {
    let (first, second) = columns.split_at_mut(q * rows);
    (&mut first[p * rows..][..rows], &mut second[..rows])
}

#[inline(always)]
fn turn(a: &mut [f64], b: &mut [f64], cosine: f64, sine: f64) {
    for (x, y) in a.iter_mut().zip(b) {
        (*x, *y) = (cosine * *x - sine * *y, sine * *x + cosine * *y);
    }
}

/// Partial sums side by side, joined in one order.
#[inline(always)]
pub(super) fn dot(a: &[f64], b: &[f64]) -> f64 {
    let mut sums = [0.0f64; 8];
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<8>(), b.as_chunks::<8>());
    for (a, b) in a.iter().zip(b) {
        for lane in 0..8 {
            sums[lane] += a[lane] * b[lane];
        }
    }
    for (lane, (x, y)) in a_rest.iter().zip(b_rest).enumerate() {
        sums[lane] += x * y;
    }
    sums.iter().sum()
}

/// Makes directions orthonormal, one after the other; those that are not known become any that are orthogonal to all before.
#[inline(always)]
pub(super) fn complete(directions: &mut [f64], length: usize, is_known: &[bool]) {
    let mut unit = 0;
    for (place, is_known) in is_known.iter().enumerate() {
        let (before, direction) = directions.split_at_mut(place * length);
        let direction = &mut direction[..length];
        let mut is_done = *is_known && straighten(before, direction);
        while !is_done {
            // One of the unit vectors is no sum of fewer directions than there are numbers.
            direction.fill(0.0);
            direction[unit % length] = 1.0;
            unit += 1;
            is_done = straighten(before, direction);
        }
    }
}

/// Takes the directions before off one and scales it to norm 1; false if little is left of it.
#[inline(always)]
fn straighten(before: &[f64], direction: &mut [f64]) -> bool {
    // Twice: the first time leaves the roundings of large parts.
    for _ in 0..2 {
        let norm = dot(direction, direction).sqrt();
        for other in before.chunks_exact(direction.len()) {
            let part = dot(other, direction);
            direction.iter_mut().zip(other).for_each(|(x, y)| *x -= part * y);
        }
        let left = dot(direction, direction).sqrt();
        if left <= LEFT_MIN * norm {
            return false;
        }
        direction.iter_mut().for_each(|x| *x /= left);
    }
    true
}
