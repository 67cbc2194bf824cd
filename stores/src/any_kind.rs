//! The kinds of objects as values, for files whose kind is unknown until they are opened.

use std::fmt::Debug;
use std::marker::PhantomData;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, StringArray};
use arrow_schema::DataType;
use boxwork_runtime::operator::BoxError;
use boxwork_runtime::topology::Topology;
use serde_json::Value;

use super::kinds::{Codes, Kind, Sets, Signatures, Texts, Vectors};
use super::object_store::{
    Access, Compaction, Files, ObjectStore, PendingChange, Rows, StoreChange, StoreInfo, StoreWriter, copied,
};
use super::store::Store;
use super::store_error::StoreError;

/// Every kind of object. A new one is a file under `kinds` and a line here. If several kinds have the form of some JSON
/// or Arrow and none is named, the first is taken.
pub static KINDS: &[&dyn AnyKind] = &[
    &Listed::<Signatures>::NEW,
    &Listed::<Vectors>::NEW,
    &Listed::<Texts>::NEW,
    &Listed::<Sets>::NEW,
    &Listed::<Codes>::NEW,
];

/// Finds a kind by name.
///
/// # Errors
/// Names all kinds.
pub fn named(name: &str) -> Result<&'static dyn AnyKind, String> {
    let found = KINDS.iter().find(|kind| kind.name() == name);
    found.copied().ok_or_else(|| {
        let names: Vec<&str> = KINDS.iter().map(|kind| kind.name()).collect();
        format!("there are no objects called `{name}`; there are {}", names.join(", "))
    })
}

/// Opens a store file of any kind. With a machine, batches are copied to its nodes, see [`ObjectStore::copied_to`].
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
/// As [`StoreChange::begin`].
pub fn change(path: &Path) -> Result<Box<dyn AnyChange>, StoreError> {
    change_by(path, Access::Map)
}

/// As [`change`], but `access` decides whether the files are mapped or read.
///
/// # Errors
/// As [`StoreChange::begin`].
pub fn change_by(path: &Path, access: Access) -> Result<Box<dyn AnyChange>, StoreError> {
    of_files(path, &Files::open(path, access)?)?.change(path, access)
}

/// Writes what is left of a store file of any kind, to take its place. The files are mapped or read as `access` says.
/// `cancelled` says when to stop, and is asked for each object.
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
    /// The objects' name in the plural.
    fn name(&self) -> &'static str;

    /// The Arrow types accepted in columns of other programs; empty if there are none.
    fn arrow_types(&self) -> &'static str;

    /// Whether objects in a store's files and in envelopes have this Arrow type.
    fn is_type(&self, kind: &DataType) -> bool;

    /// The names of an object's columns beside id and name; the object itself comes first.
    fn column_names(&self) -> &'static [&'static str];

    /// An empty list of objects like a JSON value; `None` if the value has the form of another kind.
    fn rows_of_json(&self, value: &Value) -> Option<Box<dyn AnyRows>>;

    /// An empty list of objects like the first in a column; `None` if the column is of another kind.
    fn rows_of_array(&self, objects: &ArrayRef) -> Option<Box<dyn AnyRows>>;

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
    /// As [`StoreChange::begin`].
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

/// Objects of a kind that come one by one and stay in memory: see [`Rows`].
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

    /// The store of all objects that were kept, named after the file from which they came.
    ///
    /// # Errors
    /// When there is no object, or no memory.
    fn finish(self: Box<Self>, path: &Path) -> Result<Arc<dyn Store>, BoxError>;
}

/// An unfinished store of any kind: see [`StoreWriter`].
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
    /// As [`StoreWriter::finish`].
    fn finish(self: Box<Self>) -> Result<u64, StoreError>;
}

/// An unfinished change of a store of any kind: see [`StoreChange`].
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

    /// Number of objects added so far.
    fn added(&self) -> u64;

    /// Removes an object; otherwise as [`StoreChange::remove`].
    ///
    /// # Errors
    /// When there is no such object.
    fn remove(&mut self, id: u64) -> Result<bool, StoreError>;

    /// Puts the parts on disk; the store is still unchanged.
    ///
    /// # Errors
    /// As [`StoreChange::write`].
    fn write(self: Box<Self>) -> Result<PendingChange, StoreError>;
}

/// A listed kind.
struct Listed<K>(PhantomData<fn() -> K>);

impl<K> Listed<K> {
    const NEW: Self = Self(PhantomData);
}

impl<K: Kind> Debug for Listed<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(K::NAME)
    }
}

