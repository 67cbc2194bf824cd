//! Slots and the threads that hold them: hand-over, rest, and attaching.
//!
//! A slot is the right to compute on one core; only the thread that holds its [`Slot`] computes. Every hand-over
//! takes one lock, the pool's. Invariants (runtime/README.md, section "Slots"):
//! - there are exactly as many `Slot`s as slots: at most that many tasks compute, ever;
//! - at least as many backup threads are parked as slots rest, so a thread is ready for each slot that is woken;
//! - a thread waits to attach only while no slot rests.

use std::sync::Arc;

use crossbeam_deque::Worker as Deque;

use super::blocking::AttachQueue;
use super::queues::Task;
use crate::inside::Branch;
use crate::request::RequestId;
use crate::sync::Mailbox;

/// The right to compute on one logical core, with the deque that belongs to it.
pub(crate) struct Slot {
    pub(crate) idx: usize,
    pub(crate) node: usize,
    /// Last in, first out at the owner's end; thieves take the oldest task.
    pub(crate) deque: Deque<Task>,
    /// Branches of firings, kept like tasks.
    pub(crate) branches: Deque<Branch>,
    /// The task that its holder runs next: the first task that its last firing made. No other thread sees it.
    pub(crate) next: Option<Task>,
    /// Whether the node counts it as searching.
    pub(crate) searching: bool,
    /// Tasks taken since the request queue was last looked at first.
    pub(crate) ticks: u32,
    /// The state of a xorshift generator for the random start within a ring.
    random: u32,
}

impl Slot {
    pub(crate) fn new(idx: usize, node: usize) -> Self {
        Self {
            idx,
            node,
            deque: Deque::new_lifo(),
            branches: Deque::new_lifo(),
            next: None,
            searching: false,
            ticks: 0,
            random: 0x9e37_79b9 ^ (idx as u32 + 1),
        }
    }

    /// Checks that all its tasks are in its deques, and that its node does not count it as searching, before it changes
    /// hands.
    #[inline]
    pub(crate) fn check_to_hand_on(&self) {
        debug_assert!(self.next.is_none(), "a slot changes hands with a task that no other slot can find");
        debug_assert!(!self.searching, "a slot changes hands while its node counts it as searching");
    }

    /// Whether tasks or branches wait on it.
    pub(crate) fn has_left(&self) -> bool {
        !self.deque.is_empty() || !self.branches.is_empty()
    }

    /// Puts the next task where other slots find it, because something else comes first.
    pub(crate) fn shelve(&mut self) {
        if let Some(task) = self.next.take() {
            self.deque.push(task);
        }
    }

    /// A random number below `bound`.
    pub(crate) fn random(&mut self, bound: usize) -> usize {
        debug_assert_ne!(
            self.random, 0,
            "a generator at 0 stays there: a slot would always begin at one victim"
        );
        self.random ^= self.random << 13;
        self.random ^= self.random >> 17;
        self.random ^= self.random << 5;
        self.random as usize % bound.max(1)
    }
}

/// A message to a parked thread.
pub(crate) enum Message {
    /// It holds this slot from now on.
    Slot(Slot),
    /// The runtime shuts down.
    Exit,
}

/// The place at which one thread parks.
pub(crate) type Seat = Arc<Mailbox<Message>>;

/// Resting slots, parked backup threads and threads that wait to attach; under the crew's lock.
pub(crate) struct Pool {
    resting: Vec<Slot>,
    /// With the slot that each held last.
    backups: Vec<(Seat, usize)>,
    attaching: AttachQueue<Seat>,
    /// Slots that came back when no thread was left for them: all threads without a slot block, and take these slots
    /// when they attach.
    unseated: Vec<Slot>,
    /// The number of threads, and the cap.
    pub(crate) threads: usize,
    threads_max: usize,
    exiting: bool,
}

impl Pool {
    pub(crate) fn new(threads_max: usize) -> Self {
        debug_assert!(threads_max > 0, "a pool for no thread at all");
        Self {
            resting: Vec::new(),
            backups: Vec::new(),
            attaching: AttachQueue::new(),
            unseated: Vec::new(),
            threads: 0,
            threads_max,
            exiting: false,
        }
    }

    /// A thread parks, and its slot goes to the first thread that waits to attach. Returns the receiver's seat.
    pub(crate) fn pass_to_attaching(&mut self, slot: usize, own: &Seat) -> Option<Seat> {
        let receiver = self.attaching.pop()?;
        debug_assert!(!Arc::ptr_eq(&receiver, own), "a thread that parks waited for a slot as well");
        self.park(own, slot);
        Some(receiver)
    }

    /// Takes a thread off the queue of those that wait to attach. False when it is not there.
    pub(crate) fn recall(&mut self, own: &Seat) -> bool {
        self.attaching.remove(|seat| Arc::ptr_eq(seat, own))
    }

    /// Leaves a slot to the next thread that attaches.
    pub(crate) fn leave_unseated(&mut self, slot: Slot) {
        slot.check_to_hand_on();
        self.check_absent(&slot);
        debug_assert!(self.attaching.is_empty(), "a slot is laid aside while a thread waits for one");
        self.unseated.push(slot);
    }

    /// A thread parks, as the backup that has held a slot.
    fn park(&mut self, own: &Seat, slot: usize) {
        debug_assert!(
            !self.backups.iter().any(|(seat, _)| Arc::ptr_eq(seat, own)),
            "a thread parks twice: it would get two slots, and one would be lost"
        );
        debug_assert!(self.backups.len() < self.threads_max, "more threads are parked than there may be");
        self.backups.push((Arc::clone(own), slot));
    }

