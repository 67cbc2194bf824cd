//! `what=distances`: signature distances per second.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant;

use super::support::signatures::{DIMENSIONS, Signatures};
use super::support::{Arguments, verdict};
use boxwork_kernels::similarity::{Ground, Measure, Similarity};
use boxwork_kernels::sqfd::device::{APART_NORM_MAX, Layout, Shape};
use boxwork_kernels::sqfd::{Arithmetic, PreparedQuery, StoreColumns, reference};
use boxwork_operators::device_kernels::distances_program;
use boxwork_runtime::feeding::{
    Back, Block, Blocks, DeviceClass, DeviceError, Devices, Feed, Grid, Options, ProgramSource, SharedKey,
    Value,
};
use boxwork_runtime::operator::Outside;

/// Objects compared with the reference.
const CHECKED: usize = 64;
/// Blocks under way at once; with one, kernels never overlap, and each is timed alone.
const IN_FLIGHT: usize = 6;

/// Shared by the blocks of one line.
pub(super) struct Scene {
    pub(super) signatures: Arc<Signatures>,
    pub(super) shape: Shape,
    pub(super) layout: Layout,
    pub(super) program: ProgramSource,
    pub(super) rows: Vec<f32>,
    pub(super) row_offsets: Vec<u32>,
    pub(super) centres: Vec<f32>,
    pub(super) factor: f32,
    /// Unique to this scene within the process.
    pub(super) version: u64,
    /// The devices' key for the signatures.
    pub(super) part: u64,
    pub(super) way: Way,
}

/// How signatures come to the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// They stay there.
    Resident,
    /// Gathered and sent for each block.
    Gathered,
    /// Sent for each block, from pinned memory.
    Pinned,
}

pub(super) struct Scan {
    pub(super) scene: Arc<Scene>,
    /// The results, if they are wanted.
    pub(super) sums: Option<Vec<f32>>,
}

impl Scan {
    /// A scan whose sums are not read.
    pub(super) fn of(scene: &Arc<Scene>) -> Self {
        Self { scene: Arc::clone(scene), sums: None }
    }

    fn stride(&self) -> usize {
        self.scene.stride()
    }

    fn fill(&self, column: usize, to: &mut [f32]) -> Result<(), DeviceError> {
        self.scene.fill(column, to);
        Ok(())
    }
}

impl Scene {
    /// Length of a column on the device.
    pub(super) fn stride(&self) -> usize {
        self.signatures.weights.len().next_multiple_of(32)
    }

    /// Copies a column.
    pub(super) fn fill(&self, column: usize, to: &mut [f32]) {
        let from = self.signatures.coordinates.get(column).unwrap_or(&self.signatures.weights);
        to[..from.len()].copy_from_slice(from);
    }

    pub(super) fn queries(&self) -> usize {
        self.row_offsets.len() - 1
    }

    /// The kernel's arguments other than buffers, by name.
    pub(super) fn values(&self) -> [(&'static str, Value); 9] {
        let number = |value: usize| Value::of(value as u32);
        [
            ("stride", number(self.stride())),
            ("tiles_first", number(0)),
            ("pieces_first", number(0)),
            ("pieces_count", number(self.layout.pieces.len())),
            ("queries_first", number(0)),
            ("queries_count", number(self.queries())),
            ("factor", Value::of(self.factor)),
            ("alpha", Value::of(0.0_f32)),
            ("sums_first", number(0)),
        ]
    }
}

impl Block for Scan {
    fn size(&self) -> u64 {
        (self.scene.layout.signatures() * (self.scene.row_offsets.len() - 1)) as u64
    }

