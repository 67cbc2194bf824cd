//! The only source of atomics, locks and threads, so that loom can replace them in the models of the protocols.

#[cfg(not(loom))]
use std::time::Instant;

#[cfg(not(loom))]
pub(crate) use parking_lot::Mutex;
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering,
};

#[cfg(loom)]
pub(crate) use self::modelled::{Condvar, Mutex};
#[cfg(loom)]
pub(crate) use loom::cell::UnsafeCell;
#[cfg(loom)]
pub(crate) use loom::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering,
};

#[cfg(loom)]
pub(crate) use self::modelled::{Thread, interleave, now};
#[cfg(not(loom))]
pub(crate) use self::simulator::{Thread, interleave, is_simulated, now};
#[cfg(all(not(loom), any(test, feature = "testing")))]
use crate::simulator;
#[cfg(loom)]
pub(crate) use loom::thread::yield_now as relax;

// For statistics: no protocol depends on them, so the models need not see them.
pub(crate) use std::sync::atomic::AtomicU64 as Counter;

/// Lets the thread that this one waits for run for a moment.
#[cfg(not(loom))]
pub(crate) fn relax() {
    interleave();
    std::thread::yield_now();
}

/// Adds to a counter that one thread at a time writes: no locked instruction is needed.
#[inline]
pub(crate) fn add(counter: &Counter, amount: u64) {
    debug_assert!(
        counter.load(Ordering::Relaxed).checked_add(amount).is_some(),
        "a counter overflowed: it would show less than before"
    );
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
}

/// A condition that simulated threads can wait for too.
#[cfg(not(loom))]
pub(crate) struct Condvar(parking_lot::Condvar);

/// The end of a wait with a limit.
#[cfg(not(loom))]
pub(crate) struct Waited(bool);

#[cfg(not(loom))]
impl Waited {
    pub(crate) fn timed_out(&self) -> bool {
        self.0
    }
}

#[cfg(not(loom))]
impl Condvar {
    pub(crate) fn new() -> Self {
        Self(parking_lot::Condvar::new())
    }

    /// Its identity for simulated threads.
    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    pub(crate) fn wait<T>(&self, guard: &mut parking_lot::MutexGuard<'_, T>) {
        if is_simulated() {
            // No other simulated thread runs between the unlocking and the wait.
            parking_lot::MutexGuard::unlocked(guard, || simulator::wait(self.address(), None));
        } else {
            self.0.wait(guard);
        }
    }

    pub(crate) fn wait_until<T>(&self, guard: &mut parking_lot::MutexGuard<'_, T>, until: Instant) -> Waited {
        if is_simulated() {
            let wait = || simulator::wait(self.address(), Some(until));
            return Waited(parking_lot::MutexGuard::unlocked(guard, wait).unwrap_or(false));
        }
        Waited(self.0.wait_until(guard, until).timed_out())
    }

    pub(crate) fn notify_one(&self) {
        simulator::notify(self.address(), false);
        self.0.notify_one();
    }

    pub(crate) fn notify_all(&self) {
        simulator::notify(self.address(), true);
        self.0.notify_all();
    }
}

#[cfg(all(not(loom), not(any(test, feature = "testing"))))]
mod simulator {
    //! The product has no simulator: it uses the system's threads and clock, and these functions cost nothing.

    use std::time::Instant;

    #[inline(always)]
    pub(crate) fn interleave() {}

    #[inline(always)]
    pub(crate) fn is_simulated() -> bool {
        false
    }

    pub(crate) fn now() -> Instant {
        Instant::now()
    }

    pub(super) fn wait(_on: usize, _until: Option<Instant>) -> Option<bool> {
        None
    }

    #[inline(always)]
    pub(super) fn notify(_on: usize, _all: bool) {}

    pub(crate) struct Thread(std::thread::JoinHandle<()>);

    impl Thread {
        pub(crate) fn spawn(name: String, f: impl FnOnce() + Send + 'static) -> std::io::Result<Self> {
            std::thread::Builder::new().name(name).spawn(f).map(Self)
        }

        pub(crate) fn is_current(&self) -> bool {
            self.0.thread().id() == std::thread::current().id()
        }

        pub(crate) fn join(self) -> std::thread::Result<()> {
            self.0.join()
        }
    }
}

