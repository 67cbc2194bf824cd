//! The lists that devices find beside those of slots, with devices that fail.

use std::path::Path;

use arrow_array::{Float32Array, ListArray, StringArray};
use arrow_buffer::OffsetBuffer;
use arrow_schema::{DataType, Field};
use boxwork_kernels::chance::Random;
use boxwork_kernels::vector::VectorMeasure;
use boxwork_runtime::feeding::Options;
use boxwork_runtime::feeding::faults::{Faulty, Plan as Faults, has_device};
use boxwork_runtime::harness::Harness;
use boxwork_stores::kinds::Vectors;
use boxwork_stores::lists::{Assigned, Coding, Quantizers, normalise_for, write};
use boxwork_stores::object_store::Rows;
use boxwork_stores::spaces::{self, DistanceOptions};
use boxwork_stores::store::Store;

use super::*;

struct Case {
    measure: VectorMeasure,
    dimensions: usize,
    lists: usize,
    queries: usize,
    probes: usize,
    emulates: bool,
    /// Whether numbers are few, so that many distances are equal.
    has_ties: bool,
}

const USUAL: Case = Case {
    measure: VectorMeasure::L2,
    dimensions: 16,
    lists: 300,
    queries: 40,
    probes: 9,
    emulates: false,
    has_ties: false,
};

fn numbers(random: &mut Random, count: usize, has_ties: bool) -> Vec<f32> {
    let number = |random: &mut Random| match has_ties {
        true => random.below(3) as f32 - 1.0,
        false => random.normal_f32(),
    };
    (0..count).map(|_| number(random)).collect()
}

fn vectors(dimensions: usize, numbers: &[f32]) -> ArrayRef {
    let item = Arc::new(Field::new("item", DataType::Float32, false));
    let offsets = OffsetBuffer::from_repeated_length(dimensions, numbers.len() / dimensions);
    Arc::new(ListArray::new(item, offsets, Arc::new(Float32Array::from(numbers.to_vec())), None))
}

/// Lists of rows, one object each.
fn lists(case: &Case, random: &mut Random, folder: &Path) -> Arc<Lists> {
    let Case { measure, dimensions, lists, .. } = *case;
    let names = StringArray::from_iter_values((0..lists).map(|row| row.to_string()));
    let mut rows = Rows::new(Vectors::new(dimensions));
    rows.append(names, &[vectors(dimensions, &numbers(random, lists * dimensions, false))]).unwrap();
    let store: Arc<dyn Store> = Arc::new(rows.finish(Path::new("rows"), None).unwrap());
    let space = spaces::open(&DistanceOptions::named(measure.name()), store).unwrap();
    let mut centroids = numbers(random, lists * dimensions, case.has_ties);
    normalise_for(measure, &mut centroids, dimensions);
    let quantizers =
        Quantizers::of_parts(dimensions, centroids, Coding::Rows, 0, Vec::new(), Vec::new()).unwrap();
    let assigned =
        Assigned { ids: (0..lists as u64).collect(), lists: (0..lists as u32).collect(), codes: Vec::new() };
    let path = folder.join("v.lists.arrow");
    write(&path, &space, &quantizers, &assigned, &|| false).unwrap();
    Arc::new(Lists::open(&path, &space).unwrap())
}

/// The lists that an operator finds, and the number of centroids that it says devices compared.
fn answers(operator: Probe, case: &Case, asked: &[f32]) -> Vec<(u32, u32, u64)> {
    let mut harness = Harness::of(&PROBE, Box::new(operator));
    harness.room(1000);
    // The queries come in envelopes, some of which wait together.
    for (nth, asked) in asked.chunks(17 * case.dimensions).enumerate() {
        let count = asked.len() / case.dimensions;
        let number = |place: usize| (2 * (17 * nth + place)) as u32;
        let columns: [(&str, ArrayRef); 3] = [
            ("query", Arc::new(UInt32Array::from_iter_values((0..count).map(number)))),
            ("name", Arc::new(StringArray::from_iter_values((0..count).map(|query| query.to_string())))),
            ("object", vectors(case.dimensions, asked)),
        ];
        harness.give(QUERIES, Envelope::from_columns(columns).unwrap());
        if nth == 0 {
            harness.run().unwrap();
        }
    }
    harness.end(QUERIES);
    while !harness.is_done() {
        harness.run().unwrap();
    }
    let mut found = Vec::new();
    for envelope in harness.taken(PROBES) {
        let (queries, lists) = (envelope.u32s("query").unwrap(), envelope.u32s("list").unwrap());
        let distances = envelope.f64s("distance").unwrap();
        let each = queries.iter().zip(lists).zip(distances);
        found.extend(each.map(|((query, list), distance)| (*query, *list, distance.to_bits())));
    }
    found
}

