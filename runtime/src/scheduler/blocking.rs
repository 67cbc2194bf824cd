//! Blocking classes: named kinds of blocking operations, each with its own limit of operations in flight.
//!
//! Invariants: at most `limit` permits are out; waiters are served by request age, then arrival; a permit that is
//! released goes to the first waiter and is never free while one waits; a cancelled waiter leaves at once.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::queues::Task;
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
enum Waiter {
    /// A thread in `detached`; it holds no slot.
    Thread(Arc<Mailbox<Permit>>),
    /// A task of a box that declares its class; no thread waits with it.
    Task(Task),
}

/// Tasks that come back from a class: planned again by the caller.
pub(crate) enum Admission {
    /// The permit is the task's.
    Permitted(Task),
    /// The request is stopping: the task only drains, and needs no permit.
    Draining(Task),
    /// The class keeps the task until a permit is free.
    Later,
}

struct State {
    limit: usize,
    in_flight: usize,
    arrivals: u64,
    waiters: BTreeMap<(RequestId, u64), Waiter>,
    statistics: ClassStatistics,
}

/// One blocking class.
pub(crate) struct Class {
    state: Mutex<State>,
}

impl Class {
    pub(crate) fn new(name: &str, limit: usize) -> Self {
        let statistics = ClassStatistics { name: name.to_owned(), limit, ..ClassStatistics::default() };
        let state = State { limit, in_flight: 0, arrivals: 0, waiters: BTreeMap::new(), statistics };
        Self { state: Mutex::new(state) }
    }

    /// Takes a permit if one is free.
    pub(crate) fn try_acquire(&self) -> bool {
        self.state.lock().try_acquire()
    }

    /// Takes a permit for a task, or keeps the task until one is free.
    pub(crate) fn admit(&self, task: Task) -> Admission {
        let mut state = self.state.lock();
        // Under the lock, as in `acquire`.
        if task.model.is_stopping() {
            return Admission::Draining(task);
        }
        if state.try_acquire() {
            return Admission::Permitted(task);
        }
        let key = state.arrival(task.model.id());
        state.waiters.insert(key, Waiter::Task(task));
        Admission::Later
    }

    /// Waits for a permit; the caller holds no slot.
    pub(crate) fn acquire(&self, request: RequestId, is_stopping: &dyn Fn() -> bool) -> Permit {
        let mailbox = {
            let mut state = self.state.lock();
            // Under the lock: a request that stops later finds this waiter in the queue when it cancels.
            if is_stopping() {
                return Permit::Cancelled;
            }
            if state.try_acquire() {
                return Permit::Granted;
            }
            let mailbox = Arc::new(Mailbox::new());
            let key = state.arrival(request);
            state.waiters.insert(key, Waiter::Thread(Arc::clone(&mailbox)));
            mailbox
        };
        mailbox.take()
    }

    /// Gives a permit back. A task that it passes to comes back, to be planned by the caller.
    pub(crate) fn release(&self) -> Option<Task> {
        let mut state = self.state.lock();
        match state.waiters.pop_first() {
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
    pub(crate) fn cancel(&self, request: RequestId) -> Vec<Task> {
        let (mut tasks, mut threads) = (Vec::new(), Vec::new());
        {
            let mut state = self.state.lock();
            let keys: Vec<_> =
                state.waiters.range((request, 0)..=(request, u64::MAX)).map(|(key, _)| *key).collect();
            for key in keys {
                match state.waiters.remove(&key) {
                    Some(Waiter::Task(task)) => tasks.push(task),
                    Some(Waiter::Thread(mailbox)) => threads.push(mailbox),
                    None => {}
                }
            }
        }
        for mailbox in threads {
            mailbox.put(Permit::Cancelled);
        }
        tasks
    }

    pub(crate) fn statistics(&self) -> ClassStatistics {
        self.state.lock().statistics.clone()
    }
}

impl State {
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

    pub(crate) fn pop(&mut self) -> Option<T> {
        self.waiters.pop_first().map(|(_, waiter)| waiter)
    }
}
