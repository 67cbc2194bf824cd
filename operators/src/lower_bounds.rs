//! `lower_bounds`: the objects that an index cannot rule out, and a range that the answers lie within.
//!
//! Invariants: an object that is left out is beyond the range in f64, strictly, so that of equal distances none is
//! lost. The range is no less than the f64 distance of the k-th answer: it is the k-th smallest upper bound, or the
//! range asked for.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use arrow_array::{ArrayRef, Float64Array, UInt32Array, UInt64Array};
use boxwork_kernels::CodePath;
use boxwork_kernels::lower_bound::{Bound, BoundQuery, Bounds, Evaluator};
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::operator::{
    Bind, BoxError, Context, Flow, Hint, Input, Join, Kind, Operator, OperatorSpec, Output, Pushed,
};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};

use crate::domain::columns;
use crate::domain::cost_model::{self, Probe, Search};
use crate::domain::pivot_table::PivotTable;
use crate::domain::signature::SignatureColumns;
use crate::queries::Queries;

/// Blocks, counted once for each query, that one firing bounds: some milliseconds' worth.
const BLOCKS_PER_FIRING: usize = 1024;
/// Blocks that are bounded by one closure.
const BLOCKS_PER_CHUNK: usize = 32;
/// Rows of an envelope at most.
const ENVELOPE_ROWS: usize = 4096;
/// Bounds the distances of all objects and emits those that may be among the answers.
///
/// Every object's distance is bounded from below and above by the distances to the pivots, which are computed for
/// each query in f64. The k-th smallest upper bound is a range that holds the k nearest, before any distance of an
/// object is known (section 4.6.2 of the source calls it misestimation when such a range is too small; this one never
/// is). An object whose lower bound is above the range is left out.
///
/// # Inputs
/// `queries` (side): the queries.
///
/// # Outputs
/// `candidates`: the objects left with their lower bounds, by query, ids ascending.
///
/// # Hints
/// `range`, written: a distance that no object of the answer is beyond.
///
/// # Parameters
/// `pivots`: the index. `bound`: which bound; `none` rules nothing out; `auto` measures on some of the objects what
/// bounds and distances take and how many objects are left, takes what is fastest, and rules nothing out where a scan
/// is. `k`: how many objects a query gets; without it no range comes from upper bounds. `range`: if given, only objects
/// at most this far. `remember`: objects left of all queries together, 16 bytes each; where there are more, all are
/// bounded once more when they are sent.
pub static LOWER_BOUNDS: OperatorSpec = OperatorSpec {
    parameters: &[
        Parameter::new(
            "pivots",
            ParameterType::Resource("pivot_table"),
            Default::Required,
            "the index of the store that is searched",
        ),
        Parameter::new(
            "bound",
            ParameterType::Choice(&["auto", "none", "triangular", "ptolemaic", "combined", "simplex"]),
            Default::Text("auto"),
            "what rules objects out; auto takes what pays by a sample, and none where a scan is faster",
        ),
        Parameter::new(
            "k",
            ParameterType::integer_from(1),
            Default::Absent,
            "how many objects a query gets: their range then comes from upper bounds",
        )
        .unit("objects"),
        Parameter::new(
            "range",
            ParameterType::Number { minimum: 0.0, maximum: f64::MAX },
            Default::Absent,
            "leave out objects farther than this",
        ),
        Parameter::new(
            "remember",
            ParameterType::Integer { minimum: 0, maximum: 1 << 32 },
            Default::Integer(4 << 20),
            "objects left that are kept in memory; where there are more, all are bounded twice",
        )
        .unit("objects"),
    ],
    inputs: &[Input::side("queries", columns::queries, "the queries")],
    outputs: &[Output::new("candidates", columns::candidates, "the objects that are not ruled out")],
    hints_written: &[Hint {
        name: "range",
        join: Join::Minimum,
        about: "a distance that no object of the answer is beyond",
    }],
    example: "bounds: {kind: lower_bounds, pivots: table, bound: auto, k: 10}",
    code_path: Some(|_| CodePath::detect().to_string()),
    ..OperatorSpec::new("lower_bounds", "Rules out objects by an index.", Kind::Stateful, make)
};

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    let bound = match bind.text("bound") {
        "none" => None,
        "auto" => Some(Bound::Simplex),
        name => Some(name.parse::<Bound>()?),
    };
    Ok(Box::new(LowerBounds {
        table: bind.resource("pivots")?,
        evaluator: Evaluator::new(CodePath::detect()),
        bound,
        is_auto: bind.text("bound") == "auto",
        k: bind.get_integer("k").and_then(|k| usize::try_from(k).ok()),
        limit: bind.get_number("range").map_or(f32::INFINITY, above),
        remember: bind.count("remember"),
        queries: None,
        bounded: 0,
        left: Some(0),
        sending: Sending { query: 0, place: 0 },
    }))
}

