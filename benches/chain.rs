//! What does one hop cost: pushing an envelope, planning the next box, firing it, taking the envelope?
//!
//! Unit: nanoseconds a hop, on one worker; workload B1: messages go through a chain of boxes that hand on what they take.
//! Once over edges that hold one envelope, so that every hop is a firing, and once over edges of 16, as a pipeline has
//! them, where a firing takes what waits. Baseline: the same chain in oneTBB's flow graph, function nodes that hand on an
//! integer, one thread; its nodes queue without bound. The bar is half of its time.
//!
//! Timed: a request from its submission to its end, of a pipeline prepared before; there, putting all messages into the
//! first node and waiting for the graph. Not timed: making the graph. Each side counts what came out at the end.
//!
//! `cargo bench --bench chain -- boxes=256 messages=1000 rounds=21`; needs a C++ compiler and oneTBB (Debian: g++,
//! libtbb-dev) for the other side.

mod support;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use arrow_array::{ArrayRef, UInt64Array};
use arrow_schema::DataType;
use boxwork::pipeline;
use boxwork_runtime::descriptor::{Column, Descriptor};
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::operator::{
    Bind, BoxError, Catalog, Context, Environment, Flow, Input, Kind, Operator, OperatorSpec, Output, Pushed,
};
use boxwork_runtime::parameter::{self, Arguments as Parameters, Parameter, ParameterType, Value};
use boxwork_runtime::prepare::Prepared;
use boxwork_runtime::request::Submission;
use boxwork_runtime::{Config, Runtime};
use support::peer::Peer;
use support::{Arguments, Side, print_machine, run_rounds, verdict};

/// Of oneTBB's time.
const SHARE_WANTED: f64 = 0.5;

/// Messages that reached the end.
static ARRIVED: AtomicU64 = AtomicU64::new(0);

fn main() {
    let arguments = Arguments::read(&["boxes", "messages", "rounds"]);
    let boxes = arguments.get("boxes", 256_usize);
    let messages = arguments.get("messages", 1000_u64);
    let rounds = arguments.get("rounds", 21);
    println!("question    what does one hop cost?");
    println!("unit        ns a hop; {messages} messages through {boxes} boxes, one worker");
    print_machine();
    println!("rounds      {rounds}; median (middle half) of the wall's time, ratios within a round");

    let hops = messages as f64 * boxes as f64;
    let (single, several) = (prepare(boxes, messages, 1), prepare(boxes, messages, 16));
    let runtime = Runtime::start(Config::flat(1)).expect("the system gives threads");
    let mut peer = Peer::one_tbb(&[&boxes.to_string(), &messages.to_string()]);
    let run = |prepared: &Arc<Prepared>| {
        ARRIVED.store(0, Ordering::Relaxed);
        let start = Instant::now();
        let request = runtime.submit(prepared, &Submission::default());
        let outcome = request.unwrap_or_else(|error| panic!("{error}")).wait();
        let seconds = start.elapsed().as_secs_f64();
        outcome.result.unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(ARRIVED.load(Ordering::Relaxed), messages, "every message arrives, once");
        seconds / hops
    };
    let mut sides =
        vec![Side::new("edges of 1", || run(&single)), Side::new("edges of 16", || run(&several))];
    if let Some(peer) = peer.as_mut() {
        sides.push(Side::new(peer.name.clone(), move || peer.seconds("time")));
    }
    run_rounds(rounds, &mut sides);
    println!();
    for side in &sides {
        let spread = side.spread();
        println!(
            "{:14}{:.0} ({:.0} to {:.0}) ns a hop",
            side.name,
            spread.median * 1e9,
            spread.low * 1e9,
            spread.high * 1e9
        );
    }
    if let [single, several, theirs] = &sides[..] {
        for ours in [single, several] {
            let share = theirs.faster_than(ours);
            println!("{:12}{share:.3} of its time", ours.name);
            verdict("time of oneTBB's", share.median, SHARE_WANTED, share.median <= SHARE_WANTED);
        }
    }
}

fn prepare(boxes: usize, messages: u64, envelopes: usize) -> Arc<Prepared> {
    let mut text = "boxwork: 1\nparameters:\n  messages: {type: integer}\nboxes:\n".to_owned();
    let _ = writeln!(text, "  source: {{kind: source, messages: \"${{messages}}\"}}");
    let _ = writeln!(text, "  end: {{kind: end}}");
    let mut edges = String::new();
    let mut before = "source".to_owned();
    for idx in 0..boxes {
        let name = format!("hop{idx}");
        let _ = writeln!(text, "  {name}: {{kind: hop}}");
        let _ = writeln!(edges, "  - {{from: {before}, to: {name}, envelopes: {envelopes}}}");
        before = name;
    }
    let _ = write!(text, "edges:\n{edges}  - {{from: {before}, to: end, envelopes: {envelopes}}}\n");
    let loaded = pipeline::load_text("chain", &text).unwrap_or_else(|flaws| panic!("{flaws:?}"));
    let values = BTreeMap::from([("messages".to_owned(), Value::Integer(messages as i64))]);
    let (catalog, environment) = (Catalog::new([&SOURCE, &HOP, &END], []), Environment::of_slots(1));
    let prepared = Prepared::new(&loaded.declaration, &catalog, &values, &environment);
    Arc::new(prepared.unwrap_or_else(|error| panic!("{error}")))
}

fn numbers(_: &Parameters) -> Descriptor {
    Descriptor::new([Column::new("n", DataType::UInt64, "a number")])
}

static SOURCE: OperatorSpec = OperatorSpec {
    parameters: &[Parameter::new(
        "messages",
        ParameterType::integer_from(0),
        parameter::Default::Required,
        "how many to send",
    )],
    outputs: &[Output::new("numbers", numbers, "the same number again and again")],
    ..OperatorSpec::new("source", "Sends messages.", Kind::Stateful, make_source)
};

static HOP: OperatorSpec = OperatorSpec {
    inputs: &[Input::stream("in", numbers, "messages")],
    outputs: &[Output::new("out", numbers, "the same messages")],
    ..OperatorSpec::new("hop", "Hands on what it takes.", Kind::Stateful, |_| Ok(Box::new(Hop)))
};

static END: OperatorSpec = OperatorSpec {
    inputs: &[Input::stream("in", numbers, "messages")],
    ..OperatorSpec::new("end", "Counts what arrives.", Kind::Stateful, |_| Ok(Box::new(End)))
};

fn make_source(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    let column: ArrayRef = Arc::new(UInt64Array::from_iter_values([7]));
    let message = Envelope::from_columns([("n", column)])?;
    Ok(Box::new(Source { left: bind.count("messages"), message }))
}

struct Source {
    left: usize,
    /// Cloned for each message: what an envelope costs to make is not a hop's.
    message: Envelope,
}

impl Operator for Source {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        while cx.has_room("numbers") {
            if self.left == 0 || cx.push("numbers", self.message.clone())? == Pushed::Closed {
                return Ok(Flow::Done);
            }
            self.left -= 1;
        }
        Ok(Flow::Wait)
    }
}

struct Hop;

impl Operator for Hop {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        while cx.has_room("out") {
            let Some(message) = cx.take("in") else {
                return Ok(if cx.is_ended("in") { Flow::Done } else { Flow::Wait });
            };
            cx.push("out", message)?;
        }
        Ok(Flow::Wait)
    }
}

struct End;

impl Operator for End {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        while cx.take("in").is_some() {
            ARRIVED.fetch_add(1, Ordering::Relaxed);
        }
        Ok(if cx.is_ended("in") { Flow::Done } else { Flow::Wait })
    }
}
