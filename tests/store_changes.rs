//! A store that objects join and leave answers as one made anew of the same objects, to the bit, by every strategy.
//!
//! Random sequences of changes to small stores of few different objects, so that many are at one distance; the index
//! follows each change. Then what a person meets: the commands, bad input, readers and writers at once, a writer
//! that was killed.

#[path = "support/random.rs"]
mod random;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use boxwork::pipeline;
use boxwork::shipped::{self, Shipped};
use boxwork_kernels::similarity::{Ground, Measure, Similarity};
use boxwork_kernels::sqfd::Columns;
use boxwork_operators::catalog;
use boxwork_operators::domain::columns;
use boxwork_operators::domain::pivot_table::{PivotTable, in_threads};
use boxwork_operators::domain::signature_store::{
    SignatureStore, StoreChange, StoreError, StoreInfo, StoreWriter,
};
use boxwork_operators::domain::space::SqfdSpace;
use boxwork_operators::domain::upkeep;
use boxwork_runtime::operator::{
    Bind, BoxError, Catalog, Context, Flow, Input, Kind, Operator, OperatorSpec,
};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType, Value};
use boxwork_runtime::prepare::Prepared;
use boxwork_runtime::request::Submission;
use boxwork_runtime::{Config, Runtime};
use tempfile::TempDir;

use random::Random;

const COORDINATES: [&str; 2] = ["x", "y"];

/// An object: its name, and the seed that its signature depends on alone.
type Object = (String, u64);

fn push(
    object: &Object,
    f: impl FnOnce(&str, boxwork_kernels::sqfd::SignatureRef<'_>) -> Result<(), StoreError>,
) {
    let mut random = Random(object.1 ^ 0xb0c5);
    let count = 1 + random.below(4);
    let columns = [0; 2].map(|_| (0..count).map(|_| 3.0 * random.unit()).collect::<Vec<f32>>());
    let weights: Vec<f32> = (0..count).map(|_| 0.1 + random.unit()).collect();
    let columns = columns.each_ref().map(Vec::as_slice);
    f(&object.0, Columns::new(&columns, &weights).signature(0, count)).expect("a sound object");
}

fn write_store(path: &Path, objects: &[Object]) {
    let mut writer =
        StoreWriter::create(path, &COORDINATES, &StoreInfo::default()).expect("the store can be written");
    for object in objects {
        push(object, |name, signature| writer.push(name, signature, 0, 0));
    }
    writer.finish().expect("the store can be written");
}

static NAMED_ROWS: OperatorSpec = OperatorSpec {
    parameters: &[
        Parameter::new("store", ParameterType::Resource("signature_store"), Default::Required, "the store"),
        Parameter::new("out", ParameterType::Path, Default::Required, "the file"),
    ],
    inputs: &[
        Input::stream("results", columns::distances, "the results"),
        Input::side("query", columns::queries, "the queries"),
    ],
    ..OperatorSpec::new("named_rows", "Writes results to the bit.", Kind::Stateful, |bind: &Bind<'_>| {
        Ok(Box::new(NamedRows { store: bind.resource("store")?, out: bind.path("out"), text: String::new() }))
    })
};

struct NamedRows {
    store: Arc<SignatureStore>,
    out: PathBuf,
    text: String,
}

impl Operator for NamedRows {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        while let Some(envelope) = cx.take("results") {
            let (numbers, ids) = (envelope.u32s("query")?, envelope.u64s("id")?);
            for (row, distance) in envelope.f64s("distance")?.iter().enumerate() {
                let name = self.store.name(ids[row])?;
                let _ = writeln!(self.text, "{} {:x} {name}", numbers[row], distance.to_bits());
            }
        }
        if !cx.is_ended("results") {
            return Ok(Flow::Wait);
        }
        fs::write(&self.out, &self.text)?;
        Ok(Flow::Done)
    }
}

fn test_catalog() -> Catalog {
    catalog().with(&NAMED_ROWS)
}

fn text(path: &Path) -> Value {
    Value::Text(path.to_str().expect("a path in UTF-8").to_owned())
}

