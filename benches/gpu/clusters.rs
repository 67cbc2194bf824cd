//! `what=kmeans` and `what=graph`: k-means to many centroids, and the exact nearest neighbours of all rows, on a device.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type, UInt64Type};
use boxwork::{pipeline, shipped};
use boxwork_kernels::vector::NumberType;
use boxwork_operators::{catalog, columns};
use boxwork_runtime::feeding::{DeviceClass, Devices};
use boxwork_runtime::operator::{
    BoxError, Context, Flow, In, Kind, Operator, OperatorSpec, RequestOutput, Resource,
};
use boxwork_runtime::parameter::Value;
use boxwork_runtime::plan::Declaration;
use boxwork_runtime::prepare::Prepared;
use boxwork_runtime::request::Submission;
use boxwork_runtime::{Config, Runtime};

use boxwork_stores::space::SharedSpace;
use boxwork_stores::spaces::{self, DistanceOptions};
use boxwork_stores::store::{SharedStore, Store};

use super::support::peer::Peer;
use super::support::{Arguments, Spread, timeline, verdict};
use super::vectors::{generator, store, tell_parts, write};
use super::{config, seconds_of, several};

/// Multiply-adds of halves in one clock and multiprocessor, by the matrix units of an H100.
const OF_UNITS: f64 = 2048.0;
/// Multiply-adds in f32 in one clock and multiprocessor.
const OF_LANES: f64 = 128.0;

static QUANTIZERS: In = In::stream(0, "quantizers", columns::quantizers, "the centroids");
/// The centroids of the last request.
static CENTROIDS: Mutex<Vec<f32>> = Mutex::new(Vec::new());
static KEEP: OperatorSpec = OperatorSpec {
    inputs: &[QUANTIZERS],
    ..OperatorSpec::new("keep", "Keeps centroids for the bench.", Kind::Stateful, |_| Ok(Box::new(Keep)))
};

struct Keep;

impl Operator for Keep {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        while let Some(envelope) = cx.take(QUANTIZERS) {
            let lists = envelope.column("centroids")?.as_list::<i32>().value(0);
            *CENTROIDS.lock().unwrap_or_else(PoisonError::into_inner) =
                lists.as_primitive::<Float32Type>().values().to_vec();
        }
        Ok(if cx.is_ended(QUANTIZERS) { Flow::Done } else { Flow::Wait })
    }
}

const TRAIN: &str = "boxwork: 1
parameters:
  lists: {type: integer}
  iterations: {type: integer}
  device: {type: text}
resources:
  vectors: {kind: store, path: rows}
  space: {kind: space, store: vectors, distance: l2}
boxes:
  quantizers: {kind: train_lists, space: space, lists: \"${lists}\", iterations: \"${iterations}\", device: \"${device}\"}
  keep: {kind: keep}
edges:
  - quantizers.quantizers -> keep
";

/// A store of vectors in memory, and what a question needs to run pipelines over it.
pub(super) struct World<'a> {
    pub(super) runtime: Runtime,
    store: Arc<dyn Store>,
    space: Arc<dyn boxwork_stores::space::Space>,
    devices: &'a Devices,
    device: usize,
    pub(super) count: u64,
    pub(super) dimensions: usize,
    pub(super) rounds: usize,
    peer: Option<Peer>,
    folder: tempfile::TempDir,
}

impl<'a> World<'a> {
    /// A store in memory, of so many rows by default.
    pub(super) fn new(
        arguments: &Arguments,
        devices: &'a Arc<Devices>,
        device: usize,
        count: [u64; 2],
    ) -> Self {
        let is_gpu = devices.list()[device].info().class == DeviceClass::Gpu;
        let count: u64 = arguments.get("objects", count[usize::from(is_gpu)]);
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        let workers = arguments.get("workers", cores);
        let (generator, dimensions) = generator(arguments);
        let rows = generator.rows(0..count).all().widened();
        println!("rows        {count} x {dimensions}, f32; {workers} workers");
        let store = store(&rows, dimensions, NumberType::F32);
        let space = spaces::open(&DistanceOptions::named("l2"), Arc::clone(&store)).expect("a space");
        let trace = arguments.get("timeline", 0) != 0;
        let runtime = Runtime::start(Config { trace, ..config(workers, devices) });
        let runtime = runtime.expect("the system gives threads");
        let parent = arguments.text("folder").map_or_else(std::env::temp_dir, Into::into);
        let folder = tempfile::tempdir_in(parent).expect("the folder can be written to");
        let peer = (arguments.text("peer") == Some("torch")).then(|| {
            write(&folder.path().join("rows.f32"), &rows);
            write(&folder.path().join("queries.f32"), &rows[..dimensions]);
            Peer::torch(&[&folder.path().display().to_string(), &dimensions.to_string()])
        });
        let (rounds, peer) = (arguments.get("rounds", 5), peer.flatten());
        Self { runtime, store, space, devices, device, count, dimensions, rounds, peer, folder }
    }

