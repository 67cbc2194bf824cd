//! A scope: any number of branches that end before it does.
//!
//! Invariants: `open` counts the branches that have not ended, and the scope itself until it waits; the thread that
//! decrements it to zero sets the latch. A panic of one branch does not end the others.

use std::any::Any;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{self, NonNull};

use super::branch::{Branch, Header, Latch};
use super::{Inside, Lane};
use crate::sync::{AtomicBool, AtomicUsize, Mutex, Ordering};

/// Spawns branches that may borrow values that outlive the scope.
pub struct Scope<'s> {
    open: AtomicUsize,
    latch: Latch,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
    stopping: *const AtomicBool,
    /// Invariant in 's, as branches may write through what they borrow.
    borrows: PhantomData<fn(&'s ()) -> &'s ()>,
}

// SAFETY: `stopping` is a shared reference of the scope's caller, which outlives the scope; the other fields are made
// for threads.
#[expect(unsafe_code, reason = "the scope is shared with the threads that run its branches")]
unsafe impl Sync for Scope<'_> {}

/// A branch on the heap.
#[repr(C)]
struct OnHeap<'s, F> {
    header: Header,
    work: F,
    scope: *const Scope<'s>,
}

#[expect(unsafe_code, reason = "branches reach their scope through a pointer")]
impl<'s> Scope<'s> {
    pub(super) fn new(stopping: &AtomicBool) -> Self {
        Self {
            open: AtomicUsize::new(1),
            latch: Latch::new(),
            panic: Mutex::new(None),
            stopping,
            borrows: PhantomData,
        }
    }

    /// Runs a closure beside the others of the scope if another slot is free, otherwise at the end of the scope at the
    /// latest.
    pub fn spawn<F>(&self, inside: &mut Inside<'_>, work: F)
    where
        F: FnOnce(&Scope<'s>, &mut Inside<'_>) + Send + 's,
    {
        if inside.lane.is_none() {
            return work(self, inside);
        }
        // Relaxed: the branch reaches others through a deque, and the caller's own count keeps this above zero.
        let before = self.open.fetch_add(1, Ordering::Relaxed);
        debug_assert!(
            before > 0,
            "a branch is spawned into a scope that has ended: what it borrows may be gone"
        );
        let header = Header::new(run_there::<F>, self.family());
        let branch = NonNull::from(Box::leak(Box::new(OnHeap { header, work, scope: self })));
        inside.push(Branch::new(branch.cast()));
    }

    fn family(&self) -> *const () {
        ptr::from_ref(self).cast()
    }

    /// Runs the scope's branches that are left in this deque, and waits for the branches that other threads run.
    pub(super) fn finish(&self, inside: &mut Inside<'_>) {
        while let Some(branch) = inside.take_back_where(|branch| branch.is_of(self.family())) {
            if let Some(lane) = &mut inside.lane {
                // SAFETY: it was just popped.
                unsafe { branch.run(&mut **lane) };
            }
        }
        let open = self.open.fetch_sub(1, Ordering::AcqRel);
        debug_assert!(open > 0, "a scope was finished twice");
        debug_assert!(
            open == 1 || inside.lane.is_some(),
            "a branch of a scope is open where none was pushed"
        );
        if open != 1 {
            inside.wait(&self.latch);
        }
        debug_assert_eq!(self.open.load(Ordering::Relaxed), 0, "a scope ends while a branch of it is open");
    }

    pub(super) fn panic(&self) -> Option<Box<dyn Any + Send>> {
        self.panic.lock().take()
    }
}

#[expect(unsafe_code, reason = "branches reach their scope through a pointer")]
unsafe fn run_there<'s, F>(header: NonNull<Header>, lane: &mut dyn Lane)
where
    F: FnOnce(&Scope<'s>, &mut Inside<'_>) + Send + 's,
{
    // SAFETY: `spawn` made the pointer, and the branch is run once.
    let OnHeap { work, scope, .. } = *unsafe { Box::from_raw(header.cast::<OnHeap<'s, F>>().as_ptr()) };
    // SAFETY: the scope waits until `open` is zero, which this branch still counts in.
    let scope = unsafe { &*scope };
    // SAFETY: the flag outlives the scope.
    let stopping = unsafe { &*scope.stopping };
    let mut inside = Inside::new(Some(lane), stopping);
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| work(scope, &mut inside))) {
        scope.panic.lock().get_or_insert(panic);
    }
    let open = scope.open.fetch_sub(1, Ordering::AcqRel);
    debug_assert!(open > 0, "a branch ended that its scope had not counted");
    if open == 1 {
        scope.latch.set();
    }
}
