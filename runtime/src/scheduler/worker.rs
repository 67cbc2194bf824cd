//! A thread of the scheduler: it holds a slot and runs tasks, or is parked as a backup, or blocks.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::time::Instant;

use super::blocking::{Admission, Class, Entered, Permit, Used};
use super::crew::GivenAway;
use super::queues::Task;
use super::sampler::CurrentFiring;
use super::search::Found;
use super::slot::{Message, Seat, Slot};
use super::withheld::Lender;
use super::{Scheduler, count, count_own};
use crate::inside::{Branch, Lane, Latch};
use crate::model::{After, Detacher, Model, NewTasks};
use crate::operator::{Cancelled, Outside};
use crate::sync::{Ordering, interleave, now};
use crate::topology::pin_current_thread;

/// Checks of a branch's latch before the thread parks: about as long as parking takes.
const SPINS_BEFORE_PARKING: usize = 500;
/// Latch checks between two attempts to steal from the thread that runs the branch. Stealing touches that thread's cache
/// lines, so it is done rarely.
const SPINS_BEFORE_HELPING: usize = 16;

/// The instants of a closure that blocked, in their order.
pub(super) struct Blocked {
    pub(super) begun: Instant,
    pub(super) permitted: Instant,
    pub(super) returned: Instant,
}

/// One thread.
pub(super) struct Worker {
    pub(super) scheduler: Arc<Scheduler>,
    seat: Seat,
    pub(super) slot: Option<Slot>,
    pinned: Option<usize>,
    pub(super) number: usize,
    /// The firing that the sampler sees.
    current: Arc<CurrentFiring>,
    /// The time at which the running part of a firing began on this slot, for a trace.
    pub(super) part_begun: Option<Instant>,
}

impl Worker {
    pub(super) fn new(scheduler: Arc<Scheduler>, seat: Seat, number: usize) -> Self {
        let current = Arc::new(CurrentFiring::default());
        scheduler.sampler.add(&current);
        Self { scheduler, seat, slot: None, pinned: None, number, current, part_begun: None }
    }

