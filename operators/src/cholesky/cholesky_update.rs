//! `cholesky_update`: subtracts from tiles the products of a factored column.
//!
//! Invariant: tiles leave in the order in which they come, so the next column comes first.

use boxwork_kernels::cholesky::{TileKernels, Usual};
use boxwork_runtime::operator::{Bind, BoxError, Context, Flow, In, Kind, Operator, OperatorSpec, Out};

use super::cholesky_panel::{COLUMN, out_of_turn};
use super::tiles::{Tile, envelope};
use crate::columns;

const TILES: In = In::stream(0, "tiles", columns::tiles, "tiles; those of the column are dropped");
const PANEL: In = In::side(1, "panel", columns::tiles, "the factored tiles of the column");
const REST: Out = Out::new(0, "rest", columns::tiles, "the tiles of later columns");

/// Subtracts from tiles the products of a factored column.
///
/// The edge to `tiles` holds the column itself while its panel is made: give it one envelope more than the column has tiles, or more.
///
/// # Inputs
/// `tiles`: the tiles that came to the panel. `panel` (side): the factored tiles of the column.
///
/// # Outputs
/// `rest`: the tiles of later columns, less the products.
///
/// # Parameters
/// `column`: the column.
pub static CHOLESKY_UPDATE: OperatorSpec = OperatorSpec {
    parameters: &[COLUMN],
    inputs: &[TILES, PANEL],
    outputs: &[REST],
    example: "update0: {kind: cholesky_update, column: 0, copies: auto}",
    ..OperatorSpec::new(
        "cholesky_update",
        "Subtracts from tiles the products of a factored column.",
        Kind::Ordered,
        make,
    )
};

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    Ok(Box::new(CholeskyUpdate { column: bind.count("column"), panel: None }))
}

struct CholeskyUpdate {
    column: usize,
    panel: Option<Vec<Tile>>,
}

impl Operator for CholeskyUpdate {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        if self.panel.is_none() {
            self.panel = Some(cx.side(PANEL).iter().map(Tile::of).collect::<Result<_, _>>()?);
        }
        if !cx.has_room(REST) {
            return Ok(Flow::Wait);
        }
        let Some(tile) = cx.take(TILES) else {
            return Ok(if cx.is_ended(TILES) { Flow::Done } else { Flow::Wait });
        };
        let tile = Tile::of(&tile)?;
        if tile.j != self.column {
            let (i, j) = (tile.i, tile.j);
            cx.push(REST, envelope(i, j, self.updated(&tile)?)?)?;
        }
        Ok(Flow::More)
    }
}

impl CholeskyUpdate {
    fn updated(&self, tile: &Tile) -> Result<Vec<f64>, BoxError> {
        // A panel has the tiles of its column from the diagonal down.
        let of_row = |row: usize| {
            let place = row.checked_sub(self.column);
            let found = place.and_then(|place| self.panel.as_ref()?.get(place));
            found
                .filter(|found| found.i == row && found.size == tile.size)
                .ok_or_else(|| out_of_turn(self.column, tile))
        };
        let (left, right, mut numbers) = (of_row(tile.i)?, of_row(tile.j)?, tile.numbers.to_vec());
        match tile.i == tile.j {
            true => Usual::default().square(&left.numbers, &mut numbers, tile.size),
            false => Usual::default().product(&left.numbers, &right.numbers, &mut numbers, tile.size),
        }
        Ok(numbers)
    }
}
