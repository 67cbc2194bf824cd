//! Several engines in one process: each with its own settings, and independent of the others.

#[path = "support/numbered.rs"]
mod numbered;
#[path = "support/values.rs"]
mod values;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use boxwork::engine::{Ended, Engine, Failure, Limits};
use boxwork::shipped::{self, Shipped};
use boxwork_operators::catalog;
use boxwork_runtime::operator::Memory;
use boxwork_runtime::parameter::Value;
use boxwork_runtime::prepare::PrepareError;
use numbered::write_objects;
use values::path_value;

fn named(values: &[(&str, Value)]) -> BTreeMap<String, Value> {
    values.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
}

/// Runs a shipped pipeline.
fn run(engine: &Engine, pipeline: Shipped, values: &[(&str, Value)]) -> Ended {
    let prepared = engine.prepare(&pipeline.load(), &catalog(), &named(values), None);
    let prepared = prepared.unwrap_or_else(|error| panic!("{error}"));
    let ended = engine.run(&prepared, Limits::default(), &mut |_| {});
    assert!(ended.failure.is_none(), "{:?}", ended.failure);
    ended
}

/// A store of this many objects, one centroid each.
fn store(engine: &Engine, folder: &Path, objects: usize) -> Value {
    let (lines, store) = (folder.join("objects.jsonl"), folder.join("objects.arrow"));
    write_objects(&lines, objects);
    run(engine, shipped::IMPORT, &[("path", path_value(&lines)), ("out", path_value(&store))]);
    path_value(&store)
}

/// The values of a search of a store for these objects.
fn search(store: &Value, out: &Path, objects: impl Iterator<Item = usize>) -> Vec<(&'static str, Value)> {
    let queries = objects.map(|object| Value::Text(format!("o{object}"))).collect();
    vec![
        ("store", store.clone()),
        ("queries", Value::List(queries)),
        ("format", Value::Text("json".to_owned())),
        ("device", Value::Text("cpu".to_owned())),
        ("out", path_value(out)),
    ]
}

#[test]
fn two_engines_run_at_once_with_settings_of_their_own() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    // One engine reads the store, the other maps it.
    let engine = |workers| Engine::builder().workers(workers).maps(workers == 8).start();
    let [one, eight] = [1, 8].map(|workers| engine(workers).expect("threads"));
    let store = store(&one, folder.path(), 3000);
    let outs = ["one.json", "eight.json"].map(|name| folder.path().join(name));
    // More queries than one request takes: both engines have several requests under way.
    let ended = std::thread::scope(|scope| {
        let runs = [(&one, &outs[0]), (&eight, &outs[1])].map(|(engine, out)| {
            let values = search(&store, out, 0..150);
            scope.spawn(move || run(engine, shipped::SEARCH, &values))
        });
        runs.map(|run| run.join().expect("no panic"))
    });
    let envelopes = ended.map(|ended| {
        assert_eq!(ended.outcomes.len(), 3, "64 queries per request");
        let edge = ended.outcomes[0].edges.iter().find(|edge| edge.from == "scan.candidates");
        edge.expect("the edge").state.envelopes_total
    });
    assert!(envelopes[1] > envelopes[0], "{envelopes:?}: work is cut by the slots of its engine");
    let [first, second] = outs.map(|out| fs::read_to_string(out).expect("the search has written it"));
    assert_eq!(first, second, "the answer does not depend on the engine");
    assert_eq!([&one, &eight].map(|engine| engine.runtime().statistics().slots.len()), [1, 8]);
}

#[test]
fn an_engine_that_is_cancelled_stops_no_other() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let [first, second] = [(); 2].map(|()| Engine::builder().workers(1).start().expect("threads"));
    let store = store(&first, folder.path(), 20);
    let values = search(&store, &folder.path().join("found.json"), 3..4);
    let prepared = first.prepare(&shipped::SEARCH.load(), &catalog(), &named(&values), None);
    let prepared = prepared.unwrap_or_else(|error| panic!("{error}"));
    first.cancel();
    let ended = first.run(&prepared, Limits::default(), &mut |_| {});
    assert!(matches!(ended.failure, Some(Failure::Cancelled)), "{:?}", ended.failure);
    let refused = first.prepare(&shipped::SEARCH.load(), &catalog(), &named(&values), None);
    assert!(matches!(refused, Err(PrepareError::Cancelled)));
    assert_eq!([&first, &second].map(Engine::is_cancelled), [true, false]);
    assert_eq!(run(&second, shipped::SEARCH, &values).outcomes.len(), 1);
}

#[test]
fn an_engine_remembers_for_itself_unless_it_is_given_the_memory_of_another() {
    let shared = Memory::default();
    let engines = [Some(&shared), Some(&shared), None].map(|memory| {
        let builder = Engine::builder().workers(1);
        let builder = memory.into_iter().fold(builder, |builder, memory| builder.memory(memory.clone()));
        builder.start().expect("threads")
    });
    let remembered =
        engines.each_ref().map(|engine| engine.runtime().environment().memory.get::<std::sync::Mutex<u32>>());
    *remembered[0].lock().expect("no panic") = 7;
    assert_eq!(remembered.map(|value| *value.lock().expect("no panic")), [7, 7, 0]);
}
