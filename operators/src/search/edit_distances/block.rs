//! A chunk of texts for all queries of a request, on its way to a device and back.

use std::ops::Range;
use std::sync::Arc;

use boxwork_kernels::distance::TextPlanes;
use boxwork_kernels::distance::edits::{CodedQueries, DISTANCE_BITS, Shape};
use boxwork_runtime::feeding::{Back, Block, DeviceError, Feed, SharedKey};

use super::chunks::Chunk;
use crate::devices::device_kernels::{Limits, compare_with_queries};

/// One of so many distances becomes an entry, for which there is room; the others are above the limits.
const ENTRIES_SHARE: usize = 16;
/// Room for entries of a block at least, if it has as many distances, and at most.
const ENTRIES_MIN: usize = 1 << 10;
const ENTRIES_MAX: usize = 1 << 20;

/// A chunk, and what a device has found in it.
pub(super) struct EditBlock {
    pub(super) chunk: Chunk,
    pub(super) planes: Arc<TextPlanes>,
    /// The key of the chunk's words.
    key: SharedKey,
    lengths: Arc<[usize]>,
    queries: CodedQueries,
    /// By query: the largest distance that is wanted, or a negative number. Nothing if all are.
    limits: Option<Vec<i32>>,
    brings: bool,
    /// The device that computed it last.
    pub(super) device: String,
    count: usize,
    entries: Vec<[u32; 2]>,
    distances: Vec<u8>,
    is_wide: bool,
}

/// The distances that a device has found.
pub(super) enum Found<'b> {
    /// By query and position.
    All(Distances<'b>),
    /// Queries, positions and distances, in any order.
    Listed(Vec<(usize, usize, u32)>),
    /// More were wanted than there was room for.
    TooMany,
}

/// All distances of a block.
#[derive(Clone, Copy)]
pub(super) struct Distances<'b> {
    bytes: &'b [u8],
    positions: usize,
    is_wide: bool,
}

impl Distances<'_> {
    pub(super) fn get(&self, query: usize, position: usize) -> u32 {
        let place = query * self.positions + position;
        match self.is_wide {
            false => u32::from(self.bytes[place]),
            true => u32::from(u16::from_le_bytes([self.bytes[2 * place], self.bytes[2 * place + 1]])),
        }
    }
}

impl EditBlock {
    /// A block; `limits` are by query, and infinite if all distances are wanted.
    pub(super) fn new(
        chunk: Chunk,
        planes: Arc<TextPlanes>,
        key: SharedKey,
        (lengths, letters): (&Arc<[usize]>, &[Vec<char>]),
        limits: &[f64],
    ) -> Self {
        let queries = CodedQueries::new(&planes, letters.iter().map(Vec::as_slice));
        let most = Shape::of_queries(&planes, lengths, true).limit_max();
        let limits = limits.iter().all(|limit| limit.is_finite()).then(|| {
            // Distances are whole numbers.
            limits.iter().map(|limit| (limit.floor() as i64).clamp(-1, i64::from(most)) as i32).collect()
        });
        Self {
            chunk,
            planes,
            key,
            lengths: Arc::clone(lengths),
            queries,
            limits,
            brings: false,
            device: String::new(),
            count: 0,
            entries: Vec::new(),
            distances: Vec::new(),
            is_wide: false,
        }
    }

    /// Has the next device give all distances.
    pub(super) fn want_all(&mut self) {
        self.limits = None;
    }

    /// The number of queries.
    pub(super) fn queries(&self) -> usize {
        self.lengths.len()
    }

    /// The range of a chunk's ids.
    pub(super) fn ids(&self) -> Range<u64> {
        self.chunk.ids.clone()
    }

    fn pairs(&self) -> usize {
        self.queries() * self.planes.positions()
    }

    fn capacity(&self) -> usize {
        (self.pairs() / ENTRIES_SHARE).clamp(ENTRIES_MIN.min(self.pairs()).max(1), ENTRIES_MAX)
    }

    /// What the device has found; nothing if that cannot be.
    pub(super) fn found(&self) -> Option<Found<'_>> {
        if self.limits.is_none() {
            let bytes = self.pairs() * if self.is_wide { 2 } else { 1 };
            let (positions, is_wide) = (self.planes.positions(), self.is_wide);
            return (self.distances.len() == bytes).then_some(Found::All(Distances {
                bytes: &self.distances,
                positions,
                is_wide,
            }));
        }
        if self.count > self.entries.len() {
            return (self.count <= self.pairs()).then_some(Found::TooMany);
        }
        let mut listed = Vec::with_capacity(self.count);
        for [query, entry] in &self.entries[..self.count] {
            // Texts that fill up the last bundle.
            if *query == u32::MAX {
                continue;
            }
            let (query, position) = (*query as usize, (entry >> DISTANCE_BITS) as usize);
            if query >= self.queries() || position >= self.planes.order().len() {
                return None;
            }
            listed.push((query, position, entry & ((1 << DISTANCE_BITS) - 1)));
        }
        Some(Found::Listed(listed))
    }
}

impl Block for EditBlock {
    fn size(&self) -> u64 {
        self.pairs() as u64
    }

    fn kind(&self) -> &'static str {
        if self.brings { "texts and edit distances" } else { "edit distances" }
    }

    fn feed(&mut self, feed: &mut Feed<'_>) -> Result<(), DeviceError> {
        self.device = feed.device().info().to_string();
        self.brings = !feed.device().holds(self.key);
        let (planes, words) = (Arc::clone(&self.planes), self.planes.words());
        feed.shared("planes", self.key, words.max(1), |to: &mut [u32]| {
            planes.copy_to(&mut to[..words]);
            Ok(())
        })?;
        let capacity = self.capacity();
        let limits = self.limits.as_ref().map(|limits| Limits { limits, capacity });
        let shape = Shape::of_queries(&planes, &self.lengths, limits.is_some());
        self.is_wide = shape.distance_bytes() == 2;
        compare_with_queries(feed, shape, &planes, &self.queries, limits)?;
        if limits.is_some() {
            feed.read::<u32>("counts", 1)?;
            return feed.read::<[u32; 2]>("entries", capacity);
        }
        feed.read::<u8>("distances", self.pairs() * shape.distance_bytes())
    }

    fn collect(&mut self, back: &Back<'_>) {
        if self.limits.is_none() {
            self.distances = back.numbers::<u8>("distances").to_vec();
            return;
        }
        self.count = back.numbers::<u32>("counts")[0] as usize;
        let entries = back.numbers::<[u32; 2]>("entries");
        self.entries = entries[..self.count.min(entries.len())].to_vec();
    }
}
