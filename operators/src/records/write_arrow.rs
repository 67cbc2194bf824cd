//! `write_arrow`: Arrow record batches for a request's caller or for a file.
//!
//! Invariant: a file appears under its name when all of it is on disk.

use std::io::{self, BufWriter, Stdout, Write};
use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_ipc::MetadataVersion;
use arrow_ipc::writer::{FileWriter, IpcWriteOptions, StreamWriter};
use arrow_schema::{ArrowError, Field, Schema, SchemaRef};
use boxwork_runtime::descriptor::{ColumnType, Descriptor};
use boxwork_runtime::operator::{
    BatchWriter, Bind, BoxError, CALLER, Context, Flow, In, Kind, Operator, OperatorSpec, OutputWriter,
    Pushed,
};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};
use boxwork_stores::signature_store::{TemporaryFile, way_out};

use crate::columns;

/// The name of the standard output.
const STDOUT: &str = "-";
/// Buffers of a file begin at a multiple of this, so that they can be used where a map puts them.
const ALIGNMENT_BYTES: usize = 64;

const ROWS: In = In::stream(0, "rows", columns::named, "the batches");

/// Writes Arrow record batches.
///
/// # Inputs
/// `rows`: the batches.
///
/// # Outputs
/// None. A request's caller may take the batches (`Submission::outputs`).
///
/// # Parameters
/// `columns`: which columns the rows have. `out`: the Arrow IPC file to write, or `-` for a stream on the standard output;
/// without it the request's caller takes the batches.
pub static WRITE_ARROW: OperatorSpec = OperatorSpec {
    parameters: &[
        columns::NAMED,
        Parameter::new(
            "out",
            ParameterType::Path,
            Default::Absent,
            "the Arrow IPC file to write, or `-` for a stream on the standard output; without it the request's caller \
             takes the batches",
        ),
    ],
    inputs: &[ROWS],
    gives: Some(columns::named),
    example: "results: {kind: write_arrow, columns: distances}",
    ..OperatorSpec::new("write_arrow", "Writes Arrow record batches.", Kind::Stateful, make)
};

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    let (output, class) = match (bind.take_output()?, bind.get_text("out")) {
        (Some(output), _) => (output, CALLER),
        (None, Some(STDOUT)) => {
            (OutputWriter { writer: Box::new(StdoutWriter(None)), may_block: true }, "disk")
        }
        (None, Some(_)) => {
            let (path, descriptor) = (bind.path("out"), columns::named(bind.arguments));
            let writer = Box::new(PathWriter { path, descriptor, writer: None });
            (OutputWriter { writer, may_block: true }, "disk")
        }
        (None, None) => {
            let message =
                "has no `out`, and the request gives it no output: set one of them (`Submission::outputs`)";
            return Err(BoxError::new(message));
        }
    };
    Ok(Box::new(WriteArrow { output, class, written: 0 }))
}

struct WriteArrow {
    output: OutputWriter,
    /// The blocking class in which batches are written.
    class: &'static str,
    written: u64,
}

impl Operator for WriteArrow {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        while let Some(envelope) = cx.take(ROWS) {
            let batch = envelope.batch().clone();
            if self.with(cx, |writer| writer.write(batch))? == Pushed::Closed {
                cx.close(ROWS);
                return Ok(Flow::Done);
            }
            self.written += envelope.rows() as u64;
            cx.progress(self.written, 0);
        }
        if !cx.is_ended(ROWS) {
            return Ok(Flow::Wait);
        }
        self.with(cx, |writer| writer.finish())?;
        cx.progress(self.written, self.written);
        Ok(Flow::Done)
    }
}

impl WriteArrow {
    fn with<R>(
        &mut self,
        cx: &mut Context<'_>,
        f: impl FnOnce(&mut dyn BatchWriter) -> Result<R, BoxError>,
    ) -> Result<R, BoxError> {
        let writer = &mut *self.output.writer;
        if self.output.may_block { cx.detached(self.class, || f(writer))? } else { f(writer) }
    }
}

