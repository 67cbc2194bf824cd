//! Factors of devices and slots together, compared with the reference.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use boxwork_kernels::cholesky::{Packed, reference};
use boxwork_kernels::covariance::Expression;
use boxwork_kernels::pieces::one_by_one;
use boxwork_runtime::feeding::Options;
use boxwork_runtime::feeding::faults::{Faulty, Plan, has_device};

use super::super::layout::PARTS;
use super::super::tests::{apart, covariances, devices, points};
use super::super::{Choices, Number};
use super::*;

const KERNEL: &str = "2 * rbf(l=[1, 2]) + white(0.1)";

/// Pieces on so many threads.
fn on_threads(threads: usize) -> impl FnMut(usize, &(dyn Fn(usize) + Sync)) -> bool {
    move |count, f| {
        std::thread::scope(|scope| {
            for first in 0..threads {
                scope.spawn(move || (first..count).step_by(threads).for_each(f));
            }
        });
        true
    }
}

/// A factorisation: rows, columns of a block, devices, thousandths of slots.
#[derive(Clone, Copy)]
struct Case {
    n: usize,
    block: usize,
    places: usize,
    slots: usize,
    looks_ahead: bool,
    is_filled: bool,
}

impl Case {
    fn of(n: usize, block: usize, places: usize, slots: usize) -> Self {
        Self { n, block, places, slots, looks_ahead: true, is_filled: false }
    }

    fn opened<T: DeviceNumber>(&self, devices: &Arc<Devices>) -> DeviceMatrix<T> {
        let places: Vec<usize> = (0..self.places).collect();
        let choices = Choices {
            block: Some(self.block),
            looks_ahead: Some(self.looks_ahead),
            slots: self.slots,
            ..Choices::default()
        };
        DeviceMatrix::open(devices, &places, self.n, choices).expect("a matrix")
    }

    /// The factor, as tiles of the host.
    fn factored<T: DeviceNumber>(
        &self,
        devices: &Arc<Devices>,
        slots: &mut Pieces<'_>,
    ) -> Result<TiledMatrix<T>, Unfactored> {
        let (expression, points) = (KERNEL.parse::<Expression>().unwrap(), points(self.n, 2, self.n as u64));
        let mut matrix = self.opened::<T>(devices);
        assert!(matrix.is_with_slots() && !matrix.solves() && !matrix.is_whole());
        let tiles = if self.is_filled {
            let of_points = covariances(&expression, &points, 0.5);
            TiledMatrix::new(self.n, TILE, |row, column| T::of(of_points[column * self.n + row]))
        } else {
            TiledMatrix::of_packed(self.n, TILE, Packed::zeros(self.n.div_ceil(TILE), TILE))
        };
        let covariances = (!self.is_filled).then_some((&expression, &points, 0.5));
        matrix.factor_with_slots(&tiles, covariances, slots).map(|()| tiles)
    }

    fn check<T: DeviceNumber>(&self, devices: &Arc<Devices>) {
        let (expression, points) = (KERNEL.parse::<Expression>().unwrap(), points(self.n, 2, self.n as u64));
        let (n, expected) = (self.n, covariances(&expression, &points, 0.5));
        let found = self.factored::<T>(devices, &mut on_threads(2)).expect("a factor");
        let wide: Vec<f64> = found.lower().into_iter().map(Number::wide).collect();
        let (bound, apart) = (2.0 * n as f64 * T::EPSILON * 2.6, apart(n, &wide, &expected));
        let Self { block, places, slots, .. } = self;
        assert!(
            apart <= bound,
            "{n} rows in blocks of {block} on {places} devices, {slots} parts of slots: {apart:e}, not {bound:e}"
        );
        let of_reference = reference::factor(n, &expected).unwrap();
        let most = wide.iter().zip(&of_reference).map(|(x, y)| (x - y).abs()).fold(0.0, f64::max);
        assert!(most <= 20.0 * bound, "{n} rows, {slots} parts of slots: {most:e} from the reference");
    }
}

/// Devices as which the first one appears.
fn several(count: usize) -> Arc<Devices> {
    let plan = Plan { appears_as: count, ..Plan::default() };
    Faulty::devices(plan, Options::default()).1.expect("devices")
}

#[test]
fn devices_and_slots_make_the_factor_in_any_shares() {
    if !has_device("devices_and_slots_make_the_factor_in_any_shares") {
        return;
    }
    let one = devices();
    for (n, block, slots) in [
        (100, 1, PARTS),
        (129, 1, 500),
        (800, 1, 300),
        (800, 2, 500),
        (650, 2, 850),
        (520, 1, PARTS),
        (520, 3, 400),
    ] {
        let case = Case::of(n, block, 1, slots);
        Case { is_filled: n % 100 != 0, looks_ahead: n % 4 == 0, ..case }.check::<f64>(&one);
    }
    for (n, slots, is_filled) in [(520, 400, false), (300, 700, true), (400, PARTS, false)] {
        Case { is_filled, ..Case::of(n, 1, 1, slots) }.check::<f32>(&one);
    }
    for places in [2, 3] {
        let devices = several(places);
        for (n, block, slots, looks_ahead) in
            [(800, 1, 300, true), (800, 1, 120, false), (650, 1, 700, true), (900, 2, 500, true)]
        {
            Case { looks_ahead, ..Case::of(n, block, places, slots) }.check::<f64>(&devices);
        }
        Case { is_filled: true, ..Case::of(520, 1, places, 400) }.check::<f32>(&devices);
    }
    // A share of no block is none.
    assert!(!Case::of(800, 1, 1, 10).opened::<f64>(&one).is_with_slots());
}

