//! Every distance through the shipped pipelines: by pivots with every sound bound, and by every metric index. The
//! answers equal a sort of all distances, with ties by id.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use boxwork::diagnostic;
use boxwork::shipped::{self, Shipped};
use boxwork_kernels::chance::Random;
use boxwork_kernels::distance::{Distance, Emd, Hausdorff, Jaccard, Levenshtein, Lp};
use boxwork_kernels::lower_bound::Bound;
use boxwork_kernels::similarity::{Ground, Measure, Similarity};
use boxwork_kernels::sqfd::{Columns, SignatureRef, reference};
use boxwork_operators::catalog;
use boxwork_runtime::parameter::Value;
use boxwork_runtime::prepare::Prepared;
use boxwork_runtime::request::Submission;
use boxwork_runtime::{Config, Runtime};
use boxwork_stores::signature_store::{SignatureStore, StoreChange, StoreError, StoreInfo, StoreWriter};
use serde_json::Value as Json;

const INDEXES: [&str; 6] = ["aesa", "laesa", "list_of_clusters", "m_tree", "pm_tree", "m_index"];
const OBJECTS: usize = 400;

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

fn path(path: &Path) -> Value {
    text(path.to_str().expect("a path in UTF-8"))
}

/// The ids and distances that a pipeline finds for each query.
fn found(
    runtime: &Runtime,
    pipeline: Shipped,
    folder: &Path,
    given: &[(&str, Value)],
) -> Vec<Vec<(f64, u64)>> {
    let out = folder.join("found.json");
    let mut values: BTreeMap<String, Value> =
        given.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    values.extend([("format".to_owned(), text("json")), ("out".to_owned(), path(&out))]);
    let loaded = pipeline.load();
    let prepared = Prepared::new(&loaded.declaration, &catalog(), &values, &runtime.environment());
    let prepared = Arc::new(prepared.unwrap_or_else(|error| panic!("{}: {error}", pipeline.source)));
    let request = runtime.submit(&prepared, &Submission::default()).unwrap_or_else(|error| panic!("{error}"));
    request.wait().result.unwrap_or_else(|error| panic!("{}: {error}", pipeline.source));
    let json: Json = serde_json::from_str(&fs::read_to_string(out).expect("written")).expect("JSON");
    let hit = |hit: &Json| (hit["distance"].as_f64().expect("a number"), hit["id"].as_u64().expect("an id"));
    let of_query = |query: &Json| query["results"].as_array().expect("a list").iter().map(hit).collect();
    json["queries"].as_array().expect("a list").iter().map(of_query).collect()
}

/// The k nearest within a range, by a sort of all distances.
fn ranked(distances: impl Iterator<Item = f64>, k: usize, range: f64) -> Vec<(f64, u64)> {
    let mut all: Vec<(f64, u64)> = distances.zip(0..).filter(|found| found.0 <= range).collect();
    all.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    all.truncate(k);
    all
}

