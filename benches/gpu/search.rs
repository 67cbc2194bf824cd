//! `what=search`: the share of its kernels' rate that a whole search on a device reaches.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use boxwork::shipped;
use boxwork_operators::catalog;
use boxwork_runtime::feeding::{DeviceClass, Devices};
use boxwork_runtime::parameter::Value;
use boxwork_runtime::prepare::Prepared;
use boxwork_runtime::request::Submission;
use boxwork_runtime::statistics::{TraceEvent, TraceKind};
use boxwork_runtime::{Config, Runtime};

use super::config;
use super::support::store::{name, search_values, sqfd_space, write_store};
use super::support::{Arguments, Spread};

pub(super) fn run(arguments: &Arguments, devices: &Arc<Devices>, device: usize) {
    let is_gpu = devices.list()[device].info().class == DeviceClass::Gpu;
    let objects = arguments.get("objects", if is_gpu { 1_000_000 } else { 3_000 });
    let (k, rounds) = (arguments.get("k", 100usize), arguments.get("rounds", 21));
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    let workers = arguments.get("workers", cores);
    println!("question    what share of its kernels' rate does a whole search on a device reach?");
    println!(
        "unit        distances/s; {objects} signatures of 50 to 100 centroids, k = {k}, {workers} workers"
    );
    let parent = arguments.text("folder").map_or_else(std::env::temp_dir, Into::into);
    let folder = tempfile::tempdir_in(parent).expect("the folder can be written to");
    let path = folder.path().join("objects.signatures.arrow");
    let bytes = write_store(&path, objects);
    println!("store       {:.0} MB", bytes as f64 / 1e6);
    let runtime = Runtime::start(config(workers, devices)).expect("the system gives threads");

    // Both give equal answers, to the bit.
    let query = name(objects / 2);
    let answers = ["cpu".to_owned(), format!("gpu:{device}")].map(|place| {
        let out = folder.path().join("results.json");
        request(&runtime, &prepared(&runtime, &path, &out, k, &place), &query);
        std::fs::read_to_string(out).expect("the search has written it")
    });
    assert_eq!(answers[0], answers[1], "the device finds what the processor finds");
    println!("checked     the {k} nearest are those that the processor finds");

    let search = prepared(&runtime, &path, Path::new("/dev/null"), k, &format!("gpu:{device}"));
    // The first use brings in data and programs.
    let first = request(&runtime, &search, &name(1));
    println!("first       {:.1} ms, the store brought to the device", first * 1e3);
    let (mut seconds, mut kernels, mut feeds) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..rounds {
        let before = devices.statistics()[device];
        seconds.push(request(&runtime, &search, &name((7919 * (round + 1)) % objects)));
        let after = devices.statistics()[device];
        kernels.push((after.kernel_ns - before.kernel_ns) as f64 / 1e9);
        feeds.push((after.feed_ns - before.feed_ns) as f64 / 1e9);
    }
    let rate = |seconds: &[f64]| Spread::of(seconds.iter().map(|seconds| objects as f64 / seconds));
    println!("kernels     {:.0} distances/s", rate(&kernels));
    println!(
        "search      {:.0} distances/s, {:.2} ms",
        rate(&seconds),
        1e3 * Spread::of(seconds.iter().copied()).median
    );
    println!("feeding     {:.2} ms of one thread", 1e3 * Spread::of(feeds).median);
    let shares = Spread::of(kernels.iter().zip(&seconds).map(|(kernel, whole)| kernel / whole));
    println!("share       {shares:.3} of the kernels' rate (kernels that overlap count twice)");
    parts(&search, workers, devices, &name(objects / 3));
    // Many requests: the host works for one while the kernels of another run.
    let rate_of_kernels = rate(&kernels).median;
    for together in [2usize, 4, 8] {
        let count = rounds.max(2 * together);
        let begun = Instant::now();
        std::thread::scope(|scope| {
            for first in 0..together {
                let (runtime, search) = (&runtime, &search);
                scope.spawn(move || {
                    for round in (first..count).step_by(together) {
                        request(runtime, search, &name((7919 * (round + 1)) % objects));
                    }
                });
            }
        });
        let whole = (count * objects) as f64 / begun.elapsed().as_secs_f64();
        println!(
            "{together} at once   {whole:.3e} distances/s, {:.3} of the kernels' rate, {count} searches",
            whole / rate_of_kernels
        );
    }
}

/// When the boxes of one search work, from the last of five on a runtime that records a trace.
fn parts(search: &Arc<Prepared>, workers: usize, devices: &Arc<Devices>, query: &str) {
    let runtime =
        Runtime::start(Config { trace: true, ..config(workers, devices) }).expect("the system gives threads");
    for _ in 0..5 {
        request(&runtime, search, query);
    }
    let trace = runtime.take_trace();
    let firing = |event: &TraceEvent| match &event.kind {
        TraceKind::Firing { name, request, .. } => Some((name.clone(), *request)),
        _ => None,
    };
    let last = trace.iter().filter_map(|event| Some(firing(event)?.1)).max();
    let mut boxes: BTreeMap<String, (u64, u64, u64, u64)> = BTreeMap::new();
    for event in &trace {
        if let Some((name, request)) = firing(event)
            && Some(request) == last
        {
            let (begin, end) = (event.begin_ns, event.begin_ns + event.duration_ns);
            let known = boxes.entry(name).or_insert((begin, end, 0, 0));
            *known = (known.0.min(begin), known.1.max(end), known.2 + event.duration_ns, known.3 + 1);
        }
    }
    let begun = boxes.values().map(|known| known.0).min().unwrap_or(0);
    let mut boxes: Vec<_> = boxes.into_iter().collect();
    boxes.sort_by_key(|(_, known)| known.0);
    let ms = |ns: u64| ns as f64 / 1e6;
    for (name, (begin, end, inside, firings)) in boxes {
        println!(
            "part        {name}: {:.2} to {:.2} ms, {firings} firings, {:.2} ms in them",
            ms(begin - begun),
            ms(end - begun),
            ms(inside)
        );
    }
}

/// The shipped pipeline on a device.
fn prepared(runtime: &Runtime, store: &Path, out: &Path, k: usize, device: &str) -> Arc<Prepared> {
    let mut values = search_values(store, out, k);
    values.insert("device".to_owned(), Value::Text(device.to_owned()));
    let prepared =
        Prepared::new(&shipped::SEARCH.load().declaration, &catalog(), &values, &runtime.environment());
    let prepared = prepared.unwrap_or_else(|error| panic!("{error}"));
    let space = sqfd_space(&prepared);
    space.store().verify().expect("a sound store");
    Arc::new(prepared)
}

/// One request, in seconds.
fn request(runtime: &Runtime, prepared: &Arc<Prepared>, query: &str) -> f64 {
    let queries = Value::List(vec![Value::Text(query.to_owned())]);
    let values = BTreeMap::from([("queries".to_owned(), queries)]);
    let submission = Submission { values, ..Submission::default() };
    let request = runtime.submit(prepared, &submission).unwrap_or_else(|error| panic!("{error}"));
    let outcome = request.wait();
    outcome.result.clone().unwrap_or_else(|error| panic!("{error}"));
    outcome.duration.as_secs_f64()
}
