//! What a thread of the scheduler does: it holds a slot and runs tasks, or is parked as a backup, or blocks.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::time::Instant;

use super::blocking::{Admission, Permit};
use super::queues::Task;
use super::slot::{GivenAway, Message, Seat, Slot};
use super::{Scheduler, count};
use crate::model::{After, Detacher, Model, Woken, WokenBy};
use crate::operator::Cancelled;
use crate::statistics::TraceKind;
use crate::sync::Ordering;
use crate::topology::pin_current_thread;

/// One thread.
pub(super) struct Worker {
    scheduler: Arc<Scheduler>,
    seat: Seat,
    slot: Option<Box<Slot>>,
    pinned: Option<usize>,
}

impl Worker {
    pub(super) fn new(scheduler: Arc<Scheduler>, seat: Seat) -> Self {
        Self { scheduler, seat, slot: None, pinned: None }
    }

    /// The thread's life.
    pub(super) fn run(mut self) {
        while self.hold() {
            let scheduler = Arc::clone(&self.scheduler);
            match self.slot.as_mut().and_then(|slot| scheduler.next_task(slot)) {
                Some(task) => {
                    self.run_task(task);
                    self.pass_to_attaching();
                }
                None => self.rest(),
            }
        }
    }

    /// Waits for a slot, unless it holds one. False when the runtime shuts down.
    fn hold(&mut self) -> bool {
        if self.slot.is_some() {
            return true;
        }
        match self.seat.take() {
            Message::Slot(slot) => {
                self.receive(slot);
                true
            }
            Message::Exit => false,
        }
    }

    fn receive(&mut self, slot: Box<Slot>) {
        if self.scheduler.pin
            && let Some(os_idx) = self.scheduler.topology.os_idx(slot.idx)
            && self.pinned != Some(os_idx)
        {
            // A refusal (a changed cpuset, say) leaves the thread where the system puts it.
            self.pinned = pin_current_thread(os_idx).then_some(os_idx);
        }
        self.slot = Some(slot);
    }

    fn run_task(&mut self, mut task: Task) {
        let scheduler = Arc::clone(&self.scheduler);
        let class = match task.model.blocking(task.cell) {
            Some(name) => Some(scheduler.class(name)),
            None => None,
        };
        if let Some(class) = &class
            && !task.model.permit(task.cell).load(Ordering::Acquire)
        {
            match class.admit(task) {
                Admission::Permitted(admitted) => {
                    admitted.model.permit(admitted.cell).store(true, Ordering::Relaxed);
                    task = admitted;
                }
                Admission::Draining(admitted) => task = admitted,
                Admission::Later => return,
            }
        }
        let Task { model, cell } = task;
        let was_stopping = model.is_stopping();
        let begun = scheduler.traced.then(Instant::now);
        let slot_idx = self.slot.as_ref().map_or(0, |slot| slot.idx);
        count(&scheduler.slots[slot_idx].counters.tasks);
        let mut woken = Woken::default();
        let after = model.fire(cell, self, &mut woken);
        if let Some(begun) = begun {
            let kind = TraceKind::Firing { name: model.box_name(cell).to_owned(), request: model.id().0 };
            scheduler.trace(slot_idx, begun, kind);
        }
        // A permit that the firing did not use goes back before the box's next task can be seen.
        if let Some(class) = &class
            && model.permit(cell).swap(false, Ordering::AcqRel)
        {
            scheduler.release_permit(class);
        }
        if let Some(slot) = &self.slot {
            scheduler.plan(slot, &model, &mut woken);
            match after {
                After::Again(WokenBy::Input) => {
                    scheduler.plan_immediate(slot, Task { model: Arc::clone(&model), cell })
                }
                After::Again(WokenBy::Room) => {
                    scheduler.plan_regular(Task { model: Arc::clone(&model), cell })
                }
                After::Ended => scheduler.release(&model),
            }
        }
        if !was_stopping && model.is_stopping() {
            scheduler.drain_waiters(&model);
        }
    }

    /// At a task's end: whoever waits to attach comes first.
    fn pass_to_attaching(&mut self) {
        let scheduler = &self.scheduler;
        if scheduler.attaching.load(Ordering::Acquire) == 0 {
            return;
        }
        let receiver = scheduler.pool.lock().pass_to_attaching(&self.seat);
        if let (Some(receiver), Some(slot)) = (receiver, self.slot.take_if(|_| true)) {
            scheduler.attaching.fetch_sub(1, Ordering::AcqRel);
            count(&scheduler.slots[slot.idx].counters.hand_overs);
            receiver.put(Message::Slot(slot));
        }
    }

