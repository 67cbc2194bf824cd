//! The short form of edges: `a -> b.port -> c`, and of hints: `a.x ~> b.x`.
//!
//! Each piece is a box, or a box and a port. In the middle of a chain the port is the input; the output of a box in
//! the middle is its first.

use boxwork_runtime::plan::End;

use super::{NAMES_ARE, is_name};

/// A piece of a chain and its bytes within the chain's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Link {
    pub(super) end: End,
    pub(super) from: usize,
    pub(super) to: usize,
}

/// A fault of a chain: its bytes, a sentence, and a remedy.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Broken {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) message: String,
    pub(super) help: Option<String>,
}

/// Reads `a -> b.port -> c`; at least two pieces.
pub(super) fn links(text: &str, arrow: &str) -> Result<Vec<Link>, Vec<Broken>> {
    let (mut links, mut broken, mut at) = (Vec::new(), Vec::new(), 0);
    let pieces: Vec<&str> = text.split(arrow).collect();
    if pieces.len() < 2 {
        return Err(vec![no_arrow(text, arrow)]);
    }
    for piece in pieces {
        let trimmed = piece.trim();
        let from = at + (piece.len() - piece.trim_start().len()).min(piece.len());
        match end(trimmed) {
            Ok(end) => links.push(Link { end, from, to: from + trimmed.len() }),
            Err(mut error) => {
                (error.from, error.to) = (from, from + trimmed.len());
                if trimmed.is_empty() {
                    // Nothing is written here, so the arrows beside it are shown.
                    error.from = at.saturating_sub(arrow.len());
                    error.to = (at + piece.len() + arrow.len()).min(text.len());
                }
                broken.push(error);
            }
        }
        at += piece.len() + arrow.len();
    }
    if broken.is_empty() { Ok(links) } else { Err(broken) }
}

/// Reads `box` or `box.port`.
pub(super) fn end(text: &str) -> Result<End, Broken> {
    let broken = |message: String, help: Option<&str>| Broken {
        from: 0,
        to: text.len(),
        message,
        help: help.map(str::to_owned),
    };
    let (name, port) = match text.split_once('.') {
        None => (text, None),
        Some((name, port)) => (name, Some(port)),
    };
    if text.is_empty() {
        return Err(broken(
            "a box is missing here".to_owned(),
            Some("write `a -> b`, or `a.output -> b.input`"),
        ));
    }
    if !is_name(name) || port.is_some_and(|port| !is_name(port)) {
        let message = format!("`{text}` is neither `box` nor `box.port`");
        let help = ["=>", "~>", "→", ">", "--"].iter().any(|arrow| text.contains(arrow));
        return Err(broken(
            message,
            Some(if help { "edges are written `a -> b`, hints `a.x ~> b.x`" } else { NAMES_ARE }),
        ));
    }
    Ok(End { name: name.to_owned(), port: port.map(str::to_owned) })
}

fn no_arrow(text: &str, arrow: &str) -> Broken {
    let help = if arrow == "->" && text.contains("~>") {
        "`~>` joins hints, which stand under `hints:`".to_owned()
    } else if arrow == "~>" && text.contains("->") {
        "hints are written with `~>`; edges stand under `edges:`".to_owned()
    } else {
        format!("write `a {arrow} b`")
    };
    let what = if arrow == "->" { "an edge" } else { "a hint" };
    let message = format!("`{text}` is not {what}: it has no `{arrow}`");
    Broken { from: 0, to: text.len(), message, help: Some(help) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_know_their_places() {
        let text = "a -> bc.port->d";
        let links = links(text, "->").unwrap();
        let places: Vec<&str> = links.iter().map(|link| &text[link.from..link.to]).collect();
        assert_eq!(places, ["a", "bc.port", "d"]);
        assert_eq!(links[1].end, End { name: "bc".into(), port: Some("port".into()) });
    }

    #[test]
    fn broken_chains_say_where() {
        let broken = links("a -> -> c d", "->").unwrap_err();
        assert_eq!(broken.len(), 2);
        assert_eq!(broken[0].message, "a box is missing here");
        assert_eq!((broken[1].from, broken[1].to), (8, 11));
        assert!(links("a ~> b", "->").unwrap_err()[0].help.as_deref().unwrap().contains("under `hints:`"));
        assert!(links("a => b", "->").is_err());
        assert!(links("", "->").is_err());
        assert!(links("a.b.c -> d", "->").is_err());
    }
}
