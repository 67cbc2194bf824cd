//! What of the box is on devices: blocks on their way, and those that wait for older ones.
//!
//! Invariant: envelopes become ready in the order in which they were taken, each once, with its distances or without.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::feeding::{Blocks, Devices};
use boxwork_runtime::operator::{BoxError, Context};

use super::block::{Common, ExactBlock};
use super::{Ready, bring_in};
use crate::search::distance::compute_sigmas;
use crate::search::queries::Queries;
use boxwork_stores::sqfd_space::SqfdSpace;

/// Rows of a block from which on it is worth its way, and pairs of centroids: some seconds of a few cores, and far less
/// than what a device may take for a block.
const BLOCK_ROWS: usize = 1 << 16;
const BLOCK_TERMS: u64 = 1 << 28;

/// Blocks of a box on their way, for each device.
const BLOCKS_PER_DEVICE: usize = 6;

/// Rows that are ready and not gone, from which on no more are taken.
const READY_ROWS: usize = 2 * BLOCK_ROWS;

/// Rows of each block that are computed again, and compared.
const CHECKED_ROWS: usize = 16;

pub(super) struct OnDevices {
    space: Arc<SqfdSpace>,
    blocks: Blocks<ExactBlock>,
    blocks_max: usize,
    common: Option<Arc<Common>>,
    waiting: Waiting,
    next_number: u64,
    /// Blocks that are back, by number, until it is their turn.
    back: BTreeMap<u64, Vec<Ready>>,
    next_back: u64,
    pub(super) block_rows: usize,
    pub(super) checked_rows: usize,
    /// Whether all sums so far that were looked at were the reference's.
    is_trusted: bool,
}

/// What is to be the next block.
#[derive(Default)]
struct Waiting {
    envelopes: Vec<Envelope>,
    rows: Vec<(u32, u64)>,
    terms: u64,
}

impl OnDevices {
    pub(super) fn new(space: Arc<SqfdSpace>, devices: Arc<Devices>, allowed: Arc<[usize]>) -> Self {
        Self {
            space,
            blocks_max: BLOCKS_PER_DEVICE * allowed.len(),
            blocks: Blocks::new(devices, allowed),
            common: None,
            waiting: Waiting::default(),
            next_number: 0,
            back: BTreeMap::new(),
            next_back: 0,
            block_rows: BLOCK_ROWS,
            checked_rows: CHECKED_ROWS,
            is_trusted: true,
        }
    }

    /// Whether nothing is on its way, nor waits.
    pub(super) fn is_idle(&self) -> bool {
        self.waiting.envelopes.is_empty() && self.next_back == self.next_number
    }

    fn is_served(&self) -> bool {
        self.is_trusted && self.blocks.is_served()
    }

    /// Whether devices compute nothing more, and all that was taken for them is ready.
    pub(super) fn is_given_up(&self) -> bool {
        !self.is_served() && self.is_idle()
    }

    /// Puts what has come back in order, and hands over what waits.
    pub(super) fn process(
        &mut self,
        cx: &mut Context<'_>,
        queries: &Arc<Queries>,
        ready: &mut VecDeque<Ready>,
    ) -> Result<(), BoxError> {
        while let Some((block, result)) = self.blocks.take() {
            let distances = match result {
                Ok(()) if self.is_right(cx, &block)? => Some(block.distances()?),
                Ok(()) => None,
                Err(error) if error.is_of_device() => None,
                Err(error) => return Err(error.into()),
            };
            let mut distances = distances.map(Vec::into_iter);
            let of_envelope = |candidates: Envelope| {
                let rows = candidates.rows();
                Ready { distances: distances.as_mut().map(|all| all.take(rows).collect()), candidates }
            };
            self.back.insert(block.number, block.envelopes.into_iter().map(of_envelope).collect());
        }
        if self.is_served() {
            self.hand_over(cx, queries, ready)?;
        } else if !self.waiting.envelopes.is_empty() {
            let envelopes = std::mem::take(&mut self.waiting).envelopes;
            let of_envelope = |candidates| Ready { candidates, distances: None };
            self.back.insert(self.next_number, envelopes.into_iter().map(of_envelope).collect());
            self.next_number += 1;
        }
        while let Some(next) = self.back.remove(&self.next_back) {
            self.next_back += 1;
            ready.extend(next);
        }
        Ok(())
    }

    /// Whether a block's sums are the reference's; a device where they are not is told of, once.
    fn is_right(&mut self, cx: &mut Context<'_>, block: &ExactBlock) -> Result<bool, BoxError> {
        let is_right = block.is_as_reference(self.checked_rows)?;
        if !is_right && std::mem::replace(&mut self.is_trusted, false) {
            let told =
                "its sums in 64 bits are not those of the processor: distances are computed without devices";
            cx.report(block.device.clone(), told);
        }
        Ok(is_right)
    }

    fn hand_over(
        &mut self,
        cx: &mut Context<'_>,
        queries: &Arc<Queries>,
        ready: &VecDeque<Ready>,
    ) -> Result<(), BoxError> {
        let space = &Arc::clone(&self.space);
        let common = match &self.common {
            Some(common) => Arc::clone(common),
            None => Arc::clone(self.common.insert(Arc::new(Common::new(space, queries)?))),
        };
        let is_full = ready.iter().map(|ready| ready.candidates.rows()).sum::<usize>() >= READY_ROWS;
        // Blocks that are back and wait for an older one are kept few as well.
        while !is_full && ((self.next_number - self.next_back) as usize) < self.blocks_max {
            while !self.waiting.is_enough(self.block_rows)
                && let Some(candidates) = cx.take("candidates")
            {
                bring_in(cx, &**space, std::slice::from_ref(&candidates))?;
                self.waiting.add(space, queries, &common, candidates)?;
            }
            let is_enough = self.waiting.is_enough(self.block_rows);
            let may_go = is_enough || self.blocks.in_flight() == 0 || cx.is_ended("candidates");
            if self.waiting.envelopes.is_empty() || !may_go {
                break;
            }
            let Waiting { envelopes, rows, terms } = std::mem::take(&mut self.waiting);
            let mut ids: Vec<u64> = rows.iter().map(|(_, id)| *id).collect();
            ids.sort_unstable();
            ids.dedup();
            let block = ExactBlock::new(&common, self.next_number, envelopes, rows, terms);
            self.next_number += 1;
            self.blocks.submit(block, cx.outside());
            // While the device computes. They stay the slots', as they are kept beside the store.
            compute_sigmas(cx, space, ids)?;
        }
        Ok(())
    }
}

impl Waiting {
    fn is_enough(&self, block_rows: usize) -> bool {
        self.rows.len() >= block_rows || self.terms >= BLOCK_TERMS
    }

    fn add(
        &mut self,
        space: &SqfdSpace,
        queries: &Queries,
        common: &Common,
        candidates: Envelope,
    ) -> Result<(), BoxError> {
        let (numbers, ids) = (candidates.u32s("query")?, candidates.u64s("id")?);
        let mut ids = ids.iter();
        let mut rows = Vec::with_capacity(numbers.len());
        for run in numbers.chunk_by(|a, b| a == b) {
            let query = queries.idx(run[0])? as u32;
            rows.extend(ids.by_ref().take(run.len()).map(|id| (query, *id)));
        }
        self.terms += space.store().read::<u64, BoxError>(|objects| {
            rows.iter().try_fold(0, |terms, (query, id)| {
                let object = objects.signature(*id)?.len() as u64;
                Ok(terms + common.centroids(*query as usize) * object)
            })
        })?;
        self.rows.extend(rows);
        self.envelopes.push(candidates);
        Ok(())
    }
}
