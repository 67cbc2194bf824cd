//! A backend without a store, and a client without a library.
#![allow(dead_code, reason = "each test uses some of it")]

#[path = "../../../tests/support/http.rs"]
pub mod http;
pub mod client;
pub mod fake;

use std::net::SocketAddr;
use std::sync::Arc;

use boxwork_server::{Bound, Config, Limits, Server};

pub use client::{get, post, request};
pub use fake::Fake;

/// A free port of the loopback.
pub fn local() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

/// Limits without a rate: all clients of a test have one address.
pub fn limits() -> Limits {
    Limits { rate: 0, thumbnail_rate: 0, ..Limits::default() }
}

/// A server over a backend, with these settings.
pub fn serving(backend: &Arc<Fake>, config: Config) -> Server {
    Bound::new(local())
        .unwrap()
        .serve(config, Arc::clone(backend) as Arc<dyn boxwork_server::Backend>)
        .unwrap()
}

/// A server over 40 objects.
pub fn started() -> (Server, Arc<Fake>) {
    let backend = Fake::new(40);
    (serving(&backend, Config { limits: limits(), ..Config::new(local()) }), backend)
}
