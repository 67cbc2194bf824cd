//! The run state of a box, and the content that only its firing may touch.
//!
//! ```text
//!   idle --notify--> active --end--> idle          flags of an active box:
//!                      ^  |                          notified: something happened since its firing began
//!                      +--+ end, when notified     and of any box:
//!                                                    wanted: a producer waits for room on one of its inputs
//! ```
//! Invariants: exactly one task exists for an active box, and none otherwise. An event that arrives while the box is
//! active is never lost: a firing that begins later, or the end of this one, sees the flag. Done is final.
//!
//! All changes are read-modify-writes of one word, so they form one chain in which a later one sees everything that was
//! published before an earlier one: runtime/README.md, section "Events and tasks".

use std::ops::{Deref, DerefMut};

use crate::sync::{AtomicU8, Ordering, UnsafeCell};

const ACTIVE: u8 = 1;
const NOTIFIED: u8 = 2;
const WANTED: u8 = 4;
const DONE: u8 = 8;

/// The run state of one box, around a content that belongs to the thread that fires it.
pub(crate) struct BoxState<T> {
    word: AtomicU8,
    content: UnsafeCell<T>,
}

// SAFETY: threads reach the content only through a `Turn`. One turn exists at a time, and each sees what the turn
// before did: the word's chain of read-modify-writes, and the queues that carry tasks, order them.
#[expect(unsafe_code, reason = "the box's one task guards the content, which no type can express")]
unsafe impl<T: Send> Sync for BoxState<T> {}

/// The result of a notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Notified {
    /// The box was idle: the caller owns its new task and must plan it.
    Plan,
    /// The box will see the event anyway.
    Pending,
    /// The box has finished. The caller sees everything that its last firing did.
    Done,
}

/// The right to fire a box: its task while a thread runs it.
pub(crate) struct Turn<'a, T> {
    state: &'a BoxState<T>,
}

/// The end of a turn.
pub(crate) enum End<'a, T> {
    /// The box is idle.
    Idle,
    /// The box stays active, and the caller owns its next task.
    Again,
    /// Not yet: a producer waits for the room that this turn has made. The caller notifies it, and ends the turn again.
    Room(Turn<'a, T>),
}

impl<T> BoxState<T> {
    pub(crate) fn new(content: T) -> Self {
        Self { word: AtomicU8::new(0), content: UnsafeCell::new(content) }
    }

    /// Notifies the box of an event that is already published.
    #[inline]
    pub(crate) fn notify(&self) -> Notified {
        let mut word = self.word.load(Ordering::Acquire);
        loop {
            debug_assert!(
                word & NOTIFIED == 0 || word & ACTIVE != 0,
                "a box without a task has the flag of an event: no thread would plan it"
            );
            if word & DONE != 0 {
                return Notified::Done;
            }
            // Writes even if the flag is set already: the next read-modify-write of the firing must synchronise with
            // everything published before this call.
            let (next, result) = match word & ACTIVE {
                0 => (word | ACTIVE, Notified::Plan),
                _ => (word | NOTIFIED, Notified::Pending),
            };
            match self.word.compare_exchange(word, next, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return result,
                Err(now) => word = now,
            }
        }
    }

    /// Sets the flag of a producer that waits for room on an input. The producer looks once more afterwards. The chain
    /// orders this and the end of each turn: either that end sees the flag, or the producer sees all the room that the
    /// turn has made.
    pub(crate) fn want_room(&self) {
        self.word.fetch_or(WANTED, Ordering::AcqRel);
    }

    /// Clears the flag of a producer that waits for room. True if it was set: the caller notifies the producer.
    pub(crate) fn take_wanted(&self) -> bool {
        self.word.fetch_and(!WANTED, Ordering::AcqRel) & WANTED != 0
    }

    /// Whether a notification now would plan the box.
    pub(crate) fn is_idle(&self) -> bool {
        self.word.load(Ordering::Acquire) & (ACTIVE | DONE) == 0
    }

    /// Whether the box has finished for good.
    pub(crate) fn is_done(&self) -> bool {
        self.word.load(Ordering::Acquire) & DONE != 0
    }

