//! A branch: a closure that another thread may run, and the latch that tells its maker of its end.
//!
//! Invariants: a branch is run once or taken back once, by whoever pops it; its maker's stack holds it until then. Setting
//! the latch is the last access of the thread that ran it.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::Arc;

use super::{Inside, Lane};
use crate::sync::{AtomicBool, AtomicU8, Mailbox, Ordering, UnsafeCell};

/// What a branch gave: its result, or its panic.
pub(super) type Ended<R> = Result<R, Box<dyn Any + Send>>;

/// A pointer to a branch, for the deques. Whoever holds it may run it, once.
#[derive(Clone, Copy)]
pub(crate) struct Branch {
    data: *const (),
    run: unsafe fn(*const (), &mut dyn Lane),
    /// The scope that it belongs to; null for a join.
    family: *const (),
}

// SAFETY: the closures behind it are `Send`, and their makers wait for them.
#[expect(unsafe_code, reason = "a branch is run by another thread through a pointer")]
unsafe impl Send for Branch {}

impl Branch {
    pub(super) fn new(data: *const (), run: unsafe fn(*const (), &mut dyn Lane), family: *const ()) -> Self {
        Self { data, run, family }
    }

    /// Runs it.
    ///
    /// # Safety
    /// It was popped from a deque of branches, and is run once.
    #[expect(unsafe_code, reason = "a branch is run by another thread through a pointer")]
    pub(crate) unsafe fn run(self, lane: &mut dyn Lane) {
        // SAFETY: the maker waits for its end, so the data are there; the caller keeps the rest.
        unsafe { (self.run)(self.data, lane) };
    }

    pub(super) fn is(&self, other: Self) -> bool {
        ptr::eq(self.data, other.data)
    }

    pub(super) fn is_of(&self, family: *const ()) -> bool {
        ptr::eq(self.family, family)
    }
}

/// A branch on its maker's stack.
pub(super) struct OnStack<'s, F, R> {
    work: UnsafeCell<Option<F>>,
    result: UnsafeCell<Option<Ended<R>>>,
    latch: Latch,
    stopping: &'s AtomicBool,
}

#[expect(unsafe_code, reason = "a branch is run by another thread through a pointer")]
impl<'s, F, R> OnStack<'s, F, R>
where
    F: FnOnce(&mut Inside<'_>) -> R + Send,
    R: Send,
{
    pub(super) fn new(work: F, stopping: &'s AtomicBool) -> Self {
        Self {
            work: UnsafeCell::new(Some(work)),
            result: UnsafeCell::new(None),
            latch: Latch::new(),
            stopping,
        }
    }

    pub(super) fn branch(&self) -> Branch {
        Branch::new(ptr::from_ref(self).cast(), Self::run_there, ptr::null())
    }

    pub(super) fn latch(&self) -> &Latch {
        &self.latch
    }

    /// Runs on the maker's thread a branch that was taken back.
    pub(super) fn run_here(self, inside: &mut Inside<'_>) -> R {
        let work = self.work.with_mut(|work| {
            // SAFETY: taken back, no other thread can reach it.
            unsafe { (*work).take() }
        });
        match work {
            Some(work) => work(inside),
            None => unreachable!("a branch was taken back after it had run"),
        }
    }

    /// What the branch gave, after its latch.
    pub(super) fn result(self) -> Ended<R> {
        let result = self.result.with_mut(|result| {
            // SAFETY: the latch is set, so the thread that ran it touches it no more.
            unsafe { (*result).take() }
        });
        match result {
            Some(result) => result,
            None => unreachable!("a latch was set before the result"),
        }
    }

    unsafe fn run_there(data: *const (), lane: &mut dyn Lane) {
        // SAFETY: `branch` made the pointer from a `Self` that its maker keeps until the latch is set.
        let this = unsafe { &*data.cast::<Self>() };
        let work = this.work.with_mut(|work| {
            // SAFETY: run once, and the maker does not touch it before the latch.
            unsafe { (*work).take() }
        });
        let mut inside = Inside::new(Some(lane), this.stopping);
        if let Some(work) = work {
            let result = catch_unwind(AssertUnwindSafe(|| work(&mut inside)));
            this.result.with_mut(|place| {
                // SAFETY: as above.
                unsafe { *place = Some(result) };
            });
        }
        this.latch.set();
    }
}

const PENDING: u8 = 0;
const AWAITED: u8 = 1;
const SET: u8 = 2;

/// Tells one thread of one event.
pub(crate) struct Latch {
    state: AtomicU8,
    /// Where the thread parks; written by it before it says so.
    seat: UnsafeCell<Option<Arc<Mailbox<()>>>>,
}

// SAFETY: the seat is written by the one thread that waits before the state says AWAITED, and read by the one that sets
// only after it said so.
#[expect(unsafe_code, reason = "the state orders the accesses of the seat")]
unsafe impl Sync for Latch {}

#[expect(unsafe_code, reason = "the state orders the accesses of the seat")]
impl Latch {
    pub(crate) fn new() -> Self {
        Self { state: AtomicU8::new(PENDING), seat: UnsafeCell::new(None) }
    }

    pub(crate) fn is_set(&self) -> bool {
        // Acquire: pairs with the swap in `set`.
        self.state.load(Ordering::Acquire) == SET
    }

    /// Parks until it is set; one thread does, once.
    pub(crate) fn park(&self) {
        let seat = Arc::new(Mailbox::new());
        self.seat.with_mut(|place| {
            // SAFETY: nobody reads it before the exchange below.
            unsafe { *place = Some(Arc::clone(&seat)) };
        });
        // Release: the seat. Acquire: what was done before the latch was set.
        let exchanged = self.state.compare_exchange(PENDING, AWAITED, Ordering::AcqRel, Ordering::Acquire);
        if exchanged.is_ok() {
            seat.take();
        }
    }

    /// Sets it. Whoever waits may free it at once.
    pub(crate) fn set(&self) {
        if self.state.swap(SET, Ordering::AcqRel) == AWAITED {
            // The waiting thread is parked, or about to be, until the seat is filled: the latch is still there.
            let seat = self.seat.with(|seat| {
                // SAFETY: written before the state said AWAITED.
                unsafe { (*seat).clone() }
            });
            if let Some(seat) = seat {
                seat.put(());
            }
        }
    }
}
