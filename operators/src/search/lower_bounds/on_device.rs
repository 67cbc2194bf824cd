//! Distributes the table over devices: it is cut into parts, and each is loaded onto a device and bounded there. A part
//! that a device fails at passes to the next device, and in the end to the slots.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use boxwork_kernels::lower_bound::Bound;
use boxwork_runtime::feeding::Devices;

use super::block::{BoundsBlock, Common, Load, Scan, block_bytes};
use super::bounded::Bounded;
use crate::devices::stage;
use boxwork_stores::pivot_table::PivotTable;

/// The sizes of the table's chunks and of the result buffers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    /// The approximate size of a chunk: one buffer on a device, loaded at once.
    pub(super) chunk_bytes: u64,
    /// Initial entries of the result buffers, for all queries together.
    pub(super) entries: usize,
}

pub(super) const SIZES: Sizes = Sizes { chunk_bytes: 128 << 20, entries: 1 << 20 };

/// The table stays on a device if it takes at most this share of the memory.
const RESIDENT_SHARE: f64 = 0.75;

/// Chunks of a table that does not stay take at most this fraction of a device's memory each.
const PASSING_SHARE: u64 = 8;

/// Chunks on their way to a device at once: one is gathered while the other is sent.
const LOADS: usize = 2;

/// The stage gathers nothing: each item for a device is a block from the start.
pub(super) const STAGE_SIZES: stage::Sizes =
    stage::Sizes { block: [u64::MAX; 2], block_min: [0; 2], slots: [0; 2], blocks_per_device: LOADS };

/// Entries of all queries together, at most: the kernel counts them in 32 bits.
const ENTRIES_MAX: usize = 1 << 28;

/// Initial entries for one query, at most.
const ENTRIES_OF_QUERY: usize = 1 << 16;

pub(super) struct OnDevice {
    common: Arc<Common>,
    devices: Arc<Devices>,
    places: Vec<Place>,
    parts: Vec<Part>,
    /// Objects loaded so far.
    loaded: u64,
    /// Initial entries of the result buffers, for all queries together.
    entries: usize,
    remember: usize,
}

/// The work of one device. A part stays on the device to which it was loaded.
struct Place {
    /// The device's number.
    device: usize,
    /// Its blocks on their way.
    under_way: usize,
    /// Chunks to load before their parts are bounded.
    to_load: VecDeque<usize>,
    to_scan: VecDeque<usize>,
}

/// A run of the table's blocks.
struct Part {
    blocks: Range<usize>,
    /// The place to which it was submitted last.
    place: usize,
    /// Places that it may still go to, the next one last.
    places: Vec<usize>,
}

/// The next piece of work.
pub(super) enum Next {
    Block(BoundsBlock),
    /// Blocks of the table that no device bounds.
    ForSlots(Range<usize>),
}

/// The outcome of bounding a part.
pub(super) enum Scanned {
    /// Its remaining objects.
    Left(Scan),
    /// More objects remain than may be remembered; the ranges hold.
    TooMany(Scan),
    /// The part, to be bounded again with a larger buffer.
    Again(Scan),
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
        // If the table stays: one part per device, of many chunks. Else: one chunk per part.
        let chunks_per_part = if is_kept { chunks.div_ceil(allowed.len().max(1)) } else { 1 };
        let mut places: Vec<Place> = allowed
            .iter()
            .map(|idx| Place {
                device: *idx,
                under_way: 0,
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
            parts.push(Part { blocks, place, places: order.collect() });
        }
        let devices = Arc::clone(devices);
        Self { common, devices, places, parts, loaded, entries: sizes.entries, remember }
    }

    /// Whether work waits for a device.
    pub(super) fn has_more(&self) -> bool {
        self.places.iter().any(|place| !place.to_load.is_empty() || !place.to_scan.is_empty())
    }

    fn is_served(&self, place: usize) -> bool {
        !self.devices.list()[self.places[place].device].is_retired()
    }

