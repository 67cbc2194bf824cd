//! Whether the server lives and can answer, and its figures.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::header::RETRY_AFTER;
use axum::http::{HeaderValue, Response, StatusCode};

use super::shapes::Health;
use crate::answer::{content, json};
use crate::app::App;

/// Whether the process lives.
#[utoipa::path(get, path = "/healthz", responses((status = 200, body = Health)))]
pub async fn lives() -> Response<Body> {
    json(&Health { status: "ok".to_owned(), notes: Vec::new() })
}

/// Whether all stores are open and requests are accepted.
#[utoipa::path(get, path = "/readyz", responses((status = 200, body = Health), (status = 503, body = Health)))]
pub async fn ready(State(app): State<Arc<App>>) -> Response<Body> {
    let readiness = app.backend.readiness();
    let status = match (readiness.ready, readiness.notes.is_empty()) {
        (true, true) => "ok",
        (true, false) => "stale",
        (false, _) => "not ready",
    };
    let mut response = json(&Health { status: status.to_owned(), notes: readiness.notes });
    if !readiness.ready {
        *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}

/// Figures in Prometheus' text format.
#[utoipa::path(get, path = "/metrics", responses((status = 200, content_type = "text/plain")))]
pub async fn figures(State(app): State<Arc<App>>) -> Response<Body> {
    let (computing, waiting) = app.gate.load();
    let (sessions, sessions_bytes) = app.sessions.size();
    let mut page = app.figures.page(&[
        ("boxwork_http_computing", "gauge", "Requests that compute.", computing as u64),
        ("boxwork_http_waiting", "gauge", "Requests that wait to compute.", waiting as u64),
        ("boxwork_sessions", "gauge", "Sessions in memory.", sessions as u64),
        ("boxwork_session_bytes", "gauge", "Bytes of the sessions in memory.", sessions_bytes as u64),
    ]);
    page.push_str(&app.backend.figures());
    content(crate::figures::MEDIA_TYPE, page)
}
