//! A branch: a closure that another thread may run, and the latch that notifies its maker of its end.
//!
//! Invariants: the thread that pops a branch runs it or takes it back, once; the stack of its maker holds it until then. The
//! thread that ran it sets the latch as its last access. It waits with this while the maker takes a branch from its deque,
//! so every branch that the maker takes there was made by this branch.

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
    /// The header stands first in something that its maker keeps until the branch has ended or is taken back.
    pub(super) fn new(header: NonNull<Header>) -> Self {
        Self(header)
    }

    /// Runs it.
    ///
    /// # Safety
    /// It was popped from a deque of branches, and is run once.
    #[expect(unsafe_code, reason = "a branch is run by another thread through a pointer")]
    pub(crate) unsafe fn run(self, lane: &mut dyn Lane) {
        // SAFETY: the maker waits for its end, so the header is there.
        let run = unsafe { self.0.as_ref() }.run;
        // SAFETY: as above; the caller keeps the rest.
        unsafe { run(self.0, lane) };
    }

    /// Whether a branch that was just popped is the second closure of a join.
    #[expect(unsafe_code, reason = "a branch is reached through a pointer")]
    pub(crate) fn is_of_join(self) -> bool {
        // SAFETY: nobody else has it, so it has not ended.
        unsafe { self.0.as_ref() }.family.is_null()
    }

    #[inline]
    pub(super) fn is(self, other: Self) -> bool {
        self.0 == other.0
    }

    /// Whether a branch that was just popped is of a family.
    #[expect(unsafe_code, reason = "a branch is reached through a pointer")]
    pub(super) fn is_of(self, family: *const ()) -> bool {
        // SAFETY: nobody else has it, so it has not ended.
        ptr::eq(unsafe { self.0.as_ref() }.family, family)
    }
}

/// A branch on its maker's stack. It drops nothing by itself: its maker takes the closure back, or the result.
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
    /// It was popped by the caller, who calls this once.
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
        // SAFETY: the thread that ran it has written the result and touches it no more.
        self.result.with(|result| unsafe { (*result).assume_init_read() })
    }

    unsafe fn run_there(header: NonNull<Header>, lane: &mut dyn Lane) {
        // SAFETY: the header stands first in a `Self`, which its maker keeps until the latch is set.
        let this = unsafe { header.cast::<Self>().as_ref() };
        this.latch.begin(lane.slot());
        // SAFETY: the caller has popped it.
        let work = unsafe { this.work() };
        let mut inside = Inside::new(Some(lane), this.stopping);
        let result = catch_unwind(AssertUnwindSafe(|| work(&mut inside)));
        this.result.with_mut(|place| {
            // SAFETY: the maker does not touch it before the latch.
            unsafe { (*place).write(result) };
        });
        this.latch.set();
    }
}

/// Notifies one thread of one event: null until then, or the seat at which that thread parks.
pub(crate) struct Latch {
    state: AtomicPtr<Mailbox<()>>,
    /// The slot that runs the branch; [`NOBODY`] until one does.
    slot: AtomicUsize,
}

/// What the state is once the latch is set, and while the one that waits holds it up: the addresses of no seats.
const SET: *mut Mailbox<()> = ptr::dangling_mut();
const HELD: *mut Mailbox<()> = SET.wrapping_add(1);
const NOBODY: usize = usize::MAX;

#[expect(unsafe_code, reason = "the state carries a reference of the seat to whoever sets the latch")]
impl Latch {
    #[inline]
    pub(crate) fn new() -> Self {
        Self { state: AtomicPtr::new(ptr::null_mut()), slot: AtomicUsize::new(NOBODY) }
    }

    /// What is waited for begins, on a slot if the lane has one. Release: its deque had nothing of other joins in it.
    pub(crate) fn begin(&self, slot: Option<usize>) {
        debug_assert_eq!(self.slot.load(Ordering::Relaxed), NOBODY, "a branch was begun by two slots");
        self.slot.store(slot.unwrap_or(NOBODY), Ordering::Release);
    }

    /// The slot that runs what is waited for, if that has begun.
    pub(crate) fn slot(&self) -> Option<usize> {
        Some(self.slot.load(Ordering::Acquire)).filter(|slot| *slot != NOBODY)
    }

    /// Holds the event up while a closure runs, which must be short; nothing when it is over. For the thread that waits.
    pub(crate) fn hold_up<R>(&self, f: impl FnOnce() -> R) -> Option<R> {
        // Acquire and release: between the two the thread that will set it is at work.
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

    /// Parks until it is set; one thread does, once.
    pub(crate) fn park(&self) {
        let seat = Arc::new(Mailbox::new());
        let theirs = Arc::into_raw(Arc::clone(&seat)).cast_mut();
        // Release: the seat. Acquire: what was done before the latch was set.
        let before = ptr::null_mut();
        let exchanged = self.state.compare_exchange(before, theirs, Ordering::AcqRel, Ordering::Acquire);
        if exchanged.is_ok() {
            seat.take();
        } else {
            debug_assert!(self.is_set(), "two threads wait for one latch: one of them is never told");
            // SAFETY: nobody has seen it.
            drop(unsafe { Arc::from_raw(theirs) });
        }
    }

    /// Sets it. The waiting thread may free it at once.
    pub(crate) fn set(&self) {
        let mut before = ptr::null_mut();
        while let Err(now) =
            self.state.compare_exchange_weak(before, SET, Ordering::AcqRel, Ordering::Acquire)
        {
            debug_assert_ne!(now, SET, "a latch was set twice: whoever waited may be gone");
            if now == HELD {
                relax();
            }
            before = if now == HELD { ptr::null_mut() } else { now };
        }
        if !before.is_null() {
            // SAFETY: the thread that parks has left this reference, and it is taken once, by the only swap.
            let seat = unsafe { Arc::from_raw(before) };
            seat.put(());
        }
    }
}
