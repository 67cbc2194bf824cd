//! `top_k`: the nearest objects of each query, exactly.
//!
//! Invariant: the output is the k smallest (f64 distance, id), on whatever path the input was computed. With `r` the
//! k-th smallest input distance and `e` the error of the fast paths, the k objects that look nearest are truly within
//! `r + e(r)` of the query, so the k-th true distance is too; and an object within that distance may look as far as it
//! plus its error. So candidates up to two errors beyond `r` are kept.

use std::sync::{Arc, OnceLock};

use boxwork_kernels::interrupt::Interrupt;
use boxwork_kernels::memory::{more, room};
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::operator::{
    Bind, BoxError, Context, Flow, HintOut, In, Join, Kind, Operator, OperatorSpec, Out, Pushed,
};
use boxwork_runtime::parameter::Default;

use crate::columns::{self, distances_envelope};
use crate::resources::{self, SPACE, check_range, get_range, range_parameter};
use crate::search::queries::{K, Queries, Query};
use boxwork_stores::space::Space;

/// Rows of an envelope at most.
const ENVELOPE_ROWS: usize = 4096;

/// The list is cut when this many candidates beyond k have come: a cut costs as much as the list is long.
const SLACK: usize = 1024;

/// Names the list and gives advice in an error about memory.
pub(crate) const WHAT: &str = "the list of what may be among the nearest";
pub(crate) const ADVICE: &str = "take a smaller `k`, or free memory";

/// f64 distances of one firing: some milliseconds.
const EXACT_PER_FIRING: usize = 256;

/// f64 distances that are worth another slot: a tenth of a millisecond.
const EXACT_PER_CHUNK: usize = 8;

const DISTANCES: In = In::stream(0, "distances", columns::distances, "distances of objects");
pub(super) const QUERY: In = In::side(1, "query", columns::queries, "the queries");
pub(super) const NEAREST: Out =
    Out::new(0, "nearest", columns::distances, "the k nearest of each query, in order");
const RANGE: HintOut = HintOut::new(0, "range", Join::Minimum, "a distance that contains the whole answer");

/// Keeps the k nearest objects of each query.
///
/// # Inputs
/// `distances`: distances of objects, no object twice for one query. `query` (side): the queries.
///
/// # Outputs
/// `nearest`: the k nearest of each query with their f64 distances, by query, then distance, then id; fewer if fewer
/// came in.
///
/// # Hints
/// `range`, written: for each query a distance that contains the whole answer: the k-th so far, plus the error of the
/// fast paths. Producers may drop objects beyond it.
///
/// # Parameters
/// `k`: the number of objects. `space`: the space of the distances. `range`: if given, keeps only objects at most this
/// far.
pub static TOP_K: OperatorSpec = OperatorSpec {
    parameters: &[K, SPACE, range_parameter(Default::Absent, "exclude objects farther than this")],
    inputs: &[DISTANCES, QUERY],
    outputs: &[NEAREST],
    hints_written: &[RANGE],
    check: Some(check_range),
    example: "top: {kind: top_k, k: 10, space: space}",
    ..OperatorSpec::new("top_k", "Keeps the k nearest objects of each query.", Kind::Stateful, make)
};

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    let space = resources::space(bind)?;
    Ok(Box::new(TopK {
        range: get_range(bind, &*space)?.unwrap_or(f64::INFINITY),
        is_signed: space.properties().signed,
        space,
        k: bind.count("k"),
        queries: None,
        nearest: Vec::new(),
        ranking: None,
    }))
}

struct TopK {
    k: usize,
    range: f64,
    /// Whether distances may be negative.
    is_signed: bool,
    space: Arc<dyn Space>,
    queries: Option<Queries>,
    /// By the query's place.
    nearest: Vec<Nearest>,
    /// The position of the f64 ranking, once all distances have come.
    ranking: Option<Ranking>,
}

