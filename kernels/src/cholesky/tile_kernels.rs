//! The four operations on tiles: the trait that a library implements, and plain loops for all machines.
//!
//! Tiles are square, by columns. Each operation works with a lower half and leaves the upper half of a diagonal tile undefined.

use crate::CodePath;
use crate::lanes::{Lanes, Work, run};

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

/// Loops that the compiler turns into the vector instructions of each code path. The factor has the same bits on every machine, as
/// they add in one fixed order and fuse nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plain;

/// The factors of the columns that are subtracted: that of column p for column j is at p * `by_p` + j * `by_j`.
#[derive(Clone, Copy)]
struct Factors<'a> {
    numbers: &'a [f64],
    by_p: usize,
    by_j: usize,
}

/// y -= the sum of the first `terms` columns of `left`, each times its factor, from row `from` on. Four columns at a time, each subtracted
/// from what the one before has left: the bits are those of one column at a time.
#[inline(always)]
fn subtract(
    y: &mut [f64],
    (left, size): (&[f64], usize),
    (factors, j): (Factors<'_>, usize),
    (from, terms): (usize, usize),
) {
    let by = |p: usize| factors.numbers[p * factors.by_p + j * factors.by_j];
    let n = y.len() - from;
    let y = &mut y[from..];
    let mut p = 0;
    while p + 4 <= terms {
        let (a, b) = (&left[p * size + from..][..n], &left[(p + 1) * size + from..][..n]);
        let (c, d) = (&left[(p + 2) * size + from..][..n], &left[(p + 3) * size + from..][..n]);
        let (of_a, of_b, of_c, of_d) = (by(p), by(p + 1), by(p + 2), by(p + 3));
        for i in 0..n {
            y[i] = (((y[i] - a[i] * of_a) - b[i] * of_b) - c[i] * of_c) - d[i] * of_d;
        }
        p += 4;
    }
    while p < terms {
        let (a, of_a) = (&left[p * size + from..][..n], by(p));
        for i in 0..n {
            y[i] -= a[i] * of_a;
        }
        p += 1;
    }
}

/// Subtracts products from columns of `size` numbers; of a diagonal tile only the lower half.
struct Products<'a> {
    left: &'a [f64],
    factors: Factors<'a>,
    columns: &'a mut [f64],
    size: usize,
    is_lower: bool,
}

impl Work for Products<'_> {
    type Done = ();

    #[inline(always)]
    fn run<L: Lanes>(self, _: L) {
        let Self { left, factors, columns, size, is_lower } = self;
        for j in 0..columns.len() / size {
            let from = if is_lower { j } else { 0 };
            let column = &mut columns[j * size..(j + 1) * size];
            subtract(column, (left, size), (factors, j), (from, size));
        }
    }
}

/// Factors a tile (`triangle` is none), or solves it with the factor of another.
struct Solve<'a> {
    triangle: Option<&'a [f64]>,
    tile: &'a mut [f64],
    size: usize,
}

impl Work for Solve<'_> {
    type Done = Result<(), usize>;

    #[inline(always)]
    fn run<L: Lanes>(self, _: L) -> Result<(), usize> {
        let Self { triangle, tile, size } = self;
        for j in 0..size {
            let (before, rest) = tile.split_at_mut(j * size);
            let before = &*before;
            let column = &mut rest[..size];
            let numbers = triangle.unwrap_or(before);
            let from = if triangle.is_some() { 0 } else { j };
            let factors = Factors { numbers, by_p: size, by_j: 1 };
            subtract(column, (before, size), (factors, j), (from, j));
            let divisor = match triangle {
                Some(triangle) => triangle[j * size + j],
                None => {
                    let pivot = column[j];
                    if !(pivot > 0.0 && pivot.is_finite()) {
                        return Err(j);
                    }
                    let root = pivot.sqrt();
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

/// Solves columns with a lower triangular tile, from its first row to its last.
struct SolveColumns<'a> {
    triangle: &'a [f64],
    columns: &'a mut [f64],
    size: usize,
}

impl Work for SolveColumns<'_> {
    type Done = ();

    #[inline(always)]
    fn run<L: Lanes>(self, _: L) {
        let Self { triangle, columns, size } = self;
        for j in 0..columns.len() / size {
            let column = &mut columns[j * size..(j + 1) * size];
            for p in 0..size {
                let left = &triangle[p * size..(p + 1) * size];
                let solved = column[p] / left[p];
                column[p] = solved;
                for i in p + 1..size {
                    column[i] -= left[i] * solved;
                }
            }
        }
    }
}

impl TileKernels for Plain {
    fn factor(&self, tile: &mut [f64], size: usize) -> Result<(), usize> {
        run(CodePath::detect(), Solve { triangle: None, tile, size })
    }

    fn solve(&self, triangle: &[f64], tile: &mut [f64], size: usize) {
        let solved = run(CodePath::detect(), Solve { triangle: Some(triangle), tile, size });
        debug_assert!(solved.is_ok(), "only a factor can fail");
    }

    fn square(&self, factor: &[f64], tile: &mut [f64], size: usize) {
        let factors = Factors { numbers: factor, by_p: size, by_j: 1 };
        let work = Products { left: factor, factors, columns: tile, size, is_lower: true };
        run(CodePath::detect(), work);
    }

    fn product(&self, left: &[f64], right: &[f64], tile: &mut [f64], size: usize) {
        let factors = Factors { numbers: right, by_p: size, by_j: 1 };
        run(CodePath::detect(), Products { left, factors, columns: tile, size, is_lower: false });
    }

    fn solve_columns(&self, triangle: &[f64], columns: &mut [f64], size: usize) {
        run(CodePath::detect(), SolveColumns { triangle, columns, size });
    }

    fn subtract_product(&self, left: &[f64], right: &[f64], columns: &mut [f64], size: usize) {
        let factors = Factors { numbers: right, by_p: 1, by_j: size };
        run(CodePath::detect(), Products { left, factors, columns, size, is_lower: false });
    }

    fn add_transposed_product(&self, left: &[f64], right: &[f64], tile: &mut [f64], size: usize) {
        // Columns of the transpose, with the opposite sign, so that the product is subtracted.
        let transposed: Vec<f64> = (0..size * size).map(|at| -left[(at % size) * size + at / size]).collect();
        self.subtract_product(&transposed, right, tile, size);
    }
}
