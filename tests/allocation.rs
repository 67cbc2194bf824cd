//! The system refuses memory: the request fails and names the amount, the purpose and a remedy; the
//! process continues, and the next request of the runtime succeeds.
//!
//! The allocator of this process refuses, while it is switched on, allocations above `LIMIT_BYTES`. Each request here
//! makes a larger one, in one piece; without the limit it succeeds.

use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use boxwork::pipeline;
use boxwork::shipped::{self, Shipped};
use boxwork_kernels::sqfd::Columns;
use boxwork_operators::catalog;
use boxwork_runtime::parameter::Value;
use boxwork_runtime::plan::Declaration;
use boxwork_runtime::prepare::Prepared;
use boxwork_runtime::request::Submission;
use boxwork_runtime::{Config, Runtime};
use boxwork_stores::signature_store::{StoreInfo, StoreWriter};

/// More than any code outside the test needs.
const LIMIT_BYTES: usize = (2 << 20) - 1;

static REFUSES: AtomicBool = AtomicBool::new(false);

struct Refusing;

impl Refusing {
    fn refuses(bytes: usize) -> bool {
        bytes > LIMIT_BYTES && REFUSES.load(Ordering::Relaxed)
    }
}

// SAFETY: returns the system's memory, or none.
#[expect(unsafe_code, reason = "an allocator that refuses")]
unsafe impl GlobalAlloc for Refusing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match Self::refuses(layout.size()) {
            true => std::ptr::null_mut(),
            // SAFETY: the caller keeps the contract.
            false => unsafe { System.alloc(layout) },
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        match Self::refuses(layout.size()) {
            true => std::ptr::null_mut(),
            // SAFETY: the caller keeps the contract.
            false => unsafe { System.alloc_zeroed(layout) },
        }
    }

    unsafe fn realloc(&self, start: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        match Self::refuses(bytes) {
            true => std::ptr::null_mut(),
            // SAFETY: the caller keeps the contract.
            false => unsafe { System.realloc(start, layout, bytes) },
        }
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract; all memory is the system's.
        unsafe { System.dealloc(start, layout) };
    }
}

#[global_allocator]
static ALLOCATOR: Refusing = Refusing;

/// While it lives, the allocator refuses large allocations.
struct Limited;

impl Limited {
    fn now() -> Self {
        REFUSES.store(true, Ordering::Relaxed);
        Self
    }
}

impl Drop for Limited {
    fn drop(&mut self) {
        REFUSES.store(false, Ordering::Relaxed);
    }
}

/// One runtime for all requests of a test, and one test at a time: all threads share the allocator.
struct Case {
    runtime: Runtime,
    folder: tempfile::TempDir,
    _alone: MutexGuard<'static, ()>,
}

