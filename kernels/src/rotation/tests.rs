//! Rotations are orthonormal, the best ones for their codes, and have one set of bits.

use std::thread;

use super::*;
use crate::chance::Random;
use crate::distance::squared_l2;
use crate::pieces::one_by_one;
use jacobi::dot;

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

/// Rows whose numbers are mixtures of directions of falling variance.
fn correlated(random: &mut Random, count: usize, dimensions: usize) -> Vec<f32> {
    let mixing: Vec<f32> = (0..dimensions * dimensions).map(|_| random.normal_f32()).collect();
    let mut rows = Vec::new();
    for _ in 0..count {
        let source: Vec<f32> = (0..dimensions).map(|j| random.normal_f32() * 0.7f32.powi(j as i32)).collect();
        let number = |row: &[f32]| row.iter().zip(&source).map(|(x, y)| x * y).sum::<f32>();
        rows.extend(mixing.chunks_exact(dimensions).map(number));
    }
    rows
}

fn check_orthonormal(directions: &[f64], length: usize, within: f64) {
    for (i, a) in directions.chunks_exact(length).enumerate() {
        for (j, b) in directions.chunks_exact(length).enumerate() {
            let wanted = f64::from(u8::from(i == j));
            assert!((dot(a, b) - wanted).abs() < within, "{i} {j}: {}", dot(a, b));
        }
    }
}

fn wide(numbers: &[f32]) -> Vec<f64> {
    numbers.iter().map(|x| f64::from(*x)).collect()
}

#[test]
fn a_matrix_is_the_sum_of_its_directions() {
    let mut random = Random::mixed(1);
    for (rows, count, rank) in [(1, 1, 1), (5, 3, 3), (9, 9, 9), (20, 17, 17), (12, 12, 4), (6, 4, 0)] {
        let mut factors =
            |length: usize| -> Vec<f64> { (0..length * rank).map(|_| random.normal()).collect() };
        let (a, b) = (factors(rows), factors(count));
        let columns: Vec<f64> = (0..count * rows)
            .map(|place| {
                let (column, row) = (place / rows, place % rows);
                (0..rank).map(|r| a[r * rows + row] * b[r * count + column]).sum()
            })
            .collect();
        let found = decompose(CodePath::Portable, columns.clone(), rows, count, None);
        check_orthonormal(&found.left, rows, 1e-12);
        check_orthonormal(&found.right, count, 1e-12);
        assert!(found.values.is_sorted_by(|a, b| a >= b));
        assert_eq!(found.values.iter().filter(|value| **value > 1e-9).count(), rank);
        // With the directions of the matrix itself, and of one that is not near.
        let other =
            decompose(CodePath::Portable, columns.iter().map(|x| x.cos()).collect(), rows, count, None);
        let again = decompose(CodePath::Portable, columns.clone(), rows, count, Some(&found.right));
        let far = decompose(CodePath::Portable, columns.clone(), rows, count, Some(&other.right));
        for found in [&found, &again, &far] {
            for (place, wanted) in columns.iter().enumerate() {
                let (column, row) = (place / rows, place % rows);
                let sum: f64 = (0..count)
                    .map(|k| found.values[k] * found.left[k * rows + row] * found.right[k * count + column])
                    .sum();
                assert!((sum - wanted).abs() < 1e-11 * (1.0 + found.values[0]), "{sum} {wanted}");
            }
        }
        for path in CodePath::available() {
            assert_eq!(decompose(path, columns.clone(), rows, count, None), found, "{path}");
            assert_eq!(decompose(path, columns.clone(), rows, count, Some(&other.right)), far, "{path}");
        }
    }
}

#[test]
fn turned_vectors_are_those_of_plain_loops_on_every_path() {
    let mut random = Random::mixed(2);
    for (from, to) in [(1, 1), (3, 2), (33, 33), (40, 17)] {
        let numbers: Vec<f32> = (0..from * to).map(|_| random.normal_f32()).collect();
        let rotation = Rotation::of_numbers(from, to, numbers).unwrap();
        let vectors: Vec<f32> = (0..30 * from).map(|_| 100.0 * random.normal_f32()).collect();
        let found = rotation.turn(CodePath::Portable, &vectors);
        for (vector, found) in vectors.chunks_exact(from).zip(found.chunks_exact(to)) {
            for (x, y) in reference::turn(&rotation, vector).into_iter().zip(found) {
                assert!((x - f64::from(*y)).abs() <= 1e-7 * x.abs() + 1e-9 * from as f64);
            }
        }
        for path in CodePath::available() {
            assert_eq!(rotation.turn(path, &vectors), found, "{path}");
        }
    }
    for dimensions in [1, 2, 50] {
        let random = Rotation::random(dimensions, 3);
        check_orthonormal(&wide(random.numbers()), dimensions, 1e-6);
        assert_eq!(random, Rotation::random(dimensions, 3));
        assert_ne!(random.numbers()[0], Rotation::random(dimensions + 1, 4).numbers()[0]);
    }
    assert_eq!(Rotation::of_numbers(3, 4, vec![0.0; 12]), None);
    assert_eq!(Rotation::of_numbers(3, 2, vec![0.0; 7]), None);
    assert_eq!(Rotation::of_numbers(3, 0, vec![]), None);
    assert_eq!(Rotation::of_numbers(1, 1, vec![f32::NAN]), None);
}

