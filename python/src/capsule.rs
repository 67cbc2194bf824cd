//! Arrow data in capsules: the PyCapsule interface, both ways, over Arrow's C data interface.
//!
//! This file and `numbers.rs` are the only islands of unsafe code here. A producer promises that what its capsule holds
//! follows the C data interface; nothing can check its pointers. The structs are moved out of a foreign capsule, as the
//! interface says, so that its destructor finds them released.

#![expect(unsafe_code, reason = "the C data interface is structs of raw pointers")]

use std::ffi::CStr;
use std::ptr::NonNull;

use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi, to_ffi};
use arrow_array::ffi_stream::{FFI_ArrowArrayStream, RecordBatchStreamReader};
use arrow_array::{Array, RecordBatch, RecordBatchReader, StructArray};
use arrow_schema::{ArrowError, DataType, Schema};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

const STREAM: &CStr = c"arrow_array_stream";
const ARRAY: &CStr = c"arrow_array";
const SCHEMA: &CStr = c"arrow_schema";

/// A capsule of batches.
pub(crate) fn of_stream<'py>(
    py: Python<'py>,
    reader: Box<dyn RecordBatchReader + Send>,
) -> PyResult<Bound<'py, PyCapsule>> {
    PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(reader), STREAM)
}

/// A capsule of the columns' names and types.
pub(crate) fn of_schema<'py>(py: Python<'py>, schema: &Schema) -> PyResult<Bound<'py, PyCapsule>> {
    let schema = FFI_ArrowSchema::try_from(schema).map_err(arrow)?;
    PyCapsule::new_with_value(py, schema, SCHEMA)
}

/// Two capsules of one batch: its type, and its columns as a struct.
pub(crate) fn of_batch<'py>(
    py: Python<'py>,
    batch: RecordBatch,
) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
    let schema = of_schema(py, batch.schema_ref())?;
    let (array, _) = to_ffi(&StructArray::from(batch).to_data()).map_err(arrow)?;
    Ok((schema, PyCapsule::new_with_value(py, array, ARRAY)?))
}

/// The batches of a foreign capsule.
pub(crate) fn stream_in(capsule: &Bound<'_, PyCapsule>) -> PyResult<RecordBatchStreamReader> {
    let stream: NonNull<FFI_ArrowArrayStream> = capsule.pointer_checked(Some(STREAM))?.cast();
    // SAFETY: a capsule of this name holds this struct, says the PyCapsule interface; it is moved out, and an empty one is
    // left for the capsule's destructor. The lock of the interpreter keeps others from the capsule meanwhile.
    let stream = unsafe { FFI_ArrowArrayStream::from_raw(stream.as_ptr()) };
    RecordBatchStreamReader::try_new(stream).map_err(arrow)
}

/// The batch of two foreign capsules.
pub(crate) fn batch_in(schema: &Bound<'_, PyCapsule>, array: &Bound<'_, PyCapsule>) -> PyResult<RecordBatch> {
    let of_schema: NonNull<FFI_ArrowSchema> = schema.pointer_checked(Some(SCHEMA))?.cast();
    let of_array: NonNull<FFI_ArrowArray> = array.pointer_checked(Some(ARRAY))?.cast();
    // SAFETY: as in `stream_in`; the schema is only read while its capsule is borrowed.
    let (array, schema) = unsafe { (FFI_ArrowArray::from_raw(of_array.as_ptr()), of_schema.as_ref()) };
    // SAFETY: the producer promises that its array is of its schema and follows the C data interface.
    let mut data = unsafe { from_ffi(array, schema) }.map_err(arrow)?;
    data.align_buffers();
    if !matches!(data.data_type(), DataType::Struct(_)) || data.null_count() > 0 {
        let message =
            format!("a batch is a struct of columns without nulls, and this is {}", data.data_type());
        return Err(arrow(ArrowError::InvalidArgumentError(message)));
    }
    let metadata = Schema::try_from(schema).map_err(arrow)?.metadata().clone();
    let batch = RecordBatch::from(StructArray::from(data));
    let schema = batch.schema().as_ref().clone().with_metadata(metadata);
    batch.with_schema(schema.into()).map_err(arrow)
}

/// An error of Arrow as an exception.
pub(crate) fn arrow(error: ArrowError) -> PyErr {
    Python::attach(|py| crate::errors::input(py, error))
}
