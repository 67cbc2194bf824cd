//! The factor that devices and the slots of the host make together.
//!
//! The host has tiles of the whole matrix, which become those of the factor. Blocks of columns are dealt to slots and devices
//! ([`Layout`](super::layout::Layout)). Whoever has a block factors it. A device's block is copied to the host then, where it is also a part of
//! the result, and the host copies it to the devices that do not have it. All columns behind lose the products with it: those of devices on
//! their second lanes while slots compute on their own columns. The next block comes first everywhere, so that it is factored
//! meanwhile; one of the slots is handed over before they take the other products.
//!
//! Invariant: a tile loses its products in the order of the columns, by the one that has it. So the factor depends on the shares, and neither
//! on the number of slots nor on the time that anything takes. The first pivot that fails is named: each block is checked before it is used.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use boxwork_kernels::cholesky::TiledMatrix;
use boxwork_kernels::cholesky::device::TILE;
use boxwork_kernels::pieces::Pieces;
use boxwork_runtime::feeding::Devices;

use super::copies::NUMBERS;
use super::steps::{NONE_FAILED, Sent};
use super::streamed::Covariances;
use super::{DeviceMatrix, DeviceNumber, PANELS, Unfactored, fits_with};

/// Whether devices can take their columns of a matrix of n rows of which slots have some.
///
/// # Errors
/// The reason, for a user.
pub fn fits_with_slots<T: DeviceNumber>(devices: &Devices, places: &[usize], n: usize) -> Result<(), String> {
    // A device has a share that may be all, and panels of the slots.
    fits_with::<T>(devices, places, n, 1, true)
}

/// Runs pieces on slots.
fn run(slots: &mut Pieces<'_>, count: usize, f: impl Fn(usize) + Sync) -> Result<(), Unfactored> {
    if slots(count, &f) { Ok(()) } else { Err(Unfactored::Cancelled) }
}

impl<T: DeviceNumber> DeviceMatrix<T> {
    /// Replaces the tiles of the host by those of the factor, which devices and slots make together. Each fills its own columns if there are
    /// covariances for them; else the tiles are the matrix.
    ///
    /// # Errors
    /// As [`DeviceMatrix::factor`]; the tiles are neither the matrix nor its factor then.
    ///
    /// # Panics
    /// When the tiles are not those of this matrix, or slots have no share.
    pub fn factor_with_slots(
        &mut self,
        tiles: &TiledMatrix<T>,
        covariances: Option<Covariances<'_>>,
        slots: &mut Pieces<'_>,
    ) -> Result<(), Unfactored> {
        assert!(self.is_with_slots() && (tiles.rows(), tiles.tile_size()) == (self.n, TILE), "its own tiles");
        self.allocate()?;
        for place in 0..self.places.len() {
            self.put(place, "failed", vec![NONE_FAILED])?;
        }
        self.fill_shares(tiles, covariances, slots)?;
        let (layout, blocks, places) = (self.layout, self.layout.blocks(), self.places.len());
        let mut sent = Sent::none(places);
        // Commands so far, by device, one step ago and two steps ago.
        let mut ends = [vec![0; places], vec![0; places]];
        self.factor_block(0, tiles, slots)?;
        let mut is_handed_over = false;
        for block in 0..blocks {
            if layout.owner(block).is_some() {
                self.fetch(block, tiles, slots)?;
            }
            if block + 1 == blocks {
                break;
            }
            if !is_handed_over {
                self.hand_over(block, tiles, slots, &mut sent)?;
            }
            let (next, mut rest) = (block + 1, block + 1);
            is_handed_over = false;
            if layout.owner(next).is_none() {
                self.lose(block, next..next + 1, tiles, slots)?;
                self.factor_block(next, tiles, slots)?;
                rest += 1;
                if rest < blocks {
                    self.hand_over(next, tiles, slots, &mut sent)?;
                    is_handed_over = true;
                }
            }
            self.lose(block, rest..blocks, tiles, slots)?;
            // The commands of the last two steps may be under way: devices have work while the host fetches a block.
            ends.swap(0, 1);
            for (place, end) in self.places.iter_mut().zip(&mut ends[0]) {
                let count = place.direct.sent();
                place.direct.wait((count - *end) as usize)?;
                *end = count;
            }
        }
        Ok(self.finish()?)
    }

