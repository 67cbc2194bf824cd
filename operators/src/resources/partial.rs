//! `partial`: the part of an extraction that an interrupted run has done, in `OUT.partial` beside the store to be.
//!
//! The file begins with a mark. Chunks follow: the length and the checksum of a content, and the content. The content of
//! the first chunk is the text of the settings; each other one is an Arrow stream of objects, with the size and the time of
//! the last change of each object's file. Chunks are only appended, each in one write.
//!
//! Invariants: one process has the file at a time, by the system's lock; all chunks before the first unsound one count, and
//! the file ends with them before anything is appended; a file without objects does not outlive its run.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Cursor, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use arrow_array::{Array as _, RecordBatch, StringArray, UInt64Array};
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::StreamWriter;
use boxwork_kernels::interrupt::{Interrupt, ask};
use boxwork_runtime::operator::{Bind, BoxError, ResourceSpec};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};
use boxwork_stores::store_error::way_out;

const MARK: &[u8; 8] = b"bxpart01";
/// Bytes before a chunk's content: its length, and its checksum.
const HEAD_BYTES: u64 = 8;

/// An unfinished extraction, shared by the boxes that leave out what is done and that write the rest.
pub(crate) static PARTIAL: ResourceSpec = ResourceSpec {
    name: "partial",
    about: "What an interrupted extraction has done, kept beside the store that it makes.",
    parameters: &[
        Parameter::new("out", ParameterType::Path, Default::Required, "the store to be; `.partial` is added"),
        Parameter::new(
            "settings",
            ParameterType::Text,
            Default::Absent,
            "all that the objects depend on beside their files; when not given, an interrupted run leaves nothing",
        ),
        Parameter::new(
            "restart",
            ParameterType::Boolean,
            Default::Boolean(false),
            "whether to ignore what an interrupted run has done",
        ),
    ],
    example: "partial: {kind: partial, out: photos.signatures.arrow, settings: points 2500}",
    provides: Some("partial"),
    check: None,
    load: |bind: &Bind<'_>| {
        Ok(Arc::new(SharedPartial {
            out: bind.path("out"),
            settings: bind.get_text("settings").map(str::to_owned),
            is_anew: bind.boolean("restart"),
            opened: Mutex::new(None),
        }))
    },
};

/// A partial file that is opened at its first use.
#[derive(Debug)]
pub(crate) struct SharedPartial {
    out: PathBuf,
    settings: Option<String>,
    is_anew: bool,
    opened: Mutex<Option<Arc<Partial>>>,
}

impl SharedPartial {
    /// The file, which is opened and read if it was not. Blocks on the disk.
    ///
    /// # Errors
    /// As [`Partial::open`].
    pub(crate) fn get(&self, interrupt: Interrupt<'_>) -> Result<Arc<Partial>, BoxError> {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(partial) = &*opened {
            return Ok(Arc::clone(partial));
        }
        let partial = Arc::new(Partial::open(&self.out, self.settings.as_deref(), self.is_anew, interrupt)?);
        Ok(Arc::clone(opened.insert(partial)))
    }
}

/// An object of the file, and the state of its picture's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kept {
    pub(crate) bytes: u64,
    pub(crate) modified: u64,
    /// The place of its chunk in the file.
    pub(crate) chunk: u64,
    pub(crate) row: usize,
}

/// An open partial file.
#[derive(Debug)]
pub(crate) struct Partial {
    path: PathBuf,
    // Locked until it is closed.
    file: Mutex<File>,
    known: HashMap<String, Kept>,
    /// Whether some of the file was unsound.
    pub(crate) was_damaged: bool,
    objects: AtomicU64,
    /// Whether the file belongs to this run: a file that was refused stays as it is.
    is_own: bool,
    /// Whether the file goes with this value.
    is_done: AtomicBool,
}

