//! Files below a folder, by names that other people wrote.
//!
//! Invariants: no name leads out of the folder, neither by `..` nor by an absolute path nor by a symbolic link; only
//! regular files are opened, and opening waits for nobody.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Component, Path};

#[cfg(unix)]
use rustix::fs::{CWD, Mode, OFlags, openat};

/// Opens a regular file below a folder.
///
/// # Errors
/// When there is no such file, the name leads out of the folder, or it names no regular file.
pub fn open(folder: &Path, name: &str) -> io::Result<File> {
    let path = Path::new(name);
    let is_below = path.components().all(|part| matches!(part, Component::Normal(_)));
    if name.is_empty() || name.contains('\0') || !is_below {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the name leads out of the folder"));
    }
    let file = open_below(folder, path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"));
    }
    Ok(file)
}

/// Reads a regular file below a folder, if it is not longer than this.
///
/// # Errors
/// As [`open`], and when the file is too long or cannot be read.
pub fn read(folder: &Path, name: &str, bytes_max: u64) -> io::Result<Vec<u8>> {
    let file = open(folder, name)?;
    let mut content = Vec::new();
    file.take(bytes_max + 1).read_to_end(&mut content)?;
    if content.len() as u64 > bytes_max {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "the file is too long"));
    }
    Ok(content)
}

/// A named pipe would keep the caller waiting for its writer.
#[cfg(unix)]
const FLAGS: OFlags = OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

#[cfg(target_os = "linux")]
fn open_below(folder: &Path, path: &Path) -> io::Result<File> {
    use rustix::fs::{ResolveFlags, openat2};
    use rustix::io::Errno;

    let folder = openat(CWD, folder, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    match openat2(&folder, path, FLAGS, Mode::empty(), resolve) {
        Ok(file) => Ok(file.into()),
        // A kernel before 5.6, or a container that forbids the call.
        Err(Errno::NOSYS | Errno::PERM) => by_components(folder, path),
        Err(error) => Err(error.into()),
    }
}

#[cfg(all(unix, not(target_os = "linux")))]
fn open_below(folder: &Path, path: &Path) -> io::Result<File> {
    let folder = openat(CWD, folder, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    by_components(folder, path)
}

/// Opens component by component, and follows no link.
#[cfg(unix)]
fn by_components(folder: std::os::fd::OwnedFd, path: &Path) -> io::Result<File> {
    let mut at = folder;
    let mut parts = path.components().peekable();
    while let Some(part) = parts.next() {
        let is_last = parts.peek().is_none();
        let flags = FLAGS | OFlags::NOFOLLOW;
        let flags = if is_last { flags } else { flags | OFlags::DIRECTORY };
        at = openat(&at, part.as_os_str(), flags, Mode::empty())?;
    }
    Ok(at.into())
}

#[cfg(not(unix))]
fn open_below(folder: &Path, path: &Path) -> io::Result<File> {
    let mut whole = folder.to_owned();
    for part in path.components() {
        whole.push(part);
        if std::fs::symlink_metadata(&whole)?.is_symlink() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the name leads over a link"));
        }
    }
    File::open(whole)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn names_that_lead_out_are_refused() {
        let outer = tempfile::tempdir().unwrap();
        let folder = outer.path().join("photos");
        fs::create_dir_all(folder.join("cats")).unwrap();
        fs::write(outer.path().join("secret"), b"secret").unwrap();
        fs::write(folder.join("cats/1.jpg"), b"cat").unwrap();
        assert_eq!(read(&folder, "cats/1.jpg", 9).unwrap(), b"cat");
        let absolute = outer.path().join("secret");
        for name in [
            "../secret",
            "cats/../../secret",
            "/etc/passwd",
            "",
            ".",
            "..",
            "cats",
            "cats/1.jpg\0",
            "nothing",
            "cats/1.jpg/x",
            absolute.to_str().unwrap(),
        ] {
            assert!(open(&folder, name).is_err(), "{name:?}");
        }
        assert!(read(&folder, "cats/1.jpg", 2).is_err());
    }

    #[cfg(unix)]
    #[test]
    fn links_out_and_pipes_are_refused() {
        use std::os::unix::fs::symlink;

        let outer = tempfile::tempdir().unwrap();
        let folder = outer.path().join("photos");
        fs::create_dir_all(&folder).unwrap();
        fs::write(outer.path().join("secret"), b"secret").unwrap();
        fs::write(folder.join("1.jpg"), b"cat").unwrap();
        symlink("../secret", folder.join("out")).unwrap();
        symlink(outer.path(), folder.join("up")).unwrap();
        symlink("/proc/self/root", folder.join("root")).unwrap();
        rustix::fs::mknodat(CWD, folder.join("pipe"), rustix::fs::FileType::Fifo, Mode::RUSR, 0).unwrap();
        for name in ["out", "up/secret", "root/etc/passwd", "pipe"] {
            assert!(open(&folder, name).is_err(), "{name}");
            let flags = OFlags::RDONLY | OFlags::DIRECTORY;
            let opened = openat(CWD, &folder, flags, Mode::empty()).unwrap();
            let found = by_components(opened, Path::new(name)).and_then(|file| file.metadata());
            assert!(!found.is_ok_and(|found| found.is_file()), "{name}");
        }
    }
}
