//! Nested parallelism inside a firing: `join`, `for_each_chunk`, `scope` and `graph`, whose caller runs only its own branches.
//!
//! The caller puts a branch where other slots find it, and takes it back if no slot has taken it. Invariants:
//! - a caller that waits for a branch on another thread runs only branches that this branch has made. It never runs a foreign
//!   branch or a task on its stack. So its stack has only calls that it would have on one thread, and no box is entered twice;
//! - the caller keeps its slot, so it needs no other thread to continue (runtime/README.md, section "Branches");
//! - a branch ends, or is taken back, before the call that made it returns, so everything that it borrows outlives it.

mod branch;
mod scope;
mod graph;

use std::mem;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use self::branch::OnStack;
pub(crate) use self::branch::{Branch, Latch};
pub use self::graph::{GraphError, TaskGraph};
pub use self::scope::Scope;
use crate::sync::{AtomicBool, Ordering};

/// The services of a scheduler's thread for branches. This trait keeps the module free of the scheduler.
pub(crate) trait Lane {
    /// Puts a branch where other slots find it, the newest on top.
    fn push(&mut self, branch: Branch);
    /// Takes the newest branch back.
    fn pop(&mut self) -> Option<Branch>;
    /// The slot whose deque it pushes to; none for a lane without others.
    fn slot(&self) -> Option<usize> {
        None
    }
    /// The number of slots; the numbers that `slot` gives are below it.
    fn slots(&self) -> usize {
        1
    }
    /// Visits the other slots, the nearest first, until `visit` says that it has found something.
    fn near(&mut self, visit: &mut dyn FnMut(usize) -> bool) {
        let _ = visit;
    }
    /// Whether a thread waits for a slot.
    fn is_awaited(&self) -> bool {
        false
    }
    /// Waits for a latch.
    fn wait(&mut self, latch: &Latch);
    /// Waits for a branch of a join. Meanwhile the thread may run branches that this branch has made.
    fn help(&mut self, latch: &Latch) {
        self.wait(latch);
    }
}

/// The inside of a firing: closures may run beside each other here, and none of them can touch the box's ports.
///
/// If another slot has taken a closure, the waiting thread runs only parts of that closure meanwhile (the joins that it has
/// made): no closure of another firing or branch, and no box. So its stack has only calls that it would have on one slot.
/// The joiners of rayon, and of oneTBB without `isolate`, take any task. There a joiner that holds a lock may take a task
/// that needs this lock and so wait for itself, and a function may be entered again on the stack of its own first call. Here
/// only the usual rule applies: do not wait for a closure while holding a lock that the closure needs.
pub struct Inside<'a> {
    /// Without a lane the closures run in turn.
    lane: Option<&'a mut dyn Lane>,
    stopping: &'a AtomicBool,
}

impl<'a> Inside<'a> {
    pub(crate) fn new(lane: Option<&'a mut dyn Lane>, stopping: &'a AtomicBool) -> Self {
        Self { lane, stopping }
    }

    /// Whether the request is being cancelled. A long closure checks this at intervals, and returns early.
    pub fn is_cancelled(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    /// [`Inside::is_cancelled`] as a function that closures take along.
    pub fn cancelled(&self) -> impl Fn() -> bool + Copy + Send + Sync + use<'a> {
        let stopping = self.stopping;
        move || stopping.load(Ordering::Relaxed)
    }

