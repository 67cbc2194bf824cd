//! Sound permutations, of numbers of one byte or of two in memory, damaged: refused, or their lists are as before in either layout; with the
//! checksums put right, refused or searched without a panic.
#![no_main]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use arbitrary::Arbitrary;
use boxwork_fuzz::damage::Damage;
use boxwork_fuzz::{folder, seal, vectors};
use boxwork_kernels::permutation::Measure;
use boxwork_stores::permutations::{
    Layout, PermutationError, PermutationMaker, PermutationWriter, Permutations,
};
use boxwork_stores::space::Space;
use libfuzzer_sys::fuzz_target;

/// Objects of the space, one of which is removed.
const OBJECTS: usize = 300;
/// Pivots and the length of lists.
const SIZES: [(usize, usize); 2] = [(20, 6), (280, 4)];
const LAYOUTS: [Layout; 2] = [Layout::Scan, Layout::Inverted];

/// The permutations of one size.
struct Sound {
    path: PathBuf,
    file: Vec<u8>,
    found: Found,
}

/// Lists, and the candidates of a query.
type Found = (Vec<Vec<u16>>, Vec<u64>);

static SPACE: LazyLock<Arc<dyn Space>> = LazyLock::new(|| vectors::space(OBJECTS));

static SOUND: LazyLock<Vec<Sound>> = LazyLock::new(|| {
    let sound = |(pivots, length): (usize, usize)| {
        let path = folder().join(format!("{pivots}.permutations.arrow"));
        write(&path, pivots, length).expect("a folder that can be written to");
        let found = read(&path, Layout::Scan).expect("sound permutations");
        assert!(found == read(&path, Layout::Inverted).expect("sound permutations"), "two layouts differ");
        Sound { file: fs::read(&path).expect("a file just written"), found, path }
    };
    SIZES.into_iter().map(sound).collect()
});

fn write(path: &Path, pivots: usize, length: usize) -> Result<(), PermutationError> {
    let maker = PermutationMaker::choose(&SPACE, pivots, length, 1, &|| false)?;
    let mut writer = PermutationWriter::create(path, &maker)?;
    let (ids, mut lists) = (SPACE.store().among(0..OBJECTS as u64).collect::<Vec<u64>>(), Vec::new());
    maker.append(&ids, &mut lists, &|| false)?;
    writer.push(&lists)?;
    writer.finish().map(drop)
}

fn read(path: &Path, layout: Layout) -> Result<Found, PermutationError> {
    let permutations = Permutations::open(path, &SPACE, layout, &|| false)?;
    let object = SPACE.store().objects(&[7])?;
    let query = Arc::clone(&SPACE).prepare(&object, 0)?;
    let candidates = permutations.candidates(&*query, Measure::Rho.into(), 40, &|| false)?;
    Ok(((0..OBJECTS as u64).map(|id| permutations.list(id)).collect(), candidates))
}

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    size: bool,
    layout: bool,
    damages: Vec<Damage<'a>>,
}

fuzz_target!(
    // Panics in Arrow's reader are caught and answered, so they end nothing.
    init: std::panic::set_hook(Box::new(|_| {})),
    |input: Input<'_>| {
        let sound = &SOUND[usize::from(input.size)];
        let layout = LAYOUTS[usize::from(input.layout)];
        let mut file = sound.file.clone();
        input.damages.iter().for_each(|damage| damage.apply(&mut file));
        let found = |file: &[u8]| {
            fs::write(&sound.path, file).expect("a folder that can be written to");
            read(&sound.path, layout)
        };
        match found(&file) {
            Err(error) => assert!(file != sound.file, "{error}"),
            // A fuzzer that sees comparisons writes right checksums too; damage does not.
            Ok(_) if seal::tail_digits(&file) != seal::tail_digits(&sound.file) => {}
            Ok(found) => assert!(found == sound.found, "damage went unnoticed"),
        }
        if seal::seal(&mut file).is_some() {
            drop(found(&file));
        }
    }
);
