//! `read_jsonl`: signatures that another program made, as lines of JSON.
//!
//! Invariant: an unsound line ends the request with the file and the line; no line is lost silently.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, BufRead, BufReader};
use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::{ArrayRef, StringArray, UInt32Array};
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::operator::{Bind, BoxError, Context, Flow, Kind, Operator, OperatorSpec, Out, Pushed};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};

use super::HOLDS;
use crate::columns;
use boxwork_stores::any_kind::{AnyKind, AnyRows};
use boxwork_stores::json_lines::{Line, next_line, read_line};
use boxwork_stores::kinds::{Kind as _, Signatures};
use boxwork_stores::object_column;
use boxwork_stores::signature::SignatureBuilder;
use boxwork_stores::signature_store::StoreError;

/// Rows after which an envelope goes out.
const ROWS: usize = 1024;
/// Centroids after which it does, whatever its rows: about a megabyte at seven coordinates.
const CENTROIDS: usize = 1 << 15;
/// The name of the standard input.
const STDIN: &str = "-";

const OBJECTS: Out = Out::new(0, "objects", columns::objects, "the objects in the order of the lines");

/// Reads objects from lines of JSON: signatures, or another kind that `holds` names.
///
/// A line is `{"name": "a", "centroids": [[1, 2], [3, 4]], "weights": [1, 3]}`: all centroids of the file have the
/// same number of coordinates, weights are above 0 and are divided by their sum, and no two objects have one name.
/// Other objects stand under the key `column`: `{"name": "a", "object": [0.5, 1]}`.
/// `width`, `height` (pixels) and `coordinates` (names) may be there. Empty lines are passed over; the first line
/// that is not sound ends the request.
///
/// # Inputs
/// None.
///
/// # Outputs
/// `objects`: the objects in the order of the lines.
///
/// # Parameters
/// `path`: the file, or `-` for the standard input. `coordinates`: names of a centroid's numbers; without them those
/// that the first line says, or else `c0`, `c1` and so on.
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
        Parameter::new(
            "column",
            ParameterType::Text,
            Default::Text("object"),
            "the key of the object in a line, of all kinds but signatures",
        ),
        Parameter::new(
            "name",
            ParameterType::Text,
            Default::Text("name"),
            "the key of the object's name, of all kinds but signatures; without one objects are called by their place",
        ),
    ],
    outputs: &[OBJECTS],
    example: "objects: {kind: read_jsonl, path: signatures.jsonl}",
    ..OperatorSpec::new("read_jsonl", "Reads objects from JSON lines.", Kind::Stateful, make)
};

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    Ok(Box::new(ReadJsonl {
        path: bind.path("path"),
        objects: ObjectLines::of(bind)?,
        renamed: !bind.texts("coordinates").is_empty(),
        coordinates: Some(bind.texts("coordinates")).filter(|names| !names.is_empty()),
        reader: None,
        line: 0,
        sent: 0,
        hashers: [RandomState::new(), RandomState::new()],
        lines_of_names: HashMap::new(),
    }))
}

struct ReadJsonl {
    path: PathBuf,
    // How other objects than signatures stand in a line.
    objects: Option<ObjectLines>,
    // The parameter's names hold whatever the lines say.
    renamed: bool,
    coordinates: Option<Vec<String>>,
    reader: Option<Box<dyn BufRead + Send>>,
    line: u64,
    sent: u64,
    // Two hashes stand for a name, as in the store's writer.
    hashers: [RandomState; 2],
    lines_of_names: HashMap<[u64; 2], u64>,
}

impl Operator for ReadJsonl {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        while cx.has_room(OBJECTS) {
            let Some(envelope) = cx.detached("disk", || self.read())?? else { return Ok(Flow::Done) };
            self.sent += envelope.rows() as u64;
            cx.progress(self.sent, 0);
            if cx.push(OBJECTS, envelope)? == Pushed::Closed {
                return Ok(Flow::Done);
            }
        }
        Ok(Flow::Wait)
    }
}

impl ReadJsonl {
    /// The next envelope, or nothing at the end of the file.
    fn read(&mut self) -> Result<Option<Envelope>, BoxError> {
        if let Some(mut lines) = self.objects.take() {
            let envelope = self.read_objects(&mut lines);
            self.objects = Some(lines);
            return envelope;
        }
        let mut objects: Option<Objects> = None;
        let mut text = String::new();
        while objects.as_ref().is_none_or(|objects| !objects.is_full()) && self.next_text(&mut text)? {
            let line = read_line(&text).map_err(|reason| self.error(reason))?;
            self.accept(&line).map_err(|reason| self.error(reason))?;
            let coordinates = self.coordinates.as_deref().unwrap_or_default();
            let objects = match &mut objects {
                Some(objects) => objects,
                None => objects.insert(Objects::new(coordinates).map_err(|reason| self.error(reason))?),
            };
            objects.push(line).map_err(|reason| self.error(reason))?;
        }
        objects.map(Objects::finish).transpose()
    }

