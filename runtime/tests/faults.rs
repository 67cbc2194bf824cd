//! Faults: errors, panics, stalls, cancels and deadlines stay with their request; blocking keeps strict N.

mod support;

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use boxwork_runtime::operator::*;
use boxwork_runtime::parameter::Value;
use boxwork_runtime::request::{RequestError, Submission};
use boxwork_runtime::statistics::ClassLimit;
use boxwork_runtime::{Config, Runtime};
use support::*;

fn with_add(settings: &[(&str, Value)]) -> Graph {
    Graph::new()
        .add("s", "source", &[("count", int(100))])
        .add("a", "add", settings)
        .add("c", "collect", &[])
        .chain("s -> a -> c")
}

#[test]
fn an_error_names_its_box_and_leaves_the_others_healthy() {
    let runtime = Runtime::start(Config::flat(2)).unwrap();
    for _ in 0..20 {
        let bad = with_add(&[("fail_at", int(50)), ("copies", int(3))]);
        let (outcome, _) = bad.run_on(&runtime);
        let error = outcome.result.unwrap_err();
        assert_eq!(error.to_string(), "box `a`: does not like 50");
        let (outcome, basket) = with_add(&[]).run_on(&runtime);
        outcome.result.unwrap();
        assert_eq!(basket.got.lock().len(), 100);
    }
}

#[test]
fn memory_that_is_refused_ends_its_request_alone() {
    /// Asks for more memory than any machine has, like a box that trusts a length in a file.
    struct Greedy;
    impl Operator for Greedy {
        fn process(&mut self, _: &mut Context<'_>) -> Result<Flow, BoxError> {
            let mut rows: Vec<u64> = Vec::new();
            rows.try_reserve_exact(1 << 57)?;
            Ok(Flow::Done)
        }
    }
    static GREEDY: OperatorSpec =
        OperatorSpec::new("greedy", "wants it all", Kind::Stateful, |_| Ok(Box::new(Greedy)));
    let runtime = Runtime::start(Config::flat(2)).unwrap();
    let prepared = Graph::new().add("g", "greedy", &[]).prepare_with(&catalog().with(&GREEDY));
    let error = wait(&runtime.submit(&prepared, &Submission::default()).unwrap()).result.unwrap_err();
    assert!(error.to_string().starts_with("box `g`: memory allocation failed"), "{error}");
    with_add(&[]).run_on(&runtime).0.result.unwrap();
}

#[test]
fn a_panic_is_its_requests_alone() {
    let runtime = Runtime::start(Config::flat(2)).unwrap();
    for settings in
        [vec![("panic_at", int(50))], vec![("block_us", int(10)), ("panic_detached", Value::Boolean(true))]]
    {
        let (outcome, _) = with_add(&settings).run_on(&runtime);
        match outcome.result.unwrap_err() {
            RequestError::Panicked { name, cause } => {
                assert!(name == "a" && cause.contains("a panic"), "{cause}")
            }
            other => panic!("{other}"),
        }
        with_add(&[("block_us", int(10))]).run_on(&runtime).0.result.unwrap();
    }
}

#[test]
fn a_panic_in_a_drop_is_reported() {
    let graph = Graph::new()
        .add("s", "source", &[])
        .add("c", "collect", &[("panic_in_drop", Value::Boolean(true))])
        .chain("s -> c");
    let error = graph.run(2).0.result.unwrap_err();
    assert!(matches!(error, RequestError::Panicked { name, .. } if name == "c"));
}

/// A box that reads all of its first input and then all of its second one, both small and from one source.
fn diamond(count: i64) -> Graph {
    Graph::new()
        .add("s", "source", &[("count", int(count))])
        .add("x", "a_then_b", &[])
        .add("c", "collect", &[])
        .bounded("s -> x.a", Some(2), None)
        .bounded("s -> x.b", Some(2), None)
        .chain("x -> c")
}

#[test]
fn a_diamond_that_stalls_is_grown() {
    let (outcome, basket) = diamond(200).run(2);
    outcome.result.unwrap();
    assert_eq!(basket.got.lock().len(), 400);
    assert!(outcome.edges[1].state.grown > 0);
    assert_eq!(outcome.edges[0].state.grown, 0, "the edge that was read must not grow");
}

#[test]
fn a_stall_behind_a_side_input_ends_after_any_number_of_envelopes() {
    // `x` takes nothing before its side input has ended, and both come from one source.
    let graph = Graph::new()
        .add("s", "source", &[("count", int(200))])
        .add("g", "gather", &[])
        .add("x", "add_side", &[])
        .add("c", "collect", &[])
        .bounded("s -> x.in", Some(1), None)
        .chain("s -> g")
        .chain("g -> x.side")
        .chain("x -> c");
    let (outcome, basket) = graph.run(2);
    outcome.result.unwrap();
    assert_eq!(basket.got.lock().len(), 200);
    assert!(outcome.edges[0].state.grown > 4, "it takes more than a few doublings");
}

