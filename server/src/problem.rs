//! Errors as clients see them: `application/problem+json` (RFC 9457).
//!
//! Invariants: every error that a handler returns is one of [`KINDS`], so its type names a page that exists; no message
//! contains a path of the server's disk or the text of a panic.

use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderValue, Response, StatusCode};
use axum::response::IntoResponse;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The media type of an error.
pub const MEDIA_TYPE: &str = "application/problem+json";

/// A kind of error: its name in the type's address, its status, and its page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// The last part of `/problems/NAME`.
    pub name: &'static str,
    /// The HTTP status.
    pub status: u16,
    /// The title, equal for all errors of the kind.
    pub title: &'static str,
    /// The cause, and the remedy: the text of its page.
    pub about: &'static str,
}

macro_rules! kinds {
    ($($constant:ident = $status:literal, $name:literal, $title:literal, $about:literal;)+) => {
        impl Kind {
            $(#[doc = $title] pub const $constant: Self =
                Self { name: $name, status: $status, title: $title, about: $about };)+
        }

        /// Every kind, by status.
        pub const KINDS: &[Kind] = &[$(Kind::$constant),+];
    };
}

kinds! {
    MALFORMED = 400, "malformed", "The request is malformed",
        "The server could not read the request: a path, a query string, a header or JSON that is not well formed. The detail names the place.";
    TOKEN = 401, "token", "A token is needed",
        "This server needs `Authorization: Bearer TOKEN`, with the token in the file that its `--token-file` names.";
    ORIGIN = 403, "origin", "The origin may not do this",
        "Another site's page sent the request. Only the server's own page changes its state, or a page of the origin that `--cors` names.";
    HOST = 403, "host", "The host name is unknown",
        "The `Host` header names neither this machine's loopback nor a `--host` of the server. Start the server with `--host NAME` to use another name.";
    NOT_FOUND = 404, "not-found", "There is nothing here",
        "No page, store, object, picture or session has this address. Sessions end when they are deleted, and those in memory after 24 hours without use.";
    METHOD = 405, "method", "The method is not allowed",
        "The header `Allow` lists the methods of this address.";
    NOT_ACCEPTABLE = 406, "not-acceptable", "The answer has another media type",
        "The request's `Accept` excludes what this address gives. Leave it out, or add `*/*`.";
    SLOW_BODY = 408, "slow-body", "The request came too slowly",
        "A head must be complete within 5 seconds and a body within 30 (`--body-seconds`).";
    ROUND = 409, "round", "The session is in another round",
        "The marks are for a round that is not the session's present one, perhaps because another window has continued it, or there is nothing to undo or redo. Get the session, and send marks for its round.";
    STORE_CHANGED = 409, "store-changed", "The session belongs to another store",
        "The store was made anew with another extraction or distance since the session began. Download its log and post it to the store's sessions to play it again there.";
    LOG_BROKEN = 409, "log-broken", "The session's log is damaged",
        "A line of the session's log is no event, was edited, or belongs to another log. The detail names the line. Restore the file, or remove it.";
    LENGTH = 411, "length", "The length is missing",
        "A request with a body needs `Content-Length` or `Transfer-Encoding: chunked`.";
    TOO_LARGE = 413, "too-large", "The request is too large",
        "JSON may have 1 MiB, a picture 20 MiB and 100 megapixels, unless the server's flags give other limits.";
    ADDRESS_LENGTH = 414, "address-length", "The address is too long",
        "An address may have 8 KiB.";
    MEDIA = 415, "media", "The media type is not taken",
        "This address takes the media types that the detail names. Pictures are JPEG, PNG, BMP, GIF, TIFF or WebP; SVG is not taken.";
    VALUES = 422, "values", "Values are out of range",
        "The JSON is well formed, and some of its values do not fit. `errors` names each by a JSON pointer. Nothing of the request was applied.";
    UNKNOWN_OBJECT = 422, "unknown-object", "There is no such object",
        "A query or a mark names an object that the store does not have, or that was removed. The detail suggests a similar name if there is one.";
    IMAGE = 422, "image", "The picture cannot be decoded",
        "The file is damaged, cut short, or beyond the limits. Save it anew, or scale it down.";
    SESSION_FULL = 422, "session-full", "The session is full",
        "A session has at most 1,000 rounds and 1,000 marks. Start another, with liked pictures as its query.";
    RATE = 429, "rate", "Too many requests",
        "A client may send 50 requests a second (`--rate`), thumbnails 500. Wait for as long as `Retry-After` says.";
    HEAD = 431, "head", "The head is too large",
        "The request's head may have 16 KiB.";
    INTERNAL = 500, "internal", "The server failed",
        "This is a fault of the server. Its log has the reason under the number that the answer names.";
    BUSY = 503, "busy", "The server is busy",
        "All computing places are taken and the queue is full. Wait for as long as `Retry-After` says.";
    DEADLINE = 503, "deadline", "The answer took too long",
        "The request was cancelled at its deadline (`--deadline-seconds`). Try again later, or ask for less.";
    RELOADING = 503, "reloading", "The store is being loaded",
        "The store cannot answer at present. Wait for as long as `Retry-After` says.";
    STALE = 503, "stale", "The store's file cannot be loaded",
        "The file of the store has changed or is gone, and what is there now is no store that fits. The server answers from the state before. Waiting does not help: the server's log has the reason; restore the file.";
    LOG_UNWRITABLE = 503, "log-unwritable", "The session's log cannot be written",
        "The disk is full or failed. Nothing of the request was applied; the session is as it was.";
    SESSIONS_FULL = 503, "sessions-full", "There are too many sessions",
        "The server keeps as many sessions as it may. Delete some, or try again later.";
    STOPPING = 503, "stopping", "The server is stopping",
        "The server answers no new requests. Try again when it has started anew.";
}

