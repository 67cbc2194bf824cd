//! The pages of `boxwork boxes`: all operators and kinds of resource, or one of them with its whole table.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use boxwork_runtime::descriptor::Descriptor;
use boxwork_runtime::operator::{Catalog, Join, Kind, OperatorEntry, ResourceSpec};
use boxwork_runtime::parameter::{Arguments, Default, Parameter, Value};
use serde_json::{Value as Json, json};

/// The entries of a name in the catalogue; an operator and a kind of resource may share a name.
#[derive(Clone, Debug)]
pub struct Found {
    /// The operator.
    pub operator: Option<Arc<OperatorEntry>>,
    /// The kind of resource.
    pub resource: Option<&'static ResourceSpec>,
}

/// Looks a name up.
pub fn find(catalog: &Catalog, name: &str) -> Option<Found> {
    let found = Found { operator: catalog.operator(name).cloned(), resource: catalog.resource(name) };
    (found.operator.is_some() || found.resource.is_some()).then_some(found)
}

/// All operators and kinds of resource, one per line.
pub fn list_text(catalog: &Catalog) -> String {
    let operators: Vec<(&str, &str)> =
        catalog.operators().iter().map(|spec| (&*spec.name, &*spec.about)).collect();
    let resources: Vec<(&str, &str)> =
        catalog.resources().iter().map(|spec| (spec.name, spec.about)).collect();
    let width = operators.iter().chain(&resources).map(|(name, _)| name.len()).max().unwrap_or(0);
    let mut page = String::new();
    for (title, mut lines) in [("operators", operators), ("kinds of resource", resources)] {
        lines.sort_unstable();
        let _ = writeln!(page, "{title}");
        for (name, about) in lines {
            let _ = writeln!(page, "  {name:width$}  {about}");
        }
        page.push('\n');
    }
    page + "boxwork boxes NAME shows one with its ports and parameters\n"
}

/// [`list_text`] as JSON, with all details of each.
pub fn list_json(catalog: &Catalog) -> Json {
    let operators: Vec<Json> = catalog.operators().iter().map(|spec| operator_json(spec)).collect();
    let resources: Vec<Json> = catalog.resources().iter().map(|spec| resource_json(spec)).collect();
    json!({"operators": operators, "resources": resources})
}

impl Found {
    /// The page for users.
    pub fn text(&self) -> String {
        let operator = self.operator.as_deref().map(operator_text);
        let resource = self.resource.map(resource_text);
        [operator, resource].into_iter().flatten().collect::<Vec<_>>().join("\n")
    }

    /// The page for programs.
    pub fn json(&self) -> Json {
        let operators: Vec<Json> = self.operator.iter().map(|spec| operator_json(spec)).collect();
        let resources: Vec<Json> = self.resource.iter().map(|spec| resource_json(spec)).collect();
        json!({"operators": operators, "resources": resources})
    }
}

fn operator_text(spec: &OperatorEntry) -> String {
    let mut page = format!("{}: {}\n\n", spec.name, spec.about);
    let _ = writeln!(page, "an operator, {}: {}", spec.kind, copies(spec.kind));
    if let Some(class) = &spec.blocking {
        let _ = writeln!(page, "takes a permit of the blocking class `{class}` before it starts");
    }
    let defaults = defaults(&spec.parameters);
    if !spec.inputs.is_empty() {
        page += "\ninputs\n";
    }
    for port in &spec.inputs {
        let needed = if port.required { "" } else { ", optional" };
        let least = if port.envelopes_min > 1 {
            format!(", at least {} envelopes on its edge", port.envelopes_min)
        } else {
            String::new()
        };
        let _ = writeln!(page, "  {} ({}{needed}{least})  {}", port.name, port.mode, port.about);
        columns(&mut page, &(port.descriptor)(&defaults));
    }
    if !spec.outputs.is_empty() {
        page += "\noutputs\n";
    }
    for port in &spec.outputs {
        let _ = writeln!(page, "  {}  {}", port.name, port.about);
        columns(&mut page, &(port.descriptor)(&defaults));
    }
    parameters(&mut page, &spec.parameters);
    if !(spec.hints_read.is_empty() && spec.hints_written.is_empty()) {
        page += "\nhints\n";
    }
    let mut hint = |verb: &str, name: &str, join, about: &str| {
        let _ = writeln!(page, "  {verb} {name} ({})  {about}", join_word(join));
    };
    spec.hints_read.iter().for_each(|read| hint("reads", &read.name, read.join, &read.about));
    spec.hints_written.iter().for_each(|written| hint("writes", &written.name, written.join, &written.about));
    example(&mut page, &spec.example);
    page
}

fn resource_text(spec: &'static ResourceSpec) -> String {
    let mut page = format!("{}: {}\n\na kind of resource\n", spec.name, spec.about);
    parameters(&mut page, spec.parameters);
    example(&mut page, spec.example);
    page
}