#[test]
fn a_stall_within_a_budget_is_reported() {
    let graph = Graph::new()
        .add("s", "source", &[("count", int(200)), ("rows", int(64))])
        .add("x", "a_then_b", &[])
        .add("c", "collect", &[])
        .bounded("s -> x.a", Some(2), None)
        .bounded("s -> x.b", Some(2), None)
        .chain("x -> c");
    let runtime = Runtime::start(Config::flat(1)).unwrap();
    let submission = Submission { memory_bytes: Some(1024), ..Submission::default() };
    let graph = Graph(boxwork_runtime::plan::Declaration {
        boxes: {
            let mut boxes = graph.0.boxes.clone();
            boxes[0].settings[0].1 = boxwork_runtime::plan::Setting::Value(int(64 * 200));
            boxes
        },
        ..graph.0
    });
    let outcome = wait(&runtime.submit(&graph.prepare(), &submission).unwrap());
    let report = outcome.result.unwrap_err().to_string();
    assert!(report.contains("memory budget of 1024 bytes is used up"), "{report}");
}

#[test]
fn a_box_that_takes_nothing_is_named() {
    let graph =
        Graph::new().add("s", "source", &[("count", int(1000))]).add("x", "stubborn", &[]).chain("s -> x");
    let report = graph.run(2).0.result.unwrap_err().to_string();
    assert!(report.contains("`s.out` waits for room: `s.out -> x.in` is full"), "{report}");
    assert!(report.contains("`x.in` takes nothing"), "{report}");
}

#[test]
fn no_more_than_n_compute_while_others_block() {
    let runtime = Runtime::start(Config {
        blocking: [("nap".to_owned(), ClassLimit::Fixed(3))].into(),
        ..Config::flat(2)
    })
    .unwrap();
    for kind in ["add", "add_nap"] {
        let graph = Graph::new()
            .add("s", "source", &[("count", int(60))])
            .add("a", kind, &[("copies", int(16)), ("spin_us", int(300)), ("block_us", int(500))])
            .add("c", "collect", &[])
            .bounded("s -> a -> c", Some(64), None);
        let (outcome, basket) = graph.run_on(&runtime);
        outcome.result.unwrap();
        assert_eq!(sorted(&basket), (1..61).collect::<Vec<_>>());
        assert!(basket.computing_high.load(Ordering::SeqCst) <= 2, "more than N computed");
        assert!(basket.blocking_high.load(Ordering::SeqCst) <= 3, "more than the class allows blocked");
        assert!(basket.blocking_high.load(Ordering::SeqCst) >= 2, "nothing blocked side by side");
    }
    let statistics = runtime.statistics();
    assert_eq!(statistics.classes[0].operations, 120);
    assert!(statistics.classes[0].in_flight_high <= 3);
}

#[test]
fn an_automatic_limit_climbs_if_more_at_once_gains() {
    let blocking = [("nap".to_owned(), ClassLimit::Auto)].into();
    let runtime = Runtime::start(Config { blocking, ..Config::flat(2) }).unwrap();
    for kind in ["add", "add_nap"] {
        let graph = Graph::new()
            .add("s", "source", &[("count", int(400))])
            .add("a", kind, &[("copies", int(32)), ("block_us", int(3000))])
            .add("c", "collect", &[])
            .bounded("s -> a -> c", Some(64), None);
        let (outcome, basket) = graph.run_on(&runtime);
        outcome.result.unwrap();
        assert_eq!(sorted(&basket), (1..401).collect::<Vec<_>>());
        let high = basket.blocking_high.load(Ordering::SeqCst);
        assert!(high > 4, "it stayed at {high} at once");
    }
    let class = &runtime.statistics().classes[0];
    assert!(class.auto && (1..=64).contains(&class.limit), "{class:?}");
}

#[test]
fn at_the_thread_cap_a_task_blocks_holding_its_slot() {
    let runtime = Runtime::start(Config { threads_max: 2, ..Config::flat(2) }).unwrap();
    let (outcome, basket) = with_add(&[("copies", int(4)), ("block_us", int(100))]).run_on(&runtime);
    outcome.result.unwrap();
    assert_eq!(basket.got.lock().len(), 100);
    assert_eq!(runtime.statistics().threads, 2);
}

