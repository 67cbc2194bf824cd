//! All paths give out the same sums.

use super::*;
use crate::chance::Random;

/// All paths of this machine.
fn paths(most: u8) -> Vec<IntegerPath> {
    let mut paths = Vec::new();
    for path in CodePath::available() {
        for path in [IntegerPath::of(path), IntegerPath::of_bytes(path, most)] {
            if !paths.contains(&path) {
                paths.push(path);
            }
        }
    }
    paths
}

/// Rows of bytes, weights of queries, and what else a scan needs.
struct Case {
    numbers: usize,
    bytes: Vec<u8>,
    rows: Vec<[f32; 3]>,
    weights: Vec<i8>,
    /// Offsets, steps, reaches and limits.
    queries: Vec<(i32, f32, f32, f32)>,
}

/// Keeps what it is given, and lowers limits now and then.
#[derive(Default)]
struct Kept {
    first: usize,
    found: Vec<(usize, usize, i32)>,
}

impl Sink for Kept {
    fn take(&mut self, query: usize, row: usize, sum: i32, limits: &mut [f32]) {
        self.found.push((self.first + query, row, sum));
        if row % 7 == 3 && limits[query].is_finite() {
            limits[query] -= 0.01 * limits[query].abs();
        }
    }
}

impl Case {
    /// A case whose queries each have a limit at about this share of the rows.
    fn new(random: &mut Random, numbers: usize, most: u8, [rows, queries]: [usize; 2], share: f64) -> Self {
        let mut byte = || match random.below(8) {
            0 => most,
            1 => 0,
            _ => random.below(u64::from(most) + 1) as u8,
        };
        let bytes: Vec<u8> = (0..rows * numbers).map(|_| byte()).collect();
        let mut weight = || match random.below(8) {
            0 => -128,
            1 => 127,
            _ => random.below(256) as u8 as i8,
        };
        let weights: Vec<i8> = (0..queries * numbers).map(|_| weight()).collect();
        let row = |_| {
            let sign = if random.below(9) == 0 { -1.0 } else { 1.0 };
            [random.normal_f32() * 40.0, sign * (0.5 + random.normal_f32().abs()), random.normal_f32().abs()]
        };
        let rows: Vec<[f32; 3]> = (0..rows).map(row).collect();
        let mut case = Self { numbers, bytes, rows, weights, queries: Vec::new() };
        for query in 0..queries {
            let weights = &case.weights[query * numbers..][..numbers];
            let offset = i32::from(most / 2) * weights.iter().map(|weight| i32::from(*weight)).sum::<i32>();
            let (scale, reach) = (0.01 + random.normal_f32().abs() * 0.001, random.normal_f32().abs());
            let value = |row: usize| {
                let [base, factor, height] = case.rows[row];
                base - factor * scale * (case.sum(query, row) - offset) as f32 - reach * height
            };
            let mut values: Vec<f32> = (0..case.rows.len()).map(value).collect();
            values.sort_by(f32::total_cmp);
            let limit =
                if share >= 1.0 { f32::INFINITY } else { values[(share * values.len() as f64) as usize] };
            case.queries.push((offset, scale, reach, limit));
        }
        case
    }

    /// The sum of products of a row with a query.
    fn sum(&self, query: usize, row: usize) -> i32 {
        let weights = &self.weights[query * self.numbers..][..self.numbers];
        let bytes = &self.bytes[row * self.numbers..][..self.numbers];
        weights.iter().zip(bytes).map(|(weight, byte)| i32::from(*weight) * i32::from(*byte)).sum()
    }

    /// The pairs that pass on a path, and their sums, in the order of queries and rows.
    fn passes(&self, path: IntegerPath) -> Vec<(usize, usize, i32)> {
        let queries = self.weights.chunks_exact(self.numbers).zip(&self.queries);
        let weights: Vec<Weights<'_>> = queries
            .map(|(weights, &(offset, scale, reach, _))| Weights { weights, offset, scale, reach })
            .collect();
        let mut rows = Rows::default();
        for (bytes, row) in self.bytes.chunks_exact(self.numbers).zip(&self.rows) {
            rows.push(path, bytes, *row);
        }
        let mut found = Vec::new();
        for panel in panels(path, self.numbers, &weights) {
            let limits = &self.queries[panel.first..panel.first + panel.count];
            let mut limits = limits.iter().map(|query| query.3).collect();
            let mut sink = Kept { first: panel.first, ..Kept::default() };
            scan(path, &panel, &rows, &mut limits, &mut sink);
            found.extend(sink.found);
        }
        found.sort_unstable();
        found
    }
}

#[test]
fn all_paths_give_out_the_sums_that_pass() {
    let mut random = Random::mixed(21);
    for numbers in [1, 3, 4, 15, 16, 17, 127, 128, 600] {
        for counts in [[1, 1], [7, 9], [96, 8], [95, 16], [200, 37]] {
            for most in [30, 255] {
                for share in [0.0, 0.02, 0.3, 1.0] {
                    let case = Case::new(&mut random, numbers, most, counts, share);
                    let all = paths(most);
                    let found: Vec<_> = all.iter().map(|path| case.passes(*path)).collect();
                    for (path, found) in all.iter().zip(&found) {
                        for (query, row, sum) in found {
                            assert_eq!(*sum, case.sum(*query, *row) - case.queries[*query].0, "{path:?}");
                        }
                        if share >= 1.0 {
                            assert_eq!(found.len(), counts[0] * counts[1], "{path:?}");
                        }
                    }
                    // Vector paths round alike. Plain loops round products too.
                    for (path, other) in all.iter().zip(&found).skip(2) {
                        assert_eq!(other, &found[1], "{path:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn numbers_that_are_none_pass_on_all_paths() {
    let mut random = Random::mixed(22);
    let mut case = Case::new(&mut random, 20, 255, [30, 17], 0.0);
    case.rows[3] = [f32::NAN, 1.0, 1.0];
    case.rows[4] = [f32::INFINITY, 1.0, f32::INFINITY];
    case.queries[2].1 = f32::NAN;
    for path in paths(255) {
        let found = case.passes(path);
        for query in 0..17 {
            for row in 0..30 {
                let is_found = found.iter().any(|found| (found.0, found.1) == (query, row));
                assert!(is_found || ![3, 4].contains(&row) && query != 2, "{path:?} {query} {row}");
            }
        }
    }
}
