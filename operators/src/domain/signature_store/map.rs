//! A file mapped into memory, as an Arrow buffer that shares the map.
#![cfg_attr(
    not(miri),
    expect(unsafe_code, reason = "a map is foreign memory: the one place where it becomes a buffer")
)]

use std::fs::File;
use std::io;
#[cfg(not(miri))]
use std::{ptr::NonNull, sync::Arc};

use arrow_buffer::Buffer;
#[cfg(not(miri))]
use memmap2::Mmap;

/// Maps a whole file; the buffer and its slices keep the map.
#[cfg(not(miri))]
pub(super) fn map(file: &File) -> io::Result<Buffer> {
    // SAFETY: the map is read only; stores are replaced by renaming, never changed in place, so that the bytes of
    // an open file stay. Whoever overwrites one all the same changes what is read, as with every mapped file.
    let map = Arc::new(unsafe { Mmap::map(file) }?);
    let start = NonNull::new(map.as_ptr().cast_mut()).ok_or(io::ErrorKind::InvalidData)?;
    let bytes = map.len();
    // SAFETY: `start` is valid for `bytes` bytes as long as the map lives, which the buffer owns a share of.
    Ok(unsafe { Buffer::from_custom_allocation(start, bytes, map) })
}

/// Miri maps no files: there the bytes are read, into a buffer of Arrow's own, aligned as the columns of a store are.
#[cfg(miri)]
pub(super) fn map(mut file: &File) -> io::Result<Buffer> {
    let mut bytes = Vec::new();
    io::Read::read_to_end(&mut file, &mut bytes)?;
    Ok(Buffer::from_slice_ref(&bytes))
}
