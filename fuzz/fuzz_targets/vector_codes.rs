//! Sound codes of vectors, in planes or product codes, damaged: refused, or as before; with the checksums put right, refused or read
//! without a panic.
#![no_main]

use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

use arbitrary::Arbitrary;
use boxwork_fuzz::damage::Damage;
use boxwork_fuzz::{folder, seal, vectors};
use boxwork_kernels::codes::{Encoder, Levels};
use boxwork_kernels::pieces::one_by_one;
use boxwork_stores::space::Space;
use boxwork_stores::vector_codes::{self, CodesWriter, ROWS};
use libfuzzer_sys::fuzz_target;

const LEVELS: [Levels; 3] = [Levels::Planes, Levels::Sq4, Levels::Product16];

/// Codes of some levels.
struct Sound {
    path: PathBuf,
    file: Vec<u8>,
    said: String,
}

static SPACE: LazyLock<Arc<dyn Space>> = LazyLock::new(|| vectors::space(300));

static SOUND: LazyLock<Vec<Sound>> = LazyLock::new(|| {
    let sound = |levels: Levels| {
        let path = folder().join(format!("{}.codes.arrow", levels.name()));
        write(levels, &path);
        let codes = vector_codes::open(&path, &**SPACE).expect("sound codes");
        Sound { file: fs::read(&path).expect("a file just written"), said: format!("{codes:?}"), path }
    };
    LEVELS.into_iter().map(sound).collect()
});

fn write(levels: Levels, path: &std::path::Path) {
    let (store, measure) = vector_codes::vectors_of(&**SPACE).expect("vectors");
    let centre = vector_codes::centre_of(&store, measure, &|| false).expect("sound vectors");
    let encoder: Encoder =
        vector_codes::encoder_of(levels, &store, measure, centre, &mut one_by_one()).expect("sound vectors");
    let mut writer =
        CodesWriter::create(path, &**SPACE, encoder.clone()).expect("a folder that can be written to");
    for first in (0..store.len()).step_by(ROWS) {
        let rows = first..store.len().min(first + ROWS as u64);
        let words = vector_codes::words_of(&store, &encoder, rows).expect("sound vectors");
        writer.push(&words).expect("a folder that can be written to");
    }
    writer.finish().expect("a folder that can be written to");
}

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    levels: u8,
    damages: Vec<Damage<'a>>,
}

fuzz_target!(|input: Input<'_>| {
    let sound = &SOUND[usize::from(input.levels) % LEVELS.len()];
    let mut file = sound.file.clone();
    input.damages.iter().for_each(|damage| damage.apply(&mut file));
    let read = |file: &[u8]| {
        fs::write(&sound.path, file).expect("a folder that can be written to");
        vector_codes::open(&sound.path, &**SPACE)
    };
    match read(&file) {
        Err(error) => assert!(file != sound.file, "{error}"),
        // A fuzzer that sees comparisons writes right checksums too; damage does not.
        Ok(_) if seal::tail_digits(&file) != seal::tail_digits(&sound.file) => {}
        Ok(codes) => assert!(format!("{codes:?}") == sound.said, "damage went unnoticed"),
    }
    if seal::seal(&mut file).is_some() {
        drop(read(&file));
    }
});
