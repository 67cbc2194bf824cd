//! `read_targets`: numbers that are known of objects of a store, for a Gaussian process over the objects themselves.
//!
//! Invariant: the numbers leave with mean 0 and deviation 1, since the covariance of an object with itself is 1; the first envelope says by a
//! note how they were scaled.

use std::sync::Arc;

use boxwork_kernels::gaussian_process::MARKS_MAX;
use boxwork_runtime::operator::{Bind, BoxError, Context, Flow, Kind, Operator, OperatorSpec, Out};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};
use boxwork_stores::sample_file::{SampleColumns, SampleFile, SampleRows};
use boxwork_stores::store::Store;

use super::marks::{self, Mark, SCALING_NOTE, TARGET_NOISE_MIN};
use super::read_marks::ids_of;
use crate::columns;
use crate::resources::{self, store_parameter};

const MARKS: Out = Out::new(0, "marks", columns::marks, "the objects with their numbers, scaled");

/// Reads numbers that are known of objects of a store.
///
/// A row of the file names an object, or gives `#` and its id, and has its number. The numbers are shifted and scaled to mean 0 and
/// deviation 1.
///
/// # Inputs
/// None.
///
/// # Outputs
/// `marks`: one envelope of the objects, with the scaled numbers as `relevance`. A model has at most 1000.
///
/// # Parameters
/// `path`: the file. `names`, `target`: its columns. `noise`: the variance of the scaled numbers' noise. `store`: the objects.
pub static READ_TARGETS: OperatorSpec = OperatorSpec {
    parameters: &[
        Parameter::new(
            "path",
            ParameterType::Path,
            Default::Required,
            "the numbers: CSV with a header, or Arrow",
        ),
        Parameter::new(
            "names",
            ParameterType::Text,
            Default::Text("name"),
            "the column of the objects' names",
        ),
        Parameter::new("target", ParameterType::Text, Default::Required, "the column of the numbers"),
        Parameter::new(
            "noise",
            ParameterType::Number { minimum: TARGET_NOISE_MIN, maximum: 1e6 },
            Default::Number(0.1),
            "the variance of the noise, if the numbers have variance 1",
        ),
        store_parameter("the store of the objects"),
    ],
    outputs: &[MARKS],
    example: "targets: {kind: read_targets, path: prices.csv, target: price, store: objects}",
    ..OperatorSpec::new("read_targets", "Reads numbers that are known of objects.", Kind::Stateful, make)
};

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    let target = bind.text("target").to_owned();
    // The one number of a row is read as an input, so that its faults have line and column.
    let asked = SampleColumns {
        inputs: vec![target],
        target: None,
        names: Some(bind.text("names").to_owned()),
        drops_missing: false,
    };
    let file = SampleFile::open(&bind.path("path"), &asked)?;
    let path = bind.path("path").display().to_string();
    let (noise, store) = (bind.number("noise"), resources::store(bind)?);
    Ok(Box::new(ReadTargets { file, path, noise, store, rows: SampleRows::default() }))
}

struct ReadTargets {
    file: SampleFile,
    path: String,
    noise: f64,
    store: Arc<dyn Store>,
    rows: SampleRows,
}

impl Operator for ReadTargets {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        let file = &mut self.file;
        if let Some(more) = cx.detached("disk", || file.next(MARKS_MAX))?? {
            self.rows.names.extend(more.names);
            self.rows.inputs.extend(more.inputs);
            if self.rows.len() > MARKS_MAX {
                return Err(BoxError::new(format!(
                    "`{}` has more than {MARKS_MAX} rows, and a model over objects has {MARKS_MAX} at most",
                    self.path
                )));
            }
            return Ok(Flow::More);
        }
        let (shift, scale) = self.scaling()?;
        let (rows, store, noise) = (&self.rows, &*self.store, self.noise);
        let cancelled = cx.cancelled();
        let marks = cx.detached("disk", || {
            let ids = ids_of(&rows.names, store, &cancelled)?;
            if let Some(place) = (1..ids.len()).find(|place| ids[..*place].contains(&ids[*place])) {
                return Err(BoxError::new(format!("`{}` has two numbers: give it one", rows.names[place])));
            }
            store.bring_in_until(&ids, &cancelled)?;
            let mark = |(id, y): (&u64, &f64)| {
                let (name, object) = (store.name(*id)?, store.objects(&[*id])?);
                Ok(Mark { id: *id, name, object, relevance: (y - shift) / scale, noise })
            };
            ids.iter().zip(&rows.inputs).map(mark).collect::<Result<Vec<_>, BoxError>>()
        })??;
        if let Some(envelope) = marks::envelope(&marks)? {
            cx.push(MARKS, envelope.with_note(SCALING_NOTE, &format!("{shift:?} {scale:?}")))?;
        }
        Ok(Flow::Done)
    }
}

impl ReadTargets {
    /// The mean of the numbers, and their deviation.
    fn scaling(&self) -> Result<(f64, f64), BoxError> {
        let numbers = &self.rows.inputs;
        if numbers.is_empty() {
            return Err(BoxError::new(format!("`{}` has no row: there is nothing to fit", self.path)));
        }
        let n = numbers.len() as f64;
        let mean = numbers.iter().sum::<f64>() / n;
        let deviation = (numbers.iter().map(|y| (y - mean) * (y - mean)).sum::<f64>() / n).sqrt();
        // Equal numbers say that all objects have about this one.
        let scale = if deviation > 4.0 * f64::EPSILON * mean.abs() { deviation } else { 1.0 };
        Ok((mean, scale))
    }
}
