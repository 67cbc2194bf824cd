//! Blocking classes: named kinds of blocking operations, each with its own limit of operations in flight.
//!
//! Invariants: at most `limit` permits are out; waiters are served by request age, then arrival; a permit that is
//! released goes to the first waiter and is never free while one waits; a cancelled waiter leaves at once. A thread
//! that waits holding its slot (at the thread cap) comes before all other waiters, because they may need that very
//! slot. A limit that the runtime finds itself (`blocking/auto.rs`) changes when a permit comes back, under the class's
//! lock: after it has shrunk no operation begins until enough have ended; after it has grown none waits below it.

mod auto;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use self::auto::Auto;
use crate::request::RequestId;
use crate::statistics::{ClassLimit, ClassStatistics};
use crate::sync::{Mailbox, Mutex, now};

/// A permit that returns sooner was not used, because a firing found nothing to do. It says nothing about the device.
const UNUSED: Duration = Duration::from_micros(5);

/// The answer to a waiting thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Permit {
    Granted,
    Cancelled,
}

/// A task or thread that waits for a permit.
enum Waiter<T> {
    /// A thread in `detached`.
    Thread(Arc<Mailbox<Permit>>),
    /// A task of a box that declares its class; no thread waits with it.
    Task(T),
}

/// The answer of a class to a task that is about to start.
pub(crate) enum Admission<T> {
    /// The permit is the task's.
    Permitted(T),
    /// The request is stopping: the task only drains, and needs no permit.
    Draining(T),
    /// The class keeps the task until a permit is free.
    Later,
}

/// The answer of a class to a thread.
pub(crate) enum Entered {
    Now(Permit),
    /// The permit arrives in this mailbox.
    Waits(Arc<Mailbox<Permit>>),
}

type Waiters<T> = BTreeMap<(RequestId, u64), Waiter<T>>;

struct State<T> {
    limit: usize,
    /// The search for the limit, if it is not fixed.
    auto: Option<Auto>,
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
    /// The instant from which an automatic limit counts time.
    started: Option<Instant>,
    state: Mutex<State<T>>,
}

/// The use of a permit that comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Used {
    For(Duration),
    /// It went back without an operation.
    Not,
}

impl<T> Class<T> {
    /// A class with a fixed limit, or with an automatic limit of at most `auto_max`.
    pub(crate) fn new(name: &str, limit: ClassLimit, auto_max: usize) -> Self {
        let (limit, auto) = match limit {
            ClassLimit::Fixed(limit) => (limit.max(1), None),
            ClassLimit::Auto => {
                let auto = Auto::new(auto_max);
                (auto.limit(), Some(auto))
            }
        };
        let started = auto.is_some().then(now);
        let statistics =
            ClassStatistics { name: name.to_owned(), auto: auto.is_some(), ..ClassStatistics::default() };
        let (holding, waiters) = (BTreeMap::new(), BTreeMap::new());
        let state = State { limit, auto, in_flight: 0, arrivals: 0, holding, waiters, statistics };
        Self { name: name.to_owned(), started, state: Mutex::new(state) }
    }

    /// Takes a permit if one is free.
    pub(crate) fn try_acquire(&self) -> bool {
        let now_ns = self.now_ns();
        self.state.lock().try_acquire(now_ns)
    }

    /// Only automatic limits read the clock. Outside the lock: a time that arrives late does no harm.
    fn now_ns(&self) -> u64 {
        self.started.map_or(0, |started| now().saturating_duration_since(started).as_nanos() as u64)
    }

    /// Takes a permit for a task, or keeps the task until one is free.
    pub(crate) fn admit(
        &self,
        request: RequestId,
        task: T,
        is_stopping: impl Fn(&T) -> bool,
    ) -> Admission<T> {
        let now_ns = self.now_ns();
        let mut state = self.state.lock();
        // Under the lock, as in `enter`.
        if is_stopping(&task) {
            return Admission::Draining(task);
        }
        if state.try_acquire(now_ns) {
            return Admission::Permitted(task);
        }
        let key = state.arrival(request);
        state.waiters.insert(key, Waiter::Task(task));
        Admission::Later
    }

    /// Asks for a permit for a thread; `holding`: the thread keeps its slot meanwhile.
    pub(crate) fn enter(&self, request: RequestId, holding: bool, is_stopping: impl Fn() -> bool) -> Entered {
        let now_ns = self.now_ns();
        let mut state = self.state.lock();
        // Under the lock: a request that stops later finds this waiter in the queue when it cancels.
        if is_stopping() {
            return Entered::Now(Permit::Cancelled);
        }
        if state.try_acquire(now_ns) {
            return Entered::Now(Permit::Granted);
        }
        let mailbox = Arc::new(Mailbox::new());
        let key = state.arrival(request);
        let queue = if holding { &mut state.holding } else { &mut state.waiters };
        queue.insert(key, Waiter::Thread(Arc::clone(&mailbox)));
        Entered::Waits(mailbox)
    }

    /// Whether a thread that holds a slot waits here.
    pub(crate) fn blocks_a_slot(&self) -> bool {
        !self.state.lock().holding.is_empty()
    }

