//! The server: one thread that accepts clients, and one for each of a few clients.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use super::request;

/// Clients served at once; further ones are refused.
pub(super) const CLIENTS_MAX: usize = 8;
/// Pause after a connection that could not be accepted (for example, no descriptor is left), so that the loop does not
/// spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// The longest time that the end waits for the accepting thread.
const STOP_PATIENCE: Duration = Duration::from_secs(1);

type Page = dyn Fn() -> String + Send + Sync;

/// An address that is bound but not served yet.
///
/// Bound before a run begins, so that a port in use is reported at once and not after an hour.
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
        let address = listener.local_addr()?;
        Ok(Self { listener, address })
    }

    /// The address, with the port that the system chose.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves this page from now on.
    ///
    /// # Errors
    /// When the system refuses a thread.
    pub fn serve(self, page: impl Fn() -> String + Send + Sync + 'static) -> io::Result<Server> {
        let stopping = Arc::new(AtomicBool::new(false));
        let accepting = Accepting {
            listener: self.listener,
            stopping: Arc::clone(&stopping),
            clients: Arc::new(AtomicUsize::new(0)),
            page: Arc::new(page),
        };
        let builder = std::thread::Builder::new().name("boxwork-metrics".to_owned());
        let thread = builder.spawn(move || accepting.run())?;
        Ok(Server { address: self.address, stopping, thread: Some(thread) })
    }
}

/// A running server. Dropping it ends it, without waiting for a client that is being served.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    stopping: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// The address that it serves.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::SeqCst);
        // A connection makes the accepting thread check the flag; if none can be made, the thread stays behind.
        let local = match self.address.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
            IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
            ip => ip,
        };
        let reached =
            TcpStream::connect_timeout(&SocketAddr::new(local, self.address.port()), STOP_PATIENCE).is_ok();
        if let Some(thread) = self.thread.take().filter(|_| reached) {
            let _ = thread.join();
        }
    }
}

struct Accepting {
    listener: TcpListener,
    stopping: Arc<AtomicBool>,
    clients: Arc<AtomicUsize>,
    page: Arc<Page>,
}

impl Accepting {
    fn run(&self) {
        for client in self.listener.incoming() {
            if self.stopping.load(Ordering::SeqCst) {
                return;
            }
            match client {
                Ok(client) => self.admit(client),
                Err(_) => std::thread::sleep(ACCEPT_PAUSE),
            }
        }
    }

    fn admit(&self, mut client: TcpStream) {
        let place = Place::take(&self.clients);
        let Some(place) = place else {
            let _ = request::turn_away(&mut client);
            return;
        };
        let page = Arc::clone(&self.page);
        let answer = move || {
            // A failure concerns only the client.
            let _ = request::answer(&mut client, &*page);
            drop(place);
        };
        // Without a thread the client finds its connection closed.
        let _ = std::thread::Builder::new().name("boxwork-metrics".to_owned()).spawn(answer);
    }
}

/// One client's place; it is free again when the client is served, or its thread could not start.
struct Place(Arc<AtomicUsize>);

impl Place {
    fn take(clients: &Arc<AtomicUsize>) -> Option<Self> {
        // Only the accepting thread takes places, so the count cannot rise in between.
        if clients.load(Ordering::SeqCst) >= CLIENTS_MAX {
            return None;
        }
        clients.fetch_add(1, Ordering::SeqCst);
        Some(Self(Arc::clone(clients)))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}
