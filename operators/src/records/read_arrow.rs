//! `read_arrow`: Arrow record batches from a request's caller or from a file.
//!
//! Invariant: each output has the declared columns and no nulls, and fits an envelope.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::Path;
use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::ArrowError;
use boxwork_runtime::descriptor::Descriptor;
use boxwork_runtime::envelope::{ENVELOPE_ROWS_MAX, Envelope};
use boxwork_runtime::operator::{
    Bind, BoxError, CALLER, Context, Flow, InputReader, Kind, Operator, OperatorSpec, Out, Pushed,
};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};
use boxwork_stores::foreign_arrow::{ForeignBatches, is_parquet};

use crate::columns;

/// The name of the standard input.
const STDIN: &str = "-";
/// The first bytes of a file of the Arrow IPC file format; a stream does not have them.
const MAGIC: &[u8] = b"ARROW1";

const ROWS: Out = Out::new(0, "rows", columns::named, "the batches, in their order");

/// Reads Arrow record batches.
///
/// Takes the columns by name, in any order, and leaves other ones out. A column of nullable type passes if it holds no
/// null. Batches that are too long for an envelope are divided.
///
/// # Inputs
/// None. A request's caller may give batches (`Submission::inputs`).
///
/// # Outputs
/// `rows`: the batches, in their order.
///
/// # Parameters
/// `columns`: which columns the rows have. `path`: an Arrow IPC file or stream, or `-` for a stream on the standard input;
/// without it the request's caller gives the batches.
pub static READ_ARROW: OperatorSpec = OperatorSpec {
    parameters: &[
        columns::NAMED,
        Parameter::new(
            "path",
            ParameterType::Path,
            Default::Absent,
            "an Arrow IPC file or stream, or `-` for the standard input; without it the request's caller gives the batches",
        ),
    ],
    outputs: &[ROWS],
    example: "query: {kind: read_arrow, columns: queries}",
    ..OperatorSpec::new("read_arrow", "Reads Arrow record batches.", Kind::Stateful, make)
};

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    let descriptor = columns::named(bind.arguments);
    let (input, class) = match (bind.take_input()?, bind.get_text("path")) {
        (Some(input), _) => (input, CALLER),
        (None, Some(path)) => (open(Path::new(path))?, "disk"),
        (None, None) => {
            let message =
                "has no `path`, and the request gives it no input: set one of them (`Submission::inputs`)";
            return Err(BoxError::new(message));
        }
    };
    reading(input, class, descriptor)
}

/// The operator of a box whose first output gives the batches of an input; it waits for them in a blocking class.
pub(crate) fn reading(
    input: InputReader,
    class: &'static str,
    descriptor: Descriptor,
) -> Result<Box<dyn Operator>, BoxError> {
    if let Some(schema) = &input.schema {
        project(&RecordBatch::new_empty(Arc::clone(schema)), &descriptor)?;
    }
    Ok(Box::new(ReadArrow { descriptor, input, class, rest: None, sent: 0 }))
}

struct ReadArrow {
    descriptor: Descriptor,
    input: InputReader,
    /// The blocking class in which batches are waited for.
    class: &'static str,
    /// The rows of a long batch that have not gone out.
    rest: Option<RecordBatch>,
    sent: u64,
}

impl Operator for ReadArrow {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        while cx.has_room(ROWS) {
            let Some(envelope) = self.next(cx)? else { return Ok(Flow::Done) };
            self.sent += envelope.rows() as u64;
            cx.progress(self.sent, 0);
            if cx.push(ROWS, envelope)? == Pushed::Closed {
                return Ok(Flow::Done);
            }
        }
        Ok(Flow::Wait)
    }
}

impl ReadArrow {
    /// The next envelope, or nothing at the end.
    fn next(&mut self, cx: &mut Context<'_>) -> Result<Option<Envelope>, BoxError> {
        loop {
            let batches = &mut self.input.batches;
            let batch = match self.rest.take() {
                Some(rest) => rest,
                None => {
                    let next = if self.input.may_block {
                        cx.detached(self.class, || batches.next())?
                    } else {
                        batches.next()
                    };
                    match next.transpose()? {
                        None => return Ok(None),
                        Some(batch) => project(&batch, &self.descriptor)?,
                    }
                }
            };
            let rows = batch.num_rows();
            if rows > ENVELOPE_ROWS_MAX {
                self.rest = Some(batch.slice(ENVELOPE_ROWS_MAX, rows - ENVELOPE_ROWS_MAX));
            }
            if rows > 0 {
                return Ok(Some(Envelope::new(batch.slice(0, rows.min(ENVELOPE_ROWS_MAX)))?));
            }
        }
    }
}

