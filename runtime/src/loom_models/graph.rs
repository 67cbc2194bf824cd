//! A graph of tasks on two threads: the caller, and a thief that runs one token.
//!
//! The tasks pass what they write through cells, so loom reports a task that begins before what it reads is there, and one that
//! runs when the call has returned. The thief leaves the tokens that it makes, so the caller must learn of their tasks.

use std::sync::Arc;

use loom::thread;

use super::check;
use crate::inside::{Branch, GraphError, Inside, Lane, Latch, TaskGraph};
use crate::sync::{AtomicBool, Mutex, UnsafeCell};

type Deques = Arc<[Mutex<Vec<Branch>>; 2]>;

/// A thread with a slot.
struct Thread {
    slot: usize,
    deques: Deques,
}

impl Lane for Thread {
    fn push(&mut self, branch: Branch) {
        self.deques[self.slot].lock().push(branch);
    }

    fn pop(&mut self) -> Option<Branch> {
        self.deques[self.slot].lock().pop()
    }

    fn slot(&self) -> Option<usize> {
        Some(self.slot)
    }

    fn slots(&self) -> usize {
        2
    }

    fn near(&mut self, visit: &mut dyn FnMut(usize) -> bool) {
        visit(1 - self.slot);
    }

    fn wait(&mut self, latch: &Latch) {
        if !latch.is_set() {
            latch.park();
        }
    }
}

/// Task 0 comes before two others, which come before the last one.
struct Diamond {
    /// The sum of the numbers of a task's predecessors, and one more.
    written: [UnsafeCell<usize>; 4],
    fails: Option<usize>,
    /// Written by the caller alone, before and after the call.
    callers: UnsafeCell<bool>,
}

// SAFETY: the tasks that use a cell are ordered by the graph; loom checks that.
#[expect(unsafe_code, reason = "loom's cells find races")]
unsafe impl Sync for Diamond {}

const BEFORE: [&[usize]; 4] = [&[], &[0], &[0], &[1, 2]];

impl TaskGraph for Diamond {
    type Error = ();

    fn tasks(&self) -> usize {
        BEFORE.len()
    }

    fn predecessors(&self, task: usize) -> u32 {
        BEFORE[task].len() as u32
    }

    fn successors(&self, task: usize, each: impl FnMut(usize)) {
        (0..BEFORE.len()).filter(|next| BEFORE[*next].contains(&task)).for_each(each);
    }

    #[expect(unsafe_code, reason = "loom's cells find races")]
    fn run(&self, task: usize, _: &mut Inside<'_>) -> Result<(), ()> {
        // SAFETY: the caller writes it when no task runs.
        assert!(!self.callers.with(|over| unsafe { *over }), "a task runs when the call has returned");
        // SAFETY: the predecessors have ended.
        let read = |before: &usize| self.written[*before].with(|written| unsafe { *written });
        let sum: usize = BEFORE[task].iter().map(read).sum();
        // SAFETY: the task runs once, and its successors have not begun.
        self.written[task].with_mut(|written| unsafe { *written += sum + 1 });
        if self.fails == Some(task) { Err(()) } else { Ok(()) }
    }
}

/// Runs the graph on two threads. `look` sees the result and the numbers that the tasks have written.
#[expect(unsafe_code, reason = "loom's cells find races")]
fn model(
    preemptions: usize,
    fails: Option<usize>,
    is_cancelled: bool,
    look: fn(Result<(), GraphError<()>>, [usize; 4]),
) {
    check(preemptions, move || {
        let deques: Deques = Arc::new([Mutex::new(Vec::new()), Mutex::new(Vec::new())]);
        let thief = {
            let mut lane = Thread { slot: 1, deques: Arc::clone(&deques) };
            thread::spawn(move || {
                let stolen = lane.deques[0].lock().pop();
                if let Some(token) = stolen {
                    // SAFETY: it was just popped.
                    unsafe { token.run(&mut lane) };
                }
            })
        };
        let stopping = AtomicBool::new(is_cancelled);
        let mut lane = Thread { slot: 0, deques: Arc::clone(&deques) };
        let written = || UnsafeCell::new(0);
        let graph = Diamond {
            written: [written(), written(), written(), written()],
            fails,
            callers: UnsafeCell::new(false),
        };
        let result = Inside::new(Some(&mut lane), &stopping).graph(&graph);
        // SAFETY: no task runs any more; loom checks that.
        graph.callers.with_mut(|over| unsafe { *over = true });
        // SAFETY: as above.
        look(result, std::array::from_fn(|task| graph.written[task].with(|written| unsafe { *written })));
        drop(graph);
        drop(stopping);
        thief.join().unwrap();
        assert!(deques[0].lock().is_empty(), "the caller has left a token");
        // The thief's tokens outlive the call, and find nothing.
        while let Some(token) = { deques[1].lock().pop() } {
            // SAFETY: it was just popped.
            unsafe { token.run(&mut lane) };
        }
    });
}

#[test]
fn loom_a_task_of_a_graph_runs_once_after_its_predecessors() {
    model(3, None, false, |result, written| {
        assert_eq!(result, Ok(()));
        assert_eq!(written, [1, 2, 2, 5]);
    });
}

#[test]
fn loom_a_graph_whose_task_fails_returns_when_no_task_runs() {
    model(3, Some(1), false, |result, written| {
        assert_eq!(result, Err(GraphError::Task(())));
        assert!(written[..2] == [1, 2] && written[2] <= 2 && written[3] == 0, "{written:?}");
    });
}

#[test]
fn loom_a_cancelled_graph_runs_nothing_and_returns() {
    model(3, None, true, |result, written| {
        assert_eq!(result, Err(GraphError::Cancelled));
        assert_eq!(written, [0; 4]);
    });
}
