//! `what=edit part=alignments`: texts aligned with queries on a device: by the kernel alone, with several numbers of lanes and rows, and
//! `alignments` beside slots.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use boxwork::shipped;
use boxwork_kernels::chance::Random;
use boxwork_kernels::distance::alignments::{AlignedQueries, CodedTexts, Numbers, Shape};
use boxwork_kernels::distance::{EditCosts, LetterMatrix, LocalScores};
use boxwork_kernels::pieces::one_by_one;
use boxwork_operators::catalog;
use boxwork_operators::device_kernels::align_with_queries;
use boxwork_runtime::Runtime;
use boxwork_runtime::feeding::{Back, Block, DeviceClass, DeviceError, Devices, Feed};
use boxwork_runtime::operator::Resource;
use boxwork_runtime::parameter::Value;
use boxwork_runtime::prepare::Prepared;
use boxwork_stores::kinds::{Kind as _, Texts};
use boxwork_stores::object_store::Rows;
use boxwork_stores::store::{SharedStore, Store};

use super::bounds::run_block;
use super::support::{Arguments, Spread};
use super::{config, seconds_of};

/// Lanes of a pair and rows of a lane that are compared.
const SIZES: [[usize; 2]; 12] = [
    [32, 4],
    [32, 8],
    [32, 16],
    [16, 8],
    [16, 16],
    [8, 8],
    [8, 16],
    [4, 8],
    [4, 16],
    [2, 16],
    [1, 8],
    [1, 16],
];
/// Queries of the kernel alone, at most.
const QUERIES: usize = 8;
/// Numbers that are compared with the definition.
const CHECKED: usize = 300;
/// Slots that take longer are timed once.
const SLOTS_SECONDS_MAX: f64 = 5.0;
/// One of so many rows is in the file that the pipeline writes.
const SHARE: usize = 100;
/// Letters of proteins.
const LETTERS: &str = "ARNDCQEGHILKMFPSTWYV";
const EQUAL: u32 = 5;
const INSERT: u32 = 6;
const DELETE: u32 = 7;
const REPLACE: u32 = 4;

fn texts(random: &mut Random, count: usize, length: usize) -> Vec<Vec<char>> {
    let letters: Vec<char> = LETTERS.chars().collect();
    (0..count).map(|_| (0..length).map(|_| letters[random.idx(letters.len())]).collect()).collect()
}

/// Scores as those of proteins: positive for equal letters, negative for most others.
fn matrix(random: &mut Random) -> String {
    let mut text: String = LETTERS.chars().flat_map(|letter| [letter, ' ']).collect();
    for a in LETTERS.chars() {
        text += &format!("\n{a}");
        for b in LETTERS.chars() {
            let score = if a == b { 4 + random.idx(6) as i32 } else { random.idx(6) as i32 - 4 };
            text += &format!(" {score}");
        }
    }
    text
}

/// Aligns texts with queries once.
struct Alignment {
    numbers: Arc<Numbers>,
    texts: Arc<CodedTexts>,
    queries: Arc<AlignedQueries>,
    shape: Shape,
    found: Vec<i32>,
}

impl Block for Alignment {
    fn size(&self) -> u64 {
        self.texts.letters().len() as u64
    }

    fn feed(&mut self, feed: &mut Feed<'_>) -> Result<(), DeviceError> {
        let letters = self.texts.letters();
        feed.write("letters", letters.len(), |to: &mut [u16]| {
            to.copy_from_slice(letters);
            Ok(())
        })?;
        align_with_queries(feed, self.shape, &self.numbers, &self.texts, &self.queries)?;
        feed.read::<i32>("numbers", self.texts.order().len() * self.queries.queries.len())
    }

    fn collect(&mut self, back: &Back<'_>) {
        self.found = back.numbers::<i32>("numbers").to_vec();
    }
}

/// A device, and the texts.
struct World<'a> {
    devices: &'a Arc<Devices>,
    device: usize,
    rounds: usize,
    all: Vec<Vec<char>>,
    asked: Vec<Vec<char>>,
}

impl World<'_> {
    /// Cells of the tables with so many queries.
    fn cells(&self, queries: usize) -> f64 {
        let letters = |texts: &[Vec<char>]| texts.iter().map(Vec::len).sum::<usize>() as f64;
        letters(&self.all) * letters(&self.asked[..queries])
    }

    /// The rates of the kernel alone. Returns the number that one of [`SHARE`] pairs reaches.
    fn kernel(&self, name: &str, numbers: Numbers) -> i32 {
        let slices: Vec<&[char]> = self.all.iter().map(Vec::as_slice).collect();
        let texts = Arc::new(CodedTexts::new(&slices, &mut one_by_one()).expect("few letters"));
        let asked = &self.asked[..QUERIES.min(self.asked.len())];
        let queries = asked.iter().map(Vec::as_slice);
        let (numbers, queries) = (Arc::new(numbers.clone()), AlignedQueries::new(&numbers, &texts, queries));
        let queries = Arc::new(queries);
        let own = Shape::of(&numbers, &texts, &queries);
        let (cells, mut found) = (self.cells(asked.len()), Vec::new());
        for sizes in SIZES {
            let shape = Shape::with(sizes, &numbers, &texts, &queries);
            let run = || {
                let (numbers, texts) = (Arc::clone(&numbers), Arc::clone(&texts));
                let alignment =
                    Alignment { numbers, texts, queries: Arc::clone(&queries), shape, found: Vec::new() };
                run_block(self.devices, self.device, alignment)
            };
            let of_shape = run().0.found;
            if found.is_empty() {
                for pair in (0..of_shape.len()).step_by(of_shape.len().div_ceil(CHECKED)) {
                    let text = &self.all[texts.order()[pair % texts.order().len()] as usize];
                    let wanted = numbers.reference(&asked[pair / texts.order().len()], text);
                    assert_eq!(f64::from(of_shape[pair]), wanted, "{name}");
                }
                println!(
                    "checked     {name}, {} queries, {} texts: numbers are those of the definition",
                    asked.len(),
                    self.all.len()
                );
                found = of_shape;
            } else {
                assert!(found == of_shape, "{sizes:?} lanes and rows give other numbers");
            }
            let rates = Spread::of((0..self.rounds).map(|_| cells / run().1.max(1e-9)));
            let [lanes, rows] = sizes;
            let chosen = if own.sizes() == sizes { ", chosen" } else { "" };
            println!(
                "kernel      {name}, {lanes:>2} lanes of {rows:>2} rows: {:.3e} cells/s ({:.3e} to {:.3e}){chosen}",
                rates.median, rates.low, rates.high
            );
        }
        let place = found.len() - 1 - found.len() / SHARE;
        *found.select_nth_unstable(place).1
    }
}

