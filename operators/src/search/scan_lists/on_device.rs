//! The scan of `scan_lists` on devices: some queries are a block, and the rows that come back become candidates.
//!
//! Each device has all lists, so any takes any block. Sums have the bits of those of slots, and equal sums go by place, so a block
//! finds the candidates that slots find; slots take the queries of a block that has failed.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use boxwork_kernels::k_select::K_MAX;
use boxwork_kernels::panels::{PANEL, Shortlist};
use boxwork_kernels::product::device::{NOWHERE, Shape, Terms};
use boxwork_kernels::vector::{VectorMeasure, inner_product};
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::feeding::Picked;
use boxwork_runtime::operator::{BoxError, Context, Pushed};
use boxwork_stores::lists::Lists;
use boxwork_stores::subset::Subset;

use super::block::{ListBlock, Request};
use super::placed::{Placed, Shared};
use super::slots::Wanted;
use super::{CANDIDATES, ENVELOPE_ROWS, candidates};
use crate::devices::stage;
use crate::devices::stage::{BlockOutcome, DeviceStage, DeviceTask, Taken};

/// From so many objects on `auto` takes GPUs.
pub(crate) const DEVICE_OBJECTS_MIN: u64 = 1 << 16;
/// Fewer sums are left to slots, unless the user asks for the devices.
const SUMS_MIN: u64 = 1 << 20;
/// Queries and sums of a block at most.
const BLOCK_QUERIES: usize = 1024;
const BLOCK_SUMS: usize = 1 << 26;
/// Bytes of the tables of a block's queries at most.
const TABLES_BYTES: usize = 64 << 20;
/// Queries and sums that slots take at a time.
const OF_SLOTS: stage::Weight = [256, 1 << 24];
/// Blocks that a device has at a time, those that wait for an end point included.
const BLOCKS_PER_DEVICE: usize = 3;
/// The part of a device's memory that lists may take, and the tables of all lists.
const LISTS_SHARE: u64 = 2;
const TERMS_SHARE: u64 = 4;
/// Queries of a block whose first candidate is computed again.
const CHECKED: usize = 4;
/// From this square of sizes on, sums might leave f32.
const SQUARE_MAX: f64 = 1e36;

/// The sizes of a scan.
#[derive(Clone, Copy)]
pub(super) struct Sizes {
    /// Candidates of a query.
    pub(super) kept: usize,
    pub(super) slots: usize,
    /// Whether the user asks for the devices.
    pub(super) is_asked: bool,
}

/// How a scan is cut.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sized {
    pub(super) terms: Terms,
    /// Queries and sums of a block at most.
    pub(super) queries: usize,
    pub(super) sums: usize,
}

impl Sized {
    /// For devices that may use so many bytes, and so many of them for a buffer; nothing if they have no room.
    fn new(lists: &Lists, budget: u64, buffer: u64) -> Option<Self> {
        let codebook = lists.quantizers().codebook()?;
        let shape = Shape::new(codebook, Terms::None);
        let tables = (shape.tables_len() * size_of::<f32>()) as u64;
        let of_terms = tables * lists.count() as u64;
        let terms = match lists.measure() {
            VectorMeasure::InnerProduct => Terms::None,
            _ if of_terms <= buffer.min(budget / TERMS_SHARE) => Terms::Kept,
            _ => Terms::Computed,
        };
        let of_terms = if terms == Terms::Kept { of_terms } else { 0 };
        let of_codes = (lists.panels() * (PANEL * shape.words() + 1) * size_of::<u32>()) as u64;
        if of_codes > buffer.min(budget / LISTS_SHARE) {
            return None;
        }
        // Blocks that a device has at a time, and one that is being read.
        let room = ((budget - of_terms - of_codes) / (BLOCKS_PER_DEVICE as u64 + 1)).min(buffer);
        let sums = BLOCK_SUMS.min((room / 2 / size_of::<[f32; 2]>() as u64) as usize);
        let queries = BLOCK_QUERIES.min(TABLES_BYTES.min((room / 4) as usize) / tables as usize);
        (sums > 0 && queries > 0).then_some(Self { terms, queries, sums })
    }
}

/// Queries of a request: their numbers, their vectors, and the lists that they look into with their places.
type Queries<'a> = (&'a [u32], Vec<f32>, Vec<(u32, u32)>);

/// What has begun.
pub(super) enum Begun {
    Stage(Box<DeviceStage<ListScan>>),
    /// Slots scan these.
    OnSlots(Vec<f32>, Vec<(u32, u32)>),
    Cancelled,
}

