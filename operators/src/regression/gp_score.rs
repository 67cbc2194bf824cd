//! `gp_score`: how well predictions agree with targets.

use std::sync::Arc;

use boxwork_kernels::gaussian_process::Score;
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::operator::{Bind, BoxError, Context, Flow, In, Kind, Operator, OperatorSpec, Part};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};
use serde_json::json;

use crate::columns;
use crate::results::sink::{OUT, OrderedWriter, share_writer};

const PREDICTIONS: In = In::stream(0, "predictions", columns::predictions, "predictions with targets");

/// Compares predictions with targets.
///
/// The root of the mean squared difference; the mean of the negative logarithm of the targets' densities; and the share of targets
/// within their intervals, which should be the level. Deviations should be those of observations.
///
/// # Inputs
/// `predictions`: predictions with targets, which the model has not seen.
///
/// # Outputs
/// None.
///
/// # Parameters
/// `format`: a table for people, or JSON. `out`: the file to write, or `-` for standard output.
pub static GP_SCORE: OperatorSpec = OperatorSpec {
    parameters: &[
        Parameter::new(
            "format",
            ParameterType::Choice(&["table", "json"]),
            Default::Text("table"),
            "a table for people, or JSON",
        ),
        OUT,
    ],
    inputs: &[PREDICTIONS],
    example: "score: {kind: gp_score}",
    share: Some(share_writer),
    ..OperatorSpec::new("gp_score", "Compares predictions with targets.", Kind::Stateful, make)
};

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    let is_json = bind.text("format") == "json";
    Ok(Box::new(GpScore { is_json, writer: bind.shared(), part: bind.part, score: Score::default() }))
}

struct GpScore {
    is_json: bool,
    writer: Arc<OrderedWriter>,
    part: Part,
    score: Score,
}

impl Operator for GpScore {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        while let Some(envelope) = cx.take(PREDICTIONS) {
            self.add(&envelope)?;
        }
        if !cx.is_ended(PREDICTIONS) {
            return Ok(Flow::Wait);
        }
        if self.score.count() == 0 {
            return Err(BoxError::new(
                "there are no samples to score: the file has no row, or all rows were left out",
            ));
        }
        let text = self.text();
        cx.detached("disk", || self.writer.write(self.part, text.into_bytes()))??;
        Ok(Flow::Done)
    }
}

impl GpScore {
    fn add(&mut self, envelope: &Envelope) -> Result<(), BoxError> {
        let (targets, means) = (envelope.f64s("y")?, envelope.f64s("mean")?);
        let (deviations, lower) = (envelope.f64s("deviation")?, envelope.f64s("lower")?);
        for row in 0..envelope.rows() {
            let (target, mean, deviation) = (targets[row], means[row], deviations[row]);
            if !(target.is_finite() && deviation > 0.0) {
                let what = if target.is_finite() { "deviation above 0" } else { "target" };
                return Err(BoxError::new(format!(
                    "sample `{}` has no {what}: a score needs `target:` of read_samples, and `of: observation` of gp_predict",
                    envelope.texts("name")?.value(row)
                )));
            }
            self.score.add(target, mean, deviation * deviation, mean - lower[row]);
        }
        Ok(())
    }

    fn text(&self) -> String {
        let score = &self.score;
        let (rmse, loss, coverage) = (score.rmse(), score.mean_log_loss(), score.coverage());
        if self.is_json {
            let json = json!({
                "samples": score.count(), "rmse": rmse, "mean_log_loss": loss, "coverage": coverage,
            });
            return format!("{json:#}\n");
        }
        format!(
            "samples        {}\nRMSE           {rmse:.6}\nmean log loss  {loss:.6}\ncoverage       {coverage:.3}\n",
            score.count()
        )
    }
}
