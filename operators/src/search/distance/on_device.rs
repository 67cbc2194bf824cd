//! The box's side of distances on devices: candidates become blocks, and what comes back becomes distances.
//!
//! Envelopes gather until a block is worth its way, or nothing of the box is on a device: then what is there goes.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};

use arrow_array::{ArrayRef, Float64Array, UInt32Array, UInt64Array};
use boxwork_kernels::sqfd::Arithmetic;
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::feeding::{Back, Block, Blocks, DeviceError, Devices, Feed};
use boxwork_runtime::operator::{BoxError, Context, Flow, Pushed};

use super::block::{Common, SqfdBlock, arithmetic};
use super::range_block::{Found, RangeBlock};
use super::ranges::Ranges;
use super::select::Keeps;
use super::with_distances;
use crate::columns::distances_envelope;
use crate::search::queries::Queries;
use boxwork_stores::chunks::{Cut, Form, Piece, Residence};
use boxwork_stores::sqfd_space::SqfdSpace;

/// Rows from which on a block is worth its way: a tenth of a millisecond on a fast device.
const BLOCK_ROWS: usize = 1 << 16;

/// Blocks of a box on their way, for each device: what its end points hold, and twice as many that wait for them. Where all
/// slots compute, a box is fired some milliseconds after a block is back, and the device is not to wait for it.
const BLOCKS_PER_DEVICE: usize = 12;

/// Similarities of objects to themselves that one slot computes at a time: a millisecond.
const SIGMAS_PER_CHUNK: usize = 32;

/// Rows of an envelope of distances where none is left out.
const ENVELOPE_ROWS: usize = 1 << 14;

pub(super) struct OnDevice {
    space: Arc<SqfdSpace>,
    blocks: Blocks<Sent>,
    blocks_max: usize,
    residence: Residence,
    keeps: Keeps,
    common: Option<Arc<Common>>,
    /// Candidates that are not under way yet.
    waiting: Vec<Envelope>,
    waiting_rows: usize,
    /// Runs of chunks that are not under way yet.
    runs: VecDeque<Piece>,
    /// Distances for which there was no room.
    made: VecDeque<Envelope>,
}

/// One of the two, as a box has one kind of block.
enum Sent {
    Rows(SqfdBlock),
    Run(RangeBlock),
}

impl Sent {
    fn is_missing(&mut self) -> bool {
        match self {
            Self::Rows(block) => block.is_missing(),
            Self::Run(block) => block.is_missing(),
        }
    }

    fn brings(&self) -> bool {
        match self {
            Self::Rows(block) => block.brings,
            Self::Run(block) => block.brings,
        }
    }
}

impl Block for Sent {
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

/// What came back without results, for the slots.
#[derive(Default)]
pub(super) struct Left {
    pub(super) candidates: VecDeque<Envelope>,
    pub(super) ranges: Ranges,
}

impl Left {
    pub(super) fn is_empty(&self) -> bool {
        self.candidates.is_empty() && self.ranges.is_empty()
    }
}

impl OnDevice {
    pub(super) fn new(
        space: Arc<SqfdSpace>,
        devices: Arc<Devices>,
        allowed: Arc<[usize]>,
        keeps: Keeps,
    ) -> Self {
        let store = space.store();
        for idx in allowed.iter() {
            if arithmetic(&devices.list()[*idx]) == Arithmetic::Matrices {
                // What follows asks when distances come, and none has yet.
                let _ = space.arithmetic().set(Arithmetic::Matrices);
            }
        }
        let residence = space.chunks().cut.residence(store, &devices, &allowed);
        Self {
            space,
            blocks_max: BLOCKS_PER_DEVICE * allowed.len(),
            blocks: Blocks::new(devices, allowed),
            residence,
            keeps,
            common: None,
            waiting: Vec::new(),
            waiting_rows: 0,
            runs: VecDeque::new(),
            made: VecDeque::new(),
        }
    }

    /// Whether any device still takes blocks.
    pub(super) fn is_served(&self) -> bool {
        self.blocks.is_served()
    }

    /// Blocks on their way.
    pub(super) fn in_flight(&self) -> usize {
        self.blocks.in_flight()
    }

