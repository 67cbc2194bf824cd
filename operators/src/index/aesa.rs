//! `aesa`: searches with the distances of all pairs of objects; for few objects and expensive distances.

use boxwork_kernels::metric_index::{Aesa, AesaChoice};
use boxwork_runtime::operator::{Kind, OperatorSpec};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};

use crate::index::metric_search::{INPUTS, K, OUTPUTS, RANGE, check, make, share};
use crate::resources::SPACE;

/// Searches with the distances of all pairs of objects (AESA, Algorithm 4.3 of the source).
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
/// or both. `choice`: how the object whose distance comes next is chosen.
pub static AESA: OperatorSpec = OperatorSpec {
    parameters: &[
        SPACE,
        K,
        RANGE,
        Parameter::new(
            "choice",
            ParameterType::Choice(&["least_bound", "least_sum"]),
            Default::Text("least_bound"),
            "the object whose distance comes next: smallest bound, or smallest sum of bounds",
        ),
    ],
    inputs: INPUTS,
    outputs: OUTPUTS,
    example: "answer: {kind: aesa, space: space, k: 10}",
    share: Some(|bind| {
        let choice = match bind.text("choice") {
            "least_sum" => AesaChoice::LeastSum,
            _ => AesaChoice::LeastBound,
        };
        share(bind, |objects, _| Aesa::build(objects, choice))
    }),
    check: Some(check),
    ..OperatorSpec::new("aesa", "Searches with the distances of all pairs.", Kind::Stateful, make)
};

#[cfg(test)]
mod tests {
    #[test]
    fn answers_are_those_of_a_scan_for_every_distance() {
        crate::index::metric_search::tests::check(&super::AESA);
    }
}
