//! `graph_path`: the path between two objects of a graph whose largest edge is as small as can be.

use std::collections::HashMap;
use std::sync::Arc;

use boxwork_kernels::neighbours::{Graph, NONE};
use boxwork_runtime::operator::{Bind, BoxError, Context, Flow, In, Kind, Operator, OperatorSpec, Part};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};
use boxwork_stores::store::Store;
use serde_json::json;

use crate::columns;
use crate::resources;
use crate::results::sink::{OUT, OrderedWriter, STORE, share_writer};

const EDGES: In = In::stream(0, "edges", columns::pair_distances, "the edges of a graph, from `neighbours`");

/// Finds a path between two objects whose largest edge is as small as can be, and writes it as JSON. Edges join both ways.
///
/// `{"largest": 1.5, "path": [{"id": 3, "name": "a"}, {"id": 8, "name": "b", "distance": 1.5}]}`, where a distance is that from
/// the object before. Without a path, both are `null`; that is a result.
///
/// # Inputs
/// `edges`: pairs of objects with their distances.
///
/// # Outputs
/// None.
///
/// # Parameters
/// `store`: the objects. `from`, `to`: their names. `out`: the file to write, or `-` for standard output.
pub static GRAPH_PATH: OperatorSpec = OperatorSpec {
    parameters: &[
        STORE,
        Parameter::new("from", ParameterType::Text, Default::Required, "the name of the first object"),
        Parameter::new("to", ParameterType::Text, Default::Required, "the name of the last object"),
        OUT,
    ],
    inputs: &[EDGES],
    example: "path: {kind: graph_path, store: vectors, from: v0, to: v9}",
    share: Some(share_writer),
    ..OperatorSpec::new(
        "graph_path",
        "Finds the path of the least largest edge between two objects.",
        Kind::Stateful,
        make,
    )
};

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    Ok(Box::new(GraphPath {
        store: resources::store(bind)?,
        ends: ["from", "to"].map(|name| bind.text(name).to_owned()),
        writer: bind.shared(),
        part: bind.part,
        edges: Vec::new(),
    }))
}

struct GraphPath {
    store: Arc<dyn Store>,
    ends: [String; 2],
    writer: Arc<OrderedWriter>,
    part: Part,
    edges: Vec<(u64, u64, f64)>,
}

impl Operator for GraphPath {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        while let Some(envelope) = cx.take(EDGES) {
            let pairs = envelope.u64s("a")?.iter().zip(envelope.u64s("b")?).zip(envelope.f64s("distance")?);
            self.edges.extend(pairs.map(|((a, b), distance)| (*a, *b, *distance)));
        }
        if !cx.is_ended(EDGES) {
            return Ok(Flow::Wait);
        }
        cx.detached("disk", || -> Result<(), BoxError> {
            let text = self.text()?;
            self.writer.write(self.part, text.into_bytes())
        })??;
        Ok(Flow::Done)
    }
}

impl GraphPath {
    fn text(&self) -> Result<String, BoxError> {
        let id = |name: &String| {
            let missing =
                || BoxError::new(format!("`{}` has no object `{name}`", self.store.path().display()));
            self.store.find(name)?.ok_or_else(missing)
        };
        let (from, to) = (id(&self.ends[0])?, id(&self.ends[1])?);
        let (ids, graph) = graph(&self.edges, [from, to])?;
        let row = |id: u64| ids.binary_search(&id).unwrap_or_default() as u32;
        let Some(path) = graph.path(row(from), row(to)) else {
            return Ok(format!("{}\n", json!({"largest": null, "path": null})));
        };
        let mut objects = Vec::new();
        for (place, row) in path.rows.iter().enumerate() {
            let id = ids[*row as usize];
            let mut object = json!({"id": id, "name": self.store.name(id)?});
            if place > 0 {
                object["distance"] = path.edges[place - 1].into();
            }
            objects.push(object);
        }
        Ok(format!("{}\n", json!({"largest": path.largest(), "path": objects})))
    }
}

/// The ids of a graph, ascending, and the graph of their places.
fn graph(edges: &[(u64, u64, f64)], ends: [u64; 2]) -> Result<(Vec<u64>, Graph), BoxError> {
    let mut ids: Vec<u64> = edges.iter().flat_map(|(a, b, _)| [*a, *b]).chain(ends).collect();
    ids.sort_unstable();
    ids.dedup();
    let mut counts: HashMap<u64, usize> = HashMap::new();
    for (a, _, _) in edges {
        *counts.entry(*a).or_default() += 1;
    }
    let k = counts.values().copied().max().unwrap_or(1);
    let (mut neighbours, mut distances) = (vec![NONE; ids.len() * k], vec![0.0; ids.len() * k]);
    let mut next = vec![0; ids.len()];
    for (a, b, distance) in edges {
        let (Ok(row), Ok(other)) = (ids.binary_search(a), ids.binary_search(b)) else { continue };
        neighbours[row * k + next[row]] = other as u32;
        distances[row * k + next[row]] = *distance;
        next[row] += 1;
    }
    let graph = Graph::of_parts(k, neighbours, distances);
    Ok((ids, graph.ok_or_else(|| BoxError::new("an edge has a distance below 0 or none"))?))
}
