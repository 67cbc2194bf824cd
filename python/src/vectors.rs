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

/// A store of the rows of tables of float32, without a copy if a table's lie one after the other. Without names the rows
/// are named by their numbers. `removed` are ids without an object, ascending.
#[pyfunction]
#[pyo3(signature = (tables, names=None, removed=Vec::new()))]
pub(crate) fn vectors(
    py: Python<'_>,
    tables: Vec<Bound<'_, PyAny>>,
    names: Option<Vec<String>>,
    removed: Vec<u64>,
) -> PyResult<Store> {
    let (mut parts, mut count, mut dimensions) = (Vec::new(), 0, 0);
    for table in &tables {
        let (numbers, shape) = numbers::shared::<Float32Type>(table)?;
        let [rows, columns] = shape[..] else {
            return Err(errors::input(
                py,
                format!("vectors are the rows of a table, and this array has the shape {shape:?}"),
            ));
        };
        if rows == 0 || columns == 0 {
            return Err(errors::input(
                py,
                format!("there are no vectors in an array of the shape {shape:?}"),
            ));
        }
        if dimensions != 0 && columns != dimensions {
            let message = format!("these vectors have {columns} numbers, and the others {dimensions}");
            return Err(errors::input(py, message));
        }
        dimensions = columns;
        count += rows;
        parts.push((numbers, rows));
    }
    if names.as_ref().is_some_and(|names| names.len() != count) {
        let names = names.map_or(0, |names| names.len());
        return Err(errors::input(py, format!("{count} vectors have {names} names: each has one")));
    }
    let made = interruptible(py, move |cancellation: &Cancellation| -> Result<_, String> {
        let mut objects = Objects::new(Vectors::new(dimensions));
        let mut before = 0;
        for (numbers, count) in parts {
            for first in (0..count).step_by(BATCH_ROWS) {
                if cancellation.is_cancelled() {
                    break;
                }
                let rows = BATCH_ROWS.min(count - first);
                let of_batch = numbers.slice(first * dimensions, rows * dimensions);
                let ids = before + first..before + first + rows;
                let of_rows = match &names {
                    Some(names) => StringArray::from_iter_values(&names[ids.clone()]),
                    None => StringArray::from_iter_values(ids.clone().map(|row| row.to_string())),
                };
                let at = |reason: String| match of_batch.iter().position(|number| !number.is_finite()) {
                    Some(place) => format!(
                        "vector {}: number {} is {}: the numbers of a vector are finite",
                        ids.start + place / dimensions,
                        place % dimensions,
                        of_batch[place]
                    ),
                    None => format!("vectors {} to {}: {reason}", ids.start, ids.end - 1),
                };
                objects.append(of_rows, &[rows::vectors(of_batch.clone(), rows, dimensions)]).map_err(at)?;
            }
            before += count;
        }
        let store = objects.finish_without(removed, Path::new(NAME), None);
        Ok(Arc::new(store.map_err(|error| error.to_string())?) as Arc<dyn boxwork_stores::store::Store>)
    })?;
    made.map(Store::in_memory).map_err(|message| errors::input(py, message))
}
