//! `write_round`: the objects of a round as a table, JSON, CSV, a page of pictures, or Arrow for the request's caller.
//!
//! Invariants: a file is there whole or not at all; a picture that cannot be shown is a neutral tile, never an error.

mod text;
mod page;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use boxwork_kernels::gaussian_process::WEAK_NOISE;
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::operator::{Bind, BoxError, Context, Flow, In, Kind, Operator, OperatorSpec, Part};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};
use boxwork_stores::store::Store;

use self::page::Page;
use super::marks::{self, NO_MARK};
use super::to_caller::ToCaller;
use crate::columns;
use crate::resources;
use crate::resources::gp_kernel::{GpKernel, KERNEL};
use crate::results::html::markup::Picture;
use crate::results::sink::{OUT, OrderedWriter, STORE, share_writer};

const ROUND: In = In::stream(0, "round", columns::rounds, "the objects of a round");
const MARKS: In = In::side(1, "marks", columns::marks, "the marks, for their names");

/// Writes a round.
///
/// Each object has its mean and deviation, and the marks that raise and lower the mean most, with their shares. If the
/// request's caller takes the rows (`Submission::outputs` under the box's name), they go there as Arrow batches, and nothing
/// is written.
///
/// # Inputs
/// `round`: the objects. `marks` (side): the marks.
///
/// # Outputs
/// None.
///
/// # Parameters
/// `store`: the objects, for their names. `kernel`: the covariance; `html` shows it. `batch`: the objects wanted: if fewer
/// came, no more may be shown. `format`: the form. `out`: the file to write, or `-` for standard output.
pub static WRITE_ROUND: OperatorSpec = OperatorSpec {
    parameters: &[
        STORE,
        KERNEL,
        Parameter::new(
            "batch",
            ParameterType::integer_from(1),
            Default::Integer(12),
            "the objects of a round",
        )
        .unit("objects"),
        Parameter::new(
            "format",
            ParameterType::Choice(&["table", "json", "csv", "html"]),
            Default::Text("table"),
            "the form: a table for people, JSON, CSV, or a page of pictures",
        ),
        OUT,
    ],
    inputs: &[ROUND, MARKS],
    gives: Some(columns::rounds),
    example: "results: {kind: write_round, store: signatures, kernel: kernel, format: json}",
    share: Some(share_writer),
    ..OperatorSpec::new("write_round", "Writes the objects of a round.", Kind::Stateful, make)
};

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    if let Some(output) = bind.take_output()? {
        return Ok(Box::new(ToCaller { rows: ROUND, output }));
    }
    Ok(Box::new(WriteRound {
        store: resources::store(bind)?,
        kernel: bind.resource("kernel")?,
        batch: bind.count("batch"),
        format: bind.text("format").to_owned(),
        writer: bind.shared(),
        part: bind.part,
        rows: Vec::new(),
        page: None,
        pictures: HashMap::new(),
    }))
}

/// A mark, for people.
struct Marked {
    name: String,
    relevance: f64,
    is_weak: bool,
}

/// An object of a round, for people.
struct Shown {
    id: u64,
    name: String,
    mean: f64,
    deviation: f64,
    upper: f64,
    liked: Option<Share>,
    disliked: Option<Share>,
}

/// The part of a mark in an object's mean.
struct Share {
    id: u64,
    name: String,
    share: f64,
}

/// A round, for people.
struct Round {
    marks: Vec<Marked>,
    shown: Vec<Shown>,
    is_exhausted: bool,
}

impl Round {
    /// Reads names, so it blocks.
    fn new(
        rows: &[Envelope],
        marked: &[Envelope],
        store: &dyn Store,
        batch: usize,
    ) -> Result<Self, BoxError> {
        let marked = marks::of_envelopes(marked)?;
        let share = |id: u64, share: f64| {
            let name =
                marked.iter().find(|mark| mark.id == id).map_or_else(String::new, |mark| mark.name.clone());
            (id != NO_MARK).then_some(Share { id, name, share })
        };
        let mut shown = Vec::new();
        for envelope in rows {
            let numbers = |name: &str| envelope.f64s(name);
            let (ids, means, deviations) = (envelope.u64s("id")?, numbers("mean")?, numbers("deviation")?);
            let (uppers, liked, disliked) =
                (numbers("upper")?, envelope.u64s("liked")?, envelope.u64s("disliked")?);
            let (likes, dislikes) = (numbers("liked_share")?, numbers("disliked_share")?);
            for row in 0..envelope.rows() {
                shown.push(Shown {
                    id: ids[row],
                    name: store.name(ids[row])?,
                    mean: means[row],
                    deviation: deviations[row],
                    upper: uppers[row],
                    liked: share(liked[row], likes[row]),
                    disliked: share(disliked[row], dislikes[row]),
                });
            }
        }
        let marks = marked.into_iter().map(|mark| Marked {
            name: mark.name,
            relevance: mark.relevance,
            is_weak: mark.noise >= WEAK_NOISE,
        });
        Ok(Self { marks: marks.collect(), is_exhausted: shown.len() < batch, shown })
    }

    /// The marks in words.
    fn summary(&self) -> String {
        let count = |is_in: fn(&Marked) -> bool| self.marks.iter().filter(|mark| is_in(mark)).count();
        let liked = count(|mark| !mark.is_weak && mark.relevance >= 0.5);
        let weak = count(|mark| mark.is_weak);
        let disliked = self.marks.len() - liked - weak;
        format!("{liked} liked, {disliked} disliked, {weak} shown and not judged")
    }
}

struct WriteRound {
    store: Arc<dyn Store>,
    kernel: Arc<GpKernel>,
    batch: usize,
    format: String,
    writer: Arc<OrderedWriter>,
    part: Part,
    rows: Vec<Envelope>,
    page: Option<Page>,
    /// By file: the picture, or nothing where there is none.
    pictures: HashMap<PathBuf, Option<Picture>>,
}

impl Operator for WriteRound {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        while let Some(envelope) = cx.take(ROUND) {
            self.rows.push(envelope);
        }
        if !cx.is_ended(ROUND) {
            return Ok(Flow::Wait);
        }
        if let Some(page) = &mut self.page {
            // One picture a firing: to read and scale it takes its time.
            if page.step(cx, &*self.store, &mut self.pictures)? {
                return Ok(Flow::More);
            }
            let text = page.finish();
            return self.write(cx, text);
        }
        let (rows, marked, store) = (&self.rows, cx.side(MARKS).to_vec(), &*self.store);
        let round = cx.detached("disk", || Round::new(rows, &marked, store, self.batch))??;
        let text = match self.format.as_str() {
            "json" => text::json(&round),
            "csv" => text::csv(&round),
            "html" => {
                self.page = Some(Page::new(round, store, &self.kernel));
                return Ok(Flow::More);
            }
            _ => text::table(&round),
        };
        self.write(cx, text)
    }
}

impl WriteRound {
    fn write(&self, cx: &mut Context<'_>, text: String) -> Result<Flow, BoxError> {
        cx.detached("disk", || self.writer.write(self.part, text.into_bytes()))??;
        Ok(Flow::Done)
    }
}
