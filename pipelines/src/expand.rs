//! A pipeline with the values of its parameters in their places, and its text.
//!
//! Invariants: a parameter with a value is none any more; a setting without a value is left out, as a run leaves it out;
//! and the text, read again, is the declaration that was written.

mod text;

use std::collections::{BTreeMap, BTreeSet};

use boxwork_runtime::parameter::{QUERIES, Value};
use boxwork_runtime::plan::{
    BoxDeclaration, Declaration, ParameterDeclaration, Piece, ResourceDeclaration, Setting,
};

use crate::{document, pipeline};

/// A pipeline that no text says: YAML's versions differ on a few characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a value holds a character on which YAML readers differ, such as the line separator U+2028; leave the value out \
     here and give it by --set to the run"
)]
pub struct Unwritable;

/// The text of a pipeline.
///
/// # Errors
/// When the text, read again, would be another pipeline.
pub fn text(about: &str, declaration: &Declaration) -> Result<String, Unwritable> {
    let written = text::text(about, declaration);
    let again = pipeline::read_text("expanded", &written);
    let is_same = again.flaws().is_empty() && again.about == about && again.declaration == *declaration;
    is_same.then_some(written).ok_or(Unwritable)
}

/// Puts the known values into a declaration.
///
/// A parameter stays one if it has no value and is not optional, because a run must give it. So does a list with more
/// queries than a request takes, because a run splits the list of a parameter only; its values become its default.
pub fn fill(declaration: &Declaration, values: &BTreeMap<String, Value>) -> Declaration {
    let filler = Filler { declaration, values };
    let mut filled = Declaration {
        parameters: Vec::new(),
        resources: declaration.resources.iter().map(|resource| filler.resource(resource)).collect(),
        boxes: declaration.boxes.iter().map(|declared| filler.declared_box(declared)).collect(),
        ..declaration.clone()
    };
    let used = used(&filled);
    filled.parameters = declaration
        .parameters
        .iter()
        .filter(|parameter| used.contains(&parameter.name))
        .map(|parameter| ParameterDeclaration {
            default: values.get(&parameter.name).cloned(),
            optional: parameter.optional && !values.contains_key(&parameter.name),
            ..parameter.clone()
        })
        .collect();
    filled
}

/// The names of the parameters that a declaration uses.
fn used(declaration: &Declaration) -> BTreeSet<String> {
    let resources = declaration.resources.iter().map(|resource| (&resource.kind, None, &resource.settings));
    let boxes = declaration.boxes.iter().map(|of| (&of.kind, of.copies.as_ref(), &of.settings));
    let settings = resources.chain(boxes).flat_map(|(kind, copies, settings)| {
        [kind].into_iter().chain(copies).chain(settings.iter().map(|(_, setting)| setting))
    });
    settings.flat_map(Setting::parameters).map(str::to_owned).collect()
}

/// The state of a parameter.
enum State<'a> {
    /// Its value is put in its place.
    Known(&'a Value),
    /// It is optional and has no value.
    Absent,
    /// It stays a parameter.
    Open,
}

struct Filler<'a> {
    declaration: &'a Declaration,
    values: &'a BTreeMap<String, Value>,
}

