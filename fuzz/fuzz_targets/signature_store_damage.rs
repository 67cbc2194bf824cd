//! A sound store, damaged: refused, or read as it was.
#![no_main]

use std::fs;
use std::sync::LazyLock;

use arbitrary::Arbitrary;
use boxwork_fuzz::damage::Damage;
use boxwork_fuzz::store::{self, Content};
use boxwork_fuzz::{folder, seal};
use libfuzzer_sys::fuzz_target;

/// A store of one batch, and one of two.
static SOUND: LazyLock<[(Vec<u8>, Content); 2]> = LazyLock::new(|| {
    [5, 4100].map(|objects| {
        let bytes = store::bytes(objects);
        let path = folder().join("sound");
        fs::write(&path, &bytes).expect("a folder that can be written to");
        (bytes, store::read(&path).expect("a sound store"))
    })
});

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    // The large one costs much more time.
    large: u8,
    damages: Vec<Damage<'a>>,
}

fuzz_target!(|input: Input<'_>| {
    let (sound, content) = &SOUND[usize::from(input.large > 250)];
    let mut bytes = sound.clone();
    input.damages.iter().for_each(|damage| damage.apply(&mut bytes));
    let path = folder().join("damaged");
    fs::write(&path, &bytes).expect("a folder that can be written to");
    match store::read(&path) {
        Err(error) => assert!(bytes != *sound, "{error}"),
        // A fuzzer that sees comparisons writes right checksums too; damage does not.
        Ok(_) if seal::tail_digits(&bytes) != seal::tail_digits(sound) => {}
        Ok(read) => assert!(read == *content, "damage went unnoticed: {read:?}"),
    }
});
