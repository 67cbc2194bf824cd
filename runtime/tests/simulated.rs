//! Whole small graphs in the simulator: thousands of seeds, each an order of the scheduler's steps and a virtual clock.
//!
//! A failure names its seed; `BOXWORK_STRESS_SEED=n` replays it, `BOXWORK_STRESS_ROUNDS=n` runs more.

mod support;

use std::time::Duration;

use boxwork_runtime::parameter::Value;
use boxwork_runtime::request::{RequestError, Submission};
use boxwork_runtime::simulator::{Simulation, refuse_threads, simulate};
use boxwork_runtime::statistics::ClassLimit;
use boxwork_runtime::{Config, Runtime};
use support::random::round;
use support::*;

const ROUNDS: u64 = 2000;

#[test]
fn random_graphs_give_their_results_in_any_order() {
    let from_env = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seeds = match from_env("BOXWORK_STRESS_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..from_env("BOXWORK_STRESS_ROUNDS").unwrap_or(ROUNDS),
    };
    for seed in seeds {
        simulate(seed, move || round(seed));
    }
}

#[test]
fn a_request_that_comes_while_slots_go_to_rest_is_seen() {
    for seed in 0..500 {
        simulate(seed, move || {
            let runtime = Runtime::start(Config::flat(1 + seed as usize % 3)).unwrap();
            let graph = Graph::new()
                .add("s", "source", &[("count", int(1))])
                .add("c", "collect", &[])
                .chain("s -> c");
            let prepared = graph.prepare();
            for _ in 0..8 {
                wait(&runtime.submit(&prepared, &Submission::default()).unwrap()).result.unwrap();
            }
        });
    }
}

fn busy() -> Graph {
    let settings = [("copies", int(3)), ("spin_us", int(70)), ("block_us", int(40)), ("branches", int(3))];
    Graph::new()
        .add("s", "source", &[("count", int(30))])
        .add("a", "add", &settings)
        .add("b", "add_ordered", &[("copies", int(2)), ("spin_us", int(50))])
        .add("c", "collect", &[])
        .chain("s -> a -> b -> c")
}

#[test]
fn a_seed_replays_its_run() {
    let run = |seed| {
        simulate(seed, || {
            let (outcome, basket) = busy().run(2);
            outcome.result.unwrap();
            let got = basket.got.lock().clone();
            (got, outcome.boxes, outcome.duration)
        })
    };
    let mut orders = std::collections::BTreeSet::new();
    for seed in 0..20 {
        let (one, other): (Simulation<_>, Simulation<_>) = (run(seed), run(seed));
        assert_eq!((&one.result, one.elapsed, one.steps), (&other.result, other.elapsed, other.steps));
        orders.insert(one.steps);
    }
    assert!(orders.len() > 10, "20 seeds gave {} orders", orders.len());
}

#[test]
fn a_deadline_is_kept_to_the_virtual_moment() {
    let simulation = simulate(5, || {
        let runtime = Runtime::start(Config::flat(1)).unwrap();
        let graph = Graph::new()
            .add("s", "source", &[("count", int(1000))])
            .add("a", "add_stateful", &[("spin_us", int(1000))])
            .add("c", "collect", &[])
            .chain("s -> a -> c");
        let deadline = Some(boxwork_runtime::simulator::now() + Duration::from_millis(100));
        let request = runtime.submit(&graph.prepare(), &Submission { deadline, ..Submission::default() });
        wait(&request.unwrap()).result
    });
    assert!(matches!(simulation.result, Err(RequestError::DeadlinePassed)));
    // One firing runs to its end.
    let over = simulation.elapsed - Duration::from_millis(100);
    assert!(over <= Duration::from_millis(8), "the request ended {over:?} after its deadline");
}

#[test]
fn blocking_reaches_the_best_list_schedule() {
    // Each task computes for a while and then blocks; for equal tasks a list schedule, which starts a task whenever a
    // slot is free, is the best.
    for (slots, compute_ms, block_ms, limit) in
        [(2, 84, 16, 40), (2, 16, 84, 40), (2, 16, 84, 4), (4, 50, 50, 4)]
    {
        let tasks = 40_usize;
        let simulation = simulate(11, move || {
            let runtime = Runtime::start(Config {
                blocking: [("nap".to_owned(), ClassLimit::Fixed(limit))].into(),
                ..Config::flat(slots)
            });
            let settings = [
                ("copies", int(tasks as i64)),
                ("spin_us", int(compute_ms * 1000)),
                ("block_us", int(block_ms * 1000)),
            ];
            let graph = Graph::new()
                .add("s", "source", &[("count", int(tasks as i64))])
                .add("a", "add", &settings)
                .add("c", "collect", &[])
                .chain("s -> a -> c");
            let (outcome, basket) = graph.run_on(&runtime.unwrap());
            outcome.result.unwrap();
            assert_eq!(basket.got.lock().len(), tasks);
            outcome.duration
        });
        let best = best_schedule(tasks, slots, limit, compute_ms, block_ms);
        let share = simulation.result.as_secs_f64() * 1e3 / best as f64;
        assert!(
            share <= 1.03,
            "{share} of the best with {slots} slots, {compute_ms}:{block_ms}, limit {limit}"
        );
    }
}

