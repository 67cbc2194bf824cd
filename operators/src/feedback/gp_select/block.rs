//! Candidates that one slot updates together.
//!
//! Invariant: the numbers of an object do not depend on the objects beside it.

use std::sync::{Mutex, PoisonError};

use boxwork_kernels::gaussian_process::Posterior;
use boxwork_kernels::interrupt::Interrupt;
use boxwork_runtime::operator::{BoxError, Context};
use boxwork_stores::space::SpaceError;

use crate::feedback::distances::{Origin, bring_in, exact};
use crate::feedback::marks::Fitted;
use crate::resources::gp_kernel::GpKernel;

/// Objects of a block: a usual shortlist has a block for each of eight slots, and their covariances with some hundred marks
/// stay in the caches of a core.
const OBJECTS: usize = 32;

/// Some candidates, their covariances with the marks, and their means and variances.
#[derive(Debug)]
pub(in crate::feedback) struct Block {
    /// Ascending.
    pub(in crate::feedback) ids: Vec<u64>,
    /// By mark.
    pub(in crate::feedback) covariances: Vec<Vec<f64>>,
    pub(in crate::feedback) posterior: Posterior,
    /// Given the marks.
    pub(in crate::feedback) deviations: Vec<f64>,
    taken: Vec<bool>,
}

impl Block {
    /// The blocks of candidates; slots make them side by side.
    pub(in crate::feedback) fn all(
        cx: &mut Context<'_>,
        kernel: &GpKernel,
        model: &Fitted,
        origins: &[Origin],
        ids: &[u64],
    ) -> Result<Vec<Self>, BoxError> {
        bring_in(cx, kernel, ids)?;
        let mut blocks: Vec<Self> = ids.chunks(OBJECTS).map(Self::new).collect();
        each(cx, &mut blocks, |block, interrupt| block.fit(kernel, model, origins, interrupt))?;
        Ok(blocks)
    }

    fn new(ids: &[u64]) -> Self {
        let mut ids = ids.to_vec();
        ids.sort_unstable();
        let count = ids.len();
        Self {
            ids,
            covariances: Vec::new(),
            posterior: Posterior::new(count),
            deviations: Vec::new(),
            taken: vec![false; count],
        }
    }

    /// Computes the means and variances given the marks.
    fn fit(
        &mut self,
        kernel: &GpKernel,
        model: &Fitted,
        origins: &[Origin],
        interrupt: Interrupt<'_>,
    ) -> Result<(), SpaceError> {
        for (mark, origin) in origins.iter().enumerate() {
            let covariances = self.with(kernel, origin, interrupt)?;
            self.posterior.push(model.factor_row(mark), &covariances);
            self.covariances.push(covariances);
        }
        self.posterior.set_means(&model.weights, |mark| &self.covariances[mark]);
        self.deviations = (0..self.ids.len()).map(|place| self.posterior.variance(place).sqrt()).collect();
        Ok(())
    }

    /// The covariances of all objects with another one.
    fn with(
        &self,
        kernel: &GpKernel,
        origin: &Origin,
        interrupt: Interrupt<'_>,
    ) -> Result<Vec<f64>, SpaceError> {
        let mut values = vec![0.0; self.ids.len()];
        exact(kernel, origin, &self.ids, &mut values, interrupt)?;
        values.iter_mut().for_each(|value| *value = kernel.covariance.of(*value));
        Ok(values)
    }

    /// Forgets what was taken and hallucinated.
    pub(in crate::feedback) fn reset(&mut self) {
        self.posterior.truncate(self.covariances.len());
        self.taken.fill(false);
    }

    /// Takes an object out of the choice.
    pub(in crate::feedback) fn take(&mut self, place: usize) {
        self.taken[place] = true;
    }

    /// The object of the largest bound, of equal ones the first.
    pub(in crate::feedback) fn best(&self, explore: f64) -> Option<usize> {
        self.posterior.pick(explore, |place| !self.taken[place])
    }
}

/// Takes an object into the variances of all blocks, by its row of the factor.
pub(in crate::feedback) fn push_all(
    cx: &mut Context<'_>,
    kernel: &GpKernel,
    blocks: &mut [Block],
    origin: &Origin,
    row: &[f64],
) -> Result<(), BoxError> {
    each(cx, blocks, |block, interrupt| {
        let covariances = block.with(kernel, origin, interrupt)?;
        block.posterior.push(row, &covariances);
        Ok(())
    })
}

/// Runs a function for each block; slots take blocks side by side.
fn each(
    cx: &mut Context<'_>,
    blocks: &mut [Block],
    f: impl Fn(&mut Block, Interrupt<'_>) -> Result<(), SpaceError> + Sync,
) -> Result<(), BoxError> {
    let failed = Mutex::new(None);
    cx.inside(|inside| {
        let cancelled = inside.cancelled();
        inside.for_each_chunk_of(blocks, 1, |_, blocks| {
            for block in blocks {
                if let Err(error) = f(block, &cancelled) {
                    failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                }
            }
        });
    });
    match failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(error) => Err(error.into()),
        None => Ok(()),
    }
}
