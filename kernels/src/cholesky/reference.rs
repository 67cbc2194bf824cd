//! The plain algorithm, row by row in f64: it defines the factor.

use super::NotPositiveDefinite;

/// The Cholesky factor of a matrix of n rows, whose lower half is given by columns (n * n numbers; the upper half is not
/// read). The factor is by columns too, with zeros above the diagonal.
///
/// # Errors
/// When a pivot is not a positive finite number.
///
/// # Panics
/// When there are not n * n numbers.
pub fn factor(n: usize, matrix: &[f64]) -> Result<Vec<f64>, NotPositiveDefinite> {
    assert_eq!(matrix.len(), n * n, "a matrix of {n} rows and columns");
    let mut lower = vec![0.0; n * n];
    for row in 0..n {
        for column in 0..=row {
            let before = (0..column).map(|p| lower[p * n + row] * lower[p * n + column]);
            let left = before.fold(matrix[column * n + row], |left, product| left - product);
            lower[column * n + row] = if column < row {
                left / lower[column * n + column]
            } else if left > 0.0 && left.is_finite() {
                left.sqrt()
            } else {
                return Err(NotPositiveDefinite { row });
            };
        }
    }
    Ok(lower)
}
