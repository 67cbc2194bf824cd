//! Bounds hold for every row and query, and a search by codes finds what a sort of all f64 distances finds.

use super::*;
use crate::CodePath;
use crate::chance::Random;
use crate::pieces::one_by_one;
use crate::vector::inner_product;
use crate::vector::integer::NUMBERS_MAX;
use crate::vector::tests::{MEASURES, ranked, rows, wanted};

mod principal;

const LEVELS: [Levels; 5] = [Levels::Sq4, Levels::Sq8, Levels::Planes, Levels::Pca, Levels::Product16];
/// The most numbers of a row whose principal directions are found in a test.
const TRAINED_MAX: usize = 129;

fn encoder(measure: VectorMeasure, levels: Levels, rows: &[f32], dimensions: usize) -> Encoder {
    let mut centre = vec![0.0_f64; dimensions];
    let count = (rows.len() / dimensions).max(1) as f64;
    for row in rows.chunks_exact(dimensions) {
        let norm = inner_product(row, row).sqrt();
        let factor = if measure == VectorMeasure::Cosine && norm > 0.0 { 1.0 / norm } else { 1.0 };
        centre.iter_mut().zip(row).for_each(|(sum, x)| *sum += f64::from(*x) * factor / count);
    }
    let centre = centre.into_iter().map(|x| x as f32).collect();
    Encoder::trained(measure, levels, centre, rows, CodePath::detect(), &mut one_by_one()).unwrap().unwrap()
}

fn codes(encoder: Encoder, rows: &[f32], dimensions: usize) -> Codes {
    let (mut codes, mut words) = (Codes::new(encoder.clone(), rows.len() / dimensions), Vec::new());
    encoder.encode(CodePath::detect(), rows, &mut words);
    assert_eq!(words.len(), encoder.words() * (rows.len() / dimensions));
    words.chunks_exact(encoder.words()).for_each(|row| codes.push(row.iter().copied()));
    codes
}

/// Random rows, or near-duplicates far from the origin, or with constant columns, or of very different sizes.
fn hard(random: &mut Random, count: usize, dimensions: usize) -> Vec<f32> {
    let mut rows = rows(random, count, dimensions);
    match random.below(6) {
        0 => rows.iter_mut().for_each(|x| *x = 5000.0 + *x / 4096.0),
        1 => rows.chunks_exact_mut(dimensions).for_each(|row| row[0] = 77.0),
        2 => {
            for row in rows.chunks_exact_mut(dimensions) {
                let scale = 10.0_f32.powi(random.below(9) as i32 - 4);
                row.iter_mut().for_each(|x| *x *= scale);
            }
        }
        3 => rows.iter_mut().for_each(|x| *x = x.max(0.0) + random.normal_f32()),
        4 => {
            // At the ends of f32, where its squares and products leave it.
            let scale = [1e36, 1e17, 1e-20, 1e-42][random.idx(4)];
            rows.iter_mut().for_each(|x| *x *= scale);
        }
        _ => {}
    }
    rows
}

#[test]
fn every_distance_lies_within_its_bounds() {
    let mut random = Random::new(95);
    let mut pairs = 0;
    for dimensions in [1, 3, 8, 31, 128, 129] {
        for _ in 0..6 {
            let rows = hard(&mut random, 90, dimensions);
            for measure in MEASURES {
                let codes = codes(encoder(measure, Levels::Planes, &rows, dimensions), &rows, dimensions);
                for nth in 0..12 {
                    let query: Vec<f32> = match nth % 3 {
                        0 => rows[random.idx(90) * dimensions..][..dimensions].to_vec(),
                        1 => rows[random.idx(90) * dimensions..][..dimensions]
                            .iter()
                            .map(|x| x * 1.0001)
                            .collect(),
                        _ => (0..dimensions).map(|_| 50.0 * random.normal_f32()).collect(),
                    };
                    let query_code =
                        CodeQuery::new(codes.encoder(), CodePath::detect(), &query, nth % 2 == 0);
                    for (row, numbers) in rows.chunks_exact(dimensions).enumerate() {
                        let distance = measure.between(&query, numbers);
                        for is_8 in [false, true] {
                            let mut bytes = Vec::new();
                            codes.bytes(row, is_8, &mut bytes);
                            let weight = |place: usize| match query_code.low.get(place) {
                                Some(low) => i64::from(query_code.high[place]) * 128 + i64::from(*low),
                                None => i64::from(query_code.high[place]),
                            };
                            let sum =
                                (0..dimensions).map(|place| i64::from(bytes[place]) * weight(place)).sum();
                            let triple = codes.triple(row, is_8);
                            let (lower, upper) = query_code.bounds(
                                query_code.along(sum, is_8, triple.inverse),
                                triple,
                                codes.shift(row),
                            );
                            assert!(
                                lower <= distance && distance <= upper,
                                "{measure:?} {dimensions} {is_8}: {lower} {distance} {upper}"
                            );
                            pairs += 1;
                        }
                    }
                }
            }
        }
    }
    assert!(pairs > 100_000);
}

