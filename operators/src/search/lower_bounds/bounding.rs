//! Bounds all objects, on devices and on slots, and collects those that remain.
//!
//! Invariant: every block of the table is bounded exactly once, by a device or by the slots.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::ops::Range;
use std::sync::Arc;

use boxwork_kernels::lower_bound::{BoundEvaluator, Bounds};
use boxwork_runtime::operator::{BoxError, Context, Pushed};

use super::RANGE;
use super::answers::{Answers, ENVELOPE_ROWS};
use super::block::BoundsBlock;
use super::bounded::{Bounded, Found};
use super::on_device::{Next, OnDevice, Scanned};
use crate::devices::stage::{BlockOutcome, DeviceTask, Taken};
use crate::search::scan;
use boxwork_stores::pivot_table::PivotTable;

/// Blocks of one firing, counted once for each query: some milliseconds.
const BLOCKS_PER_FIRING: usize = 1024;
/// Blocks that one closure bounds: at most, and at least, so that every slot gets some of a small table.
const BLOCKS_PER_CHUNK: usize = 32;
const BLOCKS_PER_CHUNK_MIN: usize = 4;
/// Pieces of work that each slot gets at least.
const PIECES_PER_SLOT: usize = 4;

/// The stage that bounds a table's objects.
pub(super) struct Bounding {
    pub(super) table: Arc<PivotTable>,
    pub(super) evaluator: BoundEvaluator,
    pub(super) k: Option<usize>,
    pub(super) remember: usize,
    /// Slots of the runtime: the more there are, the more serial work costs.
    pub(super) slots: usize,
    pub(super) queries: Vec<Bounded>,
    /// `None` if the slots bound everything.
    pub(super) devices: Option<OnDevice>,
    /// Blocks left for the slots.
    pub(super) rest: VecDeque<Range<usize>>,
    /// Objects bounded so far.
    pub(super) bounded: u64,
    /// Remembered objects of all queries; `None` once there were too many.
    pub(super) left: Option<usize>,
}

/// A block for a device, or blocks of the table for the slots.
pub(super) enum Item {
    Device(BoundsBlock),
    Blocks(Range<usize>),
}

impl Bounding {
    /// The remaining objects, once all blocks are bounded.
    pub(super) fn answers(
        mut self,
        cx: &mut Context<'_>,
        has_bound: bool,
        scans: Option<scan::OnDevices>,
    ) -> Answers {
        for query in &mut self.queries {
            if self.devices.is_some() {
                // Devices return blocks in any order.
                query.sort(ENVELOPE_ROWS);
            }
            if query.query.is_some() {
                cx.join_hint(RANGE, query.number, f64::from(query.range()) * self.table.unit());
            }
        }
        let Self { table, evaluator, slots, queries, left, .. } = self;
        Answers::new(table, evaluator, has_bound, slots, (queries, left), scans)
    }

    /// Drops objects beyond the upper bounds' range, and all of them if too many remain.
    fn narrow(&mut self) {
        let mut left = 0;
        for query in &mut self.queries {
            left += query.narrow(self.k);
        }
        self.left = self.left.map(|_| left).filter(|left| *left <= self.remember);
        if self.left.is_none() {
            self.queries.iter_mut().for_each(|query| query.left.clear());
        }
    }

    /// Bounds the first of some blocks for all queries.
    fn bound_blocks(&mut self, cx: &mut Context<'_>, rest: &mut Range<usize>) {
        let count = (BLOCKS_PER_FIRING / self.queries.len().max(1)).max(BLOCKS_PER_CHUNK);
        let blocks = rest.start..rest.end.min(rest.start + count);
        rest.start = blocks.end;
        let per_chunk =
            (blocks.len() / (PIECES_PER_SLOT * self.slots)).clamp(BLOCKS_PER_CHUNK_MIN, BLOCKS_PER_CHUNK);
        let chunks = blocks.len().div_ceil(per_chunk);
        let mut parts: Vec<Vec<Found>> = (0..chunks).map(|_| Vec::new()).collect();
        let (table, evaluator, k, keeps) = (&self.table, &self.evaluator, self.k, self.left.is_some());
        let shared: &[Bounded] = &self.queries;
        cx.inside(|inside| {
            inside.for_each_chunk_of(&mut parts, 1, |chunk, part| {
                let first = blocks.start + chunk * per_chunk;
                let mut found: Vec<Found> = shared.iter().map(|_| Found::default()).collect();
                let mut bounds = Bounds::default();
                let upto = blocks.end.min(first + per_chunk);
                for block in first..upto {
                    // All queries take a block while it is in the cache.
                    let mut next = (block + 1 < upto).then(|| table.block(block + 1));
                    for (query, found) in shared.iter().zip(&mut found) {
                        let Some(prepared) = &query.query else { continue };
                        evaluator.bounds_before(prepared, table.block(block), next.take(), &mut bounds);
                        table.hide_removed(block, &mut bounds);
                        query.see(table.ids(block), &bounds, k, keeps, found);
                    }
                }
                part[0] = found;
            });
        });
        for part in parts {
            self.queries.iter_mut().zip(part).for_each(|(query, found)| query.learn(found));
        }
        self.narrow();
        self.bounded += self.table.ids(blocks.end - 1).end - self.table.ids(blocks.start).start;
        cx.progress(self.bounded, self.table.len());
    }
}

