//! Task graphs inside of boxes, on 1, 2 and 7 slots: order, results to the bit, priorities, and every way to end early.

mod support;

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use boxwork_runtime::inside::{GraphError, Inside, TaskGraph};
use boxwork_runtime::operator::*;
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};
use boxwork_runtime::prepare::Prepared;
use boxwork_runtime::request::{RequestError, Submission};
use boxwork_runtime::simulator::{compute, simulate};
use boxwork_runtime::{Config, Runtime};
use parking_lot::Mutex;
use support::*;

const SLOTS: [usize; 3] = [1, 2, 7];

/// The event in one task.
#[derive(Clone, Copy, PartialEq)]
enum Event {
    Nothing,
    Panic(usize),
    Error(usize),
    /// From this task on, tasks wait for the end of their request.
    Wait(usize),
}

/// A random graph whose edges are computed: from each task to some of the `reach` next ones.
struct Case {
    seed: u64,
    tasks: usize,
    reach: usize,
    event: Event,
    /// A number for each task, made from its predecessors' numbers.
    values: Vec<AtomicU64>,
    runs: Vec<AtomicUsize>,
    ran: AtomicUsize,
    running: AtomicUsize,
    out_of_order: AtomicBool,
}

fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

impl Case {
    fn new(seed: u64, tasks: usize, reach: usize, event: Event) -> Arc<Self> {
        Arc::new(Self {
            seed,
            tasks,
            reach,
            event,
            values: (0..tasks).map(|_| AtomicU64::new(0)).collect(),
            runs: (0..tasks).map(|_| AtomicUsize::new(0)).collect(),
            ran: AtomicUsize::new(0),
            running: AtomicUsize::new(0),
            out_of_order: AtomicBool::new(false),
        })
    }

    fn has_edge(&self, from: usize, to: usize) -> bool {
        mix(self.seed ^ mix((from << 32 | to) as u64)).is_multiple_of(3)
    }

    fn before(&self, task: usize) -> impl Iterator<Item = usize> {
        (task.saturating_sub(self.reach)..task).filter(move |from| self.has_edge(*from, task))
    }

    /// The number of a task: floating-point operations, whose result depends on their order.
    fn value(&self, task: usize, of: impl Fn(usize) -> u64) -> u64 {
        let sum = self.before(task).map(|from| f64::from_bits(of(from))).fold(0.1, |sum, x| sum * 0.3 + x);
        (sum + 1.0 / (task as f64 + 3.0)).to_bits()
    }

    /// The numbers of all tasks, computed in turn.
    fn expected(&self) -> Vec<u64> {
        let mut values = Vec::with_capacity(self.tasks);
        for task in 0..self.tasks {
            values.push(self.value(task, |from| values[from]));
        }
        values
    }

    /// Checks that no task runs, that none ran twice, and that each ran after its predecessors.
    fn check(&self) {
        assert_eq!(self.running.load(Ordering::SeqCst), 0, "a task runs when its request has ended");
        assert!(!self.out_of_order.load(Ordering::SeqCst), "a task began before a predecessor had ended");
        for task in 0..self.tasks {
            let runs = self.runs[task].load(Ordering::SeqCst);
            assert!(runs <= 1, "task {task} ran {runs} times");
            let ran = |from: usize| self.runs[from].load(Ordering::SeqCst) == 1;
            assert!(runs == 0 || self.before(task).all(ran), "task {task} ran without a predecessor");
        }
    }
}

impl TaskGraph for Case {
    type Error = BoxError;

    fn tasks(&self) -> usize {
        self.tasks
    }

    fn predecessors(&self, task: usize) -> u32 {
        self.before(task).count() as u32
    }

    fn successors(&self, task: usize, each: impl FnMut(usize)) {
        let last = (task + self.reach).min(self.tasks - 1);
        (task + 1..=last).filter(|to| self.has_edge(task, *to)).for_each(each);
    }

    fn priority(&self, task: usize) -> u32 {
        mix(self.seed + task as u64) as u32 % 8
    }

    fn run(&self, task: usize, inside: &mut Inside<'_>) -> Result<(), BoxError> {
        self.running.fetch_add(1, Ordering::SeqCst);
        if self.before(task).any(|from| self.runs[from].load(Ordering::SeqCst) != 1) {
            self.out_of_order.store(true, Ordering::SeqCst);
        }
        if task.is_multiple_of(16) {
            inside.for_each_chunk(4, 1, |chunk| assert_eq!(std::hint::black_box(chunk).len(), 1));
        }
        let value = self.value(task, |from| self.values[from].load(Ordering::Relaxed));
        self.values[task].store(value, Ordering::Relaxed);
        let waits = matches!(self.event, Event::Wait(from) if self.ran.load(Ordering::SeqCst) >= from);
        self.ran.fetch_add(1, Ordering::SeqCst);
        while waits && !inside.is_cancelled() {
            std::thread::yield_now();
        }
        self.runs[task].fetch_add(1, Ordering::SeqCst);
        self.running.fetch_sub(1, Ordering::SeqCst);
        match self.event {
            Event::Panic(at) if at == task => panic!("a panic in task {task}"),
            Event::Error(at) if at == task => Err(BoxError::new(format!("task {task} does not like it"))),
            _ => Ok(()),
        }
    }
}

