//! Factors of a device, compared with the reference.

use boxwork_kernels::chance::Random;
use boxwork_kernels::cholesky::reference;
use boxwork_kernels::covariance::{Expression, Points, Scratch};
use boxwork_runtime::feeding::Options;
use boxwork_runtime::feeding::faults::{Faulty, Plan, has_device};

use super::*;
use boxwork_kernels::cholesky::device::tiles;

pub(super) fn points(n: usize, dimensions: usize, seed: u64) -> Points {
    let mut random = Random::mixed(seed);
    let numbers: Vec<f64> = (0..n * dimensions).map(|_| 4.0 * random.unit()).collect();
    Points::of_rows(dimensions, &numbers)
}

/// The covariances by columns, n * n.
pub(super) fn covariances(expression: &Expression, points: &Points, added: f64) -> Vec<f64> {
    let (n, mut scratch) = (points.len(), Scratch::default());
    let mut matrix = vec![0.0; n * n];
    for (column, out) in matrix.chunks_exact_mut(n).enumerate() {
        expression.column((points, 0..n), &points.point(column), Some(column), &mut scratch, out);
        out[column] += added;
    }
    matrix
}

/// Numbers of packed tiles, by columns, with zeros above the diagonal.
fn dense<T: Number>(n: usize, packed: &[T]) -> Vec<f64> {
    let mut dense = vec![0.0; n * n];
    for column in 0..n {
        for row in column..n {
            let (i, j) = (row / TILE, column / TILE);
            let at = tiles(i) + j;
            dense[column * n + row] = packed[(at * TILE + column % TILE) * TILE + row % TILE].wide();
        }
    }
    dense
}

/// The largest difference of L L^T from a matrix, in its lower half.
pub(super) fn apart(n: usize, l: &[f64], matrix: &[f64]) -> f64 {
    let mut most = 0f64;
    for column in 0..n {
        for row in column..n {
            let sum: f64 = (0..=column).map(|p| l[p * n + row] * l[p * n + column]).sum();
            let difference = (sum - matrix[column * n + row]).abs();
            most = if difference.is_nan() { f64::INFINITY } else { most.max(difference) };
        }
    }
    most
}

pub(super) fn devices() -> Arc<Devices> {
    Devices::open(Options::default()).expect("there is a device")
}

/// A factorisation: rows, columns of a block, tiles of a buffer, devices.
struct Case {
    n: usize,
    block: usize,
    buffer_tiles: Option<usize>,
    places: usize,
    looks_ahead: bool,
    is_lent: bool,
}

impl Case {
    fn of(n: usize, block: usize) -> Self {
        Self { n, block, buffer_tiles: None, places: 1, looks_ahead: n.is_multiple_of(2), is_lent: false }
    }
}