impl DeviceTask for Bounding {
    type Item = Item;
    type Block = BoundsBlock;
    /// The answers leave after everything is bounded.
    type Made = Infallible;

    const IS_ORDERED: bool = false;

    fn take(&mut self, _: &mut Context<'_>, device: bool) -> Result<Option<Taken<Item>>, BoxError> {
        if let Some(blocks) = self.rest.pop_front() {
            return Ok(Some(Taken::ForSlots(Item::Blocks(blocks))));
        }
        let Some(devices) = &mut self.devices else { return Ok(None) };
        let next = if device { devices.next(&self.queries) } else { devices.rest().map(Next::ForSlots) };
        Ok(next.map(|next| match next {
            Next::Block(block) => Taken::Whole(Item::Device(block)),
            Next::ForSlots(blocks) => Taken::ForSlots(Item::Blocks(blocks)),
        }))
    }

    fn is_ended(&self, _: &Context<'_>) -> bool {
        !self.has_items()
    }

    fn has_items(&self) -> bool {
        !self.rest.is_empty() || self.devices.as_ref().is_some_and(OnDevice::has_more)
    }

    fn block(&mut self, _: &mut Context<'_>, items: Vec<Item>) -> Result<BoundsBlock, BoxError> {
        match items.into_iter().next() {
            Some(Item::Device(block)) => Ok(block),
            _ => unreachable!("devices get blocks made for them"),
        }
    }

    fn home(&self, block: &BoundsBlock) -> Option<usize> {
        self.devices.as_ref().map(|devices| devices.home(block))
    }

    fn finish(&mut self, cx: &mut Context<'_>, block: BoundsBlock) -> Result<BlockOutcome<Self>, BoxError> {
        let Some(devices) = &mut self.devices else { unreachable!("a block without devices") };
        let scan = match block {
            BoundsBlock::Scan(scan) => scan,
            BoundsBlock::Load(load) => {
                cx.progress(devices.loaded(&load), self.table.len());
                return Ok(BlockOutcome::Made(Vec::new()));
            }
        };
        match devices.scanned(scan, &self.queries) {
            Scanned::Again(scan) => return Ok(BlockOutcome::Retry(BoundsBlock::Scan(scan))),
            Scanned::TooMany(scan) => {
                self.bounded += scan.objects();
                self.left = None;
            }
            Scanned::Left(scan) => {
                self.bounded += scan.objects();
                for (query, entries) in self.queries.iter_mut().zip(&scan.entries) {
                    let range = query.range();
                    let uppers = entries.iter().map(|entry| entry.upper);
                    let mut found = Found::default();
                    found.uppers.extend(uppers.filter(|upper| *upper <= range));
                    entries.iter().for_each(|entry| found.left.push(entry.id, entry.lower));
                    query.learn(found);
                }
            }
        }
        cx.progress(self.bounded, self.table.len());
        self.narrow();
        Ok(BlockOutcome::Made(Vec::new()))
    }

    fn failed(&mut self, block: BoundsBlock, _: bool) -> BlockOutcome<Self> {
        let left = self.devices.as_mut().and_then(|devices| devices.failed(&block));
        BlockOutcome::Fallback(left.map(Item::Blocks).into_iter().collect())
    }

    fn compute(
        &mut self,
        cx: &mut Context<'_>,
        left: &mut VecDeque<Item>,
    ) -> Result<Vec<Infallible>, BoxError> {
        match left.pop_front() {
            Some(Item::Blocks(mut blocks)) => {
                self.bound_blocks(cx, &mut blocks);
                if !blocks.is_empty() {
                    left.push_front(Item::Blocks(blocks));
                }
            }
            Some(Item::Device(_)) => unreachable!("the slots get blocks of the table"),
            None => {}
        }
        Ok(Vec::new())
    }

    fn has_room(&self, _: &Context<'_>) -> bool {
        false
    }

    fn push(&mut self, _: &mut Context<'_>, made: Infallible) -> Result<Pushed, BoxError> {
        match made {}
    }
}
