//! `what=dense`, `what=cholesky` and `what=tune`: products of matrices and Cholesky factors on a device, or a factor on several.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use boxwork_kernels::chance::Random;
use boxwork_kernels::cholesky::Packed;
use boxwork_kernels::cholesky::device::{ITEMS, TILE, Units, tiles};
use boxwork_kernels::covariance::{Expression, Points, Scratch};
use boxwork_operators::device_kernels::factor_program;
use boxwork_operators::factor::{Choices, DeviceMatrix, DeviceNumber, Tuned, fits, keep_tuned};
use boxwork_runtime::feeding::{DeviceClass, DeviceError, Devices, Direct, Grid, Value};

use super::support::peer::Peer;
use super::support::{Arguments, Spread, verdict};

/// The covariance of the points, and what is added to its diagonal.
pub(super) const KERNEL: &str = "2 * rbf()";
pub(super) const ADDED: f64 = 0.1;
/// Numbers of a point.
pub(super) const DIMENSIONS: usize = 2;
/// Entries of a product, or of a tile of L L^T, that are compared.
pub(super) const COMPARED: usize = 64;

pub(super) struct World<'a> {
    pub(super) devices: &'a Arc<Devices>,
    pub(super) device: usize,
    /// The devices that share a factor: `devices=N` from this one on.
    pub(super) places: Vec<usize>,
    looks_ahead: Vec<Option<bool>>,
    sizes: Vec<usize>,
    precisions: Vec<String>,
    units: Vec<Option<Units>>,
    pub(super) blocks: Vec<Option<usize>>,
    pub(super) memories: Vec<String>,
    pub(super) rounds: usize,
    /// Columns of tiles that a device has at a time, of a matrix that stays in the host's memory.
    resident: Option<usize>,
    points: Points,
    pub(super) targets: Vec<f64>,
    peer: Option<Peer>,
    clblast: Option<Peer>,
    folder: tempfile::TempDir,
}

/// The words of an argument that is a list.
fn list(arguments: &Arguments, name: &str, usual: &str) -> Vec<String> {
    arguments.text(name).unwrap_or(usual).split(',').map(str::to_owned).collect()
}

impl<'a> World<'a> {
    pub(super) fn new(arguments: &Arguments, devices: &'a Arc<Devices>, device: usize) -> Self {
        let info = devices.list()[device].info();
        let is_gpu = info.class == DeviceClass::Gpu;
        let whole = |text: &String| text.parse().unwrap_or_else(|_| panic!("{text} is no whole number"));
        let sizes: Vec<usize> =
            list(arguments, "n", if is_gpu { "8192,32768" } else { "512" }).iter().map(whole).collect();
        let units = list(arguments, "units", "auto").into_iter().map(|text| match text.as_str() {
            "auto" => None,
            "0" => Some(Units::None),
            "1" => Some(Units::Squares),
            "2" => Some(Units::Bands),
            _ => panic!("units={text} is not 0, 1, 2 or auto"),
        });
        let units = units.collect();
        let looks_ahead = list(arguments, "ahead", "auto").into_iter().map(|text| match text.as_str() {
            "auto" => None,
            "yes" | "no" => Some(text == "yes"),
            _ => panic!("ahead={text} is not yes, no or auto"),
        });
        let blocks = list(arguments, "block", "auto");
        let blocks = blocks.iter().map(|text| (text != "auto").then(|| whole(text) / TILE)).collect();
        let most = sizes.iter().copied().max().unwrap_or(1);
        let mut random = Random::mixed(1);
        // As dense as the length of the covariance allows: neighbours are near, and few entries vanish.
        let side = (most as f64).sqrt() / 8.0;
        let numbers: Vec<f64> = (0..most * DIMENSIONS).map(|_| side * random.unit()).collect();
        let targets: Vec<f64> = numbers.chunks_exact(DIMENSIONS).map(|x| x[0].sin() + x[1].cos()).collect();
        let folder = tempfile::tempdir().expect("a folder");
        let peers = list(arguments, "peer", "torch");
        let is_wanted = |name: &str| peers.iter().any(|peer| peer == name);
        let clblast = is_wanted("clblast").then(|| Peer::clblast(&info.name)).flatten();
        let peer = is_wanted("torch").then(|| {
            write_doubles(&folder.path().join("points.f64"), &numbers);
            write_doubles(&folder.path().join("targets.f64"), &targets);
            Peer::torch_dense(&[&folder.path().display().to_string()])
        });
        Self {
            devices,
            device,
            places: (device..device + arguments.get("devices", 1)).collect(),
            looks_ahead: looks_ahead.collect(),
            sizes,
            precisions: list(arguments, "precision", if info.has_doubles { "f64,f32" } else { "f32" }),
            units,
            blocks,
            memories: list(arguments, "memory", if info.shares_memory { "map,copy" } else { "copy" }),
            rounds: arguments.get("rounds", 3),
            resident: arguments.text("resident").map(|text| whole(&text.to_owned()) / TILE),
            points: Points::of_rows(DIMENSIONS, &numbers),
            targets,
            peer: peer.flatten(),
            clblast,
            folder,
        }
    }

    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The first of the points.
    pub(super) fn points(&self, n: usize) -> Points {
        let mut points = Points::new(DIMENSIONS);
        (0..n).for_each(|at| points.push(&self.points.point(at)));
        points
    }

