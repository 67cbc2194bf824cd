//! Stores, their objects, and their pictures.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, ETAG, IF_NONE_MATCH};
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode, Uri};

use super::shapes::{Bounds, OneObject, Store, Stores};
use crate::answer::{content, json};
use crate::app::App;
use crate::backend::{Filter, Object, Snapshot};
use crate::body::Parameters;
use crate::problem::{Kind, Problem};
use crate::segments::Segments;

/// Widths of thumbnails.
pub const SIZES: [u32; 3] = [96, 192, 384];

/// A store as clients see it.
pub fn store(app: &App, snapshot: &Arc<dyn Snapshot>) -> Store {
    let mut summary = snapshot.summary();
    summary.originals = summary.images && app.config.originals;
    Store { summary, limits: Bounds::of(app.limits()) }
}

/// All stores.
#[utoipa::path(get, path = "/v1/stores", responses((status = 200, body = Stores)))]
pub async fn list(State(app): State<Arc<App>>) -> Response<Body> {
    let names = app.backend.stores();
    let snapshots = names.iter().filter_map(|name| app.backend.snapshot(name));
    json(&Stores { stores: snapshots.map(|snapshot| store(&app, &snapshot)).collect() })
}

/// One store.
#[utoipa::path(get, path = "/v1/stores/{store}", params(("store" = String, Path)),
    responses((status = 200, body = Store)))]
pub async fn one(
    State(app): State<Arc<App>>,
    Segments(name): Segments<String>,
) -> Result<Response<Body>, Problem> {
    let snapshot = app.store(&name)?;
    Ok(json(&store(&app, &snapshot)))
}

/// Opens the store's files anew if they have changed.
#[utoipa::path(post, path = "/v1/stores/{store}/reload", params(("store" = String, Path)),
    responses((status = 200, body = Store)))]
pub async fn reload(
    State(app): State<Arc<App>>,
    Segments(name): Segments<String>,
) -> Result<Response<Body>, Problem> {
    app.store(&name)?;
    let _: bool = app.backend.reload(&name).await.map_err(|refusal| app.refused(refusal))?;
    let snapshot = app.store(&name)?;
    Ok(json(&store(&app, &snapshot)))
}

/// Objects by id.
#[utoipa::path(get, path = "/v1/stores/{store}/objects", params(("store" = String, Path),
    ("class" = Option<String>, Query), ("prefix" = Option<String>, Query), ("after" = Option<u64>, Query),
    ("limit" = Option<usize>, Query)), responses((status = 200, body = crate::backend::Listing)))]
pub async fn objects(
    State(app): State<Arc<App>>,
    Segments(name): Segments<String>,
    uri: Uri,
) -> Result<Response<Body>, Problem> {
    let snapshot = app.store(&name)?;
    let mut parameters = Parameters::new(&uri)?;
    let filter = Filter { class: parameters.text("class"), prefix: parameters.text("prefix") };
    let after = parameters.parsed("after", "an object's id")?;
    let most = app.limits().page;
    let limit = parameters.parsed("limit", "a number of objects")?.unwrap_or(most.min(100));
    parameters.check()?;
    if limit == 0 || limit > most {
        return Err(Problem::new(Kind::VALUES, format!("`limit` is from 1 to {most}")));
    }
    Ok(json(&snapshot.list(&filter, after, limit)))
}

fn object(snapshot: &Arc<dyn Snapshot>, id: u64) -> Result<Object, Problem> {
    let none = || Problem::new(Kind::NOT_FOUND, format!("the store has no object {id}"));
    snapshot.object(id).ok_or_else(none)
}

/// One object.
#[utoipa::path(get, path = "/v1/stores/{store}/objects/{id}", params(("store" = String, Path),
    ("id" = u64, Path)), responses((status = 200, body = OneObject)))]
pub async fn one_object(
    State(app): State<Arc<App>>,
    Segments((name, id)): Segments<(String, u64)>,
) -> Result<Response<Body>, Problem> {
    let snapshot = app.store(&name)?;
    let object = object(&snapshot, id)?;
    let centroids = snapshot.centroids(id).await.map_err(|refusal| app.refused(refusal))?;
    Ok(json(&OneObject { object, centroids }))
}

/// A small JPEG picture of an object.
#[utoipa::path(get, path = "/v1/stores/{store}/objects/{id}/thumbnail", params(("store" = String, Path),
    ("id" = u64, Path), ("size" = Option<u32>, Query), ("v" = Option<String>, Query)),
    responses((status = 200, content_type = "image/jpeg")))]
pub async fn thumbnail(
    State(app): State<Arc<App>>,
    Segments((name, id)): Segments<(String, u64)>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    let snapshot = app.store(&name)?;
    let mut parameters = Parameters::new(&uri)?;
    let size = parameters.parsed("size", "96, 192 or 384")?.unwrap_or(SIZES[1]);
    let version = parameters.text("v");
    parameters.check()?;
    if !SIZES.contains(&size) {
        return Err(Problem::new(Kind::VALUES, format!("`size` is 96, 192 or 384, not {size}")));
    }
    object(&snapshot, id)?;
    let tag = format!("\"{}-{id}-{size}\"", tag_of(snapshot.fingerprint()));
    let is_current = version.is_some_and(|version| version == snapshot.fingerprint());
    let mut response = if has_tag(&headers, &tag) {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        response
    } else {
        let jpeg = snapshot.thumbnail(id, size).await.map_err(|refusal| app.refused(refusal))?;
        content("image/jpeg", jpeg)
    };
    let caching = if is_current { "private, max-age=31536000, immutable" } else { "private, no-cache" };
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static(caching));
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        response.headers_mut().insert(ETAG, tag);
    }
    Ok(response)
}

/// The letters of a fingerprint that a tag may have.
fn tag_of(fingerprint: &str) -> String {
    fingerprint.chars().filter(|letter| letter.is_ascii_alphanumeric() || "-_.".contains(*letter)).collect()
}

/// Whether the client has what has this tag.
fn has_tag(headers: &HeaderMap, tag: &str) -> bool {
    let Some(known) = headers.get(IF_NONE_MATCH).and_then(|known| known.to_str().ok()) else { return false };
    known.trim() == "*" || known.split(',').any(|known| known.trim().trim_start_matches("W/") == tag)
}

/// The original picture of an object.
#[utoipa::path(get, path = "/v1/stores/{store}/objects/{id}/image", params(("store" = String, Path),
    ("id" = u64, Path)), responses((status = 200, content_type = "image/*")))]
pub async fn image(
    State(app): State<Arc<App>>,
    Segments((name, id)): Segments<(String, u64)>,
) -> Result<Response<Body>, Problem> {
    let snapshot = app.store(&name)?;
    object(&snapshot, id)?;
    if !app.config.originals {
        let detail = "the server gives no original pictures: start it with `--originals`";
        return Err(Problem::new(Kind::NOT_FOUND, detail));
    }
    let original = app.compute(snapshot.original(id)).await?;
    let mut response = content(original.media_type, original.bytes);
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    Ok(response)
}