#[test]
fn an_edge_with_room_for_two_feeds_all_copies_that_compute_for_long() {
    // A box that makes little at a time, like a box that waits for a range, and sixteen copies that compute for long.
    let shares = [false, true].map(|announces| {
        let simulation = simulate(7, move || {
            let runtime = Runtime::start(Config::flat(16)).unwrap();
            let computing =
                [("copies", int(16)), ("spin_us", int(5000)), ("announces", Value::Boolean(announces))];
            let graph = Graph::new()
                .add("s", "source", &[("count", int(160)), ("rows", int(1))])
                .add("few", "add_stateful", &[("spin_us", int(20))])
                .add("a", "add", &computing)
                .add("c", "collect", &[])
                .chain("s -> few")
                .bounded("few -> a", Some(2), None)
                .chain("a -> c");
            let (outcome, _) = graph.run_on(&runtime);
            outcome.result.unwrap();
            outcome.duration
        });
        0.05 / simulation.result.as_secs_f64()
    });
    // A box that does not announce publishes at the end of each firing, which takes all waiting envelopes.
    assert!(shares[1] > 0.9 && shares[0] > 0.8, "{:.2} and {:.2} of sixteen slots", shares[0], shares[1]);
}

#[test]
fn stages_that_compute_for_long_run_beside_each_other() {
    // A firing takes all waiting envelopes, four here; the next stage must not wait until it has computed them all.
    for slots in [4, 8, 16] {
        let simulation = simulate(7, move || {
            let runtime = Runtime::start(Config::flat(slots)).unwrap();
            let mut graph = Graph::new().add("0", "source", &[("count", int(500)), ("rows", int(1))]);
            for stage in 1..=8 {
                let announces = ("announces", Value::Boolean(true));
                graph = graph.add(&stage.to_string(), "add_stateful", &[("spin_us", int(10)), announces]);
                graph = graph.bounded(&format!("{} -> {stage}", stage - 1), Some(4), None);
            }
            let (outcome, _) = graph.add("c", "collect", &[]).chain("8 -> c").run_on(&runtime);
            outcome.result.unwrap();
            outcome.duration
        });
        // The stages fill and empty one after the other.
        let least = (500.0 + 8.0) * 10e-6 * (8.0 / slots as f64).max(1.0);
        let share = least / simulation.result.as_secs_f64();
        assert!(share > 0.9, "{share:.3} of {slots} slots or 8");
    }
}

/// The makespan of equal tasks, each computing and then blocking, when no task waits that could continue.
fn best_schedule(tasks: usize, slots: usize, limit: usize, compute: i64, block: i64) -> i64 {
    let (mut cores, mut device) = (vec![0; slots], vec![0; limit]);
    let mut end = 0;
    for _ in 0..tasks {
        cores.sort_unstable();
        cores[0] += compute;
        device.sort_unstable();
        device[0] = device[0].max(cores[0]) + block;
        end = end.max(device[0]);
    }
    end
}

#[test]
fn a_runtime_works_without_threads_that_the_system_refuses() {
    // Two slots, and tasks that block at once: each would get a thread.
    for seed in 0..300 {
        simulate(seed, move || {
            let runtime = Runtime::start(Config::flat(2)).unwrap();
            let threads = runtime.statistics().threads;
            refuse_threads(true);
            let (outcome, basket) = busy().run_on(&runtime);
            outcome.result.unwrap();
            assert_eq!(basket.got.lock().len(), 30);
            assert_eq!(runtime.statistics().threads, threads, "a thread was counted that is not there");
            // The system starts threads again, and the runtime uses them.
            refuse_threads(false);
            busy().run_on(&runtime).0.result.unwrap();
            assert!(runtime.statistics().threads > threads, "the runtime did not ask for a thread again");
        });
    }
}

#[test]
fn a_runtime_without_its_threads_does_not_start() {
    for seed in 0..50 {
        simulate(seed, || {
            refuse_threads(true);
            assert!(Runtime::start(Config::flat(3)).is_err());
            refuse_threads(false);
            busy().run(3).0.result.unwrap();
        });
    }
}

#[test]
fn a_deadline_without_a_thread_to_watch_it_is_an_error() {
    for seed in 0..20 {
        simulate(seed, || {
            let runtime = Runtime::start(Config::flat(1)).unwrap();
            let prepared = busy().prepare();
            let submit = || {
                let deadline = Some(boxwork_runtime::simulator::now() + Duration::from_secs(3600));
                let submission = Submission { deadline, ..Submission::default() };
                wait(&runtime.submit(&prepared, &submission).unwrap()).result
            };
            refuse_threads(true);
            assert!(matches!(submit(), Err(RequestError::DeadlineUnwatched { .. })));
            refuse_threads(false);
            assert_eq!(submit(), Ok(()), "the runtime asks for a thread again");
        });
    }
}