/// The candidates for the k nearest of one query.
struct Nearest {
    /// Sorted by the input distance.
    found: Vec<(f64, u64)>,
    /// The k-th smallest input distance.
    kth: f64,
    /// No true distance of the answer is beyond.
    range: f64,
    /// No input distance of the answer is beyond.
    limit: f64,
    /// The list is cut at this length.
    cut_at: usize,
    /// Whether anything has come since `kth` was computed.
    is_fresh: bool,
}

#[derive(std::default::Default)]
struct Ranking {
    query_idx: usize,
    exact: Vec<(f64, u64)>,
    rows: Vec<(u32, u64, f64)>,
    sent: usize,
}

impl Operator for TopK {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        if self.queries.is_none() {
            let queries = Queries::of_side(cx, QUERY, &self.space)?;
            for query in queries.iter() {
                let mut nearest = Nearest::new();
                nearest.set_limit(query, self.range);
                if self.range.is_finite() {
                    cx.join_hint(RANGE, query.number, self.range);
                }
                self.nearest.push(nearest);
            }
            self.queries = Some(queries);
        }
        let Some(queries) = &self.queries else { return Ok(Flow::Done) };
        if self.ranking.is_none() {
            while let Some(envelope) = cx.take(DISTANCES) {
                let limits = (self.range, self.is_signed);
                take(&envelope, queries, &mut self.nearest, limits, &|| cx.is_cancelled())?;
                for (query, nearest) in queries.iter().zip(&mut self.nearest) {
                    if nearest.learn(self.k) {
                        nearest.set_limit(query, self.range);
                        cx.join_hint(RANGE, query.number, nearest.range);
                    }
                    if nearest.found.len() >= nearest.cut_at {
                        nearest.cut();
                    }
                }
            }
            if !cx.is_ended(DISTANCES) {
                return Ok(Flow::Wait);
            }
            self.nearest.iter_mut().for_each(Nearest::cut);
        }
        self.rank(cx)
    }
}

/// Refuses the exact distance of an object that is no number of its kind.
pub(super) fn check(id: u64, distance: f64, is_signed: bool) -> Result<(), BoxError> {
    match distance.is_finite() && (is_signed || distance.is_sign_positive()) {
        true => Ok(()),
        false => Err(BoxError::new(format!("the distance of object {id} is {distance}"))),
    }
}

/// Sorts the rows of an envelope by query.
fn take(
    envelope: &Envelope,
    queries: &Queries,
    nearest: &mut [Nearest],
    (range, is_signed): (f64, bool),
    interrupt: Interrupt<'_>,
) -> Result<(), BoxError> {
    let (numbers, ids, distances) =
        (envelope.u32s("query")?, envelope.u64s("id")?, envelope.f64s("distance")?);
    let mut first = 0;
    for run in numbers.chunk_by(|a, b| a == b) {
        let rows = first..first + run.len();
        first = rows.end;
        let idx = queries.idx(run[0])?;
        let (query, nearest) = (queries.at(idx), &mut nearest[idx]);
        if query.prepared.see(&ids[rows.clone()], interrupt)? {
            nearest.set_limit(query, range);
        }
        let is_exact = query.prepared.is_exact();
        for row in rows {
            let distance = distances[row];
            if is_exact {
                check(ids[row], distance, is_signed)?;
            }
            if distance <= nearest.limit {
                more(&mut nearest.found, 1, || WHAT.to_owned(), ADVICE)?;
                nearest.found.push((distance, ids[row]));
                nearest.is_fresh = true;
            }
        }
    }
    Ok(())
}

impl Nearest {
    fn new() -> Self {
        Self {
            found: Vec::new(),
            kth: f64::INFINITY,
            range: f64::INFINITY,
            limit: f64::INFINITY,
            cut_at: SLACK,
            is_fresh: false,
        }
    }

    /// Updates the k-th distance; returns whether it has fallen.
    fn learn(&mut self, k: usize) -> bool {
        if !std::mem::take(&mut self.is_fresh) || self.found.len() < k {
            return false;
        }
        let (_, kth, _) = self.found.select_nth_unstable_by(k - 1, |a, b| a.0.total_cmp(&b.0));
        let kth = kth.0;
        std::mem::replace(&mut self.kth, kth) > kth
    }

