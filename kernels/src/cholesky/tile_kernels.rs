//! The four operations on tiles: the trait that a library implements, and plain loops for all machines.
//!
//! Tiles are square, by columns. Each operation works with a lower half and leaves the upper half of a diagonal tile undefined.

/// Operations on tiles of `size` * `size` numbers by columns. LAPACK's names are in brackets.
pub trait TileKernels: Sync {
    /// Replaces the lower half of a tile by its Cholesky factor (potrf).
    ///
    /// # Errors
    /// The row whose pivot is not a positive finite number.
    fn factor(&self, tile: &mut [f64], size: usize) -> Result<(), usize>;

    /// Multiplies a tile from the right by the inverse of the transpose of a lower triangular one (trsm).
    fn solve(&self, triangle: &[f64], tile: &mut [f64], size: usize);

    /// Subtracts from the lower half of a tile the product of a tile with its transpose (syrk).
    fn square(&self, factor: &[f64], tile: &mut [f64], size: usize);

    /// Subtracts from a tile the product of a tile with the transpose of another one (gemm).
    fn product(&self, left: &[f64], right: &[f64], tile: &mut [f64], size: usize);

    /// Multiplies columns of `size` numbers, any number of them, from the left by the inverse of a lower triangular tile (trsm).
    fn solve_columns(&self, triangle: &[f64], columns: &mut [f64], size: usize);

    /// Subtracts from columns of `size` numbers the product of a tile with as many columns (gemm).
    fn subtract_product(&self, left: &[f64], right: &[f64], columns: &mut [f64], size: usize);

    /// Adds to a tile the product of the transpose of a tile with another one (gemm).
    fn add_transposed_product(&self, left: &[f64], right: &[f64], tile: &mut [f64], size: usize);
}

/// Loops that the compiler turns into vector instructions. The factor has the same bits on every machine, as they add in one
/// fixed order and fuse nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plain;

/// y -= x * by.
fn subtract(y: &mut [f64], x: &[f64], by: f64) {
    for (y, x) in y.iter_mut().zip(x) {
        *y -= x * by;
    }
}

impl TileKernels for Plain {
    fn factor(&self, tile: &mut [f64], size: usize) -> Result<(), usize> {
        for j in 0..size {
            let (before, rest) = tile.split_at_mut(j * size);
            let column = &mut rest[j..size];
            for left in before.chunks_exact(size) {
                subtract(column, &left[j..], left[j]);
            }
            let pivot = column[0];
            if !(pivot > 0.0 && pivot.is_finite()) {
                return Err(j);
            }
            let root = pivot.sqrt();
            column[0] = root;
            column[1..].iter_mut().for_each(|x| *x /= root);
        }
        Ok(())
    }

    fn solve(&self, triangle: &[f64], tile: &mut [f64], size: usize) {
        for j in 0..size {
            let (before, rest) = tile.split_at_mut(j * size);
            let column = &mut rest[..size];
            for (p, left) in before.chunks_exact(size).enumerate() {
                subtract(column, left, triangle[p * size + j]);
            }
            let pivot = triangle[j * size + j];
            column.iter_mut().for_each(|x| *x /= pivot);
        }
    }

    fn square(&self, factor: &[f64], tile: &mut [f64], size: usize) {
        for (j, column) in tile.chunks_exact_mut(size).enumerate() {
            for left in factor.chunks_exact(size) {
                subtract(&mut column[j..], &left[j..], left[j]);
            }
        }
    }

    fn product(&self, left: &[f64], right: &[f64], tile: &mut [f64], size: usize) {
        for (j, column) in tile.chunks_exact_mut(size).enumerate() {
            for (left, right) in left.chunks_exact(size).zip(right.chunks_exact(size)) {
                subtract(column, left, right[j]);
            }
        }
    }

    fn solve_columns(&self, triangle: &[f64], columns: &mut [f64], size: usize) {
        for column in columns.chunks_exact_mut(size) {
            for (p, left) in triangle.chunks_exact(size).enumerate() {
                let (solved, below) = column[p..].split_first_mut().expect("a row for each column");
                *solved /= left[p];
                subtract(below, &left[p + 1..], *solved);
            }
        }
    }

    fn subtract_product(&self, left: &[f64], right: &[f64], columns: &mut [f64], size: usize) {
        for (column, right) in columns.chunks_exact_mut(size).zip(right.chunks_exact(size)) {
            for (left, right) in left.chunks_exact(size).zip(right) {
                subtract(column, left, *right);
            }
        }
    }

    fn add_transposed_product(&self, left: &[f64], right: &[f64], tile: &mut [f64], size: usize) {
        for (column, right) in tile.chunks_exact_mut(size).zip(right.chunks_exact(size)) {
            for (entry, left) in column.iter_mut().zip(left.chunks_exact(size)) {
                *entry += left.iter().zip(right).map(|(a, b)| a * b).sum::<f64>();
            }
        }
    }
}
