//! Files of rows that follow the ids of a store: indexes and sketches.
//!
//! Such a file is an Arrow IPC file of batches of equally many rows, under checksums. Its head names, by fingerprints, the
//! store for which it was written. When the store grows, files `NAME.part-1`, `NAME.part-2`, ... follow, for the new ids;
//! each names the file that it follows. `NAME.next` is the file of a store during its compaction; it names the file that it
//! replaces.
//!
//! Invariant: the fingerprints in a file decide, never its name alone. So the files fit a store before and after a change,
//! whichever of the two is in effect when a process is killed. Foreign files with such names are ignored, and neither
//! replaced nor removed.

mod layout;
mod mapped;
mod reader;
mod writer;
mod names;
mod chain;

pub(crate) use chain::{first, following, settle};
pub(crate) use layout::{
    CHECKSUM_DIFFERS, CREATOR, CREATOR_KEY, FOLLOWS_KEY, FORMAT_KEY, MEASURE_KEY, REPLACES_KEY, STORE_KEY,
    VERSION, VERSION_KEY, digits, numbers_of,
};
pub(crate) use mapped::MappedBatches;
pub(crate) use names::{next_part, next_path, remove_parts};
pub(crate) use reader::{PackedBatch, PackedFile};
pub(crate) use writer::PackedWriter;

use std::io;
use std::path::{Path, PathBuf};

/// The names of a format, as heads state them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Format {
    /// Of a file by itself.
    pub(crate) whole: &'static str,
    /// Of a file that follows another.
    pub(crate) part: &'static str,
    /// The versions of the layout that this program reads.
    pub(crate) versions: &'static [&'static str],
}

impl Format {
    /// Opens a file by itself, and checks its tail.
    pub(crate) fn open(&self, path: &Path) -> Result<PackedFile, PackedError> {
        PackedFile::open(path, self.whole, self.versions)
    }

    /// Opens a file that follows another, and checks its tail.
    pub(crate) fn open_part(&self, path: &Path) -> Result<PackedFile, PackedError> {
        PackedFile::open(path, self.part, self.versions)
    }
}

/// The last file of a chain.
#[derive(Clone, Debug)]
pub(crate) struct Last {
    /// 0 for the first file, if no part follows it.
    pub(crate) part: u64,
    pub(crate) fingerprint: String,
}

/// Why a file cannot be used, for errors that say what the file should be.
#[derive(Debug)]
pub(crate) enum PackedError {
    /// The system refused.
    Io { path: PathBuf, action: &'static str, source: io::Error },
    /// The file is something else.
    Foreign { path: PathBuf, reason: String },
    /// The file is of another version of the layout.
    Version { path: PathBuf, found: String },
    /// The bytes differ from those that were written.
    Damaged { path: PathBuf, place: String, reason: String },
}
