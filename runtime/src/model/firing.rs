//! A firing: one call of a box's processing method, and all that the runtime does around it.
//!
//! Invariants: a box is fired only with nothing staged, so that one push on each output always succeeds; an envelope
//! that found an edge full is staged at its producer, one firing's worth at most, and the consumer that makes room
//! tells the producer: for a shared edge by a mark under its lock, else by a flag of the consumer's run state.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow_schema::SchemaRef;

use super::box_state::{End, Notified};
use super::clock::Sampled;
use super::edge::{Closing, Offered};
use super::{Model, add};
use crate::envelope::Envelope;
use crate::operator::{BoxError, Cancelled, Context, Flow, Host, Mode, Operator, Problem, Pushed};
use crate::prepare::panic_message;
use crate::request::RequestError;
use crate::sync::Ordering;

/// Results of an ordered copy that may wait for older ones, per copy of the box.
const REORDER_INPUTS_PER_COPY: usize = 2;

/// Why a box was told: what decides where its task goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WokenBy {
    /// An input was just made: the task is immediate, its data are hot.
    Input,
    /// Room was made, or the box goes on: the task is regular.
    Room,
}

/// Tasks that a firing made and nobody has planned yet.
#[derive(Default)]
pub(crate) struct Woken {
    list: Vec<(usize, WokenBy)>,
}

impl Woken {
    pub(crate) fn push(&mut self, cell: usize, by: WokenBy) {
        self.list.push((cell, by));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    /// Takes the box that was told of an input first.
    pub(crate) fn take_first_input(&mut self) -> Option<usize> {
        let place = self.list.iter().position(|(_, by)| *by == WokenBy::Input)?;
        Some(self.list.remove(place).0)
    }

    pub(crate) fn drain(&mut self) -> impl DoubleEndedIterator<Item = (usize, WokenBy)> + '_ {
        self.list.drain(..)
    }
}

/// What a scheduler does for a box that blocks: the inversion that keeps the model free of it.
pub(crate) trait Detacher {
    /// Plans the tasks woken so far, gives the slot away, waits for a permit, runs the closure and attaches again.
    fn detached(
        &mut self,
        model: &Arc<Model>,
        cell: usize,
        class: &str,
        woken: &mut Woken,
        f: &mut dyn FnMut(),
    ) -> Result<(), Cancelled>;
}

/// What a firing leaves behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum After {
    /// The box is idle or done: its task's token is to be released.
    Ended,
    /// The box is queued again: its token moves to the new task.
    Again(WokenBy),
}

/// What a box keeps between firings.
pub(super) struct Running {
    operator: Box<dyn Operator>,
    sides: Vec<Vec<Envelope>>,
    sides_complete: bool,
    /// Envelopes that found an edge full, by edge.
    staged: VecDeque<(usize, Envelope)>,
    closed_inputs: Vec<bool>,
    merge_turn: usize,
    finishing: bool,
    /// Whether the firing took anything.
    made_room: bool,
    clock: Sampled,
    /// By output: the schema that was last found to fit.
    schemas: Vec<Option<SchemaRef>>,
}

impl Running {
    pub(super) fn new(operator: Box<dyn Operator>, inputs: usize) -> Self {
        Self {
            operator,
            sides: vec![Vec::new(); inputs],
            sides_complete: false,
            staged: VecDeque::new(),
            closed_inputs: vec![false; inputs],
            merge_turn: 0,
            finishing: false,
            made_room: false,
            clock: Sampled::default(),
            schemas: Vec::new(),
        }
    }
}

/// What the runtime found before and after the processing method.
enum Step {
    Idle,
    Again,
    Done,
}

