//! The numbers of searching and sleeping slots of a node, in one word that decides whether a publisher wakes a thread.
//!
//! Invariants (runtime/README.md, section "Sleep", describes the protocol):
//! - a publisher first makes its task visible, then reads the words; a searcher that gives up first leaves the word,
//!   then looks at the queues once more. All of it is SeqCst, so one of the two sees the other: no wake-up is lost;
//! - the thread that wakes a slot counts it as searching before it runs, so no more slots wake than there are tasks;
//! - at most half of a node's slots (and at least one) search at once.

use crate::sync::{AtomicU64, Ordering};

/// One unit of the searching count; the sleeping count is above it.
const SEARCHING: u64 = 1;
const SLEEPING: u64 = 1 << 32;

/// The searching and sleeping counts of one node.
pub(crate) struct NodeSleep {
    word: AtomicU64,
    searching_max: u64,
}

/// A reading of the word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) searching: u32,
    pub(crate) sleeping: u32,
}

impl From<u64> for Counts {
    fn from(word: u64) -> Self {
        Self { searching: (word & (SLEEPING - 1)) as u32, sleeping: (word >> 32) as u32 }
    }
}

impl NodeSleep {
    pub(crate) fn new(slots: usize) -> Self {
        debug_assert!(slots > 0, "a node without a slot: a task published there would wake no slot");
        Self { word: AtomicU64::new(0), searching_max: slots.div_ceil(2).max(1) as u64 }
    }

    /// The counts now; a publisher calls it after its task is visible.
    pub(crate) fn counts(&self) -> Counts {
        // A read-modify-write, not a load: it takes part in the single order of all SeqCst accesses, and a
        // race detector understands it (a bare fence it does not).
        self.word.fetch_add(0, Ordering::SeqCst).into()
    }

    /// The counts as they may have been a moment ago.
    pub(crate) fn glance(&self) -> Counts {
        self.word.load(Ordering::Relaxed).into()
    }

    /// Whether enough slots search for this many waiting tasks, or no slot sleeps that could join them.
    pub(crate) fn is_enough(&self, counts: Counts, waiting: usize) -> bool {
        let wanted = (waiting as u64).clamp(1, self.searching_max);
        u64::from(counts.searching) >= wanted || (counts.searching > 0 && counts.sleeping == 0)
    }

    /// Begins to search, unless half of the node does already.
    pub(crate) fn try_search(&self) -> bool {
        let mut word = self.word.load(Ordering::SeqCst);
        loop {
            if u64::from(Counts::from(word).searching) >= self.searching_max {
                return false;
            }
            match self.word.compare_exchange_weak(word, word + SEARCHING, Ordering::SeqCst, Ordering::SeqCst)
            {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
    }

    /// Ends a search. True when this was the node's last searcher: the caller looks at the queues again.
    pub(crate) fn end_search(&self) -> bool {
        let before: Counts = self.word.fetch_sub(SEARCHING, Ordering::SeqCst).into();
        debug_assert!(before.searching > 0, "a search ended that the node did not count");
        before.searching == 1
    }

    /// A slot comes to rest (under the pool's lock).
    pub(crate) fn sleep(&self) {
        let before: Counts = self.word.fetch_add(SLEEPING, Ordering::SeqCst).into();
        debug_assert!(
            u64::from(before.sleeping) < 2 * self.searching_max,
            "more slots sleep than the node has: one was counted twice"
        );
    }

    /// A resting slot is taken by a thread that has work for it (under the pool's lock).
    pub(crate) fn rouse(&self) {
        let before: Counts = self.word.fetch_sub(SLEEPING, Ordering::SeqCst).into();
        debug_assert!(
            before.sleeping > 0,
            "a slot was taken from rest that the node did not count as sleeping"
        );
    }

    /// A resting slot is woken to search (under the pool's lock).
    pub(crate) fn wake(&self) {
        let before: Counts = self.word.fetch_sub(SLEEPING - SEARCHING, Ordering::SeqCst).into();
        debug_assert!(before.sleeping > 0, "a slot was woken that the node did not count as sleeping");
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn as_many_search_as_tasks_wait_up_to_half() {
        let sleep = NodeSleep::new(8);
        let is_enough =
            |searching, sleeping, waiting| sleep.is_enough(Counts { searching, sleeping }, waiting);
        assert!(!is_enough(0, 8, 1) && is_enough(1, 7, 1) && is_enough(1, 7, 0), "one task wakes one");
        assert!(!is_enough(1, 7, 3) && !is_enough(2, 6, 3) && is_enough(3, 5, 3));
        assert!(!is_enough(3, 5, 100) && is_enough(4, 4, 100), "half of the node");
        assert!(is_enough(1, 0, 100), "no slot is left to wake");
        assert!(!is_enough(0, 0, 100), "other nodes may have a slot");
    }

    #[test]
    fn half_of_the_slots_search() {
        let sleep = NodeSleep::new(4);
        assert!(sleep.try_search() && sleep.try_search() && !sleep.try_search());
        assert!(!sleep.end_search() && sleep.end_search());
        sleep.sleep();
        assert_eq!(sleep.counts(), Counts { searching: 0, sleeping: 1 });
        sleep.wake();
        assert_eq!(sleep.counts(), Counts { searching: 1, sleeping: 0 });
        assert!(NodeSleep::new(1).try_search(), "one slot must be able to search");
    }
}
