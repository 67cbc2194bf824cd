//! Objects that are ranked before the search: their distances limit its ranges from the start.
//!
//! Invariant: a range is the k-th of the exact distances of different objects among those that are searched. So it is never below the
//! k-th distance of the answer, whatever objects come, and a search with it finds what a search without it finds.

use boxwork_runtime::operator::{BoxError, Context, In};
use boxwork_stores::store::Store;
use boxwork_stores::subset::Subset;

use crate::columns;
use crate::resources;
use crate::search::queries::Queries;

pub(super) const CANDIDATES: In = In::side(
    1,
    "candidates",
    columns::candidates,
    "objects to rank first, such as those of lists near a query: the sooner near objects are known, the fewer are computed",
)
.optional();

/// The ranges of queries by their candidates, none above `range`, and the number of distances that were computed.
///
/// # Errors
/// If a candidate belongs to no query, or an object cannot be read.
pub(super) fn ranges(
    cx: &mut Context<'_>,
    queries: &Queries,
    store: &dyn Store,
    subset: Option<&Subset>,
    (k, range): (usize, f64),
) -> Result<(Vec<f64>, u64), BoxError> {
    let mut ids: Vec<Vec<u64>> = vec![Vec::new(); queries.len()];
    for envelope in cx.side(CANDIDATES) {
        for (number, id) in envelope.u32s("query")?.iter().zip(envelope.u64s("id")?) {
            let is_inside = match subset {
                Some(subset) => subset.has(*id),
                None => *id < store.ids_count() && store.has(*id),
            };
            if is_inside {
                ids[queries.idx(*number)?].push(*id);
            }
        }
    }
    for ids in &mut ids {
        ids.sort_unstable();
        ids.dedup();
    }
    let computed = ids.iter().map(|ids| ids.len() as u64).sum();
    if computed == 0 {
        return Ok((vec![range; queries.len()], 0));
    }
    let mut all: Vec<u64> = ids.iter().flatten().copied().collect();
    all.sort_unstable();
    all.dedup();
    resources::bring_in(cx, store, &all)?;
    let mut found: Vec<Option<Result<f64, BoxError>>> = (0..queries.len()).map(|_| None).collect();
    cx.inside(|inside| {
        let cancelled = inside.cancelled();
        inside.for_each_chunk_of(&mut found, 1, |query, found| {
            let distances = queries.at(query).exact_until(&ids[query], &cancelled);
            found[0] = Some(distances.map(|distances| kth(distances, k)));
        });
    });
    store.confirm()?;
    // A piece that was cancelled is missing; the request ends, and no range matters.
    let each = found.into_iter().map(|found| found.unwrap_or(Ok(f64::INFINITY)));
    let ranges: Result<Vec<f64>, BoxError> = each.map(|found| Ok(found?.min(range))).collect();
    Ok((ranges?, computed))
}

/// The k-th of some distances; infinity if there are fewer.
fn kth(mut distances: Vec<f64>, k: usize) -> f64 {
    if k == 0 || distances.len() < k {
        return f64::INFINITY;
    }
    *distances.select_nth_unstable_by(k - 1, f64::total_cmp).1
}
