//! The figures of a running request, for Prometheus and `boxwork top`: a page over HTTP.
//!
//! Invariants: the server listens only on this machine unless the user names another address; a client's behaviour
//! (garbage, silence, slow reading) costs the run one snapshot at most, and no thread of the run ever waits for a
//! client. `boxwork_server` has the HTTP: docs/decisions/080.

pub mod client;
mod format;
pub mod exposition;
pub mod samples;
#[cfg(test)]
mod tests;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use boxwork_runtime::Runtime;

pub use boxwork_server::server::FIGURES_CLIENTS_MAX as CLIENTS_MAX;
pub use boxwork_server::{Bound, Server};

/// The address of the page.
pub const PATH: &str = "/metrics";

/// An address as the user writes it: `9184`, `:9184`, `localhost:9184`, `127.0.0.1:9184`, or the page's whole URL.
///
/// # Errors
/// When it has another form; the message shows the right one.
pub fn parse_address(text: &str) -> Result<SocketAddr, String> {
    let bare = text.strip_prefix("http://").unwrap_or(text);
    let bare = bare.strip_suffix(PATH).unwrap_or(bare).trim_end_matches('/');
    let port = bare.strip_prefix("localhost:").or_else(|| bare.strip_prefix(':')).unwrap_or(bare);
    if let Ok(port) = port.parse() {
        return Ok(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port));
    }
    bare.parse().map_err(|_| format!("`{text}` is no address; one is 9184, 127.0.0.1:9184 or [::1]:9184"))
}

/// Serves the figures of a runtime until the server is dropped; it does not keep the runtime alive.
///
/// # Errors
/// When the system refuses a thread.
pub fn serve(bound: Bound, runtime: &Arc<Runtime>) -> std::io::Result<Server> {
    let runtime = Arc::downgrade(runtime);
    bound.serve_figures(PATH, move || {
        runtime
            .upgrade()
            .map_or_else(String::new, |runtime| exposition::page(&exposition::snapshot(&runtime)))
    })
}