    /// A folder for files.
    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(super) fn prepared(
        &self,
        declaration: &Declaration,
        values: BTreeMap<String, Value>,
    ) -> Arc<Prepared> {
        let resources: BTreeMap<String, Resource> = BTreeMap::from([
            ("vectors".to_owned(), Arc::new(SharedStore(Arc::clone(&self.store))) as Resource),
            ("space".to_owned(), Arc::new(SharedSpace(Arc::clone(&self.space))) as Resource),
        ]);
        let environment = self.runtime.environment();
        let catalog = catalog().with(&KEEP);
        let prepared = Prepared::with_resources(declaration, &catalog, &values, &environment, resources);
        Arc::new(prepared.unwrap_or_else(|error| panic!("{error}")))
    }

    /// Prints the events of the last request, if they were kept.
    pub(super) fn tell_events(&self) {
        let events = self.runtime.take_trace();
        if !events.is_empty() {
            timeline::print(&events);
        }
    }

    /// Seconds of a request, and those of the device's kernels in it.
    pub(super) fn seconds<R>(&self, run: impl FnOnce() -> R) -> (f64, f64, R) {
        let before = self.devices.statistics()[self.device].kernel_ns;
        self.runtime.take_trace();
        let begun = Instant::now();
        let made = run();
        let taken = begun.elapsed().as_secs_f64();
        (taken, (self.devices.statistics()[self.device].kernel_ns - before) as f64 / 1e9, made)
    }

    /// The least seconds in which the device computes so many multiply-adds, in f32 and on matrix units.
    fn limits(&self, products: f64) -> [f64; 2] {
        let info = self.devices.list()[self.device].info();
        let clocks = f64::from(info.compute_units) * f64::from(info.clock_mhz) * 1e6;
        [OF_LANES, OF_UNITS].map(|of_clock| products / (clocks * of_clock))
    }

    pub(super) fn tell(&self, what: &str, products: f64, (whole, kernels): (&Spread, &Spread)) {
        let [lanes, units] = self.limits(products);
        println!("whole       {what}: {:.1} ms", 1e3 * whole.median);
        println!(
            "kernels     {what}: {:.1} ms; the limit is {:.1} ms in f32, {:.1} ms on matrix units of halves",
            1e3 * kernels.median,
            1e3 * lanes,
            1e3 * units
        );
    }
}

/// The time of k-means: its rounds, without reading the rows and bringing them to the device.
pub(super) fn run_kmeans(arguments: &Arguments, devices: &Arc<Devices>, device: usize) {
    println!(
        "question    how long do the rounds of k-means take on a device, with the bits of the processor?"
    );
    let mut world = World::new(arguments, devices, device, [20_000, 1_000_000]);
    let mut peer = world.peer.take();
    let lists = arguments.get("lists", if world.count >= 1_000_000 { 4096 } else { 64 });
    let iterations: usize = arguments.get("iterations", 25);
    let declaration = pipeline::load_text("kmeans", TRAIN).unwrap_or_else(|flaws| panic!("{flaws:?}"));
    let prepared = |iterations: usize, device: &str| {
        let values = BTreeMap::from([
            ("lists".to_owned(), Value::Integer(lists)),
            ("iterations".to_owned(), Value::Integer(iterations as i64)),
            ("device".to_owned(), Value::Text(device.to_owned())),
        ]);
        world.prepared(&declaration.declaration, values)
    };
    let place = format!("gpu:{device}");
    let (few, all) = (prepared(1, &place), prepared(iterations + 1, &place));
    let train = |prepared: &Arc<Prepared>| {
        seconds_of(&world.runtime, prepared);
        std::mem::take(&mut *CENTROIDS.lock().unwrap_or_else(PoisonError::into_inner))
    };
    assert!(train(&prepared(2, &place)) == train(&prepared(2, "cpu")), "the device finds the same");
    println!("checked     centroids are those of the processor, to the bit");
    let expected = train(&all);
    let (mut seconds, mut kernels, mut wholes) = (Vec::new(), Vec::new(), Vec::new());
    let mut parts = BTreeMap::new();
    for _ in 0..world.rounds {
        parts = world.devices.kernel_times(world.device);
        let (of_few, kernels_few, _) = world.seconds(|| train(&few));
        let (of_all, kernels_all, centroids) = world.seconds(|| train(&all));
        assert!(centroids == expected, "each run gives the same");
        seconds.push(of_all - of_few);
        kernels.push(kernels_all - kernels_few);
        wholes.push(of_all);
    }
    world.tell_events();
    let (seconds, kernels) = (Spread::of(seconds), Spread::of(kernels));
    // At most 256 rows a list are clustered.
    let rows = (world.count as f64).min(256.0 * lists as f64);
    let products = rows * lists as f64 * world.dimensions as f64 * iterations as f64;
    world.tell(&format!("{iterations} rounds to {lists}"), products, (&seconds, &kernels));
    tell_parts(&parts, &world.devices.kernel_times(world.device));
    println!(
        "request     with the sample, its way to the device and one round more: {:.0} ms",
        1e3 * Spread::of(wholes).median
    );
    if let Some(peer) = &mut peer {
        let of_peer = peer.seconds(&format!("kmeans {lists} {iterations}"));
        println!("ratio       {:.2} times as fast as PyTorch", of_peer / seconds.median);
    }
    if let Some((number, places)) = several::places(arguments, devices, device) {
        let (few, several) = (prepared(1, &places), prepared(iterations + 1, &places));
        let run = |prepared: &Arc<Prepared>| assert!(train(prepared) == expected, "devices find the same");
        train(&few);
        let what = format!("k-means, {iterations} rounds and one more");
        several::compare(&what, (number, world.rounds), [1.8, 3.4], || run(&all), || run(&several));
    }
    if world.count == 1_000_000 && lists == 4096 {
        let median = seconds.median;
        verdict("k-means to 4096, 25 rounds, seconds", median, 0.3, median <= 0.3);
    }
}

