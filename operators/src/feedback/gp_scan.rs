//! `gp_scan`: bounds what may be expected of every object that may be shown.
//!
//! Invariant: each object leaves once, in the order of ids, unless it was shown, is marked, is removed or is filtered out.

use std::collections::HashSet;
use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, UInt32Array, UInt64Array};
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::operator::{
    Bind, BoxError, Context, Flow, In, Kind, Operator, OperatorSpec, Out, Pushed,
};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};

use super::marks::Fitted;
use super::pass::{Pass, pass};
use super::read_marks::{SEEN, ids_of};
use crate::columns;
use crate::resources::gp_kernel::{self, GpKernel, KERNEL};

/// Ids that one envelope covers.
const IDS_PER_ENVELOPE: usize = 4096;
/// Ids of a piece for one slot.
const IDS_PER_PIECE: usize = 512;

const MODEL: In = In::side(0, "model", columns::model, "the marks with their model");
const CANDIDATES: Out = Out::new(0, "candidates", columns::bounds, "the objects that may be shown");

/// The parameter of boxes that bound what may be expected of an object.
pub(crate) const EXPLORE: Parameter = Parameter::new(
    "explore",
    ParameterType::number_within(0.0, 10.0),
    Default::Number(0.25),
    "the weight of the deviation: 0 shows what is probably relevant, 2 what is least known",
);

/// Bounds all objects under a model.
///
/// The bound of an object is its mean plus `explore` times a deviation. The deviation is that given the one mark that tells
/// most, so it is at least the deviation given all marks, and takes one pass over the distances.
///
/// # Inputs
/// `model` (side): the marks with their model.
///
/// # Outputs
/// `candidates`: every object that may be shown.
///
/// # Parameters
/// `kernel`: the covariance of the objects. `explore`: the weight of the deviation. `seen`: objects to leave out. `shown`:
/// whether they and the marks are left out. `class`: the last folder of the objects to show, or the beginning of their names
/// if it ends in `/`.
pub static GP_SCAN: OperatorSpec = OperatorSpec {
    parameters: &[
        KERNEL,
        EXPLORE,
        SEEN,
        Parameter::new(
            "shown",
            ParameterType::Choice(&["hide", "keep"]),
            Default::Text("hide"),
            "hide: leave out the objects of `seen` and of the marks; keep: bound all objects",
        ),
        Parameter::new(
            "class",
            ParameterType::Text,
            Default::Absent,
            "only objects whose last folder has this name, or whose names begin with it if it ends in /",
        ),
    ],
    inputs: &[MODEL],
    outputs: &[CANDIDATES],
    example: "scan: {kind: gp_scan, kernel: kernel, explore: 0.25}",
    ..OperatorSpec::new("gp_scan", "Bounds what may be expected of every object.", Kind::Stateful, make)
};

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    Ok(Box::new(GpScan {
        kernel: gp_kernel::kernel(bind)?,
        explore: bind.number("explore"),
        seen: bind.texts("seen"),
        hides: bind.text("shown") == "hide",
        class: bind.get_text("class").map(str::to_owned),
        work: None,
        is_ready: false,
        next: 0,
    }))
}

struct GpScan {
    kernel: Arc<GpKernel>,
    explore: f64,
    seen: Vec<String>,
    hides: bool,
    class: Option<String>,
    work: Option<Work>,
    is_ready: bool,
    next: u64,
}

/// Set by the first firing.
struct Work {
    pass: Box<dyn Pass>,
    excluded: HashSet<u64>,
    /// The only objects that may be shown, ascending.
    members: Option<Arc<[u64]>>,
}