impl Model {
    /// Fires a box. New tasks stand on the list; their tokens are the caller's to take.
    ///
    /// # Safety
    /// The caller holds the box's task, as [`super::box_state::BoxState::start`] wants it.
    #[expect(unsafe_code, reason = "the caller vouches for the task")]
    pub(crate) unsafe fn fire(
        self: &Arc<Self>,
        cell_idx: usize,
        detacher: &mut dyn Detacher,
        woken: &mut Woken,
    ) -> After {
        let cell = &self.boxes[cell_idx];
        // SAFETY: the caller's contract.
        let mut turn = unsafe { cell.state.start() };
        let Some(running) = turn.as_mut() else {
            turn.done();
            return After::Ended;
        };
        let timed = running.clock.begin(self, cell);
        let step = self.step(cell_idx, running, detacher, woken);
        if let Some(timed) = timed {
            running.clock.end(self, cell, timed);
        }
        let mut made_room = std::mem::take(&mut running.made_room);
        if let Step::Done = step {
            if turn.done() {
                // Perhaps of a closing, while something was put on the edge: nobody else will look there.
                self.reap_closed(cell_idx, woken);
            }
            return After::Ended;
        }
        let again = matches!(step, Step::Again);
        loop {
            match turn.end(again, made_room) {
                End::Idle => return After::Ended,
                End::Again if again => return After::Again(WokenBy::Room),
                End::Again => {
                    return After::Again(if cell.is_source { WokenBy::Room } else { WokenBy::Input });
                }
                End::Room(back) => {
                    turn = back;
                    made_room = false;
                    self.tell_of_room(cell_idx, woken);
                }
            }
        }
    }

    /// Tells the producers that wait for room on the edges of a box.
    fn tell_of_room(&self, cell_idx: usize, woken: &mut Woken) {
        for edge in self.boxes[cell_idx].inputs.iter().flat_map(|port| &port.edges) {
            let edge = &self.edges[*edge];
            if edge.take_wanted() {
                for producer in &edge.producers {
                    self.notify(*producer, WokenBy::Room, woken);
                }
            }
        }
    }

    /// Drops what was put on edges that were closed at the same time. True when all outputs are closed.
    fn reap_closed(&self, cell_idx: usize, woken: &mut Woken) -> bool {
        let mut all = true;
        for edge in self.boxes[cell_idx].outputs.iter().flatten() {
            let edge = &self.edges[*edge];
            if !edge.is_closed() {
                all = false;
            } else if edge.has_waiting() && edge.reap(&self.ledger) {
                self.notify_budget(woken);
            }
        }
        all
    }

    fn step(
        self: &Arc<Self>,
        cell_idx: usize,
        running: &mut Running,
        detacher: &mut dyn Detacher,
        woken: &mut Woken,
    ) -> Step {
        let cell = &self.boxes[cell_idx];
        if self.is_stopping() {
            return Step::Done;
        }
        if !self.flush(cell_idx, running, woken) {
            return Step::Idle;
        }
        if running.finishing {
            return self.finish(cell_idx, running, woken);
        }
        if self.reap_closed(cell_idx, woken) && !cell.outputs.is_empty() {
            running.finishing = true;
            return self.finish(cell_idx, running, woken);
        }
        if !running.sides_complete && !self.take_sides(cell_idx, running, woken) {
            return Step::Idle;
        }
        if let Some(reorder) = cell.reorder {
            let copies = self.copies[cell.plan_box].len();
            if self.reorders[reorder].lock().waiting() >= REORDER_INPUTS_PER_COPY * copies {
                return Step::Idle;
            }
        }
        add(&cell.counters.firings, 1);
        let Running { operator, sides, staged, closed_inputs, merge_turn, made_room, schemas, .. } = running;
        let mut firing = Firing {
            model: self,
            cell_idx,
            detacher,
            woken,
            sides,
            staged,
            closed_inputs,
            merge_turn,
            made_room,
            schemas,
            progressed: false,
            sequence: None,
            results: VecDeque::new(),
        };
        let mut context = Context::new(cell.spec, &mut firing);
        let flow = catch_unwind(AssertUnwindSafe(|| operator.process(&mut context)));
        let Firing { progressed, sequence, results, .. } = firing;
        let name = || self.box_name(cell_idx).to_owned();
        let flow = match flow {
            Ok(Ok(flow)) => flow,
            Ok(Err(error)) => {
                // An operator that hands `Cancelled` on is not at fault.
                self.fail(RequestError::Failed { name: name(), cause: error.to_string() });
                return Step::Done;
            }
            Err(cause) => {
                self.fail(RequestError::Panicked { name: name(), cause: panic_message(cause.as_ref()) });
                return Step::Done;
            }
        };
        if let Some(reorder) = cell.reorder {
            match sequence {
                Some(sequence) => self.reorders[reorder].lock().finish(sequence, results),
                None if results.is_empty() => {}
                None => {
                    let cause = "an ordered operator pushed without having taken an input in the same firing"
                        .to_owned();
                    self.fail(RequestError::Failed { name: name(), cause });
                    return Step::Done;
                }
            }
            self.flush(cell_idx, running, woken);
        }
        match flow {
            Flow::Done => {
                running.finishing = true;
                // At once, and not when its last results have found room: others may wait for these inputs.
                self.close_inputs(cell_idx, running, woken);
                if self.flush(cell_idx, running, woken) {
                    self.finish(cell_idx, running, woken)
                } else {
                    Step::Idle
                }
            }
            _ if !running.staged.is_empty() => Step::Idle,
            Flow::More => Step::Again,
            Flow::Wait if progressed && self.has_more(cell_idx, running) => Step::Again,
            Flow::Wait => Step::Idle,
        }
    }

