//! Fast paths find what a sort of all f64 distances finds, on odd shapes, with ties, duplicates and zeros.

use super::*;
use crate::CodePath;
use crate::chance::Random;

/// Rows of each type, with duplicates and vectors of zeros among them.
pub(super) fn rows(random: &mut Random, count: usize, dimensions: usize) -> Vec<f32> {
    let mut rows: Vec<f32> = Vec::with_capacity(count * dimensions);
    for row in 0..count {
        match random.below(10) {
            0 => rows.extend(std::iter::repeat_n(0.0, dimensions)),
            1 if row > 0 => {
                let from = random.idx(row) * dimensions;
                rows.extend_from_within(from..from + dimensions);
            }
            _ => rows.extend((0..dimensions).map(|_| random.below(200) as f32 - 60.0)),
        }
    }
    rows
}

/// The k least (distance, row) by a sort.
pub(super) fn wanted(measure: VectorMeasure, query: &[f32], rows: &[f32], k: usize) -> Vec<(f64, u32)> {
    let rows = rows.chunks_exact(query.len());
    let mut all: Vec<(f64, u32)> = rows.map(|row| measure.between(query, row)).zip(0..).collect();
    all.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    all.truncate(k);
    all
}

/// Ranks what a fast path has left.
pub(super) fn ranked(
    measure: VectorMeasure,
    query: &[f32],
    rows: &[f32],
    k: usize,
    left: Vec<(f64, u32)>,
) -> Vec<(f64, u32)> {
    let dimensions = query.len();
    let of = |row: u32| &rows[row as usize * dimensions..][..dimensions];
    let mut found: Vec<(f64, u32)> =
        left.into_iter().map(|(_, row)| (measure.between(query, of(row)), row)).collect();
    found.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    found.truncate(k);
    found
}

pub(super) const MEASURES: [VectorMeasure; 3] =
    [VectorMeasure::L2, VectorMeasure::InnerProduct, VectorMeasure::Cosine];

#[test]
fn a_scan_finds_the_nearest_on_every_path_for_every_measure_and_shape() {
    let mut random = Random::new(5);
    for path in CodePath::available() {
        for dimensions in [1, 3, 127, 128, 129, 960] {
            for count in [0, 1, 31, 32, 33, 300] {
                let rows = rows(&mut random, count, dimensions);
                for queries in [1, 3, 17, 70] {
                    let measure = MEASURES[random.idx(3)];
                    let (k, scale) = (1 + random.idx(40), [1.0, 1e-3, 3e12][random.idx(3)]);
                    let rows: Vec<f32> = rows.iter().map(|number| number * scale).collect();
                    let asked: Vec<Vec<f32>> = (0..queries)
                        .map(|_| match count > 0 && random.below(2) == 0 {
                            true => rows[random.idx(count) * dimensions..][..dimensions].to_vec(),
                            false => (0..dimensions).map(|_| random.normal_f32() * 60.0).collect(),
                        })
                        .collect();
                    let slices: Vec<&[f32]> = asked.iter().map(Vec::as_slice).collect();
                    let flat = FlatQueries::new(path, measure, dimensions, &slices);
                    let mut nearest = vec![Nearest::new(k, f64::INFINITY); queries];
                    let at = count / 3 * dimensions;
                    flat.scan(VectorRef::F32(&rows[..at]), 0, None, &mut nearest);
                    flat.scan(VectorRef::F32(&rows[at..]), (count / 3) as u32, None, &mut nearest);
                    for (query, nearest) in asked.iter().zip(nearest) {
                        let found = ranked(measure, query, &rows, k, nearest.finish());
                        assert_eq!(
                            found,
                            wanted(measure, query, &rows, k),
                            "{path} {measure:?} {dimensions} {count}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn near_duplicates_far_from_the_origin_are_told_apart() {
    let mut random = Random::new(6);
    let dimensions = 64;
    let rows: Vec<f32> = (0..500 * dimensions).map(|_| 10_000.0 + random.below(8) as f32 / 1024.0).collect();
    for path in CodePath::available() {
        let query = &rows[77 * dimensions..78 * dimensions];
        let flat = FlatQueries::new(path, VectorMeasure::L2, dimensions, &[query]);
        let mut nearest = vec![Nearest::new(5, f64::INFINITY)];
        flat.scan(VectorRef::F32(&rows), 0, None, &mut nearest);
        let found = ranked(VectorMeasure::L2, query, &rows, 5, nearest.remove(0).finish());
        assert_eq!(found, wanted(VectorMeasure::L2, query, &rows, 5));
    }
}

#[test]
fn rows_of_bytes_give_whole_numbers_on_every_path() {
    let mut random = Random::new(8);
    for path in CodePath::available() {
        for dimensions in [1, 3, 128, 258, 300] {
            for count in [0, 1, 31, 97, 300] {
                let bytes: Vec<u8> =
                    (0..count * dimensions).map(|_| [0, 255, random.bits() as u8][random.idx(3)]).collect();
                let rows: Vec<f32> = bytes.iter().map(|byte| f32::from(*byte)).collect();
                for (queries, measure) in [(1, MEASURES[0]), (20, MEASURES[1]), (70, MEASURES[0])] {
                    let asked: Vec<Vec<f32>> = (0..queries)
                        .map(|_| (0..dimensions).map(|_| random.below(256) as f32).collect())
                        .collect();
                    let slices: Vec<&[f32]> = asked.iter().map(Vec::as_slice).collect();
                    let packed = ByteQueries::new(path, measure, dimensions, &slices).unwrap();
                    let mut nearest = vec![Nearest::new(7, f64::INFINITY); queries];
                    packed.scan(&bytes, 0, None, &mut nearest);
                    for (query, nearest) in asked.iter().zip(nearest) {
                        let found = ranked(measure, query, &rows, 7, nearest.finish());
                        assert_eq!(
                            found,
                            wanted(measure, query, &rows, 7),
                            "{path} {measure:?} {dimensions} {count}"
                        );
                    }
                }
            }
        }
    }
    assert!(ByteQueries::new(CodePath::Portable, MEASURES[0], 2, &[&[1.0, 2.5]]).is_none());
    assert!(ByteQueries::new(CodePath::Portable, MEASURES[2], 2, &[&[1.0, 2.0]]).is_none());
}
