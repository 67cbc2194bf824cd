//! `cholesky_graph`: the factor of a matrix of covariances by a graph of tasks, within one box, or on devices, perhaps together with slots.

use std::sync::Arc;

use boxwork_kernels::cholesky::device::{TILE, tiles as count};
use boxwork_kernels::cholesky::{Factorisation, NotPositiveDefinite, TiledMatrix, Usual};
use boxwork_runtime::feeding::Devices;
use boxwork_runtime::operator::{Bind, BoxError, Context, Flow, Kind, Operator, OperatorSpec, Out, Pushed};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};

use super::run;
use super::tiles::{MATRIX, Matrix, envelope};
use crate::columns;
use crate::devices::code_path::of_device;
use crate::devices::factor::{
    Choices, DEVICE_SLOTS, DeviceMatrix, Slots, Unfactored, fits, fits_with_slots, resident, share,
};
use crate::pieces::side_by_side;

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
/// Those of `covariance_tiles`. `device`: where the factor is made; several devices share it. `device_slots`: whether slots take some of the
/// columns. The factor of a device differs by rounding.
pub static CHOLESKY_GRAPH: OperatorSpec = OperatorSpec {
    parameters: &PARAMETERS,
    outputs: &[FACTOR],
    example: "factor: {kind: cholesky_graph, rows: 512, tile: 64}",
    code_path: Some(|arguments, devices| of_device(arguments, devices, 0)),
    ..OperatorSpec::new(
        "cholesky_graph",
        "Factors a matrix of covariances by a graph of tasks.",
        Kind::Stateful,
        make,
    )
};

static PARAMETERS: [Parameter; 6] = {
    let [rows, tile, kernel, seed] = MATRIX;
    let device = Parameter::new(
        "device",
        ParameterType::Device,
        Default::Text("cpu"),
        "where the factor is made: cpu, auto (on GPUs), gpu, or gpu: and device numbers",
    );
    [rows, tile, kernel, seed, device, DEVICE_SLOTS]
};

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    let devices = bind.pick_devices("device", None, 0)?.devices;
    let devices = devices.map(|(devices, allowed)| (devices, allowed.to_vec()));
    let (matrix, slots) = (Matrix::new(bind)?, Slots::of(bind));
    Ok(Box::new(CholeskyGraph { matrix, devices, slots, factor: None, sent: 0 }))
}

struct CholeskyGraph {
    matrix: Matrix,
    /// The devices, and the numbers of those that make the factor.
    devices: Option<(Arc<Devices>, Vec<usize>)>,
    /// The slots that may take columns from devices.
    slots: Slots,
    factor: Option<TiledMatrix>,
    sent: usize,
}

impl CholeskyGraph {
    /// The factor by slots.
    fn by_graph(&self, cx: &mut Context<'_>) -> Result<TiledMatrix, BoxError> {
        let (matrix, size) = (&self.matrix, self.matrix.size);
        let factor = TiledMatrix::zeros(matrix.points.len(), size);
        let fill = |i: usize, j: usize, tile: &mut [f64]| {
            matrix.expression.tile(&matrix.points, size, (i, j), 0.0, tile);
        };
        let work = Some(cx.work());
        cx.inside(|inside| run(inside, &Factorisation::filled(&factor, Usual::default(), &fill), work))?;
        Ok(factor)
    }

    /// The factor by devices, or by devices and slots, and a note.
    fn by_devices(
        &self,
        (devices, places): (&Arc<Devices>, &[usize]),
        cx: &mut Context<'_>,
    ) -> Result<(TiledMatrix, String), Unfactored> {
        let (n, expression, points) =
            (self.matrix.points.len(), &self.matrix.expression, &self.matrix.points);
        let resident = match fits::<f64>(devices, places, n, 1) {
            Ok(()) => None,
            // It stays in the host's memory.
            Err(_) => resident::<f64>(devices, places[0], n).ok(),
        };
        let places = if resident.is_some() { &places[..1] } else { places };
        let has_room = resident.is_none() && fits_with_slots::<f64>(devices, places, n).is_ok();
        let slots = if has_room { share::<f64>(devices, places, n, self.slots) } else { 0 };
        let choices = Choices { resident, slots, ..Choices::default() };
        let mut matrix = DeviceMatrix::<f64>::open(devices, places, n, choices)?;
        if matrix.is_with_slots() {
            let tiles = TiledMatrix::zeros(n, TILE);
            let mut slots = |count: usize, f: &(dyn Fn(usize) + Sync)| side_by_side(cx, count, f);
            matrix.factor_with_slots(&tiles, Some((expression, points, 0.0)), &mut slots)?;
            let columns = matrix.columns_of_slots();
            let made = format!("{}, slots took {columns} of {n} columns", matrix.statistics());
            let entry = |row: usize, column: usize| {
                tiles.read(row / TILE, column / TILE)[column % TILE * TILE + row % TILE]
            };
            return Ok((TiledMatrix::new(n, self.matrix.size, entry), made));
        }
        let (cancelled, mut packed) = (cx.cancelled(), vec![0.0; count(n.div_ceil(TILE)) * TILE * TILE]);
        if matrix.is_streamed() {
            matrix.factor_of_host(&mut packed, Some((expression, points, 0.0)), &cancelled)?;
        } else {
            matrix.allocate()?;
            matrix.fill(expression, points, 0.0)?;
            matrix.factor(&cancelled)?;
            matrix.read(&mut packed)?;
        }
        let entry = |row: usize, column: usize| {
            let tile = count(row / TILE) + column / TILE;
            packed[(tile * TILE + column % TILE) * TILE + row % TILE]
        };
        let factor = TiledMatrix::new(n, self.matrix.size, entry);
        Ok((factor, matrix.statistics().to_string()))
    }