#[test]
fn a_search_by_codes_finds_the_nearest_on_every_path_for_every_measure() {
    let mut random = Random::new(96);
    for path in CodePath::available() {
        for dimensions in [1, 3, 127, 128, 129, 960] {
            for count in [0, 1, 15, 16, 17, 31, 32, 33, 250] {
                let rows = hard(&mut random, count, dimensions);
                for (queries, levels) in
                    [1, 2, 9, 70].into_iter().flat_map(|count| LEVELS.map(|levels| (count, levels)))
                {
                    // A codebook is trained on rows; directions of long ones take long.
                    let is_long = levels == Levels::Pca && dimensions > TRAINED_MAX;
                    if is_long || count == 0 && levels == Levels::Product16 {
                        continue;
                    }
                    let (measure, k) = (MEASURES[random.idx(3)], 1 + random.idx(20));
                    let codes = codes(encoder(measure, levels, &rows, dimensions), &rows, dimensions);
                    let asked: Vec<Vec<f32>> = (0..queries)
                        .map(|_| match count > 0 && random.below(2) == 0 {
                            true => rows[random.idx(count) * dimensions..][..dimensions].to_vec(),
                            false => (0..dimensions).map(|_| random.normal_f32() * 60.0).collect(),
                        })
                        .collect();
                    let slices: Vec<&[f32]> = asked.iter().map(Vec::as_slice).collect();
                    let packed = CodeQueries::new(path, &codes, &slices);
                    let mut nearest = vec![CodeNearest::new(k, f64::INFINITY); queries];
                    let at = count / 2 / GROUP * GROUP;
                    packed.scan(&codes, 0..at, None, &mut nearest);
                    let mut others = vec![CodeNearest::new(k, f64::INFINITY); queries];
                    packed.scan(&codes, at..count, None, &mut others);
                    for ((query, mut nearest), other) in asked.iter().zip(nearest).zip(others) {
                        nearest.join(other);
                        let found = ranked(measure, query, &rows, k, nearest.finish());
                        assert_eq!(
                            found,
                            wanted(measure, query, &rows, k),
                            "{path} {measure:?} {levels:?} {dimensions}"
                        );
                    }
                }
            }
        }
    }
}

/// Random queries by every kind of codes, on every path, beside a sort: some thousands, or as many as `BOXWORK_QUERIES` says
/// (`./x check-deep codes`).
#[test]
fn any_codes_find_what_a_sort_finds() {
    let wanted_queries = match std::env::var("BOXWORK_QUERIES") {
        Ok(count) => count.parse().expect("BOXWORK_QUERIES is a number"),
        Err(_) => 5000,
    };
    let (mut random, mut asked_queries) = (Random::new(118), 0);
    let paths = CodePath::available();
    while asked_queries < wanted_queries {
        let (dimensions, count) = (1 + random.idx(40), 1 + random.idx(200));
        let (measure, levels, path) =
            (MEASURES[random.idx(3)], LEVELS[random.idx(4)], paths[random.idx(paths.len())]);
        let rows = hard(&mut random, count, dimensions);
        let codes = codes(encoder(measure, levels, &rows, dimensions), &rows, dimensions);
        for _ in 0..4 {
            let (queries, k) = (1 + random.idx(70), 1 + random.idx(1 + count));
            let asked: Vec<Vec<f32>> = (0..queries)
                .map(|_| {
                    let row = rows[random.idx(count) * dimensions..][..dimensions].iter();
                    match random.below(3) {
                        0 => row.copied().collect(),
                        1 => row.map(|x| x * (1.0 + random.normal_f32() / 1000.0)).collect(),
                        _ => (0..dimensions).map(|_| random.normal_f32() * 60.0).collect(),
                    }
                })
                .collect();
            let slices: Vec<&[f32]> = asked.iter().map(Vec::as_slice).collect();
            let mut nearest = vec![CodeNearest::new(k, f64::INFINITY); queries];
            CodeQueries::new(path, &codes, &slices).scan(&codes, 0..count, None, &mut nearest);
            for (query, nearest) in asked.iter().zip(nearest) {
                let found = ranked(measure, query, &rows, k, nearest.finish());
                let wanted = wanted(measure, query, &rows, k);
                assert_eq!(found, wanted, "{path} {measure:?} {levels:?} {dimensions} {count} {k}");
            }
            asked_queries += queries;
        }
    }
}

