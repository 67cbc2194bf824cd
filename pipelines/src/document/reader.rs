//! From nodes to the document's parts: shapes, names and keys, all flaws at once.

mod edges;
mod parameter;

use std::collections::BTreeMap;

use boxwork_runtime::parameter::{Value, nearest};
use boxwork_runtime::plan::Setting;
use boxwork_runtime::plan::declaration::{BLOCKING, COPIES, KIND};

use super::limits::{ENTRIES_COUNT_MAX, REFERENCES_COUNT_MAX};
use super::node::{self, Node};
use super::span::{Marked, Span};
use super::{Document, Entry, Flaw, NAMES_ARE, VERSION, is_long, is_name, setting};

pub(crate) use parameter::TYPES;

const SECTIONS: [&str; 8] =
    ["boxwork", "about", "queries", "parameters", "resources", "boxes", "edges", "hints"];

pub(super) fn read(text: &str) -> (Document, Vec<Flaw>) {
    let newlines = text.match_indices('\n').map(|(at, _)| at).collect();
    let mut reader =
        Reader { text, newlines, flaws: Vec::new(), document: Document::default(), references: 0 };
    match node::read(text) {
        Ok(node) => reader.whole(&node),
        Err(flaw) => {
            reader.flaw(flaw);
            reader.document.taint.sections = true;
        }
    }
    (reader.document, reader.flaws)
}

/// Reads nodes and collects flaws.
pub(super) struct Reader<'t> {
    text: &'t str,
    /// The ends of lines: a fault may name the line of each of many keys.
    newlines: Vec<usize>,
    flaws: Vec<Flaw>,
    document: Document,
    /// Uses of parameters so far.
    references: usize,
}

