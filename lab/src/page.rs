//! One self-contained page of results: facts, plots and tables.

use std::fmt::Write as _;

/// A page that grows from top to bottom.
pub(crate) struct Page(String);

impl Page {
    /// The head of the page, with the facts that all results share, by name.
    pub(crate) fn new(title: &str, facts: &[(&str, String)]) -> Self {
        let mut text = format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{0}</title>\n\
             <style>\n{1}</style>\n</head>\n<body>\n<main>\n<h1>{0}</h1>\n<dl>\n",
            escape_xml(title),
            include_str!("page.css")
        );
        for (name, value) in facts {
            let _ = writeln!(text, "<dt>{}</dt><dd>{}</dd>", escape_xml(name), escape_xml(value));
        }
        Self(text + "</dl>\n")
    }

    /// A heading and a sentence under it.
    pub(crate) fn section(&mut self, title: &str, about: &str) {
        let _ = writeln!(self.0, "<h2>{}</h2>\n<p>{}</p>", escape_xml(title), escape_xml(about));
    }

    /// A picture, which is SVG.
    pub(crate) fn figure(&mut self, svg: &str) {
        let _ = writeln!(self.0, "<figure>\n{svg}</figure>");
    }

    /// Text whose columns are aligned by spaces.
    pub(crate) fn preformatted(&mut self, text: &str) {
        let _ = writeln!(self.0, "<pre>{}</pre>", escape_lines(text));
    }

    /// A table whose first row holds the names of the columns.
    pub(crate) fn table(&mut self, caption: &str, rows: &[Vec<String>]) {
        let _ = writeln!(self.0, "<table>\n<caption>{}</caption>", escape_xml(caption));
        for (idx, row) in rows.iter().enumerate() {
            let tag = if idx == 0 { "th" } else { "td" };
            let cells = row.iter().map(|cell| format!("<{tag}>{}</{tag}>", escape_xml(cell)));
            let _ = writeln!(self.0, "<tr>{}</tr>", cells.collect::<String>());
        }
        self.0.push_str("</table>\n");
    }

    /// The whole page.
    pub(crate) fn finish(self) -> String {
        self.0 + "</main>\n</body>\n</html>\n"
    }
}

fn escape_lines(text: &str) -> String {
    text.lines().map(|line| escape_xml(line) + "\n").collect()
}

/// Text for HTML and SVG; characters that XML does not allow are replaced.
pub fn escape_xml(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            '\'' => escaped += "&apos;",
            '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            c if c.is_control() => escaped.push(' '),
            c => escaped.push(c),
        }
    }
    escaped
}
