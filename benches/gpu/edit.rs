//! `what=edit`: edit distances of many texts on a device: the kernels alone, on the way from the memory of the host, and beside slots.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Instant;

use boxwork::shipped;
use boxwork_kernels::chance::Random;
use boxwork_kernels::distance::edits::{CodedQueries, Shape};
use boxwork_kernels::distance::{Distance, Levenshtein, PairPlanes, TextPlanes};
use boxwork_kernels::pieces::one_by_one;
use boxwork_operators::catalog;
use boxwork_operators::device_kernels::{compare_pairs, compare_with_queries};
use boxwork_runtime::Runtime;
use boxwork_runtime::feeding::{Back, Block, Blocks, DeviceClass, DeviceError, Devices, Feed};
use boxwork_runtime::operator::{Outside, Resource};
use boxwork_runtime::parameter::Value;
use boxwork_runtime::prepare::Prepared;
use boxwork_stores::kinds::{Kind as _, Texts};
use boxwork_stores::object_store::Rows;
use boxwork_stores::space::SharedSpace;
use boxwork_stores::spaces::{self, DistanceOptions};
use boxwork_stores::store::{SharedStore, Store};

use super::bounds::run_block;
use super::support::{Arguments, Spread, verdict};
use super::{config, seconds_of};

/// Cells a second that an H100 is to reach with random pairs of 32 letters of DNA.
const BAR: f64 = 2.5e13;
/// The share of the rate of copying that the whole way from the host's memory is to reach.
const SHARE_BAR: f64 = 0.9;
/// Launches of a block that is timed.
const REPEATS: usize = 5;
/// Blocks that are under way together.
const BLOCKS: usize = 8;
/// Distances that are compared with the definition.
const CHECKED: usize = 500;

/// Texts or pairs as a device takes them.
enum Form {
    Pairs(PairPlanes),
    Queries(Box<TextPlanes>, CodedQueries),
}

impl Form {
    fn words(&self) -> usize {
        match self {
            Self::Pairs(pairs) => pairs.words(),
            Self::Queries(texts, _) => texts.words(),
        }
    }

    fn distances(&self) -> usize {
        match self {
            Self::Pairs(pairs) => pairs.positions(),
            Self::Queries(texts, queries) => texts.positions() * queries.queries.len(),
        }
    }
}

/// Sends words and compares them so many times.
struct Comparison {
    form: Arc<Form>,
    shape: Shape,
    /// 0 to send only.
    times: usize,
    distances: Vec<u8>,
}

impl Block for Comparison {
    fn size(&self) -> u64 {
        self.form.distances() as u64
    }

    fn feed(&mut self, feed: &mut Feed<'_>) -> Result<(), DeviceError> {
        feed.write("planes", self.form.words(), |to: &mut [u32]| {
            match &*self.form {
                Form::Pairs(pairs) => pairs.copy_to(to),
                Form::Queries(texts, _) => texts.copy_to(to),
            }
            Ok(())
        })?;
        for _ in 0..self.times {
            match &*self.form {
                Form::Pairs(pairs) => compare_pairs(feed, self.shape, pairs)?,
                Form::Queries(texts, queries) => {
                    compare_with_queries(feed, self.shape, texts, queries, None)?;
                }
            }
        }
        match self.times {
            0 => Ok(()),
            _ => feed.read::<u8>("distances", self.form.distances() * self.shape.distance_bytes()),
        }
    }

    fn collect(&mut self, back: &Back<'_>) {
        if self.times > 0 {
            self.distances = back.numbers::<u8>("distances").to_vec();
        }
    }
}

impl Comparison {
    fn of(form: &Arc<Form>, shape: Shape, times: usize) -> Self {
        Self { form: Arc::clone(form), shape, times, distances: Vec::new() }
    }

    fn distance(&self, place: usize) -> u32 {
        match self.shape.distance_bytes() {
            1 => u32::from(self.distances[place]),
            _ => u32::from(u16::from_le_bytes([self.distances[2 * place], self.distances[2 * place + 1]])),
        }
    }
}

fn texts(random: &mut Random, count: usize, [least, most]: [usize; 2], letters: usize) -> Vec<Vec<char>> {
    let alphabet: Vec<char> = if letters == 4 { "ACGT".chars().collect() } else { ('a'..='z').collect() };
    let mut text = || {
        let length = least + random.idx(most - least + 1);
        (0..length).map(|_| alphabet[random.idx(alphabet.len())]).collect()
    };
    (0..count).map(|_| text()).collect()
}

/// A device, and how often it is asked.
struct World<'a> {
    devices: &'a Arc<Devices>,
    device: usize,
    rounds: usize,
}

