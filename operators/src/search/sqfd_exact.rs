//! `sqfd_exact`: the f64 distances of candidates from their queries, those that results report.
//!
//! Invariant: rows keep their order, and envelopes theirs, whoever computed them.

use std::sync::Arc;

use boxwork_runtime::operator::{
    Bind, BoxError, Context, Flow, Input, Kind, Operator, OperatorSpec, Output, Pushed,
};

use crate::columns;
use crate::search::queries::{Queries, SPACE};
use crate::search::sqfd::with_distances;
use boxwork_stores::sqfd_space::SqfdSpace;

/// Computes signature quadratic form distances in f64.
///
/// An index is made of these: bounds hold for real numbers, and these are near enough to them.
///
/// # Inputs
/// `candidates`: objects by query. `query` (side): the queries.
///
/// # Outputs
/// `distances`: the distance of each candidate.
///
/// # Parameters
/// `space`: the measure and the store.
pub static SQFD_EXACT: OperatorSpec = OperatorSpec {
    parameters: &[SPACE],
    inputs: &[
        Input::stream("candidates", columns::candidates, "objects whose distance is wanted"),
        Input::side("query", columns::queries, "the queries"),
    ],
    outputs: &[Output::new("distances", columns::distances, "a distance a candidate")],
    example: "distance: {kind: sqfd_exact, space: space, copies: auto}",
    ..OperatorSpec::new("sqfd_exact", "Computes distances of candidates in f64.", Kind::Ordered, make)
};

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    Ok(Box::new(SqfdExact { space: bind.resource("space")?, queries: None }))
}

struct SqfdExact {
    space: Arc<SqfdSpace>,
    queries: Option<Queries>,
}

impl Operator for SqfdExact {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        let Some(candidates) = cx.take("candidates") else {
            return Ok(if cx.is_ended("candidates") { Flow::Done } else { Flow::Wait });
        };
        // Whoever sends them goes on while these are computed.
        cx.announce();
        let queries = match &self.queries {
            Some(queries) => queries,
            None => self.queries.insert(Queries::new(cx.side("query"), &self.space)?),
        };
        let (numbers, ids) = (candidates.u32s("query")?, candidates.u64s("id")?);
        let store = self.space.store();
        if !store.is_in(ids.iter().copied()) {
            cx.detached("disk", || store.bring_in(ids.iter().copied()))??;
        }
        let mut distances = Vec::with_capacity(ids.len());
        for run in numbers.chunk_by(|a, b| a == b) {
            let query = queries.at(queries.idx(run[0])?);
            let first = distances.len();
            distances.extend(query.exact(&self.space, &ids[first..first + run.len()])?);
        }
        let pushed = cx.push("distances", with_distances(&candidates, distances)?)?;
        Ok(if pushed == Pushed::Closed { Flow::Done } else { Flow::Wait })
    }
}

#[cfg(test)]
mod tests {
    use boxwork_runtime::harness::Harness;
    use boxwork_runtime::operator::Resource;
    use boxwork_runtime::parameter::Value;

    use super::*;
    use boxwork_stores::testing;

    #[test]
    fn distances_are_those_that_results_report() {
        let folder = tempfile::tempdir().unwrap();
        let space = testing::space(testing::store(folder.path(), 50));
        let queries = testing::queries(&[("a", 7), ("b", 9000)]);
        let prepared = Queries::new(std::slice::from_ref(&queries), &space).unwrap();
        let resource: Resource = Arc::clone(&space) as Resource;
        let mut harness =
            Harness::with_resources(&SQFD_EXACT, [("space", Value::Text("s".into()))], [("s", resource)])
                .unwrap();
        harness.give("query", queries);
        let rows: Vec<(u32, u64)> = (0..90).map(|idx| (idx / 7 % 2, u64::from(idx) * 17 % 50)).collect();
        harness.give("candidates", testing::candidates(&rows));
        harness.end("candidates");
        harness.run().unwrap();
        assert!(harness.is_done());
        assert_eq!(harness.announced(), 1, "whoever sends goes on while an envelope is computed");
        let found = testing::distance_rows(&harness.taken("distances"));
        let expected = |(number, id): &(u32, u64)| {
            (*number, *id, prepared.at(*number as usize).exact(&space, &[*id]).unwrap()[0])
        };
        assert_eq!(found, rows.iter().map(expected).collect::<Vec<_>>());
    }
}
