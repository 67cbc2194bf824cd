//! The scan of all texts, as a task for devices and slots: a chunk of texts for all queries is a block.
//!
//! Rows leave in one order, whatever computes them: pieces of a batch by their ids, and in each piece query by query.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::feeding::Devices;
use boxwork_runtime::operator::{BoxError, Context, Pushed};
use boxwork_stores::space::{Space, SpaceError};

use super::DISTANCES;
use super::block::{Distances, EditBlock, Found};
use super::chunks::{Chunk, Cut, Shared};
use super::form::{Form, Wanted};
use super::long_devices::LongDevices;
use super::search::{Asked, PIECE_ROWS, Piece, Search};
use crate::columns::distances_envelope;
use crate::devices::stage::{BlockOutcome, DeviceTask, Sizes, Taken};
use crate::resources;

/// Rows of an envelope at most.
const ENVELOPE_ROWS: usize = 4096;
/// Pieces of a firing, for each slot.
const PIECES_PER_SLOT: usize = 4;
/// Fewer pairs are left to slots, unless the user asks for devices; and tables of fewer cells, about, if texts are aligned. Both are guesses.
const DEVICE_PAIRS_MIN: u64 = 1 << 26;
const DEVICE_CELLS_MIN: u64 = 1 << 33;
/// Distances of a block that slots compute again, if tables have not more cells together; at least one.
const CHECKED: usize = 16;
const CHECKED_CELLS: usize = 1 << 24;

/// Chunks are whole blocks; slots take an item a firing.
pub(super) const SIZES: Sizes =
    Sizes { block: [1, 1], block_min: [1, 1], slots: [1, 1], blocks_per_device: 2 };

/// Devices that may compute, and the texts as they take them.
pub(super) struct OnDevices {
    shared: Arc<Shared>,
    wanted: Wanted,
    devices: (Arc<Devices>, Arc<[usize]>),
    /// Whether slots may compute what they finish sooner.
    is_auto: bool,
    /// How the store is cut for the queries; set by the first firing.
    cut: Option<Cut>,
    /// A cut for tests.
    pub(super) given: Option<Cut>,
    lengths: Arc<[usize]>,
    /// By query for devices: the k-th smallest distance among the first texts.
    first: Vec<f64>,
}

impl OnDevices {
    pub(super) fn new(
        shared: Arc<Shared>,
        wanted: Wanted,
        devices: (Arc<Devices>, Arc<[usize]>),
        is_auto: bool,
    ) -> Self {
        let (cut, given, lengths, first) = (None, None, Arc::from([]), Vec::new());
        Self { shared, wanted, devices, is_auto, cut, given, lengths, first }
    }

    pub(super) fn devices(&self) -> (Arc<Devices>, Arc<[usize]>) {
        self.devices.clone()
    }

    /// Whether devices compute the distances of these texts from the queries.
    fn fits(&self, form: &Form) -> bool {
        self.wanted.fits(self.lengths.iter().copied().max().unwrap_or(0), form)
    }
}

/// A chunk, with its texts as devices take them if one computes it.
pub(super) struct Item(Chunk, Option<Arc<Form>>);

/// A computation on a piece, which may be interrupted.
type OnPiece<'f> = dyn Fn(&mut Piece, &dyn Fn() -> bool) -> Result<(), SpaceError> + Sync + 'f;

/// The scan of a store.
pub(super) struct EditScan {
    space: Arc<dyn Space>,
    k: Option<usize>,
    range: f64,
    /// A note for the run.
    note: Option<String>,
    /// Pieces of a firing.
    pieces: usize,
    on_devices: Option<OnDevices>,
    /// The devices of long pairs.
    pub(super) long: LongDevices,
    /// Set by the first firing.
    asked: Option<Asked>,
    /// The batch that is compared next, and the first id in it that is not compared yet.
    batch: usize,
    next: u64,
    /// Distances that devices have found.
    pub(super) of_devices: u64,
}

impl EditScan {
    pub(super) fn new(
        space: Arc<dyn Space>,
        (k, range): (Option<usize>, f64),
        slots: usize,
        note: Option<String>,
        (on_devices, long): (Option<OnDevices>, LongDevices),
    ) -> Self {
        let (pieces, asked) = (PIECES_PER_SLOT * slots, None);
        Self { space, k, range, note, pieces, on_devices, long, asked, batch: 0, next: 0, of_devices: 0 }
    }

