//! Tiles of a matrix: a Cholesky factorisation, each tile a resident, each step a block. All blocks are submitted in
//! the order of plain code; the tiles that they read and write decide which may overlap.

use std::sync::Arc;

use boxwork_runtime::feeding::faults::has_device;
use boxwork_runtime::feeding::{
    Access, Argument, Back, Block, DeviceError, Devices, Feed, Grid, KernelSpec, ProgramSource, Resident,
    Value,
};

use super::{Random, Station, on_all_devices};

/// Rows of a tile, and tiles of a row.
const ROWS: usize = 8;
const TILES: usize = 4;
const GROUP: usize = 4;

const TEXT: &str = "\
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#pragma OPENCL FP_CONTRACT OFF
// The factor of a tile on the diagonal, in place.
__kernel void factor(__global double *tile) {
    for (uint j = 0; j < ROWS; ++j) {
        for (uint k = 0; k < j; ++k) tile[j * ROWS + j] -= tile[j * ROWS + k] * tile[j * ROWS + k];
        tile[j * ROWS + j] = sqrt(tile[j * ROWS + j]);
        for (uint i = j + 1; i < ROWS; ++i) {
            for (uint k = 0; k < j; ++k) tile[i * ROWS + j] -= tile[i * ROWS + k] * tile[j * ROWS + k];
            tile[i * ROWS + j] /= tile[j * ROWS + j];
            tile[j * ROWS + i] = 0.0;
        }
    }
}
// A tile below the diagonal: a row for each work item.
__kernel void solve(__global const double *diagonal, __global double *tile) {
    __global double *row = tile + get_global_id(0) * ROWS;
    for (uint j = 0; j < ROWS; ++j) {
        for (uint k = 0; k < j; ++k) row[j] -= row[k] * diagonal[j * ROWS + k];
        row[j] /= diagonal[j * ROWS + j];
    }
}
// tile += alpha * left * transposed right: an element for each work item.
__kernel void update(__global const double *left, __global const double *right, double alpha, __global double *tile) {
    const uint row = get_global_id(1);
    const uint column = get_global_id(0);
    double sum = 0.0;
    for (uint k = 0; k < ROWS; ++k) sum += left[row * ROWS + k] * right[column * ROWS + k];
    tile[row * ROWS + column] += alpha * sum;
}
";

fn program() -> ProgramSource {
    const KERNELS: &[KernelSpec] = &[
        KernelSpec { name: "factor", arguments: &[("tile", Argument::Buffer)] },
        KernelSpec {
            name: "solve",
            arguments: &[("diagonal", Argument::Buffer), ("tile", Argument::Buffer)],
        },
        KernelSpec {
            name: "update",
            arguments: &[
                ("left", Argument::Buffer),
                ("right", Argument::Buffer),
                ("alpha", Argument::Value(8)),
                ("tile", Argument::Buffer),
            ],
        },
    ];
    let constants = vec![("ROWS", ROWS.to_string())];
    ProgramSource { name: "tiles", text: TEXT, constants, kernels: KERNELS, exact: true }
}

type Tile = Vec<f64>;
type OnDevice = Resident<f64>;

enum Step {
    Send(OnDevice, Tile),
    Factor(OnDevice),
    Solve { diagonal: OnDevice, tile: OnDevice },
    Update { left: OnDevice, right: OnDevice, tile: OnDevice },
    Bring(OnDevice, Tile),
}

impl Block for Step {
    fn size(&self) -> u64 {
        1
    }

    fn residents(&self) -> Vec<Access> {
        match self {
            Self::Send(tile, _) | Self::Factor(tile) => vec![tile.writes()],
            Self::Solve { diagonal, tile } => vec![diagonal.reads(), tile.writes()],
            Self::Update { left, right, tile } => vec![left.reads(), right.reads(), tile.writes()],
            Self::Bring(tile, _) => vec![tile.reads()],
        }
    }

    fn feed(&mut self, feed: &mut Feed<'_>) -> Result<(), DeviceError> {
        match self {
            Self::Send(tile, numbers) => feed.write_resident("tile", tile, |to| {
                to.copy_from_slice(numbers);
                Ok(())
            }),
            Self::Factor(tile) => {
                feed.resident("tile", tile)?;
                feed.launch(&program(), "factor", Grid::of([1], [1]), &[])
            }
            Self::Solve { diagonal, tile } => {
                feed.resident("diagonal", diagonal)?;
                feed.resident("tile", tile)?;
                feed.launch(&program(), "solve", Grid::of([ROWS / GROUP], [GROUP]), &[])
            }
            Self::Update { left, right, tile } => {
                feed.resident("left", left)?;
                feed.resident("right", right)?;
                feed.resident("tile", tile)?;
                let grid = Grid::of([ROWS / GROUP; 2], [GROUP; 2]);
                feed.launch(&program(), "update", grid, &[("alpha", Value::of(-1f64))])
            }
            Self::Bring(tile, _) => {
                feed.resident("tile", tile)?;
                feed.read::<f64>("tile", ROWS * ROWS)
            }
        }
    }

    fn collect(&mut self, back: &Back<'_>) {
        if let Self::Bring(_, numbers) = self {
            *numbers = back.numbers("tile").to_vec();
        }
    }
}