impl Partial {
    /// Opens the partial file of a store to be, and takes its lock.
    ///
    /// # Errors
    /// When another process has it, its settings are others, it is a foreign file, it cannot be read or written, or the
    /// caller interrupts: the file then stays as it is.
    pub(crate) fn open(
        out: &Path,
        settings: Option<&str>,
        is_anew: bool,
        interrupt: Interrupt<'_>,
    ) -> Result<Self, BoxError> {
        let mut name = out.file_name().map(OsString::from).unwrap_or_default();
        name.push(".partial");
        if settings.is_none() {
            name.push(format!("-{}", std::process::id()));
        }
        let path = out.with_file_name(name);
        let failed = |error: io::Error| unusable(&path, &error);
        let mut file = locked(&path, out)?;
        if is_anew || settings.is_none() {
            file.set_len(0).map_err(failed)?;
        }
        let mut partial = Self {
            file: Mutex::new(file.try_clone().map_err(failed)?),
            known: HashMap::new(),
            was_damaged: false,
            objects: AtomicU64::new(0),
            is_own: false,
            is_done: AtomicBool::new(settings.is_none()),
            path: path.clone(),
        };
        let settings = settings.unwrap_or_default();
        match partial.read(&mut file, settings, interrupt)? {
            Some(sound) => {
                let bytes = file.metadata().map_err(failed)?.len();
                partial.was_damaged = sound < bytes;
                file.set_len(sound).map_err(failed)?;
            }
            None => {
                file.set_len(0).map_err(failed)?;
                file.write_all(MARK).map_err(failed)?;
                partial.append(settings.as_bytes())?;
            }
        }
        partial.objects = AtomicU64::new(partial.known.len() as u64);
        partial.is_own = true;
        Ok(partial)
    }

    /// Reads the sound chunks and returns their end; nothing if not even the settings are sound.
    fn read(
        &mut self,
        file: &mut File,
        settings: &str,
        interrupt: Interrupt<'_>,
    ) -> Result<Option<u64>, BoxError> {
        let failed = |error: io::Error| unusable(&self.path, &error);
        let bytes = file.metadata().map_err(failed)?.len();
        let mut mark = Vec::new();
        file.seek(SeekFrom::Start(0)).map_err(failed)?;
        file.take(MARK.len() as u64).read_to_end(&mut mark).map_err(failed)?;
        if !MARK.starts_with(&mark) {
            return Err(BoxError::new(format!(
                "`{}` is there and is no unfinished extraction: move it away",
                self.path.display()
            )));
        }
        let mut at = MARK.len() as u64;
        let Some(found) = chunk(file, at, bytes).map_err(failed)? else { return Ok(None) };
        at += HEAD_BYTES + found.len() as u64;
        let is_other = found != settings.as_bytes();
        while let Some(content) = chunk(file, at, bytes).map_err(failed)? {
            ask(interrupt)?;
            let Some(batch) = batch(&content) else { break };
            let Some((names, sizes, times)) = columns(&batch) else { break };
            for row in 0..names.len() {
                let (bytes, modified) = (sizes.value(row), times.value(row));
                self.known.insert(names.value(row).to_owned(), Kept { bytes, modified, chunk: at, row });
            }
            at += HEAD_BYTES + content.len() as u64;
        }
        if is_other && !self.known.is_empty() {
            return Err(BoxError::new(format!(
                "`{}` holds {} images of an interrupted extraction with other settings: repeat that one, or start anew with \
                 --restart",
                self.path.display(),
                self.known.len()
            )));
        }
        Ok((!is_other).then_some(at))
    }

    /// The object of a name, from an earlier run, if its file has not changed since.
    pub(crate) fn kept(&self, name: &str, bytes: u64, modified: u64) -> Option<Kept> {
        self.known.get(name).copied().filter(|kept| (kept.bytes, kept.modified) == (bytes, modified))
    }

