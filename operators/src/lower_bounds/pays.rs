//! Whether an index is worth its bounds, by a sample of both bounds and distances.

use std::time::Instant;

use boxwork_kernels::CodePath;
use boxwork_kernels::lower_bound::Bounds;
use boxwork_runtime::operator::BoxError;

use super::LowerBounds;
use super::bounded::Bounded;
use crate::domain::cost_model::{Sample, share_left};
use crate::queries::Queries;
use crate::sqfd::Gather;

/// Blocks, spread over the table, that `auto` bounds to see how many objects are left.
const SAMPLE_BLOCKS: usize = 16;
/// Distances that `auto` computes to see what one takes.
const SAMPLE_DISTANCES: usize = 32;

impl LowerBounds {
    /// Whether bounding all objects is faster than computing all distances, by a sample of both.
    pub(super) fn pays(&self, queries: &Queries, prepared: &[Bounded]) -> Result<bool, BoxError> {
        let (Some(first), false) = (queries.iter().next(), prepared.is_empty()) else { return Ok(true) };
        let (table, space) = (&self.table, self.table.space());
        // Pivots are in memory already.
        let ids: Vec<u64> = table.pivots().iter().copied().take(SAMPLE_DISTANCES).collect();
        let mut order: Vec<u32> = (0..ids.len() as u32).collect();
        order.sort_unstable_by_key(|idx| ids[*idx as usize]);
        let mut gather = Gather::new(boxwork_kernels::sqfd::Evaluator::new(CodePath::detect()));
        let mut distances = vec![0.0; ids.len()];
        let mut compute = || {
            let start = Instant::now();
            let computed = space.store().read::<_, BoxError>(|objects| {
                gather.distances(space, objects, &first.prepared, &order, &ids, &mut distances)
            });
            computed.map(|()| start.elapsed().as_nanos() as f64 / ids.len() as f64)
        };
        // The first time pays for what is done once.
        let distance_ns = compute()?.min(compute()?);
        let step = table.blocks().div_ceil(SAMPLE_BLOCKS);
        let (mut bounds, mut seconds, mut bounded, mut left) = (Bounds::default(), 0.0, 0, 0.0);
        for query in prepared {
            let (mut lowers, mut uppers) = (Vec::new(), Vec::new());
            for block in (0..table.blocks()).step_by(step) {
                let Some(query) = &query.query else { continue };
                let rows = table.ids(block).count();
                let start = Instant::now();
                self.evaluator.bounds(query, table.block(block), &mut bounds);
                table.hide_removed(block, &mut bounds);
                seconds += start.elapsed().as_secs_f64();
                bounded += rows;
                lowers.extend_from_slice(&bounds.lower[..rows]);
                uppers.extend_from_slice(&bounds.upper[..rows]);
            }
            left += match self.k {
                Some(k) => share_left(&lowers, &mut uppers, k, table.len()),
                None => {
                    let within = lowers.iter().filter(|lower| **lower <= self.limit).count();
                    within as f64 / lowers.len().max(1) as f64
                }
            };
        }
        let bound_ns = seconds * 1e9 / bounded.max(1) as f64;
        Ok(Sample { bound_ns, distance_ns, left: left / prepared.len() as f64 }.pays())
    }
}
