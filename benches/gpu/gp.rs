//! `what=gp`: fits of a Gaussian process, likelihoods with their derivatives, and predictions on a device.

use std::sync::Arc;
use std::time::Instant;

use boxwork_kernels::chance::Random;
use boxwork_kernels::covariance::{Expression, Points, Scratch};
use boxwork_kernels::gaussian_process::{Jitter, Precision, Predictor, Regression, Settings, ThisThread};
use boxwork_operators::factor::{Choices, DeviceNumber, fits};
use boxwork_runtime::Runtime;
use boxwork_runtime::feeding::{DeviceClass, Devices};

use super::config;
use super::dense::{
    ADDED, COMPARED, DIMENSIONS, KERNEL, World, beside, commands_of, compare, figures, head, opened,
};
use super::support::predictions::Files;
use super::support::{Arguments, Spread};

pub(super) fn run(arguments: &Arguments, devices: &Arc<Devices>, device: usize) {
    let mut world = World::new(arguments, devices, device);
    // One device solves and inverts.
    world.places.truncate(1);
    head(
        "how fast are a fit, a likelihood with derivatives, and predictions?",
        "seconds by the wall clock from points on the host to weights and likelihood there",
    );
    world.each(|world, n, precision, units| {
        for memory in world.memories.clone() {
            let choices = Choices { block: world.blocks[0], units, ..Choices::default() };
            let own = match precision {
                "f64" => fit::<f64>(world, n, precision, choices, &memory),
                _ => fit::<f32>(world, n, precision, choices, &memory),
            };
            let peer = world.of_peer(&format!("fit {n} {precision}"));
            let (Some((own, likelihood)), Some((peer, answer))) = (own, peer) else { continue };
            println!("peer        log likelihood {}; ours {likelihood:.6}", answer["likelihood"]);
            beside("fit of PyTorch", own, Some(peer), 1.0);
        }
        let choices = Choices { block: world.blocks[0], units, ..Choices::default() };
        let own = match precision {
            "f64" => gradient::<f64>(world, n, precision, choices),
            _ => gradient::<f32>(world, n, precision, choices),
        };
        let peer = world.of_peer(&format!("gradient {n} {precision}"));
        if let (Some(own), Some((peer, _))) = (own, peer) {
            beside("derivatives of PyTorch", own, Some(peer), 1.0);
        }
        let exact = world.of_peer(&format!("exact {n} {precision} {EXACT_POINTS}"));
        if let (Some(own), Some((peer, answer))) = (own, exact) {
            beside("likelihood with derivatives of GPyTorch", own, Some(peer), 1.0);
            let seconds = answer["predict_seconds"].as_f64().unwrap_or(f64::NAN);
            println!(
                "peer        GPyTorch predicts {:.3e} points/s of {n} samples",
                EXACT_POINTS as f64 / seconds
            );
        }
    });
    predictions(arguments, &mut world);
}

fn fit<T: DeviceNumber + Default>(
    world: &World<'_>,
    n: usize,
    precision: &str,
    choices: Choices,
    memory: &str,
) -> Option<(f64, f64)> {
    let (points, expression) = (world.points(n), KERNEL.parse::<Expression>().expect("a covariance"));
    let targets = &world.targets[..n];
    let (mut seconds, mut parts, mut likelihood) = (Vec::new(), [0.0; 3], 0.0);
    for round in 0..=world.rounds {
        let begun = Instant::now();
        let mut matrix = opened::<T>(world, n, choices, memory)?;
        matrix.fill(&expression, &points, ADDED).expect("filled");
        let filled = begun.elapsed().as_secs_f64();
        matrix.factor(&|| false).expect("a factor");
        let factored = begun.elapsed().as_secs_f64();
        let weights = matrix.solve(targets).expect("weights");
        let logs: f64 = matrix.pivots().expect("the diagonal").iter().map(|pivot| pivot.ln()).sum();
        let fitted: f64 = weights.iter().zip(targets).map(|(weight, y)| weight * y).sum();
        likelihood = -0.5 * fitted - logs - 0.5 * n as f64 * (2.0 * std::f64::consts::PI).ln();
        let all = begun.elapsed().as_secs_f64();
        if round == 0 {
            compare(&mut matrix, &expression, &points);
            check_weights(&expression, &points, targets, &weights, T::EPSILON);
        } else {
            seconds.push(all);
            parts = [filled, factored - filled, all - factored];
        }
        if round == world.rounds {
            println!("{}", commands_of(&matrix, n));
        }
    }
    let (least, median) = figures(&seconds);
    println!(
        "fit         n={n} {precision} units={:?} memory={memory}: {least:.4} s, median {median:.4}; to enqueue the fill {:.4}, factor {:.4}, \
         solve and likelihood {:.4}",
        choices.units, parts[0], parts[1], parts[2]
    );
    Some((least, likelihood))
}

