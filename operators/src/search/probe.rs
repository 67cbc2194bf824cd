//! `probe`: the lists nearest to each query.

use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, UInt32Array};
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::operator::{
    Bind, BoxError, Context, Flow, In, Kind, Operator, OperatorSpec, Out, Pushed,
};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};
use boxwork_stores::lists::Lists;

use crate::columns;
use crate::search::scan_lists::{LISTS, query_vectors};

const QUERIES: In = In::stream(0, "queries", columns::queries, "the queries");
const PROBES: Out = Out::new(0, "probes", columns::probes, "the lists to look into for each query");

/// Finds the lists whose centroids are nearest to each query.
///
/// # Inputs
/// `queries`: vectors.
///
/// # Outputs
/// `probes`: the lists of each query, the nearest first.
///
/// # Parameters
/// `lists`: the lists. `probes`: how many a query gets; more find more of the answer.
pub static PROBE: OperatorSpec = OperatorSpec {
    parameters: &[
        LISTS,
        Parameter::new(
            "probes",
            ParameterType::integer_from(1),
            Default::Integer(8),
            "lists that a query gets",
        )
        .unit("lists"),
    ],
    inputs: &[QUERIES],
    outputs: &[PROBES],
    example: "probe: {kind: probe, lists: lists, probes: 8}",
    ..OperatorSpec::new("probe", "Finds the lists nearest to each query.", Kind::Stateless, make)
};

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    Ok(Box::new(Probe { lists: bind.resource::<Lists>("lists")?, probes: bind.count("probes") }))
}

struct Probe {
    lists: Arc<Lists>,
    probes: usize,
}

impl Operator for Probe {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        if !cx.has_room(PROBES) {
            return Ok(Flow::Wait);
        }
        let Some(envelope) = cx.take(QUERIES) else {
            return Ok(if cx.is_ended(QUERIES) { Flow::Done } else { Flow::Wait });
        };
        let (numbers, mut vectors) = query_vectors(&[envelope], self.lists.quantizers().dimensions())?;
        self.lists.prepare(&mut vectors);
        let nearest = self.lists.nearest(&vectors, self.probes.min(self.lists.count()));
        let each = || {
            numbers
                .iter()
                .zip(&nearest)
                .flat_map(|(query, lists)| lists.iter().map(move |list| (query, list)))
        };
        let columns: [(&str, ArrayRef); 3] = [
            ("query", Arc::new(UInt32Array::from_iter_values(each().map(|(query, _)| *query)))),
            ("list", Arc::new(UInt32Array::from_iter_values(each().map(|(_, list)| list.1)))),
            ("distance", Arc::new(Float64Array::from_iter_values(each().map(|(_, list)| list.0)))),
        ];
        match cx.push(PROBES, Envelope::from_columns(columns)?)? {
            Pushed::Closed => Ok(Flow::Done),
            Pushed::Sent => Ok(Flow::More),
        }
    }
}
