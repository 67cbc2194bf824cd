//! A store that was changed, one of its files damaged: refused, or read as it was; a record or a list of removed
//! objects whose checksum is put right is refused or read without a panic.
#![no_main]

use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

use arbitrary::Arbitrary;
use boxwork_fuzz::damage::Damage;
use boxwork_fuzz::store::{self, Content};
use boxwork_fuzz::{folder, seal};
use libfuzzer_sys::fuzz_target;

/// The record, the base, the removals, the additions.
const FILES: [&str; 4] = ["changed", "changed.part-0", "changed.part-1", "changed.part-2"];

struct Sound {
    paths: [PathBuf; 4],
    files: [Vec<u8>; 4],
    content: Content,
}

static SOUND: LazyLock<Sound> = LazyLock::new(|| {
    let paths = FILES.map(|name| folder().join(name));
    drop(store::write(&paths[0], 6));
    store::grow(&paths[0], 6..9, &[1, 4]);
    let files = paths.each_ref().map(|path| fs::read(path).expect("a file just written"));
    Sound { content: store::read(&paths[0]).expect("a sound store"), paths, files }
});

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    which: u8,
    damages: Vec<Damage<'a>>,
}

fuzz_target!(|input: Input<'_>| {
    let sound = &*SOUND;
    let which = usize::from(input.which) % FILES.len();
    let mut file = sound.files[which].clone();
    input.damages.iter().for_each(|damage| damage.apply(&mut file));
    let write = |file: &[u8]| fs::write(&sound.paths[which], file).expect("a folder that can be written to");
    write(&file);
    match store::read(&sound.paths[0]) {
        Err(error) => assert!(file != sound.files[which], "{error}"),
        Ok(read) => {
            assert!(read == sound.content || is_sealed(which, &file), "damage went unnoticed: {read:?}")
        }
    }
    let is_right = match which {
        0 => seal::seal_record(&mut file),
        2 => seal::seal_removed(&mut file),
        _ => seal::seal(&mut file),
    };
    if is_right.is_some() {
        write(&file);
        let _ = store::read(&sound.paths[0]);
    }
    write(&sound.files[which]);
});

/// Whether the fuzzer, which sees comparisons, has written a checksum that fits its change.
fn is_sealed(which: usize, file: &[u8]) -> bool {
    which == 0 && {
        let mut again = file.to_vec();
        seal::seal_record(&mut again).is_some() && again == file
    }
}
