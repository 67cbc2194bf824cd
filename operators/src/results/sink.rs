//! The common part of the sinks: the results of a request by query, and the writer that keeps requests in order.
//!
//! Invariants: results are ordered by (distance, id) whatever the order they come in; what is written is the
//! requests' texts in the order of their parts; a file is there whole or not at all.

use std::any::Any;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use boxwork_runtime::envelope::{Envelope, EnvelopeError};
use boxwork_runtime::operator::{Bind, BoxError, Context, Flow, In, Operator, Part};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};

use crate::columns;
use crate::resources::{self, store_parameter};
use crate::results::looked::{CANDIDATES, EXPANSION, LISTS, Looked, PROBES, REFINE};
use boxwork_stores::signature_store::{TemporaryFile, way_out};
use boxwork_stores::store::Store;

/// The order of answers: by query, then by (distance, id).
pub(crate) fn order(a: &(u32, f64, u64), b: &(u32, f64, u64)) -> Ordering {
    a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)).then(a.2.cmp(&b.2))
}

/// The answer to one query.
pub(crate) struct Answer {
    /// The user's name of the query.
    pub(crate) query: String,
    /// The objects found, nearest first.
    pub(crate) hits: Vec<Hit>,
}

/// One object of an answer.
pub(crate) struct Hit {
    /// Its place in the answer, from 1.
    pub(crate) rank: usize,
    /// Its row in the store.
    pub(crate) id: u64,
    /// Its name.
    pub(crate) name: String,
    /// Its distance from the query.
    pub(crate) distance: f64,
}

/// The results of a request as they come in.
#[derive(std::default::Default)]
pub(crate) struct Collected {
    rows: Vec<(u32, f64, u64)>,
}

impl Collected {
    /// Takes the rows of an envelope of distances.
    pub(crate) fn add(&mut self, envelope: &Envelope) -> Result<(), EnvelopeError> {
        let (queries, ids, distances) =
            (envelope.u32s("query")?, envelope.u64s("id")?, envelope.f64s("distance")?);
        self.rows.extend((0..envelope.rows()).map(|row| (queries[row], distances[row], ids[row])));
        Ok(())
    }

    /// The rows of all answers: by query, then by (distance, id).
    pub(crate) fn sorted(mut self) -> Vec<(u32, f64, u64)> {
        // Most searches give them in order.
        if !self.rows.is_sorted_by(|a, b| order(a, b).is_le()) {
            self.rows.sort_unstable_by(order);
        }
        self.rows
    }

    /// The answers in the order of the queries; a query for which nothing was found has an empty one.
    ///
    /// Names may have to be read: call it within `detached`.
    pub(crate) fn answers(self, queries: &[Envelope], store: &dyn Store) -> Result<Vec<Answer>, BoxError> {
        let rows = self.sorted();
        let mut names_of_rows = Vec::with_capacity(rows.len());
        store.names(&mut rows.iter().map(|row| row.2), &mut |name| names_of_rows.push(name.to_owned()))?;
        let mut answers = Vec::new();
        for envelope in queries {
            let names = envelope.texts("name")?;
            for (row, query) in envelope.u32s("query")?.iter().enumerate() {
                let first = rows.partition_point(|found| found.0 < *query);
                let found = rows[first..].iter().zip(&mut names_of_rows[first..]);
                let mut hits = Vec::new();
                for (&(_, distance, id), name) in found.take_while(|(found, _)| found.0 == *query) {
                    hits.push(Hit { rank: hits.len() + 1, id, name: std::mem::take(name), distance });
                }
                answers.push((*query, Answer { query: names.value(row).to_owned(), hits }));
            }
        }
        answers.sort_by_key(|(query, _)| *query);
        Ok(answers.into_iter().map(|(_, answer)| answer).collect())
    }
}

/// A distance with as many digits as it takes to be read back to the bit: an object found at a distance is found within
/// a range of that distance.
pub(crate) fn exact_text(distance: f64) -> String {
    let text = format!("{distance:?}");
    text.strip_suffix(".0").unwrap_or(&text).to_owned()
}

/// The store of a sink.
pub(crate) const STORE: Parameter = store_parameter("the store that was searched, for the objects' names");

/// The destination of a sink.
pub(crate) const OUT: Parameter = Parameter::new(
    "out",
    ParameterType::Path,
    Default::Text("-"),
    "the file to write, or - for standard output",
);

