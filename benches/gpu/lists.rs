//! `what=lists`: searches through lists of product codes, on a device and on slots in one run.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use arrow_array::RecordBatch;
use boxwork::shipped;
use boxwork_kernels::pieces::collect;
use boxwork_kernels::vector::NumberType;
use boxwork_operators::catalog;
use boxwork_runtime::feeding::{
    Argument, Back, Block, DeviceClass, DeviceError, Devices, Feed, Grid, KernelSpec, ProgramSource, Value,
};
use boxwork_runtime::operator::Resource;
use boxwork_runtime::parameter::Value as Parameter;
use boxwork_runtime::prepare::Prepared;
use boxwork_runtime::statistics::TraceEvent;
use boxwork_runtime::{Config, Runtime};
use boxwork_stores::lists::{Assigned, Coding, Lists, ListsOptions, Training, write};
use boxwork_stores::space::{SharedSpace, Space};
use boxwork_stores::spaces::{self, DistanceOptions};
use boxwork_stores::store::{SharedStore, Store};

use super::bounds::run_block;
use super::support::{Arguments, Spread, timeline, verdict};
use super::vectors::{Answers, asked, batches, columns_of, generator, store};
use super::{config, several};

/// Rounds of k-means: enough for lists whose sizes are those of usual ones.
const ITERATIONS: usize = 4;
/// Rows that a thread assigns at a time.
const ASSIGNED: usize = 4096;
/// Objects of an answer.
const K: usize = 10;

const LOCAL_TEXT: &str = "\
__kernel __attribute__((reqd_work_group_size(256, 1, 1))) void lookups(uint rounds, __global float *sums) {
    __local float table[4096];
    for (uint i = get_local_id(0); i < 4096; i += 256) {
        table[i] = (float)i;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    uint state = get_global_id(0) * 0x9e3779b9u + 12345u;
    float sum = 0.0f;
    for (uint round = 0; round < rounds; round++) {
        // Four words of sixteen random codes.
#pragma unroll
        for (uint w = 0; w < 4; w++) {
            state = state * 1664525u + 1013904223u;
            const uint word = state ^ state >> 13;
#pragma unroll
            for (uint i = 0; i < 4; i++) {
                sum += table[(w * 4 + i) * 256 + (word >> i * 8 & 255)];
            }
        }
    }
    sums[get_global_id(0)] = sum;
}
";

static LOCAL: [KernelSpec; 1] = [KernelSpec {
    name: "lookups",
    arguments: &[("rounds", Argument::Value(4)), ("sums", Argument::Buffer)],
}];

/// Looks numbers of tables in local memory up, at random places.
struct Lookups {
    groups: usize,
    rounds: usize,
}

impl Block for Lookups {
    fn size(&self) -> u64 {
        1
    }

    fn feed(&mut self, feed: &mut Feed<'_>) -> Result<(), DeviceError> {
        let constants = Vec::new();
        let program =
            ProgramSource { name: "lookups", text: LOCAL_TEXT, constants, kernels: &LOCAL, exact: false };
        feed.output::<f32>("sums", self.groups * 256)?;
        let values = [("rounds", Value::of(self.rounds as u32))];
        feed.launch(&program, "lookups", Grid::of([self.groups], [256]), &values)?;
        feed.read::<f32>("sums", 1)
    }