    fn asked(&self) -> &Asked {
        self.asked.as_ref().expect("the first firing reads the queries")
    }

    fn search(&self) -> Search<'_> {
        Search { space: &*self.space, asked: self.asked(), k: self.k, range: self.range }
    }

    /// The ids of the next piece, and whether it has texts; nothing at the end of the store.
    fn next_piece(&mut self) -> Option<(Range<u64>, bool)> {
        let store = self.space.store();
        if self.batch >= store.batches() {
            return None;
        }
        let of_batch = store.batch_ids(self.batch);
        let first = self.next.max(of_batch.start);
        let upto = of_batch.end.min(first + PIECE_ROWS);
        self.next = upto;
        if upto == of_batch.end {
            self.batch += 1;
        }
        Some((first..upto, store.count(first..upto) > 0))
    }

    /// The next pieces for slots; none at the end of the store.
    fn next_for_slots(&mut self) -> Option<Chunk> {
        let mut chunk = Chunk { ids: self.next..self.next, pieces: VecDeque::new() };
        while chunk.pieces.len() < self.pieces {
            let Some((ids, has_texts)) = self.next_piece() else { break };
            chunk.ids.end = ids.end;
            chunk.pieces.extend(has_texts.then_some(ids));
        }
        (!chunk.pieces.is_empty()).then_some(chunk)
    }

    /// The next chunk for a device, in memory; nothing at the end of the store.
    fn next_chunk(&mut self, cx: &mut Context<'_>) -> Result<Option<Item>, BoxError> {
        let Some((cut, shared)) =
            self.on_devices.as_ref().and_then(|on| Some((on.cut?, Arc::clone(&on.shared))))
        else {
            return Ok(self.next_for_slots().map(|chunk| Item(chunk, None)));
        };
        let mut chunk = Chunk { ids: self.next..self.next, pieces: VecDeque::new() };
        let mut letters = 0;
        while !cut.is_full(chunk.ids.end - chunk.ids.start, letters) || chunk.ids.is_empty() {
            let Some((ids, has_texts)) = self.next_piece() else { break };
            resources::bring_in(cx, &**self.space.store(), &[ids.start])?;
            if chunk.ids.is_empty() {
                chunk.ids.start = ids.start;
            }
            letters += shared.letters(ids.clone())?;
            chunk.ids.end = ids.end;
            chunk.pieces.extend(has_texts.then_some(ids));
        }
        if chunk.pieces.is_empty() {
            return Ok(None);
        }
        let form = shared.form(cx, cut, &chunk.ids)?;
        let fits =
            |form: &Arc<Form>| self.on_devices.as_ref().is_some_and(|on_devices| on_devices.fits(form));
        Ok(Some(Item(chunk, form.filter(fits))))
    }

    /// Decides whether devices compute, and how the store is cut for them.
    fn prepare_devices(&mut self, cx: &mut Context<'_>) -> Result<(), BoxError> {
        let (Some(on_devices), Some(asked)) = (&self.on_devices, &self.asked) else { return Ok(()) };
        let Some(of_devices) = &asked.of_devices else { return Ok(()) };
        let lengths: Arc<[usize]> = of_devices.letters.iter().map(Vec::len).collect();
        let letters: usize = lengths.iter().sum();
        let pairs = self.space.store().objects_count().saturating_mul(lengths.len() as u64);
        let is_enough = match on_devices.wanted {
            _ if pairs == 0 => false,
            _ if !on_devices.is_auto => true,
            Wanted::Levenshtein => pairs >= DEVICE_PAIRS_MIN,
            Wanted::Alignments(_) => {
                let of_texts = on_devices.shared.letters_about(cx, &**self.space.store())?;
                of_texts.saturating_mul(letters as u64) >= DEVICE_CELLS_MIN
            }
        };
        if !is_enough {
            return Ok(());
        }
        let has_limits = self.k.is_some() || self.range.is_finite();
        let cut = Cut::new(&on_devices.wanted, lengths.len(), letters, has_limits);
        let first = self.first(cx)?;
        let on_devices = self.on_devices.as_mut().expect("they are there");
        (on_devices.cut, on_devices.lengths) = (Some(on_devices.given.unwrap_or(cut)), lengths);
        on_devices.first = first;
        Ok(())
    }

    /// By query for devices: the k-th smallest distance among the first texts, which bounds that among all.
    fn first(&self, cx: &mut Context<'_>) -> Result<Vec<f64>, BoxError> {
        let (store, asked) = (self.space.store(), self.asked());
        let places = asked.of_devices.as_ref().map_or(&[][..], |of_devices| &of_devices.places);
        let ids = 0..store.ids_count().min(PIECE_ROWS).min(store.batch_ids(0).end);
        let Some(k) = self.k.filter(|k| *k as u64 <= store.count(ids.clone())) else {
            return Ok(vec![f64::INFINITY; places.len()]);
        };
        resources::bring_in(cx, &**store, &[ids.start])?;
        let mut of_queries: Vec<(usize, Result<f64, SpaceError>)> =
            places.iter().map(|place| (*place, Ok(f64::INFINITY))).collect();
        cx.inside(|inside| {
            let cancelled = inside.cancelled();
            inside.for_each_chunk_of(&mut of_queries, 1, |_, of_queries| {
                let mut found = vec![0.0; (ids.end - ids.start) as usize];
                for (place, kth) in of_queries {
                    let computed =
                        asked.prepared.fast_until(*place..*place + 1, ids.clone(), &mut found, &cancelled);
                    let of_texts = found.iter().zip(ids.clone()).filter(|(_, id)| store.has(*id));
                    let mut of_texts: Vec<f64> = of_texts.map(|(distance, _)| *distance).collect();
                    *kth = computed.map(|()| *of_texts.select_nth_unstable_by(k - 1, f64::total_cmp).1);
                }
            });
        });
        Ok(of_queries.into_iter().map(|(_, kth)| kth).collect::<Result<_, _>>()?)
    }

    /// The largest distance of each query for devices that matters in texts that come after all that have been found.
    fn limits(&self, on_devices: &OnDevices) -> Vec<f64> {
        let asked = self.asked();
        let places = asked.of_devices.as_ref().map_or(&[][..], |of_devices| &of_devices.places);
        let of_query = |(place, first): (&usize, &f64)| {
            // A text at the distance of the k-th has a larger id than that.
            let kth =
                self.k.and_then(|k| asked.nearest[*place].get(k - 1)).map_or(f64::INFINITY, |kth| kth - 1.0);
            self.range.min(*first).min(kth)
        };
        places.iter().zip(&on_devices.first).map(of_query).collect()
    }

    /// Computes on each piece, side by side.
    fn each_piece(
        &self,
        cx: &mut Context<'_>,
        pieces: &mut [Piece],
        f: &OnPiece<'_>,
    ) -> Result<(), BoxError> {
        let failed = OnceLock::new();
        cx.inside(|inside| {
            let cancelled = inside.cancelled();
            inside.for_each_chunk_of(pieces, 1, |_, pieces| {
                for piece in pieces {
                    if let Err(error) = f(piece, &cancelled) {
                        // The first error is reported.
                        drop(failed.set(error));
                    }
                }
            });
        });
        failed.into_inner().map_or(Ok(()), |error| Err(error.into()))
    }

    /// Ends with pieces in which all rows but those of long texts are found.
    fn end(&mut self, cx: &mut Context<'_>, mut pieces: Vec<Piece>) -> Result<Vec<Envelope>, BoxError> {
        let asked = self.asked.as_mut().expect("the first firing reads the queries");
        let search = Search { space: &*self.space, asked, k: self.k, range: self.range };
        search.find_long(cx, &mut pieces, &mut self.long)?;
        self.space.store().confirm()?;
        let mut rows = Vec::new();
        for piece in pieces {
            if let Some(k) = self.k {
                asked.learn(&piece.rows, k);
            }
            rows.extend(piece.rows);
        }
        rows.chunks(ENVELOPE_ROWS).map(|rows| Ok(distances_envelope(rows)?)).collect()
    }

    /// Whether some distances of a block are those of slots.
    fn is_as_reference(&self, block: &EditBlock, found: &Found<'_>) -> Result<bool, BoxError> {
        let asked = self.asked();
        let Some(of_devices) = &asked.of_devices else { return Ok(false) };
        let (order, first) = (block.texts.order(), block.ids().start);
        let is_so = |query: usize, position: usize, distance: f64| -> Result<bool, SpaceError> {
            let id = first + u64::from(order[position]);
            let wanted = asked.prepared.distance(of_devices.places[query], id, &|| false)?;
            Ok(distance == wanted)
        };
        let (queries, texts) = (block.queries(), order.len());
        let checked = (CHECKED_CELLS / block.cells_max().max(1)).clamp(1, CHECKED);
        let some = |count: usize| (0..count).step_by(count.div_ceil(checked).max(1));
        let mut is_same = true;
        match found {
            Found::All(distances) => {
                for pair in some(queries * texts) {
                    let (query, position) = (pair / texts, pair % texts);
                    is_same &= is_so(query, position, distances.get(query, position))?;
                }
            }
            Found::Listed(listed) => {
                for entry in some(listed.len()) {
                    let (query, position, distance) = listed[entry];
                    is_same &= is_so(query, position, f64::from(distance))?;
                }
            }
            Found::TooMany => {}
        }
        Ok(is_same)
    }

    /// Adds to each piece the rows of the queries that devices compare, and those that slots compute for them.
    fn add_rows(
        &self,
        cx: &mut Context<'_>,
        pieces: &mut [Piece],
        block: &EditBlock,
        found: Found<'_>,
    ) -> Result<(), BoxError> {
        let (first, order) = (block.ids().start, block.texts.order());
        let Some(of_devices) = &self.asked().of_devices else { return Ok(()) };
        let mut positions = vec![None; (block.ids().end - first) as usize];
        order.iter().zip(0..).for_each(|(text, position)| positions[*text as usize] = Some(position));
        let mut listed: Vec<(u64, usize, u32)> = Vec::new();
        let all: Option<Distances<'_>> = match found {
            Found::All(distances) => Some(distances),
            Found::Listed(entries) => {
                let of_entry = |(query, position, distance): (usize, usize, u32)| {
                    (first + u64::from(order[position]), of_devices.places[query], distance)
                };
                listed.extend(entries.into_iter().map(of_entry));
                listed.sort_unstable();
                None
            }
            Found::TooMany => return Ok(()),
        };
        let rest: Vec<u64> = block.texts.rest().iter().map(|text| first + u64::from(*text)).collect();
        let search = self.search();
        self.each_piece(cx, pieces, &|piece, cancelled| {
            let ids = piece.ids.clone();
            let within = |id: &u64| ids.contains(id);
            if let Some(distances) = all {
                let mut found = vec![f64::INFINITY; (ids.end - ids.start) as usize];
                for (query, place) in of_devices.places.iter().enumerate() {
                    let of_piece = &positions[(ids.start - first) as usize..];
                    for (found, position) in found.iter_mut().zip(of_piece) {
                        // Texts that are too long are added below.
                        *found = position.map_or(f64::INFINITY, |at| distances.get(query, at));
                    }
                    search.select(*place, ids.start, &found, &mut piece.rows);
                }
            }
            let begin = listed.partition_point(|entry| entry.0 < ids.start);
            for (id, place, distance) in listed[begin..].iter().take_while(|entry| within(&entry.0)) {
                search.select(*place, *id, &[f64::from(*distance)], &mut piece.rows);
            }
            for id in rest.iter().filter(|id| within(id) && self.space.store().has(**id)) {
                for place in &of_devices.places {
                    let found = search.asked.prepared.distance(*place, *id, cancelled)?;
                    search.select(*place, *id, &[found], &mut piece.rows);
                }
            }
            search.find(&of_devices.rest, piece, cancelled)?;
            piece.rows.sort_unstable_by_key(|(query, id, _)| (*query, *id));
            search.find_for_long(piece, cancelled)
        })
    }
}

