//! The only file that writes YAML: a declaration as the text of a pipeline.

use boxwork_runtime::parameter::{ParameterType, Value};
use boxwork_runtime::plan::declaration::{BLOCKING, COPIES, KIND};
use boxwork_runtime::plan::{
    BoxDeclaration, Declaration, EdgeDeclaration, End, ParameterDeclaration, Piece, ResourceDeclaration,
    Setting,
};
use serde_yaml::{Mapping, Value as Yaml};

use crate::document::{TYPES, VERSION};

/// The text of a pipeline, a blank line between its sections.
///
/// # Panics
/// When the YAML crate refuses a map of plain values, which only a bug can cause.
pub(super) fn text(about: &str, declaration: &Declaration) -> String {
    let mut head = Mapping::new();
    put(&mut head, "boxwork", VERSION);
    if !about.is_empty() {
        put(&mut head, "about", about);
    }
    if let Some(queries) = declaration.queries {
        put(&mut head, "queries", queries);
    }
    let named = |entries: Vec<(&String, Mapping)>| {
        let entries = entries.into_iter().map(|(name, map)| (name.as_str().into(), map.into()));
        Yaml::Mapping(entries.collect())
    };
    let parameters = declaration.parameters.iter().map(|of| (&of.name, parameter(of))).collect();
    let resources = declaration.resources.iter().map(|of| (&of.name, resource(of))).collect();
    let boxes = declaration.boxes.iter().map(|of| (&of.name, declared_box(of))).collect();
    let edges = Yaml::Sequence(declaration.edges.iter().map(edge).collect());
    let hints = declaration.hints.iter().map(|hint| arrow(&hint.from, "~>", &hint.to).into());
    let sections = [
        ("parameters", named(parameters)),
        ("resources", named(resources)),
        ("boxes", named(boxes)),
        ("edges", edges),
        ("hints", Yaml::Sequence(hints.collect())),
    ];
    let mut page = written(&head);
    for (name, section) in sections {
        let is_empty = match &section {
            Yaml::Mapping(entries) => entries.is_empty(),
            Yaml::Sequence(items) => items.is_empty(),
            _ => false,
        };
        if !is_empty {
            let mut map = Mapping::new();
            put(&mut map, name, section);
            page.push('\n');
            page += &written(&map);
        }
    }
    page
}

fn written(map: &Mapping) -> String {
    serde_yaml::to_string(map).unwrap_or_else(|error| panic!("plain values are no YAML: {error}"))
}

fn put(map: &mut Mapping, key: &str, value: impl Into<Yaml>) {
    map.insert(key.into(), value.into());
}

fn parameter(parameter: &ParameterDeclaration) -> Mapping {
    let mut map = Mapping::new();
    let named = TYPES.iter().find(|(_, kind)| *kind == without_range(parameter.kind));
    put(&mut map, "type", named.map_or("text", |(name, _)| name));
    if let Some(default) = &parameter.default {
        put(&mut map, "default", yaml(default));
    }
    match parameter.kind {
        ParameterType::Integer { minimum, maximum } => {
            if minimum != i64::MIN {
                put(&mut map, "minimum", minimum);
            }
            if maximum != i64::MAX {
                put(&mut map, "maximum", maximum);
            }
        }
        ParameterType::Number { minimum, maximum } => {
            if minimum != f64::MIN {
                put(&mut map, "minimum", minimum);
            }
            if maximum != f64::MAX {
                put(&mut map, "maximum", maximum);
            }
        }
        _ => {}
    }
    if !parameter.one_of.is_empty() {
        let words = parameter.one_of.iter().map(|word| word.as_str().into());
        put(&mut map, "one_of", Yaml::Sequence(words.collect()));
    }
    if parameter.optional {
        put(&mut map, "optional", true);
    }
    if !parameter.about.is_empty() {
        put(&mut map, "about", parameter.about.as_str());
    }
    map
}

/// A type as the language names it: its range stands beside the name.
fn without_range(kind: ParameterType) -> ParameterType {
    match kind {
        ParameterType::Integer { .. } => ParameterType::Integer { minimum: i64::MIN, maximum: i64::MAX },
        ParameterType::Number { .. } => ParameterType::Number { minimum: f64::MIN, maximum: f64::MAX },
        other => other,
    }
}

fn resource(resource: &ResourceDeclaration) -> Mapping {
    let mut map = Mapping::new();
    put(&mut map, KIND, expression(&resource.kind));
    resource.settings.iter().for_each(|(key, setting)| put(&mut map, key, expression(setting)));
    map
}

fn declared_box(declared: &BoxDeclaration) -> Mapping {
    let mut map = Mapping::new();
    put(&mut map, KIND, expression(&declared.kind));
    declared.settings.iter().for_each(|(key, setting)| put(&mut map, key, expression(setting)));
    if let Some(copies) = &declared.copies {
        put(&mut map, COPIES, expression(copies));
    }
    if let Some(class) = &declared.blocking {
        put(&mut map, BLOCKING, literal(class));
    }
    map
}

fn edge(edge: &EdgeDeclaration) -> Yaml {
    if edge.envelopes.is_none() && edge.bytes.is_none() {
        return arrow(&edge.from, "->", &edge.to).into();
    }
    let mut map = Mapping::new();
    put(&mut map, "from", end(&edge.from));
    put(&mut map, "to", end(&edge.to));
    if let Some(envelopes) = edge.envelopes {
        put(&mut map, "envelopes", envelopes);
    }
    if let Some(bytes) = edge.bytes {
        put(&mut map, "bytes", bytes);
    }
    map.into()
}

fn arrow(from: &End, arrow: &str, to: &End) -> String {
    format!("{} {arrow} {}", end(from), end(to))
}

fn end(end: &End) -> String {
    match &end.port {
        Some(port) => format!("{}.{port}", end.name),
        None => end.name.clone(),
    }
}

/// A setting; the parameters in it as `${name}`.
fn expression(setting: &Setting) -> Yaml {
    match setting {
        Setting::Value(value) => yaml(value),
        Setting::Parameter(name) => format!("${{{name}}}").into(),
        Setting::Text(pieces) => {
            let piece = |piece: &Piece| match piece {
                Piece::Literal(text) => literal(text),
                Piece::Parameter(name) => format!("${{{name}}}"),
            };
            pieces.iter().map(piece).collect::<String>().into()
        }
        Setting::List(items) => Yaml::Sequence(items.iter().map(expression).collect()),
    }
}

fn yaml(value: &Value) -> Yaml {
    match value {
        Value::Boolean(value) => (*value).into(),
        Value::Integer(value) => (*value).into(),
        Value::Number(value) => (*value).into(),
        Value::Text(text) => literal(text).into(),
        Value::List(values) => Yaml::Sequence(values.iter().map(yaml).collect()),
    }
}

/// A text that no reader takes for an interpolation.
fn literal(text: &str) -> String {
    text.replace('$', "$$")
}