/// The time of the graph of nearest neighbours, by `knn_graph.yaml`.
pub(super) fn run_graph(arguments: &Arguments, devices: &Arc<Devices>, device: usize) {
    println!("question    how long does the exact graph of nearest neighbours take on a device?");
    let mut world = World::new(arguments, devices, device, [4_000, 1_000_000]);
    let mut peer = world.peer.take();
    let k = arguments.get("k", 10i64);
    let declaration = shipped::KNN_GRAPH.load().declaration;
    let prepared = |device: &str| {
        let text = |text: &str| Value::Text(text.to_owned());
        let values = BTreeMap::from([
            ("store".to_owned(), text("rows")),
            ("k".to_owned(), Value::Integer(k)),
            ("device".to_owned(), text(device)),
            ("out".to_owned(), text("/dev/null")),
        ]);
        world.prepared(&declaration, values)
    };
    let graph = |prepared: &Arc<Prepared>| {
        let (output, found) = RequestOutput::collected();
        let outputs = BTreeMap::from([("file".to_owned(), output)]);
        let request = world.runtime.submit(prepared, &Submission { outputs, ..Submission::default() });
        request
            .unwrap_or_else(|error| panic!("{error}"))
            .wait()
            .result
            .unwrap_or_else(|error| panic!("{error}"));
        let (mut ids, mut distances) = (Vec::new(), Vec::new());
        for batch in found.take() {
            ids.extend_from_slice(batch["b"].as_primitive::<UInt64Type>().values());
            distances.extend_from_slice(batch["distance"].as_primitive::<Float64Type>().values());
        }
        (ids, distances)
    };
    let on_device = prepared(&format!("gpu:{device}"));
    let expected = graph(&on_device);
    if world.count <= arguments.get("checked", 100_000) {
        assert!(expected == graph(&prepared("cpu")), "the device finds the same");
        println!("checked     ids and distances are those of the processor, to the bit");
    }
    let (mut seconds, mut kernels, mut parts) = (Vec::new(), Vec::new(), BTreeMap::new());
    for _ in 0..world.rounds {
        parts = world.devices.kernel_times(world.device);
        let (taken, of_kernels, found) = world.seconds(|| graph(&on_device));
        assert!(found == expected, "each run gives the same");
        seconds.push(taken);
        kernels.push(of_kernels);
    }
    world.tell_events();
    let (seconds, kernels) = (Spread::of(seconds), Spread::of(kernels));
    let products = (world.count as f64).powi(2) * world.dimensions as f64;
    world.tell(&format!("graph, k {k}"), products, (&seconds, &kernels));
    tell_parts(&parts, &world.devices.kernel_times(world.device));
    if let Some(peer) = &mut peer {
        let of_peer = peer.seconds(&format!("graph {k}"));
        println!("ratio       {:.2} times as fast as PyTorch", of_peer / seconds.median);
    }
    if let Some((number, places)) = several::places(arguments, devices, device) {
        let several = prepared(&places);
        let run = |prepared: &Arc<Prepared>| assert!(graph(prepared) == expected, "devices find the same");
        let what = format!("graph of {} rows, k {k}", world.count);
        several::compare(&what, (number, world.rounds), [1.8, 3.4], || run(&on_device), || run(&several));
    }
    if world.count == 1_000_000 && k == 10 {
        let median = seconds.median;
        verdict("graph of 1,000,000, k 10, seconds", median, 1.5, median <= 1.5);
    }
}
