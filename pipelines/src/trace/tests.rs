//! A trace is parsed, and checked for the properties on which a viewer relies.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use boxwork_lab::sample_images::SampleSet;
use boxwork_runtime::parameter::Value;
use boxwork_runtime::statistics::{TraceEvent, TraceKind};
use boxwork_runtime::topology::{Distance, Topology};
use serde_json::Value as Json;

use super::{Recorded, write};
use crate::shipped;
use crate::terminal::{self, Exit, Options};

/// The lines of a trace, without those that only name things.
fn lines(text: &str) -> Vec<Json> {
    let json: Json = serde_json::from_str(text).expect("the trace is JSON");
    let all = json["traceEvents"].as_array().expect("events").clone();
    all.into_iter().filter(|line| line["ph"] != "M").collect()
}

fn ns(json: &Json) -> u64 {
    let us = json.as_f64().expect("a time in microseconds");
    (us * 1e3).round() as u64
}

type Track = (u64, u64);

fn track(line: &Json) -> Track {
    (line["pid"].as_u64().expect("a process"), line["tid"].as_u64().expect("a track"))
}

/// Asserts the rules of the Trace Event Format, which Chrome and Perfetto read, for a line of each phase.
fn check_form(text: &str) {
    let json: Json = serde_json::from_str(text).expect("the trace is JSON");
    for line in json["traceEvents"].as_array().expect("events") {
        let (ph, is_number) = (line["ph"].as_str().expect("a phase"), |key: &str| line[key].is_u64());
        assert!(line["name"].as_str().is_some_and(|name| !name.is_empty()), "no name: {line}");
        assert!(is_number("pid"), "no process: {line}");
        let timed = line["ts"].as_f64().is_some_and(|ts| ts >= 0.0);
        let has_form = match ph {
            "M" => line["args"].is_object(),
            "X" => timed && is_number("tid") && line["dur"].as_f64().is_some_and(|dur| dur > 0.0),
            "b" | "e" | "s" | "f" => timed && is_number("tid") && is_number("id") && line["cat"].is_string(),
            "C" => timed && line["args"].as_object().is_some_and(|args| args.values().all(Json::is_number)),
            _ => false,
        };
        assert!(has_form, "not of the format: {line}");
    }
}

/// Asserts all properties of a trace, and returns the number of arrows by name.
fn check(text: &str) -> BTreeMap<String, usize> {
    check_form(text);
    let lines = lines(text);
    let mut last: BTreeMap<(String, Option<u64>), u64> = BTreeMap::new();
    let mut slices: BTreeMap<Track, Vec<(u64, u64)>> = BTreeMap::new();
    for line in &lines {
        let at = ns(&line["ts"]);
        let of = (line["pid"].to_string(), line["tid"].as_u64());
        let before = last.insert(of, at).unwrap_or(0);
        assert!(before <= at, "out of order: {line}");
        if line["ph"] == "X" {
            let track = slices.entry(track(line)).or_default();
            let ended = track.last().map_or(0, |(_, end)| *end);
            assert!(ended <= at, "slices overlap: {line}");
            track.push((at, at + ns(&line["dur"])));
        }
    }
    check_asynchronous(&lines);
    let mut tails: BTreeMap<u64, &Json> = BTreeMap::new();
    let mut arrows = BTreeMap::new();
    for line in lines.iter().filter(|line| line["ph"] == "s" || line["ph"] == "f") {
        let at = ns(&line["ts"]);
        let held = slices[&track(line)].iter().any(|(begin, end)| *begin <= at && at < *end);
        assert!(held, "an arrow's end lies in no slice: {line}");
        let id = line["id"].as_u64().expect("an id");
        if line["ph"] == "s" {
            assert!(tails.insert(id, line).is_none(), "two arrows have one id: {line}");
        } else {
            assert_eq!(line["bp"], "e");
            let tail = tails.remove(&id).expect("an arrow begins before it ends");
            assert_eq!((&tail["name"], &tail["cat"]), (&line["name"], &line["cat"]));
            *arrows.entry(line["name"].as_str().expect("a name").to_owned()).or_insert(0) += 1;
        }
    }
    assert!(tails.is_empty(), "arrows without an end: {tails:?}");
    arrows
}

