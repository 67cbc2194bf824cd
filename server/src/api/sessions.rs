//! Sessions: begin, mark, undo, redo, change, rank, explain, export, end.

use std::collections::HashSet;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::CONTENT_DISPOSITION;
use axum::http::{HeaderValue, Response, StatusCode, Uri};
use serde_json::Value;

use super::query;
use super::question::{self, asking, check_family};
use super::replay;
use super::shapes::{self, InRanking, MarkShare, Near, Ranking, Why};
use super::steps::{created, fold, next_round};
use crate::answer::{content, json};
use crate::app::App;
use crate::backend::Snapshot;
use crate::body::{self, Members, Parameters, brief, media_type};
use crate::problem::{Fault, Kind, Problem};
use crate::segments::Segments;
use crate::session::event::{Header, Operation, Unmarked, VERSION};
use crate::session::{Given, Marked, Session};
use crate::sessions::{Held, now_ms};

/// The most parts of a query.
const QUERY_MAX: usize = 16;
/// Objects of a round that does not say.
const BATCH: u64 = 12;
/// The bound of a round that does not say.
const EXPLORE: f64 = 0.25;
/// The most surprising bound.
const EXPLORE_MAX: f64 = 2.0;
/// The largest seed: that of a pipeline's parameters.
const SEED_MAX: u64 = 1 << 53;

type Answered = Result<Response<Body>, Problem>;

/// Begins a session with its first round, or plays a log again.
#[utoipa::path(post, path = "/v1/stores/{store}/sessions", params(("store" = String, Path)),
    request_body(content((serde_json::Value = "application/json"), (String = "application/jsonl"))),
    responses((status = 201, body = shapes::State)))]
pub async fn create(
    State(app): State<Arc<App>>,
    Segments(store): Segments<String>,
    request: Request,
) -> Answered {
    let snapshot = app.store(&store)?;
    if media_type(request.headers()).as_deref() == Some("application/jsonl") {
        let log = body::read(request, app.limits(), app.limits().image_bytes).await?;
        return replay::replay(&app, &store, &snapshot, &log).await;
    }
    let mut members = Members::new(body::json(request, app.limits()).await?);
    let header = header(&app, &store, &snapshot, &mut members);
    let parts = members.list("query", QUERY_MAX).unwrap_or_default();
    members.check()?;
    let mut session = Session::begin(header);
    let mut lines = session.first_line();
    let mut operations = Vec::new();
    let mut given: Vec<Given> = Vec::new();
    for (idx, part) in parts.into_iter().enumerate() {
        let pointer = format!("/query/{idx}");
        let query = query::read(&app, &snapshot, part, &pointer, true)?;
        let is_there = |known: &Given| known.id.is_some() && known.id == query.given.id;
        if given.iter().any(is_there) {
            let detail = "the query has this object twice".to_owned();
            return Err(Problem::values(vec![Fault { pointer, detail }]));
        }
        given.push(query.given);
    }
    if !given.is_empty() {
        operations.push(Operation::Query(given));
        fold(&app, &mut session, &mut lines, &operations)?;
    }
    let first = next_round(&app, &session, &snapshot).await?;
    fold(&app, &mut session, &mut lines, &[first])?;
    begun(&app, session, lines, &snapshot).await
}

/// Keeps a new session, and answers with it.
async fn begun(app: &App, session: Session, lines: String, snapshot: &Arc<dyn Snapshot>) -> Answered {
    let (name, held) = app.sessions.add(session, lines).await?;
    Ok(created(&name, &question::state(&name, &held.session, snapshot, Vec::new())))
}

fn header(app: &App, store: &str, snapshot: &Arc<dyn Snapshot>, members: &mut Members) -> Header {
    let seed = members.count("seed", 0, SEED_MAX).unwrap_or_else(|| now_ms() % SEED_MAX);
    let batch = members.count("batch", 1, app.limits().batch as u64).unwrap_or(BATCH) as usize;
    let explore = members.number("explore", 0.0, EXPLORE_MAX).unwrap_or(EXPLORE);
    let unmarked = match members.text("unmarked").as_deref() {
        None | Some("weak") => Unmarked::Weak,
        Some("ignore") => Unmarked::Ignore,
        Some(other) => {
            members
                .fault("unmarked", format!("`unmarked` is `weak` or `ignore`, not `{}`", body::cut(other)));
            Unmarked::Weak
        }
    };
    let class = class(snapshot, members);
    Header {
        boxwork_session: VERSION,
        store: store.to_owned(),
        fingerprint: snapshot.fingerprint().into(),
        family: snapshot.family().to_owned(),
        seed,
        batch,
        explore,
        unmarked,
        class,
        at: now_ms(),
    }
}

