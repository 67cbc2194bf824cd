//! `read_column`: objects that another program wrote, as a column of an Arrow IPC file.
//!
//! Invariant: an unsound object ends the request with the file, the column and the row; no row is lost silently.

use std::path::PathBuf;

use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::operator::{
    Bind, BoxError, Context, Flow, InputReader, Kind, Operator, OperatorSpec, Out,
};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};

use super::{COLUMN, HOLDS, NAME, read_arrow};
use crate::columns;
use crate::images::extract::{noted_alpha, with_alpha};
use boxwork_stores::any_kind::AnyKind;
use boxwork_stores::object_column::{Columns, Incoming};

/// Rows after which an envelope goes out.
const ROWS: usize = 1024;

const OBJECTS: Out = Out::new(0, "objects", columns::objects, "the objects in the order of the rows");

/// Reads objects from a column of an Arrow IPC file or stream.
///
/// A row is an object. Columns beside it, such as `width` and `height` of signatures, are read if the file has them;
/// otherwise they count as zeros. The first row that is null, not sound, or of another dimension than the first one
/// ends the request.
///
/// # Inputs
/// None.
///
/// # Outputs
/// `objects`: the objects in the order of the rows.
///
/// # Parameters
/// `path`: the file, or `-` for a stream on the standard input. `holds`: the kind of the objects. `column`, `name`: the
/// columns of the objects and of their names; without names, texts name themselves and other objects are called by
/// their rows.
pub(crate) static READ_COLUMN: OperatorSpec = OperatorSpec {
    parameters: &[
        Parameter::new(
            "path",
            ParameterType::Path,
            Default::Required,
            "an Arrow IPC file or stream, or `-` for the standard input",
        ),
        HOLDS,
        COLUMN,
        NAME,
    ],
    outputs: &[OBJECTS],
    example: "objects: {kind: read_column, path: embeddings.arrow, holds: vectors, column: embedding}",
    ..OperatorSpec::new("read_column", "Reads objects from a column of an Arrow file.", Kind::Stateful, make)
};

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    let (path, kind) = (bind.path("path"), super::kind(bind)?);
    let input = read_arrow::open(&path)?;
    let objects = Incoming::new(bind.get_text("column"), bind.text("name"), Some(kind));
    Ok(Box::new(ReadColumn { path, kind, input, objects, batch: None, sent: 0 }))
}

struct ReadColumn {
    path: PathBuf,
    kind: &'static dyn AnyKind,
    input: InputReader,
    objects: Incoming,
    /// The batch under way, and its next row.
    batch: Option<(Columns, usize)>,
    sent: u64,
}

impl Operator for ReadColumn {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        let mut sent = self.sent;
        let flow = super::send(cx, OBJECTS, &mut sent, || self.read());
        self.sent = sent;
        flow
    }
}

impl ReadColumn {
    /// The next envelope, or nothing at the end of the file.
    fn read(&mut self) -> Result<Option<Envelope>, BoxError> {
        while !self.objects.rows().is_some_and(|rows| rows.is_full(ROWS)) {
            let (columns, row) = match self.batch.take() {
                Some(batch) => batch,
                None => match self.input.batches.next().transpose() {
                    Ok(None) => break,
                    Ok(Some(batch)) => {
                        (self.objects.columns(&batch).map_err(|reason| self.error(&reason))?, 0)
                    }
                    Err(error) => return Err(self.error(&error.to_string())),
                },
            };
            if row < columns.rows() {
                self.objects.push_row(&columns, row).map_err(|reason| self.error(&reason))?;
                self.batch = Some((columns, row + 1));
            }
        }
        // A store file says it in the metadata of its columns.
        let alpha = self.input.schema.as_ref().and_then(|schema| noted_alpha(schema));
        Ok(super::envelope(self.objects.rows(), self.kind)?.map(|envelope| with_alpha(envelope, alpha)))
    }

    fn error(&self, reason: &str) -> BoxError {
        BoxError::new(format!("`{}`: {reason}", self.path.display()))
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::path::Path;
    use std::sync::Arc;

    use arrow_array::builder::{FixedSizeListBuilder, Float32Builder, ListBuilder, UInt32Builder};
    use arrow_array::cast::AsArray;
    use arrow_array::types::Float32Type;
    use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
    use arrow_ipc::writer::{FileWriter, StreamWriter};
    use boxwork_runtime::harness::Harness;
    use boxwork_runtime::parameter::Value;

    use super::*;

    fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
        let columns = columns.into_iter().map(|(name, column)| (name, column, true));
        RecordBatch::try_from_iter_with_nullable(columns).unwrap()
    }

    fn write_file(path: &Path, batches: &[RecordBatch]) {
        let mut writer = FileWriter::try_new(File::create(path).unwrap(), batches[0].schema_ref()).unwrap();
        batches.iter().for_each(|batch| writer.write(batch).unwrap());
        writer.finish().unwrap();
    }

    fn write_stream(path: &Path, batches: &[RecordBatch]) {
        let mut writer = StreamWriter::try_new(File::create(path).unwrap(), batches[0].schema_ref()).unwrap();
        batches.iter().for_each(|batch| writer.write(batch).unwrap());
        writer.finish().unwrap();
    }

