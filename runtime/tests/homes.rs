//! Many requests on machines of several nodes, in simulated time: they stay at home, and it costs nothing.

mod support;

use std::time::Duration;

use boxwork_runtime::request::Submission;
use boxwork_runtime::simulator::{simulate, sleep};
use boxwork_runtime::topology::{Distance, Topology};
use boxwork_runtime::{Config, Runtime};
use support::*;

/// The counts of a run of 64 requests.
#[derive(Debug)]
struct Run {
    makespan: Duration,
    tasks: u64,
    crossed: u64,
    bytes_crossed: u64,
}

/// The requests arrive together, or at random so that the slots are busy for this share of the time.
fn run(seed: u64, machine: &'static str, homes: bool, load: Option<f64>) -> Run {
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
        // Three stages of 16 envelopes each.
        let work_us = 3.0 * 16.0 * 10.0 / runtime.topology().slots_count() as f64;
        let mut state = seed;
        let mut submit = |_| {
            if let Some(load) = load {
                let pause_us = -uniform(&mut state).ln() * work_us / load;
                sleep(Duration::from_secs_f64(pause_us / 1e6));
            }
            runtime.submit(&prepared, &Submission::default()).unwrap()
        };
        let requests: Vec<_> = (0..64).map(&mut submit).collect();
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

/// A number above 0 and at most 1, of splitmix64.
fn uniform(state: &mut u64) -> f64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut x = *state;
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (((x ^ (x >> 31)) >> 11) as f64 + 1.0) / (1_u64 << 53) as f64
}

#[test]
fn requests_stay_at_home() {
    for machine in ["numa:2 core:2", "numa:4 core:2", "numa:4 core:4"] {
        let (mut on, mut off, mut bytes) = (Duration::ZERO, Duration::ZERO, (0, 0));
        for seed in 0..20 {
            let (at_home, anywhere) = (run(seed, machine, true, None), run(seed, machine, false, None));
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

/// Idle slots take tasks from nodes where all slots are busy; but less data crosses nodes.
#[test]
fn requests_that_come_at_random_bring_less_across() {
    for machine in ["numa:2 core:2", "numa:2 core:8", "numa:4 core:4"] {
        let (mut on, mut off, mut bytes) = (Duration::ZERO, Duration::ZERO, (0, 0));
        for seed in 0..10 {
            let (at_home, anywhere) =
                (run(seed, machine, true, Some(0.7)), run(seed, machine, false, Some(0.7)));
            println!("{machine} seed {seed}: {at_home:?} {anywhere:?}");
            bytes = (bytes.0 + at_home.bytes_crossed, bytes.1 + anywhere.bytes_crossed);
            on += at_home.makespan;
            off += anywhere.makespan;
        }
        assert!(bytes.0 * 10 <= bytes.1 * 9, "{machine}: {bytes:?} bytes crossed nodes at home and anywhere");
        assert!(on.as_secs_f64() <= off.as_secs_f64() * 1.01, "{machine}: {on:?} at home, {off:?} anywhere");
    }
}

#[test]
fn a_node_that_has_nothing_to_do_takes_a_whole_request() {
    // All requests block first, so that both nodes take several; then every other request computes for long.
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
    assert!(moved.iter().all(|moved| *moved <= 24), "requests moved back and forth: {moved:?}");
    println!("{moved:?}");
}
