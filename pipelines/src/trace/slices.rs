//! The slices of a trace: the work of each slot in order, and the closures that blocked or waited for a permit.

use boxwork_runtime::statistics::{TraceEvent, TraceKind};

use super::{Mark, MarkKind, Recorded};

/// A blocking closure (or a task that waits for its permit) as a whole, and its phases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Whole,
    Permit,
    Blocked,
    Attaching,
}

impl Phase {
    /// The label of its slice; `None` for the whole, which has the name of its box.
    pub(super) fn name(self) -> Option<&'static str> {
        match self {
            Self::Whole => None,
            Self::Permit => Some("waits for a permit"),
            Self::Blocked => Some("blocks"),
            Self::Attaching => Some("waits for a slot"),
        }
    }
}

/// The events of all slots' tracks, found by slot and time.
pub(super) struct Slices<'a> {
    pub(super) events: &'a [TraceEvent],
    /// By slot: its events, sorted by their beginning.
    of_slot: Vec<Vec<usize>>,
}

/// Whether an event took no time of its slot: closures that block, and tasks that wait for a permit.
fn is_beside(kind: &TraceKind) -> bool {
    matches!(kind, TraceKind::Detached { .. } | TraceKind::Permit { .. })
}

/// An empty slice cannot hold an arrow: it is drawn one nanosecond long.
pub(super) fn duration_ns(event: &TraceEvent) -> u64 {
    event.duration_ns.max(1)
}

pub(super) fn end_ns(event: &TraceEvent) -> u64 {
    event.begin_ns + duration_ns(event)
}

impl<'a> Slices<'a> {
    pub(super) fn new(recorded: &Recorded<'a>) -> Self {
        let events = recorded.events;
        let mut of_slot = vec![Vec::new(); recorded.topology.slots_count()];
        for (idx, event) in events.iter().enumerate() {
            if !is_beside(&event.kind) {
                of_slot[event.slot].push(idx);
            }
        }
        for of_slot in &mut of_slot {
            of_slot.sort_by_key(|idx: &usize| events[*idx].begin_ns);
        }
        Self { events, of_slot }
    }

    /// The slices of a slot that begin by this time, latest first.
    pub(super) fn until(&self, slot: usize, at_ns: u64) -> impl Iterator<Item = &'a TraceEvent> {
        let of_slot = &self.of_slot[slot];
        let count = of_slot.partition_point(|idx| self.events[*idx].begin_ns <= at_ns);
        of_slot[..count].iter().rev().map(|idx| &self.events[*idx])
    }

    /// The slices of a slot that begin at this time or later.
    pub(super) fn since(&self, slot: usize, at_ns: u64) -> impl Iterator<Item = &'a TraceEvent> {
        let of_slot = &self.of_slot[slot];
        let before = of_slot.partition_point(|idx| self.events[*idx].begin_ns < at_ns);
        of_slot[before..].iter().map(|idx| &self.events[*idx])
    }

    pub(super) fn marks(&self) -> Vec<Mark> {
        let mut marks = Vec::new();
        for (idx, event) in self.events.iter().enumerate() {
            let mut mark = |at_ns: u64, what: MarkKind| marks.push(Mark { at_ns, what });
            if let TraceKind::Permit { .. } = &event.kind {
                for phase in [Phase::Whole, Phase::Permit] {
                    mark(event.begin_ns, MarkKind::Begin(idx, phase));
                }
                for phase in [Phase::Permit, Phase::Whole] {
                    mark(end_ns(event), MarkKind::End(idx, phase));
                }
                continue;
            }
            let TraceKind::Detached { permit_ns, blocked_ns, .. } = &event.kind else {
                mark(event.begin_ns, MarkKind::Slice(idx));
                continue;
            };
            let permitted = event.begin_ns + permit_ns;
            let end = end_ns(event).max(permitted + blocked_ns);
            mark(event.begin_ns, MarkKind::Begin(idx, Phase::Whole));
            let phases = [
                (Phase::Permit, event.begin_ns, permitted),
                (Phase::Blocked, permitted, permitted + blocked_ns),
                (Phase::Attaching, permitted + blocked_ns, end),
            ];
            for (phase, from, to) in phases.into_iter().filter(|(_, from, to)| from < to) {
                mark(from, MarkKind::Begin(idx, phase));
                mark(to, MarkKind::End(idx, phase));
            }
            mark(end, MarkKind::End(idx, Phase::Whole));
        }
        marks
    }
}
