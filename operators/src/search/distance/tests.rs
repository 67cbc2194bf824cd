//! Distances are within the declared error, on the slots and on devices that work, fail or drop rows.

mod of_ranges;

use std::path::Path;

use boxwork_kernels::interrupt::never;
use boxwork_kernels::similarity::{Ground, Measure, Similarity};
use boxwork_kernels::sqfd::Columns;
use boxwork_runtime::feeding::faults::{Faulty, Plan, has_device};
use boxwork_runtime::feeding::{Devices, Options, SharedKey};
use boxwork_runtime::harness::Harness;
use boxwork_runtime::operator::Resource;

use boxwork_runtime::parameter::Value;

use super::*;
use crate::search::queries::Query;
use boxwork_kernels::sqfd::distance_error;
use boxwork_stores::signature::SignatureBuilder;
use boxwork_stores::signature_store::{SignatureStore, StoreError, StoreInfo, StoreWriter};
use boxwork_stores::sqfd_space::SqfdSpace;
use boxwork_stores::testing;

#[test]
fn distances_are_near_the_exact_ones_whatever_the_order_of_rows() {
    let folder = tempfile::tempdir().unwrap();
    let space = testing::space(testing::store(folder.path(), 4200));
    let queries = testing::queries(&[("a", 7), ("b", 9000)]);
    let prepared = Queries::new(std::slice::from_ref(&queries), &testing::any_space(&space)).unwrap();
    let resource: Resource = testing::shared_space(&space);
    let mut harness =
        Harness::with_resources(&SQFD, [("space", Value::Text("s".into()))], [("s", resource)]).unwrap();
    harness.give(QUERY, queries);
    let rows: Vec<(u32, u64)> = (0..500).map(|idx| ((idx % 2) as u32, (idx * 1733) % 4200)).collect();
    harness.give(CANDIDATES, testing::candidates(&rows));
    harness.give(CANDIDATES, testing::candidates(&[(1, 0), (1, 4199)]));
    harness.end(CANDIDATES);
    harness.run().unwrap();
    assert!(harness.is_done());
    assert_eq!(harness.detached(), ["disk"]);
    assert_eq!(harness.announced(), 2, "whoever sends goes on while an envelope is computed");
    let found = testing::distance_rows(&harness.taken(DISTANCES));
    assert_eq!(found.len(), 502);
    for (row, (number, id, distance)) in found.into_iter().enumerate() {
        if row < 500 {
            assert_eq!((number, id), rows[row]);
        }
        let query = prepared.at(number as usize);
        let exact = query.exact(&[id]).unwrap()[0];
        assert!((distance - exact).abs() <= query.sqfd().prepared().distance_error(exact, 0.0) + 1e-12);
    }
}

#[test]
fn rows_of_no_query_and_no_object_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let space = testing::space(testing::store(folder.path(), 5));
    for (row, words) in [((3, 0), "query 3"), ((0, 5), "5")] {
        let resource: Resource = testing::shared_space(&space);
        let mut harness =
            Harness::with_resources(&SQFD, [("space", Value::Text("s".into()))], [("s", resource)]).unwrap();
        harness.give(QUERY, testing::queries(&[("a", 1)]));
        harness.give(CANDIDATES, testing::candidates(&[row]));
        let error = harness.run().unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
}

/// Devices of one test; the cache of their programs stays between runs.
fn devices(plan: Plan, memory_bytes: Option<u64>) -> (Arc<Faulty>, Arc<Devices>) {
    devices_with(plan, Options { memory_bytes, ..Options::default() })
}

fn devices_with(plan: Plan, options: Options) -> (Arc<Faulty>, Arc<Devices>) {
    let cache = Some(std::env::temp_dir().join("boxwork-test-programs"));
    let (driver, devices) = Faulty::devices(plan, Options { cache, ..options });
    (driver, devices.unwrap())
}