impl World<'_> {
    /// Cells a second of the kernel alone, with words on the device.
    fn resident(&self, form: &Arc<Form>, shape: Shape, cells: f64) -> Spread {
        let seconds = |times| run_block(self.devices, self.device, Comparison::of(form, shape, times)).1;
        seconds(1);
        Spread::of((0..self.rounds).map(|_| cells * REPEATS as f64 / seconds(REPEATS).max(1e-9)))
    }

    /// Seconds of several blocks from the host's memory and back.
    fn whole(&self, form: &Arc<Form>, shape: Shape, times: usize) -> f64 {
        let (tell, told) = channel();
        let mut blocks = Blocks::new(Arc::clone(self.devices), vec![self.device]);
        let begun = Instant::now();
        for _ in 0..BLOCKS {
            let tell = tell.clone();
            let outside = Outside::new(move || {
                // The receiver waits until all have come.
                let _ = tell.send(());
            });
            blocks.submit(Comparison::of(form, shape, times), outside);
        }
        let mut left = BLOCKS;
        while left > 0 {
            told.recv().expect("a block comes back");
            while let Some((_, result)) = blocks.take() {
                result.unwrap_or_else(|error| panic!("the device fails: {error}"));
                left -= 1;
            }
        }
        begun.elapsed().as_secs_f64()
    }

    /// One line: the kernel alone, and the whole way beside a copy of the same words.
    fn line(&self, name: &str, form: &Arc<Form>, shape: Shape, cells: f64) -> (Spread, Spread) {
        let rate = self.resident(form, shape, cells);
        let pairs = form.distances() as f64;
        println!(
            "resident    {name}: {:.3e} cells/s ({:.3e} to {:.3e}), {:.3e} pairs/s",
            rate.median,
            rate.low,
            rate.high,
            rate.median / cells * pairs
        );
        self.whole(form, shape, 1);
        let shares = (0..self.rounds).map(|_| self.whole(form, shape, 0) / self.whole(form, shape, 1));
        let share = Spread::of(shares);
        println!("whole       {name}: {share:.2} of the rate at which its letters are copied to the device");
        (rate, share)
    }

    fn pairs(&self, random: &mut Random, count: usize, length: usize) {
        let [first, second] = [0, 1].map(|_| texts(random, count, [length, length], 4));
        let pairs: Vec<[&[char]; 2]> =
            first.iter().zip(&second).map(|(a, b)| [a.as_slice(), b.as_slice()]).collect();
        let planes = PairPlanes::new(&pairs, &mut one_by_one()).expect("few letters");
        let shape = Shape::of_pairs(&planes);
        let order = planes.order().to_vec();
        let form = Arc::new(Form::Pairs(planes));
        let (ran, ..) = run_block(self.devices, self.device, Comparison::of(&form, shape, 1));
        for place in (0..order.len()).step_by(order.len().div_ceil(CHECKED)) {
            let [a, b] = pairs[order[place] as usize];
            assert_eq!(ran.distance(place), Levenshtein.reference(a, b) as u32, "{a:?} and {b:?}");
        }
        let name = format!("{count} random pairs of {length} letters of DNA");
        println!("checked     {name}: distances are those of the definition");
        let (rate, share) = self.line(&name, &form, shape, (count * length * length) as f64);
        if length == 32 {
            verdict("random pairs, cells a second", rate.median, BAR, rate.median >= BAR);
            verdict("random pairs, share of the copy", share.median, SHARE_BAR, share.median >= SHARE_BAR);
        }
    }

    fn queries(
        &self,
        random: &mut Random,
        (count, queries): (usize, usize),
        lengths: [usize; 2],
        letters: usize,
    ) {
        let (all, asked) = (texts(random, count, lengths, letters), texts(random, queries, lengths, letters));
        let slices: Vec<&[char]> = all.iter().map(Vec::as_slice).collect();
        let planes = TextPlanes::new(&slices, &mut one_by_one()).expect("few letters");
        let of_queries: Vec<usize> = asked.iter().map(Vec::len).collect();
        let shape = Shape::of_queries(&planes, &of_queries, false);
        let coded = CodedQueries::new(&planes, asked.iter().map(Vec::as_slice));
        let (order, positions) = (planes.order().to_vec(), planes.positions());
        let form = Arc::new(Form::Queries(Box::new(planes), coded));
        let (ran, ..) = run_block(self.devices, self.device, Comparison::of(&form, shape, 1));
        let of_all = order.len() * queries;
        for pair in (0..of_all).step_by(of_all.div_ceil(CHECKED)) {
            let (query, place) = (pair / order.len(), pair % order.len());
            let (a, b) = (&asked[query], slices[order[place] as usize]);
            let wanted = Levenshtein.reference(a, b) as u32;
            assert_eq!(ran.distance(query * positions + place), wanted, "{a:?} and {b:?}");
        }
        let [least, most] = lengths;
        let name = format!("{queries} queries, {count} texts of {least} to {most} letters of {letters}");
        println!("checked     {name}: distances are those of the definition");
        let letters_of = |texts: &[Vec<char>]| texts.iter().map(Vec::len).sum::<usize>() as f64;
        self.line(&name, &form, shape, letters_of(&all) * letters_of(&asked));
    }
}

