//! Bounds of all objects: how `gp_scan` sees the store.
//!
//! A bound U is the mean plus `explore` times a deviation that is at least the true one: the variance given one mark is at
//! least the variance given all, so the mark of the largest covariance bounds it. Thus U is at least the upper confidence
//! bound u, whatever is hallucinated.
//!
//! A [`Pass`] computes U fast, within an error that it declares. Exact mode is one; a sketch is another.

mod columns;

use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

use boxwork_kernels::interrupt::Interrupt;
use boxwork_runtime::operator::{BoxError, Context};

pub(crate) use columns::ColumnPass;

use super::marks::Fitted;
use crate::resources::gp_kernel::GpKernel;

/// Bounds of the objects of a store under a model.
pub(crate) trait Pass: Debug + Send + Sync {
    /// Prepares, some of it at each call; returns true once [`Pass::bounds`] may be called.
    fn step(&mut self, cx: &mut Context<'_>) -> Result<bool, BoxError>;

    /// The means of consecutive ids and their bounds U. Numbers of removed objects have no meaning.
    fn bounds(
        &self,
        ids: Range<u64>,
        means: &mut [f64],
        uppers: &mut [f64],
        interrupt: Interrupt<'_>,
    ) -> Result<(), BoxError>;

    /// No U of [`Pass::bounds`] is farther from its value in exact arithmetic, nor below u by more.
    fn error(&self) -> f64;

    /// U of some objects with equal bits on every machine, by which a list of a fixed length is cut.
    fn settle(&self, ids: &[u64], uppers: &mut [f64], interrupt: Interrupt<'_>) -> Result<(), BoxError>;

    /// Whether the choice must be the one of all objects. Otherwise it is that of the objects of the largest U.
    fn is_exact(&self) -> bool;
}

/// The pass of a kernel over a model.
pub(crate) fn pass(
    kernel: &Arc<GpKernel>,
    model: &Arc<Fitted>,
    explore: f64,
    interrupt: Interrupt<'_>,
) -> Result<Box<dyn Pass>, BoxError> {
    Ok(Box::new(ColumnPass::new(kernel, model, explore, interrupt)?))
}
