//! An unbounded queue between one producer and one consumer, without locked instructions.
//!
//! Items stand in blocks that are linked. Invariants: the producer alone writes `made`, `last` and the places from
//! `made` on; the consumer alone writes `taken`, `first` and the places below `made`. An item belongs to the
//! consumer once `made` counts it.

use std::mem::MaybeUninit;
use std::ptr;

use crate::sync::{AtomicPtr, AtomicUsize, Ordering, UnsafeCell};

/// Items in a block: with the link, pointers to envelopes fill a cache line. A block is small because a queue that is
/// mostly empty alternates between two blocks, which should stay in the cache.
const BLOCK: usize = 7;

#[repr(align(64))]
struct Block<T> {
    places: [UnsafeCell<MaybeUninit<T>>; BLOCK],
    next: UnsafeCell<*mut Block<T>>,
}

impl<T> Block<T> {
    fn new() -> *mut Self {
        Box::into_raw(Box::new(Self {
            places: std::array::from_fn(|_| UnsafeCell::new(MaybeUninit::uninit())),
            next: UnsafeCell::new(ptr::null_mut()),
        }))
    }
}

/// The fields that one side writes, on a cache line of their own; `numbers` are the side's own.
#[repr(align(64))]
struct Side<T, N> {
    count: AtomicUsize,
    /// Its block, and its next place there.
    stands: UnsafeCell<(*mut Block<T>, usize)>,
    numbers: N,
}

/// The queue trusts its two sides: see the contracts of [`Queue::push`] and [`Queue::pop`]. `P` and `C` are further
/// numbers that the producer and the consumer keep on their cache lines.
pub(crate) struct Queue<T, P, C> {
    producer: Side<T, P>,
    consumer: Side<T, C>,
    /// The block of the first item, written by the producer before that item is published.
    first: UnsafeCell<*mut Block<T>>,
    /// A block that the consumer has emptied, for the producer.
    spare: AtomicPtr<Block<T>>,
}

// SAFETY: items move from one thread to the other, published by `made`; the blocks are reached as the invariants say.
#[expect(unsafe_code, reason = "the two sides share blocks through raw pointers")]
unsafe impl<T: Send, P: Send, C: Send> Send for Queue<T, P, C> {}
// SAFETY: as above; shared references give counts and numbers, everything else needs the contracts of the sides.
#[expect(unsafe_code, reason = "the two sides share blocks through raw pointers")]
unsafe impl<T: Send, P: Sync, C: Sync> Sync for Queue<T, P, C> {}

impl<T, P: Default, C: Default> Queue<T, P, C> {
    /// A queue without a block: the producer makes the first one, so that it lies in memory of the producer's node.
    pub(crate) fn new() -> Self {
        let nowhere = (ptr::null_mut(), BLOCK);
        Self {
            producer: Side {
                count: AtomicUsize::new(0),
                stands: UnsafeCell::new(nowhere),
                numbers: P::default(),
            },
            consumer: Side {
                count: AtomicUsize::new(0),
                stands: UnsafeCell::new(nowhere),
                numbers: C::default(),
            },
            first: UnsafeCell::new(ptr::null_mut()),
            spare: AtomicPtr::new(ptr::null_mut()),
        }
    }
}

#[expect(unsafe_code, reason = "the two sides share blocks through raw pointers")]
impl<T, P, C> Queue<T, P, C> {
    /// The numbers of the producer.
    #[inline]
    pub(crate) fn producer(&self) -> &P {
        &self.producer.numbers
    }

    /// The numbers of the consumer.
    #[inline]
    pub(crate) fn consumer(&self) -> &C {
        &self.consumer.numbers
    }

    /// Items put in so far.
    #[inline]
    pub(crate) fn made(&self) -> usize {
        self.producer.count.load(Ordering::Acquire)
    }

    /// Items taken so far. A thread that reads this sees everything that the consumer did before.
    #[inline]
    pub(crate) fn taken(&self) -> usize {
        self.consumer.count.load(Ordering::Acquire)
    }

