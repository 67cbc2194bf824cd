//! The plan: a checked pipeline, and the declaration that it is made from.
//!
//! A front end fills a [`Declaration`]; [`check`](check::check) finds all its faults at once, each with its [`Place`],
//! and makes the [`Plan`]. Nothing here opens a file or runs anything. Invariants of a plan: every name is resolved,
//! descriptors agree on every edge, every input except a merge has at most one edge, and there is no cycle of edges.

pub mod declaration;
mod fault;
mod graph;
pub mod check;

use std::sync::Arc;

use crate::descriptor::Descriptor;
use crate::operator::{Mode, OperatorEntry, ResourceSpec};
use crate::parameter::{Arguments, QUERIES_MAX};
pub use check::check;
pub use declaration::{BoxDeclaration, Declaration, EdgeDeclaration, End, HintDeclaration};
pub use declaration::{ParameterDeclaration, Piece, ResourceDeclaration, Setting};
pub use fault::FaultKind;

/// Envelopes that an edge holds by default (more if its consumer has copies).
pub const EDGE_ENVELOPES: usize = 4;
/// Bytes that an edge holds by default.
pub const EDGE_BYTES: usize = 4 << 20;
/// The most copies of one box.
pub const COPIES_MAX: usize = 1024;

/// The severity of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The pipeline runs, and may do something else than intended.
    Warning,
    /// The pipeline cannot run.
    Error,
}

/// The place of a fault in a declaration; the front end knows the lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// The pipeline as a whole.
    Whole,
    /// The number of queries of a request.
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
    /// The place.
    pub place: Place,
    /// The severity.
    pub severity: Severity,
    /// The kind of the fault.
    pub kind: FaultKind,
    /// The fault, in a sentence.
    pub message: String,
    /// A few words for a mark under the place.
    pub label: String,
    /// The remedy, if one is known.
    pub help: Option<String>,
}

/// The number of copies of a box.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copies {
    /// One for each slot.
    Auto,
    /// This many.
    Count(usize),
}

impl Copies {
    /// The number of copies on a machine with this many slots.
    pub fn on(self, slots: usize) -> usize {
        match self {
            Self::Auto => slots.clamp(1, COPIES_MAX),
            Self::Count(count) => {
                debug_assert!((1..=COPIES_MAX).contains(&count), "a box has no copy, or too many");
                count
            }
        }
    }
}

/// A box of a plan.
#[derive(Clone, Debug)]
pub struct PlanBox {
    /// The name.
    pub name: String,
    /// The operator.
    pub spec: Arc<OperatorEntry>,
    /// The settings as declared; each request binds them again.
    pub settings: Vec<(String, Setting)>,
    /// The arguments from the values known when the plan was checked.
    pub arguments: Option<Arguments>,
    /// The arguments that were possible when the plan was checked, if some values were not known then.
    possible: Vec<Arguments>,
    /// The number of copies.
    pub copies: Copies,
    /// The blocking class whose permit is taken before each firing.
    pub blocking: Option<String>,
}

impl PlanBox {
    /// The arguments that decide the columns of its ports: one, unless some values are not known yet.
    fn possible_arguments(&self) -> &[Arguments] {
        self.arguments.as_ref().map_or(&self.possible, std::slice::from_ref)
    }
}

