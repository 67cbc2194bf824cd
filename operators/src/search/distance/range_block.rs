//! A run of whole chunks for some queries, on its way to a device and back: the block of a scan.
//!
//! The host handles no object one by one: all that the kernel reads of a chunk, the positions of its signatures
//! included, is on the device or is brought there and stays. A block of a million objects is thus enqueued in some tens
//! of microseconds.
//!
//! Invariant: a dropped row is never in the answer (`select.rs`).

use std::ops::Range;
use std::sync::Arc;

use boxwork_runtime::feeding::{Back, Block, DeviceError, Feed, Grid, SharedKey, Value};

use super::block::Common;
use super::select::{Part, Select};
use crate::devices::reading::{block_error, feed_of};
use boxwork_stores::chunks::{ChunkLayout, Cut, Form};
use boxwork_stores::signature_store::{Objects, StoreError};

/// The kind of a block that brought nothing to the device.
pub(crate) const DISTANCES_OF_ALL: &str = "distances of all";

/// Whole chunks for consecutive queries.
pub(crate) struct RangeBlock {
    common: Arc<Common>,
    /// The queries, by their places.
    pub(crate) queries: Range<usize>,
    pub(crate) chunks: Range<usize>,
    /// The device that keeps the chunks, unless it has failed.
    pub(crate) home: Option<usize>,
    /// Whether rows may be dropped.
    may_select: bool,
    /// Whether the selection runs in this block.
    selects: bool,
    /// Whether it brought anything to a device that stays there.
    pub(super) brings: bool,
    pub(crate) found: Found,
}

/// The results of a block.
pub(crate) enum Found {
    Nothing,
    /// For each kept row: the query's place, the object, the weighted similarity.
    Kept(Vec<(usize, u64, f64)>),
    /// The device's sums by query, then by piece, through all chunks: see [`RangeBlock::each`].
    All(Vec<f32>),
}

impl RangeBlock {
    pub(super) fn new(
        common: &Arc<Common>,
        queries: Range<usize>,
        chunks: Range<usize>,
        home: Option<usize>,
    ) -> Self {
        let common = Arc::clone(common);
        let (may_select, selects, brings, found) = (true, false, false, Found::Nothing);
        Self { common, queries, chunks, home, may_select, selects, brings, found }
    }

    /// Whether more rows passed the selection than the buffer holds: then the whole block must be computed again.
    pub(super) fn is_missing(&mut self) -> bool {
        let is_missing = self.selects && matches!(self.found, Found::Nothing);
        self.may_select &= !is_missing;
        is_missing
    }

    /// The ids of its objects, including removed ones.
    pub(crate) fn ids(&self) -> Range<u64> {
        let (store, cut) = (self.common.space.store(), self.common.space.chunks().cut);
        cut.ids(store, self.chunks.start).start..cut.ids(store, self.chunks.end - 1).end
    }

    /// The devices' key for the objects' similarities to themselves.
    pub(super) fn sigmas_key(&self) -> SharedKey {
        let (first, last) = (self.chunks.start as u64, self.chunks.end as u64);
        SharedKey { resource: self.common.space.number(), form: 0, part: first << 32 | last }
    }

    /// The layouts of its chunks, all of which were fed.
    fn layouts<'a>(&'a self, objects: Objects<'_>) -> Result<Vec<&'a ChunkLayout>, StoreError> {
        let chunks = self.common.space.chunks();
        self.chunks.clone().map(|chunk| chunks.chunk_layout(objects, &self.common.shape, chunk)).collect()
    }

    /// Calls a function with each object among some ids, in order, and its weighted similarity to the query at a place, from
    /// the sums of [`Found::All`].
    ///
    /// # Errors
    /// Those of the function, and when a batch is damaged.
    pub(crate) fn each<E: From<StoreError>>(
        &self,
        objects: Objects<'_>,
        (place, ids): (usize, &Range<u64>),
        sums: &[f32],
        mut f: impl FnMut(u64, f64) -> Result<(), E>,
    ) -> Result<(), E> {
        let layouts = self.layouts(objects)?;
        let pieces = sums.len() / self.queries.len();
        let mut sums = &sums[(place - self.queries.start) * pieces..][..pieces];
        for layout in layouts {
            let (here, beyond) = sums.split_at(layout.pieces);
            for idx in layout.places_of(ids) {
                f(layout.id(idx), layout.sum(idx, here))?;
            }
            sums = beyond;
        }
        Ok(())
    }

    /// The selection for this block; `None` unless every signature is one piece and enough rows can be dropped.
    fn select(&self, layouts: &[&ChunkLayout]) -> Option<&Select> {
        let select = self.common.select.as_ref().filter(|_| self.may_select)?;
        let objects = layouts.iter().map(|layout| layout.len()).sum();
        (layouts.iter().all(|layout| layout.is_whole()) && select.is_worth(objects)).then_some(select)
    }

    fn part(&self, objects: usize) -> Part {
        Part { objects, sums_first: 0, queries_first: self.queries.start, queries_count: self.queries.len() }
    }

