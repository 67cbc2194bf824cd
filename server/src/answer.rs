//! Answers: their bodies and media types.

use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, Response};
use serde::Serialize;

/// An answer of JSON.
pub fn json(value: &impl Serialize) -> Response<Body> {
    content("application/json", serde_json::to_vec(value).unwrap_or_default())
}

/// An answer of some type.
pub fn content(media_type: &'static str, bytes: impl Into<Body>) -> Response<Body> {
    let mut response = Response::new(bytes.into());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    response
}

/// A text within HTML, also within quotes.
pub fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            letter => escaped.push(letter),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_text() {
        assert_eq!(escaped("<img src=\"x\" a='&'>"), "&lt;img src=&quot;x&quot; a=&#39;&amp;&#39;&gt;");
    }
}
