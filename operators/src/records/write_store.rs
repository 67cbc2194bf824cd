//! `write_store`: the end of an extraction or an import, a store on disk.
//!
//! Invariant: the store appears under its name whole, when the input has ended, or not at all.

use std::path::PathBuf;

use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::operator::{Bind, BoxError, Context, Flow, In, Kind, Operator, OperatorSpec};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};

use super::{HOLDS, SOURCE};
use crate::columns;
use crate::images::extract::{PARAMETERS_NOTE, alpha_of};
use boxwork_stores::any_kind::{AnyKind, AnyWriter};
use boxwork_stores::signature_store::{StoreError, StoreInfo};

/// The kind of objects whose distance has an alpha.
const SIGNATURES: &str = "signatures";

const OBJECTS: In = In::stream(0, "objects", columns::objects, "the objects, no two of one name");

/// Writes objects of one kind to a store.
///
/// Each object is checked; the weights of a signature are divided by their sum. The file replaces one of its name once all of
/// it is on disk; a run that fails or is cancelled leaves the old one. Objects are numbered in the order in which
/// they come.
///
/// # Inputs
/// `objects`: the objects; no two of one name.
///
/// # Outputs
/// None.
///
/// # Parameters
/// `out`: the file to write. `source`: the folder that the names are paths in, so that the pictures can be shown.
/// `parameters`: how the signatures were made, as JSON; kept as it is. When not given, what `extract` noted. `alpha`: the
/// alpha of searches that name none; when not given, what came with the signatures. `holds`: the kind of the objects.
pub static WRITE_STORE: OperatorSpec = OperatorSpec {
    parameters: &[
        Parameter::new(
            "out",
            ParameterType::Path,
            Default::Required,
            "the file to write, by custom `NAME.signatures.arrow` or `NAME.vectors.arrow`",
        ),
        SOURCE,
        Parameter::new(
            "parameters",
            ParameterType::Text,
            Default::Absent,
            "the extraction's parameters, as JSON; when not given, what `extract` noted",
        ),
        Parameter::new(
            "alpha",
            ParameterType::Positive,
            Default::Absent,
            "the alpha of searches that name none, for signatures; when not given, what came with them",
        ),
        HOLDS,
    ],
    inputs: &[OBJECTS],
    example: "store: {kind: write_store, out: photos.signatures.arrow}",
    ..OperatorSpec::new("write_store", "Writes objects to a store file.", Kind::Stateful, make)
};

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    let parameters = bind.get_text("parameters").map(str::to_owned);
    if let Some(text) = &parameters {
        serde_json::from_str::<serde_json::Value>(text)
            .map_err(|error| BoxError::new(format!("`parameters` is not JSON: {error}")))?;
    }
    let source = bind.get_text("source").map(std::path::absolute).transpose()?;
    let (kind, alpha) = (super::kind(bind)?, bind.get_number("alpha"));
    if alpha.is_some() && kind.name() != SIGNATURES {
        let found = kind.name();
        return Err(BoxError::new(format!(
            "`alpha` is for {SIGNATURES}, and `holds` is {found}: leave it out"
        )));
    }
    let info = StoreInfo { parameters, alpha, source };
    Ok(Box::new(WriteStore { out: bind.path("out"), info, kind, writer: None }))
}

struct WriteStore {
    out: PathBuf,
    info: StoreInfo,
    kind: &'static dyn AnyKind,
    // Made at the first object, which says what all have in common; removes its file when dropped.
    writer: Option<Box<dyn AnyWriter>>,
}

impl Operator for WriteStore {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        while let Some(envelope) = cx.take(OBJECTS) {
            cx.detached("disk", || self.append(&envelope))??;
            cx.progress(self.writer.as_ref().map_or(0, |writer| writer.len()), 0);
        }
        if !cx.is_ended(OBJECTS) {
            return Ok(Flow::Wait);
        }
        let writer = self.writer.take().ok_or_else(|| StoreError::Empty { path: self.out.clone() })?;
        let count = cx.detached("disk", || writer.finish())??;
        cx.progress(count, count);
        Ok(Flow::Done)
    }
}

