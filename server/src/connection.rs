//! One connection: HTTP/1.1 with a time for each of its phases.
//!
//! A connection *rests* until a byte of a request comes, then *reads* the request's head, then *serves*. Invariants: a
//! resting connection is closed after the keep-alive time, a head that is not complete in its time gets 408, and a client
//! that takes no bytes of its answer for a while is cut off. While a connection serves, the handler measures the body's
//! time and the answer's.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Instant, Sleep};
use tower::ServiceExt as _;

use crate::guard::Client;
use crate::limits::Limits;
use crate::problem::{Kind, MEDIA_TYPE, Problem};

/// The longest time in which a client takes no byte of its answer.
const STALLED: Duration = Duration::from_secs(30);
/// The longest time, and the most bytes, for which a refused client's sending is read.
const DRAINED: Duration = Duration::from_millis(500);
const DRAINED_BYTES: usize = 256 << 10;
/// Headers of a request; with the bytes of the head this bounds them.
const HEADERS_MAX: usize = 100;

/// An answer to a client whose request is not read: written at once, so the client sees what fits its window.
pub fn unread(kind: Kind) -> Vec<u8> {
    let body = serde_json::to_string(&Problem::new(kind, kind.about).body("")).unwrap_or_default();
    let reason = StatusCode::from_u16(kind.status).ok().and_then(|status| status.canonical_reason());
    let (status, reason, length) = (kind.status, reason.unwrap_or_default(), body.len());
    let retry =
        kind.retry_seconds().map_or_else(String::new, |seconds| format!("retry-after: {seconds}\r\n"));
    format!(
        "HTTP/1.1 {status} {reason}\r\ncontent-type: {MEDIA_TYPE}\r\n{retry}connection: close\r\n\
         content-length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

/// How a connection is served.
#[derive(Clone, Debug)]
pub struct Manner {
    /// Time for a head.
    pub head: Duration,
    /// Time to rest between requests.
    pub keep_alive: Duration,
    /// Bytes of a head.
    pub head_bytes: usize,
    /// Whether a connection is closed after its first answer.
    pub once: bool,
}

impl Manner {
    /// The manner of these limits.
    pub fn of(limits: &Limits) -> Self {
        let Limits { head, keep_alive, head_bytes, .. } = *limits;
        Self { head, keep_alive, head_bytes, once: false }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Phase {
    Rests,
    Reads,
    Serves,
}

/// The phase of a connection, which its stream and its service share.
#[derive(Debug)]
struct Phases {
    phase: AtomicU8,
    /// Whether a head has begun and was not complete in its time.
    is_late: AtomicBool,
}

impl Phases {
    fn get(&self) -> Phase {
        match self.phase.load(Ordering::SeqCst) {
            0 => Phase::Rests,
            1 => Phase::Reads,
            _ => Phase::Serves,
        }
    }

    fn set(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::SeqCst);
    }
}

/// A stream whose reads and writes end in time.
struct Timed {
    stream: Arc<TcpStream>,
    phases: Arc<Phases>,
    manner: Manner,
    /// The end of the present phase, while a read waits.
    reading: Pin<Box<Sleep>>,
    /// The phase that `reading` is for.
    timed: Option<Phase>,
    writing: Pin<Box<Sleep>>,
    is_stalled: bool,
    /// Whether a byte has come.
    has_begun: bool,
}

impl Timed {
    fn limit(&self, phase: Phase) -> Option<Duration> {
        match phase {
            Phase::Rests => Some(self.manner.keep_alive),
            Phase::Reads => Some(self.manner.head),
            Phase::Serves => None,
        }
    }

    /// Whether the present phase has taken too long.
    fn poll_late(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let phase = self.phases.get();
        let Some(limit) = self.limit(phase) else {
            self.timed = None;
            return Poll::Pending;
        };
        if self.timed != Some(phase) {
            self.timed = Some(phase);
            self.reading.as_mut().reset(Instant::now() + limit);
        }
        self.reading.as_mut().poll(cx)
    }

    fn poll_stalled(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if !self.is_stalled {
            self.is_stalled = true;
            self.writing.as_mut().reset(Instant::now() + STALLED);
        }
        ready!(self.writing.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Timed {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            if self.stream.poll_read_ready(cx)?.is_pending() {
                ready!(self.poll_late(cx));
                // A connection on which nothing came is closed without a word.
                if self.has_begun && self.phases.get() == Phase::Reads {
                    self.phases.is_late.store(true, Ordering::SeqCst);
                }
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            match self.stream.try_read(buffer.initialize_unfilled()) {
                Ok(count) => {
                    buffer.advance(count);
                    self.has_begun |= count > 0;
                    if count > 0 && self.phases.get() == Phase::Rests {
                        self.phases.set(Phase::Reads);
                    }
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl AsyncWrite for Timed {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            if self.stream.poll_write_ready(cx)?.is_pending() {
                return self.poll_stalled(cx);
            }
            match self.stream.try_write(bytes) {
                Ok(count) => {
                    self.is_stalled = false;
                    // A connection rests from the last byte of its answer on.
                    self.timed = None;
                    return Poll::Ready(Ok(count));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Both ends of the stream close when it is dropped; what was written is sent before.
        Poll::Ready(Ok(()))
    }
}

/// Serves a connection to its end, or until `closing` becomes true.
pub async fn serve(
    stream: TcpStream,
    client: SocketAddr,
    router: Router,
    manner: Manner,
    mut closing: watch::Receiver<bool>,
) {
    // A failure costs a little delay only.
    let _ = stream.set_nodelay(true);
    let stream = Arc::new(stream);
    let phases =
        Arc::new(Phases { phase: AtomicU8::new(Phase::Reads as u8), is_late: AtomicBool::new(false) });
    let sleep = || Box::pin(tokio::time::sleep(manner.head));
    let timed = Timed {
        stream: Arc::clone(&stream),
        phases: Arc::clone(&phases),
        manner: manner.clone(),
        reading: sleep(),
        timed: None,
        writing: sleep(),
        is_stalled: false,
        has_begun: false,
    };
    let serving = Arc::clone(&phases);
    let service = service_fn(move |request: Request<Incoming>| {
        serving.set(Phase::Serves);
        let phases = Arc::clone(&serving);
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(Client(client));
        let answer = router.clone().oneshot(request);
        async move {
            let response = answer.await;
            phases.set(Phase::Rests);
            // While this request was served, reading waited without a time; a second look begins the rest's.
            wake().await;
            response.map_err(|never: Infallible| never)
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(None)
        .keep_alive(!manner.once)
        .half_close(manner.once)
        .max_buf_size(manner.head_bytes.max(8 << 10))
        .max_headers(HEADERS_MAX)
        .title_case_headers(manner.once)
        .serve_connection(TokioIo::new(timed), service);
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = until(&mut closing) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if phases.is_late.load(Ordering::SeqCst) {
        // The client gets what fits into its window; the connection is over in any case.
        let _ = stream.try_write(&unread(Kind::SLOW_BODY));
    }
    if ended.is_err() {
        // Late or not: the connection ends.
        let _ = tokio::time::timeout(DRAINED, drain(&stream)).await;
    }
}

/// Has this task polled once more.
fn wake() -> impl Future<Output = ()> {
    std::future::poll_fn(|cx| {
        cx.waker().wake_by_ref();
        Poll::Ready(())
    })
}

/// Reads what a refused client still sends, for a while: closing before would take the answer from it.
async fn drain(stream: &TcpStream) {
    let mut piece = [0; 4096];
    let mut left = DRAINED_BYTES;
    while left > 0 && stream.readable().await.is_ok() {
        match stream.try_read(&mut piece) {
            Ok(0) => return,
            Ok(count) => left = left.saturating_sub(count),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => return,
        }
    }
}

/// Waits until a flag is true, or the server is gone.
pub async fn until(flag: &mut watch::Receiver<bool>) {
    // The guard of the value must not live across the caller's awaits.
    let _ = flag.wait_for(|flag| *flag).await.map(drop);
}
