//! Scans of product codes on devices beside those of slots, with devices that fail.

use std::io::Write as _;
use std::path::Path;

use arrow_array::builder::{Float32Builder, ListBuilder};
use arrow_array::{ArrayRef, StringArray};
use arrow_schema::{DataType, Field};
use boxwork_kernels::chance::Random;
use boxwork_kernels::panels::PANEL;
use boxwork_kernels::product::device::Terms;
use boxwork_kernels::vector::VectorMeasure;
use boxwork_runtime::feeding::Options;
use boxwork_runtime::feeding::faults::{Faulty, Plan, has_device};
use boxwork_runtime::harness::Harness;
use boxwork_stores::kinds::Vectors;
use boxwork_stores::lists::{Assigned, Quantizers, normalise_for, write};
use boxwork_stores::object_store::Rows;
use boxwork_stores::spaces::{self, DistanceOptions};
use boxwork_stores::store::Store;

use super::*;

/// Objects of each list.
const SIZES: [usize; 12] = [31, 0, 33, 1, 32, 300, 5, 64, 0, 90, 129, 2];

#[derive(Clone, Copy)]
struct Case {
    measure: VectorMeasure,
    coding: Coding,
    dimensions: usize,
    parts: usize,
    /// Numbers of turned vectors, if there is a rotation.
    turned: Option<usize>,
    kept: usize,
    queries: usize,
    terms: Terms,
    /// Queries and sums of a block at most.
    of_block: (usize, usize),
    /// Panels of a chunk at most, if the codes are cut.
    chunk: Option<usize>,
    /// Whether numbers are few, so that many sums are equal.
    has_ties: bool,
    /// The objects to search among, if not all.
    among: Option<fn(u64) -> bool>,
}

const USUAL: Case = Case {
    measure: VectorMeasure::L2,
    coding: Coding::Product,
    dimensions: 16,
    parts: 4,
    turned: None,
    kept: 20,
    queries: 9,
    terms: Terms::Kept,
    of_block: (1024, 1 << 20),
    chunk: None,
    has_ties: false,
    among: None,
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
    let mut lists = ListBuilder::new(Float32Builder::new()).with_field(item);
    for row in numbers.chunks_exact(dimensions) {
        lists.values().append_slice(row);
        lists.append(true);
    }
    Arc::new(lists.finish())
}

/// Lists of random codes of a store without some of its objects.
fn lists(case: &Case, random: &mut Random, folder: &Path) -> Arc<Lists> {
    lists_of(&SIZES, case, random, folder)
}

/// As [`lists`], with so many objects in each.
fn lists_of(sizes: &[usize], case: &Case, random: &mut Random, folder: &Path) -> Arc<Lists> {
    let Case { dimensions, parts, .. } = *case;
    let count: usize = sizes.iter().sum();
    let names = StringArray::from_iter_values((0..count).map(|row| row.to_string()));
    let objects = vectors(dimensions, &numbers(random, count * dimensions, case.has_ties));
    let space = |removed| {
        let mut rows = Rows::new(Vectors::new(dimensions));
        rows.append(names.clone(), std::slice::from_ref(&objects)).unwrap();
        let store = rows.finish_without(removed, Path::new("rows"), None).unwrap();
        spaces::open(&DistanceOptions::named(case.measure.name()), Arc::new(store) as Arc<dyn Store>).unwrap()
    };
    let mut centroids = numbers(random, sizes.len() * dimensions, case.has_ties);
    normalise_for(case.measure, &mut centroids, dimensions);
    let turned = case.turned.unwrap_or(dimensions);
    let bits = case.coding.bits();
    let codebook = match (case.coding, bits) {
        (Coding::Product | Coding::Fast, Some(bits)) => parts * turned.div_ceil(parts) * bits.centroids(),
        _ => 0,
    };
    let codebook = numbers(random, codebook, case.has_ties);
    // Any numbers turn vectors.
    let rotation = case.turned.map_or_else(Vec::new, |to| numbers(random, to * dimensions, false));
    let quantizers = Quantizers::of_parts(dimensions, centroids, case.coding, parts, codebook, rotation);
    let quantizers = quantizers.expect("parts that fit");
    let of_list = |(list, size): (usize, &usize)| std::iter::repeat_n(list as u32, *size);
    let mut assigned = Assigned {
        ids: (0..count as u64).collect(),
        lists: sizes.iter().enumerate().flat_map(of_list).collect(),
        codes: Vec::new(),
    };
    let limit = bits.map_or(0, |bits| bits.centroids() as u64);
    assigned.codes = (0..count * quantizers.code_bytes()).map(|_| random.below(limit) as u8).collect();
    let path = folder.join("v.lists.arrow");
    write(&path, &space(Vec::new()), &quantizers, &assigned, &|| false).unwrap();
    // Some objects are removed once they are in lists.
    let removed = (0..count as u64).filter(|id| id % 29 == 3).collect();
    Arc::new(Lists::open(&path, &space(removed)).unwrap())
}