/// Searches a column with every sound bound and every index, and compares with a sort of all distances.
fn check_column<D: Distance>(
    distance: &D,
    root: bool,
    given: &[(&str, Value)],
    queries: &[(String, D::Object<'_>)],
    objects: &[D::Object<'_>],
    folder: &Path,
) {
    let runtime = Runtime::start(Config::flat(2)).expect("a runtime");
    let properties = if root { distance.properties().rooted() } else { distance.properties() };
    let of = |a: D::Object<'_>, b: D::Object<'_>| {
        let distance = distance.distance(a, b);
        if root { distance.sqrt() } else { distance }
    };
    let range = of(queries[0].1, objects[objects.len() / 2]);
    for (k, range) in [(7, None), (5000, None), (30, Some(range))] {
        let expected: Vec<_> = queries
            .iter()
            .map(|(_, query)| {
                let all = objects.iter().map(|object| of(*query, *object));
                ranked(all, k, range.unwrap_or(f64::INFINITY))
            })
            .collect();
        let names = queries.iter().map(|(name, _)| text(name)).collect();
        let mut given = given.to_vec();
        given.extend([("k", Value::Integer(k as i64)), ("queries", Value::List(names))]);
        given.push(("root", Value::Boolean(root)));
        given.extend(range.map(|range| ("range", Value::Number(range))));
        let sound = Bound::ALL.iter().filter(|bound| properties.allow(**bound).is_ok()).map(Bound::to_string);
        for bound in sound.chain(["auto".to_owned(), "none".to_owned()]) {
            let mut given = given.clone();
            given.extend([("bound", text(&bound)), ("pivots", Value::Integer(12))]);
            let found = found(&runtime, shipped::METRIC_SEARCH, folder, &given);
            assert_eq!(found, expected, "{} by {bound}, k = {k}, range {range:?}", properties.name);
        }
        for index in INDEXES {
            let mut given = given.clone();
            given.push(("index", text(index)));
            let found = found(&runtime, shipped::METRIC_INDEX, folder, &given);
            assert_eq!(found, expected, "{} by {index}, k = {k}, range {range:?}", properties.name);
        }
    }
}

fn lines(folder: &Path, lines: impl Iterator<Item = String>) -> PathBuf {
    let path = folder.join("objects.jsonl");
    let mut text = String::new();
    for line in lines {
        let _ = writeln!(text, "{line}");
    }
    fs::write(&path, text).expect("a file can be written");
    path
}

#[test]
fn vectors_by_every_lp_and_its_root() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let mut random = Random::new(1);
    let vectors: Vec<Vec<f32>> = (0..OBJECTS)
        .map(|i| {
            // Some are at a few places, so that many are at one distance; others anywhere.
            let steps = if i % 3 == 0 { 3 } else { 1000 };
            (0..4).map(|_| random.idx(steps) as f32 / steps as f32).collect()
        })
        .collect();
    let path_of = lines(folder.path(), vectors.iter().map(|vector| format!("{{\"object\": {vector:?}}}")));
    let objects: Vec<&[f32]> = vectors.iter().map(Vec::as_slice).collect();
    let elsewhere = vec![0.5_f32, 0.25, 1.5, -1.0];
    let queries: Vec<(String, &[f32])> = vec![
        ("3".into(), &vectors[3]),
        (format!("{elsewhere:?}"), &elsewhere),
        ("399".into(), &vectors[399]),
    ];
    for p in [1.0, 2.0, 3.5, f64::INFINITY] {
        let mut given = vec![("objects", path(&path_of))];
        match p {
            1.0 => given.push(("distance", text("l1"))),
            2.0 => given.push(("distance", text("l2"))),
            3.5 => given.extend([("distance", text("lp")), ("p", Value::Number(p))]),
            _ => given.push(("distance", text("linf"))),
        }
        let lp = Lp::new(p).expect("an exponent");
        for root in [false, true] {
            check_column(&lp, root, &given, &queries, &objects, folder.path());
        }
    }
}

#[test]
fn texts_by_levenshtein() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let mut random = Random::new(2);
    let mut word = |most: usize| -> String {
        (0..random.idx(most)).map(|_| ['a', 'b', 'é', '日'][random.idx(4)]).collect()
    };
    let words: Vec<String> = (0..OBJECTS).map(|i| word(if i % 50 == 0 { 200 } else { 12 })).collect();
    let path_of = lines(
        folder.path(),
        words.iter().enumerate().map(|(i, word)| format!("{{\"name\": \"#{i}\", \"object\": \"{word}\"}}")),
    );
    let letters: Vec<Vec<char>> = words.iter().map(|word| word.chars().collect()).collect();
    let objects: Vec<&[char]> = letters.iter().map(Vec::as_slice).collect();
    let elsewhere: Vec<char> = "abbaé日".chars().collect();
    let queries: Vec<(String, &[char])> =
        vec![("#0".into(), &letters[0]), ("abbaé日".into(), &elsewhere), ("#17".into(), &letters[17])];
    for root in [false, true] {
        let given = [("objects", path(&path_of)), ("distance", text("levenshtein"))];
        check_column(&Levenshtein, root, &given, &queries, &objects, folder.path());
    }
}

#[test]
fn sets_by_jaccard() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let mut random = Random::new(3);
    let sets: Vec<Vec<u32>> = (0..OBJECTS)
        .map(|_| {
            let count = random.idx(20);
            let set: std::collections::BTreeSet<u32> = (0..count).map(|_| random.idx(40) as u32).collect();
            set.into_iter().collect()
        })
        .collect();
    let path_of = lines(folder.path(), sets.iter().map(|set| format!("{{\"object\": {set:?}}}")));
    let objects: Vec<&[u32]> = sets.iter().map(Vec::as_slice).collect();
    let queries: Vec<(String, &[u32])> =
        vec![("0".into(), &sets[0]), ("[1, 2, 3, 900]".into(), &[1, 2, 3, 900]), ("[]".into(), &[])];
    for root in [false, true] {
        let given = [("objects", path(&path_of)), ("distance", text("jaccard")), ("holds", text("sets"))];
        check_column(&Jaccard, root, &given, &queries, &objects, folder.path());
    }
}

#[test]
fn signatures_by_hausdorff_emd_and_sqfd() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let store_path = folder.path().join("s.signatures.arrow");
    let mut random = Random::new(4);
    let mut writer =
        StoreWriter::create(&store_path, &["x", "y"], &StoreInfo::default()).expect("a store can be made");
    for id in 0..120 {
        let count = 1 + random.idx(6);
        let mut column = || -> Vec<f32> { (0..count).map(|_| random.idx(12) as f32 / 4.0).collect() };
        let columns = [column(), column()];
        let weights: Vec<f32> = (0..count).map(|_| 1.0 + random.idx(5) as f32).collect();
        let sum: f32 = weights.iter().sum();
        let weights: Vec<f32> = weights.into_iter().map(|weight| weight / sum).collect();
        let columns = [columns[0].as_slice(), columns[1].as_slice()];
        let columns = Columns::new(&columns, &weights);
        writer.push(&format!("n{id}"), columns.signature(0, count), 0, 0).expect("a sound signature");
    }
    writer.finish().expect("the store can be written");
    check_signatures(&store_path);
    // From here on ids and ranks differ.
    let mut change = StoreChange::begin(&store_path).expect("a sound store");
    for id in [0, 4, 6, 7, 8, 61, 100, 118] {
        assert!(change.remove(id).expect("an object that is there"));
    }
    change.write().and_then(|pending| pending.commit()).expect("the change can be written");
    check_signatures(&store_path);
}

