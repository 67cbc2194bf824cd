//! The factorisation on a device: constants and sizes for `device.cl`.
//!
//! The device works on the packed tiles of a [`TiledMatrix`](super::TiledMatrix) of [`TILE`] rows, in place. Columns of tiles are
//! factored in blocks, right-looking as in LAPACK's potrf: within a block each column loses the products of the columns before it,
//! its diagonal tile is factored and inverted by one work group, and the tiles below are multiplied with the inverse; then one launch
//! subtracts the products of the whole block from all tiles behind it. So a launch is never less than a column of tiles.
//!
//! Invariant: each number loses its products in the order of the columns within a block, and block after block, so that the factor does
//! not depend on the order in which a device runs its work groups.

use crate::covariance::Expression;

/// The source of the kernels of factors, of solves and of products.
pub const TEXT: &str = concat!(include_str!("tiles.cl"), include_str!("device.cl"));
/// The source of the kernels of covariances.
pub const COVARIANCE_TEXT: &str = concat!(include_str!("tiles.cl"), include_str!("../covariance/device.cl"));

/// Rows of a tile.
pub const TILE: usize = 128;
/// Work items of a group.
pub const ITEMS: usize = 256;
/// Dimensions of points whose covariances a device computes: an item holds a point in registers.
pub const DIMENSIONS_MAX: usize = 32;

/// The numbers of tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbers {
    /// f64.
    Double,
    /// f32. Sums of solves, and covariances before they are rounded, are of f64 where the device has such numbers.
    Single {
        /// Whether it has.
        has_doubles: bool,
    },
}

impl Numbers {
    /// Bytes of a number.
    pub const fn bytes(self) -> usize {
        match self {
            Self::Double => 8,
            Self::Single { .. } => 4,
        }
    }

    /// Whether numbers of vectors and points are of f64.
    pub const fn is_wide(self) -> bool {
        matches!(self, Self::Double | Self::Single { has_doubles: true })
    }
}

/// How products of tiles are computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Units {
    /// By the device's usual arithmetic.
    #[default]
    None,
    /// In f64 by NVIDIA's matrix units, squares of 8 and four terms at a time (compute capability 8.0 and above).
    Squares,
    /// In f64 by NVIDIA's matrix units, 16 rows and eight terms at a time (compute capability 9.0 and above).
    Bands,
}

impl Units {
    /// The units that suit a device of NVIDIA's of this compute capability, for numbers of tiles.
    pub fn of(numbers: Numbers, capability: Option<(u32, u32)>) -> Self {
        match (numbers, capability) {
            // Devices of 8.x and 12.x that are no data centre's have the instructions, and hardly any units for them.
            (Numbers::Double, Some((9 | 10, _))) => Self::Bands,
            (Numbers::Double, Some((8, 0))) => Self::Squares,
            _ => Self::None,
        }
    }
}

/// The constants to compile [`TEXT`] with.
pub fn constants(numbers: Numbers, units: Units) -> Vec<(&'static str, String)> {
    let mut constants = constants_of(numbers);
    // Two slices of two tiles in two places are about 32 KiB of local memory.
    let slice = if numbers == Numbers::Double { 8 } else { 16 };
    constants.push(("SLICE", slice.to_string()));
    match units {
        Units::None => {}
        Units::Squares => constants.push(("UNITS", "1".to_owned())),
        Units::Bands => constants.push(("UNITS", "2".to_owned())),
    }
    constants
}

/// The constants to compile [`COVARIANCE_TEXT`] with, for points of some dimensions; `slopes` says whether with the kernel `slopes`.
pub fn covariance_constants(
    numbers: Numbers,
    expression: &Expression,
    dimensions: usize,
    slopes: bool,
) -> Vec<(&'static str, String)> {
    let mut constants = constants_of(numbers);
    constants.push(("COVARIANCE", expression.device_text()));
    constants.push(("DIMENSIONS", dimensions.to_string()));
    if slopes {
        constants.push(("SLOPES", expression.device_slopes()));
        constants.push(("PARAMETERS", expression.parameters().len().to_string()));
    }
    constants
}

