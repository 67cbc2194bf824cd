//! The state that the threads of a graph share, and their steps: take a task, run it, release its successors.
//!
//! Invariants:
//! - `live` counts the tasks that are ready or run, and the caller until it has put the first ones on a shelf. The caller
//!   returns at zero; no thread touches the graph or the caller's flag unless it holds one of these tasks;
//! - a token holds a reference of this state, so a token that is run after the call finds empty shelves and nothing else;
//! - the caller waits only after a look, under the locks, at empty shelves. A thread that puts a task on a shelf, and the one
//!   that ends the last task, then look for a waiting caller.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{self, NonNull};
use std::sync::Arc;

use super::super::branch::{Branch, Header, Latch};
use super::super::{Inside, Lane};
use super::shelf::{Ready, Shelf};
use super::{GraphError, TaskGraph};
use crate::sync::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Mutex, Ordering, interleave};

/// Tasks that a token's thread runs in turn before its slot looks for other work: about as many as it runs between two looks at
/// the queues of requests.
const TASKS_PER_TURN: usize = 61;

/// The reason why a graph ends early.
pub(super) enum Cause<E> {
    Cancelled,
    Error(E),
    Panic(Box<dyn Any + Send>),
}

impl<E> Cause<E> {
    /// The cause of the highest rank is told, and the first among equal ones.
    fn rank(&self) -> u8 {
        match self {
            Self::Cancelled => 0,
            Self::Error(_) => 1,
            Self::Panic(_) => 2,
        }
    }
}

/// The shared state.
pub(super) struct Core<G: TaskGraph> {
    graph: *const G,
    /// Whether the request is being cancelled.
    stopping: *const AtomicBool,
    /// The predecessors of each task that have not ended.
    counters: Box<[AtomicU32]>,
    shelves: Box<[Shelf<Self>]>,
    live: AtomicUsize,
    /// Whether no further task begins.
    stopped: AtomicBool,
    cause: Mutex<Option<Cause<G::Error>>>,
    /// The latch for which the caller waits, or null.
    waiter: AtomicPtr<Latch>,
}

// SAFETY: the graph is `Sync` and its error `Send`; `graph` and `stopping` are shared references that the caller keeps while
// `live` is above zero; the other fields are made for threads.
#[expect(unsafe_code, reason = "the threads of a graph share its state through pointers")]
unsafe impl<G: TaskGraph> Send for Core<G> {}
// SAFETY: as above.
#[expect(unsafe_code, reason = "the threads of a graph share its state through pointers")]
unsafe impl<G: TaskGraph> Sync for Core<G> {}

#[expect(unsafe_code, reason = "the threads of a graph share its state through pointers")]
impl<G: TaskGraph> Core<G> {
    pub(super) fn new(graph: &G, stopping: &AtomicBool, slots: usize) -> Arc<Self> {
        let count = graph.tasks();
        assert!(
            u32::try_from(count).is_ok_and(|count| count < u32::MAX),
            "{count} tasks are too many for a graph"
        );
        debug_assert!(slots > 0, "a graph has no shelf for its tasks");
        let shelf = |place| Shelf::new(Header::new(run_token::<G>, ptr::null()), place);
        let mut core = Arc::new(Self {
            graph,
            stopping,
            counters: (0..count).map(|task| AtomicU32::new(graph.predecessors(task))).collect(),
            shelves: (0..slots).map(shelf).collect(),
            live: AtomicUsize::new(1),
            stopped: AtomicBool::new(false),
            cause: Mutex::new(None),
            waiter: AtomicPtr::new(ptr::null_mut()),
        });
        let owner = Arc::as_ptr(&core);
        if let Some(core) = Arc::get_mut(&mut core) {
            for shelf in &mut core.shelves {
                shelf.owner = owner;
                shelf.header = Header::new(run_token::<G>, owner.cast());
            }
        }
        core
    }

    /// Puts the tasks without predecessors on the caller's shelf.
    pub(super) fn begin(&self, inside: &mut Inside<'_>) {
        // SAFETY: this is the caller's thread.
        let graph = unsafe { &*self.graph };
        let is_ready = |task: &usize| self.counters[*task].load(Ordering::Relaxed) == 0;
        let first = |task| Ready::new(graph.priority(task), task as u32);
        let mut made: Vec<_> = (0..self.counters.len()).filter(is_ready).map(first).collect();
        self.release(inside, &mut made, false);
    }

    /// Whether no task is ready or runs.
    pub(super) fn is_over(&self) -> bool {
        // Acquire: all that the tasks wrote. Pairs with `retire`.
        self.live.load(Ordering::Acquire) == 0
    }

