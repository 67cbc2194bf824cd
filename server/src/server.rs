//! The server: its address, its threads, and its end.
//!
//! Invariants: the address is bound before anything else, so a port in use is reported at once; the server ends when it is
//! dropped, and then no thread of it is left; connections are counted where they are accepted.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::body::Body;
use axum::extract::DefaultBodyLimit;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE, HOST};
use axum::http::{HeaderMap, Request, Response, StatusCode};
use axum::response::IntoResponse as _;
use axum::routing::{get, post};
use axum::{Router, middleware};
use http_body_util::BodyExt as _;
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tower::ServiceExt as _;
use tower_http::catch_panic::CatchPanicLayer;

use crate::answer::content;
use crate::api::{health, plain, search, sessions, stores};
use crate::app::{App, Config};
use crate::backend::Backend;
use crate::connection::{self, Manner};
use crate::figures::MEDIA_TYPE;
use crate::guard::guard;
use crate::limits::Limits;
use crate::problem::{Kind, Problem};
use crate::{openapi, page};

/// Threads that read and write connections.
const IO_THREADS: usize = 2;
/// Threads that wait for the disk: logs of sessions.
const DISK_THREADS: usize = 16;
/// Pause after a connection that could not be accepted, so that the loop does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// The time that connections get to write their last bytes when the server ends.
const FLUSH: Duration = Duration::from_secs(1);

/// An address that is bound but not served yet.
#[derive(Debug)]
pub struct Bound {
    listener: TcpListener,
    address: SocketAddr,
}

impl Bound {
    /// Binds an address; port 0 is any free one.
    ///
    /// # Errors
    /// When the address is in use, or is not of this machine.
    pub fn new(address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        Ok(Self { listener, address })
    }

    /// The address, with the port that the system chose.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves a backend from now on.
    ///
    /// # Errors
    /// When the system refuses a thread, or the folder of the sessions cannot be used.
    pub fn serve(self, config: Config, backend: Arc<dyn Backend>) -> io::Result<Server> {
        let app = Arc::new(App::new(backend, config)?);
        let manner = Manner::of(app.limits());
        let connections = app.limits().connections;
        let mut server = self.start("boxwork-http", router(&app), manner, connections, Some(&app))?;
        server.app = Some(app);
        Ok(server)
    }

    /// Serves one page of figures from now on, to few clients, one request a connection.
    ///
    /// # Errors
    /// When the system refuses a thread.
    pub fn serve_figures(
        self,
        path: &str,
        page: impl Fn() -> String + Send + Sync + 'static,
    ) -> io::Result<Server> {
        let page = Arc::new(page);
        let answer = move || {
            let page = Arc::clone(&page);
            async move { content(MEDIA_TYPE, page()) }
        };
        let missing = format!("there is {path} only\n");
        let router = Router::new()
            .route(path, get(answer))
            .method_not_allowed_fallback(|| async {
                plainly(StatusCode::METHOD_NOT_ALLOWED, "only GET is answered\n")
            })
            .fallback(move || async move { plainly(StatusCode::NOT_FOUND, missing) });
        let patience = Duration::from_secs(2);
        let manner = Manner { head: patience, keep_alive: patience, head_bytes: 8 << 10, once: true };
        self.start("boxwork-metrics", router, manner, FIGURES_CLIENTS_MAX, None)
    }

    fn start(
        self,
        name: &str,
        router: Router,
        manner: Manner,
        connections_max: usize,
        app: Option<&Arc<App>>,
    ) -> io::Result<Server> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(if app.is_some() { IO_THREADS } else { 1 })
            .max_blocking_threads(DISK_THREADS)
            .thread_name(name)
            .enable_io()
            .enable_time()
            .build()?;
        let (stopping, stopped) = watch::channel(false);
        let (closing, closed) = watch::channel(false);
        let listener = {
            let _within = runtime.enter();
            tokio::net::TcpListener::from_std(self.listener)?
        };
        let open = Arc::new(AtomicUsize::new(0));
        let accepting = Accepting {
            listener,
            router,
            manner,
            connections_max,
            open: Arc::clone(&open),
            closed,
            app: app.cloned(),
        };
        runtime.spawn(accepting.run(stopped));
        Ok(Server { address: self.address, runtime: Some(runtime), stopping, closing, open, app: None })
    }
}

