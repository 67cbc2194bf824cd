//! Codes are the best ones, tables sum up to products, and scans order by the estimates of the plain formulas.

use super::*;
use crate::CodePath;
use crate::chance::Random;
use crate::distance::squared_l2;
use crate::panels::Shortlist;
use crate::product::{Bits, Codes, Scales, Scanner, pack};

fn vectors(random: &mut Random, count: usize, dimensions: usize) -> Vec<f32> {
    (0..count * dimensions).map(|_| random.normal_f32()).collect()
}

fn dot(a: &[f32], numbers: &[i32]) -> f64 {
    a.iter().zip(numbers).map(|(x, c)| f64::from(*x) * f64::from(*c)).sum()
}

#[test]
fn codes_have_the_largest_cosine_of_all() {
    let mut random = Random::mixed(1);
    for (dimensions, bits) in [(1, 1), (5, 1), (3, 2), (6, 2), (4, 3), (3, 4)] {
        for vector in vectors(&mut random, 40, dimensions).chunks_exact(dimensions) {
            let mut code = Vec::new();
            encode(vector, bits, &mut code);
            let numbers = reference::decode(&code, dimensions, bits);
            let norm: f64 = numbers.iter().map(|c| f64::from(*c).powi(2)).sum();
            let square: f64 = vector.iter().map(|x| f64::from(*x).powi(2)).sum();
            let cosine = dot(vector, &numbers) / (norm * square).sqrt();
            assert!((cosine - reference::best_cosine(vector, bits)).abs() < 1e-9, "{vector:?} {numbers:?}");
        }
    }
}

#[test]
fn tables_sum_up_to_the_opposite_of_products() {
    let mut random = Random::mixed(2);
    for dimensions in [1, 3, 4, 127, 128, 129] {
        for bits in (1..=BITS_MAX).filter(|bits| fits(dimensions, *bits)) {
            let (query, vector) = (vectors(&mut random, 1, dimensions), vectors(&mut random, 1, dimensions));
            let mut code = Vec::new();
            let factors = encode(&vector, bits, &mut code);
            assert_eq!(code.len(), parts(dimensions, bits));
            let mut out = vec![0.0; tables_len(dimensions, bits)];
            tables(&query, bits, &mut out);
            let sum: f64 = out
                .chunks_exact(16)
                .zip(&code)
                .map(|(table, part)| f64::from(table[usize::from(*part)]))
                .sum();
            let numbers = reference::decode(&code, dimensions, bits);
            let size: f64 = query.iter().map(|x| f64::from(x.abs())).sum();
            assert!((sum + dot(&query, &numbers)).abs() < 1e-5 * 16.0 * size);
            let estimate = squared_l2(&query, &vec![0.0; dimensions])
                + f64::from(factors.square)
                + f64::from(factors.scale) * sum;
            let wanted = reference::estimate(&query, &vector, &code, bits);
            assert!((estimate - wanted).abs() < 1e-4 * (1.0 + wanted.abs()), "{estimate} {wanted}");
        }
    }
    let mut code = Vec::new();
    assert_eq!(encode(&[0.0; 5], 2, &mut code), Factors { square: 0.0, scale: 0.0 });
    assert!(!fits(1025, 1) && !fits(1024, 2) && fits(1024, 1) && fits(256, 4) && !fits(3, 0) && !fits(3, 5));
}

#[test]
fn distances_lie_within_certain_bounds_and_estimates_near_them() {
    let mut random = Random::mixed(3);
    let dimensions = 64;
    let mut errors = Vec::new();
    for bits in 1..=BITS_MAX {
        let mut error = 0.0;
        for _ in 0..500 {
            let (query, vector) = (vectors(&mut random, 1, dimensions), vectors(&mut random, 1, dimensions));
            let mut code = Vec::new();
            encode(&vector, bits, &mut code);
            let (lower, upper) = reference::bounds(&query, &vector, &code, bits);
            let distance = squared_l2(&query, &vector);
            assert!(lower <= distance * (1.0 + 1e-12) && distance <= upper * (1.0 + 1e-12));
            error += (reference::estimate(&query, &vector, &code, bits) - distance).powi(2);
        }
        errors.push((error / 500.0).sqrt());
    }
    // Each bit halves the error, about.
    assert!(errors.windows(2).all(|pair| pair[1] < 0.7 * pair[0]), "{errors:?}");
    assert!(errors[0] < 20.0, "{errors:?}");
}

#[test]
fn scans_find_the_least_estimates_on_every_path() {
    let mut random = Random::mixed(4);
    for dimensions in [1, 7, 32, 130] {
        for bits in (1..=BITS_MAX).filter(|bits| fits(dimensions, *bits)) {
            for count in [0, 1, 31, 33, 3000] {
                let mut rows = vectors(&mut random, count, dimensions);
                // Norms that differ, vectors of zeros, and copies.
                rows.chunks_exact_mut(dimensions).enumerate().for_each(|(row, x)| {
                    let factor = [1.0, 0.2, 3.0, 0.0][row % 7 % 4];
                    x.iter_mut().for_each(|x| *x *= factor);
                });
                let (mut codes, mut squares, mut scales) = (Vec::new(), Vec::new(), Vec::new());
                for row in rows.chunks_exact(dimensions) {
                    let factors = encode(row, bits, &mut codes);
                    squares.push(factors.square);
                    scales.push(factors.scale);
                }
                squares.resize(count.next_multiple_of(32), 0.0);
                scales.resize(count.next_multiple_of(32), 0.0);
                let query = vectors(&mut random, 1, dimensions);
                let mut out = vec![0.0; tables_len(dimensions, bits)];
                tables(&query, bits, &mut out);
                let parts = parts(dimensions, bits);
                let packed = pack(&codes, parts, Bits::Four);
                let codes_of = Codes { parts, bits: Bits::Four, rows: count, bytes: &packed };
                let base = squared_l2(&query, &vec![0.0; dimensions]) as f32;
                let mut all: Vec<(f32, u32)> = (0..count)
                    .map(|row| {
                        let code = codes[row * parts..][..parts].iter();
                        let sum =
                            out.chunks_exact(16).zip(code).fold(0.0, |sum, (t, c)| sum + t[usize::from(*c)]);
                        ((base + squares[row]) + scales[row] * sum, row as u32)
                    })
                    .collect();
                all.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
                let mask: Vec<u32> = (0..count.div_ceil(32)).map(|_| random.bits() as u32).collect();
                for mask in [None, Some(&mask[..])] {
                    let passes =
                        |row: u32| mask.is_none_or(|mask| mask[row as usize / 32] >> (row % 32) & 1 != 0);
                    let wanted: Vec<_> =
                        all.iter().copied().filter(|(_, row)| passes(*row)).take(20).collect();
                    for path in CodePath::available() {
                        let mut list = Shortlist::new(20, 0.0);
                        let of_rows = Scales { squares: &squares, scales: &scales };
                        Scanner::new(path).scan_scaled(codes_of, &out, base, of_rows, mask, &mut list, 0);
                        assert_eq!(list.by_score(), wanted, "{path} {dimensions} {bits} {count}");
                    }
                }
            }
        }
    }
}