impl Reader<'_> {
    pub(super) fn flaw(&mut self, flaw: Flaw) {
        self.flaws.push(flaw);
    }

    /// The line of a byte, from 1.
    fn line(&self, at: usize) -> usize {
        self.newlines.partition_point(|newline| *newline < at) + 1
    }

    /// Reports a text with too many entries. The rest is not read, so no check makes sense.
    fn too_many(&mut self, span: Span, message: String, limit: usize) {
        self.flaw(
            Flaw::error(span, "too-large", message, "one too many").help(format!("at most {limit} are read")),
        );
        self.document.taint.sections = true;
    }

    fn whole(&mut self, node: &Marked<Node>) {
        let help = "a pipeline begins with the line `boxwork: 1`; `boxwork schema` describes the rest";
        if node.value == Node::Null {
            self.flaw(Flaw::error(Span::default(), "empty", "the file is empty", "nothing here").help(help));
            self.document.taint.sections = true;
            return;
        }
        if !matches!(node.value, Node::Map(_)) {
            let message = format!("a pipeline is a map, and this is {}", node.value.what());
            self.flaw(
                Flaw::error(first_line(self.text), "wrong-shape", message, "not a pipeline").help(help),
            );
            self.document.taint.sections = true;
            return;
        }
        // The version first: another version may have other keys.
        let Some(fields) = self.version(node).and_then(|()| self.fields(node, "a pipeline", Some(&SECTIONS)))
        else {
            self.document.taint.sections = true;
            return;
        };
        self.document.head = fields.first().map_or(Span::default(), |(key, _)| key.span);
        for (key, node) in fields {
            match key.value.as_str() {
                "about" => self.document.about = self.text(node, "about").unwrap_or_default(),
                "queries" => {
                    let queries = self.count(node, "queries");
                    self.document.queries = queries.map(|queries| Marked::new(queries, node.span));
                }
                "parameters" => self.parameters(node),
                "resources" => {
                    let resources = self.entries(node, "resource", &[KIND]);
                    self.document.resources = resources;
                }
                "boxes" => {
                    self.document.head = key.span;
                    let boxes = self.entries(node, "box", &[KIND, COPIES, BLOCKING]);
                    self.document.boxes = boxes;
                }
                "edges" => self.edges(node),
                "hints" => self.hints(node),
                _ => {}
            }
        }
    }

    /// `None` if the text has another version of the language, or none.
    fn version(&mut self, node: &Marked<Node>) -> Option<()> {
        let Node::Map(entries) = &node.value else { return None };
        let found = entries.iter().find(|(key, _)| key.value == Node::Text("boxwork".to_owned()));
        let Some((_, version)) = found else {
            let span = entries.first().map_or(node.span, |(key, _)| key.span);
            let message = "this is no pipeline: it does not say `boxwork: 1`";
            let help = "make `boxwork: 1` the first line";
            self.flaw(Flaw::error(span, "missing-version", message, "expected before this").help(help));
            return Some(());
        };
        if version.value == Node::Integer(VERSION) {
            return Some(());
        }
        let span = if version.value == Node::Null { found?.0.span } else { version.span };
        let message = match &version.value {
            Node::Integer(other) => {
                format!(
                    "this pipeline is in version {other} of the language, and this boxwork reads {VERSION}"
                )
            }
            other => {
                format!("`boxwork` is the language's version, a whole number, and this is {}", other.what())
            }
        };
        let help = format!("write `boxwork: {VERSION}`, or take a boxwork that reads this version");
        self.flaw(Flaw::error(span, "wrong-version", message, "not a known version").help(help));
        if matches!(version.value, Node::Integer(_)) { None } else { Some(()) }
    }

    /// The entries of a map by name, without duplicates; unknown keys are flaws if the known ones are given.
    pub(super) fn fields<'n>(
        &mut self,
        node: &'n Marked<Node>,
        what: &str,
        known: Option<&[&str]>,
    ) -> Option<Vec<(Marked<String>, &'n Marked<Node>)>> {
        let Node::Map(entries) = &node.value else {
            let message = format!("{what} is a map, and this is {}", node.value.what());
            let help = self.no_include(node.span);
            self.flaw(Flaw::error(node.span, "wrong-shape", message, "not a map").help_maybe(help));
            return None;
        };
        let mut fields: Vec<(Marked<String>, &Marked<Node>)> = Vec::new();
        let mut seen: BTreeMap<String, usize> = BTreeMap::new();
        for (key, value) in entries {
            let Some(name) = self.key(key) else { continue };
            if let Some(first) = seen.get(&name) {
                let line = self.line(*first);
                let message = format!("`{name}` stands twice in {what}");
                let help = format!("it stands on line {line} already: rename or remove one of the two");
                self.flaw(Flaw::error(key.span, "repeated-key", message, "again").help(help));
                // Only the first is kept, so names of a repeated section may be missing.
                self.document.taint.sections |= what == "a pipeline";
                continue;
            }
            seen.insert(name.clone(), key.span.start);
            if let Some(known) = known
                && !known.contains(&name.as_str())
            {
                let near = nearest(&name, known.iter().copied());
                let help = match near {
                    _ if value.value == Node::Null && name.contains(' ') => {
                        "a text with a comma in it needs quotes within { }".to_owned()
                    }
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("the keys: {}", known.join(", ")),
                };
                let message = format!("{what} has no key `{name}`");
                self.flaw(Flaw::error(key.span, "unknown-key", message, "no such key").help(help));
                // The misspelt section is missing; that is not reported again.
                self.document.taint.sections |= what == "a pipeline" && near.is_some();
                continue;
            }
            fields.push((Marked::new(name, key.span), value));
        }
        Some(fields)
    }

    fn key(&mut self, key: &Marked<Node>) -> Option<String> {
        match &key.value {
            Node::Text(text) => Some(text.clone()),
            Node::Integer(_) | Node::Number(_) | Node::Boolean(_) => {
                key.span.of(self.text).map(str::to_owned)
            }
            other => {
                let message = format!("a key is a name, and this is {}", other.what());
                self.flaw(Flaw::error(key.span, "wrong-key", message, "not a name").help(NAMES_ARE));
                None
            }
        }
    }

    fn name(&mut self, name: &Marked<String>, what: &str) {
        if is_long(&name.value) {
            let message = format!("the name of this {what} is too long");
            self.flaw(Flaw::error(name.span, "wrong-name", message, "not a name").help(NAMES_ARE));
            self.document.taint.sections = true;
        } else if !is_name(&name.value) {
            let message = format!("`{}` cannot be the name of a {what}", name.value);
            self.flaw(Flaw::error(name.span, "wrong-name", message, "not a name").help(NAMES_ARE));
            self.document.taint.names.insert(name.value.clone());
        }
    }

    /// Marks a name if reading it added flaws.
    fn tainting<T>(&mut self, name: &str, read: impl FnOnce(&mut Self) -> T) -> T {
        let before = self.flaws.len();
        let value = read(self);
        if self.flaws.len() > before {
            self.document.taint.names.insert(name.to_owned());
        }
        value
    }

    fn section<'n>(&mut self, node: &'n Marked<Node>, what: &str) -> Vec<(Marked<String>, &'n Marked<Node>)> {
        if node.value == Node::Null {
            return Vec::new();
        }
        let fields = self.fields(node, what, None);
        self.document.taint.sections |= fields.is_none();
        let mut fields = fields.unwrap_or_default();
        if let Some((name, _)) = fields.get(ENTRIES_COUNT_MAX) {
            let message = format!("{what} holds {} entries", fields.len());
            self.too_many(name.span, message, ENTRIES_COUNT_MAX);
            fields.truncate(ENTRIES_COUNT_MAX);
        }
        fields
    }

    fn parameters(&mut self, node: &Marked<Node>) {
        for (name, node) in self.section(node, "`parameters`") {
            self.name(&name, "parameter");
            let entry = self.tainting(&name.value, |reader| parameter::read(reader, &name, node));
            self.document.parameters.extend(entry);
        }
    }

    /// Boxes or resources; `own` are keys that are not parameters of the operator.
    fn entries(&mut self, node: &Marked<Node>, what: &str, own: &[&str]) -> Vec<Entry> {
        let plural = if what == "box" { "`boxes`" } else { "`resources`" };
        let mut entries = Vec::new();
        for (name, node) in self.section(node, plural) {
            self.name(&name, what);
            let settings = self.tainting(&name.value, |reader| reader.entry(&name, node, what, own));
            entries.push(Entry { name, settings });
        }
        entries
    }

    fn entry(
        &mut self,
        name: &Marked<String>,
        node: &Marked<Node>,
        what: &str,
        own: &[&str],
    ) -> Vec<(Marked<String>, Marked<Setting>)> {
        let owner = format!("the {what} `{}`", name.value);
        if !matches!(node.value, Node::Map(_)) {
            let message = format!("{owner} is {}, not a map", node.value.what());
            let kind = match &node.value {
                Node::Text(kind) if is_name(kind) => kind,
                _ => "NAME",
            };
            let span = if node.value == Node::Null { name.span } else { node.span };
            let help = format!("write `{}: {{kind: {kind}}}`", name.value);
            let help = self.no_include(node.span).unwrap_or(help);
            self.flaw(Flaw::error(span, "wrong-shape", message, "not a map").help(help));
            return Vec::new();
        }
        let fields = self.fields(node, &owner, None).unwrap_or_default();
        if !fields.iter().any(|(key, _)| key.value == KIND) {
            let near = nearest(KIND, fields.iter().map(|(key, _)| key.value.as_str()));
            let help = match near {
                Some(near) => format!("did you mean `kind` by `{near}`?"),
                None => "add `kind: NAME`; `boxwork boxes` lists what there is".to_owned(),
            };
            let message = format!("{owner} has no `kind`");
            self.flaw(Flaw::error(name.span, "missing-key", message, "no kind").help(help));
        }
        let mut settings = Vec::new();
        for (key, node) in fields {
            let Some(setting) = self.setting(node, &key.value) else { continue };
            let is_text = matches!(&setting, Setting::Value(Value::Text(_)));
            if key.value == BLOCKING && own.contains(&BLOCKING) && !is_text {
                let message = "`blocking` is the name of a class of blocking operations";
                let help = "write `blocking: disk`";
                self.flaw(Flaw::error(node.span, "wrong-shape", message, "not a name").help(help));
                continue;
            }
            settings.push((key, Marked::new(setting, node.span)));
        }
        settings
    }

    /// A value, a list, or text that contains parameters.
    pub(super) fn setting(&mut self, node: &Marked<Node>, key: &str) -> Option<Setting> {
        Some(match &node.value {
            Node::Boolean(value) => Setting::Value(Value::Boolean(*value)),
            Node::Integer(value) => Setting::Value(Value::Integer(*value)),
            Node::Number(value) => Setting::Value(Value::Number(*value)),
            Node::Text(text) => match setting::interpolate(text) {
                Ok(setting) => {
                    let before = self.references;
                    self.references += setting.parameters().len();
                    if self.references > REFERENCES_COUNT_MAX {
                        if before <= REFERENCES_COUNT_MAX {
                            let message = "the pipeline uses its parameters too often".to_owned();
                            self.too_many(node.span, message, REFERENCES_COUNT_MAX);
                        }
                        return None;
                    }
                    setting
                }
                Err(malformed) => {
                    let span = Self::part(node, self.written(node, text), malformed.start, malformed.end);
                    self.flaw(
                        Flaw::error(span, "malformed-interpolation", malformed.message, "here")
                            .help(malformed.help),
                    );
                    return None;
                }
            },
            Node::List(items) => {
                let read: Vec<Option<Setting>> = items.iter().map(|item| self.setting(item, key)).collect();
                setting::list(read.into_iter().collect::<Option<_>>()?)
            }
            Node::Null => {
                let message = format!("`{key}` has no value");
                let help = "give one, or remove the key; an empty text is \"\"";
                self.flaw(Flaw::error(node.span, "no-value", message, "nothing here").help(help));
                return None;
            }
            Node::Map(_) => {
                let message = format!("`{key}` is a map, and settings are values or lists of values");
                self.flaw(Flaw::error(node.span, "wrong-shape", message, "a map"));
                return None;
            }
        })
    }

    pub(super) fn text(&mut self, node: &Marked<Node>, key: &str) -> Option<String> {
        match &node.value {
            Node::Text(text) => Some(text.clone()),
            Node::Integer(_) | Node::Number(_) | Node::Boolean(_) => {
                node.span.of(self.text).map(str::to_owned)
            }
            other => {
                let message = format!("`{key}` is text, and this is {}", other.what());
                let flaw = Flaw::error(node.span, "wrong-shape", message, "not text");
                self.flaw(flaw.help("put quotes around a text that contains `: `, or begins with a sign"));
                None
            }
        }
    }

    /// The items of a list of edges or hints.
    fn items<'n>(&mut self, node: &'n Marked<Node>, what: &str, example: &str) -> &'n [Marked<Node>] {
        match &node.value {
            Node::List(items) => items,
            Node::Null => &[],
            other => {
                let message = format!("`{what}` is a list, and this is {}", other.what());
                let help = format!("begin each line with a dash: `- {example}`");
                let help = self.no_include(node.span).unwrap_or(help);
                self.flaw(Flaw::error(node.span, "wrong-shape", message, "not a list").help(help));
                self.document.taint.edges = true;
                &[]
            }
        }
    }

    fn count(&mut self, node: &Marked<Node>, key: &str) -> Option<usize> {
        match &node.value {
            Node::Integer(count) if usize::try_from(*count).is_ok() => usize::try_from(*count).ok(),
            _ => {
                let message = format!("`{key}` is a whole number of at least 1");
                self.flaw(Flaw::error(node.span, "wrong-shape", message, "not a count"));
                None
            }
        }
    }

    /// The help for a value that shall come from another file, as other YAML languages have it by a tag.
    fn no_include(&self, span: Span) -> Option<String> {
        let line = self.text[..span.start].rfind('\n').map_or(0, |newline| newline + 1);
        let has_tag = self.text[line..span.end].contains("!include");
        has_tag.then(|| "there is no include: a pipeline is one file, so write the parts here".to_owned())
    }

    /// The place of a text's value in the source; `None` if escapes or folding change it.
    fn written(&self, node: &Marked<Node>, value: &str) -> Option<usize> {
        let at = node.span.of(self.text)?.find(value)?;
        (!value.is_empty()).then_some(node.span.start + at)
    }

    /// The place of a part of a text's value; the whole node if that is hidden.
    fn part(node: &Marked<Node>, written: Option<usize>, from: usize, to: usize) -> Span {
        written.map_or(node.span, |at| Span::new(at + from, at + to))
    }
}

fn first_line(text: &str) -> Span {
    let start = text.len() - text.trim_start().len();
    let line = text[start..].lines().next().unwrap_or_default();
    Span::new(start, start + line.trim_end().len())
}
