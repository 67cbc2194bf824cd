//! What every request passes: numbers, limits, hosts, origins, tokens, and the headers of every answer.
//!
//! Invariants: no handler runs for a request that names another host, comes from another origin and would change
//! something, or lacks the token; every answer has the headers of [`HEADERS`] and its request's number.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use axum::body::Body;
use axum::extract::{MatchedPath, Request, State};
use axum::http::header::{
    ACCEPT, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, AUTHORIZATION, CACHE_CONTROL, CONNECTION, CONTENT_SECURITY_POLICY, HOST,
    HeaderName, ORIGIN, REFERRER_POLICY, VARY, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderValue, Method, Response, StatusCode, Uri};
use axum::middleware::Next;
use subtle::ConstantTimeEq as _;

use crate::app::App;
use crate::gate::Cost;
use crate::problem::{Kind, Problem};

/// The number of a request.
pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// What pages of this server may do.
pub const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; \
                          connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// As [`POLICY`], for the page whose form the server itself answers.
pub const POLICY_OF_FORM: &str = "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; \
                                  form-action 'self'; frame-ancestors 'none'";

/// The headers of every answer.
pub const HEADERS: [(HeaderName, &str); 5] = [
    (CONTENT_SECURITY_POLICY, POLICY),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
];

/// The address of a client, as the listener saw it.
#[derive(Clone, Copy, Debug)]
pub struct Client(pub SocketAddr);

/// Counts requests in flight while it lives.
struct InFlight<'a>(&'a AtomicU64);

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Passes a request on if it may pass, and completes its answer.
pub async fn guard(State(app): State<Arc<App>>, request: Request, next: Next) -> Response<Body> {
    let begun = Instant::now();
    app.figures.in_flight.fetch_add(1, Ordering::SeqCst);
    let in_flight = InFlight(&app.figures.in_flight);
    let id = request_id();
    let route = route(&request);
    let origin = request.headers().get(ORIGIN).cloned();
    let is_preflight = request.method() == Method::OPTIONS;
    let response = match check(&app, &request) {
        Ok(()) if is_preflight => preflight(),
        Ok(()) => next.run(request).await,
        Err(problem) => axum::response::IntoResponse::into_response(problem),
    };
    let response = complete(&app, response, &id, origin);
    app.figures.count(route, response.status().as_u16(), begun.elapsed());
    drop(in_flight);
    response
}

/// The route of a request, by which it is counted.
fn route(request: &Request) -> &'static str {
    let matched = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str);
    matched.and_then(|path| ROUTES.iter().find(|route| **route == path)).copied().unwrap_or("none")
}

/// The routes, as figures name them.
pub const ROUTES: &[&str] = &[
    "/",
    "/assets/{name}",
    "/plain",
    "/problems/{name}",
    "/healthz",
    "/readyz",
    "/metrics",
    "/v1/openapi.json",
    "/v1/stores",
    "/v1/stores/{store}",
    "/v1/stores/{store}/reload",
    "/v1/stores/{store}/objects",
    "/v1/stores/{store}/objects/{id}",
    "/v1/stores/{store}/objects/{id}/thumbnail",
    "/v1/stores/{store}/objects/{id}/image",
    "/v1/stores/{store}/search",
    "/v1/stores/{store}/sessions",
    "/v1/sessions/{session}",
    "/v1/sessions/{session}/rounds",
    "/v1/sessions/{session}/rounds/{round}",
    "/v1/sessions/{session}/undo",
    "/v1/sessions/{session}/redo",
    "/v1/sessions/{session}/ranking",
    "/v1/sessions/{session}/log",
    "/v1/sessions/{session}/objects/{id}/why",
];

fn check(app: &App, request: &Request) -> Result<(), Problem> {
    if app.is_stopping() {
        return Err(Problem::stopping());
    }
    let (headers, uri) = (request.headers(), request.uri());
    let length = uri.path_and_query().map_or(0, |path| path.as_str().len());
    if length > app.limits().address_bytes {
        let detail = format!("the address has {length} bytes, {} fit", app.limits().address_bytes);
        return Err(Problem::new(Kind::ADDRESS_LENGTH, detail));
    }
    let host = host(headers, uri)?;
    check_host(app, &host)?;
    check_path(uri.path())?;
    check_origin(app, request, &host)?;
    if request.method() == Method::OPTIONS {
        return Ok(());
    }
    check_token(app, headers, uri.path())?;
    check_rate(app, request)?;
    check_accept(headers, uri.path())
}