struct LowerBounds {
    table: Arc<PivotTable>,
    evaluator: Evaluator,
    bound: Option<Bound>,
    /// Whether the bound is given up where it does not pay.
    is_auto: bool,
    k: Option<usize>,
    /// The range asked for.
    limit: f32,
    remember: usize,
    queries: Option<Vec<Bounded>>,
    /// Blocks that are done.
    bounded: usize,
    /// Objects remembered of all queries; nothing when they were too many.
    left: Option<usize>,
    sending: Sending,
}

/// One query, and what is known of the objects so far.
struct Bounded {
    number: u32,
    query: Option<BoundQuery>,
    /// The bits of the range as an f32: those of positive numbers are in the numbers' order. Whoever reads an old one
    /// leaves out less.
    range: AtomicU32,
    found: Found,
}

/// What the bounds of some blocks say for one query.
#[derive(std::default::Default)]
struct Found {
    /// The smallest upper bounds, at least k of them where there are as many.
    uppers: Vec<f32>,
    /// Objects not ruled out, by id, with their lower bounds.
    left: Vec<(u64, f32)>,
}

/// How far the answers are sent.
struct Sending {
    query: usize,
    /// An object remembered, or a block.
    place: usize,
}

impl Operator for LowerBounds {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        if self.queries.is_none() {
            self.prepare(cx)?;
            return Ok(Flow::More);
        }
        if self.bounded < self.table.blocks() {
            self.bound_blocks(cx);
            cx.progress(self.table.ids(self.bounded - 1).end, self.table.len());
            if self.bounded == self.table.blocks() {
                for query in self.queries.iter().flatten() {
                    cx.join_hint("range", query.number, f64::from(query.range()));
                }
            }
            return Ok(if cx.is_cancelled() { Flow::Done } else { Flow::More });
        }
        self.send(cx)
    }
}

impl LowerBounds {
    /// Computes the queries' distances to the pivots.
    fn prepare(&mut self, cx: &mut Context<'_>) -> Result<(), BoxError> {
        let (table, space) = (&self.table, self.table.space());
        let pivots = table.pivots();
        if !space.store().is_in(pivots.iter().copied()) {
            let store = space.store();
            cx.detached("disk", || store.bring_in(pivots.iter().copied()))??;
        }
        let queries = Queries::new(cx.side("queries"), space)?;
        let mut centroids = Vec::new();
        for envelope in cx.side("queries") {
            let columns = SignatureColumns::new(envelope.lists("signature")?)?;
            let numbers = envelope.u32s("query")?.iter().enumerate();
            centroids.extend(numbers.map(|(row, number)| (*number, columns.signature(row).len())));
        }
        centroids.sort_unstable();
        let mut distances: Vec<Result<Vec<f64>, BoxError>> = queries.iter().map(|_| Ok(Vec::new())).collect();
        if self.bound.is_some() {
            cx.inside(|inside| {
                inside.for_each_chunk_of(&mut distances, 1, |idx, distances| {
                    distances[0] = queries.at(idx).exact(space, pivots);
                });
            });
        }
        let distances: Vec<Vec<f64>> = distances.into_iter().collect::<Result<_, _>>()?;
        if self.is_auto {
            let search = Search {
                k: self.k,
                range: self.limit.is_finite().then_some(f64::from(self.limit)),
                queries: distances.len(),
                workers: 1,
            };
            let probes =
                queries.iter().zip(&distances).zip(&centroids).map(|((query, distances), (_, centroids))| {
                    Probe { prepared: &query.prepared, distances, centroids: *centroids }
                });
            self.bound = cost_model::choose(&self.table, search, &probes.collect::<Vec<_>>())?;
        }
        let mut prepared = Vec::new();
        for ((query, distances), (_, centroids)) in queries.iter().zip(distances).zip(centroids) {
            let bound = self.bound.map(|bound| {
                let made = table.query(bound, &distances, query.prepared.sigma_self(), centroids);
                made.map_err(|error| {
                    BoxError::new(format!("query {} and `{}`: {error}", query.number, table.path().display()))
                })
            });
            prepared.push(Bounded {
                number: query.number,
                query: bound.transpose()?,
                range: AtomicU32::new(self.limit.to_bits()),
                found: Found::default(),
            });
        }
        if prepared.is_empty() || self.bound.is_none() {
            // Nothing to bound: whatever is sent is bounded then, by nothing.
            self.bounded = self.table.blocks();
            self.left = None;
        }
        self.queries = Some(prepared);
        Ok(())
    }

