//! Exact distances of pairs of objects on devices.
//!
//! Invariant: a distance has the bits of `Space::between`, for which the object with the smaller id is the query.

use std::sync::Arc;

use boxwork_kernels::interrupt::Interrupt;
use boxwork_kernels::sqfd::reference;
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::operator::{BoxError, Context};
use boxwork_stores::space::Space;
use boxwork_stores::sqfd_space::SqfdSpace;

use super::block::{Common, ExactBlock};
use super::{CHECKED_ROWS, SIZES};
use crate::devices::stage::{Sizes, Weight};
use crate::resources;
use crate::search::queries::Queries;

/// Pairs of a space whose exact distances devices compute.
pub(crate) struct ExactPairs {
    space: Arc<SqfdSpace>,
}

/// The smaller and the larger id of each pair.
fn ordered(pairs: &Envelope) -> Result<impl Iterator<Item = [u64; 2]> + '_, BoxError> {
    let (a, b) = (pairs.u64s("a")?, pairs.u64s("b")?);
    Ok(a.iter().zip(b).map(|(a, b)| [*a.min(b), *a.max(b)]))
}

impl ExactPairs {
    pub(crate) const SIZES: Sizes = SIZES;

    pub(crate) fn new(space: Arc<SqfdSpace>) -> Self {
        Self { space }
    }

    /// The pairs and the pairs of their centroids; reads the objects from disk unless they are in memory.
    pub(crate) fn weight(&self, cx: &mut Context<'_>, pairs: &Envelope) -> Result<Weight, BoxError> {
        for column in ["a", "b"] {
            resources::bring_in(cx, &**self.space.store(), pairs.u64s(column)?)?;
        }
        let terms = self.space.store().read::<u64, BoxError>(|objects| {
            ordered(pairs)?.try_fold(0, |terms, [a, b]| {
                Ok(terms + objects.signature(a)?.len() as u64 * objects.signature(b)?.len() as u64)
            })
        })?;
        Ok([pairs.rows() as u64, terms])
    }

    /// A block of the pairs of some envelopes.
    pub(crate) fn block(
        &self,
        cx: &mut Context<'_>,
        envelopes: Vec<Envelope>,
    ) -> Result<ExactBlock, BoxError> {
        let (mut pairs, mut terms) = (Vec::new(), 0);
        for envelope in &envelopes {
            pairs.extend(ordered(envelope)?);
            terms += self.weight(cx, envelope)?[1];
        }
        let mut ids: Vec<u64> = pairs.iter().map(|[query, _]| *query).collect();
        ids.sort_unstable();
        ids.dedup();
        let (space, cancelled): (Arc<dyn Space>, _) = (Arc::clone(&self.space) as _, cx.cancelled());
        let prepared = ids.iter().map(|id| {
            let object = Space::store(&*space).objects(&[*id])?;
            Ok(Arc::clone(&space).prepare_until(&object, 0, &cancelled)?)
        });
        let queries = Arc::new(Queries::of_prepared(prepared)?);
        let place = |id: u64| ids.partition_point(|known| *known < id) as u32;
        let rows = pairs.iter().map(|[query, object]| (place(*query), *object)).collect();
        Ok(ExactBlock::new(&Arc::new(Common::new(&self.space, &queries)?), envelopes, rows, terms))
    }

    /// The distances of a block that came back, by envelope; nothing where its sums are not those of the reference.
    pub(crate) fn distances(
        &self,
        block: &ExactBlock,
        interrupt: Interrupt<'_>,
    ) -> Result<Option<Vec<Vec<f64>>>, BoxError> {
        if !block.is_as_reference(CHECKED_ROWS)? {
            return Ok(None);
        }
        let mut sums = block.sums.iter();
        let of_envelope = |pairs: &Envelope| {
            self.space.store().read::<_, BoxError>(|objects| {
                let sigma = |id| self.space.sigma_self_until(objects, id, interrupt);
                ordered(pairs)?
                    .zip(sums.by_ref())
                    .map(|([a, b], sum)| Ok(reference::distance(sigma(a)?, sigma(b)?, *sum)))
                    .collect::<Result<Vec<_>, _>>()
            })
        };
        Ok(Some(block.envelopes.iter().map(of_envelope).collect::<Result<_, _>>()?))
    }
}
