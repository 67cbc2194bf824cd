//! `write_predictions`: predictions as a table, CSV, JSON lines, or a page with a plot; or as Arrow for the request's caller.

use std::fmt::Write as _;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::operator::{Bind, BoxError, Context, Flow, In, Kind, Operator, OperatorSpec, Part};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};
use boxwork_runtime::printable::printable;
use serde_json::json;

use super::page::{Plotted, page};
use crate::columns;
use crate::feedback::to_caller::ToCaller;
use crate::resources::gp_model::{GpModel, MODEL};
use crate::results::csv::field;
use crate::results::sink::{OUT, OrderedWriter, exact_text, share_writer};

const PREDICTIONS: In = In::stream(0, "predictions", columns::predictions, "the predictions");

/// Bytes of text that are kept before they are written.
const PIECE: usize = 1 << 20;

/// Writes predictions.
///
/// Predictions are written as they come, in pieces of 1 MiB, so memory does not grow with them; a page is written at the end. CSV has the columns `name`, `mean`, `deviation`, `lower` and `upper`, of which numbers are read back to the bit. The page plots mean,
/// interval and data over one input, and lists nothing; it needs no other file. If the request's caller takes the rows
/// (`Submission::outputs` under the box's name), they go there as Arrow batches, and nothing is written.
///
/// # Inputs
/// `predictions`: the predictions.
///
/// # Outputs
/// None.
///
/// # Parameters
/// `format`: the form. `out`: the file to write, or `-` for standard output. `model`: the model whose samples the page shows.
/// `axis`: the input of the page's horizontal axis, from 1.
pub static WRITE_PREDICTIONS: OperatorSpec = OperatorSpec {
    parameters: &[
        Parameter::new(
            "format",
            ParameterType::Choice(&["table", "csv", "json", "html"]),
            Default::Text("table"),
            "a table for people, CSV, JSON lines, or a page with a plot",
        ),
        OUT,
        Parameter { default: Default::Absent, ..MODEL },
        Parameter::new(
            "axis",
            ParameterType::integer_within(1, 4096),
            Default::Integer(1),
            "the input of the page's horizontal axis, from 1",
        ),
    ],
    inputs: &[PREDICTIONS],
    gives: Some(columns::predictions),
    example: "results: {kind: write_predictions, format: csv, out: predicted.csv}",
    share: Some(share_writer),
    ..OperatorSpec::new("write_predictions", "Writes predictions.", Kind::Stateful, make)
};

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    if let Some(output) = bind.take_output()? {
        return Ok(Box::new(ToCaller { rows: PREDICTIONS, output }));
    }
    let form = match bind.text("format") {
        "csv" => Form::Csv,
        "json" => Form::Json,
        "html" => Form::Page,
        _ => Form::Table,
    };
    Ok(Box::new(WritePredictions {
        form,
        model: bind.get_resource("model")?,
        axis: bind.count("axis") - 1,
        writer: bind.shared(),
        part: bind.part,
        text: String::new(),
        plotted: Plotted::default(),
        begun: false,
        has_written: false,
    }))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Table,
    Csv,
    Json,
    Page,
}

struct WritePredictions {
    form: Form,
    model: Option<Arc<GpModel>>,
    axis: usize,
    writer: Arc<OrderedWriter>,
    part: Part,
    text: String,
    plotted: Plotted,
    begun: bool,
    /// Whether a piece is written.
    has_written: bool,
}

impl Operator for WritePredictions {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        if !std::mem::replace(&mut self.begun, true) && self.part.idx == 0 {
            self.text.push_str(match self.form {
                Form::Table => "        mean   deviation       lower       upper  name\n",
                Form::Csv => "name,mean,deviation,lower,upper\n",
                Form::Json | Form::Page => "",
            });
        }
        while let Some(envelope) = cx.take(PREDICTIONS) {
            self.add(&envelope)?;
            if self.text.len() >= PIECE && self.part.count == 1 {
                let (text, first) = (std::mem::take(&mut self.text), !self.has_written);
                cx.detached("disk", || self.writer.write_piece(text.as_bytes(), first, false))??;
                self.has_written = true;
                return Ok(Flow::More);
            }
        }
        if !cx.is_ended(PREDICTIONS) {
            return Ok(Flow::Wait);
        }
        let text = match self.form {
            Form::Page => page(&self.plotted, self.model.as_deref().map(|model| &model.saved), self.axis)?,
            _ => std::mem::take(&mut self.text),
        };
        cx.detached("disk", || match self.has_written {
            true => self.writer.write_piece(text.as_bytes(), false, true),
            false => self.writer.write(self.part, text.into_bytes()),
        })??;
        Ok(Flow::Done)
    }
}

impl WritePredictions {
    fn add(&mut self, envelope: &Envelope) -> Result<(), BoxError> {
        let (names, points) = (envelope.texts("name")?, envelope.lists("x")?);
        let columns = ["mean", "deviation", "lower", "upper"].map(|name| envelope.f64s(name));
        let [means, deviations, lower, upper] = columns;
        let (means, deviations, lower, upper) = (means?, deviations?, lower?, upper?);
        for row in 0..envelope.rows() {
            let (name, numbers) = (names.value(row), [means[row], deviations[row], lower[row], upper[row]]);
            let text = &mut self.text;
            // A string takes any text.
            let _ = match self.form {
                Form::Table => {
                    let [mean, deviation, lower, upper] = numbers;
                    let name = printable(name);
                    writeln!(text, "{mean:>12.6}{deviation:>12.6}{lower:>12.6}{upper:>12.6}  {name}")
                }
                Form::Csv => {
                    let number = |x: f64| if x.is_nan() { String::new() } else { exact_text(x) };
                    writeln!(text, "{},{}", field(name), numbers.map(number).join(","))
                }
                Form::Json => {
                    let [mean, deviation, lower, upper] = numbers;
                    let line = json!({
                        "name": name, "mean": mean, "deviation": deviation, "lower": lower, "upper": upper,
                    });
                    writeln!(text, "{line}")
                }
                Form::Page => {
                    let point = points.value(row);
                    let point = point.as_primitive::<Float64Type>().values();
                    let Some(x) = point.get(self.axis) else {
                        return Err(BoxError::new(format!(
                            "`axis: {}`, and points have {} inputs",
                            self.axis + 1,
                            point.len()
                        )));
                    };
                    self.plotted.add(*x, numbers)
                }
            };
        }
        Ok(())
    }
}
