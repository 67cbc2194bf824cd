//! A Cholesky factor on devices: covariances, the factor, and solves with it.
//!
//! A [`DeviceMatrix`] has the tiles of a matrix on a device, which fills them, or takes them filled. They are one buffer, or blocks of
//! columns where a buffer has no room for all; several devices have the blocks in turn. The host waits once a block of
//! columns, for the block before it, so that the device always has work. Invariant: each step gives what
//! [`boxwork_kernels::cholesky::device`] says, or an error; after an error nothing of the matrix is of use.
//!
//! A matrix for which no device has room stays in the host's memory, and its blocks of columns come to a device in turn
//! ([`DeviceMatrix::factor_of_host`]). Slots may have some of the blocks, in the host's memory ([`DeviceMatrix::factor_with_slots`]).

mod layout;
mod tuned;
mod ways;
mod copies;
mod rates;
mod steps;
mod streamed;
mod together;
mod solves;
mod slopes;

use std::sync::Arc;

use boxwork_kernels::cholesky::device::{DIMENSIONS_MAX, ITEMS, Numbers, TILE, Units, tiles as count};
use boxwork_kernels::cholesky::{Blocked, Number, Packed, TileKernels, Usual};
use boxwork_kernels::covariance::{Expression, Points};
use boxwork_runtime::feeding::{
    DeviceClass, DeviceError, Devices, Direct, DirectStatistics, Grid, Part, Placed, Plain, ProgramSource,
    Value,
};

use self::layout::Layout;
pub(crate) use self::rates::DEVICE_SLOTS;
pub use self::rates::{DeviceSlots, Rates, Slots, rates, share};
pub use self::streamed::{Covariances, resident};
pub use self::together::fits_with_slots;
pub use self::tuned::{Tuned, keep_tuned, tuned};
pub use self::ways::maps;

use super::device_kernels::{factor_program, fill_program};

/// Panels of other devices that a device holds at a time.
const PANELS: usize = 2;

/// A number of tiles on a device.
pub trait DeviceNumber: Number + Plain {
    /// The numbers as the kernels take them; nothing if the device has no such numbers.
    fn numbers(has_doubles: bool) -> Option<Numbers>;
    /// Columns of tiles of a block on a GPU, for so many rows of tiles: a wide block writes the tiles behind it seldom, a narrow one leaves
    /// little to launches of single columns.
    fn block(rows: usize) -> usize;
    /// The operations of slots on tiles.
    fn kernels() -> &'static dyn TileKernels<Self>;
}

impl DeviceNumber for f64 {
    fn numbers(has_doubles: bool) -> Option<Numbers> {
        has_doubles.then_some(Numbers::Double)
    }

    fn block(rows: usize) -> usize {
        (rows / 8).clamp(2, 16)
    }

    fn kernels() -> &'static dyn TileKernels<Self> {
        static KERNELS: Usual = Usual {};
        &KERNELS
    }
}

impl DeviceNumber for f32 {
    fn numbers(has_doubles: bool) -> Option<Numbers> {
        Some(Numbers::Single { has_doubles })
    }

    fn block(rows: usize) -> usize {
        (rows / 16).clamp(4, 8)
    }

    fn kernels() -> &'static dyn TileKernels<Self> {
        static KERNELS: Blocked = Blocked;
        &KERNELS
    }
}

/// Columns of tiles of a block where cores compute, or a GPU that shares their memory.
const BLOCK_SHARED: usize = 2;

/// The sizes of a factorisation that a caller may choose.
#[derive(Clone, Copy, Debug, Default)]
pub struct Choices {
    /// Columns of tiles of a block that is factored before those behind it lose its products.
    pub block: Option<usize>,
    /// How products are computed.
    pub units: Option<Units>,
    /// Whether the next block is factored on a second queue while the others lose products.
    pub looks_ahead: Option<bool>,
    /// Tiles of a buffer at most.
    pub buffer_tiles: Option<usize>,
    /// The matrix stays in the host's memory, and the device has so many columns of tiles of it at a time.
    pub resident: Option<usize>,
    /// The share of the columns that slots have, in thousandths: 0 for none. [`DeviceMatrix::factor_with_slots`] factors the matrix then, and devices
    /// have the other columns alone.
    pub slots: usize,
}

