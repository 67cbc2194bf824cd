//! Memory of this process without a file behind it, sampled while something runs.

use std::fs;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// Bytes of anonymous memory that are resident now: `RssAnon` of `/proc/self/status`.
pub fn anonymous_bytes() -> usize {
    let status = fs::read_to_string("/proc/self/status").expect("Linux has /proc/self/status");
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("Linux 4.5 or newer");
    let kilobytes: usize = line.trim().trim_end_matches(" kB").parse().expect("a number of kB");
    kilobytes << 10
}

/// Runs some work and returns the most anonymous memory that was resident meanwhile.
pub fn anonymous_bytes_max<R>(work: impl FnOnce() -> R) -> (R, usize) {
    /// Pause between two samples.
    const PAUSE: Duration = Duration::from_millis(2);
    let (most, ended) = (AtomicUsize::new(anonymous_bytes()), AtomicBool::new(false));
    let result = thread::scope(|scope| {
        scope.spawn(|| {
            while !ended.load(Ordering::Relaxed) {
                most.fetch_max(anonymous_bytes(), Ordering::Relaxed);
                thread::sleep(PAUSE);
            }
        });
        let result = work();
        most.fetch_max(anonymous_bytes(), Ordering::Relaxed);
        ended.store(true, Ordering::Relaxed);
        result
    });
    (result, most.into_inner())
}

/// Bytes in MB, a million each.
pub fn megabytes(bytes: usize) -> f64 {
    bytes as f64 / 1e6
}