fn run(
    runtime: &Runtime,
    loaded: &pipeline::Loaded,
    mut values: BTreeMap<String, Value>,
) -> Result<(), String> {
    let known = |name: &String| loaded.declaration.parameters.iter().any(|known| known.name == *name);
    values.retain(|name, _| known(name));
    let prepared = Prepared::new(&loaded.declaration, &test_catalog(), &values);
    let prepared = Arc::new(prepared.map_err(|error| error.to_string())?);
    let request = runtime.submit(&prepared, &Submission::default()).unwrap_or_else(|error| panic!("{error}"));
    request.wait().result.map_err(|error| error.to_string())
}

/// What a pipeline writes of a store.
fn answers(
    runtime: &Runtime,
    pipeline: Shipped,
    store: &Path,
    given: &[(&str, Value)],
) -> Result<String, String> {
    let out = store.with_extension("out");
    let sink = r#"{kind: "${format}", store: signatures, out: "${out}"}"#;
    let named = r#"{kind: named_rows, store: signatures, out: "${out}"}"#;
    let loaded = pipeline::load_text(pipeline.path, &pipeline.text.replace(sink, named));
    let mut values = BTreeMap::from([
        ("store".to_owned(), text(store)),
        ("pivots".to_owned(), text(&index_of(store))),
        ("out".to_owned(), text(&out)),
    ]);
    values.extend(given.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
    run(runtime, &loaded.unwrap_or_else(|flaws| panic!("{flaws:?}")), values)?;
    Ok(fs::read_to_string(out).expect("the answers were written"))
}

fn index_of(store: &Path) -> PathBuf {
    store.with_extension("pivots.arrow")
}

fn make_index(runtime: &Runtime, store: &Path, pivots: usize) {
    let values = BTreeMap::from([
        ("store".to_owned(), text(store)),
        ("out".to_owned(), text(&index_of(store))),
        ("count".to_owned(), Value::Integer(pivots as i64)),
    ]);
    run(runtime, &shipped::INDEX.load(), values).expect("the index can be made");
}

const NEAREST: [Shipped; 6] = [
    shipped::SEARCH,
    shipped::BEST_FIRST,
    shipped::ESTIMATED_RANGE,
    shipped::FIXED_BLOCKS,
    shipped::ADAPTIVE_BLOCKS,
    shipped::TWO_PHASE,
];
const BOUNDS: [&str; 6] = ["auto", "none", "triangular", "ptolemaic", "combined", "simplex"];

/// A store under change, and the objects that are in it, in the order of their ids.
struct Case {
    folder: TempDir,
    objects: Vec<Object>,
    random: Random,
    /// Names that were given so far.
    named: u64,
    gone: Vec<String>,
}

impl Case {
    fn new(seed: u64, count: usize) -> Self {
        let folder = tempfile::tempdir().expect("a folder for the test");
        let mut case = Self { folder, objects: Vec::new(), random: Random(seed), named: 0, gone: Vec::new() };
        case.objects = case.more(count);
        write_store(&case.store(), &case.objects);
        case
    }

    fn store(&self) -> PathBuf {
        self.folder.path().join("s.arrow")
    }

    /// Objects of new names, many of them alike; or of names that are free again.
    fn more(&mut self, count: usize) -> Vec<Object> {
        let mut more = Vec::new();
        for _ in 0..count {
            let name = match self.gone.pop() {
                Some(name) if self.random.below(2) == 0 => name,
                _ => {
                    self.named += 1;
                    format!("class{}/{}", self.named % 3, self.named)
                }
            };
            more.push((name, self.random.below(40) as u64));
        }
        more
    }

    /// One change, with its index or without.
    fn change(&mut self, keeps_index: bool) {
        let mut change = StoreChange::begin(self.store()).expect("a store");
        let mut added = 0;
        if self.random.below(3) > 0 {
            added = 1 + self.random.below(20);
        }
        let mut removed = if added == 0 { 1 + self.random.below(6) } else { self.random.below(4) };
        removed = removed.min(self.objects.len() - 1);
        for _ in 0..removed {
            let (name, _) = self.objects.remove(self.random.below(self.objects.len()));
            assert!(change.remove_named(&name).expect("names can be read"), "{name}");
            self.gone.push(name);
        }
        for object in self.more(added) {
            push(&object, |name, signature| change.push(name, signature, 0, 0));
            self.objects.push(object);
        }
        if added + removed == 0 {
            return;
        }
        let indexes = if keeps_index { vec![index_of(&self.store())] } else { Vec::new() };
        let pending = change.write().expect("the parts can be written");
        let done = upkeep::commit(pending, &indexes, &mut in_threads).expect("the change can be made");
        assert_eq!(done, (added as u64, removed as u64));
    }

    /// Compares all that can be asked with a store made anew.
    fn check(&mut self, runtime: &Runtime, strategies: usize) {
        let fresh = self.folder.path().join("fresh.arrow");
        write_store(&fresh, &self.objects);
        let pivots = 1 + self.random.below(self.objects.len().min(6));
        make_index(runtime, &fresh, pivots);
        let stores = [self.store(), fresh];
        let names: Vec<Value> = (0..5)
            .map(|_| Value::Text(self.objects[self.random.below(self.objects.len())].0.clone()))
            .collect();
        let first = self.random.below(NEAREST.len());
        for turn in first..first + strategies {
            let k = [1, 4, self.objects.len(), self.objects.len() + 7][self.random.below(4)];
            let bound = BOUNDS[self.random.below(BOUNDS.len())];
            let given = [
                ("queries", Value::List(names.clone())),
                ("k", Value::Integer(k as i64)),
                ("bound", Value::Text(bound.to_owned())),
                ("first", Value::Integer(3)),
                ("block", Value::Integer(16)),
                ("estimation", Value::Integer(12)),
            ];
            let pipeline = NEAREST[turn % NEAREST.len()];
            let [found, expected] = stores.each_ref().map(|store| answers(runtime, pipeline, store, &given));
            assert!(found == expected, "{} with {bound}, k {k}: {found:?} and {expected:?}", pipeline.path);
            assert_eq!(expected.expect("answers").lines().count(), 5 * k.min(self.objects.len()));
        }
        for pipeline in [shipped::RANGE, shipped::INDEXED_RANGE] {
            let given = [("queries", Value::List(names.clone())), ("range", Value::Number(0.3))];
            let [found, expected] = stores.each_ref().map(|store| answers(runtime, pipeline, store, &given));
            // Several queries at once come in any order; sinks sort them.
            let sorted = |text: Result<String, String>| {
                let mut lines: Vec<String> = text.expect("answers").lines().map(str::to_owned).collect();
                lines.sort_unstable();
                lines
            };
            assert_eq!(sorted(found), sorted(expected), "{}", pipeline.path);
        }
        let [found, expected] =
            stores.each_ref().map(|store| answers(runtime, shipped::EXPORT, store, &[]).expect("lines"));
        assert_eq!(found, expected, "exported");
        if self.objects.len() > 1 {
            let json = [("format", Value::Text("json".to_owned()))];
            let [found, expected] =
                stores.each_ref().map(|store| answers(runtime, shipped::EVALUATE, store, &json));
            assert_eq!(found, expected, "evaluated");
        }
        if let Some(name) = self.gone.last() {
            let given = [("queries", Value::List(vec![Value::Text(name.clone())]))];
            let error = answers(runtime, shipped::SEARCH, &self.store(), &given);
            let error = error.expect_err("a removed object is no query");
            let is_known = error.contains(&format!("`{name}` was removed from"));
            // After a compaction nobody knows that it was there.
            assert!(is_known || error.contains("is neither the name"), "{error}");
        }
    }
}

#[test]
fn a_changed_store_answers_as_one_made_anew() {
    let runtime = Runtime::start(Config::flat(2)).expect("the system gives threads");
    for (seed, count) in [(1, 1), (2, 30), (3, 90), (4, 300), (5, 12), (6, 55)] {
        let mut case = Case::new(seed, count);
        let pivots = case.objects.len().min(5);
        make_index(&runtime, &case.store(), pivots);
        for _ in 0..6 {
            match case.random.below(5) {
                0 => {
                    let compacted = upkeep::compact(&case.store(), &[index_of(&case.store())]);
                    let compacted = compacted.expect("the store can be compacted");
                    let store = SignatureStore::open(case.store()).expect("a store");
                    assert!(!store.is_changed() && store.len() == compacted.objects);
                    if !compacted.lost.is_empty() {
                        make_index(&runtime, &case.store(), pivots.min(store.len() as usize));
                    }
                }
                1 => {
                    case.change(false);
                    case.change(false);
                    upkeep::bring_up(&case.store(), &index_of(&case.store()), &mut in_threads)
                        .expect("the index can be brought up");
                }
                _ => case.change(true),
            }
            case.check(&runtime, 2);
        }
        case.check(&runtime, NEAREST.len());
    }
}

fn gaussian() -> Measure {
    Measure::new(Similarity::Gaussian, Ground::L2, 0.2).expect("a sound measure")
}

#[test]
fn ids_stay_and_a_reader_keeps_its_snapshot() {
    let runtime = Runtime::start(Config::flat(1)).expect("the system gives threads");
    let mut case = Case::new(9, 40);
    make_index(&runtime, &case.store(), 4);
    let before = Arc::new(SignatureStore::open(case.store()).expect("a store"));
    let names: Vec<String> = (0..40).map(|id| before.name(id).expect("a name")).collect();
    for _ in 0..5 {
        case.change(true);
    }
    let after = SignatureStore::open(case.store()).expect("a store");
    for (id, name) in names.iter().enumerate() {
        let id = id as u64;
        assert_eq!(before.find(name).expect("names"), Some(id));
        assert_eq!(after.has(id), after.find(name).expect("names") == Some(id));
        assert_eq!(after.name(id).expect("a name"), *name, "ids stay until a compaction");
    }
    // An index that was written for later states serves the earlier one too.
    let space = Arc::new(SqfdSpace::new(Arc::clone(&before), gaussian()));
    assert_eq!(PivotTable::open(index_of(&case.store()), space).expect("an index").len(), 40);
    upkeep::compact(&case.store(), &[]).expect("the store can be compacted");
    before.verify().expect("what was opened stays, whatever becomes of the files");
    assert_eq!(before.objects(), 40);
    assert_eq!(after.verify().map(|()| after.objects()).expect("a snapshot"), case.objects.len() as u64);
    let left: Vec<_> = fs::read_dir(case.folder.path()).expect("a folder").filter_map(Result::ok).collect();
    let left: Vec<String> =
        left.iter().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    assert!(
        left.iter().all(|name| !name.starts_with("s.arrow.part") && !name.ends_with(".lock")),
        "{left:?}"
    );
}

fn boxwork(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_boxwork"));
    command.current_dir(folder).env("NO_COLOR", "1").env_remove("RUST_BACKTRACE");
    command
}

/// Runs a call that must end with this status, and gives what it wrote and said.
fn ends(folder: &Path, arguments: &[&str], status: i32) -> (String, String) {
    let output = boxwork(folder).args(arguments).output().expect("the command starts");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(status), "{arguments:?}: {said}");
    assert!(!said.contains("panicked"), "{said}");
    (String::from_utf8(output.stdout).expect("the output is text"), said)
}

