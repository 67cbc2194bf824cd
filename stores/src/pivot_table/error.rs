//! Errors of an index: each names the file, the reason and the fix.

use std::io;
use std::path::PathBuf;

use boxwork_kernels::lower_bound::BoundError;
use boxwork_kernels::memory::MemoryRefused;
use boxwork_kernels::metric_index::MetricIndexError;

use super::super::packed_file::PackedError;
use super::super::signature_store::{StoreError, way_out};
use super::super::space::SpaceError;

/// An index cannot be made, read or used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IndexError {
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
    /// The file is something else.
    #[error("`{}` is no index: {reason}; make one with `boxwork index`", path.display())]
    NotAnIndex {
        /// The file.
        path: PathBuf,
        /// The missing part.
        reason: String,
    },
    /// The file is of another version of the layout.
    #[error("`{}` has version {found} of the layout and this program reads version {}: make it again with `boxwork index`", path.display(), super::layout::VERSION)]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: String,
    },
    /// The bytes differ from those that were written.
    #[error("`{}` is damaged in {place}: {reason}; copy it again, or make it again with `boxwork index`", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The part of the file.
        place: String,
        /// The discrepancy.
        reason: String,
    },
    /// The index was made for another content of the store.
    #[error("`{}` is the index of another store, or `{}` has changed since the index was made: make it again with `boxwork index --store {1} --out {0} --force`", path.display(), store.display())]
    OtherStore {
        /// The index.
        path: PathBuf,
        /// The store that was searched.
        store: PathBuf,
    },
    /// The store has grown since the index was made.
    #[error("`{}` covers {found} of the {objects} objects that `{}` ever held, as the store has grown: run `boxwork index --append --store {1} --out {0}`", path.display(), store.display())]
    Behind {
        /// The index.
        path: PathBuf,
        /// The store.
        store: PathBuf,
        /// The ids that the index covers.
        found: u64,
        /// The ids of the store.
        objects: u64,
    },
    /// The index was made for another measure.
    #[error("`{}` is an index for {found}, and the search is for {wanted}: {fix}", path.display())]
    OtherMeasure {
        /// The index.
        path: PathBuf,
        /// The measure of the index.
        found: String,
        /// The measure of the space.
        wanted: String,
        /// The options that search with this index, and the command that makes the other one.
        fix: String,
    },
    /// The store has fewer objects than pivots were requested.
    #[error("{pivots} pivots were requested and `{}` holds {objects} objects: ask for at most {objects}", store.display())]
    TooManyPivots {
        /// The store.
        store: PathBuf,
        /// The number of pivots requested.
        pivots: usize,
        /// The store's objects.
        objects: u64,
    },
    /// Distances of some objects did not come.
    #[error("`{}` was not written: the input held distances of {found} of {objects} objects", path.display())]
    Incomplete {
        /// The index.
        path: PathBuf,
        /// The number of objects that came.
        found: u64,
        /// The store's objects.
        objects: u64,
    },
    /// No point has the distances of this object.
    #[error("the distances of object {id} of `{}` cannot be bounded: {source}", path.display())]
    Bounds {
        /// The index.
        path: PathBuf,
        /// The object.
        id: u64,
        /// The fault in the distances.
        source: BoundError,
    },
    /// An object is so far from a pivot that the table cannot hold it together with the others.
    #[error("object {id} of `{}` is {distance:e} from a pivot, and the pivots are so near each other that an index cannot hold both: choose other pivots (`--seed`), or leave the object out", store.display())]
    TooFar {
        /// The store.
        store: PathBuf,
        /// The object.
        id: u64,
        /// Its distance.
        distance: f64,
    },
    /// A file has the temporary name of a compacted store's index.
    #[error("`{}` is in the way: `{}` needs that name for a while; rename or remove it", path.display(), index.display())]
    InTheWay {
        /// The file.
        path: PathBuf,
        /// The index.
        index: PathBuf,
    },
    /// The store cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The space cannot compute a distance.
    #[error(transparent)]
    Space(SpaceError),
    /// A distance of a table in memory is invalid.
    #[error(transparent)]
    Distances(#[from] MetricIndexError),
    /// The caller cancelled it.
    #[error("the pivot table was not finished: it was cancelled")]
    Cancelled,
    /// The system has no memory for it.
    #[error(transparent)]
    Memory(#[from] MemoryRefused),
}

impl IndexError {
    /// Whether the caller cancelled the work.
    pub fn is_cancelled(&self) -> bool {
        matches!(
            self,
            Self::Cancelled
                | Self::Store(StoreError::Cancelled { .. } | StoreError::Interrupted(_))
                | Self::Space(SpaceError::Interrupted(_))
        )
    }
}

impl From<SpaceError> for IndexError {
    fn from(error: SpaceError) -> Self {
        match error {
            SpaceError::Store(error) => Self::Store(error),
            error => Self::Space(error),
        }
    }
}

impl From<PackedError> for IndexError {
    fn from(error: PackedError) -> Self {
        match error {
            PackedError::Io { path, action, source } => Self::Io { path, action, source },
            PackedError::Foreign { path, reason } => Self::NotAnIndex { path, reason },
            PackedError::Version { path, found } => Self::Version { path, found },
            PackedError::Damaged { path, place, reason } => Self::Damaged { path, place, reason },
        }
    }
}
