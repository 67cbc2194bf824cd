//! No answer is excluded, on any path and any device.

use boxwork_kernels::lower_bound::{BoundQuery, Bounds, PACKED_OBJECTS};
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::feeding::faults::{Faulty, Plan, has_device};
use boxwork_runtime::feeding::{Blocks, Options};
use boxwork_runtime::harness::Harness;
use boxwork_runtime::operator::{Outside, Resource};
use boxwork_runtime::parameter::Value;
use proptest::prelude::*;

use super::block::{BoundsBlock, Common, Entry, Scan};
use super::*;
use boxwork_stores::signature_store::StoreInfo;
use boxwork_stores::sqfd_space::SqfdSpace;
use boxwork_stores::testing;

/// Bounds the objects of these seeds; the remaining objects and the hint must contain all answers. Returns the number
/// that remains.
fn check(seeds: &[u64], pivots: &[u64], bound: &str, k: Option<usize>, range: Option<f64>) -> usize {
    let folder = tempfile::tempdir().unwrap();
    let names: Vec<String> = (0..seeds.len()).map(|idx| idx.to_string()).collect();
    let objects: Vec<(&str, u64)> = names.iter().map(String::as_str).zip(seeds.iter().copied()).collect();
    let space = testing::space(testing::store_of(folder.path(), &objects, &StoreInfo::default()));
    let table = testing::pivot_table(&space, pivots, folder.path());
    let side = testing::queries(&[("q0", seeds[0]), ("q1", 7777), ("q2", seeds[seeds.len() / 2])]);
    check_on(&space, &table, side, bound, k, range)
}

fn check_on(
    space: &Arc<SqfdSpace>,
    table: &Arc<PivotTable>,
    side: Envelope,
    bound: &str,
    k: Option<usize>,
    range: Option<f64>,
) -> usize {
    check_by(space, boxed(table, bound, k, range), side, bound, k, range)
}

/// A box made as the catalogue makes it.
fn boxed(table: &Arc<PivotTable>, bound: &str, k: Option<usize>, range: Option<f64>) -> Harness {
    let resource: Resource = Arc::clone(table) as Resource;
    let mut given = vec![("pivots", Value::Text("t".into())), ("bound", Value::Text(bound.into()))];
    given.extend(k.map(|k| ("k", Value::Integer(k as i64))));
    given.extend(range.map(|range| ("range", Value::Number(range))));
    Harness::with_resources(&LOWER_BOUNDS, given, [("t", resource)]).unwrap()
}

/// The remaining objects contain all answers, with sound bounds; so does the hint.
fn check_by(
    space: &Arc<SqfdSpace>,
    mut harness: Harness,
    side: Envelope,
    bound: &str,
    k: Option<usize>,
    range: Option<f64>,
) -> usize {
    harness.give(QUERIES, side.clone());
    harness.room(1);
    let mut left = vec![Vec::new(); 3];
    while !harness.is_done() {
        harness.run().unwrap();
        for envelope in harness.taken(CANDIDATES) {
            let (numbers, ids) = (envelope.u32s("query").unwrap(), envelope.u64s("id").unwrap());
            for (row, lower) in envelope.f64s("lower").unwrap().iter().enumerate() {
                left[numbers[row] as usize].push((ids[row], *lower));
            }
        }
    }
    let queries = Queries::new(std::slice::from_ref(&side), &testing::any_space(space)).unwrap();
    let all: Vec<u64> = (0..space.store().len()).collect();
    for (query, left) in queries.iter().zip(&left) {
        assert!(left.is_sorted_by(|a, b| a.0 < b.0));
        let exact = query.exact(&all).unwrap();
        assert!(left.iter().all(|(id, lower)| *lower <= exact[*id as usize]));
        let mut ranked: Vec<f64> = exact.clone();
        ranked.sort_by(f64::total_cmp);
        let kth = k.filter(|k| *k <= ranked.len()).map_or(f64::INFINITY, |k| ranked[k - 1]);
        let farthest = kth.min(range.unwrap_or(f64::INFINITY));
        if !["auto", "none"].contains(&bound) {
            assert!(harness.hint(RANGE, query.number) >= farthest);
        }
        for (id, distance) in exact.iter().enumerate() {
            let is_left = left.binary_search_by_key(&(id as u64), |left| left.0).is_ok();
            assert!(is_left || *distance > farthest, "object {id} at {distance} of {farthest} is lost");
        }
    }
    left.iter().map(Vec::len).sum()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn no_answer_is_ruled_out(
        // Few seeds, so that many objects are equal.
        seeds in prop::collection::vec(0u64..60, 1..400),
        pivots in prop::collection::vec(0usize..1000, 1..7),
        bound in prop::sample::select(vec!["auto", "triangular", "ptolemaic", "combined", "simplex"]),
        k in prop::option::of(1usize..50),
        range in prop::option::of(0.0f64..1.0),
    ) {
        let pivots: Vec<u64> = pivots.into_iter().map(|pivot| (pivot % seeds.len()) as u64).collect();
        if pivots.len() <= seeds.len() {
            check(&seeds, &pivots, bound, k, range);
        }
    }
}

