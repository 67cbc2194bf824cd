//! Lp distances of vectors.

use boxwork_kernels::distance::{Distance, DistanceError, Lp, Properties, Slack};

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

    fn query(&self, object: &[f32]) -> Result<Vec<f32>, DistanceError> {
        self.check(object)?;
        Ok(object.to_vec())
    }

    fn to(&self, query: &Vec<f32>, object: &[f32]) -> f64 {
        self.distance(query, object)
    }

    fn between(&self, a: &[f32], b: &[f32]) -> f64 {
        self.distance(a, b)
    }
}
