//! A model in ONNX's format on the runtime `tract`: read, checked against the pictures that it will get, optimised, and run.
//!
//! Invariants: a model is run for one picture at a time, on the thread that asks; a file that is no sound model is an error with
//! the file's name, also where the runtime panics on it.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use boxwork_runtime::operator::BoxError;
use boxwork_stores::vector_file::DIMENSIONS_MAX;
use tract_onnx::data_resolver::FopenDataResolver;
use tract_onnx::model::ParseResult;
use tract_onnx::prelude::{
    DatumType, Framework, InferenceModel, InferenceModelExt, IntoRunnable, OutletId, Tensor, TypedFact,
    TypedRunnableModel, tvec,
};
use tract_onnx::tract_hir::infer::{Factoid, InferenceFact};

/// A model that is ready to run.
pub(super) struct Model {
    plan: Arc<TypedRunnableModel>,
    shape: [usize; 4],
    dimensions: usize,
    checksum: u32,
}

impl Model {
    /// Reads a model and prepares it for inputs of this shape. `output` is the number or the name of an output, or the name of
    /// an inner result. Blocks on the disk.
    ///
    /// # Errors
    /// When the file cannot be read or is no model, it takes other inputs, or the output is not one vector for an image.
    pub(super) fn load(path: &Path, shape: [usize; 4], output: Option<&str>) -> Result<Self, BoxError> {
        let shown = path.display();
        let content = fs::read(path)
            .map_err(|error| BoxError::new(format!("the model `{shown}` cannot be read: {error}")))?;
        // A panic of the runtime on a model that it does not expect must not end the process; nothing that it touched is used
        // afterwards.
        let loaded = catch_unwind(AssertUnwindSafe(|| prepared(&content, path, shape, output)));
        let failed =
            || Err("its runtime failed on it: it is damaged, or asks for what the runtime lacks".to_owned());
        let (plan, dimensions) = loaded
            .unwrap_or_else(|_| failed())
            .map_err(|reason| BoxError::new(format!("the model `{shown}`: {reason}")))?;
        Ok(Self { plan, shape, dimensions, checksum: crc32fast::hash(&content) })
    }

    /// The checksum of the file.
    pub(super) fn checksum(&self) -> u32 {
        self.checksum
    }

    /// Numbers of a vector.
    pub(super) fn dimensions(&self) -> usize {
        self.dimensions
    }

    /// The vector of a picture, whose numbers have the shape that [`Model::load`] was given.
    ///
    /// # Errors
    /// When the runtime fails.
    pub(super) fn run(&self, numbers: &[f32]) -> Result<Vec<f32>, String> {
        let run = || -> Result<Vec<f32>, String> {
            let input = Tensor::from_shape(&self.shape, numbers).map_err(text)?;
            let outputs = self.plan.run(tvec!(input.into())).map_err(text)?;
            let output = outputs.first().ok_or("it gave nothing")?;
            Ok(output.try_as_plain_ram().and_then(|plain| plain.as_slice::<f32>()).map_err(text)?.to_vec())
        };
        // As in `load`.
        let vector =
            catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| Err("its runtime panicked".to_owned()))?;
        match vector.len() {
            count if count == self.dimensions => Ok(vector),
            count => Err(format!("it gave {count} numbers where {} were declared", self.dimensions)),
        }
    }
}

type Prepared = (Arc<TypedRunnableModel>, usize);

fn prepared(
    content: &[u8],
    path: &Path,
    shape: [usize; 4],
    output: Option<&str>,
) -> Result<Prepared, String> {
    let mut onnx = tract_onnx::onnx()
        // Their names for lengths, such as `batch`, would contradict the lengths of one picture.
        .with_ignore_value_info(true);
    // Not mapped: a file that is cut short meanwhile would end the process.
    onnx.provider = Arc::new(FopenDataResolver);
    let no_model = |reason: String| format!("it is no model in ONNX's format that can be read: {reason}");
    let proto = onnx.proto_model_for_read(&mut &content[..]).map_err(|error| no_model(text(error)))?;
    let folder = path.parent().map(|folder| folder.to_string_lossy());
    let ParseResult { model, unresolved_inputs, .. } =
        onnx.parse(&proto, folder.as_deref()).map_err(|error| no_model(text(error)))?;
    if let Some(first) = unresolved_inputs.first() {
        return Err(no_model(format!("nothing in it makes `{first}`")));
    }
    check_input(&model, &shape)?;
    let outlet = output_of(&model, output)?;
    let names = output_names(&model).join(", ");
    let plan = planned(model, &shape, outlet).map_err(|reason| format!("it cannot be run: {reason}"))?;
    let fact = plan.model().output_fact(0).map_err(text)?;
    let dimensions = vector_length(fact).ok_or_else(|| {
        format!(
            "its output is {fact:?} for an image, where one vector of at most {DIMENSIONS_MAX} 32-bit floats is wanted: name another \
             with `output`; its outputs are {names}"
        )
    })?;
    Ok((plan, dimensions))
}

