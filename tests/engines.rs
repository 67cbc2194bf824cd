//! Several engines in one process: each with its own settings, and independent of the others.

#[path = "support/numbered.rs"]
mod numbered;
#[path = "support/values.rs"]
mod values;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{UInt32Type, UInt64Type};
use boxwork::engine::{Ended, Engine, Exchange, Failure, Limits, Preparation};
use boxwork::shipped::{self, Shipped};
use boxwork_operators::{Asked, catalog, open_store, query_objects};
use boxwork_runtime::operator::{Cancellation, Memory, RequestInput, Resource};
use boxwork_runtime::parameter::Value;
use boxwork_runtime::prepare::PrepareError;
use boxwork_stores::store::SharedStore;
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

/// Runs a search by a program: with an open store, and with rows for the caller.
fn searched(
    engine: &Engine,
    values: &BTreeMap<String, Value>,
    resources: &BTreeMap<String, Resource>,
    exchange: &Exchange,
) -> Result<Ended, PrepareError> {
    let preparation = Preparation { resources: resources.clone(), ..Preparation::default() };
    let prepared = engine.prepare_with(&shipped::SEARCH.load(), &catalog(), values, preparation)?;
    let more = BTreeMap::from([("k".to_owned(), Value::Integer(3))]);
    Ok(engine.run_with(&prepared, &more, Limits::default(), exchange, &mut |_| {}))
}

#[test]
fn a_caller_gives_the_store_and_the_queries_and_takes_the_rows_of_any_sink() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let engine = Engine::builder().workers(2).start().expect("threads");
    let path = store(&engine, folder.path(), 100);
    let Value::Text(file) = &path else { unreachable!("a path is text") };
    let opened = open_store(Path::new(file), None, "name", None, engine.access(), None);
    let opened = opened.unwrap_or_else(|error| panic!("{error}"));
    // With the store given, its file is not opened: a path that leads nowhere does no harm.
    let resources =
        || BTreeMap::from([("objects".to_owned(), Arc::new(SharedStore(opened.clone())) as Resource)]);
    let mut values = named(&search(&Value::Text("nowhere".to_owned()), Path::new("-"), 0..70));
    let taken = || Exchange { outputs: vec!["results".to_owned()], ..Exchange::default() };
    let mut by_format = Vec::new();
    for format in ["json", "csv", "table", "html"] {
        values.insert("format".to_owned(), Value::Text(format.to_owned()));
        let ended =
            searched(&engine, &values, &resources(), &taken()).unwrap_or_else(|error| panic!("{error}"));
        assert!(ended.failure.is_none(), "{:?}", ended.failure);
        by_format.push(ended.outputs["results"].clone());
    }
    assert!(by_format.iter().all(|rows| *rows == by_format[0]));
    // Two requests, and the second counts on.
    let [first, second] = &by_format[0][..] else { panic!("{} batches", by_format[0].len()) };
    assert_eq!((first.num_rows(), second.num_rows()), (3 * 64, 3 * 6));
    assert_eq!(second["query"].as_primitive::<UInt32Type>().values()[..4], [64, 64, 64, 65]);
    assert_eq!(second["id"].as_primitive::<UInt64Type>().values()[0], 64);

    // The queries with their objects, of which one is an object by id.
    let asked = vec![Asked::Id(69), Asked::Text("o3".to_owned())];
    let queries = query_objects(&opened, asked, &|| false).unwrap_or_else(|error| panic!("{error}"));
    values.insert("queries".to_owned(), Value::List(Vec::new()));
    let inputs = BTreeMap::from([("query".to_owned(), RequestInput::batches(vec![queries]))]);
    let exchange = Exchange { inputs, ..taken() };
    let ended = searched(&engine, &values, &resources(), &exchange).unwrap_or_else(|error| panic!("{error}"));
    let rows = &ended.outputs["results"][0];
    assert_eq!(rows["id"].as_primitive::<UInt64Type>().values()[0], 69);
    assert_eq!(rows.slice(0, 3)["distance"].as_ref(), by_format[0][1].slice(15, 3)["distance"].as_ref());

    // One run is cancelled; the engine and its next run are not.
    let mut exchange = Exchange { cancellation: Cancellation::new(), ..taken() };
    exchange.cancellation.cancel();
    values.insert("queries".to_owned(), Value::List(vec![Value::Text("o1".to_owned())]));
    let ended = searched(&engine, &values, &resources(), &exchange).unwrap_or_else(|error| panic!("{error}"));
    assert!(matches!(ended.failure, Some(Failure::Cancelled)), "{:?}", ended.failure);
    exchange.cancellation = Cancellation::never();
    assert!(searched(&engine, &values, &resources(), &exchange).is_ok_and(|ended| ended.failure.is_none()));
    let unknown = BTreeMap::from([("thing".to_owned(), Arc::new(()) as Resource)]);
    let refused = searched(&engine, &values, &unknown, &exchange).map(drop).expect_err("no such resource");
    assert!(refused.to_string().contains("`thing`") && refused.to_string().contains("no such resource"));
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
