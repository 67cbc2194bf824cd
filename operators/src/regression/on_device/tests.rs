//! Fits whose factors a device makes, compared with those of threads.

use boxwork_kernels::chance::Random;
use boxwork_kernels::cholesky::Tasks;
use boxwork_kernels::covariance::Points;
use boxwork_kernels::gaussian_process::{
    FactorDevice, FitError, Jitter, Precision, Regression, Settings, ThisThread, Threads, likelihood,
    optimise,
};
use boxwork_kernels::pieces::one_by_one;
use boxwork_runtime::feeding::Options;
use boxwork_runtime::feeding::faults::{Faulty, Plan, has_device};

use super::*;
use crate::devices::factor::DeviceSlots;

/// One thread, and a device for factors.
struct Tested(OnDevice);

impl Threads for Tested {
    fn factorise(&mut self, work: &dyn Tasks) -> Result<(), Stopped> {
        ThisThread.factorise(work)
    }

    fn pieces(&mut self, count: usize, f: &(dyn Fn(usize) + Sync)) -> bool {
        ThisThread.pieces(count, f)
    }

    fn device(&mut self) -> Option<&mut dyn FactorDevice> {
        Some(self)
    }
}

impl FactorDevice for Tested {
    fn takes(&mut self, n: usize, bytes: usize) -> bool {
        self.0.takes(n, bytes, 1)
    }

    fn can_fill(&self, dimensions: usize) -> bool {
        factor::can_fill(dimensions)
    }

    fn doubles(&mut self, wanted: &Wanted<'_>, tiles: Packed<f64>) -> Outcome<f64> {
        self.0.make(wanted, tiles, &mut one_by_one(), &|| false)
    }

    fn singles(&mut self, wanted: &Wanted<'_>, tiles: Packed<f32>) -> Outcome<f32> {
        self.0.make(wanted, tiles, &mut one_by_one(), &|| false)
    }

    fn takes_slopes(&mut self, n: usize, bytes: usize) -> bool {
        self.0.takes(n, bytes, 2)
    }

    fn slopes_of_doubles(&mut self, wanted: &Wanted<'_>, weights: Option<&[f64]>) -> SlopedOutcome {
        self.0.slopes::<f64>(wanted, weights, &|| false)
    }

    fn slopes_of_singles(&mut self, wanted: &Wanted<'_>, weights: Option<&[f64]>) -> SlopedOutcome {
        self.0.slopes::<f32>(wanted, weights, &|| false)
    }
}

fn tested(plan: Plan, memory: Memory) -> Tested {
    let (_, devices) = Faulty::devices(plan, Options::default());
    Tested(on(devices.expect("a device"), memory))
}

fn on(devices: Arc<Devices>, memory: Memory) -> OnDevice {
    let all: Arc<[usize]> = (0..devices.list().len()).collect();
    let picked = Picked { devices: Some((devices, all)), reason: String::new() };
    OnDevice::of(&picked, memory, 0).expect("a device was picked")
}

fn samples(n: usize, dimensions: usize) -> (Points, Vec<f64>) {
    let mut random = Random::mixed(n as u64);
    let numbers: Vec<f64> = (0..n * dimensions).map(|_| 3.0 * random.unit()).collect();
    let targets = numbers.chunks_exact(dimensions).map(|x| x[0].sin() + 0.1 * random.unit()).collect();
    (Points::of_rows(dimensions, &numbers), targets)
}

fn settings(kernel: &str, precision: Precision) -> Settings {
    let expression = kernel.parse().expect("a covariance");
    Settings { expression, noise: 0.0, jitter: Jitter::Auto, normalize: false, precision }
}