    /// Whether a box that waits could do something at once: it took or made something, and more is there.
    fn has_more(&self, cell_idx: usize, running: &Running) -> bool {
        let cell = &self.boxes[cell_idx];
        let streams = cell.inputs.iter().enumerate().filter(|(_, port)| port.mode != Mode::Side);
        let mut connected = false;
        for (input, port) in streams {
            connected |= !port.edges.is_empty();
            if !running.closed_inputs[input]
                && port
                    .edges
                    .iter()
                    .any(|edge| self.edges[*edge].has_waiting() || self.edges[*edge].has_end())
            {
                return true;
            }
        }
        !connected
    }

    /// Takes all envelopes of the side inputs, once they have ended.
    fn take_sides(&self, cell_idx: usize, running: &mut Running, woken: &mut Woken) -> bool {
        let ports =
            || self.boxes[cell_idx].inputs.iter().enumerate().filter(|(_, port)| port.mode == Mode::Side);
        if !ports().all(|(_, port)| port.edges.iter().all(|edge| self.edges[*edge].has_end())) {
            return false;
        }
        for (input, port) in ports() {
            for edge in &port.edges {
                // They stay charged to nobody from here on: the copies hold them until the request ends.
                while let Some(popped) = self.edges[*edge].pop(&self.ledger) {
                    if popped.freed {
                        self.notify_budget(woken);
                    }
                    add(&self.boxes[cell_idx].counters.rows_in, popped.envelope.rows() as u64);
                    running.sides[input].push(popped.envelope);
                }
            }
        }
        running.sides_complete = true;
        true
    }

    /// Moves what is staged (or waits for its order) onto the edges. False when some of the box's own is left.
    fn flush(&self, cell_idx: usize, running: &mut Running, woken: &mut Woken) -> bool {
        let cell = &self.boxes[cell_idx];
        if let Some(reorder_idx) = cell.reorder {
            let moved =
                self.reorders[reorder_idx].lock().flush(|edge, envelope| self.offer(edge, envelope, woken));
            if moved {
                // Copies that waited for the oldest result, or for their end, can go on.
                for copy in self.copies[cell.plan_box].iter().filter(|copy| **copy != cell_idx) {
                    self.notify(*copy, WokenBy::Room, woken);
                }
            }
            return true;
        }
        // An edge that is full must not keep back what is staged for another one of the same output.
        for _ in 0..running.staged.len() {
            if let Some((edge, envelope)) = running.staged.pop_front()
                && let Some(envelope) = self.offer(edge, envelope, woken)
            {
                running.staged.push_back((edge, envelope));
            }
        }
        running.staged.is_empty()
    }

    /// The box has finished: its outputs end and its inputs close, once nothing of it is left behind.
    fn finish(&self, cell_idx: usize, running: &mut Running, woken: &mut Woken) -> Step {
        let cell = &self.boxes[cell_idx];
        if let Some(reorder_idx) = cell.reorder {
            let mut reorder = self.reorders[reorder_idx].lock();
            if reorder.copies_open == 1
                && reorder.waiting() > 0
                && !cell.outputs.iter().flatten().all(|edge| self.edges[*edge].is_closed())
            {
                return Step::Idle;
            }
            reorder.copies_open -= 1;
        }
        self.close_inputs(cell_idx, running, woken);
        for edge in cell.outputs.iter().flatten() {
            let edge = &self.edges[*edge];
            if edge.end() {
                for consumer in &edge.consumers {
                    self.notify(*consumer, WokenBy::Input, woken);
                }
            }
        }
        Step::Done
    }

