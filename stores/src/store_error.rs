//! Errors of a store: each names the file, the place and the fix.

use std::io;
use std::path::PathBuf;

use boxwork_kernels::interrupt::Interrupted;
use boxwork_kernels::memory::MemoryRefused;

/// The version of the layout of store files; other versions are refused.
pub(crate) const LAYOUT_VERSION: &str = "1";
/// The most changes of a record. A store with this many must be compacted before the next.
pub(crate) const CHANGES_MAX: usize = 1000;

/// A store cannot be opened, read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The system refused.
    #[error("cannot {action} `{}`: {source}{}", path.display(), way_out(source))]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The attempted action.
        action: &'static str,
        /// The system's reason.
        source: io::Error,
    },
    /// The file is something else.
    #[error("`{}` is no store: {reason}; make one with `boxwork extract` or `boxwork import`", path.display())]
    NotAStore {
        /// The file.
        path: PathBuf,
        /// The missing part.
        reason: String,
        /// Whether another program wrote it.
        is_foreign: bool,
    },
    /// The file ends too early.
    #[error("`{}` is cut short: it does not end as a store does; copy or make it again", path.display())]
    Truncated {
        /// The file.
        path: PathBuf,
    },
    /// The file was changed under an open store.
    #[error("`{}` was cut short or overwritten while it was in use, so all that was read from it is invalid: restore it, or make it again with `boxwork extract` or `boxwork import`, and run this again", path.display())]
    Changed {
        /// The file.
        path: PathBuf,
    },
    /// The file is of another version of the layout.
    #[error("`{}` has version {found} of the layout and this program reads version {}: make it again with `boxwork extract`", path.display(), LAYOUT_VERSION)]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: String,
    },
    /// The bytes differ from those that were written.
    #[error("`{}` is damaged in {place}: {reason}; copy or make it again", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The part of the file.
        place: String,
        /// The discrepancy.
        reason: String,
    },
    /// The store holds objects of another kind.
    #[error("`{}` holds {found}, where {wanted} are wanted", path.display())]
    OtherKind {
        /// The file.
        path: PathBuf,
        /// Its kind of objects.
        found: String,
        /// The kind wanted.
        wanted: &'static str,
    },
    /// The objects of a store have the right kind, but another dimension or other coordinates.
    #[error("`{}` holds {kind} of {found}, where {wanted} is wanted: use stores made with the same extraction", path.display())]
    OtherShape {
        /// The file.
        path: PathBuf,
        /// The kind of its objects.
        kind: &'static str,
        /// The dimension or the coordinates of its objects.
        found: String,
        /// The dimension or the coordinates wanted.
        wanted: String,
    },
    /// New objects differ from the store's in dimension or coordinates.
    #[error("{kind} of {found} came for `{}`, where {wanted} is wanted, as for all objects of a store", path.display())]
    OtherObjects {
        /// The file.
        path: PathBuf,
        /// The kind of the objects.
        kind: &'static str,
        /// The dimension or the coordinates of the new objects.
        found: String,
        /// The dimension or the coordinates of the store.
        wanted: String,
    },
    /// No object has this id.
    #[error("`{}` has no object {id}: it holds {count}, numbered from 0", path.display())]
    NoObject {
        /// The file.
        path: PathBuf,
        /// The id asked for.
        id: u64,
        /// The number of objects.
        count: u64,
    },
    /// There is nothing to write.
    #[error("no objects for `{}`, which was not written: a store holds at least one object", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// An object cannot go into the store.
    #[error("`{name}` cannot go into `{}`: {reason}", path.display())]
    Object {
        /// The file.
        path: PathBuf,
        /// The object's name.
        name: String,
        /// The fault of the object.
        reason: String,
    },
    /// A part of a changed store is not the part that its record names.
    #[error("`{}` is not the part of `{}` that its record of changes names: copy the store again, with all files that its record names", path.display(), store.display())]
    OtherPart {
        /// The part.
        path: PathBuf,
        /// The store.
        store: PathBuf,
    },
    /// Another process changes the store.
    #[error("another process is changing `{}`: run this again when it is done", path.display())]
    Busy {
        /// The store.
        path: PathBuf,
    },
    /// The store has an object of this name.
    #[error("`{name}` is in `{}` already: if it has changed, replace it with --replace, or remove it first (`boxwork remove`)", path.display())]
    AlreadyThere {
        /// The store.
        path: PathBuf,
        /// The name.
        name: String,
    },
    /// The change adds and removes nothing.
    #[error("there is nothing to add or to remove, so `{}` stays as it is", path.display())]
    NoChange {
        /// The store.
        path: PathBuf,
    },
    /// The change would remove all objects.
    #[error("no object would be left in `{}`, which stays as it is: a store holds at least one object", path.display())]
    NoneLeft {
        /// The store.
        path: PathBuf,
    },
    /// The record of changes is full.
    #[error("`{}` was changed {} times since it was compacted, and takes no more changes: run `boxwork compact --store {0}` first", path.display(), CHANGES_MAX)]
    TooManyChanges {
        /// The store.
        path: PathBuf,
    },
    /// The caller cancelled the work.
    #[error("the work on `{}` was cancelled, and the file stays as it was", path.display())]
    Cancelled {
        /// The file that was being written.
        path: PathBuf,
    },
    /// Two objects have one name.
    #[error("two objects for `{}` are named `{name}`: rename one, as objects are found by name", path.display())]
    DuplicateName {
        /// The file.
        path: PathBuf,
        /// The name.
        name: String,
    },
    /// The metadata cannot hold a text.
    #[error("`{}` cannot be written: {reason}", path.display())]
    Metadata {
        /// The file.
        path: PathBuf,
        /// The fault.
        reason: String,
    },
    /// The system has no memory for a search.
    #[error(transparent)]
    Memory(#[from] MemoryRefused),
    /// The caller interrupted a computation over the objects.
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
}

/// Advice on an error of the system, to append to a message; empty if there is none.
pub fn way_out(error: &io::Error) -> &'static str {
    #[cfg(unix)]
    if error.raw_os_error() == Some(libc::EMFILE) {
        return "; raise the limit of open files (`ulimit -n`), or make one file of each store that was changed often \
                (`boxwork compact`)";
    }
    match error.kind() {
        io::ErrorKind::StorageFull => "; make room on that disk or write to another",
        io::ErrorKind::QuotaExceeded => "; make room within your quota on that disk or write to another",
        io::ErrorKind::FileTooLarge => {
            "; raise the limit of a file's size (`ulimit -f`) or write to another disk"
        }
        io::ErrorKind::OutOfMemory => "; free memory",
        _ => "",
    }
}
