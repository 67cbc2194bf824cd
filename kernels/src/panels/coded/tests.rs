//! The nearest row is never lost, and all paths have the same scores.

use super::*;
use crate::chance::Random;
use crate::distance::squared_l2;

fn check(rows: &[f32], queries: &[f32], dimensions: usize, centre: &[f32]) -> usize {
    let row = |row: u32| &rows[row as usize * dimensions..][..dimensions];
    let mut count = 0;
    for path in CodePath::available().into_iter().filter(|path| Coded::is_fast(*path)) {
        let coded = Coded::new(path, rows, dimensions, centre).expect("rows with whole parts");
        let (mut of, mut found) = (CodedQueries::default(), Vec::new());
        // A distance that is known to have a row leaves no more rows, and the nearest ones.
        let first = |query: &[f32]| squared_l2(query, row(0)).sqrt();
        let known: Vec<f64> = queries.chunks_exact(dimensions).map(first).collect();
        coded.nearest(path, queries, &known, &mut of, &mut found);
        let with_known = found.clone();
        coded.nearest(path, queries, &[], &mut of, &mut found);
        assert!(with_known.len() <= found.len() && with_known.iter().all(|kept| found.contains(kept)));
        for (number, query) in queries.chunks_exact(dimensions).enumerate() {
            let squares = rows.chunks_exact(dimensions).map(|row| squared_l2(query, row));
            let nearest = squares.fold(f64::INFINITY, f64::min);
            for equal in (0..coded.rows as u32).filter(|other| squared_l2(query, row(*other)) == nearest) {
                let kept = found.iter().find(|found| found.query == number as u32 && found.row == equal);
                let kept = kept.expect("the nearest row is a candidate");
                assert!(with_known.contains(kept));
                let within = coded.limit_within(&of, number as u32, nearest.sqrt());
                assert!(kept.score <= within, "{} is above {within}", kept.score);
            }
        }
        count = found.len();
    }
    count
}

#[test]
fn the_nearest_row_is_always_left() {
    let mut random = Random::mixed(9);
    for dimensions in [1, 2, 3, 31, 64, 127, 129] {
        for count in [1, 63, 64, 65, 300, 513] {
            for levels in [0, 2, 200] {
                let mut number =
                    |_| if levels == 0 { random.normal_f32() } else { random.below(levels) as f32 };
                let rows: Vec<f32> = (0..count * dimensions).map(&mut number).collect();
                let mut queries: Vec<f32> = (0..13 * dimensions).map(&mut number).collect();
                queries[..dimensions].copy_from_slice(&rows[..dimensions]);
                let centre = vec![0.4; dimensions];
                check(&rows, &queries, dimensions, &centre);
                // Numbers of very different sizes, far from the origin, and the centre itself.
                let far: Vec<f32> = rows
                    .iter()
                    .enumerate()
                    .map(|(idx, x)| 1e4 + x * 10f32.powi(idx as i32 % 5 - 3))
                    .collect();
                queries[dimensions..2 * dimensions].copy_from_slice(&centre);
                check(&far, &queries, dimensions, &centre);
            }
        }
    }
}

#[test]
fn few_rows_are_left_of_many() {
    let mut random = Random::mixed(10);
    let mut number = |_| random.normal_f32();
    let rows: Vec<f32> = (0..2000 * 64).map(&mut number).collect();
    let queries: Vec<f32> = (0..100 * 64).map(&mut number).collect();
    let left = check(&rows, &queries, 64, &[0.0; 64]);
    assert!(left < 100 * 40, "{left}");
}

#[test]
fn numbers_without_whole_parts_leave_all_rows_or_have_no_codes() {
    for path in CodePath::available().into_iter().filter(|path| Coded::is_fast(*path)) {
        assert!(Coded::new(path, &[1e20, 1.0], 2, &[0.0; 2]).is_none());
        assert!(Coded::new(path, &[1e-30, 0.0], 2, &[0.0; 2]).is_none());
        assert!(
            Coded::new(path, &[0.0; DIMENSIONS_MAX + 1], DIMENSIONS_MAX + 1, &[0.0; DIMENSIONS_MAX + 1])
                .is_none()
        );
        let coded = Coded::new(path, &[3.0, -4.0, 0.0, 0.0], 2, &[0.0; 2]).expect("whole parts");
        let (mut of, mut found) = (CodedQueries::default(), Vec::new());
        coded.nearest(path, &[1e20, 1.0, 2.0, -4.0], &[], &mut of, &mut found);
        let rows: Vec<(u32, u32)> = found.iter().map(|found| (found.query, found.row)).collect();
        assert_eq!(rows, [(0, 0), (0, 1), (1, 0)]);
    }
}

#[test]
fn scores_are_those_of_plain_loops() {
    let mut random = Random::mixed(11);
    for dimensions in [1, 5, 64, 130] {
        // Numbers of one size, so that each number of a row and a query is the largest of its bytes.
        for has_one_size in [false, true] {
            let mut number = |_| {
                let number = random.normal_f32();
                if has_one_size { number.signum() } else { number }
            };
            let rows: Vec<f32> = (0..200 * dimensions).map(&mut number).collect();
            let mut queries: Vec<f32> = (0..QUERIES * dimensions).map(&mut number).collect();
            queries[..dimensions].copy_from_slice(&rows[100 * dimensions..101 * dimensions]);
            for path in CodePath::available().into_iter().filter(|path| Coded::is_fast(*path)) {
                let coded = Coded::new(path, &rows, dimensions, &vec![0.0; dimensions]).expect("whole parts");
                let mut of = CodedQueries::default();
                of.set(path, &queries, &coded);
                let steps: [f32; QUERIES] = std::array::from_fn(|query| of.parts[query].step);
                let (mut fast, mut plain) = (vec![0.0; QUERIES * 3 * PANEL], vec![0.0; QUERIES * 3 * PANEL]);
                let least = coded.scores(1..4, &of.words, &steps, &mut fast);
                assert_eq!(least, coded.plain_scores(1..4, &of.words, &steps, &mut plain), "{path}");
                assert_eq!(fast, plain, "{path}");
            }
        }
    }
}