/// Why there is no factor.
#[derive(Clone, Debug, PartialEq)]
pub enum Unfactored {
    /// The pivot of this row is not a positive number.
    NotPositiveDefinite {
        /// The row, from 0.
        row: usize,
    },
    /// The caller cancelled the work.
    Cancelled,
    /// The device failed, or has no room or no such numbers.
    Device(DeviceError),
}

impl From<DeviceError> for Unfactored {
    fn from(error: DeviceError) -> Self {
        Self::Device(error)
    }
}

/// A symmetric matrix, or its factor, on a device, or its blocks of columns on several.
pub struct DeviceMatrix<T> {
    places: Vec<Place>,
    numbers: Numbers,
    n: usize,
    layout: Layout,
    /// Numbers of the points that it was filled with.
    dimensions: usize,
    block: usize,
    looks_ahead: bool,
    /// Whether the host has the matrix, and the device one block at a time.
    is_streamed: bool,
    /// The memory of the host that the device computes in, as far as it is lent: where it begins in its vector.
    lent: Option<usize>,
    of: std::marker::PhantomData<T>,
}

/// One of the devices.
struct Place {
    direct: Direct,
    program: ProgramSource,
}

/// Whether a device can compute covariances of points of so many dimensions.
pub fn can_fill(dimensions: usize) -> bool {
    (1..=DIMENSIONS_MAX).contains(&dimensions)
}

/// Whether devices can take so many matrices of n rows at once, each of them a share; more than one matrix must be single buffers. Else the
/// reason.
///
/// # Errors
/// The reason, for a user.
pub fn fits<T: DeviceNumber>(
    devices: &Devices,
    places: &[usize],
    n: usize,
    matrices: u64,
) -> Result<(), String> {
    fits_with::<T>(devices, places, n, matrices, places.len() > 1)
}

/// [`fits`], if devices have panels of others too.
fn fits_with<T: DeviceNumber>(
    devices: &Devices,
    places: &[usize],
    n: usize,
    matrices: u64,
    has_panels: bool,
) -> Result<(), String> {
    let rows = n.div_ceil(TILE) as u64;
    let of_tile = (TILE * TILE * size_of::<T>()) as u64;
    // The panels of others are two at a time.
    let (count, panels) =
        (places.len() as u64, if has_panels { (PANELS * T::block(rows as usize)) as u64 } else { 0 });
    let share = (rows * (rows + 1) / 2).div_ceil(count) + rows * (1 + panels);
    for place in places {
        let device = &devices.list()[*place];
        let info = device.info();
        if T::numbers(info.has_doubles).is_none() {
            return Err(format!("device {place} ({}) has no numbers of f64", info.name));
        }
        let budget = device.memory_budget_bytes() / matrices;
        let most = if matrices > 1 { budget.min(info.buffer_bytes_max) } else { budget };
        let is_buffer = rows * of_tile <= info.buffer_bytes_max;
        if share * of_tile > most || !is_buffer {
            return Err(format!(
                "the lower half takes {} MiB, and device {place} ({}) has room for {}",
                (share * of_tile) >> 20,
                info.name,
                most.min(if is_buffer { u64::MAX } else { info.buffer_bytes_max }) >> 20
            ));
        }
    }
    Ok(())
}