    fn close_inputs(&self, cell_idx: usize, running: &mut Running, woken: &mut Woken) {
        for (input, closed) in running.closed_inputs.iter_mut().enumerate() {
            if !std::mem::replace(closed, true) {
                self.close_edges(cell_idx, input, woken);
            }
        }
    }

    fn close_edges(&self, cell_idx: usize, input: usize, woken: &mut Woken) {
        for edge_idx in &self.boxes[cell_idx].inputs[input].edges {
            let edge = &self.edges[*edge_idx];
            match edge.close(cell_idx, &self.ledger) {
                // This copy may be the only one that was told of what waits.
                Closing::Left => self.notify_one_consumer(*edge_idx, woken),
                Closing::Others => {}
                Closing::Closed { mut freed } => {
                    for producer in &edge.producers {
                        if self.notify(*producer, WokenBy::Room, woken) == Notified::Done {
                            // It has seen nothing of the closing: what it put there meanwhile is left to this box.
                            freed |= edge.reap(&self.ledger);
                        }
                    }
                    if freed {
                        self.notify_budget(woken);
                    }
                }
            }
        }
    }

    /// Offers an envelope to an edge and tells one consumer. Gives it back when there is no room.
    fn offer(&self, edge_idx: usize, envelope: Envelope, woken: &mut Woken) -> Option<Envelope> {
        let edge = &self.edges[edge_idx];
        let want_room = || {
            for consumer in &edge.consumers {
                self.boxes[*consumer].state.want_room();
            }
        };
        match edge.offer(envelope, &self.ledger, want_room) {
            Offered::Taken => {
                self.notify_one_consumer(edge_idx, woken);
                None
            }
            Offered::Full(envelope) => Some(envelope),
            Offered::Closed => None,
        }
    }

    /// Tells one free copy; where all are busy, one of those that run, which then looks again. A copy that has
    /// closed the edge is not told: it would take nothing and tell nobody.
    fn notify_one_consumer(&self, edge_idx: usize, woken: &mut Woken) {
        let edge = &self.edges[edge_idx];
        if let [only] = edge.consumers[..] {
            self.notify(only, WokenBy::Input, woken);
            return;
        }
        if let Some(copy) = edge.find_open(|copy| self.boxes[copy].state.is_idle()) {
            // Whatever it does now, it looks at the edge before it waits; or it closes it, and tells another.
            self.notify(copy, WokenBy::Input, woken);
        }
    }

    /// Tells the producers that wait for the request's budget.
    fn notify_budget(&self, woken: &mut Woken) {
        for edge in self.edges.iter().filter(|edge| edge.is_wanted()) {
            for producer in &edge.producers {
                self.notify(*producer, WokenBy::Room, woken);
            }
        }
    }
}

/// The host of one firing.
struct Firing<'a> {
    model: &'a Arc<Model>,
    cell_idx: usize,
    detacher: &'a mut dyn Detacher,
    woken: &'a mut Woken,
    sides: &'a mut Vec<Vec<Envelope>>,
    staged: &'a mut VecDeque<(usize, Envelope)>,
    closed_inputs: &'a mut Vec<bool>,
    merge_turn: &'a mut usize,
    made_room: &'a mut bool,
    schemas: &'a mut Vec<Option<SchemaRef>>,
    progressed: bool,
    /// The input that an ordered copy has taken in this firing.
    sequence: Option<u64>,
    /// What an ordered copy has made from it, by edge.
    results: VecDeque<(usize, Envelope)>,
}

impl Firing<'_> {
    fn cell(&self) -> &super::BoxCell {
        &self.model.boxes[self.cell_idx]
    }
}