/// A resource of a plan; resources are listed in the order in which they are loaded.
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
    /// Envelopes that it holds, if the pipeline declares it.
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
    /// The hint, by its place among the hints that the writer writes.
    pub written: usize,
    /// The reading box.
    pub to: usize,
    /// The hint, by its place among the hints that the reader reads.
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

    /// The places of the boxes, ordered so that each box follows the boxes that feed it; otherwise as declared.
    pub fn order(&self) -> Vec<usize> {
        let pairs: Vec<(usize, usize)> = self.edges.iter().map(|edge| (edge.from, edge.to)).collect();
        let order = graph::order(&graph::feeding(self.boxes.len(), &pairs));
        debug_assert_eq!(order.len(), self.boxes.len(), "a box is missing in the order of the boxes");
        debug_assert!(
            order.iter().all(|(_, in_circle)| !in_circle),
            "a box comes before a box that feeds it: the plan has a cycle"
        );
        order.into_iter().map(|(idx, _)| idx).collect()
    }

    /// The invariants of the module.
    fn check_invariants(&self) {
        if !cfg!(debug_assertions) {
            return;
        }
        for (idx, edge) in self.edges.iter().enumerate() {
            debug_assert!(
                edge.from < self.boxes.len() && edge.to < self.boxes.len(),
                "edge {idx} ends at a box that the plan does not have"
            );
            let (from, to) = (&self.boxes[edge.from], &self.boxes[edge.to]);
            debug_assert!(
                edge.output < from.spec.outputs.len(),
                "edge {idx} begins at a port that `{}` lacks",
                from.name
            );
            debug_assert!(
                edge.input < to.spec.inputs.len(),
                "edge {idx} ends at a port that `{}` lacks",
                to.name
            );
            debug_assert!(
                edge.envelopes != Some(0) && edge.bytes > 0,
                "edge {idx} holds nothing: it would stall"
            );
            debug_assert!(
                to.arguments.as_ref().is_none_or(|arguments| {
                    edge.descriptor.agrees_with(&(to.spec.inputs[edge.input].descriptor)(arguments))
                }),
                "edge {idx} brings other columns than `{}` takes",
                to.name
            );
        }
        for (idx, hint) in self.hints.iter().enumerate() {
            let (from, to) = (self.boxes.get(hint.from), self.boxes.get(hint.to));
            let written = from.and_then(|from| from.spec.hints_written.get(hint.written));
            let read = to.and_then(|to| to.spec.hints_read.get(hint.read));
            debug_assert!(written.is_some() && read.is_some(), "hint {idx} has an end that is not there");
            debug_assert!(
                written.zip(read).is_some_and(|(written, read)| written.join == read.join),
                "hint {idx} is joined in one way where it is written and in another one where it is read"
            );
        }
        let mut fed: Vec<(usize, usize)> = self
            .edges
            .iter()
            .map(|edge| (edge.to, edge.input))
            .filter(|(to, input)| self.boxes[*to].spec.inputs[*input].mode != Mode::Merge)
            .collect();
        fed.sort_unstable();
        debug_assert!(fed.is_sorted_by(|a, b| a < b), "an input that merges nothing is fed by two edges");
        let pairs: Vec<(usize, usize)> = self.edges.iter().map(|edge| (edge.from, edge.to)).collect();
        debug_assert!(
            graph::cycle(self.boxes.len(), &pairs).is_none(),
            "the edges form a cycle: its boxes would wait for each other"
        );
        debug_assert!((1..=QUERIES_MAX).contains(&self.queries), "a request of no queries, or of too many");
        debug_assert!(
            self.boxes.iter().all(|planned| planned.copies != Copies::Count(0)),
            "a box has no copy: what is sent to it would stay there"
        );
    }
    /// Envelopes that an edge holds on a machine with this many slots. The default is enough for each copy of the
    /// consumer to work on one envelope while the next waits, and for one envelope of each copy of the producer. With
    /// less, copies that end together wait for room, and each envelope's room notifies all of them.
    pub fn edge_envelopes(&self, edge: usize, slots: usize) -> usize {
        let edge = &self.edges[edge];
        let copies = |of: usize| self.boxes[of].copies.on(slots);
        let usual = || EDGE_ENVELOPES.max(2 * copies(edge.to)).max(copies(edge.from));
        let envelopes = edge.envelopes.unwrap_or_else(usual);
        debug_assert!(envelopes > 0, "an edge holds no envelope: its producer would wait for ever");
        envelopes
    }

    /// The parameters that are bound once, when the pipeline is prepared: those in resources, kinds, copies and names
    /// of resources. The others may differ from request to request.
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