    /// The thread's life.
    pub(super) fn run(mut self) {
        let _guard = AbortOnPanic;
        self.current.attach_thread();
        let scheduler = Arc::clone(&self.scheduler);
        let any_work = || scheduler.any_work();
        // Empty between tasks; it keeps its memory.
        let mut new_tasks = NewTasks::default();
        while self.hold() {
            interleave();
            // Threads that wait to attach come before new tasks.
            scheduler.crew.pass_to_attaching(&mut self.slot, &self.seat, any_work);
            let Some(slot) = &mut self.slot else {
                new_tasks.forget_clock();
                continue;
            };
            if let Some(found) = scheduler.next(slot, &mut new_tasks) {
                self.run_found(&scheduler, found, &mut new_tasks);
                continue;
            }
            new_tasks.forget_clock();
            if let Some(slot) = self.slot.take() {
                count(&scheduler.slots[slot.idx].counters.parks);
                interleave();
                scheduler.crew.rest(slot, &self.seat, any_work);
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

    fn receive(&mut self, slot: Slot) {
        debug_assert!(self.slot.is_none(), "a thread that holds a slot got another one: that one is lost");
        if self.scheduler.pin
            && let Some(os_idx) = self.scheduler.topology().os_idx(slot.idx)
            && self.pinned != Some(os_idx)
        {
            // A refusal (a changed cpuset, say) leaves the thread where the system puts it.
            self.pinned = pin_current_thread(os_idx).then_some(os_idx);
        }
        self.slot = Some(slot);
        self.scheduler.sampler.rouse();
    }

    #[expect(unsafe_code, reason = "the worker vouches for what it has found")]
    fn run_found(&mut self, scheduler: &Arc<Scheduler>, found: Found, new_tasks: &mut NewTasks) {
        debug_assert!(
            self.slot.as_ref().is_some_and(|slot| !slot.searching),
            "a thread runs what it has found without a slot, or with one that counts as searching"
        );
        match found {
            Found::Task(task) => self.run_task(scheduler, task, new_tasks),
            Found::Branch(branch) => {
                new_tasks.forget_clock();
                let begun = scheduler.traced.then(now);
                // SAFETY: it was just taken from a deque of branches.
                unsafe { branch.run(self) };
                if let Some(begun) = begun {
                    self.trace_branch(begun);
                }
            }
        }
    }

    #[inline]
    fn run_task(&mut self, scheduler: &Arc<Scheduler>, mut task: Task, new_tasks: &mut NewTasks) {
        debug_assert!(new_tasks.is_empty(), "tasks that an earlier firing has made were not planned");
        if task.model.blocks(task.cell) || scheduler.traced {
            return self.run_admitted(scheduler, task, new_tasks);
        }
        let was_stopping = task.model.is_stopping();
        let after = loop {
            if let Some(slot) = &self.slot {
                count_own(&scheduler.slots[slot.idx].counters.tasks);
            }
            self.current.begin(task.model.id(), task.cell);
            let after = self.fire(&task, new_tasks);
            // A box that has pushed to one other box, and has no task of its own left, hands its token on. `plan_after`
            // and `next` would give this result at a higher cost.
            let Some(slot) = self.slot.as_mut().filter(|_| after == After::Ended) else { break after };
            let goes_on =
                |cell: usize| !task.model.blocks(cell) && scheduler.stays(&task.model, cell, slot.node);
            if scheduler.is_due(slot) || scheduler.crew.is_awaited() {
                break after;
            }
            let Some(cell) = new_tasks.take_only_immediate(goes_on) else { break after };
            slot.ticks += 1;
            task.cell = cell;
            interleave();
        };
        debug_assert!(self.slot.is_some(), "a firing ended without a slot: its token would never come back");
        self.current.end();
        let stopped = (!was_stopping && task.model.is_stopping()).then(|| Arc::clone(&task.model));
        if let Some(slot) = &mut self.slot {
            scheduler.plan_after(slot, task, after, new_tasks);
        }
        if let Some(model) = stopped {
            scheduler.drain_waiters(&model);
        }
    }

    /// Like `run_task`, for a box that needs a permit, or with a trace.
    fn run_admitted(&mut self, scheduler: &Arc<Scheduler>, mut task: Task, new_tasks: &mut NewTasks) {
        let class = task.model.blocking(task.cell).map(|name| scheduler.class(name));
        if let Some(class) = &class
            && !task.model.permit(task.cell).load(Ordering::Acquire)
        {
            if scheduler.traced {
                task.model.begin_permit_wait(task.cell);
            }
            match class.admit(task.model.id(), task, |task| task.model.is_stopping()) {
                Admission::Permitted(admitted) => {
                    let had = admitted.model.permit(admitted.cell).swap(true, Ordering::Relaxed);
                    debug_assert!(
                        !had,
                        "a task that was admitted had a permit already: one never comes back"
                    );
                    task = admitted;
                }
                Admission::Draining(admitted) => task = admitted,
                Admission::Later => return,
            }
        }
        let (model, cell) = (&task.model, task.cell);
        let was_stopping = model.is_stopping();
        debug_assert!(self.part_begun.is_none(), "a firing begins while a part of another one is recorded");
        self.part_begun = scheduler.traced.then(now);
        if let Some(class) = class.as_ref().filter(|_| scheduler.traced) {
            self.trace_permit(model, cell, &class.name);
        }
        let permit_begun = class.as_ref().map(|_| now());
        debug_assert!(self.slot.is_some(), "a task runs on a thread without a slot");
        let slot_idx = self.slot.as_ref().map_or(0, |slot| slot.idx);
        count_own(&scheduler.slots[slot_idx].counters.tasks);
        // A box that declares its class may block.
        if class.is_none() {
            self.current.begin(model.id(), cell);
        }
        let after = self.fire(&task, new_tasks);
        self.current.end();
        if scheduler.traced {
            self.trace_part(model, cell, now());
        }
        // A permit that the firing used without detaching, or not at all, goes back before the box's next task can be
        // seen.
        if let Some(class) = &class
            && model.permit(cell).swap(false, Ordering::AcqRel)
        {
            scheduler.release_permit(
                class,
                permit_begun.map_or(Used::Not, |begun| Used::For(now().saturating_duration_since(begun))),
            );
        }
        let stopped = (!was_stopping && model.is_stopping()).then(|| Arc::clone(model));
        if let Some(slot) = &mut self.slot {
            scheduler.plan_after(slot, task, after, new_tasks);
        }
        if let Some(model) = stopped {
            scheduler.drain_waiters(&model);
        }
    }

    #[expect(unsafe_code, reason = "the worker vouches for its task")]
    #[inline]
    fn fire(&mut self, task: &Task, new_tasks: &mut NewTasks) -> After {
        // SAFETY: a `Task` is made for each box that a notification or the end of a firing has given one, and is moved
        // through queues that synchronise until it is here; nothing clones it.
        unsafe { task.model.fire(task.cell, self, new_tasks) }
    }

    /// Gives the slot away before blocking; it comes back when the thread cap is reached.
    fn give_away(&mut self) -> Option<Slot> {
        let slot = self.slot.take()?;
        debug_assert!(slot.next.is_none(), "a closure blocks while its slot keeps a task from the others");
        let scheduler = &self.scheduler;
        count(&scheduler.slots[slot.idx].counters.hand_overs);
        match scheduler.crew.give_away(slot, || scheduler.any_work()) {
            GivenAway::Gone => None,
            GivenAway::NeedsThread(slot) => scheduler.spawn(slot).err().map(|(_, slot)| {
                // The system has no thread left: the task blocks holding its slot.
                scheduler.crew.publish_left(&slot);
                slot
            }),
            GivenAway::Kept(slot) => Some(slot),
        }
    }

    /// Waits for a slot after blocking, preferring the old node.
    fn attach(&mut self, model: &Model, old: (usize, usize)) {
        let rested = self.scheduler.crew.attach(model.id(), &self.seat, old);
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

    /// Waits for a permit; a thread at the cap has kept its slot.
    fn permit(&self, model: &Model, class: &Class<Task>, kept: bool) -> Permit {
        match class.enter(model.id(), kept, || model.is_stopping()) {
            Entered::Now(permit) => permit,
            Entered::Waits(mailbox) => {
                if kept {
                    self.scheduler.take_permits_back(class);
                }
                mailbox.take()
            }
        }
    }
}

/// A panic outside of the boxes is a broken invariant: a thread that ended so would keep its slot for ever.
struct AbortOnPanic;

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::process::abort();
        }
    }
}

impl Lane for Worker {
    fn push(&mut self, branch: Branch) {
        let Some(slot) = &self.slot else { unreachable!("a branch was made without a slot") };
        slot.branches.push(branch);
        self.scheduler.crew.publish_branch(slot);
    }

