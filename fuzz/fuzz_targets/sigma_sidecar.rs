//! A sound sidecar of self-similarities, damaged or replaced: it is refused, or read as it was.
#![no_main]

use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

use arbitrary::Arbitrary;
use boxwork_fuzz::damage::Damage;
use boxwork_fuzz::{folder, store};
use boxwork_kernels::similarity::{Ground, Measure, Similarity};
use boxwork_stores::signature_store::{SignatureStore, StoreError};
use boxwork_stores::sqfd_space::SqfdSpace;
use libfuzzer_sys::fuzz_target;

struct Sound {
    store: Arc<SignatureStore>,
    path: PathBuf,
    sidecar: Vec<u8>,
    sigmas: Vec<u64>,
}

fn measure() -> Measure {
    Measure::new(Similarity::Gaussian, Ground::L2, 0.2).expect("a sound measure")
}

fn sigmas(space: &SqfdSpace) -> Vec<u64> {
    let store = space.store();
    let all = store.read(|objects| {
        (0..store.len()).map(|id| space.sigma_self(objects, id)).collect::<Result<Vec<_>, StoreError>>()
    });
    all.expect("a sound store").into_iter().map(f64::to_bits).collect()
}

static SOUND: LazyLock<Sound> = LazyLock::new(|| {
    let store = Arc::new(store::write(&folder().join("store"), 7));
    let space = SqfdSpace::new(Arc::clone(&store), measure());
    let (sigmas, path) = (sigmas(&space), space.sidecar_path());
    assert!(space.keep());
    let sidecar = fs::read(&path).expect("the sidecar just kept");
    Sound { store, path, sidecar, sigmas }
});

#[derive(Arbitrary, Debug)]
enum Input<'a> {
    Damaged(Vec<Damage<'a>>),
    Replaced(&'a [u8]),
    /// Damaged, and with the checksum put right.
    Forged(Vec<Damage<'a>>),
}

/// The last four bytes.
fn checksum(bytes: &[u8]) -> Option<&[u8; 4]> {
    bytes.last_chunk()
}

fuzz_target!(|input: Input<'_>| {
    let sound = &*SOUND;
    let mut bytes = sound.sidecar.clone();
    match &input {
        Input::Replaced(other) => bytes = other.to_vec(),
        Input::Damaged(damages) | Input::Forged(damages) => {
            damages.iter().for_each(|damage| damage.apply(&mut bytes));
        }
    }
    if matches!(input, Input::Forged(_))
        && let Some((content, checksum)) = bytes.split_last_chunk_mut::<4>()
    {
        *checksum = crc32fast::hash(content).to_le_bytes();
    }
    fs::write(&sound.path, &bytes).expect("a folder that can be written to");
    let space = SqfdSpace::new(Arc::clone(&sound.store), measure());
    let taken = space.is_complete();
    let read = sigmas(&space);
    if checksum(&bytes) == checksum(&sound.sidecar) {
        assert_eq!(read, sound.sigmas, "damage went unnoticed");
    }
    drop(space);
    let left = fs::read(&sound.path).expect("a sidecar");
    // An accepted sidecar stays; a refused one is rewritten.
    assert!(left == bytes || (!taken && left == sound.sidecar));
});
