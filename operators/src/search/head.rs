//! `head`: passes the first candidates of each query, then ends.
//!
//! Invariant: it ends as soon as every query has enough candidates, and does not wait for the rest.

use std::collections::BTreeMap;

use boxwork_runtime::envelope::{Envelope, EnvelopeError};
use boxwork_runtime::operator::{
    Bind, BoxError, Context, Flow, In, Kind, Operator, OperatorSpec, Out, Pushed,
};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};

use crate::columns;
use crate::search::queries::K;

/// Candidates beyond twice the number wanted.
const ROWS_MORE: usize = 16;

const CANDIDATES_IN: In = In::stream(0, "candidates", columns::candidates, "objects with their lower bounds");
const QUERY: In = In::side(1, "query", columns::queries, "the queries");
const CANDIDATES_OUT: Out = Out::new(0, "candidates", columns::candidates, "the first of each query");

/// Passes on the first candidates of each query.
///
/// If candidates come in the order of their bounds, the first ones are the set E of Algorithm 4.9 of the source, from
/// whose exact distances a range is estimated. Among 2 `k` + 16 candidates the k-th distance is nearly that of all
/// objects: fewer would leave the range wide, more would cost distances that narrow it little.
///
/// # Inputs
/// `candidates`: objects with their lower bounds. `query` (side): the queries.
///
/// # Outputs
/// `candidates`: the first of each query, in order.
///
/// # Parameters
/// `rows`: candidates per query; 2 `k` + 16 by default. `k`: the number of objects that a query returns.
pub static HEAD: OperatorSpec = OperatorSpec {
    parameters: &[
        Parameter::new(
            "rows",
            ParameterType::integer_from(1),
            Default::Absent,
            "candidates that pass for each query; 2 k + 16 by default",
        )
        .unit("rows"),
        K,
    ],
    inputs: &[CANDIDATES_IN, QUERY],
    outputs: &[CANDIDATES_OUT],
    example: "estimation: {kind: head, k: 10}",
    ..OperatorSpec::new("head", "Passes on the first candidates of each query.", Kind::Stateful, make)
};

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    Ok(Box::new(Head { rows: rows(bind, "rows"), left: None }))
}

/// The number of candidates to pass for each query; `name` is the parameter that may give it.
pub(crate) fn rows(bind: &Bind<'_>, name: &str) -> usize {
    let given = bind.get_integer(name).and_then(|rows| usize::try_from(rows).ok());
    given.unwrap_or_else(|| rows_for(bind.count("k")))
}

/// The number of candidates from which a range for k objects is estimated.
pub(crate) fn rows_for(k: usize) -> usize {
    k.saturating_mul(2).saturating_add(ROWS_MORE)
}

struct Head {
    rows: usize,
    /// By query: how many more may pass.
    left: Option<BTreeMap<u32, usize>>,
}

impl Operator for Head {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        if self.left.is_none() {
            let mut left = BTreeMap::new();
            for envelope in cx.side(QUERY) {
                left.extend(envelope.u32s("query")?.iter().map(|number| (*number, self.rows)));
            }
            self.left = Some(left);
        }
        let Some(left) = &mut self.left else { return Ok(Flow::Done) };
        while left.values().any(|left| *left > 0) {
            if !cx.has_room(CANDIDATES_OUT) {
                return Ok(Flow::Wait);
            }
            let Some(envelope) = cx.take(CANDIDATES_IN) else {
                return Ok(if cx.is_ended(CANDIDATES_IN) { Flow::Done } else { Flow::Wait });
            };
            let passed = filtered(&envelope, |number, _| {
                let left = left.entry(number).or_insert(0);
                let passes = *left > 0;
                *left -= usize::from(passes);
                passes
            })?;
            if let Some(passed) = passed
                && cx.push(CANDIDATES_OUT, passed)? == Pushed::Closed
            {
                return Ok(Flow::Done);
            }
        }
        Ok(Flow::Done)
    }
}

/// The rows of candidates that pass a test of query and bound, called in row order; `None` if none does.
pub(crate) fn filtered(
    envelope: &Envelope,
    mut passes: impl FnMut(u32, f64) -> bool,
) -> Result<Option<Envelope>, EnvelopeError> {
    let (numbers, lowers) = (envelope.u32s("query")?, envelope.f64s("lower")?);
    let mask: Vec<bool> = numbers.iter().zip(lowers).map(|(number, lower)| passes(*number, *lower)).collect();
    if !mask.contains(&true) {
        return Ok(None);
    }
    envelope.filter(&mask).map(Some)
}

#[cfg(test)]
mod tests {
    use boxwork_runtime::harness::Harness;
    use boxwork_runtime::parameter::Value;

    use super::*;
    use boxwork_stores::testing;

    #[test]
    fn passes_as_many_as_wanted_of_each_and_ends() {
        let mut harness = Harness::new(&HEAD, [("rows", Value::Integer(3))]).unwrap();
        harness.give(QUERY, testing::queries(&[("a", 1), ("b", 2)]));
        harness.give(CANDIDATES_IN, testing::candidates(&[(0, 5), (0, 6), (1, 7), (0, 8), (0, 9)]));
        harness.run().unwrap();
        assert!(!harness.is_done());
        harness.give(CANDIDATES_IN, testing::candidates(&[(1, 1), (0, 2), (1, 3), (1, 4)]));
        harness.run().unwrap();
        assert!(harness.is_done(), "the box does not wait for later candidates");
        let rows: Vec<(u32, u64)> = harness
            .taken(CANDIDATES_OUT)
            .iter()
            .flat_map(|envelope| {
                let numbers = envelope.u32s("query").unwrap().to_vec();
                numbers.into_iter().zip(envelope.u64s("id").unwrap().to_vec())
            })
            .collect();
        assert_eq!(rows, [(0, 5), (0, 6), (1, 7), (0, 8), (1, 1), (1, 3)]);
    }

    #[test]
    fn without_a_number_twice_as_many_as_are_looked_for_pass_and_a_few_more() {
        let mut harness = Harness::new(&HEAD, [("k", Value::Integer(3))]).unwrap();
        harness.give(QUERY, testing::queries(&[("a", 1)]));
        let rows: Vec<(u32, u64)> = (0..40).map(|id| (0, id)).collect();
        harness.give(CANDIDATES_IN, testing::candidates(&rows));
        harness.run().unwrap();
        assert!(harness.is_done());
        assert_eq!(harness.taken(CANDIDATES_OUT)[0].rows(), 2 * 3 + 16);
    }

    #[test]
    fn fewer_than_wanted_are_all() {
        let mut harness = Harness::new(&HEAD, [("rows", Value::Integer(3))]).unwrap();
        harness.give(QUERY, testing::queries(&[("a", 1)]));
        harness.give(CANDIDATES_IN, testing::candidates(&[(0, 5), (0, 6)]));
        harness.end(CANDIDATES_IN);
        harness.run().unwrap();
        assert!(harness.is_done());
        assert_eq!(harness.taken(CANDIDATES_OUT)[0].rows(), 2);
    }
}
