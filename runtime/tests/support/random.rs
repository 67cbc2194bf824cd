//! Random graphs with their expected results, on random machines.

use std::sync::Arc;
use std::time::Duration;

use boxwork_runtime::parameter::Value;
use boxwork_runtime::prepare::Prepared;
use boxwork_runtime::request::{RequestError, Submission};
use boxwork_runtime::statistics::ClassLimit;
use boxwork_runtime::topology::Topology;
use boxwork_runtime::{Config, Request, Runtime, simulator};

use super::*;

/// Requests that run side by side in a round.
const REQUESTS: u64 = 3;

/// A splitmix generator.
pub struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (x ^ (x >> 31)) % bound
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// The expected envelopes of an output without a fault.
#[derive(Clone)]
struct Stream {
    from: String,
    envelopes: Vec<Vec<u64>>,
    in_order: bool,
}

/// The expected envelopes of a sink.
struct Expected {
    stream: Stream,
    most: usize,
}

/// The fault that was put into a graph.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    None,
    Error,
    Panic,
    Cancel,
    Deadline,
}

pub struct Case {
    graph: Graph,
    sinks: Vec<Expected>,
    fault: Fault,
}

struct Builder<'a> {
    random: &'a mut Random,
    graph: Graph,
    boxes: usize,
    /// An error or a panic that no box has yet.
    armed: Option<&'static str>,
}

impl Builder<'_> {
    fn add(&mut self, kind: &str, settings: &[(&str, Value)]) -> String {
        let name = format!("{kind}_{}", self.boxes);
        self.boxes += 1;
        self.graph = std::mem::replace(&mut self.graph, Graph::new()).add(&name, kind, settings);
        name
    }

    fn connect(&mut self, stream: &Stream, to: &str) {
        let envelopes = self.random.chance(70).then(|| 1 + self.random.below(5) as usize);
        let bytes = self.random.chance(20).then(|| 1 + self.random.below(200) as usize);
        let graph = std::mem::replace(&mut self.graph, Graph::new());
        self.graph = graph.bounded(&format!("{} -> {to}", stream.from), envelopes, bytes);
    }

    fn source(&mut self, envelopes_max: u64) -> Stream {
        let (rows, count) = (1 + self.random.below(4), self.random.below(envelopes_max));
        let near = i64::from(self.random.chance(30));
        let settings =
            [("count", int((rows * count) as i64)), ("rows", int(rows as i64)), ("near", int(near))];
        let from = self.add("source", &settings);
        let envelopes = (0..count).map(|nth| (nth * rows..(nth + 1) * rows).collect());
        Stream { from, envelopes: envelopes.collect(), in_order: true }
    }

    /// A box of one stream input behind a stream.
    fn extend(&mut self, stream: &Stream) -> Stream {
        let copies = 1 + self.random.below(4) as i64;
        let add = self.random.below(1000);
        let plus = |n: u64| move |row: &u64| row + n;
        let map = |n: u64| -> Vec<Vec<u64>> {
            stream.envelopes.iter().map(|rows| rows.iter().map(plus(n)).collect()).collect()
        };
        match self.random.below(10) {
            // A stream in unknown order is not cut: its remaining part would be unknown.
            0 if stream.in_order => {
                let most = self.random.below(20) as usize;
                let to = self.add("head", &[("most", int(most as i64))]);
                self.connect(stream, &to);
                let envelopes = stream.envelopes.iter().take(most).cloned().collect();
                Stream { from: to, envelopes, in_order: true }
            }
            1 => {
                let side = self.source(12);
                let sum: u64 = side.envelopes.iter().flatten().sum();
                let to = self.add("add_side", &[("copies", int(copies))]);
                self.connect(stream, &to);
                let graph = std::mem::replace(&mut self.graph, Graph::new());
                self.graph = graph.chain(&format!("{} -> {to}.side", side.from));
                Stream { from: to, envelopes: map(sum), in_order: stream.in_order && copies == 1 }
            }
            kind => {
                let kind = ["add", "add_ordered", "add_stateful", "add_nap"][kind as usize % 4];
                let mut settings = vec![("add", int(add as i64))];
                if kind != "add_stateful" {
                    settings.push(("copies", int(copies)));
                }
                if self.random.chance(30) {
                    settings.push(("spin_us", int(self.random.below(30) as i64)));
                }
                if self.random.below(8) == 0 {
                    settings.push(("branches", int(1 + self.random.below(6) as i64)));
                }
                if self.random.chance(30) {
                    settings.push(("block_us", int(1 + self.random.below(20) as i64)));
                }
                if let Some(armed) = self.armed.take() {
                    settings.push((armed, int(self.random.below(40) as i64)));
                }
                let to = self.add(kind, &settings);
                self.connect(stream, &to);
                let in_order = kind == "add_stateful" || kind == "add_ordered" || copies == 1;
                Stream { from: to, envelopes: map(add), in_order: stream.in_order && in_order }
            }
        }
    }

    fn join(&mut self, a: &Stream, b: &Stream) -> Stream {
        let envelopes = a.envelopes.iter().chain(&b.envelopes).cloned().collect();
        if self.random.chance(50) {
            let to = self.add("a_then_b", &[]);
            self.connect(a, &format!("{to}.a"));
            self.connect(b, &format!("{to}.b"));
            Stream { from: to, envelopes, in_order: a.in_order && b.in_order }
        } else {
            let copies = 1 + self.random.below(3) as i64;
            let to = self.add("gather", &[("copies", int(copies))]);
            self.connect(a, &to);
            self.connect(b, &to);
            Stream { from: to, envelopes, in_order: false }
        }
    }
}