/// Clients of a page of figures that are served at once.
pub const FIGURES_CLIENTS_MAX: usize = 8;

fn plainly(status: StatusCode, text: impl Into<Body>) -> Response<Body> {
    let mut response = content("text/plain; charset=utf-8", text);
    *response.status_mut() = status;
    response
}

/// A running server. Dropping it ends it at once; [`Server::stop`] lets requests end.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    runtime: Option<Runtime>,
    stopping: watch::Sender<bool>,
    closing: watch::Sender<bool>,
    open: Arc<AtomicUsize>,
    app: Option<Arc<App>>,
}

impl Server {
    /// The address that it serves.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What its requests share, if it serves a backend.
    pub fn app(&self) -> Option<&Arc<App>> {
        self.app.as_ref()
    }

    /// Ends it: takes no connections any more, answers new requests with 503, lets those under way end for a while, and
    /// then cancels them. Returns whether all ended by themselves.
    pub fn stop(mut self) -> bool {
        let limit = self.app.as_ref().map_or(FLUSH, |app| app.limits().stop);
        if let Some(app) = &self.app {
            app.stop();
        }
        self.stopping.send_replace(true);
        let (closing, open, app) = (self.closing.clone(), Arc::clone(&self.open), self.app.clone());
        let all_ended = self.runtime.as_ref().is_none_or(|runtime| {
            runtime.block_on(async move {
                let idle =
                    || app.as_ref().is_none_or(|app| app.figures.in_flight.load(Ordering::SeqCst) == 0);
                let ended = wait(limit, idle).await;
                closing.send_replace(true);
                // Answers that are ready are still written.
                wait(FLUSH, || open.load(Ordering::SeqCst) == 0).await;
                ended
            })
        });
        self.end();
        all_ended
    }