/// Finds lists on devices and on slots, and compares; returns the driver's calls.
fn check(case: &Case, faults: Faults) -> u64 {
    let mut random = Random::new((case.dimensions * 1000 + case.lists) as u64);
    let folder = tempfile::tempdir().unwrap();
    let lists = lists(case, &mut random, folder.path());
    let asked = numbers(&mut random, case.queries * case.dimensions, case.has_ties);
    let centroids = Arc::new(Shared::of_space(&lists.centroid_space().unwrap(), None, &|| false).unwrap());
    let probes = case.probes.min(case.lists);
    let operator = |picked| Probe {
        lists: Arc::clone(&lists),
        centroids: Arc::clone(&centroids),
        probes,
        picked,
        is_asked: true,
        sized: Some(Sized { emulates: case.emulates, ..Sized::new(Plan::new(probes)) }),
        slots: 2,
        scan: None,
        found: None,
    };
    let wanted = answers(operator(Picked { devices: None, reason: String::new() }), case, &asked);
    assert_eq!(wanted.len(), case.queries * probes);
    // The reference: all distances in f64.
    let measure = case.measure;
    let mut first = asked[..case.dimensions].to_vec();
    lists.prepare(&mut first);
    let each = lists.quantizers().centroids().chunks_exact(case.dimensions);
    let mut all: Vec<(f64, u32)> = each.map(|centroid| measure.between(&first, centroid)).zip(0..).collect();
    all.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let of_first: Vec<_> =
        all[..probes].iter().map(|(distance, list)| (0, *list, distance.to_bits())).collect();
    assert_eq!(wanted[..probes], of_first);
    let (is_sound, is_lost) = (faults.call == 0, faults.for_good);
    let cache = Some(std::env::temp_dir().join("boxwork-test-programs"));
    let (driver, devices) = Faulty::devices(faults, Options { cache, ..Options::default() });
    let Ok(devices) = devices else { return driver.calls() };
    let allowed: Arc<[usize]> = (0..devices.list().len()).collect();
    let picked = Picked { devices: Some((Arc::clone(&devices), allowed)), reason: String::new() };
    let found = answers(operator(picked), case, &asked);
    assert_eq!(found, wanted, "{measure:?}, {} numbers, {} lists", case.dimensions, case.lists);
    if is_sound {
        let size: u64 = devices.statistics().iter().map(|of_device| of_device.size).sum();
        let on_devices = if probes <= K_MAX { case.queries * case.lists } else { 0 };
        assert_eq!((size, devices.take_warnings()), (on_devices as u64, Vec::new()), "all on devices");
    }
    drop(devices);
    assert!(is_lost || driver.left().is_empty(), "{:?} are left", driver.left());
    driver.calls()
}

#[test]
fn devices_find_the_lists_that_slots_find() {
    if !has_device("devices_find_the_lists_that_slots_find") {
        return;
    }
    let sound = |case: &Case| check(case, Faults { appears_as: 1, ..Faults::default() });
    for measure in [VectorMeasure::L2, VectorMeasure::InnerProduct, VectorMeasure::Cosine] {
        for (dimensions, lists, has_ties) in
            [(1, 40, true), (3, 33, true), (16, 300, false), (129, 70, false)]
        {
            sound(&Case { measure, dimensions, lists, has_ties, ..USUAL });
        }
        sound(&Case { measure, emulates: true, ..USUAL });
    }
    for probes in [1, 32, 300, 1000] {
        sound(&Case { probes, ..USUAL });
    }
    for queries in [1, 2, 150] {
        sound(&Case { queries, ..USUAL });
    }
    // More lists than devices find.
    sound(&Case { probes: 2049, lists: 2100, queries: 3, ..USUAL });
}

#[test]
fn devices_that_fail_change_no_list() {
    if !has_device("devices_that_fail_change_no_list") {
        return;
    }
    let calls = check(&USUAL, Faults { appears_as: 2, ..Faults::default() });
    for (call, for_good) in (1..calls).step_by(11).zip([false, true].into_iter().cycle()) {
        check(&USUAL, Faults { call, for_good, appears_as: 2, ..Faults::default() });
    }
}
