//! The scheduler: slots, queues and the threads that run tasks. runtime/README.md describes its protocol.
//!
//! Each file takes one decision:
//! - `sleep.rs`: whether a publisher wakes a thread; `slot.rs`: which thread holds a slot; `crew.rs`: both together;
//! - `search.rs`: the order in which a slot searches for a task; `queues.rs`: the tasks that wait without a slot;
//! - `blocking.rs`: which tasks may block; `withheld.rs`: the slots that feeding threads take from tasks;
//! - `register.rs`: the requests under way; `deadline.rs`: the end of a request by its deadline;
//! - `worker.rs`: the life of a thread; `tracing.rs`: its events in a trace;
//! - `sampler.rs`: the boxes that block without a declaration.

mod sleep;
pub(crate) mod blocking;
mod queues;
pub(crate) mod slot;
pub(crate) mod crew;
mod register;
mod search;
mod sampler;
mod withheld;
mod worker;
mod tracing;
mod deadline;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use crossbeam_deque::Stealer;

use self::blocking::{Class, Used};
use self::crew::Crew;
use self::deadline::Deadlines;
use self::queues::{GlobalQueue, RequestQueues, Task};
use self::register::Register;
use self::sampler::{OffCpu, Sampler};
use self::slot::{Message, Slot};
use crate::config::Config;
use crate::inside::Branch;
use crate::model::{After, HOMELESS, Model, NewTasks, TaskKind};
use crate::request::{RequestError, RequestId, RequestStatistics};
use crate::statistics::{
    CLASS_LIMIT_AUTO_MAX, ClassLimit, ClassStatistics, SchedulerStatistics, SlotStatistics, TraceEvent,
};
use crate::sync::{AtomicUsize, Counter, Mailbox, Mutex, Ordering, Thread, interleave, now};
use crate::topology::{Distance, Ring, Topology};

/// Operations in flight of a blocking class that the configuration does not name.
const CLASS_LIMIT: ClassLimit = ClassLimit::Fixed(8);

/// The part of a slot that all threads may read, whichever thread holds it.
struct SlotShared {
    stealer: Stealer<Task>,
    branches: Stealer<Branch>,
    rings: Vec<Ring>,
    counters: SlotCounters,
    trace: Mutex<VecDeque<TraceEvent>>,
}

#[derive(Default)]
struct SlotCounters {
    tasks: Counter,
    steals: [Counter; Distance::ALL.len()],
    from_node: Counter,
    from_other_nodes: Counter,
    moved: Counter,
    parks: Counter,
    hand_overs: Counter,
}

/// The scheduler of one runtime.
pub(crate) struct Scheduler {
    crew: Crew,
    pin: bool,
    homes: bool,
    /// The node of the next task, if requests have no home.
    turn: AtomicUsize,
    traced: bool,
    started: Instant,
    slots: Vec<SlotShared>,
    /// By node.
    queues: Vec<RequestQueues>,
    global: GlobalQueue,
    limits: BTreeMap<String, ClassLimit>,
    /// The most that automatic limits may become: each operation takes a thread beside the slots.
    auto_max: usize,
    /// Slots that feeding threads have asked for.
    withheld: AtomicUsize,
    classes: Mutex<BTreeMap<String, Arc<Class<Task>>>>,
    next_request: Counter,
    register: Register,
    deadlines: Deadlines,
    sampler: Sampler,
    /// The threads to be joined; none once the scheduler has shut down.
    threads: Mutex<Option<Vec<Thread>>>,
    /// Numbers given to threads so far.
    thread_numbers: AtomicUsize,
}

