//! The document: a pipeline's text read into named parts, each with its place.
//!
//! Invariants: reading never fails as a whole and never stops at the first flaw, unless the text is not YAML at all; a
//! part with a flaw is kept if its name is known, and listed as tainted, so that later checks do not report its
//! consequences. Knows no operator.

pub(crate) mod span;
mod limits;
pub(crate) mod node;
mod setting;
mod chain;
mod reader;

use std::collections::BTreeSet;

use boxwork_runtime::plan::{End, ParameterDeclaration, Setting, Severity};

use limits::NAME_CHARS_MAX;
pub(crate) use reader::TYPES;
pub(crate) use setting::list;
use span::{Marked, Span};

/// The version of the language that this front end reads.
pub const VERSION: i64 = 1;

/// A fault at one place of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Flaw {
    pub(crate) span: Span,
    pub(crate) severity: Severity,
    pub(crate) code: &'static str,
    pub(crate) message: String,
    pub(crate) label: &'static str,
    pub(crate) help: Option<String>,
}

impl Flaw {
    pub(crate) fn error(
        span: Span,
        code: &'static str,
        message: impl Into<String>,
        label: &'static str,
    ) -> Self {
        Self { span, severity: Severity::Error, code, message: message.into(), label, help: None }
    }

    pub(crate) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    pub(crate) fn help_maybe(mut self, help: Option<String>) -> Self {
        self.help = help;
        self
    }
}

/// A parameter that a pipeline declares.
#[derive(Clone, Debug)]
pub(crate) struct ParameterEntry {
    pub(crate) name: Marked<String>,
    pub(crate) declaration: ParameterDeclaration,
    /// The place of the default, or of the name if there is none.
    pub(crate) default: Span,
}

/// A box or a resource: a name and settings in order, `kind` among them.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) name: Marked<String>,
    pub(crate) settings: Vec<(Marked<String>, Marked<Setting>)>,
}

/// An edge or a hint's edge between two ends.
#[derive(Clone, Debug)]
pub(crate) struct EdgeEntry {
    pub(crate) from: Marked<End>,
    pub(crate) to: Marked<End>,
    pub(crate) envelopes: Option<usize>,
    pub(crate) bytes: Option<usize>,
    pub(crate) span: Span,
}

/// A pipeline's text in named parts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Document {
    pub(crate) about: String,
    pub(crate) parameters: Vec<ParameterEntry>,
    pub(crate) resources: Vec<Entry>,
    pub(crate) boxes: Vec<Entry>,
    pub(crate) edges: Vec<EdgeEntry>,
    pub(crate) hints: Vec<EdgeEntry>,
    /// The most queries of a request.
    pub(crate) queries: Option<Marked<usize>>,
    /// The place of faults that concern the whole text.
    pub(crate) head: Span,
    pub(crate) taint: Taint,
}

/// The parts that have a flaw. Faults that follow from these flaws are not reported.
#[derive(Clone, Debug, Default)]
pub(crate) struct Taint {
    /// Parameters, resources and boxes.
    pub(crate) names: BTreeSet<String>,
    /// Whether an edge or hint was lost.
    pub(crate) edges: bool,
    /// Whether a whole section was lost, so that no check makes sense.
    pub(crate) sections: bool,
}

/// Reads a text into a document, as far as possible.
pub(crate) fn read(text: &str) -> (Document, Vec<Flaw>) {
    reader::read(text)
}

/// Whether a box, resource, parameter or port may have this name: letters, digits, `_` and `-`, and not too long.
pub(crate) fn is_name(name: &str) -> bool {
    !name.is_empty() && !is_long(name) && name.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '-')
}

fn is_long(name: &str) -> bool {
    name.chars().nth(NAME_CHARS_MAX).is_some()
}

const NAMES_ARE: &str = "names are made of letters, digits, `_` and `-`, 64 of them at most";
const _: () = assert!(NAME_CHARS_MAX == 64);
