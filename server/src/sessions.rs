//! The sessions that the server keeps: in memory, and on disk if it has a folder for their logs.
//!
//! Invariants: a session changes under its own lock, one request after the other; a change is in its log before it is in
//! memory, and both happen although the client goes; sessions with a log leave memory when there are too many and are
//! folded again; those without a log are never dropped for room, only for age.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use tokio::sync::OwnedMutexGuard;

use crate::limits::Limits;
use crate::log::Log;
use crate::problem::{Kind, Problem};
use crate::session::event::Operation;
use crate::session::fold::Session;
use crate::session::journal::{self, Journal, JournalError};

/// A session in memory.
#[derive(Debug)]
pub struct Live {
    /// Its state.
    pub session: Session,
    /// The bytes of its log, if it has one on disk.
    length: u64,
    /// All lines, if it has no log on disk.
    lines: Option<String>,
    /// Sentences on what was dropped when it was folded.
    pub notices: Vec<String>,
    /// Whether its log could not be put back as it was: it is folded again at its next use.
    is_spoilt: bool,
    name: String,
}

#[derive(Debug)]
struct Entry {
    live: Arc<tokio::sync::Mutex<Live>>,
    used: Instant,
    bytes: usize,
}

/// The sessions.
#[derive(Debug)]
pub struct Sessions {
    entries: Mutex<HashMap<String, Entry>>,
    journal: Option<Journal>,
    files: Mutex<usize>,
    limits: Limits,
    said: Log,
}

/// A session that one request uses.
pub type Held = OwnedMutexGuard<Live>;

/// Milliseconds since 1970.
pub fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

fn unknown() -> Problem {
    Problem::new(Kind::NOT_FOUND, "there is no such session: it was deleted, has expired, or never was")
}

fn system(log: &Log, error: &io::Error) -> Problem {
    log.say(format_args!("the log of a session cannot be written: {error}"));
    let detail = "the log of the session cannot be written: nothing was changed, try again later";
    Problem::new(Kind::LOG_UNWRITABLE, detail)
}

fn of_journal(log: &Log, error: JournalError) -> Problem {
    match error {
        JournalError::Missing => unknown(),
        JournalError::System(error) => system(log, &error),
        broken @ JournalError::Line { .. } => {
            log.say(format_args!("the log of a session is refused: {broken}"));
            Problem::new(Kind::LOG_BROKEN, broken.to_string())
        }
    }
}

