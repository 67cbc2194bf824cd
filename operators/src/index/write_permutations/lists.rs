//! The lists of a store's objects, made by devices or by slots and written in the order of the objects.
//!
//! Slots make the lists of whole batches of the file (`piece`). Meanwhile one of them writes the batches of the firing before
//! (decision 173).
//!
//! Invariants: lists are those of slots. A list of which a device is not certain is made by slots, and so are those of a block that
//! has failed. The file has the same bytes for any number of slots.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use boxwork_runtime::inside::Inside;
use boxwork_runtime::operator::{BoxError, Context, Pushed};
use boxwork_stores::new_number;
use boxwork_stores::permutations::{PermutationBatch, PermutationError, PermutationMaker, PermutationWriter};
use boxwork_stores::signature_store::StoreError;
use boxwork_stores::space::Space;

use super::block::{ListsBlock, Pivots};
use super::piece::{Making, PIECE_IDS, Piece, make_each};
use crate::devices::stage::{BlockOutcome, DeviceTask, Sizes, Taken};
use crate::resources;

/// Pieces of a firing, for each slot, if their lists are short and quickly made.
const PIECES_PER_SLOT: usize = 8;
/// Bytes of the lists that a slot makes in a firing. Long lists have more, as a slot makes those of one piece at least.
const FIRING_BYTES: usize = 2 << 20;
const _: () = assert!(FIRING_BYTES == PIECES_PER_SLOT * PIECE_IDS as usize * 32 * size_of::<u16>());
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
    /// Batches that the next firing writes, while it makes others.
    waiting: VecDeque<PermutationBatch>,
    /// Whether the system reads the store's file, so that slots may bring objects in. Set by the first firing.
    is_by_system: bool,
    /// The first id that no piece has.
    next: u64,
    /// Objects whose lists are made.
    made: u64,
    /// Lists of which a device was certain.
    pub(super) on_devices: u64,
}

impl AllLists {
    pub(super) fn new(wanted: Wanted, slots: usize, note: Option<String>) -> Self {
        let waiting = VecDeque::new();
        Self {
            wanted,
            slots,
            note,
            pivots: None,
            writer: None,
            waiting,
            is_by_system: true,
            next: 0,
            made: 0,
            on_devices: 0,
        }
    }

    fn ids_count(&self) -> u64 {
        self.wanted.space.store().ids_count()
    }

    fn maker(&self) -> &PermutationMaker {
        &self.pivots.as_ref().expect("the first firing makes them").maker
    }

    /// Pieces that a firing takes.
    fn pieces(&self) -> usize {
        let bytes = PIECE_IDS as usize * self.wanted.length * size_of::<u16>();
        // Lists by other distances take long, and a firing says only at its end how far it is.
        let is_quick = self.pivots.as_ref().is_some_and(|pivots| pivots.on_device.is_some());
        let most = if is_quick { PIECES_PER_SLOT } else { 1 };
        self.slots * (FIRING_BYTES / bytes).clamp(1, most)
    }

    /// Puts the file on disk under its name.
    pub(super) fn end(&mut self, cx: &mut Context<'_>) -> Result<(), BoxError> {
        if let Some(mut writer) = self.writer.take() {
            let waiting = &mut self.waiting;
            cx.detached("disk", || {
                write(&mut writer, waiting)?;
                writer.finish()
            })??;
        }
        if self.on_devices > 0 {
            cx.count("lists made on devices", self.on_devices);
        }
        Ok(())
    }

    /// Chooses the pivots. Slots check the batches that have some.
    fn choose(&mut self, cx: &mut Context<'_>) -> Result<PermutationMaker, BoxError> {
        let (cancelled, Wanted { space, pivots, length, seed, .. }) = (cx.cancelled(), &self.wanted);
        let ids = PermutationMaker::pick(space, *pivots, *length, *seed)?;
        let (store, mut sorted) = (space.store(), ids.clone());
        sorted.sort_unstable();
        sorted.dedup_by_key(|id| store.locate(*id).map_or(usize::MAX, |(batch, _)| batch));
        let mut batches: Vec<(u64, Option<StoreError>)> = sorted.into_iter().map(|id| (id, None)).collect();
        for (id, _) in &batches {
            self.is_by_system &= store.read_ahead(*id..id + 1);
        }
        if self.is_by_system {
            cx.inside(|inside| {
                inside.for_each_chunk_of(&mut batches, 1, |_, batches| {
                    for (id, error) in batches {
                        *error = store.bring_in_until(&[*id], &cancelled).err();
                    }
                });
            });
        }
        if let Some(error) = batches.into_iter().find_map(|(_, error)| error) {
            return Err(error.into());
        }
        // It blocks on the disk only if the store reads its file by itself.
        Ok(cx.detached("disk", || PermutationMaker::of(space, ids, *length, &cancelled))??)
    }