/// Similar texts by `alignments`, on the device and on slots.
fn beside_slots(arguments: &Arguments, world: &World<'_>, matrix: &Path, score: i32) {
    let mut rows = Rows::new(Texts);
    for (row, text) in world.all.iter().enumerate() {
        rows.push(&row.to_string(), |builder| Texts::push(builder, text)).expect("a text");
    }
    let store: Arc<dyn Store> =
        Arc::new(rows.finish_without(Vec::new(), Path::new("texts"), None).expect("a store"));
    let workers = arguments.get("workers", std::thread::available_parallelism().map_or(2, usize::from));
    let runtime = Runtime::start(config(workers, world.devices)).expect("the system gives threads");
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("similar.csv");
    let prepared = |device: &str| {
        let text = |text: &str| Value::Text(text.to_owned());
        let asked = world.asked.iter().map(|query| text(&query.iter().collect::<String>())).collect();
        let [insert, delete, replace, equal] =
            [INSERT, DELETE, REPLACE, EQUAL].map(|cost| Value::Integer(i64::from(cost)));
        let values = [
            ("texts", text("texts")),
            ("queries", Value::List(asked)),
            ("measure", text("smith_waterman")),
            ("insert", insert),
            ("delete", delete),
            ("replace", replace),
            ("equal", equal),
            ("matrix", text(&matrix.display().to_string())),
            ("range", Value::Number(-f64::from(score))),
            ("format", text("csv")),
            ("out", text(&out.display().to_string())),
            ("device", text(device)),
        ];
        let values: BTreeMap<String, Value> =
            values.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        let store = Arc::new(SharedStore(Arc::clone(&store))) as Resource;
        let resources: BTreeMap<String, Resource> = BTreeMap::from([("objects".to_owned(), store)]);
        let (declaration, environment) = (&shipped::ALIGNMENTS.load().declaration, runtime.environment());
        let prepared = Prepared::with_resources(declaration, &catalog(), &values, &environment, resources);
        Arc::new(prepared.unwrap_or_else(|error| panic!("{error}")))
    };
    let align = |prepared: &Arc<Prepared>| {
        (seconds_of(&runtime, prepared), fs::read(&out).expect("the file was written"))
    };
    let (on_device, on_slots) = (prepared(&format!("gpu:{}", world.device)), prepared("cpu"));
    let (first, wanted) = align(&on_slots);
    assert!(align(&on_device).1 == wanted, "the device finds the same");
    println!(
        "checked     {} queries by alignments, {} texts: the file is that of slots, to the byte",
        world.asked.len(),
        world.all.len()
    );
    let on_device = Spread::of((0..world.rounds).map(|_| align(&on_device).0));
    // Slots take far longer: once more is enough, if at all.
    let slots = if first < SLOTS_SECONDS_MAX { first.min(align(&on_slots).0) } else { first };
    let cells = world.cells(world.asked.len());
    println!(
        "pipeline    {:.3e} cells/s on the device, {:.3e} on {workers} slots",
        cells / on_device.median,
        cells / slots
    );
    println!(
        "ratio       the device is {:.2} times as fast as slots ({:.2} to {:.2})",
        slots / on_device.median,
        slots / on_device.high,
        slots / on_device.low
    );
}

pub(super) fn run(arguments: &Arguments, devices: &Arc<Devices>, device: usize) {
    let is_gpu = devices.list()[device].info().class == DeviceClass::Gpu;
    let of_device = |gpu: usize, other: usize| if is_gpu { gpu } else { other };
    let count: usize = arguments.get("texts", of_device(50_000, 40));
    let queries: usize = arguments.get("queries", of_device(64, 3));
    let length: usize = arguments.get("length", 300);
    println!(
        "question    how fast does a device align texts with queries, and how soon are the numbers back?"
    );
    let mut random = Random::new(4);
    let (all, asked) = (texts(&mut random, count, length), texts(&mut random, queries, length));
    let world = World { devices, device, rounds: arguments.get("rounds", of_device(5, 2)), all, asked };
    let (folder, of_matrix) = (tempfile::tempdir().expect("a folder"), matrix(&mut random));
    let file = folder.path().join("matrix.txt");
    fs::write(&file, &of_matrix).expect("a disk");
    let costs = EditCosts::new(INSERT, DELETE, REPLACE).expect("costs");
    world.kernel("edit, letters compared", Numbers::Edit(costs));
    let scores = LocalScores::new(EQUAL, REPLACE, INSERT, DELETE).expect("scores");
    let scores = scores.with_matrix(Arc::new(LetterMatrix::parse(&of_matrix).expect("a matrix")));
    let score = world.kernel("smith_waterman, a matrix of 20 letters", Numbers::Local(scores));
    beside_slots(arguments, &world, &file, score);
}