fn check<T: DeviceNumber>(devices: &Arc<Devices>, case: &Case) {
    let Case { n, block, buffer_tiles, places, looks_ahead, is_lent } = *case;
    let expression: Expression = "2 * rbf(l=[1, 2]) + white(0.1)".parse().unwrap();
    let points = points(n, 2, n as u64);
    let expected = covariances(&expression, &points, 0.5);
    let looks_ahead = Some(looks_ahead);
    let choices = Choices { block: Some(block), looks_ahead, buffer_tiles, ..Choices::default() };
    let places: Vec<usize> = (0..places).collect();
    let mut matrix = DeviceMatrix::<T>::open(devices, &places, n, choices).unwrap();
    let len = tiles(n.div_ceil(TILE)) * TILE * TILE;
    match is_lent {
        true => matrix.lend(Packed::zeros(n.div_ceil(TILE), TILE)).unwrap(),
        false => matrix.allocate().unwrap(),
    }
    matrix.fill(&expression, &points, 0.5).unwrap();
    if !is_lent {
        // A matrix that is read and written again is the same.
        let mut packed = vec![T::ZERO; len];
        matrix.read(&mut packed).unwrap();
        matrix.write(&packed).unwrap();
    }
    matrix.factor(&|| false).unwrap();
    let bound = 2.0 * n as f64 * T::EPSILON * 2.6;
    if matrix.solves() {
        let b: Vec<f64> = (0..n).map(|at| (at as f64).sin()).collect();
        let (x, pivots) = (matrix.solve(&b).unwrap(), matrix.pivots().unwrap());
        let of_reference = reference::factor(n, &expected).unwrap();
        for row in 0..n {
            assert!((pivots[row] - of_reference[row * n + row]).abs() <= bound * 10.0, "pivot {row}");
            let sum: f64 = (0..n).map(|at| expected[at * n + row] * x[at]).sum();
            let allowed = 40.0 * bound * x.iter().map(|x| x.abs()).sum::<f64>();
            assert!((sum - b[row]).abs() <= allowed, "row {row}: {sum}, not {}", b[row]);
        }
    }
    let last = n.div_ceil(TILE) - 1;
    let of_row = (!is_lent).then(|| matrix.row_of_tiles(last).unwrap());
    let packed = match is_lent {
        true => matrix.take_back().unwrap().numbers().to_vec(),
        false => {
            let mut packed = vec![T::ZERO; len];
            matrix.read(&mut packed).unwrap();
            packed
        }
    };
    if let Some(row) = of_row {
        assert!(row == packed[tiles(last) * TILE * TILE..], "the last row");
    }
    let found = apart(n, &dense(n, &packed), &expected);
    let case = format!("{n} rows in blocks of {block}, {buffer_tiles:?} tiles a buffer, on {places:?}");
    assert!(found <= bound, "{case}: {found:e}, not {bound:e}");
}

#[test]
fn a_device_factors_a_matrix_of_any_size() {
    if !has_device("a_device_factors_a_matrix_of_any_size") {
        return;
    }
    let devices = devices();
    for (n, block) in [(1, 1), (127, 2), (128, 2), (129, 1), (300, 2), (520, 2), (520, 3)] {
        check::<f64>(&devices, &Case { is_lent: n % 2 == 0, ..Case::of(n, block) });
    }
    for (n, block) in [(1, 1), (200, 2), (300, 1)] {
        check::<f32>(&devices, &Case { is_lent: n % 2 == 1, ..Case::of(n, block) });
    }
}

#[test]
fn a_matrix_in_several_buffers_has_the_same_factor() {
    if !has_device("a_matrix_in_several_buffers_has_the_same_factor") {
        return;
    }
    let devices = devices();
    // Buffers hold one, two and four columns of 7 rows of tiles.
    for (block, buffer_tiles, looks_ahead) in [(2, 7, false), (2, 13, true), (1, 13, true), (2, 22, true)] {
        let buffer_tiles = Some(buffer_tiles);
        check::<f64>(&devices, &Case { buffer_tiles, looks_ahead, ..Case::of(800, block) });
    }
    check::<f32>(&devices, &Case { buffer_tiles: Some(4), ..Case::of(400, 2) });
}

#[test]
fn several_devices_share_a_matrix() {
    if !has_device("several_devices_share_a_matrix") {
        return;
    }
    for places in [2, 3] {
        let (_, devices) =
            Faulty::devices(Plan { appears_as: places, ..Plan::default() }, Options::default());
        let devices = devices.expect("devices");
        for (n, block, looks_ahead) in [(100, 1, true), (800, 1, true), (800, 1, false), (650, 2, true)] {
            check::<f64>(&devices, &Case { places, looks_ahead, ..Case::of(n, block) });
        }
        check::<f32>(&devices, &Case { places, ..Case::of(520, 1) });
        // A pivot is named whichever device has it.
        let choices = Choices { block: Some(1), ..Choices::default() };
        let all: Vec<usize> = (0..places).collect();
        for bad in [5, 130, 300] {
            let mut matrix = DeviceMatrix::<f64>::open(&devices, &all, 400, choices).unwrap();
            matrix.allocate().unwrap();
            matrix.write(&diagonal(4, |row| if row == bad { -1.0 } else { 4.0 })).unwrap();
            assert_eq!(matrix.factor(&|| false), Err(Unfactored::NotPositiveDefinite { row: bad }));
        }
    }
}