    /// Calls a closure for each size, precision and kind of products.
    pub(super) fn each(&mut self, mut of: impl FnMut(&mut Self, usize, &str, Option<Units>)) {
        for n in self.sizes.clone() {
            for precision in self.precisions.clone() {
                for units in self.units.clone() {
                    // Units are for doubles alone.
                    if precision == "f64" || units.is_none() || units == Some(Units::None) {
                        of(self, n, &precision, units);
                    }
                }
            }
        }
    }

    /// The seconds that PyTorch takes, and its answer.
    pub(super) fn of_peer(&mut self, question: &str) -> Option<(f64, serde_json::Value)> {
        let answer = self.peer.as_mut()?.ask(question);
        Some((answer["seconds"].as_f64()?, answer))
    }
}

fn write_doubles(path: &Path, numbers: &[f64]) {
    let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    fs::write(path, bytes).expect("the folder can be written to");
}

/// Prints the question and the units of the figures.
pub(super) fn head(question: &str, unit: &str) {
    println!("question    {question}");
    println!("unit        {unit}; best and median of the rounds, the answer checked first");
}

/// The least and the median.
pub(super) fn figures(seconds: &[f64]) -> (f64, f64) {
    let least = seconds.iter().copied().fold(f64::INFINITY, f64::min);
    (least, Spread::of(seconds.iter().copied()).median)
}

pub(super) fn beside(what: &str, own: f64, peer: Option<f64>, wanted: f64) {
    if let Some(peer) = peer {
        println!("peer        {what}: {peer:.4} s; its time over ours {:.2}", peer / own);
        verdict(what, peer / own, wanted, peer / own >= wanted);
    }
}

/// The ratio to PyTorch that the bar asks for.
fn wanted(precision: &str) -> f64 {
    if precision == "f64" { 0.6 } else { 0.7 }
}

pub(super) fn run_dense(arguments: &Arguments, devices: &Arc<Devices>, device: usize) {
    let mut world = World::new(arguments, devices, device);
    head("how fast are products of matrices?", "TFLOP/s by the device's own times, C = A B^T, n x n");
    world.each(|world, n, precision, units| match precision {
        "f64" => product::<f64>(world, n, precision, units),
        _ => product::<f32>(world, n, precision, units),
    });
}

/// The number at a place of a matrix, between -1/2 and 1/2.
fn number(seed: u32, place: usize) -> f64 {
    let mut x = (place as u32).wrapping_mul(0x9e37_79b9) ^ seed;
    x = (x ^ x >> 16).wrapping_mul(0x7feb_352d);
    x = (x ^ x >> 15).wrapping_mul(0x846c_a68b);
    f64::from((x ^ x >> 16) >> 8) * 0.5f64.powi(24) - 0.5
}

