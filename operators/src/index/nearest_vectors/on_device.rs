//! The scan of `nearest_vectors` on devices: a chunk of rows is a block for each group of queries, and blocks that come back become
//! the nearest.
//!
//! Each of several devices keeps a share of the chunks. Where the shares would be uneven and each has room for all, each has a
//! replica of all chunks, and takes some groups of queries.
//!
//! Invariant: whatever devices do, a row that may be among the k nearest of a query is in the query's list: a list that has
//! overflowed, and a block that has failed, are scanned by slots.

mod chunks;
mod known;
mod scan;

use std::collections::VecDeque;
use std::convert::Infallible;
use std::ops::Range;
use std::sync::Arc;

use boxwork_kernels::CodePath;
use boxwork_kernels::interrupt::{Interrupted, ask};
use boxwork_kernels::vector::device::{
    DeviceQueries, GROUP, GROUPS_WANTED, HalfError, K_MAX, Plan, Products,
};
use boxwork_kernels::vector::{FlatQueries, Nearest};
use boxwork_runtime::feeding::{Device, Devices, Picked, Residence};
use boxwork_runtime::operator::{BoxError, Context, Pushed};
use boxwork_stores::kinds::Kind as _;
use boxwork_stores::subset::Subset;

pub(super) use self::chunks::Chunks;
use self::known::{Known, OfQuery};
pub(in crate::index) use self::scan::Scan;
use super::block::{Request, VectorBlock};
use super::candidates::Candidates;
use super::numbers::Numbers;
use super::sums::{ExactRows, Sums};
use super::{Found, PIECE_ROWS, Packed, Shared, part, scan};
use crate::devices::stage::{BlockOutcome, DeviceStage, DeviceTask, Sizes, Taken};
use crate::pieces::side_by_side;

/// From this many rows on `auto` takes GPUs.
pub(in crate::index) const DEVICE_ROWS_MIN: u64 = 1 << 16;
/// Chunks are whole blocks; slots take an item a firing.
const SIZES: Sizes = Sizes { block: [1, 1], block_min: [1, 1], slots: [1, 1], blocks_per_device: 2 };
/// Queries of a block at most: while a device scans for some, slots rank others.
const GROUP_QUERIES: usize = 2048;
/// Queries of a block at least, if several devices divide them: other requests keep the other devices busy, and fewer take as many
/// launches.
const SHARE_QUERIES: usize = 1024;
/// Queries of a block whose first entry is computed again.
const CHECKED: usize = 16;

/// The first generation of NVIDIA devices whose matrix units take halves in this form.
const UNITS_FROM: (u32, u32) = (8, 0);

/// Whether a device has matrix units for halves.
pub(in crate::index) fn has_units(device: &Device) -> bool {
    device.info().compute_capability.is_some_and(|capability| capability >= UNITS_FROM)
}

/// Entries that a slot takes over at a time: fewer take less time than a slot does to wake.
const ENTRIES_AT_ONCE: usize = 4096;

/// A part of the scan.
pub(super) enum Item {
    /// A whole chunk, for the queries of a group.
    Chunk(usize, usize),
    /// Some rows, for the queries of a group or for those at some places; slots scan them.
    Rows(Range<u64>, usize, Option<Arc<[usize]>>),
}

/// Queries that share blocks.
struct Group {
    queries: Range<usize>,
    /// Set by the first firing, which knows the rows' errors.
    request: Option<Arc<Request>>,
    /// Rows that were searched for them.
    seen: u64,
    /// Items to come, or under way.
    left: usize,
}

/// The scan of all rows, as a task for devices.
pub(super) struct VectorScan {
    shared: Arc<Shared>,
    k: usize,
    range: f64,
    sized: Sized,
    /// The rows to search among, if not all.
    subset: Option<Arc<Subset>>,
    /// Whether all devices have matrix units, or tests want them emulated.
    has_units: bool,
    numbers: Numbers,
    groups: Vec<Group>,
    residence: Residence,
    /// Whether devices compute in f64, and whether there is room for halves and the rows themselves.
    has_doubles: bool,
    fits_both: bool,
    /// Whether each device has all chunks, and takes the blocks of some groups.
    has_replicas: bool,
    slots: u64,
    found: Vec<Nearest>,
    known: Known,
    items: VecDeque<Item>,
    /// Groups that have searched all rows.
    done: VecDeque<usize>,
    /// Pairs of rows and queries that are done.
    seen: u64,
}

