//! The slots of a runtime as the threads of a fit.

use boxwork_kernels::cholesky::Tasks;
use boxwork_kernels::gaussian_process::{Stopped, Threads};
use boxwork_runtime::inside::{GraphError, Inside};

use crate::cholesky::run;

/// The slots that are free, for the closures of one firing.
pub(super) struct OnSlots<'s, 'i>(pub(super) &'s mut Inside<'i>);

impl Threads for OnSlots<'_, '_> {
    fn factorise(&mut self, work: &dyn Tasks) -> Result<(), Stopped> {
        run(self.0, work).map_err(|error| match error {
            GraphError::Task(fault) => Stopped::NotPositiveDefinite { row: fault.row },
            GraphError::Cancelled => Stopped::Interrupted,
            other => panic!("the graph of a factorisation has no cycle: {other}"),
        })
    }

    fn pieces(&mut self, count: usize, f: &(dyn Fn(usize) + Sync)) -> bool {
        let cancelled = self.0.cancelled();
        self.0.for_each_chunk(count, 1, |range| range.filter(|_| !cancelled()).for_each(f));
        !cancelled()
    }
}
