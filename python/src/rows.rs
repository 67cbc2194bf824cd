//! `Rows`: Arrow batches of the same columns, in from any library that speaks the PyCapsule interface, and out to it.
//!
//! Invariant: batches are immutable and in memory; texts and lists have the types that pipelines know, whatever the
//! library chose for them.

use std::sync::Arc;

use arrow_array::builder::BooleanBufferBuilder;
use arrow_array::cast::AsArray;
use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, BooleanArray, ListArray, PrimitiveArray, RecordBatch,
    RecordBatchIterator, RecordBatchReader, StringArray,
};
use arrow_buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use boxwork_runtime::descriptor::{ColumnType, Descriptor};
use boxwork_stores::store::concatenated;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyList};

use crate::numbers::{self, Numbers};
use crate::{capsule, engine, errors};

/// Batches of the same columns. Any library that takes Arrow takes them: `pyarrow.table(rows)`, `polars.DataFrame(rows)`.
#[pyclass(frozen, module = "boxwork._boxwork")]
#[derive(Clone)]
pub(crate) struct Rows {
    pub(crate) schema: SchemaRef,
    pub(crate) batches: Vec<RecordBatch>,
}

impl Rows {
    /// Rows of these batches, which may be none.
    pub(crate) fn new(schema: SchemaRef, batches: Vec<RecordBatch>) -> Self {
        Self { schema, batches }
    }

    /// The batches of a box's output; its columns if there is no batch.
    pub(crate) fn of_output(columns: &Descriptor, batches: Vec<RecordBatch>) -> Self {
        let schema = batches.first().map(RecordBatch::schema);
        Self { schema: schema.unwrap_or_else(|| Arc::new(schema_of(columns))), batches }
    }

    /// The rows of any object that speaks the PyCapsule interface.
    pub(crate) fn of(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let py = object.py();
        if let Ok(rows) = object.cast::<Self>() {
            return Ok(rows.get().clone());
        }
        if object.hasattr("__arrow_c_stream__")? {
            let reader = reader_of(object)?;
            let schema = reader.schema();
            let batches = py.detach(|| reader.collect::<Result<Vec<RecordBatch>, ArrowError>>());
            return Ok(Self { schema, batches: batches.map_err(capsule::arrow)? });
        }
        if object.hasattr("__arrow_c_array__")? {
            let (schema, array): (Bound<'_, PyCapsule>, Bound<'_, PyCapsule>) =
                object.call_method0("__arrow_c_array__")?.extract()?;
            let batch = usual_batch(capsule::batch_in(&schema, &array)?).map_err(capsule::arrow)?;
            return Ok(Self { schema: batch.schema(), batches: vec![batch] });
        }
        let name = object.get_type().name()?;
        Err(errors::input(
            py,
            format!(
                "rows are an object with `__arrow_c_stream__` or `__arrow_c_array__`, and `{name}` has neither"
            ),
        ))
    }

    /// All rows as one batch.
    pub(crate) fn whole(&self) -> Result<RecordBatch, ArrowError> {
        match &self.batches[..] {
            [] => Ok(RecordBatch::new_empty(Arc::clone(&self.schema))),
            [only] => Ok(only.clone()),
            _ => {
                let column = |place: usize| {
                    let parts: Vec<ArrayRef> =
                        self.batches.iter().map(|batch| Arc::clone(batch.column(place))).collect();
                    concatenated(&parts)
                };
                let columns = (0..self.schema.fields().len()).map(column).collect::<Result<_, _>>()?;
                RecordBatch::try_new(Arc::clone(&self.schema), columns)
            }
        }
    }
}

/// The batches of an object's stream, one by one, with the usual types.
pub(crate) fn reader_of(object: &Bound<'_, PyAny>) -> PyResult<Box<dyn RecordBatchReader + Send>> {
    let capsule: Bound<'_, PyCapsule> = object.call_method0("__arrow_c_stream__")?.extract()?;
    let reader = capsule::stream_in(&capsule)?;
    let empty = usual_batch(RecordBatch::new_empty(reader.schema())).map_err(capsule::arrow)?;
    let batches = reader.map(|batch| batch.and_then(usual_batch));
    Ok(Box::new(RecordBatchIterator::new(batches, empty.schema())))
}

