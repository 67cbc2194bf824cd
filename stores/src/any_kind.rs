//! The kinds of objects as values, for files whose kind is unknown until they are opened.

mod of;

use std::fmt::Debug;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, StringArray};
use arrow_schema::DataType;
use boxwork_runtime::operator::BoxError;
use boxwork_runtime::topology::Topology;
use serde_json::Value;

use self::of::Of;
use super::kinds::{Codes, Kind, Sets, Signatures, Texts, Vectors};
use super::object_store::{Access, Compaction, Files, PendingChange, StoreInfo};
use super::store::Store;
use super::store_error::StoreError;

/// Lists the kinds: as values, and by name for the choices of parameters.
macro_rules! kinds {
    ($($kind:ident),+ $(,)?) => {
        /// Every kind of object. If several kinds have one form in JSON or in Arrow and the user names none, the first
        /// of them applies.
        pub static KINDS: &[&dyn AnyKind] = &[$(&Of::<$kind>::NEW),+];
        /// The names of [`KINDS`].
        pub const KIND_NAMES: &[&str] = &[$($kind::NAME),+];
        /// The names of [`KINDS`], and `auto`.
        pub const KIND_NAMES_OR_AUTO: &[&str] = &["auto", $($kind::NAME),+];
    };
}

// A new kind is a file under `kinds` and a line here.
kinds! {
    Signatures,
    Vectors,
    Texts,
    Sets,
    Codes,
}

/// Finds a kind by name.
///
/// # Errors
/// Names all kinds.
pub fn named(name: &str) -> Result<&'static dyn AnyKind, String> {
    let found = KINDS.iter().find(|kind| kind.name() == name);
    found
        .copied()
        .ok_or_else(|| format!("there are no objects called `{name}`; there are {}", KIND_NAMES.join(", ")))
}

/// Opens a store file of any kind. With a machine, batches are copied to its nodes, see
/// [`ObjectStore::copied_to`](crate::object_store::ObjectStore::copied_to).
///
/// # Errors
/// When the file cannot be read, is no store, is cut short, damaged, or of another version.
pub fn open(path: &Path, machine: Option<Topology>) -> Result<Arc<dyn Store>, StoreError> {
    open_by(path, Access::Map, machine)
}

/// As [`open`], but `access` decides whether the files are mapped or read.
///
/// # Errors
/// As [`open`].
pub fn open_by(path: &Path, access: Access, machine: Option<Topology>) -> Result<Arc<dyn Store>, StoreError> {
    let files = Files::open(path, access)?;
    of_files(path, &files)?.open(files, machine)
}

/// Starts a change of a store file of any kind.
///
/// # Errors
/// As [`StoreChange::begin`](crate::object_store::StoreChange::begin).
pub fn change(path: &Path) -> Result<Box<dyn AnyChange>, StoreError> {
    change_by(path, Access::Map)
}

/// As [`change`], but `access` decides whether the files are mapped or read.
///
/// # Errors
/// As [`StoreChange::begin`](crate::object_store::StoreChange::begin).
pub fn change_by(path: &Path, access: Access) -> Result<Box<dyn AnyChange>, StoreError> {
    of_files(path, &Files::open(path, access)?)?.change(path, access)
}

/// Writes the remaining objects of a store file of any kind, to replace it. `access` decides whether the files are
/// mapped or read. It checks `cancelled` for each object and stops if that returns true.
///
/// # Errors
/// When another process changes the store, it cannot be read, the file cannot be written, or the caller cancels it.
pub fn compaction(
    path: &Path,
    access: Access,
    cancelled: &dyn Fn() -> bool,
) -> Result<Compaction, StoreError> {
    of_files(path, &Files::open(path, access)?)?.compaction(path, access, cancelled)
}

/// Writes the remaining objects of a store to another file, and returns their number. It checks `cancelled` for each
/// object and stops if that returns true.
///
/// # Errors
/// When the store's kind is not listed, it cannot be read, the file cannot be written, or the caller cancels it.
pub fn copy(store: &Arc<dyn Store>, out: &Path, cancelled: &dyn Fn() -> bool) -> Result<u64, StoreError> {
    let kind = KINDS.iter().find(|kind| kind.name() == store.kind());
    kind.ok_or_else(|| unknown(store.path(), store.kind()))?.copy(store, out, cancelled)
}