/// The sizes of the search, and whether its products are those of matrix units, even where a device emulates these.
#[derive(Clone, Copy, Debug)]
pub(in crate::index) struct Sized {
    pub(in crate::index) plan: Plan,
    pub(in crate::index) emulates: bool,
    /// Queries of a group at most.
    pub(in crate::index) queries: usize,
    /// Work groups of a launch, about.
    pub(in crate::index) work_groups: usize,
}

impl Sized {
    /// The usual sizes.
    pub(in crate::index) fn new(plan: Plan) -> Self {
        Self { plan, emulates: false, queries: GROUP_QUERIES, work_groups: GROUPS_WANTED }
    }
}

/// Whether devices are picked, and can do it: lists hold so many objects.
pub(super) fn can_scan(k: usize, picked: &Picked) -> bool {
    picked.devices.is_some() && k <= K_MAX
}

/// The scan on the devices that are picked, if they can do it.
pub(super) fn stage(
    shared: &Arc<Shared>,
    numbers: Numbers,
    (k, range, slots, sized): (usize, f64, u64, Sized),
    subset: Option<&Arc<Subset>>,
    picked: &Picked,
) -> Option<DeviceStage<VectorScan>> {
    let (devices, allowed) = picked.devices.clone().filter(|_| can_scan(k, picked) && !numbers.is_empty())?;
    let task = VectorScan::new(shared, numbers, (k, range, slots, sized), subset, (&devices, &allowed));
    Some(DeviceStage::new(task, SIZES, Some((devices, allowed))))
}

impl VectorScan {
    fn new(
        shared: &Arc<Shared>,
        numbers: Numbers,
        (k, range, slots, sized): (usize, f64, u64, Sized),
        subset: Option<&Arc<Subset>>,
        (devices, allowed): (&Devices, &Arc<[usize]>),
    ) -> Self {
        let (residence, chunks) =
            (shared.chunks.residence(&shared.vectors, devices, allowed), shared.chunks.count());
        // Chunks are spread over devices; where shares would be uneven, queries are.
        let has_replicas = residence.is_whole() && !chunks.is_multiple_of(allowed.len());
        let of_group = match has_replicas {
            true => {
                let share = numbers.len().div_ceil(allowed.len()).max(SHARE_QUERIES);
                sized.queries.min(share.next_multiple_of(GROUP))
            }
            false => sized.queries,
        };
        let both = shared.chunks.residence_of_both(&shared.vectors, devices, allowed);
        let groups = (0..numbers.len()).step_by(of_group).map(|first| {
            let queries = first..numbers.len().min(first + of_group);
            Group { queries, request: None, seen: 0, left: 0 }
        });
        Self {
            k,
            range,
            sized,
            subset: subset.cloned(),
            has_units: sized.emulates || allowed.iter().all(|device| has_units(&devices.list()[*device])),
            groups: groups.collect(),
            residence,
            has_doubles: allowed.iter().all(|device| devices.list()[*device].info().has_doubles),
            fits_both: if has_replicas {
                both.is_whole()
            } else {
                (0..chunks).all(|chunk| both.is_kept(chunk))
            },
            has_replicas,
            shared: Arc::clone(shared),
            known: Known::new(shared.measure, &numbers),
            numbers,
            slots,
            found: Vec::new(),
            items: VecDeque::new(),
            done: VecDeque::new(),
            seen: 0,
        }
    }

    /// The number of rows to search among some.
    fn count_in(&self, rows: Range<u64>) -> u64 {
        self.subset.as_ref().map_or(rows.end - rows.start, |subset| subset.count_in(rows))
    }

    /// Whether a row is searched.
    fn has(&self, row: u64) -> bool {
        match &self.subset {
            Some(subset) => subset.has(row),
            None => self.shared.vectors.has(row),
        }
    }