    /// Gives a permit back. Tasks that get one come back, to be planned by the caller: at most one if the limit stays,
    /// none if it has shrunk, several if it has grown.
    pub(crate) fn release(&self, used: Used) -> Vec<T> {
        let now_ns = self.now_ns();
        let admitted = {
            let mut state = self.state.lock();
            debug_assert!(state.in_flight > 0, "a permit came back that was not out");
            state.in_flight -= 1;
            if let Used::For(time) = used
                && time >= UNUSED
            {
                state.measure(now_ns);
            }
            state.admit_waiters()
        };
        tell(admitted)
    }

    /// Changes the limit, as an automatic limit does.
    #[cfg(test)]
    pub(crate) fn set_limit(&self, limit: usize) -> Vec<T> {
        let admitted = {
            let mut state = self.state.lock();
            state.limit = limit;
            state.admit_waiters()
        };
        tell(admitted)
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
        debug_assert!(
            state.in_flight as u64 <= state.statistics.operations,
            "more operations are under way than have begun"
        );
        debug_assert!(
            state.in_flight <= state.statistics.in_flight_high,
            "more operations are under way than were at most"
        );
        let (limit, in_flight) = (state.limit, state.in_flight);
        ClassStatistics { limit, in_flight, waiting, ..state.statistics.clone() }
    }
}

impl<T> State<T> {
    fn try_acquire(&mut self, now_ns: u64) -> bool {
        if self.in_flight >= self.limit {
            return false;
        }
        debug_assert!(
            self.holding.is_empty() && self.waiters.is_empty(),
            "a permit is free while a waiter waits: a newcomer would overtake it"
        );
        self.take();
        if let Some(auto) = &mut self.auto {
            auto.begin(now_ns, self.in_flight);
        }
        true
    }

    fn take(&mut self) {
        self.in_flight += 1;
        assert!(self.in_flight <= self.limit, "more permits are out than there are");
        self.statistics.operations += 1;
        self.statistics.in_flight_high = self.statistics.in_flight_high.max(self.in_flight);
    }

    /// An operation has ended: an automatic limit may change.
    fn measure(&mut self, now_ns: u64) {
        let waiting = !(self.holding.is_empty() && self.waiters.is_empty());
        if let Some(auto) = &mut self.auto {
            auto.end(now_ns, self.in_flight, waiting);
            self.limit = auto.limit();
            debug_assert!(self.limit > 0, "a class without a permit: its waiters would wait for ever");
        }
    }

    /// Gives the free permits to waiters, first to those that hold a slot. The caller notifies them.
    fn admit_waiters(&mut self) -> Vec<Waiter<T>> {
        let mut admitted = Vec::new();
        while self.in_flight < self.limit
            && let Some((_, waiter)) = self.holding.pop_first().or_else(|| self.waiters.pop_first())
        {
            self.take();
            admitted.push(waiter);
        }
        admitted
    }

    fn arrival(&mut self, request: RequestId) -> (RequestId, u64) {
        self.arrivals += 1;
        self.statistics.waited += 1;
        (request, self.arrivals)
    }
}

/// Notifies threads of their permits, without the lock, and returns the tasks that have one.
fn tell<T>(admitted: Vec<Waiter<T>>) -> Vec<T> {
    let mut tasks = Vec::new();
    for waiter in admitted {
        match waiter {
            Waiter::Task(task) => tasks.push(task),
            Waiter::Thread(mailbox) => mailbox.put(Permit::Granted),
        }
    }
    tasks
}

/// Threads that wait to attach, oldest request first, then by arrival.
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
        let before = self.waiters.insert((request, self.arrivals), waiter);
        debug_assert!(
            before.is_none(),
            "a thread took the place of another in the queue of those that attach"
        );
    }

    /// Removes the waiter that fits. False when there is none.
    pub(crate) fn remove(&mut self, fits: impl Fn(&T) -> bool) -> bool {
        let key = self.waiters.iter().find(|(_, waiter)| fits(waiter)).map(|(key, _)| *key);
        key.is_some_and(|key| self.waiters.remove(&key).is_some())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiters.is_empty()
    }

    pub(crate) fn pop(&mut self) -> Option<T> {
        self.waiters.pop_first().map(|(_, waiter)| waiter)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn class(limit: usize, waiters: std::ops::Range<u64>) -> Class<u64> {
        let class = Class::new("nap", ClassLimit::Fixed(limit), 1);
        assert!((0..limit).all(|_| class.try_acquire()));
        for task in waiters {
            assert!(matches!(class.admit(RequestId(1), task, |_| false), Admission::Later));
        }
        class
    }

    #[test]
    fn a_limit_that_grows_admits_its_waiters_at_once() {
        let class = class(1, 0..3);
        assert_eq!(class.set_limit(3), [0, 1]);
        assert_eq!(class.release(Used::Not), [2]);
        assert!(!class.try_acquire());
    }

    #[test]
    fn a_limit_that_has_shrunk_admits_none_until_enough_have_ended() {
        let class = class(3, 0..2);
        assert_eq!(class.set_limit(1), []);
        assert_eq!(class.release(Used::Not), []);
        assert_eq!(class.release(Used::Not), []);
        assert!(!class.try_acquire());
        assert_eq!(class.release(Used::Not), [0]);
        assert_eq!(class.statistics().in_flight, 1);
    }

    #[test]
    fn limits_are_numbers_or_auto() {
        assert_eq!("auto".parse(), Ok(ClassLimit::Auto));
        assert_eq!("12".parse(), Ok(ClassLimit::Fixed(12)));
        for text in ["", "0", "-1", "Auto", "1.5"] {
            assert!(text.parse::<ClassLimit>().is_err(), "{text}");
        }
    }
}