/// The settings of the search that a sink may show. Every sink takes them, so that the format may be a parameter.
pub(crate) const SPACE: Parameter = Parameter::new(
    "space",
    ParameterType::Resource("space"),
    Default::Absent,
    "the space that was searched; `html` shows its distance",
);
pub(crate) const K: Parameter = Parameter::new(
    "k",
    ParameterType::integer_from(1),
    Default::Absent,
    "how many objects a query asked for; `html` shows it",
)
.unit("objects");
pub(crate) const RANGE: Parameter = Parameter::new(
    "range",
    ParameterType::number(),
    Default::Absent,
    "the range of the search; `html` shows it",
);

pub(crate) const TRUTH: Parameter = Parameter::new(
    "truth",
    ParameterType::Path,
    Default::Absent,
    "ids of the true neighbours of each row of queries, nearest first, such as truth.ivecs; `recall` needs it",
);

/// The parameters of a sink that has no others.
pub(crate) const PARAMETERS: &[Parameter] =
    &[STORE, OUT, SPACE, K, RANGE, PROBES, REFINE, LISTS, CANDIDATES, EXPANSION, TRUTH];

/// The text of an answer, given its part of the run and what a query looked at, if that is not all objects.
pub(crate) type Render = fn(&[Answer], Part, Option<Looked>) -> String;

/// The inputs that every sink of results has.
pub(crate) const INPUTS: &[In] = &[RESULTS, QUERY];
pub(crate) const RESULTS: In =
    In::stream(0, "results", columns::distances, "the objects found and their distances");
pub(crate) const QUERY: In = In::side(1, "query", columns::queries, "the queries, for their names");

/// The sink of a format that is rendered from the answers alone.
pub(crate) struct TextSink {
    store: Arc<dyn Store>,
    writer: Arc<OrderedWriter>,
    part: Part,
    collected: Collected,
    looked: Option<Looked>,
    render: Render,
}

impl TextSink {
    /// The sink of a box whose `share` is [`share_writer`].
    pub(crate) fn make(bind: &Bind<'_>, render: Render) -> Result<Box<dyn Operator>, BoxError> {
        Ok(Box::new(Self {
            store: resources::store(bind)?,
            writer: bind.shared(),
            part: bind.part,
            collected: Collected::default(),
            looked: Looked::of(bind)?,
            render,
        }))
    }
}

impl Operator for TextSink {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        while let Some(envelope) = cx.take(RESULTS) {
            self.collected.add(&envelope)?;
        }
        if !cx.is_ended(RESULTS) {
            return Ok(Flow::Wait);
        }
        let (collected, queries) = (std::mem::take(&mut self.collected), cx.side(QUERY).to_vec());
        cx.detached("disk", || {
            let answers = collected.answers(&queries, &*self.store)?;
            self.writer.write(self.part, (self.render)(&answers, self.part, self.looked).into_bytes())
        })??;
        Ok(Flow::Done)
    }
}

/// The writer of a box with a parameter `out`, for all its requests.
pub(crate) fn share_writer(bind: &Bind<'_>) -> Result<Arc<dyn Any + Send + Sync>, BoxError> {
    Ok(Arc::new(OrderedWriter::new(bind.text("out"))))
}

/// What is written in place of the texts of all parts.
type Sum = fn(&[u8]) -> Result<Vec<u8>, BoxError>;

/// Writes the texts of a run's requests in the order of their parts, whichever ends first.
pub(crate) struct OrderedWriter {
    /// Nothing for standard output.
    path: Option<PathBuf>,
    /// If there is one, it makes of all texts the one that is written.
    sum: Option<Sum>,
    state: Mutex<State>,
}

#[derive(std::default::Default)]
struct State {
    /// The part that is written next.
    next: usize,
    /// Texts of later parts.
    waiting: BTreeMap<usize, Vec<u8>>,
    /// Texts of earlier parts, if their sum is written.
    gathered: Vec<u8>,
    file: Option<Unfinished>,
    /// The reader of standard output has closed it, which is no error.
    closed: bool,
}

impl OrderedWriter {
    /// A writer to a path, or to standard output for `-`. Nothing is opened before the first text.
    pub(crate) fn new(out: &str) -> Self {
        let path = (out != "-").then(|| PathBuf::from(out));
        Self { path, sum: None, state: Mutex::default() }
    }

    /// A writer of one text for all parts: what `sum` makes of the texts of the parts, one after the other.
    pub(crate) fn summing(out: &str, sum: Sum) -> Self {
        Self { sum: Some(sum), ..Self::new(out) }
    }

