//! The principal directions of a sample's features, by subspace iteration in f64.
//!
//! The method is ours because its bits count: a sketch that one machine makes is used, and appended to, on others. A library
//! of linear algebra picks its order of summation by the machine. Nothing here needs the directions to full accuracy: any
//! basis that keeps almost all variance serves, and distances of sketches do not depend on its rotation.

use super::products::Products;
use super::{COORDINATES, FREQUENCIES_MAX};
use crate::CodePath;
use crate::chance::Random;
use crate::lanes::run;
use crate::memory::{MemoryRefused, filled};

/// Computes pieces of a list of numbers side by side: the closure gets the index of each piece's first number. Returns false
/// if the caller cancelled it; some numbers are then not computed.
pub type SideBySide<'a> = dyn FnMut(&mut [f64], usize, &(dyn Fn(usize, &mut [f64]) + Sync)) -> bool + 'a;

/// Directions that are iterated; the first [`COORDINATES`] are kept.
const ITERATED: usize = 80;
/// Directions whose sums the inner loop holds in registers.
const STEP: usize = 16;
const _: () = assert!(ITERATED.is_multiple_of(STEP) && ITERATED > COORDINATES);
/// Multiplications by the matrix. After these, the kept variance is within a thousandth of the largest possible.
const ITERATIONS: usize = 8;
/// Sweeps of Jacobi's method; it converges quadratically, so that far fewer do the work.
const SWEEPS: usize = 16;
/// Directions with less variance than this part of the features' mean square are noise of f32, and become 0.
const NOISE: f64 = 1e-7;
/// Rows of the matrix that one piece of work computes.
const ROWS_PER_PIECE: usize = 64;

/// Directions of features, and the place of the sample's mean along them.
#[derive(Clone, Debug, PartialEq)]
pub struct Basis {
    /// For each feature, its part in each direction.
    vectors: Vec<f32>,
    offset: [f32; COORDINATES],
}

impl Basis {
    /// The principal directions of a sample: `features` has `width` numbers for each of its objects. `None` if the caller
    /// cancelled it.
    ///
    /// # Errors
    /// If the system has no memory for the matrix of all pairs of features.
    ///
    /// # Panics
    /// If `features` is not a whole number of objects, at least one.
    pub fn of_sample(
        features: &[f32],
        width: usize,
        side_by_side: &mut SideBySide<'_>,
    ) -> Result<Option<Self>, MemoryRefused> {
        assert!(!features.is_empty() && features.len().is_multiple_of(width), "features of whole objects");
        let objects = (features.len() / width) as f64;
        let mut mean = vec![0.0; width];
        for features in features.chunks_exact(width) {
            mean.iter_mut().zip(features).for_each(|(mean, x)| *mean += f64::from(*x));
        }
        mean.iter_mut().for_each(|mean| *mean /= objects);
        let what = || format!("the matrix of {width} features");
        let mut matrix = filled(width * width, 0.0, what, "use fewer frequencies (`--frequencies`)")?;
        let path = CodePath::detect();
        let is_done = side_by_side(&mut matrix, ROWS_PER_PIECE * width, &|first, out| {
            run(path, Products { features, width, first: first / width, out });
        });
        if !is_done {
            return Ok(None);
        }
        let square = (0..width).fold(0.0, |sum, row| sum + matrix[row * width + row]) / objects;
        for row in 0..width {
            for column in 0..=row {
                let covariance = matrix[row * width + column] / objects - mean[row] * mean[column];
                (matrix[row * width + column], matrix[column * width + row]) = (covariance, covariance);
            }
        }
        let Some((directions, variances)) = principal(&matrix, width, side_by_side) else { return Ok(None) };
        Ok(Some(Self::new(&directions, &variances, NOISE * square, &mean)))
    }

    /// The basis of directions with more than the least variance. They are columns of a matrix with a row for each feature,
    /// the best first.
    fn new(directions: &[f64], variances: &[f64], least: f64, mean: &[f64]) -> Self {
        let mut basis = Self { vectors: vec![0.0; mean.len() * COORDINATES], offset: [0.0; COORDINATES] };
        for column in (0..COORDINATES).filter(|column| variances[*column] > least) {
            let direction = || directions.iter().skip(column).step_by(ITERATED);
            // Either sign is a direction: the largest number is positive.
            let largest =
                direction().fold(0.0, |largest: f64, x| if x.abs() > largest.abs() { *x } else { largest });
            let sign = 1f64.copysign(largest);
            for (row, x) in direction().enumerate() {
                basis.vectors[row * COORDINATES + column] = (sign * x) as f32;
            }
            basis.offset[column] =
                direction().zip(mean).fold(0.0, |sum, (x, mean)| sum + sign * x * mean) as f32;
        }
        basis
    }

    /// Number of features.
    pub fn features(&self) -> usize {
        self.vectors.len() / COORDINATES
    }

    /// For each feature, its part in each of the [`COORDINATES`] directions.
    pub fn vectors(&self) -> &[f32] {
        &self.vectors
    }

    /// The mean of the sample along each direction, which every sketch is relative to.
    pub fn offset(&self) -> &[f32; COORDINATES] {
        &self.offset
    }

    /// The basis as numbers: the offset, then the vectors.
    pub fn numbers(&self) -> impl Iterator<Item = f32> {
        self.offset.iter().chain(&self.vectors).copied()
    }

    /// The basis of [`Basis::numbers`]; `None` if it cannot be one.
    pub fn from_numbers(numbers: &[f32]) -> Option<Self> {
        let (offset, vectors) = numbers.split_first_chunk()?;
        let features = vectors.len() / COORDINATES;
        let fits = vectors.len().is_multiple_of(2 * COORDINATES)
            && (1..=2 * FREQUENCIES_MAX).contains(&features)
            && numbers.iter().all(|number| number.abs() <= 2.0);
        fits.then(|| Self { vectors: vectors.to_vec(), offset: *offset })
    }
}