    /// Makes the lists of some pieces on slots, while one of them writes the waiting batches.
    fn make_batches(&mut self, cx: &mut Context<'_>, pieces: &mut [Piece]) -> Result<(), BoxError> {
        let ahead = self.is_by_system.then_some(self.pieces() as u64 * PIECE_IDS);
        let (Some(pivots), Some(writer)) = (&self.pivots, &mut self.writer) else {
            unreachable!("the first firing makes them")
        };
        let (maker, store) = (&pivots.maker, &**self.wanted.space.store());
        let (waiting, mut written) = (&mut self.waiting, Ok(()));
        cx.inside(|inside| {
            let cancelled = inside.cancelled();
            let making = Making { maker, store, ahead, interrupt: &cancelled };
            // Bytes go to the system's cache; only the end of the file waits for the disk.
            let write = |_: &mut Inside<'_>| written = write(writer, waiting);
            inside.join(|inside| make_each(inside, pieces, making), write);
        });
        Ok(written?)
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

/// Writes the waiting batches.
fn write(
    writer: &mut PermutationWriter,
    waiting: &mut VecDeque<PermutationBatch>,
) -> Result<(), PermutationError> {
    while let Some(batch) = waiting.pop_front() {
        writer.push_batch(batch)?;
    }
    Ok(())
}

/// Lists of consecutive objects, in order.
pub(super) enum Made {
    /// From a device, for so many objects.
    Lists(Vec<u16>, u64),
    /// From slots.
    Batch(PermutationBatch, u64),
}

impl DeviceTask for AllLists {
    /// The objects of a batch of the file; of some batches, if a block has failed.
    type Item = Vec<u64>;
    type Block = ListsBlock;
    type Made = Made;

    const IS_ORDERED: bool = true;

    fn begin(&mut self, cx: &mut Context<'_>) -> Result<(), BoxError> {
        let (maker, cancelled) = (self.choose(cx)?, cx.cancelled());
        let wanted = &self.wanted;
        let begun = cx.detached("disk", || {
            let duplicates = maker.duplicates(&cancelled)?;
            Ok::<_, PermutationError>((PermutationWriter::create(&wanted.out, &maker)?, duplicates))
        });
        let (writer, duplicates) = begun??;
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
                let weight = if device { count } else { PIECE_IDS.div_ceil(self.pieces() as u64) };
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
        Ok(BlockOutcome::Made(vec![Made::Lists(block.lists, count as u64)]))
    }

    fn failed(&mut self, block: ListsBlock, _: bool) -> BlockOutcome<Self> {
        BlockOutcome::Fallback(vec![block.ids])
    }

    fn compute(
        &mut self,
        cx: &mut Context<'_>,
        left: &mut VecDeque<Vec<u64>>,
    ) -> Result<Vec<Made>, BoxError> {
        let most = self.pieces();
        let mut pieces: Vec<Piece> = std::iter::from_fn(|| Piece::take(left)).take(most).collect();
        if !self.is_by_system {
            let ids: Vec<u64> = pieces.iter().flat_map(|piece| piece.ids.iter().copied()).collect();
            resources::bring_in(cx, &**self.wanted.space.store(), &ids)?;
        }
        self.make_batches(cx, &mut pieces)?;
        if cx.is_cancelled() {
            return Ok(Vec::new());
        }
        // The first object's error is reported, whichever slot was faster.
        let made = |piece: Piece| {
            let count = piece.ids.len() as u64;
            Ok(Made::Batch(piece.made.expect("slots make each")?, count))
        };
        pieces.into_iter().map(made).collect()
    }

    fn has_room(&self, _: &Context<'_>) -> bool {
        true
    }

    fn push(&mut self, cx: &mut Context<'_>, made: Made) -> Result<Pushed, BoxError> {
        let Some(writer) = &mut self.writer else { return Ok(Pushed::Closed) };
        self.made += match made {
            Made::Batch(batch, count) => {
                self.waiting.push_back(batch);
                count
            }
            Made::Lists(lists, count) => {
                let waiting = &mut self.waiting;
                cx.detached("disk", || {
                    write(writer, waiting)?;
                    writer.push(&lists)
                })??;
                count
            }
        };
        cx.progress(self.made, self.wanted.space.store().objects_count());
        Ok(Pushed::Sent)
    }
}