    /// Takes what has come back, and hands over what waits. What came back without results goes to `left`.
    pub(super) fn process(
        &mut self,
        cx: &mut Context<'_>,
        queries: &Queries,
        left: &mut Left,
    ) -> Result<Flow, BoxError> {
        let space = &Arc::clone(&self.space);
        loop {
            while !self.made.is_empty() && cx.has_room("distances") {
                let Some(envelope) = self.made.pop_front() else { break };
                if cx.push("distances", envelope)? == Pushed::Closed {
                    return Ok(Flow::Done);
                }
            }
            if !self.made.is_empty() {
                break;
            }
            match self.blocks.take() {
                None => break,
                Some((mut block, Ok(()))) => {
                    if block.is_missing() {
                        self.submit(cx, block);
                        continue;
                    }
                    if block.brings() {
                        cx.progress(self.held(space), space.store().len());
                    }
                    self.made.extend(match block {
                        Sent::Rows(block) => distances(block, space, queries)?,
                        Sent::Run(block) => distances_of_run(&block, space, queries)?,
                    });
                }
                Some((Sent::Run(mut block), Err(error))) if error.is_of_device() => {
                    // Where it was to be kept it failed; any other may compute it.
                    if block.home.take().is_some() && self.is_served() {
                        self.submit(cx, Sent::Run(block));
                    } else {
                        left.ranges.add(&block, queries);
                    }
                }
                Some((Sent::Rows(block), Err(error))) if error.is_of_device() => {
                    left.candidates.extend(block.envelopes);
                }
                Some((_, Err(error))) => return Err(error.into()),
            }
        }
        if !left.is_empty() {
            return Ok(Flow::More);
        }
        if !self.is_served() {
            left.candidates.extend(self.waiting.drain(..));
            self.waiting_rows = 0;
            for (of_queries, chunks) in self.runs.drain(..) {
                left.ranges.add_chunks(space, queries, of_queries, chunks);
            }
            return Ok(if left.is_empty() { Flow::Wait } else { Flow::More });
        }
        self.hand_over_runs(cx, space, queries)?;
        self.hand_over(cx, space, queries)?;
        let is_idle = self.made.is_empty() && self.in_flight() == 0;
        let over = is_idle && self.waiting.is_empty() && self.runs.is_empty();
        let is_ended = cx.is_ended("candidates") && cx.is_ended("ranges");
        Ok(if over && is_ended { Flow::Done } else { Flow::Wait })
    }

    fn submit(&mut self, cx: &mut Context<'_>, block: Sent) {
        match &block {
            Sent::Run(RangeBlock { home: Some(home), .. }) => {
                let home = *home;
                self.blocks.submit_to(block, home, cx.outside());
            }
            _ => self.blocks.submit(block, cx.outside()),
        }
    }

    /// Objects of the store that lie on any of the devices.
    fn held(&self, space: &SqfdSpace) -> u64 {
        let (store, cut) = (space.store(), space.chunks().cut);
        let count = |chunk| {
            let ids = cut.ids(store, chunk);
            ids.end - ids.start
        };
        let devices: Vec<_> =
            self.blocks.allowed().iter().map(|idx| &self.blocks.devices().list()[*idx]).collect();
        let is_held =
            |device: usize, chunk: usize| devices[device].holds(Cut::key(store, Form::Columns, chunk));
        let together = (0..cut.count()).filter(|chunk| (0..devices.len()).any(|idx| is_held(idx, *chunk)));
        together.map(count).sum()
    }

    fn common(&mut self, space: &Arc<SqfdSpace>, queries: &Queries) -> Arc<Common> {
        let (residence, keeps) = (self.residence, self.keeps);
        let make = || Arc::new(Common::new(space, residence, queries, keeps));
        Arc::clone(self.common.get_or_insert_with(make))
    }

