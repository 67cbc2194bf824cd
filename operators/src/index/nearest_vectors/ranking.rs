//! Ranks what the bounds or values of a scan have left, by f64 distances.

use std::sync::Arc;

use boxwork_kernels::interrupt::Interrupt;
use boxwork_kernels::vector::Nearest;
use boxwork_kernels::vector::codes::CodeNearest;
use boxwork_runtime::operator::BoxError;

use crate::search::queries::Query;

/// f64 distances that are computed before the range is looked at again.
const EXACT_ROWS: usize = 64;

/// The answer of a query, or why there is none.
pub(super) type Answer = Result<Ranked, BoxError>;

/// The answer of a query.
pub(super) struct Ranked {
    /// Distances and ids.
    pub(super) nearest: Vec<(f64, u64)>,
    /// The rows that were left, and the distances that were computed.
    pub(super) left: u64,
    pub(super) computed: u64,
}

/// The rows that may be answers of a query.
pub(super) enum Left {
    /// With lower bounds.
    Bounds(CodeNearest),
    /// With values that bound nothing.
    Values(Nearest),
    /// Those of a small subset.
    All(Arc<[(f64, u32)]>),
}

/// The k least (distance, id) of what is left, the least bounds first, up to the first bound beyond the k-th distance.
pub(super) fn exact(query: &Query, left: Left, k: usize, range: f64, interrupt: Interrupt<'_>) -> Answer {
    let (mut found, mut computed) = (Vec::new(), 0);
    let order = |a: &(f64, u64), b: &(f64, u64)| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1));
    let has_bounds = matches!(left, Left::Bounds(_));
    let rows: Arc<[(f64, u32)]> = match left {
        Left::Bounds(nearest) => nearest.finish().into(),
        Left::Values(nearest) => nearest.into_kept().into(),
        Left::All(rows) => rows,
    };
    let left = rows.len() as u64;
    for rows in rows.chunks(EXACT_ROWS.max(k)) {
        let is_beyond = |kth: &(f64, u64)| has_bounds && rows[0].0 > kth.0;
        if found.len() >= k && found.get(k - 1).is_some_and(is_beyond) {
            break;
        }
        let mut ids: Vec<u64> = rows.iter().map(|(_, row)| u64::from(*row)).collect();
        ids.sort_unstable();
        let distances = query.exact_until(&ids, interrupt)?;
        computed += ids.len() as u64;
        found.extend(distances.into_iter().zip(ids).filter(|(distance, _)| *distance <= range));
        found.sort_unstable_by(order);
        found.truncate(k);
    }
    Ok(Ranked { nearest: found, left, computed })
}
