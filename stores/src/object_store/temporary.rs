//! A file that appears under its name complete or not at all.
//!
//! It is written beside its name as `.NAME.tmp-PID-n`, synced and renamed. A file that is dropped before that is
//! removed. A killed process leaves its temporary files; the next process that writes a file of that name, or changes
//! the store or index of that name, removes them. A temporary file is locked while it is written, so it is a leftover
//! if its process has ended *and* no process holds its lock. Neither condition is enough alone: process ids of another
//! container mean nothing here, and not every file system supports locks.
//!
//! A symbolic link stands for its target: the link stays, and the target is replaced.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::steps::step;

/// Bytes that the system is asked to put on disk at a time, while others are computed. The sync at the end then waits for the
/// last ones only.
const WRITE_BACK_BYTES: u64 = 8 << 20;

/// An unfinished file.
#[derive(Debug)]
pub struct TemporaryFile {
    file: File,
    /// Bytes of the file.
    bytes: u64,
    /// The first bytes, which the system was asked to put on disk.
    begun: u64,
    temporary_path: PathBuf,
    path: PathBuf,
    kept: bool,
}

impl TemporaryFile {
    /// Starts a file that will be named `path`.
    ///
    /// # Errors
    /// When the folder cannot be written, or `path` is a folder, a device, a pipe or a socket, which the finished file
    /// would replace.
    pub fn create(path: &Path) -> io::Result<Self> {
        /// Only leftovers of killed runs with this process id can have these names.
        const TRIES: usize = 1000;
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let path = real_path(path);
        let name = path.file_name().ok_or(io::ErrorKind::InvalidFilename)?;
        match fs::metadata(&path) {
            Ok(found) if found.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
            Ok(found) if !found.is_file() => {
                let reason =
                    "it is a device or a pipe, and the finished file would replace it; give a file's name";
                return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
            }
            _ => {}
        }
        remove_leftovers(&path);
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
                Ok(file) => {
                    // On file systems without locks, leftovers stay; nothing else is affected.
                    let _ = file.try_lock();
                    return Ok(Self { file, bytes: 0, begun: 0, temporary_path, path, kept: false });
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// Its final name.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its name until it is kept.
    pub(crate) fn temporary_path(&self) -> &Path {
        &self.temporary_path
    }

    /// Puts the file on disk under its name, replacing a file there.
    pub fn keep(self) -> io::Result<()> {
        let path = self.path.clone();
        self.keep_as(&path)
    }

    /// As [`TemporaryFile::keep`], but under another name in the same folder.
    ///
    /// Parts of a store or index use this: their temporary files are named after the store or index, so that its next
    /// change finds the leftovers of a killed process, whatever part they were meant for.
    pub(crate) fn keep_as(mut self, path: &Path) -> io::Result<()> {
        debug_assert_eq!(folder_of(path), folder_of(&self.path), "a file is renamed within its folder");
        self.file.sync_all()?;
        step("file synced");
        fs::rename(&self.temporary_path, path)?;
        step("file renamed");
        self.kept = true;
        // The rename is on disk once the folder is synced.
        File::open(folder_of(path))?.sync_all()
    }
}

impl Write for TemporaryFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.file.write(bytes)?;
        self.bytes += count as u64;
        if self.bytes - self.begun >= WRITE_BACK_BYTES {
            write_back(&self.file, self.begun..self.bytes);
            self.begun = self.bytes;
        }
        Ok(count)
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

/// Asks the system to put bytes of a file on disk soon. It waits for none of them, but for room in the disk's queue.
#[cfg(all(target_os = "linux", not(miri)))]
#[expect(unsafe_code, reason = "the standard library only waits for whole files")]
fn write_back(file: &File, range: Range<u64>) {
    use std::os::fd::AsRawFd;
    let (Ok(start), Ok(count)) = (i64::try_from(range.start), i64::try_from(range.end - range.start)) else {
        return;
    };
    // SAFETY: the descriptor is open, and the call reads and writes no memory of the process. If it fails, the sync at the end
    // writes these bytes.
    let _ = unsafe { libc::sync_file_range(file.as_raw_fd(), start, count, libc::SYNC_FILE_RANGE_WRITE) };
}

/// Other systems choose the time by themselves.
#[cfg(not(all(target_os = "linux", not(miri))))]
fn write_back(_: &File, _: Range<u64>) {}

/// Removes the temporary files that killed processes left for a name; if the folder cannot be read, they stay.
pub(crate) fn remove_leftovers(path: &Path) {
    let (Some(name), Ok(entries)) = (path.file_name(), fs::read_dir(folder_of(path))) else { return };
    for entry in entries.filter_map(Result::ok) {
        let is_leftover = process_of(&entry.file_name(), name).is_some_and(|process| !is_alive(process))
            && entry.file_type().is_ok_and(|kind| kind.is_file())
            && File::open(entry.path()).is_ok_and(|file| file.try_lock().is_ok());
        if is_leftover {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// The process that writes a temporary file for `name`, if the file's own name has that form.
fn process_of(file_name: &OsStr, name: &OsStr) -> Option<u32> {
    let rest = file_name.as_encoded_bytes().strip_prefix(b".")?;
    let rest = rest.strip_prefix(name.as_encoded_bytes())?.strip_prefix(b".tmp-")?;
    let (process, count) = std::str::from_utf8(rest).ok()?.split_once('-')?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(process) || !is_number(count) {
        return None;
    }
    process.parse().ok().filter(|process| *process > 0)
}

/// Whether a process with this id runs on this machine, as far as the system can answer.
#[cfg(unix)]
#[expect(unsafe_code, reason = "the system is asked for a process")]
fn is_alive(process: u32) -> bool {
    let Ok(process) = i32::try_from(process) else { return false };
    // SAFETY: signal 0 reaches no process; the call only checks whether the process exists.
    let answer = unsafe { libc::kill(process, 0) };
    answer == 0 || io::Error::last_os_error().raw_os_error() != Some(libc::ESRCH)
}

/// Leftovers stay on systems that cannot tell whether a process is alive.
#[cfg(not(unix))]
fn is_alive(_: u32) -> bool {
    true
}

/// The target of a symbolic link, or the path itself.
pub(crate) fn real_path(path: &Path) -> PathBuf {
    let target = if path.is_symlink() { fs::canonicalize(path).ok() } else { None };
    target.unwrap_or_else(|| path.to_owned())
}

pub(super) fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leftovers_of_dead_processes_are_removed_and_nothing_else() {
        /// Beyond every system's process ids.
        const DEAD: u32 = 2_000_000_000;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.arrow");
        let own = std::process::id();
        let gone = [format!(".s.arrow.tmp-{DEAD}-0"), format!(".s.arrow.tmp-{DEAD}-17")];
        let stays = [
            format!(".s.arrow.tmp-{own}-0"),
            format!(".s.arrow.tmp-{DEAD}-"),
            format!(".s.arrow.tmp-{DEAD}"),
            format!(".s.arrow.tmp-{DEAD}-0.bak"),
            format!(".s.arrow.tmp-+{DEAD}-0"),
            ".s.arrow.tmp-0-0".to_owned(),
            format!("s.arrow.tmp-{DEAD}-0"),
            format!(".t.arrow.tmp-{DEAD}-0"),
            format!(".s.arrow.gaussian.sigma.tmp-{DEAD}-0"),
        ];
        for name in gone.iter().chain(&stays) {
            fs::write(folder.path().join(name), name).unwrap();
        }
        let inner = folder.path().join(format!(".s.arrow.tmp-{DEAD}-1"));
        fs::create_dir(&inner).unwrap();
        // A process of another container: its id means nothing on this machine.
        let held = folder.path().join(format!(".s.arrow.tmp-{DEAD}-2"));
        let holder = File::create(&held).unwrap();
        holder.try_lock().unwrap();
        drop(TemporaryFile::create(&path).unwrap());
        assert!(gone.iter().all(|name| !folder.path().join(name).exists()));
        for name in &stays {
            assert_eq!(fs::read_to_string(folder.path().join(name)).unwrap(), *name);
        }
        assert!(inner.is_dir() && held.exists());
    }

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

    #[test]
    #[cfg(unix)]
    fn a_device_or_a_pipe_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let error = TemporaryFile::create(&path).unwrap_err();
        assert!(error.to_string().contains("would replace it"), "{error}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    #[cfg(unix)]
    fn what_is_written_by_the_name_of_a_link_replaces_its_target() {
        let folder = tempfile::tempdir().unwrap();
        let [inner, link] = ["inner", "link"].map(|name| folder.path().join(name));
        fs::create_dir(&inner).unwrap();
        fs::write(inner.join("file"), "old").unwrap();
        std::os::unix::fs::symlink(inner.join("file"), &link).unwrap();
        let mut file = TemporaryFile::create(&link).unwrap();
        file.write_all(b"new").unwrap();
        file.keep().unwrap();
        assert!(link.is_symlink());
        assert_eq!(fs::read(inner.join("file")).unwrap(), b"new");
    }
}
