//! The ends of an edge or a hint: their boxes and ports, and whether their descriptors agree.

use std::collections::BTreeMap;

use super::{Checker, suggestion};
use crate::descriptor::Descriptor;
use crate::operator::OperatorEntry;
use crate::parameter::{Arguments, Parameter, ParameterType, Value};
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
        // Descriptors may depend on parameters. The ends agree if they do so for some values of the unknown parameters.
        let wanted: Vec<Descriptor> =
            consumer.possible_arguments().iter().map(|arguments| (taken.descriptor)(arguments)).collect();
        let mut possible =
            producer.possible_arguments().iter().map(|arguments| (given.descriptor)(arguments));
        let agreed = possible.find(|descriptor| wanted.iter().any(|wanted| descriptor.agrees_with(wanted)));
        let Some(descriptor) = agreed else {
            let (descriptor, wanted) = ((given.descriptor)(&producer.possible_arguments()[0]), &wanted[0]);
            let message = format!(
                "`{}.{}` gives {descriptor}, and `{}.{}` takes {wanted}",
                edge.from.name, given.name, edge.to.name, taken.name
            );
            let fitting = || boxes_that_give(boxes, wanted, to);
            let help = self.help(|| fitting().map(|name| format!("`{name}` gives these columns")));
            self.fault(Place::Edge(idx), FaultKind::DescriptorMismatch, message, "the columns differ", help);
            return None;
        };
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

/// The arguments that known values leave possible, for the columns of ports: first those with the defaults of the
/// unknown parameters, then those with each choice of an unknown parameter that has choices.
pub(super) fn possible_arguments(values: BTreeMap<String, Value>, unknown: &[&Parameter]) -> Vec<Arguments> {
    let choices = unknown.iter().flat_map(|parameter| match parameter.kind {
        ParameterType::Choice(choices) => choices.iter().map(|choice| (parameter.name, *choice)).collect(),
        _ => Vec::new(),
    });
    let with_choice = |(name, choice): (&str, &str)| {
        let mut values = values.clone();
        values.insert(name.to_owned(), Value::Text(choice.to_owned()));
        Arguments::new(values)
    };
    [Arguments::new(values.clone())].into_iter().chain(choices.map(with_choice)).collect()
}

fn boxes_that_give(boxes: &[Option<PlanBox>], wanted: &Descriptor, but: usize) -> Option<String> {
    boxes.iter().enumerate().filter(|(idx, _)| *idx != but).find_map(|(_, planned)| {
        let planned = planned.as_ref()?;
        let arguments = &planned.possible_arguments()[0];
        let port =
            planned.spec.outputs.iter().find(|port| (port.descriptor)(arguments).agrees_with(wanted))?;
        Some(format!("{}.{}", planned.name, port.name))
    })
}

#[cfg(test)]
mod tests {
    use arrow_schema::DataType;

    use crate::descriptor::{Column, Descriptor};
    use crate::operator::{Bind, BoxError, Catalog, In, Kind, Operator, OperatorSpec, Out};
    use crate::parameter::{Arguments, Default, Parameter, ParameterType, Value};
    use crate::plan::{
        BoxDeclaration, Declaration, EdgeDeclaration, End, FaultKind, ParameterDeclaration, Setting, check,
    };

    fn never(_: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
        Err(BoxError::new("these operators are checked and never run"))
    }

    /// The columns of objects of the kind that `holds` names.
    fn objects(arguments: &Arguments) -> Descriptor {
        let kind = match arguments.get("holds") {
            Some(Value::Text(holds)) if holds == "texts" => DataType::Utf8,
            _ => DataType::Float64,
        };
        Descriptor::new([Column::new("object", kind, "the object")])
    }

    const PARAMETERS: &[Parameter] = &[
        Parameter::new("path", ParameterType::Path, Default::Required, "the file"),
        Parameter::new(
            "holds",
            ParameterType::Choice(&["numbers", "texts"]),
            Default::Text("numbers"),
            "the kind of the objects",
        ),
    ];
    static READ: OperatorSpec = OperatorSpec {
        parameters: PARAMETERS,
        outputs: &[Out::new(0, "objects", objects, "the objects")],
        ..OperatorSpec::new("read", "Reads objects.", Kind::Stateful, never)
    };
    static WRITE: OperatorSpec = OperatorSpec {
        parameters: PARAMETERS,
        inputs: &[In::stream(0, "objects", objects, "the objects")],
        ..OperatorSpec::new("write", "Writes objects.", Kind::Stateful, never)
    };

    /// Whether an edge from `read` to `write` has the fault that its columns differ. The paths have no value yet.
    fn columns_differ(read_holds: Setting, write_holds: Setting) -> bool {
        let text = |name: &str| ParameterDeclaration {
            name: name.to_owned(),
            kind: ParameterType::Text,
            one_of: Vec::new(),
            default: None,
            optional: false,
            about: String::new(),
        };
        let declared = |kind: &str, holds| BoxDeclaration {
            name: kind.to_owned(),
            kind: Setting::Value(Value::Text(kind.to_owned())),
            copies: None,
            blocking: None,
            settings: vec![
                ("path".to_owned(), Setting::Parameter("path".to_owned())),
                ("holds".to_owned(), holds),
            ],
        };
        let end = |name: &str| End { name: name.to_owned(), port: None };
        let declaration = Declaration {
            parameters: vec![text("path"), text("kind")],
            boxes: vec![declared("read", read_holds), declared("write", write_holds)],
            edges: vec![EdgeDeclaration {
                from: end("read"),
                to: end("write"),
                envelopes: None,
                bytes: None,
            }],
            ..Declaration::default()
        };
        let (plan, faults) = check(&declaration, &Catalog::new([&READ, &WRITE], []), &declaration.defaults());
        let differ = faults.iter().any(|fault| fault.kind == FaultKind::DescriptorMismatch);
        assert_eq!(plan.is_none(), differ, "{faults:?}");
        differ
    }

    #[test]
    fn known_values_decide_the_columns_although_another_value_is_unknown() {
        let holds = |kind: &str| Setting::Value(Value::Text(kind.to_owned()));
        assert!(!columns_differ(holds("texts"), holds("texts")));
        assert!(columns_differ(holds("texts"), holds("numbers")));
        assert!(columns_differ(holds("numbers"), holds("texts")));
    }

    #[test]
    fn an_unknown_value_that_decides_the_columns_may_be_any_choice() {
        let (unknown, texts) = (|| Setting::Parameter("kind".to_owned()), Value::Text("texts".to_owned()));
        assert!(!columns_differ(unknown(), Setting::Value(texts.clone())));
        assert!(!columns_differ(Setting::Value(texts), unknown()));
        assert!(!columns_differ(unknown(), unknown()));
    }
}