/// Closures that block begin and end on their own tracks, their phases within them.
fn check_asynchronous(lines: &[Json]) {
    let mut open: BTreeMap<u64, Vec<&str>> = BTreeMap::new();
    let mut seen = BTreeSet::new();
    for line in lines.iter().filter(|line| line["ph"] == "b" || line["ph"] == "e") {
        let (id, name) = (line["id"].as_u64().expect("an id"), line["name"].as_str().expect("a name"));
        let stack = open.entry(id).or_default();
        if line["ph"] == "b" {
            assert!(!stack.is_empty() || seen.insert(id), "one id for two closures: {line}");
            stack.push(name);
        } else {
            assert_eq!(stack.pop(), Some(name), "phases cross: {line}");
        }
    }
    assert!(open.values().all(Vec::is_empty), "closures without an end: {open:?}");
}

/// The last value of a counter's series.
fn last_count(text: &str, name: &str, series: &str) -> Option<u64> {
    lines(text).iter().rfind(|line| line["ph"] == "C" && line["name"] == name)?["args"][series].as_u64()
}

fn written(events: &[TraceEvent], topology: &Topology, edges: &[&str]) -> String {
    let edges: Vec<String> = edges.iter().map(|edge| (*edge).to_owned()).collect();
    let mut out = Vec::new();
    write(&mut out, &Recorded { events, topology, edges: &edges }).expect("written");
    String::from_utf8(out).expect("text")
}

fn firing(
    slot: usize,
    thread: usize,
    name: &str,
    (begin_ns, end_ns): (u64, u64),
    edges: &[(usize, usize)],
) -> TraceEvent {
    let kind = TraceKind::Firing { name: name.to_owned(), request: 1, thread, edges: edges.to_vec() };
    TraceEvent { slot, begin_ns, duration_ns: end_ns - begin_ns, queued: 0, kind }
}

fn detached(slot: usize, (begin_ns, end_ns): (u64, u64), to: usize) -> TraceEvent {
    let kind = TraceKind::Detached {
        name: "read".to_owned(),
        class: "disk".to_owned(),
        request: 1,
        permit_ns: 100,
        blocked_ns: 300,
        to,
    };
    TraceEvent { slot, begin_ns, duration_ns: end_ns - begin_ns, queued: 3, kind }
}

fn steal(slot: usize, from: usize, (begin_ns, end_ns): (u64, u64)) -> TraceEvent {
    let kind = TraceKind::Steal { from, distance: Distance::Cache };
    TraceEvent { slot, begin_ns, duration_ns: end_ns - begin_ns, queued: 1, kind }
}

fn permit(slot: usize, (begin_ns, end_ns): (u64, u64)) -> TraceEvent {
    let kind = TraceKind::Permit { name: "read".to_owned(), class: "disk".to_owned(), request: 1 };
    TraceEvent { slot, begin_ns, duration_ns: end_ns - begin_ns, queued: 0, kind }
}

fn branch(slot: usize, thread: usize, (begin_ns, end_ns): (u64, u64)) -> TraceEvent {
    let kind = TraceKind::Branch { thread };
    TraceEvent { slot, begin_ns, duration_ns: end_ns - begin_ns, queued: 0, kind }
}

/// Two copies of `read` block at once, both from slot 0: thread 0 gives its slot to thread 5, and this one to thread 6.
fn overlapping() -> Vec<TraceEvent> {
    vec![
        firing(0, 0, "read", (1_000, 2_000), &[(0, 2)]),
        firing(0, 5, "read", (2_100, 3_001), &[(1, 4)]),
        firing(0, 6, "sum", (3_100, 5_000), &[(0, 1), (1, 0)]),
        detached(0, (2_000, 6_000), 1),
        steal(1, 0, (3_200, 3_333)),
        firing(1, 1, "sum", (3_400, 5_900), &[(0, 0)]),
        firing(1, 0, "read", (6_000, 6_500), &[(0, 5)]),
        detached(0, (3_001, 7_007), 0),
        firing(0, 5, "read", (7_007, 7_008), &[]),
    ]
}

