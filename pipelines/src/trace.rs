//! A trace of a run in the JSON format that Perfetto and chrome://tracing open.
//!
//! One process for each NUMA node, one track for each slot; blocking closures have a track of their own beside the
//! slot that they gave away, and steals are arrows from the victim to the thief.

use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::Path;

use boxwork_runtime::statistics::{TraceEvent, TraceKind};
use boxwork_runtime::topology::Topology;
use serde_json::{Value as Json, json};

/// Tracks of blocking closures are numbered from here.
const DETACHED_TRACKS: usize = 1_000_000;

/// Writes the events to a file.
///
/// # Errors
/// When the file cannot be written.
pub fn write(path: &Path, events: &[TraceEvent], topology: &Topology) -> io::Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    write!(file, "{{\"displayTimeUnit\": \"ns\", \"traceEvents\": [")?;
    let mut first = true;
    let mut line = |json: Json| -> io::Result<()> {
        write!(file, "{}\n{json}", if std::mem::take(&mut first) { "" } else { "," })
    };
    for node in 0..topology.nodes().len() {
        line(
            json!({"ph": "M", "name": "process_name", "pid": node, "args": {"name": format!("node {node}")}}),
        )?;
    }
    for slot in 0..topology.slots_count() {
        let node = topology.node(slot);
        line(
            json!({"ph": "M", "name": "thread_name", "pid": node, "tid": slot, "args": {"name": format!("slot {slot}")}}),
        )?;
    }
    for (arrow, event) in events.iter().enumerate() {
        let (begin_us, duration_us) = (event.begin_ns as f64 / 1e3, event.duration_ns as f64 / 1e3);
        let node = topology.node(event.slot);
        match &event.kind {
            TraceKind::Firing { request, .. } => line(json!({
                "ph": "X", "name": event.kind.to_string(), "cat": "firing", "pid": node, "tid": event.slot,
                "ts": begin_us, "dur": duration_us, "args": {"request": request},
            }))?,
            TraceKind::Detached { request, class, .. } => line(json!({
                "ph": "X", "name": event.kind.to_string(), "cat": "detached", "pid": node,
                "tid": DETACHED_TRACKS + event.slot, "ts": begin_us, "dur": duration_us,
                "args": {"request": request, "class": class},
            }))?,
            TraceKind::Steal { from, distance } => {
                let args = json!({"distance": distance.to_string()});
                line(json!({
                    "ph": "s", "id": arrow, "name": "steal", "cat": "steal", "pid": topology.node(*from), "tid": from,
                    "ts": begin_us, "args": args,
                }))?;
                line(json!({
                    "ph": "f", "bp": "e", "id": arrow, "name": "steal", "cat": "steal", "pid": node, "tid": event.slot,
                    "ts": begin_us + 0.001,
                }))?;
            }
        }
    }
    writeln!(file, "\n]}}")?;
    file.flush()
}