/// Begins a scan on the devices that are picked, if there are any and they can do it.
pub(super) fn stage(
    cx: &mut Context<'_>,
    shared: &Arc<Shared>,
    (numbers, vectors, probes): Queries<'_>,
    (sizes, sized): (Sizes, Option<Sized>),
    subset: Option<&Arc<Subset>>,
    picked: &Picked,
) -> Result<Begun, BoxError> {
    let Some((devices, allowed)) = picked.devices.clone() else { return Ok(Begun::OnSlots(vectors, probes)) };
    let lists = &shared.lists;
    let coding = lists.quantizers().coding();
    let mut leave = |why: &str| {
        if sizes.is_asked {
            cx.note(format!("lists of {} are scanned on slots: {why}", coding.name()));
        }
    };
    if shared.segments.is_empty() {
        leave("devices scan product codes alone");
        return Ok(Begun::OnSlots(vectors, probes));
    }
    let usual = || {
        let each = || allowed.iter().map(|device| &devices.list()[*device]);
        let budget = each().map(|device| device.memory_budget_bytes()).min()?;
        let buffer = each().map(|device| device.info().buffer_bytes_max).min()?;
        Sized::new(lists, budget, buffer)
    };
    let Some(sized) = sized.or_else(usual) else {
        leave("they do not fit into the memory of a device");
        return Ok(Begun::OnSlots(vectors, probes));
    };
    if sizes.kept > K_MAX {
        leave(&format!("devices find {K_MAX} candidates of a query at most"));
        return Ok(Begun::OnSlots(vectors, probes));
    }
    let Some(placed) = Placed::new(cx, shared, &vectors, &probes, subset) else {
        return Ok(Begun::Cancelled);
    };
    let dimensions = lists.quantizers().dimensions();
    let is_small =
        |query: &[f32]| (inner_product(query, query).sqrt() + shared.norm_max).powi(2) < SQUARE_MAX;
    let fits = (0..numbers.len()).all(|query| placed.sums(query) <= sized.sums);
    if numbers.is_empty() || !fits || !vectors.chunks_exact(dimensions).all(is_small) {
        return Ok(Begun::OnSlots(vectors, probes));
    }
    let request = Request::new(shared, (numbers, vectors, probes), placed, sizes.kept, sized.terms, subset);
    let least = if sizes.is_asked { [1, 0] } else { [u64::MAX, SUMS_MIN] };
    let stage_sizes = stage::Sizes {
        block: [sized.queries as u64, sized.sums as u64],
        block_min: least,
        slots: OF_SLOTS,
        blocks_per_device: BLOCKS_PER_DEVICE,
    };
    let task = ListScan {
        shared: Arc::clone(shared),
        request: Arc::new(request),
        slots: sizes.slots,
        next: 0,
        done: 0,
    };
    Ok(Begun::Stage(Box::new(DeviceStage::new(task, stage_sizes, Some((devices, allowed))))))
}

/// The scan for all queries of a request, as a task for devices.
pub(super) struct ListScan {
    shared: Arc<Shared>,
    request: Arc<Request>,
    slots: usize,
    /// The next query to take.
    next: usize,
    /// Queries whose candidates are found.
    done: usize,
}

impl ListScan {
    fn wanted(&self) -> Wanted<'_> {
        let (request, lists) = (&*self.request, &*self.shared.lists);
        let subset = request.subset.as_deref();
        Wanted { lists, kept: request.k, range: f64::INFINITY, subset, slots: self.slots }
    }

    fn are_done(&mut self, cx: &mut Context<'_>, queries: Range<usize>, on_devices: bool) {
        let rows: usize = queries.clone().map(|query| self.request.placed.sums(query)).sum();
        cx.count("rows of lists scanned", rows as u64);
        cx.count("on devices", if on_devices { rows as u64 } else { 0 });
        self.done += queries.len();
        cx.progress(self.done as u64, self.request.numbers.len() as u64);
    }

    /// Whether the first candidate of some queries has the sum that slots compute, and all places are those of rows.
    fn is_as_reference(&self, block: &ListBlock) -> bool {
        let (request, lists, segments) = (&*self.request, &*self.shared.lists, &self.shared.segments);
        let places = 0..(lists.panels() * PANEL) as u32;
        if !block.found.iter().all(|place| places.contains(place) || *place == NOWHERE) {
            return false;
        }
        let apart = block.queries.len().div_ceil(CHECKED);
        block.queries.clone().enumerate().step_by(apart).all(|(at, query)| {
            let (place, score) = (block.found[at * request.k], block.least[at * request.k]);
            if place == NOWHERE {
                return true;
            }
            let panel = place / PANEL as u32;
            let number = segments.partition_point(|segment| segment.groups.end <= panel);
            let (list, mut kept) = (segments[number].list, [Shortlist::new(1, 0.0)]);
            let queries = lists.queries(request.vector(query).to_vec());
            lists.scan(list, &queries, &[0], Some(&lists.mask_of_one(list, place)), &mut kept);
            kept[0].kept().iter().map(|kept| (kept.0.to_bits(), kept.1)).eq([(score.to_bits(), place)])
        })
    }
}

