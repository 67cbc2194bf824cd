//! Shared by the fuzz targets: a folder for files, sound stores, and ways to damage them.

pub mod damage;
pub mod index;
pub mod objects;
pub mod seal;
pub mod store;
pub mod vectors;

use std::path::Path;
use std::sync::LazyLock;

/// A folder of this process's own. Set `TMPDIR=/dev/shm` to keep its files off the disk.
pub fn folder() -> &'static Path {
    // Never dropped, as a static is not; the fuzzer ends by `_exit` in any case.
    static FOLDER: LazyLock<tempfile::TempDir> =
        LazyLock::new(|| tempfile::tempdir().expect("a folder for temporary files"));
    FOLDER.path()
}