/// The factor of a matrix in the host's memory has the bits of one that a device has.
fn check_streamed<T: DeviceNumber>(devices: &Arc<Devices>, n: usize, block: usize, resident: usize) {
    let expression: Expression = "2 * rbf(l=[1, 2]) + white(0.1)".parse().unwrap();
    let points = points(n, 2, n as u64);
    let choices = Choices { block: Some(block), ..Choices::default() };
    let mut whole = DeviceMatrix::<T>::open(devices, &[0], n, choices).unwrap();
    whole.allocate().unwrap();
    whole.fill(&expression, &points, 0.5).unwrap();
    let len = tiles(n.div_ceil(TILE)) * TILE * TILE;
    let (mut filled, mut expected) = (vec![T::ZERO; len], vec![T::ZERO; len]);
    whole.read(&mut filled).unwrap();
    whole.factor(&|| false).unwrap();
    whole.read(&mut expected).unwrap();
    for is_filled in [false, true] {
        let choices = Choices { resident: Some(resident), ..choices };
        let mut matrix = DeviceMatrix::<T>::open(devices, &[0], n, choices).unwrap();
        assert!(matrix.is_streamed() && !matrix.solves() && !matrix.is_whole());
        let mut packed = if is_filled { filled.clone() } else { vec![T::ZERO; len] };
        let covariances = (!is_filled).then_some((&expression, &points, 0.5));
        matrix.factor_of_host(&mut packed, covariances, &|| false).unwrap();
        let case = format!("{n} rows, blocks of {block}, {resident} columns resident, filled: {is_filled}");
        assert!(dense(n, &packed) == dense(n, &expected), "{case}");
    }
}

#[test]
fn a_matrix_of_the_host_has_the_same_factor() {
    if !has_device("a_matrix_of_the_host_has_the_same_factor") {
        return;
    }
    let devices = devices();
    for (n, block, resident) in [(1, 1, 1), (400, 1, 1), (800, 2, 2), (650, 2, 5), (520, 3, 3), (300, 2, 9)] {
        check_streamed::<f64>(&devices, n, block, resident);
    }
    check_streamed::<f32>(&devices, 520, 1, 2);
    let choices = Choices { block: Some(1), resident: Some(1), ..Choices::default() };
    for bad in [5, 130, 300] {
        let mut matrix = DeviceMatrix::<f64>::open(&devices, &[0], 400, choices).unwrap();
        let mut packed = diagonal(4, |row| if row == bad { -1.0 } else { 4.0 });
        let failed = matrix.factor_of_host(&mut packed, None, &|| false);
        assert_eq!(failed, Err(Unfactored::NotPositiveDefinite { row: bad }));
        assert_eq!(matrix.factor_of_host(&mut packed, None, &|| true), Err(Unfactored::Cancelled));
    }
}

#[test]
fn a_device_has_as_many_columns_as_there_is_room_for() {
    if !has_device("a_device_has_as_many_columns_as_there_is_room_for") {
        return;
    }
    // Seven rows of tiles of 128 KiB: two panels of two columns and the inverses are 35 tiles, beside the block.
    for (tiles, expected) in
        [(35 + 13, Some(2)), (35 + 21, Some(2)), (35 + 22, Some(4)), (35 + 28, Some(7)), (40, None)]
    {
        let options = Options { memory_bytes: Some(tiles * 128 * 1024), ..Options::default() };
        let (_, devices) = Faulty::devices(Plan::default(), options);
        let found = resident::<f64>(&devices.expect("a device"), 0, 800);
        assert_eq!(found.as_ref().ok(), expected.as_ref(), "{found:?}");
    }
}

