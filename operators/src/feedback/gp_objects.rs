//! `gp_objects`: means and deviations of all objects of a store under a model over some of them.
//!
//! Invariant: an object's numbers are those that `gp_select` and `gp_rank` compute, whichever objects are computed beside it.

use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, ListArray, StringArray};
use arrow_buffer::OffsetBuffer;
use arrow_schema::{DataType, Field};
use boxwork_kernels::gaussian_process::half_width;
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::operator::{Bind, BoxError, Context, Flow, In, Kind, Operator, OperatorSpec, Out};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};

use super::distances::Origin;
use super::gp_select::block::Block;
use super::marks::{Fitted, SCALING_NOTE};
use crate::columns;
use crate::resources::gp_kernel::{self, GpKernel, KERNEL};

const MODEL: In =
    In::side(0, "model", columns::model, "the objects whose numbers are known, with their model");
const PREDICTIONS: Out = Out::new(0, "predictions", columns::predictions, "all objects, without inputs");

/// Ids that one firing looks at: a block of objects for each of eight slots.
const IDS: u64 = 256;

/// Predicts the numbers of all objects of a store.
///
/// Objects stream in the order of their ids; distances to the objects of the model are exact.
///
/// # Inputs
/// `model` (side): the objects whose numbers are known, from `read_targets` by `gp_fit`.
///
/// # Outputs
/// `predictions`: for each object the mean, the deviation and an interval, in the unit of the numbers.
///
/// # Parameters
/// `kernel`: the covariance of the objects. `level`: the probability of the interval.
pub static GP_OBJECTS: OperatorSpec = OperatorSpec {
    parameters: &[
        KERNEL,
        Parameter::new(
            "level",
            ParameterType::Number { minimum: 0.0, maximum: 0.999_999_999 },
            Default::Number(0.95),
            "the probability with which the value lies within lower and upper",
        ),
    ],
    inputs: &[MODEL],
    outputs: &[PREDICTIONS],
    example: "all: {kind: gp_objects, kernel: kernel}",
    check: Some(gp_kernel::check),
    ..OperatorSpec::new("gp_objects", "Predicts the numbers of all objects of a store.", Kind::Stateful, make)
};

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    let half_width = half_width(bind.number("level"));
    Ok(Box::new(GpObjects { kernel: gp_kernel::kernel(bind)?, half_width, model: None, next: 0 }))
}

/// A model, and what its numbers were shifted by and divided by.
struct Scaled {
    model: Fitted,
    origins: Vec<Origin>,
    shift: f64,
    scale: f64,
}

struct GpObjects {
    kernel: Arc<GpKernel>,
    half_width: f64,
    model: Option<Scaled>,
    /// The next id.
    next: u64,
}

impl Operator for GpObjects {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        let model = match &self.model {
            Some(model) => model,
            None => self.model.insert(scaled(cx, &self.kernel)?),
        };
        let store = self.kernel.space.store();
        if self.next >= store.ids_count() {
            return Ok(Flow::Done);
        }
        if !cx.has_room(PREDICTIONS) {
            return Ok(Flow::Wait);
        }
        let end = (self.next + IDS).min(store.ids_count());
        let ids: Vec<u64> = store.among(self.next..end).collect();
        if !ids.is_empty() {
            let blocks = Block::all(cx, &self.kernel, &model.model, &model.origins, &ids)?;
            let names = cx.detached("disk", || {
                let mut names = Vec::with_capacity(ids.len());
                store.names(&mut ids.iter().copied(), &mut |name| names.push(name.to_owned()))?;
                store.confirm()?;
                Ok::<_, BoxError>(names)
            })??;
            let places =
                blocks.iter().flat_map(|block| (0..block.ids.len()).map(move |place| (block, place)));
            let (means, deviations): (Vec<f64>, Vec<f64>) = places
                .map(|(block, place)| {
                    let mean = model.shift + model.scale * block.posterior.mean(place);
                    (mean, model.scale * block.deviations[place])
                })
                .unzip();
            cx.push(PREDICTIONS, envelope(names, means, deviations, self.half_width)?)?;
        }
        self.next = end;
        cx.progress(end, store.ids_count());
        Ok(Flow::More)
    }
}

/// The model of the side input with its scaling.
fn scaled(cx: &Context<'_>, kernel: &GpKernel) -> Result<Scaled, BoxError> {
    let side = cx.side(MODEL);
    let model = Fitted::of_envelopes(side)?;
    let origin = |mark| Origin::of_mark(&kernel.space, mark, &|| cx.is_cancelled());
    let origins = model.marks.iter().map(origin).collect::<Result<Vec<_>, _>>()?;
    let numbers: Vec<f64> = side
        .first()
        .and_then(|envelope| envelope.note(SCALING_NOTE))
        .map(|text| text.split(' ').filter_map(|number| number.parse().ok()).collect())
        .unwrap_or_default();
    // Marks of a session are not scaled.
    let (shift, scale) = if let [shift, scale] = numbers[..] { (shift, scale) } else { (0.0, 1.0) };
    Ok(Scaled { model, origins, shift, scale })
}

fn envelope(
    names: Vec<String>,
    means: Vec<f64>,
    deviations: Vec<f64>,
    half_width: f64,
) -> Result<Envelope, BoxError> {
    let count = names.len();
    let bound = |sign: f64| {
        let ends = means.iter().zip(&deviations).map(|(m, d)| m + sign * half_width * d);
        Arc::new(Float64Array::from_iter_values(ends)) as ArrayRef
    };
    let (lower, upper) = (bound(-1.0), bound(1.0));
    let item = Arc::new(Field::new("item", DataType::Float64, false));
    let nothing = Arc::new(Float64Array::from(Vec::<f64>::new()));
    let inputs =
        ListArray::new(item, OffsetBuffer::from_lengths(std::iter::repeat_n(0, count)), nothing, None);
    let columns: [(&str, ArrayRef); 7] = [
        ("name", Arc::new(StringArray::from_iter_values(names))),
        ("x", Arc::new(inputs)),
        ("y", Arc::new(Float64Array::from(vec![f64::NAN; count]))),
        ("mean", Arc::new(Float64Array::from(means))),
        ("deviation", Arc::new(Float64Array::from(deviations))),
        ("lower", lower),
        ("upper", upper),
    ];
    Ok(Envelope::from_columns(columns)?)
}
