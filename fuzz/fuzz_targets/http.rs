//! Requests to the server's routes, over a small store with pictures beside a file that nobody may get: every answer has a
//! known status and the headers that protect it, errors are problems of known kinds, the server never fails, and no byte
//! from outside the folder of the pictures leaves.
#![no_main]

use std::sync::{Arc, OnceLock};

use arbitrary::Arbitrary;
use boxwork::engine::Engine;
use boxwork::serving::{Opening, Pipelines, Stores};
use boxwork_fuzz::folder;
use boxwork_server::app::App;
use boxwork_server::{Config, Limits, Log, problem, server};
use libfuzzer_sys::fuzz_target;

const SECRET: &[u8] = b"never-to-be-served";
const METHODS: [&str; 6] = ["GET", "POST", "PATCH", "DELETE", "HEAD", "OPTIONS"];
const TYPES: [&str; 5] =
    ["application/json", "image/jpeg", "multipart/form-data; boundary=x", "application/jsonl", "text/plain"];
const BEGINNINGS: [&str; 8] = [
    "/",
    "/assets/",
    "/v1/stores/s/objects",
    "/v1/stores/s/objects/0/",
    "/v1/stores/s/search",
    "/v1/stores/s/sessions",
    "/v1/sessions/",
    "/plain?",
];

#[derive(Arbitrary, Debug)]
struct Asked {
    method: u8,
    beginning: u8,
    rest: String,
    media: u8,
    host: Option<String>,
    body: Vec<u8>,
}

struct World {
    runtime: tokio::runtime::Runtime,
    app: Arc<App>,
}

fn world() -> &'static World {
    static WORLD: OnceLock<World> = OnceLock::new();
    WORLD.get_or_init(|| {
        let images = folder().join("images");
        std::fs::create_dir_all(images.join("a")).expect("a folder");
        std::fs::write(folder().join("secret.jpg"), SECRET).expect("written");
        let path = folder().join("s.jsonl");
        let line =
            |name: &str| format!("{{\"name\": \"{name}\", \"centroids\": [[0, 0]], \"weights\": [1]}}\n");
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
        let limits = Limits { rate: 0, thumbnail_rate: 0, json_bytes: 1 << 16, ..Limits::default() };
        let config = Config { originals: true, limits, ..Config::new(([127, 0, 0, 1], 0).into()) };
        let app = Arc::new(App::new(Arc::new(stores), config).expect("memory alone"));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        World { runtime, app }
    })
}

fuzz_target!(|asked: Asked| {
    let pick = |list: &[&'static str], place: u8| list[usize::from(place) % list.len()];
    let path = format!("{}{}", pick(&BEGINNINGS, asked.beginning), asked.rest);
    let world = world();
    let answer = world.runtime.block_on(server::answered(
        &world.app,
        pick(&METHODS, asked.method),
        &path,
        asked.host.as_deref().unwrap_or("localhost"),
        pick(&TYPES, asked.media),
        asked.body,
    ));
    // Bytes that are no HTTP at all reach no route.
    let Some((status, headers, body)) = answer else { return };
    assert_ne!(status, 500, "{path}");
    assert!(headers.contains_key("content-security-policy") && headers.contains_key("x-request-id"));
    assert!(!body.windows(SECRET.len()).any(|bytes| bytes == SECRET), "{path}");
    if status >= 400 && pick(&METHODS, asked.method) != "HEAD" && !path.starts_with("/readyz") {
        let body: serde_json::Value = serde_json::from_slice(&body).expect("a problem");
        let name = body["type"].as_str().and_then(|kind| kind.strip_prefix("/problems/")).expect("its kind");
        assert_eq!(problem::find(name).expect("a known kind").status, status);
    }
});
