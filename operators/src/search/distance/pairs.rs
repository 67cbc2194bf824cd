//! Pairs of objects on devices: distance-matrix blocks (section 4.4.2 of the source).
//!
//! In each row, the object that neighbouring rows share is the query. Pairs in the order of Algorithm 4.7 are thus runs
//! of objects for each query, and the kernel for candidates serves here too.

use std::collections::BTreeMap;
use std::sync::Arc;

use boxwork_kernels::interrupt::{Interrupt, ask};
use boxwork_kernels::sqfd::{PreparedQuery, reference};
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::feeding::{Devices, Residence};
use boxwork_runtime::operator::{BoxError, Context};

pub(crate) use super::block::SqfdBlock;
use super::block::{Common, tell_arithmetic};
use super::on_device::bring_in_batches;
use boxwork_stores::sqfd_space::SqfdSpace;

/// Pairs of a space whose distances devices compute.
pub(crate) struct DevicePairs {
    space: Arc<SqfdSpace>,
    residence: Residence,
}

impl DevicePairs {
    pub(crate) fn new(space: Arc<SqfdSpace>, devices: &Devices, allowed: &Arc<[usize]>) -> Self {
        tell_arithmetic(&space, devices, allowed);
        let residence = space.chunks().cut.residence(space.store(), devices, allowed);
        Self { space, residence }
    }

    /// A block of the pairs of some envelopes; brings their objects into memory.
    pub(crate) fn block(
        &self,
        cx: &mut Context<'_>,
        envelopes: Vec<Envelope>,
    ) -> Result<SqfdBlock, BoxError> {
        let space = &self.space;
        let store = space.store();
        let mut rows = Vec::new();
        for pairs in &envelopes {
            rows.extend(with_queries(pairs.u64s("a")?, pairs.u64s("b")?));
        }
        let mut batches = Vec::new();
        for id in rows.iter().flat_map(|(query, id)| [*query, *id]) {
            let batch = store.locate(id)?.0;
            if batches.last() != Some(&batch) {
                batches.push(batch);
            }
        }
        bring_in_batches(cx, space, &self.residence, batches)?;
        // Ordered by id, so that neighbouring queries lie side by side.
        let mut places: BTreeMap<u64, u32> = rows.iter().map(|(query, _)| (*query, 0)).collect();
        places.values_mut().zip(0..).for_each(|(place, nth)| *place = nth);
        let cancelled = cx.cancelled();
        let prepared = store.read::<_, BoxError>(|objects| {
            let prepare = |id: &u64| -> Result<PreparedQuery, BoxError> {
                ask(&cancelled)?;
                let signature = objects.signature(*id)?;
                Ok(PreparedQuery::new_until(space.measure(), signature, &cancelled)?)
            };
            places.keys().map(prepare).collect::<Result<Vec<_>, _>>()
        })?;
        let common = Common::of(space, self.residence.clone(), prepared.iter(), None);
        let wanted = rows.iter().map(|(query, id)| (places[query], *id)).collect();
        Ok(SqfdBlock::new(&Arc::new(common), envelopes, wanted))
    }

    /// The distances of a block that came back, by envelope.
    ///
    /// # Errors
    /// When a batch is damaged, and when the caller interrupts.
    pub(crate) fn distances(
        &self,
        block: SqfdBlock,
        interrupt: Interrupt<'_>,
    ) -> Result<Vec<(Envelope, Vec<f64>)>, BoxError> {
        let space = &self.space;
        let mut crosses = block.crosses.iter();
        let mut made = Vec::with_capacity(block.envelopes.len());
        for pairs in &block.envelopes {
            let (a, b) = (pairs.u64s("a")?, pairs.u64s("b")?);
            let distances = space.store().read::<_, BoxError>(|objects| {
                let rows = a.iter().zip(b).zip(crosses.by_ref());
                rows.map(|((a, b), cross)| {
                    // f32 cannot hold the sum of some pairs (`PreparedQuery::distance`).
                    if !cross.is_finite() {
                        return Ok(space.between_until(objects, [*a, *b], interrupt)?);
                    }
                    let sigma = |id| space.sigma_self_until(objects, id, interrupt);
                    Ok(reference::distance(sigma(*a)?, sigma(*b)?, *cross))
                })
                .collect::<Result<Vec<_>, _>>()
            })?;
            made.push((pairs.clone(), distances));
        }
        Ok(made)
    }
}

/// The query of each row and its other object. The query is the one of the row before, if it is among the two; else the
/// object that the next row also has.
fn with_queries(a: &[u64], b: &[u64]) -> Vec<(u64, u64)> {
    let mut rows: Vec<(u64, u64)> = Vec::with_capacity(a.len());
    for (nth, (a_here, b_here)) in a.iter().zip(b).enumerate() {
        let last = rows.last().map(|(query, _)| query);
        let is_next = |id: &u64| a.get(nth + 1) == Some(id) || b.get(nth + 1) == Some(id);
        let is_b = last == Some(b_here) || (last != Some(a_here) && !is_next(a_here) && is_next(b_here));
        rows.push(if is_b { (*b_here, *a_here) } else { (*a_here, *b_here) });
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_s_query_is_what_it_shares() {
        // The order of all_pairs for five objects, folded: (0, 1), (0, 2), (1, 2), (1, 3), ...
        let rows = with_queries(&[0, 0, 1, 1, 2, 0, 0], &[1, 2, 2, 3, 3, 3, 4]);
        assert_eq!(rows, [(0, 1), (0, 2), (1, 2), (1, 3), (3, 2), (3, 0), (0, 4)]);
        assert_eq!(with_queries(&[7, 3, 2], &[9, 9, 9]), [(9, 7), (9, 3), (9, 2)]);
        assert_eq!(with_queries(&[4], &[4]), [(4, 4)]);
        assert!(with_queries(&[], &[]).is_empty());
    }
}
