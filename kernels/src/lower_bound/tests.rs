//! No bound is on the wrong side of the distance that a search reports: on any code path, with any measure, for any placement
//! of pivots and objects.

use super::*;
use crate::CodePath;
use crate::chance::Random;
use crate::similarity::{Ground, Measure, Similarity};
use crate::sqfd::reference;
use crate::sqfd::testing::{Store, every_measure};

/// All distances of a store's signatures, row by row.
fn distances(measure: &Measure, store: &Store) -> (Vec<f64>, f64) {
    store.with(|columns| {
        let count = columns.rows();
        let sigmas: Vec<f64> =
            (0..count).map(|row| reference::sigma_self(measure, columns.signature(row))).collect();
        let mut all = vec![0.0; count * count];
        for a in 0..count {
            for b in 0..count {
                let cross = reference::sigma(measure, columns.signature(a), columns.signature(b));
                all[a * count + b] = reference::distance(sigmas[a], sigmas[b], cross);
            }
        }
        let sigma_max = sigmas.iter().fold(0.0, |largest: f64, sigma| largest.max(sigma.abs()));
        (all, sigma_max)
    })
}

#[test]
fn distances_whose_squares_overflow_f32_prove_nothing_wrong() {
    for spread in [1e15, 1e17, 1e19, 1e25, 1e37] {
        let store = Store::random(21, 2, &[1, 3, 2, 1, 2, 3, 2, 1], spread);
        for measure in every_measure(1e-3) {
            check(&measure, &store, &[0, 3, 5]);
        }
    }
}

/// The tightness of bounds: their number, and the mean ratio of bound and distance for each rule.
struct Tightness {
    lower: [f64; 4],
    upper: [f64; 4],
    count: f64,
}

/// Bounds every distance of the store with some of its rows as pivots, and checks each bound on every path.
fn check(measure: &Measure, store: &Store, pivots: &[usize]) -> Tightness {
    let (all, sigma_max) = distances(measure, store);
    let (count, dimensions) = (store.offsets.len() - 1, store.coordinates.len());
    let at = |a: usize, b: usize| all[a * count + b];
    let between: Vec<f64> =
        pivots.iter().flat_map(|&a| pivots.iter().map(move |&b| (a, b))).map(|(a, b)| at(a, b)).collect();
    let rows: Vec<Vec<f64>> = (0..count).map(|o| pivots.iter().map(|&p| at(p, o)).collect()).collect();
    let distance_max = rows.iter().flatten().fold(0.0, |largest: f64, distance| largest.max(*distance));
    let centroids_max = store.offsets.windows(2).map(|ends| (ends[1] - ends[0]) as usize).max().unwrap();
    let noise_squared = reference::error_squared(measure, sigma_max, distance_max, centroids_max, dimensions);
    let simplex = Simplex::new(&between, noise_squared).unwrap();
    let apexes: Vec<Apex> = rows.iter().map(|row| simplex.apex(row, noise_squared).unwrap()).collect();
    let spread_max = apexes.iter().fold(0.0, |largest: f64, apex| largest.max(apex.spread));
    let errors = TableErrors { distance_max, noise_squared, spread_max };

    let packed = |numbers: &dyn Fn(usize) -> Vec<f64>, width: usize, first: usize| {
        let mut columns = vec![0f32; width * PACKED_OBJECTS];
        for place in 0..PACKED_OBJECTS.min(count - first) {
            for (number, x) in numbers(first + place).into_iter().enumerate() {
                columns[number * PACKED_OBJECTS + place] = x as f32;
            }
        }
        columns
    };
    let mut found = Tightness { lower: [0.0; 4], upper: [0.0; 4], count: 0.0 };
    for first in (0..count).step_by(PACKED_OBJECTS) {
        let columns = packed(&|o| rows[o].clone(), pivots.len(), first);
        let tips = packed(&|o| apexes[o].coordinates.clone(), simplex.dimensions(), first);
        let block = PackedBlock { distances: &columns, apexes: &tips };
        for query in 0..count {
            for (idx, bound) in Bound::ALL.into_iter().enumerate() {
                let prepared = BoundQuery::new(bound, &rows[query], &between, &simplex, &errors).unwrap();
                for path in CodePath::available() {
                    let (mut bounds, mut before) = (Bounds::default(), Bounds::default());
                    BoundEvaluator::new(path).bounds(&prepared, block, &mut bounds);
                    // The next block, of any length, changes nothing.
                    let next = PackedBlock { distances: &columns[..first.min(columns.len())], apexes: &tips };
                    BoundEvaluator::new(path).bounds_before(&prepared, block, Some(next), &mut before);
                    assert_eq!((bounds.lower, bounds.upper), (before.lower, before.upper));
                    for place in 0..PACKED_OBJECTS.min(count - first) {
                        let object = first + place;
                        let (distance, named) = (at(query, object), format!("{measure:?} {bound} {path}"));
                        let (lower, upper) = (f64::from(bounds.lower[place]), f64::from(bounds.upper[place]));
                        assert!(lower <= distance, "{named}: {lower} is above {distance}");
                        assert!(upper >= distance, "{named}: {upper} is below {distance}");
                        let (row, given) = (&rows[query], &rows[object]);
                        let (below, above) =
                            exact_bounds(bound, row, given, &between, &simplex, noise_squared).unwrap();
                        assert!(upper <= above + 3.0 * prepared.slack(), "{named}: {upper} for {above}");
                        if matches!(bound, Bound::Triangular | Bound::Simplex) {
                            assert!(lower >= below - 3.0 * prepared.slack(), "{named}: {lower} for {below}");
                        }
                        if distance > 0.0 && path == CodePath::Portable {
                            found.lower[idx] += lower / distance;
                            found.upper[idx] += upper / distance;
                            found.count += 0.25;
                        }
                    }
                }
            }
        }
    }
    found.lower.iter_mut().chain(&mut found.upper).for_each(|sum| *sum /= found.count);
    found
}

