//! The Jaccard distance of sets.

use boxwork_kernels::distance::{Distance, DistanceError, Jaccard, Properties, Slack};

use crate::kinds::Sets;
use crate::spaces::Constants;
use crate::spaces::column_space::{ColumnDistance, ColumnDistanceSpec};

/// The share of the union that is not in both sets.
pub(in crate::spaces) static JACCARD: ColumnDistanceSpec<Jaccard> =
    ColumnDistanceSpec { name: "jaccard", constants: Constants::None, make: |_| Ok(Jaccard) };

impl ColumnDistance for Jaccard {
    type Kind = Sets;
    type Query = Vec<u32>;

    fn properties(&self) -> Properties {
        Distance::properties(self)
    }

    fn slack(&self, dimensions: usize) -> Slack {
        Distance::slack(self, dimensions, 0.0)
    }

    fn query(&self, object: &[u32]) -> Result<Vec<u32>, DistanceError> {
        self.check(object)?;
        Ok(object.to_vec())
    }

    fn to(&self, query: &Vec<u32>, object: &[u32]) -> f64 {
        self.distance(query, object)
    }

    fn between(&self, a: &[u32], b: &[u32]) -> f64 {
        self.distance(a, b)
    }
}
