//! Rows of a sink that the request's caller takes as Arrow batches.

use boxwork_runtime::operator::{BoxError, CALLER, Context, Flow, In, Operator, OutputWriter, Pushed};

/// Gives the rows of an input to the request's caller.
pub(crate) struct ToCaller {
    pub(crate) rows: In,
    pub(crate) output: OutputWriter,
}

impl Operator for ToCaller {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        let OutputWriter { writer, may_block } = &mut self.output;
        while let Some(envelope) = cx.take(self.rows) {
            let batch = envelope.batch().clone();
            let write = || writer.write(batch);
            let written = if *may_block { cx.detached(CALLER, write)?? } else { write()? };
            if written == Pushed::Closed {
                return Ok(Flow::Done);
            }
        }
        if !cx.is_ended(self.rows) {
            return Ok(Flow::Wait);
        }
        let mut finish = || writer.finish();
        if *may_block {
            cx.detached(CALLER, finish)??;
        } else {
            finish()?;
        }
        Ok(Flow::Done)
    }
}
