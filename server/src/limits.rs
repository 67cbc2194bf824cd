//! The bounds of the server, each a flag of `boxwork serve`.

use std::time::Duration;

/// The bounds of everything that a client can make grow.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Bytes of a JSON body.
    pub json_bytes: usize,
    /// Bytes of a picture.
    pub image_bytes: usize,
    /// Pixels of a picture.
    pub image_pixels: u64,
    /// Levels of nesting in JSON.
    pub nesting: usize,
    /// Bytes of a request's head.
    pub head_bytes: usize,
    /// Bytes of a request's address.
    pub address_bytes: usize,
    /// Connections at once.
    pub connections: usize,
    /// Requests that compute at once.
    pub computing: usize,
    /// Requests that wait to compute.
    pub waiting: usize,
    /// Requests a second that a client may send, thumbnails and assets left out; 0 is no limit.
    pub rate: u32,
    /// Requests that a client may send at once after a pause.
    pub burst: u32,
    /// Thumbnails and assets a second that a client may get, and at once after a pause.
    pub thumbnail_rate: u32,
    /// Time for a request's head.
    pub head: Duration,
    /// Time for a request's body.
    pub body: Duration,
    /// Time for an answer.
    pub deadline: Duration,
    /// Time that a connection may rest between requests.
    pub keep_alive: Duration,
    /// Time that requests under way get when the server stops.
    pub stop: Duration,
    /// The most objects of a search.
    pub k: usize,
    /// The most objects of a round.
    pub batch: usize,
    /// The most marks of a session.
    pub marks: usize,
    /// The most rounds of a session.
    pub rounds: usize,
    /// Sessions in memory.
    pub sessions: usize,
    /// Bytes of all sessions in memory.
    pub sessions_bytes: usize,
    /// Logs of sessions on disk.
    pub session_files: usize,
    /// Time without use after which a session without a log ends.
    pub session_idle: Duration,
    /// Searched pictures whose tokens are kept.
    pub tokens: usize,
    /// Time for which a token is kept.
    pub token_idle: Duration,
    /// Objects of one page of a list.
    pub page: usize,
    /// Objects of a ranking.
    pub ranking: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            json_bytes: 1 << 20,
            image_bytes: 20 << 20,
            image_pixels: 100_000_000,
            nesting: 16,
            head_bytes: 16 << 10,
            address_bytes: 8 << 10,
            connections: 1024,
            computing: 4,
            waiting: 64,
            rate: 50,
            burst: 100,
            thumbnail_rate: 500,
            head: Duration::from_secs(5),
            body: Duration::from_secs(30),
            deadline: Duration::from_secs(10),
            keep_alive: Duration::from_secs(75),
            stop: Duration::from_secs(10),
            k: 1000,
            batch: 100,
            marks: 1000,
            rounds: 1000,
            sessions: 1000,
            sessions_bytes: 256 << 20,
            session_files: 100_000,
            session_idle: Duration::from_secs(24 * 60 * 60),
            tokens: 256,
            token_idle: Duration::from_secs(60 * 60),
            page: 500,
            ranking: 1000,
        }
    }
}
