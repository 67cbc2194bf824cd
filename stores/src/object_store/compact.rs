//! Compaction: a store of the objects that are left, in one file again.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::lock::StoreLock;
use super::temporary::TemporaryFile;
use super::{SignatureStore, StoreError, StoreInfo, StoreWriter};

/// A compacted store that is on disk and not in force yet. If it is dropped, the store stays as it was.
pub struct Compaction {
    given: PathBuf,
    // Before the lock: dropped first.
    file: TemporaryFile,
    path: PathBuf,
    store: Arc<SignatureStore>,
    lock: StoreLock,
}

impl Compaction {
    /// Writes what is left of a store, in its order. `cancelled` says when to stop, and is asked for each object.
    ///
    /// # Errors
    /// When another process changes the store, the caller cancels it, and as [`SignatureStore::open`] and
    /// [`StoreWriter::push`].
    pub fn write(given: impl AsRef<Path>, cancelled: &dyn Fn() -> bool) -> Result<Self, StoreError> {
        let given = given.as_ref();
        let path = fs::canonicalize(given);
        let path =
            path.map_err(|source| StoreError::Io { path: given.to_owned(), action: "open", source })?;
        let lock = StoreLock::take(&path, given)?;
        let store = Arc::new(SignatureStore::open(given)?);
        let (file, ..) = copied(&store, given, &path, cancelled)?.finish_file()?;
        Ok(Self { given: given.to_owned(), file, path, store, lock })
    }

    /// The store as it was.
    pub fn store(&self) -> &Arc<SignatureStore> {
        &self.store
    }

    /// Opens the store as it will be.
    ///
    /// # Errors
    /// As [`SignatureStore::open`].
    pub fn compacted(&self) -> Result<SignatureStore, StoreError> {
        let mut store = SignatureStore::open(self.file.temporary_path())?;
        store.path.clone_from(&self.given);
        Ok(store)
    }

    /// Replaces the store by the compacted one, and returns that with the lock.
    ///
    /// # Errors
    /// When the file cannot be renamed: the store stays as it was.
    pub fn commit(self) -> Result<(SignatureStore, impl Drop), StoreError> {
        let Self { given, file, path, lock, .. } = self;
        let replaced = lock.replacing(&path, || file.keep());
        replaced.map_err(|source| StoreError::Io { path: given.clone(), action: "write", source })?;
        Ok((SignatureStore::open(&given)?, lock))
    }
}

/// Writes what is left of a store to another file, and returns the number of objects. `cancelled` says when to stop, and
/// is asked for each object.
///
/// # Errors
/// As [`Compaction::write`].
pub fn copy(store: &SignatureStore, out: &Path, cancelled: &dyn Fn() -> bool) -> Result<u64, StoreError> {
    copied(store, out, out, cancelled)?.finish()
}

/// A writer of `file` that holds what is left of a store. Messages name the file as `given`.
fn copied(
    store: &SignatureStore,
    given: &Path,
    file: &Path,
    cancelled: &dyn Fn() -> bool,
) -> Result<StoreWriter, StoreError> {
    let info = StoreInfo {
        parameters: store.parameters().map(str::to_owned),
        source: store.source().map(Path::to_owned),
    };
    let mut writer = StoreWriter::create_part(given, file, store.coordinates(), &info)?;
    for batch in 0..store.batches() {
        // Batch by batch: after each, `read` makes sure that the file is still whole.
        store.read(|objects| {
            for id in store.among(store.ids(batch)) {
                if cancelled() {
                    return Err(StoreError::Cancelled { path: given.to_owned() });
                }
                let (width, height) = objects.size(id)?;
                writer.push(objects.name(id)?, objects.signature(id)?, width, height)?;
            }
            Ok::<_, StoreError>(())
        })?;
    }
    Ok(writer)
}