#[test]
fn a_fit_on_a_device_is_that_of_threads() {
    if !has_device("a_fit_on_a_device_is_that_of_threads") {
        return;
    }
    for (n, dimensions, precision, memory) in [
        (1, 1, Precision::F64, Memory::Map),
        (300, 2, Precision::F64, Memory::Map),
        (300, 2, Precision::F64, Memory::Copy),
        (260, 2, Precision::Mixed, Memory::Auto),
        (200, 2, Precision::F32, Memory::Copy),
        // Too many for the kernel: slots fill the tiles.
        (150, 40, Precision::F64, Memory::Map),
        (150, 40, Precision::F64, Memory::Copy),
    ] {
        let (points, targets) = samples(n, dimensions);
        let settings = settings("1.5 * rbf(l=2) + white(0.1)", precision);
        let mut device = tested(Plan::default(), memory);
        let fit = |threads: &mut dyn Threads| {
            Regression::fit(points.clone(), targets.clone(), &settings, threads).expect("a fit")
        };
        let (found, expected) = (fit(&mut device), fit(&mut ThisThread));
        let case = format!("{n} samples, {precision}, {memory:?}: {:?}", device.0.notes());
        let allowed = if precision == Precision::F64 { 1e-10 } else { 1e-3 };
        let near = |a: f64, b: f64| (a - b).abs() <= allowed * (1.0 + b.abs());
        assert!(near(found.log_likelihood, expected.log_likelihood), "{case}: {}", found.log_likelihood);
        assert!(found.weights.iter().zip(&expected.weights).all(|(a, b)| near(*a, *b)), "{case}");
        let of = |fit: &Regression, row: usize| fit.factor.row(row).to_vec();
        for row in 0..n {
            assert!(
                of(&found, row).iter().zip(of(&expected, row)).all(|(a, b)| near(*a, b)),
                "{case}: row {row}"
            );
        }
        let (done, rows) = (device.0.done, n.div_ceil(TILE) as u64);
        assert_eq!((device.0.factors, device.0.over.as_deref()), (1, None), "{case}");
        assert!(done.launches > 0 && done.launches <= 6 * rows + 2, "{case}");
        match memory {
            // The tiles, the weights and the mark of a failed pivot come back; the latter two are in one page each.
            Memory::Map => assert!(done.copied_bytes == 0 && done.maps <= 2 * rows.max(2), "{case}"),
            Memory::Copy => assert!(done.maps == 0 && done.copied_bytes > 0, "{case}"),
            Memory::Auto => {}
        }
    }
}

#[test]
fn a_device_factors_a_matrix_that_it_has_no_room_for() {
    if !has_device("a_device_factors_a_matrix_that_it_has_no_room_for") {
        return;
    }
    // 13 rows of tiles of 128 KiB: 91 tiles and 13 of inverses are too many, two columns with panels and inverses are 90.
    for (dimensions, kernel) in [(2, "1.5 * rbf(l=2) + white(0.1)"), (40, "1.5 * rbf(l=9) + white(0.1)")] {
        let (points, targets) = samples(1600, dimensions);
        let settings = settings(kernel, Precision::F64);
        let options = Options { memory_bytes: Some(96 * 128 * 1024), ..Options::default() };
        let (_, small) = Faulty::devices(Plan::default(), options);
        let mut device = Tested(on(small.expect("a device"), Memory::Auto));
        let expected = Regression::fit(points.clone(), targets.clone(), &settings, &mut ThisThread).unwrap();
        let found = Regression::fit(points, targets, &settings, &mut device).unwrap();
        assert_eq!((device.0.factors, device.0.streamed), (1, 1), "{:?}", device.0.notes());
        assert!((found.log_likelihood - expected.log_likelihood).abs() < 1e-8);
        let rows = found.factor.row(1599).iter().zip(expected.factor.row(1599));
        assert!(rows.map(|(a, b)| (a - b).abs()).fold(0.0, f64::max) < 1e-10);
    }
}

