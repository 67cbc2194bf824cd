//! Sketches against their formulas, the distance that they stand for, and each other on all paths.

use proptest::prelude::*;

use super::*;
use crate::chance::Random;
use crate::lower_bound::Simplex;
use crate::similarity::{Ground, Measure, Similarity};
use crate::sqfd::testing::Store;
use crate::sqfd::{self};

/// Largest difference of a feature in f32 from the formula, for angles of a few turns: the polynomials and their roundings,
/// and those of the angle.
const FEATURE_ERROR: f64 = 2e-6;

fn features_of(path: CodePath, frequencies: &Frequencies, store: &Store) -> Vec<f32> {
    store.with(|columns| {
        let mut sketcher = Sketcher::new(path);
        let mut all = vec![0.0; columns.rows() * frequencies.features()];
        for (row, features) in all.chunks_exact_mut(frequencies.features()).enumerate() {
            sketcher.features(frequencies, columns.signature(row), features);
        }
        all
    })
}

fn sketches_of(path: CodePath, frequencies: &Frequencies, basis: &Basis, store: &Store) -> Vec<u16> {
    store.with(|columns| {
        let signatures: Vec<_> = (0..columns.rows()).map(|row| columns.signature(row)).collect();
        let mut sketches = vec![0; signatures.len() * COORDINATES];
        Sketcher::new(path).sketch(frequencies, basis, &signatures, &mut sketches);
        sketches
    })
}

/// Computes pieces one after the other, the last first or the first first.
fn in_turn(last_first: bool) -> Box<SideBySide<'static>> {
    Box::new(move |numbers, piece, f| {
        let mut pieces: Vec<_> = numbers.chunks_mut(piece).enumerate().collect();
        if last_first {
            pieces.reverse();
        }
        pieces.into_iter().for_each(|(idx, numbers)| f(idx * piece, numbers));
        true
    })
}

fn basis_of(features: &[f32], width: usize) -> Basis {
    Basis::of_sample(features, width, &mut *in_turn(false)).unwrap().unwrap()
}

fn distance(a: &[u16], b: &[u16]) -> f64 {
    let differences = a.iter().zip(b).map(|(a, b)| f64::from(coordinate(*a)) - f64::from(coordinate(*b)));
    differences.map(|x| x * x).sum::<f64>().sqrt()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn features_are_those_of_the_formula_on_all_paths(
        seed in 0u64..1000,
        dimensions in 1usize..9,
        sizes in prop::collection::vec(1usize..40, 1..9),
    ) {
        let store = Store::random(seed, dimensions, &sizes, 1.0);
        let frequencies = Frequencies::new(seed, 1.28, dimensions, 96);
        let expected = features_of(CodePath::Portable, &frequencies, &store);
        for path in CodePath::available() {
            let found = features_of(path, &frequencies, &store);
            prop_assert!(found.iter().map(|x| x.to_bits()).eq(expected.iter().map(|x| x.to_bits())), "{path}");
        }
        let exact: Vec<f64> = store.with(|columns| {
            (0..columns.rows()).flat_map(|row| reference::features(&frequencies, columns.signature(row))).collect()
        });
        for (found, exact) in expected.iter().zip(&exact) {
            prop_assert!((f64::from(*found) - exact).abs() < FEATURE_ERROR, "{found} against {exact}");
        }
        let basis = basis_of(&expected, frequencies.features());
        let sketches = sketches_of(CodePath::Portable, &frequencies, &basis, &store);
        for path in CodePath::available() {
            prop_assert_eq!(&sketches_of(path, &frequencies, &basis, &store), &sketches, "{}", path);
        }
        for (sketch, exact) in sketches.chunks(COORDINATES).zip(exact.chunks(frequencies.features())) {
            for (bits, exact) in sketch.iter().zip(reference::coordinates(&basis, exact)) {
                let found = f64::from(coordinate(*bits));
                // Half a unit in the last place, or half the least number; and the errors of the features.
                let allowed = exact.abs() / 2048.0 + 2f64.powi(-25) + 1e-5;
                prop_assert!((found - exact).abs() <= allowed, "{found} against {exact}");
            }
        }
    }
}