#[test]
fn sizes_that_were_fastest_are_kept_and_taken() {
    if !has_device("sizes_that_were_fastest_are_kept_and_taken") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let open = || {
        let options = Options { cache: Some(folder.path().to_owned()), ..Options::default() };
        Faulty::devices(Plan::default(), options).1.expect("a device")
    };
    let devices = open();
    let device = &devices.list()[0];
    assert_eq!(tuned::<f64>(device), []);
    for (rows, block, looks_ahead) in [(8, 3, true), (4, 4, false), (8, 1, true)] {
        keep_tuned::<f64>(device, Tuned { rows, block, looks_ahead });
    }
    let (four, eight) =
        (Tuned { rows: 4, block: 4, looks_ahead: false }, Tuned { rows: 8, block: 1, looks_ahead: true });
    // Another run finds them in the folder.
    let devices = open();
    let device = &devices.list()[0];
    assert_eq!((tuned::<f64>(device), tuned::<f32>(device)), (vec![four, eight], vec![]));
    let taken = |rows: usize, choices: Choices| {
        let matrix = DeviceMatrix::<f64>::open(&devices, &[0], rows * TILE, choices).unwrap();
        (matrix.block, matrix.looks_ahead)
    };
    assert_eq!([5, 7, 16].map(|rows| taken(rows, Choices::default())), [(4, false), (1, true), (1, true)]);
    let chosen = Choices { block: Some(2), looks_ahead: Some(false), ..Choices::default() };
    assert_eq!(taken(8, chosen), (2, false));
    check::<f64>(&devices, &Case { looks_ahead: true, ..Case::of(900, 3) });
    device.keep("factor_64", "4 0 1");
    assert_eq!(tuned::<f64>(device), []);
}

/// Packed tiles of a diagonal matrix of so many rows of tiles.
fn diagonal(rows: usize, entry: impl Fn(usize) -> f64) -> Vec<f64> {
    let mut packed = vec![0.0; tiles(rows) * TILE * TILE];
    for row in 0..rows * TILE {
        let at = tiles(row / TILE) + row / TILE;
        packed[(at * TILE + row % TILE) * TILE + row % TILE] = entry(row);
    }
    packed
}

#[test]
fn a_device_has_every_covariance() {
    if !has_device("a_device_has_every_covariance") {
        return;
    }
    let texts = [
        "rbf(l=[1, 2, 3]) + white(0.3)",
        "3 * matern12(l=2)",
        "matern32(l=2, v=4) * rbf()",
        "matern52() + 2",
        "rational_quadratic(l=2, c=3)",
        "periodic(p=[2, 3, 4], l=[1, 2, 3]) + linear(v=0.5)",
        "(rbf() + white(0.1)) * (2 + periodic(p=3, l=2))",
    ];
    let (devices, n) = (devices(), 140);
    let points = points(n, 3, 7);
    for text in texts {
        let expression: Expression = text.parse().unwrap();
        let expected = covariances(&expression, &points, 0.25);
        let mut matrix = DeviceMatrix::<f64>::open(&devices, &[0], n, Choices::default()).unwrap();
        matrix.allocate().unwrap();
        matrix.fill(&expression, &points, 0.25).unwrap();
        let mut packed = vec![0.0; tiles(2) * TILE * TILE];
        matrix.read(&mut packed).unwrap();
        let found = dense(n, &packed);
        let most = expected.iter().fold(0f64, |most, x| most.max(x.abs()));
        for column in 0..n {
            for row in column..n {
                let (x, y) = (found[column * n + row], expected[column * n + row]);
                assert!(
                    (x - y).abs() <= 16.0 * f64::EPSILON * most,
                    "{text}: ({row}, {column}) is {x}, not {y}"
                );
            }
        }
        // The rows behind the last are those of the identity.
        assert_eq!(packed[(2 * TILE + 12) * TILE + 12], 1.0, "{text}");
    }
}

