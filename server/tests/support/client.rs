//! An HTTP client: one connection a request.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

/// The longest wait for an answer: a test that waits longer has failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// An answer.
#[derive(Clone, Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("no JSON: {}", self.text()))
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (found, value) = line.split_once(':')?;
            found.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    /// The name of the problem.
    pub fn problem(&self) -> String {
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        let body = self.json();
        assert_eq!(body["status"], self.status);
        assert_eq!(body["instance"].as_str(), self.header("x-request-id"));
        body["type"].as_str().unwrap().strip_prefix("/problems/").unwrap().to_owned()
    }
}

pub fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Reads to the end of the connection; a reset after the answer counts as its end.
pub fn read(stream: &mut TcpStream) -> Vec<u8> {
    let mut all = Vec::new();
    let mut piece = [0; 4096];
    loop {
        match stream.read(&mut piece) {
            Ok(0) => return all,
            Ok(count) => all.extend_from_slice(&piece[..count]),
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return all,
            Err(error) => panic!("no answer: {error}"),
        }
    }
}

pub fn parse(all: &[u8]) -> Answer {
    let at = all.windows(4).position(|end| end == b"\r\n\r\n");
    let at = at.unwrap_or_else(|| panic!("no head: {}", String::from_utf8_lossy(all)));
    let head = String::from_utf8_lossy(&all[..at]).into_owned();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Answer { status, head, body: all[at + 4..].to_vec() }
}

/// Sends bytes as they are, and reads the answer.
pub fn raw(address: SocketAddr, bytes: &[u8]) -> Answer {
    let mut stream = connect(address);
    // A server that refuses early may close before all is sent.
    let _ = stream.write_all(bytes);
    parse(&read(&mut stream))
}

/// Sends a request. The writing side stays open, as closing it cancels the request.
pub fn request(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[&str],
    body: Option<&[u8]>,
) -> Answer {
    let mut head = format!("{method} {path} HTTP/1.1\r\n");
    if !headers.iter().any(|header| header.to_ascii_lowercase().starts_with("host:")) {
        head.push_str("Host: localhost\r\n");
    }
    for header in headers {
        head.push_str(header);
        head.push_str("\r\n");
    }
    if let Some(body) = body {
        head.push_str(&format!("Content-Length: {}\r\n", body.len()));
    }
    head.push_str("Connection: close\r\n\r\n");
    let mut stream = connect(address);
    let _ = stream.write_all(&[head.as_bytes(), body.unwrap_or_default()].concat());
    parse(&read(&mut stream))
}

pub fn get(address: SocketAddr, path: &str) -> Answer {
    request(address, "GET", path, &[], None)
}

pub fn post(address: SocketAddr, path: &str, body: &Value) -> Answer {
    send(address, "POST", path, body)
}

pub fn send(address: SocketAddr, method: &str, path: &str, body: &Value) -> Answer {
    let body = body.to_string();
    request(address, method, path, &["Content-Type: application/json"], Some(body.as_bytes()))
}
