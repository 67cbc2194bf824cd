//! Many clients, slow clients, clients that go, and the end of the server.

mod support;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::Ordering;
use std::time::Duration;

use boxwork_server::{Config, Limits};
use serde_json::json;
use support::client::{connect, parse, read};
use support::{Fake, get, limits, local, post, serving};

const SEARCH: &[u8] =
    b"POST /v1/stores/s/search HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
    Content-Length: 18\r\nConnection: close\r\n\r\n{\"query\":{\"id\":1}}";

/// Waits until something is so; the test's own patience ends it.
fn until(is_so: impl Fn() -> bool) {
    while !is_so() {
        std::thread::yield_now();
    }
}

#[test]
fn of_two_hundred_clients_those_beyond_the_queue_are_told_when_to_come_again() {
    let backend = Fake::new(9);
    let limits = Limits { computing: 4, waiting: 64, ..limits() };
    let server = serving(&backend, Config { limits, ..Config::new(local()) });
    let at = server.address();
    backend.hold();
    let mut clients: Vec<TcpStream> = (0..200)
        .map(|_| {
            let mut client = connect(at);
            client.write_all(SEARCH).unwrap();
            client
        })
        .collect();
    // Four compute and 64 wait: the other 132 are answered at once, whoever they are.
    let app = server.app().unwrap();
    let refused = || app.figures.page(&[]).contains("/v1/stores/{store}/search\",status=\"503\"} 132");
    until(refused);
    assert_eq!(app.gate.load(), (4, 64));
    assert_eq!(get(at, "/healthz").status, 200, "the server lives while all places are taken");
    assert_eq!(backend.work.begun.load(Ordering::SeqCst), 4, "no more compute than may");
    backend.release(68);
    let answers: Vec<_> = clients.iter_mut().map(|client| parse(&read(client))).collect();
    let served = answers.iter().filter(|answer| answer.status == 200).count();
    let busy: Vec<_> = answers.iter().filter(|answer| answer.status == 503).collect();
    assert_eq!((served, busy.len()), (68, 132));
    assert!(
        busy.iter().all(|answer| answer.header("retry-after") == Some("1") && answer.problem() == "busy")
    );
    assert_eq!(app.gate.load(), (0, 0));
}

#[test]
fn work_of_a_client_that_goes_is_cancelled() {
    let backend = Fake::new(9);
    let server = serving(&backend, Config { limits: limits(), ..Config::new(local()) });
    backend.hold();
    let mut client = connect(server.address());
    client.write_all(SEARCH).unwrap();
    until(|| backend.work.begun.load(Ordering::SeqCst) == 1);
    drop(client);
    until(|| backend.work.cancelled.load(Ordering::SeqCst) == 1);
    until(|| server.app().unwrap().gate.load() == (0, 0));
}

#[test]
fn an_answer_that_takes_too_long_is_cancelled() {
    let backend = Fake::new(9);
    let limits = Limits { deadline: Duration::from_millis(50), ..limits() };
    let server = serving(&backend, Config { limits, ..Config::new(local()) });
    backend.hold();
    let answer = post(server.address(), "/v1/stores/s/search", &json!({"query": {"id": 1}}));
    assert_eq!((answer.status, answer.problem().as_str()), (503, "deadline"));
    until(|| backend.work.cancelled.load(Ordering::SeqCst) == 1);
}

#[test]
fn slow_clients_are_sent_away_and_hold_up_nobody() {
    let backend = Fake::new(9);
    let short = Duration::from_millis(100);
    let limits = Limits { head: short, body: short, keep_alive: short, ..limits() };
    let server = serving(&backend, Config { limits, ..Config::new(local()) });
    let at = server.address();
    let mut half_a_head = connect(at);
    half_a_head.write_all(b"GET / HTT").unwrap();
    let mut half_a_body = connect(at);
    half_a_body.write_all(&SEARCH[..SEARCH.len() - 3]).unwrap();
    let silent = connect(at);
    assert_eq!(get(at, "/healthz").status, 200);
    assert_eq!(parse(&read(&mut half_a_head)).status, 408);
    let body = parse(&read(&mut half_a_body));
    assert_eq!((body.status, body.problem().as_str()), (408, "slow-body"));
    assert!(read(&mut { silent }).is_empty(), "a client that says nothing is told nothing");
    // A connection that rests after its answer is closed without a word.
    let mut resting = connect(at);
    resting.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let all = read(&mut resting);
    assert_eq!(String::from_utf8_lossy(&all).matches("HTTP/1.1").count(), 1);
}

#[test]
fn connections_beyond_the_limit_are_refused() {
    let backend = Fake::new(9);
    let limits = Limits { connections: 3, ..limits() };
    let server = serving(&backend, Config { limits, ..Config::new(local()) });
    let at = server.address();
    let open: Vec<TcpStream> = (0..3).map(|_| connect(at)).collect();
    let mut beyond = connect(at);
    let answer = parse(&read(&mut beyond));
    assert_eq!((answer.status, answer.header("retry-after")), (503, Some("1")));
    drop(open);
    let is_served = || {
        let mut client = connect(at);
        let _ = client.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        parse(&read(&mut client)).status == 200
    };
    until(is_served);
}

#[test]
fn requests_under_way_are_answered_when_the_server_stops_and_new_ones_are_not() {
    let backend = Fake::new(9);
    let server = serving(&backend, Config { limits: limits(), ..Config::new(local()) });
    let at = server.address();
    let mut kept = connect(at);
    kept.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut first = [0; 15];
    kept.read_exact(&mut first).unwrap();
    assert_eq!(&first, b"HTTP/1.1 200 OK");
    backend.hold();
    let mut client = connect(at);
    client.write_all(SEARCH).unwrap();
    until(|| backend.work.begun.load(Ordering::SeqCst) == 1);
    let app = std::sync::Arc::clone(server.app().unwrap());
    let stopping = std::thread::spawn(move || server.stop());
    until(|| app.is_stopping());
    kept.write_all(b"GET /v1/stores HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let rest = String::from_utf8(read(&mut kept)).unwrap();
    assert!(rest.contains("HTTP/1.1 503 ") && rest.contains("/problems/stopping"), "{rest}");
    backend.release(1);
    assert_eq!(parse(&read(&mut client)).status, 200);
    assert!(stopping.join().unwrap(), "all ended by themselves");
    assert!(TcpStream::connect(at).is_err());
}

#[test]
fn work_that_does_not_end_is_cancelled_when_the_server_stops() {
    let backend = Fake::new(9);
    let limits = Limits { stop: Duration::from_millis(50), ..limits() };
    let server = serving(&backend, Config { limits, ..Config::new(local()) });
    backend.hold();
    let mut client = connect(server.address());
    client.write_all(SEARCH).unwrap();
    until(|| backend.work.begun.load(Ordering::SeqCst) == 1);
    assert!(!server.stop());
    assert_eq!(backend.work.cancelled.load(Ordering::SeqCst), 1);
}

#[test]
fn sessions_that_begin_and_end_leave_nothing() {
    let backend = Fake::new(9);
    let server = serving(&backend, Config { limits: limits(), ..Config::new(local()) });
    let at = server.address();
    for _ in 0..200 {
        let state = post(at, "/v1/stores/s/sessions", &json!({"batch": 2})).json();
        let path = format!("/v1/sessions/{}", state["session"].as_str().unwrap());
        assert_eq!(support::request(at, "DELETE", &path, &[], None).status, 204);
    }
    assert_eq!(server.app().unwrap().sessions.size(), (0, 0));
}

#[test]
fn a_handler_that_panics_harms_no_other() {
    let backend = Fake::new(9);
    let server = serving(&backend, Config { limits: limits(), ..Config::new(local()) });
    let at = server.address();
    // The backend of these tests reads the second byte of a picture, and this one has none.
    let answer =
        support::request(at, "POST", "/v1/stores/s/search", &["Content-Type: image/png"], Some(b"P"));
    assert_eq!((answer.status, answer.problem().as_str()), (500, "internal"));
    assert_eq!(get(at, "/healthz").status, 200);
    assert_eq!(server.app().unwrap().gate.load(), (0, 0));
}
