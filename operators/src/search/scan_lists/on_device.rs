//! The scan of `scan_lists` on devices: some queries are a block, and the rows that come back become candidates.
//!
//! If each device keeps all lists, any takes any block. Lists that are larger are cut into chunks, which devices share; a chunk that none
//! keeps passes through. A block is then a chunk for a group of queries, and the least of all chunks are those of the group. Sums have the bits of those of slots, and equal sums go by place, so a block
//! finds the candidates that slots find; slots take the queries of a block that has failed.

mod groups;

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use boxwork_kernels::interrupt::Interrupted;
use boxwork_kernels::k_select::K_MAX;
use boxwork_kernels::panels::{PANEL, Shortlist};
use boxwork_kernels::pieces::collect;
use boxwork_kernels::product::device::{NOWHERE, Pairs, Shape, Terms};
use boxwork_kernels::vector::VectorMeasure;
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::feeding::{Picked, Residence};
use boxwork_runtime::operator::{BoxError, Context, Pushed};
use boxwork_stores::lists::Lists;
use boxwork_stores::subset::Subset;

use self::groups::{Group, Item, items, pairs_of};
use super::block::{ListBlock, Request};
use super::placed::{Chunk, Placed, Shared};
use super::slots::{Wanted, bring_in};
use super::{CANDIDATES, ENVELOPE_ROWS, candidates};
use crate::devices::stage;
use crate::devices::stage::{BlockOutcome, DeviceStage, DeviceTask, Taken};
use crate::pieces::side_by_side;

/// From so many objects on `auto` takes GPUs.
pub(crate) const DEVICE_OBJECTS_MIN: u64 = 1 << 16;
/// Fewer sums are left to slots, unless the user asks for the devices.
const SUMS_MIN: usize = 1 << 20;
/// Queries and sums of a block at most.
const BLOCK_QUERIES: usize = 1024;
const BLOCK_SUMS: usize = 1 << 26;
/// Bytes of the tables of a block's queries at most.
const TABLES_BYTES: usize = 64 << 20;
/// Queries that slots take at a time.
const OF_SLOTS: usize = 256;
/// Blocks are whole items, and so is what slots take.
const SIZES: stage::Sizes =
    stage::Sizes { block: [1, 1], block_min: [1, 1], slots: [1, 1], blocks_per_device: BLOCKS_PER_DEVICE };
/// Blocks that a device has at a time, those that wait for an end point included.
const BLOCKS_PER_DEVICE: usize = 3;
/// The part of a device's memory that lists may take, and the tables of all lists.
const LISTS_SHARE: u64 = 2;
const TERMS_SHARE: u64 = 4;
/// The part of a device's memory that a chunk takes, if lists are cut, and the part for sums and tables of blocks: most of
/// the rest is for chunks that stay.
const CHUNK_SHARE: u64 = 32;
const BLOCKS_SHARE: u64 = 16;
/// Queries whose candidates a slot looks up at a time.
const CANDIDATES_AT_ONCE: usize = 64;
/// Queries whose least of a chunk a slot takes over at a time.
const MERGED_AT_ONCE: usize = 64;
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
    /// Panels of a chunk, if devices cannot keep all codes.
    pub(super) chunk: Option<usize>,
}

