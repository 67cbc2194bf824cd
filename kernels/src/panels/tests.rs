//! Shortlists against a sort of all distances in f64.

use super::*;
use crate::chance::Random;
use crate::distance::squared_l2;

fn check(rows: &[f32], queries: &[f32], dimensions: usize, centre: Option<&[f32]>, k: usize) {
    let (panels, count) = (Panels::new(rows, dimensions, centre), rows.len() / dimensions);
    let panels = panels.borrow();
    let row = |row: u32| &rows[row as usize * dimensions..][..dimensions];
    for path in CodePath::available() {
        let mut nearest = Vec::new();
        panels.nearest(path, queries, &mut nearest);
        let each = || queries.chunks_exact(dimensions);
        let mut lists: Vec<_> = each().map(|query| panels.shortlist(query, k)).collect();
        panels.scan(path, queries, &mut lists, 0);
        for (number, (query, mut list)) in each().zip(lists).enumerate() {
            let distance = |number: u32| squared_l2(query, row(number));
            let mut expected: Vec<_> = (0..count as u32).map(|number| (distance(number), number)).collect();
            expected.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            let mut candidates = nearest.iter().filter(|candidate| candidate.query == number as u32);
            let row_of_nearest = expected.first().map(|(_, row)| *row);
            assert_eq!(
                candidates.any(|candidate| Some(candidate.row) == row_of_nearest),
                count > 0,
                "{path}"
            );
            expected.truncate(k);
            assert_eq!(list.clone().ranked(distance), expected, "{path}, {count} rows, k {k}");
            list.settle(0, distance);
            assert!(list.kept().len() <= k.max(1));
            assert_eq!(list.ranked(distance), expected, "{path}, {count} rows, k {k}, settled");
        }
    }
}

#[test]
fn shortlists_have_the_nearest_rows() {
    let mut random = Random::mixed(5);
    for dimensions in [1, 2, 3, 31, 128, 129] {
        for count in [0, 1, 31, 32, 33, 400, 3000 / dimensions] {
            // Every third data set has few values, so that there are many equal distances.
            for levels in [0, 3, 256] {
                let mut number = |_| {
                    if levels == 0 { random.normal_f32() } else { random.below(levels) as f32 }
                };
                let rows: Vec<f32> = (0..count * dimensions).map(&mut number).collect();
                let queries: Vec<f32> = (0..7 * dimensions).map(&mut number).collect();
                let centre = vec![0.37; dimensions];
                for k in [0, 1, 2, 10, 500] {
                    check(&rows, &queries, dimensions, None, k);
                    check(&rows, &queries, dimensions, Some(&centre), k);
                }
            }
        }
    }
}

#[test]
fn near_duplicates_far_from_the_origin_and_huge_numbers_are_ranked_in_f64() {
    let mut random = Random::mixed(6);
    let near: Vec<f32> = (0..200 * 5).map(|_| 1e4 + 0.01 * random.normal_f32()).collect();
    check(&near, &near[..50], 5, None, 3);
    check(&near, &near[..50], 5, Some(&near[..5]), 3);
    let huge: Vec<f32> = (0..70 * 3).map(|_| 1e30 * random.normal_f32()).collect();
    check(&huge, &huge[..12], 3, None, 1);
    check(&huge, &huge[..12], 3, None, 4);
    let tiny: Vec<f32> = (0..70 * 3).map(|_| 1e-30 * random.normal_f32()).collect();
    check(&tiny, &tiny[..12], 3, None, 4);
    let zeros = vec![0.0; 40 * 4];
    check(&zeros, &zeros[..8], 4, None, 5);
}

#[test]
fn scores_stay_within_their_bound() {
    let mut random = Random::mixed(7);
    let rows: Vec<f32> = (0..64 * 100).map(|_| 50.0 + random.normal_f32()).collect();
    let query: Vec<f32> = (0..100).map(|_| 50.0 + random.normal_f32()).collect();
    let panels = Panels::new(&rows, 100, None);
    let panels = panels.borrow();
    let square = query.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>();
    for path in CodePath::available() {
        let mut list = [panels.shortlist(&query, 64)];
        panels.scan(path, &query, &mut list, 0);
        assert_eq!(list[0].kept().len(), 64);
        for (score, row) in list[0].kept() {
            let half = squared_l2(&query, &rows[*row as usize * 100..][..100]) / 2.0;
            let error = (f64::from(*score) + square / 2.0 - half).abs();
            assert!(error <= panels.error_bound(square.sqrt()), "{path}: {error}");
        }
    }
}

#[test]
fn candidates_go_by_score_then_by_row() {
    let mut random = Random::mixed(8);
    let special = [0.0, -0.0, 1.0, -1.0, f32::MIN_POSITIVE, -1e-40, f32::MAX, -f32::MAX];
    let mut scores: Vec<f32> = (0..300).map(|_| random.normal_f32()).collect();
    scores.extend(special);
    scores.extend_from_within(100..200);
    let mut sorted: Vec<(f32, u32)> = scores.iter().copied().zip(0..).collect();
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    for k in [1, 5, 100, scores.len()] {
        let mut list = Shortlist::new(k, 0.0);
        scores.iter().zip(0..).for_each(|(score, row)| list.offer(*score, row));
        let bits =
            |list: &[(f32, u32)]| list.iter().map(|(score, row)| (score.to_bits(), *row)).collect::<Vec<_>>();
        assert_eq!(bits(&list.by_score()), bits(&sorted[..k]), "k {k}");
    }
}
