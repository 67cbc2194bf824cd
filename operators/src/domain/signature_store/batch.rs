//! One record batch of a store, decoded without a copy and checked.
#![expect(unsafe_code, reason = "slices of columns are kept beside the arrays that own them")]

use std::slice;

use arrow_array::types::{UInt32Type, UInt64Type};
use arrow_array::{Array, ArrowPrimitiveType, ListArray, PrimitiveArray, RecordBatch, StringArray};
use boxwork_kernels::sqfd::{Columns, StoreColumns};

use super::super::signature::SignatureColumns;

/// The columns of a batch.
#[derive(Debug)]
pub struct StoreBatch {
    // Point into `table`; never handed out for longer than `self` is borrowed.
    coordinates: Vec<&'static [f32]>,
    weights: &'static [f32],
    offsets: &'static [i32],
    table: RecordBatch,
}

impl StoreBatch {
    /// Checks a decoded table of a store whose first row is object `first`; the error says what does not fit.
    pub(super) fn new(table: RecordBatch, first: u64) -> Result<Self, String> {
        check_ids(&table, first)?;
        let list: &ListArray = typed(&table, "signature")?;
        let columns = SignatureColumns::new(list).map_err(|error| error.to_string())?;
        let view = columns.view();
        if (0..view.rows()).any(|row| view.range(row).1 == 0) {
            return Err("a signature without centroids".to_owned());
        }
        let lengthened: Vec<_> = view.columns().coordinates().iter().map(|column| lengthen(column)).collect();
        let (weights, offsets) = (lengthen(view.columns().weights()), lengthen(list.value_offsets()));
        typed::<StringArray>(&table, "name")?;
        primitives::<UInt32Type>(&table, "width")?;
        primitives::<UInt32Type>(&table, "height")?;
        Ok(Self { coordinates: lengthened, weights, offsets, table })
    }

    /// Number of objects.
    pub fn rows(&self) -> usize {
        self.table.num_rows()
    }

    /// The signatures, as the kernels read them.
    pub fn columns(&self) -> StoreColumns<'_> {
        StoreColumns::new(Columns::new(&self.coordinates, self.weights), self.offsets)
    }

    /// The columns id, name, signature, width and height, mapped from the file.
    pub fn table(&self) -> &RecordBatch {
        &self.table
    }

    /// Width and height of an object's image in pixels, 0 where there is none.
    pub fn size(&self, row: usize) -> (u32, u32) {
        let side = |name| primitives::<UInt32Type>(&self.table, name).expect("checked when it was made")[row];
        (side("width"), side("height"))
    }
}

/// Whether the ids are the rows' places in the store.
pub(super) fn check_ids(table: &RecordBatch, first: u64) -> Result<(), String> {
    let ids = primitives::<UInt64Type>(table, "id")?;
    match ids.iter().zip(first..).all(|(id, place)| *id == place) {
        true => Ok(()),
        false => Err(format!("the ids do not count from {first}")),
    }
}

/// A column of a type; none holds a null.
pub(super) fn typed<'a, T: Array + 'static>(table: &'a RecordBatch, name: &str) -> Result<&'a T, String> {
    let column = table.column_by_name(name).ok_or_else(|| format!("no column `{name}`"))?;
    match column.as_any().downcast_ref() {
        Some(column) if table.column_by_name(name).is_some_and(|column| column.null_count() == 0) => {
            Ok(column)
        }
        _ => Err(format!("the column `{name}` is of another type or holds nulls")),
    }
}

fn primitives<'a, T: ArrowPrimitiveType>(
    table: &'a RecordBatch,
    name: &str,
) -> Result<&'a [T::Native], String> {
    Ok(typed::<PrimitiveArray<T>>(table, name)?.values())
}

/// The same slice, for as long as its owner keeps it: the caller stores both together.
fn lengthen<T>(column: &[T]) -> &'static [T] {
    // SAFETY: the slice lies in an Arrow buffer, which neither moves nor changes; `StoreBatch` keeps the table that
    // owns it as long as the slice, and lends the slice for no longer than itself.
    unsafe { slice::from_raw_parts(column.as_ptr(), column.len()) }
}