    /// A ready task for the caller: of its own shelf, or of the nearest that has one.
    pub(super) fn next(&self, inside: &mut Inside<'_>) -> Option<u32> {
        interleave();
        let own = self.place(inside);
        if !self.shelves[own].looks_empty() {
            self.take_token_back(inside);
            if let Some(task) = self.shelves[own].take() {
                return Some(task);
            }
        }
        let mut found = None;
        if let Some(lane) = &mut inside.lane {
            lane.near(&mut |slot| {
                found = self.shelves[slot].take();
                found.is_some()
            });
        }
        found
    }

    /// Takes back the newest token of the caller's deque: its thread takes a task of its shelf.
    fn take_token_back(&self, inside: &mut Inside<'_>) {
        let Some(lane) = &mut inside.lane else { return };
        match lane.pop() {
            // SAFETY: it was just popped.
            Some(newest) if newest.is_of(self.family()) => unsafe { self.drop_token() },
            // A slot has taken the token and not yet the task.
            Some(other) => lane.push(other),
            None => {}
        }
    }

    /// Waits until a task is on a shelf or all have ended.
    pub(super) fn wait(&self, inside: &mut Inside<'_>) {
        let latch = Latch::new();
        let place = ptr::from_ref(&latch).cast_mut();
        let before = self.waiter.swap(place, Ordering::AcqRel);
        debug_assert!(before.is_null(), "two threads wait for the tasks of a graph");
        // A thread that puts a task on a shelf after this look takes the lock that the look gave back, and the thread that ends
        // the last task changes the count after this exchange, so both see the latch. A load of the count would not do.
        let is_over = self.live.fetch_add(0, Ordering::AcqRel) == 0;
        let is_idle = !is_over && self.shelves.iter().all(Shelf::is_empty);
        // Taken back, unless a thread is about to set it.
        if !is_idle && !self.waiter.swap(ptr::null_mut(), Ordering::AcqRel).is_null() {
            return;
        }
        debug_assert!(inside.lane.is_some(), "a task runs on another thread where there is none");
        interleave();
        inside.wait(&latch);
    }

    /// Wakes the caller if it waits. The caller returns from the graph only after its latch is set.
    fn wake(&self) {
        if self.waiter.load(Ordering::Acquire).is_null() {
            return;
        }
        let waiter = self.waiter.swap(ptr::null_mut(), Ordering::AcqRel);
        if !waiter.is_null() {
            // SAFETY: the caller keeps the latch until it has taken the pointer back, or the latch is set.
            unsafe { (*waiter).set() };
        }
    }

    /// Runs a task, and then the best of those that it makes ready, for at most `most` tasks in turn. A slot for which a thread
    /// waits runs one.
    pub(super) fn work(&self, inside: &mut Inside<'_>, first: u32, most: usize) {
        let shelf = &self.shelves[self.place(inside)];
        let mut made = shelf.lend();
        let (mut next, mut ran) = (Some(first), 0);
        while let Some(task) = next {
            ran += 1;
            self.run(inside, task, &mut made);
            let keeps_one = ran < most && !inside.lane.as_ref().is_some_and(|lane| lane.is_awaited());
            next = self.release(inside, &mut made, keeps_one);
            interleave();
        }
        shelf.give_back(made);
    }

    /// Runs a task, unless the graph ends early, and lists the successors that it makes ready.
    fn run(&self, inside: &mut Inside<'_>, task: u32, made: &mut Vec<Ready>) {
        // SAFETY: the task is live, so the caller keeps both.
        let (graph, stopping) = unsafe { (&*self.graph, &*self.stopping) };
        if stopping.load(Ordering::Relaxed) {
            self.stop(Cause::Cancelled);
        }
        if self.stopped.load(Ordering::Relaxed) {
            return;
        }
        let lane = inside.lane.as_mut().map(|lane| &mut **lane as &mut dyn Lane);
        let ended = catch_unwind(AssertUnwindSafe(|| {
            graph.run(task as usize, &mut Inside::new(lane, stopping))?;
            graph.successors(task as usize, |next| {
                if self.arrive(task, next) {
                    made.push(Ready::new(graph.priority(next), next as u32));
                }
            });
            Ok(())
        }));
        match ended {
            Ok(Ok(())) => return,
            Ok(Err(error)) => self.stop(Cause::Error(error)),
            Err(panic) => self.stop(Cause::Panic(panic)),
        }
        made.clear();
    }

    /// A predecessor of a task has ended; whether it was the last.
    fn arrive(&self, task: u32, next: usize) -> bool {
        let tasks = self.counters.len();
        assert!(next < tasks, "task {task} names task {next} as a successor, of {tasks} tasks");
        // Release: what the predecessor wrote. Acquire: what all of them wrote.
        let before = self.counters[next].fetch_sub(1, Ordering::AcqRel);
        assert!(
            before > 0,
            "task {next} was named by task {task}, and has fewer predecessors than tasks that name it"
        );
        before == 1
    }

