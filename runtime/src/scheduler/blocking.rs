//! Blocking classes: named kinds of blocking operations, each with its own limit of operations in flight.
//!
//! Invariants: at most `limit` permits are out; waiters are served by request age, then arrival; a permit that is
//! released goes to the first waiter and is never free while one waits; a cancelled waiter leaves at once. A thread
//! that waits holding its slot (at the thread cap) comes before all others, as they may need that very slot.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::request::RequestId;
use crate::statistics::ClassStatistics;
use crate::sync::{Mailbox, Mutex};

/// What a waiting thread is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Permit {
    Granted,
    Cancelled,
}

/// Who waits for a permit.
enum Waiter<T> {
    /// A thread in `detached`.
    Thread(Arc<Mailbox<Permit>>),
    /// A task of a box that declares its class; no thread waits with it.
    Task(T),
}

/// What a class says to a task that is about to start.
pub(crate) enum Admission<T> {
    /// The permit is the task's.
    Permitted(T),
    /// The request is stopping: the task only drains, and needs no permit.
    Draining(T),
    /// The class keeps the task until a permit is free.
    Later,
}

/// What a class says to a thread.
pub(crate) enum Entered {
    Now(Permit),
    /// It is told here.
    Waits(Arc<Mailbox<Permit>>),
}

type Waiters<T> = BTreeMap<(RequestId, u64), Waiter<T>>;

struct State<T> {
    limit: usize,
    in_flight: usize,
    arrivals: u64,
    /// Threads that wait holding their slots.
    holding: Waiters<T>,
    waiters: Waiters<T>,
    statistics: ClassStatistics,
}

/// One blocking class, of tasks of type `T`.
pub(crate) struct Class<T> {
    pub(crate) name: String,
    state: Mutex<State<T>>,
}

impl<T> Class<T> {
    pub(crate) fn new(name: &str, limit: usize) -> Self {
        let statistics = ClassStatistics { name: name.to_owned(), limit, ..ClassStatistics::default() };
        let (holding, waiters) = (BTreeMap::new(), BTreeMap::new());
        let state = State { limit, in_flight: 0, arrivals: 0, holding, waiters, statistics };
        Self { name: name.to_owned(), state: Mutex::new(state) }
    }

    /// Takes a permit if one is free.
    pub(crate) fn try_acquire(&self) -> bool {
        self.state.lock().try_acquire()
    }

    /// Takes a permit for a task, or keeps the task until one is free.
    pub(crate) fn admit(
        &self,
        request: RequestId,
        task: T,
        is_stopping: impl Fn(&T) -> bool,
    ) -> Admission<T> {
        let mut state = self.state.lock();
        // Under the lock, as in `enter`.
        if is_stopping(&task) {
            return Admission::Draining(task);
        }
        if state.try_acquire() {
            return Admission::Permitted(task);
        }
        let key = state.arrival(request);
        state.waiters.insert(key, Waiter::Task(task));
        Admission::Later
    }

    /// A thread asks for a permit; `holding` says that it keeps its slot meanwhile.
    pub(crate) fn enter(&self, request: RequestId, holding: bool, is_stopping: impl Fn() -> bool) -> Entered {
        let mut state = self.state.lock();
        // Under the lock: a request that stops later finds this waiter in the queue when it cancels.
        if is_stopping() {
            return Entered::Now(Permit::Cancelled);
        }
        if state.try_acquire() {
            return Entered::Now(Permit::Granted);
        }
        let mailbox = Arc::new(Mailbox::new());
        let key = state.arrival(request);
        let queue = if holding { &mut state.holding } else { &mut state.waiters };
        queue.insert(key, Waiter::Thread(Arc::clone(&mailbox)));
        Entered::Waits(mailbox)
    }

    /// Whether a thread waits here that holds a slot.
    pub(crate) fn blocks_a_slot(&self) -> bool {
        !self.state.lock().holding.is_empty()
    }

    /// Gives a permit back. A task that it passes to comes back, to be planned by the caller.
    pub(crate) fn release(&self) -> Option<T> {
        let mut state = self.state.lock();
        let first = state.holding.pop_first().or_else(|| state.waiters.pop_first());
        match first {
            None => {
                state.in_flight -= 1;
                None
            }
            // The permit moves: `in_flight` stays.
            Some((_, Waiter::Thread(mailbox))) => {
                state.statistics.operations += 1;
                drop(state);
                mailbox.put(Permit::Granted);
                None
            }
            Some((_, Waiter::Task(task))) => {
                state.statistics.operations += 1;
                Some(task)
            }
        }
    }

    /// Sends a request's waiters away. Its tasks come back, to be planned without a permit: they only drain.
    pub(crate) fn cancel(&self, request: RequestId) -> Vec<T> {
        let left: Vec<_> = {
            let state = &mut *self.state.lock();
            let of_request = (request, 0)..=(request, u64::MAX);
            let queues = [&mut state.holding, &mut state.waiters].into_iter();
            queues.flat_map(|queue| queue.extract_if(of_request.clone(), |_, _| true)).collect()
        };
        let mut tasks = Vec::new();
        for (_, waiter) in left {
            match waiter {
                Waiter::Task(task) => tasks.push(task),
                Waiter::Thread(mailbox) => mailbox.put(Permit::Cancelled),
            }
        }
        tasks
    }

    pub(crate) fn statistics(&self) -> ClassStatistics {
        let state = self.state.lock();
        let waiting = state.holding.len() + state.waiters.len();
        ClassStatistics { in_flight: state.in_flight, waiting, ..state.statistics.clone() }
    }
}

impl<T> State<T> {
    fn try_acquire(&mut self) -> bool {
        if self.in_flight >= self.limit {
            return false;
        }
        self.in_flight += 1;
        self.statistics.operations += 1;
        self.statistics.in_flight_high = self.statistics.in_flight_high.max(self.in_flight);
        true
    }

    fn arrival(&mut self, request: RequestId) -> (RequestId, u64) {
        self.arrivals += 1;
        self.statistics.waited += 1;
        (request, self.arrivals)
    }
}

/// Threads that wait to attach, oldest request first, then first come.
pub(crate) struct AttachQueue<T> {
    arrivals: u64,
    waiters: BTreeMap<(RequestId, u64), T>,
}

impl<T> AttachQueue<T> {
    pub(crate) fn new() -> Self {
        Self { arrivals: 0, waiters: BTreeMap::new() }
    }

    pub(crate) fn push(&mut self, request: RequestId, waiter: T) {
        self.arrivals += 1;
        self.waiters.insert((request, self.arrivals), waiter);
    }

    #[cfg(all(test, loom))]
    pub(crate) fn is_empty(&self) -> bool {
        self.waiters.is_empty()
    }

    pub(crate) fn pop(&mut self) -> Option<T> {
        self.waiters.pop_first().map(|(_, waiter)| waiter)
    }
}