/// Writes an Arrow IPC file.
struct PathWriter {
    path: PathBuf,
    descriptor: Descriptor,
    writer: Option<FileWriter<BufWriter<TemporaryFile>>>,
}

impl PathWriter {
    fn error(&self, source: &io::Error) -> BoxError {
        BoxError::new(format!("cannot write `{}`: {source}{}", self.path.display(), way_out(source)))
    }

    /// The error of a write, whose cause Arrow wraps.
    fn refused(&self, error: ArrowError) -> BoxError {
        match error {
            ArrowError::IoError(_, source) => self.error(&source),
            other => other.into(),
        }
    }

    fn writer(&mut self, schema: &SchemaRef) -> Result<&mut FileWriter<BufWriter<TemporaryFile>>, BoxError> {
        let writer = match self.writer.take() {
            Some(writer) => writer,
            None => {
                let file = TemporaryFile::create(&self.path).map_err(|error| self.error(&error))?;
                let options = IpcWriteOptions::try_new(ALIGNMENT_BYTES, false, MetadataVersion::V5)?;
                FileWriter::try_new_with_options(BufWriter::new(file), schema, options)
                    .map_err(|error| self.refused(error))?
            }
        };
        Ok(self.writer.insert(writer))
    }

    /// The columns of a file without rows.
    fn schema(&self) -> Result<SchemaRef, BoxError> {
        let field = |column: &boxwork_runtime::descriptor::Column| match &column.kind {
            ColumnType::Exact(kind) => Ok(Field::new(column.name, kind.clone(), false)),
            ColumnType::Family(family) => Err(BoxError::new(format!(
                "nothing came to be written, so the type of the column `{}` ({}) is not known",
                column.name, family.name
            ))),
        };
        let fields = self.descriptor.columns().iter().map(field).collect::<Result<Vec<_>, _>>()?;
        Ok(Arc::new(Schema::new(fields)))
    }
}

impl BatchWriter for PathWriter {
    fn write(&mut self, batch: RecordBatch) -> Result<Pushed, BoxError> {
        let written = self.writer(batch.schema_ref())?.write(&batch);
        written.map(|()| Pushed::Sent).map_err(|error| self.refused(error))
    }

    fn finish(&mut self) -> Result<(), BoxError> {
        if self.writer.is_none() {
            let schema = self.schema()?;
            self.writer(&schema)?;
        }
        let Some(mut writer) = self.writer.take() else { return Ok(()) };
        writer.finish().map_err(|error| self.refused(error))?;
        let buffered = writer.into_inner().map_err(|error| self.refused(error))?;
        let file = buffered.into_inner().map_err(|error| self.error(error.error()))?;
        file.keep().map_err(|error| self.error(&error))
    }
}

/// Writes a stream on the standard output. A reader that has gone has seen enough.
struct StdoutWriter(Option<StreamWriter<BufWriter<Stdout>>>);

/// The outcome of a write to the standard output.
fn seen(written: Result<(), ArrowError>) -> Result<Pushed, BoxError> {
    match written {
        Ok(()) => Ok(Pushed::Sent),
        Err(ArrowError::IoError(_, error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Pushed::Closed),
        Err(error) => Err(BoxError::new(format!("cannot write to standard output: {error}"))),
    }
}

impl BatchWriter for StdoutWriter {
    fn write(&mut self, batch: RecordBatch) -> Result<Pushed, BoxError> {
        let writer = match self.0.take() {
            Some(writer) => writer,
            None => match StreamWriter::try_new(BufWriter::new(io::stdout()), batch.schema_ref()) {
                Ok(writer) => writer,
                Err(error) => return seen(Err(error)),
            },
        };
        let writer = self.0.insert(writer);
        seen(writer.write(&batch).and_then(|()| Ok(writer.get_mut().flush()?)))
    }

    fn finish(&mut self) -> Result<(), BoxError> {
        let Some(mut writer) = self.0.take() else { return Ok(()) };
        seen(writer.finish().and_then(|()| Ok(writer.get_mut().flush()?))).map(drop)
    }
}
