//! The ports of a firing in the general case: several edges, copies, budgets, closed inputs, orders, full edges.

use std::sync::Arc;

use super::super::{BoxError, Pushed};
use super::{Notice, Ports, Staged, address_of};
use crate::edge::{Closing, Edge, Ledger, Offered, PortEdges};
use crate::envelope::Envelope;
use crate::sync::{Ordering, add};

/// Envelopes that a merge takes from one edge before it tries the next. Taking one from each would make room for one
/// envelope at each producer, and each producer would be fired for a single envelope.
const MERGE_RUN_MAX: usize = 8;

impl Ports<'_> {
    /// As [`super::super::Context::push_near`], for envelopes of any case.
    #[inline(never)]
    pub(crate) fn push_to_all(
        &mut self,
        output: usize,
        envelope: Envelope,
        near: Option<usize>,
    ) -> Result<Pushed, BoxError> {
        let at = self.at;
        let edges = &at.outputs[output];
        if edges.is_empty() {
            return Ok(Pushed::Closed);
        }
        let known = self.state.schemas[output].as_ref();
        if !known.is_some_and(|schema| Arc::ptr_eq(schema, envelope.schema())) {
            self.learn_schema(output, &envelope)?;
        }
        if !self.has_room(output) {
            return if self.is_unwanted() { Ok(Pushed::Closed) } else { Err(self.no_room(output)) };
        }
        self.firing.made += 1;
        add(&at.rows_out, envelope.rows() as u64);
        if at.is_ordered {
            self.state.results.extend(edges.iter().map(|edge| (edge.idx, envelope.clone())));
            return Ok(Pushed::Sent);
        }
        let sent = match edges.only() {
            Some(only) => self.send(only, envelope, near),
            None => edges.iter().fold(false, |sent, edge| self.send(edge, envelope.clone(), near) | sent),
        };
        Ok(if sent { Pushed::Sent } else { Pushed::Closed })
    }

    /// Puts an envelope on an edge, or stages it. False when the edge is closed.
    #[expect(unsafe_code, reason = "an edge without locks trusts its two boxes")]
    fn send(&mut self, edge: &Edge, envelope: Envelope, near: Option<usize>) -> bool {
        edge.made_on(self.node);
        // SAFETY: the ports live within a firing of a producer of the edge.
        match unsafe { edge.try_offer(envelope, near, self.ledger) } {
            Offered::Taken => {
                match edge.only_consumer() {
                    Some(consumer) => self.notify_later(consumer),
                    None => self.note(Notice::OneConsumer(edge.idx, near)),
                }
                true
            }
            Offered::Full(envelope) => {
                self.firing.is_plain = false;
                self.state.staged.push_back(Staged { edge: edge.idx, envelope, near });
                true
            }
            Offered::Closed(_) => false,
        }
    }

    /// Checks the columns of an envelope against an output, and remembers them.
    #[cold]
    fn learn_schema(&mut self, output: usize, envelope: &Envelope) -> Result<(), BoxError> {
        self.at.shape.descriptors[output].admits(envelope.schema()).map_err(|reason| {
            let name = &self.at.shape.spec.outputs[output].name;
            BoxError::new(format!("an envelope does not fit the output `{name}`: {reason}"))
        })?;
        self.state.schemas[output] = Some(Arc::clone(envelope.schema()));
        if output == 0 {
            // The state keeps the schema, so no other schema can have its address.
            self.firing.schema = address_of(envelope);
        }
        Ok(())
    }

    #[cold]
    pub(super) fn has_room_beside_staged(&self, output: usize) -> bool {
        if self.at.closing.load(Ordering::Relaxed) && self.is_unwanted() {
            return false;
        }
        let staged = &self.state.staged;
        staged.is_empty()
            || !self.at.outputs[output].any(|edge| staged.iter().any(|one| one.edge == edge.idx))
    }

    /// Whether all consumers have closed the box's outputs: a firing that continues while there is room would never
    /// end.
    #[cold]
    fn is_unwanted(&self) -> bool {
        self.at.outputs.iter().flat_map(PortEdges::iter).all(Edge::is_closed)
    }

    #[cold]
    fn no_room(&self, output: usize) -> BoxError {
        let name = &self.at.shape.spec.outputs[output].name;
        BoxError::new(format!("the output `{name}` has no room: ask `has_room` before a second push"))
    }

    /// As [`Ports::take`], in any case.
    #[inline(never)]
    pub(super) fn take_any(&mut self, input: usize) -> Option<Envelope> {
        if self.state.closed_inputs[input] || self.state.sequence.is_some() {
            return None;
        }
        let at = self.at;
        let edges = &at.inputs[input];
        match edges.only() {
            Some(only) => self.take_from(only),
            None => self.take_in_turn(edges),
        }
    }

    fn take_in_turn(&mut self, edges: &PortEdges) -> Option<Envelope> {
        for (place, edge) in edges.in_turn(self.state.merge_turn) {
            if let Some(envelope) = self.take_from(edge) {
                let state = &mut *self.state;
                let run = if place == state.merge_turn { state.merge_run + 1 } else { 1 };
                let is_over = run >= MERGE_RUN_MAX;
                state.merge_turn = if is_over { place + 1 } else { place };
                state.merge_run = if is_over { 0 } else { run };
                return Some(envelope);
            }
        }
        None
    }

    #[expect(unsafe_code, reason = "an edge without locks trusts its two boxes")]
    fn take_from(&mut self, edge: &Edge) -> Option<Envelope> {
        // SAFETY: the ports live within a firing of a consumer of the edge.
        let popped = unsafe { edge.pop(self.node, self.ledger) };
        let is_single = edge.only_consumer().is_some();
        if is_single {
            self.firing.drained = popped.is_none();
        }
        let popped = popped?;
        edge.count_crossing(self.node, popped.near, &popped.envelope);
        self.firing.took += 1;
        add(&self.at.rows_in, popped.envelope.rows() as u64);
        if self.at.is_ordered && !is_single {
            self.state.sequence = Some(popped.sequence);
        }
        if popped.wanted {
            self.note(Notice::Producers(edge.idx));
        }
        if popped.freed {
            self.note(Notice::Budget);
        }
        if popped.more {
            // The data of the other envelopes may be on any node: a copy tries the lane of its own node first.
            self.note(Notice::OneConsumer(edge.idx, None));
        }
        Some(popped.envelope)
    }

    /// As [`super::super::Context::close`].
    #[expect(unsafe_code, reason = "an edge without locks trusts its two boxes")]
    pub(crate) fn close(&mut self, input: usize) {
        if std::mem::replace(&mut self.state.closed_inputs[input], true) {
            return;
        }
        (self.firing.is_plain, self.firing.drained) = (false, false);
        self.firing.made += 1;
        self.state.has_closed = true;
        if let Some(side) = self.state.sides.get_mut(input) {
            side.clear();
        }
        let at = self.at;
        for edge in at.inputs[input].iter() {
            // SAFETY: the ports live within a firing of this consumer.
            if let Some(notice) = unsafe { close_edge(edge, at.place, self.ledger) } {
                self.note(notice);
            }
        }
    }
}

/// One consumer closes an edge. Returns the boxes to notify.
///
/// # Safety
/// The caller is in a firing of this consumer.
#[expect(unsafe_code, reason = "an edge without locks trusts its two boxes")]
pub(crate) unsafe fn close_edge(edge: &Edge, consumer: usize, ledger: &Ledger) -> Option<Notice> {
    // SAFETY: the caller's contract.
    match unsafe { edge.close(consumer, ledger) } {
        // This copy may be the only one that was notified of the waiting envelopes.
        Closing::Left => Some(Notice::OneConsumer(edge.idx, None)),
        Closing::Others => None,
        Closing::Closed { freed } => Some(Notice::Closed { edge: edge.idx, freed }),
    }
}
