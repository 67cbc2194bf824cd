//! The page, and the server with all sorts of clients.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use boxwork_runtime::request::{BoxStatistics, EdgeState, EdgeStatistics, RequestId, RequestStatistics};
use boxwork_runtime::statistics::{ClassStatistics, SchedulerStatistics, SlotStatistics};
use boxwork_runtime::{Config, Runtime};

use super::exposition::{self, Snapshot};
use super::samples::{self, Sample};
use super::{Bound, CLIENTS_MAX, PATH, Server, client, parse_address, serve};

fn local(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

fn serving(page: impl Fn() -> String + Send + Sync + 'static) -> Server {
    Bound::new(local(0)).expect("a free port").serve_figures(PATH, page).expect("a thread")
}

/// Sends this and reads all that comes.
fn talk(address: SocketAddr, words: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).expect("a connection");
    stream.write_all(words).expect("sent");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("an answer");
    String::from_utf8(answer).expect("text")
}

const GET: &[u8] = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";

fn snapshot() -> Snapshot {
    let slot =
        SlotStatistics { tasks: 7, steals: [1, 2, 3, 4], rested_ns: 1_500_000_000, ..Default::default() };
    let class = ClassStatistics {
        name: "odd \"name\"\\ of\ntwo lines".to_owned(),
        limit: 4,
        auto: true,
        operations: 9,
        waited: 2,
        in_flight: 3,
        waiting: 1,
        ..Default::default()
    };
    let of_box = BoxStatistics {
        name: "distance".to_owned(),
        kind: "sqfd".into(),
        copies: 2,
        firings: 5,
        busy_ns: 250_000_000,
        undeclared_blocking_ns_max: 50_000_000,
        ..Default::default()
    };
    let edge = |envelopes| EdgeStatistics {
        from: "a.out".to_owned(),
        to: "b.in".to_owned(),
        state: EdgeState { envelopes, rows_total: 10, bytes_total: 80, refusals: 6, ..Default::default() },
    };
    Snapshot {
        scheduler: SchedulerStatistics {
            slots: vec![slot.clone(), slot],
            classes: vec![class],
            threads: 3,
            requests: 1,
            queued: vec![8],
            elapsed: Duration::from_secs(2),
            ..Default::default()
        },
        nodes: vec![0, 0],
        requests: vec![RequestStatistics {
            id: RequestId(1),
            boxes: vec![of_box],
            edges: vec![edge(2), edge(5)],
            busy_ns: 250_000_000,
            bytes_moved: 80,
        }],
    }
}

fn value(samples: &[Sample], name: &str, labels: &[(&str, &str)]) -> Option<f64> {
    let fits = |sample: &&Sample| {
        sample.name == name && labels.iter().all(|(label, text)| sample.label(label) == *text)
    };
    samples.iter().find(fits).map(|sample| sample.value)
}

#[test]
fn the_page_is_what_prometheus_reads() {
    let page = exposition::page(&snapshot());
    let samples = samples::parse(&page).expect("all lines are samples");
    let class = "odd \"name\"\\ of\ntwo lines";
    for (name, labels, expected) in [
        ("boxwork_tasks_total", &[("slot", "1")][..], 7.0),
        ("boxwork_steals_total", &[("slot", "0"), ("distance", "shared_cache")], 2.0),
        ("boxwork_slot_rest_seconds_total", &[("slot", "0")], 1.5),
        ("boxwork_class_in_flight", &[("class", class)], 3.0),
        ("boxwork_class_limit", &[("class", class)], 4.0),
        ("boxwork_class_auto", &[("class", class)], 1.0),
        ("boxwork_class_waited_total", &[("class", class)], 2.0),
        ("boxwork_requests", &[], 1.0),
        ("boxwork_threads", &[], 3.0),
        ("boxwork_queued_tasks", &[("node", "0")], 8.0),
        ("boxwork_uptime_seconds", &[], 2.0),
        (
            "boxwork_box_busy_seconds_total",
            &[("request", "1"), ("box", "distance"), ("operator", "sqfd")],
            0.25,
        ),
        ("boxwork_box_undeclared_blocking_seconds_total", &[("box", "distance")], 0.0),
        ("boxwork_box_undeclared_blocking_seconds_max", &[("box", "distance")], 0.05),
        ("boxwork_edge_envelopes", &[("from", "a.out"), ("to", "b.in")], 5.0),
        ("boxwork_edge_refusals_total", &[], 6.0),
        ("boxwork_edge_bytes_total", &[], 80.0),
        ("boxwork_request_busy_seconds_total", &[("request", "1")], 0.25),
        ("boxwork_request_moved_bytes_total", &[("request", "1")], 80.0),
    ] {
        assert_eq!(value(&samples, name, labels), Some(expected), "{name} {labels:?}");
    }
}

