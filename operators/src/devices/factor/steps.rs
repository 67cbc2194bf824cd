//! The steps of the factorisation on devices.
//!
//! A block of columns is factored on the first lane of its device. The columns of the next block lose its products on that lane too, so that it
//! can be factored while all others lose them on the second lane (look-ahead). Events order the lanes: the products of a block begin
//! when it is factored, and a column is factored when it has lost the products of all blocks before. Where several devices have blocks, the
//! host copies each factored block to those that do not have it.

use std::ops::Range;

use boxwork_kernels::cholesky::device::{ITEMS, Launch, TILE, launches};
use boxwork_runtime::feeding::{DeviceError, Grid, Placed};

use super::layout::tiles_of;
use super::{DeviceMatrix, DeviceNumber, PANELS, Place, Unfactored, whole_numbers};

/// The number in `failed` while no pivot has failed.
pub(super) const NONE_FAILED: u32 = u32::MAX;
/// Launches at most that the products of a block take on a lane of their own: launches of the other lane come between them.
const PIECES: usize = 8;

/// The commands that others must come after, by device.
pub(super) struct Sent {
    /// The last one that took products from columns on the second lane.
    pub(super) behind: Vec<u64>,
    /// By panel, the last one that reads it.
    pub(super) of_panel: [Vec<u64>; PANELS],
}

impl Sent {
    pub(super) fn none(places: usize) -> Self {
        let none = || vec![0; places];
        Self { behind: none(), of_panel: [none(), none()] }
    }
}

impl<T: DeviceNumber> DeviceMatrix<T> {
    /// Replaces the matrix by its factor.
    ///
    /// # Errors
    /// When the matrix is not positive definite, the caller cancels, or a device fails.
    pub fn factor(&mut self, cancelled: &dyn Fn() -> bool) -> Result<(), Unfactored> {
        let (rows, places) = (self.rows(), self.places.len());
        for place in 0..places {
            self.put(place, "failed", vec![NONE_FAILED])?;
        }
        let mut sent = Sent::none(places);
        let mut before = vec![0; places];
        for launch in launches(rows, self.block) {
            match launch {
                Launch::Column { column, first } => {
                    self.update(column..column + 1, first..column, (0, &[]))?;
                }
                Launch::Panel { column } => self.factor_column(column)?,
                Launch::Behind { from, first } => self.take_products(from, first, &mut sent)?,
                Launch::End => {
                    for (place, before) in self.places.iter_mut().zip(&mut before) {
                        // The block that was just enqueued computes meanwhile.
                        let of_block = place.direct.under_way().saturating_sub(*before);
                        place.direct.wait(of_block)?;
                        *before = place.direct.under_way();
                    }
                    if cancelled() {
                        return Err(Unfactored::Cancelled);
                    }
                }
            }
        }
        let mut first = NONE_FAILED;
        for place in 0..places {
            first = first.min(self.get::<u32>(place, "failed", 1)?[0]);
        }
        match first {
            NONE_FAILED => Ok(()),
            row => Err(Unfactored::NotPositiveDefinite { row: row as usize }),
        }
    }

    /// Factors a column that has lost all products.
    pub(super) fn factor_column(&mut self, column: usize) -> Result<(), DeviceError> {
        let (block, k) = (self.layout.block_of(column), [("k", column)]);
        self.launch("factor", block, [1, 1], &k)?;
        self.launch("invert", block, [1, 1], &k)?;
        self.launch("solve", block, [self.rows() - column - 1, 1], &k)
    }

    /// All columns from `from` on lose the products with the block of columns before them that begins with `first`.
    fn take_products(&mut self, from: usize, first: usize, sent: &mut Sent) -> Result<(), DeviceError> {
        let (rows, layout) = (self.rows(), self.layout);
        if self.places.len() > 1 {
            self.send_panel(layout.block_of(first), sent)?;
        }
        if !self.looks_ahead {
            return self.update(from..rows, first..from, (0, &[]));
        }
        let next = (from + self.block).min(rows);
        let ahead = layout.place_of(layout.block_of(from));
        let panels: Vec<u64> = self.places.iter().map(|place| place.direct.sent()).collect();
        self.update(from..next, first..from, (0, &[sent.behind[ahead]]))?;
        let step = (rows - next).div_ceil(PIECES).max(self.block);
        for piece in (next..rows).step_by(step) {
            for block in layout.block_of(piece)..=layout.block_of((piece + step).min(rows) - 1) {
                let columns = layout.columns(block);
                let columns = columns.start.max(piece)..columns.end.min(piece + step);
                let place = layout.place_of(block);
                self.update(columns, first..from, (1, &[panels[place]]))?;
                sent.behind[place] = self.places[place].direct.sent();
            }
        }
        let panel = layout.block_of(first) % PANELS;
        for (place, of_panel) in self.places.iter().zip(&mut sent.of_panel[panel]) {
            *of_panel = place.direct.sent();
        }
        Ok(())
    }

    /// Copies a block that is factored to the devices that do not have it.
    fn send_panel(&mut self, block: usize, sent: &Sent) -> Result<(), DeviceError> {
        let (owner, panel) = (self.layout.place_of(block), block % PANELS);
        let mut numbers = vec![T::ZERO; self.layout.tiles(block) * TILE * TILE];
        self.places[owner].direct.read_part(("tiles", block), 0, &mut numbers)?;
        for (place, of_panel) in sent.of_panel[panel].iter().enumerate() {
            if place != owner {
                let direct = &mut self.places[place].direct;
                // The block that was there before is of no more use.
                direct.wait_for(*of_panel)?;
                direct.write_part(("panel", panel), 0, &numbers)?;
            }
        }
        Ok(())
    }

    /// Columns lose the products with the columns of one block.
    pub(super) fn update(
        &mut self,
        columns: Range<usize>,
        with: Range<usize>,
        (lane, after): (usize, &[u64]),
    ) -> Result<(), DeviceError> {
        let (rows, layout) = (self.rows(), self.layout);
        let of = layout.block_of(with.start);
        let of_panel = layout.columns(of);
        for block in layout.block_of(columns.start)..=layout.block_of(columns.end - 1) {
            let (place, own) = (layout.place_of(block), layout.columns(block));
            let columns = own.start.max(columns.start)..own.end.min(columns.end);
            let panel = match layout.owner(of) == Some(place) {
                true => self.part(of),
                false => ("panel", of % PANELS),
            };
            let values = whole_numbers(&[
                ("to_first", own.start),
                ("to_width", own.len()),
                ("first_column", of_panel.start),
                ("width", of_panel.len()),
                ("from", columns.start),
                ("columns", columns.len()),
                ("first", with.start),
                ("end", with.end),
            ]);
            let parts = [("to_tiles", self.part(block)), ("tiles", panel)];
            let placed = Placed { parts: &parts, lane, after };
            let grid = Grid::of([tiles_of(rows - columns.start, columns.len())], [ITEMS]);
            let Place { direct, program } = &mut self.places[place];
            direct.launch_placed(program, "update", grid, &values, placed)?;
        }
        Ok(())
    }
}
