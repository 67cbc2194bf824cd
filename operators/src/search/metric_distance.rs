//! `metric_distance`: the distances of candidates from their queries, for any distance.
//!
//! Invariant: rows keep their order within an envelope, and their distances are those that results report.

use std::sync::Arc;

use boxwork_runtime::operator::{
    Bind, BoxError, Context, Flow, Input, Kind, Operator, OperatorSpec, Output, Pushed,
};

use crate::columns;
use crate::search::read_objects::SPACE;
use crate::search::sqfd::with_distances;
use boxwork_stores::metric_query::{MetricQuery, place as of_number, queries};
use boxwork_stores::metric_space::MetricSpace;

/// Computes the distances of a metric space.
///
/// # Inputs
/// `candidates`: objects by query. `query` (side): the queries.
///
/// # Outputs
/// `distances`: the f64 distance of each candidate.
///
/// # Parameters
/// `space`: the objects and their distance.
pub static METRIC_DISTANCE: OperatorSpec = OperatorSpec {
    parameters: &[SPACE],
    inputs: &[
        Input::stream("candidates", columns::candidates, "objects whose distance is wanted"),
        Input::side("query", columns::object_queries, "the queries"),
    ],
    outputs: &[Output::new("distances", columns::distances, "a distance a candidate")],
    example: "distance: {kind: metric_distance, space: space, copies: auto}",
    ..OperatorSpec::new("metric_distance", "Computes distances of any kind.", Kind::Stateless, make)
};

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    Ok(Box::new(MetricDistance { space: bind.resource("space")?, queries: None }))
}

struct MetricDistance {
    space: Arc<MetricSpace>,
    queries: Option<Vec<MetricQuery>>,
}

impl Operator for MetricDistance {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        let Some(candidates) = cx.take("candidates") else {
            return Ok(if cx.is_ended("candidates") { Flow::Done } else { Flow::Wait });
        };
        // Whoever sends them goes on while these are computed.
        cx.announce();
        let queries = match &self.queries {
            Some(queries) => queries,
            None => self.queries.insert(queries(cx.side("query"), &self.space)?),
        };
        let (numbers, ids) = (candidates.u32s("query")?, candidates.u64s("id")?);
        let place = |id: &u64| {
            let known = self.space.place(*id);
            known.ok_or_else(|| BoxError::new(format!("a row is of object {id}, and there is none")))
        };
        let places: Vec<u32> = ids.iter().map(place).collect::<Result<_, _>>()?;
        let mut distances = Vec::with_capacity(ids.len());
        for run in numbers.chunk_by(|a, b| a == b) {
            let query = &queries[of_number(queries, run[0])?];
            let places = &places[distances.len()..][..run.len()];
            self.space.distances(query, |distance| {
                distances.extend(places.iter().map(|place| distance(*place)));
            })?;
        }
        let pushed = cx.push("distances", with_distances(&candidates, distances)?)?;
        Ok(if pushed == Pushed::Closed { Flow::Done } else { Flow::Wait })
    }
}