#[test]
fn a_cancelled_request_ends_at_once_and_its_waiters_leave() {
    let runtime = Runtime::start(Config {
        blocking: [("nap".to_owned(), ClassLimit::Fixed(1))].into(),
        ..Config::flat(2)
    })
    .unwrap();
    for kind in ["add", "add_nap"] {
        let graph = Graph::new()
            .add("s", "source", &[("count", int(i64::MAX))])
            .add("a", kind, &[("copies", int(8)), ("block_us", int(2000))])
            .add("c", "collect", &[])
            .chain("s -> a -> c");
        let prepared = graph.prepare();
        let request = runtime.submit(&prepared, &Submission::default()).unwrap();
        while basket(&prepared).blocking.load(Ordering::SeqCst) == 0 {
            std::thread::yield_now();
        }
        request.cancel();
        assert_eq!(wait(&request).result, Err(RequestError::Cancelled));
    }
    with_add(&[]).run_on(&runtime).0.result.unwrap();
}

#[test]
fn a_deadline_ends_a_request() {
    let runtime = Runtime::start(Config::flat(2)).unwrap();
    let graph =
        Graph::new().add("s", "source", &[("count", int(i64::MAX))]).add("c", "collect", &[]).chain("s -> c");
    let deadline = Some(Instant::now() + Duration::from_millis(20));
    let submission = Submission { deadline, ..Submission::default() };
    let request = runtime.submit(&graph.prepare(), &submission).unwrap();
    assert_eq!(wait(&request).result, Err(RequestError::DeadlinePassed));
}

#[test]
fn a_dropped_runtime_cancels_its_requests() {
    let runtime = Runtime::start(Config::flat(2)).unwrap();
    let graph =
        Graph::new().add("s", "source", &[("count", int(i64::MAX))]).add("c", "collect", &[]).chain("s -> c");
    let request = runtime.submit(&graph.prepare(), &Submission::default()).unwrap();
    drop(runtime);
    assert_eq!(wait(&request).result, Err(RequestError::Cancelled));
}

#[test]
fn a_reserved_permit_is_not_held_while_waiting_for_another_class() {
    let blocking = [("x".to_owned(), ClassLimit::Fixed(1)), ("y".to_owned(), ClassLimit::Fixed(1))].into();
    let runtime = Runtime::start(Config { blocking, ..Config::flat(3) }).unwrap();
    let settings = |class| [("class", text(class)), ("block_us", int(50)), ("spin_us", int(50))];
    let graph = Graph::new()
        .add("s", "source", &[("count", int(200))])
        .add("a", "add", &settings("y"))
        .blocking("x")
        .add("b", "add", &settings("x"))
        .blocking("y")
        .add("c", "collect", &[])
        .chain("s -> a -> c")
        .chain("s -> b -> c");
    let (outcome, basket) = graph.run_on(&runtime);
    outcome.result.unwrap();
    assert_eq!(basket.got.lock().len(), 400);
}

#[test]
fn at_the_thread_cap_a_permit_of_a_queued_task_does_not_block_the_slots() {
    let blocking = [("nap".to_owned(), ClassLimit::Fixed(1))].into();
    let runtime = Runtime::start(Config { threads_max: 2, blocking, ..Config::flat(2) }).unwrap();
    let settings = [("copies", int(3)), ("block_us", int(20))];
    let graph = Graph::new()
        .add("s", "source", &[("count", int(500))])
        .add("a", "add", &settings)
        .add("b", "add_nap", &settings)
        .add("c", "collect", &[])
        .chain("s -> a -> c")
        .chain("s -> b -> c");
    let (outcome, basket) = graph.run_on(&runtime);
    outcome.result.unwrap();
    assert_eq!(basket.got.lock().len(), 1000);
    assert!(basket.blocking_high.load(Ordering::SeqCst) <= 1);
}

#[test]
fn a_task_that_blocks_holding_its_slot_publishes_its_envelopes() {
    let runtime = Runtime::start(Config { threads_max: 2, ..Config::flat(2) }).unwrap();
    let graph = Graph::new()
        .add("s", "source", &[("count", int(20))])
        .add("h", "handshake", &[])
        .add("c", "collect", &[])
        .chain("s -> h -> c");
    graph.run_on(&runtime).0.result.unwrap();
}

#[test]
fn a_diamond_of_small_envelopes_is_grown_by_their_number() {
    let (outcome, basket) = diamond(5000).run(2);
    outcome.result.unwrap();
    assert_eq!(basket.got.lock().len(), 10_000);
    assert_eq!(outcome.edges[1].state.bytes_max, outcome.edges[0].state.bytes_max, "bytes were not short");
}

#[test]
fn a_panic_in_make_is_an_error_of_the_submission() {
    let runtime = Runtime::start(Config::flat(1)).unwrap();
    let graph = Graph::new().add("s", "source", &[]).add("x", "unmade", &[]).chain("s -> x");
    let error = runtime.submit(&graph.prepare(), &Submission::default()).err().unwrap().to_string();
    assert!(error.contains("`x`") && error.contains("a panic in make"), "{error}");
    with_add(&[]).run_on(&runtime).0.result.unwrap();
}

