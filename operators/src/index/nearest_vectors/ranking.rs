//! Ranks what the bounds or values of a scan have left, by f64 distances.

use std::sync::Arc;

use boxwork_kernels::codes::{CodeNearest, Levels};
use boxwork_kernels::interrupt::Interrupt;
use boxwork_runtime::operator::{BoxError, Context, Flow, Operator as _};

use super::candidates::{Candidates, Parted};
use super::{Found, Packed, Search, Shared};
use crate::search::answers::Answers;
use crate::search::queries::Query;

/// f64 distances that are computed before the range is looked at again.
const EXACT_ROWS: usize = 64;
/// Rows with known distances that a slot ranks at a time, and queries at most.
const KNOWN_ROWS: usize = 4096;
const KNOWN_QUERIES: usize = 256;

impl Search {
    /// Goes on with the scan on devices, and ranks the queries for which it is done.
    pub(super) fn process_on_devices(
        &mut self,
        cx: &mut Context<'_>,
        shared: &Shared,
        sizes: (usize, f64),
    ) -> Result<Flow, BoxError> {
        let Some(stage) = &mut self.on_devices else { return Ok(Flow::Done) };
        let flow = stage.process(cx)?;
        while let Some((first, found)) =
            self.on_devices.as_mut().and_then(|stage| stage.task_mut().take_done())
        {
            let count = found.len();
            let lefts = found.into_iter().map(Left::Values).collect();
            let answers = self.rank(cx, shared, first, lefts, sizes)?;
            self.early.insert(first, (count, answers));
        }
        if flow == Flow::Done {
            self.count(cx, shared.vectors.len());
        }
        Ok(flow)
    }

    /// The answers of the next queries that have some.
    pub(super) fn in_order(&mut self) -> Vec<Answers> {
        let mut all = Vec::new();
        while let Some((count, answers)) = self.early.remove(&self.ranked) {
            self.ranked += count;
            all.push(answers);
        }
        all
    }

    /// The rows that the bounds or values of each query have left.
    pub(super) fn take_left(&mut self) -> Vec<Left> {
        match &mut self.found {
            Found::Codes(found) => found.drain(..).map(Left::Bounds).collect(),
            Found::Values(found) => {
                found.drain(..).map(|found| Left::Values(Candidates::unknown(found))).collect()
            }
            Found::All(rows) => (0..self.queries.len()).map(|_| Left::All(Arc::clone(rows))).collect(),
        }
    }

    /// Ranks what is left of some queries, side by side.
    pub(super) fn rank(
        &mut self,
        cx: &mut Context<'_>,
        shared: &Shared,
        first: usize,
        lefts: Vec<Left>,
        (k, range): (usize, f64),
    ) -> Result<Answers, BoxError> {
        let is_few = matches!(self.found, Found::All(_));
        // A query without distances to compute takes less time than a slot does to wake.
        let are_known = lefts.iter().all(Left::is_known);
        let at_once = if are_known { (KNOWN_ROWS / k.max(1)).clamp(1, KNOWN_QUERIES) } else { 1 };
        let queries = if are_known { None } else { Some(self.queries.prepared(cx, &shared.space)?) };
        let mut answers: Vec<(Option<Left>, Option<Answer>)> =
            lefts.into_iter().map(|left| (Some(left), None)).collect();
        cx.inside(|inside| {
            let cancelled = inside.cancelled();
            inside.for_each_chunk_of(&mut answers, at_once, |idx, of_queries| {
                for (place, (left, answer)) in (first + idx..).zip(of_queries) {
                    let query = queries.map(|queries| queries.at(place));
                    *answer = left.take().map(|left| exact(query, left, k, range, &cancelled));
                }
            });
        });
        shared.space.store().confirm()?;
        let (mut left, mut computed, mut on_devices) = (0, 0, 0);
        let mut found = Vec::with_capacity(answers.len());
        for (number, (_, answer)) in self.queries.numbers()[first..].iter().zip(answers) {
            let Some(answer) = answer else { continue };
            let answer = answer?;
            (left, computed) = (left + answer.left, computed + answer.computed);
            on_devices += answer.on_devices;
            found.push((*number, answer.nearest));
        }
        match &self.packed {
            _ if is_few => (),
            Packed::Codes(queries) => cx.count(left_by(queries.levels()), left),
            Packed::OnDevices | Packed::Bytes(_) | Packed::Flat(_) => cx.count("left", left),
        }
        cx.count("computed", computed);
        if on_devices > 0 {
            cx.count("computed on devices", on_devices);
        }
        Ok(Answers::new(found))
    }
}

