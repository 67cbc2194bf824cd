//! `filter_range`: the objects within a range, decided exactly.
//!
//! Invariant: the f64 distances decide which objects pass, on whatever path the input was computed.

use std::sync::Arc;

use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::operator::{
    Bind, BoxError, Context, Flow, In, Kind, Operator, OperatorSpec, Out, Pushed,
};
use boxwork_runtime::parameter::Default;

use crate::columns::{self, distances_envelope};
use crate::resources::{self, SPACE, check_range, get_range, range_parameter};
use crate::search::queries::Queries;
use boxwork_stores::space::Space;

const DISTANCES_IN: In = In::stream(0, "distances", columns::distances, "distances of objects");
const QUERY: In = In::side(1, "query", columns::queries, "the queries");
const DISTANCES_OUT: Out =
    Out::new(0, "distances", columns::distances, "the distances within the range, in f64");

/// Keeps the distances that are at most a range.
///
/// Drops rows that lie beyond the range even with the error of the fast paths. All others are recomputed in f64, and
/// those at most `range` pass with their f64 distance. So the border is exact, and the output can be sorted into
/// results.
///
/// # Inputs
/// `distances`: distances of objects. `query` (side): the queries.
///
/// # Outputs
/// `distances`: the distances at most the range, in f64.
///
/// # Parameters
/// `range`: the largest distance that passes. `space`: the space of the distances.
pub static FILTER_RANGE: OperatorSpec = OperatorSpec {
    parameters: &[range_parameter(Default::Required, "the largest distance that passes"), SPACE],
    inputs: &[DISTANCES_IN, QUERY],
    outputs: &[DISTANCES_OUT],
    check: Some(check_range),
    example: "near: {kind: filter_range, range: 0.3, space: space}",
    ..OperatorSpec::new("filter_range", "Keeps the objects within a range.", Kind::Stateless, make)
};

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    let space = resources::space(bind)?;
    // It is a required parameter.
    let range = get_range(bind, &*space)?.unwrap_or(f64::INFINITY);
    Ok(Box::new(FilterRange { range, space, queries: None }))
}

struct FilterRange {
    range: f64,
    space: Arc<dyn Space>,
    queries: Option<Queries>,
}

impl Operator for FilterRange {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        let Some(distances) = cx.take(DISTANCES_IN) else {
            return Ok(if cx.is_ended(DISTANCES_IN) { Flow::Done } else { Flow::Wait });
        };
        let queries = match &self.queries {
            Some(queries) => queries,
            None => self.queries.insert(Queries::of_side(cx, QUERY, &self.space)?),
        };
        let (numbers, ids) = (distances.u32s("query")?, distances.u64s("id")?);
        let fast = distances.f64s("distance")?;
        let mut near = Vec::new();
        let mut first = 0;
        for run in numbers.chunk_by(|a, b| a == b) {
            let rows = first..first + run.len();
            first = rows.end;
            let idx = queries.idx(run[0])?;
            let prepared = &queries.at(idx).prepared;
            prepared.see(&ids[rows.clone()], &|| cx.is_cancelled())?;
            let limit = prepared.widened(self.range);
            near.extend(rows.filter(|row| fast[*row] <= limit).map(|row| (idx, ids[row])));
        }
        let store = self.space.store();
        let near_ids: Vec<u64> = near.iter().map(|(_, id)| *id).collect();
        resources::bring_in(cx, &**store, &near_ids)?;
        let mut kept = Vec::new();
        for run in near.chunk_by(|a, b| a.0 == b.0) {
            if cx.is_cancelled() {
                return Ok(Flow::Done);
            }
            let query = queries.at(run[0].0);
            let run_ids: Vec<u64> = run.iter().map(|(_, id)| *id).collect();
            let exact = query.exact_until(&run_ids, &|| cx.is_cancelled())?;
            let rows = run_ids.into_iter().zip(exact).filter(|(_, distance)| *distance <= self.range);
            kept.extend(rows.map(|(id, distance)| (query.number, id, distance)));
        }
        if kept.is_empty() {
            return Ok(Flow::Wait);
        }
        let pushed = push(cx, &kept)?;
        Ok(if pushed == Pushed::Closed { Flow::Done } else { Flow::Wait })
    }
}

fn push(cx: &mut Context<'_>, rows: &[(u32, u64, f64)]) -> Result<Pushed, BoxError> {
    let envelope: Envelope = distances_envelope(rows)?;
    cx.push(DISTANCES_OUT, envelope)
}

#[cfg(test)]
mod tests {
    use boxwork_runtime::harness::Harness;
    use boxwork_runtime::operator::Resource;
    use boxwork_runtime::parameter::Value;

    use super::*;
    use boxwork_stores::testing;

    #[test]
    fn the_border_is_decided_by_the_exact_distances() {
        let folder = tempfile::tempdir().unwrap();
        let space = testing::space(testing::store(folder.path(), 200));
        let side = testing::queries(&[("a", 7), ("b", 9000)]);
        let queries = Queries::new(std::slice::from_ref(&side), &testing::any_space(&space)).unwrap();
        let ids: Vec<u64> = (0..200).collect();
        let exact: Vec<Vec<f64>> = queries.iter().map(|query| query.exact(&ids).unwrap()).collect();
        // The range is an object's own distance: an object on the border must pass.
        for range in [exact[0][17], exact[1][150], exact[0][7], 0.0, 10.0] {
            let resource: Resource = testing::shared_space(&space);
            let given = [("range", Value::Number(range)), ("space", Value::Text("s".into()))];
            let mut harness = Harness::with_resources(&FILTER_RANGE, given, [("s", resource)]).unwrap();
            harness.give(QUERY, side.clone());
            let mut expected = Vec::new();
            for number in 0..2u32 {
                let mut rows = Vec::new();
                for id in 0..200u64 {
                    let distance = exact[number as usize][id as usize];
                    let error = queries.at(number as usize).sqfd().prepared().distance_error(distance, 0.0);
                    // As far off as a fast path may be, up and down.
                    let fast = if id % 2 == 0 { distance + 0.9 * error } else { distance - 0.9 * error };
                    rows.push((number, id, fast.max(0.0)));
                    if distance <= range {
                        expected.push((number, id, distance));
                    }
                }
                harness.give(DISTANCES_IN, testing::distances(&rows));
            }
            harness.end(DISTANCES_IN);
            harness.run().unwrap();
            assert!(harness.is_done());
            assert_eq!(testing::distance_rows(&harness.taken(DISTANCES_OUT)), expected);
        }
    }
}
