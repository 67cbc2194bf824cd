//! Samples and models as rows on edges.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use arrow_array::{ArrayRef, Float64Array, ListArray, StringArray};
use arrow_buffer::{OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field};
use boxwork_kernels::covariance::Points;
use boxwork_kernels::gaussian_process::FitError;
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::operator::{BoxError, Context, Out};
use boxwork_stores::gp_model::SavedModel;
use boxwork_stores::sample_file::SampleRows;

/// The key of the note with a model's covariance and numbers.
pub(super) const MODEL_NOTE: &str = "gp_model";

/// The envelope of samples.
pub(super) fn envelope(rows: SampleRows, dimensions: usize) -> Result<Envelope, BoxError> {
    let offsets = OffsetBuffer::<i32>::from_lengths(std::iter::repeat_n(dimensions, rows.len()));
    let values = Float64Array::new(ScalarBuffer::from(rows.inputs), None);
    let item = Arc::new(Field::new("item", DataType::Float64, false));
    let columns: [(&str, ArrayRef); 3] = [
        ("name", Arc::new(StringArray::from_iter_values(rows.names))),
        ("x", Arc::new(ListArray::new(item, offsets, Arc::new(values), None))),
        ("y", Arc::new(Float64Array::from(rows.targets))),
    ];
    Ok(Envelope::from_columns(columns)?)
}

/// Samples that have come along an edge.
#[derive(Default)]
pub(super) struct Samples {
    pub(super) names: Vec<String>,
    pub(super) points: Points,
    pub(super) targets: Vec<f64>,
}

impl Samples {
    /// Adds the samples of an envelope, each of which must have a finite point of the same dimensions.
    pub(super) fn add(&mut self, envelope: &Envelope) -> Result<(), BoxError> {
        let (names, lists, targets) = (envelope.texts("name")?, envelope.lists("x")?, envelope.f64s("y")?);
        for row in 0..envelope.rows() {
            let point = lists.value(row);
            let point = point.as_primitive::<Float64Type>().values();
            let name = names.value(row);
            if self.names.is_empty() {
                self.points = Points::new(point.len());
            }
            let dimensions = self.points.dimensions();
            if point.is_empty() || point.len() != dimensions {
                return Err(BoxError::new(format!(
                    "sample `{name}` has {} inputs, and the first one {dimensions}: samples have the same inputs, one or more",
                    point.len()
                )));
            }
            if let Some(at) = point.iter().position(|x| !x.is_finite()) {
                return Err(BoxError::new(format!(
                    "sample `{name}`: input {} is {}; inputs are finite numbers",
                    at + 1,
                    point[at]
                )));
            }
            self.points.push(point);
            self.names.push(name.to_owned());
        }
        self.targets.extend_from_slice(targets);
        Ok(())
    }

    /// Fails if a target is not known.
    pub(super) fn must_have_targets(&self) -> Result<(), BoxError> {
        match self.targets.iter().position(|y| !y.is_finite()) {
            None => Ok(()),
            Some(at) => Err(BoxError::new(format!(
                "sample `{}` has no target: name its column (`target:` of read_samples)",
                self.names[at]
            ))),
        }
    }
}

/// Says in the words of the samples why they cannot be fitted.
pub(super) fn fault(error: &FitError, names: &[String]) -> BoxError {
    let name = |at: usize| names.get(at).map_or_else(|| format!("sample {at}"), |name| format!("`{name}`"));
    BoxError::new(match error {
        FitError::Empty => {
            "there are no samples to fit: the file has a header and no row, or all rows were left out".into()
        }
        FitError::NotPositiveDefinite { row, nearest, jitter } => {
            let near = nearest.map(|other| format!("; the earlier sample nearest to it is {}", name(other)));
            let tried =
                if *jitter > 0.0 { format!(", even with a jitter of {jitter:e}") } else { String::new() };
            format!(
                "the covariances are not positive definite at sample {}{tried}{}: if two samples are at one place, leave one \
                 out or give a noise (`+ white(0.01)` or `noise:`), or take `jitter: auto`",
                name(*row),
                near.unwrap_or_default()
            )
        }
        other => other.to_string(),
    })
}

/// Pushes a model in envelopes, as far as there is room; returns whether all of it is gone.
pub(super) fn push_model(
    cx: &mut Context<'_>,
    output: Out,
    model: &SavedModel,
    sent: &mut usize,
) -> Result<bool, BoxError> {
    for (nth, batch) in model.batches(true).enumerate().skip(*sent) {
        if !cx.has_room(output) {
            return Ok(false);
        }
        let envelope = Envelope::new(batch)?;
        let envelope = if nth == 0 { envelope.with_note(MODEL_NOTE, &model.head()) } else { envelope };
        cx.push(output, envelope)?;
        *sent += 1;
    }
    Ok(true)
}
