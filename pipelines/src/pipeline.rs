//! A pipeline from its file to its plan: reading, checking, and every fault with its place.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use boxwork_runtime::operator::Catalog;
use boxwork_runtime::parameter::Value;
use boxwork_runtime::plan::{self, Declaration, Fault, FaultKind, Place, Plan, Severity};

use crate::compile::{Places, compile};
use crate::diagnostic::{self, Diagnostic, Source, TextPlace};
use crate::document::{self, Taint};

/// The largest file that is read.
pub const FILE_BYTES_MAX: usize = 1 << 20;
/// The most faults reported for one file.
pub const FAULTS_COUNT_MAX: usize = 100;

/// A pipeline that was read but not checked against a catalogue.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The description by its author; may be empty.
    pub about: String,
    /// The declaration.
    pub declaration: Declaration,
    /// Whether the command ships it, so that its user may never have seen its text.
    pub(crate) is_shipped: bool,
    source: Arc<Source>,
    places: Places,
    taint: Taint,
    flaws: Vec<Diagnostic>,
}

/// Reads a file.
///
/// # Errors
/// Every flaw of the text.
pub fn load(path: &Path) -> Result<Loaded, Vec<Diagnostic>> {
    strict(read(path)?)
}

/// Reads a text; diagnostics show `name` where a file's path would be.
///
/// # Errors
/// Every flaw of the text.
pub fn load_text(name: &str, text: &str) -> Result<Loaded, Vec<Diagnostic>> {
    strict(read_text(name, text))
}

/// Reads a file as far as possible, even with flaws, so that they can be shown with the faults that a check finds, or
/// on a drawing.
///
/// # Errors
/// When the file cannot be read, or is not text.
pub fn read(path: &Path) -> Result<Loaded, Vec<Diagnostic>> {
    let name = path.display().to_string();
    let text = read_file(path, &name).map_err(|diagnostic| vec![*diagnostic])?;
    Ok(read_text(&name, &text))
}

/// Reads a pipeline from a text.
pub fn read_text(name: &str, text: &str) -> Loaded {
    let source = Arc::new(Source { name: name.to_owned(), text: text.to_owned() });
    let (document, flaws) = document::read(text);
    let (declaration, places) = compile(&document);
    let mut spots: Vec<_> = flaws.into_iter().collect();
    spots.sort_by_key(|flaw| flaw.span.start);
    let flaws =
        spots.into_iter().take(FAULTS_COUNT_MAX).map(|flaw| Diagnostic::of_flaw(flaw, &source)).collect();
    Loaded {
        about: document.about,
        declaration,
        is_shipped: false,
        source,
        places,
        taint: document.taint,
        flaws,
    }
}

/// A pipeline without flaws, or its flaws.
pub(crate) fn strict(loaded: Loaded) -> Result<Loaded, Vec<Diagnostic>> {
    if loaded.flaws.iter().any(Diagnostic::is_error) { Err(loaded.flaws) } else { Ok(loaded) }
}

impl Loaded {
    /// The file's path, or the text's name.
    pub fn name(&self) -> &str {
        &self.source.name
    }

    /// The flaws of the text; empty if it came from [`load`].
    pub fn flaws(&self) -> &[Diagnostic] {
        &self.flaws
    }

    /// Checks it against a catalogue, with the known values (the defaults, or all of a run). Opens no file.
    ///
    /// Returns the plan if there is no error, and all faults in the order of the text, including flaws and warnings.
    pub fn check(
        &self,
        catalog: &Catalog,
        values: &BTreeMap<String, Value>,
    ) -> (Option<Plan>, Vec<Diagnostic>) {
        if self.taint.sections {
            return (None, self.flaws.clone());
        }
        let (plan, faults) = self.plan(catalog, values);
        let left_out = faults.len().saturating_sub(FAULTS_COUNT_MAX);
        let mut diagnostics: Vec<Diagnostic> =
            faults.iter().take(FAULTS_COUNT_MAX).map(|fault| self.diagnose(fault)).collect();
        diagnostics.extend(self.flaws.iter().cloned());
        diagnostics.sort_by_key(Diagnostic::offset);
        let mut diagnostics = diagnostic::distinct(diagnostics);
        if left_out > 0 {
            let message = format!("{left_out} more faults are not shown");
            diagnostics.push(Diagnostic::of_file(self.name(), "too-many", message, None));
        }
        let broken = diagnostics.iter().any(Diagnostic::is_error);
        (plan.filter(|_| !broken), diagnostics)
    }

    /// The faults that a check finds, without the text's own flaws; for drawings, which need their places.
    pub fn faults(&self, catalog: &Catalog, values: &BTreeMap<String, Value>) -> Vec<Fault> {
        self.plan(catalog, values).1
    }

