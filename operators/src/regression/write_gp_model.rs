//! `write_gp_model`: writes a fitted Gaussian process to disk.
//!
//! Invariant: the file appears under its name when all of it is on disk, or not at all.

use std::path::PathBuf;

use arrow_array::RecordBatch;
use boxwork_runtime::operator::{Bind, BoxError, Context, Flow, In, Kind, Operator, OperatorSpec};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};
use boxwork_stores::gp_model::SavedModel;

use super::samples::MODEL_NOTE;
use crate::columns;

const MODEL: In = In::stream(0, "model", columns::regression, "the samples with the model");

/// Writes a fitted Gaussian process.
///
/// # Inputs
/// `model`: the samples with their weights and rows of the factor.
///
/// # Outputs
/// None.
///
/// # Parameters
/// `out`: the file. `keep`: whether the Cholesky factor is kept, which takes 4 n^2 bytes for n samples; without it the model
/// predicts means alone, and takes no samples.
pub static WRITE_GP_MODEL: OperatorSpec = OperatorSpec {
    parameters: &[
        Parameter::new(
            "out",
            ParameterType::Path,
            Default::Required,
            "the file to write, by custom `NAME.gp.arrow`",
        ),
        Parameter::new(
            "keep",
            ParameterType::Choice(&["factor", "alpha"]),
            Default::Text("factor"),
            "factor: deviations and appended samples are possible; alpha: means alone, and a small file",
        ),
    ],
    inputs: &[MODEL],
    example: "file: {kind: write_gp_model, out: hill.gp.arrow}",
    ..OperatorSpec::new("write_gp_model", "Writes a fitted Gaussian process.", Kind::Stateful, make)
};

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    let keeps_factor = bind.text("keep") == "factor";
    Ok(Box::new(WriteGpModel { out: bind.path("out"), keeps_factor, head: None, batches: Vec::new() }))
}

struct WriteGpModel {
    out: PathBuf,
    keeps_factor: bool,
    head: Option<String>,
    batches: Vec<RecordBatch>,
}

impl Operator for WriteGpModel {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        while let Some(envelope) = cx.take(MODEL) {
            self.head = self.head.take().or_else(|| envelope.note(MODEL_NOTE).map(str::to_owned));
            self.batches.push(envelope.batch().clone());
        }
        if !cx.is_ended(MODEL) {
            return Ok(Flow::Wait);
        }
        let Some(head) = self.head.take() else {
            return Err(BoxError::new(
                "what came is no model: its first envelope has no covariance; connect gp_fit_samples or gp_append",
            ));
        };
        let batches = std::mem::take(&mut self.batches);
        let (out, keeps_factor) = (&self.out, self.keeps_factor);
        cx.detached("disk", || {
            let model = SavedModel::of_batches(&head, &batches)
                .map_err(|reason| BoxError::new(format!("what came is no model: {reason}")))?;
            drop(batches);
            Ok::<(), BoxError>(model.write(out, keeps_factor)?)
        })??;
        Ok(Flow::Done)
    }
}
