//! `what=exact`: rounds whose bounds come from exact distances that a device computes.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use boxwork::shipped;
use boxwork_operators::catalog;
use boxwork_runtime::feeding::{Devices, LazyDevices};
use boxwork_runtime::parameter::Value;
use boxwork_runtime::prepare::Prepared;
use boxwork_runtime::request::Submission;
use boxwork_runtime::statistics::{TraceEvent, TraceKind};
use boxwork_runtime::{Config, Runtime};

use super::support::{Arguments, Spread, timeline, verdict};

/// Marks that are new in a round.
const NEW: usize = 12;

pub(super) fn run(arguments: &Arguments) {
    let Some(store) = arguments.text("store") else {
        eprintln!("what=exact needs store=FILE of signatures, and a device");
        std::process::exit(2);
    };
    let devices = LazyDevices::of_environment().open().unwrap_or_else(|reason| {
        eprintln!("{reason}");
        std::process::exit(1);
    });
    let device = arguments.get("device", devices.gpus().first().copied().unwrap_or(0));
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    let (workers, rounds) = (arguments.get("workers", cores), arguments.get("rounds", 7));
    let has_timeline = arguments.get("timeline", 0) != 0;
    let objects = boxwork_stores::any_kind::open(Path::new(store), None).expect("a store").ids_count();
    println!("question    how long is a round of exact distances, of whose marks {NEW} are new?");
    println!("unit        ms; {objects} signatures, {workers} slots; {}", devices.list()[device].info());
    let world = World { devices, workers };
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("round.json");
    let answers = ["cpu".to_owned(), format!("gpu:{device}")].map(|place| {
        let runtime = world.runtime(false);
        let pipeline = world.prepared(&runtime, Path::new(store), &out, &place);
        request(&runtime, &pipeline, marks(objects, 0, 1));
        std::fs::read_to_string(&out).expect("the round has been written")
    });
    assert_eq!(answers[0], answers[1], "the device's round is that of the processor");
    println!("checked     the round of a device is that of slots");
    let runtime = world.runtime(true);
    let pipeline = world.prepared(&runtime, Path::new(store), &out, &format!("gpu:{device}"));
    // The first use brings in data and programs.
    let first = request(&runtime, &pipeline, marks(objects, 1, 1));
    println!("first       {first:.1}, the store brought to the device");
    for rounds_before in [0, 4] {
        let (mut whole, mut columns, mut kernels) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..rounds {
            let session = 2 + rounds_before * rounds + round;
            if rounds_before > 0 {
                request(&runtime, &pipeline, marks(objects, session, rounds_before));
            }
            let before = world.devices.statistics()[device].kernel_ns;
            runtime.take_trace();
            whole.push(request(&runtime, &pipeline, marks(objects, session, rounds_before + 1)));
            kernels.push((world.devices.statistics()[device].kernel_ns - before) as f64 / 1e6);
            let trace = runtime.take_trace();
            columns.push(until_bounds(&trace));
            if has_timeline && round + 1 == rounds {
                timeline::print(&trace);
            }
        }
        let [whole, columns, kernels] = [whole, columns, kernels].map(Spread::of);
        let marks = NEW * (rounds_before + 1);
        println!(
            "{marks:>3} marks   columns and bounds of all objects {columns:.1}, kernels {kernels:.2}; whole round {whole:.1}"
        );
        if objects >= 1_000_000 && rounds_before == 0 {
            verdict("12 new columns and the bounds, ms", columns.median, 40.0, columns.median <= 40.0);
        }
    }
}

struct World {
    devices: Arc<Devices>,
    workers: usize,
}

impl World {
    fn runtime(&self, trace: bool) -> Runtime {
        let devices = Arc::new(Arc::clone(&self.devices).into());
        let config = Config { devices, trace, ..Config::flat(self.workers) };
        Runtime::start(config).expect("the system gives threads")
    }

    fn prepared(&self, runtime: &Runtime, store: &Path, out: &Path, device: &str) -> Arc<Prepared> {
        let text = |text: &str| Value::Text(text.to_owned());
        let path = |path: &Path| text(path.to_str().expect("a path in UTF-8"));
        let values = BTreeMap::from([
            ("store".to_owned(), path(store)),
            ("out".to_owned(), path(out)),
            ("format".to_owned(), text("json")),
            ("mode".to_owned(), text("exact")),
            ("device".to_owned(), text(device)),
        ]);
        let declaration = &shipped::FEEDBACK.load().declaration;
        let prepared = Prepared::new(declaration, &catalog(), &values, &runtime.environment());
        Arc::new(prepared.unwrap_or_else(|error| panic!("{error}")))
    }
}

/// The marks of some rounds of a session: the first of each is liked.
fn marks(objects: u64, session: usize, rounds: usize) -> Value {
    let mark = |nth: usize| {
        let id = (session as u64 * 7919 + nth as u64 * 104_729) % objects;
        Value::Text(format!("#{id}={}", u8::from(nth.is_multiple_of(NEW))))
    };
    Value::List((0..rounds * NEW).map(mark).collect())
}

/// One request, in milliseconds.
fn request(runtime: &Runtime, prepared: &Arc<Prepared>, marks: Value) -> f64 {
    let values = BTreeMap::from([("marks".to_owned(), marks)]);
    let submission = Submission { values, ..Submission::default() };
    let request = runtime.submit(prepared, &submission).unwrap_or_else(|error| panic!("{error}"));
    let outcome = request.wait();
    outcome.result.clone().unwrap_or_else(|error| panic!("{error}"));
    1e3 * outcome.duration.as_secs_f64()
}

/// The milliseconds from the beginning to the end of `scan` in the last request.
fn until_bounds(trace: &[TraceEvent]) -> f64 {
    let times = trace.iter().filter_map(|event| match &event.kind {
        TraceKind::Firing { name, .. } if &**name == "scan" => {
            Some((event.begin_ns, event.begin_ns + event.duration_ns))
        }
        _ => None,
    });
    let (begin, end) = times.fold((u64::MAX, 0), |(begin, end), (from, to)| (begin.min(from), end.max(to)));
    (end - begin) as f64 / 1e6
}
