//! The host of one firing: what a box's context stands on.
//!
//! Invariant: it lives within one firing, whose turn it works on, so it is the only producer of the box's outputs and
//! the only consumer of its inputs.

use std::sync::Arc;

use super::firing::{Detacher, Kept, Staged};
use super::woken::{Woken, WokenBy};
use super::{BoxCell, Model};
use crate::edge::{Direct, Edge, Offered, PortEdges, Single};
use crate::envelope::Envelope;
use crate::inside::Inside;
use crate::operator::{BoxError, Cancelled, Host, Outside, Problem, Pushed};
use crate::sync::{Ordering, add};

/// Envelopes that a merge takes from one edge before it looks at the next: one from each would make room for one at each
/// producer, and all of them would be fired for one envelope each.
const MERGE_RUN_MAX: usize = 8;

/// The host of one firing.
pub(super) struct Firing<'a> {
    model: &'a Arc<Model>,
    cell: &'a BoxCell,
    cell_idx: usize,
    detacher: &'a mut dyn Detacher,
    woken: &'a mut Woken,
    kept: &'a mut Kept,
    /// What the box asks for without asking here, and what both note.
    direct: &'a Direct<'a>,
    /// Whether neighbours are to know of each envelope at once, as the box computes for long.
    is_slow: bool,
}

impl<'a> Firing<'a> {
    #[inline]
    pub(super) fn new(
        model: &'a Arc<Model>,
        (cell, cell_idx): (&'a BoxCell, usize),
        detacher: &'a mut dyn Detacher,
        woken: &'a mut Woken,
        kept: &'a mut Kept,
        (direct, is_slow): (&'a Direct<'a>, bool),
    ) -> Self {
        Self { model, cell, cell_idx, detacher, woken, kept, direct, is_slow }
    }

    #[inline(never)]
    fn take_in_turn(&mut self, edges: &PortEdges) -> Option<Envelope> {
        for (place, edge) in edges.in_turn(self.kept.merge_turn) {
            if let Some(envelope) = self.take_from(edge) {
                let kept = &mut *self.kept;
                let run = if place == kept.merge_turn { kept.merge_run + 1 } else { 1 };
                let is_over = run >= MERGE_RUN_MAX;
                kept.merge_turn = if is_over { place + 1 } else { place };
                kept.merge_run = if is_over { 0 } else { run };
                return Some(envelope);
            }
        }
        None
    }

    #[inline]
    fn take_from(&mut self, edge: &Edge) -> Option<Envelope> {
        match edge.single() {
            Some((single, _)) => self.take_single(edge, single),
            None => self.take_shared(edge),
        }
    }

    #[inline]
    fn take_single(&mut self, edge: &Edge, single: &Single) -> Option<Envelope> {
        let taken = single.take();
        self.direct.has_looked(taken.is_none());
        let (_, envelope) = taken?;
        self.has_taken(edge, &envelope, None);
        if self.model.ledger.is_limited() && self.model.ledger.release(&envelope) {
            self.model.notify_budget(self.woken);
        }
        Some(envelope)
    }

    #[inline(never)]
    fn take_shared(&mut self, edge: &Edge) -> Option<Envelope> {
        let model = self.model;
        let popped = edge.pop(self.direct.node(), &model.ledger)?;
        self.has_taken(edge, &popped.envelope, popped.near);
        if self.cell.reorder.is_some() {
            self.kept.sequence = Some(popped.sequence);
        }
        if popped.wanted {
            for producer in edge.producers.iter() {
                model.notify(*producer, WokenBy::Room, self.woken);
            }
        }
        if popped.freed {
            model.notify_budget(self.woken);
        }
        if popped.more {
            // Of whichever lane: it looks at its own first.
            model.notify_one_consumer(edge, None, self.woken);
        }
        Some(popped.envelope)
    }

    #[inline]
    fn has_taken(&mut self, edge: &Edge, envelope: &Envelope, near: Option<usize>) {
        edge.count_crossing(self.direct.node(), near, envelope);
        self.direct.has_taken();
        add(&self.cell.gates.rows_in, envelope.rows() as u64);
    }
}

impl Firing<'_> {
    /// Puts an envelope on an edge, or stages it. False when the edge is closed.
    fn send(&mut self, edge: &Edge, envelope: Envelope, near: Option<usize>) -> bool {
        edge.made_on(self.direct.node());
        match self.model.offer(edge, envelope, near, self.woken) {
            Offered::Taken => true,
            Offered::Full(envelope) => {
                self.stage(Staged { edge: edge.idx, envelope, near });
                true
            }
            Offered::Closed(_) => false,
        }
    }