    /// Sets the limits from the k-th distance and the range given.
    fn set_limit(&mut self, query: &Query, range: f64) {
        let widened = |range: f64| match range.is_finite() {
            true => query.prepared.widened(range),
            false => f64::INFINITY,
        };
        self.range = widened(self.kth).min(range);
        self.limit = widened(self.range);
    }

    /// Drops candidates that can no longer be in the answer.
    fn cut(&mut self) {
        let limit = self.limit;
        self.found.retain(|found| found.0 <= limit);
        // Many objects at one distance stay: new ones must not cause a cut each time.
        self.cut_at = 2 * self.found.len() + SLACK;
    }
}

impl TopK {
    /// Computes the remaining candidates in f64, query after query, and sends the answers.
    fn rank(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        let ranking = self.ranking.get_or_insert_default();
        let Some(queries) = &self.queries else { return Ok(Flow::Done) };
        if let Some(nearest) = self.nearest.get_mut(ranking.query_idx) {
            let query = queries.at(ranking.query_idx);
            if query.prepared.is_exact() {
                ranking.exact = std::mem::take(&mut nearest.found);
            } else if ranking.exact.is_empty() {
                // In the order of storage.
                nearest.found.sort_unstable_by_key(|found| std::cmp::Reverse(found.1));
                ranking.exact = room(nearest.found.len(), || WHAT.to_owned(), ADVICE)?;
            }
            let from = nearest.found.len().saturating_sub(EXACT_PER_FIRING);
            let ids: Vec<u64> = nearest.found.drain(from..).rev().map(|(_, id)| id).collect();
            let store = self.space.store();
            resources::bring_in(cx, &**store, &ids)?;
            let (mut exact, failed) = (vec![0.0; ids.len()], OnceLock::new());
            // While a device computes, slots are idle, so they share the ranking.
            cx.inside(|inside| {
                let cancelled = inside.cancelled();
                inside.for_each_chunk_of(&mut exact, EXACT_PER_CHUNK, |first, exact| {
                    match query.prepared.exact_until(&ids[first..first + exact.len()], exact, &cancelled) {
                        Ok(()) => {}
                        // The first error is reported.
                        Err(error) => drop(failed.set(error)),
                    }
                });
            });
            if let Some(error) = failed.into_inner() {
                return Err(error.into());
            }
            ranking.exact.extend(exact.into_iter().zip(ids));
            if nearest.found.is_empty() {
                let mut exact = std::mem::take(&mut ranking.exact);
                exact.retain(|found| found.0 <= self.range);
                exact.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
                more(&mut ranking.rows, exact.len().min(self.k), || WHAT.to_owned(), ADVICE)?;
                let rows = exact.into_iter().take(self.k);
                ranking.rows.extend(rows.map(|(distance, id)| (query.number, id, distance)));
                ranking.query_idx += 1;
            }
            return Ok(Flow::More);
        }
        while ranking.sent < ranking.rows.len() {
            if !cx.has_room(NEAREST) {
                return Ok(Flow::Wait);
            }
            let upto = ranking.rows.len().min(ranking.sent + ENVELOPE_ROWS);
            let envelope = distances_envelope(&ranking.rows[ranking.sent..upto])?;
            ranking.sent = upto;
            if cx.push(NEAREST, envelope)? == Pushed::Closed {
                return Ok(Flow::Done);
            }
        }
        Ok(Flow::Done)
    }
}

#[cfg(test)]
mod tests {
    use boxwork_runtime::harness::Harness;
    use boxwork_runtime::operator::Resource;
    use boxwork_runtime::parameter::Value;
    use proptest::prelude::*;

    use super::*;
    use boxwork_stores::signature_store::StoreInfo;
    use boxwork_stores::testing;

