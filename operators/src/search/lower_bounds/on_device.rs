//! The box's side of bounds on devices: the table is cut into parts, each is brought to a device and bounded there, and
//! what a device fails at is left to the slots.
//!
//! Invariant: every block of the table is bounded exactly once, by a device or by the slots.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use boxwork_kernels::lower_bound::Bound;
use boxwork_runtime::feeding::{Blocks, Devices};
use boxwork_runtime::operator::{BoxError, Context};

use super::block::{BoundsBlock, Common, Load, Scan, block_bytes};
use super::bounded::Bounded;
use boxwork_stores::pivot_table::PivotTable;

/// How a table and what is left of it are cut.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    /// What of the table lies on a device in one buffer, about: what is brought there at once.
    pub(super) chunk_bytes: u64,
    /// Entries of all queries together for which there is room at first.
    pub(super) entries: usize,
}

pub(super) const SIZES: Sizes = Sizes { chunk_bytes: 128 << 20, entries: 1 << 20 };

/// Of a device's memory, the share that the table may take and still be kept there.
const RESIDENT_SHARE: f64 = 0.75;

/// Chunks of a table that is not kept take this part of a device's memory each, at most.
const PASSING_SHARE: u64 = 8;

/// Chunks on their way to a device at once: one is gathered while the other one is sent.
const LOADS: usize = 2;

/// Entries of all queries together, at most: the kernel counts their numbers in 32 bits.
const ENTRIES_MAX: usize = 1 << 28;

/// Entries of one query for which there is room at first, at most.
const ENTRIES_OF_QUERY: usize = 1 << 16;

pub(super) struct OnDevice {
    common: Arc<Common>,
    /// Of each device: its blocks, so that a part stays where it was brought.
    places: Vec<Place>,
    parts: Vec<Part>,
    /// Objects that have been brought to where they are bounded.
    loaded: u64,
    /// Entries of all queries together for which there is room at first, and at most.
    entries: usize,
    remember: usize,
}

struct Place {
    blocks: Blocks<BoundsBlock>,
    /// Chunks to be brought in before their parts are bounded.
    to_load: VecDeque<usize>,
    to_scan: VecDeque<usize>,
}

/// Some blocks of the table.
struct Part {
    blocks: Range<usize>,
    /// Devices that it may go to, the next one last.
    places: Vec<usize>,
}

/// What became of a part.
pub(super) enum Came {
    /// The objects left of a part.
    Left(Scan),
    /// These blocks are bounded, and more objects are left than may be remembered; the ranges hold.
    TooMany(Scan),
    /// Blocks that no device bounds.
    Failed(Range<usize>),
}

impl OnDevice {
    /// For queries that are prepared for a bound.
    pub(super) fn new(
        table: &Arc<PivotTable>,
        bound: Bound,
        queries: &[Bounded],
        k: Option<usize>,
        (devices, allowed): (&Arc<Devices>, &[usize]),
        sizes: Sizes,
        remember: usize,
    ) -> Self {
        let bytes = block_bytes(table, bound);
        let budgets = allowed.iter().map(|idx| devices.list()[*idx].memory_budget_bytes());
        let least = budgets.min().unwrap_or(0);
        let chunk_blocks = (sizes.chunk_bytes.min(least / PASSING_SHARE) / bytes).max(1) as usize;
        let is_kept = (table.blocks() as u64 * bytes) as f64 <= least as f64 * RESIDENT_SHARE;
        let prepared = queries.iter().filter_map(|query| query.query.as_ref());
        let common = Arc::new(Common::new(table, bound, prepared, k, chunk_blocks));
        let chunks = table.blocks().div_ceil(chunk_blocks);
        // Kept: as many parts as devices, each of many chunks. Else a chunk at a time.
        let chunks_per_part = if is_kept { chunks.div_ceil(allowed.len().max(1)) } else { 1 };
        let mut places: Vec<Place> = allowed
            .iter()
            .map(|idx| Place {
                blocks: Blocks::new(Arc::clone(devices), [*idx]),
                to_load: VecDeque::new(),
                to_scan: VecDeque::new(),
            })
            .collect();
        let (mut parts, mut loaded) = (Vec::new(), 0);
        for first in (0..chunks).step_by(chunks_per_part) {
            let (part, place) = (parts.len(), parts.len() % places.len());
            let last = chunks.min(first + chunks_per_part) - 1;
            let device = &devices.list()[allowed[place]];
            for chunk in first..=last {
                if is_kept && !device.holds(common.key(chunk)) {
                    places[place].to_load.push_back(chunk);
                } else {
                    loaded += common.objects(&common.blocks(chunk)) as u64;
                }
            }
            places[place].to_scan.push_back(part);
            let order = (0..places.len()).map(|turn| (place + turn) % places.len()).rev();
            let blocks = common.blocks(first).start..common.blocks(last).end;
            parts.push(Part { blocks, places: order.collect() });
        }
        Self { common, places, parts, loaded, entries: sizes.entries, remember }
    }

