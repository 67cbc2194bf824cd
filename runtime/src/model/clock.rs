//! The choice of firings to time: all of a box's firings, until they become too short to be worth reading the clock.
//!
//! Invariant: a firing longer than [`SHORT_NS`] is left out only after [`STREAK`] short ones in a row. A firing that is
//! left out counts as the shorter of the two timed ones around it. If a firing follows another one of its request at
//! once, on one slot, its time begins where that one's ended and includes the way between them.

use super::{BoxCell, Model};
use crate::sync::{Ordering, add};

/// A firing shorter than this is short: reading the clock three times costs more than a fiftieth of it.
const SHORT_NS: u64 = 5_000;
/// After this many short firings in a row, most of the following are not timed.
const STREAK: u32 = 8;
/// At least this many are left out then. A random number of up to 7 is added, so that the samples do not fall into step
/// with a pattern of the box.
const LEFT_OUT: u32 = 28;

/// The clock of one box.
#[derive(Default)]
pub(super) struct BoxClock {
    /// Firings still to be left out, and firings left out since the last timed one.
    left: u32,
    left_out: u32,
    streak: u32,
    busy_ns: u64,
    waiting_ns: u64,
    random: u32,
}

/// A firing that is timed.
pub(super) struct Timed {
    begun_ns: u64,
    blocked_before_ns: u64,
}

impl BoxClock {
    /// A firing begins.
    #[inline]
    pub(super) fn begin(&mut self, now_ns: impl FnOnce() -> u64, cell: &BoxCell) -> Option<Timed> {
        if self.left > 0 {
            self.left -= 1;
            self.left_out += 1;
            // The wait of the next firing is measured from its planning.
            if self.left == 0 {
                cell.timed.store(true, Ordering::Relaxed);
            }
            return None;
        }
        Some(self.begin_timed(now_ns(), cell))
    }

    #[inline(never)]
    fn begin_timed(&mut self, begun_ns: u64, cell: &BoxCell) -> Timed {
        let planned_ns = cell.planned_ns.load(Ordering::Relaxed);
        let waiting_ns = if planned_ns == 0 { 0 } else { begun_ns.saturating_sub(planned_ns) };
        let left_out_ns = u64::from(self.left_out) * waiting_ns.min(self.waiting_ns);
        add(&cell.counters.waiting_ns, waiting_ns + left_out_ns);
        self.waiting_ns = waiting_ns;
        Timed { begun_ns, blocked_before_ns: cell.counters.blocked_ns.load(Ordering::Relaxed) }
    }

    /// A timed firing ends, now.
    #[inline(never)]
    pub(super) fn end(&mut self, model: &Model, cell: &BoxCell, timed: Timed) -> u64 {
        let ended_ns = model.now_ns();
        let blocked_ns = cell.counters.blocked_ns.load(Ordering::Relaxed) - timed.blocked_before_ns;
        let busy_ns = ended_ns.saturating_sub(timed.begun_ns).saturating_sub(blocked_ns);
        let left_out_ns = u64::from(self.left_out) * busy_ns.min(self.busy_ns);
        add(&cell.counters.busy_ns, busy_ns + left_out_ns);
        self.busy_ns = busy_ns;
        self.left_out = 0;
        self.streak = if busy_ns + blocked_ns < SHORT_NS { self.streak + 1 } else { 0 };
        // If the box is planned again without a notification, it waits from now on.
        cell.planned_ns.store(ended_ns, Ordering::Relaxed);
        if self.streak >= STREAK {
            self.random = self.random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            self.left = LEFT_OUT + (self.random >> 29);
            cell.timed.store(false, Ordering::Relaxed);
        }
        ended_ns
    }
}
