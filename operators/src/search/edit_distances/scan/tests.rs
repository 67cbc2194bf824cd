//! Edit distances of devices beside those of slots, with devices that fail.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_array::{ArrayRef, StringArray, UInt32Array};
use boxwork_kernels::chance::Random;
use boxwork_runtime::feeding::Options;
use boxwork_runtime::feeding::faults::{Faulty, Plan, has_device};
use boxwork_runtime::harness::Harness;
use boxwork_runtime::operator::{Flow, Operator};
use boxwork_stores::kinds::{Kind as _, Texts};
use boxwork_stores::object_store::Rows;
use boxwork_stores::spaces::{self, DistanceOptions};
use boxwork_stores::store::Store;
use boxwork_stores::testing;

use super::super::{EDIT_DISTANCES, QUERIES};
use super::*;
use crate::devices::stage::DeviceStage;

/// Queries and texts, and the rows that are wanted.
#[derive(Clone)]
struct Case {
    space: Arc<dyn Space>,
    queries: Vec<String>,
    k: Option<usize>,
    range: f64,
}

/// The operator, which says how many distances devices have found.
struct Counted {
    operator: DeviceStage<EditScan>,
    of_devices: Arc<AtomicU64>,
}

impl Operator for Counted {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        let flow = self.operator.process(cx)?;
        let task = self.operator.task_mut();
        self.of_devices.store(task.of_devices + task.long.found, Ordering::Relaxed);
        Ok(flow)
    }
}

fn text(random: &mut Random, most: usize) -> String {
    let length = random.idx(most + 1);
    (0..length).map(|_| ['a', 'b', 'c', '\u{e9}'][random.idx(4)]).collect()
}

/// Texts of up to 12 letters, two of which are removed, and some of too many letters for devices.
fn space(count: usize) -> Arc<dyn Space> {
    let (mut rows, mut random) = (Rows::new(Texts), Random::new(8));
    for row in 0..count {
        let text: String = match row % 1500 {
            700 => "abcb".repeat(260),
            _ => text(&mut random, 12),
        };
        let letters: Vec<char> = text.chars().collect();
        rows.push(&row.to_string(), |builder| Texts::push(builder, &letters)).unwrap();
    }
    let removed = [2, 1029].into_iter().filter(|id| *id < count as u64).collect();
    let store: Arc<dyn Store> = Arc::new(rows.finish_without(removed, Path::new("texts"), None).unwrap());
    spaces::open(&DistanceOptions::named("levenshtein"), store).unwrap()
}

fn case(count: usize, queries: usize) -> Case {
    let mut random = Random::new(9);
    let mut queries: Vec<String> = (0..queries).map(|_| text(&mut random, 14)).collect();
    queries.extend([String::new(), "no letter of any".to_owned(), "cab".repeat(400)]);
    Case { space: space(count), queries, k: None, range: f64::INFINITY }
}

/// Rows, distances that devices have found, and notes.
pub(super) type Found = (Vec<(u32, u64, f64)>, u64, Vec<String>);

fn rows(case: &Case, devices: Option<(Arc<Devices>, Arc<[usize]>)>) -> Found {
    let on_devices = devices.clone().map(|devices| OnDevices {
        given: Some(Cut { texts: 2048, letters: 1 << 40 }),
        ..OnDevices::new(
            Arc::new(Shared::new(case.space.store(), false)),
            Wanted::Levenshtein,
            devices,
            false,
        )
    });
    let long = devices.clone().map_or_else(LongDevices::none, LongDevices::picked);
    let task = EditScan::new(Arc::clone(&case.space), (case.k, case.range), 1, None, (on_devices, long));
    let (mut found, of_devices, notes) = run(task, devices, &case.queries);
    if let Some(k) = case.k {
        // As a `top_k` would leave them.
        found.sort_by(|a, b| a.0.cmp(&b.0).then(a.2.total_cmp(&b.2)).then(a.1.cmp(&b.1)));
        found =
            found.chunk_by(|a, b| a.0 == b.0).flat_map(|rows| &rows[..k.min(rows.len())]).copied().collect();
    }
    (found, of_devices, notes)
}

