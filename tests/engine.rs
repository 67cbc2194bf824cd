//! Boxwork as a library: several runtimes in one process, each with its own slots.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use boxwork::shipped::{self, Shipped};
use boxwork_operators::catalog;
use boxwork_runtime::parameter::Value;
use boxwork_runtime::prepare::Prepared;
use boxwork_runtime::request::{Outcome, Submission};
use boxwork_runtime::{Config, Runtime};

fn text(path: &Path) -> Value {
    Value::Text(path.to_str().expect("a path in UTF-8").to_owned())
}

/// Runs a shipped pipeline.
fn run(runtime: &Runtime, pipeline: Shipped, values: &[(&str, Value)]) -> Outcome {
    let values: BTreeMap<String, Value> =
        values.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    let declaration = pipeline.load().declaration;
    let prepared = Prepared::new(&declaration, &catalog(), &values, &runtime.environment());
    let prepared = Arc::new(prepared.unwrap_or_else(|error| panic!("{error}")));
    let outcome = runtime.submit(&prepared, &Submission::default()).expect("the values fit").wait();
    outcome.result.clone().unwrap_or_else(|error| panic!("{error}"));
    outcome
}

/// A store of so many objects, one centroid each.
fn store(runtime: &Runtime, folder: &Path, objects: usize) -> Value {
    let (lines, store) = (folder.join("objects.jsonl"), folder.join("objects.arrow"));
    let text_of = (0..objects).fold(String::new(), |mut text, n| {
        let _ = writeln!(text, r#"{{"name": "o{n}", "centroids": [[{n}, 0.5]], "weights": [1]}}"#);
        text
    });
    fs::write(&lines, text_of).expect("the folder can be written to");
    run(runtime, shipped::IMPORT, &[("path", text(&lines)), ("out", text(&store))]);
    text(&store)
}

#[test]
fn a_scan_is_cut_by_the_slots_of_its_runtime_and_not_by_the_cores_of_the_machine() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let runtimes = [1, 8].map(|slots| Runtime::start(Config::flat(slots)).expect("the system gives threads"));
    let store = store(&runtimes[0], folder.path(), 3000);
    let [(one, first), (eight, second)] = runtimes.each_ref().map(|runtime| {
        let out = folder.path().join("found.json");
        let outcome = run(
            runtime,
            shipped::SEARCH,
            &[
                ("store", store.clone()),
                ("queries", Value::List(vec![Value::Text("o7".to_owned())])),
                ("format", Value::Text("json".to_owned())),
                ("device", Value::Text("cpu".to_owned())),
                ("out", text(&out)),
            ],
        );
        let edge = outcome.edges.iter().find(|edge| edge.from == "scan.candidates").expect("the edge");
        (edge.state.envelopes_total, fs::read_to_string(out).expect("the search has written it"))
    });
    assert!(eight > one, "{one} envelopes for one slot, {eight} for eight");
    assert_eq!(first, second, "the answer does not depend on the cut");
}
