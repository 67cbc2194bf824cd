//! `pm_tree`: searches a balanced tree of balls, cut by rings around pivots.

use boxwork_kernels::metric_index::PmTree;
use boxwork_runtime::operator::{Kind, OperatorSpec};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};

use crate::index::metric_search::{INPUTS, K, OUTPUTS, PIVOTS, RANGE, SEED, check, make, share};
use crate::resources::SPACE;

/// Searches a PM-tree (section 4.2.4 of the source).
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
/// range, or both. `capacity`: entries of a node at most. `pivots`, `seed`: the number of pivots, and the seed for
/// choosing them.
pub static PM_TREE: OperatorSpec = OperatorSpec {
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
        PIVOTS,
        SEED,
    ],
    inputs: INPUTS,
    outputs: OUTPUTS,
    example: "answer: {kind: pm_tree, space: space, k: 10, pivots: 16}",
    share: Some(|bind| {
        let (capacity, pivots, seed) =
            (bind.count("capacity"), bind.count("pivots"), bind.count("seed") as u64);
        share(bind, |objects, _| PmTree::build(objects, capacity, &objects.pivots(pivots, seed)?))
    }),
    check: Some(check),
    ..OperatorSpec::new("pm_tree", "Searches a tree of balls and rings.", Kind::Stateful, make)
};

#[cfg(test)]
mod tests {
    #[test]
    fn answers_are_those_of_a_scan_for_every_distance() {
        crate::index::metric_search::tests::check(&super::PM_TREE);
    }
}
