//! How long does opening a store of a million signatures take, and how much memory does a search of it need?
//!
//! Units: milliseconds, and MB of anonymous memory (`RssAnon`: memory without a file behind it, which the system cannot
//! drop). Baseline: reading the file into memory, as a program without a map does, timed and counted in the same run.
//! The bars are 50 ms and 100 MB for a file of 2 to 3 GB.
//!
//! Another process writes the file, so that no memory of the writer counts. Opening is timed five times, with as much
//! of the file in the page cache as fits. The search is the shipped `pipelines/search.yaml` with one query, format
//! JSON; its memory is the maximum of the whole process, including its threads' stacks and the objects' own
//! similarities.
//!
//! `cargo bench --bench store -- objects=1000000 workers=2 folder=FOLDER`; by default, it makes a folder in the
//! system's temporary folder, and removes it at the end.

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use boxwork::shipped;
use boxwork_operators::catalog;
use boxwork_runtime::parameter::Value;
use boxwork_runtime::prepare::Prepared;
use boxwork_runtime::request::Submission;
use boxwork_runtime::{Config, Runtime};
use boxwork_stores::signature_store::SignatureStore;
use support::memory::{anonymous_bytes, anonymous_bytes_max, megabytes};
use support::{Arguments, Spread, print_machine, store, verdict};

const OPEN_MS_WANTED: f64 = 50.0;
const MEGABYTES_WANTED: f64 = 100.0;
const K: usize = 10;

fn main() {
    let arguments = Arguments::read(&["objects", "workers", "folder", "only_write"]);
    let objects = arguments.get("objects", 1_000_000);
    if let Some(path) = arguments.text("only_write") {
        store::write_store(Path::new(path), objects);
        return;
    }
    let workers = arguments.get("workers", 2);
    println!("question    how long does opening a store take, and how much memory does a search of it need?");
    println!("unit        ms, and MB of anonymous memory; {objects} signatures, {workers} workers");
    print_machine();

    let parent = arguments.text("folder").map_or_else(std::env::temp_dir, Into::into);
    let folder = tempfile::tempdir_in(parent).expect("the folder can be written to");
    let path = folder.path().join("objects.signatures.arrow");
    let bytes = write(&path, objects);
    println!();
    measure_open(&path, objects, bytes);
    measure_search(&path, workers);
    measure_reading(&path);
}

/// Writes the store in another process.
fn write(path: &Path, objects: usize) -> u64 {
    let start = Instant::now();
    let program = std::env::current_exe().expect("the program knows its file");
    let status = Command::new(program)
        .arg(format!("only_write={}", path.display()))
        .arg(format!("objects={objects}"))
        .status()
        .expect("the program can be started again");
    assert!(status.success(), "the store could not be written");
    let bytes = fs::metadata(path).expect("it was just written").len();
    let seconds = start.elapsed().as_secs_f64();
    let gigabytes = bytes as f64 / 1e9;
    println!(
        "store       {gigabytes:.2} GB, made and written in {seconds:.0} s ({:.0} signatures/s)",
        objects as f64 / seconds
    );
    bytes
}

fn measure_open(path: &Path, objects: usize, bytes: u64) {
    const TIMES: usize = 5;
    let before = anonymous_bytes();
    let mut opened = None;
    let times = (0..TIMES).map(|_| {
        drop(opened.take());
        let start = Instant::now();
        opened = Some(SignatureStore::open(path).unwrap_or_else(|error| panic!("{error}")));
        start.elapsed().as_secs_f64() * 1e3
    });
    let spread = Spread::of(times);
    let opened = opened.expect("it was opened");
    assert_eq!(opened.len(), objects as u64);
    assert!(opened.name(opened.len() - 1).is_ok_and(|name| name == store::name(objects - 1)));
    println!(
        "open        {spread:.3} ms, {:.2} MB of memory; {bytes} bytes in {} batches",
        megabytes(anonymous_bytes().saturating_sub(before)),
        opened.batches()
    );
    verdict("ms to open", spread.median, OPEN_MS_WANTED, spread.median < OPEN_MS_WANTED);
}

fn measure_search(path: &Path, workers: usize) {
    let out = path.with_file_name("results.json");
    // The second search finds the own similarities beside the store.
    for what in ["first", "second"] {
        let start = Instant::now();
        let (seconds, most) = anonymous_bytes_max(|| search(path, &out, workers));
        println!(
            "{what:12}search of the store: {:.1} s in all, {seconds:.1} s of it the request; {:.1} MB at the highest",
            start.elapsed().as_secs_f64(),
            megabytes(most)
        );
        let megabytes = megabytes(most);
        verdict(&format!("MB, {what} search"), megabytes, MEGABYTES_WANTED, megabytes < MEGABYTES_WANTED);
    }
    let objects = SignatureStore::open(path).unwrap_or_else(|error| panic!("{error}")).len() as usize;
    println!(
        "limit       {:.1} MB: own similarities of 8 bytes per object, offsets of 8, and names by their hashes of 16",
        megabytes(32 * objects)
    );
}

/// One query, checked; returns the seconds of the request.
fn search(path: &Path, out: &Path, workers: usize) -> f64 {
    const QUERY: usize = 123;
    let text = |path: &Path| Value::Text(path.to_str().expect("a path in UTF-8").to_owned());
    let values = BTreeMap::from([
        ("store".to_owned(), text(path)),
        ("out".to_owned(), text(out)),
        ("queries".to_owned(), Value::List(vec![Value::Text(store::name(QUERY))])),
        ("k".to_owned(), Value::Integer(K as i64)),
        ("format".to_owned(), Value::Text("json".to_owned())),
    ]);
    let runtime = Runtime::start(Config::flat(workers)).expect("the system gives threads");
    let prepared =
        Prepared::new(&shipped::SEARCH.load().declaration, &catalog(), &values, &runtime.environment());
    let prepared = Arc::new(prepared.unwrap_or_else(|error| panic!("{error}")));
    let request = runtime.submit(&prepared, &Submission::default()).unwrap_or_else(|error| panic!("{error}"));
    let outcome = request.wait();
    outcome.result.unwrap_or_else(|error| panic!("{error}"));

    let text = fs::read_to_string(out).expect("the search has written it");
    let json: serde_json::Value = serde_json::from_str(&text).expect("the search writes JSON");
    let found = &json["queries"][0]["results"];
    assert_eq!(found.as_array().map(Vec::len), Some(K));
    assert_eq!(
        found[0]["name"].as_str(),
        Some(store::name(QUERY).as_str()),
        "an object is nearest to itself"
    );
    assert_eq!(found[0]["distance"].as_f64(), Some(0.0));
    outcome.duration.as_secs_f64()
}

/// The baseline: the whole file in memory. Parts of it are enough to measure the rate, and spare a small machine.
fn measure_reading(path: &Path) {
    const BYTES_MAX: u64 = 1 << 30;
    let path: PathBuf = path.to_owned();
    let mut bytes = Vec::new();
    let start = Instant::now();
    let file = fs::File::open(&path).expect("the store is there");
    let whole = file.metadata().expect("the store is there").len();
    let ((), most) = anonymous_bytes_max(|| {
        file.take(BYTES_MAX).read_to_end(&mut bytes).expect("the store can be read");
    });
    let share = whole as f64 / bytes.len() as f64;
    println!(
        "baseline    reading the file into memory: {:.0} ms, {:.0} MB (from the first {:.2} GB)",
        start.elapsed().as_secs_f64() * 1e3 * share,
        megabytes(most) * share,
        bytes.len() as f64 / 1e9
    );
}