    /// The next envelope of other objects than signatures.
    fn read_objects(&mut self, lines: &mut ObjectLines) -> Result<Option<Envelope>, BoxError> {
        let mut text = String::new();
        while !lines.is_full() && self.next_text(&mut text)? {
            let name = lines.push(&text).map_err(|reason| self.error(reason))?;
            self.accept_name(&name).map_err(|reason| self.error(reason))?;
        }
        lines.take()
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

    /// Checks a line against those before it.
    fn accept(&mut self, line: &Line) -> Result<(), String> {
        let dimensions = line.columns.len();
        if line.weights.is_empty() {
            return Err(
                "the signature has no centroid: leave the object out, or give it one of weight 1".to_owned()
            );
        }
        let names = match (&self.coordinates, &line.coordinates) {
            (None, Some(said)) => self.coordinates.insert(said.clone()),
            (None, None) => self.coordinates.insert((0..dimensions).map(|idx| format!("c{idx}")).collect()),
            (Some(names), Some(said)) if !self.renamed && names != said => {
                return Err(format!("its coordinates are {said:?} where the lines before have {names:?}"));
            }
            (Some(_), _) => self.coordinates.as_mut().expect("just seen"),
        };
        if names.len() != dimensions {
            return Err(format!(
                "its centroids have {dimensions} coordinates where {} are wanted ({}): all lines have the same",
                names.len(),
                names.join(", ")
            ));
        }
        self.accept_name(&line.name)
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

/// Objects of any kind but signatures, a line each.
struct ObjectLines {
    kind: &'static dyn AnyKind,
    column: String,
    name: String,
    /// Made at the first object, which says what all have in common.
    rows: Option<Box<dyn AnyRows>>,
    count: u64,
}

impl ObjectLines {
    /// Nothing where signatures are to be read.
    fn of(bind: &Bind<'_>) -> Result<Option<Self>, BoxError> {
        let kind = super::kind(bind)?;
        let (column, name) = (bind.text("column").to_owned(), bind.text("name").to_owned());
        let lines = Self { kind, column, name, rows: None, count: 0 };
        Ok(Some(lines).filter(|_| kind.name() != Signatures::NAME))
    }

    fn is_full(&self) -> bool {
        self.rows.as_ref().is_some_and(|rows| rows.is_full(ROWS))
    }

    /// Takes a line, and returns the name of its object.
    fn push(&mut self, line: &str) -> Result<String, String> {
        let (named, value) = object_column::object_of_line(line, &self.column, &self.name)?;
        let rows = match &mut self.rows {
            Some(rows) => rows,
            None => self.rows.insert(object_column::rows_like(&value, Some(self.kind))?),
        };
        let name = named.unwrap_or_else(|| self.count.to_string());
        rows.push_json(&name, &value)?;
        self.count += 1;
        Ok(name)
    }

    /// The objects since the last envelope; nothing where there are none.
    fn take(&mut self) -> Result<Option<Envelope>, BoxError> {
        let Some(rows) = self.rows.as_mut().filter(|rows| !rows.is_empty()) else { return Ok(None) };
        let (names, objects) = rows.take();
        let mut columns: Vec<(&str, ArrayRef)> = vec![("name", Arc::new(names))];
        columns.extend(self.kind.column_names().iter().copied().zip(objects));
        Ok(Some(Envelope::from_columns(columns)?))
    }
}

/// The rows of an envelope under way.
struct Objects {
    names: Vec<String>,
    signatures: SignatureBuilder,
    widths: Vec<u32>,
    heights: Vec<u32>,
}

impl Objects {
    fn new(coordinates: &[String]) -> Result<Self, String> {
        let signatures = SignatureBuilder::new(coordinates).map_err(|error| error.to_string())?;
        Ok(Self { names: Vec::new(), signatures, widths: Vec::new(), heights: Vec::new() })
    }

    fn is_full(&self) -> bool {
        self.names.len() >= ROWS || self.signatures.centroids() >= CENTROIDS
    }

    fn push(&mut self, line: Line) -> Result<(), String> {
        let columns: Vec<&[f32]> = line.columns.iter().map(Vec::as_slice).collect();
        self.signatures.push(&columns, &line.weights).map_err(|error| error.to_string())?;
        self.names.push(line.name);
        self.widths.push(line.width);
        self.heights.push(line.height);
        Ok(())
    }

    fn finish(mut self) -> Result<Envelope, BoxError> {
        Ok(Envelope::from_columns([
            ("name", Arc::new(StringArray::from(self.names)) as ArrayRef),
            ("signature", Arc::new(self.signatures.finish())),
            ("width", Arc::new(UInt32Array::from(self.widths))),
            ("height", Arc::new(UInt32Array::from(self.heights))),
        ])?)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use boxwork_runtime::harness::Harness;
    use boxwork_runtime::operator::Resource;
    use boxwork_runtime::parameter::Value;

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
        Ok(harness.taken("objects"))
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
            std::iter::once(from).chain(rest).for_each(|envelope| harness.give("objects", envelope.clone()));
            harness.end("objects");
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
        source.taken("objects").into_iter().for_each(|envelope| sink.give("objects", envelope));
        sink.end("objects");
        sink.run().unwrap();
        assert_eq!(sink.progress(), (3000, 3000));

        let again = read(&fs::read(&lines).unwrap(), &[]).unwrap();
        import(&again[0], &second, &again[1..]);
        assert_eq!(fs::read(&first).unwrap(), fs::read(&second).unwrap());
    }
}
