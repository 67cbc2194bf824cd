//! A firing: one call of a box's processing method, and everything that the runtime does around it.
//!
//! Invariants: a box is fired only with nothing staged, so that one push on each output always succeeds; an envelope
//! that found an edge full is staged at its producer, one firing's worth at most, and offered again when the firing has
//! ended. If it still finds no room, the consumer that makes room notifies the producer. A mark under the lock of a
//! shared edge, or a flag in the consumer's run state, asks for that.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::box_state::End;
use super::clock::BoxClock;
use super::notify::{NewTasks, TaskKind};
use super::services::{Detacher, FiringServices};
use super::{BoxCell, Model};
use crate::edge::{Edge, Offered, PortEdges};
use crate::operator::{Context, FiringState, Flow, Mode, Operator, PortState, Ports, Staged, close_edge};
use crate::panic_message::panic_message;
use crate::request::RequestError;
use crate::sync::{Ordering, add, interleave};

/// Results of an ordered copy that may wait for older ones, per copy of the box.
const REORDER_INPUTS_PER_COPY: usize = 2;

/// The state of a box's task after a firing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum After {
    /// The box is idle or done: the caller releases its task's token.
    Ended,
    /// The box is queued again: its token moves to the new task.
    Again(TaskKind),
}

/// The content of a box between firings.
pub(super) struct Running {
    operator: Box<dyn Operator>,
    sides_complete: bool,
    finishing: bool,
    clock: BoxClock,
    /// Whether the firing took anything.
    made_room: bool,
    /// Whether the box's own firings allow the usual case of [`Ports`].
    is_plain: bool,
    /// Whether something comes before a firing: staged envelopes, side inputs, an order, the end.
    has_business: bool,
    /// The last [`FiringState::schema`].
    schema: usize,
    /// Behind a pointer: a firing in the usual case reads nothing of it, and the boxes of a chain should stay in the
    /// nearest cache. Inline, a request would make one allocation less for each box, and a hop would cost a twelfth
    /// more.
    ports: Box<PortState>,
}

impl Running {
    /// `is_plain`: the box has neither an order nor a budget.
    pub(super) fn new(operator: Box<dyn Operator>, inputs: usize, outputs: usize, is_plain: bool) -> Self {
        Self {
            operator,
            sides_complete: false,
            finishing: false,
            clock: BoxClock::default(),
            made_room: false,
            // The first firing looks for side inputs.
            has_business: true,
            is_plain,
            schema: 0,
            ports: Box::new(PortState::new(inputs, outputs)),
        }
    }
}

/// The decision of the runtime before or after the processing method.
enum Step {
    Idle,
    Again,
    Done,
}

impl Model {
    /// Fires a box. New tasks go to the list; the caller takes their tokens.
    ///
    /// # Safety
    /// The caller holds the box's task, as [`super::box_state::BoxState::start`] demands.
    #[expect(unsafe_code, reason = "the caller vouches for the task")]
    pub(crate) unsafe fn fire(
        self: &Arc<Self>,
        cell_idx: usize,
        detacher: &mut dyn Detacher,
        new_tasks: &mut NewTasks,
    ) -> After {
        let cell = &self.boxes[cell_idx];
        // SAFETY: the caller's contract.
        let mut turn = unsafe { cell.state.start() };
        let Some(running) = turn.as_mut() else {
            turn.done();
            return After::Ended;
        };
        let timed = running.clock.begin(|| new_tasks.now_ns(self), cell);
        let step = self.step((cell, cell_idx), running, detacher, new_tasks);
        if let Some(timed) = timed {
            new_tasks.has_read(self.id, running.clock.end(self, cell, timed));
        } else {
            new_tasks.forget_clock();
        }
        interleave();
        let mut made_room = std::mem::take(&mut running.made_room);
        if let Step::Done = step {
            if turn.done() {
                // A consumer may have closed its edge during this firing, after this box had pushed to it, and have
                // notified the box before it was done.
                self.reap_closed(cell_idx, new_tasks);
            }
            return After::Ended;
        }
        let again = matches!(step, Step::Again);
        loop {
            match turn.end(again, made_room) {
                End::Idle => return After::Ended,
                End::Again if again => return After::Again(TaskKind::Regular),
                End::Again => {
                    return After::Again(if cell.is_source {
                        TaskKind::Regular
                    } else {
                        TaskKind::Immediate
                    });
                }
                End::Room(back) => {
                    turn = back;
                    made_room = false;
                    self.notify_of_room(cell_idx, new_tasks);
                }
            }
        }
    }

    /// Drops envelopes that this box pushed while a consumer closed the edge. True when all outputs are closed.
    fn reap_closed(&self, cell_idx: usize, new_tasks: &mut NewTasks) -> bool {
        let mut all = true;
        for edge in self.boxes[cell_idx].at.outputs.iter().flat_map(PortEdges::iter) {
            if !edge.is_closed() {
                all = false;
            } else if edge.has_waiting() && edge.reap(&self.ledger) {
                self.notify_budget(new_tasks);
            }
        }
        all
    }

