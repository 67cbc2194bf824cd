//! Tiles in one piece of memory: what a device takes, and computes in where it shares the host's memory.
//!
//! Invariant: the memory is one allocation whose tiles begin a page, and no view of a tile outlives it.
#![expect(unsafe_code, reason = "each tile of one allocation has a lock of its own")]

use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use super::number::Number;
use super::steps::packed;

/// Bytes of a page of memory.
const PAGE_BYTES: usize = 4096;

/// The lower half of a matrix as packed tiles, in memory that begins a page: (0, 0), (1, 0), (1, 1), (2, 0), ..., each by columns.
#[derive(Debug)]
pub struct Packed<T> {
    memory: Vec<T>,
    first: usize,
    numbers: usize,
}

impl<T: Number> Packed<T> {
    /// Zeros, for this many rows of tiles of `size` rows.
    pub fn zeros(rows: usize, size: usize) -> Self {
        let numbers = packed(rows) * size * size;
        let memory = vec![T::ZERO; numbers + PAGE_BYTES / size_of::<T>()];
        let first = memory.as_ptr().align_offset(PAGE_BYTES);
        assert!(first + numbers <= memory.len(), "a page begins within a page's bytes");
        Self { memory, first, numbers }
    }

    /// The vector, and the place of the first tile, for a device that computes in it.
    pub fn into_memory(self) -> (Vec<T>, usize) {
        (self.memory, self.first)
    }

    /// The tiles in a vector that [`Packed::into_memory`] gave.
    ///
    /// # Panics
    /// When the vector is too short.
    pub fn of_memory((memory, first): (Vec<T>, usize), rows: usize, size: usize) -> Self {
        let numbers = packed(rows) * size * size;
        assert!(first + numbers <= memory.len(), "memory for all tiles");
        Self { memory, first, numbers }
    }

    /// All numbers, tile by tile.
    pub fn numbers(&self) -> &[T] {
        &self.memory[self.first..][..self.numbers]
    }

    /// All numbers, tile by tile, to change.
    pub fn numbers_mut(&mut self) -> &mut [T] {
        &mut self.memory[self.first..][..self.numbers]
    }

    /// Views of the tiles of `len` numbers each. They must not be used after the memory is gone.
    pub(super) fn views(&mut self, len: usize) -> Vec<Tile<T>> {
        self.numbers_mut()
            .chunks_exact_mut(len)
            .map(|tile| Tile(Place::Within(NonNull::from(tile))))
            .collect()
    }
}

/// One tile, by columns.
#[derive(Debug)]
pub struct Tile<T>(Place<T>);

#[derive(Debug)]
enum Place<T> {
    Own(Box<[T]>),
    /// A tile of [`Packed`] that the matrix holds beside.
    Within(NonNull<[T]>),
}

// SAFETY: a view is the only one of its numbers, as a box is.
unsafe impl<T: Send> Send for Tile<T> {}
// SAFETY: shared views only read.
unsafe impl<T: Sync> Sync for Tile<T> {}

impl<T: Number> Tile<T> {
    /// A tile of its own.
    pub(super) fn own(numbers: Box<[T]>) -> Self {
        Self(Place::Own(numbers))
    }

    /// Takes the numbers out; the tile has none then. Those of one piece of memory are copied, and stay.
    pub fn take(&mut self) -> Vec<T> {
        match &mut self.0 {
            Place::Own(numbers) => std::mem::take(numbers).into_vec(),
            Place::Within(_) => self.to_vec(),
        }
    }
}

impl<T> Deref for Tile<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match &self.0 {
            Place::Own(numbers) => numbers,
            // SAFETY: the matrix that lends this tile holds the memory, unmoved, and has one view of each tile.
            Place::Within(numbers) => unsafe { numbers.as_ref() },
        }
    }
}

impl<T> DerefMut for Tile<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        match &mut self.0 {
            Place::Own(numbers) => numbers,
            // SAFETY: as above; the view is borrowed alone.
            Place::Within(numbers) => unsafe { numbers.as_mut() },
        }
    }
}
