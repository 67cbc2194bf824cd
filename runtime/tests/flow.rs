//! The flow of envelopes: order, copies, side and merge inputs, early closing, hints, bounds.

mod support;

use std::sync::Arc;

use boxwork_runtime::request::Submission;
use boxwork_runtime::topology::Topology;
use boxwork_runtime::{Config, Runtime};
use support::*;

#[test]
fn a_chain_keeps_the_order() {
    for slots in [1, 2, 4] {
        let graph = Graph::new()
            .add("s", "source", &[("count", int(1000)), ("rows", int(3))])
            .add("a", "add_stateful", &[])
            .add("b", "add_stateful", &[("add", int(10))])
            .add("c", "collect", &[])
            .chain("s -> a -> b -> c");
        let (outcome, basket) = graph.run(slots);
        outcome.result.unwrap();
        assert_eq!(*basket.got.lock(), (11..1011).collect::<Vec<_>>());
        assert_eq!(outcome.boxes[3].rows_in, 1000);
        assert!(outcome.busy_ns > 0);
        assert!(outcome.edges.iter().all(|edge| edge.state.bytes_total >= 8 * 1000));
        assert_eq!(outcome.bytes_moved, outcome.edges.iter().map(|edge| edge.state.bytes_total).sum());
        assert!(outcome.edges.iter().all(|edge| edge.state.envelopes_high <= edge.state.envelopes_max));
    }
}

#[test]
fn stateless_copies_lose_and_double_nothing() {
    for _ in 0..50 {
        let graph = Graph::new()
            .add("s", "source", &[("count", int(500))])
            .add("a", "add", &[("copies", int(5))])
            .add("c", "collect", &[])
            .chain("s -> a -> c");
        let (outcome, basket) = graph.run(4);
        outcome.result.unwrap();
        assert_eq!(sorted(&basket), (1..501).collect::<Vec<_>>());
    }
}

#[test]
fn ordered_copies_restore_the_order() {
    for _ in 0..50 {
        let graph = Graph::new()
            .add("s", "source", &[("count", int(300))])
            .add("a", "add_ordered", &[("copies", int(4)), ("spin_us", int(20))])
            .add("b", "add_ordered", &[("copies", int(3))])
            .add("c", "collect", &[])
            .bounded("s -> a -> b -> c", Some(2), None);
        let (outcome, basket) = graph.run(4);
        outcome.result.unwrap();
        assert_eq!(*basket.got.lock(), (2..302).collect::<Vec<_>>());
    }
}

#[test]
fn every_copy_gets_the_whole_side_input_first() {
    let graph = Graph::new()
        .add("s", "source", &[("count", int(200))])
        .add("side", "source", &[("count", int(5))])
        .add("a", "add_side", &[("copies", int(3))])
        .add("c", "collect", &[])
        .chain("s -> a -> c")
        .chain("side -> a.side");
    let (outcome, basket) = graph.run(2);
    outcome.result.unwrap();
    assert_eq!(sorted(&basket), (10..210).collect::<Vec<_>>());
    let bytes = outcome.edges.iter().map(|edge| edge.state.bytes_total);
    let of_side =
        || outcome.edges.iter().filter(|edge| edge.from == "side.out").map(|edge| edge.state.bytes_total);
    assert_eq!((of_side().count(), of_side().max()), (3, of_side().min()));
    // Envelopes that the copies share have moved once.
    assert_eq!(outcome.bytes_moved, bytes.sum::<u64>() - of_side().sum::<u64>() / 3 * 2);
}

#[test]
fn a_merge_ends_when_all_its_edges_have() {
    let graph = Graph::new()
        .add("s", "source", &[("count", int(100))])
        .add("t", "source", &[("count", int(50))])
        .add("c", "collect", &[])
        .chain("s -> c")
        .chain("t -> c");
    let (outcome, basket) = graph.run(2);
    outcome.result.unwrap();
    assert_eq!(basket.got.lock().len(), 150);
}

