//! The ends of an edge or a hint: their boxes and ports, and whether their descriptors agree.

use std::collections::BTreeMap;

use super::{Checker, suggestion};
use crate::operator::OperatorEntry;
use crate::parameter::Arguments;
use crate::plan::declaration::{EdgeDeclaration, End};
use crate::plan::{EDGE_BYTES, FaultKind, Place, PlanBox, PlanEdge, PlanHint};

impl Checker<'_> {
    fn find<'b>(
        &mut self,
        end: &End,
        place: &Place,
        boxes: &'b [Option<PlanBox>],
    ) -> Option<(usize, &'b PlanBox)> {
        let idx = self.declaration.boxes.iter().position(|declared| declared.name == end.name);
        let Some(idx) = idx else {
            let names =
                || self.declaration.boxes.iter().map(|declared| declared.name.as_str()).collect::<Vec<_>>();
            let help = self.help(|| Some(suggestion(&end.name, &names(), "boxes")));
            let message = format!("there is no box `{}`", end.name);
            self.fault(place.clone(), FaultKind::UnknownBox(end.name.clone()), message, "no such box", help);
            return None;
        };
        // A box of an unknown operator has its own fault; more about its ports would be noise.
        boxes[idx].as_ref().map(|planned| (idx, planned))
    }

    fn port(&mut self, end: &End, place: &Place, planned: &PlanBox, side: Side) -> Option<usize> {
        let names = side.names(&planned.spec);
        let Some(port) = &end.port else {
            if names.is_empty() {
                let message = format!("box `{}` ({}) has no {}", end.name, planned.spec.name, side.word());
                self.fault(place.clone(), FaultKind::NoPort, message, &format!("no {}", side.word()), None);
                return None;
            }
            return Some(0);
        };
        let idx = names.iter().position(|name| name == port);
        if idx.is_none() {
            let renamed = self.catalog.new_name(&format!("{}.{port}", planned.spec.name));
            let help = match renamed {
                Some(new) => format!("it is `{new}` now"),
                None => suggestion(port, &names, side.word_many()),
            };
            let message =
                format!("box `{}` ({}) has no {} `{port}`", end.name, planned.spec.name, side.word());
            self.fault(
                place.clone(),
                FaultKind::UnknownPort,
                message,
                &format!("no such {}", side.word()),
                Some(help),
            );
        }
        idx
    }

    /// Every edge, with nothing in the place of an edge that has a fault.
    pub(super) fn edges(&mut self, boxes: &[Option<PlanBox>]) -> Vec<Option<PlanEdge>> {
        let declared: Vec<EdgeDeclaration> = self.declaration.edges.clone();
        declared.iter().enumerate().map(|(idx, edge)| self.edge(idx, edge, boxes)).collect()
    }

    fn edge(&mut self, idx: usize, edge: &EdgeDeclaration, boxes: &[Option<PlanBox>]) -> Option<PlanEdge> {
        let (at_from, at_to) = (Place::EdgeFrom(idx), Place::EdgeTo(idx));
        let from = self.find(&edge.from, &at_from, boxes);
        let to = self.find(&edge.to, &at_to, boxes);
        let output = from.and_then(|(_, planned)| self.port(&edge.from, &at_from, planned, Side::Output));
        let input = to.and_then(|(_, planned)| self.port(&edge.to, &at_to, planned, Side::Input));
        let ((from, producer), (to, consumer), output, input) = (from?, to?, output?, input?);
        let (given, taken) = (&producer.spec.outputs[output], &consumer.spec.inputs[input]);
        if let Some(envelopes) = edge.envelopes
            && envelopes < taken.envelopes_min.max(1)
        {
            let message = format!(
                "the edge holds {envelopes} envelopes, and `{}.{}` needs {} to make progress",
                edge.to.name,
                taken.name,
                taken.envelopes_min.max(1)
            );
            self.fault(
                Place::Edge(idx),
                FaultKind::EdgeTooSmall,
                message,
                "too small",
                Some(format!("write `envelopes: {}` or more", taken.envelopes_min.max(1))),
            );
        }
        if edge.bytes == Some(0) {
            let message = "the edge holds no bytes".to_owned();
            self.fault(
                Place::Edge(idx),
                FaultKind::EdgeTooSmall,
                message,
                "too small",
                Some(format!("leave `bytes` out for {EDGE_BYTES}")),
            );
        }
        // Descriptors may depend on parameters; the table's defaults replace unknown values.
        let unknown = Arguments::new(BTreeMap::new());
        let descriptor = (given.descriptor)(producer.arguments.as_ref().unwrap_or(&unknown));
        let wanted = (taken.descriptor)(consumer.arguments.as_ref().unwrap_or(&unknown));
        if !descriptor.agrees_with(&wanted) {
            let message = format!(
                "`{}.{}` gives {descriptor}, and `{}.{}` takes {wanted}",
                edge.from.name, given.name, edge.to.name, taken.name
            );
            let fitting = || boxes_that_give(boxes, &wanted, to);
            let help = self.help(|| fitting().map(|name| format!("`{name}` gives these columns")));
            self.fault(Place::Edge(idx), FaultKind::DescriptorMismatch, message, "the columns differ", help);
            return None;
        }
        let bytes = edge.bytes.unwrap_or(EDGE_BYTES);
        Some(PlanEdge { from, output, to, input, envelopes: edge.envelopes, bytes, descriptor })
    }

    /// The hints without a fault.
    pub(super) fn hints(&mut self, boxes: &[Option<PlanBox>]) -> Vec<PlanHint> {
        let mut planned = Vec::new();
        for (idx, hint) in self.declaration.hints.clone().iter().enumerate() {
            let (at_from, at_to) = (Place::HintFrom(idx), Place::HintTo(idx));
            let from = self.find(&hint.from, &at_from, boxes);
            let to = self.find(&hint.to, &at_to, boxes);
            let written =
                from.and_then(|(_, planned)| self.port(&hint.from, &at_from, planned, Side::Written));
            let read = to.and_then(|(_, planned)| self.port(&hint.to, &at_to, planned, Side::Read));
            let (Some((from, writer)), Some((to, reader)), Some(written), Some(read)) =
                (from, to, written, read)
            else {
                continue;
            };
            let (a, b) = (&writer.spec.hints_written[written], &reader.spec.hints_read[read]);
            if a.join == b.join {
                planned.push(PlanHint { from, written, to, read });
            } else {
                let message =
                    format!("`{}` joins by its {:?}, and `{}` by its {:?}", a.name, a.join, b.name, b.join);
                self.fault(Place::Hint(idx), FaultKind::HintMismatch, message, "the joins differ", None);
            }
        }
        planned
    }
}