/// The counterpart of loom's cell, which reports each access to loom; here an access costs nothing.
#[cfg(not(loom))]
pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

#[cfg(not(loom))]
impl<T> UnsafeCell<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(std::cell::UnsafeCell::new(value))
    }

    /// Calls with a pointer to read through.
    pub(crate) fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
        f(self.0.get())
    }

    /// Calls with a pointer to write through.
    pub(crate) fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
        f(self.0.get())
    }
}

/// A mailbox at which one thread waits for one value at a time.
pub(crate) struct Mailbox<T> {
    inner: (Mutex<Option<T>>, Condvar),
}

impl<T> Mailbox<T> {
    pub(crate) fn new() -> Self {
        Self { inner: (Mutex::new(None), Condvar::new()) }
    }

    /// Puts a value in. The protocols never send a second one before the first is taken.
    pub(crate) fn put(&self, value: T) {
        let before = self.inner.0.lock().replace(value);
        assert!(before.is_none(), "a mailbox was filled twice");
        self.inner.1.notify_one();
    }

    /// Waits for a value and takes it.
    pub(crate) fn take(&self) -> T {
        let mut value = self.inner.0.lock();
        loop {
            if let Some(value) = value.take() {
                return value;
            }
            self.inner.1.wait(&mut value);
        }
    }
}

#[cfg(loom)]
mod modelled {
    //! loom's lock and condition with parking_lot's interface: no poisoning, and the guard stays with the caller.

    use std::fmt;
    use std::ops::{Deref, DerefMut};
    use std::time::Instant;

    pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

    /// Empty only within a wait.
    pub(crate) struct Guard<'a, T>(Option<loom::sync::MutexGuard<'a, T>>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(loom::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> Guard<'_, T> {
            Guard(self.0.lock().ok())
        }
    }

    impl<T: Default> Default for Mutex<T> {
        fn default() -> Self {
            Self::new(T::default())
        }
    }

    impl<T> fmt::Debug for Mutex<T> {
        /// Without the value: reading it would be a step of the model.
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.debug_struct("Mutex").finish_non_exhaustive()
        }
    }

    impl<T> Deref for Guard<'_, T> {
        type Target = T;

        fn deref(&self) -> &T {
            self.0.as_ref().unwrap()
        }
    }

    impl<T> DerefMut for Guard<'_, T> {
        fn deref_mut(&mut self) -> &mut T {
            self.0.as_mut().unwrap()
        }
    }

    pub(crate) struct Condvar(loom::sync::Condvar);

    /// Models have no clock: nothing times out.
    pub(crate) struct Waited;

    impl Waited {
        pub(crate) fn timed_out(&self) -> bool {
            false
        }
    }

    impl Condvar {
        pub(crate) fn new() -> Self {
            Self(loom::sync::Condvar::new())
        }

        pub(crate) fn wait<T>(&self, guard: &mut Guard<'_, T>) {
            guard.0 = guard.0.take().and_then(|held| self.0.wait(held).ok());
        }

        pub(crate) fn wait_until<T>(&self, guard: &mut Guard<'_, T>, _: Instant) -> Waited {
            self.wait(guard);
            Waited
        }

        pub(crate) fn notify_one(&self) {
            self.0.notify_one();
        }

        pub(crate) fn notify_all(&self) {
            self.0.notify_all();
        }
    }

    /// loom finds the orders by itself.
    pub(crate) fn interleave() {}

    /// Time stands still: a box's clock depends on the lengths of its firings, and must not differ between two runs of an
    /// order.
    pub(crate) fn now() -> Instant {
        static NOW: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
        *NOW.get_or_init(Instant::now)
    }

    /// The models start their threads themselves; the scheduler's code only compiles against this.
    pub(crate) struct Thread(std::thread::JoinHandle<()>);

    impl Thread {
        pub(crate) fn spawn(name: String, f: impl FnOnce() + Send + 'static) -> std::io::Result<Self> {
            std::thread::Builder::new().name(name).spawn(f).map(Self)
        }

        pub(crate) fn is_current(&self) -> bool {
            self.0.thread().id() == std::thread::current().id()
        }

        pub(crate) fn join(self) -> std::thread::Result<()> {
            self.0.join()
        }
    }
}