/// Gives queries and the lists that they look into.
fn give(harness: &mut Harness, dimensions: usize, asked: &[f32], probes: &[(u32, u32)]) {
    let queries = asked.len() / dimensions;
    let names = (0..queries).map(|query| query.to_string());
    let columns: [(&str, ArrayRef); 3] = [
        // Numbers of queries have gaps.
        ("query", Arc::new(UInt32Array::from_iter_values((0..queries as u32).map(|query| 3 * query)))),
        ("name", Arc::new(StringArray::from_iter_values(names))),
        ("object", vectors(dimensions, asked)),
    ];
    harness.give(QUERY, Envelope::from_columns(columns).unwrap());
    for probes in probes.chunks(50) {
        let columns: [(&str, ArrayRef); 3] = [
            ("query", Arc::new(UInt32Array::from_iter_values(probes.iter().map(|(_, query)| *query)))),
            ("list", Arc::new(UInt32Array::from_iter_values(probes.iter().map(|(list, _)| *list)))),
            ("distance", Arc::new(Float64Array::from(vec![0.0; probes.len()]))),
        ];
        harness.give(PROBES, Envelope::from_columns(columns).unwrap());
    }
    harness.end(PROBES);
}

/// The candidates of an operator: queries and ids, as they come.
fn answers(
    operator: ScanLists,
    case: &Case,
    asked: &[f32],
    probes: &[(u32, u32)],
) -> (Vec<(u32, u64)>, Vec<String>) {
    let mut harness = Harness::of(&SCAN_LISTS, Box::new(operator));
    give(&mut harness, case.dimensions, asked, probes);
    harness.room(1000);
    while !harness.is_done() {
        harness.run().unwrap();
    }
    let mut found = Vec::new();
    for envelope in harness.taken(CANDIDATES) {
        found.extend(
            envelope.u32s("query").unwrap().iter().copied().zip(envelope.u64s("id").unwrap().iter().copied()),
        );
    }
    (found, harness.notes().to_vec())
}

