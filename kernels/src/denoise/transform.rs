//! The matrices of transforms, their inverses, and Kaiser's window, in f64.
//!
//! Invariants: every row of a forward matrix has length 1, so noise keeps its deviation; the first row is the mean's.

use super::parameters::Transform;

/// A square matrix by rows.
pub(crate) type Matrix = Vec<Vec<f64>>;

/// A patch, or its coefficients, in rows of `R` numbers of which the first `P` count.
pub(crate) type Patch<const P: usize, const R: usize> = [[f32; R]; P];

/// The low-pass taps of the biorthogonal wavelet 1.5 over the root of two (Cohen, Daubechies, Feauveau 1992); its high-pass
/// taps are Haar's.
const BIOR15: [f64; 10] = [
    3.0 / 128.0,
    -3.0 / 128.0,
    -22.0 / 128.0,
    22.0 / 128.0,
    1.0,
    1.0,
    22.0 / 128.0,
    -22.0 / 128.0,
    -3.0 / 128.0,
    3.0 / 128.0,
];
/// Haar's low-pass taps over the root of two.
const HAAR: [f64; 2] = [1.0, 1.0];

/// The forward matrix of a transform of `size` numbers.
pub(crate) fn forward(transform: Transform, size: usize) -> Matrix {
    let rows = match transform {
        Transform::Dct => dct(size),
        Transform::Walsh => walsh(size),
        Transform::Bior15 => wavelet(&BIOR15, size),
        Transform::Haar => wavelet(&HAAR, size),
    };
    rows.into_iter().map(normalised).collect()
}

fn normalised(row: Vec<f64>) -> Vec<f64> {
    let length = row.iter().map(|x| x * x).sum::<f64>().sqrt();
    row.into_iter().map(|x| x / length).collect()
}

fn dct(size: usize) -> Matrix {
    let angle = |k: usize, i: usize| std::f64::consts::PI * (2 * i + 1) as f64 * k as f64 / (2 * size) as f64;
    (0..size).map(|k| (0..size).map(|i| angle(k, i).cos()).collect()).collect()
}

fn walsh(size: usize) -> Matrix {
    let sign = |k: usize, i: usize| if (k & i).count_ones().is_multiple_of(2) { 1.0 } else { -1.0 };
    (0..size).map(|k| (0..size).map(|i| sign(k, i)).collect()).collect()
}

/// The periodised wavelet of all levels: the last level's mean first, then details from coarse to fine.
fn wavelet(low: &[f64], size: usize) -> Matrix {
    // Rows that give the means of the current level from the input.
    let mut means: Matrix =
        (0..size).map(|i| (0..size).map(|j| f64::from(u8::from(i == j))).collect()).collect();
    let mut details: Vec<Matrix> = Vec::new();
    while means.len() > 1 {
        let half = means.len() / 2;
        let combine = |taps: &[f64], place: usize| {
            let mut row = vec![0.0; size];
            for (tap, weight) in taps.iter().enumerate() {
                // Taps are centred on the pair of numbers that they halve.
                let from = (2 * place + 1 + tap + 8 * means.len() - taps.len() / 2) % means.len();
                row.iter_mut().zip(&means[from]).for_each(|(sum, mean)| *sum += weight * mean);
            }
            row
        };
        details.push((0..half).map(|place| combine(&[1.0, -1.0], place)).collect());
        means = (0..half).map(|place| combine(low, place)).collect();
    }
    means.into_iter().chain(details.into_iter().rev().flatten()).collect()
}

