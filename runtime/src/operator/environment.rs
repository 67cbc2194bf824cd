//! The environment of a preparation: the runtime that will run the pipeline, and a caller that may cancel.

use std::borrow::Cow;
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
    /// The machine of the slots. Boxes never ask for the machine that the process runs on.
    pub machine: Arc<Topology>,
    /// Devices of the runtime. Boxes never ask for the machine's devices.
    pub devices: Arc<LazyDevices>,
    /// The values that operators keep between requests.
    pub memory: Memory,
    /// Whether files may be mapped. A map needs a handler of SIGBUS for the whole process; otherwise files are read.
    pub maps: bool,
}

impl Environment {
    /// A runtime of this many slots and no device, with a preparation that is never cancelled.
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

    /// This environment, whose cancellation also stops the work at a deadline. Without a deadline nothing is copied: every
    /// request asks, and a copy counts three references.
    pub(crate) fn until(&self, deadline: Option<Instant>) -> Cow<'_, Self> {
        if deadline.is_none() {
            return Cow::Borrowed(self);
        }
        Cow::Owned(Self { cancellation: self.cancellation.clone().until(deadline), ..self.clone() })
    }
}

/// Stops work that runs outside of any firing: when a caller asks for it, or when a deadline has passed.
///
/// Clones share it. The work checks often enough to stop within 100 ms; a check costs some 20 ns.
#[derive(Clone, Debug, Default)]
pub struct Cancellation {
    asked: Option<Arc<AtomicBool>>,
    /// Another cancellation that stops the work too.
    also: Option<Arc<AtomicBool>>,
    /// A counter and its first value: the work stops once the counter has another value.
    counted: Option<(&'static AtomicU64, u64)>,
    deadline: Option<Instant>,
}

impl Cancellation {
    /// A cancellation that [`Cancellation::cancel`] triggers.
    pub fn new() -> Self {
        Self { asked: Some(Arc::new(AtomicBool::new(false))), ..Self::never() }
    }

    /// A cancellation that never happens.
    pub const fn never() -> Self {
        Self { asked: None, also: None, counted: None, deadline: None }
    }

    /// This cancellation, which also stops the work once a counter leaves its present value. A signal handler, which
    /// can take no lock, raises the counter.
    #[must_use]
    pub fn or_counted(mut self, counter: &'static AtomicU64) -> Self {
        self.counted = Some((counter, counter.load(Ordering::Relaxed)));
        self
    }

    /// This cancellation, which also stops the work once another is asked to; of the other ones given before, the last.
    #[must_use]
    pub fn or(mut self, other: &Self) -> Self {
        self.also.clone_from(&other.asked);
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

    /// Asks the work of all clones to stop. Does nothing if it is [`Cancellation::never`].
    pub fn cancel(&self) {
        if let Some(asked) = &self.asked {
            // Relaxed: the flag publishes nothing else.
            asked.store(true, Ordering::Relaxed);
        }
    }

    /// Whether [`Cancellation::cancel`] was called, or the counter of [`Cancellation::or_counted`] has changed.
    pub fn is_asked(&self) -> bool {
        let is_counted = || self.counted.is_some_and(|(counter, was)| counter.load(Ordering::Relaxed) != was);
        let mut flags = self.asked.iter().chain(&self.also);
        flags.any(|asked| asked.load(Ordering::Relaxed)) || is_counted()
    }

    /// Whether the work must stop.
    pub fn is_cancelled(&self) -> bool {
        self.is_asked() || self.deadline.is_some_and(|deadline| now() >= deadline)
    }

    /// An error if the work must stop, for `?`.
    ///
    /// # Errors
    /// When the work must stop.
    pub fn check(&self) -> Result<(), Cancelled> {
        if self.is_cancelled() { Err(Cancelled) } else { Ok(()) }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn clones_share_the_request_and_keep_the_earlier_deadline() {
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
    fn either_of_two_cancellations_stops_the_work() {
        let (engine, call) = (Cancellation::new(), Cancellation::new());
        let both = || engine.clone().or(&call);
        assert!(!both().is_asked());
        call.cancel();
        assert!(both().is_asked() && !engine.is_asked());
        let other = Cancellation::new();
        engine.cancel();
        assert!(engine.clone().or(&other).is_cancelled() && !other.is_asked());
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