#[test]
fn a_device_and_slots_fit_together() {
    if !has_device("a_device_and_slots_fit_together") {
        return;
    }
    for (dimensions, precision, allowed) in
        [(2, Precision::F64, 1e-9), (40, Precision::F64, 1e-9), (2, Precision::Mixed, 1e-3)]
    {
        let (points, targets) = samples(700, dimensions);
        let settings = settings("1.5 * rbf(l=9) + white(0.1)", precision);
        let options = Options { cache: None, ..Options::default() };
        let (_, devices) = Faulty::devices(Plan::default(), options);
        let devices = devices.expect("a device");
        for name in ["products_64", "products_32"] {
            // Two slots are as fast as the device, so they have every other block of 256 columns, the first one too.
            devices.list()[0].keep(name, "2000 1000");
        }
        let slots = Slots { choice: DeviceSlots::Always, count: 2 };
        let mut device = Tested(on(devices, Memory::Auto).with_slots(slots));
        let fit = |threads: &mut dyn Threads| {
            Regression::fit(points.clone(), targets.clone(), &settings, threads).expect("a fit")
        };
        let (found, expected) = (fit(&mut device), fit(&mut ThisThread));
        let notes = device.0.notes();
        assert_eq!((device.0.factors, device.0.together), (1, 1), "{notes:?}");
        assert!(notes[0].contains("with slots, which took 444 of 700 columns"), "{notes:?}");
        let near = |a: f64, b: f64| (a - b).abs() <= allowed * (1.0 + b.abs());
        assert!(near(found.log_likelihood, expected.log_likelihood), "{precision}: {}", found.log_likelihood);
        assert!(found.weights.iter().zip(&expected.weights).all(|(a, b)| near(*a, *b)), "{precision}");
        let rows = found.factor.row(699).iter().zip(expected.factor.row(699));
        assert!(rows.map(|(a, b)| (a - b).abs()).fold(0.0, f64::max) < 10.0 * allowed, "{precision}");
    }
    // By themselves slots leave a device alone whose cores are theirs.
    let (points, targets) = samples(300, 2);
    let settings = settings("1.5 * rbf(l=2) + white(0.1)", Precision::F64);
    let slots = Slots { choice: DeviceSlots::Auto, count: 2 };
    let mut device = tested(Plan::default(), Memory::Auto);
    device.0.slots = slots;
    Regression::fit(points, targets, &settings, &mut device).expect("a fit");
    assert_eq!((device.0.factors, device.0.together), (1, 0), "{:?}", device.0.notes());
}

#[test]
fn covariances_that_are_not_positive_definite_get_a_jitter_or_a_name() {
    if !has_device("covariances_that_are_not_positive_definite_get_a_jitter_or_a_name") {
        return;
    }
    let (mut points, mut targets) = samples(200, 2);
    points.push(&points.point(7));
    targets.push(targets[7]);
    let mut settings = settings("rbf(l=0.2)", Precision::F64);
    let mut device = tested(Plan::default(), Memory::Auto);
    let found = Regression::fit(points.clone(), targets.clone(), &settings, &mut device).unwrap();
    assert!(found.jitter > 0.0 && device.0.factors >= 2, "{}", found.jitter);
    settings.jitter = Jitter::None;
    let failed = Regression::fit(points, targets, &settings, &mut device).unwrap_err();
    assert_eq!(failed, FitError::NotPositiveDefinite { row: 200, nearest: Some(7), jitter: 0.0 });
}

