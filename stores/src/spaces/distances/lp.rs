//! Lp distances of vectors.

use boxwork_kernels::distance::{Distance, DistanceError, Lp, Properties, Slack};
use boxwork_kernels::vector::VectorRef;
use boxwork_kernels::with_numbers;

use crate::kinds::Vectors;
use crate::spaces::Constants;
use crate::spaces::column_space::{ColumnDistance, ColumnDistanceSpec};

/// The sum of absolute differences.
pub(in crate::spaces) static L1: ColumnDistanceSpec<Lp> =
    ColumnDistanceSpec { name: "l1", constants: Constants::None, make: |_| Ok(Lp::L1) };

/// The Euclidean distance.
pub(in crate::spaces) static L2: ColumnDistanceSpec<Lp> =
    ColumnDistanceSpec { name: "l2", constants: Constants::None, make: |_| Ok(Lp::L2) };

/// The largest absolute difference.
pub(in crate::spaces) static LINF: ColumnDistanceSpec<Lp> =
    ColumnDistanceSpec { name: "linf", constants: Constants::None, make: |_| Ok(Lp::LINF) };

/// Lp for any exponent.
pub(in crate::spaces) static LP: ColumnDistanceSpec<Lp> =
    ColumnDistanceSpec { name: "lp", constants: Constants::Exponent, make: |options| options.exponent() };

impl ColumnDistance for Lp {
    type Kind = Vectors;
    type Query = Vec<f32>;

    fn properties(&self) -> Properties {
        Distance::properties(self)
    }

    fn slack(&self, dimensions: usize) -> Slack {
        Distance::slack(self, dimensions, 0.0)
    }

    fn query(&self, object: VectorRef<'_>) -> Result<Vec<f32>, DistanceError> {
        let object = object.widened();
        self.check(&object)?;
        Ok(object)
    }

    fn to(&self, query: &Vec<f32>, object: VectorRef<'_>) -> f64 {
        with_numbers!(object, numbers => Lp::between(*self, query, numbers))
    }

    fn between(&self, a: VectorRef<'_>, b: VectorRef<'_>) -> f64 {
        match (a, b) {
            (VectorRef::F32(a), VectorRef::F32(b)) => self.distance(a, b),
            (a, b) => with_numbers!(a, a => with_numbers!(b, b => Lp::between(*self, a, b))),
        }
    }
}