/// Compares rows of K alpha with the targets.
fn check_weights(expression: &Expression, points: &Points, targets: &[f64], weights: &[f64], epsilon: f64) {
    let (n, mut scratch, mut random) = (points.len(), Scratch::default(), Random::mixed(7));
    let (mut column, size) = (vec![0.0; n], weights.iter().map(|x| x.abs()).sum::<f64>());
    for _ in 0..COMPARED.min(n) {
        let at = random.idx(n);
        expression.column((points, 0..n), &points.point(at), Some(at), &mut scratch, &mut column);
        column[at] += ADDED;
        let sum: f64 = column.iter().zip(weights).map(|(k, x)| k * x).sum();
        let allowed = 20.0 * n as f64 * epsilon * size;
        assert!((sum - targets[at]).abs() <= allowed, "row {at}: {sum}, not {}", targets[at]);
    }
}

/// Points that GPyTorch predicts.
const EXACT_POINTS: usize = 20_000;

/// The seconds of a likelihood with its derivatives.
fn gradient<T: DeviceNumber + Default>(
    world: &World<'_>,
    n: usize,
    precision: &str,
    choices: Choices,
) -> Option<f64> {
    if let Err(reason) = fits::<T>(world.devices, &[world.device], n, 2) {
        println!("gradient    n={n}: NOT MEASURED: {reason}");
        return None;
    }
    let (points, expression) = (world.points(n), KERNEL.parse::<Expression>().expect("a covariance"));
    let targets = &world.targets[..n];
    let (mut seconds, mut parts) = (Vec::new(), [0.0; 3]);
    for round in 0..=world.rounds {
        let begun = Instant::now();
        let mut matrix = opened::<T>(world, n, choices, "copy")?;
        matrix.fill(&expression, &points, ADDED).expect("filled");
        matrix.factor(&|| false).expect("a factor");
        let weights = matrix.solve(targets).expect("weights");
        let pivots = matrix.pivots().expect("the diagonal");
        let factored = begun.elapsed().as_secs_f64();
        matrix.invert().expect("an inverse");
        matrix.finish().expect("an inverse");
        let inverted = begun.elapsed().as_secs_f64();
        let slopes = matrix.slopes(&expression, &weights).expect("derivatives");
        let all = begun.elapsed().as_secs_f64();
        if round == 0 {
            // K is 2 rbf + s I, so the derivative by ln 2 is 1/2 (alpha . (y - s alpha) - n + s tr K^-1).
            let traced: f64 = matrix.pivots().expect("the diagonal").iter().sum();
            let of_data: f64 =
                weights.iter().zip(targets).map(|(alpha, y)| alpha * (y - ADDED * alpha)).sum();
            let expected = 0.5 * (of_data - n as f64 + ADDED * traced);
            let size = of_data.abs() + n as f64 + ADDED * traced;
            let allowed = 100.0 * n as f64 * T::EPSILON * size;
            assert!((slopes[0] - expected).abs() <= allowed, "{} by ln v, not {expected}", slopes[0]);
            assert!(pivots.iter().all(|pivot| *pivot > 0.0), "pivots");
            println!(
                "checked     the derivative by ln v: {}, {expected} by the trace of the inverse",
                slopes[0]
            );
        } else {
            seconds.push(all);
            parts = [factored, inverted - factored, all - inverted];
        }
    }
    let (least, median) = figures(&seconds);
    println!(
        "gradient    n={n} {precision} units={:?}: {least:.4} s, median {median:.4}; factor and weights {:.4}, inverse {:.4}, derivatives \
         {:.4}; {:.3} TFLOP/s of n^3",
        choices.units,
        parts[0],
        parts[1],
        parts[2],
        (n as f64).powi(3) / least / 1e12
    );
    Some(least)
}

