//! A file mapped into memory, as an Arrow buffer that shares the map, and whether it is still the file that was mapped.
#![cfg_attr(
    not(miri),
    expect(unsafe_code, reason = "a map is foreign memory: the one place where it becomes a buffer")
)]

use std::fs::File;
use std::io::{self, Read};
#[cfg(not(miri))]
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::SystemTime;

use arrow_buffer::Buffer;
use boxwork_runtime::topology::NodeMemory;
#[cfg(not(miri))]
use memmap2::Mmap;

#[cfg(not(miri))]
use super::bus_error::Watched;
#[cfg(miri)]
use in_memory::Watched;

/// A whole file in memory.
pub(super) struct Map {
    bytes: Buffer,
    /// Nothing when the bytes are a copy, which no other process can change.
    watched: Option<WatchedFile>,
}

/// A file that is mapped, and how it was then.
struct WatchedFile {
    watched: Arc<Watched>,
    file: File,
    modified: Option<SystemTime>,
}

impl Map {
    /// Maps a file; its buffer and the slices of it keep the map.
    pub(super) fn new(file: File) -> io::Result<Self> {
        let modified = file.metadata()?.modified().ok();
        let (bytes, watched) = map(&file)?;
        Ok(Self { bytes, watched: Some(WatchedFile { watched, file, modified }) })
    }

    /// Reads a file, and closes it.
    pub(super) fn copied(mut file: File) -> io::Result<Self> {
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        // Aligned as the columns of a store are.
        Ok(Self { bytes: Buffer::from_slice_ref(&bytes), watched: None })
    }

    /// The bytes. What was read of them counts only if [`Map::is_whole`] returns true afterwards.
    pub(super) fn bytes(&self) -> &Buffer {
        &self.bytes
    }

    /// Whether all that was read of the map so far are bytes of the file that was mapped. Once false, it stays so.
    pub(super) fn is_whole(&self) -> bool {
        // No bus error comes from the rest of the last page of a shortened file, which reads as zeros, nor from a file
        // that was cut and written again: only the file's length and time show that.
        let Some(WatchedFile { watched, file, modified }) = &self.watched else { return true };
        let is_same = file.metadata().is_ok_and(|metadata| {
            metadata.len() == self.bytes.len() as u64 && metadata.modified().ok() == *modified
        });
        if !is_same {
            watched.poison();
        }
        !watched.is_poisoned()
    }
}

#[cfg(not(miri))]
fn map(file: &File) -> io::Result<(Buffer, Arc<Watched>)> {
    // SAFETY: the map is read only; stores are replaced by renaming, never changed in place, so that the bytes of
    // an open file stay. If another program changes one all the same, `is_whole` returns false before what was read
    // counts, and no index is read from the map: offsets are copied before they are checked.
    let map = unsafe { Mmap::map(file) }?;
    let watched = Arc::new(Watched::new(map)?);
    let start = NonNull::new(watched.map().as_ptr().cast_mut()).ok_or(io::ErrorKind::InvalidData)?;
    let bytes = watched.map().len();
    let owner = Arc::clone(&watched);
    // SAFETY: `start` is valid for `bytes` bytes as long as the map lives, and the buffer owns a share of the map.
    let bytes = unsafe { Buffer::from_custom_allocation(start, bytes, owner) };
    Ok((bytes, watched))
}

/// The bytes of a node's memory, as a buffer that keeps it.
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

/// Miri maps no files and sends no signals, so the bytes are read into a buffer of Arrow's own, which is aligned as the
/// columns of a store are.
#[cfg(miri)]
mod in_memory {
    use std::fs::File;
    use std::io::{self, Read};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use arrow_buffer::Buffer;

    pub(super) struct Watched(AtomicBool);

    impl Watched {
        pub(super) fn is_poisoned(&self) -> bool {
            self.0.load(Ordering::Acquire)
        }

        pub(super) fn poison(&self) {
            self.0.store(true, Ordering::Release);
        }
    }

    pub(super) fn map(mut file: &File) -> io::Result<(Buffer, Arc<Watched>)> {
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok((Buffer::from_slice_ref(&bytes), Arc::new(Watched(AtomicBool::new(false)))))
    }
}
