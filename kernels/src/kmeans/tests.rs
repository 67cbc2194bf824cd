//! The fast k-means against the plain one, to the bit.

use std::thread;

use proptest::prelude::*;

use super::*;
use crate::pieces::one_by_one;

/// Computes pieces on several threads, the last first.
fn threads(workers: usize) -> impl FnMut(usize, &(dyn Fn(usize) + Sync)) -> bool {
    move |count, f| {
        thread::scope(|scope| {
            for worker in 0..workers {
                scope.spawn(move || (0..count).rev().filter(|piece| piece % workers == worker).for_each(f));
            }
        });
        true
    }
}

fn chosen(rows: &[f32], dimensions: usize, clusters: usize, seed: u64) -> Vec<f32> {
    let rows_count = (rows.len() / dimensions) as u64;
    let numbers = start(rows_count, clusters, seed).into_iter();
    numbers.flat_map(|row| rows[row as usize * dimensions..][..dimensions].to_vec()).collect()
}

fn check(rows: &[f32], dimensions: usize, clusters: usize, options: Options) -> Clustering {
    let start = chosen(rows, dimensions, clusters, options.seed);
    let expected = reference::k_means(rows, dimensions, start.clone(), options);
    for path in CodePath::available() {
        for workers in [1, 2, 7] {
            let found = k_means(rows, dimensions, start.clone(), options, path, &mut threads(workers))
                .unwrap()
                .unwrap();
            assert_eq!(found, expected, "{path}, {workers} workers");
        }
    }
    expected
}

const OPTIONS: Options = Options { iterations: 8, seed: 1234, spherical: false, frozen: 0 };

#[test]
fn centroids_are_those_of_the_plain_loops_on_any_path_and_number_of_workers() {
    let mut random = Random::mixed(1);
    for dimensions in [1, 3, 8, 33] {
        for levels in [0, 4] {
            let number = |_| if levels == 0 { random.normal_f32() } else { random.below(levels) as f32 };
            let rows: Vec<f32> = (0..2000 * dimensions).map(number).collect();
            for clusters in [1, 2, 31, 33, 100] {
                let found = check(&rows, dimensions, clusters, OPTIONS);
                assert!(
                    found.objectives.windows(2).all(|pair| pair[1] <= pair[0] * (1.0 + 1e-6))
                        || found.splits > 0
                );
            }
        }
    }
    // Widths beside those of registers, and few rows or none.
    for dimensions in [127, 128, 129, 960] {
        let rows: Vec<f32> = (0..200 * dimensions).map(|_| random.normal_f32()).collect();
        for count in [0, 1, 31, 32, 33, 200] {
            for clusters in [1, 3, 17] {
                let clusters = clusters.min(count.max(1));
                let options = Options { iterations: 3, spherical: count % 2 == 1, ..OPTIONS };
                match count {
                    0 => {
                        let start = rows[..clusters * dimensions].to_vec();
                        let expected = reference::k_means(&[], dimensions, start.clone(), options);
                        for path in CodePath::available() {
                            let found =
                                k_means(&[], dimensions, start.clone(), options, path, &mut threads(2));
                            assert_eq!(found.unwrap().as_ref(), Some(&expected), "{path}");
                        }
                    }
                    _ => drop(check(&rows[..count * dimensions], dimensions, clusters, options)),
                }
            }
        }
    }
    let rows: Vec<f32> = (0..500 * 5).map(|_| random.normal_f32()).collect();
    let found = check(&rows, 5, 20, Options { spherical: true, ..OPTIONS });
    for centroid in found.centroids.chunks_exact(5) {
        assert!((squared_l2(centroid, &[0.0; 5]) - 1.0).abs() < 1e-6);
    }
}

#[test]
fn sums_join_in_the_order_of_blocks() {
    // More rows than a block, of numbers whose sums depend on their order.
    let mut random = Random::mixed(2);
    let rows: Vec<f32> = (0..(2 * BLOCK + 77) * 2).map(|_| random.normal_f32().powi(9)).collect();
    check(&rows, 2, 3, Options { iterations: 2, ..OPTIONS });
}