    /// Items inside. Each side sees all of its own changes.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        // In this order, so that the difference is never below zero.
        let taken = self.taken();
        let len = self.made().wrapping_sub(taken);
        debug_assert!(isize::try_from(len).is_ok(), "more was taken from a queue than was put in");
        len
    }

    /// Links another block behind the producer's, or makes the first one.
    ///
    /// # Safety
    /// As [`Queue::push`]; the block is that of the producer's place, or null.
    #[inline(never)]
    unsafe fn lengthen(&self, block: *mut Block<T>) -> *mut Block<T> {
        // Acquire: the consumer has read all of it.
        let spare = self.spare.swap(ptr::null_mut(), Ordering::Acquire);
        let next = if spare.is_null() { Block::new() } else { spare };
        debug_assert_ne!(next, block, "the consumer has given the block back that the producer stands at");
        if block.is_null() {
            // SAFETY: the consumer reads it only once an item stands there.
            self.first.with_mut(|first| unsafe { *first = next });
        } else {
            // SAFETY: the consumer reads the link of a block of this queue only once an item stands beyond it.
            unsafe { (*block).next.with_mut(|link| *link = next) };
        }
        next
    }

    /// Moves to the block behind the consumer's, which the producer may use again, or to the first one.
    ///
    /// # Safety
    /// As [`Queue::pop`]; the block is that of the consumer's place, or null, and an item is beyond it.
    #[inline(never)]
    unsafe fn leave(&self, emptied: *mut Block<T>) -> *mut Block<T> {
        if emptied.is_null() {
            // SAFETY: an item stands there, so it is written.
            return self.first.with(|first| unsafe { *first });
        }
        // SAFETY: an item stands beyond this block, so its link is written, and the producer has left it.
        let next = unsafe { (*emptied).next.with(|link| *link) };
        debug_assert!(!next.is_null(), "an item stands beyond a block that leads nowhere");
        debug_assert_ne!(next, emptied, "a block leads to itself: its items would be taken twice");
        // Release: pairs with the swap in `lengthen`.
        let before = self.spare.swap(emptied, Ordering::AcqRel);
        if !before.is_null() {
            // SAFETY: the thread that takes a block out of `spare` owns it.
            drop(unsafe { Box::from_raw(before) });
        }
        next
    }

    /// Puts an item in.
    ///
    /// # Safety
    /// The caller is the only producer now, and sees what the producers before it did.
    #[inline(always)]
    pub(crate) unsafe fn push(&self, item: T) {
        let made = self.producer.count.load(Ordering::Relaxed);
        self.producer.stands.with_mut(|stands| {
            // SAFETY: the producer's alone.
            let (block, place) = unsafe { &mut *stands };
            if *place == BLOCK {
                // SAFETY: the producer's own block.
                (*block, *place) = (unsafe { self.lengthen(*block) }, 0);
            }
            // SAFETY: the place is not the consumer's before the store below.
            unsafe { (**block).places[*place].with_mut(|place| (*place).write(item)) };
            *place += 1;
        });
        debug_assert_eq!(
            self.producer.count.load(Ordering::Relaxed),
            made,
            "two producers have put into one queue at once: an item is lost"
        );
        // Release: the item, and the block that it stands in, come before.
        self.producer.count.store(made.wrapping_add(1), Ordering::Release);
    }

    /// Takes the oldest item, with its number from 0.
    ///
    /// # Safety
    /// The caller is the only consumer now, and sees what the consumers before it did.
    #[inline(always)]
    pub(crate) unsafe fn pop(&self) -> Option<(usize, T)> {
        let taken = self.consumer.count.load(Ordering::Relaxed);
        // Acquire: pairs with the release in `push`.
        if self.producer.count.load(Ordering::Acquire) == taken {
            return None;
        }
        let item = self.consumer.stands.with_mut(|stands| {
            // SAFETY: the consumer's alone.
            let (block, place) = unsafe { &mut *stands };
            if *place == BLOCK {
                // SAFETY: the consumer's own block, and there is an item that does not stand in it.
                (*block, *place) = (unsafe { self.leave(*block) }, 0);
            }
            // SAFETY: the item was published, and is taken once: the side only goes forward.
            let item = unsafe { (**block).places[*place].with(|place| (*place).assume_init_read()) };
            *place += 1;
            item
        });
        debug_assert_eq!(
            self.consumer.count.load(Ordering::Relaxed),
            taken,
            "two consumers have taken from one queue at once: both have the item"
        );
        self.consumer.count.store(taken.wrapping_add(1), Ordering::Release);
        Some((taken, item))
    }
}

