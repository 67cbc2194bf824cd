//! The four operations on tiles: the trait that a library implements, and plain loops for all machines.
//!
//! Tiles are by columns. Each operation works with a lower half and leaves the upper half of a diagonal tile undefined.

use super::number::Number;
use crate::CodePath;
use crate::lanes::{Lanes, Work, run};

/// Operations on tiles of `size` columns. LAPACK's names are in brackets. Diagonal tiles, triangles and tiles on the right have
/// `size` rows; the left and the changed tile of [`TileKernels::solve`] and [`TileKernels::product`] may have any number, both the same.
pub trait TileKernels<T = f64>: Sync {
    /// Replaces the lower half of a tile by its Cholesky factor (potrf).
    ///
    /// # Errors
    /// The row whose pivot is not a positive finite number.
    fn factor(&self, tile: &mut [T], size: usize) -> Result<(), usize>;

    /// Multiplies a tile from the right by the inverse of the transpose of a lower triangular one (trsm).
    fn solve(&self, triangle: &[T], tile: &mut [T], size: usize);

    /// Subtracts from the lower half of a tile the product of a tile with its transpose (syrk).
    fn square(&self, factor: &[T], tile: &mut [T], size: usize);

    /// Subtracts from a tile the product of a tile with the transpose of another one (gemm).
    fn product(&self, left: &[T], right: &[T], tile: &mut [T], size: usize);
}

/// Loops that the compiler turns into the vector instructions of each code path. The factor has the same bits on every machine, as
/// they add in one fixed order and fuse nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plain;

/// y -= the sum of the first `terms` columns of `left`, each times its factor, from row `from` on: that of column p is at
/// p * `stride` + j. Four columns at a time, each subtracted from what the one before has left: the bits are those of one column at a time.
#[inline(always)]
fn subtract<T: Number>(
    y: &mut [T],
    (left, rows): (&[T], usize),
    (factors, stride, j): (&[T], usize, usize),
    (from, terms): (usize, usize),
) {
    let by = |p: usize| factors[p * stride + j];
    let n = y.len() - from;
    let y = &mut y[from..];
    let mut p = 0;
    while p + 4 <= terms {
        let (a, b) = (&left[p * rows + from..][..n], &left[(p + 1) * rows + from..][..n]);
        let (c, d) = (&left[(p + 2) * rows + from..][..n], &left[(p + 3) * rows + from..][..n]);
        let (of_a, of_b, of_c, of_d) = (by(p), by(p + 1), by(p + 2), by(p + 3));
        for i in 0..n {
            y[i] = (((y[i] - a[i] * of_a) - b[i] * of_b) - c[i] * of_c) - d[i] * of_d;
        }
        p += 4;
    }
    while p < terms {
        let (a, of_a) = (&left[p * rows + from..][..n], by(p));
        for i in 0..n {
            y[i] -= a[i] * of_a;
        }
        p += 1;
    }
}

/// Subtracts products from columns; of a diagonal tile only the lower half.
struct Products<'a, T> {
    left: &'a [T],
    right: &'a [T],
    tile: &'a mut [T],
    size: usize,
    is_lower: bool,
}

impl<T: Number> Work for Products<'_, T> {
    type Done = ();

    #[inline(always)]
    fn run<L: Lanes>(self, _: L) {
        let Self { left, right, tile, size, is_lower } = self;
        let rows = tile.len() / size;
        for j in 0..size {
            let from = if is_lower { j } else { 0 };
            subtract(&mut tile[j * rows..(j + 1) * rows], (left, rows), (right, size, j), (from, size));
        }
    }
}

/// Factors a tile (`triangle` is none), or solves it with the factor of another.
struct Solve<'a, T> {
    triangle: Option<&'a [T]>,
    tile: &'a mut [T],
    size: usize,
}

impl<T: Number> Work for Solve<'_, T> {
    type Done = Result<(), usize>;

    #[inline(always)]
    fn run<L: Lanes>(self, _: L) -> Result<(), usize> {
        let Self { triangle, tile, size } = self;
        let rows = tile.len() / size;
        for j in 0..size {
            let (before, rest) = tile.split_at_mut(j * rows);
            let before = &*before;
            let column = &mut rest[..rows];
            let numbers = triangle.unwrap_or(before);
            let from = if triangle.is_some() { 0 } else { j };
            subtract(column, (before, rows), (numbers, size, j), (from, j));
            let divisor = match triangle {
                Some(triangle) => triangle[j * size + j],
                None => {
                    let pivot = column[j];
                    if !(pivot > T::ZERO && pivot.has_value()) {
                        return Err(j);
                    }
                    let root = pivot.root();
                    column[j] = root;
                    root
                }
            };
            let first = if triangle.is_some() { 0 } else { j + 1 };
            for x in &mut column[first..] {
                *x /= divisor;
            }
        }
        Ok(())
    }
}

impl<T: Number> TileKernels<T> for Plain {
    fn factor(&self, tile: &mut [T], size: usize) -> Result<(), usize> {
        run(CodePath::detect(), Solve { triangle: None, tile, size })
    }

    fn solve(&self, triangle: &[T], tile: &mut [T], size: usize) {
        let solved = run(CodePath::detect(), Solve { triangle: Some(triangle), tile, size });
        debug_assert!(solved.is_ok(), "only a factor can fail");
    }

    fn square(&self, factor: &[T], tile: &mut [T], size: usize) {
        let work = Products { left: factor, right: factor, tile, size, is_lower: true };
        run(CodePath::detect(), work);
    }

    fn product(&self, left: &[T], right: &[T], tile: &mut [T], size: usize) {
        run(CodePath::detect(), Products { left, right, tile, size, is_lower: false });
    }
}
