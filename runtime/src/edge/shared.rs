//! An edge with copies on either side, under one lock.
//!
//! Invariants: it has ended when all its producers have, and is closed when all its consumers have closed it; a closing
//! consumer sees each envelope that came before. Envelopes whose data are on a node wait in that node's lane, where its
//! consumers look first; no consumer leaves without an envelope while any waits. If order matters there is one lane.

use std::collections::VecDeque;

use super::{Closing, EdgeState, Ledger, Offered, Popped};
use crate::envelope::Envelope;
use crate::sync::{AtomicUsize, Mutex, Ordering};

struct Inner {
    /// One for each node's data; the last is for all other envelopes.
    lanes: Box<[VecDeque<Envelope>]>,
    state: EdgeState,
    producers_open: usize,
    /// The consumers that have not closed it.
    consumers_open: Vec<usize>,
    sequence: u64,
}

/// See the module.
pub(super) struct Shared {
    inner: Mutex<Inner>,
    /// Follows the queue's length, so that an idle look needs no lock.
    waiting: AtomicUsize,
}

impl Inner {
    /// The lane of an envelope whose data are on this node.
    fn lane(&self, near: Option<usize>) -> usize {
        let others = self.lanes.len() - 1;
        near.map_or(others, |node| node.min(others))
    }

    /// The oldest envelope of the first lane that holds one: the node's own, the last, and then the others in turn.
    fn take(&mut self, node: usize) -> Option<(usize, Envelope)> {
        let (own, others) = (self.lane(Some(node)), self.lanes.len() - 1);
        let after = (own + 1..others).chain(0..own);
        let mut lanes = [own, others].into_iter().chain(after);
        lanes.find_map(|lane| Some((lane, self.lanes[lane].pop_front()?)))
    }
}

impl Shared {
    /// An edge with a lane for each of `nodes` nodes, and one more.
    pub(super) fn new(
        producers: usize,
        consumers: Vec<usize>,
        nodes: usize,
        envelopes_max: usize,
        bytes_max: usize,
    ) -> Self {
        let inner = Inner {
            lanes: (0..=nodes).map(|_| VecDeque::new()).collect(),
            state: EdgeState { envelopes_max, bytes_max, ..EdgeState::default() },
            producers_open: producers,
            consumers_open: consumers,
            sequence: 0,
        };
        Self { inner: Mutex::new(inner), waiting: AtomicUsize::new(0) }
    }

    /// Offers an envelope, whose data may be on a node; the ledger is the request's budget. Without room, `waits` marks
    /// that a producer waits for it.
    pub(super) fn offer(
        &self,
        envelope: Envelope,
        near: Option<usize>,
        ledger: &Ledger,
        waits: bool,
    ) -> Offered {
        let mut inner = self.inner.lock();
        if inner.state.closed {
            return Offered::Closed(envelope);
        }
        let bytes = envelope.bytes();
        let fits = inner.state.envelopes < inner.state.envelopes_max
            && inner.state.bytes.saturating_add(bytes) <= inner.state.bytes_max;
        if !(inner.state.envelopes == 0 || fits && ledger.has_room()) {
            inner.state.wanted |= waits;
            inner.state.refusals += u64::from(waits);
            return Offered::Full(envelope);
        }
        debug_assert!(!inner.state.ended, "an envelope is put on an edge whose producers have all ended");
        ledger.charge(&envelope);
        let state = &mut inner.state;
        state.envelopes += 1;
        state.bytes += bytes;
        state.envelopes_high = state.envelopes_high.max(state.envelopes);
        state.bytes_high = state.bytes_high.max(state.bytes);
        state.envelopes_total += 1;
        state.rows_total += envelope.rows() as u64;
        state.bytes_total += bytes as u64;
        let waiting = state.envelopes;
        let lane = inner.lane(near);
        inner.lanes[lane].push_back(envelope);
        self.waiting.store(waiting, Ordering::Release);
        Offered::Taken
    }

