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

/// Queries that a slot compares with the centroids at a time.
const QUERIES_AT_ONCE: usize = 64;

/// The most rows of an envelope.
const ENVELOPE_ROWS: usize = 1 << 14;

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
    let (lists, probes) = (bind.resource::<Lists>("lists")?, bind.count("probes"));
    Ok(Box::new(Probe { lists, probes, found: Vec::new(), next: 0 }))
}

/// A query, and the distance of a list that it looks into.
type Found = (u32, f64, u32);

struct Probe {
    lists: Arc<Lists>,
    probes: usize,
    /// Those of the last envelope, and the first that is not given yet.
    found: Vec<Found>,
    next: usize,
}

impl Operator for Probe {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        if self.next == self.found.len() {
            let Some(envelope) = cx.take(QUERIES) else {
                return Ok(if cx.is_ended(QUERIES) { Flow::Done } else { Flow::Wait });
            };
            let Some(found) = self.nearest(cx, envelope)? else { return Ok(Flow::Done) };
            (self.found, self.next) = (found, 0);
        }
        // A request of many queries with many lists each has more rows than an envelope.
        while self.next < self.found.len() {
            if !cx.has_room(PROBES) {
                return Ok(Flow::Wait);
            }
            let rows = &self.found[self.next..self.found.len().min(self.next + ENVELOPE_ROWS)];
            self.next += rows.len();
            let columns: [(&str, ArrayRef); 3] = [
                ("query", Arc::new(UInt32Array::from_iter_values(rows.iter().map(|row| row.0)))),
                ("list", Arc::new(UInt32Array::from_iter_values(rows.iter().map(|row| row.2)))),
                ("distance", Arc::new(Float64Array::from_iter_values(rows.iter().map(|row| row.1)))),
            ];
            if cx.push(PROBES, Envelope::from_columns(columns)?)? == Pushed::Closed {
                return Ok(Flow::Done);
            }
        }
        Ok(Flow::More)
    }
}

impl Probe {
    /// The lists nearest to each query of an envelope; `None` if the request is being cancelled.
    fn nearest(&self, cx: &mut Context<'_>, envelope: Envelope) -> Result<Option<Vec<Found>>, BoxError> {
        let (numbers, mut vectors) = query_vectors(&[envelope], self.lists.quantizers().dimensions())?;
        self.lists.prepare(&mut vectors);
        let (lists, probes) = (&*self.lists, self.probes.min(self.lists.count()));
        let pieces = vectors.chunks(QUERIES_AT_ONCE * lists.quantizers().dimensions());
        let mut pieces: Vec<(&[f32], Vec<_>)> = pieces.map(|vectors| (vectors, Vec::new())).collect();
        cx.inside(|inside| {
            let cancelled = inside.cancelled();
            inside.for_each_chunk_of(&mut pieces, 1, |_, pieces| {
                for (vectors, nearest) in pieces.iter_mut().filter(|_| !cancelled()) {
                    *nearest = lists.nearest(vectors, probes);
                }
            });
        });
        if cx.is_cancelled() {
            return Ok(None);
        }
        let nearest = pieces.into_iter().flat_map(|(_, nearest)| nearest);
        let of_query = |(query, lists): (u32, Vec<(f64, u32)>)| {
            lists.into_iter().map(move |(distance, list)| (query, distance, list))
        };
        Ok(Some(numbers.into_iter().zip(nearest).flat_map(of_query).collect()))
    }
}