impl DeviceTask for EditScan {
    type Item = Item;
    type Block = EditBlock;
    type Made = Envelope;

    const IS_ORDERED: bool = true;

    fn begin(&mut self, cx: &mut Context<'_>) -> Result<(), BoxError> {
        self.note.take().into_iter().for_each(|note| cx.note(note));
        let most = self.on_devices.as_ref().map(|on_devices| on_devices.wanted.query_letters_max());
        self.asked = Some(Asked::new(cx, &self.space, most)?);
        self.prepare_devices(cx)
    }

    fn take(&mut self, cx: &mut Context<'_>, device: bool) -> Result<Option<Taken<Item>>, BoxError> {
        if self.is_ended(cx) {
            return Ok(None);
        }
        if !device {
            return Ok(self.next_for_slots().map(|chunk| Taken::Whole(Item(chunk, None))));
        }
        let item = self.next_chunk(cx)?;
        Ok(item.map(|item| if item.1.is_some() { Taken::Whole(item) } else { Taken::ForSlots(item) }))
    }

    fn is_ended(&self, _: &Context<'_>) -> bool {
        !self.has_items()
    }

    fn has_items(&self) -> bool {
        !self.asked().numbers.is_empty() && self.batch < self.space.store().batches()
    }

    fn block(&mut self, _: &mut Context<'_>, items: Vec<Item>) -> Result<EditBlock, BoxError> {
        let Some((Item(chunk, Some(texts)), on_devices, of_devices)) = items
            .into_iter()
            .next()
            .and_then(|item| Some((item, self.on_devices.as_ref()?, self.asked().of_devices.as_ref()?)))
        else {
            unreachable!("a block is a chunk of texts")
        };
        let cut = on_devices.cut.expect("chunks are cut");
        let key = cut.key(&on_devices.wanted, self.space.store().number(), &chunk.ids);
        let queries = (&on_devices.lengths, &*of_devices.letters);
        Ok(EditBlock::new(chunk, (texts, key), &on_devices.wanted, queries, &self.limits(on_devices)))
    }

