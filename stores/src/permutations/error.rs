//! Errors of permutations: each names the file, the reason and the fix.

use std::io;
use std::path::PathBuf;

use boxwork_kernels::interrupt::Interrupted;
use boxwork_kernels::permutation::ListsError;

use super::super::packed_file::PackedError;
use super::super::store_error::{StoreError, way_out};
use crate::space::SpaceError;

/// Permutations cannot be made, read or used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PermutationError {
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
    #[error("`{}` {fault}; make it again with the pipeline `permutation_index`", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The fault, as the rest of a sentence.
        fault: String,
    },
    /// The permutations were made for another content of the store.
    #[error("`{}` has the permutations of another store, or `{}` has changed since they were made: make them again with the pipeline `permutation_index`", path.display(), store.display())]
    OtherStore {
        /// The file.
        path: PathBuf,
        /// The store.
        store: PathBuf,
    },
    /// The permutations were made for another distance.
    #[error("`{}` has permutations by {found}, and the distance here is {wanted}: name that distance, or make them again with the pipeline `permutation_index`", path.display())]
    OtherMeasure {
        /// The file.
        path: PathBuf,
        /// Its distance.
        found: String,
        /// The distance of the space.
        wanted: String,
    },
    /// Objects were added to the store, and the permutations lack them.
    #[error("`{}` has permutations of {found} of the {objects} ids of `{}`: bring it up with `boxwork index --append --store {} --out {}`", path.display(), store.display(), store.display(), path.display())]
    Behind {
        /// The file.
        path: PathBuf,
        /// The store.
        store: PathBuf,
        /// Ids that have permutations.
        found: u64,
        /// Ids of the store.
        objects: u64,
    },
    /// A foreign file has the name of the file that a compaction writes.
    #[error("`{}` is in the way of `{}`: move it", path.display(), permutations.display())]
    InTheWay {
        /// The foreign file.
        path: PathBuf,
        /// The permutations.
        permutations: PathBuf,
    },
    /// There are fewer objects than pivots.
    #[error("the store has {objects} objects, too few for {pivots} pivots: take at most {objects} pivots")]
    FewObjects {
        /// Objects of the store.
        objects: u64,
        /// Pivots asked for.
        pivots: usize,
    },
    /// There are no such lists.
    #[error(transparent)]
    Lists(#[from] ListsError),
    /// The permutations of some objects did not come.
    #[error("`{}` was not written: permutations of {found} of {objects} ids came", path.display())]
    Incomplete {
        /// The file.
        path: PathBuf,
        /// Ids so far.
        found: u64,
        /// Ids of the store.
        objects: u64,
    },
    /// The store cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A distance cannot be computed.
    #[error(transparent)]
    Space(#[from] SpaceError),
    /// The caller cancelled it.
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
    /// The caller cancelled a change of the store.
    #[error("the work on permutations was cancelled")]
    Cancelled,
}

impl PermutationError {
    /// Whether the caller cancelled the work.
    pub fn is_cancelled(&self) -> bool {
        match self {
            Self::Cancelled | Self::Interrupted(_) | Self::Space(SpaceError::Interrupted(_)) => true,
            Self::Store(error) => matches!(error, StoreError::Cancelled { .. } | StoreError::Interrupted(_)),
            _ => false,
        }
    }
}

impl From<PackedError> for PermutationError {
    fn from(error: PackedError) -> Self {
        match error {
            PackedError::Io { path, action, source } => Self::Io { path, action, source },
            PackedError::Foreign { path, reason } => {
                Self::File { path, fault: format!("has no permutations: {reason}") }
            }
            PackedError::Version { path, found } => {
                let fault = format!("has version {found} of the layout, which this program does not read");
                Self::File { path, fault }
            }
            PackedError::Damaged { path, place, reason } => {
                Self::File { path, fault: format!("is damaged in {place}: {reason}") }
            }
        }
    }
}
