//! The graph of neighbours on devices: vectors are queries of scans, batch by batch, and slots rank what these leave.
//!
//! Two scans are under way at a time, so devices compute one while slots rank the other.
//!
//! Invariant: the graph is the one that slots compute: neighbours by (f64 distance, row).

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use boxwork_kernels::CodePath;
use boxwork_kernels::distance::l2_of_each;
use boxwork_kernels::interrupt::{Interrupted, ask};
use boxwork_kernels::neighbours::{Graph, NONE};
use boxwork_kernels::pieces::collect;
use boxwork_kernels::vector::device::{K_MAX, Plan};
use boxwork_kernels::vector::{VectorMeasure, inner_product};
use boxwork_runtime::feeding::Picked;
use boxwork_runtime::operator::{BoxError, Context, Flow};
use boxwork_stores::space::Space;

use crate::index::nearest_vectors::Shared;
use crate::index::nearest_vectors::candidates::{Candidates, Parted};
use crate::index::nearest_vectors::on_device::{Scan, Sized};
use crate::pieces::side_by_side;

/// The most rows of a scan.
const BATCH_ROWS: usize = 4096;
/// The bytes of the lists of a scan on a device, about.
const LISTS_BYTES: usize = 1 << 28;
/// Scans under way.
const UNDER_WAY: usize = 2;
/// Rows that a slot ranks at a time.
const PIECE_ROWS: usize = 64;

/// Distances and rows, row after row.
type Ranked = Vec<(f64, u32)>;

/// The graph under way.
pub(super) struct Batches {
    shared: Arc<Shared>,
    measure: VectorMeasure,
    ids: Arc<[u64]>,
    rows: Arc<Vec<f32>>,
    dimensions: usize,
    k: usize,
    slots: u64,
    picked: Picked,
    sized: Sized,
    of_batch: usize,
    /// The first row without a scan.
    next: usize,
    /// Scans, and the rows that are their queries.
    scans: VecDeque<(Range<usize>, Scan)>,
    neighbours: Vec<u32>,
    distances: Vec<f64>,
}

impl Batches {
    /// Begins with the graph of all rows of a space; nothing if devices cannot find as many neighbours.
    pub(super) fn new(
        (space, measure): (&Arc<dyn Space>, VectorMeasure),
        (ids, rows): (&[u64], &Arc<Vec<f32>>),
        (dimensions, k, slots): (usize, usize, u64),
        picked: &Picked,
        sized: Option<(usize, Sized)>,
    ) -> Result<Option<Self>, BoxError> {
        // One more: a row is among its own nearest.
        if k + 1 > K_MAX {
            return Ok(None);
        }
        let plan = Plan::new(k + 1);
        let usual = (LISTS_BYTES / (plan.capacity * size_of::<[u32; 2]>())).clamp(1, BATCH_ROWS);
        // Two scans are under way, so one device needs no smaller groups.
        let devices = picked.devices.as_ref().map_or(1, |(_, allowed)| allowed.len());
        let of_group = Sized { queries: usual.div_ceil(devices.max(1)), ..Sized::new(plan) };
        let (of_batch, sized) = sized.unwrap_or((usual, of_group));
        Ok(Some(Self {
            shared: Arc::new(Shared::of_space(space, None, &|| false)?),
            measure,
            ids: ids.into(),
            rows: Arc::clone(rows),
            dimensions,
            k,
            slots,
            picked: picked.clone(),
            sized,
            of_batch,
            next: 0,
            scans: VecDeque::new(),
            neighbours: Vec::with_capacity(ids.len() * k),
            distances: Vec::with_capacity(ids.len() * k),
        }))
    }

