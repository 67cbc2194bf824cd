//! A changed store answers like a new store of its objects, to the bit, with every strategy.
//!
//! Random sequences of changes to small stores of few different objects, so that many are at one distance; the index
//! follows each change. For the commands that change stores see `store_commands.rs`.

#[path = "support/objects.rs"]
mod objects;
#[path = "support/values.rs"]
mod values;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use boxwork::pipeline;
use boxwork::shipped::{self, Shipped};
use boxwork_kernels::chance::Random;
use boxwork_operators::catalog;
use boxwork_operators::columns;
use boxwork_runtime::operator::{Bind, BoxError, Catalog, Context, Flow, In, Kind, Operator, OperatorSpec};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType, Value};
use boxwork_runtime::prepare::Prepared;
use boxwork_runtime::request::Submission;
use boxwork_runtime::{Config, Runtime};
use boxwork_stores::object_store::Access;
use boxwork_stores::pivot_table::{PivotTable, in_threads};
use boxwork_stores::signature_store::{SignatureStore, StoreChange};
use boxwork_stores::sqfd_space::SqfdSpace;
use boxwork_stores::store::{SharedStore, Store};
use boxwork_stores::upkeep;
use tempfile::TempDir;

use objects::{Object, gaussian, push, write_store};
use values::path_value;

const RESULTS: In = In::stream(0, "results", columns::distances, "the results");
const QUERY: In = In::side(1, "query", columns::queries, "the queries");

static NAMED_ROWS: OperatorSpec = OperatorSpec {
    parameters: &[
        Parameter::new("store", ParameterType::Resource("store"), Default::Required, "the store"),
        Parameter::new("out", ParameterType::Path, Default::Required, "the file"),
    ],
    inputs: &[RESULTS, QUERY],
    ..OperatorSpec::new("named_rows", "Writes results to the bit.", Kind::Stateful, |bind: &Bind<'_>| {
        let store = Arc::clone(&bind.resource::<SharedStore>("store")?.0);
        Ok(Box::new(NamedRows { store, out: bind.path("out"), text: String::new() }))
    })
};

struct NamedRows {
    store: Arc<dyn Store>,
    out: PathBuf,
    text: String,
}

impl Operator for NamedRows {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        while let Some(envelope) = cx.take(RESULTS) {
            let (numbers, ids) = (envelope.u32s("query")?, envelope.u64s("id")?);
            for (row, distance) in envelope.f64s("distance")?.iter().enumerate() {
                let name = self.store.name(ids[row])?;
                let _ = writeln!(self.text, "{} {:x} {name}", numbers[row], distance.to_bits());
            }
        }
        if !cx.is_ended(RESULTS) {
            return Ok(Flow::Wait);
        }
        fs::write(&self.out, &self.text)?;
        Ok(Flow::Done)
    }
}

fn test_catalog() -> Catalog {
    catalog().with(&NAMED_ROWS)
}

fn run(
    runtime: &Runtime,
    loaded: &pipeline::Loaded,
    mut values: BTreeMap<String, Value>,
) -> Result<(), String> {
    let known = |name: &String| loaded.declaration.parameters.iter().any(|known| known.name == *name);
    values.retain(|name, _| known(name));
    let prepared = Prepared::new(&loaded.declaration, &test_catalog(), &values, &runtime.environment());
    let prepared = Arc::new(prepared.map_err(|error| error.to_string())?);
    let request = runtime.submit(&prepared, &Submission::default()).unwrap_or_else(|error| panic!("{error}"));
    request.wait().result.map_err(|error| error.to_string())
}

