//! Slots withheld from tasks while feeding threads compute, so that each of these threads has a free core.
//!
//! A feeding thread does not wait for a slot. It asks for one like a thread that attaches, before all requests, and
//! continues to compute: it gets a resting slot at once, or else the next slot whose task ends. When it waits again, it
//! withdraws the request or gives the slot away like a thread that blocks. At least one slot is left for tasks.

use std::sync::Arc;

use super::Scheduler;
use super::crew::GivenAway;
use super::slot::{Message, Seat, Slot};
use crate::outside::{Computing, Lend};
use crate::request::RequestId;
use crate::sync::{Mailbox, Ordering};

/// Requests are numbered from 1: this one is older than all.
const BEFORE_ALL: RequestId = RequestId(0);

/// The interface for threads outside of the scheduler.
pub(super) struct Lender(pub(super) Arc<Scheduler>);

impl Lend for Lender {
    fn number(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }

    fn withhold(&self) -> Option<Computing> {
        let scheduler = &self.0;
        let most = scheduler.slots.len() - 1;
        let more = |withheld: usize| (withheld < most).then_some(withheld + 1);
        scheduler.withheld.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        let seat = Arc::new(Mailbox::new());
        // The last slot: tasks come to the first slots first.
        let near = (most, scheduler.topology().node(most));
        let slot = scheduler.crew.attach(BEFORE_ALL, &seat, near);
        let withheld = Withheld { scheduler: Arc::clone(scheduler), seat, slot };
        Some(Computing::new(move || drop(withheld)))
    }
}

/// A slot that is withheld, or will be.
struct Withheld {
    scheduler: Arc<Scheduler>,
    seat: Seat,
    slot: Option<Slot>,
}

impl Drop for Withheld {
    fn drop(&mut self) {
        let scheduler = &self.scheduler;
        let slot = match self.slot.take() {
            Some(slot) => Some(slot),
            None if scheduler.crew.recall(&self.seat) => None,
            // The slot is on its way: the thread that took the seat off the queue sends it.
            None => match self.seat.take() {
                Message::Slot(slot) => Some(slot),
                Message::Exit => None,
            },
        };
        if let Some(slot) = slot {
            scheduler.take_back(slot);
        }
        let before = scheduler.withheld.fetch_sub(1, Ordering::Relaxed);
        debug_assert!(before > 0, "a slot came back that was not counted as withheld");
        debug_assert!(before < scheduler.slots.len(), "all slots were withheld: none was left for tasks");
    }
}

impl Scheduler {
    /// A slot comes back from a thread outside of the scheduler.
    fn take_back(self: &Arc<Self>, slot: Slot) {
        debug_assert!(slot.idx < self.slots.len(), "a slot came back that is another scheduler's");
        let left = match self.crew.give_away(slot, || self.any_work()) {
            GivenAway::Gone => return,
            GivenAway::NeedsThread(slot) => match self.spawn(slot) {
                Ok(()) => return,
                Err((_, slot)) => slot,
            },
            GivenAway::Kept(slot) => slot,
        };
        // No thread is free: the first that comes back from blocking takes it.
        self.crew.leave_unseated(left);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::config::Config;
    use crate::simulator::{simulate, sleep};

    #[test]
    fn a_slot_that_comes_back_after_the_end_starts_no_thread() {
        for seed in 0..50 {
            simulate(seed, || {
                let scheduler = Scheduler::start(Config::flat(2)).unwrap();
                let computing = Lender(Arc::clone(&scheduler)).withhold().expect("two slots, one to lend");
                // A resting slot comes at once, otherwise the slot comes when its thread has found no task.
                sleep(Duration::from_millis(1));
                scheduler.shut_down();
                let threads = scheduler.crew.threads();
                drop(computing);
                assert_eq!(scheduler.crew.threads(), threads, "a thread was started that is never joined");
                assert_eq!(scheduler.withheld.load(Ordering::Relaxed), 0);
            });
        }
    }
}
