//! Bytes as a file of vectors of each format: refused with the file's name, or rows that are finite and fill the file.
#![no_main]

use std::fs;

use boxwork_fuzz::folder;
use boxwork_kernels::vector::NumberType;
use boxwork_stores::vector_file::{Bare, ENDINGS, VectorFile};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    for ending in ENDINGS {
        check(bytes, &format!("in.{ending}"), None);
    }
    check(bytes, "in", Some(Bare { numbers: NumberType::F16, dimensions: 3 }));
});

fn check(bytes: &[u8], name: &str, bare: Option<Bare>) {
    let path = folder().join(name);
    fs::write(&path, bytes).expect("a folder that can be written to");
    let read = VectorFile::open(&path, bare).and_then(|mut file| {
        let count = file.len() as usize;
        assert!(count * file.dimensions() <= bytes.len());
        Ok((file.dimensions(), file.read(0, count)?))
    });
    match read {
        Ok((dimensions, rows)) => {
            assert!(rows.len() > 0);
            for row in 0..rows.len() {
                assert!(rows.row(row).len() == dimensions && rows.row(row).not_finite().is_none());
            }
        }
        Err(error) => assert!(error.to_string().contains(name), "{error}"),
    }
}
