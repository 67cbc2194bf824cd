//! How much memory does a producer that floods a slow consumer take?
//!
//! Units: bytes on the edge, and MB of anonymous memory (`RssAnon`) beyond the process's initial memory. Baseline: this
//! producer and consumer over an unbounded channel of the standard library, which keeps everything not consumed yet.
//! The bar is the edge's own budget: the waiting bytes never exceed it, and the process grows by no more than that and
//! the few envelopes on which the two boxes work.
//!
//! The producer makes envelopes of 256 KiB as fast as the edge accepts them; the consumer blocks for a millisecond on
//! each.
//!
//! Each figure comes from its own process. The bar is checked with an allocator that returns memory at once (glibc's
//! `MALLOC_MMAP_THRESHOLD_`): by default every thread keeps some of the memory that it freed. The bench prints that
//! figure too.
//!
//! `cargo bench --bench flood -- envelopes=1000 budget_kib=4096 waiting=512`

mod support;

use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use arrow_array::{ArrayRef, UInt64Array};
use arrow_schema::DataType;
use boxwork::pipeline;
use boxwork_runtime::descriptor::{Column, Descriptor};
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::operator::{
    Bind, BoxError, Catalog, Context, Environment, Flow, In, Kind, Operator, OperatorSpec, Out, Pushed,
};
use boxwork_runtime::parameter::{self, Arguments as Parameters, Parameter, ParameterType, Value};
use boxwork_runtime::prepare::Prepared;
use boxwork_runtime::request::Submission;
use boxwork_runtime::{Config, Runtime};
use support::memory::{anonymous_bytes, anonymous_bytes_max, megabytes};
use support::{Arguments, print_machine, verdict};

/// Rows of an envelope, 8 bytes each.
const ROWS: u64 = 32_768;
/// How long the consumer blocks on an envelope.
const PAUSE: Duration = Duration::from_millis(1);
/// Envelopes beyond those on the edge: the producer's, the consumer's, and one freed since the last sample; the rest is
/// for stacks and the scheduler.
const ENVELOPES_BESIDE: usize = 8;
/// Blocks from this size on are returned when they are freed; without it glibc raises the size over time.
const GIVEN_BACK: (&str, &str) = ("MALLOC_MMAP_THRESHOLD_", "131072");

/// The sum of all rows that were consumed.
static CONSUMED: AtomicU64 = AtomicU64::new(0);

fn main() {
    let arguments = Arguments::read(&["envelopes", "budget_kib", "waiting", "measure"]);
    let envelopes = arguments.get("envelopes", 1000_u64);
    let budget = arguments.get("budget_kib", 4096_usize) << 10;
    let waiting = arguments.get("waiting", 512_usize);
    match arguments.text("measure") {
        Some("edge") => return say(flood_an_edge(envelopes, budget, waiting)),
        Some(_) => return say((0, 0, flood_a_channel(envelopes))),
        None => {}
    }
    println!("question    how much memory does a producer that floods a slow consumer take?");
    println!("unit        MB of anonymous memory beyond the initial memory");
    print_machine();
    let envelope_bytes = ROWS as usize * size_of::<u64>();
    let all = megabytes(envelopes as usize * envelope_bytes);
    println!("flood       {envelopes} envelopes of {envelope_bytes} bytes, {all:.0} MB in all");
    println!();

    let (high, budget, grown) = in_a_process("edge", true);
    let (_, _, grown_by_default) = in_a_process("edge", false);
    let (_, _, channel) = in_a_process("channel", true);
    println!("checked     all rows came through, once, in every process");
    println!(
        "edge        {:.2} MB waited at the highest, of {:.2} MB allowed",
        megabytes(high),
        megabytes(budget)
    );
    println!(
        "            the process grew by {:.1} MB ({:.1} MB with the allocator's defaults)",
        megabytes(grown),
        megabytes(grown_by_default)
    );
    println!("channel     unbounded: the process grew by {:.1} MB", megabytes(channel));
    println!("ratio       {:.1} x less memory than the channel", channel as f64 / grown.max(1) as f64);
    println!("limit       {:.2} MB: the edge's budget", megabytes(budget));
    verdict("bytes on the edge, of its budget", high as f64 / budget as f64, 1.0, high <= budget);
    let most = budget + ENVELOPES_BESIDE * envelope_bytes;
    verdict("MB grown, of budget and 8 envelopes", megabytes(grown), megabytes(most), grown <= most);
}

/// Prints for the parent process: bytes on the edge, its budget, and growth.
fn say((high, budget, grown): (usize, usize, usize)) {
    println!("{high} {budget} {grown}");
}

/// One flood in its own process.
fn in_a_process(what: &str, is_given_back: bool) -> (usize, usize, usize) {
    let program = std::env::current_exe().expect("the program knows its file");
    let mut command = Command::new(program);
    command.args(std::env::args().skip(1)).arg(format!("measure={what}"));
    if is_given_back {
        command.env(GIVEN_BACK.0, GIVEN_BACK.1);
    }
    let output = command.stderr(Stdio::inherit()).output().expect("the program can be started again");
    assert!(output.status.success(), "the flood failed");
    let text = String::from_utf8_lossy(&output.stdout);
    let figures: Vec<usize> = text.split_whitespace().filter_map(|figure| figure.parse().ok()).collect();
    (figures[0], figures[1], figures[2])
}