/// Searches a store with every distance of signatures and every index, and compares with a sort of all distances.
fn check_signatures(store_path: &Path) {
    let folder = store_path.parent().expect("a folder");
    let store = SignatureStore::open(store_path).expect("a sound store");
    let runtime = Runtime::start(Config::flat(2)).expect("a runtime");
    let sqfd = Measure::new(Similarity::Gaussian, Ground::L2, 0.2).expect("a measure");
    type Of<'a> = &'a dyn Fn(SignatureRef<'_>, SignatureRef<'_>) -> f64;
    let (hausdorff, emd) = (Hausdorff::new(Lp::L1), Emd::new(Lp::L2));
    let distances: [(&str, &str, Of<'_>); 3] = [
        ("hausdorff", "l1", &|a, b| hausdorff.distance(a, b)),
        ("emd", "l2", &|a, b| emd.distance(a, b)),
        ("sqfd", "l2", &|a, b| reference::sqfd(&sqfd, a, b)),
    ];
    for (name, ground, of) in distances {
        let expected = store.read(|objects| {
            let of_query = |query: u64| {
                let query = objects.signature(query)?;
                // Removed objects have no distance.
                let all = (0..store.len()).map(|id| match store.has(id) {
                    true => Ok(of(query, objects.signature(id)?)),
                    false => Ok(f64::NAN),
                });
                let all = all.collect::<Result<Vec<f64>, StoreError>>()?;
                Ok::<_, StoreError>(ranked(all.into_iter(), 9, f64::INFINITY))
            };
            [5, 60, 119].map(of_query).into_iter().collect::<Result<Vec<_>, _>>()
        });
        let expected = expected.expect("a sound store");
        for index in INDEXES {
            let given = [
                ("store", path(store_path)),
                ("distance", text(name)),
                ("ground", text(ground)),
                ("index", text(index)),
                ("k", Value::Integer(9)),
                ("queries", Value::List(["n5", "n60", "n119"].map(text).to_vec())),
            ];
            let found = found(&runtime, shipped::METRIC_SIGNATURES, folder, &given);
            assert_eq!(found, expected, "{name} by {index}");
        }
    }
}

/// The plan's check of a bound for a distance.
fn refusal(given: &[(&str, Value)]) -> String {
    let loaded = shipped::METRIC_SEARCH.load();
    let mut values = loaded.declaration.defaults();
    values.extend(given.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
    values.insert("objects".to_owned(), text("nowhere.jsonl"));
    values.insert("queries".to_owned(), Value::List(vec![text("a")]));
    let (_, diagnostics) = loaded.check(&catalog(), &values);
    let words: Vec<String> =
        diagnostic::render(&diagnostics, false).split_whitespace().map(str::to_owned).collect();
    // Wide text is broken into framed lines.
    words.into_iter().filter(|word| !"│".contains(word.as_str())).collect::<Vec<_>>().join(" ")
}

#[test]
fn a_bound_that_is_unsound_for_the_distance_is_a_fault_of_the_plan() {
    let said = |distance: &str, bound: &str, root: bool| {
        refusal(&[("distance", text(distance)), ("bound", text(bound)), ("root", Value::Boolean(root))])
    };
    let refused = said("levenshtein", "ptolemaic", false);
    assert!(refused.contains("Ptolemy's inequality") && refused.contains("use triangular"), "{refused}");
    let refused = said("l1", "simplex", false);
    assert!(refused.contains("no Hilbert distance") && refused.contains("use triangular"), "{refused}");
    let refused = said("levenshtein", "simplex", true);
    assert!(refused.contains("no Hilbert distance") && refused.contains("use combined"), "{refused}");
    for (distance, bound, root) in [
        ("levenshtein", "triangular", false),
        ("levenshtein", "ptolemaic", true),
        ("l1", "simplex", true),
        ("jaccard", "simplex", true),
        ("l2", "simplex", false),
        ("linf", "auto", false),
    ] {
        let refused = said(distance, bound, root);
        assert!(refused.is_empty(), "{distance} {bound}: {refused}");
    }
    let refused = refusal(&[("distance", text("lp"))]);
    assert!(refused.contains("needs its exponent"), "{refused}");
    let refused = refusal(&[("distance", text("l2")), ("p", Value::Number(3.0))]);
    assert!(refused.contains("remove it"), "{refused}");
}
