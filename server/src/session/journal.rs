//! The logs of sessions in a folder: a file each, appended and synced before the server answers.
//!
//! Invariants: a session that was acknowledged is on disk; a failed append leaves the file as it was, or is taken back
//! when the file is next read, as its lines are not whole; no name of a client reaches the disk unless it has the form of
//! a session's name.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use super::fold::{FoldError, Session};

/// The letters of a session's name: base32 without padding.
const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
/// The letters in a name: 128 bits of five each.
pub const NAME_LETTERS: usize = 26;
const ENDING: &str = "session.jsonl";
/// The longest log that is read.
pub const LOG_BYTES_MAX: u64 = 64 << 20;

/// A folder of logs.
#[derive(Clone, Debug)]
pub struct Journal {
    folder: PathBuf,
}

/// A log cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// There is none of this name.
    #[error("there is no log of this name")]
    Missing,
    /// A line is none of this log.
    #[error("{file}, line {line}: {cause}")]
    Line {
        /// The file's name, without its folder.
        file: String,
        /// Counted from 1.
        line: usize,
        /// Why.
        cause: FoldError,
    },
    /// The system refuses.
    #[error(transparent)]
    System(#[from] io::Error),
}

/// A name: 128 random bits.
///
/// # Errors
/// When the system has no random numbers.
pub fn new_name() -> io::Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| io::Error::other(error.to_string()))?;
    let bits = u128::from_le_bytes(bytes);
    Ok((0..NAME_LETTERS).map(|idx| char::from(LETTERS[(bits >> (5 * idx)) as usize % 32])).collect())
}

/// Whether a text has the form of a name.
pub fn is_name(text: &str) -> bool {
    text.len() == NAME_LETTERS && text.bytes().all(|byte| LETTERS.contains(&byte))
}

