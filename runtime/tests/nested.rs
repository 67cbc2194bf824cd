//! Nested parallelism: joins inside of boxes, on slots that other boxes need too.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use boxwork_runtime::inside::Inside;
use boxwork_runtime::operator::*;
use boxwork_runtime::prepare::Prepared;
use boxwork_runtime::request::{RequestError, Submission};
use boxwork_runtime::simulator::{compute, simulate};
use boxwork_runtime::{Config, Runtime};
use parking_lot::Mutex;
use support::*;

#[test]
fn branches_keep_strict_n_and_run_nothing_foreign() {
    // The lock that a firing holds across its branches is wanted by all other copies: a joiner that ran one of their
    // firings on its stack would wait for itself. The second runtime has no thread to spare.
    for threads_max in [64, 3] {
        let runtime = Runtime::start(Config { threads_max, ..Config::flat(3) }).unwrap();
        let settings = [("copies", int(3)), ("branches", int(9)), ("spin_us", int(30))];
        for kind in ["add", "add_ordered"] {
            let graph = Graph::new()
                .add("s", "source", &[("count", int(60))])
                .add("a", kind, &settings)
                .add("b", "add", &[("copies", int(3)), ("spin_us", int(10)), ("block_us", int(20))])
                .add("c", "collect", &[])
                .chain("s -> a -> b -> c");
            let (outcome, basket) = graph.run_on(&runtime);
            outcome.result.unwrap();
            assert_eq!(sorted(&basket), (2..62).collect::<Vec<u64>>());
            let high = basket.computing_high.load(Ordering::SeqCst);
            assert!(high <= 3, "{high} branches computed on 3 slots");
        }
        let threads = runtime.statistics().threads;
        assert!(threads <= threads_max, "{threads} threads, {threads_max} allowed");
    }
}

fn fibonacci(inside: &mut Inside<'_>, n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    let (a, b) = inside.join(|inside| fibonacci(inside, n - 1), |inside| fibonacci(inside, n - 2));
    a + b
}

static ENTERED: AtomicUsize = AtomicUsize::new(0);
static STOPPED: AtomicBool = AtomicBool::new(false);

/// By kind: pushes a Fibonacci number, panics in a branch, waits in its branches for the end of its request, has a long
/// branch, or has a branch that spawns into an outer scope a branch which needs the firing's lock.
struct Deep(&'static str);
impl Operator for Deep {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        match self.0 {
            "panic" => {
                cx.for_each_chunk(64, 1, |chunk| assert!(chunk.start != 40, "a panic in a branch"));
            }
            "wait" => {
                cx.join(wait_for_the_end, wait_for_the_end);
                STOPPED.store(true, Ordering::SeqCst);
            }
            "help" => cx.inside(|inside| {
                let millisecond = || compute(Duration::from_millis(1));
                inside.join(|_| millisecond(), |inside| inside.for_each_chunk(64, 1, |_| millisecond()));
            }),
            "outside" => cx.inside(|inside| {
                let (lock, joiner) = (Mutex::new(()), std::thread::current().id());
                // A thread that waited for the lock would stop the simulated clock.
                let wants = || {
                    let is_free = lock.try_lock().is_some();
                    assert!(is_free || std::thread::current().id() != joiner, "it would wait for itself");
                };
                inside.scope(|scope, inside| {
                    let held = lock.lock();
                    let leaves = |inside: &mut Inside<'_>| {
                        scope.spawn(inside, |_, _| wants());
                        inside.for_each_chunk(8, 1, |_| compute(Duration::from_millis(1)));
                    };
                    inside.join(|_| compute(Duration::from_millis(1)), leaves);
                    drop(held);
                });
            }),
            _ => {
                let number = cx.inside(|inside| fibonacci(inside, 20));
                cx.push(OUT, envelope([number]))?;
            }
        }
        Ok(Flow::Done)
    }
}

fn wait_for_the_end(inside: &mut Inside<'_>) {
    ENTERED.fetch_add(1, Ordering::SeqCst);
    while !inside.is_cancelled() {
        std::thread::yield_now();
    }
}

const OUT: Out = Out::new(0, "out", numbers, "a number");

macro_rules! deep {
    ($name:ident, $text:literal) => {
        static $name: OperatorSpec = OperatorSpec {
            outputs: &[OUT],
            ..OperatorSpec::new($text, "joins", Kind::Stateful, |_| Ok(Box::new(Deep($text))))
        };
    };
}
deep!(HELP, "help");
deep!(OUTSIDE, "outside");
deep!(FIBONACCI, "fibonacci");
deep!(PANIC, "panic");
deep!(WAIT, "wait");

