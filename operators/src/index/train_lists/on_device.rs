//! The rounds of k-means on devices: chunks of rows become blocks, and rows that no device decides are assigned by slots.
//!
//! Invariant: whatever devices do, the clusters of a round are those of the exact assignment, so centroids have the bits that
//! slots compute.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::ops::Range;
use std::sync::Arc;

use boxwork_kernels::CodePath;
use boxwork_kernels::interrupt::{Interrupted, ask};
use boxwork_kernels::kmeans::BLOCK;
use boxwork_kernels::kmeans::device::{DeviceCentroids, RowTerms, UNDECIDED};
use boxwork_kernels::kmeans::means::{Grouped, are_means};
use boxwork_kernels::pieces::collect;
use boxwork_kernels::vector::device::padded;
use boxwork_runtime::feeding::{Devices, Residence};
use boxwork_runtime::operator::{BoxError, Context, Pushed};
use boxwork_stores::lists::Clustering;
use boxwork_stores::new_number;

use super::block::{AssignBlock, MeansBlock, OfRound, Place, RoundBlock, RowsOnDevices};
use crate::devices::stage::{BlockOutcome, DeviceStage, DeviceTask, Sizes, Taken};
use crate::index::nearest_vectors::on_device::has_units;
use crate::pieces::side_by_side;

/// From this many rows on `auto` takes GPUs.
pub(super) const DEVICE_ROWS_MIN: u64 = 1 << 16;
/// The bytes of a chunk on a device, about.
const CHUNK_BYTES: usize = 1 << 30;
/// Chunks are whole blocks; slots take an item a firing.
const SIZES: Sizes = Sizes { block: [1, 1], block_min: [1, 1], slots: [1, 1], blocks_per_device: 2 };
/// Rows that a slot assigns at a time.
const PIECE_ROWS: usize = 1024;
/// Rows of a slot up to which rows are compared with all centroids.
const FEW_ROWS: usize = 16;
/// Rows of a block that are assigned again, by all centroids one by one.
const CHECKED: usize = 4;

/// A part of a round.
pub(super) enum Item {
    /// A whole chunk.
    Chunk(usize),
    /// Some rows; slots assign them.
    Rows(Range<usize>),
    /// Rows that a device has not decided; slots assign them.
    Undecided(Vec<u32>),
    /// The means of all clusters.
    Means,
}

/// The rounds of a clustering, as a task for devices.
pub(super) struct Assignment {
    clustering: Clustering,
    iterations: u64,
    dimensions: usize,
    slots: usize,
    /// Whether all devices have matrix units, or tests want them emulated.
    has_units: bool,
    /// Whether one device has all rows, and numbers of 64 bits for their means.
    has_means: bool,
    /// Set by the first firing.
    rows: Option<Arc<RowsOnDevices>>,
    round: Option<Arc<OfRound>>,
    chunks: Vec<Range<usize>>,
    residence: Residence,
    items: VecDeque<Item>,
    /// By row: its cluster in this round. A block of all rows has it meanwhile.
    clusters: Vec<u32>,
    /// Rows of this round that have one.
    assigned: usize,
    /// Rows that devices have left to slots, over all rounds.
    #[cfg(test)]
    undecided: usize,
}

/// The sizes of the task, and whether it uses matrix units even where a device emulates them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sized {
    pub(super) chunk_bytes: usize,
    pub(super) emulates: bool,
}

impl Default for Sized {
    fn default() -> Self {
        Self { chunk_bytes: CHUNK_BYTES, emulates: false }
    }
}

