//! Sound lists of vectors, of their codes or of their directions, damaged: refused, or their candidates are as before; with the
//! checksums put right, refused or scanned without a panic.
#![no_main]

use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

use arbitrary::Arbitrary;
use boxwork_fuzz::damage::Damage;
use boxwork_fuzz::{folder, seal, vectors};
use boxwork_stores::lists::{Coding, Lists};
use boxwork_stores::space::Space;
use libfuzzer_sys::fuzz_target;

const CODINGS: [Coding; 4] = [Coding::Rows, Coding::Product, Coding::Fast, Coding::Rabitq];

/// Lists of one coding.
struct Sound {
    path: PathBuf,
    file: Vec<u8>,
    found: Vec<Vec<(u64, u32)>>,
}

static SPACE: LazyLock<Arc<dyn Space>> = LazyLock::new(|| vectors::space(300));

static SOUND: LazyLock<Vec<Sound>> = LazyLock::new(|| {
    let sound = |coding: Coding| {
        let path = folder().join(format!("{}.lists.arrow", coding.name()));
        vectors::write_lists(&SPACE, coding, &path);
        let found = Lists::open(&path, &SPACE).and_then(|lists| vectors::found(&lists));
        Sound {
            file: fs::read(&path).expect("a file just written"),
            found: found.expect("sound lists"),
            path,
        }
    };
    CODINGS.into_iter().map(sound).collect()
});

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    coding: u8,
    damages: Vec<Damage<'a>>,
}

fuzz_target!(|input: Input<'_>| {
    let sound = &SOUND[usize::from(input.coding) % CODINGS.len()];
    let mut file = sound.file.clone();
    input.damages.iter().for_each(|damage| damage.apply(&mut file));
    let read = |file: &[u8]| {
        fs::write(&sound.path, file).expect("a folder that can be written to");
        Lists::open(&sound.path, &SPACE).and_then(|lists| vectors::found(&lists))
    };
    match read(&file) {
        Err(error) => assert!(file != sound.file, "{error}"),
        // A fuzzer that sees comparisons writes right checksums too; damage does not.
        Ok(_) if seal::tail_digits(&file) != seal::tail_digits(&sound.file) => {}
        Ok(found) => assert!(found == sound.found, "damage went unnoticed"),
    }
    if seal::seal(&mut file).is_some() {
        drop(read(&file));
    }
});