    /// The envelopes that a box with some settings makes of a file.
    fn read(path: &Path, settings: &[(&str, &str)]) -> Result<Vec<Envelope>, String> {
        let mut all = vec![("path", Value::Text(path.to_str().unwrap().to_owned()))];
        all.extend(settings.iter().map(|(name, value)| (*name, Value::Text((*value).to_owned()))));
        let harness = Harness::new(&READ_COLUMN, all);
        let mut harness = harness.map_err(|error| error.to_string())?;
        harness.run().map_err(|error| error.to_string())?;
        assert!(harness.is_done());
        Ok(harness.taken(OBJECTS))
    }

    fn vectors(rows: std::ops::Range<u32>) -> ArrayRef {
        let mut vectors = FixedSizeListBuilder::new(Float32Builder::new(), 2);
        rows.for_each(|row| {
            vectors.values().append_slice(&[row as f32, 0.5]);
            vectors.append(true);
        });
        Arc::new(vectors.finish())
    }

    #[test]
    fn reads_files_and_streams_in_the_order_of_their_rows() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("in.arrow");
        for write in [write_file, write_stream] {
            let part = |rows: std::ops::Range<u32>| {
                let names = StringArray::from_iter_values(rows.clone().map(|row| format!("v{row}")));
                batch(vec![("id", Arc::new(names)), ("embedding", vectors(rows))])
            };
            write(&path, &[part(0..1500), part(1500..1500), part(1500..1700)]);
            let settings = [("holds", "vectors"), ("column", "embedding"), ("name", "id")];
            let found = read(&path, &settings).unwrap();
            assert_eq!(found.iter().map(Envelope::rows).collect::<Vec<_>>(), [1024, 676]);
            let mut row = 0;
            for envelope in &found {
                let lists = envelope.lists("object").unwrap();
                for idx in 0..envelope.rows() {
                    assert_eq!(envelope.texts("name").unwrap().value(idx), format!("v{row}"));
                    let list = lists.value(idx);
                    assert_eq!(list.as_primitive::<Float32Type>().values()[..], [row as f32, 0.5]);
                    row += 1;
                }
            }
        }
    }

    #[test]
    fn says_the_file_the_column_the_row_and_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("in.arrow");
        let mut ragged = ListBuilder::new(Float32Builder::new());
        let mut holes = ListBuilder::new(Float32Builder::new());
        let mut sets = ListBuilder::new(UInt32Builder::new());
        for row in 0..3 {
            ragged.values().append_slice(&[1.0, 2.0][..if row == 2 { 1 } else { 2 }]);
            ragged.append(true);
            holes.values().append_option(if row == 1 { None } else { Some(1.0) });
            holes.append(true);
            sets.values().append_value(row);
            sets.append(true);
        }
        let mut nan = FixedSizeListBuilder::new(Float32Builder::new(), 1);
        for number in [0.0, f32::NAN, 1.0] {
            nan.values().append_value(number);
            nan.append(true);
        }
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("ragged", Arc::new(ragged.finish())),
            ("holes", Arc::new(holes.finish())),
            ("nan", Arc::new(nan.finish())),
            ("set", Arc::new(sets.finish())),
            ("number", Arc::new(Float64Array::from(vec![1.0; 3]))),
            ("missing", Arc::new(StringArray::from(vec![Some("a"), None, Some("b")]))),
            ("id", Arc::new(Int64Array::from(vec![1, 2, 3]))),
        ];
        write_file(&path, &[batch(columns)]);
        for (settings, reasons) in [
            (&[("column", "ragged")][..], &["row 2 of `ragged`", "1 numbers where the first has 2"][..]),
            (&[("column", "holes")], &["row 1 of `holes`", "a null: fill it"]),
            (&[("column", "nan")], &["row 1 of `nan`", "NaN"]),
            (&[("column", "set")], &["`set` is", "it holds sets, where vectors are wanted; say"]),
            (&[("column", "number")], &["`number` is Float64", "vectors are FixedSizeList", "cast it"]),
            (&[("column", "missing"), ("holds", "texts")], &["row 1 of `missing` is null: fill it"]),
            (&[], &["has no column `object`; it has ragged, holes"]),
            (&[("holds", "signatures")], &["has no column `signature`"]),
            (&[("column", "nan"), ("name", "id")], &["`id` is Int64", "names are texts (Utf8): cast it"]),
        ] {
            let mut all = vec![("holds", "vectors")];
            all.retain(|(name, _)| settings.iter().all(|(given, _)| given != name));
            all.extend(settings);
            let message = read(&path, &all).unwrap_err();
            assert!(message.contains("in.arrow"), "{message}");
            assert!(reasons.iter().all(|reason| message.contains(reason)), "{message}");
        }
        std::fs::write(&path, "no Arrow at all").unwrap();
        let message = read(&path, &[]).unwrap_err();
        assert!(message.contains("is no Arrow IPC file or stream"), "{message}");
    }
}