    /// Bounds the next blocks for all queries.
    fn bound_blocks(&mut self, cx: &mut Context<'_>) {
        let Some(queries) = &mut self.queries else { return };
        let count = (BLOCKS_PER_FIRING / queries.len()).max(BLOCKS_PER_CHUNK);
        let blocks = self.bounded..self.table.blocks().min(self.bounded + count);
        let chunks = blocks.len().div_ceil(BLOCKS_PER_CHUNK);
        let mut parts: Vec<Vec<Found>> = (0..chunks).map(|_| Vec::new()).collect();
        let (table, evaluator, k, keeps) = (&self.table, &self.evaluator, self.k, self.left.is_some());
        let shared: &[Bounded] = queries;
        cx.inside(|inside| {
            inside.for_each_chunk_of(&mut parts, 1, |chunk, part| {
                let first = blocks.start + chunk * BLOCKS_PER_CHUNK;
                let mut found: Vec<Found> = shared.iter().map(|_| Found::default()).collect();
                let mut bounds = Bounds::default();
                for block in first..blocks.end.min(first + BLOCKS_PER_CHUNK) {
                    // All queries of a block while it is near.
                    for (query, found) in shared.iter().zip(&mut found) {
                        let Some(prepared) = &query.query else { continue };
                        evaluator.bounds(prepared, table.block(block), &mut bounds);
                        query.see(table.ids(block), &bounds, k, keeps, found);
                    }
                }
                part[0] = found;
            });
        });
        let mut left = 0;
        for part in parts {
            for (query, found) in queries.iter_mut().zip(part) {
                query.found.uppers.extend(found.uppers);
                query.found.left.extend(found.left);
            }
        }
        for query in queries.iter_mut() {
            query.narrow(k);
            left += query.found.left.len();
        }
        self.bounded = blocks.end;
        self.left = self.left.map(|_| left).filter(|left| *left <= self.remember);
        if self.left.is_none() {
            queries.iter_mut().for_each(|query| query.found.left = Vec::new());
        }
    }

    /// Sends what is left, query after query.
    fn send(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        let Some(queries) = &self.queries else { return Ok(Flow::Done) };
        let mut bounds = Bounds::default();
        while let Some(query) = queries.get(self.sending.query) {
            if !cx.has_room("candidates") {
                return Ok(Flow::Wait);
            }
            let range = query.range();
            let (mut ids, mut lowers) = (Vec::new(), Vec::new());
            if self.left.is_some() {
                let rest = &query.found.left[self.sending.place..];
                let mut seen = 0;
                for (id, lower) in rest {
                    seen += 1;
                    if *lower <= range {
                        ids.push(*id);
                        lowers.push(f64::from(*lower));
                    }
                    if ids.len() == ENVELOPE_ROWS {
                        break;
                    }
                }
                self.sending.place += seen;
                if self.sending.place == query.found.left.len() {
                    self.sending = Sending { query: self.sending.query + 1, place: 0 };
                }
            } else {
                while ids.len() < ENVELOPE_ROWS && self.sending.place < self.table.blocks() {
                    if let Some(prepared) = &query.query {
                        self.evaluator.bounds(prepared, self.table.block(self.sending.place), &mut bounds);
                    }
                    for (id, lower) in self.table.ids(self.sending.place).zip(bounds.lower.iter().copied()) {
                        if lower <= range {
                            ids.push(id);
                            lowers.push(f64::from(lower));
                        }
                    }
                    self.sending.place += 1;
                }
                if self.sending.place == self.table.blocks() {
                    self.sending = Sending { query: self.sending.query + 1, place: 0 };
                }
            }
            if ids.is_empty() {
                continue;
            }
            let columns: [(&str, ArrayRef); 3] = [
                ("query", Arc::new(UInt32Array::from(vec![query.number; ids.len()]))),
                ("id", Arc::new(UInt64Array::from(ids))),
                ("lower", Arc::new(Float64Array::from(lowers))),
            ];
            if cx.push("candidates", Envelope::from_columns(columns)?)? == Pushed::Closed {
                return Ok(Flow::Done);
            }
        }
        Ok(Flow::Done)
    }
}

