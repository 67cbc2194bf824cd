//! The cost of HTTP: cached thumbnails, health under load, searches of many users, and overload.
//!
//! Unit: requests per second and milliseconds, by the wall clock, over loopback connections that are kept open; clients
//! and server share the cores. Baselines are the bars of the specification of the server: 3,000 thumbnails a second, a
//! `/healthz` within 10 ms at the 99th percentile while all places compute, and under four times the load only 200 and
//! 503 with a 99th percentile of accepted requests of at most twice that at capacity.
//!
//! Not included: extraction and thumbnails that are made, which are the engine's work (`benches/extraction.rs`).
//!
//! `cargo bench --bench serve -- objects=20000 seconds=5`

mod support;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use boxwork::engine::Engine;
use boxwork::serving::{Opening, Pipelines, Stores};
use boxwork_operators::catalog;
use boxwork_server::{Bound, Config, Limits, Log, Server};
use support::store::write_store;
use support::{Arguments, print_machine};

/// Clients at capacity.
const CLIENTS: usize = 4;

fn main() {
    let arguments = Arguments::read(&["objects", "seconds", "workers"]);
    let (objects, workers) = (arguments.get("objects", 20_000), arguments.get("workers", 2));
    let time = Duration::from_secs(arguments.get("seconds", 5) as u64);
    println!("question    what do cached thumbnails, health under load and overload cost?");
    println!(
        "unit        requests/s and ms; {objects} signatures, {workers} workers, loopback, {time:?} a row"
    );
    print_machine();
    let folder = tempfile::tempdir().expect("the folder can be written to");
    let server = serve(folder.path(), objects, workers);
    let at = server.address();

    let thumbnail = get("/v1/stores/objects/objects/0/thumbnail?size=96");
    check(at, &thumbnail, "image/jpeg");
    let counts = load(at, CLIENTS, time, |_| thumbnail.clone());
    report("cached thumbnails", &counts, time);

    check(at, &search_of(0), "application/json");
    let capacity = load(at, CLIENTS, time, search_of);
    report("searches at capacity", &capacity, time);

    let users = rounds(at, time);
    report("rounds of 16 users, one a second each", &users, time);
    assert!(users.statuses.keys().all(|status| *status == 200), "{:?}", users.statuses);

    let stop = Arc::new(AtomicBool::new(false));
    let busy: Vec<_> = (0..16)
        .map(|client| {
            let stop = Arc::clone(&stop);
            std::thread::spawn(move || {
                let mut connection = Connection::new(at);
                let mut counts = Counts::default();
                let mut nth = client;
                while !stop.load(Ordering::Relaxed) {
                    counts.add(connection.ask(&search_of(nth)));
                    nth += 16;
                }
                counts
            })
        })
        .collect();
    let health = load(at, 1, time, |_| get("/healthz"));
    stop.store(true, Ordering::Relaxed);
    let over: Vec<Counts> = busy.into_iter().map(|client| client.join().expect("a client")).collect();
    let over = Counts::sum(over);
    report("/healthz while all places compute", &health, time);
    report("searches of 16 clients", &over, time);
    println!(
        "overload    p99 of accepted is {:.2} times that at capacity; statuses {:?}",
        over.percentile(0.99) / capacity.percentile(0.99),
        over.statuses
    );
    assert!(over.statuses.keys().all(|status| [200, 429, 503].contains(status)), "{:?}", over.statuses);
    assert!(server.stop(), "all requests ended");
}

/// Rounds of 16 users, each of whom likes the first of twelve objects once a second.
fn rounds(at: SocketAddr, time: Duration) -> Counts {
    let user = move |seed: usize| {
        let mut connection = Connection::new(at);
        let begin = format!("{{\"seed\":{seed},\"query\":[{{\"id\":{seed}}}]}}");
        let (status, mut state) = connection.json(&post("/v1/stores/objects/sessions", &begin));
        assert_eq!(status, 201, "{state}");
        let path = format!("/v1/sessions/{}/rounds", state["session"].as_str().expect("a name"));
        let (begun, mut counts) = (Instant::now(), Counts::default());
        for second in 0..time.as_secs() as u32 {
            // Users do not click at the same moment.
            let due = Duration::from_secs(1) * second + Duration::from_millis(62) * seed as u32;
            std::thread::sleep(due.saturating_sub(begun.elapsed()));
            let (round, id) = (&state["round"]["round"], &state["round"]["objects"][0]["id"]);
            let marks = format!("{{\"round\":{round},\"marks\":[{{\"id\":{id},\"relevance\":1}}]}}");
            let asked = Instant::now();
            let (status, next) = connection.json(&post(&path, &marks));
            counts.add((status, asked.elapsed()));
            state = next;
        }
        counts
    };
    let users: Vec<_> = (0..16).map(|seed| std::thread::spawn(move || user(seed))).collect();
    Counts::sum(users.into_iter().map(|user| user.join().expect("a user")).collect())
}

fn search_of(nth: usize) -> Vec<u8> {
    post("/v1/stores/objects/search", &format!("{{\"query\":{{\"id\":{}}},\"k\":10}}", nth % 1000))
}

