//! The declaration of one parameter: `{type: integer, default: 10, minimum: 1}`.

use boxwork_runtime::parameter::{ParameterType, Value, nearest};
use boxwork_runtime::plan::{ParameterDeclaration, Setting};

use super::Reader;
use crate::document::limits::DEFAULT_BYTES_MAX;
use crate::document::node::Node;
use crate::document::span::{Marked, Span};
use crate::document::{Flaw, ParameterEntry};

const KEYS: [&str; 7] = ["type", "default", "minimum", "maximum", "one_of", "optional", "about"];

/// The types that a pipeline can declare, by name.
pub(crate) const TYPES: [(&str, ParameterType); 9] = [
    ("boolean", ParameterType::Boolean),
    ("integer", INTEGER),
    ("number", NUMBER),
    ("text", ParameterType::Text),
    ("path", ParameterType::Path),
    ("list of text", ParameterType::List(&ParameterType::Text)),
    ("list of path", ParameterType::List(&ParameterType::Path)),
    ("list of integer", ParameterType::List(&INTEGER)),
    ("list of number", ParameterType::List(&NUMBER)),
];
const INTEGER: ParameterType = ParameterType::Integer { minimum: i64::MIN, maximum: i64::MAX };
const NUMBER: ParameterType = ParameterType::Number { minimum: f64::MIN, maximum: f64::MAX };

/// Reads a parameter; `None` if its type is unknown.
pub(super) fn read(
    reader: &mut Reader<'_>,
    name: &Marked<String>,
    node: &Marked<Node>,
) -> Option<ParameterEntry> {
    if !matches!(node.value, Node::Map(_)) {
        let message = format!("the parameter `{}` is {}, not a map", name.value, node.value.what());
        let example = format!("write `{}: {{type: integer, default: 10, about: what it does}}`", name.value);
        let span = if node.value == Node::Null { name.span } else { node.span };
        reader.flaw(Flaw::error(span, "wrong-shape", message, "not a map").help(example));
        return None;
    }
    let fields = reader.fields(node, &format!("the parameter `{}`", name.value), Some(&KEYS))?;
    let field = |key: &str| fields.iter().find(|(name, _)| name.value == key).map(|(_, node)| *node);
    let kind = kind(reader, name, field("type"))?;
    let kind = range(reader, kind, field("minimum"), field("maximum"));
    let one_of = one_of(reader, &kind, field("one_of"));
    let optional = match field("optional").map(|node| (&node.value, node.span)) {
        None => false,
        Some((Node::Boolean(optional), _)) => *optional,
        Some((other, span)) => {
            let message = format!("`optional` is true or false, not {}", other.what());
            reader.flaw(Flaw::error(span, "wrong-shape", message, "wrong value"));
            false
        }
    };
    let about = field("about").and_then(|node| reader.text(node, "about")).unwrap_or_default();
    let default = field("default").and_then(|node| default(reader, node));
    if optional && field("default").is_some() {
        let message = format!("`{}` is optional and has a default, so it is never absent", name.value);
        let span = field("optional").map_or(name.span, |node| node.span);
        let help = "remove `optional` or `default`";
        reader.flaw(Flaw::error(span, "optional-with-default", message, "has a default").help(help));
    }
    let span = field("default").map_or(name.span, |node| node.span);
    let declaration =
        ParameterDeclaration { name: name.value.clone(), kind, one_of, default, optional, about };
    Some(ParameterEntry { name: name.clone(), declaration, default: span })
}

fn kind(
    reader: &mut Reader<'_>,
    name: &Marked<String>,
    node: Option<&Marked<Node>>,
) -> Option<ParameterType> {
    let words = TYPES.iter().map(|(word, _)| *word);
    let all = TYPES.map(|(word, _)| word).join(", ");
    let Some(node) = node else {
        let message = format!("the parameter `{}` has no `type`", name.value);
        let help = format!("add `type:` with one of {all}");
        reader.flaw(Flaw::error(name.span, "missing-key", message, "no type").help(help));
        return None;
    };
    let found = match &node.value {
        Node::Text(text) => text.split_whitespace().collect::<Vec<_>>().join(" "),
        _ => String::new(),
    };
    if let Some((_, kind)) = TYPES.iter().find(|(word, _)| *word == found) {
        return Some(*kind);
    }
    let meant = match found.as_str() {
        "int" | "count" => Some("integer"),
        "float" | "double" | "real" => Some("number"),
        "string" | "str" => Some("text"),
        "bool" => Some("boolean"),
        "file" | "folder" | "directory" => Some("path"),
        "list" | "array" => Some("list of text"),
        "list of string" | "list of texts" => Some("list of text"),
        other => nearest(other, words),
    };
    let help = meant.map_or_else(|| format!("the types: {all}"), |word| format!("did you mean `{word}`?"));
    let message = format!("the parameter `{}`: there is no such type", name.value);
    reader.flaw(Flaw::error(node.span, "unknown-type", message, "no such type").help(help));
    None
}