    /// Whether all that was begun has come back.
    pub(super) fn is_over(&self) -> bool {
        self.places.iter().all(|place| place.to_scan.is_empty() && place.blocks.in_flight() == 0)
    }

    /// Takes what has come back, and hands over what is next.
    pub(super) fn process(
        &mut self,
        cx: &mut Context<'_>,
        queries: &[Bounded],
    ) -> Result<Vec<Came>, BoxError> {
        let mut back = Vec::new();
        for place in 0..self.places.len() {
            while let Some((block, result)) = self.places[place].blocks.take() {
                match (block, result) {
                    (BoundsBlock::Load(load), Ok(())) => {
                        self.loaded += self.common.objects(&self.common.blocks(load.chunk)) as u64;
                        cx.progress(self.loaded, self.common.table.len());
                    }
                    // What could not be brought in ahead of it, a part brings in itself, or fails.
                    (BoundsBlock::Load(_), Err(error)) if error.is_of_device() => {}
                    (BoundsBlock::Scan(scan), Ok(())) => back.extend(self.scanned(place, scan, queries, cx)),
                    (BoundsBlock::Scan(scan), Err(error)) if error.is_of_device() => {
                        back.extend(self.pass_on(scan.part));
                    }
                    (_, Err(error)) => return Err(error.into()),
                }
            }
        }
        // A part that is passed on may go to a device that had its turn.
        while self.hand_over(cx, queries, &mut back) {}
        Ok(back)
    }

    /// Bounds the part again with more room where it has to be.
    fn scanned(
        &mut self,
        place: usize,
        scan: Scan,
        queries: &[Bounded],
        cx: &mut Context<'_>,
    ) -> Option<Came> {
        for (query, range) in queries.iter().zip(&scan.ranges) {
            query.lower_range(*range);
        }
        let Some(most) = scan.missing() else { return Some(Came::Left(scan)) };
        let wanted: u64 = scan.counts.iter().map(|count| u64::from(*count)).sum();
        if wanted > self.remember as u64
            || most.saturating_mul(scan.counts.len()) > self.remember.max(self.entries).min(ENTRIES_MAX)
        {
            return Some(Came::TooMany(scan));
        }
        self.submit(place, scan.part, most, queries, cx);
        None
    }

    /// A part goes to the next device that it has not been to, or to the slots.
    fn pass_on(&mut self, part: usize) -> Option<Came> {
        let Part { blocks, places } = &mut self.parts[part];
        while let Some(place) = places.pop() {
            if self.places[place].blocks.is_served() {
                self.places[place].to_scan.push_back(part);
                return None;
            }
        }
        Some(Came::Failed(blocks.clone()))
    }

    /// Submits what each device has room for. True when a part was passed on, so that another look is worth it.
    fn hand_over(&mut self, cx: &mut Context<'_>, queries: &[Bounded], back: &mut Vec<Came>) -> bool {
        let mut is_passed_on = false;
        for place in 0..self.places.len() {
            let here = &mut self.places[place];
            if !here.blocks.is_served() {
                here.to_load.clear();
                for part in std::mem::take(&mut here.to_scan) {
                    back.extend(self.pass_on(part));
                    is_passed_on = true;
                }
                continue;
            }
            while here.blocks.in_flight() < LOADS
                && let Some(chunk) = here.to_load.pop_front()
            {
                let load = Load { common: Arc::clone(&self.common), chunk };
                here.blocks.submit(BoundsBlock::Load(load), cx.outside());
            }
            // After the chunks: what bounds them waits for those on their way by itself.
            if here.to_load.is_empty() {
                while self.places[place].blocks.in_flight() < LOADS
                    && let Some(part) = self.places[place].to_scan.pop_front()
                {
                    let room = (self.entries / queries.len().max(1)).clamp(1, ENTRIES_OF_QUERY);
                    self.submit(place, part, room, queries, cx);
                }
            }
        }
        is_passed_on
    }

    fn submit(&mut self, place: usize, part: usize, room: usize, queries: &[Bounded], cx: &mut Context<'_>) {
        let blocks = self.parts[part].blocks.clone();
        // What it is brought to is where it was before.
        self.parts[part].places.retain(|other| *other != place);
        let room = room.min(self.common.objects(&blocks));
        let ranges = queries.iter().map(Bounded::range).collect();
        let scan = Scan::new(&self.common, part, blocks, room, ranges);
        self.places[place].blocks.submit(BoundsBlock::Scan(scan), cx.outside());
    }
}
