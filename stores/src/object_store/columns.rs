//! The columns that every store file has: ids and names.

use arrow_array::{Array, RecordBatch, StringArray, UInt64Array};

use crate::kinds::lists::own_offsets;

/// The names of a decoded table with their offsets copied; the text is not copied.
pub(super) fn own_names(table: &RecordBatch) -> Result<StringArray, String> {
    let names: &StringArray = typed(table, "name")?;
    let offsets = own_offsets(names.value_offsets(), names.values().len())?;
    StringArray::try_new(offsets, names.values().clone(), None).map_err(|error| error.to_string())
}

/// Whether the ids equal the rows' places in the store.
pub(super) fn check_ids(table: &RecordBatch, first: u64) -> Result<(), String> {
    let ids: &UInt64Array = typed(table, "id")?;
    match ids.values().iter().zip(first..).all(|(id, place)| *id == place) {
        true => Ok(()),
        false => Err(format!("the ids do not count from {first}")),
    }
}

/// A column of a type, without nulls.
fn typed<'a, T: Array + 'static>(table: &'a RecordBatch, name: &str) -> Result<&'a T, String> {
    let column = table.column_by_name(name).ok_or_else(|| format!("no column `{name}`"))?;
    match column.as_any().downcast_ref() {
        Some(found) if column.null_count() == 0 => Ok(found),
        _ => Err(format!("the column `{name}` is of another type or holds nulls")),
    }
}
