//! A text as JSON lines of vectors, texts, sets or codes: refused with the line's number, or imported, and then a store and
//! what is read from it say the same. Each line as the text of a query, too.
#![no_main]

use std::fs;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef};
use boxwork_fuzz::{folder, objects};
use boxwork_operators::read_jsonl::READ_JSONL;
use boxwork_operators::read_store::READ_STORE;
use boxwork_operators::write_store::WRITE_STORE;
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::harness::Harness;
use boxwork_runtime::operator::{In, Out, Resource};
use boxwork_runtime::parameter::Value;
use boxwork_stores::any_kind;
use boxwork_stores::object_column;
use boxwork_stores::store::{SharedStore, concatenated};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let lines = folder().join("in.jsonl");
    fs::write(&lines, bytes).expect("a folder that can be written to");
    for (kind, _) in objects::KINDS {
        check(&lines, bytes, kind);
    }
});

fn check(lines: &Path, bytes: &[u8], kind: &'static str) {
    let envelopes = match import(lines, kind) {
        Ok(envelopes) => envelopes,
        Err(message) => {
            let place = message.split_once("in.jsonl:").and_then(|(_, rest)| rest.split(':').next());
            let line: usize = place.and_then(|line| line.parse().ok()).expect("the line's number");
            let lines = bytes.split(|byte| *byte == b'\n').count();
            assert!((1..=lines).contains(&line), "{message}");
            return;
        }
    };
    if envelopes.is_empty() {
        return;
    }
    let given = content(&envelopes);
    let store = folder().join("store");
    if let Err(message) = write(&store, kind, &envelopes) {
        assert!(message.contains("boxwork-crc32="), "{message}");
        return;
    }
    let opened = any_kind::open(&store, None).expect("the store just written");
    let kept = objects::content(&opened).expect("the store just written");
    assert!((&kept.names, &kept.columns) == (&given.0, &given.1), "{kept:?}");
    objects::search(&opened).expect("objects that were accepted");

    // The lines themselves as a store.
    let kind = any_kind::named(kind).expect("a kind");
    let column =
        object_column::open(lines, Some("object"), "name", Some(kind)).expect("lines that were imported");
    let read = objects::content(&column).expect("objects in memory");
    assert!((&read.columns, &read.names) == (&given.1, &given.0), "{read:?}");

    for line in String::from_utf8_lossy(bytes).lines() {
        if let Ok(Some(query)) = opened.parse(line) {
            assert_eq!(query.len(), 1);
            query.to_data().validate_full().expect("a sound query");
        }
    }

    let resource: Resource = Arc::new(SharedStore(opened));
    let parameters = [("store", Value::Text("s".to_owned())), ("holds", Value::Text(kind.name().to_owned()))];
    let mut source = Harness::with_resources(&READ_STORE, parameters, [("s", resource)]).expect("a box");
    source.run().expect("a sound store");
    assert!(content(&source.taken(Out::nth(0))) == given);
}

fn path(path: &Path) -> Value {
    Value::Text(path.to_str().expect("a path of ours").to_owned())
}

fn import(from: &Path, kind: &str) -> Result<Vec<Envelope>, String> {
    let parameters = [("path", path(from)), ("holds", Value::Text(kind.to_owned()))];
    let mut harness = Harness::new(&READ_JSONL, parameters).map_err(|error| error.to_string())?;
    harness.run().map_err(|error| error.to_string())?;
    Ok(harness.taken(Out::nth(0)))
}

fn write(out: &Path, kind: &str, envelopes: &[Envelope]) -> Result<(), String> {
    let parameters = [("out", path(out)), ("holds", Value::Text(kind.to_owned()))];
    let mut harness = Harness::new(&WRITE_STORE, parameters).map_err(|error| error.to_string())?;
    envelopes.iter().for_each(|envelope| harness.give(In::nth(0), envelope.clone()));
    harness.end(In::nth(0));
    harness.run().map_err(|error| error.to_string())
}

/// The names and the objects.
fn content(envelopes: &[Envelope]) -> (Vec<String>, Vec<ArrayRef>) {
    let names = |envelope: &Envelope| -> Vec<String> {
        envelope.texts("name").expect("a column").iter().flatten().map(str::to_owned).collect()
    };
    let arrays: Vec<ArrayRef> =
        envelopes.iter().map(|envelope| Arc::clone(envelope.column("object").expect("a column"))).collect();
    let objects = concatenated(&arrays).expect("objects of one kind");
    (envelopes.iter().flat_map(names).collect(), vec![objects])
}