    fn pop(&mut self) -> Option<Branch> {
        self.slot.as_ref()?.branches.pop()
    }

    fn slot(&self) -> Option<usize> {
        self.slot.as_ref().map(|slot| slot.idx)
    }

    fn slots(&self) -> usize {
        self.scheduler.slots.len()
    }

    fn near(&mut self, visit: &mut dyn FnMut(usize) -> bool) {
        let Some(slot) = &mut self.slot else { return };
        for ring in &self.scheduler.slots[slot.idx].rings {
            let start = slot.random(ring.slots.len());
            let (before, after) = ring.slots.split_at(start);
            if after.iter().chain(before).any(|other| visit(*other)) {
                return;
            }
        }
    }

    fn is_awaited(&self) -> bool {
        self.scheduler.crew.is_awaited()
    }

    fn wait(&mut self, latch: &Latch) {
        self.wait_helping(latch, false);
    }

    fn help(&mut self, latch: &Latch) {
        self.wait_helping(latch, true);
    }
}

impl Worker {
    /// Waits for a latch. If `helps`, the thread meanwhile runs parts that the branch behind the latch has made.
    fn wait_helping(&mut self, latch: &Latch, mut helps: bool) {
        let mut looks = 0;
        while looks < SPINS_BEFORE_PARKING {
            if latch.is_set() {
                return;
            }
            std::hint::spin_loop();
            looks += 1;
            if helps && looks.is_multiple_of(SPINS_BEFORE_HELPING) {
                match self.run_part(latch) {
                    Part::Run => looks = 0,
                    Part::Foreign => helps = false,
                    Part::None => {}
                }
            }
        }
        // This thread keeps the slot, idle. Another holder could wait for a lock that this firing holds, and this thread
        // would then wait for ever to get the slot back. Other slots take the tasks planned on it.
        let Some(slot) = &self.slot else { unreachable!("a thread waits for a branch without a slot") };
        self.scheduler.crew.publish_left(slot);
        let mark = self.current.end();
        latch.park();
        self.current.resume(mark);
    }

