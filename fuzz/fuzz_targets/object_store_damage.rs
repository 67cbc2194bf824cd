//! A sound store of any kind, damaged: refused, or read as it was.
#![no_main]

use std::fs;
use std::sync::LazyLock;

use arbitrary::Arbitrary;
use boxwork_fuzz::damage::Damage;
use boxwork_fuzz::objects::{self, Content, KINDS};
use boxwork_fuzz::{folder, seal};
use libfuzzer_sys::fuzz_target;

static SOUND: LazyLock<[(Vec<u8>, Content); KINDS.len()]> = LazyLock::new(|| {
    KINDS.map(|kind| {
        let path = folder().join("sound");
        objects::write(&path, kind);
        (fs::read(&path).expect("the store just written"), objects::read(&path).expect("a sound store"))
    })
});

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    kind: u8,
    damages: Vec<Damage<'a>>,
}

fuzz_target!(|input: Input<'_>| {
    let (sound, content) = &SOUND[usize::from(input.kind) % KINDS.len()];
    let mut bytes = sound.clone();
    input.damages.iter().for_each(|damage| damage.apply(&mut bytes));
    let path = folder().join("damaged");
    fs::write(&path, &bytes).expect("a folder that can be written to");
    match objects::read(&path) {
        Err(error) => assert!(bytes != *sound, "{error}"),
        // A fuzzer that sees comparisons writes right checksums too; damage does not.
        Ok(_) if seal::tail_digits(&bytes) != seal::tail_digits(sound) => {}
        Ok(read) => assert!(read == *content, "damage went unnoticed: {read:?}"),
    }
});
