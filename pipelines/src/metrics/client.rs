//! An HTTP client that reads one page; `boxwork top` does so each second.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use super::PATH;

/// The longest time for an answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// A page of ten thousand boxes takes a few MiB.
const PAGE_BYTES_MAX: u64 = 32 << 20;

/// There is no page.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No server answers, or the connection broke.
    #[error("{0}")]
    Connection(#[from] io::Error),
    /// Another program's server answers.
    #[error("the answer is not that of a run with --metrics: {0}")]
    Answer(String),
}

/// Gets the page at an address.
///
/// # Errors
/// When no server answers there, or another program's server does.
pub fn scrape(address: SocketAddr) -> Result<String, Error> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    write!(stream, "GET {PATH} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.take(PAGE_BYTES_MAX).read_to_end(&mut answer)?;
    let answer = String::from_utf8_lossy(&answer);
    let first = answer.lines().next().unwrap_or("nothing").chars().take(80).collect::<String>();
    match answer.split_once("\r\n\r\n") {
        Some((head, page)) if head.starts_with("HTTP/1.1 200 ") => Ok(page.to_owned()),
        _ => Err(Error::Answer(first)),
    }
}
