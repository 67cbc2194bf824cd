//! `m_tree`: searches a balanced tree of balls.

use boxwork_kernels::metric_index::MTree;
use boxwork_runtime::operator::{Kind, OperatorSpec};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};

use crate::index::metric_search::{INPUTS, K, OUTPUTS, RANGE, check, make, share};
use crate::resources::SPACE;

/// Searches an M-tree (Algorithm 4.6 of the source, with one range for the whole search).
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
/// `space`: the objects and their distance, which must be a metric. `k`, `range`: the k nearest, all within the
/// range, or both. `capacity`: entries of a node at most.
pub static M_TREE: OperatorSpec = OperatorSpec {
    parameters: &[
        SPACE,
        K,
        RANGE,
        Parameter::new(
            "capacity",
            ParameterType::Integer { minimum: 3, maximum: 1024 },
            Default::Integer(24),
            "entries of a node at most",
        ),
    ],
    inputs: INPUTS,
    outputs: OUTPUTS,
    example: "answer: {kind: m_tree, space: space, k: 10}",
    share: Some(|bind| {
        let capacity = bind.count("capacity");
        share(bind, |objects, _| MTree::build(objects, capacity))
    }),
    check: Some(check),
    ..OperatorSpec::new("m_tree", "Searches a tree of balls.", Kind::Stateful, make)
};

#[cfg(test)]
mod tests {
    #[test]
    fn answers_are_those_of_a_scan_for_every_distance() {
        crate::index::metric_search::tests::check(&super::M_TREE);
    }
}
