//! `rest`: passes the candidates after the head, within the range that the head gave.
//!
//! Invariant: if the range comes from fewer than k distances, no candidate is dropped.

use std::collections::BTreeMap;

use boxwork_runtime::operator::{
    Bind, BoxError, Context, Flow, In, Kind, Operator, OperatorSpec, Out, Pushed,
};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};

use crate::columns;
use crate::search::head::{filtered, rows};
use crate::search::queries::K;

const CANDIDATES_IN: In = In::stream(0, "candidates", columns::candidates, "objects with their lower bounds");
const ESTIMATE: In = In::side(1, "estimate", columns::distances, "the nearest of the head's objects");
const CANDIDATES_OUT: Out =
    Out::new(0, "candidates", columns::candidates, "candidates after the head, within the range");

/// Passes candidates that `head` did not, if they may be nearer than the k-th of the head's distances.
///
/// The second phase of Algorithm 4.9 of the source: a range query on all objects outside the set E.
///
/// # Inputs
/// `candidates`: the input of `head`, in equal order. `estimate` (side): the nearest of the head's objects with their
/// f64 distances.
///
/// # Outputs
/// `candidates`: candidates after the head with lower bounds at most the k-th distance of the estimate.
///
/// # Parameters
/// `skip`: the number of candidates that `head` passes; without it derived from `k` as in `head`. `k`: the number of
/// objects that a query returns.
pub static REST: OperatorSpec = OperatorSpec {
    parameters: &[
        Parameter::new(
            "skip",
            ParameterType::integer_from(1),
            Default::Absent,
            "candidates to skip for each query, as `rows` of `head`; 2 k + 16 by default",
        )
        .unit("rows"),
        K,
    ],
    inputs: &[CANDIDATES_IN, ESTIMATE],
    outputs: &[CANDIDATES_OUT],
    example: "others: {kind: rest, k: 10}",
    ..OperatorSpec::new("rest", "Passes on candidates within an estimated range.", Kind::Stateful, make)
};

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    Ok(Box::new(Rest {
        skip: rows(bind, "skip"),
        k: bind.count("k"),
        ranges: None,
        skipped: BTreeMap::new(),
    }))
}

struct Rest {
    skip: usize,
    k: usize,
    /// By query.
    ranges: Option<BTreeMap<u32, f64>>,
    skipped: BTreeMap<u32, usize>,
}

impl Operator for Rest {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        if self.ranges.is_none() {
            let mut distances: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
            for envelope in cx.side(ESTIMATE) {
                for (number, distance) in envelope.u32s("query")?.iter().zip(envelope.f64s("distance")?) {
                    distances.entry(*number).or_default().push(*distance);
                }
            }
            let range = |mut distances: Vec<f64>| {
                if distances.len() < self.k {
                    return f64::INFINITY;
                }
                *distances.select_nth_unstable_by(self.k - 1, f64::total_cmp).1
            };
            self.ranges = Some(distances.into_iter().map(|(number, found)| (number, range(found))).collect());
        }
        let Some(ranges) = &self.ranges else { return Ok(Flow::Done) };
        while cx.has_room(CANDIDATES_OUT) {
            let Some(envelope) = cx.take(CANDIDATES_IN) else {
                return Ok(if cx.is_ended(CANDIDATES_IN) { Flow::Done } else { Flow::Wait });
            };
            let skipped = &mut self.skipped;
            let passed = filtered(&envelope, |number, lower| {
                let skipped = skipped.entry(number).or_insert(0);
                *skipped += usize::from(*skipped <= self.skip);
                *skipped > self.skip && lower <= ranges.get(&number).copied().unwrap_or(f64::INFINITY)
            })?;
            if let Some(passed) = passed
                && cx.push(CANDIDATES_OUT, passed)? == Pushed::Closed
            {
                return Ok(Flow::Done);
            }
        }
        Ok(Flow::Wait)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, Float64Array, UInt32Array, UInt64Array};
    use boxwork_runtime::envelope::Envelope;
    use boxwork_runtime::harness::Harness;
    use boxwork_runtime::parameter::Value;

    use super::*;
    use boxwork_stores::testing;

    #[test]
    fn leaves_out_the_head_and_what_is_beyond_the_kth_distance() {
        let mut harness =
            Harness::new(&REST, [("skip", Value::Integer(2)), ("k", Value::Integer(2))]).unwrap();
        // Query 0 has two distances and so a range; query 1 has one, query 2 none.
        harness.give(ESTIMATE, testing::distances(&[(0, 1, 0.5), (0, 2, 0.25), (1, 3, 0.1)]));
        let all = [
            (0, 1, 0.1),
            (0, 2, 0.2),
            (1, 3, 0.0),
            (0, 4, 0.5),
            (0, 5, 0.6),
            (1, 6, 0.1),
            (1, 7, 9.0),
            (2, 8, 0.0),
            (2, 9, 0.0),
            (2, 10, 9.0),
        ];
        let columns: [(&str, ArrayRef); 3] = [
            ("query", Arc::new(UInt32Array::from_iter_values(all.map(|row| row.0)))),
            ("id", Arc::new(UInt64Array::from_iter_values(all.map(|row| row.1)))),
            ("lower", Arc::new(Float64Array::from_iter_values(all.map(|row| row.2)))),
        ];
        harness.give(CANDIDATES_IN, Envelope::from_columns(columns).unwrap());
        harness.end(CANDIDATES_IN);
        harness.run().unwrap();
        assert!(harness.is_done());
        let taken = harness.taken(CANDIDATES_OUT);
        assert_eq!(taken[0].u64s("id").unwrap(), [4, 7, 10]);
    }
}
