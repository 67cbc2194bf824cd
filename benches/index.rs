//! How much work does an index save, and what does it cost?
//!
//! Four questions, each with its own `what=`:
//!
//! - `share`: the share of the objects whose lower bound is not above the distance of the k-th answer, which no
//!   strategy can exclude; and the ratio of the k-th smallest upper bound to that distance.
//! - `search`: the time of each shipped strategy and its number of distances, compared with the sequential scan and the
//!   *divine* search, a range query with the k-th distance given. Every answer is compared with the scan's.
//! - `bounds`: nanoseconds per object for each bound, compared with reading these bytes, and with the f64 reference.
//! - `build`: the index pipeline, compared with as many sequential f64 scans as there are pivots, on equally many
//!   threads.
//!
//! `strategy=` takes some of the strategies of `search`: `blocks` (one run for each size of `block=16,64,256,1024,4096`, by triangles, as the study of the
//! beginning measures them), `estimate` (the range estimated while blocks grow) and `simplex` (the range known from upper bounds). Their
//! distances are compared with the *divine* search's, the optimum.
//!
//! `cargo bench --bench index -- what=search store=FILE alphas=0.01,0.2,0.64 pivots=32 k=10 queries=10 workers=2`
//! Without `store`, it takes `objects` synthetic signatures like the other benches.

#[path = "index/strategies.rs"]
mod strategies;
mod support;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use boxwork::shipped::{self, Shipped};
use boxwork_kernels::CodePath;
use boxwork_kernels::lower_bound::{Bound, BoundEvaluator, Bounds, PACKED_OBJECTS, exact_bounds};
use boxwork_kernels::similarity::{Ground, Measure, Similarity};
use boxwork_operators::catalog;
use boxwork_runtime::feeding::LazyDevices;
use boxwork_runtime::operator::Environment;
use boxwork_runtime::parameter::Value;
use boxwork_runtime::prepare::Prepared;
use boxwork_runtime::request::{Outcome, Submission};
use boxwork_runtime::{Config, Runtime};
use boxwork_stores::pivot_table::PivotTable;
use boxwork_stores::signature_store::{SignatureStore, StoreError};
use boxwork_stores::space::{DeviceForm, Space};
use boxwork_stores::sqfd_space::SqfdSpace;
use boxwork_stores::store::Store;
use support::store::{path_value, search_values, write_store};
use support::{Arguments, Side, Spread, print_machine, run_rounds, verdict};

fn main() {
    let names = [
        "what", "store", "objects", "alphas", "pivots", "select", "k", "queries", "workers", "rounds",
        "folder", "strategy", "block",
    ];
    let arguments = Arguments::read(&names);
    let what = arguments.text("what").unwrap_or("share").to_owned();
    let objects = arguments.get("objects", 10_000);
    let folder = tempfile::tempdir_in(arguments.text("folder").map_or_else(std::env::temp_dir, Into::into))
        .expect("the folder can be written to");
    let store = arguments.text("store").map_or_else(
        || {
            let path = folder.path().join("objects.signatures.arrow");
            write_store(&path, objects);
            path
        },
        PathBuf::from,
    );
    let alphas = arguments.text("alphas").unwrap_or("0.2").to_owned();
    print_machine();
    println!("code path   {}", CodePath::detect());
    for alpha in alphas.split(',') {
        let alpha: f64 = alpha.parse().expect("alphas are numbers");
        let setting = Setting {
            store: store.clone(),
            index: folder.path().join(format!("{alpha}.pivots.arrow")),
            out: folder.path().join("results.json"),
            alpha,
            pivots: arguments.get("pivots", 32),
            select: arguments.text("select").unwrap_or("random").to_owned(),
            k: arguments.get("k", 10),
            queries: arguments.get("queries", 20),
            workers: arguments.get("workers", 2),
            devices: Arc::default(),
            rounds: arguments.get("rounds", 5),
            strategy: arguments.text("strategy").map(str::to_owned),
            block: arguments.text("block").unwrap_or("16,64,256,1024,4096").to_owned(),
        };
        match what.as_str() {
            "share" => setting.share(),
            "search" => setting.search(),
            "bounds" => setting.bounds(),
            "build" => setting.build(),
            other => panic!("what={other} is none of share, search, bounds and build"),
        }
    }
}

