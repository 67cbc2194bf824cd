//! `sqfd`: the distances of candidates from their queries, by the fastest path of the machine.
//!
//! Invariants: rows keep their order; a distance is off by no more than the error that the query's
//! `PreparedQuery` declares, whatever path computed it and whatever else is in the envelope.

use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array};
use boxwork_kernels::CodePath;
use boxwork_kernels::sqfd::Evaluator;
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::operator::{
    Bind, BoxError, Context, Flow, Input, Kind, Operator, OperatorSpec, Output, Pushed,
};

use crate::domain::columns;
use crate::domain::signature_store::Objects;
use crate::domain::space::SqfdSpace;
use crate::queries::{Queries, SPACE};

/// Computes signature quadratic form distances.
///
/// # Inputs
/// `candidates`: objects by query. `query` (side): the queries.
///
/// # Outputs
/// `distances`: the distance of each candidate, in 32-bit arithmetic with a declared error; `top_k` and
/// `filter_range` compute again in 64 bits what the error could decide.
///
/// # Parameters
/// `space`: the measure and the store.
pub static SQFD: OperatorSpec = OperatorSpec {
    parameters: &[SPACE],
    inputs: &[
        Input::stream("candidates", columns::candidates, "objects whose distance is wanted"),
        Input::side("query", columns::queries, "the queries"),
    ],
    outputs: &[Output::new("distances", columns::distances, "a distance a candidate")],
    example: "distance: {kind: sqfd, space: space, copies: auto}",
    code_path: Some(|_| CodePath::detect().to_string()),
    ..OperatorSpec::new("sqfd", "Computes distances of candidates from queries.", Kind::Stateless, make)
};

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    let evaluator = Evaluator::new(CodePath::detect());
    Ok(Box::new(Sqfd { space: bind.resource("space")?, queries: None, gather: Gather::new(evaluator) }))
}

struct Sqfd {
    space: Arc<SqfdSpace>,
    queries: Option<Queries>,
    gather: Gather,
}

impl Operator for Sqfd {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        let Some(candidates) = cx.take("candidates") else {
            return Ok(if cx.is_ended("candidates") { Flow::Done } else { Flow::Wait });
        };
        let queries = match &self.queries {
            Some(queries) => queries,
            None => self.queries.insert(Queries::new(cx.side("query"), &self.space)?),
        };
        let (numbers, ids) = (candidates.u32s("query")?, candidates.u64s("id")?);
        let store = self.space.store();
        if !store.is_in(ids.iter().copied()) {
            cx.detached("disk", || store.bring_in(ids.iter().copied()))??;
        }
        let mut order: Vec<u32> = (0..ids.len() as u32).collect();
        let key = |row: &u32| (numbers[*row as usize], ids[*row as usize]);
        if !order.is_sorted_by_key(key) {
            order.sort_unstable_by_key(key);
        }
        let mut distances = vec![0.0; ids.len()];
        store.read::<_, BoxError>(|objects| {
            for run in order.chunk_by(|a, b| numbers[*a as usize] == numbers[*b as usize]) {
                let query = queries.at(queries.idx(numbers[run[0] as usize])?);
                self.gather.distances(&self.space, objects, &query.prepared, run, ids, &mut distances)?;
            }
            Ok(())
        })?;
        let columns: [(&str, ArrayRef); 3] = [
            ("query", Arc::clone(candidates.column("query")?)),
            ("id", Arc::clone(candidates.column("id")?)),
            ("distance", Arc::new(Float64Array::from(distances))),
        ];
        let pushed = cx.push("distances", Envelope::from_columns(columns)?)?;
        Ok(if pushed == Pushed::Closed { Flow::Done } else { Flow::Wait })
    }
}

/// Gathers objects from the batches of a store and computes their distances from one query.
pub(crate) struct Gather {
    evaluator: Evaluator,
    rows: Vec<u32>,
    out: Vec<f64>,
}

impl Gather {
    /// With the working memory of an evaluator.
    pub(crate) fn new(evaluator: Evaluator) -> Self {
        Self { evaluator, rows: Vec::new(), out: Vec::new() }
    }

    /// Computes the distances of `ids[i]` for each `i` in `run`, whose ids ascend, into `distances[i]`.
    pub(crate) fn distances(
        &mut self,
        space: &SqfdSpace,
        objects: Objects<'_>,
        query: &boxwork_kernels::sqfd::PreparedQuery,
        run: &[u32],
        ids: &[u64],
        distances: &mut [f64],
    ) -> Result<(), BoxError> {
        let store = space.store();
        let mut rest = run;
        while let Some(first) = rest.first() {
            let (batch, _) = store.locate(ids[*first as usize])?;
            let range = store.ids(batch);
            let (here, beyond) = rest.split_at(rest.partition_point(|idx| ids[*idx as usize] < range.end));
            self.rows.clear();
            self.rows.extend(here.iter().map(|idx| (ids[*idx as usize] - range.start) as u32));
            self.out.clear();
            self.out.resize(here.len(), 0.0);
            space.fast(objects, &mut self.evaluator, query, batch, &self.rows, &mut self.out)?;
            for (idx, distance) in here.iter().zip(&self.out) {
                distances[*idx as usize] = *distance;
            }
            rest = beyond;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use boxwork_runtime::harness::Harness;
    use boxwork_runtime::operator::Resource;
    use boxwork_runtime::parameter::Value;

    use super::*;
    use crate::testing;

    #[test]
    fn distances_are_near_the_exact_ones_whatever_the_order_of_rows() {
        let folder = tempfile::tempdir().unwrap();
        let space = testing::space(testing::store(folder.path(), 4200));
        let queries = testing::queries(&[("a", 7), ("b", 9000)]);
        let prepared = Queries::new(std::slice::from_ref(&queries), &space).unwrap();
        let resource: Resource = Arc::clone(&space) as Resource;
        let mut harness =
            Harness::with_resources(&SQFD, [("space", Value::Text("s".into()))], [("s", resource)]).unwrap();
        harness.give("query", queries);
        let rows: Vec<(u32, u64)> = (0..500).map(|idx| ((idx % 2) as u32, (idx * 1733) % 4200)).collect();
        harness.give("candidates", testing::candidates(&rows));
        harness.give("candidates", testing::candidates(&[(1, 0), (1, 4199)]));
        harness.end("candidates");
        harness.run().unwrap();
        assert!(harness.is_done());
        assert_eq!(harness.detached(), ["disk"]);
        let found = testing::distance_rows(&harness.taken("distances"));
        assert_eq!(found.len(), 502);
        for (row, (number, id, distance)) in found.into_iter().enumerate() {
            if row < 500 {
                assert_eq!((number, id), rows[row]);
            }
            let query = prepared.at(number as usize);
            let exact = query.exact(&space, &[id]).unwrap()[0];
            assert!((distance - exact).abs() <= query.prepared.distance_error(exact, 0.0) + 1e-12);
        }
    }

    #[test]
    fn rows_of_no_query_and_no_object_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let space = testing::space(testing::store(folder.path(), 5));
        for (row, words) in [((3, 0), "query 3"), ((0, 5), "5")] {
            let resource: Resource = Arc::clone(&space) as Resource;
            let mut harness =
                Harness::with_resources(&SQFD, [("space", Value::Text("s".into()))], [("s", resource)])
                    .unwrap();
            harness.give("query", testing::queries(&[("a", 1)]));
            harness.give("candidates", testing::candidates(&[row]));
            let error = harness.run().unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
