//! The fast paths agree with the reference within their declared error: on every path, with every measure and shape.

use proptest::prelude::*;

use super::testing::{Store, every_measure};
use super::*;
use crate::interrupt::Interrupted;
use crate::lanes;
use crate::similarity::{Ground, Measure, Similarity};

/// Rows of a store that are queries.
const QUERIES: usize = 8;

/// Checks that on every path, with the first rows of the store as queries, all distances are within the declared error.
fn check(measure: Measure, store: &Store) {
    check_first(measure, store, QUERIES);
}

/// As [`check`], with so many rows as queries.
fn check_first(measure: Measure, store: &Store, queries: usize) {
    store.with(|columns| {
        let rows: Vec<u32> = (0..columns.rows() as u32).collect();
        let sigma_self: Vec<f64> =
            rows.iter().map(|&row| reference::sigma_self(&measure, columns.signature(row as usize))).collect();
        let mut found = vec![0.0; rows.len()];
        for &row in rows.iter().take(queries) {
            let signature = columns.signature(row as usize);
            let query = PreparedQuery::new(measure, signature);
            for path in CodePath::available() {
                Evaluator::new(path).distances(&query, columns, &rows, &sigma_self, &mut found);
                for (&other, &found) in rows.iter().zip(&found) {
                    let expected = reference::sqfd(&measure, signature, columns.signature(other as usize));
                    let allowed = query.distance_error(expected, sigma_self[other as usize]);
                    assert!(
                        (found - expected).abs() <= allowed,
                        "{path} {measure:?}: {found}, not {expected} within {allowed:e}; rows {row} and {other}"
                    );
                }
            }
        }
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn every_path_is_within_its_declared_error(
        seed: u64,
        dimensions in 1usize..=12,
        sizes in prop::collection::vec(prop_oneof![Just(1usize), Just(2), 1usize..=40, Just(230)], 1..8),
        alpha in prop_oneof![Just(0.01), Just(0.2), Just(1.28), Just(3.0), Just(10.0)],
        spread in prop_oneof![Just(0.01), Just(1.0), Just(4.0), Just(10.0), Just(1000.0)],
    ) {
        let store = Store::random(seed, dimensions, &sizes, spread);
        for measure in every_measure(alpha) {
            check(measure, &store);
        }
    }
}

#[test]
fn the_exponential_is_as_good_as_declared() {
    // A query centroid at the origin of one dimension leaves the exponent minus the candidate's squared norm.
    let measure = Measure::new(Similarity::Gaussian, Ground::L2, 1.0).unwrap();
    let scale = std::f64::consts::LOG2_E.sqrt() as f32;
    let x: Vec<f32> = (0..40_000).map(|i| i as f32 * 2e-4).collect();
    let (coordinates, weights): ([&[f32]; 1], _) = ([&x], vec![1.0; x.len()]);
    let offsets: Vec<i32> = (0..=x.len() as i32).collect();
    let store = StoreColumns::new(Columns::new(&coordinates, &weights), &offsets);
    let query = PreparedQuery::new(measure, store.signature(0));
    let rows: Vec<u32> = (0..x.len() as u32).collect();
    let mut found = vec![0.0; x.len()];
    for path in CodePath::available() {
        Evaluator::new(path).sigma_cross(&query, &store, &rows, &mut found);
        for (&x, &found) in x.iter().zip(&found) {
            let exponent = -((x * scale) * (x * scale));
            let expected = f64::from(exponent).exp2();
            // The three missing centroids of the query's group weigh 2^-100 each.
            let allowed = lanes::EXP2_RELATIVE_ERROR * expected + 3.1 * f64::from(lanes::EXPONENT_MIN).exp2();
            assert!((found - expected).abs() <= allowed, "{path}: 2^{exponent} is not {found:e}");
        }
    }
}

#[test]
fn a_signature_larger_than_a_stream_is_cut_and_summed() {
    let store = Store::random(3, 7, &[3, 2048, 81, 1025], 3.0);
    for measure in every_measure(0.2) {
        check(measure, &store);
    }
}

/// Small enough for Miri, see docs/checking.md.
#[test]
fn a_few_centroids_on_every_path() {
    let store = Store::random(14, 3, &[1, 9, 2], 1.0);
    check(Measure::new(Similarity::Gaussian, Ground::L2, 0.2).unwrap(), &store);
    check(Measure::new(Similarity::Heuristic, Ground::L1, 0.2).unwrap(), &store);
}

#[test]
fn far_points_have_nothing_in_common() {
    let mut store = Store::random(5, 7, &[40, 40, 3], 1.0);
    for column in &mut store.coordinates {
        column[40..80].iter_mut().for_each(|x| *x += 1e6);
        column[80] = 3e19;
        column[81] = f32::MAX;
        column[82] = -f32::MAX;
    }
    check(Measure::new(Similarity::Gaussian, Ground::L2, 3.0).unwrap(), &store);
}

#[test]
fn coordinates_whose_differences_overflow_f32_keep_their_order_under_minus() {
    // Objects of the report, small weights on a far centroid, and the largest numbers of f32, in two dimensions.
    let points: [&[(f32, f32)]; 8] = [
        &[(0.0, 1.0)],
        &[(1e20, 1.0)],
        &[(3e20, 1.0)],
        &[(1e18, 1.0)],
        &[(1.0, 1.0 - 1e-10), (1e20, 1e-10)],
        &[(2.0, 1.0), (1e38, 1e-40)],
        &[(f32::MAX, 0.5), (-f32::MAX, 0.5)],
        &[(-1e20, 0.25), (7.0, 0.75), (3.0, 0.0)],
    ];
    let mut store = Store { coordinates: vec![Vec::new(); 2], weights: Vec::new(), offsets: vec![0] };
    for &(x, weight) in points.iter().copied().flatten() {
        store.coordinates[0].push(x);
        store.coordinates[1].push(-x / 2.0);
        store.weights.push(weight);
    }
    for points in points {
        store.offsets.push(store.offsets[store.offsets.len() - 1] + points.len() as i32);
    }
    for measure in every_measure(0.2) {
        check(measure, &store);
    }
}

#[test]
fn a_devices_sum_that_f32_cannot_hold_is_computed_in_f64() {
    let mut store = Store::random(15, 3, &[5, 9, 2], 1.0);
    store.coordinates[1][7] = 1e30;
    let measure = Measure::new(Similarity::Minus, Ground::L2, 1.0).unwrap();
    store.with(|columns| {
        let (a, b) = (columns.signature(0), columns.signature(1));
        let query = PreparedQuery::new(measure, a);
        let sigma_b = reference::sigma_self(&measure, b);
        for cross in [f64::NEG_INFINITY, f64::NAN] {
            let found = query.distance(cross, sigma_b, || Ok::<_, ()>(b)).unwrap();
            assert_eq!(found.to_bits(), reference::sqfd(&measure, a, b).to_bits());
            assert_eq!(query.distance(cross, sigma_b, || Err("gone")), Err("gone"));
        }
        let found = query.distance(-2.5, -1.0, || Err("not asked for")).unwrap();
        assert_eq!(found, reference::distance(query.sigma_self(), -1.0, -2.5));
    });
}

#[test]
fn an_offset_common_to_all_costs_no_precision() {
    let mut store = Store::random(6, 7, &[60, 81, 50], 2.0);
    store.coordinates.iter_mut().flatten().for_each(|x| *x += 1024.0);
    let measure = Measure::new(Similarity::Gaussian, Ground::L2, 0.2).unwrap();
    check(measure, &store);
    store.with(|columns| {
        let query = PreparedQuery::new(measure, columns.signature(0));
        assert!(query.error_squared(0.5, 0.0) < 3e-5, "{:e}", query.error_squared(0.5, 0.0));
    });
}

#[test]
fn duplicated_signatures_are_close_to_nothing_apart() {
    let mut store = Store::random(8, 7, &[81], 4.0);
    for column in store.coordinates.iter_mut().chain([&mut store.weights]) {
        column.extend_from_within(..);
    }
    store.offsets.push(162);
    for measure in every_measure(1.28) {
        check(measure, &store);
    }
}

#[test]
fn typical_distances_are_right_to_a_hundred_thousandth() {
    let store = Store::random(9, 7, &[81, 60, 75, 100, 230, 50], 3.0);
    for alpha in [0.01, 0.2, 0.64, 1.28, 3.0] {
        let measure = Measure::new(Similarity::Gaussian, Ground::L2, alpha).unwrap();
        store.with(|columns| {
            let rows: Vec<u32> = (1..columns.rows() as u32).collect();
            let signature = |row: usize| columns.signature(row);
            let sigma_self: Vec<f64> =
                (0..columns.rows()).map(|row| reference::sigma_self(&measure, signature(row))).collect();
            let query = PreparedQuery::new(measure, signature(0));
            let mut found = vec![0.0; rows.len()];
            for path in CodePath::available() {
                Evaluator::new(path).distances(&query, columns, &rows, &sigma_self, &mut found);
                for (&row, &found) in rows.iter().zip(&found) {
                    let expected = reference::sqfd(&measure, signature(0), signature(row as usize));
                    assert!((found - expected).abs() < 1e-5, "{path} {alpha}: {found}, not {expected}");
                }
            }
        });
    }
}

#[test]
fn a_result_does_not_depend_on_the_other_rows() {
    let store = Store::random(10, 7, &[81, 5, 33, 230, 64, 1, 300, 700, 17], 3.0);
    for measure in every_measure(0.64) {
        store.with(|columns| {
            let query = PreparedQuery::new(measure, columns.signature(0));
            for path in CodePath::available() {
                let mut evaluator = Evaluator::new(path);
                // Side by side in memory, strewn, and more than once.
                let ascending: Vec<u32> = (0..columns.rows() as u32).collect();
                let descending = ascending.iter().rev().copied().collect();
                let twice = ascending.iter().flat_map(|&row| [row, row / 2]).collect();
                for rows in [ascending, descending, twice] {
                    let mut all = vec![0.0; rows.len()];
                    evaluator.sigma_cross(&query, columns, &rows, &mut all);
                    for (&row, &expected) in rows.iter().zip(&all) {
                        let mut alone = [0.0];
                        evaluator.sigma_cross(&query, columns, &[row], &mut alone);
                        assert_eq!(alone[0].to_bits(), expected.to_bits(), "{path} {measure:?} row {row}");
                    }
                }
            }
        });
    }
}

#[test]
fn signatures_of_every_small_size_are_within_the_error() {
    for query in [1, 2, 12, 13, 23, 32, 33, 48] {
        // The last signatures end with the columns, where no whole vector is left.
        let sizes: Vec<usize> = [query].into_iter().chain(0..=48).chain([1, 3, 7]).collect();
        let store = Store::random(21, 7, &sizes, 3.0);
        for measure in every_measure(0.2) {
            check_first(measure, &store, 1);
        }
    }
}

#[test]
fn a_call_over_giant_signatures_stops_when_asked_to_and_keeps_its_bits() {
    let store = Store::random(20, 2, &[3000, 9000, 9000], 3.0);
    let pairs = 3000 * 18_000;
    for measure in every_measure(0.64) {
        store.with(|columns| {
            let asked = &std::cell::Cell::new(0);
            let stop_at = |limit: usize| {
                move || {
                    asked.set(asked.get() + 1);
                    asked.get() >= limit
                }
            };
            let query = PreparedQuery::new(measure, columns.signature(0));
            for path in CodePath::available() {
                let mut evaluator = Evaluator::new(path);
                let (mut found, mut expected) = ([0.0; 2], [0.0; 2]);
                asked.set(0);
                let stopped = evaluator.sigma_cross_until(&query, columns, &[1, 2], &mut found, &stop_at(3));
                assert_eq!((stopped, asked.get()), (Err(Interrupted), 3), "{path}");
                let whole =
                    evaluator.sigma_cross_until(&query, columns, &[1, 2], &mut found, &stop_at(usize::MAX));
                assert_eq!(whole, Ok(()));
                assert!(asked.get() - 3 >= pairs / PAIRS_PER_QUESTION, "{path}: {} questions", asked.get());
                evaluator.sigma_cross(&query, columns, &[1, 2], &mut expected);
                assert_eq!(found.map(f64::to_bits), expected.map(f64::to_bits), "{path}");
            }
            asked.set(0);
            let stopped = PreparedQuery::new_until(measure, columns.signature(1), &stop_at(2));
            assert_eq!(stopped.err(), Some(Interrupted));
        });
    }
}

#[test]
fn no_rows_and_empty_signatures_are_harmless() {
    let mut store = Store::random(12, 3, &[4], 1.0);
    store.offsets.push(4);
    store.with(|columns| {
        for measure in every_measure(0.2) {
            let query = PreparedQuery::new(measure, columns.signature(0));
            for path in CodePath::available() {
                let mut evaluator = Evaluator::new(path);
                evaluator.sigma_cross(&query, columns, &[], &mut []);
                let mut found = [1.0];
                evaluator.sigma_cross(&query, columns, &[1], &mut found);
                assert_eq!(found, [0.0]);
            }
        }
    });
}

#[test]
fn coordinates_beyond_f32_have_an_infinite_error() {
    let store = Store::random(13, 7, &[10], 1e6);
    let measure = Measure::new(Similarity::Gaussian, Ground::L2, 1.0).unwrap();
    let error =
        store.with(|columns| PreparedQuery::new(measure, columns.signature(0)).distance_error(0.5, 0.0));
    assert_eq!(error, f64::INFINITY);
}

#[test]
fn the_error_of_a_distance_is_the_smaller_of_two() {
    assert_eq!(distance_error(1e-6, 0.0), 1e-3);
    assert_eq!(distance_error(1e-6, 0.5), 2e-6);
    assert_eq!(distance_error(0.0, 0.0), 0.0);
}
