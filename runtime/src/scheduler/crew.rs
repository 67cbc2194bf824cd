//! The crew: slots change hands, rest and are woken. The steps are named in runtime/README.md, "Slots" and "Sleep".
//!
//! This file combines the words of `sleep.rs` and the pool of `slot.rs`. It knows nothing of tasks except whether any
//! waits, so the loom models run this code with a queue of their own.

use std::time::Instant;

use super::sleep::NodeSleep;
use super::slot::{Message, Pool, Seat, Slot};
use crate::request::RequestId;
use crate::sync::{AtomicUsize, Counter, Mutex, Ordering, interleave, now};
use crate::topology::Topology;
/// The slots of all nodes, and the threads that have none.
pub(crate) struct Crew {
    pub(crate) topology: Topology,
    nodes: Vec<NodeSleep>,
    /// By node: the other nodes, nearest first.
    others: Vec<Vec<usize>>,
    pool: Mutex<Pool>,
    /// Follows the number of threads that wait to attach: a look at it needs no lock.
    attaching: AtomicUsize,
    wakes: Vec<Counter>,
    started: Instant,
    /// By slot; changed and read under the pool's lock.
    rests: Vec<Rests>,
}

/// How long a slot has rested, in nanoseconds.
#[derive(Default)]
struct Rests {
    ended: Counter,
    /// When its present rest began, since the start and never 0; 0 while it does not rest.
    since: Counter,
}

/// The result of giving a slot away.
pub(crate) enum GivenAway {
    /// Another thread holds it, or it rests.
    Gone,
    /// A new thread must be made for it; it is counted already.
    NeedsThread(Slot),
    /// The thread cap is reached: the caller keeps it.
    Kept(Slot),
}

impl Crew {
    /// A crew for the machine's slots, and these slots.
    pub(crate) fn new(topology: Topology, threads_max: usize) -> (Self, Vec<Slot>) {
        let count = topology.slots_count();
        let slots: Vec<_> = (0..count).map(|idx| Slot::new(idx, topology.node(idx))).collect();
        let of_node = |node| slots.iter().filter(|slot| slot.node == node).count();
        let nodes = 0..topology.nodes().len();
        let crew = Self {
            nodes: nodes.clone().map(|node| NodeSleep::new(of_node(node))).collect(),
            others: nodes.map(|node| topology.node_order(node)).collect(),
            pool: Mutex::new(Pool::new(threads_max.max(count))),
            attaching: AtomicUsize::new(0),
            wakes: (0..count).map(|_| Counter::new(0)).collect(),
            started: now(),
            rests: (0..count).map(|_| Rests::default()).collect(),
            topology,
        };
        debug_assert!(
            crew.others
                .iter()
                .enumerate()
                .all(|(node, others)| { others.len() + 1 == crew.nodes.len() && !others.contains(&node) }),
            "a node's list of the other nodes leaves one out or names itself: work there would wake no slot"
        );
        (crew, slots)
    }

    /// The other nodes, nearest first.
    pub(crate) fn others(&self, node: usize) -> &[usize] {
        &self.others[node]
    }

    /// Slots of a node that rest, as they may have been a moment ago.
    pub(crate) fn sleeping(&self, node: usize) -> u32 {
        self.nodes[node].glance().sleeping
    }

    /// How often a slot was woken.
    pub(crate) fn wakes(&self, slot: usize) -> u64 {
        self.wakes[slot].load(Ordering::Relaxed)
    }

    /// By slot: how long it has rested.
    pub(crate) fn rested_ns(&self) -> Vec<u64> {
        let _pool = self.pool.lock();
        let now = self.now_ns();
        let rested = |rests: &Rests| {
            let present = match rests.since.load(Ordering::Relaxed) {
                0 => 0,
                since => now.saturating_sub(since),
            };
            rests.ended.load(Ordering::Relaxed) + present
        };
        self.rests.iter().map(rested).collect()
    }

    /// A slot begins to rest. The caller has the pool's lock.
    fn begin_rest(&self, slot: usize) {
        debug_assert_eq!(
            self.rests[slot].since.load(Ordering::Relaxed),
            0,
            "a slot began to rest that rests already"
        );
        self.rests[slot].since.store(self.now_ns(), Ordering::Relaxed);
    }

