//! The Cholesky factor of a symmetric positive definite matrix by tiles: L with L L^T = A, for a graph of tasks.
//!
//! A [`TiledMatrix`] holds the lower half in square tiles. A [`Factorisation`] numbers its tasks, says which task follows which, and
//! runs one; the caller runs them in any order that the dependences allow, on any threads. [`reference::factor`] is the plain f64
//! algorithm; [`mod@device`] is for OpenCL. Invariants:
//! - each tile is changed by one task after another, in the order of the columns that they subtract, so the factor has the same
//!   bits in any order of the tasks;
//! - a task takes the locks of its tiles without waiting: two tasks that want one tile at once, and one of them to write, break the
//!   order of the graph, which is a panic and not a wrong number.

mod steps;
mod number;
mod packed;
mod tiles;
mod tile_kernels;
mod blocked;
#[cfg(feature = "faer")]
mod by_faer;
pub mod reference;
pub mod device;

pub use self::blocked::Blocked;
#[cfg(feature = "faer")]
pub use self::by_faer::Faer;
pub use self::number::Number;
pub use self::packed::{Packed, Tile};
pub use self::steps::{Step, Steps};
pub use self::tile_kernels::{Plain, TileKernels};
pub use self::tiles::TiledMatrix;

/// The fastest operations of this build: those of the library with the feature `faer`, else [`Blocked`].
#[cfg(feature = "faer")]
pub type Usual = Faer;
/// The fastest operations of this build: those of the library with the feature `faer`, else [`Blocked`].
#[cfg(not(feature = "faer"))]
pub type Usual = Blocked;

/// The matrix has no Cholesky factor: the pivot of a row, what is left of its diagonal entry, is not above 0, or not finite.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "row {row} of the matrix (the first is 0): its pivot is not a positive number, so the matrix is not positive definite; \
     if it should be, rounding is the cause, and a small number added to the diagonal helps"
)]
pub struct NotPositiveDefinite {
    /// The row, counted from 0.
    pub row: usize,
}

/// Tasks that turn a matrix into its factor, whatever its numbers are.
pub trait Tasks: Sync {
    /// The numbering of the tasks and their order.
    fn steps(&self) -> &Steps;

    /// Runs a task. Its predecessors must have ended.
    ///
    /// # Errors
    /// When a pivot is not positive. The matrix is neither itself nor its factor then.
    ///
    /// # Panics
    /// When another task writes a tile that this one uses, or the reverse.
    fn run(&self, task: usize) -> Result<(), NotPositiveDefinite>;

    /// Runs all tasks in the order of their numbers, which the dependences allow.
    ///
    /// # Errors
    /// As [`Tasks::run`].
    fn run_all(&self) -> Result<(), NotPositiveDefinite> {
        (0..self.steps().count()).try_for_each(|task| self.run(task))
    }
}

/// The tasks that turn a matrix into its factor (docs/decisions/115; LAPACK working note 190).
pub struct Factorisation<'m, K, T = f64> {
    matrix: &'m TiledMatrix<T>,
    kernels: K,
    steps: Steps,
    fill: Option<&'m Fill<'m, T>>,
}

/// Writes tile (i, j): the first two numbers, and its entries by columns, which are 0 before.
pub type Fill<'f, T = f64> = dyn Fn(usize, usize, &mut [T]) + Sync + 'f;

impl<'m, T: Number, K: TileKernels<T>> Factorisation<'m, K, T> {
    /// The tasks of a matrix, which they change in place.
    pub fn new(matrix: &'m TiledMatrix<T>, kernels: K) -> Self {
        Self { matrix, kernels, steps: Steps::new(matrix.tile_rows()), fill: None }
    }

    /// The tasks of a matrix that the first task of each tile fills: no barrier lies between filling and factorising. `fill` writes the
    /// rows of the matrix; rows of the identity follow by themselves.
    pub fn filled(matrix: &'m TiledMatrix<T>, kernels: K, fill: &'m Fill<'m, T>) -> Self {
        Self { fill: Some(fill), ..Self::new(matrix, kernels) }
    }

    /// Fills tile (i, j) if this is its first task.
    fn fill(&self, i: usize, j: usize, k: usize, tile: &mut [T]) {
        let Some(fill) = self.fill.filter(|_| k == 0) else { return };
        fill(i, j, tile);
        let size = self.matrix.tile_size();
        if i == j {
            (self.matrix.rows().saturating_sub(i * size)..size)
                .for_each(|row| tile[row * size + row] = T::ONE);
        }
    }
}

impl<T: Number, K: TileKernels<T>> Tasks for Factorisation<'_, K, T> {
    fn steps(&self) -> &Steps {
        &self.steps
    }

    fn run(&self, task: usize) -> Result<(), NotPositiveDefinite> {
        let (matrix, size) = (self.matrix, self.matrix.tile_size());
        match self.steps.step(task) {
            Step::Factor { k } => {
                let mut tile = matrix.write(k, k);
                self.fill(k, k, k, &mut tile);
                let pivot = self.kernels.factor(&mut tile, size);
                return pivot.map_err(|pivot| NotPositiveDefinite { row: k * size + pivot });
            }
            Step::Solve { i, k } => {
                let mut tile = matrix.write(i, k);
                self.fill(i, k, k, &mut tile);
                self.kernels.solve(&matrix.read(k, k), &mut tile, size);
            }
            Step::Square { i, k } => {
                let mut tile = matrix.write(i, i);
                self.fill(i, i, k, &mut tile);
                self.kernels.square(&matrix.read(i, k), &mut tile, size);
            }
            Step::Product { i, j, k } => {
                let (left, right) = (matrix.read(i, k), matrix.read(j, k));
                let mut tile = matrix.write(i, j);
                self.fill(i, j, k, &mut tile);
                self.kernels.product(&left, &right, &mut tile, size);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
