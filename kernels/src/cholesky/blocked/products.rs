//! Products of packed panels, summed in registers.

use super::super::number::Number;
use super::panels::{Columns, Strips, TERMS, lines, pack_rows, pack_strips};
use crate::lanes::fused::Fused;
use crate::lanes::prefetch_near;

/// Numbers of a block: at most three vectors of 16 numbers, in at most 8 columns.
pub(super) const BLOCK_MAX: usize = 384;

/// Sums of a block: vectors in columns.
pub(super) type Sums<W, const VECTORS: usize, const COLUMNS: usize> = [[W; VECTORS]; COLUMNS];

/// Subtracts from `rows` rows of `columns` columns the product of the left rows with the transpose of the right ones.
pub(super) struct Products<'a, T> {
    pub(super) left: Columns<'a, T>,
    pub(super) right: Columns<'a, T>,
    pub(super) tile: &'a mut [T],
    /// The numbers between two columns of the tile.
    pub(super) stride: usize,
    pub(super) rows: usize,
    pub(super) columns: usize,
    pub(super) terms: usize,
    /// Whether blocks above the diagonal stay as they are.
    pub(super) is_lower: bool,
}

#[inline(always)]
pub(super) fn read<T: Number, L: Fused<T>, const VECTORS: usize, const COLUMNS: usize>(
    lanes: L,
    from: &[T],
    stride: usize,
) -> Sums<L::W, VECTORS, COLUMNS> {
    let mut sums = [[lanes.fill(T::ZERO); VECTORS]; COLUMNS];
    for (column, sums) in sums.iter_mut().enumerate() {
        for (vector, sum) in sums.iter_mut().enumerate() {
            *sum = lanes.read(&from[column * stride + vector * L::WIDTH..]);
        }
    }
    sums
}

#[inline(always)]
pub(super) fn write<T: Number, L: Fused<T>, const VECTORS: usize, const COLUMNS: usize>(
    lanes: L,
    sums: &Sums<L::W, VECTORS, COLUMNS>,
    to: &mut [T],
    stride: usize,
) {
    for (column, sums) in sums.iter().enumerate() {
        for (vector, sum) in sums.iter().enumerate() {
            lanes.write(*sum, &mut to[column * stride + vector * L::WIDTH..]);
        }
    }
}

/// Subtracts the products of a panel of the left and one of the right, term after term.
#[inline(always)]
pub(super) fn subtract<T: Number, L: Fused<T>, const VECTORS: usize, const COLUMNS: usize>(
    lanes: L,
    left: &[T],
    right: &[T],
    sums: &mut Sums<L::W, VECTORS, COLUMNS>,
) {
    let mut own = *sums;
    for (a, b) in left.chunks_exact(VECTORS * L::WIDTH).zip(right.as_chunks::<COLUMNS>().0) {
        let mut vectors = [lanes.fill(T::ZERO); VECTORS];
        for (vector, to) in vectors.iter_mut().enumerate() {
            *to = lanes.read(&a[vector * L::WIDTH..]);
        }
        for column in 0..COLUMNS {
            let by = lanes.fill(b[column]);
            for vector in 0..VECTORS {
                own[column][vector] = lanes.lose(own[column][vector], vectors[vector], by);
            }
        }
    }
    *sums = own;
}

/// Copies the rows of some columns of a block that is not whole, out of the tile or back.
#[inline(always)]
pub(super) fn copy<T: Number>(
    (from, stride): (&[T], usize),
    (to, other): (&mut [T], usize),
    (rows, columns): (usize, usize),
) {
    for column in 0..columns {
        to[column * other..][..rows].copy_from_slice(&from[column * stride..][..rows]);
    }
}

#[inline(always)]
pub(super) fn lose<T: Number, L: Fused<T>, const VECTORS: usize, const COLUMNS: usize>(
    lanes: L,
    mut work: Products<'_, T>,
    memory: &mut Vec<T>,
) {
    if work.rows == 0 {
        return;
    }
    let strips = Strips::new(work.rows, L::WIDTH, VECTORS);
    let (height, wide) = (strips.vectors() * L::WIDTH, work.columns.next_multiple_of(COLUMNS));
    let (left, right) = lines(memory, (height + wide) * TERMS).split_at_mut(height * TERMS);
    for first in (0..work.terms).step_by(TERMS) {
        let terms = first..(first + TERMS).min(work.terms);
        let count = terms.len();
        pack_strips(lanes, (work.left, work.rows), terms.clone(), strips, left);
        pack_rows::<T, COLUMNS>((work.right, work.columns), terms, count, right);
        for (vector, vectors) in strips.each() {
            let row = vector * L::WIDTH;
            let panel = &left[row * count..][..vectors * L::WIDTH * count];
            match vectors == VECTORS {
                true => strip::<T, L, VECTORS, COLUMNS>(lanes, &mut work, row, panel, right),
                false => strip::<T, L, 2, COLUMNS>(lanes, &mut work, row, panel, right),
            }
        }
    }
}

/// Subtracts the products of a strip of rows, of which `panel` has the left side.
#[inline(always)]
fn strip<T: Number, L: Fused<T>, const VECTORS: usize, const COLUMNS: usize>(
    lanes: L,
    work: &mut Products<'_, T>,
    row: usize,
    panel: &[T],
    right: &[T],
) {
    let (height, stride) = (VECTORS * L::WIDTH, work.stride);
    let (count, rows) = (panel.len() / height, height.min(work.rows.saturating_sub(row)));
    // Terms of zeros at the start change nothing: a triangle on the left has them.
    let is_zero = |term: &&[T]| term.iter().all(|x| *x == T::ZERO);
    let zeros = panel.chunks_exact(height).take_while(is_zero).count();
    let panel = &panel[zeros * height..];
    for (nth, right) in right.chunks_exact(COLUMNS * count).take(work.columns.div_ceil(COLUMNS)).enumerate() {
        let column = nth * COLUMNS;
        if work.is_lower && column >= row + rows {
            break;
        }
        let (columns, right) = (COLUMNS.min(work.columns - column), &right[zeros * COLUMNS..]);
        let own = &mut work.tile[column * stride + row..];
        if rows == height && columns == COLUMNS {
            for next in COLUMNS..2 * COLUMNS {
                prefetch_near(own.get(next * stride..).and_then(|own| own.get(..height)).unwrap_or_default());
            }
            let mut sums = read::<T, L, VECTORS, COLUMNS>(lanes, own, stride);
            subtract(lanes, panel, right, &mut sums);
            write(lanes, &sums, own, stride);
            continue;
        }
        let mut at_edge = [T::ZERO; BLOCK_MAX];
        copy((own, stride), (&mut at_edge, height), (rows, columns));
        let mut sums = read::<T, L, VECTORS, COLUMNS>(lanes, &at_edge, height);
        subtract(lanes, panel, right, &mut sums);
        write(lanes, &sums, &mut at_edge, height);
        copy((&at_edge, height), (own, stride), (rows, columns));
    }
}
