//! The device's side of distances: candidates and runs of chunks become blocks, and blocks that come back become
//! distances.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use arrow_array::{ArrayRef, Float64Array, UInt32Array, UInt64Array};
use boxwork_kernels::interrupt::{Interrupt, ask};
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::feeding::{Back, Block, DeviceError, Devices, Feed, Residence};
use boxwork_runtime::operator::{BoxError, Context};

use super::block::{Common, SqfdBlock, tell_arithmetic};
use super::range_block::{Found, RangeBlock};
use super::select::Criteria;
use super::with_distances;
use crate::columns::distances_envelope;
use crate::search::queries::Queries;
use boxwork_stores::chunks::{ChunkRun, Cut, Form};
use boxwork_stores::sqfd_space::SqfdSpace;

/// Objects whose similarities to themselves one slot computes at a time: a millisecond.
const SIGMAS_PER_CHUNK: usize = 32;

/// Rows of an envelope of distances if none is dropped.
const ENVELOPE_ROWS: usize = 1 << 14;

/// Makes blocks for devices, and distances from blocks that come back.
pub(crate) struct OnDevice {
    space: Arc<SqfdSpace>,
    devices: Arc<Devices>,
    allowed: Arc<[usize]>,
    residence: Residence,
    criteria: Criteria,
    common: Option<Arc<Common>>,
}

/// A block of either kind; a box has one type of block.
pub(crate) enum DistanceBlock {
    Rows(SqfdBlock),
    Run(RangeBlock),
}

impl DistanceBlock {
    /// Whether more rows passed the selection than the buffer holds: then it must be computed again.
    pub(super) fn is_missing(&mut self) -> bool {
        match self {
            Self::Rows(block) => block.is_missing(),
            Self::Run(block) => block.is_missing(),
        }
    }

    /// The device that keeps the chunks of this block.
    pub(crate) fn home(&self) -> Option<usize> {
        match self {
            Self::Rows(_) => None,
            Self::Run(block) => block.home,
        }
    }

    fn brings(&self) -> bool {
        match self {
            Self::Rows(block) => block.brings,
            Self::Run(block) => block.brings,
        }
    }
}

impl Block for DistanceBlock {
    fn size(&self) -> u64 {
        match self {
            Self::Rows(block) => block.size(),
            Self::Run(block) => block.size(),
        }
    }

    fn kind(&self) -> &'static str {
        match self {
            Self::Rows(block) => block.kind(),
            Self::Run(block) => block.kind(),
        }
    }

    fn feed(&mut self, feed: &mut Feed<'_>) -> Result<(), DeviceError> {
        match self {
            Self::Rows(block) => block.feed(feed),
            Self::Run(block) => block.feed(feed),
        }
    }

    fn collect(&mut self, back: &Back<'_>) {
        match self {
            Self::Rows(block) => block.collect(back),
            Self::Run(block) => block.collect(back),
        }
    }
}

impl OnDevice {
    pub(crate) fn new(
        space: Arc<SqfdSpace>,
        devices: &Arc<Devices>,
        allowed: &Arc<[usize]>,
        criteria: Criteria,
    ) -> Self {
        tell_arithmetic(&space, devices, allowed);
        let residence = space.chunks().cut.residence(space.store(), devices, allowed);
        let (devices, allowed) = (Arc::clone(devices), Arc::clone(allowed));
        Self { space, devices, allowed, residence, criteria, common: None }
    }

    /// The blocks for some ids and consecutive queries, if the ids are whole chunks. The producer of ranges need not
    /// know how much a device takes at once.
    pub(crate) fn runs(&self, places: &Range<usize>, ids: &Range<u64>) -> Option<Vec<ChunkRun>> {
        let (store, cut) = (self.space.store(), self.space.chunks().cut);
        let run = cut.run_of(store, ids)?;
        Some(cut.runs(store, &self.devices, &self.allowed, (places.clone(), run)).into_iter().collect())
    }

    /// The ids of some chunks.
    pub(crate) fn ids(&self, chunks: &Range<usize>) -> Range<u64> {
        let (store, cut) = (self.space.store(), self.space.chunks().cut);
        cut.ids(store, chunks.start).start..cut.ids(store, chunks.end - 1).end
    }

    /// Objects of the store that any of the devices keeps.
    fn held(&self) -> u64 {
        let (store, cut) = (self.space.store(), self.space.chunks().cut);
        let count = |chunk| {
            let ids = cut.ids(store, chunk);
            ids.end - ids.start
        };
        let is_held = |chunk: &usize| {
            let key = Cut::key(store, Form::Columns, *chunk);
            self.allowed.iter().any(|idx| self.devices.list()[*idx].holds(key))
        };
        (0..cut.count()).filter(is_held).map(count).sum()
    }