    fn feed(&mut self, feed: &mut Feed<'_>) -> Result<(), DeviceError> {
        let scene = Arc::clone(&self.scene);
        let (layout, version) = (&scene.layout, scene.version);
        let key = |form, part| SharedKey { resource: 1 + scene.part, form, part };
        let len = (DIMENSIONS + 1) * self.stride();
        let fill = |column: usize, to: &mut [f32]| self.fill(column, to);
        match scene.way {
            Way::Resident => feed.shared_in_parts("columns", key(0, 0), len, self.stride(), fill)?,
            Way::Gathered => feed.write_in_parts("columns", len, self.stride(), fill)?,
            Way::Pinned => feed.pinned_in_parts("columns", key(0, 0), len, self.stride(), fill)?,
        }
        fn copy<T: Copy>(to: &mut [T], from: &[T]) -> Result<(), DeviceError> {
            to.copy_from_slice(from);
            Ok(())
        }
        feed.shared("tiles", key(version, 1), layout.tiles.len(), |to| copy(to, &layout.tiles))?;
        feed.shared("pieces", key(version, 2), layout.pieces.len(), |to| copy(to, &layout.pieces))?;
        feed.replicated("rows", version, scene.rows.len(), |to| copy(to, &scene.rows))?;
        feed.replicated("row_offsets", version, scene.row_offsets.len(), |to| copy(to, &scene.row_offsets))?;
        feed.replicated("centres", version, scene.centres.len(), |to| copy(to, &scene.centres))?;
        let sums = layout.pieces.len() * scene.queries();
        feed.output::<f32>("sums", sums)?;
        let groups = layout.tiles.len() * scene.queries();
        feed.launch(&scene.program, "sqfd", Grid::of([groups], [scene.shape.items()]), &scene.values())?;
        feed.read::<f32>("sums", sums)
    }

    fn collect(&mut self, back: &Back<'_>) {
        let sums = back.numbers::<f32>("sums");
        if let Some(kept) = &mut self.sums {
            kept.extend_from_slice(sums);
        }
    }
}

/// Submits blocks and takes them back.
struct Runner {
    blocks: Blocks<Scan>,
    tell: Sender<()>,
    told: Receiver<()>,
}

impl Runner {
    fn new(devices: &Arc<Devices>, device: usize) -> Self {
        let (tell, told) = channel();
        Self { blocks: Blocks::new(Arc::clone(devices), vec![device]), tell, told }
    }

    fn submit(&mut self, scene: &Arc<Scene>, kept: bool) {
        let tell = self.tell.clone();
        let outside = Outside::new(move || {
            // The runner outlives its blocks, so the receiver exists.
            let _ = tell.send(());
        });
        self.blocks.submit(Scan { scene: Arc::clone(scene), sums: kept.then(Vec::new) }, outside);
    }

