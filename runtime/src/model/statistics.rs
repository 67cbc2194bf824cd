//! The figures of a request's boxes and edges so far.

use std::time::Duration;

use super::{BoxCell, Model};
use crate::edge::Edge;
use crate::operator::{add_count, set_figure};
use crate::request::{BoxStatistics, EdgeState, EdgeStatistics, Progress, RequestStatistics};
use crate::sync::{Counter, Ordering, add};

impl Model {
    pub(crate) fn progress(&self) -> Vec<Progress> {
        let known = self.boxes.iter().filter_map(|cell| {
            let done = cell.at.progress_done.load(Ordering::Relaxed);
            let total = cell.at.progress_total.load(Ordering::Relaxed);
            let work_total = cell.at.work_expected.load(Ordering::Relaxed);
            // New work may begin between the two loads.
            let work_done = cell.at.work_done.load(Ordering::Relaxed).min(work_total);
            let name = self.prepared.plan().boxes[cell.plan_box].name.clone();
            let is_known = done > 0 || total > 0 || work_total > 0;
            is_known.then_some(Progress { name, done, total, work_done, work_total })
        });
        known.collect()
    }

    /// Counts time off the CPU in a firing that has not detached: `whole` so far, `more` since the last call. Only the
    /// sampler calls it.
    pub(crate) fn count_undeclared(&self, cell: usize, more: Duration, whole: Duration) {
        if let Some(cell) = self.boxes.get(cell) {
            add(&cell.counters.undeclared_ns, more.as_nanos() as u64);
            cell.counters.undeclared_ns_max.fetch_max(whole.as_nanos() as u64, Ordering::Relaxed);
        }
    }

    /// The figures so far.
    pub(crate) fn statistics(&self) -> RequestStatistics {
        let (boxes, edges) = (self.box_statistics(), self.edge_statistics());
        let (busy_ns, bytes_moved) = (busy_ns(&boxes), self.bytes_moved(&edges));
        RequestStatistics { id: self.id, boxes, edges, busy_ns, bytes_moved }
    }

    pub(super) fn box_statistics(&self) -> Vec<BoxStatistics> {
        let plan = self.prepared.plan();
        let of_box = plan.boxes.iter().zip(&self.shape.copies).map(|(planned, copies)| {
            let sum = |pick: fn(&BoxCell) -> &Counter| {
                copies.iter().map(|cell| pick(&self.boxes[*cell]).load(Ordering::Relaxed)).sum()
            };
            let most = copies.iter().map(|cell| &self.boxes[*cell].counters.undeclared_ns_max);
            BoxStatistics {
                name: planned.name.clone(),
                kind: planned.spec.name.clone(),
                copies: copies.len(),
                firings: sum(|cell| &cell.counters.firings),
                rows_in: sum(|cell| &cell.at.rows_in),
                rows_out: sum(|cell| &cell.at.rows_out),
                busy_ns: sum(|cell| &cell.counters.busy_ns),
                waiting_ns: sum(|cell| &cell.counters.waiting_ns),
                blocked_ns: sum(|cell| &cell.counters.blocked_ns),
                undeclared_blocking_ns: sum(|cell| &cell.counters.undeclared_ns),
                undeclared_blocking_ns_max: most.map(|most| most.load(Ordering::Relaxed)).max().unwrap_or(0),
                counts: self.counts(copies),
                figures: self.figures(copies),
            }
        });
        of_box.collect()
    }

    /// The counts of all copies of a box, added up.
    fn counts(&self, copies: &[usize]) -> Vec<(&'static str, u64)> {
        let mut sums = Vec::new();
        for cell in copies {
            for (what, amount) in self.boxes[*cell].at.counts.lock().iter() {
                add_count(&mut sums, what, *amount);
            }
        }
        sums
    }

    /// The figures of a box; a later copy's replaces an earlier one's.
    fn figures(&self, copies: &[usize]) -> Vec<(&'static str, f64)> {
        let mut all = Vec::new();
        for cell in copies {
            for (what, number) in self.boxes[*cell].at.figures.lock().iter() {
                set_figure(&mut all, what, *number);
            }
        }
        all
    }

    pub(super) fn edge_statistics(&self) -> Vec<EdgeStatistics> {
        self.edges.iter().map(|edge| self.statistics_of(edge, edge.state())).collect()
    }

    pub(super) fn statistics_of(&self, edge: &Edge, state: EdgeState) -> EdgeStatistics {
        let (from, to) = self.edge_ends(edge);
        EdgeStatistics { from, to, state }
    }

    /// Bytes that passed all edges. One edge of the plan may become several adjacent edges, each of which carries all
    /// its bytes: they count once.
    pub(super) fn bytes_moved(&self, edges: &[EdgeStatistics]) -> u64 {
        let ones = self.edges.chunk_by(|edge, next| edge.plan_edge == next.plan_edge);
        ones.map(|ones| ones.iter().map(|edge| edges[edge.idx].state.bytes_total).max().unwrap_or(0)).sum()
    }

    /// `box.port` of both ends.
    pub(super) fn edge_ends(&self, edge: &Edge) -> (String, String) {
        self.shape.ends[edge.plan_edge].clone()
    }
}

/// Time in the firings of all boxes.
pub(super) fn busy_ns(boxes: &[BoxStatistics]) -> u64 {
    boxes.iter().map(|of_box| of_box.busy_ns).sum()
}
