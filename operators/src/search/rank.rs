//! `rank`: the nearest of each query's candidates, by their exact distances.
//!
//! Invariant: the output is the k least (f64 distance, id) of the candidates, in whatever order and envelopes these come. Slots share
//! the candidates of each firing.

use std::sync::Arc;

use boxwork_kernels::interrupt::Interrupt;
use boxwork_kernels::memory::more;
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::operator::{Bind, BoxError, Context, Flow, In, Kind, Operator, OperatorSpec};
use boxwork_runtime::parameter::Default;
use boxwork_stores::space::{Scratch, Space};

use crate::columns;
use crate::resources::{self, SPACE, check_range, get_range, range_parameter};
use crate::search::answers::Answers;
use crate::search::queries::{K, Queries, Query};
use crate::search::top_k::{ADVICE, NEAREST, QUERY, WHAT, check};

/// Distances of a branch, about: tens of microseconds.
const BRANCH_ROWS: usize = 256;
/// Queries whose answers a branch sorts.
const SORTED_AT_ONCE: usize = 256;
/// The list of a query is cut when it has so many objects beyond twice k.
const SLACK: usize = 256;

const CANDIDATES: In = In::stream(0, "candidates", columns::candidates, "objects that may be near");

/// Ranks the candidates of each query by their exact distances.
///
/// It computes the f64 distance of each candidate. It is for candidates that are few, such as those of an approximate search; for
/// many, `distance` and `top_k` compute fast distances first.
///
/// # Inputs
/// `candidates`: objects by query, no object twice for one query. `query` (side): the queries.
///
/// # Outputs
/// `nearest`: the k nearest candidates of each query with their f64 distances, by query, then distance, then id; fewer if fewer came in.
///
/// # Parameters
/// `k`: the number of objects. `space`: the objects and their distance. `range`: if given, keeps only objects at most this far.
pub static RANK: OperatorSpec = OperatorSpec {
    parameters: &[K, SPACE, range_parameter(Default::Absent, "exclude objects farther than this")],
    inputs: &[CANDIDATES, QUERY],
    outputs: &[NEAREST],
    check: Some(check_range),
    example: "rank: {kind: rank, k: 10, space: space}",
    ..OperatorSpec::new(
        "rank",
        "Ranks the candidates of each query by their exact distances.",
        Kind::Stateful,
        make,
    )
};

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    let space = resources::space(bind)?;
    Ok(Box::new(Rank {
        range: get_range(bind, &*space)?.unwrap_or(f64::INFINITY),
        is_signed: space.properties().signed,
        space,
        k: bind.count("k"),
        queries: None,
        nearest: Vec::new(),
        answers: None,
    }))
}

struct Rank {
    k: usize,
    range: f64,
    /// Whether distances may be negative.
    is_signed: bool,
    space: Arc<dyn Space>,
    queries: Option<Queries>,
    /// By the query's place: distances and ids.
    nearest: Vec<Vec<(f64, u64)>>,
    /// The answers, once all candidates have come.
    answers: Option<Answers>,
}

/// Some candidates of one query.
struct Part<'a> {
    /// The place of the query.
    place: usize,
    ids: &'a [u64],
    found: Result<Vec<(f64, u64)>, BoxError>,
}

impl Operator for Rank {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        if self.queries.is_none() {
            let queries = Queries::of_side(cx, QUERY, &self.space)?;
            self.nearest = vec![Vec::new(); queries.len()];
            self.queries = Some(queries);
        }
        let waiting: Vec<Envelope> = std::iter::from_fn(|| cx.take(CANDIDATES)).collect();
        if !waiting.is_empty() {
            self.compute(cx, &waiting)?;
            return Ok(Flow::More);
        }
        if !cx.is_ended(CANDIDATES) {
            return Ok(Flow::Wait);
        }
        if self.answers.is_none() {
            self.answers = Some(self.finish(cx));
        }
        let Some(answers) = &mut self.answers else { return Ok(Flow::Done) };
        Ok(match answers.send(cx, NEAREST)? {
            Some(_) => Flow::Done,
            None => Flow::Wait,
        })
    }
}