/// A store of signatures of the given sizes, with coordinates within `spread` of 0.
fn store_of_sizes(folder: &Path, dimensions: usize, sizes: &[usize], spread: f32) -> Arc<SignatureStore> {
    let path = folder.join("sizes.signatures.arrow");
    let names: Vec<String> = (0..dimensions).map(|d| format!("x{d}")).collect();
    let mut writer = StoreWriter::create(&path, &names, &StoreInfo::default()).unwrap();
    let mut state = 12345u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1 << 24) as f32
    };
    for (idx, size) in sizes.iter().enumerate() {
        let columns: Vec<Vec<f32>> =
            (0..dimensions).map(|_| (0..*size).map(|_| (2.0 * next() - 1.0) * spread).collect()).collect();
        let columns: Vec<&[f32]> = columns.iter().map(Vec::as_slice).collect();
        let raw: Vec<f32> = (0..*size).map(|_| 0.05 + next()).collect();
        let sum: f32 = raw.iter().sum();
        let weights: Vec<f32> = raw.iter().map(|weight| weight / sum).collect();
        let columns = Columns::new(&columns, &weights);
        writer.push(&idx.to_string(), columns.signature(0, *size), 0, 0).unwrap();
    }
    writer.finish().unwrap();
    Arc::new(SignatureStore::open(&path).unwrap())
}

/// Objects of the store as queries.
fn queries_of(store: &SignatureStore, ids: &[u64]) -> Envelope {
    let names: Vec<&str> = store.coordinates().iter().map(String::as_str).collect();
    let mut builder = SignatureBuilder::new(&names).unwrap();
    store
        .read::<_, StoreError>(|objects| {
            for id in ids {
                let signature = objects.signature(*id)?;
                let columns: Vec<&[f32]> =
                    (0..signature.dimensions()).map(|d| signature.coordinate(d)).collect();
                builder.push(&columns, signature.weights()).unwrap();
            }
            Ok(())
        })
        .unwrap();
    let columns: [(&str, ArrayRef); 3] = [
        ("query", Arc::new(arrow_array::UInt32Array::from_iter_values(0..ids.len() as u32))),
        ("name", Arc::new(arrow_array::StringArray::from_iter_values(ids.iter().map(u64::to_string)))),
        ("object", Arc::new(builder.finish())),
    ];
    Envelope::from_columns(columns).unwrap()
}

/// Gives a box on these devices some envelopes and compares each distance with the reference. Returns the box's
/// progress.
fn check(
    space: &Arc<SqfdSpace>,
    devices: &Arc<Devices>,
    queries: &Envelope,
    envelopes: &[Vec<(u32, u64)>],
) -> (u64, u64) {
    let prepared = Queries::new(std::slice::from_ref(queries), &testing::any_space(space)).unwrap();
    let allowed: Vec<usize> = (0..devices.list().len()).collect();
    let picked = Picked {
        devices: Some((Arc::clone(devices), allowed.into())),
        reason: "the test has picked".to_owned(),
    };
    let mut harness =
        Harness::of(&SQFD, Box::new(stage(testing::any_space(space), picked, Criteria::default())));
    harness.give(QUERY, queries.clone());
    for rows in envelopes {
        harness.give(CANDIDATES, testing::candidates(rows));
    }
    harness.end(CANDIDATES);
    harness.run().unwrap();
    assert!(harness.is_done());
    let (held, all) = harness.progress();
    assert!(held <= all && (all == 0 || all == space.store().len()));
    let mut given: Vec<&Vec<(u32, u64)>> = envelopes.iter().collect();
    let mut worst: f64 = 0.0;
    for envelope in harness.taken(DISTANCES) {
        let found = testing::distance_rows(&[envelope]);
        let rows: Vec<(u32, u64)> = found.iter().map(|row| (row.0, row.1)).collect();
        let place = given.iter().position(|given| **given == rows).expect("an envelope that was given");
        given.remove(place);
        for (number, id, distance) in found {
            let query = prepared.at(number as usize);
            let exact = query.exact(&[id]).unwrap()[0];
            query.prepared.see(&[id], &never).unwrap();
            let allowed = error_of(query, exact);
            assert!(
                (distance - exact).abs() <= allowed,
                "{number} {id}: {distance}, not {exact} within {allowed:e}"
            );
            worst = worst.max((distance - exact).abs());
        }
    }
    assert!(given.is_empty(), "an envelope was lost");
    assert!(worst < 1e-2, "{worst}");
    (held, all)
}

/// The largest error of a fast distance, given the exact one.
fn error_of(query: &Query, exact: f64) -> f64 {
    distance_error(query.sqfd().error_squared(exact), exact)
}

