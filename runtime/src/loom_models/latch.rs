//! The latch of a branch: who waits for it holds its end up while it takes a part of it.

use std::sync::Arc;

use loom::thread;

use super::check;
use crate::inside::Latch;
use crate::sync::{AtomicUsize, Ordering};

/// What the thread that runs a branch has put into its deque: nothing, a part of the branch, or something else.
const NOTHING: usize = 0;
const PART: usize = 1;
const FOREIGN: usize = 2;

#[test]
fn loom_who_waits_takes_parts_of_its_branch_alone_and_learns_of_its_end() {
    check(4, || {
        // Each exchange sees the one before, as with a deque; stores among them loom would let be overtaken.
        let shared = Arc::new((Latch::new(), AtomicUsize::new(NOTHING), AtomicUsize::new(0)));
        let thief = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                let (latch, deque, result) = &*shared;
                latch.begin(Some(0));
                deque.swap(PART, Ordering::AcqRel);
                // It takes the part back, or somebody else runs it.
                let is_back = deque.swap(NOTHING, Ordering::AcqRel) == PART;
                result.fetch_add(usize::from(is_back), Ordering::Relaxed);
                latch.set();
                deque.swap(FOREIGN, Ordering::AcqRel);
            })
        };
        let (latch, deque, result) = &*shared;
        for _ in 0..2 {
            if latch.slot().is_some()
                && let Some(found) = latch.hold_up(|| deque.swap(NOTHING, Ordering::AcqRel))
            {
                assert_ne!(found, FOREIGN, "taken after the branch had ended");
                result.fetch_add(found, Ordering::Relaxed);
            }
        }
        if !latch.is_set() {
            latch.park();
        }
        assert_eq!(result.load(Ordering::Relaxed), 1, "the part was run once, and that is known");
        thief.join().unwrap();
    });
}
