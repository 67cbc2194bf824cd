//! The rate of a whole search as a share of the bare kernel's rate.
//!
//! Unit: distances per second, by the wall clock; 100,000 synthetic signatures of 50 to 100 centroids, k = 100, two
//! workers. Baseline: the bare kernel on as many threads at once over this mapped store, which only fills a column of
//! distances. The bar is 85 % of it.
//!
//! Included in the search's time: a request of the shipped `pipelines/search.yaml` from its submission to its end, so
//! finding the query by name, the scan, all distances, the exact ranking in f64, the names, and JSON to /dev/null. Not
//! included: starting the runtime's threads, opening the store, checking it at its first use, and the objects' own
//! similarities, which a space computes once and keeps. The kernel's time includes its threads, some 50 us.
//!
//! `cargo bench --bench search -- objects=100000 k=100 workers=2 rounds=21 folder=FOLDER`

mod support;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use boxwork::shipped;
use boxwork_kernels::CodePath;
use boxwork_kernels::sqfd::{Evaluator, PreparedQuery};
use boxwork_operators::catalog;
use boxwork_runtime::operator::Environment;
use boxwork_runtime::parameter::Value;
use boxwork_runtime::prepare::Prepared;
use boxwork_runtime::request::{Outcome, Submission};
use boxwork_runtime::{Config, Runtime};
use boxwork_stores::signature_store::{Objects, SignatureStore, StoreError};
use boxwork_stores::sqfd_space::SqfdSpace;
use support::store::{search_values, sqfd_space, write_store};
use support::{Arguments, Side, Spread, print_machine, run_rounds, verdict};

const SHARE_WANTED: f64 = 0.85;

fn main() {
    let arguments = Arguments::read(&["objects", "k", "workers", "rounds", "folder"]);
    let objects = arguments.get("objects", 100_000);
    let (k, workers) = (arguments.get("k", 100), arguments.get("workers", 2));
    let rounds = arguments.get("rounds", 21);
    println!("question    what share of the bare kernel's rate does a whole search reach?");
    println!(
        "unit        distances/s; {objects} signatures of 50 to 100 centroids, k = {k}, {workers} workers"
    );
    print_machine();
    println!("code path   {}", CodePath::detect());
    println!("rounds      {rounds}; median (middle half) of wall time, ratios within a round");

    let parent = arguments.text("folder").map_or_else(std::env::temp_dir, Into::into);
    let folder = tempfile::tempdir_in(parent).expect("the folder can be written to");
    let path = folder.path().join("objects.signatures.arrow");
    let bytes = write_store(&path, objects);
    println!("store       {:.0} MB, in the page cache", bytes as f64 / 1e6);

    let runtime = Runtime::start(Config::flat(workers)).expect("the system gives threads");
    let search = Search::new(&path, &folder.path().join("results.json"), k, workers);
    check(&runtime, &search, workers);
    // From here on the own similarities are kept beside the store; results are discarded.
    let search = Search::new(&path, Path::new("/dev/null"), k, workers);
    measure(&runtime, &search, workers, rounds);
}

/// The shipped pipeline over a store.
struct Search {
    prepared: Arc<Prepared>,
    space: Arc<SqfdSpace>,
    store: Arc<SignatureStore>,
    k: usize,
    out: std::path::PathBuf,
}

impl Search {
    fn new(store: &Path, out: &Path, k: usize, workers: usize) -> Self {
        let mut values = search_values(store, out, k);
        // The kernel of the baseline runs on the processor.
        values.insert("device".to_owned(), Value::Text("cpu".to_owned()));
        let prepared = Prepared::new(
            &shipped::SEARCH.load().declaration,
            &catalog(),
            &values,
            &Environment { maps: true, ..Environment::of_slots(workers) },
        );
        let prepared = Arc::new(prepared.unwrap_or_else(|error| panic!("{error}")));
        let space = sqfd_space(&prepared);
        Self { prepared, store: Arc::clone(space.store()), space, k, out: out.to_owned() }
    }