impl Sized {
    /// For devices that may use so many bytes, and so many of them for a buffer; nothing if they have no room.
    fn new(lists: &Lists, budget: u64, buffer: u64) -> Option<Self> {
        let codebook = lists.quantizers().codebook()?;
        let shape = Shape::new(codebook, Terms::None);
        let tables = (shape.tables_len() * size_of::<f32>()) as u64;
        let of_panel = ((PANEL * shape.words() + 1) * size_of::<u32>()) as u64;
        let of_codes = lists.panels() as u64 * of_panel;
        let is_whole = of_codes <= buffer.min(budget / LISTS_SHARE);
        let of_terms = tables * lists.count() as u64;
        let terms_share = if is_whole { TERMS_SHARE } else { CHUNK_SHARE };
        let terms = match lists.measure() {
            VectorMeasure::InnerProduct => Terms::None,
            _ if of_terms <= buffer.min(budget / terms_share) => Terms::Kept,
            _ => Terms::Computed,
        };
        let of_terms = if terms == Terms::Kept { of_terms } else { 0 };
        let room = if is_whole { budget - of_terms - of_codes } else { budget / BLOCKS_SHARE };
        // Blocks that a device has at a time, and one that is being read.
        let room = (room / (BLOCKS_PER_DEVICE as u64 + 1)).min(buffer);
        let sums = BLOCK_SUMS.min((room / 2 / size_of::<[f32; 2]>() as u64) as usize);
        let queries = BLOCK_QUERIES.min(TABLES_BYTES.min((room / 4) as usize) / tables as usize);
        let chunk = (!is_whole).then(|| (buffer.min(budget / CHUNK_SHARE) / of_panel).max(1) as usize);
        (sums > 0 && queries > 0).then_some(Self { terms, queries, sums, chunk })
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
    let Some(placed) = Placed::new(cx, shared, &vectors, &probes, subset)? else {
        return Ok(Begun::Cancelled);
    };
    let is_small = (placed.norm_max + shared.norm_max).powi(2) < SQUARE_MAX;
    let fits = (0..numbers.len()).all(|query| placed.sums(query) <= sized.sums);
    if numbers.is_empty() || !fits || !is_small {
        return Ok(Begun::OnSlots(vectors, probes));
    }
    let all: usize = (0..numbers.len()).map(|query| placed.sums(query)).sum();
    if !sizes.is_asked && all < SUMS_MIN {
        return Ok(Begun::OnSlots(vectors, probes));
    }
    // Devices get whole chunks, whatever lists queries look into.
    let every: Vec<u32> = (0..lists.count() as u32).collect();
    if !bring_in(cx, lists, &every)? {
        return Ok(Begun::Cancelled);
    }
    let chunks = match sized.chunk {
        None => Arc::clone(&shared.whole),
        Some(panels) => Chunk::cut(&shared.segments, panels),
    };
    let mut groups = Group::cut(&placed, numbers.len(), sized);
    let request =
        Request::new(shared, (numbers, vectors, probes), (placed, chunks), sizes.kept, sized.terms, subset);
    let of_panel = ((PANEL * request.words() + 1) * size_of::<u32>()) as u64;
    let bytes = request.chunks.iter().map(|chunk| chunk.panels.len() as u64 * of_panel);
    let residence = sized.chunk.map(|_| Residence::new(&devices, Arc::clone(&allowed), bytes));
    let items = items(&request, &mut groups);
    let Some(pairs) = pairs_of(cx, &request, &groups) else { return Ok(Begun::Cancelled) };
    let task = ListScan {
        pairs,
        shared: Arc::clone(shared),
        request: Arc::new(request),
        residence,
        slots: sizes.slots,
        groups,
        items,
        next: 0,
        done: 0,
    };
    Ok(Begun::Stage(Box::new(DeviceStage::new(task, SIZES, Some((devices, allowed))))))
}

/// The scan for all queries of a request, as a task for devices.
pub(super) struct ListScan {
    shared: Arc<Shared>,
    request: Arc<Request>,
    /// The homes of the chunks, unless each device has all codes.
    residence: Option<Residence>,
    slots: usize,
    groups: Vec<Group>,
    /// The pairs of groups that no block has taken yet, if there is one chunk.
    pairs: Vec<Option<Pairs>>,
    items: VecDeque<Item>,
    /// The next group whose candidates leave: they come by query.
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
    fn is_as_reference(&self, cx: &mut Context<'_>, block: &ListBlock) -> bool {
        let (request, lists, segments) = (&*self.request, &*self.shared.lists, &self.shared.segments);
        let places = 0..(lists.panels() * PANEL) as u32;
        if !block.found.iter().all(|place| places.contains(place) || *place == NOWHERE) {
            return false;
        }
        let apart = block.queries.len().div_ceil(CHECKED);
        let is_right = |(at, query): (usize, usize)| {
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
        };
        let mut checked: Vec<((usize, usize), bool)> =
            block.queries.clone().enumerate().step_by(apart).map(|at| (at, false)).collect();
        cx.inside(|inside| {
            inside.for_each_chunk_of(&mut checked, 1, |_, checked| {
                checked.iter_mut().for_each(|(at, right)| *right = is_right(*at));
            });
        });
        checked.iter().all(|(_, right)| *right)
    }
}

impl ListScan {
    /// Takes over the least of a chunk.
    fn merge(&mut self, cx: &mut Context<'_>, block: &ListBlock) {
        let (k, group) = (self.request.k, &mut self.groups[block.group]);
        if group.least.is_empty() {
            group.least = vec![Shortlist::new(k, 0.0); group.queries.len()];
        }
        cx.inside(|inside| {
            inside.for_each_chunk_of(&mut group.least, MERGED_AT_ONCE, |first, least| {
                for (query, least) in (first..).zip(least) {
                    let of_query = query * k..(query + 1) * k;
                    for (score, place) in block.least[of_query.clone()].iter().zip(&block.found[of_query]) {
                        if *place != NOWHERE {
                            least.offer(*score, *place);
                        }
                    }
                }
            });
        });
    }

