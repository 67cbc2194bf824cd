//! The lower half of a symmetric matrix in square tiles, each by columns and in one piece of memory.
//!
//! Invariant: the last row of tiles is filled up with rows of the identity, so that all tiles have one size and the factor of
//! the fill is the fill.

use std::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::number::Number;
use super::packed::{Packed, Tile};
use super::steps::packed;

/// A matrix of which the lower half is kept, in tiles.
pub struct TiledMatrix<T = f64> {
    n: usize,
    size: usize,
    /// Tile (i, j), j <= i, is at i (i + 1) / 2 + j.
    tiles: Vec<RwLock<Tile<T>>>,
    /// The memory of the tiles, if it is one piece. Never touched: the tiles are views of it.
    _memory: Option<Packed<T>>,
}

impl<T: Number> TiledMatrix<T> {
    /// A matrix of n rows, in tiles of `size` rows: `entry` gives the entry of a row and a column, which is at most the row.
    ///
    /// # Panics
    /// When the size of a tile is 0.
    pub fn new(n: usize, size: usize, entry: impl Fn(usize, usize) -> T) -> Self {
        assert!(size > 0, "tiles of no rows hold no matrix");
        let rows = n.div_ceil(size);
        let padded = |row: usize, column: usize| match row < n && column < n {
            // The upper half of a diagonal tile is not read.
            true if column <= row => entry(row, column),
            _ if row == column => T::ONE,
            _ => T::ZERO,
        };
        let tile = |i: usize, j: usize| -> Box<[T]> {
            (0..size * size).map(|at| padded(i * size + at % size, j * size + at / size)).collect()
        };
        let tiles = (0..rows).flat_map(|i| (0..=i).map(move |j| (i, j)));
        let tiles = tiles.map(|(i, j)| RwLock::new(Tile::own(tile(i, j)))).collect();
        Self { n, size, tiles, _memory: None }
    }

    /// A matrix of zeros, also in the last row of tiles: for a [`Factorisation`](super::Factorisation) that fills it.
    ///
    /// # Panics
    /// When the size of a tile is 0.
    pub fn zeros(n: usize, size: usize) -> Self {
        assert!(size > 0, "tiles of no rows hold no matrix");
        let tile = || RwLock::new(Tile::own(vec![T::ZERO; size * size].into_boxed_slice()));
        Self { n, size, tiles: (0..packed(n.div_ceil(size))).map(|_| tile()).collect(), _memory: None }
    }

    /// A matrix of n rows in tiles that lie in one piece of memory.
    ///
    /// # Panics
    /// When the size of a tile is 0, or there are not all tiles.
    pub fn of_packed(n: usize, size: usize, mut memory: Packed<T>) -> Self {
        assert!(size > 0, "tiles of no rows hold no matrix");
        let tiles: Vec<RwLock<Tile<T>>> = memory.views(size * size).into_iter().map(RwLock::new).collect();
        assert_eq!(tiles.len(), packed(n.div_ceil(size)), "all tiles of {n} rows");
        Self { n, size, tiles, _memory: Some(memory) }
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.n
    }

    /// The number of rows of a tile.
    pub fn tile_size(&self) -> usize {
        self.size
    }

    /// The number of rows of tiles.
    pub fn tile_rows(&self) -> usize {
        self.n.div_ceil(self.size)
    }

    /// The lower half by columns, n * n numbers with zeros above the diagonal.
    pub fn lower(&self) -> Vec<T> {
        let (n, size) = (self.n, self.size);
        let mut dense = vec![T::ZERO; n * n];
        for i in 0..self.tile_rows() {
            for j in 0..=i {
                let tile = self.read(i, j);
                for (at, x) in tile.iter().enumerate() {
                    let (row, column) = (i * size + at % size, j * size + at / size);
                    if column <= row && row < n {
                        dense[column * n + row] = *x;
                    }
                }
            }
        }
        dense
    }

    /// Tile (i, j), j <= i, to read: its numbers by columns.
    ///
    /// # Panics
    /// While another thread changes it.
    pub fn read(&self, i: usize, j: usize) -> RwLockReadGuard<'_, Tile<T>> {
        let tile = self.tiles[packed(i) + j].try_read();
        tile.unwrap_or_else(|_| {
            panic!("tile ({i}, {j}) is read while a task changes it, or after one that panicked")
        })
    }

    /// Tile (i, j), j <= i, to change.
    ///
    /// # Panics
    /// While another thread uses it.
    pub fn write(&self, i: usize, j: usize) -> RwLockWriteGuard<'_, Tile<T>> {
        let tile = self.tiles[packed(i) + j].try_write();
        tile.unwrap_or_else(|_| {
            panic!("tile ({i}, {j}) is changed while a task uses it, or after one that panicked")
        })
    }
}
