//! Record batches that a box of a request takes from the request's caller, or gives to the caller.
//!
//! Invariant: an input or an output serves one box of one request. A box that blocks on its caller does so in
//! [`Context::detached`](super::Context::detached), so the caller's pace holds back the box and no slot.

use std::fmt;
use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};

use super::{BoxError, Pushed};
use crate::sync::Mutex;

/// The blocking class in which boxes wait for their caller.
pub const CALLER: &str = "caller";

/// Record batches for a box such as `read_arrow`. Clones are one input.
#[derive(Clone)]
pub struct RequestInput(Arc<Mutex<Option<InputReader>>>);

/// The batches of an input, for the box that has taken it.
pub struct InputReader {
    /// The batches, in order.
    pub batches: Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>> + Send>,
    /// Their columns, if these are known before the first batch.
    pub schema: Option<SchemaRef>,
    /// Whether the next batch may have to be waited for.
    pub may_block: bool,
}

impl RequestInput {
    /// Batches that are there already.
    pub fn batches(batches: Vec<RecordBatch>) -> Self {
        let schema = batches.first().map(RecordBatch::schema);
        Self::new(InputReader { batches: Box::new(batches.into_iter().map(Ok)), schema, may_block: false })
    }

    /// Batches of a reader: an Arrow IPC reader, a stream of the C data interface, a
    /// [`RecordBatchIterator`](arrow_array::RecordBatchIterator) over the receiver of a channel. The box holds no slot
    /// while it waits for the reader. A reader that waits for ever keeps its request from ending, cancelled or not.
    pub fn reader(reader: impl RecordBatchReader + Send + 'static) -> Self {
        let schema = Some(reader.schema());
        Self::new(InputReader { batches: Box::new(reader), schema, may_block: true })
    }

    fn new(reader: InputReader) -> Self {
        Self(Arc::new(Mutex::new(Some(reader))))
    }

    /// Takes the batches; nothing if another box has them.
    pub(crate) fn take(&self) -> Option<InputReader> {
        self.0.lock().take()
    }

    /// Whether a box has taken the batches.
    pub(crate) fn is_taken(&self) -> bool {
        self.0.lock().is_none()
    }
}

impl fmt::Debug for RequestInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestInput").field("is_taken", &self.is_taken()).finish()
    }
}

/// Takes the record batches of a box. A closure can be a writer with nothing to finish.
pub trait BatchWriter: Send {
    /// Takes a batch. Blocking here holds back the box that makes the batches.
    ///
    /// Returns [`Pushed::Closed`] if no more batches are wanted: the box then closes its input.
    ///
    /// # Errors
    /// An error ends the request.
    fn write(&mut self, batch: RecordBatch) -> Result<Pushed, BoxError>;

    /// All batches have come. Not called when the request fails.
    ///
    /// # Errors
    /// An error ends the request.
    fn finish(&mut self) -> Result<(), BoxError> {
        Ok(())
    }
}

impl<F: FnMut(RecordBatch) -> Result<Pushed, BoxError> + Send> BatchWriter for F {
    fn write(&mut self, batch: RecordBatch) -> Result<Pushed, BoxError> {
        self(batch)
    }
}

/// The destination of the batches of a box such as `write_arrow`. Clones are one output.
#[derive(Clone)]
pub struct RequestOutput(Arc<Mutex<Option<OutputWriter>>>);

/// The writer of an output, for the box that has taken it.
pub struct OutputWriter {
    /// Takes the batches.
    pub writer: Box<dyn BatchWriter>,
    /// Whether a batch may have to wait until it is taken.
    pub may_block: bool,
}

impl RequestOutput {
    /// Gives the batches to a writer. The box holds no slot while it waits for the writer. A writer that waits for ever
    /// keeps its request from ending, cancelled or not.
    pub fn writer(writer: impl BatchWriter + 'static) -> Self {
        Self::new(OutputWriter { writer: Box::new(writer), may_block: true })
    }

    /// Keeps the batches in memory for the caller: for results that are few.
    pub fn collected() -> (Self, Collected) {
        let collected = Collected::default();
        let kept = collected.clone();
        let keep = move |batch| {
            kept.0.lock().push(batch);
            Ok(Pushed::Sent)
        };
        (Self::new(OutputWriter { writer: Box::new(keep), may_block: false }), collected)
    }

    fn new(writer: OutputWriter) -> Self {
        Self(Arc::new(Mutex::new(Some(writer))))
    }

    /// Takes the writer; nothing if another box has it.
    pub(crate) fn take(&self) -> Option<OutputWriter> {
        self.0.lock().take()
    }

    /// Whether a box has taken the writer.
    pub(crate) fn is_taken(&self) -> bool {
        self.0.lock().is_none()
    }
}

impl fmt::Debug for RequestOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestOutput").field("is_taken", &self.is_taken()).finish()
    }
}

/// The batches that a box has given so far. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Collected(Arc<Mutex<Vec<RecordBatch>>>);

impl Collected {
    /// Takes the batches: all of them once the request has ended.
    pub fn take(&self) -> Vec<RecordBatch> {
        std::mem::take(&mut *self.0.lock())
    }
}
