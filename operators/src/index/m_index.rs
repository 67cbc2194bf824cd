//! `m_index`: searches clusters of objects with equal nearest pivots.

use boxwork_kernels::metric_index::{MIndex, MIndexParameters};
use boxwork_runtime::operator::{Kind, OperatorSpec};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};

use crate::index::metric_search::{INPUTS, K, OUTPUTS, PIVOTS, RANGE, SEED, check, make, share};
use crate::resources::SPACE;

/// Searches a multi-level M-index (section 4.2.5 of the source).
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
/// range, or both. `pivots`, `seed`: the number of pivots, and the seed for choosing them. `levels`: pivots of a key at
/// most. `capacity`: a cluster of more objects is divided. If the distance has the four-point property, the borders
/// between clusters exclude more.
pub static M_INDEX: OperatorSpec = OperatorSpec {
    parameters: &[
        SPACE,
        K,
        RANGE,
        PIVOTS,
        SEED,
        Parameter::new(
            "levels",
            ParameterType::Integer { minimum: 1, maximum: 16 },
            Default::Integer(3),
            "how often a cluster may be divided by the next nearest pivot",
        ),
        Parameter::new(
            "capacity",
            ParameterType::integer_from(1),
            Default::Integer(64),
            "a cluster of more objects is divided",
        )
        .unit("objects"),
    ],
    inputs: INPUTS,
    outputs: OUTPUTS,
    example: "answer: {kind: m_index, space: space, k: 10, pivots: 16}",
    share: Some(|bind| {
        let (pivots, seed) = (bind.count("pivots"), bind.count("seed") as u64);
        let (capacity, levels) = (bind.count("capacity"), bind.count("levels"));
        share(bind, |objects, space| {
            let four_point = space.properties().four_point;
            let parameters = MIndexParameters { capacity, levels, four_point };
            MIndex::build(objects, &objects.pivots(pivots, seed)?, parameters)
        })
    }),
    check: Some(check),
    ..OperatorSpec::new("m_index", "Searches clusters by nearest pivots.", Kind::Stateful, make)
};

#[cfg(test)]
mod tests {
    #[test]
    fn answers_are_those_of_a_scan_for_every_distance() {
        crate::index::metric_search::tests::check(&super::M_INDEX);
    }
}
