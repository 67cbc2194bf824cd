//! The edge: a bounded FIFO from an output port to an input port.
//!
//! Invariants: it holds at most `envelopes_max` envelopes and `bytes_max` bytes, except that an empty edge accepts any
//! one envelope; a side edge has no bounds. Its end and its closure are states, not envelopes. Between one producer and
//! one consumer it needs no lock (`edge/single.rs`); with copies on either side it is shared (`edge/shared.rs`).

mod ledger;
pub(crate) mod queue;
mod state;
mod shared;
mod single;
mod port_list;

use std::sync::Arc;

pub(crate) use self::ledger::Ledger;
pub(crate) use self::port_list::{PortEdges, PortList};
use self::shared::Shared;
pub(crate) use self::single::Single;
pub(crate) use self::state::EdgeShape;
pub use self::state::EdgeState;
use crate::envelope::Envelope;
use crate::sync::{AtomicUsize, Counter, Ordering};

/// The result of an offer.
pub(crate) enum Offered {
    /// The edge holds it; the caller notifies a consumer.
    Taken,
    /// There is no room: the producers will be notified of room.
    Full(Envelope),
    /// All consumers have closed the edge. The caller drops the envelope, holding no lock: columns may run foreign code
    /// then.
    Closed(Envelope),
}

/// The result of a consumer's closing of an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Closing {
    /// Envelopes wait for the other consumers, which may not have been notified of them.
    Left,
    /// Other consumers still take from it, and nothing waits.
    Others,
    /// All consumers have closed it: the producers must be notified; `freed` as in [`Popped`].
    Closed { freed: bool },
}

/// Whether the producer of an edge between two boxes waits for room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RoomWanted {
    No,
    /// There is room: the producer must be notified.
    Now,
    /// There is no room yet.
    Later,
}

/// An envelope taken from an edge.
pub(crate) struct Popped {
    pub(crate) envelope: Envelope,
    /// Its place in the edge's order, from 0.
    pub(crate) sequence: u64,
    /// Whether producers wait for this room. On an edge between two boxes the end of the firing notifies the producer.
    pub(crate) wanted: bool,
    /// Whether the request's budget has room again.
    pub(crate) freed: bool,
    /// Whether more envelopes wait for other copies.
    pub(crate) more: bool,
    /// The node that its data are on, if the edge has a lane for each node.
    pub(crate) near: Option<usize>,
}

/// An edge of a model.
pub(crate) struct Edge {
    /// Its place in the model, and in the plan.
    pub(crate) idx: usize,
    pub(crate) plan_edge: usize,
    /// The boxes that take from it (the copies of one box), by their place in the model.
    pub(crate) consumers: Arc<[usize]>,
    /// The boxes that put on it.
    pub(crate) producers: Arc<[usize]>,
    /// The consumer of an edge between two boxes.
    consumer: usize,
    crossing: Crossing,
    /// The consumer to try first for the next envelope.
    turn: AtomicUsize,
    form: Form,
}

enum Form {
    /// Behind an `Arc`, because the two boxes keep a pointer to it.
    Single(Arc<Single>),
    Shared(Shared),
}

/// Bytes that go from node to node on an edge.
#[derive(Default)]
pub(crate) struct Crossing {
    /// The node on which the producer makes its envelopes: the node of its last offer.
    maker: AtomicUsize,
    /// Bytes that the consumer took on another node than the producer made them on.
    bytes: Counter,
}

impl Crossing {
    #[inline]
    pub(crate) fn made_on(&self, node: usize) {
        // Loaded first: a store would take the cache line from the consumer each time.
        if self.maker.load(Ordering::Relaxed) != node {
            self.maker.store(node, Ordering::Relaxed);
        }
    }

    #[inline]
    pub(crate) fn count(&self, node: usize, near: Option<usize>, envelope: &Envelope) {
        if near.unwrap_or_else(|| self.maker.load(Ordering::Relaxed)) != node {
            self.bytes.fetch_add(envelope.bytes() as u64, Ordering::Relaxed);
        }
    }
}

impl Edge {
    /// An edge of a shape. With copies on either side it may have a lane for each node.
    pub(crate) fn new(idx: usize, shape: &EdgeShape) -> Self {
        let EdgeShape { plan_edge, producers, consumers, lanes, envelopes_max, bytes_max } = shape;
        let form = match (&producers[..], &consumers[..]) {
            ([_], [_]) => Form::Single(Arc::new(Single::new(*envelopes_max, *bytes_max))),
            _ => Form::Shared(Shared::new(
                producers.len(),
                consumers.to_vec(),
                *lanes,
                *envelopes_max,
                *bytes_max,
            )),
        };
        Self {
            idx,
            plan_edge: *plan_edge,
            consumer: consumers.first().copied().unwrap_or(0),
            consumers: Arc::clone(consumers),
            producers: Arc::clone(producers),
            crossing: Crossing::default(),
            turn: AtomicUsize::new(0),
            form,
        }
    }