    /// Runs one request for the object of an id.
    fn run(&self, runtime: &Runtime, id: u64) -> Outcome {
        let name = self.store.name(id).expect("a sound store");
        let queries = Value::List(vec![Value::Text(name)]);
        let values = BTreeMap::from([("queries".to_owned(), queries)]);
        let submission = Submission { values, ..Submission::default() };
        let request = runtime.submit(&self.prepared, &submission).unwrap_or_else(|error| panic!("{error}"));
        let outcome = request.wait();
        outcome.result.clone().unwrap_or_else(|error| panic!("{error}"));
        outcome
    }

    /// The f64 distance of an object from another one, the query.
    fn exact(&self, objects: Objects<'_>, query: u64, id: u64) -> Result<f64, StoreError> {
        let sigma = self.space.sigma_self(objects, query)?;
        self.space.exact(objects, objects.signature(query)?, sigma, id)
    }

    /// The query object of a round.
    fn query(&self, round: u64) -> u64 {
        round.wrapping_mul(7919) % self.store.len()
    }
}

/// The search's results against all f64 distances, sorted.
fn check(runtime: &Runtime, search: &Search, workers: usize) {
    let id = search.query(1);
    search.run(runtime, id);
    let text = std::fs::read_to_string(&search.out).expect("the search has written it");
    let json: serde_json::Value = serde_json::from_str(&text).expect("the search writes JSON");
    let found = json["queries"][0]["results"].as_array().expect("a list of results");

    let exact = |other: u64| {
        let exact = search.store.read(|objects| search.exact(objects, id, other));
        exact.expect("a sound store")
    };
    let mut distances = thread::scope(|scope| {
        let parts: Vec<_> = (0..workers as u64)
            .map(|worker| {
                let ids = (worker..search.store.len()).step_by(workers);
                scope.spawn(move || ids.map(|id| (exact(id), id)).collect::<Vec<_>>())
            })
            .collect();
        parts.into_iter().flat_map(|part| part.join().expect("no panic")).collect::<Vec<_>>()
    });
    distances.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    assert_eq!(found.len(), search.k.min(distances.len()));
    for (found, (distance, id)) in found.iter().zip(&distances) {
        assert_eq!(found["id"].as_u64(), Some(*id), "the order follows the f64 distances");
        let written = found["distance"].as_f64().expect("a number");
        assert!((written - distance).abs() <= 1e-8 * distance, "{written} of object {id} is {distance}");
    }
    println!("checked     the {} results are the first of all f64 distances, in their order", found.len());
}

fn measure(runtime: &Runtime, search: &Search, workers: usize, rounds: usize) {
    let store = &search.store;
    store.verify().expect("a sound store");
    let sigmas: Vec<Vec<f64>> = (0..store.batches())
        .map(|batch| {
            let sigmas = store
                .read(|objects| store.ids(batch).map(|id| search.space.sigma_self(objects, id)).collect());
            sigmas.expect("a sound store")
        })
        .collect();
    let objects = store.len() as f64;
    let (mut searched, mut computed) = (0, 0);
    let mut busy = Vec::new();
    let mut sides = vec![
        Side::new("whole search", || {
            searched += 1;
            let outcome = search.run(runtime, search.query(searched));
            let seconds = outcome.duration.as_secs_f64();
            let shares =
                outcome.boxes.iter().map(|one| (one.name.clone(), one.busy_ns as f64 / 1e9 / seconds));
            busy.push(shares.collect::<BTreeMap<_, _>>());
            seconds / objects
        }),
        Side::new("bare kernel", || {
            computed += 1;
            let id = search.query(computed);
            let query = store.read(|objects| objects.signature(id).map(|found| search.space.prepare(found)));
            let query = query.expect("a sound store");
            let start = Instant::now();
            bare_kernel(store, &sigmas, &query, workers);
            start.elapsed().as_secs_f64() / objects
        }),
    ];
    run_rounds(rounds, &mut sides);

    println!();
    for side in &sides {
        let rate = Spread::of(side.seconds.iter().map(|seconds| 1.0 / seconds));
        println!("{:14}{rate:.0} distances/s, {:.0} ms", side.name, side.spread().median * objects * 1e3);
    }
    let share = sides[0].faster_than(&sides[1]);
    println!("{:14}{share:.3} of the bare kernel's rate", "ratio");
    drop(sides);
    let names: Vec<String> = busy[0].keys().cloned().collect();
    let shares = names.iter().map(|name| {
        let share = Spread::of(busy.iter().map(|round| 100.0 * round[name])).median;
        format!("{name} {share:.1} %")
    });
    println!("boxes       {} of one worker's time each", shares.collect::<Vec<_>>().join(", "));
    print_limit(store, workers);
    verdict("whole search of bare kernel", share.median, SHARE_WANTED, share.median >= SHARE_WANTED);
}

