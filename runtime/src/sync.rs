//! The one door to atomics, locks and threads, so that loom can take their place in the models of the protocols.

#[cfg(not(loom))]
pub(crate) use parking_lot::Mutex;
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering, fence};

#[cfg(loom)]
pub(crate) use self::modelled::Mutex;
#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering, fence};

/// A place where one thread waits for one value at a time.
pub(crate) struct Mailbox<T> {
    #[cfg(not(loom))]
    inner: (parking_lot::Mutex<Option<T>>, parking_lot::Condvar),
    #[cfg(loom)]
    inner: (loom::sync::Mutex<Option<T>>, loom::sync::Condvar),
}

#[cfg(not(loom))]
impl<T> Mailbox<T> {
    pub(crate) fn new() -> Self {
        Self { inner: (parking_lot::Mutex::new(None), parking_lot::Condvar::new()) }
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
impl<T> Mailbox<T> {
    pub(crate) fn new() -> Self {
        Self { inner: (loom::sync::Mutex::new(None), loom::sync::Condvar::new()) }
    }

    pub(crate) fn put(&self, value: T) {
        let before = self.inner.0.lock().unwrap().replace(value);
        assert!(before.is_none(), "a mailbox was filled twice");
        self.inner.1.notify_one();
    }

    pub(crate) fn take(&self) -> T {
        let mut value = self.inner.0.lock().unwrap();
        loop {
            if let Some(value) = value.take() {
                return value;
            }
            value = self.inner.1.wait(value).unwrap();
        }
    }
}

#[cfg(loom)]
mod modelled {
    /// loom's mutex with parking_lot's manners: no poisoning.
    pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(loom::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> loom::sync::MutexGuard<'_, T> {
            self.0.lock().unwrap()
        }
    }
}
