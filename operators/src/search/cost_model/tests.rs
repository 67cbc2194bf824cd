//! The cost model chooses by counted work and measured rates.

use super::*;
use boxwork_stores::testing;

fn made(objects: u64, rates: (f64, f64), ways: &[(f64, f64)]) -> Estimate {
    let search = Search { k: Some(10), range: None, queries: 1, workers: 1, devices: None };
    let rates = Rates { scan_ns: rates.0, picked_ns: rates.1, exact_ns: 0.0, pivots: 32 };
    let mut estimate = Estimate { search, objects, sampled: 0, rates, farthest: 1.0, ways: Vec::new() };
    estimate.ways.push(estimate.scan());
    for (bound_ns, share) in ways {
        let count = share * objects as f64;
        estimate.ways.push(estimate.indexed("best_first", Bound::Simplex, *bound_ns, count, count));
    }
    estimate
}

#[test]
fn an_index_pays_where_it_leaves_little_of_what_is_dear() {
    let bound = |rates, way| made(100_000, rates, &[way]).choice().way.bound;
    assert_eq!(bound((2000.0, 3000.0), (20.0, 0.05)), Some(Bound::Simplex));
    assert_eq!(bound((2000.0, 3000.0), (20.0, 0.6)), Some(Bound::Simplex));
    assert_eq!(bound((15.0, 30.0), (20.0, 0.0)), None, "bounds dearer than distances");
    assert_eq!(bound((30.0, 45.0), (20.0, 0.9)), None, "two thirds of a scan for nothing");
    assert_eq!(bound((200.0, 300.0), (20.0, 1.0)), Some(Bound::Simplex), "a tenth staked on nine");
    assert_eq!(bound((2000.0, 3000.0), (20.0, 1.0)), Some(Bound::Simplex), "a hundredth of a scan is tried");
}

#[test]
fn a_scan_on_a_fast_device_is_taken_where_bounds_would_take_longer() {
    let mut estimate = made(1_000_000, (2000.0, 3000.0), &[(20.0, 0.001)]);
    assert_eq!(estimate.choice().way.bound, Some(Bound::Simplex), "by cores");
    for (rate, expected) in [(4.5e8, None), (1e6, Some(Bound::Simplex))] {
        let devices = Some(OnDevices { count: 1, rate, is_measured: true });
        estimate.search = Search { devices, ..estimate.search };
        estimate.ways = vec![estimate.scan()];
        estimate.ways.push(estimate.indexed("best_first", Bound::Simplex, 20.0, 1000.0, 1000.0));
        assert_eq!(estimate.choice().way.bound, expected, "by {rate} distances a second");
    }
}

#[test]
fn nothing_is_chosen_where_a_scan_takes_no_longer_than_to_choose() {
    assert!(made(30, (2000.0, 3000.0), &[]).is_small());
    assert!(!made(30_000, (2000.0, 3000.0), &[]).is_small());
}

#[test]
fn what_many_slots_scan_sooner_than_they_hand_over_is_scanned() {
    for (objects, expected) in [(5_000, None), (100_000, Some(Bound::Simplex))] {
        let mut estimate = made(objects, (900.0, 1800.0), &[]);
        estimate.search.workers = 16;
        estimate.ways = vec![estimate.scan()];
        estimate.ways.push(estimate.indexed("best_first", Bound::Simplex, 5.0, 500.0, 100.0));
        assert_eq!(estimate.choice().way.bound, expected, "{objects} objects");
    }
}

#[test]
fn what_is_promised_nothing_is_tried_where_more_may_be_gained_than_lost() {
    let tried = |objects: u64, k, workers| {
        let mut estimate = made(objects, (2400.0, 3600.0), &[]);
        estimate.search = Search { k: Some(k), workers, ..estimate.search };
        estimate.rates.exact_ns = 21_000.0;
        estimate.ways = vec![estimate.scan()];
        let all = objects as f64;
        estimate.ways.push(estimate.indexed("best_first", Bound::Simplex, 6.0, all, all));
        estimate.choice().way.bound.is_some()
    };
    assert!(tried(10_000, 10, 1), "one slot hands nothing over");
    assert!(tried(10_000, 1, 16) && !tried(10_000, 1000, 16), "1000 are to be ranked whatever is left out");
    assert!(!tried(2_000, 1, 16), "over before all slots are awake");
    assert!(tried(1_000_000, 1000, 16));
}

