//! What a pipeline is prepared for: the slots that will run it, and a caller who may change their mind.

use std::sync::Arc;
use std::time::Instant;

use super::Cancelled;
use crate::feeding::LazyDevices;
use crate::sync::{AtomicBool, Ordering, now};

/// The runtime that a pipeline is prepared for, as its resources and boxes see it.
#[derive(Clone, Debug)]
pub struct Environment {
    /// Slots of the runtime. Boxes cut their work by this number, and never ask the machine.
    pub slots: usize,
    /// Stops the preparation. Loops that build a resource ask it.
    pub cancellation: Cancellation,
    /// Devices of the runtime. Boxes never ask for all that the machine has.
    pub devices: Arc<LazyDevices>,
}

impl Environment {
    /// A runtime of so many slots and no device, with a preparation that nobody stops.
    pub fn of_slots(slots: usize) -> Self {
        Self { slots, cancellation: Cancellation::never(), devices: Arc::new(LazyDevices::none()) }
    }
}

/// Tells work that runs outside of any firing to stop: because somebody asked for it, or because a deadline has passed.
///
/// Clones share the request to stop. The work asks often enough to be heard within 100 ms; asking costs some 20 ns.
#[derive(Clone, Debug, Default)]
pub struct Cancellation {
    asked: Option<Arc<AtomicBool>>,
    deadline: Option<Instant>,
}

impl Cancellation {
    /// One that [`Cancellation::cancel`] stops.
    pub fn new() -> Self {
        Self { asked: Some(Arc::new(AtomicBool::new(false))), deadline: None }
    }

    /// One that nobody can stop.
    pub const fn never() -> Self {
        Self { asked: None, deadline: None }
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

    /// Whether somebody has called [`Cancellation::cancel`].
    pub fn is_asked(&self) -> bool {
        self.asked.as_ref().is_some_and(|asked| asked.load(Ordering::Relaxed))
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
}
