//! `gp_shortlist`: orders objects by their bounds, the most promising first.
//!
//! Invariants: a list of a fixed length is the same on every code path, because objects near its end are bounded again; a
//! list that goes on is in the order of the largest possible bound.

use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, UInt32Array, UInt64Array};
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::operator::{
    Bind, BoxError, Context, Flow, In, Kind, Operator, OperatorSpec, Out, Pushed,
};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};

use super::distances::bring_in;
use super::gp_scan::EXPLORE;
use super::marks::Fitted;
use super::pass::{Pass, pass};
use crate::columns;
use crate::resources::gp_kernel::{self, GpKernel, KERNEL};

/// Rows of the longest envelope.
const ROWS_MAX: usize = 32_768;

const CANDIDATES: In = In::stream(0, "candidates", columns::bounds, "the objects that may be shown");
const MODEL: In = In::side(1, "model", columns::model, "the marks with their model");
const SHORTLIST: Out =
    Out::new(0, "shortlist", columns::bounds, "the objects of the largest bounds, in order");

/// Orders objects by their bounds.
///
/// If the choice must be that of all objects, the box sends the whole list, `size` objects first and then twice as many in
/// all each time, until the next box needs no more. Otherwise it sends only the first `size`.
///
/// # Inputs
/// `candidates`: objects with their bounds. `model` (side): the marks with their model.
///
/// # Outputs
/// `shortlist`: the objects by falling bounds, of equal bounds the one with the lower id first.
///
/// # Parameters
/// `size`: the first objects. `kernel`: the covariance of the objects. `explore`: the weight of the deviation.
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
        EXPLORE,
    ],
    inputs: &[CANDIDATES, MODEL],
    outputs: &[SHORTLIST],
    example: "shortlist: {kind: gp_shortlist, size: 256, kernel: kernel}",
    ..OperatorSpec::new("gp_shortlist", "Orders objects by their bounds.", Kind::Stateful, make)
};

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    Ok(Box::new(GpShortlist {
        size: bind.count("size"),
        kernel: gp_kernel::kernel(bind)?,
        explore: bind.number("explore"),
        pass: None,
        is_ready: false,
        rows: Vec::new(),
        error: 0.0,
        sent: None,
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
    kernel: Arc<GpKernel>,
    explore: f64,
    pass: Option<Box<dyn Pass>>,
    is_ready: bool,
    rows: Vec<Row>,
    error: f64,
    /// The rows sent so far, once all have come and are in order.
    sent: Option<usize>,
}

impl Operator for GpShortlist {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        let Some(pass) = &mut self.pass else {
            let model = Arc::new(Fitted::of_envelopes(cx.side(MODEL))?);
            self.pass = Some(pass(&self.kernel, &model, self.explore, &|| cx.is_cancelled())?);
            return Ok(Flow::More);
        };
        while let Some(envelope) = cx.take(CANDIDATES) {
            let (ids, means) = (envelope.u64s("id")?, envelope.f64s("mean")?);
            let (uppers, errors) = (envelope.f64s("upper")?, envelope.f64s("error")?);
            self.rows.extend((0..ids.len()).map(|row| Row {
                id: ids[row],
                mean: means[row],
                upper: uppers[row],
            }));
            self.error = errors.iter().copied().fold(self.error, f64::max);
        }
        if !cx.is_ended(CANDIDATES) {
            return Ok(Flow::Wait);
        }
        let Some(sent) = self.sent else {
            let by_bound = |a: &Row, b: &Row| b.upper.total_cmp(&a.upper).then(a.id.cmp(&b.id));
            if pass.is_exact() {
                self.rows.sort_unstable_by(by_bound);
            } else {
                if !self.is_ready {
                    // The scan has brought the objects that this step needs into the cache.
                    self.is_ready = pass.step(cx)?;
                    return Ok(Flow::More);
                }
                self.cut(cx)?;
            }
            self.sent = Some(0);
            return Ok(Flow::More);
        };
        if sent >= self.rows.len() {
            return Ok(Flow::Done);
        }
        if !cx.has_room(SHORTLIST) {
            return Ok(Flow::Wait);
        }
        let next = self.rows.len().min(sent + sent.clamp(self.size, ROWS_MAX));
        let envelope = envelope(&self.rows[sent..next], self.error)?;
        self.sent = Some(next);
        Ok(if cx.push(SHORTLIST, envelope)? == Pushed::Closed { Flow::Done } else { Flow::More })
    }
}

impl GpShortlist {
    /// Leaves the objects of the largest bounds, those near the end by bounds that are equal on every machine.
    fn cut(&mut self, cx: &mut Context<'_>) -> Result<(), BoxError> {
        let Some(pass) = &self.pass else { return Ok(()) };
        let by_bound = |a: &Row, b: &Row| b.upper.total_cmp(&a.upper).then(a.id.cmp(&b.id));
        if self.rows.len() > self.size {
            let (_, last, _) = self.rows.select_nth_unstable_by(self.size - 1, by_bound);
            let border = last.upper - 2.0 * self.error;
            self.rows.retain(|row| row.upper >= border);
        }
        self.rows.sort_unstable_by_key(|row| row.id);
        let ids: Vec<u64> = self.rows.iter().map(|row| row.id).collect();
        bring_in(cx, &self.kernel, &ids)?;
        let mut uppers = vec![0.0; ids.len()];
        pass.settle(&ids, &mut uppers, &|| cx.is_cancelled())?;
        self.rows.iter_mut().zip(uppers).for_each(|(row, upper)| row.upper = upper);
        self.rows.sort_unstable_by(by_bound);
        self.rows.truncate(self.size);
        self.error = 0.0;
        Ok(())
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
