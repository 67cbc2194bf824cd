//! The inverse of a matrix from its factor, and the derivatives of a likelihood by it, on the device.

use boxwork_kernels::cholesky::device::{ITEMS, TILE, tiles as count};
use boxwork_kernels::covariance::Expression;
use boxwork_runtime::feeding::{DeviceError, Grid, Value};

use super::{DeviceMatrix, DeviceNumber, Place, whole_numbers};
use crate::devices::device_kernels::slopes_program;

impl<T: DeviceNumber> DeviceMatrix<T> {
    /// Replaces the factor by the lower half of the inverse of the matrix. Takes as much memory again for U = L^-T.
    ///
    /// # Errors
    /// When the device fails, or has no room.
    ///
    /// # Panics
    /// When the matrix is not whole.
    pub fn invert(&mut self) -> Result<(), DeviceError> {
        assert!(self.is_whole(), "an inverse is one buffer");
        let rows = self.rows();
        self.places[0].direct.allocate::<T>("beside", count(rows) * TILE * TILE)?;
        let upper = [("base", 0), ("is_upper", 1)];
        self.launch_beside("unit", [count(rows), 1], &[])?;
        for first in (0..rows).step_by(self.block) {
            let end = (first + self.block).min(rows);
            for j in first..end {
                let of = [upper[0], upper[1], ("j", j), ("first", first)];
                self.launch_beside("eliminate", [j + 1, 1], &of)?;
            }
            let of = [upper[0], upper[1], ("from", end), ("first", first), ("end", end)];
            self.launch_beside("behind", [rows - end, end], &of)?;
        }
        self.launch_beside("inverse", [count(rows), 1], &[])
    }

    /// Runs a kernel on the whole matrix and the rows of tiles beside it.
    fn launch_beside(
        &mut self,
        kernel: &'static str,
        groups: [usize; 2],
        values: &[(&'static str, usize)],
    ) -> Result<(), DeviceError> {
        let values = whole_numbers(&[&[("width", self.rows())], values].concat());
        let Place { direct, program } = &mut self.places[0];
        direct.launch(program, kernel, Grid::of(groups, [ITEMS, 1]), &values)
    }

    /// The sums of (alpha_i alpha_j - (K^-1)_ij) dK_ij over all entries, by half, for each parameter of the covariance: the matrix is
    /// the inverse, of what [`DeviceMatrix::fill`] has made by this expression.
    ///
    /// # Errors
    /// When the device fails, or does not compile the expression.
    ///
    /// # Panics
    /// When there is not a weight for each row.
    pub fn slopes(&mut self, expression: &Expression, weights: &[f64]) -> Result<Vec<f64>, DeviceError> {
        assert_eq!(weights.len(), self.n, "a weight for each row");
        let (rows, parameters) = (self.rows(), expression.parameters().len());
        let mut alpha = weights.to_vec();
        alpha.resize(rows * TILE, 0.0);
        self.put_wide(0, "alpha", alpha)?;
        self.put_wide(0, "parts", vec![0.0; count(rows) * parameters])?;
        let program = slopes_program(self.numbers, expression, self.dimensions);
        let values = [("stride", Value::of((rows * TILE) as u32)), ("count", Value::of(self.n as u32))];
        self.places[0].direct.launch(&program, "slopes", Grid::of([count(rows)], [ITEMS]), &values)?;
        let parts = self.get_wide(0, "parts", count(rows) * parameters)?;
        // In the order of the tiles, whichever came first.
        let mut sums = vec![0.0; parameters];
        for of_tile in parts.chunks_exact(parameters) {
            sums.iter_mut().zip(of_tile).for_each(|(sum, part)| *sum += part);
        }
        Ok(sums)
    }
}
