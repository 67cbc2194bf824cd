//! The sections `edges` and `hints`: chains such as `a -> b -> c`, and edges with their own settings.

use boxwork_runtime::plan::End;

use super::Reader;
use crate::document::chain::{self, Broken};
use crate::document::limits::EDGES_COUNT_MAX;
use crate::document::node::Node;
use crate::document::span::{Marked, Span};
use crate::document::{EdgeEntry, Flaw};

const EDGE_KEYS: [&str; 4] = ["from", "to", "envelopes", "bytes"];

impl Reader<'_> {
    pub(super) fn edges(&mut self, node: &Marked<Node>) {
        for item in self.items(node, "edges", "a -> b") {
            match &item.value {
                Node::Text(text) => {
                    let room = EDGES_COUNT_MAX - self.document.edges.len();
                    let edges = self.chain(item, text, "->", room);
                    self.document.edges.extend(edges);
                }
                Node::Map(_) if self.document.edges.len() == EDGES_COUNT_MAX => {
                    self.too_many_edges(item.span, "->");
                }
                Node::Map(_) => {
                    let edge = self.edge(item);
                    self.document.taint.edges |= edge.is_none();
                    self.document.edges.extend(edge);
                }
                _ => self.not_an_edge(item, "an edge", "`a -> b` or `{from: a, to: b}`"),
            }
        }
    }

    pub(super) fn hints(&mut self, node: &Marked<Node>) {
        for item in self.items(node, "hints", "a.x ~> b.x") {
            match &item.value {
                Node::Text(text) => {
                    let room = EDGES_COUNT_MAX - self.document.hints.len();
                    let hints = self.chain(item, text, "~>", room);
                    self.document.hints.extend(hints);
                }
                _ => self.not_an_edge(item, "a hint", "`a.x ~> b.x`"),
            }
        }
    }

    fn not_an_edge(&mut self, item: &Marked<Node>, what: &str, form: &str) {
        let message = format!("{what} is written {form}, and this is {}", item.value.what());
        self.flaw(Flaw::error(item.span, "wrong-edge", message, "not an edge"));
        self.document.taint.edges = true;
    }

    fn too_many_edges(&mut self, span: Span, arrow: &str) {
        let what = if arrow == "->" { "edges" } else { "hints" };
        self.too_many(span, format!("the pipeline has too many {what}"), EDGES_COUNT_MAX);
    }

    /// The edges of a chain, if there is room for them.
    fn chain(&mut self, node: &Marked<Node>, text: &str, arrow: &str, room: usize) -> Vec<EdgeEntry> {
        if text.matches(arrow).count() > room {
            self.too_many_edges(node.span, arrow);
            return Vec::new();
        }
        let written = self.written(node, text);
        let part = |from, to| Self::part(node, written, from, to);
        let links = match chain::links(text, arrow) {
            Ok(links) => links,
            Err(broken) => {
                for Broken { from, to, message, help } in broken {
                    let span = part(from, to);
                    self.flaw(Flaw::error(span, "wrong-edge", message, "here").help_maybe(help));
                }
                self.document.taint.edges = true;
                return Vec::new();
            }
        };
        let ends: Vec<Marked<End>> =
            links.into_iter().map(|link| Marked::new(link.end, part(link.from, link.to))).collect();
        let pairs = ends.windows(2).enumerate();
        pairs
            .map(|(idx, pair)| {
                let mut from = pair[0].clone();
                if idx > 0 {
                    // In the middle of a chain the port is the input.
                    from.value.port = None;
                }
                let span = from.span.with(pair[1].span);
                EdgeEntry { from, to: pair[1].clone(), envelopes: None, bytes: None, span }
            })
            .collect()
    }

    fn edge(&mut self, node: &Marked<Node>) -> Option<EdgeEntry> {
        let before = self.flaws.len();
        let fields = self.fields(node, "an edge", Some(&EDGE_KEYS))?;
        let field = |key: &str| fields.iter().find(|(name, _)| name.value == key).map(|(_, node)| *node);
        let whole = fields.first().map_or(node.span, |(key, _)| key.span);
        let (from, to) = (self.end(field("from"), "from", whole), self.end(field("to"), "to", whole));
        let envelopes = field("envelopes").and_then(|node| self.count(node, "envelopes"));
        let bytes = field("bytes").and_then(|node| {
            let bytes = match &node.value {
                Node::Integer(count) => usize::try_from(*count).ok(),
                Node::Text(text) => bytes(text),
                _ => None,
            };
            if bytes.is_none() {
                let message = "`bytes` is a number of bytes";
                let help = "write a whole number, or one with a unit: \"64 MiB\"";
                self.flaw(Flaw::error(node.span, "wrong-shape", message, "not a size").help(help));
            }
            bytes
        });
        let (from, to) = (from?, to?);
        (self.flaws.len() == before).then_some(EdgeEntry { from, to, envelopes, bytes, span: node.span })
    }

    fn end(&mut self, node: Option<&Marked<Node>>, key: &str, whole: Span) -> Option<Marked<End>> {
        let Some(node) = node else {
            let flaw = Flaw::error(whole, "missing-key", format!("the edge has no `{key}`"), "this edge");
            self.flaw(flaw.help("write `{from: a, to: b}`"));
            return None;
        };
        let text = self.text(node, key)?;
        match chain::end(text.trim()) {
            Ok(end) => Some(Marked::new(end, node.span)),
            Err(Broken { message, help, .. }) => {
                let span = if text.is_empty() { whole } else { node.span };
                self.flaw(Flaw::error(span, "wrong-edge", message, "here").help_maybe(help));
                None
            }
        }
    }
}

/// `64 MiB` in bytes.
fn bytes(text: &str) -> Option<usize> {
    let text = text.trim();
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let unit: usize = match text[digits..].trim() {
        "" | "B" => 1,
        "kB" | "KB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return None,
    };
    text[..digits].parse::<usize>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        assert_eq!(bytes("64 MiB"), Some(64 << 20));
        assert_eq!(bytes("1kB"), Some(1000));
        assert_eq!(bytes("7"), Some(7));
        assert_eq!(bytes("MiB"), None);
        assert_eq!(bytes("-1"), None);
        assert_eq!(bytes("99999999999 GiB"), None);
    }
}
