//! Triangles: solves with one, and the factor of a diagonal tile.

use super::super::number::Number;
use super::panels::{Columns, Strips, TERMS, lines, pack_rows};
use super::products::{BLOCK_MAX, Products, copy, lose, read, subtract, write};
use crate::lanes::fused::Fused;

/// Columns of a diagonal tile that are factored before products with those behind them.
const SMALL: usize = 32;

/// Rows that are multiplied from the right by the inverse of the transpose of a triangle.
struct Solve<'a, T> {
    triangle: Columns<'a, T>,
    tile: &'a mut [T],
    stride: usize,
    rows: usize,
    /// Columns, at most [`TERMS`].
    columns: usize,
}

/// Multiplies a tile from the right by the inverse of the transpose of a triangle.
#[inline(always)]
pub(super) fn solve<T: Number, L: Fused<T>, const VECTORS: usize, const COLUMNS: usize>(
    lanes: L,
    triangle: &[T],
    tile: &mut [T],
    size: usize,
    memory: &mut Vec<T>,
) {
    let rows = tile.len() / size;
    for first in (0..size).step_by(TERMS) {
        let columns = TERMS.min(size - first);
        let (before, own) = tile.split_at_mut(first * rows);
        let right = Columns { numbers: &triangle[first..], stride: size };
        let products = Products {
            left: Columns { numbers: before, stride: rows },
            right,
            tile: &mut *own,
            stride: rows,
            rows,
            columns,
            terms: first,
            is_lower: false,
        };
        lose::<T, L, VECTORS, COLUMNS>(lanes, products, memory);
        let triangle = Columns { numbers: &triangle[first * (size + 1)..], stride: size };
        let own = Solve { triangle, tile: own, stride: rows, rows, columns };
        solve_columns::<T, L, VECTORS, COLUMNS>(lanes, own, memory);
    }
}

#[inline(always)]
fn solve_columns<T: Number, L: Fused<T>, const VECTORS: usize, const COLUMNS: usize>(
    lanes: L,
    mut work: Solve<'_, T>,
    memory: &mut Vec<T>,
) {
    if work.rows == 0 {
        return;
    }
    let (columns, padded) = (work.columns, work.columns.next_multiple_of(COLUMNS));
    let mut inverses = [T::ONE; TERMS];
    for (column, inverse) in inverses[..columns].iter_mut().enumerate() {
        *inverse = T::ONE / work.triangle.numbers[column * (work.triangle.stride + 1)];
    }
    let memory = lines(memory, padded * (padded + VECTORS * L::WIDTH));
    let (right, panel) = memory.split_at_mut(padded * padded);
    pack_rows::<T, COLUMNS>((work.triangle, columns), 0..columns, padded, right);
    for (vector, vectors) in Strips::new(work.rows, L::WIDTH, VECTORS).each() {
        let row = vector * L::WIDTH;
        match vectors == VECTORS {
            true => solve_strip::<T, L, VECTORS, COLUMNS>(lanes, &mut work, row, (right, &inverses), panel),
            false => solve_strip::<T, L, 2, COLUMNS>(lanes, &mut work, row, (right, &inverses), panel),
        }
    }
}

/// Solves a strip of rows. `panel` takes the columns that are solved, as terms for those behind them.
#[inline(always)]
fn solve_strip<T: Number, L: Fused<T>, const VECTORS: usize, const COLUMNS: usize>(
    lanes: L,
    work: &mut Solve<'_, T>,
    row: usize,
    (right, inverses): (&[T], &[T; TERMS]),
    panel: &mut [T],
) {
    let (height, stride) = (VECTORS * L::WIDTH, work.stride);
    let (rows, padded) = (height.min(work.rows.saturating_sub(row)), work.columns.next_multiple_of(COLUMNS));
    for (nth, right) in right.chunks_exact(COLUMNS * padded).enumerate() {
        let column = nth * COLUMNS;
        let columns = COLUMNS.min(work.columns - column);
        let (before, solved) = panel.split_at_mut(column * height);
        let own = &mut work.tile[column * stride + row..];
        let is_whole = rows == height && columns == COLUMNS;
        let mut at_edge = [T::ZERO; BLOCK_MAX];
        let mut sums = match is_whole {
            true => read::<T, L, VECTORS, COLUMNS>(lanes, own, stride),
            false => {
                copy((own, stride), (&mut at_edge, height), (rows, columns));
                read::<T, L, VECTORS, COLUMNS>(lanes, &at_edge, height)
            }
        };
        subtract(lanes, before, &right[..column * COLUMNS], &mut sums);
        let own_terms = right[column * COLUMNS..].as_chunks::<COLUMNS>().0;
        for at in 0..COLUMNS {
            let inverse = lanes.fill(inverses[column + at]);
            let (own, behind) = sums[at..].split_first_mut().expect("a column of the block");
            for sum in own.iter_mut() {
                *sum = lanes.times(*sum, inverse);
            }
            for (later, sums) in behind.iter_mut().enumerate() {
                let by = lanes.fill(own_terms[at][at + 1 + later]);
                for (sum, own) in sums.iter_mut().zip(&*own) {
                    *sum = lanes.lose(*sum, *own, by);
                }
            }
        }
        write(lanes, &sums, solved, height);
        match is_whole {
            true => write(lanes, &sums, own, stride),
            false => copy((solved, height), (own, stride), (rows, columns)),
        }
    }
}

