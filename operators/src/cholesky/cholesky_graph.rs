//! `cholesky_graph`: the factor of a matrix of covariances by a graph of tasks, within one box.

use boxwork_kernels::cholesky::{Factorisation, TiledMatrix, Usual};
use boxwork_runtime::operator::{Bind, BoxError, Context, Flow, Kind, Operator, OperatorSpec, Out, Pushed};

use super::run;
use super::tiles::{MATRIX, Matrix, envelope};
use crate::columns;

const FACTOR: Out = Out::new(0, "factor", columns::tiles, "the tiles of the factor, column by column");

/// Factors a matrix of covariances by a graph of tasks.
///
/// The graph fills each tile in its first task, so no tile waits for a matrix. The factor has the bits of a chain of `cholesky_panel` and
/// `cholesky_update`, on any number of slots.
///
/// # Inputs
/// None.
///
/// # Outputs
/// `factor`: the tiles of the factor, one an envelope, column by column.
///
/// # Parameters
/// Those of `covariance_tiles`.
pub static CHOLESKY_GRAPH: OperatorSpec = OperatorSpec {
    parameters: &MATRIX,
    outputs: &[FACTOR],
    example: "factor: {kind: cholesky_graph, rows: 512, tile: 64}",
    ..OperatorSpec::new(
        "cholesky_graph",
        "Factors a matrix of covariances by a graph of tasks.",
        Kind::Stateful,
        make,
    )
};

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    Ok(Box::new(CholeskyGraph { matrix: Matrix::new(bind)?, factor: None, sent: 0 }))
}

struct CholeskyGraph {
    matrix: Matrix,
    factor: Option<TiledMatrix>,
    sent: usize,
}

impl Operator for CholeskyGraph {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        let Some(factor) = &self.factor else {
            let (matrix, size) = (&self.matrix, self.matrix.size);
            let factor = TiledMatrix::zeros(matrix.points.len(), size);
            let fill = |i: usize, j: usize, tile: &mut [f64]| {
                matrix.expression.tile(&matrix.points, size, (i, j), 0.0, tile);
            };
            cx.inside(|inside| run(inside, &Factorisation::filled(&factor, Usual::default(), &fill)))?;
            self.factor = Some(factor);
            return Ok(Flow::More);
        };
        let rows = factor.tile_rows();
        let places = (0..rows).flat_map(|j| (j..rows).map(move |i| (i, j)));
        for (i, j) in places.skip(self.sent) {
            if !cx.has_room(FACTOR) {
                return Ok(Flow::Wait);
            }
            self.sent += 1;
            if cx.push(FACTOR, envelope(i, j, factor.write(i, j).take())?)? == Pushed::Closed {
                return Ok(Flow::Done);
            }
        }
        Ok(Flow::Done)
    }
}