#[test]
fn a_scan_on_a_gpu_is_not_staked_on_rows_picked_out() {
    let chosen = |objects: u64| {
        let mut estimate = made(objects, (2400.0, 3600.0), &[]);
        let devices = Some(OnDevices { count: 1, rate: 4.4e8, is_measured: true });
        estimate.search = Search { devices, workers: 16, ..estimate.search };
        estimate.ways = vec![estimate.scan()];
        let all = objects as f64;
        estimate.ways.push(estimate.indexed("best_first", Bound::Simplex, 0.01, 0.01 * all, 0.001 * all));
        estimate.choice().way.bound
    };
    assert_eq!((chosen(100_000), chosen(1_000_000)), (None, None));
    assert_eq!(chosen(17_500_000), Some(Bound::Simplex));
}

#[test]
fn a_choice_is_clear_when_the_next_best_takes_a_quarter_longer() {
    let of = |share| made(100_000, (1000.0, 1500.0), &[(20.0, 0.1), (20.0, share)]).is_clear();
    assert!(of(0.5) && !of(0.11));
}

#[test]
fn the_least_of_the_ways_is_taken() {
    let estimate = made(100_000, (1000.0, 1500.0), &[(20.0, 0.5), (40.0, 0.1), (80.0, 0.09)]);
    assert_eq!(estimate.choice().way, estimate.ways[3], "the last is the tightest, and takes little longer");
    assert!(estimate.choice().reason.contains("times as fast"));
    let estimate = made(100_000, (1000.0, 1500.0), &[(20.0, 0.5), (40.0, 0.1), (180.0, 0.09)]);
    assert_eq!(estimate.choice().way, estimate.ways[2]);
}

#[test]
fn an_estimate_of_a_store_is_near_what_its_bounds_leave() {
    let folder = tempfile::tempdir().unwrap();
    let space = testing::space(testing::store(folder.path(), 3000));
    let table = testing::pivot_table(&space, &[1, 30, 200, 999, 1500, 77, 5, 1234], folder.path());
    let search = Search { k: Some(20), range: None, queries: 1, workers: 2, devices: None };
    let estimate = estimate(&table, search).unwrap();
    assert_eq!((estimate.objects, estimate.ways.len()), (3000, 1 + 4 * Bound::ALL.len()));
    assert!(estimate.rates.scan_ns > 0.0 && estimate.rates.exact_ns > 0.0);
    let of = |strategy: &str, bound| {
        let found = |way: &&Way| way.strategy == strategy && way.bound == Some(bound);
        *estimate.ways.iter().find(found).unwrap()
    };
    let (simplex, triangular) = (of("best_first", Bound::Simplex), of("best_first", Bound::Triangular));
    assert!(simplex.distances >= 20.0 && simplex.distances < 1000.0, "{simplex:?}");
    assert!(simplex.distances <= triangular.distances && triangular.distances <= 3000.0);
    assert!(simplex.distances <= of("estimated_range", Bound::Simplex).distances);
    assert!(simplex.distances <= of("fixed_blocks", Bound::Simplex).distances);
    // All objects, or those within the range and no more.
    let all = super::estimate(&table, Search { k: Some(3000), ..search }).unwrap();
    assert!(all.ways.iter().all(|way| way.distances == 3000.0));
    let within = super::estimate(&table, Search { k: None, range: Some(0.0), ..search }).unwrap();
    assert!(within.ways.iter().skip(1).all(|way| way.distances < 300.0), "{within:?}");
}
