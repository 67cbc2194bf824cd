//! The numbers of a factor, and what a fit says of their use.

use std::fmt;

use super::device::{FactorDevice, Outcome, SlopedOutcome, Wanted};
use crate::cholesky::{Blocked, Number, Packed, TileKernels, Usual};

/// The numbers in which samples are fitted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precision {
    /// Factor and weights in f64.
    #[default]
    F64,
    /// The factor in f32; weights are refined in f64, with covariances that are computed again.
    Mixed,
    /// The factor in f32, and weights as it gives them.
    F32,
}

impl Precision {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::F64, Self::Mixed, Self::F32];

    /// The name in pipelines.
    pub const fn name(self) -> &'static str {
        match self {
            Self::F64 => "f64",
            Self::Mixed => "mixed",
            Self::F32 => "f32",
        }
    }

    /// The precision of a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|precision| precision.name() == name)
    }
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How the weights of a fit were found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Solved {
    /// By the factor alone.
    #[default]
    Directly,
    /// By the factor in f32, with this many corrections.
    Refined(usize),
    /// By conjugate gradients, this many steps with the factor in f32 as preconditioner, since corrections did not converge.
    ByGradients(usize),
    /// By a factor in f64, since none exists in f32.
    AgainNotPositiveDefinite,
    /// By a factor in f64, since conjugate gradients did not converge either.
    AgainNotConverged,
}

/// A number of a factor.
pub(super) trait Real: Number {
    /// The fastest operations on its tiles.
    type Kernels: TileKernels<Self> + Default;
    /// The first jitter that is tried and the last, in parts of the mean of the diagonal.
    const JITTERS: &'static [f64];

    /// Fills a tile with numbers that are computed in f64.
    fn filled(tile: &mut [Self], fill: impl FnOnce(&mut [f64]));

    /// A factor of these numbers by a device.
    fn on_device(device: &mut dyn FactorDevice, wanted: &Wanted<'_>, tiles: Packed<Self>) -> Outcome<Self>;

    /// Derivatives by a factor of these numbers on a device.
    fn slopes_on_device(
        device: &mut dyn FactorDevice,
        wanted: &Wanted<'_>,
        weights: Option<&[f64]>,
    ) -> SlopedOutcome;
}

impl Real for f64 {
    type Kernels = Usual;
    const JITTERS: &'static [f64] = &[1e-12, 1e-10, 1e-8, 1e-6, 1e-4];

    fn filled(tile: &mut [Self], fill: impl FnOnce(&mut [f64])) {
        fill(tile);
    }

    fn on_device(device: &mut dyn FactorDevice, wanted: &Wanted<'_>, tiles: Packed<Self>) -> Outcome<Self> {
        device.doubles(wanted, tiles)
    }

    fn slopes_on_device(
        device: &mut dyn FactorDevice,
        wanted: &Wanted<'_>,
        weights: Option<&[f64]>,
    ) -> SlopedOutcome {
        device.slopes_of_doubles(wanted, weights)
    }
}

impl Real for f32 {
    type Kernels = Blocked;
    const JITTERS: &'static [f64] = &[1e-7, 1e-5, 1e-4];

    fn filled(tile: &mut [Self], fill: impl FnOnce(&mut [f64])) {
        let mut wide = vec![0.0; tile.len()];
        fill(&mut wide);
        tile.iter_mut().zip(wide).for_each(|(to, x)| *to = x as Self);
    }

    fn on_device(device: &mut dyn FactorDevice, wanted: &Wanted<'_>, tiles: Packed<Self>) -> Outcome<Self> {
        device.singles(wanted, tiles)
    }

    fn slopes_on_device(
        device: &mut dyn FactorDevice,
        wanted: &Wanted<'_>,
        weights: Option<&[f64]>,
    ) -> SlopedOutcome {
        device.slopes_of_singles(wanted, weights)
    }
}

/// The error of the logarithm of a determinant, n 2^-24 cond^(1/2), that comes from a factor of n rows in f32.
pub(super) fn error_of_single(n: usize, condition: f64) -> f64 {
    n as f64 * 2f64.powi(-24) * condition.sqrt()
}