    fn finish(&mut self, cx: &mut Context<'_>, mut block: EditBlock) -> Result<BlockOutcome<Self>, BoxError> {
        let found = block.found();
        if matches!(found, Some(Found::TooMany)) {
            drop(found);
            block.want_all();
            return Ok(BlockOutcome::Retry(block));
        }
        let found = match found {
            Some(found) if self.is_as_reference(&block, &found)? => found,
            _ => {
                let problem =
                    "its edit distances differ from the processor's: they are computed without devices";
                cx.report(block.device.clone(), problem);
                return Ok(BlockOutcome::Untrusted(vec![Item(block.chunk, None)]));
            }
        };
        let mut pieces: Vec<Piece> = block.chunk.pieces.iter().cloned().map(Piece::new).collect();
        self.add_rows(cx, &mut pieces, &block, found)?;
        let pairs = (block.texts.order().len() * block.queries()) as u64;
        cx.count("distances computed on devices", pairs);
        self.of_devices += pairs;
        let made = self.end(cx, pieces)?;
        cx.progress(block.ids().end, self.space.store().ids_count());
        Ok(BlockOutcome::Made(made))
    }

    fn failed(&mut self, block: EditBlock, _: bool) -> BlockOutcome<Self> {
        BlockOutcome::Fallback(vec![Item(block.chunk, None)])
    }

