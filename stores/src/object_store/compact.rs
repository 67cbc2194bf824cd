//! Compaction: a store of the remaining objects, in one file again.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::lock::StoreLock;
use super::map::Access;
use super::temporary::TemporaryFile;
use super::{ObjectStore, StoreError, StoreWriter};
use crate::kinds::Kind;
use crate::store::Store;

/// A compacted store on disk that is not in effect. Dropping it leaves the store unchanged.
pub struct Compaction {
    given: PathBuf,
    // Before the lock: dropped first.
    file: TemporaryFile,
    path: PathBuf,
    store: Arc<dyn Store>,
    compacted: Arc<dyn Store>,
    lock: StoreLock,
}

impl Compaction {
    /// Takes the lock of a store, and writes its remaining objects in their order. `access` decides whether both stores
    /// are mapped or read. It checks `cancelled` for each object and stops if that returns true.
    ///
    /// # Errors
    /// When another process changes the store, the caller cancels it, and as [`ObjectStore::open`] and
    /// [`StoreWriter::push_item`].
    pub(crate) fn write<K: Kind>(
        given: &Path,
        access: Access,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<Self, StoreError> {
        let path = fs::canonicalize(given);
        let path =
            path.map_err(|source| StoreError::Io { path: given.to_owned(), action: "open", source })?;
        let lock = StoreLock::take(&path, given)?;
        let store = Arc::new(ObjectStore::<K>::open_by(given, access)?);
        let (file, ..) = copied(&store, given, &path, cancelled)?.finish_file()?;
        let mut compacted = ObjectStore::<K>::open_by(file.temporary_path(), access)?;
        given.clone_into(&mut compacted.files.path);
        Ok(Self { given: given.to_owned(), file, path, store, compacted: Arc::new(compacted), lock })
    }

    /// The store before the compaction.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// The store after the compaction.
    pub fn compacted(&self) -> &Arc<dyn Store> {
        &self.compacted
    }

    /// Replaces the store by the compacted one, and returns the lock.
    ///
    /// # Errors
    /// When the file cannot be renamed: the store is unchanged.
    pub fn commit(self) -> Result<impl Drop, StoreError> {
        let Self { given, file, path, lock, .. } = self;
        let replaced = lock.replacing(&path, || file.keep());
        replaced.map_err(|source| StoreError::Io { path: given, action: "write", source })?;
        Ok(lock)
    }
}

/// A writer of `file` that holds the remaining objects of a store. Messages name the file as `given`. It checks
/// `cancelled` for each object and stops if that returns true.
///
/// # Errors
/// When the store cannot be read, the file cannot be written, or the caller cancels it.
pub(crate) fn copied<K: Kind>(
    store: &ObjectStore<K>,
    given: &Path,
    file: &Path,
    cancelled: &dyn Fn() -> bool,
) -> Result<StoreWriter<K>, StoreError> {
    let mut writer = StoreWriter::of_part(given, file, store.kind(), store.info())?;
    for batch in 0..store.batches() {
        // Batch by batch: `read` checks after each that the file is unchanged.
        store.read(|objects| {
            for id in store.among(store.ids(batch)) {
                if cancelled() {
                    return Err(StoreError::Cancelled { path: given.to_owned() });
                }
                writer.push_item(objects.name(id)?, objects.item(id)?)?;
            }
            Ok::<_, StoreError>(())
        })?;
    }
    Ok(writer)
}
