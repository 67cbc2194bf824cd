//! Blocks of `lower_bounds` on their way to a device and back: a part of the table to load, or a part to bound.
//!
//! Invariants: a bounded part returns a range that contains all answers, and every object whose lower or upper bound is
//! within it, unless the part reports more objects than its buffer holds.

use std::ops::Range;
use std::sync::Arc;

use boxwork_kernels::lower_bound::device::{DeviceSlack, Shape};
use boxwork_kernels::lower_bound::{Bound, BoundQuery, PACKED_OBJECTS};
use boxwork_kernels::selection::{self, Bounded};
use boxwork_runtime::feeding::{Back, Block, DeviceError, Feed, Grid, ProgramSource, SharedKey, Value};

use crate::devices::device_kernels::{bounds_program, selection_program};
use boxwork_stores::pivot_table::PivotTable;

/// Blocks of the table that one thread gathers at a time: half a megabyte with 32 pivots.
const PART_BLOCKS: usize = 64;

/// Shared by all blocks of a box.
pub(super) struct Common {
    pub(super) table: Arc<PivotTable>,
    /// Blocks of the table that lie on a device together.
    chunk_blocks: usize,
    shape: Shape,
    bounds: ProgramSource,
    selection: ProgramSource,
    /// The queries as the kernel reads them.
    numbers: Vec<f32>,
    pairs: Vec<f32>,
    slacks: Vec<DeviceSlack>,
    k: usize,
}

/// Bytes that a block of the table takes on a device.
pub(super) fn block_bytes(table: &PivotTable, bound: Bound) -> u64 {
    (columns(table, bound) * PACKED_OBJECTS * size_of::<f32>()) as u64
}

fn columns(table: &PivotTable, bound: Bound) -> usize {
    if bound == Bound::Simplex { table.simplex().dimensions() } else { table.pivots().len() }
}

impl Common {
    pub(super) fn new<'a>(
        table: &Arc<PivotTable>,
        bound: Bound,
        queries: impl IntoIterator<Item = &'a BoundQuery>,
        k: Option<usize>,
        chunk_blocks: usize,
    ) -> Self {
        let shape = Shape::new(bound, columns(table, bound));
        let (mut numbers, mut pairs, mut slacks) = (Vec::new(), Vec::new(), Vec::new());
        for query in queries {
            query.device_numbers(&shape, &mut numbers, &mut pairs);
            slacks.push(query.device_slack());
        }
        // The kernel always has this argument.
        pairs.resize(pairs.len().max(4), 0.0);
        let (bounds, selection) = (bounds_program(&shape), selection_program(Bounded::Distances));
        let (table, k) = (Arc::clone(table), k.unwrap_or(0));
        Self { table, chunk_blocks, shape, bounds, selection, numbers, pairs, slacks, k }
    }

    /// The chunks that contain these blocks of the table.
    pub(super) fn chunks(&self, blocks: &Range<usize>) -> Range<usize> {
        blocks.start / self.chunk_blocks..blocks.end.div_ceil(self.chunk_blocks)
    }

    /// The blocks of a chunk.
    pub(super) fn blocks(&self, chunk: usize) -> Range<usize> {
        let first = chunk * self.chunk_blocks;
        first..self.table.blocks().min(first + self.chunk_blocks)
    }

    /// Objects of some blocks.
    pub(super) fn objects(&self, blocks: &Range<usize>) -> usize {
        (self.table.ids(blocks.end - 1).end - self.table.ids(blocks.start).start) as usize
    }

    pub(super) fn key(&self, chunk: usize) -> SharedKey {
        // Devices in use together determine how the table is cut. Stores use form 0, but their numbers are counted
        // apart.
        let form = 2 * self.chunk_blocks as u64 + u64::from(self.shape.bound() == Bound::Simplex);
        SharedKey { resource: self.table.number(), form, part: chunk as u64 }
    }

    /// Binds a chunk's columns, and loads them unless they are on the device.
    fn bind(&self, feed: &mut Feed<'_>, chunk: usize) -> Result<(), DeviceError> {
        let blocks = self.blocks(chunk);
        let len = self.shape.columns() * PACKED_OBJECTS;
        let count = blocks.len() * len;
        feed.shared_in_parts("columns", self.key(chunk), count, PART_BLOCKS * len, |part, to: &mut [f32]| {
            for (block, to) in blocks.clone().skip(part * PART_BLOCKS).zip(to.chunks_exact_mut(len)) {
                let block = self.table.block(block);
                let is_apex = self.shape.bound() == Bound::Simplex;
                to.copy_from_slice(if is_apex { block.apexes } else { block.distances });
            }
            Ok(())
        })
    }
}

/// A block of either kind; a box has one type of block.
pub(super) enum BoundsBlock {
    Load(Load),
    Scan(Scan),
}

/// A chunk to load onto a device.
pub(super) struct Load {
    pub(super) common: Arc<Common>,
    pub(super) chunk: usize,
    /// The place of its device among the devices in use.
    pub(super) place: usize,
}

/// Blocks of the table to bound for all queries.
pub(super) struct Scan {
    common: Arc<Common>,
    pub(super) part: usize,
    blocks: Range<usize>,
    /// Entries for each query.
    capacity: usize,
    /// By query: the range known before, then the range known after.
    pub(super) ranges: Vec<f32>,
    /// By query: objects within the range, even if more than there is room for.
    pub(super) counts: Vec<u32>,
    /// By query: the bounds of these objects.
    pub(super) entries: Vec<Vec<Entry>>,
}

