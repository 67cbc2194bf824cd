//! A trace of a run in the JSON format that Perfetto and chrome://tracing open.
//!
//! One process for each NUMA node, one track for each slot. Closures that block, and tasks that wait for a permit
//! before they are fired, have their own tracks, as many overlap. Arrows lead from the victim's slot of a steal to the
//! thief, from a firing that detached to the thread that took over its slot, and to the place where the box itself
//! continued. Counters show waiting tasks of the request queues, and the fill of each edge and blocking class.
//! Invariants: marks are sorted by time, an arrow has both of its ends and each lies in a slice, and slices of one
//! track do not overlap.

mod slices;
mod arrows;
mod counters;
#[cfg(test)]
mod tests;

use std::io::{self, Write};

use boxwork_runtime::statistics::{TraceEvent, TraceKind};
use boxwork_runtime::topology::Topology;
use serde_json::{Value as Json, json};

use self::arrows::Arrow;
use self::counters::Counters;
use self::slices::{Phase, Slices};

/// The input of a trace.
#[derive(Clone, Copy, Debug)]
pub struct Recorded<'a> {
    /// The events that the runtime recorded, in any order.
    pub events: &'a [TraceEvent],
    /// The machine.
    pub topology: &'a Topology,
    /// The names of a request's edges, by index.
    pub edges: &'a [String],
}

/// One line of the trace, at its time.
struct Mark {
    at_ns: u64,
    what: MarkKind,
}

enum MarkKind {
    /// An event of a slot's track.
    Slice(usize),
    /// A blocking closure, or a phase of it, begins or ends.
    Begin(usize, Phase),
    End(usize, Phase),
    Tail(Arrow),
    Head(Arrow),
    /// A counter's new values.
    Count(usize, Vec<(&'static str, usize)>),
}

/// Writes a trace.
///
/// # Errors
/// When it cannot be written.
pub fn write(mut out: impl Write, recorded: &Recorded<'_>) -> io::Result<()> {
    let slices = Slices::new(recorded);
    let mut marks = slices.marks();
    marks.extend(arrows::marks(&slices));
    let counters = Counters::new(recorded);
    marks.extend(counters.marks(recorded));
    // Stable: at one instant a slice comes before the arrows that end in it, and phases keep their order.
    marks.sort_by_key(|mark| mark.at_ns);
    write!(out, "{{\"displayTimeUnit\": \"ns\", \"traceEvents\": [")?;
    let mut first = true;
    let mut line = |json: &Json| -> io::Result<()> {
        write!(out, "{}\n{json}", if std::mem::take(&mut first) { "" } else { "," })
    };
    for json in names(recorded.topology, &counters) {
        line(&json)?;
    }
    for mark in &marks {
        line(&mark.json(recorded, &counters))?;
    }
    writeln!(out, "\n]}}")?;
    out.flush()
}

/// The names of processes and tracks.
fn names(topology: &Topology, counters: &Counters) -> Vec<Json> {
    let process = |pid: usize, name: String| {
        let sorted =
            json!({"ph": "M", "name": "process_sort_index", "pid": pid, "args": {"sort_index": pid}});
        [json!({"ph": "M", "name": "process_name", "pid": pid, "args": {"name": name}}), sorted]
    };
    let nodes = 0..topology.nodes().len();
    let mut names: Vec<Json> = nodes.flat_map(|node| process(node, format!("node {node}"))).collect();
    names.extend(counters.processes().flat_map(|(pid, name)| process(pid, name.to_owned())));
    for slot in 0..topology.slots_count() {
        let (pid, name) = (topology.node(slot), format!("slot {slot}"));
        names
            .push(json!({"ph": "M", "name": "thread_name", "pid": pid, "tid": slot, "args": {"name": name}}));
    }
    names
}

impl Mark {
    fn json(&self, recorded: &Recorded<'_>, counters: &Counters) -> Json {
        let ts = microseconds(self.at_ns);
        match &self.what {
            MarkKind::Slice(idx) => {
                let event = &recorded.events[*idx];
                let (category, arguments) = match &event.kind {
                    TraceKind::Firing { request, thread, .. } => {
                        ("firing", json!({"request": request, "thread": format!("boxwork-{thread}")}))
                    }
                    TraceKind::Detached { request, class, .. } | TraceKind::Permit { request, class, .. } => {
                        ("detached", json!({"request": request, "class": class}))
                    }
                    TraceKind::Branch { thread } => {
                        ("branch", json!({"thread": format!("boxwork-{thread}")}))
                    }
                    TraceKind::Steal { from, distance } => {
                        ("steal", json!({"from": from, "distance": distance.to_string()}))
                    }
                };
                json!({
                    "ph": "X", "name": event.kind.to_string(), "cat": category, "pid": recorded.topology.node(event.slot),
                    "tid": event.slot, "ts": ts, "dur": microseconds(slices::duration_ns(event)), "args": arguments,
                })
            }
            MarkKind::Begin(idx, phase) => phase_json("b", ts, *idx, *phase, recorded),
            MarkKind::End(idx, phase) => phase_json("e", ts, *idx, *phase, recorded),
            MarkKind::Tail(arrow) => arrow_json("s", ts, arrow, recorded.topology),
            MarkKind::Head(arrow) => arrow_json("f", ts, arrow, recorded.topology),
            MarkKind::Count(track, values) => {
                let (pid, name) = counters.track(*track);
                let values: serde_json::Map<_, _> =
                    values.iter().map(|(series, value)| ((*series).to_owned(), json!(value))).collect();
                json!({"ph": "C", "name": name, "pid": pid, "ts": ts, "args": values})
            }
        }
    }
}

fn phase_json(ph: &str, ts: f64, idx: usize, phase: Phase, recorded: &Recorded<'_>) -> Json {
    let event = &recorded.events[idx];
    let name = phase.name().map_or_else(|| event.kind.to_string(), str::to_owned);
    let pid = recorded.topology.node(event.slot);
    let mut json = json!({"ph": ph, "name": name, "cat": "detached", "id": idx, "pid": pid, "tid": event.slot, "ts": ts});
    match (&event.kind, phase, ph) {
        (TraceKind::Detached { request, class, to, .. }, Phase::Whole, "b") => {
            json["args"] = json!({"request": request, "class": class, "slot given away": event.slot, "went on on slot": to});
        }
        (TraceKind::Permit { request, class, .. }, Phase::Whole, "b") => {
            json["args"] = json!({"request": request, "class": class, "fired on slot": event.slot});
        }
        _ => {}
    }
    json
}

fn arrow_json(ph: &str, ts: f64, arrow: &Arrow, topology: &Topology) -> Json {
    let slot = if ph == "s" { arrow.from } else { arrow.to };
    let mut json = json!({
        "ph": ph, "id": arrow.id, "name": arrow.name, "cat": "arrow", "pid": topology.node(slot), "tid": slot, "ts": ts,
    });
    if ph == "f" {
        // The arrow ends in the enclosing slice, not in the next one.
        json["bp"] = "e".into();
    }
    json
}

fn microseconds(ns: u64) -> f64 {
    ns as f64 / 1e3
}
