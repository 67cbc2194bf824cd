//! `neighbours`: the k nearest other vectors of each vector of a store.
//!
//! Invariant: the neighbours are those of a scan for each vector, for any number of workers.

use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, UInt64Array};
use boxwork_kernels::CodePath;
use boxwork_kernels::neighbours::{Graph, graph, graph_by_cosine};
use boxwork_kernels::vector::VectorMeasure;
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::operator::{Bind, BoxError, Context, Flow, Kind, Operator, OperatorSpec, Out, Pushed};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};
use boxwork_stores::lists::{dimensions, vectors};
use boxwork_stores::space::Space;

use crate::columns;
use crate::resources::{self, SPACE};

/// The most rows of an envelope, about.
const ENVELOPE_ROWS: usize = 4096;

const EDGES: Out = Out::new(0, "edges", columns::pair_distances, "each vector with each of its neighbours");

/// Computes the graph of nearest neighbours. Each pair of vectors is computed once and serves both.
///
/// # Inputs
/// None.
///
/// # Outputs
/// `edges`: for each vector `a`, in the order of the store, its neighbours `b`, the nearest first; equal distances go by id.
///
/// # Parameters
/// `space`: vectors, and the distance l2 or cosine. `k`: the neighbours of each.
pub static NEIGHBOURS: OperatorSpec = OperatorSpec {
    parameters: &[
        SPACE,
        Parameter::new(
            "k",
            ParameterType::Integer { minimum: 1, maximum: 4096 },
            Default::Integer(10),
            "neighbours of each vector; fewer if there are fewer vectors",
        )
        .unit("objects"),
    ],
    outputs: &[EDGES],
    check: Some(|arguments, resources| {
        resources::distance_of(arguments, resources).map_or(Ok(()), |distance| measure(&distance).map(drop))
    }),
    example: "edges: {kind: neighbours, space: space, k: 10}",
    ..OperatorSpec::new(
        "neighbours",
        "Computes the nearest neighbours of each vector of a store.",
        Kind::Stateful,
        make,
    )
};

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    let space = resources::space(bind)?;
    let dimensions = dimensions(&*space)?;
    let measure = measure(&space.measure()).map_err(BoxError::new)?;
    Ok(Box::new(Neighbours {
        space,
        measure,
        dimensions,
        k: bind.count("k"),
        ids: Vec::new(),
        graph: None,
        next: 0,
    }))
}

/// The measure of a graph by a distance of this name.
fn measure(name: &str) -> Result<VectorMeasure, String> {
    match VectorMeasure::named(name) {
        Some(measure @ (VectorMeasure::L2 | VectorMeasure::Cosine)) => Ok(measure),
        Some(VectorMeasure::InnerProduct) => Err(
            "a graph of neighbours is by l2 or cosine: by ip the longest vectors are the nearest of nearly all, and a \
             vector need not be the nearest of itself; take `distance: cosine`, or search each object by `nearest_vectors`"
                .to_owned(),
        ),
        None => Err(format!("a graph of neighbours is by l2 or cosine, not by {name}: search each object instead")),
    }
}

struct Neighbours {
    space: Arc<dyn Space>,
    measure: VectorMeasure,
    dimensions: usize,
    k: usize,
    /// The id of each row of the graph.
    ids: Vec<u64>,
    /// Set by the first firing.
    graph: Option<Graph>,
    /// The first row not given yet.
    next: usize,
}

impl Operator for Neighbours {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        if self.graph.is_none() {
            let store = Arc::clone(self.space.store());
            self.ids = store.among(0..store.ids_count()).collect();
            resources::bring_in(cx, &*store, &self.ids)?;
            let rows = vectors(&*store, &self.ids)?;
            store.confirm()?;
            let graph = match self.measure {
                VectorMeasure::Cosine => graph_by_cosine,
                _ => graph,
            };
            self.graph = graph(&rows, self.dimensions, self.k, CodePath::detect(), &mut |count, f| {
                cx.inside(|inside| {
                    let cancelled = inside.cancelled();
                    inside.for_each_chunk(count, 1, |pieces| {
                        if !cancelled() {
                            pieces.for_each(f);
                        }
                    });
                });
                !cx.is_cancelled()
            })?;
        }
        let Some(graph) = &self.graph else { return Ok(Flow::Done) };
        while self.next < graph.rows() {
            if !cx.has_room(EDGES) {
                return Ok(Flow::Wait);
            }
            let rows = self.next..graph.rows().min(self.next + (ENVELOPE_ROWS / self.k).max(1));
            self.next = rows.end;
            cx.progress(rows.end as u64, graph.rows() as u64);
            let edges = || rows.clone().flat_map(|row| graph.of(row).map(move |edge| (row, edge)));
            let columns: [(&str, ArrayRef); 4] = [
                ("a", Arc::new(UInt64Array::from_iter_values(edges().map(|edge| self.ids[edge.0])))),
                (
                    "b",
                    Arc::new(UInt64Array::from_iter_values(edges().map(|edge| self.ids[edge.1.0 as usize]))),
                ),
                ("distance", Arc::new(Float64Array::from_iter_values(edges().map(|edge| edge.1.1)))),
                ("error", Arc::new(Float64Array::from(vec![0.0; edges().count()]))),
            ];
            if cx.push(EDGES, Envelope::from_columns(columns)?)? == Pushed::Closed {
                break;
            }
        }
        Ok(Flow::Done)
    }
}
