//! `gp_append`: appends samples to a fitted Gaussian process.
//!
//! Invariant: the rows of the earlier samples stay as they are; the new model is that of all samples, under the parameters, scaling
//! and jitter of the old one.

use std::sync::Arc;

use boxwork_runtime::operator::{Bind, BoxError, Context, Flow, In, Kind, Operator, OperatorSpec, Out};
use boxwork_stores::gp_model::SavedModel;

use super::samples::{Samples, fault, push_model};
use crate::columns;
use crate::resources::gp_model::{self, GpModel};

const SAMPLES: In = In::stream(0, "samples", columns::samples, "the samples to append");
const MODEL: Out = Out::new(0, "model", columns::regression, "all samples with the model");

/// Appends samples to a fitted Gaussian process.
///
/// Each sample costs O(n^2) for n samples, where a fit of all costs O(n^3). Parameters are not optimised again.
///
/// # Inputs
/// `samples`: the samples; each needs a target and the inputs of the model.
///
/// # Outputs
/// `model`: all samples with their weights and rows of the factor.
///
/// # Parameters
/// `model`: the fitted process, written with its factor.
pub static GP_APPEND: OperatorSpec = OperatorSpec {
    parameters: &[gp_model::MODEL],
    inputs: &[SAMPLES],
    outputs: &[MODEL],
    example: "append: {kind: gp_append, model: model}",
    ..OperatorSpec::new("gp_append", "Appends samples to a fitted Gaussian process.", Kind::Stateful, make)
};

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    let model = gp_model::model(bind)?;
    Ok(Box::new(GpAppend { model, samples: Samples::default(), appended: None, sent: 0 }))
}

struct GpAppend {
    model: Arc<GpModel>,
    samples: Samples,
    appended: Option<SavedModel>,
    sent: usize,
}

impl Operator for GpAppend {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        if self.appended.is_none() {
            while let Some(envelope) = cx.take(SAMPLES) {
                self.samples.add(&envelope)?;
            }
            if !cx.is_ended(SAMPLES) {
                return Ok(Flow::Wait);
            }
            self.appended = Some(self.append(cx)?);
        }
        let Some(model) = &self.appended else { unreachable!("it was made above") };
        Ok(if push_model(cx, MODEL, model, &mut self.sent)? { Flow::Done } else { Flow::Wait })
    }
}

impl GpAppend {
    fn append(&mut self, cx: &mut Context<'_>) -> Result<SavedModel, BoxError> {
        let samples = std::mem::take(&mut self.samples);
        samples.must_have_targets()?;
        let mut model = self.model.saved.clone();
        if !model.regression.has_factor() {
            // It says what to do.
            self.model.factor()?;
        }
        if samples.names.is_empty() {
            cx.note("there were no samples to append: the model is as before");
            return Ok(model);
        }
        must_fit(&self.model, &samples)?;
        let known = model.names.len();
        model.names.extend(samples.names);
        let appended = model.regression.append(&samples.points, &samples.targets);
        appended.map_err(|error| fault(&error, &model.names))?;
        cx.note(format!(
            "appended {} samples to {known}: log likelihood {:.6}",
            model.names.len() - known,
            model.regression.log_likelihood
        ));
        if model.regression.condition > model.regression.condition_max() {
            cx.note(format!(
                "the condition of the covariances is about {:.0e} with the new samples, so half of all digits are lost, or more: fit all \
                 samples again, with a larger noise",
                model.regression.condition
            ));
        }
        Ok(model)
    }
}

/// Fails if samples have other inputs than a model.
pub(super) fn must_fit(model: &GpModel, samples: &Samples) -> Result<(), BoxError> {
    let wanted = model.saved.regression.points.dimensions();
    let found = samples.points.dimensions();
    if samples.names.is_empty() || wanted == found {
        return Ok(());
    }
    Err(BoxError::new(format!(
        "sample `{}` has {found} inputs, and the model `{}` was fitted to {wanted}: {}",
        samples.names[0],
        model.path,
        model.saved.inputs.join(", ")
    )))
}