#[test]
fn distances_of_sketches_are_about_those_of_signatures() {
    let sizes: Vec<usize> = (0..200).map(|i| 3 + i % 20).collect();
    let store = Store::random(3, 7, &sizes, 0.7);
    let measure = Measure::new(Similarity::Gaussian, Ground::L2, 1.28).unwrap();
    let frequencies = Frequencies::new(1, 1.28, 7, 1024);
    let features = features_of(CodePath::detect(), &frequencies, &store);
    let basis = basis_of(&features, frequencies.features());
    let sketches = sketches_of(CodePath::detect(), &frequencies, &basis, &store);
    let (mut ratios, mut count) = ([0.0; 2], 0.0);
    store.with(|columns| {
        for a in 0..40 {
            for b in a + 1..40 {
                let exact = sqfd::reference::sqfd(&measure, columns.signature(a), columns.signature(b));
                let of = |row: usize, width: usize| row * width..(row + 1) * width;
                let by_features: f64 = features[of(a, 2048)]
                    .iter()
                    .zip(&features[of(b, 2048)])
                    .map(|(a, b)| f64::from(a - b).powi(2))
                    .sum();
                ratios[0] += by_features.sqrt() / exact;
                ratios[1] += distance(&sketches[of(a, COORDINATES)], &sketches[of(b, COORDINATES)]) / exact;
                count += 1.0;
            }
        }
    });
    let [features, sketches] = ratios.map(|ratio| ratio / count);
    assert!((features - 1.0).abs() < 0.03, "features: {features}");
    assert!(sketches < features && sketches > 0.8, "64 directions of 200 objects: {sketches}");
}

#[test]
fn a_basis_does_not_depend_on_who_computes_it_and_keeps_the_largest_variances() {
    // Features of 10 directions, each with half the deviation of the one before.
    let (width, objects) = (128, 300);
    let mut random = Random::new(5);
    let directions: Vec<f64> = (0..10 * width).map(|_| random.normal() / (width as f64).sqrt()).collect();
    let mut features = vec![0.0; objects * width];
    for features in features.chunks_exact_mut(width) {
        for (number, direction) in directions.chunks_exact(width).enumerate() {
            let part = random.normal() * 0.5f64.powi(number as i32);
            for (feature, x) in features.iter_mut().zip(direction) {
                *feature += (part * x) as f32;
            }
        }
    }
    let basis = basis_of(&features, width);
    let other = Basis::of_sample(&features, width, &mut *in_turn(true)).unwrap().unwrap();
    assert!(basis == other, "the order of work shows");
    assert_eq!(Basis::of_sample(&features, width, &mut |_, _, _| false).unwrap(), None);
    let numbers: Vec<f32> = basis.numbers().collect();
    assert_eq!(Basis::from_numbers(&numbers), Some(basis.clone()));
    assert_eq!(Basis::from_numbers(&numbers[1..]), None);
    assert_eq!(Basis::from_numbers(&vec![f32::NAN; numbers.len()]), None);
    // Nothing is lost, as 10 directions are fewer than 64; and variances fall.
    let of = |object: usize| -> Vec<f64> {
        features[object * width..][..width].iter().map(|x| f64::from(*x)).collect()
    };
    let projected: Vec<[f64; COORDINATES]> =
        (0..objects).map(|object| reference::coordinates(&basis, &of(object))).collect();
    for object in 1..objects {
        let square = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>();
        let (kept, all) = (square(&projected[0], &projected[object]), square(&of(0), &of(object)));
        assert!((kept / all - 1.0).abs() < 1e-4, "{kept} of {all}");
    }
    let variances: Vec<f64> =
        (0..COORDINATES).map(|k| projected.iter().map(|x| x[k] * x[k]).sum::<f64>()).collect();
    assert!(variances.windows(2).take(9).all(|pair| pair[0] > pair[1]), "{variances:?}");
    assert!(variances[10..].iter().all(|variance| *variance == 0.0), "{variances:?}");
}

#[test]
fn a_sample_of_one_object_and_far_coordinates_give_numbers() {
    let mut store = Store::random(1, 2, &[3, 1], 1.0);
    let frequencies = Frequencies::new(1, 1.0, 2, 64);
    let features = features_of(CodePath::detect(), &frequencies, &store);
    let one = basis_of(&features[..128], 128);
    assert!(sketches_of(CodePath::detect(), &frequencies, &one, &store).iter().all(|bits| *bits == 0));
    let basis = basis_of(&features, 128);
    store.coordinates[0] = vec![1e9, -3e38, 3e38, 1e30];
    let expected = sketches_of(CodePath::Portable, &frequencies, &basis, &store);
    assert!(expected.iter().all(|bits| coordinate(*bits).is_finite()));
    for path in CodePath::available() {
        assert_eq!(sketches_of(path, &frequencies, &basis, &store), expected, "{path}");
    }
}

#[test]
fn a_seed_gives_the_frequencies_that_files_were_made_with() {
    let few = Frequencies::new(7, 0.5, 2, 64);
    let more: Vec<Vec<f32>> = Frequencies::new(7, 0.5, 2, 128).turns().take(64).collect();
    assert!(few.turns().eq(more));
    let first: Vec<u32> = few.turns().next().unwrap().iter().map(|x| x.to_bits()).collect();
    assert_eq!(first, FIRST_OF_SEED_7);
    assert!(![0, 32, 65, 2080].into_iter().any(Frequencies::is_count) && Frequencies::is_count(2048));
}

