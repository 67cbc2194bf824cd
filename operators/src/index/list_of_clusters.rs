//! `list_of_clusters`: searches balls of objects, each filled from the objects outside the earlier balls.

use boxwork_kernels::metric_index::{ClusterSize, ListOfClusters};
use boxwork_runtime::operator::{Kind, OperatorSpec};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};

use crate::index::metric_search::{INPUTS, K, OUTPUTS, RANGE, check, make, share};
use crate::resources::SPACE;

/// Searches a list of clusters (Algorithm 4.5 of the source).
///
/// The answer equals that of a scan, ties by id included. The index is built once, when the pipeline is prepared.
///
/// # Inputs
/// `queries` (side): the queries.
///
/// # Outputs
/// `nearest`: the objects found, by query, then distance, then id.
///
/// # Parameters
/// `space`: the objects and their distance, which must be a metric. `k`, `range`: the k nearest, all within the range,
/// or both. `size`: objects of a cluster. `radius`: if given, a cluster holds all objects within it instead.
pub static LIST_OF_CLUSTERS: OperatorSpec = OperatorSpec {
    parameters: &[
        SPACE,
        K,
        RANGE,
        Parameter::new(
            "size",
            ParameterType::Integer { minimum: 1, maximum: 1 << 20 },
            Default::Integer(32),
            "objects of a cluster besides its centre",
        )
        .unit("objects"),
        Parameter::new(
            "radius",
            ParameterType::Number { minimum: 0.0, maximum: f64::MAX },
            Default::Absent,
            "a cluster holds all objects this near to its centre, however many",
        ),
    ],
    inputs: INPUTS,
    outputs: OUTPUTS,
    example: "answer: {kind: list_of_clusters, space: space, k: 10, size: 32}",
    share: Some(|bind| {
        let size = match bind.get_number("radius") {
            Some(radius) => ClusterSize::Radius(radius),
            None => ClusterSize::Objects(bind.count("size")),
        };
        share(bind, |objects, _| ListOfClusters::build(objects, size))
    }),
    check: Some(check),
    ..OperatorSpec::new("list_of_clusters", "Searches a list of balls.", Kind::Stateful, make)
};

#[cfg(test)]
mod tests {
    #[test]
    fn answers_are_those_of_a_scan_for_every_distance() {
        crate::index::metric_search::tests::check(&super::LIST_OF_CLUSTERS);
    }
}