    /// Ranks objects whose distances are off by their largest error, in the directions that `wrong` gives, and compares
    /// with a sort of all in f64.
    fn check(
        seeds: &[u64],
        k: usize,
        range: Option<f64>,
        rows_per_envelope: usize,
        wrong: impl Fn(u64) -> f64,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let names: Vec<String> = (0..seeds.len()).map(|idx| format!("a/{idx}")).collect();
        let objects: Vec<(&str, u64)> = names.iter().map(String::as_str).zip(seeds.iter().copied()).collect();
        let store = testing::store_of(folder.path(), &objects, &StoreInfo::default());
        let space = testing::space(store);
        let side = testing::queries(&[("q0", seeds[0]), ("q1", 77), ("q2", 78)]);
        let queries = Queries::new(std::slice::from_ref(&side), &testing::any_space(&space)).unwrap();
        let ids: Vec<u64> = (0..seeds.len() as u64).collect();
        let (mut rows, mut expected) = (Vec::new(), Vec::new());
        // The third query gets no distances.
        for query in queries.iter().take(2) {
            let exact = query.exact(&ids).unwrap();
            for (id, distance) in ids.iter().zip(&exact) {
                let error = query.sqfd().prepared().distance_error(*distance, 0.0);
                rows.push((query.number, *id, (distance + wrong(*id) * error).max(0.0)));
            }
            let mut ranked: Vec<(f64, u64)> = exact.into_iter().zip(ids.iter().copied()).collect();
            ranked.retain(|(distance, _)| *distance <= range.unwrap_or(f64::INFINITY));
            ranked.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            expected.extend(ranked.into_iter().take(k).map(|(distance, id)| (query.number, id, distance)));
        }
        let resource: Resource = testing::shared_space(&space);
        let mut given = vec![("k", Value::Integer(k as i64)), ("space", Value::Text("s".into()))];
        given.extend(range.map(|range| ("range", Value::Number(range))));
        let mut harness = Harness::with_resources(&TOP_K, given, [("s", resource)]).unwrap();
        harness.give(QUERY, side);
        rows.sort_by_key(|row| (row.1 * 7919 + u64::from(row.0)) % 101);
        for rows in rows.chunks(rows_per_envelope) {
            harness.give(DISTANCES, testing::distances(rows));
            harness.run().unwrap();
        }
        for number in 0..2u32 {
            let farthest = expected.iter().filter(|row| row.0 == number).map(|row| row.2).fold(0.0, f64::max);
            assert!(harness.hint(RANGE, number) >= farthest, "the hint leaves an answer out");
            if seeds.len() >= k {
                assert!(harness.hint(RANGE, number) < farthest + 0.01 || range.is_some());
            }
        }
        assert!(!harness.is_done() && harness.taken(NEAREST).is_empty());
        harness.end(DISTANCES);
        harness.run().unwrap();
        assert!(harness.is_done());
        let found = testing::distance_rows(&harness.taken(NEAREST));
        assert_eq!(found, expected);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn ranks_as_a_sort_of_all(
            // Few seeds, so that many objects are equal and ids decide.
            seeds in prop::collection::vec(0u64..40, 1..120),
            k in 1usize..30,
            range in prop::option::of(0.0f64..1.5),
            rows_per_envelope in 1usize..60,
            direction in 0u64..4,
        ) {
            check(&seeds, k, range, rows_per_envelope, |id| match direction {
                0 => 0.0,
                1 => 0.95,
                2 => [0.95, -0.95][id as usize % 2],
                _ => -0.95,
            });
        }
    }

    #[test]
    fn more_than_there_are_gives_all_and_a_long_list_is_cut() {
        let seeds: Vec<u64> = (0..3000).collect();
        check(&seeds[..50], 1000, None, 7, |_| 0.0);
        check(&seeds, 5, None, 4096, |_| 0.9);
        check(&[9; 2500], 3, None, 100, |id| if id % 3 == 0 { -0.9 } else { 0.9 });
        check(&[9; 300], 1, Some(0.0), 100, |_| 0.9);
    }
}
