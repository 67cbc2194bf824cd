//! What a pipeline is prepared for: the runtime that will run it, and a caller who may change their mind.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

use super::{Cancelled, Memory};
use crate::feeding::LazyDevices;
use crate::sync::{AtomicBool, Ordering, now};
use crate::topology::Topology;

/// The runtime that a pipeline is prepared for, as its resources and boxes see it.
#[derive(Clone, Debug)]
pub struct Environment {
    /// Slots of the runtime. Boxes cut their work by this number, and never ask the machine.
    pub slots: usize,
    /// Stops the preparation. Loops that build a resource ask it.
    pub cancellation: Cancellation,
    /// The machine that the slots are of. Boxes never ask for the one that the process runs on.
    pub machine: Arc<Topology>,
    /// Devices of the runtime. Boxes never ask for all that the machine has.
    pub devices: Arc<LazyDevices>,
    /// What operators remember between requests.
    pub memory: Memory,
    /// Whether files may be mapped. A map needs a handler of SIGBUS, which the whole process then has; otherwise files are
    /// read.
    pub maps: bool,
}

impl Environment {
    /// A runtime of so many slots and no device, with a preparation that nobody stops.
    pub fn of_slots(slots: usize) -> Self {
        Self {
            slots,
            cancellation: Cancellation::never(),
            machine: Arc::new(Topology::flat(slots)),
            devices: Arc::new(LazyDevices::none()),
            memory: Memory::default(),
            maps: false,
        }
    }
}

/// Tells work that runs outside of any firing to stop: because somebody asked for it, or because a deadline has passed.
///
/// Clones share the request to stop. The work asks often enough to be heard within 100 ms; asking costs some 20 ns.
#[derive(Clone, Debug, Default)]
pub struct Cancellation {
    asked: Option<Arc<AtomicBool>>,
    /// A counter, and what it was: the work is to stop once it is anything else.
    counted: Option<(&'static AtomicU64, u64)>,
    deadline: Option<Instant>,
}

impl Cancellation {
    /// One that [`Cancellation::cancel`] stops.
    pub fn new() -> Self {
        Self { asked: Some(Arc::new(AtomicBool::new(false))), ..Self::never() }
    }

    /// One that nobody can stop.
    pub const fn never() -> Self {
        Self { asked: None, counted: None, deadline: None }
    }

    /// This cancellation, which also stops the work once a counter leaves the value that it has now. A signal handler,
    /// which can take no lock, counts.
    #[must_use]
    pub fn or_counted(mut self, counter: &'static AtomicU64) -> Self {
        self.counted = Some((counter, counter.load(Ordering::Relaxed)));
        self
    }

    /// This cancellation, which also stops the work at a deadline.
    #[must_use]
    pub fn until(mut self, deadline: Option<Instant>) -> Self {
        self.deadline = match (self.deadline, deadline) {
            (Some(own), Some(other)) => Some(own.min(other)),
            (own, other) => own.or(other),
        };
        self
    }

    /// Asks the work of all clones to stop. Does nothing to one that nobody can stop.
    pub fn cancel(&self) {
        if let Some(asked) = &self.asked {
            // Relaxed: the flag publishes nothing else.
            asked.store(true, Ordering::Relaxed);
        }
    }

    /// Whether somebody has called [`Cancellation::cancel`], or the counter of [`Cancellation::or_counted`] has changed.
    pub fn is_asked(&self) -> bool {
        let is_counted = || self.counted.is_some_and(|(counter, was)| counter.load(Ordering::Relaxed) != was);
        self.asked.as_ref().is_some_and(|asked| asked.load(Ordering::Relaxed)) || is_counted()
    }

    /// Whether the work is to stop.
    pub fn is_cancelled(&self) -> bool {
        self.is_asked() || self.deadline.is_some_and(|deadline| now() >= deadline)
    }

    /// Leaves the work by `?` if it is to stop.
    ///
    /// # Errors
    /// When the work is to stop.
    pub fn check(&self) -> Result<(), Cancelled> {
        if self.is_cancelled() { Err(Cancelled) } else { Ok(()) }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn clones_hear_the_same_request_and_keep_the_earlier_deadline() {
        let (past, future) = (now(), now() + Duration::from_secs(3600));
        let cancellation = Cancellation::new();
        let clone = cancellation.clone().until(Some(future)).until(None);
        assert!(!clone.is_cancelled());
        assert!(clone.clone().until(Some(past)).is_cancelled());
        assert!(clone.clone().until(Some(past)).until(Some(future)).check().is_err());
        cancellation.cancel();
        assert!(clone.is_cancelled() && clone.is_asked());
        assert!(!Cancellation::never().is_cancelled());
    }

    #[test]
    fn a_counter_that_changes_stops_the_work() {
        static COUNTER: AtomicU64 = AtomicU64::new(3);
        let before = Cancellation::never().or_counted(&COUNTER);
        assert!(!before.is_asked());
        COUNTER.store(4, Ordering::Relaxed);
        assert!(before.is_asked() && before.clone().is_cancelled());
        assert!(!Cancellation::new().or_counted(&COUNTER).is_asked());
    }
}
