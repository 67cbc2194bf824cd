//! Results as rows for a request's caller, in place of the text that a sink writes.
//!
//! Invariant: the rows are those of the text: by query, then by (distance, id).

use std::sync::Arc;

use arrow_array::builder::StringBuilder;
use arrow_array::{ArrayRef, Float64Array, RecordBatch, UInt32Array, UInt64Array};
use boxwork_runtime::operator::{Bind, BoxError, CALLER, Context, Flow, Operator, OutputWriter};
use boxwork_stores::store::Store;

use crate::resources;
use crate::results::sink::{Collected, RESULTS};

/// The sink of any format if the request's caller takes the results: rows of [`columns::answers`], in one batch.
pub(crate) struct RowSink {
    store: Arc<dyn Store>,
    output: OutputWriter,
    collected: Collected,
}

impl RowSink {
    /// The sink of a box, if the request's caller takes its results.
    pub(crate) fn make(bind: &Bind<'_>) -> Result<Option<Box<dyn Operator>>, BoxError> {
        let Some(output) = bind.take_output()? else { return Ok(None) };
        let store = resources::store(bind)?;
        Ok(Some(Box::new(Self { store, output, collected: Collected::default() })))
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
        let (collected, writer) = (std::mem::take(&mut self.collected), &mut self.output.writer);
        cx.detached(CALLER, || {
            writer.write(rows_of(&collected.sorted(), &*self.store)?)?;
            writer.finish()
        })??;
        Ok(Flow::Done)
    }
}

/// Sorted answers as rows of [`columns::answers`].
fn rows_of(rows: &[(u32, f64, u64)], store: &dyn Store) -> Result<RecordBatch, BoxError> {
    let ranks = rows.chunk_by(|a, b| a.0 == b.0).flat_map(|of_query| 1..=of_query.len() as u32);
    let mut names = StringBuilder::with_capacity(rows.len(), 8 * rows.len());
    store.names(&mut rows.iter().map(|row| row.2), &mut |name| names.append_value(name))?;
    let columns: [(&str, ArrayRef); 5] = [
        ("query", Arc::new(UInt32Array::from_iter_values(rows.iter().map(|row| row.0)))),
        ("rank", Arc::new(UInt32Array::from_iter_values(ranks))),
        ("id", Arc::new(UInt64Array::from_iter_values(rows.iter().map(|row| row.2)))),
        ("name", Arc::new(names.finish())),
        ("distance", Arc::new(Float64Array::from_iter_values(rows.iter().map(|row| row.1)))),
    ];
    Ok(RecordBatch::try_from_iter(columns)?)
}
