//! Stalls: a request with nothing left to run and boxes that have not finished.
//!
//! After Parks (Bounded Scheduling of Process Networks, 1995), the smallest full edge that a producer waits on is
//! grown, within the request's budget. It is grown only while that can help: its consumer waits for another input, or
//! the edge has had fewer than [`GROWTHS_MAX`] doublings, for a consumer that takes a larger piece at once.

use std::fmt::Write as _;

use super::{Model, NewTasks, TaskKind};
use crate::edge::{Edge, PortEdges};
use crate::operator::Mode;

/// How often an edge grows for a consumer that takes nothing although all its inputs have envelopes.
const GROWTHS_MAX: usize = 4;
/// An edge that holds this many bytes grows no further, whatever the request's budget.
const GROWN_BYTES_MAX: usize = 1 << 30;
/// An edge that holds this many envelopes grows no further: small ones count few bytes.
const GROWN_ENVELOPES_MAX: usize = 1 << 20;

/// Ends the stall by growing an edge, and returns the tasks that this makes. Otherwise returns a report of which box
/// waits for what.
pub(super) fn grow(model: &Model) -> Result<NewTasks, String> {
    let smallest = (0..model.edges.len()).filter(|edge| can_help(model, *edge)).min_by_key(|edge| {
        let state = model.edges[*edge].state();
        (state.bytes, state.envelopes)
    });
    let mut new_tasks = NewTasks::default();
    if let Some(edge) = smallest {
        let edge = &model.edges[edge];
        edge.grow();
        for producer in &*edge.producers {
            model.notify(*producer, TaskKind::Regular, &mut new_tasks);
        }
    }
    if new_tasks.is_empty() { Err(report(model)) } else { Ok(new_tasks) }
}

fn can_help(model: &Model, edge_idx: usize) -> bool {
    let edge = &model.edges[edge_idx];
    let state = edge.state();
    let too_large = state.bytes >= GROWN_BYTES_MAX || state.envelopes >= GROWN_ENVELOPES_MAX;
    if !state.wanted || state.closed || too_large || !model.ledger.has_room() {
        return false;
    }
    // A box waits for the end of a side input, and for an envelope on a stream.
    let waits_for = |mode: Mode, other: &Edge| {
        other.idx != edge_idx && !other.has_end() && (mode == Mode::Side || !other.has_waiting())
    };
    let starved = edge.consumers.iter().any(|consumer| {
        model.boxes[*consumer].ports().any(|(mode, edges)| edges.any(|other| waits_for(mode, other)))
    });
    starved || state.grown < GROWTHS_MAX
}

/// The boxes that wait, each with its full or empty edge.
fn report(model: &Model) -> String {
    let mut lines = String::new();
    for edge in &model.edges {
        let state = edge.state();
        let (from, to) = model.edge_ends(edge);
        let held = format!(
            "{} of {} envelopes, {} of {} bytes",
            state.envelopes,
            bound(state.envelopes_max),
            state.bytes,
            bound(state.bytes_max)
        );
        if state.wanted {
            let _ = writeln!(lines, "  `{from}` waits for room: `{from} -> {to}` is full ({held})");
        }
        let consumer_open = edge.consumers.iter().any(|consumer| !model.boxes[*consumer].state.is_done());
        if consumer_open && !state.closed {
            if state.envelopes > 0 {
                let _ = writeln!(lines, "  `{to}` takes nothing, though `{from} -> {to}` holds {held}");
            } else if !state.ended {
                let _ = writeln!(lines, "  `{to}` waits for input: `{from} -> {to}` is empty");
            }
        }
    }
    for (idx, cell) in model.boxes.iter().enumerate() {
        let fed = cell.at.inputs.iter().any(|edges| !edges.is_empty());
        if !cell.state.is_done() && !fed {
            let _ = writeln!(
                lines,
                "  box `{}` has no inputs, waits, and is never notified",
                model.box_name(idx)
            );
        }
        let ended = cell.at.inputs.iter().flat_map(PortEdges::iter).all(Edge::is_ended);
        if !cell.state.is_done() && fed && ended {
            let _ =
                writeln!(lines, "  box `{}` waits, though all its inputs have ended", model.box_name(idx));
        }
    }
    if let Some(limit) = model.ledger.limit().filter(|_| !model.ledger.has_room()) {
        let _ = writeln!(lines, "  the request's memory budget of {limit} bytes is used up: give it more");
    }
    lines.truncate(lines.trim_end().len());
    lines
}

fn bound(limit: usize) -> String {
    if limit == usize::MAX { "any".to_owned() } else { limit.to_string() }
}