/// Less than 0 if `a` comes before `b` in an answer.
fn order(a: &(f64, u64), b: &(f64, u64)) -> std::cmp::Ordering {
    a.0.total_cmp(&b.0).then(a.1.cmp(&b.1))
}

/// Keeps the k least, in any order.
fn cut(found: &mut Vec<(f64, u64)>, k: usize) {
    if found.len() > k {
        found.select_nth_unstable_by(k - 1, order);
        found.truncate(k);
    }
}

impl Rank {
    /// Computes the distances of some candidates, and keeps the nearest.
    fn compute(&mut self, cx: &mut Context<'_>, envelopes: &[Envelope]) -> Result<(), BoxError> {
        let Some(queries) = &self.queries else { return Ok(()) };
        let (mut parts, mut rows) = (Vec::new(), 0);
        for envelope in envelopes {
            let (numbers, mut ids) = (envelope.u32s("query")?, envelope.u64s("id")?);
            resources::bring_in(cx, &**self.space.store(), ids)?;
            rows += ids.len();
            for run in numbers.chunk_by(|a, b| a == b) {
                let (of_query, rest) = ids.split_at(run.len());
                ids = rest;
                let place = queries.idx(run[0])?;
                let each = of_query.chunks(BRANCH_ROWS);
                parts.extend(each.map(|ids| Part { place, ids, found: Ok(Vec::new()) }));
            }
        }
        let of_branch = (BRANCH_ROWS * parts.len() / rows.max(1)).max(1);
        let (k, range, is_signed) = (self.k, self.range, self.is_signed);
        cx.inside(|inside| {
            let cancelled = inside.cancelled();
            inside.for_each_chunk_of(&mut parts, of_branch, |_, parts| {
                for part in parts.iter_mut().filter(|_| !cancelled()) {
                    part.found = distances(queries.at(part.place), part.ids, is_signed, &cancelled);
                    let Ok(found) = &mut part.found else { continue };
                    found.retain(|found| found.0 <= range);
                    cut(found, k);
                }
            });
        });
        self.space.store().confirm()?;
        cx.count("computed", rows as u64);
        for Part { place, found, .. } in parts {
            let (found, nearest) = (found?, &mut self.nearest[place]);
            if nearest.is_empty() {
                *nearest = found;
                continue;
            }
            more(nearest, found.len(), || WHAT.to_owned(), ADVICE)?;
            nearest.extend(found);
            if nearest.len() >= k.saturating_mul(2).saturating_add(SLACK) {
                cut(nearest, k);
            }
        }
        Ok(())
    }

    /// Sorts what was found.
    fn finish(&mut self, cx: &mut Context<'_>) -> Answers {
        let mut nearest = std::mem::take(&mut self.nearest);
        let k = self.k;
        cx.inside(|inside| {
            let cancelled = inside.cancelled();
            inside.for_each_chunk_of(&mut nearest, SORTED_AT_ONCE, |_, nearest| {
                for found in nearest.iter_mut().filter(|_| !cancelled()) {
                    cut(found, k);
                    found.sort_unstable_by(order);
                }
            });
        });
        let numbers = self.queries.iter().flat_map(Queries::iter).map(|query| query.number);
        Answers::new(numbers.zip(nearest).collect())
    }
}

/// The exact distances of some objects, with their ids.
fn distances(
    query: &Query,
    ids: &[u64],
    is_signed: bool,
    interrupt: Interrupt<'_>,
) -> Result<Vec<(f64, u64)>, BoxError> {
    let mut distances = vec![0.0; ids.len()];
    // Fast distances are of objects in the order of the store.
    let is_fast = query.prepared.is_exact() && ids.is_sorted();
    match is_fast {
        true => query.prepared.fast_until(&mut Scratch::default(), ids, &mut distances, interrupt)?,
        false => query.prepared.exact_until(ids, &mut distances, interrupt)?,
    }
    ids.iter().zip(&distances).try_for_each(|(id, distance)| check(*id, *distance, is_signed))?;
    Ok(distances.into_iter().zip(ids.iter().copied()).collect())
}

#[cfg(test)]
mod tests;