#[test]
fn clusters_without_rows_are_split_off_large_ones() {
    // Copies of two rows leave all but two of the centroids empty.
    let rows: Vec<f32> =
        (0..300).flat_map(|row| if row % 3 == 0 { [5.0, 1.0] } else { [-5.0, 2.0] }).collect();
    let found = check(&rows, 2, 6, OPTIONS);
    assert!(found.splits > 0);
    // As many clusters as rows, and more centroids than rows: none can be split.
    let rows = [1.0, 1.0, 1.0, 1.0];
    check(&rows, 2, 2, OPTIONS);
    let found =
        k_means(&rows, 2, vec![0.0; 10], OPTIONS, CodePath::Portable, &mut one_by_one()).unwrap().unwrap();
    assert_eq!(found.centroids.len(), 10);
    let none =
        k_means(&[], 2, vec![0.5; 4], OPTIONS, CodePath::Portable, &mut one_by_one()).unwrap().unwrap();
    assert_eq!((none.centroids, none.objectives.len()), (vec![0.5; 4], 0));
}

#[test]
fn a_start_has_different_rows_and_a_caller_can_cancel() {
    let mut numbers = start(1000, 300, 7);
    assert_eq!(numbers, start(1000, 300, 7));
    assert_ne!(numbers, start(1000, 300, 8));
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!((numbers.len(), start(5, 9, 1).len()), (300, 5));
    let mut cancelled = |_: usize, _: &(dyn Fn(usize) + Sync)| false;
    let found = k_means(&[1.0; 20], 2, vec![0.5; 4], OPTIONS, CodePath::Portable, &mut cancelled).unwrap();
    assert_eq!(found, None);
}

#[test]
fn rounds_end_when_no_row_moves() {
    let rows: Vec<f32> = (0..90).map(|row| [0.0, 100.0, 200.0][row % 3] + (row / 3) as f32 * 0.1).collect();
    let options = Options { iterations: 100, ..OPTIONS };
    let start = vec![0.0, 101.0, 202.0];
    let found = k_means(&rows, 1, start, options, CodePath::detect(), &mut one_by_one()).unwrap().unwrap();
    assert!(found.is_settled && found.objectives.len() < 5);
    assert!((found.centroids[1] - 101.45).abs() < 1e-4, "{:?}", found.centroids);
}

#[test]
fn frozen_centroids_stay_and_the_others_follow_the_rows_that_are_theirs() {
    let mut random = Random::mixed(3);
    let rows: Vec<f32> = (0..900 * 4).map(|_| random.normal_f32()).collect();
    for frozen in [1, 5, 12] {
        for spherical in [false, true] {
            let options = Options { frozen, spherical, ..OPTIONS };
            let found = check(&rows, 4, 12, options);
            let start = chosen(&rows, 4, 12, options.seed);
            assert_eq!(found.centroids[..frozen * 4], start[..frozen * 4]);
            assert!(frozen == 12 || found.centroids[frozen * 4..] != start[frozen * 4..]);
        }
    }
    // Frozen centroids without rows, beside one that moves: nothing is split off or into them.
    let far = [vec![1e3; 4], vec![2e3; 4], vec![0.0; 4]].concat();
    let options = Options { frozen: 2, ..OPTIONS };
    let found =
        k_means(&rows, 4, far.clone(), options, CodePath::detect(), &mut one_by_one()).unwrap().unwrap();
    assert_eq!((found.splits, &found.centroids[..8]), (0, &far[..8]));
    assert_eq!(found, reference::k_means(&rows, 4, far, options));
    // With fewer centroids than are to be frozen, all are.
    check(&rows, 4, 3, Options { frozen: 9, ..OPTIONS });
}

fn check_spread(rows: &[f32], dimensions: usize, given: &[f32], clusters: usize, seed: u64) -> Vec<f32> {
    let expected = reference::spread(rows, dimensions, given, clusters, seed);
    for path in CodePath::available() {
        for workers in [1, 2, 7] {
            let found = spread(rows, dimensions, given, clusters, seed, path, &mut threads(workers));
            assert_eq!(found.unwrap().unwrap(), expected, "{path}, {workers} workers");
        }
    }
    expected
}

