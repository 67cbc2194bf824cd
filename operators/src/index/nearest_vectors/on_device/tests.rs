//! The scan of vectors on devices beside the f64 reference, with devices that fail.

use arrow_array::{ArrayRef, Float32Array, ListArray, StringArray, UInt32Array};
use arrow_buffer::OffsetBuffer;
use arrow_schema::{DataType, Field};
use boxwork_kernels::chance::Random;
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::feeding::Options;
use boxwork_runtime::feeding::faults::{Faulty, Plan as FaultPlan, has_device};
use boxwork_runtime::harness::Harness;
use boxwork_stores::object_store::Rows;
use boxwork_stores::spaces::{self, DistanceOptions};
use boxwork_stores::store::Store;

use super::super::{Among, NEAREST_VECTORS, NearestVectors};
use super::*;
use crate::index::metric_search::{INPUTS, OUTPUTS};

/// Lists of numbers.
fn lists(dimensions: usize, numbers: &[f32]) -> ArrayRef {
    let item = Arc::new(Field::new("item", DataType::Float32, false));
    let offsets = OffsetBuffer::from_repeated_length(dimensions, numbers.len() / dimensions);
    Arc::new(ListArray::new(item, offsets, Arc::new(Float32Array::from(numbers.to_vec())), None))
}

/// A store of these rows in batches of 50, without some of them.
fn store(dimensions: usize, numbers: &[f32], removed: Vec<u64>) -> Arc<ObjectStore<Vectors>> {
    let mut rows = Rows::new(Vectors::new(dimensions));
    for (batch, numbers) in numbers.chunks(50 * dimensions).enumerate() {
        let names = (0..numbers.len() / dimensions).map(|row| format!("{batch}/{row}"));
        rows.append(StringArray::from_iter_values(names), &[lists(dimensions, numbers)]).unwrap();
    }
    Arc::new(rows.finish_without(removed, std::path::Path::new("rows"), None).unwrap())
}

/// Rows of which some are equal, some zero, and most clustered; and queries, some of them rows.
fn numbers(random: &mut Random, dimensions: usize, rows: usize) -> Vec<f32> {
    let centres: Vec<f32> = (0..5 * dimensions).map(|_| 3.0 * random.normal_f32()).collect();
    let mut all: Vec<f32> = Vec::new();
    for row in 0..rows {
        match row % 17 {
            5 => all.extend_from_within(all.len() - dimensions..),
            9 => all.extend(vec![0.0; dimensions]),
            _ => {
                let centre = random.idx(5) * dimensions;
                all.extend((0..dimensions).map(|place| centres[centre + place] + random.normal_f32()));
            }
        }
    }
    all
}

struct Case {
    measure: VectorMeasure,
    dimensions: usize,
    rows: usize,
    queries: usize,
    k: usize,
    range: f64,
    chunk_bytes: u64,
    plan: Option<Plan>,
    emulates: bool,
}

/// Searches on devices, and compares with the f64 reference; returns the driver's calls.
fn check(case: &Case, faults: FaultPlan) -> u64 {
    let Case { measure, dimensions, rows, queries, k, range, .. } = *case;
    let mut random = Random::new(rows as u64 + dimensions as u64);
    let base = numbers(&mut random, dimensions, rows);
    let mut asked = numbers(&mut random, dimensions, queries);
    // The first query is a row.
    let known = dimensions.min(base.len());
    asked[..known].copy_from_slice(&base[..known]);
    let removed: Vec<u64> = (0..rows as u64).filter(|row| row % 31 == 3).collect();
    let vectors = store(dimensions, &base, removed);
    let space = spaces::open(
        &DistanceOptions::named(measure.name()),
        Arc::<ObjectStore<Vectors>>::clone(&vectors) as Arc<dyn Store>,
    )
    .unwrap();
    let cache = Some(std::env::temp_dir().join("boxwork-test-programs"));
    let (is_sound, is_lost) = (faults.call == 0, faults.for_good);
    let (driver, devices) = Faulty::devices(faults, Options { cache, ..Options::default() });
    let Ok(devices) = devices else { return driver.calls() };
    let allowed: Arc<[usize]> = (0..devices.list().len()).collect();
    let chunks = Chunks::of_bytes(&vectors, case.chunk_bytes);
    let shared = Arc::new(Shared { space, vectors: Arc::clone(&vectors), measure, codes: None, chunks });
    let operator = NearestVectors {
        k,
        range,
        among: Among::default(),
        picked: Picked { devices: Some((Arc::clone(&devices), allowed)), reason: String::new() },
        slots: 2,
        search: None,
        rows: Vec::new(),
        sent: 0,
        shared,
        plan: Some(Sized { plan: case.plan.unwrap_or_else(|| Plan::new(k)), emulates: case.emulates }),
    };
    let mut harness = Harness::of(&NEAREST_VECTORS, Box::new(operator));
    let columns: [(&str, ArrayRef); 3] = [
        ("query", Arc::new(UInt32Array::from_iter_values(0..queries as u32))),
        ("name", Arc::new(StringArray::from_iter_values((0..queries).map(|query| query.to_string())))),
        ("object", lists(dimensions, &asked)),
    ];
    harness.give(INPUTS[0], Envelope::from_columns(columns).unwrap());
    harness.room(100);
    while !harness.is_done() {
        harness.run().unwrap();
    }
    let mut found: Vec<Vec<(f64, u64)>> = vec![Vec::new(); queries];
    for envelope in harness.taken(OUTPUTS[0]) {
        let (numbers, ids) = (envelope.u32s("query").unwrap(), envelope.u64s("id").unwrap());
        for (row, distance) in envelope.f64s("distance").unwrap().iter().enumerate() {
            found[numbers[row] as usize].push((*distance, ids[row]));
        }
    }
    drop(harness);
    for (query, found) in found.iter().enumerate() {
        let query = &asked[query * dimensions..(query + 1) * dimensions];
        let mut wanted: Vec<(f64, u64)> = (0..rows as u64)
            .filter(|row| vectors.has(*row))
            .map(|row| {
                let at = row as usize * dimensions;
                (measure.between(query, &base[at..at + dimensions]), row)
            })
            .filter(|(distance, _)| *distance <= range)
            .collect();
        wanted.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        wanted.truncate(k);
        assert_eq!(*found, wanted, "{measure:?}, {dimensions} dimensions, {rows} rows, k {k}");
    }
    let blocks: u64 = devices.statistics().iter().map(|of_device| of_device.size).sum();
    if is_sound {
        assert_eq!(
            (blocks, devices.take_warnings()),
            ((rows * queries) as u64, Vec::new()),
            "all on devices"
        );
    }
    drop(devices);
    assert!(is_lost || driver.left().is_empty(), "{:?} are left", driver.left());
    driver.calls()
}

