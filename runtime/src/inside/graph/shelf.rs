//! A shelf: the ready tasks that one slot has made, and the token by which other slots find them.
//!
//! A token is a branch in a deque that says: the shelf of its maker may have a task. The thread that runs a token takes the best
//! task of that shelf at that moment. Invariant: each task on a shelf has a token of its own, or more were made than are needed;
//! the task of a token may be gone.

use std::collections::BinaryHeap;
use std::mem;

use super::super::branch::Header;
use crate::sync::{Counter, Mutex, Ordering};

/// A ready task: the priority above, the complement of the number below, so that of equal ones the lowest number is greatest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ready(u64);

impl Ready {
    pub(super) fn new(priority: u32, task: u32) -> Self {
        Self(u64::from(priority) << 32 | u64::from(!task))
    }

    pub(super) fn task(self) -> u32 {
        !(self.0 as u32)
    }
}

/// Aligned to two cache lines: a slot writes to its shelf at every task, and processors fetch lines in pairs.
#[repr(C, align(128))]
pub(super) struct Shelf<T> {
    /// First, because a token is a pointer to it.
    pub(super) header: Header,
    /// The graph's shared state, for a token.
    pub(super) owner: *const T,
    pub(super) place: usize,
    tasks: Mutex<Tasks>,
    /// The length of the heap; a hint, written under the lock.
    len: Counter,
}

#[derive(Default)]
struct Tasks {
    heap: BinaryHeap<Ready>,
    /// A list for the slot's next turn, empty: it keeps its memory.
    spare: Vec<Ready>,
}

impl<T> Shelf<T> {
    pub(super) fn new(header: Header, place: usize) -> Self {
        Self { header, owner: std::ptr::null(), place, tasks: Mutex::default(), len: Counter::new(0) }
    }

    /// Whether a look without the lock finds it empty.
    pub(super) fn looks_empty(&self) -> bool {
        self.len.load(Ordering::Relaxed) == 0
    }

    /// Whether it is empty. The lock orders this look before or after each `put`.
    pub(super) fn is_empty(&self) -> bool {
        self.tasks.lock().heap.is_empty()
    }

    /// The best task.
    pub(super) fn take(&self) -> Option<u32> {
        if self.looks_empty() {
            return None;
        }
        let mut tasks = self.tasks.lock();
        let best = tasks.heap.pop();
        self.len.store(tasks.heap.len() as u64, Ordering::Relaxed);
        best.map(Ready::task)
    }

    /// Puts tasks on it.
    pub(super) fn put(&self, made: &[Ready]) {
        debug_assert!(!made.is_empty(), "a lock is taken for no task");
        let mut tasks = self.tasks.lock();
        tasks.heap.extend(made);
        self.len.store(tasks.heap.len() as u64, Ordering::Relaxed);
    }

    /// The better one of a task and of those on the shelf; the other one stays there.
    pub(super) fn exchange(&self, task: Ready) -> Ready {
        if self.looks_empty() {
            return task;
        }
        let mut tasks = self.tasks.lock();
        match tasks.heap.peek_mut() {
            // The task that was just made ready is hot in the cache, so it wins among equal priorities.
            Some(mut best) if best.0 >> 32 > task.0 >> 32 => mem::replace(&mut *best, task),
            _ => task,
        }
    }

    /// A list for one turn; `give_back` takes it.
    pub(super) fn lend(&self) -> Vec<Ready> {
        mem::take(&mut self.tasks.lock().spare)
    }

    pub(super) fn give_back(&self, list: Vec<Ready>) {
        debug_assert!(
            list.is_empty(),
            "tasks that were made ready were not put on a shelf: they would never run"
        );
        self.tasks.lock().spare = list;
    }
}
