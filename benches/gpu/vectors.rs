//! `what=vectors`: the nearest of many vectors on a device, for many queries and for one.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use arrow_array::builder::{Float32Builder, ListBuilder};
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, UInt64Type};
use arrow_array::{ArrayRef, RecordBatch, StringArray, UInt32Array};
use boxwork::shipped;
use boxwork_kernels::vector::device::padded;
use boxwork_kernels::vector::generate::Generator;
use boxwork_kernels::vector::{NumberType, VectorRef};
use boxwork_operators::catalog;
use boxwork_runtime::feeding::{DeviceClass, Devices};
use boxwork_runtime::operator::{RequestInput, RequestOutput, Resource};
use boxwork_runtime::parameter::Value;
use boxwork_runtime::prepare::Prepared;
use boxwork_runtime::request::Submission;
use boxwork_runtime::{Config, Runtime};
use boxwork_stores::kinds::{Kind as _, Vectors};
use boxwork_stores::object_store::Rows;
use boxwork_stores::space::SharedSpace;
use boxwork_stores::spaces::{self, DistanceOptions};
use boxwork_stores::store::{SharedStore, Store};

use super::config;
use super::support::peer::Peer;
use super::support::{Arguments, Spread, timeline, verdict};
use super::{memory, several};

/// Queries of a request at most, as the pipelines declare it.
const OF_REQUEST: usize = 1024;
const SEED: u64 = 7;
const SAMPLE_DIMENSIONS: usize = 128;
/// Queries of which each is a request of its own.
const SINGLES: usize = 50;

/// What requests of one pipeline find: ids and distances, query after query.
pub(super) type Answers = (Vec<u64>, Vec<f64>);

