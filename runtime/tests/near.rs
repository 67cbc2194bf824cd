//! Envelopes whose data are on a node, in simulated time: copies take them there if one is free, otherwise on any node.

mod support;

use std::time::Duration;

use boxwork_runtime::operator::*;
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};
use boxwork_runtime::request::Submission;
use boxwork_runtime::simulator::{compute, simulate};
use boxwork_runtime::topology::Topology;
use boxwork_runtime::{Config, Runtime};
use parking_lot::Mutex;
use support::*;

/// By envelope: the node that its data are on, and the node that it was taken on.
static TAKEN: Mutex<Vec<(usize, usize)>> = Mutex::new(Vec::new());

const fn setting(name: &'static str, default: i64) -> Parameter {
    Parameter::new(name, ParameterType::integer_from(0), Default::Integer(default), "a count")
}

/// Envelopes of one number, the node of its data; of ten, `skew` are on the first node beside its share.
struct Parts {
    left: u64,
    skew: u64,
    names_node: bool,
}
impl Operator for Parts {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        while cx.has_room(OUT) {
            if self.left == 0 {
                return Ok(Flow::Done);
            }
            self.left -= 1;
            let node = if self.left % 10 < self.skew { 0 } else { self.left as usize % cx.nodes() };
            let part = envelope([node as u64]);
            if self.names_node {
                cx.push_near(OUT, part, node)?
            } else {
                cx.push(OUT, part)?
            };
        }
        Ok(Flow::Wait)
    }
}
const OUT: Out = Out::new(0, "out", numbers, "parts");

static PARTS: OperatorSpec = OperatorSpec {
    parameters: &[setting("count", 0), setting("skew", 0), setting("names_node", 1)],
    outputs: &[OUT],
    ..OperatorSpec::new("parts", "parts of a store", Kind::Stateful, |bind| {
        let (left, skew) = (bind.count("count") as u64, bind.count("skew") as u64);
        Ok(Box::new(Parts { left, skew, names_node: bind.count("names_node") > 0 }))
    })
};

struct Scan;
impl Operator for Scan {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        while cx.has_room(OUT) {
            let Some(part) = cx.take(IN) else {
                return Ok(if cx.is_ended(IN) { Flow::Done } else { Flow::Wait });
            };
            TAKEN.lock().push((part.u64s("n")?[0] as usize, cx.node()));
            cx.announce();
            compute(Duration::from_micros(50));
            cx.push(OUT, part)?;
        }
        Ok(Flow::Wait)
    }
}
const IN: In = In::stream(0, "in", numbers, "parts");

static SCAN: OperatorSpec = OperatorSpec {
    inputs: &[IN],
    outputs: &[OUT],
    ..OperatorSpec::new("scan", "computes on a part", Kind::Stateless, |_| Ok(Box::new(Scan)))
};

struct Run {
    makespan: Duration,
    parts: usize,
    at_home: usize,
}

fn run(seed: u64, machine: &'static str, skew: i64, names_node: bool) -> Run {
    TAKEN.lock().clear();
    let simulation = simulate(seed, move || {
        let topology = Topology::synthetic(machine).unwrap();
        let slots = topology.slots_count();
        let runtime = Runtime::start(Config::new(topology)).unwrap();
        let settings = [("count", int(400)), ("skew", int(skew)), ("names_node", int(i64::from(names_node)))];
        let graph = Graph::new()
            .add("parts", "parts", &settings)
            .add("scan", "scan", &[("copies", int(slots as i64))])
            .add("c", "collect", &[])
            .bounded("parts -> scan -> c", Some(2 * slots), None);
        let prepared = graph.prepare_with(&catalog().with(&PARTS).with(&SCAN));
        let request = runtime.submit(&prepared, &Submission::default()).unwrap();
        wait(&request).result.unwrap();
        basket(&prepared).got.lock().len()
    });
    let taken = TAKEN.lock();
    assert_eq!(simulation.result, 400, "parts were lost or taken twice");
    let at_home = taken.iter().filter(|(data, taken)| data == taken).count();
    Run { makespan: simulation.elapsed, parts: taken.len(), at_home }
}

// A single test: the boxes write to one list of this file.
#[test]
fn parts_are_taken_where_they_are_unless_their_node_has_too_much() {
    for machine in ["numa:2 core:2", "numa:4 core:2", "numa:2 core:8"] {
        let nodes = Topology::synthetic(machine).unwrap().nodes().len();
        let mut time = [Duration::ZERO; 3];
        for seed in 0..5 {
            let (named, unnamed) = (run(seed, machine, 0, true), run(seed, machine, 0, false));
            println!(
                "{machine}, seed {seed}: {} of {} at home in {:?}, unnamed {} in {:?}",
                named.at_home, named.parts, named.makespan, unnamed.at_home, unnamed.makespan
            );
            assert!(
                named.at_home * 10 >= named.parts * 9,
                "{machine}, seed {seed}: {} at home",
                named.at_home
            );
            assert!(unnamed.at_home * 10 < unnamed.parts * 9, "{machine}: the parts need not name a node");

            // All data on one node: the other nodes help, so that it takes no longer.
            let skewed = run(seed, machine, 10, true);
            assert!(skewed.at_home < skewed.parts * 2 / nodes, "{machine}: {} stayed", skewed.at_home);
            for (time, run) in time.iter_mut().zip([named, unnamed, skewed]) {
                *time += run.makespan;
            }
        }
        let [named, unnamed, skewed] = time;
        assert!(
            named.as_secs_f64() <= unnamed.as_secs_f64() * 1.1,
            "{machine}: {named:?}, unnamed {unnamed:?}"
        );
        assert!(
            skewed.as_secs_f64() <= unnamed.as_secs_f64() * 1.25,
            "{machine}: {skewed:?}, even {unnamed:?}"
        );
    }
}
