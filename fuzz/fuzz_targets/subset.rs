//! Bytes as a file that names some objects, as a text and as Arrow: refused with the file's name, or objects that the store has.
#![no_main]

use std::fs;
use std::sync::{Arc, LazyLock};

use boxwork_fuzz::{folder, vectors};
use boxwork_stores::space::Space;
use boxwork_stores::subset::Subset;
use libfuzzer_sys::fuzz_target;

static SPACE: LazyLock<Arc<dyn Space>> = LazyLock::new(|| vectors::space(70));

fuzz_target!(|bytes: &[u8]| {
    let store = SPACE.store();
    let path = folder().join("subset");
    fs::write(&path, bytes).expect("a folder that can be written to");
    match Subset::of_file(&**store, &path) {
        Err(error) => assert!(error.to_string().contains("subset"), "{error}"),
        Ok(subset) => {
            let ids: Vec<u64> = subset.ids().collect();
            assert!(ids.len() as u64 == subset.count() && ids.iter().all(|id| store.has(*id)));
            assert!(subset.count_in(0..store.ids_count()) == subset.count());
        }
    }
});