    /// Runs two closures, beside each other if another slot is free, and gives both results.
    ///
    /// The first runs on the caller's stack. If it panics, the panic continues when the second has ended, or at once if
    /// no thread has begun the second.
    #[expect(unsafe_code, reason = "a branch lies on the stack of its maker")]
    #[inline]
    pub fn join<A, B>(
        &mut self,
        a: impl FnOnce(&mut Inside<'_>) -> A,
        b: impl FnOnce(&mut Inside<'_>) -> B + Send,
    ) -> (A, B)
    where
        B: Send,
    {
        if self.lane.is_none() {
            return (a(self), b(self));
        }
        let second = OnStack::new(b, self.stopping);
        self.push(second.branch());
        // No `catch_unwind`: the results stay in registers, and only a panic costs more.
        let first = First { inside: self, second: &second };
        let ours = a(first.inside);
        mem::forget(first);
        if self.take_back(second.branch()) {
            // SAFETY: it was just popped.
            let work = unsafe { second.work() };
            return (ours, work(self));
        }
        if let Some(lane) = &mut self.lane {
            lane.help(second.latch());
        }
        // SAFETY: the latch is set.
        match unsafe { second.result() } {
            Ok(theirs) => (ours, theirs),
            Err(panic) => resume_unwind(panic),
        }
    }

    /// Runs a closure for pieces of `0..count` of at most `chunk` each, beside each other as slots are free.
    ///
    /// # Panics
    /// When `chunk` is 0. If a piece panics, its panic continues once the running pieces have ended; the remaining
    /// pieces are left out.
    pub fn for_each_chunk(&mut self, count: usize, chunk: usize, f: impl Fn(Range<usize>) + Sync) {
        assert!(chunk > 0, "a chunk of no items never ends");
        if count > 0 {
            self.halves(0..count, chunk, &f);
        }
    }

    /// Like `for_each_chunk` for the items of a slice, with the index of each chunk's first item.
    ///
    /// # Panics
    /// As [`Inside::for_each_chunk`].
    pub fn for_each_chunk_of<T: Send>(
        &mut self,
        items: &mut [T],
        chunk: usize,
        f: impl Fn(usize, &mut [T]) + Sync,
    ) {
        assert!(chunk > 0, "a chunk of no items never ends");
        self.slices(0, items, chunk, &f);
    }

    fn halves(&mut self, range: Range<usize>, chunk: usize, f: &(impl Fn(Range<usize>) + Sync)) {
        if range.len() <= chunk {
            return f(range);
        }
        // Whole chunks on both sides.
        let middle = range.start + range.len().div_ceil(chunk) / 2 * chunk;
        debug_assert!(
            range.start < middle && middle < range.end,
            "a half of a range is empty: it would be halved for ever"
        );
        let (left, right) = (range.start..middle, middle..range.end);
        self.join(|inside| inside.halves(left, chunk, f), |inside| inside.halves(right, chunk, f));
    }

    fn slices<T: Send>(
        &mut self,
        first: usize,
        items: &mut [T],
        chunk: usize,
        f: &(impl Fn(usize, &mut [T]) + Sync),
    ) {
        if items.len() <= chunk {
            if !items.is_empty() {
                f(first, items);
            }
            return;
        }
        let middle = items.len().div_ceil(chunk) / 2 * chunk;
        debug_assert!(
            0 < middle && middle < items.len(),
            "a half of a slice is empty: it would be halved for ever"
        );
        let (left, right) = items.split_at_mut(middle);
        self.join(
            |inside| inside.slices(first, left, chunk, f),
            |inside| inside.slices(first + middle, right, chunk, f),
        );
    }

    /// Runs a closure that may spawn others, and returns when all have ended.
    ///
    /// # Panics
    /// With the first panic among them, once all have ended.
    pub fn scope<'s, R>(&mut self, f: impl FnOnce(&Scope<'s>, &mut Inside<'_>) -> R) -> R {
        let scope = Scope::new(self.stopping);
        let result = catch_unwind(AssertUnwindSafe(|| f(&scope, self)));
        scope.finish(self);
        match (result, scope.panic()) {
            (Ok(result), None) => result,
            (Err(panic), _) | (_, Some(panic)) => resume_unwind(panic),
        }
    }

    #[inline]
    fn push(&mut self, branch: Branch) {
        if let Some(lane) = &mut self.lane {
            lane.push(branch);
        }
    }

    /// Takes a branch back, unless another slot has stolen it.
    #[inline]
    fn take_back(&mut self, branch: Branch) -> bool {
        let Some(lane) = &mut self.lane else { return false };
        match lane.pop() {
            Some(newest) if newest.is(branch) => true,
            Some(other) => {
                lane.push(other);
                self.take_back_where(|newer| newer.is(branch)).is_some()
            }
            None => false,
        }
    }

    /// Takes back the newest branch that fits. The branches above it were spawned into a scope further down the stack,
    /// and stay.
    fn take_back_where(&mut self, fits: impl Fn(Branch) -> bool) -> Option<Branch> {
        let lane = self.lane.as_mut()?;
        let mut above = Vec::new();
        let found = loop {
            match lane.pop() {
                Some(newest) if fits(newest) => break Some(newest),
                Some(other) => above.push(other),
                None => break None,
            }
        };
        for other in above.into_iter().rev() {
            lane.push(other);
        }
        found
    }

    fn wait(&mut self, latch: &Latch) {
        if let Some(lane) = &mut self.lane {
            lane.wait(latch);
        }
    }
}

/// The first closure of a join while it runs. If it panics, the drop waits for the second before the stack unwinds that
/// the second borrows from.
struct First<'j, 'a, 's, F, R>
where
    F: FnOnce(&mut Inside<'_>) -> R + Send,
    R: Send,
{
    inside: &'j mut Inside<'a>,
    second: &'j OnStack<'s, F, R>,
}

impl<F, R> Drop for First<'_, '_, '_, F, R>
where
    F: FnOnce(&mut Inside<'_>) -> R + Send,
    R: Send,
{
    #[expect(unsafe_code, reason = "a branch lies on the stack of its maker")]
    #[cold]
    fn drop(&mut self) {
        if self.inside.take_back(self.second.branch()) {
            // SAFETY: it was just popped.
            drop(unsafe { self.second.work() });
        } else {
            self.inside.wait(self.second.latch());
            // SAFETY: the latch is set.
            drop(unsafe { self.second.result() });
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