    /// Begins a firing.
    ///
    /// # Safety
    /// The caller holds the box's task: it got [`Notified::Plan`] or [`End::Again`], or received the task through
    /// something that synchronises, and no thread has started the task since.
    #[expect(unsafe_code, reason = "the caller vouches for the task")]
    #[inline]
    pub(crate) unsafe fn start(&self) -> Turn<'_, T> {
        let word = self.word.load(Ordering::Acquire);
        assert!(word & ACTIVE != 0, "a box was fired without a task");
        debug_assert!(word & DONE == 0, "a box was fired after it had finished");
        if word & NOTIFIED != 0 {
            // This firing sees the events: they need no other firing.
            self.word.fetch_and(!NOTIFIED, Ordering::AcqRel);
        }
        Turn { state: self }
    }

    /// The content of a box without a task, which is not fired any more.
    pub(crate) fn claim(&self) -> Option<Turn<'_, T>> {
        let before = self.word.fetch_or(ACTIVE, Ordering::AcqRel);
        (before & ACTIVE == 0).then_some(Turn { state: self })
    }
}

impl<'a, T> Turn<'a, T> {
    /// Ends the turn. `again`: the box has more to do; `made_room`: it took something from an input.
    #[inline]
    pub(crate) fn end(self, again: bool, made_room: bool) -> End<'a, T> {
        if again {
            return if made_room && self.state.take_wanted() { End::Room(self) } else { End::Again };
        }
        let mut word = ACTIVE;
        loop {
            debug_assert!(word & ACTIVE != 0, "the task of a box was taken away while it was fired");
            debug_assert!(word & DONE == 0, "a box has finished during the firing of another thread");
            if made_room && word & WANTED != 0 {
                self.state.take_wanted();
                return End::Room(self);
            }
            let notified = word & NOTIFIED != 0;
            let next = word & WANTED | if notified { ACTIVE } else { 0 };
            match self.state.word.compare_exchange(word, next, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return if notified { End::Again } else { End::Idle },
                Err(now) => word = now,
            }
        }
    }

    /// The box has finished for good. True when something happened since the firing began.
    pub(crate) fn done(self) -> bool {
        let before = self.state.word.swap(DONE, Ordering::AcqRel);
        debug_assert!(before & ACTIVE != 0, "a box has finished without a task");
        before & NOTIFIED != 0
    }
}

impl<T> Deref for Turn<'_, T> {
    type Target = T;

    #[expect(unsafe_code, reason = "a turn is exclusive")]
    fn deref(&self) -> &T {
        // SAFETY: one turn exists at a time, by `start`'s contract and by `claim`'s read-modify-write; the reference
        // lives no longer than the borrow of this turn.
        self.state.content.with(|content| unsafe { &*content })
    }
}

impl<T> DerefMut for Turn<'_, T> {
    #[expect(unsafe_code, reason = "a turn is exclusive")]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`, and this turn is borrowed exclusively.
        self.state.content.with_mut(|content| unsafe { &mut *content })
    }
}

#[cfg(all(test, not(loom)))]
#[expect(unsafe_code, reason = "tests hold the tasks that they start")]
mod tests {
    use super::*;

    #[test]
    fn an_event_during_a_firing_is_followed_by_another() {
        let state = BoxState::new(0);
        assert_eq!(state.notify(), Notified::Plan);
        assert_eq!(state.notify(), Notified::Pending);
        // SAFETY: the task came from the notification above.
        let mut turn = unsafe { state.start() };
        *turn += 1;
        assert_eq!(state.notify(), Notified::Pending);
        assert!(matches!(turn.end(false, false), End::Again), "the event would be lost");
        // SAFETY: the task came from the end above.
        let turn = unsafe { state.start() };
        assert!(matches!(turn.end(false, false), End::Idle));
        assert!(state.is_idle());
        assert_eq!(state.notify(), Notified::Plan);
        // SAFETY: the task came from the notification above.
        let turn = unsafe { state.start() };
        assert!(!turn.done());
        assert_eq!(state.notify(), Notified::Done);
        assert_eq!(state.claim().map(|turn| *turn), Some(1));
        assert!(state.claim().is_none(), "two callers got one content");
    }

    #[test]
    fn a_producer_that_wants_room_is_notified_of_it() {
        let state = BoxState::new(());
        state.want_room();
        assert!(state.is_idle(), "a wish for room must not be an event");
        assert_eq!(state.notify(), Notified::Plan);
        // SAFETY: the task came from the notification above.
        let turn = unsafe { state.start() };
        assert!(matches!(turn.end(false, false), End::Idle), "this firing has made no room");
        assert_eq!(state.notify(), Notified::Plan);
        // SAFETY: the task came from the notification above.
        let turn = unsafe { state.start() };
        let End::Room(turn) = turn.end(false, true) else { panic!("the producer was not notified") };
        assert!(matches!(turn.end(false, false), End::Idle));
    }
}
