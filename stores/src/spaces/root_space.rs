//! The square root of the exact distances of another space: equal order, and more sound bounds.

use std::sync::Arc;

use arrow_array::ArrayRef;
use boxwork_kernels::distance::{Properties, Slack};
use boxwork_kernels::interrupt::Interrupt;

use crate::new_number;
use crate::space::{ObjectDistance, PairDistance, Prepared, Scratch, Space, SpaceError};
use crate::store::Store;

/// The space of the square roots of another space's distances.
#[derive(Debug)]
pub struct RootSpace {
    space: Arc<dyn Space>,
    number: u64,
}

impl RootSpace {
    /// The root of a space.
    pub fn new(space: Arc<dyn Space>) -> Self {
        Self { space, number: new_number() }
    }
}

impl Space for RootSpace {
    fn store(&self) -> &Arc<dyn Store> {
        self.space.store()
    }

    fn number(&self) -> u64 {
        self.number
    }

    fn measure(&self) -> String {
        format!("root of {}", self.space.measure())
    }

    fn properties(&self) -> Properties {
        self.space.properties().rooted()
    }

    fn slack(&self) -> Slack {
        self.space.slack().rooted()
    }

    fn prepare_until(
        self: Arc<Self>,
        objects: &ArrayRef,
        row: usize,
        interrupt: Interrupt<'_>,
    ) -> Result<Arc<dyn Prepared>, SpaceError> {
        Ok(Arc::new(RootQuery(Arc::clone(&self.space).prepare_until(objects, row, interrupt)?)))
    }

    fn between_until(
        &self,
        pairs: &[[u64; 2]],
        out: &mut [f64],
        interrupt: Interrupt<'_>,
    ) -> Result<(), SpaceError> {
        self.space.between_until(pairs, out, interrupt)?;
        out.iter_mut().for_each(|distance| *distance = distance.sqrt());
        Ok(())
    }

    fn lend(&self, interrupt: Interrupt<'_>, f: &mut dyn FnMut(&PairDistance<'_>)) -> Result<(), SpaceError> {
        self.space.lend(interrupt, &mut |distance| f(&|a, b| distance(a, b).sqrt()))
    }

    fn keep(&self) -> bool {
        self.space.keep()
    }
}

/// A query of the original space.
#[derive(Debug)]
struct RootQuery(Arc<dyn Prepared>);

impl Prepared for RootQuery {
    fn fast_until(
        &self,
        _scratch: &mut Scratch,
        ids: &[u64],
        out: &mut [f64],
        interrupt: Interrupt<'_>,
    ) -> Result<(), SpaceError> {
        // The root of a fast distance may be far off if the distance is small.
        self.exact_until(ids, out, interrupt)
    }

    fn exact_until(&self, ids: &[u64], out: &mut [f64], interrupt: Interrupt<'_>) -> Result<(), SpaceError> {
        self.0.exact_until(ids, out, interrupt)?;
        out.iter_mut().for_each(|distance| *distance = distance.sqrt());
        Ok(())
    }

    fn is_exact(&self) -> bool {
        true
    }

    fn lend(
        &self,
        interrupt: Interrupt<'_>,
        f: &mut dyn FnMut(&mut ObjectDistance<'_>),
    ) -> Result<(), SpaceError> {
        self.0.lend(interrupt, &mut |distance| f(&mut |id| distance(id).sqrt()))
    }

    fn to_object(&self, objects: &ArrayRef, row: usize, interrupt: Interrupt<'_>) -> Result<f64, SpaceError> {
        Ok(self.0.to_object(objects, row, interrupt)?.sqrt())
    }

    fn slack(&self) -> Slack {
        self.0.slack().rooted()
    }
}