/// The host that a request names, with its port.
fn host(headers: &HeaderMap, uri: &Uri) -> Result<String, Problem> {
    let mut named = headers.get_all(HOST).iter();
    let first = uri.authority().map(|authority| authority.as_str().to_owned());
    let first = first.or_else(|| named.next()?.to_str().ok().map(str::to_owned));
    match (first, named.next()) {
        (Some(host), None) => Ok(host.to_ascii_lowercase()),
        _ => Err(Problem::new(Kind::MALFORMED, "a request has one `Host` header")),
    }
}

/// The host without its port.
fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && !name.ends_with(':') => name,
        _ => host,
    }
}

/// Pages of other sites may give their own name this machine's address: then the host is theirs.
fn check_host(app: &App, host: &str) -> Result<(), Problem> {
    let name = without_port(host);
    let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    let is_loopback =
        bare == "localhost" || bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    let is_named = app.config.hosts.iter().any(|known| known.eq_ignore_ascii_case(name));
    if is_loopback || is_named {
        return Ok(());
    }
    Err(Problem::new(Kind::HOST, "the request names a host that this server is not: see `--host`"))
}

/// No address of this server has parts such as `..`, control characters or broken escapes.
fn check_path(path: &str) -> Result<(), Problem> {
    let malformed = |detail: &str| Err(Problem::new(Kind::MALFORMED, detail));
    let Ok(decoded) = percent_encoding::percent_decode_str(path).decode_utf8() else {
        return malformed("the address has bytes that are no UTF-8");
    };
    if decoded.chars().any(char::is_control) {
        return malformed("the address has control characters");
    }
    if decoded.split(['/', '\\']).any(|part| part == ".." || part == ".") {
        return malformed("the address has a part that is `.` or `..`");
    }
    Ok(())
}

/// A request that changes something comes from this server's page, from the origin of `--cors`, or from no browser.
fn check_origin(app: &App, request: &Request, host: &str) -> Result<(), Problem> {
    let refused = || Err(Problem::new(Kind::ORIGIN, "the request comes from the page of another site"));
    if matches!(*request.method(), Method::GET | Method::HEAD) {
        return Ok(());
    }
    let headers = request.headers();
    let origin = headers.get(ORIGIN).map(|origin| origin.to_str().unwrap_or("null"));
    if origin.is_some() && origin == app.config.cors.as_deref() {
        return Ok(());
    }
    if request.method() == Method::OPTIONS {
        return refused();
    }
    match headers.get("sec-fetch-site").map(|site| site.to_str().unwrap_or_default()) {
        Some("same-origin" | "none") => return Ok(()),
        Some(_) => return refused(),
        None => {}
    }
    let is_own = |origin: &str| {
        let named = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
        named.is_some_and(|named| named.eq_ignore_ascii_case(host))
    };
    // Browsers send one of the two headers with each such request; other programs send none.
    if origin.is_none_or(is_own) { Ok(()) } else { refused() }
}

/// Pages that a browser gets before a person can give the token; they contain nothing of a store.
fn is_open(path: &str) -> bool {
    path == "/" || path == "/healthz" || path.starts_with("/assets/") || path.starts_with("/problems/")
}

fn check_token(app: &App, headers: &HeaderMap, path: &str) -> Result<(), Problem> {
    let Some(token) = &app.config.token else { return Ok(()) };
    if is_open(path) {
        return Ok(());
    }
    let given = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let given = given.and_then(|value| {
        let (scheme, token) = value.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
    });
    if given.is_some_and(|given| bool::from(given.as_bytes().ct_eq(token.as_bytes()))) {
        return Ok(());
    }
    Err(Problem::new(Kind::TOKEN, "send `Authorization: Bearer` with the server's token"))
}

fn check_rate(app: &App, request: &Request) -> Result<(), Problem> {
    let path = request.uri().path();
    // Whoever watches the server must see it also when it is busy.
    if matches!(path, "/healthz" | "/readyz" | "/metrics") {
        return Ok(());
    }
    let Some(Client(client)) = request.extensions().get::<Client>() else { return Ok(()) };
    let is_small = path.ends_with("/thumbnail") || path.starts_with("/assets/");
    let cost = if is_small { Cost::Thumbnail } else { Cost::Request };
    app.rates.take(client.ip(), cost, Instant::now())
}

