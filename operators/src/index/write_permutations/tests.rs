//! Permutations of devices beside those of slots, with devices that fail.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use boxwork_kernels::chance::Random;
use boxwork_kernels::interrupt::never;
use boxwork_kernels::vector::{NumberType, VectorRef};
use boxwork_runtime::feeding::Options;
use boxwork_runtime::feeding::faults::{Faulty, Plan, has_device};
use boxwork_runtime::harness::Harness;
use boxwork_stores::kinds::{Kind as _, Vectors};
use boxwork_stores::object_store::Rows;
use boxwork_stores::permutations::{Layout, Permutations};
use boxwork_stores::space::Space;
use boxwork_stores::spaces::{self, DistanceOptions};
use boxwork_stores::store::Store;

use super::*;
use crate::devices::stage::Sizes;

/// The numbers of vectors.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Numbers {
    Fractions,
    /// Few whole numbers, so that many distances are equal and exact.
    Whole,
    /// Distances that f32 cannot tell apart.
    Near,
    /// Squares leave f32.
    Large,
}

#[derive(Clone, Copy, Debug)]
struct Case {
    numbers: Numbers,
    dimensions: usize,
    objects: usize,
    pivots: usize,
    length: usize,
}

const USUAL: Case = Case { numbers: Numbers::Fractions, dimensions: 9, objects: 700, pivots: 40, length: 11 };
/// Blocks of several pieces of few vectors.
const SIZES: Sizes =
    Sizes { block: [300, u64::MAX], block_min: [1, 1], slots: [100, 100], blocks_per_device: 2 };

/// The operator, which says how many lists devices were certain of.
struct Counted {
    operator: WritePermutations,
    on_devices: Arc<AtomicU64>,
}

impl Operator for Counted {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        let flow = self.operator.process(cx)?;
        self.on_devices.store(self.operator.stage.task_mut().on_devices, Ordering::Relaxed);
        Ok(flow)
    }
}

fn space(case: &Case) -> Arc<dyn Space> {
    let (mut rows, mut random) = (Rows::new(Vectors::of(case.dimensions, NumberType::F32)), Random::new(3));
    for row in 0..case.objects {
        let mut number = || match case.numbers {
            Numbers::Fractions => random.normal_f32(),
            Numbers::Whole => random.below(4) as f32,
            Numbers::Near => 1000.0 + random.below(3) as f32 * 1e-4,
            Numbers::Large => random.normal_f32() * 1e30,
        };
        let numbers: Vec<f32> = (0..case.dimensions).map(|_| number()).collect();
        rows.push(&row.to_string(), |builder| Vectors::push(builder, VectorRef::F32(&numbers))).unwrap();
    }
    let store: Arc<dyn Store> =
        Arc::new(rows.finish_without(vec![2, 5], Path::new("vectors"), None).unwrap());
    spaces::open(&DistanceOptions::named("l2"), store).unwrap()
}

/// Writes permutations on devices with these faults, and compares them with those of slots. Returns the calls of the driver, and the
/// lists that devices were certain of.
fn check(case: &Case, faults: Plan) -> (u64, u64) {
    let (folder, space) = (tempfile::tempdir().unwrap(), space(case));
    let write = |name: &str, devices| {
        let out = folder.path().join(name);
        let Case { pivots, length, .. } = *case;
        let wanted = Wanted { space: Arc::clone(&space), pivots, length, seed: 4, out: out.clone() };
        let task = AllLists::new(wanted, 2, None);
        let operator = WritePermutations { stage: DeviceStage::new(task, SIZES, devices) };
        let on_devices = Arc::new(AtomicU64::new(0));
        let counted = Counted { operator, on_devices: Arc::clone(&on_devices) };
        let mut harness = Harness::of(&WRITE_PERMUTATIONS, Box::new(counted));
        while !harness.is_done() {
            harness.run().unwrap();
        }
        (fs::read(&out).unwrap(), on_devices.load(Ordering::Relaxed))
    };
    let (expected, none) = write("slots.permutations.arrow", None);
    assert_eq!(none, 0);
    let cache = Some(std::env::temp_dir().join("boxwork-test-programs"));
    let (driver, devices) = Faulty::devices(faults, Options { cache, ..Options::default() });
    let Ok(devices) = devices else { return (driver.calls(), 0) };
    let allowed: Arc<[usize]> = (0..devices.list().len()).collect();
    let (found, made) = write("devices.permutations.arrow", Some((devices, allowed)));
    assert!(found == expected, "{case:?} has other lists on devices");
    let path = folder.path().join("devices.permutations.arrow");
    Permutations::open(&path, &space, Layout::Scan, &never).unwrap();
    (driver.calls(), made)
}

#[test]
fn permutations_of_devices_have_the_bits_of_slots() {
    if !has_device("permutations_of_devices_have_the_bits_of_slots") {
        return;
    }
    let sound = |case: Case| check(&case, Plan { appears_as: 1, ..Plan::default() }).1;
    let all = USUAL.objects as u64 - 2;
    // f32 is certain of nearly all distances with fractions, and of all that are whole; ties go by pivot.
    assert!(sound(USUAL) > all * 9 / 10);
    assert_eq!(sound(Case { numbers: Numbers::Whole, ..USUAL }), all);
    assert!(sound(Case { numbers: Numbers::Near, ..USUAL }) < all);
    assert_eq!(sound(Case { numbers: Numbers::Large, ..USUAL }), 0);
    for (pivots, length) in
        [(1, 1), (16, 15), (16, 16), (17, 3), (128, 32), (300, 20), (512, 511), (600, 600)]
    {
        sound(Case { pivots, length, ..USUAL });
        sound(Case { pivots, length, numbers: Numbers::Whole, ..USUAL });
    }
    for dimensions in [1, 31, 32, 33, 100] {
        sound(Case { dimensions, ..USUAL });
    }
    let many = Case { objects: 2110, pivots: 2100, length: 700, dimensions: 3, ..USUAL };
    sound(many);
    sound(Case { length: 1024, numbers: Numbers::Whole, ..many });
    // Devices share the blocks, of which each is a batch of the file here; the order of the lists stays.
    check(&Case { objects: 9000, ..USUAL }, Plan { appears_as: 3, ..Plan::default() });
}

#[test]
fn devices_that_fail_change_no_permutation() {
    if !has_device("devices_that_fail_change_no_permutation") {
        return;
    }
    for appears_as in [1, 2] {
        let (calls, _) = check(&USUAL, Plan { appears_as, ..Plan::default() });
        for call in (1..calls).step_by(7) {
            for for_good in [false, true] {
                check(&USUAL, Plan { call, for_good, appears_as, ..Plan::default() });
            }
        }
    }
    // Lists of slots and of devices follow each other in the file.
    let long = Case { objects: 17_000, pivots: 8, length: 3, ..USUAL };
    let (calls, made) = check(&long, Plan { appears_as: 2, ..Plan::default() });
    assert!(made > 15_000);
    for call in (1..calls).step_by(calls as usize / 3 + 1) {
        check(&long, Plan { call, appears_as: 2, ..Plan::default() });
    }
}
