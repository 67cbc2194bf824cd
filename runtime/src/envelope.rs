//! The envelope: a table that travels along an edge.
//!
//! Invariants: at most [`ENVELOPE_ROWS_MAX`] rows; no column holds a null; columns are Arrow arrays shared by
//! pointer, so cloning an envelope copies no data. The bytes that it counts against an edge are fixed when it is
//! made.

use std::sync::Arc;

use arrow_array::types::{Float64Type, UInt32Type, UInt64Type};
use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, BinaryArray, BooleanArray, ListArray, PrimitiveArray, RecordBatch,
    StringArray, UInt32Array,
};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use arrow_select::filter::filter_record_batch;
use arrow_select::take::take_record_batch;

/// The most rows that one envelope holds.
pub const ENVELOPE_ROWS_MAX: usize = 65_536;

/// The reason that a table cannot be an envelope, or that a column cannot be read from an envelope.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EnvelopeError {
    /// More rows than [`ENVELOPE_ROWS_MAX`].
    #[error(
        "an envelope of {rows} rows is too long: split it into envelopes of at most {ENVELOPE_ROWS_MAX} rows"
    )]
    TooManyRows {
        /// The rows of the table.
        rows: usize,
    },
    /// A column holds nulls.
    #[error("column `{column}` holds {nulls} nulls: envelopes have none, so fill or drop them first")]
    Nulls {
        /// The column's name.
        column: String,
        /// The number of its nulls.
        nulls: usize,
    },
    /// There is no such column.
    #[error("no column `{column}` in the envelope; it has {present}")]
    NoColumn {
        /// The column asked for.
        column: String,
        /// The columns that are there.
        present: String,
    },
    /// The column is of another type.
    #[error("column `{column}` is {found}, not {wanted}")]
    ColumnType {
        /// The column's name.
        column: String,
        /// Its type.
        found: DataType,
        /// The type asked for.
        wanted: &'static str,
    },
    /// There is no such row.
    #[error("no row {row} in the envelope; it has {rows}")]
    NoRow {
        /// The row asked for, from 0.
        row: usize,
        /// The number of its rows.
        rows: usize,
    },
    /// A mask has another length than the envelope.
    #[error("a mask of {marks} marks does not fit an envelope of {rows} rows")]
    MaskLength {
        /// The length of the mask.
        marks: usize,
        /// The rows of the envelope.
        rows: usize,
    },
    /// Arrow refused the columns (unequal lengths, say).
    #[error("the columns do not form a table: {0}")]
    Table(#[from] ArrowError),
}

/// A table that travels along an edge: columns and rows, nothing else.
#[derive(Clone, Debug)]
pub struct Envelope {
    /// Behind a pointer: an envelope moves several times a hop, and is cloned for each edge that it takes.
    table: Arc<Table>,
}

#[derive(Debug)]
struct Table {
    batch: RecordBatch,
    bytes: usize,
}

impl Envelope {
    /// Wraps a table whose memory counts against the edges that hold it.
    ///
    /// # Errors
    /// When the table has more than [`ENVELOPE_ROWS_MAX`] rows or a column holds nulls.
    pub fn new(batch: RecordBatch) -> Result<Self, EnvelopeError> {
        let bytes = batch.columns().iter().map(|column| column_bytes(column.as_ref())).sum();
        Self::with_bytes(batch, bytes)
    }

