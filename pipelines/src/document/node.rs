//! The only file that knows YAML: it turns a text into a tree of nodes, each with its place.
//!
//! Invariants: no type of the YAML crate leaves this file; size, depth and the work of aliases are bounded; repeated
//! keys are passed on, so that the reader of the tree can report them all.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::options::{DuplicateKeyPolicy, NonFiniteFloatPolicy};
use serde_saphyr::{Error, Location, Options, Spanned};

use super::Flaw;
use super::span::{Marked, Span};

/// Depth of nested lists and maps: the language has four levels, so this is generous and bounds the stack.
const DEPTH_MAX: usize = 32;
/// Nodes of one file, including those that aliases repeat.
const NODES_COUNT_MAX: usize = 100_000;

/// A YAML node.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Node {
    Null,
    Boolean(bool),
    Integer(i64),
    Number(f64),
    Text(String),
    List(Vec<Marked<Node>>),
    Map(Vec<(Marked<Node>, Marked<Node>)>),
}

impl Node {
    /// The kind of the value, for messages.
    pub(crate) fn what(&self) -> &'static str {
        match self {
            Self::Null => "nothing",
            Self::Boolean(_) => "true or false",
            Self::Integer(_) | Self::Number(_) => "a number",
            Self::Text(_) => "text",
            Self::List(_) => "a list",
            Self::Map(_) => "a map",
        }
    }
}

/// Reads one YAML document.
pub(crate) fn read(text: &str) -> Result<Marked<Node>, Flaw> {
    let spanned: Spanned<Node> =
        serde_saphyr::from_str_with_options(text, options()).map_err(|error| flaw(&error, text))?;
    let mut node = marked(spanned);
    settle(&mut node, text);
    Ok(node)
}

fn options() -> Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: DEPTH_MAX,
            flow_nesting_limit: DEPTH_MAX,
            max_nodes: NODES_COUNT_MAX,
            max_events: 4 * NODES_COUNT_MAX,
            // Several documents are reported as an error of their own.
            max_documents: 8,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: NODES_COUNT_MAX,
            max_replay_stack_depth: DEPTH_MAX,
        },
        // All repeated keys are reported together with all other faults.
        duplicate_keys: DuplicateKeyPolicy::PassThrough,
        // `y`, `no` and `on` are names like others; `007` and `1_000` are texts, as in YAML 1.2.
        strict_booleans: true,
        leading_zero_numbers_as_strings: true,
        underscored_numbers_as_strings: true,
        non_finite_float_policy: NonFiniteFloatPolicy::PassThrough,
        strict_indentation: false,
        with_snippet: false,
    }
}

/// The place of a value; for an alias, of its anchor, where the user can correct it.
fn marked<T>(spanned: Spanned<T>) -> Marked<T> {
    let defined = spanned.defined != Location::UNKNOWN;
    let span = span(if defined { &spanned.defined } else { &spanned.referenced });
    Marked::new(spanned.value, span.unwrap_or_default())
}

fn span(location: &Location) -> Option<Span> {
    let start = usize::try_from(location.span().byte_offset()?).ok()?;
    let len = usize::try_from(location.span().byte_len()?).ok()?;
    Some(Span::new(start, start + len))
}

/// Syntax errors know only their line and column.
fn line_column(location: &Location, text: &str) -> Option<Span> {
    let (line, column) = (usize::try_from(location.line()).ok()?, usize::try_from(location.column()).ok()?);
    let start: usize = text.split_inclusive('\n').take(line.checked_sub(1)?).map(str::len).sum();
    let within: usize = text[start..].chars().take(column.saturating_sub(1)).map(char::len_utf8).sum();
    Some(Span::new(start + within, start + within))
}

/// Moves all spans into the text, and extends those of lists and maps to contain their items.
fn settle(node: &mut Marked<Node>, text: &str) {
    node.span = node.span.within(text);
    let mut children: Vec<&mut Marked<Node>> = match &mut node.value {
        Node::List(items) => items.iter_mut().collect(),
        Node::Map(entries) => entries.iter_mut().flat_map(|(key, value)| [key, value]).collect(),
        _ => return,
    };
    let mut whole = Span::new(node.span.start, node.span.start);
    for child in &mut children {
        settle(child, text);
        // The items of an alias are written elsewhere.
        if child.span.start >= whole.start && child.span.end > child.span.start {
            whole = whole.with(child.span);
        }
    }
    node.span = Span::new(whole.start, whole.end.max(node.span.end.min(whole.start + 1)));
}

