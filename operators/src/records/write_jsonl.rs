//! `write_jsonl`: objects of any kind as JSON lines, for programs that read no Arrow.

use std::io::{self, BufWriter, Stdout, Write};
use std::path::PathBuf;

use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::operator::{Bind, BoxError, Context, Flow, In, Kind, Operator, OperatorSpec};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};

use super::HOLDS;
use crate::columns;
use crate::images::extract::alpha_of;
use boxwork_stores::any_kind::{AnyKind, Head};
use boxwork_stores::signature_store::{StoreError, TemporaryFile, way_out};

/// The name of the standard output.
const STDOUT: &str = "-";

const OBJECTS: In = In::stream(0, "objects", columns::objects, "the objects");

/// Writes objects as lines of JSON.
///
/// A line is `{"name": ..., "object": ...}`. That of a signature is `{"name": ..., "centroids": [[...], ...],
/// "weights": [...]}`, with `width` and `height` if the object has them; the first line also says the coordinates'
/// names, and `alpha` if the store of the signatures keeps one. Numbers read back to the bit, so that `read_jsonl` makes equal objects of the lines. A file appears under its
/// name when all of it is on disk.
///
/// # Inputs
/// `objects`: the objects.
///
/// # Outputs
/// None.
///
/// # Parameters
/// `out`: the file to write, or `-` for the standard output. `holds`: the kind of the objects.
pub static WRITE_JSONL: OperatorSpec = OperatorSpec {
    parameters: &[
        Parameter::new(
            "out",
            ParameterType::Path,
            Default::Text(STDOUT),
            "the file to write, or `-` for the standard output",
        ),
        HOLDS,
    ],
    inputs: &[OBJECTS],
    example: "lines: {kind: write_jsonl, out: photos.jsonl}",
    ..OperatorSpec::new("write_jsonl", "Writes objects as JSON lines.", Kind::Stateful, make)
};

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    let kind = super::kind(bind)?;
    Ok(Box::new(WriteJsonl { out: bind.path("out"), kind, sink: None, written: 0 }))
}

struct WriteJsonl {
    out: PathBuf,
    kind: &'static dyn AnyKind,
    sink: Option<Sink>,
    written: u64,
}

enum Sink {
    Stdout(BufWriter<Stdout>),
    File(BufWriter<TemporaryFile>),
}

impl Operator for WriteJsonl {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        while let Some(envelope) = cx.take(OBJECTS) {
            let text = self.lines(&envelope)?;
            let outcome = cx.detached("disk", || self.append(text.as_bytes()))?;
            if let Err(error) = outcome {
                // The reader of the lines has closed them, which is no error.
                if error.kind() == io::ErrorKind::BrokenPipe && self.is_stdout() {
                    cx.close(OBJECTS);
                    return Ok(Flow::Done);
                }
                return Err(self.error(error));
            }
            self.written += envelope.rows() as u64;
            cx.progress(self.written, 0);
        }
        if !cx.is_ended(OBJECTS) {
            return Ok(Flow::Wait);
        }
        match cx.detached("disk", || self.finish())? {
            Err(error) if !(error.kind() == io::ErrorKind::BrokenPipe && self.is_stdout()) => {
                Err(self.error(error))
            }
            _ => {
                cx.progress(self.written, self.written);
                Ok(Flow::Done)
            }
        }
    }
}

impl WriteJsonl {
    fn is_stdout(&self) -> bool {
        self.out.as_os_str() == STDOUT
    }

    fn error(&self, source: io::Error) -> BoxError {
        if self.is_stdout() {
            return BoxError::new(format!("cannot write to standard output: {source}{}", way_out(&source)));
        }
        StoreError::Io { path: self.out.clone(), action: "write", source }.into()
    }

    fn lines(&self, envelope: &Envelope) -> Result<String, BoxError> {
        let (names, columns) = super::objects(envelope, self.kind)?;
        let mut text = String::new();
        let head = (self.written == 0).then(|| Head { alpha: alpha_of(envelope) });
        let written = self.kind.write_lines(names, &columns, head, &mut text);
        written.map(|()| text).map_err(BoxError::new)
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.sink()?.write_all(bytes)
    }

    fn finish(&mut self) -> io::Result<()> {
        self.sink()?.flush()?;
        match self.sink.take() {
            Some(Sink::File(file)) => file.into_inner().map_err(io::IntoInnerError::into_error)?.keep(),
            _ => Ok(()),
        }
    }

    fn sink(&mut self) -> io::Result<&mut dyn Write> {
        let sink = match self.sink.take() {
            Some(sink) => sink,
            None if self.is_stdout() => Sink::Stdout(BufWriter::new(io::stdout())),
            None => Sink::File(BufWriter::new(TemporaryFile::create(&self.out)?)),
        };
        Ok(match self.sink.insert(sink) {
            Sink::Stdout(stdout) => stdout,
            Sink::File(file) => file,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::sync::Arc;

    use arrow_array::{ArrayRef, StringArray, UInt32Array};
    use boxwork_runtime::harness::Harness;
    use boxwork_runtime::parameter::Value;

    use super::*;
    use boxwork_stores::signature::SignatureBuilder;

    fn envelope(name: &str) -> Envelope {
        let mut signatures = SignatureBuilder::new(&["x", "y"]).unwrap();
        signatures.push(&[&[0.1], &[-2.0]], &[3.0]).unwrap();
        let side = |side: u32| Arc::new(UInt32Array::from(vec![side])) as ArrayRef;
        Envelope::from_columns([
            ("name", Arc::new(StringArray::from(vec![name])) as ArrayRef),
            ("signature", Arc::new(signatures.finish())),
            ("width", side(0)),
            ("height", side(0)),
        ])
        .unwrap()
    }

    fn harness(out: &Path) -> Harness {
        Harness::new(&WRITE_JSONL, [("out", Value::Text(out.to_str().unwrap().to_owned()))]).unwrap()
    }

    #[test]
    fn writes_a_line_an_object_when_all_have_come() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("lines");
        let mut harness = harness(&out);
        harness.give(OBJECTS, envelope("a"));
        harness.give(OBJECTS, envelope("b"));
        harness.run().unwrap();
        assert!(!out.exists());
        harness.end(OBJECTS);
        harness.run().unwrap();
        assert_eq!(
            fs::read_to_string(&out).unwrap(),
            "{\"name\":\"a\",\"coordinates\":[\"x\",\"y\"],\"centroids\":[[0.1,-2.0]],\"weights\":[1.0]}\n\
             {\"name\":\"b\",\"centroids\":[[0.1,-2.0]],\"weights\":[1.0]}\n"
        );
    }

    #[test]
    fn names_the_file_that_it_cannot_write_and_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let mut dropped = harness(&folder.path().join("lines"));
        dropped.give(OBJECTS, envelope("a"));
        dropped.run().unwrap();
        drop(dropped);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        let mut harness = harness(&folder.path().join("none/lines"));
        harness.give(OBJECTS, envelope("a"));
        let message = harness.run().unwrap_err().to_string();
        assert!(message.contains("cannot write") && message.contains("none/lines"), "{message}");
    }
}
