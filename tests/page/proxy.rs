//! A server between the page and Boxwork that answers late, or not, or that it is busy, when a test wants that.
//!
//! Invariant: a held request waits for its test and for no clock.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1 as client;
use hyper::server::conn::http1 as server;
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::oneshot;

/// What happens to a request that changes something.
pub enum Fate {
    /// It waits until the sender is used or dropped, and goes on.
    Held(oneshot::Receiver<()>),
    /// The answer is a problem of this status; the request does not go on.
    Refused(u16),
}

/// A proxy on loopback; it ends when it is dropped.
pub struct Proxy {
    _runtime: Runtime,
    address: SocketAddr,
    fates: Arc<Mutex<VecDeque<Fate>>>,
}

impl Proxy {
    /// Passes requests on to this port.
    pub fn start(port: u16) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime for the proxy");
        let fates = Arc::new(Mutex::new(VecDeque::new()));
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).expect("a free port");
        let address = listener.local_addr().expect("a bound socket has an address");
        let shared = Arc::clone(&fates);
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let fates = Arc::clone(&shared);
                let service = service_fn(move |request| pass(port, Arc::clone(&fates), request));
                tokio::spawn(server::Builder::new().serve_connection(TokioIo::new(stream), service));
            }
        });
        Self { _runtime: runtime, address, fates }
    }

    /// The address of the page behind it.
    pub fn address(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// The next request that changes something waits until the returned sender is used.
    pub fn hold(&self) -> oneshot::Sender<()> {
        let (release, held) = oneshot::channel();
        self.push(Fate::Held(held));
        release
    }

    /// The next request that changes something is answered with a problem.
    pub fn refuse(&self, status: u16) {
        self.push(Fate::Refused(status));
    }

    fn push(&self, fate: Fate) {
        self.fates.lock().expect("no test panics while it holds this").push_back(fate);
    }

    /// The number of fates that no request has met yet.
    pub fn is_idle(&self) -> bool {
        self.fates.lock().expect("no test panics while it holds this").is_empty()
    }
}

type Answer = Response<Full<Bytes>>;

async fn pass(
    port: u16,
    fates: Arc<Mutex<VecDeque<Fate>>>,
    request: Request<Incoming>,
) -> Result<Answer, Infallible> {
    let fate = match *request.method() {
        Method::GET => None,
        _ => fates.lock().expect("no test panics while it holds this").pop_front(),
    };
    match fate {
        Some(Fate::Held(held)) => {
            // A sender that is dropped releases the request, too.
            let _ = held.await;
        }
        Some(Fate::Refused(status)) => return Ok(problem(status)),
        None => {}
    }
    Ok(forward(port, request).await.unwrap_or_else(|_| problem(502)))
}

async fn forward(
    port: u16,
    request: Request<Incoming>,
) -> Result<Answer, Box<dyn std::error::Error + Send + Sync>> {
    let stream = TcpStream::connect(("127.0.0.1", port)).await?;
    let (mut sender, connection) = client::handshake(TokioIo::new(stream)).await?;
    let connection = tokio::spawn(connection);
    let (head, body) = request.into_parts();
    let body = Full::new(body.collect().await?.to_bytes());
    let (head, body) = sender.send_request(Request::from_parts(head, body)).await?.into_parts();
    let body = body.collect().await?.to_bytes();
    connection.abort();
    Ok(Response::from_parts(head, Full::new(body)))
}

/// An answer as the server's own are (RFC 9457).
fn problem(status: u16) -> Answer {
    let body = format!(
        "{{\"type\":\"/problems/made-up\",\"title\":\"Made up\",\"status\":{status},\"detail\":\"A test wants this.\"}}"
    );
    let answer = Response::builder().status(status).header("content-type", "application/problem+json");
    answer.header("retry-after", "1").body(Full::new(Bytes::from(body))).expect("a small answer")
}