    /// Slots and devices fill their columns, side by side; or devices get theirs.
    fn fill_shares(
        &mut self,
        tiles: &TiledMatrix<T>,
        covariances: Option<Covariances<'_>>,
        slots: &mut Pieces<'_>,
    ) -> Result<(), Unfactored> {
        let (layout, n) = (self.layout, self.n);
        let Some((expression, points, added)) = covariances else {
            let of_devices = (0..layout.blocks()).filter_map(|block| Some((block, layout.owner(block)?)));
            for (block, place) in of_devices {
                self.send(place, ("tiles", block), (block, layout.columns(block).start), tiles, slots)?;
            }
            return Ok(());
        };
        self.fill(expression, points, added)?;
        self.places.iter_mut().try_for_each(|place| place.direct.flush())?;
        let own = self.tiles_of_slots(0..layout.blocks());
        run(slots, own.len(), |at| {
            let ((i, j), mut wide) = (own[at], vec![0.0; NUMBERS]);
            expression.tile(points, TILE, (i, j), added, &mut wide);
            if i == j {
                // Rows of the identity follow the last one.
                (n.saturating_sub(i * TILE)..TILE).for_each(|row| wide[row * TILE + row] = 1.0);
            }
            tiles.write(i, j).iter_mut().zip(wide).for_each(|(to, x)| *to = T::of(x));
        })
    }

    /// The tiles that slots have, of a range of blocks.
    fn tiles_of_slots(&self, blocks: Range<usize>) -> Vec<(usize, usize)> {
        let (layout, rows) = (self.layout, self.rows());
        let own = blocks.filter(|block| layout.owner(*block).is_none());
        let columns = own.flat_map(|block| layout.columns(block));
        columns.flat_map(|j| (j..rows).map(move |i| (i, j))).collect()
    }

    /// Factors a block that has lost the products with all blocks before it: on slots, or by commands for its device.
    fn factor_block(
        &mut self,
        block: usize,
        tiles: &TiledMatrix<T>,
        slots: &mut Pieces<'_>,
    ) -> Result<(), Unfactored> {
        let (own, rows, kernels) = (self.layout.columns(block), self.rows(), T::kernels());
        let is_of_slots = self.layout.owner(block).is_none();
        for column in own.clone() {
            let before = own.start..column;
            if !is_of_slots {
                if !before.is_empty() {
                    self.update(column..column + 1, before, (0, &[]))?;
                }
                self.factor_column(column)?;
                continue;
            }
            if !before.is_empty() {
                run(slots, rows - column, |at| lose_products(tiles, (column + at, column), before.clone()))?;
            }
            let pivot = kernels.factor(&mut tiles.write(column, column), TILE);
            pivot.map_err(|pivot| Unfactored::NotPositiveDefinite { row: column * TILE + pivot })?;
            run(slots, rows - column - 1, |at| {
                let mut tile = tiles.write(column + 1 + at, column);
                kernels.solve(&tiles.read(column, column), &mut tile, TILE);
            })?;
        }
        Ok(())
    }

    /// The columns of slots in some blocks lose the products with a block that is factored.
    fn lose(
        &self,
        block: usize,
        behind: Range<usize>,
        tiles: &TiledMatrix<T>,
        slots: &mut Pieces<'_>,
    ) -> Result<(), Unfactored> {
        let (own, with) = (self.tiles_of_slots(behind), self.layout.columns(block));
        run(slots, own.len(), |at| lose_products(tiles, own[at], with.clone()))
    }

    /// Copies a block that its device has factored to the tiles of the host.
    fn fetch(
        &mut self,
        block: usize,
        tiles: &TiledMatrix<T>,
        slots: &mut Pieces<'_>,
    ) -> Result<(), Unfactored> {
        let layout = self.layout;
        let places = self.places_in(block, layout.columns(block).start);
        let (direct, mut failed) = (&mut self.places[layout.place_of(block)].direct, [NONE_FAILED]);
        let mut taken = Ok(());
        direct.read_part_by(("tiles", block), 0, places.len() * NUMBERS, &mut |at, numbers: &[T]| {
            let places = &places[at / NUMBERS..];
            let copied = run(slots, numbers.len() / NUMBERS, |nth| {
                let (i, j) = places[nth];
                tiles.write(i, j).copy_from_slice(&numbers[nth * NUMBERS..][..NUMBERS]);
            });
            if copied.is_err() {
                taken = copied;
            }
        })?;
        direct.read_part(("failed", 0), 0, &mut failed)?;
        match failed[0] {
            NONE_FAILED => taken,
            row => Err(Unfactored::NotPositiveDefinite { row: row as usize }),
        }
    }