    /// Takes a part's text; call it within `detached`.
    pub(crate) fn write(&self, part: Part, text: Vec<u8>) -> Result<(), BoxError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if part.idx == 0 {
            // A run begins; what an earlier one that failed has left is dropped.
            let waiting = std::mem::take(&mut state.waiting);
            *state = State {
                waiting: if state.next == 0 { waiting } else { BTreeMap::new() },
                ..State::default()
            };
        }
        state.waiting.insert(part.idx, text);
        loop {
            let next = state.next;
            let Some(mut text) = state.waiting.remove(&next) else { return Ok(()) };
            let last = next + 1 == part.count;
            if let Some(sum) = self.sum {
                state.gathered.append(&mut text);
                if last {
                    text = sum(&std::mem::take(&mut state.gathered))?;
                } else {
                    state.next += 1;
                    continue;
                }
            }
            self.append_or_drop(&mut state, &text, last)?;
            state.next += 1;
            if last {
                *state = State::default();
                return Ok(());
            }
        }
    }

    /// Writes a piece of the text of a run's only request, so that all of it need not be kept; `first` and `last` say whether others
    /// come before and behind it. Call it within `detached`.
    pub(crate) fn write_piece(&self, text: &[u8], first: bool, last: bool) -> Result<(), BoxError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if first {
            *state = State::default();
        }
        self.append_or_drop(&mut state, text, last)?;
        if last {
            *state = State::default();
        }
        Ok(())
    }

    fn append_or_drop(&self, state: &mut State, text: &[u8], last: bool) -> Result<(), BoxError> {
        self.append(state, text, last).map_err(|error| {
            // Half a file is of no use: dropping it removes it.
            state.file = None;
            let what = match &self.path {
                Some(path) => format!("`{}`", path.display()),
                None => "standard output".to_owned(),
            };
            BoxError::new(format!("{what} cannot be written: {error}{}", way_out(&error)))
        })
    }

    fn append(&self, state: &mut State, text: &[u8], last: bool) -> io::Result<()> {
        let Some(path) = &self.path else {
            if !state.closed {
                let mut stdout = io::stdout().lock();
                match stdout.write_all(text).and_then(|()| stdout.flush()) {
                    Err(error) if error.kind() == io::ErrorKind::BrokenPipe => state.closed = true,
                    written => written?,
                }
            }
            return Ok(());
        };
        let unfinished = match &mut state.file {
            Some(unfinished) => unfinished,
            None => state.file.insert(Unfinished::create(path)?),
        };
        unfinished.append(text)?;
        match state.file.take_if(|_| last) {
            Some(unfinished) => unfinished.finish(),
            None => Ok(()),
        }
    }
}

/// A file under way; dropped before it is finished, it vanishes, unless it is a device or a pipe.
enum Unfinished {
    Whole(TemporaryFile),
    Direct(File),
}

impl Unfinished {
    fn create(path: &Path) -> io::Result<Self> {
        // A link stays one: what it points to is replaced.
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
        match fs::metadata(&path) {
            Ok(metadata) if metadata.is_dir() => {
                Err(io::Error::new(io::ErrorKind::IsADirectory, "it is a folder; give a file's name"))
            }
            Ok(metadata) if !metadata.is_file() => Ok(Self::Direct(File::options().write(true).open(&path)?)),
            _ if path.file_name().is_none() => {
                Err(io::Error::new(io::ErrorKind::InvalidInput, "it does not end in a file's name"))
            }
            _ => Ok(Self::Whole(TemporaryFile::create(&path)?)),
        }
    }

    fn append(&mut self, text: &[u8]) -> io::Result<()> {
        match self {
            Self::Whole(file) => file.write_all(text),
            Self::Direct(file) => file.write_all(text),
        }
    }