/// An envelope of ranges of ids, each with its query.
fn ranges(rows: &[(u32, u64, u64)]) -> Envelope {
    let columns: [(&str, ArrayRef); 3] = [
        ("query", Arc::new(arrow_array::UInt32Array::from_iter_values(rows.iter().map(|row| row.0)))),
        ("first", Arc::new(arrow_array::UInt64Array::from_iter_values(rows.iter().map(|row| row.1)))),
        ("count", Arc::new(arrow_array::UInt64Array::from_iter_values(rows.iter().map(|row| row.2)))),
    ];
    Envelope::from_columns(columns).unwrap()
}

/// Gives a box ranges, with or without devices, and compares its rows with the reference. Returns their number.
fn check_ranges(
    space: &Arc<SqfdSpace>,
    devices: Option<&Arc<Devices>>,
    criteria: Criteria,
    queries: &Envelope,
    given: &[Vec<(u32, u64, u64)>],
) -> usize {
    let prepared = Queries::new(std::slice::from_ref(queries), &testing::any_space(space)).unwrap();
    let all = |devices: &Arc<Devices>| (0..devices.list().len()).collect::<Vec<_>>().into();
    let picked = Picked {
        devices: devices.map(|devices| (Arc::clone(devices), all(devices))),
        reason: "the test has picked".to_owned(),
    };
    let mut harness = Harness::of(&SQFD, Box::new(stage(testing::any_space(space), picked, criteria)));
    harness.give(QUERY, queries.clone());
    for rows in given {
        harness.give(RANGES, ranges(rows));
    }
    harness.end(CANDIDATES);
    harness.end(RANGES);
    harness.run().unwrap();
    assert!(harness.is_done());
    let rows = testing::distance_rows(&harness.taken(DISTANCES));
    let mut found = std::collections::BTreeMap::new();
    for (number, id, distance) in &rows {
        assert_eq!(found.insert((*number, *id), *distance), None, "object {id} came twice");
    }
    for number in 0..prepared.iter().len() as u32 {
        let query = prepared.at(number as usize);
        let of_query = given.iter().flatten().filter(|row| row.0 == number);
        let wanted: Vec<u64> = of_query.flat_map(|row| space.store().among(row.1..row.1 + row.2)).collect();
        let exact = query.exact(&wanted).unwrap();
        let mut ranked = exact.clone();
        ranked.sort_by(f64::total_cmp);
        let kth = criteria.k.and_then(|k| ranked.get(k.saturating_sub(1))).copied().unwrap_or(f64::INFINITY);
        let farthest = kth.min(criteria.range.unwrap_or(f64::INFINITY));
        for (id, exact) in wanted.iter().zip(exact) {
            match found.remove(&(number, *id)) {
                Some(found) => {
                    let allowed = error_of(query, exact);
                    assert!(
                        (found - exact).abs() <= allowed,
                        "{id}: {found}, not {exact} within {allowed:e}"
                    );
                }
                None => assert!(criteria.may_drop() && exact > farthest, "{exact} of {farthest} is lost"),
            }
        }
    }
    assert!(found.is_empty(), "rows beyond the given ranges: {found:?}");
    rows.len()
}

#[test]
fn products_of_matrices_are_within_their_declared_error() {
    if !has_device("products_of_matrices_are_within_their_declared_error") {
        return;
    }
    let (driver, devices) = devices(Plan { compute_capability: Some((9, 0)), ..Plan::default() }, None);
    let folder = tempfile::tempdir().unwrap();
    // Rows of one step and of two; each takes half a minute to compile if matrix units are imitated.
    for (dimensions, alpha) in [(7, 0.2), (12, 1.0)] {
        // Smaller signatures, as imitated matrix units are slow.
        let store = store_of_sizes(folder.path(), dimensions, &ODD_SIZES.map(|size| size % 331 + 1), 2.0);
        let measure = Measure::new(Similarity::Gaussian, Ground::L2, alpha).unwrap();
        let space = Arc::new(SqfdSpace::new(store, measure));
        let queries = queries_of(space.store(), &[8, 0, 5, 13]);
        let all: Vec<(u32, u64, u64)> = (0..4).map(|number| (number, 0, 17)).collect();
        check_ranges(&space, Some(&devices), Criteria::default(), &queries, &[all]);
        let strewn: Vec<(u32, u64)> = (0..60).map(|idx| ((idx * 7 % 4) as u32, (idx * 5) % 17)).collect();
        check(&space, &devices, &queries, std::slice::from_ref(&strewn));
        // Short queries, for which candidates are read ahead: sizes 2, 3, 4 and 18.
        if dimensions == 7 {
            let queries = queries_of(space.store(), &[0, 1, 6, 12]);
            let all: Vec<(u32, u64)> =
                (0..4).flat_map(|number| (0..17).map(move |id| (number, id))).collect();
            check(&space, &devices, &queries, &[all, strewn]);
        }
    }
    assert_eq!(devices.take_warnings(), [""; 0]);
    drop(devices);
    assert_eq!(driver.left(), []);
}