impl Scheduler {
    /// Makes the slots and starts a thread for each.
    ///
    /// # Errors
    /// When a thread cannot be started.
    pub(crate) fn start(config: Config) -> std::io::Result<Arc<Self>> {
        let (crew, slots) = Crew::new(config.topology, config.threads_max);
        debug_assert!(!slots.is_empty(), "a scheduler without a slot would run nothing");
        debug_assert!(
            slots.iter().enumerate().all(|(place, slot)| slot.idx == place),
            "a slot's number is not its place: its counters would be another slot's"
        );
        debug_assert!(
            slots.iter().all(|slot| slot.node < crew.topology.nodes().len()),
            "a slot is on a node that the machine does not have"
        );
        let shared = slots.iter().map(|slot| SlotShared {
            stealer: slot.deque.stealer(),
            branches: slot.branches.stealer(),
            rings: crew.topology.steal_rings(slot.idx),
            counters: SlotCounters::default(),
            trace: Mutex::new(VecDeque::new()),
        });
        let scheduler = Arc::new(Self {
            pin: config.pin,
            homes: config.homes,
            turn: AtomicUsize::new(0),
            traced: config.trace,
            started: now(),
            slots: shared.collect(),
            queues: crew.topology.nodes().iter().map(|_| RequestQueues::new()).collect(),
            global: GlobalQueue::new(),
            limits: config.blocking,
            auto_max: CLASS_LIMIT_AUTO_MAX.min(config.threads_max.saturating_sub(slots.len())).max(1),
            withheld: AtomicUsize::new(0),
            classes: Mutex::new(BTreeMap::new()),
            next_request: Counter::new(1),
            register: Register::new(),
            deadlines: Deadlines::new(),
            sampler: Sampler::default(),
            threads: Mutex::new(Some(Vec::new())),
            thread_numbers: AtomicUsize::new(0),
            crew,
        });
        for slot in slots {
            scheduler.crew.add_thread();
            if let Err((error, _)) = scheduler.spawn(slot) {
                scheduler.shut_down();
                return Err(error);
            }
        }
        if config.sampler {
            scheduler.sampler.start(&scheduler);
        }
        Ok(scheduler)
    }

    pub(crate) fn topology(&self) -> &Topology {
        &self.crew.topology
    }

    pub(crate) fn next_request(&self) -> RequestId {
        RequestId(self.next_request.fetch_add(1, Ordering::Relaxed))
    }

    /// Takes a new request in. It holds its submission's token.
    pub(crate) fn submit(self: &Arc<Self>, model: Arc<Model>, deadline: Option<Instant>) {
        debug_assert_eq!(
            model.home.load(Ordering::Relaxed),
            HOMELESS,
            "a request that has a home was submitted once more"
        );
        self.register.enter(&model);
        if let Some(deadline) = deadline
            && let Err(error) = self.deadlines.add(self, deadline, &model)
        {
            // The request ends at once with an error, because no thread would end it in time.
            model.fail(RequestError::DeadlineUnwatched { cause: error.to_string() });
        }
        self.global.push(model);
        self.crew.publish(0, None);
    }

    /// Ends a request early. Its waiting closures and tasks leave their queues.
    pub(crate) fn cancel(&self, model: &Arc<Model>, why: RequestError) {
        model.fail(why);
        interleave();
        self.drain_waiters(model);
    }

    /// Removes a stopping request's waiters from the blocking classes, and plans their tasks, which only drain.
    fn drain_waiters(&self, model: &Arc<Model>) {
        debug_assert!(model.is_stopping(), "the waiters of a request that continues were removed");
        let classes: Vec<_> = self.classes.lock().values().cloned().collect();
        for class in classes {
            for task in class.cancel(model.id()) {
                self.plan_regular(task);
            }
        }
    }

    /// The blocking class of a name, made when it is first asked for.
    fn class(&self, name: &str) -> Arc<Class<Task>> {
        let mut classes = self.classes.lock();
        if let Some(class) = classes.get(name) {
            return Arc::clone(class);
        }
        let limit = self.limits.get(name).copied().unwrap_or(CLASS_LIMIT);
        let class = Arc::new(Class::new(name, limit, self.auto_max));
        classes.insert(name.to_owned(), Arc::clone(&class));
        class
    }

    /// Gives a permit back; tasks that get one now are planned with it.
    fn release_permit(&self, class: &Class<Task>, used: Used) {
        interleave();
        for task in class.release(used) {
            if self.traced {
                task.model.end_permit_wait(task.cell);
            }
            debug_assert!(
                !task.model.permit(task.cell).load(Ordering::Relaxed),
                "a task that has a permit got another one, which would never come back"
            );
            task.model.permit(task.cell).store(true, Ordering::Release);
            self.plan_regular(task);
            self.take_permits_back(class);
        }
    }

