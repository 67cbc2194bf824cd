//! Events of a trace beside firings: tasks that waited for a permit, and branches that ran on other slots.

mod support;

use boxwork_runtime::simulator::simulate;
use boxwork_runtime::statistics::{ClassLimit, TraceEvent, TraceKind};
use boxwork_runtime::{Config, Runtime};
use support::*;

fn end_ns(event: &TraceEvent) -> u64 {
    event.begin_ns + event.duration_ns
}

/// Events that took a slot's time, by slot and begin: none overlaps the next.
fn assert_apart(events: &[TraceEvent]) {
    let beside = |kind: &TraceKind| matches!(kind, TraceKind::Detached { .. } | TraceKind::Permit { .. });
    let mut on_slots: Vec<&TraceEvent> = events.iter().filter(|event| !beside(&event.kind)).collect();
    on_slots.sort_by_key(|event| (event.slot, event.begin_ns, end_ns(event)));
    for pair in on_slots.windows(2) {
        assert!(pair[0].slot != pair[1].slot || end_ns(pair[0]) <= pair[1].begin_ns, "two at once: {pair:?}");
    }
}

#[test]
fn a_task_that_waits_for_a_permit_is_there() {
    let blocking = [("nap".to_owned(), ClassLimit::Fixed(1))].into();
    let runtime = Runtime::start(Config { blocking, trace: true, ..Config::flat(3) }).unwrap();
    let graph = Graph::new()
        .add("s", "source", &[("count", int(40))])
        .add("a", "add_nap", &[("copies", int(3)), ("block_us", int(200))])
        .add("c", "collect", &[])
        .chain("s -> a -> c");
    graph.run_on(&runtime).0.result.unwrap();
    let waited = runtime.statistics().classes[0].waited;
    let events = runtime.take_trace();
    assert_apart(&events);
    let waits: Vec<&TraceEvent> =
        events.iter().filter(|event| matches!(event.kind, TraceKind::Permit { .. })).collect();
    assert!(!waits.is_empty() && waits.len() as u64 <= waited, "{} waits of {waited}", waits.len());
    for wait in waits {
        let TraceKind::Permit { name, class, .. } = &wait.kind else { unreachable!() };
        assert_eq!((name.as_str(), class.as_str()), ("a", "nap"));
        let fired = events.iter().any(|event| {
            let is_of_box = matches!(&event.kind, TraceKind::Firing { name, .. } if name == "a");
            is_of_box && event.slot == wait.slot && event.begin_ns >= end_ns(wait)
        });
        assert!(fired, "nothing was fired after {wait:?}");
    }
}

#[test]
fn a_thread_fires_one_box_at_a_time() {
    // Slots whose tasks block at one moment start threads at one moment: each thread has a number of its own.
    for seed in 0..100 {
        simulate(seed, || {
            let runtime = Runtime::start(Config { trace: true, ..Config::flat(3) }).unwrap();
            let settings = [("spin_us", int(50)), ("block_us", int(50))];
            let mut graph = Graph::new().add("c", "collect", &[]);
            for chain in 0..6 {
                let (source, adds) = (format!("s{chain}"), format!("a{chain}"));
                graph = graph.add(&source, "source", &[("count", int(4))]);
                graph = graph.add(&adds, "add_stateful", &settings);
                graph = graph.chain(&format!("{source} -> {adds} -> c"));
            }
            graph.run_on(&runtime).0.result.unwrap();
            let mut firings: Vec<(usize, u64, u64)> = runtime
                .take_trace()
                .iter()
                .filter_map(|event| match event.kind {
                    TraceKind::Firing { thread, .. } => Some((thread, event.begin_ns, end_ns(event))),
                    _ => None,
                })
                .collect();
            firings.sort_unstable();
            for pair in firings.windows(2) {
                assert!(pair[0].0 != pair[1].0 || pair[0].2 <= pair[1].1, "two threads are one: {pair:?}");
            }
        });
    }
}

#[test]
fn a_branch_that_another_slot_runs_is_there() {
    let runtime = Runtime::start(Config { trace: true, ..Config::flat(2) }).unwrap();
    let graph = Graph::new()
        .add("s", "source", &[("count", int(4))])
        .add("a", "add_stateful", &[("branches", int(16)), ("spin_us", int(200))])
        .add("c", "collect", &[])
        .chain("s -> a -> c");
    // A steal is a matter of chance, but happens in the end.
    for _ in 0..50 {
        graph.run_on(&runtime).0.result.unwrap();
        let events = runtime.take_trace();
        assert_apart(&events);
        if events.iter().any(|event| matches!(event.kind, TraceKind::Branch { .. })) {
            return;
        }
    }
    panic!("no branch was stolen in fifty requests of four firings each");
}
