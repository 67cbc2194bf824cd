//! The bytes of a file as Arrow buffers, mapped or read, and whether the file is unchanged since it was opened.
//!
//! A map needs a process-wide signal handler ([`Access`]); bytes that are read cost memory.
#![cfg_attr(
    not(miri),
    expect(unsafe_code, reason = "a map is foreign memory: the one place where it becomes a buffer")
)]

use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
#[cfg(not(miri))]
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use arrow_buffer::Buffer;
use boxwork_kernels::memory::room;
use boxwork_runtime::topology::NodeMemory;
#[cfg(not(miri))]
use memmap2::Mmap;

#[cfg(not(miri))]
use super::bus_error::Watched;
#[cfg(miri)]
use in_memory::Watched;

/// How the bytes of files come into memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// Bytes are read at their first use and kept: a store costs as much memory as was used of it.
    #[default]
    Read,
    /// Bytes are mapped: a store costs only page cache. While a map exists, the process has a handler of SIGBUS, which
    /// the system sends when another process truncates a mapped file.
    Map,
}

/// The bytes of a file.
pub(crate) struct Map {
    bytes: Bytes,
    /// `None` if all bytes are a copy, which no other process can change.
    opened: Option<OpenFile>,
}

enum Bytes {
    /// All bytes: a map, or a copy.
    Here(Buffer),
    /// The number of bytes in the file.
    InFile(usize),
}

/// A file in use, and its state when it was opened.
struct OpenFile {
    /// `None` if the file is read.
    watched: Option<Arc<Watched>>,
    file: File,
    modified: Option<SystemTime>,
    /// Whether a check has found the file changed.
    is_lost: AtomicBool,
}

impl Map {
    /// Opens the bytes of a file. Buffers share ownership of a map.
    pub(crate) fn new(file: File, access: Access) -> io::Result<Self> {
        let metadata = file.metadata()?;
        let (bytes, watched) = match access {
            Access::Map => {
                let (bytes, watched) = map(&file)?;
                (Bytes::Here(bytes), Some(watched))
            }
            Access::Read => {
                let bytes = usize::try_from(metadata.len()).map_err(|_| io::ErrorKind::FileTooLarge)?;
                (Bytes::InFile(bytes), None)
            }
        };
        let (modified, is_lost) = (metadata.modified().ok(), AtomicBool::new(false));
        Ok(Self { bytes, opened: Some(OpenFile { watched, file, modified, is_lost }) })
    }

    /// Reads a file, and closes it.
    pub(crate) fn copied(mut file: File) -> io::Result<Self> {
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        // Aligned like the columns of a store.
        Ok(Self { bytes: Bytes::Here(Buffer::from_slice_ref(&bytes)), opened: None })
    }

    /// Number of bytes.
    pub(crate) fn len(&self) -> usize {
        match &self.bytes {
            Bytes::Here(bytes) => bytes.len(),
            Bytes::InFile(bytes) => *bytes,
        }
    }

    /// Bytes of memory that it takes by itself: those of a copy. Slices of a file that is read take more.
    pub(crate) fn copied_bytes(&self) -> usize {
        match (&self.bytes, &self.opened) {
            (Bytes::Here(bytes), None) => bytes.len(),
            _ => 0,
        }
    }

    /// Whether slices are copies of the file's bytes.
    pub(crate) fn is_read(&self) -> bool {
        matches!(self.bytes, Bytes::InFile(_))
    }

    /// Some of the bytes; blocks on the disk unless they are mapped. Bytes that were read count only if
    /// [`Map::is_whole`] returns true afterwards.
    ///
    /// # Panics
    /// When the file has fewer bytes.
    pub(crate) fn slice(&self, range: Range<usize>) -> io::Result<Buffer> {
        assert!(range.end <= self.len(), "bytes {range:?} of {}", self.len());
        match (&self.bytes, &self.opened) {
            (Bytes::Here(bytes), _) => Ok(bytes.slice_with_length(range.start, range.len())),
            (Bytes::InFile(_), Some(opened)) => read(&opened.file, range),
            (Bytes::InFile(_), None) => unreachable!("a file that is read stays open"),
        }
    }

    /// Asks the system to read some bytes that will be used soon, and does not wait for them. Does nothing unless the file is mapped.
    ///
    /// # Panics
    /// When the file has fewer bytes.
    pub(crate) fn read_ahead(&self, range: Range<usize>) {
        assert!(range.end <= self.len(), "bytes {range:?} of {}", self.len());
        #[cfg(all(unix, not(miri)))]
        if let Some(watched) = self.opened.as_ref().and_then(|opened| opened.watched.as_ref()) {
            // Without the hint the system reads the bytes when they are used.
            let _ = watched.map().advise_range(memmap2::Advice::WillNeed, range.start, range.len());
        }
    }

