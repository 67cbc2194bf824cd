//! `embed`: small pictures become vectors of features that a model has learnt.
//!
//! Invariants: a vector depends on the picture, the model and the parameters alone, not on the pictures beside it (each
//! goes through the model by itself) nor on the copies; vectors leave in the order of their pictures; no number that is
//! infinite or NaN leaves. The bits may differ between machines whose vector units differ, as those of the model's runtime do.
//!
//! The runtime is in [`model`], which is empty where the feature `embed` is off.

mod levels;
#[cfg(feature = "embed")]
mod model;
#[cfg(not(feature = "embed"))]
#[path = "embed/no_model.rs"]
mod model;
#[cfg(all(test, feature = "embed"))]
mod onnx;
#[cfg(all(test, feature = "embed"))]
mod tests;

use std::sync::Arc;

use arrow_array::{ArrayRef, StringArray};
use boxwork_kernels::vector::VectorRef;
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::operator::{
    Bind, BoxError, Context, Flow, In, Kind, Operator, OperatorSpec, Out, Pushed, Resource,
};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};
use boxwork_stores::kinds::{Kind as _, Vectors};
use serde_json::json;

use self::levels::{Layout, Levels};
use self::model::Model;
use super::extract::PARAMETERS_NOTE;
use crate::columns;

const PIXELS: In = In::stream(0, "pixels", columns::pixels, "small RGB pictures of one size");
const OBJECTS: Out =
    Out::new(0, "objects", columns::vectors, "one vector per picture, in the order of the input");

/// The range of `mean` and `deviation`.
const LEVEL: ParameterType = ParameterType::Number { minimum: -1e6, maximum: 1e6 };

/// Turns pictures into vectors by a model in ONNX's format.
///
/// The model has one input, an image of 32-bit floats, and is given one picture at a time. The number for a channel of a
/// pixel is (level / 255 x `scale` - `mean`) / `deviation`. A picture for which the model gives a number that is infinite or
/// NaN is reported by its name and skipped.
///
/// # Inputs
/// `pixels`: RGB pictures of `size` by `size` pixels.
///
/// # Outputs
/// `objects`: name and vector of 32-bit floats, in the order of the pictures.
///
/// # Parameters
/// `model`: the file; data that it keeps in files of their own lie in its folder. `size`: width and height of the pictures, as
/// the box `decode` makes them. `layout`: the order of the input's axes, images by channels, rows, columns or channels last.
/// `channels`: the order of the channels. `scale`: what the brightest level becomes. `mean`, `deviation`: for each channel in that
/// order, or one for all; 0 and 1 if empty. `output`: the name or the number of the output, or the name of an inner
/// result. `normalize`: whether vectors are divided by their lengths, after which `l2` and `cosine` have one order.
pub static EMBED: OperatorSpec = OperatorSpec {
    parameters: &[
        Parameter::new("model", ParameterType::Path, Default::Required, "the model, a file in ONNX's format"),
        Parameter::new(
            "size",
            ParameterType::Integer { minimum: 1, maximum: 4096 },
            Default::Integer(224),
            "width and height of the pictures, the same as of the box `decode`",
        )
        .unit("pixels"),
        Parameter::new(
            "layout",
            ParameterType::Choice(&Layout::NAMES),
            Default::Text(Layout::NAMES[0]),
            "the order of the input's axes: image, channel, row, column; or image, row, column, channel",
        ),
        Parameter::new(
            "channels",
            ParameterType::Choice(&["rgb", "bgr"]),
            Default::Text("rgb"),
            "the order of the channels",
        ),
        Parameter::new(
            "scale",
            ParameterType::Positive,
            Default::Number(1.0),
            "what the brightest level becomes: 1, or 255 for models that take levels as they are",
        ),
        Parameter::new(
            "mean",
            ParameterType::List(&LEVEL),
            Default::EmptyList,
            "taken from the scaled levels: one number for each channel, or one for all; 0 if empty",
        ),
        Parameter::new(
            "deviation",
            ParameterType::List(&LEVEL),
            Default::EmptyList,
            "by which the difference is divided: one number for each channel, or one for all; 1 if empty",
        ),
        Parameter::new(
            "output",
            ParameterType::Text,
            Default::Absent,
            "the output by its name or number from 0, or an inner result by its name; not given: the first output",
        ),
        Parameter::new(
            "normalize",
            ParameterType::Boolean,
            Default::Boolean(true),
            "whether vectors are divided by their lengths",
        ),
    ],
    inputs: &[PIXELS],
    outputs: &[OBJECTS],
    example: "vectors: {kind: embed, model: model.onnx, size: 224, copies: auto}",
    share: Some(share),
    ..OperatorSpec::new("embed", "Turns pictures into vectors by a model of ONNX.", Kind::Ordered, make)
};

