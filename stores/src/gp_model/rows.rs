//! A model as rows and a head: of its file, and of the edges between boxes.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use arrow_array::{ArrayRef, Float64Array, ListArray, RecordBatch, StringArray};
use arrow_buffer::{OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field, Schema};
use boxwork_kernels::covariance::{Expression, Points};
use boxwork_kernels::gaussian_process::{Cholesky, Precision, Regression, Solved};
use serde_json::{Value as Json, json};

use super::SavedModel;

/// Samples of a batch; the last one may have fewer.
pub const ROWS: usize = 256;

/// The columns of a model's samples.
pub fn columns() -> Vec<Field> {
    let numbers = || DataType::List(Arc::new(Field::new("item", DataType::Float64, false)));
    vec![
        Field::new("name", DataType::Utf8, false),
        Field::new("x", numbers(), false),
        Field::new("y", DataType::Float64, false),
        Field::new("alpha", DataType::Float64, false),
        Field::new("row", numbers(), false),
    ]
}

/// Lists of numbers as a column.
pub(crate) fn lists<'a>(rows: impl Iterator<Item = &'a [f64]>) -> ArrayRef {
    let rows: Vec<&[f64]> = rows.collect();
    let offsets = OffsetBuffer::<i32>::from_lengths(rows.iter().map(|row| row.len()));
    let values = Float64Array::new(ScalarBuffer::from(rows.concat()), None);
    let item = Arc::new(Field::new("item", DataType::Float64, false));
    Arc::new(ListArray::new(item, offsets, Arc::new(values), None))
}

impl SavedModel {
    /// The numbers that are not in the rows, as JSON.
    pub fn head(&self) -> String {
        let Regression { expression, noise, jitter, scaling, log_likelihood, condition, points, .. } =
            &self.regression;
        let head = json!({
            "covariance": expression.to_string(),
            "noise": noise,
            "jitter": jitter,
            "shift": scaling.0,
            "scale": scaling.1,
            "log_likelihood": log_likelihood,
            "condition": condition,
            "precision": self.regression.precision.name(),
            "solved": text_of(self.regression.solved),
            "dimensions": points.dimensions(),
            "inputs": self.inputs,
            "target": self.target,
        });
        head.to_string()
    }

    /// The rows, with those of the factor or without.
    pub fn batches(&self, keeps_factor: bool) -> impl Iterator<Item = RecordBatch> + '_ {
        let model = &self.regression;
        let schema = Arc::new(Schema::new(columns()));
        (0..model.len()).step_by(ROWS).map(move |first| {
            let rows = first..(first + ROWS).min(model.len());
            let points: Vec<Vec<f64>> = rows.clone().map(|row| model.points.point(row)).collect();
            let keeps = keeps_factor && model.has_factor();
            let factor = |row: usize| if keeps { model.factor.row(row) } else { &[][..] };
            let columns: Vec<ArrayRef> = vec![
                Arc::new(StringArray::from_iter_values(&self.names[rows.clone()])),
                lists(points.iter().map(Vec::as_slice)),
                Arc::new(Float64Array::from(model.targets[rows.clone()].to_vec())),
                Arc::new(Float64Array::from(model.weights[rows.clone()].to_vec())),
                lists(rows.map(factor)),
            ];
            RecordBatch::try_new(Arc::clone(&schema), columns)
                .expect("columns of one length and of their types")
        })
    }

    /// The model of a head and rows.
    ///
    /// # Errors
    /// A text that says what is wrong with them.
    pub fn of_batches(head: &str, batches: &[RecordBatch]) -> Result<Self, String> {
        let head: Json = serde_json::from_str(head).map_err(|error| format!("its numbers: {error}"))?;
        let number = |key: &str| {
            let number = head[key].as_f64().filter(|number| number.is_finite());
            number.ok_or_else(|| format!("its numbers have no `{key}`"))
        };
        let text = |json: &Json| json.as_str().map(str::to_owned);
        let expression: Expression =
            text(&head["covariance"]).unwrap_or_default().parse().map_err(|error| format!("{error}"))?;
        let dimensions = head["dimensions"].as_u64().and_then(|count| usize::try_from(count).ok());
        let dimensions = dimensions.filter(|count| (1..=crate::sample_file::INPUTS_MAX).contains(count));
        let dimensions = dimensions.ok_or("its numbers have no `dimensions`")?;
        let inputs: Option<Vec<String>> =
            head["inputs"].as_array().and_then(|all| all.iter().map(text).collect());
        let inputs =
            inputs.filter(|inputs| inputs.len() == dimensions).ok_or("it has no names of its inputs")?;
        if expression.dimensions().is_some_and(|wanted| wanted != dimensions) {
            return Err(format!("its covariance is not one of {dimensions} inputs"));
        }
        let scale = number("scale")?;
        if scale <= 0.0 || number("noise")? < 0.0 || number("jitter")? < 0.0 {
            return Err("its scale, noise or jitter is below 0".to_owned());
        }
        // A model without these was written when there was f64 alone.
        let precision = match &head["precision"] {
            Json::Null => Some(Precision::F64),
            name => name.as_str().and_then(Precision::named),
        };
        let precision = precision.ok_or("its precision is none of f64, mixed and f32")?;
        let solved = match &head["solved"] {
            Json::Null => Some(Solved::Directly),
            text => text.as_str().and_then(solved_of),
        };
        let solved = solved.ok_or("it does not say how its weights were found")?;
        let mut read = Rows { points: Points::new(dimensions), ..Rows::default() };
        batches
            .iter()
            .try_for_each(|batch| read.add(batch))
            .map_err(|row| format!("sample {row} is not one"))?;
        let Rows { names, points, targets, weights, factor } = read;
        let regression = Regression {
            expression,
            noise: number("noise")?,
            jitter: number("jitter")?,
            scaling: (number("shift")?, scale),
            points,
            targets,
            factor: Cholesky::of_rows(factor),
            weights,
            log_likelihood: number("log_likelihood")?,
            condition: number("condition")?,
            precision,
            solved,
        };
        if !(regression.factor.is_empty() || regression.has_factor()) {
            return Err("its factor has not a row for each sample".to_owned());
        }
        Ok(Self { regression, names, inputs, target: text(&head["target"]).unwrap_or_default() })
    }
}