    fn common(&mut self, queries: &Queries) -> Arc<Common> {
        let make = || Arc::new(Common::new(&self.space, self.residence.clone(), queries, self.criteria));
        Arc::clone(self.common.get_or_insert_with(make))
    }

    /// A block of whole chunks, without a row per object; reads into memory what the device lacks.
    pub(crate) fn run_block(
        &mut self,
        cx: &mut Context<'_>,
        queries: &Queries,
        (places, chunks): ChunkRun,
    ) -> Result<DistanceBlock, BoxError> {
        let common = self.common(queries);
        let (store, cut) = (self.space.store(), self.space.chunks().cut);
        let home = self.residence.home(chunks.start);
        let device = &self.devices.list()[home];
        let block = RangeBlock::new(&common, places, chunks.clone(), Some(home));
        let is_held = |chunk| {
            let columns = Cut::key(store, Form::Columns, chunk);
            (device.holds(columns) || device.pins(columns))
                && [Form::Tiles, Form::Pieces]
                    .into_iter()
                    .all(|form| device.holds(Cut::key(store, form, chunk)))
        };
        if !chunks.clone().all(is_held) {
            let batches = chunks.flat_map(|chunk| cut.batches(store, chunk));
            let fresh: Vec<usize> = batches.filter(|batch| !store.is_checked(*batch)).collect();
            if !fresh.is_empty() {
                let (cancelled, ids) = (cx.cancelled(), fresh.iter().map(|batch| store.ids(*batch).start));
                cx.detached("disk", || store.bring_in_until(ids, &cancelled))??;
            }
        }
        if self.criteria.may_drop() && !device.holds(block.sigmas_key()) {
            compute_sigmas(cx, &self.space, store.among(block.ids()).collect())?;
        }
        Ok(DistanceBlock::Run(block))
    }

    /// A block of the candidates of some envelopes; reads their objects into memory.
    pub(super) fn rows_block(
        &mut self,
        cx: &mut Context<'_>,
        queries: &Queries,
        envelopes: Vec<Envelope>,
    ) -> Result<DistanceBlock, BoxError> {
        let common = self.common(queries);
        let mut wanted = Vec::with_capacity(envelopes.iter().map(Envelope::rows).sum());
        for candidates in &envelopes {
            let (numbers, ids) = (candidates.u32s("query")?, candidates.u64s("id")?);
            let mut ids = ids.iter();
            for run in numbers.chunk_by(|a, b| a == b) {
                let query = queries.idx(run[0])? as u32;
                wanted.extend(run.iter().zip(&mut ids).map(|(_, id)| (query, *id)));
            }
        }
        self.bring_in(cx, &wanted)?;
        if self.criteria.may_drop() {
            compute_sigmas(cx, &self.space, wanted.iter().map(|(_, id)| *id).collect())?;
        }
        Ok(DistanceBlock::Rows(SqfdBlock::new(&common, envelopes, wanted)))
    }

    /// Reads what a block will need: its objects, and their whole chunks if devices keep chunks.
    fn bring_in(&self, cx: &mut Context<'_>, wanted: &[(u32, u64)]) -> Result<(), BoxError> {
        let store = self.space.store();
        let mut batches = Vec::new();
        for run in wanted.chunk_by(|a, b| a.1 + 1 == b.1) {
            let (first, last) = (run[0].1, run[run.len() - 1].1);
            batches.extend(store.locate(first)?.0..store.locate(last)?.0 + 1);
        }
        bring_in_batches(cx, &self.space, &self.residence, batches)
    }

    /// The distances of a block that came back.
    pub(super) fn finish(
        &self,
        cx: &mut Context<'_>,
        queries: &Queries,
        block: DistanceBlock,
    ) -> Result<Vec<Envelope>, BoxError> {
        if block.brings() {
            cx.progress(self.held(), self.space.store().len());
        }
        match block {
            DistanceBlock::Rows(block) => distances(block, &self.space, queries, &cx.cancelled()),
            DistanceBlock::Run(block) => distances_of_run(&block, &self.space, queries, &cx.cancelled()),
        }
    }
}

/// Reads batches, given in any order, and the other batches of their chunks if a block may bring these chunks to a
/// device.
pub(super) fn bring_in_batches(
    cx: &mut Context<'_>,
    space: &SqfdSpace,
    residence: &Residence,
    mut batches: Vec<usize>,
) -> Result<(), BoxError> {
    let (store, cut) = (space.store(), space.chunks().cut);
    batches.sort_unstable();
    batches.dedup();
    if residence.is_whole() {
        let chunks = batches.iter().map(|batch| cut.of(store, store.ids(*batch).start));
        let mut chunks = chunks.collect::<Result<Vec<_>, _>>()?;
        chunks.dedup();
        batches = chunks.into_iter().flat_map(|chunk| cut.batches(store, chunk)).collect();
    }
    batches.retain(|batch| !store.is_checked(*batch));
    if !batches.is_empty() {
        let (cancelled, ids) = (cx.cancelled(), batches.iter().map(|batch| store.ids(*batch).start));
        cx.detached("disk", || store.bring_in_until(ids, &cancelled))??;
    }
    Ok(())
}