#[test]
fn skipped_rows_are_no_answers_and_do_not_lower_the_range() {
    let (mut random, dimensions, count, k) = (Random::new(98), 6, 3000, 7);
    let path = CodePath::detect();
    for (queries, levels) in [1, 3, 9].into_iter().flat_map(|queries| LEVELS.map(|levels| (queries, levels)))
    {
        let measure = MEASURES[random.idx(3)];
        let rows = hard(&mut random, count, dimensions);
        let codes = codes(encoder(measure, levels, &rows, dimensions), &rows, dimensions);
        let asked: Vec<&[f32]> =
            (0..queries).map(|query| &rows[query * dimensions..][..dimensions]).collect();
        // The first query's nearest rows are left out, and most others.
        let mut skipped: Vec<bool> = (0..count).map(|row| row % 5 != 2).collect();
        for (_, row) in &wanted(measure, asked[0], &rows, 40) {
            skipped[*row as usize] = true;
        }
        let packed = CodeQueries::new(path, &codes, &asked);
        let mut nearest = vec![CodeNearest::new(k, f64::INFINITY); queries];
        packed.scan(&codes, 0..count, Some(&|row| skipped[row as usize]), &mut nearest);
        for (query, nearest) in asked.iter().zip(nearest) {
            let (passed, left) = (nearest.left_by_first_plane(), nearest.finish());
            match packed.has_two_levels() {
                true => assert!((left.len() as u64..count as u64).contains(&passed), "{passed} {left:?}"),
                false => assert_eq!(passed, 0),
            }
            let all = wanted(measure, query, &rows, count);
            let among: Vec<_> = all.into_iter().filter(|(_, row)| !skipped[*row as usize]).take(k).collect();
            assert_eq!(ranked(measure, query, &rows, k, left), among, "{measure:?} {levels:?} {queries}");
        }
    }
}

#[test]
fn every_distance_lies_within_the_bounds_of_product_codes_and_no_answer_is_excluded() {
    let mut random = Random::new(130);
    let (mut pairs, mut excluded) = (0, 0);
    for dimensions in [1, 3, 8, 31, 64, 129] {
        for round in 0..4 {
            let mut rows = hard(&mut random, 97, dimensions);
            // A vector of zeros has no direction.
            rows[..dimensions].fill(0.0);
            let levels = [Levels::Product16, Levels::Product32, Levels::Product64][round % 3];
            for measure in MEASURES {
                let codes = codes(encoder(measure, levels, &rows, dimensions), &rows, dimensions);
                let codebook = codes.encoder().codebook().unwrap();
                for nth in 0..9 {
                    let query: Vec<f32> = match nth % 3 {
                        0 => rows[random.idx(97) * dimensions..][..dimensions].to_vec(),
                        1 => rows[random.idx(97) * dimensions..][..dimensions]
                            .iter()
                            .map(|x| x * 1.0001)
                            .collect(),
                        _ => (0..dimensions).map(|_| 50.0 * random.normal_f32()).collect(),
                    };
                    let (of_query, moved) = CodeQuery::of_numbers(codes.encoder(), &query);
                    let mut tables = vec![0.0; codebook.tables_len()];
                    product::fill_tables(CodePath::detect(), codebook, &moved, &mut tables);
                    let distances: Vec<f64> =
                        rows.chunks_exact(dimensions).map(|row| measure.between(&query, row)).collect();
                    for (row, distance) in distances.iter().enumerate() {
                        let (lower, upper) = product::bounds(&codes, &of_query, &tables, row);
                        assert!(
                            lower <= *distance && *distance <= upper,
                            "{measure:?} {dimensions}: {lower} {distance} {upper}"
                        );
                        pairs += 1;
                    }
                    // The range is each of the distances: rows at most as far must be left.
                    for path in CodePath::available() {
                        for range in distances.iter().step_by(7) {
                            let queries = CodeQueries::new(path, &codes, &[&query]);
                            let mut nearest = vec![CodeNearest::new(97, *range)];
                            queries.scan(&codes, 0..97, None, &mut nearest);
                            let left = nearest.remove(0).finish();
                            let within = distances.iter().zip(0..).filter(|(distance, _)| *distance <= range);
                            for (distance, row) in within {
                                assert!(
                                    left.iter().any(|(_, left)| *left == row),
                                    "{path} {measure:?} {dimensions}: {row} at {distance} within {range}"
                                );
                            }
                            excluded += 97 - left.len();
                        }
                    }
                }
            }
        }
    }
    assert!(pairs > 60_000 && excluded > 20_000, "{pairs} pairs, {excluded} rows excluded");
}

