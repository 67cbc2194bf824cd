//! Notifying boxes of events: which boxes, and the tasks that this makes.
//!
//! Invariant: the event is published (in the edge, or the hint) before its box is notified. A notification that makes a
//! task puts it on a [`NewTasks`] list, without a token; the worker that fires the box plans the tasks on the list.

use super::Model;
use super::box_state::Notified;
use crate::edge::{Edge, Offered, PortEdges, RoomWanted};
use crate::envelope::Envelope;
use crate::operator::{FiringState, Notice, PortState};
use crate::request::{RequestError, RequestId};
use crate::sync::Ordering;

/// The kind of a task decides where it is planned. A producer that takes from several edges and is notified of room on
/// an edge between two boxes gets an immediate task: it passes on the envelopes that wait there before other boxes make
/// more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TaskKind {
    /// For an input that was just made: its data are hot.
    Immediate,
    /// For room on an output, or for a box that continues.
    Regular,
}

/// The tasks that a firing has made, until a worker plans them.
#[derive(Default)]
pub(crate) struct NewTasks {
    list: Vec<(usize, TaskKind)>,
    /// The last reading of a request's clock, while the next firing may use it; otherwise 0.
    read_ns: u64,
    read_of: u64,
}

impl NewTasks {
    #[inline]
    pub(crate) fn push(&mut self, cell: usize, kind: TaskKind) {
        self.list.push((cell, kind));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The clock of a request was read, and its next firing follows at once.
    #[inline]
    pub(super) fn has_read(&mut self, request: RequestId, now_ns: u64) {
        (self.read_ns, self.read_of) = (now_ns, request.0);
    }

    /// Time passes: the last reading is out of date.
    #[inline]
    pub(crate) fn forget_clock(&mut self) {
        if self.read_ns != 0 {
            self.read_ns = 0;
        }
    }

    /// The time on the clock of a request; it is read unless that has just been done.
    #[inline(never)]
    pub(super) fn now_ns(&self, model: &Model) -> u64 {
        if self.read_ns != 0 && self.read_of == model.id.0 { self.read_ns } else { model.now_ns() }
    }

    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    /// Takes the first immediate task whose box fits.
    #[inline]
    pub(crate) fn take_first_immediate(&mut self, fits: impl Fn(usize) -> bool) -> Option<usize> {
        let place = self.list.iter().position(|(cell, kind)| *kind == TaskKind::Immediate && fits(*cell))?;
        Some(self.list.remove(place).0)
    }

    /// Takes the task if there is only one, it is immediate, and its box fits.
    #[inline]
    pub(crate) fn take_only_immediate(&mut self, fits: impl Fn(usize) -> bool) -> Option<usize> {
        let [(only, TaskKind::Immediate)] = self.list[..] else { return None };
        fits(only).then(|| {
            self.list.clear();
            only
        })
    }

    pub(crate) fn drain(
        &mut self,
    ) -> impl DoubleEndedIterator<Item = (usize, TaskKind)> + ExactSizeIterator + '_ {
        self.list.drain(..)
    }
}

impl Model {
    /// Notifies a box of an event. A task that this makes goes to the list, without a token.
    #[inline]
    pub(super) fn notify(&self, cell_idx: usize, kind: TaskKind, new_tasks: &mut NewTasks) -> Notified {
        let cell = &self.boxes[cell_idx];
        let notified = cell.state.notify();
        if notified == Notified::Plan {
            if cell.timed.load(Ordering::Relaxed) {
                cell.planned_ns.store(self.now_ns(), Ordering::Relaxed);
            }
            new_tasks.push(cell_idx, kind);
        }
        notified
    }

    /// Notifies the boxes that a firing's ports have noted.
    #[inline(always)]
    pub(super) fn notify_of(
        &self,
        cell_idx: usize,
        (firing, ports): (&mut FiringState, &mut PortState),
        new_tasks: &mut NewTasks,
    ) {
        firing.each_notice(ports, |notice| match notice {
            Notice::Consumer(consumer) => {
                self.notify(consumer, TaskKind::Immediate, new_tasks);
            }
            other => self.notify_as(cell_idx, other, new_tasks),
        });
        if let Some(query) = firing.unknown_query.get() {
            self.fail_of_query(cell_idx, query);
        }
    }

    /// Notifies the boxes of a notice of a box.
    #[inline(never)]
    pub(super) fn notify_as(&self, cell_idx: usize, notice: Notice, new_tasks: &mut NewTasks) {
        match notice {
            Notice::Consumer(consumer) => {
                self.notify(consumer, TaskKind::Immediate, new_tasks);
            }
            Notice::OneConsumer(edge, near) => self.notify_one_consumer(&self.edges[edge], near, new_tasks),
            Notice::Producers(edge) => {
                for producer in self.edges[edge].producers.iter() {
                    self.notify(*producer, TaskKind::Regular, new_tasks);
                }
            }
            Notice::Budget => self.notify_budget(new_tasks),
            Notice::Hint(hint) => {
                for reader in self.boxes[cell_idx].at.hints_written[hint].readers.iter() {
                    self.notify(*reader, TaskKind::Regular, new_tasks);
                }
            }
            Notice::Closed { edge, freed } => self.notify_of_closing(&self.edges[edge], freed, new_tasks),
        }
    }

