//! The events of requests, one after the other.

use boxwork_runtime::statistics::TraceEvent;

/// Prints the events that take at least a tenth of a millisecond: when each begins, and how long it lasts.
pub fn print(trace: &[TraceEvent]) {
    let mut events: Vec<_> = trace.iter().filter(|event| event.duration_ns >= 100_000).collect();
    events.sort_by_key(|event| event.begin_ns);
    let first = trace.iter().map(|event| event.begin_ns).min().unwrap_or(0);
    for event in events {
        let (begin, duration) = ((event.begin_ns - first) as f64 / 1e6, event.duration_ns as f64 / 1e6);
        println!("    {begin:7.2} ms  {duration:6.2} ms  slot {:>2}  {}", event.slot, event.kind);
    }
}
