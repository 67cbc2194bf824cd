//! Many requests on machines of several nodes, in simulated time: they stay at home, and it costs nothing.

mod support;

use std::time::Duration;

use boxwork_runtime::request::Submission;
use boxwork_runtime::simulator::simulate;
use boxwork_runtime::topology::{Distance, Topology};
use boxwork_runtime::{Config, Runtime};
use support::*;

/// What a run of 64 requests gave.
#[derive(Debug)]
struct Run {
    makespan: Duration,
    tasks: u64,
    crossed: u64,
    bytes_crossed: u64,
}

fn run(seed: u64, machine: &'static str, homes: bool) -> Run {
    let run = move || {
        let topology = Topology::synthetic(machine).unwrap();
        let runtime = Runtime::start(Config { homes, ..Config::new(topology) }).unwrap();
        let stage = [("spin_us", int(10))];
        let graph = Graph::new()
            .add("s", "source", &[("count", int(16))])
            .add("a", "add_stateful", &stage)
            .add("b", "add_stateful", &stage)
            .add("d", "add_stateful", &stage)
            .add("c", "collect", &[])
            .bounded("s -> a -> b -> d -> c", Some(4), None);
        let prepared = graph.prepare();
        let requests: Vec<_> =
            (0..64).map(|_| runtime.submit(&prepared, &Submission::default()).unwrap()).collect();
        let outcomes = requests.iter().map(wait);
        let bytes = |outcome: boxwork_runtime::request::Outcome| {
            outcome.result.unwrap();
            outcome.edges.iter().map(|edge| edge.state.bytes_crossed).sum::<u64>()
        };
        let bytes_crossed = outcomes.map(bytes).sum::<u64>();
        let statistics = runtime.statistics();
        let sum = |pick: fn(&boxwork_runtime::statistics::SlotStatistics) -> u64| {
            statistics.slots.iter().map(pick).sum::<u64>()
        };
        let crossed = sum(|slot| slot.from_other_nodes + slot.steals[Distance::Remote as usize]);
        (sum(|slot| slot.tasks), crossed, bytes_crossed)
    };
    let simulation = simulate(seed, run);
    let (tasks, crossed, bytes_crossed) = simulation.result;
    Run { makespan: simulation.elapsed, tasks, crossed, bytes_crossed }
}

#[test]
fn requests_stay_at_home() {
    for machine in ["numa:2 core:2", "numa:4 core:2", "numa:4 core:4"] {
        let (mut on, mut off, mut bytes) = (Duration::ZERO, Duration::ZERO, (0, 0));
        for seed in 0..20 {
            let (at_home, anywhere) = (run(seed, machine, true), run(seed, machine, false));
            println!("{machine} seed {seed}: {at_home:?} {anywhere:?}");
            assert!(at_home.crossed * 20 < at_home.tasks, "{machine}, seed {seed}: {at_home:?}");
            bytes = (bytes.0 + at_home.bytes_crossed, bytes.1 + anywhere.bytes_crossed);
            on += at_home.makespan;
            off += anywhere.makespan;
        }
        assert!(bytes.0 <= bytes.1, "{machine}: {bytes:?} bytes crossed nodes at home and anywhere");
        assert!(on.as_secs_f64() <= off.as_secs_f64() * 1.01, "{machine}: {on:?} at home, {off:?} anywhere");
    }
}

#[test]
fn a_node_that_has_nothing_to_do_takes_a_whole_request() {
    // All requests block first, so that both nodes take in several; then every other one computes for long.
    let run = |seed| {
        let simulated = simulate(seed, || {
            let topology = Topology::synthetic("numa:2 core:1").unwrap();
            let runtime = Runtime::start(Config::new(topology)).unwrap();
            let graph = |spin_us| {
                Graph::new()
                    .add("s", "source", &[("count", int(12))])
                    .add("n", "add", &[("block_us", int(200))])
                    .add("a", "add_stateful", &[("spin_us", int(spin_us))])
                    .add("b", "add_stateful", &[("spin_us", int(spin_us))])
                    .add("c", "collect", &[])
                    .bounded("s -> n -> a -> b -> c", Some(1), None)
                    .prepare()
            };
            let (long, short) = (graph(900), graph(10));
            let submit = |nth: usize| {
                let prepared = if nth.is_multiple_of(2) { &long } else { &short };
                runtime.submit(prepared, &Submission::default()).unwrap()
            };
            let requests: Vec<_> = (0..12).map(submit).collect();
            requests.iter().for_each(|request| wait(request).result.unwrap());
            runtime.statistics().slots.iter().map(|slot| slot.requests_moved).sum::<u64>()
        });
        simulated.result
    };
    let moved: Vec<u64> = (0..20).map(run).collect();
    assert!(moved.iter().sum::<u64>() > 0, "no request was moved: {moved:?}");
    assert!(moved.iter().all(|moved| *moved <= 24), "requests went to and fro: {moved:?}");
    println!("{moved:?}");
}