    /// Nothing was found: the slot rests (or goes to a thread that waits to attach), the thread is a backup.
    fn rest(&mut self) {
        let Some(mut slot) = self.slot.take() else { return };
        let scheduler = &self.scheduler;
        let (idx, node) = (slot.idx, slot.node);
        let searched = std::mem::take(&mut slot.searching);
        let (receiver, left) = {
            let mut pool = scheduler.pool.lock();
            match pool.pass_to_attaching(&self.seat) {
                Some(receiver) => (Some(receiver), Some(slot)),
                None => {
                    scheduler.nodes[node].sleep.sleep();
                    (None, pool.rest(slot, &self.seat))
                }
            }
        };
        count(&scheduler.slots[idx].counters.parks);
        match (receiver, left) {
            (Some(receiver), Some(slot)) => {
                scheduler.attaching.fetch_sub(1, Ordering::AcqRel);
                receiver.put(Message::Slot(slot));
            }
            // The runtime shuts down: the slot is dropped, and this thread ends itself.
            (None, Some(_)) => return self.seat.put(Message::Exit),
            _ => {}
        }
        if searched {
            scheduler.nodes[node].sleep.end_search();
        }
        // The last look: whoever published before the word said that we rest has woken nobody.
        if scheduler.any_work() {
            scheduler.publish(node, Some(idx));
        }
    }

    /// Gives the slot away before blocking; it comes back when the thread cap is reached.
    fn give_away(&mut self) -> Option<Box<Slot>> {
        let slot = self.slot.take()?;
        let scheduler = &self.scheduler;
        let (idx, node) = (slot.idx, slot.node);
        count(&scheduler.slots[idx].counters.hand_overs);
        let given = {
            let mut pool = scheduler.pool.lock();
            if let Some(receiver) = pool.next_attaching() {
                scheduler.attaching.fetch_sub(1, Ordering::AcqRel);
                receiver.put(Message::Slot(slot));
                GivenAway::Gone
            } else {
                let given = pool.give_away(slot, !scheduler.any_work());
                if matches!(given, GivenAway::Rests) {
                    scheduler.nodes[node].sleep.sleep();
                }
                given
            }
        };
        match given {
            GivenAway::Gone => None,
            GivenAway::Rests => {
                if scheduler.any_work() {
                    scheduler.publish(node, Some(idx));
                }
                None
            }
            // When the system has no thread left, the task blocks holding its slot.
            GivenAway::NeedsThread(slot) => scheduler.spawn(slot).err().map(|(_, slot)| slot),
            GivenAway::Kept(slot) => Some(slot),
        }
    }

    /// Waits for a slot after blocking, preferring the old node.
    fn attach(&mut self, model: &Model, old: (usize, usize)) {
        let (idx, node) = old;
        let rested = {
            let scheduler = &self.scheduler;
            let mut pool = scheduler.pool.lock();
            let rank = |slot: &Slot| Some(usize::from(slot.node != node) * 2 + usize::from(slot.idx != idx));
            let rested = pool.take_resting(rank);
            match &rested {
                Some(slot) => scheduler.nodes[slot.node].sleep.rouse(),
                None => {
                    pool.attach_later(model.id(), &self.seat);
                    scheduler.attaching.fetch_add(1, Ordering::AcqRel);
                }
            }
            rested
        };
        let slot = match rested {
            Some(slot) => slot,
            None => match self.seat.take() {
                Message::Slot(slot) => slot,
                // A runtime shuts down only after its requests have ended, and this one has not.
                Message::Exit => unreachable!("a runtime shut down while a closure was detached"),
            },
        };
        self.receive(slot);
    }
}

impl Detacher for Worker {
    fn detached(
        &mut self,
        model: &Arc<Model>,
        cell: usize,
        class_name: &str,
        woken: &mut Woken,
        f: &mut dyn FnMut(),
    ) -> Result<(), Cancelled> {
        let scheduler = Arc::clone(&self.scheduler);
        let Some(slot) = &self.slot else { unreachable!("a task detached twice") };
        let old = (slot.idx, slot.node);
        scheduler.plan(slot, model, woken);
        let class = scheduler.class(class_name);
        let reserved =
            model.blocking(cell) == Some(class_name) && model.permit(cell).swap(false, Ordering::AcqRel);
        let permitted = reserved || class.try_acquire();
        let begun = Instant::now();
        let kept = self.give_away();
        let granted = permitted || class.acquire(model.id(), &|| model.is_stopping()) == Permit::Granted;
        let result = granted.then(|| {
            let result = catch_unwind(AssertUnwindSafe(f));
            // Given back before attaching: the device must not idle while this thread waits for a slot.
            scheduler.release_permit(&class);
            result
        });
        if scheduler.traced {
            let name = model.box_name(cell).to_owned();
            let kind = TraceKind::Detached { name, class: class_name.to_owned(), request: model.id().0 };
            scheduler.trace(old.0, begun, kind);
        }
        match kept {
            Some(slot) => self.slot = Some(slot),
            None => self.attach(model, old),
        }
        match result {
            None => Err(Cancelled),
            Some(Ok(())) => Ok(()),
            Some(Err(panic)) => resume_unwind(panic),
        }
    }
}
