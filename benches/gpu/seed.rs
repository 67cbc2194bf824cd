//! `what=seed`: one triangular solve by a launch a column, as the study did with which Boxwork's regression began, beside the tiled solve.
//!
//! The study (Edinburgh 2017) was of 23 to 958 times the time of its processor, and spent most of it between launches. Its variants: rows
//! or columns of the matrix one after the other, 1, 4 or 8 numbers an item, and the vector mapped or copied at each step.

use std::sync::Arc;
use std::time::Instant;

use boxwork_kernels::chance::Random;
use boxwork_kernels::covariance::{Expression, Points};
use boxwork_operators::factor::{Choices, DeviceMatrix};
use boxwork_runtime::feeding::{
    Argument, Devices, Direct, DirectStatistics, Grid, KernelSpec, ProgramSource, Value,
};

use super::support::{Arguments, Spread, verdict};

/// The sizes of the study.
const SIZES: [usize; 7] = [32, 64, 96, 128, 512, 1024, 4096];
/// The least ratio of the loop to the tiled solve at the largest size.
const WANTED: f64 = 50.0;
const GROUP: usize = 64;

/// Column `c` of the solve: its unknown, and what the rows below lose.
const TEXT: &str = "\
#ifdef BY_COLUMNS
#define ENTRY(r, c) matrix[(ulong)(c) * n + (r)]
#else
#define ENTRY(r, c) matrix[(ulong)(r) * n + (c)]
#endif
__kernel void column(__global const float *matrix, __global float *right, __global float *solved, uint n, uint c) {
    const float x = right[c] / ENTRY(c, c);
    const uint item = get_global_id(0);
    if (item == 0) {
        solved[c] = x;
    }
    for (uint w = 0; w < WIDTH; w++) {
        const uint row = c + 1 + item * WIDTH + w;
        if (row < n) {
            right[row] -= ENTRY(row, c) * x;
        }
    }
}
";

static STEP: [KernelSpec; 1] = [KernelSpec {
    name: "column",
    arguments: &[
        ("matrix", Argument::Buffer),
        ("right", Argument::Buffer),
        ("solved", Argument::Buffer),
        ("n", Argument::Value(4)),
        ("c", Argument::Value(4)),
    ],
}];

/// The way of the vector between two launches.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Between {
    /// It stays on the device.
    Nothing,
    Map,
    Copy,
}

/// A variant of the loop.
#[derive(Clone, Copy)]
struct Variant {
    name: &'static str,
    by_columns: bool,
    width: usize,
    between: Between,
}

const VARIANTS: [Variant; 6] = [
    Variant { name: "rows, map", by_columns: false, width: 1, between: Between::Map },
    Variant { name: "columns, map", by_columns: true, width: 1, between: Between::Map },
    Variant { name: "columns, copy", by_columns: true, width: 1, between: Between::Copy },
    Variant { name: "columns", by_columns: true, width: 1, between: Between::Nothing },
    Variant { name: "columns, 4 wide", by_columns: true, width: 4, between: Between::Nothing },
    Variant { name: "columns, 8 wide", by_columns: true, width: 8, between: Between::Nothing },
];

pub(super) fn run(arguments: &Arguments, devices: &Arc<Devices>, device: usize) {
    let rounds = arguments.get("rounds", 3usize);
    let sizes: Vec<usize> = match arguments.text("n") {
        Some(text) => text.split(',').map(|n| n.parse().expect("n is a list of whole numbers")).collect(),
        None => SIZES.to_vec(),
    };
    println!("question    what does one triangular solve cost, by a launch a column and by tiles?");
    println!(
        "unit        us, f32, median of {rounds} rounds, the answer checked; shares are of the commands' time"
    );
    for n in sizes {
        let (matrix, b) = problem(n);
        let expected = solved(n, &matrix, &b);
        let mut loops = Vec::new();
        for variant in VARIANTS {
            let (us, done) = time(devices, device, (n, &matrix, &b), variant, rounds, &expected);
            let all =
                (done.queued_ns + done.submitted_ns + done.running_ns + done.map_ns).max(1) as f64 / 100.0;
            println!(
                "{n:>6} {:>16} {us:>12.0} us   queued {:.0} %, submitted {:.0} %, running {:.0} %, maps {:.0} %; {} bytes copied",
                variant.name,
                done.queued_ns as f64 / all,
                done.submitted_ns as f64 / all,
                done.running_ns as f64 / all,
                done.map_ns as f64 / all,
                done.copied_bytes
            );
            loops.push(us);
        }
        let tiled = by_tiles(devices, device, n, rounds);
        let (least, first) = (loops.iter().copied().fold(f64::INFINITY, f64::min), loops[0]);
        println!(
            "{n:>6} {:>16} {tiled:>12.0} us   both triangles, vectors there and back: {:.1} times faster than the best loop, {:.1} than the first",
            "tiles",
            least / tiled,
            first / tiled
        );
        if n == SIZES[SIZES.len() - 1] {
            verdict("first loop over tiles", first / tiled, WANTED, first / tiled >= WANTED);
        }
    }
}