    /// The next envelope offered is made on this node.
    #[inline]
    pub(crate) fn made_on(&self, node: usize) {
        self.crossing().made_on(node);
    }

    #[inline]
    fn crossing(&self) -> &Crossing {
        match &self.form {
            Form::Single(single) => single.crossing(),
            Form::Shared(_) => &self.crossing,
        }
    }

    /// Counts an envelope that was taken on a node. Its data are `near`, or on the node that made it. If the producer
    /// has changed nodes meanwhile, its new node counts.
    #[inline]
    pub(crate) fn count_crossing(&self, node: usize, near: Option<usize>, envelope: &Envelope) {
        self.crossing().count(node, near, envelope);
    }

    /// The consumer of an edge between two boxes.
    #[inline]
    pub(crate) fn only_consumer(&self) -> Option<usize> {
        matches!(self.form, Form::Single(_)).then_some(self.consumer)
    }

    /// The edge between two boxes, and its consumer.
    #[inline]
    pub(crate) fn single(&self) -> Option<(&Arc<Single>, usize)> {
        match &self.form {
            Form::Single(single) => Some((single, self.consumer)),
            Form::Shared(_) => None,
        }
    }

    /// Offers an envelope, whose data may be on a node, and leaves no mark when there is no room.
    ///
    /// # Safety
    /// The caller is in a firing of a producer of the edge.
    #[expect(unsafe_code, reason = "an edge without locks trusts its two boxes")]
    #[inline]
    pub(crate) unsafe fn try_offer(
        &self,
        envelope: Envelope,
        near: Option<usize>,
        ledger: &Ledger,
    ) -> Offered {
        match &self.form {
            // SAFETY: the caller's contract; it has one producer.
            Form::Single(single) => unsafe { single.try_offer_charged(envelope, ledger) },
            Form::Shared(shared) => shared.offer(envelope, near, ledger, false),
        }
    }

    /// Offers an envelope, whose data may be on a node; the ledger is the request's budget. Without room, the edge
    /// marks that its producers wait, and on an edge between two boxes it calls `want_room` with the consumer.
    ///
    /// # Safety
    /// The caller is in a firing of a producer of the edge.
    #[expect(unsafe_code, reason = "an edge without locks trusts its two boxes")]
    #[inline]
    pub(crate) unsafe fn offer(
        &self,
        envelope: Envelope,
        near: Option<usize>,
        ledger: &Ledger,
        want_room: impl FnOnce(usize),
    ) -> Offered {
        match &self.form {
            // SAFETY: the caller's contract; it has one producer.
            Form::Single(single) => unsafe { single.offer(envelope, ledger, || want_room(self.consumer)) },
            Form::Shared(shared) => shared.offer(envelope, near, ledger, true),
        }
    }

    /// Takes the oldest envelope; a shared edge gives the oldest of those nearest to the consumer's node.
    ///
    /// # Safety
    /// The caller is in a firing of a consumer of the edge.
    #[expect(unsafe_code, reason = "an edge without locks trusts its two boxes")]
    #[inline]
    pub(crate) unsafe fn pop(&self, node: usize, ledger: &Ledger) -> Option<Popped> {
        match &self.form {
            // SAFETY: the caller's contract; it has one consumer.
            Form::Single(single) => unsafe { single.pop(ledger) },
            Form::Shared(shared) => shared.pop(node, ledger),
        }
    }

    /// Whether an envelope waits.
    #[inline]
    pub(crate) fn has_waiting(&self) -> bool {
        match &self.form {
            Form::Single(single) => single.has_waiting(),
            Form::Shared(shared) => shared.has_waiting(),
        }
    }

    /// Whether nothing waits and nothing will come.
    #[inline]
    pub(crate) fn is_ended(&self) -> bool {
        match &self.form {
            Form::Single(single) => single.is_ended(),
            Form::Shared(shared) => shared.is_ended(),
        }
    }

    /// Whether all producers have ended, with or without envelopes still waiting.
    #[inline]
    pub(crate) fn has_end(&self) -> bool {
        match &self.form {
            Form::Single(single) => single.has_end(),
            Form::Shared(shared) => shared.has_end(),
        }
    }