/// The rounds of a clustering that has some, on devices.
pub(super) fn stage(
    clustering: Clustering,
    (dimensions, iterations, slots): (usize, u64, usize),
    sized: Sized,
    (devices, allowed): (Arc<Devices>, Arc<[usize]>),
) -> DeviceStage<Assignment> {
    let count = clustering.rows.len() / dimensions;
    let bytes_of_row = 4 * dimensions + 2 * padded(dimensions) + size_of::<[f32; 2]>();
    let has_doubles = |device: &usize| devices.list()[*device].info().has_doubles;
    // One device that has all rows computes the means too, which takes it less time than slots need for them while several
    // devices share the rows.
    let alone = allowed.iter().find(|device| has_doubles(device)).copied();
    let alone = alone.filter(|_| count.saturating_mul(bytes_of_row) <= sized.chunk_bytes);
    let allowed = alone.map_or(allowed, |device| Arc::from([device]));
    // Each device has a chunk at least.
    let of_chunk = (sized.chunk_bytes / bytes_of_row).min(count.div_ceil(allowed.len())).max(1);
    let chunks: Vec<_> =
        (0..count).step_by(of_chunk).map(|first| first..count.min(first + of_chunk)).collect();
    let bytes = chunks.iter().map(|rows| (rows.len() * bytes_of_row) as u64);
    let residence = Residence::new(&devices, Arc::clone(&allowed), bytes);
    let has_doubles = allowed.iter().all(has_doubles);
    let task = Assignment {
        has_means: chunks.len() == 1 && residence.is_kept(0) && has_doubles,
        residence,
        has_units: sized.emulates || allowed.iter().all(|device| has_units(&devices.list()[*device])),
        clusters: vec![0; count],
        clustering,
        iterations,
        dimensions,
        slots,
        rows: None,
        round: None,
        chunks,
        items: VecDeque::new(),
        assigned: 0,
        #[cfg(test)]
        undecided: 0,
    };
    DeviceStage::new(task, SIZES, Some((devices, allowed)))
}

impl Assignment {
    /// The clustering, once the stage has ended.
    pub(super) fn into_clustering(self) -> Clustering {
        self.clustering
    }

    fn rows(&self) -> &Arc<RowsOnDevices> {
        self.rows.as_ref().expect("the first firing makes them")
    }

    /// Makes the items of the next round, if there is one.
    fn begin_round(&mut self, cx: &mut Context<'_>) -> Result<(), BoxError> {
        let rounds = &self.clustering.rounds;
        cx.progress(rounds.count() as u64, self.iterations);
        if rounds.is_over() {
            return Ok(());
        }
        let (rows, centroids) = (self.rows(), rounds.centroids());
        let mut pieces = |count: usize, f: &(dyn Fn(usize) + Sync)| side_by_side(cx, count, f);
        let taken =
            DeviceCentroids::new(centroids, self.dimensions, &rows.terms, self.has_units, &mut pieces);
        ask(&|| cx.is_cancelled())?;
        self.round = taken.map(|centroids| Arc::new(OfRound { centroids, version: new_number() }));
        self.assigned = 0;
        // The room of the round before is warm; all its numbers are replaced.
        let rounds = &mut self.clustering.rounds;
        self.clusters = rounds.take_room();
        self.clusters.resize(rounds.clusters().len(), 0);
        let chunks = 0..self.chunks.len();
        match &self.round {
            Some(_) => self.items.extend(chunks.map(Item::Chunk)),
            // Values that may leave f32 decide nothing: slots know what to do.
            None => self.items.extend(chunks.map(|chunk| Item::Rows(self.chunks[chunk].clone()))),
        }
        Ok(())
    }

    /// If all rows have a cluster: ends the round, or leaves its means to a device.
    fn end_round(&mut self, cx: &mut Context<'_>) -> Result<(), BoxError> {
        if self.assigned < self.clustering.rounds.clusters().len() {
            return Ok(());
        }
        let is_settled = self.clustering.rounds.settle(std::mem::take(&mut self.clusters));
        if is_settled {
            return self.begin_round(cx);
        }
        if self.has_means && self.round.is_some() {
            self.items.push_back(Item::Means);
            return Ok(());
        }
        self.update(cx)
    }

    /// Ends the round with means that slots compute.
    fn update(&mut self, cx: &mut Context<'_>) -> Result<(), BoxError> {
        let Clustering { rows, rounds, .. } = &mut self.clustering;
        let is_done = rounds.update(CodePath::detect(), rows, &mut |count, f| side_by_side(cx, count, f));
        if !is_done {
            ask(&|| cx.is_cancelled())?;
        }
        self.begin_round(cx)
    }