    fn collect(&mut self, _: &Back<'_>) {}
}

/// Numbers that a device looks up a second in local memory.
fn lookups(devices: &Arc<Devices>, device: usize, rounds: usize) -> f64 {
    let info = devices.list()[device].info();
    let is_gpu = info.class == DeviceClass::Gpu;
    let (groups, repeats) = (info.compute_units as usize * 16, if is_gpu { 2000 } else { 20 });
    let block = || Lookups { groups, rounds: repeats };
    run_block(devices, device, block());
    let rate = |_| (groups * 256 * repeats * 16) as f64 / run_block(devices, device, block()).1.max(1e-9);
    let rate = Spread::of((0..rounds).map(rate));
    println!("limit       {:.3e} look-ups of local memory a second, random codes", rate.median);
    rate.median
}

/// Runs pieces on so many threads.
fn side_by_side(threads: usize) -> impl FnMut(usize, &(dyn Fn(usize) + Sync)) -> bool {
    move |count, work| {
        let next = AtomicUsize::new(0);
        let until_done = || {
            while let Some(piece) = Some(next.fetch_add(1, Ordering::Relaxed)).filter(|piece| *piece < count)
            {
                work(piece);
            }
        };
        std::thread::scope(|scope| (0..threads).for_each(|_| _ = scope.spawn(until_done)));
        true
    }
}

/// The lists of a store, made by the processor.
fn lists(
    space: &Arc<dyn Space>,
    rows: &[f32],
    dimensions: usize,
    (count, coding, parts): (usize, Coding, usize),
    folder: &Path,
) -> Arc<Lists> {
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    let options = ListsOptions {
        lists: Some(count),
        parts: Some(parts),
        iterations: ITERATIONS,
        seed: 1,
        ..ListsOptions::of(coding)
    };
    let begun = Instant::now();
    let training = Training::new(space, options).expect("options that fit");
    let quantizers = training.train(&mut side_by_side(threads)).expect("memory").expect("no one cancels it");
    let pieces: Vec<&[f32]> = rows.chunks(ASSIGNED * dimensions).collect();
    let parts = collect(&mut side_by_side(threads), pieces.len(), |piece| quantizers.assign(pieces[piece]));
    let mut assigned =
        Assigned { ids: (0..(rows.len() / dimensions) as u64).collect(), ..Assigned::default() };
    for (lists, codes) in parts.expect("no one cancels it") {
        assigned.lists.extend(lists);
        assigned.codes.extend(codes);
    }
    let path = folder.join(format!("{}.lists.arrow", coding.name()));
    write(&path, space, &quantizers, &assigned, &|| false).expect("the folder can be written to");
    let lists = Lists::open(&path, space).expect("lists");
    println!("lists       {count} of {} in {:.1} s", coding.name(), begun.elapsed().as_secs_f64());
    Arc::new(lists)
}

struct World<'a> {
    runtime: Runtime,
    store: Arc<dyn Store>,
    space: Arc<dyn Space>,
    devices: &'a Arc<Devices>,
    device: usize,
    dimensions: usize,
    queries: Vec<f32>,
    /// These queries as requests.
    asked: Vec<RecordBatch>,
    rounds: usize,
    trace: bool,
    /// Look-ups of local memory a second.
    lookups: f64,
}

/// What is asked.
#[derive(Clone, Copy)]
struct Question {
    probes: usize,
    refine: usize,
}

impl World<'_> {
    fn count(&self) -> usize {
        self.queries.len() / self.dimensions
    }

    fn resources(&self, vectors: &str, lists: Option<&Arc<Lists>>) -> BTreeMap<String, Resource> {
        let mut resources: BTreeMap<String, Resource> = BTreeMap::from([
            (vectors.to_owned(), Arc::new(SharedStore(Arc::clone(&self.store))) as Resource),
            ("space".to_owned(), Arc::new(SharedSpace(Arc::clone(&self.space))) as Resource),
        ]);
        resources.extend(lists.map(|lists| ("lists".to_owned(), Arc::clone(lists) as Resource)));
        resources
    }

    fn prepared(
        &self,
        pipeline: &shipped::Shipped,
        given: &[(&str, Parameter)],
        resources: BTreeMap<String, Resource>,
    ) -> Arc<Prepared> {
        let text = |text: &str| Parameter::Text(text.to_owned());
        let usual = [
            ("store", text("rows")),
            ("queries", Parameter::List(Vec::new())),
            ("k", Parameter::Integer(K as i64)),
            ("format", text("csv")),
            ("out", text("/dev/null")),
        ];
        let values =
            usual.iter().chain(given).map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        let declaration = &pipeline.load().declaration;
        let environment = self.runtime.environment();
        let prepared = Prepared::with_resources(declaration, &catalog(), &values, &environment, resources);
        Arc::new(prepared.unwrap_or_else(|error| panic!("{error}")))
    }

    fn probe(&self, lists: &Arc<Lists>, question: Question, place: &str) -> Arc<Prepared> {
        let whole = |number: usize| Parameter::Integer(number as i64);
        let given = [
            ("lists", Parameter::Text(lists.path().display().to_string())),
            ("probes", whole(question.probes)),
            ("refine", whole(question.refine)),
            ("device", Parameter::Text(place.to_owned())),
        ];
        self.prepared(&shipped::VECTOR_PROBE, &given, self.resources("vectors", Some(lists)))
    }

    /// The exact answers.
    fn truth(&self) -> Answers {
        let place = format!("gpu:{}", self.device);
        let given = [("device", Parameter::Text(place))];
        let exact = self.prepared(&shipped::VECTOR_SEARCH, &given, self.resources("objects", None));
        self.search(&exact)
    }

    fn search(&self, prepared: &Arc<Prepared>) -> Answers {
        columns_of(&self.batches(prepared))
    }

    fn batches(&self, prepared: &Arc<Prepared>) -> Vec<RecordBatch> {
        batches(&self.runtime, prepared, &self.asked)
    }

    fn seconds(&self, prepared: &Arc<Prepared>, wanted: &Answers) -> f64 {
        self.runtime.take_trace();
        let begun = Instant::now();
        let found = self.batches(prepared);
        let taken = begun.elapsed().as_secs_f64();
        assert!(columns_of(&found) == *wanted, "each search gives the same");
        taken
    }
}