    fn end(&mut self) {
        self.stopping.send_replace(true);
        self.closing.send_replace(true);
        if let Some(runtime) = self.runtime.take() {
            // Logs that are being written are written: that is bounded by the disk.
            runtime.shutdown_timeout(Duration::from_secs(5));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

/// Waits until something is so, but not longer than this.
async fn wait(limit: Duration, is_so: impl Fn() -> bool) -> bool {
    let until = tokio::time::Instant::now() + limit;
    while !is_so() {
        if tokio::time::Instant::now() >= until {
            return false;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    true
}

struct Accepting {
    listener: tokio::net::TcpListener,
    router: Router,
    manner: Manner,
    connections_max: usize,
    open: Arc<AtomicUsize>,
    closed: watch::Receiver<bool>,
    app: Option<Arc<App>>,
}

/// A connection that is counted until it is dropped.
struct Counted(Arc<AtomicUsize>, Option<Arc<App>>);

impl Counted {
    fn new(open: &Arc<AtomicUsize>, app: Option<&Arc<App>>) -> Self {
        open.fetch_add(1, Ordering::SeqCst);
        if let Some(app) = app {
            app.figures.connections.fetch_add(1, Ordering::Relaxed);
        }
        Self(Arc::clone(open), app.cloned())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
        if let Some(app) = &self.1 {
            app.figures.connections.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Accepting {
    async fn run(self, mut stopped: watch::Receiver<bool>) {
        loop {
            let accepted = tokio::select! {
                accepted = self.listener.accept() => accepted,
                () = connection::until(&mut stopped) => return,
            };
            match accepted {
                Ok((stream, client)) => self.admit(stream, client),
                Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
            }
        }
    }

    fn admit(&self, stream: tokio::net::TcpStream, client: SocketAddr) {
        // Only this task adds connections, so the count cannot rise in between.
        if self.open.load(Ordering::SeqCst) >= self.connections_max {
            if let Some(app) = &self.app {
                app.figures.refused_connections.fetch_add(1, Ordering::Relaxed);
            }
            // A few bytes into an empty buffer; a stream that is not known to be writable yet refuses them.
            let _ = stream
                .into_std()
                .and_then(|mut stream| io::Write::write(&mut stream, &connection::unread(Kind::BUSY)));
            return;
        }
        let counted = Counted::new(&self.open, self.app.as_ref());
        let (router, manner, closed) = (self.router.clone(), self.manner.clone(), self.closed.clone());
        tokio::spawn(async move {
            connection::serve(stream, client, router, manner, closed).await;
            drop(counted);
        });
    }
}

/// All routes over what requests share.
pub fn router(app: &Arc<App>) -> Router {
    let fallback = || async { Problem::new(Kind::NOT_FOUND, "nothing has this address").into_response() };
    let method = || async { Problem::new(Kind::METHOD, "this address takes other methods").into_response() };
    let of_stores = Router::new()
        .route("/v1/stores", get(stores::list))
        .route("/v1/stores/{store}", get(stores::one))
        .route("/v1/stores/{store}/reload", post(stores::reload))
        .route("/v1/stores/{store}/objects", get(stores::objects))
        .route("/v1/stores/{store}/objects/{id}", get(stores::one_object))
        .route("/v1/stores/{store}/objects/{id}/thumbnail", get(stores::thumbnail))
        .route("/v1/stores/{store}/objects/{id}/image", get(stores::image))
        .route("/v1/stores/{store}/search", post(search::search))
        .route("/v1/stores/{store}/sessions", post(sessions::create));
    let of_sessions = Router::new()
        .route("/v1/sessions/{session}", get(sessions::get).delete(sessions::end).patch(sessions::change))
        .route("/v1/sessions/{session}/rounds", post(sessions::mark))
        .route("/v1/sessions/{session}/rounds/{round}", get(sessions::round))
        .route("/v1/sessions/{session}/undo", post(sessions::undo))
        .route("/v1/sessions/{session}/redo", post(sessions::redo))
        .route("/v1/sessions/{session}/ranking", get(sessions::ranking))
        .route("/v1/sessions/{session}/log", get(sessions::log))
        .route("/v1/sessions/{session}/objects/{id}/why", get(sessions::why));
    Router::new()
        .route("/", get(page::index))
        .route("/assets/{name}", get(page::asset))
        .route("/problems/{name}", get(page::about))
        .route("/plain", get(plain::plain))
        .route("/healthz", get(health::lives))
        .route("/readyz", get(health::ready))
        .route("/metrics", get(health::figures))
        .route("/v1/openapi.json", get(openapi::document))
        .merge(of_stores)
        .merge(of_sessions)
        .fallback(fallback)
        .method_not_allowed_fallback(method)
        .layer(DefaultBodyLimit::disable())
        .layer(CatchPanicLayer::custom(panicked))
        .layer(middleware::from_fn_with_state(Arc::clone(app), guard))
        .with_state(Arc::clone(app))
}

/// Answers one request without a connection: status, headers and body; nothing if it is no request at all. For tests.
pub async fn answered(
    app: &Arc<App>,
    method: &str,
    path: &str,
    host: &str,
    media_type: &str,
    body: Vec<u8>,
) -> Option<(u16, HeaderMap, Vec<u8>)> {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(HOST, host)
        .header(CONTENT_TYPE, media_type)
        .header(CONTENT_LENGTH, body.len())
        .body(Body::from(body))
        .ok()?;
    let Ok(response) = router(app).oneshot(request).await;
    let (head, body) = response.into_parts();
    let body = body.collect().await.ok()?.to_bytes().to_vec();
    Some((head.status.as_u16(), head.headers, body))
}

/// A handler panicked: its client learns that, and no other.
fn panicked(_: Box<dyn std::any::Any + Send>) -> Response<Body> {
    Problem::new(Kind::INTERNAL, "the server failed in this request; other requests are unharmed")
        .into_response()
}

/// The limits as a person sees them who starts a server.
impl Limits {
    /// Places to compute on this many slots: two each, so that one request computes while another begins or ends.
    #[must_use]
    pub fn on_slots(self, slots: usize) -> Self {
        Self { computing: 2 * slots.max(1), ..self }
    }
}
