//! Exact mode: bounds from columns of distances, one a mark.
//!
//! Invariant: no bound is farther from its value in exact arithmetic than the declared error.

use std::ops::Range;
use std::sync::Arc;

use boxwork_kernels::interrupt::Interrupt;
use boxwork_runtime::operator::BoxError;

use crate::feedback::marks::Fitted;
use crate::resources::gp_kernel::{Column, GpKernel};

/// Covers the rounding of sums of at most a thousand products, in means and variances.
const ROUNDING: f64 = 1e-9;
/// A change of a covariance changes the square root of 1 - k^2 / (1 + noise) by at most this much more: the root is at
/// least that of noise / (1 + noise) for the least noise, 0.1.
const STEEPEST: f64 = 3.4;

/// Bounds from columns of distances.
#[derive(Debug)]
pub(super) struct ColumnPass {
    kernel: Arc<GpKernel>,
    model: Arc<Fitted>,
    explore: f64,
    columns: Vec<Arc<Column>>,
    error: f64,
}

impl ColumnPass {
    /// The pass over the columns of a model's marks.
    pub(super) fn new(
        kernel: &Arc<GpKernel>,
        model: &Arc<Fitted>,
        explore: f64,
        columns: Vec<Arc<Column>>,
    ) -> Self {
        let change = |column: &Column| match column {
            Column::Exact(_) => 0.0,
            Column::Fast { change, change_squared, .. } => kernel.covariance.change(*change, *change_squared),
        };
        let (mut of_means, mut largest) = (0.0, 0.0f64);
        for (weight, column) in model.weights.iter().zip(&columns) {
            let change = change(column);
            of_means += weight.abs() * (change + ROUNDING);
            largest = largest.max(change);
        }
        let explore = model.explore(explore);
        let error = of_means + explore * (STEEPEST * largest + ROUNDING);
        Self { kernel: Arc::clone(kernel), model: Arc::clone(model), explore, columns, error }
    }

    /// Adds a mark's part, the covariances of objects with it, to their bounds.
    fn add(&self, mark: usize, covariances: &[f64], means: &mut [f64], reached: &mut [f64]) {
        let (weight, noise) = (self.model.weights[mark], self.model.marks[mark].noise);
        for ((k, mean), reached) in covariances.iter().zip(means).zip(reached) {
            *mean += weight * k;
            *reached = reached.max(k * k / (1.0 + noise));
        }
    }

    /// Turns the largest k^2 / (1 + noise) of each object into its bound.
    fn finish(&self, means: &[f64], reached: &mut [f64]) {
        for (upper, mean) in reached.iter_mut().zip(means) {
            *upper = mean + self.explore * (1.0 - *upper).max(0.0).sqrt();
        }
    }

    /// The means of consecutive ids and their bounds U. Numbers of removed objects have no meaning.
    pub(super) fn bounds(
        &self,
        ids: Range<u64>,
        means: &mut [f64],
        uppers: &mut [f64],
        interrupt: Interrupt<'_>,
    ) -> Result<(), BoxError> {
        means.fill(0.0);
        uppers.fill(0.0);
        let places = ids.start as usize..ids.end as usize;
        let mut covariances = vec![0.0; places.len()];
        for (mark, column) in self.columns.iter().enumerate() {
            if interrupt() {
                return Err(boxwork_kernels::interrupt::Interrupted.into());
            }
            match &**column {
                Column::Exact(distances) => {
                    let pairs = covariances.iter_mut().zip(&distances[places.clone()]);
                    pairs.for_each(|(k, distance)| *k = self.kernel.covariance.of(*distance));
                }
                Column::Fast { distances, .. } => {
                    self.kernel.covariance.of_all(&distances[places.clone()], &mut covariances);
                }
            }
            self.add(mark, &covariances, means, uppers);
        }
        self.finish(means, uppers);
        Ok(())
    }

    /// No U of [`ColumnPass::bounds`] is farther from its value in exact arithmetic, nor below u by more.
    pub(super) fn error(&self) -> f64 {
        self.error
    }
}
