//! The graph on devices beside the one of slots, with devices that fail.

use std::path::Path;

use arrow_array::{ArrayRef, Float32Array, ListArray, StringArray};
use arrow_buffer::OffsetBuffer;
use arrow_schema::{DataType, Field};
use boxwork_kernels::chance::Random;
use boxwork_runtime::feeding::Options;
use boxwork_runtime::feeding::faults::{Faulty, Plan as FaultPlan, has_device};
use boxwork_runtime::harness::Harness;
use boxwork_stores::kinds::{Kind as _, Vectors};
use boxwork_stores::object_store::Rows;
use boxwork_stores::spaces::{self, DistanceOptions};
use boxwork_stores::store::Store;

use super::super::{EDGES, NEIGHBOURS, Neighbours};
use super::*;

/// The space of some vectors in clusters, with copies, without some that were removed.
fn space(measure: VectorMeasure, dimensions: usize, count: usize) -> Arc<dyn Space> {
    let mut random = Random::new(count as u64);
    let mut rows = Rows::new(Vectors::new(dimensions));
    let mut last = vec![0.0; dimensions];
    for first in (0..count).step_by(50) {
        let of_batch = 50.min(count - first);
        let mut numbers = Vec::new();
        for row in first..first + of_batch {
            if row % 5 != 3 {
                let centre = 4.0 * random.idx(3) as f32;
                last = (0..dimensions).map(|_| centre + random.normal_f32()).collect();
            }
            if row % 40 == 7 {
                last.fill(0.0);
            }
            numbers.extend_from_slice(&last);
        }
        let item = Arc::new(Field::new("item", DataType::Float32, false));
        let offsets = OffsetBuffer::from_repeated_length(dimensions, of_batch);
        let lists: ArrayRef =
            Arc::new(ListArray::new(item, offsets, Arc::new(Float32Array::from(numbers)), None));
        let names = (first..first + of_batch).map(|row| row.to_string());
        rows.append(StringArray::from_iter_values(names), &[lists]).unwrap();
    }
    let removed = (0..count as u64).filter(|row| row % 31 == 3).collect();
    let store = Arc::new(rows.finish_without(removed, Path::new("rows"), None).unwrap());
    assert_eq!(store.kind().dimensions(), dimensions);
    spaces::open(&DistanceOptions::named(measure.name()), store as Arc<dyn Store>).unwrap()
}

/// The edges that a box gives.
fn edges(neighbours: Neighbours) -> Vec<(u64, u64, u64)> {
    let mut harness = Harness::of(&NEIGHBOURS, Box::new(neighbours));
    harness.room(1000);
    while !harness.is_done() {
        harness.run().unwrap();
    }
    let mut edges = Vec::new();
    for envelope in harness.taken(EDGES) {
        let (a, b) = (envelope.u64s("a").unwrap(), envelope.u64s("b").unwrap());
        let distances = envelope.f64s("distance").unwrap();
        edges.extend((0..a.len()).map(|row| (a[row], b[row], distances[row].to_bits())));
    }
    edges
}

/// The graph on devices, in scans of so many rows, and on slots; returns the driver's calls.
fn check(
    measure: VectorMeasure,
    (dimensions, rows, k, of_batch): (usize, usize, usize, usize),
    faults: FaultPlan,
) -> u64 {
    let space = space(measure, dimensions, rows);
    let on_slots = Picked { devices: None, reason: String::new() };
    let expected = edges(Neighbours::new(Arc::clone(&space), measure, (dimensions, k, 2), on_slots));
    let cache = Some(std::env::temp_dir().join("boxwork-test-programs"));
    let (is_sound, is_lost) = (faults.call == 0, faults.for_good);
    let (driver, devices) = Faulty::devices(faults, Options { cache, ..Options::default() });
    let Ok(devices) = devices else { return driver.calls() };
    let allowed: Arc<[usize]> = (0..devices.list().len()).collect();
    let picked = Picked { devices: Some((Arc::clone(&devices), allowed)), reason: String::new() };
    let mut neighbours = Neighbours::new(Arc::clone(&space), measure, (dimensions, k, 2), picked);
    neighbours.sized = Some((of_batch, Sized::new(Plan::new(k + 1))));
    assert_eq!(edges(neighbours), expected, "{dimensions} dimensions, {rows} rows, k {k}");
    let size: u64 = devices.statistics().iter().map(|of_device| of_device.size).sum();
    if is_sound && k < K_MAX {
        let queries = space.store().objects_count();
        assert_eq!((size, devices.take_warnings()), (rows as u64 * queries, Vec::new()), "all on devices");
    }
    drop(devices);
    assert!(is_lost || driver.left().is_empty(), "{:?} are left", driver.left());
    driver.calls()
}

#[test]
fn graphs_of_devices_are_those_of_slots() {
    if !has_device("graphs_of_devices_are_those_of_slots") {
        return;
    }
    for (dimensions, rows, k, of_batch) in
        [(3, 1, 2, 10), (16, 200, 5, 64), (16, 300, 1, 1000), (7, 260, 300, 50), (2, 60, K_MAX, 30)]
    {
        for measure in [VectorMeasure::L2, VectorMeasure::Cosine] {
            check(
                measure,
                (dimensions, rows, k, of_batch),
                FaultPlan { appears_as: 1, ..FaultPlan::default() },
            );
        }
    }
}

#[test]
fn devices_that_fail_change_no_edge() {
    if !has_device("devices_that_fail_change_no_edge") {
        return;
    }
    let case = (16, 150, 4, 40);
    let calls = check(VectorMeasure::L2, case, FaultPlan { appears_as: 2, ..FaultPlan::default() });
    for call in (1..calls).step_by(13) {
        for for_good in [false, true] {
            check(
                VectorMeasure::L2,
                case,
                FaultPlan { call, for_good, appears_as: 2, ..FaultPlan::default() },
            );
        }
    }
}
