//! Numbers of the host for devices: packed tiles, copied to the blocks of a matrix and back, and vectors.

use std::ops::Range;

use boxwork_kernels::cholesky::device::{TILE, tiles as count};
use boxwork_runtime::feeding::{DeviceError, Plain};

use super::{DeviceMatrix, DeviceNumber};

/// Numbers of a tile.
pub(super) const NUMBERS: usize = TILE * TILE;
/// Tiles that are gathered for a copy.
const GATHERED: usize = 512;

impl<T: DeviceNumber> DeviceMatrix<T> {
    /// Copies packed tiles to the devices' own memory.
    ///
    /// # Errors
    /// When a device fails.
    pub fn write(&mut self, packed: &[T]) -> Result<(), DeviceError> {
        let layout = self.layout;
        if layout.is_whole() {
            return self.places[0].direct.write("tiles", 0, packed);
        }
        (0..layout.blocks()).try_for_each(|block| self.write_block(block, packed))
    }

    /// Copies the tiles of a block to its device.
    pub(super) fn write_block(&mut self, block: usize, packed: &[T]) -> Result<(), DeviceError> {
        let (layout, part, mut gathered) = (self.layout, self.part(block), Vec::new());
        for rows in self.runs(block) {
            gathered.clear();
            for row in rows.clone() {
                let columns = layout.row(block, row).1;
                let first = (count(row) + columns.start) * NUMBERS;
                gathered.extend_from_slice(&packed[first..first + columns.len() * NUMBERS]);
            }
            let at = layout.row(block, rows.start).0 * NUMBERS;
            self.places[layout.place_of(block)].direct.write_part(part, at, &gathered)?;
        }
        Ok(())
    }

    /// Copies packed tiles to the host.
    ///
    /// # Errors
    /// When a device fails.
    pub fn read(&mut self, packed: &mut [T]) -> Result<(), DeviceError> {
        let layout = self.layout;
        self.finish()?;
        if layout.is_whole() {
            return self.places[0].direct.read("tiles", 0, packed);
        }
        (0..layout.blocks()).try_for_each(|block| self.read_block(block, packed))
    }

    /// Copies the tiles of a block to the host.
    pub(super) fn read_block(&mut self, block: usize, packed: &mut [T]) -> Result<(), DeviceError> {
        let (layout, part) = (self.layout, self.part(block));
        for rows in self.runs(block) {
            let at = layout.row(block, rows.start).0;
            let end = layout.row(block, rows.end - 1);
            let mut gathered = vec![T::ZERO; (end.0 + end.1.len() - at) * NUMBERS];
            let direct = &mut self.places[layout.place_of(block)].direct;
            direct.read_part(part, at * NUMBERS, &mut gathered)?;
            let mut rest = &gathered[..];
            for row in rows {
                let columns = layout.row(block, row).1;
                let (own, others) = rest.split_at(columns.len() * NUMBERS);
                packed[(count(row) + columns.start) * NUMBERS..][..own.len()].copy_from_slice(own);
                rest = others;
            }
        }
        Ok(())
    }

    /// The rows of a block in runs of some tiles.
    fn runs(&self, block: usize) -> Vec<Range<usize>> {
        let columns = self.layout.columns(block);
        let (step, rows) = ((GATHERED / columns.len()).max(1), self.rows());
        (columns.start..rows).step_by(step).map(|first| first..(first + step).min(rows)).collect()
    }

    /// The tiles of a row, up to its diagonal.
    ///
    /// # Errors
    /// When a device fails.
    ///
    /// # Panics
    /// When there is no such row.
    pub fn row_of_tiles(&mut self, row: usize) -> Result<Vec<T>, DeviceError> {
        let layout = self.layout;
        self.finish()?;
        let mut found = vec![T::ZERO; (row + 1) * NUMBERS];
        for block in 0..=layout.block_of(row) {
            let (before, columns) = layout.row(block, row);
            let to = &mut found[columns.start * NUMBERS..columns.end * NUMBERS];
            let direct = &mut self.places[layout.place_of(block)].direct;
            direct.read_part(("tiles", block), before * NUMBERS, to)?;
        }
        Ok(found)
    }

    /// Numbers come to a device: in place where the tiles are lent.
    pub(super) fn put<N: Plain>(
        &mut self,
        place: usize,
        name: &'static str,
        numbers: Vec<N>,
    ) -> Result<(), DeviceError> {
        let (direct, len) = (&mut self.places[place].direct, numbers.len());
        if self.lent.is_some() {
            return direct.give(name, numbers, 0..len);
        }
        direct.allocate::<N>(name, len)?;
        direct.write(name, 0, &numbers)
    }

    /// Numbers come back, once all commands have ended.
    pub(super) fn get<N: Plain + Default>(
        &mut self,
        place: usize,
        name: &'static str,
        len: usize,
    ) -> Result<Vec<N>, DeviceError> {
        let direct = &mut self.places[place].direct;
        if self.lent.is_some() {
            return direct.take_back(name);
        }
        let mut numbers = vec![N::default(); len];
        direct.read(name, 0, &mut numbers)?;
        Ok(numbers)
    }

    /// [`DeviceMatrix::put`] of the device's numbers for vectors.
    pub(super) fn put_wide(
        &mut self,
        place: usize,
        name: &'static str,
        numbers: Vec<f64>,
    ) -> Result<(), DeviceError> {
        match self.numbers.is_wide() {
            true => self.put(place, name, numbers),
            false => self.put(place, name, numbers.into_iter().map(|x| x as f32).collect::<Vec<f32>>()),
        }
    }

    pub(super) fn get_wide(
        &mut self,
        place: usize,
        name: &'static str,
        len: usize,
    ) -> Result<Vec<f64>, DeviceError> {
        match self.numbers.is_wide() {
            true => self.get(place, name, len),
            false => Ok(self.get::<f32>(place, name, len)?.into_iter().map(f64::from).collect()),
        }
    }
}
