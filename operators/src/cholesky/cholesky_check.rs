//! `cholesky_check`: compares the product of a factor with the matrix.

use std::collections::BTreeMap;
use std::sync::Arc;

use boxwork_kernels::chance::Random;
use boxwork_runtime::operator::{Bind, BoxError, Context, Flow, In, Kind, Operator, OperatorSpec, Part};
use boxwork_runtime::parameter::{Default, Parameter};
use crc32fast::Hasher;

use super::tiles::{MATRIX, Matrix, Tile};
use crate::columns;
use crate::results::sink::{OUT, OrderedWriter, share_writer};

const FACTOR: In = In::merge(0, "factor", columns::tiles, "the tiles of the factor, in any order");
const LEFT: In = In::stream(1, "left", columns::tiles, "tiles that no stage has factored").optional();

/// Entries that are compared at most.
const ENTRIES_MAX: usize = 4096;

/// Compares the product of a Cholesky factor with its matrix, and writes a line.
///
/// 4,096 entries of L L^T, or all of a small matrix, must be within 2 n 2^-52 of the largest entry of the matrix. The line has a checksum of the
/// factor's bits: that of the graph and that of a chain are equal.
///
/// # Inputs
/// `factor`: the tiles of the factor, in any order. `left`: the tiles behind the last stage of a chain, of which there must be none.
///
/// # Outputs
/// None.
///
/// # Parameters
/// Those of `covariance_tiles`, and `out`: the file to write, or `-` for standard output.
pub static CHOLESKY_CHECK: OperatorSpec = OperatorSpec {
    parameters: &PARAMETERS,
    inputs: &[FACTOR, LEFT],
    example: "check: {kind: cholesky_check, rows: 512, tile: 64}",
    share: Some(share_writer),
    ..OperatorSpec::new(
        "cholesky_check",
        "Compares the product of a Cholesky factor with its matrix.",
        Kind::Stateful,
        make,
    )
};

const PARAMETERS: [Parameter; 5] = {
    let [rows, tile, kernel, seed] = MATRIX;
    [rows, tile, kernel, seed, Parameter { default: Default::Text("-"), ..OUT }]
};

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    let (matrix, tiles) = (Matrix::new(bind)?, BTreeMap::new());
    Ok(Box::new(CholeskyCheck { matrix, tiles, writer: bind.shared(), part: bind.part }))
}

struct CholeskyCheck {
    matrix: Matrix,
    /// By column and row.
    tiles: BTreeMap<(usize, usize), Tile>,
    writer: Arc<OrderedWriter>,
    part: Part,
}

impl Operator for CholeskyCheck {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        if let Some(left) = cx.take(LEFT) {
            let tile = Tile::of(&left)?;
            return Err(BoxError::new(format!(
                "tile ({}, {}) came behind the last stage: {} rows in tiles of {} are {} columns; take larger tiles, or more stages",
                tile.i,
                tile.j,
                self.matrix.points.len(),
                self.matrix.size,
                self.matrix.tile_rows()
            )));
        }
        while let Some(envelope) = cx.take(FACTOR) {
            let tile = Tile::of(&envelope)?;
            let (i, j) = (tile.i, tile.j);
            if tile.size != self.matrix.size || self.tiles.insert((j, i), tile).is_some() {
                return Err(BoxError::new(format!(
                    "tile ({i}, {j}) came twice, or is not of {} rows",
                    self.matrix.size
                )));
            }
        }
        if !(cx.is_ended(FACTOR) && cx.is_ended(LEFT)) {
            return Ok(Flow::Wait);
        }
        let text = self.compare()?;
        cx.detached("disk", || self.writer.write(self.part, text.into_bytes()))??;
        Ok(Flow::Done)
    }
}

impl CholeskyCheck {
    fn at(&self, row: usize, column: usize) -> f64 {
        let size = self.matrix.size;
        self.tiles[&(column / size, row / size)].numbers[(column % size) * size + row % size]
    }

    fn compare(&self) -> Result<String, BoxError> {
        let (n, rows, size) = (self.matrix.points.len(), self.matrix.tile_rows(), self.matrix.size);
        if self.tiles.len() != rows * (rows + 1) / 2 {
            let found = self.tiles.len();
            return Err(BoxError::new(format!(
                "{found} tiles came, and a factor of {rows} rows of tiles has {}",
                rows * (rows + 1) / 2
            )));
        }
        let mut random = Random::mixed(n as u64);
        let all = n * (n + 1) / 2;
        let entry = |nth: usize| match all <= ENTRIES_MAX {
            true => {
                let row = ((8 * nth + 1).isqrt() - 1) / 2;
                (row, nth - row * (row + 1) / 2)
            }
            false => {
                let row = random.idx(n);
                (row, random.idx(row + 1))
            }
        };
        let (mut greatest, mut norm): (f64, f64) = (0.0, 0.0);
        let places: Vec<(usize, usize)> = (0..all.min(ENTRIES_MAX)).map(entry).collect();
        for (row, column) in &places {
            let product: f64 = (0..=*column).map(|p| self.at(*row, p) * self.at(*column, p)).sum();
            let expected = self.matrix.entry(*row, *column);
            let apart = (product - expected).abs();
            // A maximum would leave a NaN out.
            greatest = if apart.is_nan() { f64::INFINITY } else { greatest.max(apart) };
            norm = norm.max(expected.abs());
        }
        let diagonal = (0..n).map(|at| self.matrix.expression.diagonal(&self.matrix.points.point(at), true));
        let bound = 2.0 * n as f64 * f64::EPSILON * diagonal.fold(norm, f64::max);
        if greatest > bound || bound.is_nan() {
            return Err(BoxError::new(format!(
                "an entry of L L^T differs by {greatest:e} from the matrix, and {bound:e} is allowed: the factor is wrong"
            )));
        }
        let mut hasher = Hasher::new();
        for (at, tile) in &self.tiles {
            for (place, number) in tile.numbers.iter().enumerate() {
                // The upper half of a diagonal tile is not defined.
                if at.0 != at.1 || place / size <= place % size {
                    hasher.update(&number.to_bits().to_le_bytes());
                }
            }
        }
        Ok(format!(
            "{n} rows in tiles of {size}, {rows} columns of tiles: {} entries within {:.3} of the bound, checksum {:08x}\n",
            places.len(),
            greatest / bound,
            hasher.finalize()
        ))
    }
}
