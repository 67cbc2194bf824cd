//! The sampler finds boxes that block without a declaration, and no others.

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
    // The second run begins while the sampler is parked.
    graph.run_on(&runtime).0.result.unwrap();
    let (outcome, _) = graph.run_on(&runtime);
    outcome.result.unwrap();
    outcome.boxes.into_iter().find(|of_box| of_box.name == "a").unwrap()
}

/// Whether the system reports the times that the sampler needs.
fn is_supported() -> bool {
    cfg!(target_os = "linux") && std::fs::read_to_string("/proc/thread-self/schedstat").is_ok()
}

#[test]
fn a_box_that_sleeps_in_its_firing_is_found() {
    let found = statistics("add", "sleep_us");
    if !is_supported() {
        assert_eq!(found.undeclared_blocking_ns, 0);
        return;
    }
    let (most, whole) = (found.undeclared_blocking_ns_max, found.undeclared_blocking_ns);
    assert!(most >= 20 * MS && most <= whole, "{most} ns at most, {whole} ns in all");
    // On a loaded machine a sleep is longer than requested, and all of it except the wait at its end is off the CPU.
    assert!(whole <= found.busy_ns, "{whole} ns of {}", found.busy_ns);
}

#[test]
fn a_box_that_sleeps_detached_is_not() {
    assert_eq!(statistics("add", "block_us").undeclared_blocking_ns, 0);
}

#[test]
fn a_box_that_declares_that_it_blocks_is_not() {
    assert_eq!(statistics("add_nap", "sleep_us").undeclared_blocking_ns, 0);
}

#[test]
fn a_box_that_spins_is_not_however_loaded_the_machine_is() {
    // Twice as many threads beside it as the machine has cores.
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
