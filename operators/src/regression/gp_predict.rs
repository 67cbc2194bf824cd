//! `gp_predict`: means and deviations of points under a fitted Gaussian process.

use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array};
use boxwork_kernels::gaussian_process::{half_width, predict};
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::operator::{Bind, BoxError, Context, Flow, In, Kind, Operator, OperatorSpec, Out};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};

use super::gp_append::must_fit;
use super::samples::Samples;
use crate::columns;
use crate::resources::gp_model::{self, GpModel};

const SAMPLES: In = In::stream(0, "samples", columns::samples, "the points");
const PREDICTIONS: Out =
    Out::new(0, "predictions", columns::predictions, "the points with means and deviations");

/// Predicts points by a fitted Gaussian process.
///
/// Points stream: a request holds a few envelopes of them, however many there are.
///
/// # Inputs
/// `samples`: the points; their targets pass through.
///
/// # Outputs
/// `predictions`: for each point the mean, the deviation, and an interval.
///
/// # Parameters
/// `model`: the fitted process. `deviation`: whether deviations are computed; without them means take O(n) for n samples and not O(n^2).
/// `of`: the deviation of the function, or of an observation, which has noise too. `level`: the probability of the interval.
pub static GP_PREDICT: OperatorSpec = OperatorSpec {
    parameters: &[
        gp_model::MODEL,
        Parameter::new(
            "deviation",
            ParameterType::Boolean,
            Default::Boolean(true),
            "whether deviations are computed",
        ),
        Parameter::new(
            "of",
            ParameterType::Choice(&["function", "observation"]),
            Default::Text("function"),
            "the deviation of the function, or of an observation, which has the noise and `white` too",
        ),
        Parameter::new(
            "level",
            ParameterType::Number { minimum: 0.0, maximum: 0.999_999_999 },
            Default::Number(0.95),
            "the probability with which the value lies within lower and upper",
        ),
    ],
    inputs: &[SAMPLES],
    outputs: &[PREDICTIONS],
    example: "predict: {kind: gp_predict, model: model, copies: auto}",
    ..OperatorSpec::new("gp_predict", "Predicts points by a fitted Gaussian process.", Kind::Ordered, make)
};

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    let model = gp_model::model(bind)?;
    let deviations = bind.boolean("deviation");
    if deviations && !model.saved.regression.has_factor() {
        model.factor()?;
    }
    Ok(Box::new(GpPredict {
        model,
        deviations,
        of_observation: bind.text("of") == "observation",
        half_width: half_width(bind.number("level")),
    }))
}

struct GpPredict {
    model: Arc<GpModel>,
    deviations: bool,
    of_observation: bool,
    half_width: f64,
}

impl Operator for GpPredict {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        if !cx.has_room(PREDICTIONS) {
            return Ok(Flow::Wait);
        }
        if let Some(envelope) = cx.take(SAMPLES) {
            let predicted = self.predict(cx, &envelope)?;
            cx.push(PREDICTIONS, predicted)?;
            return Ok(Flow::More);
        }
        Ok(if cx.is_ended(SAMPLES) { Flow::Done } else { Flow::Wait })
    }
}

impl GpPredict {
    fn predict(&self, cx: &mut Context<'_>, envelope: &Envelope) -> Result<Envelope, BoxError> {
        let mut samples = Samples::default();
        samples.add(envelope)?;
        must_fit(&self.model, &samples)?;
        let factor = self.deviations.then(|| self.model.factor()).transpose()?;
        let predicted = predict(&self.model.saved.regression, factor, &samples.points);
        let predicted = predicted.map_err(|error| {
            BoxError::new(format!(
                "sample `{}`, model `{}`: {error}",
                samples.names[error.point], self.model.path
            ))
        })?;
        if predicted.rounded > 0 {
            cx.count("variances that rounding made negative", predicted.rounded as u64);
        }
        let variances = if self.of_observation { &predicted.of_observations } else { &predicted.variances };
        let deviations: Vec<f64> = match factor {
            Some(_) => variances.iter().map(|variance| variance.sqrt()).collect(),
            None => vec![f64::NAN; predicted.means.len()],
        };
        let bound = |sign: f64| {
            let ends = predicted.means.iter().zip(&deviations);
            Arc::new(Float64Array::from_iter_values(ends.map(|(m, d)| m + sign * self.half_width * d)))
                as ArrayRef
        };
        let (lower, upper) = (bound(-1.0), bound(1.0));
        let known = ["name", "x", "y"].map(|name| envelope.column(name).map(|column| (name, column.clone())));
        let mut columns = known.into_iter().collect::<Result<Vec<(&str, ArrayRef)>, _>>()?;
        columns.extend([
            ("mean", Arc::new(Float64Array::from(predicted.means)) as ArrayRef),
            ("deviation", Arc::new(Float64Array::from(deviations))),
            ("lower", lower),
            ("upper", upper),
        ]);
        Ok(Envelope::from_columns(columns)?)
    }
}
