//! Seeded mutations of valid requests against the server's routes, in this process: every answer has a known status and
//! the headers that protect it, errors are problems of known kinds, the server never fails, and no byte from outside the
//! folder of the pictures leaves. `fuzz/fuzz_targets/http.rs` does the same under a fuzzer.

use std::path::Path;
use std::sync::Arc;

use boxwork::engine::Engine;
use boxwork::serving::{Opening, Pipelines, Stores};
use boxwork_kernels::chance::Random;
use boxwork_server::app::App;
use boxwork_server::{Config, Limits, Log, problem, server};
use serde_json::Value as Json;

/// Requests of one run.
const REQUESTS: usize = 100_000;
const SECRET: &[u8] = b"never-to-be-served";

/// Valid requests, with `SESSION` for a session that lives. They are mutated.
const VALID: [(&str, &str, &str, &str); 26] = [
    ("GET", "/", "", ""),
    ("GET", "/assets/app.js", "", ""),
    ("GET", "/problems/busy", "", ""),
    ("GET", "/plain?store=s&id=1&k=3", "", ""),
    ("GET", "/healthz", "", ""),
    ("GET", "/readyz", "", ""),
    ("GET", "/metrics", "", ""),
    ("GET", "/v1/openapi.json", "", ""),
    ("GET", "/v1/stores", "", ""),
    ("GET", "/v1/stores/s", "", ""),
    ("POST", "/v1/stores/s/reload", "", ""),
    ("GET", "/v1/stores/s/objects?class=a&prefix=a/&after=0&limit=5", "", ""),
    ("GET", "/v1/stores/s/objects/1", "", ""),
    ("GET", "/v1/stores/s/objects/1/thumbnail?size=96&v=x", "", ""),
    ("GET", "/v1/stores/s/objects/1/image", "", ""),
    (
        "POST",
        "/v1/stores/s/search",
        "application/json",
        r#"{"query":{"id":1},"k":2,"range":9.5,"class":"a"}"#,
    ),
    ("POST", "/v1/stores/s/search", "application/json", r#"{"query":{"name":"a/1.jpg"}}"#),
    ("POST", "/v1/stores/s/search", "application/json", r#"{"query":{"signature":[[0.5,0.5,1]]},"k":1}"#),
    ("POST", "/v1/stores/s/search?k=2", "image/png", "\u{89}PNG\r\n\u{1a}\n"),
    (
        "POST",
        "/v1/stores/s/search",
        "multipart/form-data; boundary=x",
        "--x\r\nContent-Disposition: form-data; name=\"image\"; filename=\"a\"\r\n\r\nGIF89a\r\n--x--\r\n",
    ),
    (
        "POST",
        "/v1/stores/s/sessions",
        "application/json",
        r#"{"seed":1,"batch":2,"explore":0.5,"query":[{"id":0}]}"#,
    ),
    ("GET", "/v1/sessions/SESSION", "", ""),
    (
        "POST",
        "/v1/sessions/SESSION/rounds",
        "application/json",
        r#"{"round":1,"marks":[{"id":0,"relevance":1}]}"#,
    ),
    ("PATCH", "/v1/sessions/SESSION", "application/json", r#"{"explore":1,"class":null,"batch":3}"#),
    ("GET", "/v1/sessions/SESSION/ranking?offset=0&limit=3", "", ""),
    ("GET", "/v1/sessions/SESSION/objects/1/why", "", ""),
];

/// What mutations put in.
const PIECES: [&str; 32] = [
    "..",
    "/",
    "%2e%2e",
    "%2f",
    "%00",
    "%",
    "%ff",
    "\\",
    "//",
    "?",
    "&",
    "=",
    "#",
    "-1",
    "1e999",
    "18446744073709551616",
    "null",
    "\"",
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "é",
    "\u{202e}",
    "\r\n",
    "0.1",
    "true",
    "nan",
    "secret.jpg",
    "SESSION",
];
const METHODS: [&str; 7] = ["GET", "POST", "PATCH", "DELETE", "HEAD", "OPTIONS", "PUT"];
const MEDIA: [&str; 6] = [
    "application/json",
    "image/jpeg",
    "multipart/form-data; boundary=x",
    "application/jsonl",
    "text/plain",
    "",
];
const HOSTS: [&str; 5] = ["evil.test", "[::1]:8080", "localhost:99999", "", "127.0.0.1"];

fn app(folder: &Path) -> Arc<App> {
    let images = folder.join("images");
    std::fs::create_dir_all(images.join("a")).expect("a folder");
    std::fs::write(folder.join("secret.jpg"), SECRET).expect("written");
    let path = folder.join("s.jsonl");
    let line = |name: &str| format!("{{\"name\": \"{name}\", \"centroids\": [[0, 0]], \"weights\": [1]}}\n");
    std::fs::write(&path, ["a/1.jpg", "../secret.jpg", "a/2.jpg"].map(line).concat()).expect("written");
    let engine = Arc::new(Engine::builder().workers(1).start().expect("threads"));
    let opening = Opening {
        name: "s".to_owned(),
        path,
        pivots: None,
        sketch: None,
        codes: None,
        lists: None,
        images: Some(images),
        cache: None,
        cache_bytes: 0,
        alpha: Some(0.2),
        device: None,
        image_bytes: 1 << 20,
    };
    let catalog = boxwork::catalog();
    let pipelines = Pipelines::load(None, &catalog, false).expect("shipped");
    let stores = Stores::open(engine, &catalog, pipelines, vec![opening], Log::none()).expect("a store");
    let limits =
        Limits { rate: 0, thumbnail_rate: 0, json_bytes: 1 << 16, sessions: REQUESTS, ..Limits::default() };
    let config = Config { originals: true, limits, ..Config::new(([127, 0, 0, 1], 0).into()) };
    Arc::new(App::new(Arc::new(stores), config).expect("memory alone"))
}

/// A request's parts.
#[derive(Clone, Debug)]
struct Asked {
    method: String,
    path: String,
    host: String,
    media: String,
    body: Vec<u8>,
}

fn pick<'a>(random: &mut Random, list: &[&'a str]) -> &'a str {
    list[random.below(list.len() as u64) as usize]
}