const ODD_SIZES: [usize; 17] = [1, 2, 75, 127, 128, 129, 3, 230, 2048, 1, 64, 300, 17, 2500, 5, 81, 100];

#[test]
fn a_device_is_within_the_declared_error_for_every_measure_and_size() {
    if !has_device("a_device_is_within_the_declared_error_for_every_measure_and_size") {
        return;
    }
    let (driver, devices) = devices(Plan::default(), None);
    let folder = tempfile::tempdir().unwrap();
    let every = |number: u32| (0..ODD_SIZES.len() as u64).map(move |id| (number, id));
    let strewn: Vec<(u32, u64)> = (0..60).map(|idx| ((idx * 7 % 4) as u32, (idx * 5) % 17)).collect();
    for (dimensions, similarity, ground, alpha) in [
        (7, Similarity::Gaussian, Ground::L2, 0.2),
        (1, Similarity::Gaussian, Ground::L2, 3.0),
        (12, Similarity::Heuristic, Ground::L1, 0.3),
        (3, Similarity::Heuristic, Ground::L2, 0.3),
        (2, Similarity::Heuristic, Ground::SquaredL2, 1.0),
        (3, Similarity::Minus, Ground::L1, 1.0),
        (2, Similarity::Minus, Ground::L2, 1.0),
        (5, Similarity::Minus, Ground::SquaredL2, 1.0),
    ] {
        let store = store_of_sizes(folder.path(), dimensions, &ODD_SIZES, 2.0);
        let measure = Measure::new(similarity, ground, alpha).unwrap();
        let space = Arc::new(SqfdSpace::new(store, measure));
        // Sizes 2048, 1, 129 and 2500: among them more rows than local memory holds.
        let queries = queries_of(space.store(), &[8, 0, 5, 13]);
        let all: Vec<(u32, u64)> = (0..4).flat_map(every).collect();
        check(&space, &devices, &queries, &[all, every(2).collect(), vec![(1, 8)], strewn.clone()]);
    }
    assert_eq!(devices.take_warnings(), [""; 0], "the device did nothing");
    assert!(devices.statistics()[0].blocks > 0);
    drop(devices);
    assert_eq!(driver.left(), []);
}

#[test]
fn chunks_stay_on_a_device_or_pass_through_it() {
    if !has_device("chunks_stay_on_a_device_or_pass_through_it") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let space = testing::space(testing::store(folder.path(), 9000));
    let queries = testing::queries(&[("a", 7), ("b", 9000)]);
    let rows = |ids: std::ops::Range<u64>| -> Vec<(u32, u64)> {
        (0..2).flat_map(|number| ids.clone().map(move |id| (number, id))).collect()
    };
    let scan: Vec<Vec<(u32, u64)>> = (0..9).map(|idx| rows(1000 * idx..1000 * (idx + 1))).collect();
    for memory_bytes in [None, Some(700 << 10)] {
        let (driver, devices) = devices(Plan::default(), memory_bytes);
        let (held, _) = check(&space, &devices, &queries, &scan);
        assert_eq!(held, if memory_bytes.is_none() { 9000 } else { 0 }, "objects shown as brought in");
        let key = SharedKey { resource: space.store().number(), form: 0, part: 0 };
        assert_eq!(devices.list()[0].holds(key), memory_bytes.is_none());
        check(&space, &devices, &queries, &[rows(4000..4100), vec![(1, 17)], Vec::new()]);
        // A gathered object, then a chunk that is brought in: the kernel reads each in its own place.
        let (_, fresh) = self::devices(Plan::default(), memory_bytes);
        let mixed: Vec<(u32, u64)> = [(0, 5)].into_iter().chain((8192..9000).map(|id| (1, id))).collect();
        check(&space, &fresh, &queries, &[mixed]);
        // Nothing is left to bring in.
        assert_eq!(check(&space, &devices, &queries, &[rows(0..9000)]), (0, 0));
        drop(devices);
        assert_eq!(driver.left(), []);
    }
}