    /// Prepares a firing, calls the processing method, and decides how the firing ends.
    #[expect(unsafe_code, reason = "the ports of a firing trust its turn")]
    #[inline(always)]
    fn step(
        self: &Arc<Self>,
        (cell, cell_idx): (&BoxCell, usize),
        running: &mut Running,
        detacher: &mut dyn Detacher,
        new_tasks: &mut NewTasks,
    ) -> Step {
        if self.is_stopping() {
            return Step::Done;
        }
        if (running.has_business || cell.at.closing.load(Ordering::Relaxed))
            && let Some(step) = self.make_ready((cell, cell_idx), running, new_tasks)
        {
            return step;
        }
        debug_assert!(
            running.ports.staged.is_empty(),
            "a box is fired with envelopes staged: a push could fail"
        );
        debug_assert!(
            running.ports.results.is_empty(),
            "a copy is fired while it has results of its last input"
        );
        debug_assert!(
            self.live.load(Ordering::Relaxed) > 0,
            "a box is fired of a request that holds no token: the request may end meanwhile"
        );
        add(&cell.counters.firings, 1);
        let Running { operator, ports: state, is_plain, schema, .. } = &mut *running;
        let node = detacher.node();
        // SAFETY: the caller holds the box's turn, from which `running` is borrowed.
        let ports = unsafe { Ports::new(&cell.at, state, &self.ledger, node, *is_plain, *schema) };
        let mut services = FiringServices { model: self, cell_idx, detacher, new_tasks };
        let mut context = Context::new(ports, &mut services, &self.stopping, self.nodes);
        let flow = catch_unwind(AssertUnwindSafe(|| operator.process(&mut context)));
        let mut firing = context.into_firing();
        self.notify_of(cell_idx, (&mut firing, state), new_tasks);
        let FiringState { drained, is_plain, .. } = firing;
        let progressed = firing.progressed();
        (running.made_room, running.schema) = (firing.took(), firing.schema);
        match flow {
            // The usual end: nothing is staged in the usual case.
            Ok(Ok(Flow::Wait)) if is_plain => {
                if progressed && self.has_more(cell, running, drained) {
                    Step::Again
                } else {
                    Step::Idle
                }
            }
            Ok(Ok(flow)) => {
                let step = self.follow(flow, (cell, cell_idx), running, progressed, drained, new_tasks);
                running.is_plain &= !running.ports.has_closed;
                running.has_business =
                    running.finishing || !running.ports.staged.is_empty() || cell.reorder.is_some();
                step
            }
            Ok(Err(error)) => {
                // An operator that passes `Cancelled` on is not at fault.
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

    /// Before a firing: offers staged envelopes, drains closed edges, and waits for side inputs. Returns a step if the
    /// box cannot be fired now.
    #[inline(never)]
    fn make_ready(
        &self,
        (cell, cell_idx): (&BoxCell, usize),
        running: &mut Running,
        new_tasks: &mut NewTasks,
    ) -> Option<Step> {
        if (cell.reorder.is_some() || !running.ports.staged.is_empty())
            && !self.flush(cell_idx, running, new_tasks)
        {
            return Some(Step::Idle);
        }
        if running.finishing {
            return Some(self.finish(cell_idx, running, new_tasks));
        }
        if cell.at.closing.load(Ordering::Relaxed)
            && cell.at.closing.swap(false, Ordering::Acquire)
            && self.reap_closed(cell_idx, new_tasks)
        {
            (running.finishing, running.has_business) = (true, true);
            return Some(self.finish(cell_idx, running, new_tasks));
        }
        if !running.sides_complete && !self.take_sides(cell_idx, running, new_tasks) {
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
        new_tasks: &mut NewTasks,
    ) -> Step {
        if let Some(reorder) = cell.reorder {
            let results = std::mem::take(&mut running.ports.results);
            match running.ports.sequence.take() {
                Some(sequence) => self.reorders[reorder].lock().finish(sequence, results),
                None if results.is_empty() => {}
                None => {
                    let name = self.box_name(cell_idx).to_owned();
                    let cause =
                        "an ordered operator pushed without having taken an input in this firing".to_owned();
                    self.fail(RequestError::Failed { name, cause });
                    return Step::Done;
                }
            }
            self.flush(cell_idx, running, new_tasks);
        }
        let was_staged = !running.ports.staged.is_empty();
        match flow {
            Flow::Done => {
                running.finishing = true;
                // At once, and not when its last results have found room: other boxes may wait for these inputs.
                self.close_inputs(cell_idx, running, new_tasks);
                if self.flush(cell_idx, running, new_tasks) {
                    self.finish(cell_idx, running, new_tasks)
                } else {
                    Step::Idle
                }
            }
            // The operator may wait for room that it has not seen: the box continues if all staged envelopes have found
            // room.
            _ if was_staged && self.flush(cell_idx, running, new_tasks) => Step::Again,
            _ if was_staged => Step::Idle,
            Flow::More => Step::Again,
            Flow::Wait if progressed && self.has_more(cell, running, drained) => Step::Again,
            Flow::Wait => Step::Idle,
        }
    }

    /// Whether a waiting box that took or pushed something could do more at once. `drained`: it last found its only
    /// stream empty; later envelopes have notified it.
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
        for ((mode, edges), closed) in cell.ports().zip(&running.ports.closed_inputs) {
            if mode == Mode::Side || edges.is_empty() {
                continue;
            }
            connected = true;
            // A box cannot see the end of a single edge of a merge.
            if !closed && (edges.any(Edge::has_waiting) || edges.all(Edge::has_end)) {
                return true;
            }
        }
        !connected
    }

    /// Takes all envelopes of the side inputs, once they have ended.
    #[expect(unsafe_code, reason = "an edge without locks trusts its two boxes")]
    fn take_sides(&self, cell_idx: usize, running: &mut Running, new_tasks: &mut NewTasks) -> bool {
        debug_assert!(!running.sides_complete, "the side inputs of a box are taken twice");
        let ports = || self.boxes[cell_idx].ports().enumerate().filter(|(_, (mode, _))| *mode == Mode::Side);
        if !ports().all(|(_, (_, edges))| edges.all(Edge::has_end)) {
            return false;
        }
        for (input, (_, edges)) in ports() {
            for edge in edges.iter() {
                // The budget no longer counts them: the copies hold them until the request ends. SAFETY: the caller
                // holds the turn of this consumer.
                while let Some(popped) = unsafe { edge.pop(0, &self.ledger) } {
                    if popped.freed {
                        self.notify_budget(new_tasks);
                    }
                    add(&self.boxes[cell_idx].at.rows_in, popped.envelope.rows() as u64);
                    running.ports.add_side(input, popped.envelope);
                }
            }
        }
        running.sides_complete = true;
        true
    }

    /// Moves staged envelopes, and results that waited for their order, onto the edges. False when some staged
    /// envelopes are left.
    #[expect(unsafe_code, reason = "an edge without locks trusts its two boxes")]
    fn flush(&self, cell_idx: usize, running: &mut Running, new_tasks: &mut NewTasks) -> bool {
        let cell = &self.boxes[cell_idx];
        if let Some(reorder_idx) = cell.reorder {
            let mut unwanted = Vec::new();
            let moved = self.reorders[reorder_idx].lock().flush(|edge, envelope| {
                // SAFETY: the caller holds the turn of a producer, and offers for the other copies under the lock of
                // their order.
                match unsafe { self.offer(&self.edges[edge], envelope, None, new_tasks) } {
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
                // Copies that waited for the oldest result, or for their end, can continue.
                for copy in self.shape.copies[cell.plan_box].iter().filter(|copy| **copy != cell_idx) {
                    self.notify(*copy, TaskKind::Regular, new_tasks);
                }
            }
            return true;
        }
        // A full edge must not hold back envelopes that are staged for another edge of the output.
        let staged = &mut running.ports.staged;
        for _ in 0..staged.len() {
            let Some(Staged { edge, envelope, near }) = staged.pop_front() else { break };
            // The consumer takes the mark before it notifies this box of room.
            let offered = if self.edges[edge].is_waited_for() {
                Offered::Full(envelope)
            } else {
                // SAFETY: the caller holds the turn of this producer.
                unsafe { self.offer(&self.edges[edge], envelope, near, new_tasks) }
            };
            if let Offered::Full(envelope) = offered {
                staged.push_back(Staged { edge, envelope, near });
            }
        }
        staged.is_empty()
    }

    /// The box has finished: its outputs end and its inputs close, once no result of it waits for its order.
    fn finish(&self, cell_idx: usize, running: &mut Running, new_tasks: &mut NewTasks) -> Step {
        let cell = &self.boxes[cell_idx];
        if let Some(reorder_idx) = cell.reorder {
            let mut reorder = self.reorders[reorder_idx].lock();
            if reorder.copies_open == 1
                && reorder.waiting() > 0
                && !cell.at.outputs.iter().flat_map(PortEdges::iter).all(Edge::is_closed)
            {
                return Step::Idle;
            }
            debug_assert!(reorder.copies_open > 0, "more copies of a box have ended than it has");
            reorder.copies_open -= 1;
        }
        self.close_inputs(cell_idx, running, new_tasks);
        for edge in cell.at.outputs.iter().flat_map(PortEdges::iter) {
            if edge.end() {
                for consumer in edge.consumers.iter() {
                    self.notify(*consumer, TaskKind::Immediate, new_tasks);
                }
            }
        }
        Step::Done
    }

    #[expect(unsafe_code, reason = "an edge without locks trusts its two boxes")]
    fn close_inputs(&self, cell_idx: usize, running: &mut Running, new_tasks: &mut NewTasks) {
        let cell = &self.boxes[cell_idx];
        for (closed, edges) in running.ports.closed_inputs.iter_mut().zip(cell.at.inputs.iter()) {
            if std::mem::replace(closed, true) {
                continue;
            }
            for edge in edges.iter() {
                // SAFETY: the caller holds the turn of this consumer.
                if let Some(notice) = unsafe { close_edge(edge, cell_idx, &self.ledger) } {
                    self.notify_as(cell_idx, notice, new_tasks);
                }
            }
        }
    }
}
