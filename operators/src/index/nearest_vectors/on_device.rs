//! The scan of `nearest_vectors` on devices: chunks of rows become blocks, and blocks that come back become the nearest.
//!
//! Invariant: whatever devices do, a row that may be among the k nearest of a query is in the query's list: a list that has
//! overflowed, and a block that has failed, are scanned by slots.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use boxwork_kernels::CodePath;
use boxwork_kernels::interrupt::ask;
use boxwork_kernels::vector::device::{self, ABSENT, DeviceQueries, HalfError, K_MAX, Plan, Products};
use boxwork_kernels::vector::{FlatQueries, Nearest, VectorMeasure};
use boxwork_runtime::feeding::{Device, Devices, Picked, Residence};
use boxwork_runtime::operator::{BoxError, Context, Flow, Operator as _, Pushed};
use boxwork_stores::kinds::{Kind as _, Vectors};
use boxwork_stores::object_store::ObjectStore;
use boxwork_stores::store_error::StoreError;
use boxwork_stores::subset::Subset;

use super::block::{Request, VectorBlock};
use super::{Found, PIECE_ROWS, Packed, Shared, part, scan};
use crate::devices::stage::{BlockOutcome, DeviceStage, DeviceTask, Sizes, Taken};

/// From this many rows on `auto` takes GPUs.
pub(in crate::index) const DEVICE_ROWS_MIN: u64 = 1 << 16;
/// The bytes of a chunk on a device.
const CHUNK_BYTES: u64 = 1 << 30;
/// The rows of a chunk at most: a block has a number for each group of rows and queries.
const CHUNK_ROWS: u64 = 1 << 23;
/// Chunks are whole blocks; slots take an item a firing.
const SIZES: Sizes = Sizes { block: [1, 1], block_min: [1, 1], slots: [1, 1], blocks_per_device: 2 };
/// Queries of a block whose first entry is computed again.
const CHECKED: usize = 16;

/// A store cut into chunks, and what is known of their rows.
pub(super) struct Chunks {
    /// By chunk: its batches.
    batches: Vec<Range<usize>>,
    terms: Vec<OnceLock<Terms>>,
}

/// The terms of a chunk's rows, and their largest norm.
pub(super) struct Terms {
    pub(super) terms: Vec<[f32; 2]>,
    norm_max: f64,
    /// What rounding to halves takes.
    halved: HalfError,
}

impl Chunks {
    /// Cuts a store.
    pub(super) fn new(vectors: &ObjectStore<Vectors>) -> Self {
        Self::of_bytes(vectors, CHUNK_BYTES)
    }

    fn of_bytes(vectors: &ObjectStore<Vectors>, bytes_max: u64) -> Self {
        let bytes_of_row = (vectors.kind().dimensions() * vectors.kind().number_type().bytes()) as u64;
        let rows_max = (bytes_max / bytes_of_row.max(1)).clamp(1, CHUNK_ROWS);
        let (mut batches, mut first) = (Vec::new(), 0);
        for batch in 0..vectors.batches() {
            let begin = vectors.ids(first).start;
            if batch > first && vectors.ids(batch).end - begin > rows_max {
                batches.push(first..batch);
                first = batch;
            }
        }
        batches.push(first..vectors.batches());
        let terms = batches.iter().map(|_| OnceLock::new()).collect();
        Self { batches, terms }
    }

    fn count(&self) -> usize {
        self.batches.len()
    }

    /// The rows of a chunk.
    pub(super) fn rows(&self, vectors: &ObjectStore<Vectors>, chunk: usize) -> Range<u64> {
        let batches = &self.batches[chunk];
        vectors.ids(batches.start).start..vectors.ids(batches.end - 1).end
    }

    /// The terms of a chunk, which the task has computed.
    pub(super) fn terms(&self, chunk: usize) -> &Terms {
        self.terms[chunk].get().expect("a task begins with the terms of all chunks")
    }

    fn residence(
        &self,
        vectors: &ObjectStore<Vectors>,
        devices: &Devices,
        allowed: &Arc<[usize]>,
    ) -> Residence {
        let bytes_of_row = (vectors.kind().dimensions() * vectors.kind().number_type().bytes()
            + size_of::<[f32; 2]>()) as u64;
        let bytes = (0..self.count()).map(|chunk| {
            let rows = self.rows(vectors, chunk);
            (rows.end - rows.start) * bytes_of_row
        });
        Residence::new(devices, Arc::clone(allowed), bytes)
    }