/// The rows of some queries, as a scan finds them.
pub(super) fn run(
    task: EditScan,
    devices: Option<(Arc<Devices>, Arc<[usize]>)>,
    queries: &[String],
) -> Found {
    let of_devices = Arc::new(AtomicU64::new(0));
    let operator =
        Counted { operator: DeviceStage::new(task, SIZES, devices), of_devices: Arc::clone(&of_devices) };
    let mut harness = Harness::of(&EDIT_DISTANCES, Box::new(operator));
    harness.room(2);
    let objects: ArrayRef = Arc::new(StringArray::from(queries.to_vec()));
    let numbers: ArrayRef = Arc::new(UInt32Array::from_iter_values(0..queries.len() as u32));
    let columns = [("query", numbers), ("name", Arc::clone(&objects)), ("object", objects)];
    harness.give(QUERIES, Envelope::from_columns(columns).unwrap());
    let mut found = Vec::new();
    while !harness.is_done() {
        harness.run().unwrap();
        found.extend(testing::distance_rows(&harness.taken(DISTANCES)));
    }
    (found, of_devices.load(Ordering::Relaxed), harness.notes().to_vec())
}

/// Compares the rows on devices with these faults with those of slots. Returns the calls of the driver, and the distances that devices
/// have found.
fn check(case: &Case, faults: Plan) -> (u64, u64) {
    let (expected, none, _) = rows(case, None);
    assert_eq!(none, 0);
    let (calls, of_devices, _) = check_rows(case, faults, Options::default(), &expected);
    (calls, of_devices)
}

/// Compares the rows on devices with these faults and options with some. Returns the notes too.
fn check_rows(
    case: &Case,
    faults: Plan,
    options: Options,
    expected: &[(u32, u64, f64)],
) -> (u64, u64, Vec<String>) {
    let cache = Some(std::env::temp_dir().join("boxwork-test-programs"));
    let (driver, devices) = Faulty::devices(faults, Options { cache, ..options });
    let Ok(devices) = devices else { return (driver.calls(), 0, Vec::new()) };
    let allowed: Arc<[usize]> = (0..devices.list().len()).collect();
    let (found, of_devices, notes) = rows(case, Some((devices, allowed)));
    assert!(found == expected, "k {:?}, range {}: other rows on devices", case.k, case.range);
    (driver.calls(), of_devices, notes)
}

#[test]
fn the_nearest_of_slots_are_the_first_of_all_rows_in_order() {
    // Many texts are equally far, in each piece and from piece to piece.
    let all = case(7000, 5);
    let (mut sorted, ..) = rows(&all, None);
    sorted.sort_by(|a, b| a.0.cmp(&b.0).then(a.2.total_cmp(&b.2)).then(a.1.cmp(&b.1)));
    for (k, range) in [(1, f64::INFINITY), (7, f64::INFINITY), (70, f64::INFINITY), (2000, 5.0), (7, 2.0)] {
        let of_query = |rows: &[(u32, u64, f64)]| {
            rows.iter().filter(|row| row.2 <= range).take(k).copied().collect::<Vec<_>>()
        };
        let expected: Vec<_> = sorted.chunk_by(|a, b| a.0 == b.0).flat_map(of_query).collect();
        let (found, ..) = rows(&Case { k: Some(k), range, ..all.clone() }, None);
        assert!(found == expected && !found.is_empty(), "{k} within {range}");
    }
}

