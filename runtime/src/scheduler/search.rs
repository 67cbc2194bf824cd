//! The order in which a slot searches for its next task: the nearest queue first.
//!
//! Its own deque; other slots of its node, nearest ring first, from a random place within the ring; the oldest
//! request's queue on its node; the global queue, which homes that request here; then other nodes, nearest first.

use std::sync::Arc;

use crossbeam_deque::{Steal, Stealer};

use super::queues::Task;
use super::slot::Slot;
use super::{Scheduler, count};
use crate::inside::Branch;
use crate::model::{HOMELESS, Model, NewTasks};
use crate::statistics::TraceKind;
use crate::sync::{Ordering, now};
use crate::topology::Distance;

/// After this many searches a slot looks at the request queues before its own deque, so that a chain of immediate tasks
/// cannot keep an older request waiting for ever.
const TICKS_PER_FAIR_LOOK: u32 = 61;

/// The next step of a slot.
pub(super) enum Found {
    Task(Task),
    /// A part of a firing that runs elsewhere.
    Branch(Branch),
}

impl Scheduler {
    /// The next task of a slot, or nothing when every place was empty.
    #[inline]
    pub(super) fn next(self: &Arc<Self>, slot: &mut Slot, new_tasks: &mut NewTasks) -> Option<Found> {
        let fair = self.is_due(slot);
        slot.ticks = if fair { 0 } else { slot.ticks + 1 };
        if !fair && let Some(task) = slot.next.take() {
            return Some(Found::Task(task));
        }
        slot.shelve();
        let found = self.look(slot, fair, new_tasks)?;
        debug_assert!(
            slot.next.is_none(),
            "a slot that has found a task has a next one besides: it would be lost"
        );
        self.crew.found(slot, || self.any_work(), |node| self.queues[node].len());
        Some(found)
    }

    /// Whether a slot looks at the request queues before its own deque next.
    #[inline]
    pub(super) fn is_due(&self, slot: &Slot) -> bool {
        slot.ticks >= TICKS_PER_FAIR_LOOK
    }

    fn look(self: &Arc<Self>, slot: &mut Slot, fair: bool, new_tasks: &mut NewTasks) -> Option<Found> {
        let counters = &self.slots[slot.idx].counters;
        let queues = &self.queues[slot.node];
        if fair && let Some(task) = queues.pop() {
            count(&counters.from_node);
            self.crew.publish_left(slot);
            return Some(Found::Task(task));
        }
        // Left by a branch that has spawned them into its scope and ended.
        if let Some(branch) = slot.branches.pop() {
            return Some(Found::Branch(branch));
        }
        if let Some(task) = slot.deque.pop() {
            return Some(Found::Task(task));
        }
        self.crew.try_search(slot);
        if slot.searching
            && let Some(found) = self.steal(slot, |distance| distance < Distance::Remote)
        {
            return Some(found);
        }
        if let Some(task) = queues.pop() {
            count(&counters.from_node);
            return Some(Found::Task(task));
        }
        if let Some(task) = self.adopt(slot, new_tasks) {
            return Some(Found::Task(task));
        }
        if !slot.searching {
            return None;
        }
        self.balance(slot).or_else(|| self.steal(slot, |distance| distance == Distance::Remote))
    }

    /// Takes work from the nearest busy node. If that node has several requests, takes a whole request, whose home is
    /// this node from now on; otherwise takes one task.
    fn balance(&self, slot: &Slot) -> Option<Found> {
        let counters = &self.slots[slot.idx].counters;
        let crowded = |node: &&usize| !self.queues[**node].is_empty() && self.is_busy(**node);
        for other in self.crew.others(slot.node).iter().filter(crowded) {
            if self.homes
                && let Some(mut tasks) = self.queues[*other].give_request(Model::may_move)
            {
                let first = tasks.pop_front()?;
                debug_assert_ne!(*other, slot.node, "a node takes a request from itself");
                first.model.move_home(slot.node);
                count(&counters.moved);
                for task in tasks {
                    self.queues[slot.node].push(task);
                }
                return Some(Found::Task(first));
            }
            if let Some(task) = self.queues[*other].pop() {
                count(&counters.from_other_nodes);
                return Some(Found::Task(task));
            }
        }
        None
    }