impl Host for Firing<'_> {
    fn take(&mut self, input: usize) -> Option<Envelope> {
        if self.closed_inputs[input] {
            return None;
        }
        let model = self.model;
        let cell = &model.boxes[self.cell_idx];
        let port = &cell.inputs[input];
        if cell.reorder.is_some() && self.sequence.is_some() {
            return None;
        }
        let edges = port.edges.len();
        for nth in 0..edges {
            let place = (*self.merge_turn + nth) % edges;
            let edge_idx = port.edges[place];
            let Some(popped) = model.edges[edge_idx].pop(&model.ledger) else { continue };
            *self.merge_turn = place + 1;
            *self.made_room = true;
            self.progressed = true;
            self.sequence = Some(popped.sequence);
            add(&cell.counters.rows_in, popped.envelope.rows() as u64);
            let edge = &model.edges[edge_idx];
            if popped.wanted {
                for producer in &edge.producers {
                    model.notify(*producer, WokenBy::Room, self.woken);
                }
            }
            if popped.freed {
                model.notify_budget(self.woken);
            }
            if popped.more && edge.consumers.len() > 1 {
                model.notify_one_consumer(edge_idx, self.woken);
            }
            return Some(popped.envelope);
        }
        None
    }

    fn is_ended(&self, input: usize) -> bool {
        let port = &self.cell().inputs[input];
        self.closed_inputs[input] || port.edges.iter().all(|edge| self.model.edges[*edge].is_ended())
    }

    fn close(&mut self, input: usize) {
        if !std::mem::replace(&mut self.closed_inputs[input], true) {
            self.progressed = true;
            self.sides[input].clear();
            self.model.close_edges(self.cell_idx, input, self.woken);
        }
    }

    fn side(&self, input: usize) -> &[Envelope] {
        &self.sides[input]
    }

    fn has_room(&self, output: usize) -> bool {
        let edges = &self.cell().outputs[output];
        !self.staged.iter().any(|(edge, _)| edges.contains(edge))
    }

    fn push(&mut self, output: usize, envelope: Envelope) -> Result<Pushed, BoxError> {
        let model = self.model;
        let cell = &model.boxes[self.cell_idx];
        let port = &cell.spec.outputs[output];
        let edges = &cell.outputs[output];
        let Some(first) = edges.first() else { return Ok(Pushed::Closed) };
        if self.schemas.len() <= output {
            self.schemas.resize(output + 1, None);
        }
        if !self.schemas[output].as_ref().is_some_and(|schema| Arc::ptr_eq(schema, envelope.schema())) {
            let descriptor = &model.prepared.plan().edges[model.edges[*first].plan_edge].descriptor;
            descriptor.admits(envelope.schema()).map_err(|reason| {
                BoxError::new(format!("an envelope does not fit the output `{}`: {reason}", port.name))
            })?;
            self.schemas[output] = Some(Arc::clone(envelope.schema()));
        }
        if !self.has_room(output) {
            let message =
                format!("the output `{}` has no room: ask `has_room` before a second push", port.name);
            return Err(BoxError::new(message));
        }
        self.progressed = true;
        add(&cell.counters.rows_out, envelope.rows() as u64);
        if cell.reorder.is_some() {
            self.results.extend(edges.iter().map(|edge| (*edge, envelope.clone())));
            return Ok(Pushed::Sent);
        }
        let mut sent = false;
        // The last edge gets the envelope itself: most outputs feed one, and a copy costs as much as a hop.
        let mut envelope = Some(envelope);
        for (nth, edge) in edges.iter().enumerate() {
            let copy = if nth + 1 == edges.len() { envelope.take() } else { envelope.clone() };
            let Some(copy) = copy.filter(|_| !model.edges[*edge].is_closed()) else { continue };
            sent = true;
            if let Some(copy) = model.offer(*edge, copy, self.woken) {
                self.staged.push_back((*edge, copy));
            }
        }
        Ok(if sent { Pushed::Sent } else { Pushed::Closed })
    }

    fn is_closed(&self, output: usize) -> bool {
        self.cell().outputs[output].iter().all(|edge| self.model.edges[*edge].is_closed())
    }

    fn hint(&self, hint: usize, query: u32) -> f64 {
        let join = self.cell().spec.hints_read[hint].join;
        let cells = self.cell().hints_read[hint].iter().map(|cell| self.model.hints[*cell].get(query));
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
        if *self.made_room && self.cell().state.take_wanted() {
            self.model.tell_of_room(self.cell_idx, self.woken);
        }
        let begun_ns = self.model.now_ns();
        let result = self.detacher.detached(self.model, self.cell_idx, class, self.woken, f);
        add(&self.cell().counters.blocked_ns, self.model.now_ns().saturating_sub(begun_ns));
        result
    }

    fn is_cancelled(&self) -> bool {
        self.model.is_stopping()
    }

    fn progress(&mut self, done: u64, total: u64) {
        let counters = &self.cell().counters;
        counters.progress_done.store(done, Ordering::Relaxed);
        counters.progress_total.store(total, Ordering::Relaxed);
    }

    fn report(&mut self, problem: Problem) {
        self.model.report(problem);
    }
}