    fn compute(
        &mut self,
        cx: &mut Context<'_>,
        left: &mut VecDeque<Item>,
    ) -> Result<Vec<Envelope>, BoxError> {
        let Some(Item(mut chunk, _)) = left.pop_front() else { return Ok(Vec::new()) };
        let rest = chunk.pieces.split_off(chunk.pieces.len().min(self.pieces));
        let end = rest.front().map_or(chunk.ids.end, |rest| rest.start);
        if !rest.is_empty() {
            left.push_front(Item(Chunk { ids: end..chunk.ids.end, pieces: rest }, None));
        }
        let firsts: Vec<u64> = chunk.pieces.iter().map(|ids| ids.start).collect();
        resources::bring_in(cx, &**self.space.store(), &firsts)?;
        let mut pieces: Vec<Piece> = chunk.pieces.into_iter().map(Piece::new).collect();
        let search = self.search();
        self.each_piece(cx, &mut pieces, &|piece, cancelled| {
            search.find(&search.asked.together, piece, cancelled)?;
            search.find_for_long(piece, cancelled)
        })?;
        let made = self.end(cx, pieces)?;
        cx.progress(end, self.space.store().ids_count());
        Ok(made)
    }

    fn has_room(&self, cx: &Context<'_>) -> bool {
        cx.has_room(DISTANCES)
    }

    fn push(&mut self, cx: &mut Context<'_>, made: Envelope) -> Result<Pushed, BoxError> {
        cx.push(DISTANCES, made)
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod aligned;