/// Scans on devices and on slots, and compares; returns the driver's calls.
fn check(case: &Case, faults: Plan) -> u64 {
    let mut random = Random::new((case.dimensions * 1000 + case.parts) as u64);
    let folder = tempfile::tempdir().unwrap();
    let lists = lists(case, &mut random, folder.path());
    let asked = numbers(&mut random, case.queries * case.dimensions, case.has_ties);
    let mut probes = Vec::new();
    for query in 0..case.queries as u32 {
        // The last query looks into all lists, and the first into one that is empty.
        let all = (0..SIZES.len() as u32).map(|list| (list * 5 + query) % SIZES.len() as u32);
        let count = match query {
            _ if query + 1 == case.queries as u32 => SIZES.len(),
            0 => 0,
            _ => 1 + random.idx(6),
        };
        probes.extend(all.take(count).map(|list| (list, 3 * query)));
        probes.extend((query == 0).then_some((1, 0)));
    }
    let mut file = tempfile::NamedTempFile::new().unwrap();
    for id in 0..SIZES.iter().sum::<usize>() as u64 {
        let is_among = case.among.is_none_or(|has| has(id)) && lists.space().store().has(id);
        is_among.then(|| writeln!(file, "{id}").unwrap());
    }
    let segment_panels = if case.chunk.is_some() { 4 } else { 1 << 20 };
    let shared = Arc::new(Shared::of_segments(&lists, segment_panels));
    let operator = |picked| ScanLists {
        shared: Arc::clone(&shared),
        kept: case.kept,
        range: f64::INFINITY,
        among: case.among.map_or_else(Among::default, |_| Among::of_file(file.path().to_owned())),
        slots: 2,
        picked,
        is_asked: true,
        sized: Some(Sized {
            terms: case.terms,
            queries: case.of_block.0,
            sums: case.of_block.1,
            chunk: case.chunk,
        }),
        probes: Vec::new(),
        search: None,
    };
    let none = Picked { devices: None, reason: String::new() };
    let (wanted, _) = answers(operator(none), case, &asked, &probes);
    let cache = Some(std::env::temp_dir().join("boxwork-test-programs"));
    let (is_sound, is_lost) = (faults.call == 0 && faults.buffer_bytes_max.is_none(), faults.for_good);
    let (driver, devices) = Faulty::devices(faults, Options { cache, ..Options::default() });
    let Ok(devices) = devices else { return driver.calls() };
    let allowed: Arc<[usize]> = (0..devices.list().len()).collect();
    let picked = Picked { devices: Some((Arc::clone(&devices), allowed)), reason: String::new() };
    let (found, notes) = answers(operator(picked), case, &asked, &probes);
    let what = format!(
        "{:?}, {:?}, {} numbers, {} parts, {} kept, {:?}",
        case.measure, case.coding, case.dimensions, case.parts, case.kept, case.terms
    );
    assert_eq!(found, wanted, "{what}");
    assert!(!wanted.is_empty() || case.among.is_some(), "{what}");
    let is_of_codes = matches!(case.coding, Coding::Product | Coding::Fast);
    assert_eq!(notes.is_empty(), is_of_codes && case.kept <= 2048, "{notes:?}");
    if is_sound {
        let size: u64 = devices.statistics().iter().map(|of_device| of_device.size).sum();
        assert_eq!(
            (size > 0, devices.take_warnings()),
            (notes.is_empty() && !wanted.is_empty(), Vec::new()),
            "{what}"
        );
    }
    drop(devices);
    assert!(is_lost || driver.left().is_empty(), "{:?} are left", driver.left());
    driver.calls()
}

fn sound(case: &Case) -> u64 {
    check(case, Plan { appears_as: 1, ..Plan::default() })
}

#[test]
fn devices_find_what_slots_find() {
    if !has_device("devices_find_what_slots_find") {
        return;
    }
    for measure in [VectorMeasure::L2, VectorMeasure::InnerProduct, VectorMeasure::Cosine] {
        let terms = if measure == VectorMeasure::InnerProduct { Terms::None } else { Terms::Kept };
        let case = Case { measure, terms, ..USUAL };
        for (dimensions, parts, has_ties) in [
            (1, 1, false),
            (16, 4, true),
            (33, 8, false),
            (128, 16, false),
            (129, 32, true),
            (130, 64, false),
        ] {
            sound(&Case { dimensions, parts, has_ties, ..case });
            sound(&Case { dimensions, parts, has_ties, coding: Coding::Fast, ..case });
        }
    }
    let computed = Case { terms: Terms::Computed, ..USUAL };
    for (dimensions, parts, coding) in [
        (16, 4, Coding::Product),
        (130, 64, Coding::Product),
        (129, 100, Coding::Product),
        (33, 8, Coding::Fast),
    ] {
        sound(&Case { dimensions, parts, coding, ..computed });
    }
    for kept in [1, 31, 32, 33, 100, 700, 2048] {
        sound(&Case { kept, ..USUAL });
        sound(&Case { kept, has_ties: true, queries: 40, ..USUAL });
    }
    for terms in [Terms::Kept, Terms::Computed] {
        sound(&Case { turned: Some(16), terms, ..USUAL });
        sound(&Case { turned: Some(12), parts: 5, measure: VectorMeasure::Cosine, terms, ..USUAL });
    }
    // So many that warps select.
    sound(&Case { queries: 1001, kept: 10, has_ties: true, ..USUAL });
    // Many queries of one list, and blocks of few queries or few sums.
    for of_block in [(1024, 1 << 20), (7, 1 << 20), (1024, 1500), (1, 1 << 20)] {
        sound(&Case { queries: 60, of_block, ..USUAL });
        check(&Case { queries: 60, of_block, ..USUAL }, Plan { appears_as: 3, ..Plan::default() });
    }
}

