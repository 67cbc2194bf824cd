//! Errors of lists: each names the file, the reason and the fix.

use std::io;
use std::path::{Path, PathBuf};

use boxwork_kernels::memory::MemoryRefused;
use boxwork_kernels::vector::VectorMeasure;

use super::super::packed_file::PackedError;
use super::super::store_error::{StoreError, way_out};

/// Lists cannot be made, read or used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListsError {
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
    /// The lists are those of another store.
    #[error("`{}` has the lists of another store, or `{}` was made again since: make them again with `{command}`", path.display(), store.display())]
    OtherStore {
        /// The lists.
        path: PathBuf,
        /// The store.
        store: PathBuf,
        /// The command that makes them.
        command: String,
    },
    /// The store has grown since the lists were made.
    #[error("`{}` covers {found} of the {objects} objects that `{}` ever held, as the store has grown: run `boxwork lists --append --store {1} --out {0}`", path.display(), store.display())]
    Behind {
        /// The lists.
        path: PathBuf,
        /// The store.
        store: PathBuf,
        /// The ids that the lists cover.
        found: u64,
        /// The ids of the store.
        objects: u64,
    },
    /// A file that is not Boxwork's has the name that the lists of a compacted store get.
    #[error("`{}` is in the way of the lists `{}` of the compacted store: move it", path.display(), lists.display())]
    InTheWay {
        /// The file.
        path: PathBuf,
        /// The lists.
        lists: PathBuf,
    },
    /// The objects are no vectors.
    #[error("lists hold vectors, and `{}` holds {kind}: search it by pivots or a sketch", path.display())]
    NoVectors {
        /// The store.
        path: PathBuf,
        /// What it holds.
        kind: &'static str,
    },
    /// The distance has no lists.
    #[error(
        "lists are for the distances l2, ip and cosine, and the distance here is {measure}: leave the lists out"
    )]
    OtherMeasure {
        /// The measure of the space.
        measure: String,
    },
    /// Options that do not fit the store.
    #[error("{0}")]
    Options(String),
    /// Not all objects came.
    #[error("`{}` was not written: the input held {found} of {objects} objects", path.display())]
    Incomplete {
        /// The lists.
        path: PathBuf,
        /// The number of objects that came.
        found: u64,
        /// The store's objects.
        objects: u64,
    },
    /// The lists have more places than can be told apart.
    #[error(
        "`{}` takes {places} places, of which lists have 2^32 at most: divide the store, or make fewer lists, each of which takes a multiple of 32",
        path.display()
    )]
    TooMany {
        /// The lists.
        path: PathBuf,
        /// Places, with those that no vector fills.
        places: u64,
    },
    /// Lists to merge have other centroids or another codebook than those that take them in.
    #[error(
        "`{}` cannot be merged with {}: its centroids or its codebook are others; make it with `{command}`, or leave it out, and vectors find their lists anew",
        path.display(),
        names(into)
    )]
    OtherQuantizers {
        /// The lists to merge.
        path: PathBuf,
        /// The lists that would take them in.
        into: Vec<PathBuf>,
        /// The command that makes lists that can be merged.
        command: String,
    },
    /// The store cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The caller cancelled it.
    #[error("the lists were not finished: they were cancelled")]
    Cancelled,
    /// The system has no memory for it.
    #[error(transparent)]
    Memory(#[from] MemoryRefused),
}

impl ListsError {
    /// The error of a file, with the command that makes it for a store.
    pub(super) fn of(error: PackedError, measure: VectorMeasure, store: &Path, lists: &Path) -> Self {
        let command = command(measure, store, lists);
        let file = |path, fault| Self::File { path, fault, command };
        match error {
            PackedError::Io { path, action, source } => Self::Io { path, action, source },
            PackedError::Foreign { path, reason } => file(path, format!("holds no lists: {reason}")),
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
        match self {
            Self::Cancelled => true,
            Self::Store(error) => super::is_cancelled(error),
            _ => false,
        }
    }
}

/// The names of files, in words.
fn names(paths: &[PathBuf]) -> String {
    match paths {
        [] => "no lists: name those that take it in".to_owned(),
        paths => paths.iter().map(|path| format!("`{}`", path.display())).collect::<Vec<_>>().join(" or "),
    }
}

/// The command that makes the lists of a store.
pub(super) fn command(measure: VectorMeasure, store: &Path, lists: &Path) -> String {
    let distance = match measure {
        VectorMeasure::L2 => String::new(),
        other => format!(" --distance {}", other.name()),
    };
    format!("boxwork lists --store {}{distance} --out {} --force", store.display(), lists.display())
}