impl DeviceTask for ListScan {
    type Item = usize;
    type Block = ListBlock;
    type Made = Envelope;

    const IS_ORDERED: bool = true;

    fn take(&mut self, _: &mut Context<'_>, _: bool) -> Result<Option<Taken<usize>>, BoxError> {
        if self.next == self.request.numbers.len() {
            return Ok(None);
        }
        let query = self.next;
        self.next += 1;
        Ok(Some(Taken::Piece(query, [1, self.request.placed.sums(query) as u64])))
    }

    fn is_ended(&self, _: &Context<'_>) -> bool {
        self.next == self.request.numbers.len()
    }

    fn has_items(&self) -> bool {
        self.next < self.request.numbers.len()
    }

    fn block(&mut self, _: &mut Context<'_>, items: Vec<usize>) -> Result<ListBlock, BoxError> {
        let (first, end) = (items[0], items[items.len() - 1] + 1);
        debug_assert_eq!(items.len(), end - first, "queries come one after the other");
        Ok(ListBlock::new(&self.shared, &self.request, first..end))
    }

    fn finish(&mut self, cx: &mut Context<'_>, block: ListBlock) -> Result<BlockOutcome<Self>, BoxError> {
        if !self.is_as_reference(&block) {
            let problem = "its sums differ from the processor's: lists are scanned without devices";
            cx.report(block.device.clone(), problem);
            return Ok(BlockOutcome::Untrusted(block.queries.collect()));
        }
        let (wanted, numbers, k) = (self.wanted(), &self.request.numbers, self.request.k);
        // About an envelope for each piece.
        let at_once = (ENVELOPE_ROWS / k).max(1);
        let firsts = block.queries.clone().step_by(at_once);
        let mut parts: Vec<(usize, Result<Vec<Envelope>, BoxError>)> =
            firsts.map(|first| (first, Ok(Vec::new()))).collect();
        cx.inside(|inside| {
            inside.for_each_chunk_of(&mut parts, 1, |_, parts| {
                for (first, made) in parts {
                    let mut rows = Vec::with_capacity(at_once * k);
                    let queries = *first..block.queries.end.min(*first + at_once);
                    let found = block.found[(*first - block.queries.start) * k..].chunks_exact(k);
                    for (number, found) in numbers[queries].iter().zip(found) {
                        let ids = wanted.ids(found.iter().copied().filter(|place| *place != NOWHERE));
                        rows.extend(ids.into_iter().map(|id| (*number, id)));
                    }
                    *made = rows.chunks(ENVELOPE_ROWS).map(candidates).collect();
                }
            });
        });
        let mut made = Vec::new();
        for (_, of_part) in parts {
            made.extend(of_part?);
        }
        self.are_done(cx, block.queries, true);
        Ok(BlockOutcome::Made(made))
    }

    fn failed(&mut self, mut block: ListBlock, is_served: bool) -> BlockOutcome<Self> {
        if is_served && !std::mem::replace(&mut block.is_again, true) {
            return BlockOutcome::Retry(block);
        }
        BlockOutcome::Fallback(block.queries.collect())
    }

    fn compute(
        &mut self,
        cx: &mut Context<'_>,
        left: &mut VecDeque<usize>,
    ) -> Result<Vec<Envelope>, BoxError> {
        let Some(first) = left.front().copied() else { return Ok(Vec::new()) };
        let follow = left.iter().zip(first..).take_while(|(query, next)| *query == next).count();
        let queries = first..first + follow.min(OF_SLOTS[0] as usize);
        left.drain(..queries.len());
        let request = Arc::clone(&self.request);
        let probes: Vec<(u32, u32)> = request.probes_of(queries.clone()).collect();
        let vectors: Vec<f32> = queries.clone().flat_map(|query| request.vector(query)).copied().collect();
        let Some(found) = self.wanted().find(cx, &probes, &request.numbers[queries.clone()], vectors)? else {
            return Ok(Vec::new());
        };
        self.are_done(cx, queries, false);
        found.chunks(ENVELOPE_ROWS).map(candidates).collect()
    }

    fn has_room(&self, cx: &Context<'_>) -> bool {
        cx.has_room(CANDIDATES)
    }

    fn push(&mut self, cx: &mut Context<'_>, made: Envelope) -> Result<Pushed, BoxError> {
        cx.push(CANDIDATES, made)
    }
}
