//! The steps of a session that is being made: its rounds, its lines, and the answer with it.

use std::sync::Arc;

use axum::body::Body;
use axum::http::header::LOCATION;
use axum::http::{HeaderValue, Response, StatusCode};

use super::question::{self, asking};
use super::shapes;
use crate::answer::json;
use crate::app::App;
use crate::backend::Snapshot;
use crate::problem::Problem;
use crate::session::Session;
use crate::session::event::Operation;
use crate::sessions::now_ms;

/// Folds operations into a session that is being made, and adds their lines.
///
/// # Errors
/// When one does not follow, which is a fault of the server.
pub fn fold(
    app: &App,
    session: &mut Session,
    lines: &mut String,
    operations: &[Operation],
) -> Result<(), Problem> {
    let more = session.lines(operations, now_ms());
    session.take_lines(&more).map_err(|error| app.fault(&format!("a session refuses an event: {error}")))?;
    lines.push_str(&more);
    Ok(())
}

/// The answer with a new session.
pub fn created(name: &str, state: &shapes::State) -> Response<Body> {
    let mut response = json(state);
    *response.status_mut() = StatusCode::CREATED;
    if let Ok(location) = HeaderValue::from_str(&format!("/v1/sessions/{name}")) {
        response.headers_mut().insert(LOCATION, location);
    }
    response
}

/// The round that follows a session's state.
///
/// # Errors
/// When it cannot be computed.
pub async fn next_round(
    app: &App,
    session: &Session,
    snapshot: &Arc<dyn Snapshot>,
) -> Result<Operation, Problem> {
    let asking = asking(session, snapshot);
    let chosen = app.compute(Arc::clone(snapshot).round(asking.question)).await?;
    let objects = question::shown(&chosen, snapshot);
    Ok(Operation::Round { round: session.round() + 1, fingerprint: snapshot.fingerprint().into(), objects })
}