#[test]
fn tables_that_are_not_kept_give_the_same_bounds() {
    let mut random = Random::new(131);
    let (dimensions, count) = (40, 500);
    let rows = rows(&mut random, count, dimensions);
    let codes = codes(encoder(VectorMeasure::L2, Levels::Product32, &rows, dimensions), &rows, dimensions);
    let codebook = codes.encoder().codebook().unwrap();
    let asked: Vec<&[f32]> = rows.chunks_exact(dimensions).take(5).collect();
    let (queries, moved): (Vec<_>, Vec<_>) =
        asked.iter().map(|query| CodeQuery::of_numbers(codes.encoder(), query)).unzip();
    let path = CodePath::detect();
    let found = |product: &product::ProductQueries| -> Vec<_> {
        let mut nearest = vec![CodeNearest::new(7, f64::INFINITY); 5];
        product.scan(path, &codes, &queries, 0..count, None, &mut nearest);
        nearest.into_iter().map(CodeNearest::finish).collect()
    };
    let kept = product::ProductQueries::new(path, codebook, moved.clone());
    assert_eq!(found(&kept), found(&product::ProductQueries::computing(moved)));
}

#[test]
fn inner_products_are_bounded_around_the_centre() {
    let mut random = Random::new(102);
    let (dimensions, count) = (24, 2000);
    let rows: Vec<f32> = (0..count * dimensions).map(|_| 30.0 + 10.0 * random.normal_f32()).collect();
    let query = &rows[..dimensions];
    let kept = |encoder: Encoder| {
        let codes = codes(encoder, &rows, dimensions);
        let mut nearest = vec![CodeNearest::new(5, f64::INFINITY)];
        CodeQueries::new(CodePath::detect(), &codes, &[query]).scan(&codes, 0..count, None, &mut nearest);
        let left = nearest.remove(0).finish();
        let found = ranked(VectorMeasure::InnerProduct, query, &rows, 5, left.clone());
        assert_eq!(found, wanted(VectorMeasure::InnerProduct, query, &rows, 5));
        left.len()
    };
    let of_mean = kept(encoder(VectorMeasure::InnerProduct, Levels::Sq4, &rows, dimensions));
    let of_origin = kept(Encoder::new(VectorMeasure::InnerProduct, Levels::Sq4, vec![0.0; dimensions]));
    assert!(
        4 * of_mean < of_origin,
        "{of_mean} rows are left around the mean, {of_origin} around the origin"
    );
}

#[test]
fn sums_of_the_most_and_largest_numbers_fit() {
    let dimensions = NUMBERS_MAX;
    let row = |sign: f32, odd: usize| {
        (0..dimensions).map(move |place| if place % 1000 == odd { -sign } else { sign })
    };
    let rows: Vec<f32> = row(1.0, 0).chain(row(-1.0, 0)).chain(row(1.0, 1)).chain(row(-1.0, 1)).collect();
    for levels in [Levels::Sq4, Levels::Sq8, Levels::Planes] {
        let codes = codes(Encoder::new(VectorMeasure::L2, levels, vec![0.0; dimensions]), &rows, dimensions);
        let asked: Vec<&[f32]> = rows.chunks_exact(dimensions).collect();
        for path in CodePath::available() {
            let mut nearest = vec![CodeNearest::new(2, f64::INFINITY); 4];
            CodeQueries::new(path, &codes, &asked).scan(&codes, 0..4, None, &mut nearest);
            for (query, nearest) in asked.iter().zip(nearest) {
                let found = ranked(VectorMeasure::L2, query, &rows, 2, nearest.finish());
                assert_eq!(found, wanted(VectorMeasure::L2, query, &rows, 2), "{path} {levels:?}");
            }
        }
    }
}

#[test]
#[should_panic(expected = "65537 numbers of a row")]
fn more_numbers_are_refused() {
    let row = vec![1.0; NUMBERS_MAX + 1];
    let codes = codes(Encoder::new(VectorMeasure::L2, Levels::Sq8, row.clone()), &row, row.len());
    CodeQueries::new(CodePath::detect(), &codes, &[&row]);
}