#[test]
fn a_bound_rules_out_and_none_does_not() {
    let seeds: Vec<u64> = (0..2000).collect();
    let pivots = [1, 30, 200, 999, 1500, 77, 5, 1234];
    assert_eq!(check(&seeds, &pivots, "none", Some(5), None), 6000);
    let [triangular, combined, simplex] =
        ["triangular", "combined", "simplex"].map(|bound| check(&seeds, &pivots, bound, Some(5), None));
    assert!(simplex < combined && combined <= triangular && triangular < 6000);
    assert!(simplex < 2000, "{simplex} of 6000 are left");
}

#[test]
fn what_is_too_much_to_remember_is_bounded_again() {
    let folder = tempfile::tempdir().unwrap();
    let space = testing::space(testing::store(folder.path(), 700));
    let table = testing::pivot_table(&space, &[3, 9, 500], folder.path());
    let rows = |remember: i64| {
        let resource: Resource = Arc::clone(&table) as Resource;
        let given = [
            ("pivots", Value::Text("t".into())),
            // `auto` would depend on rates, which are measured anew for each box here.
            ("bound", Value::Text("simplex".into())),
            ("k", Value::Integer(9)),
            ("remember", Value::Integer(remember)),
        ];
        let mut harness = Harness::with_resources(&LOWER_BOUNDS, given, [("t", resource)]).unwrap();
        harness.give(QUERIES, testing::queries(&[("q0", 4), ("q1", 5000)]));
        harness.run().unwrap();
        assert!(harness.is_done());
        let rows = |envelope: &Envelope| -> Vec<(u32, u64, f64)> {
            let (numbers, ids) = (envelope.u32s("query").unwrap(), envelope.u64s("id").unwrap());
            let lowers = envelope.f64s("lower").unwrap().iter();
            lowers.enumerate().map(|(row, lower)| (numbers[row], ids[row], *lower)).collect()
        };
        harness.taken(CANDIDATES).iter().flat_map(rows).collect::<Vec<_>>()
    };
    let remembered = rows(1 << 20);
    assert!(!remembered.is_empty());
    assert_eq!(rows(0), remembered);
}

/// A box on devices of the test, with a table in small chunks and small result buffers.
fn on_devices(
    table: &Arc<PivotTable>,
    devices: &Arc<Devices>,
    bound: Bound,
    (k, range): (Option<usize>, Option<f64>),
    (sizes, remember): (Sizes, usize),
) -> Harness {
    Harness::of(&LOWER_BOUNDS, Box::new(operator(table, devices, bound, (k, range), (sizes, remember))))
}

