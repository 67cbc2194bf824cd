//! The lists of a store's objects, made by devices or by slots and written in the order of the objects.
//!
//! Invariant: lists are those of slots. A list of which a device is not certain is made by slots, and so are those of a block that
//! has failed.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use boxwork_runtime::operator::{BoxError, Context, Pushed};
use boxwork_stores::new_number;
use boxwork_stores::permutations::{PermutationError, PermutationMaker, PermutationWriter};
use boxwork_stores::space::Space;

use super::block::{ListsBlock, Pivots};
use crate::devices::stage::{BlockOutcome, DeviceTask, Sizes, Taken};
use crate::resources;

/// Objects whose lists a slot makes before it takes others.
const PIECE_IDS: u64 = 1024;
/// Pieces of a firing, for each slot.
const PIECES_PER_SLOT: usize = 2;
/// Vectors and numbers of a block: 64 MiB at most go to a device.
const BLOCK: [u64; 2] = [1 << 18, 1 << 24];
/// Fewer vectors wait for others, and the last ones are left to slots.
const BLOCK_MIN: [u64; 2] = [4096, u64::MAX];
/// Lists of a block that slots make again.
const CHECKED: usize = 8;

/// The sizes of the stage.
pub(super) fn sizes() -> Sizes {
    Sizes { block: BLOCK, block_min: BLOCK_MIN, slots: [PIECE_IDS, u64::MAX], blocks_per_device: 2 }
}

/// How permutations are made.
pub(super) struct Wanted {
    pub(super) space: Arc<dyn Space>,
    pub(super) pivots: usize,
    /// Pivots of a list.
    pub(super) length: usize,
    pub(super) seed: u64,
    pub(super) out: PathBuf,
}

/// The lists of all objects of a store, as a task for devices.
pub(super) struct AllLists {
    wanted: Wanted,
    slots: usize,
    /// A note for the run.
    note: Option<String>,
    /// Set by the first firing.
    pivots: Option<Arc<Pivots>>,
    // The writer removes its file when dropped.
    writer: Option<PermutationWriter>,
    /// The first id that no piece has.
    next: u64,
    written: u64,
    /// Lists of which a device was certain.
    pub(super) on_devices: u64,
}

impl AllLists {
    pub(super) fn new(wanted: Wanted, slots: usize, note: Option<String>) -> Self {
        Self { wanted, slots, note, pivots: None, writer: None, next: 0, written: 0, on_devices: 0 }
    }

    fn ids_count(&self) -> u64 {
        self.wanted.space.store().ids_count()
    }

    fn maker(&self) -> &PermutationMaker {
        &self.pivots.as_ref().expect("the first firing makes them").maker
    }

    /// Puts the file on disk under its name.
    pub(super) fn end(&mut self, cx: &mut Context<'_>) -> Result<(), BoxError> {
        if let Some(writer) = self.writer.take() {
            cx.detached("disk", || writer.finish())??;
        }
        if self.on_devices > 0 {
            cx.count("lists made on devices", self.on_devices);
        }
        Ok(())
    }

    /// Makes the lists of some objects on slots, piece by piece.
    fn make(&self, cx: &mut Context<'_>, pieces: &mut [(Vec<u64>, Vec<u16>)]) -> Result<(), BoxError> {
        let (maker, failed) = (self.maker(), OnceLock::new());
        cx.inside(|inside| {
            let cancelled = inside.cancelled();
            inside.for_each_chunk_of(pieces, 1, |_, pieces| {
                for (ids, lists) in pieces {
                    if let Err(error) = maker.append(ids, lists, &cancelled) {
                        // The first error is reported.
                        drop(failed.set(error));
                    }
                }
            });
        });
        match failed.into_inner().filter(|_| !cx.is_cancelled()) {
            Some(error) => Err(error.into()),
            None => Ok(()),
        }
    }
}

impl DeviceTask for AllLists {
    /// Consecutive objects.
    type Item = Vec<u64>;
    type Block = ListsBlock;
    /// Lists of consecutive objects, and their number.
    type Made = (Vec<u16>, u64);

    const IS_ORDERED: bool = true;

    fn begin(&mut self, cx: &mut Context<'_>) -> Result<(), BoxError> {
        let (cancelled, wanted) = (cx.cancelled(), &self.wanted);
        let begun = cx.detached("disk", || {
            let Wanted { space, pivots, length, seed, out } = wanted;
            let maker = PermutationMaker::choose(space, *pivots, *length, *seed, &cancelled)?;
            let duplicates = maker.duplicates(&cancelled)?;
            let writer = PermutationWriter::create(out, &maker)?;
            Ok::<_, PermutationError>((maker, writer, duplicates))
        });
        let (maker, writer, duplicates) = begun??;
        if duplicates > 0 {
            let pivots = wanted.pivots;
            cx.note(format!(
                "{duplicates} of {pivots} pivots equal an earlier one and say nothing new: take fewer, or another `seed`"
            ));
        }
        self.note.take().into_iter().for_each(|note| cx.note(note));
        let on_device = maker.on_device();
        (self.pivots, self.writer) =
            (Some(Arc::new(Pivots { maker, on_device, version: new_number() })), Some(writer));
        Ok(())
    }