    fn make(&self, cx: &mut Context<'_>) -> Result<TiledMatrix, BoxError> {
        let Some((devices, places)) = &self.devices else { return self.by_graph(cx) };
        let n = self.matrix.points.len();
        let fits = fits::<f64>(devices, places, n, 1);
        if let Err(reason) = fits.or_else(|_| resident::<f64>(devices, places[0], n).map(|_| ())) {
            cx.note(format!("{reason}: slots made the factor"));
            return self.by_graph(cx);
        }
        match self.by_devices((devices, places), cx) {
            Ok((factor, done)) => {
                cx.note(format!("devices {places:?}: {done}"));
                Ok(factor)
            }
            Err(Unfactored::NotPositiveDefinite { row }) => Err(NotPositiveDefinite { row }.into()),
            Err(Unfactored::Cancelled) => Err(BoxError::new("the factorisation was cancelled")),
            Err(Unfactored::Device(error)) => {
                cx.note(format!("devices {places:?} failed, {error}: slots made the factor"));
                self.by_graph(cx)
            }
        }
    }
}

impl Operator for CholeskyGraph {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        let Some(factor) = &self.factor else {
            self.factor = Some(self.make(cx)?);
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

#[cfg(test)]
mod tests {
    use boxwork_runtime::feeding::Options;
    use boxwork_runtime::feeding::faults::{Faulty, Plan, has_device};
    use boxwork_runtime::harness::Harness;

    use super::super::tiles::Tile;
    use super::*;
    use crate::devices::factor::DeviceSlots;

    /// The tiles of a factor, and the notes.
    fn factor(
        devices: Option<(Arc<Devices>, Vec<usize>)>,
        slots: Slots,
        rows: usize,
        size: usize,
    ) -> (Vec<Tile>, Vec<String>) {
        let matrix = Matrix::of("rbf() + white(0.1)".parse().expect("a covariance"), rows, size, 1);
        let graph = CholeskyGraph { matrix, devices, slots, factor: None, sent: 0 };
        let mut harness = Harness::of(&CHOLESKY_GRAPH, Box::new(graph));
        let mut tiles = Vec::new();
        while !harness.is_done() {
            harness.run().expect("a factor");
            tiles.extend(harness.taken(FACTOR).iter().map(|tile| Tile::of(tile).expect("a tile")));
        }
        (tiles, harness.notes().to_vec())
    }

    /// Compares the factor of these devices, perhaps with slots, with that of the graph.
    fn check(plan: Plan, options: Options, slots: Slots, (rows, size): (usize, usize), note: &str) {
        let (_, devices) = Faulty::devices(plan, options);
        let devices = devices.expect("devices");
        if slots.choice == DeviceSlots::Always {
            devices.list().iter().for_each(|device| device.keep("products_64", "1000 1000"));
        }
        let places = (0..devices.list().len()).collect();
        let (found, notes) = factor(Some((devices, places)), slots, rows, size);
        let (expected, _) = factor(None, slots, rows, size);
        assert!(notes[0].contains(note), "{notes:?}");
        assert_eq!(found.len(), expected.len());
        for (found, expected) in found.iter().zip(&expected) {
            assert_eq!((found.i, found.j, found.size), (expected.i, expected.j, expected.size));
            for (at, (a, b)) in found.numbers.iter().zip(expected.numbers.iter()).enumerate() {
                // The upper half of a diagonal tile is not read.
                let is_upper = found.i == found.j && at % size < at / size;
                assert!(is_upper || (a - b).abs() < 1e-12, "tile ({}, {}): {a}, not {b}", found.i, found.j);
            }
        }
    }

    #[test]
    fn devices_make_the_factor_of_the_graph_or_leave_it_to_slots() {
        if !has_device("devices_make_the_factor_of_the_graph_or_leave_it_to_slots") {
            return;
        }
        let check = |plan, options, case, note| check(plan, options, Slots::default(), case, note);
        check(Plan::default(), Options::default(), (300, 64), "launches");
        check(Plan { appears_as: 2, ..Plan::default() }, Options::default(), (300, 100), "devices [0, 1]");
        check(
            Plan { call: 40, for_good: true, ..Plan::default() },
            Options::default(),
            (300, 128),
            "slots made the factor",
        );
        let small = Options { memory_bytes: Some(400_000), ..Options::default() };
        check(Plan::default(), small, (300, 64), "has room for");
        // 104 tiles of 128 KiB have no room, two of 13 columns with panels and inverses have.
        let tight = Options { memory_bytes: Some(96 * 128 * 1024), ..Options::default() };
        check(Plan::default(), tight, (1600, 256), "launches");
    }

    #[test]
    fn devices_and_slots_share_the_factor_of_the_graph() {
        if !has_device("devices_and_slots_share_the_factor_of_the_graph") {
            return;
        }
        // A slot has the rate of a device; blocks have two columns of tiles.
        for (appears_as, count, rows, note) in [
            (1, 1, 1000, "slots took 512 of 1000 columns"),
            (1, 1, 700, "slots took 444 of 700 columns"),
            (2, 2, 1024, "slots took 512 of 1024 columns"),
            (1, 0, 300, "launches"),
        ] {
            let options = Options { cache: None, ..Options::default() };
            let slots = Slots { choice: DeviceSlots::Always, count };
            check(Plan { appears_as, ..Plan::default() }, options, slots, (rows, 100), note);
        }
    }
}