fn sizes(seed: u64, count: usize, centroids: usize) -> Vec<usize> {
    let mut random = Random::new(seed);
    (0..count).map(|_| 1 + (random.unit() * centroids as f64) as usize).collect()
}

/// Appends a copy of each signature, moved by `step` in the first dimension.
fn doubled(mut store: Store, step: f32) -> Store {
    let centroids = store.weights.len() as i32;
    for column in &mut store.coordinates {
        column.extend_from_within(..);
    }
    store.weights.extend_from_within(..);
    let ends: Vec<i32> = store.offsets[1..].iter().map(|end| end + centroids).collect();
    store.offsets.extend(ends);
    store.coordinates[0][centroids as usize..].iter_mut().for_each(|x| *x += step);
    store
}

#[test]
fn no_bound_is_on_the_wrong_side_of_its_distance() {
    for (seed, alpha) in [(1, 0.01), (2, 0.2), (3, 0.64), (4, 3.0)] {
        for measure in every_measure(alpha) {
            let store = Store::random(seed, 1 + seed as usize, &sizes(seed, 40, 12), 2.0);
            check(&measure, &store, &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
            check(&measure, &store, &[17]);
        }
    }
}

#[test]
fn more_than_a_block_of_objects() {
    let measure = Measure::new(Similarity::Gaussian, Ground::L2, 0.2).unwrap();
    let store = Store::random(5, 2, &sizes(5, PACKED_OBJECTS + 9, 3), 2.0);
    check(&measure, &store, &[3, 200, 260]);
}

#[test]
fn identical_and_nearly_identical_pivots_and_objects() {
    for measure in every_measure(0.3) {
        for step in [0.0, 1e-6, 1e-4, 1e-2] {
            let store = doubled(Store::random(6, 3, &sizes(6, 12, 6), 1.0), step);
            check(&measure, &store, &[0, 12, 1, 13, 2, 14, 2, 2]);
        }
        // All objects are within a millionth of each other, so distances consist of errors.
        let store = Store::random(7, 2, &[3; 20], 1e-6);
        check(&measure, &store, &[0, 1, 2, 3, 4]);
        // Copies of one object.
        let store = Store::random(8, 2, &[3], 1.0);
        check(&measure, &doubled(doubled(store, 0.0), 0.0), &[0, 1, 3]);
    }
}

#[test]
fn collinear_pivots() {
    for measure in every_measure(0.05) {
        // Single points on a line, and some points beside it.
        let mut store = Store::random(9, 2, &[1; 24], 3.0);
        for (place, x) in store.coordinates[0].iter_mut().enumerate() {
            *x = place as f32 / 4.0;
        }
        store.coordinates[1][..16].fill(0.0);
        check(&measure, &store, &[0, 1, 2, 3, 4, 5, 6, 7, 8]);
    }
}

#[test]
fn huge_and_tiny_distances() {
    for (spread, alpha) in [(1e4, 1e-9), (1e-3, 1e3), (100.0, 0.2)] {
        for measure in every_measure(alpha) {
            check(&measure, &Store::random(10, 3, &sizes(10, 16, 5), spread), &[0, 1, 2, 3, 4, 5]);
        }
    }
}

#[test]
fn each_bound_is_tighter_than_the_one_before() {
    let measure = Measure::new(Similarity::Gaussian, Ground::L2, 0.05).unwrap();
    let store = Store::random(11, 3, &sizes(11, 80, 8), 2.0);
    let found = check(&measure, &store, &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
    let [triangular, _, combined, simplex] = found.lower;
    assert!(triangular < combined && combined < simplex && simplex < 1.0, "{:?}", found.lower);
    let [triangular, .., simplex] = found.upper;
    assert!(triangular > simplex && simplex > 1.0, "{:?}", found.upper);
}

#[test]
fn wrong_numbers_are_refused() {
    let simplex = Simplex::new(&[0.0, 1.0, 1.0, 0.0], 0.0).unwrap();
    let errors = TableErrors { distance_max: 1.0, noise_squared: 0.0, spread_max: 1.0 };
    for bound in Bound::ALL {
        let make =
            |wrong: f64| BoundQuery::new(bound, &[1.0, wrong], &[0.0, 1.0, 1.0, 0.0], &simplex, &errors);
        for wrong in [f64::NAN, f64::INFINITY, -1.0] {
            assert!(matches!(make(wrong), Err(BoundError::NotADistance(_))), "{bound} {wrong}");
        }
        assert!(make(1.0).is_ok());
        assert_eq!(bound.to_string().parse(), Ok(bound));
    }
    let error = "cosine".parse::<Bound>().unwrap_err().to_string();
    assert!(error.contains("use triangular, ptolemaic, combined or simplex"), "{error}");
}
