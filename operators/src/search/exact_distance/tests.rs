//! Tests of the `exact_distance` box, on slots and on devices.

use arrow_array::{ArrayRef, StringArray, UInt32Array};
use boxwork_kernels::chance::Random;
use boxwork_kernels::similarity::{Ground, Measure, Similarity};
use boxwork_kernels::sqfd::Columns;
use boxwork_runtime::feeding::faults::{Faulty, Plan, has_device};
use boxwork_runtime::feeding::{Devices, Options};
use boxwork_runtime::harness::Harness;
use boxwork_runtime::operator::Resource;
use boxwork_runtime::parameter::Value;

use super::*;
use boxwork_stores::signature::SignatureBuilder;
use boxwork_stores::signature_store::{SignatureStore, StoreInfo, StoreWriter};
use boxwork_stores::sqfd_space::SqfdSpace;
use boxwork_stores::testing;

#[test]
fn distances_on_slots_are_those_that_results_report() {
    let folder = tempfile::tempdir().unwrap();
    let space = testing::space(testing::store(folder.path(), 50));
    let queries = testing::queries(&[("a", 7), ("b", 9000)]);
    let prepared = Queries::new(std::slice::from_ref(&queries), &testing::any_space(&space)).unwrap();
    let resource: Resource = testing::shared_space(&space);
    let given = [("space", Value::Text("s".into())), ("device", Value::Text("cpu".into()))];
    let mut harness = Harness::with_resources(&EXACT_DISTANCE, given, [("s", resource)]).unwrap();
    harness.give(QUERY, queries);
    let rows: Vec<(u32, u64)> = (0..90).map(|idx| (idx / 7 % 2, u64::from(idx) * 17 % 50)).collect();
    harness.give(CANDIDATES, testing::candidates(&rows));
    harness.end(CANDIDATES);
    harness.run().unwrap();
    assert!(harness.is_done());
    assert_eq!(harness.announced(), 1, "whoever sends goes on while an envelope is computed");
    let found = testing::distance_rows(&harness.taken(DISTANCES));
    assert_eq!(found, expected(&prepared, &rows));
}

fn expected(queries: &Queries, rows: &[(u32, u64)]) -> Vec<(u32, u64, f64)> {
    let of_row =
        |(number, id): &(u32, u64)| (*number, *id, queries.at(*number as usize).exact(&[*id]).unwrap()[0]);
    rows.iter().map(of_row).collect()
}

fn devices(plan: Plan) -> (Arc<Faulty>, Option<Arc<Devices>>) {
    let cache = Some(std::env::temp_dir().join("boxwork-test-programs"));
    let (driver, devices) = Faulty::devices(plan, Options { cache, ..Options::default() });
    (driver, devices.ok())
}

/// A box on these devices that sends small blocks and checks every sum.
fn on(space: &Arc<SqfdSpace>, devices: &Arc<Devices>) -> DeviceStage<ExactDistance> {
    let allowed: Arc<[usize]> = (0..devices.list().len()).collect();
    let picked = Picked { devices: Some((Arc::clone(devices), allowed)), reason: String::new() };
    // Small blocks, so that several are under way at once.
    let sizes = Sizes { block: [50, u64::MAX], ..SIZES };
    stage(testing::any_space(space), picked, sizes, usize::MAX)
}

/// Gives all candidates of the queries in envelopes of at most `rows_max` rows, and checks that all come out in order,
/// to the bit.
fn check(space: &Arc<SqfdSpace>, queries: &Envelope, devices: &Arc<Devices>, rows_max: usize) -> usize {
    let prepared = Queries::new(std::slice::from_ref(queries), &testing::any_space(space)).unwrap();
    let mut harness = Harness::of(&EXACT_DISTANCE, Box::new(on(space, devices)));
    harness.room(2);
    harness.give(QUERY, queries.clone());
    let ids: Vec<u64> = space.store().among(0..space.store().len()).collect();
    let mut rows = Vec::new();
    for ids in ids.chunks((rows_max / queries.rows()).max(1)) {
        let of_envelope: Vec<(u32, u64)> =
            prepared.iter().flat_map(|query| ids.iter().map(|id| (query.number, *id))).collect();
        harness.give(CANDIDATES, testing::candidates(&of_envelope));
        rows.extend(of_envelope);
    }
    harness.end(CANDIDATES);
    let mut found = Vec::new();
    while !harness.is_done() {
        harness.run().unwrap();
        found.extend(testing::distance_rows(&harness.taken(DISTANCES)));
    }
    assert_eq!(harness.problems(), [], "a device's sums are not the reference's");
    let expected = expected(&prepared, &rows);
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(&expected) {
        assert_eq!((found.0, found.1, found.2.to_bits()), (expected.0, expected.1, expected.2.to_bits()));
    }
    rows.len()
}