/// A side of a box that an end of an edge can name.
#[derive(Clone, Copy)]
enum Side {
    Input,
    Output,
    Written,
    Read,
}

impl Side {
    fn names(self, spec: &OperatorEntry) -> Vec<&str> {
        match self {
            Self::Input => spec.inputs.iter().map(|port| &*port.name).collect(),
            Self::Output => spec.outputs.iter().map(|port| &*port.name).collect(),
            Self::Written => spec.hints_written.iter().map(|hint| &*hint.name).collect(),
            Self::Read => spec.hints_read.iter().map(|hint| &*hint.name).collect(),
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Input => "input",
            Self::Output => "output",
            Self::Written => "hint that it writes",
            Self::Read => "hint that it reads",
        }
    }

    fn word_many(self) -> &'static str {
        match self {
            Self::Input => "inputs",
            Self::Output => "outputs",
            Self::Written => "hints that it writes",
            Self::Read => "hints that it reads",
        }
    }
}

fn boxes_that_give(
    boxes: &[Option<PlanBox>],
    wanted: &crate::descriptor::Descriptor,
    but: usize,
) -> Option<String> {
    let unknown = Arguments::new(BTreeMap::new());
    boxes.iter().enumerate().filter(|(idx, _)| *idx != but).find_map(|(_, planned)| {
        let planned = planned.as_ref()?;
        let arguments = planned.arguments.as_ref().unwrap_or(&unknown);
        let port =
            planned.spec.outputs.iter().find(|port| (port.descriptor)(arguments).agrees_with(wanted))?;
        Some(format!("{}.{}", planned.name, port.name))
    })
}