/// The model and the levels, which all copies and requests of a box share.
struct Shared {
    model: Model,
    levels: Levels,
    size: u32,
    normalize: bool,
    /// How the vectors were made, for the store that keeps them.
    note: String,
}

fn share(bind: &Bind<'_>) -> Result<Resource, BoxError> {
    let (path, size) = (bind.path("model"), bind.count("size"));
    let layout = Layout::named(bind.text("layout")).expect("a checked choice");
    let (mean, deviation) = (bind.numbers("mean"), bind.numbers("deviation"));
    let is_bgr = bind.text("channels") == "bgr";
    let levels =
        Levels::new(layout, is_bgr, bind.number("scale"), &mean, &deviation).map_err(BoxError::new)?;
    let model = Model::load(&path, layout.shape(size), bind.get_text("output"))?;
    let note = json!({
        "model": path.file_name().map(|name| name.to_string_lossy()),
        "model_crc32": model.checksum(),
        "size": size,
        "layout": bind.text("layout"),
        "channels": bind.text("channels"),
        "scale": bind.number("scale"),
        "mean": mean,
        "deviation": deviation,
        "output": bind.get_text("output"),
        "normalize": bind.boolean("normalize"),
    });
    let normalize = bind.boolean("normalize");
    Ok(Arc::new(Shared { model, levels, size: size as u32, normalize, note: note.to_string() }))
}

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    Ok(Box::new(Embed { shared: bind.shared() }))
}

struct Embed {
    shared: Arc<Shared>,
}

impl Operator for Embed {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        loop {
            if !cx.has_room(OBJECTS) {
                return Ok(Flow::Wait);
            }
            let Some(pixels) = cx.take(PIXELS) else {
                return Ok(if cx.is_ended(PIXELS) { Flow::Done } else { Flow::Wait });
            };
            cx.announce();
            let mut names = Vec::with_capacity(pixels.rows());
            let mut vectors = Vectors::new(self.shared.model.dimensions()).builder();
            for row in 0..pixels.rows() {
                if cx.is_cancelled() {
                    return Ok(Flow::Done);
                }
                let name = pixels.texts("name")?.value(row);
                match self.vector(&pixels, row, name)? {
                    Ok(vector) => {
                        Vectors::push(&mut vectors, VectorRef::F32(&vector)).map_err(BoxError::new)?;
                        names.push(name);
                    }
                    Err(message) => cx.report(name, message),
                }
            }
            if names.is_empty() {
                continue;
            }
            let columns = [
                ("name", Arc::new(StringArray::from(names)) as ArrayRef),
                ("object", Vectors::finish(&mut vectors).swap_remove(0)),
            ];
            let envelope = Envelope::from_columns(columns)?.with_note(PARAMETERS_NOTE, &self.shared.note);
            if cx.push(OBJECTS, envelope)? == Pushed::Closed {
                return Ok(Flow::Done);
            }
        }
    }
}

impl Embed {
    /// The vector of a picture, or why it has none.
    ///
    /// # Errors
    /// When the picture is of another size, or the model cannot be run.
    fn vector(
        &self,
        pixels: &Envelope,
        row: usize,
        name: &str,
    ) -> Result<Result<Vec<f32>, String>, BoxError> {
        let Shared { model, levels, size, normalize, .. } = &*self.shared;
        let (width, height) = (pixels.u32s("scaled_width")?[row], pixels.u32s("scaled_height")?[row]);
        let rgb = pixels.binaries("rgb")?.value(row);
        if (width, height) != (*size, *size) || rgb.len() != 3 * (*size as usize).pow(2) {
            return Err(BoxError::new(format!(
                "the picture `{name}` is {width} x {height} pixels, and the model takes {size} x {size}: give \
                 `decode` and `embed` one `size`"
            )));
        }
        let mut vector = model
            .run(&levels.numbers(rgb))
            .map_err(|reason| BoxError::new(format!("the model failed on the picture `{name}`: {reason}")))?;
        if let Some(place) = vector.iter().position(|number| !number.is_finite()) {
            let number = vector[place];
            return Ok(Err(format!(
                "the model gives {number} as number {place} of its vector: it has no place in a store"
            )));
        }
        if *normalize && !divide_by_length(&mut vector) {
            return Ok(Err(
                "the model gives a vector of zeros, which has no direction (`normalize`)".to_owned()
            ));
        }
        Ok(Ok(vector))
    }
}

/// Divides a vector by its Euclidean length, in f64; false if that is zero.
fn divide_by_length(vector: &mut [f32]) -> bool {
    // The square of an f32 is at least 1e-90, and at most 1e77: no sum of 65,536 of them leaves f64.
    let length = vector.iter().map(|number| f64::from(*number).powi(2)).sum::<f64>().sqrt();
    if length > 0.0 {
        vector.iter_mut().for_each(|number| *number = (f64::from(*number) / length) as f32);
    }
    length > 0.0
}