/// The columns of a descriptor, by name; the others are left out.
fn project(batch: &RecordBatch, descriptor: &Descriptor) -> Result<RecordBatch, BoxError> {
    let schema = batch.schema_ref();
    let place = |name: &str| {
        schema.index_of(name).map_err(|_| {
            let fields = schema.fields().iter().map(|field| field.name().as_str());
            let fields = fields.collect::<Vec<_>>().join(", ");
            BoxError::new(format!("the batches have no column `{name}`; they have {fields}"))
        })
    };
    let places = descriptor.columns().iter().map(|column| place(column.name));
    let batch = batch.project(&places.collect::<Result<Vec<_>, _>>()?)?;
    descriptor
        .admits(batch.schema_ref())
        .map_err(|reason| BoxError::new(format!("the batches do not fit: {reason}")))?;
    Ok(batch)
}

/// Opens an Arrow IPC file or stream, or a Parquet file.
pub(super) fn open(path: &Path) -> Result<InputReader, BoxError> {
    if path.as_os_str() == STDIN {
        let batches = ForeignBatches::of_stream(io::stdin());
        return Ok(of_reader(batches.map_err(|error| refused(path, &error))?));
    }
    let cannot = |error: io::Error| BoxError::new(format!("cannot open `{}`: {error}", path.display()));
    let mut file = File::open(path).map_err(cannot)?;
    if is_parquet(&mut file).map_err(cannot)? {
        let batches = ForeignBatches::of_parquet(file);
        let refused = |reason| BoxError::new(format!("`{}` {reason}", path.display()));
        return Ok(of_reader(batches.map_err(refused)?));
    }
    let mut magic = Vec::new();
    file.by_ref().take(MAGIC.len() as u64).read_to_end(&mut magic).map_err(cannot)?;
    file.rewind().map_err(cannot)?;
    let batches =
        if magic == MAGIC { ForeignBatches::of_file(file) } else { ForeignBatches::of_stream(file) };
    Ok(of_reader(batches.map_err(|error| refused(path, &error))?))
}

fn refused(path: &Path, error: &ArrowError) -> BoxError {
    BoxError::new(format!("`{}` is no Arrow IPC file or stream: {error}", path.display()))
}

