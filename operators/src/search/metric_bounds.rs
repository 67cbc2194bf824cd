//! `metric_bounds`: the objects of a metric space that its pivots cannot rule out.
//!
//! Invariants: those of `lower_bounds`: an object that is left out is beyond the range, strictly; the range is no less
//! than the distance of the k-th answer. A bound that is not sound for the space's distance is a fault of the plan.

use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, UInt32Array, UInt64Array};
use boxwork_kernels::CodePath;
use boxwork_kernels::lower_bound::{Bound, Evaluator};
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::operator::{
    Bind, BoxError, Context, Flow, Hint, Input, Join, Kind, Operator, OperatorSpec, Output, Pushed,
};
use boxwork_runtime::parameter::{Arguments, Default, Parameter, ParameterType, Value};

use crate::columns;
use boxwork_stores::metric_pivots::{MetricPivots, evaluator};
use boxwork_stores::metric_query::{MetricQuery, queries};
use boxwork_stores::metric_space::planned_measure;

/// Rows of an envelope at most.
const ENVELOPE_ROWS: usize = 4096;

/// Rules out objects of a metric space by their distances to pivots.
///
/// Every object's distance is bounded from below and above; the k-th smallest upper bound is a range that holds the k
/// nearest. A bound must be sound for the distance: `triangular` for every metric, `ptolemaic` and `combined` where
/// Ptolemy's inequality holds (l2, sqfd, every root), `simplex` for Hilbert distances (l2, sqfd, the roots of l1 and
/// jaccard). `auto` takes the tightest that is.
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
/// `pivots`: the pivots. `bound`: as above; `none` rules nothing out. `k`: how many objects a query gets; without it
/// no range comes from upper bounds. `range`: if given, only objects at most this far.
pub static METRIC_BOUNDS: OperatorSpec = OperatorSpec {
    parameters: &[
        Parameter::new(
            "pivots",
            ParameterType::Resource("metric_pivots"),
            Default::Required,
            "the pivots of the space that is searched",
        ),
        Parameter::new(
            "bound",
            ParameterType::Choice(&["auto", "none", "triangular", "ptolemaic", "combined", "simplex"]),
            Default::Text("auto"),
            "what rules objects out; auto takes the tightest that is sound for the distance",
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
    ],
    inputs: &[Input::side("queries", columns::object_queries, "the queries")],
    outputs: &[Output::new("candidates", columns::candidates, "the objects that are not ruled out")],
    hints_written: &[Hint {
        name: "range",
        join: Join::Minimum,
        about: "a distance that no object of the answer is beyond",
    }],
    example: "bounds: {kind: metric_bounds, pivots: pivots, bound: auto, k: 10}",
    code_path: Some(|_, _| CodePath::detect().to_string()),
    check: Some(check),
    ..OperatorSpec::new(
        "metric_bounds",
        "Rules out objects by pivots, for any distance.",
        Kind::Stateful,
        make,
    )
};

/// Whether the bound is sound for the distance of the space of the pivots.
fn check(arguments: &Arguments, resources: &dyn Fn(&str) -> Option<Arguments>) -> Result<(), String> {
    let (Some(Value::Text(bound)), Some(Value::Text(pivots))) =
        (arguments.get("bound"), arguments.get("pivots"))
    else {
        return Ok(());
    };
    let (Ok(bound), Some(pivots)) = (bound.parse::<Bound>(), resources(pivots)) else { return Ok(()) };
    match planned_measure(&pivots, resources) {
        Some(measure) => measure.properties().allow(bound).map_err(|error| error.to_string()),
        // The space has a fault of its own, or its distance is given with the request.
        None => Ok(()),
    }
}

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    let table: Arc<MetricPivots> = bind.resource("pivots")?;
    let bound = match bind.text("bound") {
        "none" => None,
        "auto" => table.space().measure().properties().tightest(),
        name => Some(name.parse::<Bound>()?),
    };
    // A request may give another bound than the plan was checked with.
    bound.map_or(Ok(()), |bound| table.allow(bound))?;
    Ok(Box::new(MetricBounds {
        table,
        bound,
        k: bind.get_integer("k").and_then(|k| usize::try_from(k).ok()),
        limit: bind.get_number("range").unwrap_or(f64::INFINITY),
        evaluator: evaluator(),
        queries: None,
        next: 0,
        sending: Vec::new(),
    }))
}

