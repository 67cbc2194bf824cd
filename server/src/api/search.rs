//! The search: by an object, a signature, or a picture that the client sends.

use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use axum::extract::{FromRequest as _, Multipart, Request, State};
use axum::http::{Response, Uri};
use bytes::Bytes;
use serde_json::{Map, Value};

use super::query::{self, Query};
use super::shapes::{Hit, Hits, SearchBody};
use crate::answer::json;
use crate::app::App;
use crate::backend::{Probes, Search, Snapshot};
use crate::body::{self, Members, Parameters, brief, media_type};
use crate::problem::{Fault, Kind, Problem};
use crate::segments::Segments;
use crate::session::journal::new_name;

/// Bytes of a multipart body beside its picture.
const PARTS_BYTES: usize = 64 << 10;

/// The most objects that a search may be limited to.
const SUBSET_MAX: usize = 100_000;

/// The most lists that a search may look into.
const PROBES_MAX: u64 = 1 << 20;

/// The most candidates for each object to find, and their usual number.
const REFINE_MAX: u64 = 1 << 10;
const REFINE_USUAL: u64 = 10;

/// The options of a search.
#[derive(Debug)]
struct Options {
    k: usize,
    range: Option<f64>,
    class: Option<String>,
    subset: Option<Vec<u64>>,
    probes: Option<Probes>,
}

/// The nearest objects of a query.
#[utoipa::path(post, path = "/v1/stores/{store}/search", params(("store" = String, Path),
    ("k" = Option<usize>, Query), ("range" = Option<f64>, Query), ("class" = Option<String>, Query),
    ("probes" = Option<usize>, Query), ("refine" = Option<usize>, Query)),
    request_body(content((SearchBody = "application/json"), (String = "image/*"), (String = "multipart/form-data"))),
    responses((status = 200, body = Hits)))]
pub async fn search(
    State(app): State<Arc<App>>,
    Segments(name): Segments<String>,
    uri: Uri,
    request: Request,
) -> Result<Response<Body>, Problem> {
    let snapshot = app.store(&name)?;
    let media = media_type(request.headers()).unwrap_or_default();
    let (query, options) = match media.as_str() {
        "application/json" => {
            let mut members = Members::new(body::json(request, app.limits()).await?);
            let value = members.take("query");
            let options = options(&app, &snapshot, &mut members);
            if value.is_none() {
                members.fault("query", "`query` is missing: `{\"query\": {\"id\": 12}}`");
            }
            members.check()?;
            (query::read(&app, &snapshot, value.unwrap_or_default(), "/query", true)?, options)
        }
        "multipart/form-data" => {
            let (file, members) = parts(&app, request).await?;
            let mut members = Members::below(members, "/options".to_owned());
            let options = options(&app, &snapshot, &mut members);
            members.check()?;
            (picture(&app, &snapshot, file).await?, options)
        }
        media if media.starts_with("image/") && !media.starts_with("image/svg") => {
            let options = options_of_address(&app, &snapshot, &uri)?;
            let file = body::read(request, app.limits(), app.limits().image_bytes).await?;
            (picture(&app, &snapshot, file).await?, options)
        }
        _ => {
            let detail =
                "send `application/json`, a picture as `image/jpeg` or its like, or `multipart/form-data`";
            return Err(Problem::new(Kind::MEDIA, detail));
        }
    };
    answer(&app, &name, snapshot, query, options).await
}

fn options(app: &App, snapshot: &Arc<dyn Snapshot>, members: &mut Members) -> Options {
    let k = members.count("k", 1, app.limits().k as u64).unwrap_or(10) as usize;
    let range = members.number("range", snapshot.range_min(), f64::MAX);
    let class = members.text("class");
    if let Some(class) = class.as_ref().filter(|class| !snapshot.has_class(class)) {
        members.fault("class", format!("the store has no class `{}`", body::cut(class)));
    }
    let subset = subset(snapshot, members);
    let probes = members.count("probes", 1, PROBES_MAX);
    let refine = members.count("refine", 1, REFINE_MAX);
    if (probes.is_some() || refine.is_some()) && !snapshot.has_lists() {
        let name = if probes.is_some() { "probes" } else { "refine" };
        members
            .fault(name, "the server has no lists of this store: start it with `--lists`, or leave it out");
    } else if probes.is_none() && refine.is_some() {
        members.fault("refine", "`refine` is for a search by `probes`");
    }
    let probes =
        probes.map(|lists| Probes { lists: lists as usize, refine: refine.unwrap_or(REFINE_USUAL) as usize });
    Options { k, range, class, subset, probes }
}

