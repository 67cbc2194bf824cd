//! The model chooses by measured rates and by the share that the bounds of a sample leave.

use super::*;
use boxwork_stores::testing;

/// A search of 10 objects on one core: times of a distance in a scan and picked out, and by bound its time and the share
/// of the objects that it leaves.
fn made(objects: u64, (scan_ns, picked_ns): (f64, f64), ways: &[(Bound, f64, f64)]) -> Estimate {
    let search = Search { k: Some(10), range: None, queries: 1, workers: 1, devices: None };
    let rates = Rates { scan_ns, picked_ns, exact_ns: 0.0, pivots: 32 };
    let mut estimate =
        Estimate { search, objects, rows: objects, sampled: 0, rates, farthest: 1.0, ways: Vec::new() };
    again(&mut estimate, ways);
    estimate
}

/// Weighs anew after a change of the search.
fn again(estimate: &mut Estimate, ways: &[(Bound, f64, f64)]) {
    estimate.ways = vec![estimate.scan()];
    for (bound, bound_ns, share) in ways {
        let count = share * estimate.objects as f64;
        estimate.ways.push(estimate.by_bound(*bound, *bound_ns, count, count));
    }
}

fn simplex(bound_ns: f64, share: f64) -> [(Bound, f64, f64); 1] {
    [(Bound::Simplex, bound_ns, share)]
}

#[test]
fn an_index_pays_where_it_leaves_few_of_dear_distances() {
    let bound = |rates, way: (f64, f64)| made(100_000, rates, &simplex(way.0, way.1)).choice().way.bound;
    assert_eq!(bound((2000.0, 3000.0), (20.0, 0.05)), Some(Bound::Simplex));
    assert_eq!(bound((2000.0, 3000.0), (20.0, 0.6)), Some(Bound::Simplex));
    assert_eq!(bound((50.0, 400.0), (5.0, 0.01)), Some(Bound::Simplex), "cheap distances, tight bounds");
    assert_eq!(bound((50.0, 400.0), (5.0, 0.9)), None, "cheap distances, loose bounds");
    assert_eq!(bound((15.0, 15.0), (20.0, 0.0)), None, "bounds dearer than distances");
}

#[test]
fn a_scan_is_taken_where_bounds_leave_nearly_all_or_all_are_asked_for() {
    let chosen = |share, k| {
        let mut estimate = made(10_000, (2400.0, 3600.0), &[]);
        estimate.search.k = Some(k);
        again(&mut estimate, &simplex(6.0, share));
        estimate.choice()
    };
    assert_eq!(chosen(0.6, 10).way.bound, Some(Bound::Simplex));
    let choice = chosen(1.0, 10_000);
    assert_eq!(choice.way.bound, None);
    assert!(choice.reason.contains("1.50 times as long"), "{}", choice.reason);
}

#[test]
fn a_scan_on_a_gpu_is_left_where_it_takes_longer_than_blocks_wait() {
    let chosen = |objects: u64, rate: f64| {
        let mut estimate = made(objects, (2400.0, 3600.0), &[]);
        let devices = Some(OnDevices { count: 1, rate, is_measured: true });
        estimate.search = Search { devices, workers: 16, ..estimate.search };
        again(&mut estimate, &simplex(0.01, 0.001));
        estimate.choice().way.bound
    };
    assert_eq!((chosen(100_000, 4.4e8), chosen(1_000_000, 4.4e8)), (None, None));
    assert_eq!(chosen(17_500_000, 4.4e8), Some(Bound::Simplex));
    assert_eq!(chosen(1_000_000, 1e6), Some(Bound::Simplex), "a slow device");
}

#[test]
fn the_tightest_bound_is_weighed_or_the_cheapest_if_that_is_not_sound() {
    let triangular = (Bound::Triangular, 10.0, 0.01);
    let all = [triangular, (Bound::Ptolemaic, 60.0, 0.01), (Bound::Simplex, 20.0, 0.1)];
    let estimate = made(100_000, (1000.0, 1500.0), &all);
    assert_eq!(estimate.choice().way, estimate.ways[3]);
    assert!(estimate.choice().reason.contains("times as fast"));
    let estimate = made(100_000, (1000.0, 1500.0), &all[..2]);
    assert_eq!(estimate.choice().way, estimate.ways[1]);
}

#[test]
fn an_estimate_of_a_store_is_near_what_its_bounds_leave() {
    let folder = tempfile::tempdir().unwrap();
    let space = testing::space(testing::store(folder.path(), 3000));
    let table = testing::pivot_table(&space, &[1, 30, 200, 999, 1500, 77, 5, 1234], folder.path());
    let search = Search { k: Some(20), range: None, queries: 1, workers: 2, devices: None };
    let estimate = estimate(&table, search).unwrap();
    assert_eq!((estimate.objects, estimate.ways.len()), (3000, 1 + Bound::ALL.len()));
    assert!(estimate.rates.scan_ns > 0.0 && estimate.rates.exact_ns > 0.0 && estimate.farthest > 0.0);
    let of = |bound| *estimate.ways.iter().find(|way| way.bound == Some(bound)).unwrap();
    let (simplex, triangular) = (of(Bound::Simplex), of(Bound::Triangular));
    assert!(simplex.distances >= 20.0 && simplex.distances < 1000.0, "{simplex:?}");
    assert!(simplex.distances <= triangular.distances && triangular.distances <= 3000.0);
    assert!(simplex.distances <= simplex.candidates && simplex.candidates <= 3000.0);
    // All objects, or those within the range and no more.
    let all = super::estimate(&table, Search { k: Some(3000), ..search }).unwrap();
    assert!(all.ways.iter().all(|way| way.distances == 3000.0));
    assert_eq!(all.choice().way.strategy, "scan");
    let within = super::estimate(&table, Search { k: None, range: Some(0.0), ..search }).unwrap();
    assert!(within.ways.iter().skip(1).all(|way| way.distances < 300.0), "{within:?}");
    assert_eq!(within.ways[1].strategy, "indexed_range");
}