/// A server over synthetic signatures, of which the first has a picture.
fn serve(folder: &Path, objects: usize, workers: usize) -> Server {
    let path = folder.join("objects.arrow");
    write_store(&path, objects);
    let images = folder.join("images");
    let engine =
        Arc::new(Engine::builder().workers(workers).maps(true).start().expect("the system gives threads"));
    let names = boxwork_stores::any_kind::open(&path, None).expect("the store just written");
    let picture = images.join(names.name(0).expect("a name"));
    std::fs::create_dir_all(picture.parent().expect("a folder")).expect("a folder");
    let noise =
        image::RgbImage::from_fn(400, 300, |x, y| image::Rgb([(x * 7) as u8, (y * 5) as u8, (x ^ y) as u8]));
    noise.save_with_format(&picture, image::ImageFormat::Jpeg).expect("a picture");
    let opening = Opening {
        name: "objects".to_owned(),
        path,
        pivots: None,
        sketch: None,
        images: Some(images),
        cache: None,
        cache_bytes: 0,
        alpha: Some(0.2),
        device: Some("cpu".to_owned()),
        image_bytes: 20 << 20,
    };
    let pipelines = Pipelines::load(None, &catalog(), false).expect("the shipped pipelines");
    let stores = Stores::open(engine, &catalog(), pipelines, vec![opening], Log::none()).expect("the store");
    let limits = Limits { rate: 0, thumbnail_rate: 0, waiting: 8, ..Limits::default() }.on_slots(workers);
    let listen = SocketAddr::from(([127, 0, 0, 1], 0));
    let bound = Bound::new(listen).expect("a free port");
    bound.serve(Config { limits, ..Config::new(listen) }, Arc::new(stores)).expect("a server")
}

fn get(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").into_bytes()
}

fn post(path: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}")
        .into_bytes()
}

/// A kept connection.
struct Connection(BufReader<TcpStream>);

impl Connection {
    fn new(at: SocketAddr) -> Self {
        let stream = TcpStream::connect(at).expect("a connection");
        stream.set_nodelay(true).expect("no delay");
        Self(BufReader::new(stream))
    }

    /// Sends a request and reads the answer: status, type, time.
    fn asked(&mut self, request: &[u8]) -> (u16, String, Duration) {
        let (status, kind, _, time) = self.whole(request);
        (status, kind, time)
    }

    /// Sends a request and reads the answer: status, and JSON.
    fn json(&mut self, request: &[u8]) -> (u16, serde_json::Value) {
        let (status, _, body, _) = self.whole(request);
        (status, serde_json::from_slice(&body).expect("JSON"))
    }

    fn whole(&mut self, request: &[u8]) -> (u16, String, Vec<u8>, Duration) {
        let begun = Instant::now();
        self.0.get_mut().write_all(request).expect("sent");
        let (mut status, mut length, mut kind, mut line) = (0, 0, String::new(), String::new());
        loop {
            line.clear();
            assert!(self.0.read_line(&mut line).expect("a line") > 0, "the server closed the connection");
            let text = line.trim_end().to_ascii_lowercase();
            if let Some(rest) = text.strip_prefix("http/1.1 ") {
                status = rest[..3].parse().expect("a status");
            } else if let Some(value) = text.strip_prefix("content-length: ") {
                length = value.parse().expect("a length");
            } else if let Some(value) = text.strip_prefix("content-type: ") {
                kind = value.to_owned();
            } else if text.is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).expect("a body");
        (status, kind, body, begun.elapsed())
    }

    fn ask(&mut self, request: &[u8]) -> (u16, Duration) {
        let (status, _, time) = self.asked(request);
        (status, time)
    }
}

/// Checks an answer before its rate is measured.
fn check(at: SocketAddr, request: &[u8], wanted: &str) {
    let (status, kind, _) = Connection::new(at).asked(request);
    assert_eq!((status, kind.as_str()), (200, wanted));
}

/// The answers of some clients.
#[derive(Default)]
struct Counts {
    statuses: std::collections::BTreeMap<u16, usize>,
    accepted: Vec<Duration>,
}

impl Counts {
    fn add(&mut self, (status, time): (u16, Duration)) {
        *self.statuses.entry(status).or_default() += 1;
        if status == 200 {
            self.accepted.push(time);
        }
    }

    fn sum(all: Vec<Self>) -> Self {
        let mut sum = Self::default();
        for counts in all {
            for (status, count) in counts.statuses {
                *sum.statuses.entry(status).or_default() += count;
            }
            sum.accepted.extend(counts.accepted);
        }
        sum.accepted.sort();
        sum
    }

    /// A percentile of the times of accepted requests, in milliseconds.
    fn percentile(&self, share: f64) -> f64 {
        let last = self.accepted.len().saturating_sub(1) as f64;
        self.accepted.get((share * last).round() as usize).map_or(f64::NAN, |time| time.as_secs_f64() * 1e3)
    }
}

/// Lets some clients ask one after the other for a while.
fn load(at: SocketAddr, clients: usize, time: Duration, request: impl Fn(usize) -> Vec<u8> + Sync) -> Counts {
    let all = std::thread::scope(|scope| {
        let request = &request;
        let clients: Vec<_> = (0..clients)
            .map(|client| {
                scope.spawn(move || {
                    let (mut connection, mut counts, begun) =
                        (Connection::new(at), Counts::default(), Instant::now());
                    let mut nth = client;
                    while begun.elapsed() < time {
                        counts.add(connection.ask(&request(nth)));
                        nth += clients;
                    }
                    counts
                })
            })
            .collect();
        clients.into_iter().map(|client| client.join().expect("a client")).collect()
    });
    Counts::sum(all)
}

fn report(what: &str, counts: &Counts, time: Duration) {
    let rate = counts.accepted.len() as f64 / time.as_secs_f64();
    let [half, most, worst] = [0.5, 0.99, 1.0].map(|share| counts.percentile(share));
    println!(
        "{what}: {rate:.0} requests/s; {half:.2} ms p50, {most:.2} ms p99, {worst:.2} ms at most; {:?}",
        counts.statuses
    );
}