    fn take(&mut self, _: &mut Context<'_>, device: bool) -> Result<Option<Taken<Vec<u64>>>, BoxError> {
        let (store, end) = (Arc::clone(self.wanted.space.store()), self.ids_count());
        while self.next < end {
            let upto = end.min(self.next + PIECE_IDS);
            let ids: Vec<u64> = store.among(self.next..upto).collect();
            self.next = upto;
            if !ids.is_empty() {
                let count = ids.len() as u64;
                let on_device = self.pivots.as_ref().and_then(|pivots| pivots.on_device.as_ref());
                let numbers = on_device.map_or(0, |pivots| pivots.dimensions as u64);
                // Slots take pieces until a firing has enough of them.
                let weight =
                    if device { count } else { count.div_ceil((PIECES_PER_SLOT * self.slots) as u64) };
                return Ok(Some(Taken::Piece(ids, [weight, count * numbers])));
            }
        }
        Ok(None)
    }

    fn is_ended(&self, _: &Context<'_>) -> bool {
        self.next >= self.ids_count()
    }

    fn has_items(&self) -> bool {
        self.next < self.ids_count()
    }

    fn block(&mut self, cx: &mut Context<'_>, items: Vec<Vec<u64>>) -> Result<ListsBlock, BoxError> {
        let ids = items.concat();
        resources::bring_in(cx, &**self.wanted.space.store(), &ids)?;
        let pivots = self.pivots.as_ref().expect("the first firing makes them");
        Ok(ListsBlock::new(pivots, ids))
    }

    fn finish(
        &mut self,
        cx: &mut Context<'_>,
        mut block: ListsBlock,
    ) -> Result<BlockOutcome<Self>, BoxError> {
        let (count, length) = (block.ids.len(), self.wanted.length);
        let is_whole = block.lists.len() == count * length && block.doubts.len() == count;
        let doubtful = |place: &usize| block.doubts[*place] != 0;
        let mut again: Vec<usize> = Vec::new();
        if is_whole {
            again = (0..count).filter(doubtful).collect();
            again.extend((0..count).step_by(count.div_ceil(CHECKED).max(1)).filter(|place| !doubtful(place)));
        }
        let of_piece = again.len().div_ceil(self.slots).max(1);
        let ids = |places: &[usize]| (places.iter().map(|place| block.ids[*place]).collect(), Vec::new());
        again.sort_unstable();
        let mut pieces: Vec<(Vec<u64>, Vec<u16>)> = again.chunks(of_piece).map(ids).collect();
        self.make(cx, &mut pieces)?;
        if cx.is_cancelled() {
            return Ok(BlockOutcome::Made(Vec::new()));
        }
        let mut is_as_reference = is_whole;
        let lists: Vec<u16> = pieces.into_iter().flat_map(|(_, lists)| lists).collect();
        for (place, list) in again.into_iter().zip(lists.chunks_exact(length)) {
            let found = &mut block.lists[place * length..][..length];
            is_as_reference &= block.doubts[place] != 0 || found == list;
            found.copy_from_slice(list);
        }
        if !is_as_reference {
            let problem = "its permutations differ from the processor's: they are made without devices";
            cx.report(block.device, problem);
            return Ok(BlockOutcome::Untrusted(vec![block.ids]));
        }
        self.on_devices += block.doubts.iter().filter(|doubt| **doubt == 0).count() as u64;
        Ok(BlockOutcome::Made(vec![(block.lists, count as u64)]))
    }

    fn failed(&mut self, block: ListsBlock, _: bool) -> BlockOutcome<Self> {
        BlockOutcome::Fallback(vec![block.ids])
    }

    fn compute(
        &mut self,
        cx: &mut Context<'_>,
        left: &mut VecDeque<Vec<u64>>,
    ) -> Result<Vec<(Vec<u16>, u64)>, BoxError> {
        let ids: Vec<u64> = left.drain(..).flatten().collect();
        let pieces = ids.chunks(PIECE_IDS as usize).map(|ids| (ids.to_vec(), Vec::new()));
        let mut pieces: Vec<(Vec<u64>, Vec<u16>)> = pieces.collect();
        // A block that has failed is more than the work of a firing.
        let rest = pieces.split_off(pieces.len().min(PIECES_PER_SLOT * self.slots));
        left.extend(rest.into_iter().map(|(ids, _)| ids));
        let ids: Vec<u64> = pieces.iter().flat_map(|(ids, _)| ids.iter().copied()).collect();
        resources::bring_in(cx, &**self.wanted.space.store(), &ids)?;
        self.make(cx, &mut pieces)?;
        if cx.is_cancelled() {
            return Ok(Vec::new());
        }
        Ok(pieces.into_iter().map(|(ids, lists)| (lists, ids.len() as u64)).collect())
    }

    fn has_room(&self, _: &Context<'_>) -> bool {
        true
    }

    fn push(&mut self, cx: &mut Context<'_>, (lists, count): Self::Made) -> Result<Pushed, BoxError> {
        let Some(writer) = &mut self.writer else { return Ok(Pushed::Closed) };
        cx.detached("disk", || writer.push(&lists))??;
        self.written += count;
        cx.progress(self.written, self.wanted.space.store().objects_count());
        Ok(Pushed::Sent)
    }
}
