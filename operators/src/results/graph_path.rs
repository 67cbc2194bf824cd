//! `graph_path`: the path between two objects of a graph whose largest edge is as small as can be, as JSON or as a page.
//!
//! Invariant: a page needs no other file; a picture that cannot be shown is a neutral tile, never an error.

mod page;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use boxwork_kernels::neighbours::{Graph, NONE};
use boxwork_runtime::operator::{Bind, BoxError, Context, Flow, In, Kind, Operator, OperatorSpec, Part};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};
use boxwork_stores::store::Store;
use serde_json::json;

use crate::columns;
use crate::resources;
use crate::results::graph_path::page::PathPage;
use crate::results::sink::{OUT, OrderedWriter, STORE, share_writer};

const EDGES: In = In::stream(0, "edges", columns::pair_distances, "the edges of a graph, from `neighbours`");

/// Finds a path between two objects whose largest edge is as small as can be, and writes it. Edges join both ways.
///
/// As JSON: `{"largest": 1.5, "path": [{"id": 3, "name": "a"}, {"id": 8, "name": "b", "distance": 1.5}]}`, where a distance is that from
/// the object before. Without a path, both are `null`; that is a result. As a page: the objects with their pictures in the order of the
/// path, each with its distance from the object before, and the largest step marked.
///
/// # Inputs
/// `edges`: pairs of objects with their distances.
///
/// # Outputs
/// None.
///
/// # Parameters
/// `store`: the objects. `from`, `to`: their names. `format`: json or html. `pictures`: the folder of the pictures.
/// `out`: the file to write, or `-` for standard output.
pub static GRAPH_PATH: OperatorSpec = OperatorSpec {
    parameters: &[
        STORE,
        Parameter::new("from", ParameterType::Text, Default::Required, "the name of the first object"),
        Parameter::new("to", ParameterType::Text, Default::Required, "the name of the last object"),
        Parameter::new(
            "format",
            ParameterType::Choice(&["json", "html"]),
            Default::Text("json"),
            "JSON, or a page of pictures",
        ),
        Parameter::new(
            "pictures",
            ParameterType::Path,
            Default::Absent,
            "for html: the folder below which the objects' names are those of pictures; when not given, the store's source",
        ),
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
        pictures: bind.get_text("pictures").map(PathBuf::from),
        is_page: bind.text("format") == "html",
        page: None,
    }))
}

struct GraphPath {
    store: Arc<dyn Store>,
    ends: [String; 2],
    writer: Arc<OrderedWriter>,
    part: Part,
    edges: Vec<(u64, u64, f64)>,
    pictures: Option<PathBuf>,
    is_page: bool,
    /// The page so far, once the path is known.
    page: Option<PathPage>,
}

/// An object of a path: its id, its name, and its distance from the object before.
type Step = (u64, String, Option<f64>);

impl Operator for GraphPath {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        while let Some(envelope) = cx.take(EDGES) {
            let pairs = envelope.u64s("a")?.iter().zip(envelope.u64s("b")?).zip(envelope.f64s("distance")?);
            self.edges.extend(pairs.map(|((a, b), distance)| (*a, *b, *distance)));
        }
        if !cx.is_ended(EDGES) {
            return Ok(Flow::Wait);
        }
        let text = if !self.is_page {
            cx.detached("disk", || self.steps().map(|steps| json_of(steps.as_deref())))??
        } else if let Some(page) = &mut self.page {
            // One picture a firing: to read and scale it takes its time.
            if page.add_next(cx)? {
                return Ok(Flow::More);
            }
            page.take_text()
        } else {
            let steps = cx.detached("disk", || self.steps())??;
            self.page = Some(PathPage::new(&*self.store, self.pictures.as_deref(), &self.ends, steps));
            return Ok(Flow::More);
        };
        cx.detached("disk", || self.writer.write(self.part, text.into_bytes()))??;
        Ok(Flow::Done)
    }
}

impl GraphPath {
    /// The objects of the path, if there is one.
    fn steps(&self) -> Result<Option<Vec<Step>>, BoxError> {
        let id = |name: &String| {
            let missing =
                || BoxError::new(format!("`{}` has no object `{name}`", self.store.path().display()));
            self.store.find(name)?.ok_or_else(missing)
        };
        let (from, to) = (id(&self.ends[0])?, id(&self.ends[1])?);
        let (ids, graph) = graph(&self.edges, [from, to])?;
        let row = |id: u64| ids.binary_search(&id).unwrap_or_default() as u32;
        let Some(path) = graph.path(row(from), row(to)) else { return Ok(None) };
        let distances = std::iter::once(None).chain(path.edges.iter().copied().map(Some));
        let steps = path.rows.iter().zip(distances).map(|(row, distance)| {
            let id = ids[*row as usize];
            Ok((id, self.store.name(id)?, distance))
        });
        steps.collect::<Result<Vec<Step>, BoxError>>().map(Some)
    }
}

/// The largest step of a path; 0 if it has none.
fn largest(steps: &[Step]) -> f64 {
    steps.iter().filter_map(|(_, _, distance)| *distance).fold(0.0, f64::max)
}

fn json_of(steps: Option<&[Step]>) -> String {
    let Some(steps) = steps else { return format!("{}\n", json!({"largest": null, "path": null})) };
    let object = |(id, name, distance): &Step| {
        let mut object = json!({"id": id, "name": name});
        if let Some(distance) = distance {
            object["distance"] = (*distance).into();
        }
        object
    };
    let objects: Vec<_> = steps.iter().map(object).collect();
    format!("{}\n", json!({"largest": largest(steps), "path": objects}))
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