/// The name, in the statistics, of the rows that the first of two planes has left.
pub(super) fn left_by_first(levels: Levels) -> &'static str {
    if levels == Levels::Pca { "left by 2 bits" } else { "left by 4 bits" }
}

/// The name, in the statistics, of the rows that the last bounds have left.
fn left_by(levels: Levels) -> &'static str {
    match levels {
        Levels::Sq4 | Levels::Pca => "left by 4 bits",
        Levels::Sq8 | Levels::Planes => "left by 8 bits",
        Levels::Product16 | Levels::Product32 | Levels::Product64 => "left by product codes",
    }
}

/// The answer of a query, or why there is none.
pub(super) type Answer = Result<Ranked, BoxError>;

/// The answer of a query.
pub(super) struct Ranked {
    /// Distances and ids.
    pub(super) nearest: Vec<(f64, u64)>,
    /// The rows that were left, and the distances that were computed.
    pub(super) left: u64,
    pub(super) computed: u64,
    /// Those of them that devices have computed.
    pub(super) on_devices: u64,
}

/// The rows that may be answers of a query.
pub(super) enum Left {
    /// With lower bounds.
    Bounds(CodeNearest),
    /// With values that bound nothing, and some exact distances.
    Values(Candidates),
    /// Those of a small subset.
    All(Arc<[(f64, u32)]>),
}

impl Left {
    /// Whether all distances are known.
    fn is_known(&self) -> bool {
        matches!(self, Self::Values(candidates) if candidates.are_all_known())
    }
}

/// Leaves the k least, in order.
fn k_least(found: &mut Vec<(f64, u64)>, k: usize) {
    let order = |a: &(f64, u64), b: &(f64, u64)| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1));
    // Devices rank the rows of a chunk.
    if found.is_sorted_by(|a, b| order(a, b).is_lt()) {
        found.truncate(k);
        return;
    }
    if found.len() > k && k > 0 {
        found.select_nth_unstable_by(k - 1, order);
    }
    found.truncate(k);
    found.sort_unstable_by(order);
}

/// The k least (distance, id) of what is left, the least bounds first, up to the first bound beyond the k-th distance. What is known
/// needs no query.
fn exact(query: Option<&Query>, left: Left, k: usize, range: f64, interrupt: Interrupt<'_>) -> Answer {
    let (mut found, mut computed) = (Vec::new(), 0);
    let has_bounds = matches!(left, Left::Bounds(_));
    let rows: Arc<[(f64, u32)]> = match left {
        Left::Bounds(nearest) => nearest.finish().into(),
        Left::Values(candidates) => {
            let Parted { known, rest, computed: of_devices } = candidates.into_parted();
            computed += of_devices;
            let known = known.into_iter().map(|(distance, row)| (distance, u64::from(row)));
            found.extend(known.filter(|(distance, _)| *distance <= range));
            k_least(&mut found, k);
            rest.into_iter().map(|row| (0.0, row)).collect()
        }
        Left::All(rows) => rows,
    };
    let on_devices = computed;
    let left = on_devices + rows.len() as u64;
    // Without bounds the range excludes none of the rows.
    let at_once = if has_bounds { EXACT_ROWS.max(k) } else { rows.len().max(1) };
    for rows in rows.chunks(at_once) {
        let is_beyond = |kth: &(f64, u64)| has_bounds && rows[0].0 > kth.0;
        if found.len() >= k && found.get(k - 1).is_some_and(is_beyond) {
            break;
        }
        let mut ids: Vec<u64> = rows.iter().map(|(_, row)| u64::from(*row)).collect();
        ids.sort_unstable();
        let query = query.expect("distances that are not known are those of a query");
        let distances = query.exact_until(&ids, interrupt)?;
        computed += ids.len() as u64;
        found.extend(distances.into_iter().zip(ids).filter(|(distance, _)| *distance <= range));
        k_least(&mut found, k);
    }
    Ok(Ranked { nearest: found, left, computed, on_devices })
}
