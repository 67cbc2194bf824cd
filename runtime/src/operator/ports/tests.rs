//! Checks one firing of a box through `Ports`: the envelopes that move over its edges, and the notices that it leaves for
//! other boxes. A table that lists a port at another place than its handle declares is refused.

use std::collections::BTreeMap;

use arrow_array::{ArrayRef, UInt32Array};
use arrow_schema::DataType;

use super::*;
use crate::descriptor::{Column, Descriptor};
use crate::edge::{EdgeShape, PortEdges};
use crate::operator::{In, Kind, OperatorSpec, Out};
use crate::parameter::Arguments;

fn numbers(_: &Arguments) -> Descriptor {
    Descriptor::new([Column::new("a", DataType::UInt32, "a number")])
}

const IN: In = In::stream(0, "in", numbers, "numbers");
const OUT: Out = Out::new(0, "out", numbers, "the numbers");
const OTHER: Out = Out::new(1, "other", numbers, "the numbers");

static BOX: OperatorSpec = OperatorSpec {
    inputs: &[IN],
    outputs: &[OUT, OTHER],
    ..OperatorSpec::new("box", "has ports", Kind::Stateful, |_| Err(BoxError::new("not made")))
};

/// The box among those of the tests' edges.
const PLACE: usize = 1;

fn envelope(column: &str) -> Envelope {
    Envelope::from_columns([(column, Arc::new(UInt32Array::from(vec![1, 2])) as ArrayRef)]).unwrap()
}

fn edge(idx: usize, producer: usize, consumers: &[usize]) -> Arc<Edge> {
    let (producers, consumers) = (Arc::from([producer]), Arc::from(consumers));
    let (envelopes_max, bytes_max) = (2, usize::MAX);
    let shape = EdgeShape { plan_edge: idx, producers, consumers, lanes: 0, envelopes_max, bytes_max };
    Arc::new(Edge::new(idx, &shape))
}

/// A box whose first output has these consumers; the second one leads to box 3.
fn connections(consumers: &[usize]) -> Connections {
    let outputs = [edge(1, PLACE, consumers), edge(2, PLACE, &[3])]
        .map(|edge| PortEdges::new([edge]))
        .into_iter()
        .collect();
    let inputs = [PortEdges::new([edge(0, 0, &[PLACE])])].into_iter().collect();
    let given = Arguments::new(BTreeMap::new());
    let shape = PortShape { spec: (&BOX).into(), descriptors: [numbers(&given), numbers(&given)].into() };
    Connections { place: PLACE, ..Connections::new(Arc::new(shape), inputs, outputs) }
}

#[expect(unsafe_code, reason = "each test is the only thread")]
fn fire<R>(at: &Connections, state: &mut PortState, f: impl FnOnce(&mut Ports<'_>) -> R) -> (R, Vec<String>) {
    let ledger = Ledger::new(None);
    let is_plain = state.staged.is_empty() && !state.has_closed;
    // SAFETY: one thread, and one firing at a time.
    let mut ports = unsafe { Ports::new(at, state, &ledger, 0, is_plain, 0) };
    let result = f(&mut ports);
    let mut notices = Vec::new();
    let (firing, state) = ports.parts();
    firing.each_notice(state, |notice| notices.push(format!("{notice:?}")));
    (result, notices)
}

#[expect(unsafe_code, reason = "each test is the only thread")]
fn give(at: &Connections, envelope: Envelope) {
    // SAFETY: one thread.
    assert!(unsafe { at.inputs[0].single().unwrap().try_offer(envelope) }.is_ok());
}

#[test]
fn the_usual_case_counts_envelopes_and_notifies_the_consumer_once() {
    let (at, mut state) = (connections(&[2]), PortState::new(1, 2));
    give(&at, envelope("a"));
    give(&at, envelope("a"));
    let ((), notices) = fire(&at, &mut state, |ports| {
        while let Some(taken) = ports.take(0) {
            assert!(ports.has_room(0));
            assert_eq!(ports.push(0, taken).unwrap(), Pushed::Sent);
        }
        assert!(ports.firing().drained && ports.firing().took() && ports.firing().is_plain);
        assert!(!ports.is_ended(0));
        at.inputs[0].first().unwrap().end();
        assert!(ports.is_ended(0));
    });
    assert_eq!(notices, ["Consumer(2)"]);
    assert_eq!((at.rows_in.load(Ordering::Relaxed), at.rows_out.load(Ordering::Relaxed)), (4, 4));
}

#[test]
fn consumers_are_notified_in_the_order_in_which_they_were_given_something() {
    let (at, mut state) = (connections(&[2]), PortState::new(1, 2));
    let ((), notices) = fire(&at, &mut state, |ports| {
        for output in [0, 0, 1] {
            ports.push(output, envelope("a")).unwrap();
        }
    });
    assert_eq!(notices, ["Consumer(2)", "Consumer(3)"]);
    let (at, mut state) = (connections(&[2, 4]), PortState::new(1, 2));
    let (sent, notices) =
        fire(&at, &mut state, |ports| ports.push_to_all(0, envelope("a"), Some(1)).unwrap());
    assert_eq!((sent, notices), (Pushed::Sent, vec!["OneConsumer(1, Some(1))".to_owned()]));
}

#[test]
fn an_envelope_too_many_is_staged_and_the_next_one_refused() {
    let (at, mut state) = (connections(&[2]), PortState::new(1, 2));
    let ((), notices) = fire(&at, &mut state, |ports| {
        for _ in 0..3 {
            assert!(ports.has_room(0));
            assert_eq!(ports.push(0, envelope("a")).unwrap(), Pushed::Sent);
        }
        assert!(!ports.has_room(0) && ports.has_room(1) && !ports.firing().is_plain);
        let error = ports.push(0, envelope("a")).unwrap_err().to_string();
        assert_eq!(error, "the output `out` has no room: ask `has_room` before a second push");
    });
    assert_eq!(notices, ["Consumer(2)"]);
    let staged: Vec<usize> = state.staged.iter().map(|staged| staged.edge).collect();
    assert_eq!(staged, [1]);
    let refusals = at.outputs[0].first().unwrap().state();
    assert!(!refusals.wanted && refusals.refusals == 0, "a mark is set when the firing has ended");
}

#[test]
fn a_closed_input_gives_nothing_more_and_its_producer_is_notified() {
    let (at, mut state) = (connections(&[2]), PortState::new(1, 2));
    give(&at, envelope("a"));
    let ((), notices) = fire(&at, &mut state, |ports| {
        ports.close(0);
        ports.close(0);
        assert!(ports.take(0).is_none() && ports.is_ended(0) && !ports.firing().is_plain);
    });
    assert_eq!(notices, ["Closed { edge: 0, freed: false }"]);
    assert!(at.inputs[0].first().unwrap().is_closed() && state.has_closed);
}

#[test]
#[should_panic(expected = "the operator `swapped` lists at place 0 an output that is declared for place 1")]
fn a_table_whose_ports_stand_elsewhere_than_they_say_is_refused() {
    static SWAPPED: OperatorSpec = OperatorSpec {
        outputs: &[OTHER, OUT],
        ..OperatorSpec::new("swapped", "has its ports the wrong way round", Kind::Stateful, |_| {
            Err(BoxError::new("not made"))
        })
    };
    SWAPPED.check_places();
}
