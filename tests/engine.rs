//! Boxwork as a library: several runtimes in one process, each with its own slots; envelopes of the caller.

#[path = "support/numbered.rs"]
mod numbered;
#[path = "support/values.rs"]
mod values;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::sync_channel;

use arrow_array::{
    ArrayRef, Float64Array, RecordBatch, RecordBatchIterator, StringArray, UInt32Array, UInt64Array,
};
use arrow_schema::ArrowError;
use boxwork::pipeline;
use boxwork::shipped::{self, Shipped};
use boxwork_operators::catalog;
use boxwork_runtime::operator::{BoxError, Pushed, RequestInput, RequestOutput};
use boxwork_runtime::parameter::Value;
use boxwork_runtime::prepare::Prepared;
use boxwork_runtime::request::{Outcome, Submission};
use boxwork_runtime::{Config, Runtime};
use boxwork_stores::signature::SignatureBuilder;
use numbered::write_objects;
use values::path_value;

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

/// A store of this many objects, one centroid each.
fn store(runtime: &Runtime, folder: &Path, objects: usize) -> Value {
    let (lines, store) = (folder.join("objects.jsonl"), folder.join("objects.arrow"));
    write_objects(&lines, objects);
    run(runtime, shipped::IMPORT, &[("path", path_value(&lines)), ("out", path_value(&store))]);
    path_value(&store)
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
                ("out", path_value(&out)),
            ],
        );
        let edge = outcome.edges.iter().find(|edge| edge.from == "scan.candidates").expect("the edge");
        (edge.state.envelopes_total, fs::read_to_string(out).expect("the search has written it"))
    });
    assert!(eight > one, "{one} envelopes for one slot, {eight} for eight");
    assert_eq!(first, second, "the answer does not depend on the cut");
}

/// A search whose queries come from its caller, and whose results return to the caller.
const SEARCH: &str = r#"
boxwork: 1
parameters:
  store: {type: path}
resources:
  objects: {kind: store, path: "${store}"}
  space:   {kind: space, store: objects}
boxes:
  query:    {kind: read_arrow, columns: queries}
  scan:     {kind: scan, store: objects, device: cpu}
  distance: {kind: distance, space: space, device: cpu}
  top:      {kind: top_k, k: 3, space: space}
  results:  {kind: write_arrow, columns: distances}
edges:
  - query -> scan.queries -> distance.candidates -> top.distances -> results
  - query -> distance.query
  - query -> top.query
"#;

/// Batches pass from the caller through the request and back.
const THROUGH: &str = "boxwork: 1\nboxes:\n  in: {kind: read_arrow, columns: distances}\n  \
                       out: {kind: write_arrow, columns: distances}\nedges:\n  - in -> out\n";

fn prepare(runtime: &Runtime, pipeline: &str, values: &[(&str, Value)]) -> Arc<Prepared> {
    let loaded = pipeline::load_text("test", pipeline).unwrap_or_else(|flaws| panic!("{flaws:?}"));
    let values = values.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    let prepared = Prepared::new(&loaded.declaration, &catalog(), &values, &runtime.environment());
    Arc::new(prepared.unwrap_or_else(|error| panic!("{error}")))
}

/// A submission with an input and an output for these boxes.
fn with_envelopes(input: (&str, RequestInput), output: (&str, RequestOutput)) -> Submission {
    Submission {
        inputs: BTreeMap::from([(input.0.to_owned(), input.1)]),
        outputs: BTreeMap::from([(output.0.to_owned(), output.1)]),
        ..Submission::default()
    }
}

/// Rows of one query at these distances.
fn distances(of: impl IntoIterator<Item = f64>) -> RecordBatch {
    let of: Vec<f64> = of.into_iter().collect();
    RecordBatch::try_from_iter([
        ("query", Arc::new(UInt32Array::from(vec![0; of.len()])) as ArrayRef),
        ("id", Arc::new(UInt64Array::from_iter_values(0..of.len() as u64))),
        ("distance", Arc::new(Float64Array::from(of))),
    ])
    .expect("columns of one length")
}