#[test]
fn every_sample_follows_its_type_and_is_there_once() {
    let page = exposition::page(&snapshot());
    let (mut family, mut seen) = ("", Vec::new());
    for line in page.lines() {
        if let Some(of_type) = line.strip_prefix("# TYPE ") {
            let (name, kind) = of_type.split_once(' ').expect("a kind");
            assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
            family = name;
        } else if let Some(help) = line.strip_prefix("# HELP ") {
            assert!(help.starts_with("boxwork_") && help.ends_with('.'), "{line}");
        } else {
            let series = line.rsplit_once(' ').expect("a value").0;
            assert_eq!(series.split(['{', ' ']).next(), Some(family));
            assert!(!seen.contains(&series), "twice: {line}");
            seen.push(series);
        }
    }
}

#[test]
fn samples_that_are_none_are_refused() {
    for line in ["x", "x{", "x{a=\"b} 1", "x{a=\"\\q\"} 1", "x{a=\"b\"} one", "x{a=b} 1", " 1", "a-b 1"] {
        assert_eq!(samples::parse(line), Err(line.to_owned()));
    }
}

#[test]
fn a_page_is_served_and_nothing_else() {
    let server = serving(|| "boxwork_requests 1\n".to_owned());
    let answer = talk(server.address(), GET);
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4;"), "{answer}");
    let (head, page) = answer.split_once("\r\n\r\n").expect("a head");
    assert!(head.contains("\r\nContent-Length: 19\r\n") && head.contains("\r\nConnection: close"), "{head}");
    assert_eq!(page, "boxwork_requests 1\n");
    assert_eq!(client::scrape(server.address()).expect("a page"), "boxwork_requests 1\n");
    let long = [&b"GET /metrics HTTP/1.1\r\nx: "[..], &[b'x'; 20_000]].concat();
    let mut others = Vec::new();
    for (words, status) in [
        (&b"GET /metrics?x=1 HTTP/1.0\n\n"[..], "200"),
        (b"HEAD /metrics HTTP/1.1\r\n\r\n", "200"),
        (b"GET http://host/metrics HTTP/1.1\r\n\r\n", "200"),
        (b"GET HTTP://host:9184/metrics?x=/y HTTP/1.1\r\n\r\n", "200"),
        (b"GET http://host HTTP/1.1\r\n\r\n", "404"),
        (b"GET http://host?/metrics HTTP/1.1\r\n\r\n", "404"),
        (b"GET http:///metrics/x HTTP/1.1\r\n\r\n", "400"),
        (b"GET / HTTP/1.1\r\n\r\n", "404"),
        (b"GET /metrics/../../etc/passwd HTTP/1.1\r\n\r\n", "404"),
        (b"POST /metrics HTTP/1.1\r\n\r\n", "405"),
        (b"GET /metrics\r\n\r\n", "400"),
        (b"\0\xff\xfe garbage \r\n\r\n", "400"),
        (&long, "431"),
    ] {
        let mut stream = TcpStream::connect(server.address()).expect("a connection");
        stream.write_all(words).expect("sent");
        stream.shutdown(Shutdown::Write).expect("all is said");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        // A client of HTTP/1.0 is answered by HTTP/1.0.
        if !answer.starts_with("HTTP/1.") || answer.split(' ').nth(1) != Some(status) {
            others.push((
                String::from_utf8_lossy(words).chars().take(60).collect::<String>(),
                status,
                answer,
            ));
        }
    }
    assert!(others.is_empty(), "{others:#?}");
    assert!(talk(server.address(), b"HEAD /metrics HTTP/1.1\r\n\r\n").ends_with("\r\n\r\n"));
}