fn class(snapshot: &Arc<dyn Snapshot>, members: &mut Members) -> Option<String> {
    let class = members.text("class")?;
    if !snapshot.has_class(&class) {
        members.fault("class", format!("the store has no class `{}`", body::cut(&class)));
    }
    Some(class)
}

/// The session of this name, with its store.
async fn find(app: &App, name: &str) -> Result<(Held, Arc<dyn Snapshot>), Problem> {
    let held = app.sessions.get(name).await?;
    let snapshot = app.store(&held.session.header.store)?;
    Ok((held, snapshot))
}

/// A session that can go on.
async fn going(app: &App, name: &str) -> Result<(Held, Arc<dyn Snapshot>), Problem> {
    let (held, snapshot) = find(app, name).await?;
    check_family(&held.session, &snapshot)?;
    Ok((held, snapshot))
}

fn state(name: &str, held: &Held, snapshot: &Arc<dyn Snapshot>) -> Response<Body> {
    json(&question::state(name, &held.session, snapshot, held.notices.clone()))
}

/// A session as it is.
#[utoipa::path(get, path = "/v1/sessions/{session}", params(("session" = String, Path)),
    responses((status = 200, body = shapes::State)))]
pub async fn get(State(app): State<Arc<App>>, Segments(name): Segments<String>) -> Answered {
    let (held, snapshot) = going(&app, &name).await?;
    Ok(state(&name, &held, &snapshot))
}

/// Ends a session and removes its log.
#[utoipa::path(delete, path = "/v1/sessions/{session}", params(("session" = String, Path)),
    responses((status = 204)))]
pub async fn end(State(app): State<Arc<App>>, Segments(name): Segments<String>) -> Answered {
    app.sessions.remove(&name).await?;
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    Ok(response)
}

/// Changes the rounds that follow.
#[utoipa::path(patch, path = "/v1/sessions/{session}", params(("session" = String, Path)),
    request_body(content((serde_json::Value = "application/json"))), responses((status = 200, body = shapes::State)))]
pub async fn change(
    State(app): State<Arc<App>>,
    Segments(name): Segments<String>,
    request: Request,
) -> Answered {
    let mut members = Members::new(body::json(request, app.limits()).await?);
    let (held, snapshot) = going(&app, &name).await?;
    let mut operations = Vec::new();
    operations.extend(members.number("explore", 0.0, EXPLORE_MAX).map(Operation::Explore));
    let batch = members.count("batch", 1, app.limits().batch as u64);
    operations.extend(batch.map(|batch| Operation::Batch(batch as usize)));
    match members.member("class") {
        None => {}
        Some(Value::Null) => operations.push(Operation::Filter(None)),
        Some(Value::String(class)) if snapshot.has_class(&class) => {
            operations.push(Operation::Filter(Some(class)));
        }
        Some(other) => members.fault("class", format!("the store has no class like {}", brief(&other))),
    }
    members.check()?;
    let full = held.session.events as usize >= 4 * app.limits().rounds;
    if full && !operations.is_empty() {
        return Err(session_full("the session has as many events as it may"));
    }
    let held = if operations.is_empty() { held } else { app.sessions.append(held, operations).await? };
    Ok(state(&name, &held, &snapshot))
}

/// Takes marks for the present round, and answers with the next.
#[utoipa::path(post, path = "/v1/sessions/{session}/rounds", params(("session" = String, Path)),
    request_body(content((serde_json::Value = "application/json"))), responses((status = 200, body = shapes::State)))]
pub async fn mark(
    State(app): State<Arc<App>>,
    Segments(name): Segments<String>,
    request: Request,
) -> Answered {
    let mut members = Members::new(body::json(request, app.limits()).await?);
    let round = members.count("round", 1, app.limits().rounds as u64);
    let values = members.list("marks", app.limits().marks).unwrap_or_default();
    if round.is_none() {
        members.fault("round", "`round` is the number of the round that was judged");
    }
    let (held, snapshot) = going(&app, &name).await?;
    let marks = read_marks(&mut members, values);
    members.check()?;
    let marks = known(&held.session, &snapshot, marks)?;
    let (round, session) = (round.unwrap_or_default() as usize, &held.session);
    if round + 1 == session.round() && is_repeated(session, &marks) {
        return Ok(state(&name, &held, &snapshot));
    }
    if round != session.round() {
        let detail =
            format!("the marks are for round {round}, and the session is in round {}", session.round());
        return Err(Problem::new(Kind::ROUND, detail));
    }
    check_room(&app, session)?;
    // The round is computed on a copy, so that the session is as it was if that fails.
    let next = session.with_marks(&marks, snapshot.fingerprint().into());
    if next.marks().len() > app.limits().marks {
        return Err(session_full("the session has as many marks as it may"));
    }
    let asking = asking(&next, &snapshot);
    let chosen = app.compute(Arc::clone(&snapshot).round(asking.question)).await?;
    let objects = question::shown(&chosen, &snapshot);
    let following =
        Operation::Round { round: round + 1, fingerprint: snapshot.fingerprint().into(), objects };
    let marks = Operation::Marks { round, marks };
    let held = app.sessions.append(held, vec![marks, following]).await?;
    Ok(state(&name, &held, &snapshot))
}

