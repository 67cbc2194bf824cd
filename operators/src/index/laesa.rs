//! `laesa`: searches with the distances to a few pivots, computed one by one.

use boxwork_kernels::metric_index::Laesa;
use boxwork_runtime::operator::{Kind, OperatorSpec};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};

use crate::index::metric_search::{INPUTS, K, OUTPUTS, PIVOTS, RANGE, SEED, check, make, share};
use crate::resources::SPACE;

/// Searches with the distances to a few pivots in one phase (LAESA, section 4.2.2 of the source).
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
/// range, or both. `pivots`, `seed`: their number, and the seed for choosing them. `eager`: pivots computed for every
/// query; the others only while they may be in the answer.
pub static LAESA: OperatorSpec = OperatorSpec {
    parameters: &[
        SPACE,
        K,
        RANGE,
        PIVOTS,
        SEED,
        Parameter::new(
            "eager",
            ParameterType::integer_from(0),
            Default::Integer(8),
            "pivots computed for every query, even if they cannot be in the answer",
        )
        .unit("objects"),
    ],
    inputs: INPUTS,
    outputs: OUTPUTS,
    example: "answer: {kind: laesa, space: space, k: 10, pivots: 16}",
    share: Some(|bind| {
        let (pivots, seed, eager) = (bind.count("pivots"), bind.count("seed") as u64, bind.count("eager"));
        share(bind, |objects, _| Laesa::build(objects, &objects.pivots(pivots, seed)?, eager))
    }),
    check: Some(check),
    ..OperatorSpec::new("laesa", "Searches by pivots in one phase.", Kind::Stateful, make)
};

#[cfg(test)]
mod tests {
    #[test]
    fn answers_are_those_of_a_scan_for_every_distance() {
        crate::index::metric_search::tests::check(&super::LAESA);
    }
}
