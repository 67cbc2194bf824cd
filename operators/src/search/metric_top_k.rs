//! `metric_top_k`: the nearest objects of each query by exact distances.
//!
//! Invariant: what comes out is the k least (distance, id) of what came in. `top_k` does the same for distances that
//! are off by a declared error; here they are what results report.

use std::collections::{BTreeMap, BinaryHeap};

use boxwork_kernels::memory::{MemoryRefused, room};
use boxwork_runtime::operator::{
    Bind, BoxError, Context, Flow, Hint, Input, Join, Kind, Operator, OperatorSpec, Output, Pushed,
};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};

use crate::columns;
use crate::search::top_k::{ADVICE, WHAT, envelope_of};

/// Rows of an envelope at most.
const ENVELOPE_ROWS: usize = 4096;

/// Keeps the k nearest objects of each query, by f64 distances.
///
/// # Inputs
/// `distances`: distances of objects, no object twice for one query.
///
/// # Outputs
/// `nearest`: the k nearest of each query, by query, then distance, then id. Fewer where fewer came in.
///
/// # Hints
/// `range`, written: the k-th distance so far of each query.
///
/// # Parameters
/// `k`: how many objects. `range`: if given, only objects at most this far.
pub static METRIC_TOP_K: OperatorSpec = OperatorSpec {
    parameters: &[
        Parameter::new(
            "k",
            ParameterType::integer_from(1),
            Default::Integer(10),
            "how many objects a query gets",
        )
        .unit("objects"),
        Parameter::new(
            "range",
            ParameterType::Number { minimum: 0.0, maximum: f64::MAX },
            Default::Absent,
            "leave out objects farther than this",
        ),
    ],
    inputs: &[Input::stream("distances", columns::distances, "distances of objects, in f64")],
    outputs: &[Output::new("nearest", columns::distances, "the k nearest of each query, in order")],
    hints_written: &[Hint {
        name: "range",
        join: Join::Minimum,
        about: "a distance that no object of the answer is beyond",
    }],
    example: "top: {kind: metric_top_k, k: 10}",
    ..OperatorSpec::new("metric_top_k", "Keeps the k nearest by exact distances.", Kind::Stateful, make)
};

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    Ok(Box::new(MetricTopK {
        k: bind.count("k"),
        range: bind.get_number("range").unwrap_or(f64::INFINITY),
        nearest: BTreeMap::new(),
        rows: None,
        sent: 0,
    }))
}

struct MetricTopK {
    k: usize,
    range: f64,
    nearest: BTreeMap<u32, BinaryHeap<Found>>,
    /// All answers, once they are known.
    rows: Option<Vec<(u32, u64, f64)>>,
    sent: usize,
}

/// In the order of distances that are not negative, which is that of their bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Found {
    bits: u64,
    id: u64,
}

impl Operator for MetricTopK {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        while let Some(envelope) = cx.take("distances") {
            let (numbers, ids) = (envelope.u32s("query")?, envelope.u64s("id")?);
            let distances = envelope.f64s("distance")?;
            let mut row = 0;
            for run in numbers.chunk_by(|a, b| a == b) {
                let nearest = self.nearest.entry(run[0]).or_default();
                for row in row..row + run.len() {
                    let distance = distances[row];
                    if !(distance.is_finite() && distance.is_sign_positive()) {
                        return Err(BoxError::new(format!(
                            "the distance of object {} is {distance}",
                            ids[row]
                        )));
                    }
                    if distance > self.range {
                        continue;
                    }
                    let found = Found { bits: distance.to_bits(), id: ids[row] };
                    if nearest.len() < self.k {
                        nearest.try_reserve(1).map_err(|_| {
                            let bytes = 2 * nearest.len() * size_of::<Found>();
                            MemoryRefused::new(WHAT.to_owned(), bytes, ADVICE)
                        })?;
                        nearest.push(found);
                    } else if let Some(mut farthest) = nearest.peek_mut()
                        && found < *farthest
                    {
                        *farthest = found;
                    }
                }
                row += run.len();
                if let Some(farthest) = nearest.peek().filter(|_| nearest.len() == self.k) {
                    cx.join_hint("range", run[0], f64::from_bits(farthest.bits));
                }
            }
        }
        if !cx.is_ended("distances") {
            return Ok(Flow::Wait);
        }
        let rows = match &mut self.rows {
            Some(rows) => rows,
            None => {
                let count = self.nearest.values().map(BinaryHeap::len).sum();
                let mut rows = room(count, || WHAT.to_owned(), ADVICE)?;
                for (number, heap) in std::mem::take(&mut self.nearest) {
                    let sorted = heap.into_sorted_vec().into_iter();
                    rows.extend(sorted.map(|found| (number, found.id, f64::from_bits(found.bits))));
                }
                self.rows.insert(rows)
            }
        };
        while self.sent < rows.len() {
            if !cx.has_room("nearest") {
                return Ok(Flow::Wait);
            }
            let upto = rows.len().min(self.sent + ENVELOPE_ROWS);
            let envelope = envelope_of(&rows[self.sent..upto])?;
            self.sent = upto;
            if cx.push("nearest", envelope)? == Pushed::Closed {
                return Ok(Flow::Done);
            }
        }
        Ok(Flow::Done)
    }
}
