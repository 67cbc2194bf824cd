//! A sound index, or the file that follows one, damaged: refused, or read as it was; with the checksums put right,
//! refused or read without a panic.
#![no_main]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use arbitrary::Arbitrary;
use boxwork_fuzz::damage::Damage;
use boxwork_fuzz::{folder, index, seal, store};
use boxwork_stores::pivot_table::PivotTable;
use boxwork_stores::space::Space;
use libfuzzer_sys::fuzz_target;

/// An index of 300 objects, and what follows it: the rows of 3 more.
struct Sound {
    space: Arc<dyn Space>,
    paths: [PathBuf; 2],
    files: [Vec<u8>; 2],
    content: Vec<u32>,
}

static SOUND: LazyLock<Sound> = LazyLock::new(|| {
    let (path, index) = (folder().join("indexed"), folder().join("index"));
    drop(store::write(&path, 300));
    index::write(&index::space(&path), &[3, 70, 299], &index);
    store::grow(&path, 300..303, &[]);
    let space = index::space(&path);
    index::append(&space, &index);
    let paths = [index.clone(), folder().join("index.part-1")];
    let files = paths.each_ref().map(|path| fs::read(path).expect("a file just written"));
    let content = index::content(&PivotTable::open(&index, Arc::clone(&space)).expect("a sound index"));
    Sound { space, paths, files, content }
});

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    is_part: bool,
    damages: Vec<Damage<'a>>,
}

fuzz_target!(|input: Input<'_>| {
    let sound = &*SOUND;
    let which = usize::from(input.is_part);
    let mut file = sound.files[which].clone();
    input.damages.iter().for_each(|damage| damage.apply(&mut file));
    write(&sound.paths[which], &file);
    write(&sound.paths[1 - which], &sound.files[1 - which]);
    match PivotTable::open(&sound.paths[0], Arc::clone(&sound.space)) {
        Err(error) => assert!(file != sound.files[which], "{error}"),
        // A fuzzer that sees comparisons writes right checksums too; damage does not.
        Ok(_) if seal::tail_digits(&file) != seal::tail_digits(&sound.files[which]) => {}
        Ok(table) => assert!(index::content(&table) == sound.content, "damage went unnoticed"),
    }
    if seal::seal(&mut file).is_some() {
        write(&sound.paths[which], &file);
        if let Ok(table) = PivotTable::open(&sound.paths[0], Arc::clone(&sound.space)) {
            index::content(&table);
        }
    }
});

fn write(path: &Path, file: &[u8]) {
    fs::write(path, file).expect("a folder that can be written to");
}