/// The rows of the lists that queries look into, with those that fill groups.
fn probed(lists: &Lists, queries: &[f32], probes: usize) -> u64 {
    let mut sizes = vec![0u64; lists.count()];
    for segment in lists.segments() {
        sizes[segment.list as usize] += segment.rows() as u64;
    }
    let near = lists.nearest(queries, probes.min(lists.count()));
    near.iter().flatten().map(|(_, list)| sizes[*list as usize]).sum()
}

/// The share of the true objects that are found.
fn recall(truth: &Answers, found: &Answers) -> f64 {
    let pairs = truth.0.chunks(K).zip(found.0.chunks(K));
    let common: usize =
        pairs.map(|(truth, found)| truth.iter().filter(|id| found.contains(id)).count()).sum();
    common as f64 / truth.0.len() as f64
}

/// Prints the time that boxes took on slots, box by box.
fn tell_boxes(trace: &[TraceEvent]) {
    let mut by_kind: BTreeMap<String, (f64, usize)> = BTreeMap::new();
    for event in trace {
        let of_kind = by_kind.entry(event.kind.to_string()).or_default();
        *of_kind = (of_kind.0 + event.duration_ns as f64 / 1e6, of_kind.1 + 1);
    }
    for (kind, (ms, count)) in by_kind {
        println!("    {ms:9.3} ms in {count:>5} events  {kind}");
    }
}

pub(super) fn run(arguments: &Arguments, devices: &Arc<Devices>, device: usize) {
    let is_gpu = devices.list()[device].info().class == DeviceClass::Gpu;
    let rows: u64 = arguments.get("rows", arguments.get("objects", if is_gpu { 1_000_000 } else { 20_000 }));
    let queries: u64 = arguments.get("queries", if is_gpu { 10_000 } else { 300 });
    let count: usize = arguments.get("lists", if rows >= 1_000_000 { 4096 } else { 64 });
    let rounds = arguments.get("rounds", 7);
    println!(
        "question    how many queries a second look into lists of product codes on a device, and on slots?"
    );
    let (generator, dimensions) = generator(arguments);
    let all = generator.rows(0..rows).all().widened();
    println!("rows        {rows} x {dimensions}, {queries} queries, f32");
    let store = store(&all, dimensions, NumberType::F32);
    let space = spaces::open(&DistanceOptions::named("l2"), Arc::clone(&store)).expect("a space");
    let trace = arguments.get("timeline", 0) != 0;
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    let workers = arguments.get("workers", cores);
    let runtime = Runtime::start(Config { trace, ..config(workers, devices) });
    let queries = generator.rows(rows..rows + queries).all().widened();
    let world = World {
        asked: asked(dimensions, &queries),
        runtime: runtime.expect("the system gives threads"),
        store,
        space,
        devices,
        device,
        dimensions,
        queries,
        rounds,
        trace,
        lookups: lookups(devices, device, rounds),
    };
    let parent = arguments.text("folder").map_or_else(std::env::temp_dir, Into::into);
    let folder = tempfile::tempdir_in(parent).expect("the folder can be written to");
    let truth = world.truth();
    let numbers = |name: &str, default: &str| -> Vec<usize> {
        let text = arguments.text(name).unwrap_or(default);
        text.split(',').map(|number| number.parse().expect("numbers")).collect()
    };
    for codes in arguments.text("codes").unwrap_or("product").split(',') {
        let coding = Coding::named(codes).expect("codes=product or fast");
        let usual = if coding == Coding::Fast { dimensions.div_ceil(4) } else { dimensions.div_ceil(8) };
        let sizes = (count, coding, arguments.get("parts", usual));
        let lists = lists(&world.space, &all, dimensions, sizes, folder.path());
        for probes in numbers("probes", "32") {
            for refine in numbers("refine", "1,10") {
                ask(arguments, &world, &lists, Question { probes, refine }, &truth);
            }
        }
    }
}

