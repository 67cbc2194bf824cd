//! A text as JSON lines: refused with the line's number, or imported, and then a store, an export and a second import
//! all say the same.
#![no_main]

use std::fs;
use std::path::Path;
use std::sync::Arc;

use arrow_array::Array;
use boxwork_fuzz::folder;
use boxwork_operators::read_jsonl::READ_JSONL;
use boxwork_operators::read_store::READ_STORE;
use boxwork_operators::write_jsonl::WRITE_JSONL;
use boxwork_operators::write_store::WRITE_STORE;
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::harness::Harness;
use boxwork_runtime::operator::{In, OperatorSpec, Out, Resource};
use boxwork_runtime::parameter::Value;
use boxwork_stores::signature::{SignatureColumns, check, coordinate_names};
use boxwork_stores::signature_store::SignatureStore;
use boxwork_stores::testing;
use libfuzzer_sys::fuzz_target;

/// An object, its numbers as bits.
#[derive(Debug, PartialEq)]
struct Object {
    name: String,
    columns: Vec<Vec<u32>>,
    size: (u32, u32),
}

fuzz_target!(|bytes: &[u8]| {
    let [lines, again, store] = ["in.jsonl", "again.jsonl", "store"].map(|name| folder().join(name));
    fs::write(&lines, bytes).expect("a folder that can be written to");
    let first = match read(&lines) {
        Ok(envelopes) => envelopes,
        Err(message) => {
            let place =
                message.split_once("in.jsonl:").map(|(_, rest)| rest.split(':').next().unwrap_or_default());
            let line: usize = place.and_then(|line| line.parse().ok()).expect("the line's number");
            let lines = bytes.split(|byte| *byte == b'\n').count();
            assert!((1..=lines).contains(&line), "{message}");
            return;
        }
    };
    if first.is_empty() {
        return;
    }
    let (names, objects) = content(&first);
    if let Err(message) = give(&WRITE_STORE, &store, &first) {
        assert!(message.contains("boxwork-crc32="), "{message}");
        return;
    }
    let opened = Arc::new(SignatureStore::open(&store).expect("the store just written"));
    opened.verify().expect("the store just written");
    assert_eq!(opened.len() as usize, objects.len());
    assert_eq!(opened.coordinates(), names);
    for (id, object) in objects.iter().enumerate() {
        assert_eq!(opened.find(&object.name).expect("a sound store"), Some(id as u64));
    }
    let parameters = [("store", Value::Text("s".to_owned()))];
    let store: Resource = testing::shared_store(&opened);
    let mut source = Harness::with_resources(&READ_STORE, parameters, [("s", store)]).expect("a box");
    source.run().expect("a sound store");
    let stored = source.taken(Out::nth(0));
    assert_eq!(content(&stored), (names.clone(), objects));

    give(&WRITE_JSONL, &again, &stored).expect("what was imported can be exported");
    let second = read(&again).expect("what was exported can be imported");
    assert_eq!(content(&second), content(&first));
});

fn path(path: &Path) -> Value {
    Value::Text(path.to_str().expect("a path of ours").to_owned())
}

fn read(from: &Path) -> Result<Vec<Envelope>, String> {
    let mut harness = Harness::new(&READ_JSONL, [("path", path(from))]).map_err(|error| error.to_string())?;
    harness.run().map_err(|error| error.to_string())?;
    Ok(harness.taken(Out::nth(0)))
}

fn give(sink: &'static OperatorSpec, out: &Path, envelopes: &[Envelope]) -> Result<(), String> {
    let mut harness = Harness::new(sink, [("out", path(out))]).map_err(|error| error.to_string())?;
    envelopes.iter().for_each(|envelope| harness.give(In::nth(0), envelope.clone()));
    harness.end(In::nth(0));
    harness.run().map_err(|error| error.to_string())
}

/// The coordinates' names and the objects.
fn content(envelopes: &[Envelope]) -> (Vec<String>, Vec<Object>) {
    let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
    let (mut names, mut objects) = (Vec::new(), Vec::new());
    for envelope in envelopes {
        let lists = envelope.lists("signature").expect("a column");
        names = coordinate_names(lists.data_type()).expect("signatures");
        let columns = SignatureColumns::new(lists).expect("signatures");
        let texts = envelope.texts("name").expect("a column");
        let (widths, heights) =
            (envelope.u32s("width").expect("a column"), envelope.u32s("height").expect("a column"));
        for row in 0..envelope.rows() {
            let signature = columns.signature(row);
            check(signature).expect("what is accepted is sound");
            let mut columns: Vec<Vec<u32>> =
                (0..columns.dimensions()).map(|axis| bits(signature.coordinate(axis))).collect();
            columns.push(bits(signature.weights()));
            let size = (widths[row], heights[row]);
            objects.push(Object { name: texts.value(row).to_owned(), columns, size });
        }
    }
    (names, objects)
}