fn operator(
    table: &Arc<PivotTable>,
    devices: &Arc<Devices>,
    bound: Bound,
    (k, range): (Option<usize>, Option<f64>),
    (sizes, remember): (Sizes, usize),
) -> LowerBounds {
    let allowed: Vec<usize> = (0..devices.list().len()).collect();
    LowerBounds {
        table: Arc::clone(table),
        bound: Some(bound),
        is_auto: false,
        k,
        limit: range.map_or(f32::INFINITY, above),
        remember,
        picked: Some((Arc::clone(devices), allowed.into())),
        scans: None,
        computes: None,
        slots: 2,
        remembered: Arc::default(),
        sizes,
        state: State::New,
    }
}

/// Devices of one test; the cache of their programs stays between runs.
fn devices(plan: Plan, memory_bytes: Option<u64>) -> (Arc<Faulty>, Arc<Devices>) {
    let cache = Some(std::env::temp_dir().join("boxwork-test-programs"));
    let options = Options { memory_bytes, cache, ..Options::default() };
    let (driver, devices) = Faulty::devices(plan, options);
    (driver, devices.unwrap())
}

/// Bounds of all objects from a device, by query: the range excludes none.
fn bounds_of_all(
    table: &Arc<PivotTable>,
    devices: &Arc<Devices>,
    bound: Bound,
    queries: &[BoundQuery],
) -> Vec<Vec<Entry>> {
    let common = Arc::new(Common::new(table, bound, queries, None, 2));
    let (tell, told) = std::sync::mpsc::channel();
    let mut blocks = Blocks::new(Arc::clone(devices), [0]);
    let ranges = vec![f32::INFINITY; queries.len()];
    let scan = Scan::new(&common, 0, 0..table.blocks(), table.len() as usize, ranges);
    blocks.submit(BoundsBlock::Scan(scan), Outside::new(move || tell.send(()).unwrap()));
    told.recv().unwrap();
    let (block, result) = blocks.take().unwrap();
    result.unwrap();
    let BoundsBlock::Scan(mut scan) = block else { panic!("a scan comes back") };
    assert_eq!(scan.missing(), None);
    scan.entries.iter_mut().for_each(|entries| entries.sort_unstable_by_key(|entry| entry.id));
    scan.entries
}

/// A device's bounds are sound, and differ from the processor's by at most the difference of the two declared slacks,
/// and as much again for the root.
#[test]
fn a_device_bounds_as_the_loops_do() {
    if !has_device("a_device_bounds_as_the_loops_do") {
        return;
    }
    let (driver, devices) = devices(Plan::default(), None);
    let folder = tempfile::tempdir().unwrap();
    // One object; a block and an object; several chunks. Pivots that fill part of a tile, and one or two tiles and a
    // bit.
    for (objects, pivots) in [(1, 1), (257, 9), (1300, 17)] {
        let space = testing::space(testing::store(folder.path(), objects));
        let pivots: Vec<u64> = (0..pivots).map(|pivot| (pivot * 37) % objects as u64).collect();
        let table = testing::pivot_table(&space, &pivots, folder.path());
        let side = testing::queries(&[("a", 7), ("b", 90_000), ("c", 0)]);
        let queries = Queries::new(&[side], &testing::any_space(&space)).unwrap();
        let all: Vec<u64> = (0..objects as u64).collect();
        for bound in Bound::ALL {
            let prepared: Vec<BoundQuery> = queries
                .iter()
                .map(|query| {
                    let distances = query.exact(&pivots).unwrap();
                    table.query(bound, &distances, &*query.prepared).unwrap()
                })
                .collect();
            let found = bounds_of_all(&table, &devices, bound, &prepared);
            for ((query, prepared), found) in queries.iter().zip(&prepared).zip(&found) {
                assert_eq!(found.len(), objects);
                let exact = query.exact(&all).unwrap();
                let slack = prepared.device_slack();
                let more = f64::from(slack.slack.max(slack.pairs)) - prepared.slack();
                let mut bounds = Bounds::default();
                for (id, entry) in found.iter().enumerate() {
                    assert_eq!(entry.id, id as u64);
                    let (lower, upper) = (f64::from(entry.lower), f64::from(entry.upper));
                    assert!(lower <= exact[id] && exact[id] <= upper, "{bound}: {entry:?} for {}", exact[id]);
                    if id % PACKED_OBJECTS == 0 {
                        let block = table.block(id / PACKED_OBJECTS);
                        BoundEvaluator::new(CodePath::Portable).bounds(prepared, block, &mut bounds);
                    }
                    let (below, above) =
                        (bounds.lower[id % PACKED_OBJECTS], bounds.upper[id % PACKED_OBJECTS]);
                    // The processor rounds each number to f32 separately.
                    let most = 2.0 * more + 2f64.powi(-22) * upper;
                    let apart = (lower - f64::from(below)).abs().max((upper - f64::from(above)).abs());
                    assert!(apart <= most, "{bound}, object {id}: {entry:?}, not {below} to {above}");
                }
            }
        }
    }
    assert_eq!(devices.take_warnings(), [""; 0]);
    drop(devices);
    assert_eq!(driver.left(), []);
}

