//! Notifying boxes of events: which boxes, why, and the tasks that this makes.
//!
//! Invariant: the event is published (in the edge, or the hint) before its box is notified. A notification that makes a
//! task puts it on a [`Woken`] list, without a token; the worker that fires the box plans what stands there.

use super::Model;
use super::box_state::Notified;
use crate::edge::{Edge, Offered, PortEdges, RoomWanted};
use crate::envelope::Envelope;
use crate::operator::{Moved, Notice, PortState};
use crate::request::{RequestError, RequestId};
use crate::sync::Ordering;

/// Why a box was notified: what decides where its task goes. Room on an edge between two boxes counts as an input for a
/// producer that takes from several: what waits there goes on before more is made.
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
    /// What a request's clock has just said, if the next firing may go by it; 0 for not.
    read_ns: u64,
    read_of: u64,
}

impl Woken {
    #[inline]
    pub(crate) fn push(&mut self, cell: usize, by: WokenBy) {
        self.list.push((cell, by));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The clock of a request was read, and its next firing follows at once.
    #[inline]
    pub(super) fn has_read(&mut self, request: RequestId, now_ns: u64) {
        (self.read_ns, self.read_of) = (now_ns, request.0);
    }

    /// Time passes: what was read does not count any more.
    #[inline]
    pub(crate) fn forget_clock(&mut self) {
        if self.read_ns != 0 {
            self.read_ns = 0;
        }
    }

    /// What the clock of a request says, read anew unless that has just been done.
    #[inline(never)]
    pub(super) fn now_ns(&self, model: &Model) -> u64 {
        if self.read_ns != 0 && self.read_of == model.id.0 { self.read_ns } else { model.now_ns() }
    }

    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    /// Takes the first box that was told of an input and fits.
    #[inline]
    pub(crate) fn take_first_input(&mut self, fits: impl Fn(usize) -> bool) -> Option<usize> {
        let place = self.list.iter().position(|(cell, by)| *by == WokenBy::Input && fits(*cell))?;
        Some(self.list.remove(place).0)
    }

    /// Takes the only box that was told.
    pub(crate) fn take_only(&mut self) -> Option<usize> {
        let [(only, _)] = self.list[..] else { return None };
        self.list.clear();
        Some(only)
    }

    /// Takes the only box that was told, when that was of an input and it fits.
    #[inline]
    pub(crate) fn take_only_input(&mut self, fits: impl Fn(usize) -> bool) -> Option<usize> {
        let [(only, WokenBy::Input)] = self.list[..] else { return None };
        fits(only).then(|| {
            self.list.clear();
            only
        })
    }

    pub(crate) fn drain(
        &mut self,
    ) -> impl DoubleEndedIterator<Item = (usize, WokenBy)> + ExactSizeIterator + '_ {
        self.list.drain(..)
    }
}

impl Model {
    /// Notifies a box of an event; when that makes a task, it stands on the list without a token.
    #[inline]
    pub(super) fn notify(&self, cell_idx: usize, by: WokenBy, woken: &mut Woken) -> Notified {
        let cell = &self.boxes[cell_idx];
        let notified = cell.state.notify();
        if notified == Notified::Plan {
            if cell.timed.load(Ordering::Relaxed) {
                cell.planned_ns.store(self.now_ns(), Ordering::Relaxed);
            }
            woken.push(cell_idx, by);
        }
        notified
    }

    /// Notifies the boxes that a firing's ports have noted.
    #[inline(always)]
    pub(super) fn notify_of(
        &self,
        cell_idx: usize,
        (moved, ports): (&mut Moved, &mut PortState),
        woken: &mut Woken,
    ) {
        moved.each_notice(ports, |notice| match notice {
            Notice::Consumer(consumer) => {
                self.notify(consumer, WokenBy::Input, woken);
            }
            other => self.notify_as(cell_idx, other, woken),
        });
        if let Some(query) = moved.unknown_query.get() {
            self.fail_of_query(cell_idx, query);
        }
    }

