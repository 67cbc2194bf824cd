//! The factor of a matrix for which no device has room: the host has it, and a device takes one block of columns at a time.
//!
//! A block loses the products with all columns before it, which pass through two buffers in panels, is factored, and goes back to the host
//! (left-looking). So a matrix of n rows crosses to the device n / 2 B times for blocks of B columns, and only once if it is a
//! covariance, which the device fills. Invariant: a tile loses its products in the order and in the groups of a matrix that a device
//! has, so the factor has the same bits.

use boxwork_kernels::cholesky::device::{ITEMS, TILE, tiles as count};
use boxwork_kernels::covariance::{Expression, Points};
use boxwork_runtime::feeding::{DeviceClass, DeviceError, Devices, Grid, Placed, ProgramSource};

use super::copies::NUMBERS;
use super::layout::tiles_of;
use super::steps::NONE_FAILED;
use super::{
    BLOCK_SHARED, DeviceMatrix, DeviceNumber, PANELS, Place, Unfactored, fill_program, whole_numbers,
};

/// The covariances that fill a matrix: the expression, the points, and what is added to the diagonal.
pub type Covariances<'a> = (&'a Expression, &'a Points, f64);

/// The columns of tiles that a device can have at a time of a matrix of n rows that stays in the host's memory, beside two panels.
///
/// # Errors
/// The reason why there is no room for one block, for a user.
pub fn resident<T: DeviceNumber>(devices: &Devices, place: usize, n: usize) -> Result<usize, String> {
    let (device, rows) = (&devices.list()[place], n.div_ceil(TILE));
    let info = device.info();
    if T::numbers(info.has_doubles).is_none() {
        return Err(format!("device {place} ({}) has no numbers of f64", info.name));
    }
    let is_apart = info.class == DeviceClass::Gpu && !info.shares_memory;
    let block = if is_apart { T::block(rows) } else { BLOCK_SHARED };
    let tile_bytes = (NUMBERS * size_of::<T>()) as u64;
    let (budget, most) = (device.memory_budget_bytes() / tile_bytes, info.buffer_bytes_max / tile_bytes);
    // Beside a block there are the panels and the inverses of diagonal tiles.
    let beside = ((PANELS * block + 1) * rows) as u64;
    let fits = |columns: usize| {
        let tiles = tiles_of(rows, columns) as u64;
        tiles <= most && tiles + beside <= budget
    };
    let blocks = (1..=rows.div_ceil(block)).rev();
    let columns = blocks.map(|blocks| (blocks * block).min(rows)).find(|columns| fits(*columns));
    columns.ok_or_else(|| {
        format!(
            "a block of columns takes {} MiB, and device {place} ({}) has room for {}",
            ((tiles_of(rows, block.min(rows)) as u64 + beside) * tile_bytes) >> 20,
            info.name,
            (budget * tile_bytes) >> 20
        )
    })
}

impl<T: DeviceNumber> DeviceMatrix<T> {
    /// Replaces packed tiles of the host by those of the factor. The device fills the matrix if there are covariances for it.
    ///
    /// # Errors
    /// As [`DeviceMatrix::factor`]; the tiles are neither the matrix nor its factor then.
    ///
    /// # Panics
    /// When there are not all tiles, or [`Choices::resident`](super::Choices::resident) was not given.
    pub fn factor_of_host(
        &mut self,
        packed: &mut [T],
        covariances: Option<Covariances<'_>>,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<(), Unfactored> {
        let (rows, layout) = (self.rows(), self.layout);
        assert!(self.is_streamed && packed.len() == count(rows) * NUMBERS, "all tiles, on the host");
        let direct = &mut self.places[0].direct;
        direct.allocate_part::<T>(("tiles", 0), layout.tiles(0) * NUMBERS)?;
        for panel in 0..PANELS {
            direct.allocate_part::<T>(("panel", panel), tiles_of(rows, self.block) * NUMBERS)?;
        }
        self.put(0, "failed", vec![NONE_FAILED])?;
        let mut program = None;
        if let Some((expression, points, added)) = covariances {
            self.fill(expression, points, added)?;
            program = Some(fill_program(self.numbers, expression, points.dimensions()));
        }
        for block in 0..layout.blocks() {
            self.bring(block, program.as_ref(), packed)?;
            self.lose_panels(block, packed, cancelled)?;
            self.factor_resident(block, cancelled)?;
            match self.get::<u32>(0, "failed", 1)?[0] {
                NONE_FAILED => self.read_block(block, packed)?,
                row => return Err(Unfactored::NotPositiveDefinite { row: row as usize }),
            }
        }
        Ok(())
    }

    /// A block comes to the device: filled there, or copied.
    fn bring(
        &mut self,
        block: usize,
        program: Option<&ProgramSource>,
        packed: &[T],
    ) -> Result<(), DeviceError> {
        match program {
            Some(program) => self.fill_block(program, block),
            None => self.write_block(block, packed),
        }
    }

    /// A block loses the products with all columns before it. A panel is copied while the one before is multiplied on the second lane.
    fn lose_panels(
        &mut self,
        block: usize,
        packed: &[T],
        cancelled: &dyn Fn() -> bool,
    ) -> Result<(), Unfactored> {
        let (rows, own) = (self.rows(), self.layout.columns(block));
        let (mut gathered, mut readers) = (Vec::new(), [0; PANELS]);
        for (nth, first) in (0..own.start).step_by(self.block).enumerate() {
            if cancelled() {
                return Err(Unfactored::Cancelled);
            }
            let (end, panel) = ((first + self.block).min(own.start), nth % PANELS);
            gathered.clear();
            for row in own.start..rows {
                let tiles = (count(row) + first) * NUMBERS..(count(row) + end) * NUMBERS;
                gathered.extend_from_slice(&packed[tiles]);
            }
            let Place { direct, program } = &mut self.places[0];
            // The panel that was there before is of no more use.
            direct.wait_for(readers[panel])?;
            // Rows above the block are left out, and the others lie where they would.
            let before = tiles_of(own.start - first, end - first) * NUMBERS;
            direct.write_part(("panel", panel), before, &gathered)?;
            let values = whole_numbers(&[
                ("to_first", own.start),
                ("to_width", own.len()),
                ("first_column", first),
                ("width", end - first),
                ("from", own.start),
                ("columns", own.len()),
                ("first", first),
                ("end", end),
            ]);
            let after = [direct.sent()];
            let parts = [("to_tiles", ("tiles", 0)), ("tiles", ("panel", panel))];
            let placed = Placed { parts: &parts, lane: 1, after: &after };
            let grid = Grid::of([tiles_of(rows - own.start, own.len())], [ITEMS]);
            direct.launch_placed(program, "update", grid, &values, placed)?;
            readers[panel] = direct.sent();
        }
        // The first lane factors the block, and knows nothing of the second.
        self.places[0].direct.wait(0)?;
        Ok(())
    }

    /// Factors a block that has lost all products with columns before it.
    fn factor_resident(&mut self, block: usize, cancelled: &dyn Fn() -> bool) -> Result<(), Unfactored> {
        let own = self.layout.columns(block);
        for first in own.clone().step_by(self.block) {
            if cancelled() {
                return Err(Unfactored::Cancelled);
            }
            let end = (first + self.block).min(own.end);
            for column in first..end {
                if column > first {
                    self.update(column..column + 1, first..column, (0, &[]))?;
                }
                self.factor_column(column)?;
            }
            if end < own.end {
                self.update(end..own.end, first..end, (0, &[]))?;
            }
        }
        Ok(())
    }
}
