//! B7: processor time at rest, waking, and work from outside threads, for anything that runs closures.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::{Figures, Settings, figures, quantile_us};

/// Runs closures on its own threads.
pub trait Pool: Sync {
    fn spawn(&self, task: impl FnOnce() + Send + 'static);
}

pub fn measure(settings: &Settings, pool: &impl Pool) -> Figures {
    match settings.text("part") {
        "rest" => rest(pool, settings.number("seconds"), settings.number("period_ms")),
        "wake" => wake(pool, settings.count("times"), settings.number("pause_ms")),
        _ => inject(pool, settings.count("requests"), settings.count("threads")),
    }
}

fn rest(pool: &impl Pool, seconds: f64, period_ms: f64) -> Figures {
    let (start, before) = (Instant::now(), spent_ns());
    while start.elapsed().as_secs_f64() < seconds {
        if period_ms == 0.0 {
            thread::sleep(Duration::from_secs_f64(seconds));
        } else {
            pool.spawn(|| {});
            thread::sleep(Duration::from_secs_f64(period_ms / 1e3));
        }
    }
    let (passed, after) = (start.elapsed().as_secs_f64(), spent_ns());
    let spent: u64 = after.iter().map(|(thread, now)| now - before.get(thread).unwrap_or(&0)).sum();
    figures([("processor_percent", spent as f64 / 1e7 / passed)])
}

/// The processor time of all threads but this one.
fn spent_ns() -> BTreeMap<String, u64> {
    let own = fs::read_link("/proc/thread-self").expect("Linux");
    let threads = fs::read_dir("/proc/self/task").expect("Linux").flatten();
    let others = threads.filter(|entry| own.file_name() != Some(&entry.file_name()));
    let spent = others.filter_map(|entry| {
        let text = fs::read_to_string(entry.path().join("schedstat")).ok()?;
        Some((entry.file_name().into_string().ok()?, text.split(' ').next()?.parse().ok()?))
    });
    spent.collect()
}

fn wake(pool: &impl Pool, times: usize, pause_ms: f64) -> Figures {
    let origin = Instant::now();
    let mut latencies_ns = Vec::new();
    for _ in 0..times {
        thread::sleep(Duration::from_secs_f64(pause_ms / 1e3));
        let (fired_ns, submitter) = (Arc::new(AtomicU64::new(0)), thread::current());
        let start_ns = origin.elapsed().as_nanos() as u64;
        let told = Arc::clone(&fired_ns);
        pool.spawn(move || {
            told.store(origin.elapsed().as_nanos() as u64, Ordering::Release);
            submitter.unpark();
        });
        while fired_ns.load(Ordering::Acquire) == 0 {
            thread::park();
        }
        latencies_ns.push(fired_ns.load(Ordering::Acquire) - start_ns);
    }
    figures([
        ("wake_p50_us", quantile_us(&mut latencies_ns, 0.5)),
        ("wake_p99_us", quantile_us(&mut latencies_ns, 0.99)),
    ])
}

fn inject(pool: &impl Pool, requests: usize, threads: usize) -> Figures {
    let each = requests.div_ceil(threads);
    let left = Arc::new(AtomicUsize::new(each * threads));
    let (start, waiter) = (Instant::now(), thread::current());
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                for _ in 0..each {
                    let (left, waiter) = (Arc::clone(&left), waiter.clone());
                    pool.spawn(move || {
                        if left.fetch_sub(1, Ordering::AcqRel) == 1 {
                            waiter.unpark();
                        }
                    });
                }
            });
        }
    });
    while left.load(Ordering::Acquire) > 0 {
        thread::park();
    }
    let (seconds, count) = (start.elapsed().as_secs_f64(), (each * threads) as f64);
    figures([("request_ns", seconds * 1e9 / count), ("requests_per_s", count / seconds)])
}