fn ok(folder: &Path, arguments: &[&str]) -> String {
    ends(folder, arguments, 0).0
}

fn says(folder: &Path, arguments: &[&str], status: i32, words: &[&str]) {
    let (_, said) = ends(folder, arguments, status);
    for word in words {
        assert!(said.contains(word), "{arguments:?}: {said}");
    }
}

/// Two folders of images, the store of the first and its index.
fn with_images() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let at = folder.path();
    ok(at, &["sample-images", "images", "--classes", "3", "--per-class", "5", "--seed", "3"]);
    ok(at, &["sample-images", "more", "--classes", "2", "--per-class", "9", "--seed", "3"]);
    ok(at, &["extract", "images", "--out", "s.arrow", "--points", "300", "--seeds", "60", "--size", "70"]);
    ok(at, &["index", "--store", "s.arrow", "--out", "i.arrow", "--pivots", "4"]);
    folder
}

fn names(folder: &Path, store: &str) -> Vec<String> {
    let store = SignatureStore::open(folder.join(store)).expect("a store");
    store.among(0..store.len()).map(|id| store.name(id).expect("a name")).collect()
}

#[test]
fn images_are_added_and_removed_by_the_command() {
    let folder = with_images();
    let at = folder.path();
    // `more` holds the images of the same names again, and others.
    says(at, &["add", "--store", "s.arrow", "more"], 3, &["is in `s.arrow` already", "--replace"]);
    assert_eq!(names(at, "s.arrow").len(), 15);
    fs::create_dir(at.join("new")).expect("a folder");
    let classes: Vec<_> = fs::read_dir(at.join("more")).expect("images").filter_map(Result::ok).collect();
    for class in classes {
        fs::rename(class.path(), at.join("new").join(format!("new-{}", class.file_name().to_string_lossy())))
            .expect("a new name");
    }
    says(at, &["add", "--store", "s.arrow", "--pivots", "i.arrow", "new"], 0, &["s.arrow holds 33 objects"]);
    let all = names(at, "s.arrow");
    assert_eq!(all.len(), 33);
    // Made as the store's were, as an extraction of both shows.
    ok(
        at,
        &["extract", "images", "new", "--out", "t.arrow", "--points", "300", "--seeds", "60", "--size", "70"],
    );
    assert_eq!(ok(at, &["export", "s.arrow"]), ok(at, &["export", "t.arrow"]));

    let search = ["search", "--store", "s.arrow", "--query", &all[20], "-k", "33", "--format", "csv"];
    let indexed: Vec<&str> = search.iter().copied().chain(["--pivots", "i.arrow"]).collect();
    assert_eq!(ok(at, &search), ok(at, &indexed));
    says(at, &["remove", "--store", "s.arrow", &all[0], &all[20]], 0, &["removed 2 objects", "holds 31"]);
    says(at, &search, 3, &[&format!("`{}` was removed from `s.arrow`", all[20]), "boxwork add"]);
    fs::write(at.join("names.txt"), format!("{}\n{}\n", all[1], all[32])).expect("names");
    says(at, &["remove", "--store", "s.arrow", "--names", "names.txt"], 0, &["removed 2 objects"]);
    let search = ["search", "--store", "s.arrow", "--query", &all[5], "-k", "40", "--format", "csv"];
    let indexed: Vec<&str> = search.iter().copied().chain(["--pivots", "i.arrow"]).collect();
    let found = ok(at, &search);
    assert_eq!((found.lines().count(), &found), (1 + 29, &ok(at, &indexed)));
    assert!([0, 1, 20, 32].iter().all(|gone| !found.contains(&format!("{},", all[*gone]))), "{found}");

    // What is replaced has another id and the same signature here.
    says(at, &["add", "--store", "s.arrow", "--pivots", "i.arrow", "--replace", "images"], 0, &["holds 31"]);
    assert_eq!(ok(at, &indexed).lines().count(), 1 + 31);
    says(at, &["compact", "--store", "s.arrow", "--out", "c.arrow"], 0, &["wrote c.arrow with 31 objects"]);
    let exported = ok(at, &["export", "s.arrow"]);
    assert_eq!(exported, ok(at, &["export", "c.arrow"]));
    says(at, &["compact", "--store", "s.arrow", "--pivots", "i.arrow"], 0, &["holds 31 objects"]);
    assert_eq!(exported, ok(at, &["export", "s.arrow"]));
    assert_eq!(ok(at, &search), ok(at, &indexed));
    assert!(fs::read_dir(at).expect("a folder").filter_map(Result::ok).all(|entry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        !name.contains(".part-") && !name.contains(".lock") && !name.contains(".next")
    }));
}

