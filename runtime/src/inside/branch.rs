//! A branch: a closure that another thread may run, and the latch that notifies its maker of its end.
//!
//! Invariants: the thread that pops a branch runs it or takes it back, once; the stack of its maker holds it until
//! then. The thread that ran it sets the latch as its last access. While the maker takes a branch from that thread's
//! deque, the thread waits before it sets the latch, so the stolen branch has made every branch that the maker takes
//! there.

use std::any::Any;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{self, NonNull};
use std::sync::Arc;

use super::{Inside, Lane};
use crate::sync::{AtomicBool, AtomicPtr, AtomicUsize, Mailbox, Ordering, UnsafeCell, relax};

/// The outcome of a branch: its result or its panic.
pub(super) type Ended<R> = Result<R, Box<dyn Any + Send>>;

/// The first fields of every branch.
pub(super) struct Header {
    run: unsafe fn(NonNull<Header>, &mut dyn Lane),
    /// The scope that it belongs to; null for a join.
    family: *const (),
}

impl Header {
    pub(super) fn new(run: unsafe fn(NonNull<Self>, &mut dyn Lane), family: *const ()) -> Self {
        Self { run, family }
    }
}

/// A branch in a deque: one word, because every join pushes one and pops one. The thread that holds it may run it, once.
#[derive(Clone, Copy)]
pub(crate) struct Branch(NonNull<Header>);

// SAFETY: the closures behind it are `Send`, and their makers wait for them.
#[expect(unsafe_code, reason = "a branch is run by another thread through a pointer")]
unsafe impl Send for Branch {}

impl Branch {
    /// The header is the first field of a value that its maker keeps until the branch has ended or is taken back.
    pub(super) fn new(header: NonNull<Header>) -> Self {
        Self(header)
    }

    /// Runs it.
    ///
    /// # Safety
    /// The caller has popped it from a deque of branches, and runs it once.
    #[expect(unsafe_code, reason = "a branch is run by another thread through a pointer")]
    pub(crate) unsafe fn run(self, lane: &mut dyn Lane) {
        // SAFETY: the maker waits for its end, so the header is there.
        let run = unsafe { self.0.as_ref() }.run;
        // SAFETY: as above; the caller keeps the contract.
        unsafe { run(self.0, lane) };
    }

    /// Whether a branch that was just popped is the second closure of a join.
    #[expect(unsafe_code, reason = "a branch is reached through a pointer")]
    pub(crate) fn is_of_join(self) -> bool {
        // SAFETY: only the caller has it, so it has not ended.
        unsafe { self.0.as_ref() }.family.is_null()
    }

    #[inline]
    pub(super) fn is(self, other: Self) -> bool {
        self.0 == other.0
    }

    /// Whether a branch that was just popped is of a family.
    #[expect(unsafe_code, reason = "a branch is reached through a pointer")]
    pub(super) fn is_of(self, family: *const ()) -> bool {
        // SAFETY: only the caller has it, so it has not ended.
        ptr::eq(unsafe { self.0.as_ref() }.family, family)
    }
}

/// A branch on its maker's stack. It drops nothing by itself: its maker takes out the closure, or the result.
#[repr(C)]
pub(super) struct OnStack<'s, F, R> {
    header: Header,
    work: UnsafeCell<ManuallyDrop<F>>,
    result: UnsafeCell<MaybeUninit<Ended<R>>>,
    latch: Latch,
    stopping: &'s AtomicBool,
}