fn constants_of(numbers: Numbers) -> Vec<(&'static str, String)> {
    let mut constants = vec![("TILE", TILE.to_string())];
    if numbers == Numbers::Double {
        constants.push(("DOUBLES", "1".to_owned()));
    }
    if numbers.is_wide() {
        constants.push(("WIDE_DOUBLES", "1".to_owned()));
    }
    constants
}

/// A launch of the factorisation: a kernel, its work groups, and the columns that it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Launch {
    /// `update`, of column `column` alone: it loses the products of columns from `first` up to itself.
    Column {
        /// The column.
        column: usize,
        /// The first of the columns before it.
        first: usize,
    },
    /// `factor` and `invert` of a diagonal tile, then `solve` for the tiles below it.
    Panel {
        /// The column.
        column: usize,
    },
    /// `update`, of all tiles from column `from` on: they lose the products of columns from `first` up to there.
    Behind {
        /// The column.
        from: usize,
        /// The first column of the block.
        first: usize,
    },
    /// The end of a block, where the host may wait.
    End,
}

/// The launches that factor a matrix of `rows` rows of tiles, in blocks of `block` columns of tiles.
///
/// # Panics
/// When a block has no columns.
pub fn launches(rows: usize, block: usize) -> impl Iterator<Item = Launch> {
    assert!(block > 0, "a block of no columns never ends");
    (0..rows).step_by(block).flat_map(move |first| {
        let end = (first + block).min(rows);
        let columns = (first..end).flat_map(move |column| {
            let before = (column > first).then_some(Launch::Column { column, first });
            before.into_iter().chain([Launch::Panel { column }])
        });
        let behind = (end < rows).then_some(Launch::Behind { from: end, first });
        columns.chain(behind).chain([Launch::End])
    })
}

/// Tiles of the lower half of so many rows of tiles.
pub const fn tiles(rows: usize) -> usize {
    rows * (rows + 1) / 2
}

#[cfg(test)]
mod tests {
    use super::super::reference;
    use super::*;

    /// The launches on a matrix of tiles of one number define the factor, as those of larger tiles do.
    fn factored(n: usize, block: usize, a: &[f64]) -> Vec<f64> {
        let mut l = a.to_vec();
        let update = |l: &mut [f64], i: usize, j: usize, first: usize, end: usize| {
            for k in first..end {
                l[j * n + i] -= l[k * n + i] * l[k * n + j];
            }
        };
        for launch in launches(n, block) {
            match launch {
                Launch::Column { column, first } => {
                    (column..n).for_each(|i| update(&mut l, i, column, first, column));
                }
                Launch::Panel { column } => {
                    let root = l[column * n + column].sqrt();
                    l[column * n + column] = root;
                    (column + 1..n).for_each(|i| l[column * n + i] /= root);
                }
                Launch::Behind { from, first } => {
                    for j in from..n {
                        (j..n).for_each(|i| update(&mut l, i, j, first, from));
                    }
                }
                Launch::End => {}
            }
        }
        (0..n).for_each(|j| l[j * n..j * n + j].fill(0.0));
        l
    }

    #[test]
    fn launches_factor_a_matrix_of_any_size_in_any_blocks() {
        for n in [1, 2, 3, 7, 12] {
            let entry = |i: usize, j: usize| (-0.1 * (i as f64 - j as f64).powi(2)).exp();
            let a: Vec<f64> =
                (0..n * n).map(|at| entry(at % n, at / n) + f64::from(at % n == at / n)).collect();
            let expected = reference::factor(n, &a).unwrap();
            for block in [1, 2, 3, 5, 20] {
                let found = factored(n, block, &a);
                let apart = found.iter().zip(&expected).map(|(x, y)| (x - y).abs()).fold(0.0, f64::max);
                assert!(apart < 1e-14, "{n} rows in blocks of {block}: {apart:e}");
            }
        }
    }

    #[test]
    fn units_are_for_doubles_of_data_centres() {
        assert_eq!(Units::of(Numbers::Double, Some((9, 0))), Units::Bands);
        assert_eq!(Units::of(Numbers::Double, Some((8, 0))), Units::Squares);
        for (numbers, capability) in [
            (Numbers::Double, Some((8, 6))),
            (Numbers::Double, None),
            (Numbers::Single { has_doubles: true }, Some((9, 0))),
        ] {
            assert_eq!(Units::of(numbers, capability), Units::None);
        }
    }
}
