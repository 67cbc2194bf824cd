//! The JSON schema (draft 2020-12) of pipelines, made from the catalogue, so that an editor completes and checks the
//! operators of this very command, including a user's own.

use boxwork_runtime::operator::{Catalog, Kind};
use boxwork_runtime::parameter::{Parameter, ParameterType, QUERIES, QUERIES_MAX};
use boxwork_runtime::plan::COPIES_MAX;
use serde_json::{Map, Value as Json, json};

use crate::catalogue::value_json;
use crate::document::TYPES;

/// A box, a resource or a parameter: letters, digits, `_` and `-`.
const NAME: &str = r"^[\p{L}\p{N}_-]+$";
/// A text that contains a parameter of the pipeline.
const INTERPOLATED: &str = r"\$\{[\p{L}\p{N}_-]+\}";
/// A box, optionally with a port.
const END: &str = r"^\s*[\p{L}\p{N}_-]+(\.[\p{L}\p{N}_-]+)?\s*$";
const CHAIN: &str =
    r"^\s*[\p{L}\p{N}_-]+(\.[\p{L}\p{N}_-]+)?(\s*->\s*[\p{L}\p{N}_-]+(\.[\p{L}\p{N}_-]+)?)+\s*$";
const HINT: &str =
    r"^\s*[\p{L}\p{N}_-]+(\.[\p{L}\p{N}_-]+)?(\s*~>\s*[\p{L}\p{N}_-]+(\.[\p{L}\p{N}_-]+)?)+\s*$";

/// The schema.
pub fn schema(catalog: &Catalog) -> Json {
    let boxes = catalog.operators().iter().map(|spec| {
        let mut own = own_box_keys(spec.kind == Kind::Stateful);
        own.insert("kind".into(), json!({"const": spec.name}));
        (&*spec.name, &*spec.about, &*spec.parameters, own)
    });
    let resources = catalog.resources().iter().map(|spec| {
        let own = Map::from_iter([("kind".to_owned(), json!({"const": spec.name}))]);
        (spec.name, spec.about, spec.parameters, own)
    });
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A Boxwork pipeline",
        "type": "object",
        "properties": {
            "boxwork": {"const": 1, "description": "The version of the language."},
            "about": {"type": "string", "description": "The pipeline's purpose."},
            "queries": {
                "description": "Queries that one request answers at most; a run with more makes several requests.",
                "default": QUERIES, "type": "integer", "minimum": 1, "maximum": QUERIES_MAX,
            },
            "parameters": map_of("Values that a run can set with --set NAME=VALUE.", "#/$defs/parameter"),
            "resources": map_of("Values loaded once and shared.", "#/$defs/resource"),
            "boxes": map_of("The boxes, each of a kind that `boxwork boxes` lists.", "#/$defs/box"),
            "edges": {
                "description": "Connections between boxes.", "type": ["array", "null"],
                "items": {"$ref": "#/$defs/edge"},
            },
            "hints": {
                "description": "Values that boxes share; drawn dashed.", "type": ["array", "null"],
                "items": {"type": "string", "pattern": HINT},
            },
        },
        "required": ["boxwork", "boxes"],
        "additionalProperties": false,
        "$defs": {
            "name": {"type": "string", "pattern": NAME},
            "interpolated": {"type": "string", "pattern": INTERPOLATED},
            "parameter": parameter_declaration(),
            "resource": kinds(catalog.resources().iter().map(|spec| (spec.name, spec.about)).collect(), resources),
            "box": kinds(catalog.operators().iter().map(|spec| (&*spec.name, &*spec.about)).collect(), boxes),
            "edge": edge(),
        },
    })
}

fn map_of(description: &str, reference: &str) -> Json {
    json!({
        "description": description, "type": ["object", "null"],
        "propertyNames": {"$ref": "#/$defs/name"},
        "additionalProperties": {"$ref": reference},
    })
}

/// An object whose `kind` determines the other keys; one `if` per kind, so that an editor reports the wrong key and not
/// all kinds that did not match.
fn kinds<'a>(
    names: Vec<(&str, &str)>,
    tables: impl Iterator<Item = (&'a str, &'a str, &'a [Parameter], Map<String, Json>)>,
) -> Json {
    let mut known: Vec<Json> =
        names.iter().map(|(name, about)| json!({"const": name, "description": about})).collect();
    known.push(json!({"$ref": "#/$defs/interpolated"}));
    let conditions: Vec<Json> = tables
        .map(|(name, about, parameters, mut properties)| {
            let mut required = vec!["kind"];
            for parameter in parameters {
                properties.insert(parameter.name.to_owned(), parameter_schema(parameter));
                if parameter.default == boxwork_runtime::parameter::Default::Required {
                    required.push(parameter.name);
                }
            }
            json!({
                "if": {"properties": {"kind": {"const": name}}, "required": ["kind"]},
                "then": {
                    "description": about, "properties": properties, "required": required,
                    "additionalProperties": false,
                },
            })
        })
        .collect();
    let mut schema = json!({
        "type": "object", "properties": {"kind": {"anyOf": known}}, "required": ["kind"],
    });
    if !conditions.is_empty() {
        schema["allOf"] = Json::Array(conditions);
    }
    schema
}