#[test]
fn rows_of_devices_are_those_of_slots() {
    if !has_device("rows_of_devices_are_those_of_slots") {
        return;
    }
    let all = case(7000, 5);
    let sound = |k: Option<usize>, range: f64| {
        check(&Case { k, range, ..all.clone() }, Plan { appears_as: 1, ..Plan::default() }).1
    };
    // All short texts, and the queries that are not too long.
    let expected = (7000 - 5) * 7;
    assert_eq!(sound(None, f64::INFINITY), expected);
    assert_eq!(sound(None, 2.5), expected);
    assert_eq!(sound(None, 0.0), expected);
    // More rows than a list has room for.
    assert_eq!(sound(None, 9.0), expected);
    assert_eq!(sound(Some(7), f64::INFINITY), expected);
    assert_eq!(sound(Some(3), 1.0), expected);
    assert_eq!(sound(Some(2000), f64::INFINITY), expected);
    // Devices share the chunks; the order of the rows stays.
    check(&all, Plan { appears_as: 3, ..Plan::default() });
    let few = Case { queries: vec!["cab".repeat(400)], ..case(100, 0) };
    assert_eq!(check(&few, Plan::default()).1, 0, "no query is short enough");
    check(&Case { queries: Vec::new(), ..case(100, 0) }, Plan::default());
}

#[test]
fn devices_that_fail_change_no_distance() {
    if !has_device("devices_that_fail_change_no_distance") {
        return;
    }
    let (all, nearest) = (case(5000, 2), Case { k: Some(4), ..case(5000, 2) });
    for appears_as in [1, 2] {
        let (calls, _) = check(&all, Plan { appears_as, ..Plan::default() });
        for call in (1..calls).step_by(9) {
            for for_good in [false, true] {
                check(&all, Plan { call, for_good, appears_as, ..Plan::default() });
                check(&nearest, Plan { call, for_good, appears_as, ..Plan::default() });
            }
        }
    }
}

#[test]
fn long_pairs_that_differ_go_to_devices_and_come_back_when_these_fail() {
    if !has_device("long_pairs_that_differ_go_to_devices_and_come_back_when_these_fail") {
        return;
    }
    let mut random = Random::new(12);
    let mut long =
        |count: usize| (0..count).map(|_| ['a', 'b', '\u{e9}', 'c'][random.idx(4)]).collect::<String>();
    // Slots share their table too: it has 2^28 cells or more in its band.
    let (a, b) = (long(26_000), long(24_500));
    let similar = format!("{}b{}", &a[..a.len() - 7], &a[a.len() - 6..]);
    let mut texts = Rows::new(Texts);
    for (row, text) in [&b, "abc", &similar, ""].iter().enumerate() {
        let letters: Vec<char> = text.chars().collect();
        texts.push(&row.to_string(), |builder| Texts::push(builder, &letters)).unwrap();
    }
    let store: Arc<dyn Store> = Arc::new(texts.finish_without(Vec::new(), Path::new("texts"), None).unwrap());
    let space = spaces::open(&DistanceOptions::named("levenshtein"), store).unwrap();
    let case = Case { space, queries: vec![a, "cab".to_owned(), b], k: None, range: f64::INFINITY };
    let (expected, ..) = rows(&case, None);
    let sound = |case: &Case, expected: &[(u32, u64, f64)]| {
        check_rows(case, Plan::default(), Options::default(), expected)
    };
    // The first query and the other text, the last one and the text that is similar to the first; and the second query and all texts of
    // up to 1,024 letters.
    let (calls, of_devices, _) = sound(&case, &expected);
    assert_eq!(of_devices, 2 + 2);
    let within: Vec<_> = expected.iter().filter(|row| row.2 <= 300.0).copied().collect();
    assert_eq!(sound(&Case { range: 300.0, ..case.clone() }, &within).1, 2 + 2);
    let small = Options { memory_bytes: Some(200_000), ..Options::default() };
    let (_, of_devices, notes) = check_rows(&case, Plan::default(), small, &expected);
    assert!(of_devices <= 2 && notes.iter().any(|note| note.contains("do not fit")), "{notes:?}");
    for call in (1..calls).step_by(calls as usize / 5 + 1) {
        for for_good in [false, true] {
            check_rows(&case, Plan { call, for_good, ..Plan::default() }, Options::default(), &expected);
        }
    }
}
