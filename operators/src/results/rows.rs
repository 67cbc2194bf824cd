//! Results as rows for a request's caller, in place of the text that a sink writes.
//!
//! Invariant: the rows are those of the text: by query, then by (distance, id).

use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, RecordBatch, StringArray, UInt32Array, UInt64Array};
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::operator::{Bind, BoxError, CALLER, Context, Flow, Operator, OutputWriter};
use boxwork_stores::store::Store;

use crate::resources;
use crate::results::sink::{Answer, Collected, QUERY, RESULTS};

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
        let collected = std::mem::take(&mut self.collected);
        let (queries, writer) = (cx.side(QUERY).to_vec(), &mut self.output.writer);
        cx.detached(CALLER, || {
            writer.write(rows_of(&queries, collected.answers(&queries, &*self.store)?)?)?;
            writer.finish()
        })??;
        Ok(Flow::Done)
    }
}

/// Answers as rows of [`columns::answers`].
fn rows_of(queries: &[Envelope], answers: Vec<Answer>) -> Result<RecordBatch, BoxError> {
    let mut numbers = Vec::new();
    for envelope in queries {
        numbers.extend_from_slice(envelope.u32s("query")?);
    }
    // As the answers are.
    numbers.sort_unstable();
    let counted = numbers
        .iter()
        .zip(&answers)
        .flat_map(|(number, answer)| std::iter::repeat_n(*number, answer.hits.len()));
    let hits = || answers.iter().flat_map(|answer| &answer.hits);
    let columns: [(&str, ArrayRef); 5] = [
        ("query", Arc::new(UInt32Array::from_iter_values(counted))),
        ("rank", Arc::new(UInt32Array::from_iter_values(hits().map(|hit| hit.rank as u32)))),
        ("id", Arc::new(UInt64Array::from_iter_values(hits().map(|hit| hit.id)))),
        ("name", Arc::new(StringArray::from_iter_values(hits().map(|hit| &hit.name)))),
        ("distance", Arc::new(Float64Array::from_iter_values(hits().map(|hit| hit.distance)))),
    ];
    Ok(RecordBatch::try_from_iter(columns)?)
}
