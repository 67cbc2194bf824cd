//! Task graphs: closures of a firing that depend on each other, run by priority on the slots that are free.
//!
//! The caller describes a graph by functions of the task's number ([`TaskGraph`]), so a graph of a million tasks takes four
//! bytes a task and no list of edges. runtime/README.md, section "Task graphs", describes the protocol. Invariants:
//! - a task runs once, after all its predecessors, and sees all that they wrote;
//! - no task runs when the call has returned: the call waits until each task that is ready or runs has ended (`Core::live`);
//! - a task's run and its maker's bookkeeping allocate nothing, except when a list of ready tasks grows.

mod shelf;
mod core;

use std::mem;
use std::panic::resume_unwind;

use self::core::{Cause, Core};
use super::Inside;

/// Tasks with dependences, numbered from 0. [`Inside::graph`] runs them.
///
/// The methods that describe the graph must give the same answers throughout a call, and are called on any thread. A result
/// does not depend on the number of slots, to the bit, if any two tasks of which one writes what the other one reads or writes
/// are ordered by dependences. That is up to the graph: for example, tasks that add to one sum must depend on each other in
/// a fixed order.
pub trait TaskGraph: Sync {
    /// The error with which a task ends the graph.
    type Error: Send;

    /// The number of tasks, below `u32::MAX`.
    fn tasks(&self) -> usize;

    /// The number of tasks that must end before this one begins: how often `successors` names it.
    fn predecessors(&self, task: usize) -> u32;

    /// Calls `each` with every task that must not begin before this one has ended.
    fn successors(&self, task: usize, each: impl FnMut(usize));

    /// The rank of a task among the ready ones: the highest runs first, and among equal ones that of the lowest number. The
    /// length of the longest path from the task to the graph's end is a good choice where tasks share no data; else those that do should follow each
    /// other.
    fn priority(&self, task: usize) -> u32 {
        let _ = task;
        0
    }

    /// Runs a task, which may run closures beside each other in turn. It should return early when `inside` says that the
    /// request is being cancelled.
    ///
    /// # Errors
    /// An error ends the graph: no further task begins.
    fn run(&self, task: usize, inside: &mut Inside<'_>) -> Result<(), Self::Error>;
}

/// The reason why a graph's tasks have not all run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GraphError<E> {
    /// The request was cancelled, or its deadline passed, before all tasks had begun.
    #[error("the request was cancelled")]
    Cancelled,
    /// Tasks wait for each other, or declare more predecessors than name them.
    #[error(
        "{left} of {tasks} tasks never became ready, task {first} the first of them: they wait for each other, or \
         `predecessors` says more than `successors` names"
    )]
    Stuck {
        /// The number of tasks that never became ready.
        left: usize,
        /// The number of all tasks.
        tasks: usize,
        /// The lowest number among the tasks that never became ready.
        first: usize,
    },
    /// The error of a task: the first that was given, if several tasks failed beside each other.
    #[error("{0}")]
    Task(E),
}

impl Inside<'_> {
    /// Runs the tasks of a graph, beside each other as slots are free, and returns when all have ended.
    ///
    /// Each slot runs the ready task of the highest priority among those that it made ready itself, and takes tasks from the
    /// nearest slots when it has none. The caller runs tasks of this graph meanwhile, and nothing else.
    ///
    /// # Errors
    /// When a task fails, when the request is cancelled, or when tasks wait for each other. In each case the running tasks
    /// have ended, and no further one has begun.
    ///
    /// # Panics
    /// With the first panic of a task, or of a method that describes the graph, once the running tasks have ended; when the
    /// graph has `u32::MAX` tasks or more.
    pub fn graph<G: TaskGraph>(&mut self, graph: &G) -> Result<(), GraphError<G::Error>> {
        let slots = self.lane.as_ref().map_or(1, |lane| lane.slots());
        let core = Core::new(graph, self.stopping, slots);
        core.begin(self);
        let guard = AbortOnUnwind;
        while !core.is_over() {
            match core.next(self) {
                Some(task) => core.work(self, task, usize::MAX),
                None => core.wait(self),
            }
        }
        core.withdraw(self);
        mem::forget(guard);
        match core.cause() {
            Some(Cause::Panic(panic)) => resume_unwind(panic),
            Some(Cause::Error(error)) => Err(GraphError::Task(error)),
            Some(Cause::Cancelled) => Err(GraphError::Cancelled),
            None => core.stuck().map_or(Ok(()), Err),
        }
    }
}

/// Ends the process when it is dropped, which only a fault of this module does: the stack must not unwind while other threads
/// run tasks that borrow from it.
struct AbortOnUnwind;

impl Drop for AbortOnUnwind {
    fn drop(&mut self) {
        std::process::abort();
    }
}
