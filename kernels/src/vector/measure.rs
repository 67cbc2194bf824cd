//! The three distances of this family, in f64, in one fixed order of summation.

use crate::distance::{Lp, Properties};
use crate::numbers::{Number, VectorRef};
use crate::with_numbers;

/// Partial sums, so that vector units of any width give equal bits.
pub(super) const LANES: usize = 16;

/// How two vectors are compared; the least number is the nearest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum VectorMeasure {
    /// The Euclidean distance.
    L2,
    /// The inner product with the opposite sign. It is no metric, and negative for similar vectors.
    InnerProduct,
    /// One less the cosine of the angle. A vector of zeros has distance 1 to any other, and 0 to itself.
    Cosine,
}

impl VectorMeasure {
    /// The name of the distance, as spaces call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::L2 => "l2",
            Self::InnerProduct => "ip",
            Self::Cosine => "cosine",
        }
    }

    /// The measure of this name.
    pub fn named(name: &str) -> Option<Self> {
        [Self::L2, Self::InnerProduct, Self::Cosine].into_iter().find(|measure| measure.name() == name)
    }

    /// The inequalities that the distance obeys.
    pub const fn properties(self) -> Properties {
        let none = Properties::none(self.name());
        match self {
            Self::L2 => Properties::hilbert(self.name()),
            Self::InnerProduct => Properties { signed: true, ..none },
            // Half the squared Euclidean distance of unit vectors. A vector of zeros is as one that is orthogonal to all.
            Self::Cosine => Properties { negative_type: true, ..none },
        }
    }

    /// A number that the scans compare in place of a distance, from above: the squared distance less the query's squared norm,
    /// twice the opposite of the inner product, or the opposite of the cosine times the norm.
    pub(super) fn value_of(self, norm: f64, distance: f64) -> f64 {
        // More than the roundings of a distance in f64.
        let slack = 1e-12;
        match self {
            Self::L2 => {
                let (far, near) = (distance * distance, norm * norm);
                far - near + slack * (far + near)
            }
            Self::InnerProduct => 2.0 * distance + slack * distance.abs(),
            Self::Cosine => norm * (distance - 1.0 + slack),
        }
    }

    /// The number that scans of f32 compare in place of the distance of a query from a row, in f64.
    ///
    /// # Panics
    /// If the vectors have different dimensions.
    pub fn compared(self, query: &[f32], row: VectorRef<'_>) -> f64 {
        let (product, square) =
            with_numbers!(row, row => (inner_product(query, row), inner_product(row, row)));
        match self {
            Self::L2 => square - 2.0 * product,
            Self::InnerProduct => -2.0 * product,
            Self::Cosine => {
                let norms = (square * inner_product(query, query)).sqrt();
                if norms > 0.0 { -product / norms } else { 0.0 }
            }
        }
    }

    /// The distance of two vectors, with the same bits in either order and on every machine.
    ///
    /// # Panics
    /// If the vectors have different dimensions.
    pub fn between<A: Number, B: Number>(self, a: &[A], b: &[B]) -> f64 {
        match self {
            Self::Cosine => self.with_square(a, inner_product(a, a), b),
            _ => self.with_square(a, 0.0, b),
        }
    }

    /// As [`VectorMeasure::between`], if the inner product of `a` with itself is known; only the cosine uses it.
    ///
    /// # Panics
    /// As [`VectorMeasure::between`].
    pub fn with_square<A: Number, B: Number>(self, a: &[A], square: f64, b: &[B]) -> f64 {
        match self {
            Self::L2 => Lp::L2.between(a, b),
            // Not -0 for orthogonal vectors.
            Self::InnerProduct => 0.0 - inner_product(a, b),
            Self::Cosine => {
                let norms = square * inner_product(b, b);
                Self::cosine_distance(inner_product(a, b), norms).unwrap_or_else(|| {
                    // Squared norms of f32 lie between 2^-298 and 2^272: a product that vanishes has a factor that is 0.
                    if is_zero(a) && is_zero(b) { 0.0 } else { 1.0 }
                })
            }
        }
    }

    /// The cosine distance from an inner product and the product of both squared norms; nothing if the latter vanishes.
    pub(super) fn cosine_distance(product: f64, norms: f64) -> Option<f64> {
        (norms > 0.0).then(|| (1.0 - product / norms.sqrt()).clamp(0.0, 2.0))
    }

    /// As [`VectorMeasure::between`], for a vector of any type.
    ///
    /// # Panics
    /// As [`VectorMeasure::between`].
    pub fn to(self, query: &[f32], row: VectorRef<'_>) -> f64 {
        with_numbers!(row, row => self.between(query, row))
    }
}

/// The inner product in f64.
///
/// # Panics
/// If the vectors have different dimensions.
pub fn inner_product<A: Number, B: Number>(a: &[A], b: &[B]) -> f64 {
    assert_eq!(a.len(), b.len(), "vectors of one dimension");
    let mut sums = [0.0; LANES];
    let (a_lanes, a_rest) = a.as_chunks::<LANES>();
    let (b_lanes, b_rest) = b.as_chunks::<LANES>();
    for (a, b) in a_lanes.iter().zip(b_lanes) {
        for lane in 0..LANES {
            sums[lane] += a[lane].wide() * b[lane].wide();
        }
    }
    for (lane, (a, b)) in a_rest.iter().zip(b_rest).enumerate() {
        sums[lane] += a.wide() * b.wide();
    }
    let mut width = LANES / 2;
    while width > 0 {
        for lane in 0..width {
            sums[lane] += sums[lane + width];
        }
        width /= 2;
    }
    sums[0]
}

fn is_zero<N: Number>(numbers: &[N]) -> bool {
    numbers.iter().all(|number| number.widened() == 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::Random;

    #[test]
    fn distances_are_those_of_the_definition() {
        let mut random = Random::new(3);
        for dimensions in [1, 3, 16, 127, 128, 129] {
            let mut vector = || (0..dimensions).map(|_| random.normal_f32()).collect::<Vec<f32>>();
            let (a, b) = (vector(), vector());
            let product: f64 = a.iter().zip(&b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
            let norm = |x: &[f32]| x.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt();
            let cosine = product / norm(&a) / norm(&b);
            assert!(
                (VectorMeasure::InnerProduct.between(&a, &b) + product).abs() < 1e-12 * dimensions as f64
            );
            assert!((VectorMeasure::Cosine.between(&a, &b) - (1.0 - cosine)).abs() < 1e-12);
            for measure in [VectorMeasure::L2, VectorMeasure::InnerProduct, VectorMeasure::Cosine] {
                assert_eq!(measure.between(&a, &b).to_bits(), measure.between(&b, &a).to_bits());
                assert_eq!(VectorMeasure::named(measure.name()), Some(measure));
            }
            assert_eq!(VectorMeasure::Cosine.between(&a, &a), 0.0);
        }
        let (zero, one, large) = ([0.0_f32; 2], [3.0_f32, 4.0], [3.0e38_f32, 3.0e38]);
        assert_eq!(VectorMeasure::Cosine.between(&zero, &one), 1.0);
        assert_eq!(VectorMeasure::Cosine.between(&zero, &zero), 0.0);
        assert!(VectorMeasure::Cosine.between(&large, &large) < 1e-15);
        assert_eq!(VectorMeasure::InnerProduct.to(&one, VectorRef::U8(&[1, 2])), -11.0);
    }
}
