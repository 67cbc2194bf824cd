//! `read_jsonl`: objects that another program made, as lines of JSON.
//!
//! Invariant: an unsound line ends the request with the file and the line; no line is lost silently.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, BufRead, BufReader};
use std::path::PathBuf;

use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::operator::{Bind, BoxError, Context, Flow, Kind, Operator, OperatorSpec, Out};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};

use super::{COLUMN, HOLDS, NAME};
use crate::columns;
use crate::images::extract::with_alpha;
use boxwork_stores::any_kind::AnyKind;
use boxwork_stores::json_lines::next_line;
use boxwork_stores::object_column::Incoming;
use boxwork_stores::signature_store::StoreError;

/// Rows after which an envelope goes out.
const ROWS: usize = 1024;
/// The name of the standard input.
const STDIN: &str = "-";

const OBJECTS: Out = Out::new(0, "objects", columns::objects, "the objects in the order of the lines");

/// Reads objects from lines of JSON: signatures, or another kind that `holds` names.
///
/// An object stands under the key `column`: `{"name": "a", "object": [0.5, 1]}`. A signature fills its line: `{"name":
/// "a", "centroids": [[1, 2], [3, 4]], "weights": [1, 3]}`. All centroids of the file have the same number of
/// coordinates; weights are above 0 and are divided by their sum. `width`, `height` (pixels) and `coordinates` (names)
/// are optional. The first line may say the `alpha` of searches for all. No two objects have one name. Empty lines are passed over; the first line that is not sound ends the
/// request.
///
/// # Inputs
/// None.
///
/// # Outputs
/// `objects`: the objects in the order of the lines.
///
/// # Parameters
/// `path`: the file, or `-` for the standard input. `coordinates`: names of a centroid's numbers; without them those
/// that the first line says, or else `c0`, `c1` and so on. `holds`: the kind of the objects. `column`, `name`: the keys
/// of the object and of its name.
pub static READ_JSONL: OperatorSpec = OperatorSpec {
    parameters: &[
        Parameter::new(
            "path",
            ParameterType::Path,
            Default::Required,
            "the file, or `-` for the standard input",
        ),
        Parameter::new(
            "coordinates",
            ParameterType::List(&ParameterType::Text),
            Default::EmptyList,
            "names of a centroid's numbers; none given: those of the first line, or c0, c1 and so on",
        ),
        HOLDS,
        COLUMN,
        NAME,
    ],
    outputs: &[OBJECTS],
    example: "objects: {kind: read_jsonl, path: signatures.jsonl}",
    ..OperatorSpec::new("read_jsonl", "Reads objects from JSON lines.", Kind::Stateful, make)
};

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    let kind = super::kind(bind)?;
    let mut objects = Incoming::new(bind.get_text("column"), bind.text("name"), Some(kind));
    let coordinates = bind.texts("coordinates");
    if !coordinates.is_empty() {
        // The names of the parameter count, and not those in the lines.
        objects = objects.with_member("coordinates", coordinates.into());
    }
    Ok(Box::new(ReadJsonl {
        path: bind.path("path"),
        kind,
        objects,
        reader: None,
        line: 0,
        sent: 0,
        hashers: [RandomState::new(), RandomState::new()],
        lines_of_names: HashMap::new(),
    }))
}

struct ReadJsonl {
    path: PathBuf,
    kind: &'static dyn AnyKind,
    objects: Incoming,
    reader: Option<Box<dyn BufRead + Send>>,
    line: u64,
    sent: u64,
    // Two hashes stand for a name, as in the store's writer.
    hashers: [RandomState; 2],
    lines_of_names: HashMap<[u64; 2], u64>,
}

impl Operator for ReadJsonl {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        let mut sent = self.sent;
        let flow = super::send(cx, OBJECTS, &mut sent, || self.read());
        self.sent = sent;
        flow
    }
}

impl ReadJsonl {
    /// The next envelope, or nothing at the end of the file.
    fn read(&mut self) -> Result<Option<Envelope>, BoxError> {
        let mut text = String::new();
        while !self.objects.rows().is_some_and(|rows| rows.is_full(ROWS)) && self.next_text(&mut text)? {
            let name = self.objects.push_line(&text).map_err(|reason| self.error(reason))?;
            self.accept_name(&name).map_err(|reason| self.error(reason))?;
        }
        let alpha = self.objects.alpha();
        Ok(super::envelope(self.objects.rows(), self.kind)?.map(|envelope| with_alpha(envelope, alpha)))
    }

