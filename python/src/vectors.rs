//! Vectors in memory as a store: the numbers stay where numpy has them.

use std::path::Path;
use std::sync::Arc;

use arrow_array::StringArray;
use arrow_array::types::Float32Type;
use boxwork_runtime::operator::Cancellation;
use boxwork_stores::kinds::Vectors;
use boxwork_stores::object_store::Rows as Objects;
use pyo3::prelude::*;

use crate::engine::interruptible;
use crate::store::Store;
use crate::{errors, numbers, rows};

/// Vectors of a batch: as many as a batch of a store has.
const BATCH_ROWS: usize = 4096;
/// The name of such stores in messages.
const NAME: &str = "vectors in memory";

/// A store of the rows of a table of float32, without a copy if they lie one after the other. Without names the rows are
/// named by their numbers.
#[pyfunction]
#[pyo3(signature = (table, names=None))]
pub(crate) fn vectors(
    py: Python<'_>,
    table: &Bound<'_, PyAny>,
    names: Option<Vec<String>>,
) -> PyResult<Store> {
    let (numbers, shape) = numbers::shared::<Float32Type>(table)?;
    let [count, dimensions] = shape[..] else {
        return Err(errors::input(
            py,
            format!("vectors are the rows of a table, and this array has the shape {shape:?}"),
        ));
    };
    if count == 0 || dimensions == 0 {
        return Err(errors::input(py, format!("there are no vectors in an array of the shape {shape:?}")));
    }
    if names.as_ref().is_some_and(|names| names.len() != count) {
        let names = names.map_or(0, |names| names.len());
        return Err(errors::input(py, format!("{count} vectors have {names} names: each has one")));
    }
    let made = interruptible(py, move |cancellation: &Cancellation| -> Result<_, String> {
        let mut objects = Objects::new(Vectors::new(dimensions));
        for first in (0..count).step_by(BATCH_ROWS) {
            if cancellation.is_cancelled() {
                break;
            }
            let rows = BATCH_ROWS.min(count - first);
            let of_batch = numbers.slice(first * dimensions, rows * dimensions);
            let of_rows = match &names {
                Some(names) => StringArray::from_iter_values(&names[first..first + rows]),
                None => StringArray::from_iter_values((first..first + rows).map(|row| row.to_string())),
            };
            let at = |reason: String| format!("vectors {first} to {}: {reason}", first + rows - 1);
            objects.append(of_rows, &[rows::vectors(of_batch, rows, dimensions)]).map_err(at)?;
        }
        let store = objects.finish(Path::new(NAME), None).map_err(|error| error.to_string())?;
        Ok(Arc::new(store) as Arc<dyn boxwork_stores::store::Store>)
    })?;
    made.map(Store::in_memory).map_err(|message| errors::input(py, message))
}
