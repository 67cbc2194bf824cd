//! The world of one simulation: its threads, the holder of the baton, and the virtual clock.
//!
//! Invariant: at most one thread is running; the others are parked, each at a place of its own.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};

/// The world of one simulation.
pub(super) struct World {
    seed: u64,
    /// The instant at which the virtual clock began.
    base: Instant,
    state: Mutex<State>,
    /// Called with a report when no thread can continue.
    stuck: Box<dyn Fn(String) + Send + Sync>,
}

struct State {
    /// The state of a splitmix generator.
    random: u64,
    now: Duration,
    steps: u64,
    threads: Vec<Entry>,
    /// Whether the system has no thread left.
    refuses: bool,
}

struct Entry {
    name: String,
    status: Status,
    place: Arc<Place>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Status {
    Ready,
    Running,
    /// For an event, with a limit.
    Waiting {
        on: usize,
        until: Option<Duration>,
    },
    Sleeping {
        until: Duration,
    },
    /// For the end of a thread.
    Joining {
        number: usize,
    },
    Ended,
}

/// The place at which a thread parks until it gets the baton.
#[derive(Default)]
struct Place {
    baton: Mutex<bool>,
    given: Condvar,
}

impl World {
    pub(super) fn new(seed: u64, stuck: impl Fn(String) + Send + Sync + 'static) -> Arc<Self> {
        let state =
            State { random: seed, now: Duration::ZERO, steps: 0, threads: Vec::new(), refuses: false };
        Arc::new(Self { seed, base: Instant::now(), state: Mutex::new(state), stuck: Box::new(stuck) })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Adds a thread that is about to be started.
    pub(super) fn add(&self, name: &str) -> usize {
        let mut state = self.state();
        state.threads.push(Entry { name: name.to_owned(), status: Status::Ready, place: Arc::default() });
        state.threads.len() - 1
    }

    /// From now on the system starts no thread, or starts threads again.
    pub(super) fn refuse(&self, refuses: bool) {
        self.state().refuses = refuses;
    }

    /// Whether the system starts no thread.
    pub(super) fn refuses(&self) -> bool {
        self.state().refuses
    }

    /// Removes a thread that could not be started.
    pub(super) fn forget(&self, number: usize) {
        let status = std::mem::replace(&mut self.state().threads[number].status, Status::Ended);
        debug_assert_eq!(status, Status::Ready, "a thread that could not be started did something");
    }

    /// Gives the baton to the first thread.
    pub(super) fn begin(&self) {
        self.pass(self.state());
    }

    pub(super) fn now(&self) -> Instant {
        self.base + self.state().now
    }

    /// The virtual time so far, and the number of times that the baton was passed.
    pub(super) fn passed(&self) -> (Duration, u64) {
        let state = self.state();
        (state.now, state.steps)
    }

    /// Another thread may continue first.
    pub(super) fn interleave(&self, me: usize) {
        self.leave(me, |_| Status::Ready);
    }

    pub(super) fn sleep(&self, me: usize, duration: Duration) {
        self.leave(me, |state| Status::Sleeping { until: state.now + duration });
    }

    /// Waits for an event. True when time ran out first.
    pub(super) fn wait(&self, me: usize, on: usize, until: Option<Instant>) -> bool {
        let until = until.map(|until| until.saturating_duration_since(self.base));
        self.leave(me, |_| Status::Waiting { on, until });
        // The thread that notified the event has made this thread ready; otherwise the clock has woken it.
        until.is_some_and(|until| self.state().now >= until)
    }

    /// Notifies an event: one waiting thread, drawn at random, or all.
    pub(super) fn notify(&self, on: usize, all: bool) {
        let mut state = self.state();
        let mut waiting: Vec<usize> = (0..state.threads.len())
            .filter(|number| {
                matches!(state.threads[*number].status, Status::Waiting { on: other, .. } if other == on)
            })
            .collect();
        if !all && waiting.len() > 1 {
            let drawn = state.draw(waiting.len());
            waiting = vec![waiting[drawn]];
        }
        for number in waiting {
            state.threads[number].status = Status::Ready;
        }
    }

    /// Waits for the end of a thread.
    pub(super) fn await_end(&self, me: usize, number: usize) {
        let ended = self.state().threads[number].status == Status::Ended;
        if !ended {
            self.leave(me, |_| Status::Joining { number });
        }
    }

    /// A thread ends and passes the baton on.
    pub(super) fn end(&self, me: usize) {
        let mut state = self.state();
        debug_assert_eq!(
            state.threads[me].status,
            Status::Running,
            "a simulated thread ends without the baton"
        );
        state.threads[me].status = Status::Ended;
        for entry in &mut state.threads {
            if entry.status == (Status::Joining { number: me }) {
                entry.status = Status::Ready;
            }
        }
        self.pass(state);
    }

    /// Parks until the baton comes.
    pub(super) fn await_baton(&self, me: usize) {
        let place = Arc::clone(&self.state().threads[me].place);
        let mut baton = place.baton.lock();
        while !*baton {
            place.given.wait(&mut baton);
        }
        *baton = false;
    }

    /// Passes the baton on, and returns when this thread has it again.
    fn leave(&self, me: usize, status: impl FnOnce(&State) -> Status) {
        let mut state = self.state();
        debug_assert_eq!(
            state.threads[me].status,
            Status::Running,
            "a simulated thread passes on a baton that it does not hold"
        );
        state.threads[me].status = status(&state);
        // Perhaps to itself: then its baton is there already.
        self.pass(state);
        self.await_baton(me);
    }

    /// Gives the baton to a thread that can continue; to none when all have ended, or all wait for ever.
    fn pass(&self, mut state: MutexGuard<'_, State>) {
        debug_assert!(
            state.threads.iter().all(|entry| entry.status != Status::Running),
            "two simulated threads run at once: the run does not follow its seed"
        );
        let Some(next) = state.next() else {
            if state.threads.iter().any(|entry| entry.status != Status::Ended) {
                (self.stuck)(self.report(&state));
            }
            return;
        };
        state.steps += 1;
        state.threads[next].status = Status::Running;
        let place = Arc::clone(&state.threads[next].place);
        drop(state);
        let before = std::mem::replace(&mut *place.baton.lock(), true);
        debug_assert!(!before, "a thread was given the baton twice");
        place.given.notify_one();
    }

    fn report(&self, state: &State) -> String {
        let mut report = format!("in the simulation with seed {} all threads wait for ever:", self.seed);
        for entry in state.threads.iter().filter(|entry| entry.status != Status::Ended) {
            let _ = write!(report, "\n  `{}`: {:?}", entry.name, entry.status);
        }
        report
    }
}

impl State {
    /// A number below `bound`.
    fn draw(&mut self, bound: usize) -> usize {
        debug_assert!(bound > 0, "there is no thread to draw");
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.random;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((x ^ (x >> 31)) % bound as u64) as usize
    }

    /// The next thread: drawn from those that can continue; if none can, the clock jumps to the next that is due.
    fn next(&mut self) -> Option<usize> {
        let due = |entry: &Entry| match entry.status {
            Status::Ready => Some(Duration::ZERO),
            Status::Sleeping { until } | Status::Waiting { until: Some(until), .. } => Some(until),
            _ => None,
        };
        let first = self.threads.iter().filter_map(due).min()?;
        self.now = self.now.max(first);
        // Threads that are due at one moment continue in any order, and other threads may interrupt them.
        let can = |entry: &Entry| due(entry).is_some_and(|due| due <= self.now);
        let can: Vec<usize> = (0..self.threads.len()).filter(|number| can(&self.threads[*number])).collect();
        let drawn = self.draw(can.len());
        Some(can[drawn])
    }
}