    /// A thread that waits for a permit holding its slot gets the permits of tasks that have not started: they might
    /// wait for that slot. Called when such a thread has begun to wait, and when such a task has been planned: one of
    /// the two sees the other, as both went through the locks of the class and of the queues.
    fn take_permits_back(&self, class: &Class<Task>) {
        let taken = |task: &Task| {
            task.model.blocking(task.cell) == Some(&class.name)
                && task.model.permit(task.cell).swap(false, Ordering::AcqRel)
        };
        while class.blocks_a_slot() && self.queues.iter().any(|queues| queues.any(taken)) {
            self.release_permit(class, Used::Not);
        }
    }

    /// Plans the tasks of a firing, at its end. The firing's token moves to one of them, and the slot's holder runs the
    /// first of them next. Without a task the token goes back.
    #[inline]
    fn plan_after(&self, slot: &mut Slot, task: Task, after: After, new_tasks: &mut NewTasks) {
        let Task { model, cell } = task;
        debug_assert!(
            slot.next.is_none(),
            "a firing ended on a slot that had its next task already: it is lost"
        );
        let tasks = new_tasks.len() + usize::from(after != After::Ended);
        if tasks == 0 {
            self.release(&model);
            return;
        }
        model.take_tokens(tasks - 1);
        // A task whose data lie on another node is not the next task of this slot.
        let stays = |cell: usize| self.stays(&model, cell, slot.node);
        let mut next = new_tasks.take_first_immediate(stays);
        if next.is_none() && after == After::Again(TaskKind::Immediate) && stays(cell) {
            next = Some(cell);
        } else if let After::Again(kind) = after {
            self.plan_task(slot, Task { model: Arc::clone(&model), cell }, kind, next.is_some());
        }
        self.plan_all(slot, &model, new_tasks, next.is_some());
        slot.next = next.map(|cell| Task { model, cell });
    }

    /// Plans the tasks that a firing has made so far. The firing continues without its slot, or keeps the slot `busy`.
    fn plan_early(&self, slot: &Slot, model: &Arc<Model>, new_tasks: &mut NewTasks, busy: bool) {
        model.take_tokens(new_tasks.len());
        self.plan_all(slot, model, new_tasks, busy);
    }

    /// Plans tasks: immediate ones on the slot that made them, the rest on their node. `busy`: the owner of the slot
    /// has something else to run next.
    fn plan_all(&self, slot: &Slot, model: &Arc<Model>, new_tasks: &mut NewTasks, busy: bool) {
        // Reversed: the owner takes the last one pushed, which is then the first that was made.
        for (cell, kind) in new_tasks.drain().rev() {
            self.plan_task(slot, Task { model: Arc::clone(model), cell }, kind, busy);
        }
    }

    /// Whether a box's tasks may run on a node: its data are on no other one.
    #[inline]
    fn stays(&self, model: &Model, cell: usize, node: usize) -> bool {
        self.queues.len() == 1 || model.near(cell).is_none_or(|near| near == node)
    }

    fn plan_task(&self, slot: &Slot, task: Task, kind: TaskKind, busy: bool) {
        match kind {
            TaskKind::Regular => self.plan_regular(task),
            TaskKind::Immediate if !self.stays(&task.model, task.cell, slot.node) => self.plan_regular(task),
            TaskKind::Immediate => {
                // The first task wakes no thread: the owner takes it next.
                let known = busy || !slot.deque.is_empty();
                slot.deque.push(task);
                if known {
                    // Without the task that the owner takes; thieves may have taken all by now.
                    let waiting = slot.deque.len().saturating_sub(usize::from(!busy));
                    self.crew.publish_one_of(waiting, slot.node, Some(slot.idx));
                }
            }
        }
    }

    /// Work that a box had begun outside of its firings is over; any thread may call this. The work's token moves to
    /// the box's new task, or goes back if the box has a task already.
    fn outside_is_over(&self, model: Arc<Model>, cell: usize) {
        interleave();
        if model.notify_of_outside(cell) {
            self.plan_regular(Task { model, cell });
        } else {
            self.release(&model);
        }
    }

    /// Plans a task where its data are, else on its request's home node.
    fn plan_regular(&self, task: Task) {
        let place = task.model.near(task.cell).unwrap_or_else(|| task.model.home.load(Ordering::Relaxed));
        let home = match place {
            home if self.homes && home < self.queues.len() => home,
            _ => self.turn.fetch_add(1, Ordering::Relaxed) % self.queues.len(),
        };
        self.queues[home].push(task);
        self.crew.publish(home, None);
    }

