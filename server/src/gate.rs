//! Backpressure: how many requests compute, how many wait for that, and how fast each client may come.
//!
//! Invariant: one value is shared by all connections. A limit inside a layer of a router would be cloned with each
//! request and limit nothing.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::limits::Limits;
use crate::problem::{Kind, Problem};

/// Clients whose rates are known; the least busy ones are forgotten beyond it.
const CLIENTS_MAX: usize = 8192;

/// Places for requests that compute.
#[derive(Debug)]
pub struct Gate {
    /// Those who compute or wait.
    admitted: Arc<Semaphore>,
    /// Those who compute.
    computing: Arc<Semaphore>,
    places: usize,
    waiting: usize,
}

/// A place to compute, until it is dropped.
#[derive(Debug)]
pub struct Place {
    _admitted: OwnedSemaphorePermit,
    _computing: OwnedSemaphorePermit,
}

impl Gate {
    /// A gate with the limits' places.
    pub fn new(limits: &Limits) -> Self {
        Self {
            admitted: Arc::new(Semaphore::new(limits.computing + limits.waiting)),
            computing: Arc::new(Semaphore::new(limits.computing)),
            places: limits.computing,
            waiting: limits.waiting,
        }
    }

    /// Waits for a place.
    ///
    /// # Errors
    /// At once if as many wait already as may.
    pub async fn enter(&self) -> Result<Place, Problem> {
        let busy = || Problem::new(Kind::BUSY, "all places to compute are taken: try again in a second");
        let admitted = Arc::clone(&self.admitted).try_acquire_owned().map_err(|_| busy())?;
        let computing = Arc::clone(&self.computing).acquire_owned().await.map_err(|_| busy())?;
        Ok(Place { _admitted: admitted, _computing: computing })
    }

    /// The requests that compute, and those that wait.
    pub fn load(&self) -> (usize, usize) {
        let computing = self.places - self.computing.available_permits();
        let admitted = self.places + self.waiting - self.admitted.available_permits();
        (computing, admitted.saturating_sub(computing))
    }
}

/// What a request counts as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cost {
    /// One of the requests that a person causes.
    Request,
    /// A thumbnail or a file of the page: many at once are usual.
    Thumbnail,
}

/// Requests left, by cost, at a time.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    left: [f64; 2],
    at: Instant,
}

/// The rates of clients.
#[derive(Debug)]
pub struct Rates {
    clients: Mutex<HashMap<IpAddr, Bucket>>,
    rate: [f64; 2],
    burst: [f64; 2],
}

impl Rates {
    /// The limits' rates.
    pub fn new(limits: &Limits) -> Self {
        let thumbnails = f64::from(limits.thumbnail_rate);
        Self {
            clients: Mutex::default(),
            rate: [f64::from(limits.rate), thumbnails],
            burst: [f64::from(limits.burst.max(1)), thumbnails],
        }
    }

    /// Counts a request of a client.
    ///
    /// # Errors
    /// When the client sends too many; the error says when to come again.
    pub fn take(&self, client: IpAddr, cost: Cost, now: Instant) -> Result<(), Problem> {
        let idx = usize::from(cost == Cost::Thumbnail);
        if self.rate[idx] == 0.0 {
            return Ok(());
        }
        let mut clients = self.clients.lock();
        if clients.len() >= CLIENTS_MAX && !clients.contains_key(&key(client)) {
            self.forget(&mut clients, now);
        }
        let bucket = clients.entry(key(client)).or_insert(Bucket { left: self.burst, at: now });
        let elapsed = now.saturating_duration_since(bucket.at).as_secs_f64();
        bucket.at = now;
        for ((left, rate), burst) in bucket.left.iter_mut().zip(self.rate).zip(self.burst) {
            *left = (*left + elapsed * rate).min(burst);
        }
        if bucket.left[idx] >= 1.0 {
            bucket.left[idx] -= 1.0;
            return Ok(());
        }
        let seconds = ((1.0 - bucket.left[idx]) / self.rate[idx]).ceil().max(1.0);
        let detail = format!("this client sends more than {} requests a second", self.rate[idx]);
        Err(Problem { retry_seconds: Some(seconds as u64), ..Problem::new(Kind::RATE, detail) })
    }

    /// Makes room: clients that have rested lose nothing; if all are busy, some start anew.
    fn forget(&self, clients: &mut HashMap<IpAddr, Bucket>, now: Instant) {
        let rested = |bucket: &Bucket| now.saturating_duration_since(bucket.at).as_secs() > 10;
        clients.retain(|_, bucket| !rested(bucket));
        let excess = (clients.len() + CLIENTS_MAX / 8).saturating_sub(CLIENTS_MAX);
        let some: Vec<IpAddr> = clients.keys().take(excess).copied().collect();
        for client in &some {
            clients.remove(client);
        }
    }
}

/// An address of IPv6 counts by its network of 64 bits, as a client has all of one.
fn key(client: IpAddr) -> IpAddr {
    match client.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6((u128::from(address) >> 64 << 64).into()),
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn those_beyond_the_queue_are_refused_at_once() {
        let limits = Limits { computing: 2, waiting: 1, ..Limits::default() };
        let gate = Arc::new(Gate::new(&limits));
        let places = [gate.enter().await.unwrap(), gate.enter().await.unwrap()];
        let mut waiting = Box::pin(gate.enter());
        assert!(futures_pending(&mut waiting).await);
        assert_eq!(gate.load(), (2, 1));
        assert_eq!(gate.enter().await.unwrap_err().kind, Kind::BUSY);
        drop(places);
        waiting.await.unwrap();
        assert_eq!(gate.load(), (0, 0));
    }

    /// Whether a future is not ready yet.
    async fn futures_pending<F: Future + Unpin>(future: &mut F) -> bool {
        std::future::poll_fn(|cx| {
            std::task::Poll::Ready(std::pin::Pin::new(&mut *future).poll(cx).is_pending())
        })
        .await
    }

    #[test]
    fn a_client_may_burst_and_then_keeps_its_rate() {
        let rates = Rates::new(&Limits { rate: 2, burst: 3, thumbnail_rate: 5, ..Limits::default() });
        let [one, other] = [1, 2].map(|last| IpAddr::V4(Ipv4Addr::new(10, 0, 0, last)));
        let now = Instant::now();
        let taken = |client, cost, at| (0..9).filter(|_| rates.take(client, cost, at).is_ok()).count();
        assert_eq!(taken(one, Cost::Request, now), 3);
        assert_eq!(taken(one, Cost::Thumbnail, now), 5);
        assert_eq!(taken(other, Cost::Request, now), 3);
        let error = rates.take(one, Cost::Request, now).unwrap_err();
        assert_eq!((error.kind, error.retry_seconds), (Kind::RATE, Some(1)));
        assert_eq!(taken(one, Cost::Request, now + Duration::from_secs(1)), 2);
        let unlimited = Rates::new(&Limits { rate: 0, ..Limits::default() });
        assert!((0..1000).all(|_| unlimited.take(one, Cost::Request, now).is_ok()));
    }

    #[test]
    fn the_clients_that_are_known_are_bounded() {
        let rates = Rates::new(&Limits::default());
        let now = Instant::now();
        for client in 0..3 * CLIENTS_MAX as u32 {
            rates.take(IpAddr::V4(client.into()), Cost::Request, now).unwrap();
        }
        assert!(rates.clients.lock().len() <= CLIENTS_MAX);
    }
}