/// The schema of a descriptor. A family of types has no type before its first row: it is null then.
fn schema_of(columns: &Descriptor) -> Schema {
    let field = |column: &boxwork_runtime::descriptor::Column| match &column.kind {
        ColumnType::Exact(kind) => Field::new(column.name, kind.clone(), false),
        ColumnType::Family(_) => Field::new(column.name, DataType::Null, true),
    };
    Schema::new(columns.columns().iter().map(field).collect::<Vec<_>>())
}

/// A batch with texts as `Utf8` and lists as `List`, the types of envelopes.
fn usual_batch(batch: RecordBatch) -> Result<RecordBatch, ArrowError> {
    let schema = batch.schema();
    let columns: Vec<ArrayRef> = batch.columns().iter().map(usual).collect::<Result<_, _>>()?;
    let fields: Vec<Field> = schema
        .fields()
        .iter()
        .zip(&columns)
        .map(|(field, column)| {
            // Batches of one stream may differ in nulls, and their schemas must not.
            Field::new(field.name(), column.data_type().clone(), true).with_metadata(field.metadata().clone())
        })
        .collect();
    let schema = Schema::new_with_metadata(fields, schema.metadata().clone());
    RecordBatch::try_new(Arc::new(schema), columns)
}

fn usual(column: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    Ok(match column.data_type() {
        DataType::LargeUtf8 => Arc::new(column.as_string::<i64>().iter().collect::<StringArray>()),
        DataType::Utf8View => Arc::new(column.as_string_view().iter().collect::<StringArray>()),
        DataType::FixedSizeList(_, length) => {
            let lists = column.as_fixed_size_list();
            let offsets = OffsetBuffer::from_repeated_length(*length as usize, lists.len());
            list(offsets, lists.values(), lists.nulls().cloned())?
        }
        DataType::LargeList(_) => {
            let lists = column.as_list::<i64>();
            let refused =
                |_| ArrowError::InvalidArgumentError("a column of lists is too long: split it".to_owned());
            let offsets = lists.offsets().iter().map(|offset| i32::try_from(*offset).map_err(refused));
            let offsets = OffsetBuffer::new(offsets.collect::<Result<Vec<i32>, _>>()?.into());
            list(offsets, lists.values(), lists.nulls().cloned())?
        }
        DataType::List(_) => {
            let lists = column.as_list::<i32>();
            list(lists.offsets().clone(), lists.values(), lists.nulls().cloned())?
        }
        _ => Arc::clone(column),
    })
}

