//! Predictions of devices, compared with those of slots.

use boxwork_kernels::chance::Random;
use boxwork_kernels::covariance::Points;
use boxwork_kernels::gaussian_process::{Jitter, Regression, Settings, ThisThread};
use boxwork_runtime::feeding::faults::{Faulty, Plan, has_device};
use boxwork_runtime::feeding::{Devices, Options};
use boxwork_runtime::harness::Harness;
use boxwork_stores::gp_model::SavedModel;
use boxwork_stores::sample_file::SampleRows;

use super::*;
use crate::regression::samples::envelope as envelope_of;

fn model(n: usize, dimensions: usize, kernel: &str, precision: Precision) -> Arc<GpModel> {
    let mut random = Random::mixed(n as u64);
    let numbers: Vec<f64> = (0..n * dimensions).map(|_| 3.0 * random.unit()).collect();
    let targets = numbers.chunks_exact(dimensions).map(|x| 5.0 + x[0].sin() + 0.1 * random.unit()).collect();
    let expression = kernel.parse().expect("a covariance");
    let settings = Settings { expression, noise: 0.01, jitter: Jitter::Auto, normalize: true, precision };
    let points = Points::of_rows(dimensions, &numbers);
    let regression = Regression::fit(points, targets, &settings, &mut ThisThread).expect("a fit");
    let names = (0..n).map(|at| format!("s{at}")).collect();
    let inputs = (0..dimensions).map(|d| format!("x{d}")).collect();
    let saved = SavedModel { regression, names, inputs, target: "y".to_owned() };
    Arc::new(GpModel::of(saved, "m".to_owned()))
}

/// New points in envelopes of so many.
fn points(count: usize, dimensions: usize, rows: usize) -> Vec<Envelope> {
    let mut random = Random::mixed(99);
    let numbers: Vec<f64> = (0..count * dimensions).map(|_| 3.5 * random.unit()).collect();
    let chunks = numbers.chunks(rows * dimensions).enumerate();
    let rows_of = |(nth, numbers): (usize, &[f64])| {
        let len = numbers.len() / dimensions;
        let names = (0..len).map(|at| format!("p{}", nth * rows + at)).collect();
        let rows = SampleRows { names, inputs: numbers.to_vec(), targets: vec![f64::NAN; len] };
        envelope_of(rows, dimensions).expect("an envelope")
    };
    chunks.map(rows_of).collect()
}

fn box_of(model: &Arc<GpModel>, deviations: bool) -> GpPredict {
    GpPredict {
        model: Arc::clone(model),
        deviations,
        of_observation: true,
        half_width: 2.0,
        on_device: None,
        missing: VecDeque::new(),
        note: None,
    }
}

/// Runs a box to its end; room for two envelopes at a time.
fn run(box_: DeviceStage<GpPredict>, points: &[Envelope]) -> (Vec<Envelope>, Harness) {
    let mut harness = Harness::of(&GP_PREDICT, Box::new(box_));
    harness.room(2);
    points.iter().for_each(|envelope| harness.give(SAMPLES, envelope.clone()));
    harness.end(SAMPLES);
    let mut made = Vec::new();
    while !harness.is_done() {
        harness.run().expect("predictions");
        made.extend(harness.taken(PREDICTIONS));
    }
    (made, harness)
}

fn on(devices: &Arc<Devices>) -> Picked {
    let allowed = (0..devices.list().len()).collect();
    Picked { devices: Some((Arc::clone(devices), allowed)), reason: String::new() }
}

/// A stage whose ranges have so many tiles, and blocks so many points.
fn cut(
    model: &Arc<GpModel>,
    deviations: bool,
    devices: &Arc<Devices>,
    sizes: (usize, usize),
) -> DeviceStage<GpPredict> {
    let mut predict = box_of(model, deviations);
    let allowed: Vec<usize> = (0..devices.list().len()).collect();
    let (mut on_device, fitting) = DeviceModel::of(model, deviations, devices, &allowed).expect("it fits");
    on_device.cut(sizes.0, sizes.1);
    for device in &fitting {
        let missing = on_device.missing(devices, *device);
        predict.missing.extend(missing.into_iter().map(|range| (*device, range)));
    }
    predict.on_device = Some(Arc::new(on_device));
    let block = [sizes.1 as u64, u64::MAX];
    let sizes = Sizes { block, block_min: [0; 2], slots: [SLOTS_POINTS, u64::MAX], blocks_per_device: 2 };
    DeviceStage::new(predict, sizes, Some((Arc::clone(devices), fitting.into())))
}

