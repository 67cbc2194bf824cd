//! One record batch of a store, checked; decoded without a copy but for its offsets.
#![expect(unsafe_code, reason = "slices of columns are kept beside the arrays that own them")]

use std::ops::Range;
use std::slice;
use std::sync::{Arc, OnceLock};

use arrow_array::{
    Array, ArrayRef, ListArray, RecordBatch, StringArray, UInt32Array, UInt64Array, make_array,
};
use arrow_buffer::OffsetBuffer;
use arrow_data::transform::MutableArrayData;
use arrow_schema::{ArrowError, DataType};
use boxwork_kernels::sqfd::{Columns, StoreColumns};

use super::super::signature::SignatureColumns;

/// The columns of a batch but for its names.
///
/// Only numbers that are never used as an index stay in the map. If pages of the map are replaced by zeros, a reader
/// computes nonsense but stays within its columns.
#[derive(Debug)]
pub struct StoreBatch {
    // Point into `signatures`; never handed out for longer than `self` is borrowed.
    coordinates: Vec<&'static [f32]>,
    weights: &'static [f32],
    offsets: &'static [i32],
    signatures: ListArray,
    widths: UInt32Array,
    heights: UInt32Array,
    extents: OnceLock<Vec<(f32, f32)>>,
}

impl StoreBatch {
    /// Checks a decoded table of a store whose first row is object `first`. The error says what does not fit.
    pub(super) fn new(table: &RecordBatch, first: u64) -> Result<Self, String> {
        check_ids(table, first)?;
        let signatures = own_signatures(typed(table, "signature")?)?;
        let columns = SignatureColumns::new(&signatures).map_err(|error| error.to_string())?;
        let view = columns.view();
        if (0..view.rows()).any(|row| view.range(row).1 == 0) {
            return Err("a signature without centroids".to_owned());
        }
        let coordinates: Vec<_> =
            view.columns().coordinates().iter().map(|column| lengthen(column)).collect();
        let (weights, offsets) = (lengthen(view.columns().weights()), lengthen(signatures.value_offsets()));
        let (widths, heights): (&UInt32Array, &UInt32Array) =
            (typed(table, "width")?, typed(table, "height")?);
        let (widths, heights) = (widths.clone(), heights.clone());
        let extents = OnceLock::new();
        Ok(Self { coordinates, weights, offsets, signatures, widths, heights, extents })
    }

    /// Number of objects.
    pub fn rows(&self) -> usize {
        self.signatures.len()
    }

    /// The signatures, as the kernels read them.
    pub fn columns(&self) -> StoreColumns<'_> {
        StoreColumns::new(Columns::new(&self.coordinates, self.weights), self.offsets)
    }

    /// The least and the greatest value of each coordinate, computed once.
    pub fn extents(&self) -> &[(f32, f32)] {
        self.extents.get_or_init(|| {
            let extent = |column: &&[f32]| {
                let wider = |(least, most): (f32, f32), x: &f32| (least.min(*x), most.max(*x));
                column.iter().fold((f32::INFINITY, f32::NEG_INFINITY), wider)
            };
            self.coordinates.iter().map(extent).collect()
        })
    }

    /// Width and height of an object's image in pixels, 0 where there is none.
    pub fn size(&self, row: usize) -> (u32, u32) {
        (self.widths.value(row), self.heights.value(row))
    }

    /// The columns signature, width and height of some rows, copied out of the map.
    pub(super) fn copied(&self, rows: &Range<usize>) -> Result<[ArrayRef; 3], ArrowError> {
        Ok([copied(&self.signatures, rows)?, copied(&self.widths, rows)?, copied(&self.heights, rows)?])
    }
}

/// Rows of a column, in memory of their own.
pub(super) fn copied(column: &dyn Array, rows: &Range<usize>) -> Result<ArrayRef, ArrowError> {
    let data = column.to_data();
    let mut copy = MutableArrayData::new(vec![&data], false, rows.len());
    copy.try_extend(0, rows.start, rows.end)?;
    Ok(make_array(copy.freeze()))
}

/// The names with their offsets copied; the text stays where it is.
pub(super) fn own_names(names: &StringArray) -> Result<StringArray, String> {
    let offsets = own_offsets(names.value_offsets(), names.values().len())?;
    StringArray::try_new(offsets, names.values().clone(), None).map_err(|error| error.to_string())
}

/// The signatures with their offsets copied; the centroids stay where they are.
fn own_signatures(signatures: &ListArray) -> Result<ListArray, String> {
    let (DataType::List(item), centroids) = (signatures.data_type(), signatures.values()) else {
        return Err("the signatures are no list".to_owned());
    };
    let offsets = own_offsets(signatures.value_offsets(), centroids.len())?;
    ListArray::try_new(Arc::clone(item), offsets, Arc::clone(centroids), None)
        .map_err(|error| error.to_string())
}

/// Readers index by offsets, so these are copied first and checked then: nothing changes a copy.
fn own_offsets(offsets: &[i32], values: usize) -> Result<OffsetBuffer<i32>, String> {
    let offsets = offsets.to_vec();
    match (offsets.first(), offsets.last()) {
        (Some(&first), Some(&last)) if first >= 0 && last as usize <= values && offsets.is_sorted() => {
            Ok(OffsetBuffer::new(offsets.into()))
        }
        _ => Err("the offsets of a column lead out of it".to_owned()),
    }
}

/// Whether the ids are the rows' places in the store.
pub(super) fn check_ids(table: &RecordBatch, first: u64) -> Result<(), String> {
    let ids: &UInt64Array = typed(table, "id")?;
    match ids.values().iter().zip(first..).all(|(id, place)| *id == place) {
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

/// A slice with its lifetime removed: the caller stores it together with its owner.
fn lengthen<T>(column: &[T]) -> &'static [T] {
    // SAFETY: the slice lies in an Arrow buffer, which does not move; `StoreBatch` keeps the array that
    // owns it as long as the slice, and lends the slice for no longer than itself.
    unsafe { slice::from_raw_parts(column.as_ptr(), column.len()) }
}