    /// A slot leaves its rest. The caller has the pool's lock.
    fn end_rest(&self, slot: usize) {
        let rests = &self.rests[slot];
        let since = rests.since.swap(0, Ordering::Relaxed);
        debug_assert_ne!(since, 0, "a slot left a rest that it had not begun");
        rests.ended.fetch_add(self.now_ns().saturating_sub(since), Ordering::Relaxed);
    }

    fn now_ns(&self) -> u64 {
        (now().saturating_duration_since(self.started).as_nanos() as u64).max(1)
    }

    /// Whether all slots rest.
    pub(crate) fn all_rest(&self) -> bool {
        let resting = self.pool.lock().resting_count();
        debug_assert!(resting <= self.wakes.len(), "more slots rest than there are");
        resting == self.wakes.len()
    }

    /// The number of threads.
    pub(crate) fn threads(&self) -> usize {
        self.pool.lock().threads
    }

    /// A thread is about to be started outside [`Crew::give_away`].
    pub(crate) fn add_thread(&self) {
        self.pool.lock().threads += 1;
    }

    /// A thread that was counted could not be started.
    pub(crate) fn drop_thread(&self) {
        let threads = &mut self.pool.lock().threads;
        debug_assert!(*threads > 0, "a thread was taken off the count that was not on it");
        *threads -= 1;
    }

    /// Wakes a sleeping thread for work that is visible on a node, unless a thread searches already.
    pub(crate) fn publish(&self, node: usize, near: Option<usize>) {
        self.publish_one_of(1, node, near);
    }

    /// Like `publish`, with a known number of waiting tasks: wakes a thread while fewer threads search than tasks wait, up to
    /// half of the node. A thread takes some 40 us to wake; if it had to wake the next one, that one would come another
    /// 40 us later.
    pub(crate) fn publish_one_of(&self, waiting: usize, node: usize, near: Option<usize>) {
        interleave();
        for node in std::iter::once(node).chain(self.others[node].iter().copied()) {
            let counts = self.nodes[node].counts();
            if self.nodes[node].is_enough(counts, waiting) || (counts.sleeping > 0 && self.wake(node, near)) {
                return;
            }
        }
    }

    /// Wakes the resting slot of a node that is nearest to another slot. False when none rests any more.
    fn wake(&self, node: usize, near: Option<usize>) -> bool {
        let (mut slot, backup) = {
            let mut pool = self.pool.lock();
            let rank = |slot: &Slot| {
                let distance = near.map_or(0, |near| self.topology.distance(near, slot.idx) as usize);
                (slot.node == node).then_some(distance)
            };
            let Some(slot) = pool.take_resting(rank) else { return false };
            self.nodes[node].wake();
            self.end_rest(slot.idx);
            let backup = pool.backup(slot.idx);
            (slot, backup)
        };
        slot.searching = true;
        self.wakes[slot.idx].fetch_add(1, Ordering::Relaxed);
        backup.put(Message::Slot(slot));
        true
    }

    /// Begins a search, unless the slot searches already or half of its node does.
    pub(crate) fn try_search(&self, slot: &mut Slot) {
        slot.searching = slot.searching || self.nodes[slot.node].try_search();
    }

    /// A slot has found a task (or gets another use). The node's last searcher that leaves work behind wakes another:
    /// publishers that saw it search have woken no thread.
    pub(crate) fn end_search(&self, slot: &mut Slot, any_work: impl Fn() -> bool) {
        if std::mem::take(&mut slot.searching) && self.nodes[slot.node].end_search() && any_work() {
            self.publish(slot.node, Some(slot.idx));
        }
    }

