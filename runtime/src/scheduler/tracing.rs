//! The events of a thread's work in a trace. Without a trace none of this runs.
//!
//! Invariants: a slot has one event at a time, because only its holder records firings, branches and steals on it. A
//! firing that detaches is recorded in parts, so that the closure that blocks between them takes none of the slot's
//! time. A detached closure begins when one part ends, and ends when the next part begins.

use std::time::Instant;

use super::Scheduler;
use super::worker::{Blocked, Worker};
use crate::model::Model;
use crate::statistics::{TRACE_EVENTS_MAX, TraceEvent, TraceKind};
use crate::sync::now;

impl Scheduler {
    pub(super) fn trace(&self, slot: usize, begun: Instant, ended: Instant, kind: TraceKind) {
        debug_assert!(ended >= begun, "an event of a trace ends before it begins");
        let begin_ns = begun.saturating_duration_since(self.started).as_nanos() as u64;
        let duration_ns = nanoseconds(begun, ended);
        let queued = self.queues[self.crew.topology.node(slot)].len();
        let mut events = self.slots[slot].trace.lock();
        if events.len() == TRACE_EVENTS_MAX {
            events.pop_front();
        }
        events.push_back(TraceEvent { slot, begin_ns, duration_ns, queued, kind });
    }

    /// The events recorded so far, by slot; the trace is empty afterwards.
    pub(crate) fn take_trace(&self) -> Vec<TraceEvent> {
        self.slots.iter().flat_map(|slot| std::mem::take(&mut *slot.trace.lock())).collect()
    }
}

impl Worker {
    /// Ends the part of a firing that has run on this thread's slot.
    pub(super) fn trace_part(&mut self, model: &Model, cell: usize, ended: Instant) {
        if let Some(begun) = self.part_begun.take()
            && let Some(slot) = &self.slot
        {
            let kind = TraceKind::Firing {
                name: model.box_name(cell).to_owned(),
                request: model.id().0,
                thread: self.number,
                edges: model.depths(cell),
            };
            self.scheduler.trace(slot.idx, begun, ended, kind);
        }
    }

    /// Records that a task waited for a permit, if it did.
    pub(super) fn trace_permit(&self, model: &Model, cell: usize, class: &str) {
        if let Some((begun, permitted)) = model.take_permit_wait(cell)
            && let Some(slot) = &self.slot
        {
            let (name, class) = (model.box_name(cell).to_owned(), class.to_owned());
            let kind = TraceKind::Permit { name, class, request: model.id().0 };
            self.scheduler.trace(slot.idx, begun, permitted, kind);
        }
    }

    /// Records a branch that has run on this thread's slot. Its closure cannot detach, so it ends on the slot on which
    /// it began.
    pub(super) fn trace_branch(&self, begun: Instant) {
        if let Some(slot) = &self.slot {
            self.scheduler.trace(slot.idx, begun, now(), TraceKind::Branch { thread: self.number });
        }
    }

    /// Records a closure that blocked, when its thread holds a slot again; the firing's next part begins.
    pub(super) fn trace_blocked(
        &mut self,
        model: &Model,
        cell: usize,
        class: &str,
        old: usize,
        at: &Blocked,
    ) {
        debug_assert!(
            at.begun <= at.permitted && at.permitted <= at.returned,
            "the instants of a closure that blocked are not in their order"
        );
        debug_assert!(
            self.part_begun.is_none(),
            "a firing continues, and its part before it blocked was not recorded"
        );
        let attached = now();
        let kind = TraceKind::Detached {
            name: model.box_name(cell).to_owned(),
            class: class.to_owned(),
            request: model.id().0,
            permit_ns: nanoseconds(at.begun, at.permitted),
            blocked_ns: nanoseconds(at.permitted, at.returned),
            to: self.slot.as_ref().map_or(old, |slot| slot.idx),
        };
        self.scheduler.trace(old, at.begun, attached, kind);
        self.part_begun = Some(attached);
    }
}

fn nanoseconds(from: Instant, to: Instant) -> u64 {
    to.saturating_duration_since(from).as_nanos() as u64
}
