//! The distance that Boxwork reports: f64 throughout, in one fixed order of summation.
//!
//! The order is a contract, since results are ranked by these numbers: row by row of the first signature, the
//! second signature's centroids in order inside a row, dimensions in order inside a pair, no fused multiply-add.
//! So two signatures with the same centroids in the same order are at distance 0 exactly.

use super::columns::SignatureRef;
use crate::similarity::{Ground, Measure};

/// Weighted similarity of two signatures, `sum_i w_i (sum_j w_j f_s(c_i, c_j))`.
pub fn sigma(measure: &Measure, a: SignatureRef<'_>, b: SignatureRef<'_>) -> f64 {
    let mut row = vec![0.0; b.len()];
    let mut sum = 0.0;
    for (i, &weight) in a.weights().iter().enumerate() {
        similarities(measure, a, i, b, 0, &mut row);
        let inner = row.iter().zip(b.weights()).fold(0.0, |inner, (f, &w)| inner + f64::from(w) * f);
        sum += f64::from(weight) * inner;
    }
    sum
}

/// `sigma(measure, a, a)` to the last bit, at half the cost: every pair is evaluated once.
pub fn sigma_self(measure: &Measure, a: SignatureRef<'_>) -> f64 {
    let weights = a.weights();
    let mut row = vec![0.0; a.len()];
    // inner[i] receives its terms in the order of j: those below i come from the earlier rounds.
    let mut inner = vec![0.0; a.len()];
    for i in 0..a.len() {
        let row = &mut row[..a.len() - i];
        similarities(measure, a, i, a, i, row);
        inner[i] += f64::from(weights[i]) * row[0];
        for j in i + 1..a.len() {
            inner[i] += f64::from(weights[j]) * row[j - i];
            inner[j] += f64::from(weights[i]) * row[j - i];
        }
    }
    inner.iter().zip(weights).fold(0.0, |sum, (inner, &w)| sum + f64::from(w) * inner)
}

/// Distance of two signatures.
pub fn sqfd(measure: &Measure, a: SignatureRef<'_>, b: SignatureRef<'_>) -> f64 {
    distance(sigma_self(measure, a), sigma_self(measure, b), sigma(measure, a, b))
}

/// Distance from the three sums; what rounding leaves below 0 is 0.
#[inline]
pub fn distance(sigma_a: f64, sigma_b: f64, sigma_cross: f64) -> f64 {
    (sigma_a + sigma_b - 2.0 * sigma_cross).max(0.0).sqrt()
}

/// Similarities of centroid `i` of `a` to the centroids of `b` from `first` on.
fn similarities(
    measure: &Measure,
    a: SignatureRef<'_>,
    i: usize,
    b: SignatureRef<'_>,
    first: usize,
    row: &mut [f64],
) {
    row.fill(0.0);
    for dimension in 0..a.dimensions() {
        let x = f64::from(a.coordinate(dimension)[i]);
        let others = b.coordinate(dimension)[first..].iter().map(|&y| x - f64::from(y));
        match measure.ground() {
            Ground::L1 => row.iter_mut().zip(others).for_each(|(sum, d)| *sum += d.abs()),
            Ground::Linf => {
                row.iter_mut().zip(others).for_each(|(largest, d)| *largest = largest.max(d.abs()))
            }
            Ground::L2 | Ground::SquaredL2 => row.iter_mut().zip(others).for_each(|(sum, d)| *sum += d * d),
        }
    }
    for value in row {
        *value = measure.of_ground(*value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::similarity::Similarity;
    use crate::sqfd::testing::{Store, every_measure};

    #[test]
    fn a_distance_by_hand() {
        let (x, weights) = ([0.0, 1.0, 0.0], [0.5, 0.5, 1.0]);
        let coordinates: [&[f32]; 1] = [&x];
        let columns = crate::sqfd::Columns::new(&coordinates, &weights);
        let (a, b) = (columns.signature(0, 2), columns.signature(2, 1));
        let measure = Measure::new(Similarity::Gaussian, Ground::L2, 1.0).unwrap();
        let e = (-1f64).exp();
        // sigma(a, a) = (1 + e) / 2, sigma(b, b) = 1, sigma(a, b) = (1 + e) / 2.
        assert!((sqfd(&measure, a, b) - (1.0 - (1.0 + e) / 2.0).sqrt()).abs() < 1e-15);
    }

    #[test]
    fn half_the_pairs_give_the_same_bits() {
        let store = Store::random(7, 7, &[1, 2, 3, 50, 81], 4.0);
        for measure in every_measure(0.3) {
            store.with(|columns| {
                for row in 0..columns.rows() {
                    let signature = columns.signature(row);
                    let full = sigma(&measure, signature, signature);
                    assert_eq!(sigma_self(&measure, signature).to_bits(), full.to_bits());
                    assert_eq!(sqfd(&measure, signature, signature), 0.0);
                }
            });
        }
    }

    #[test]
    fn columns_agree_with_the_definition_on_points() {
        let store = Store::random(11, 5, &[4, 9], 2.0);
        for measure in every_measure(0.7) {
            store.with(|columns| {
                let (a, b) = (columns.signature(0), columns.signature(1));
                let point = |s: SignatureRef<'_>, i: usize| -> Vec<f64> {
                    (0..s.dimensions()).map(|d| f64::from(s.coordinate(d)[i])).collect()
                };
                let mut sum = 0.0;
                for i in 0..a.len() {
                    let inner = (0..b.len()).fold(0.0, |inner, j| {
                        inner + f64::from(b.weights()[j]) * measure.f_s(&point(a, i), &point(b, j))
                    });
                    sum += f64::from(a.weights()[i]) * inner;
                }
                assert_eq!(sigma(&measure, a, b).to_bits(), sum.to_bits());
            });
        }
    }
}