    /// Notes that a slot that may have searched has found a task. If its node's queue has a task for every slot, the
    /// slot wakes two others, and each of these again two. Sixteen threads woken one after the other would take sixteen
    /// times as long as one.
    #[inline]
    pub(crate) fn found(
        &self,
        slot: &mut Slot,
        any_work: impl Fn() -> bool,
        waiting: impl Fn(usize) -> usize,
    ) {
        let searched = slot.searching;
        self.end_search(slot, any_work);
        // Reads the counts without order: a sleeper that this slot misses is woken by the next publisher.
        if searched && self.sleeping(slot.node) > 0 {
            for _ in 0..2 {
                let waiting = waiting(slot.node);
                if waiting >= self.wakes.len() {
                    self.publish_one_of(waiting, slot.node, Some(slot.idx));
                }
            }
        }
    }

    /// Nothing was found: the slot rests, or goes to a thread that waits to attach; the caller is a backup from now
    /// on and parks at its seat.
    pub(crate) fn rest(&self, mut slot: Slot, own: &Seat, any_work: impl Fn() -> bool) {
        let (idx, node) = (slot.idx, slot.node);
        let searched = std::mem::take(&mut slot.searching);
        let passed = {
            let mut pool = self.pool.lock();
            match pool.pass_to_attaching(idx, own) {
                Some(receiver) => Some((receiver, Message::Slot(slot))),
                None => {
                    self.nodes[node].sleep();
                    self.begin_rest(idx);
                    // When the runtime shuts down the slot is dropped, and this thread ends itself.
                    pool.rest(slot, own).map(|_| (Seat::clone(own), Message::Exit))
                }
            }
        };
        if let Some((receiver, message)) = passed {
            self.count_attached(&message);
            receiver.put(message);
        }
        interleave();
        if searched {
            self.nodes[node].end_search();
        }
        interleave();
        // The last look: a publisher that came before the words showed this slot at rest has woken no thread.
        if any_work() {
            self.publish(node, Some(idx));
        }
    }

    /// At the end of a task: if a thread waits to attach, it gets the slot, and the caller becomes a backup.
    #[inline]
    pub(crate) fn pass_to_attaching(&self, slot: &mut Option<Slot>, own: &Seat, any_work: impl Fn() -> bool) {
        if self.is_awaited() {
            self.pass(slot, own, any_work);
        }
    }

    /// Whether a thread waits to attach.
    #[inline]
    pub(crate) fn is_awaited(&self) -> bool {
        self.attaching.load(Ordering::Acquire) > 0
    }

    fn pass(&self, slot: &mut Option<Slot>, own: &Seat, any_work: impl Fn() -> bool) {
        let Some(held) = slot else { return };
        debug_assert!(held.idx < self.wakes.len(), "a slot is handed on that the machine does not have");
        held.shelve();
        self.end_search(held, any_work);
        // Another thread may have served the last waiting thread: the slot leaves its place only with a receiver.
        let Some(receiver) = self.pool.lock().pass_to_attaching(held.idx, own) else { return };
        if let Some(slot) = slot.take() {
            self.hand_over(&receiver, slot);
        }
    }

    /// Gives the slot of a thread that goes to block to another one.
    pub(crate) fn give_away(&self, slot: Slot, any_work: impl Fn() -> bool) -> GivenAway {
        slot.check_to_hand_on();
        let (idx, node) = (slot.idx, slot.node);
        let mut pool = self.pool.lock();
        if pool.is_exiting() {
            // No request is left that could use the slot, and no thread would join a thread started for it.
            return GivenAway::Gone;
        }
        if let Some(receiver) = pool.next_attaching() {
            drop(pool);
            self.hand_over(&receiver, slot);
            return GivenAway::Gone;
        }
        if pool.has_spare_backup() {
            if any_work() {
                let backup = pool.backup(idx);
                drop(pool);
                backup.put(Message::Slot(slot));
                return GivenAway::Gone;
            }
            pool.rest_unseated(slot);
            self.nodes[node].sleep();
            self.begin_rest(idx);
            drop(pool);
            // As in `rest`.
            if any_work() {
                self.publish(node, Some(idx));
            }
            return GivenAway::Gone;
        }
        if pool.try_add_thread() {
            return GivenAway::NeedsThread(slot);
        }
        drop(pool);
        self.publish_left(&slot);
        GivenAway::Kept(slot)
    }

