//! The graph of neighbours on devices: vectors are queries of scans, batch by batch, and slots rank what these leave.
//!
//! Several scans are under way at a time, so devices compute some while slots rank another.
//!
//! Invariant: the graph is the one that slots compute: neighbours by (f64 distance, row).

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use boxwork_kernels::CodePath;
use boxwork_kernels::distance::l2_of_each;
use boxwork_kernels::interrupt::ask;
use boxwork_kernels::neighbours::{Graph, NONE};
use boxwork_kernels::vector::device::{K_MAX, Plan};
use boxwork_kernels::vector::{VectorMeasure, inner_product};
use boxwork_runtime::feeding::Picked;
use boxwork_runtime::operator::{BoxError, Context, Flow};
use boxwork_stores::space::Space;

use crate::index::nearest_vectors::Shared;
use crate::index::nearest_vectors::candidates::{Candidates, Parted};
use crate::index::nearest_vectors::numbers::Numbers;
use crate::index::nearest_vectors::on_device::{Scan, Sized};

/// The most rows of a scan.
const BATCH_ROWS: usize = 8192;
/// The bytes of the lists of a scan on a device, about.
const LISTS_BYTES: usize = 1 << 28;
/// Scans under way for each device; one more is being ranked.
const OF_DEVICE: usize = 2;
/// Rows that a slot ranks at a time.
const PIECE_ROWS: usize = 64;

/// The neighbours of a row, and their distances.
type Ranked<'a> = (&'a mut [u32], &'a mut [f64]);

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
    under_way: usize,
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
            under_way: OF_DEVICE * devices + 1,
            next: 0,
            scans: VecDeque::new(),
            neighbours: vec![0; ids.len() * k],
            distances: vec![0.0; ids.len() * k],
        }))
    }

    /// Goes on; `Done` once all rows have their neighbours.
    pub(super) fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        let count = self.ids.len();
        while self.scans.len() < self.under_way && self.next < count {
            let rows = self.next..count.min(self.next + self.of_batch);
            let queries = Numbers::of_rows(self.dimensions, Arc::clone(&self.rows), rows.clone());
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
        let done = rows.end;
        self.rank(cx, rows, scan.into_found())?;
        cx.progress(done as u64, count as u64);
        Ok(Flow::More)
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
        let mut neighbours = std::mem::take(&mut self.neighbours);
        let mut distances = std::mem::take(&mut self.distances);
        let of_rows = rows.start * self.k..rows.end * self.k;
        let to = neighbours[of_rows.clone()].chunks_mut(self.k).zip(distances[of_rows].chunks_mut(self.k));
        let mut each: Vec<(Candidates, Ranked)> = found.into_iter().zip(to).collect();
        let this = &*self;
        cx.inside(|inside| {
            let cancelled = inside.cancelled();
            inside.for_each_chunk_of(&mut each, PIECE_ROWS, |first, each| {
                for (row, (found, to)) in (rows.start + first..).zip(each).filter(|_| !cancelled()) {
                    this.rank_row(row, found.take(), to);
                }
            });
        });
        drop(each);
        (self.neighbours, self.distances) = (neighbours, distances);
        ask(&|| cx.is_cancelled())?;
        Ok(())
    }

    /// Finds the k neighbours of a row, and none for those that are missing.
    fn rank_row(&self, row: usize, found: Candidates, (neighbours, to): &mut (&mut [u32], &mut [f64])) {
        let (path, own) = (CodePath::detect(), self.row(row));
        let square = if self.measure == VectorMeasure::L2 { 0.0 } else { inner_product(own, own) };
        let Parted { known, rest, .. } = found.into_parted();
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
        let order = |a: &(f64, u32), b: &(f64, u32)| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1));
        // Devices rank the rows of a chunk.
        if !others.is_sorted_by(|a, b| order(a, b).is_lt()) {
            others.sort_unstable_by(order);
        }
        let each = others.into_iter().chain(std::iter::repeat((f64::MAX, NONE)));
        for ((distance, other), (neighbour, to)) in each.zip(neighbours.iter_mut().zip(to.iter_mut())) {
            (*neighbour, *to) = (other, distance);
        }
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
