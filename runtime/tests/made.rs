//! Operators that a program makes while it runs: closures, with names that no constant has.

mod support;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use boxwork_runtime::harness::Harness;
use boxwork_runtime::operator::{Environment, Flow, In, Kind, Mode, OperatorEntry, Out, from_fn};
use boxwork_runtime::prepare::Prepared;
use boxwork_runtime::request::Submission;
use boxwork_runtime::{Config, Runtime};
use support::*;

const IN: In = In::nth(0);
const OUT: Out = Out::nth(0);

/// An operator of this name that applies a function to each number and counts the calls.
fn mapped(
    name: String,
    port: &str,
    map: impl Fn(u64) -> u64 + Clone + Send + Sync + 'static,
    calls: Arc<Mutex<usize>>,
) -> OperatorEntry {
    OperatorEntry::new(name, format!("applies a function to `{port}`"), Kind::Stateless, move |_| {
        let (map, calls) = (map.clone(), Arc::clone(&calls));
        Ok(from_fn(move |cx| {
            while cx.has_room(OUT) {
                let Some(taken) = cx.take(IN) else {
                    return Ok(if cx.is_ended(IN) { Flow::Done } else { Flow::Wait });
                };
                *calls.lock().unwrap() += 1;
                cx.push(OUT, envelope(taken.u64s("n")?.iter().map(|n| map(*n))))?;
            }
            Ok(Flow::Wait)
        }))
    })
    .input(port.to_owned(), Mode::Stream, numbers, "numbers")
    .output(format!("{port}_mapped"), numbers, "a number for each")
}

#[test]
fn operators_made_from_closures_run_and_are_freed() {
    let calls = Arc::new(Mutex::new(0));
    let factors: Vec<u64> = vec![3, 5];
    let mut with_made = catalog();
    for (idx, factor) in factors.iter().copied().enumerate() {
        let name = format!("times_{factor}");
        with_made =
            with_made.with(mapped(name, &format!("in{idx}"), move |n| n * factor, Arc::clone(&calls)));
    }
    let graph = Graph::new()
        .add("s", "source", &[("count", int(100))])
        .add("a", "times_3", &[("copies", int(2))])
        .add("b", "times_5", &[])
        .add("c", "collect", &[])
        .bounded("s -> a.in0", None, None)
        .bounded("a.in0_mapped -> b.in1", None, None)
        .bounded("b.in1_mapped -> c", None, None);
    let prepared = graph.prepare_with(&with_made);
    let runtime = Runtime::start(Config::flat(2)).unwrap();
    let request = runtime.submit(&prepared, &Submission::default()).unwrap();
    let outcome = wait(&request);
    assert_eq!(outcome.result, Ok(()));
    let kinds: Vec<&str> = outcome.boxes.iter().map(|of_box| &*of_box.kind).collect();
    assert_eq!(kinds, ["source", "times_3", "times_5", "collect"]);
    assert_eq!(sorted(&basket(&prepared)), (0..100).map(|n| n * 15).collect::<Vec<_>>());
    assert_eq!(*calls.lock().unwrap(), 200);
    drop((with_made, prepared, request, runtime));
    assert_eq!(Arc::strong_count(&calls), 1, "values in the closures were leaked");
}

#[test]
fn counts_of_copies_are_summed_by_name_in_the_order_of_first_use() {
    let counting = OperatorEntry::new("tally", "counts numbers", Kind::Stateless, |_| {
        Ok(from_fn(|cx| {
            while cx.has_room(OUT) {
                let Some(taken) = cx.take(IN) else {
                    return Ok(if cx.is_ended(IN) { Flow::Done } else { Flow::Wait });
                };
                let numbers = taken.u64s("n")?;
                cx.count("numbers", numbers.len() as u64);
                cx.count("small", numbers.iter().filter(|n| **n < 30).count() as u64);
                cx.figure("limit", 29.5);
                cx.figure("limit", 30.5);
                cx.push(OUT, taken)?;
            }
            Ok(Flow::Wait)
        }))
    })
    .input("in", Mode::Stream, numbers, "numbers")
    .output("out", numbers, "the same");
    let graph = Graph::new()
        .add("s", "source", &[("count", int(100))])
        .add("a", "tally", &[("copies", int(2))])
        .add("c", "collect", &[])
        .bounded("s -> a -> c", None, None);
    let prepared = graph.prepare_with(&catalog().with(counting));
    let runtime = Runtime::start(Config::flat(2)).unwrap();
    // The counts of a request begin anew.
    for _ in 0..2 {
        let outcome = wait(&runtime.submit(&prepared, &Submission::default()).unwrap());
        assert_eq!(outcome.result, Ok(()));
        assert_eq!(outcome.boxes[1].counts, [("numbers", 100), ("small", 30)]);
        assert!(outcome.boxes[0].counts.is_empty());
        // A figure replaces the one before it, and is no sum.
        assert_eq!(outcome.boxes[1].figures, [("limit", 30.5)]);
        assert!(outcome.boxes[0].figures.is_empty());
    }
}

#[test]
fn faults_name_the_ports_of_an_operator_made_at_run_time() {
    let calls = Arc::new(Mutex::new(0));
    let made = mapped("negate".to_owned(), "given", |n| !n, calls);
    let with_made = catalog().with(made);
    let graph = Graph::new()
        .add("s", "source", &[])
        .add("a", "negate", &[])
        .add("c", "collect", &[])
        .chain("s -> a.gven")
        .chain("a -> c");
    let environment = Environment::of_slots(1);
    let prepared = Prepared::new(&graph.0, &with_made, &BTreeMap::new(), &environment);
    let error = prepared.err().expect("a port is misspelt").to_string();
    assert!(error.contains("box `a` (negate) has no input `gven`"), "{error}");
}

#[test]
fn the_harness_takes_an_operator_made_at_run_time_and_its_check_is_a_closure() {
    let calls = Arc::new(Mutex::new(0));
    let mut made = mapped("halve".to_owned(), "given", |n| n / 2, Arc::clone(&calls));
    let least = 2;
    made.check = Some(Arc::new(move |_, _| if least > 1 { Ok(()) } else { Err("too little".to_owned()) }));
    let mut harness = Harness::new(made, []).unwrap();
    harness.give(IN, envelope([8, 9]));
    harness.end(IN);
    harness.run().unwrap();
    let taken = harness.taken(OUT);
    assert!(harness.is_done() && *calls.lock().unwrap() == 1);
    assert_eq!(taken[0].u64s("n").unwrap(), [4, 4]);
}