/// The output of a pipeline over a store.
fn answers(
    runtime: &Runtime,
    pipeline: Shipped,
    store: &Path,
    given: &[(&str, Value)],
) -> Result<String, String> {
    let out = store.with_extension("out");
    let is_sink = |found: &&str| found.starts_with("{kind: \"${format}\", store: objects,");
    let sink = pipeline.text.lines().filter_map(|line| Some(&line[line.find('{')?..])).find(is_sink);
    let named = r#"{kind: named_rows, store: objects, out: "${out}"}"#;
    let text = sink.map_or(pipeline.text.to_owned(), |sink| pipeline.text.replace(sink, named));
    let loaded = pipeline::load_text(pipeline.source, &text);
    let mut values = BTreeMap::from([
        ("store".to_owned(), path_value(store)),
        ("pivots".to_owned(), path_value(&index_of(store))),
        ("out".to_owned(), path_value(&out)),
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
        ("store".to_owned(), path_value(store)),
        ("out".to_owned(), path_value(&index_of(store))),
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

/// A store under change, and its objects, in the order of their ids.
struct Case {
    folder: TempDir,
    objects: Vec<Object>,
    random: Random,
    /// The number of names given so far.
    named: u64,
    gone: Vec<String>,
}

impl Case {
    fn new(seed: u64, count: usize) -> Self {
        let folder = tempfile::tempdir().expect("a folder for the test");
        let mut case =
            Self { folder, objects: Vec::new(), random: Random::new(seed), named: 0, gone: Vec::new() };
        case.objects = case.more(count);
        write_store(&case.store(), &case.objects);
        case
    }

    fn store(&self) -> PathBuf {
        self.folder.path().join("s.arrow")
    }

    /// Objects with new names, many of them equal; or with names that are free again.
    fn more(&mut self, count: usize) -> Vec<Object> {
        let mut more = Vec::new();
        for _ in 0..count {
            let name = match self.gone.pop() {
                Some(name) if self.random.idx(2) == 0 => name,
                _ => {
                    self.named += 1;
                    format!("class{}/{}", self.named % 3, self.named)
                }
            };
            more.push((name, self.random.idx(40) as u64));
        }
        more
    }

    /// One change, with or without its index.
    fn change(&mut self, keeps_index: bool) {
        let mut change = StoreChange::begin(self.store()).expect("a store");
        let mut added = 0;
        if self.random.idx(3) > 0 {
            added = 1 + self.random.idx(20);
        }
        let mut removed = if added == 0 { 1 + self.random.idx(6) } else { self.random.idx(4) };
        removed = removed.min(self.objects.len() - 1);
        for _ in 0..removed {
            let (name, _) = self.objects.remove(self.random.idx(self.objects.len()));
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
        let done = upkeep::commit(pending, &indexes, &mut in_threads(2)).expect("the change can be made");
        assert_eq!(done, (added as u64, removed as u64));
    }

    /// Compares all answers with those of a new store.
    fn check(&mut self, runtime: &Runtime, strategies: usize) {
        let fresh = self.folder.path().join("fresh.arrow");
        write_store(&fresh, &self.objects);
        let pivots = 1 + self.random.idx(self.objects.len().min(6));
        make_index(runtime, &fresh, pivots);
        let stores = [self.store(), fresh];
        let names: Vec<Value> = (0..5)
            .map(|_| Value::Text(self.objects[self.random.idx(self.objects.len())].0.clone()))
            .collect();
        let first = self.random.idx(NEAREST.len());
        for turn in first..first + strategies {
            let k = [1, 4, self.objects.len(), self.objects.len() + 7][self.random.idx(4)];
            let bound = BOUNDS[self.random.idx(BOUNDS.len())];
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
            assert!(found == expected, "{} with {bound}, k {k}: {found:?} and {expected:?}", pipeline.source);
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
            assert_eq!(sorted(found), sorted(expected), "{}", pipeline.source);
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
            // A compaction forgets that it existed.
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
            match case.random.idx(5) {
                0 => {
                    let indexes = [index_of(&case.store())];
                    let compacted =
                        upkeep::compact(&case.store(), &indexes, Access::Map, &mut in_threads(2), &|| false);
                    let compacted = compacted.expect("the store can be compacted");
                    let store = SignatureStore::open(case.store()).expect("a store");
                    assert!(!store.is_changed() && store.len() == compacted.objects);
                }
                1 => {
                    case.change(false);
                    case.change(false);
                    upkeep::bring_up(
                        &case.store(),
                        &index_of(&case.store()),
                        Access::Map,
                        &mut in_threads(2),
                    )
                    .expect("the index can be brought up");
                }
                _ => case.change(true),
            }
            case.check(&runtime, 2);
        }
        case.check(&runtime, NEAREST.len());
    }
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
    // An index written for later states also serves the earlier one.
    let space = Arc::new(SqfdSpace::new(Arc::clone(&before), gaussian()));
    assert_eq!(PivotTable::open(index_of(&case.store()), space).expect("an index").len(), 40);
    upkeep::compact(&case.store(), &[], Access::Read, &mut in_threads(2), &|| false)
        .expect("the store can be compacted");
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