#[test]
fn no_answer_is_ruled_out_by_devices() {
    if !has_device("no_answer_is_ruled_out_by_devices") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    // Few different objects, so that many bounds are equal.
    let names: Vec<String> = (0..1500).map(|idx| idx.to_string()).collect();
    let objects: Vec<(&str, u64)> =
        names.iter().map(String::as_str).zip((0..1500).map(|idx| idx * 7919 % 400)).collect();
    let space = testing::space(testing::store_of(folder.path(), &objects, &StoreInfo::default()));
    let table = testing::pivot_table(&space, &[3, 99, 200, 1111], folder.path());
    let side = || testing::queries(&[("q0", 5), ("q1", 7777), ("q2", 200)]);
    let small = Sizes { chunk_bytes: 2 * 256 * 4 * 4, entries: 24 };
    for (appears_as, memory_bytes) in [(0, None), (3, None), (0, Some(300 << 10))] {
        let (driver, devices) = devices(Plan { appears_as, ..Plan::default() }, memory_bytes);
        for bound in Bound::ALL {
            let name = bound.to_string();
            for (k, range) in [
                (Some(1), None),
                (Some(40), None),
                (Some(1499), None),
                (Some(1501), None),
                (None, Some(0.3)),
                (Some(20), Some(0.4)),
                (Some(5), Some(0.0)),
            ] {
                let on_slots = boxed(&table, &name, k, range);
                let expected = check_by(&space, on_slots, side(), &name, k, range);
                for (sizes, remember) in [(small, 1 << 20), (SIZES, 1 << 20), (small, 0)] {
                    let harness = on_devices(&table, &devices, bound, (k, range), (sizes, remember));
                    let left = check_by(&space, harness, side(), &name, k, range);
                    // A device's larger slack leaves a few more; objects not remembered are not narrowed by the host.
                    let is_near = left.abs_diff(expected) <= 30 + expected / 20;
                    assert!(is_near || remember == 0, "{left} remain, not {expected}");
                }
            }
        }
        assert_eq!(devices.take_warnings(), [""; 0], "the devices did nothing");
        assert!(devices.statistics().iter().all(|device| device.blocks > 0));
        drop(devices);
        assert_eq!(driver.left(), []);
    }
}

#[test]
fn what_devices_fail_at_is_bounded_here() {
    if !has_device("what_devices_fail_at_is_bounded_here") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let space = testing::space(testing::store(folder.path(), 900));
    let table = testing::pivot_table(&space, &[3, 500], folder.path());
    let sizes = Sizes { chunk_bytes: 1, entries: 1 << 10 };
    for appears_as in [0, 2] {
        for call in (6..90).step_by(5) {
            for for_good in [false, true] {
                let plan = Plan { call, for_good, appears_as, ..Plan::default() };
                let (driver, devices) = devices(plan, None);
                let bound = if call % 2 == 0 { Bound::Simplex } else { Bound::Combined };
                let harness = on_devices(&table, &devices, bound, (Some(7), None), (sizes, 1 << 20));
                let side = testing::queries(&[("q0", 5), ("q1", 7777), ("q2", 200)]);
                check_by(&space, harness, side, &bound.to_string(), Some(7), None);
                assert!(devices.take_warnings().len() <= 2 * appears_as.max(1), "warned more than once");
                drop(devices);
                let left = driver.left();
                // A device that no longer reports whether it has finished keeps the buffers that it may write to.
                let is_given_up = |(kind, _): &(String, i64)| for_good && kind == "Buffer";
                assert!(left.iter().all(is_given_up), "call {call}: {left:?} are left");
            }
        }
    }
}