    /// Runs a part of a branch of a join that another slot has stolen.
    ///
    /// The deque of that slot had no branch of a join when the stolen branch began: a waiting join has lost all older branches
    /// to thieves, and a slot that searches takes its own branches first. So a branch of a join in that deque was made by the
    /// stolen branch. A branch of a scope may belong to a scope outside of it.
    #[expect(unsafe_code, reason = "the worker vouches for what it has found")]
    fn run_part(&mut self, latch: &Latch) -> Part {
        interleave();
        let (Some(slot), Some(thief)) = (&self.slot, latch.slot()) else { return Part::None };
        let from = &self.scheduler.slots[thief].branches;
        if from.is_empty() {
            return Part::None;
        }
        let Some(branch) = latch.hold_up(|| from.steal().success()).flatten() else { return Part::None };
        debug_assert_ne!(
            slot.idx, thief,
            "a slot that a thread keeps while it waits was used by another one"
        );
        let distance = self.scheduler.topology().distance(slot.idx, thief);
        count(&self.scheduler.slots[slot.idx].counters.steals[distance as usize]);
        if !branch.is_of_join() {
            // Any slot may take it, as before.
            self.push(branch);
            return Part::Foreign;
        }
        // SAFETY: it was just taken from a deque of branches.
        unsafe { branch.run(self) };
        Part::Run
    }
}

/// The result of a waiting thread's search for parts of its branch.
enum Part {
    Run,
    None,
    /// Something that may not be of that branch.
    Foreign,
}

impl Detacher for Worker {
    fn plan(&mut self, model: &Arc<Model>, new_tasks: &mut NewTasks) {
        let Some(slot) = &self.slot else { unreachable!("a task continued without its slot") };
        self.scheduler.plan_early(slot, model, new_tasks, true);
    }

    fn node(&self) -> usize {
        self.slot.as_ref().map_or(0, |slot| slot.node)
    }

    fn detached(
        &mut self,
        model: &Arc<Model>,
        cell: usize,
        class_name: &str,
        new_tasks: &mut NewTasks,
        f: &mut dyn FnMut(),
    ) -> Result<(), Cancelled> {
        let scheduler = Arc::clone(&self.scheduler);
        let Some(slot) = &self.slot else { unreachable!("a task detached twice") };
        let old = (slot.idx, slot.node);
        let mark = self.current.end();
        scheduler.plan_early(slot, model, new_tasks, false);
        let class = scheduler.class(class_name);
        let mut reserved = model.permit(cell).swap(false, Ordering::AcqRel);
        if let Some(declared) = model.blocking(cell).filter(|declared| reserved && *declared != class_name) {
            // If it were held while waiting for another class, two boxes could wait for each other.
            scheduler.release_permit(&scheduler.class(declared), Used::Not);
            reserved = false;
        }
        let permitted = reserved || class.try_acquire();
        let begun = now();
        self.trace_part(model, cell, begun);
        let kept = self.give_away();
        let granted = permitted || self.permit(model, &class, kept.is_some()) == Permit::Granted;
        let permitted = now();
        let result = granted.then(|| {
            let result = catch_unwind(AssertUnwindSafe(f));
            // The permit goes back before attaching: the device must not idle while this thread waits for a slot.
            scheduler.release_permit(&class, Used::For(now().saturating_duration_since(permitted)));
            result
        });
        let returned = now();
        match kept {
            Some(slot) => self.slot = Some(slot),
            None => self.attach(model, old),
        }
        debug_assert!(new_tasks.is_empty(), "a closure that blocked has made tasks of its own firing");
        debug_assert!(
            self.slot.as_ref().is_some_and(|slot| slot.next.is_none()),
            "a firing continues with a slot that has a next task: it would be lost at the firing's end"
        );
        self.current.resume(mark);
        if scheduler.traced {
            self.trace_blocked(model, cell, class_name, old.0, &Blocked { begun, permitted, returned });
        }
        match result {
            None => Err(Cancelled),
            Some(Ok(())) => Ok(()),
            Some(Err(panic)) => resume_unwind(panic),
        }
    }

    fn outside(&mut self, model: &Arc<Model>, cell: usize) -> Outside {
        // The firing holds a token of its own, so the count cannot have fallen to zero before.
        model.take_tokens(1);
        let (scheduler, model) = (Arc::clone(&self.scheduler), Arc::clone(model));
        let lender = Arc::new(Lender(Arc::clone(&scheduler)));
        Outside::new(move || scheduler.outside_is_over(model, cell)).lent_by(lender)
    }
}
