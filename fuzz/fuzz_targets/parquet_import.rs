//! Bytes as a Parquet file of another program: refused with the file's name, or read as objects that a store takes and keeps.
#![no_main]

use std::fs;

use boxwork_fuzz::{folder, objects};
use boxwork_stores::any_kind;
use boxwork_stores::object_column;
use libfuzzer_sys::fuzz_target;

fuzz_target!(
    // A panic of Parquet's reader is caught where the file is read, as in `arrow_import`.
    init: std::panic::set_hook(Box::new(|_| {})),
    |bytes: &[u8]| {
        let path = folder().join("foreign.parquet");
        // Other first bytes are those of another format.
        let bytes = [b"PAR1", bytes.strip_prefix(b"PAR1").unwrap_or(bytes)].concat();
        fs::write(&path, bytes).expect("a folder that can be written to");
        for column in ["object", "embedding"] {
            let store = match object_column::open(&path, Some(column), "name", None) {
                Ok(store) => store,
                Err(error) => {
                    let message = error.to_string();
                    assert!(message.contains("foreign.parquet") && !message.contains("panic"), "{message}");
                    continue;
                }
            };
            let content = objects::content(&store).expect("objects in memory");
            objects::search(&store).expect("objects that were accepted");
            let mut names = content.names.clone();
            names.sort_unstable();
            names.dedup();
            let own = folder().join("own.arrow");
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
    }
);