    /// The next block for a device that has room, or blocks that no device bounds.
    pub(super) fn next(&mut self, queries: &[Bounded]) -> Option<Next> {
        let mut place = 0;
        while place < self.places.len() {
            let is_served = self.is_served(place);
            let here = &mut self.places[place];
            if !is_served {
                here.to_load.clear();
                if let Some(part) = here.to_scan.pop_front() {
                    if let Some(blocks) = self.pass_on(part) {
                        return Some(Next::ForSlots(blocks));
                    }
                    // The part may have moved to a device that was already asked.
                    place = 0;
                    continue;
                }
            } else if here.under_way < LOADS {
                if let Some(chunk) = here.to_load.pop_front() {
                    here.under_way += 1;
                    let load = Load { common: Arc::clone(&self.common), chunk, place };
                    return Some(Next::Block(BoundsBlock::Load(load)));
                }
                // After the chunks; the device itself waits for those on their way.
                if let Some(part) = here.to_scan.pop_front() {
                    here.under_way += 1;
                    // The part is at this place now, and will not try it again.
                    self.parts[part].place = place;
                    self.parts[part].places.retain(|other| *other != place);
                    let room = (self.entries / queries.len().max(1)).clamp(1, ENTRIES_OF_QUERY);
                    return Some(Next::Block(BoundsBlock::Scan(self.scan(part, room, queries))));
                }
            }
            place += 1;
        }
        None
    }

    /// Blocks that waited for a device, now that none is left.
    pub(super) fn rest(&mut self) -> Option<Range<usize>> {
        self.places.iter_mut().for_each(|place| place.to_load.clear());
        let part = self.places.iter_mut().find_map(|place| place.to_scan.pop_front())?;
        Some(self.parts[part].blocks.clone())
    }

    /// The only device that may take this block.
    pub(super) fn home(&self, block: &BoundsBlock) -> usize {
        self.places[self.place(block)].device
    }

    fn place(&self, block: &BoundsBlock) -> usize {
        match block {
            BoundsBlock::Load(load) => load.place,
            BoundsBlock::Scan(scan) => self.parts[scan.part].place,
        }
    }

    /// Takes back a chunk that was loaded. Returns the objects loaded so far.
    pub(super) fn loaded(&mut self, load: &Load) -> u64 {
        self.places[load.place].under_way -= 1;
        self.loaded += self.common.objects(&self.common.blocks(load.chunk)) as u64;
        self.loaded
    }

    /// Takes back a part that was bounded; decides whether it must be bounded again with a larger buffer.
    pub(super) fn scanned(&mut self, scan: Scan, queries: &[Bounded]) -> Scanned {
        for (query, range) in queries.iter().zip(&scan.ranges) {
            query.lower_range(*range);
        }
        let most = scan.missing();
        let wanted: u64 = scan.counts.iter().map(|count| u64::from(*count)).sum();
        if let Some(most) = most
            && wanted <= self.remember as u64
            && most.saturating_mul(scan.counts.len()) <= self.remember.max(self.entries).min(ENTRIES_MAX)
        {
            return Scanned::Again(self.scan(scan.part, most, queries));
        }
        self.places[self.parts[scan.part].place].under_way -= 1;
        if most.is_some() { Scanned::TooMany(scan) } else { Scanned::Left(scan) }
    }

    /// Takes back a block that a device failed at. Returns blocks that no device bounds.
    pub(super) fn failed(&mut self, block: &BoundsBlock) -> Option<Range<usize>> {
        let place = self.place(block);
        self.places[place].under_way -= 1;
        match block {
            // If a chunk could not be loaded ahead, its part loads it, or fails.
            BoundsBlock::Load(_) => None,
            BoundsBlock::Scan(scan) => self.pass_on(scan.part),
        }
    }

    /// Passes a part to the next device in its list, or to the slots.
    fn pass_on(&mut self, part: usize) -> Option<Range<usize>> {
        while let Some(place) = self.parts[part].places.pop() {
            if self.is_served(place) {
                self.places[place].to_scan.push_back(part);
                return None;
            }
        }
        Some(self.parts[part].blocks.clone())
    }

    fn scan(&self, part: usize, room: usize, queries: &[Bounded]) -> Scan {
        let blocks = self.parts[part].blocks.clone();
        let room = room.min(self.common.objects(&blocks));
        let ranges = queries.iter().map(Bounded::range).collect();
        Scan::new(&self.common, part, blocks, room, ranges)
    }
}