/// A column of lists, whose items are not nullable unless one is null.
fn list(
    offsets: OffsetBuffer<i32>,
    values: &ArrayRef,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef, ArrowError> {
    let item = Field::new("item", values.data_type().clone(), values.null_count() > 0);
    Ok(Arc::new(ListArray::try_new(Arc::new(item), offsets, Arc::clone(values), nulls)?))
}

/// Vectors of one dimension as a column of lists.
pub(crate) fn vectors<T: ArrowPrimitiveType>(
    numbers: ScalarBuffer<T::Native>,
    rows: usize,
    dimensions: usize,
) -> ArrayRef {
    let item = Arc::new(Field::new("item", T::DATA_TYPE, false));
    let offsets = OffsetBuffer::from_repeated_length(dimensions, rows);
    let numbers = Arc::new(PrimitiveArray::<T>::new(numbers, None));
    Arc::new(ListArray::new(item, offsets, numbers, None))
}

/// The vectors of rows of Arrow as a table of numbers: those of the only column of lists, or of the one with this name.
#[pyfunction]
#[pyo3(signature = (object, name=None))]
pub(crate) fn table_of_arrow(object: &Bound<'_, PyAny>, name: Option<&str>) -> PyResult<Numbers> {
    let py = object.py();
    let whole = Rows::of(object)?.whole().map_err(capsule::arrow)?;
    let schema = whole.schema();
    let is_list = |field: &&Arc<Field>| matches!(field.data_type(), DataType::List(_));
    let lists: Vec<&str> =
        schema.fields().iter().filter(is_list).map(|field| field.name().as_str()).collect();
    let chosen = match (name, &lists[..]) {
        (Some(name), lists) if lists.contains(&name) => name,
        (None, [only]) => only,
        (Some(name), _) => {
            let message = format!("`{name}` is no column of vectors; those are {lists:?}");
            return Err(errors::input(py, message));
        }
        (None, []) => {
            return Err(errors::input(py, "the rows have no column of vectors, which is one of lists"));
        }
        (None, _) => {
            return Err(errors::input(
                py,
                format!("more than one column holds vectors, {lists:?}: give one"),
            ));
        }
    };
    Numbers::of_lists(&whole[chosen])
        .map_err(|reason| errors::input(py, format!("column `{chosen}`: {reason}")))
}

/// A column of what Python gives: texts, truths, or numbers in a buffer.
fn column_in(object: &Bound<'_, PyAny>) -> PyResult<ArrayRef> {
    if let Ok(list) = object.cast::<PyList>() {
        if let Ok(texts) = list.extract::<Vec<String>>() {
            return Ok(Arc::new(StringArray::from(texts)));
        }
        let truths: Vec<bool> = list.extract().map_err(|_| {
            errors::input(
                object.py(),
                "a column in a list is of texts or of truths; give numbers as an array",
            )
        })?;
        let mut bits = BooleanBufferBuilder::new(truths.len());
        truths.iter().for_each(|truth| bits.append(*truth));
        return Ok(Arc::new(BooleanArray::new(bits.finish(), None)));
    }
    numbers::column(object)
}

#[pymethods]
impl Rows {
    /// Rows of any object that speaks the PyCapsule interface.
    #[new]
    fn py_new(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        engine::check_process(object.py())?;
        Self::of(object)
    }

    /// Rows of columns by name: arrays of numbers, or lists of texts.
    #[staticmethod]
    fn from_columns(columns: &Bound<'_, PyDict>) -> PyResult<Self> {
        let mut made = Vec::new();
        for (name, column) in columns {
            made.push((name.extract::<String>()?, column_in(&column)?));
        }
        let batch = RecordBatch::try_from_iter(made).map_err(capsule::arrow)?;
        Ok(Self { schema: batch.schema(), batches: vec![batch] })
    }

    fn __len__(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    fn __repr__(&self) -> String {
        let columns =
            self.schema.fields().iter().map(|field| format!("{}: {}", field.name(), field.data_type()));
        format!("Rows({} rows; {})", self.__len__(), columns.collect::<Vec<_>>().join(", "))
    }

    /// The names of the columns.
    #[getter]
    fn column_names(&self) -> Vec<String> {
        self.schema.fields().iter().map(|field| field.name().clone()).collect()
    }

    /// Texts beside the columns, by key.
    #[getter]
    fn metadata(&self) -> std::collections::HashMap<String, String> {
        self.schema.metadata().clone().into()
    }

    /// A column: numbers, or a list of texts; None for each null in a list.
    fn column<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        let place = self.schema.index_of(name).map_err(|_| {
            errors::input(
                py,
                format!("there is no column `{name}`; there are {}", self.column_names().join(", ")),
            )
        })?;
        let column = Arc::clone(self.whole().map_err(capsule::arrow)?.column(place));
        if let Some(numbers) = Numbers::of(&column) {
            return Ok(Bound::new(py, numbers)?.into_any());
        }
        let listed = match column.data_type() {
            DataType::Utf8 => PyList::new(py, column.as_string::<i32>().iter())?,
            DataType::Boolean => PyList::new(py, column.as_boolean().iter())?,
            DataType::Float64 => {
                PyList::new(py, column.as_primitive::<arrow_array::types::Float64Type>().iter())?
            }
            other => {
                let message = format!("the column `{name}` is {other}: read it with an Arrow library");
                return Err(errors::input(py, message));
            }
        };
        Ok(listed.into_any())
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // A wish that a producer may ignore.
        drop(requested_schema);
        let batches = self.batches.clone().into_iter().map(Ok);
        capsule::of_stream(py, Box::new(RecordBatchIterator::new(batches, Arc::clone(&self.schema))))
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
        drop(requested_schema);
        capsule::of_batch(py, self.whole().map_err(capsule::arrow)?)
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        capsule::of_schema(py, &self.schema)
    }
}
