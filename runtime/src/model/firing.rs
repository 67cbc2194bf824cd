//! A firing: one call of a box's processing method, and all that the runtime does around it.
//!
//! Invariants: a box is fired only with nothing staged, so that one push on each output always succeeds; an envelope
//! that found an edge full is staged at its producer, one firing's worth at most, and the consumer that makes room
//! tells the producer: for a shared edge by a mark under its lock, else by a flag of the consumer's run state.

use std::cell::Cell;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow_schema::SchemaRef;

use super::box_state::{End, Notified};
use super::clock::Sampled;
use super::host::Firing;
use super::woken::{Woken, WokenBy};
use super::{BoxCell, Model};
use crate::edge::{Closing, Direct, Edge, Offered, PortEdges, Told};
use crate::envelope::Envelope;
use crate::inside::Lane;
use crate::operator::{Cancelled, Context, Flow, Mode, Operator, Outside};
use crate::panic_message::panic_message;
use crate::request::RequestError;
use crate::sync::{Ordering, add, interleave};

/// Results of an ordered copy that may wait for older ones, per copy of the box.
const REORDER_INPUTS_PER_COPY: usize = 2;

/// What a scheduler does for a box that blocks: the inversion that keeps the model free of it.
pub(crate) trait Detacher: Lane {
    /// The node of the slot that the firing holds.
    fn node(&self) -> usize;

    /// Plans the tasks woken so far, gives the slot away, waits for a permit, runs the closure and attaches again.
    fn detached(
        &mut self,
        model: &Arc<Model>,
        cell: usize,
        class: &str,
        woken: &mut Woken,
        f: &mut dyn FnMut(),
    ) -> Result<(), Cancelled>;

    /// Plans the tasks woken so far, for others than the owner of the slot, who goes on with its firing.
    fn plan(&mut self, model: &Arc<Model>, woken: &mut Woken);

    /// Takes a token for something that the box begins outside of its firings; it moves to the box's next task when that
    /// is over.
    fn outside(&mut self, model: &Arc<Model>, cell: usize) -> Outside;
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
    sides_complete: bool,
    finishing: bool,
    clock: Sampled,
    /// Whether the firing took anything.
    made_room: bool,
    /// Envelopes that it took or made.
    steps: u32,
    /// Whether the box may go to its edges directly, as far as its own firings are concerned.
    is_plain: bool,
    /// Whether there is something to do before a firing: staged envelopes, side inputs, an order, the end.
    has_business: bool,
    /// Where the schema lies that [`Kept::schemas`] keeps for the first output; 0 for none.
    schema: Cell<usize>,
    /// Behind a pointer: a firing that goes to its edges directly looks at nothing of it, and the boxes of a chain should
    /// stay in the nearest cache. Inline it would spare a request an allocation a box, and a hop cost a twelfth more.
    kept: Box<Kept>,
}

/// An envelope that found an edge full.
pub(super) struct Staged {
    pub(super) edge: usize,
    pub(super) envelope: Envelope,
    /// The node that its data are on.
    pub(super) near: Option<usize>,
}

/// The part of it that a firing works on.
pub(super) struct Kept {
    /// Envelopes that found an edge full.
    pub(super) staged: VecDeque<Staged>,
    pub(super) closed_inputs: Box<[bool]>,
    /// Whether one of them is.
    pub(super) has_closed: bool,
    /// The edge that a merge looks at first, and how many it has taken there in a row.
    pub(super) merge_turn: usize,
    pub(super) merge_run: usize,
    /// By input; none where nothing came from the side.
    pub(super) sides: Vec<Vec<Envelope>>,
    /// By output: the schema that was last found to fit.
    pub(super) schemas: Box<[Option<SchemaRef>]>,
    /// The input that an ordered copy has taken in this firing.
    pub(super) sequence: Option<u64>,
    /// What an ordered copy has made from it, by edge.
    pub(super) results: VecDeque<(usize, Envelope)>,
}

