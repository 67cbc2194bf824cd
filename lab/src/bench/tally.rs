//! Counters that the boxes of a workload write: arrivals and their times, the sum of the results, concurrent tasks.
//!
//! A resource, so that all boxes of a prepared pipeline share it. Boxes add to it when they end, not at each firing, so
//! that counting costs nothing in the measurement.

use std::any::Any;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Instant;

use boxwork_runtime::operator::{Bind, BoxError, Resource, ResourceSpec};
use boxwork_runtime::prepare::Prepared;

use super::spin::{SEED, spin};

/// The resource's name and kind.
pub const TALLY: &str = "tally";

pub static TALLY_SPEC: ResourceSpec = ResourceSpec {
    name: TALLY,
    about: "The counters of a workload's boxes.",
    parameters: &[],
    example: "",
    provides: None,
    check: None,
    load: |_| Ok(Arc::new(Tally::new()) as Resource),
};

/// Counters of one run; the host resets them between runs.
#[derive(Debug)]
pub struct Tally {
    origin: Instant,
    arrived: AtomicU64,
    checksum: AtomicU64,
    computing: AtomicU64,
    computing_peak: AtomicU64,
    first_ns: AtomicU64,
    last_ns: AtomicU64,
    latencies_ns: Mutex<Vec<u64>>,
    /// Operations on the device, and a signal at the end of each.
    device: (Mutex<usize>, Condvar),
}

impl Tally {
    fn new() -> Self {
        Self {
            origin: Instant::now(),
            arrived: AtomicU64::new(0),
            checksum: AtomicU64::new(0),
            computing: AtomicU64::new(0),
            computing_peak: AtomicU64::new(0),
            first_ns: AtomicU64::new(u64::MAX),
            last_ns: AtomicU64::new(0),
            latencies_ns: Mutex::new(Vec::new()),
            device: (Mutex::new(0), Condvar::new()),
        }
    }

    /// Runs an operation on a device that serves `serves` at once; others wait, each blocking its thread.
    pub fn use_device(&self, most: usize, operation: impl FnOnce()) {
        let (busy, ended) = &self.device;
        let lock = || busy.lock().unwrap_or_else(PoisonError::into_inner);
        let waits = |busy: &mut usize| *busy >= most;
        *ended.wait_while(lock(), waits).unwrap_or_else(PoisonError::into_inner) += 1;
        operation();
        *lock() -= 1;
        ended.notify_one();
    }

    /// The tally that the boxes of a prepared pipeline share.
    pub fn of(prepared: &Prepared) -> Arc<Self> {
        let resource: Arc<dyn Any + Send + Sync> =
            Arc::clone(prepared.resource(TALLY).unwrap_or_else(|| panic!("every graph has a tally")));
        resource.downcast().unwrap_or_else(|_| panic!("the tally has its type"))
    }

    /// The tally, for a box being made.
    pub fn bound(bind: &Bind<'_>) -> Result<Arc<Self>, BoxError> {
        bind.resource(TALLY)
    }

    pub fn reset(&self) {
        self.arrived.store(0, Ordering::Relaxed);
        self.checksum.store(0, Ordering::Relaxed);
        self.computing_peak.store(0, Ordering::Relaxed);
        self.first_ns.store(u64::MAX, Ordering::Relaxed);
        self.last_ns.store(0, Ordering::Relaxed);
        self.latencies().clear();
    }

    /// Nanoseconds since the tally was made.
    pub fn now_ns(&self) -> u64 {
        self.origin.elapsed().as_nanos() as u64
    }

    /// Counts this many envelopes or tasks as ended.
    pub fn arrive(&self, count: u64) {
        self.arrived.fetch_add(count, Ordering::Relaxed);
    }

    pub fn arrived(&self) -> u64 {
        self.arrived.load(Ordering::Relaxed)
    }

    /// Adds the tasks' results.
    pub fn add(&self, sum: u64) {
        self.checksum.fetch_add(sum, Ordering::Relaxed);
    }

    pub fn checksum(&self) -> u64 {
        self.checksum.load(Ordering::Relaxed)
    }

    /// Records a time; the first and the last bound the measurement.
    pub fn mark(&self, ns: u64) {
        self.first_ns.fetch_min(ns, Ordering::Relaxed);
        self.last_ns.fetch_max(ns, Ordering::Relaxed);
    }

    /// From the first mark to the last.
    pub fn marked_ns(&self) -> u64 {
        self.last_ns.load(Ordering::Relaxed).saturating_sub(self.first_ns.load(Ordering::Relaxed))
    }

    /// Computes, counted among the concurrent tasks.
    pub fn compute(&self, iterations: u64) -> u64 {
        let now = self.computing.fetch_add(1, Ordering::Relaxed) + 1;
        self.computing_peak.fetch_max(now, Ordering::Relaxed);
        let number = spin(iterations, SEED);
        self.computing.fetch_sub(1, Ordering::Relaxed);
        u64::from(number)
    }

    /// The most tasks that computed at once.
    pub fn computing_peak(&self) -> u64 {
        self.computing_peak.load(Ordering::Relaxed)
    }

    fn latencies(&self) -> std::sync::MutexGuard<'_, Vec<u64>> {
        // A list of numbers is whole after any panic.
        self.latencies_ns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn add_latencies(&self, latencies_ns: &[u64]) {
        self.latencies().extend_from_slice(latencies_ns);
    }

    pub fn take_latencies(&self) -> Vec<u64> {
        std::mem::take(&mut *self.latencies())
    }
}
