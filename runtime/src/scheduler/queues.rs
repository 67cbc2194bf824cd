//! The homes of tasks that no slot owns: a node's request queues, and the global queue of new requests.
//!
//! Invariant: the oldest request's tasks come first, in the order in which they were planned.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::model::Model;
use crate::request::RequestId;
use crate::sync::{AtomicUsize, Mutex, Ordering};

/// One planned execution of one box: the right to fire it, so it must not be cloned.
pub(crate) struct Task {
    pub(crate) model: Arc<Model>,
    pub(crate) cell: usize,
}

/// The request queues of one node.
pub(crate) struct RequestQueues {
    /// The tasks of each request that has any, the oldest request first. New requests come in at the end, and most tasks
    /// are taken from the first, so most changes are at the ends.
    by_age: Mutex<VecDeque<(RequestId, VecDeque<Task>)>>,
    /// Follows the number of tasks, so that an idle look needs no lock.
    count: AtomicUsize,
}

/// A check counts the tasks of at most this many requests.
const COUNTED_MAX: usize = 8;

impl RequestQueues {
    pub(crate) fn new() -> Self {
        Self { by_age: Mutex::new(VecDeque::new()), count: AtomicUsize::new(0) }
    }

    pub(crate) fn push(&self, task: Task) {
        let id = task.model.id();
        self.push_all(id, std::iter::once(task));
    }

    /// Adds tasks of one request.
    pub(crate) fn push_all(&self, id: RequestId, tasks: impl ExactSizeIterator<Item = Task>) {
        if tasks.len() == 0 {
            return;
        }
        let by_age = &mut *self.by_age.lock();
        let place = by_age.binary_search_by_key(&id, |(id, _)| *id).unwrap_or_else(|place| {
            by_age.insert(place, (id, VecDeque::new()));
            place
        });
        self.count.fetch_add(tasks.len(), Ordering::SeqCst);
        by_age[place].1.extend(tasks);
        debug_assert!(
            by_age[place].1.back().is_some_and(|task| task.model.id() == id),
            "a task stands in the queue of another request"
        );
        debug_assert!(
            place == 0 || by_age[place - 1].0 < id,
            "a younger request stands before an older one in its node's queues"
        );
        debug_assert!(
            by_age.get(place + 1).is_none_or(|(next, _)| *next > id),
            "an older request stands behind a younger one in its node's queues"
        );
        self.check(by_age);
    }

    /// The first task of the oldest request.
    pub(crate) fn pop(&self) -> Option<Task> {
        if self.is_empty() {
            return None;
        }
        let by_age = &mut *self.by_age.lock();
        let (_, oldest) = by_age.front_mut()?;
        let task = oldest.pop_front();
        debug_assert!(task.is_some(), "a request is listed in its node's queues and has no task there");
        if oldest.is_empty() {
            by_age.pop_front();
        }
        if task.is_some() {
            let before = self.count.fetch_sub(1, Ordering::SeqCst);
            debug_assert!(before > 0, "more tasks left a node's queues than came");
        }
        self.check(by_age);
        task
    }

    /// The youngest request and all its tasks that wait here, if older ones wait too and it may be moved.
    pub(crate) fn give_request(&self, may_move: impl FnOnce(&Model) -> bool) -> Option<VecDeque<Task>> {
        if self.len() < 2 {
            return None;
        }
        let by_age = &mut *self.by_age.lock();
        if by_age.len() < 2 || !by_age.back()?.1.front().is_some_and(|task| may_move(&task.model)) {
            return None;
        }
        let (_, tasks) = by_age.pop_back()?;
        let before = self.count.fetch_sub(tasks.len(), Ordering::SeqCst);
        debug_assert!(before > tasks.len(), "an older request was left in the queues without a task");
        self.check(by_age);
        Some(tasks)
    }

    /// Checks the count, and that each listed request has a task. The caller has the lock, under which both change.
    /// Long queues are not counted.
    #[inline]
    fn check(&self, by_age: &VecDeque<(RequestId, VecDeque<Task>)>) {
        debug_assert!(
            by_age.len() > COUNTED_MAX
                || self.count.load(Ordering::Relaxed)
                    == by_age.iter().map(|(_, tasks)| tasks.len()).sum::<usize>(),
            "the count of a node's queues is not that of their tasks: an idle look would be wrong"
        );
        debug_assert!(
            by_age.front().is_none_or(|(_, tasks)| !tasks.is_empty()),
            "the oldest request listed in a node's queues has no task there"
        );
    }
    /// Whether a waiting task fits; the oldest tasks are checked first.
    pub(crate) fn any(&self, fits: impl FnMut(&Task) -> bool) -> bool {
        self.by_age.lock().iter().flat_map(|(_, tasks)| tasks).any(fits)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::SeqCst) == 0
    }

    /// Tasks that wait.
    pub(crate) fn len(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }
}

/// New requests, oldest first, whose tasks have no home yet.
pub(crate) struct GlobalQueue {
    requests: Mutex<VecDeque<Arc<Model>>>,
    count: AtomicUsize,
}

impl GlobalQueue {
    pub(crate) fn new() -> Self {
        Self { requests: Mutex::new(VecDeque::new()), count: AtomicUsize::new(0) }
    }

    pub(crate) fn push(&self, model: Arc<Model>) {
        let mut requests = self.requests.lock();
        // Ids are assigned before this lock, so requests can arrive slightly out of order.
        let mut place = requests.len();
        while place > 0 && requests[place - 1].id() > model.id() {
            place -= 1;
        }
        if place == requests.len() {
            requests.push_back(model);
        } else {
            requests.insert(place, model);
        }
        debug_assert!(
            place == 0 || requests[place - 1].id() < requests[place].id(),
            "two new requests have one number"
        );
        self.count.fetch_add(1, Ordering::SeqCst);
        debug_assert_eq!(
            self.count.load(Ordering::Relaxed),
            requests.len(),
            "the count of new requests is not that of their queue"
        );
    }

    /// The oldest request.
    pub(crate) fn pop(&self) -> Option<Arc<Model>> {
        if self.is_empty() {
            return None;
        }
        let mut requests = self.requests.lock();
        let model = requests.pop_front()?;
        let before = self.count.fetch_sub(1, Ordering::SeqCst);
        debug_assert_eq!(before, requests.len() + 1, "the count of new requests is not that of their queue");
        Some(model)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::SeqCst) == 0
    }
}