    /// Whether any task waits anywhere.
    fn any_work(&self) -> bool {
        !self.global.is_empty()
            || self.queues.iter().any(|queues| !queues.is_empty())
            || self.slots.iter().any(|slot| !slot.stealer.is_empty() || !slot.branches.is_empty())
    }

    /// Starts a thread that holds a slot from the start. It is counted already.
    fn spawn(self: &Arc<Self>, slot: Slot) -> Result<(), (std::io::Error, Slot)> {
        debug_assert!(
            slot.next.is_none() && !slot.searching,
            "a slot that has a next task or searches was given to a new thread"
        );
        let seat = Arc::new(Mailbox::new());
        let number = self.thread_numbers.fetch_add(1, Ordering::Relaxed);
        interleave();
        let name = format!("boxwork-{number}");
        let worker = worker::Worker::new(Arc::clone(self), Arc::clone(&seat), number);
        let handle = match Thread::spawn(name, move || worker.run()) {
            Ok(handle) => handle,
            Err(error) => {
                self.crew.drop_thread();
                return Err((error, slot));
            }
        };
        if let Some(threads) = &mut *self.threads.lock() {
            threads.push(handle);
            seat.put(Message::Slot(slot));
            return Ok(());
        }
        // The scheduler has shut down meanwhile: no other thread joins this one, and the slot has nothing left to run.
        seat.put(Message::Exit);
        let _ = handle.join();
        Ok(())
    }

    /// Counts time off the CPU in a firing that has not detached.
    fn count_undeclared(&self, off: OffCpu) {
        if let Some(model) = self.register.find(|id| off.mark.is_of(id)) {
            model.count_undeclared(off.mark.cell(), off.more, off.whole);
        }
    }

    /// The statistics so far of the requests under way.
    pub(crate) fn request_statistics(&self) -> Vec<RequestStatistics> {
        self.register.all().iter().map(|model| model.statistics()).collect()
    }

    pub(crate) fn statistics(&self) -> SchedulerStatistics {
        let rested = self.crew.rested_ns();
        let read = |counter: &Counter| counter.load(Ordering::Relaxed);
        let slots = self.slots.iter().enumerate().map(|(idx, slot)| {
            let counters = &slot.counters;
            let mut steals = [0; Distance::ALL.len()];
            for (steals, counter) in steals.iter_mut().zip(&counters.steals) {
                *steals = read(counter);
            }
            SlotStatistics {
                tasks: read(&counters.tasks),
                steals,
                from_node: read(&counters.from_node),
                from_other_nodes: read(&counters.from_other_nodes),
                requests_moved: read(&counters.moved),
                parks: read(&counters.parks),
                wakes: self.crew.wakes(idx),
                hand_overs: read(&counters.hand_overs),
                rested_ns: rested[idx],
            }
        });
        let classes: Vec<ClassStatistics> =
            self.classes.lock().values().map(|class| class.statistics()).collect();
        SchedulerStatistics {
            slots: slots.collect(),
            classes,
            threads: self.crew.threads(),
            requests: self.register.len(),
            deadlines: self.deadlines.count(),
            queued: self.queues.iter().map(RequestQueues::len).collect(),
            elapsed: now().saturating_duration_since(self.started),
        }
    }

    /// Whether the calling thread is one of its own.
    pub(crate) fn is_on_own_thread(&self) -> bool {
        self.threads.lock().iter().flatten().any(Thread::is_current)
    }

    /// Cancels what runs, waits for it, and ends the threads.
    pub(crate) fn shut_down(&self) {
        let alive = self.register.all();
        for model in &alive {
            self.cancel(model, RequestError::Cancelled);
        }
        for model in &alive {
            model.wait(None);
        }
        self.deadlines.stop();
        self.sampler.stop();
        self.crew.exit();
        // No lock is held while a thread ends: it may still start to rest.
        let threads = self.threads.lock().take();
        for thread in threads.into_iter().flatten() {
            // A worker catches the panics of boxes; a panic of its own is a broken invariant and was printed.
            let _ = thread.join();
        }
    }
}

/// Adds one to a counter that only the holder of its slot writes: no locked instruction is needed.
fn count_own(counter: &Counter) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
}

/// Adds one to a counter.
fn count(counter: &Counter) {
    counter.fetch_add(1, Ordering::Relaxed);
}