impl<'a> Filler<'a> {
    fn state(&self, name: &str) -> State<'a> {
        let queries = self.declaration.queries.unwrap_or(QUERIES);
        match self.values.get(name) {
            Some(Value::List(items)) if items.len() > queries => State::Open,
            Some(value) => State::Known(value),
            None => match self.declaration.parameters.iter().find(|parameter| parameter.name == name) {
                Some(parameter) if parameter.optional => State::Absent,
                _ => State::Open,
            },
        }
    }

    /// The setting with the known values in it; `None` if a parameter in it is absent.
    fn setting(&self, setting: &Setting) -> Option<Setting> {
        match setting {
            Setting::Value(_) => Some(setting.clone()),
            Setting::Parameter(name) => match self.state(name) {
                State::Known(value) => Some(Setting::Value(value.clone())),
                State::Absent => None,
                State::Open => Some(setting.clone()),
            },
            Setting::Text(pieces) => self.text(pieces),
            Setting::List(items) => {
                items.iter().map(|item| self.setting(item)).collect::<Option<_>>().map(document::list)
            }
        }
    }

    fn text(&self, pieces: &[Piece]) -> Option<Setting> {
        let (mut filled, mut is_open) = (Vec::new(), false);
        for piece in pieces {
            let Piece::Parameter(name) = piece else {
                filled.push(piece.clone());
                continue;
            };
            match self.state(name) {
                State::Known(Value::Text(text)) => filled.push(Piece::Literal(text.clone())),
                State::Known(value) => filled.push(Piece::Literal(value.to_string())),
                State::Absent => return None,
                State::Open => {
                    is_open = true;
                    filled.push(piece.clone());
                }
            }
        }
        if is_open {
            return Some(Setting::Text(joined(filled)));
        }
        let literal = |piece: Piece| match piece {
            Piece::Literal(text) | Piece::Parameter(text) => text,
        };
        Some(Setting::Value(Value::Text(filled.into_iter().map(literal).collect())))
    }

    fn settings(&self, settings: &[(String, Setting)]) -> Vec<(String, Setting)> {
        let filled = settings.iter().filter_map(|(key, setting)| Some((key.clone(), self.setting(setting)?)));
        filled.collect()
    }

    fn resource(&self, resource: &ResourceDeclaration) -> ResourceDeclaration {
        ResourceDeclaration {
            name: resource.name.clone(),
            kind: self.setting(&resource.kind).unwrap_or_else(|| resource.kind.clone()),
            settings: self.settings(&resource.settings),
        }
    }

    fn declared_box(&self, declared: &BoxDeclaration) -> BoxDeclaration {
        BoxDeclaration {
            name: declared.name.clone(),
            kind: self.setting(&declared.kind).unwrap_or_else(|| declared.kind.clone()),
            copies: declared.copies.as_ref().and_then(|copies| self.setting(copies)),
            blocking: declared.blocking.clone(),
            settings: self.settings(&declared.settings),
        }
    }
}