#[expect(unsafe_code, reason = "a branch is run by another thread through a pointer")]
impl<'s, F, R> OnStack<'s, F, R>
where
    F: FnOnce(&mut Inside<'_>) -> R + Send,
    R: Send,
{
    #[inline]
    pub(super) fn new(work: F, stopping: &'s AtomicBool) -> Self {
        Self {
            header: Header::new(Self::run_there, ptr::null()),
            work: UnsafeCell::new(ManuallyDrop::new(work)),
            result: UnsafeCell::new(MaybeUninit::uninit()),
            latch: Latch::new(),
            stopping,
        }
    }

    #[inline]
    pub(super) fn branch(&self) -> Branch {
        Branch::new(NonNull::from(self).cast())
    }

    pub(super) fn latch(&self) -> &Latch {
        &self.latch
    }

    /// The closure of a branch that was taken back.
    ///
    /// # Safety
    /// The caller has popped the branch, and calls this once.
    #[inline]
    pub(super) unsafe fn work(&self) -> F {
        debug_assert!(!self.latch.is_set(), "the closure of a branch is taken that has run already");
        // SAFETY: no other thread can reach it, and it is read once.
        self.work.with(|work| unsafe { ManuallyDrop::into_inner(work.read()) })
    }

    /// The outcome of the branch.
    ///
    /// # Safety
    /// Its latch is set, and the caller calls this once.
    pub(super) unsafe fn result(&self) -> Ended<R> {
        debug_assert!(self.latch.is_set(), "the result of a branch is read before the branch has ended");
        // SAFETY: the thread that ran the branch has written the result and touches it no more.
        self.result.with(|result| unsafe { (*result).assume_init_read() })
    }

    unsafe fn run_there(header: NonNull<Header>, lane: &mut dyn Lane) {
        // SAFETY: the header is the first field of a `Self`, which its maker keeps until the latch is set.
        let this = unsafe { header.cast::<Self>().as_ref() };
        this.latch.begin(lane.slot());
        // SAFETY: the caller has popped it.
        let work = unsafe { this.work() };
        let mut inside = Inside::new(Some(lane), this.stopping);
        let result = catch_unwind(AssertUnwindSafe(|| work(&mut inside)));
        this.result.with_mut(|place| {
            // SAFETY: the maker does not touch it before the latch is set.
            unsafe { (*place).write(result) };
        });
        this.latch.set();
    }
}

/// Notifies one thread of one event. The state is null until then, or the seat at which that thread parks.
pub(crate) struct Latch {
    state: AtomicPtr<Mailbox<()>>,
    /// The slot that runs the branch; [`NO_SLOT`] until one does.
    slot: AtomicUsize,
}

/// The state once the latch is set, and while the waiting thread holds it up. No seat has these addresses.
const SET: *mut Mailbox<()> = ptr::dangling_mut();
const HELD: *mut Mailbox<()> = SET.wrapping_add(1);
const NO_SLOT: usize = usize::MAX;

#[expect(unsafe_code, reason = "the state carries a reference of the seat to the thread that sets the latch")]
impl Latch {
    #[inline]
    pub(crate) fn new() -> Self {
        Self { state: AtomicPtr::new(ptr::null_mut()), slot: AtomicUsize::new(NO_SLOT) }
    }

    /// The branch begins, on a slot if the lane has one. Release: the slot's deque had no branch of another join.
    pub(crate) fn begin(&self, slot: Option<usize>) {
        debug_assert_eq!(self.slot.load(Ordering::Relaxed), NO_SLOT, "a branch was begun by two slots");
        self.slot.store(slot.unwrap_or(NO_SLOT), Ordering::Release);
    }

    /// The slot that runs the branch, if it has begun.
    pub(crate) fn slot(&self) -> Option<usize> {
        Some(self.slot.load(Ordering::Acquire)).filter(|slot| *slot != NO_SLOT)
    }

    /// Holds the event up while a short closure runs; `None` if the latch is set. For the waiting thread.
    pub(crate) fn hold_up<R>(&self, f: impl FnOnce() -> R) -> Option<R> {
        // Acquire and release: between the two the branch still runs.
        let held = self.state.compare_exchange(ptr::null_mut(), HELD, Ordering::AcqRel, Ordering::Acquire);
        held.ok()?;
        let result = f();
        debug_assert_eq!(
            self.state.load(Ordering::Relaxed),
            HELD,
            "a latch changed while it was held up: its maker may be gone"
        );
        self.state.store(ptr::null_mut(), Ordering::Release);
        Some(result)
    }

    pub(crate) fn is_set(&self) -> bool {
        // Acquire: pairs with the swap in `set`.
        self.state.load(Ordering::Acquire) == SET
    }

    /// Parks until it is set. Only one thread parks, once.
    pub(crate) fn park(&self) {
        let seat = Arc::new(Mailbox::new());
        let theirs = Arc::into_raw(Arc::clone(&seat)).cast_mut();
        // Release: the seat. Acquire: everything before the latch was set.
        let before = ptr::null_mut();
        let exchanged = self.state.compare_exchange(before, theirs, Ordering::AcqRel, Ordering::Acquire);
        if exchanged.is_ok() {
            seat.take();
        } else {
            debug_assert!(self.is_set(), "two threads wait for one latch: one of them is never woken");
            // SAFETY: no other thread has seen it.
            drop(unsafe { Arc::from_raw(theirs) });
        }
    }

    /// Sets it. The waiting thread may free it at once.
    pub(crate) fn set(&self) {
        let mut before = ptr::null_mut();
        while let Err(now) =
            self.state.compare_exchange_weak(before, SET, Ordering::AcqRel, Ordering::Acquire)
        {
            debug_assert_ne!(now, SET, "a latch was set twice: the thread that waited may have freed it");
            if now == HELD {
                relax();
            }
            before = if now == HELD { ptr::null_mut() } else { now };
        }
        if !before.is_null() {
            // SAFETY: the parking thread has left this reference, and only this exchange takes it.
            let seat = unsafe { Arc::from_raw(before) };
            seat.put(());
        }
    }
}
