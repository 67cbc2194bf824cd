//! A chunk of texts for all queries of a request, on its way to a device and back.

use std::ops::Range;
use std::sync::Arc;

use boxwork_kernels::distance::alignments::{self, AlignedQueries, Numbers};
use boxwork_kernels::distance::edits::{CodedQueries, DISTANCE_BITS, Shape};
use boxwork_runtime::feeding::{Back, Block, DeviceError, Feed, SharedKey};

use super::chunks::Chunk;
use super::form::{Form, Wanted};
use crate::devices::device_kernels::{Limits, align_with_queries, compare_with_queries};

/// One of so many distances becomes an entry, for which there is room; the others are above the limits.
const ENTRIES_SHARE: usize = 16;
/// Room for entries of a block at least, if it has as many distances, and at most.
const ENTRIES_MIN: usize = 1 << 10;
const ENTRIES_MAX: usize = 1 << 20;

/// A chunk, and what a device has found in it.
pub(super) struct EditBlock {
    pub(super) chunk: Chunk,
    pub(super) texts: Arc<Form>,
    /// The key of the chunk's texts.
    key: SharedKey,
    lengths: Arc<[usize]>,
    queries: Queries,
    /// By query: the largest distance that is wanted, or a negative number. Nothing if all are.
    limits: Option<Vec<i32>>,
    brings: bool,
    /// The device that computed it last.
    pub(super) device: String,
    count: usize,
    entries: Vec<[u32; 2]>,
    distances: Vec<u8>,
    width: usize,
}

/// Queries in the codes of the texts.
enum Queries {
    Edits(CodedQueries),
    Alignments(Arc<Numbers>, AlignedQueries),
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
    /// Bytes of a distance.
    width: usize,
    /// Whether the opposite numbers are the distances.
    are_scores: bool,
}

impl Distances<'_> {
    pub(super) fn get(&self, query: usize, position: usize) -> f64 {
        let bytes = &self.bytes[(query * self.positions + position) * self.width..];
        match (self.width, bytes) {
            (1, [byte, ..]) => f64::from(*byte),
            (2, [low, high, ..]) => f64::from(u16::from_le_bytes([*low, *high])),
            (_, [a, b, c, d, ..]) => {
                let number = f64::from(i32::from_le_bytes([*a, *b, *c, *d]));
                // A score of 0 is no negative zero.
                if self.are_scores { 0.0 - number } else { number }
            }
            _ => unreachable!("a number a pair"),
        }
    }
}

impl EditBlock {
    /// A block; `limits` are by query, and infinite if all distances are wanted.
    pub(super) fn new(
        chunk: Chunk,
        (texts, key): (Arc<Form>, SharedKey),
        wanted: &Wanted,
        (lengths, letters): (&Arc<[usize]>, &[Vec<char>]),
        limits: &[f64],
    ) -> Self {
        let letters = letters.iter().map(Vec::as_slice);
        let (queries, most) = match (&*texts, wanted) {
            (Form::Planes(texts), Wanted::Levenshtein) => {
                let most = Shape::of_queries(texts, lengths, true).limit_max();
                (Queries::Edits(CodedQueries::new(texts, letters)), Some(most))
            }
            (Form::Letters(texts), Wanted::Alignments(numbers)) => {
                let queries = AlignedQueries::new(numbers, texts, letters);
                // A few bytes a table of numbers: all of them come back.
                (Queries::Alignments(Arc::clone(numbers), queries), None)
            }
            _ => unreachable!("texts have the form that the distance needs"),
        };
        let limits = most.filter(|_| limits.iter().all(|limit| limit.is_finite())).map(|most| {
            // Distances are whole numbers.
            limits.iter().map(|limit| (limit.floor() as i64).clamp(-1, i64::from(most)) as i32).collect()
        });
        Self {
            chunk,
            texts,
            key,
            lengths: Arc::clone(lengths),
            queries,
            limits,
            brings: false,
            device: String::new(),
            count: 0,
            entries: Vec::new(),
            distances: Vec::new(),
            width: 0,
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

    /// Cells of the largest table.
    pub(super) fn cells_max(&self) -> usize {
        self.texts.longest() * self.lengths.iter().max().unwrap_or(&0)
    }

    fn pairs(&self) -> usize {
        self.queries() * self.texts.positions()
    }

    fn capacity(&self) -> usize {
        (self.pairs() / ENTRIES_SHARE).clamp(ENTRIES_MIN.min(self.pairs()).max(1), ENTRIES_MAX)
    }

    /// What the device has found; nothing if that cannot be.
    pub(super) fn found(&self) -> Option<Found<'_>> {
        if self.limits.is_none() {
            let are_scores = match &self.queries {
                Queries::Edits(_) => false,
                Queries::Alignments(numbers, _) => matches!(**numbers, Numbers::Local(_)),
            };
            let (bytes, positions, width) = (&self.distances, self.texts.positions(), self.width);
            return (bytes.len() == self.pairs() * width).then_some(Found::All(Distances {
                bytes,
                positions,
                width,
                are_scores,
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
            if query >= self.queries() || position >= self.texts.order().len() {
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
        match (&self.queries, self.brings) {
            (Queries::Edits(_), false) => "edit distances",
            (Queries::Edits(_), true) => "texts and edit distances",
            (Queries::Alignments(..), false) => "alignments",
            (Queries::Alignments(..), true) => "texts and alignments",
        }
    }

    fn feed(&mut self, feed: &mut Feed<'_>) -> Result<(), DeviceError> {
        self.device = feed.device().info().to_string();
        self.brings = !feed.device().holds(self.key);
        let (capacity, pairs) = (self.capacity(), self.pairs());
        match (&*self.texts, &self.queries) {
            (Form::Planes(planes), Queries::Edits(queries)) => {
                let words = planes.words();
                feed.shared("planes", self.key, words.max(1), |to: &mut [u32]| {
                    planes.copy_to(&mut to[..words]);
                    Ok(())
                })?;
                let limits = self.limits.as_ref().map(|limits| Limits { limits, capacity });
                let shape = Shape::of_queries(planes, &self.lengths, limits.is_some());
                self.width = shape.distance_bytes();
                compare_with_queries(feed, shape, planes, queries, limits)?;
                if limits.is_some() {
                    feed.read::<u32>("counts", 1)?;
                    return feed.read::<[u32; 2]>("entries", capacity);
                }
                feed.read::<u8>("distances", pairs * self.width)
            }
            (Form::Letters(texts), Queries::Alignments(numbers, queries)) => {
                let letters = texts.letters();
                feed.shared("letters", self.key, letters.len().max(1), |to: &mut [u16]| {
                    to[..letters.len()].copy_from_slice(letters);
                    Ok(())
                })?;
                let shape = alignments::Shape::of(numbers, texts, queries);
                self.width = size_of::<i32>();
                align_with_queries(feed, shape, numbers, texts, queries)?;
                feed.read::<u8>("numbers", pairs * self.width)
            }
            _ => unreachable!("texts have the form that the distance needs"),
        }
    }

    fn collect(&mut self, back: &Back<'_>) {
        if self.limits.is_none() {
            let name = if matches!(self.queries, Queries::Edits(_)) { "distances" } else { "numbers" };
            self.distances = back.numbers::<u8>(name).to_vec();
            return;
        }
        self.count = back.numbers::<u32>("counts")[0] as usize;
        let entries = back.numbers::<[u32; 2]>("entries");
        self.entries = entries[..self.count.min(entries.len())].to_vec();
    }
}