fn session_full(detail: &str) -> Problem {
    Problem::new(Kind::SESSION_FULL, format!("{detail}: start another with liked pictures as its query"))
}

fn check_room(app: &App, session: &Session) -> Result<(), Problem> {
    // Undone rounds leave the state and stay in the log: events are bounded too.
    let events = session.events as usize;
    if session.round() >= app.limits().rounds || events >= 4 * app.limits().rounds {
        return Err(session_full("the session has as many rounds as it may"));
    }
    Ok(())
}

/// Marks by id and place in the body.
fn read_marks(members: &mut Members, values: Vec<Value>) -> Vec<(usize, u64, Option<f64>)> {
    let (mut marks, mut seen) = (Vec::new(), HashSet::new());
    for (idx, value) in values.into_iter().enumerate() {
        let place = format!("marks/{idx}");
        let Value::Object(fields) = value else {
            members.fault(place, format!("a mark is {{\"id\", \"relevance\"}}, not {}", brief(&value)));
            continue;
        };
        let mut fields = Members::below(fields, members.pointer(&place));
        let id = fields.count("id", 0, u64::MAX);
        let relevance = match fields.member("relevance") {
            Some(Value::Null) => None,
            Some(value) => {
                let number = value.as_f64().filter(|number| (0.0..=1.0).contains(number));
                if number.is_none() {
                    let detail = format!("`relevance` is from 0 to 1, or null, not {}", brief(&value));
                    fields.fault("relevance", detail);
                }
                number
            }
            None => {
                fields.fault("relevance", "`relevance` is missing: a number from 0 to 1, or null");
                None
            }
        };
        match id {
            Some(id) if !seen.insert(id) => fields.fault("id", format!("object {id} is marked twice")),
            Some(id) => marks.push((idx, id, relevance)),
            None => fields.fault("id", "`id` is missing: an object's id"),
        }
        members.faults(fields.end());
    }
    marks
}

/// The marks with the names and present ids of their objects. A client knows the objects of a round by the ids that the
/// round gave them, although the store may number them anew since.
fn known(
    session: &Session,
    snapshot: &Arc<dyn Snapshot>,
    marks: Vec<(usize, u64, Option<f64>)>,
) -> Result<Vec<Marked>, Problem> {
    let mut unknown = Problem::new(Kind::UNKNOWN_OBJECT, "");
    let mut known = Vec::with_capacity(marks.len());
    for (idx, id, relevance) in marks {
        let step = session.steps.get(session.at).filter(|step| *step.fingerprint != *snapshot.fingerprint());
        let old = step.and_then(|step| step.shown.iter().find(|shown| shown.id == id));
        let now = old.map_or(Some(id), |old| snapshot.find(&old.name));
        match now.and_then(|id| snapshot.object(id)) {
            Some(object) => known.push(Marked { id: object.id, name: object.name.into(), relevance }),
            None => {
                let detail = format!("the store has no object {id}, or it was removed");
                unknown = unknown.at(format!("/marks/{idx}/id"), detail);
            }
        }
    }
    match unknown.errors.first() {
        None => Ok(known),
        Some(first) => Err(Problem { detail: first.detail.clone(), ..unknown }),
    }
}

/// Whether these marks led to the present round.
fn is_repeated(session: &Session, marks: &[Marked]) -> bool {
    session.steps.get(session.at).is_some_and(|step| step.marks == marks)
}

async fn travel(app: &App, name: &str, operation: Operation) -> Answered {
    let (held, snapshot) = going(app, name).await?;
    let (can, what) = match operation {
        Operation::Undo => (held.session.can_undo(), "undo"),
        _ => (held.session.can_redo(), "redo"),
    };
    if !can {
        return Err(Problem::new(Kind::ROUND, format!("there is nothing to {what}")));
    }
    if held.session.events as usize >= 8 * app.limits().rounds {
        return Err(session_full("the session has as many events as it may"));
    }
    let held = app.sessions.append(held, vec![operation]).await?;
    Ok(state(name, &held, &snapshot))
}

/// One round back.
#[utoipa::path(post, path = "/v1/sessions/{session}/undo", params(("session" = String, Path)),
    responses((status = 200, body = shapes::State)))]
