//! Vectors in memory as a store: the numbers stay where numpy has them.

use std::path::Path;
use std::sync::Arc;

use arrow_array::types::{Float16Type, Float32Type, Int8Type, UInt8Type, UInt16Type};
use arrow_array::{ArrayRef, StringArray};
use arrow_buffer::ScalarBuffer;
use boxwork_kernels::vector::{NumberType, VectorRef};
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

/// The numbers of a table, where numpy has them.
enum Table {
    F32(ScalarBuffer<f32>),
    F16(ScalarBuffer<half::f16>),
    U8(ScalarBuffer<u8>),
    I8(ScalarBuffer<i8>),
}

impl Table {
    /// The numbers of an array of this type, and its shape. Those of 16 bits come as whole numbers with the same bits: the buffer
    /// protocol knows no others.
    fn of(numbers: NumberType, table: &Bound<'_, PyAny>) -> PyResult<(Self, Vec<usize>)> {
        Ok(match numbers {
            NumberType::F32 => {
                let (numbers, shape) = numbers::shared::<Float32Type>(table)?;
                (Self::F32(numbers), shape)
            }
            NumberType::F16 => {
                let (numbers, shape) = numbers::shared::<UInt16Type>(table)?;
                (Self::F16(ScalarBuffer::from(numbers.into_inner())), shape)
            }
            NumberType::U8 => {
                let (numbers, shape) = numbers::shared::<UInt8Type>(table)?;
                (Self::U8(numbers), shape)
            }
            NumberType::I8 => {
                let (numbers, shape) = numbers::shared::<Int8Type>(table)?;
                (Self::I8(numbers), shape)
            }
        })
    }

    /// The numbers of some rows.
    fn rows(&self, first: usize, rows: usize, dimensions: usize) -> VectorRef<'_> {
        let at = first * dimensions..(first + rows) * dimensions;
        match self {
            Self::F32(numbers) => VectorRef::F32(&numbers[at]),
            Self::F16(numbers) => VectorRef::F16(&numbers[at]),
            Self::U8(numbers) => VectorRef::U8(&numbers[at]),
            Self::I8(numbers) => VectorRef::I8(&numbers[at]),
        }
    }

    /// Some rows as a column.
    fn column(&self, first: usize, rows: usize, dimensions: usize) -> ArrayRef {
        let (at, length) = (first * dimensions, rows * dimensions);
        match self {
            Self::F32(numbers) => rows::vectors::<Float32Type>(numbers.slice(at, length), rows, dimensions),
            Self::F16(numbers) => rows::vectors::<Float16Type>(numbers.slice(at, length), rows, dimensions),
            Self::U8(numbers) => rows::vectors::<UInt8Type>(numbers.slice(at, length), rows, dimensions),
            Self::I8(numbers) => rows::vectors::<Int8Type>(numbers.slice(at, length), rows, dimensions),
        }
    }
}

/// A store of the rows of tables of one type of numbers (`f32`, `f16`, `u8` or `i8`), without a copy if a table's lie one after the
/// other. Without names the rows are named by their numbers. `removed` are ids without an object, ascending.
#[pyfunction]
#[pyo3(signature = (tables, numbers="f32", names=None, removed=Vec::new()))]
pub(crate) fn vectors(
    py: Python<'_>,
    tables: Vec<Bound<'_, PyAny>>,
    numbers: &str,
    names: Option<Vec<String>>,
    removed: Vec<u64>,
) -> PyResult<Store> {
    let number_type: NumberType = numbers.parse().map_err(|error| errors::input(py, error))?;
    let (mut parts, mut count, mut dimensions) = (Vec::new(), 0, 0);
    for table in &tables {
        let (numbers, shape) = Table::of(number_type, table)?;
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
        let mut objects = Objects::new(Vectors::of(dimensions, number_type));
        let mut before = 0;
        for (numbers, count) in parts {
            for first in (0..count).step_by(BATCH_ROWS) {
                if cancellation.is_cancelled() {
                    break;
                }
                let rows = BATCH_ROWS.min(count - first);
                let ids = before + first..before + first + rows;
                let of_rows = match &names {
                    Some(names) => StringArray::from_iter_values(&names[ids.clone()]),
                    None => StringArray::from_iter_values(ids.clone().map(|row| row.to_string())),
                };
                let of_batch = numbers.rows(first, rows, dimensions);
                let at = |reason: String| match of_batch.not_finite() {
                    Some(place) => format!(
                        "vector {}: number {} is {}: the numbers of a vector are finite",
                        ids.start + place / dimensions,
                        place % dimensions,
                        of_batch.widened()[place]
                    ),
                    None => format!("vectors {} to {}: {reason}", ids.start, ids.end - 1),
                };
                objects.append(of_rows, &[numbers.column(first, rows, dimensions)]).map_err(at)?;
            }
            before += count;
        }
        let store = objects.finish_without(removed, Path::new(NAME), None);
        Ok(Arc::new(store.map_err(|error| error.to_string())?) as Arc<dyn boxwork_stores::store::Store>)
    })?;
    made.map(Store::in_memory).map_err(|message| errors::input(py, message))
}