    /// The tiles of a block from a row of tiles on, as they lie there.
    fn places_in(&self, block: usize, from: usize) -> Vec<(usize, usize)> {
        let of_row = |i: usize| self.layout.row(block, i).1.map(move |j| (i, j));
        (from..self.rows()).flat_map(of_row).collect()
    }

    /// Copies the tiles of a block, from a row of tiles on, to a buffer of a device, where they lie as if the others were there.
    fn send(
        &mut self,
        place: usize,
        part: (&'static str, usize),
        (block, from): (usize, usize),
        tiles: &TiledMatrix<T>,
        slots: &mut Pieces<'_>,
    ) -> Result<(), Unfactored> {
        let (places, before) = (self.places_in(block, from), self.layout.row(block, from).0);
        let (direct, mut filled) = (&mut self.places[place].direct, Ok(()));
        let len = places.len() * NUMBERS;
        direct.write_part_by(part, before * NUMBERS, len, &mut |at, numbers: &mut [T]| {
            let places = &places[at / NUMBERS..];
            let to: Vec<Mutex<&mut [T]>> = numbers.chunks_mut(NUMBERS).map(Mutex::new).collect();
            let copied = run(slots, to.len(), |nth| {
                let (i, j) = places[nth];
                let mut to = to[nth].lock().unwrap_or_else(PoisonError::into_inner);
                to.copy_from_slice(&tiles.read(i, j));
            });
            if copied.is_err() {
                filled = copied;
            }
        })?;
        filled
    }

    /// Hands a block that is factored, and that the host has, to the devices, and enqueues the products with it. The next block is factored
    /// first, if it is a device's.
    fn hand_over(
        &mut self,
        block: usize,
        tiles: &TiledMatrix<T>,
        slots: &mut Pieces<'_>,
        sent: &mut Sent,
    ) -> Result<(), Unfactored> {
        let (layout, panel, next) = (self.layout, block % PANELS, block + 1);
        let (with, blocks) = (layout.columns(block), layout.blocks());
        for place in 0..self.places.len() {
            let has_columns = (next..blocks).any(|behind| layout.owner(behind) == Some(place));
            if layout.owner(block) != Some(place) && has_columns {
                // The block that was there before is of no more use.
                self.places[place].direct.wait_for(sent.of_panel[panel][place])?;
                self.send(place, ("panel", panel), (block, with.end), tiles, slots)?;
            }
        }
        let begun: Vec<u64> = self.places.iter().map(|place| place.direct.sent()).collect();
        if let Some(ahead) = layout.owner(next) {
            self.update(layout.columns(next), with.clone(), (0, &[sent.behind[ahead]]))?;
            self.factor_block(next, tiles, slots)?;
        }
        let lane = usize::from(self.looks_ahead);
        for behind in next + 1..blocks {
            let Some(place) = layout.owner(behind) else { continue };
            self.update(layout.columns(behind), with.clone(), (lane, &[begun[place]]))?;
            sent.behind[place] = self.places[place].direct.sent();
        }
        for (place, of_panel) in self.places.iter_mut().zip(&mut sent.of_panel[panel]) {
            *of_panel = place.direct.sent();
            place.direct.flush()?;
        }
        Ok(())
    }
}

/// Tile (i, j) loses its products with some columns of tiles, in their order.
fn lose_products<T: DeviceNumber>(tiles: &TiledMatrix<T>, (i, j): (usize, usize), columns: Range<usize>) {
    let (kernels, mut tile) = (T::kernels(), tiles.write(i, j));
    for k in columns {
        let left = tiles.read(i, k);
        match i == j {
            true => kernels.square(&left, &mut tile, TILE),
            false => kernels.product(&left, &tiles.read(j, k), &mut tile, TILE),
        }
    }
}

#[cfg(test)]
mod tests;
