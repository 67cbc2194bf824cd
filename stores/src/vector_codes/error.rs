//! Errors of codes: each names the file, the reason and the fix.

use std::io;
use std::path::{Path, PathBuf};

use boxwork_kernels::codes::{Encoder, Levels};
use boxwork_kernels::memory::MemoryRefused;

use super::super::packed_file::PackedError;
use super::super::store_error::{StoreError, way_out};
use crate::store::Store;

/// Codes cannot be made, read or used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CodesError {
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
    /// The file is something else, of another version, damaged, or of another content of the store or measure.
    #[error("`{}` {fault}; make it with `{command}`", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The fault, as the rest of a sentence.
        fault: String,
        /// The command that makes the file.
        command: String,
    },
    /// The store has grown since the codes were made.
    #[error("`{}` covers {found} of the {objects} vectors that `{}` ever held, as the store has grown: run `boxwork index --append --store {1} --out {0}`", path.display(), store.display())]
    Behind {
        /// The codes.
        path: PathBuf,
        /// The store.
        store: PathBuf,
        /// The ids that the codes cover.
        found: u64,
        /// The ids of the store.
        objects: u64,
    },
    /// A file that is not Boxwork's has the name that the codes of a compacted store get.
    #[error("`{}` is in the way of the codes `{}` of the compacted store: move it", path.display(), codes.display())]
    InTheWay {
        /// The file.
        path: PathBuf,
        /// The codes.
        codes: PathBuf,
    },
    /// The distance or the objects have no codes.
    #[error(
        "codes exist for vectors by l2, ip and cosine, and the distance here is {measure}: use an index of pivots"
    )]
    NoCodes {
        /// The measure of the space.
        measure: String,
    },
    /// The vectors have more numbers than these codes are for.
    #[error(
        "codes `{}` are of vectors of up to {} numbers, and those of `{}` have {dimensions}: make codes planes or product64",
        levels.name(), levels.dimensions_max().unwrap_or_default(), store.display()
    )]
    TooLong {
        /// The store.
        store: PathBuf,
        /// The numbers of a vector.
        dimensions: usize,
        /// The codes.
        levels: Levels,
    },
    /// The store cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The system has no memory for the training of a codebook.
    #[error(transparent)]
    Memory(#[from] MemoryRefused),
    /// The caller cancelled it.
    #[error("the codes were not finished: they were cancelled")]
    Cancelled,
}

impl CodesError {
    /// Whether the caller cancelled the work.
    pub fn is_cancelled(&self) -> bool {
        match self {
            Self::Cancelled => true,
            Self::Store(error) => matches!(error, StoreError::Cancelled { .. } | StoreError::Interrupted(_)),
            _ => false,
        }
    }
}

/// The command that makes the codes.
pub(super) fn command(store: &dyn Store, path: &Path, encoder: &Encoder) -> String {
    let (store_path, levels) = (store.path().display(), encoder.levels().name());
    let distance = match encoder.measure().name() {
        usual if usual == store.usual_distance() => String::new(),
        other => format!(" --distance {other}"),
    };
    format!("boxwork index --store {store_path} --codes {levels}{distance} --out {} --force", path.display())
}

pub(super) fn of(error: PackedError, store: &dyn Store, path: &Path, encoder: &Encoder) -> CodesError {
    let make = |found: PathBuf, fault: String| CodesError::File {
        path: found,
        fault,
        command: command(store, path, encoder),
    };
    match error {
        PackedError::Io { path, action, source } => CodesError::Io { path, action, source },
        PackedError::Foreign { path, reason } => make(path, format!("is no file of codes: {reason}")),
        PackedError::Version { path, found } => {
            make(path, format!("has version {found} of the layout, which this program does not read"))
        }
        PackedError::Damaged { path, place, reason } => {
            make(path, format!("is damaged in {place}: {reason}"))
        }
    }
}
