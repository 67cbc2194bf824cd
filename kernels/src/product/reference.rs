//! The formulas in f64.

use super::Codebook;
use crate::distance::squared_l2;

/// The code of a row, comparing all centroids of each part.
pub fn encode(codebook: &Codebook, row: &[f32]) -> Vec<u8> {
    let (width, count) = (codebook.width(), codebook.bits().centroids());
    let mut padded = row.to_vec();
    padded.resize(codebook.parts() * width, 0.0);
    let parts = padded.chunks_exact(width).zip(codebook.numbers().chunks_exact(width * count));
    parts
        .map(|(part, centroids)| {
            let mut nearest = (0, f64::INFINITY);
            for (number, centroid) in centroids.chunks_exact(width).enumerate() {
                let distance = squared_l2(part, centroid);
                if distance < nearest.1 {
                    nearest = (number as u8, distance);
                }
            }
            nearest.0
        })
        .collect()
}

/// The squared distance of a query from the vector of a code, which is relative to `centroid`.
pub fn distance(codebook: &Codebook, query: &[f32], centroid: &[f32], code: &[u8]) -> f64 {
    let mut vector = vec![0.0; codebook.dimensions()];
    codebook.decode(code, &mut vector);
    let differences = query.iter().zip(centroid).zip(vector).map(|((x, y), z)| {
        let difference = f64::from(*x) - f64::from(*y) - f64::from(z);
        difference * difference
    });
    differences.sum()
}
