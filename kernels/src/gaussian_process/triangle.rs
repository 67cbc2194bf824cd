//! Solves with a factor by tiles and one vector: one pass over the factor, bound by memory.
//!
//! The factor may be of f32; the vector is of f64, and so are the sums, which are taken in one order.

use crate::CodePath;
use crate::cholesky::{Number, TiledMatrix};
use crate::lanes::{Lanes, Work, run};

/// Partial sums of a column.
const LANES: usize = 8;

/// The numbers of L's diagonal.
pub(super) fn pivots<T: Number>(factor: &TiledMatrix<T>) -> Vec<f64> {
    let size = factor.tile_size();
    let pivot = |row: usize| factor.read(row / size, row / size)[(row % size) * (size + 1)].wide();
    (0..factor.rows()).map(pivot).collect()
}

/// Solves L x = b in place.
pub(super) fn solve<T: Number>(factor: &TiledMatrix<T>, b: &mut [f64]) {
    in_tiles(factor, b, |x| run(CodePath::detect(), Forward { factor, x }));
}

/// Solves L^T x = b in place.
pub(super) fn solve_transposed<T: Number>(factor: &TiledMatrix<T>, b: &mut [f64]) {
    in_tiles(factor, b, |x| run(CodePath::detect(), Backward { factor, x }));
}

/// Solves a vector that is filled up to whole tiles: the rows behind the matrix are those of the identity.
fn in_tiles<T: Number>(factor: &TiledMatrix<T>, b: &mut [f64], solve: impl FnOnce(&mut [f64])) {
    assert_eq!(b.len(), factor.rows(), "a number for each row");
    let mut x = b.to_vec();
    x.resize(factor.tile_rows() * factor.tile_size(), 0.0);
    solve(&mut x);
    b.copy_from_slice(&x[..b.len()]);
}

struct Forward<'a, T> {
    factor: &'a TiledMatrix<T>,
    x: &'a mut [f64],
}

impl<T: Number> Work for Forward<'_, T> {
    type Done = ();

    #[inline(always)]
    fn run<L: Lanes>(self, _: L) {
        let Self { factor, x } = self;
        let size = factor.tile_size();
        for j in 0..factor.tile_rows() {
            let (before, below) = x.split_at_mut((j + 1) * size);
            let own = &mut before[j * size..];
            let diagonal = factor.read(j, j);
            for column in 0..size {
                let numbers = &diagonal[column * size..(column + 1) * size];
                let solved = own[column] / numbers[column].wide();
                own[column] = solved;
                for row in column + 1..size {
                    own[row] -= numbers[row].wide() * solved;
                }
            }
            for (nth, y) in below.chunks_exact_mut(size).enumerate() {
                subtract(&factor.read(j + 1 + nth, j), own, y);
            }
        }
    }
}

/// y -= the tile times x, four columns at a time.
#[inline(always)]
fn subtract<T: Number>(tile: &[T], x: &[f64], y: &mut [f64]) {
    let (size, columns) = (y.len(), x.len());
    let mut column = 0;
    while column + 4 <= columns {
        let (a, b) = (&tile[column * size..][..size], &tile[(column + 1) * size..][..size]);
        let (c, d) = (&tile[(column + 2) * size..][..size], &tile[(column + 3) * size..][..size]);
        let (of_a, of_b, of_c, of_d) = (x[column], x[column + 1], x[column + 2], x[column + 3]);
        for i in 0..size {
            let (a, b, c, d) =
                (a[i].wide() * of_a, b[i].wide() * of_b, c[i].wide() * of_c, d[i].wide() * of_d);
            y[i] -= (a + b) + (c + d);
        }
        column += 4;
    }
    while column < columns {
        let (a, of_a) = (&tile[column * size..][..size], x[column]);
        for i in 0..size {
            y[i] -= a[i].wide() * of_a;
        }
        column += 1;
    }
}

struct Backward<'a, T> {
    factor: &'a TiledMatrix<T>,
    x: &'a mut [f64],
}

impl<T: Number> Work for Backward<'_, T> {
    type Done = ();

    #[inline(always)]
    fn run<L: Lanes>(self, _: L) {
        let Self { factor, x } = self;
        let size = factor.tile_size();
        let mut sums = vec![[0.0; LANES]; size];
        for j in (0..factor.tile_rows()).rev() {
            let (before, below) = x.split_at_mut((j + 1) * size);
            let own = &mut before[j * size..];
            sums.fill([0.0; LANES]);
            for (nth, y) in below.chunks_exact(size).enumerate() {
                let tile = factor.read(j + 1 + nth, j);
                for (sums, numbers) in sums.iter_mut().zip(tile.chunks_exact(size)) {
                    add_products(sums, numbers, y);
                }
            }
            let diagonal = factor.read(j, j);
            for column in (0..size).rev() {
                let (numbers, mut sums) = (&diagonal[column * size..(column + 1) * size], sums[column]);
                add_products(&mut sums, &numbers[column + 1..], &own[column + 1..]);
                let mut sum = 0.0;
                for part in sums {
                    sum += part;
                }
                own[column] = (own[column] - sum) / numbers[column].wide();
            }
        }
    }
}

/// Adds the products of two rows to partial sums.
#[inline(always)]
fn add_products<T: Number>(sums: &mut [f64; LANES], a: &[T], b: &[f64]) {
    let ((a, of_a), (b, of_b)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
    for (a, b) in a.iter().zip(b) {
        for lane in 0..LANES {
            sums[lane] += a[lane].wide() * b[lane];
        }
    }
    for lane in 0..of_a.len() {
        sums[lane] += of_a[lane].wide() * of_b[lane];
    }
}
