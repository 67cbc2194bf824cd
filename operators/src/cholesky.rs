//! The Cholesky factorisation by tiles: as a graph of tasks on the slots of a runtime, and as a chain of boxes.
//!
//! [`factorise`] runs the graph within one firing. In the chain each stage is two boxes: `cholesky_panel` factors the first column of tiles
//! that comes, and `cholesky_update` subtracts its products from the tiles behind. Tiles travel as envelopes, so the chain shows
//! what envelopes and firings cost against the graph (`cholesky_graph`). `covariance_tiles` makes the matrix, `cholesky_check` compares the
//! product of the factor with it.

mod tiles;
mod covariance_tiles;
mod cholesky_panel;
mod cholesky_update;
mod cholesky_graph;
mod cholesky_check;
#[cfg(test)]
mod tests;

use boxwork_kernels::cholesky::{
    Factorisation, NotPositiveDefinite, Number, Tasks, TileKernels, TiledMatrix,
};
use boxwork_runtime::inside::{GraphError, Inside, TaskGraph};
use boxwork_runtime::operator::{OperatorSpec, Work};

pub use tiles::default_entries;

/// The operators of this folder, in the order in which data meets them.
pub(crate) static LIST: &[&OperatorSpec] = &[
    &covariance_tiles::COVARIANCE_TILES,
    &cholesky_panel::CHOLESKY_PANEL,
    &cholesky_update::CHOLESKY_UPDATE,
    &cholesky_graph::CHOLESKY_GRAPH,
    &cholesky_check::CHOLESKY_CHECK,
];

/// The tasks of a factorisation, for the runtime, and the counts of their operations.
struct Graph<'f, F: ?Sized>(&'f F, Option<Work<'f>>);

impl<F: Tasks + ?Sized> TaskGraph for Graph<'_, F> {
    type Error = NotPositiveDefinite;

    fn tasks(&self) -> usize {
        self.0.steps().count()
    }

    fn predecessors(&self, task: usize) -> u32 {
        self.0.steps().predecessors(task)
    }

    fn successors(&self, task: usize, each: impl FnMut(usize)) {
        self.0.steps().successors(task, each);
    }

    fn priority(&self, task: usize) -> u32 {
        self.0.steps().priority(task)
    }

    fn run(&self, task: usize, _: &mut Inside<'_>) -> Result<(), NotPositiveDefinite> {
        self.0.run(task)?;
        if let Some(work) = &self.1 {
            work.add(self.0.steps().work(task));
        }
        Ok(())
    }
}

/// Replaces a symmetric positive definite matrix by its Cholesky factor, on the slots that are free. The factor has the same
/// bits on any number of slots.
///
/// # Errors
/// When the matrix is not positive definite, with the first row whose pivot is not positive; when the request is cancelled. The
/// matrix is neither itself nor its factor then.
pub fn factorise<T: Number, K: TileKernels<T>>(
    inside: &mut Inside<'_>,
    matrix: &mut TiledMatrix<T>,
    kernels: K,
) -> Result<(), GraphError<NotPositiveDefinite>> {
    run(inside, &Factorisation::new(matrix, kernels), None)
}

/// Runs the tasks of a factorisation, on the slots that are free. `work` counts their operations.
///
/// # Errors
/// As [`factorise`].
pub fn run<F: Tasks + ?Sized>(
    inside: &mut Inside<'_>,
    tasks: &F,
    work: Option<Work<'_>>,
) -> Result<(), GraphError<NotPositiveDefinite>> {
    if let Some(work) = &work {
        work.expect(tasks.steps().work_of_all());
    }
    let result = inside.graph(&Graph(tasks, work));
    if let (Err(_), Some(work)) = (&result, work) {
        work.finish();
    }
    result
}