/// The nearest texts by `edit_neighbours`, on the device and on slots.
fn beside_slots(arguments: &Arguments, world: &World<'_>, count: usize, queries: usize) {
    let mut random = Random::new(3);
    let length: usize = arguments.get("length", 32);
    let mut rows = Rows::new(Texts);
    for (row, text) in texts(&mut random, count, [length, length], 4).iter().enumerate() {
        rows.push(&row.to_string(), |builder| Texts::push(builder, text)).expect("a text");
    }
    let asked = texts(&mut random, queries, [length, length], 4);
    let asked: Vec<String> = asked.into_iter().map(|text| text.into_iter().collect()).collect();
    let store: Arc<dyn Store> =
        Arc::new(rows.finish_without(Vec::new(), Path::new("texts"), None).expect("a store"));
    let space = spaces::open(&DistanceOptions::named("levenshtein"), Arc::clone(&store)).expect("a space");
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    let workers = arguments.get("workers", cores);
    let runtime = Runtime::start(config(workers, world.devices)).expect("the system gives threads");
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("nearest.csv");
    let prepared = |device: &str| {
        let text = |text: &str| Value::Text(text.to_owned());
        let asked = asked.iter().map(|query| text(query)).collect();
        let values = [
            ("texts", text("texts")),
            ("queries", Value::List(asked)),
            ("k", Value::Integer(arguments.get("k", 10))),
            ("format", text("csv")),
            ("out", text(&out.display().to_string())),
            ("device", text(device)),
        ];
        let values: BTreeMap<String, Value> =
            values.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        let resources: BTreeMap<String, Resource> = BTreeMap::from([
            ("objects".to_owned(), Arc::new(SharedStore(Arc::clone(&store))) as Resource),
            ("space".to_owned(), Arc::new(SharedSpace(Arc::clone(&space))) as Resource),
        ]);
        let declaration = &shipped::EDIT_NEIGHBOURS.load().declaration;
        let environment = runtime.environment();
        let prepared = Prepared::with_resources(declaration, &catalog(), &values, &environment, resources);
        Arc::new(prepared.unwrap_or_else(|error| panic!("{error}")))
    };
    let search = |prepared: &Arc<Prepared>| {
        (seconds_of(&runtime, prepared), fs::read(&out).expect("the file was written"))
    };
    let (on_device, on_slots) = (prepared(&format!("gpu:{}", world.device)), prepared("cpu"));
    let wanted = search(&on_slots).1;
    assert!(search(&on_device).1 == wanted, "the device finds the same");
    println!(
        "checked     {queries} queries by edit_neighbours, {count} texts: the file is that of slots, to the byte"
    );
    let seconds = (0..world.rounds).map(|_| [search(&on_device).0, search(&on_slots).0]);
    let seconds: Vec<[f64; 2]> = seconds.collect();
    let ratio = Spread::of(seconds.iter().map(|[device, slots]| slots / device));
    let [device, slots] = [0, 1].map(|side| Spread::of(seconds.iter().map(|both| both[side])).median);
    let pairs = (count * queries) as f64;
    println!(
        "pipeline    {:.3e} pairs/s on the device, {:.3e} on {workers} slots",
        pairs / device,
        pairs / slots
    );
    println!("ratio       the device is {ratio:.2} times as fast as slots");
}

pub(super) fn run(arguments: &Arguments, devices: &Arc<Devices>, device: usize) {
    let is_gpu = devices.list()[device].info().class == DeviceClass::Gpu;
    let count: usize = arguments.get("objects", if is_gpu { 1 << 22 } else { 1 << 14 });
    let queries: usize = arguments.get("queries", if is_gpu { 256 } else { 8 });
    let length: usize = arguments.get("length", 32);
    println!("question    how many edit distances does a device compute, and how soon are they back?");
    let world = World { devices, device, rounds: arguments.get("rounds", if is_gpu { 7 } else { 3 }) };
    let mut random = Random::new(2);
    world.pairs(&mut random, count, length);
    world.queries(&mut random, (count, 1), [length, length], 4);
    world.queries(&mut random, (count / 16, queries), [length, length], 4);
    world.queries(&mut random, (count, 1), [3, 20], 26);
    world.queries(&mut random, (count / 64, queries), [256, 256], 4);
    beside_slots(arguments, &world, count / 4, queries);
}
