//! A client of a server that answers: what goes wrong fails the test.

use std::net::{SocketAddr, TcpStream};

use serde_json::Value;

pub use super::http::Answer;
use super::http::{asked, asked_raw, connected, read_to_end};

pub fn connect(address: SocketAddr) -> TcpStream {
    connected(address).expect("a connection")
}

pub fn read(stream: &mut TcpStream) -> Vec<u8> {
    read_to_end(stream).expect("the end of the connection")
}

pub fn parse(all: &[u8]) -> Answer {
    Answer::parse(all).expect("an answer")
}

pub fn raw(address: SocketAddr, bytes: &[u8]) -> Answer {
    asked_raw(address, bytes).expect("an answer")
}

pub fn request(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[&str],
    body: Option<&[u8]>,
) -> Answer {
    asked(address, method, path, headers, body).expect("an answer")
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
