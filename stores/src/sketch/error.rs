//! Errors of a sketch: each names the file, the reason and the fix.

use std::io;
use std::path::{Path, PathBuf};

use boxwork_kernels::memory::MemoryRefused;

use super::super::packed_file::PackedError;
use super::super::store_error::{StoreError, way_out};

/// A sketch cannot be made, read or used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SketchError {
    /// The system refused.
    #[error("cannot {action} `{}`: {source}{}", path.display(), way_out(source))]
    Io {
        /// The file.
        path: PathBuf,
        /// The attempted action.
        action: &'static str,
        /// The system's reason.
        source: io::Error,
    },
    /// The file is something else, of another version, or damaged.
    #[error("`{}` {fault}; make it again with `{command}`", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The fault, as the rest of a sentence.
        fault: String,
        /// The command that makes the file.
        command: String,
    },
    /// The sketch was made for another content of the store.
    #[error("`{}` is the sketch of another store, or `{}` has changed since the sketch was made: make it again with `boxwork sketch --store {1} --out {0} --force`", path.display(), store.display())]
    OtherStore {
        /// The sketch.
        path: PathBuf,
        /// The store.
        store: PathBuf,
    },
    /// The store has grown since the sketch was made.
    #[error("`{}` covers {found} of the {objects} objects that `{}` ever held, as the store has grown: run `boxwork sketch --append --store {1} --out {0}`", path.display(), store.display())]
    Behind {
        /// The sketch.
        path: PathBuf,
        /// The store.
        store: PathBuf,
        /// The ids that the sketch covers.
        found: u64,
        /// The ids of the store.
        objects: u64,
    },
    /// The sketch was made for another measure.
    #[error("`{}` is a sketch for {found}, and the distance here is {wanted}: make the sketch for it with `boxwork sketch --store {}{flags} --out {0} --force`", path.display(), store.display())]
    OtherMeasure {
        /// The sketch.
        path: PathBuf,
        /// The measure of the sketch.
        found: String,
        /// The measure of the space.
        wanted: String,
        /// The store.
        store: PathBuf,
        /// The flags of the wanted measure.
        flags: String,
    },
    /// The distance has no sketches.
    #[error(
        "sketches exist for signatures with the gaussian similarity over l2, and the distance here is {measure}: leave the sketch out, or use the gaussian (`--similarity gaussian`)"
    )]
    NoSketches {
        /// The measure of the space.
        measure: String,
    },
    /// Numbers that are no directions.
    #[error(
        "{numbers} numbers are no directions of {frequencies} frequencies: give those that `sketch_basis` gives"
    )]
    NoBasis {
        /// How many numbers there are.
        numbers: usize,
        /// The number of frequencies.
        frequencies: usize,
    },
    /// The sketches of some objects did not come.
    #[error("`{}` was not written: the input held sketches of {found} of {objects} objects", path.display())]
    Incomplete {
        /// The sketch.
        path: PathBuf,
        /// The number of objects that came.
        found: u64,
        /// The store's objects.
        objects: u64,
    },
    /// A file has the temporary name of a compacted store's sketch.
    #[error("`{}` is in the way: `{}` needs that name for a while; rename or remove it", path.display(), sketch.display())]
    InTheWay {
        /// The file.
        path: PathBuf,
        /// The sketch.
        sketch: PathBuf,
    },
    /// The store cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The caller cancelled it.
    #[error("the sketch was not finished: it was cancelled")]
    Cancelled,
    /// The system has no memory for it.
    #[error(transparent)]
    Memory(#[from] MemoryRefused),
}

impl SketchError {
    /// The error of a sketch's file, with the command that makes it for a store.
    pub(super) fn of(error: PackedError, store: &Path, sketch: &Path) -> Self {
        let command =
            format!("boxwork sketch --store {} --out {} --force", store.display(), sketch.display());
        let file = |path, fault| Self::File { path, fault, command };
        match error {
            PackedError::Io { path, action, source } => Self::Io { path, action, source },
            PackedError::Foreign { path, reason } => file(path, format!("is no sketch: {reason}")),
            PackedError::Version { path, found } => {
                let fault = format!("has version {found} of the layout, which this program does not read");
                file(path, fault)
            }
            PackedError::Damaged { path, place, reason } => {
                file(path, format!("is damaged in {place}: {reason}"))
            }
        }
    }

    /// Whether the caller cancelled the work.
    pub fn is_cancelled(&self) -> bool {
        matches!(
            self,
            Self::Cancelled | Self::Store(StoreError::Cancelled { .. } | StoreError::Interrupted(_))
        )
    }
}

impl From<PackedError> for SketchError {
    fn from(error: PackedError) -> Self {
        Self::of(error, Path::new("STORE"), Path::new("FILE"))
    }
}