fn case(random: &mut Random) -> Case {
    let fault = match random.below(12) {
        0 => Fault::Error,
        1 => Fault::Panic,
        2 => Fault::Cancel,
        3 => Fault::Deadline,
        _ => Fault::None,
    };
    let armed = match fault {
        Fault::Error => Some("fail_at"),
        Fault::Panic => Some("panic_at"),
        _ => None,
    };
    let mut builder = Builder { random, graph: Graph::new(), boxes: 0, armed };
    let mut open = vec![builder.source(80)];
    if builder.random.chance(40) {
        open.push(builder.source(80));
    }
    for _ in 0..1 + builder.random.below(7) {
        let at = builder.random.below(open.len() as u64) as usize;
        match builder.random.below(10) {
            0..=1 => open.push(open[at].clone()),
            2..=3 if open.len() > 1 => {
                let a = open.swap_remove(at);
                let b = open.pop().unwrap();
                let joined = builder.join(&a, &b);
                open.push(joined);
            }
            _ => open[at] = builder.extend(&open[at].clone()),
        }
    }
    let mut sinks = Vec::new();
    for (sink, stream) in open.into_iter().enumerate() {
        let most = if builder.random.chance(25) { 1 + builder.random.below(40) as usize } else { usize::MAX };
        // As for `head`.
        let most = if stream.in_order { most } else { usize::MAX };
        let settings = [("sink", int(sink as i64)), ("most", int(most.min(i64::MAX as usize) as i64))];
        let to = builder.add("collect", &settings);
        builder.connect(&stream, &to);
        sinks.push(Expected { stream, most });
    }
    Case { graph: builder.graph, sinks, fault }
}

/// A machine of one to eight slots, sometimes with few threads to spare.
fn machine(random: &mut Random) -> Runtime {
    let topology = match random.below(6) {
        0 => Topology::flat(1),
        1 => Topology::flat(2),
        2 => Topology::flat(3),
        3 => Topology::synthetic("numa:2 core:2 pu:1").unwrap(),
        4 => Topology::synthetic("numa:3 core:1 pu:2").unwrap(),
        _ => Topology::flat(8),
    };
    let threads_max = if random.chance(30) { topology.slots_count() + random.below(2) as usize } else { 64 };
    let limit = match random.below(4) {
        0 => ClassLimit::Auto,
        limit => ClassLimit::Fixed(limit as usize),
    };
    let blocking = [("nap".to_owned(), limit)].into();
    let sampler = random.chance(50);
    Runtime::start(Config { threads_max, blocking, sampler, ..Config::new(topology) }).unwrap()
}

fn check(seed: u64, case: &Case, prepared: &Arc<Prepared>, request: &Request) {
    let outcome = request
        .wait_timeout(Duration::from_secs(60))
        .unwrap_or_else(|| panic!("seed {seed}: the request hangs: {:#?}", case.graph.0));
    match (&outcome.result, case.fault) {
        (Ok(()), _)
        | (Err(RequestError::Failed { .. }), Fault::Error)
        | (Err(RequestError::Panicked { .. }), Fault::Panic)
        | (Err(RequestError::Cancelled), Fault::Cancel)
        | (Err(RequestError::DeadlinePassed), Fault::Deadline) => {}
        (Err(error), fault) => panic!("seed {seed}: {error}, with the fault {fault:?}: {:#?}", case.graph.0),
    }
    if outcome.result.is_err() {
        return;
    }
    let basket = basket(prepared);
    let by_sink = basket.by_sink.lock();
    for (sink, Expected { stream, most }) in case.sinks.iter().enumerate() {
        let mut got = by_sink.get(&sink).cloned().unwrap_or_default();
        let mut wanted = Vec::new();
        for envelope in &stream.envelopes {
            wanted.extend(envelope);
            if wanted.len() >= *most {
                break;
            }
        }
        if !stream.in_order {
            got.sort_unstable();
            wanted.sort_unstable();
        }
        assert_eq!(got, wanted, "seed {seed}: sink {sink} of {:#?}", case.graph.0);
    }
}

/// Runs a few random requests side by side, and checks their results.
pub fn round(seed: u64) {
    let mut random = Random(seed);
    let runtime = machine(&mut random);
    let running: Vec<_> = (0..REQUESTS)
        .map(|_| {
            let case = case(&mut random);
            let prepared = case.graph.prepare();
            let soon = Duration::from_micros(random.below(3000));
            let deadline = (case.fault == Fault::Deadline).then(|| simulator::now() + soon);
            let request =
                runtime.submit(&prepared, &Submission { deadline, ..Submission::default() }).unwrap();
            if case.fault == Fault::Cancel {
                for _ in 0..random.below(200) {
                    wait_a_moment();
                }
                request.cancel();
            }
            (case, prepared, request)
        })
        .collect();
    for (case, prepared, request) in &running {
        check(seed, case, prepared, request);
    }
}

fn wait_a_moment() {
    if is_simulated() {
        compute(Duration::from_micros(1));
    } else {
        std::thread::yield_now();
    }
}