/// The cases of all tests; a box's parameter names its case.
static CASES: LazyLock<Mutex<Vec<Arc<Case>>>> = LazyLock::new(|| Mutex::new(Vec::new()));

struct RunsCase(Arc<Case>);

impl Operator for RunsCase {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        match cx.inside(|inside| inside.graph(&*self.0)) {
            Ok(()) => cx.push(OUT, envelope([self.0.ran.load(Ordering::SeqCst) as u64]))?,
            Err(GraphError::Task(error)) => return Err(error),
            Err(other) => return Err(BoxError::new(other.to_string())),
        };
        Ok(Flow::Done)
    }
}

const OUT: Out = Out::new(0, "out", numbers, "the number of tasks that ran");

static RUNS_CASE: OperatorSpec = OperatorSpec {
    parameters: &[Parameter::new("case", ParameterType::integer_from(0), Default::Integer(0), "its number")],
    outputs: &[OUT],
    ..OperatorSpec::new("case", "runs a graph", Kind::Stateful, |bind| {
        Ok(Box::new(RunsCase(Arc::clone(&CASES.lock()[bind.count("case")]))))
    })
};

fn prepare(case: &Arc<Case>) -> Arc<Prepared> {
    let number = {
        let mut cases = CASES.lock();
        cases.push(Arc::clone(case));
        cases.len() - 1
    };
    let catalog = Catalog::new([&RUNS_CASE, &TIMED, &COLLECT], [&BASKET_RESOURCE]);
    let graph = Graph::new().add("s", "case", &[("case", int(number as i64))]);
    graph.add("c", "collect", &[]).chain("s -> c").prepare_with(&catalog)
}

fn run(runtime: &Runtime, case: &Arc<Case>) -> Result<(), RequestError> {
    let result = wait(&runtime.submit(&prepare(case), &Submission::default()).unwrap()).result;
    case.check();
    result
}

#[test]
fn random_graphs_give_the_same_bits_on_any_number_of_slots() {
    for slots in SLOTS {
        let runtime = Runtime::start(Config::flat(slots)).unwrap();
        for round in 0..8 {
            // Requests side by side, whose slots take each other's tokens.
            let sizes = [1, 2, 17, 300, 2000].map(|tasks| (tasks, 1 + round as usize * 5));
            let cases = sizes.map(|(tasks, reach)| Case::new(round, tasks, reach, Event::Nothing));
            let prepared = cases.each_ref().map(prepare);
            let requests =
                prepared.each_ref().map(|one| runtime.submit(one, &Submission::default()).unwrap());
            for (case, request) in cases.iter().zip(&requests) {
                wait(request).result.unwrap();
                case.check();
                let values: Vec<u64> =
                    case.values.iter().map(|value| value.load(Ordering::Relaxed)).collect();
                assert_eq!(values, case.expected(), "round {round}, {} tasks, {slots} slots", case.tasks);
            }
        }
    }
}

#[test]
fn random_graphs_run_in_random_orders_of_steps() {
    for seed in 0..60 {
        simulate(seed, move || {
            let runtime = Runtime::start(Config::flat(1 + seed as usize % 4)).unwrap();
            let case = Case::new(seed, 40, 1 + seed as usize % 13, Event::Nothing);
            run(&runtime, &case).unwrap();
            assert_eq!(case.ran.load(Ordering::SeqCst), case.tasks);
        });
    }
}

/// Tasks that are shorter than a steal, in three requests at once.
#[test]
fn slots_that_take_short_tasks_from_each_other_lose_none() {
    let runtime = Runtime::start(Config::flat(7)).unwrap();
    let cases = [2, 5, 40].map(|reach| Case::new(reach as u64, 50_000, reach, Event::Nothing));
    let prepared = cases.each_ref().map(prepare);
    for request in prepared.each_ref().map(|one| runtime.submit(one, &Submission::default()).unwrap()) {
        wait(&request).result.unwrap();
    }
    for case in &cases {
        case.check();
        assert_eq!(case.ran.load(Ordering::SeqCst), case.tasks);
    }
}

#[test]
fn a_cancel_at_any_point_ends_the_graph_and_leaves_nothing_running() {
    for slots in SLOTS {
        let runtime = Runtime::start(Config::flat(slots)).unwrap();
        for point in [0, 1, 2, 5, 40, 333, 799] {
            let case = Case::new(point as u64, 800, 12, Event::Wait(point));
            let request = runtime.submit(&prepare(&case), &Submission::default()).unwrap();
            while case.ran.load(Ordering::SeqCst) <= point {
                std::thread::yield_now();
            }
            request.cancel();
            assert!(matches!(wait(&request).result, Err(RequestError::Cancelled)));
            case.check();
            let ran = case.ran.load(Ordering::SeqCst);
            assert!(ran <= point + slots, "{ran} tasks began, {point} before the cancel, on {slots} slots");
        }
        // The runtime is as good as before.
        run(&runtime, &Case::new(1, 100, 5, Event::Nothing)).unwrap();
    }
}