    /// Ends the holder's task. The best of the tasks that it has made ready takes its place, if one is kept; the others go on
    /// the slot's shelf.
    fn release(&self, inside: &mut Inside<'_>, made: &mut Vec<Ready>, keeps_one: bool) -> Option<u32> {
        let best = (0..made.len()).max_by_key(|place| made[*place]).filter(|_| keeps_one);
        let shelf = &self.shelves[self.place(inside)];
        let Some(best) = best.map(|place| shelf.exchange(made.swap_remove(place))) else {
            if !made.is_empty() {
                self.put(inside, shelf, made);
            }
            self.retire();
            return None;
        };
        if !made.is_empty() {
            self.put(inside, shelf, made);
        }
        Some(best.task())
    }

    fn put(&self, inside: &mut Inside<'_>, shelf: &Shelf<Self>, made: &mut Vec<Ready>) {
        // Relaxed: the holder's own task keeps it above zero, and others learn of these tasks by the shelf's lock.
        let before = self.live.fetch_add(made.len(), Ordering::Relaxed);
        debug_assert!(
            before > 0,
            "a task is made ready in a graph that is over: its caller may have returned"
        );
        shelf.put(made);
        if let Some(lane) = &mut inside.lane {
            for _ in made.iter() {
                lane.push(self.token(shelf));
            }
        }
        made.clear();
        self.wake();
    }

    /// Takes the holder's task from the live ones.
    fn retire(&self) {
        // Release: what the holder wrote. Acquire: so that the last one passes on what all wrote.
        let before = self.live.fetch_sub(1, Ordering::AcqRel);
        debug_assert!(before > 0, "a task of a graph ended twice");
        if before == 1 {
            self.wake();
        }
    }

    /// No further task begins.
    fn stop(&self, cause: Cause<G::Error>) {
        let mut kept = self.cause.lock();
        let is_greater = kept.as_ref().is_none_or(|before| before.rank() < cause.rank());
        let rest = if is_greater { kept.replace(cause) } else { Some(cause) };
        self.stopped.store(true, Ordering::Relaxed);
        drop(kept);
        // Without the lock: dropping an error may be anyone's code.
        drop(rest);
    }

    /// The reason why not all tasks have run. For the caller, at the end.
    pub(super) fn cause(&self) -> Option<Cause<G::Error>> {
        self.cause.lock().take()
    }

    /// The tasks that never became ready. For the caller, at the end.
    pub(super) fn stuck(&self) -> Option<GraphError<G::Error>> {
        let waits = |counter: &AtomicU32| counter.load(Ordering::Relaxed) > 0;
        let first = self.counters.iter().position(waits)?;
        let left = self.counters.iter().filter(|counter| waits(counter)).count();
        Some(GraphError::Stuck { left, tasks: self.counters.len(), first })
    }

    /// Takes the tokens out of the caller's deque whose tasks were taken without them.
    pub(super) fn withdraw(&self, inside: &mut Inside<'_>) {
        debug_assert!(self.shelves.iter().all(Shelf::is_empty), "a graph is over, and a task of it is ready");
        while inside.take_back_where(|branch| branch.is_of(self.family())).is_some() {
            // SAFETY: it was just popped.
            unsafe { self.drop_token() };
        }
    }

    fn place(&self, inside: &Inside<'_>) -> usize {
        let place = inside.lane.as_ref().and_then(|lane| lane.slot()).unwrap_or(0);
        debug_assert!(place < self.shelves.len(), "a slot has no shelf");
        place
    }

    fn family(&self) -> *const () {
        ptr::from_ref(self).cast()
    }

    /// A branch that holds a reference of this state.
    fn token(&self, shelf: &Shelf<Self>) -> Branch {
        // SAFETY: `owner` is the pointer of the `Arc` by which the caller, or the running token, holds this state.
        unsafe { Arc::increment_strong_count(shelf.owner) };
        Branch::new(NonNull::from(shelf).cast())
    }

    /// Gives the reference of a token back.
    ///
    /// # Safety
    /// The caller has popped the token, and drops it once.
    unsafe fn drop_token(&self) {
        // SAFETY: the token holds this reference.
        unsafe { Arc::decrement_strong_count(self.shelves[0].owner) };
    }
}

/// Runs a token: the best task of its maker's shelf, and those that it makes ready.
#[expect(unsafe_code, reason = "a token is a pointer to a shelf")]
unsafe fn run_token<G: TaskGraph>(header: NonNull<Header>, lane: &mut dyn Lane) {
    // SAFETY: `token` made the pointer, with a reference of the state that has the shelf.
    let shelf = unsafe { header.cast::<Shelf<Core<G>>>().as_ref() };
    let place = shelf.place;
    // SAFETY: as above; the token is run once.
    let core = unsafe { Arc::from_raw(shelf.owner) };
    if let Some(task) = core.shelves[place].take() {
        // The flag is that of this function: `run` gives each task that of its caller.
        let stopping = AtomicBool::new(false);
        core.work(&mut Inside::new(Some(lane), &stopping), task, TASKS_PER_TURN);
    }
}