    /// Notifies the producers of an edge that all consumers have closed. `freed`: the budget has room again.
    fn notify_of_closing(&self, edge: &Edge, mut freed: bool, new_tasks: &mut NewTasks) {
        debug_assert!(edge.is_closed(), "the closing is published before the notification");
        for producer in edge.producers.iter() {
            // Before the notification: the firing that follows reads it.
            self.boxes[*producer].at.closing.store(true, Ordering::Release);
            if self.notify(*producer, TaskKind::Regular, new_tasks) == Notified::Done {
                // The producer may have put something in without having seen the closing; or it has seen it and drains
                // the edge now.
                freed |= edge.reap(&self.ledger);
            }
        }
        if freed {
            self.notify_budget(new_tasks);
        }
    }

    /// Notifies the producers that wait for room on the edges of a box, where there is room. For the other producers
    /// the box's flag is set again: a later firing that makes room notifies them.
    pub(super) fn notify_of_room(&self, cell_idx: usize, new_tasks: &mut NewTasks) {
        let mut later = false;
        for edge in self.boxes[cell_idx].at.inputs.iter().flat_map(PortEdges::iter) {
            match edge.room_wanted() {
                RoomWanted::No => {}
                RoomWanted::Later => later = true,
                RoomWanted::Now => {
                    for producer in edge.producers.iter() {
                        let kind = if self.boxes[*producer].merges() {
                            TaskKind::Immediate
                        } else {
                            TaskKind::Regular
                        };
                        self.notify(*producer, kind, new_tasks);
                    }
                }
            }
        }
        if later {
            self.boxes[cell_idx].state.want_room();
        }
    }

    /// Offers an envelope to an edge and notifies one consumer.
    ///
    /// # Safety
    /// The caller is in a firing of a producer of the edge.
    #[expect(unsafe_code, reason = "an edge without locks trusts its two boxes")]
    pub(super) unsafe fn offer(
        &self,
        edge: &Edge,
        envelope: Envelope,
        near: Option<usize>,
        new_tasks: &mut NewTasks,
    ) -> Offered {
        let want_room = |consumer: usize| self.boxes[consumer].state.want_room();
        // SAFETY: the caller's contract.
        let offered = unsafe { edge.offer(envelope, near, &self.ledger, want_room) };
        if let Offered::Taken = offered {
            self.notify_one_consumer(edge, near, new_tasks);
        }
        offered
    }

    /// Notifies one idle copy, or a running one if all are busy; that copy looks at the edge again. A copy that has
    /// closed the edge is not notified: it would take nothing and notify no other copy. If the envelope's data are on a
    /// node, the copy's task is planned there.
    pub(super) fn notify_one_consumer(&self, edge: &Edge, near: Option<usize>, new_tasks: &mut NewTasks) {
        if let Some(only) = edge.only_consumer() {
            self.notify(only, TaskKind::Immediate, new_tasks);
            return;
        }
        let near = near.filter(|node| *node < self.nodes);
        let nth = near.map(|node| (node, self.nodes));
        if let Some(copy) = edge.find_open(nth, |copy| self.boxes[copy].state.is_idle()) {
            // The copy looks at the edge before it waits, or closes the edge and notifies another copy.
            if self.notify(copy, TaskKind::Immediate, new_tasks) == Notified::Plan
                && let Some(node) = near
            {
                // This caller plans the task, so no other thread reads the node meanwhile.
                self.boxes[copy].near.store(node, Ordering::Relaxed);
            }
        }
    }

    /// Notifies the producers that wait for the request's budget.
    pub(super) fn notify_budget(&self, new_tasks: &mut NewTasks) {
        for edge in self.edges.iter().filter(|edge| edge.is_wanted()) {
            // Without its mark the producer offers again.
            edge.take_wanted();
            for producer in edge.producers.iter() {
                self.notify(*producer, TaskKind::Regular, new_tasks);
            }
        }
    }

    /// Ends the request because a box asked for the hint of a query that the request does not have. The number comes
    /// from an envelope, so this is not a bug of the runtime.
    #[cold]
    fn fail_of_query(&self, cell: usize, query: u32) {
        let name = self.box_name(cell).to_owned();
        let most = self.prepared.plan().queries;
        let cause = format!(
            "there is no query {query}: a request of this pipeline has at most {most} queries, numbered from 0; \
             `queries:` in the pipeline allows more"
        );
        self.fail(RequestError::Failed { name, cause });
    }
}
