//! Bytes as an Arrow file or stream of another program: refused with the file's name, or read as objects that a store
//! takes and keeps, and as rows of the columns that a pipeline wants.
#![no_main]

use std::fs;
use std::path::Path;

use arrow_array::Array;
use boxwork_fuzz::{folder, objects};
use boxwork_operators::read_arrow::READ_ARROW;
use boxwork_runtime::harness::Harness;
use boxwork_runtime::operator::Out;
use boxwork_runtime::parameter::Value;
use boxwork_stores::any_kind::{self, AnyKind, KINDS};
use boxwork_stores::object_column;
use libfuzzer_sys::fuzz_target;

const COLUMNS: [&str; 4] = ["bytes", "signatures", "queries", "distances"];

fuzz_target!(
    // A panic of Arrow's reader is caught where the file is read: the fuzzer's own hook would end the process before. A
    // panic that is not caught ends it all the same.
    init: std::panic::set_hook(Box::new(|_| {})),
    |bytes: &[u8]| {
        let path = folder().join("foreign.arrow");
        fs::write(&path, bytes).expect("a folder that can be written to");
        for kind in KINDS.iter().map(|kind| Some(*kind)).chain([None]) {
            import(&path, kind);
        }
        for columns in COLUMNS {
            read(&path, columns);
        }
    }
);

fn import(path: &Path, kind: Option<&'static dyn AnyKind>) {
    let store = match object_column::open(path, Some("object"), "name", kind) {
        Ok(store) => store,
        Err(error) => {
            let message = error.to_string();
            assert!(message.contains("foreign.arrow") && !message.contains("panic"), "{message}");
            return;
        }
    };
    let content = objects::content(&store).expect("objects in memory");
    objects::search(&store).expect("objects that were accepted");
    let own = folder().join("own.arrow");
    let mut names = content.names.clone();
    names.sort_unstable();
    names.dedup();
    match any_kind::copy(&store, &own, &|| false) {
        Ok(count) => {
            let kept = objects::read(&own).expect("the store just written");
            assert_eq!(count, store.objects_count());
            assert!(kept.names == content.names && kept.columns == content.columns, "{kept:?}");
        }
        // Each object of a store has a name of its own; columns of others need not.
        Err(error) => assert!(names.len() < content.names.len(), "{error}"),
    }
}

fn read(path: &Path, columns: &str) {
    let path = Value::Text(path.to_str().expect("a path of ours").to_owned());
    let settings = [("columns", Value::Text(columns.to_owned())), ("path", path)];
    let outcome = Harness::new(&READ_ARROW, settings).and_then(|mut harness| {
        harness.run()?;
        Ok(harness.taken(Out::nth(0)))
    });
    match outcome {
        Ok(envelopes) => {
            for column in envelopes.iter().flat_map(|envelope| envelope.batch().columns()) {
                column.to_data().validate_full().expect("a sound column");
            }
        }
        Err(error) => assert!(!error.to_string().contains("panic"), "{error}"),
    }
}