fn deep(kind: &str) -> Arc<Prepared> {
    let catalog = Catalog::new([&FIBONACCI, &PANIC, &WAIT, &HELP, &OUTSIDE, &COLLECT], [&BASKET_RESOURCE]);
    Graph::new().add("s", kind, &[]).add("c", "collect", &[]).chain("s -> c").prepare_with(&catalog)
}

#[test]
fn many_requests_join_at_once() {
    let runtime = Runtime::start(Config::flat(2)).unwrap();
    let prepared = deep("fibonacci");
    let requests: Vec<_> =
        (0..40).map(|_| runtime.submit(&prepared, &Submission::default()).unwrap()).collect();
    requests.iter().for_each(|request| wait(request).result.unwrap());
    assert_eq!(basket(&prepared).got.lock()[..], [6765; 40]);
}

#[test]
fn a_panic_in_a_branch_names_its_box() {
    let runtime = Runtime::start(Config::flat(2)).unwrap();
    let request = runtime.submit(&deep("panic"), &Submission::default()).unwrap();
    let error = wait(&request).result.unwrap_err();
    assert!(
        matches!(&error, RequestError::Panicked { name, cause } if name == "s" && cause.contains("in a branch")),
        "{error}"
    );
}

/// Runs the kind alone on two slots, in simulated time.
fn simulated(seed: u64, kind: &'static str) -> Duration {
    let run = move || {
        let runtime = Runtime::start(Config::flat(2)).unwrap();
        wait(&runtime.submit(&deep(kind), &Submission::default()).unwrap()).result.unwrap();
    };
    simulate(seed, run).elapsed
}

/// One millisecond beside 64 of a branch that another slot takes as a whole: 33 on two slots.
#[test]
fn a_joiner_helps_with_the_branch_that_it_waits_for() {
    for seed in 0..20 {
        let elapsed = simulated(seed, "help");
        assert!(elapsed < Duration::from_millis(40), "seed {seed}: it waited, {elapsed:?}");
    }
}

/// The awaited branch has spawned it, but into an outer scope: run by the joiner it would wait for ever.
#[test]
fn a_joiner_leaves_branches_of_an_outer_scope() {
    for seed in 0..50 {
        simulated(seed, "outside");
    }
}

#[test]
fn branches_learn_of_a_cancel() {
    let runtime = Runtime::start(Config::flat(2)).unwrap();
    let request = runtime.submit(&deep("wait"), &Submission::default()).unwrap();
    while ENTERED.load(Ordering::SeqCst) < 2 {
        std::thread::yield_now();
    }
    request.cancel();
    assert!(matches!(wait(&request).result, Err(RequestError::Cancelled)));
    assert!(STOPPED.load(Ordering::SeqCst), "the request ended before its branches");
}

static TOGETHER: AtomicUsize = AtomicUsize::new(0);
const MEETING: usize = 4;

/// Announces the envelope that it has taken, and continues when enough of its copies compute at once.
struct Meets;

impl Operator for Meets {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        let Some(envelope) = cx.take(IN) else {
            return Ok(if cx.is_ended(IN) { Flow::Done } else { Flow::Wait });
        };
        cx.announce();
        TOGETHER.fetch_add(1, Ordering::SeqCst);
        let begun = std::time::Instant::now();
        while TOGETHER.load(Ordering::SeqCst) < MEETING {
            if begun.elapsed() > Duration::from_secs(60) {
                return Err(BoxError::new("the others did not come"));
            }
            std::thread::yield_now();
        }
        let pushed = cx.push(OUT, envelope)?;
        Ok(if pushed == Pushed::Closed { Flow::Done } else { Flow::Wait })
    }
}

const IN: In = In::stream(0, "in", numbers, "numbers");

static MEETS: OperatorSpec = OperatorSpec {
    inputs: &[IN],
    outputs: &[Out { about: "the envelopes taken", ..OUT }],
    ..OperatorSpec::new("meets", "waits for its copies", Kind::Stateless, |_| Ok(Box::new(Meets)))
};

/// Over an edge with room for one, the producer is notified of each taken envelope while the copy computes. Otherwise
/// no two copies would compute together.
#[test]
fn neighbours_are_notified_of_an_announcement_before_the_firing_ends() {
    let graph = Graph::new()
        .add("s", "source", &[("count", int(40)), ("rows", int(1))])
        .add("m", "meets", &[("copies", int(MEETING as i64))])
        .add("c", "collect", &[])
        .bounded("s -> m", Some(1), None)
        .chain("m -> c");
    let prepared = graph.prepare_with(&catalog().with(&MEETS));
    let runtime = Runtime::start(Config::flat(MEETING)).unwrap();
    let outcome = wait(&runtime.submit(&prepared, &Submission::default()).unwrap());
    outcome.result.unwrap();
    assert_eq!(sorted(&basket(&prepared)), (0..40).collect::<Vec<u64>>());
}