    fn take(&mut self) -> Scan {
        loop {
            self.told.recv().expect("a block comes back");
            if let Some((block, result)) = self.blocks.take() {
                result.unwrap_or_else(|error| panic!("the device fails: {error}"));
                return block;
            }
        }
    }
}

pub(super) fn run(arguments: &Arguments, devices: &Arc<Devices>, device: usize) {
    let own = arguments.text("gatherers").map(|text| {
        let options = Options { gatherers: text.parse().expect("a number"), ..Options::default() };
        Devices::open(options).expect("the devices are there")
    });
    let devices = own.as_ref().unwrap_or(devices);
    let info = devices.list()[device].info().clone();
    let is_gpu = info.class == DeviceClass::Gpu;
    let (objects, blocks) =
        (arguments.get("objects", if is_gpu { 250_000 } else { 2_000 }), arguments.get("blocks", 40));
    let (centroids, queries) = (arguments.get("centroids", 75), arguments.get("queries", 1usize));
    let alpha = arguments.get("alpha", 0.2);
    println!("question    how many signature distances per second does a device compute?");
    println!("unit        distances/s, D = {DIMENSIONS}, alpha {alpha}");
    println!("objects     {objects} on the device, {queries} queries, {blocks} blocks");
    let measure = Measure::new(Similarity::Gaussian, Ground::L2, alpha).expect("alpha is positive");
    let texts = arguments.text("text").unwrap_or(OWN).split(',').map(text).collect();
    let bench = Bench { arguments, devices, device, measure, objects, queries, blocks, texts };
    let rates = bench.size(centroids, 1);
    if centroids <= SMALL_MAX {
        // One run measures the usual size too, as ratios of two runs say little.
        let usual = bench.size(USUAL, 1 + rates.len() as u64);
        for ((name, rate), (_, usual)) in rates.iter().zip(&usual) {
            let what = format!("{name}: kernel at {centroids} x {centroids} over {USUAL} x {USUAL}");
            let ratio = rate / usual;
            println!(
                "ratio       {what}: {ratio:.2}; by arithmetic {:.2}, by bytes {:.2}",
                (USUAL * USUAL) as f64 / (centroids * centroids) as f64,
                USUAL as f64 / centroids as f64
            );
            if centroids == RATIO_OF && is_gpu {
                verdict(&what, ratio, RATIO_WANTED, ratio >= RATIO_WANTED);
            }
        }
    }
}

/// The name of the library's own text.
const OWN: &str = "own";

/// A text for the kernel by its name: [`OWN`], or a file.
fn text(path: &str) -> (String, Option<&'static str>) {
    // Kept for the life of the process, like the library's own.
    let read = || &*std::fs::read_to_string(path).expect("a file with the kernel's text").leak();
    (path.rsplit('/').next().unwrap_or(path).to_owned(), (path != OWN).then(read))
}

/// Centroids up to which objects are measured beside those of the usual size.
const SMALL_MAX: usize = 48;
const USUAL: usize = 81;
/// How many times as many distances there must be of 23 centroids as of 81.
const RATIO_WANTED: f64 = 8.0;
const RATIO_OF: usize = 23;

/// Settings that the lines of every size share.
struct Bench<'a> {
    arguments: &'a Arguments,
    devices: &'a Arc<Devices>,
    device: usize,
    measure: Measure,
    objects: usize,
    queries: usize,
    blocks: usize,
    /// The texts for the kernel, which take turns, and their names.
    texts: Vec<(String, Option<&'static str>)>,
}

impl Bench<'_> {
    /// Measures objects of so many centroids in every way that the arguments name. `version` is the first scene's.
    /// Returns names and the rates of the kernel alone.
    fn size(&self, centroids: usize, mut version: u64) -> Vec<(String, f64)> {
        let Self { arguments, devices, device, .. } = *self;
        let info = devices.list()[device].info().clone();
        let is_gpu = info.class == DeviceClass::Gpu;
        println!("size        {centroids} x {centroids}, {} bytes an object", object_bytes(centroids));
        if is_gpu {
            // Products, exponential (its issue), two additions: one instruction each for 32 pairs; four are issued per
            // clock.
            let pairs = f64::from(info.compute_units) * 128.0 * f64::from(info.clock_mhz) * 1e6
                / (DIMENSIONS as f64 + 3.0);
            let limit = pairs / (centroids * centroids) as f64;
            println!(
                "limit       {limit:.3e} distances/s by issue, at the driver's clock of {} MHz",
                info.clock_mhz
            );
        }
        let signatures = Arc::new(Signatures::random(1, self.objects, centroids..=centroids));
        let ways: &[Way] = match arguments.text("streams") {
            Some("yes") => &[Way::Gathered],
            Some("pinned") => &[Way::Pinned],
            Some("no") => &[Way::Resident],
            _ => &[Way::Resident, Way::Gathered, Way::Pinned],
        };
        let mut rates = Vec::new();
        for &way in ways {
            for split in arguments.text("split").unwrap_or("256x8").split(',') {
                for apart in arguments.text("apart").unwrap_or("no").split(',') {
                    for _ in 0..arguments.get("rounds", 1) {
                        let of_texts = self.line((&signatures, centroids), way, (split, apart), version);
                        version += of_texts.len() as u64;
                        rates.extend(of_texts);
                    }
                }
            }
            if !is_gpu && way == Way::Gathered {
                println!(
                    "a device of class CPU shares its memory with the host: streaming costs a copy there"
                );
            }
        }
        rates
    }
}