    /// Takes queries that have searched all rows: the place of the first, and the nearest of each.
    pub(super) fn take_done(&mut self) -> Option<(usize, Vec<Candidates>)> {
        let queries = self.groups[self.done.pop_front()?].queries.clone();
        let taken = |query: usize| {
            let found = std::mem::replace(&mut self.found[query], Nearest::new(0, 0.0));
            self.known.candidates(query, found)
        };
        Some((queries.start, queries.map(taken).collect()))
    }

    /// The queries of each group as devices take them, made side by side.
    fn packed(&self, cx: &mut Context<'_>) -> Result<Vec<DeviceQueries>, BoxError> {
        let (measure, dimensions) = (self.shared.measure, self.shared.vectors.kind().dimensions());
        let mut pieces = |count: usize, f: &(dyn Fn(usize) + Sync)| side_by_side(cx, count, f);
        let of_group = |group: &Group| {
            let queries = self.numbers.each(group.queries.clone());
            DeviceQueries::new(measure, dimensions, &queries, &mut pieces)
        };
        let packed: Option<Vec<_>> = self.groups.iter().map(of_group).collect();
        packed.ok_or_else(|| Interrupted.into())
    }

    /// Makes the items of all groups.
    fn make_items(&mut self) {
        let (shared, groups) = (&self.shared, self.groups.len());
        let all = 0..shared.vectors.len();
        // Values that may leave f32 exclude nothing: slots know what to do.
        if !self.found.iter().all(|found| found.error().is_finite()) {
            self.items.extend((0..groups).map(|group| Item::Rows(all.clone(), group, None)));
            self.groups.iter_mut().for_each(|group| group.left = 1);
            return;
        }
        let chunks = (0..shared.chunks.count()).filter(|chunk| {
            let rows = shared.chunks.rows(&shared.vectors, *chunk);
            self.subset.as_ref().is_none_or(|subset| subset.count_in(rows) > 0)
        });
        let chunks: Vec<usize> = chunks.collect();
        // The rows that one chunk leaves of a query limit it in the next.
        self.items
            .extend(chunks.iter().flat_map(|chunk| (0..groups).map(|group| Item::Chunk(*chunk, group))));
        self.groups.iter_mut().for_each(|group| group.left = chunks.len());
        if chunks.is_empty() {
            self.done.extend(0..groups);
        }
    }

    /// An item of a group is done.
    fn item_is_done(&mut self, group: usize) {
        self.groups[group].left -= 1;
        if self.groups[group].left == 0 {
            self.done.push_back(group);
        }
    }

    /// Whether the first entry of some queries has the value of its row.
    fn is_as_reference(&self, block: &VectorBlock) -> Result<bool, BoxError> {
        let (vectors, measure) = (&self.shared.vectors, self.shared.measure);
        let queries = self.groups[block.group].queries.clone();
        let apart = queries.len().div_ceil(CHECKED);
        vectors.read::<_, BoxError>(|objects| {
            for (place, query) in queries.enumerate().step_by(apart) {
                let Some((row, value)) = block.entries(place).and_then(|mut entries| entries.next()) else {
                    continue;
                };
                if row >= vectors.len() || !self.has(row) {
                    return Ok(false);
                }
                let (batch, at) = vectors.locate(row)?;
                let dimensions = vectors.kind().dimensions();
                let all = objects.batch(batch)?.all();
                let exact = measure.compared(self.numbers.of(query), part(all, dimensions, at..at + 1));
                let error = self.found[query].error();
                // A value that is no number says nothing.
                let apart = (f64::from(value) - exact).abs();
                if !value.is_nan() && (apart.is_nan() || apart > error) {
                    return Ok(false);
                }
                let row = measure.to(self.numbers.of(query), part(all, dimensions, at..at + 1));
                if self
                    .known
                    .first_of(block, place, query)
                    .is_some_and(|known| known.to_bits() != row.to_bits())
                {
                    return Ok(false);
                }
            }
            Ok(true)
        })
    }
}

impl DeviceTask for VectorScan {
    type Item = Item;
    type Block = VectorBlock;
    type Made = Infallible;

    const IS_ORDERED: bool = false;

