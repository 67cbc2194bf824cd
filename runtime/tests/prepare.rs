//! Preparing a pipeline: the environment that resources and boxes see, and the cancellation of a preparation.

mod support;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use boxwork_runtime::operator::*;
use boxwork_runtime::parameter::{Default, Parameter, ParameterType, Value};
use boxwork_runtime::plan::{ParameterDeclaration, ResourceDeclaration, Setting};
use boxwork_runtime::prepare::{PrepareError, Prepared};
use boxwork_runtime::request::{RequestError, Submission};
use boxwork_runtime::{Config, Runtime};
use support::*;

/// Whether the resource below is being loaded.
static BEGUN: AtomicBool = AtomicBool::new(false);

/// A resource whose loading ends only if it is cancelled.
static ENDLESS: ResourceSpec = ResourceSpec {
    name: "endless",
    about: "is loaded for ever",
    parameters: &[],
    example: "",
    provides: None,
    check: None,
    load: |bind| {
        BEGUN.store(true, Ordering::SeqCst);
        loop {
            bind.cancellation().check()?;
            thread::yield_now();
        }
    },
};

/// Prepares a graph that uses the endless resource.
fn prepare_endless(cancellation: Cancellation) -> Result<Prepared, PrepareError> {
    let mut graph = Graph::new().add("s", "source", &[("count", int(1))]).add("c", "collect", &[]);
    let kind = Setting::Value(text("endless"));
    graph.0.resources.push(ResourceDeclaration { name: "index".into(), kind, settings: Vec::new() });
    let graph = graph.chain("s -> c");
    let environment = Environment { cancellation, ..Environment::of_slots(1) };
    Prepared::new(&graph.0, &catalog().with_resource(&ENDLESS), &BTreeMap::new(), &environment)
}

#[test]
fn a_resource_that_takes_for_ever_can_be_cancelled() {
    let cancellation = Cancellation::new();
    let stop = cancellation.clone();
    let stopper = thread::spawn(move || {
        while !BEGUN.load(Ordering::SeqCst) {
            thread::yield_now();
        }
        stop.cancel();
    });
    let error = prepare_endless(cancellation).err().expect("nothing else ends the preparation");
    stopper.join().unwrap();
    assert!(matches!(error, PrepareError::Cancelled), "{error}");
}

#[test]
fn a_resource_that_takes_for_ever_ends_at_its_deadline() {
    let deadline = Instant::now() + Duration::from_millis(20);
    let error = prepare_endless(Cancellation::never().until(Some(deadline))).err();
    assert!(matches!(error, Some(PrepareError::DeadlinePassed)), "{error:?}");
}

const OUT: Out = Out::new(0, "out", numbers, "the slots");

/// Pushes the number of slots that it was made for.
static SLOTS: OperatorSpec = OperatorSpec {
    outputs: &[OUT],
    ..OperatorSpec::new("slots", "Puts out the slots of its runtime.", Kind::Stateful, |bind| {
        Ok(Box::new(Slots(bind.slots() as u64)))
    })
};

struct Slots(u64);

impl Operator for Slots {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        cx.push(OUT, envelope([self.0]))?;
        Ok(Flow::Done)
    }
}

#[test]
fn boxes_see_the_slots_of_the_runtime_that_runs_them_and_not_the_machine() {
    let catalog = catalog().with(&SLOTS);
    let prepared = Graph::new().add("s", "slots", &[]).add("c", "collect", &[]).chain("s -> c");
    let prepared = prepared.prepare_with(&catalog);
    for slots in [1, 3, 7] {
        let runtime = Runtime::start(Config::flat(slots)).unwrap();
        assert_eq!(runtime.environment().slots, slots);
        wait(&runtime.submit(&prepared, &Submission::default()).unwrap()).result.unwrap();
        assert_eq!(std::mem::take(&mut *basket(&prepared).got.lock()), [slots as u64]);
    }
}

const SEEN: HintIn = HintIn::new(0, "seen", Join::Minimum, "a hint");
const JOINED: HintOut = HintOut::new(0, "joined", Join::Minimum, "a hint");

/// Reads the hint of a query, and joins into the hint of another query.
static HINTS: OperatorSpec = OperatorSpec {
    parameters: &[
        Parameter::new("reads", ParameterType::integer_from(0), Default::Integer(0), "a query"),
        Parameter::new("writes", ParameterType::integer_from(0), Default::Integer(0), "a query"),
        Parameter::new("queries", ParameterType::List(&ParameterType::Text), Default::EmptyList, "queries")
            .batched(),
    ],
    hints_read: &[SEEN],
    hints_written: &[JOINED],
    ..OperatorSpec::new("hints", "Reads a hint and writes one.", Kind::Stateful, |bind| {
        Ok(Box::new(Hints { reads: bind.count("reads") as u32, writes: bind.count("writes") as u32 }))
    })
};

struct Hints {
    reads: u32,
    writes: u32,
}

impl Operator for Hints {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        cx.hint(SEEN, self.reads);
        cx.join_hint(JOINED, self.writes, 1.0);
        Ok(Flow::Done)
    }
}

#[test]
fn a_query_number_beyond_the_limit_is_an_error_and_no_panic() {
    let catalog = catalog().with(&HINTS);
    let runtime = Runtime::start(Config::flat(1)).unwrap();
    let result = |queries: Option<usize>, reads: i64, writes: i64| {
        let settings = [("reads", int(reads)), ("writes", int(writes))];
        let graph = Graph::new().add("h", "hints", &settings).add("other", "hints", &[]);
        let mut graph = graph.hint("h.joined", "other.seen").hint("other.joined", "h.seen");
        graph.0.queries = queries;
        wait(&runtime.submit(&graph.prepare_with(&catalog), &Submission::default()).unwrap()).result
    };
    for (declared, most) in [(None, 64), (Some(1), 1), (Some(4096), 4096)] {
        assert_eq!(result(declared, most - 1, most - 1), Ok(()));
        for (reads, writes) in [(most, 0), (0, most), (i64::from(u32::MAX), 0)] {
            let error = result(declared, reads, writes).unwrap_err();
            let number = reads.max(writes);
            let RequestError::Failed { name, cause } = &error else { panic!("{error}") };
            assert!(name == "h" && cause.contains(&format!("no query {number}")), "{error}");
        }
    }
}

#[test]
fn a_request_of_more_queries_than_its_plan_declares_is_refused() {
    let catalog = catalog().with(&HINTS);
    let runtime = Runtime::start(Config::flat(1)).unwrap();
    let mut graph = Graph::new().add("h", "hints", &[]);
    graph.0.boxes[0].settings.push(("queries".into(), Setting::Parameter("queries".into())));
    graph.0.parameters.push(ParameterDeclaration {
        name: "queries".into(),
        kind: ParameterType::List(&ParameterType::Text),
        one_of: Vec::new(),
        default: Some(Value::List(Vec::new())),
        optional: false,
        about: String::new(),
    });
    graph.0.queries = Some(100);
    let prepared = graph.prepare_with(&catalog);
    let submit = |count: usize| {
        let values = BTreeMap::from([("queries".to_owned(), Value::List(vec![text("q"); count]))]);
        runtime.submit(&prepared, &Submission { values, ..Submission::default() })
    };
    wait(&submit(100).unwrap()).result.unwrap();
    let error = submit(101).err().expect("one too many").to_string();
    assert!(error.contains("has 101 values") && error.contains("at most 100"), "{error}");
}
