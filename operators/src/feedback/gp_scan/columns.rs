//! Exact mode: bounds from columns of distances, one a mark.
//!
//! Invariant: no bound is farther from its value in exact arithmetic than the declared error.

use std::ops::Range;
use std::sync::Arc;

use boxwork_kernels::interrupt::Interrupt;
use boxwork_runtime::operator::{BoxError, Context};

use crate::feedback::distances::ColumnMaker;
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
    maker: ColumnMaker,
    columns: Vec<Arc<Column>>,
    error: f64,
}

impl ColumnPass {
    pub(super) fn new(
        kernel: &Arc<GpKernel>,
        model: &Arc<Fitted>,
        explore: f64,
        interrupt: Interrupt<'_>,
    ) -> Result<Self, BoxError> {
        Ok(Self {
            kernel: Arc::clone(kernel),
            model: Arc::clone(model),
            explore: model.explore(explore),
            maker: ColumnMaker::new(kernel, &model.marks, interrupt)?,
            columns: Vec::new(),
            error: 0.0,
        })
    }

    /// Adds a mark's part to the bounds of objects at these distances from it.
    fn add(&self, mark: usize, distances: impl Iterator<Item = f64>, means: &mut [f64], reached: &mut [f64]) {
        let (weight, noise) = (self.model.weights[mark], self.model.marks[mark].noise);
        let covariance = self.kernel.covariance;
        for ((distance, mean), reached) in distances.zip(means).zip(reached) {
            let k = covariance.of(distance);
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

    /// Makes some of the columns; returns true once [`ColumnPass::bounds`] may be called.
    pub(super) fn step(&mut self, cx: &mut Context<'_>) -> Result<bool, BoxError> {
        let Some(columns) = self.maker.step(cx)? else { return Ok(false) };
        self.columns = columns;
        let change = |column: &Column| match column {
            Column::Exact(_) => 0.0,
            Column::Fast { change, change_squared, .. } => {
                self.kernel.covariance.change(*change, *change_squared)
            }
        };
        let (mut of_means, mut largest) = (0.0, 0.0f64);
        for (weight, column) in self.model.weights.iter().zip(&self.columns) {
            let change = change(column);
            of_means += weight.abs() * (change + ROUNDING);
            largest = largest.max(change);
        }
        self.error = of_means + self.explore * (STEEPEST * largest + ROUNDING);
        Ok(true)
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
        for (mark, column) in self.columns.iter().enumerate() {
            if interrupt() {
                return Err(boxwork_kernels::interrupt::Interrupted.into());
            }
            match &**column {
                Column::Exact(distances) => {
                    self.add(mark, distances[places.clone()].iter().copied(), means, uppers);
                }
                Column::Fast { distances, .. } => {
                    let distances = distances[places.clone()].iter().map(|distance| f64::from(*distance));
                    self.add(mark, distances, means, uppers);
                }
            }
        }
        self.finish(means, uppers);
        Ok(())
    }

    /// No U of [`ColumnPass::bounds`] is farther from its value in exact arithmetic, nor below u by more.
    pub(super) fn error(&self) -> f64 {
        self.error
    }
}
