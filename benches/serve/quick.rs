//! `what=page`, `what=thumbnails`, `what=health`: what must be quick whatever the server computes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::client::{Connection, Counts, get, load, post};
use super::support::{Arguments, verdict};
use super::world::World;

/// Clients at once.
const CLIENTS: usize = 4;

pub fn seconds(arguments: &Arguments, usual: u64) -> Duration {
    Duration::from_secs(arguments.get("seconds", usual))
}

pub fn search_of(objects: usize, nth: usize) -> Vec<u8> {
    post("/v1/stores/objects/search", &format!("{{\"query\":{{\"id\":{}}},\"k\":10}}", nth % objects))
}

/// A new connection each time, as a browser that opens the page.
pub fn page(world: &World, arguments: &Arguments) {
    println!("question    when does the first byte of the page come?");
    let requests: usize = arguments.get("requests", 2000);
    let request = get("/");
    let mut firsts: Vec<f64> = (0..requests.min(20_000))
        .map(|_| {
            let begun = std::time::Instant::now();
            let mut connection = Connection::new(world.at());
            let connected = begun.elapsed();
            let answer = connection.ask(&request);
            assert_eq!((answer.status, answer.media.as_str()), (200, "text/html; charset=utf-8"));
            (connected + answer.first).as_secs_f64() * 1e3
        })
        .collect();
    firsts.sort_by(f64::total_cmp);
    let at = |share: f64| firsts[((firsts.len() - 1) as f64 * share) as usize];
    println!("page: {:.3} ms p50, {:.3} ms p99, {:.3} ms at most", at(0.5), at(0.99), at(1.0));
    verdict("first byte of the page, ms, p99", at(0.99), 10.0, at(0.99) <= 10.0);
}

pub fn thumbnails(world: &World, arguments: &Arguments) {
    println!("question    how many cached thumbnails a second?");
    let time = seconds(arguments, 5);
    let request = |nth: usize| get(&format!("/v1/stores/objects/objects/{}/thumbnail?size=96", nth % 12));
    for nth in 0..12 {
        let answer = Connection::new(world.at()).ask(&request(nth));
        assert_eq!((answer.status, answer.media.as_str()), (200, "image/jpeg"));
        assert!(image::load_from_memory(&answer.body).is_ok(), "a picture");
    }
    let counts = load(world.at(), CLIENTS, time, Duration::ZERO, request);
    counts.report("cached thumbnails", time);
    let rate = counts.accepted.len() as f64 / time.as_secs_f64();
    verdict("cached thumbnails a second", rate, 3000.0, rate >= 3000.0);
}

pub fn health(world: &World, arguments: &Arguments) {
    println!("question    how long does /healthz take while all slots compute?");
    let time = seconds(arguments, 5);
    let stop = AtomicBool::new(false);
    let (at, objects) = (world.at(), world.objects());
    let (health, busy) = std::thread::scope(|scope| {
        let busy: Vec<_> = (0..4 * world.workers())
            .map(|client| {
                let stop = &stop;
                scope.spawn(move || {
                    let (mut connection, mut counts) = (Connection::new(at), Counts::default());
                    for nth in (client..).step_by(7) {
                        if stop.load(Ordering::Relaxed) {
                            break;
                        }
                        counts.add(&connection.ask(&search_of(objects, nth)));
                    }
                    counts
                })
            })
            .collect();
        let health = load(at, 1, time, Duration::from_millis(2), |_| get("/healthz"));
        stop.store(true, Ordering::Relaxed);
        (health, Counts::sum(busy.into_iter().map(|client| client.join().expect("a client"))))
    });
    health.report("/healthz", time);
    busy.report("searches meanwhile", time);
    let most = health.percentile(0.99);
    verdict("/healthz while all slots compute, ms, p99", most, 10.0, most <= 10.0);
}
