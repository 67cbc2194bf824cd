//! The work of a box, counted while its firings do it.
//!
//! Invariant: the counts are only shown. No protocol depends on them, so all accesses are relaxed.

use crate::sync::{Counter, Ordering};

/// Counts the work of a box while a firing does it: see [`Context::work`](super::Context::work).
#[derive(Clone, Copy)]
pub struct Work<'a> {
    done: &'a Counter,
    expected: &'a Counter,
}

impl<'a> Work<'a> {
    pub(crate) fn new(done: &'a Counter, expected: &'a Counter) -> Self {
        Self { done, expected }
    }

    /// Adds to the work that the box has to do. If all earlier work is done, both counts begin anew.
    ///
    /// The firing calls this before the closures that do the work. Closures that run beside each other only call [`Work::add`].
    pub fn expect(&self, units: u64) {
        let before = self.expected.load(Ordering::Relaxed);
        if self.done.load(Ordering::Relaxed) < before {
            self.expected.store(before + units, Ordering::Relaxed);
        } else {
            self.done.store(0, Ordering::Relaxed);
            self.expected.store(units, Ordering::Relaxed);
        }
    }

    /// Adds to the work that is done, from any thread.
    #[inline]
    pub fn add(&self, units: u64) {
        self.done.fetch_add(units, Ordering::Relaxed);
    }

    /// Counts all work as done, such as after an error that leaves the rest of it.
    pub fn finish(&self) {
        self.done.store(self.expected.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_begin_anew_once_all_work_is_done() {
        let counters = [Counter::new(0), Counter::new(0)];
        let work = Work::new(&counters[0], &counters[1]);
        let check = |done: u64, expected: u64| {
            assert_eq!(counters.each_ref().map(|counter| counter.load(Ordering::Relaxed)), [done, expected]);
        };
        work.expect(10);
        work.expect(5);
        work.add(14);
        check(14, 15);
        work.expect(3);
        check(14, 18);
        work.add(4);
        check(18, 18);
        work.expect(7);
        check(0, 7);
        work.add(2);
        work.finish();
        check(7, 7);
    }
}
