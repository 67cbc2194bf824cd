//! The box's side of distances on devices: candidates become blocks, and what comes back becomes distances.
//!
//! Envelopes gather until a block is worth its way, or nothing of the box is on a device: then what is there goes.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, UInt32Array, UInt64Array};
use boxwork_kernels::sqfd::reference;
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::feeding::{Blocks, Devices};
use boxwork_runtime::operator::{BoxError, Context, Flow, Pushed};

use super::block::{Common, SqfdBlock};
use super::chunks::Chunks;
use super::select::Keeps;
use super::with_distances;
use crate::domain::space::SqfdSpace;
use crate::queries::Queries;

/// Rows from which on a block is worth its way: a tenth of a millisecond on a fast device.
const BLOCK_ROWS: usize = 1 << 16;

/// Blocks of a box on their way, for each device: what its end points hold, and as many that wait for them.
const BLOCKS_PER_DEVICE: usize = 6;

/// Of a device's memory, the share that a store may take and still be kept there: the rest is the blocks' own.
const RESIDENT_SHARE: f64 = 0.75;

pub(super) struct OnDevice {
    blocks: Blocks<SqfdBlock>,
    blocks_max: usize,
    chunks: Chunks,
    resident: bool,
    keeps: Keeps,
    common: Option<Arc<Common>>,
    /// Candidates that are not under way yet.
    waiting: Vec<Envelope>,
    waiting_rows: usize,
    /// Distances for which there was no room.
    made: VecDeque<Envelope>,
}

impl OnDevice {
    pub(super) fn new(
        space: &Arc<SqfdSpace>,
        devices: Arc<Devices>,
        allowed: Arc<[usize]>,
        keeps: Keeps,
    ) -> Self {
        let store = space.store();
        let bytes: u64 = (0..store.batches()).map(|batch| store.batch_bytes(batch) as u64).sum();
        let budgets = allowed.iter().map(|idx| devices.list()[*idx].memory_budget_bytes());
        let least = budgets.min().unwrap_or(0);
        Self {
            blocks_max: BLOCKS_PER_DEVICE * allowed.len(),
            blocks: Blocks::new(devices, allowed),
            chunks: Chunks::new(store),
            resident: bytes as f64 <= least as f64 * RESIDENT_SHARE,
            keeps,
            common: None,
            waiting: Vec::new(),
            waiting_rows: 0,
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
        space: &Arc<SqfdSpace>,
        queries: &Queries,
        left: &mut VecDeque<Envelope>,
    ) -> Result<Flow, BoxError> {
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
                        self.blocks.submit(block, cx.outside());
                        continue;
                    }
                    if block.brings {
                        cx.progress(self.held(space), space.store().len());
                    }
                    self.made.extend(distances(block, space, queries)?);
                }
                Some((block, Err(error))) if error.is_of_device() => left.extend(block.envelopes),
                Some((_, Err(error))) => return Err(error.into()),
            }
        }
        if !left.is_empty() {
            return Ok(Flow::More);
        }
        if !self.is_served() {
            left.extend(self.waiting.drain(..));
            self.waiting_rows = 0;
            return Ok(if left.is_empty() { Flow::Wait } else { Flow::More });
        }
        self.hand_over(cx, space, queries)?;
        let over = self.made.is_empty() && self.waiting.is_empty() && self.in_flight() == 0;
        Ok(if over && cx.is_ended("candidates") { Flow::Done } else { Flow::Wait })
    }

    /// Objects of the store that lie on the device that has most of them.
    fn held(&self, space: &SqfdSpace) -> u64 {
        let (Some(common), store) = (&self.common, space.store()) else { return 0 };
        let count = self.chunks.count(store);
        let devices = self.blocks.allowed().iter().map(|idx| &self.blocks.devices().list()[*idx]);
        let held = devices.map(|device| {
            let chunks = (0..count).filter(|chunk| device.holds(common.key(*chunk)));
            chunks.map(|chunk| self.chunks.ids(store, chunk)).map(|ids| ids.end - ids.start).sum()
        });
        held.max().unwrap_or(0)
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
            let (resident, chunks, keeps) = (self.resident, &self.chunks, self.keeps);
            let common = self.common.get_or_insert_with(|| {
                Arc::new(Common::new(space, chunks.clone(), resident, queries, keeps))
            });
            let common = Arc::clone(common);
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
            if self.keeps.k.is_some() || self.keeps.range.is_some() {
                // What the block asks for takes long the first time: many slots do it sooner than a feeding thread.
                space.store().read::<_, BoxError>(|objects| {
                    wanted.iter().try_for_each(|(_, id)| space.sigma_self(objects, *id).map(drop))?;
                    Ok(())
                })?;
            }
            self.blocks.submit(SqfdBlock::new(&common, envelopes, wanted), cx.outside());
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
            batches.extend(match self.resident {
                true => {
                    let (first, last) = (self.chunks.of(store, first)?, self.chunks.of(store, last)?);
                    self.chunks.batches(store, first).start..self.chunks.batches(store, last).end
                }
                false => store.locate(first)?.0..store.locate(last)?.0 + 1,
            });
        }
        batches.sort_unstable();
        batches.dedup();
        batches.retain(|batch| !store.is_checked(*batch));
        if !batches.is_empty() {
            cx.detached("disk", || store.bring_in(batches.iter().map(|batch| store.ids(*batch).start)))??;
        }
        Ok(())
    }
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
                let query_sigma = queries.at(queries.idx(run[0])?).prepared.sigma_self();
                for (_, cross) in run.iter().zip(&mut crosses) {
                    let sigma_self = space.sigma_self(objects, ids[distances.len()])?;
                    distances.push(reference::distance(query_sigma, sigma_self, *cross));
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
            let sigma_self = space.sigma_self(objects, id)?;
            numbers.push(query.number);
            ids.push(id);
            distances.push(reference::distance(query.prepared.sigma_self(), sigma_self, *cross));
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