#[test]
fn ended_requests_are_forgotten() {
    let runtime = Runtime::start(Config::flat(2)).unwrap();
    let prepared = with_add(&[("copies", int(1))]).prepare();
    let deadline = Some(Instant::now() + Duration::from_secs(3600));
    let submission = Submission { deadline, ..Submission::default() };
    // A request is forgotten before its owner is notified: after waiting for all requests the owner finds none.
    for _ in 0..500 {
        let requests: Vec<_> = (0..4).map(|_| runtime.submit(&prepared, &submission).unwrap()).collect();
        for request in &requests {
            wait(request).result.unwrap();
            assert!(request.wait_timeout(Duration::MAX).is_some());
        }
        let statistics = runtime.statistics();
        assert_eq!((statistics.requests, statistics.deadlines), (0, 0));
    }
}

#[test]
fn copies_that_could_not_restore_the_order_of_several_edges_are_refused() {
    let graph = |sources: &[&str], copies: i64| {
        let mut graph = Graph::new().add("g", "gather_ordered", &[("copies", int(copies))]);
        for source in sources {
            graph = graph.add(source, "source", &[]).chain(&format!("{source} -> g"));
        }
        graph.add("c", "collect", &[]).chain("g -> c")
    };
    let faults = |graph: &Graph| {
        let (plan, faults) =
            boxwork_runtime::plan::check(&graph.0, &catalog(), &std::collections::BTreeMap::new());
        assert_eq!(plan.is_none(), !faults.is_empty());
        faults.into_iter().map(|fault| (fault.kind.code(), fault.message)).collect::<Vec<_>>()
    };
    assert!(faults(&graph(&["s"], 3)).is_empty());
    assert!(faults(&graph(&["s", "t"], 1)).is_empty());
    let found = faults(&graph(&["s", "t"], 3));
    assert!(
        matches!(&found[..], [("copies-of-several-edges", message)] if message.contains("2 edges")),
        "{found:?}"
    );
}

#[test]
fn a_permit_is_there_again_after_its_holder_has_died() {
    let blocking = [("nap".to_owned(), ClassLimit::Fixed(1))].into();
    let runtime = Runtime::start(Config { blocking, ..Config::flat(2) }).unwrap();
    let settings = [("block_us", int(10)), ("copies", int(3))];
    let dying: [(&str, (&str, Value)); 4] = [
        // The holder dies in the closure, and in a firing whose box holds a permit from its start.
        ("add", ("panic_detached", Value::Boolean(true))),
        ("add_nap", ("panic_detached", Value::Boolean(true))),
        ("add_nap", ("panic_at", int(3))),
        ("add_nap", ("fail_at", int(3))),
    ];
    for (kind, death) in dying {
        let graph = |settings: &[(&str, Value)]| {
            let graph = Graph::new().add("s", "source", &[("count", int(20))]).add("a", kind, settings);
            graph.add("c", "collect", &[]).chain("s -> a -> c")
        };
        let deadly: Vec<_> = settings.iter().cloned().chain([death]).collect();
        graph(&deadly).run_on(&runtime).0.result.unwrap_err();
        let (outcome, basket) = graph(&settings).run_on(&runtime);
        outcome.result.unwrap();
        assert_eq!(basket.got.lock().len(), 20);
        let statistics = runtime.statistics();
        let class = statistics.classes.iter().find(|class| class.name == "nap").unwrap();
        assert_eq!((class.in_flight, class.waiting, class.in_flight_high), (0, 0, 1), "{kind}");
    }
}

#[test]
fn a_diamond_that_bounded_edges_can_stall_gets_a_warning() {
    let warnings = |graph: &Graph| {
        let (plan, faults) =
            boxwork_runtime::plan::check(&graph.0, &catalog(), &std::collections::BTreeMap::new());
        assert!(plan.is_some(), "a diamond must not be an error: {faults:?}");
        faults.into_iter().map(|fault| fault.kind.code()).collect::<Vec<_>>()
    };
    let two = |graph: Graph| graph.add("s", "source", &[]).add("x", "a_then_b", &[]).add("c", "collect", &[]);
    let diamond = two(Graph::new()).chain("s -> x.a").chain("s -> x.b").chain("x -> c");
    assert_eq!(warnings(&diamond), ["diamond"]);
    let measured = two(Graph::new()).bounded("s -> x.a", Some(64), None).chain("s -> x.b").chain("x -> c");
    assert!(warnings(&measured).is_empty(), "an edge whose envelopes are given is measured");
    let apart = two(Graph::new()).add("t", "source", &[]).chain("s -> x.a").chain("t -> x.b").chain("x -> c");
    assert!(warnings(&apart).is_empty());
}