fn product<T: DeviceNumber + Default>(
    world: &mut World<'_>,
    n: usize,
    precision: &str,
    units: Option<Units>,
) {
    let rows = n.div_ceil(TILE);
    let n = rows * TILE;
    let info = world.devices.list()[world.device].info().clone();
    let Some(numbers) = T::numbers(info.has_doubles) else {
        return println!("{precision:>10} the device has none");
    };
    let units = units.unwrap_or_else(|| Units::of(numbers, info.compute_capability));
    let program = factor_program(numbers, units);
    let mut direct = Direct::open(world.devices, world.device).expect("a queue");
    for (seed, name) in [(1, "a"), (2, "b")] {
        direct.allocate::<T>(name, n * n).expect("room on the device");
        let mut part = vec![T::ZERO; TILE * n];
        for row in 0..rows {
            let first = row * TILE * n;
            part.iter_mut().enumerate().for_each(|(at, to)| *to = T::of(number(seed, first + at)));
            direct.write(name, first, &part).expect("written");
        }
    }
    direct.allocate::<T>("c", n * n).expect("room on the device");
    let (mut seconds, mut before) = (Vec::new(), 0);
    for _ in 0..=world.rounds {
        let depth = [("depth", Value::of(rows as u32))];
        direct.launch(&program, "product", Grid::of([rows, rows], [ITEMS, 1]), &depth).expect("launched");
        direct.wait(0).expect("computed");
        let all = direct.kernel_times()["product"];
        seconds.push((all - before) as f64 / 1e9);
        before = all;
    }
    let (mut random, mut tile) = (Random::mixed(3), vec![T::default(); TILE * TILE]);
    for _ in 0..COMPARED {
        let (i, j, r, c) = (random.idx(rows), random.idx(rows), random.idx(TILE), random.idx(TILE));
        direct.read("c", (j * rows + i) * TILE * TILE, &mut tile).expect("read");
        let entry = |seed, row: usize, within: usize, k: usize| {
            T::of(number(seed, (row * rows + k / TILE) * TILE * TILE + k % TILE * TILE + within)).wide()
        };
        let sum: f64 = (0..n).map(|k| entry(1, i, r, k) * entry(2, j, c, k)).sum();
        let found = tile[c * TILE + r].wide();
        assert!((found - sum).abs() <= n as f64 * T::EPSILON, "({i}, {j}): {found}, not {sum}");
    }
    let (least, median) = figures(&seconds[1..]);
    let rate = |seconds: f64| 2.0 * (n as f64).powi(3) / seconds / 1e12;
    println!(
        "product     n={n} {precision} units={units:?}: {:.3} TFLOP/s, median {:.3}",
        rate(least),
        rate(median)
    );
    let peer = world.of_peer(&format!("gemm {n} {precision}")).map(|(seconds, _)| seconds);
    beside("gemm of cuBLAS", least, peer, wanted(precision));
    let answer = world.clblast.as_mut().map(|clblast| clblast.ask(&format!("gemm {n} {precision}")));
    if let Some(error) = answer.as_ref().and_then(|answer| answer["error"].as_str()) {
        println!("peer        gemm of CLBlast: {error}");
    }
    beside("gemm of CLBlast", least, answer.and_then(|answer| answer["seconds"].as_f64()), 1.0);
}

pub(super) fn run_cholesky(arguments: &Arguments, devices: &Arc<Devices>, device: usize) {
    let mut world = World::new(arguments, devices, device);
    head(
        "how fast is a Cholesky factor?",
        "TFLOP/s by the wall clock, n^3 / 3 operations, the matrix on the device",
    );
    world.each(|world, n, precision, units| {
        let each = world.blocks.clone().into_iter().flat_map(|block| {
            world.looks_ahead.clone().into_iter().map(move |looks_ahead| (block, looks_ahead))
        });
        for (block, looks_ahead) in each.collect::<Vec<_>>() {
            if let Some(resident) = world.resident {
                let choices =
                    Choices { block, units, looks_ahead, resident: Some(resident), ..Choices::default() };
                match precision {
                    "f64" => of_host::<f64>(world, n, precision, choices),
                    _ => of_host::<f32>(world, n, precision, choices),
                }
                continue;
            }
            for memory in world.memories.clone() {
                let choices = Choices { block, units, looks_ahead, ..Choices::default() };
                match precision {
                    "f64" => cholesky::<f64>(world, n, precision, choices, &memory),
                    _ => cholesky::<f32>(world, n, precision, choices, &memory),
                }
            }
        }
        let peer = world.of_peer(&format!("cholesky {n} {precision}")).map(|(seconds, _)| seconds);
        if let Some(peer) = peer {
            println!(
                "peer        cuSOLVER n={n} {precision}: {:.3} TFLOP/s",
                (n as f64).powi(3) / 3.0 / peer / 1e12
            );
        }
    });
}

/// A matrix on the device, in memory of its own or of the host.
pub(super) fn opened<T: DeviceNumber>(
    world: &World<'_>,
    n: usize,
    choices: Choices,
    memory: &str,
) -> Option<DeviceMatrix<T>> {
    if let Err(reason) = fits::<T>(world.devices, &world.places, n, 1) {
        println!("            n={n}: NOT MEASURED: {reason}");
        return None;
    }
    let mut matrix = DeviceMatrix::<T>::open(world.devices, &world.places, n, choices).expect("a matrix");
    match memory {
        "map" if matrix.is_whole() => matrix.lend(Packed::zeros(n.div_ceil(TILE), TILE)).expect("lent"),
        _ => matrix.allocate().expect("room on the device"),
    }
    Some(matrix)
}