const USUAL: Case = Case {
    measure: VectorMeasure::L2,
    dimensions: 16,
    rows: 400,
    queries: 5,
    k: 10,
    range: f64::INFINITY,
    chunk_bytes: 1 << 30,
    plan: None,
    emulates: false,
};

/// A plan with short stages, so that small stores have several.
const SHORT: Plan = Plan { first: 128, capacity: 256, found: 70 };

#[test]
fn answers_of_devices_are_those_of_the_reference() {
    if !has_device("answers_of_devices_are_those_of_the_reference") {
        return;
    }
    let sound = |case: &Case| check(case, FaultPlan { appears_as: 1, ..FaultPlan::default() });
    for measure in [VectorMeasure::L2, VectorMeasure::InnerProduct, VectorMeasure::Cosine] {
        for dimensions in [1, 3, 16, 127, 128, 129] {
            sound(&Case { measure, dimensions, ..USUAL });
        }
        for rows in [1, 31, 32, 33, 128, 129, 900] {
            sound(&Case { measure, rows, ..USUAL });
            // Several stages, and several chunks.
            sound(&Case { measure, rows, plan: Some(SHORT), ..USUAL });
            sound(&Case { measure, rows, chunk_bytes: 130 * 64, plan: Some(SHORT), ..USUAL });
        }
        sound(&Case { measure, queries: 150, rows: 900, plan: Some(SHORT), ..USUAL });
        for k in [1, 2, 60, 2000] {
            sound(&Case { measure, k, ..USUAL });
        }
    }
    for measure in [VectorMeasure::L2, VectorMeasure::InnerProduct, VectorMeasure::Cosine] {
        let halves = Case { measure, emulates: true, ..USUAL };
        sound(&Case { rows: 300, chunk_bytes: 130 * 64, plan: Some(SHORT), ..halves });
    }
    let halves = Case { emulates: true, ..USUAL };
    for dimensions in [1, 33] {
        sound(&Case { dimensions, rows: 150, ..halves });
    }
    sound(&Case { rows: 300, plan: Some(SHORT), queries: 131, ..halves });
    sound(&Case { range: 4.0, k: 300, ..USUAL });
    sound(&Case { range: 4.0, k: 3, rows: 2000, plan: Some(SHORT), ..USUAL });
    sound(&Case { dimensions: 960, rows: 200, queries: 2, ..USUAL });
}

#[test]
fn lists_that_overflow_are_scanned_by_slots() {
    if !has_device("lists_that_overflow_are_scanned_by_slots") {
        return;
    }
    // Every stage appends more than there is room for.
    let tiny = Plan { first: 128, capacity: 128, found: 12 };
    for (rows, k) in [(2000, 10), (300, 12)] {
        check(
            &Case { rows, k, plan: Some(tiny), ..USUAL },
            FaultPlan { appears_as: 2, ..FaultPlan::default() },
        );
    }
    let cramped = Plan { first: 128, capacity: 140, found: 4 };
    check(&Case { rows: 1000, plan: Some(cramped), ..USUAL }, FaultPlan::default());
}

#[test]
fn devices_that_fail_change_no_answer() {
    if !has_device("devices_that_fail_change_no_answer") {
        return;
    }
    let case = Case { rows: 300, chunk_bytes: 130 * 64, plan: Some(SHORT), ..USUAL };
    let calls = check(&case, FaultPlan { appears_as: 2, ..FaultPlan::default() });
    for call in (1..calls).step_by(13) {
        for for_good in [false, true] {
            check(&case, FaultPlan { call, for_good, appears_as: 2, ..FaultPlan::default() });
        }
    }
}
