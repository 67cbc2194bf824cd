//! An HTTP client without a library: one connection a request.
#![allow(dead_code, reason = "each test uses its part")]

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value as Json;

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
    /// Parses what came on a connection.
    pub fn parse(all: &[u8]) -> io::Result<Self> {
        let none = || io::Error::other(format!("no answer: {}", String::from_utf8_lossy(all)));
        let at = all.windows(4).position(|end| end == b"\r\n\r\n").ok_or_else(none)?;
        let head = String::from_utf8_lossy(&all[..at]).into_owned();
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or_else(none)?;
        Ok(Self { status, head, body: all[at + 4..].to_vec() })
    }

    pub fn json(&self) -> Json {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("no JSON: {self:?}"))
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

    /// The name of the problem, whose other members fit the answer.
    pub fn problem(&self) -> String {
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        let body = self.json();
        assert_eq!(body["status"], self.status);
        assert_eq!(body["instance"].as_str(), self.header("x-request-id"));
        let name = body["type"].as_str().and_then(|kind| kind.strip_prefix("/problems/"));
        name.expect("a problem's address").to_owned()
    }
}

/// Opens a connection on which no wait is endless.
pub fn connected(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(stream)
}

/// Reads to the end of the connection; a reset after the answer counts as its end.
pub fn read_to_end(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut all = Vec::new();
    match stream.read_to_end(&mut all) {
        Err(error) if error.kind() != io::ErrorKind::ConnectionReset => Err(error),
        _ => Ok(all),
    }
}

/// Sends bytes as they are, and reads the answer. The writing side stays open, as closing it cancels the request.
pub fn asked_raw(address: SocketAddr, bytes: &[u8]) -> io::Result<Answer> {
    let mut stream = connected(address)?;
    // A server that refuses early may close before all is sent.
    let _ = stream.write_all(bytes);
    Answer::parse(&read_to_end(&mut stream)?)
}

/// One request on a connection of its own.
///
/// # Errors
/// When the server goes meanwhile.
pub fn asked(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[&str],
    body: Option<&[u8]>,
) -> io::Result<Answer> {
    let has_host = headers.iter().any(|header| header.to_ascii_lowercase().starts_with("host:"));
    let host = if has_host { "" } else { "Host: localhost\r\n" };
    let more: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
    let length = body.map_or_else(String::new, |body| format!("Content-Length: {}\r\n", body.len()));
    let head = format!("{method} {path} HTTP/1.1\r\n{host}{more}{length}Connection: close\r\n\r\n");
    asked_raw(address, &[head.as_bytes(), body.unwrap_or_default()].concat())
}
