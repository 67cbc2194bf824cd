//! `neighbours`: the k nearest other vectors of each vector of a store.
//!
//! Invariant: the neighbours are those of a scan for each vector, for any number of workers, and on devices.

mod on_device;

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, UInt64Array};
use boxwork_kernels::CodePath;
use boxwork_kernels::interrupt::ask;
use boxwork_kernels::neighbours::{Graph, graph, graph_by_cosine};
use boxwork_kernels::vector::VectorMeasure;
use boxwork_runtime::envelope::{Envelope, EnvelopeError};
use boxwork_runtime::feeding::Picked;
use boxwork_runtime::operator::{Bind, BoxError, Context, Flow, Kind, Operator, OperatorSpec, Out};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};
use boxwork_stores::lists::{dimensions, vectors};
use boxwork_stores::space::Space;
use boxwork_stores::store::Store;

use self::on_device::Batches;
use super::nearest_vectors::on_device::{DEVICE_ROWS_MIN, Sized};
use crate::columns;
use crate::devices::code_path;
use crate::envelopes::Envelopes;
use crate::pieces::side_by_side;
use crate::resources::{self, SPACE, device_parameter};

/// The most rows of an envelope, about.
const ENVELOPE_ROWS: usize = 4096;
/// Vectors that a slot reads at a time.
const READ_AT_ONCE: usize = 1024;

const EDGES: Out = Out::new(0, "edges", columns::pair_distances, "each vector with each of its neighbours");

/// Computes the graph of nearest neighbours. On slots, each pair of vectors is
/// computed once and serves both; devices scan all vectors for each.
///
/// # Inputs
/// None.
///
/// # Outputs
/// `edges`: for each vector `a`, in the order of the store, its neighbours `b`, the nearest first; equal distances go by id.
///
/// # Parameters
/// `space`: vectors, and the distance l2 or cosine. `k`: the neighbours of each. `device`: where to compute; the neighbours are
/// the same everywhere. Slots find more than 2,047 neighbours.
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
        device_parameter("auto"),
    ],
    outputs: &[EDGES],
    check: Some(|arguments, resources| {
        resources::distance_of(arguments, resources).map_or(Ok(()), |distance| measure(&distance).map(drop))
    }),
    code_path: Some(|arguments, devices| code_path::of_device(arguments, devices, DEVICE_ROWS_MIN)),
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
    let picked = bind.pick_devices("device", Some(space.store().objects_count()), DEVICE_ROWS_MIN)?;
    let sizes = (dimensions, bind.count("k"), bind.slots() as u64);
    Ok(Box::new(Neighbours::new(space, measure, sizes, picked)))
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
    /// The devices that may compute the graph.
    picked: Picked,
    slots: u64,
    /// Rows of a scan, and its sizes, other than the usual ones; in tests.
    sized: Option<(usize, Sized)>,
    /// The id of each row of the graph.
    ids: Vec<u64>,
    /// Set by the first firing, until there is a graph.
    rows: Option<Arc<Vec<f32>>>,
    on_devices: Option<Batches>,
    graph: Option<Graph>,
    envelopes: Envelopes,
}

impl Neighbours {
    fn new(
        space: Arc<dyn Space>,
        measure: VectorMeasure,
        (dimensions, k, slots): (usize, usize, u64),
        picked: Picked,
    ) -> Self {
        let (ids, rows, on_devices, graph, sized) = (Vec::new(), None, None, None, None);
        let envelopes = Envelopes::default();
        Self { space, measure, dimensions, k, picked, slots, sized, ids, rows, on_devices, graph, envelopes }
    }

