//! The text form of covariances.
//!
//! ```text
//! sum     = product { "+" product }          product = factor { "*" factor }
//! factor  = number | form "(" arguments ")" | "(" sum ")"
//! argument = [ name "=" ] ( number | "[" number { "," number } "]" )
//! number  = digits [ "in" digits ".." digits ] [ "fixed" ]
//! ```

use std::str::FromStr;

use super::expression::{BOUNDS, Expression, Form, Parameter, Part, Step};

/// A text is no covariance: the place in it, and the fix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the covariance `{text}`, character {at}: {reason}")]
pub struct CovarianceError {
    /// The whole text.
    pub text: String,
    /// The character where the fault lies, from 1.
    pub at: usize,
    /// The fault and the fix.
    pub reason: String,
}

/// Brackets within each other at most, so that no text exhausts the stack.
const DEPTH_MAX: usize = 64;
/// Bytes of a text at most.
const TEXT_BYTES_MAX: usize = 65_536;

struct Reader<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
    made: Expression,
}

type Read<T> = Result<T, CovarianceError>;

impl FromStr for Expression {
    type Err = CovarianceError;

    fn from_str(text: &str) -> Read<Self> {
        let made = Self { parts: Vec::new(), steps: Vec::new(), parameters: Vec::new() };
        let mut reader = Reader { text, at: 0, depth: 0, made };
        if text.len() > TEXT_BYTES_MAX {
            reader.text = "...";
            return Err(reader.fault(0, format!("it has {} bytes; {TEXT_BYTES_MAX} are allowed", text.len())));
        }
        reader.sum()?;
        reader.skip();
        if reader.at < text.len() {
            return Err(reader.fault(reader.at, "the text ends here, or goes on with `+` or `*`"));
        }
        Ok(reader.made)
    }
}