impl<T, P, C> Drop for Queue<T, P, C> {
    #[expect(unsafe_code, reason = "the two sides share blocks through raw pointers")]
    fn drop(&mut self) {
        // SAFETY: no other thread can reach the queue any more.
        while unsafe { self.pop() }.is_some() {}
        // In an empty queue both sides stand at the block of the last item. SAFETY: as above.
        let block = self.consumer.stands.with(|stands| unsafe { (*stands).0 });
        let spare = self.spare.load(Ordering::Acquire);
        debug_assert!(
            block.is_null() || block != spare,
            "a block is kept as spare and holds the queue's end"
        );
        for block in [block, spare].into_iter().filter(|block| !block.is_null()) {
            // SAFETY: the two are distinct, and no other thread can reach them.
            drop(unsafe { Box::from_raw(block) });
        }
    }
}

#[cfg(all(test, not(loom)))]
#[expect(unsafe_code, reason = "tests are the only producer and the only consumer")]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn items_come_out_in_order_once() {
        // Enough items to use each block a few times, and to fill several at once.
        let queue = Queue::<_, (), ()>::new();
        let (mut made, mut taken) = (0, 0);
        for (pushes, pops) in [(3, 5), (20, 7), (0, 30), (8, 8), (1, 1), (40, 2)] {
            for _ in 0..pushes {
                // SAFETY: one thread.
                unsafe { queue.push(Arc::new(made)) };
                made += 1;
            }
            for _ in 0..pops {
                // SAFETY: one thread.
                let Some((nth, item)) = (unsafe { queue.pop() }) else { break };
                assert_eq!((nth, *item), (taken, taken));
                taken += 1;
            }
            assert_eq!(queue.len(), made - taken);
        }
        assert_eq!(queue.len(), 38);
    }

    #[test]
    fn items_left_in_a_queue_are_dropped_once() {
        let item = Arc::new(());
        for left in [0, 1, 7, 8, 9, 16, 17, 40] {
            let queue = Queue::<_, (), ()>::new();
            for _ in 0..left {
                // SAFETY: one thread.
                unsafe { queue.push(Arc::clone(&item)) };
            }
            assert_eq!(Arc::strong_count(&item), left + 1);
            drop(queue);
            assert_eq!(Arc::strong_count(&item), 1);
        }
    }

    #[test]
    fn two_threads_hand_over_all_items() {
        let queue = Arc::new(Queue::<_, (), ()>::new());
        let items = if cfg!(miri) { 100 } else { 100_000 };
        let consumer = {
            let queue = Arc::clone(&queue);
            std::thread::spawn(move || {
                let mut next = 0;
                while next < items {
                    // SAFETY: only this thread takes.
                    match unsafe { queue.pop() } {
                        Some((_, item)) => {
                            assert_eq!(item, Box::new(next));
                            next += 1;
                        }
                        None => std::thread::yield_now(),
                    }
                }
            })
        };
        for item in 0..items {
            // SAFETY: only this thread pushes.
            unsafe { queue.push(Box::new(item)) };
        }
        consumer.join().unwrap();
        assert_eq!(queue.len(), 0);
    }
}
