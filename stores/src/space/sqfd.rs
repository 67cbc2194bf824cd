//! The signature quadratic form distance as a [`Space`], and its queries as [`Prepared`].

use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow_array::ArrayRef;
use boxwork_kernels::CodePath;
use boxwork_kernels::distance::{Properties, Slack};
use boxwork_kernels::interrupt::Interrupt;
use boxwork_kernels::similarity::Similarity;
use boxwork_kernels::sqfd::{Evaluator, distance_error, reference};

use super::one_by_one::{Failure, fill};
use super::{
    DeviceForm, Extent, ObjectDistance, PairDistance, Prepared, QueryForm, Scratch, Space, SpaceError,
};
use crate::signature_store::{Objects, StoreError};
use crate::sqfd_space::{SqfdQuery, SqfdSpace};
use crate::store::Store;

/// Working memory of the fast path.
struct Gather {
    evaluator: Evaluator,
    rows: Vec<u32>,
}

impl Prepared for SqfdQuery {
    fn fast_until(
        &self,
        scratch: &mut Scratch,
        ids: &[u64],
        out: &mut [f64],
        interrupt: Interrupt<'_>,
    ) -> Result<(), SpaceError> {
        debug_assert!(ids.is_sorted(), "ids ascend");
        assert_eq!(ids.len(), out.len(), "a distance for each object");
        let gather =
            scratch.of(|| Gather { evaluator: Evaluator::new(CodePath::detect()), rows: Vec::new() });
        let store = self.space.store();
        let objects = Objects::new(store);
        let (mut ids, mut out) = (ids, out);
        while let Some(first) = ids.first() {
            let (batch, _) = store.locate(*first)?;
            let range = store.ids(batch);
            let count = ids.partition_point(|id| *id < range.end);
            let (here, beyond) = out.split_at_mut(count);
            gather.rows.clear();
            gather.rows.extend(ids[..count].iter().map(|id| (id - range.start) as u32));
            let rows = (batch, &gather.rows[..]);
            self.space.fast(objects, &mut gather.evaluator, &self.prepared, rows, here, interrupt)?;
            (ids, out) = (&ids[count..], beyond);
        }
        Ok(())
    }

    fn exact_until(&self, ids: &[u64], out: &mut [f64], interrupt: Interrupt<'_>) -> Result<(), SpaceError> {
        assert_eq!(ids.len(), out.len(), "a distance for each object");
        let sigma = self.prepared.sigma_self();
        self.with_signature(|signature| {
            self.space.store().read::<_, StoreError>(|objects| {
                fill(ids, out, |id| self.space.exact_until(objects, (signature, sigma), id, interrupt))
            })
        })??;
        Ok(())
    }

    fn widened(&self, range: f64) -> f64 {
        range + distance_error(self.error_squared(range), range)
    }

    fn see(&self, ids: &[u64], interrupt: Interrupt<'_>) -> Result<bool, SpaceError> {
        // The errors of the other measures do not depend on it (`PreparedQuery::error_squared`).
        if self.space.measure().similarity() != Similarity::Minus {
            return Ok(false);
        }
        let before = self.sigma_min();
        let least = self.space.store().read::<_, StoreError>(|objects| {
            ids.iter().try_fold(before, |least, id| {
                Ok(least.min(self.space.sigma_self_until(objects, *id, interrupt)?))
            })
        })?;
        // Only one box uses a query, so no update is lost between the load and the store.
        self.sigma_min.store(least.to_bits(), Ordering::Relaxed);
        Ok(least < before)
    }

