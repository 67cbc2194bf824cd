//! The plan: a pipeline that has been checked, and what it is checked from.
//!
//! A front end fills a [`Declaration`]; [`check`](check::check) finds all its faults at once, each with its
//! [`Place`], and makes the [`Plan`]. Nothing here opens a file or runs anything. Invariants of a plan: every name is
//! resolved, descriptors agree on every edge, every input that is no merge has at most one edge, and there is no
//! cycle of edges.

pub mod declaration;
mod fault;
mod graph;
pub mod check;

use crate::descriptor::Descriptor;
use crate::operator::{OperatorSpec, ResourceSpec};
use crate::parameter::Arguments;
pub use check::check;
pub use declaration::{BoxDeclaration, Declaration, EdgeDeclaration, End, HintDeclaration};
pub use declaration::{ParameterDeclaration, Piece, ResourceDeclaration, Setting};
pub use fault::FaultKind;

/// Envelopes that an edge holds when nothing else is said (more where its consumer has copies).
pub const EDGE_ENVELOPES: usize = 4;
/// Bytes that an edge holds when nothing else is said.
pub const EDGE_BYTES: usize = 4 << 20;
/// The most copies of one box.
pub const COPIES_MAX: usize = 1024;

/// How bad a fault is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// It runs, and may do other than was meant.
    Warning,
    /// It cannot run.
    Error,
}

/// Where in a declaration a fault is; the front end knows the lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// The pipeline as a whole.
    Whole,
    /// How many queries a request answers.
    Queries,
    /// A parameter's declaration, by name.
    Parameter(String),
    /// A resource, by name.
    Resource(String),
    /// The kind of a resource.
    ResourceKind(String),
    /// A setting of a resource: the resource and the key.
    ResourceSetting(String, String),
    /// A box, by name.
    Box(String),
    /// The kind of a box.
    BoxKind(String),
    /// A setting of a box: the box and the key.
    BoxSetting(String, String),
    /// An edge, by its place in the declaration.
    Edge(usize),
    /// The producer's end of an edge.
    EdgeFrom(usize),
    /// The consumer's end of an edge.
    EdgeTo(usize),
    /// A hint's edge.
    Hint(usize),
    /// The writer's end of a hint's edge.
    HintFrom(usize),
    /// The reader's end of a hint's edge.
    HintTo(usize),
}

/// One fault of a declaration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Where it is.
    pub place: Place,
    /// How bad it is.
    pub severity: Severity,
    /// What kind of fault it is.
    pub kind: FaultKind,
    /// What is wrong, in a sentence.
    pub message: String,
    /// A few words to stand under the place.
    pub label: String,
    /// What to do about it, where that is known.
    pub help: Option<String>,
}

/// How many copies a box has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copies {
    /// As many as there are slots.
    Auto,
    /// This many.
    Count(usize),
}

impl Copies {
    /// The number of copies on a machine of so many slots.
    pub fn on(self, slots: usize) -> usize {
        match self {
            Self::Auto => slots.clamp(1, COPIES_MAX),
            Self::Count(count) => count,
        }
    }
}

/// A box of a plan.
#[derive(Clone, Debug)]
pub struct PlanBox {
    /// The name.
    pub name: String,
    /// The operator.
    pub spec: &'static OperatorSpec,
    /// The settings as declared; bound anew for each request.
    pub settings: Vec<(String, Setting)>,
    /// The arguments from the values known when the plan was checked.
    pub arguments: Option<Arguments>,
    /// How many copies.
    pub copies: Copies,
    /// The blocking class whose permit is taken before each firing.
    pub blocking: Option<String>,
}

/// A resource of a plan; resources stand in the order in which they are loaded.
#[derive(Clone, Debug)]
pub struct PlanResource {
    /// The name.
    pub name: String,
    /// The kind.
    pub spec: &'static ResourceSpec,
    /// The settings as declared.
    pub settings: Vec<(String, Setting)>,
    /// The arguments from the values known when the plan was checked.
    pub arguments: Option<Arguments>,
}

/// An edge of a plan.
#[derive(Clone, Debug)]
pub struct PlanEdge {
    /// The producing box, by its place in the plan.
    pub from: usize,
    /// The output, by its place in the operator's table.
    pub output: usize,
    /// The consuming box.
    pub to: usize,
    /// The input, by its place in the operator's table.
    pub input: usize,
    /// Envelopes that it holds, where the pipeline says so.
    pub envelopes: Option<usize>,
    /// Bytes that it holds.
    pub bytes: usize,
    /// The columns, as the producer describes them.
    pub descriptor: Descriptor,
}

/// A hint's edge of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanHint {
    /// The writing box.
    pub from: usize,
    /// The hint, by its place among those that the writer writes.
    pub written: usize,
    /// The reading box.
    pub to: usize,
    /// The hint, by its place among those that the reader reads.
    pub read: usize,
}

/// A checked pipeline.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The pipeline's parameters.
    pub parameters: Vec<ParameterDeclaration>,
    /// The resources, in the order in which they are loaded.
    pub resources: Vec<PlanResource>,
    /// The boxes, as declared.
    pub boxes: Vec<PlanBox>,
    /// The edges, as declared.
    pub edges: Vec<PlanEdge>,
    /// The hints' edges, as declared.
    pub hints: Vec<PlanHint>,
    /// Queries that one request answers at most; a run with more makes several requests.
    pub queries: usize,
}

impl Plan {
    /// The place of a box.
    pub fn box_idx(&self, name: &str) -> Option<usize> {
        self.boxes.iter().position(|planned| planned.name == name)
    }

    /// The places of the boxes so that each follows those that feed it; else as declared.
    pub fn order(&self) -> Vec<usize> {
        let pairs: Vec<(usize, usize)> = self.edges.iter().map(|edge| (edge.from, edge.to)).collect();
        graph::order(&graph::feeding(self.boxes.len(), &pairs)).into_iter().map(|(idx, _)| idx).collect()
    }

    /// Envelopes that an edge holds on a machine of so many slots, where the pipeline does not say: enough for each copy
    /// of the consumer to work on one while the next waits, and for one of each copy of the producer. With less, copies
    /// that end together wait for room, and all are woken for each that there is.
    pub fn edge_envelopes(&self, edge: usize, slots: usize) -> usize {
        let edge = &self.edges[edge];
        let copies = |of: usize| self.boxes[of].copies.on(slots);
        let usual = || EDGE_ENVELOPES.max(2 * copies(edge.to)).max(copies(edge.from));
        edge.envelopes.unwrap_or_else(usual)
    }

    /// The parameters that are bound once, when the pipeline is prepared: those used in resources, kinds, copies and
    /// the names of resources. The others may differ from request to request.
    pub fn bound_once(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for resource in &self.resources {
            names.extend(resource.settings.iter().flat_map(|(_, setting)| setting.parameters()));
        }
        for planned in &self.boxes {
            for (key, setting) in &planned.settings {
                let of_resource = planned.spec.parameters.iter().any(|parameter| {
                    parameter.name == key
                        && matches!(parameter.kind, crate::parameter::ParameterType::Resource(_))
                });
                if of_resource || key == declaration::KIND || key == declaration::COPIES {
                    names.extend(setting.parameters());
                }
            }
        }
        names.sort_unstable();
        names.dedup();
        names
    }
}