#[test]
fn slots_go_on_where_a_device_fails() {
    if !has_device("slots_go_on_where_a_device_fails") {
        return;
    }
    let (points, targets) = samples(140, 2);
    let settings = settings("1.5 * rbf(l=2) + white(0.1)", Precision::F64);
    let fit = |threads: &mut dyn Threads| {
        Regression::fit(points.clone(), targets.clone(), &settings, threads).expect("a fit")
    };
    let expected = fit(&mut ThisThread);
    let near = |(a, b): (&f64, &f64)| (a - b).abs() < 1e-10 * (1.0 + b.abs());
    for memory in [Memory::Map, Memory::Copy] {
        let (whole, devices) = Faulty::devices(Plan::default(), Options::default());
        let opening = whole.calls();
        let mut device = Tested(on(devices.expect("a device"), memory));
        // The first fit may compile the kernels, which takes calls that later ones do not make.
        fit(&mut device);
        let compiled = whole.calls();
        fit(&mut device);
        let calls = whole.calls() - compiled;
        drop(device);
        let of_calls = (1..8).map(|step| (opening + calls * step / 8, 0, step % 2 == 1));
        let of_questions = [(0, 1, false), (0, 1, true), (0, 2, true)];
        for (call, question, for_good) in of_calls.chain(of_questions) {
            let plan = Plan { call, question, for_good, ..Plan::default() };
            let (driver, devices) = Faulty::devices(plan.clone(), Options::default());
            let mut device = Tested(on(devices.expect("the device opens"), memory));
            let found = fit(&mut device);
            assert!(driver.has_failed(), "{plan:?} of {calls} calls");
            // A release, or a question for times, costs nothing if it fails once.
            assert!(!for_good || device.0.over.is_some(), "{plan:?}");
            let notes = device.0.notes();
            match device.0.over {
                Some(_) => {
                    assert!(notes[0].contains("slots made the factor"), "{plan:?}: {notes:?}");
                    assert_eq!(found.weights, expected.weights, "{plan:?}");
                }
                None => assert!(found.weights.iter().zip(&expected.weights).all(near), "{plan:?}"),
            }
            drop(device);
            // A driver that does not even say whether commands have ended keeps the staging memory that they may use.
            assert!(for_good || driver.left().is_empty(), "{plan:?}: {:?}", driver.left());
        }
    }
}

#[test]
fn a_device_without_room_leaves_factors_to_slots() {
    if !has_device("a_device_without_room_leaves_factors_to_slots") {
        return;
    }
    let (points, targets) = samples(300, 1);
    let settings = settings("rbf() + white(0.1)", Precision::F64);
    let options = Options { memory_bytes: Some(500_000), ..Options::default() };
    let (_, devices) = Faulty::devices(Plan::default(), options);
    let mut device = Tested(on(devices.expect("a device"), Memory::Copy));
    let found = Regression::fit(points.clone(), targets.clone(), &settings, &mut device).unwrap();
    let expected = Regression::fit(points, targets, &settings, &mut ThisThread).unwrap();
    assert_eq!(found, expected);
    let notes = device.0.notes();
    assert!(notes.len() == 1 && notes[0].contains("has room for"), "{notes:?}");
}

#[test]
fn derivatives_of_a_device_are_those_of_threads() {
    if !has_device("derivatives_of_a_device_are_those_of_threads") {
        return;
    }
    let mut device = tested(Plan::default(), Memory::Auto);
    for (n, kernel) in [
        (1, "2 * rbf(l=[1, 2]) + white(0.3)"),
        (300, "2 * rbf(l=[1, 2]) + white(0.3)"),
        (140, "3 * matern12(l=2) + white(0.1)"),
        (140, "matern32(l=2, v=4) * rbf() + white(0.2)"),
        (140, "matern52(l=[1, 2]) + 2 + white(0.2)"),
        (140, "rational_quadratic(l=2, c=3, v=2) + white(0.2)"),
        (140, "periodic(p=[2, 3], l=[1, 2]) + linear(v=0.5) + white(0.2)"),
        (140, "(rbf() + white(0.1)) * (2 + periodic(p=3, l=2, v=2)) + white(0.2)"),
    ] {
        let (points, targets) = samples(n, 2);
        let settings = settings(kernel, Precision::F64);
        let found = likelihood(&points, &targets, &settings, &mut device).expect("a likelihood");
        let expected = likelihood(&points, &targets, &settings, &mut ThisThread).expect("a likelihood");
        let near = |a: f64, b: f64| (a - b).abs() <= 1e-8 * (1.0 + b.abs());
        assert!(near(found.0, expected.0), "{n} samples, {kernel}: {found:?}, not {expected:?}");
        let all_near = found.1.iter().zip(&expected.1).all(|(a, b)| near(*a, *b));
        assert!(all_near, "{n} samples, {kernel}: {found:?}, not {expected:?}");
    }
    assert_eq!((device.0.slopes, device.0.over.as_deref()), (8, None));
    assert!(device.0.notes()[0].contains("8 of them inverted for derivatives"), "{:?}", device.0.notes());
}