/// Measures both sides in turns.
fn ask(arguments: &Arguments, world: &World<'_>, lists: &Arc<Lists>, question: Question, truth: &Answers) {
    let place = format!("gpu:{}", world.device);
    let (on_device, on_slots) = (world.probe(lists, question, &place), world.probe(lists, question, "cpu"));
    let wanted = world.search(&on_slots);
    assert!(world.search(&on_device) == wanted, "the device finds the same");
    let Question { probes, refine } = question;
    let coding = lists.quantizers().coding();
    let name = format!(
        "{} x {} bits, {probes} of {} lists, refine {refine}",
        lists.quantizers().parts(),
        if coding == Coding::Fast { 4 } else { 8 },
        lists.count()
    );
    println!("asked       {name}");
    println!(
        "checked     ids and distances are those of the processor, to the bit; recall@{K} {:.4}",
        recall(truth, &wanted)
    );
    let (mut seconds, mut of_slots, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    let mut kernels: BTreeMap<&'static str, Vec<f64>> = BTreeMap::new();
    let mut sums = Vec::new();
    for _ in 0..world.rounds {
        let before = world.devices.kernel_times(world.device);
        seconds.push(world.seconds(&on_device, &wanted));
        let mut sum = 0.0;
        for (name, ns) in world.devices.kernel_times(world.device) {
            let ms = (ns - before.get(name).copied().unwrap_or(0)) as f64 / 1e6;
            if ms > 0.0 {
                kernels.entry(name).or_default().push(ms);
                sum += ms;
            }
        }
        sums.push(sum / 1e3);
        if world.trace && seconds.len() == world.rounds {
            let trace = world.runtime.take_trace();
            println!("timeline    of the last request on the device");
            timeline::print(&trace);
            tell_boxes(&trace);
        }
        of_slots.push(world.seconds(&on_slots, &wanted));
        ratios.push(of_slots[of_slots.len() - 1] / seconds[seconds.len() - 1]);
    }
    let rate = |seconds: &Spread| world.count() as f64 / seconds.median;
    let (seconds, of_slots, sums) = (Spread::of(seconds), Spread::of(of_slots), Spread::of(sums));
    println!("whole       on the device {:.0} queries/s, {:.2} ms", rate(&seconds), 1e3 * seconds.median);
    println!("            on slots {:.0} queries/s, {:.2} ms", rate(&of_slots), 1e3 * of_slots.median);
    println!("ratio       the device is {:.2} times as fast as slots", Spread::of(ratios).median);
    println!("kernels     {:.0} queries/s, {:.2} ms, of which:", rate(&sums), 1e3 * sums.median);
    let mut of_sums = f64::INFINITY;
    for (name, times) in kernels {
        let median = Spread::of(times).median;
        println!("    {median:9.3} ms  {name}");
        of_sums = if name == "list_sums" { median / 1e3 } else { of_sums };
    }
    let looked_up = probed(lists, &world.queries, probes) as f64 * lists.quantizers().parts() as f64;
    println!(
        "look-ups    {looked_up:.3e}, {:.3e} a second, {:.2} of the limit",
        looked_up / of_sums,
        looked_up / of_sums / world.lookups
    );
    if let Some((number, places)) = several::places(arguments, world.devices, world.device) {
        let on_all = world.probe(lists, question, &places);
        let search =
            |prepared: &Arc<Prepared>| assert!(world.search(prepared) == wanted, "devices find the same");
        several::compare(
            &name,
            (number, world.rounds),
            [1.8, 3.4],
            || search(&on_device),
            || search(&on_all),
        );
    }
    if lists.objects() == 1_000_000 && probes == 32 && lists.count() == 4096 {
        verdict("queries/s of the whole pipeline", rate(&seconds), 1e6, rate(&seconds) >= 1e6);
        verdict("queries/s of the kernels alone", rate(&sums), 1e6, rate(&sums) >= 1e6);
    }
}