#[test]
fn a_caller_searches_with_envelopes_and_gets_envelopes_back() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let runtime = Runtime::start(Config::flat(2)).expect("the system gives threads");
    let store = store(&runtime, folder.path(), 100);
    let prepared = prepare(&runtime, SEARCH, &[("store", store)]);
    let mut signatures = SignatureBuilder::new(&["c0", "c1"]).expect("two coordinates");
    signatures.push(&[&[42.0], &[0.5]], &[1.0]).expect("a signature");
    let queries = RecordBatch::try_from_iter([
        ("query", Arc::new(UInt32Array::from(vec![0])) as ArrayRef),
        ("name", Arc::new(StringArray::from(vec!["mine"]))),
        ("object", Arc::new(signatures.finish())),
    ])
    .expect("columns of one length");
    // One model serves many requests, each with its own caller.
    for _ in 0..3 {
        let (output, found) = RequestOutput::collected();
        let input = RequestInput::batches(vec![queries.clone()]);
        let request = runtime.submit(&prepared, &with_envelopes(("query", input), ("results", output)));
        request.expect("both boxes take what they are given").wait().result.expect("a search");
        let ids: Vec<u64> = found.take().iter().flat_map(|batch| ids_of(batch).to_vec()).collect();
        assert_eq!(ids, [42, 41, 43]);
    }
}

fn ids_of(batch: &RecordBatch) -> &[u64] {
    let ids = batch.column_by_name("id").and_then(|column| column.as_any().downcast_ref::<UInt64Array>());
    ids.expect("a column of ids").values()
}

#[test]
fn a_slow_writer_holds_its_reader_back() {
    const BATCHES: usize = 2000;
    let runtime = Runtime::start(Config::flat(2)).expect("the system gives threads");
    let prepared = prepare(&runtime, THROUGH, &[]);
    let read = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&read);
    let batch = distances([1.0, 2.0]);
    let batches = vec![batch.clone(); BATCHES].into_iter().map(move |batch| {
        counted.fetch_add(1, Ordering::SeqCst);
        Ok(batch)
    });
    let input = RequestInput::reader(RecordBatchIterator::new(batches, batch.schema()));
    let (ahead_max, written) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (ahead, count) = (Arc::clone(&ahead_max), Arc::clone(&written));
    let output = RequestOutput::writer(move |batch: RecordBatch| {
        std::thread::yield_now();
        let written = count.fetch_add(1, Ordering::SeqCst);
        ahead.fetch_max(read.load(Ordering::SeqCst) - written, Ordering::SeqCst);
        assert_eq!(batch.num_rows(), 2);
        Ok(Pushed::Sent)
    });
    let request = runtime.submit(&prepared, &with_envelopes(("in", input), ("out", output)));
    request.expect("both boxes take what they are given").wait().result.expect("all pass through");
    assert_eq!(written.load(Ordering::SeqCst), BATCHES);
    // Those on the edge, one in each box, and one that did not fit.
    let most = prepared.plan().edge_envelopes(0, 2) + 3;
    let ahead = ahead_max.load(Ordering::SeqCst);
    assert!(ahead <= most, "the reader was {ahead} batches ahead, of {most}");
}

#[test]
fn batches_pass_through_channels_while_no_slot_waits_for_them() {
    // One slot, and three requests that all wait for their callers.
    let runtime = Runtime::start(Config::flat(1)).expect("the system gives threads");
    let prepared = prepare(&runtime, THROUGH, &[]);
    let schema = distances([]).schema();
    let mut under_way = Vec::new();
    for _ in 0..3 {
        let (to, from_caller) = sync_channel::<RecordBatch>(1);
        let (to_caller, from) = sync_channel::<RecordBatch>(1);
        let reader = RecordBatchIterator::new(from_caller.into_iter().map(Ok), Arc::clone(&schema));
        let output = RequestOutput::writer(move |batch| match to_caller.send(batch) {
            Ok(()) => Ok(Pushed::Sent),
            Err(_) => Ok(Pushed::Closed),
        });
        let submission = with_envelopes(("in", RequestInput::reader(reader)), ("out", output));
        under_way.push((runtime.submit(&prepared, &submission).expect("a request"), to, from));
    }
    for round in 0..50 {
        // The youngest first: an older request that held the slot would block it forever.
        for (_, to, from) in under_way.iter().rev() {
            to.send(distances([f64::from(round)])).expect("the request reads");
            let limit = std::time::Duration::from_secs(60);
            let batch = from.recv_timeout(limit).expect("the request writes");
            assert_eq!(batch, distances([f64::from(round)]));
        }
    }
    for (request, to, from) in under_way {
        drop(to);
        request.wait().result.expect("the caller has ended its input");
        assert!(from.recv().is_err(), "the output ends with the request");
    }
}

