//! The lock of a store: only its holder changes the store. It is also the journal of the change.
//!
//! The lock is a file `.NAME.lock` beside the store, locked by the system, so that it is free when its process has
//! ended. Its holder removes it. A process that waited for a lock file checks whether the file still has its name, and
//! tries again if not.
//!
//! Before the holder gives parts their names, or replaces the record that names them, it notes these parts in the lock
//! file. If the process is killed, the file stays, and the next holder removes the noted parts that belong to no store
//! ([`orphans`]). The journal is not synced: after a loss of power such parts may stay.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use super::manifest::{BYTES_MAX, Line, lines_in};
use super::temporary::{folder_of, remove_leftovers};
use super::{StoreError, orphans};
use crate::steps::step;

/// The right to change a store.
#[derive(Debug)]
pub(crate) struct StoreLock {
    // Locked until it is closed.
    file: File,
    path: PathBuf,
}

impl StoreLock {
    /// Takes the lock of this file's store; messages name the file as `given`, the user's spelling.
    ///
    /// # Errors
    /// When another process holds it, or the folder allows none.
    pub(crate) fn take(store: &Path, given: &Path) -> Result<Self, StoreError> {
        Self::locked(store, |file| file.try_lock()).map_err(|error| match error {
            TryLockError::WouldBlock => StoreError::Busy { path: given.to_owned() },
            TryLockError::Error(source) => StoreError::Io { path: given.to_owned(), action: "lock", source },
        })
    }

    /// Waits for the lock of a store and takes it.
    pub(crate) fn wait(store: &Path) -> io::Result<Self> {
        Self::locked(store, |file| file.lock().map_err(TryLockError::Error)).map_err(io::Error::from)
    }

    fn locked(store: &Path, lock: impl Fn(&File) -> Result<(), TryLockError>) -> Result<Self, TryLockError> {
        let mut name = OsString::from(".");
        let no_name = || TryLockError::Error(io::ErrorKind::InvalidFilename.into());
        name.push(store.file_name().ok_or_else(no_name)?);
        name.push(".lock");
        let path = store.with_file_name(name);
        loop {
            let file = OpenOptions::new().read(true).append(true).create(true).open(&path);
            let file = file.map_err(TryLockError::Error)?;
            lock(&file)?;
            if is_of_name(&file, &path) {
                let lock = Self { file, path };
                lock.tidy(store).map_err(TryLockError::Error)?;
                return Ok(lock);
            }
        }
    }

    /// Removes leftovers of a killed holder: first its temporary files, as one may be a record.
    fn tidy(&self, store: &Path) -> io::Result<()> {
        remove_leftovers(store);
        let mut journal = Vec::new();
        (&self.file).take(BYTES_MAX).read_to_end(&mut journal)?;
        if !journal.is_empty() {
            orphans::remove(folder_of(store), &lines_in(&String::from_utf8_lossy(&journal)));
            self.file.set_len(0)?;
        }
        Ok(())
    }

    /// Notes parts that belong to no store if this process is killed now, or soon.
    pub(super) fn note(&self, parts: &[Line]) -> io::Result<()> {
        let mut text = String::new();
        parts.iter().for_each(|part| part.write(&mut text));
        (&self.file).write_all(text.as_bytes())?;
        step("parts noted");
        Ok(())
    }

    /// Calls `replace`, which replaces the whole store, then removes the parts that belong to no store any more.
    pub(super) fn replacing(&self, store: &Path, replace: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let parts = orphans::parts_of(store);
        self.note(&parts)?;
        replace()?;
        step("store replaced");
        orphans::remove(folder_of(store), &parts);
        Ok(())
    }
}

impl Drop for StoreLock {
    fn drop(&mut self) {
        // The file stays on systems that cannot check whether it still has its name.
        if cfg!(unix) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Whether a name still leads to this open file.
#[cfg(unix)]
fn is_of_name(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let of = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
    file.metadata().map(of).ok().is_some_and(|this| fs::metadata(path).map(of).ok() == Some(this))
}

#[cfg(not(unix))]
fn is_of_name(_: &File, _: &Path) -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_holds_it_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let store = folder.path().join("s.arrow");
        let lock = StoreLock::take(&store, &store).unwrap();
        let error = StoreLock::take(&store, &store).unwrap_err().to_string();
        assert!(error.contains("another process is changing") && error.contains("s.arrow"), "{error}");
        let other = StoreLock::take(&folder.path().join("t.arrow"), &store).unwrap();
        // A waiting thread gets the lock even if the file that it waited for is removed.
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| StoreLock::wait(&store).map(drop));
            drop(lock);
            waits.join().unwrap().unwrap();
        });
        drop(other);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        StoreLock::take(&store, &store).map(drop).unwrap();
    }
}