    /// A thread comes back from blocking: a slot that rests, its old one or one of its old node if it can be. If it
    /// gets none here, a slot comes to its seat as soon as a task ends.
    pub(crate) fn attach(&self, request: RequestId, own: &Seat, old: (usize, usize)) -> Option<Slot> {
        let (idx, node) = old;
        let mut pool = self.pool.lock();
        if let Some(slot) = pool.take_unseated() {
            slot.check_to_hand_on();
            return Some(slot);
        }
        let rank = |slot: &Slot| Some(usize::from(slot.node != node) * 2 + usize::from(slot.idx != idx));
        if let Some(slot) = pool.take_resting(rank) {
            self.nodes[slot.node].rouse();
            self.end_rest(slot.idx);
            return Some(slot);
        }
        pool.attach_later(request, own);
        self.attaching.fetch_add(1, Ordering::AcqRel);
        None
    }

    /// A thread that waits to attach needs no slot any more. False when one is on its way already.
    pub(crate) fn recall(&self, own: &Seat) -> bool {
        let recalled = self.pool.lock().recall(own);
        if recalled {
            let before = self.attaching.fetch_sub(1, Ordering::AcqRel);
            debug_assert!(before > 0, "a thread was recalled that was not counted as waiting to attach");
        }
        recalled
    }

    /// Leaves a slot to the next thread that attaches, because no other thread is free.
    pub(crate) fn leave_unseated(&self, slot: Slot) {
        let receiver = {
            let mut pool = self.pool.lock();
            match pool.next_attaching() {
                Some(receiver) => Some((receiver, slot)),
                None => {
                    pool.leave_unseated(slot);
                    None
                }
            }
        };
        if let Some((receiver, slot)) = receiver {
            self.hand_over(&receiver, slot);
        }
    }

    /// Wakes a sleeping thread for a branch if fewer threads search than branches wait on the slot. This reads the counts
    /// without the order that `publish` keeps: a branch that no thread takes is run by its maker.
    #[inline]
    pub(crate) fn publish_branch(&self, slot: &Slot) {
        let counts = self.nodes[slot.node].glance();
        if counts.sleeping > 0 || counts.searching == 0 && self.nodes.len() > 1 {
            self.publish_branch_of(slot.branches.len(), slot.node, slot.idx);
        }
    }

    fn publish_branch_of(&self, waiting: usize, node: usize, near: usize) {
        for node in std::iter::once(node).chain(self.others[node].iter().copied()) {
            let counts = self.nodes[node].glance();
            if self.nodes[node].is_enough(counts, waiting)
                || (counts.sleeping > 0 && self.wake(node, Some(near)))
            {
                return;
            }
        }
    }

    /// Hands a slot to a thread that waited to attach. That thread continues its own task, so other threads take the tasks in
    /// the deque.
    fn hand_over(&self, receiver: &Seat, slot: Slot) {
        let (idx, node, left) = (slot.idx, slot.node, slot.has_left());
        slot.check_to_hand_on();
        let message = Message::Slot(slot);
        self.count_attached(&message);
        receiver.put(message);
        if left {
            self.publish(node, Some(idx));
        }
    }

    fn count_attached(&self, message: &Message) {
        if let Message::Slot(_) = message {
            let before = self.attaching.fetch_sub(1, Ordering::AcqRel);
            debug_assert!(before > 0, "a thread got a slot that was not counted as waiting to attach");
        }
    }

    /// Wakes a thread for the first task of a deque. Usually the owner takes that task next; this owner does not.
    pub(crate) fn publish_left(&self, slot: &Slot) {
        if slot.has_left() {
            self.publish(slot.node, Some(slot.idx));
        }
    }

    /// Begins the shutdown: parked threads end, resting slots are dropped.
    pub(crate) fn exit(&self) {
        let parked = self.pool.lock().exit();
        for seat in parked {
            seat.put(Message::Exit);
        }
    }

    /// Checks the pool's invariants, and returns the number of resting slots.
    #[cfg(all(test, loom))]
    pub(crate) fn check(&self) -> usize {
        self.pool.lock().check()
    }
}
