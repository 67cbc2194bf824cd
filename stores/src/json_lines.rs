//! Objects as lines of JSON: `{"name": "a", "object": [1, 2]}`, or with the object's members beside its name.

use std::io::{self, BufRead, Read};

use serde_json::{Map, Value};

/// Bytes of a line at most: a file without lines must not take all memory.
const LINE_BYTES_MAX: u64 = 1 << 28;
/// Bytes of a line at most in tests with small limits.
const LINE_BYTES_SMALL: u64 = 1 << 20;

/// The key of the alpha of searches, which the first line of a file of signatures may say for all.
pub(crate) const ALPHA: &str = "alpha";

/// Appends a line. `write` appends the object, a JSON value: it stands under `key`. Without a key its members stand in
/// the line, beside the name and the alpha of searches, if it is given.
pub fn write_line(
    text: &mut String,
    name: &str,
    alpha: Option<f64>,
    key: Option<&str>,
    write: impl FnOnce(&mut String),
) {
    text.push_str("{\"name\":");
    text.push_str(&Value::from(name).to_string());
    if let Some(alpha) = alpha {
        text.push_str(&format!(",\"{ALPHA}\":{}", Value::from(alpha)));
    }
    match key {
        Some(key) => {
            text.push(',');
            text.push_str(&Value::from(key).to_string());
            text.push(':');
            write(text);
            text.push('}');
        }
        None => {
            // The brace that opens the object becomes a comma, and the brace that closes it also closes the line.
            let brace = text.len();
            write(text);
            text.replace_range(brace..=brace, ",");
        }
    }
    text.push('\n');
}

/// Appends the next line of a file to a text. Returns its bytes, 0 at the end of the file.
///
/// # Errors
/// When the file cannot be read, is not UTF-8 there, or has no end of a line within 256 MiB.
pub fn next_line(reader: &mut dyn BufRead, text: &mut String) -> io::Result<usize> {
    let most = crate::limit(LINE_BYTES_MAX, LINE_BYTES_SMALL);
    let mut limited = reader.take(most + 1);
    let read = limited.read_line(text);
    // First, as the limit may cut a letter in two.
    match limited.limit() == 0 {
        true => Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!(
                "the line is longer than {} MiB: give each object a line of its own, and no more numbers than that",
                most >> 20
            ),
        )),
        false => read,
    }
}

/// The alpha of searches that a line says, if it does.
///
/// # Errors
/// When it is not a number above zero.
pub fn alpha(members: &Map<String, Value>) -> Result<Option<f64>, String> {
    let Some(value) = members.get(ALPHA) else { return Ok(None) };
    let alpha = value.as_f64().filter(|alpha| alpha.is_finite() && *alpha > 0.0);
    alpha.map(Some).ok_or_else(|| format!("`{ALPHA}` is {value}, which is not a number above zero"))
}

/// The members of a line.
///
/// # Errors
/// When the line is no JSON object.
pub fn members(line: &str) -> Result<Map<String, Value>, String> {
    serde_json::from_str(line).map_err(|error| {
        let hint = match ["NaN", "Infinity", "nan", "inf"].iter().any(|word| line.contains(word)) {
            true => "; JSON has no NaN and no infinity: coordinates and weights are finite numbers",
            false => "",
        };
        // The line within this text is always 1; the caller knows the file's.
        format!("not a JSON object: {}{hint}", error.to_string().replace(" at line 1 column", " at column"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_its_object_under_a_key_or_its_members() {
        for (key, line) in [
            (Some("object"), "{\"name\":\"a \\\"b\\\"\\n\u{e9}\",\"object\":{\"x\":1}}\n"),
            (None, "{\"name\":\"a \\\"b\\\"\\n\u{e9}\",\"x\":1}\n"),
        ] {
            let mut text = String::new();
            write_line(&mut text, "a \"b\"\n\u{e9}", None, key, |text| text.push_str("{\"x\":1}"));
            assert_eq!(text, line);
            assert_eq!(members(&text).unwrap()["name"], "a \"b\"\n\u{e9}");
        }
    }

    #[test]
    fn says_why_a_line_is_no_object() {
        for (line, reason) in [
            ("", "not a JSON object: EOF"),
            ("[1]", "not a JSON object"),
            ("{\"object\":[NaN]}", "JSON has no NaN"),
        ] {
            let message = members(line).unwrap_err();
            assert!(message.contains(reason), "{line}: {message}");
        }
    }
}