#[test]
fn parameters_that_a_device_finds_are_those_of_threads() {
    if !has_device("parameters_that_a_device_finds_are_those_of_threads") {
        return;
    }
    let (points, targets) = samples(150, 1);
    for (precision, allowed) in [(Precision::F64, 1e-6), (Precision::Mixed, 1e-3), (Precision::F32, 1e-3)] {
        let mut settings = settings("1 * rbf(l=1 in 0.1..10) + white(0.1 in 0.01..1)", precision);
        settings.normalize = true;
        let mut device = tested(Plan::default(), Memory::Auto);
        let found = optimise(&points, &targets, &settings, (0, 1), &mut device).expect("an optimum");
        let expected = optimise(&points, &targets, &settings, (0, 1), &mut ThisThread).expect("an optimum");
        let apart = (found.log_likelihood - expected.log_likelihood).abs();
        assert!(apart <= allowed * expected.log_likelihood.abs(), "{precision}: {found:?}, not {expected:?}");
        assert!(
            device.0.slopes as usize >= found.evaluations.min(3) && device.0.over.is_none(),
            "{precision}"
        );
    }
}

#[test]
fn slots_compute_derivatives_where_a_device_fails_or_has_no_room() {
    if !has_device("slots_compute_derivatives_where_a_device_fails_or_has_no_room") {
        return;
    }
    let (points, targets) = samples(140, 2);
    let settings = settings("1.5 * rbf(l=2) + white(0.1)", Precision::F64);
    let expected = likelihood(&points, &targets, &settings, &mut ThisThread).expect("a likelihood");
    let near = |a: f64, b: f64| (a - b).abs() <= 1e-8 * (1.0 + b.abs());
    let check = |found: (f64, Vec<f64>), case: &str| {
        assert!(near(found.0, expected.0), "{case}: {found:?}");
        assert!(found.1.iter().zip(&expected.1).all(|(a, b)| near(*a, *b)), "{case}: {found:?}");
    };
    for call in (10..100).step_by(9) {
        for for_good in [false, true] {
            let (_, devices) =
                Faulty::devices(Plan { call, for_good, ..Plan::default() }, Options::default());
            let Ok(devices) = devices else { continue };
            let mut device = Tested(on(devices, Memory::Auto));
            let found = likelihood(&points, &targets, &settings, &mut device).expect("a likelihood");
            check(found, &format!("call {call}, for good: {for_good}"));
        }
    }
    // One matrix of 3 tiles, and no other beside it.
    let options = Options { memory_bytes: Some(700_000), ..Options::default() };
    let (_, devices) = Faulty::devices(Plan::default(), options);
    let mut device = Tested(on(devices.expect("a device"), Memory::Copy));
    check(likelihood(&points, &targets, &settings, &mut device).expect("a likelihood"), "no room");
    assert_eq!(device.0.slopes, 0);
}

#[test]
fn several_devices_share_the_factor_of_a_fit() {
    if !has_device("several_devices_share_the_factor_of_a_fit") {
        return;
    }
    let (points, targets) = samples(600, 2);
    let settings = settings("1.5 * rbf(l=2) + white(0.1)", Precision::F64);
    let fit = |threads: &mut dyn Threads| {
        Regression::fit(points.clone(), targets.clone(), &settings, threads).expect("a fit")
    };
    let expected = fit(&mut ThisThread);
    let near = |(a, b): (&f64, &f64)| (a - b).abs() < 1e-10 * (1.0 + b.abs());
    for call in [0, 40, 55, 70] {
        for for_good in [false, true] {
            let plan = Plan { call, for_good, appears_as: 2, ..Plan::default() };
            let (_, devices) = Faulty::devices(plan, Options::default());
            let Ok(devices) = devices else { continue };
            let mut device = Tested(on(devices, Memory::Auto));
            let found = fit(&mut device);
            assert!(found.weights.iter().zip(&expected.weights).all(near), "call {call}");
            if call == 0 {
                assert_eq!((device.0.factors, device.0.over.as_deref()), (1, None));
                assert!(device.0.notes()[0].contains(", device 1 ("), "{:?}", device.0.notes());
            }
        }
    }
}
