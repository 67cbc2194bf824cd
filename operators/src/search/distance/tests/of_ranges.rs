//! Distances of ranges of ids are those that candidates would have, on the slots and on devices.

use boxwork_stores::signature_store::StoreChange;

use super::*;

/// Ranges over nine thousand objects: all of them, in runs of whole batches and in others, and an empty range.
fn asked() -> Vec<Vec<(u32, u64, u64)>> {
    let both = |first, count| vec![(0, first, count), (1, first, count)];
    vec![both(0, 8192), both(8192, 808), vec![(0, 100, 0)]]
}

#[test]
fn ranges_are_what_candidates_would_be() {
    let folder = tempfile::tempdir().unwrap();
    let space = testing::space(testing::store(folder.path(), 9000));
    let side = testing::queries(&[("a", 7), ("b", 9000)]);
    assert_eq!(check_ranges(&space, None, Criteria::default(), &side, &asked()), 18_000);
    let parts = [vec![(0, 5, 1), (1, 5, 1), (1, 8000, 1000)], vec![(0, 8999, 1)]];
    assert_eq!(check_ranges(&space, None, Criteria::default(), &side, &parts), 1003);
    for (row, words) in [((3, 0, 1), "query 3"), ((0, 9000, 1), "9000"), ((0, u64::MAX, 2), "more than")] {
        let picked = Picked { devices: None, reason: String::new() };
        let operator = stage(testing::any_space(&space), picked, Criteria::default());
        let mut harness = Harness::of(&SQFD, Box::new(operator));
        harness.give(QUERY, side.clone());
        harness.give(RANGES, ranges(&[row]));
        let error = harness.run().unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn ranges_on_devices_are_what_candidates_would_be() {
    if !has_device("ranges_on_devices_are_what_candidates_would_be") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let space = testing::space(testing::store(folder.path(), 9000));
    let side = testing::queries(&[("a", 7), ("b", 9000)]);
    let parts = [vec![(0, 5, 1), (1, 5, 1), (1, 8000, 900)], vec![(0, 8999, 1)]];
    for (appears_as, memory_bytes) in [(1, None), (2, None), (1, Some(1200 << 10))] {
        let (driver, devices) = devices(Plan { appears_as, ..Plan::default() }, memory_bytes);
        let devices_of = Some(&devices);
        // Twice: brought in, and there already.
        for _ in 0..2 {
            let rows = check_ranges(&space, devices_of, Criteria::default(), &side, &asked());
            assert_eq!(rows, 18_000);
        }
        assert_eq!(check_ranges(&space, devices_of, Criteria::default(), &side, &parts), 903);
        for (k, range, is_less) in [
            (Some(5), None, true),
            (None, Some(0.05), true),
            (Some(5), Some(0.1), true),
            (None, Some(1e9), false),
        ] {
            let criteria = Criteria { k, range, objects_min: Some(100) };
            let rows = check_ranges(&space, devices_of, criteria, &side, &asked());
            assert_eq!(rows < 18_000, is_less, "{k:?} {range:?}: {rows} rows");
        }
        assert_eq!(devices.take_warnings(), [""; 0]);
        assert_eq!(
            devices.statistics().iter().filter(|of_device| of_device.blocks > 0).count(),
            appears_as,
            "each device has its share"
        );
        drop(devices);
        assert_eq!(driver.left(), []);
    }
}

#[test]
fn what_does_not_fit_on_a_device_passes_through_it() {
    if !has_device("what_does_not_fit_on_a_device_passes_through_it") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let space = testing::space(testing::store(folder.path(), 30_000));
    let (store, chunks) = (space.store(), space.chunks().cut.count() as u64);
    let bytes: usize = (0..store.batches()).map(|batch| store.batch_bytes(batch)).sum();
    let side = testing::queries(&[("a", 7)]);
    // No pinned memory, less than all that passes through would need, and more.
    for pinned_bytes in [None, Some(bytes as u64 / 10), Some(bytes as u64)] {
        let options = Options { memory_bytes: Some(bytes as u64), pinned_bytes, ..Options::default() };
        let (driver, devices) = devices_with(Plan::default(), options);
        for _ in 0..3 {
            let criteria = Criteria { k: Some(5), range: None, objects_min: Some(100) };
            check_ranges(&space, Some(&devices), criteria, &side, &[vec![(0, 0, 30_000)]]);
        }
        let device = &devices.list()[0];
        let key = |part| SharedKey { resource: store.number(), form: 0, part };
        let count = |of: &dyn Fn(SharedKey) -> bool| (0..chunks).filter(|part| of(key(*part))).count();
        let (held, pinned) = (count(&|key| device.holds(key)), count(&|key| device.pins(key)));
        assert!(held > 0 && held < chunks as usize, "{held} of {chunks} stay on the device");
        assert!(device.pinned_bytes() <= pinned_bytes.unwrap_or(0));
        match pinned_bytes {
            None => assert_eq!(pinned, 0),
            Some(given) if given < bytes as u64 => {
                assert!(pinned > 0 && held + pinned < chunks as usize, "{held} and {pinned} of {chunks}");
            }
            Some(_) => assert_eq!(held + pinned, chunks as usize),
        }
        assert_eq!(devices.take_warnings(), [""; 0]);
        drop(devices);
        assert_eq!(driver.left(), []);
    }
}

#[test]
fn ranges_leave_out_what_was_removed_and_take_signatures_of_any_size() {
    if !has_device("ranges_leave_out_what_was_removed_and_take_signatures_of_any_size") {
        return;
    }
    let (driver, devices) = devices(Plan::default(), None);
    let folder = tempfile::tempdir().unwrap();
    let store = store_of_sizes(folder.path(), 3, &ODD_SIZES, 2.0);
    let side = queries_of(&store, &[8, 0, 5]);
    let path = store.path().to_owned();
    let space = testing::space(store);
    let all = |count| vec![(0..3).map(|number| (number, 0, count)).collect::<Vec<_>>()];
    assert_eq!(check_ranges(&space, Some(&devices), Criteria::default(), &side, &all(17)), 51);
    let mut change = StoreChange::begin(&path).unwrap();
    for name in ["3", "4", "16"] {
        assert!(change.remove_named(name).unwrap());
    }
    change.write().unwrap().commit().unwrap();
    let space = testing::space(Arc::new(SignatureStore::open(&path).unwrap()));
    assert_eq!(check_ranges(&space, Some(&devices), Criteria::default(), &side, &all(17)), 42);
    drop(devices);
    assert_eq!(driver.left(), []);
}

#[test]
fn ranges_that_devices_fail_at_are_computed_here() {
    if !has_device("ranges_that_devices_fail_at_are_computed_here") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let space = testing::space(testing::store(folder.path(), 300));
    let side = testing::queries(&[("a", 7)]);
    for call in (6..90).step_by(3) {
        for (for_good, appears_as) in [(false, 1), (true, 1), (true, 2)] {
            let (_, devices) = devices(Plan { call, for_good, appears_as, ..Plan::default() }, None);
            let criteria = Criteria { k: Some(3), range: None, objects_min: Some(100) };
            check_ranges(
                &space,
                Some(&devices),
                criteria,
                &side,
                &[vec![(0, 0, 300)], vec![(0, 0, 300)]][..1],
            );
            assert!(devices.take_warnings().len() <= 2 * appears_as, "told more than once");
        }
    }
}
