//! The direct way of a firing to its edges: what most boxes ask for most of the time, answered within their own code.
//!
//! A host is asked through a virtual call and is ready for everything: several ports, copies, a budget, ports that are
//! closed, envelopes that found no room. Where a box's first input and first output have one edge each, between two
//! boxes, and nothing else stands in the way, the answer is given here, and the port need not even be looked up: its name
//! is that of the operator's table. What cannot be answered is left as it was, to the host; both note in the same place.
//!
//! Invariant: it lives within one firing, so it is the only producer of the box's outputs and the only consumer of its
//! inputs.

use std::cell::Cell;
use std::ptr;
use std::sync::Arc;

use super::{PortEdges, Single};
use crate::envelope::Envelope;
use crate::sync::{AtomicBool, Counter, Ordering, add};

/// The box that stands for none in [`Direct::untold`].
const NOBODY: usize = usize::MAX;

/// A port that has one edge, between two boxes.
pub(crate) struct Gate {
    /// As in the operator's table. Operators name their ports with the same literals, which the compiler keeps once:
    /// their addresses tell.
    name: &'static str,
    single: Arc<Single>,
    consumer: usize,
}

impl Gate {
    /// The gate of a port, if it can have one.
    pub(crate) fn new(name: &'static str, edges: &PortEdges) -> Option<Self> {
        let (single, consumer) = edges.only()?.single()?;
        Some(Self { name, single: Arc::clone(single), consumer })
    }
}

/// The first ports of a box, and what its firings and those around it note there.
#[derive(Default)]
pub(crate) struct Gates {
    pub(crate) input: Option<Gate>,
    pub(crate) output: Option<Gate>,
    /// An output may have been closed since the last firing looked.
    pub(crate) closing: AtomicBool,
    pub(crate) rows_in: Counter,
    pub(crate) rows_out: Counter,
}

/// See the module.
pub(crate) struct Direct<'a> {
    gates: &'a Gates,
    /// Where the schema lies that was last found to fit the first output; 0 for none.
    schema: &'a Cell<usize>,
    /// The node that the firing runs on.
    node: Cell<usize>,
    /// A box that has been given something and was not told yet, or [`NOBODY`].
    untold: Cell<usize>,
    /// Whether anything can be answered here: nothing is staged, no input is closed, no budget counts, no order is kept.
    is_plain: Cell<bool>,
    /// Envelopes that the firing took, and that it made.
    took: Cell<u32>,
    made: Cell<u32>,
    drained: Cell<bool>,
}

impl<'a> Direct<'a> {
    /// For a firing on a node; `is_plain`: nothing stands in the way.
    #[inline(always)]
    pub(crate) fn new(gates: &'a Gates, schema: &'a Cell<usize>, node: usize, is_plain: bool) -> Self {
        Self {
            gates,
            schema,
            node: Cell::new(node),
            untold: Cell::new(NOBODY),
            is_plain: Cell::new(is_plain),
            took: Cell::new(0),
            made: Cell::new(0),
            drained: Cell::new(false),
        }
    }