    /// Envelopes of the candidates at some places; `places` gives those of a query of a group.
    fn candidates(
        &self,
        cx: &mut Context<'_>,
        queries: Range<usize>,
        places: &(dyn Fn(usize) -> Vec<u32> + Sync),
    ) -> Result<Vec<Envelope>, BoxError> {
        let (wanted, numbers, k) = (self.wanted(), &self.request.numbers, self.request.k);
        // Few queries a piece, so that all slots have some; an envelope has the rows of several.
        let firsts: Vec<usize> = queries.clone().step_by(CANDIDATES_AT_ONCE).collect();
        let mut pieces = |count: usize, f: &(dyn Fn(usize) + Sync)| side_by_side(cx, count, f);
        let rows = collect(&mut pieces, firsts.len(), |piece| {
            let of_piece = firsts[piece]..queries.end.min(firsts[piece] + CANDIDATES_AT_ONCE);
            let mut rows = Vec::with_capacity(of_piece.len() * k);
            for (query, number) in of_piece.clone().zip(&numbers[of_piece]) {
                let ids = wanted.ids(places(query - queries.start).into_iter());
                rows.extend(ids.into_iter().map(|id| (*number, id)));
            }
            rows
        });
        let rows = rows.ok_or(Interrupted)?.concat();
        let count = rows.len().div_ceil(ENVELOPE_ROWS);
        let made = collect(&mut pieces, count, |place| {
            candidates(&rows[place * ENVELOPE_ROWS..rows.len().min((place + 1) * ENVELOPE_ROWS)])
        });
        made.ok_or(Interrupted)?.into_iter().collect()
    }

    /// Ends a group whose last chunk is done.
    fn end(&mut self, cx: &mut Context<'_>, group: usize) -> Result<Vec<Envelope>, BoxError> {
        if let Some((rows, _)) = self.groups[group].on_slots.take() {
            let made = rows.chunks(ENVELOPE_ROWS).map(candidates).collect::<Result<_, BoxError>>()?;
            return Ok(self.leaving(group, made));
        }
        let least = std::mem::take(&mut self.groups[group].least);
        let places = |query: usize| {
            let least = least[query].clone().by_score();
            least.into_iter().map(|(_, place)| place).collect::<Vec<u32>>()
        };
        self.end_with(cx, group, &places)
    }

    /// Ends a group that devices have scanned; `places` gives those of each of its queries.
    fn end_with(
        &mut self,
        cx: &mut Context<'_>,
        group: usize,
        places: &(dyn Fn(usize) -> Vec<u32> + Sync),
    ) -> Result<Vec<Envelope>, BoxError> {
        let queries = self.groups[group].queries.clone();
        let made = self.candidates(cx, queries.clone(), places)?;
        self.shared.lists.confirm()?;
        self.are_done(cx, queries, true);
        Ok(self.leaving(group, made))
    }

    /// The candidates that may leave, now that a group has all of its own.
    fn leaving(&mut self, group: usize, made: Vec<Envelope>) -> Vec<Envelope> {
        self.groups[group].made = Some(made);
        let mut leaving = Vec::new();
        while let Some(made) = self.groups.get_mut(self.next).and_then(|group| group.made.take()) {
            leaving.extend(made);
            self.next += 1;
        }
        leaving
    }
}

impl DeviceTask for ListScan {
    type Item = Item;
    type Block = ListBlock;
    type Made = Envelope;

    const IS_ORDERED: bool = true;