    /// Computes the terms that are missing, on slots.
    fn fill(&self, cx: &mut Context<'_>, shared: &Shared) -> Result<(), BoxError> {
        let (vectors, measure) = (&shared.vectors, shared.measure);
        for (batches, terms) in self.batches.iter().zip(&self.terms) {
            if terms.get().is_some() {
                continue;
            }
            let fresh: Vec<u64> = batches
                .clone()
                .filter(|batch| !vectors.is_checked(*batch))
                .map(|batch| vectors.ids(batch).start)
                .collect();
            if !fresh.is_empty() {
                let cancelled = cx.cancelled();
                cx.detached("disk", || vectors.bring_in_until(fresh, &cancelled))??;
            }
            let mut parts: Vec<_> = batches.clone().map(|batch| (batch, None)).collect();
            cx.inside(|inside| {
                let cancelled = inside.cancelled();
                inside.for_each_chunk_of(&mut parts, 1, |_, parts| {
                    for (batch, terms) in parts.iter_mut().filter(|_| !cancelled()) {
                        *terms = Some(terms_of(vectors, measure, *batch));
                    }
                });
            });
            ask(&|| cx.is_cancelled())?;
            let (mut all, mut norm_max, mut halved) = (Vec::new(), 0.0_f64, HalfError::default());
            for (_, part) in parts {
                let (terms, norm, error) = part.expect("no part was left out")?;
                all.extend(terms);
                halved = halved.max(error);
                norm_max = if norm <= norm_max { norm_max } else { norm };
            }
            // Another request may have been first, with equal terms.
            let _ = terms.set(Terms { terms: all, norm_max, halved });
        }
        Ok(())
    }
}

/// The terms of a batch's rows; removed ones are absent.
fn terms_of(
    vectors: &ObjectStore<Vectors>,
    measure: VectorMeasure,
    batch: usize,
) -> Result<(Vec<[f32; 2]>, f64, HalfError), StoreError> {
    let dimensions = vectors.kind().dimensions();
    let (mut terms, norm, halved) = vectors.read::<_, StoreError>(|objects| {
        Ok(device::terms(measure, dimensions, objects.batch(batch)?.all()))
    })?;
    for (row, term) in vectors.ids(batch).zip(&mut terms) {
        if !vectors.has(row) {
            *term = ABSENT;
        }
    }
    Ok((terms, norm, halved))
}

/// The first generation of NVIDIA devices whose matrix units take halves in this form.
const UNITS_FROM: (u32, u32) = (8, 0);

/// Whether a device has matrix units for halves.
pub(in crate::index) fn has_units(device: &Device) -> bool {
    device.info().compute_capability.is_some_and(|capability| capability >= UNITS_FROM)
}

/// Queries whose lists a slot takes over at a time.
const QUERIES_AT_ONCE: usize = 64;

/// A part of the scan.
pub(super) enum Item {
    /// A whole chunk, for all queries.
    Chunk(usize),
    /// Some rows, for all queries or for those at some places; slots scan them.
    Rows(Range<u64>, Option<Arc<[usize]>>),
}

/// The scan of all rows, as a task for devices.
pub(super) struct VectorScan {
    shared: Arc<Shared>,
    /// Set by the first firing, which knows the rows' errors.
    request: Option<Arc<Request>>,
    queries: Option<DeviceQueries>,
    k: usize,
    plan: Plan,
    /// The rows to search among, if not all.
    subset: Option<Arc<Subset>>,
    /// Whether all devices have matrix units, or tests want them emulated.
    has_units: bool,
    /// The queries as slots take them.
    packed: Packed,
    numbers: Vec<Vec<f32>>,
    residence: Residence,
    slots: u64,
    found: Vec<Nearest>,
    items: VecDeque<Item>,
    /// Rows to search that are done.
    seen: u64,
}

/// The sizes of the search, and whether its products are those of matrix units, even where a device emulates these.
#[derive(Clone, Copy, Debug)]
pub(in crate::index) struct Sized {
    pub(in crate::index) plan: Plan,
    pub(in crate::index) emulates: bool,
}

/// The scan on the devices that are picked, if they can do it: not for more objects than a list holds.
pub(super) fn stage(
    shared: &Arc<Shared>,
    numbers: Vec<Vec<f32>>,
    (k, range, slots, plan): (usize, f64, u64, Sized),
    subset: Option<&Arc<Subset>>,
    picked: &Picked,
) -> Option<DeviceStage<VectorScan>> {
    let (devices, allowed) = picked.devices.clone().filter(|_| k <= K_MAX && !numbers.is_empty())?;
    let task = VectorScan::new(shared, numbers, (k, range, slots, plan), subset, (&devices, &allowed));
    Some(DeviceStage::new(task, SIZES, Some((devices, allowed))))
}

/// A scan for another box.
pub(in crate::index) struct Scan(Box<DeviceStage<VectorScan>>);