impl<T: DeviceNumber> DeviceMatrix<T> {
    /// A matrix of n rows without numbers: [`DeviceMatrix::lend`] or [`DeviceMatrix::allocate`] comes next.
    ///
    /// # Errors
    /// When a device takes no more work, or has no such numbers.
    ///
    /// # Panics
    /// When there is no such device, or no row.
    pub fn open(
        devices: &Arc<Devices>,
        places: &[usize],
        n: usize,
        choices: Choices,
    ) -> Result<Self, DeviceError> {
        assert!(n > 0 && !places.is_empty(), "a matrix without rows, or nowhere");
        let rows = n.div_ceil(TILE);
        let (mut opened, mut tiles_max, mut are_apart, mut of) = (Vec::new(), usize::MAX, true, None);
        for place in places {
            let mut direct = Direct::open(devices, *place)?;
            let info = direct.device().info().clone();
            let Some(numbers) = T::numbers(info.has_doubles) else {
                return Err(DeviceError::Block(format!("{} has no numbers of f64", info.name)));
            };
            let units = choices.units.unwrap_or_else(|| Units::of(numbers, info.compute_capability));
            let tile_bytes = TILE * TILE * size_of::<T>();
            tiles_max = tiles_max.min(info.buffer_bytes_max as usize / tile_bytes);
            are_apart &= info.class == DeviceClass::Gpu && !info.shares_memory;
            direct.allocate::<T>("inverses", rows * TILE * TILE)?;
            of = Some(numbers);
            opened.push(Place { direct, program: factor_program(numbers, units) });
        }
        let Some(numbers) = of else { unreachable!("there is a device") };
        // One device alone may have a table of what is fastest.
        let is_alone = places.len() == 1 && choices.resident.is_none() && choices.slots == 0;
        let tuned = is_alone.then(|| tuned::nearest::<T>(&devices.list()[places[0]], rows)).flatten();
        let usual = if are_apart { T::block(rows) } else { BLOCK_SHARED };
        let block = choices.block.or(tuned.map(|tuned| tuned.block)).unwrap_or(usual).max(1);
        let looks_ahead = choices.looks_ahead.or(tuned.map(|tuned| tuned.looks_ahead));
        let layout = match choices.resident {
            Some(columns) => Layout { rows, width: whole_blocks(columns, block, rows), places: 1, slots: 0 },
            None => {
                let tiles_max = choices.buffer_tiles.unwrap_or(tiles_max);
                Layout::new(rows, tiles_max, (places.len(), choices.slots), block)
            }
        };
        Ok(Self {
            places: opened,
            numbers,
            n,
            dimensions: 0,
            block: block.min(layout.width),
            layout,
            looks_ahead: looks_ahead.unwrap_or(places.len() > 1 || layout.slots > 0 || are_apart),
            is_streamed: choices.resident.is_some(),
            lent: None,
            of: std::marker::PhantomData,
        })
    }

    /// The first device, with its figures.
    pub fn direct(&self) -> &Direct {
        &self.places[0].direct
    }

    /// The counts of all devices.
    pub fn statistics(&self) -> DirectStatistics {
        let mut all = DirectStatistics::default();
        self.places.iter().for_each(|place| all.add(&place.direct.statistics()));
        all
    }

    /// Whether the matrix is one buffer of one device: else it is neither lent, solved with on several devices, nor inverted.
    pub fn is_whole(&self) -> bool {
        self.layout.is_whole() && self.solves()
    }

    /// Whether [`DeviceMatrix::solve`] solves: one device that has the matrix.
    pub fn solves(&self) -> bool {
        self.places.len() == 1 && !self.is_streamed && !self.is_with_slots()
    }

    /// Whether slots have some of the columns: [`DeviceMatrix::factor_with_slots`] factors the matrix.
    pub fn is_with_slots(&self) -> bool {
        self.layout.slots > 0
    }

    /// The columns of the matrix that slots have.
    pub fn columns_of_slots(&self) -> usize {
        // The last columns of tiles may be more than there are.
        let is_last = self.layout.owner(self.layout.blocks() - 1).is_none();
        self.layout.columns_of_slots() * TILE - if is_last { self.rows() * TILE - self.n } else { 0 }
    }

    /// Whether the matrix stays in the host's memory: [`DeviceMatrix::factor_of_host`] factors it.
    pub fn is_streamed(&self) -> bool {
        self.is_streamed
    }

    /// The buffer of a block.
    fn part(&self, block: usize) -> Part {
        ("tiles", if self.is_streamed { 0 } else { block })
    }

    /// Rows of tiles.
    fn rows(&self) -> usize {
        self.layout.rows
    }

    /// The device computes in memory of the host.
    ///
    /// # Errors
    /// When the driver refuses the memory; the tiles are lost then.
    ///
    /// # Panics
    /// When there are not all tiles, or the matrix is not whole.
    pub fn lend(&mut self, tiles: Packed<T>) -> Result<(), DeviceError> {
        let numbers = tiles.numbers().len();
        assert!(self.is_whole() && numbers == count(self.rows()) * TILE * TILE, "all tiles");
        let (memory, first) = tiles.into_memory();
        self.lent = Some(first);
        self.places[0].direct.give("tiles", memory, first..first + numbers)
    }

    /// Takes the memory back that was lent.
    ///
    /// # Errors
    /// When the device fails; the tiles are lost then.
    ///
    /// # Panics
    /// When no memory was lent.
    pub fn take_back(&mut self) -> Result<Packed<T>, DeviceError> {
        let Some(first) = self.lent.take() else { panic!("no memory was lent") };
        let memory = self.places[0].direct.take_back("tiles")?;
        Ok(Packed::of_memory((memory, first), self.rows(), TILE))
    }

