//! Distances of vectors that are made of inner products: `ip`, the inner product with the opposite sign, and `cosine`, one less
//! the cosine of the angle. The least distance is the nearest, as everywhere.
//!
//! Invariant: both are those of [`VectorMeasure`], to the bit, so that every way to search gives one answer.

use boxwork_kernels::distance::{Distance, DistanceError, Lp, Properties, Slack};
use boxwork_kernels::vector::{VectorMeasure, VectorRef, inner_product};
use boxwork_kernels::with_numbers;

use crate::kinds::Vectors;
use crate::spaces::Constants;
use crate::spaces::column_space::{ColumnDistance, ColumnDistanceSpec};

/// The inner product with the opposite sign.
pub(in crate::spaces) static IP: ColumnDistanceSpec<VectorMeasure> = ColumnDistanceSpec {
    name: VectorMeasure::InnerProduct.name(),
    constants: Constants::None,
    make: |_| Ok(VectorMeasure::InnerProduct),
};

/// One less the cosine. A vector of zeros has distance 1 to every other one, and 0 to its like.
pub(in crate::spaces) static COSINE: ColumnDistanceSpec<VectorMeasure> = ColumnDistanceSpec {
    name: VectorMeasure::Cosine.name(),
    constants: Constants::None,
    make: |_| Ok(VectorMeasure::Cosine),
};

impl ColumnDistance for VectorMeasure {
    type Kind = Vectors;
    /// The numbers and their inner product with themselves.
    type Query = (Vec<f32>, f64);

    fn properties(&self) -> Properties {
        VectorMeasure::properties(*self)
    }

    fn slack(&self, dimensions: usize) -> Slack {
        match self {
            Self::L2 => ColumnDistance::slack(&Lp::L2, dimensions),
            // Sums in which terms of both signs cancel: relative to the norms, which are not known here.
            Self::InnerProduct => Slack { absolute: f64::INFINITY, ..Slack::EXACT },
            // Three sums with a rounding for each product and addition, relative to the norms, and a quotient of at most 1.
            Self::Cosine => {
                let absolute = (4.0 * dimensions as f64 + 32.0) * f64::EPSILON;
                Slack { absolute, ..Slack::roundings(2.0) }
            }
        }
    }

    fn query(&self, object: VectorRef<'_>) -> Result<(Vec<f32>, f64), DistanceError> {
        let object = object.widened();
        Lp::L2.check(&object)?;
        let square = inner_product(&object, &object);
        Ok((object, square))
    }

    fn to(&self, (query, square): &(Vec<f32>, f64), object: VectorRef<'_>) -> f64 {
        with_numbers!(object, numbers => self.with_square(query, *square, numbers))
    }

    fn between(&self, a: VectorRef<'_>, b: VectorRef<'_>) -> f64 {
        with_numbers!(a, a => with_numbers!(b, b => VectorMeasure::between(*self, a, b)))
    }
}

#[cfg(test)]
mod tests {
    use boxwork_kernels::chance::Random;

    use super::*;

    #[test]
    fn the_root_of_cosine_is_a_metric_within_its_slack() {
        let mut random = Random::new(101);
        for dimensions in [1, 2, 3, 17, 100] {
            let mut objects: Vec<Vec<f32>> =
                (0..10).map(|_| (0..dimensions).map(|_| random.normal_f32()).collect()).collect();
            objects.push(vec![0.0; dimensions]);
            // Near-duplicates, and multiples, whose distance is 0.
            objects.push(objects[0].iter().map(|x| x * 1.000_001).collect());
            objects.push(objects[1].iter().map(|x| x * -2.0).collect());
            objects.push(objects[2].iter().map(|x| x * 1e30).collect());
            let distance = VectorMeasure::Cosine;
            assert!(distance.properties().rooted().metric && !distance.properties().metric);
            let slack = ColumnDistance::slack(&distance, dimensions).rooted();
            let of = |a: usize, b: usize| distance.between::<f32, f32>(&objects[a], &objects[b]).sqrt();
            for a in 0..objects.len() {
                assert!(of(a, a) <= slack.absolute);
                for b in 0..objects.len() {
                    let (query, object) = (&objects[a], VectorRef::F32(&objects[b]));
                    let query =
                        ColumnDistance::query(&distance, VectorRef::F32(query)).expect("finite numbers");
                    let found = ColumnDistance::to(&distance, &query, object);
                    assert_eq!(found.sqrt().to_bits(), of(a, b).to_bits());
                    assert_eq!(of(a, b).to_bits(), of(b, a).to_bits());
                    assert!(
                        (0..objects.len()).all(|c| slack.apart(of(a, c), of(b, c)) <= of(a, b)),
                        "a triangle"
                    );
                }
            }
        }
    }
}