/// The most bytes on the edge, its budget, and the growth of the process.
fn flood_an_edge(envelopes: u64, budget: usize, waiting: usize) -> (usize, usize, usize) {
    let text = format!(
        "boxwork: 1\n\
         parameters:\n  envelopes: {{type: integer}}\n\
         boxes:\n  flood: {{kind: flood, envelopes: \"${{envelopes}}\"}}\n  drain: {{kind: drain}}\n\
         edges:\n  - {{from: flood, to: drain, envelopes: {waiting}, bytes: {budget}}}\n"
    );
    let loaded = pipeline::load_text("flood", &text).unwrap_or_else(|flaws| panic!("{flaws:?}"));
    let values = BTreeMap::from([("envelopes".to_owned(), Value::Integer(envelopes as i64))]);
    let catalog = Catalog::new([&FLOOD, &DRAIN], []);
    let prepared = Prepared::new(&loaded.declaration, &catalog, &values, &Environment::of_slots(2));
    let prepared = Arc::new(prepared.unwrap_or_else(|error| panic!("{error}")));
    let runtime = Runtime::start(Config::flat(2)).expect("the system gives threads");
    CONSUMED.store(0, Ordering::Relaxed);
    let before = anonymous_bytes();
    let (outcome, most) = anonymous_bytes_max(|| {
        let request = runtime.submit(&prepared, &Submission::default());
        request.unwrap_or_else(|error| panic!("{error}")).wait()
    });
    outcome.result.unwrap_or_else(|error| panic!("{error}"));
    check(envelopes);
    let state = outcome.edges[0].state;
    assert_eq!(state.envelopes_total, envelopes);
    assert_eq!(state.grown, 0, "nothing stalls here");
    (state.bytes_high, state.bytes_max, most.saturating_sub(before))
}

/// The growth of the process.
fn flood_a_channel(envelopes: u64) -> usize {
    CONSUMED.store(0, Ordering::Relaxed);
    let before = anonymous_bytes();
    let ((), most) = anonymous_bytes_max(|| {
        let (sender, receiver) = mpsc::channel();
        thread::scope(|scope| {
            scope.spawn(move || (0..envelopes).for_each(|number| drop(sender.send(envelope(number)))));
            scope.spawn(move || {
                for envelope in receiver {
                    consume(&envelope).expect("a column of numbers");
                    thread::sleep(PAUSE);
                }
            });
        });
    });
    check(envelopes);
    most.saturating_sub(before)
}

fn check(envelopes: u64) {
    let rows = envelopes * ROWS;
    assert_eq!(CONSUMED.load(Ordering::Relaxed), rows * (rows - 1) / 2, "all rows come through, once");
}

/// The rows of the envelope with this number.
fn envelope(number: u64) -> Envelope {
    let rows: ArrayRef = Arc::new(UInt64Array::from_iter_values(number * ROWS..(number + 1) * ROWS));
    Envelope::from_columns([("n", rows)]).expect("one column")
}

fn consume(envelope: &Envelope) -> Result<(), BoxError> {
    CONSUMED.fetch_add(envelope.u64s("n")?.iter().sum(), Ordering::Relaxed);
    Ok(())
}

fn numbers(_: &Parameters) -> Descriptor {
    Descriptor::new([Column::new("n", DataType::UInt64, "a number")])
}

const NUMBERS_OUT: Out = Out::new(0, "numbers", numbers, "numbers from 0");

static FLOOD: OperatorSpec = OperatorSpec {
    parameters: &[Parameter::new(
        "envelopes",
        ParameterType::integer_from(0),
        parameter::Default::Required,
        "number of envelopes",
    )],
    outputs: &[NUMBERS_OUT],
    ..OperatorSpec::new("flood", "Makes envelopes as fast as it can.", Kind::Stateful, make_flood)
};

const NUMBERS_IN: In = In::stream(0, "numbers", numbers, "numbers");

static DRAIN: OperatorSpec = OperatorSpec {
    inputs: &[NUMBERS_IN],
    ..OperatorSpec::new("drain", "Blocks on each envelope.", Kind::Stateful, |_| Ok(Box::new(Drain)))
};

fn make_flood(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    Ok(Box::new(Flood { next: 0, end: bind.count("envelopes") as u64 }))
}

struct Flood {
    next: u64,
    end: u64,
}

impl Operator for Flood {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        while cx.has_room(NUMBERS_OUT) {
            if self.next == self.end || cx.push(NUMBERS_OUT, envelope(self.next))? == Pushed::Closed {
                return Ok(Flow::Done);
            }
            self.next += 1;
        }
        Ok(Flow::Wait)
    }
}

struct Drain;

impl Operator for Drain {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        let Some(envelope) = cx.take(NUMBERS_IN) else {
            return Ok(if cx.is_ended(NUMBERS_IN) { Flow::Done } else { Flow::Wait });
        };
        consume(&envelope)?;
        cx.detached("disk", || thread::sleep(PAUSE))?;
        Ok(Flow::Wait)
    }
}