impl Reader<'_> {
    fn fault(&self, at: usize, reason: impl Into<String>) -> CovarianceError {
        let at = 1 + self.text.get(..at).map_or(0, |before| before.chars().count());
        CovarianceError { text: self.text.to_owned(), at, reason: reason.into() }
    }

    fn skip(&mut self) {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
    }

    /// Whether this comes next; it is then taken.
    fn takes(&mut self, what: &str) -> bool {
        self.skip();
        let is = self.text[self.at..].starts_with(what);
        self.at += if is { what.len() } else { 0 };
        is
    }

    fn must(&mut self, what: &str) -> Read<()> {
        if self.takes(what) {
            return Ok(());
        }
        Err(self.fault(self.at, format!("`{what}` is missing")))
    }

    /// The word that comes next, which is not taken.
    fn word(&mut self) -> &str {
        self.skip();
        let rest = &self.text[self.at..];
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        if rest.starts_with(|c: char| c.is_ascii_alphabetic()) { &rest[..end] } else { "" }
    }

    fn sum(&mut self) -> Read<usize> {
        let mut left = self.product()?;
        while self.takes("+") {
            let right = self.product()?;
            self.made.steps.push(Step::Sum(left, right));
            left = self.made.steps.len() - 1;
        }
        Ok(left)
    }

    fn product(&mut self) -> Read<usize> {
        let mut left = self.factor()?;
        while self.takes("*") {
            let right = self.factor()?;
            self.made.steps.push(Step::Product(left, right));
            left = self.made.steps.len() - 1;
        }
        Ok(left)
    }

    fn factor(&mut self) -> Read<usize> {
        if self.takes("(") {
            self.depth += 1;
            if self.depth > DEPTH_MAX {
                return Err(self.fault(self.at, format!("more than {DEPTH_MAX} brackets within each other")));
            }
            let inner = self.sum()?;
            self.depth -= 1;
            self.must(")")?;
            return Ok(inner);
        }
        let word = self.word().to_owned();
        let at = self.at;
        let part = if word.is_empty() {
            let variance = self.number("v")?;
            self.part(Form::Constant, &[("v", vec![variance])])
        } else {
            self.at += word.len();
            let Some(form) = Form::ALL.into_iter().find(|form| form.name() == word) else {
                let names = Form::ALL.map(Form::name);
                return Err(self.fault(at, format!("there is no form `{word}`{}", meant(&word, &names))));
            };
            self.must("(")?;
            let arguments = self.arguments(form)?;
            self.part(form, &arguments)
        };
        self.made.parts.push(part);
        self.made.steps.push(Step::Part(self.made.parts.len() - 1));
        Ok(self.made.steps.len() - 1)
    }

    fn arguments(&mut self, form: Form) -> Read<Vec<(&'static str, Vec<Parameter>)>> {
        let mut given: Vec<(&'static str, Vec<Parameter>)> = Vec::new();
        while !self.takes(")") {
            if !given.is_empty() {
                self.must(",")?;
            }
            let word = self.word().to_owned();
            let at = self.at;
            let known = form.parameters();
            let name = if word.is_empty() {
                known.get(given.len()).copied().ok_or_else(|| {
                    self.fault(at, format!("{} takes {} at most", form.name(), known.join(", ")))
                })?
            } else {
                self.at += word.len();
                let name = known.iter().find(|name| **name == word).ok_or_else(|| {
                    let reason = format!("{} has no parameter `{word}`{}", form.name(), meant(&word, known));
                    self.fault(at, reason)
                })?;
                self.must("=")?;
                name
            };
            if given.iter().any(|(other, _)| *other == name) {
                return Err(self.fault(at, format!("`{name}` is given twice")));
            }
            let values = self.values(name)?;
            given.push((name, values));
        }
        Ok(given)
    }

    fn values(&mut self, name: &'static str) -> Read<Vec<Parameter>> {
        let at = self.at;
        if !self.takes("[") {
            return Ok(vec![self.number(name)?]);
        }
        if !matches!(name, "l" | "p") {
            return Err(self.fault(at, format!("`{name}` is one number")));
        }
        let mut values = vec![self.number(name)?];
        while !self.takes("]") {
            self.must(",")?;
            values.push(self.number(name)?);
        }
        let known = self.made.dimensions().filter(|known| values.len() > 1 && *known != values.len());
        match known {
            Some(known) => Err(self.fault(
                at,
                format!("{} numbers, where another list has {known}: one for each dimension", values.len()),
            )),
            None => Ok(values),
        }
    }

    fn number(&mut self, name: &'static str) -> Read<Parameter> {
        let (value, at) = self.plain(name)?;
        let mut bounds = BOUNDS;
        let mut fixed = false;
        loop {
            let word = self.word().to_owned();
            match word.as_str() {
                "fixed" => {
                    fixed = true;
                    self.at += word.len();
                }
                "in" => {
                    self.at += word.len();
                    let low = self.plain(name)?;
                    self.must("..")?;
                    let high = self.plain(name)?;
                    if low.0 > high.0 {
                        let reason = format!("the bounds cross: {} is above {}", low.0, high.0);
                        return Err(self.fault(low.1, reason));
                    }
                    bounds = (low.0, high.0);
                }
                _ => break,
            }
        }
        if !fixed && !(bounds.0..=bounds.1).contains(&value) {
            let reason = format!(
                "{name} = {value} is not within its bounds {:?} to {:?}: write `{value:?} in A..B`, or `fixed`",
                bounds.0, bounds.1
            );
            return Err(self.fault(at, reason));
        }
        Ok(Parameter { name, value, bounds, fixed })
    }

    /// A positive number, and its place.
    fn plain(&mut self, name: &str) -> Read<(f64, usize)> {
        self.skip();
        let (at, rest) = (self.at, &self.text[self.at..]);
        let bytes = rest.as_bytes();
        let mut end = 0;
        while end < bytes.len() {
            let is_sign =
                matches!(bytes[end], b'-' | b'+') && (end == 0 || matches!(bytes[end - 1], b'e' | b'E'));
            // Two dots divide bounds.
            let is_dot = bytes[end] == b'.' && bytes.get(end + 1) != Some(&b'.');
            let is_exponent = matches!(bytes[end], b'e' | b'E') && end > 0;
            if !(bytes[end].is_ascii_digit() || is_sign || is_dot || is_exponent) {
                break;
            }
            end += 1;
        }
        let Ok(value) = rest[..end].parse::<f64>() else {
            return Err(self.fault(at, "a number or a form such as `rbf()` is missing"));
        };
        if !(value > 0.0 && value.is_finite()) {
            let what = match name {
                "l" => "a length",
                "p" => "a period",
                "c" => "a shape",
                _ => "a variance",
            };
            return Err(self.fault(at, format!("{what} is a finite number above 0, not {value}")));
        }
        self.at += end;
        Ok((value, at))
    }

    /// A part whose parameters are appended to the list.
    fn part(&mut self, form: Form, given: &[(&'static str, Vec<Parameter>)]) -> Part {
        let mut part = Part { form, lengths: 0..0, periods: 0..0, shape: None, variance: None };
        for name in form.parameters() {
            let first = self.made.parameters.len();
            match given.iter().find(|(other, _)| other == name) {
                Some((_, values)) => self.made.parameters.extend_from_slice(values),
                None if form.has(name) => {
                    self.made.parameters.push(Parameter { name, value: 1.0, bounds: BOUNDS, fixed: false });
                }
                None => continue,
            }
            let places = first..self.made.parameters.len();
            match *name {
                "l" => part.lengths = places,
                "p" => part.periods = places,
                "c" => part.shape = Some(first),
                _ => part.variance = Some(first),
            }
        }
        part
    }
}

/// A hint at the nearest of some names.
fn meant(word: &str, names: &[&str]) -> String {
    let distance = |name: &str| edits(word.as_bytes(), name.as_bytes());
    let nearest = names.iter().min_by_key(|name| distance(name));
    match nearest.filter(|name| distance(name) <= 1 + word.len() / 3) {
        Some(name) => format!(": did you mean `{name}`?"),
        None => format!(": there are {}", names.join(", ")),
    }
}

/// The edit distance of two short words.
fn edits(a: &[u8], b: &[u8]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}
