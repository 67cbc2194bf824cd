//! The ledger of a request's memory: bytes in its edges against its budget.
//!
//! Invariant: a buffer that several edges (or several envelopes) keep counts once. Without a budget nothing is counted,
//! so such requests pay nothing.

use std::collections::HashMap;

use arrow_data::ArrayData;

use crate::envelope::Envelope;
use crate::sync::Mutex;

/// The bytes that a request's edges keep alive.
pub(crate) struct Ledger {
    limit: Option<usize>,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    /// By the buffer's address: how many envelopes keep it, and its bytes.
    buffers: HashMap<usize, (usize, usize)>,
    bytes: usize,
    bytes_high: usize,
}

impl Ledger {
    pub(crate) fn new(limit: Option<usize>) -> Self {
        Self { limit, kept: Mutex::new(Kept::default()) }
    }

    /// The budget in bytes.
    pub(crate) fn limit(&self) -> Option<usize> {
        self.limit
    }

    /// Whether the budget is not used up.
    #[inline]
    pub(crate) fn has_room(&self) -> bool {
        self.limit.is_none_or(|limit| self.keeps_less_than(limit))
    }

    #[inline(never)]
    fn keeps_less_than(&self, bytes: usize) -> bool {
        self.kept.lock().bytes < bytes
    }

    /// The most bytes that were kept at once; 0 without a budget.
    pub(crate) fn bytes_high(&self) -> usize {
        self.kept.lock().bytes_high
    }

    /// Counts an envelope that an edge now holds.
    pub(crate) fn charge(&self, envelope: &Envelope) {
        if self.limit.is_some() && envelope.bytes() > 0 {
            self.keep(envelope);
        }
    }

    fn keep(&self, envelope: &Envelope) {
        let kept = &mut *self.kept.lock();
        each_buffer(envelope, &mut |address, bytes| {
            let entry = kept.buffers.entry(address).or_insert((0, bytes));
            entry.0 += 1;
            if entry.0 == 1 {
                kept.bytes += bytes;
            }
        });
        kept.bytes_high = kept.bytes_high.max(kept.bytes);
    }

    /// Whether anything is counted.
    #[inline]
    pub(crate) fn is_limited(&self) -> bool {
        self.limit.is_some()
    }

    /// Counts an envelope less. True when the budget was used up and has room again: waiting producers must be
    /// notified.
    pub(crate) fn release(&self, envelope: &Envelope) -> bool {
        self.limit.is_some_and(|limit| envelope.bytes() > 0 && self.let_go(envelope, limit))
    }

    fn let_go(&self, envelope: &Envelope, limit: usize) -> bool {
        let kept = &mut *self.kept.lock();
        let before = kept.bytes;
        each_buffer(envelope, &mut |address, _| {
            let entry = kept.buffers.get_mut(&address);
            debug_assert!(entry.is_some(), "a buffer leaves a budget that it was not charged to");
            if let Some(entry) = entry {
                debug_assert!(entry.0 > 0, "a buffer is in a budget that no envelope keeps");
                entry.0 -= 1;
                if entry.0 == 0 {
                    kept.bytes -= entry.1;
                    kept.buffers.remove(&address);
                }
            }
        });
        debug_assert!(kept.bytes <= before, "a budget has less room after an envelope has gone");
        debug_assert!(
            kept.bytes == 0 || !kept.buffers.is_empty(),
            "a budget counts bytes that no buffer has"
        );
        before >= limit && kept.bytes < limit
    }
}

fn each_buffer(envelope: &Envelope, visit: &mut dyn FnMut(usize, usize)) {
    fn of(data: &ArrayData, visit: &mut dyn FnMut(usize, usize)) {
        for buffer in data.buffers() {
            visit(buffer.data_ptr().as_ptr() as usize, buffer.capacity());
        }
        for child in data.child_data() {
            of(child, visit);
        }
    }
    for column in envelope.batch().columns() {
        of(&arrow_array::Array::to_data(column), visit);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, UInt32Array};

    use super::*;

    #[test]
    fn a_buffer_in_two_envelopes_counts_once() {
        let column: ArrayRef = Arc::new(UInt32Array::from_iter_values(0..256));
        let a = Envelope::from_columns([("a", Arc::clone(&column))]).unwrap();
        let b = Envelope::from_columns([("b", column)]).unwrap();
        let ledger = Ledger::new(Some(1 << 20));
        ledger.charge(&a);
        let once = ledger.bytes_high();
        assert!(once >= 1024);
        ledger.charge(&b);
        assert_eq!(ledger.bytes_high(), once);
        ledger.release(&a);
        ledger.release(&b);
        assert_eq!(ledger.kept.lock().bytes, 0);
    }
}
