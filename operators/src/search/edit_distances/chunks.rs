//! The texts of a store in the form that devices take, chunk by chunk: made once, and kept for later requests.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use boxwork_kernels::distance::edits::POSITIONS_MAX;
use boxwork_runtime::feeding::SharedKey;
use boxwork_runtime::operator::{BoxError, Context};
use boxwork_stores::kinds::Texts;
use boxwork_stores::object_store::ObjectStore;
use boxwork_stores::store::Store;

use super::form::{Form, Wanted};
use super::search::PIECE_ROWS;
use crate::pieces::side_by_side;
use crate::resources;

/// Texts of a chunk at most: as many as give a device work for one query.
const CHUNK_TEXTS: u64 = 1 << 16;
const _: () = assert!(CHUNK_TEXTS <= POSITIONS_MAX as u64);
/// Distances of a block at most; and if each of them becomes a row.
const BLOCK_PAIRS: u64 = 1 << 26;
const BLOCK_ROWS: u64 = 1 << 22;
/// Cells of the tables of a block, about: some milliseconds of a GPU. Alignments take far longer for each: an H200 computes 2.5e12 to 3e12
/// cells a second.
const BLOCK_CELLS: u64 = 1 << 36;
const BLOCK_CELLS_OF_ALIGNMENTS: u64 = 1 << 34;
/// Ways to cut a store whose chunks are kept. Requests with far more or fewer queries cut it in another way.
const CUTS_MAX: usize = 2;

/// Consecutive texts: their ids, and the pieces with texts among them.
pub(super) struct Chunk {
    pub(super) ids: Range<u64>,
    pub(super) pieces: VecDeque<Range<u64>>,
}

/// How a store is cut into chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cut {
    /// Texts of a chunk at most, and letters, about: powers of two, so that few requests differ in them.
    pub(super) texts: u64,
    pub(super) letters: u64,
}

impl Cut {
    /// The cut for queries, of so many letters together; `has_limits` if few distances become rows.
    pub(super) fn new(wanted: &Wanted, queries: usize, letters: usize, has_limits: bool) -> Self {
        let (pairs, cells) = match wanted {
            Wanted::Levenshtein if has_limits => (BLOCK_PAIRS, BLOCK_CELLS),
            Wanted::Levenshtein => (BLOCK_ROWS, BLOCK_CELLS),
            Wanted::Alignments(_) => (BLOCK_ROWS, BLOCK_CELLS_OF_ALIGNMENTS),
        };
        let down = |number: u64| 1 << number.max(1).ilog2();
        Self {
            texts: down(pairs / queries.max(1) as u64).clamp(PIECE_ROWS, CHUNK_TEXTS),
            letters: down(cells / letters.max(1) as u64),
        }
    }

    /// Whether a chunk has enough texts.
    pub(super) fn is_full(self, texts: u64, letters: u64) -> bool {
        texts + PIECE_ROWS > self.texts || letters >= self.letters
    }

    /// The key of a chunk's texts on a device.
    pub(super) fn key(self, wanted: &Wanted, store: u64, ids: &Range<u64>) -> SharedKey {
        let form = u64::from(wanted.takes_letters()) << 16
            | u64::from(self.texts.ilog2()) << 8
            | u64::from(self.letters.ilog2());
        SharedKey { resource: store, form, part: ids.start }
    }
}

/// By the first id of a chunk: its texts; nothing if devices cannot take them.
type Chunks = HashMap<u64, Option<Arc<Form>>>;

/// The texts of a store as devices take them, which requests share.
pub(super) struct Shared {
    texts: Option<Arc<ObjectStore<Texts>>>,
    are_letters: bool,
    /// The cut that was used last is last.
    made: Mutex<VecDeque<(Cut, Chunks)>>,
}

impl Shared {
    /// The texts of a store: as letters if `are_letters`, else as planes.
    pub(super) fn new(store: &Arc<dyn Store>, are_letters: bool) -> Self {
        Self { texts: ObjectStore::of(store), are_letters, made: Mutex::default() }
    }

    /// Whether the store holds texts.
    pub(super) fn has_texts(&self) -> bool {
        self.texts.is_some()
    }

    /// The number of letters of texts, which are in memory.
    pub(super) fn letters(&self, ids: Range<u64>) -> Result<u64, BoxError> {
        let Some(texts) = &self.texts else { return Ok(0) };
        texts.read::<_, BoxError>(|objects| {
            let mut letters = 0;
            for id in ids {
                letters += objects.item(id)?.len() as u64;
            }
            Ok(letters)
        })
    }

    /// About the number of letters of all texts, by those of the first ones.
    pub(super) fn letters_about(&self, cx: &mut Context<'_>, store: &dyn Store) -> Result<u64, BoxError> {
        let ids = 0..store.ids_count().min(PIECE_ROWS).min(store.batch_ids(0).end);
        resources::bring_in(cx, store, &[ids.start])?;
        let (of_first, first) = (self.letters(ids.clone())?, (ids.end - ids.start).max(1));
        Ok(of_first.saturating_mul(store.objects_count()) / first)
    }

    /// The texts of a chunk, which are in memory; nothing if devices cannot take them.
    pub(super) fn form(
        &self,
        cx: &mut Context<'_>,
        cut: Cut,
        ids: &Range<u64>,
    ) -> Result<Option<Arc<Form>>, BoxError> {
        let Some(texts) = &self.texts else { return Ok(None) };
        let known = self.with(cut, |chunks| chunks.get(&ids.start).cloned());
        if let Some(known) = known {
            return Ok(known);
        }
        let made = texts.read::<_, BoxError>(|objects| {
            let mut letters = Vec::with_capacity((ids.end - ids.start) as usize);
            for id in ids.clone() {
                letters.push(objects.item(id)?);
            }
            Ok(Form::new(self.are_letters, &letters, &mut |count, f| side_by_side(cx, count, f)))
        })?;
        // Of chunks with many texts that are too long, slots would compute most.
        let made = made.filter(|made| made.rest().len() <= made.order().len()).map(Arc::new);
        if !cx.is_cancelled() {
            self.with(cut, |chunks| chunks.insert(ids.start, made.clone()));
        }
        Ok(made)
    }

    fn with<T>(&self, cut: Cut, f: impl FnOnce(&mut Chunks) -> T) -> T {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let place = made.iter().position(|(of, _)| *of == cut);
        let (_, mut chunks) = place.and_then(|place| made.remove(place)).unwrap_or((cut, Chunks::new()));
        let done = f(&mut chunks);
        made.push_back((cut, chunks));
        if made.len() > CUTS_MAX {
            made.pop_front();
        }
        done
    }
}
