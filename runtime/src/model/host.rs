//! The host of one firing: what a box's context stands on.
//!
//! Invariant: it lives within one firing, whose turn it works on, so it is the only producer of the box's outputs and
//! the only consumer of its inputs.

use std::sync::Arc;

use super::edge::{Edge, Offered};
use super::firing::{Detacher, Kept, Woken, WokenBy};
use super::port::PortEdges;
use super::{BoxCell, Model, add};
use crate::envelope::Envelope;
use crate::inside::Inside;
use crate::operator::{BoxError, Cancelled, Host, Outside, Problem, Pushed};
use crate::sync::Ordering;

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
    node: usize,
    /// Whether it took or made anything.
    pub(super) progressed: bool,
}

impl<'a> Firing<'a> {
    pub(super) fn new(
        model: &'a Arc<Model>,
        cell_idx: usize,
        detacher: &'a mut dyn Detacher,
        woken: &'a mut Woken,
        kept: &'a mut Kept,
    ) -> Self {
        let (cell, node) = (&model.boxes[cell_idx], detacher.node());
        Self { model, cell, cell_idx, detacher, woken, kept, node, progressed: false }
    }

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
        let (model, cell) = (self.model, self.cell);
        let popped = edge.pop(&model.ledger)?;
        edge.count_crossing(self.node, &popped.envelope);
        self.kept.made_room = true;
        self.progressed = true;
        add(&cell.counters.rows_in, popped.envelope.rows() as u64);
        if cell.reorder.is_some() {
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
            model.notify_one_consumer(edge, self.woken);
        }
        Some(popped.envelope)
    }
}

impl Firing<'_> {
    /// Puts an envelope on an edge, or stages it. False when the edge is closed.
    #[inline]
    fn send(&mut self, edge: &Edge, envelope: Envelope) -> bool {
        edge.made_on(self.node);
        match self.model.offer(edge, envelope, self.woken) {
            Offered::Taken => true,
            Offered::Full(envelope) => {
                self.kept.staged.push_back((edge.idx, envelope));
                true
            }
            Offered::Closed => false,
        }
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
        let edges = &self.cell.inputs[input].edges;
        match edges.only() {
            Some(only) => self.take_from(only),
            None => self.take_in_turn(edges),
        }
    }

    fn is_ended(&self, input: usize) -> bool {
        let edges = &self.cell.inputs[input].edges;
        self.kept.closed_inputs[input] || edges.all(Edge::is_ended)
    }

    fn close(&mut self, input: usize) {
        if !std::mem::replace(&mut self.kept.closed_inputs[input], true) {
            self.progressed = true;
            self.kept.sides[input].clear();
            self.model.close_edges(self.cell_idx, input, self.woken);
        }
    }

    fn side(&self, input: usize) -> &[Envelope] {
        &self.kept.sides[input]
    }

    fn has_room(&self, output: usize) -> bool {
        if self.cell.closing.load(Ordering::Relaxed) && self.is_unwanted() {
            return false;
        }
        let staged = &self.kept.staged;
        staged.is_empty()
            || !self.cell.outputs[output].any(|edge| staged.iter().any(|(full, _)| *full == edge.idx))
    }

    fn push(&mut self, output: usize, envelope: Envelope) -> Result<Pushed, BoxError> {
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
        self.progressed = true;
        add(&cell.counters.rows_out, envelope.rows() as u64);
        if cell.reorder.is_some() {
            self.kept.results.extend(edges.iter().map(|edge| (edge.idx, envelope.clone())));
            return Ok(Pushed::Sent);
        }
        let sent = match edges.only() {
            Some(only) => self.send(only, envelope),
            None => edges.iter().fold(false, |sent, edge| self.send(edge, envelope.clone()) | sent),
        };
        Ok(if sent { Pushed::Sent } else { Pushed::Closed })
    }

    fn is_closed(&self, output: usize) -> bool {
        self.cell.outputs[output].all(Edge::is_closed)
    }

    fn hint(&self, hint: usize, query: u32) -> f64 {
        let join = self.cell.spec.hints_read[hint].join;
        let cells = self.cell.hints_read[hint].iter().map(|cell| self.model.hints[*cell].get(query));
        cells.fold(join.bottom(), |a, b| join.join(a, b))
    }

    fn join_hint(&mut self, hint: usize, query: u32, value: f64) {
        let model = self.model;
        let cell = &model.hints[model.boxes[self.cell_idx].hints_written[hint]];
        if cell.join(query, value) {
            // Telling a reader releases the value to it.
            for reader in &cell.readers {
                model.notify(*reader, WokenBy::Room, self.woken);
            }
        }
    }

    fn detached(&mut self, class: &str, f: &mut dyn FnMut()) -> Result<(), Cancelled> {
        if self.model.is_stopping() {
            return Err(Cancelled);
        }
        // The closure may take long, and producers must not wait for it.
        if self.kept.made_room && self.cell.state.take_wanted() {
            self.model.tell_of_room(self.cell_idx, self.woken);
        }
        let begun_ns = self.model.now_ns();
        let result = self.detacher.detached(self.model, self.cell_idx, class, self.woken, f);
        self.node = self.detacher.node();
        add(&self.cell.counters.blocked_ns, self.model.now_ns().saturating_sub(begun_ns));
        result
    }

    fn outside(&mut self) -> Outside {
        self.detacher.outside(self.model, self.cell_idx)
    }

    fn is_cancelled(&self) -> bool {
        self.model.is_stopping()
    }

    fn inside(&mut self, f: &mut dyn FnMut(&mut Inside<'_>)) {
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