fn slots(model: &Arc<GpModel>, deviations: bool, points: &[Envelope]) -> Vec<Envelope> {
    let nowhere = Picked { devices: None, reason: String::new() };
    run(stage(box_of(model, deviations), &nowhere), points).0
}

fn compare(found: &[Envelope], expected: &[Envelope], allowed: f64, case: &str) {
    assert_eq!(found.len(), expected.len(), "{case}");
    for (found, expected) in found.iter().zip(expected) {
        assert!(
            found.texts("name").unwrap().iter().eq(expected.texts("name").unwrap().iter()),
            "{case}: order"
        );
        for name in ["mean", "deviation", "lower", "upper"] {
            let (found, expected) = (found.f64s(name).unwrap(), expected.f64s(name).unwrap());
            for (a, b) in found.iter().zip(expected) {
                let is_near = (a - b).abs() <= allowed * (1.0 + b.abs()) || a.is_nan() && b.is_nan();
                assert!(is_near, "{case}: {name} is {a}, not {b}");
            }
        }
    }
}

const KERNEL: &str = "1.5 * rbf(l=0.7) + 0.5 * matern32(l=2) + white(0.1)";

#[test]
fn points_on_a_device_are_those_of_slots() {
    if !has_device("points_on_a_device_are_those_of_slots") {
        return;
    }
    let (_, devices) = Faulty::devices(Plan::default(), Options::default());
    let devices = devices.expect("a device");
    for (n, dimensions, precision, count, sizes) in [
        (1, 1, Precision::F64, 1, (1, 128)),
        (300, 2, Precision::F64, 300, (1000, 4096)),
        // Several blocks of several ranges.
        (1300, 3, Precision::F64, 500, (16, 200)),
        (300, 2, Precision::F32, 140, (2, 128)),
        (200, 2, Precision::Mixed, 30, (2, 128)),
    ] {
        let model = model(n, dimensions, KERNEL, precision);
        let points = points(count, dimensions, 70);
        for deviations in [true, false] {
            let case = format!("{count} points of {n} samples, {precision}, deviations {deviations}");
            let expected = slots(&model, deviations, &points);
            let before = devices.statistics()[0].size;
            let (found, _) = run(cut(&model, deviations, &devices, sizes), &points);
            let allowed = if precision == Precision::F64 { 1e-9 } else { 2e-3 };
            compare(&found, &expected, allowed, &case);
            assert_eq!(devices.statistics()[0].size - before, count as u64, "{case}");
            // The next request finds the factor on the device.
            let on_device = cut(&model, deviations, &devices, sizes);
            let bytes = devices.statistics()[0].gathered_bytes;
            let (again, _) = run(on_device, &points);
            compare(&again, &found, 0.0, &case);
            let sent = devices.statistics()[0].gathered_bytes - bytes;
            assert!(
                sent <= (count.next_multiple_of(128) * dimensions + 1000) as u64 * 8,
                "{case}: {sent} bytes"
            );
        }
    }
}

#[test]
fn slots_predict_where_a_device_fails_or_has_no_room() {
    if !has_device("slots_predict_where_a_device_fails_or_has_no_room") {
        return;
    }
    let model = model(300, 2, KERNEL, Precision::F64);
    let points = points(300, 2, 40);
    let expected = slots(&model, true, &points);
    for call in (6..90).step_by(6) {
        for for_good in [false, true] {
            let plan = Plan { call, for_good, appears_as: 2, ..Plan::default() };
            let (driver, devices) = Faulty::devices(plan, Options::default());
            let Ok(devices) = devices else { continue };
            let (found, harness) = run(stage(box_of(&model, true), &on(&devices)), &points);
            compare(&found, &expected, 1e-9, &format!("call {call}, for good: {for_good}"));
            drop(harness);
            drop(devices);
            assert!(for_good || driver.left().is_empty(), "call {call}: {:?}", driver.left());
        }
    }
    let options = Options { memory_bytes: Some(1_000_000), ..Options::default() };
    let (_, devices) = Faulty::devices(Plan::default(), options);
    let (found, harness) = run(stage(box_of(&model, true), &on(&devices.expect("a device"))), &points);
    compare(&found, &expected, 0.0, "no room");
    assert!(harness.notes()[0].contains("no device has room for a factor of 1 MiB"), "{:?}", harness.notes());
}