/// An object that remains.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Entry {
    pub(super) id: u64,
    pub(super) lower: f32,
    pub(super) upper: f32,
}

impl Scan {
    pub(super) fn new(
        common: &Arc<Common>,
        part: usize,
        blocks: Range<usize>,
        capacity: usize,
        ranges: Vec<f32>,
    ) -> Self {
        let (counts, entries) = (Vec::new(), Vec::new());
        Self { common: Arc::clone(common), part, blocks, capacity, ranges, counts, entries }
    }

    /// Objects that were bounded.
    pub(super) fn objects(&self) -> u64 {
        self.common.objects(&self.blocks) as u64
    }

    /// The most objects that remain for a query, if the buffer was too small for them.
    pub(super) fn missing(&self) -> Option<usize> {
        let most = self.counts.iter().copied().max().unwrap_or(0) as usize;
        (most > self.capacity).then_some(most)
    }

    fn enqueue(&self, feed: &mut Feed<'_>) -> Result<(), DeviceError> {
        let common = &*self.common;
        let (shape, queries) = (&common.shape, common.slacks.len());
        write(feed, "numbers", &common.numbers)?;
        write(feed, "pairs", &common.pairs)?;
        write(feed, "ranges", &self.ranges)?;
        write(feed, "counts", &vec![0u32; queries])?;
        let objects = common.objects(&self.blocks);
        let chunks = common.chunks(&self.blocks);
        let groups: usize = chunks.clone().map(|chunk| shape.groups(common.blocks(chunk).len())).sum();
        let kept = selection::kept(groups, common.k);
        feed.output::<f32>("lowers", objects)?;
        feed.output::<f32>("uppers", objects)?;
        feed.output::<f32>("minima", groups * kept)?;
        let entries = queries * self.capacity * selection::ENTRY;
        feed.output::<u32>("entries", entries)?;
        let number = |value: usize| Value::of(value as u32);
        for (query, slack) in common.slacks.iter().enumerate() {
            let (mut first, mut minima_first) = (0, 0);
            for chunk in chunks.clone() {
                common.bind(feed, chunk)?;
                let blocks = common.blocks(chunk);
                let (groups, here) = (shape.groups(blocks.len()), common.objects(&blocks));
                let values = [
                    ("blocks", number(blocks.len())),
                    ("objects", number(here)),
                    ("numbers_first", number(query * shape.columns())),
                    ("pairs_first", number(query * shape.pairs())),
                    ("slack", Value::of(slack.slack)),
                    ("pairs_slack", Value::of(slack.pairs)),
                    ("first", number(first)),
                    ("minima_first", number(minima_first)),
                    ("kept", number(kept)),
                ];
                feed.launch(&common.bounds, "bounds", Grid::of([groups], [shape.items()]), &values)?;
                first += here;
                minima_first += groups * kept;
            }
            if common.k > 0 {
                let values = [
                    ("minima_first", number(0)),
                    ("minima_count", number(groups * kept)),
                    ("wanted", number(common.k)),
                    ("query", number(query)),
                ];
                feed.launch(&common.selection, "kth", Grid::of([1], [selection::ITEMS]), &values)?;
            }
            let values = [
                ("first", number(0)),
                ("objects", number(objects)),
                ("query", number(query)),
                ("capacity", number(self.capacity)),
            ];
            let grid = Grid::of([selection::groups(objects)], [selection::ITEMS]);
            feed.launch(&common.selection, "winnow", grid, &values)?;
        }
        feed.read::<f32>("ranges", queries)?;
        feed.read::<u32>("counts", queries)?;
        feed.read::<u32>("entries", entries)
    }
}

fn write<T: boxwork_runtime::feeding::Plain>(
    feed: &mut Feed<'_>,
    name: &'static str,
    numbers: &[T],
) -> Result<(), DeviceError> {
    feed.write(name, numbers.len(), |to| {
        to.copy_from_slice(numbers);
        Ok(())
    })
}

impl Block for BoundsBlock {
    fn size(&self) -> u64 {
        let (common, blocks) = match self {
            Self::Load(load) => (&load.common, load.common.blocks(load.chunk)),
            Self::Scan(scan) => (&scan.common, scan.blocks.clone()),
        };
        common.objects(&blocks) as u64
    }

    fn kind(&self) -> &'static str {
        match self {
            Self::Load(_) => "tables",
            Self::Scan(_) => "bounds",
        }
    }

    fn feed(&mut self, feed: &mut Feed<'_>) -> Result<(), DeviceError> {
        match self {
            Self::Load(load) => load.common.bind(feed, load.chunk),
            Self::Scan(scan) => scan.enqueue(feed),
        }
    }

    fn collect(&mut self, back: &Back<'_>) {
        let Self::Scan(scan) = self else { return };
        scan.ranges = back.numbers("ranges").to_vec();
        scan.counts = back.numbers("counts").to_vec();
        let first = scan.common.table.ids(scan.blocks.start).start;
        let entries = back.numbers::<u32>("entries").chunks(scan.capacity * selection::ENTRY);
        let of_query = |(entries, count): (&[u32], &u32)| {
            let entry = |numbers: &[u32]| Entry {
                id: first + u64::from(numbers[0]),
                lower: f32::from_bits(numbers[1]),
                upper: f32::from_bits(numbers[2]),
            };
            entries.chunks_exact(selection::ENTRY).take(*count as usize).map(entry).collect()
        };
        scan.entries = entries.zip(&scan.counts).map(of_query).collect();
    }
}