/// The first frequency of seed 7 at alpha 0.5, to the bit.
const FIRST_OF_SEED_7: [u32; 2] = [1_045_802_301, 1_042_873_650];

/// Distances of points among each other, row by row.
fn among(points: &[Vec<f64>]) -> Vec<f64> {
    let square = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>();
    points.iter().flat_map(|a| points.iter().map(move |b| square(a, b).sqrt())).collect()
}

fn norm(numbers: &[f64]) -> f64 {
    numbers.iter().map(|number| number.powi(2)).sum::<f64>().sqrt()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn apexes_in_half_precision_are_those_of_f64_and_bound_distances_from_below(
        seed in 0u64..1000,
        dimensions in 1usize..110,
        pivots in prop::sample::select(vec![1usize, 2, 5, 32, 64, 65, 66, 90, 128]),
        scale in prop::sample::select(vec![1e-12, 1e-3, 1.0, 30.0, 1e5, 1e20]),
    ) {
        let mut random = Random::mixed(seed);
        let points: Vec<Vec<f64>> = (0..pivots + 6)
            .map(|_| (0..dimensions).map(|_| random.normal() * scale / (dimensions as f64).sqrt()).collect())
            .collect();
        let between = among(&points[..pivots]);
        let simplex = Simplex::new(&between, 0.0).unwrap();
        let largest = between.iter().fold(0.0, |largest: f64, x| largest.max(*x));
        let unit = apex_unit(if largest > 0.0 { largest } else { scale });
        prop_assert!(largest / unit <= 256.0);
        let all = among(&points);
        let places: Vec<usize> = (pivots - 1..pivots + 6).collect();
        let apexes: Vec<Vec<f64>> = places
            .iter()
            .map(|place| simplex.apex(&all[place * points.len()..][..pivots], 0.0).unwrap().coordinates)
            .collect();
        let mut found = Vec::new();
        for apex in &apexes {
            let numbers: Vec<f32> = apex.iter().map(|number| *number as f32).collect();
            let sketch = of_apex(&numbers, 1.0 / unit);
            let exact = reference::apex(apex).map(|number| number / unit);
            prop_assert!((norm(&exact) - norm(apex) / unit).abs() <= 1e-12 * norm(&exact));
            let away = norm(&std::array::from_fn::<f64, COORDINATES, _>(|place| {
                f64::from(coordinate(sketch[place])) - exact[place]
            }));
            prop_assert!(away <= apex_error(norm(&exact)), "{} for a norm of {}", away, norm(&exact));
            prop_assert!(f64::from(coordinate(sketch[COORDINATES - 1])) >= 0.0 || apex.len() == COORDINATES);
            prop_assert!(sketch.iter().skip(apex.len()).all(|bits| *bits == 0));
            found.push((sketch, norm(&exact)));
        }
        for (a, place_a) in found.iter().zip(&places) {
            for (b, place_b) in found.iter().zip(&places) {
                let exact = all[place_a * points.len() + place_b] / unit;
                let error = apex_error(a.1) + apex_error(b.1);
                // An altitude is the root of a difference, so that it has half the digits of f64.
                let noise = 1e-6 * (a.1 + b.1);
                let lower = distance(&a.0, &b.0);
                prop_assert!(lower <= exact + error + noise, "{} of {}", lower, exact);
                // Pivots that span the space determine the place of an object.
                if pivots > dimensions && dimensions < COORDINATES {
                    prop_assert!(lower >= exact - error - 1e-3 * (a.1 + b.1), "{} of {}", lower, exact);
                }
            }
        }
    }
}

#[test]
fn numbers_too_large_for_half_precision_stay_numbers() {
    let sketch = of_apex(&[1e30, -1e30, 3.0], 1.0);
    assert_eq!(
        sketch[..3].iter().map(|bits| coordinate(*bits)).collect::<Vec<_>>(),
        [65504.0, -65504.0, 3.0]
    );
    for (largest, unit) in [(0.0, 1.0), (2.0, 1.0), (256.0, 1.0), (257.0, 2.0), (1e-3, 2f64.powi(-17))] {
        assert_eq!(apex_unit(largest), unit);
    }
    for largest in [1e-300, 1e-30, 1e300, f64::MIN_POSITIVE / 4.0, f64::MAX] {
        let unit = apex_unit(largest);
        assert!(unit > 0.0 && unit.is_finite() && largest / unit <= 256.0, "{largest:e}: {unit:e}");
        assert_eq!(unit.to_bits() & ((1 << 52) - 1), 0, "a power of two");
    }
}
