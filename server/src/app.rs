//! What all requests share.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::backend::{Answer, Backend, Refusal, Snapshot};
use crate::figures::Figures;
use crate::gate::{Gate, Rates};
use crate::limits::Limits;
use crate::log::Log;
use crate::pictures::Pictures;
use crate::problem::{Kind, Problem};
use crate::session::Journal;
use crate::sessions::Sessions;

/// How a server is started.
#[derive(Clone, Debug)]
pub struct Config {
    /// The address to listen on; port 0 is any free one.
    pub listen: SocketAddr,
    /// Names of this server beside those of the loopback, as a `Host` header gives them, without a port.
    pub hosts: Vec<String>,
    /// The token that clients need.
    pub token: Option<String>,
    /// The origin of another site whose pages may use this server.
    pub cors: Option<String>,
    /// Whether the original pictures are given.
    pub originals: bool,
    /// The folder of the sessions' logs; without it they are in memory.
    pub sessions: Option<PathBuf>,
    /// The bounds.
    pub limits: Limits,
    /// What it says.
    pub log: Log,
}

impl Config {
    /// The usual settings on an address.
    pub fn new(listen: SocketAddr) -> Self {
        Self {
            listen,
            hosts: Vec::new(),
            token: None,
            cors: None,
            originals: false,
            sessions: None,
            limits: Limits::default(),
            log: Log::none(),
        }
    }
}

/// What all requests share.
pub struct App {
    /// What computes.
    pub backend: Arc<dyn Backend>,
    /// The settings.
    pub config: Config,
    /// Places to compute.
    pub gate: Gate,
    /// Rates of clients.
    pub rates: Rates,
    /// The sessions.
    pub sessions: Arc<Sessions>,
    /// Searched pictures.
    pub pictures: Pictures,
    /// The counters.
    pub figures: Figures,
    stopping: AtomicBool,
    faults: AtomicU64,
}

impl std::fmt::Debug for App {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("App").field("config", &self.config).finish_non_exhaustive()
    }
}

impl App {
    /// What requests share under these settings.
    ///
    /// # Errors
    /// When the folder of the sessions cannot be used.
    pub fn new(backend: Arc<dyn Backend>, config: Config) -> io::Result<Self> {
        let journal = config.sessions.as_deref().map(Journal::open).transpose()?;
        let limits = &config.limits;
        let sessions = Sessions::new(journal, limits.clone(), config.log.clone())?;
        Ok(Self {
            backend,
            gate: Gate::new(limits),
            rates: Rates::new(limits),
            sessions: Arc::new(sessions),
            pictures: Pictures::new(limits.tokens, limits.token_idle),
            figures: Figures::default(),
            stopping: AtomicBool::new(false),
            faults: AtomicU64::new(0),
            config,
        })
    }

    /// The bounds.
    pub fn limits(&self) -> &Limits {
        &self.config.limits
    }

    /// From now on requests are refused.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
    }

    /// Whether the server stops.
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }

    /// A store as it is now.
    ///
    /// # Errors
    /// When there is none of this name.
    pub fn store(&self, name: &str) -> Result<Arc<dyn Snapshot>, Problem> {
        let none = || {
            let known = self.backend.stores().join("`, `");
            Problem::new(Kind::NOT_FOUND, format!("there is no store of this name; there are `{known}`"))
        };
        self.backend.snapshot(name).ok_or_else(none)
    }

    /// Computes an answer: waits for a place, and no longer than the deadline.
    ///
    /// # Errors
    /// When all places are taken, the deadline passes, or the backend refuses.
    pub async fn compute<T>(&self, answer: Answer<T>) -> Result<T, Problem> {
        let deadline = self.limits().deadline;
        let computed = tokio::time::timeout(deadline, async {
            let place = self.gate.enter().await?;
            let answer = answer.await.map_err(|refusal| self.refused(refusal));
            drop(place);
            answer
        });
        computed.await.unwrap_or_else(|_| {
            let detail = format!("there was no answer after {} seconds", deadline.as_secs_f64());
            Err(Problem::new(Kind::DEADLINE, detail))
        })
    }

    /// What a client sees of a refusal.
    pub fn refused(&self, refusal: Refusal) -> Problem {
        match refusal {
            Refusal::NotFound(detail) => Problem::new(Kind::NOT_FOUND, detail),
            Refusal::Invalid(detail) => Problem::new(Kind::VALUES, detail),
            Refusal::Unsupported(detail) => Problem::new(Kind::MEDIA, detail),
            Refusal::Undecodable(detail) => Problem::new(Kind::IMAGE, detail),
            Refusal::TooSlow(detail) => Problem::new(Kind::DEADLINE, detail),
            Refusal::Unavailable(detail) => Problem::new(Kind::RELOADING, detail),
            Refusal::Stale(detail) => Problem::new(Kind::STALE, detail),
            Refusal::Stopping => Problem::stopping(),
            Refusal::Internal(cause) => self.fault(&cause),
        }
    }

    /// A fault of the server: the log has the cause under a number, the client gets the number.
    pub fn fault(&self, cause: &str) -> Problem {
        let number = self.faults.fetch_add(1, Ordering::Relaxed) + 1;
        self.config.log.say(format_args!("fault {number}: {cause}"));
        Problem::new(Kind::INTERNAL, format!("the server failed: its log says why, under fault {number}"))
    }
}