fn cholesky<T: DeviceNumber + Default>(
    world: &mut World<'_>,
    n: usize,
    precision: &str,
    choices: Choices,
    memory: &str,
) {
    let (points, expression) = (world.points(n), KERNEL.parse::<Expression>().expect("a covariance"));
    let Some(mut matrix) = opened::<T>(world, n, choices, memory) else { return };
    let (mut seconds, mut times, mut fills) = (Vec::new(), BTreeMap::new(), Vec::new());
    for round in 0..=world.rounds {
        let filled = matrix.direct().kernel_times().get("fill").copied().unwrap_or(0);
        matrix.fill(&expression, &points, ADDED).expect("filled");
        matrix.finish().expect("filled");
        fills.push((matrix.direct().kernel_times()["fill"] - filled) as f64 / 1e9);
        let (begun, before) = (Instant::now(), matrix.direct().kernel_times().clone());
        matrix.factor(&|| false).expect("a factor");
        matrix.finish().expect("a factor");
        if round > 0 {
            seconds.push(begun.elapsed().as_secs_f64());
            for (name, ns) in matrix.direct().kernel_times() {
                *times.entry(*name).or_insert(0) += ns - before.get(name).copied().unwrap_or(0);
            }
        }
    }
    // Before rows are read to be compared.
    let commands = commands_of(&matrix, n);
    compare(&mut matrix, &expression, &points);
    let (least, median) = figures(&seconds);
    let rate = |seconds: f64| (n as f64).powi(3) / 3.0 / seconds / 1e12;
    println!(
        "cholesky    n={n} {precision} units={:?} block={:?} ahead={:?} memory={memory} on {:?}: {:.3} TFLOP/s, median {:.3} ({least:.4} s)",
        choices.units,
        choices.block.map(|block| block * TILE),
        choices.looks_ahead,
        world.places,
        rate(least),
        rate(median)
    );
    let bytes = tiles(n.div_ceil(TILE)) * TILE * TILE * size_of::<T>();
    let fill = fills[1..].iter().copied().fold(f64::INFINITY, f64::min);
    println!("fill        {:.2} ms, {:.1} GB/s written", 1e3 * fill, bytes as f64 / fill / 1e9);
    let all: f64 = seconds.iter().sum();
    let shares = times.iter().filter(|(_, ns)| **ns > 0);
    let shares: Vec<String> =
        shares.map(|(name, ns)| format!("{name} {:.1} %", *ns as f64 / 1e7 / all)).collect::<Vec<_>>();
    println!("shares      of the wall clock: {}", shares.join(", "));
    println!("{commands}");
}

/// A factor of a matrix in the host's memory, of which the device has some columns at a time; copies are within the time.
fn of_host<T: DeviceNumber + Default>(world: &World<'_>, n: usize, precision: &str, choices: Choices) {
    let (points, expression) = (world.points(n), KERNEL.parse::<Expression>().expect("a covariance"));
    let mut packed = vec![T::ZERO; tiles(n.div_ceil(TILE)) * TILE * TILE];
    let (mut seconds, mut commands) = (Vec::new(), String::new());
    for round in 0..=world.rounds {
        let place = &world.places[..1];
        let mut matrix = DeviceMatrix::<T>::open(world.devices, place, n, choices).expect("a matrix");
        let begun = Instant::now();
        let factored = matrix.factor_of_host(&mut packed, Some((&expression, &points, ADDED)), &|| false);
        factored.expect("a factor");
        if round > 0 {
            seconds.push(begun.elapsed().as_secs_f64());
        }
        commands = commands_of(&matrix, n);
    }
    let row = |i: usize| Ok(packed[tiles(i) * TILE * TILE..tiles(i + 1) * TILE * TILE].to_vec());
    compare_rows(n, row, &expression, &points);
    let (least, median) = figures(&seconds);
    let rate = |seconds: f64| (n as f64).powi(3) / 3.0 / seconds / 1e12;
    println!(
        "cholesky    n={n} {precision} on the host, {} columns on device {}: {:.3} TFLOP/s, median {:.3} ({least:.4} s)",
        choices.resident.unwrap_or_default() * TILE,
        world.device,
        rate(least),
        rate(median)
    );
    println!("{commands}");
}

/// `what=tune`: the sizes that are fastest for each number of rows, kept for the device.
pub(super) fn run_tune(arguments: &Arguments, devices: &Arc<Devices>, device: usize) {
    let mut world = World::new(arguments, devices, device);
    let is_kept = arguments.text("keep") != Some("no");
    head("which blocks of columns are fastest?", "TFLOP/s by the wall clock, n^3 / 3 operations");
    world.each(|world, n, precision, units| match precision {
        "f64" => tune::<f64>(world, n, precision, units, is_kept),
        _ => tune::<f32>(world, n, precision, units, is_kept),
    });
}