/// Means and deviations by the shipped pipeline, on the device and on slots in one run.
fn predictions(arguments: &Arguments, world: &mut World<'_>) {
    let is_gpu = world.devices.list()[world.device].info().class == DeviceClass::Gpu;
    let n: usize = arguments.get("samples", if is_gpu { 8192 } else { 512 });
    let count: usize = arguments.get("new", if is_gpu { 200_000 } else { 2000 });
    let on_slots: usize = arguments.get("slots", count.min(20_000));
    let mut random = Random::mixed(11);
    let side = (n as f64).sqrt() / 8.0;
    let mut numbers =
        |count: usize| -> Vec<f64> { (0..count * DIMENSIONS).map(|_| side * random.unit()).collect() };
    let (samples, new) = (numbers(n), numbers(count));
    let targets = samples.chunks_exact(DIMENSIONS).map(|x| x[0].sin() + x[1].cos()).collect();
    let settings = Settings {
        expression: KERNEL.parse().expect("a covariance"),
        noise: ADDED,
        jitter: Jitter::None,
        normalize: false,
        precision: Precision::F64,
    };
    let points = Points::of_rows(DIMENSIONS, &samples);
    let model = Regression::fit(points, targets, &settings, &mut ThisThread).expect("a fit");
    let files = Files::new(world.folder(), &model);
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    let workers = arguments.get("workers", cores);
    let runtime = Runtime::start(config(workers, world.devices)).expect("the system gives threads");
    let reference = Predictor::new(&model, true);
    for deviation in [true, false] {
        for (place, count) in [(format!("gpu:{}", world.device), count), ("cpu".to_owned(), on_slots)] {
            files.write_points(DIMENSIONS, &new[..count * DIMENSIONS]);
            let prepared = files.prepared(&runtime, &place, deviation);
            // The first run brings the factor to the device.
            let first = files.predict(&runtime, &prepared);
            let found = files.predicted();
            assert_eq!(found.len(), count, "a prediction a point");
            let mut chance = Random::mixed(13);
            for _ in 0..COMPARED {
                let at = chance.idx(count);
                let point = Points::of_rows(DIMENSIONS, &new[at * DIMENSIONS..(at + 1) * DIMENSIONS]);
                let expected = reference.predict(&point).expect("a prediction");
                let near = |a: f64, b: f64| (a - b).abs() <= 1e-6 * (1.0 + b.abs());
                assert!(near(found[at][0], expected.means[0]), "mean {at}: {}", found[at][0]);
                let is_near = !deviation || near(found[at][1], expected.variances[0].sqrt());
                assert!(is_near, "deviation {at}: {}", found[at][1]);
            }
            let kernels = || world.devices.kernel_times(world.device).values().sum::<u64>() as f64 / 1e9;
            let (mut seconds, before) = (Vec::new(), kernels());
            for _ in 0..world.rounds {
                seconds.push(files.predict(&runtime, &prepared));
            }
            let (spread, of_kernels) = (Spread::of(seconds), (kernels() - before) / world.rounds as f64);
            let what = if deviation { "means and deviations" } else { "means" };
            println!(
                "predict     {count} points of {n} samples, {what}, {place}: {:.3e} points/s ({:.3} s, the first run {first:.3} s)",
                count as f64 / spread.median,
                spread.median
            );
            if of_kernels > 0.0 && place != "cpu" {
                println!("kernels     {:.3e} points/s", count as f64 / of_kernels);
                let question = format!("predict {n} f64 {count} {}", u8::from(deviation));
                let peer = world.of_peer(&question).map(|(seconds, _)| seconds);
                beside("predictions of PyTorch, kernels alone", of_kernels, peer, 1.0);
            }
        }
    }
}
