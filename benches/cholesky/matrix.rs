//! The matrix that all sides factorise, and the vector by which their factors are compared.

use boxwork_kernels::cholesky::{Number, TiledMatrix};
use serde_json::Value;

/// A positive definite matrix: numbers between -1 and 1, and n on the diagonal. `peers/lapack.py` makes the same one.
pub(super) fn entry<T: Number>(n: usize) -> impl Fn(usize, usize) -> T {
    move |row, column| {
        let mixed = ((row << 32 | column) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 11;
        let random = mixed as f64 / (1_u64 << 52) as f64 - 1.0;
        T::of(if row == column { n as f64 } else { random })
    }
}

/// The vector: numbers between 0.5 and 1.5.
pub(super) fn weights(n: usize) -> Vec<f64> {
    (0..n).map(|row| 0.5 + (row * 37 % 101) as f64 / 101.0).collect()
}

pub(super) fn numbers(answer: &Value, name: &str) -> Vec<f64> {
    let list = answer[name].as_array().unwrap_or_else(|| panic!("no {name} in {answer}"));
    list.iter().map(|number| number.as_f64().expect("a number")).collect()
}

/// A factor that can be multiplied with a vector.
pub(super) trait Factor {
    /// L w in f64.
    fn times(&self, weights: &[f64]) -> Vec<f64>;
}

impl<T: Number> Factor for TiledMatrix<T> {
    fn times(&self, weights: &[f64]) -> Vec<f64> {
        let (n, size) = (self.rows(), self.tile_size());
        let mut product = vec![0.0; n];
        for i in 0..self.tile_rows() {
            for j in 0..=i {
                let tile = self.read(i, j);
                for column in (j * size)..n.min((j + 1) * size) {
                    let of_column = &tile[(column - j * size) * size..][..size];
                    for row in column.max(i * size)..n.min((i + 1) * size) {
                        product[row] += of_column[row - i * size].wide() * weights[column];
                    }
                }
            }
        }
        product
    }
}