    /// Checks that a held slot is in none of the lists.
    #[inline]
    fn check_absent(&self, slot: &Slot) {
        debug_assert!(
            self.resting.iter().chain(&self.unseated).all(|other| other.idx != slot.idx),
            "there are two rights to compute on one core"
        );
    }

    /// Checks the module's invariants of resting slots.
    #[inline]
    fn check_rest(&self) {
        debug_assert!(
            self.backups.len() >= self.resting.len(),
            "a resting slot has no backup thread to wake"
        );
        debug_assert!(
            self.resting.is_empty() || self.attaching.is_empty(),
            "a slot rests while a thread waits for one: the thread would never get it"
        );
    }

    /// A slot that waits for a thread to attach.
    pub(crate) fn take_unseated(&mut self) -> Option<Slot> {
        self.unseated.pop()
    }

    /// The first thread that waits to attach.
    pub(crate) fn next_attaching(&mut self) -> Option<Seat> {
        self.attaching.pop()
    }

    /// A slot rests and its thread becomes a backup. The slot comes back when the runtime shuts down.
    pub(crate) fn rest(&mut self, slot: Slot, own: &Seat) -> Option<Slot> {
        if self.exiting {
            return Some(slot);
        }
        slot.check_to_hand_on();
        self.check_absent(&slot);
        self.park(own, slot.idx);
        self.resting.push(slot);
        self.check_rest();
        None
    }

    /// Slots that rest.
    pub(crate) fn resting_count(&self) -> usize {
        self.resting.len()
    }

    /// Whether a backup is parked that no resting slot needs.
    pub(crate) fn has_spare_backup(&self) -> bool {
        self.backups.len() > self.resting.len()
    }

    /// A slot rests whose thread goes to block; a spare backup is there for it.
    pub(crate) fn rest_unseated(&mut self, slot: Slot) {
        assert!(self.has_spare_backup(), "a slot would rest with no thread to wake");
        slot.check_to_hand_on();
        self.check_absent(&slot);
        self.resting.push(slot);
        self.check_rest();
    }

    /// Counts one more thread, if the cap allows it.
    pub(crate) fn try_add_thread(&mut self) -> bool {
        let below = self.threads < self.threads_max;
        debug_assert!(self.threads <= self.threads_max, "more threads were counted than there may be");
        self.threads += usize::from(below);
        below
    }

    /// Takes the resting slot with the least `rank`; a slot without a rank is not taken. Among equal ranks it takes the slot
    /// that has rested least: its caches are the warmest, and its core sleeps the least deeply.
    pub(crate) fn take_resting(&mut self, rank: impl Fn(&Slot) -> Option<usize>) -> Option<Slot> {
        let latest = self.resting.iter().enumerate().rev();
        let (_, place) =
            latest.filter_map(|(place, slot)| Some((rank(slot)?, place))).min_by_key(|(rank, _)| *rank)?;
        let slot = self.resting.remove(place);
        self.check_absent(&slot);
        slot.check_to_hand_on();
        Some(slot)
    }

    /// A parked thread for a slot, if possible one that has held the slot before: the system wakes a thread where it last ran,
    /// most likely on that slot's core. Among several, the thread that parked last has the warmest caches.
    pub(crate) fn backup(&mut self, slot: usize) -> Seat {
        let place = self.backups.iter().rposition(|(_, held)| *held == slot);
        let place = place.or(self.backups.len().checked_sub(1));
        // The second invariant: backups are never fewer than resting slots.
        let place = place.unwrap_or_else(|| unreachable!("a resting slot has no backup thread"));
        self.backups.remove(place).0
    }

    /// Waits to attach.
    pub(crate) fn attach_later(&mut self, request: RequestId, own: &Seat) {
        debug_assert!(
            !self.backups.iter().any(|(seat, _)| Arc::ptr_eq(seat, own)),
            "a parked thread waits to attach: it would get two slots"
        );
        debug_assert!(
            self.unseated.is_empty(),
            "a thread waits to attach while a slot is laid aside for the next that does"
        );
        self.attaching.push(request, Arc::clone(own));
        self.check_rest();
    }

    /// Begins the shutdown: parked threads end, resting slots are dropped.
    pub(crate) fn exit(&mut self) -> Vec<Seat> {
        debug_assert!(!self.exiting, "a pool was shut down twice");
        debug_assert!(
            self.resting.iter().all(|slot| !slot.has_left()),
            "a slot rests with tasks when the last request has ended"
        );
        self.exiting = true;
        self.resting.clear();
        self.backups.drain(..).map(|(seat, _)| seat).collect()
    }

    /// Whether the runtime shuts down.
    pub(crate) fn is_exiting(&self) -> bool {
        self.exiting
    }

    #[cfg(all(test, loom))]
    pub(crate) fn check(&self) -> usize {
        assert!(self.backups.len() >= self.resting.len(), "a resting slot has no backup thread");
        assert!(
            self.resting.is_empty() || self.attaching.is_empty(),
            "a slot rests while a thread waits for one"
        );
        self.resting.len()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn of_the_nearest_the_one_that_has_rested_least_is_woken() {
        let mut pool = Pool::new(8);
        for idx in 0..4 {
            assert!(pool.rest(Slot::new(idx, idx % 2), &Arc::new(Mailbox::new())).is_none());
        }
        let mut taken = |rank: fn(&Slot) -> Option<usize>| pool.take_resting(rank).map(|slot| slot.idx);
        assert_eq!(taken(|slot| (slot.node == 0).then_some(0)), Some(2));
        assert_eq!(taken(|slot| Some(slot.idx)), Some(0), "the nearest comes first");
        assert_eq!(taken(|slot| (slot.node == 0).then_some(0)), None);
        assert_eq!((taken(|_| Some(0)), taken(|_| Some(0)), taken(|_| Some(0))), (Some(3), Some(1), None));
    }
}