    /// Goes on; `Done` once all rows have their neighbours.
    pub(super) fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        let count = self.ids.len();
        while self.scans.len() < UNDER_WAY && self.next < count {
            let rows = self.next..count.min(self.next + self.of_batch);
            let queries = self.queries(cx, rows.clone())?;
            let sizes = (self.k + 1, self.slots, self.sized);
            let Some(mut scan) = Scan::new(&self.shared, queries, sizes, &self.picked) else {
                unreachable!("devices are picked, and find as many objects")
            };
            // It hands its blocks over.
            scan.process(cx)?;
            self.next = rows.end;
            self.scans.push_back((rows, scan));
        }
        let Some((rows, mut scan)) = self.scans.pop_front() else { return Ok(Flow::Done) };
        let flow = scan.process(cx)?;
        if flow != Flow::Done || cx.is_cancelled() {
            self.scans.push_front((rows, scan));
            return Ok(flow);
        }
        self.rank(cx, rows, scan.into_found())?;
        cx.progress(self.neighbours.len() as u64 / self.k as u64, count as u64);
        Ok(Flow::More)
    }

    /// Some rows as queries.
    fn queries(&self, cx: &mut Context<'_>, rows: Range<usize>) -> Result<Vec<Vec<f32>>, BoxError> {
        let mut pieces = |count: usize, f: &(dyn Fn(usize) + Sync)| side_by_side(cx, count, f);
        let parts = collect(&mut pieces, rows.len().div_ceil(PIECE_ROWS), |piece| {
            let first = rows.start + piece * PIECE_ROWS;
            let of_piece = first..rows.end.min(first + PIECE_ROWS);
            of_piece.map(|row| self.row(row).to_vec()).collect::<Vec<_>>()
        });
        Ok(parts.ok_or(Interrupted)?.into_iter().flatten().collect())
    }

    fn row(&self, row: usize) -> &[f32] {
        &self.rows[row * self.dimensions..][..self.dimensions]
    }

    /// Appends the neighbours of the next rows.
    fn rank(
        &mut self,
        cx: &mut Context<'_>,
        rows: Range<usize>,
        found: Vec<Candidates>,
    ) -> Result<(), BoxError> {
        let mut parts: Vec<(usize, Vec<Candidates>, Ranked)> = Vec::new();
        let (mut found, mut first) = (found.into_iter(), rows.start);
        while first < rows.end {
            parts.push((first, found.by_ref().take(PIECE_ROWS).collect(), Vec::new()));
            first += PIECE_ROWS;
        }
        let this = &*self;
        cx.inside(|inside| {
            let cancelled = inside.cancelled();
            inside.for_each_chunk_of(&mut parts, 1, |_, parts| {
                for (first, found, ranked) in parts.iter_mut().filter(|_| !cancelled()) {
                    for (row, found) in (*first..).zip(found.drain(..)) {
                        this.rank_row(row, found, ranked);
                    }
                }
            });
        });
        ask(&|| cx.is_cancelled())?;
        for (distance, row) in parts.into_iter().flat_map(|(.., ranked)| ranked) {
            self.neighbours.push(row);
            self.distances.push(distance);
        }
        Ok(())
    }

    /// Appends the k neighbours of a row, and none for those that are missing.
    fn rank_row(&self, row: usize, found: Candidates, ranked: &mut Ranked) {
        let (path, own) = (CodePath::detect(), self.row(row));
        let square = if self.measure == VectorMeasure::L2 { 0.0 } else { inner_product(own, own) };
        let Parted { known, rest } = found.into_parted();
        let other = |id: u32| self.place(u64::from(id)).filter(|other| *other != row);
        let others: Vec<usize> = rest.into_iter().filter_map(other).collect();
        let mut distances = vec![0.0; others.len()];
        if self.measure == VectorMeasure::L2 {
            let rows: Vec<&[f32]> = others.iter().map(|other| self.row(*other)).collect();
            l2_of_each(path, own, &rows, &mut distances);
        } else {
            let each = distances.iter_mut().zip(&others);
            each.for_each(|(distance, other)| {
                *distance = self.measure.with_square(own, square, self.row(*other))
            });
        }
        let mut others: Vec<(f64, u32)> =
            distances.into_iter().zip(others.into_iter().map(|other| other as u32)).collect();
        let known = known.into_iter().filter_map(|(distance, id)| Some((distance, other(id)? as u32)));
        others.extend(known);
        others.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        others.resize(others.len().max(self.k), (f64::MAX, NONE));
        ranked.extend(&others[..self.k]);
    }

    /// The row of an id.
    fn place(&self, id: u64) -> Option<usize> {
        // Without removed objects, ids are rows.
        if self.ids.get(id as usize) == Some(&id) {
            return Some(id as usize);
        }
        self.ids.binary_search(&id).ok()
    }

    /// The graph, once all rows have their neighbours.
    pub(super) fn into_graph(self) -> Option<Graph> {
        Graph::of_parts(self.k, self.neighbours, self.distances)
    }
}

#[cfg(test)]
mod tests;