    /// Reads the next line that is not empty; says whether there is one.
    fn next_text(&mut self, text: &mut String) -> Result<bool, BoxError> {
        loop {
            text.clear();
            match self.read_text(text) {
                Ok(0) => return Ok(false),
                Ok(_) => self.line += 1,
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                    self.line += 1;
                    return Err(self.error("the line is not UTF-8 text".to_owned()));
                }
                Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
                    self.line += 1;
                    return Err(self.error(error.to_string()));
                }
                Err(source) => {
                    return Err(StoreError::Io { path: self.path.clone(), action: "read", source }.into());
                }
            }
            if !text.trim().is_empty() {
                return Ok(true);
            }
        }
    }

    fn read_text(&mut self, text: &mut String) -> io::Result<usize> {
        let reader = match &mut self.reader {
            Some(reader) => reader,
            None if self.path.as_os_str() == STDIN => {
                self.reader.insert(Box::new(BufReader::new(io::stdin())))
            }
            None => self.reader.insert(Box::new(BufReader::new(File::open(&self.path)?))),
        };
        next_line(reader, text)
    }

    /// Refuses a name that a line before has.
    fn accept_name(&mut self, name: &str) -> Result<(), String> {
        let key = [0, 1].map(|idx: usize| self.hashers[idx].hash_one(name));
        match self.lines_of_names.entry(key) {
            Entry::Vacant(entry) => {
                entry.insert(self.line);
                Ok(())
            }
            Entry::Occupied(entry) => Err(format!(
                "`{name}` is also the name in line {}: rename one, as objects are found by name",
                entry.get()
            )),
        }
    }

    fn error(&self, reason: String) -> BoxError {
        BoxError::new(format!("{}:{}: {reason}", self.path.display(), self.line))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use boxwork_runtime::harness::Harness;
    use boxwork_runtime::operator::{In, Resource};
    use boxwork_runtime::parameter::Value;

    use std::sync::Arc;

    use super::*;
    use crate::records::read_store::READ_STORE;
    use crate::records::write_jsonl::WRITE_JSONL;
    use crate::records::write_store::WRITE_STORE;
    use boxwork_stores::signature::{SignatureColumns, coordinate_names};
    use boxwork_stores::signature_store::SignatureStore;

    fn text(path: &Path) -> Value {
        Value::Text(path.to_str().unwrap().to_owned())
    }

    fn read(content: &[u8], coordinates: &[&str]) -> Result<Vec<Envelope>, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("in.jsonl");
        fs::write(&path, content).unwrap();
        let names = coordinates.iter().map(|name| Value::Text((*name).to_owned())).collect();
        let parameters = [("path", text(&path)), ("coordinates", Value::List(names))];
        let mut harness = Harness::new(&READ_JSONL, parameters).unwrap();
        harness.run().map_err(|error| error.to_string())?;
        assert!(harness.is_done());
        Ok(harness.taken(OBJECTS))
    }

    const A: &str = "{\"name\":\"a\",\"centroids\":[[1,2]],\"weights\":[5]}\n";

    #[test]
    fn a_line_without_end_is_refused() {
        boxwork_stores::testing::use_small_limits();
        let error = read(&[A.as_bytes(), &[b' '; (1 << 20) + 1]].concat(), &[]).unwrap_err();
        assert!(error.contains(":2: the line is longer than 1 MiB"), "{error}");
        assert_eq!(read(&[A.as_bytes(), &[b' '; 1 << 20]].concat(), &[]).unwrap().len(), 1);
    }

    #[test]
    fn reads_lines_in_their_order() {
        let b = "{\"weights\":[1,3],\"centroids\":[[1,2],[3,4]],\"name\":\"b\",\"width\":7}";
        let envelopes = read(format!("{A}\n  \r\n{b}").as_bytes(), &[]).unwrap();
        let [envelope] = envelopes.as_slice() else { panic!("one envelope") };
        let lists = envelope.lists("signature").unwrap();
        let columns = SignatureColumns::new(lists).unwrap();
        assert_eq!(coordinate_names(arrow_array::Array::data_type(lists)).unwrap(), ["c0", "c1"]);
        assert_eq!(columns.signature(0).weights(), [1.0]);
        assert_eq!(columns.signature(1).weights(), [0.25, 0.75]);
        assert_eq!(columns.signature(1).coordinate(1), [2.0, 4.0]);
        assert_eq!(envelope.u32s("width").unwrap(), [0, 7]);
        let named = read(A.as_bytes(), &["x", "y"]).unwrap();
        let lists = named[0].lists("signature").unwrap();
        assert_eq!(coordinate_names(arrow_array::Array::data_type(lists)).unwrap(), ["x", "y"]);
        assert!(read(b"", &[]).unwrap().is_empty());
    }

    #[test]
    fn the_first_unsound_line_ends_the_request_with_its_place() {
        let line = |name: &str, centroids: &str, weights: &str| {
            format!("{{\"name\":\"{name}\",\"centroids\":{centroids},\"weights\":{weights}}}\n")
        };
        for (second, reason) in [
            (line("b", "[[1,NaN]]", "[1]"), "has no NaN"),
            (line("b", "[[1,2]]", "[-1]"), "weight of centroid 0 is -1"),
            (line("b", "[[1,2],[1,2]]", "[1,0]"), "weight of centroid 1 is 0"),
            (line("b", "[]", "[]"), "no centroid"),
            (line("b", "[[1,2],[3]]", "[1,1]"), "centroid 1 has 1 coordinates"),
            (line("b", "[[1,2,3]]", "[1]"), "have 3 coordinates where 2 are wanted (c0, c1)"),
            (line("b", "[[1,2]]", "[1,1]"), "1 centroids and 2 weights"),
            (line("a", "[[1,2]]", "[1]"), "`a` is also the name in line 1"),
            ("{\"name\":".to_owned(), "not a JSON object"),
        ] {
            let message = read(format!("{A}{second}").as_bytes(), &[]).unwrap_err();
            assert!(message.contains("in.jsonl:2: ") && message.contains(reason), "{message}");
        }
        let message = read(b"\xff\xfe\n", &[]).unwrap_err();
        assert!(message.contains("in.jsonl:1: the line is not UTF-8"), "{message}");
        let message = read(A.as_bytes(), &["x"]).unwrap_err();
        assert!(message.contains("have 2 coordinates where 1 are wanted (x)"), "{message}");
        let message = read(b"{\"name\":\"a\",\"centroids\":[[]],\"weights\":[1]}", &[]).unwrap_err();
        assert!(message.contains("centroids of 0 coordinates"), "{message}");
        let missing = [("path", Value::Text("/none/such.jsonl".into()))];
        let message = Harness::new(&READ_JSONL, missing).unwrap().run().unwrap_err().to_string();
        assert!(message.contains("cannot read `/none/such.jsonl`"), "{message}");
    }

    #[test]
    fn what_is_exported_and_imported_again_is_the_same_store() {
        let folder = tempfile::tempdir().unwrap();
        let [first, lines, second] = ["a", "lines", "b"].map(|name| folder.path().join(name));
        let mut content = String::new();
        let mut state = 3u32;
        let mut random = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            f64::from(state >> 8) / 1e5
        };
        for object in 0..3000 {
            let n = 1 + object % 9;
            let centroids: Vec<[f64; 3]> = (0..n).map(|_| [random(), -random(), random()]).collect();
            let weights: Vec<f64> = (0..n).map(|_| random() + 0.1).collect();
            content += &format!(
                "{{\"name\":\"{object}\",\"width\":{object},\"centroids\":{centroids:?},\"weights\":{weights:?}}}\n"
            );
        }
        let import = |from: &Envelope, out: &Path, rest: &[Envelope]| {
            let mut harness = Harness::new(&WRITE_STORE, [("out", text(out))]).unwrap();
            std::iter::once(from).chain(rest).for_each(|envelope| harness.give(In::nth(0), envelope.clone()));
            harness.end(In::nth(0));
            harness.run().unwrap();
        };
        let envelopes = read(content.as_bytes(), &["l", "m", "n"]).unwrap();
        assert!(envelopes.len() > 1);
        import(&envelopes[0], &first, &envelopes[1..]);

        let store: Resource =
            boxwork_stores::testing::shared_store(&Arc::new(SignatureStore::open(&first).unwrap()));
        let parameters = [("store", Value::Text("s".into()))];
        let mut source = Harness::with_resources(&READ_STORE, parameters, [("s", store)]).unwrap();
        source.run().unwrap();
        let mut sink = Harness::new(&WRITE_JSONL, [("out", text(&lines))]).unwrap();
        source.taken(OBJECTS).into_iter().for_each(|envelope| sink.give(In::nth(0), envelope));
        sink.end(In::nth(0));
        sink.run().unwrap();
        assert_eq!(sink.progress(), (3000, 3000));

        let again = read(&fs::read(&lines).unwrap(), &[]).unwrap();
        import(&again[0], &second, &again[1..]);
        assert_eq!(fs::read(&first).unwrap(), fs::read(&second).unwrap());
    }
}