    /// Makes an envelope from named columns of equal length.
    ///
    /// # Errors
    /// As [`Envelope::new`], and when the columns differ in length.
    pub fn from_columns<'a>(
        columns: impl IntoIterator<Item = (&'a str, ArrayRef)>,
    ) -> Result<Self, EnvelopeError> {
        let (fields, arrays): (Vec<_>, Vec<_>) = columns
            .into_iter()
            .map(|(name, array)| (Field::new(name, array.data_type().clone(), false), array))
            .unzip();
        Self::new(RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)?)
    }

    /// Adds a text beside the columns, by key: information on their origin for a reader far down the pipeline.
    /// Descriptors ignore it, and boxes that make new envelopes do not pass it on.
    #[must_use]
    pub fn with_note(self, key: &str, text: &str) -> Self {
        debug_assert!(!key.is_empty(), "a note without a key: no reader could ask for it");
        let mut notes = self.schema().metadata().clone();
        notes.insert(key.to_owned(), text.to_owned());
        let schema = Arc::new(Schema::new_with_metadata(self.schema().fields().clone(), notes));
        match self.batch().clone().with_schema(schema) {
            Ok(batch) => Self { table: Arc::new(Table { batch, bytes: self.bytes() }) },
            // Unreachable, because Arrow accepts more metadata; the columns are worth more than a note.
            Err(_) => self,
        }
    }

    /// The text that [`Envelope::with_note`] put beside the columns.
    pub fn note(&self, key: &str) -> Option<&str> {
        self.schema().metadata().get(key).map(String::as_str)
    }

    /// The rows at these places, in this order; a place may occur several times. Notes stay.
    ///
    /// # Errors
    /// When there is no such row, or the rows are more than an envelope holds.
    pub fn take(&self, rows: &[usize]) -> Result<Self, EnvelopeError> {
        if rows.len() > ENVELOPE_ROWS_MAX {
            return Err(EnvelopeError::TooManyRows { rows: rows.len() });
        }
        if let Some(row) = rows.iter().find(|row| **row >= self.rows()) {
            return Err(EnvelopeError::NoRow { row: *row, rows: self.rows() });
        }
        // Below `ENVELOPE_ROWS_MAX`, so no place is cut off.
        let places = UInt32Array::from_iter_values(rows.iter().map(|row| *row as u32));
        Self::new(take_record_batch(self.batch(), &places)?)
    }

    /// The rows whose mark is true, in their order; the envelope itself if all are. Notes stay.
    ///
    /// # Errors
    /// When the mask has not one mark for each row.
    pub fn filter(&self, mask: &[bool]) -> Result<Self, EnvelopeError> {
        if mask.len() != self.rows() {
            return Err(EnvelopeError::MaskLength { marks: mask.len(), rows: self.rows() });
        }
        if mask.iter().all(|mark| *mark) {
            return Ok(self.clone());
        }
        Self::new(filter_record_batch(
            self.batch(),
            &BooleanArray::from_iter(mask.iter().copied().map(Some)),
        )?)
    }

    fn with_bytes(batch: RecordBatch, bytes: usize) -> Result<Self, EnvelopeError> {
        if batch.num_rows() > ENVELOPE_ROWS_MAX {
            return Err(EnvelopeError::TooManyRows { rows: batch.num_rows() });
        }
        for (idx, column) in batch.columns().iter().enumerate() {
            if column.null_count() > 0 {
                let column_name = batch.schema_ref().field(idx).name().clone();
                return Err(EnvelopeError::Nulls { column: column_name, nulls: column.null_count() });
            }
        }
        Ok(Self { table: Arc::new(Table { batch, bytes }) })
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.batch().num_rows()
    }

    /// The bytes that it counts against an edge's limit and a request's budget.
    pub fn bytes(&self) -> usize {
        self.table.bytes
    }

    /// The table.
    pub fn batch(&self) -> &RecordBatch {
        &self.table.batch
    }

    /// The names and types of the columns.
    pub fn schema(&self) -> &SchemaRef {
        self.batch().schema_ref()
    }

    /// A column by name, to pass on by pointer.
    ///
    /// # Errors
    /// When there is no such column.
    pub fn column(&self, name: &str) -> Result<&ArrayRef, EnvelopeError> {
        self.batch().column_by_name(name).ok_or_else(|| EnvelopeError::NoColumn {
            column: name.to_owned(),
            present: self
                .batch()
                .schema_ref()
                .fields()
                .iter()
                .map(|f| f.name().as_str())
                .collect::<Vec<_>>()
                .join(", "),
        })
    }

    fn typed<T: Array + 'static>(&self, name: &str, wanted: &'static str) -> Result<&T, EnvelopeError> {
        let column = self.column(name)?;
        column.as_any().downcast_ref().ok_or_else(|| EnvelopeError::ColumnType {
            column: name.to_owned(),
            found: column.data_type().clone(),
            wanted,
        })
    }

    fn primitive<T: ArrowPrimitiveType>(
        &self,
        name: &str,
        wanted: &'static str,
    ) -> Result<&[T::Native], EnvelopeError> {
        Ok(self.typed::<PrimitiveArray<T>>(name, wanted)?.values())
    }

    /// The values of a `UInt32` column.
    ///
    /// # Errors
    /// When there is no such column or it is of another type; so for the accessors below.
    pub fn u32s(&self, name: &str) -> Result<&[u32], EnvelopeError> {
        self.primitive::<UInt32Type>(name, "UInt32")
    }

    /// The values of a `UInt64` column.
    #[expect(clippy::missing_errors_doc, reason = "said once, at `u32s`")]
    pub fn u64s(&self, name: &str) -> Result<&[u64], EnvelopeError> {
        self.primitive::<UInt64Type>(name, "UInt64")
    }

    /// The values of a `Float64` column.
    #[expect(clippy::missing_errors_doc, reason = "said once, at `u32s`")]
    pub fn f64s(&self, name: &str) -> Result<&[f64], EnvelopeError> {
        self.primitive::<Float64Type>(name, "Float64")
    }

    /// A `Utf8` column.
    #[expect(clippy::missing_errors_doc, reason = "said once, at `u32s`")]
    pub fn texts(&self, name: &str) -> Result<&StringArray, EnvelopeError> {
        self.typed(name, "Utf8")
    }

    /// A `Binary` column.
    #[expect(clippy::missing_errors_doc, reason = "said once, at `u32s`")]
    pub fn binaries(&self, name: &str) -> Result<&BinaryArray, EnvelopeError> {
        self.typed(name, "Binary")
    }

    /// A `List` column.
    #[expect(clippy::missing_errors_doc, reason = "said once, at `u32s`")]
    pub fn lists(&self, name: &str) -> Result<&ListArray, EnvelopeError> {
        self.typed(name, "List")
    }
}