    fn place(&self, chunk: usize) -> Place {
        let (home, is_kept) = (Some(self.residence.home(chunk)), self.residence.is_kept(chunk));
        Place { chunk, rows: self.chunks[chunk].clone(), home, is_kept }
    }

    /// Whether some clusters of a block are those that the processor finds.
    fn is_as_reference(&self, cx: &mut Context<'_>, block: &AssignBlock) -> bool {
        let (rows, assigner) = (self.rows(), self.clustering.rounds.assigner());
        let centroids = self.clustering.rounds.centroids().len() / self.dimensions;
        let (first, count) = (block.place.rows.start, block.place.rows.len());
        let largest = block.clusters.iter().fold(0, |largest, cluster| largest.max(cluster & !UNDECIDED));
        if block.clusters.len() != count || largest as usize >= centroids {
            return false;
        }
        let places = (0..count).step_by(count.div_ceil(CHECKED).max(1));
        let mut checked: Vec<(usize, bool)> = places.map(|place| (place, true)).collect();
        cx.inside(|inside| {
            inside.for_each_chunk_of(&mut checked, 1, |_, checked| {
                let (place, is_as_reference) = &mut checked[0];
                let cluster = block.clusters[*place];
                *is_as_reference = cluster & UNDECIDED != 0
                    || cluster == assigner.nearest_of_all(CodePath::detect(), rows.row(first + *place));
            });
        });
        checked.iter().all(|(_, is_as_reference)| *is_as_reference)
    }

    /// Takes the clusters of a chunk.
    fn finish_chunk(
        &mut self,
        cx: &mut Context<'_>,
        block: AssignBlock,
    ) -> Result<BlockOutcome<Self>, BoxError> {
        if !self.is_as_reference(cx, &block) {
            let problem = "its clusters differ from the processor's: rows are assigned without devices";
            let chunk = block.place.chunk;
            cx.report(block.device, problem);
            return Ok(BlockOutcome::Untrusted(vec![Item::Chunk(chunk)]));
        }
        let of_chunk = block.place.rows;
        let Some(undecided) = undecided_of(cx, of_chunk.start, &block.clusters) else {
            return Err(Interrupted.into());
        };
        self.assigned += of_chunk.len() - undecided.len();
        if of_chunk.len() == self.clustering.rounds.clusters().len() {
            self.clusters = block.clusters;
        } else {
            self.clusters[of_chunk].copy_from_slice(&block.clusters);
        }
        #[cfg(test)]
        (self.undecided += undecided.len());
        if !undecided.is_empty() {
            return Ok(BlockOutcome::Fallback(vec![Item::Undecided(undecided)]));
        }
        self.end_round(cx)?;
        Ok(BlockOutcome::Made(Vec::new()))
    }

    /// Takes the means of all clusters.
    fn finish_means(
        &mut self,
        cx: &mut Context<'_>,
        block: MeansBlock,
    ) -> Result<BlockOutcome<Self>, BoxError> {
        let (path, counts) = (CodePath::detect(), block.grouped.counts());
        let Clustering { rows, rounds, .. } = &mut self.clustering;
        let has_all = block.means.len() == rounds.centroids().len();
        if !has_all || !are_means(path, rows, self.dimensions, &block.grouped, &counts, &block.means) {
            let problem = "its means differ from the processor's: they are computed without devices";
            cx.report(block.device, problem);
            return Ok(BlockOutcome::Untrusted(vec![Item::Means]));
        }
        rounds.replace(&block.means, counts);
        self.begin_round(cx)?;
        Ok(BlockOutcome::Made(Vec::new()))
    }

