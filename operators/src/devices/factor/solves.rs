//! Solves with the factor, and its diagonal, on one device.

use boxwork_kernels::cholesky::device::{ITEMS, TILE};
use boxwork_runtime::feeding::DeviceError;

use super::{DeviceMatrix, DeviceNumber};

impl<T: DeviceNumber> DeviceMatrix<T> {
    /// Solves L L^T x = b with the factor.
    ///
    /// # Errors
    /// When the device fails.
    ///
    /// # Panics
    /// When there is not a number for each row, or there are several devices.
    pub fn solve(&mut self, b: &[f64]) -> Result<Vec<f64>, DeviceError> {
        assert!(b.len() == self.n && self.solves(), "a number for each row, on one device");
        let (rows, mut padded, layout) = (self.rows(), b.to_vec(), self.layout);
        padded.resize(rows * TILE, 0.0);
        self.put_wide(0, "b", padded.clone())?;
        self.put_wide(0, "solved", padded.clone())?;
        self.put_wide(0, "weights", padded)?;
        for j in 0..rows {
            self.launch("forward", layout.block_of(j), [rows - j, 1], &[("j", j)])?;
        }
        for j in (0..rows).rev() {
            for block in 0..=layout.block_of(j) {
                self.launch("backward", block, [layout.row(block, j).1.len(), 1], &[("j", j)])?;
            }
        }
        let mut weights = self.get_wide(0, "weights", rows * TILE)?;
        weights.truncate(self.n);
        Ok(weights)
    }

    /// The diagonal of the factor.
    ///
    /// # Errors
    /// When the device fails.
    ///
    /// # Panics
    /// When there are several devices.
    pub fn pivots(&mut self) -> Result<Vec<f64>, DeviceError> {
        assert!(self.solves(), "on one device");
        self.put_wide(0, "pivots", vec![0.0; self.n])?;
        for block in 0..self.layout.blocks() {
            let groups = (self.layout.columns(block).len() * TILE).div_ceil(ITEMS);
            self.launch("diagonal", block, [groups, 1], &[("count", self.n)])?;
        }
        self.get_wide(0, "pivots", self.n)
    }
}