struct MetricBounds {
    table: Arc<MetricPivots>,
    bound: Option<Bound>,
    k: Option<usize>,
    limit: f64,
    evaluator: Evaluator,
    queries: Option<Vec<MetricQuery>>,
    /// The query that is bounded next.
    next: usize,
    /// What is left of the one before it, the last first.
    sending: Vec<(u64, f64)>,
}

impl Operator for MetricBounds {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        if self.queries.is_none() {
            self.queries = Some(queries(cx.side("queries"), self.table.space())?);
        }
        let Some(queries) = &self.queries else { return Ok(Flow::Done) };
        while !self.sending.is_empty() {
            if !cx.has_room("candidates") {
                return Ok(Flow::Wait);
            }
            let from = self.sending.len().saturating_sub(ENVELOPE_ROWS);
            let rows: Vec<(u64, f64)> = self.sending.drain(from..).rev().collect();
            let envelope = candidates(queries[self.next - 1].number, &rows)?;
            if cx.push("candidates", envelope)? == Pushed::Closed {
                return Ok(Flow::Done);
            }
        }
        if self.next == queries.len() || cx.is_cancelled() {
            return Ok(Flow::Done);
        }
        // One query a firing.
        let query = &queries[self.next];
        let (left, range) = self.bounded(cx, query)?;
        cx.join_hint("range", query.number, range);
        self.next += 1;
        cx.progress(self.next as u64, queries.len() as u64);
        self.sending = left;
        Ok(Flow::More)
    }
}

impl MetricBounds {
    /// The objects that are left, the last first, and the range.
    fn bounded(&self, cx: &mut Context<'_>, query: &MetricQuery) -> Result<(Vec<(u64, f64)>, f64), BoxError> {
        let table = &self.table;
        let Some(bound) = self.bound else {
            let places = (0..table.space().len() as u32).rev();
            return Ok((places.map(|place| (table.space().id(place), 0.0)).collect(), self.limit));
        };
        let distances: Vec<f64> = table
            .space()
            .distances(query, |distance| table.pivots().iter().map(|pivot| distance(*pivot)).collect())?;
        let bound = table.query(bound, query, &distances)?;
        let mut blocks: Vec<Vec<(f64, f64)>> = (0..table.blocks()).map(|_| Vec::new()).collect();
        cx.inside(|inside| {
            inside.for_each_chunk_of(&mut blocks, 64, |first, blocks| {
                for (block, out) in (first..).zip(blocks) {
                    table.bounds(&self.evaluator, &bound, block, out);
                }
            });
        });
        let bounds: Vec<(f64, f64)> = blocks.into_iter().flatten().collect();
        let mut range = self.limit;
        if let Some(k) = self.k.filter(|k| *k <= bounds.len()) {
            let mut uppers: Vec<f64> = bounds.iter().map(|bound| bound.1).collect();
            let (_, kth, _) = uppers.select_nth_unstable_by(k - 1, f64::total_cmp);
            range = range.min(*kth);
        }
        let left = (0..).zip(bounds).filter(|(_, bound)| bound.0 <= range);
        let mut left: Vec<(u64, f64)> =
            left.map(|(place, bound)| (table.space().id(place), bound.0)).collect();
        left.reverse();
        Ok((left, range))
    }
}

fn candidates(number: u32, rows: &[(u64, f64)]) -> Result<Envelope, BoxError> {
    let columns: [(&str, ArrayRef); 3] = [
        ("query", Arc::new(UInt32Array::from(vec![number; rows.len()]))),
        ("id", Arc::new(UInt64Array::from_iter_values(rows.iter().map(|row| row.0)))),
        ("lower", Arc::new(Float64Array::from_iter_values(rows.iter().map(|row| row.1)))),
    ];
    Ok(Envelope::from_columns(columns)?)
}