    /// Assigns some rows on slots.
    fn assign(&mut self, cx: &mut Context<'_>, numbers: &[u32]) -> Result<(), BoxError> {
        let (rows, rounds) = (Arc::clone(self.rows()), &self.clustering.rounds);
        let assigner = rounds.assigner();
        // Few rows are compared with all centroids: to arrange these takes longer.
        let are_few = numbers.len() <= FEW_ROWS * self.slots;
        let of_piece = numbers.len().div_ceil(2 * self.slots).clamp(1, PIECE_ROWS);
        let mut parts: Vec<(&[u32], Vec<u32>)> =
            numbers.chunks(of_piece).map(|part| (part, Vec::new())).collect();
        cx.inside(|inside| {
            let cancelled = inside.cancelled();
            inside.for_each_chunk_of(&mut parts, 1, |_, parts| {
                for (part, found) in parts.iter_mut().filter(|_| !cancelled()) {
                    let each = || part.iter().map(|row| *row as usize);
                    if are_few {
                        let path = CodePath::detect();
                        found.extend(each().map(|row| assigner.nearest_of_all(path, rows.row(row))));
                        continue;
                    }
                    let numbers: Vec<f32> = each().flat_map(|row| rows.row(row).iter().copied()).collect();
                    let earlier: Vec<u32> =
                        each().flat_map(|row| rounds.earlier(row..row + 1).iter().copied()).collect();
                    let assigned = assigner.assign_again(CodePath::detect(), &numbers, &earlier);
                    found.extend(assigned.into_iter().map(|(cluster, _)| cluster));
                }
            });
        });
        ask(&|| cx.is_cancelled())?;
        let found: Vec<u32> = parts.into_iter().flat_map(|(_, found)| found).collect();
        // A block that failed has not given their room back.
        self.clusters.resize(self.clustering.rounds.clusters().len(), 0);
        for (row, cluster) in numbers.iter().zip(found) {
            self.clusters[*row as usize] = cluster;
            self.assigned += 1;
        }
        Ok(())
    }
}

/// The rows of a chunk whose clusters are not certain, ascending; the chunk begins with row `first`. `None` if the request was
/// cancelled.
fn undecided_of(cx: &mut Context<'_>, first: usize, clusters: &[u32]) -> Option<Vec<u32>> {
    let mut pieces = |count: usize, f: &(dyn Fn(usize) + Sync)| side_by_side(cx, count, f);
    let marked = collect(&mut pieces, clusters.len().div_ceil(BLOCK), |block| {
        let of_block = &clusters[block * BLOCK..clusters.len().min((block + 1) * BLOCK)];
        // A loop without a branch is a few vector instructions.
        if of_block.iter().fold(0, |marks, cluster| marks | cluster) & UNDECIDED == 0 {
            return Vec::new();
        }
        let rows = (first + block * BLOCK) as u32..;
        let marked = rows.zip(of_block).filter(|(_, cluster)| **cluster & UNDECIDED != 0);
        marked.map(|(row, _)| row).collect()
    })?;
    Some(marked.concat())
}

impl DeviceTask for Assignment {
    type Item = Item;
    type Block = RoundBlock;
    type Made = Infallible;

    const IS_ORDERED: bool = false;

    fn begin(&mut self, cx: &mut Context<'_>) -> Result<(), BoxError> {
        let (rows, dimensions) = (Arc::clone(&self.clustering.rows), self.dimensions);
        let mut parts: Vec<_> =
            rows.chunks(PIECE_ROWS * dimensions).map(|part| (part, RowTerms::default())).collect();
        cx.inside(|inside| {
            let cancelled = inside.cancelled();
            inside.for_each_chunk_of(&mut parts, 1, |_, parts| {
                for (part, terms) in parts.iter_mut().filter(|_| !cancelled()) {
                    *terms = RowTerms::new(part, dimensions);
                }
            });
        });
        ask(&|| cx.is_cancelled())?;
        let mut terms = RowTerms::new(&[], dimensions);
        parts.into_iter().for_each(|(_, part)| terms.extend(part));
        self.rows = Some(Arc::new(RowsOnDevices {
            rows: Arc::clone(&rows),
            dimensions,
            terms,
            number: new_number(),
        }));
        self.begin_round(cx)
    }

