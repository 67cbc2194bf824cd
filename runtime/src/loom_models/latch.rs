//! The latch of a branch: the waiting thread holds up the branch's end while it takes a part of the branch.

use std::sync::Arc;

use loom::thread;

use super::check;
use crate::inside::Latch;
use crate::sync::{AtomicUsize, Ordering};

/// The content of the deque of the thread that runs a branch: nothing, a part of the branch, or another task.
const NOTHING: usize = 0;
const PART: usize = 1;
const FOREIGN: usize = 2;

#[test]
fn loom_a_waiting_thread_takes_parts_of_its_branch_alone_and_learns_of_its_end() {
    check(4, || {
        // Each exchange sees the exchange before, as with a deque; loom would reorder plain stores.
        let shared = Arc::new((Latch::new(), AtomicUsize::new(NOTHING), AtomicUsize::new(0)));
        let thief = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                let (latch, deque, result) = &*shared;
                latch.begin(Some(0));
                deque.swap(PART, Ordering::AcqRel);
                // It takes the part back, or the other thread runs it.
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
        assert_eq!(
            result.load(Ordering::Relaxed),
            1,
            "the part must run once, and the waiting thread must see its result"
        );
        thief.join().unwrap();
    });
}