fn copies(kind: Kind) -> &'static str {
    match kind {
        Kind::Stateless => "may have copies, and then the order of what it gives may change",
        Kind::Ordered => "may have copies, and the order of what it gives is kept",
        Kind::Stateful => "one copy only",
    }
}

fn columns(page: &mut String, descriptor: &Descriptor) {
    let names: Vec<String> =
        descriptor.columns().iter().map(|column| format!("{}: {}", column.name, column.kind)).collect();
    let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    for (name, column) in names.iter().zip(descriptor.columns()) {
        let _ = writeln!(page, "      {name:width$}  {}", column.about);
    }
}

fn parameters(page: &mut String, parameters: &[Parameter]) {
    if !parameters.is_empty() {
        *page += "\nparameters\n";
    }
    let width = parameters.iter().map(|parameter| parameter.name.len()).max().unwrap_or(0);
    for parameter in parameters {
        let unit = if parameter.unit.is_empty() { String::new() } else { format!(" in {}", parameter.unit) };
        let batched = if parameter.batched { "; many are split over requests" } else { "" };
        let _ = writeln!(page, "  {:width$}  {}", parameter.name, parameter.about);
        let _ = writeln!(
            page,
            "  {:width$}  {}{unit}; {}{batched}",
            "",
            parameter.kind,
            default_text(parameter.default)
        );
    }
}

fn default_text(default: Default) -> String {
    match (default, default.value()) {
        (Default::Required, _) => "required".to_owned(),
        (_, None) => "may be left out".to_owned(),
        (_, Some(value)) => format!("default {value}"),
    }
}

fn example(page: &mut String, example: &str) {
    if !example.is_empty() {
        *page += "\nexample\n";
        for line in example.lines() {
            let _ = writeln!(page, "  {line}");
        }
    }
}

/// The arguments of a table without given values.
pub(crate) fn defaults(parameters: &[Parameter]) -> Arguments {
    let known: BTreeMap<String, Value> = parameters
        .iter()
        .filter_map(|parameter| Some((parameter.name.to_owned(), parameter.default.value()?)))
        .collect();
    Arguments::new(known)
}

fn join_word(join: Join) -> &'static str {
    match join {
        Join::Minimum => "minimum",
        Join::Maximum => "maximum",
    }
}

/// A value in JSON.
pub(crate) fn value_json(value: &Value) -> Json {
    match value {
        Value::Boolean(value) => json!(value),
        Value::Integer(value) => json!(value),
        Value::Number(value) => json!(value),
        Value::Text(value) => json!(value),
        Value::List(values) => values.iter().map(value_json).collect(),
    }
}

/// The columns of a descriptor in JSON.
pub(crate) fn columns_json(descriptor: &Descriptor) -> Json {
    let columns = descriptor.columns().iter();
    columns
        .map(|column| json!({"name": column.name, "type": column.kind.to_string(), "about": column.about}))
        .collect()
}

fn operator_json(spec: &OperatorEntry) -> Json {
    let defaults = defaults(&spec.parameters);
    let inputs: Vec<Json> = spec
        .inputs
        .iter()
        .map(|port| {
            json!({
                "name": port.name, "mode": port.mode.to_string(), "required": port.required,
                "envelopes_min": port.envelopes_min, "columns": columns_json(&(port.descriptor)(&defaults)),
                "about": port.about,
            })
        })
        .collect();
    let outputs: Vec<Json> = spec
        .outputs
        .iter()
        .map(|port| {
            let columns = columns_json(&(port.descriptor)(&defaults));
            json!({"name": port.name, "columns": columns, "about": port.about})
        })
        .collect();
    let hint = |name: &str, join, about: &str| json!({"name": name, "join": join_word(join), "about": about});
    let hints_read: Vec<Json> =
        spec.hints_read.iter().map(|read| hint(&read.name, read.join, &read.about)).collect();
    let hints_written: Vec<Json> =
        spec.hints_written.iter().map(|written| hint(&written.name, written.join, &written.about)).collect();
    json!({
        "name": spec.name, "about": spec.about, "kind": spec.kind.to_string(),
        "copies": spec.kind != Kind::Stateful, "blocking": spec.blocking,
        "inputs": inputs, "outputs": outputs, "parameters": parameters_json(&spec.parameters),
        "hints_read": hints_read, "hints_written": hints_written,
        "example": spec.example,
    })
}

fn resource_json(spec: &'static ResourceSpec) -> Json {
    json!({
        "name": spec.name, "about": spec.about, "parameters": parameters_json(spec.parameters),
        "example": spec.example,
    })
}

fn parameters_json(parameters: &[Parameter]) -> Vec<Json> {
    parameters
        .iter()
        .map(|parameter| {
            json!({
                "name": parameter.name, "type": parameter.kind.to_string(), "unit": parameter.unit,
                "required": parameter.default == Default::Required,
                "default": parameter.default.value().as_ref().map(value_json),
                "batched": parameter.batched, "about": parameter.about,
            })
        })
        .collect()
}