    /// Notifies the boxes of a notice of a box.
    #[inline(never)]
    pub(super) fn notify_as(&self, cell_idx: usize, notice: Notice, woken: &mut Woken) {
        match notice {
            Notice::Consumer(consumer) => {
                self.notify(consumer, WokenBy::Input, woken);
            }
            Notice::OneConsumer(edge, near) => self.notify_one_consumer(&self.edges[edge], near, woken),
            Notice::Producers(edge) => {
                for producer in self.edges[edge].producers.iter() {
                    self.notify(*producer, WokenBy::Room, woken);
                }
            }
            Notice::Budget => self.notify_budget(woken),
            Notice::Hint(hint) => {
                for reader in self.boxes[cell_idx].at.hints_written[hint].readers.iter() {
                    self.notify(*reader, WokenBy::Room, woken);
                }
            }
            Notice::Closed { edge, freed } => self.notify_of_closing(&self.edges[edge], freed, woken),
        }
    }

    /// All consumers have closed an edge; `freed`: the budget has room again.
    fn notify_of_closing(&self, edge: &Edge, mut freed: bool, woken: &mut Woken) {
        debug_assert!(edge.is_closed(), "the closing is published before the notification");
        for producer in edge.producers.iter() {
            // Before the notification, so that the firing that follows looks.
            self.boxes[*producer].at.closing.store(true, Ordering::Release);
            if self.notify(*producer, WokenBy::Room, woken) == Notified::Done {
                // The producer may have put something in without having seen the closing; or it has seen it and drains
                // the edge now.
                freed |= edge.reap(&self.ledger);
            }
        }
        if freed {
            self.notify_budget(woken);
        }
    }

    /// Notifies the producers that wait for room on the edges of a box, and have some. For the others its flag goes up
    /// again: they are notified when a later firing has made room for them.
    pub(super) fn notify_of_room(&self, cell_idx: usize, woken: &mut Woken) {
        let mut later = false;
        for edge in self.boxes[cell_idx].at.inputs.iter().flat_map(PortEdges::iter) {
            match edge.room_wanted() {
                RoomWanted::No => {}
                RoomWanted::Later => later = true,
                RoomWanted::Now => {
                    for producer in edge.producers.iter() {
                        let by = if self.boxes[*producer].merges() { WokenBy::Input } else { WokenBy::Room };
                        self.notify(*producer, by, woken);
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
        woken: &mut Woken,
    ) -> Offered {
        let want_room = |consumer: usize| self.boxes[consumer].state.want_room();
        // SAFETY: the caller's contract.
        let offered = unsafe { edge.offer(envelope, near, &self.ledger, want_room) };
        if let Offered::Taken = offered {
            self.notify_one_consumer(edge, near, woken);
        }
        offered
    }

    /// Notifies one free copy; where all are busy, one of those that run, which then looks again. A copy that has
    /// closed the edge is not notified: it would take nothing and notify no other one. Of an envelope whose data are on a
    /// node, a copy is notified that is to be planned there.
    pub(super) fn notify_one_consumer(&self, edge: &Edge, near: Option<usize>, woken: &mut Woken) {
        if let Some(only) = edge.only_consumer() {
            self.notify(only, WokenBy::Input, woken);
            return;
        }
        let near = near.filter(|node| *node < self.nodes);
        let nth = near.map(|node| (node, self.nodes));
        if let Some(copy) = edge.find_open(nth, |copy| self.boxes[copy].state.is_idle()) {
            // Whatever it does now, it looks at the edge before it waits; or it closes it, and notifies another.
            if self.notify(copy, WokenBy::Input, woken) == Notified::Plan
                && let Some(node) = near
            {
                // The task is this caller's to plan, so no other thread reads it meanwhile.
                self.boxes[copy].near.store(node, Ordering::Relaxed);
            }
        }
    }

    /// Notifies the producers that wait for the request's budget.
    pub(super) fn notify_budget(&self, woken: &mut Woken) {
        for edge in self.edges.iter().filter(|edge| edge.is_wanted()) {
            // Without its mark the producer offers again.
            edge.take_wanted();
            for producer in edge.producers.iter() {
                self.notify(*producer, WokenBy::Room, woken);
            }
        }
    }

    /// Ends the request because a box asked for the hint of a query that the request does not have. The number comes from
    /// an envelope, so it is no bug of the runtime.
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
