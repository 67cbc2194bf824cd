//! rayon: spawned tasks, and `join` for the recursion. Its blocking tasks hold their worker, as in any pool without
//! detaching.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use boxwork_peers::idle::{self, Pool};
use boxwork_peers::job::Job;
use boxwork_peers::nested::{self, Join};
use boxwork_peers::{Round, Settings, figures, grain, serve, spin};
use rayon::{Scope, ThreadPool, ThreadPoolBuilder};

struct Rayon(ThreadPool);

impl Pool for Rayon {
    fn spawn(&self, task: impl FnOnce() + Send + 'static) {
        self.0.spawn(task);
    }
}

fn main() {
    serve("rayon 1", |workload, settings| {
        let pool = ThreadPoolBuilder::new().num_threads(settings.workers()).build().expect("threads");
        match workload {
            "B1" => Some(chain(settings, pool)),
            "B3" => Some(recursion(settings, pool)),
            "B6" => Some(blocking(settings, pool)),
            "B7" => {
                let (settings, pool) = (Settings::read(), Rayon(pool));
                Some(Box::new(move || idle::measure(&settings, &pool)))
            }
            "B8" => Some(grains(pool)),
            _ => None,
        }
    });
}

/// Each task spawns the next.
fn chain(settings: &Settings, pool: ThreadPool) -> Round {
    fn hop<'a>(scope: &Scope<'a>, left: usize, arrived: &'a AtomicUsize) {
        arrived.fetch_add(1, Ordering::Relaxed);
        if left > 1 {
            scope.spawn(move |scope| hop(scope, left - 1, arrived));
        }
    }
    let hops = (settings.count("boxes") + 1) * settings.count("messages");
    Box::new(move || {
        let (arrived, start) = (AtomicUsize::new(0), Instant::now());
        pool.scope(|scope| hop(scope, hops, &arrived));
        let seconds = start.elapsed().as_secs_f64();
        assert_eq!(arrived.into_inner(), hops);
        figures([("hop_ns", seconds * 1e9 / hops as f64)])
    })
}

#[derive(Clone, Copy)]
struct Joined;

impl Join for Joined {
    fn join(self, a: impl FnOnce() -> u64 + Send, b: impl FnOnce() -> u64 + Send) -> (u64, u64) {
        rayon::join(a, b)
    }
}

fn recursion(settings: &Settings, pool: ThreadPool) -> Round {
    let is_fib = settings.text("part") == "fib";
    let (n, cutoff) = if is_fib { (settings.count("n"), settings.count("cutoff")) } else { (0, 0) };
    let leaves = if is_fib { 0 } else { settings.count("leaves") as u64 };
    let (n, cutoff) = (n as u64, cutoff as u64);
    let wanted = if is_fib { nested::fib_in_turn(n) } else { leaves * (leaves - 1) / 2 };
    Box::new(move || {
        let (sum, seconds) = pool.install(|| {
            let start = Instant::now();
            let sum =
                if is_fib { nested::fib(Joined, n, cutoff) } else { nested::skynet(Joined, 0, leaves) };
            (sum, start.elapsed().as_secs_f64())
        });
        assert_eq!(sum, wanted);
        figures([("nested_ms", seconds * 1e3)])
    })
}

fn blocking(settings: &Settings, pool: ThreadPool) -> Round {
    let job = Arc::new(Job::new(settings));
    let one = |job: &Job| {
        job.before();
        job.block();
        job.after();
    };
    Box::new(move || {
        let all = || pool.scope(|scope| (0..job.tasks).for_each(|_| scope.spawn(|_| one(&job))));
        job.measure(all)
    })
}

fn grains(pool: ThreadPool) -> Round {
    fn run(iterations: u64, tasks: usize) {
        let sum = AtomicU64::new(0);
        let add = || _ = sum.fetch_add(spin(iterations), Ordering::Relaxed);
        rayon::scope(|scope| (0..tasks).for_each(|_| scope.spawn(|_| add())));
        assert_eq!(sum.load(Ordering::Relaxed), spin(iterations) * tasks as u64);
    }
    let settings = Settings::read();
    // A worker spawns and times closures; tasks come from outside.
    let nested = settings.text("part") == "closures";
    Box::new(move || {
        if nested {
            return pool.install(|| grain::grains(&settings, run));
        }
        grain::grains(&settings, |iterations, tasks| pool.install(|| run(iterations, tasks)))
    })
}