    #[cold]
    fn stage(&mut self, staged: Staged) {
        self.direct.leave();
        self.kept.staged.push_back(staged);
    }

    /// The same for an edge between two boxes. Its consumer is told when the firing ends, or makes something for another
    /// box: tasks are planned at a firing's end anyway, and one telling is enough for all that it has made.
    fn send_single(&mut self, edge: &Edge, single: &Single, consumer: usize, envelope: Envelope) -> bool {
        edge.made_on(self.direct.node());
        let model = self.model;
        match single.offer(envelope, &model.ledger, || model.boxes[consumer].state.want_room()) {
            Offered::Taken => {
                if let Some(before) = self.direct.tell_later(consumer) {
                    model.notify(before, WokenBy::Input, self.woken);
                }
                true
            }
            Offered::Full(envelope) => {
                self.stage(Staged { edge: edge.idx, envelope, near: None });
                true
            }
            Offered::Closed(_) => false,
        }
    }

    /// Tells the box that was given something and does not know yet.
    #[inline]
    pub(super) fn tell(&mut self) {
        if let Some(consumer) = self.direct.take_untold() {
            self.model.notify(consumer, WokenBy::Input, self.woken);
        }
    }

    /// Tells of what was made directly, and of room where something was taken: what waits for the end of a firing else.
    fn tell_all(&mut self) {
        self.tell();
        if self.direct.took() && self.cell.state.take_wanted() {
            self.model.tell_of_room(self.cell_idx, self.woken);
        }
    }

    /// As if the firing ended here, as far as its neighbours are concerned.
    fn tell_now(&mut self) {
        self.tell_all();
        if !self.woken.is_empty() {
            self.detacher.plan(self.model, self.woken);
        }
    }

    /// Puts an envelope on all edges of an output.
    fn send_to_all(
        &mut self,
        output: usize,
        envelope: Envelope,
        near: Option<usize>,
    ) -> Result<Pushed, BoxError> {
        let cell = self.cell;
        let edges = &cell.outputs[output];
        let Some(first) = edges.first() else { return Ok(Pushed::Closed) };
        let known = self.kept.schemas[output].as_ref();
        if !known.is_some_and(|schema| Arc::ptr_eq(schema, envelope.schema())) {
            self.learn_schema(output, first, &envelope)?;
        }
        if !self.has_room(output) {
            return if self.is_unwanted() { Ok(Pushed::Closed) } else { Err(self.no_room(output)) };
        }
        self.direct.has_done();
        add(&cell.gates.rows_out, envelope.rows() as u64);
        if cell.reorder.is_some() {
            self.kept.results.extend(edges.iter().map(|edge| (edge.idx, envelope.clone())));
            return Ok(Pushed::Sent);
        }
        let sent = match edges.only() {
            Some(only) => match only.single() {
                Some((single, consumer)) => self.send_single(only, single, consumer, envelope),
                None => self.send(only, envelope, near),
            },
            None => edges.iter().fold(false, |sent, edge| self.send(edge, envelope.clone(), near) | sent),
        };
        Ok(if sent { Pushed::Sent } else { Pushed::Closed })
    }

    #[cold]
    fn has_room_beside_staged(&self, output: usize) -> bool {
        if self.cell.gates.closing.load(Ordering::Relaxed) && self.is_unwanted() {
            return false;
        }
        let staged = &self.kept.staged;
        !self.cell.outputs[output].any(|edge| staged.iter().any(|staged| staged.edge == edge.idx))
    }

    /// Whether nothing stands in the way of another push.
    #[inline]
    fn is_clear(&self) -> bool {
        !self.cell.gates.closing.load(Ordering::Relaxed) && self.kept.staged.is_empty()
    }

    /// Checks the columns of an envelope against an output, and remembers them.
    #[cold]
    fn learn_schema(&mut self, output: usize, edge: &Edge, envelope: &Envelope) -> Result<(), BoxError> {
        let descriptor = &self.model.prepared.plan().edges[edge.plan_edge].descriptor;
        descriptor.admits(envelope.schema()).map_err(|reason| {
            let name = self.cell.spec.outputs[output].name;
            BoxError::new(format!("an envelope does not fit the output `{name}`: {reason}"))
        })?;
        self.kept.schemas[output] = Some(Arc::clone(envelope.schema()));
        if output == 0 {
            self.direct.learn(envelope);
        }
        Ok(())
    }

    /// Whether nobody wants what the box makes: a firing that goes on while there is room would never end.
    #[cold]
    fn is_unwanted(&self) -> bool {
        self.cell.outputs.iter().flat_map(PortEdges::iter).all(Edge::is_closed)
    }

