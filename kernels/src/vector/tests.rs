//! Fast paths find what a sort of all f64 distances finds, on odd shapes, with ties, duplicates and zeros.

use super::*;
use crate::CodePath;
use crate::chance::Random;

/// Rows of each type, with duplicates and vectors of zeros among them.
pub(crate) fn rows(random: &mut Random, count: usize, dimensions: usize) -> Vec<f32> {
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
pub(crate) fn wanted(measure: VectorMeasure, query: &[f32], rows: &[f32], k: usize) -> Vec<(f64, u32)> {
    let rows = rows.chunks_exact(query.len());
    let mut all: Vec<(f64, u32)> = rows.map(|row| measure.between(query, row)).zip(0..).collect();
    all.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    all.truncate(k);
    all
}

/// Ranks what a fast path has left.
pub(crate) fn ranked(
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

pub(crate) const MEASURES: [VectorMeasure; 3] =
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
                    let scale = [1.0, 1e-3, 3e12, 1e36, 1e-36, 1e-42][random.idx(6)];
                    let k = 1 + random.idx(40);
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
fn rows_of_bytes_are_ranked_as_by_f64_on_every_path_for_every_measure() {
    let mut random = Random::new(8);
    for path in CodePath::available() {
        for dimensions in [1, 3, 127, 128, 129, 258, 300, 960] {
            for count in [0, 1, 31, 32, 33, 97, 300] {
                for is_signed in [false, true] {
                    let byte = |random: &mut Random| [0, 128, 255, random.bits() as u8][random.idx(4)];
                    let mut bytes: Vec<u8> = (0..count * dimensions).map(|_| byte(&mut random)).collect();
                    // Rows of zeros, and multiples of one row, whose cosines differ by roundings alone.
                    let zero = if is_signed { 128 } else { 0 };
                    bytes.chunks_exact_mut(dimensions).step_by(7).for_each(|row| row.fill(zero));
                    for (nth, row) in bytes.chunks_exact_mut(dimensions).enumerate().skip(1).step_by(5) {
                        let part = (1 + nth % 3) as u8;
                        row.iter_mut()
                            .enumerate()
                            .for_each(|(place, x)| *x = zero + part * (place % 40) as u8);
                    }
                    let signed: Vec<i8> = bytes.iter().map(|byte| (byte ^ 128).cast_signed()).collect();
                    let (rows, kind) = match is_signed {
                        true => (VectorRef::I8(&signed), NumberType::I8),
                        false => (VectorRef::U8(&bytes), NumberType::U8),
                    };
                    let wide = rows.widened();
                    for (queries, measure) in [1, 20, 70].into_iter().zip(MEASURES) {
                        let least = if is_signed { -128.0 } else { 0.0 };
                        let asked: Vec<Vec<f32>> = (0..queries)
                            .map(|nth| match nth % 5 {
                                2 => vec![0.0; dimensions],
                                3 => (0..dimensions).map(|place| (place % 40) as f32).collect(),
                                _ => (0..dimensions).map(|_| random.below(256) as f32 + least).collect(),
                            })
                            .collect();
                        let slices: Vec<&[f32]> = asked.iter().map(Vec::as_slice).collect();
                        let packed = ByteQueries::new(path, measure, kind, dimensions, &slices).unwrap();
                        let mut nearest = vec![Nearest::new(7, f64::INFINITY); queries];
                        packed.scan(rows, 0, None, &mut nearest);
                        for (query, nearest) in asked.iter().zip(nearest) {
                            let found = ranked(measure, query, &wide, 7, nearest.finish());
                            let wanted = wanted(measure, query, &wide, 7);
                            assert_eq!(found, wanted, "{path} {measure:?} {kind:?} {dimensions} {count}");
                        }
                    }
                }
            }
        }
    }
    for (kind, number) in [(NumberType::U8, -1.0), (NumberType::U8, 256.0), (NumberType::I8, 128.0)] {
        for number in [number, 0.5, f32::NAN] {
            assert!(ByteQueries::new(CodePath::detect(), VectorMeasure::L2, kind, 1, &[&[number]]).is_none());
        }
    }
    assert!(ByteQueries::new(CodePath::detect(), VectorMeasure::L2, NumberType::F32, 1, &[&[1.0]]).is_none());
}

#[test]
fn a_range_leaves_all_rows_within_it() {
    let mut random = Random::new(12);
    let dimensions = 9;
    for path in CodePath::available() {
        for measure in MEASURES {
            let bytes: Vec<u8> = (0..400 * dimensions)
                .map(|place| if place < 3 * dimensions { 0 } else { random.below(256) as u8 })
                .collect();
            let rows = VectorRef::U8(&bytes).widened();
            let asked: Vec<&[f32]> =
                [0, 5, 77, 399].map(|row| &rows[row * dimensions..][..dimensions]).to_vec();
            let packed = ByteQueries::new(path, measure, NumberType::U8, dimensions, &asked).unwrap();
            let flat = FlatQueries::new(path, measure, dimensions, &asked);
            for (number, query) in asked.iter().enumerate() {
                let all = wanted(measure, query, &rows, 400);
                // Ranges that are distances of rows, to the bit, and others.
                for range in [all[0].0, all[30].0, all[200].0, all[399].0, all[0].0 - 1.0, 0.5] {
                    let within = all.iter().filter(|(distance, _)| *distance <= range).count();
                    for is_flat in [false, true] {
                        let value = |query| match is_flat {
                            true => flat.value_of(query, range),
                            false => packed.value_of(query, range),
                        };
                        let mut nearest: Vec<_> =
                            (0..asked.len()).map(|query| Nearest::new(4000, value(query))).collect();
                        match is_flat {
                            true => flat.scan(VectorRef::F32(&rows), 0, None, &mut nearest),
                            false => packed.scan(VectorRef::U8(&bytes), 0, None, &mut nearest),
                        }
                        let left = nearest.swap_remove(number).finish();
                        let most = if measure == VectorMeasure::L2 { within + 40 } else { 400 };
                        assert!(left.len() <= most, "{} are left of {within}", left.len());
                        let mut found = ranked(measure, query, &rows, 400, left);
                        found.retain(|(distance, _)| *distance <= range);
                        assert_eq!(found, all[..within], "{path} {measure:?} {range}");
                    }
                }
            }
        }
    }
}
