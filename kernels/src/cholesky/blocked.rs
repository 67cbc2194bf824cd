//! Operations on tiles in blocks that stay in registers, for the vector instructions of each code path.
//!
//! A panel of rows of the left tile is packed row block by row block, all of the right tile in panels of columns, and each block of the
//! product is summed in registers (Goto and van de Geijn 2008, ACM TOMS 34). Invariant: each number loses its products in the order of
//! the columns, one fused operation each in AVX2 and AVX-512. So the factor has equal bits on any number of threads and on all
//! machines with these instructions; others round twice.

use super::number::Number;
use super::tile_kernels::{Plain, TileKernels};
use crate::CodePath;
use crate::lanes::fused::Fused;
use crate::lanes::{Lanes, Work, run};

/// Numbers of a block: two vectors of at most 16 numbers, in at most 8 columns.
const BLOCK_MAX: usize = 256;

/// The fastest operations of our own.
#[derive(Clone, Copy, Debug, Default)]
pub struct Blocked;

/// Subtracts a product from a tile, or from its lower half.
struct Products<'a, T> {
    left: &'a [T],
    right: &'a [T],
    tile: &'a mut [T],
    size: usize,
    is_lower: bool,
}

/// Multiplies a tile from the right by the inverse of the transpose of a triangle.
struct Solve<'a, T> {
    triangle: &'a [T],
    tile: &'a mut [T],
    size: usize,
}

/// c -= a b for a block c of two vectors in `COLUMNS` columns: `a` has two vectors for each term, `b` a number for each column.
#[inline(always)]
fn block<T: Number, L: Fused<T>, const COLUMNS: usize>(
    lanes: L,
    a: &[T],
    b: &[T],
    c: &mut [T],
    stride: usize,
) {
    let zero = lanes.fill(T::ZERO);
    let (mut low, mut high) = ([zero; COLUMNS], [zero; COLUMNS]);
    for j in 0..COLUMNS {
        low[j] = lanes.read(&c[j * stride..]);
        high[j] = lanes.read(&c[j * stride + L::WIDTH..]);
    }
    for (a, b) in a.chunks_exact(2 * L::WIDTH).zip(b.as_chunks::<COLUMNS>().0) {
        let (upper, lower) = (lanes.read(a), lanes.read(&a[L::WIDTH..]));
        for j in 0..COLUMNS {
            let by = lanes.fill(b[j]);
            low[j] = lanes.lose(low[j], upper, by);
            high[j] = lanes.lose(high[j], lower, by);
        }
    }
    for j in 0..COLUMNS {
        lanes.write(low[j], &mut c[j * stride..]);
        lanes.write(high[j], &mut c[j * stride + L::WIDTH..]);
    }
}

/// The rows of a tile in panels of `COLUMNS` rows, a term after the other; the last panel is filled up with zeros.
#[inline(always)]
fn in_panels<T: Number, const COLUMNS: usize>(tile: &[T], size: usize) -> Vec<T> {
    let mut packed = Vec::with_capacity(size.next_multiple_of(COLUMNS) * size);
    for first in (0..size).step_by(COLUMNS) {
        for term in tile.chunks_exact(size) {
            let term = &term[first..];
            // Arrays of a known length are copied without a call.
            packed.extend_from_slice(&match term.first_chunk::<COLUMNS>() {
                Some(whole) => *whole,
                None => filled_up(term),
            });
        }
    }
    packed
}

/// Numbers, and zeros behind them.
#[inline(always)]
fn filled_up<T: Number, const COUNT: usize>(numbers: &[T]) -> [T; COUNT] {
    let mut filled = [T::ZERO; COUNT];
    for (to, number) in filled.iter_mut().zip(numbers) {
        *to = *number;
    }
    filled
}

/// Copies two vectors, or fewer numbers of them.
#[inline(always)]
fn copy<T: Number, L: Fused<T>>(lanes: L, from: &[T], to: &mut [T], count: usize) {
    if count == 2 * L::WIDTH {
        lanes.write(lanes.read(from), to);
        lanes.write(lanes.read(&from[L::WIDTH..]), &mut to[L::WIDTH..]);
        return;
    }
    for (to, number) in to[..count].iter_mut().zip(from) {
        *to = *number;
    }
}