#[test]
fn devices_scan_among_some_objects() {
    if !has_device("devices_scan_among_some_objects") {
        return;
    }
    let most: fn(u64) -> bool = |id| !id.is_multiple_of(7);
    // Whole lists have none of them.
    let class: fn(u64) -> bool = |id| (100..390).contains(&id);
    for among in [most, class] {
        for coding in [Coding::Product, Coding::Fast] {
            sound(&Case { among: Some(among), coding, queries: 30, ..USUAL });
        }
        sound(&Case { among: Some(among), queries: 30, of_block: (7, 1 << 20), ..USUAL });
    }
}

#[test]
fn chunks_of_lists_find_what_slots_find() {
    if !has_device("chunks_of_lists_find_what_slots_find") {
        return;
    }
    let most: fn(u64) -> bool = |id| !id.is_multiple_of(7);
    for (panels, devices) in [(1, 1), (4, 1), (9, 2), (13, 3), (1000, 1)] {
        let case = Case { queries: 30, chunk: Some(panels), of_block: (8, 1 << 20), ..USUAL };
        let several = |case: &Case| check(case, Plan { appears_as: devices, ..Plan::default() });
        several(&case);
        several(&Case { has_ties: true, coding: Coding::Fast, ..case });
        several(&Case { kept: 700, among: Some(most), ..case });
        several(&Case { measure: VectorMeasure::InnerProduct, terms: Terms::None, kept: 1, ..case });
    }
    let case = Case { queries: 30, chunk: Some(6), of_block: (8, 1 << 20), ..USUAL };
    let calls = check(&case, Plan { appears_as: 2, ..Plan::default() });
    for (call, for_good) in (1..calls).step_by(11).zip([false, true].into_iter().cycle()) {
        check(&case, Plan { call, for_good, appears_as: 2, ..Plan::default() });
    }
}

#[test]
fn what_devices_cannot_scan_is_left_to_slots_with_a_note() {
    if !has_device("what_devices_cannot_scan_is_left_to_slots_with_a_note") {
        return;
    }
    sound(&Case { coding: Coding::Rows, parts: 0, ..USUAL });
    sound(&Case { coding: Coding::Rabitq, parts: 16, turned: Some(16), ..USUAL });
    sound(&Case { kept: 2049, ..USUAL });
}

#[test]
fn devices_that_fail_change_no_candidate() {
    if !has_device("devices_that_fail_change_no_candidate") {
        return;
    }
    let case = Case { queries: 30, of_block: (8, 1 << 20), ..USUAL };
    let calls = check(&case, Plan { appears_as: 2, ..Plan::default() });
    for call in (1..calls).step_by(7) {
        for for_good in [false, true] {
            check(&case, Plan { call, for_good, appears_as: 2, ..Plan::default() });
        }
    }
    // No device has room for the sums of a block.
    check(&case, Plan { buffer_bytes_max: Some(8192), ..Plan::default() });
}

/// A scan whose output has room for one envelope, which is cancelled once that is full; returns the candidates before and after.
fn cancelled_midway(operator: ScanLists, asked: &[f32], probes: &[(u32, u32)]) -> (usize, usize) {
    let mut harness = Harness::of(&SCAN_LISTS, Box::new(operator));
    harness.room(1);
    give(&mut harness, USUAL.dimensions, asked, probes);
    harness.run().unwrap();
    assert!(!harness.is_done(), "it waits for room");
    let rows = |harness: &mut Harness| harness.taken(CANDIDATES).iter().map(Envelope::rows).sum();
    harness.cancel();
    let before = rows(&mut harness);
    harness.run().unwrap();
    assert!(harness.is_done(), "a cancelled scan ends");
    (before, rows(&mut harness))
}