impl WriteStore {
    fn append(&mut self, envelope: &Envelope) -> Result<(), BoxError> {
        if envelope.rows() == 0 {
            return Ok(());
        }
        let (names, columns) = super::objects(envelope, self.kind)?;
        let writer = match &mut self.writer {
            Some(writer) => writer,
            None => {
                let noted = || envelope.note(PARAMETERS_NOTE).map(str::to_owned);
                self.info.parameters = self.info.parameters.take().or_else(noted);
                self.info.alpha = self.info.alpha.or_else(|| alpha_of(envelope));
                let writer = self.kind.create(&self.out, &columns, &self.info).ok_or_else(|| {
                    let (found, wanted) = (columns[0].data_type(), self.kind.name());
                    BoxError::new(format!("the objects that came are {found}, where {wanted} are wanted"))
                })?;
                self.writer.insert(writer?)
            }
        };
        Ok(writer.push_rows(names, &columns)?)
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
    use boxwork_stores::signature_store::SignatureStore;

    fn envelope(coordinate: &str, names: &[&str]) -> Envelope {
        let mut signatures = SignatureBuilder::new(&[coordinate]).unwrap();
        for place in 0..names.len() {
            signatures.push(&[&[place as f32, 1.0]], &[1.0, 3.0]).unwrap();
        }
        let sides = |side: u32| Arc::new(UInt32Array::from(vec![side; names.len()])) as ArrayRef;
        Envelope::from_columns([
            ("name", Arc::new(StringArray::from(names.to_vec())) as ArrayRef),
            ("signature", Arc::new(signatures.finish())),
            ("width", sides(640)),
            ("height", sides(480)),
        ])
        .unwrap()
    }

    fn harness(out: &Path) -> Harness {
        let text = |text: &str| Value::Text(text.to_owned());
        let parameters = [
            ("out", text(out.to_str().unwrap())),
            ("source", text("pictures")),
            ("parameters", text("{\"a\": 1}")),
        ];
        Harness::new(&WRITE_STORE, parameters).unwrap()
    }

    #[test]
    fn writes_what_came_in_its_order() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("s.signatures.arrow");
        let mut harness = harness(&out);
        harness.give(OBJECTS, envelope("x", &["a", "b"]));
        harness.give(OBJECTS, envelope("x", &["c"]));
        harness.run().unwrap();
        assert!(!out.exists());
        harness.end(OBJECTS);
        harness.run().unwrap();
        assert!(harness.is_done() && harness.progress() == (3, 3));
        assert_eq!(harness.detached(), ["disk"; 3]);
        let store = SignatureStore::open(&out).unwrap();
        assert_eq!((0..3).map(|id| store.name(id).unwrap()).collect::<Vec<_>>(), ["a", "b", "c"]);
        let weights = store.read(|objects| objects.signature(1).map(|found| found.weights().to_vec()));
        assert_eq!(weights.unwrap(), [0.25, 0.75]);
        assert_eq!(store.read(|objects| objects.size(2)).unwrap(), (640, 480));
        assert_eq!(store.parameters(), Some("{\"a\": 1}"));
        assert_eq!(store.source(), Some(std::path::absolute("pictures").unwrap().as_path()));
    }

    #[test]
    fn leaves_nothing_when_it_does_not_end_well() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("s");
        let left = || fs::read_dir(folder.path()).unwrap().count();
        let mut cancelled = harness(&out);
        cancelled.give(OBJECTS, envelope("x", &["a"]));
        cancelled.run().unwrap();
        assert_eq!(left(), 1);
        cancelled.cancel();
        cancelled.end(OBJECTS);
        assert!(cancelled.run().is_err());
        drop(cancelled);
        assert_eq!(left(), 0);
        for (envelopes, reason) in [
            (vec![], "no objects for"),
            (vec![envelope("x", &["a", "a"])], "named `a`"),
            (vec![envelope("x", &["a"]), envelope("y", &["b"])], "where [\"x\"] is wanted"),
        ] {
            let mut harness = harness(&out);
            envelopes.into_iter().for_each(|envelope| harness.give(OBJECTS, envelope));
            harness.end(OBJECTS);
            let message = harness.run().unwrap_err().to_string();
            assert!(message.contains(reason), "{message}");
            drop(harness);
            assert_eq!(left(), 0);
        }
    }

    #[test]
    fn refuses_parameters_that_are_no_json() {
        let parameters = [("out", Value::Text("s".into())), ("parameters", Value::Text("{".into()))];
        assert!(Harness::new(&WRITE_STORE, parameters).is_err());
    }
}