impl Running {
    /// `is_plain`: nothing keeps the box from going to its edges directly.
    pub(super) fn new(operator: Box<dyn Operator>, inputs: usize, outputs: usize, is_plain: bool) -> Self {
        let kept = Kept {
            staged: VecDeque::new(),
            closed_inputs: vec![false; inputs].into(),
            has_closed: false,
            merge_turn: 0,
            merge_run: 0,
            sides: Vec::new(),
            schemas: vec![None; outputs].into(),
            sequence: None,
            results: VecDeque::new(),
        };
        Self {
            operator,
            sides_complete: false,
            finishing: false,
            clock: Sampled::default(),
            made_room: false,
            steps: 0,
            // The first firing looks for side inputs.
            has_business: true,
            is_plain,
            schema: Cell::new(0),
            kept: Box::new(kept),
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
        let timed = running.clock.begin(|| woken.now_ns(self), cell);
        let step = self.step((cell, cell_idx), running, detacher, woken);
        if let Some(timed) = timed {
            woken.has_read(self.id, running.clock.end(self, cell, timed, running.steps));
        } else {
            woken.forget_clock();
        }
        interleave();
        let mut made_room = std::mem::take(&mut running.made_room);
        if let Step::Done = step {
            if turn.done() {
                // A consumer may have closed its edge during this firing, after this box had pushed to it, and have
                // notified the box before it was done.
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

    /// Tells the producers that wait for room on the edges of a box, and have some. For the others its flag goes up
    /// again: they are told when a later firing has made room for them.
    pub(super) fn tell_of_room(&self, cell_idx: usize, woken: &mut Woken) {
        let mut later = false;
        for edge in self.boxes[cell_idx].inputs.iter().flat_map(PortEdges::iter) {
            let told = edge.tell_of_room();
            later |= told == Told::Later;
            if told == Told::Producer {
                for producer in edge.producers.iter() {
                    let by = if self.boxes[*producer].merges() { WokenBy::Input } else { WokenBy::Room };
                    self.notify(*producer, by, woken);
                }
            }
        }
        if later {
            self.boxes[cell_idx].state.want_room();
        }
    }

    /// Drops what was put on edges that were closed at the same time. True when all outputs are closed.
    fn reap_closed(&self, cell_idx: usize, woken: &mut Woken) -> bool {
        let mut all = true;
        for edge in self.boxes[cell_idx].outputs.iter().flat_map(PortEdges::iter) {
            if !edge.is_closed() {
                all = false;
            } else if edge.has_waiting() && edge.reap(&self.ledger) {
                self.notify_budget(woken);
            }
        }
        all
    }

    /// A firing, and what goes before and after it.
    #[inline(always)]
    fn step(
        self: &Arc<Self>,
        (cell, cell_idx): (&BoxCell, usize),
        running: &mut Running,
        detacher: &mut dyn Detacher,
        woken: &mut Woken,
    ) -> Step {
        // Where there is no firing, its clock says nothing of how long one takes.
        running.steps = 0;
        if self.is_stopping() {
            return Step::Done;
        }
        if (running.has_business || cell.gates.closing.load(Ordering::Relaxed))
            && let Some(step) = self.make_ready((cell, cell_idx), running, woken)
        {
            return step;
        }
        add(&cell.counters.firings, 1);
        let Running { operator, schema, kept, is_plain, clock, .. } = &mut *running;
        // The host tells the neighbours of a slow box at each step.
        let is_slow = clock.is_slow() && !self.alone;
        let direct = Direct::new(&cell.gates, schema, detacher.node(), *is_plain && !is_slow);
        let mut firing = Firing::new(self, (cell, cell_idx), detacher, woken, kept, (&direct, is_slow));
        let mut context = Context::with_direct(cell.spec, &mut firing, &direct);
        let flow = catch_unwind(AssertUnwindSafe(|| operator.process(&mut context)));
        firing.tell();
        let (progressed, drained, is_plain) = (direct.progressed(), direct.drained(), direct.is_plain());
        (running.made_room, running.steps) = (direct.took(), direct.steps());
        match flow {
            // What most firings come to: nothing is staged where all is plain.
            Ok(Ok(Flow::Wait)) if is_plain => {
                if progressed && self.has_more(cell, running, drained) {
                    Step::Again
                } else {
                    Step::Idle
                }
            }
            Ok(Ok(flow)) => {
                let step = self.follow(flow, (cell, cell_idx), running, progressed, drained, woken);
                running.is_plain &= !running.kept.has_closed;
                running.has_business =
                    running.finishing || !running.kept.staged.is_empty() || cell.reorder.is_some();
                step
            }
            Ok(Err(error)) => {
                // An operator that hands `Cancelled` on is not at fault.
                let name = self.box_name(cell_idx).to_owned();
                self.fail(RequestError::Failed { name, cause: error.to_string() });
                Step::Done
            }
            Err(cause) => {
                let name = self.box_name(cell_idx).to_owned();
                self.fail(RequestError::Panicked { name, cause: panic_message(cause.as_ref()) });
                Step::Done
            }
        }
    }

    /// Before a firing: what is staged moves on, what has been closed is dropped, side inputs are awaited. A step is given
    /// where there is none now.
    #[inline(never)]
    fn make_ready(
        &self,
        (cell, cell_idx): (&BoxCell, usize),
        running: &mut Running,
        woken: &mut Woken,
    ) -> Option<Step> {
        if (cell.reorder.is_some() || !running.kept.staged.is_empty())
            && !self.flush(cell_idx, running, woken)
        {
            return Some(Step::Idle);
        }
        if running.finishing {
            return Some(self.finish(cell_idx, running, woken));
        }
        if cell.gates.closing.load(Ordering::Relaxed)
            && cell.gates.closing.swap(false, Ordering::Acquire)
            && self.reap_closed(cell_idx, woken)
        {
            (running.finishing, running.has_business) = (true, true);
            return Some(self.finish(cell_idx, running, woken));
        }
        if !running.sides_complete && !self.take_sides(cell_idx, running, woken) {
            return Some(Step::Idle);
        }
        if let Some(reorder) = cell.reorder {
            let copies = self.shape.copies[cell.plan_box].len();
            if self.reorders[reorder].lock().waiting() >= REORDER_INPUTS_PER_COPY * copies {
                return Some(Step::Idle);
            }
        }
        running.has_business = cell.reorder.is_some();
        None
    }

    /// After a firing that left something behind, or does not wait.
    #[inline(never)]
    fn follow(
        &self,
        flow: Flow,
        (cell, cell_idx): (&BoxCell, usize),
        running: &mut Running,
        progressed: bool,
        drained: bool,
        woken: &mut Woken,
    ) -> Step {
        if let Some(reorder) = cell.reorder {
            let results = std::mem::take(&mut running.kept.results);
            match running.kept.sequence.take() {
                Some(sequence) => self.reorders[reorder].lock().finish(sequence, results),
                None if results.is_empty() => {}
                None => {
                    let name = self.box_name(cell_idx).to_owned();
                    let cause = "an ordered operator pushed without having taken an input in the same firing"
                        .to_owned();
                    self.fail(RequestError::Failed { name, cause });
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
            _ if !running.kept.staged.is_empty() => Step::Idle,
            Flow::More => Step::Again,
            Flow::Wait if progressed && self.has_more(cell, running, drained) => Step::Again,
            Flow::Wait => Step::Idle,
        }
    }

    /// Whether a box that waits could do something at once: it took or made something, and more is there. `drained`: it
    /// found its only stream empty last; of what has come since, it has been told.
    #[inline(always)]
    fn has_more(&self, cell: &BoxCell, running: &Running, drained: bool) -> bool {
        match &cell.only_stream {
            Some(edge) if drained => edge.has_end(),
            _ => self.has_more_anywhere(cell, running),
        }
    }

    #[inline(never)]
    fn has_more_anywhere(&self, cell: &BoxCell, running: &Running) -> bool {
        let mut connected = false;
        for ((mode, edges), closed) in cell.ports().zip(&running.kept.closed_inputs) {
            if mode == Mode::Side || edges.is_empty() {
                continue;
            }
            connected = true;
            // The end of one edge of a merge is nothing that its box could see.
            if !closed && (edges.any(Edge::has_waiting) || edges.all(Edge::has_end)) {
                return true;
            }
        }
        !connected
    }

    /// Takes all envelopes of the side inputs, once they have ended.
    fn take_sides(&self, cell_idx: usize, running: &mut Running, woken: &mut Woken) -> bool {
        let ports = || self.boxes[cell_idx].ports().enumerate().filter(|(_, (mode, _))| *mode == Mode::Side);
        if !ports().all(|(_, (_, edges))| edges.all(Edge::has_end)) {
            return false;
        }
        for (input, (_, edges)) in ports() {
            for edge in edges.iter() {
                // They stay charged to nobody from here on: the copies hold them until the request ends.
                while let Some(popped) = edge.pop(0, &self.ledger) {
                    if popped.freed {
                        self.notify_budget(woken);
                    }
                    add(&self.boxes[cell_idx].gates.rows_in, popped.envelope.rows() as u64);
                    let sides = &mut running.kept.sides;
                    sides.resize_with(sides.len().max(input + 1), Vec::new);
                    sides[input].push(popped.envelope);
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
            let mut unwanted = Vec::new();
            let moved = self.reorders[reorder_idx].lock().flush(|edge, envelope| {
                match self.offer(&self.edges[edge], envelope, None, woken) {
                    Offered::Taken => None,
                    Offered::Full(envelope) => Some(envelope),
                    Offered::Closed(envelope) => {
                        unwanted.push(envelope);
                        None
                    }
                }
            });
            drop(unwanted);
            if moved {
                // Copies that waited for the oldest result, or for their end, can go on.
                for copy in self.shape.copies[cell.plan_box].iter().filter(|copy| **copy != cell_idx) {
                    self.notify(*copy, WokenBy::Room, woken);
                }
            }
            return true;
        }
        // An edge that is full must not keep back what is staged for another one of the same output.
        let staged = &mut running.kept.staged;
        for _ in 0..staged.len() {
            let Some(Staged { edge, envelope, near }) = staged.pop_front() else { break };
            // Whoever makes room there takes the mark first.
            let offered = if self.edges[edge].is_waited_for() {
                Offered::Full(envelope)
            } else {
                self.offer(&self.edges[edge], envelope, near, woken)
            };
            if let Offered::Full(envelope) = offered {
                staged.push_back(Staged { edge, envelope, near });
            }
        }
        staged.is_empty()
    }

    /// The box has finished: its outputs end and its inputs close, once nothing of it is left behind.
    fn finish(&self, cell_idx: usize, running: &mut Running, woken: &mut Woken) -> Step {
        let cell = &self.boxes[cell_idx];
        if let Some(reorder_idx) = cell.reorder {
            let mut reorder = self.reorders[reorder_idx].lock();
            if reorder.copies_open == 1
                && reorder.waiting() > 0
                && !cell.outputs.iter().flat_map(PortEdges::iter).all(Edge::is_closed)
            {
                return Step::Idle;
            }
            reorder.copies_open -= 1;
        }
        self.close_inputs(cell_idx, running, woken);
        for edge in cell.outputs.iter().flat_map(PortEdges::iter) {
            if edge.end() {
                for consumer in edge.consumers.iter() {
                    self.notify(*consumer, WokenBy::Input, woken);
                }
            }
        }
        Step::Done
    }

    fn close_inputs(&self, cell_idx: usize, running: &mut Running, woken: &mut Woken) {
        for (input, closed) in running.kept.closed_inputs.iter_mut().enumerate() {
            if !std::mem::replace(closed, true) {
                self.close_edges(cell_idx, input, woken);
            }
        }
    }

    pub(super) fn close_edges(&self, cell_idx: usize, input: usize, woken: &mut Woken) {
        for edge in self.boxes[cell_idx].inputs[input].iter() {
            match edge.close(cell_idx, &self.ledger) {
                // This copy may be the only one that was told of what waits.
                Closing::Left => self.notify_one_consumer(edge, None, woken),
                Closing::Others => {}
                Closing::Closed { mut freed } => {
                    for producer in edge.producers.iter() {
                        // Before it is told, so that the firing that follows looks.
                        self.boxes[*producer].gates.closing.store(true, Ordering::Release);
                        if self.notify(*producer, WokenBy::Room, woken) == Notified::Done {
                            // The producer may have put something in without having seen the closing; or it has
                            // seen it and drains the edge now.
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

    /// Offers an envelope to an edge and tells one consumer.
    #[inline]
    pub(super) fn offer(
        &self,
        edge: &Edge,
        envelope: Envelope,
        near: Option<usize>,
        woken: &mut Woken,
    ) -> Offered {
        let want_room = |consumer: usize| self.boxes[consumer].state.want_room();
        let offered = edge.offer(envelope, near, &self.ledger, want_room);
        if let Offered::Taken = offered {
            self.notify_one_consumer(edge, near, woken);
        }
        offered
    }

    /// Tells one free copy; where all are busy, one of those that run, which then looks again. A copy that has
    /// closed the edge is not told: it would take nothing and tell nobody. Of an envelope whose data are on a node, a
    /// copy is told to be planned there.
    #[inline]
    pub(super) fn notify_one_consumer(&self, edge: &Edge, near: Option<usize>, woken: &mut Woken) {
        if let Some(only) = edge.only_consumer() {
            self.notify(only, WokenBy::Input, woken);
            return;
        }
        let near = near.filter(|node| *node < self.nodes);
        let nth = near.map(|node| (node, self.nodes));
        if let Some(copy) = edge.find_open(nth, |copy| self.boxes[copy].state.is_idle()) {
            // Whatever it does now, it looks at the edge before it waits; or it closes it, and tells another.
            if self.notify(copy, WokenBy::Input, woken) == Notified::Plan
                && let Some(node) = near
            {
                // The task is this caller's to plan, so nobody reads it meanwhile.
                self.boxes[copy].near.store(node, Ordering::Relaxed);
            }
        }
    }

    /// Tells the producers that wait for the request's budget.
    pub(super) fn notify_budget(&self, woken: &mut Woken) {
        for edge in self.edges.iter().filter(|edge| edge.is_wanted()) {
            // Without its mark the producer offers again.
            edge.take_wanted();
            for producer in edge.producers.iter() {
                self.notify(*producer, WokenBy::Room, woken);
            }
        }
    }
}
