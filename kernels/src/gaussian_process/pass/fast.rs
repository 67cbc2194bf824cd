//! A pass in the layout of the f32 loops.

use super::super::Form;
use super::Pass;
use crate::CodePath;
use crate::sketch::COORDINATES;

/// The number of a column that means covariance 1.
pub const COLUMN_ONE: u16 = u16::MAX;

/// Numbers of a panel for each of its marks: one for each coordinate, then the three below.
pub(super) const ROWS: usize = COORDINATES + 3;
/// The row of the squared norms, scaled, with the base added.
pub(super) const BASES: usize = COORDINATES;
/// The row of the weights.
pub(super) const WEIGHTS: usize = COORDINATES + 1;
/// The row of the shares `1 / (1 + noise)`.
pub(super) const SHARES: usize = COORDINATES + 2;

/// A [`Pass`] in f32, for the instructions of one path. Threads share it.
#[derive(Clone, Debug)]
pub struct FastPass {
    pub(super) path: CodePath,
    pub(super) form: Form,
    pub(super) scale: f32,
    pub(super) explore: f32,
    pub(super) marks: usize,
    /// Panel after panel of [`panel`] marks, [`ROWS`] rows each. Marks that only fill the last panel have weight and share 0.
    pub(super) panels: Vec<f32>,
}

/// Marks of a panel: as many as the loop holds sums of in registers, for two vectors of objects.
pub(super) const fn panel(path: CodePath) -> usize {
    match path {
        CodePath::Avx512 => 12,
        _ => 6,
    }
}

/// The column of a mark, and the mark's part in a round.
#[derive(Clone, Copy, Debug)]
pub struct Column<'a> {
    /// The covariances with consecutive objects, as multiples of 1 / [`COLUMN_ONE`].
    pub covariances: &'a [u16],
    /// See [`PassMark`](super::PassMark).
    pub weight: f64,
    /// The variance of the noise.
    pub noise: f64,
}

impl FastPass {
    /// The pass for a path.
    ///
    /// # Panics
    /// If this machine lacks its instructions.
    pub fn new(pass: &Pass, path: CodePath) -> Self {
        assert!(path.is_available(), "this machine has no {path} instructions");
        let (base, scale, width) = (pass.base(), pass.scale(), panel(path));
        let expands = !matches!(pass.covariance.form(), Form::Exponential | Form::Laplacian);
        let mut panels = vec![0.0; pass.len().div_ceil(width) * width * ROWS];
        for (number, mark) in pass.marks.iter().enumerate() {
            let panel = &mut panels[number / width * width * ROWS..][..width * ROWS];
            let mut set = |row: usize, x: f64| panel[row * width + number % width] = x as f32;
            for (row, x) in mark.coordinates.iter().enumerate() {
                set(row, if expands { -2.0 * scale * x } else { *x });
            }
            set(BASES, base + scale * mark.norm * mark.norm);
            set(WEIGHTS, mark.weight);
            set(SHARES, mark.share);
        }
        let form = pass.covariance.form();
        Self { path, form, scale: scale as f32, explore: pass.explore as f32, marks: pass.len(), panels }
    }
}
