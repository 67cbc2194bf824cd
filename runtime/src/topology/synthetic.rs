//! A machine from a string, `pack:2 numa:1 l3:2 core:4 pu:2`: the only provider that needs no machine.
//!
//! It is lenient if the meaning is clear: case, commas for spaces, a few other names of a level; a level left out
//! counts 1. Otherwise it is strict: an ambiguous token is an error that points at it.

use std::collections::BTreeMap;
use std::ops::Range;

use thiserror::Error;

use super::{CacheFacts, Cpu, NodeFacts, Provider, Topology, VIRTUAL_SLOTS_COUNT_MAX, assemble};
use crate::suggestion::nearest;

/// The levels, outermost first, each with the printed name first and then the other accepted names.
const LEVELS: [&[&str]; 5] = [
    &["pack", "package", "socket"],
    &["numa", "node", "numanode"],
    &["l3", "l3cache", "cache", "llc"],
    &["core", "cores"],
    &["pu", "smt", "thread", "cpu"],
];
/// As [`Problem`] spells them.
const NAMES: &str = "pack, numa, l3, core, pu";

/// The fault of a synthetic topology's text, and its place.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{problem}{}", place(.token, *.column))]
pub struct TopologyError {
    /// The fault, and a correct form.
    pub problem: Problem,
    /// The token at fault, as given; empty when the whole string is.
    pub token: String,
    /// The start of the token in the string, in bytes from 0.
    pub start_bytes: usize,
    /// The start of the token in the string, in characters from 1.
    pub column: usize,
}

impl TopologyError {
    /// The token's place in the string, in bytes, for a diagnostic that underlines it.
    pub fn span(&self) -> Range<usize> {
        self.start_bytes..self.start_bytes + self.token.len()
    }
}

fn place(token: &str, column: usize) -> String {
    match token {
        "" => String::new(),
        token => format!(" (`{token}`, at character {column})"),
    }
}

/// The faults of a token.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Problem {
    /// There is no token at all.
    #[error("a topology is levels with counts, outermost first, as in \"numa:2 core:4 pu:2\"")]
    Empty,
    /// Not the name of a level.
    #[error("unknown level{}; the levels are {NAMES}, in this order", hint(*.suggestion))]
    UnknownLevel {
        /// The level that was probably meant.
        suggestion: Option<&'static str>,
    },
    /// A level without `:` and a count.
    #[error("a level needs a count, as in `{level}:2`")]
    MissingCount {
        /// The level.
        level: &'static str,
    },
    /// A count that is not a whole number within the bounds.
    #[error("a count is a whole number from 1 to {VIRTUAL_SLOTS_COUNT_MAX}")]
    BadCount,
    /// A level that was given before.
    #[error("level {level} is given twice")]
    Repeated {
        /// The level.
        level: &'static str,
    },
    /// A level after one that lies inside it.
    #[error("level {level} must come before {inner}: outermost first, {NAMES}")]
    OutOfOrder {
        /// The level.
        level: &'static str,
        /// The level before it.
        inner: &'static str,
    },
    /// More slots than a topology may have.
    #[error("up to here there are {slots_count} slots, of at most {VIRTUAL_SLOTS_COUNT_MAX}")]
    TooManySlots {
        /// The product of the counts so far.
        slots_count: usize,
    },
}

fn hint(suggestion: Option<&str>) -> String {
    suggestion.map_or_else(String::new, |name| format!(", did you mean {name}?"))
}

pub(super) fn parse(text: &str) -> Result<Topology, TopologyError> {
    let mut counts = [None; LEVELS.len()];
    let (mut innermost, mut slots_count) = (None::<usize>, 1);
    for (start_bytes, token) in tokens(text) {
        let fail = |problem| {
            let column = text[..start_bytes].chars().count() + 1;
            TopologyError { problem, token: token.to_owned(), start_bytes, column }
        };
        let (level, count) = parse_token(token).map_err(fail)?;
        let name = LEVELS[level][0];
        if counts[level].replace(count).is_some() {
            return Err(fail(Problem::Repeated { level: name }));
        }
        if let Some(inner) = innermost.filter(|&inner| inner > level) {
            return Err(fail(Problem::OutOfOrder { level: name, inner: LEVELS[inner][0] }));
        }
        innermost = Some(level);
        slots_count *= count;
        if slots_count > VIRTUAL_SLOTS_COUNT_MAX {
            return Err(fail(Problem::TooManySlots { slots_count }));
        }
    }
    match innermost {
        Some(_) => {
            let topology = build(counts);
            debug_assert_eq!(
                topology.slots_count(),
                slots_count,
                "the machine that was made up differs from its description"
            );
            Ok(topology)
        }
        None => {
            Err(TopologyError { problem: Problem::Empty, token: String::new(), start_bytes: 0, column: 1 })
        }
    }
}