#[test]
fn a_task_that_fails_or_panics_ends_its_request_with_the_cause() {
    for slots in SLOTS {
        let runtime = Runtime::start(Config::flat(slots)).unwrap();
        for at in [0, 7, 250, 499] {
            let case = Case::new(3, 500, 9, Event::Error(at));
            let error = run(&runtime, &case).unwrap_err().to_string();
            assert!(error.contains(&format!("task {at} does not like it")), "{error}");
            let panicked = run(&runtime, &Case::new(3, 500, 9, Event::Panic(at))).unwrap_err();
            assert!(
                matches!(&panicked, RequestError::Panicked { name, cause }
                    if name == "s" && cause.contains(&format!("a panic in task {at}"))),
                "{panicked}"
            );
        }
        run(&runtime, &Case::new(1, 100, 5, Event::Nothing)).unwrap();
    }
}

/// A chain of tasks, and tasks beside it that nothing waits for; each computes for a millisecond. Or a fan: one task, then the
/// others.
struct Timed {
    chain: usize,
    tasks: usize,
    fan: bool,
    cycle: bool,
}

impl TaskGraph for Timed {
    type Error = BoxError;

    fn tasks(&self) -> usize {
        self.tasks
    }

    fn predecessors(&self, task: usize) -> u32 {
        u32::from(self.cycle || task > 0 && (self.fan || task < self.chain))
    }

    fn successors(&self, task: usize, mut each: impl FnMut(usize)) {
        if self.cycle {
            each((task + 1) % self.tasks);
        } else if self.fan && task == 0 {
            (1..self.tasks).for_each(each);
        } else if task + 1 < self.chain {
            each(task + 1);
        }
    }

    fn priority(&self, task: usize) -> u32 {
        self.chain.saturating_sub(task) as u32
    }

    fn run(&self, _: usize, _: &mut Inside<'_>) -> Result<(), BoxError> {
        compute(Duration::from_millis(1));
        Ok(())
    }
}

struct RunsTimed(Timed);

impl Operator for RunsTimed {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        cx.inside(|inside| inside.graph(&self.0)).map_err(|error| BoxError::new(error.to_string()))?;
        Ok(Flow::Done)
    }
}

const fn number(name: &'static str) -> Parameter {
    Parameter::new(name, ParameterType::integer_from(0), Default::Integer(0), "a number")
}

static TIMED: OperatorSpec = OperatorSpec {
    parameters: &[number("chain"), number("tasks"), number("fan"), number("cycle")],
    outputs: &[OUT],
    ..OperatorSpec::new("timed", "runs a graph", Kind::Stateful, |bind| {
        let (fan, cycle) = (bind.count("fan") > 0, bind.count("cycle") > 0);
        let (chain, tasks) = (bind.count("chain"), bind.count("tasks"));
        Ok(Box::new(RunsTimed(Timed { chain, tasks, fan, cycle })))
    })
};

fn timed(slots: usize, settings: &[(&str, i64)]) -> Result<(), RequestError> {
    let settings: Vec<_> = settings.iter().map(|(name, value)| (*name, int(*value))).collect();
    let catalog = Catalog::new([&TIMED, &COLLECT], [&BASKET_RESOURCE]);
    let graph = Graph::new().add("s", "timed", &settings).add("c", "collect", &[]).chain("s -> c");
    let runtime = Runtime::start(Config::flat(slots)).unwrap();
    wait(&runtime.submit(&graph.prepare_with(&catalog), &Submission::default()).unwrap()).result
}

/// The simulated time of a graph.
fn elapsed(seed: u64, slots: usize, settings: &'static [(&str, i64)]) -> Duration {
    simulate(seed, move || timed(slots, settings).unwrap()).elapsed
}

/// A chain of 20 tasks and 60 beside it: 40 ms on two slots and 20 on four if the chain comes first.
#[test]
fn the_longest_path_comes_first() {
    for seed in 0..10 {
        for (slots, limit) in [(1, 82), (2, 43), (4, 24)] {
            let elapsed = elapsed(seed, slots, &[("chain", 20), ("tasks", 80)]);
            assert!(elapsed < Duration::from_millis(limit), "seed {seed}, {slots} slots: {elapsed:?}");
        }
    }
}

/// Another slot may run the first task, and makes the others ready: the caller, which waits, must take some of them.
#[test]
fn a_caller_that_waits_takes_tasks_of_other_slots() {
    for seed in 0..30 {
        let elapsed = elapsed(seed, 2, &[("tasks", 41), ("fan", 1)]);
        assert!(elapsed < Duration::from_millis(24), "seed {seed}: {elapsed:?}");
    }
}

#[test]
fn a_cycle_ends_the_request_with_an_error() {
    for slots in SLOTS {
        let error = timed(slots, &[("tasks", 5), ("cycle", 1)]).unwrap_err().to_string();
        assert!(error.contains("5 of 5 tasks never became ready, task 0 the first"), "{error}");
        timed(slots, &[("tasks", 0)]).unwrap();
    }
}