/// The inverse of a matrix, by Gauss and Jordan's elimination with pivots.
///
/// # Panics
/// If the matrix has none.
pub(crate) fn inverse(matrix: &Matrix) -> Matrix {
    let size = matrix.len();
    let mut left = matrix.clone();
    let mut right: Matrix =
        (0..size).map(|i| (0..size).map(|j| f64::from(u8::from(i == j))).collect()).collect();
    for column in 0..size {
        let pivot = (column..size)
            .max_by(|a, b| left[*a][column].abs().total_cmp(&left[*b][column].abs()))
            .expect("a row is left");
        left.swap(column, pivot);
        right.swap(column, pivot);
        let scale = left[column][column];
        assert!(scale.abs() > 1e-9, "the transform has an inverse");
        left[column].iter_mut().chain(&mut right[column]).for_each(|x| *x /= scale);
        let (of_left, of_right) = (left[column].clone(), right[column].clone());
        for row in (0..size).filter(|row| *row != column) {
            let factor = left[row][column];
            left[row].iter_mut().zip(&of_left).for_each(|(x, y)| *x -= factor * y);
            right[row].iter_mut().zip(&of_right).for_each(|(x, y)| *x -= factor * y);
        }
    }
    right
}

/// Kaiser's window of `size` by `size` places, by rows; 1 in its middle.
pub(crate) fn kaiser(size: usize, beta: f64) -> Matrix {
    let at = |i: usize| {
        let place = 2.0 * i as f64 / (size - 1) as f64 - 1.0;
        bessel(beta * (1.0 - place * place).max(0.0).sqrt()) / bessel(beta)
    };
    (0..size).map(|i| (0..size).map(|j| at(i) * at(j)).collect()).collect()
}

/// The modified Bessel function of the first kind of order 0, by its power series.
fn bessel(x: f64) -> f64 {
    let (mut term, mut sum) = (1.0, 1.0);
    for k in 1..64 {
        let ratio = x / (2.0 * f64::from(k));
        term *= ratio * ratio;
        sum += term;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    fn product(a: &Matrix, b: &Matrix) -> Matrix {
        let cell = |i: usize, j: usize| (0..a.len()).map(|k| a[i][k] * b[k][j]).sum();
        (0..a.len()).map(|i| (0..a.len()).map(|j| cell(i, j)).collect()).collect()
    }

    #[test]
    fn transforms_invert_and_their_rows_have_length_one() {
        let eight = [Transform::Bior15, Transform::Dct, Transform::Haar, Transform::Walsh].map(|t| (t, 8));
        for (transform, size) in
            eight.into_iter().chain([(Transform::Dct, 11), (Transform::Dct, 2), (Transform::Dct, 32)])
        {
            let matrix = forward(transform, size);
            for row in &matrix {
                assert!((row.iter().map(|x| x * x).sum::<f64>() - 1.0).abs() < 1e-14, "{transform:?}");
            }
            let identity = product(&matrix, &inverse(&matrix));
            for (i, row) in identity.iter().enumerate() {
                for (j, x) in row.iter().enumerate() {
                    assert!((x - f64::from(u8::from(i == j))).abs() < 1e-12, "{transform:?} {i} {j} {x}");
                }
            }
            // Details of a constant are zero.
            assert!(matrix[1..].iter().all(|row| row.iter().sum::<f64>().abs() < 1e-12), "{transform:?}");
        }
    }

    #[test]
    fn the_first_level_of_bior15_has_its_published_taps() {
        // Row 4 of 8 holds the first fine detail; of 16 numbers, the first level's means have ten taps that do not wrap.
        let fine = &forward(Transform::Bior15, 8)[4];
        assert!(
            (fine[0] - std::f64::consts::FRAC_1_SQRT_2).abs() < 1e-15 && (fine[0] + fine[1]).abs() < 1e-15
        );
        assert!((BIOR15[0] * std::f64::consts::FRAC_1_SQRT_2 - 0.016_572_815_184_059_706).abs() < 1e-15);
        assert!((BIOR15[3] * std::f64::consts::FRAC_1_SQRT_2 - 0.121_533_978_016_437_85).abs() < 1e-15);
    }

    #[test]
    fn kaisers_window_is_one_in_the_middle_and_symmetric() {
        let window = kaiser(11, 2.0);
        assert!((window[5][5] - 1.0).abs() < 1e-15);
        // I0(2) = 2.2795853...
        assert!((window[0][5] - 1.0 / 2.279_585_302_336_067).abs() < 1e-12);
        assert!((window[0][3] - window[10][7]).abs() < 1e-15);
    }
}