/// Principal directions of a symmetric matrix, as columns, and their variances, the largest first. `None` if cancelled.
fn principal(
    matrix: &[f64],
    width: usize,
    side_by_side: &mut SideBySide<'_>,
) -> Option<(Vec<f64>, Vec<f64>)> {
    let mut random = Random::mixed(0);
    let mut basis: Vec<f64> = (0..width * ITERATED).map(|_| random.normal()).collect();
    orthonormalise(&mut basis);
    let mut product = vec![0.0; basis.len()];
    for iteration in 0..=ITERATIONS {
        let is_done = side_by_side(&mut product, ROWS_PER_PIECE * ITERATED, &|first, out| {
            let matrix = &matrix[first / ITERATED * width..];
            multiply(matrix, &basis, out);
        });
        if !is_done {
            return None;
        }
        if iteration < ITERATIONS {
            std::mem::swap(&mut basis, &mut product);
            orthonormalise(&mut basis);
        }
    }
    // Rayleigh and Ritz: the directions within the subspace, by the matrix as seen from it.
    let mut small = vec![0.0; ITERATED * ITERATED];
    for (basis, product) in basis.chunks_exact(ITERATED).zip(product.chunks_exact(ITERATED)) {
        for (row, x) in small.chunks_exact_mut(ITERATED).zip(basis) {
            row.iter_mut().zip(product).for_each(|(sum, y)| *sum += x * y);
        }
    }
    let rotation = jacobi(&mut small);
    let variance = |column: usize| small[column * ITERATED + column];
    let mut order: Vec<usize> = (0..ITERATED).collect();
    order.sort_by(|a, b| variance(*b).total_cmp(&variance(*a)).then(a.cmp(b)));
    let mut directions = vec![0.0; basis.len()];
    for (directions, basis) in directions.chunks_exact_mut(ITERATED).zip(basis.chunks_exact(ITERATED)) {
        for (direction, column) in directions.iter_mut().zip(&order) {
            let numbers = basis.iter().zip(rotation.iter().skip(*column).step_by(ITERATED));
            *direction = numbers.fold(0.0, |sum, (x, y)| sum + x * y);
        }
    }
    Some((directions, order.into_iter().map(variance).collect()))
}

/// Rows of the product of the matrix and the basis.
fn multiply(matrix: &[f64], basis: &[f64], out: &mut [f64]) {
    let width = basis.len() / ITERATED;
    for (row, out) in matrix.chunks_exact(width).zip(out.chunks_exact_mut(ITERATED)) {
        for (step, out) in out.chunks_exact_mut(STEP).enumerate() {
            let mut sums = [0.0; STEP];
            for (x, basis) in row.iter().zip(basis.chunks_exact(ITERATED)) {
                let basis: &[f64; STEP] = basis[step * STEP..].first_chunk().expect("a whole step");
                for (sum, y) in sums.iter_mut().zip(basis) {
                    *sum += x * y;
                }
            }
            out.copy_from_slice(&sums);
        }
    }
}

/// Makes the columns orthonormal, from the first on: Gram and Schmidt, twice for each column. A column that lies in the
/// others' span becomes 0.
fn orthonormalise(columns: &mut [f64]) {
    for column in 0..ITERATED {
        let mut before = 0.0;
        for round in 0..2 {
            let mut parts = [0.0; ITERATED];
            for row in columns.chunks_exact(ITERATED) {
                let x = row[column];
                parts[..=column].iter_mut().zip(row).for_each(|(part, y)| *part += x * y);
            }
            if round == 0 {
                before = parts[column];
            }
            for row in columns.chunks_exact_mut(ITERATED) {
                let (others, rest) = row.split_at_mut(column);
                rest[0] -= others.iter().zip(parts).fold(0.0, |sum, (y, part)| sum + part * y);
            }
        }
        let square = columns.iter().skip(column).step_by(ITERATED).fold(0.0, |sum, x| sum + x * x);
        let scale = if square > 1e-24 * before && square > 0.0 { 1.0 / square.sqrt() } else { 0.0 };
        columns.iter_mut().skip(column).step_by(ITERATED).for_each(|x| *x *= scale);
    }
}

/// Diagonalises a small symmetric matrix by Jacobi's rotations, in a fixed order; returns the rotation, whose columns are
/// the directions.
fn jacobi(matrix: &mut [f64]) -> Vec<f64> {
    const N: usize = ITERATED;
    let mut rotation = vec![0.0; N * N];
    (0..N).for_each(|i| rotation[i * N + i] = 1.0);
    for _ in 0..SWEEPS {
        for p in 0..N {
            for q in p + 1..N {
                let off = matrix[p * N + q];
                if off == 0.0 {
                    continue;
                }
                let theta = (matrix[q * N + q] - matrix[p * N + p]) / (2.0 * off);
                let t = 1f64.copysign(theta) / (theta.abs() + (theta * theta + 1.0).sqrt());
                let c = 1.0 / (t * t + 1.0).sqrt();
                let s = t * c;
                let turn = |numbers: &mut [f64], a: usize, b: usize| {
                    (numbers[a], numbers[b]) =
                        (c * numbers[a] - s * numbers[b], s * numbers[a] + c * numbers[b]);
                };
                (0..N).for_each(|k| turn(matrix, k * N + p, k * N + q));
                (0..N).for_each(|k| turn(matrix, p * N + k, q * N + k));
                (0..N).for_each(|k| turn(&mut rotation, k * N + p, k * N + q));
            }
        }
    }
    rotation
}