/// Removes, doubles, replaces or inserts a piece of a text of bytes.
fn mutate(random: &mut Random, bytes: &mut Vec<u8>, session: &str) {
    let at = random.below(bytes.len() as u64 + 1) as usize;
    let end = (at + 1 + random.below(8) as usize).min(bytes.len());
    match random.below(5) {
        0 => drop(bytes.drain(at..end)),
        1 => {
            let again = bytes[at..end].to_vec();
            bytes.splice(at..at, again);
        }
        2 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
        3 => bytes.truncate(at),
        _ => {
            let piece = pick(random, &PIECES).replace("SESSION", session);
            bytes.splice(at..at, piece.into_bytes());
        }
    }
}

fn mutated(random: &mut Random, session: &str) -> Asked {
    let (method, path, media, body) = VALID[random.below(VALID.len() as u64) as usize];
    let mut asked = Asked {
        method: method.to_owned(),
        path: path.replace("SESSION", session),
        host: "localhost".to_owned(),
        media: media.to_owned(),
        body: body.as_bytes().to_vec(),
    };
    for _ in 0..random.below(4) {
        match random.below(12) {
            0 => pick(random, &METHODS).clone_into(&mut asked.method),
            1 => pick(random, &HOSTS).clone_into(&mut asked.host),
            2 => pick(random, &MEDIA).clone_into(&mut asked.media),
            3..=6 => {
                let mut path = asked.path.into_bytes();
                mutate(random, &mut path, session);
                asked.path = String::from_utf8_lossy(&path).into_owned();
            }
            _ => mutate(random, &mut asked.body, session),
        }
    }
    asked
}

fn check(asked: &Asked, answer: (u16, hyper::HeaderMap, Vec<u8>)) -> u16 {
    let (status, headers, body) = answer;
    assert_ne!(status, 500, "{asked:?}: {}", String::from_utf8_lossy(&body));
    for name in ["content-security-policy", "x-content-type-options", "x-request-id", "cache-control"] {
        assert!(headers.contains_key(name), "{name}: {asked:?}");
    }
    assert!(!body.windows(SECRET.len()).any(|bytes| bytes == SECRET), "{asked:?}");
    if status >= 400 && asked.method != "HEAD" && !asked.path.starts_with("/readyz") {
        let problem: Json = serde_json::from_slice(&body).unwrap_or_else(|_| panic!("no problem: {asked:?}"));
        let name = problem["type"].as_str().and_then(|kind| kind.strip_prefix("/problems/")).expect("a kind");
        assert_eq!(problem::find(name).map(|kind| kind.status), Some(status), "{asked:?}");
    }
    status
}

#[test]
fn no_mutated_request_makes_the_server_fail_or_tell_a_secret() {
    let folder = tempfile::tempdir().expect("a folder");
    let app = app(folder.path());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_time().build();
    let runtime = runtime.expect("a runtime");
    let answered = |asked: &Asked| {
        let Asked { method, path, host, media, body } = asked.clone();
        runtime.block_on(server::answered(&app, &method, &path, &host, &media, body))
    };
    let mut random = Random::new(7);
    let mut statuses = std::collections::BTreeMap::<u16, usize>::new();
    let mut session = String::new();
    for nth in 0..REQUESTS {
        // Sessions end by mutated requests, too.
        if nth % 500 == 0 {
            let begin = Asked {
                method: "POST".to_owned(),
                path: "/v1/stores/s/sessions".to_owned(),
                host: "localhost".to_owned(),
                media: "application/json".to_owned(),
                body: b"{\"batch\":1}".to_vec(),
            };
            let (status, _, body) = answered(&begin).expect("an answer");
            assert_eq!(status, 201, "{}", String::from_utf8_lossy(&body));
            let state: Json = serde_json::from_slice(&body).expect("JSON");
            state["session"].as_str().expect("a name").clone_into(&mut session);
        }
        let asked = mutated(&mut random, &session);
        // Bytes that are no HTTP at all reach no route.
        if let Some(answer) = answered(&asked) {
            *statuses.entry(check(&asked, answer)).or_default() += 1;
        }
    }
    // The mutations reach what they are for.
    for status in [200, 201, 304, 400, 403, 404, 405, 409, 415, 422] {
        assert!(
            status == 304 || statuses.get(&status).is_some_and(|count| *count > 20),
            "{status}: {statuses:?}"
        );
    }
}
