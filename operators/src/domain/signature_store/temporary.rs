//! A file that appears under its name whole or not at all.
//!
//! It is written beside its name as `.NAME.tmp-PID-n`, synced and renamed; dropped before that it is removed.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// A file under way.
#[derive(Debug)]
pub(crate) struct TemporaryFile {
    file: File,
    temporary_path: PathBuf,
    path: PathBuf,
    kept: bool,
}

impl TemporaryFile {
    /// Starts a file that will be named `path`.
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        /// Only leftovers of killed runs with this process's number stand in the way.
        const TRIES: usize = 1000;
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let name = path.file_name().ok_or(io::ErrorKind::InvalidFilename)?;
        if path.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        for _ in 0..TRIES {
            let mut temporary_name = OsString::from(".");
            temporary_name.push(name);
            temporary_name.push(format!(
                ".tmp-{}-{}",
                std::process::id(),
                COUNT.fetch_add(1, Ordering::Relaxed)
            ));
            let temporary_path = path.with_file_name(temporary_name);
            match OpenOptions::new().write(true).create_new(true).open(&temporary_path) {
                Ok(file) => return Ok(Self { file, temporary_path, path: path.to_owned(), kept: false }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// Puts the file on disk under its name, in place of one that is there.
    pub(crate) fn keep(mut self) -> io::Result<()> {
        self.file.sync_all()?;
        fs::rename(&self.temporary_path, &self.path)?;
        self.kept = true;
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        // The rename is on disk once the folder is.
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
    }
}

impl Write for TemporaryFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        if !self.kept {
            // Nothing more can be done about a file that cannot be removed.
            let _ = fs::remove_file(&self.temporary_path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn appears_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "old").unwrap();
        let mut dropped = TemporaryFile::create(&path).unwrap();
        dropped.write_all(b"half").unwrap();
        drop(dropped);
        assert_eq!(fs::read(&path).unwrap(), b"old");
        let mut kept = TemporaryFile::create(&path).unwrap();
        kept.write_all(b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"old");
        kept.keep().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        assert!(TemporaryFile::create(folder.path()).is_err());
        assert!(TemporaryFile::create(&folder.path().join("none/file")).is_err());
    }
}
