//! Ranks by counting, for a block of queries.
//!
//! A query keeps its distances to the objects of its class, sorted. For each object of another class it counts one at the
//! first object of its class that is farther. The sums of these counts are the ranks. Memory: 12 bytes for each query and
//! object of its class.
//!
//! Invariants: distances are compared as `f32`, and equal ones by the ids of their objects, so that the ranks are those of
//! a sorted list of all objects; a query counts each object once.

use std::ops::Range;

use boxwork_kernels::memory::{MemoryRefused, room};
use boxwork_kernels::quality::average_precision_of_places;

use crate::quality::query_blocks::QueryBlocks;

/// The precision counts the objects of the query's class among so many of the nearest.
const NEAREST: u64 = 10;

/// The queries of a block, and the ranks of their classes' objects.
#[derive(Default)]
pub(super) struct Ranks {
    queries: Range<u32>,
    /// The first query without room.
    next: u32,
    /// The first entry of each query, and the end of the last.
    starts: Vec<usize>,
    /// Entries that each query has so far.
    filled: Vec<u32>,
    /// A distance and an object, ordered as numbers, by query.
    entries: Vec<u64>,
    /// Objects of other classes between an entry and the one before.
    between: Vec<u32>,
}

/// A distance as `f32` and the rank of its object, whose order as a number is that of the distances, then of the objects.
fn entry(distance: f64, rank: u32) -> u64 {
    let bits = (distance as f32).to_bits();
    let ordered = if bits >> 31 == 0 { bits | 1 << 31 } else { !bits };
    u64::from(ordered) << 32 | u64::from(rank)
}

/// Empties a list and gives it room for `count` elements. Memory that is too little goes before the new comes.
fn empty<T>(list: &mut Vec<T>, count: usize, what: impl FnOnce() -> String) -> Result<(), MemoryRefused> {
    list.clear();
    if list.capacity() < count {
        *list = Vec::new();
        *list = room(count, what, "free memory")?;
    }
    Ok(())
}

impl Ranks {
    /// Begins a block, in the memory of the one before. [`Ranks::make_room`] then makes room for its queries.
    ///
    /// # Errors
    /// When memory is refused.
    pub(super) fn begin(&mut self, blocks: &QueryBlocks, block: u32) -> Result<(), MemoryRefused> {
        let (queries, mates) = (blocks.block(block), blocks.block_mates(block) as usize);
        (self.next, self.queries) = (queries.start, queries.clone());
        let what = || format!("keeping the distances of {} objects to their classes", queries.len());
        empty(&mut self.starts, queries.len() + 1, what)?;
        empty(&mut self.filled, queries.len(), what)?;
        empty(&mut self.entries, mates, what)?;
        empty(&mut self.between, mates, what)?;
        self.starts.push(0);
        Ok(())
    }

    /// Makes room for the next query, if there is one, and returns the work of that. New memory is first written here: for
    /// the block at once that would take a tenth of a second.
    pub(super) fn make_room(&mut self, blocks: &QueryBlocks) -> Option<usize> {
        let query = self.next;
        if query == self.queries.end {
            return None;
        }
        let end = self.entries.len() + blocks.mates(query) as usize;
        self.entries.resize(end, 0);
        self.between.resize(end, 0);
        self.starts.push(end);
        self.filled.push(0);
        self.next += 1;
        Some(self.work(query))
    }

    fn idx(&self, query: u32) -> usize {
        (query - self.queries.start) as usize
    }

    fn of(&self, query: u32) -> Range<usize> {
        let idx = self.idx(query);
        self.starts[idx]..self.starts[idx + 1]
    }

    /// The work to sort or to sum up a query, in objects.
    pub(super) fn work(&self, query: u32) -> usize {
        self.of(query).len() + 1
    }

    /// Adds the distance of an object of the query's class; the query is ignored if the block does not have it.
    pub(super) fn add_mate(&mut self, query: u32, distance: f64, rank: u32) {
        if self.queries.contains(&query) {
            let idx = self.idx(query);
            let place = self.starts[idx] + self.filled[idx] as usize;
            assert!(place < self.starts[idx + 1], "a query meets more objects of its class than there are");
            self.entries[place] = entry(distance, rank);
            self.filled[idx] += 1;
        }
    }

    /// Sorts the distances of a query, all of which have been added.
    pub(super) fn sort(&mut self, query: u32) {
        let (idx, of_query) = (self.idx(query), self.of(query));
        assert_eq!(self.filled[idx] as usize, of_query.len(), "a query lacks objects of its class");
        self.entries[of_query].sort_unstable();
    }

    /// Counts an object of another class; the query is ignored if the block does not have it.
    pub(super) fn count_other(&mut self, query: u32, distance: f64, rank: u32) {
        if self.queries.contains(&query) {
            let (of_query, entry) = (self.of(query), entry(distance, rank));
            let nearer = self.entries[of_query.clone()].partition_point(|mate| *mate < entry);
            if let Some(count) = self.between[of_query].get_mut(nearer) {
                *count += 1;
            }
        }
    }

    /// The average precision of a query, and its precision among the nearest; nothing of an object that is alone in its
    /// class.
    pub(super) fn quality(&self, query: u32) -> Option<(f64, f64)> {
        let between = &self.between[self.of(query)];
        let places = || {
            let mut others = 0;
            between.iter().zip(0u64..).map(move |(count, mates)| {
                others += u64::from(*count);
                mates + others
            })
        };
        let near = places().take_while(|place| *place < NEAREST).count();
        Some((average_precision_of_places(places(), between.len())?, near as f64 / NEAREST as f64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_stand_in_the_order_of_distances_and_then_of_ranks() {
        let distances = [-1.0, -0.0, 0.0, 1e-30, 0.1, 1.0, 1e30, f64::INFINITY];
        for (at, a) in distances.iter().enumerate() {
            for (at_b, b) in distances.iter().enumerate() {
                for (rank, rank_b) in [(0, 0), (0, u32::MAX), (u32::MAX, 0)] {
                    let expected = at.cmp(&at_b).then(rank.cmp(&rank_b));
                    assert_eq!(entry(*a, rank).cmp(&entry(*b, rank_b)), expected, "{a} {rank}, {b} {rank_b}");
                }
            }
        }
        // Both are the same f32.
        assert!(entry(0.1, 3) < entry(0.1 + 1e-12, 4) && entry(0.1 + 1e-12, 3) < entry(0.1, 4));
    }
}
