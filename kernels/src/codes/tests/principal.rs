//! Codes along principal directions: their bounds, their sums on every path, and their training.

use super::super::principal::Principal;
use super::*;
use crate::rotation::Rotation;

/// The sums of products of a row by the definition of its codes: of the first plane, and of all bits.
fn sums(codes: &Codes, query: &CodeQuery, row: usize) -> [i64; 2] {
    let mut bytes = Vec::new();
    codes.bytes(row, true, &mut bytes);
    let fields = codes.encoder().principal().unwrap().fields();
    assert_eq!(bytes.len(), fields.len());
    let (mut first, mut second) = (0, 0);
    for (place, (byte, field)) in bytes.iter().zip(fields).enumerate() {
        let weight = match query.low.get(place) {
            Some(low) => i64::from(query.high[place]) * 128 + i64::from(*low),
            None => {
                second += i64::from(*byte) * i64::from(query.high[place]);
                continue;
            }
        };
        first += (i64::from(byte >> 3) << field.shift) * weight;
        second += 2 * i64::from(byte >> 1 & 3) * (weight << field.shift);
    }
    [first, 8 * first + second]
}

/// Queries beside a row, at it, and far from all.
fn asked(random: &mut Random, rows: &[f32], dimensions: usize, nth: usize) -> Vec<f32> {
    let row = &rows[random.idx(rows.len() / dimensions) * dimensions..][..dimensions];
    match nth % 4 {
        0 => row.to_vec(),
        1 => row.iter().map(|x| x * 1.0001).collect(),
        2 => row.iter().map(|x| x.next_up()).collect(),
        _ => (0..dimensions).map(|_| 50.0 * random.normal_f32()).collect(),
    }
}

fn check(codes: &Codes, query: &[f32], rows: &[f32], fine: bool) -> usize {
    let (encoder, dimensions) = (codes.encoder(), query.len());
    let packed = CodeQuery::new(encoder, CodePath::detect(), query, fine);
    let levels: &[bool] = if fine { &[false, true] } else { &[true] };
    for (row, numbers) in rows.chunks_exact(dimensions).enumerate() {
        let distance = encoder.measure().between(query, numbers);
        let sums = sums(codes, &packed, row);
        for is_all in levels {
            let triple = codes.triple(row, *is_all);
            let along = packed.along(sums[usize::from(*is_all)], *is_all, triple.inverse);
            let (lower, upper) = packed.bounds(along, triple, codes.shift(row));
            assert!(
                lower <= distance && distance <= upper,
                "{:?} {dimensions} {is_all}: {lower} {distance} {upper}",
                encoder.measure()
            );
        }
    }
    levels.len() * rows.len() / dimensions
}

#[test]
fn every_distance_lies_within_the_bounds_along_principal_directions() {
    let (mut random, mut pairs) = (Random::new(145), 0);
    for dimensions in [1, 3, 8, 17, 31, 64, 129] {
        for _ in 0..5 {
            let mut rows = hard(&mut random, 90, dimensions);
            // Twins, and rows at the centre's place.
            rows.copy_within(0..dimensions, dimensions);
            for measure in MEASURES {
                let codes = codes(encoder(measure, Levels::Pca, &rows, dimensions), &rows, dimensions);
                for nth in 0..12 {
                    let query = asked(&mut random, &rows, dimensions, nth);
                    pairs += check(&codes, &query, &rows, nth % 3 > 0);
                }
            }
        }
    }
    assert!(pairs > 150_000, "{pairs}");
}

/// Directions that are no more than nearly orthogonal stretch distances, and bounds allow for it.
#[test]
fn bounds_hold_for_a_matrix_that_is_nearly_a_rotation() {
    let (mut random, dimensions) = (Random::new(146), 24);
    let rows: Vec<f32> = (0..200 * dimensions).map(|_| 1000.0 + random.normal_f32()).collect();
    for measure in MEASURES {
        let trained = encoder(measure, Levels::Pca, &rows, dimensions);
        let mut numbers = trained.principal().unwrap().numbers();
        numbers[..dimensions * dimensions].iter_mut().for_each(|x| *x *= 1.0 + 2e-5);
        let stretched = Encoder::of_principal(measure, trained.centre().to_vec(), numbers).unwrap();
        assert!(stretched.principal().unwrap().stretch() > 1e-4);
        let codes = codes(stretched, &rows, dimensions);
        for nth in 0..16 {
            let query = asked(&mut random, &rows, dimensions, nth);
            check(&codes, &query, &rows, nth % 2 == 0);
        }
    }
}

