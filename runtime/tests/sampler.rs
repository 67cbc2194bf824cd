//! Boxes that block without saying so are found, others are not.

mod support;

use boxwork_runtime::request::BoxStatistics;
use boxwork_runtime::{Config, Runtime};
use support::*;

const MS: u64 = 1_000_000;

/// A box `a` of a kind that takes three numbers and spends 60 ms on each in its way, on a runtime with a sampler.
fn statistics(kind: &str, way: &str) -> BoxStatistics {
    let runtime = Runtime::start(Config { sampler: true, ..Config::flat(2) }).unwrap();
    let graph = Graph::new()
        .add("s", "source", &[("count", int(3))])
        .add("a", kind, &[(way, int(60_000))])
        .add("c", "collect", &[])
        // One envelope a firing.
        .bounded("s -> a -> c", Some(1), None);
    // The second run finds the sampler asleep.
    graph.run_on(&runtime).0.result.unwrap();
    let (outcome, _) = graph.run_on(&runtime);
    outcome.result.unwrap();
    outcome.boxes.into_iter().find(|of_box| of_box.name == "a").unwrap()
}

/// Whether the system tells what the sampler needs.
fn is_told() -> bool {
    cfg!(target_os = "linux") && std::fs::read_to_string("/proc/thread-self/schedstat").is_ok()
}

#[test]
fn a_box_that_sleeps_in_its_firing_is_found() {
    let found = statistics("add", "sleep_us");
    if !is_told() {
        assert_eq!(found.undeclared_blocking_ns, 0);
        return;
    }
    let (most, whole) = (found.undeclared_blocking_ns_max, found.undeclared_blocking_ns);
    assert!(most >= 20 * MS && most <= whole, "{most} ns at most, {whole} ns in all");
    // On a loaded machine a sleep is longer than it was to be, and all of it is off the CPU but the wait at its end.
    assert!(whole <= found.busy_ns, "{whole} ns of {}", found.busy_ns);
}

#[test]
fn a_box_that_sleeps_detached_is_not() {
    assert_eq!(statistics("add", "block_us").undeclared_blocking_ns, 0);
}

#[test]
fn a_box_that_says_that_it_blocks_is_not() {
    assert_eq!(statistics("add_nap", "sleep_us").undeclared_blocking_ns, 0);
}

#[test]
fn a_box_that_spins_is_not_however_loaded_the_machine_is() {
    // As many threads beside it as two machines of this size would run.
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    let done = std::sync::atomic::AtomicBool::new(false);
    let found = std::thread::scope(|scope| {
        for _ in 0..2 * cores {
            scope.spawn(|| {
                while !done.load(std::sync::atomic::Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let found = statistics("add", "spin_us");
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        found
    });
    assert_eq!(found.undeclared_blocking_ns, 0);
}
