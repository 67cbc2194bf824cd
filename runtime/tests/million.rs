//! A million requests of one runtime leave nothing behind: no request, deadline, task, thread or memory.

mod support;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use boxwork_runtime::operator::*;
use boxwork_runtime::request::{RequestError, Submission};
use boxwork_runtime::{Config, Request, Runtime};
use support::*;

const REQUESTS: u64 = 1_000_000;
/// Requests under way at once.
const IN_FLIGHT: usize = 256;
/// The least leak in bytes a request that the test finds: an allocator's own memory varies by as much.
const LEAK_BYTES_MAX: u64 = 16;

static ALIVE: AtomicU64 = AtomicU64::new(0);
static MADE: AtomicU64 = AtomicU64::new(0);

/// Ends at once; each thousandth fails.
struct Short {
    number: u64,
}
impl Drop for Short {
    fn drop(&mut self) {
        ALIVE.fetch_sub(1, Ordering::Relaxed);
    }
}
impl Operator for Short {
    fn process(&mut self, _: &mut Context<'_>) -> Result<Flow, BoxError> {
        match self.number % 1000 {
            10 => Err(BoxError::new("one of a thousand")),
            _ => Ok(Flow::Done),
        }
    }
}
static SHORT: OperatorSpec = OperatorSpec::new("short", "ends at once", Kind::Stateful, |_| {
    ALIVE.fetch_add(1, Ordering::Relaxed);
    Ok(Box::new(Short { number: MADE.fetch_add(1, Ordering::Relaxed) }))
});

/// Memory of the process in use, in bytes, and its threads.
fn resident() -> Option<(u64, u64)> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    };
    Some((field("VmRSS:")? * 1024, field("Threads:")?))
}

fn is_as_expected(request: &Request) -> bool {
    let outcome = wait(request);
    match outcome.result {
        Ok(()) | Err(RequestError::Cancelled | RequestError::Failed { .. }) => true,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_million_requests_leave_nothing_behind() {
    let catalog = catalog().with(&SHORT);
    let short = Graph::new().add("one", "short", &[]).prepare_with(&catalog);
    let runtime = Runtime::start(Config::flat(2)).unwrap();
    let mut under_way: VecDeque<Request> = VecDeque::new();
    let mut before = None;
    for nth in 0..REQUESTS {
        if nth == REQUESTS / 10 {
            // By now everything that is kept for reuse exists.
            before = resident();
        }
        let deadline = (nth % 10 == 3).then(|| Instant::now() + Duration::from_secs(3600));
        // A budget makes the request count its bytes.
        let memory_bytes = (nth % 7 == 0).then_some(1 << 20);
        let submission = Submission { deadline, memory_bytes, ..Submission::default() };
        let request = runtime.submit(&short, &submission).unwrap();
        if nth % 500 == 77 {
            request.cancel();
        }
        under_way.push_back(request);
        if under_way.len() == IN_FLIGHT {
            assert!(under_way.pop_front().is_some_and(|oldest| is_as_expected(&oldest)));
        }
    }
    assert!(under_way.iter().all(is_as_expected));
    drop(under_way);
    assert_eq!(MADE.load(Ordering::Relaxed), REQUESTS);
    let statistics = runtime.statistics();
    assert_eq!((statistics.requests, statistics.deadlines), (0, 0));
    assert!(statistics.queued.iter().all(|queued| *queued == 0), "{:?}", statistics.queued);
    if let (Some((bytes_before, threads_before)), Some((bytes, threads))) = (before, resident()) {
        println!("{bytes_before} bytes and {threads_before} threads before, {bytes} and {threads} after");
        assert!(bytes < bytes_before + REQUESTS * LEAK_BYTES_MAX, "{bytes_before} grew to {bytes}");
        assert!(threads <= threads_before, "{threads_before} threads grew to {threads}");
    }
    // The last task of a request may still hold its model when the request is over.
    drop(runtime);
    assert_eq!(ALIVE.load(Ordering::Relaxed), 0, "operators live on");
}