#[test]
fn a_scan_that_is_cancelled_ends_and_leaves_nothing_on_devices() {
    let case = Case { queries: 400, kept: 40, of_block: (8, 1 << 20), ..USUAL };
    let mut random = Random::new(77);
    let folder = tempfile::tempdir().unwrap();
    let lists = lists(&case, &mut random, folder.path());
    let asked = numbers(&mut random, case.queries * case.dimensions, false);
    let probes: Vec<(u32, u32)> = (0..400).flat_map(|query| [(5, 3 * query), (0, 3 * query)]).collect();
    let shared = Arc::new(Shared::of_segments(&lists, 4));
    let operator = |picked, chunk| ScanLists {
        shared: Arc::clone(&shared),
        kept: case.kept,
        range: f64::INFINITY,
        among: Among::default(),
        slots: 2,
        picked,
        is_asked: true,
        sized: Some(Sized { terms: case.terms, queries: case.of_block.0, sums: case.of_block.1, chunk }),
        probes: Vec::new(),
        search: None,
    };
    let none = || Picked { devices: None, reason: String::new() };
    // Slots, which have taken their input and scan nothing once the request is cancelled.
    let mut harness = Harness::of(&SCAN_LISTS, Box::new(operator(none(), None)));
    give(&mut harness, case.dimensions, &asked, &probes);
    harness.cancel();
    harness.run().unwrap();
    assert!(harness.is_done() && harness.taken(CANDIDATES).is_empty());
    if !has_device("a_scan_that_is_cancelled_ends_and_leaves_nothing_on_devices") {
        return;
    }
    // Devices, with all lists and with chunks of them, and slots that compute what a device has lost.
    for (chunk, call) in [(None, 0), (Some(4), 0), (None, 40), (Some(4), 40)] {
        let cache = Some(std::env::temp_dir().join("boxwork-test-programs"));
        let faults = Plan { call, for_good: true, appears_as: 1, ..Plan::default() };
        let (driver, devices) = Faulty::devices(faults, Options { cache, ..Options::default() });
        let Ok(devices) = devices else { continue };
        let picked = Picked { devices: Some((Arc::clone(&devices), Arc::from([0]))), reason: String::new() };
        let (before, after) = cancelled_midway(operator(picked, chunk), &asked, &probes);
        assert!(before > 0 && before + after < 400 * 31, "{before} and {after} candidates, chunk {chunk:?}");
        drop(devices);
        assert!(call > 0 || driver.left().is_empty(), "{:?} are left", driver.left());
    }
}

#[test]
fn lists_that_are_larger_than_the_memory_of_a_device_pass_through_it() {
    if !has_device("lists_that_are_larger_than_the_memory_of_a_device_pass_through_it") {
        return;
    }
    let case = Case { queries: 60, coding: Coding::Fast, parts: 8, ..USUAL };
    let mut random = Random::new(78);
    let folder = tempfile::tempdir().unwrap();
    let sizes: Vec<usize> = (0..300).map(|list| 300 + 5 * (list % 17)).collect();
    let lists = lists_of(&sizes, &case, &mut random, folder.path());
    let asked = numbers(&mut random, case.queries * case.dimensions, false);
    let probes: Vec<(u32, u32)> = (0..60).map(|query| (query * 7 % 300, 3 * query)).collect();
    let shared = Arc::new(Shared::of_segments(&lists, 8));
    let operator = |picked| ScanLists {
        shared: Arc::clone(&shared),
        kept: case.kept,
        range: f64::INFINITY,
        among: Among::default(),
        slots: 2,
        picked,
        is_asked: true,
        sized: None,
        probes: Vec::new(),
        search: None,
    };
    let (wanted, _) =
        answers(operator(Picked { devices: None, reason: String::new() }), &case, &asked, &probes);
    let codes = (lists.panels() * PANEL * 4) as u64;
    for share in [1, 3] {
        let cache = Some(std::env::temp_dir().join("boxwork-test-programs"));
        let options = Options { cache, memory_bytes: Some(codes * share), ..Options::default() };
        let (driver, devices) = Faulty::devices(Plan { appears_as: 1, ..Plan::default() }, options);
        let devices = devices.unwrap();
        let picked = Picked { devices: Some((Arc::clone(&devices), Arc::from([0]))), reason: String::new() };
        let (found, notes) = answers(operator(picked), &case, &asked, &probes);
        assert_eq!((found == wanted, &notes[..]), (true, &[][..]), "{codes} bytes of codes");
        let used = devices.list()[0].memory_used_bytes();
        assert!(used <= codes * share, "{used} bytes of {}", codes * share);
        let size: u64 = devices.statistics().iter().map(|of_device| of_device.size).sum();
        assert!(size > 0 && devices.take_warnings().is_empty(), "devices scan them");
        drop(devices);
        assert!(driver.left().is_empty());
    }
}
