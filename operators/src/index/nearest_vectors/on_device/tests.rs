//! The scan of vectors on devices beside the f64 reference, with devices that fail.

use std::io::Write as _;

use arrow_array::types::{ArrowPrimitiveType, Float16Type};
use arrow_array::{ArrayRef, Float32Array, ListArray, StringArray, UInt32Array};
use arrow_buffer::OffsetBuffer;
use arrow_schema::{DataType, Field};
use boxwork_kernels::chance::Random;
use boxwork_kernels::vector::{NumberType, VectorMeasure, VectorRef};
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::feeding::Options;
use boxwork_runtime::feeding::faults::{Faulty, Plan as FaultPlan, has_device};
use boxwork_runtime::harness::Harness;
use boxwork_stores::kinds::Vectors;
use boxwork_stores::object_store::{ObjectStore, Rows};
use boxwork_stores::spaces::{self, DistanceOptions};
use boxwork_stores::store::Store;

use super::super::source::Source;
use super::super::{Among, NEAREST_VECTORS, NearestVectors};
use super::*;
use crate::index::metric_search::{INPUTS, OUTPUTS};

/// Lists of numbers.
fn lists(dimensions: usize, numbers: &[f32]) -> ArrayRef {
    let item = Arc::new(Field::new("item", DataType::Float32, false));
    let offsets = OffsetBuffer::from_repeated_length(dimensions, numbers.len() / dimensions);
    Arc::new(ListArray::new(item, offsets, Arc::new(Float32Array::from(numbers.to_vec())), None))
}

type F16 = <Float16Type as ArrowPrimitiveType>::Native;

/// The rows as a type of numbers.
enum Typed {
    F32(Vec<f32>),
    F16(Vec<F16>),
    U8(Vec<u8>),
    I8(Vec<i8>),
}

impl Typed {
    /// Takes numbers over, scaled if they are to be bytes, and makes them those that the type holds.
    fn of(numbers_type: NumberType, numbers: &mut [f32]) -> Self {
        let typed = match numbers_type {
            NumberType::F32 => Self::F32(numbers.to_vec()),
            NumberType::F16 => Self::F16(numbers.iter().map(|x| F16::from_f32(*x)).collect()),
            NumberType::U8 => Self::U8(numbers.iter().map(|x| (20.0 * x + 100.0) as u8).collect()),
            NumberType::I8 => Self::I8(numbers.iter().map(|x| (20.0 * x) as i8).collect()),
        };
        for (place, number) in numbers.iter_mut().enumerate() {
            *number = match &typed {
                Self::F32(all) => all[place],
                Self::F16(all) => all[place].to_f32(),
                Self::U8(all) => f32::from(all[place]),
                Self::I8(all) => f32::from(all[place]),
            };
        }
        typed
    }

    fn part(&self, range: Range<usize>) -> VectorRef<'_> {
        match self {
            Self::F32(all) => VectorRef::F32(&all[range]),
            Self::F16(all) => VectorRef::F16(&all[range]),
            Self::U8(all) => VectorRef::U8(&all[range]),
            Self::I8(all) => VectorRef::I8(&all[range]),
        }
    }
}

