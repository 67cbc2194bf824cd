//! Alignments of devices beside those of slots, with devices that fail.

use std::path::Path;

use boxwork_kernels::chance::Random;
use boxwork_runtime::feeding::Options;
use boxwork_runtime::feeding::faults::{Faulty, Plan, has_device};
use boxwork_stores::kinds::{Kind as _, Texts};
use boxwork_stores::object_store::Rows;
use boxwork_stores::spaces::{Alignment, EditConstants};
use boxwork_stores::store::Store;

use super::tests::run;
use super::*;

#[derive(Clone)]
struct Case {
    alignment: Alignment,
    store: Arc<dyn Store>,
    queries: Vec<String>,
    range: f64,
}

/// Texts of up to 30 letters, two of which are removed, and one of too many letters for devices.
fn store(count: usize) -> Arc<dyn Store> {
    let (mut rows, mut random) = (Rows::new(Texts), Random::new(8));
    for row in 0..count {
        let length = if row == 700 { 16_400 } else { random.idx(31) };
        let letters: Vec<char> = (0..length).map(|_| ['a', 'b', 'c', '\u{e9}', 'q'][random.idx(5)]).collect();
        rows.push(&row.to_string(), |builder| Texts::push(builder, &letters)).unwrap();
    }
    let removed = [2, 1029].into_iter().filter(|id| *id < count as u64).collect();
    Arc::new(rows.finish_without(removed, Path::new("texts"), None).unwrap())
}

fn case(name: &str, costs: [u32; 3], range: f64) -> Case {
    let [insert, delete, replace] = costs.map(Some);
    let costs = EditConstants { insert, delete, replace, matrix: None };
    let queries = ["abcabcqqq", "", "no letter of any: \u{1f600}", &"cab".repeat(100)];
    let alignment = Alignment::open(name, &costs, 3).unwrap();
    Case { alignment, store: store(3000), queries: queries.map(str::to_owned).into(), range }
}

/// Rows, and the numbers that devices have found.
type Found = (Vec<(u32, u64, f64)>, u64);

fn rows(case: &Case, devices: Option<(Arc<Devices>, Arc<[usize]>)>) -> Found {
    let space = case.alignment.clone().space(Arc::clone(&case.store)).unwrap();
    let wanted = || Wanted::Alignments(Arc::new(case.alignment.numbers()));
    let on_devices = devices.clone().map(|devices| OnDevices {
        given: Some(Cut { texts: 2048, letters: 1 << 40 }),
        ..OnDevices::new(Arc::new(Shared::new(&case.store, true)), wanted(), devices, false)
    });
    let task = EditScan::new(space, (None, case.range), 1, None, (on_devices, LongDevices::none()));
    let (found, of_devices, _) = run(task, devices, &case.queries);
    (found, of_devices)
}

/// Compares the rows on devices with these faults with those of slots. Returns the calls of the driver, and the numbers that devices
/// have found.
fn check(case: &Case, faults: Plan) -> (u64, u64) {
    let (expected, none) = rows(case, None);
    assert_eq!(none, 0);
    let cache = Some(std::env::temp_dir().join("boxwork-test-programs"));
    let (driver, devices) = Faulty::devices(faults, Options { cache, ..Options::default() });
    let Ok(devices) = devices else { return (driver.calls(), 0) };
    let allowed: Arc<[usize]> = (0..devices.list().len()).collect();
    let (found, of_devices) = rows(case, Some((devices, allowed)));
    assert!(found == expected, "range {}: other rows on devices", case.range);
    (driver.calls(), of_devices)
}

#[test]
fn alignments_of_devices_are_those_of_slots() {
    if !has_device("alignments_of_devices_are_those_of_slots") {
        return;
    }
    let sound = |case: &Case| check(case, Plan { appears_as: 1, ..Plan::default() }).1;
    // All short texts but those removed; removed ones are computed too, and leave no row.
    let all = 4 * (3000 - 1);
    assert_eq!(sound(&case("edit", [1, 4, 3], f64::INFINITY)), all);
    assert_eq!(sound(&case("edit", [2, 2, 9], 30.0)), all);
    assert_eq!(sound(&case("smith_waterman", [1, 2, 3], f64::INFINITY)), all);
    assert_eq!(sound(&case("smith_waterman", [1, 2, 3], -9.0)), all);
    // Numbers of the largest costs fit for these texts, and would not for a longer query.
    let largest = case("edit", [65_535, 65_535, 1], f64::INFINITY);
    assert_eq!(sound(&largest), all);
    let queries = vec!["ab".repeat(8190)];
    assert_eq!(sound(&Case { queries, store: store(40), ..largest }), 0, "a number may not fit");
    // Devices share the chunks; the order of the rows stays.
    check(&case("edit", [1, 4, 3], f64::INFINITY), Plan { appears_as: 3, ..Plan::default() });
}

#[test]
fn devices_that_fail_change_no_alignment() {
    if !has_device("devices_that_fail_change_no_alignment") {
        return;
    }
    let mut all = case("smith_waterman", [1, 2, 3], -4.0);
    all.queries.truncate(3);
    for appears_as in [1, 2] {
        let (calls, _) = check(&all, Plan { appears_as, ..Plan::default() });
        for call in (1..calls).step_by(11) {
            for for_good in [false, true] {
                check(&all, Plan { call, for_good, appears_as, ..Plan::default() });
            }
        }
    }
}
