//! The scan on devices for boxes other than `nearest_vectors`.

use std::sync::Arc;

use boxwork_runtime::feeding::Picked;
use boxwork_runtime::operator::{BoxError, Context, Flow, Operator as _};

use super::super::Shared;
use super::super::candidates::Candidates;
use super::super::numbers::Numbers;
use super::{DeviceStage, Sized, VectorScan, stage};

/// A scan for another box.
pub(in crate::index) struct Scan(Box<DeviceStage<VectorScan>>);

impl Scan {
    /// Begins a scan on the devices that are picked; nothing if they cannot do it.
    pub(in crate::index) fn new(
        shared: &Arc<Shared>,
        queries: Numbers,
        (k, slots, sized): (usize, u64, Sized),
        picked: &Picked,
    ) -> Option<Self> {
        let sizes = (k, f64::INFINITY, slots, sized);
        stage(shared, queries, sizes, None, picked).map(|stage| Self(Box::new(stage)))
    }

    /// Goes on, as an operator does.
    pub(in crate::index) fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        self.0.process(cx)
    }

    /// By query, the rows that may be among its nearest, once the scan is done.
    pub(in crate::index) fn into_found(self) -> Vec<Candidates> {
        let VectorScan { found, mut known, .. } = self.0.into_task();
        found.into_iter().enumerate().map(|(query, found)| known.candidates(query, found)).collect()
    }
}
