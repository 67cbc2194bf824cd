//! Results as rows for a request's caller, in place of the text that a sink writes.
//!
//! Invariant: the rows are those of the text: by query, then by (distance, id).

use std::sync::Arc;

use arrow_array::builder::StringBuilder;
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, Float64Array, RecordBatch, StringArray, UInt32Array, UInt64Array};
use arrow_schema::Metadata;
use arrow_select::concat::concat;
use boxwork_runtime::operator::{Bind, BoxError, CALLER, Context, Flow, Operator, OutputWriter};
use boxwork_stores::store::Store;
use boxwork_stores::store_error::StoreError;

use crate::resources;
use crate::results::looked::Looked;
use crate::results::sink::{Collected, RESULTS};

/// The sink of any format if the request's caller takes the results: rows of [`columns::answers`], in one batch.
pub(crate) struct RowSink {
    store: Arc<dyn Store>,
    output: OutputWriter,
    collected: Collected,
    looked: Option<Looked>,
}

impl RowSink {
    /// The sink of a box, if the request's caller takes its results.
    pub(crate) fn make(bind: &Bind<'_>) -> Result<Option<Box<dyn Operator>>, BoxError> {
        let Some(output) = bind.take_output()? else { return Ok(None) };
        let store = resources::store(bind)?;
        let looked = Looked::of(bind)?;
        Ok(Some(Box::new(Self { store, output, collected: Collected::default(), looked })))
    }
}

impl Operator for RowSink {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        while let Some(envelope) = cx.take(RESULTS) {
            self.collected.add(&envelope)?;
        }
        if !cx.is_ended(RESULTS) {
            return Ok(Flow::Wait);
        }
        let rows = std::mem::take(&mut self.collected).sorted();
        let mut parts: Vec<Part<'_>> =
            rows.chunks(PART_ROWS).map(|rows| Part { rows, names: None }).collect();
        let (store, writer, looked) = (&*self.store, &mut self.output.writer, self.looked);
        cx.inside(|inside| {
            let cancelled = inside.cancelled();
            inside.for_each_chunk_of(&mut parts, 1, |_, parts| {
                let parts = parts.iter_mut().filter(|part| !cancelled() && part.is_in(store));
                parts.for_each(|part| part.names = Some(part.names(store)));
            });
        });
        cx.detached(CALLER, || {
            let rows = rows_of(&rows, parts, store)?;
            writer.write(match looked {
                None => rows,
                Some(looked) => with_metadata(&rows, looked)?,
            })?;
            writer.finish()
        })??;
        Ok(Flow::Done)
    }
}

/// Rows whose names a slot gathers at a time: they lie all over the store.
const PART_ROWS: usize = 4096;

/// Some rows, and their names once they are gathered.
struct Part<'a> {
    rows: &'a [(u32, f64, u64)],
    names: Option<Result<StringArray, StoreError>>,
}

impl Part<'_> {
    /// Whether the store has them in memory.
    fn is_in(&self, store: &dyn Store) -> bool {
        store.is_in(&self.rows.iter().map(|row| row.2).collect::<Vec<_>>())
    }

    fn names(&self, store: &dyn Store) -> Result<StringArray, StoreError> {
        let mut names = StringBuilder::with_capacity(self.rows.len(), 8 * self.rows.len());
        store.names(&mut self.rows.iter().map(|row| row.2), &mut |name| names.append_value(name))?;
        Ok(names.finish())
    }
}

/// The rows of an approximate search, whose schema says what was looked at: `boxwork.exact` is false, and so on.
fn with_metadata(rows: &RecordBatch, looked: Looked) -> Result<RecordBatch, BoxError> {
    let schema = rows.schema().as_ref().clone().with_metadata(Metadata::from_iter(looked.metadata()));
    Ok(RecordBatch::try_new(Arc::new(schema), rows.columns().to_vec())?)
}

/// Sorted answers as rows of [`columns::answers`]. Names that no slot has gathered are read.
fn rows_of(
    rows: &[(u32, f64, u64)],
    parts: Vec<Part<'_>>,
    store: &dyn Store,
) -> Result<RecordBatch, BoxError> {
    let ranks = rows.chunk_by(|a, b| a.0 == b.0).flat_map(|of_query| 1..=of_query.len() as u32);
    let names = parts.into_iter().map(|mut part| match part.names.take() {
        Some(names) => names,
        None => part.names(store),
    });
    let names = names.collect::<Result<Vec<_>, _>>()?;
    let names = match names.as_slice() {
        [] => StringArray::from(Vec::<&str>::new()),
        some => concat(&some.iter().map(|part| part as &dyn Array).collect::<Vec<_>>())?.as_string().clone(),
    };
    let columns: [(&str, ArrayRef); 5] = [
        ("query", Arc::new(UInt32Array::from_iter_values(rows.iter().map(|row| row.0)))),
        ("rank", Arc::new(UInt32Array::from_iter_values(ranks))),
        ("id", Arc::new(UInt64Array::from_iter_values(rows.iter().map(|row| row.2)))),
        ("name", Arc::new(names)),
        ("distance", Arc::new(Float64Array::from_iter_values(rows.iter().map(|row| row.1)))),
    ];
    Ok(RecordBatch::try_from_iter(columns)?)
}

#[cfg(test)]
mod tests {
    use arrow_array::types::UInt32Type;
    use boxwork_stores::testing;

    use super::*;

    #[test]
    fn names_are_those_of_the_rows_whoever_gathers_them() {
        let folder = tempfile::tempdir().unwrap();
        let store = testing::store(folder.path(), 6);
        for count in [0, 1, PART_ROWS, 2 * PART_ROWS + 3] {
            let rows: Vec<(u32, f64, u64)> =
                (0..count).map(|row| (row as u32 / 7, row as f64, (row * 5 % 6) as u64)).collect();
            let mut parts: Vec<Part<'_>> =
                rows.chunks(PART_ROWS).map(|rows| Part { rows, names: None }).collect();
            // Slots gather every other part.
            parts.iter_mut().step_by(2).for_each(|part| part.names = Some(part.names(&*store)));
            let batch = rows_of(&rows, parts, &*store).unwrap();
            let (names, ranks) =
                (batch["name"].as_string::<i32>(), batch["rank"].as_primitive::<UInt32Type>());
            assert_eq!(names.len(), count);
            for (row, found) in rows.iter().enumerate() {
                assert_eq!(names.value(row), store.name(found.2).unwrap());
                assert_eq!(ranks.value(row), row as u32 % 7 + 1);
            }
        }
    }
}