impl Bench<'_> {
    /// Measures one way by each text. Returns names and the rates of the kernel alone.
    fn line(
        &self,
        (signatures, centroids): (&Arc<Signatures>, usize),
        way: Way,
        (split, apart): (&str, &str),
        version: u64,
    ) -> Vec<(String, f64)> {
        let Self { arguments, devices, device, measure, queries, .. } = *self;
        let mut rates = Vec::new();
        for ((name, text), version) in self.texts.iter().zip(version..) {
            let shape = shape(&measure, split, apart);
            let mut scene =
                signatures.with(|store| scene(signatures, store, measure, shape, queries, version, way));
            // Each size has signatures of its own on the device.
            scene.part = centroids as u64;
            scene.program.text = text.unwrap_or(scene.program.text);
            let way = format!("{way:?}").to_lowercase();
            let of_text = if self.texts.len() > 1 { format!(" {name}") } else { String::new() };
            let name = format!("{way} {split} apart={apart}{of_text}");
            let (kernel, whole) = line(&name, devices, device, &Arc::new(scene), measure, self.blocks);
            let row = ["4.15", &way, &self.objects.to_string()];
            arguments.append_csv(&[&row[..], &[&format!("{:.4}", 1e9 / whole)]].concat());
            rates.push((name, kernel));
        }
        rates
    }
}

/// The shape that a `split` and an `apart` name.
fn shape(measure: &Measure, split: &str, apart: &str) -> Shape {
    let (items, held) = split.split_once('x').expect("ITEMSxHELD");
    let (items, held) = (items.parse().expect("a number"), held.parse().expect("a number"));
    let shape = Shape::new(measure, DIMENSIONS).split(items, held);
    match apart.split_once('x') {
        Some((batch, products)) => {
            shape.matrices_of(batch.parse().expect("a number"), products.parse().expect("a number"))
        }
        None => shape.apart(apart == "yes"),
    }
}

/// Bytes of an object's coordinates and weights.
fn object_bytes(centroids: usize) -> usize {
    centroids * (DIMENSIONS + 1) * size_of::<f32>()
}

pub(super) fn scene(
    signatures: &Arc<Signatures>,
    store: &StoreColumns<'_>,
    measure: Measure,
    shape: Shape,
    queries: usize,
    version: u64,
    way: Way,
) -> Scene {
    let (mut rows, mut row_offsets, mut centres, mut factor) = (Vec::new(), vec![0], Vec::new(), 1.0);
    for query in 0..queries {
        let query = PreparedQuery::new(measure, store.signature(query));
        row_offsets.push(row_offsets[row_offsets.len() - 1] + query.device_rows(&shape, &mut rows) as u32);
        let (centre, scale) = query.device_frame();
        centres.extend_from_slice(centre);
        factor = scale;
    }
    let places = (0..store.rows()).map(|row| {
        let (start, len) = store.range(row);
        (start as u32, len as u32)
    });
    let layout = Layout::new(&shape, places);
    let program = distances_program(&shape);
    let signatures = Arc::clone(signatures);
    Scene { signatures, shape, layout, program, rows, row_offsets, centres, factor, version, part: 0, way }
}

/// A scene whose blocks are timed repeatedly.
pub(super) struct Timing {
    runner: Runner,
    scene: Arc<Scene>,
}

impl Timing {
    /// Brings everything to the device and checks it.
    pub(super) fn new(devices: &Arc<Devices>, device: usize, scene: Arc<Scene>, measure: Measure) -> Self {
        let mut runner = Runner::new(devices, device);
        runner.submit(&scene, true);
        let first = runner.take();
        scene.signatures.with(|store| check(&first, store, measure));
        (0..IN_FLIGHT).for_each(|_| runner.submit(&scene, false));
        (0..IN_FLIGHT).for_each(|_| drop(runner.take()));
        Self { runner, scene }
    }
}

/// Seconds per million distances, by the wall clock.
pub(super) fn time(timing: &mut Timing, devices: &Devices, device: usize) -> f64 {
    let Timing { runner, scene } = timing;
    let timed = timed(runner, devices, device, scene, 2 * IN_FLIGHT, IN_FLIGHT);
    1e6 * timed.wall / timed.size
}

