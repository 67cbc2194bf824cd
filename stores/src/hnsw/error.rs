//! Errors of graphs: each names the file, the reason and the fix.

use std::io;
use std::path::{Path, PathBuf};

use boxwork_kernels::memory::MemoryRefused;
use boxwork_kernels::vector::VectorMeasure;

use super::super::packed_file::PackedError;
use super::super::store_error::{StoreError, way_out};

/// A graph cannot be made, read or used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HnswError {
    /// The program was built without the library.
    #[error(
        "the graph `{}` cannot be used: this program was built without graphs; build it with `cargo build --release --features graph`",
        path.display()
    )]
    NotBuilt {
        /// The file.
        path: PathBuf,
    },
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
    /// The file is something else, of another version or measure, or damaged.
    #[error("`{}` {fault}; make it again with `{command}`", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The fault, as the rest of a sentence.
        fault: String,
        /// The command that makes the file.
        command: String,
    },
    /// The graph is that of another store.
    #[error(
        "`{}` has the graph of another store, or `{}` was made again since: make it again with `{command}`",
        path.display(),
        store.display()
    )]
    OtherStore {
        /// The graph.
        path: PathBuf,
        /// The store.
        store: PathBuf,
        /// The command that makes it.
        command: String,
    },
    /// The store has grown since the graph was made.
    #[error(
        "`{}` covers {found} of the {objects} objects that `{}` ever held, as the store has grown: run `boxwork hnsw --append --store {1} --out {0}`",
        path.display(),
        store.display()
    )]
    Behind {
        /// The graph.
        path: PathBuf,
        /// The store.
        store: PathBuf,
        /// The ids that the graph covers.
        found: u64,
        /// The ids of the store.
        objects: u64,
    },
    /// A command that keeps other files in step with a store was given a graph.
    #[error(
        "`{}` is a graph, which does not change together with its store: leave it out, and afterwards run `boxwork hnsw --append` if objects were added, or `boxwork hnsw --force` if the store was compacted",
        path.display()
    )]
    NoUpkeep {
        /// The graph.
        path: PathBuf,
    },
    /// The objects or their distance have no graph.
    #[error(
        "graphs exist for vectors by l2, ip and cosine, and the distance here is {measure}: use an index of pivots"
    )]
    NoGraph {
        /// The measure of the space.
        measure: String,
    },
    /// Options that do not fit the store.
    #[error("{0}")]
    Options(String),
    /// The library refused.
    #[error("the graph `{}` cannot be made or searched: {reason}", path.display())]
    Library {
        /// The file.
        path: PathBuf,
        /// Its reason.
        reason: String,
    },
    /// The store cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The caller cancelled it.
    #[error("the graph was not finished: it was cancelled")]
    Cancelled,
    /// The system has no memory for it.
    #[error(transparent)]
    Memory(#[from] MemoryRefused),
}

impl HnswError {
    /// The error of a file, with the command that makes it for a store.
    pub(super) fn of(error: PackedError, measure: VectorMeasure, store: &Path, graph: &Path) -> Self {
        let command = command(measure, store, graph);
        let file = |path, fault| Self::File { path, fault, command };
        match error {
            PackedError::Io { path, action, source } => Self::Io { path, action, source },
            PackedError::Foreign { path, reason } => file(path, format!("holds no graph: {reason}")),
            PackedError::Version { path, found } => {
                file(path, format!("has version {found} of the layout, which this program does not read"))
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
            Self::Store(error) => matches!(error, StoreError::Cancelled { .. } | StoreError::Interrupted(_)),
            _ => false,
        }
    }
}

/// The command that makes the graph of a store.
pub(super) fn command(measure: VectorMeasure, store: &Path, graph: &Path) -> String {
    let distance = match measure {
        VectorMeasure::L2 => String::new(),
        other => format!(" --distance {}", other.name()),
    };
    format!("boxwork hnsw --store {}{distance} --out {} --force", store.display(), graph.display())
}
