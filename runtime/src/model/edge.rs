//! The edge: a bounded FIFO from an output port to an input port.
//!
//! Invariants: it holds at most `envelopes_max` envelopes and `bytes_max` bytes, except that an empty edge accepts any
//! one envelope; a side edge has no bounds. Its end and its closure are states, not envelopes. With copies on either
//! side it is shared: it has ended when all its producers have, and is closed when all its consumers have closed it.

use std::collections::VecDeque;

use super::ledger::Ledger;
use crate::envelope::Envelope;
use crate::request::EdgeState;
use crate::sync::{AtomicUsize, Mutex, Ordering};

/// What became of an envelope offered to an edge.
pub(crate) enum Offered {
    /// It is in; a consumer must be told.
    Taken,
    /// There is no room: the producers will be told when there is.
    Full(Envelope),
    /// All consumers have closed the edge.
    Closed,
}

/// What a consumer's closing of an edge leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Closing {
    /// Envelopes wait for the other consumers, who may not have been told of them.
    Left,
    /// Others still take from it, and nothing waits.
    Others,
    /// Nobody takes from it any more: the producers must be told; `freed` as in [`Popped`].
    Closed { freed: bool },
}

/// An envelope taken from an edge.
pub(crate) struct Popped {
    pub(crate) envelope: Envelope,
    /// Its place in the edge's order, from 0.
    pub(crate) sequence: u64,
    /// Whether producers wait for the room that is there now.
    pub(crate) wanted: bool,
    /// Whether the request's budget has room again.
    pub(crate) freed: bool,
    /// Whether more envelopes wait.
    pub(crate) more: bool,
}

struct Inner {
    queue: VecDeque<Envelope>,
    state: EdgeState,
    producers_open: usize,
    /// The consumers that have not closed it.
    consumers_open: Vec<usize>,
    sequence: u64,
}

/// An edge of a model.
pub(crate) struct Edge {
    /// Its place in the plan.
    pub(crate) plan_edge: usize,
    /// The boxes that take from it (the copies of one box), by their place in the model.
    pub(crate) consumers: Vec<usize>,
    /// The boxes that put on it.
    pub(crate) producers: Vec<usize>,
    inner: Mutex<Inner>,
    /// Follows the queue's length, so that an idle look needs no lock.
    waiting: AtomicUsize,
    /// Which consumer to look at first for the next envelope.
    pub(crate) turn: AtomicUsize,
}

impl Edge {
    pub(crate) fn new(
        plan_edge: usize,
        producers: Vec<usize>,
        consumers: Vec<usize>,
        envelopes_max: usize,
        bytes_max: usize,
    ) -> Self {
        let state = EdgeState { envelopes_max, bytes_max, ..EdgeState::default() };
        let inner = Inner {
            queue: VecDeque::new(),
            state,
            producers_open: producers.len(),
            consumers_open: consumers.clone(),
            sequence: 0,
        };
        Self {
            plan_edge,
            consumers,
            producers,
            inner: Mutex::new(inner),
            waiting: AtomicUsize::new(0),
            turn: AtomicUsize::new(0),
        }
    }

    /// Offers an envelope; the ledger is the request's budget.
    pub(crate) fn offer(&self, envelope: Envelope, ledger: &Ledger) -> Offered {
        let mut inner = self.inner.lock();
        if inner.state.closed {
            return Offered::Closed;
        }
        let bytes = envelope.bytes();
        let fits = inner.state.envelopes < inner.state.envelopes_max
            && inner.state.bytes.saturating_add(bytes) <= inner.state.bytes_max;
        if !(inner.queue.is_empty() || fits && ledger.has_room()) {
            inner.state.wanted = true;
            inner.state.refusals += 1;
            return Offered::Full(envelope);
        }
        ledger.charge(&envelope);
        let state = &mut inner.state;
        state.envelopes += 1;
        state.bytes += bytes;
        state.envelopes_high = state.envelopes_high.max(state.envelopes);
        state.bytes_high = state.bytes_high.max(state.bytes);
        state.envelopes_total += 1;
        state.rows_total += envelope.rows() as u64;
        inner.queue.push_back(envelope);
        self.waiting.store(inner.queue.len(), Ordering::Release);
        Offered::Taken
    }

