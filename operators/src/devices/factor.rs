//! A Cholesky factor on one device: covariances, the factor, and solves with it.
//!
//! A [`DeviceMatrix`] has the packed tiles of a matrix on a device, which fills them, or takes them filled. The host waits once a block of
//! columns, for the block before it, so that the device always has work. Invariant: each step gives what
//! [`boxwork_kernels::cholesky::device`] says, or an error; after an error nothing of the matrix is of use.

mod slopes;

use std::sync::Arc;

use boxwork_kernels::cholesky::device::{
    DIMENSIONS_MAX, ITEMS, Launch, Numbers, TILE, Units, launches, tiles as count,
};
use boxwork_kernels::cholesky::{Number, Packed};
use boxwork_kernels::covariance::{Expression, Points};
use boxwork_runtime::feeding::{
    DeviceClass, DeviceError, Devices, Direct, Grid, Plain, ProgramSource, Value,
};

use super::device_kernels::{factor_program, fill_program};

/// The number in `failed` while no pivot has failed.
const NONE_FAILED: u32 = u32::MAX;

/// A number of tiles on a device.
pub trait DeviceNumber: Number + Plain {
    /// The numbers as the kernels take them; nothing if the device has no such numbers.
    fn numbers(has_doubles: bool) -> Option<Numbers>;
    /// Columns of tiles of a block on a GPU, for so many rows of tiles: a wide block writes the tiles behind it seldom, a narrow one leaves
    /// little to launches of single columns.
    fn block(rows: usize) -> usize;
}

impl DeviceNumber for f64 {
    fn numbers(has_doubles: bool) -> Option<Numbers> {
        has_doubles.then_some(Numbers::Double)
    }

    fn block(rows: usize) -> usize {
        (rows / 8).clamp(2, 16)
    }
}

impl DeviceNumber for f32 {
    fn numbers(has_doubles: bool) -> Option<Numbers> {
        Some(Numbers::Single { has_doubles })
    }

    fn block(rows: usize) -> usize {
        (rows / 16).clamp(4, 8)
    }
}

/// Columns of tiles of a block where cores compute, or a GPU that shares their memory.
const BLOCK_SHARED: usize = 2;

/// The sizes of a factorisation that a caller may choose.
#[derive(Clone, Copy, Debug, Default)]
pub struct Choices {
    /// Columns of tiles of a block.
    pub block: Option<usize>,
    /// How products are computed.
    pub units: Option<Units>,
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

/// A symmetric matrix, or its factor, on a device.
pub struct DeviceMatrix<T> {
    direct: Direct,
    program: ProgramSource,
    numbers: Numbers,
    n: usize,
    /// Numbers of the points that it was filled with.
    dimensions: usize,
    block: usize,
    /// The memory of the host that the device computes in, as far as it is lent: where it begins in its vector.
    lent: Option<usize>,
    of: std::marker::PhantomData<T>,
}

/// Whether a device can compute covariances of points of so many dimensions.
pub fn can_fill(dimensions: usize) -> bool {
    (1..=DIMENSIONS_MAX).contains(&dimensions)
}

/// Whether a device can take a matrix of n rows; else the reason.
///
/// # Errors
/// The reason, for a user.
pub fn fits<T: DeviceNumber>(devices: &Devices, device: usize, n: usize) -> Result<(), String> {
    fits_times::<T>(devices, device, n, 1)
}

/// Whether a device can take so many matrices of n rows at once; else the reason.
///
/// # Errors
/// The reason, for a user.
pub fn fits_times<T: DeviceNumber>(
    devices: &Devices,
    device: usize,
    n: usize,
    times: u64,
) -> Result<(), String> {
    let (rows, info) = (n.div_ceil(TILE), devices.list()[device].info());
    let bytes = (count(rows) * TILE * TILE * size_of::<T>()) as u64;
    if T::numbers(info.has_doubles).is_none() {
        return Err(format!("device {device} ({}) has no numbers of f64", info.name));
    }
    let most = info.buffer_bytes_max.min(devices.list()[device].memory_budget_bytes() / times);
    match bytes <= most {
        true => Ok(()),
        false => Err(format!(
            "the lower half takes {} MiB, and device {device} ({}) has room for {}",
            bytes >> 20,
            info.name,
            most >> 20
        )),
    }
}

impl<T: DeviceNumber> DeviceMatrix<T> {
    /// A matrix of n rows without numbers: [`DeviceMatrix::lend`] or [`DeviceMatrix::allocate`] comes next.
    ///
    /// # Errors
    /// When the device takes no more work, or has no such numbers.
    ///
    /// # Panics
    /// When there is no such device, or no row.
    pub fn open(
        devices: &Arc<Devices>,
        device: usize,
        n: usize,
        choices: Choices,
    ) -> Result<Self, DeviceError> {
        assert!(n > 0, "a matrix without rows");
        let mut direct = Direct::open(devices, device)?;
        let info = direct.device().info().clone();
        let Some(numbers) = T::numbers(info.has_doubles) else {
            return Err(DeviceError::Block(format!("{} has no numbers of f64", info.name)));
        };
        let units = choices.units.unwrap_or_else(|| Units::of(numbers, info.compute_capability));
        let rows = n.div_ceil(TILE);
        let is_apart = info.class == DeviceClass::Gpu && !info.shares_memory;
        let block = choices.block.unwrap_or(if is_apart { T::block(rows) } else { BLOCK_SHARED }).max(1);
        direct.allocate::<T>("inverses", rows * TILE * TILE)?;
        let program = factor_program(numbers, units);
        Ok(Self {
            direct,
            program,
            numbers,
            n,
            dimensions: 0,
            block,
            lent: None,
            of: std::marker::PhantomData,
        })
    }

