//! A drawing of a pipeline, even a broken one: missing and wrong parts are drawn as such.
//!
//! One picture is written in three forms (mermaid, dot, svg). Side inputs look different, hints are dashed, faults are
//! dashed and red. The figures of a run can be added: the busiest box is filled, edges that were full are wide. No name
//! from the text, or from a report, can break out of its quotes in any form.

mod mermaid;
mod dot;
mod layout;
mod edge_labels;
mod low_arrows;
mod svg;
#[cfg(test)]
mod tests;
pub mod measured;

use std::collections::BTreeMap;
use std::sync::Arc;

use boxwork_runtime::operator::{Catalog, Mode, OperatorEntry};
use boxwork_runtime::parameter::{ParameterType, Value};
use boxwork_runtime::plan::{BoxDeclaration, End, Place, Setting, Severity};

use crate::pipeline::Loaded;

pub use self::measured::{MeasuredBox, MeasuredEdge};
pub use dot::dot;
pub use mermaid::mermaid;
pub use svg::svg;

/// A picture of boxes and arrows.
#[derive(Clone, Debug, Default)]
pub struct Drawing {
    /// The file's name.
    pub title: String,
    /// The description of the pipeline.
    pub about: String,
    /// The boxes as declared, then missing ones.
    pub boxes: Vec<DrawnBox>,
    /// The edges, then the hints.
    pub arrows: Vec<Arrow>,
}

/// A box of a picture.
#[derive(Clone, Debug)]
pub struct DrawnBox {
    /// Its name.
    pub name: String,
    /// Its operator's name, if known.
    pub kind: String,
    /// The description of the operator; may be empty.
    pub about: String,
    /// Whether it has a fault or is missing.
    pub state: State,
    /// Its inputs.
    pub inputs: Vec<Port>,
    /// Its outputs.
    pub outputs: Vec<Port>,
    /// The resources that it uses, and its copies.
    pub notes: Vec<String>,
    /// Its figures from a run.
    pub measured: Option<MeasuredBox>,
}

/// Whether a box has a fault or is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It has no fault.
    Right,
    /// It has a fault.
    Wrong,
    /// Edges name it, but it is not declared.
    Missing,
}

/// A port of a drawn box.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// Its name; empty if an edge names none and the operator is unknown.
    pub name: String,
    /// Whether it is a side input.
    pub side: bool,
    /// Whether an edge is on it.
    pub connected: bool,
}

/// An edge or a hint.
#[derive(Clone, Debug)]
pub struct Arrow {
    /// The box that it leaves.
    pub from: usize,
    /// The output's index, or the hint's name.
    pub output: usize,
    /// The box that it enters.
    pub to: usize,
    /// The input's index.
    pub input: usize,
    /// Its kind.
    pub kind: ArrowKind,
    /// Whether it has a fault.
    pub wrong: bool,
    /// Its figures from a run.
    pub measured: Option<MeasuredEdge>,
}

/// The kind of an arrow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ArrowKind {
    /// Envelopes, in a bounded queue.
    Stream,
    /// Envelopes, all of them for every copy.
    Side,
    /// A shared value with this name.
    Hint(String),
}

/// Draws a pipeline with the known values of its parameters.
pub fn draw(loaded: &Loaded, catalog: &Catalog, values: &BTreeMap<String, Value>) -> Drawing {
    let mut artist = Artist { drawing: Drawing::default(), specs: Vec::new() };
    artist.drawing.title = loaded.name().to_owned();
    artist.drawing.about.clone_from(&loaded.about);
    let faults = loaded.faults(catalog, values);
    let wrong =
        |place: &Place| faults.iter().any(|fault| fault.severity == Severity::Error && fault.place == *place);
    for declared in &loaded.declaration.boxes {
        let name = &declared.name;
        let own =
            faults.iter().filter(|fault| fault.severity == Severity::Error).any(|fault| match &fault.place {
                Place::Box(of) | Place::BoxKind(of) | Place::BoxSetting(of, _) => of == name,
                _ => false,
            });
        artist.declared(declared, catalog, values, own || loaded.is_tainted(name));
    }
    for (idx, edge) in loaded.declaration.edges.iter().enumerate() {
        let wrong = wrong(&Place::Edge(idx)) || wrong(&Place::EdgeFrom(idx)) || wrong(&Place::EdgeTo(idx));
        artist.edge(&edge.from, &edge.to, wrong);
    }
    for (idx, hint) in loaded.declaration.hints.iter().enumerate() {
        let wrong = wrong(&Place::Hint(idx)) || wrong(&Place::HintFrom(idx)) || wrong(&Place::HintTo(idx));
        artist.hint(&hint.from, &hint.to, wrong);
    }
    artist.drawing
}

struct Artist {
    drawing: Drawing,
    /// The operators of the boxes, where known.
    specs: Vec<Option<Arc<OperatorEntry>>>,
}

