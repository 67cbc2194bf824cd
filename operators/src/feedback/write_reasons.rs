//! `write_reasons`: why an object is expected to be relevant, as a table, as JSON, or as Arrow for the request's caller.

use std::fmt::Write as _;
use std::sync::Arc;

use boxwork_kernels::gaussian_process::WEAK_NOISE;
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::operator::{Bind, BoxError, Context, Flow, In, Kind, Operator, OperatorSpec, Part};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};
use boxwork_runtime::printable::printable;
use boxwork_stores::store::Store;
use serde_json::{Value as Json, json};

use super::marks::NO_MARK;
use super::to_caller::ToCaller;
use crate::columns;
use crate::resources;
use crate::results::sink::{OUT, OrderedWriter, STORE, share_writer};

const REASONS: In = In::stream(0, "reasons", columns::reasons, "the marks of one object's mean");

/// Writes why an object is expected to be relevant.
///
/// The object's mean and deviation, the marks of the largest shares, and the nearest liked objects. If the request's caller
/// takes the rows (`Submission::outputs` under the box's name), they go there as Arrow batches, and nothing is written.
///
/// # Inputs
/// `reasons`: the marks of one object's mean, the largest shares first.
///
/// # Outputs
/// None.
///
/// # Parameters
/// `store`: the objects, for their names. `most`: marks to name. `format`: a table for people, or JSON. `out`: the file to
/// write, or `-` for standard output.
pub static WRITE_REASONS: OperatorSpec = OperatorSpec {
    parameters: &[
        STORE,
        Parameter::new("most", ParameterType::integer_within(1, 1000), Default::Integer(5), "marks to name"),
        Parameter::new(
            "format",
            ParameterType::Choice(&["table", "json"]),
            Default::Text("table"),
            "a table for people, or JSON",
        ),
        OUT,
    ],
    inputs: &[REASONS],
    gives: Some(columns::reasons),
    example: "results: {kind: write_reasons, store: signatures}",
    share: Some(share_writer),
    ..OperatorSpec::new(
        "write_reasons",
        "Writes why an object is expected to be relevant.",
        Kind::Stateful,
        make,
    )
};

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    if let Some(output) = bind.take_output()? {
        return Ok(Box::new(ToCaller { rows: REASONS, output }));
    }
    Ok(Box::new(WriteReasons {
        store: resources::store(bind)?,
        most: bind.count("most"),
        is_json: bind.text("format") == "json",
        writer: bind.shared(),
        part: bind.part,
        rows: Vec::new(),
    }))
}

struct WriteReasons {
    store: Arc<dyn Store>,
    most: usize,
    is_json: bool,
    writer: Arc<OrderedWriter>,
    part: Part,
    rows: Vec<Envelope>,
}

/// A mark and its part in the mean.
struct Reason {
    id: u64,
    name: String,
    relevance: f64,
    is_weak: bool,
    share: f64,
    distance: f64,
}

/// An object and the marks of its mean.
struct Why {
    id: u64,
    mean: f64,
    deviation: f64,
    reasons: Vec<Reason>,
}

impl Operator for WriteReasons {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        while let Some(envelope) = cx.take(REASONS) {
            self.rows.push(envelope);
        }
        if !cx.is_ended(REASONS) {
            return Ok(Flow::Wait);
        }
        let Some(why) = Why::of(&self.rows)? else { return Ok(Flow::Done) };
        cx.detached("disk", || {
            let name = self.store.name(why.id)?;
            let text = if self.is_json { why.json(&name, self.most) } else { why.table(&name, self.most) };
            self.writer.write(self.part, text.into_bytes())
        })??;
        Ok(Flow::Done)
    }
}

impl Why {
    fn of(rows: &[Envelope]) -> Result<Option<Self>, BoxError> {
        let mut why: Option<Self> = None;
        for envelope in rows {
            let numbers = |name: &str| envelope.f64s(name);
            let (ids, marks, names) = (envelope.u64s("id")?, envelope.u64s("mark")?, envelope.texts("name")?);
            let (relevances, noises) = (numbers("relevance")?, numbers("noise")?);
            let (shares, distances) = (numbers("share")?, numbers("distance")?);
            for row in 0..envelope.rows() {
                let (mean, deviation) = (numbers("mean")?[row], numbers("deviation")?[row]);
                let why = why.get_or_insert(Self { id: ids[row], mean, deviation, reasons: Vec::new() });
                if marks[row] != NO_MARK {
                    why.reasons.push(Reason {
                        id: marks[row],
                        name: names.value(row).to_owned(),
                        relevance: relevances[row],
                        is_weak: noises[row] >= WEAK_NOISE,
                        share: shares[row],
                        distance: distances[row],
                    });
                }
            }
        }
        Ok(why)
    }

    /// The nearest liked objects.
    fn nearest(&self, most: usize) -> Vec<&Reason> {
        let mut liked: Vec<&Reason> = self.reasons.iter().filter(|reason| reason.relevance >= 0.5).collect();
        liked.sort_by(|a, b| a.distance.total_cmp(&b.distance).then(a.id.cmp(&b.id)));
        liked.truncate(most);
        liked
    }

    fn table(&self, name: &str, most: usize) -> String {
        let Self { mean, deviation, reasons, .. } = self;
        let mut text = format!("{}: {mean:.3}, deviation {deviation:.3}\n", printable(name));
        if reasons.is_empty() {
            return text + "  there is no mark\n";
        }
        text += "   share  relevance  mark\n";
        for Reason { name, relevance, is_weak, share, .. } in reasons.iter().take(most) {
            let judged = if *is_weak { ", not judged" } else { "" };
            let _ = writeln!(text, "  {share:+.3}  {relevance:>9}  {}{judged}", printable(name));
        }
        let nearest = self.nearest(most);
        if !nearest.is_empty() {
            text += "  distance  nearest liked\n";
        }
        for Reason { name, distance, .. } in nearest {
            let _ = writeln!(text, "  {distance:>8.4}  {}", printable(name));
        }
        text
    }

    fn json(&self, name: &str, most: usize) -> String {
        let mark = |reason: &Reason| {
            json!({
                "id": reason.id, "name": reason.name, "relevance": reason.relevance, "weak": reason.is_weak,
                "share": reason.share,
            })
        };
        let near =
            |reason: &Reason| json!({"id": reason.id, "name": reason.name, "distance": reason.distance});
        let json = json!({
            "id": self.id,
            "name": name,
            "mean": self.mean,
            "deviation": self.deviation,
            "marks": self.reasons.iter().take(most).map(mark).collect::<Vec<Json>>(),
            "nearest_liked": self.nearest(most).into_iter().map(near).collect::<Vec<Json>>(),
        });
        format!("{json:#}\n")
    }
}