pub(super) fn run(arguments: &Arguments, devices: &Arc<Devices>, device: usize) {
    let info = devices.list()[device].info();
    let is_gpu = info.class == DeviceClass::Gpu;
    let count: u64 = arguments.get("objects", if is_gpu { 1_000_000 } else { 20_000 });
    let queries_count: u64 = arguments.get("queries", if is_gpu { 10_000 } else { 300 });
    let rounds = arguments.get("rounds", 7);
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    let workers = arguments.get("workers", cores);
    let numbers: NumberType = arguments.text("type").unwrap_or("f32").parse().expect("type=f32 or u8");
    println!("question    how many queries a second find their nearest vectors on a device, exactly?");
    let (generator, dimensions) = generator(arguments);
    let rows = generator.rows(0..count).all().widened();
    let queries = generator.rows(count..count + queries_count).all().widened();
    println!("rows        {count} x {dimensions}, {queries_count} queries, {}", numbers.name());
    let store = store(&rows, dimensions, numbers);
    let space = spaces::open(&DistanceOptions::named("l2"), Arc::clone(&store)).expect("a space");
    let trace = arguments.get("timeline", 0) != 0;
    let runtime = Runtime::start(Config { trace, ..config(workers, devices) }).expect("threads");
    let world = World { runtime, trace, store, space, dimensions };

    let parent = arguments.text("folder").map_or_else(std::env::temp_dir, Into::into);
    let folder = tempfile::tempdir_in(parent).expect("the folder can be written to");
    let mut peer = (arguments.text("peer") == Some("torch")).then(|| {
        write(&folder.path().join("rows.f32"), &rows);
        write(&folder.path().join("queries.f32"), &queries);
        Peer::torch(&[&folder.path().display().to_string(), &dimensions.to_string()])
    });

    // A multiply-add for each lane, clock and dimension.
    let limit = f64::from(info.compute_units) * 128.0 * f64::from(info.clock_mhz) * 1e6 / dimensions as f64;
    let place = format!("gpu:{device}");
    let few = asked(dimensions, &queries[..dimensions * 200.min(queries_count as usize)]);
    let all = asked(dimensions, &queries);
    for k in arguments.text("k").unwrap_or("10,100").split(',').map(|k| k.parse::<usize>().expect("k")) {
        let (on_device, on_slots) = (world.prepared(k, &place), world.prepared(k, "cpu"));
        let of_few = |prepared: &Arc<Prepared>| world.search(prepared, &few);
        assert!(of_few(&on_device) == of_few(&on_slots), "the device finds the same");
        println!("checked     k {k}: ids and distances are those of the processor, to the bit");
        let found = world.search(&on_device, &all);
        let mut parts = BTreeMap::new();
        let is_found = |batches: Vec<RecordBatch>| columns_of(&batches) == found;
        let (mut seconds, mut kernels, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..rounds {
            let before = devices.statistics()[device].kernel_ns;
            world.runtime.take_trace();
            parts = devices.kernel_times(device);
            let begun = Instant::now();
            let again = world.batches(&on_device, &all);
            let taken = begun.elapsed().as_secs_f64();
            assert!(is_found(again), "each search gives the same");
            seconds.push(taken);
            kernels.push((devices.statistics()[device].kernel_ns - before) as f64 / 1e9);
            if let Some(Some(peer)) = &mut peer {
                let of_peer = peer.seconds(&format!("flat {k}"));
                ratios.push(of_peer / taken);
                compare(&folder.path().join("ids.i64"), &found.0);
            }
        }
        if trace {
            timeline::print(&world.runtime.take_trace());
        }
        let sizes = (k, count, queries_count);
        tell_rates(sizes, (Spread::of(seconds), Spread::of(kernels)), limit, is_gpu);
        tell_parts(&parts, &devices.kernel_times(device));
        tell_ratio(k, ratios);
        if let Some((number, places)) = several::places(arguments, devices, device) {
            let prepared = (&on_device, &world.prepared(k, &places));
            assert!(of_few(prepared.1) == of_few(&on_slots), "devices find the same");
            let what = format!("k {k}, {queries_count} queries, {count} rows");
            world.compare(&what, prepared, (&all, &found), (number, rounds, count));
        }
    }
    // Rows lie on the device as halves, and two numbers for each.
    let bytes = count as usize * (padded(dimensions) * 2 + 8);
    let read = memory::rates(devices, device, bytes, rounds).read;
    // A device keeps a store of three quarters of its memory at most.
    let of_store = count as f64 * (dimensions * numbers.bytes() + 8) as f64;
    let is_kept = of_store <= 0.75 * devices.list()[device].memory_budget_bytes() as f64;
    singles(&world, &place, &queries, devices, (device, bytes, read, is_kept));
}

/// The rates of a search, and the share of its kernels.
fn tell_rates(
    (k, count, queries): (usize, u64, u64),
    (seconds, kernels): (Spread, Spread),
    limit: f64,
    is_gpu: bool,
) {
    let pairs = (count * queries) as f64;
    let rate = queries as f64 / seconds.median;
    println!(
        "whole       k {k}: {rate:.0} queries/s, {:.1} ms; {:.3e} distances/s",
        1e3 * seconds.median,
        pairs / seconds.median
    );
    println!(
        "kernels     k {k}: {:.1} ms, {:.3e} distances/s, {:.2} of the limit in f32, {limit:.3e}",
        1e3 * kernels.median,
        pairs / kernels.median,
        pairs / kernels.median / limit
    );
    if is_gpu && count == 1_000_000 {
        verdict(&format!("k {k}, queries/s"), rate, 3e5, rate >= 3e5);
        let share = kernels.median / seconds.median;
        verdict(&format!("k {k}, kernels over the whole pipeline"), share, 0.85, share >= 0.85);
    }
}

/// The time of each kernel between two readings.
pub(super) fn tell_parts(before: &BTreeMap<&'static str, u64>, after: &BTreeMap<&'static str, u64>) {
    let of = |(name, ns): (&&str, &u64)| {
        let taken = ns - before.get(name).unwrap_or(&0);
        (taken > 0).then(|| format!("{name} {:.2} ms", taken as f64 / 1e6))
    };
    println!("of these    the last round: {}", after.iter().filter_map(of).collect::<Vec<_>>().join(", "));
}

/// How the peer compares.
fn tell_ratio(k: usize, ratios: Vec<f64>) {
    if !ratios.is_empty() {
        let ratio = Spread::of(ratios);
        println!("ratio       k {k}: {ratio:.2} times as fast as PyTorch");
        let what = format!("k {k}, over a product and topk by PyTorch");
        verdict(&what, ratio.median, 5.0, ratio.median >= 5.0);
    }
}

/// One query at a time.
fn singles(
    world: &World,
    place: &str,
    queries: &[f32],
    devices: &Devices,
    (device, bytes, read, is_kept): (usize, usize, f64, bool),
) {
    let one = world.prepared(10, place);
    let (mut seconds, mut kernels) = (Vec::new(), Vec::new());
    for query in queries.chunks_exact(world.dimensions).take(SINGLES) {
        let query = asked(world.dimensions, query);
        let before = devices.statistics()[device].kernel_ns;
        let begun = Instant::now();
        world.batches(&one, &query);
        seconds.push(begun.elapsed().as_secs_f64());
        kernels.push((devices.statistics()[device].kernel_ns - before) as f64 / 1e9);
    }
    let (seconds, kernels) = (Spread::of(seconds), Spread::of(kernels));
    let share = bytes as f64 / kernels.median / 1e9 / read;
    println!(
        "one query   k 10: kernels {:.0} us, {share:.2} of the rate of reading; whole request {:.2} ms",
        1e6 * kernels.median,
        1e3 * seconds.median
    );
    // Rows that the device does not keep are sent for each query.
    if !is_kept {
        let rate = bytes as f64 / seconds.median / 1e9;
        println!("sent        {bytes:.3e} bytes of rows for each query, {rate:.1} GB/s");
        verdict("rows that pass through, GB/s of 55", rate, 0.9 * 55.0, rate >= 0.9 * 55.0);
        return;
    }
    if devices.gpus().contains(&device) {
        verdict("one query, share of the rate of reading", share, 0.8, share >= 0.8);
    }
}

/// Rows like those of a sample, or of a mixture; and their dimensions.
pub(super) fn generator(arguments: &Arguments) -> (Generator, usize) {
    match arguments.text("sample") {
        Some(path) => {
            let bytes = fs::read(path).unwrap_or_else(|error| panic!("sample={path}: {error}"));
            let made = Generator::of_sample(SEED, VectorRef::U8(&bytes), SAMPLE_DIMENSIONS);
            (made.expect("a sample of 16 rows"), SAMPLE_DIMENSIONS)
        }
        None => {
            let dimensions = arguments.get("dimensions", SAMPLE_DIMENSIONS);
            (Generator::of_mixture(SEED, dimensions), dimensions)
        }
    }
}

/// A store in memory.
pub(super) fn store(rows: &[f32], dimensions: usize, numbers: NumberType) -> Arc<dyn Store> {
    let mut made = Rows::new(Vectors::of(dimensions, numbers));
    for (row, of_row) in rows.chunks_exact(dimensions).enumerate() {
        let bytes: Vec<u8> = match numbers {
            NumberType::U8 => of_row.iter().map(|number| *number as u8).collect(),
            _ => Vec::new(),
        };
        let of_row = if bytes.is_empty() { VectorRef::F32(of_row) } else { VectorRef::U8(&bytes) };
        made.push(&row.to_string(), |builder| Vectors::push(builder, of_row)).expect("a row");
        made.keep().expect("memory");
    }
    Arc::new(made.finish(Path::new("rows"), None).expect("some rows"))
}

pub(super) fn write(path: &Path, numbers: &[f32]) {
    let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    fs::write(path, bytes).expect("the folder can be written to");
}

/// Most ids of the peer are ours: its sums are rounded.
fn compare(path: &Path, ids: &[u64]) {
    let bytes = fs::read(path).expect("the peer has written its ids");
    let of_peer = bytes.as_chunks::<8>().0.iter().map(|bytes| u64::from_le_bytes(*bytes));
    let equal = of_peer.zip(ids).filter(|(peer, id)| peer == *id).count();
    assert!(equal * 100 > ids.len() * 95, "{equal} of {} ids are equal", ids.len());
}

struct World {
    runtime: Runtime,
    trace: bool,
    store: Arc<dyn Store>,
    space: Arc<dyn boxwork_stores::space::Space>,
    dimensions: usize,
}

impl World {
    fn prepared(&self, k: usize, device: &str) -> Arc<Prepared> {
        let text = |text: &str| Value::Text(text.to_owned());
        let values = BTreeMap::from([
            ("store".to_owned(), text("rows")),
            ("queries".to_owned(), Value::List(Vec::new())),
            ("k".to_owned(), Value::Integer(k as i64)),
            ("device".to_owned(), text(device)),
            ("format".to_owned(), text("csv")),
            ("out".to_owned(), text("/dev/null")),
        ]);
        let resources: BTreeMap<String, Resource> = BTreeMap::from([
            ("objects".to_owned(), Arc::new(SharedStore(Arc::clone(&self.store))) as Resource),
            ("space".to_owned(), Arc::new(SharedSpace(Arc::clone(&self.space))) as Resource),
        ]);
        let declaration = &shipped::VECTOR_SEARCH.load().declaration;
        let environment = self.runtime.environment();
        let prepared = Prepared::with_resources(declaration, &catalog(), &values, &environment, resources);
        Arc::new(prepared.unwrap_or_else(|error| panic!("{error}")))
    }

    /// Compares one device with several, which find the same.
    fn compare(
        &self,
        what: &str,
        (on_one, on_all): (&Arc<Prepared>, &Arc<Prepared>),
        (asked, found): (&[RecordBatch], &Answers),
        (number, rounds, rows): (usize, usize, u64),
    ) {
        let search = |prepared: &Arc<Prepared>| self.batches(prepared, asked);
        let is_found = |prepared: &Arc<Prepared>| columns_of(&search(prepared)) == *found;
        assert!(is_found(on_one) && is_found(on_all), "and again");
        let wanted = if rows >= 8_000_000 { [1.8, 3.4] } else { [1.9, 3.7] };
        several::compare(what, (number, rounds), wanted, || drop(search(on_one)), || drop(search(on_all)));
        if self.trace {
            self.runtime.take_trace();
            search(on_all);
            timeline::print(&self.runtime.take_trace());
        }
    }

    fn search(&self, prepared: &Arc<Prepared>, asked: &[RecordBatch]) -> Answers {
        columns_of(&self.batches(prepared, asked))
    }

    fn batches(&self, prepared: &Arc<Prepared>, asked: &[RecordBatch]) -> Vec<RecordBatch> {
        batches(&self.runtime, prepared, asked)
    }
}

/// The ids and distances of batches.
pub(super) fn columns_of(batches: &[RecordBatch]) -> Answers {
    let (mut ids, mut distances) = (Vec::new(), Vec::new());
    for batch in batches {
        ids.extend_from_slice(batch["id"].as_primitive::<UInt64Type>().values());
        distances.extend_from_slice(batch["distance"].as_primitive::<Float64Type>().values());
    }
    (ids, distances)
}

/// Queries in as few requests as they fit. They are made before the clock starts, as the peer's tensors are.
pub(super) fn asked(dimensions: usize, queries: &[f32]) -> Vec<RecordBatch> {
    let of_request = |queries: &[f32]| {
        let count = queries.len() / dimensions;
        let columns: [(&str, ArrayRef); 3] = [
            ("query", Arc::new(UInt32Array::from_iter_values(0..count as u32))),
            ("name", Arc::new(StringArray::from_iter_values((0..count).map(|query| query.to_string())))),
            ("object", lists(dimensions, queries)),
        ];
        RecordBatch::try_from_iter(columns).expect("columns of one length")
    };
    queries.chunks(OF_REQUEST * dimensions).map(of_request).collect()
}

/// Searches for the queries of all requests at once: the batches of the requests in their order.
pub(super) fn batches(
    runtime: &Runtime,
    prepared: &Arc<Prepared>,
    asked: &[RecordBatch],
) -> Vec<RecordBatch> {
    let mut under_way = Vec::new();
    for asked in asked {
        let (output, found) = RequestOutput::collected();
        let submission = Submission {
            inputs: BTreeMap::from([("query".to_owned(), RequestInput::batches(vec![asked.clone()]))]),
            outputs: BTreeMap::from([("results".to_owned(), output)]),
            ..Submission::default()
        };
        let request = runtime.submit(prepared, &submission).unwrap_or_else(|error| panic!("{error}"));
        under_way.push((request, found));
    }
    let mut batches = Vec::new();
    for (request, found) in under_way {
        request.wait().result.clone().unwrap_or_else(|error| panic!("{error}"));
        batches.extend(found.take());
    }
    batches
}

/// Lists of numbers.
fn lists(dimensions: usize, numbers: &[f32]) -> ArrayRef {
    let item = Arc::new(arrow_schema::Field::new("item", arrow_schema::DataType::Float32, false));
    let mut lists = ListBuilder::new(Float32Builder::with_capacity(numbers.len())).with_field(item);
    for row in numbers.chunks_exact(dimensions) {
        lists.values().append_slice(row);
        lists.append(true);
    }
    Arc::new(lists.finish())
}
