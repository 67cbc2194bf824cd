//! B6: tasks that compute, sleep behind a device that serves so many at once, and may compute again.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crate::{Figures, Settings, figures, spin};

pub struct Job {
    pub tasks: usize,
    pub device: usize,
    pub block: Duration,
    before: u64,
    after: u64,
    busy: Mutex<usize>,
    freed: Condvar,
    computing: AtomicU64,
    peak: AtomicU64,
    sum: AtomicU64,
}

impl Job {
    pub fn new(settings: &Settings) -> Self {
        let scale = settings.number("scale");
        let compute_us = settings.number("compute_ms") * scale * 1e3;
        let is_again = settings.text("part") == "compute_block_compute";
        let before = settings.iterations(if is_again { compute_us / 2.0 } else { compute_us });
        Self {
            tasks: settings.count("tasks"),
            device: settings.count("device"),
            block: Duration::from_secs_f64(settings.number("block_ms") * scale / 1e3),
            before,
            after: if is_again { before } else { 0 },
            busy: Mutex::new(0),
            freed: Condvar::new(),
            computing: AtomicU64::new(0),
            peak: AtomicU64::new(0),
            sum: AtomicU64::new(0),
        }
    }

    fn compute(&self, iterations: u64) {
        if iterations > 0 {
            let now = self.computing.fetch_add(1, Ordering::Relaxed) + 1;
            self.peak.fetch_max(now, Ordering::Relaxed);
            self.sum.fetch_add(spin(iterations), Ordering::Relaxed);
            self.computing.fetch_sub(1, Ordering::Relaxed);
        }
    }

    pub fn before(&self) {
        self.compute(self.before);
    }

    pub fn after(&self) {
        self.compute(self.after);
    }

    /// Waits for the device and uses it, all on this thread.
    pub fn block(&self) {
        let mut busy = self.freed.wait_while(self.busy.lock().unwrap(), |busy| *busy == self.device).unwrap();
        *busy += 1;
        drop(busy);
        thread::sleep(self.block);
        *self.busy.lock().unwrap() -= 1;
        self.freed.notify_one();
    }

    pub fn measure(&self, all: impl FnOnce()) -> Figures {
        self.sum.store(0, Ordering::Relaxed);
        self.peak.store(0, Ordering::Relaxed);
        let start = Instant::now();
        all();
        let seconds = start.elapsed().as_secs_f64();
        let again = if self.after > 0 { spin(self.after) } else { 0 };
        assert_eq!(self.sum.load(Ordering::Relaxed), (spin(self.before) + again) * self.tasks as u64);
        figures([
            ("makespan_ms", seconds * 1e3),
            ("computing_peak", self.peak.load(Ordering::Relaxed) as f64),
        ])
    }
}
