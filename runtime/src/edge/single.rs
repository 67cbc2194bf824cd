//! An edge between one producer and one consumer, without locks.
//!
//! Invariants: only a firing of the producer offers envelopes; only a firing of the consumer takes them and closes the
//! edge. No type can express that, so these functions are `unsafe` and each caller names the firing that it is in. Each
//! side writes its own numbers. The producer may push an envelope while the consumer closes the edge: the first of the
//! two that calls [`Single::reap`] drains it.

use super::queue::Queue;
use super::{Crossing, EdgeState, Ledger, Offered, Popped};
use crate::envelope::Envelope;
use crate::sync::{AtomicBool, AtomicUsize, Counter, Ordering, interleave};

/// See the module.
pub(crate) struct Single {
    queue: Queue<Envelope, ProducerCounts, ConsumerCounts>,
    crossing: Crossing,
    closed: AtomicBool,
    /// Whether a thread drains, or has drained, the edge after its closing.
    reaped: AtomicBool,
    ended: AtomicBool,
    /// Whether the producer has staged an envelope for it.
    wanted: AtomicBool,
    envelopes_max: AtomicUsize,
    bytes_max: AtomicUsize,
    /// Envelopes that found no room; written by the producer.
    refusals: Counter,
    grown: AtomicUsize,
}

/// The producer's numbers.
#[derive(Default)]
struct ProducerCounts {
    /// Since the beginning.
    bytes: AtomicUsize,
    bytes_high: AtomicUsize,
    envelopes_high: AtomicUsize,
    rows: Counter,
}

/// The consumer's numbers.
#[derive(Default)]
struct ConsumerCounts {
    /// The edge holds the bytes made less the bytes taken.
    bytes: AtomicUsize,
}

/// The contents of an edge as its producer sees them: the consumer may have taken some since.
#[derive(Clone, Copy)]
struct Contents {
    envelopes: usize,
    bytes: usize,
}

impl Single {
    pub(super) fn new(envelopes_max: usize, bytes_max: usize) -> Self {
        Self {
            queue: Queue::new(),
            crossing: Crossing::default(),
            closed: AtomicBool::new(false),
            reaped: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            wanted: AtomicBool::new(false),
            envelopes_max: AtomicUsize::new(envelopes_max),
            bytes_max: AtomicUsize::new(bytes_max),
            refusals: Counter::new(0),
            grown: AtomicUsize::new(0),
        }
    }

    #[inline(always)]
    pub(crate) fn crossing(&self) -> &Crossing {
        &self.crossing
    }

    /// Puts an envelope in if it finds room at once, in a request without a budget. Otherwise the envelope comes back,
    /// and the edge leaves no mark.
    ///
    /// # Safety
    /// The caller is in a firing of the only producer.
    #[expect(unsafe_code, reason = "the queue trusts its producer")]
    #[inline(always)]
    pub(crate) unsafe fn try_offer(&self, envelope: Envelope) -> Result<(), Envelope> {
        let held = self.held();
        if self.is_closed() || !self.has_place(held, &envelope) {
            return Err(envelope);
        }
        // SAFETY: the caller's contract.
        unsafe { self.put_uncharged(envelope, held) };
        Ok(())
    }

    /// Puts an envelope in if it finds room at once. Otherwise the envelope comes back, and the edge leaves no mark.
    ///
    /// # Safety
    /// The caller is in a firing of the only producer.
    #[expect(unsafe_code, reason = "the queue trusts its producer")]
    #[inline]
    pub(super) unsafe fn try_offer_charged(&self, envelope: Envelope, ledger: &Ledger) -> Offered {
        if self.is_closed() {
            return Offered::Closed(envelope);
        }
        let held = self.held();
        if !self.fits(held, &envelope, ledger) {
            return Offered::Full(envelope);
        }
        // SAFETY: the caller's contract.
        unsafe { self.put(envelope, held, ledger) };
        Offered::Taken
    }

    /// As [`super::Edge::offer`].
    ///
    /// # Safety
    /// The caller is in a firing of the only producer.
    #[expect(unsafe_code, reason = "the queue trusts its producer")]
    pub(super) unsafe fn offer(
        &self,
        envelope: Envelope,
        ledger: &Ledger,
        want_room: impl FnOnce(),
    ) -> Offered {
        // SAFETY: the caller's contract.
        match unsafe { self.try_offer_charged(envelope, ledger) } {
            // SAFETY: the caller's contract.
            Offered::Full(envelope) => unsafe { self.offer_again(envelope, ledger, want_room) },
            decided => decided,
        }
    }

