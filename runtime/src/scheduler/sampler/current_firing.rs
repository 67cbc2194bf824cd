//! The current firing of a thread: one word, written by the thread and read by the sampler.
//!
//! A firing costs two plain stores and no clock. The word contains a number of the firing, so that the sampler
//! distinguishes repeated firings of a box from a long one. The number repeats after [`TURNS`] firings of one thread,
//! and a period of the sampler is far too short for that many.

use std::path::PathBuf;
use std::sync::OnceLock;

use super::thread_times::{self, Times};
use crate::request::RequestId;
use crate::sync::{Counter, Ordering};

const CELL_BITS: u32 = 24;
const REQUEST_BITS: u32 = 22;
/// Firings that a word distinguishes.
const TURNS: u64 = 1 << (u64::BITS - CELL_BITS - REQUEST_BITS);

/// The current firing of a thread; only that thread writes it. It is alone in its cache lines, because it is written twice
/// a task.
#[derive(Default)]
#[repr(align(128))]
pub(in crate::scheduler) struct CurrentFiring {
    /// 0 while nothing is fired.
    word: Counter,
    turn: Counter,
    thread: OnceLock<PathBuf>,
}

/// One firing, as a word stores it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::scheduler) struct FiringMark(u64);

impl CurrentFiring {
    /// Sets the calling thread as the thread whose times the sampler reads.
    pub(in crate::scheduler) fn attach_thread(&self) {
        if let Some(thread) = thread_times::of_this_thread() {
            let is_first = self.thread.set(thread).is_ok();
            debug_assert!(
                is_first,
                "two threads publish in one word: the sampler would measure the wrong thread"
            );
        }
    }

    /// A firing begins.
    #[inline]
    pub(in crate::scheduler) fn begin(&self, request: RequestId, cell: usize) {
        let turn = self.turn.load(Ordering::Relaxed).wrapping_add(1);
        self.turn.store(turn, Ordering::Relaxed);
        self.word.store(pack(turn, request, cell), Ordering::Relaxed);
    }

    /// Notes that a firing ends or is interrupted, and returns its mark.
    #[inline]
    pub(in crate::scheduler) fn end(&self) -> Option<FiringMark> {
        let mark = self.read();
        self.word.store(0, Ordering::Relaxed);
        mark
    }

    /// Notes that an interrupted firing continues. It counts as another firing, whose time off the CPU begins at zero.
    pub(in crate::scheduler) fn resume(&self, left: Option<FiringMark>) {
        if let Some(left) = left {
            debug_assert!(
                self.read().is_none(),
                "a firing continues on a thread where another one is under way"
            );
            self.begin(left.request(), left.cell());
        }
    }

    pub(super) fn read(&self) -> Option<FiringMark> {
        match self.word.load(Ordering::Relaxed) {
            0 => None,
            word => Some(FiringMark(word)),
        }
    }

    pub(super) fn times(&self) -> Option<Times> {
        thread_times::read(self.thread.get()?)
    }
}

fn pack(turn: u64, request: RequestId, cell: usize) -> u64 {
    debug_assert!((cell as u64) < (1 << CELL_BITS) - 1, "a box's number does not fit into the word");
    // The cell counts from 1: no firing is 0.
    let cell = (cell as u64 + 1) & ((1 << CELL_BITS) - 1);
    let request = request.0 & ((1 << REQUEST_BITS) - 1);
    (turn % TURNS) << (CELL_BITS + REQUEST_BITS) | request << CELL_BITS | cell
}

impl FiringMark {
    /// The last bits of the request's number.
    fn request(self) -> RequestId {
        RequestId(self.0 >> CELL_BITS & ((1 << REQUEST_BITS) - 1))
    }

    /// Whether it may be of a request. Requests four million apart have equal last bits.
    pub(in crate::scheduler) fn is_of(self, request: RequestId) -> bool {
        request.0 & ((1 << REQUEST_BITS) - 1) == self.request().0
    }

    /// The box's place in the model.
    pub(in crate::scheduler) fn cell(self) -> usize {
        let counted = (self.0 & ((1 << CELL_BITS) - 1)) as usize;
        debug_assert!(counted > 0, "a word has a firing without a box");
        counted - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_keeps_its_firing() {
        let current = CurrentFiring::default();
        assert_eq!(current.read(), None);
        for (request, cell) in [(1, 0), (7, 1000), ((1 << 22) + 5, (1 << 24) - 2)] {
            current.begin(RequestId(request), cell);
            let mark = current.read().unwrap();
            assert!(mark.is_of(RequestId(request)) && !mark.is_of(RequestId(request + 1)));
            assert_eq!(mark.cell(), cell);
        }
    }

    #[test]
    fn two_firings_of_a_box_differ() {
        let current = CurrentFiring::default();
        current.begin(RequestId(3), 4);
        let first = current.end();
        assert_eq!(current.read(), None);
        current.resume(first);
        assert!(current.read() != first && current.read().map(FiringMark::cell) == Some(4));
        current.resume(None);
    }
}
