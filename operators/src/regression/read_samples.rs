//! `read_samples`: samples from CSV, Arrow or NumPy files.
//!
//! Invariant: an unsound file or row ends the request with the file, the line and the column; no row is lost silently.

use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::operator::{
    Bind, BoxError, CALLER, Context, Flow, InputReader, Kind, Operator, OperatorSpec, Out, Pushed,
};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};
use boxwork_stores::sample_file::{SampleColumns, SampleFile, samples_of};

use super::samples::envelope;
use crate::columns;
use crate::resources::gp_model::{GpModel, MODEL};

/// Samples of an envelope.
const ROWS: usize = 256;

const SAMPLES: Out = Out::new(0, "samples", columns::samples, "the samples in the order of the file");

/// The columns of the inputs.
pub(super) const INPUTS: Parameter = Parameter::new(
    "inputs",
    ParameterType::List(&ParameterType::Text),
    Default::EmptyList,
    "the columns of the inputs; those of the model by default, if one is given",
);

/// The column of the target.
pub(super) const TARGET: Parameter =
    Parameter::new("target", ParameterType::Text, Default::Absent, "the column of the target");

/// Reads samples.
///
/// The ending tells the format: `.csv` and `.txt` are CSV with a header, `.npy` is an array of NumPy, whose columns are numbered
/// from 0, and any other file is Arrow IPC. Numbers are read as f64.
///
/// # Inputs
/// None. A request's caller may give samples (`Submission::inputs`): batches with the named columns.
///
/// # Outputs
/// `samples`: 256 an envelope. A sample's name is that of the column `names`, or its line or row.
///
/// # Parameters
/// `path`: the file. `inputs`, `target`, `names`: columns. `missing`: what becomes of rows with a number that is missing, NaN or
/// infinite. `model`: a model whose columns are read, if `inputs` names none.
pub static READ_SAMPLES: OperatorSpec = OperatorSpec {
    parameters: &[
        Parameter::new("path", ParameterType::Path, Default::Absent, "the file of samples"),
        INPUTS,
        TARGET,
        Parameter::new("names", ParameterType::Text, Default::Absent, "the column of the samples' names"),
        Parameter::new(
            "missing",
            ParameterType::Choice(&["error", "drop"]),
            Default::Text("error"),
            "rows with a number that is missing, NaN or infinite: error ends the request; drop leaves them out",
        ),
        Parameter { default: Default::Absent, ..MODEL },
    ],
    outputs: &[SAMPLES],
    example: "samples: {kind: read_samples, path: hill.csv, inputs: [x1, x2], target: y}",
    ..OperatorSpec::new("read_samples", "Reads samples from CSV, Arrow or NumPy files.", Kind::Stateful, make)
};

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    let model = bind.get_resource::<GpModel>("model")?;
    let mut inputs = bind.texts("inputs");
    if let Some(model) = model.filter(|_| inputs.is_empty()) {
        inputs.clone_from(&model.saved.inputs);
    }
    let asked = SampleColumns {
        inputs,
        target: bind.get_text("target").map(str::to_owned),
        names: bind.get_text("names").map(str::to_owned),
        drops_missing: bind.text("missing") == "drop",
    };
    let dimensions = asked.inputs.len();
    let source = match (bind.take_input()?, bind.get_path("path")) {
        (Some(input), _) => Source::Caller { input, asked, row: 0, dropped: 0 },
        (None, Some(path)) => Source::File(SampleFile::open(&path, &asked)?),
        (None, None) => {
            return Err(BoxError::new(
                "there are no samples: give the file as `path`, or let the request's caller give them",
            ));
        }
    };
    Ok(Box::new(ReadSamples { source, dimensions, sent: 0, waiting: Vec::new() }))
}

/// The source of samples.
enum Source {
    File(SampleFile),
    Caller { input: InputReader, asked: SampleColumns, row: u64, dropped: u64 },
}

struct ReadSamples {
    source: Source,
    dimensions: usize,
    sent: u64,
    /// Envelopes of a batch that was larger than one, the next one last.
    waiting: Vec<Envelope>,
}

impl Operator for ReadSamples {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        while cx.has_room(SAMPLES) {
            let next = match self.waiting.pop() {
                Some(envelope) => Some(envelope),
                None => self.next(cx)?,
            };
            let Some(next) = next else {
                let dropped = match &self.source {
                    Source::File(file) => file.dropped(),
                    Source::Caller { dropped, .. } => *dropped,
                };
                if dropped > 0 {
                    cx.note(format!("{dropped} rows without a number were left out"));
                }
                return Ok(Flow::Done);
            };
            self.sent += next.rows() as u64;
            cx.progress(self.sent, 0);
            if cx.push(SAMPLES, next)? == Pushed::Closed {
                return Ok(Flow::Done);
            }
        }
        Ok(Flow::Wait)
    }
}

impl ReadSamples {
    /// Reads on; the envelope after the last is nothing.
    fn next(&mut self, cx: &mut Context<'_>) -> Result<Option<Envelope>, BoxError> {
        // A caller may give any number of batches of which no row is left.
        let rows = loop {
            let rows = match &mut self.source {
                Source::File(file) => cx.detached("disk", || file.next(ROWS))??,
                Source::Caller { input, asked, row, dropped } => {
                    let batches = &mut input.batches;
                    let next = if input.may_block {
                        cx.detached(CALLER, || batches.next())?
                    } else {
                        batches.next()
                    };
                    let Some(batch) = next else { return Ok(None) };
                    let (rows, left_out) = samples_of(&batch?, asked, "the rows given", row)?;
                    *dropped += left_out;
                    Some(rows)
                }
            };
            match rows {
                None => return Ok(None),
                Some(rows) if !rows.is_empty() => break rows,
                Some(_) if cx.is_cancelled() => return Ok(None),
                Some(_) => {}
            }
        };
        let all = envelope(rows, self.dimensions)?;
        let starts = (0..all.rows()).step_by(ROWS).rev();
        let part = |first: usize| {
            let batch = all.batch().slice(first, ROWS.min(all.rows() - first));
            Envelope::new(batch)
        };
        self.waiting = starts.map(part).collect::<Result<_, _>>()?;
        Ok(self.waiting.pop())
    }
}
