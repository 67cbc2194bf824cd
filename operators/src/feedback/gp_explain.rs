//! `gp_explain`: why an object is expected to be relevant: the part of each mark in its mean.

use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, StringArray, UInt32Array, UInt64Array};
use boxwork_kernels::gaussian_process::{MARK_NOISE, Posterior};
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::operator::{Bind, BoxError, Context, Flow, In, Kind, Operator, OperatorSpec, Out};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};

use super::distances::{Origin, bring_in, exact};
use super::marks::{Fitted, NO_MARK};
use super::read_marks::ids_of;
use crate::columns;
use crate::resources::gp_kernel::{self, GpKernel, KERNEL};

const MODEL: In = In::side(0, "model", columns::model, "the marks with their model");
const REASONS: Out = Out::new(0, "reasons", columns::reasons, "the marks, the largest shares first");

/// Explains the mean of an object.
///
/// The mean is the sum of the marks' shares: a mark's weight times its covariance with the object.
///
/// # Inputs
/// `model` (side): the marks with their model.
///
/// # Outputs
/// `reasons`: one row for each mark, the largest shares first whatever their sign; without marks one row that names none.
///
/// # Parameters
/// `object`: the object, a name or `#` and an id. `kernel`: the covariance of the objects.
pub static GP_EXPLAIN: OperatorSpec = OperatorSpec {
    parameters: &[
        Parameter::new(
            "object",
            ParameterType::Text,
            Default::Required,
            "the object: a name, or # and an id",
        ),
        KERNEL,
    ],
    inputs: &[MODEL],
    outputs: &[REASONS],
    example: "why: {kind: gp_explain, object: cats/001.jpg, kernel: kernel}",
    ..OperatorSpec::new("gp_explain", "Explains the mean of an object by the marks.", Kind::Stateful, make)
};

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    Ok(Box::new(GpExplain { kernel: gp_kernel::kernel(bind)?, object: bind.text("object").to_owned() }))
}

struct GpExplain {
    kernel: Arc<GpKernel>,
    object: String,
}

impl Operator for GpExplain {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        let (store, given) = (Arc::clone(self.kernel.space.store()), vec![self.object.clone()]);
        let cancelled = cx.cancelled();
        let ids = cx.detached("disk", || ids_of(&given, &*store, &cancelled))??;
        bring_in(cx, &self.kernel, &ids)?;
        let model = Fitted::of_envelopes(cx.side(MODEL))?;
        let stored: Vec<u64> =
            model.marks.iter().filter(|mark| mark.is_stored()).map(|mark| mark.id).collect();
        bring_in(cx, &self.kernel, &stored)?;
        let mut posterior = Posterior::new(1);
        let mut reasons = Vec::with_capacity(model.marks.len());
        for (number, mark) in model.marks.iter().enumerate() {
            let interrupt = || cx.is_cancelled();
            let origin = Origin::of_mark(&self.kernel.space, mark, &interrupt)?;
            let mut distance = [0.0];
            exact(&self.kernel, &origin, &ids, &mut distance, &interrupt)?;
            let covariance = self.kernel.covariance.of(distance[0]);
            posterior.push(model.factor_row(number), &[covariance]);
            reasons.push((number, model.weights[number] * covariance, distance[0], covariance));
        }
        let covariances: Vec<f64> = reasons.iter().map(|reason| reason.3).collect();
        posterior.set_means(&model.weights, |mark| [covariances[mark]]);
        reasons.sort_by(|a, b| b.1.abs().total_cmp(&a.1.abs()).then(a.0.cmp(&b.0)));
        let mark = |place: usize| &model.marks[reasons[place].0];
        let count = reasons.len().max(1);
        let is_marked = !reasons.is_empty();
        let of = |some: &dyn Fn(usize) -> f64, none: f64| {
            Arc::new(Float64Array::from_iter_values(
                (0..count).map(|row| if is_marked { some(row) } else { none }),
            ))
        };
        let id = |row: usize| if is_marked { mark(row).id } else { NO_MARK };
        let name = |row: usize| if is_marked { mark(row).name.as_str() } else { "" };
        let columns: [(&str, ArrayRef); 10] = [
            ("query", Arc::new(UInt32Array::from(vec![0; count]))),
            ("id", Arc::new(UInt64Array::from(vec![ids[0]; count]))),
            ("mean", Arc::new(Float64Array::from(vec![posterior.mean(0); count]))),
            ("deviation", Arc::new(Float64Array::from(vec![posterior.variance(0).sqrt(); count]))),
            ("mark", Arc::new(UInt64Array::from_iter_values((0..count).map(id)))),
            ("name", Arc::new(StringArray::from_iter_values((0..count).map(name)))),
            ("relevance", of(&|row| mark(row).relevance, 0.0)),
            ("noise", of(&|row| mark(row).noise, MARK_NOISE)),
            ("share", of(&|row| reasons[row].1, 0.0)),
            ("distance", of(&|row| reasons[row].2, 0.0)),
        ];
        cx.push(REASONS, Envelope::from_columns(columns)?)?;
        Ok(Flow::Done)
    }
}
