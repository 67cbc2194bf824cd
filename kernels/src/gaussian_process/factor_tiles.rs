//! The factor of a model, which is kept by rows, as tiles for a device, and the inverses of its diagonal tiles.

use super::cholesky::Cholesky;
use crate::cholesky::Number;

/// Writes tile (i, j) of a factor, by columns: zeros above the diagonal, and rows of the identity behind the last one.
///
/// # Panics
/// When the tile is not square, or lies above the diagonal.
pub fn tile_of_rows<T: Number>(factor: &Cholesky, (i, j): (usize, usize), tile: &mut [T]) {
    let size = tile.len().isqrt();
    assert!(size * size == tile.len() && j <= i, "a square tile of the lower half");
    tile.fill(T::ZERO);
    for row in 0..size {
        let of_factor = i * size + row;
        if of_factor >= factor.len() {
            if i == j {
                tile[row * size + row] = T::ONE;
            }
            continue;
        }
        let numbers = &factor.row(of_factor)[j * size..];
        for (column, number) in numbers.iter().take(size).enumerate() {
            tile[column * size + row] = T::of(*number);
        }
    }
}

/// Writes the inverse of diagonal tile k, computed in f64.
///
/// # Panics
/// As [`tile_of_rows`].
pub fn inverse_of_diagonal_tile<T: Number>(factor: &Cholesky, k: usize, tile: &mut [T]) {
    let size = tile.len().isqrt();
    let mut own = vec![0.0; tile.len()];
    tile_of_rows(factor, (k, k), &mut own);
    tile.fill(T::ZERO);
    let mut column = vec![0.0; size];
    for c in 0..size {
        column.fill(0.0);
        column[c] = 1.0;
        for p in c..size {
            column[p] /= own[p * size + p];
            for row in p + 1..size {
                column[row] -= own[p * size + row] * column[p];
            }
        }
        for row in c..size {
            tile[c * size + row] = T::of(column[row]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_are_those_of_the_rows_and_inverses_are_inverse() {
        let entry = |row: usize, column: usize| {
            if row == column { 2.0 + row as f64 } else { 0.1 * (row as f64 - 2.0 * column as f64) }
        };
        let rows = (0..5).flat_map(|row| (0..=row).map(move |column| entry(row, column))).collect();
        let (factor, size) = (Cholesky::of_rows(rows), 3);
        let mut tile = [0.0f64; 9];
        for (i, j) in [(0, 0), (1, 0), (1, 1)] {
            tile_of_rows(&factor, (i, j), &mut tile);
            for (at, found) in tile.iter().enumerate() {
                let (row, column) = (i * size + at % size, j * size + at / size);
                let expected = match row < 5 {
                    true if column <= row => entry(row, column),
                    _ => f64::from(row == column),
                };
                assert_eq!(*found, expected, "({row}, {column})");
            }
            if i != j {
                continue;
            }
            let mut inverse = [0.0f64; 9];
            inverse_of_diagonal_tile(&factor, i, &mut inverse);
            for at in 0..9 {
                let (row, column) = (at % size, at / size);
                let sum: f64 = (0..size).map(|p| tile[p * size + row] * inverse[column * size + p]).sum();
                assert!((sum - f64::from(row == column)).abs() < 1e-14, "({row}, {column}): {sum}");
            }
        }
    }
}