    /// Takes the oldest envelope that is nearest to a node.
    pub(super) fn pop(&self, node: usize, ledger: &Ledger) -> Option<Popped> {
        if self.waiting.load(Ordering::Acquire) == 0 {
            return None;
        }
        let mut inner = self.inner.lock();
        let (lane, envelope) = inner.take(node)?;
        debug_assert!(
            inner.state.envelopes > 0 && inner.state.bytes >= envelope.bytes(),
            "an edge gives out more than it counts"
        );
        inner.state.envelopes -= 1;
        inner.state.bytes -= envelope.bytes();
        let freed = ledger.release(&envelope);
        let sequence = inner.sequence;
        inner.sequence += 1;
        let left = inner.state.envelopes;
        self.waiting.store(left, Ordering::Release);
        let near = (lane + 1 < inner.lanes.len()).then_some(lane);
        let wanted = std::mem::take(&mut inner.state.wanted);
        Some(Popped {
            envelope,
            sequence,
            wanted,
            freed,
            more: inner.consumers_open.len() > 1 && left > 0,
            near,
        })
    }

    /// Whether an envelope waits.
    pub(super) fn has_waiting(&self) -> bool {
        self.waiting.load(Ordering::Acquire) > 0
    }

    /// Whether nothing waits and nothing will come.
    pub(super) fn is_ended(&self) -> bool {
        let inner = self.inner.lock();
        inner.state.closed || (inner.state.ended && inner.state.envelopes == 0)
    }

    /// Whether all producers have ended, with or without envelopes still waiting.
    pub(super) fn has_end(&self) -> bool {
        self.inner.lock().state.ended
    }

    /// Whether all consumers have closed it.
    pub(super) fn is_closed(&self) -> bool {
        self.inner.lock().state.closed
    }

    /// One producer has ended. True when it was the last: the consumers must be notified.
    pub(super) fn end(&self) -> bool {
        let mut inner = self.inner.lock();
        debug_assert!(inner.producers_open > 0, "more producers of an edge have ended than it has");
        inner.producers_open -= 1;
        inner.state.ended = inner.producers_open == 0;
        inner.state.ended
    }

    /// One consumer has closed it. The lock of `offer` orders this: an earlier envelope waits and is seen here; the
    /// producer of a later one sees that this consumer has closed.
    pub(super) fn close(&self, consumer: usize, ledger: &Ledger) -> Closing {
        let (dropped, freed) = {
            let mut inner = self.inner.lock();
            inner.consumers_open.retain(|other| *other != consumer);
            if !inner.consumers_open.is_empty() {
                return if inner.state.envelopes == 0 { Closing::Others } else { Closing::Left };
            }
            inner.state.closed = true;
            self.empty(&mut inner, ledger)
        };
        // Freed outside the lock: dropping columns may run foreign code.
        drop(dropped);
        Closing::Closed { freed }
    }

    /// The first consumer, from the `nth` on in turn, that has not closed it and fits.
    pub(super) fn find_open(&self, nth: usize, fits: impl Fn(usize) -> bool) -> Option<usize> {
        let inner = self.inner.lock();
        let (before, from) = inner.consumers_open.split_at(nth % inner.consumers_open.len().max(1));
        from.iter().chain(before).copied().find(|consumer| fits(*consumer))
    }

    /// Drops the envelopes that wait; the request is over.
    pub(super) fn clear(&self, ledger: &Ledger) {
        let dropped = self.empty(&mut self.inner.lock(), ledger);
        drop(dropped);
    }

    /// Takes all envelopes that wait, and whether the request's budget has room again.
    fn empty(&self, inner: &mut Inner, ledger: &Ledger) -> (Vec<Envelope>, bool) {
        let mut freed = false;
        let dropped: Vec<Envelope> = inner.lanes.iter_mut().flat_map(|lane| lane.drain(..)).collect();
        debug_assert_eq!(
            dropped.len(),
            inner.state.envelopes,
            "an edge holds other envelopes than it counts"
        );
        for envelope in &dropped {
            freed |= ledger.release(envelope);
        }
        inner.state.envelopes = 0;
        inner.state.bytes = 0;
        inner.state.wanted = false;
        self.waiting.store(0, Ordering::Release);
        (dropped, freed)
    }

    /// Doubles the bound that is reached, to end a stall.
    pub(super) fn grow(&self) {
        let state = &mut self.inner.lock().state;
        if state.envelopes >= state.envelopes_max {
            state.envelopes_max = state.envelopes_max.saturating_mul(2);
        } else {
            state.bytes_max = state.bytes_max.saturating_mul(2);
        }
        state.wanted = false;
        state.grown += 1;
    }

    /// A snapshot of the edge.
    pub(super) fn state(&self) -> EdgeState {
        self.inner.lock().state
    }
}
