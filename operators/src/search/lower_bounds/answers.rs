//! The remaining objects, on their way to the distance box.

use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, UInt32Array, UInt64Array};
use boxwork_kernels::lower_bound::{BoundEvaluator, Bounds};
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::operator::{BoxError, Context, Flow, Pushed};

use super::bounded::Bounded;
use super::{CANDIDATES, RANGES};
use crate::search::scan;
use boxwork_stores::pivot_table::PivotTable;

/// Rows of an envelope: at most, and at least unless fewer remain.
pub(super) const ENVELOPE_ROWS: usize = 4096;
const ENVELOPE_ROWS_MIN: usize = 256;

/// The remaining objects, query by query.
pub(super) struct Answers {
    table: Arc<PivotTable>,
    evaluator: BoundEvaluator,
    /// Whether anything may be excluded.
    has_bound: bool,
    slots: usize,
    queries: Vec<Bounded>,
    /// Remembered objects of all queries that are still to be sent; `None` if there were too many to remember.
    left: Option<usize>,
    /// The devices that scan all objects, if no bound pays.
    scans: Option<scan::OnDevices>,
    /// The next object to send.
    sending: Sending,
    /// An envelope that is made but not yet sent.
    made: Option<Envelope>,
}

/// The position of the next object to send.
#[derive(Clone, Copy, Default)]
struct Sending {
    query: usize,
    /// The block, if none are remembered.
    place: usize,
}

impl Answers {
    pub(super) fn new(
        table: Arc<PivotTable>,
        evaluator: BoundEvaluator,
        has_bound: bool,
        slots: usize,
        (queries, left): (Vec<Bounded>, Option<usize>),
        scans: Option<scan::OnDevices>,
    ) -> Self {
        let (sending, made) = (Sending::default(), None);
        Self { table, evaluator, has_bound, slots, queries, left, scans, sending, made }
    }

    /// Sends the remaining objects, query after query.
    pub(super) fn send(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        if let Some(scan) = &mut self.scans {
            let numbers: Vec<u32> = self.queries.iter().map(|query| query.number).collect();
            while cx.has_room(RANGES) {
                let next = if cx.is_cancelled() || numbers.is_empty() { None } else { scan.next(&numbers)? };
                let Some(envelope) = next else { return Ok(Flow::Done) };
                if cx.push(RANGES, envelope)? == Pushed::Closed {
                    return Ok(Flow::Done);
                }
            }
            return Ok(Flow::Wait);
        }
        while cx.has_room(CANDIDATES) {
            cx.announce();
            let made = match self.made.take() {
                None => self.make()?,
                made => made,
            };
            let Some(made) = made else { return Ok(Flow::Done) };
            let (mut rows, whole) = (made.rows(), made.rows());
            if let Some(left) = &mut self.left {
                // Like a scan, so that all slots end together in the distance box.
                rows = rows.min((*left / (2 * self.slots)).clamp(ENVELOPE_ROWS_MIN, ENVELOPE_ROWS));
                *left -= rows;
            }
            let mut next = made.clone();
            if rows < whole {
                next = Envelope::new(made.batch().slice(0, rows))?;
                self.made = Some(Envelope::new(made.batch().slice(rows, whole - rows))?);
            }
            if cx.push(CANDIDATES, next)? == Pushed::Closed {
                return Ok(Flow::Done);
            }
        }
        Ok(Flow::Wait)
    }

    /// The next envelope, of one query; `None` at the end.
    fn make(&mut self) -> Result<Option<Envelope>, BoxError> {
        let (queries, sending) = (&mut self.queries, &mut self.sending);
        let space = Arc::clone(self.table.space());
        let store = space.store();
        let mut bounds = Bounds::default();
        while let Some(query) = queries.get_mut(sending.query) {
            let range = query.range();
            let (mut ids, mut lowers) = (Vec::new(), Vec::new());
            if self.left.is_some() {
                // The pieces were narrowed to the range before the first was sent. Large ones leave as they are, small
                // ones are joined.
                let mut left = query.left.pop_front().unwrap_or_default();
                while let Some(next) =
                    query.left.pop_front_if(|next| next.len() + left.len() <= ENVELOPE_ROWS)
                {
                    left.append(next);
                }
                (ids, lowers) = (left.ids, left.lowers);
                lowers.iter_mut().for_each(|lower| *lower *= self.table.unit());
                if query.left.is_empty() {
                    *sending = Sending { query: sending.query + 1, place: 0 };
                }
            } else {
                let is_scan = !self.has_bound;
                let left = self.table.len() - self.table.ids(sending.place).start;
                let rows_max =
                    if is_scan { scan::rows_next(left, self.slots) as usize } else { ENVELOPE_ROWS };
                while ids.len() < rows_max && sending.place < self.table.blocks() {
                    if let Some(prepared) = &query.query {
                        self.evaluator.bounds(prepared, self.table.block(sending.place), &mut bounds);
                    }
                    for (id, lower) in self.table.ids(sending.place).zip(bounds.lower.iter().copied()) {
                        if lower <= range && store.has(id) {
                            ids.push(id);
                            lowers.push(f64::from(lower) * self.table.unit());
                        }
                    }
                    sending.place += 1;
                }
                if sending.place == self.table.blocks() {
                    *sending = Sending { query: sending.query + 1, place: 0 };
                }
            }
            if ids.is_empty() {
                continue;
            }
            let columns: [(&str, ArrayRef); 3] = [
                ("query", Arc::new(UInt32Array::from(vec![query.number; ids.len()]))),
                ("id", Arc::new(UInt64Array::from(ids))),
                ("lower", Arc::new(Float64Array::from(lowers))),
            ];
            return Ok(Some(Envelope::from_columns(columns)?));
        }
        Ok(None)
    }
}