#[test]
fn a_spread_start_is_that_of_the_plain_loops_and_beats_a_random_one() {
    let mut random = Random::mixed(4);
    for dimensions in [1, 3, 17] {
        let rows: Vec<f32> = (0..(ROWS_PER_PIECE + 99) * dimensions).map(|_| random.normal_f32()).collect();
        check_spread(&rows, dimensions, &[], 20, dimensions as u64);
        check_spread(&rows, dimensions, &rows[..5 * dimensions], 9, 7);
    }
    // Thirty clusters far from each other: a row of each is chosen, which a random start does not reach.
    let rows: Vec<f32> = (0..3000)
        .flat_map(|row| [(row % 30) as f32 * 1000.0 + random.normal_f32(), random.normal_f32()])
        .collect();
    let start = check_spread(&rows, 2, &[], 30, 1);
    let mut clusters: Vec<i32> =
        start.chunks_exact(2).map(|centroid| (centroid[0] / 1000.0).round() as i32).collect();
    clusters.sort_unstable();
    clusters.dedup();
    assert_eq!(clusters.len(), 30);
    let objective = |start: Vec<f32>| {
        let found =
            k_means(&rows, 2, start, OPTIONS, CodePath::detect(), &mut one_by_one()).unwrap().unwrap();
        *found.objectives.last().unwrap()
    };
    assert!(objective(start) < 0.01 * objective(chosen(&rows, 2, 30, 1)));
    // More centroids than different rows, and a caller that cancels.
    let few = check_spread(&[1.0, 2.0, 1.0, 2.0], 1, &[], 4, 1);
    assert!(few.contains(&1.0) && few.contains(&2.0));
    let mut cancelled = |_: usize, _: &(dyn Fn(usize) + Sync)| false;
    assert_eq!(spread(&rows, 2, &[], 3, 1, CodePath::Portable, &mut cancelled).unwrap(), None);
}

#[test]
fn the_objective_of_settled_rounds_is_that_of_the_last_one() {
    let mut random = Random::new(23);
    let (dimensions, count) = (3, BLOCK + 500);
    let rows: Vec<f32> =
        (0..count * dimensions).map(|at| (at / dimensions % 5) as f32 * 50.0 + random.normal_f32()).collect();
    // A row of each cluster, and the last one again, which has no rows at first.
    let start = [&rows[..5 * dimensions], &rows[4 * dimensions..5 * dimensions]].concat();
    let options = Options { iterations: 400, ..OPTIONS };
    let mut rounds = Rounds::new(&rows[..3000 * dimensions], dimensions, start.clone(), options).unwrap();
    while !rounds.is_over() {
        assert!(rounds.compute(CodePath::detect(), &rows[..3000 * dimensions], &mut one_by_one()));
    }
    assert!(rounds.splits() > 0);
    let start = start[..5 * dimensions].to_vec();
    let mut rounds = Rounds::new(&rows, dimensions, start, options).unwrap();
    let mut first = None;
    while !rounds.is_over() {
        assert!(rounds.compute(CodePath::detect(), &rows, &mut one_by_one()));
        first = first.or(rounds.objective(&rows, &mut one_by_one()));
    }
    let last = rounds.objective(&rows, &mut one_by_one()).unwrap();
    assert!(rounds.is_settled() && first.unwrap() >= last);
    assert_eq!(rounds.objective(&rows, &mut |_: usize, _: &(dyn Fn(usize) + Sync)| false), None);
    let (splits, done) = (rounds.splits(), rounds.into_clustering());
    assert_eq!((done.objectives.last(), done.splits), (Some(&last), splits));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_rows_give_the_bits_of_the_plain_loops(
        dimensions in 1usize..6, clusters in 1usize..20, far in prop::bool::ANY, scale in -20i32..20,
        numbers in prop::collection::vec(-100i32..100, 6..600),
    ) {
        let shift = if far { 1e5 } else { 0.0 };
        let scale = 2f32.powi(scale);
        let whole = numbers.len() / dimensions * dimensions;
        let rows: Vec<f32> = numbers[..whole].iter().map(|x| (*x as f32 + shift) * scale).collect();
        check(&rows, dimensions, clusters, Options { iterations: 4, ..OPTIONS });
        check_spread(&rows, dimensions, &[], clusters, clusters as u64);
    }
}
