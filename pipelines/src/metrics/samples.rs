//! Parses the samples of a page.

use std::collections::BTreeMap;

/// One line of a page that is not a comment.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// The metric.
    pub name: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its value.
    pub value: f64,
}

impl Sample {
    /// The value of a label; empty if there is none of this name.
    pub fn label(&self, name: &str) -> &str {
        self.labels.get(name).map_or("", String::as_str)
    }
}

/// Reads the samples of a page.
///
/// # Errors
/// The first line that is invalid.
pub fn parse(page: &str) -> Result<Vec<Sample>, String> {
    let lines = page.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| sample(line).ok_or_else(|| line.to_owned())).collect()
}

fn sample(line: &str) -> Option<Sample> {
    let name_end = line.find(['{', ' '])?;
    let (name, mut rest) = line.split_at(name_end);
    let valid = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    if name.is_empty() || !name.chars().all(valid) {
        return None;
    }
    let mut labels = BTreeMap::new();
    if let Some(inner) = rest.strip_prefix('{') {
        rest = inner;
        loop {
            if let Some(after) = rest.strip_prefix('}') {
                rest = after;
                break;
            }
            let (label, after) = rest.split_once("=\"")?;
            let (value, after) = quoted(after)?;
            labels.insert(label.to_owned(), value);
            rest = after.strip_prefix(',').unwrap_or(after);
        }
    }
    let value = rest.strip_prefix(' ')?.parse().ok()?;
    Some(Sample { name: name.to_owned(), labels, value })
}

/// A label's value up to its closing quote, and the rest.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => match chars.next()?.1 {
                'n' => value.push('\n'),
                other @ ('\\' | '"') => value.push(other),
                _ => return None,
            },
            c => value.push(c),
        }
    }
    None
}