impl Journal {
    /// The logs of a folder, which is made if there is none.
    ///
    /// # Errors
    /// When the folder cannot be made or read.
    pub fn open(folder: &Path) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        let journal = Self { folder: folder.to_owned() };
        journal.count()?;
        Ok(journal)
    }

    /// The number of logs.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn count(&self) -> io::Result<usize> {
        let mut count = 0;
        for entry in fs::read_dir(&self.folder)? {
            count += usize::from(entry?.file_name().to_string_lossy().ends_with(ENDING));
        }
        Ok(count)
    }

    fn path(&self, name: &str) -> Option<PathBuf> {
        is_name(name).then(|| self.folder.join(format!("{name}.{ENDING}")))
    }

    /// Begins a log with these lines, and puts it on disk.
    ///
    /// # Errors
    /// When the system refuses; then there is no file.
    pub fn create(&self, name: &str, lines: &str) -> Result<u64, JournalError> {
        let path = self.path(name).ok_or(JournalError::Missing)?;
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(&path)?;
        let written = file.write_all(lines.as_bytes()).and_then(|()| file.sync_all());
        if let Err(error) = written.and_then(|()| self.sync_folder()) {
            let _ = fs::remove_file(&path);
            return Err(error.into());
        }
        Ok(lines.len() as u64)
    }

    /// Appends lines to a log of this length, and puts them on disk. Returns the new length.
    ///
    /// # Errors
    /// When the system refuses, or the log has another length; it is then as it was, unless the system refuses that too.
    pub fn append(&self, name: &str, length: u64, lines: &str) -> Result<u64, JournalError> {
        let path = self.path(name).ok_or(JournalError::Missing)?;
        let mut file = OpenOptions::new().append(true).open(&path)?;
        if file.metadata()?.len() != length {
            return Err(io::Error::other("another program has changed the log").into());
        }
        if let Err(error) = file.write_all(lines.as_bytes()).and_then(|()| file.sync_data()) {
            let _ = file.set_len(length).and_then(|()| file.sync_data());
            return Err(error.into());
        }
        Ok(length + lines.len() as u64)
    }

    /// Folds a log. Returns the session, the log's length, and whether a torn tail was dropped.
    ///
    /// # Errors
    /// When there is none, it cannot be read, or a line before the last is none of this log.
    pub fn read(&self, name: &str) -> Result<(Session, u64, bool), JournalError> {
        let path = self.path(name).ok_or(JournalError::Missing)?;
        let bytes = self.bytes(&path)?;
        let file = format!("{name}.{ENDING}");
        let (session, length) = fold(&bytes, &file)?;
        let is_torn = length < bytes.len();
        if is_torn {
            let file = OpenOptions::new().write(true).open(&path)?;
            file.set_len(length as u64)?;
            file.sync_data()?;
        }
        Ok((session, length as u64, is_torn))
    }

    fn bytes(&self, path: &Path) -> Result<Vec<u8>, JournalError> {
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(JournalError::Missing),
            Err(error) => return Err(error.into()),
        };
        let mut bytes = Vec::new();
        file.take(LOG_BYTES_MAX + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > LOG_BYTES_MAX {
            return Err(io::Error::other("the log is too long").into());
        }
        Ok(bytes)
    }

    /// A log as it is.
    ///
    /// # Errors
    /// When there is none, or it cannot be read.
    pub fn text(&self, name: &str) -> Result<Vec<u8>, JournalError> {
        let path = self.path(name).ok_or(JournalError::Missing)?;
        self.bytes(&path)
    }

    /// Removes a log. Returns whether there was one.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn remove(&self, name: &str) -> Result<bool, JournalError> {
        let Some(path) = self.path(name) else { return Ok(false) };
        match fs::remove_file(path) {
            Ok(()) => {
                self.sync_folder()?;
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn sync_folder(&self) -> io::Result<()> {
        if cfg!(unix) { File::open(&self.folder)?.sync_all() } else { Ok(()) }
    }
}

/// Folds the whole lines of a log. Returns the session and the bytes that count: a last line without an end, or marks
/// without their round, were not acknowledged and do not count.
///
/// # Errors
/// Names the first line that is none of this log.
pub fn fold(bytes: &[u8], file: &str) -> Result<(Session, usize), JournalError> {
    let failed = |line: usize, cause: FoldError| JournalError::Line { file: file.to_owned(), line, cause };
    let shape = || FoldError::Line(super::event::LineError::Shape);
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let text = std::str::from_utf8(&bytes[..whole]).map_err(|error| {
        let line = bytes[..error.valid_up_to()].iter().filter(|byte| **byte == b'\n').count() + 1;
        failed(line, shape())
    })?;
    let mut lines = text.split_inclusive('\n');
    let first = lines.next().ok_or_else(|| failed(1, shape()))?;
    let mut session = Session::from_line(first.trim_end_matches('\n')).map_err(|cause| failed(1, cause))?;
    let mut length = first.len();
    for (line, text) in (2..).zip(lines) {
        let before = (session.events, session.sum);
        session.read_line(text.trim_end_matches('\n')).map_err(|cause| failed(line, cause))?;
        if session.waits_for_round() && length + text.len() == whole {
            session.drop_marks(before);
            break;
        }
        length += text.len();
    }
    // The first lines are written at once: without a round nothing was acknowledged.
    if session.round() == 0 { Err(JournalError::Missing) } else { Ok((session, length)) }
}

#[cfg(test)]
mod tests {
    use super::super::samples::{marks, round, started};
    use super::*;
    use crate::session::event::Operation;

    #[test]
    fn names_have_128_bits_and_a_form() {
        let names = [new_name().unwrap(), new_name().unwrap()];
        assert!(names[0] != names[1] && names.iter().all(|name| is_name(name)));
        let bad = [String::new(), "../../etc/passwd-aaaaaaaaaa".to_owned(), names[0].to_uppercase()];
        assert!(bad.iter().all(|name| !is_name(name)));
    }

    #[test]
    fn a_log_cut_anywhere_keeps_every_acknowledged_round() {
        let folder = tempfile::tempdir().unwrap();
        let journal = Journal::open(folder.path()).unwrap();
        let (mut session, log) = started();
        let name = new_name().unwrap();
        let first = journal.create(&name, &log).unwrap();
        assert!(matches!(journal.create(&name, &log), Err(JournalError::System(_))));
        let lines = session.lines(&[marks(1, Some(1.0)), round(2)], 0);
        let length = journal.append(&name, first, &lines).unwrap();
        session.take_lines(&lines).unwrap();
        assert_eq!(journal.read(&name).unwrap(), (session.clone(), length, false));
        assert!(journal.append(&name, first, &lines).is_err(), "its length is another");
        let whole = journal.text(&name).unwrap();
        for cut in first as usize..whole.len() {
            fs::write(journal.path(&name).unwrap(), &whole[..cut]).unwrap();
            let (torn, kept, is_torn) = journal.read(&name).unwrap();
            assert_eq!((torn.round(), kept, is_torn), (1, first, cut > first as usize), "cut at {cut}");
            // It goes on from there.
            let length =
                journal.append(&name, kept, &torn.lines(&[marks(1, Some(1.0)), round(2)], 0)).unwrap();
            assert_eq!(journal.read(&name).unwrap().1, length);
        }
        for cut in 0..first as usize {
            fs::write(journal.path(&name).unwrap(), &whole[..cut]).unwrap();
            assert!(journal.read(&name).is_err(), "cut at {cut}");
        }
        assert!(journal.remove(&name).unwrap() && !journal.remove(&name).unwrap());
        assert!(matches!(journal.read(&name), Err(JournalError::Missing)));
        assert!(matches!(journal.read("../x"), Err(JournalError::Missing)));
    }

    #[test]
    fn an_edited_or_foreign_line_is_named() {
        let (mut session, mut log) = started();
        let lines = session.lines(&[marks(1, Some(1.0)), round(2), Operation::Undo], 0);
        session.take_lines(&lines).unwrap();
        log.push_str(&lines);
        for (line, text) in (1..).zip(log.lines()) {
            let edited = log.replacen(text, &text.replacen("\"at\":0", "\"at\":1", 1), 1);
            let error = fold(edited.as_bytes(), "x.jsonl").unwrap_err().to_string();
            assert!(error.starts_with(&format!("x.jsonl, line {line}: its checksum")), "{error}");
        }
        let foreign = format!("{log}no event\n");
        let error = fold(foreign.as_bytes(), "x.jsonl").unwrap_err().to_string();
        assert!(error.starts_with("x.jsonl, line 6: it is no event"), "{error}");
        assert!(fold(&[b"\xff\n", log.as_bytes()].concat(), "x").is_err());
    }
}