impl<K: Kind> AnyKind for Listed<K> {
    fn name(&self) -> &'static str {
        K::NAME
    }

    fn arrow_types(&self) -> &'static str {
        K::ARROW_TYPES
    }

    fn is_type(&self, kind: &DataType) -> bool {
        K::is_type(kind)
    }

    fn column_names(&self) -> &'static [&'static str] {
        K::COLUMN_NAMES
    }

    fn rows_of_json(&self, value: &Value) -> Option<Box<dyn AnyRows>> {
        Some(Box::new(Rows::new(K::of_json(value)?)))
    }

    fn rows_of_array(&self, objects: &ArrayRef) -> Option<Box<dyn AnyRows>> {
        Some(Box::new(Rows::new(K::of_array(objects)?)))
    }

    fn open(&self, files: Files, machine: Option<Topology>) -> Result<Arc<dyn Store>, StoreError> {
        let store = ObjectStore::<K>::of_files(files)?;
        Ok(Arc::new(match machine {
            Some(machine) => store.copied_to(machine),
            None => store,
        }))
    }

    fn create(
        &self,
        path: &Path,
        columns: &[ArrayRef],
        info: &StoreInfo,
    ) -> Option<Result<Box<dyn AnyWriter>, StoreError>> {
        let kind = K::of_array(columns.first()?)?;
        Some(StoreWriter::of(path, &kind, info).map(|writer| Box::new(writer) as Box<dyn AnyWriter>))
    }

    fn change(&self, path: &Path, access: Access) -> Result<Box<dyn AnyChange>, StoreError> {
        Ok(Box::new(StoreChange::<K>::begin_by(path, access)?))
    }

    fn compaction(
        &self,
        path: &Path,
        access: Access,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<Compaction, StoreError> {
        Compaction::write::<K>(path, access, cancelled)
    }

    fn copy(
        &self,
        store: &Arc<dyn Store>,
        out: &Path,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<u64, StoreError> {
        let found = ObjectStore::<K>::of(store).ok_or_else(|| unknown(store.path(), store.kind()))?;
        copied(&found, out, out, cancelled)?.finish()
    }
}

impl<K: Kind> AnyRows for Rows<K> {
    fn kind(&self) -> &'static str {
        K::NAME
    }

    fn len(&self) -> u64 {
        self.len()
    }

    fn push_json(&mut self, name: &str, value: &Value) -> Result<(), String> {
        if K::of_json(value).is_none() {
            let found = KINDS.iter().find(|kind| kind.rows_of_json(value).is_some());
            return Err(match found {
                Some(found) => format!("it is one of {}, and the column holds {}", found.name(), K::NAME),
                None => format!("{value} is neither text nor a list of numbers"),
            });
        }
        self.push(name, |builder| K::push_json(builder, value))
    }

    fn push_row(&mut self, name: &str, columns: &[ArrayRef], row: usize) -> Result<(), String> {
        self.push(name, |builder| K::push_row(builder, columns, row))
    }

    fn is_full(&self, rows: usize) -> bool {
        self.is_full(rows)
    }

    fn take(&mut self) -> (StringArray, Vec<ArrayRef>) {
        self.take()
    }

    fn keep(&mut self) -> Result<(), String> {
        self.keep()
    }

    fn finish(self: Box<Self>, path: &Path) -> Result<Arc<dyn Store>, BoxError> {
        Ok(Arc::new((*self).finish(path)?))
    }
}

impl<K: Kind> AnyWriter for StoreWriter<K> {
    fn len(&self) -> u64 {
        self.len()
    }

    fn push_rows(&mut self, names: &StringArray, columns: &[ArrayRef]) -> Result<(), StoreError> {
        self.check_kind(&kind_of(self.path(), columns)?)?;
        (0..columns[0].len()).try_for_each(|row| self.push_row(names.value(row), columns, row))
    }

    fn finish(self: Box<Self>) -> Result<u64, StoreError> {
        (*self).finish()
    }
}

impl<K: Kind> AnyChange for StoreChange<K> {
    fn store(&self) -> Arc<dyn Store> {
        Arc::<ObjectStore<K>>::clone(self.store())
    }

    fn check_kind(&self, columns: &[ArrayRef]) -> Result<(), StoreError> {
        let store = self.store();
        store.check_kind(&kind_of(store.path(), columns)?)
    }

    fn push_rows(
        &mut self,
        names: &StringArray,
        columns: &[ArrayRef],
        replaces: bool,
    ) -> Result<(), StoreError> {
        AnyChange::check_kind(self, columns)?;
        (0..columns[0].len()).try_for_each(|row| {
            let name = names.value(row);
            if replaces {
                self.remove_named(name)?;
            }
            self.push_row(name, columns, row)
        })
    }

    fn added(&self) -> u64 {
        self.added()
    }

    fn remove(&mut self, id: u64) -> Result<bool, StoreError> {
        self.remove(id)
    }

    fn write(self: Box<Self>) -> Result<PendingChange, StoreError> {
        (*self).write()
    }
}

/// The kind of new objects, which must be that of the store.
fn kind_of<K: Kind>(store: &Path, columns: &[ArrayRef]) -> Result<K, StoreError> {
    let objects = columns.first().filter(|objects| !objects.is_empty());
    objects.and_then(K::of_array).ok_or_else(|| StoreError::Metadata {
        path: store.to_owned(),
        reason: format!(
            "it holds {}, and the objects that came are {}",
            K::NAME,
            objects.map_or_else(|| "none".to_owned(), |objects| objects.data_type().to_string())
        ),
    })
}