/// How weights were found, as a text of the head.
fn text_of(solved: Solved) -> String {
    match solved {
        Solved::Directly => "directly".to_owned(),
        Solved::Refined(rounds) => format!("refined {rounds}"),
        Solved::ByGradients(steps) => format!("gradients {steps}"),
        Solved::AgainNotPositiveDefinite => "again: not positive definite".to_owned(),
        Solved::AgainNotConverged => "again: not converged".to_owned(),
    }
}

/// The reverse of [`text_of`].
fn solved_of(text: &str) -> Option<Solved> {
    let counted = |prefix: &str| text.strip_prefix(prefix)?.parse::<usize>().ok();
    let known = [Solved::Directly, Solved::AgainNotPositiveDefinite, Solved::AgainNotConverged];
    let known = known.into_iter().find(|solved| text_of(*solved) == text);
    known.or(counted("refined ").map(Solved::Refined)).or(counted("gradients ").map(Solved::ByGradients))
}

/// The rows read so far.
#[derive(Default)]
struct Rows {
    names: Vec<String>,
    points: Points,
    targets: Vec<f64>,
    weights: Vec<f64>,
    factor: Vec<f64>,
}

impl Rows {
    /// Adds the rows of a batch; the number of the first that does not fit is the error.
    fn add(&mut self, batch: &RecordBatch) -> Result<(), usize> {
        let first = self.names.len();
        let column = |name: &str| batch.column_by_name(name).ok_or(first);
        let numbers = |name: &str| {
            let column = column(name)?.as_primitive_opt::<Float64Type>().ok_or(first)?;
            Ok::<ScalarBuffer<f64>, usize>(column.values().clone())
        };
        let (targets, weights) = (numbers("y")?, numbers("alpha")?);
        let names = column("name")?.as_string_opt::<i32>().ok_or(first)?;
        let points = column("x")?.as_list_opt::<i32>().ok_or(first)?;
        let factor = column("row")?.as_list_opt::<i32>().ok_or(first)?;
        for row in 0..batch.num_rows() {
            let at = first + row;
            let list = |lists: &ListArray| {
                let list = lists.value(row);
                Some(list.as_primitive_opt::<Float64Type>()?.values().clone())
            };
            let (point, of_factor) = (list(points).ok_or(at)?, list(factor).ok_or(at)?);
            let finite = |numbers: &[f64]| numbers.iter().all(|number| number.is_finite());
            let fits = point.len() == self.points.dimensions()
                && (of_factor.is_empty() || of_factor.len() == at + 1 && of_factor[at] > 0.0);
            if !(fits && finite(&point) && finite(&of_factor) && finite(&[targets[row], weights[row]])) {
                return Err(at);
            }
            // All rows of the factor are there, or none.
            if at > 0 && of_factor.is_empty() != self.factor.is_empty() {
                return Err(at);
            }
            self.points.push(&point);
            self.names.push(names.value(row).to_owned());
            self.factor.extend_from_slice(&of_factor);
        }
        self.targets.extend_from_slice(&targets);
        self.weights.extend_from_slice(&weights);
        Ok(())
    }
}