#[test]
fn rows_within_a_range_are_left_on_every_path() {
    let (mut random, mut excluded) = (Random::new(147), 0);
    for dimensions in [1, 5, 16, 33, 128] {
        for measure in MEASURES {
            let rows = hard(&mut random, 150, dimensions);
            let codes = codes(encoder(measure, Levels::Pca, &rows, dimensions), &rows, dimensions);
            for (nth, path) in
                (0..6).flat_map(|nth| CodePath::available().into_iter().map(move |path| (nth, path)))
            {
                let query = asked(&mut random, &rows, dimensions, nth);
                let packed = CodeQuery::new(codes.encoder(), path, &query, true);
                // The loops' sums are those of the definition, for each row that they give.
                let mut given = 0;
                first_plane::scan(
                    path,
                    &codes,
                    &packed,
                    0..150,
                    &mut |row, sum, _| {
                        assert_eq!(sum, sums(&codes, &packed, row)[0], "{path} {dimensions} {row}");
                        given += 1;
                    },
                    &mut CodeNearest::new(1, f64::INFINITY),
                );
                assert_eq!(given, 150);
                let distances: Vec<f64> =
                    rows.chunks_exact(dimensions).map(|row| measure.between(&query, row)).collect();
                for (range, count) in distances.iter().step_by(11).flat_map(|range| [(range, 1), (range, 9)])
                {
                    let queries = vec![&query[..]; count];
                    let mut nearest = vec![CodeNearest::new(150, *range); count];
                    CodeQueries::new(path, &codes, &queries).scan(&codes, 0..150, None, &mut nearest);
                    let left = nearest.remove(0).finish();
                    for (row, distance) in (0..).zip(&distances).filter(|(_, distance)| *distance <= range) {
                        assert!(
                            left.iter().any(|(_, left)| *left == row),
                            "{path} {measure:?} {dimensions} {count}: {row} at {distance} within {range}"
                        );
                    }
                    excluded += 150 - left.len();
                }
            }
        }
    }
    assert!(excluded > 20_000, "{excluded} rows excluded");
}

#[test]
fn training_has_the_same_bits_on_every_path_and_in_any_order_of_pieces() {
    let (mut random, dimensions) = (Random::new(148), 40);
    let rows = rows(&mut random, 3000, dimensions);
    let wanted =
        Principal::train(&rows, dimensions, CodePath::detect(), &mut one_by_one()).unwrap().numbers();
    let mut backwards = |count: usize, f: &(dyn Fn(usize) + Sync)| {
        (0..count).rev().for_each(f);
        true
    };
    for path in CodePath::available() {
        let found = Principal::train(&rows, dimensions, path, &mut backwards).unwrap();
        assert_eq!(found.numbers(), wanted, "{path}");
    }
    let cancelled = Principal::train(&rows, dimensions, CodePath::detect(), &mut |_, _| false);
    assert!(cancelled.is_none());
}

#[test]
fn directions_of_larger_variances_have_more_bits_and_constant_ones_none() {
    let (mut random, dimensions) = (Random::new(149), 48);
    let mut rows = Vec::new();
    for _ in 0..4000 {
        rows.extend((0..dimensions).map(|j| match j {
            47 => 0.0,
            j => random.normal_f32() * 0.93_f32.powi(j as i32),
        }));
    }
    let principal = Principal::train(&rows, dimensions, CodePath::detect(), &mut one_by_one()).unwrap();
    let numbers = principal.numbers();
    let (steps, bits) = numbers[dimensions * dimensions..].split_at(dimensions);
    let of_all = bits.iter().sum::<f32>();
    assert!((2.0 * 47.0..=2.0 * 48.0).contains(&of_all), "{of_all} bits");
    assert!(bits[0] >= 3.0 && bits[40] <= 1.0, "{bits:?}");
    assert!(steps[46] > 0.0 && steps[47] == 0.0 && bits[47] == 0.0, "{steps:?}");
    assert_eq!(Principal::of_numbers(dimensions, numbers.clone()).unwrap().numbers(), numbers);
    // Numbers that are no directions, steps or bits.
    for (place, wrong) in [(0, 3.0), (dimensions * dimensions, -1.0), (dimensions * (dimensions + 1), 5.5)] {
        let mut numbers = numbers.clone();
        numbers[place] = wrong;
        assert!(Principal::of_numbers(dimensions, numbers).is_none(), "{place}");
    }
    let mut numbers = numbers;
    numbers[dimensions * (dimensions + 1)..].fill(5.0);
    assert!(Principal::of_numbers(dimensions, numbers).is_none(), "more than 8 bits of a byte");
}

/// Sums of the most numbers fit 32 bits, with weights and codes at their ends.
#[test]
fn sums_of_the_most_directions_fit() {
    let dimensions = DIMENSIONS_MAX;
    let mut numbers = vec![0.0; dimensions * (dimensions + 2)];
    for j in 0..dimensions {
        numbers[j * (dimensions + 1)] = 1.0;
        numbers[dimensions * dimensions + j] = 1e-3;
        // The first of four directions has five bits, the last ones one.
        numbers[dimensions * (dimensions + 1) + j] = [5.0, 1.0, 1.0, 1.0][j / (dimensions / 4)];
    }
    let rotation = Rotation::of_numbers(dimensions, dimensions, numbers[..dimensions * dimensions].to_vec());
    assert!(rotation.unwrap().defect(CodePath::detect()) < 1e-9);
    let encoder = Encoder::of_principal(VectorMeasure::L2, vec![0.0; dimensions], numbers).unwrap();
    let rows: Vec<f32> = (0..4).flat_map(|row| vec![[1.0, -1.0, 0.5, -0.5][row]; dimensions]).collect();
    let codes = codes(encoder, &rows, dimensions);
    for path in CodePath::available() {
        for count in [1, 9] {
            let queries: Vec<&[f32]> = vec![&rows[..dimensions]; count];
            let mut nearest = vec![CodeNearest::new(2, f64::INFINITY); count];
            CodeQueries::new(path, &codes, &queries).scan(&codes, 0..4, None, &mut nearest);
            let found = ranked(VectorMeasure::L2, queries[0], &rows, 2, nearest.remove(0).finish());
            assert_eq!(found, wanted(VectorMeasure::L2, queries[0], &rows, 2), "{path} {count}");
        }
    }
}