pub async fn undo(State(app): State<Arc<App>>, Segments(name): Segments<String>) -> Answered {
    travel(&app, &name, Operation::Undo).await
}

/// One round forth.
#[utoipa::path(post, path = "/v1/sessions/{session}/redo", params(("session" = String, Path)),
    responses((status = 200, body = shapes::State)))]
pub async fn redo(State(app): State<Arc<App>>, Segments(name): Segments<String>) -> Answered {
    travel(&app, &name, Operation::Redo).await
}

/// A round as it was.
#[utoipa::path(get, path = "/v1/sessions/{session}/rounds/{round}", params(("session" = String, Path),
    ("round" = usize, Path)), responses((status = 200, body = shapes::Round)))]
pub async fn round(
    State(app): State<Arc<App>>,
    Segments((name, number)): Segments<(String, usize)>,
) -> Answered {
    let (held, snapshot) = find(&app, &name).await?;
    let step = number.checked_sub(1).and_then(|idx| held.session.steps.get(idx));
    let none = || Problem::new(Kind::NOT_FOUND, format!("the session has no round {number}"));
    let step = step.ok_or_else(none)?;
    Ok(json(&question::round(step, number, &snapshot)))
}

/// The log as JSON lines.
#[utoipa::path(get, path = "/v1/sessions/{session}/log", params(("session" = String, Path)),
    responses((status = 200, content_type = "application/jsonl")))]
pub async fn log(State(app): State<Arc<App>>, Segments(name): Segments<String>) -> Answered {
    let held = app.sessions.get(&name).await?;
    let mut response = content("application/jsonl", app.sessions.log(held).await?);
    let attachment = HeaderValue::from_static("attachment; filename=\"session.jsonl\"");
    response.headers_mut().insert(CONTENT_DISPOSITION, attachment);
    Ok(response)
}

/// All objects by the relevance that is expected: the first thousand.
#[utoipa::path(get, path = "/v1/sessions/{session}/ranking", params(("session" = String, Path),
    ("offset" = Option<usize>, Query), ("limit" = Option<usize>, Query)), responses((status = 200, body = Ranking)))]
pub async fn ranking(State(app): State<Arc<App>>, Segments(name): Segments<String>, uri: Uri) -> Answered {
    let mut parameters = Parameters::new(&uri)?;
    let offset = parameters.parsed("offset", "a number of objects")?.unwrap_or(0_usize);
    let limit = parameters.parsed("limit", "a number of objects")?.unwrap_or(100_usize);
    parameters.check()?;
    let most = app.limits().ranking;
    if limit == 0 || limit > most || offset > most {
        let detail = format!("`limit` is from 1 to {most}, `offset` from 0 to {most}");
        return Err(Problem::new(Kind::VALUES, detail));
    }
    let (held, snapshot) = going(&app, &name).await?;
    let question = asking(&held.session, &snapshot).question;
    drop(held);
    let ranked = app.compute(Arc::clone(&snapshot).ranking(question, most)).await?;
    let of_page = ranked.iter().enumerate().skip(offset).take(limit);
    let objects = of_page.filter_map(|(idx, ranked)| {
        let object = snapshot.object(ranked.id)?;
        Some(InRanking { object, rank: idx + 1, mean: ranked.mean, deviation: ranked.deviation })
    });
    Ok(json(&Ranking { total: ranked.len(), objects: objects.collect() }))
}

/// Why an object is where it is.
#[utoipa::path(get, path = "/v1/sessions/{session}/objects/{id}/why", params(("session" = String, Path),
    ("id" = u64, Path)), responses((status = 200, body = Why)))]
pub async fn why(State(app): State<Arc<App>>, Segments((name, id)): Segments<(String, u64)>) -> Answered {
    let (held, snapshot) = going(&app, &name).await?;
    let none = || Problem::new(Kind::NOT_FOUND, format!("the store has no object {id}"));
    let object = snapshot.object(id).ok_or_else(none)?;
    let question = asking(&held.session, &snapshot).question;
    drop(held);
    let relevances = question::relevances(&question);
    let reasons = app.compute(Arc::clone(&snapshot).why(question, id)).await?;
    let marks = reasons.marks.iter().filter_map(|(id, share)| {
        let relevance = relevances.get(id).copied()?;
        Some(MarkShare { object: snapshot.object(*id)?, relevance, share: *share })
    });
    let near = reasons.nearest_liked.iter();
    let near =
        near.filter_map(|(id, distance)| Some(Near { object: snapshot.object(*id)?, distance: *distance }));
    let (marks, nearest_liked) = (marks.collect(), near.collect());
    Ok(json(&Why { object, mean: reasons.mean, deviation: reasons.deviation, marks, nearest_liked }))
}