fn flaw(error: &Error, text: &str) -> Flaw {
    let error = error.without_snippet();
    let location = error.location();
    let place = location.as_ref().and_then(|location| span(location).or_else(|| line_column(location, text)));
    let place = place.unwrap_or_default();
    let place = if place.start >= text.len() { last_line(text) } else { place };
    let place = if place.end <= place.start { to_line_end(place.start, text) } else { place }.within(text);
    let line = line_of(place.start, text);
    let indent = &line[..line.len() - line.trim_start().len()];
    // A tab often breaks the line after its own, so the line before is examined too.
    let tabbed = indent.contains('\t') || before(place.start, text).starts_with(['\t']);
    let mut rendered = error.render();
    // The diagnostic names the place; the crate's own words would repeat it.
    if let Some(at) = rendered.rfind(" at line ") {
        rendered.truncate(at);
    }
    let (code, message, help) = match error {
        // The crate wraps these errors when an alias is replayed within another, so the message is examined too.
        _ if matches!(
            error,
            Error::Budget { .. }
                | Error::AliasReplayLimitExceeded { .. }
                | Error::AliasReplayStackDepthExceeded { .. }
                | Error::AliasExpansionLimitExceeded { .. }
        ) || (rendered.contains("alias") && rendered.contains("limit exceeded")) =>
        {
            (
                "too-large",
                "the file is too large, too deep or repeats too much by aliases".to_owned(),
                Some(format!("at most {NODES_COUNT_MAX} values, {DEPTH_MAX} levels and one document")),
            )
        }
        _ if rendered.contains("recursion limit") || rendered.contains("nesting") => (
            "too-large",
            "lists and maps stand too deep in each other".to_owned(),
            Some(format!("at most {DEPTH_MAX} levels")),
        ),
        Error::MultipleDocuments { .. } => (
            "syntax",
            "the file holds a second document".to_owned(),
            Some("remove the line `---`, or put the second pipeline into a file of its own".to_owned()),
        ),
        Error::UnknownAnchor { .. } => {
            ("syntax", "this alias `*name` has no anchor `&name` before it".to_owned(), None)
        }
        _ if tabbed => (
            "syntax",
            "a tab stands where YAML wants spaces".to_owned(),
            Some("indent by spaces: two for each level".to_owned()),
        ),
        _ => {
            let help = if unquoted_interpolation(line) {
                Some("within { } and [ ] write quotes around it: \"${name}\"".to_owned())
            } else if line.contains(": ")
                && line.matches(": ").count() > 1
                && !line.contains(['{', '"', '\''])
            {
                Some("a text with `: ` in it needs quotes".to_owned())
            } else {
                None
            };
            ("syntax", format!("this is no YAML: {rendered}"), help)
        }
    };
    Flaw::error(place, code, message, "here").help_maybe(help)
}

/// Whether a `${` is on the line without a quote before it.
fn unquoted_interpolation(line: &str) -> bool {
    line.contains(['{', '['])
        && line.match_indices("${").any(|(at, _)| !line[..at].ends_with(['"', '\'', '/']))
}

fn line_start(at: usize, text: &str) -> usize {
    text[..at].rfind('\n').map_or(0, |newline| newline + 1)
}

fn line_of(at: usize, text: &str) -> &str {
    let start = line_start(at, text);
    text[start..].lines().next().unwrap_or_default()
}

fn before(at: usize, text: &str) -> &str {
    let start = line_start(at, text);
    if start == 0 { "" } else { line_of(start - 1, text) }
}

fn to_line_end(at: usize, text: &str) -> Span {
    let at = text.floor_char_boundary(at.min(text.len()));
    let rest = text[at..].lines().next().unwrap_or_default().trim_end();
    Span::new(at, at + rest.len())
}

/// The last line that is not blank: the place to continue a truncated file.
fn last_line(text: &str) -> Span {
    let end = text.trim_end().len();
    Span::new(line_start(end, text), end)
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a YAML value")
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
        Ok(Node::Boolean(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
        Ok(Node::Integer(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
        Ok(i64::try_from(value).map_or(Node::Number(value as f64), Node::Integer))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Node, E> {
        Ok(Node::Number(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Node, E> {
        Ok(Node::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Node, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element::<Spanned<Node>>()? {
            items.push(marked(item));
        }
        Ok(Node::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Node, A::Error> {
        let mut entries = Vec::new();
        while let Some(key) = access.next_key::<Spanned<Node>>()? {
            let value = access.next_value::<Spanned<Node>>()?;
            entries.push((marked(key), marked(value)));
        }
        Ok(Node::Map(entries))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at<'t>(text: &'t str, path: &[&str]) -> (&'t str, Node) {
        let mut node = read(text).unwrap();
        for step in path {
            let Node::Map(entries) = node.value else { panic!("no map") };
            let is_step = |key: &Node| key == &Node::Text((*step).to_owned());
            node = entries.into_iter().find(|(key, _)| is_step(&key.value)).unwrap().1;
        }
        (node.span.of(text).unwrap(), node.value)
    }

    #[test]
    fn nodes_know_their_places() {
        let text = "a: one\nb: {c: [1, two], d: 'x y'}\ne:\n  - p\n  - q -> r # z\nf: on\n";
        assert_eq!(at(text, &["a"]).0, "one");
        assert_eq!(at(text, &["b", "d"]), ("'x y'", Node::Text("x y".into())));
        assert_eq!(at(text, &["b", "c"]).0, "[1, two");
        assert_eq!(at(text, &["e"]).0, "- p\n  - q -> r");
        assert_eq!(at(text, &["f"]).1, Node::Text("on".into()));
    }

    #[test]
    fn an_alias_bomb_is_refused() {
        let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for level in 1..9 {
            let item = format!("*a{}", level - 1);
            text += &format!("a{level}: &a{level} [{}]\n", vec![item; 10].join(", "));
        }
        assert_eq!(read(&text).unwrap_err().code, "too-large");
        let deep = format!("a: {}1{}", "[".repeat(10_000), "]".repeat(10_000));
        let flaw = read(&deep).unwrap_err();
        assert_eq!(flaw.code, "too-large", "{}", flaw.message);
    }
}
