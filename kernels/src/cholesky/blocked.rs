//! Operations on tiles in blocks that stay in registers, for the vector instructions of each code path.
//!
//! Some columns of the left and of the right tile are packed in panels, and each block of the product is summed in registers (Goto and
//! van de Geijn 2008, ACM TOMS 34). A triangle is solved, and a tile factored, by the same products and small triangles. Invariant: each
//! number loses its products in the order of the columns, one fused operation each in AVX2 and AVX-512, and is then multiplied by the
//! inverse of the pivot. So the factor has equal bits on any number of threads and on all machines with these instructions; others
//! round twice.

mod panels;
mod products;
mod triangles;

use std::cell::Cell;

use self::panels::Columns;
use self::products::{Products, lose};
use self::triangles::{factor, solve};
use super::number::Number;
use super::tile_kernels::TileKernels;
use crate::CodePath;
use crate::lanes::fused::Fused;
use crate::lanes::{Lanes, Work, run};

/// The fastest operations of our own.
#[derive(Clone, Copy, Debug, Default)]
pub struct Blocked;

/// An operation, with the memory of its thread for packed panels.
struct Job<'a, T> {
    operation: Operation<'a, T>,
    memory: &'a mut Vec<T>,
}

enum Operation<'a, T> {
    Factor { tile: &'a mut [T], size: usize },
    Solve { triangle: &'a [T], tile: &'a mut [T], size: usize },
    Lose(Products<'a, T>),
}

/// Blocks of `VECTORS` vectors by `COLUMNS` columns.
#[inline(always)]
fn done<T: Number, L: Fused<T>, const VECTORS: usize, const COLUMNS: usize>(
    lanes: L,
    Job { operation, memory }: Job<'_, T>,
) -> Result<(), usize> {
    match operation {
        Operation::Factor { tile, size } => {
            return factor::<T, L, VECTORS, COLUMNS>(lanes, tile, size, memory);
        }
        Operation::Solve { triangle, tile, size } => {
            solve::<T, L, VECTORS, COLUMNS>(lanes, triangle, tile, size, memory);
        }
        Operation::Lose(products) => lose::<T, L, VECTORS, COLUMNS>(lanes, products, memory),
    }
    Ok(())
}

/// A product of whole tiles, or its lower half.
fn products<'a, T>(
    left: &'a [T],
    right: &'a [T],
    tile: &'a mut [T],
    size: usize,
    is_lower: bool,
) -> Operation<'a, T> {
    let rows = tile.len() / size;
    let (left, right) = (Columns { numbers: left, stride: rows }, Columns { numbers: right, stride: size });
    Operation::Lose(Products { left, right, tile, stride: rows, rows, columns: size, terms: size, is_lower })
}

macro_rules! of_number {
    ($number:ty) => {
        impl Work for Job<'_, $number> {
            type Done = Result<(), usize>;

            #[inline(always)]
            fn run<L: Lanes>(self, lanes: L) -> Result<(), usize> {
                match <L as Fused<$number>>::MANY {
                    // 24 sums, 3 operands of the left and one of the right are within 32 registers.
                    true => done::<$number, L, 3, 8>(lanes, self),
                    false => done::<$number, L, 3, 4>(lanes, self),
                }
            }
        }

        impl Operation<'_, $number> {
            fn run(self) -> Result<(), usize> {
                thread_local! {
                    // Some hundred kilobytes, which every operation of a thread uses again.
                    static MEMORY: Cell<Vec<$number>> = const { Cell::new(Vec::new()) };
                }
                let mut memory = MEMORY.take();
                let done = run(CodePath::detect(), Job { operation: self, memory: &mut memory });
                MEMORY.set(memory);
                done
            }
        }

        impl TileKernels<$number> for Blocked {
            fn factor(&self, tile: &mut [$number], size: usize) -> Result<(), usize> {
                Operation::Factor::<$number> { tile, size }.run()
            }

            fn solve(&self, triangle: &[$number], tile: &mut [$number], size: usize) {
                let solved = Operation::Solve { triangle, tile, size }.run();
                debug_assert!(solved.is_ok(), "only a factor can fail");
            }

            fn square(&self, factor: &[$number], tile: &mut [$number], size: usize) {
                let done = products(factor, factor, tile, size, true).run();
                debug_assert!(done.is_ok(), "only a factor can fail");
            }

            fn product(&self, left: &[$number], right: &[$number], tile: &mut [$number], size: usize) {
                let done = products(left, right, tile, size, false).run();
                debug_assert!(done.is_ok(), "only a factor can fail");
            }
        }
    };
}
of_number!(f64);
of_number!(f32);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::Random;

    /// A factor, a solved tile and a product by the instructions of a path.
    fn done_by(path: CodePath, size: usize, rows: usize) -> [Vec<f64>; 3] {
        let mut chance = Random::mixed(size as u64);
        let mut numbers = |count: usize| -> Vec<f64> { (0..count).map(|_| chance.unit() - 0.5).collect() };
        let (mut factor, mut solved, right) =
            (numbers(size * size), numbers(size * rows), numbers(size * size));
        (0..size).for_each(|row| factor[row * (size + 1)] = size as f64);
        let (left, mut less) = (solved.clone(), solved.clone());
        let run = |operation: Operation<'_, f64>| run(path, Job { operation, memory: &mut Vec::new() });
        assert_eq!(run(Operation::Factor { tile: &mut factor, size }), Ok(()));
        assert_eq!(run(Operation::Solve { triangle: &factor, tile: &mut solved, size }), Ok(()));
        assert_eq!(run(products(&left, &right, &mut less, size, false)), Ok(()));
        // The upper half is undefined.
        (0..size).for_each(|column| factor[column * size..][..column].fill(0.0));
        [factor, solved, less]
    }

    #[test]
    fn vectors_of_any_width_give_the_same_bits() {
        for (size, rows) in [(1, 1), (33, 7), (128, 200), (150, 24), (160, 131)] {
            let portable = done_by(CodePath::Portable, size, rows);
            let mut fused: Option<[Vec<f64>; 3]> = None;
            for path in CodePath::available().into_iter().filter(|path| *path != CodePath::Portable) {
                let found = done_by(path, size, rows);
                let pairs = || found.iter().flatten().zip(portable.iter().flatten());
                assert!(pairs().all(|(a, b)| (a - b).abs() < 1e-11), "{path}, {size} columns, {rows} rows");
                let first = fused.get_or_insert_with(|| found.clone());
                assert!(first == &found, "{path}, {size} columns, {rows} rows: other bits");
            }
        }
    }
}