/// The distances of a block that came back, by envelope, without the dropped rows.
fn distances(
    block: SqfdBlock,
    space: &SqfdSpace,
    queries: &Queries,
    interrupt: Interrupt<'_>,
) -> Result<Vec<Envelope>, BoxError> {
    if let Some(kept) = &block.kept {
        return left((&block, kept), space, queries, interrupt);
    }
    let mut crosses = block.crosses.iter();
    let mut made = Vec::with_capacity(block.envelopes.len());
    for candidates in &block.envelopes {
        let (numbers, ids) = (candidates.u32s("query")?, candidates.u64s("id")?);
        let mut distances = Vec::with_capacity(ids.len());
        space.store().read::<_, BoxError>(|objects| {
            for run in numbers.chunk_by(|a, b| a == b) {
                ask(interrupt)?;
                let query = queries.at(queries.idx(run[0])?).sqfd().prepared();
                for (_, cross) in run.iter().zip(&mut crosses) {
                    let id = ids[distances.len()];
                    distances.push(space.of_cross(objects, query, (id, *cross), interrupt)?);
                }
            }
            Ok(())
        })?;
        made.push(with_distances(candidates, distances)?);
    }
    Ok(made)
}

/// The rows that a block kept, in one envelope if there are any.
fn left(
    (block, kept): (&SqfdBlock, &[u32]),
    space: &SqfdSpace,
    queries: &Queries,
    interrupt: Interrupt<'_>,
) -> Result<Vec<Envelope>, BoxError> {
    let (mut numbers, mut ids, mut distances) = (Vec::new(), Vec::new(), Vec::new());
    space.store().read::<_, BoxError>(|objects| {
        (numbers, ids, distances) = (Vec::new(), Vec::new(), Vec::new());
        for (row, cross) in kept.iter().zip(&block.crosses) {
            let (query, id) = block.row(*row);
            let query = queries.at(query as usize);
            numbers.push(query.number);
            ids.push(id);
            distances.push(space.of_cross(objects, query.sqfd().prepared(), (id, *cross), interrupt)?);
        }
        Ok(())
    })?;
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let columns: [(&str, ArrayRef); 3] = [
        ("query", Arc::new(UInt32Array::from(numbers))),
        ("id", Arc::new(UInt64Array::from(ids))),
        ("distance", Arc::new(Float64Array::from(distances))),
    ];
    Ok(vec![Envelope::from_columns(columns)?])
}

/// The distances of a run that came back.
fn distances_of_run(
    block: &RangeBlock,
    space: &SqfdSpace,
    queries: &Queries,
    interrupt: Interrupt<'_>,
) -> Result<Vec<Envelope>, BoxError> {
    let store = space.store();
    let mut rows = Vec::new();
    store.read::<_, BoxError>(|objects| {
        rows = Vec::new();
        let mut row = |place: usize, id: u64, cross: f64| -> Result<(), BoxError> {
            let query = queries.at(place);
            let distance = space.of_cross(objects, query.sqfd().prepared(), (id, cross), interrupt)?;
            rows.push((query.number, id, distance));
            Ok(())
        };
        match &block.found {
            Found::Nothing => Err(BoxError::new("a block came back without results")),
            Found::Kept(kept) => kept.iter().try_for_each(|(place, id, cross)| row(*place, *id, *cross)),
            Found::All(sums) => block.queries.clone().try_for_each(|place| {
                let ids = block.ids();
                block.each(objects, (place, &ids), sums, |id, cross| row(place, id, cross))
            }),
        }
    })?;
    rows.chunks(ENVELOPE_ROWS).map(|rows| Ok(distances_envelope(rows)?)).collect()
}

/// Computes the objects' similarities to themselves, which the selection and the results need. Unknown ones take long,
/// and many slots are faster than a feeding thread.
pub(crate) fn compute_sigmas(
    cx: &mut Context<'_>,
    space: &SqfdSpace,
    mut ids: Vec<u64>,
) -> Result<(), BoxError> {
    ids.retain(|id| !space.is_known(*id));
    let failed = OnceLock::new();
    cx.inside(|inside| {
        let cancelled = inside.cancelled();
        inside.for_each_chunk(ids.len(), SIGMAS_PER_CHUNK, |range| {
            let computed = space.store().read::<_, BoxError>(|objects| {
                let mut ids = ids[range].iter();
                ids.try_for_each(|id| space.sigma_self_until(objects, *id, &cancelled).map(drop))?;
                Ok(())
            });
            if let Err(error) = computed {
                // The first error is reported.
                let _ = failed.set(error);
            }
        });
    });
    failed.into_inner().map_or(Ok(()), Err)
}