    #[cold]
    fn no_room(&self, output: usize) -> BoxError {
        let name = self.cell.spec.outputs[output].name;
        BoxError::new(format!("the output `{name}` has no room: ask `has_room` before a second push"))
    }
}

impl Host for Firing<'_> {
    fn take(&mut self, input: usize) -> Option<Envelope> {
        if self.kept.closed_inputs[input] || self.kept.sequence.is_some() {
            return None;
        }
        // The shape of the model outlives the firing.
        let cell = self.cell;
        let edges = &cell.inputs[input];
        let taken = match edges.only() {
            Some(only) => self.take_from(only),
            None => self.take_in_turn(edges),
        };
        // It computes now, and for long: there is room, and what was made before this one.
        if taken.is_some() && self.is_slow {
            self.tell_now();
        }
        taken
    }

    fn is_ended(&self, input: usize) -> bool {
        let edges = &self.cell.inputs[input];
        self.kept.closed_inputs[input] || edges.all(Edge::is_ended)
    }

    fn close(&mut self, input: usize) {
        if !std::mem::replace(&mut self.kept.closed_inputs[input], true) {
            self.direct.leave();
            self.direct.has_done();
            self.direct.has_looked(false);
            self.kept.has_closed = true;
            if let Some(side) = self.kept.sides.get_mut(input) {
                side.clear();
            }
            self.model.close_edges(self.cell_idx, input, self.woken);
        }
    }

    fn side(&self, input: usize) -> &[Envelope] {
        self.kept.sides.get(input).map_or(&[], Vec::as_slice)
    }

    fn has_room(&self, output: usize) -> bool {
        self.is_clear() || self.has_room_beside_staged(output)
    }

    fn push(&mut self, output: usize, envelope: Envelope, near: Option<usize>) -> Result<Pushed, BoxError> {
        // What was made before it: with it the firing may be over, which tells of it in a cheaper way.
        if self.is_slow {
            self.tell_now();
        }
        self.send_to_all(output, envelope, near)
    }

    fn nodes(&self) -> usize {
        self.model.nodes
    }

    fn node(&self) -> usize {
        self.direct.node()
    }

    fn is_closed(&self, output: usize) -> bool {
        self.cell.outputs[output].all(Edge::is_closed)
    }

    fn hint(&self, hint: usize, query: u32) -> f64 {
        let join = self.cell.spec.hints_read[hint].join;
        let cells = &self.model.shape.boxes[self.cell_idx].hints_read[hint];
        cells.iter().fold(join.bottom(), |joined, cell| match self.model.hints[*cell].get(query) {
            Some(value) => join.join(joined, value),
            None => {
                self.model.fail_of_query(self.cell_idx, query);
                joined
            }
        })
    }

    fn join_hint(&mut self, hint: usize, query: u32, value: f64) {
        let model = self.model;
        let cell = &model.hints[model.shape.boxes[self.cell_idx].hints_written[hint]];
        match cell.join(query, value) {
            Some(false) => {}
            Some(true) => {
                // Telling a reader releases the value to it.
                for reader in &*cell.readers {
                    model.notify(*reader, WokenBy::Room, self.woken);
                }
            }
            None => model.fail_of_query(self.cell_idx, query),
        }
    }

    fn detached(&mut self, class: &str, f: &mut dyn FnMut()) -> Result<(), Cancelled> {
        if self.model.is_stopping() {
            return Err(Cancelled);
        }
        // The closure may take long, and neither consumers nor producers must wait for it.
        self.tell_all();
        let begun_ns = self.model.now_ns();
        let result = self.detacher.detached(self.model, self.cell_idx, class, self.woken, f);
        self.direct.go_on(self.detacher.node());
        add(&self.cell.counters.blocked_ns, self.model.now_ns().saturating_sub(begun_ns));
        result
    }

    fn announce(&mut self) {
        self.tell_now();
    }

    fn outside(&mut self) -> Outside {
        self.detacher.outside(self.model, self.cell_idx)
    }

    fn is_cancelled(&self) -> bool {
        self.model.is_stopping()
    }

    fn inside(&mut self, f: &mut dyn FnMut(&mut Inside<'_>)) {
        self.tell();
        f(&mut Inside::new(Some(self.detacher), &self.model.stopping));
    }

    fn progress(&mut self, done: u64, total: u64) {
        let counters = &self.cell.counters;
        counters.progress_done.store(done, Ordering::Relaxed);
        counters.progress_total.store(total, Ordering::Relaxed);
    }

    fn report(&mut self, problem: Problem) {
        self.model.report(problem);
    }
}
