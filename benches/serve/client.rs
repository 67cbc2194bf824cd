//! Clients on kept connections, and what they count.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use serde_json::Value as Json;

pub fn get(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").into_bytes()
}

pub fn post(path: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}")
        .into_bytes()
}

pub fn delete(path: &str) -> Vec<u8> {
    format!("DELETE {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").into_bytes()
}

/// An answer.
pub struct Answer {
    pub status: u16,
    pub media: String,
    pub body: Vec<u8>,
    /// From the sending to the first byte, and to the last.
    pub first: Duration,
    pub time: Duration,
}

impl Answer {
    pub fn json(&self) -> Json {
        serde_json::from_slice(&self.body).expect("JSON")
    }
}

/// A kept connection.
pub struct Connection(BufReader<TcpStream>);

impl Connection {
    pub fn new(at: SocketAddr) -> Self {
        let stream = TcpStream::connect(at).expect("a connection");
        stream.set_nodelay(true).expect("no delay");
        Self(BufReader::new(stream))
    }

    /// Sends a request and reads the answer.
    pub fn ask(&mut self, request: &[u8]) -> Answer {
        let begun = Instant::now();
        self.0.get_mut().write_all(request).expect("sent");
        let (mut answer, mut length, mut line) = (
            Answer {
                status: 0,
                media: String::new(),
                body: Vec::new(),
                first: begun.elapsed(),
                time: Duration::ZERO,
            },
            0,
            String::new(),
        );
        loop {
            line.clear();
            assert!(self.0.read_line(&mut line).expect("a line") > 0, "the server closed the connection");
            let text = line.trim_end().to_ascii_lowercase();
            if let Some(rest) = text.strip_prefix("http/1.1 ") {
                answer.first = begun.elapsed();
                answer.status = rest[..3].parse().expect("a status");
            } else if let Some(value) = text.strip_prefix("content-length: ") {
                length = value.parse().expect("a length");
            } else if let Some(value) = text.strip_prefix("content-type: ") {
                answer.media = value.to_owned();
            } else if text.is_empty() {
                break;
            }
        }
        answer.body = vec![0; length];
        self.0.read_exact(&mut answer.body).expect("a body");
        answer.time = begun.elapsed();
        answer
    }
}

/// The answers of some clients.
#[derive(Default)]
pub struct Counts {
    pub statuses: BTreeMap<u16, usize>,
    /// The times of the good ones, sorted once they are summed.
    pub accepted: Vec<Duration>,
}

impl Counts {
    pub fn add(&mut self, answer: &Answer) {
        *self.statuses.entry(answer.status).or_default() += 1;
        if answer.status == 200 {
            self.accepted.push(answer.time);
        }
    }

    pub fn sum(all: impl IntoIterator<Item = Self>) -> Self {
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
    pub fn percentile(&self, share: f64) -> f64 {
        let last = self.accepted.len().saturating_sub(1) as f64;
        self.accepted.get((share * last).round() as usize).map_or(f64::NAN, |time| time.as_secs_f64() * 1e3)
    }

    pub fn report(&self, what: &str, time: Duration) {
        let rate = self.accepted.len() as f64 / time.as_secs_f64();
        let [half, most, worst] = [0.5, 0.99, 1.0].map(|share| self.percentile(share));
        println!(
            "{what}: {rate:.0} requests/s; {half:.2} ms p50, {most:.2} ms p99, {worst:.2} ms at most; {:?}",
            self.statuses
        );
    }
}

/// Lets some clients ask for a while, each with a pause between the beginnings of its requests, which may be none.
pub fn load(
    at: SocketAddr,
    clients: usize,
    time: Duration,
    pause: Duration,
    request: impl Fn(usize) -> Vec<u8> + Sync,
) -> Counts {
    let begun = Instant::now();
    let client = |client: usize| {
        let (mut connection, mut counts) = (Connection::new(at), Counts::default());
        // Clients do not begin at the same moment.
        let mut due = begun + pause.mul_f64(client as f64 / clients as f64);
        let mut nth = client;
        while begun.elapsed() < time {
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            counts.add(&connection.ask(&request(nth)));
            nth += clients;
            // A client that had to wait does not make up for it.
            due = (due + pause).max(Instant::now());
        }
        counts
    };
    std::thread::scope(|scope| {
        let client = &client;
        let all: Vec<_> = (0..clients)
            .map(|nth| {
                let thread = std::thread::Builder::new().stack_size(256 << 10);
                thread.spawn_scoped(scope, move || client(nth)).expect("the system gives threads")
            })
            .collect();
        Counts::sum(all.into_iter().map(|client| client.join().expect("a client")))
    })
}