    /// Whether the text has a flaw at a box, resource or parameter of this name.
    pub fn is_tainted(&self, name: &str) -> bool {
        self.taint.names.contains(name)
    }

    fn plan(&self, catalog: &Catalog, values: &BTreeMap<String, Value>) -> (Option<Plan>, Vec<Fault>) {
        let (plan, faults) = plan::check(&self.declaration, catalog, values);
        (plan, faults.into_iter().filter(|fault| !self.follows(fault)).collect())
    }

    /// A fault of the declaration with its place in the text.
    pub fn diagnose(&self, fault: &Fault) -> Diagnostic {
        Diagnostic {
            severity: fault.severity,
            code: fault.kind.code(),
            message: fault.message.clone(),
            label: fault.label.clone(),
            help: fault.help.clone(),
            file: self.source.name.clone(),
            place: Some(TextPlace::new(&self.source, self.places.span(fault, &self.source.text))),
        }
    }

    /// An error at a parameter's declaration, for a fault that [`Declaration::values`] finds in a given value.
    pub fn diagnose_value(&self, parameter: &str, message: &str) -> Diagnostic {
        self.diagnose(&Fault {
            place: Place::Parameter(parameter.to_owned()),
            severity: Severity::Error,
            kind: FaultKind::WrongValue,
            message: message.to_owned(),
            label: "this parameter".to_owned(),
            help: None,
        })
    }

    /// Whether a fault is a consequence of a flaw of the text.
    fn follows(&self, fault: &Fault) -> bool {
        let tainted = |name: &str| self.taint.names.contains(name);
        let any = !self.taint.names.is_empty() || self.taint.edges;
        match &fault.kind {
            FaultKind::UnreadBox
            | FaultKind::UnconnectedInput
            | FaultKind::NoBoxes
            | FaultKind::UnusedParameter => any,
            // A misspelt key beside it changes nothing.
            FaultKind::WrongDefault => false,
            FaultKind::UnknownBox(name) | FaultKind::UnknownPipelineParameter(name) if tainted(name) => true,
            _ => match &fault.place {
                Place::Whole | Place::Queries => false,
                Place::Parameter(name)
                | Place::Resource(name)
                | Place::ResourceKind(name)
                | Place::ResourceSetting(name, _)
                | Place::Box(name)
                | Place::BoxKind(name)
                | Place::BoxSetting(name, _) => tainted(name),
                Place::Edge(idx) => {
                    let edge = &self.declaration.edges[*idx];
                    tainted(&edge.from.name) || tainted(&edge.to.name)
                }
                Place::EdgeFrom(idx) => tainted(&self.declaration.edges[*idx].from.name),
                Place::EdgeTo(idx) => tainted(&self.declaration.edges[*idx].to.name),
                Place::Hint(idx) => {
                    let hint = &self.declaration.hints[*idx];
                    tainted(&hint.from.name) || tainted(&hint.to.name)
                }
                Place::HintFrom(idx) => tainted(&self.declaration.hints[*idx].from.name),
                Place::HintTo(idx) => tainted(&self.declaration.hints[*idx].to.name),
            },
        }
    }
}

/// The text of a file, if its content is text.
pub(crate) fn read_file(path: &Path, name: &str) -> Result<String, Box<Diagnostic>> {
    let refused = |code: &'static str, message: String, help: Option<String>| {
        Box::new(Diagnostic::of_file(name, code, message, help))
    };
    let unreadable = |error: std::io::Error| {
        let help = match error.kind() {
            std::io::ErrorKind::NotFound => Some("check the path".to_owned()),
            _ => None,
        };
        refused("unreadable", format!("the file cannot be read: {error}"), help)
    };
    let mut bytes = Vec::new();
    let limit = FILE_BYTES_MAX as u64 + 1;
    File::open(path).and_then(|file| file.take(limit).read_to_end(&mut bytes)).map_err(unreadable)?;
    if bytes.len() > FILE_BYTES_MAX {
        let message = format!("the file is larger than {} KiB: it is no pipeline", FILE_BYTES_MAX >> 10);
        return Err(refused("too-large", message, None));
    }
    if bytes.contains(&0) {
        let message = "the file is binary: a pipeline is YAML text".to_owned();
        return Err(refused("not-text", message, None));
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let line = error.as_bytes()[..at].iter().filter(|byte| **byte == b'\n').count() + 1;
        let message = format!("the file is not UTF-8: a byte of line {line} is part of no character");
        let help = Some("save it as UTF-8".to_owned());
        refused("not-text", message, help)
    })
}