#[test]
fn what_cannot_be_done_is_refused_with_the_way_out() {
    let folder = with_images();
    let at = folder.path();
    let before = fs::read(at.join("s.arrow")).expect("a store");
    let all = names(at, "s.arrow");
    says(
        at,
        &["remove", "--store", "s.arrow", "nobody", &all[0]],
        3,
        &["error: `s.arrow` has no object named `nobody`; nothing was removed"],
    );
    let everything: Vec<&str> =
        ["remove", "--store", "s.arrow"].into_iter().chain(all.iter().map(String::as_str)).collect();
    says(at, &everything, 3, &["no object would be left in `s.arrow`, which stays as it is"]);
    says(at, &["remove", "--store", "none.arrow", "a"], 3, &["cannot open `none.arrow`"]);
    says(
        at,
        &["remove", "--store", "s.arrow", "--names", "none.txt"],
        3,
        &["cannot read the names in `none.txt`"],
    );
    says(at, &["remove", "--store", "s.arrow"], 2, &["NAME"]);
    says(at, &["add", "--store", "s.arrow"], 2, &["PATH"]);

    // Signatures that were made otherwise.
    ok(at, &["extract", "more", "--out", "o.arrow", "--points", "200", "--seeds", "60", "--size", "70"]);
    let otherwise = ["add", "--store", "s.arrow", "--from", "o.arrow"];
    says(at, &otherwise, 3, &["extracted otherwise: points 200 where the store has 300"]);
    fs::write(at.join("v.jsonl"), "{\"name\": \"a\", \"centroids\": [[1, 0.5]], \"weights\": [1]}\n")
        .expect("lines");
    ok(at, &["import", "v.jsonl", "--out", "v.arrow"]);
    says(
        at,
        &["add", "--store", "s.arrow", "--from", "v.arrow"],
        3,
        &["`s.arrow` holds signatures of", "is wanted"],
    );
    says(
        at,
        &["add", "--store", "v.arrow", "more"],
        3,
        &["does not say how its signatures were extracted", "--from"],
    );
    says(at, &["add", "--store", "v.arrow", "--from", "v.arrow"], 3, &["`a` is in `v.arrow` already"]);

    // Indexes of something else: nothing is changed then.
    ok(at, &["index", "--store", "o.arrow", "--out", "oi.arrow", "--pivots", "3"]);
    ok(at, &["index", "--store", "s.arrow", "--out", "a.arrow", "--pivots", "3", "--alpha", "0.5"]);
    let add = |pivots| ["add", "--store", "s.arrow", "--replace", "more", "--pivots", pivots];
    says(
        at,
        &add("oi.arrow"),
        3,
        &["`oi.arrow` is the index of another store", "boxwork index --store s.arrow --out oi.arrow"],
    );
    says(at, &add("s.arrow"), 3, &["`s.arrow` is no index"]);
    assert!(fs::read(at.join("s.arrow")).expect("a store") == before, "the store was changed");

    // Any measure's index follows; one that was not named is behind, and says how it is brought up.
    says(at, &add("a.arrow"), 0, &["s.arrow holds"]);
    let all = names(at, "s.arrow");
    let search = ["search", "--store", "s.arrow", "--query", &all[0], "--pivots"];
    let with = |more: &[&'static str]| search.iter().copied().chain(more.iter().copied()).collect::<Vec<_>>();
    ends(at, &with(&["a.arrow", "--alpha", "0.5"]), 0);
    says(at, &with(&["a.arrow"]), 3, &["`a.arrow` is an index for", "alpha 0.5", "alpha 0.2"]);
    says(
        at,
        &with(&["i.arrow"]),
        3,
        &[
            "`i.arrow` tells of 15 of the 33 objects that `s.arrow` ever held",
            "run `boxwork index --append --store s.arrow --out i.arrow`",
        ],
    );
    says(at, &["compact", "--store", "s.arrow", "--pivots", "i.arrow"], 3, &["boxwork index --append"]);
    says(
        at,
        &["index", "--append", "--store", "s.arrow", "--out", "i.arrow"],
        0,
        &["i.arrow tells of 18 objects more"],
    );
    says(
        at,
        &["index", "--append", "--store", "s.arrow", "--out", "i.arrow"],
        0,
        &["tells of all objects of s.arrow"],
    );
    ends(at, &with(&["i.arrow"]), 0);
    says(
        at,
        &["index", "--append", "--store", "s.arrow", "--out", "oi.arrow"],
        3,
        &["the index of another store"],
    );
    says(
        at,
        &["index", "--append", "--store", "s.arrow", "--out", "i.arrow", "--pivots", "3"],
        2,
        &["--append"],
    );

    // The rest of what is unsound.
    let index = |more: &[&'static str]| {
        ["index", "--store", "s.arrow", "--out", "n.arrow"]
            .into_iter()
            .chain(more.iter().copied())
            .collect::<Vec<_>>()
    };
    says(at, &index(&["--pivots", "40"]), 3, &["40 pivots were asked for", "ask for at most"]);
    says(at, &index(&["--alpha", "NaN"]), 2, &["NaN is not a number"]);
    says(at, &index(&["--ground", "l1"]), 1, &["gaussian", "use l2"]);
    let found =
        ok(at, &["search", "--store", "s.arrow", "--query", &all[0], "-k", "1000", "--format", "csv"]);
    assert_eq!(found.lines().count(), 1 + all.len(), "k beyond the objects gives all");
    // A part that is missing or another's.
    let part = at.join("s.arrow.part-0");
    let sound = fs::read(&part).expect("the base");
    fs::rename(&part, at.join("away")).expect("a new name");
    says(at, &["export", "s.arrow"], 3, &["cannot open", "s.arrow.part-0"]);
    fs::copy(at.join("o.arrow"), &part).expect("a copy");
    says(
        at,
        &["export", "s.arrow"],
        3,
        &["s.arrow.part-0` is not the part of", "that its record of changes names"],
    );
    fs::write(&part, sound).expect("the base again");
    ok(at, &["export", "s.arrow"]);
}

#[test]
fn of_two_writers_the_second_is_told() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let at = folder.path();
    let object = |number: u64| (format!("class/{number}"), number);
    write_store(&at.join("s.arrow"), &[object(1), object(2)]);
    write_store(&at.join("t.arrow"), &[object(3)]);
    let mut change = StoreChange::begin(at.join("s.arrow")).expect("a store");
    let busy = ["another process is changing `s.arrow`: run this again when it is done"];
    says(at, &["add", "--store", "s.arrow", "--from", "t.arrow"], 3, &busy);
    says(at, &["remove", "--store", "s.arrow", "class/1"], 3, &busy);
    says(at, &["compact", "--store", "s.arrow"], 3, &busy);
    push(&object(4), |name, signature| change.push(name, signature, 0, 0));
    change.write().and_then(|pending| pending.commit()).expect("the change can be made");
    ok(at, &["add", "--store", "s.arrow", "--from", "t.arrow"]);
    assert_eq!(names(at, "s.arrow"), ["class/1", "class/2", "class/4", "class/3"]);
    // A change that is given up leaves nothing, and the lock.
    let mut change = StoreChange::begin(at.join("s.arrow")).expect("a store");
    push(&object(5), |name, signature| change.push(name, signature, 0, 0));
    drop(change.write().expect("the parts can be written"));
    ok(at, &["remove", "--store", "s.arrow", "class/1"]);
    assert_eq!(names(at, "s.arrow"), ["class/2", "class/4", "class/3"]);
    // A store of that name that is made anew replaces all of it.
    let lines = "{\"name\": \"a\", \"centroids\": [[1, 0.5]], \"weights\": [1]}\n";
    let mut child = boxwork(at)
        .args(["import", "/dev/stdin", "--out", "s.arrow"])
        .stdin(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the command starts");
    child.stdin.take().expect("a pipe").write_all(lines.as_bytes()).expect("lines");
    assert!(child.wait().expect("it ends").success());
    assert_eq!(names(at, "s.arrow"), ["a"]);
    let left = fs::read_dir(at).expect("a folder").filter_map(Result::ok);
    let left: Vec<_> = left.map(|entry| entry.file_name()).collect();
    assert_eq!(left.len(), 2, "{left:?}");
}

#[test]
fn a_command_that_is_killed_leaves_the_store_as_it_was_or_as_it_should_be() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let at = folder.path();
    let objects: Vec<Object> = (0..3000).map(|number| (format!("class/{number}"), number)).collect();
    let more: Vec<Object> = (3000..6000).map(|number| (format!("class/{number}"), number)).collect();
    write_store(&at.join("t.arrow"), &more);
    write_store(&at.join("s.arrow"), &objects);
    ok(at, &["index", "--store", "s.arrow", "--out", "i.arrow", "--pivots", "3"]);
    let mut killed = 0;
    for turn in 0..24u64 {
        let mut child = boxwork(at)
            .args(["add", "--store", "s.arrow", "--pivots", "i.arrow", "--from", "t.arrow"])
            .stderr(Stdio::null())
            .spawn()
            .expect("the command starts");
        std::thread::sleep(Duration::from_millis(3 * turn * turn));
        let _ = child.kill();
        let status = child.wait().expect("it ends");
        killed += u32::from(!status.success());
        let store = Arc::new(SignatureStore::open(at.join("s.arrow")).expect("a whole store"));
        store.verify().expect("a sound store");
        assert!([3000, 6000].contains(&store.objects()), "{} objects", store.objects());
        let space = Arc::new(SqfdSpace::new(Arc::clone(&store), gaussian()));
        PivotTable::open(at.join("i.arrow"), space).expect("an index in step");
        if store.objects() == 6000 {
            let mut change = StoreChange::begin(at.join("s.arrow")).expect("nobody holds the lock");
            (3000..store.len()).filter(|id| store.has(*id)).for_each(|id| {
                change.remove(id).expect("an object");
            });
            change.write().and_then(|pending| pending.commit()).expect("the change can be made");
        }
    }
    assert!(killed > 0, "the first is killed at once");
}