#[test]
fn a_factor_of_given_shares_does_not_depend_on_the_number_of_slots() {
    if !has_device("a_factor_of_given_shares_does_not_depend_on_the_number_of_slots") {
        return;
    }
    let devices = several(2);
    for places in [1, 2] {
        let case = Case::of(700, 1, places, 400);
        let expected = case.factored::<f64>(&devices, &mut one_by_one()).expect("a factor").lower();
        for (threads, looks_ahead) in [(1, false), (2, true), (5, true), (3, false)] {
            let found = Case { looks_ahead, ..case }.factored::<f64>(&devices, &mut on_threads(threads));
            assert!(found.expect("a factor").lower() == expected, "{threads} threads, {places} devices");
        }
    }
}

#[test]
fn a_pivot_is_named_whoever_meets_it() {
    if !has_device("a_pivot_is_named_whoever_meets_it") {
        return;
    }
    let devices = several(2);
    for (places, slots) in [(1, 500), (2, 400), (1, 250), (1, PARTS)] {
        let case = Case::of(600, 1, places, slots);
        for bad in [0, 130, 300, 390, 599] {
            // Later rows fail too, and are not named.
            let entry = |row: usize, column: usize| match row == column {
                true if row == bad || row == bad + 40 => -1.0,
                true => 4.0,
                false => 0.0,
            };
            let tiles = TiledMatrix::new(600, TILE, entry);
            let mut matrix = case.opened::<f64>(&devices);
            let failed = matrix.factor_with_slots(&tiles, None, &mut on_threads(2));
            assert_eq!(failed, Err(Unfactored::NotPositiveDefinite { row: bad }), "{places}, {slots}");
        }
    }
}

#[test]
fn work_of_devices_and_slots_ends_when_it_is_cancelled() {
    if !has_device("work_of_devices_and_slots_ends_when_it_is_cancelled") {
        return;
    }
    let devices = devices();
    let case = Case::of(500, 1, 1, 500);
    let calls = AtomicUsize::new(0);
    let until = |last: usize| {
        calls.store(0, Ordering::Relaxed);
        let mut slots = |count: usize, f: &(dyn Fn(usize) + Sync)| {
            let is_left = calls.fetch_add(1, Ordering::Relaxed) < last;
            (0..if is_left { count } else { 0 }).for_each(f);
            is_left
        };
        case.factored::<f64>(&devices, &mut slots).map(|_| ())
    };
    assert_eq!(until(usize::MAX), Ok(()));
    let all = calls.load(Ordering::Relaxed);
    for last in 0..all {
        assert_eq!(until(last), Err(Unfactored::Cancelled), "at call {last} of {all}");
    }
}

#[test]
fn a_device_that_fails_beside_slots_is_an_error_or_costs_nothing() {
    if !has_device("a_device_that_fails_beside_slots_is_an_error_or_costs_nothing") {
        return;
    }
    let case = Case::of(400, 1, 1, 500);
    let (whole, opened) = Faulty::devices(Plan::default(), Options::default());
    let opened = opened.expect("a device");
    let opening = whole.calls();
    let expected = case.factored::<f64>(&opened, &mut one_by_one()).expect("a factor").lower();
    let calls = whole.calls() - opening;
    for step in 0..16 {
        let (call, for_good) = (opening + 1 + calls * step / 16, step % 2 == 1);
        let (_, devices) = Faulty::devices(Plan { call, for_good, ..Plan::default() }, Options::default());
        let places = [0];
        let choices = Choices { block: Some(1), slots: case.slots, ..Choices::default() };
        let devices = devices.expect("the device opens");
        let opened = DeviceMatrix::<f64>::open(&devices, &places, case.n, choices);
        let (expression, points) = (KERNEL.parse::<Expression>().unwrap(), points(case.n, 2, case.n as u64));
        let tiles = TiledMatrix::zeros(case.n, TILE);
        let made = opened.map_err(Unfactored::Device).and_then(|mut matrix| {
            matrix.factor_with_slots(&tiles, Some((&expression, &points, 0.5)), &mut one_by_one())
        });
        match made {
            Ok(()) => assert!(tiles.lower() == expected, "call {call}"),
            Err(error) => assert!(matches!(error, Unfactored::Device(_)), "call {call}: {error:?}"),
        }
    }
}

#[test]
fn panels_are_the_only_tiles_that_are_copied() {
    if !has_device("panels_are_the_only_tiles_that_are_copied") {
        return;
    }
    let devices = devices();
    let case = Case::of(512, 1, 1, 500);
    let mut matrix = case.opened::<f64>(&devices);
    assert_eq!(matrix.columns_of_slots(), 256);
    let (expression, points) = (KERNEL.parse::<Expression>().unwrap(), points(512, 2, 512));
    let tiles = TiledMatrix::zeros(512, TILE);
    matrix.factor_with_slots(&tiles, Some((&expression, &points, 0.5)), &mut one_by_one()).expect("a factor");
    // Slots have columns 0 and 2: what lies below their diagonals goes to the device, and columns 1 and 3 come back.
    let panels = ((3 + 1 + 3 + 1) * NUMBERS * size_of::<f64>()) as u64;
    let copied = matrix.statistics().copied_bytes;
    assert!(copied >= panels && copied < panels + (16 << 10), "{copied} bytes, {panels} of panels");
}
