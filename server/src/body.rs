//! Bodies and query strings: read within their limits, and taken apart with the place of every fault.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE, TRANSFER_ENCODING};
use axum::http::{HeaderMap, Uri};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use serde_json::{Map, Value};

use crate::limits::Limits;
use crate::problem::{Fault, Kind, Problem};

/// The longest time for which a body that is refused is read.
const DISCARDED: Duration = Duration::from_secs(2);

/// The media type of a body, in small letters and without parameters.
pub fn media_type(headers: &HeaderMap) -> Option<String> {
    let text = headers.get(CONTENT_TYPE)?.to_str().ok()?;
    Some(text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase())
}

/// Reads a whole body.
///
/// # Errors
/// When its length is missing, it is longer than this, it comes too slowly, or the client goes.
pub async fn read(request: Request, limits: &Limits, bytes_max: usize) -> Result<Bytes, Problem> {
    let headers = request.headers();
    if !headers.contains_key(CONTENT_LENGTH) && !headers.contains_key(TRANSFER_ENCODING) {
        return Err(Problem::new(Kind::LENGTH, "send `Content-Length` with the body"));
    }
    let declared = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    let too_large = || {
        let limit = if bytes_max >> 20 > 0 {
            format!("{} MiB", bytes_max >> 20)
        } else {
            format!("{bytes_max} bytes")
        };
        Problem::new(Kind::TOO_LARGE, format!("the body is longer than {limit}"))
    };
    if declared.is_some_and(|declared| declared > bytes_max as u64) {
        discard(request.into_body(), 4 * bytes_max).await;
        return Err(too_large());
    }
    let whole = collect(request.into_body(), bytes_max, declared.unwrap_or(0).min(bytes_max as u64) as usize);
    match tokio::time::timeout(limits.body, whole).await {
        Ok(Ok(Some(bytes))) => Ok(bytes),
        Ok(Ok(None)) => Err(too_large()),
        Ok(Err(error)) => Err(Problem::new(Kind::MALFORMED, format!("the body cannot be read: {error}"))),
        Err(_) => {
            let seconds = limits.body.as_secs_f64();
            Err(Problem::new(Kind::SLOW_BODY, format!("the body was not complete after {seconds} seconds")))
        }
    }
}

/// Reads what is refused, for a while: a client that is still sending would not read the answer.
async fn discard(mut body: Body, bytes_max: usize) {
    let mut left = bytes_max;
    let discarding = async {
        while let Some(Ok(frame)) = body.frame().await {
            let bytes = frame.data_ref().map_or(0, Bytes::len);
            match left.checked_sub(bytes) {
                Some(rest) => left = rest,
                None => return,
            }
        }
    };
    // Late or not: the answer follows.
    let _ = tokio::time::timeout(DISCARDED, discarding).await;
}

/// The bytes of a body; nothing if it is too long.
async fn collect(mut body: Body, bytes_max: usize, expected: usize) -> Result<Option<Bytes>, axum::Error> {
    // No more is reserved than a slow client could not make the server keep anyway.
    let mut whole = BytesMut::with_capacity(expected.min(64 << 10));
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame?.into_data() {
            if whole.len() + data.len() > bytes_max {
                return Ok(None);
            }
            whole.extend_from_slice(&data);
        }
    }
    Ok(Some(whole.freeze()))
}

/// Reads a body of JSON that is an object.
///
/// # Errors
/// As [`read`]; and when it is of another type, no JSON, nested too deeply, or no object.
pub async fn json(request: Request, limits: &Limits) -> Result<Map<String, Value>, Problem> {
    match media_type(request.headers()).as_deref() {
        Some("application/json") => {}
        found => {
            let found = found.map_or_else(|| "no type".to_owned(), |found| format!("`{found}`"));
            let detail = format!("the body has {found}: send `Content-Type: application/json`");
            return Err(Problem::new(Kind::MEDIA, detail));
        }
    }
    let bytes = read(request, limits, limits.json_bytes).await?;
    parse(&bytes, limits)
}

/// Parses an object of JSON.
///
/// # Errors
/// When it is no JSON, nested too deeply, or no object.
pub fn parse(bytes: &[u8], limits: &Limits) -> Result<Map<String, Value>, Problem> {
    if depth(bytes) > limits.nesting {
        let detail = format!("the JSON is nested more than {} levels deep", limits.nesting);
        return Err(Problem::new(Kind::MALFORMED, detail));
    }
    match serde_json::from_slice(bytes) {
        Ok(Value::Object(members)) => Ok(members),
        Ok(_) => {
            let detail = "the body is an object: `{...}`".to_owned();
            Err(Problem::values(vec![Fault { pointer: String::new(), detail }]))
        }
        Err(error) => Err(Problem::new(Kind::MALFORMED, format!("the body is no JSON: {error}"))),
    }
}