#[test]
fn room_for_one_producer_does_not_wake_the_others() {
    let boxes = 16;
    let mut graph = Graph::new().add("s", "source", &[("count", int(400))]).add("m", "collect", &[]);
    for idx in 0..boxes {
        let name = format!("a{idx}");
        let name = name.as_str();
        graph = graph.add(name, "add", &[("add", int(0))]).bounded(&format!("s -> {name}"), Some(4), None);
        graph = graph.bounded(&format!("{name} -> m"), Some(1), None);
    }
    let (outcome, basket) = graph.run(1);
    outcome.result.unwrap();
    assert_eq!(basket.got.lock().len(), 400 * boxes);
    let refusals: u64 = outcome.edges.iter().map(|edge| edge.state.refusals).sum();
    assert!(refusals < 2 * 400 * boxes as u64, "{refusals} offers were refused");
}

#[test]
fn an_output_feeds_several_edges() {
    let graph = Graph::new()
        .add("s", "source", &[("count", int(100))])
        .add("a", "add", &[("add", int(1000))])
        .add("c", "collect", &[])
        .chain("s -> a -> c")
        .bounded("s -> c", Some(1), None);
    let (outcome, basket) = graph.run(2);
    outcome.result.unwrap();
    assert_eq!(sorted(&basket), (0..100).chain(1000..1100).collect::<Vec<_>>());
}

#[test]
fn closing_an_input_ends_the_producers() {
    // The source alone would never end in the test's time.
    let graph = Graph::new()
        .add("s", "source", &[("count", int(i64::MAX))])
        .add("a", "add_ordered", &[("copies", int(2))])
        .add("c", "collect", &[("most", int(10))])
        .chain("s -> a -> c");
    let (outcome, basket) = graph.run(2);
    outcome.result.unwrap();
    assert_eq!(*basket.got.lock(), (1..11).collect::<Vec<_>>());
}

#[test]
fn a_hint_travels_back() {
    let graph = Graph::new()
        .add("s", "until_hint", &[("until", int(40))])
        .add("l", "least", &[])
        .chain("s -> l")
        .hint("l.least", "s.least");
    let (outcome, _) = graph.run(2);
    outcome.result.unwrap();
    assert!(outcome.boxes[1].rows_in >= 60);
}

#[test]
fn a_flood_stays_within_the_edges_bounds() {
    let graph = Graph::new()
        .add("s", "source", &[("count", int(20_000)), ("rows", int(100))])
        .add("a", "add_stateful", &[("spin_us", int(50))])
        .add("c", "collect", &[])
        .bounded("s -> a", Some(1000), Some(4096))
        .chain("a -> c");
    let (outcome, _) = graph.run(2);
    outcome.result.unwrap();
    let flooded = &outcome.edges[0].state;
    // 800 bytes an envelope: five fit, the edge never holds a sixth.
    assert_eq!((flooded.bytes_high, flooded.bytes_max), (4000, 4096));
}

#[test]
fn a_request_stays_within_its_memory() {
    let graph = Graph::new()
        .add("s", "source", &[("count", int(10_000)), ("rows", int(100))])
        .add("a", "add_stateful", &[("spin_us", int(20))])
        .add("b", "add_stateful", &[("spin_us", int(20))])
        .add("c", "collect", &[])
        .bounded("s -> a -> b -> c", Some(1000), None);
    let runtime = Runtime::start(Config::flat(2)).unwrap();
    let prepared = graph.prepare();
    let submission = Submission { memory_bytes: Some(10_000), ..Submission::default() };
    let outcome = wait(&runtime.submit(&prepared, &submission).unwrap());
    outcome.result.unwrap();
    assert_eq!(basket(&prepared).got.lock().len(), 10_000);
    // An empty edge accepts any one envelope, so each of the three may hold one more.
    assert!(outcome.memory_bytes_high <= 10_000 + 4 * 1024, "{}", outcome.memory_bytes_high);
}

#[test]
fn many_requests_share_the_slots() {
    let graph = Graph::new()
        .add("s", "source", &[("count", int(50))])
        .add("a", "add", &[("copies", text("auto"))])
        .add("c", "collect", &[])
        .chain("s -> a -> c");
    let runtime = Runtime::start(Config::flat(2)).unwrap();
    let prepared = graph.prepare();
    let requests: Vec<_> =
        (0..300).map(|_| runtime.submit(&prepared, &Submission::default()).unwrap()).collect();
    for request in &requests {
        wait(request).result.unwrap();
    }
    assert_eq!(basket(&prepared).got.lock().len(), 300 * 50);
}