#[test]
fn what_is_brought_to_a_device_shows_and_stays() {
    if !has_device("what_is_brought_to_a_device_shows_and_stays") {
        return;
    }
    let (_, devices) = devices(Plan::default(), None);
    let folder = tempfile::tempdir().unwrap();
    let space = testing::space(testing::store(folder.path(), 1000));
    let table = testing::pivot_table(&space, &[3, 500], folder.path());
    let sizes = Sizes { chunk_bytes: 1, entries: 1 << 14 };
    let mut blocks = Vec::new();
    for _ in 0..2 {
        let before = devices.statistics()[0].blocks;
        let harness = on_devices(&table, &devices, Bound::Simplex, (Some(7), None), (sizes, 1 << 20));
        let side = testing::queries(&[("q0", 5), ("q1", 7777), ("q2", 200)]);
        check_by(&space, harness, side, "simplex", Some(7), None);
        blocks.push(devices.statistics()[0].blocks - before);
    }
    // Four chunks and their bounds; then the bounds alone.
    assert_eq!(blocks, [5, 1]);
}

#[test]
fn where_gpus_scan_all_objects_go_out_as_ranges() {
    if !has_device("where_gpus_scan_all_objects_go_out_as_ranges") {
        return;
    }
    let (_, devices) = devices(Plan { appears_as: 2, ..Plan::default() }, None);
    let folder = tempfile::tempdir().unwrap();
    let space = testing::space(testing::store(folder.path(), 9000));
    let table = testing::pivot_table(&space, &[3, 500], folder.path());
    let is_gpu = OnDevices { count: 2, rate: 4e8, is_measured: true };
    for computes in [Some(is_gpu), None] {
        let operator = LowerBounds {
            bound: None,
            scans: Some(scan::OnDevices::new(space.store(), Arc::clone(&devices), [0, 1].into())),
            computes,
            picked: None,
            ..operator(&table, &devices, Bound::Simplex, (Some(7), None), (SIZES, 1 << 20))
        };
        let mut harness = Harness::of(&LOWER_BOUNDS, Box::new(operator));
        harness.give(QUERIES, testing::queries(&[("q0", 5), ("q1", 7777)]));
        harness.run().unwrap();
        assert!(harness.is_done());
        let mut seen = vec![vec![0; 9000]; 2];
        for envelope in harness.taken(RANGES) {
            let (firsts, counts) = (envelope.u64s("first").unwrap(), envelope.u64s("count").unwrap());
            for ((query, first), count) in envelope.u32s("query").unwrap().iter().zip(firsts).zip(counts) {
                seen[*query as usize][*first as usize..][..*count as usize]
                    .iter_mut()
                    .for_each(|seen| *seen += 1);
            }
        }
        let told: usize = harness.taken(CANDIDATES).iter().map(Envelope::rows).sum();
        let by_range = usize::from(computes.is_some());
        assert!(seen.iter().flatten().all(|seen| *seen == by_range), "each object once for each query");
        assert_eq!(told, (1 - by_range) * 18_000, "PoCL's cores count as no GPU and get candidates");
    }
}

#[test]
fn what_was_chosen_before_is_taken_and_finds_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let space = testing::space(testing::store(folder.path(), 3000));
    let table = testing::pivot_table(&space, &[3, 500, 1999, 42], folder.path());
    // The first choices for a table, then the remembered ones.
    for turn in 0..8 {
        let side = testing::queries(&[("q0", 5 + turn), ("q1", 7777), ("q2", 200)]);
        check_on(&space, &table, side, "auto", Some(7), None);
    }
}
