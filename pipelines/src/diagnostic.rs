//! Diagnostics: a fault, its file and place, and a remedy; for users and as JSON.
//!
//! Invariants: both forms contain `file:line:column`; control characters of the input never reach the terminal; columns
//! count characters from 1, and an end is the column after the last character.

use std::fmt::{self, Write as _};
use std::sync::Arc;

use boxwork_runtime::plan::Severity;
use boxwork_runtime::printable::{printable, printable_lines, steers};
use miette::{
    GraphicalReportHandler, GraphicalTheme, LabeledSpan, MietteError, MietteSpanContents, SourceCode,
    SourceSpan, SpanContents,
};
use serde_json::{Value as Json, json};

use crate::document::Flaw;
use crate::document::span::{Span, line_and_column};

/// Longer lines are not shown: the caret would be off the screen.
const LINE_BYTES_MAX: usize = 400;
/// The width to which texts are wrapped.
const WIDTH_COLUMNS: usize = 100;

/// A text with places for diagnostics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The file's path, or another name for users.
    pub name: String,
    /// The text.
    pub text: String,
}

/// One fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Its severity.
    pub severity: Severity,
    /// A stable word for programs, such as `unknown-operator`.
    pub code: &'static str,
    /// The fault, in a sentence.
    pub message: String,
    /// A few words to print under the place.
    pub label: String,
    /// The remedy, if one is known.
    pub help: Option<String>,
    /// The file.
    pub file: String,
    /// The place in the file; `None` if it concerns the whole file.
    pub place: Option<TextPlace>,
}

/// A place in a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextPlace {
    /// The bytes of the source.
    pub span: Span,
    /// The first line, from 1.
    pub line: usize,
    /// The first character's column, from 1.
    pub column: usize,
    /// The last line.
    pub end_line: usize,
    /// The column after the last character.
    pub end_column: usize,
    source: Arc<Source>,
}

impl TextPlace {
    /// A place of a source.
    pub fn new(source: &Arc<Source>, span: Span) -> Self {
        let span = span.within(&source.text);
        let (line, column) = line_and_column(&source.text, span.start);
        let (end_line, end_column) = line_and_column(&source.text, span.end);
        Self { span, line, column, end_line, end_column, source: Arc::clone(source) }
    }
}

impl Diagnostic {
    /// An error about a file as a whole.
    pub fn of_file(file: &str, code: &'static str, message: impl Into<String>, help: Option<String>) -> Self {
        let (label, message) = (String::new(), message.into());
        Self { severity: Severity::Error, code, message, label, help, file: file.to_owned(), place: None }
    }

    pub(crate) fn of_flaw(flaw: Flaw, source: &Arc<Source>) -> Self {
        Self {
            severity: flaw.severity,
            code: flaw.code,
            message: flaw.message,
            label: flaw.label.to_owned(),
            help: flaw.help,
            file: source.name.clone(),
            place: Some(TextPlace::new(source, flaw.span)),
        }
    }

    /// Whether it is an error.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }

    /// The sort key among the diagnostics of its file.
    pub(crate) fn offset(&self) -> usize {
        self.place.as_ref().map_or(0, |place| place.span.start)
    }

    fn to_json(&self) -> Json {
        let place = self.place.as_ref();
        json!({
            "file": self.file,
            "line": place.map(|place| place.line),
            "column": place.map(|place| place.column),
            "end_line": place.map(|place| place.end_line),
            "end_column": place.map(|place| place.end_column),
            "severity": severity_word(self.severity),
            "code": self.code,
            "message": self.message,
            "help": self.help,
        })
    }
}

impl fmt::Display for Diagnostic {
    /// One line: `file:line:column: error: message`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", printable(&self.file))?;
        if let Some(place) = &self.place {
            write!(f, "{}:{}:", place.line, place.column)?;
        }
        write!(f, " {}: {}", severity_word(self.severity), printable_lines(&self.message))
    }
}

/// The diagnostics, each place's fault once: an end in the middle of a chain belongs to two edges.
pub(crate) fn distinct(mut diagnostics: Vec<Diagnostic>) -> Vec<Diagnostic> {
    diagnostics.dedup_by(|again, first| again.place == first.place && again.message == first.message);
    diagnostics
}

/// The numbers of errors and of warnings.
pub fn counts(diagnostics: &[Diagnostic]) -> (usize, usize) {
    let errors = diagnostics.iter().filter(|diagnostic| diagnostic.is_error()).count();
    (errors, diagnostics.len() - errors)
}

/// All diagnostics for programs: `{"diagnostics": [...], "errors": n, "warnings": n}`.
pub fn to_json(diagnostics: &[Diagnostic]) -> Json {
    let (errors, warnings) = counts(diagnostics);
    let list: Vec<Json> = diagnostics.iter().map(Diagnostic::to_json).collect();
    json!({"diagnostics": list, "errors": errors, "warnings": warnings})
}