    /// The devices take memory of their own for the tiles.
    ///
    /// # Errors
    /// When they have no room.
    pub fn allocate(&mut self) -> Result<(), DeviceError> {
        let layout = self.layout;
        for block in 0..layout.blocks() {
            let Some(place) = layout.owner(block) else { continue };
            let len = layout.tiles(block) * TILE * TILE;
            self.places[place].direct.allocate_part::<T>(("tiles", block), len)?;
        }
        if self.places.len() > 1 || self.is_with_slots() {
            for place in &mut self.places {
                for panel in 0..PANELS {
                    place.direct.allocate_part::<T>(("panel", panel), layout.tiles(0) * TILE * TILE)?;
                }
            }
        }
        Ok(())
    }

    /// Fills the matrix with covariances of points: `added` comes to the diagonal. Columns of slots are left out.
    ///
    /// # Errors
    /// When a device fails, or does not compile the expression.
    ///
    /// # Panics
    /// When there is not a point for each row, or [`can_fill`] says that the device cannot.
    pub fn fill(&mut self, expression: &Expression, points: &Points, added: f64) -> Result<(), DeviceError> {
        let (dimensions, stride) = (points.dimensions(), self.rows() * TILE);
        assert!(points.len() == self.n && can_fill(dimensions), "a point of few dimensions for each row");
        let mut columns = vec![0.0; dimensions * stride];
        for (d, column) in columns.chunks_exact_mut(stride).enumerate() {
            column[..self.n].copy_from_slice(points.dimension(d));
        }
        self.dimensions = dimensions;
        for place in 0..self.places.len() {
            self.put_wide(place, "points", columns.clone())?;
            self.put_wide(place, "parameters", expression.device_numbers())?;
            self.put_wide(place, "added", vec![added])?;
        }
        let program = fill_program(self.numbers, expression, dimensions);
        // A matrix of the host is filled block by block, when each comes to the device.
        let (layout, blocks) = (self.layout, if self.is_streamed { 0 } else { self.layout.blocks() });
        let mut own = (0..blocks).filter(|block| layout.owner(*block).is_some());
        own.try_for_each(|block| self.fill_block(&program, block))
    }

    /// Fills a block of columns.
    fn fill_block(&mut self, program: &ProgramSource, block: usize) -> Result<(), DeviceError> {
        let (layout, part) = (self.layout, self.part(block));
        let columns = layout.columns(block);
        let values = whole_numbers(&[
            ("first_column", columns.start),
            ("width", columns.len()),
            ("stride", self.rows() * TILE),
            ("count", self.n),
        ]);
        let placed = Placed { parts: &[("tiles", part)], ..Placed::default() };
        let grid = Grid::of([layout.tiles(block)], [ITEMS]);
        let direct = &mut self.places[layout.place_of(block)].direct;
        direct.launch_placed(program, "fill", grid, &values, placed)
    }

    /// Runs a kernel on the block of columns of tiles, on the first lane of its device.
    fn launch(
        &mut self,
        kernel: &'static str,
        block: usize,
        groups: [usize; 2],
        values: &[(&'static str, usize)],
    ) -> Result<(), DeviceError> {
        let columns = self.layout.columns(block);
        let of_block = [("first_column", columns.start), ("width", columns.len())];
        let values = whole_numbers(&[&of_block[..], values].concat());
        let placed = Placed { parts: &[("tiles", self.part(block))], ..Placed::default() };
        let Place { direct, program } = &mut self.places[self.layout.place_of(block)];
        direct.launch_placed(program, kernel, Grid::of(groups, [ITEMS, 1]), &values, placed)
    }

    /// Waits until the devices have done everything.
    ///
    /// # Errors
    /// When a device fails.
    pub fn finish(&mut self) -> Result<(), DeviceError> {
        self.places.iter_mut().try_for_each(|place| place.direct.wait(0))
    }
}

/// Columns of `rows` in whole blocks, at least one.
fn whole_blocks(columns: usize, block: usize, rows: usize) -> usize {
    if columns < rows { ((columns / block).max(1) * block).min(rows) } else { rows }
}

/// Arguments of a kernel that are whole numbers.
fn whole_numbers(values: &[(&'static str, usize)]) -> Vec<(&'static str, Value)> {
    values.iter().map(|(name, value)| (*name, Value::of(*value as u32))).collect()
}

#[cfg(test)]
mod tests;