/// The deepest nesting of brackets outside of strings.
fn depth(bytes: &[u8]) -> usize {
    let (mut depth, mut deepest, mut in_text, mut escaped) = (0_usize, 0, false, false);
    for byte in bytes {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_text => escaped = true,
            b'"' => in_text = !in_text,
            b'[' | b'{' if !in_text => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' if !in_text => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// The members of a JSON object, taken one by one; faults are collected.
#[derive(Debug)]
pub struct Members {
    members: Map<String, Value>,
    pointer: String,
    known: Vec<&'static str>,
    faults: Vec<Fault>,
}

impl Members {
    /// The members of a body's outermost object.
    pub fn new(members: Map<String, Value>) -> Self {
        Self::below(members, String::new())
    }

    /// The members of an object at a pointer.
    pub fn below(members: Map<String, Value>, pointer: String) -> Self {
        Self { members, pointer, known: Vec::new(), faults: Vec::new() }
    }

    /// Takes a member; null is none.
    pub fn take(&mut self, name: &'static str) -> Option<Value> {
        self.member(name).filter(|value| !value.is_null())
    }

    /// Takes a member, null included.
    pub fn member(&mut self, name: &'static str) -> Option<Value> {
        self.known.push(name);
        self.members.shift_remove(name)
    }

    /// Records a fault of a member.
    pub fn fault(&mut self, name: impl Display, detail: impl Into<String>) {
        let pointer = format!("{}/{name}", self.pointer);
        self.faults.push(Fault { pointer, detail: detail.into() });
    }

    /// Takes over the faults of a part.
    pub fn faults(&mut self, faults: Vec<Fault>) {
        self.faults.extend(faults);
    }

    /// A pointer to a member.
    pub fn pointer(&self, name: impl Display) -> String {
        format!("{}/{name}", self.pointer)
    }

    /// A number within a range.
    pub fn number(&mut self, name: &'static str, from: f64, to: f64) -> Option<f64> {
        let value = self.take(name)?;
        let number = value.as_f64().filter(|number| (from..=to).contains(number));
        if number.is_none() {
            self.fault(name, format!("`{name}` is a number from {from} to {to}, not {}", brief(&value)));
        }
        number
    }

    /// A whole number within a range.
    pub fn count(&mut self, name: &'static str, from: u64, to: u64) -> Option<u64> {
        let value = self.take(name)?;
        let count = value.as_u64().filter(|count| (from..=to).contains(count));
        if count.is_none() {
            self.fault(
                name,
                format!("`{name}` is a whole number from {from} to {to}, not {}", brief(&value)),
            );
        }
        count
    }

    /// A text.
    pub fn text(&mut self, name: &'static str) -> Option<String> {
        match self.take(name)? {
            Value::String(text) => Some(text),
            value => {
                self.fault(name, format!("`{name}` is text, not {}", brief(&value)));
                None
            }
        }
    }

    /// A list of at most so many values.
    pub fn list(&mut self, name: &'static str, most: usize) -> Option<Vec<Value>> {
        match self.take(name)? {
            Value::Array(values) if values.len() <= most => Some(values),
            Value::Array(values) => {
                self.fault(name, format!("`{name}` has {} values, at most {most} fit", values.len()));
                None
            }
            value => {
                self.fault(name, format!("`{name}` is a list, not {}", brief(&value)));
                None
            }
        }
    }

    /// The faults, those of members that nobody took included.
    pub fn end(mut self) -> Vec<Fault> {
        let known = self.known.join("`, `");
        let unknown: Vec<String> = self.members.keys().take(8).cloned().collect();
        for name in unknown {
            let detail = format!("there is no `{}` here; there are `{known}`", cut(&name));
            self.fault(name.replace('~', "~0").replace('/', "~1"), detail);
        }
        self.faults
    }

    /// Ends with the faults as an error.
    ///
    /// # Errors
    /// When there is a fault.
    pub fn check(self) -> Result<(), Problem> {
        let faults = self.end();
        if faults.is_empty() { Ok(()) } else { Err(Problem::values(faults)) }
    }
}

/// A value in a message.
pub fn brief(value: &Value) -> String {
    match value {
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
        Value::String(text) => format!("the text `{}`", cut(text)),
        value => value.to_string(),
    }
}

/// The beginning of a text, for a message.
pub fn cut(text: &str) -> String {
    let mut short: String = text.chars().filter(|letter| !letter.is_control()).take(60).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

/// The parameters of a query string.
#[derive(Debug)]
pub struct Parameters {
    values: BTreeMap<String, String>,
    known: Vec<&'static str>,
}

impl Parameters {
    /// Reads the query of an address.
    ///
    /// # Errors
    /// When a parameter comes twice.
    pub fn new(uri: &Uri) -> Result<Self, Problem> {
        let mut values = BTreeMap::new();
        for (name, value) in form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes()) {
            if values.insert(name.clone().into_owned(), value.into_owned()).is_some() {
                return Err(Problem::new(Kind::MALFORMED, format!("`{}` is there twice", cut(&name))));
            }
        }
        Ok(Self { values, known: Vec::new() })
    }

    /// A text; an empty one is none.
    pub fn text(&mut self, name: &'static str) -> Option<String> {
        self.known.push(name);
        self.values.remove(name).filter(|text| !text.is_empty())
    }

    /// A number of some type.
    ///
    /// # Errors
    /// When it is no such number.
    pub fn parsed<T: FromStr>(&mut self, name: &'static str, what: &str) -> Result<Option<T>, Problem> {
        let Some(text) = self.text(name) else { return Ok(None) };
        let refused = || Problem::new(Kind::MALFORMED, format!("`{name}` is {what}, not `{}`", cut(&text)));
        text.parse().map(Some).map_err(|_| refused())
    }

    /// Ends: every parameter was taken.
    ///
    /// # Errors
    /// Names one that was not.
    pub fn check(self) -> Result<(), Problem> {
        match self.values.keys().next() {
            None => Ok(()),
            Some(name) => {
                let known = self.known.join("`, `");
                let detail = format!("there is no parameter `{}` here; there are `{known}`", cut(name));
                Err(Problem::new(Kind::MALFORMED, detail))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nesting_counts_outside_of_texts() {
        for (text, expected) in [("{}", 1), ("[[1],[2,[3]]]", 3), (r#"{"a":"[[\"[["}"#, 1), ("]]]][", 1)] {
            assert_eq!(depth(text.as_bytes()), expected, "{text}");
        }
        let deep = format!("{{\"a\":{}{}}}", "[".repeat(16), "]".repeat(16));
        let error = parse(deep.as_bytes(), &Limits::default()).unwrap_err();
        assert_eq!(error.kind, Kind::MALFORMED);
    }

    #[test]
    fn every_fault_has_its_pointer() {
        let body = br#"{"k": 0, "explore": "x", "name": 3, "z/y": 1, "list": [1, 2]}"#;
        let mut members = Members::new(parse(body, &Limits::default()).unwrap());
        assert_eq!(members.count("k", 1, 9), None);
        assert_eq!(members.number("explore", 0.0, 2.0), None);
        assert_eq!(members.text("name"), None);
        assert_eq!(members.list("list", 1), None);
        assert_eq!(members.take("absent"), None);
        let problem = members.check().unwrap_err();
        let pointers: Vec<&str> = problem.errors.iter().map(|fault| fault.pointer.as_str()).collect();
        assert_eq!(pointers, ["/k", "/explore", "/name", "/list", "/z~1y"]);
        assert!(problem.detail.contains("from 1 to 9"), "{}", problem.detail);
        for bad in [&b"[]"[..], b"", b"{", b"\xff", b"{\"a\":NaN}"] {
            assert!(parse(bad, &Limits::default()).is_err());
        }
    }

    #[test]
    fn parameters_are_known_and_single() {
        let parameters = |text: &str| Parameters::new(&text.parse().unwrap());
        let mut found = parameters("/x?k=5&class=a%20b&empty=").unwrap();
        assert_eq!(found.parsed::<usize>("k", "a number").unwrap(), Some(5));
        assert_eq!((found.text("class").as_deref(), found.text("empty")), (Some("a b"), None));
        found.check().unwrap();
        assert!(parameters("/x?k=1&k=2").is_err());
        assert!(parameters("/x?k=-1").unwrap().parsed::<usize>("k", "a number").is_err());
        assert!(parameters("/x?y=1").unwrap().check().unwrap_err().detail.contains("`y`"));
    }
}