    /// Takes the oldest envelope.
    pub(crate) fn pop(&self, ledger: &Ledger) -> Option<Popped> {
        if self.waiting.load(Ordering::Acquire) == 0 {
            return None;
        }
        let mut inner = self.inner.lock();
        let envelope = inner.queue.pop_front()?;
        inner.state.envelopes -= 1;
        inner.state.bytes -= envelope.bytes();
        let freed = ledger.release(&envelope);
        let sequence = inner.sequence;
        inner.sequence += 1;
        self.waiting.store(inner.queue.len(), Ordering::Release);
        let wanted = std::mem::take(&mut inner.state.wanted);
        Some(Popped { envelope, sequence, wanted, freed, more: !inner.queue.is_empty() })
    }

    /// Whether an envelope waits.
    pub(crate) fn has_waiting(&self) -> bool {
        self.waiting.load(Ordering::Acquire) > 0
    }

    /// Whether nothing waits and nothing will come.
    pub(crate) fn is_ended(&self) -> bool {
        let inner = self.inner.lock();
        inner.state.closed || (inner.state.ended && inner.queue.is_empty())
    }

    /// Whether all producers have ended, with or without envelopes still waiting.
    pub(crate) fn has_end(&self) -> bool {
        self.inner.lock().state.ended
    }

    /// Whether all consumers have closed it.
    pub(crate) fn is_closed(&self) -> bool {
        self.inner.lock().state.closed
    }

    /// One producer has ended. True when it was the last: the consumers must be told.
    pub(crate) fn end(&self) -> bool {
        let mut inner = self.inner.lock();
        inner.producers_open -= 1;
        inner.state.ended = inner.producers_open == 0;
        inner.state.ended
    }

    /// One consumer has closed it. Under the lock of `offer`: an envelope that came before waits and is seen here,
    /// the producer of a later one sees that this consumer has gone.
    pub(crate) fn close(&self, consumer: usize, ledger: &Ledger) -> Closing {
        let (dropped, freed) = {
            let mut inner = self.inner.lock();
            inner.consumers_open.retain(|other| *other != consumer);
            if !inner.consumers_open.is_empty() {
                return if inner.queue.is_empty() { Closing::Others } else { Closing::Left };
            }
            inner.state.closed = true;
            self.empty(&mut inner, ledger)
        };
        // Freed outside the lock: dropping columns may run foreign code.
        drop(dropped);
        Closing::Closed { freed }
    }

    /// The first consumer, from the `nth` on in turn, that has not closed it and fits.
    pub(crate) fn find_open(&self, nth: usize, fits: impl Fn(usize) -> bool) -> Option<usize> {
        let inner = self.inner.lock();
        let (before, from) = inner.consumers_open.split_at(nth % inner.consumers_open.len().max(1));
        from.iter().chain(before).copied().find(|consumer| fits(*consumer))
    }

    /// Drops what waits; the request is over.
    pub(crate) fn clear(&self, ledger: &Ledger) {
        let dropped = self.empty(&mut self.inner.lock(), ledger);
        drop(dropped);
    }

    /// Takes all that waits; the second is whether the request's budget has room again.
    fn empty(&self, inner: &mut Inner, ledger: &Ledger) -> (VecDeque<Envelope>, bool) {
        let mut freed = false;
        for envelope in &inner.queue {
            freed |= ledger.release(envelope);
        }
        inner.state.envelopes = 0;
        inner.state.bytes = 0;
        inner.state.wanted = false;
        self.waiting.store(0, Ordering::Release);
        (std::mem::take(&mut inner.queue), freed)
    }

    /// Doubles the bound that is reached, to end a stall.
    pub(crate) fn grow(&self) {
        let state = &mut self.inner.lock().state;
        if state.envelopes >= state.envelopes_max {
            state.envelopes_max = state.envelopes_max.saturating_mul(2);
        } else {
            state.bytes_max = state.bytes_max.saturating_mul(2);
        }
        state.wanted = false;
        state.grown += 1;
    }

    /// What it holds now.
    pub(crate) fn state(&self) -> EdgeState {
        self.inner.lock().state
    }
}
