//! Deadlines: one thread, started with the first deadline, cancels requests whose time is over.
//!
//! Invariant: a deadline that is listed has a thread that watches it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};
use std::time::Instant;

use super::Scheduler;
use crate::model::Model;
use crate::request::{RequestError, RequestId};
use crate::sync::{AtomicBool, Condvar, Mutex, Ordering, Thread, now};

/// The deadlines of requests under way.
pub(super) struct Deadlines {
    state: Arc<(Mutex<State>, Condvar)>,
    /// Whether there was ever a deadline: most runtimes have none.
    used: AtomicBool,
}

#[derive(Default)]
struct State {
    pending: BTreeSet<(Instant, RequestId)>,
    models: BTreeMap<RequestId, (Instant, Weak<Model>)>,
    stopped: bool,
    thread: Option<Thread>,
}

impl State {
    /// Checks that both lists contain the same deadlines.
    #[inline]
    fn check(&self) {
        debug_assert_eq!(
            self.pending.len(),
            self.models.len(),
            "the list of deadlines and that of their requests differ"
        );
    }
}

impl Deadlines {
    pub(super) fn new() -> Self {
        Self { state: Arc::new((Mutex::new(State::default()), Condvar::new())), used: AtomicBool::new(false) }
    }

    /// Watches the deadline of a request.
    ///
    /// # Errors
    /// When the system refuses the thread for it; the next deadline asks for one again.
    pub(super) fn add(
        &self,
        scheduler: &Arc<Scheduler>,
        deadline: Instant,
        model: &Arc<Model>,
    ) -> std::io::Result<()> {
        // Before a thread that ends the request can see it.
        self.used.store(true, Ordering::Relaxed);
        let mut state = self.state.0.lock();
        debug_assert!(
            !state.stopped,
            "a deadline was listed after the end: its thread would never be joined"
        );
        if state.thread.is_none() {
            // Weak: the scheduler joins this thread when it shuts down, and must not be kept alive by it.
            let (scheduler, shared) = (Arc::downgrade(scheduler), Arc::clone(&self.state));
            let name = "boxwork-deadlines".to_owned();
            state.thread = Some(Thread::spawn(name, move || watch(&shared, &scheduler))?);
        }
        let is_new = state.pending.insert((deadline, model.id()));
        debug_assert!(is_new, "the deadline of a request was listed twice");
        let before = state.models.insert(model.id(), (deadline, Arc::downgrade(model)));
        debug_assert!(before.is_none(), "a request has two deadlines: the first would never leave its list");
        state.check();
        self.state.1.notify_one();
        Ok(())
    }

    /// The request has ended.
    pub(super) fn remove(&self, request: RequestId) {
        if !self.used.load(Ordering::Relaxed) {
            return;
        }
        let mut state = self.state.0.lock();
        if let Some((deadline, _)) = state.models.remove(&request) {
            let was_listed = state.pending.remove(&(deadline, request));
            debug_assert!(was_listed, "a request had a deadline that no thread watched");
            state.check();
        }
    }

    /// Deadlines that are watched.
    pub(super) fn count(&self) -> usize {
        self.state.0.lock().models.len()
    }

    pub(super) fn stop(&self) {
        let thread = {
            let mut state = self.state.0.lock();
            state.stopped = true;
            state.thread.take()
        };
        self.state.1.notify_one();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }
}

fn watch((shared, changed): &(Mutex<State>, Condvar), scheduler: &Weak<Scheduler>) {
    let mut state = shared.lock();
    while !state.stopped {
        match state.pending.first().copied() {
            None => changed.wait(&mut state),
            Some((deadline, _)) if deadline > now() => {
                changed.wait_until(&mut state, deadline);
            }
            Some(due) => {
                state.pending.remove(&due);
                let of_request = state.models.remove(&due.1);
                debug_assert!(of_request.is_some(), "a deadline was watched that no request has");
                state.check();
                let model = of_request.and_then(|(_, model)| model.upgrade());
                debug_assert!(
                    model.as_ref().is_none_or(|model| model.id() == due.1),
                    "a deadline was kept under the number of another request"
                );
                // Cancelling takes other locks, and the model's last owner drops operators, which are foreign code: new
                // deadlines must not wait for that.
                drop(state);
                if let (Some(model), Some(scheduler)) = (model, scheduler.upgrade()) {
                    scheduler.cancel(&model, RequestError::DeadlinePassed);
                }
                state = shared.lock();
            }
        }
    }
}