    /// Appends objects, and returns the place of their chunk. Blocks on the disk.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub(crate) fn push(&self, objects: &RecordBatch) -> Result<u64, BoxError> {
        let mut stream = StreamWriter::try_new(Vec::new(), objects.schema_ref())?;
        stream.write(objects)?;
        let place = self.append(&stream.into_inner()?)?;
        self.objects.fetch_add(objects.num_rows() as u64, Ordering::Relaxed);
        Ok(place)
    }

    fn append(&self, content: &[u8]) -> Result<u64, BoxError> {
        let length = u32::try_from(content.len())?;
        let mut chunk = Vec::with_capacity(content.len() + HEAD_BYTES as usize);
        chunk.extend(length.to_le_bytes());
        chunk.extend(crc32fast::hash(content).to_le_bytes());
        chunk.extend(content);
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let written = file.seek(SeekFrom::End(0)).and_then(|place| file.write_all(&chunk).map(|()| place));
        written.map_err(|error| unusable(&self.path, &error))
    }

    /// The objects of a chunk. Blocks on the disk.
    ///
    /// # Errors
    /// When they cannot be read, or are not what was written.
    pub(crate) fn objects(&self, place: u64) -> Result<RecordBatch, BoxError> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = file.metadata()?.len();
        chunk(&mut file, place, bytes)?
            .as_deref()
            .and_then(batch)
            .ok_or_else(|| BoxError::new(format!("`{}` has changed while it was read", self.path.display())))
    }

    /// Removes the file with this value, as its store is written.
    pub(crate) fn is_over(&self) {
        self.is_done.store(true, Ordering::Relaxed);
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        let is_over = self.is_done.load(Ordering::Relaxed) || self.objects.load(Ordering::Relaxed) == 0;
        if self.is_own && is_over {
            // A file that stays is used or refused by the next run.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// A partial file cannot be read or written.
fn unusable(path: &Path, error: &io::Error) -> BoxError {
    BoxError::new(format!("`{}` cannot be used: {error}{}", path.display(), way_out(error)))
}

/// How long a file may stay locked: a run of this process closes it a moment after its outcome is known.
const PATIENCE: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(5);

/// Opens a file with its lock, if it still has its name then: a run that ends removes the file.
fn locked(path: &Path, out: &Path) -> Result<File, BoxError> {
    let begun = Instant::now();
    loop {
        let file = OpenOptions::new().read(true).append(true).create(true).open(path);
        let failed = |error: io::Error| unusable(path, &error);
        let file = file.map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) if begun.elapsed() < PATIENCE => {
                std::thread::sleep(PAUSE);
                continue;
            }
            Err(TryLockError::WouldBlock) => {
                return Err(BoxError::new(format!(
                    "another process extracts into `{}`: wait for its end, or name another file",
                    out.display()
                )));
            }
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        if is_of_name(&file, path) {
            return Ok(file);
        }
    }
}

#[cfg(unix)]
fn is_of_name(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let of = |found: io::Result<fs::Metadata>| found.ok().map(|found| (found.dev(), found.ino()));
    of(file.metadata()).is_some_and(|own| of(fs::metadata(path)) == Some(own))
}

#[cfg(not(unix))]
fn is_of_name(_: &File, path: &Path) -> bool {
    path.exists()
}

/// The content of a chunk, if it is sound.
fn chunk(file: &mut File, place: u64, bytes: u64) -> io::Result<Option<Vec<u8>>> {
    if bytes < place + HEAD_BYTES {
        return Ok(None);
    }
    let mut head = [0; HEAD_BYTES as usize];
    file.seek(SeekFrom::Start(place))?;
    file.read_exact(&mut head)?;
    let [a, b, c, d, e, f, g, h] = head;
    let (length, checksum) = (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h]));
    if bytes - place - HEAD_BYTES < u64::from(length) {
        return Ok(None);
    }
    let mut content = vec![0; length as usize];
    file.read_exact(&mut content)?;
    Ok((crc32fast::hash(&content) == checksum).then_some(content))
}

fn batch(content: &[u8]) -> Option<RecordBatch> {
    StreamReader::try_new(Cursor::new(content), None).ok()?.next()?.ok()
}

/// Names, sizes and times of a batch of objects.
fn columns(batch: &RecordBatch) -> Option<(&StringArray, &UInt64Array, &UInt64Array)> {
    let of = |name| batch.column_by_name(name)?.as_any().downcast_ref::<UInt64Array>();
    Some((batch.column_by_name("name")?.as_any().downcast_ref()?, of("bytes")?, of("modified")?))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use boxwork_kernels::interrupt::never;

    use super::*;

    fn objects(name: &str) -> RecordBatch {
        let numbers = UInt64Array::from(vec![7]);
        RecordBatch::try_from_iter([
            ("name", Arc::new(StringArray::from(vec![name])) as arrow_array::ArrayRef),
            ("bytes", Arc::new(numbers.clone()) as _),
            ("modified", Arc::new(numbers) as _),
        ])
        .unwrap()
    }

    #[test]
    fn an_interrupted_opening_leaves_the_file_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("s.arrow");
        let open = |interrupt: Interrupt<'_>| Partial::open(&out, Some("settings"), false, interrupt);
        let partial = open(&never).unwrap();
        for name in ["a", "b", "c"] {
            partial.push(&objects(name)).unwrap();
        }
        drop(partial);
        let path = folder.path().join("s.arrow.partial");
        let before = fs::read(&path).unwrap();
        // Each chunk is asked for.
        for limit in 0..3 {
            let asked = Cell::new(0);
            let stopped = open(&|| {
                asked.set(asked.get() + 1);
                asked.get() > limit
            });
            assert!(stopped.err().is_some_and(|error| error.to_string().contains("interrupted")));
            assert_eq!((asked.get(), fs::read(&path).unwrap()), (limit + 1, before.clone()));
        }
        let partial = open(&never).unwrap();
        assert!(["a", "b", "c"].iter().all(|name| partial.kept(name, 7, 7).is_some()));
    }
}