fn range(
    reader: &mut Reader<'_>,
    kind: ParameterType,
    least: Option<&Marked<Node>>,
    most: Option<&Marked<Node>>,
) -> ParameterType {
    let (Some(span), one) = (least.or(most).map(|node| node.span), |node: Option<&Marked<Node>>| {
        node.map(|node| (node.value.clone(), node.span))
    }) else {
        return kind;
    };
    let ranged = match kind {
        ParameterType::Integer { mut minimum, mut maximum } => {
            for (bound, given) in [(&mut minimum, one(least)), (&mut maximum, one(most))] {
                match given {
                    Some((Node::Integer(value), _)) => *bound = value,
                    Some((_, span)) => wrong_bound(reader, span, "a whole number"),
                    None => {}
                }
            }
            (minimum <= maximum).then_some(ParameterType::Integer { minimum, maximum })
        }
        ParameterType::Number { mut minimum, mut maximum } => {
            for (bound, given) in [(&mut minimum, one(least)), (&mut maximum, one(most))] {
                match given {
                    Some((Node::Integer(value), _)) => *bound = value as f64,
                    Some((Node::Number(value), _)) if value.is_finite() => *bound = value,
                    Some((_, span)) => wrong_bound(reader, span, "a number"),
                    None => {}
                }
            }
            (minimum <= maximum).then_some(ParameterType::Number { minimum, maximum })
        }
        _ => {
            let message = "only an integer or a number has a `minimum` or `maximum`";
            reader.flaw(Flaw::error(span, "wrong-range", message, "no range here"));
            Some(kind)
        }
    };
    ranged.unwrap_or_else(|| {
        let message = "`minimum` is greater than `maximum`: no value fits";
        reader.flaw(Flaw::error(span, "wrong-range", message, "no value fits"));
        kind
    })
}

fn wrong_bound(reader: &mut Reader<'_>, span: Span, wanted: &str) {
    let message = format!("the bound of a range is {wanted} here");
    reader.flaw(Flaw::error(span, "wrong-range", message, "wrong value"));
}

fn one_of(reader: &mut Reader<'_>, kind: &ParameterType, node: Option<&Marked<Node>>) -> Vec<String> {
    let Some(node) = node else { return Vec::new() };
    let (mut words, mut is_whole) = (Vec::new(), true);
    match &node.value {
        Node::List(items) if !items.is_empty() => {
            for item in items {
                match &item.value {
                    Node::Text(word) => words.push(word.clone()),
                    other => {
                        let message = format!("`one_of` lists texts, and this is {}", other.what());
                        let help = "put quotes around it";
                        reader.flaw(Flaw::error(item.span, "wrong-shape", message, "not text").help(help));
                        is_whole = false;
                    }
                }
            }
        }
        _ => {
            let flaw = Flaw::error(node.span, "wrong-shape", "`one_of` is a list of texts", "not a list");
            reader.flaw(flaw.help("write `one_of: [fast, exact]`"));
        }
    }
    if !matches!(kind, ParameterType::Text | ParameterType::Path) {
        let message = "`one_of` is for parameters of type text or path";
        reader.flaw(Flaw::error(node.span, "wrong-shape", message, "not for this type"));
    }
    // The default may be one of the words that could not be read.
    if is_whole { words } else { Vec::new() }
}

fn default(reader: &mut Reader<'_>, node: &Marked<Node>) -> Option<Value> {
    match reader.setting(node, "default")? {
        Setting::Value(value) if bytes(&value) > DEFAULT_BYTES_MAX => {
            let message = "the default is too large";
            let help = format!("at most {} KiB; longer values are given to a run", DEFAULT_BYTES_MAX >> 10);
            reader.flaw(Flaw::error(node.span, "too-large", message, "too large").help(help));
            None
        }
        Setting::Value(value) => Some(value),
        _ => {
            let message = "a default cannot use other parameters";
            let help = "write the value itself, or $${ for the two characters";
            reader.flaw(Flaw::error(node.span, "wrong-default", message, "not a value").help(help));
            None
        }
    }
}

/// The approximate memory of a value.
fn bytes(value: &Value) -> usize {
    match value {
        Value::Text(text) => text.len(),
        Value::List(items) => items.iter().map(|item| size_of::<Value>() + bytes(item)).sum(),
        _ => 0,
    }
}