impl Scan {
    /// Begins a scan on the devices that are picked; nothing if they cannot do it.
    pub(in crate::index) fn new(
        shared: &Arc<Shared>,
        queries: Vec<Vec<f32>>,
        (k, slots, sized): (usize, u64, Sized),
        picked: &Picked,
    ) -> Option<Self> {
        let sizes = (k, f64::INFINITY, slots, sized);
        stage(shared, queries, sizes, None, picked).map(|stage| Self(Box::new(stage)))
    }

    /// Goes on, as an operator does.
    pub(in crate::index) fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        self.0.process(cx)
    }

    /// By query, the rows that may be among its nearest, once the scan is done.
    pub(in crate::index) fn into_found(self) -> Vec<Nearest> {
        self.0.into_task().into_found()
    }
}

impl VectorScan {
    fn new(
        shared: &Arc<Shared>,
        numbers: Vec<Vec<f32>>,
        (k, range, slots, plan): (usize, f64, u64, Sized),
        subset: Option<&Arc<Subset>>,
        (devices, allowed): (&Devices, &Arc<[usize]>),
    ) -> Self {
        let (vectors, measure) = (&shared.vectors, shared.measure);
        let dimensions = vectors.kind().dimensions();
        let slices: Vec<&[f32]> = numbers.iter().map(Vec::as_slice).collect();
        let queries = DeviceQueries::new(measure, dimensions, &slices);
        let found = (0..queries.len()).map(|query| Nearest::new(k, queries.value_of(query, range))).collect();
        Self {
            packed: Packed::Flat(FlatQueries::new(CodePath::detect(), measure, dimensions, &slices)),
            request: None,
            queries: Some(queries),
            k,
            plan: plan.plan,
            has_units: plan.emulates || allowed.iter().all(|device| has_units(&devices.list()[*device])),
            residence: shared.chunks.residence(vectors, devices, allowed),
            items: (0..shared.chunks.count())
                .filter(|chunk| {
                    let rows = shared.chunks.rows(vectors, *chunk);
                    subset.is_none_or(|subset| subset.count_in(rows) > 0)
                })
                .map(Item::Chunk)
                .collect(),
            subset: subset.cloned(),
            shared: Arc::clone(shared),
            numbers,
            slots,
            found,
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

    fn request(&self) -> &Arc<Request> {
        self.request.as_ref().expect("the first firing makes it")
    }

    /// The nearest of each query, once the stage has ended.
    pub(super) fn into_found(self) -> Vec<Nearest> {
        self.found
    }

    /// Whether the first entry of some queries has the value of its row.
    fn is_as_reference(&self, block: &VectorBlock) -> Result<bool, BoxError> {
        let (vectors, measure) = (&self.shared.vectors, self.shared.measure);
        let apart = self.numbers.len().div_ceil(CHECKED);
        vectors.read::<_, BoxError>(|objects| {
            for query in (0..self.numbers.len()).step_by(apart) {
                let Some((row, value)) = block.entries(query).and_then(|mut entries| entries.next()) else {
                    continue;
                };
                if row >= vectors.len() || !self.has(row) {
                    return Ok(false);
                }
                let (batch, at) = vectors.locate(row)?;
                let dimensions = vectors.kind().dimensions();
                let all = objects.batch(batch)?.all();
                let exact = measure.compared(&self.numbers[query], part(all, dimensions, at..at + 1));
                let error = self.found[query].error();
                // A value that is no number says nothing.
                let apart = (f64::from(value) - exact).abs();
                if !value.is_nan() && (apart.is_nan() || apart > error) {
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
        let chunks = &self.shared.chunks;
        chunks.fill(cx, &self.shared)?;
        let norm_max = (0..chunks.count()).map(|chunk| chunks.terms(chunk).norm_max).fold(0.0, f64::max);
        let halved = (0..chunks.count()).map(|chunk| chunks.terms(chunk).halved);
        let halved = halved.fold(HalfError::default(), HalfError::max);
        let queries = self.queries.take().expect("the first firing takes the queries");
        let of_halves = (0..queries.len()).map(|query| queries.error_of_halves(query, norm_max, halved));
        let of_halves: Option<Vec<f64>> = if self.has_units { of_halves.collect() } else { None };
        for (query, found) in self.found.iter_mut().enumerate() {
            let more = of_halves.as_ref().map_or(0.0, |errors| errors[query]);
            found.raise_error(queries.error(query, norm_max) + more);
        }
        let products = match of_halves {
            Some(_) => Products::Halves,
            None => Products::Single(self.shared.vectors.kind().number_type()),
        };
        self.request =
            Some(Arc::new(Request::new(queries, products, (self.plan, self.k), self.subset.clone())));
        // Values that may leave f32 exclude nothing: slots know what to do.
        if !self.found.iter().all(|found| found.error().is_finite()) {
            let rows = 0..self.shared.vectors.len();
            self.items = VecDeque::from([Item::Rows(rows, None)]);
        }
        Ok(())
    }

    fn take(&mut self, _: &mut Context<'_>, _: bool) -> Result<Option<Taken<Item>>, BoxError> {
        Ok(self.items.pop_front().map(|item| match item {
            Item::Chunk(_) => Taken::Whole(item),
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
        let Some(Item::Chunk(chunk)) = items.into_iter().next() else { unreachable!("a block is a chunk") };
        let limits = self.found.iter().map(Nearest::limit_f32).collect();
        // Twice the error of a value, rounded up.
        let errors = self.found.iter().map(|found| (2.0 * found.error() * (1.0 + 1e-6)) as f32).collect();
        let home = (self.residence.home(chunk), self.residence.is_kept(chunk));
        Ok(VectorBlock::new(&self.shared, self.request(), (chunk, self.seen), (limits, errors), home))
    }

    fn home(&self, block: &VectorBlock) -> Option<usize> {
        block.home
    }

    fn finish(&mut self, cx: &mut Context<'_>, block: VectorBlock) -> Result<BlockOutcome<Self>, BoxError> {
        if !self.is_as_reference(&block)? {
            let problem = "its values differ from the processor's: vectors are searched without devices";
            cx.report(block.device.clone(), problem);
            return Ok(BlockOutcome::Untrusted(vec![Item::Chunk(block.chunk)]));
        }
        cx.inside(|inside| {
            inside.for_each_chunk_of(&mut self.found, QUERIES_AT_ONCE, |first, found| {
                for (query, found) in (first..).zip(found) {
                    for (row, value) in block.entries(query).into_iter().flatten() {
                        found.push(f64::from(value), row as u32);
                    }
                    found.cut();
                }
            });
        });
        let overflowed: Vec<usize> =
            (0..self.found.len()).filter(|query| block.entries(*query).is_none()).collect();
        let rows = self.shared.chunks.rows(&self.shared.vectors, block.chunk);
        self.seen += self.count_in(rows.clone());
        cx.progress(self.seen, self.count_in(0..self.shared.vectors.len()));
        Ok(match overflowed.is_empty() {
            true => BlockOutcome::Made(Vec::new()),
            false => BlockOutcome::Fallback(vec![Item::Rows(rows, Some(overflowed.into()))]),
        })
    }

    fn failed(&mut self, mut block: VectorBlock, is_served: bool) -> BlockOutcome<Self> {
        // The device that keeps the chunk failed; any other may compute it.
        if block.home.take().is_some() && is_served {
            return BlockOutcome::Retry(block);
        }
        BlockOutcome::Fallback(vec![Item::Chunk(block.chunk)])
    }

    fn compute(
        &mut self,
        cx: &mut Context<'_>,
        left: &mut VecDeque<Item>,
    ) -> Result<Vec<Infallible>, BoxError> {
        let (rows, places) = match left.pop_front() {
            None => return Ok(Vec::new()),
            Some(Item::Chunk(chunk)) => (self.shared.chunks.rows(&self.shared.vectors, chunk), None),
            Some(Item::Rows(rows, places)) => (rows, places),
        };
        let upto = rows.end.min(rows.start + 2 * self.slots * PIECE_ROWS);
        if upto < rows.end {
            left.push_front(Item::Rows(upto..rows.end, places.clone()));
        }
        let of_places = places.as_deref().map(|places| {
            let numbers: Vec<&[f32]> = places.iter().map(|query| self.numbers[*query].as_slice()).collect();
            let dimensions = self.shared.vectors.kind().dimensions();
            let flat = FlatQueries::new(CodePath::detect(), self.shared.measure, dimensions, &numbers);
            let found = places.iter().map(|query| self.found[*query].clone()).collect();
            (Packed::Flat(flat), Found::Values(found))
        });
        let all = Found::Values(self.found.clone());
        let (packed, found) =
            of_places.as_ref().map_or((&self.packed, &all), |(packed, found)| (packed, found));
        let firsts = (rows.start..upto).step_by(PIECE_ROWS as usize);
        let mut parts: Vec<_> = firsts.map(|first| (first..upto.min(first + PIECE_ROWS), None)).collect();
        let (shared, k, subset) = (&*self.shared, self.k, self.subset.as_deref());
        cx.inside(|inside| {
            let cancelled = inside.cancelled();
            inside.for_each_chunk_of(&mut parts, 1, |_, parts| {
                for (rows, part) in parts.iter_mut().filter(|_| !cancelled()) {
                    *part = Some(scan(shared, packed, rows.clone(), subset, found, k));
                }
            });
        });
        ask(&|| cx.is_cancelled())?;
        for (_, part) in parts {
            let Found::Values(part) = part.expect("no part was left out")? else {
                unreachable!("all pieces are bounded in one way")
            };
            for (place, part) in part.into_iter().enumerate() {
                self.found[places.as_ref().map_or(place, |places| places[place])].join(part);
            }
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
