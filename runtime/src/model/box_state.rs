//! The run state of a box: what makes its processing method serial.
//!
//! ```text
//!   Idle --notify--> Queued --start--> Running --finish--> Idle
//!                      ^                 |  ^ notify: Notified
//!                      +--- finish ------+--+
//! ```
//! Invariants: exactly one task exists for a box that is Queued, Running or Notified, and none otherwise; an event that
//! arrives while it runs is never lost, as `finish` then queues it again. Done is final.

use crate::sync::{AtomicU8, Ordering};

const IDLE: u8 = 0;
const QUEUED: u8 = 1;
const RUNNING: u8 = 2;
const NOTIFIED: u8 = 3;
const DONE: u8 = 4;

/// The run state of one box.
pub(crate) struct BoxState(AtomicU8);

/// What a notification did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Notified {
    /// The box was idle: the caller owns its new task and must plan it.
    Plan,
    /// The box will see the event anyway.
    Pending,
    /// The box has finished.
    Done,
}

impl BoxState {
    pub(crate) fn new() -> Self {
        Self(AtomicU8::new(IDLE))
    }

    /// Tells the box of an event. All accesses are SeqCst: an event is published before this, and the firing reads
    /// the events after `start`, so one of the two sees the other.
    pub(crate) fn notify(&self) -> Notified {
        let mut state = self.0.load(Ordering::SeqCst);
        loop {
            let (next, result) = match state {
                IDLE => (QUEUED, Notified::Plan),
                RUNNING => (NOTIFIED, Notified::Pending),
                DONE => return Notified::Done,
                // A queued box will look at everything when it starts; reading it must still be a write here, so
                // that `start` synchronises with what was published before this call.
                other => (other, Notified::Pending),
            };
            match self.0.compare_exchange(state, next, Ordering::SeqCst, Ordering::SeqCst) {
                Ok(_) => return result,
                Err(now) => state = now,
            }
        }
    }

    /// Whether a notification now would plan the box.
    pub(crate) fn is_idle(&self) -> bool {
        self.0.load(Ordering::SeqCst) == IDLE
    }

    /// The holder of the box's task begins a firing.
    pub(crate) fn start(&self) {
        let before = self.0.swap(RUNNING, Ordering::SeqCst);
        assert_eq!(before, QUEUED, "a box was fired without a task");
    }

    /// The firing is over. True when the box is queued again, and the caller owns its new task.
    pub(crate) fn finish(&self, again: bool) -> bool {
        if !again && self.0.compare_exchange(RUNNING, IDLE, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
            return false;
        }
        // A swap, not a store: an event that comes between the exchange above and here must reach the next `start`
        // through this value.
        self.0.swap(QUEUED, Ordering::SeqCst);
        true
    }

    /// The box has finished for good.
    pub(crate) fn done(&self) {
        self.0.store(DONE, Ordering::SeqCst);
    }

    /// Whether the box has finished for good.
    pub(crate) fn is_done(&self) -> bool {
        self.0.load(Ordering::SeqCst) == DONE
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn an_event_during_a_firing_queues_the_box_again() {
        let state = BoxState::new();
        assert_eq!(state.notify(), Notified::Plan);
        assert_eq!(state.notify(), Notified::Pending);
        state.start();
        assert_eq!(state.notify(), Notified::Pending);
        assert!(state.finish(false), "the event would be lost");
        state.start();
        assert!(!state.finish(false));
        assert!(state.is_idle());
        state.done();
        assert_eq!(state.notify(), Notified::Done);
    }
}