#[test]
fn clients_that_say_nothing_hold_up_nobody() {
    let made = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&made);
    let server = serving(move || format!("boxwork_requests {}\n", count.fetch_add(1, Ordering::SeqCst)));
    let mut silent = TcpStream::connect(server.address()).expect("a connection");
    silent.write_all(b"GET /met").expect("sent");
    let gone = TcpStream::connect(server.address()).expect("a connection");
    drop(gone);
    let scrapes = [(); 2].map(|()| {
        let address = server.address();
        std::thread::spawn(move || talk(address, GET))
    });
    for scrape in scrapes {
        assert!(scrape.join().expect("an answer").contains("\nboxwork_requests "));
    }
    assert_eq!(made.load(Ordering::SeqCst), 2, "a page is made for those who ask for one");
    silent.write_all(b"rics HTTP/1.1\r\n\r\n").expect("sent");
    let mut answer = String::new();
    silent.read_to_string(&mut answer).expect("an answer");
    // On a machine that is slow enough it has taken too long.
    assert!(answer.starts_with("HTTP/1.1 200 ") || answer.starts_with("HTTP/1.1 408 "), "{answer}");
}

#[test]
fn too_many_clients_are_sent_away() {
    let server = serving(String::new);
    let _silent: Vec<TcpStream> =
        (0..CLIENTS_MAX).map(|_| TcpStream::connect(server.address()).expect("a connection")).collect();
    let mut one_more = TcpStream::connect(server.address()).expect("a connection");
    let mut answer = String::new();
    one_more.read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
}

#[test]
fn a_server_ends_when_it_is_dropped_and_its_port_was_its_own() {
    let server = serving(String::new);
    let address = server.address();
    assert_eq!(Bound::new(address).expect_err("the port is taken").kind(), std::io::ErrorKind::AddrInUse);
    drop(server);
    assert!(matches!(client::scrape(address), Err(client::Error::Connection(_))));
}

#[test]
fn a_runtime_is_told_of_and_not_kept_alive() {
    let runtime = Arc::new(Runtime::start(Config::flat(2)).expect("a runtime"));
    let server = serve(Bound::new(local(0)).expect("a port"), &runtime).expect("a server");
    let page = client::scrape(server.address()).expect("a page");
    let samples = samples::parse(&page).expect("samples");
    assert_eq!(value(&samples, "boxwork_requests", &[]), Some(0.0));
    assert_eq!(samples.iter().filter(|sample| sample.name == "boxwork_tasks_total").count(), 2);
    // Not `into_inner`: the thread of the client above may still hold it for a moment.
    let weak = Arc::downgrade(&runtime);
    drop(runtime);
    while weak.strong_count() > 0 {
        std::thread::yield_now();
    }
    assert_eq!(client::scrape(server.address()).expect("a page"), "");
}

#[test]
fn addresses_are_of_this_machine_unless_another_is_named() {
    for text in ["9184", ":9184", "localhost:9184", "127.0.0.1:9184", "http://127.0.0.1:9184/metrics"] {
        assert_eq!(parse_address(text), Ok(local(9184)), "{text}");
    }
    assert_eq!(parse_address("0.0.0.0:1"), Ok(SocketAddr::from(([0, 0, 0, 0], 1))));
    assert!(parse_address("[::1]:9").is_ok_and(|address| address.is_ipv6()));
    for text in ["", "x", "127.0.0.1", "127.0.0.1:", "99999", "example.org:1"] {
        assert!(parse_address(text).is_err_and(|error| error.contains("127.0.0.1:9184")), "{text}");
    }
}