/// The objects that a list names by their ids or names.
fn subset(snapshot: &Arc<dyn Snapshot>, members: &mut Members) -> Option<Vec<u64>> {
    let listed = members.list("subset", SUBSET_MAX)?;
    if listed.is_empty() {
        members.fault("subset", "`subset` names no object: leave it out to search among all");
    }
    let mut ids = Vec::with_capacity(listed.len());
    for (idx, value) in listed.iter().enumerate() {
        let found = match value {
            Value::String(name) => snapshot.find(name),
            value => value.as_u64().filter(|id| snapshot.object(*id).is_some()),
        };
        match found {
            Some(id) => ids.push(id),
            None => {
                let detail =
                    format!("the store has no object {}; an object is an id or a name", brief(value));
                members.fault(format_args!("subset/{idx}"), detail);
                return None;
            }
        }
    }
    Some(ids)
}

fn options_of_address(app: &App, snapshot: &Arc<dyn Snapshot>, uri: &Uri) -> Result<Options, Problem> {
    let mut parameters = Parameters::new(uri)?;
    let mut members = Map::new();
    if let Some(k) = parameters.parsed::<u64>("k", "a number of objects")? {
        members.insert("k".to_owned(), k.into());
    }
    for name in ["probes", "refine"] {
        if let Some(count) = parameters.parsed::<u64>(name, "a whole number")? {
            members.insert(name.to_owned(), count.into());
        }
    }
    if let Some(range) = parameters.parsed::<f64>("range", "a distance")? {
        if !range.is_finite() {
            return Err(Problem::new(Kind::MALFORMED, "`range` is a finite distance"));
        }
        members.insert("range".to_owned(), range.into());
    }
    if let Some(class) = parameters.text("class") {
        members.insert("class".to_owned(), class.into());
    }
    parameters.check()?;
    let mut members = Members::new(members);
    let options = options(app, snapshot, &mut members);
    members.check().map(|()| options)
}

/// The picture and the options of a multipart body.
async fn parts(app: &App, request: Request) -> Result<(Bytes, Map<String, Value>), Problem> {
    let (head, body) = request.into_parts();
    let whole = Request::from_parts(head.clone(), body);
    let bytes = body::read(whole, app.limits(), app.limits().image_bytes + PARTS_BYTES).await?;
    let malformed = |error: &dyn std::fmt::Display| {
        Problem::new(Kind::MALFORMED, format!("the multipart body cannot be read: {error}"))
    };
    let request = Request::from_parts(head, Body::from(bytes));
    let multipart = Multipart::from_request(request, &()).await;
    let mut multipart = multipart.map_err(|error| malformed(&error.body_text()))?;
    let (mut file, mut options) = (None, Map::new());
    while let Some(part) = multipart.next_field().await.map_err(|error| malformed(&error.body_text()))? {
        let name = part.name().unwrap_or_default().to_owned();
        let content = part.bytes().await.map_err(|error| malformed(&error.body_text()))?;
        match name.as_str() {
            "image" if file.is_none() && content.len() <= app.limits().image_bytes => file = Some(content),
            "image" if file.is_none() => {
                return Err(Problem::new(Kind::TOO_LARGE, "the picture is larger than the server takes"));
            }
            "options" => options = body::parse(&content, app.limits())?,
            name => {
                let detail = format!("the parts are one `image` and `options`, not `{}`", body::cut(name));
                return Err(Problem::values(vec![Fault { pointer: "/".to_owned(), detail }]));
            }
        }
    }
    let missing = || Problem::new(Kind::VALUES, "the part `image` is missing");
    file.map(|file| (file, options)).ok_or_else(missing)
}

/// The signature of a picture, kept under a token.
async fn picture(app: &App, snapshot: &Arc<dyn Snapshot>, file: Bytes) -> Result<Query, Problem> {
    if file.is_empty() {
        return Err(Problem::new(Kind::IMAGE, "the picture has no bytes"));
    }
    let extracted = Arc::clone(snapshot).extract(file, app.limits().image_pixels);
    let picture = Arc::new(app.compute(extracted).await?);
    let token = new_name().map_err(|error| app.fault(&format!("no random numbers: {error}")))?;
    app.pictures.keep(token.clone(), Arc::clone(&picture), snapshot.family(), Instant::now());
    Ok(Query::of_picture(picture, Some(token)))
}

async fn answer(
    app: &App,
    store: &str,
    snapshot: Arc<dyn Snapshot>,
    query: Query,
    options: Options,
) -> Result<Response<Body>, Problem> {
    let Options { k, range, class, subset, probes } = options;
    let search = Search { subject: query.subject, k, range, class, subset, probes };
    let found = app.compute(Arc::clone(&snapshot).search(search)).await?;
    let hit = |(idx, found): (usize, &crate::backend::Found)| {
        let object = snapshot.object(found.id)?;
        Some(Hit { object, rank: idx + 1, distance: found.distance })
    };
    let hits = found.iter().enumerate().filter_map(hit).collect();
    let fingerprint = snapshot.fingerprint().to_owned();
    let (exact, probes) = (probes.is_none(), probes.map(|probes| probes.lists));
    let query = query::asked(&query.given);
    Ok(json(&Hits { store: store.to_owned(), fingerprint, query, exact, probes, hits }))
}