    /// Whether no slot of a node rests, so that a task in its queue waits for the end of another task. Otherwise a slot of the
    /// node was woken for it, or a slot that has just come to rest searches once more.
    fn is_busy(&self, node: usize) -> bool {
        !self.homes || self.crew.sleeping(node) == 0
    }

    /// Steals the oldest branch or task of another slot. Branches first: a firing that has begun waits for them.
    fn steal(&self, slot: &mut Slot, within: impl Fn(Distance) -> bool) -> Option<Found> {
        let shared = &self.slots[slot.idx];
        let begun = self.traced.then(now);
        for ring in shared.rings.iter().filter(|ring| within(ring.distance)) {
            let start = slot.random(ring.slots.len());
            for nth in 0..ring.slots.len() {
                let victim = ring.slots[(start + nth) % ring.slots.len()];
                if ring.distance == Distance::Remote && !self.is_busy(self.crew.topology.node(victim)) {
                    continue;
                }
                let from = &self.slots[victim];
                debug_assert_ne!(
                    victim, slot.idx,
                    "a slot steals from itself the task that it keeps for later"
                );
                let branch = || steal_from(&from.branches).map(Found::Branch);
                let Some(found) = branch().or_else(|| steal_from(&from.stealer).map(Found::Task)) else {
                    continue;
                };
                count(&shared.counters.steals[ring.distance as usize]);
                if let Some(begun) = begun {
                    let kind = TraceKind::Steal { from: victim, distance: ring.distance };
                    self.trace(slot.idx, begun, now(), kind);
                }
                return Some(found);
            }
        }
        None
    }

    /// Takes a new request from the global queue and makes this node its home.
    fn adopt(self: &Arc<Self>, slot: &mut Slot, new_tasks: &mut NewTasks) -> Option<Task> {
        let model = self.global.pop()?;
        debug_assert_eq!(
            model.home.load(Ordering::Relaxed),
            HOMELESS,
            "the oldest new request has a home already"
        );
        debug_assert!(new_tasks.is_empty(), "tasks of another request were not planned");
        model.home.store(slot.node, Ordering::Relaxed);
        model.start(new_tasks);
        model.take_tokens(new_tasks.len());
        let tasks = new_tasks.drain().map(|(cell, _)| Task { model: Arc::clone(&model), cell });
        self.queues[slot.node].push_all(model.id(), tasks);
        self.release(&model);
        let task = self.queues[slot.node].pop();
        // This slot takes one; slots that wake take the others.
        let waiting = self.queues[slot.node].len();
        if waiting > 0 && !slot.searching {
            self.crew.publish_one_of(waiting, slot.node, Some(slot.idx));
        }
        count(&self.slots[slot.idx].counters.from_node);
        task
    }

    /// Gives a token of a request back, and settles the request when it was the last.
    pub(super) fn release(&self, model: &Arc<Model>) {
        if model.release() {
            let Some(mut new_tasks) = model.settle() else {
                self.deadlines.remove(model.id());
                self.register.leave(model.id());
                model.conclude();
                return;
            };
            debug_assert!(!new_tasks.is_empty(), "a request that continues has no task: it would never end");
            model.take_tokens(new_tasks.len());
            for (cell, _) in new_tasks.drain() {
                self.plan_regular(Task { model: Arc::clone(model), cell });
            }
        }
    }
}

/// The oldest item of a deque.
fn steal_from<T>(stealer: &Stealer<T>) -> Option<T> {
    loop {
        match stealer.steal() {
            Steal::Success(item) => return Some(item),
            // Another thief was faster: that one has an item, so this loop ends.
            Steal::Retry => std::hint::spin_loop(),
            Steal::Empty => return None,
        }
    }
}
