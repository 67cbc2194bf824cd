//! The homes of tasks that no slot owns: a node's request queues, and the global queue of new requests.
//!
//! Invariant: the oldest request's tasks come first, in the order in which they were planned.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::model::Model;
use crate::request::RequestId;
use crate::sync::{AtomicUsize, Mutex, Ordering};

/// One planned execution of one box: the right to fire it, so it is not to be cloned.
pub(crate) struct Task {
    pub(crate) model: Arc<Model>,
    pub(crate) cell: usize,
}

/// The request queues of one node.
pub(crate) struct RequestQueues {
    queues: Mutex<BTreeMap<RequestId, VecDeque<Task>>>,
    /// Follows the number of tasks, so that an idle look needs no lock.
    count: AtomicUsize,
}

impl RequestQueues {
    pub(crate) fn new() -> Self {
        Self { queues: Mutex::new(BTreeMap::new()), count: AtomicUsize::new(0) }
    }

    pub(crate) fn push(&self, task: Task) {
        let mut queues = self.queues.lock();
        queues.entry(task.model.id()).or_default().push_back(task);
        self.count.fetch_add(1, Ordering::SeqCst);
    }

    /// The first task of the oldest request.
    pub(crate) fn pop(&self) -> Option<Task> {
        if self.is_empty() {
            return None;
        }
        let mut queues = self.queues.lock();
        let mut oldest = queues.first_entry()?;
        let task = oldest.get_mut().pop_front();
        if oldest.get().is_empty() {
            oldest.remove();
        }
        if task.is_some() {
            self.count.fetch_sub(1, Ordering::SeqCst);
        }
        task
    }

    /// The youngest request and all its tasks that wait here, if older ones wait too and it may be moved.
    pub(crate) fn give_request(&self, may_move: impl FnOnce(&Model) -> bool) -> Option<VecDeque<Task>> {
        if self.len() < 2 {
            return None;
        }
        let mut queues = self.queues.lock();
        if queues.len() < 2 {
            return None;
        }
        let youngest = queues
            .last_entry()
            .filter(|youngest| youngest.get().front().is_some_and(|task| may_move(&task.model)))?;
        let tasks = youngest.remove();
        self.count.fetch_sub(tasks.len(), Ordering::SeqCst);
        Some(tasks)
    }

    /// Whether a task that waits here fits; the oldest are asked first.
    pub(crate) fn any(&self, fits: impl FnMut(&Task) -> bool) -> bool {
        self.queues.lock().values().flatten().any(fits)
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
        // Numbers are given before the lock is taken, so a younger request may come first by a hair.
        let place = requests.iter().rposition(|other| other.id() < model.id()).map_or(0, |place| place + 1);
        requests.insert(place, model);
        self.count.fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn pop(&self) -> Option<Arc<Model>> {
        if self.is_empty() {
            return None;
        }
        let model = self.requests.lock().pop_front();
        if model.is_some() {
            self.count.fetch_sub(1, Ordering::SeqCst);
        }
        model
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::SeqCst) == 0
    }
}
