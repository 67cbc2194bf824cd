//! `covariance_tiles`: the lower half of a matrix of covariances, tile by tile.
//!
//! Invariant: tiles leave column by column, each from its diagonal down: the order that `cholesky_panel` needs.

use std::vec::IntoIter;

use boxwork_runtime::operator::{Bind, BoxError, Context, Flow, Kind, Operator, OperatorSpec, Out, Pushed};

use super::tiles::{MATRIX, Matrix, envelope};
use crate::columns;

/// Tiles that are made side by side.
const AT_ONCE: usize = 32;

const TILES: Out = Out::new(0, "tiles", columns::tiles, "the tiles of the lower half, column by column");

/// Makes a matrix of covariances of random points, tile by tile.
///
/// # Inputs
/// None.
///
/// # Outputs
/// `tiles`: the tiles of the lower half, one an envelope, column by column.
///
/// # Parameters
/// `rows`: the rows of the matrix. `tile`: the rows of a tile. `kernel`: the covariance. `seed`: the seed of the points, which lie in four
/// dimensions.
pub static COVARIANCE_TILES: OperatorSpec = OperatorSpec {
    parameters: &MATRIX,
    outputs: &[TILES],
    example: "tiles: {kind: covariance_tiles, rows: 512, tile: 64}",
    ..OperatorSpec::new(
        "covariance_tiles",
        "Makes a matrix of covariances of random points, tile by tile.",
        Kind::Stateful,
        make,
    )
};

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    let matrix = Matrix::new(bind)?;
    let rows = matrix.tile_rows();
    let places: Vec<(usize, usize)> = (0..rows).flat_map(|j| (j..rows).map(move |i| (i, j))).collect();
    Ok(Box::new(CovarianceTiles { matrix, places, next: 0, made: Vec::new().into_iter() }))
}

/// A tile with its place.
type Made = ((usize, usize), Vec<f64>);

struct CovarianceTiles {
    matrix: Matrix,
    places: Vec<(usize, usize)>,
    next: usize,
    made: IntoIter<Made>,
}

impl Operator for CovarianceTiles {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        while cx.has_room(TILES) {
            let Some(((i, j), numbers)) = self.made.next() else {
                if self.next == self.places.len() {
                    return Ok(Flow::Done);
                }
                self.fill(cx);
                return Ok(Flow::More);
            };
            if cx.push(TILES, envelope(i, j, numbers)?)? == Pushed::Closed {
                return Ok(Flow::Done);
            }
        }
        Ok(Flow::Wait)
    }
}

impl CovarianceTiles {
    /// Makes the next tiles, on the slots that are free.
    fn fill(&mut self, cx: &mut Context<'_>) {
        let end = (self.next + AT_ONCE).min(self.places.len());
        let mut made: Vec<Made> =
            self.places[self.next..end].iter().map(|place| (*place, Vec::new())).collect();
        let matrix = &self.matrix;
        cx.inside(|inside| {
            inside.for_each_chunk_of(&mut made, 1, |_, made| {
                made.iter_mut().for_each(|((i, j), tile)| *tile = matrix.tile(*i, *j));
            });
        });
        self.next = end;
        self.made = made.into_iter();
    }
}