fn of_reader(reader: impl RecordBatchReader + Send + 'static) -> InputReader {
    InputReader { schema: Some(reader.schema()), batches: Box::new(reader), may_block: true }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, Float64Array, StringArray, UInt32Array, UInt64Array};
    use boxwork_runtime::harness::Harness;
    use boxwork_runtime::operator::In;
    use boxwork_runtime::parameter::Value;

    use super::*;
    use crate::records::write_arrow::WRITE_ARROW;

    fn text(text: &str) -> Value {
        Value::Text(text.to_owned())
    }

    /// Distances with a column of no interest, in another order, of nullable types.
    fn foreign(rows: u64) -> RecordBatch {
        let columns: [(&str, ArrayRef); 4] = [
            ("distance", Arc::new(Float64Array::from_iter_values((0..rows).map(|row| row as f64)))),
            ("note", Arc::new(StringArray::from_iter_values((0..rows).map(|row| row.to_string())))),
            ("id", Arc::new(UInt64Array::from_iter_values(0..rows))),
            ("query", Arc::new(UInt32Array::from_iter_values((0..rows).map(|_| 0)))),
        ];
        RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true))).unwrap()
    }

    /// The envelopes that a box makes of a file, which `write` writes.
    fn read(name: &str, write: impl FnOnce(&Path)) -> Result<Vec<Envelope>, BoxError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        write(&path);
        let settings = [("columns", text("distances")), ("path", text(path.to_str().unwrap()))];
        let mut harness = Harness::new(&READ_ARROW, settings)?;
        harness.run()?;
        assert!(harness.is_done());
        Ok(harness.taken(ROWS))
    }

    fn write_stream(path: &Path, batches: &[RecordBatch]) {
        let file = File::create(path).unwrap();
        let mut writer = arrow_ipc::writer::StreamWriter::try_new(file, batches[0].schema_ref()).unwrap();
        batches.iter().for_each(|batch| writer.write(batch).unwrap());
        writer.finish().unwrap();
    }

    fn write_file(path: &Path, batches: &[RecordBatch]) {
        let file = File::create(path).unwrap();
        let mut writer = arrow_ipc::writer::FileWriter::try_new(file, batches[0].schema_ref()).unwrap();
        batches.iter().for_each(|batch| writer.write(batch).unwrap());
        writer.finish().unwrap();
    }

    #[test]
    fn reads_the_wanted_columns_of_files_and_streams_in_pieces_that_fit() {
        let rows = ENVELOPE_ROWS_MAX + 10;
        for write in [write_file, write_stream] {
            let batches = [foreign(3), foreign(0), foreign(rows as u64)];
            let found = read("in.arrow", |path| write(path, &batches)).unwrap();
            let lengths: Vec<usize> = found.iter().map(Envelope::rows).collect();
            assert_eq!(lengths, [3, ENVELOPE_ROWS_MAX, 10]);
            assert_eq!(found[0].f64s("distance").unwrap(), [0.0, 1.0, 2.0]);
            assert_eq!(found[2].u64s("id").unwrap()[9], rows as u64 - 1);
            assert_eq!(found[0].schema().fields().len(), 3);
        }
    }

    #[test]
    fn refuses_what_it_cannot_read_and_says_why() {
        let refused = |write: &dyn Fn(&Path)| read("in.arrow", |path| write(path)).unwrap_err().to_string();
        let message = refused(&|path| std::fs::write(path, "no Arrow at all").unwrap());
        assert!(message.contains("is no Arrow IPC file or stream"), "{message}");
        let message = refused(&|_| {});
        assert!(message.contains("cannot open") && message.contains("in.arrow"), "{message}");
        let message = refused(&|path| write_file(path, &[foreign(2).project(&[0, 1]).unwrap()]));
        assert!(message.contains("no column `query`; they have distance, note"), "{message}");
        let nulls: ArrayRef = Arc::new(Float64Array::from(vec![Some(1.0), None]));
        let with_nulls = RecordBatch::try_from_iter_with_nullable([
            ("query", Arc::new(UInt32Array::from(vec![0, 0])) as ArrayRef, true),
            ("id", Arc::new(UInt64Array::from(vec![0, 1])), true),
            ("distance", nulls, true),
        ]);
        let message = refused(&|path| write_file(path, &[with_nulls.as_ref().unwrap().clone()]));
        assert!(message.contains("column `distance` holds 1 nulls"), "{message}");
        let mistyped = RecordBatch::try_from_iter([
            ("query", Arc::new(UInt64Array::from(vec![0])) as ArrayRef),
            ("id", Arc::new(UInt64Array::from(vec![0]))),
            ("distance", Arc::new(Float64Array::from(vec![0.0]))),
        ]);
        let message = refused(&|path| write_file(path, &[mistyped.as_ref().unwrap().clone()]));
        assert!(message.contains("`query: UInt64` stands where `query: UInt32` should"), "{message}");
        let message = Harness::new(&READ_ARROW, [("columns", text("distances"))]).err().unwrap().to_string();
        assert!(message.contains("has no `path`, and the request gives it no input"), "{message}");
    }

    #[test]
    fn a_file_that_write_arrow_wrote_reads_back() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("out.arrow");
        let settings = || [("columns", text("distances")), ("out", text(out.to_str().unwrap()))];
        let found = read("in.arrow", |path| write_file(path, &[foreign(5)])).unwrap();
        let mut dropped = Harness::new(&WRITE_ARROW, settings()).unwrap();
        dropped.give(In::nth(0), found[0].clone());
        dropped.run().unwrap();
        drop(dropped);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "half a file is left");
        for envelopes in [&found[..], &[]] {
            let mut harness = Harness::new(&WRITE_ARROW, settings()).unwrap();
            envelopes.iter().for_each(|envelope| harness.give(In::nth(0), envelope.clone()));
            harness.end(In::nth(0));
            harness.run().unwrap();
            assert!(harness.is_done());
            let copy = |path: &Path| assert!(std::fs::copy(&out, path).unwrap() > 0);
            let again = read("in.arrow", copy).unwrap();
            assert_eq!(again.len(), envelopes.len());
            assert!(again.iter().zip(envelopes).all(|(a, b)| a.batch() == b.batch()));
        }
    }
}
