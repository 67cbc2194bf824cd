//! A device that makes factors in place of threads.

use crate::cholesky::{Packed, TiledMatrix};
use crate::covariance::{Expression, Points};
use crate::interrupt::Interrupted;

/// Why a factorisation has no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// The pivot of this row is not a positive number.
    NotPositiveDefinite {
        /// The row, from 0.
        row: usize,
    },
    /// The caller cancelled the work.
    Interrupted,
}

impl From<Interrupted> for Stopped {
    fn from(_: Interrupted) -> Self {
        Self::Interrupted
    }
}

/// The matrix that a device shall factor, and the right side that it shall solve.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// The covariance.
    pub expression: &'a Expression,
    /// The points.
    pub points: &'a Points,
    /// The term added to the diagonal.
    pub added: f64,
    /// The right side.
    pub targets: &'a [f64],
    /// Whether the tiles are filled. Else they are zeros, and the device fills them.
    pub is_filled: bool,
}

/// The factor and the weights that a device has made.
pub struct Made<T> {
    /// The factor.
    pub factor: TiledMatrix<T>,
    /// The solution of L L^T x = y.
    pub weights: Vec<f64>,
}

/// The result of a device: nothing if it has failed, and threads shall do the work.
pub type Outcome<T> = Option<Result<Made<T>, Stopped>>;

/// A device that makes factors, of tiles of [`TILE`](super::TILE) rows.
pub trait FactorDevice {
    /// Whether it takes a matrix of n rows of numbers of so many bytes.
    fn takes(&mut self, n: usize, bytes: usize) -> bool;

    /// Whether it fills tiles with covariances of points of so many dimensions.
    fn can_fill(&self, dimensions: usize) -> bool;

    /// Makes a factor in f64.
    fn doubles(&mut self, wanted: &Wanted<'_>, tiles: Packed<f64>) -> Outcome<f64>;

    /// Makes a factor in f32.
    fn singles(&mut self, wanted: &Wanted<'_>, tiles: Packed<f32>) -> Outcome<f32>;
}