#[test]
fn closures_that_overlap_have_tracks_of_their_own_and_arrows_both_ends() {
    let text = written(&overlapping(), &Topology::flat(2), &["a.out -> b.in", "a.out -> b.in"]);
    let arrows = check(&text);
    let counts: Vec<(&str, usize)> = arrows.iter().map(|(name, count)| (name.as_str(), *count)).collect();
    assert_eq!(counts, [("attach", 2), ("give away", 2), ("steal", 1)]);
    let whole = lines(&text).into_iter().filter(|line| line["ph"] == "b" && line["name"] == "read [disk]");
    assert_eq!(whole.count(), 2);
}

#[test]
fn counters_sum_over_copies_and_end_at_nothing() {
    let text = written(&overlapping(), &Topology::flat(2), &["a.out -> b.in", "a.out -> b.in"]);
    let depths: Vec<u64> = lines(&text)
        .iter()
        .filter(|line| line["ph"] == "C" && line["name"] == "a.out -> b.in")
        .map(|line| line["args"]["envelopes"].as_u64().expect("a depth"))
        .collect();
    assert_eq!(depths, [2, 6, 5, 1, 0, 5, 0], "at the end of each firing, and at the end of all");
    assert_eq!(last_count(&text, "disk", "block"), Some(0));
    let most = lines(&text).iter().filter_map(|line| line["args"]["wait for a slot"].as_u64()).max();
    assert_eq!(most, Some(2));
    assert_eq!(last_count(&text, "request queues", "tasks"), Some(0));
}

#[test]
fn a_wait_for_a_permit_lies_beside_its_slot_and_a_branch_on_it() {
    let events = [
        firing(0, 0, "a", (1_000, 9_000), &[]),
        steal(1, 0, (1_500, 1_600)),
        branch(1, 1, (1_600, 4_000)),
        // It waited while both slots were busy.
        permit(1, (1_200, 4_500)),
        firing(1, 1, "read", (5_000, 6_000), &[]),
    ];
    let text = written(&events, &Topology::flat(2), &[]);
    check(&text);
    let of = |ph: &str, name: &str| {
        let lines = lines(&text).into_iter().find(|line| line["ph"] == ph && line["name"] == name);
        lines.map(|line| ns(&line["ts"]))
    };
    assert_eq!((of("b", "read [disk]"), of("e", "waits for a permit")), (Some(1_200), Some(4_500)));
    assert_eq!(of("X", "branch"), Some(1_600));
    let waiting: Vec<u64> =
        lines(&text).iter().filter_map(|line| line["args"]["wait for a permit"].as_u64()).collect();
    assert_eq!(waiting, [1, 0]);
}

#[test]
fn a_trace_that_lost_its_beginning_has_no_loose_arrows() {
    for kept in 1..overlapping().len() {
        let events = overlapping().split_off(kept);
        check(&written(&events, &Topology::flat(2), &[]));
    }
    assert!(lines(&written(&[], &Topology::flat(1), &[])).is_empty());
}

#[test]
fn an_extraction_on_more_slots_than_cores_can_be_drawn() {
    let folder = tempfile::tempdir().expect("a folder");
    let (images, out) = (folder.path().join("images"), folder.path().join("s.arrow"));
    SampleSet::new(2, 6, 1).expect("a set").write(&images, &mut |_, _| {}).expect("images");
    let path = |path: &Path| Value::Text(path.to_string_lossy().into_owned());
    let values = BTreeMap::from([
        ("paths".to_owned(), Value::List(vec![path(&images)])),
        ("out".to_owned(), path(&out)),
        ("points".to_owned(), Value::Integer(100)),
        ("seeds".to_owned(), Value::Integer(20)),
    ]);
    let trace = folder.path().join("trace.json");
    let options = Options { workers: Some(6), trace: Some(trace.clone()), ..Options::default() };
    let catalog = boxwork_operators::catalog();
    assert_eq!(terminal::run(&shipped::EXTRACT.load(), &catalog, &values, &options), Exit::Ok);
    let text = std::fs::read_to_string(&trace).expect("a trace");
    let arrows = check(&text);
    // The stealing slot is random; detached reading of files is not.
    assert!(arrows.get("attach").is_some_and(|count| *count > 0), "{arrows:?}");
    let read = lines(&text).iter().filter(|line| line["ph"] == "b" && line["name"] == "blocks").count();
    assert!(read > 0);
    assert_eq!(last_count(&text, "disk", "block"), Some(0));
    assert_eq!(last_count(&text, "left.files -> bytes.files", "envelopes"), Some(0));
}