impl Case {
    fn new() -> Self {
        static ALONE: Mutex<()> = Mutex::new(());
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let runtime = Runtime::start(Config::flat(2)).expect("the system gives threads");
        Self { runtime, folder: tempfile::tempdir().expect("a folder"), _alone: alone }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The output of a request, or its error; with its reports on single files.
    fn run(&self, declaration: &Declaration, given: &[(&str, Value)]) -> Result<String, String> {
        let values: BTreeMap<String, Value> =
            given.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        let prepared = Prepared::new(declaration, &catalog(), &values, &self.runtime.environment());
        let prepared = prepared.map_err(|error| error.to_string())?;
        let request = self.runtime.submit(&Arc::new(prepared), &Submission::default());
        let outcome = request.map_err(|error| error.to_string())?.wait();
        outcome.result.map_err(|error| error.to_string())?;
        let problems = outcome.problems.iter().map(|problem| format!("{problem:?}\n"));
        Ok(problems.collect())
    }

    /// A request fails for lack of memory with these words; the next request of the runtime, with these values and
    /// without the limit, succeeds.
    fn check(&self, declaration: &Declaration, given: &[(&str, Value)], words: &[&str]) {
        let refused = {
            let _limited = Limited::now();
            self.run(declaration, given)
        };
        let said = refused.expect_err("what it asks for is refused");
        assert!(words.iter().all(|word| said.contains(word)), "{said}");
        self.run(declaration, given).unwrap_or_else(|error| panic!("without a limit: {error}"));
    }

    fn check_shipped(&self, pipeline: Shipped, given: &[(&str, Value)], words: &[&str]) {
        self.check(&pipeline.load().declaration, given, words);
    }
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

fn path(path: &Path) -> Value {
    text(path.to_str().expect("a path in UTF-8"))
}

fn texts(words: &[&str]) -> Value {
    Value::List(words.iter().map(|word| text(word)).collect())
}

/// Vectors of this many numbers, all different, as lines of JSON.
fn vectors(file: &Path, objects: usize, dimensions: usize) {
    let mut lines = String::new();
    for object in 0..objects {
        let numbers = (0..dimensions).map(|place| ((object * 7919 + place * 31) % 10_007).to_string());
        let _ = writeln!(lines, "{{\"object\": [{}]}}", numbers.collect::<Vec<_>>().join(","));
    }
    fs::write(file, lines).expect("written");
}

/// A store of objects of one centroid, in two classes.
fn store(file: &Path, objects: usize) {
    let mut writer = StoreWriter::create(file, &["x", "y"], &StoreInfo::default()).expect("a store");
    for object in 0..objects {
        let columns: [&[f32]; 2] = [&[(object % 1009) as f32], &[(object / 1009) as f32]];
        let name = format!("{}/{object}", ["cats", "dogs"][object % 2]);
        writer.push(&name, Columns::new(&columns, &[1.0]).signature(0, 1), 8, 8).expect("sound");
    }
    writer.finish().expect("written");
}

#[test]
fn an_index_of_distances_that_has_no_room_says_so() {
    let case = Case::new();
    let objects = case.file("vectors.jsonl");
    vectors(&objects, 2200, 3);
    let given = |index: &str| {
        [
            ("objects", path(&objects)),
            ("queries", texts(&["7"])),
            ("index", text(index)),
            ("out", path(&case.file("found"))),
        ]
    };
    let words =
        ["the aesa of 2200 objects takes 9.2 MiB of memory, which the system refuses", "such as laesa"];
    case.check_shipped(shipped::METRIC_INDEX, &given("aesa"), &words);
    for index in ["laesa", "pm_tree", "m_index"] {
        let boxes =
            shipped::METRIC_INDEX.text.replace("\"${index}\", space", "\"${index}\", pivots: 700, space");
        let loaded = pipeline::load_text("many pivots", &boxes).expect("a pipeline");
        let words =
            [index, "of 2200 objects and 700 pivots takes", "which the system refuses: take fewer pivots"];
        case.check(&loaded.declaration, &given(index), &words);
    }
    let given = [
        ("objects", path(&objects)),
        ("queries", texts(&["7"])),
        ("pivots", Value::Integer(128)),
        ("out", path(&case.file("found"))),
    ];
    let words = ["pivot table of 2200 objects and 128 pivots", "2.1 MiB", "take fewer pivots"];
    case.check_shipped(shipped::METRIC_SEARCH, &given, &words);
}

#[test]
fn a_column_that_has_no_room_says_so() {
    let case = Case::new();
    let objects = case.file("vectors.jsonl");
    vectors(&objects, 700, 1000);
    let given = [("objects", path(&objects)), ("queries", texts(&["7"])), ("out", path(&case.file("found")))];
    let words = ["vectors.jsonl`: line 513: holding the objects up to here takes 3.9 MiB", "read fewer"];
    case.check_shipped(shipped::METRIC_INDEX, &given, &words);
}

#[test]
fn a_search_that_holds_too_much_says_so() {
    let case = Case::new();
    let [small, large] = ["small.arrow", "large.arrow"].map(|name| case.file(name));
    store(&small, 1100);
    store(&large, 120_000);
    let out = ("out", path(&case.file("found")));
    let nearest = [
        ("store", path(&large)),
        ("queries", texts(&["cats/70"])),
        ("k", Value::Integer(1 << 40)),
        ("format", text("csv")),
        ("device", text("cpu")),
        out.clone(),
    ];
    let words = ["box `top`", "what may be among the nearest takes 2.0 MiB", "smaller `k`"];
    case.check_shipped(shipped::SEARCH, &nearest, &words);

    let words = [
        "box `quality`",
        "keeping the distances of 1100 objects to their classes takes 4.6 MiB",
        "free memory",
    ];
    case.check_shipped(shipped::EVALUATE, &[("store", path(&small)), out.clone()], &words);

    let pivots = case.file("large.pivots.arrow");
    let index = [
        ("store", path(&large)),
        ("out", path(&pivots)),
        ("count", Value::Integer(5)),
        ("select", text("incremental")),
    ];
    let boxes = shipped::INDEX.text.replace("select_pivots, ", "select_pivots, sample: 1100, ");
    let loaded = pipeline::load_text("a large sample", &boxes).expect("a pipeline");
    let words = ["box `pivots`", "among a sample of 1100 objects takes 2.1 MiB", "make `sample` smaller"];
    case.check(&loaded.declaration, &index, &words);

    let bounded = [
        ("store", path(&large)),
        ("pivots", path(&pivots)),
        ("queries", texts(&["cats/70"])),
        ("format", text("csv")),
        ("device", text("cpu")),
        out,
    ];
    let words = ["large.pivots.arrow", "5 pivots takes 2.3 MiB", "an index of fewer pivots"];
    case.check_shipped(shipped::BEST_FIRST, &bounded, &words);
}

/// A picture of one colour: a small file that takes much memory.
fn picture(file: &Path, side: u32) {
    image::RgbImage::new(side, side).save(file).expect("written");
}

#[test]
fn a_picture_that_has_no_room_is_reported_and_the_others_are_read() {
    let case = Case::new();
    let folder = case.file("pictures");
    fs::create_dir(&folder).expect("made");
    picture(&folder.join("small.png"), 100);
    picture(&folder.join("wide.png"), 900);
    fs::write(folder.join("long.png"), vec![0; 3 << 20]).expect("written");
    let given = [("paths", texts(&[folder.to_str().expect("a path")])), ("out", path(&case.file("store")))];
    let extract = shipped::EXTRACT.load().declaration;
    let said = {
        let _limited = Limited::now();
        case.run(&extract, &given).expect("one picture is left")
    };
    for words in ["takes 2 MiB of memory, which the system refuses: scale it", "takes 3 MiB of memory"] {
        assert!(said.contains(words), "{said}");
    }
    assert_eq!(said.lines().count(), 2, "{said}");
    let said = case.run(&extract, &given).expect("two are");
    assert!(said.contains("no image of a known format") && said.lines().count() == 1, "{said}");
}