#[test]
fn a_pivot_that_fails_is_named() {
    if !has_device("a_pivot_that_fails_is_named") {
        return;
    }
    let (devices, n) = (devices(), 300);
    for bad in [0, 5, 127, 128, 250, 299] {
        let mut matrix = DeviceMatrix::<f64>::open(&devices, &[0], n, Choices::default()).unwrap();
        matrix.allocate().unwrap();
        matrix.write(&diagonal(3, |row| if row == bad { -1.0 } else { 4.0 })).unwrap();
        assert_eq!(matrix.factor(&|| false), Err(Unfactored::NotPositiveDefinite { row: bad }));
    }
}

#[test]
fn memory_that_is_lent_is_not_copied() {
    if !has_device("memory_that_is_lent_is_not_copied") {
        return;
    }
    let (devices, n) = (devices(), 400usize);
    let rows = n.div_ceil(TILE);
    let mut memory = Packed::<f64>::zeros(rows, TILE);
    let packed = memory.numbers_mut();
    for row in 0..rows * TILE {
        let at = tiles(row / TILE) + row / TILE;
        packed[(at * TILE + row % TILE) * TILE + row % TILE] = 9.0;
    }
    let address = packed.as_ptr();
    let mut matrix = DeviceMatrix::<f64>::open(&devices, &[0], n, Choices::default()).unwrap();
    matrix.lend(memory).unwrap();
    matrix.factor(&|| false).unwrap();
    let memory = matrix.take_back().unwrap();
    let packed = memory.numbers();
    assert_eq!((packed.as_ptr(), packed[0], packed[TILE + 1]), (address, 3.0, 3.0));
    let done = matrix.direct().statistics();
    // The mark of a failed pivot comes back, and the tiles do.
    assert_eq!((done.copied_bytes, done.maps, done.unmaps), (0, 2, 2));
    assert!(done.launches as usize <= 5 * rows, "{done:?}");
}

#[test]
fn a_cancelled_factorisation_ends() {
    if !has_device("a_cancelled_factorisation_ends") {
        return;
    }
    let mut matrix = DeviceMatrix::<f32>::open(&devices(), &[0], 200, Choices::default()).unwrap();
    matrix.allocate().unwrap();
    matrix.write(&vec![0.0; tiles(2) * TILE * TILE]).unwrap();
    assert_eq!(matrix.factor(&|| true), Err(Unfactored::Cancelled));
}

#[test]
fn an_inverse_takes_the_place_of_the_factor() {
    if !has_device("an_inverse_takes_the_place_of_the_factor") {
        return;
    }
    let expression: Expression = "2 * rbf(l=[1, 2]) + white(0.1)".parse().unwrap();
    let devices = devices();
    for (n, block) in [(1, 1), (300, 1), (520, 2)] {
        let points = points(n, 2, n as u64);
        let matrix_of = covariances(&expression, &points, 0.5);
        let choices = Choices { block: Some(block), ..Choices::default() };
        let mut matrix = DeviceMatrix::<f64>::open(&devices, &[0], n, choices).unwrap();
        matrix.allocate().unwrap();
        matrix.fill(&expression, &points, 0.5).unwrap();
        matrix.factor(&|| false).unwrap();
        matrix.invert().unwrap();
        let mut packed = vec![0.0; tiles(n.div_ceil(TILE)) * TILE * TILE];
        matrix.read(&mut packed).unwrap();
        let lower = dense(n, &packed);
        let inverse = |row: usize, column: usize| lower[row.min(column) * n + row.max(column)];
        for row in (0..n).step_by(7) {
            for column in 0..n {
                let sum: f64 = (0..n).map(|at| matrix_of[at * n + row] * inverse(at, column)).sum();
                let is_one = f64::from(row == column);
                assert!((sum - is_one).abs() < 1e-10, "{n} rows: ({row}, {column}) is {sum}");
            }
        }
    }
}
