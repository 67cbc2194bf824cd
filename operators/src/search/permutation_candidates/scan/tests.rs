//! Candidates of devices beside those of slots, with devices that fail.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_array::StringArray;
use boxwork_kernels::chance::Random;
use boxwork_kernels::interrupt::never;
use boxwork_kernels::permutation::Measure;
use boxwork_kernels::vector::{NumberType, VectorRef};
use boxwork_runtime::feeding::faults::{Faulty, Plan, has_device};
use boxwork_runtime::feeding::{Devices, Options};
use boxwork_runtime::harness::Harness;
use boxwork_runtime::operator::{Flow, Operator};
use boxwork_stores::kinds::{Kind as _, Vectors};
use boxwork_stores::object_store::Rows;
use boxwork_stores::permutations::{Layout, PermutationMaker, PermutationWriter};
use boxwork_stores::space::Space;
use boxwork_stores::spaces::{self, DistanceOptions};
use boxwork_stores::store::Store;

use super::super::PERMUTATION_CANDIDATES;
use super::*;
use crate::devices::stage::DeviceStage;

/// The operator, which says for how many queries devices have found the candidates.
struct Counted {
    operator: DeviceStage<CandidatesScan>,
    on_devices: Arc<AtomicU64>,
}

impl Operator for Counted {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        let flow = self.operator.process(cx)?;
        self.on_devices.store(self.operator.task_mut().on_devices, Ordering::Relaxed);
        Ok(flow)
    }
}

/// Permutations of vectors of few whole numbers, so that many measures are equal; two objects are removed.
fn permutations(objects: usize, pivots: usize, length: usize) -> Arc<Permutations> {
    let dimensions = 5;
    let (mut rows, mut random) = (Rows::new(Vectors::of(dimensions, NumberType::F32)), Random::new(3));
    for row in 0..objects {
        let numbers: Vec<f32> = (0..dimensions).map(|_| random.below(6) as f32).collect();
        rows.push(&row.to_string(), |builder| Vectors::push(builder, VectorRef::F32(&numbers))).unwrap();
    }
    let store: Arc<dyn Store> =
        Arc::new(rows.finish_without(vec![2, 5], Path::new("vectors"), None).unwrap());
    let space: Arc<dyn Space> = spaces::open(&DistanceOptions::named("l2"), store).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("some.permutations.arrow");
    let maker = PermutationMaker::choose(&space, pivots, length, 1, &never).unwrap();
    let mut writer = PermutationWriter::create(&path, &maker).unwrap();
    let (mut lists, ids) = (Vec::new(), space.store().among(0..objects as u64).collect::<Vec<_>>());
    maker.append(&ids, &mut lists, &never).unwrap();
    writer.push(&lists).unwrap();
    writer.finish().unwrap();
    Arc::new(Permutations::open(&path, &space, Layout::Scan, &never).unwrap())
}

/// Devices, and the numbers of those that are used.
type Allowed = (Arc<Devices>, Arc<[usize]>);

type Candidates = (Vec<(u32, Vec<u64>)>, u64);

fn candidates(
    permutations: &Arc<Permutations>,
    (comparison, count): (Comparison, usize),
    devices: Option<Allowed>,
) -> Candidates {
    let scanned = devices.as_ref().and_then(|_| Scanned::new(permutations, comparison, count));
    let task = CandidatesScan::new(Arc::clone(permutations), (comparison, count), 2, scanned, None);
    let on_devices = Arc::new(AtomicU64::new(0));
    let operator =
        Counted { operator: DeviceStage::new(task, SIZES, devices), on_devices: Arc::clone(&on_devices) };
    let mut harness = Harness::of(&PERMUTATION_CANDIDATES, Box::new(operator));
    harness.room(2);
    let ids: Vec<u64> = (10..80).collect();
    let objects = permutations.maker().space().store().objects(&ids).unwrap();
    let names: ArrayRef = Arc::new(StringArray::from_iter_values(ids.iter().map(u64::to_string)));
    let numbers: ArrayRef = Arc::new(UInt32Array::from_iter_values(0..ids.len() as u32));
    let columns = [("query", numbers), ("name", names), ("object", objects)];
    harness.give(QUERIES, Envelope::from_columns(columns).unwrap());
    let mut found = Vec::new();
    while !harness.is_done() {
        harness.run().unwrap();
        for envelope in harness.taken(CANDIDATES) {
            let query = envelope.u32s("query").unwrap()[0];
            found.push((query, envelope.u64s("id").unwrap().to_vec()));
        }
    }
    assert_eq!(found.len(), ids.len());
    (found, on_devices.load(Ordering::Relaxed))
}

/// Compares the candidates on devices with these faults with those of slots. Returns the calls of the driver, and the queries for which
/// devices have found them.
fn check(permutations: &Arc<Permutations>, wanted: (Comparison, usize), faults: Plan) -> (u64, u64) {
    let (expected, none) = candidates(permutations, wanted, None);
    assert_eq!(none, 0);
    let cache = Some(std::env::temp_dir().join("boxwork-test-programs"));
    let (driver, devices) = Faulty::devices(faults, Options { cache, ..Options::default() });
    let Ok(devices) = devices else { return (driver.calls(), 0) };
    let allowed: Arc<[usize]> = (0..devices.list().len()).collect();
    let (found, on_devices) = candidates(permutations, wanted, Some((devices, allowed)));
    assert!(found == expected, "{wanted:?}: other candidates on devices");
    (driver.calls(), on_devices)
}

#[test]
fn candidates_of_devices_are_those_of_slots() {
    if !has_device("candidates_of_devices_are_those_of_slots") {
        return;
    }
    let (footrule, rho) = (Comparison::from(Measure::Footrule), Comparison::from(Measure::Rho));
    let some = Comparison { query_pivots: 5, max_shift: 3, ..footrule };
    for (pivots, length) in [(1, 1), (128, 32), (128, 128), (300, 20)] {
        let permutations = permutations(3500, pivots, length);
        for (comparison, count) in [(footrule, 1), (footrule, 90), (rho, 90), (some, 3000)] {
            let found =
                check(&permutations, (comparison, count), Plan { appears_as: 1, ..Plan::default() }).1;
            assert_eq!(found, 70, "{comparison:?} of {length} of {pivots} pivots");
        }
    }
    // Devices share the queries; their order stays.
    check(&permutations(600, 40, 11), (footrule, 20), Plan { appears_as: 3, ..Plan::default() });
}

#[test]
fn devices_that_fail_change_no_candidate() {
    if !has_device("devices_that_fail_change_no_candidate") {
        return;
    }
    let (permutations, wanted) = (permutations(2500, 40, 11), (Comparison::from(Measure::Footrule), 20));
    for appears_as in [1, 2] {
        let (calls, _) = check(&permutations, wanted, Plan { appears_as, ..Plan::default() });
        for call in (1..calls).step_by(9) {
            for for_good in [false, true] {
                check(&permutations, wanted, Plan { call, for_good, appears_as, ..Plan::default() });
            }
        }
    }
}