#[test]
fn a_writer_that_wants_no_more_ends_its_request_and_errors_name_their_box() {
    let runtime = Runtime::start(Config::flat(1)).expect("the system gives threads");
    let prepared = prepare(&runtime, THROUGH, &[]);
    let run = |input: RequestInput, output: RequestOutput| {
        let request = runtime.submit(&prepared, &with_envelopes(("in", input), ("out", output)));
        request
            .map_err(|error| error.to_string())
            .and_then(|request| request.wait().result.map_err(|error| error.to_string()))
    };
    let endless = || {
        let batches = std::iter::repeat_with(|| Ok(distances([1.0])));
        RequestInput::reader(RecordBatchIterator::new(batches, distances([]).schema()))
    };
    let first = RequestOutput::writer(|_| Ok(Pushed::Closed));
    assert_eq!(run(endless(), first.clone()), Ok(()));
    let error = run(endless(), first).expect_err("its writer was used");
    assert_eq!(error, "box `out`: the output of `out` was given to another box or request already");
    let error = run(endless(), RequestOutput::writer(|_| Err(BoxError::new("the caller has no room"))));
    assert_eq!(error, Err("box `out`: the caller has no room".to_owned()));
    let broken = [Ok(distances([1.0])), Err(ArrowError::ComputeError("the caller's fault".to_owned()))];
    let broken = RequestInput::reader(RecordBatchIterator::new(broken, distances([]).schema()));
    let error = run(broken, RequestOutput::collected().0).expect_err("its reader fails");
    assert!(error.starts_with("box `in`: ") && error.contains("the caller's fault"), "{error}");
    let other = RecordBatch::try_from_iter([("x", Arc::new(UInt64Array::from(vec![1])) as ArrayRef)]);
    let other = RequestInput::batches(vec![other.expect("a batch")]);
    let error = run(other, RequestOutput::collected().0).expect_err("other columns");
    assert_eq!(error, "box `in`: the batches have no column `query`; they have x");
}

#[test]
fn envelopes_for_a_box_that_takes_none_are_refused() {
    let runtime = Runtime::start(Config::flat(1)).expect("the system gives threads");
    let prepared = prepare(&runtime, THROUGH, &[]);
    let refused = |input: &str, output: &str| {
        let input = (input, RequestInput::batches(Vec::new()));
        let submission = with_envelopes(input, (output, RequestOutput::collected().0));
        runtime.submit(&prepared, &submission).err().expect("a fault of the caller").to_string()
    };
    assert!(refused("in", "in").contains("box `out`: has no `out`, and the request gives it no output"));
    let mut both =
        with_envelopes(("in", RequestInput::batches(Vec::new())), ("out", RequestOutput::collected().0));
    both.inputs.insert("out".to_owned(), RequestInput::batches(Vec::new()));
    let error = runtime.submit(&prepared, &both).err().expect("no reader").to_string();
    assert_eq!(
        error,
        "box `out`: the request gives it an input, and a box of the kind `write_arrow` takes none"
    );
    let mut both =
        with_envelopes(("in", RequestInput::batches(Vec::new())), ("out", RequestOutput::collected().0));
    both.outputs.insert("nobody".to_owned(), RequestOutput::collected().0);
    let error = runtime.submit(&prepared, &both).err().expect("no such box").to_string();
    assert_eq!(error, "box `nobody`: the request gives it an output, and the pipeline has no such box");
}