fn tune<T: DeviceNumber + Default>(
    world: &World<'_>,
    n: usize,
    precision: &str,
    units: Option<Units>,
    is_kept: bool,
) {
    let (points, expression, rows) =
        (world.points(n), KERNEL.parse::<Expression>().expect("a covariance"), n.div_ceil(TILE));
    let mut best: Option<(f64, Tuned)> = None;
    for block in [1, 2, 4, 8, 16, 32].into_iter().filter(|block| *block == 1 || 2 * *block <= rows) {
        for looks_ahead in [false, true] {
            let choices =
                Choices { block: Some(block), units, looks_ahead: Some(looks_ahead), ..Choices::default() };
            let Some(mut matrix) = opened::<T>(world, n, choices, "copy") else { return };
            let mut seconds = Vec::new();
            for round in 0..=world.rounds {
                matrix.fill(&expression, &points, ADDED).expect("filled");
                matrix.finish().expect("filled");
                let begun = Instant::now();
                matrix.factor(&|| false).expect("a factor");
                matrix.finish().expect("a factor");
                if round > 0 {
                    seconds.push(begun.elapsed().as_secs_f64());
                }
            }
            let (least, _) = figures(&seconds);
            let rate = (n as f64).powi(3) / 3.0 / least / 1e12;
            println!("tune        n={n} {precision} block={} ahead={looks_ahead}: {rate:.3}", block * TILE);
            if best.is_none_or(|(other, _)| least < other) {
                best = Some((least, Tuned { rows, block, looks_ahead }));
            }
        }
    }
    let Some((_, found)) = best else { return };
    let own = &world.devices.list()[world.device];
    if is_kept {
        keep_tuned::<T>(own, found);
    }
    println!(
        "fastest     n={n} {precision}: block={} ahead={}{}",
        found.block * TILE,
        found.looks_ahead,
        if is_kept { ", kept for later factors" } else { "" }
    );
}

pub(super) fn commands_of<T: DeviceNumber>(matrix: &DeviceMatrix<T>, n: usize) -> String {
    format!("commands    {}; {} rows of tiles", matrix.statistics(), n.div_ceil(TILE))
}

/// Compares entries of L L^T with the covariances: of three tiles, the last among them.
pub(super) fn compare<T: DeviceNumber + Default>(
    matrix: &mut DeviceMatrix<T>,
    expression: &Expression,
    points: &Points,
) {
    compare_rows::<T>(points.len(), |row| matrix.row_of_tiles(row), expression, points);
}

/// Compares entries by the rows of tiles of the factor.
pub(super) fn compare_rows<T: DeviceNumber + Default>(
    n: usize,
    mut row_of_tiles: impl FnMut(usize) -> Result<Vec<T>, DeviceError>,
    expression: &Expression,
    points: &Points,
) {
    let (mut random, mut scratch) = (Random::mixed(5), Scratch::default());
    let (rows, mut most) = (n.div_ceil(TILE), 0f64);
    let bound = 2.0 * n as f64 * T::EPSILON * (2.0 + ADDED);
    for (i, j) in [(rows - 1, rows - 1), (rows - 1, rows / 2), (rows / 2, 0)] {
        let (left, right) = (row_of_tiles(i).expect("read"), row_of_tiles(j).expect("read"));
        for _ in 0..COMPARED {
            let (row, column) = (i * TILE + random.idx(TILE), j * TILE + random.idx(TILE));
            let (row, column) = (row.min(n - 1), column.min(n - 1));
            let (row, column) = (row.max(column), row.min(column));
            let at = |k: usize, row: usize| (k / TILE * TILE + k % TILE) * TILE + row % TILE;
            let (of_row, of_column) = if row / TILE == i { (&left, &right) } else { (&right, &left) };
            let sum: f64 =
                (0..=column).map(|k| of_row[at(k, row)].wide() * of_column[at(k, column)].wide()).sum();
            let mut entry = [0.0];
            expression.column(
                (points, row..row + 1),
                &points.point(column),
                Some(column),
                &mut scratch,
                &mut entry,
            );
            let expected = entry[0] + if row == column { ADDED } else { 0.0 };
            most = most.max((sum - expected).abs());
            assert!((sum - expected).abs() <= bound, "({row}, {column}): {sum}, not {expected}");
        }
    }
    println!("answer      entries of L L^T within {:.4} of 2 n eps |K|", most / bound);
}