    fn finish(self) -> io::Result<()> {
        match self {
            Self::Whole(file) => file.keep(),
            Self::Direct(_) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use boxwork_runtime::harness::Harness;
    use boxwork_runtime::operator::Resource;
    use boxwork_runtime::parameter::Value;

    use super::*;
    use crate::results::csv::CSV;
    use crate::results::json::JSON;
    use crate::results::table::TABLE;
    use boxwork_stores::testing;

    fn part(idx: usize, count: usize) -> Part {
        Part { idx, count }
    }

    #[test]
    fn parts_are_written_in_their_order_and_the_file_appears_at_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("results.txt");
        fs::write(&path, "old").unwrap();
        let writer = OrderedWriter::new(path.to_str().unwrap());
        for _ in 0..2 {
            writer.write(part(2, 4), b"c".to_vec()).unwrap();
            writer.write(part(0, 4), b"a".to_vec()).unwrap();
            writer.write(part(3, 4), b"d".to_vec()).unwrap();
            assert_ne!(fs::read_to_string(&path).unwrap(), "a");
            writer.write(part(1, 4), b"b".to_vec()).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), "abcd");
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_sum_is_written_once_all_parts_are_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sum.txt");
        let writer = OrderedWriter::summing(path.to_str().unwrap(), |texts| Ok([b"all of ", texts].concat()));
        for _ in 0..2 {
            writer.write(part(1, 3), b"b".to_vec()).unwrap();
            writer.write(part(0, 3), b"a".to_vec()).unwrap();
            writer.write(part(2, 3), b"c".to_vec()).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), "all of abc");
            fs::remove_file(&path).unwrap();
        }
    }

    #[test]
    fn pieces_of_a_text_are_written_as_they_come_and_the_file_appears_at_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("results.txt");
        fs::write(&path, "old").unwrap();
        let writer = OrderedWriter::new(path.to_str().unwrap());
        // A run that failed after its first piece, and one that ends.
        writer.write_piece(b"x", true, false).unwrap();
        writer.write_piece(b"a", true, false).unwrap();
        writer.write_piece(b"b", false, false).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        writer.write_piece(b"c", false, true).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "abc");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_run_that_fails_leaves_the_old_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("results.txt");
        fs::write(&path, "old").unwrap();
        let writer = OrderedWriter::new(path.to_str().unwrap());
        writer.write(part(0, 2), b"a".to_vec()).unwrap();
        // The run failed; the next one begins anew.
        writer.write(part(0, 2), b"x".to_vec()).unwrap();
        drop(writer);
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_path_that_cannot_be_written_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("missing/results.txt");
        let error = OrderedWriter::new(missing.to_str().unwrap()).write(Part::WHOLE, vec![]).unwrap_err();
        assert!(error.to_string().contains("missing/results.txt` cannot be written"), "{error}");
        let error =
            OrderedWriter::new(folder.path().to_str().unwrap()).write(Part::WHOLE, vec![]).unwrap_err();
        assert!(error.to_string().contains("folder"), "{error}");
    }

    #[test]
    fn distances_are_read_back_to_the_bit() {
        for (distance, text) in [
            (0.0, "0"),
            (0.5, "0.5"),
            (2.0, "2"),
            (1.0 / 3.0, "0.3333333333333333"),
            (1_234.567_890_123, "1234.567890123"),
            (1e-7, "1e-7"),
            (1e300, "1e300"),
        ] {
            assert_eq!(exact_text(distance), text);
            assert_eq!(text.parse::<f64>().unwrap().to_bits(), distance.to_bits());
            assert_eq!(serde_json::from_str::<f64>(text).unwrap().to_bits(), distance.to_bits());
        }
    }

    #[test]
    fn answers_are_sorted_and_written_by_every_sink() {
        let folder = tempfile::tempdir().unwrap();
        let store = testing::store(folder.path(), 6);
        let expected = [
            (&JSON, r#"{"rank": 1, "id": 4, "name": "dogs/004.png", "distance": 0.25}"#),
            (&CSV, "q1,1,4,dogs/004.png,0.25\nq1,2,1,dogs/001.png,0.5\nq1,3,3,cats/003.png,0.5\n"),
            (&TABLE, "q1\n  rank  distance  id  name\n     1  0.250000   4  dogs/004.png\n"),
        ];
        for (spec, text) in expected {
            let path = folder.path().join(spec.name);
            let given =
                [("store", Value::Text("s".into())), ("out", Value::Text(path.to_str().unwrap().to_owned()))];
            let resource: Resource = testing::shared_store(&store);
            let mut harness = Harness::with_resources(spec, given, [("s", resource)]).unwrap();
            harness.give(QUERY, testing::queries(&[("q0", 1), ("q1", 2)]));
            harness.give(RESULTS, testing::distances(&[(1, 3, 0.5), (1, 1, 0.5)]));
            harness.give(RESULTS, testing::distances(&[(1, 4, 0.25)]));
            harness.run().unwrap();
            assert!(!harness.is_done() && !path.exists());
            harness.end(RESULTS);
            harness.run().unwrap();
            assert!(harness.is_done());
            let written = fs::read_to_string(path).unwrap();
            assert!(written.contains(text), "{written}");
        }
    }
}