impl Sessions {
    /// The sessions of these logs, or sessions in memory alone.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn new(journal: Option<Journal>, limits: Limits, said: Log) -> io::Result<Self> {
        let files = journal.as_ref().map_or(Ok(0), Journal::count)?;
        Ok(Self { entries: Mutex::default(), journal, files: Mutex::new(files), limits, said })
    }

    /// Sessions in memory, and their bytes, about.
    pub fn size(&self) -> (usize, usize) {
        let entries = self.entries.lock();
        (entries.len(), entries.values().map(|entry| entry.bytes).sum())
    }

    /// Keeps a new session whose first round is folded; its log so far are these lines. Returns its name.
    ///
    /// # Errors
    /// When there are too many, or its log cannot be written.
    pub async fn add(self: &Arc<Self>, session: Session, lines: String) -> Result<(String, Held), Problem> {
        self.make_room()?;
        let name = journal::new_name().map_err(|error| system(&self.said, &error))?;
        let (mut length, mut kept) = (0, Some(lines));
        if let Some(journal) = &self.journal {
            self.take_file()?;
            let (journal, named, text) = (journal.clone(), name.clone(), kept.take().unwrap_or_default());
            let created = blocking(move || journal.create(&named, &text)).await;
            length =
                created.inspect_err(|_| self.give_file()).map_err(|error| of_journal(&self.said, error))?;
        }
        let bytes = bytes(&session, kept.as_deref());
        let live =
            Live { session, length, lines: kept, notices: Vec::new(), is_spoilt: false, name: name.clone() };
        let live = Arc::new(tokio::sync::Mutex::new(live));
        let held = Arc::clone(&live).lock_owned().await;
        self.entries.lock().insert(name.clone(), Entry { live, used: Instant::now(), bytes });
        Ok((name, held))
    }

    fn take_file(&self) -> Result<(), Problem> {
        let mut files = self.files.lock();
        if *files >= self.limits.session_files {
            return Err(full("the folder of the sessions' logs has as many as it may"));
        }
        *files += 1;
        Ok(())
    }

    fn give_file(&self) {
        let mut files = self.files.lock();
        *files = files.saturating_sub(1);
    }

    /// Drops sessions that are idle too long, and then, of those with logs, the least recently used.
    fn make_room(&self) -> Result<(), Problem> {
        let now = Instant::now();
        let mut entries = self.entries.lock();
        if self.journal.is_none() {
            let idle: Duration = self.limits.session_idle;
            entries.retain(|_, entry| now.saturating_duration_since(entry.used) < idle);
        }
        loop {
            let bytes: usize = entries.values().map(|entry| entry.bytes).sum();
            if entries.len() < self.limits.sessions && bytes < self.limits.sessions_bytes {
                return Ok(());
            }
            let is_idle = |entry: &Entry| Arc::strong_count(&entry.live) == 1;
            let oldest =
                entries.iter().filter(|(_, entry)| is_idle(entry)).min_by_key(|(_, entry)| entry.used);
            match oldest.map(|(name, _)| name.clone()).filter(|_| self.journal.is_some()) {
                Some(name) => drop(entries.remove(&name)),
                None => return Err(full("the server keeps as many sessions as it may")),
            }
        }
    }

    /// A session, for this request alone until it is dropped.
    ///
    /// # Errors
    /// When there is none of this name, or its log cannot be folded.
    pub async fn get(self: &Arc<Self>, name: &str) -> Result<Held, Problem> {
        if !journal::is_name(name) {
            return Err(unknown());
        }
        for _ in 0..3 {
            let live = match self.in_memory(name) {
                Some(live) => live,
                None => self.fold(name).await?,
            };
            let held = live.lock_owned().await;
            // Meanwhile another request may have deleted the session, or spoilt its log.
            if !held.is_spoilt && self.in_memory(name).is_some() {
                return Ok(held);
            }
        }
        Err(unknown())
    }

    fn in_memory(&self, name: &str) -> Option<Arc<tokio::sync::Mutex<Live>>> {
        let mut entries = self.entries.lock();
        let entry = entries.get_mut(name)?;
        let now = Instant::now();
        if self.journal.is_none() && now.saturating_duration_since(entry.used) >= self.limits.session_idle {
            entries.remove(name);
            return None;
        }
        entry.used = now;
        Some(Arc::clone(&entry.live))
    }

    async fn fold(&self, name: &str) -> Result<Arc<tokio::sync::Mutex<Live>>, Problem> {
        let Some(journal) = self.journal.clone() else { return Err(unknown()) };
        let named = name.to_owned();
        let (session, length, is_torn) =
            blocking(move || journal.read(&named)).await.map_err(|error| of_journal(&self.said, error))?;
        self.make_room()?;
        let torn = "the last line of the session's log was not complete and was dropped: no acknowledged round was lost";
        let notices = if is_torn { vec![torn.to_owned()] } else { Vec::new() };
        let bytes = bytes(&session, None);
        let live = Live { session, length, lines: None, notices, is_spoilt: false, name: name.to_owned() };
        let mut entries = self.entries.lock();
        // Of two requests that fold it at once, the second takes what the first has folded.
        let new = || Entry { live: Arc::new(tokio::sync::Mutex::new(live)), used: Instant::now(), bytes };
        Ok(Arc::clone(&entries.entry(name.to_owned()).or_insert_with(new).live))
    }

    /// Appends operations to a session: to its log, then to its state. It goes to its end although the caller is dropped.
    ///
    /// # Errors
    /// When the log cannot be written; the session is then as it was.
    pub async fn append(self: &Arc<Self>, held: Held, operations: Vec<Operation>) -> Result<Held, Problem> {
        let sessions = Arc::clone(self);
        let whole = tokio::spawn(async move { sessions.append_whole(held, &operations).await });
        whole.await.map_err(|error| {
            self.said.say(format_args!("the log of a session was not appended to: {error}"));
            Problem::new(Kind::INTERNAL, "the session could not be changed")
        })?
    }

    async fn append_whole(&self, mut held: Held, operations: &[Operation]) -> Result<Held, Problem> {
        let lines = held.session.lines(operations, now_ms());
        match (&self.journal, &mut held.lines) {
            (Some(journal), _) => {
                let (journal, name, length) = (journal.clone(), held.name.clone(), held.length);
                let text = lines.clone();
                match blocking(move || journal.append(&name, length, &text)).await {
                    Ok(length) => held.length = length,
                    Err(error) => {
                        // The file may have part of the lines: whoever comes next reads what is there.
                        held.is_spoilt = true;
                        self.entries.lock().remove(&held.name);
                        return Err(of_journal(&self.said, error));
                    }
                }
            }
            (None, Some(kept)) => kept.push_str(&lines),
            (None, None) => {}
        }
        if let Err(error) = held.session.take_lines(&lines) {
            self.said.say(format_args!("a session refuses its own events: {error}"));
            held.is_spoilt = true;
            self.entries.lock().remove(&held.name);
            return Err(Problem::new(Kind::INTERNAL, "the session could not be changed"));
        }
        let bytes = bytes(&held.session, held.lines.as_deref());
        if let Some(entry) = self.entries.lock().get_mut(&held.name) {
            entry.bytes = bytes;
        }
        Ok(held)
    }

    /// A session's log.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn log(&self, held: Held) -> Result<Vec<u8>, Problem> {
        match (&self.journal, &held.lines) {
            (Some(journal), _) => {
                let (journal, name) = (journal.clone(), held.name.clone());
                blocking(move || journal.text(&name)).await.map_err(|error| of_journal(&self.said, error))
            }
            (None, lines) => Ok(lines.clone().unwrap_or_default().into_bytes()),
        }
    }

    /// Ends a session and removes its log.
    ///
    /// # Errors
    /// When there is none, or its log cannot be removed.
    pub async fn remove(self: &Arc<Self>, name: &str) -> Result<(), Problem> {
        let held = self.get(name).await?;
        if let Some(journal) = self.journal.clone() {
            let name = name.to_owned();
            if blocking(move || journal.remove(&name)).await.map_err(|error| of_journal(&self.said, error))? {
                self.give_file();
            }
        }
        self.entries.lock().remove(&held.name);
        Ok(())
    }
}

fn full(detail: &str) -> Problem {
    Problem::new(Kind::SESSIONS_FULL, detail)
}

fn bytes(session: &Session, lines: Option<&str>) -> usize {
    session.bytes() + lines.map_or(0, str::len)
}

/// Work that waits for the disk, on a thread for that.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, JournalError> + Send + 'static,
) -> Result<T, JournalError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => Err(io::Error::other(error).into()),
    }
}
