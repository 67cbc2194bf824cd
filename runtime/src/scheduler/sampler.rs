//! The sampler: it finds boxes that block without a declaration.
//!
//! A firing that sleeps, reads a file or waits for a lock outside of `detached` holds its slot meanwhile, and a core
//! idles. Asking the system at each firing would cost more than most firings. So each thread only publishes its current
//! firing (`sampler/current_firing.rs`), and one thread reads it every [`PERIOD`]. After a firing was seen twice, the
//! sampler measures its time: the time since, less the time on a CPU and the time in the queue for one, is the time
//! that it was off the CPU by its own doing. From [`OFF_CPU_MIN`] on this time counts for its box.
//!
//! Invariants:
//! - at rest it costs nothing: the thread parks when all slots rest, and the next thread that gets a slot wakes it;
//! - it counts only time that a firing spent: it measures from the second look on, and skips a thread that could run and a
//!   firing that ends during a look;
//! - closures in `detached`, waits for branches, and boxes that declare a blocking class do not count.
//!
//! Branches of a firing that other threads run are not seen.

mod thread_times;
mod current_firing;

use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

pub(super) use self::current_firing::{CurrentFiring, FiringMark};
use self::thread_times::Times;
use super::Scheduler;
use crate::sync::{AtomicBool, Ordering};

/// The time between two looks.
const PERIOD: Duration = Duration::from_millis(5);
/// Less time off the CPU in one firing may be a lock, a page or the system's own work.
const OFF_CPU_MIN: Duration = Duration::from_millis(20);

/// The sampler of one scheduler.
#[derive(Default)]
pub(super) struct Sampler {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Default)]
struct Shared {
    firings: Mutex<Vec<Arc<CurrentFiring>>>,
    /// Whether its thread parks, or is about to look once more before it parks.
    asleep: AtomicBool,
    stopped: Mutex<bool>,
    changed: Condvar,
}

impl Sampler {
    /// Starts its thread if the system reports the times of threads; elsewhere it does nothing.
    pub(super) fn start(&self, scheduler: &Arc<Scheduler>) {
        if !thread_times::are_known() {
            return;
        }
        debug_assert!(
            self.thread.lock().is_none(),
            "two samplers watch one scheduler: all times count twice"
        );
        // Weak: the scheduler joins this thread when it shuts down.
        let (scheduler, shared) = (Arc::downgrade(scheduler), Arc::clone(&self.shared));
        let thread = std::thread::Builder::new().name("boxwork-sampler".to_owned());
        // If the system refuses the thread, the scheduler runs without samples.
        *self.thread.lock() = thread.spawn(move || watch(&shared, &scheduler)).ok();
    }

    /// Adds a thread.
    pub(super) fn add(&self, current: &Arc<CurrentFiring>) {
        self.shared.firings.lock().push(Arc::clone(current));
    }

    /// A thread has got a slot.
    pub(super) fn rouse(&self) {
        if self.shared.asleep.load(Ordering::SeqCst) && self.shared.asleep.swap(false, Ordering::SeqCst) {
            let _stopped = self.shared.stopped.lock();
            self.shared.changed.notify_one();
        }
    }

    pub(super) fn stop(&self) {
        *self.shared.stopped.lock() = true;
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.lock().take() {
            let _ = thread.join();
        }
    }
}

fn watch(shared: &Shared, scheduler: &Weak<Scheduler>) {
    let mut observations: Vec<Observation> = Vec::new();
    while !*shared.stopped.lock() {
        let Some(scheduler) = scheduler.upgrade() else { return };
        sample(shared, &scheduler, &mut observations);
        // First the word, then the look. A thread takes a slot from rest first and reads the word then, so under the lock of
        // the crew's pool either this thread sees the slot, or that thread sees the word.
        shared.asleep.store(true, Ordering::SeqCst);
        let all_rest = scheduler.crew.all_rest();
        drop(scheduler);
        let mut stopped = shared.stopped.lock();
        if all_rest {
            while !*stopped && shared.asleep.load(Ordering::SeqCst) {
                shared.changed.wait(&mut stopped);
            }
        } else if !*stopped {
            shared.asleep.store(false, Ordering::SeqCst);
            shared.changed.wait_for(&mut stopped, PERIOD);
        }
    }
}

/// Looks at each thread once.
fn sample(shared: &Shared, scheduler: &Scheduler, observations: &mut Vec<Observation>) {
    let firings: Vec<Arc<CurrentFiring>> = shared.firings.lock().clone();
    debug_assert!(
        observations.len() <= firings.len(),
        "a thread has left the list: its samples would count for the next thread"
    );
    observations.resize_with(firings.len(), Observation::default);
    for (current, observation) in firings.iter().zip(observations) {
        if let Some(off) = observation.look(current) {
            scheduler.count_undeclared(off);
        }
    }
}

/// The state of a thread at the last look.
#[derive(Default)]
struct Observation {
    mark: Option<FiringMark>,
    /// The times at the second look at one firing.
    base: Option<(Instant, Times)>,
    counted: Duration,
}

/// A firing that was off the CPU.
pub(super) struct OffCpu {
    pub(super) mark: FiringMark,
    /// Since it was last counted.
    pub(super) more: Duration,
    /// In all.
    pub(super) whole: Duration,
}

impl Observation {
    fn look(&mut self, current: &CurrentFiring) -> Option<OffCpu> {
        let mark = current.read();
        if mark.is_none() || mark != self.mark {
            *self = Self { mark, ..Self::default() };
            return None;
        }
        let Some((since, before)) = self.base else {
            let times = current.times()?;
            self.base = Some((Instant::now(), times));
            return None;
        };
        let passed = since.elapsed();
        let now = current.times()?;
        // Skip runnable threads: the kernel adds queue time only when the thread is scheduled.
        if now.could_run || current.read() != mark {
            return None;
        }
        let whole = passed.saturating_sub(now.on_cpu.saturating_sub(before.on_cpu));
        let whole = whole.saturating_sub(now.queued.saturating_sub(before.queued));
        let more = whole.saturating_sub(self.counted);
        if whole < OFF_CPU_MIN || more.is_zero() {
            return None;
        }
        debug_assert!(self.counted < whole, "time off the CPU is counted twice");
        self.counted = whole;
        Some(OffCpu { mark: mark?, more, whole })
    }
}