/// All distances of a query, on this many threads, which take pieces in turn.
fn bare_kernel(store: &SignatureStore, sigmas: &[Vec<f64>], query: &PreparedQuery, workers: usize) {
    const PIECE_ROWS: usize = 1024;
    let pieces: Vec<(usize, u32, u32)> = sigmas
        .iter()
        .enumerate()
        .flat_map(|(batch, sigmas)| {
            let rows = sigmas.len();
            (0..rows)
                .step_by(PIECE_ROWS)
                .map(move |first| (batch, first as u32, (first + PIECE_ROWS).min(rows) as u32))
        })
        .collect();
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                let mut evaluator = Evaluator::new(CodePath::detect());
                let mut out = Vec::new();
                while let Some(&(batch, first, end)) = pieces.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let rows: Vec<u32> = (first..end).collect();
                    out.resize(rows.len(), 0.0);
                    let computed = store.read(|objects| {
                        let columns = objects.batch(batch)?.columns();
                        evaluator.distances(query, &columns, &rows, &sigmas[batch], &mut out);
                        Ok::<_, StoreError>(())
                    });
                    computed.expect("a sound store");
                    std::hint::black_box(&out);
                }
            });
        }
    });
}

/// The limit of memory: as many threads read the store once and compute nothing.
fn print_limit(store: &SignatureStore, workers: usize) {
    let mut bytes = 0;
    for batch in 0..store.batches() {
        let batch_bytes = store.read(|objects| {
            let columns = objects.batch(batch)?.columns().columns();
            Ok::<_, StoreError>(size_of_val(columns.weights()) * (1 + columns.dimensions()))
        });
        bytes += batch_bytes.expect("a sound store");
    }
    let read = || {
        let next = AtomicUsize::new(0);
        let start = Instant::now();
        thread::scope(|scope| {
            for _ in 0..workers {
                scope.spawn(|| {
                    let mut sum = 0_u32;
                    loop {
                        let batch = next.fetch_add(1, Ordering::Relaxed);
                        if batch >= store.batches() {
                            break;
                        }
                        let of_batch = store.read(|objects| {
                            let columns = objects.batch(batch)?.columns().columns();
                            let columns = columns.coordinates().iter().copied().chain([columns.weights()]);
                            Ok::<_, StoreError>(
                                columns.flatten().fold(sum, |sum, x| sum.wrapping_add(x.to_bits())),
                            )
                        });
                        sum = of_batch.expect("a sound store");
                    }
                    std::hint::black_box(sum);
                });
            }
        });
        start.elapsed().as_secs_f64()
    };
    let seconds = (0..5).map(|_| read()).fold(f64::INFINITY, f64::min);
    println!(
        "limit       memory: {:.0} MB are read in {:.0} ms by {workers} threads that compute nothing ({:.1} GB/s)",
        bytes as f64 / 1e6,
        seconds * 1e3,
        bytes as f64 / seconds / 1e9
    );
}