impl Artist {
    fn declared(
        &mut self,
        declared: &BoxDeclaration,
        catalog: &Catalog,
        values: &BTreeMap<String, Value>,
        wrong: bool,
    ) {
        let kind = match (declared.kind.resolve(values), &declared.kind) {
            (Some(Value::Text(kind)), _) => kind,
            (_, Setting::Parameter(name)) => format!("${{{name}}}"),
            _ => "?".to_owned(),
        };
        let spec = catalog.operator(&kind).cloned();
        let mut notes: Vec<String> = Vec::new();
        if let Some(copies) = declared.copies.as_ref().and_then(|copies| copies.resolve(values)) {
            let text = match copies {
                Value::Text(text) => text,
                other => other.to_string(),
            };
            notes.push(format!("copies: {text}"));
        }
        for (key, setting) in &declared.settings {
            let of_resource = spec.as_ref().is_some_and(|spec| {
                spec.parameters.iter().any(|parameter| {
                    parameter.name == key && matches!(parameter.kind, ParameterType::Resource(_))
                })
            });
            if of_resource && let Some(Value::Text(name)) = setting.resolve(values) {
                notes.push(format!("{key}: {name}"));
            }
        }
        let ports = |names: Vec<(&str, bool)>| -> Vec<Port> {
            let port = |(name, side): (&str, bool)| Port { name: name.to_owned(), side, connected: false };
            names.into_iter().map(port).collect()
        };
        let inputs = spec.as_ref().map_or(Vec::new(), |spec| {
            ports(spec.inputs.iter().map(|port| (&*port.name, port.mode == Mode::Side)).collect())
        });
        let outputs = spec
            .as_ref()
            .map_or(Vec::new(), |spec| ports(spec.outputs.iter().map(|port| (&*port.name, false)).collect()));
        self.drawing.boxes.push(DrawnBox {
            name: declared.name.clone(),
            about: spec.as_ref().map_or(String::new(), |spec| spec.about.to_string()),
            state: if wrong || spec.is_none() { State::Wrong } else { State::Right },
            kind,
            inputs,
            outputs,
            notes,
            measured: None,
        });
        self.specs.push(spec);
    }

    /// The index of a box; a missing one is added.
    fn find(&mut self, name: &str) -> usize {
        if let Some(idx) = self.drawing.boxes.iter().position(|drawn| drawn.name == name) {
            return idx;
        }
        self.specs.push(None);
        self.drawing.boxes.push(DrawnBox {
            name: name.to_owned(),
            kind: "missing".to_owned(),
            about: "no box has this name".to_owned(),
            state: State::Missing,
            inputs: Vec::new(),
            outputs: Vec::new(),
            notes: Vec::new(),
            measured: None,
        });
        self.drawing.boxes.len() - 1
    }

    fn edge(&mut self, from: &End, to: &End, wrong: bool) {
        let (from_idx, to_idx) = (self.find(&from.name), self.find(&to.name));
        let output = port(&mut self.drawing.boxes[from_idx].outputs, from.port.as_deref());
        let input = port(&mut self.drawing.boxes[to_idx].inputs, to.port.as_deref());
        let kind =
            if self.drawing.boxes[to_idx].inputs[input].side { ArrowKind::Side } else { ArrowKind::Stream };
        self.drawing.arrows.push(Arrow {
            from: from_idx,
            output,
            to: to_idx,
            input,
            kind,
            wrong,
            measured: None,
        });
    }

    fn hint(&mut self, from: &End, to: &End, wrong: bool) {
        let (from_idx, to_idx) = (self.find(&from.name), self.find(&to.name));
        let first = |end: &End, spec: Option<&OperatorEntry>| {
            let known = spec.and_then(|spec| spec.hints_written.first()).map(|hint| hint.name.to_string());
            end.port.clone().or(known).unwrap_or_default()
        };
        let name = first(from, self.specs[from_idx].as_deref());
        let kind = ArrowKind::Hint(name);
        self.drawing.arrows.push(Arrow {
            from: from_idx,
            output: 0,
            to: to_idx,
            input: 0,
            kind,
            wrong,
            measured: None,
        });
    }
}

/// The index of a port of a box; an unknown name is added, so that the arrow has an end.
fn port(ports: &mut Vec<Port>, name: Option<&str>) -> usize {
    let found = match name {
        None if !ports.is_empty() => Some(0),
        name => ports.iter().position(|port| port.name == name.unwrap_or_default()),
    };
    let idx = found.unwrap_or_else(|| {
        ports.push(Port { name: name.unwrap_or_default().to_owned(), side: false, connected: false });
        ports.len() - 1
    });
    ports[idx].connected = true;
    idx
}

impl DrawnBox {
    /// Whether no box of the measured run was busier.
    fn is_busiest(&self) -> bool {
        self.measured.as_ref().is_some_and(|measured| measured.busiest)
    }
}

impl Arrow {
    /// Whether a producer found it full in a measured run.
    fn was_full(&self) -> bool {
        self.measured.as_ref().is_some_and(|measured| measured.full)
    }
}

impl Drawing {
    /// The text at an arrow, line by line: its ports, and its figures.
    fn lines(&self, arrow: &Arrow) -> Vec<String> {
        let measured = arrow.measured.iter().flat_map(|measured| measured.lines.iter().cloned());
        std::iter::once(self.label(arrow)).filter(|label| !label.is_empty()).chain(measured).collect()
    }

    /// The text at an arrow: the ports' names, unless they are the only ones.
    fn label(&self, arrow: &Arrow) -> String {
        if let ArrowKind::Hint(name) = &arrow.kind {
            return name.clone();
        }
        let (outputs, inputs) = (&self.boxes[arrow.from].outputs, &self.boxes[arrow.to].inputs);
        let output = if outputs.len() > 1 { outputs[arrow.output].name.as_str() } else { "" };
        let input = if inputs.len() > 1 { inputs[arrow.input].name.as_str() } else { "" };
        let side = if arrow.kind == ArrowKind::Side { " (side)" } else { "" };
        match (output, input) {
            ("", "") => side.trim().to_owned(),
            ("", input) => format!("{input}{side}"),
            (output, "") => format!("{output}{side}"),
            (output, input) => format!("{output} to {input}{side}"),
        }
    }
}
