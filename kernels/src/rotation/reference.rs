//! Turning in plain loops.

use super::Rotation;

/// The numbers of a turned vector, in f64.
pub fn turn(rotation: &Rotation, vector: &[f32]) -> Vec<f64> {
    let rows = rotation.numbers().chunks_exact(rotation.from());
    rows.map(|row| row.iter().zip(vector).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum()).collect()
}
