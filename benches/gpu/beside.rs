//! `what=beside`: how much of a busy device's rate boxes that compute on all cores take.
//!
//! One runtime has both: a box that keeps twelve blocks of distances under way, and as many workers as cores, with and
//! without requests that compute on all of them. A block costs its feeding thread little, and the device much.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use boxwork::pipeline;
use boxwork_kernels::similarity::{Ground, Measure, Similarity};
use boxwork_kernels::sqfd::device::Shape;
use boxwork_runtime::feeding::{Blocks, DeviceClass, Devices};
use boxwork_runtime::operator::{BoxError, Catalog, Context, Flow, Kind, Operator, OperatorSpec};
use boxwork_runtime::prepare::Prepared;
use boxwork_runtime::request::Submission;
use boxwork_runtime::{Config, Runtime};

use super::distances::{Scan, Scene, Way, scene};
use super::support::signatures::{DIMENSIONS, Signatures};
use super::support::{Arguments, Spread, verdict};

/// Blocks under way at once: as many as the `distance` box has for each device.
const IN_FLIGHT: usize = 12;

/// Computing time of a firing.
const FIRING: Duration = Duration::from_millis(2);

static SCENE: OnceLock<(Arc<Scene>, Arc<Devices>, usize)> = OnceLock::new();
/// Blocks left to compute.
static LEFT: AtomicU64 = AtomicU64::new(0);
static STOP: AtomicBool = AtomicBool::new(false);
static FIRINGS: AtomicU64 = AtomicU64::new(0);

static FEED: OperatorSpec =
    OperatorSpec::new("feed", "Keeps a device busy.", Kind::Stateful, |_| Ok(Box::new(FeedBox(None))));
static COMPUTE: OperatorSpec =
    OperatorSpec::new("compute", "Keeps a core busy.", Kind::Stateful, |_| Ok(Box::new(ComputeBox)));

struct FeedBox(Option<Blocks<Scan>>);

impl Operator for FeedBox {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        let (scene, devices, device) = SCENE.get().expect("made before");
        let blocks = self.0.get_or_insert_with(|| Blocks::new(Arc::clone(devices), vec![*device]));
        while let Some((_, result)) = blocks.take() {
            result?;
        }
        while blocks.in_flight() < IN_FLIGHT && LEFT.load(Ordering::Relaxed) > 0 {
            LEFT.fetch_sub(1, Ordering::Relaxed);
            blocks.submit(Scan::of(scene), cx.outside());
        }
        Ok(if blocks.in_flight() == 0 { Flow::Done } else { Flow::Wait })
    }
}

struct ComputeBox;

impl Operator for ComputeBox {
    fn process(&mut self, _: &mut Context<'_>) -> Result<Flow, BoxError> {
        let begun = Instant::now();
        let mut x = 1.0f64;
        while begun.elapsed() < FIRING {
            x = std::hint::black_box(x.mul_add(1.000_000_1, 1e-9));
        }
        FIRINGS.fetch_add(1, Ordering::Relaxed);
        Ok(if STOP.load(Ordering::Relaxed) { Flow::Done } else { Flow::More })
    }
}

pub(super) fn run(arguments: &Arguments, devices: &Arc<Devices>, device: usize) {
    let is_gpu = devices.list()[device].info().class == DeviceClass::Gpu;
    let objects = arguments.get("objects", if is_gpu { 250_000 } else { 1_000 });
    let (blocks, rounds) = (arguments.get("blocks", 400u64), arguments.get("rounds", 5));
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    let workers = arguments.get("workers", cores);
    println!("question    how much of a busy device's rate do boxes that compute on all cores take?");
    println!(
        "unit        distances/s by the wall clock; {blocks} blocks of {objects} objects, {workers} workers"
    );
    let measure = Measure::new(Similarity::Gaussian, Ground::L2, 0.2).expect("alpha is positive");
    let signatures = Arc::new(Signatures::random(1, objects, 75..=75));
    let shape = Shape::new(&measure, DIMENSIONS);
    let shape = match devices.list()[device].info().compute_capability {
        Some(capability) if capability >= (8, 0) => shape.matrices(),
        _ => shape,
    };
    let made = signatures.with(|store| scene(&signatures, store, measure, shape, 1, 1, Way::Resident));
    assert!(SCENE.set((Arc::new(made), Arc::clone(devices), device)).is_ok(), "one run a process");
    let runtime = Runtime::start(Config::flat(workers)).expect("the system gives threads");
    let prepared = |spec: &'static OperatorSpec| {
        let text = format!("boxwork: 1\nboxes:\n  only: {{kind: {}}}\n", spec.name);
        let loaded = pipeline::load_text("beside", &text).unwrap_or_else(|flaws| panic!("{flaws:?}"));
        let (catalog, values) = (Catalog::new([spec], []), std::collections::BTreeMap::new());
        let prepared = Prepared::new(&loaded.declaration, &catalog, &values, &runtime.environment());
        Arc::new(prepared.unwrap_or_else(|error| panic!("{error}")))
    };
    let (feed, compute) = (prepared(&FEED), prepared(&COMPUTE));
    let submit = |prepared| {
        let request = runtime.submit(prepared, &Submission::default());
        request.unwrap_or_else(|error| panic!("{error}"))
    };
    // The device's request is the oldest: older requests go first, and the others never end.
    let rate = |computing: usize| {
        LEFT.store(blocks, Ordering::Relaxed);
        let (fed, begun) = (submit(&feed), Instant::now());
        let burning: Vec<_> = (0..computing).map(|_| submit(&compute)).collect();
        fed.wait().result.unwrap_or_else(|error| panic!("{error}"));
        let rate = (blocks * objects as u64) as f64 / begun.elapsed().as_secs_f64();
        STOP.store(true, Ordering::Relaxed);
        burning.into_iter().for_each(|request| drop(request.wait()));
        STOP.store(false, Ordering::Relaxed);
        rate
    };
    // The first use brings in data and programs.
    rate(0);
    let (mut idle, mut busy, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        idle.push(rate(0));
        let before = FIRINGS.load(Ordering::Relaxed);
        let begun = Instant::now();
        busy.push(rate(workers));
        let computed = (FIRINGS.load(Ordering::Relaxed) - before) as f64 * FIRING.as_secs_f64();
        println!("round       cores busy {:.1} of {workers}", computed / begun.elapsed().as_secs_f64());
        ratios.push(busy[busy.len() - 1] / idle[idle.len() - 1]);
    }
    println!("idle cores  {:.0} distances/s", Spread::of(idle));
    println!("busy cores  {:.0} distances/s", Spread::of(busy));
    let ratio = Spread::of(ratios);
    println!("ratio       {ratio:.3}");
    verdict("busy over idle", ratio.median, 0.97, ratio.median >= 0.97);
}
