//! A matrix in blocks of columns: which block a column lies in, on which of several devices, and how large a block is.
//!
//! A block has all tiles of its columns, from the first diagonal tile down, row after row. A matrix of one block lies as packed tiles do.

use std::ops::Range;

use boxwork_kernels::cholesky::device::tiles as count;

/// The blocks of a matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// Rows of tiles of the matrix.
    pub(super) rows: usize,
    /// Columns of a block; the last block may have fewer.
    pub(super) width: usize,
    /// Devices, which take the blocks in turn.
    pub(super) places: usize,
}

impl Layout {
    /// The layout of as few blocks as the limit of tiles in a buffer allows, of whole multiples of `step` columns as far as it does.
    /// Several devices have blocks of `step` columns, so that all of them have work to the end.
    pub(super) fn new(rows: usize, tiles_max: usize, places: usize, step: usize) -> Self {
        let of = |width: usize| Self { rows, width, places };
        let most = if places > 1 { step.min(rows) } else { rows };
        let whole = (step..=most).rev().filter(|width| *width == rows || width % step == 0);
        let fits = |width: &usize| of(*width).tiles(0) <= tiles_max;
        of(whole.chain((1..step.min(rows + 1)).rev()).find(fits).unwrap_or(1))
    }

    /// The number of blocks.
    pub(super) fn blocks(&self) -> usize {
        self.rows.div_ceil(self.width)
    }

    /// Whether all of it is one buffer.
    pub(super) fn is_whole(&self) -> bool {
        self.blocks() == 1
    }

    /// The columns of a block.
    pub(super) fn columns(&self, block: usize) -> Range<usize> {
        block * self.width..((block + 1) * self.width).min(self.rows)
    }

    /// The block of a column.
    pub(super) fn block_of(&self, column: usize) -> usize {
        column / self.width
    }

    /// The device of a block, by its place among the devices.
    pub(super) fn place_of(&self, block: usize) -> usize {
        block % self.places
    }

    /// The tiles of a block.
    pub(super) fn tiles(&self, block: usize) -> usize {
        let columns = self.columns(block);
        tiles_of(self.rows - columns.start, columns.len())
    }

    /// The tiles of a row in a block: those before it there, and its columns.
    pub(super) fn row(&self, block: usize, row: usize) -> (usize, Range<usize>) {
        let columns = self.columns(block);
        let before = tiles_of(row - columns.start, columns.len());
        (before, columns.start..columns.end.min(row + 1))
    }
}

/// The tiles of the first rows of so many columns, from the first diagonal tile down.
pub(super) const fn tiles_of(rows: usize, columns: usize) -> usize {
    if rows <= columns { count(rows) } else { count(columns) + (rows - columns) * columns }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_have_every_tile_once() {
        for (rows, tiles_max, places, step) in [
            (1, 1, 1, 2),
            (7, 28, 1, 2),
            (7, 27, 1, 2),
            (7, 13, 2, 2),
            (9, 9, 3, 4),
            (9, 1000, 2, 2),
            (12, 30, 1, 5),
        ] {
            let layout = Layout::new(rows, tiles_max, places, step);
            let mut tiles = 0;
            for block in 0..layout.blocks() {
                let columns = layout.columns(block);
                assert!(columns.clone().all(|column| layout.block_of(column) == block));
                assert!(layout.width == 1 || layout.tiles(block) <= tiles_max, "{layout:?}");
                let mut at = 0;
                for row in columns.start..rows {
                    let (before, of_row) = layout.row(block, row);
                    assert_eq!(before, at, "{layout:?}: row {row}");
                    at += of_row.len();
                }
                assert_eq!(at, layout.tiles(block), "{layout:?}");
                tiles += at;
            }
            assert_eq!(tiles, count(rows), "{layout:?}");
            assert!(places == 1 || layout.width <= step, "{layout:?}");
        }
        assert!(Layout::new(7, 28, 1, 2).is_whole() && !Layout::new(7, 27, 1, 2).is_whole());
    }
}