impl Bounded {
    fn range(&self) -> f32 {
        f32::from_bits(self.range.load(Ordering::Relaxed))
    }

    /// Takes the bounds of a block's objects into account; called by many threads, each with its own `found`.
    fn see(
        &self,
        ids: std::ops::Range<u64>,
        bounds: &Bounds,
        k: Option<usize>,
        keeps: bool,
        found: &mut Found,
    ) {
        let rows = (ids.end - ids.start) as usize;
        if let Some(k) = k {
            let range = self.range();
            found.uppers.extend(bounds.upper[..rows].iter().copied().filter(|upper| *upper <= range));
            if found.uppers.len() >= 2 * k + bounds.upper.len()
                && let Some(kth) = cut(&mut found.uppers, k)
            {
                self.range.fetch_min(kth.to_bits(), Ordering::Relaxed);
            }
        }
        if keeps {
            let range = self.range();
            let left = ids.zip(bounds.lower.iter().copied()).filter(|(_, lower)| *lower <= range);
            found.left.extend(left);
        }
    }

    /// Learns the k-th smallest upper bound of all seen, and forgets what it rules out.
    fn narrow(&mut self, k: Option<usize>) {
        if let Some(kth) = k.and_then(|k| cut(&mut self.found.uppers, k)) {
            self.range.fetch_min(kth.to_bits(), Ordering::Relaxed);
        }
        let range = self.range();
        self.found.left.retain(|(_, lower)| *lower <= range);
    }
}

/// Keeps the k smallest and gives the largest of them, where there are as many.
fn cut(uppers: &mut Vec<f32>, k: usize) -> Option<f32> {
    if uppers.len() < k {
        return None;
    }
    let (_, kth, _) = uppers.select_nth_unstable_by(k - 1, f32::total_cmp);
    let kth = *kth;
    uppers.truncate(k);
    Some(kth)
}

/// The f32 at or above a number that is not negative.
fn above(number: f64) -> f32 {
    let near = number as f32;
    if f64::from(near) < number { near.next_up() } else { near }
}

#[cfg(test)]
mod tests {
    use boxwork_runtime::harness::Harness;
    use boxwork_runtime::operator::Resource;
    use boxwork_runtime::parameter::Value;
    use proptest::prelude::*;

    use super::*;
    use crate::domain::signature_store::StoreInfo;
    use crate::domain::space::SqfdSpace;
    use crate::testing;

    /// Objects of these seeds, bounded for queries; what is left must hold all answers and what the hint says too.
    fn check(seeds: &[u64], pivots: &[u64], bound: &str, k: Option<usize>, range: Option<f64>) -> usize {
        let folder = tempfile::tempdir().unwrap();
        let names: Vec<String> = (0..seeds.len()).map(|idx| idx.to_string()).collect();
        let objects: Vec<(&str, u64)> = names.iter().map(String::as_str).zip(seeds.iter().copied()).collect();
        let space = testing::space(testing::store_of(folder.path(), &objects, &StoreInfo::default()));
        let table = testing::pivot_table(&space, pivots, folder.path());
        let side = testing::queries(&[("q0", seeds[0]), ("q1", 7777), ("q2", seeds[seeds.len() / 2])]);
        check_on(&space, &table, side, bound, k, range)
    }

