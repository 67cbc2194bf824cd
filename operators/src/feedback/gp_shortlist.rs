//! `gp_shortlist`: orders objects by their bounds, the most promising first.
//!
//! Invariant: the list is in the order of the bounds, of equal ones by id.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, UInt32Array, UInt64Array};
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::operator::{
    Bind, BoxError, Context, Flow, In, Kind, Operator, OperatorSpec, Out, Pushed,
};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};

use super::gp_scan::ROWS_MAX;
use crate::columns;
use crate::resources::gp_kernel::{self, KERNEL};

/// Envelopes of which a slot leaves the first rows at a time.
const ENVELOPES_AT_ONCE: usize = 4;

const CANDIDATES: In = In::stream(0, "candidates", columns::bounds, "the objects that may be shown");
const SHORTLIST: Out =
    Out::new(0, "shortlist", columns::bounds, "the objects of the largest bounds, in order");

/// Orders objects by their bounds.
///
/// If the bounds come from exact distances, the box sends the whole list, `size` objects first and then twice as many in all
/// each time, until the next box needs no more. If they come from sketches, it sends only the first `size`.
///
/// # Inputs
/// `candidates`: objects with their bounds.
///
/// # Outputs
/// `shortlist`: the objects by falling bounds, of equal bounds the one with the lower id first.
///
/// # Parameters
/// `size`: the first objects. `kernel`: the covariance of the objects, which tells where the bounds come from.
pub static GP_SHORTLIST: OperatorSpec = OperatorSpec {
    parameters: &[
        Parameter::new(
            "size",
            ParameterType::integer_within(1, ROWS_MAX as i64),
            Default::Integer(256),
            "objects that go on first, or at all if the bounds come from a sketch",
        )
        .unit("objects"),
        KERNEL,
    ],
    inputs: &[CANDIDATES],
    outputs: &[SHORTLIST],
    example: "shortlist: {kind: gp_shortlist, size: 256, kernel: kernel}",
    ..OperatorSpec::new("gp_shortlist", "Orders objects by their bounds.", Kind::Stateful, make)
};

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    Ok(Box::new(GpShortlist {
        size: bind.count("size"),
        goes_on: gp_kernel::kernel(bind)?.sketch.is_none(),
        candidates: Vec::new(),
        rows: 0,
        error: 0.0,
        sent: 0,
    }))
}

/// An object, its mean and its bound.
#[derive(Clone, Copy, Debug)]
struct Row {
    id: u64,
    mean: f64,
    upper: f64,
}

struct GpShortlist {
    size: usize,
    /// Whether objects after the first ones may be chosen too.
    goes_on: bool,
    candidates: Vec<Envelope>,
    /// Rows of all candidates.
    rows: usize,
    error: f64,
    /// The number of rows sent.
    sent: usize,
}

/// The last row is the first of the list.
fn order(a: &Row, b: &Row) -> Ordering {
    a.upper.total_cmp(&b.upper).then(b.id.cmp(&a.id))
}

/// Leaves the `count` first rows of a list, in any order.
fn leave(rows: &mut Vec<Row>, count: usize) {
    let left = rows.len().saturating_sub(count);
    if left > 0 {
        rows.select_nth_unstable_by(left, order);
        rows.drain(..left);
    }
}

/// The first `count` rows of an envelope, in any order.
fn first_of(envelope: &Envelope, count: usize) -> Result<Vec<Row>, BoxError> {
    let (ids, means, uppers) = (envelope.u64s("id")?, envelope.f64s("mean")?, envelope.f64s("upper")?);
    let row = |row: usize| Row { id: ids[row], mean: means[row], upper: uppers[row] };
    let mut rows: Vec<Row> = (0..ids.len()).map(row).collect();
    leave(&mut rows, count);
    Ok(rows)
}

impl GpShortlist {
    /// Takes the next rows of the list, in order. Most rows are never sent, so they are not sorted: slots leave the first of
    /// each envelope, side by side.
    fn take_first(&self, cx: &mut Context<'_>) -> Result<Vec<Row>, BoxError> {
        let upto = self.sent + self.sent.clamp(self.size, ROWS_MAX);
        let mut parts: Vec<_> = self.candidates.iter().map(|envelope| (envelope, Ok(Vec::new()))).collect();
        cx.inside(|inside| {
            inside.for_each_chunk_of(&mut parts, ENVELOPES_AT_ONCE, |_, parts| {
                parts.iter_mut().for_each(|(envelope, first)| *first = first_of(envelope, upto));
            });
        });
        let mut first = Vec::new();
        for (_, part) in parts {
            first.extend(part?);
        }
        leave(&mut first, upto);
        first.sort_unstable_by(|a, b| order(b, a));
        Ok(first.split_off(self.sent))
    }
}

impl Operator for GpShortlist {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        while let Some(envelope) = cx.take(CANDIDATES) {
            self.error = envelope.f64s("error")?.iter().copied().fold(self.error, f64::max);
            self.rows += envelope.rows();
            self.candidates.push(envelope);
        }
        if !cx.is_ended(CANDIDATES) {
            return Ok(Flow::Wait);
        }
        if self.sent == self.rows {
            return Ok(Flow::Done);
        }
        if !cx.has_room(SHORTLIST) {
            return Ok(Flow::Wait);
        }
        let first = self.take_first(cx)?;
        let envelope = envelope(&first, self.error)?;
        self.sent += first.len();
        if !self.goes_on {
            self.sent = self.rows;
        }
        Ok(if cx.push(SHORTLIST, envelope)? == Pushed::Closed { Flow::Done } else { Flow::More })
    }
}

fn envelope(rows: &[Row], error: f64) -> Result<Envelope, BoxError> {
    let numbers = |of: fn(&Row) -> f64| Arc::new(Float64Array::from_iter_values(rows.iter().map(of)));
    let columns: [(&str, ArrayRef); 5] = [
        ("query", Arc::new(UInt32Array::from(vec![0; rows.len()]))),
        ("id", Arc::new(UInt64Array::from_iter_values(rows.iter().map(|row| row.id)))),
        ("mean", numbers(|row| row.mean)),
        ("upper", numbers(|row| row.upper)),
        ("error", Arc::new(Float64Array::from(vec![error; rows.len()]))),
    ];
    Ok(Envelope::from_columns(columns)?)
}
