//! Bytes as a store of any kind: refused, or read and searched without a panic, also with the checksums put right.
#![no_main]

use std::fs;

use boxwork_fuzz::{folder, objects, seal};
use boxwork_stores::any_kind;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    check(bytes);
    let mut sealed = bytes.to_vec();
    if seal::seal(&mut sealed).is_some() && sealed != bytes {
        check(&sealed);
    }
});

fn check(bytes: &[u8]) {
    let path = folder().join("fuzzed");
    fs::write(&path, bytes).expect("a folder that can be written to");
    let Ok(store) = any_kind::open(&path, None) else { return };
    if objects::content(&store).is_ok() {
        objects::search(&store).expect("a store that can be read");
    }
}