fn planned(
    model: InferenceModel,
    shape: &[usize],
    outlet: OutletId,
) -> Result<Arc<TypedRunnableModel>, String> {
    let input = InferenceFact::dt_shape(DatumType::F32, shape);
    let model = model.with_input_fact(0, input).map_err(text)?;
    let model = model.with_output_outlets(&[outlet]).map_err(text)?;
    model.into_optimized().map_err(text)?.into_runnable().map_err(text)
}

/// Refuses a model that does not take one image of this shape.
fn check_input(model: &InferenceModel, shape: &[usize]) -> Result<(), String> {
    let inputs = model.input_outlets().map_err(text)?;
    let [input] = inputs else {
        let names: Vec<&str> = inputs.iter().map(|input| model.node(input.node).name.as_str()).collect();
        return Err(format!(
            "it has {} inputs ({}), where one image is given",
            names.len(),
            names.join(", ")
        ));
    };
    let name = &model.node(input.node).name;
    let fact = model.outlet_fact(*input).map_err(text)?;
    if let Some(other) = fact.datum_type.concretize().filter(|found| *found != DatumType::F32) {
        return Err(format!(
            "its input `{name}` is of type {other:?}, where 32-bit floats are given: convert the model"
        ));
    }
    let axes: Vec<Option<usize>> = fact
        .shape
        .dims()
        .map(|axis| {
            axis.concretize()
                .and_then(|length| length.to_i64().ok())
                .and_then(|length| usize::try_from(length).ok())
        })
        .collect();
    let is_rank = fact.shape.is_open() || axes.len() == shape.len();
    let fits =
        is_rank && axes.iter().zip(shape).all(|(axis, length)| axis.is_none_or(|axis| axis == *length));
    if fits {
        return Ok(());
    }
    let shown = |axes: &[Option<usize>]| {
        let axes = axes.iter().map(|axis| axis.map_or("any".to_owned(), |length| length.to_string()));
        axes.collect::<Vec<_>>().join(" x ")
    };
    let given: Vec<_> = shape.iter().copied().map(Some).collect();
    Err(format!(
        "its input `{name}` is {}, and a picture is given as {}: set `size` (of `decode` too) and `layout` as the model wants them",
        shown(&axes),
        shown(&given)
    ))
}

/// The outlet that `output` names; the first output if it names none.
fn output_of(model: &InferenceModel, output: Option<&str>) -> Result<OutletId, String> {
    let outlets = model.output_outlets().map_err(text)?;
    let Some(wanted) = output else {
        return outlets.first().copied().ok_or_else(|| "it has no output".to_owned());
    };
    let by_number = || wanted.parse().ok().and_then(|number: usize| outlets.get(number).copied());
    let by_node = || model.nodes().iter().find(|node| node.name == wanted && !node.outputs.is_empty());
    model
        .find_outlet_label(wanted)
        .or_else(by_number)
        .or_else(|| by_node().map(|node| OutletId::new(node.id, 0)))
        .ok_or_else(|| {
            format!("it has no output `{wanted}`; its outputs are {}", output_names(model).join(", "))
        })
}

fn output_names(model: &InferenceModel) -> Vec<&str> {
    let outlets = model.output_outlets().unwrap_or_default().iter();
    outlets.map(|outlet| model.outlet_label(*outlet).unwrap_or(&model.node(outlet.node).name)).collect()
}

/// The numbers of an output that is one vector: at most one of its axes is longer than 1.
fn vector_length(fact: &TypedFact) -> Option<usize> {
    let axes = fact.shape.as_concrete()?;
    let is_vector =
        axes.iter().filter(|length| **length != 1).count() <= 1 && fact.datum_type == DatumType::F32;
    let length: usize = axes.iter().product();
    (is_vector && (1..=DIMENSIONS_MAX).contains(&length)).then_some(length)
}

/// The causes of an error of the runtime, the outermost first, without the dumps of nodes that may follow a line.
fn text(error: impl Into<tract_onnx::prelude::TractError>) -> String {
    let error = error.into();
    let causes = error.chain().map(|cause| {
        let cause = cause.to_string();
        cause.lines().next().unwrap_or_default().chars().take(200).collect::<String>()
    });
    causes.collect::<Vec<_>>().join(": ")
}
