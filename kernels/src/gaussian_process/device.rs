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
    /// The solution of L L^T x = y, if the device has solved it.
    pub weights: Option<Vec<f64>>,
}

/// The result of a device: nothing if it has failed, and threads shall do the work.
pub type Outcome<T> = Option<Result<Made<T>, Stopped>>;

/// The numbers from which a likelihood and its derivatives follow.
#[derive(Clone, Debug, PartialEq)]
pub struct Sloped {
    /// The diagonal of the factor.
    pub pivots: Vec<f64>,
    /// The weights: those that were given, or the solution of L L^T x = y.
    pub weights: Vec<f64>,
    /// 1/2 sum_ij (alpha_i alpha_j - (K^-1)_ij) dK_ij for each parameter.
    pub slopes: Vec<f64>,
}

/// The result of a device for a likelihood with derivatives: nothing if it has failed, and threads shall do the work.
pub type SlopedOutcome = Option<Result<Sloped, Stopped>>;

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

    /// Whether it computes derivatives for a matrix of n rows of numbers of so many bytes: it has both the factor and the inverse then.
    fn takes_slopes(&mut self, n: usize, bytes: usize) -> bool;

    /// The weights and the derivatives of a likelihood in f64, for these weights if there are any. The matrix stays on the device.
    fn slopes_of_doubles(&mut self, wanted: &Wanted<'_>, weights: Option<&[f64]>) -> SlopedOutcome;

    /// As `slopes_of_doubles`, with a factor and an inverse in f32.
    fn slopes_of_singles(&mut self, wanted: &Wanted<'_>, weights: Option<&[f64]>) -> SlopedOutcome;
}
