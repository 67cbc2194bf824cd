//! The formulas in f64, and the best code among all.

use super::{parts, signed};

/// The numbers of a code, a byte for each part.
pub fn decode(code: &[u8], dimensions: usize, bits: usize) -> Vec<i32> {
    let of_bit = parts(dimensions, 1);
    let level = |place: usize| {
        (0..bits).fold(0, |level, bit| level | (code[bit * of_bit + place / 4] >> (place % 4) & 1) << bit)
    };
    (0..dimensions).map(|place| signed(level(place), bits)).collect()
}

/// The estimate of the squared distance of a query from a vector, by its code.
pub fn estimate(query: &[f32], vector: &[f32], code: &[u8], bits: usize) -> f64 {
    let numbers = decode(code, vector.len(), bits);
    let dot = |a: &[f32]| -> f64 { a.iter().zip(&numbers).map(|(x, c)| f64::from(*x) * f64::from(*c)).sum() };
    let square = |a: &[f32]| -> f64 { a.iter().map(|x| f64::from(*x).powi(2)).sum() };
    match dot(vector) {
        0.0 => square(query),
        product => square(query) + square(vector) - 2.0 * square(vector) * dot(query) / product,
    }
}

/// Certain bounds of the squared distance of a query from a vector, by the two numbers that a code leaves of it: its part along the
/// code and the norm of the rest (`codes` derives them).
pub fn bounds(query: &[f32], vector: &[f32], code: &[u8], bits: usize) -> (f64, f64) {
    let numbers = decode(code, vector.len(), bits);
    let norm = numbers.iter().map(|c| f64::from(*c).powi(2)).sum::<f64>().sqrt();
    let split = |a: &[f32]| {
        let along = a.iter().zip(&numbers).map(|(x, c)| f64::from(*x) * f64::from(*c)).sum::<f64>() / norm;
        let square: f64 = a.iter().map(|x| f64::from(*x).powi(2)).sum();
        (along, (square - along * along).max(0.0).sqrt())
    };
    let ((a, g), (b, h)) = (split(query), split(vector));
    ((a - b).powi(2) + (g - h).powi(2), (a - b).powi(2) + (g + h).powi(2))
}

/// The largest cosine of a vector with any code.
pub fn best_cosine(vector: &[f32], bits: usize) -> f64 {
    let square: f64 = vector.iter().map(|x| f64::from(*x).powi(2)).sum();
    let (codes, mut best) = (1u64 << (bits * vector.len()), 0.0f64);
    for code in 0..codes {
        let number = |place: usize| signed((code >> (bits * place) & ((1 << bits) - 1)) as u8, bits);
        let (mut product, mut norm) = (0.0, 0.0);
        for (place, x) in vector.iter().enumerate() {
            product += f64::from(*x) * f64::from(number(place));
            norm += f64::from(number(place)).powi(2);
        }
        best = best.max(product / (norm * square).sqrt());
    }
    best
}