    /// Hands over runs of whole chunks, of which nothing is told object by object.
    fn hand_over_runs(
        &mut self,
        cx: &mut Context<'_>,
        space: &Arc<SqfdSpace>,
        queries: &Queries,
    ) -> Result<(), BoxError> {
        let (store, cut) = (space.store(), space.chunks().cut);
        let (allowed, devices) = (Arc::clone(self.blocks.allowed()), Arc::clone(self.blocks.devices()));
        while self.in_flight() < self.blocks_max {
            let Some((of_queries, run)) = self.runs.pop_front() else {
                let Some(envelope) = cx.take("ranges") else { break };
                for (of_queries, ids) in Ranges::of(&envelope, queries)? {
                    match cut.run_of(store, &ids) {
                        // Whoever sent it need not know what a device takes at once.
                        Some(run) => self.runs.extend(cut.runs(store, &devices, &allowed, (of_queries, run))),
                        None => {
                            // Parts of chunks, as candidates.
                            let mut rest = Ranges::default();
                            rest.push(of_queries.map(|idx| queries.at(idx).number).collect(), ids);
                            while let Some(candidates) = rest.next(&**store, BLOCK_ROWS)? {
                                self.waiting_rows += candidates.rows();
                                self.waiting.push(candidates);
                            }
                        }
                    }
                }
                continue;
            };
            let home = allowed[cut.home(run.start, allowed.len())];
            let device = &devices.list()[home];
            let common = self.common(space, queries);
            let block = RangeBlock::new(&common, of_queries, run.clone(), Some(home));
            let is_held = |chunk| {
                let columns = Cut::key(store, Form::Columns, chunk);
                (device.holds(columns) || device.pins(columns))
                    && [Form::Tiles, Form::Pieces]
                        .into_iter()
                        .all(|form| device.holds(Cut::key(store, form, chunk)))
            };
            if !run.clone().all(is_held) {
                let batches = run.flat_map(|chunk| cut.batches(store, chunk));
                let fresh: Vec<usize> = batches.filter(|batch| !store.is_checked(*batch)).collect();
                if !fresh.is_empty() {
                    cx.detached("disk", || {
                        store.bring_in(fresh.iter().map(|batch| store.ids(*batch).start))
                    })??;
                }
            }
            if self.keeps.any() && !device.holds(block.sigmas_key()) {
                compute_sigmas(cx, space, store.among(block.ids()).collect())?;
            }
            self.submit(cx, Sent::Run(block));
        }
        Ok(())
    }

    fn hand_over(
        &mut self,
        cx: &mut Context<'_>,
        space: &Arc<SqfdSpace>,
        queries: &Queries,
    ) -> Result<(), BoxError> {
        while self.in_flight() < self.blocks_max {
            while self.waiting_rows < BLOCK_ROWS
                && let Some(candidates) = cx.take("candidates")
            {
                self.waiting_rows += candidates.rows();
                self.waiting.push(candidates);
            }
            let is_enough = self.waiting_rows >= BLOCK_ROWS || self.in_flight() == 0;
            if self.waiting.is_empty() || !is_enough {
                break;
            }
            let common = self.common(space, queries);
            let envelopes = std::mem::take(&mut self.waiting);
            let mut wanted = Vec::with_capacity(self.waiting_rows);
            self.waiting_rows = 0;
            for candidates in &envelopes {
                let (numbers, ids) = (candidates.u32s("query")?, candidates.u64s("id")?);
                let mut ids = ids.iter();
                for run in numbers.chunk_by(|a, b| a == b) {
                    let query = queries.idx(run[0])? as u32;
                    wanted.extend(run.iter().zip(&mut ids).map(|(_, id)| (query, *id)));
                }
            }
            self.bring_in(cx, space, &wanted)?;
            if self.keeps.any() {
                compute_sigmas(cx, space, wanted.iter().map(|(_, id)| *id).collect())?;
            }
            self.submit(cx, Sent::Rows(SqfdBlock::new(&common, envelopes, wanted)));
        }
        Ok(())
    }