    fn enqueue(&mut self, objects: Objects<'_>, feed: &mut Feed<'_>) -> Result<(), DeviceError> {
        let common = Arc::clone(&self.common);
        let (store, chunks) = (objects.store(), common.space.chunks());
        let layouts = self.layouts(objects).map_err(block_error)?;
        let (pieces, count) = (layouts.iter().map(|layout| layout.pieces).sum::<usize>(), self.queries.len());
        let (selects, mut brings, sums) = (self.select(&layouts).is_some(), false, pieces * count);
        common.send_queries(feed)?;
        feed.output::<f32>("sums", sums)?;
        let columns = common.shape.dimensions() + 1;
        let mut sums_first = 0;
        for (chunk, layout) in self.chunks.clone().zip(&layouts).filter(|(_, layout)| layout.pieces > 0) {
            let fill = |column: usize, to: &mut [f32]| {
                let lies = chunks.chunk(objects, chunk).map_err(block_error)?;
                lies.copy_column(objects, column, to).map_err(block_error)
            };
            let key = Cut::key(store, Form::Columns, chunk);
            if common.residence.is_kept(chunk) {
                brings |= !feed.device().holds(key);
                feed.shared_in_parts("columns", key, columns * layout.stride, layout.stride, fill)?;
            } else {
                feed.pinned_in_parts("columns", key, columns * layout.stride, layout.stride, fill)?;
            }
            feed.shared("tiles", Cut::key(store, Form::Tiles, chunk), layout.tiles, |to| {
                let (_, whole) = chunks.layout(objects, &common.shape, chunk).map_err(block_error)?;
                to.copy_from_slice(&whole.tiles);
                Ok(())
            })?;
            feed.shared("pieces", Cut::key(store, Form::Pieces, chunk), layout.pieces, |to| {
                let (_, whole) = chunks.layout(objects, &common.shape, chunk).map_err(block_error)?;
                to.copy_from_slice(&whole.pieces);
                Ok(())
            })?;
            let number = |value: usize| Value::of(value as u32);
            let values = [
                ("stride", number(layout.stride)),
                ("tiles_first", number(0)),
                ("pieces_first", number(0)),
                // The sums of one query stand together through all chunks.
                ("pieces_count", number(pieces)),
                ("queries_first", number(self.queries.start)),
                ("queries_count", number(count)),
                ("factor", Value::of(common.factor)),
                ("alpha", Value::of(common.space.measure().alpha() as f32)),
                ("sums_first", number(sums_first)),
            ];
            let (program, items) = common.kernel(feed.device(), false);
            feed.launch(program, "sqfd", Grid::of([layout.tiles * count], [items]), &values)?;
            sums_first += layout.pieces;
        }
        if let Some(select) = self.select(&layouts) {
            feed.shared("sigmas", self.sigmas_key(), pieces, |to: &mut [f32]| {
                let ids = layouts.iter().flat_map(|layout| (0..layout.len()).map(|idx| layout.id(idx)));
                for (to, id) in to.iter_mut().zip(ids) {
                    *to = common.space.sigma_self(objects, id).map_err(block_error)? as f32;
                }
                Ok(())
            })?;
            select.enqueue(feed, &[self.part(pieces)], sums)?;
        } else if sums > 0 {
            feed.read::<f32>("sums", sums)?;
        }
        (self.selects, self.brings) = (selects, brings);
        Ok(())
    }
}

impl Block for RangeBlock {
    fn size(&self) -> u64 {
        let ids = self.ids();
        (ids.end - ids.start) * self.queries.len() as u64
    }

    fn kind(&self) -> &'static str {
        if self.brings { "chunks and distances of all" } else { DISTANCES_OF_ALL }
    }

    fn feed(&mut self, feed: &mut Feed<'_>) -> Result<(), DeviceError> {
        let common = Arc::clone(&self.common);
        feed_of(common.space.store(), |objects| self.enqueue(objects, feed))
    }

    fn collect(&mut self, back: &Back<'_>) {
        let common = Arc::clone(&self.common);
        // The layouts are in memory, so nothing is read and nothing can fail.
        let found = common.space.store().read::<_, StoreError>(|objects| {
            let layouts = self.layouts(objects)?;
            let pieces: usize = layouts.iter().map(|layout| layout.pieces).sum();
            if let Some(select) = common.select.as_ref().filter(|_| self.selects) {
                let part = self.part(pieces);
                let kept = select.collect(back, &[part], |_, query, object| (query * pieces + object) as u32);
                return Ok(kept.map_or(Found::Nothing, |kept| {
                    let rows = kept.iter().map(|kept| {
                        let (query, object) = (kept.row as usize / pieces, kept.row as usize % pieces);
                        (self.queries.start + query, id_of(&layouts, object), f64::from(kept.cross))
                    });
                    let mut rows: Vec<_> = rows.collect();
                    rows.sort_unstable_by_key(|row| (row.0, row.1));
                    Found::Kept(rows)
                }));
            }
            let sums = if pieces > 0 { back.numbers("sums").to_vec() } else { Vec::new() };
            Ok(Found::All(sums))
        });
        self.found = found.unwrap_or(Found::Nothing);
    }
}

/// The object at a place in the sequence of some chunks' objects.
fn id_of(layouts: &[&ChunkLayout], mut place: usize) -> u64 {
    for layout in layouts {
        if place < layout.len() {
            return layout.id(place);
        }
        place -= layout.len();
    }
    unreachable!("a place beyond all chunks")
}