/// A store of rows of a type in batches of 50, without some of them.
fn store(case: &Case, typed: &Typed, removed: Vec<u64>) -> Arc<ObjectStore<Vectors>> {
    let dimensions = case.dimensions;
    let mut rows = Rows::new(Vectors::of(dimensions, case.numbers));
    for row in 0..case.rows {
        let of_row = typed.part(row * dimensions..(row + 1) * dimensions);
        rows.push(&row.to_string(), |builder| Vectors::push(builder, of_row)).unwrap();
        if rows.is_full(50) {
            let (names, columns) = rows.take();
            rows.append(names, &columns).unwrap();
        }
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
    numbers: NumberType,
    measure: VectorMeasure,
    dimensions: usize,
    rows: usize,
    queries: usize,
    k: usize,
    range: f64,
    chunk_bytes: u64,
    plan: Option<Plan>,
    emulates: bool,
    /// Queries of a group at most.
    of_group: usize,
    /// The rows to search among, if not all.
    among: Option<fn(u64) -> bool>,
}

/// The nearest rows of a query by f64 distances.
fn wanted(case: &Case, query: &[f32], base: &[f32], is_among: &dyn Fn(u64) -> bool) -> Vec<(f64, u64)> {
    let rows = base.chunks_exact(case.dimensions).zip(0..).filter(|(_, row)| is_among(*row));
    let mut wanted: Vec<(f64, u64)> = rows
        .map(|(numbers, row)| (case.measure.between(query, numbers), row))
        .filter(|(distance, _)| *distance <= case.range)
        .collect();
    wanted.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    wanted.truncate(case.k);
    wanted
}

/// The answers of an operator to some queries.
fn answers(operator: NearestVectors, dimensions: usize, asked: &[f32]) -> Vec<Vec<(f64, u64)>> {
    let queries = asked.len() / dimensions;
    let mut harness = Harness::of(&NEAREST_VECTORS, Box::new(operator));
    let columns: [(&str, ArrayRef); 3] = [
        ("query", Arc::new(UInt32Array::from_iter_values(0..queries as u32))),
        ("name", Arc::new(StringArray::from_iter_values((0..queries).map(|query| query.to_string())))),
        ("object", lists(dimensions, asked)),
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
    found
}

/// Searches on devices, and compares with the f64 reference; returns the driver's calls.
fn check(case: &Case, faults: FaultPlan) -> u64 {
    let Case { measure, dimensions, rows, queries, k, range, .. } = *case;
    let mut random = Random::new(rows as u64 + dimensions as u64);
    let mut base = numbers(&mut random, dimensions, rows);
    let mut asked = numbers(&mut random, dimensions, queries);
    let typed = Typed::of(case.numbers, &mut base);
    Typed::of(case.numbers, &mut asked);
    // The first query is a row.
    let known = dimensions.min(base.len());
    asked[..known].copy_from_slice(&base[..known]);
    let removed: Vec<u64> = (0..rows as u64).filter(|row| row % 31 == 3).collect();
    let vectors = store(case, &typed, removed);
    let is_among = |row: u64| vectors.has(row) && case.among.is_none_or(|has| has(row));
    let mut file = tempfile::NamedTempFile::new().unwrap();
    for row in (0..rows as u64).filter(|row| is_among(*row)) {
        writeln!(file, "{row}").unwrap();
    }
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
    // Chunks that have none of the rows to search are left out.
    let in_blocks = (0..chunks.count()).map(|chunk| chunks.rows(&vectors, chunk));
    let in_blocks = in_blocks.filter(|rows| case.among.is_none() || rows.clone().any(is_among));
    let in_blocks: u64 = in_blocks.map(|rows| rows.end - rows.start).sum();
    let shared =
        Arc::new(Shared { space, vectors: Arc::clone(&vectors), measure, codes: Source::None, chunks });
    let operator = NearestVectors {
        k,
        range,
        among: case.among.map_or_else(Among::default, |_| Among::of_file(file.path().to_owned())),
        picked: Picked { devices: Some((Arc::clone(&devices), allowed)), reason: String::new() },
        is_asked: true,
        slots: 2,
        search: None,
        answers: VecDeque::new(),
        shared,
        plan: Some(Sized {
            plan: case.plan.unwrap_or_else(|| Plan::new(k)),
            emulates: case.emulates,
            queries: case.of_group,
            // So that a group goes through many rows.
            work_groups: 1,
        }),
    };
    let found = answers(operator, dimensions, &asked);
    for (query, found) in found.iter().enumerate() {
        let query = &asked[query * dimensions..(query + 1) * dimensions];
        let wanted = wanted(case, query, &base, &is_among);
        assert_eq!(*found, wanted, "{measure:?}, {dimensions} dimensions, {rows} rows, k {k}");
    }
    let blocks: u64 = devices.statistics().iter().map(|of_device| of_device.size).sum();
    if is_sound {
        assert_eq!(
            (blocks, devices.take_warnings()),
            (in_blocks * queries as u64, Vec::new()),
            "all on devices"
        );
    }
    drop(devices);
    assert!(is_lost || driver.left().is_empty(), "{:?} are left", driver.left());
    driver.calls()
}

const USUAL: Case = Case {
    numbers: NumberType::F32,
    measure: VectorMeasure::L2,
    dimensions: 16,
    rows: 400,
    queries: 9,
    k: 10,
    range: f64::INFINITY,
    chunk_bytes: 1 << 30,
    plan: None,
    emulates: false,
    of_group: 1024,
    among: None,
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
    // Queries in registers, by one to eight blocks of halves, and tiles for more.
    for dimensions in [1, 33, 65, 100, 130, 190, 224, 250, 260] {
        sound(&Case { dimensions, rows: 150, ..halves });
    }
    // A group that goes through rows several times, and through some at the end.
    for (dimensions, rows) in [(100, 321), (130, 300)] {
        sound(&Case { dimensions, rows, plan: Some(SHORT), queries: 17, ..halves });
    }
    sound(&Case { rows: 300, plan: Some(SHORT), queries: 131, ..halves });
    for numbers in [NumberType::F16, NumberType::U8, NumberType::I8] {
        for measure in [VectorMeasure::L2, VectorMeasure::InnerProduct, VectorMeasure::Cosine] {
            let typed = Case { numbers, measure, dimensions: 33, ..USUAL };
            sound(&Case { rows: 300, plan: Some(SHORT), ..typed });
        }
        sound(&Case { numbers, emulates: true, rows: 150, ..USUAL });
    }
    sound(&Case { range: 4.0, k: 300, ..USUAL });
    sound(&Case { range: 4.0, k: 3, rows: 2000, plan: Some(SHORT), ..USUAL });
    sound(&Case { dimensions: 960, rows: 200, queries: 2, ..USUAL });
}

#[test]
fn a_few_queries_find_what_the_reference_does() {
    if !has_device("a_few_queries_find_what_the_reference_does") {
        return;
    }
    let sound = |case: &Case| check(case, FaultPlan { appears_as: 1, ..FaultPlan::default() });
    let few = Case { queries: 1, ..USUAL };
    for numbers in [NumberType::F32, NumberType::F16, NumberType::U8, NumberType::I8] {
        // Rows that are loaded sixteen bytes, four bytes or a number at a time.
        for dimensions in [127, 100, 16, 1] {
            sound(&Case { numbers, dimensions, ..few });
        }
    }
    sound(&Case { emulates: true, ..few });
    for measure in [VectorMeasure::InnerProduct, VectorMeasure::Cosine] {
        for (rows, queries, k) in [(900, 8, 60), (129, 3, 2000), (33, 2, 1), (1, 1, 2)] {
            sound(&Case { measure, rows, queries, k, ..few });
        }
    }
    for rows in [900, 129, 128, 32, 31] {
        sound(&Case { rows, chunk_bytes: 130 * 64, queries: 5, ..few });
    }
    // More numbers than lie in local memory at a time.
    sound(&Case { dimensions: 960, rows: 200, queries: 2, ..few });
    sound(&Case { range: 4.0, k: 300, ..few });
    sound(&Case { range: 4.0, k: 3, rows: 2000, ..few });
    // The k-th least of the least of groups, which one launch finds for one or two queries; it lists more rows than come back, which
    // the k-th of all values limits.
    let many = Case { dimensions: 3, rows: 17_000, queries: 2, ..few };
    for (queries, measure) in
        [(1, VectorMeasure::Cosine), (4, VectorMeasure::L2), (5, VectorMeasure::InnerProduct)]
    {
        sound(&Case { queries, measure, ..many });
    }
    let listed = Plan { first: 1024, capacity: 500, found: 32 };
    sound(&Case { k: 30, plan: Some(listed), ..many });
    let overflows = Plan { capacity: 33, ..listed };
    check(
        &Case { k: 30, plan: Some(overflows), ..many },
        FaultPlan { appears_as: 1, ..FaultPlan::default() },
    );
    // Lists that overflow.
    let tiny = Plan { first: 128, capacity: 11, found: 11 };
    let split = FaultPlan { appears_as: 2, ..FaultPlan::default() };
    check(&Case { rows: 2000, plan: Some(tiny), ..few }, split);
}

#[test]
fn devices_search_among_some_rows() {
    if !has_device("devices_search_among_some_rows") {
        return;
    }
    let sound = |case: &Case| check(case, FaultPlan { appears_as: 1, ..FaultPlan::default() });
    let most: fn(u64) -> bool = |row| !row.is_multiple_of(7);
    // Fewer than k, and none of them in the first stage.
    let last: fn(u64) -> bool = |row| row > 890;
    let class: fn(u64) -> bool = |row| (300..600).contains(&row);
    for measure in [VectorMeasure::L2, VectorMeasure::InnerProduct, VectorMeasure::Cosine] {
        for among in [most, last, class] {
            let case = Case { measure, rows: 900, plan: Some(SHORT), among: Some(among), ..USUAL };
            sound(&case);
            sound(&Case { emulates: true, ..case });
        }
    }
    // A few queries: wide subsets, and one that few groups of rows have.
    for (among, rows) in [(most, 900), (last, 900), (class, 900), (most, 17_000), (class, 17_000)] {
        sound(&Case { queries: 3, dimensions: 5, rows, among: Some(among), ..USUAL });
    }
    // Some chunks have none of them.
    for (among, emulates) in [most, last, class].into_iter().flat_map(|among| [(among, false), (among, true)])
    {
        let case = Case { rows: 900, plan: Some(SHORT), among: Some(among), emulates, ..USUAL };
        check(&Case { chunk_bytes: 130 * 64, ..case }, FaultPlan { appears_as: 2, ..FaultPlan::default() });
    }
    // Slots scan what has overflowed, and what a device has lost.
    let tiny = Plan { first: 128, capacity: 128, found: 12 };
    let case = Case { rows: 900, plan: Some(tiny), among: Some(most), ..USUAL };
    check(&case, FaultPlan { appears_as: 2, ..FaultPlan::default() });
    let calls =
        check(&Case { plan: Some(SHORT), ..case }, FaultPlan { appears_as: 2, ..FaultPlan::default() });
    for call in (1..calls).step_by(17) {
        check(&case, FaultPlan { call, appears_as: 2, ..FaultPlan::default() });
    }
}

#[test]
fn groups_of_queries_shards_and_replicas_find_what_the_reference_does() {
    if !has_device("groups_of_queries_shards_and_replicas_find_what_the_reference_does") {
        return;
    }
    for (shards, devices) in (1..=5).flat_map(|shards| (1..=3).map(move |devices| (shards, devices))) {
        let sizes = Case { rows: 100 * shards, queries: 23, of_group: 9, chunk_bytes: 100 * 64, ..USUAL };
        for case in [Case { plan: Some(SHORT), ..sizes }, Case { of_group: 64, k: 60, ..sizes }] {
            check(&case, FaultPlan { appears_as: devices, ..FaultPlan::default() });
        }
    }
    // Groups whose lists overflow, values that leave f32, and no row to search.
    let tiny = Plan { first: 128, capacity: 128, found: 12 };
    let case = Case { rows: 900, queries: 12, of_group: 5, ..USUAL };
    check(&Case { plan: Some(tiny), ..case }, FaultPlan { appears_as: 2, ..FaultPlan::default() });
    let none: fn(u64) -> bool = |row| row > 5000;
    check(&Case { among: Some(none), ..case }, FaultPlan { appears_as: 2, ..FaultPlan::default() });
    let split = Case { chunk_bytes: 300 * 64, plan: Some(SHORT), ..case };
    let calls = check(&split, FaultPlan { appears_as: 2, ..FaultPlan::default() });
    for (call, for_good) in (1..calls).step_by(23).zip([false, true].into_iter().cycle()) {
        check(&split, FaultPlan { call, for_good, appears_as: 2, ..FaultPlan::default() });
    }
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
    for case in [Case { queries: 2, ..case }, case] {
        let calls = check(&case, FaultPlan { appears_as: 2, ..FaultPlan::default() });
        for call in (1..calls).step_by(13) {
            for for_good in [false, true] {
                check(&case, FaultPlan { call, for_good, appears_as: 2, ..FaultPlan::default() });
            }
        }
    }
}