    /// The queue, with its figures.
    pub fn direct(&self) -> &Direct {
        &self.direct
    }

    /// Rows of tiles.
    fn rows(&self) -> usize {
        self.n.div_ceil(TILE)
    }

    /// The device computes in memory of the host.
    ///
    /// # Errors
    /// When the driver refuses the memory; the tiles are lost then.
    ///
    /// # Panics
    /// When there are not all tiles.
    pub fn lend(&mut self, tiles: Packed<T>) -> Result<(), DeviceError> {
        let numbers = tiles.numbers().len();
        assert_eq!(numbers, count(self.rows()) * TILE * TILE, "all tiles");
        let (memory, first) = tiles.into_memory();
        self.lent = Some(first);
        self.direct.give("tiles", memory, first..first + numbers)
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
        Ok(Packed::of_memory((self.direct.take_back("tiles")?, first), self.rows(), TILE))
    }

    /// The device takes memory of its own for the tiles.
    ///
    /// # Errors
    /// When it has no room.
    pub fn allocate(&mut self) -> Result<(), DeviceError> {
        self.direct.allocate::<T>("tiles", count(self.rows()) * TILE * TILE)
    }

    /// Copies packed tiles to the device's own memory.
    ///
    /// # Errors
    /// When the device fails.
    pub fn write(&mut self, packed: &[T]) -> Result<(), DeviceError> {
        self.direct.write("tiles", 0, packed)
    }

    /// Copies packed tiles to the host.
    ///
    /// # Errors
    /// When the device fails.
    pub fn read(&mut self, packed: &mut [T]) -> Result<(), DeviceError> {
        self.direct.read("tiles", 0, packed)
    }

    /// The tiles of a row, up to its diagonal.
    ///
    /// # Errors
    /// When the device fails.
    ///
    /// # Panics
    /// When there is no such row.
    pub fn row_of_tiles(&mut self, row: usize) -> Result<Vec<T>, DeviceError> {
        let mut found = vec![T::ZERO; (row + 1) * TILE * TILE];
        self.direct.read("tiles", count(row) * TILE * TILE, &mut found)?;
        Ok(found)
    }

    /// Numbers come to the device: in place where the tiles are lent.
    fn put<N: Plain>(&mut self, name: &'static str, numbers: Vec<N>) -> Result<(), DeviceError> {
        let len = numbers.len();
        if self.lent.is_some() {
            return self.direct.give(name, numbers, 0..len);
        }
        self.direct.allocate::<N>(name, len)?;
        self.direct.write(name, 0, &numbers)
    }

    /// Numbers come back, once all commands have ended.
    fn get<N: Plain + Default>(&mut self, name: &'static str, len: usize) -> Result<Vec<N>, DeviceError> {
        if self.lent.is_some() {
            return self.direct.take_back(name);
        }
        let mut numbers = vec![N::default(); len];
        self.direct.read(name, 0, &mut numbers)?;
        Ok(numbers)
    }

    /// [`DeviceMatrix::put`] of the device's numbers for vectors.
    fn put_wide(&mut self, name: &'static str, numbers: Vec<f64>) -> Result<(), DeviceError> {
        match self.numbers.is_wide() {
            true => self.put(name, numbers),
            false => self.put(name, numbers.into_iter().map(|x| x as f32).collect::<Vec<f32>>()),
        }
    }