/// The bytes of a column's rows; a slice of a long array counts its own rows only.
fn column_bytes(column: &dyn Array) -> usize {
    match column.data_type().primitive_width() {
        Some(width) => width * column.len(),
        // These arrays are well-formed, so Arrow can follow their offsets to compute the size.
        None => column.to_data().get_slice_memory_size().unwrap_or_else(|_| column.get_array_memory_size()),
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::UInt32Array;

    use super::*;

    #[test]
    fn counts_the_rows_of_a_slice_only() {
        let long = UInt32Array::from_iter_values(0..1000);
        let envelope = Envelope::from_columns([("query", Arc::new(long.slice(10, 5)) as ArrayRef)]).unwrap();
        assert_eq!((envelope.rows(), envelope.bytes()), (5, 20));
        assert_eq!(envelope.u32s("query").unwrap(), &[10, 11, 12, 13, 14]);
    }

    #[test]
    fn a_note_travels_with_the_columns() {
        let one = Arc::new(UInt32Array::from(vec![1])) as ArrayRef;
        let envelope =
            Envelope::from_columns([("query", one)]).unwrap().with_note("a", "x").with_note("b", "y");
        assert_eq!(
            (envelope.note("a"), envelope.note("b"), envelope.note("c")),
            (Some("x"), Some("y"), None)
        );
        assert_eq!((envelope.bytes(), envelope.u32s("query").unwrap()), (4, &[1_u32][..]));
    }

    #[test]
    fn refuses_nulls_and_too_many_rows() {
        let nulls = Arc::new(UInt32Array::from(vec![Some(1), None])) as ArrayRef;
        let batch = RecordBatch::try_from_iter_with_nullable([("query", nulls, true)]).unwrap();
        assert!(matches!(Envelope::new(batch), Err(EnvelopeError::Nulls { nulls: 1, .. })));
        let long = Arc::new(UInt32Array::from_iter_values(0..=ENVELOPE_ROWS_MAX as u32)) as ArrayRef;
        assert!(matches!(Envelope::from_columns([("query", long)]), Err(EnvelopeError::TooManyRows { .. })));
    }

    /// Numbers with a text and a list beside each, and a note.
    fn rows_of(numbers: &[u32]) -> Envelope {
        let list = |number: &u32| Some((0..*number).map(Some).collect::<Vec<_>>());
        let texts = StringArray::from_iter_values(numbers.iter().map(|number| format!("text {number}")));
        let columns: [(&str, ArrayRef); 3] = [
            ("number", Arc::new(UInt32Array::from(numbers.to_vec()))),
            ("text", Arc::new(texts)),
            ("list", Arc::new(ListArray::from_iter_primitive::<UInt32Type, _, _>(numbers.iter().map(list)))),
        ];
        Envelope::from_columns(columns).unwrap().with_note("from", "here")
    }

    /// The numbers of [`rows_of`], after a check that the other columns moved with them.
    fn numbers(envelope: &Envelope) -> Vec<u32> {
        let numbers = envelope.u32s("number").unwrap().to_vec();
        let (texts, lists) = (envelope.texts("text").unwrap(), envelope.lists("list").unwrap());
        for (row, number) in numbers.iter().enumerate() {
            assert_eq!(texts.value(row), format!("text {number}"));
            assert_eq!(lists.value(row).len(), *number as usize);
        }
        assert_eq!(envelope.note("from"), Some("here"));
        numbers
    }

    #[test]
    fn takes_rows_by_place_in_any_order() {
        let envelope = rows_of(&[5, 0, 7, 2]);
        assert_eq!(numbers(&envelope.take(&[3, 0, 0, 2]).unwrap()), [2, 5, 5, 7]);
        assert_eq!(numbers(&envelope.take(&[]).unwrap()), [0; 0]);
        assert_eq!(envelope.take(&[0]).unwrap().schema(), envelope.schema());
        let error = envelope.take(&[1, 4]).unwrap_err();
        assert_eq!(error.to_string(), "no row 4 in the envelope; it has 4");
        let long = envelope.take(&vec![0; ENVELOPE_ROWS_MAX + 1]);
        assert!(matches!(long, Err(EnvelopeError::TooManyRows { .. })));
    }

    #[test]
    fn filters_rows_by_a_mask() {
        let envelope = rows_of(&[5, 0, 7, 2]);
        assert_eq!(numbers(&envelope.filter(&[true, false, false, true]).unwrap()), [5, 2]);
        assert_eq!(numbers(&envelope.filter(&[false; 4]).unwrap()), [0; 0]);
        let all = envelope.filter(&[true; 4]).unwrap();
        assert!(Arc::ptr_eq(&all.table, &envelope.table), "nothing is copied");
        let error = envelope.filter(&[true; 3]).unwrap_err();
        assert_eq!(error.to_string(), "a mask of 3 marks does not fit an envelope of 4 rows");
        // The bytes of a part count for the part alone.
        let few = Envelope::from_columns([("number", envelope.column("number").unwrap().clone())]).unwrap();
        assert_eq!(few.filter(&[true, false, false, false]).unwrap().bytes(), 4);
    }

    #[test]
    fn names_the_columns_that_are_there() {
        let one = Arc::new(UInt32Array::from(vec![1])) as ArrayRef;
        let envelope = Envelope::from_columns([("query", one)]).unwrap();
        assert_eq!(
            envelope.u64s("id").unwrap_err().to_string(),
            "no column `id` in the envelope; it has query"
        );
        assert_eq!(envelope.u64s("query").unwrap_err().to_string(), "column `query` is UInt32, not UInt64");
    }
}