    /// As [`Single::offer`] for an envelope that has found no room.
    ///
    /// # Safety
    /// The caller is in a firing of the only producer.
    #[expect(unsafe_code, reason = "the queue trusts its producer")]
    unsafe fn offer_again(&self, envelope: Envelope, ledger: &Ledger, want_room: impl FnOnce()) -> Offered {
        interleave();
        // The mark comes before the look below: a consumer that makes room after that look sees it. A mark that still
        // stands needs no second one: the consumer has yet to notify this producer.
        if !self.is_wanted() {
            self.wanted.store(true, Ordering::Relaxed);
            want_room();
        }
        let held = self.held();
        if !self.fits(held, &envelope, ledger) {
            self.refusals.store(self.refusals.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            return Offered::Full(envelope);
        }
        // SAFETY: the caller's contract.
        unsafe { self.put(envelope, held, ledger) };
        Offered::Taken
    }

    /// Puts an envelope in; `held` is what the edge held before.
    ///
    /// # Safety
    /// The caller is in a firing of the only producer.
    #[expect(unsafe_code, reason = "the queue trusts its producer")]
    #[inline]
    unsafe fn put(&self, envelope: Envelope, held: Contents, ledger: &Ledger) {
        if ledger.is_limited() {
            ledger.charge(&envelope);
        }
        // SAFETY: the caller's contract.
        unsafe { self.put_uncharged(envelope, held) };
    }

    /// Puts an envelope in that the budget does not count.
    ///
    /// # Safety
    /// The caller is in a firing of the only producer.
    #[expect(unsafe_code, reason = "the queue trusts its producer")]
    #[inline(always)]
    unsafe fn put_uncharged(&self, envelope: Envelope, held: Contents) {
        if self.wanted.load(Ordering::Relaxed) {
            self.wanted.store(false, Ordering::Relaxed);
        }
        debug_assert!(
            !self.has_end(),
            "an envelope is put on an edge whose producer has ended: it may not be taken"
        );
        let made = self.queue.producer();
        let (rows, bytes) = (envelope.rows() as u64, envelope.bytes());
        made.bytes.store(made.bytes.load(Ordering::Relaxed).wrapping_add(bytes), Ordering::Release);
        made.rows.store(made.rows.load(Ordering::Relaxed) + rows, Ordering::Relaxed);
        raise(&made.bytes_high, held.bytes.saturating_add(bytes));
        raise(&made.envelopes_high, held.envelopes + 1);
        // SAFETY: a firing of the only producer, of which one runs at a time; each sees what those before it did.
        unsafe { self.queue.push(envelope) };
    }

    /// The contents, for the producer.
    #[inline]
    fn held(&self) -> Contents {
        // The consumer may take envelopes between the two reads, so the two numbers may be of different moments.
        let envelopes = self.queue.len();
        Contents { envelopes, bytes: self.bytes() }
    }

    #[inline(always)]
    fn fits(&self, held: Contents, envelope: &Envelope, ledger: &Ledger) -> bool {
        self.has_place(held, envelope) && (held.envelopes == 0 || ledger.has_room())
    }

    /// Whether its own bounds admit an envelope.
    #[inline(always)]
    fn has_place(&self, held: Contents, envelope: &Envelope) -> bool {
        held.envelopes == 0
            || held.envelopes < self.envelopes_max.load(Ordering::Relaxed)
                && held.bytes.saturating_add(envelope.bytes()) <= self.bytes_max.load(Ordering::Relaxed)
    }

    #[inline]
    fn bytes(&self) -> usize {
        // In this order, so that the difference is never below zero.
        let taken = self.queue.consumer().bytes.load(Ordering::Acquire);
        self.queue.producer().bytes.load(Ordering::Acquire).wrapping_sub(taken)
    }

    /// Takes the oldest envelope, with its place in the order from 0. The caller releases it from the ledger.
    ///
    /// # Safety
    /// The caller is in a firing of the only consumer; or the consumer takes nothing any more (it has closed the edge, or
    /// the request has ended) and the caller alone drains the edge.
    #[expect(unsafe_code, reason = "the queue trusts its consumer")]
    #[inline(always)]
    pub(crate) unsafe fn take(&self) -> Option<(usize, Envelope)> {
        // SAFETY: the caller's contract; one firing of the consumer runs at a time, and each sees what those before it
        // did.
        let (sequence, envelope) = unsafe { self.queue.pop() }?;
        let bytes = &self.queue.consumer().bytes;
        bytes.store(bytes.load(Ordering::Relaxed).wrapping_add(envelope.bytes()), Ordering::Release);
        Some((sequence, envelope))
    }

    /// As [`super::Edge::pop`].
    ///
    /// # Safety
    /// As for [`Single::take`].
    #[expect(unsafe_code, reason = "the queue trusts its consumer")]
    pub(super) unsafe fn pop(&self, ledger: &Ledger) -> Option<Popped> {
        // SAFETY: the caller's contract.
        let (sequence, envelope) = unsafe { self.take() }?;
        let freed = ledger.release(&envelope);
        Some(Popped { envelope, sequence: sequence as u64, wanted: false, freed, more: false, near: None })
    }

    #[inline]
    pub(crate) fn has_waiting(&self) -> bool {
        self.queue.len() > 0
    }

    #[inline]
    pub(super) fn is_ended(&self) -> bool {
        // In this order: nothing comes after the end.
        self.is_closed() || self.has_end() && !self.has_waiting()
    }

    #[inline]
    pub(crate) fn has_end(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    #[inline]
    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    pub(super) fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::Acquire)
    }

