//! Every strategy with every bound gives the answer of a sort of all f64 distances, to the bit, ties included.
//!
//! Random stores of few different objects, so that many are at one distance; random queries, most of them not objects;
//! k beyond the number of objects; indexes with random pivots; and adversarial stores with duplicates and near
//! duplicates. Runs the shipped pipelines, with this test's queries and sink instead of their own.

#[path = "support/points.rs"]
mod points;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use boxwork::pipeline;
use boxwork::shipped::{self, Shipped};
use boxwork_kernels::chance::Random;
use boxwork_kernels::similarity::{Ground, Measure, Similarity};
use boxwork_kernels::sqfd::reference;
use boxwork_runtime::feeding::faults::has_device;
use boxwork_runtime::parameter::Value;
use boxwork_runtime::prepare::Prepared;
use boxwork_runtime::request::Submission;
use boxwork_runtime::{Config, Runtime};
use boxwork_stores::pivot_table::PivotTableWriter;
use boxwork_stores::signature::{SignatureBuilder, SignatureColumns};
use boxwork_stores::signature_store::{SignatureStore, StoreError, StoreInfo, StoreWriter};
use boxwork_stores::sqfd_space::SqfdSpace;
use points::{COORDINATES, DIMENSIONS, Points, QUERIES, queries, test_catalog, text_of};