    fn check_on(
        space: &Arc<SqfdSpace>,
        table: &Arc<PivotTable>,
        side: Envelope,
        bound: &str,
        k: Option<usize>,
        range: Option<f64>,
    ) -> usize {
        let resource: Resource = Arc::clone(table) as Resource;
        let mut given = vec![("pivots", Value::Text("t".into())), ("bound", Value::Text(bound.into()))];
        given.extend(k.map(|k| ("k", Value::Integer(k as i64))));
        given.extend(range.map(|range| ("range", Value::Number(range))));
        let mut harness = Harness::with_resources(&LOWER_BOUNDS, given, [("t", resource)]).unwrap();
        harness.give("queries", side.clone());
        harness.room(1);
        let mut left = vec![Vec::new(); 3];
        while !harness.is_done() {
            harness.run().unwrap();
            for envelope in harness.taken("candidates") {
                let (numbers, ids) = (envelope.u32s("query").unwrap(), envelope.u64s("id").unwrap());
                for (row, lower) in envelope.f64s("lower").unwrap().iter().enumerate() {
                    left[numbers[row] as usize].push((ids[row], *lower));
                }
            }
        }
        let queries = Queries::new(std::slice::from_ref(&side), space).unwrap();
        let all: Vec<u64> = (0..space.store().len()).collect();
        for (query, left) in queries.iter().zip(&left) {
            assert!(left.is_sorted_by(|a, b| a.0 < b.0));
            let exact = query.exact(space, &all).unwrap();
            assert!(left.iter().all(|(id, lower)| *lower <= exact[*id as usize]));
            let mut ranked: Vec<f64> = exact.clone();
            ranked.sort_by(f64::total_cmp);
            let kth = k.filter(|k| *k <= ranked.len()).map_or(f64::INFINITY, |k| ranked[k - 1]);
            let farthest = kth.min(range.unwrap_or(f64::INFINITY));
            if !["auto", "none"].contains(&bound) {
                assert!(harness.hint("range", query.number) >= farthest);
            }
            for (id, distance) in exact.iter().enumerate() {
                let is_left = left.binary_search_by_key(&(id as u64), |left| left.0).is_ok();
                assert!(is_left || *distance > farthest, "object {id} at {distance} of {farthest} is lost");
            }
        }
        left.iter().map(Vec::len).sum()
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn no_answer_is_ruled_out(
            // Few seeds, so that many objects are alike.
            seeds in prop::collection::vec(0u64..60, 1..400),
            pivots in prop::collection::vec(0usize..1000, 1..7),
            bound in prop::sample::select(vec!["auto", "triangular", "ptolemaic", "combined", "simplex"]),
            k in prop::option::of(1usize..50),
            range in prop::option::of(0.0f64..1.0),
        ) {
            let pivots: Vec<u64> = pivots.into_iter().map(|pivot| (pivot % seeds.len()) as u64).collect();
            if pivots.len() <= seeds.len() {
                check(&seeds, &pivots, bound, k, range);
            }
        }
    }

    #[test]
    fn a_bound_rules_out_and_none_does_not() {
        let seeds: Vec<u64> = (0..2000).collect();
        let pivots = [1, 30, 200, 999, 1500, 77, 5, 1234];
        assert_eq!(check(&seeds, &pivots, "none", Some(5), None), 6000);
        let [triangular, combined, simplex] =
            ["triangular", "combined", "simplex"].map(|bound| check(&seeds, &pivots, bound, Some(5), None));
        assert!(simplex < combined && combined <= triangular && triangular < 6000);
        assert!(simplex < 2000, "{simplex} of 6000 are left");
    }

    #[test]
    fn what_is_too_much_to_remember_is_bounded_again() {
        let folder = tempfile::tempdir().unwrap();
        let space = testing::space(testing::store(folder.path(), 700));
        let table = testing::pivot_table(&space, &[3, 9, 500], folder.path());
        let rows = |remember: i64| {
            let resource: Resource = Arc::clone(&table) as Resource;
            let given = [
                ("pivots", Value::Text("t".into())),
                ("k", Value::Integer(9)),
                ("remember", Value::Integer(remember)),
            ];
            let mut harness = Harness::with_resources(&LOWER_BOUNDS, given, [("t", resource)]).unwrap();
            harness.give("queries", testing::queries(&[("q0", 4), ("q1", 5000)]));
            harness.run().unwrap();
            assert!(harness.is_done());
            let rows = |envelope: &Envelope| -> Vec<(u32, u64, f64)> {
                let (numbers, ids) = (envelope.u32s("query").unwrap(), envelope.u64s("id").unwrap());
                let lowers = envelope.f64s("lower").unwrap().iter();
                lowers.enumerate().map(|(row, lower)| (numbers[row], ids[row], *lower)).collect()
            };
            harness.taken("candidates").iter().flat_map(rows).collect::<Vec<_>>()
        };
        let remembered = rows(1 << 20);
        assert!(!remembered.is_empty());
        assert_eq!(rows(0), remembered);
    }
}