    fn take(&mut self, _: &mut Context<'_>, _: bool) -> Result<Option<Taken<Item>>, BoxError> {
        Ok(self.items.pop_front().map(|item| match item {
            Item::Chunk(_) | Item::Means => Taken::Whole(item),
            Item::Rows(_) | Item::Undecided(_) => Taken::ForSlots(item),
        }))
    }

    fn is_ended(&self, _: &Context<'_>) -> bool {
        self.items.is_empty() && self.clustering.rounds.is_over()
    }

    fn has_items(&self) -> bool {
        !self.items.is_empty()
    }

    fn block(&mut self, cx: &mut Context<'_>, items: Vec<Item>) -> Result<RoundBlock, BoxError> {
        match items.into_iter().next() {
            Some(Item::Chunk(chunk)) => {
                let round = self.round.as_ref().expect("chunks are items of rounds on devices");
                let mut block = AssignBlock::new(self.rows(), round, self.place(chunk));
                if self.chunks.len() == 1 {
                    block.clusters = std::mem::take(&mut self.clusters);
                }
                Ok(RoundBlock::Assign(block))
            }
            Some(Item::Means) => {
                let rounds = &self.clustering.rounds;
                let count = rounds.centroids().len() / self.dimensions;
                let mut pieces = |count: usize, f: &(dyn Fn(usize) + Sync)| side_by_side(cx, count, f);
                let Some(grouped) = Grouped::new(rounds.clusters(), count, &mut pieces) else {
                    return Err(Interrupted.into());
                };
                let block = MeansBlock::new(self.rows(), rounds.clusters(), grouped, self.place(0));
                Ok(RoundBlock::Means(block))
            }
            _ => unreachable!("a block is a chunk, or all means"),
        }
    }

    fn home(&self, block: &RoundBlock) -> Option<usize> {
        block.home()
    }

    fn finish(&mut self, cx: &mut Context<'_>, block: RoundBlock) -> Result<BlockOutcome<Self>, BoxError> {
        match block {
            RoundBlock::Assign(block) => self.finish_chunk(cx, block),
            RoundBlock::Means(block) => self.finish_means(cx, block),
        }
    }

    fn failed(&mut self, mut block: RoundBlock, is_served: bool) -> BlockOutcome<Self> {
        // The device that keeps the chunk failed; any other may compute it.
        if block.place().home.take().is_some() && is_served {
            return BlockOutcome::Retry(block);
        }
        BlockOutcome::Fallback(vec![match block {
            RoundBlock::Assign(block) => Item::Chunk(block.place.chunk),
            RoundBlock::Means(_) => Item::Means,
        }])
    }

    fn compute(
        &mut self,
        cx: &mut Context<'_>,
        left: &mut VecDeque<Item>,
    ) -> Result<Vec<Infallible>, BoxError> {
        let of_firing = 2 * self.slots * PIECE_ROWS;
        let rows = match left.pop_front() {
            None => return Ok(Vec::new()),
            Some(Item::Means) => {
                self.update(cx)?;
                return Ok(Vec::new());
            }
            Some(Item::Undecided(mut rows)) => {
                let of_firing = rows.split_off(rows.len().saturating_sub(of_firing));
                if !rows.is_empty() {
                    left.push_front(Item::Undecided(rows));
                }
                of_firing
            }
            Some(Item::Chunk(chunk)) => {
                left.push_front(Item::Rows(self.chunks[chunk].clone()));
                return self.compute(cx, left);
            }
            Some(Item::Rows(rows)) => {
                let upto = rows.end.min(rows.start + of_firing);
                if upto < rows.end {
                    left.push_front(Item::Rows(upto..rows.end));
                }
                (rows.start as u32..upto as u32).collect()
            }
        };
        self.assign(cx, &rows)?;
        self.end_round(cx)?;
        Ok(Vec::new())
    }

    fn has_room(&self, _: &Context<'_>) -> bool {
        true
    }

    fn push(&mut self, _: &mut Context<'_>, made: Infallible) -> Result<Pushed, BoxError> {
        match made {}
    }
}

#[cfg(test)]
mod tests;