    /// Takes some bytes out of the process's memory if the file is mapped. The system may keep them in its cache, and their next use
    /// brings them back.
    ///
    /// # Panics
    /// When the file has fewer bytes.
    pub(crate) fn let_go(&self, range: Range<usize>) {
        assert!(range.end <= self.len(), "bytes {range:?} of {}", self.len());
        #[cfg(all(unix, not(miri)))]
        if let Some(watched) = self.opened.as_ref().and_then(|opened| opened.watched.as_ref()) {
            let (dont_need, map) = (memmap2::UncheckedAdvice::DontNeed, watched.map());
            // SAFETY: a page of a shared map that nobody writes has the same bytes when it is read again.
            let _ = unsafe { map.unchecked_advise_range(dont_need, range.start, range.len()) };
        }
    }

    /// Whether all bytes used so far are those of the file that was opened. Once false, it stays so.
    pub(crate) fn is_whole(&self) -> bool {
        // No bus error reports the rest of a truncated file's last page, which reads as zeros, nor a file that was
        // truncated and rewritten: only the file's length and time show these.
        let Some(OpenFile { watched, file, modified, is_lost }) = &self.opened else { return true };
        let is_same = file.metadata().is_ok_and(|metadata| {
            metadata.len() == self.len() as u64 && metadata.modified().ok() == *modified
        });
        if !is_same {
            is_lost.store(true, Ordering::Release);
        }
        !is_lost.load(Ordering::Acquire) && watched.as_ref().is_none_or(|watched| !watched.is_poisoned())
    }
}

/// Reads bytes of a file into new memory, aligned like the columns of a store.
fn read(file: &File, range: Range<usize>) -> io::Result<Buffer> {
    let what = || format!("{} bytes of a store", range.len());
    let mut words: Vec<u64> = room(range.len().div_ceil(size_of::<u64>()), what, "free memory")
        .map_err(|refused| io::Error::new(io::ErrorKind::OutOfMemory, refused))?;
    words.resize(words.capacity(), 0);
    // The buffer is not shared yet, so it can be written.
    let mut bytes = Buffer::from_vec(words).into_mutable().map_err(|_| io::ErrorKind::Other)?;
    read_at(file, &mut bytes.as_slice_mut()[..range.len()], range.start as u64)?;
    Ok(Buffer::from(bytes).slice_with_length(0, range.len()))
}

#[cfg(unix)]
pub(crate) fn read_at(file: &File, bytes: &mut [u8], start: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, bytes, start)
}

/// Threads that read concurrently pass their own offsets.
#[cfg(windows)]
pub(crate) fn read_at(file: &File, mut bytes: &mut [u8], mut start: u64) -> io::Result<()> {
    use std::os::windows::fs::FileExt;
    while !bytes.is_empty() {
        let count = file.seek_read(bytes, start)?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        (bytes, start) = (&mut bytes[count..], start + count as u64);
    }
    Ok(())
}

#[cfg(not(miri))]
fn map(file: &File) -> io::Result<(Buffer, Arc<Watched>)> {
    // SAFETY: the map is read only; stores are replaced by renaming, never changed in place, so the bytes of an open
    // file stay. If another program changes them nevertheless, `is_whole` returns false before the bytes read count,
    // and no index is read from the map: offsets are copied before they are checked.
    let map = unsafe { Mmap::map(file) }?;
    let watched = Arc::new(Watched::new(map)?);
    let start = NonNull::new(watched.map().as_ptr().cast_mut()).ok_or(io::ErrorKind::InvalidData)?;
    let bytes = watched.map().len();
    let owner = Arc::clone(&watched);
    // SAFETY: `start` is valid for `bytes` bytes as long as the map lives, and the buffer owns a share of the map.
    let bytes = unsafe { Buffer::from_custom_allocation(start, bytes, owner) };
    Ok((bytes, watched))
}

/// The bytes of a node's memory, as a buffer that owns it.
#[cfg(not(miri))]
pub(super) fn of_node(memory: NodeMemory) -> Buffer {
    let memory = Arc::new(memory);
    let bytes: &[u8] = (*memory).as_ref();
    let (start, len) = (NonNull::from(bytes).cast(), bytes.len());
    // SAFETY: the bytes are valid and never written as long as the memory lives, which the buffer owns.
    unsafe { Buffer::from_custom_allocation(start, len, memory) }
}

/// Miri maps no memory, so the bytes are copied once more.
#[cfg(miri)]
pub(super) fn of_node(memory: NodeMemory) -> Buffer {
    Buffer::from_slice_ref(memory.as_ref())
}

#[cfg(miri)]
use in_memory::map;

/// Miri maps no files and sends no signals, so the bytes are read into an aligned buffer of Arrow.
#[cfg(miri)]
mod in_memory {
    use std::fs::File;
    use std::io::{self, Read};
    use std::sync::Arc;

    use arrow_buffer::Buffer;

    pub(super) struct Watched;

    impl Watched {
        #[expect(clippy::unused_self, reason = "has the signature of a map's")]
        pub(super) fn is_poisoned(&self) -> bool {
            false
        }
    }

    pub(super) fn map(mut file: &File) -> io::Result<(Buffer, Arc<Watched>)> {
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok((Buffer::from_slice_ref(&bytes), Arc::new(Watched)))
    }
}