impl Operator for GpScan {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        let Some(work) = &mut self.work else {
            self.work = Some(self.begin(cx)?);
            return Ok(Flow::More);
        };
        if !self.is_ready {
            self.is_ready = work.pass.step(cx)?;
            return Ok(Flow::More);
        }
        let ids = self.kernel.space.store().ids_count();
        while cx.has_room(CANDIDATES) {
            cx.announce();
            if self.next >= ids {
                return Ok(Flow::Done);
            }
            let envelope = self.bounds(cx)?;
            cx.progress(self.next, ids);
            if let Some(envelope) = envelope
                && cx.push(CANDIDATES, envelope)? == Pushed::Closed
            {
                return Ok(Flow::Done);
            }
        }
        Ok(Flow::Wait)
    }
}

impl GpScan {
    fn begin(&self, cx: &mut Context<'_>) -> Result<Work, BoxError> {
        let model = Arc::new(Fitted::of_envelopes(cx.side(MODEL))?);
        let (kernel, seen, class) = (&self.kernel, &self.seen, &self.class);
        let (store, cancelled) = (kernel.space.store(), cx.cancelled());
        let (seen, members) = cx.detached("disk", || {
            let members = class.as_deref().map(|class| kernel.members(class)).transpose()?;
            Ok::<_, BoxError>((ids_of(seen, &**store, &cancelled)?, members))
        })??;
        let mut excluded: HashSet<u64> = seen.into_iter().collect();
        excluded.extend(model.marks.iter().map(|mark| mark.id));
        if !self.hides {
            excluded.clear();
        }
        let pass = pass(kernel, &model, self.explore, &|| cx.is_cancelled())?;
        Ok(Work { pass, excluded, members })
    }

    /// The bounds of the next ids; nothing if none of them may be shown.
    fn bounds(&mut self, cx: &mut Context<'_>) -> Result<Option<Envelope>, BoxError> {
        let Some(work) = &self.work else { return Ok(None) };
        let store = self.kernel.space.store();
        let (first, end) = (self.next, store.ids_count().min(self.next + IDS_PER_ENVELOPE as u64));
        self.next = end;
        let mut pieces: Vec<Piece> = (first..end)
            .step_by(IDS_PER_PIECE)
            .map(|from| {
                let count = (end - from).min(IDS_PER_PIECE as u64) as usize;
                Piece { from, means: vec![0.0; count], uppers: vec![0.0; count], done: Ok(()) }
            })
            .collect();
        let pass = &*work.pass;
        cx.inside(|inside| {
            let cancelled = inside.cancelled();
            inside.for_each_chunk_of(&mut pieces, 1, |_, pieces| {
                for Piece { from, means, uppers, done } in pieces {
                    *done = pass.bounds(*from..*from + means.len() as u64, means, uppers, &cancelled);
                }
            });
        });
        let (mut ids, mut means, mut uppers) = (Vec::new(), Vec::new(), Vec::new());
        for piece in pieces {
            piece.done?;
            for id in store.among(piece.from..piece.from + piece.means.len() as u64) {
                let is_member =
                    work.members.as_ref().is_none_or(|members| members.binary_search(&id).is_ok());
                if is_member && !work.excluded.contains(&id) {
                    let at = (id - piece.from) as usize;
                    ids.push(id);
                    means.push(piece.means[at]);
                    uppers.push(piece.uppers[at]);
                }
            }
        }
        if ids.is_empty() {
            return Ok(None);
        }
        let count = ids.len();
        let columns: [(&str, ArrayRef); 5] = [
            ("query", Arc::new(UInt32Array::from(vec![0; count]))),
            ("id", Arc::new(UInt64Array::from(ids))),
            ("mean", Arc::new(Float64Array::from(means))),
            ("upper", Arc::new(Float64Array::from(uppers))),
            ("error", Arc::new(Float64Array::from(vec![pass.error(); count]))),
        ];
        Ok(Some(Envelope::from_columns(columns)?))
    }
}

/// Consecutive ids that one slot bounds.
struct Piece {
    from: u64,
    means: Vec<f64>,
    uppers: Vec<f64>,
    done: Result<(), BoxError>,
}
