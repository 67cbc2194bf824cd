//! Bytes as a file of samples of each format: refused with the file's name, or finite numbers, as many as are named.
#![no_main]

use std::fs;

use boxwork_fuzz::folder;
use boxwork_stores::sample_file::{SampleColumns, SampleError, SampleFile};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    for (name, inputs, target) in [("s.csv", "x", "y"), ("s.npy", "0", "1"), ("s.arrow", "x", "y")] {
        for drops_missing in [false, true] {
            let asked = SampleColumns {
                inputs: vec![inputs.to_owned()],
                target: Some(target.to_owned()),
                names: None,
                drops_missing,
            };
            if let Err(error) = read(bytes, name, &asked) {
                assert!(error.to_string().contains(name), "{error}");
            }
        }
    }
});

fn read(bytes: &[u8], name: &str, asked: &SampleColumns) -> Result<(), SampleError> {
    let path = folder().join(name);
    fs::write(&path, bytes).expect("a folder that can be written to");
    let mut file = SampleFile::open(&path, asked)?;
    while let Some(rows) = file.next(100)? {
        assert!(rows.inputs.len() == rows.len() && rows.targets.len() == rows.len());
        assert!(rows.inputs.iter().chain(&rows.targets).all(|number| number.is_finite()));
    }
    Ok(())
}