#[test]
fn no_other_rotation_brings_vectors_nearer() {
    let mut random = Random::mixed(3);
    let (from, to) = (7, 5);
    let products: Vec<f64> = (0..from * to).map(|_| random.normal()).collect();
    let trace = |rotation: &Rotation| -> f64 {
        let rows = rotation.numbers().chunks_exact(from).zip(products.chunks_exact(from));
        rows.map(|(row, column)| dot(&wide(row), column)).sum()
    };
    let singular = decompose(CodePath::detect(), products.clone(), from, to, None);
    let best = procrustes(&singular, from, to);
    check_orthonormal(&wide(best.numbers()), from, 1e-6);
    assert!((trace(&best) - singular.values.iter().sum::<f64>()).abs() < 1e-5);
    for _ in 0..200 {
        let other: Vec<f64> = (0..from * to).map(|_| random.normal()).collect();
        let other = procrustes(&decompose(CodePath::detect(), other, from, to, None), from, to);
        assert!(trace(&other) <= trace(&best) + 1e-6);
    }
}

/// The mean squared distance of rows from what their codes stand for.
fn error(rows: &[f32], dimensions: usize, rotation: Option<&Rotation>, codebook: &Codebook) -> f64 {
    let path = CodePath::detect();
    let turned = rotation.map_or_else(|| rows.to_vec(), |rotation| rotation.turn(path, rows));
    let codes = codebook.encoder().encode(path, &turned);
    let mut sum = 0.0;
    for (row, code) in rows.chunks_exact(dimensions).zip(codes.chunks_exact(codebook.parts())) {
        let mut decoded = vec![0.0; codebook.dimensions()];
        codebook.decode(code, &mut decoded);
        let back: Vec<f32> = match rotation {
            None => decoded,
            Some(rotation) => {
                let numbers = rotation.numbers();
                let number =
                    |j: usize| (0..rotation.to()).map(|i| numbers[i * dimensions + j] * decoded[i]).sum();
                (0..dimensions).map(number).collect()
            }
        };
        sum += squared_l2(row, &back);
    }
    sum / (rows.len() / dimensions) as f64
}

#[test]
fn turned_codes_lose_less_of_correlated_rows_and_have_one_set_of_bits() {
    let mut random = Random::mixed(4);
    let (dimensions, parts) = (24, 6);
    let rows = correlated(&mut random, 3000, dimensions);
    let (train_rows, test_rows) = rows.split_at(2000 * dimensions);
    for bits in [Bits::Four, Bits::Eight] {
        let plain =
            Codebook::train(train_rows, dimensions, parts, bits, 7, CodePath::detect(), &mut one_by_one());
        let plain = error(test_rows, dimensions, None, &plain.unwrap().unwrap());
        for (to, start) in
            [(24, Start::Principal), (13, Start::Principal), (24, Start::Random), (13, Start::Random)]
        {
            let options = Options { to, parts, bits, seed: 7, start };
            let mut all = Vec::new();
            let ways: Vec<(CodePath, usize)> = match (bits, to) {
                (Bits::Four, 13) => {
                    CodePath::available().into_iter().flat_map(|path| [(path, 1), (path, 3)]).collect()
                }
                _ => vec![(CodePath::detect(), 2)],
            };
            for (path, workers) in ways {
                all.push(
                    train(train_rows, dimensions, options, path, &mut threads(workers)).unwrap().unwrap(),
                );
            }
            assert!(all.windows(2).all(|pair| pair[0] == pair[1]), "{bits:?} {to} {start:?}");
            let (rotation, codebook) = &all[0];
            check_orthonormal(&wide(rotation.numbers()), dimensions, 1e-5);
            let turned = error(test_rows, dimensions, Some(rotation), codebook);
            assert!(turned < 0.5 * plain, "{bits:?} {to} {start:?}: {turned} of {plain}");
        }
    }
    let mut cancelled = |_: usize, _: &(dyn Fn(usize) + Sync)| false;
    let options = Options { to: 24, parts, bits: Bits::Four, seed: 1, start: Start::Principal };
    assert_eq!(train(train_rows, dimensions, options, CodePath::Portable, &mut cancelled).unwrap(), None);
}

#[test]
fn rows_without_a_direction_have_a_rotation_too() {
    for (rows, start) in [vec![0.0f32; 12], vec![2.5; 4], [1.0, 2.0, 3.0, 4.0].repeat(5)]
        .into_iter()
        .flat_map(|rows| [(rows.clone(), Start::Principal), (rows, Start::Random)])
    {
        let options = Options { to: 3, parts: 2, bits: Bits::Four, seed: 1, start };
        let (rotation, _) = train(&rows, 4, options, CodePath::detect(), &mut one_by_one()).unwrap().unwrap();
        check_orthonormal(&wide(rotation.numbers()), 4, 1e-5);
    }
}
