//! `aesa`: searches by all distances of all objects, for few objects and expensive distances.

use boxwork_kernels::metric_index::{Aesa, AesaChoice};
use boxwork_runtime::operator::{Kind, OperatorSpec};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};

use crate::index::metric_search::{INPUTS, K, OUTPUTS, RANGE, check, make, share};
use crate::resources::SPACE;

/// Searches by the distances of all objects among each other (AESA, Algorithm 4.3 of the source).
///
/// The answer is that of a scan, ties by id included. The index is made once, when the pipeline is prepared.
///
/// # Inputs
/// `queries` (side): the queries.
///
/// # Outputs
/// `nearest`: the objects found, by query, then distance, then id.
///
/// # Parameters
/// `space`: the objects and their distance, which must be a metric. `k`, `range`: the k nearest, all within the
/// range, or both. `choice`: whose distance is computed next.
pub static AESA: OperatorSpec = OperatorSpec {
    parameters: &[
        SPACE,
        K,
        RANGE,
        Parameter::new(
            "choice",
            ParameterType::Choice(&["least_bound", "least_sum"]),
            Default::Text("least_bound"),
            "whose distance comes next: that of the least bound, or of the least sum of bounds",
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
    ..OperatorSpec::new("aesa", "Searches by all distances of all objects.", Kind::Stateful, make)
};

#[cfg(test)]
mod tests {
    #[test]
    fn answers_are_those_of_a_scan_for_every_distance() {
        crate::index::metric_search::tests::check(&super::AESA);
    }
}
