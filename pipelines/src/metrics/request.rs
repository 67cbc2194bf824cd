//! One HTTP request, read and answered within a time and a size.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use super::PATH;

/// The longest time for one client.
const PATIENCE: Duration = Duration::from_secs(2);
/// The most bytes of a request's head; browsers send less.
const HEAD_BYTES_MAX: usize = 8 << 10;
/// The most bytes read from a refused client, so that it sees the refusal before the connection is reset.
const DRAINED_BYTES_MAX: usize = 256 << 10;

/// The content type of the text exposition format.
const EXPOSITION: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Reads one request and answers it. It makes the page only if the request asks for it.
pub(super) fn answer(stream: &mut TcpStream, page: &dyn Fn() -> String) -> io::Result<()> {
    let until = Instant::now() + PATIENCE;
    let refusal = match read_head(stream, until)? {
        Head::Whole(head) => match target(&head) {
            Ok((target, with_body)) if path_of(target) == PATH => {
                return send(stream, until, "200 OK", EXPOSITION, &page(), with_body);
            }
            Ok(_) => ("404 Not Found", "there is /metrics only\n"),
            Err(refusal) => refusal,
        },
        Head::Gone => return Ok(()),
        Head::TooLarge => ("431 Request Header Fields Too Large", "the request is too large\n"),
        Head::TooSlow => ("408 Request Timeout", "the request took too long\n"),
    };
    refuse(stream, until, refusal)?;
    drain(stream, until)
}

/// Sends an error response.
pub(super) fn refuse(stream: &mut TcpStream, until: Instant, (status, why): (&str, &str)) -> io::Result<()> {
    send(stream, until, status, "text/plain; charset=utf-8", why, true)
}

/// Refuses a client because too many are being served; nothing of its request is read.
pub(super) fn turn_away(stream: &mut TcpStream) -> io::Result<()> {
    // A few bytes into an empty buffer: the accepting thread does not wait for the client.
    let until = Instant::now() + Duration::from_millis(100);
    refuse(stream, until, ("503 Service Unavailable", "too many clients at once\n"))
}

enum Head {
    Whole(String),
    /// The client closed the connection before the end.
    Gone,
    TooLarge,
    TooSlow,
}

fn read_head(stream: &mut TcpStream, until: Instant) -> io::Result<Head> {
    let mut head = Vec::new();
    let mut piece = [0; 1024];
    loop {
        let Some(left) = left(until) else { return Ok(Head::TooSlow) };
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut piece) {
            Ok(0) => return Ok(Head::Gone),
            Ok(count) => head.extend_from_slice(&piece[..count]),
            Err(error) if is_timeout(&error) => return Ok(Head::TooSlow),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        if head.len() > HEAD_BYTES_MAX {
            return Ok(Head::TooLarge);
        }
        if head.windows(4).any(|end| end == b"\r\n\r\n") || head.windows(2).any(|end| end == b"\n\n") {
            return Ok(Head::Whole(String::from_utf8_lossy(&head).into_owned()));
        }
    }
}

/// The requested path, and whether the client wants the body.
fn target(head: &str) -> Result<(&str, bool), (&'static str, &'static str)> {
    let mut words = head.lines().next().unwrap_or_default().split(' ');
    match (words.next(), words.next(), words.next(), words.next()) {
        (Some(method), Some(target), Some("HTTP/1.1" | "HTTP/1.0"), None) => match method {
            "GET" => Ok((target, true)),
            "HEAD" => Ok((target, false)),
            _ => Err(("405 Method Not Allowed", "only GET is answered\n")),
        },
        _ => Err(("400 Bad Request", "this is no HTTP request\n")),
    }
}

/// The path of a target, without its query. Every server must also accept the whole address of a page, as clients send
/// it to a proxy (RFC 9112, section 3.2.2).
fn path_of(target: &str) -> &str {
    let target = target.split('?').next().unwrap_or_default();
    match target.split_once("://") {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => {
            rest.find('/').map_or("/", |start| &rest[start..])
        }
        _ => target,
    }
}

fn send(
    stream: &mut TcpStream,
    until: Instant,
    status: &str,
    kind: &str,
    body: &str,
    with_body: bool,
) -> io::Result<()> {
    let length = body.len();
    let mut answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    if with_body {
        answer.push_str(body);
    }
    let mut rest = answer.as_bytes();
    // Not `write_all`: a client that reads a byte now and then would hold its thread forever.
    while !rest.is_empty() {
        let left = left(until).ok_or(ErrorKind::TimedOut)?;
        stream.set_write_timeout(Some(left))?;
        match stream.write(rest) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(count) => rest = &rest[count..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    stream.shutdown(Shutdown::Write)
}

fn drain(stream: &mut TcpStream, until: Instant) -> io::Result<()> {
    let mut piece = [0; 4096];
    let mut drained = 0;
    while drained < DRAINED_BYTES_MAX {
        let Some(left) = left(until) else { break };
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut piece)? {
            0 => break,
            count => drained += count,
        }
    }
    Ok(())
}

/// The time left; a socket takes no timeout of zero.
fn left(until: Instant) -> Option<Duration> {
    let left = until.saturating_duration_since(Instant::now());
    (!left.is_zero()).then_some(left)
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}
