//! The formulas of a sketch in f64, by the functions of the platform. Tests hold the fast path to them.

use super::{Basis, COORDINATES, Frequencies};
use crate::sqfd::SignatureRef;

/// The features of a signature: the cosine sums, then the sine sums.
pub fn features(frequencies: &Frequencies, signature: SignatureRef<'_>) -> Vec<f64> {
    let count = frequencies.count();
    let mut features = vec![0.0; 2 * count];
    let scale = 1.0 / (count as f64).sqrt();
    for (frequency, turns) in frequencies.turns().enumerate() {
        for (centroid, &weight) in signature.weights().iter().enumerate() {
            let numbers = turns.iter().enumerate();
            let angle: f64 = numbers
                .map(|(d, turns)| f64::from(*turns) * f64::from(signature.coordinate(d)[centroid]))
                .sum::<f64>()
                * std::f64::consts::TAU;
            features[frequency] += f64::from(weight) * angle.cos() * scale;
            features[count + frequency] += f64::from(weight) * angle.sin() * scale;
        }
    }
    features
}

/// The coordinates of features along the directions of a basis.
pub fn coordinates(basis: &Basis, features: &[f64]) -> [f64; COORDINATES] {
    let mut coordinates = basis.offset().map(|offset| -f64::from(offset));
    for (row, feature) in basis.vectors().chunks_exact(COORDINATES).zip(features) {
        for (coordinate, direction) in coordinates.iter_mut().zip(row) {
            *coordinate += f64::from(*direction) * feature;
        }
    }
    coordinates
}

/// The numbers of an apex, folded as a sketch has them.
pub fn apex(apex: &[f64]) -> [f64; COORDINATES] {
    std::array::from_fn(|place| match apex.get(place..) {
        None => 0.0,
        Some(rest) if place + 1 == COORDINATES && rest.len() > 1 => {
            rest.iter().map(|number| number.powi(2)).sum::<f64>().sqrt()
        }
        Some(rest) => rest.first().copied().unwrap_or(0.0),
    })
}
