//! A matrix in blocks of columns: which block a column lies in, on which of several devices or with the slots, and how large a block is.
//!
//! A block has all tiles of its columns, from the first diagonal tile down, row after row. A matrix of one block lies as packed tiles do.

use std::ops::Range;

use boxwork_kernels::cholesky::device::tiles as count;

/// The parts of all blocks in which the share of slots is counted.
pub(super) const PARTS: usize = 1000;

/// The blocks of a matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// Rows of tiles of the matrix.
    pub(super) rows: usize,
    /// Columns of a block; the last block may have fewer.
    pub(super) width: usize,
    /// Devices, which take in turn the blocks that slots do not have.
    pub(super) places: usize,
    /// The share of slots, in [`PARTS`]. Their blocks are as evenly spread as can be, so that they have their share of the columns that are
    /// left at each step.
    pub(super) slots: usize,
}

impl Layout {
    /// The layout of as few blocks as the limit of tiles in a buffer allows, of whole multiples of `step` columns as far as it does.
    /// Several devices, and slots beside devices, have blocks of `step` columns, so that all of them have work to the end. A share of slots
    /// that is no block is none.
    pub(super) fn new(rows: usize, tiles_max: usize, (places, slots): (usize, usize), step: usize) -> Self {
        assert!(slots <= PARTS, "a share of at most all");
        let of = |width: usize| Self { rows, width, places, slots };
        let most = if places > 1 || slots > 0 { step.min(rows) } else { rows };
        let whole = (step..=most).rev().filter(|width| *width == rows || width % step == 0);
        let fits = |width: &usize| of(*width).tiles(0) <= tiles_max;
        let found = of(whole.chain((1..step.min(rows + 1)).rev()).find(fits).unwrap_or(1));
        if slots > 0 && found.of_slots_before(found.blocks()) == 0 {
            return Self::new(rows, tiles_max, (places, 0), step);
        }
        found
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

    /// The device of a block that slots do not have, by its place among the devices.
    pub(super) fn place_of(&self, block: usize) -> usize {
        (block - self.of_slots_before(block)) % self.places
    }

    /// The device that has a block; none if the slots have it.
    pub(super) fn owner(&self, block: usize) -> Option<usize> {
        let is_of_slots = self.of_slots_before(block + 1) > self.of_slots_before(block);
        (!is_of_slots).then(|| self.place_of(block))
    }

    /// The blocks before one that the slots have.
    fn of_slots_before(&self, block: usize) -> usize {
        (block * self.slots + PARTS / 2) / PARTS
    }

    /// The columns of tiles that the slots have.
    pub(super) fn columns_of_slots(&self) -> usize {
        let own = (0..self.blocks()).filter(|block| self.owner(*block).is_none());
        own.map(|block| self.columns(block).len()).sum()
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
            let layout = Layout::new(rows, tiles_max, (places, 0), step);
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
        assert!(Layout::new(7, 28, (1, 0), 2).is_whole() && !Layout::new(7, 27, (1, 0), 2).is_whole());
    }

    #[test]
    fn slots_have_their_share_of_the_columns_behind_each_block() {
        for slots in [0, 30, 100, 333, 500, 667, 990, PARTS] {
            for places in [1, 2, 3] {
                let layout = Layout::new(200, 1 << 20, (places, slots), 2);
                let blocks = layout.blocks();
                let of_slots = |from: usize| (from..blocks).filter(|block| layout.owner(*block).is_none());
                for from in 0..blocks {
                    let share = (blocks - from) * slots;
                    let apart = (of_slots(from).count() * PARTS).abs_diff(share);
                    assert!(apart <= PARTS, "{layout:?}: {apart} parts from block {from} on");
                }
                assert_eq!(layout.columns_of_slots(), 2 * of_slots(0).count());
                // Devices have the others in turn.
                let of_devices: Vec<usize> = (0..blocks).filter_map(|block| layout.owner(block)).collect();
                assert!(of_devices.iter().enumerate().all(|(nth, place)| *place == nth % places));
            }
        }
        assert!(Layout::new(7, 28, (1, 20), 2).is_whole(), "a share of less than a block");
        assert_eq!(Layout::new(7, 28, (1, PARTS), 2).columns_of_slots(), 7);
    }
}