    fn begin(&mut self, cx: &mut Context<'_>) -> Result<(), BoxError> {
        let packed = self.packed(cx)?;
        let chunks = &self.shared.chunks;
        chunks.fill(cx, &self.shared)?;
        let norm_max = (0..chunks.count()).map(|chunk| chunks.terms(chunk).norm_max).fold(0.0, f64::max);
        let halved = (0..chunks.count()).map(|chunk| chunks.terms(chunk).halved);
        let halved = halved.fold(HalfError::default(), HalfError::max);
        let each = || packed.iter().flat_map(|queries| (0..queries.len()).map(move |query| (queries, query)));
        let of_halves = each().map(|(queries, query)| queries.error_of_halves(query, norm_max, halved));
        let of_halves: Option<Vec<f64>> = if self.has_units { of_halves.collect() } else { None };
        self.found = each()
            .enumerate()
            .map(|(place, (queries, query))| {
                let mut found = Nearest::new(self.k, queries.value_of(query, self.range));
                let more = of_halves.as_ref().map_or(0.0, |errors| errors[place]);
                found.raise_error(queries.error(query, norm_max) + more);
                found
            })
            .collect();
        let products = match of_halves {
            Some(_) => Products::Halves,
            None => Products::Single(self.shared.vectors.kind().number_type()),
        };
        let is_halved = halved != HalfError::default();
        let rows = ExactRows::of(products, is_halved, self.fits_both).filter(|_| self.has_doubles);
        let of = (self.shared.measure, self.shared.vectors.kind().number_type());
        for (group, queries) in self.groups.iter_mut().zip(packed) {
            let of_group = || (&self.numbers, group.queries.clone());
            let sums = rows.map(|rows| Sums::new(rows, products, of, of_group()));
            let sizes = (self.sized.plan, self.k, self.sized.work_groups);
            let request = Request::new(queries, products, sizes, (self.subset.clone(), sums));
            group.request = Some(Arc::new(request));
        }
        self.make_items();
        Ok(())
    }

    fn take(&mut self, _: &mut Context<'_>, _: bool) -> Result<Option<Taken<Item>>, BoxError> {
        Ok(self.items.pop_front().map(|item| match item {
            Item::Chunk(..) => Taken::Whole(item),
            Item::Rows(..) => Taken::ForSlots(item),
        }))
    }

    fn is_ended(&self, _: &Context<'_>) -> bool {
        self.items.is_empty()
    }

    fn has_items(&self) -> bool {
        !self.items.is_empty()
    }

    fn block(&mut self, _: &mut Context<'_>, items: Vec<Item>) -> Result<VectorBlock, BoxError> {
        let Some(Item::Chunk(chunk, number)) = items.into_iter().next() else {
            unreachable!("a block is a chunk for a group")
        };
        let group = &self.groups[number];
        let found = &self.found[group.queries.clone()];
        let limits = found.iter().map(Nearest::limit_f32).collect();
        // Twice the error of a value, rounded up.
        let errors = found.iter().map(|found| (2.0 * found.error() * (1.0 + 1e-6)) as f32).collect();
        let home = (!self.has_replicas).then(|| self.residence.home(chunk));
        let request = group.request.as_ref().expect("the first firing makes it");
        let place = (chunk, number, group.seen);
        Ok(VectorBlock::new(
            &self.shared,
            request,
            place,
            (limits, errors),
            (home, self.residence.is_kept(chunk)),
        ))
    }

    fn home(&self, block: &VectorBlock) -> Option<usize> {
        block.home
    }

