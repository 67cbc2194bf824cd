//! How much does a hint cost, by the number of queries of its request?
//!
//! Units: ns for a join and a read of one hint, and us for a request from its submission to its end. Baseline: 64
//! queries per request, the default. The bar: a hint of 4,096 queries costs no more.
//!
//! One box joins a falling value into the hint of each query in turn, and reads it back through its own hint edge. A
//! request of one round is compared with a request without hints: the difference is the cost of making the cells.
//!
//! `cargo bench --bench queries -- touches=4000000 requests=2000 rounds=11`

mod support;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use boxwork_runtime::operator::{
    BoxError, Catalog, Context, Environment, Flow, HintIn, HintOut, Join, Kind, Operator, OperatorSpec,
};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType, QUERIES, QUERIES_MAX, Value};
use boxwork_runtime::prepare::Prepared;
use boxwork_runtime::request::Submission;
use boxwork_runtime::{Config, Runtime};
use support::{Arguments, Spread, print_machine, verdict};

/// The time of the last firing's joins and reads.
static TOUCHED_NS: AtomicU64 = AtomicU64::new(0);

const READ: HintIn = HintIn::new(0, "range", Join::Minimum, "a range");
const WRITTEN: HintOut = HintOut::new(0, "range", Join::Minimum, "a range");

static TOUCH: OperatorSpec = OperatorSpec {
    parameters: &[
        Parameter::new("touches", ParameterType::integer_from(0), Default::Integer(0), "joins and reads"),
        Parameter::new("queries", ParameterType::integer_from(1), Default::Required, "of the request"),
    ],
    hints_read: &[READ],
    hints_written: &[WRITTEN],
    ..OperatorSpec::new("touch", "Joins and reads hints.", Kind::Stateful, |bind| {
        Ok(Box::new(Touch { touches: bind.count("touches"), queries: bind.count("queries") }))
    })
};

struct Touch {
    touches: usize,
    queries: usize,
}

impl Operator for Touch {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        let begun = Instant::now();
        for nth in 0..self.touches {
            let (query, value) = ((nth % self.queries) as u32, -((nth / self.queries) as f64));
            cx.join_hint(WRITTEN, query, value);
            if cx.hint(READ, query) != value {
                return Err(BoxError::new("a joined value was not read back"));
            }
        }
        TOUCHED_NS.store(begun.elapsed().as_nanos() as u64, Ordering::Relaxed);
        Ok(Flow::Done)
    }
}

/// A pipeline of one box whose requests answer this many queries.
fn prepared(queries: usize, touches: usize) -> Arc<Prepared> {
    let text = format!(
        "boxwork: 1\nqueries: {queries}\nboxes:\n  touch: {{kind: touch, touches: {touches}, queries: {queries}}}\n\
         hints:\n  - touch.range ~> touch.range\n"
    );
    let loaded = boxwork::pipeline::load_text("queries", &text).unwrap_or_else(|flaws| panic!("{flaws:?}"));
    let (values, environment) = (BTreeMap::<String, Value>::new(), Environment::of_slots(1));
    let prepared = Prepared::new(&loaded.declaration, &Catalog::new([&TOUCH], []), &values, &environment);
    Arc::new(prepared.unwrap_or_else(|error| panic!("{error}")))
}

fn run(runtime: &Runtime, prepared: &Arc<Prepared>) {
    let request = runtime.submit(prepared, &Submission::default()).expect("the values fit");
    request.wait().result.unwrap_or_else(|error| panic!("{error}"));
}

fn main() {
    let arguments = Arguments::read(&["touches", "requests", "rounds"]);
    let touches = arguments.get("touches", 4_000_000_usize);
    let (requests, rounds) = (arguments.get("requests", 2000), arguments.get("rounds", 11));
    println!("question    how much does a hint cost, by the number of queries of its request?");
    print_machine();
    let runtime = Runtime::start(Config::flat(1)).expect("the system gives threads");
    let counts = [QUERIES, QUERIES_MAX];
    let (touching, empty) =
        (counts.map(|queries| prepared(queries, touches)), counts.map(|queries| prepared(queries, 0)));
    let (mut hint_ns, mut request_us) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
    for _ in 0..rounds {
        for side in 0..counts.len() {
            run(&runtime, &touching[side]);
            hint_ns[side].push(TOUCHED_NS.load(Ordering::Relaxed) as f64 / touches as f64);
            let begun = Instant::now();
            for _ in 0..requests {
                run(&runtime, &empty[side]);
            }
            request_us[side].push(begun.elapsed().as_secs_f64() * 1e6 / f64::from(requests));
        }
    }
    println!("checked     each joined value was read back");
    for (side, queries) in counts.iter().enumerate() {
        let (hint, request) =
            (Spread::of(hint_ns[side].iter().copied()), Spread::of(request_us[side].iter().copied()));
        println!(
            "{queries:>5}       {:.1} ns ({:.1} to {:.1}) per join and read; {:.1} us ({:.1} to {:.1}) per empty request",
            hint.median, hint.low, hint.high, request.median, request.low, request.high
        );
    }
    let ratio = Spread::of(hint_ns[1].iter().zip(&hint_ns[0]).map(|(many, few)| many / few)).median;
    verdict("time of a hint among 4,096, of one among 64", ratio, 1.1, ratio <= 1.1);
}