/// Replaces the lower half of a tile by its factor.
#[inline(always)]
pub(super) fn factor<T: Number, L: Fused<T>, const VECTORS: usize, const COLUMNS: usize>(
    lanes: L,
    tile: &mut [T],
    size: usize,
    memory: &mut Vec<T>,
) -> Result<(), usize> {
    for first in (0..size).step_by(SMALL) {
        let columns = SMALL.min(size - first);
        let (before, own) = tile.split_at_mut(first * size);
        // The rows from the diagonal on.
        let (before, own) = (before.get(first..).unwrap_or_default(), &mut own[first..]);
        let left = Columns { numbers: before, stride: size };
        let products = Products {
            left,
            right: left,
            tile: &mut *own,
            stride: size,
            rows: size - first,
            columns,
            terms: first,
            is_lower: false,
        };
        lose::<T, L, VECTORS, COLUMNS>(lanes, products, memory);
        let mut small = [T::ZERO; SMALL * SMALL];
        for column in 0..columns {
            let rows = column * size + column..column * size + columns;
            small[column * SMALL + column..][..rows.len()].copy_from_slice(&own[rows]);
        }
        factor_small(lanes, &mut small, columns).map_err(|row| first + row)?;
        for column in 0..columns {
            let rows = column * size + column..column * size + columns;
            let count = rows.len();
            own[rows].copy_from_slice(&small[column * SMALL + column..][..count]);
        }
        let below = Solve {
            triangle: Columns { numbers: &small, stride: SMALL },
            tile: own.get_mut(columns..).unwrap_or_default(),
            stride: size,
            rows: size - first - columns,
            columns,
        };
        solve_columns::<T, L, VECTORS, COLUMNS>(lanes, below, memory);
    }
    Ok(())
}

/// Factors a few columns, each of which the ones behind it lose at once. Numbers above the diagonal become undefined.
#[inline(always)]
fn factor_small<T: Number, L: Fused<T>>(
    lanes: L,
    small: &mut [T; SMALL * SMALL],
    columns: usize,
) -> Result<(), usize> {
    for column in 0..columns {
        let (before, behind) = small.split_at_mut((column + 1) * SMALL);
        let own = &mut before[column * SMALL..];
        let pivot = own[column];
        if !(pivot > T::ZERO && pivot.has_value()) {
            return Err(column);
        }
        let (root, first) = (pivot.root(), column / L::WIDTH * L::WIDTH);
        let inverse = lanes.fill(T::ONE / root);
        for place in (first..SMALL).step_by(L::WIDTH) {
            lanes.write(lanes.times(lanes.read(&own[place..]), inverse), &mut own[place..]);
        }
        own[column] = root;
        for (nth, later) in behind.chunks_exact_mut(SMALL).take(columns - column - 1).enumerate() {
            let row = column + 1 + nth;
            let by = lanes.fill(own[row]);
            for place in (row / L::WIDTH * L::WIDTH..SMALL).step_by(L::WIDTH) {
                let less = lanes.lose(lanes.read(&later[place..]), lanes.read(&own[place..]), by);
                lanes.write(less, &mut later[place..]);
            }
        }
    }
    Ok(())
}