    /// Reads what the block will: its objects, and the chunks that they lie in where chunks are kept on devices.
    fn bring_in(
        &self,
        cx: &mut Context<'_>,
        space: &SqfdSpace,
        wanted: &[(u32, u64)],
    ) -> Result<(), BoxError> {
        let store = space.store();
        let mut batches = Vec::new();
        for run in wanted.chunk_by(|a, b| a.1 + 1 == b.1) {
            let (first, last) = (run[0].1, run[run.len() - 1].1);
            batches.extend(store.locate(first)?.0..store.locate(last)?.0 + 1);
        }
        bring_in_batches(cx, space, self.residence, batches)
    }
}

/// Reads batches in any order, and all of their chunks where a block may bring these in.
pub(super) fn bring_in_batches(
    cx: &mut Context<'_>,
    space: &SqfdSpace,
    residence: Residence,
    mut batches: Vec<usize>,
) -> Result<(), BoxError> {
    let (store, cut) = (space.store(), space.chunks().cut);
    batches.sort_unstable();
    batches.dedup();
    if residence.whole {
        let chunks = batches.iter().map(|batch| cut.of(store, store.ids(*batch).start));
        let mut chunks = chunks.collect::<Result<Vec<_>, _>>()?;
        chunks.dedup();
        batches = chunks.into_iter().flat_map(|chunk| cut.batches(store, chunk)).collect();
    }
    batches.retain(|batch| !store.is_checked(*batch));
    if !batches.is_empty() {
        cx.detached("disk", || store.bring_in(batches.iter().map(|batch| store.ids(*batch).start)))??;
    }
    Ok(())
}

/// The distances of a block that came back, by envelope; without the rows that it has left out.
fn distances(block: SqfdBlock, space: &SqfdSpace, queries: &Queries) -> Result<Vec<Envelope>, BoxError> {
    if let Some(kept) = &block.kept {
        return left(&block, kept, space, queries);
    }
    let mut crosses = block.crosses.iter();
    let mut made = Vec::with_capacity(block.envelopes.len());
    for candidates in &block.envelopes {
        let (numbers, ids) = (candidates.u32s("query")?, candidates.u64s("id")?);
        let mut distances = Vec::with_capacity(ids.len());
        space.store().read::<_, BoxError>(|objects| {
            for run in numbers.chunk_by(|a, b| a == b) {
                let query = queries.at(queries.idx(run[0])?).sqfd().prepared();
                for (_, cross) in run.iter().zip(&mut crosses) {
                    let id = ids[distances.len()];
                    distances.push(space.of_cross(objects, query, id, *cross)?);
                }
            }
            Ok(())
        })?;
        made.push(with_distances(candidates, distances)?);
    }
    Ok(made)
}

/// The rows of a block that are left, in one envelope if any are.
fn left(
    block: &SqfdBlock,
    kept: &[u32],
    space: &SqfdSpace,
    queries: &Queries,
) -> Result<Vec<Envelope>, BoxError> {
    let (mut numbers, mut ids, mut distances) = (Vec::new(), Vec::new(), Vec::new());
    space.store().read::<_, BoxError>(|objects| {
        (numbers, ids, distances) = (Vec::new(), Vec::new(), Vec::new());
        for (row, cross) in kept.iter().zip(&block.crosses) {
            let (query, id) = block.row(*row);
            let query = queries.at(query as usize);
            numbers.push(query.number);
            ids.push(id);
            distances.push(space.of_cross(objects, query.sqfd().prepared(), id, *cross)?);
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
) -> Result<Vec<Envelope>, BoxError> {
    let store = space.store();
    let mut rows = Vec::new();
    store.read::<_, BoxError>(|objects| {
        rows = Vec::new();
        let mut row = |place: usize, id: u64, cross: f64| -> Result<(), BoxError> {
            let query = queries.at(place);
            rows.push((query.number, id, space.of_cross(objects, query.sqfd().prepared(), id, cross)?));
            Ok(())
        };
        match &block.found {
            Found::Nothing => Err(BoxError::new("a block came back without results")),
            Found::Kept(kept) => kept.iter().try_for_each(|(place, id, cross)| row(*place, *id, *cross)),
            Found::All(crosses) => {
                let ids = block
                    .queries
                    .clone()
                    .flat_map(|place| store.among(block.ids()).map(move |id| (place, id)));
                ids.zip(crosses).try_for_each(|((place, id), cross)| row(place, id, *cross))
            }
        }
    })?;
    rows.chunks(ENVELOPE_ROWS).map(|rows| Ok(distances_envelope(rows)?)).collect()
}

/// Objects' similarities to themselves, which blocks select by and results are reported by: those that are not known yet
/// take long, and many slots compute them sooner than a feeding thread.
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