fn of_files(path: &Path, files: &Files) -> Result<&'static dyn AnyKind, StoreError> {
    let kind = KINDS.iter().find(|kind| kind.name() == files.kind());
    kind.copied().ok_or_else(|| unknown(path, files.kind()))
}

fn unknown(path: &Path, found: &str) -> StoreError {
    let reason = format!("it holds {found}, a kind of objects that this program does not know");
    StoreError::NotAStore { path: path.to_owned(), reason, is_foreign: false }
}

/// A kind of object as a value.
pub trait AnyKind: Debug + Sync {
    /// The name of the objects, in the plural.
    fn name(&self) -> &'static str;

    /// Whether the members of an object in JSON stand in its line, beside its name, and not under a key.
    fn fills_line(&self) -> bool;

    /// The Arrow types that columns of other programs may have.
    fn arrow_types(&self) -> &'static str;

    /// Whether objects in a store's files and in envelopes have this Arrow type.
    fn is_type(&self, kind: &DataType) -> bool;

    /// The names of an object's columns beside id and name; the object itself comes first.
    fn column_names(&self) -> &'static [&'static str];

    /// An empty list of objects like a JSON value; `None` if the value has the form of another kind.
    fn rows_of_json(&self, value: &Value) -> Option<Result<Box<dyn AnyRows>, String>>;

    /// An empty list of objects like the first in a column; `None` if the column is of another kind.
    fn rows_of_array(&self, objects: &ArrayRef) -> Option<Box<dyn AnyRows>>;

    /// Appends the objects in columns of this kind to a text, a line of JSON each, from which
    /// [`Incoming`](crate::object_column::Incoming) makes equal ones. If the file begins with them, `head` has what its
    /// first line says for all objects.
    ///
    /// # Errors
    /// When the columns are of another kind, or hold no sound objects.
    fn write_lines(
        &self,
        names: &StringArray,
        columns: &[ArrayRef],
        head: Option<Head>,
        text: &mut String,
    ) -> Result<(), String>;

    /// The store in these files.
    ///
    /// # Errors
    /// When they hold objects of another kind, or of different dimensions or coordinates.
    fn open(&self, files: Files, machine: Option<Topology>) -> Result<Arc<dyn Store>, StoreError>;

    /// Starts a store of objects like the first in these columns; `None` if the columns are of another kind.
    ///
    /// # Errors
    /// When the folder cannot be written to.
    fn create(
        &self,
        path: &Path,
        columns: &[ArrayRef],
        info: &StoreInfo,
    ) -> Option<Result<Box<dyn AnyWriter>, StoreError>>;

    /// Starts a change of a store file.
    ///
    /// # Errors
    /// As [`StoreChange::begin`](crate::object_store::StoreChange::begin).
    fn change(&self, path: &Path, access: Access) -> Result<Box<dyn AnyChange>, StoreError>;

    /// Writes the remaining objects of a store file, to replace it.
    ///
    /// # Errors
    /// As [`compaction`].
    fn compaction(
        &self,
        path: &Path,
        access: Access,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<Compaction, StoreError>;

    /// Writes the remaining objects of a store of this kind to another file.
    ///
    /// # Errors
    /// As [`copy`].
    fn copy(
        &self,
        store: &Arc<dyn Store>,
        out: &Path,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<u64, StoreError>;
}

/// The facts for all objects in the first line of a file, beside those of their kind.
#[derive(Clone, Copy, Debug, Default)]
pub struct Head {
    /// The alpha of searches that name none.
    pub alpha: Option<f64>,
}

/// Objects of a kind that come one by one and stay in memory: see [`Rows`](crate::object_store::Rows).
pub trait AnyRows: Send {
    /// The objects' name in the plural.
    fn kind(&self) -> &'static str;

    /// Number of objects so far, except those that were taken.
    fn len(&self) -> u64;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends an object in JSON.
    ///
    /// # Errors
    /// Describes the fault of the object; or when the system has no memory.
    fn push_json(&mut self, name: &str, value: &Value) -> Result<(), String>;

    /// Appends the object in a row of columns; otherwise as [`AnyRows::push_json`].
    ///
    /// # Errors
    /// As [`AnyRows::push_json`].
    fn push_row(&mut self, name: &str, columns: &[ArrayRef], row: usize) -> Result<(), String>;

    /// Whether there are enough objects or numbers to take them.
    fn is_full(&self, rows: usize) -> bool;

    /// Takes out the names and columns of the objects so far.
    fn take(&mut self) -> (StringArray, Vec<ArrayRef>);

    /// Moves the objects so far into a batch, if they fill one.
    ///
    /// # Errors
    /// When the system gives no memory for them.
    fn keep(&mut self) -> Result<(), String>;

    /// The store of all objects that were kept, named after the file from which they came; `alpha` is that of the file,
    /// if it says one.
    ///
    /// # Errors
    /// When there is no object, or no memory.
    fn finish(self: Box<Self>, path: &Path, alpha: Option<f64>) -> Result<Arc<dyn Store>, BoxError>;
}

/// An unfinished store of any kind: see [`StoreWriter`](crate::object_store::StoreWriter).
pub trait AnyWriter: Send {
    /// Number of objects so far.
    fn len(&self) -> u64;

    /// Whether it is empty.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends the objects in the rows of these columns.
    ///
    /// # Errors
    /// When they are of another kind, an object is invalid, its name is taken, or the file cannot be written.
    fn push_rows(&mut self, names: &StringArray, columns: &[ArrayRef]) -> Result<(), StoreError>;

    /// Puts the store on disk under its name, and returns the number of its objects.
    ///
    /// # Errors
    /// As [`StoreWriter::finish`](crate::object_store::StoreWriter::finish).
    fn finish(self: Box<Self>) -> Result<u64, StoreError>;
}

/// An unfinished change of a store of any kind: see [`StoreChange`](crate::object_store::StoreChange).
pub trait AnyChange: Send {
    /// The store as it is before the change.
    fn store(&self) -> Arc<dyn Store>;

    /// Refuses objects of another kind, dimension or other coordinates than the store's; needs at least one.
    ///
    /// # Errors
    /// Names both.
    fn check_kind(&self, columns: &[ArrayRef]) -> Result<(), StoreError>;

    /// Adds the objects in the rows of these columns; if `replaces`, each replaces an object of its name.
    ///
    /// # Errors
    /// When they are of another kind, an object is invalid, its name is taken, or the file cannot be written.
    fn push_rows(
        &mut self,
        names: &StringArray,
        columns: &[ArrayRef],
        replaces: bool,
    ) -> Result<(), StoreError>;

    /// Whether the store has an object of this name that equals the one in a row of these columns to the bit.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn has_equal(&self, name: &str, columns: &[ArrayRef], row: usize) -> Result<bool, StoreError>;

    /// Number of objects added so far.
    fn added(&self) -> u64;

    /// Removes an object; otherwise as [`StoreChange::remove`](crate::object_store::StoreChange::remove).
    ///
    /// # Errors
    /// When there is no such object.
    fn remove(&mut self, id: u64) -> Result<bool, StoreError>;

    /// Puts the parts on disk; the store is still unchanged.
    ///
    /// # Errors
    /// As [`StoreChange::write`](crate::object_store::StoreChange::write).
    fn write(self: Box<Self>) -> Result<PendingChange, StoreError>;
}

/// Says why a JSON value is no object of the wanted kind, or of any.
pub(crate) fn of_another_form(value: &Value, wanted: Option<&str>) -> String {
    match (KINDS.iter().find(|kind| kind.rows_of_json(value).is_some()), wanted) {
        (Some(found), Some(wanted)) => {
            format!("it is one of {}, and the column holds {wanted}", found.name())
        }
        _ => format!("{value} is neither text nor a list of numbers"),
    }
}