    fn finish(&mut self, cx: &mut Context<'_>, block: VectorBlock) -> Result<BlockOutcome<Self>, BoxError> {
        let group = block.group;
        if !self.is_as_reference(&block)? {
            let problem = "its values differ from the processor's: vectors are searched without devices";
            cx.report(block.device.clone(), problem);
            return Ok(BlockOutcome::Untrusted(vec![Item::Chunk(block.chunk, group)]));
        }
        let queries = self.groups[group].queries.clone();
        let (rule, known) = self.known.parts();
        let of_queries = self.found[queries.clone()].iter_mut().zip(&mut known[queries.clone()]);
        let mut of_queries: Vec<(&mut Nearest, &mut OfQuery)> = of_queries.collect();
        // Values limit the search in chunks to come.
        let is_last = self.groups[group].left == 1;
        let at_once = (ENTRIES_AT_ONCE / block.back()).max(1);
        cx.inside(|inside| {
            inside.for_each_chunk_of(&mut of_queries, at_once, |first, of_queries| {
                for (place, (found, known)) in (first..).zip(of_queries) {
                    let came = block.entries(place).map_or(0, |entries| entries.count());
                    let computed = block.listed(place).unwrap_or(0);
                    known.take_over(came, computed, rule.distances(&block, place, queries.start + place));
                    if !is_last || known.has_gaps() || block.listed(place).is_none() {
                        for (row, value) in block.entries(place).into_iter().flatten() {
                            found.push(f64::from(value), row as u32);
                        }
                        found.cut();
                    }
                }
            });
        });
        let is_over = |place: &usize| block.entries(*place).is_none();
        let overflowed: Vec<usize> =
            (0..queries.len()).filter(is_over).map(|place| queries.start + place).collect();
        let rows = self.shared.chunks.rows(&self.shared.vectors, block.chunk);
        let count = self.count_in(rows.clone());
        self.groups[group].seen += count;
        self.seen += count * queries.len() as u64;
        cx.progress(self.seen, self.count_in(0..self.shared.vectors.len()) * self.numbers.len() as u64);
        if !overflowed.is_empty() {
            return Ok(BlockOutcome::Fallback(vec![Item::Rows(rows, group, Some(overflowed.into()))]));
        }
        self.item_is_done(group);
        Ok(BlockOutcome::Made(Vec::new()))
    }

    fn failed(&mut self, mut block: VectorBlock, is_served: bool) -> BlockOutcome<Self> {
        // A device that keeps the chunk failed; any other may compute it.
        if is_served && !std::mem::replace(&mut block.is_again, true) {
            block.home = None;
            return BlockOutcome::Retry(block);
        }
        BlockOutcome::Fallback(vec![Item::Chunk(block.chunk, block.group)])
    }

    fn compute(
        &mut self,
        cx: &mut Context<'_>,
        left: &mut VecDeque<Item>,
    ) -> Result<Vec<Infallible>, BoxError> {
        let (rows, group, places) = match left.pop_front() {
            None => return Ok(Vec::new()),
            Some(Item::Chunk(chunk, group)) => {
                (self.shared.chunks.rows(&self.shared.vectors, chunk), group, None)
            }
            Some(Item::Rows(rows, group, places)) => (rows, group, places),
        };
        let upto = rows.end.min(rows.start + 2 * self.slots * PIECE_ROWS);
        let is_last = upto == rows.end;
        if !is_last {
            left.push_front(Item::Rows(upto..rows.end, group, places.clone()));
        }
        let places = places.unwrap_or_else(|| self.groups[group].queries.clone().collect());
        let numbers: Vec<&[f32]> = places.iter().map(|query| self.numbers.of(*query)).collect();
        let dimensions = self.shared.vectors.kind().dimensions();
        let packed =
            Packed::Flat(FlatQueries::new(CodePath::detect(), self.shared.measure, dimensions, &numbers));
        let found = Found::Values(places.iter().map(|query| self.found[*query].clone()).collect());
        let firsts = (rows.start..upto).step_by(PIECE_ROWS as usize);
        let mut parts: Vec<_> = firsts.map(|first| (first..upto.min(first + PIECE_ROWS), None)).collect();
        let (shared, k, subset) = (&*self.shared, self.k, self.subset.as_deref());
        cx.inside(|inside| {
            let cancelled = inside.cancelled();
            inside.for_each_chunk_of(&mut parts, 1, |_, parts| {
                for (rows, part) in parts.iter_mut().filter(|_| !cancelled()) {
                    *part = Some(scan(shared, &packed, rows.clone(), subset, &found, k));
                }
            });
        });
        ask(&|| cx.is_cancelled())?;
        for (_, part) in parts {
            let Found::Values(part) = part.expect("no part was left out")? else {
                unreachable!("all pieces are bounded in one way")
            };
            for (query, part) in places.iter().zip(part) {
                self.found[*query].join(part);
                self.known.has_gaps(*query);
            }
        }
        if is_last {
            self.item_is_done(group);
        }
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