#[inline(always)]
fn products<T: Number, L: Fused<T>, const COLUMNS: usize>(lanes: L, work: Products<'_, T>) {
    let Products { left, right, tile, size, is_lower } = work;
    let (rows, height) = (tile.len() / size, 2 * L::WIDTH);
    let right = in_panels::<T, COLUMNS>(right, size);
    let mut panel = vec![T::ZERO; height * size];
    for first in (0..rows).step_by(height) {
        let count = height.min(rows - first);
        // Terms of zeros at the start change nothing: a triangle on the left has them.
        let is_zero = |term: &&[T]| term[first..first + count].iter().all(|x| *x == T::ZERO);
        let zeros = left.chunks_exact(rows).take_while(is_zero).count();
        for (term, to) in left.chunks_exact(rows).zip(panel.chunks_exact_mut(height)).skip(zeros) {
            copy(lanes, &term[first..], to, count);
        }
        let panel = &panel[zeros * height..];
        for (nth, right) in right.chunks_exact(COLUMNS * size).enumerate() {
            let column = nth * COLUMNS;
            if is_lower && column >= first + count {
                break;
            }
            let (columns, right) = (COLUMNS.min(size - column), &right[zeros * COLUMNS..]);
            if count == height && columns == COLUMNS {
                block::<T, L, COLUMNS>(lanes, panel, right, &mut tile[column * rows + first..], rows);
                continue;
            }
            let mut at_edge = [T::ZERO; BLOCK_MAX];
            for at in 0..columns {
                let place = (column + at) * rows + first;
                at_edge[at * height..][..count].copy_from_slice(&tile[place..place + count]);
            }
            block::<T, L, COLUMNS>(lanes, panel, right, &mut at_edge, height);
            for at in 0..columns {
                let place = (column + at) * rows + first;
                tile[place..place + count].copy_from_slice(&at_edge[at * height..][..count]);
            }
        }
    }
}

#[inline(always)]
fn solve<T: Number, L: Fused<T>, const COLUMNS: usize>(lanes: L, work: Solve<'_, T>) {
    let Solve { triangle, tile, size } = work;
    let (rows, height) = (tile.len() / size, 2 * L::WIDTH);
    let right = in_panels::<T, COLUMNS>(triangle, size);
    // The columns that are solved, as terms for those behind them.
    let mut panel = vec![T::ZERO; height * size.next_multiple_of(COLUMNS)];
    for first in (0..rows).step_by(height) {
        let count = height.min(rows - first);
        for (nth, right) in right.chunks_exact(COLUMNS * size).enumerate() {
            let column = nth * COLUMNS;
            let columns = COLUMNS.min(size - column);
            let (panel, solved) = panel.split_at_mut(column * height);
            let solved = &mut solved[..COLUMNS * height];
            for at in 0..columns {
                copy(lanes, &tile[(column + at) * rows + first..], &mut solved[at * height..], count);
            }
            block::<T, L, COLUMNS>(lanes, panel, &right[..column * COLUMNS], solved, height);
            for at in 0..columns {
                let (before, own) = solved.split_at_mut(at * height);
                let (mut low, mut high) = (lanes.read(own), lanes.read(&own[L::WIDTH..]));
                for (term, before) in before.chunks_exact(height).enumerate() {
                    let by = lanes.fill(right[(column + term) * COLUMNS + at]);
                    low = lanes.lose(low, lanes.read(before), by);
                    high = lanes.lose(high, lanes.read(&before[L::WIDTH..]), by);
                }
                let inverse = lanes.fill(T::ONE / triangle[(column + at) * (size + 1)]);
                lanes.write(lanes.times(low, inverse), own);
                lanes.write(lanes.times(high, inverse), &mut own[L::WIDTH..]);
            }
            for at in 0..columns {
                copy(lanes, &solved[at * height..], &mut tile[(column + at) * rows + first..], count);
            }
        }
    }
}

macro_rules! of_number {
    ($number:ty) => {
        impl Work for Products<'_, $number> {
            type Done = ();

            #[inline(always)]
            fn run<L: Lanes>(self, lanes: L) {
                match <L as Fused<$number>>::MANY {
                    true => products::<$number, L, 8>(lanes, self),
                    false => products::<$number, L, 4>(lanes, self),
                }
            }
        }

        impl Work for Solve<'_, $number> {
            type Done = ();

            #[inline(always)]
            fn run<L: Lanes>(self, lanes: L) {
                match <L as Fused<$number>>::MANY {
                    true => solve::<$number, L, 8>(lanes, self),
                    false => solve::<$number, L, 4>(lanes, self),
                }
            }
        }

        impl TileKernels<$number> for Blocked {
            fn factor(&self, tile: &mut [$number], size: usize) -> Result<(), usize> {
                // One tile of each column: its share of the work is too small for blocks.
                Plain.factor(tile, size)
            }

            fn solve(&self, triangle: &[$number], tile: &mut [$number], size: usize) {
                run(CodePath::detect(), Solve { triangle, tile, size });
            }

            fn square(&self, factor: &[$number], tile: &mut [$number], size: usize) {
                let work = Products { left: factor, right: factor, tile, size, is_lower: true };
                run(CodePath::detect(), work);
            }

            fn product(&self, left: &[$number], right: &[$number], tile: &mut [$number], size: usize) {
                run(CodePath::detect(), Products { left, right, tile, size, is_lower: false });
            }
        }
    };
}
of_number!(f64);
of_number!(f32);