/// One way to run the kernel: checked, then timed. Returns the distances per second of the kernel alone, and by the wall
/// clock.
fn line(
    name: &str,
    devices: &Arc<Devices>,
    device: usize,
    scene: &Arc<Scene>,
    measure: Measure,
    blocks: usize,
) -> (f64, f64) {
    let mut runner = Runner::new(devices, device);
    runner.submit(scene, true);
    let first = runner.take();
    let worst = scene.signatures.with(|store| check(&first, store, measure));
    // Both end points have all data, and pinned data is pinned, before the clock starts.
    runner.submit(scene, false);
    drop(runner.take());
    (0..IN_FLIGHT).for_each(|_| runner.submit(scene, false));
    (0..IN_FLIGHT).for_each(|_| drop(runner.take()));
    let alone = timed(&mut runner, devices, device, scene, blocks.div_ceil(4), 1);
    let together = timed(&mut runner, devices, device, scene, blocks, IN_FLIGHT);
    let bytes = if scene.way == Way::Resident { 0.0 } else { (first.stride() * (DIMENSIONS + 1) * 4) as f64 };
    println!(
        "{name:28} kernel {:.3e} /s   whole {:.3e} /s, {:5.1} % of it   to the device {:5.1} GB/s   worst error {worst:.1e}",
        alone.size / alone.kernel,
        together.size / together.wall,
        100.0 * together.size / together.wall * alone.kernel / alone.size,
        bytes * blocks as f64 / together.wall / 1e9,
    );
    let (kernel, whole) = (alone.size / alone.kernel, together.size / together.wall);
    // One query reads each object once; more read most of them from a cache.
    let centroids = scene.signatures.weights.len() / scene.signatures.count();
    let read = kernel / scene.queries() as f64 * object_bytes(centroids) as f64;
    println!("{:28} reads objects at {:.1} GB/s", "", read / 1e9);
    (kernel, whole)
}

/// The times of some blocks, in seconds.
struct Timed {
    size: f64,
    kernel: f64,
    wall: f64,
}

fn timed(
    runner: &mut Runner,
    devices: &Devices,
    device: usize,
    scene: &Arc<Scene>,
    blocks: usize,
    in_flight: usize,
) -> Timed {
    let before = devices.statistics()[device];
    let begun = Instant::now();
    let mut handed = 0;
    for taken in 0..blocks {
        while handed < blocks && handed < taken + in_flight {
            runner.submit(scene, false);
            handed += 1;
        }
        runner.take();
    }
    let wall = begun.elapsed().as_secs_f64();
    let after = devices.statistics()[device];
    let kernel = (after.kernel_ns - before.kernel_ns) as f64 / 1e9;
    Timed { size: (after.size - before.size) as f64, kernel, wall }
}

/// The largest error in sigma among some objects; panics if one exceeds the error that the query declares.
fn check(block: &Scan, store: &StoreColumns<'_>, measure: Measure) -> f64 {
    let (scene, sums) = (&block.scene, block.sums.as_ref().expect("the first block keeps its sums"));
    let pieces = scene.layout.pieces.len();
    let scale = f64::from(scene.factor);
    let mut worst: f64 = 0.0;
    for query in 0..scene.row_offsets.len() - 1 {
        let signature = store.signature(query);
        let prepared = PreparedQuery::new(measure, signature);
        for place in 0..CHECKED {
            let row = place * (store.rows() - 1) / (CHECKED - 1).max(1);
            let candidate = store.signature(row);
            let found = scene.layout.sum(row, &sums[query * pieces..][..pieces]);
            let exact = reference::sigma(&measure, signature, candidate);
            let allowed = prepared.error_squared_of(Arithmetic::Matrices, f64::INFINITY, 0.0) / 2.0;
            assert!((found - exact).abs() <= allowed, "row {row}: {found}, not {exact} within {allowed:e}");
            worst = worst.max((found - exact).abs());
            let (centre, _) = prepared.device_frame();
            let norm = |i: usize| -> f64 {
                (0..DIMENSIONS)
                    .map(|d| ((f64::from(candidate.coordinate(d)[i]) - f64::from(centre[d])) * scale).powi(2))
                    .sum()
            };
            assert!(
                (0..candidate.len()).all(|i| norm(i) < f64::from(APART_NORM_MAX)),
                "norms that may be apart"
            );
        }
    }
    worst
}
