//! The lock of a store: who holds it is the only one that changes the store.
//!
//! A file `.NAME.lock` beside the store, locked by the system, so that it is free when its process is gone. It is
//! removed by its holder; whoever waited for the removed file finds that it is not the one of that name, and begins
//! again.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use super::StoreError;

/// The right to change a store.
#[derive(Debug)]
pub(crate) struct StoreLock {
    // Locked until it is closed.
    _file: File,
    path: PathBuf,
}

impl StoreLock {
    /// Takes the lock of a store whose file this is; messages tell the name that was given for it.
    ///
    /// # Errors
    /// When another process holds it, or there can be none in that folder.
    pub(crate) fn take(store: &Path, given: &Path) -> Result<Self, StoreError> {
        Self::locked(store, |file| file.try_lock()).map_err(|error| match error {
            TryLockError::WouldBlock => StoreError::Busy { path: given.to_owned() },
            TryLockError::Error(source) => StoreError::Io { path: given.to_owned(), action: "lock", source },
        })
    }

    /// Takes the lock of a store when whoever holds it is done.
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
            let file = OpenOptions::new().write(true).create(true).truncate(false).open(&path);
            let file = file.map_err(TryLockError::Error)?;
            lock(&file)?;
            if is_of_name(&file, &path) {
                return Ok(Self { _file: file, path });
            }
        }
    }
}

impl Drop for StoreLock {
    fn drop(&mut self) {
        // Where it cannot be told whether a file is the one of its name, it stays.
        if cfg!(unix) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Whether an open file is the one that has a name now.
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
        // Whoever waits gets it, though the file that it waited for is gone then.
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