/// The pipeline with this test's queries and sink.
fn changed(path: &str, text: &str) -> pipeline::Loaded {
    let query = r#"{kind: read_query, queries: "${queries}", store: objects}"#;
    let is_sink = |found: &&str| found.contains("kind: \"${format}\"");
    let sink = text.lines().filter_map(|line| Some(&line[line.find('{')?..])).find(is_sink).expect("a sink");
    assert!(text.contains(query), "{path}");
    let mut text = text.replace(query, r#"{kind: given_queries, seed: "${seed}"}"#);
    text = text.replace(sink, r#"{kind: rows, out: "${out}"}"#);
    text = text.replace("parameters:\n", "parameters:\n  seed: {type: integer}\n");
    // Unused parts are warnings only.
    pipeline::load_text(path, &text).unwrap_or_else(|flaws| panic!("{flaws:?}"))
}

/// A store, a measure, and an index with this many pivots.
struct Case {
    folder: tempfile::TempDir,
    measure: Measure,
    objects: Vec<Points>,
}

impl Case {
    fn new(seed: u64, count: usize, measure: Measure) -> Self {
        let mut random = Random::new(seed);
        let objects = (0..count).map(|_| match random.idx(3) {
            // One of few objects, so that each is repeated.
            0 => Points::of(random.idx(40) as u64),
            1 => Points::of(random.idx(40) as u64).moved([1e-6, 1e-4, 1e-2][random.idx(3)]),
            _ => Points::of(random.bits()),
        });
        Self::of(objects.collect(), measure)
    }

    fn of(objects: Vec<Points>, measure: Measure) -> Self {
        let folder = tempfile::tempdir().expect("a folder for the test");
        let mut writer = StoreWriter::create(&Self::path(&folder, "s"), &COORDINATES, &StoreInfo::default());
        for (id, object) in objects.iter().enumerate() {
            let writer = writer.as_mut().expect("the store can be written");
            object
                .with(|signature| writer.push(&id.to_string(), signature, 0, 0))
                .expect("a sound signature");
        }
        writer.and_then(StoreWriter::finish).expect("the store can be written");
        Self { folder, measure, objects }
    }

    fn path(folder: &tempfile::TempDir, name: &str) -> PathBuf {
        folder.path().join(format!("{name}.arrow"))
    }

    fn values(&self) -> BTreeMap<String, Value> {
        let text = |path: PathBuf| Value::Text(path.to_str().expect("a path in UTF-8").to_owned());
        BTreeMap::from([
            ("store".to_owned(), text(Self::path(&self.folder, "s"))),
            ("similarity".to_owned(), Value::Text(self.measure.similarity().to_string())),
            ("ground".to_owned(), Value::Text(self.measure.ground().to_string())),
            ("alpha".to_owned(), Value::Number(self.measure.alpha())),
        ])
    }

    /// Builds the index with the shipped pipeline on a device, in a file of this name.
    fn index_on(&self, device: &str, name: &str, runtime: &Runtime, pivots: usize, select: &str, seed: u64) {
        let mut values = self.values();
        let out = Self::path(&self.folder, name).to_str().expect("a path in UTF-8").to_owned();
        values.insert("out".to_owned(), Value::Text(out));
        values.insert("count".to_owned(), Value::Integer(pivots as i64));
        values.insert("select".to_owned(), Value::Text(select.to_owned()));
        values.insert("seed".to_owned(), Value::Integer(seed as i64));
        values.insert("device".to_owned(), Value::Text(device.to_owned()));
        run(runtime, &shipped::INDEX.load(), &values);
    }

    /// The index with these pivots, which no selection would choose together.
    fn index_by(&self, pivots: &[u64]) {
        let store = SignatureStore::open(Self::path(&self.folder, "s")).expect("a sound store");
        let space = Arc::new(SqfdSpace::new(Arc::new(store), self.measure));
        let row = |id: u64| -> Vec<f64> {
            let all = space.store().read(|objects| {
                let between = pivots.iter().map(|pivot| space.between(objects, *pivot, id));
                between.collect::<Result<_, StoreError>>()
            });
            all.expect("a sound store")
        };
        let between: Vec<f64> = pivots.iter().flat_map(|pivot| row(*pivot)).collect();
        let path = Self::path(&self.folder, "p");
        let writer = PivotTableWriter::create(&path, Arc::<SqfdSpace>::clone(&space), pivots, &between);
        let mut writer = writer.expect("distances of one space");
        (0..space.store().len()).for_each(|id| writer.push(&row(id)).expect("distances of one space"));
        writer.finish().expect("the index can be written");
    }

    /// The rows that a pipeline finds.
    fn found(&self, runtime: &Runtime, pipeline: Shipped, seed: u64, given: &[(&str, Value)]) -> String {
        self.found_by(runtime, &changed(pipeline.source, pipeline.text), seed, given)
    }

    /// The rows that a changed pipeline finds.
    fn found_by(
        &self,
        runtime: &Runtime,
        loaded: &pipeline::Loaded,
        seed: u64,
        given: &[(&str, Value)],
    ) -> String {
        let out = self.folder.path().join("rows.txt");
        let text = |path: &Path| Value::Text(path.to_str().expect("a path in UTF-8").to_owned());
        let mut values = self.values();
        values.insert("pivots".to_owned(), text(&Self::path(&self.folder, "p")));
        values.insert("queries".to_owned(), Value::List(Vec::new()));
        values.insert("out".to_owned(), text(&out));
        values.insert("seed".to_owned(), Value::Integer(seed as i64));
        values.extend(given.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
        let known = |name: &String| loaded.declaration.parameters.iter().any(|known| known.name == *name);
        values.retain(|name, _| known(name));
        run(runtime, loaded, &values);
        std::fs::read_to_string(out).expect("the rows were written")
    }

    /// All f64 distances of each query, in order, ties by id.
    fn ranked(&self, seed: u64) -> Vec<Vec<(f64, u64)>> {
        let store = SignatureStore::open(Self::path(&self.folder, "s")).expect("a sound store");
        let mut builder = SignatureBuilder::new(&COORDINATES).expect("good names");
        for query in queries(seed, QUERIES) {
            // As in the pipelines: the weights are divided by their sum once more.
            query.with(|signature| builder.push_signature(signature)).expect("a sound signature");
        }
        let made = builder.finish();
        let made = SignatureColumns::new(&made).expect("a good column");
        let measure = &self.measure;
        let ranked = store.read(|objects| {
            let ids = 0..self.objects.len() as u64;
            let own = |id| Ok::<_, StoreError>(reference::sigma_self(measure, objects.signature(id)?));
            let sigmas: Vec<f64> = ids.clone().map(own).collect::<Result<_, _>>()?;
            let distances = |number| {
                let query = made.signature(number);
                let sigma = reference::sigma_self(measure, query);
                let distance = |id: u64| {
                    let cross = reference::sigma(measure, query, objects.signature(id)?);
                    Ok((reference::distance(sigma, sigmas[id as usize], cross), id))
                };
                let mut all = ids.clone().map(distance).collect::<Result<Vec<_>, StoreError>>()?;
                all.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
                Ok(all)
            };
            (0..QUERIES).map(distances).collect::<Result<Vec<_>, StoreError>>()
        });
        ranked.expect("a sound store")
    }
}

/// The rows of the k nearest, or of those within a range, or both.
fn expected(ranked: &[Vec<(f64, u64)>], k: Option<usize>, range: Option<f64>) -> String {
    let mut rows = Vec::new();
    for (number, all) in ranked.iter().enumerate() {
        let near = all.iter().filter(|found| found.0 <= range.unwrap_or(f64::INFINITY));
        let near = near.take(k.unwrap_or(usize::MAX));
        rows.extend(near.map(|(distance, id)| (number as u32, *distance, *id)));
    }
    text_of(&mut rows)
}

fn run(runtime: &Runtime, loaded: &pipeline::Loaded, values: &BTreeMap<String, Value>) {
    let prepared = Prepared::new(&loaded.declaration, &test_catalog(), values, &runtime.environment());
    let prepared = Arc::new(prepared.unwrap_or_else(|error| panic!("{}: {error}", loaded.name())));
    let request = runtime.submit(&prepared, &Submission::default()).unwrap_or_else(|error| panic!("{error}"));
    request.wait().result.unwrap_or_else(|error| panic!("{}: {error}", loaded.name()));
}

const NEAREST: [Shipped; 7] = [
    shipped::SEARCH,
    shipped::AUTO,
    shipped::BEST_FIRST,
    shipped::ESTIMATED_RANGE,
    shipped::FIXED_BLOCKS,
    shipped::ADAPTIVE_BLOCKS,
    shipped::TWO_PHASE,
];
const BOUNDS: [&str; 6] = ["auto", "none", "triangular", "ptolemaic", "combined", "simplex"];

/// Checks all strategies of a case with 64 queries; the bounds take turns.
fn check(runtime: &Runtime, seed: u64, objects: usize, pivots: usize, measure: Measure) {
    check_on("cpu", runtime, seed, objects, pivots, measure);
}

/// As `check`, with an index that this device has built.
fn check_on(device: &str, runtime: &Runtime, seed: u64, objects: usize, pivots: usize, measure: Measure) {
    let case = Case::new(seed, objects, measure);
    let select = ["random", "maxmin", "incremental"][seed as usize % 3];
    case.index_on(device, "p", runtime, pivots, select, seed);
    let ranked = case.ranked(seed);
    let mut turn = seed as usize;
    for k in [1, 7, objects, objects + 5] {
        let expected = expected(&ranked, Some(k), None);
        for pipeline in NEAREST {
            turn += 1;
            let bound = BOUNDS[turn % BOUNDS.len()];
            let given = [
                ("k", Value::Integer(k as i64)),
                ("bound", Value::Text(bound.to_owned())),
                ("first", Value::Integer(3)),
                ("most", Value::Integer(40)),
                ("block", Value::Integer(16)),
                ("estimation", Value::Integer(12)),
            ];
            let found = case.found(runtime, pipeline, seed, &given);
            assert!(
                found == expected,
                "{} with {bound}, k {k}, {measure:?}:\n{found}\n{expected}",
                pipeline.source
            );
        }
    }
    // The range is an object's distance: the border is included.
    let border = ranked[0][objects.min(4) - 1].0;
    for bound in BOUNDS {
        let given = [("range", Value::Number(border)), ("bound", Value::Text(bound.to_owned()))];
        let found = case.found(runtime, shipped::INDEXED_RANGE, seed, &given);
        assert!(found == expected(&ranked, None, Some(border)), "{bound} within {border} of {measure:?}");
    }
    let given = [("range", Value::Number(border)), ("k", Value::Integer(3))];
    let found = case.found(runtime, shipped::BEST_FIRST, seed, &given);
    assert!(found == expected(&ranked, Some(3), Some(border)), "both k and a range");
}

#[test]
fn every_strategy_gives_what_a_sort_of_all_gives() {
    let runtime = Runtime::start(Config::flat(2)).expect("the system gives threads");
    let mut seed = 1;
    for (objects, pivots) in [(1, 1), (2, 2), (30, 5), (300, 9), (700, 4)] {
        for alpha in [0.01, 0.2, 0.64, 3.0] {
            let measure = Measure::new(Similarity::Gaussian, Ground::L2, alpha).expect("a sound measure");
            check(&runtime, seed, objects, pivots, measure);
            seed += 1;
        }
    }
}

#[test]
fn a_second_phase_that_waits_for_its_estimate_does_not_stall_behind_a_small_edge() {
    // Thousands of envelopes come before the estimate, which is a side input, and the edge holds one.
    let runtime = Runtime::start(Config::flat(2)).expect("the system gives threads");
    let case = Case::new(5, 300, Measure::new(Similarity::Gaussian, Ground::L2, 0.2).expect("sound"));
    case.index_on("cpu", "p", &runtime, 4, "random", 5);
    let Shipped { source, text, .. } = shipped::TWO_PHASE;
    let small = text
        .replace("first: 64, most: 4096}", "first: 1, most: 8}")
        .replace("envelopes: 64}", "envelopes: 1}");
    assert_eq!(small.len() + 5, text.len(), "the pipeline has other sizes now");
    let given = [("k", Value::Integer(7)), ("bound", Value::Text("none".to_owned()))];
    let found = case.found_by(&runtime, &changed(source, &small), 5, &given);
    assert!(found == expected(&case.ranked(5), Some(7), None));
}

#[test]
fn every_measure_is_bounded_soundly() {
    let runtime = Runtime::start(Config::flat(1)).expect("the system gives threads");
    for (seed, similarity, ground) in [
        (100, Similarity::Heuristic, Ground::L1),
        (101, Similarity::Heuristic, Ground::L2),
        (102, Similarity::Heuristic, Ground::SquaredL2),
        (103, Similarity::Minus, Ground::L1),
        (104, Similarity::Minus, Ground::L2),
        (105, Similarity::Minus, Ground::SquaredL2),
    ] {
        let measure = Measure::new(similarity, ground, 0.5).expect("a sound measure");
        check(&runtime, seed, 150, 6, measure);
    }
}

#[test]
fn an_index_made_on_a_device_is_the_same_file_and_gives_what_a_sort_of_all_gives() {
    if !has_device("an_index_made_on_a_device_is_the_same_file_and_gives_what_a_sort_of_all_gives") {
        return;
    }
    let runtime = Runtime::start(Config::flat(2)).expect("the system gives threads");
    for (seed, alpha) in (300..).zip([0.01, 0.2, 3.0]) {
        let measure = Measure::new(Similarity::Gaussian, Ground::L2, alpha).expect("a sound measure");
        check_on("gpu", &runtime, seed, 300, 7, measure);
        let case = Case::new(seed, 700, measure);
        case.index_on("cpu", "p", &runtime, 5, "random", seed);
        case.index_on("gpu", "q", &runtime, 5, "random", seed);
        let bytes = |name| std::fs::read(Case::path(&case.folder, name)).expect("the index was written");
        assert!(bytes("p") == bytes("q"), "the indexes differ, alpha {alpha}");
        let ranked = case.ranked(seed);
        for bound in ["simplex", "triangular"] {
            let given = [("k", Value::Integer(10)), ("bound", Value::Text(bound.to_owned()))];
            let found = case.found(&runtime, shipped::BEST_FIRST, seed, &given);
            assert!(found == expected(&ranked, Some(10), None), "{bound}, alpha {alpha}");
        }
    }
    let devices = runtime.devices().opened().expect("there are devices");
    assert!(devices.statistics().iter().any(|device| device.blocks >= 6), "no device computed");
    assert_eq!(devices.take_warnings(), [""; 0]);
}

/// Adversarial objects, with pivots among them.
fn adversaries() -> Vec<(&'static str, Vec<Points>, Vec<u64>)> {
    let random = |count: u64| (0..count).map(|seed| Points::of(1000 + seed));
    let corner = |n: usize| {
        let mut place = [0.0; DIMENSIONS];
        place[n / 2 % DIMENSIONS] = [1.0, -1.0][n % 2];
        Points::at(place)
    };
    let on_a_line = (0..20).map(|n| Points::at([n as f32 / 8.0, 0.0, 0.0]));
    let nearly = (0..8).map(|n| Points::of(1000).moved(n as f32 * 1e-6));
    vec![
        ("one object", random(1).collect(), vec![0]),
        ("duplicates", vec![Points::of(5); 60], vec![0, 7, 30]),
        ("equal distances", (0..48).map(corner).collect(), vec![0, 1, 2, 10]),
        ("collinear pivots", on_a_line.chain(random(25)).collect(), (0..9).collect()),
        ("identical pivots", random(50).collect(), vec![3, 3, 3, 17, 17]),
        ("nearly identical pivots", nearly.chain(random(30)).collect(), (0..8).collect()),
    ]
}

#[test]
fn every_strategy_by_every_bound_is_right_of_sets_that_mislead() {
    let runtime = Runtime::start(Config::flat(2)).expect("the system gives threads");
    for (seed, (name, objects, pivots)) in (200..).zip(adversaries()) {
        let alpha = [0.01, 0.2, 3.0][seed as usize % 3];
        let measure = Measure::new(Similarity::Gaussian, Ground::L2, alpha).expect("a sound measure");
        let count = objects.len();
        let case = Case::of(objects, measure);
        case.index_by(&pivots);
        let ranked = case.ranked(seed);
        let border = ranked[0][count.min(4) - 1].0;
        for bound in BOUNDS {
            let of_bound = ("bound", Value::Text(bound.to_owned()));
            for k in [1, 5, count, count + 5] {
                let expected = expected(&ranked, Some(k), None);
                for pipeline in NEAREST {
                    let given = [
                        of_bound.clone(),
                        ("k", Value::Integer(k as i64)),
                        ("first", Value::Integer(3)),
                        ("most", Value::Integer(40)),
                        ("block", Value::Integer(16)),
                        ("estimation", Value::Integer(12)),
                    ];
                    let found = case.found(&runtime, pipeline, seed, &given);
                    assert!(found == expected, "{} with {bound}, k {k} of {name}", pipeline.source);
                }
            }
            let given = [of_bound, ("range", Value::Number(border))];
            let found = case.found(&runtime, shipped::INDEXED_RANGE, seed, &given);
            assert!(found == expected(&ranked, None, Some(border)), "{bound} within {border} of {name}");
        }
    }
}