    fn get_wide(&mut self, name: &'static str, len: usize) -> Result<Vec<f64>, DeviceError> {
        match self.numbers.is_wide() {
            true => self.get(name, len),
            false => Ok(self.get::<f32>(name, len)?.into_iter().map(f64::from).collect()),
        }
    }

    /// Fills the matrix with covariances of points: `added` comes to the diagonal.
    ///
    /// # Errors
    /// When the device fails, or does not compile the expression.
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
        self.put_wide("points", columns)?;
        self.put_wide("parameters", expression.device_numbers())?;
        self.put_wide("added", vec![added])?;
        let program = fill_program(self.numbers, expression, dimensions);
        let values = [("stride", Value::of(stride as u32)), ("count", Value::of(self.n as u32))];
        self.direct.launch(&program, "fill", Grid::of([count(self.rows())], [ITEMS]), &values)
    }

    fn launch(
        &mut self,
        kernel: &'static str,
        groups: usize,
        values: &[(&str, usize)],
    ) -> Result<(), DeviceError> {
        self.launch_over(kernel, [groups, 1], values)
    }

    fn launch_over(
        &mut self,
        kernel: &'static str,
        groups: [usize; 2],
        values: &[(&str, usize)],
    ) -> Result<(), DeviceError> {
        let values: Vec<(&str, Value)> =
            values.iter().map(|(name, value)| (*name, Value::of(*value as u32))).collect();
        self.direct.launch(&self.program, kernel, Grid::of(groups, [ITEMS, 1]), &values)
    }

    /// Replaces the matrix by its factor.
    ///
    /// # Errors
    /// When the matrix is not positive definite, the caller cancels, or the device fails.
    pub fn factor(&mut self, cancelled: &dyn Fn() -> bool) -> Result<(), Unfactored> {
        let rows = self.rows();
        self.put("failed", vec![NONE_FAILED])?;
        let mut before = 0;
        for launch in launches(rows, self.block) {
            match launch {
                Launch::Column { column, first } => {
                    let of = [("from", column), ("first", first), ("end", column), ("is_column", 1)];
                    self.launch("update", rows - column, &of)?;
                }
                Launch::Panel { column } => {
                    self.launch("factor", 1, &[("k", column)])?;
                    self.launch("invert", 1, &[("k", column)])?;
                    self.launch("solve", rows - column - 1, &[("k", column)])?;
                }
                Launch::Behind { from, first } => {
                    let of = [("from", from), ("first", first), ("end", from), ("is_column", 0)];
                    self.launch("update", count(rows - from), &of)?;
                }
                Launch::End => {
                    // The block that was just enqueued computes meanwhile.
                    let of_block = self.direct.under_way().saturating_sub(before);
                    self.direct.wait(of_block)?;
                    before = self.direct.under_way();
                    if cancelled() {
                        return Err(Unfactored::Cancelled);
                    }
                }
            }
        }
        match self.get::<u32>("failed", 1)?[0] {
            NONE_FAILED => Ok(()),
            row => Err(Unfactored::NotPositiveDefinite { row: row as usize }),
        }
    }

    /// Solves L L^T x = b with the factor.
    ///
    /// # Errors
    /// When the device fails.
    ///
    /// # Panics
    /// When there is not a number for each row.
    pub fn solve(&mut self, b: &[f64]) -> Result<Vec<f64>, DeviceError> {
        assert_eq!(b.len(), self.n, "a number for each row");
        let (rows, mut padded) = (self.rows(), b.to_vec());
        padded.resize(rows * TILE, 0.0);
        self.put_wide("b", padded.clone())?;
        self.put_wide("solved", padded.clone())?;
        self.put_wide("weights", padded)?;
        for j in 0..rows {
            self.launch("forward", rows - j, &[("j", j)])?;
        }
        for j in (0..rows).rev() {
            self.launch("backward", j + 1, &[("j", j)])?;
        }
        let mut weights = self.get_wide("weights", rows * TILE)?;
        weights.truncate(self.n);
        Ok(weights)
    }

    /// The diagonal of the factor.
    ///
    /// # Errors
    /// When the device fails.
    pub fn pivots(&mut self) -> Result<Vec<f64>, DeviceError> {
        self.put_wide("pivots", vec![0.0; self.n])?;
        self.launch("diagonal", self.n.div_ceil(ITEMS), &[("count", self.n)])?;
        self.get_wide("pivots", self.n)
    }

    /// Waits until the device has done everything.
    ///
    /// # Errors
    /// When the device fails.
    pub fn finish(&mut self) -> Result<(), DeviceError> {
        self.direct.wait(0)
    }
}

#[cfg(test)]
mod tests;
