//! Errors of a sketch: each names the file, the reason and the fix.

use std::io;
use std::path::{Path, PathBuf};

use boxwork_kernels::memory::MemoryRefused;

use super::super::packed_file::PackedError;
use super::super::store_error::{StoreError, way_out};
use crate::pivot_table::IndexError;
use crate::space::{Space, SpaceError};
use crate::spaces::{ALPHA, DistanceOptions, allow_apexes};

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
    #[error("`{}` is the sketch of another store, or `{}` has changed since the sketch was made: make it again with `{command}`", path.display(), store.display())]
    OtherStore {
        /// The sketch.
        path: PathBuf,
        /// The store.
        store: PathBuf,
        /// The command that makes it.
        command: String,
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
    #[error("`{}` is a sketch for {found}, and the distance here is {wanted}: make the sketch for it with `{command}`", path.display())]
    OtherMeasure {
        /// The sketch.
        path: PathBuf,
        /// The measure of the sketch.
        found: String,
        /// The measure of the space.
        wanted: String,
        /// The command that makes the sketch of the wanted measure.
        command: String,
    },
    /// The distance has no sketches by features.
    #[error(
        "sketches by features exist for signatures with the gaussian similarity over l2, and the distance here is {measure}: {way}"
    )]
    NoFeatures {
        /// The measure of the space.
        measure: String,
        /// The way to a sketch, if there is one.
        way: String,
    },
    /// The distance has no sketches at all.
    #[error("{0}")]
    NoApexes(String),
    /// An object has no sketch.
    #[error("{0}")]
    Object(String),
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
    /// A distance cannot be computed.
    #[error(transparent)]
    Space(SpaceError),
    /// The pivots cannot be used.
    #[error(transparent)]
    Index(IndexError),
    /// The caller cancelled it.
    #[error("the sketch was not finished: it was cancelled")]
    Cancelled,
    /// The system has no memory for it.
    #[error(transparent)]
    Memory(#[from] MemoryRefused),
}

impl SketchError {
    /// The error of a sketch's file, with the command, or the two, that make it for a space.
    pub(super) fn of(error: PackedError, space: &dyn Space, sketch: &Path, is_of_pivots: bool) -> Self {
        Self::with_command(error, command(space, sketch, is_of_pivots))
    }

    fn with_command(error: PackedError, command: String) -> Self {
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

    /// A space of another distance than those that have sketches by features.
    pub(super) fn no_features(space: &dyn Space) -> Self {
        let way = match allow_apexes(&space.properties()) {
            Ok(()) => {
                let (index, sketch) = by_pivots(space, Path::new("FILE"), "");
                format!("make the sketch of an index, by `{index}` and `{sketch}`")
            }
            Err(reason) => reason,
        };
        Self::NoFeatures { measure: space.measure(), way }
    }

    /// Whether the caller cancelled the work.
    pub fn is_cancelled(&self) -> bool {
        match self {
            Self::Cancelled
            | Self::Store(StoreError::Cancelled { .. } | StoreError::Interrupted(_))
            | Self::Space(SpaceError::Interrupted(_)) => true,
            Self::Index(error) => error.is_cancelled(),
            _ => false,
        }
    }
}

impl From<SpaceError> for SketchError {
    fn from(error: SpaceError) -> Self {
        match error {
            SpaceError::Store(error) => Self::Store(error),
            error => Self::Space(error),
        }
    }
}

impl From<IndexError> for SketchError {
    fn from(error: IndexError) -> Self {
        match error {
            IndexError::Cancelled => Self::Cancelled,
            IndexError::Store(error) => Self::Store(error),
            IndexError::Space(error) => Self::Space(error),
            error => Self::Index(error),
        }
    }
}

/// The commands that make an index of a space, and a sketch of it.
fn by_pivots(space: &dyn Space, sketch: &Path, force: &str) -> (String, String) {
    let (store, sketch) = (space.store().path().display(), sketch.display());
    (
        format!("boxwork index --store {store}{} --out INDEX", flags(space)),
        format!("boxwork sketch --store {store} --pivots INDEX --out {sketch}{force}"),
    )
}

/// The options that name the distance of a space.
fn flags(space: &dyn Space) -> String {
    let options = DistanceOptions::parse(&space.measure());
    options.map(|options| options.flags(&**space.store())).unwrap_or_default()
}

/// The command that makes the sketch of a space, in place of one that is there; two if it is made of an index.
pub(super) fn command(space: &dyn Space, sketch: &Path, is_of_pivots: bool) -> String {
    if is_of_pivots {
        let (index, sketch) = by_pivots(space, sketch, " --force");
        return format!("{index}` and `{sketch}");
    }
    let store = space.store();
    // A store keeps its alpha, so that most commands need none.
    let flags = if is_usual(space) { String::new() } else { flags(space) };
    format!("boxwork sketch --store {}{flags} --out {} --force", store.path().display(), sketch.display())
}

/// Whether the distance is the one that a store of signatures has by itself.
fn is_usual(space: &dyn Space) -> bool {
    let usual = DistanceOptions::default();
    DistanceOptions::parse(&space.measure()).is_some_and(|options| {
        options.alpha == Some(space.store().alpha().unwrap_or(ALPHA))
            && (options.similarity, options.ground) == (usual.similarity, usual.ground)
    })
}

impl From<PackedError> for SketchError {
    fn from(error: PackedError) -> Self {
        Self::with_command(error, "boxwork sketch --store STORE --out FILE --force".to_owned())
    }
}