/// All diagnostics for users, each with its source line and a caret.
pub fn render(diagnostics: &[Diagnostic], coloured: bool) -> String {
    let theme = if coloured { GraphicalTheme::unicode() } else { GraphicalTheme::unicode_nocolor() };
    let handler = GraphicalReportHandler::new_themed(theme)
        .with_links(false)
        .with_width(WIDTH_COLUMNS)
        .with_context_lines(1);
    let mut rendered = String::new();
    for diagnostic in diagnostics {
        let report = Report::new(diagnostic);
        if handler.render_report(&mut rendered, &report).is_err() {
            // Rendering fails only for a place outside the source; the plain line is then printed.
            let _ = writeln!(rendered, "{diagnostic}");
        }
        while rendered.ends_with("\n\n") {
            rendered.pop();
        }
        rendered.push('\n');
    }
    rendered
}

/// `2 errors, 1 warning`.
pub fn summary(diagnostics: &[Diagnostic]) -> String {
    let (errors, warnings) = counts(diagnostics);
    let many = |count: usize, word: &str| format!("{count} {word}{}", if count == 1 { "" } else { "s" });
    match (errors, warnings) {
        (0, 0) => "no problems".to_owned(),
        (errors, 0) => many(errors, "error"),
        (0, warnings) => many(warnings, "warning"),
        (errors, warnings) => format!("{}, {}", many(errors, "error"), many(warnings, "warning")),
    }
}

fn severity_word(severity: Severity) -> &'static str {
    match severity {
        Severity::Warning => "warning",
        Severity::Error => "error",
    }
}

/// A diagnostic in miette's terms.
struct Report {
    code: &'static str,
    severity: Severity,
    message: String,
    help: Option<String>,
    snippet: Option<(Shown, LabeledSpan)>,
}

impl Report {
    fn new(diagnostic: &Diagnostic) -> Self {
        let snippet = diagnostic.place.as_ref().and_then(|place| {
            let text = &place.source.text;
            let start = text[..place.span.start].rfind('\n').map_or(0, |newline| newline + 1);
            let end = text[place.span.end..].find('\n').map_or(text.len(), |len| place.span.end + len);
            // The lines before and after are shown too.
            let before = text[..start.saturating_sub(1)].rfind('\n').map_or(0, |newline| newline + 1);
            let after = text[end..].lines().take(2).map(str::len).max().unwrap_or(0);
            let shown =
                after <= LINE_BYTES_MAX && text[before..end].lines().all(|line| line.len() <= LINE_BYTES_MAX);
            // A place over many lines is shown by its first.
            let first_line = start + text[start..].lines().next().unwrap_or_default().len();
            let len = place.span.end.min(first_line.max(place.span.start)) - place.span.start;
            let label = LabeledSpan::new(Some(diagnostic.label.clone()), place.span.start, len);
            shown.then(|| (Shown { name: printable(&diagnostic.file), text: shown_text(text) }, label))
        });
        let mut message = printable_lines(&diagnostic.message);
        if snippet.is_none() {
            let at = diagnostic.place.as_ref().map(|place| format!(":{}:{}", place.line, place.column));
            message = format!("{}{}: {message}", printable(&diagnostic.file), at.unwrap_or_default());
        }
        let help = diagnostic.help.as_deref().map(printable_lines);
        Self { code: diagnostic.code, severity: diagnostic.severity, message, help, snippet }
    }
}

/// A source whose columns count characters, as everywhere else; miette's own count terminal columns.
struct Shown {
    name: String,
    text: String,
}

impl SourceCode for Shown {
    fn read_span<'a>(
        &'a self,
        span: &SourceSpan,
        lines_before: usize,
        lines_after: usize,
    ) -> Result<Box<dyn SpanContents<'a> + 'a>, MietteError> {
        let found = self.text.read_span(span, lines_before, lines_after)?;
        let (_, column) = line_and_column(&self.text, found.span().offset());
        Ok(Box::new(MietteSpanContents::new_named(
            self.name.clone(),
            found.data(),
            *found.span(),
            found.line(),
            column - 1,
            found.line_count(),
        )))
    }
}

/// The text with each character that steers a terminal replaced by one of equal length in bytes, so that places stay.
fn shown_text(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '\n' | '\t' => c,
            '\r' => ' ',
            c if steers(c) => match c.len_utf8() {
                1 => '?',
                2 => '·',
                _ => char::REPLACEMENT_CHARACTER,
            },
            c => c,
        })
        .collect()
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl fmt::Debug for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Report {}

impl miette::Diagnostic for Report {
    fn code<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        Some(Box::new(self.code))
    }

    fn severity(&self) -> Option<miette::Severity> {
        Some(match self.severity {
            Severity::Warning => miette::Severity::Warning,
            Severity::Error => miette::Severity::Error,
        })
    }

    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        self.help.as_ref().map(|help| Box::new(help) as Box<dyn fmt::Display>)
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        self.snippet.as_ref().map(|(source, _)| source as &dyn SourceCode)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let (_, label) = self.snippet.as_ref()?;
        Some(Box::new(std::iter::once(label.clone())))
    }
}