impl Kind {
    /// When a client may try again, in seconds. Nothing if the cause lasts until a person removes it: a client that
    /// waited would wait in vain.
    pub fn retry_seconds(&self) -> Option<u64> {
        match *self {
            Self::RATE | Self::BUSY | Self::DEADLINE | Self::RELOADING => Some(1),
            Self::STOPPING => Some(5),
            Self::SESSIONS_FULL => Some(60),
            _ => None,
        }
    }
}

/// One fault of a body: where, and what.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Fault {
    /// A JSON pointer into the body, such as `/marks/3/relevance`.
    pub pointer: String,
    /// What is wrong, and what would be right.
    pub detail: String,
}

/// An error for a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Its kind.
    pub kind: Kind,
    /// What happened, and what to do.
    pub detail: String,
    /// The faults of a body.
    pub errors: Vec<Fault>,
    /// When to try again, in seconds, if the cause passes by itself.
    pub retry_seconds: Option<u64>,
}

/// An error as JSON.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ProblemBody {
    /// The address of the page on this kind of error.
    #[serde(rename = "type")]
    pub kind: String,
    /// The kind's title.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// What happened, and what to do.
    pub detail: String,
    /// The request's number: also the header `x-request-id`.
    pub instance: String,
    /// The faults of a body.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub errors: Vec<Fault>,
}

impl Problem {
    /// An error of a kind.
    pub fn new(kind: Kind, detail: impl Into<String>) -> Self {
        Self { kind, detail: detail.into(), errors: Vec::new(), retry_seconds: kind.retry_seconds() }
    }

    /// The answer of a server that stops.
    pub fn stopping() -> Self {
        Self::new(Kind::STOPPING, "the server is stopping: try again when it has started anew")
    }

    /// Adds a fault of the body.
    #[must_use]
    pub fn at(mut self, pointer: impl Into<String>, detail: impl Into<String>) -> Self {
        self.errors.push(Fault { pointer: pointer.into(), detail: detail.into() });
        self
    }

    /// Values that do not fit.
    pub fn values(errors: Vec<Fault>) -> Self {
        let detail = errors.first().map_or_else(String::new, |first| first.detail.clone());
        Self { errors, ..Self::new(Kind::VALUES, detail) }
    }

    /// The JSON of the error under a request's number.
    pub fn body(&self, instance: &str) -> ProblemBody {
        ProblemBody {
            kind: format!("/problems/{}", self.kind.name),
            title: self.kind.title.to_owned(),
            status: self.kind.status,
            detail: self.detail.clone(),
            instance: instance.to_owned(),
            errors: self.errors.clone(),
        }
    }

    /// The whole answer under a request's number.
    pub fn response(&self, instance: &str) -> Response<Body> {
        let body = serde_json::to_vec(&self.body(instance)).unwrap_or_default();
        let mut response = Response::new(Body::from(body));
        *response.status_mut() =
            StatusCode::from_u16(self.kind.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
        if let Some(seconds) = self.retry_seconds {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

/// The error leaves a handler as an extension: the guard, which knows the request's number, makes the answer.
impl IntoResponse for Problem {
    fn into_response(self) -> Response<Body> {
        let mut response = Response::new(Body::empty());
        *response.status_mut() =
            StatusCode::from_u16(self.kind.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        response.extensions_mut().insert(self);
        response
    }
}

/// The kind of this name.
pub fn find(name: &str) -> Option<&'static Kind> {
    KINDS.iter().find(|kind| kind.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_addresses() {
        for (idx, kind) in KINDS.iter().enumerate() {
            assert!(KINDS[..idx].iter().all(|other| other.name != kind.name), "{}", kind.name);
            assert!(kind.name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-'));
            assert!(kind.about.ends_with('.') && StatusCode::from_u16(kind.status).is_ok());
        }
    }

    #[test]
    fn an_error_names_its_request_and_when_to_come_again() {
        let problem = Problem::new(Kind::BUSY, "wait");
        let response = problem.response("7");
        assert_eq!(response.headers()[RETRY_AFTER], "1");
        assert_eq!(response.status(), 503);
        let body = problem.at("/k", "too small").body("7");
        assert_eq!((body.instance.as_str(), body.errors.len()), ("7", 1));
        assert_eq!(body.kind, "/problems/busy");
    }

    #[test]
    fn a_client_is_asked_to_wait_only_for_what_passes() {
        let waits: Vec<&str> =
            KINDS.iter().filter(|kind| kind.retry_seconds().is_some()).map(|kind| kind.name).collect();
        assert_eq!(waits, ["rate", "busy", "deadline", "reloading", "sessions-full", "stopping"]);
        for kind in KINDS.iter().filter(|kind| kind.retry_seconds().is_none()) {
            assert!(
                !Problem::new(*kind, "").response("7").headers().contains_key(RETRY_AFTER),
                "{}",
                kind.name
            );
            assert!(!kind.about.contains("Retry-After"), "{}", kind.name);
        }
    }
}