    /// Reads the rows, and begins with the graph on devices if there are some.
    fn begin(&mut self, cx: &mut Context<'_>) -> Result<(), BoxError> {
        let store = Arc::clone(self.space.store());
        self.ids = store.among(0..store.ids_count()).collect();
        resources::bring_in(cx, &*store, &self.ids)?;
        let rows = Arc::new(rows_of(cx, &*store, &self.ids, self.dimensions)?);
        store.confirm()?;
        if self.picked.devices.is_some() && !self.ids.is_empty() {
            let (sizes, rows) = ((self.dimensions, self.k, self.slots), (&*self.ids, &rows));
            self.on_devices =
                Batches::new((&self.space, self.measure), rows, sizes, &self.picked, self.sized)?;
        }
        self.rows = Some(rows);
        Ok(())
    }

    /// Goes on with the graph; `More` once there is one.
    fn compute(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        let Some(rows) = self.rows.clone() else {
            self.begin(cx)?;
            return Ok(Flow::More);
        };
        if let Some(batches) = &mut self.on_devices {
            match batches.process(cx)? {
                Flow::Done if cx.is_cancelled() => return Ok(Flow::Done),
                Flow::Done => self.graph = self.on_devices.take().and_then(Batches::into_graph),
                flow => return Ok(flow),
            }
        } else {
            let graph = match self.measure {
                VectorMeasure::Cosine => graph_by_cosine,
                _ => graph,
            };
            self.graph = graph(&rows, self.dimensions, self.k, CodePath::detect(), &mut |count, f| {
                side_by_side(cx, count, f)
            })?;
        }
        self.rows = None;
        Ok(if self.graph.is_some() { Flow::More } else { Flow::Done })
    }
}

impl Operator for Neighbours {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        if self.graph.is_none() {
            return self.compute(cx);
        }
        let Some(graph) = &self.graph else { return Ok(Flow::Done) };
        let (count, of_envelope, ids) = (graph.rows(), (ENVELOPE_ROWS / self.k).max(1), &*self.ids);
        let sent = self.envelopes.send(cx, EDGES, count.div_ceil(of_envelope), |place| {
            let first = place * of_envelope;
            edges(graph, ids, first..count.min(first + of_envelope))
        })?;
        if sent.is_none() {
            return Ok(Flow::Wait);
        }
        cx.progress(count as u64, count as u64);
        Ok(Flow::Done)
    }
}

/// The edges of some rows.
fn edges(graph: &Graph, ids: &[u64], rows: Range<usize>) -> Result<Envelope, EnvelopeError> {
    let edges = || rows.clone().flat_map(|row| graph.of(row).map(move |edge| (row, edge)));
    let columns: [(&str, ArrayRef); 4] = [
        ("a", Arc::new(UInt64Array::from_iter_values(edges().map(|edge| ids[edge.0])))),
        ("b", Arc::new(UInt64Array::from_iter_values(edges().map(|edge| ids[edge.1.0 as usize])))),
        ("distance", Arc::new(Float64Array::from_iter_values(edges().map(|edge| edge.1.1)))),
        ("error", Arc::new(Float64Array::from(vec![0.0; edges().count()]))),
    ];
    Envelope::from_columns(columns)
}

/// The vectors of some objects, which slots read side by side.
fn rows_of(
    cx: &mut Context<'_>,
    store: &dyn Store,
    ids: &[u64],
    dimensions: usize,
) -> Result<Vec<f32>, BoxError> {
    let mut rows = vec![0.0; ids.len() * dimensions];
    let pieces = ids.chunks(READ_AT_ONCE).zip(rows.chunks_mut(READ_AT_ONCE * dimensions));
    let mut pieces: Vec<_> = pieces.map(|(ids, rows)| (ids, rows, Ok(()))).collect();
    cx.inside(|inside| {
        let cancelled = inside.cancelled();
        inside.for_each_chunk_of(&mut pieces, 1, |_, pieces| {
            for (ids, rows, read) in pieces.iter_mut().filter(|_| !cancelled()) {
                *read = vectors(store, ids).map(|numbers| rows.copy_from_slice(&numbers));
            }
        });
    });
    ask(&|| cx.is_cancelled())?;
    pieces.into_iter().try_for_each(|(.., read)| read)?;
    Ok(rows)
}