#[test]
fn a_synthetic_machine_of_two_nodes_runs_a_graph() {
    let topology = Topology::synthetic("numa:2 core:2 pu:2").unwrap();
    let runtime = Runtime::start(Config::new(topology)).unwrap();
    let graph = Graph::new()
        .add("s", "source", &[("count", int(2000))])
        .add("a", "add", &[("copies", int(8)), ("spin_us", int(20))])
        .add("c", "collect", &[])
        .chain("s -> a -> c");
    let (outcome, basket) = graph.run_on(&runtime);
    outcome.result.unwrap();
    assert_eq!(sorted(&basket), (1..2001).collect::<Vec<_>>());
    let statistics = runtime.statistics();
    assert_eq!(statistics.slots.len(), 8);
    let tasks: u64 = statistics.slots.iter().map(|slot| slot.tasks).sum();
    assert!(tasks >= 2000 / 8);
    drop(Arc::clone(&basket));
}

#[test]
fn a_copy_that_quits_leaves_its_input_to_the_others() {
    for most in 1..6 {
        let graph = Graph::new()
            .add("s", "source", &[("count", int(1000))])
            .add("q", "quit", &[("copies", int(3)), ("most", int(most))])
            .add("c", "collect", &[])
            .bounded("s -> q -> c", Some(1), None);
        for slots in [1, 1, 2, 3] {
            let (outcome, basket) = graph.run(slots);
            outcome.result.unwrap();
            assert_eq!(basket.got.lock().len() as i64, 3 * most);
            assert!(
                outcome.edges.iter().all(|edge| edge.state.grown == 0),
                "an envelope was left, unnoticed"
            );
        }
    }
}

#[test]
fn a_side_input_that_is_taken_frees_the_budget_for_the_others() {
    // 160 bytes an envelope. The first side holds three when the second one finds the budget used up; it then ends
    // without another, and only the box that takes from it can notify the second.
    let graph = Graph::new()
        .add("one", "source", &[("count", int(80)), ("rows", int(20))])
        .add("two", "source", &[("count", int(260)), ("rows", int(20))])
        .add("s", "source", &[("count", int(10))])
        .add("h", "head", &[("most", int(3))])
        .add("a", "add_side", &[])
        .add("b", "add_side", &[])
        .add("c", "collect", &[])
        .chain("s -> a -> b -> c")
        .bounded("one -> h", Some(3), None)
        .chain("h -> a.side")
        .chain("two -> b.side");
    let (outcome, basket) = within_budget(&graph, 2400);
    outcome.result.unwrap();
    assert_eq!(basket.got.lock().len(), 10);
}

#[test]
fn closing_an_input_frees_the_budget_for_the_others() {
    let graph = Graph::new()
        .add("t", "source", &[("count", int(1000)), ("rows", int(16))])
        .add("side", "source", &[("count", int(64)), ("rows", int(16))])
        .add("s", "source", &[("count", int(1))])
        .add("x", "hold_then_close", &[])
        .add("a", "add_side", &[])
        .add("c", "collect", &[])
        .chain("s -> x.a")
        .bounded("t -> x.b", Some(100), None)
        .chain("x -> a -> c")
        .chain("side -> a.side");
    let (outcome, basket) = within_budget(&graph, 1024);
    outcome.result.unwrap();
    assert_eq!(basket.got.lock().len(), 1);
}

/// One slot runs the sources in their order, so that the budget is used up at the expected edge.
fn within_budget(graph: &Graph, memory_bytes: usize) -> (boxwork_runtime::request::Outcome, Arc<Basket>) {
    let runtime = Runtime::start(Config::flat(1)).unwrap();
    let prepared = graph.prepare();
    let submission = Submission { memory_bytes: Some(memory_bytes), ..Submission::default() };
    (wait(&runtime.submit(&prepared, &submission).unwrap()), basket(&prepared))
}