    fn lend(
        &self,
        interrupt: Interrupt<'_>,
        f: &mut dyn FnMut(&mut ObjectDistance<'_>),
    ) -> Result<(), SpaceError> {
        let sigma = self.prepared.sigma_self();
        self.with_signature(|signature| {
            self.space.store().read::<_, StoreError>(|objects| {
                let query = (signature, sigma);
                Failure::lend(|failure| {
                    f(&mut |id| failure.number(self.space.exact_until(objects, query, id, interrupt)));
                })
            })
        })??;
        Ok(())
    }

    fn to_object(&self, objects: &ArrayRef, row: usize, interrupt: Interrupt<'_>) -> Result<f64, SpaceError> {
        let other = SqfdQuery::new_until(Arc::clone(&self.space), objects, row, interrupt)?;
        let cross = self.with_signature(|signature| {
            other.with_signature(|other| {
                reference::sigma_until(&self.space.measure(), signature, other, interrupt)
            })
        })???;
        Ok(reference::distance(self.prepared.sigma_self(), other.prepared.sigma_self(), cross))
    }

    fn size(&self) -> usize {
        self.len
    }

    fn slack(&self) -> Slack {
        slack(&self.space, self.len)
    }

    fn noise_squared(&self, extent: Extent, distance_max: f64) -> f64 {
        let own = Extent { sigma: self.prepared.sigma_self().abs(), len: self.len };
        Space::noise_squared(&*self.space, extent.max(own), distance_max)
    }

    fn device_form(&self) -> Option<QueryForm<'_>> {
        Some(QueryForm::Sqfd(self))
    }
}

/// The largest error of the space's distances, with a query of this many centroids.
fn slack(space: &SqfdSpace, centroids: usize) -> Slack {
    let measure = space.measure();
    // Weights sum to 1 within rounding, so a signature is at most as similar to itself as a centroid is to itself, and
    // no distance exceeds the measure's limit.
    let sigma_max = 1.01 * measure.f_s(&[0.0], &[0.0]).abs();
    let distance_max = 1.01 * measure.distance_max().unwrap_or(f64::MAX.sqrt());
    let len = space.centroids_max().max(centroids);
    let noise = reference::error_squared(&measure, sigma_max, distance_max, len, space.store().dimensions());
    Slack::of_squares(noise)
}

impl Space for SqfdSpace {
    fn store(&self) -> &Arc<dyn Store> {
        self.shared()
    }

    fn number(&self) -> u64 {
        SqfdSpace::number(self)
    }

    fn measure(&self) -> String {
        let measure = SqfdSpace::measure(self);
        format!(
            "{} similarity over {} at alpha {:?}",
            measure.similarity(),
            measure.ground(),
            measure.alpha()
        )
    }

    fn properties(&self) -> Properties {
        Properties::hilbert("sqfd")
    }

    fn slack(&self) -> Slack {
        slack(self, 0)
    }

    fn prepare_until(
        self: Arc<Self>,
        objects: &ArrayRef,
        row: usize,
        interrupt: Interrupt<'_>,
    ) -> Result<Arc<dyn Prepared>, SpaceError> {
        Ok(Arc::new(SqfdQuery::new_until(self, objects, row, interrupt)?))
    }

    fn between_until(
        &self,
        pairs: &[[u64; 2]],
        out: &mut [f64],
        interrupt: Interrupt<'_>,
    ) -> Result<(), SpaceError> {
        assert_eq!(pairs.len(), out.len(), "a distance for each pair");
        SqfdSpace::store(self).read::<_, SpaceError>(|objects| {
            Ok(fill(pairs, out, |pair| SqfdSpace::between_until(self, objects, pair, interrupt))?)
        })
    }

    fn lend(&self, interrupt: Interrupt<'_>, f: &mut dyn FnMut(&PairDistance<'_>)) -> Result<(), SpaceError> {
        SqfdSpace::store(self).read::<_, SpaceError>(|objects| {
            Ok(Failure::lend(|failure| {
                f(&|a, b| failure.number(SqfdSpace::between_until(self, objects, [a, b], interrupt)));
            })?)
        })
    }

    fn extent_until(&self, id: u64, interrupt: Interrupt<'_>) -> Result<Extent, SpaceError> {
        SqfdSpace::store(self).read(|objects| {
            let sigma = self.sigma_self_until(objects, id, interrupt)?.abs();
            let len = objects.signature(id)?.len();
            Ok(Extent { sigma, len })
        })
    }

    fn noise_squared(&self, extent: Extent, distance_max: f64) -> f64 {
        let dimensions = SqfdSpace::store(self).dimensions();
        reference::error_squared(
            &SqfdSpace::measure(self),
            extent.sigma,
            distance_max,
            extent.len,
            dimensions,
        )
    }

    fn device_form(self: Arc<Self>) -> Option<DeviceForm> {
        Some(DeviceForm::Sqfd(self))
    }

    fn keep(&self) -> bool {
        SqfdSpace::keep(self)
    }
}