    fn take(&mut self, _: &mut Context<'_>, _: bool) -> Result<Option<Taken<Item>>, BoxError> {
        Ok(self.items.pop_front().map(|item| match self.groups[item.group].on_slots {
            Some(_) => Taken::ForSlots(item),
            None => Taken::Whole(item),
        }))
    }

    fn is_ended(&self, _: &Context<'_>) -> bool {
        self.items.is_empty()
    }

    fn has_items(&self) -> bool {
        !self.items.is_empty()
    }

    fn block(&mut self, _: &mut Context<'_>, items: Vec<Item>) -> Result<ListBlock, BoxError> {
        let [Item { chunk, group }] = items[..] else { unreachable!("a block is a chunk for a group") };
        let home = self.residence.as_ref().map(|residence| residence.home(chunk));
        let is_kept = self.residence.as_ref().is_none_or(|residence| residence.is_kept(chunk));
        let queries = self.groups[group].queries.clone();
        let pairs = self.pairs[group].take();
        Ok(ListBlock::new(&self.shared, &self.request, (chunk, group), (queries, pairs), (home, is_kept)))
    }

    fn home(&self, block: &ListBlock) -> Option<usize> {
        block.home
    }

    fn finish(&mut self, cx: &mut Context<'_>, block: ListBlock) -> Result<BlockOutcome<Self>, BoxError> {
        let ListBlock { chunk, group, .. } = block;
        if !self.is_as_reference(cx, &block) {
            let problem = "its sums differ from the processor's: lists are scanned without devices";
            cx.report(block.device.clone(), problem);
            return Ok(BlockOutcome::Untrusted(vec![Item { chunk, group }]));
        }
        if self.request.chunks.len() == 1 {
            let k = self.request.k;
            let places = |query: usize| {
                let places = block.found[query * k..(query + 1) * k].iter().copied();
                places.filter(|place| *place != NOWHERE).collect::<Vec<u32>>()
            };
            return Ok(BlockOutcome::Made(self.end_with(cx, group, &places)?));
        }
        if self.groups[group].on_slots.is_none() {
            self.merge(cx, &block);
        }
        let made = if self.groups[group].last == chunk { self.end(cx, group)? } else { Vec::new() };
        Ok(BlockOutcome::Made(made))
    }

    fn failed(&mut self, mut block: ListBlock, is_served: bool) -> BlockOutcome<Self> {
        // The device that keeps the chunk failed; any other may compute the block.
        block.home = None;
        if is_served && !std::mem::replace(&mut block.is_again, true) {
            return BlockOutcome::Retry(block);
        }
        BlockOutcome::Fallback(vec![Item { chunk: block.chunk, group: block.group }])
    }

    /// Slots scan all chunks for a group at once.
    fn compute(
        &mut self,
        cx: &mut Context<'_>,
        left: &mut VecDeque<Item>,
    ) -> Result<Vec<Envelope>, BoxError> {
        let Some(Item { chunk, group }) = left.front().copied() else { return Ok(Vec::new()) };
        let of_group = self.groups[group].queries.clone();
        let (mut rows, next) =
            self.groups[group].on_slots.take().unwrap_or_else(|| (Vec::new(), of_group.start));
        let queries = next..of_group.end.min(next + OF_SLOTS);
        if !queries.is_empty() {
            let request = Arc::clone(&self.request);
            let probes: Vec<(u32, u32)> = request.probes_of(queries.clone()).collect();
            let vectors: Vec<f32> =
                queries.clone().flat_map(|query| request.vector(query)).copied().collect();
            let numbers = &request.numbers[queries.clone()];
            let Some(found) = self.wanted().find(cx, &probes, numbers, vectors)? else {
                return Ok(Vec::new());
            };
            rows.extend(found);
            self.are_done(cx, queries.clone(), false);
        }
        self.groups[group].on_slots = Some((rows, queries.end));
        if queries.end < of_group.end {
            return Ok(Vec::new());
        }
        left.pop_front();
        if self.groups[group].last == chunk { self.end(cx, group) } else { Ok(Vec::new()) }
    }

    fn has_room(&self, cx: &Context<'_>) -> bool {
        cx.has_room(CANDIDATES)
    }

    fn push(&mut self, cx: &mut Context<'_>, made: Envelope) -> Result<Pushed, BoxError> {
        cx.push(CANDIDATES, made)
    }
}
