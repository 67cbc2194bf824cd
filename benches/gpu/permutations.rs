//! `what=permutation`: the permutations of a store of vectors, on a device and on slots in one run, by `write_permutations`; and the scan
//! of lists that lie on the device.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;

use boxwork::pipeline;
use boxwork_kernels::CodePath;
use boxwork_kernels::chance::Random;
use boxwork_kernels::permutation::measures::{self, ListNumbers, Shape};
use boxwork_kernels::permutation::{Comparison, Lists, Measure};
use boxwork_kernels::selection::ENTRY;
use boxwork_operators::device_kernels::{LeastMeasures, least_measures};
use boxwork_runtime::feeding::{Back, Block, DeviceClass, DeviceError, Devices, Feed};
use boxwork_runtime::parameter::Value;
use boxwork_runtime::prepare::Prepared;

use super::bounds::run_block;
use super::clusters::World;
use super::memory;
use super::seconds_of;
use super::support::{Arguments, Spread, verdict};

const INDEX: &str = "boxwork: 1
parameters:
  pivots: {type: integer}
  length: {type: integer}
  device: {type: text}
  out: {type: path}
resources:
  vectors: {kind: store, path: rows}
  space: {kind: space, store: vectors, distance: l2}
boxes:
  file: {kind: write_permutations, space: space, pivots: \"${pivots}\", length: \"${length}\", device: \"${device}\", out: \"${out}\"}
";

/// Vectors a second with 128 pivots that an H100 is to reach.
const BAR: f64 = 1e8;
/// The share of the rate of reading that a scan of lists is to reach.
const SCAN_BAR: f64 = 0.7;

pub(super) fn run(arguments: &Arguments, devices: &Arc<Devices>, device: usize) {
    println!(
        "question    how fast are permutations of vectors made on a device, with the bits of the processor?"
    );
    let world = World::new(arguments, devices, device, [20_000, 4_000_000]);
    let (pivots, length): (i64, i64) = (arguments.get("pivots", 128), arguments.get("length", 32));
    let declaration = pipeline::load_text("permutations", INDEX).unwrap_or_else(|flaws| panic!("{flaws:?}"));
    let out = world.folder().join("permutations");
    let prepared = |device: &str| {
        let text = |text: &str| Value::Text(text.to_owned());
        let values = BTreeMap::from([
            ("pivots".to_owned(), Value::Integer(pivots)),
            ("length".to_owned(), Value::Integer(length)),
            ("device".to_owned(), text(device)),
            ("out".to_owned(), text(&out.display().to_string())),
        ]);
        world.prepared(&declaration.declaration, values)
    };
    let index = |prepared: &Arc<Prepared>| {
        seconds_of(&world.runtime, prepared);
    };
    let (on_device, on_slots) = (prepared(&format!("gpu:{device}")), prepared("cpu"));
    index(&on_device);
    let found = fs::read(&out).expect("the file was written");
    index(&on_slots);
    assert!(found == fs::read(&out).expect("the file was written"), "the device makes the same file");
    println!("checked     the file is that of the processor, to the byte");
    let (mut of_device, mut kernels, mut of_slots) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..world.rounds {
        let (seconds, of_kernels, ()) = world.seconds(|| index(&on_device));
        of_device.push(seconds);
        kernels.push(of_kernels);
        of_slots.push(world.seconds(|| index(&on_slots)).0);
    }
    world.tell_events();
    let ratio = Spread::of(of_slots.iter().zip(&of_device).map(|(slots, device)| slots / device));
    let (of_device, kernels, of_slots) = (Spread::of(of_device), Spread::of(kernels), Spread::of(of_slots));
    let products = world.count as f64 * (pivots * world.dimensions as i64) as f64;
    world.tell(&format!("{length} of {pivots} pivots"), products, (&of_device, &kernels));
    println!("slots       {:.1} ms; the device is {ratio} times as fast", 1e3 * of_slots.median);
    let rate = world.count as f64 / kernels.median.max(1e-9);
    println!("rate        {rate:.3e} vectors a second by the kernels alone");
    if pivots == 128 && world.dimensions == 128 {
        verdict("permutations by the kernels, vectors a second", rate, BAR, rate >= BAR);
    }
    scan(arguments, devices, device);
}

/// A scan of all lists for some queries.
struct ListsScan {
    lists: Arc<Lists>,
    shape: Shape,
    tables: Vec<u8>,
    starts: Vec<u32>,
    wanted: usize,
    counts: Vec<u32>,
    entries: Vec<u32>,
}

impl ListsScan {
    /// Room for entries of a query.
    fn capacity(&self) -> usize {
        (4 * self.wanted + 4096).min(self.lists.objects())
    }
}

impl Block for ListsScan {
    fn size(&self) -> u64 {
        self.lists.objects() as u64
    }

    fn feed(&mut self, feed: &mut Feed<'_>) -> Result<(), DeviceError> {
        match self.lists.all_numbers() {
            ListNumbers::Bytes(numbers) => feed.write("lists", numbers.len(), |to: &mut [u8]| {
                to.copy_from_slice(numbers);
                Ok(())
            })?,
            ListNumbers::Words(numbers) => feed.write("lists", numbers.len(), |to: &mut [u16]| {
                to.copy_from_slice(numbers);
                Ok(())
            })?,
        }
        let alive = measures::alive(self.lists.objects(), |_| true);
        feed.write("alive", alive.len(), |to: &mut [u8]| {
            to.copy_from_slice(&alive);
            Ok(())
        })?;
        let (wanted, capacity) = (self.wanted, self.capacity());
        let (tables, starts) = (&*self.tables, &*self.starts);
        let search =
            LeastMeasures { shape: self.shape, lists: &self.lists, tables, starts, wanted, capacity };
        least_measures(feed, &search)?;
        feed.read::<u32>("counts", starts.len())?;
        feed.read::<u32>("entries", starts.len() * capacity * ENTRY)
    }

    fn collect(&mut self, back: &Back<'_>) {
        self.counts = back.numbers::<u32>("counts").to_vec();
        self.entries = back.numbers::<u32>("entries").to_vec();
    }
}

/// The scan of lists that lie on the device, as a share of the rate at which it reads memory.
fn scan(arguments: &Arguments, devices: &Arc<Devices>, device: usize) {
    let is_gpu = devices.list()[device].info().class == DeviceClass::Gpu;
    let objects: usize = arguments.get("rows", if is_gpu { 20_000_000 } else { 100_000 });
    let (pivots, length): (usize, usize) = (arguments.get("pivots", 128), arguments.get("length", 32));
    let rounds = arguments.get("rounds", 5);
    let mut random = Random::new(5);
    let mut lists = Lists::new(pivots, length).expect("pivots and their places");
    let list = |random: &mut Random| -> Vec<u16> {
        random.distinct(pivots as u64, length).into_iter().map(|pivot| pivot as u16).collect()
    };
    // Few different lists, made quickly.
    let some: Vec<Vec<u16>> = (0..10_000).map(|_| list(&mut random)).collect();
    (0..objects).for_each(|_| lists.push(&some[random.idx(some.len())]));
    let limit = memory::rates(devices, device, lists.bytes(), rounds).read;
    let lists = Arc::new(lists);
    for (measure, wanted) in
        [(Measure::Footrule, 200), (Measure::Footrule, objects / 50), (Measure::Rho, 200)]
    {
        let comparison = Comparison::from(measure);
        let shape = Shape::new(&lists, comparison).expect("small measures");
        let (mut tables, query) = (Vec::new(), list(&mut random));
        let starts = vec![shape.append_tables(&lists, comparison, &query, &mut tables)];
        let block = || ListsScan {
            lists: Arc::clone(&lists),
            shape,
            tables: tables.clone(),
            starts: starts.clone(),
            wanted,
            counts: Vec::new(),
            entries: Vec::new(),
        };
        let (ran, ..) = run_block(devices, device, block());
        let (count, capacity) = (ran.counts[0] as usize, ran.capacity());
        let slots = lists.candidates(CodePath::detect(), comparison, &query, wanted, |_| true);
        if count <= capacity {
            let entries = ran.entries.chunks_exact(ENTRY).take(count);
            let mut found: Vec<(u32, u32)> =
                entries.map(|entry| (f32::from_bits(entry[1]) as u32, entry[0])).collect();
            found.sort_unstable();
            let found: Vec<u32> = found.into_iter().take(wanted).map(|(_, object)| object).collect();
            assert!(found == slots, "{measure:?}: the device finds others");
        }
        println!(
            "checked     {measure:?}, {wanted} of {objects} objects: those of slots; {count} were listed"
        );
        let seconds = Spread::of((0..rounds).map(|_| run_block(devices, device, block()).1.max(1e-9)));
        let rate = lists.bytes() as f64 / seconds.median / 1e9;
        let share = rate / limit;
        println!(
            "scan        {measure:?}, {wanted} wanted: {rate:.0} GB/s of lists, {:.3e} objects/s, {share:.2} of the rate of reading",
            objects as f64 / seconds.median
        );
        if measure == Measure::Footrule && wanted == 200 && (pivots, length) == (128, 32) {
            verdict("scan of permutations, share of the rate of reading", share, SCAN_BAR, share >= SCAN_BAR);
        }
    }
}