struct Setting {
    store: PathBuf,
    index: PathBuf,
    out: PathBuf,
    alpha: f64,
    pivots: usize,
    select: String,
    k: usize,
    queries: usize,
    workers: usize,
    devices: Arc<LazyDevices>,
    rounds: usize,
    /// The strategies to compare; all, if not given.
    strategy: Option<String>,
    /// Sizes of fixed blocks.
    block: String,
}

/// Distances of the search by upper bounds over the optimum's that are allowed.
const BAR_SIMPLEX: f64 = 1.3;

impl Setting {
    fn runtime(&self) -> Runtime {
        let devices = Arc::clone(&self.devices);
        Runtime::start(Config { devices, ..Config::flat(self.workers) }).expect("the system gives threads")
    }

    /// A shipped pipeline over the store and its index.
    fn prepare(&self, pipeline: Shipped, given: &[(&str, Value)]) -> Arc<Prepared> {
        let loaded = pipeline.load();
        let mut values = search_values(&self.store, &self.out, self.k);
        values.insert("pivots".to_owned(), path_value(&self.index));
        values.insert("alpha".to_owned(), Value::Number(self.alpha));
        values.extend(given.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
        let parameters = &loaded.declaration.parameters;
        values.retain(|name, _| parameters.iter().any(|known| known.name == *name));
        let prepared = Prepared::new(
            &loaded.declaration,
            &catalog(),
            &values,
            &Environment { maps: true, ..Environment::of_slots(self.workers) },
        );
        Arc::new(prepared.unwrap_or_else(|error| panic!("{}: {error}", pipeline.source)))
    }

    fn index_values(&self) -> [(&str, Value); 3] {
        [
            ("out", path_value(&self.index)),
            ("count", Value::Integer(self.pivots as i64)),
            ("select", Value::Text(self.select.clone())),
        ]
    }

    /// Builds the index and opens it.
    fn table(&self) -> PivotTable {
        let start = Instant::now();
        run(&self.runtime(), &self.prepare(shipped::INDEX, &self.index_values()), &[]);
        let seconds = start.elapsed().as_secs_f64();
        let store = Arc::new(SignatureStore::open(&self.store).unwrap_or_else(|error| panic!("{error}")));
        let measure = Measure::new(Similarity::Gaussian, Ground::L2, self.alpha).expect("a sound measure");
        let space = Arc::new(SqfdSpace::new(store, measure));
        let table = PivotTable::open(&self.index, space).unwrap_or_else(|error| panic!("{error}"));
        println!();
        println!(
            "index       {} objects, {} pivots by {}, alpha {}; {:.2} s on {} workers",
            table.len(),
            table.pivots().len(),
            self.select,
            self.alpha,
            seconds,
            self.workers
        );
        table
    }

    /// Objects as queries: spread over the store, fixed.
    fn query_ids(&self, objects: u64) -> Vec<u64> {
        (0..self.queries as u64).map(|number| (number * 7919 + 13) % objects).collect()
    }

    fn share(&self) {
        let table = self.table();
        let space = space_of(&table);
        let evaluator = BoundEvaluator::new(CodePath::detect());
        let mut left: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        for id in self.query_ids(table.len()) {
            let exact = exact_distances(&space, id, self.workers);
            let mut sorted = exact.clone();
            sorted.sort_by(f64::total_cmp);
            let kth = sorted[self.k.min(sorted.len()) - 1];
            let distances: Vec<f64> = table.pivots().iter().map(|pivot| exact[*pivot as usize]).collect();
            let prepared = prepared(&space, id);
            for bound in Bound::ALL {
                let query =
                    table.query(bound, &distances, &*prepared).unwrap_or_else(|error| panic!("{error}"));
                let (mut kept, mut uppers) = (0, Vec::new());
                let mut bounds = Bounds::default();
                for block in 0..table.blocks() {
                    evaluator.bounds(&query, table.block(block), &mut bounds);
                    for (row, object) in table.ids(block).enumerate() {
                        let distance = exact[object as usize];
                        assert!(f64::from(bounds.lower[row]) <= distance, "{bound} is not sound");
                        assert!(f64::from(bounds.upper[row]) >= distance, "{bound} is not sound");
                        kept += usize::from(f64::from(bounds.lower[row]) <= kth);
                        uppers.push(f64::from(bounds.upper[row]));
                    }
                }
                uppers.sort_by(f64::total_cmp);
                let share = kept as f64 / table.len() as f64;
                left.entry(format!("{bound}")).or_default().push(share);
                let ratio = uppers[self.k.min(uppers.len()) - 1] / kth;
                left.entry(format!("{bound} upper")).or_default().push(ratio);
            }
        }
        println!("checked     every bound of {} queries against all f64 distances", self.queries);
        let mean = |name: &str| left[name].iter().sum::<f64>() / left[name].len() as f64;
        for bound in Bound::ALL {
            println!(
                "share       {bound:10} {:.4} of the objects remain; k-th upper bound / k-th distance {:.3}",
                mean(&bound.to_string()),
                mean(&format!("{bound} upper"))
            );
        }
    }

    /// Checks that all strategies find what the scan finds. Gives the distance of the farthest result of each query.
    fn checked(
        &self,
        runtime: &Runtime,
        strategies: &[(String, Arc<Prepared>)],
        names: &[String],
    ) -> Vec<f64> {
        let mut kth = Vec::new();
        for name in names {
            let answers: Vec<String> = strategies
                .iter()
                .map(|(_, prepared)| {
                    run(runtime, prepared, std::slice::from_ref(name));
                    std::fs::read_to_string(&self.out).expect("the results were written")
                })
                .collect();
            for (answer, (strategy, _)) in answers.iter().zip(strategies) {
                assert!(*answer == answers[0], "{strategy} finds something else than the scan for {name}");
            }
            let json: serde_json::Value = serde_json::from_str(&answers[0]).expect("the results are JSON");
            let results = json["queries"][0]["results"].as_array().expect("a list of results");
            let farthest = results.last().and_then(|last| last["distance"].as_f64()).expect("an answer");
            kth.push(farthest);
        }
        kth
    }

    fn search(&self) {
        let table = self.table();
        let store = table.space().store();
        let runtime = self.runtime();
        let names: Vec<String> =
            self.query_ids(table.len()).iter().map(|id| store.name(*id).expect("a sound store")).collect();
        let strategies = self.strategies();
        // Checked before anything is timed; the scan brings the store and its own similarities into memory.
        let kth = self.checked(&runtime, &strategies, &names);
        println!("checked     {} queries: all strategies find what the scan finds", names.len());
        let divine: Vec<Arc<Prepared>> = kth
            .iter()
            .map(|range| {
                let given = [("range", Value::Number(*range)), ("bound", Value::Text("simplex".to_owned()))];
                self.prepare(shipped::INDEXED_RANGE, &given)
            })
            .collect();
        let counts: Vec<AtomicUsize> = (0..=strategies.len()).map(|_| AtomicUsize::new(0)).collect();
        let (runtime, names, counts) = (&runtime, &names, &counts);
        let mut sides: Vec<Side<'_>> = strategies
            .iter()
            .enumerate()
            .map(|(idx, (label, prepared))| {
                Side::new(label.clone(), move || {
                    mean_seconds(
                        names.iter().map(|name| run(runtime, prepared, std::slice::from_ref(name))),
                        &counts[idx],
                    )
                })
            })
            .collect();
        let (divine, last) = (&divine, strategies.len());
        sides.push(Side::new("divine, simplex", move || {
            let outcomes = names.iter().zip(divine);
            let outcomes =
                outcomes.map(|(name, prepared)| run(runtime, prepared, std::slice::from_ref(name)));
            mean_seconds(outcomes, &counts[last])
        }));
        run_rounds(self.rounds, &mut sides);
        let all = ((self.rounds + 1) * names.len()) as f64 * table.len() as f64;
        let (scan, divine) = (&sides[0], &sides[sides.len() - 1]);
        let optimum = counts[strategies.len()].load(Ordering::Relaxed) as f64;
        for (side, count) in sides.iter().zip(counts) {
            let count = count.load(Ordering::Relaxed) as f64;
            println!(
                "{:26} {:9.3} ms per query; computes {:.5} of the distances, {:.2} x divine's; {:8.2} x the scan's speed, {:.2} x \
                 divine's time",
                side.name,
                side.spread().median * 1e3,
                count / all,
                count / optimum.max(1.0),
                side.faster_than(scan).median,
                divine.faster_than(side).median
            );
            if side.name == "simplex" {
                let figure = count / optimum.max(1.0);
                verdict(
                    "distances of simplex over the optimum's",
                    figure,
                    BAR_SIMPLEX,
                    figure <= BAR_SIMPLEX,
                );
            }
        }
    }

    fn bounds(&self) {
        let table = self.table();
        let space = space_of(&table);
        let store = space.store();
        let id = self.query_ids(table.len())[0];
        let distance =
            |a: u64, b: u64| store.read(|objects| space.between(objects, a, b)).expect("a sound store");
        let distances: Vec<f64> = table.pivots().iter().map(|pivot| distance(*pivot, id)).collect();
        let prepared = prepared(&space, id);
        let units = table.blocks() * PACKED_OBJECTS;
        let queries: Vec<_> = Bound::ALL
            .into_iter()
            .map(|bound| table.query(bound, &distances, &*prepared).unwrap_or_else(|error| panic!("{error}")))
            .collect();
        // The reference, on a few objects, from their f64 distances.
        let few: Vec<Vec<f64>> = (0..64.min(table.len()))
            .map(|object| table.pivots().iter().map(|pivot| distance(*pivot, object)).collect())
            .collect();
        let table = &table;
        let mut sides = Vec::new();
        for (name, is_apex) in [("read the distances", false), ("read the apexes", true)] {
            sides.push(Side::on_this_core(name, units, move || {
                let mut sum = [0_u32; 64];
                for block in 0..table.blocks() {
                    let block = table.block(block);
                    let columns = if is_apex { block.apexes } else { block.distances };
                    for numbers in columns.chunks_exact(64) {
                        sum.iter_mut()
                            .zip(numbers)
                            .for_each(|(sum, number)| *sum = sum.wrapping_add(number.to_bits()));
                    }
                }
                std::hint::black_box(sum);
            }));
        }
        for query in &queries {
            for path in CodePath::available() {
                let evaluator = BoundEvaluator::new(path);
                let name = format!("{} {path}", query.bound());
                sides.push(Side::on_this_core(name, units, move || {
                    let mut bounds = Bounds::default();
                    for block in 0..table.blocks() {
                        let next = (block + 1 < table.blocks()).then(|| table.block(block + 1));
                        evaluator.bounds_before(query, table.block(block), next, &mut bounds);
                        std::hint::black_box(&bounds);
                    }
                }));
            }
        }
        let extent = Space::extent(&*space, id).expect("a sound store");
        let noise_squared = prepared.noise_squared(extent, 2.0);
        for bound in Bound::ALL {
            let (few, distances) = (&few, &distances);
            sides.push(Side::on_this_core(format!("{bound} f64 reference"), few.len(), move || {
                for object in few {
                    let found = exact_bounds(
                        bound,
                        distances,
                        object,
                        table.between(),
                        table.simplex(),
                        noise_squared,
                    );
                    std::hint::black_box(found.is_ok());
                }
            }));
        }
        run_rounds(self.rounds, &mut sides);
        let of = |name: String| sides.iter().find(|side| side.name == name);
        for side in &sides {
            let ns = Spread::of(side.seconds.iter().map(|seconds| seconds * 1e9));
            let bound = side.name.split(' ').next().unwrap_or_default();
            let read = if bound == "simplex" { &sides[1] } else { &sides[0] };
            let against = of(format!("{bound} f64 reference")).map_or(String::new(), |reference| {
                let (twin, memory) = (side.faster_than(reference).median, read.faster_than(side).median);
                format!("; {twin:.1} x the f64 reference, {memory:.2} x the time of reading")
            });
            println!("{:26}{ns:.2} ns per object{against}", side.name);
        }
    }

    fn build(&self) {
        let table = self.table();
        let space = space_of(&table);
        let store = space.store();
        store.verify().expect("a sound store");
        let runtime = self.runtime();
        let pivots = table.pivots();
        let mut sides = vec![
            Side::new("index pipeline", || {
                let prepared = self.prepare(shipped::INDEX, &self.index_values());
                let start = Instant::now();
                run(&runtime, &prepared, &[]);
                start.elapsed().as_secs_f64()
            }),
            Side::new("as many f64 scans", || {
                let start = Instant::now();
                for pivot in pivots {
                    std::hint::black_box(exact_distances(&space, *pivot, self.workers));
                }
                start.elapsed().as_secs_f64()
            }),
        ];
        run_rounds(self.rounds, &mut sides);
        for side in &sides {
            println!("{:26}{:.2} s", side.name, side.spread());
        }
        println!("ratio       {:.3} x the time of the scans", sides[1].faster_than(&sides[0]));
    }
}

/// The f64 distances of all objects from one, on this many threads.
/// The space of a table, whose distance is SQFD.
fn space_of(table: &PivotTable) -> Arc<SqfdSpace> {
    let Some(DeviceForm::Sqfd(space)) = Arc::clone(table.space()).device_form() else {
        panic!("the index is of signatures")
    };
    space
}

/// An object of a space, as a query.
fn prepared(space: &Arc<SqfdSpace>, id: u64) -> Arc<dyn boxwork_stores::space::Prepared> {
    let object = Store::objects(&**space.store(), &[id]).expect("a sound store");
    let space: Arc<dyn Space> = Arc::<SqfdSpace>::clone(space);
    space.prepare(&object, 0).expect("a sound store")
}

fn exact_distances(space: &SqfdSpace, id: u64, workers: usize) -> Vec<f64> {
    const PIECE: usize = 64;
    let store = space.store();
    let mut all = vec![0.0; store.len() as usize];
    let next = std::sync::Mutex::new(all.chunks_mut(PIECE).enumerate());
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let piece = next.lock().expect("no panic").next();
                    let Some((piece, distances)) = piece else { break };
                    let computed = store.read(|objects| {
                        let (signature, sigma) = (objects.signature(id)?, space.sigma_self(objects, id)?);
                        for (place, distance) in distances.iter_mut().enumerate() {
                            let other = (piece * PIECE + place) as u64;
                            *distance = space.exact(objects, signature, sigma, other)?;
                        }
                        Ok::<_, StoreError>(())
                    });
                    computed.expect("a sound store");
                }
            });
        }
    });
    all
}

fn run(runtime: &Runtime, prepared: &Arc<Prepared>, queries: &[String]) -> Outcome {
    let queries = queries.iter().cloned().map(Value::Text).collect();
    let mut values = BTreeMap::from([("queries".to_owned(), Value::List(queries))]);
    values.retain(|name, _| prepared.values().contains_key(name));
    let submission = Submission { values, ..Submission::default() };
    let request = runtime.submit(prepared, &submission).unwrap_or_else(|error| panic!("{error}"));
    let outcome = request.wait();
    outcome.result.clone().unwrap_or_else(|error| panic!("{error}"));
    outcome
}

/// The mean time of some requests; adds their numbers of distances.
fn mean_seconds(outcomes: impl Iterator<Item = Outcome>, distances: &AtomicUsize) -> f64 {
    let (mut seconds, mut count) = (0.0, 0);
    for outcome in outcomes {
        seconds += outcome.duration.as_secs_f64();
        count += 1;
        let computed =
            outcome.boxes.iter().filter(|one| one.name.starts_with("distance")).map(|one| one.rows_out);
        distances.fetch_add(computed.sum::<u64>() as usize, Ordering::Relaxed);
    }
    seconds / f64::from(count)
}
