//! Arrow record batches in, Arrow record batches out: a store and a search without a file of the caller's own.
//!
//! Makes 1,000 signatures of one centroid each, writes them to a store, and asks for the three nearest of two queries.
//! The search calls back when it has ended, so that no thread waits for it.
//!
//! `cargo run --example envelopes`

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::{Arc, mpsc};

use arrow_array::{ArrayRef, RecordBatch, StringArray, UInt32Array};
use boxwork::pipeline;
use boxwork_operators::catalog;
use boxwork_runtime::operator::{RequestInput, RequestOutput};
use boxwork_runtime::parameter::Value;
use boxwork_runtime::prepare::Prepared;
use boxwork_runtime::request::Submission;
use boxwork_runtime::{Config, Request, Runtime};
use boxwork_stores::signature::SignatureBuilder;

const IMPORT: &str = r#"
boxwork: 1
parameters:
  store: {type: path}
boxes:
  objects: {kind: read_arrow, columns: signatures}
  write:   {kind: write_store, out: "${store}"}
edges:
  - objects -> write
"#;

const SEARCH: &str = r#"
boxwork: 1
parameters:
  store: {type: path}
resources:
  objects: {kind: store, path: "${store}"}
  space:   {kind: space, store: objects}
boxes:
  query:    {kind: read_arrow, columns: queries}
  scan:     {kind: scan, store: objects}
  distance: {kind: distance, space: space, copies: auto}
  top:      {kind: top_k, k: 3, space: space}
  results:  {kind: write_arrow, columns: distances}
edges:
  - query -> scan.queries -> distance.candidates -> top.distances -> results
  - scan.ranges -> distance.ranges
  - query -> distance.query
  - query -> top.query
"#;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let store = folder.path().join("objects.arrow").to_string_lossy().into_owned();
    let runtime = Runtime::start(Config::flat(2))?;

    let objects: Vec<f32> = (0..1000_u16).map(f32::from).collect();
    let sizes: ArrayRef = Arc::new(UInt32Array::from(vec![0; objects.len()]));
    let objects = RecordBatch::try_from_iter([
        ("name", Arc::new(StringArray::from_iter_values(objects.iter().map(f32::to_string))) as ArrayRef),
        ("signature", signatures(&objects)?),
        ("width", Arc::clone(&sizes)),
        ("height", sizes),
    ])?;
    let inputs = BTreeMap::from([("objects".to_owned(), RequestInput::batches(vec![objects]))]);
    submit(&runtime, IMPORT, &store, Submission { inputs, ..Submission::default() })?.wait().result?;

    let queries = RecordBatch::try_from_iter([
        ("query", Arc::new(UInt32Array::from(vec![0, 1])) as ArrayRef),
        ("name", Arc::new(StringArray::from(vec!["first", "second"]))),
        ("object", signatures(&[41.7, 900.2])?),
    ])?;
    let (output, results) = RequestOutput::collected();
    let submission = Submission {
        inputs: BTreeMap::from([("query".to_owned(), RequestInput::batches(vec![queries]))]),
        outputs: BTreeMap::from([("results".to_owned(), output)]),
        ..Submission::default()
    };
    let (sender, ended) = mpsc::channel();
    submit(&runtime, SEARCH, &store, submission)?.on_end(move |outcome| {
        // The receiver waits for this very message.
        let _ = sender.send(outcome.result);
    });
    ended.recv()??;
    for batch in results.take() {
        println!("{batch:?}");
    }
    Ok(())
}

/// Signatures of one centroid each.
fn signatures(places: &[f32]) -> Result<ArrayRef, Box<dyn Error>> {
    let mut signatures = SignatureBuilder::new(&["x"])?;
    for place in places {
        signatures.push(&[&[*place]], &[1.0])?;
    }
    Ok(Arc::new(signatures.finish()))
}

/// Prepares a pipeline over a store and submits one request of it.
fn submit(
    runtime: &Runtime,
    pipeline: &str,
    store: &str,
    submission: Submission,
) -> Result<Request, Box<dyn Error>> {
    let loaded = pipeline::load_text("example", pipeline).map_err(|flaws| format!("{flaws:?}"))?;
    let values = BTreeMap::from([("store".to_owned(), Value::Text(store.to_owned()))]);
    let prepared = Prepared::new(&loaded.declaration, &catalog(), &values, &runtime.environment())?;
    Ok(runtime.submit(&Arc::new(prepared), &submission)?)
}
