//! The slots of a runtime as the threads of a fit.

use boxwork_kernels::cholesky::{Packed, Tasks};
use boxwork_kernels::gaussian_process::{FactorDevice, Outcome, SlopedOutcome, Stopped, Threads, Wanted};
use boxwork_runtime::inside::{GraphError, Inside};
use boxwork_runtime::operator::Work;

use super::on_device::OnDevice;
use crate::cholesky::run;
use crate::devices::factor::{self, DeviceNumber};
use crate::pieces::side_by_side_inside as inside_pieces;

/// The slots that are free, for the closures of one firing, and perhaps a device for factors.
pub(super) struct OnSlots<'s, 'i> {
    pub(super) inside: &'s mut Inside<'i>,
    pub(super) device: Option<&'s mut OnDevice>,
    /// The counts of a factorisation's operations, where one is most of the work.
    pub(super) work: Option<Work<'s>>,
}

impl OnSlots<'_, '_> {
    fn make<T: DeviceNumber>(&mut self, wanted: &Wanted<'_>, tiles: Packed<T>) -> Outcome<T> {
        let Self { inside, device, .. } = self;
        let cancelled = inside.cancelled();
        let mut slots = |count: usize, f: &(dyn Fn(usize) + Sync)| inside_pieces(inside, count, f);
        device.as_mut()?.make(wanted, tiles, &mut slots, &cancelled)
    }
}

impl Threads for OnSlots<'_, '_> {
    fn factorise(&mut self, work: &dyn Tasks) -> Result<(), Stopped> {
        run(self.inside, work, self.work).map_err(|error| match error {
            GraphError::Task(fault) => Stopped::NotPositiveDefinite { row: fault.row },
            GraphError::Cancelled => Stopped::Interrupted,
            other => panic!("the graph of a factorisation has no cycle: {other}"),
        })
    }

    fn pieces(&mut self, count: usize, f: &(dyn Fn(usize) + Sync)) -> bool {
        inside_pieces(self.inside, count, f)
    }

    fn device(&mut self) -> Option<&mut dyn FactorDevice> {
        if self.device.is_some() { Some(self) } else { None }
    }
}

impl FactorDevice for OnSlots<'_, '_> {
    fn takes(&mut self, n: usize, bytes: usize) -> bool {
        self.device.as_mut().is_some_and(|device| device.takes(n, bytes, 1))
    }

    fn can_fill(&self, dimensions: usize) -> bool {
        factor::can_fill(dimensions)
    }

    fn doubles(&mut self, wanted: &Wanted<'_>, tiles: Packed<f64>) -> Outcome<f64> {
        self.make(wanted, tiles)
    }

    fn singles(&mut self, wanted: &Wanted<'_>, tiles: Packed<f32>) -> Outcome<f32> {
        self.make(wanted, tiles)
    }

    fn takes_slopes(&mut self, n: usize, bytes: usize) -> bool {
        self.device.as_mut().is_some_and(|device| device.takes(n, bytes, 2))
    }

    fn slopes_of_doubles(&mut self, wanted: &Wanted<'_>, weights: Option<&[f64]>) -> SlopedOutcome {
        self.device.as_mut()?.slopes::<f64>(wanted, weights, &self.inside.cancelled())
    }

    fn slopes_of_singles(&mut self, wanted: &Wanted<'_>, weights: Option<&[f64]>) -> SlopedOutcome {
        self.device.as_mut()?.slopes::<f32>(wanted, weights, &self.inside.cancelled())
    }
}