    /// The edge of an input, where all is plain.
    #[inline(always)]
    fn input(&self, name: &str) -> Option<&'a Single> {
        let gate = self.gates.input.as_ref()?;
        (ptr::eq(gate.name, name) && self.is_plain.get()).then_some(&gate.single)
    }

    /// The next envelope of an input, or nothing when none waits; no answer is the host's to give.
    #[inline(always)]
    pub(crate) fn take(&self, input: &str) -> Option<Option<Envelope>> {
        let single = self.input(input)?;
        let Some((_, envelope)) = single.take() else {
            self.drained.set(true);
            return Some(None);
        };
        self.drained.set(false);
        self.has_taken();
        single.crossing().count(self.node.get(), None, &envelope);
        add(&self.gates.rows_in, envelope.rows() as u64);
        Some(Some(envelope))
    }

    /// Whether an input has ended, where this is to be answered here.
    #[inline(always)]
    pub(crate) fn is_ended(&self, input: &str) -> Option<bool> {
        let single = self.input(input)?;
        // Nobody but this box closes it, and it is not closed where all is plain.
        Some(single.has_end() && !single.has_waiting())
    }

    /// Whether this is the first output and nothing stands in the way of another push.
    #[inline(always)]
    pub(crate) fn has_room(&self, output: &str) -> bool {
        self.gates.output.as_ref().is_some_and(|gate| ptr::eq(gate.name, output)) && self.is_clear()
    }

    #[inline(always)]
    fn is_clear(&self) -> bool {
        self.is_plain.get() && !self.gates.closing.load(Ordering::Relaxed)
    }

    /// Puts an envelope on an output, or gives it back: the host is to do it.
    #[inline(always)]
    pub(crate) fn push(&self, output: &str, envelope: Envelope) -> Result<(), Envelope> {
        let Some(gate) = &self.gates.output else { return Err(envelope) };
        let untold = self.untold.get();
        if !ptr::eq(gate.name, output)
            || !self.is_clear()
            || self.schema.get() != address_of(&envelope)
            || (untold != NOBODY && untold != gate.consumer)
        {
            return Err(envelope);
        }
        let rows = envelope.rows() as u64;
        gate.single.crossing().made_on(self.node.get());
        gate.single.try_offer(envelope)?;
        self.untold.set(gate.consumer);
        self.has_done();
        add(&self.gates.rows_out, rows);
        Ok(())
    }

    /// Remembers that the columns of an envelope fit the first output. Whoever says so keeps the schema, so that no
    /// other one comes to lie there.
    pub(crate) fn learn(&self, envelope: &Envelope) {
        self.schema.set(address_of(envelope));
    }

    /// From here on the host answers.
    pub(crate) fn leave(&self) {
        self.is_plain.set(false);
    }

    /// Whether nothing has come into the way.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        self.is_plain.get()
    }

    /// The node that the firing runs on.
    #[inline]
    pub(crate) fn node(&self) -> usize {
        self.node.get()
    }

    /// The firing goes on on another node.
    pub(crate) fn go_on(&self, node: usize) {
        self.node.set(node);
    }

    /// Something was taken from an input.
    #[inline(always)]
    pub(crate) fn has_taken(&self) {
        self.took.set(self.took.get() + 1);
    }

    /// Something was made, or a port closed.
    #[inline(always)]
    pub(crate) fn has_done(&self) {
        self.made.set(self.made.get() + 1);
    }

    /// Envelopes that the firing took or made, whichever are more.
    #[inline(always)]
    pub(crate) fn steps(&self) -> u32 {
        self.took.get().max(self.made.get())
    }

    /// The host has looked at a stream, and found it empty or not; or has closed it.
    #[inline]
    pub(crate) fn has_looked(&self, was_empty: bool) {
        self.drained.set(was_empty);
    }

    /// Whether the firing took anything.
    #[inline]
    pub(crate) fn took(&self) -> bool {
        self.took.get() > 0
    }

    /// Whether it took or made anything.
    #[inline]
    pub(crate) fn progressed(&self) -> bool {
        self.took.get() | self.made.get() > 0
    }

    /// Whether the stream that it looked at last was empty, and has not been closed since.
    #[inline]
    pub(crate) fn drained(&self) -> bool {
        self.drained.get()
    }

    /// A box has been given something, and is to be told. The one that was given something before and has not been told
    /// is the caller's to tell.
    #[inline]
    pub(crate) fn tell_later(&self, consumer: usize) -> Option<usize> {
        let before = self.untold.replace(consumer);
        (before != consumer && before != NOBODY).then_some(before)
    }

    /// Takes the box that has been given something and was not told yet.
    #[inline]
    pub(crate) fn take_untold(&self) -> Option<usize> {
        let untold = self.untold.replace(NOBODY);
        (untold != NOBODY).then_some(untold)
    }
}

