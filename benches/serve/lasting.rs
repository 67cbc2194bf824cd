//! `what=sessions`, `what=cut`: what a server keeps after sessions have ended and requests were cut off.

use std::io::Write as _;
use std::net::TcpStream;
use std::time::Duration;

use super::client::{Connection, Counts, delete, get, post};
use super::quick::search_of;
use super::support::memory::{anonymous_bytes, megabytes};
use super::support::{Arguments, verdict};
use super::world::World;

/// Memory that may differ afterwards: what allocators and caches keep.
const MORE_MB: f64 = 16.0;
const CLIENTS: usize = 4;

/// The memory, threads and descriptors of the process.
#[derive(Clone, Copy, Debug)]
struct Held {
    megabytes: f64,
    threads: usize,
    descriptors: usize,
}

fn entries(folder: &str) -> usize {
    std::fs::read_dir(folder).expect("Linux has /proc").count()
}

fn held() -> Held {
    Held {
        megabytes: megabytes(anonymous_bytes()),
        threads: entries("/proc/self/task"),
        descriptors: entries("/proc/self/fd"),
    }
}

/// The memory, threads and descriptors once the server has let go of connections that have ended.
fn settled(before: Held) -> Held {
    for _ in 0..2000 {
        let now = held();
        if now.descriptors <= before.descriptors && now.threads <= before.threads {
            return now;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    held()
}

fn judge(before: Held, after: Held) {
    println!("before {before:?}\nafter  {after:?}");
    let flat = after.threads <= before.threads && after.descriptors <= before.descriptors;
    let more = after.megabytes - before.megabytes;
    verdict(
        "more memory afterwards, MB; threads and descriptors as before",
        more,
        MORE_MB,
        flat && more <= MORE_MB,
    );
}

/// Begins and ends sessions, after a tenth of them have warmed the server.
pub fn sessions(world: &World, arguments: &Arguments) {
    let count: usize = arguments.get("sessions", 10_000);
    println!("question    what is left of {count} sessions?");
    let at = world.at();
    let client = |share: usize| {
        let (mut connection, mut counts) = (Connection::new(at), Counts::default());
        for _ in 0..share {
            let begun = connection.ask(&post("/v1/stores/objects/sessions", "{\"batch\":1}"));
            assert_eq!(begun.status, 201, "{}", String::from_utf8_lossy(&begun.body));
            let path = format!("/v1/sessions/{}", begun.json()["session"].as_str().expect("a name"));
            assert_eq!(connection.ask(&get(&path)).status, 200);
            counts.add(&begun);
            assert_eq!(connection.ask(&delete(&path)).status, 204);
        }
    };
    let all = |count: usize| {
        std::thread::scope(|scope| {
            for _ in 0..CLIENTS {
                scope.spawn(|| client(count / CLIENTS));
            }
        });
    };
    all(count / 10);
    let before = held();
    let begun = std::time::Instant::now();
    all(count);
    println!("{:.0} sessions/s", count as f64 / begun.elapsed().as_secs_f64());
    judge(before, settled(before));
}

/// Asks, and every tenth time goes before the answer, in the middle of a body or of a head.
pub fn cut(world: &World, arguments: &Arguments) {
    let count: usize = arguments.get("requests", 20_000);
    println!("question    what is left of {count} requests of which a tenth is cut off?");
    let at = world.at();
    let client = |first: usize, share: usize| {
        let mut connection = Connection::new(at);
        for nth in first..first + share {
            let request = match nth % 3 {
                0 => get("/v1/stores/objects/objects?limit=5"),
                1 => get("/v1/stores/objects/objects/1/thumbnail?size=96"),
                _ => get("/healthz"),
            };
            if nth % 10 != 9 {
                assert_eq!(connection.ask(&request).status, 200);
                continue;
            }
            let search = search_of(world.objects(), nth);
            let length = [request.len() / 2, search.len() - 5, search.len()][nth / 10 % 3];
            let mut other = TcpStream::connect(at).expect("a connection");
            other
                .write_all(if nth / 10 % 3 == 0 { &request[..length] } else { &search[..length] })
                .expect("sent");
        }
    };
    let all = |count: usize| {
        std::thread::scope(|scope| {
            for nth in 0..CLIENTS {
                scope.spawn(move || client(nth, count / CLIENTS));
            }
        });
    };
    let cold = held();
    all(count / 10);
    let before = settled(cold);
    let begun = std::time::Instant::now();
    all(count);
    println!("{:.0} requests/s", count as f64 / begun.elapsed().as_secs_f64());
    judge(before, settled(before));
}