    /// Whether all consumers have closed it.
    #[inline]
    pub(crate) fn is_closed(&self) -> bool {
        match &self.form {
            Form::Single(single) => single.is_closed(),
            Form::Shared(shared) => shared.is_closed(),
        }
    }

    /// Whether a producer waits for room.
    pub(crate) fn is_wanted(&self) -> bool {
        match &self.form {
            Form::Single(single) => single.is_wanted(),
            Form::Shared(shared) => shared.state().wanted,
        }
    }

    /// Whether its one producer waits for room and has not been notified yet: an offer would change nothing.
    #[inline]
    pub(crate) fn is_waited_for(&self) -> bool {
        match &self.form {
            Form::Single(single) => single.is_wanted() && !single.is_closed(),
            Form::Shared(_) => false,
        }
    }

    /// Takes the mark that the only producer waits for room. A shared edge reports its mark with each envelope
    /// ([`Popped`]).
    pub(crate) fn take_wanted(&self) -> bool {
        match &self.form {
            Form::Single(single) => single.take_wanted(),
            Form::Shared(_) => false,
        }
    }

    /// Takes that mark within a firing of the only consumer, if there is room.
    pub(crate) fn room_wanted(&self) -> RoomWanted {
        match &self.form {
            Form::Single(single) if !single.is_wanted() => RoomWanted::No,
            Form::Single(single) if !single.has_room() => RoomWanted::Later,
            Form::Single(single) if single.take_wanted() => RoomWanted::Now,
            _ => RoomWanted::No,
        }
    }

    /// One producer has ended. True when it was the last: the consumers must be notified.
    pub(crate) fn end(&self) -> bool {
        match &self.form {
            Form::Single(single) => {
                single.end();
                true
            }
            Form::Shared(shared) => shared.end(),
        }
    }

    /// One consumer closes it.
    ///
    /// # Safety
    /// The caller is in a firing of this consumer.
    #[expect(unsafe_code, reason = "an edge without locks trusts its two boxes")]
    pub(crate) unsafe fn close(&self, consumer: usize, ledger: &Ledger) -> Closing {
        match &self.form {
            // SAFETY: the caller's contract; it has one consumer.
            Form::Single(single) => Closing::Closed { freed: unsafe { single.close(ledger) } },
            Form::Shared(shared) => shared.close(consumer, ledger),
        }
    }

    /// Drops the envelopes that the only producer pushed while the only consumer closed the edge; both boxes may call
    /// it. True when the request's budget has room again. A shared edge drops them under its lock.
    pub(crate) fn reap(&self, ledger: &Ledger) -> bool {
        match &self.form {
            Form::Single(single) => single.reap(ledger),
            Form::Shared(_) => false,
        }
    }

    /// The first consumer that has not closed it and fits, else any that has not closed it. The search begins at each
    /// consumer in turn, or at the first copy of the node `near.0` of `near.1` nodes. For edges with copies.
    pub(crate) fn find_open(
        &self,
        near: Option<(usize, usize)>,
        fits: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        match &self.form {
            Form::Single(_) => self.consumers.first().copied(),
            Form::Shared(shared) => {
                let first = match near {
                    Some((node, nodes)) => node * self.consumers.len() / nodes,
                    None => self.turn.fetch_add(1, Ordering::Relaxed),
                };
                shared.find_open(first, &fits).or_else(|| shared.find_open(first, |_| true))
            }
        }
    }

    /// Drops the envelopes that wait.
    ///
    /// # Safety
    /// The request is over: none of its boxes is fired any more, and one thread clears its edges.
    #[expect(unsafe_code, reason = "an edge without locks trusts its two boxes")]
    pub(crate) unsafe fn clear(&self, ledger: &Ledger) {
        match &self.form {
            Form::Single(single) => {
                // SAFETY: the caller's contract: the consumer takes nothing any more.
                unsafe { single.empty(ledger) };
            }
            Form::Shared(shared) => shared.clear(ledger),
        }
    }

    /// Doubles the bound that is reached, to end a stall.
    pub(crate) fn grow(&self) {
        match &self.form {
            Form::Single(single) => single.grow(),
            Form::Shared(shared) => shared.grow(),
        }
    }

    /// A snapshot of the edge.
    pub(crate) fn state(&self) -> EdgeState {
        let state = match &self.form {
            Form::Single(single) => single.state(),
            Form::Shared(shared) => shared.state(),
        };
        EdgeState { bytes_crossed: self.crossing().bytes.load(Ordering::Relaxed), ..state }
    }
}
