//! The order of an ordered box with copies, restored by the sequence of its input.
//!
//! Invariants: results leave in the order in which their inputs were taken; the oldest unfinished input never waits
//! for room here, so the others cannot block it.

use std::collections::{BTreeMap, VecDeque};

use crate::envelope::Envelope;

/// Results of an ordered box's copies that wait for older results, or for room on the edge.
pub(crate) struct Reorder {
    next: u64,
    finished: BTreeMap<u64, VecDeque<(usize, Envelope)>>,
    /// Copies that have not ended.
    pub(crate) copies_open: usize,
}

impl Reorder {
    pub(crate) fn new(copies: usize) -> Self {
        debug_assert!(copies > 1, "the results of a single copy are reordered");
        Self { next: 0, finished: BTreeMap::new(), copies_open: copies }
    }

    /// Takes in the results of one input: envelopes by edge.
    pub(crate) fn finish(&mut self, sequence: u64, results: VecDeque<(usize, Envelope)>) {
        debug_assert!(sequence >= self.next, "the results of an input come after those of a later one");
        let before = self.finished.insert(sequence, results);
        debug_assert!(before.is_none(), "two copies have taken one input: the results of one are lost");
    }

    /// Hands out results in order, as long as `deliver` takes them (it returns a result that it cannot take). True
    /// if it delivered anything.
    pub(crate) fn flush(&mut self, mut deliver: impl FnMut(usize, Envelope) -> Option<Envelope>) -> bool {
        let mut moved = false;
        while let Some(results) = self.finished.get_mut(&self.next) {
            while let Some((output, envelope)) = results.pop_front() {
                if let Some(envelope) = deliver(output, envelope) {
                    results.push_front((output, envelope));
                    return moved;
                }
                moved = true;
            }
            self.finished.remove(&self.next);
            self.next += 1;
            moved = true;
        }
        moved
    }

    /// Inputs whose results wait here.
    pub(crate) fn waiting(&self) -> usize {
        self.finished.len()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, UInt32Array};

    use super::*;

    fn envelope(value: u32) -> Envelope {
        Envelope::from_columns([("v", Arc::new(UInt32Array::from(vec![value])) as ArrayRef)]).unwrap()
    }

    #[test]
    fn results_leave_in_the_order_of_their_inputs() {
        let mut reorder = Reorder::new(2);
        let mut out = Vec::new();
        let mut flush = |reorder: &mut Reorder, room: usize| {
            let mut left = room;
            reorder.flush(|_, envelope| {
                if left == 0 {
                    return Some(envelope);
                }
                left -= 1;
                out.push(envelope.u32s("v").unwrap()[0]);
                None
            });
            out.clone()
        };
        reorder.finish(1, VecDeque::from([(0, envelope(10)), (0, envelope(11))]));
        assert!(flush(&mut reorder, 9).is_empty());
        reorder.finish(0, VecDeque::from([(0, envelope(0))]));
        assert_eq!(flush(&mut reorder, 2), [0, 10]);
        assert_eq!(flush(&mut reorder, 2), [0, 10, 11]);
        assert_eq!(reorder.waiting(), 0);
    }
}