/// Calls `check` on devices that may fail at a call; returns the number of calls.
fn check_with(space: &Arc<SqfdSpace>, plan: Plan, rows: usize) -> u64 {
    let (is_lost, is_sound) = (plan.for_good, plan.call == 0);
    let (driver, devices) = devices(plan);
    let Some(devices) = devices else { return driver.calls() };
    let queries = testing::queries(&[("a", 7), ("b", 9000), ("c", 12)]);
    check(space, &queries, &devices, rows);
    if is_sound {
        let blocks: u64 = devices.statistics().iter().map(|of_device| of_device.blocks).sum();
        assert!(blocks > 0 && devices.take_warnings().is_empty(), "all on devices");
    } else {
        assert!(devices.take_warnings().len() <= 2, "warned more than once");
    }
    drop(devices);
    assert!(is_lost || driver.left().is_empty(), "{:?} are left", driver.left());
    driver.calls()
}

#[test]
fn exact_distances_come_from_devices_or_in_spite_of_them() {
    if !has_device("exact_distances_come_from_devices_or_in_spite_of_them") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let space = testing::space(testing::store(folder.path(), 90));
    for (rows, appears_as) in [(5000, 1), (7, 2), (60, 3)] {
        check_with(&space, Plan { appears_as, ..Plan::default() }, rows);
    }
    let calls = check_with(&space, Plan { appears_as: 1, ..Plan::default() }, 60);
    for call in 1..calls {
        for for_good in [false, true] {
            check_with(&space, Plan { call, for_good, appears_as: 1, ..Plan::default() }, 60);
        }
    }
}

#[test]
fn a_device_without_numbers_of_64_bits_leaves_all_to_the_slots() {
    if !has_device("a_device_without_numbers_of_64_bits_leaves_all_to_the_slots") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let space = testing::space(testing::store(folder.path(), 90));
    // The compiler of such a device rejects the program.
    let (_, devices) = devices(Plan { compiles_not_on: Some(0), appears_as: 1, ..Plan::default() });
    let devices = devices.unwrap();
    check(&space, &testing::queries(&[("a", 7), ("b", 9)]), &devices, 10);
    // One warning about the failure, one that the device is no longer used.
    let warnings = devices.take_warnings();
    assert!(warnings.len() <= 2 && warnings[0].contains("made to refuse"), "{warnings:?}");
    assert_eq!(devices.statistics()[0].blocks, 0);
}

#[test]
fn sums_that_are_not_the_reference_s_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let space = testing::space(testing::store(folder.path(), 9));
    let queries = Queries::new(&[testing::queries(&[("a", 7)])], &testing::any_space(&space)).unwrap();
    let common = Arc::new(Common::new(&space, &Arc::new(queries)).unwrap());
    let rows: Vec<(u32, u64)> = (0..9).map(|id| (0, id)).collect();
    let mut made = ExactBlock::new(&common, Vec::new(), rows, 1);
    let signature = testing::queries(&[("a", 7)]);
    let lists = boxwork_stores::signature::SignatureColumns::new(signature.lists("object").unwrap()).unwrap();
    made.sums = (0..9)
        .map(|id| {
            let of_object = |objects: boxwork_stores::signature_store::Objects<'_>| {
                let object = objects.signature(id)?;
                Ok::<_, BoxError>(boxwork_kernels::sqfd::reference::sigma(
                    &space.measure(),
                    lists.signature(0),
                    object,
                ))
            };
            space.store().read(of_object).unwrap()
        })
        .collect();
    for count in [1, 4, 100] {
        assert!(made.is_as_reference(count).unwrap());
    }
    made.sums[5] = made.sums[5].next_up();
    assert!(!made.is_as_reference(100).unwrap(), "one unit in the last place of one sum");
    assert!(made.is_as_reference(1).unwrap(), "the first alone is looked at");
}