/// The pieces with neighbouring texts as one, as a reader of their text finds them.
fn joined(pieces: Vec<Piece>) -> Vec<Piece> {
    let mut joined: Vec<Piece> = Vec::new();
    for piece in pieces {
        match (joined.last_mut(), piece) {
            (_, Piece::Literal(text)) if text.is_empty() => {}
            (Some(Piece::Literal(before)), Piece::Literal(text)) => before.push_str(&text),
            (_, piece) => joined.push(piece),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use boxwork_runtime::plan::{EdgeDeclaration, End};

    use super::*;
    use crate::{given, shipped};

    /// The filled declaration of a text, after it was written and read again.
    fn filled(text_of: &str, set: &[(&str, &str)]) -> Declaration {
        let loaded = pipeline::load_text("test", text_of).expect("no flaw");
        let set: Vec<_> = set.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let mut values = loaded.declaration.defaults();
        values.extend(given::parse_settings(&loaded.declaration, &set).expect("values"));
        let filled = fill(&loaded.declaration, &values);
        let written = text(&loaded.about, &filled).expect("a text that is read back");
        let again =
            pipeline::load_text("again", &written).unwrap_or_else(|flaws| panic!("{flaws:?}\n{written}"));
        assert_eq!(again.declaration, filled, "{written}");
        assert_eq!(again.about, loaded.about);
        filled
    }

    #[test]
    fn known_values_stand_in_their_places() {
        let text = "boxwork: 1\nparameters:\n  k: {type: integer, default: 3}\n  out: {type: path}\n  \
                    p: {type: number, optional: true}\n  format: {type: text, default: csv}\nboxes:\n  \
                    a: {kind: \"${format}\", k: \"${k}\", p: \"${p}\", to: \"${out}/${k}$$.txt\", l: [\"${k}\", x]}\n";
        let open = filled(text, &[]);
        assert_eq!(open.parameters.iter().map(|parameter| &*parameter.name).collect::<Vec<_>>(), ["out"]);
        let of = &open.boxes[0];
        assert_eq!(of.kind, Setting::Value(Value::Text("csv".into())));
        let pieces = vec![Piece::Parameter("out".into()), Piece::Literal("/3$.txt".into())];
        let list = Value::List(vec![Value::Integer(3), Value::Text("x".into())]);
        let expected = [
            ("k", Setting::Value(Value::Integer(3))),
            ("to", Setting::Text(pieces)),
            ("l", Setting::Value(list)),
        ];
        let settings: Vec<_> = of.settings.iter().map(|(key, setting)| (key.as_str(), setting)).collect();
        assert_eq!(settings, expected.each_ref().map(|(key, setting)| (*key, setting)));

        let closed = filled(text, &[("out", "/x"), ("k", "7"), ("p", "2")]);
        assert!(closed.parameters.is_empty());
        assert_eq!(closed.boxes[0].settings[1].1, Setting::Value(Value::Number(2.0)));
        assert_eq!(closed.boxes[0].settings[2].1, Setting::Value(Value::Text("/x/7$.txt".into())));
    }

    #[test]
    fn a_list_for_several_requests_stays_a_parameter() {
        let text = "boxwork: 1\nqueries: 2\nparameters:\n  queries: {type: list of text}\nboxes:\n  \
                    a: {kind: x, queries: \"${queries}\"}\n";
        assert!(filled(text, &[("queries", "[a, b]")]).parameters.is_empty());
        let long = filled(text, &[("queries", "[a, b, c]")]);
        assert_eq!(long.boxes[0].settings[0].1, Setting::Parameter("queries".into()));
        assert!(matches!(&long.parameters[0].default, Some(Value::List(items)) if items.len() == 3));
    }

    #[test]
    fn every_text_and_number_is_read_back() {
        let text = "boxwork: 1\nparameters: {t: {type: text}, n: {type: number}}\nboxes: {a: {kind: x, t: \"${t}\", n: \"${n}\"}}\n";
        let texts = [
            "",
            " ",
            "~",
            "null",
            "true",
            "on",
            "yes",
            "y",
            "No",
            "7",
            "007",
            "1_000",
            "0x1f",
            "1e3",
            ".5",
            "-.inf",
            ".nan",
            "$",
            "$$",
            "${t}",
            "a: b",
            "- x",
            "# no",
            "x # y",
            "{a}",
            "[b",
            "'",
            "\"",
            "*a",
            "&a",
            "!t",
            "|",
            "> x",
            "%y",
            "@",
            "`",
            "a\nb",
            "\n",
            "a\n",
            "\tx",
            "ä€😀",
            "\u{85}",
            "\u{1b}[31m",
            "2026-01-01",
            "12:30",
            "=",
            "<<",
            "? a",
            "a\\b",
            "---",
            "...",
            "\u{feff}x",
            "trailing ",
        ];
        for given in texts {
            filled(text, &[("t", given), ("n", "1")]);
        }
        for given in ["0", "-0.0", "3", "0.1", "1e300", "5e-324", "1e16", "-123456789.125", "1e-7"] {
            filled(text, &[("t", ""), ("n", given)]);
        }
    }

    #[test]
    fn a_text_that_would_be_read_as_another_is_refused() {
        // A line break for the writer, which follows YAML 1.1, and a letter for the reader, which follows YAML 1.2.
        let text_of = "boxwork: 1\nboxes: {a: {kind: x, t: \"\\L\"}}\n";
        let loaded = pipeline::load_text("test", text_of).expect("no flaw");
        assert_eq!(loaded.declaration.boxes[0].settings[0].1, Setting::Value(Value::Text("\u{2028}".into())));
        assert_eq!(text(&loaded.about, &loaded.declaration), Err(Unwritable));
    }

    #[test]
    fn shipped_pipelines_are_read_back() {
        for of in &shipped::ALL {
            filled(of.text, &[]);
        }
    }

    #[test]
    fn parameters_and_edges_keep_their_bounds() {
        let text = "boxwork: 1\nabout: \"On: and off\"\nparameters:\n  n: {type: integer, minimum: 1, maximum: 5, about: 'x: y'}\n  \
                    r: {type: number, minimum: -0.5}\n  w: {type: text, one_of: [a, 'on']}\n  l: {type: list of number}\nboxes:\n  \
                    a: {kind: x, n: \"${n}\", r: \"${r}\", w: \"${w}\", l: \"${l}\", copies: auto, blocking: disk}\n  b: {kind: y}\n\
                    edges:\n  - a.out -> b.in -> a\n  - {from: a, to: b, envelopes: 2, bytes: 1 KiB}\nhints:\n  - b.r ~> a.r\n";
        let filled = filled(text, &[]);
        assert_eq!(filled.parameters.len(), 4);
        let end = |name: &str| End { name: name.into(), port: None };
        let bounded =
            EdgeDeclaration { from: end("a"), to: end("b"), envelopes: Some(2), bytes: Some(1 << 10) };
        assert_eq!(filled.edges[2], bounded);
        assert_eq!(filled.boxes[0].blocking.as_deref(), Some("disk"));
    }
}
