//! The arrows of a trace: steals, and slots that change hands.
//!
//! A trace that was too long has lost its oldest events: an arrow is drawn only if both of its slices exist.

use boxwork_runtime::statistics::{TraceEvent, TraceKind};

use super::slices::{Slices, duration_ns, end_ns};
use super::{Mark, MarkKind};

/// From a slice of one slot to a slice of another slot, or to a later one of its own.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrow {
    pub(super) id: usize,
    pub(super) name: &'static str,
    pub(super) from: usize,
    pub(super) to: usize,
}

const LOST_NS: u64 = 4;

/// A thief took a task.
const STEAL: &str = "steal";
/// A thread that blocks gave its slot to another one.
const GIVE_AWAY: &str = "give away";
/// A box that blocked continued.
const ATTACH: &str = "attach";

pub(super) fn marks(slices: &Slices<'_>) -> Vec<Mark> {
    let mut marks = Vec::new();
    let mut arrow = |name, (from, tail_ns): (usize, u64), (to, head_ns): (usize, u64)| {
        let arrow = Arrow { id: marks.len() / 2, name, from, to };
        marks.push(Mark { at_ns: tail_ns, what: MarkKind::Tail(arrow) });
        marks.push(Mark { at_ns: head_ns, what: MarkKind::Head(arrow) });
    };
    for event in slices.events {
        match &event.kind {
            TraceKind::Firing { .. } | TraceKind::Branch { .. } | TraceKind::Permit { .. } => {}
            TraceKind::Steal { from, .. } => {
                let taken_ns = last_ns(event);
                // The victim's slice at that time; if it was idle, its last slice, which planned the task.
                if let Some(victim) = slices.until(*from, taken_ns).next() {
                    arrow(STEAL, (*from, taken_ns.min(last_ns(victim))), (event.slot, taken_ns));
                }
            }
            TraceKind::Detached { to, .. } => {
                let Some(before) = ended_at(slices, event.slot, event.begin_ns) else { continue };
                let tail = (event.slot, last_ns(before));
                let next =
                    slices.since(event.slot, event.begin_ns).find_map(|next| Some((next, thread(next)?)));
                if let Some((next, holder)) = next
                    && thread(before).is_some_and(|gave| gave != holder)
                {
                    arrow(GIVE_AWAY, tail, (event.slot, next.begin_ns));
                }
                let attached_ns = event.begin_ns + event.duration_ns;
                if slices.since(*to, attached_ns).next().is_some_and(|part| part.begin_ns == attached_ns) {
                    arrow(ATTACH, tail, (*to, attached_ns));
                }
            }
        }
    }
    marks
}

/// The last instant within a slice, minus the rounding of a viewer that reads microseconds as whole nanoseconds.
fn last_ns(event: &TraceEvent) -> u64 {
    let last = duration_ns(event) - 1;
    event.begin_ns + last - LOST_NS.min(last / 2)
}

/// The part of a firing that ended when its closure began.
fn ended_at<'a>(slices: &Slices<'a>, slot: usize, at_ns: u64) -> Option<&'a TraceEvent> {
    // The second one at most: a slice may begin at this very instant.
    slices.until(slot, at_ns).take(2).find(|part| part.begin_ns < at_ns && end_ns(part) == at_ns)
}

fn thread(event: &TraceEvent) -> Option<usize> {
    match event.kind {
        TraceKind::Firing { thread, .. } | TraceKind::Branch { thread } => Some(thread),
        _ => None,
    }
}