/// Tokens, each with the byte at which it starts.
fn tokens(text: &str) -> impl Iterator<Item = (usize, &str)> {
    // Each token is a part of `text`, so the difference of their addresses is its place.
    text.split(|c: char| c.is_whitespace() || c == ',')
        .filter(|token| !token.is_empty())
        .map(|token| (token.as_ptr().addr() - text.as_ptr().addr(), token))
}

fn parse_token(token: &str) -> Result<(usize, usize), Problem> {
    let (name, count) =
        token.split_once([':', '=']).map_or((token, None), |(name, count)| (name, Some(count)));
    let name = name.to_ascii_lowercase();
    let level = LEVELS
        .iter()
        .position(|names| names.contains(&name.as_str()))
        .ok_or_else(|| Problem::UnknownLevel { suggestion: closest(&name) })?;
    let count =
        count.filter(|count| !count.is_empty()).ok_or(Problem::MissingCount { level: LEVELS[level][0] })?;
    match count.parse() {
        Ok(count @ 1..=VIRTUAL_SLOTS_COUNT_MAX) => Ok((level, count)),
        _ => Err(Problem::BadCount),
    }
}

fn closest(name: &str) -> Option<&'static str> {
    let near = nearest(name, LEVELS.iter().copied().flatten().copied())?;
    LEVELS.iter().find(|names| names.contains(&near)).map(|names| names[0])
}

fn build(counts: [Option<usize>; LEVELS.len()]) -> Topology {
    let [packages, _, caches, _, _] = counts;
    // Counts are per object of the level before.
    let [packages_count, nodes_each, caches_each, cores_each, slots_each] =
        counts.map(|count| count.unwrap_or(1));
    let nodes_count = packages_count * nodes_each;
    let facts: BTreeMap<usize, NodeFacts> = (0..nodes_count)
        .map(|node| {
            (node, NodeFacts { package: packages.map(|_| node / nodes_each), ..NodeFacts::default() })
        })
        .collect();
    let cpus = (0..nodes_count * caches_each * cores_each * slots_each)
        .map(|slot| {
            let core = slot / slots_each;
            let key = core / cores_each;
            let cache = caches.map(|_| CacheFacts { level: 3, key, bytes: None });
            Cpu { node: key / caches_each, cache, core, os_idx: None }
        })
        .collect();
    debug_assert!(
        [nodes_each, caches_each, cores_each, slots_each].iter().all(|count| *count > 0),
        "a level of a made-up machine has no object"
    );
    assemble(Provider::Synthetic, cpus, &facts, Vec::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nodes, caches, cores and slots.
    fn check(text: &str, expected: [usize; 4]) {
        let t = parse(text).unwrap();
        assert_eq!([t.nodes().len(), t.caches().len(), t.cores().len(), t.slots_count()], expected, "{text}");
    }

    #[test]
    fn good_strings() {
        check("numa:2 core:4 pu:2", [2, 0, 8, 16]);
        check("pack:2 numa:1 l3:2 core:4 pu:2", [2, 4, 16, 32]);
        check("core:3", [1, 0, 3, 3]);
        check("pu:3", [1, 0, 1, 3]);
        check(" NUMA=2,  Cores:4 ", [2, 0, 8, 8]);
        check("socket:2 node:2 llc:1 core:1 smt:1", [4, 4, 4, 4]);
        check("core:4096", [1, 0, 4096, 4096]);
        assert_eq!(parse("pack:2 numa:2 pu:1").unwrap().nodes()[3].package, Some(1));
    }

    #[track_caller]
    fn check_error(text: &str, span: Range<usize>, message: &str) {
        let error = parse(text).unwrap_err();
        assert_eq!(error.span(), span, "{error}");
        assert!(error.to_string().contains(message), "{error}");
    }

    #[test]
    fn errors_name_the_token_its_place_and_a_right_form() {
        check_error("", 0..0, "numa:2 core:4 pu:2");
        check_error(" , ", 0..0, "levels with counts");
        check_error(
            "numa:2 coer:4",
            7..13,
            "unknown level, did you mean core?; the levels are pack, numa, l3, core, pu",
        );
        check_error("numa:2 coer:4", 7..13, "(`coer:4`, at character 8)");
        check_error("die:2", 0..5, "unknown level; the levels");
        check_error("l2:2", 0..4, "did you mean l3?");
        check_error("4", 0..1, "unknown level");
        check_error("numa core:2", 0..4, "`numa:2`");
        check_error("numa:", 0..5, "needs a count");
        for count in ["0", "-1", "x", "4097", "2.5", "1:2", "99999999999999999999"] {
            check_error(&format!("core:{count}"), 0..5 + count.len(), "a whole number from 1 to 4096");
        }
        check_error("numa:2 numa:2", 7..13, "given twice");
        check_error("core:2 numa:2", 7..13, "level numa must come before core");
        check_error("core:4096 pu:2", 10..14, "8192 slots, of at most 4096");
        check_error("é:2 pu:1", 0..4, "unknown level");
    }
}