    /// Whether the producer may find room. For the consumer, which alone makes room, the answer "no" is exact; after
    /// "yes" the producer may have filled it again.
    pub(super) fn has_room(&self) -> bool {
        let waiting = self.queue.len();
        waiting == 0
            || waiting < self.envelopes_max.load(Ordering::Relaxed)
                && self.bytes() <= self.bytes_max.load(Ordering::Relaxed)
    }

    /// Takes the mark that the producer waits for room.
    pub(super) fn take_wanted(&self) -> bool {
        self.is_wanted() && self.wanted.swap(false, Ordering::AcqRel)
    }

    pub(super) fn end(&self) {
        debug_assert!(!self.has_end(), "the one producer of an edge has ended twice");
        self.ended.store(true, Ordering::Release);
    }

    /// The consumer closes it and takes nothing more. True when the request's budget has room again.
    ///
    /// # Safety
    /// The caller is in a firing of the only consumer.
    #[expect(unsafe_code, reason = "the queue trusts its consumer")]
    pub(super) unsafe fn close(&self, ledger: &Ledger) -> bool {
        // SAFETY: the caller's contract.
        let freed = unsafe { self.empty(ledger) };
        interleave();
        // Release: a thread that reaps the edge takes envelopes after all that this consumer took.
        debug_assert!(!self.is_closed(), "the one consumer of an edge has closed it twice");
        self.closed.store(true, Ordering::Release);
        interleave();
        freed
    }

    /// Drops the envelopes that the producer pushed while the consumer closed the edge. True when the request's budget
    /// has room again.
    ///
    /// The producer calls it once it has seen the closing, after which it pushes nothing, and the consumer once it has
    /// seen that the producer is done. Both may call it at once, and the queue has one consumer: the first caller
    /// drains.
    #[expect(unsafe_code, reason = "the queue trusts its consumer")]
    pub(super) fn reap(&self, ledger: &Ledger) -> bool {
        // An open edge belongs to its consumer. The second caller depends on nothing of the first: each of the two sees
        // all pushed envelopes, because it pushed them itself or through the run state of the producer.
        if !self.is_closed() || self.reaped.swap(true, Ordering::AcqRel) {
            return false;
        }
        interleave();
        // SAFETY: the consumer has closed the edge, so it takes nothing any more, and one caller wins the swap.
        unsafe { self.empty(ledger) }
    }

    /// Drops the envelopes that wait. True when the request's budget has room again.
    ///
    /// # Safety
    /// As for [`Single::take`].
    #[expect(unsafe_code, reason = "the queue trusts its consumer")]
    pub(super) unsafe fn empty(&self, ledger: &Ledger) -> bool {
        let mut freed = false;
        // SAFETY: the caller's contract.
        while let Some(popped) = unsafe { self.pop(ledger) } {
            freed |= popped.freed;
        }
        freed
    }

    /// Doubles the bound that is reached; no box of the request is fired meanwhile.
    pub(super) fn grow(&self) {
        let envelopes_max = self.envelopes_max.load(Ordering::Relaxed);
        let (bound, before) = if self.queue.len() >= envelopes_max {
            (&self.envelopes_max, envelopes_max)
        } else {
            (&self.bytes_max, self.bytes_max.load(Ordering::Relaxed))
        };
        bound.store(before.saturating_mul(2), Ordering::Relaxed);
        self.wanted.store(false, Ordering::Relaxed);
        self.grown.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn state(&self) -> EdgeState {
        let made = self.queue.producer();
        let read = |number: &AtomicUsize| number.load(Ordering::Relaxed);
        EdgeState {
            envelopes: self.queue.len(),
            bytes: self.bytes(),
            envelopes_max: read(&self.envelopes_max),
            bytes_max: read(&self.bytes_max),
            envelopes_high: read(&made.envelopes_high),
            bytes_high: read(&made.bytes_high),
            envelopes_total: self.queue.made() as u64,
            rows_total: made.rows.load(Ordering::Relaxed),
            // [`Edge`](super::Edge) counts it for both forms.
            bytes_crossed: 0,
            bytes_total: read(&made.bytes) as u64,
            wanted: self.is_wanted(),
            refusals: self.refusals.load(Ordering::Relaxed),
            ended: self.has_end(),
            closed: self.is_closed(),
            grown: read(&self.grown),
        }
    }
}

/// Raises a high-water mark that one side writes.
#[inline(always)]
fn raise(mark: &AtomicUsize, value: usize) {
    if value > mark.load(Ordering::Relaxed) {
        mark.store(value, Ordering::Relaxed);
    }
}
