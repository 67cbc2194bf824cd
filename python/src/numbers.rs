//! Numbers that Python and Arrow share without a copy.
//!
//! Invariant: memory of Python stays as long as an Arrow buffer uses it, and memory of Arrow as long as an array of
//! Python does.

#![expect(unsafe_code, reason = "a buffer of Arrow is made of the address of Python's memory")]

use std::panic::RefUnwindSafe;
use std::ptr::NonNull;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Float16Type, Float32Type, Float64Type, Int8Type, Int32Type, Int64Type, UInt8Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, PrimitiveArray};
use arrow_buffer::{Buffer, ScalarBuffer};
use arrow_schema::DataType;
use pyo3::buffer::{Element, PyBuffer};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::errors;

/// Numbers of one type, in one or two dimensions. `numpy.asarray` takes them without a copy.
#[pyclass(frozen, module = "boxwork._boxwork")]
pub(crate) struct Numbers {
    array: ArrayRef,
    shape: Vec<usize>,
}

impl Numbers {
    /// The numbers of an array without nulls; nothing if it holds something else.
    pub(crate) fn of(array: &ArrayRef) -> Option<Self> {
        kind_of(array.data_type()).filter(|_| array.null_count() == 0)?;
        Some(Self { array: Arc::clone(array), shape: vec![array.len()] })
    }

    /// The vectors of a column of lists as a table, without a copy if each has as many numbers; or why they are none.
    pub(crate) fn of_lists(column: &ArrayRef) -> Result<Self, String> {
        let lists = column.as_list_opt::<i32>().ok_or_else(|| format!("it holds {}", column.data_type()))?;
        let (offsets, rows) = (lists.offsets(), lists.len());
        if lists.null_count() > 0 {
            return Err("some of its vectors are null".to_owned());
        }
        let columns = if rows == 0 { 0 } else { (offsets[1] - offsets[0]) as usize };
        if let Some(row) = (0..rows).find(|row| (offsets[row + 1] - offsets[*row]) as usize != columns) {
            let other = offsets[row + 1] - offsets[row];
            return Err(format!("vector {row} has {other} numbers, and the first {columns}"));
        }
        let first = offsets[0] as usize;
        let numbers = lists.values().slice(first, rows * columns);
        match Self::of(&numbers) {
            Some(numbers) => Ok(Self { shape: vec![rows, columns], ..numbers }),
            None => Err(format!("its vectors hold {} or nulls", numbers.data_type())),
        }
    }

    /// A table of numbers, row by row.
    pub(crate) fn table(numbers: Vec<f64>, columns: usize) -> Self {
        let rows = numbers.len().checked_div(columns).unwrap_or(0);
        Self { array: Arc::new(PrimitiveArray::<Float64Type>::from(numbers)), shape: vec![rows, columns] }
    }

    fn address(&self) -> usize {
        fn of<T: ArrowPrimitiveType>(array: &ArrayRef) -> usize {
            array.as_primitive::<T>().values().as_ptr() as usize
        }
        match self.array.data_type() {
            DataType::Float16 => of::<Float16Type>(&self.array),
            DataType::Float32 => of::<Float32Type>(&self.array),
            DataType::Float64 => of::<Float64Type>(&self.array),
            DataType::Int8 => of::<Int8Type>(&self.array),
            DataType::Int32 => of::<Int32Type>(&self.array),
            DataType::Int64 => of::<Int64Type>(&self.array),
            DataType::UInt8 => of::<UInt8Type>(&self.array),
            DataType::UInt32 => of::<UInt32Type>(&self.array),
            DataType::UInt64 => of::<UInt64Type>(&self.array),
            other => unreachable!("numbers were made of {other}"),
        }
    }
}

/// numpy's word for a type of numbers.
fn kind_of(kind: &DataType) -> Option<&'static str> {
    Some(match kind {
        DataType::Float16 => "<f2",
        DataType::Float32 => "<f4",
        DataType::Float64 => "<f8",
        DataType::Int8 => "|i1",
        DataType::Int32 => "<i4",
        DataType::Int64 => "<i8",
        DataType::UInt8 => "|u1",
        DataType::UInt32 => "<u4",
        DataType::UInt64 => "<u8",
        _ => return None,
    })
}

#[pymethods]
impl Numbers {
    fn __len__(&self) -> usize {
        self.shape[0]
    }

    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let interface = PyDict::new(py);
        interface.set_item("version", 3)?;
        interface.set_item("typestr", kind_of(self.array.data_type()))?;
        interface.set_item("shape", PyTuple::new(py, &self.shape)?)?;
        // Read only: other results may share the memory.
        interface.set_item("data", (self.address(), true))?;
        Ok(interface)
    }
}

/// Memory of Python that an Arrow buffer uses.
struct Kept<T: Element>(#[expect(dead_code, reason = "kept for its drop")] PyBuffer<T>);

// A panic leaves the memory as it is: it is Python's.
impl<T: Element> RefUnwindSafe for Kept<T> {}

/// The numbers of an object with the buffer protocol, without a copy if they lie one after the other. The caller must not
/// write to the memory afterwards.
pub(crate) fn shared<T>(object: &Bound<'_, PyAny>) -> PyResult<(ScalarBuffer<T::Native>, Vec<usize>)>
where
    T: ArrowPrimitiveType,
    T::Native: Element + RefUnwindSafe,
{
    let py = object.py();
    let buffer = PyBuffer::<T::Native>::get(object)?;
    let shape = buffer.shape().to_vec();
    let pointer = buffer.buf_ptr().cast::<T::Native>();
    let is_usable = buffer.is_c_contiguous() && pointer.is_aligned();
    let (Some(start), true, true) = (NonNull::new(pointer.cast::<u8>()), is_usable, buffer.item_count() > 0)
    else {
        return Ok((ScalarBuffer::from(buffer.to_vec(py)?), shape));
    };
    let bytes = buffer.len_bytes();
    // SAFETY: the buffer protocol keeps these bytes in place and alive until the `PyBuffer` is released, and the Arrow
    // buffer owns that.
    let buffer = unsafe { Buffer::from_custom_allocation(start, bytes, Arc::new(Kept(buffer))) };
    Ok((ScalarBuffer::from(buffer), shape))
}

/// A column of numbers of an object with the buffer protocol, of the type that it says.
pub(crate) fn column(object: &Bound<'_, PyAny>) -> PyResult<ArrayRef> {
    fn of<T>(object: &Bound<'_, PyAny>) -> PyResult<ArrayRef>
    where
        T: ArrowPrimitiveType,
        T::Native: Element + RefUnwindSafe,
    {
        let (values, shape) = shared::<T>(object)?;
        if shape.len() != 1 {
            let message = format!("a column of numbers has one dimension, and this has {}", shape.len());
            return Err(errors::input(object.py(), message));
        }
        Ok(Arc::new(PrimitiveArray::<T>::new(values, None)))
    }
    let kinds = [
        of::<Float64Type>,
        of::<Float32Type>,
        of::<Int32Type>,
        of::<Int64Type>,
        of::<UInt8Type>,
        of::<UInt32Type>,
        of::<UInt64Type>,
    ];
    for kind in kinds {
        match kind(object) {
            Err(error) if error.is_instance_of::<pyo3::exceptions::PyBufferError>(object.py()) => {}
            found => return found,
        }
    }
    let message =
        "a column of numbers holds float64, float32, int32, int64, uint8, uint32 or uint64: convert it";
    Err(errors::input(object.py(), message))
}