type Signature = (Vec<Vec<f32>>, Vec<f32>);

/// Signatures of these sizes; after each its double, a near double, and one far from all others.
fn adversaries(seed: u64, dimensions: usize, sizes: &[usize]) -> Vec<Signature> {
    let mut random = Random::new(seed);
    let mut all = Vec::new();
    for size in sizes {
        let mut column =
            |from: f32, by: f32| -> Vec<f32> { (0..*size).map(|_| from + by * random.unit_f32()).collect() };
        let columns: Vec<Vec<f32>> = (0..dimensions).map(|_| column(-1.0, 2.0)).collect();
        let weights = column(1e-3, 1.0);
        let moved = |by: f32| columns.iter().map(|column| column.iter().map(|x| x + by).collect()).collect();
        all.push((columns.clone(), weights.clone()));
        all.push((columns.clone(), weights.clone()));
        all.push((moved(1e-6), weights.clone()));
        // At this distance similarities turn from normal numbers to zero.
        all.push((moved(15.0), weights));
    }
    all
}

/// A store of signatures, and a query for each of them.
fn store_of(folder: &std::path::Path, signatures: &[Signature]) -> (Arc<SignatureStore>, Envelope) {
    let names: Vec<String> = (0..signatures[0].0.len()).map(|d| format!("c{d}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let path = folder.join("adversaries.signatures.arrow");
    let mut writer = StoreWriter::create(&path, &names, &StoreInfo::default()).unwrap();
    let mut builder = SignatureBuilder::new(&names).unwrap();
    for (nth, (columns, weights)) in signatures.iter().enumerate() {
        let columns: Vec<&[f32]> = columns.iter().map(Vec::as_slice).collect();
        let signature = Columns::new(&columns, weights).signature(0, weights.len());
        writer.push(&nth.to_string(), signature, 0, 0).unwrap();
        builder.push_signature(signature).unwrap();
    }
    writer.finish().unwrap();
    let columns: [(&str, ArrayRef); 3] = [
        ("query", Arc::new(UInt32Array::from_iter_values(0..signatures.len() as u32))),
        ("name", Arc::new(StringArray::from(vec!["q"; signatures.len()]))),
        ("object", Arc::new(builder.finish())),
    ];
    (Arc::new(SignatureStore::open(&path).unwrap()), Envelope::from_columns(columns).unwrap())
}

#[test]
fn a_device_s_sums_have_the_reference_s_bits() {
    if !has_device("a_device_s_sums_have_the_reference_s_bits") {
        return;
    }
    let (driver, devices) = devices(Plan::default());
    let devices = devices.unwrap();
    let (mut rows, mut seed) = (0, 0);
    let mut check_all = |similarity, ground, alpha, dimensions, sizes: &[usize]| {
        seed += 1;
        let folder = tempfile::tempdir().unwrap();
        let (store, queries) = store_of(folder.path(), &adversaries(seed, dimensions, sizes));
        let space = Arc::new(SqfdSpace::new(store, Measure::new(similarity, ground, alpha).unwrap()));
        rows += check(&space, &queries, &devices, 200);
    };
    for dimensions in 1..10 {
        for alpha in [0.01, 0.2, 1.28, 3.0] {
            check_all(Similarity::Gaussian, Ground::L2, alpha, dimensions, &[1, 2, 17, 40]);
        }
    }
    check_all(Similarity::Gaussian, Ground::L2, 0.2, 7, &[300, 1, 299, 128]);
    for similarity in [Similarity::Heuristic, Similarity::Minus] {
        for ground in [Ground::L1, Ground::L2, Ground::SquaredL2] {
            check_all(similarity, ground, 0.3, 7, &[1, 16, 60]);
            check_all(similarity, ground, 3.0, 2, &[3, 5, 230]);
        }
    }
    assert!(rows > 9 * 4 * 256);
    assert_eq!(devices.take_warnings(), [""; 0], "the device did all of it");
    drop(devices);
    assert_eq!(driver.left(), []);
}
