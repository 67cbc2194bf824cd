//! `cholesky_panel`: factors one column of tiles.
//!
//! Invariant: the box takes the tiles of its column, which come first, closes its input, and ends: boxes behind it that wait for the whole
//! panel never wait for tiles behind the panel.

use boxwork_kernels::cholesky::{NotPositiveDefinite, TileKernels, Usual};
use boxwork_runtime::operator::{
    Bind, BoxError, Context, Flow, In, Kind, Operator, OperatorSpec, Out, Pushed,
};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};

use super::tiles::{Tile, envelope};
use crate::columns;

const TILES: In =
    In::stream(0, "tiles", columns::tiles, "tiles, those of the column first, its diagonal tile before all");
const PANEL: Out = Out::new(0, "panel", columns::tiles, "the factored tiles of the column");

/// The column of a stage.
pub(super) const COLUMN: Parameter = Parameter::new(
    "column",
    ParameterType::integer_within(0, 1 << 17),
    Default::Required,
    "the column of tiles that the stage factors, from 0",
);

/// Factors one column of tiles: the first column of its stream.
///
/// # Inputs
/// `tiles`: tiles, from which earlier columns were subtracted. Those of the column come first. The box closes the input behind them.
///
/// # Outputs
/// `panel`: the factored tiles of the column, from the diagonal down; nothing if the matrix has no such column.
///
/// # Parameters
/// `column`: the column.
pub static CHOLESKY_PANEL: OperatorSpec = OperatorSpec {
    parameters: &[COLUMN],
    inputs: &[TILES],
    outputs: &[PANEL],
    example: "panel0: {kind: cholesky_panel, column: 0}",
    ..OperatorSpec::new("cholesky_panel", "Factors one column of tiles.", Kind::Stateful, make)
};

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    Ok(Box::new(CholeskyPanel { column: bind.count("column"), diagonal: None }))
}

struct CholeskyPanel {
    column: usize,
    /// The factor of the diagonal tile.
    diagonal: Option<Vec<f64>>,
}

impl Operator for CholeskyPanel {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        while cx.has_room(PANEL) {
            let Some(tile) = cx.take(TILES) else {
                return Ok(if cx.is_ended(TILES) { Flow::Done } else { Flow::Wait });
            };
            let tile = Tile::of(&tile)?;
            if tile.j != self.column {
                if self.diagonal.is_none() {
                    return Err(out_of_turn(self.column, &tile));
                }
                cx.close(TILES);
                return Ok(Flow::Done);
            }
            let (i, factored) = (tile.i, self.factored(tile)?);
            if cx.push(PANEL, envelope(i, self.column, factored)?)? == Pushed::Closed {
                return Ok(Flow::Done);
            }
        }
        Ok(Flow::Wait)
    }
}

/// The error of a tile that comes where another was expected.
pub(super) fn out_of_turn(column: usize, tile: &Tile) -> BoxError {
    BoxError::new(format!(
        "tile ({}, {}) came to the stage of column {column}: stages follow each other by their columns, from 0, and tiles come \
         column by column, each from its diagonal down",
        tile.i, tile.j
    ))
}

impl CholeskyPanel {
    fn factored(&mut self, tile: Tile) -> Result<Vec<f64>, BoxError> {
        let mut numbers = tile.numbers.to_vec();
        match &self.diagonal {
            Some(diagonal) => Usual::default().solve(diagonal, &mut numbers, tile.size),
            None if tile.i == self.column => {
                let pivot = Usual::default().factor(&mut numbers, tile.size);
                pivot.map_err(|pivot| NotPositiveDefinite { row: self.column * tile.size + pivot })?;
                self.diagonal = Some(numbers.clone());
            }
            None => return Err(out_of_turn(self.column, &tile)),
        }
        Ok(numbers)
    }
}