/// The tiles on and below the diagonal of a matrix that has a factor, row by row.
fn matrix() -> Vec<Vec<Tile>> {
    let (mut random, all) = (Random(3), ROWS * TILES);
    let square: Vec<f64> = (0..all * all).map(|_| random.number()).collect();
    let element = |row: usize, column: usize| {
        let product = (0..all).map(|k| square[row * all + k] * square[column * all + k]);
        product.sum::<f64>() + if row == column { 1.0 } else { 0.0 }
    };
    let tile = |i: usize, j: usize| {
        (0..ROWS * ROWS).map(|at| element(i * ROWS + at / ROWS, j * ROWS + at % ROWS)).collect()
    };
    (0..TILES).map(|i| (0..=i).map(|j| tile(i, j)).collect()).collect()
}

fn factor(tile: &mut [f64]) {
    for j in 0..ROWS {
        for k in 0..j {
            tile[j * ROWS + j] -= tile[j * ROWS + k] * tile[j * ROWS + k];
        }
        tile[j * ROWS + j] = tile[j * ROWS + j].sqrt();
        for i in j + 1..ROWS {
            for k in 0..j {
                tile[i * ROWS + j] -= tile[i * ROWS + k] * tile[j * ROWS + k];
            }
            tile[i * ROWS + j] /= tile[j * ROWS + j];
            tile[j * ROWS + i] = 0.0;
        }
    }
}

fn solve(diagonal: &[f64], tile: &mut [f64]) {
    for row in tile.chunks_exact_mut(ROWS) {
        for j in 0..ROWS {
            for k in 0..j {
                row[j] -= row[k] * diagonal[j * ROWS + k];
            }
            row[j] /= diagonal[j * ROWS + j];
        }
    }
}

fn update(left: &[f64], right: &[f64], tile: &mut [f64]) {
    for at in 0..ROWS * ROWS {
        let (left, right) = (&left[at / ROWS * ROWS..][..ROWS], &right[at % ROWS * ROWS..][..ROWS]);
        let sum = left.iter().zip(right).fold(0.0, |sum, (x, y)| sum + x * y);
        tile[at] -= sum;
    }
}

/// The factor, by plain code.
fn cholesky(mut tiles: Vec<Vec<Tile>>) -> Vec<Vec<Tile>> {
    for k in 0..TILES {
        factor(&mut tiles[k][k]);
        let diagonal = tiles[k][k].clone();
        tiles[k + 1..].iter_mut().for_each(|row| solve(&diagonal, &mut row[k]));
        for i in k + 1..TILES {
            for j in k + 1..=i {
                let (left, right) = (tiles[i][k].clone(), tiles[j][k].clone());
                update(&left, &right, &mut tiles[i][j]);
            }
        }
    }
    tiles
}

/// The factor by one device; nothing if the device failed.
fn on_device(station: &mut Station<Step>, device: usize, tiles: &[Vec<Tile>]) -> Option<Vec<Vec<Tile>>> {
    let resident = |tile: &Tile| station.blocks.resident::<f64>(device, tile.len());
    let there: Vec<Vec<OnDevice>> = tiles.iter().map(|row| row.iter().map(resident).collect()).collect();
    let at = |i: usize, j: usize| there[i][j].clone();
    for (i, row) in tiles.iter().enumerate() {
        row.iter().enumerate().for_each(|(j, tile)| station.submit(Step::Send(at(i, j), tile.clone())));
    }
    for k in 0..TILES {
        station.submit(Step::Factor(at(k, k)));
        (k + 1..TILES).for_each(|i| station.submit(Step::Solve { diagonal: at(k, k), tile: at(i, k) }));
        for i in k + 1..TILES {
            for j in k + 1..=i {
                station.submit(Step::Update { left: at(i, k), right: at(j, k), tile: at(i, j) });
            }
        }
    }
    for (i, row) in tiles.iter().enumerate() {
        (0..row.len()).for_each(|j| station.submit(Step::Bring(at(i, j), Vec::new())));
    }
    let mut found: Vec<Vec<Tile>> = tiles.iter().map(|row| vec![Vec::new(); row.len()]).collect();
    for (step, result) in station.take_all() {
        match (step, result) {
            (_, Err(error)) => assert!(error.is_of_device(), "{error}"),
            (Step::Bring(tile, numbers), Ok(())) => {
                let is_it = |known: &OnDevice| known.is_same(&tile);
                let place =
                    there.iter().enumerate().find_map(|(i, row)| Some((i, row.iter().position(is_it)?)));
                let (i, j) = place.expect("it is one of the tiles");
                found[i][j] = numbers;
            }
            _ => {}
        }
    }
    found.iter().flatten().all(|tile| !tile.is_empty()).then_some(found)
}

#[test]
fn tiles_of_a_matrix_are_factored_in_the_order_of_their_dependences() {
    if !has_device("tiles_of_a_matrix_are_factored_in_the_order_of_their_dependences") {
        return;
    }
    let tiles = matrix();
    let expected = cholesky(tiles.clone());
    // It is a factor: its product with itself is the matrix.
    for (i, j) in [(0, 0), (2, 1), (3, 3)] {
        let mut rest = tiles[i][j].clone();
        (0..=j).for_each(|k| update(&expected[i][k], &expected[j][k], &mut rest));
        assert!(rest.iter().all(|x| x.abs() < 1e-9), "{rest:?}");
    }
    on_all_devices(|devices: &Arc<Devices>, works| {
        let mut station = Station::new(devices);
        let mut found = None;
        for _ in 0..3 {
            let Some(device) = station.blocks.roomiest() else { break };
            found = on_device(&mut station, device, &tiles);
            if found.is_some() {
                break;
            }
        }
        assert!(found.is_some() || !works, "no device has given an answer");
        assert_eq!(found.unwrap_or_else(|| cholesky(tiles.clone())), expected);
    });
}