/// A lower triangle by columns, well conditioned, and a right side.
fn problem(n: usize) -> (Vec<f32>, Vec<f32>) {
    let mut random = Random::mixed(n as u64);
    let mut matrix = vec![0f32; n * n];
    for column in 0..n {
        for row in column..n {
            let x = (random.unit() - 0.5) as f32 / n as f32;
            matrix[column * n + row] = if row == column { 1.0 + x } else { x };
        }
    }
    (matrix, (0..n).map(|_| random.unit() as f32).collect())
}

fn solved(n: usize, matrix: &[f32], b: &[f32]) -> Vec<f64> {
    let mut x: Vec<f64> = b.iter().map(|x| f64::from(*x)).collect();
    for column in 0..n {
        x[column] /= f64::from(matrix[column * n + column]);
        for row in column + 1..n {
            x[row] -= f64::from(matrix[column * n + row]) * x[column];
        }
    }
    x
}

/// The median of the microseconds of a variant, and the commands of its last round.
fn time(
    devices: &Arc<Devices>,
    device: usize,
    (n, matrix, b): (usize, &[f32], &[f32]),
    variant: Variant,
    rounds: usize,
    expected: &[f64],
) -> (f64, DirectStatistics) {
    let mut constants = vec![("WIDTH", variant.width.to_string())];
    if variant.by_columns {
        constants.push(("BY_COLUMNS", "1".to_owned()));
    }
    let program = ProgramSource { name: "seed", text: TEXT, constants, kernels: &STEP, exact: true };
    let given = match variant.by_columns {
        true => matrix.to_vec(),
        false => (0..n * n).map(|at| matrix[at % n * n + at / n]).collect(),
    };
    let (mut us, mut done) = (Vec::new(), DirectStatistics::default());
    for round in 0..=rounds {
        let mut direct = Direct::open(devices, device).expect("a queue");
        direct.allocate::<f32>("matrix", n * n).expect("room");
        direct.write("matrix", 0, &given).expect("written");
        direct.allocate::<f32>("solved", n).expect("room");
        let mut right = b.to_vec();
        if variant.between == Between::Map {
            direct.give("right", right.clone(), 0..n).expect("lent");
        } else {
            direct.allocate::<f32>("right", n).expect("room");
            direct.write("right", 0, &right).expect("written");
        }
        direct.wait(0).expect("there");
        let (before, begun) = (direct.statistics(), Instant::now());
        for c in 0..n {
            let values = [("n", Value::of(n as u32)), ("c", Value::of(c as u32))];
            let items = (n - c).div_ceil(variant.width);
            direct.launch(&program, "column", Grid::covering([items], [GROUP]), &values).expect("launched");
            match variant.between {
                Between::Nothing => {}
                Between::Map => {
                    let back = direct.take_back::<f32>("right").expect("back");
                    direct.give("right", back, 0..n).expect("lent");
                }
                Between::Copy => {
                    direct.read("right", 0, &mut right).expect("read");
                    direct.write("right", 0, &right).expect("written");
                }
            }
        }
        direct.wait(0).expect("solved");
        let taken = 1e6 * begun.elapsed().as_secs_f64();
        done = direct.statistics();
        done.copied_bytes -= before.copied_bytes;
        let mut found = vec![0f32; n];
        direct.read("solved", 0, &mut found).expect("read");
        for (at, (x, y)) in found.iter().zip(expected).enumerate() {
            assert!(
                (f64::from(*x) - y).abs() < 1e-4 * (1.0 + y.abs()),
                "{}: {at}: {x}, not {y}",
                variant.name
            );
        }
        // The first round compiles.
        if round > 0 {
            us.push(taken);
        }
    }
    (Spread::of(us).median, done)
}

/// The microseconds of a solve with a factor by tiles: both triangles, the vector there and back.
fn by_tiles(devices: &Arc<Devices>, device: usize, n: usize, rounds: usize) -> f64 {
    let mut random = Random::mixed(1);
    let numbers: Vec<f64> = (0..n).map(|_| n as f64 * random.unit()).collect();
    let points = Points::of_rows(1, &numbers);
    let expression: Expression = "rbf() + white(0.1)".parse().expect("a covariance");
    let mut matrix = DeviceMatrix::<f32>::open(devices, &[device], n, Choices::default()).expect("a matrix");
    matrix.allocate().expect("room");
    matrix.fill(&expression, &points, 1.0).expect("filled");
    matrix.factor(&|| false).expect("a factor");
    let b = vec![1.0; n];
    let us = (0..=rounds).map(|_| {
        let begun = Instant::now();
        matrix.solve(&b).expect("solved");
        1e6 * begun.elapsed().as_secs_f64()
    });
    let us: Vec<f64> = us.collect();
    Spread::of(us[1..].iter().copied()).median
}
