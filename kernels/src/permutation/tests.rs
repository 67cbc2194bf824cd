//! Lists, measures and candidates against sorts and definitions.

use proptest::prelude::*;

use super::*;
use crate::CodePath;
use crate::chance::Random;
use crate::distance::Lp;

fn sorted(distances: &[f64]) -> Vec<u16> {
    let mut all: Vec<u16> = (0..distances.len() as u16).collect();
    all.sort_by(|a, b| distances[usize::from(*a)].total_cmp(&distances[usize::from(*b)]));
    all
}

/// Distances of few values, so that many pivots tie.
fn distances(random: &mut Random, pivots: usize, values: u64) -> Vec<f64> {
    (0..pivots).map(|_| random.below(values) as f64 / 4.0).collect()
}

/// Both measures, of all pivots and of some.
fn comparisons(random: &mut Random, length: usize) -> [Comparison; 4] {
    let some = |measure, random: &mut Random| Comparison {
        measure,
        query_pivots: random.idx(length) + 1,
        max_shift: random.idx(length + 1),
    };
    [
        Measure::Footrule.into(),
        Measure::Rho.into(),
        some(Measure::Footrule, random),
        some(Measure::Rho, random),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn lists_are_those_of_a_sort_and_measures_those_of_the_definition(
        seed in any::<u64>(),
        pivots in 1usize..320,
        length in 1usize..200,
        objects in 0usize..600,
        values in 1u64..400,
    ) {
        let (mut random, length) = (Random::new(seed), length.min(pivots));
        let mut lists = Lists::new(pivots, length).unwrap();
        let mut all = Vec::new();
        for _ in 0..objects {
            let distances = distances(&mut random, pivots, values);
            let mut list = vec![0; length];
            nearest_pivots(&distances, &mut list);
            assert_eq!(list, sorted(&distances)[..length]);
            lists.push(&list);
            all.push(list);
        }
        assert_eq!(lists.objects(), objects);
        let mut query = vec![0; length];
        nearest_pivots(&distances(&mut random, pivots, values), &mut query);
        let inverted = Inverted::of(&lists);
        assert_eq!((inverted.objects(), inverted.pivots(), inverted.length()), (objects, pivots, length));
        for measure in comparisons(&mut random, length) {
            let expected: Vec<u32> =
                all.iter().map(|list| reference(measure, pivots, &query, list) as u32).collect();
            let mut order: Vec<u32> = (0..objects as u32).filter(|object| object % 7 != 3).collect();
            order.sort_by_key(|object| expected[*object as usize]);
            for path in CodePath::available() {
                assert_eq!(lists.measures(path, measure, &query), expected, "{path}");
                for count in [0, 1, 50, objects + 1] {
                    let found = lists.candidates(path, measure, &query, count, |object| object % 7 != 3);
                    assert_eq!(found, order[..count.min(order.len())], "{path}");
                    let found = inverted.candidates(path, measure, &query, count, |object| object % 7 != 3);
                    assert_eq!(found, order[..count.min(order.len())], "inverted, {path}");
                }
            }
        }
        for (object, list) in all.iter().enumerate() {
            assert_eq!(&lists.list(object), list);
            assert_eq!(&inverted.list(object), list);
        }
    }
}

#[test]
fn odd_distances_and_the_largest_lists() {
    for distances in [[f64::INFINITY; 9], [f64::NAN; 9]] {
        let mut list = [9; 9];
        nearest_pivots(&distances, &mut list);
        assert_eq!(list, [0, 1, 2, 3, 4, 5, 6, 7, 8]);
    }
    let mut lists = Lists::new(PIVOTS_MAX, LENGTH_MAX).unwrap();
    let (first, last): (Vec<u16>, Vec<u16>) =
        ((0..LENGTH_MAX as u16).collect(), (0..LENGTH_MAX as u16).map(|pivot| 4095 - pivot).collect());
    lists.push(&last);
    for measure in [Measure::Footrule, Measure::Rho] {
        let expected = reference(measure, PIVOTS_MAX, &first, &last);
        assert_eq!(u64::from(lists.measures(CodePath::Portable, measure, &first)[0]), expected);
    }
    // The largest footrule of whole permutations is half of the square.
    let whole: Vec<u16> = (0..7).collect();
    let turned: Vec<u16> = whole.iter().rev().copied().collect();
    assert_eq!(reference(Measure::Footrule, 7, &whole, &turned), 7 * 7 / 2);
    assert!(Lists::new(4, 5).unwrap_err().to_string().contains("from 1 to 4"));
    assert!(Lists::new(4, 0).is_err() && Lists::new(PIVOTS_MAX + 1, 5).is_err());
    assert!("spearman".parse::<Measure>().unwrap_err().contains("rho"));
}

#[test]
fn inverted_lists_of_several_blocks_give_the_candidates_of_a_scan() {
    let mut random = Random::new(6);
    // The lengths are those of sums in two bytes and in four.
    for (pivots, length) in [(600, 8), (40, 40), (300, 50)] {
        let mut lists = Lists::new(pivots, length).unwrap();
        let made: Vec<Vec<u16>> = (0..501)
            .map(|_| random.distinct(pivots as u64, length).into_iter().map(|pivot| pivot as u16).collect())
            .collect();
        for object in 0..2 * inverted::BLOCK + 77 {
            lists.push(&made[object * 7 % made.len()]);
        }
        let inverted = Inverted::of(&lists);
        assert_eq!(inverted.objects(), lists.objects());
        assert_eq!(inverted.list(inverted::BLOCK + 5), lists.list(inverted::BLOCK + 5));
        for measure in comparisons(&mut random, length) {
            for path in CodePath::available() {
                let of = |has: fn(usize) -> bool| {
                    let scan = lists.candidates(path, measure, &made[3], 300, has);
                    assert_eq!(inverted.candidates(path, measure, &made[3], 300, has), scan, "{path}");
                };
                of(|_| true);
                of(|object| object % 3 == 1);
            }
        }
    }
}

/// The lists of some vectors by a sort of their distances.
fn lists_by_distances(numbers: &[f32], dimensions: usize, length: usize, rows: &[f32]) -> Vec<u16> {
    let mut lists = Vec::new();
    for row in rows.chunks_exact(dimensions) {
        let pivots = numbers.chunks_exact(dimensions);
        let distances: Vec<f64> = pivots.map(|pivot| Lp::L2.between(pivot, row)).collect();
        lists.extend(&sorted(&distances)[..length]);
    }
    lists
}

fn assert_same_lists(numbers: &[f32], dimensions: usize, length: usize, rows: &[f32]) {
    let expected = lists_by_distances(numbers, dimensions, length, rows);
    let pivots = VectorPivots::new(numbers.to_vec(), dimensions, length).unwrap();
    for path in CodePath::available() {
        let mut found = vec![7];
        pivots.append(path, rows, &mut found);
        assert_eq!(found[0], 7);
        let count = numbers.len() / dimensions;
        assert!(found[1..] == expected, "{path}, {length} of {count} pivots, {dimensions} numbers");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn lists_of_vectors_are_those_of_a_sort_of_their_distances(
        seed in any::<u64>(),
        pivots in 1usize..300,
        length in 1usize..300,
        dimensions in 1usize..40,
        objects in 0usize..80,
        kind in 0usize..5,
    ) {
        let mut random = Random::new(seed);
        // Whole numbers, few of them so that many pivots tie; numbers with fractions; distances that f32 cannot tell apart; numbers
        // whose squares leave f32; and small ones.
        let mut number = || match kind {
            0 => random.below(3) as f32,
            1 => random.normal() as f32,
            2 => 1000.0 + random.below(3) as f32 * 1e-4,
            3 => (random.normal() * 1e30) as f32,
            _ => (random.normal() * 1e-30) as f32,
        };
        let numbers: Vec<f32> = (0..pivots * dimensions).map(|_| number()).collect();
        let rows: Vec<f32> = (0..objects * dimensions).map(|_| number()).collect();
        assert_same_lists(&numbers, dimensions, length.min(pivots), &rows);
    }
}

#[test]
fn long_lists_of_many_pivots_and_vectors_that_are_pivots() {
    let mut random = Random::new(5);
    let mut numbers: Vec<f32> = (0..1300 * 9).map(|_| random.normal() as f32).collect();
    // Each of the last pivots equals an earlier one.
    numbers.extend_from_within(..9 * 40);
    let rows = numbers[..9 * 70].to_vec();
    for length in [1, 17, 600] {
        assert_same_lists(&numbers, 9, length, &rows);
    }
    assert!(VectorPivots::new(numbers, 9, 2000).is_err());
}

#[test]
fn lists_of_many_objects_are_those_of_each() {
    let mut random = Random::new(8);
    for (pivots, length, objects) in [(1, 1, 3), (40, 40, 33), (300, 20, 65), (512, 16, 32), (70, 5, 0)] {
        for kind in 0..5 {
            // Many ties; numbers that f32 cannot tell apart; negative ones; infinite ones; and small ones.
            let mut number = || match kind {
                0 => random.below(9) as f64,
                1 => 1.0 + random.below(9) as f64 * 1e-12,
                2 => random.normal(),
                3 => 1.0 / random.below(5) as f64,
                _ => random.unit() * 1e-60,
            };
            let distances: Vec<f64> = (0..pivots * objects).map(|_| number()).collect();
            let mut expected = Vec::new();
            for object in 0..objects {
                let of_object: Vec<f64> = distances.iter().skip(object).step_by(objects).copied().collect();
                let mut list = vec![0; length];
                nearest_pivots(&of_object, &mut list);
                expected.extend(list);
            }
            for path in CodePath::available() {
                let mut found = Vec::new();
                nearest_of_each(path, &distances, objects, pivots, length, &mut found);
                assert!(found == expected, "{path}, {length} of {pivots}, kind {kind}");
            }
        }
    }
}

#[test]
fn candidates_by_coarse_sums_are_those_of_the_measures() {
    let mut random = Random::new(8);
    for (pivots, length) in [(128, 32), (200, 64), (255, 255), (90, 3)] {
        let mut lists = Lists::new(pivots, length).unwrap();
        for _ in 0..6_000 {
            let mut list = vec![0; length];
            nearest_pivots(&distances(&mut random, pivots, 1 << 20), &mut list);
            lists.push(&list);
        }
        // The query is near some objects, and a copy of one.
        let query = lists.list(4_321);
        for comparison in comparisons(&mut random, length) {
            let measures = lists.measures(CodePath::Portable, comparison, &query);
            let mut order: Vec<u32> = (0..6_000).filter(|object| object % 5 != 2).collect();
            order.sort_by_key(|object| measures[*object as usize]);
            for path in CodePath::available() {
                for count in [1, 10, 700] {
                    let found = lists.candidates(path, comparison, &query, count, |object| object % 5 != 2);
                    assert_eq!(found, order[..count], "{path}, {length} of {pivots}, {comparison:?}");
                }
            }
        }
    }
}