#[test]
fn what_a_device_leaves_out_is_no_answer() {
    if !has_device("what_a_device_leaves_out_is_no_answer") {
        return;
    }
    let (driver, devices) = devices(Plan::default(), None);
    let side = testing::queries(&[("a", 7), ("b", 9000)]);
    let all: Vec<u64> = (0..3000).collect();
    for (different, k, range, is_less) in [
        (700, Some(1), None, true),
        (700, Some(20), None, true),
        (700, Some(20), Some(0.2), true),
        (700, None, Some(0.1), true),
        (700, None, Some(1e9), false),
        (700, Some(400), None, false),
        (700, None, None, false),
        // All objects are at one distance, and the buffer is too small for them.
        (1, Some(1), None, false),
    ] {
        // Equal objects have equal distances.
        let folder = tempfile::tempdir().unwrap();
        let names: Vec<String> = (0..3000).map(|idx| idx.to_string()).collect();
        let seeds = (0..3000).map(|idx| idx * 7919 % different);
        let objects: Vec<(&str, u64)> = names.iter().map(String::as_str).zip(seeds).collect();
        let space = testing::space(testing::store_of(folder.path(), &objects, &StoreInfo::default()));
        let queries = Queries::new(std::slice::from_ref(&side), &testing::any_space(&space)).unwrap();
        let exact = queries.iter().map(|query| query.exact(&all).unwrap());
        let exact: Vec<Vec<f64>> = exact.collect();
        let criteria = Criteria { k, range, objects_min: Some(100) };
        let picked = Picked { devices: Some((Arc::clone(&devices), [0].into())), reason: String::new() };
        let mut harness = Harness::of(&SQFD, Box::new(stage(testing::any_space(&space), picked, criteria)));
        harness.give(QUERY, side.clone());
        for number in 0..2 {
            let rows: Vec<(u32, u64)> = all.iter().map(|id| (number, *id)).collect();
            harness.give(CANDIDATES, testing::candidates(&rows));
        }
        harness.end(CANDIDATES);
        harness.run().unwrap();
        assert!(harness.is_done());
        let mut found = vec![vec![None; all.len()]; 2];
        let rows = testing::distance_rows(&harness.taken(DISTANCES));
        assert_eq!(rows.len() < 6000, is_less, "{k:?} {range:?}: {} rows", rows.len());
        for (number, id, distance) in rows {
            let at = &mut found[number as usize][id as usize];
            assert_eq!(at.replace(distance), None, "object {id} came twice");
        }
        for (number, (found, exact)) in found.iter().zip(&exact).enumerate() {
            let mut ranked = exact.clone();
            ranked.sort_by(f64::total_cmp);
            let farthest = k.map_or(f64::INFINITY, |k| ranked[k - 1]).min(range.unwrap_or(f64::INFINITY));
            let allowed = |exact| queries.at(number).sqfd().prepared().distance_error(exact, 0.0);
            for (found, exact) in found.iter().zip(exact) {
                match found {
                    Some(found) => assert!((found - exact).abs() <= allowed(*exact)),
                    None => assert!(*exact > farthest, "{exact} of {farthest} is lost"),
                }
            }
        }
    }
    assert_eq!(devices.take_warnings(), [""; 0]);
    drop(devices);
    assert_eq!(driver.left(), []);
}

#[test]
fn what_devices_fail_at_is_computed_here() {
    if !has_device("what_devices_fail_at_is_computed_here") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let space = testing::space(testing::store(folder.path(), 50));
    let queries = testing::queries(&[("a", 7)]);
    let rows: Vec<(u32, u64)> = (0..50).map(|id| (0, id)).collect();
    for call in (6..60).step_by(3) {
        for for_good in [false, true] {
            let (_, devices) = devices(Plan { call, for_good, ..Plan::default() }, None);
            check(&space, &devices, &queries, &[rows.clone(), rows[..7].to_vec()]);
            assert!(devices.take_warnings().len() <= 2, "warned more than once");
        }
    }
}