#[inline(always)]
fn address_of(envelope: &Envelope) -> usize {
    Arc::as_ptr(envelope.schema()).addr()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use arrow_array::{ArrayRef, UInt32Array};

    use super::super::{Edge, EdgeShape};
    use super::*;

    const NAMES: [&str; 2] = ["in", "out"];

    fn envelope(column: &str) -> Envelope {
        Envelope::from_columns([(column, Arc::new(UInt32Array::from(vec![1, 2])) as ArrayRef)]).unwrap()
    }

    fn edge<const N: usize>(producer: usize, consumers: [usize; N]) -> Arc<Edge> {
        let (producers, consumers) = (Arc::from([producer]), Arc::from(consumers));
        let (envelopes_max, bytes_max) = (2, usize::MAX);
        let shape = EdgeShape { plan_edge: 0, producers, consumers, lanes: 0, envelopes_max, bytes_max };
        Arc::new(Edge::new(0, &shape))
    }

    fn port(producer: usize, consumer: usize) -> PortEdges {
        PortEdges::new([edge(producer, [consumer])])
    }

    /// Box 1 of a chain of three.
    fn gates() -> Gates {
        let (input, output) = (Gate::new(NAMES[0], &port(0, 1)), Gate::new(NAMES[1], &port(1, 2)));
        Gates { input, output, ..Gates::default() }
    }

    #[test]
    fn what_is_plain_is_answered_and_noted() {
        let (gates, schema) = (gates(), Cell::new(0));
        let direct = Direct::new(&gates, &schema, 0, true);
        let message = envelope("a");
        assert!(matches!(direct.take(NAMES[0]), Some(None)));
        assert!(direct.drained() && !direct.progressed());
        let single = Arc::clone(&gates.input.as_ref().unwrap().single);
        assert!(single.try_offer(message.clone()).is_ok());
        assert_eq!(direct.is_ended(NAMES[0]), Some(false));
        assert!(matches!(direct.take(NAMES[0]), Some(Some(_))));
        assert!(direct.took() && !direct.drained());
        single.end();
        assert_eq!(direct.is_ended(NAMES[0]), Some(true));
        direct.learn(&message);
        assert!(direct.has_room(NAMES[1]) && direct.push(NAMES[1], message).is_ok());
        assert_eq!((direct.take_untold(), direct.take_untold()), (Some(2), None));
        assert_eq!((gates.rows_in.into_inner(), gates.rows_out.into_inner()), (2, 2));
    }

    #[test]
    fn what_is_not_plain_is_left_to_the_host() {
        let (gates, schema) = (gates(), Cell::new(0));
        let direct = Direct::new(&gates, &schema, 0, true);
        let (message, other) = (envelope("a"), envelope("b"));
        assert!(direct.push(NAMES[1], message.clone()).is_err(), "nobody has looked at its columns");
        direct.learn(&message);
        assert!(direct.push(NAMES[1], other).is_err(), "its columns are others");
        assert!(
            direct.push(NAMES[0], message.clone()).is_err() && !direct.has_room(NAMES[0]),
            "no such output"
        );
        assert_eq!(direct.tell_later(7), None);
        assert!(direct.push(NAMES[1], message.clone()).is_err(), "another box is to be told first");
        assert_eq!(direct.tell_later(2), Some(7));
        assert!(
            direct.push(NAMES[1], message.clone()).is_ok() && direct.push(NAMES[1], message.clone()).is_ok()
        );
        assert!(direct.push(NAMES[1], message.clone()).is_err(), "the edge is full");
        gates.closing.store(true, Ordering::Relaxed);
        assert!(!direct.has_room(NAMES[1]), "somebody may have closed it");
        direct.leave();
        assert!(direct.take(NAMES[0]).is_none() && direct.is_ended(NAMES[0]).is_none());
    }

    #[test]
    fn a_port_with_copies_or_several_edges_has_no_gate() {
        let copies = PortEdges::new([edge(0, [1, 2])]);
        assert!(
            Gate::new(NAMES[0], &copies).is_none() && Gate::new(NAMES[0], &PortEdges::default()).is_none()
        );
        let several = PortEdges::new([edge(0, [1]), edge(2, [1])]);
        assert!(Gate::new(NAMES[0], &several).is_none());
    }
}