/// Whether the client takes what the address gives.
fn check_accept(headers: &HeaderMap, path: &str) -> Result<(), Problem> {
    let Some(accept) = headers.get(ACCEPT).and_then(|accept| accept.to_str().ok()) else { return Ok(()) };
    let gives = match path {
        _ if path.ends_with("/thumbnail") => "image/jpeg",
        _ if path.ends_with("/log") => "application/jsonl",
        _ if path.ends_with("/image") || !path.starts_with("/v1/") => return Ok(()),
        _ => "application/json",
    };
    let family = gives.split('/').next().unwrap_or_default();
    let takes = accept.split(',').any(|range| {
        let mut parts = range.split(';');
        let range = parts.next().unwrap_or_default().trim().to_ascii_lowercase();
        let is_refused = parts.any(|part| matches!(part.trim(), "q=0" | "q=0.0" | "q=0.00" | "q=0.000"));
        let fits = range == "*/*" || range == gives || range == format!("{family}/*");
        fits && !is_refused
    });
    if takes || accept.trim().is_empty() {
        return Ok(());
    }
    Err(Problem::new(Kind::NOT_ACCEPTABLE, format!("this address gives {gives}")))
}

/// The answer to a browser that asks whether a page of the origin of `--cors` may send a request.
fn preflight() -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}

fn request_id() -> String {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    static BEGUN: std::sync::OnceLock<u64> = std::sync::OnceLock::new();
    let begun = BEGUN.get_or_init(crate::sessions::now_ms);
    format!("{:x}-{:x}", begun & 0xff_ffff_ffff, NUMBER.fetch_add(1, Ordering::Relaxed) + 1)
}

fn complete(
    app: &App,
    mut response: Response<Body>,
    id: &str,
    origin: Option<HeaderValue>,
) -> Response<Body> {
    if let Some(problem) = response.extensions_mut().remove::<Problem>() {
        response = problem.response(id);
        if problem.kind == Kind::TOKEN {
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if problem.kind == Kind::STOPPING {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    if let Ok(id) = HeaderValue::from_str(id) {
        headers.insert(REQUEST_ID, id);
    }
    if let (Some(cors), Some(origin)) = (&app.config.cors, origin)
        && origin.to_str().is_ok_and(|origin| origin == cors)
    {
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(VARY, HeaderValue::from_static("origin"));
        let allowed = "authorization, content-type, accept";
        headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static(allowed));
        let methods = HeaderValue::from_static("GET, POST, PATCH, DELETE");
        headers.insert(ACCESS_CONTROL_ALLOW_METHODS, methods);
        let exposed = HeaderValue::from_static("location, etag, retry-after, x-request-id");
        headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, exposed);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_no_part_of_a_hosts_name() {
        for (host, name) in [
            ("localhost:80", "localhost"),
            ("localhost", "localhost"),
            ("[::1]:80", "[::1]"),
            ("[::1]", "[::1]"),
            ("a.example:1x", "a.example:1x"),
        ] {
            assert_eq!(without_port(host), name);
        }
    }

    #[test]
    fn paths_that_climb_are_refused() {
        for path in
            ["/a/../b", "/%2e%2e/b", "/a/%2E.", "/..%2fetc", "/a%00", "/%ff", "/a/..\\b", "/..%5c", "/."]
        {
            assert!(check_path(path).is_err(), "{path}");
        }
        for path in ["/", "/a..b", "/...", "/v1/stores/caf%C3%A9", "/a%20b"] {
            assert!(check_path(path).is_ok(), "{path}");
        }
    }

    #[test]
    fn what_a_client_takes_decides() {
        let check = |accept: &'static str, path: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, HeaderValue::from_static(accept));
            check_accept(&headers, path).is_ok()
        };
        assert!(check("*/*", "/v1/stores") && check("text/html, application/json;q=0.5", "/v1/stores"));
        assert!(check("application/*", "/v1/stores") && check("text/html", "/"));
        assert!(!check("text/html", "/v1/stores") && !check("application/json;q=0", "/v1/stores"));
        assert!(check("image/avif,image/*", "/v1/stores/s/objects/1/thumbnail"));
        assert!(!check("application/json", "/v1/stores/s/objects/1/thumbnail"));
    }
}
