//! Bytes as a store: refused, or read without a panic, also with the checksums put right.
#![no_main]

use std::fs;

use boxwork_fuzz::{folder, seal, store};
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
    if store::read(&path).is_ok() {
        // A store that can be read can be searched; NaN numbers give NaN distances.
        store::search(&path).expect("a store that can be read");
    }
}
