//! A value that one thread makes for all: a part of a resource on a device or in pinned memory, a compiled program.
//!
//! Invariants: at most one thread makes the value at a time, and it holds no lock meanwhile; a thread that gives up, by
//! an error or a panic, leaves the place empty for the next one.

use parking_lot::{Condvar, Mutex};

/// The place of a value.
#[derive(Debug)]
pub(super) struct FillOnce<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
}

#[derive(Debug)]
enum State<T> {
    Empty,
    Filling,
    Filled(T),
}

/// The state that a thread finds if it needs the value.
pub(super) enum Found<'a, T> {
    /// The value is there.
    Filled,
    /// The value is missing, and this thread makes it.
    Empty(Filler<'a, T>),
    /// Another thread is making it.
    Filling,
}

/// Something with a place that is filled once.
pub(super) trait Fill: Send + Sync + 'static {
    type Value;

    fn place(&self) -> &FillOnce<Self::Value>;
}

/// A part that blocks may wait for in the queue.
pub(super) trait HoldsBack: Send + Sync {
    /// Whether a thread is filling it.
    fn is_filling(&self) -> bool;
}

impl<T: Send + 'static> Fill for FillOnce<T> {
    type Value = T;

    fn place(&self) -> &Self {
        self
    }
}

impl<F: Fill> HoldsBack for F {
    fn is_filling(&self) -> bool {
        self.place().is_filling()
    }
}

/// The right to make the value. A filler that is dropped leaves the place empty.
pub(super) struct Filler<'a, T> {
    place: &'a FillOnce<T>,
}

impl<T> Default for FillOnce<T> {
    fn default() -> Self {
        Self { state: Mutex::new(State::Empty), changed: Condvar::new() }
    }
}

impl<T> FillOnce<T> {
    /// Looks for the value; a thread that finds none must make it.
    pub(super) fn find(&self) -> Found<'_, T> {
        let state = &mut *self.state.lock();
        match state {
            State::Filled(_) => Found::Filled,
            State::Filling => Found::Filling,
            State::Empty => {
                *state = State::Filling;
                Found::Empty(Filler { place: self })
            }
        }
    }

    /// Passes the value to `f`, if it is there. The place is locked meanwhile: `f` must be short.
    pub(super) fn with<R>(&self, f: impl FnOnce(&T) -> R) -> Option<R> {
        match &*self.state.lock() {
            State::Filled(value) => Some(f(value)),
            _ => None,
        }
    }

    pub(super) fn is_filled(&self) -> bool {
        matches!(&*self.state.lock(), State::Filled(_))
    }

    pub(super) fn is_filling(&self) -> bool {
        matches!(&*self.state.lock(), State::Filling)
    }

    /// Waits while another thread makes the value.
    pub(super) fn wait(&self) {
        let mut state = self.state.lock();
        self.changed.wait_while(&mut state, |state| matches!(state, State::Filling));
    }
}

impl<T> Filler<'_, T> {
    /// The value is made.
    pub(super) fn fill(self, value: T) {
        let state = &mut *self.place.state.lock();
        debug_assert!(matches!(state, State::Filling), "another thread has filled the place");
        *state = State::Filled(value);
    }
}

impl<T> Drop for Filler<'_, T> {
    fn drop(&mut self) {
        {
            let state = &mut *self.place.state.lock();
            if matches!(state, State::Filling) {
                *state = State::Empty;
            }
        }
        self.place.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::thread;

    use super::*;

    #[test]
    fn one_thread_fills_and_the_others_wait_or_continue() {
        let place = FillOnce::default();
        let Found::Empty(filler) = place.find() else { panic!("it is empty") };
        assert!(matches!(place.find(), Found::Filling) && place.is_filling() && !place.is_filled());
        assert_eq!(place.with(|value: &u32| *value), None);
        thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                place.wait();
                place.with(|value| *value)
            });
            filler.fill(7);
            assert_eq!(waiting.join().unwrap(), Some(7));
        });
        assert!(matches!(place.find(), Found::Filled) && place.is_filled() && !place.is_filling());
    }

    #[test]
    fn a_thread_that_gives_up_leaves_the_place_to_the_next() {
        let place = FillOnce::<u32>::default();
        let caught = catch_unwind(AssertUnwindSafe(|| {
            let Found::Empty(_filler) = place.find() else { panic!("it is empty") };
            panic!("while it is made");
        }));
        assert!(caught.is_err() && !place.is_filling());
        place.wait();
        let Found::Empty(filler) = place.find() else { panic!("no thread is making it any more") };
        filler.fill(1);
        assert_eq!(place.with(|value| *value), Some(1));
    }
}