fn own_box_keys(stateful: bool) -> Map<String, Json> {
    let copies = if stateful {
        json!({"const": 1, "description": "The operator has state: one copy only."})
    } else {
        json!({
            "description": "The number of copies; `auto` is one for each slot.",
            "default": 1,
            "anyOf": [
                {"const": "auto"}, {"type": "integer", "minimum": 1, "maximum": COPIES_MAX},
                {"$ref": "#/$defs/interpolated"},
            ],
        })
    };
    let blocking = json!({
        "description": "The class whose permit is taken before each firing.", "type": "string", "minLength": 1,
    });
    Map::from_iter([("copies".to_owned(), copies), ("blocking".to_owned(), blocking)])
}

fn parameter_schema(parameter: &Parameter) -> Json {
    let unit = if parameter.unit.is_empty() { String::new() } else { format!(" In {}.", parameter.unit) };
    let mut schema = type_schema(&parameter.kind);
    // A text may contain a parameter anyway; all other types have a second form.
    if schema["type"] != "string" || schema.get("enum").is_some() {
        schema = json!({"anyOf": [schema, {"$ref": "#/$defs/interpolated"}]});
    }
    schema["description"] = format!("{} ({}).{unit}", parameter.about, parameter.kind).into();
    if let Some(value) = parameter.default.value() {
        schema["default"] = value_json(&value);
    }
    schema
}

fn type_schema(kind: &ParameterType) -> Json {
    match kind {
        ParameterType::Boolean => json!({"type": "boolean"}),
        ParameterType::Integer { minimum, maximum } => {
            let mut schema = json!({"type": "integer"});
            if *minimum != i64::MIN {
                schema["minimum"] = json!(minimum);
            }
            if *maximum != i64::MAX {
                schema["maximum"] = json!(maximum);
            }
            schema
        }
        ParameterType::Number { minimum, maximum } => {
            let mut schema = json!({"type": "number"});
            if *minimum != f64::MIN {
                schema["minimum"] = json!(minimum);
            }
            if *maximum != f64::MAX {
                schema["maximum"] = json!(maximum);
            }
            schema
        }
        ParameterType::Positive => json!({"type": "number", "exclusiveMinimum": 0}),
        ParameterType::Text | ParameterType::Path | ParameterType::Resource(_) => json!({"type": "string"}),
        ParameterType::Choice(words) => json!({"type": "string", "enum": words}),
        ParameterType::Device => {
            json!({"type": "string", "pattern": "^(auto|cpu|gpu(:[0-9]+(, *[0-9]+)*)?)$"})
        }
        ParameterType::List(item) => {
            let item = type_schema(item);
            let items = json!({"anyOf": [item, {"$ref": "#/$defs/interpolated"}]});
            // A single value represents a list of one.
            json!({"anyOf": [{"type": "array", "items": items}, item]})
        }
    }
}

fn parameter_declaration() -> Json {
    let words: Vec<&str> = TYPES.iter().map(|(word, _)| *word).collect();
    json!({
        "type": "object",
        "properties": {
            "type": {"enum": words, "description": "The type of its values."},
            "default": {"description": "The value by default.", "not": {"type": ["object", "null"]}},
            "minimum": {"type": "number", "description": "The least value."},
            "maximum": {"type": "number", "description": "The greatest value."},
            "one_of": {"type": "array", "items": {"type": "string"}, "minItems": 1,
                       "description": "The only values allowed."},
            "optional": {"type": "boolean", "description": "Whether it may be left out with no default."},
            "about": {"type": "string", "description": "One line on what it does."},
        },
        "required": ["type"],
        "additionalProperties": false,
    })
}

fn edge() -> Json {
    json!({
        "anyOf": [
            {"type": "string", "pattern": CHAIN},
            {
                "type": "object",
                "properties": {
                    "from": {"type": "string", "pattern": END, "description": "BOX or BOX.OUTPUT"},
                    "to": {"type": "string", "pattern": END, "description": "BOX or BOX.INPUT"},
                    "envelopes": {"type": "integer", "minimum": 1, "description": "Envelopes that the edge holds."},
                    "bytes": {
                        "description": "Bytes that the edge holds: a number, or one with a unit, such as 64 MiB.",
                        "anyOf": [
                            {"type": "integer", "minimum": 1},
                            {"type": "string", "pattern": r"^\s*[0-9]+\s*(B|kB|KB|MB|GB|KiB|MiB|GiB)?\s*$"},
                        ],
                    },
                },
                "required": ["from", "to"],
                "additionalProperties": false,
            },
        ],
    })
}
